//! What a comparison found: the shape of `compare.json`, and what is printed as a table.
//!
//! It is made once from the findings, so the table and the file cannot disagree. Changes are of B against A: 0.1 is
//! 10 % more.

use serde::{Deserialize, Serialize};

use super::answer::{Answer, ErrorsAnswer, Finding, Judged, Pair};
use super::blocks::{Block, Interleaved, Kind, Side};
use super::metrics::{METRIC, Measured, Metric};
use crate::stats::interval::{Interval, bootstrap_t};
use crate::stats::location::{deviation, hodges_lehmann, hodges_lehmann_shift, mean};
use crate::stats::rank::{mann_whitney, signed_rank};

/// The format's name and version: the first field of every `compare.json`.
pub const SCHEMA: &str = "weir-lab-compare/1";
/// Resamples of the bootstrap interval that is printed beside the one that judges.
const RESAMPLES: usize = 10_000;

/// One comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    pub schema: String,
    pub answer: Answer,
    /// The metric that the answer rests on; absent where errors decided, or nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub leading: Option<String>,
    pub form: Form,
    /// What A and B are.
    pub a: String,
    pub b: String,
    /// The promise: the chance of any false "better" or "worse", over all metrics and looks.
    pub alpha: f64,
    /// The change below which a difference does not matter.
    pub margin: f64,
    pub seed: u64,
    pub metrics: Vec<MetricAnswer>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub errors: Option<ErrorsAnswer>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub looks: Option<Looks>,
    /// How many blocks of A and B were asked for; absent where there are no blocks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub blocks_wanted: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub blocks: Vec<BlockResult>,
    /// What a reader must know to trust the answer, or not to.
    pub notes: Vec<String>,
    /// It was stopped before its end.
    pub partial: bool,
}

/// How the numbers of the two sides belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Blocks of A and B next to each other.
    Blocks,
    /// Two runs, cut in parts; noise from run to run is not seen.
    Parts,
    /// Two runs of which only totals are known: no interval is possible.
    Points,
}

/// How often the data was looked at before the end.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Looks {
    /// The look at which it ended, from 1.
    pub at: usize,
    pub of: usize,
    /// The part of the promise that this look spent.
    pub alpha: f64,
}

/// What is concluded from one metric. What cannot be known is absent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MetricAnswer {
    pub name: String,
    pub answer: Answer,
    /// The geometric mean of each side, in the metric's unit.
    pub a: f64,
    pub b: f64,
    pub change: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sure: Option<Sure>,
}

/// How sure a metric's change is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sure {
    pub interval: Interval,
    /// The level of that interval: this metric's share of the promise.
    pub level: f64,
    pub p_value: f64,
    /// The least change that would have been found in four of five such comparisons.
    pub detectable_change: f64,
    /// Samples of each side: blocks, or parts of a run. The deviation is of their ln-ratios, for blocks only.
    pub samples_a: usize,
    pub samples_b: usize,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub deviation: Option<f64>,
    /// Blocks until the interval is half as wide as the margin, with noise as it was here.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub blocks_needed: Option<u32>,
    /// Second opinions that assume no shape. They decide nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bootstrap_interval: Option<Interval>,
    pub hodges_lehmann_change: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rank_p_value: Option<f64>,
}

/// One block, as it was run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BlockResult {
    pub number: usize,
    /// Whether it is a control: A twice, the second in the place of B.
    pub control: bool,
    /// `AB` or `BA`.
    pub order: String,
    /// Why it is not used, if it is not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dropped: Option<String>,
    pub values: Vec<BlockValue>,
}

/// What a block gave for one metric, in the metric's unit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BlockValue {
    pub name: String,
    pub a: f64,
    pub b: f64,
}

/// What was compared, and by which promise.
#[derive(Clone, Debug)]
pub struct Question {
    pub a: String,
    pub b: String,
    pub alpha: f64,
    /// As a change: 0.05.
    pub margin: f64,
    pub seed: u64,
}

