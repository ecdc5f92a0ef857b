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
pub mod repeat;
pub mod rig;
pub mod table;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::bench::launch::Launch;
use crate::bench::side::{Spec, given};
use crate::exit::{Ended, Exit, Failure};
use crate::experiments::load::Load;
use crate::interrupt;
use crate::output::{self, artefact};
use crate::report::html_of_comparisons;
use crate::scenario::Flags;
use answer::{Answer, Rule};
use blocks::{Count, interleave};
use comparison::{Comparison, Question};
use repeat::Truth;
use rig::Rig;

/// The name of the file in `--out`.
pub const COMPARE_FILE: &str = "compare.json";
/// Longest that a server may take to be ready.
const READY_MAX: Duration = Duration::from_secs(30);
/// How long a run of a block is, and its warm-up, when nothing else is said.
const DURATION: &str = "5s";
const WARMUP: &str = "1s";
/// Flags of a load that mean nothing here.
const NOT_HERE: &[&str] = &["threshold", "matrix", "summary-export", "csv", "hlog"];

const EXAMPLES: &str = "\
Examples:
  weir lab compare --a http://127.0.0.1:8080/ --b http://127.0.0.1:8081/ -R 2000 --a-watch 811 --b-watch 812
  weir lab compare --a-command './old serve --listen 127.0.0.1:{port}' \\
                   --b-command './new serve --listen 127.0.0.1:{port}' http://127.0.0.1:{port}/health -R 2000
  weir lab compare --a-command … --b-command … scenario.yaml --blocks auto     The file says ${env.BASE}
  weir lab compare runs/monday runs/friday --html compared.html                 Earlier runs, or k6 summaries

CPU time per request is compared first: give it processes to watch, and the same rate to both (-R). A block whose
run found the host busy or the generator at its limit is dropped; --accept noisy-host keeps it. Where so many are
dropped that nothing can be told, the command ends with 96.

Exit codes: 0 done and not worse, 2 it could not be run, 91 to 95 a run is not valid, 96 and 97 it cannot tell, 98 worse,
99 a threshold was breached, 105 interrupted. weir lab --help says each.";

/// Says whether B is better, worse or the same as A
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Compare {
    /// The URL or the scenario file for both; or, alone, earlier runs: run.json, its folder, or a k6 summary
    #[arg(value_name = "URL|FILE|RUN")]
    what: Vec<String>,
    /// Where A listens
    #[arg(long, value_name = "URL")]
    a: Option<String>,
    /// Where B listens
    #[arg(long, value_name = "URL")]
    b: Option<String>,
    /// Start A by this command; {port} becomes a free port
    #[arg(long, value_name = "COMMAND")]
    a_command: Option<String>,
    /// Start B by this command
    #[arg(long, value_name = "COMMAND")]
    b_command: Option<String>,
    /// Ask this http:// address whether a started server is ready [default: until it says `listening on`, or accepts]
    #[arg(long, value_name = "URL")]
    ready: Option<String>,
    /// Start both servers once and keep them, instead of a fresh one for each run
    #[arg(long)]
    keep: bool,
    /// Watch this beside A's load, as --watch does for both (repeatable)
    #[arg(long, value_name = "WHAT")]
    a_watch: Vec<String>,
    /// Watch this beside B's load
    #[arg(long, value_name = "WHAT")]
    b_watch: Vec<String>,
    /// Blocks of A and B, or `auto`: until it is known
    #[arg(long, value_name = "N|auto", default_value = "6")]
    blocks: String,
    /// Most blocks of `--blocks auto`
    #[arg(long, value_name = "N", default_value_t = 24)]
    blocks_max: usize,
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
    /// Compare so many times, and count the answers: the comparison itself is tested
    #[arg(long, value_name = "N")]
    repeat: Option<usize>,
    /// With --repeat: what is true. Fails when the answers are wrong more often than promised
    #[arg(long, value_name = "ANSWER", requires = "repeat")]
    truth: Option<Truth>,
    /// Print one JSON object, and nothing else, to standard output
    #[arg(long)]
    json: bool,
    /// Say nothing while it runs
    #[arg(long, short)]
    quiet: bool,
    /// Allow targets outside this machine: they are yours, or you may load them
    #[arg(long)]
    i_own_this: bool,
    #[command(flatten)]
    flags: Flags,
}

