//! The course of a sweep: which run follows which, and what is fitted to what was found.

use std::time::Duration;

use super::levels::{self, Levels};
use super::{SweepArgs, recovery};
use crate::bench::side::Spec;
use crate::bench::stand::Stand;
use crate::exit::{Exit, Failure};
use crate::facts::REPEATS_MIN;
use crate::facts::level::{ALPHA, CellFacts, LevelFacts, Loop};
use crate::facts::sweep::{
    CostModel, Direct, DirectLevel, Limiter, PayloadFacts, Scaling, ShapeFacts, Sweep,
};
use crate::interrupt;
use crate::judge::validity::{SATURATED_MIN, exit};
use crate::plan::Plan;
use crate::report::words::{micros, number};
use crate::result::Verdict;
use crate::stats::interval::Estimate;
use crate::stats::knee::{Knee, SHARE};
use crate::stats::line::{Line, PointOfFit};
use crate::stats::location::deviation;
use crate::stats::usl::Usl;
use crate::tally::Fault;
use crate::template::Body;

/// The ladder ends when so many levels in a row gave no more.
const FLAT_MIN: usize = 2;
/// Connections of an open load at least, and as a multiple of the knee's.
const OPEN_CONNECTIONS_MIN: f64 = 64.0;
const OPEN_CONNECTIONS_TIMES: f64 = 4.0;
/// A size is never taken to be surer than this, as a share.
const SURE_MAX: f64 = 0.002;
/// Fewest sizes of a cost model.
const SIZES_MIN: usize = 3;

pub(super) struct Course<'a> {
    args: &'a SweepArgs,
    pub(super) stand: Stand,
    direct: Option<Spec>,
    pub(super) hold: Duration,
    pub(super) found: Sweep,
    /// Of each level of the ladder: verdicts that the user does not accept.
    unaccepted: Vec<Vec<Verdict>>,
    is_wrong: bool,
    cells: usize,
    rng: fastrand::Rng,
}

