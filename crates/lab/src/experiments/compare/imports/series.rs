//! A run's series, cut into parts that may stand as samples.

use super::super::answer::SAMPLES_MIN;
use super::super::metrics::{METRICS, place};
use crate::result::{Point, Run, SubjectResult};
use crate::stats::location::mean;

/// Most parts that a run is cut into: enough to see its noise, few enough that neighbours differ.
const PARTS_MAX: usize = 10;
/// Fewest points of the series in a part.
const PART_CELLS_MIN: usize = 2;

/// Samples of each metric, by the order of the metrics; all empty where the series is too short to be cut.
pub(super) fn parts(run: &Run) -> Vec<Vec<f64>> {
    let mut samples = vec![Vec::new(); METRICS];
    let cells = cells(run);
    let count = (cells.len() / PART_CELLS_MIN).min(PARTS_MAX);
    if count < SAMPLES_MIN {
        return samples;
    }
    for part in 0..count {
        let part = &cells[part * cells.len() / count..(part + 1) * cells.len() / count];
        for (name, value) in part_values(run, part) {
            let place = place(name).expect("these are metrics");
            samples[place].extend(value.filter(|value| value.is_finite() && *value > 0.0));
        }
    }
    samples
}

/// What one part gives, in the metrics' units.
fn part_values(run: &Run, cells: &[Span]) -> [(&'static str, Option<f64>); 6] {
    let all = run.flows.iter().flat_map(|flow| &flow.series);
    let points: Vec<&Point> = all
        .filter(|point| cells.iter().any(|cell| cell.holds(point)))
        .collect();
    let completed = points.iter().map(|p| p.completed).sum::<u64>() as f64;
    let seconds: f64 = cells.iter().map(|cell| cell.end - cell.begin).sum();
    let cpu = watched(run, |subject| {
        cells.iter().map(|cell| cpu_us(subject, *cell)).sum()
    });
    [
        ("requests_per_second", Some(completed / seconds)),
        ("response_us_p50", typical(&points, |point| point.p50_us)),
        ("response_us_p90", typical(&points, |point| point.p90_us)),
        ("response_us_p99", typical(&points, |point| point.p99_us)),
        ("cpu_us_per_request", cpu.map(|us| us / completed)),
        (
            "rss_bytes",
            watched(run, |subject| rss_bytes(subject, cells)),
        ),
    ]
}

/// A piece of time, in seconds from the start of the run.
#[derive(Clone, Copy)]
struct Span {
    begin: f64,
    end: f64,
}

impl Span {
    fn holds(&self, point: &Point) -> bool {
        let middle = point.t_s - 0.5 * point.seconds;
        self.begin <= middle && middle < self.end
    }
}

/// The measured time in pieces of one point: those of the first flow that lie in a hold that is no warm-up, or all
/// of them where it has no hold.
fn cells(run: &Run) -> Vec<Span> {
    let Some(flow) = run.flows.iter().find(|flow| !flow.series.is_empty()) else {
        return Vec::new();
    };
    let steps = flow.steps.iter().filter(|step| step.kind == "hold");
    let holds: Vec<Span> = steps
        .map(|step| Span {
            begin: step.begin_s,
            end: step.begin_s + step.summary.seconds,
        })
        .collect();
    let measured = |point: &&Point| {
        point.seconds > 0.0 && (holds.is_empty() || holds.iter().any(|hold| hold.holds(point)))
    };
    let points = flow.series.iter().filter(measured);
    let cell = |point: &Point| Span {
        begin: point.t_s - point.seconds,
        end: point.t_s,
    };
    points.map(cell).collect()
}

/// The geometric mean of a quantile over the points, each as heavy as its requests.
fn typical(points: &[&Point], quantile: fn(&Point) -> Option<f64>) -> Option<f64> {
    let (mut sum, mut weight) = (0.0, 0.0);
    for point in points {
        if let Some(value) = quantile(point).filter(|value| *value > 0.0) {
            sum += value.ln() * point.completed as f64;
            weight += point.completed as f64;
        }
    }
    (weight > 0.0).then(|| (sum / weight).exp())
}

/// The sum over what was watched beside the generator; nothing where nothing was.
fn watched(run: &Run, value: impl Fn(&SubjectResult) -> Option<f64>) -> Option<f64> {
    let subjects = run
        .watched
        .subjects
        .iter()
        .filter(|s| s.kind != "generator");
    let values: Vec<f64> = subjects.filter_map(value).collect();
    (!values.is_empty()).then(|| values.iter().sum())
}

/// How far a sample may lie from the instant that it is used for, in seconds.
const BESIDE_S_MAX: f64 = 0.5;

/// CPU time in a piece of time, with straight lines between the samples of its counter.
fn cpu_us(subject: &SubjectResult, span: Span) -> Option<f64> {
    let at = |t: f64| {
        let after = subject.series.partition_point(|sample| sample.t_s < t);
        let beside = |place: usize| {
            let sample = subject.series.get(place)?;
            ((sample.t_s - t).abs() <= BESIDE_S_MAX).then_some(sample.cpu_us)
        };
        let Some(before) = after.checked_sub(1) else {
            return beside(after);
        };
        let Some(high) = subject.series.get(after) else {
            return beside(before);
        };
        let low = &subject.series[before];
        let share = (t - low.t_s) / (high.t_s - low.t_s);
        Some(low.cpu_us + share * (high.cpu_us - low.cpu_us))
    };
    Some(at(span.end)? - at(span.begin)?)
}

fn rss_bytes(subject: &SubjectResult, spans: &[Span]) -> Option<f64> {
    let (begin, end) = (spans.first()?.begin, spans.last()?.end);
    let inside = subject.series.iter();
    let inside = inside.filter(|sample| begin <= sample.t_s && sample.t_s < end);
    let sizes: Vec<f64> = inside.filter_map(|s| Some(s.rss_bytes? as f64)).collect();
    mean(&sizes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{FlowResult, StepResult, SubjectSample, Summary};

    /// A warm-up of 4 s, then 20 s at 100 requests a second that cost 50 µs each.
    fn run() -> Run {
        let point = |second: u64| Point {
            t_s: second as f64,
            seconds: 1.0,
            completed: if second <= 4 { 7 } else { 100 },
            p50_us: Some(if second <= 4 { 1.0 } else { 2000.0 }),
            ..Point::default()
        };
        let sample = |second: u64| SubjectSample {
            t_s: second as f64,
            cpu_us: 1e6 + 5000.0 * second.saturating_sub(4) as f64,
            rss_bytes: Some(1 << 20),
            ..SubjectSample::default()
        };
        let step = |kind: &str, begin_s: f64, seconds: f64| StepResult {
            kind: kind.to_owned(),
            begin_s,
            summary: Summary {
                seconds,
                ..Summary::default()
            },
            ..StepResult::default()
        };
        let mut run = Run {
            flows: vec![FlowResult {
                steps: vec![step("warm-up", 0.0, 4.0), step("hold", 4.0, 20.0)],
                series: (1..=24).map(point).collect(),
                ..FlowResult::default()
            }],
            ..Run::default()
        };
        run.watched.subjects = vec![SubjectResult {
            kind: "process".to_owned(),
            series: (0..=24).map(sample).collect(),
            ..SubjectResult::default()
        }];
        run
    }

    #[test]
    fn holds_are_cut_into_parts() {
        let parts = parts(&run());
        let check = |name: &str, value: f64| {
            let samples = &parts[place(name).unwrap()];
            assert_eq!(samples.len(), PARTS_MAX, "{name}");
            let near = |sample: &f64| (sample / value - 1.0).abs() < 1e-9;
            assert!(samples.iter().all(near), "{name}: {samples:?}");
        };
        check("requests_per_second", 100.0);
        check("response_us_p50", 2000.0);
        check("cpu_us_per_request", 50.0);
        check("rss_bytes", 1_048_576.0);
    }

    #[test]
    fn what_is_too_short_or_broken_has_no_parts() {
        let mut short = run();
        short.flows[0].series.truncate(8);
        assert!(parts(&short).iter().all(Vec::is_empty));
        assert!(parts(&Run::default()).iter().all(Vec::is_empty));
        let mut odd = run();
        odd.watched.subjects[0].series.truncate(1);
        for point in &mut odd.flows[0].series {
            (point.t_s, point.seconds) = (f64::NAN, f64::INFINITY);
        }
        assert!(parts(&odd).iter().flatten().all(|value| value.is_finite()));
    }
}