impl Compare {
    pub fn run(self) -> Ended {
        let rule = self.rule()?;
        self.check_out()?;
        if self.repeat.is_some() && self.flag("html").is_some() {
            return Err(Failure::new(
                "--html is not for --repeat",
                "leave one of them out: the page shows one comparison, or several of earlier runs",
            ));
        }
        if !self.is_live() {
            let comparisons = self.imported(&rule)?;
            self.tell(&comparisons)?;
            return Ok(self.exit(&comparisons));
        }
        let count = Count::read(&self.blocks, self.blocks_max)?;
        interrupt::listen()?;
        match self.repeat {
            Some(times) => self.repeated(times, count, &rule),
            None => {
                let comparison = [self.measured(count, &rule, self.seed()?)?];
                self.tell(&comparison)?;
                Ok(self.exit(&comparison))
            }
        }
    }

    /// Whether something is to be measured, and not read.
    fn is_live(&self) -> bool {
        let sides = [&self.a, &self.b, &self.a_command, &self.b_command];
        sides.iter().any(|side| side.is_some())
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

    fn seed(&self) -> Result<u64, Failure> {
        match self.flag("seed") {
            None => Ok(1),
            Some(text) => text.parse().map_err(|_| {
                Failure::new(
                    format!("--seed {text} is no whole number"),
                    "write 1, for instance",
                )
            }),
        }
    }

    /// The text of a flag of the load, the last one that was given.
    fn flag(&self, name: &str) -> Option<&str> {
        let given = self.flags.given.iter().rev();
        let mut named = given.filter(|given| given.flag.name == name);
        named.next().map(|given| given.text.as_str())
    }

    fn question(&self, rule: &Rule, a: &str, b: &str, seed: u64) -> Question {
        Question {
            a: a.to_owned(),
            b: b.to_owned(),
            alpha: rule.alpha,
            margin: rule.margin.exp_m1(),
            seed,
        }
    }

    /// Measures both sides in blocks.
    fn measured(&self, count: Count, rule: &Rule, seed: u64) -> Result<Comparison, Failure> {
        let [a, b] = self.sides()?;
        let question = self.question(rule, &a.label, &b.label, seed);
        let quiet = self.quiet || self.json;
        let tell = |line: &str| {
            if !quiet {
                // The answer is what matters; a reader that went away is told of then.
                let _ = output::say(&mut std::io::stdout(), &format!("{line}\n"));
            }
        };
        let mut rig = Rig::new(a, b, self.load()?, self.keep, tell);
        rig.check()?;
        let interleaved = interleave(count, rule, seed, &mut rig)?;
        Ok(Comparison::of_blocks(&question, &interleaved))
    }

    fn repeated(&self, times: usize, count: Count, rule: &Rule) -> Ended {
        let seed = self.seed()?;
        let mut tally = repeat::Tally::new(times)?;
        for number in 0..times {
            let comparison = self.measured(count, rule, seed + number as u64)?;
            let partial = comparison.partial;
            if !(self.quiet || self.json) {
                let line = format!(
                    "{} of {times}: {}\n",
                    number + 1,
                    table::headline(&comparison)
                );
                output::say(&mut std::io::stdout(), &line)?;
            }
            tally.add(comparison);
            if partial {
                break;
            }
        }
        let judged = tally.judged(rule.alpha, self.truth);
        self.deliver(&judged.json()?, &judged.text())?;
        Ok(judged.exit())
    }

    /// What the two sides are.
    fn sides(&self) -> Result<[Spec; 2], Failure> {
        if self.what.len() > 1 {
            return Err(Failure::new(
                format!("`{}` is one target too many", self.what[1]),
                "with --a and --b, or commands, give one URL or one scenario file for both",
            ));
        }
        let is_url = |text: &&String| text.contains("://");
        let shared = self.what.first().filter(is_url);
        let side = |name: &str,
                    url: &Option<String>,
                    command: &Option<String>,
                    watch: &[String]| {
            let url = url.as_ref().or(shared).cloned();
            if url.is_none() && command.is_none() {
                return Err(Failure::new(
                    format!("{name} is not said"),
                    format!("give --{name} URL or --{name}-command COMMAND"),
                ));
            }
            if url.is_none() && self.what.is_empty() {
                return Err(Failure::new(
                    format!("where {name} listens is not said"),
                    format!(
                        "give --{name} URL, or one URL or scenario file for both; {{port}} may stand in a URL"
                    ),
                ));
            }
            let launch = command.as_ref().map(|command| Launch {
                command: command.clone(),
                ready: self.ready.clone(),
                ready_max: READY_MAX,
            });
            Ok(Spec {
                label: command
                    .as_ref()
                    .or(url.as_ref())
                    .cloned()
                    .unwrap_or_default(),
                url,
                launch,
                watch: watch.to_vec(),
                finds: false,
                names_failures: false,
            })
        };
        let a = side("a", &self.a, &self.a_command, &self.a_watch)?;
        let b = side("b", &self.b, &self.b_command, &self.b_watch)?;
        Ok([a, b])
    }

    /// The load for both, without a target.
    fn load(&self) -> Result<Load, Failure> {
        for name in NOT_HERE {
            if self.flag(name).is_some() {
                return Err(Failure::new(
                    format!("--{name} is not for a comparison"),
                    "leave it out, or use it with weir lab load",
                ));
            }
        }
        let mut load = Load {
            flags: self.flags.clone(),
            quiet: true,
            i_own_this: self.i_own_this,
            ..Load::default()
        };
        // A folder or a report of the load would hold one of many runs.
        let own = ["out", "html"];
        load.flags
            .given
            .retain(|given| !own.contains(&given.flag.name));
        let file = self.what.first().filter(|text| !text.contains("://"));
        load.source.extend(file.cloned());
        if file.is_none() && self.flag("stage").is_none() {
            for (name, text) in [("duration", DURATION), ("warmup", WARMUP)] {
                if self.flag(name).is_none() {
                    load.flags.given.push(given(name, text)?);
                }
            }
        }
        Ok(load)
    }

    /// Each run after the first against the first.
    fn imported(&self, rule: &Rule) -> Result<Vec<Comparison>, Failure> {
        if !(2..=imports::RUNS_MAX).contains(&self.what.len()) {
            return Err(Failure::new(
                format!("{} runs cannot be compared", self.what.len()),
                format!(
                    "give 2 to {} earlier runs, or --a and --b, or --a-command and --b-command",
                    imports::RUNS_MAX
                ),
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
        let seed = self.seed()?;
        let compared = others.iter().map(|b| {
            let question = self.question(rule, &a.label, &b.label, seed);
            imports::compare(a, b, &question, &each)
        });
        Ok(compared.collect())
    }

    fn out(&self) -> Option<PathBuf> {
        self.flag("out").map(PathBuf::from)
    }

    fn check_out(&self) -> Result<(), Failure> {
        if let Some(file) = self.flag("html") {
            artefact::check(Path::new(file))?;
        }
        let Some(folder) = self.out() else {
            return Ok(());
        };
        std::fs::create_dir_all(&folder).map_err(|error| {
            Failure::new(
                format!("{}: {error}", folder.display()),
                "name a folder that can be made and written",
            )
        })?;
        artefact::check(&folder.join(COMPARE_FILE))
    }

    /// Tells what was found in every form that was asked for.
    fn tell(&self, comparisons: &[Comparison]) -> Result<(), Failure> {
        self.deliver(&as_json(comparisons)?, &tables(comparisons))?;
        let Some(file) = self.flag("html") else {
            return Ok(());
        };
        let page = html_of_comparisons(comparisons);
        artefact::replace(Path::new(file), page.as_bytes(), |draft| {
            let back = std::fs::read(draft).map_err(|e| Failure::new(e.to_string(), ""))?;
            match back == page.as_bytes() {
                true => Ok(()),
                false => Err(Failure::new("it is not what was written", "")),
            }
        })
    }

    /// Prints first, so that a full disk costs a file and not the answer.
    fn deliver(&self, json: &str, text: &str) -> Result<(), Failure> {
        let shown = if self.json { json } else { text };
        output::say(&mut std::io::stdout(), shown)?;
        let Some(folder) = self.out() else {
            return Ok(());
        };
        artefact::replace(&folder.join(COMPARE_FILE), json.as_bytes(), |draft| {
            let back = std::fs::read(draft).map_err(|e| Failure::new(e.to_string(), ""))?;
            let back = serde_json::from_slice::<serde_json::Value>(&back);
            back.map(drop).map_err(|e| Failure::new(e.to_string(), ""))
        })
    }

    /// The worst of all answers.
    fn exit(&self, comparisons: &[Comparison]) -> Exit {
        let any = |answer| comparisons.iter().any(|c| c.answer == answer);
        match () {
            () if comparisons.iter().any(|c| c.partial) => Exit::Interrupted,
            () if any(Answer::Worse) => Exit::Worse,
            () if comparisons.iter().any(|c| c.dropped_too_many().is_some()) => Exit::BlocksDropped,
            () if self.strict && any(Answer::CannotTell) => Exit::CannotTell,
            () => Exit::Pass,
        }
    }
}

fn tables(comparisons: &[Comparison]) -> String {
    let tables: Vec<String> = comparisons.iter().map(table::table).collect();
    tables.join("\n")
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