impl<'a> Course<'a> {
    pub(super) fn new(
        args: &'a SweepArgs,
        stand: Stand,
        direct: Option<Spec>,
        hold: Duration,
    ) -> Course<'a> {
        Course {
            args,
            stand,
            direct,
            hold,
            found: Sweep::default(),
            unaccepted: Vec::new(),
            is_wrong: false,
            cells: 0,
            rng: fastrand::Rng::with_seed(args.asked.seed()),
        }
    }

    /// Everything that was asked for, in an order in which each part knows what it needs.
    pub(super) fn carry_out(&mut self) -> Result<(), Failure> {
        self.ladder()?;
        self.bend();
        let Some(knee) = self.found.knee else {
            return Ok(());
        };
        self.against_direct(knee)?;
        self.arrivals(knee)?;
        self.overload(knee)?;
        self.payloads(knee)?;
        self.shapes(knee)
    }

    /// What was found, with where and how.
    pub(super) fn facts(self, command: Vec<String>) -> Sweep {
        let setting = self
            .stand
            .setting(&self.args.asked, command, interrupt::asked());
        let mut found = self.found;
        found.setting = setting;
        found.payload_bytes = self
            .stand
            .planned()
            .ok()
            .and_then(|(cell, _)| body_bytes(&cell.plan));
        found.setting.warnings.extend(limited(&found));
        found
    }

    /// How the command ends: whole, right, valid where the headline stands, and at its limit, in this order.
    pub(super) fn exit(&self) -> Exit {
        let knee = self.found.knee;
        let at_knee = knee.and_then(|knee| self.unaccepted.get(knee.index));
        let verdict = crate::bench::asked::worst(at_knee.into_iter().flatten().copied());
        let accepts_rising = self.args.asked.flags.given.iter().any(|given| {
            given.flag.name == "accept" && given.text.contains(Verdict::NotSaturated.as_str())
        });
        match exit(verdict) {
            _ if interrupt::asked() => Exit::Interrupted,
            _ if self.is_wrong => Exit::Integrity,
            Exit::Pass if !knee.is_some_and(|knee| knee.is_bent) && !accepts_rising => {
                Exit::NotSaturated
            }
            exit => exit,
        }
    }

    fn closed(
        &mut self,
        level: &LevelFacts,
        more: &[(&str, &str)],
    ) -> Result<(CellFacts, Verdict), Failure> {
        let connections = level.at.to_string();
        let mut flags = vec![("connections", connections.as_str())];
        flags.extend(more);
        self.cell(level, &[], &flags)
    }

    fn open(
        &mut self,
        level: &LevelFacts,
        connections: f64,
    ) -> Result<(CellFacts, Verdict), Failure> {
        let (rate, connections) = (level.at.to_string(), connections.to_string());
        let queue = self.queue();
        let mut flags = vec![
            ("rate", rate.as_str()),
            ("connections", connections.as_str()),
        ];
        flags.extend(queue.as_deref().map(|queue| ("queue", queue)));
        self.cell(level, &["pause"], &flags)
    }

    /// A queue of one second of what the knee carries, unless another was asked for.
    pub(super) fn queue(&self) -> Option<String> {
        let rate = self.found.knee?.rate.ceil().max(1.0);
        self.args
            .asked
            .flag("queue")
            .is_none()
            .then(|| rate.to_string())
    }

    /// One run.
    fn cell(
        &mut self,
        level: &LevelFacts,
        without: &[&str],
        flags: &[(&str, &str)],
    ) -> Result<(CellFacts, Verdict), Failure> {
        let measured = self.stand.run(without, flags)?;
        let cell = CellFacts::of(&measured.run);
        self.note(&level.label, &cell);
        Ok((cell, measured.unaccepted))
    }

    /// Tells how a run went, and remembers a wrong answer.
    fn note(&mut self, label: &str, cell: &CellFacts) {
        self.cells += 1;
        self.is_wrong |= cell
            .errors
            .get(Fault::Integrity.as_str())
            .is_some_and(|n| *n > 0);
        let verdict = match cell.verdict {
            Verdict::Valid => String::new(),
            other => format!(" ({})", other.as_str()),
        };
        let p99 = cell
            .p99_us
            .map_or(String::new(), |us| format!(", p99 {}", micros(us)));
        let failed = match cell.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        let about: usize = self.args.cells().iter().map(|(_, count)| count).sum();
        self.args.asked.tell(&format!(
            "sweep: {} of about {about}: {label}: {}/s{p99}{failed}{verdict}",
            self.cells,
            number(cell.rate)
        ));
    }

    /// Repeats levels in an order that is drawn anew each time, until each has as many runs as were asked for.
    fn repeated(
        &mut self,
        levels: &mut [LevelFacts],
        mut run: impl FnMut(&mut Self, &LevelFacts) -> Result<CellFacts, Failure>,
    ) -> Result<(), Failure> {
        for round in 0..self.args.repeat as usize {
            let mut order: Vec<usize> = (0..levels.len())
                .filter(|i| levels[*i].runs.len() <= round)
                .collect();
            self.rng.shuffle(&mut order);
            for index in order {
                if interrupt::asked() {
                    return Ok(());
                }
                let cell = run(self, &levels[index])?;
                levels[index].runs.push(cell);
            }
        }
        Ok(())
    }

    /// Up the ladder once, to see where it ends; then each level again.
    fn ladder(&mut self) -> Result<(), Failure> {
        let mut at = match &self.args.closed {
            Levels::These(levels) => levels.clone(),
            _ => vec![1.0],
        };
        let is_auto = !matches!(self.args.closed, Levels::These(_));
        let mut next = 0;
        while next < at.len() && !interrupt::asked() {
            let mut level =
                LevelFacts::new(format!("{} connections", at[next]), Loop::Closed, at[next]);
            let (cell, verdict) = self.closed(&level, &[])?;
            answered(&level, &cell)?;
            level.runs.push(cell);
            self.found.closed.push(level);
            self.unaccepted.push(vec![verdict]);
            let doubled = at[next] * 2.0;
            if is_auto && !self.is_flat() && doubled <= f64::from(self.args.connections_max) {
                at.push(doubled);
            }
            next += 1;
        }
        let mut levels = std::mem::take(&mut self.found.closed);
        let mut unaccepted = std::mem::take(&mut self.unaccepted);
        let repeated = self.repeated(&mut levels, |course, level| {
            let (cell, verdict) = course.closed(level, &[])?;
            let index = at.iter().position(|at| *at == level.at).unwrap_or(0);
            unaccepted[index].push(verdict);
            Ok(cell)
        });
        (self.found.closed, self.unaccepted) = (levels, unaccepted);
        repeated
    }

    /// Whether the last levels gave no more than those before them.
    fn is_flat(&self) -> bool {
        let rates: Vec<f64> = self.found.closed.iter().map(LevelFacts::rate).collect();
        let Some(before) = rates
            .len()
            .checked_sub(FLAT_MIN)
            .filter(|before| *before > 0)
        else {
            return false;
        };
        let best = rates[..before].iter().copied().fold(0.0, f64::max);
        rates[before..].iter().all(|rate| best >= SHARE * rate)
    }

    /// Reads the ladder.
    fn bend(&mut self) {
        let points: Vec<(f64, f64)> = self.found.closed.iter().map(|l| (l.at, l.rate())).collect();
        self.found.knee = Knee::of(&points);
        self.found.usl = Usl::fit(&points);
        self.found.limiter = self.found.at_knee().map(limiter);
    }

    /// One connection and the knee, through the server and directly, in turns.
    fn against_direct(&mut self, knee: Knee) -> Result<(), Failure> {
        let Some(spec) = self.direct.clone() else {
            return Ok(());
        };
        let mut direct = Direct {
            target: spec.label.clone(),
            levels: Vec::new(),
        };
        let own = std::mem::replace(&mut self.stand.spec, spec.clone());
        let mut levels = vec![("1 connection".to_owned(), 1.0)];
        if knee.level > 1.0 {
            levels.push((format!("{} connections", knee.level), knee.level));
        }
        let measured = levels.into_iter().try_for_each(|(label, at)| {
            let mut through = LevelFacts::new(label.clone(), Loop::Closed, at);
            let mut beside = LevelFacts::new(label, Loop::Closed, at);
            for _ in 0..self.args.repeat {
                let is_direct_first = self.rng.bool();
                for is_direct in [is_direct_first, !is_direct_first] {
                    if interrupt::asked() {
                        return Ok(());
                    }
                    self.stand.spec = if is_direct { spec.clone() } else { own.clone() };
                    let side = if is_direct { &mut beside } else { &mut through };
                    let (cell, _) = self.closed(side, &[])?;
                    answered(side, &cell)?;
                    side.runs.push(cell);
                }
            }
            direct.levels.extend(paired(through, beside));
            Ok(())
        });
        self.stand.spec = own;
        self.found.direct = (!direct.levels.is_empty()).then_some(direct);
        measured
    }

    fn arrivals(&mut self, knee: Knee) -> Result<(), Failure> {
        let mut levels: Vec<LevelFacts> = match &self.args.open {
            Levels::None => return Ok(()),
            Levels::Auto => levels::SHARES
                .iter()
                .map(|share| {
                    // Rounded down: a share of what it carries must not be more than that.
                    let rate = (share * knee.rate).floor().max(1.0);
                    LevelFacts::new(
                        format!("{:.0} % of the knee", share * 100.0),
                        Loop::Open,
                        rate,
                    )
                })
                .collect(),
            Levels::These(rates) => rates
                .iter()
                .map(|rate| LevelFacts::new(format!("{rate} a second"), Loop::Open, *rate))
                .collect(),
        };
        let connections = open_connections(knee);
        let repeated = self.repeated(&mut levels, |course, level| {
            Ok(course.open(level, connections)?.0)
        });
        self.found.open = measured(levels);
        repeated
    }

    fn overload(&mut self, knee: Knee) -> Result<(), Failure> {
        let times = levels::times(self.args.overload);
        if times.is_empty() {
            return Ok(());
        }
        let named = |model, of: f64| -> Vec<LevelFacts> {
            let level = |times: &u32| {
                LevelFacts::new(
                    format!("{times} times"),
                    model,
                    (of * f64::from(*times)).ceil(),
                )
            };
            times.iter().map(level).collect()
        };
        let mut closed = named(Loop::Closed, knee.level);
        let repeated = self.repeated(&mut closed, |course, level| {
            Ok(course.closed(level, &[])?.0)
        });
        self.found.overload_closed = measured(closed);
        repeated?;
        let mut open = named(Loop::Open, knee.rate);
        let connections = open_connections(knee);
        let repeated = self.repeated(&mut open, |course, level| {
            Ok(course.open(level, connections)?.0)
        });
        self.found.overload_open = measured(open);
        repeated?;
        if !interrupt::asked() {
            recovery::probe(self, knee, self.args.overload, connections)?;
        }
        Ok(())
    }

    fn payloads(&mut self, knee: Knee) -> Result<(), Failure> {
        let sizes = self.args.payload.clone();
        let level = |at: f64, size: u64| {
            LevelFacts::new(format!("{size} bytes, {at} connections"), Loop::Closed, at)
        };
        let mut found: Vec<PayloadFacts> = sizes
            .iter()
            .map(|size| PayloadFacts {
                bytes: *size,
                light: level(1.0, *size),
                heavy: level(knee.level, *size),
            })
            .collect();
        for _ in 0..self.args.repeat {
            let mut order: Vec<(usize, bool)> = (0..found.len())
                .flat_map(|i| [(i, true), (i, false)])
                .collect();
            self.rng.shuffle(&mut order);
            for (index, is_light) in order {
                if interrupt::asked() {
                    break;
                }
                let size = found[index].bytes.to_string();
                let one = if is_light {
                    &found[index].light
                } else {
                    &found[index].heavy
                }
                .clone();
                let (cell, _) = self.closed(&one, &[("unique", &size)])?;
                answered(&one, &cell)?;
                let side = if is_light {
                    &mut found[index].light
                } else {
                    &mut found[index].heavy
                };
                side.runs.push(cell);
            }
        }
        found.retain(|payload| !payload.heavy.runs.is_empty());
        self.found.cost = cost(&found);
        self.found.payloads = found;
        Ok(())
    }

    /// Each shape with a server of its own.
    fn shapes(&mut self, knee: Knee) -> Result<(), Failure> {
        for shape in self.args.shapes.clone() {
            if interrupt::asked() {
                break;
            }
            let spec = self.stand.spec.clone();
            let stand = Stand::set_up(spec, self.stand.load.clone(), Some(shape))?;
            let how = stand.how();
            let whole = std::mem::replace(&mut self.stand, stand);
            let mut levels = [LevelFacts::new(
                format!("shape {shape}"),
                Loop::Closed,
                knee.level,
            )];
            let repeated = self.repeated(&mut levels, |course, level| {
                let (cell, _) = course.closed(level, &[])?;
                answered(level, &cell)?;
                Ok(cell)
            });
            self.stand = whole;
            let [level] = levels;
            if !level.runs.is_empty() {
                self.found.shapes.push(ShapeFacts { shape, how, level });
            }
            repeated?;
        }
        let points: Vec<(f64, f64)> = self
            .found
            .shapes
            .iter()
            .map(|s| (s.shape.cores, s.level.rate()))
            .collect();
        self.found.scaling = (!points.is_empty()).then(|| Scaling::of(points));
        Ok(())
    }
}