impl Comparison {
    /// Of blocks.
    pub fn of_blocks(question: &Question, interleaved: &Interleaved) -> Comparison {
        let mut comparison = Comparison::of(question, Form::Blocks, &interleaved.judged);
        comparison.looks = Some(Looks {
            at: interleaved.look,
            of: interleaved.looks,
            alpha: interleaved.alpha,
        });
        comparison.blocks_wanted = Some(interleaved.wanted);
        comparison.blocks = interleaved.blocks.iter().map(BlockResult::of).collect();
        comparison.notes = notes(interleaved);
        comparison.partial = interleaved.interrupted;
        comparison
    }

    /// How many blocks were dropped, where fewer are left than were asked for and the answer is not known for that. A
    /// comparison that was stopped lacks them for another reason.
    pub fn dropped_too_many(&self) -> Option<usize> {
        let count = |is_dropped: bool| {
            let blocks = self.blocks.iter();
            blocks.filter(move |b| !b.control && b.dropped.is_some() == is_dropped)
        };
        let is_short = count(false).count() < self.blocks_wanted?;
        let is_unknown = self.answer == Answer::CannotTell && !self.partial;
        let dropped = count(true).count();
        (is_short && is_unknown && dropped > 0).then_some(dropped)
    }

    /// Of two runs in parts.
    pub fn of_parts(question: &Question, judged: &Judged) -> Comparison {
        let mut comparison = Comparison::of(question, Form::Parts, judged);
        comparison.notes.push(
            "one run of each: the intervals hold the noise within the runs, not what differs from run to run; \
             interleaved blocks see both"
                .to_owned(),
        );
        comparison
    }

    /// Of two points: changes without any interval.
    pub fn of_points(question: &Question, a: &Measured, b: &Measured) -> Comparison {
        let both = METRIC.iter().zip(a.values.iter().zip(&b.values));
        let metrics: Vec<MetricAnswer> = both
            .filter_map(|(metric, (a, b))| MetricAnswer::of_point(metric, (*a)?, (*b)?))
            .collect();
        Comparison {
            metrics,
            notes: vec![
                "no interval possible: these are totals of one run each, and nothing in them says how far such totals \
                 vary"
                    .to_owned(),
            ],
            ..Comparison::empty(question, Form::Points)
        }
    }

    fn of(question: &Question, form: Form, judged: &Judged) -> Comparison {
        let mut rng = fastrand::Rng::with_seed(question.seed);
        let findings = judged.findings.iter();
        Comparison {
            answer: judged.answer,
            leading: judged.leading.map(str::to_owned),
            metrics: findings
                .map(|finding| MetricAnswer::of(finding, &mut rng))
                .collect(),
            errors: Some(judged.errors.clone()),
            ..Comparison::empty(question, form)
        }
    }

    fn empty(question: &Question, form: Form) -> Comparison {
        Comparison {
            schema: SCHEMA.to_owned(),
            answer: Answer::CannotTell,
            leading: None,
            form,
            a: question.a.clone(),
            b: question.b.clone(),
            alpha: question.alpha,
            margin: question.margin,
            seed: question.seed,
            metrics: Vec::new(),
            errors: None,
            looks: None,
            blocks_wanted: None,
            blocks: Vec::new(),
            notes: Vec::new(),
            partial: false,
        }
    }
}

impl MetricAnswer {
    fn of(finding: &Finding, rng: &mut fastrand::Rng) -> MetricAnswer {
        let geometric = |ln: &[f64]| mean(ln).map_or(f64::NAN, f64::exp);
        MetricAnswer {
            name: finding.metric.name.to_owned(),
            answer: finding.answer,
            a: geometric(&finding.a),
            b: geometric(&finding.b),
            change: finding.estimate.mean.exp_m1(),
            sure: Some(Sure::of(finding, rng)),
        }
    }

