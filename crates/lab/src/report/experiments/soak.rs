//! The sheet of a soak: the verdict with its process first, then memory by phase, then the load that it was under.

use super::chart::{Chart, Curve};
use super::common::{below, ending, micros_or_none, notes};
use crate::facts::soak::{DriftVerdict, ProcessDrift, Soak};
use crate::report::sheet::{Grid, Sheet, SheetBlock, SheetPart};
use crate::report::standing::Grade;
use crate::report::words::{NONE, bytes, clock, count, number, seconds, share};
use crate::stats::drift::Drift;

/// The sheet.
pub fn sheet(soak: &Soak) -> Sheet {
    let (grade, answer) = answer(soak);
    let mut parts = vec![memory(soak), load(soak)];
    parts.extend(ending(&soak.setting, &not_measured(soak)));
    Sheet {
        kind: "soak".to_owned(),
        title: soak.setting.name.clone(),
        below: below(&soak.setting),
        grade,
        answer,
        notes: notes(&soak.setting, Some(soak.load.rate)),
        parts,
    }
}

fn answer(soak: &Soak) -> (Grade, String) {
    let under = seconds(soak.under_s);
    let cannot_tell = soak
        .processes
        .iter()
        .find(|p| p.verdict == DriftVerdict::CannotTell);
    match soak
        .processes
        .iter()
        .find(|p| matches!(p.verdict, DriftVerdict::Leaks | DriftVerdict::StaysLarge))
    {
        _ if soak.setting.partial => (Grade::Doubtful, "Interrupted: a partial result.".to_owned()),
        Some(process) if process.verdict == DriftVerdict::Leaks => (
            Grade::Bad,
            format!("{} leaks: {}.", process.name, process.evidence),
        ),
        Some(process) => (
            Grade::Bad,
            format!("{} stays large: {}.", process.name, process.evidence),
        ),
        None if cannot_tell.is_some() || soak.processes.is_empty() => (
            Grade::Doubtful,
            format!("Too short to tell: {under} under load gave too few samples."),
        ),
        None => (
            Grade::Good,
            format!("Steady: no process leaks in {under} under load."),
        ),
    }
}

fn memory(soak: &Soak) -> SheetPart {
    let mut grid = Grid::new(
        "memory",
        1,
        [
            "process",
            "before",
            "under load",
            "grown",
            "after",
            "residual",
            "slope an hour",
            "95 % sure",
            "unwound after",
            "verdict",
        ],
    );
    for process in &soak.processes {
        grid.row(row(process));
    }
    let mut blocks = vec![SheetBlock::Grid(grid)];
    blocks.extend(
        soak.processes
            .iter()
            .map(|p| SheetBlock::Words(format!("{}: {}.", p.name, p.evidence))),
    );
    blocks.push(SheetBlock::Words(
        "The slope is that of Theil and Sen after the warm-up. Its interval allows for samples that are alike to their \
         neighbours. Memory that is given back now and then is judged by its lowest samples too."
            .to_owned(),
    ));
    blocks.extend(
        soak.processes
            .iter()
            .map(|process| SheetBlock::Figure(chart(soak, process))),
    );
    SheetPart {
        name: "memory",
        title: "Does memory rise, and does it come back?".to_owned(),
        blocks,
    }
}

fn signed(value: f64, name: impl Fn(f64) -> String) -> String {
    if value < 0.0 {
        format!("−{}", name(-value))
    } else {
        name(value)
    }
}

fn size(value: f64) -> String {
    signed(value, |size| bytes(size as u64))
}