/// The size of each body, where there is one size.
fn body_bytes(plan: &Plan) -> Option<u64> {
    let [request] = plan.flows.first()?.requests.as_slice() else {
        return None;
    };
    match &request.body {
        Body::Unique { bytes } => Some(*bytes as u64),
        _ => None,
    }
}

fn open_connections(knee: Knee) -> f64 {
    (knee.level * OPEN_CONNECTIONS_TIMES)
        .max(OPEN_CONNECTIONS_MIN)
        .ceil()
}

/// Levels that were measured at all.
fn measured(mut levels: Vec<LevelFacts>) -> Vec<LevelFacts> {
    levels.retain(|level| !level.runs.is_empty());
    levels
}

/// A level at which nothing was answered well ends the sweep: there is nothing to sweep.
fn answered(level: &LevelFacts, cell: &CellFacts) -> Result<(), Failure> {
    if cell.rate > 0.0 || interrupt::asked() {
        return Ok(());
    }
    let errors: Vec<String> = cell
        .errors
        .iter()
        .map(|(what, n)| format!("{what} {n}"))
        .collect();
    let what = match errors.is_empty() {
        true => "nothing was answered in time".to_owned(),
        false => errors.join(", "),
    };
    Err(Failure::new(
        format!("at {} no answer was good: {what}", level.label),
        "look at the target, and try the same with weir lab load",
    ))
}

