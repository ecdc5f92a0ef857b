//! CPU and memory over time: of what was watched, of the generator, and of the host.
//!
//! CPU is in cores everywhere, so that the target, the generator and what the host stole can be compared.

use crate::report::frame::{BELOW, BETWEEN, Legend, Panel, STAGES, Sign, WIDTH};
use crate::report::frame::{draw_stages, end_s, stages_of_all};
use crate::report::pen::{Ink, SERIES_MAX, svg};
use crate::report::scale::Scale;
use crate::report::words::{bytes, plural, seconds, tick};
use crate::result::{Run, SubjectResult};

use super::Figure;

const HEIGHT: f64 = 150.0;
const HEIGHT_BELOW: f64 = 110.0;
const MIB: f64 = 1_048_576.0;

/// One line of a panel: instants, with what was found there.
type Line = (Ink, Vec<(f64, Option<f64>)>);

pub fn draw(run: &Run) -> Vec<Figure> {
    let subjects: Vec<&SubjectResult> = run
        .watched
        .subjects
        .iter()
        .filter(|subject| subject.kind != "prometheus" && !subject.series.is_empty())
        .take(SERIES_MAX)
        .collect();
    let host = run.watched.host.len();
    if subjects.is_empty() && host == 0 {
        return vec![Figure::words(
            "Nothing was watched, so neither CPU nor memory is known. Name the target's process with --watch.",
        )];
    }
    let mut items: Vec<(String, Ink, Sign)> = Vec::new();
    let (mut cpu, mut memory): (Vec<Line>, Vec<Line>) = (Vec::new(), Vec::new());
    for (i, subject) in subjects.iter().enumerate() {
        let ink = ink_of(i, subject);
        items.push((subject.name.clone(), ink, Sign::Line));
        cpu.push((ink, cores(subject)));
        let found = rss(subject);
        if found.iter().any(|(_, mib)| mib.is_some()) {
            memory.push((ink, found));
        }
    }
    if host > 0 {
        items.push(("host: busy".to_owned(), Ink::Dotted(7), Sign::Line));
        cpu.push((Ink::Dotted(7), host_cores(run, false)));
        let stolen = host_cores(run, true);
        if stolen.iter().any(|(_, cores)| *cores > Some(0.0)) {
            items.push(("host: stolen".to_owned(), Ink::Dashed(1), Sign::Line));
            cpu.push((Ink::Dashed(1), stolen));
        }
    }
    let caption = caption(run, &subjects);
    vec![one(run, Legend::new(items), &cpu, &memory, caption)]
}

/// What is watched is solid, each in its colour; the generator is dashed, since it is not what is measured.
fn ink_of(i: usize, subject: &SubjectResult) -> Ink {
    match subject.kind.as_str() {
        "generator" => Ink::Dashed(5),
        _ => Ink::Series([0, 2, 3, 4, 6, 1, 5, 7][i % SERIES_MAX]),
    }
}

/// Cores used between one sample and the next.
fn cores(subject: &SubjectResult) -> Vec<(f64, Option<f64>)> {
    let pairs = subject.series.windows(2).map(|pair| {
        let seconds = pair[1].t_s - pair[0].t_s;
        let used = (pair[1].cpu_us - pair[0].cpu_us).max(0.0) / 1e6;
        let middle = (pair[0].t_s + pair[1].t_s) / 2.0;
        (middle, (seconds > 0.0).then(|| used / seconds))
    });
    pairs.collect()
}

fn rss(subject: &SubjectResult) -> Vec<(f64, Option<f64>)> {
    let samples = subject.series.iter();
    samples
        .map(|s| (s.t_s, s.rss_bytes.map(|rss| rss as f64 / MIB)))
        .collect()
}

fn host_cores(run: &Run, stolen: bool) -> Vec<(f64, Option<f64>)> {
    let cores = run.meta.machine.cores_logical.max(1) as f64;
    let samples = run.watched.host.iter().map(|sample| {
        let share = if stolen {
            sample.steal_share
        } else {
            sample.busy_share
        };
        (sample.t_s, Some(share * cores))
    });
    samples.collect()
}

fn values(lines: &[Line]) -> impl Iterator<Item = f64> {
    let all = lines.iter().flat_map(|(_, points)| points);
    all.filter_map(|(_, value)| *value)
}

fn one(run: &Run, legend: Legend, cpu: &[Line], memory: &[Line], caption: String) -> Figure {
    let stages = stages_of_all(run);
    let upper = Panel {
        top: legend.height() + STAGES,
        height: HEIGHT,
        x: Scale::time(end_s(run).max(last_s(cpu))),
        y: Scale::from_zero(values(cpu)),
    };
    let lower = Panel {
        top: upper.bottom() + BETWEEN,
        height: HEIGHT_BELOW,
        x: upper.x,
        y: Scale::from_zero(values(memory)),
    };
    let lowest = if memory.is_empty() { &upper } else { &lower };
    let label = "CPU and memory over time, of what was watched, the generator and the host";
    let picture = svg(WIDTH, lowest.bottom() + BELOW, label, |pen| {
        legend.draw(pen);
        draw_stages(pen, &stages, &upper, lowest);
        upper.y_axis(pen, "CPU, cores", tick);
        for (ink, points) in cpu {
            upper.line(pen, points.iter().copied(), *ink, 1.75);
        }
        if !memory.is_empty() {
            lower.y_axis(pen, "RSS, MiB", tick);
            for (ink, points) in memory {
                lower.line(pen, points.iter().copied(), *ink, 1.75);
            }
        }
        lowest.time_axis(pen);
    });
    Figure {
        title: String::new(),
        svg: picture,
        caption,
    }
}

fn last_s(lines: &[Line]) -> f64 {
    let instants = lines.iter().flat_map(|(_, points)| points);
    instants.map(|(t, _)| *t).fold(0.0, f64::max)
}

fn caption(run: &Run, subjects: &[&SubjectResult]) -> String {
    let samples = subjects.iter().map(|subject| subject.series.len());
    let n = samples.chain([run.watched.host.len()]).max().unwrap_or(0);
    let mut text = format!("{} over {}.", plural(n, "sample"), seconds(end_s(run)));
    let most = subjects.iter().filter_map(|subject| {
        let rss = subject.series.iter().filter_map(|sample| sample.rss_bytes);
        rss.max()
            .map(|most| format!("{} {}", subject.name, bytes(most)))
    });
    let most: Vec<String> = most.collect();
    if !most.is_empty() {
        text.push_str(&format!(" Most memory: {}.", most.join(", ")));
    }
    let watched = run.watched.subjects.len();
    if watched > subjects.len() {
        text.push_str(&format!(" {} of {watched} subjects drawn.", subjects.len()));
    }
    text
}
