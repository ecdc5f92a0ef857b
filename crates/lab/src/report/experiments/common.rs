//! What every sheet has: when and where, the machine and its ceilings, the command that repeats it, and a level as a row.

use crate::facts::Setting;
use crate::facts::level::{CellFacts, LevelFacts};
use crate::output::units::failed_share;
use crate::report::sheet::{Grid, SheetBlock, SheetPart};
use crate::report::words::{NONE, bytes, micros, number, seconds, share};
use crate::result::Verdict;
use crate::stats::interval::Interval;

/// The line below a title.
pub fn below(setting: &Setting) -> String {
    format!(
        "{} · {} · {} · weir lab {}",
        setting.started,
        seconds(setting.seconds),
        setting.machine.cpu,
        setting.version
    )
}

/// What is known before any number: what it represents and leaves out, warnings, too slow a generator.
pub fn notes(setting: &Setting, highest_rate: Option<f64>) -> Vec<String> {
    let mut notes = Vec::new();
    if !setting.represents.is_empty() {
        notes.push(format!(
            "It represents {}.",
            setting.represents.trim_end_matches('.')
        ));
    }
    if !setting.excludes.is_empty() {
        notes.push(format!("It leaves out {}.", setting.excludes.join(", ")));
    }
    notes.extend(ceiling(setting, highest_rate));
    notes.extend(setting.warnings.iter().cloned());
    notes
}

/// How far the generator's own ceiling lies above what was measured; under 3 times it is a warning.
fn ceiling(setting: &Setting, highest_rate: Option<f64>) -> Option<String> {
    let Some(ceilings) = &setting.ceilings else {
        return Some(
            "This machine's own ceilings were not measured: run `weir lab calibrate` first, so that the page can say how \
             far the generator was from its limit."
                .to_owned(),
        );
    };
    let ratio = ceilings.generator_rps / highest_rate.filter(|rate| *rate > 0.0)?;
    let text = format!(
        "The generator alone reaches {} times the highest rate here ({} a second)",
        number(ratio),
        number(ceilings.generator_rps)
    );
    Some(match ratio {
        ratio if ratio < 3.0 => {
            format!("{text}: under 3 times, so the generator may be part of what was measured.")
        }
        _ => format!("{text}."),
    })
}

/// The last parts of every sheet.
pub fn ending(setting: &Setting, not_measured: &[String]) -> Vec<SheetPart> {
    let machine = &setting.machine;
    let mut grid = Grid::new("machine", 2, ["what", "value"]);
    let mut row = |what: &str, value: String| grid.row([what.to_owned(), value]);
    row("CPU", machine.cpu.clone());
    let physical = machine
        .cores_physical
        .map_or(String::new(), |n| format!(", {n} physical"));
    row(
        "cores",
        format!("{} logical{physical}", machine.cores_logical),
    );
    if let Some(cores) = machine.cgroup_cores {
        row("cores that its own cgroup allows", number(cores));
    }
    row("memory", bytes(machine.memory_bytes));
    row("kernel", machine.kernel.clone());
    row("system", machine.os.clone());
    row("target", setting.target.clone());
    if let Some(ready) = setting.ready_after_s {
        row("ready after its start", seconds(ready));
    }
    row("scenario, SHA-256", setting.scenario_sha256.clone());
    row("seed", setting.seed.to_string());
    let mut parts = vec![SheetPart {
        name: "machine",
        title: "Machine and versions".to_owned(),
        blocks: vec![SheetBlock::Grid(grid)],
    }];
    if !not_measured.is_empty() {
        parts.push(SheetPart {
            name: "not-measured",
            title: "Not measured here".to_owned(),
            blocks: not_measured
                .iter()
                .cloned()
                .map(SheetBlock::Words)
                .collect(),
        });
    }
    parts.push(SheetPart {
        name: "reproduce",
        title: "Reproduce it".to_owned(),
        blocks: vec![SheetBlock::Code(words(&setting.command))],
    });
    parts
}

/// A command as a shell takes it.
fn words(command: &[String]) -> String {
    let quote = |word: &String| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
        match !word.is_empty() && word.chars().all(is_plain) {
            true => word.clone(),
            false => format!("'{}'", word.replace('\'', "'\\''")),
        }
    };
    command.iter().map(quote).collect::<Vec<_>>().join(" ")
}

pub fn micros_or_none(us: Option<f64>) -> String {
    us.map_or(NONE.to_owned(), micros)
}

pub fn interval(interval: Option<Interval>, name: impl Fn(f64) -> String) -> String {
    interval.map_or(NONE.to_owned(), |i| {
        format!("{} to {}", name(i.low), name(i.high))
    })
}

/// Failures of a level: how many, and the share with its bound.
pub fn failures(level: &LevelFacts) -> String {
    let (failed, all) = (level.sum(|run| run.failed), level.sum(|run| run.requests));
    match failed {
        0 => "0".to_owned(),
        failed => format!("{failed} ({})", failed_share(failed, all.max(failed))),
    }
}

/// Whether a level may be quoted, in words.
pub fn verdict(level: &LevelFacts) -> String {
    let broken: Vec<&CellFacts> = level
        .runs
        .iter()
        .filter(|run| run.verdict != Verdict::Valid)
        .collect();
    match broken.as_slice() {
        [] => "valid".to_owned(),
        [first, ..] => format!(
            "{} in {} of {}",
            first.verdict.as_str(),
            broken.len(),
            level.runs.len()
        ),
    }
}

pub const LEVEL_HEAD: [&str; 14] = [
    "level",
    "load",
    "good/s",
    "95 % sure",
    "mean",
    "N/X",
    "p50",
    "p90",
    "p99",
    "max",
    "failed",
    "CPU a request",
    "memory",
    "verdict",
];

/// A level as a row of [`LEVEL_HEAD`].
pub fn level_row(level: &LevelFacts) -> [String; 14] {
    use crate::facts::level::Loop;
    let load = match level.model {
        Loop::Closed => format!("{} connections", number_of(level.at)),
        Loop::Open => format!("{} a second", number(level.at)),
    };
    let dropped = level.sum(|run| run.dropped);
    let failed = match dropped {
        0 => failures(level),
        dropped => format!("{}, {dropped} never sent", failures(level)),
    };
    let expected = level
        .little_us()
        .map(micros)
        .map(|text| match level.little_off() {
            Some(off) if off.abs() > 0.03 => format!("{text} ({} off)", share(off)),
            _ => text,
        });
    [
        level.label.clone(),
        load,
        number(level.rate()),
        interval(level.rate_interval(), number),
        micros_or_none(level.middle(|run| run.mean_us)),
        expected.unwrap_or(NONE.to_owned()),
        micros_or_none(level.middle(|run| run.p50_us)),
        micros_or_none(level.middle(|run| run.p90_us)),
        micros_or_none(level.middle(|run| run.p99_us)),
        micros_or_none(level.most(|run| run.max_us)),
        failed,
        micros_or_none(level.middle(|run| run.target_cpu_us)),
        level
            .most(|run| run.target_rss_bytes.map(|b| b as f64))
            .map_or(NONE.to_owned(), |b| bytes(b as u64)),
        verdict(level),
    ]
}

/// A number of connections.
pub fn number_of(n: f64) -> String {
    crate::output::units::level(n)
}
