//! How much is sent and when: connections or arrivals, laid out as stages.
//!
//! A load is open when it has a rate, or arrivals beside its stages; else it is closed. Nothing is guessed from
//! levels: what does not go together is refused.

use std::time::Duration;

use super::check::One;
use super::file::{self, Stage};
use super::units::{Count, Level, Span, Text};
use crate::plan::{Arrivals, BURST_MAX, CONNECTIONS_MAX, Model, STAGES_MAX};
use crate::schedule::{Profile, Shape};
use config::Path;

/// Connections of a closed load that says nothing else.
pub(super) const CONNECTIONS_CLOSED: usize = 10;
/// Connections of an open load that says nothing else: the most in flight.
pub(super) const CONNECTIONS_OPEN: usize = 256;
/// Arrivals that may wait when nothing else is said.
pub(super) const QUEUE: usize = 10_000;
/// Most arrivals that may wait.
pub(super) const QUEUE_MAX: usize = 10_000_000;
/// How long a load lasts that says nothing else.
pub(super) const DURATION: Duration = Duration::from_secs(10);
/// Most arrivals a second.
pub(super) const RATE_MAX: f64 = 10_000_000.0;

/// The load of one scenario.
pub(super) struct Load {
    pub model: Model,
    pub profile: Profile,
    pub connections: usize,
}

/// Reads a scenario's load.
pub(super) fn load(one: &mut One) -> Option<Load> {
    let scenario = one.scenario;
    let open = scenario.rate.is_some() || scenario.arrivals.is_some();
    let queue = queue(one, open);
    if scenario.arrivals.is_some() && scenario.rate.is_none() && scenario.stages.is_none() {
        let help = "write rate: 1000, for instance, or stages";
        one.say("arrivals", "there is no rate for these arrivals", help);
        return None;
    }
    if open && scenario.pause.is_some() {
        let help = "leave it out; when arrivals come is what the rate says";
        one.say("pause", "is for closed loads", help);
    }
    let given = connections(one)?;
    let shapes = match &scenario.stages {
        Some(stages) => staged(one, stages, open, given.is_some())?,
        None => steady(one, given)?,
    };
    let level_max = if open {
        RATE_MAX
    } else {
        CONNECTIONS_MAX as f64
    };
    let profile = profile(one, shapes, level_max)?;
    let connections = match (open, given) {
        (true, given) => given.unwrap_or(CONNECTIONS_OPEN),
        (false, _) => profile.level_max().ceil() as usize,
    };
    let arrivals = arrivals(one, open)?;
    let queue_max = queue?;
    let model = if open {
        Model::Open {
            arrivals,
            queue_max,
        }
    } else {
        Model::Closed
    };
    Some(Load {
        model,
        profile,
        connections,
    })
}

/// How arrivals are spaced.
fn arrivals(one: &mut One, open: bool) -> Option<Arrivals> {
    let written = one.scenario.arrivals;
    let Some(Count(size)) = one.scenario.burst else {
        return Some(match written {
            Some(file::Arrivals::Poisson) => Arrivals::Poisson,
            Some(file::Arrivals::Uniform) | None => Arrivals::Uniform,
        });
    };
    let wrong = match (open, written) {
        (false, _) => Some(("is for open loads", "write a rate too")),
        (_, Some(file::Arrivals::Poisson)) => {
            Some(("does not go together with poisson", "leave arrivals out"))
        }
        _ if !(1..=BURST_MAX).contains(&size) => {
            Some(("is not from 1 to 100000", "write burst: 50"))
        }
        _ => None,
    };
    match wrong {
        Some((message, help)) => {
            one.say("burst", message, help);
            None
        }
        None => Some(Arrivals::Burst(size)),
    }
}

fn queue(one: &mut One, open: bool) -> Option<usize> {
    let Some(Count(queue)) = one.scenario.queue else {
        return Some(QUEUE);
    };
    if !open {
        let help = "write a rate, or leave it out; a closed load has no queue";
        one.say("queue", "is for open loads", help);
        return None;
    }
    if queue > QUEUE_MAX as u64 {
        one.say("queue", format!("is more than {QUEUE_MAX}"), "");
        return None;
    }
    Some(queue as usize)
}

