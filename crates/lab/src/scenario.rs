//! What a run is asked to do: a YAML file, or flags, or both, read once into plans.
//!
//! Flags write the same keys as the file, so there is one place where each is checked, and every problem is told
//! with its line or its flag. Nothing is sent from here, but names are resolved and what is written to is tried.

mod address;
mod check;
mod feeds;
pub mod file;
pub mod flags;
mod limits;
mod load;
mod matrix;
pub(crate) mod read;
mod requests;
pub mod schema;
pub mod show;
mod source;
mod tls;
pub(crate) mod units;

use std::path::PathBuf;
use std::time::Duration;

use base::hex;
use sha2::{Digest, Sha256};

use self::check::Check;
use self::file::{Accepted, File};
use self::source::Source;
use crate::exit::Failure;
use crate::experiments::load::Load;
use crate::judge::{self, Known, Threshold};
use crate::plan::Plan;
use crate::result::{Meta, Verdict};
use crate::run;
use crate::watch::{SUBJECTS_MAX, Subject, listener};
pub use config::Problem;
use config::{PROBLEMS_MAX, Path};

pub use self::flags::Flags;

/// How often what is watched is looked at when nothing else is said.
pub const WATCH_EVERY: Duration = Duration::from_secs(1);

/// One run of a matrix, or the only run.
pub struct Cell {
    /// Its values, such as `connections=8 rate=100`; empty without a matrix.
    pub label: String,
    pub plan: Plan,
    /// What it has to keep to.
    pub thresholds: Vec<Threshold>,
    /// What the reader of the result must know.
    pub warnings: Vec<String>,
}

/// What holds for all cells of a command, beside their plans.
#[derive(Clone, Debug, Default)]
pub struct RunSettings {
    /// What is known before the run: the texts, the command without secrets, the scenario's digest, the seed.
    pub meta: Meta,
    /// As `--watch` spells them.
    pub watch: Vec<String>,
    pub watch_every: Duration,
    /// The built-in origin's URL, to be asked for duplicates at the end.
    pub origin: Option<String>,
    /// Verdicts that do not fail the command.
    pub accept: Vec<Verdict>,
    pub outputs: Outputs,
}

/// Where results go. Relative paths begin at the working folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// The folder for `run.json` and all else.
    pub out: Option<PathBuf>,
    pub summary_export: Option<PathBuf>,
    pub csv: Option<PathBuf>,
    pub hlog: Option<PathBuf>,
    pub html: Option<PathBuf>,
    pub junit: Option<PathBuf>,
    pub markdown: Option<PathBuf>,
}

/// What a scenario is read with beside its own words.
pub struct Around<'e> {
    /// The process's environment.
    pub environment: &'e dyn Fn(&str) -> Option<String>,
    /// Cores that generator threads may use.
    pub cores: usize,
    /// Whether targets outside this machine are allowed.
    pub any_target: bool,
}

/// Reads the arguments of a load into plans, one for each cell of the matrix.
///
/// # Errors
///
/// Everything that is wrong, in the order of lines.
pub fn plan(args: &Load) -> Result<(Vec<Cell>, RunSettings), Vec<Problem>> {
    let environment = |name: &str| std::env::var(name).ok();
    let around = Around {
        environment: &environment,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        any_target: args.i_own_this,
    };
    plan_with(args, &around)
}

/// As [`plan`], with the surroundings given.
///
/// # Errors
///
/// Everything that is wrong, in the order of lines.
pub fn plan_with(args: &Load, around: &Around) -> Result<(Vec<Cell>, RunSettings), Vec<Problem>> {
    let mut source = source(args).map_err(|problem| vec![problem])?;
    let mut problems = source.lay_flags(&args.flags.given);
    let (file, unread) = source.file_tree();
    problems.extend(unread.iter().map(|(_, problem)| problem.clone()));
    let settings = settings(args, &source, &file, &mut problems);
    let mut cells = Vec::new();
    match matrix::combinations(&source, &file) {
        Ok(combinations) => {
            for (label, source) in combinations {
                cells.extend(cell(label, &source, around, &mut problems));
            }
        }
        Err(found) => problems.extend(found),
    }
    if problems.is_empty() {
        return Ok((cells, settings));
    }
    problems.sort();
    problems.dedup();
    problems.truncate(PROBLEMS_MAX);
    Err(problems)
}