    fn of_point(metric: &Metric, a: f64, b: f64) -> Option<MetricAnswer> {
        (a > 0.0 && b > 0.0).then(|| MetricAnswer {
            name: metric.name.to_owned(),
            answer: Answer::CannotTell,
            a,
            b,
            change: b / a - 1.0,
            sure: None,
        })
    }
}

impl Sure {
    fn of(finding: &Finding, rng: &mut fastrand::Rng) -> Sure {
        let ratios = finding.ratios();
        let bootstrap = ratios
            .as_deref()
            .and_then(|ratios| bootstrap_t(ratios, finding.level, RESAMPLES, rng));
        let (shift, ranked) = match &ratios {
            Some(ratios) => (hodges_lehmann(ratios), signed_rank(ratios)),
            None => (
                hodges_lehmann_shift(&finding.a, &finding.b),
                mann_whitney(&finding.a, &finding.b),
            ),
        };
        Sure {
            interval: as_change(finding.interval),
            level: finding.level,
            p_value: finding.estimate.p_value(),
            detectable_change: finding.design().detectable().exp_m1(),
            samples_a: finding.a.len(),
            samples_b: finding.b.len(),
            deviation: ratios.as_deref().and_then(deviation),
            blocks_needed: finding.blocks_needed(),
            bootstrap_interval: bootstrap.map(as_change),
            hodges_lehmann_change: shift.unwrap_or(finding.estimate.mean).exp_m1(),
            rank_p_value: ranked.map(|ranked| ranked.p_value),
        }
    }
}

impl BlockResult {
    fn of(block: &Block) -> BlockResult {
        let Pair { a, b } = &block.pair;
        let both = METRIC.iter().zip(a.values.iter().zip(&b.values));
        let value = |(metric, (a, b)): (&Metric, (&Option<f64>, &Option<f64>))| {
            Some(BlockValue {
                name: metric.name.to_owned(),
                a: (*a)?,
                b: (*b)?,
            })
        };
        BlockResult {
            number: block.number,
            control: block.kind == Kind::Control,
            order: match block.first {
                Side::A => "AB".to_owned(),
                Side::B => "BA".to_owned(),
            },
            dropped: block.dropped.clone(),
            values: both.filter_map(value).collect(),
        }
    }
}

fn as_change(interval: Interval) -> Interval {
    Interval {
        low: interval.low.exp_m1(),
        high: interval.high.exp_m1(),
    }
}

/// What the blocks themselves say about their own worth.
fn notes(interleaved: &Interleaved) -> Vec<String> {
    let mut notes = Vec::new();
    let dropped = interleaved.blocks.iter().filter(|b| b.dropped.is_some());
    if interleaved.pairs().len() < super::answer::SAMPLES_MIN {
        notes.push(format!(
            "{} of {} blocks were dropped: too few are left to say anything; free the machine, or lower the load",
            dropped.count(),
            interleaved.blocks.len()
        ));
    }
    notes.extend(control_note(interleaved));
    notes
}

/// Whether the controls of A and A lie further apart than the blocks' own spread explains, for the leading metric.
fn control_note(interleaved: &Interleaved) -> Option<String> {
    let finding = interleaved.judged.findings.first()?;
    let spread = deviation(&finding.ratios()?)?;
    let place = METRIC.iter().position(|m| m.name == finding.metric.name)?;
    let controls = interleaved.controls();
    let ratios = controls.iter().filter_map(|pair| {
        let (a, b) = (pair.a.values[place]?, pair.b.values[place]?);
        Some((b / a).ln())
    });
    let ratios: Vec<f64> = ratios.collect();
    let each = interleaved.alpha / ratios.len().max(1) as f64;
    let band =
        crate::stats::distributions::t_quantile(1.0 - 0.5 * each, finding.estimate.df) * spread;
    let wild = ratios.iter().find(|ratio| ratio.abs() > band)?;
    Some(format!(
        "a control of A and A differs by {:+.1} % in {}, further than the blocks spread: the machine changed while it \
         was measured, trust the answer less",
        100.0 * wild.exp_m1(),
        finding.metric.title
    ))
}