/// The connections as written. The outer nothing is a problem.
fn connections(one: &mut One) -> Option<Option<usize>> {
    match one.scenario.connections {
        Some(Count(n)) if n == 0 || n > CONNECTIONS_MAX as u64 => {
            one.say(
                "connections",
                format!("is not from 1 to {CONNECTIONS_MAX}"),
                "",
            );
            None
        }
        written => Some(written.map(|count| count.0 as usize)),
    }
}

/// A stage with the path that problems of it have.
struct Staged {
    path: Path,
    name: Option<String>,
    warmup: bool,
    shape: Shape,
}

/// One level for the whole duration, after a warm-up where one is asked for.
fn steady(one: &mut One, connections: Option<usize>) -> Option<Vec<Staged>> {
    let level = match one.scenario.rate {
        Some(Level(0.0)) => {
            one.say("rate", "is 0: nothing would be sent", "");
            return None;
        }
        Some(Level(rate)) => rate,
        None => connections.unwrap_or(CONNECTIONS_CLOSED) as f64,
    };
    let lasting = one.scenario.duration.map_or(DURATION, |span| span.0);
    if lasting.is_zero() {
        one.say(
            "duration",
            "is 0: nothing would be sent",
            "write 30s, for instance",
        );
        return None;
    }
    let stage = |key: &str, warmup, lasting| Staged {
        path: one.path.key(key),
        name: None,
        warmup,
        shape: Shape::Hold { at: level, lasting },
    };
    let warmup = one.scenario.warmup.filter(|span| !span.0.is_zero());
    let warmup = warmup.map(|Span(lasting)| stage("warmup", true, lasting));
    let key = if one.scenario.rate.is_some() {
        "rate"
    } else {
        "duration"
    };
    Some(
        warmup
            .into_iter()
            .chain([stage(key, false, lasting)])
            .collect(),
    )
}

fn staged(one: &mut One, stages: &[Stage], open: bool, connections: bool) -> Option<Vec<Staged>> {
    let scenario = one.scenario;
    let rivals = [
        (
            "rate",
            scenario.rate.is_some(),
            "the stages say the rate; leave it out, and write arrivals: uniform",
        ),
        (
            "duration",
            scenario.duration.is_some(),
            "each stage says how long it is; leave it out",
        ),
        (
            "warmup",
            scenario.warmup.is_some(),
            "write it as the first stage: warmup: { at: 100, for: 5s }",
        ),
        (
            "connections",
            connections && !open,
            "the stages say how many; leave it out, or write arrivals: uniform to make the levels rates",
        ),
    ];
    let clash = rivals.iter().any(|(_, clashes, _)| *clashes);
    for (key, _, help) in rivals.iter().filter(|(_, clashes, _)| *clashes) {
        one.say(key, "does not go together with stages", help);
    }
    if stages.is_empty() || stages.len() > STAGES_MAX {
        one.say("stages", format!("there are not 1 to {STAGES_MAX}"), "");
        return None;
    }
    let above = one.path.key("stages");
    let read = stages.iter().enumerate();
    let read: Vec<_> = read.map(|(i, s)| stage(one, above.index(i), s)).collect();
    let read: Option<Vec<Staged>> = read.into_iter().collect();
    read.filter(|_| !clash)
}