/// What held the target back: said from what was seen of it.
fn limiter(level: &LevelFacts) -> Limiter {
    let busiest = level.middle(|run| run.target_busiest_share);
    let is_ours = level
        .runs
        .iter()
        .any(|run| run.verdict == Verdict::GeneratorBound);
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let (what, evidence) = match busiest {
        _ if is_ours => (
            "generator",
            "At the knee the generator was the limit, so this is not the target's.".to_owned(),
        ),
        None => (
            "unknown",
            "What held it back is not known: nothing of the target was watched (give --watch)."
                .to_owned(),
        ),
        Some(busy) if busy >= SATURATED_MIN => (
            "cpu",
            format!(
                "At the knee its busiest thread was busy, or waiting for a CPU, for {} of the time: the CPU is its limit.",
                percent(busy)
            ),
        ),
        Some(busy) => (
            "wait",
            format!(
                "At the knee its busiest thread was busy for {} of the time only: not the CPU is its limit, but something that \
                 it waits for, such as a pool, a lock, or what is behind it.",
                percent(busy)
            ),
        ),
    };
    Limiter {
        what: what.to_owned(),
        evidence,
    }
}

/// What the server adds, from pairs that took turns.
fn paired(through: LevelFacts, direct: LevelFacts) -> Option<DirectLevel> {
    let pairs = through.runs.iter().zip(&direct.runs);
    let added: Vec<f64> = pairs
        .filter_map(|(a, b)| Some(a.mean_us? - b.mean_us?))
        .collect();
    let added_us = crate::stats::location::mean(&added)?;
    let added_interval = Estimate::paired(&added)
        .filter(|_| added.len() >= REPEATS_MIN)
        .map(|estimate| estimate.interval(ALPHA));
    Some(DirectLevel {
        through,
        direct,
        added_us,
        added_interval,
    })
}