fn row(process: &ProcessDrift) -> [String; 10] {
    let hour = |slope: f64| size(slope * 3600.0);
    let verdict = match process.verdict {
        DriftVerdict::Steady => "steady",
        DriftVerdict::Leaks => "leaks",
        DriftVerdict::StaysLarge => "stays large",
        DriftVerdict::CannotTell => "cannot tell",
    };
    [
        process.name.clone(),
        size(process.before_bytes),
        size(process.under_bytes),
        signed(process.growth(), share),
        size(process.after_bytes),
        signed(process.residual(), share),
        process
            .drift
            .as_ref()
            .map_or(NONE.to_owned(), |drift| hour(drift.slope)),
        process.drift.as_ref().map_or(NONE.to_owned(), |d| {
            format!("{} to {}", hour(d.interval.low), hour(d.interval.high))
        }),
        process.unwound_after_s.map_or("not".to_owned(), seconds),
        verdict.to_owned(),
    ]
}

fn chart(soak: &Soak, process: &ProcessDrift) -> crate::report::plots::Figure {
    const MIB: f64 = 1024.0 * 1024.0;
    let begin = soak.before_s + soak.warmup_s;
    let end = begin + soak.under_s;
    let mut curves = vec![Curve {
        name: process.name.clone(),
        points: process
            .series
            .iter()
            .map(|(t, rss)| (*t, rss / MIB))
            .collect(),
        is_loose: true,
        ..Curve::default()
    }];
    if let Some(drift) = &process.drift {
        curves.push(Curve {
            name: "slope under load".to_owned(),
            points: vec![
                (begin, drift.begin / MIB),
                (end, (drift.begin + drift.slope * soak.under_s) / MIB),
            ],
            is_fitted: true,
            ..Curve::default()
        });
    }
    Chart {
        label: "Memory over time",
        x_title: "time from the start (s, or min:s)",
        y_title: "memory that no file backs (MiB)",
        x_is_log: false,
        y_is_log: false,
        x_name: |t| clock(t, t.max(121.0)),
        y_name: crate::report::words::tick,
        curves,
        marker: Some((soak.before_s, "load begins".to_owned())),
        caption: format!(
            "n = {} samples. The load is from {} to {}.",
            process.series.len(),
            seconds(soak.before_s),
            seconds(end)
        ),
    }
    .figure()
}

fn load(soak: &Soak) -> SheetPart {
    let cell = &soak.load;
    let mut grid = Grid::new(
        "load",
        0,
        [
            "seconds",
            "requests",
            "good/s",
            "failed",
            "mean",
            "p50",
            "p95",
            "p99",
            "max",
            "CPU a request",
        ],
    );
    grid.row([
        number(cell.seconds),
        count(cell.requests),
        number(cell.rate),
        crate::output::units::failed_share(cell.failed, cell.requests.max(cell.failed)),
        micros_or_none(cell.mean_us),
        micros_or_none(cell.p50_us),
        micros_or_none(cell.p95_us),
        micros_or_none(cell.p99_us),
        micros_or_none(cell.max_us),
        micros_or_none(cell.target_cpu_us),
    ]);
    let mut blocks = vec![SheetBlock::Grid(grid)];
    let moved = |name: &str, drift: &Option<Drift>| {
        let drift = drift.as_ref()?;
        let part = |slope: f64| signed(slope * soak.under_s / drift.begin, share);
        let sure = drift.interval.low > 0.0 || drift.interval.high < 0.0;
        Some(SheetBlock::Words(format!(
            "The {name} moved by {} over the load (95 % sure: {} to {}){}.",
            part(drift.slope),
            part(drift.interval.low),
            part(drift.interval.high),
            if sure { "" } else { ", which may be nothing" }
        )))
    };
    blocks.extend(moved("rate", &soak.rate_drift));
    blocks.extend(moved("p99", &soak.p99_drift));
    SheetPart {
        name: "load",
        title: "What was the load?".to_owned(),
        blocks,
    }
}

fn not_measured(soak: &Soak) -> Vec<String> {
    let mut lines = Vec::new();
    if soak.under_s < 3600.0 {
        lines.push(
            "An hour: a leak that takes longer than this soak is not seen. Give -d 60m.".to_owned(),
        );
    }
    lines
}
