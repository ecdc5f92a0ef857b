//! How long it takes to come back: a load that it carries, one that it does not, and the first one again.

use std::time::Duration;

use super::course::Course;
use crate::exit::Failure;
use crate::facts::sweep::Recovery;
use crate::result::{FlowResult, Point, Run};
use crate::stats::knee::Knee;
use crate::stats::location::median;

/// The share of the knee's rate before and after.
const CALM: f64 = 0.6;
/// The p99 is back when it stays within this factor of what it was.
const BACK: f64 = 1.1;
/// So fine the p99 is looked at.
const EVERY: &str = "200ms";
/// It is watched for so many holds after the overload, and so long at least.
const AFTER_HOLDS: u32 = 3;
const AFTER_MIN: Duration = Duration::from_secs(4);

/// Measures it.
pub(super) fn probe(
    course: &mut Course<'_>,
    knee: Knee,
    times: u32,
    connections: f64,
) -> Result<(), Failure> {
    let calm = (CALM * knee.rate).floor().max(1.0);
    let overload = (f64::from(times) * knee.rate).ceil();
    let hold = course.hold;
    let after = (hold * AFTER_HOLDS).max(AFTER_MIN);
    let stage = |rate: f64, time: Duration, name: &str| {
        format!("hold:{rate},{}ms,{name}", time.as_millis())
    };
    let stages = [
        stage(calm, hold.max(Duration::from_secs(1)), "before"),
        stage(overload, hold / 2, "overload"),
        stage(calm, after, "after"),
    ];
    let connections = connections.to_string();
    let queue = course.queue();
    let mut flags = vec![
        ("arrivals", "uniform"),
        ("connections", connections.as_str()),
        ("interval", EVERY),
    ];
    flags.extend(stages.iter().map(|stage| ("stage", stage.as_str())));
    flags.extend(queue.as_deref().map(|queue| ("queue", queue)));
    let measured = course
        .stand
        .run(&["rate", "duration", "warmup", "pause"], &flags)?;
    course.found.recovery = read(&measured.run, calm, overload);
    Ok(())
}

/// Reads it from the series of a run.
fn read(run: &Run, calm_rate: f64, overload_rate: f64) -> Option<Recovery> {
    let flow = run.flows.first()?;
    let before: Vec<f64> = within(flow, "before")?
        .1
        .iter()
        .filter_map(|point| point.p99_us)
        .collect();
    let before_p99_us = median(&before)?;
    let (begin_s, after) = within(flow, "after")?;
    let is_back = |point: &&Point| point.p99_us.is_none_or(|p99| p99 <= BACK * before_p99_us);
    // From the end: the last interval that was not back yet.
    let late = after.iter().rposition(|point| !is_back(point));
    let seconds = match late {
        None => Some(0.0),
        Some(last) if last + 1 == after.len() => None,
        Some(last) => Some((after[last].t_s - begin_s).max(0.0)),
    };
    Some(Recovery {
        calm_rate,
        overload_rate,
        before_p99_us,
        seconds,
        watched_s: after.last()?.t_s - begin_s,
        failed: run.total.failed,
        dropped: run.total.dropped,
    })
}

/// When a stage began, and the intervals that lie in it.
fn within<'r>(flow: &'r FlowResult, name: &str) -> Option<(f64, Vec<&'r Point>)> {
    let step = flow.steps.iter().find(|step| step.name == name)?;
    let (begin, end) = (step.begin_s, step.begin_s + step.summary.seconds);
    let points = flow
        .series
        .iter()
        .filter(|p| p.t_s - p.seconds >= begin - 1e-6 && p.t_s <= end + 0.05);
    Some((begin, points.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{StepResult, Summary};

    #[test]
    fn it_is_back_when_it_stays_back() {
        let step = |name: &str, begin_s: f64, seconds: f64| StepResult {
            name: name.to_owned(),
            kind: "hold".to_owned(),
            begin_s,
            summary: Summary {
                seconds,
                ..Summary::default()
            },
            ..StepResult::default()
        };
        let p99 = |t: u32| match t {
            0..10 => 1000.0,
            10..15 => 9000.0,
            15..18 => 5000.0,
            // Back for a moment, and late once more.
            18 => 1050.0,
            19 => 1200.0,
            _ => 1090.0,
        };
        let point = |t: u32| Point {
            t_s: f64::from(t + 1),
            seconds: 1.0,
            p99_us: Some(p99(t)),
            ..Point::default()
        };
        let flow = FlowResult {
            steps: vec![
                step("before", 0.0, 10.0),
                step("overload", 10.0, 5.0),
                step("after", 15.0, 10.0),
            ],
            series: (0..25).map(point).collect(),
            ..FlowResult::default()
        };
        let mut run = Run {
            flows: vec![flow],
            ..Run::default()
        };
        let found = read(&run, 6.0, 80.0).unwrap();
        assert_eq!(
            (found.before_p99_us, found.seconds, found.watched_s),
            (1000.0, Some(5.0), 10.0)
        );
        run.flows[0].series[24].p99_us = Some(2000.0);
        assert_eq!(read(&run, 6.0, 80.0).unwrap().seconds, None);
    }
}