fn stage(one: &mut One, path: Path, stage: &Stage) -> Option<Staged> {
    let (kind, level_key, level, time_key, time, name) = match stage {
        Stage::Ramp(ramp) => ("ramp", "to", ramp.to, "over", ramp.over, &ramp.name),
        Stage::Hold(hold) => ("hold", "at", hold.at, "for", hold.r#for, &hold.name),
        Stage::Warmup(hold) => ("warmup", "at", hold.at, "for", hold.r#for, &hold.name),
    };
    let path = path.key(kind);
    let help = match stage {
        Stage::Ramp(_) => "write ramp: { to: 1000, over: 30s }",
        Stage::Hold(_) => "write hold: { at: 1000, for: 2m }",
        Stage::Warmup(_) => "write warmup: { at: 100, for: 5s }",
    };
    let time = match time {
        Some(Span(time)) if time.is_zero() => {
            one.check
                .say(&path.key(time_key), "a stage cannot last 0", help);
            None
        }
        None => {
            one.check.say(&path, format!("needs `{time_key}`"), help);
            None
        }
        Some(Span(time)) => Some(time),
    };
    if level.is_none() {
        one.check.say(&path, format!("needs `{level_key}`"), help);
    }
    let name = match name {
        Some(Text(name)) => Some(one.name(&path.key("name"), name)?),
        None => None,
    };
    let (Level(level), time) = (level?, time?);
    let shape = match stage {
        Stage::Ramp(_) => Shape::Ramp {
            to: level,
            over: time,
        },
        Stage::Hold(_) | Stage::Warmup(_) => Shape::Hold {
            at: level,
            lasting: time,
        },
    };
    Some(Staged {
        path,
        name,
        warmup: matches!(stage, Stage::Warmup(_)),
        shape,
    })
}

/// Lays the stages out, and refuses those that cannot be.
fn profile(one: &mut One, stages: Vec<Staged>, level_max: f64) -> Option<Profile> {
    let problems = one.check.problems.len();
    let whole = level_max <= CONNECTIONS_MAX as f64;
    let (mut level, mut total) = (0.0, Duration::ZERO);
    for stage in &stages {
        let (to, lasting) = match stage.shape {
            Shape::Ramp { to, over } => (to, over),
            Shape::Hold { at, lasting } => (at, lasting),
        };
        total += lasting;
        if matches!(stage.shape, Shape::Ramp { .. }) && to == level {
            let message = format!("a ramp from {level} to {to} goes nowhere");
            one.check.say(&stage.path, message, "write a hold");
        }
        if to > level_max {
            let what = if whole {
                "connections"
            } else {
                "arrivals a second"
            };
            one.check.say(
                &stage.path,
                format!("{to} is more than {level_max} {what}"),
                "",
            );
        } else if whole && to.fract() != 0.0 {
            let help = "write a whole number, or arrivals: uniform if it is a rate";
            one.check
                .say(&stage.path, format!("there are no {to} connections"), help);
        }
        level = to;
    }
    if total > super::units::DURATION_MAX {
        one.say("stages", "they last longer than 30 days together", "");
    }
    let measured = |s: &&Staged| matches!(s.shape, Shape::Hold { .. }) && !s.warmup;
    let holds = stages.iter().filter(measured);
    if !holds
        .clone()
        .any(|s| matches!(s.shape, Shape::Hold { at, .. } if at > 0.0))
    {
        let help = "add a hold above 0: quantiles of a ramp or of a warm-up are no result";
        one.say("stages", "there is nothing to judge", help);
    }
    let names = names(one, &stages);
    let laid = stages.into_iter().zip(names);
    let laid = laid.map(|(stage, name)| (name, stage.warmup, stage.shape));
    (one.check.problems.len() == problems).then(|| Profile::new(laid))
}

/// The stages' names: as written, or after what they do. No two are the same.
fn names(one: &mut One, stages: &[Staged]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for stage in stages {
        let name = stage.name.clone().unwrap_or_else(|| {
            let plain = match (&stage.shape, stage.warmup) {
                (_, true) => "warm-up".to_owned(),
                (Shape::Ramp { to, .. }, _) => format!("ramp {to}"),
                (Shape::Hold { at, .. }, _) => format!("hold {at}"),
            };
            let again = |n: &usize| !names.contains(&format!("{plain} #{n}"));
            match names.contains(&plain) {
                true => format!(
                    "{plain} #{}",
                    (2..).find(again).expect("there are numbers enough")
                ),
                false => plain,
            }
        });
        if names.contains(&name) {
            let message = format!("another stage is called `{name}` too");
            one.check
                .say(&stage.path, message, "give each stage its own name");
        }
        names.push(name);
    }
    names
}