/// The file and the URLs that the arguments name, before flags.
fn source(args: &Load) -> Result<Source, Problem> {
    let (urls, files): (Vec<&String>, Vec<&String>) =
        args.source.iter().partition(|word| word.contains("://"));
    let mut source = match files.as_slice() {
        [] => Source::empty(),
        [name] => match read::text(name.as_ref(), config::FILE_BYTES_MAX) {
            Ok(text) => Source::read(name, &text)?,
            Err(message) => {
                let help = format!("if it is a target, write http://{name}");
                return Err(Problem::general(message, help));
            }
        },
        _ => {
            let message = "there is more than one scenario file";
            let help = "a scenario file may hold several scenarios";
            return Err(Problem::general(message, help));
        }
    };
    let (url, all) = (Path::of("scenarios.*.url"), Path::of("scenarios.*.urls"));
    match urls.as_slice() {
        [] => {}
        [one] => {
            source.set(&all, &serde_json::Value::Null, "URL");
            source.set(&url, &serde_json::json!(one), "URL");
        }
        several => {
            source.set(&url, &serde_json::Value::Null, "URL");
            source.set(&all, &serde_json::json!(several), "URL");
        }
    }
    Ok(source)
}

/// One cell's plan. Its problems join those that are known.
fn cell(
    label: String,
    source: &Source,
    around: &Around,
    problems: &mut Vec<Problem>,
) -> Option<Cell> {
    let (file, unread) = source.file_tree();
    let (unread, mut found): (Vec<Path>, Vec<Problem>) = unread.into_iter().unzip();
    let mut check = Check::new(source, around, &file);
    let plan = check.plan(&file, &unread);
    let warnings = check.warnings;
    found.extend(check.problems);
    let clean = found.is_empty();
    problems.extend(found);
    let plan = plan.filter(|_| clean)?;
    let thresholds = thresholds(source, &file, &plan, problems)?;
    Some(Cell {
        label,
        plan,
        thresholds,
        warnings,
    })
}

/// The thresholds, read against what the plan has.
fn thresholds(
    source: &Source,
    file: &File,
    plan: &Plan,
    problems: &mut Vec<Problem>,
) -> Option<Vec<Threshold>> {
    let (known, mut all, before) = (Known::of(plan), Vec::new(), problems.len());
    for (metric, file::Thresholds(written)) in file.thresholds.iter().flat_map(|named| &named.0) {
        let one = serde_json::Map::from_iter([(metric.clone(), written.clone())]);
        match judge::thresholds::read(&one.into(), Some(&known)) {
            Ok(found) => all.extend(found),
            Err(found) => {
                let at = Path::of("thresholds").key(metric);
                let own = format!("{metric}: ");
                problems.extend(found.iter().map(|message| {
                    let message = message.strip_prefix(&own).unwrap_or(message);
                    source.problem(&at, message, "")
                }));
            }
        }
    }
    let most = judge::thresholds::THRESHOLDS_MAX;
    if all.len() > most {
        let message = format!("there are more than {most}");
        problems.push(source.problem(&Path::of("thresholds"), message, ""));
    }
    (problems.len() == before).then_some(all)
}

/// All problems as the one failure of a command.
pub fn failure(problems: &[Problem]) -> Failure {
    let texts: Vec<String> = problems.iter().map(Problem::to_string).collect();
    Failure::new(texts.join("\n"), "")
}

/// What is not the plan.
fn settings(args: &Load, source: &Source, file: &File, problems: &mut Vec<Problem>) -> RunSettings {
    let text = |text: &Option<units::Text>| text.as_ref().map_or(String::new(), |t| t.0.clone());
    let meta = Meta {
        name: text(&file.name),
        description: text(&file.description),
        represents: text(&file.represents),
        excludes: check::texts(&file.excludes),
        command: args.words(),
        scenario_sha256: digest(&source.tree.to_string()),
        seed: file.seed.map_or(1, |seed| seed.0),
        ..Meta::default()
    };
    let watch = file.watch.as_ref();
    let every = watch.and_then(|watch| watch.every).map(|every| every.0);
    if every.is_some_and(|every| every < Duration::from_millis(10)) {
        problems.push(source.problem(&Path::of("watch.every"), "is under 10ms", "write 1s"));
    }
    if let Some(Err(message)) = file.origin.as_ref().map(|url| address::origin(&url.0)) {
        let help = "write http://127.0.0.1:8900, as weir lab target prints it";
        problems.push(source.problem(&Path::of("origin"), message, help));
    }
    let subjects = watch.map_or(Vec::new(), |watch| check::texts(&watch.subjects));
    for (index, subject) in subjects.iter().enumerate() {
        if let Err(message) = Subject::parse(subject) {
            let at = Path::of("watch.subjects").index(index);
            problems.push(source.problem(&at, message, ""));
        }
    }
    RunSettings {
        meta,
        watch: subjects,
        watch_every: every.unwrap_or(WATCH_EVERY),
        origin: file.origin.as_ref().map(|url| url.0.clone()),
        accept: file
            .accept
            .iter()
            .flatten()
            .map(|one| one.verdict())
            .collect(),
        outputs: outputs(args, source, file, problems),
    }
}