/// The line through what a request costs at each size, each size counted by how sure it is.
fn cost(payloads: &[PayloadFacts]) -> Option<CostModel> {
    if payloads.len() < SIZES_MIN {
        return None;
    }
    let point = |payload: &PayloadFacts| {
        let each: Vec<f64> = payload
            .heavy
            .rates()
            .iter()
            .map(|rate| 1e6 / rate)
            .collect();
        let us = crate::stats::location::mean(&each)?;
        let scatter = deviation(&each).filter(|_| each.len() >= REPEATS_MIN);
        let error = scatter
            .map_or(us * SURE_MAX, |s| s / (each.len() as f64).sqrt())
            .max(us * SURE_MAX);
        Some(PointOfFit {
            x: payload.bytes as f64 / 1000.0,
            y: us,
            weight: error.powi(-2),
        })
    };
    let points: Vec<PointOfFit> = payloads.iter().map(point).collect::<Option<_>>()?;
    Some(CostModel {
        line: Line::fit(&points, ALPHA)?,
        kilobytes: points.iter().map(|p| p.x).collect(),
        found_us: points.iter().map(|p| p.y).collect(),
    })
}

/// A target that answers 429 shows its own limit and not what it carries.
fn limited(found: &Sweep) -> Option<String> {
    let levels = found.closed.iter().chain(&found.open);
    let (mut limited, mut rate) = (0, 0.0_f64);
    for run in levels.flat_map(|level| &level.runs) {
        limited += run.limited;
        rate = rate.max(run.requests as f64 / run.seconds.max(f64::MIN_POSITIVE));
    }
    (limited > 0).then(|| {
        format!(
            "The target answered 429 to {limited} requests: its own rate limit is what was measured. Raise it over {} a second \
             for the sweep.",
            number(rate)
        )
    })
}
