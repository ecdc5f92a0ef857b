//! `weir lab compare`: did it change?
//!
//! Two servers are measured in blocks that lie next to each other, or earlier runs are read; the answer is better,
//! worse, same, or *cannot tell*, with the least difference that would have been found. It never concludes from
//! one run what only several can show.

pub mod answer;
pub mod blocks;
pub mod comparison;
pub mod imports;
pub mod metrics;
pub mod process;
pub mod table;

use std::path::{Path, PathBuf};

use clap::Args;

use crate::exit::{Ended, Exit, Failure};
use crate::output::{self, artefact};
use answer::{Answer, Rule};
use comparison::{Comparison, Question};

/// The name of the file in `--out`.
pub const COMPARE_FILE: &str = "compare.json";

/// Says whether B is better, worse or the same as A
#[derive(Debug, Args)]
pub struct Compare {
    /// Two or more earlier runs: the first is A, each other one B (run.json, its folder, or a k6 summary)
    #[arg(value_name = "RUN")]
    what: Vec<String>,
    /// The change below which a difference does not matter
    #[arg(long, value_name = "SHARE", default_value = "5%")]
    margin: String,
    /// The same, said as the most that throughput may drop: 20% is a margin of 25%
    #[arg(long, value_name = "SHARE", conflicts_with = "margin")]
    max_drop: Option<String>,
    /// The chance of a false "better" or "worse" that is allowed, over all metrics
    #[arg(long, value_name = "SHARE", default_value = "5%")]
    alpha: String,
    /// Judge only this metric (repeatable) [default: all that are measured]
    #[arg(long, value_name = "METRIC")]
    metric: Vec<String>,
    /// End with code 97 when the answer is "cannot tell"
    #[arg(long)]
    strict: bool,
    /// Print one JSON object instead of the table
    #[arg(long)]
    json: bool,
    /// Write compare.json to this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

impl Compare {
    pub fn run(self) -> Ended {
        let rule = self.rule()?;
        self.check_out()?;
        let comparisons = self.imported(&rule)?;
        self.deliver(&comparisons)?;
        Ok(self.exit(&comparisons))
    }

    fn rule(&self) -> Result<Rule, Failure> {
        let judged = metrics::places(&self.metric).map_err(|name| {
            let known: Vec<&str> = metrics::METRIC.iter().map(|m| m.name).collect();
            Failure::new(
                format!("`{name}` is no metric that can be compared"),
                format!("one of {}", known.join(", ")),
            )
        })?;
        let margin = match &self.max_drop {
            Some(drop) => -(-share("--max-drop", drop)?).ln_1p(),
            None => share("--margin", &self.margin)?.ln_1p(),
        };
        Ok(Rule {
            alpha: share("--alpha", &self.alpha)?,
            margin,
            judged,
        })
    }

    fn question(&self, rule: &Rule, a: &str, b: &str) -> Question {
        Question {
            a: a.to_owned(),
            b: b.to_owned(),
            alpha: rule.alpha,
            margin: rule.margin.exp_m1(),
            seed: 1,
        }
    }

    /// Each run after the first against the first.
    fn imported(&self, rule: &Rule) -> Result<Vec<Comparison>, Failure> {
        if !(2..=imports::RUNS_MAX).contains(&self.what.len()) {
            return Err(Failure::new(
                format!("{} runs cannot be compared", self.what.len()),
                format!("give 2 to {} of them", imports::RUNS_MAX),
            ));
        }
        let read = self.what.iter().map(|path| imports::read(Path::new(path)));
        let runs = read.collect::<Result<Vec<_>, _>>()?;
        let (a, others) = runs.split_first().expect("there are at least two");
        // One promise for all of them.
        let each = Rule {
            alpha: rule.alpha / others.len() as f64,
            ..rule.clone()
        };
        let compared = others.iter().map(|b| {
            let question = self.question(rule, &a.label, &b.label);
            imports::compare(a, b, &question, &each)
        });
        Ok(compared.collect())
    }

    fn check_out(&self) -> Result<(), Failure> {
        let Some(folder) = &self.out else {
            return Ok(());
        };
        std::fs::create_dir_all(folder).map_err(|error| {
            Failure::new(
                format!("{}: {error}", folder.display()),
                "name a folder that can be made and written",
            )
        })?;
        artefact::check(&folder.join(COMPARE_FILE))
    }

    /// Prints first, so that a full disk costs a file and not the answer.
    fn deliver(&self, comparisons: &[Comparison]) -> Result<(), Failure> {
        let json = as_json(comparisons)?;
        let text = match self.json {
            true => json.clone(),
            false => {
                let tables: Vec<String> = comparisons.iter().map(table::table).collect();
                tables.join("\n")
            }
        };
        output::say(&mut std::io::stdout(), &text)?;
        if let Some(folder) = &self.out {
            artefact::replace(&folder.join(COMPARE_FILE), json.as_bytes(), |draft| {
                let back = std::fs::read(draft).map_err(|e| Failure::new(e.to_string(), ""))?;
                let back = serde_json::from_slice::<serde_json::Value>(&back);
                back.map(drop).map_err(|e| Failure::new(e.to_string(), ""))
            })?;
        }
        Ok(())
    }

    /// The worst of all answers.
    fn exit(&self, comparisons: &[Comparison]) -> Exit {
        let any = |answer| comparisons.iter().any(|c| c.answer == answer);
        match () {
            () if comparisons.iter().any(|c| c.partial) => Exit::Interrupted,
            () if any(Answer::Worse) => Exit::Worse,
            () if self.strict && any(Answer::CannotTell) => Exit::CannotTell,
            () => Exit::Pass,
        }
    }
}

/// One comparison as itself; several as a list under `comparisons`.
fn as_json(comparisons: &[Comparison]) -> Result<String, Failure> {
    let text = match comparisons {
        [one] => serde_json::to_string_pretty(one),
        many => serde_json::to_string_pretty(&serde_json::json!({
            "schema": comparison::SCHEMA,
            "comparisons": many,
        })),
    };
    let text = text.map_err(|e| Failure::new(format!("the comparison is no JSON: {e}"), ""))?;
    Ok(text + "\n")
}

/// Reads a share: `5%` or `0.05`, above 0 and below 1.
fn share(flag: &str, text: &str) -> Result<f64, Failure> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|n| n / 100.0),
        None => text.parse(),
    };
    match number {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err(Failure::new(
            format!("{flag} {text} is no share between 0 and 100 %"),
            "write 5%, for instance",
        )),
    }
}