fn outputs(args: &Load, source: &Source, file: &File, problems: &mut Vec<Problem>) -> Outputs {
    let path = |text: &Option<units::Text>| text.as_ref().map(|text| PathBuf::from(&text.0));
    let outputs = Outputs {
        out: path(&file.out),
        summary_export: path(&file.summary_export),
        csv: path(&file.csv),
        hlog: path(&file.hlog),
        html: path(&file.html),
        junit: path(&file.junit),
        markdown: path(&file.markdown),
    };
    if args.dry_run || args.print_profile {
        return outputs;
    }
    let mut say = |key: &str, message: String| {
        problems.push(source.problem(&Path::of(key), message, "name another place"));
    };
    if let Some(Err(why)) = outputs.out.as_deref().map(limits::writable_folder) {
        say("out", why);
    }
    let files = [
        ("summary_export", &outputs.summary_export),
        ("csv", &outputs.csv),
        ("hlog", &outputs.hlog),
        ("html", &outputs.html),
        ("junit", &outputs.junit),
        ("markdown", &outputs.markdown),
    ];
    for (key, file) in files {
        if let Some(Err(why)) = file.as_deref().map(limits::writable_file) {
            say(key, why);
        }
    }
    outputs
}

impl RunSettings {
    /// What a run of this cell has around its load.
    ///
    /// # Errors
    ///
    /// A subject that cannot be watched; [`plan`] has found those already.
    pub fn around(&self, cell: &Cell) -> Result<run::Around, Failure> {
        let subjects = self.watch.iter().map(|text| Subject::parse(text));
        let subjects: Result<Vec<Subject>, String> = subjects.collect();
        let mut subjects = subjects.map_err(|message| Failure::new(message, ""))?;
        if subjects.is_empty() {
            subjects = servers_here(&cell.plan);
        }
        let mut meta = self.meta.clone();
        if meta.name.is_empty() {
            meta.name.clone_from(&cell.plan.name);
        }
        Ok(run::Around {
            watch: subjects,
            watch_every: self.watch_every,
            thresholds: cell.thresholds.clone(),
            origin: self.origin.clone(),
            saturating: false,
            meta,
        })
    }
}

/// The servers of a plan that run on this machine: they are watched when nothing else is asked for.
pub(crate) fn servers_here(plan: &Plan) -> Vec<Subject> {
    let targets = plan.flows.iter().flat_map(|flow| &flow.targets);
    let addresses = targets.filter_map(|target| target.addresses.first());
    let local = addresses.filter(|address| address.ip().is_loopback());
    let mut pids: Vec<u32> = local.filter_map(|a| listener::find(*a)).collect();
    pids.sort_unstable();
    pids.dedup();
    pids.retain(|pid| *pid != std::process::id());
    pids.truncate(SUBJECTS_MAX);
    pids.into_iter().map(Subject::Pid).collect()
}

impl Accepted {
    fn verdict(self) -> Verdict {
        match self {
            Accepted::GeneratorBound => Verdict::GeneratorBound,
            Accepted::NoisyHost => Verdict::NoisyHost,
            Accepted::NotSaturated => Verdict::NotSaturated,
            Accepted::TooShort => Verdict::TooShort,
        }
    }
}

/// A word of the command line without the user and the password that a URL may hold.
pub fn without_user(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else {
        return word.to_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://…{}", &rest[at..]),
        None => word.to_owned(),
    }
}

/// A text's SHA-256 in hex.
fn digest(text: &str) -> String {
    hex::encode(&Sha256::digest(text.as_bytes()))
}

/// A file's text as a tree, before its keys are read.
///
/// # Errors
///
/// It is not YAML, or not a map.
pub fn tree(text: &str) -> Result<serde_json::Value, Problem> {
    Source::read("scenario.yaml", text).map(|source| source.tree)
}

/// Reads a file's text as far as that goes without the machine. Nothing in it can make this panic.
///
/// # Errors
///
/// What is not YAML, no key, or of the wrong type.
pub fn read_text(text: &str) -> Result<File, Vec<Problem>> {
    let source = Source::read("scenario.yaml", text).map_err(|problem| vec![problem])?;
    let (file, problems) = source.file_tree();
    match problems.is_empty() {
        true => Ok(file),
        false => Err(problems.into_iter().map(|(_, problem)| problem).collect()),
    }
}
