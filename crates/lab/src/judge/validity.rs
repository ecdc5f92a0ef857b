//! Whether a run's numbers mean anything: each criterion with what was found, and one verdict.
//!
//! The bounds are from the study of measuring (`lab-statistics.md`, 4.6 and 5). Pressure is evidence and no
//! criterion: on two cores a generator and its target press each other, and that is the measurement, not noise.

use crate::exit::Exit;
use crate::result::{Criterion, FlowResult, Run, StepResult, SubjectResult, Validity, Verdict};

/// The share of the time that the generator's threads may be busy in a closed hold.
pub(crate) const GENERATOR_BUSY_MAX: f64 = 0.90;
/// The share of the arrivals planned that must be answered in an open hold.
pub(crate) const ACHIEVED_MIN: f64 = 0.99;
/// Lag p99 as a share of response p99, and in µs: over both, the generator was late.
pub(crate) const LAG_SHARE_MAX: f64 = 0.05;
pub(crate) const LAG_US_MAX: f64 = 1000.0;
/// The share of requests that may have waited for a connection while lag is still called the generator's.
pub(crate) const QUEUED_SHARE_MAX: f64 = 0.01;
/// The share of all cores that the hypervisor, and others on this machine, may have taken.
pub(crate) const STEAL_SHARE_MAX: f64 = 0.02;
pub(crate) const OTHERS_SHARE_MAX: f64 = 0.10;
/// The shortest hold that is judged, in seconds.
pub(crate) const HOLD_S_MIN: f64 = 5.0;
/// The share of its time that a target at its limit is busy.
pub(crate) const SATURATED_MIN: f64 = 0.90;
/// Two sides whose busiest threads differ by less are equally busy.
const TIE: f64 = 0.05;

/// What a run claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Claim {
    /// What happened under this load.
    #[default]
    Load,
    /// What the target carries at most: the run must have brought it to its limit.
    Saturation,
}

/// Judges a run. The verdict is that of the first criterion that does not hold, in the order of the list:
/// interrupted, noisy-host, generator-bound, too-short, not-saturated.
pub(crate) fn validity(run: &Run, claim: Claim) -> Validity {
    let mut criteria = vec![end(run)];
    // A generator that others kept from its CPU is late too; then the noise is what to mend.
    criteria.extend(noise(run));
    criteria.extend(run.flows.iter().map(|flow| generator(run, flow)));
    criteria.extend(run.flows.iter().map(|flow| length(run, flow)));
    if run.flows.is_empty() {
        criteria.push(Criterion {
            verdict: Verdict::TooShort,
            holds: false,
            evidence: "nothing was run".to_owned(),
        });
    }
    if claim == Claim::Saturation {
        criteria.push(saturation(run));
    }
    let broken = criteria.iter().find(|criterion| !criterion.holds);
    Validity {
        verdict: broken.map_or(Verdict::Valid, |criterion| criterion.verdict),
        criteria,
    }
}

/// The verdict when some are accepted: that of the first criterion that does not hold and is not accepted.
pub(crate) fn unaccepted(validity: &Validity, accept: &[Verdict]) -> Verdict {
    if !accept.contains(&validity.verdict) {
        return validity.verdict;
    }
    let mut criteria = validity.criteria.iter();
    let broken =
        criteria.find(|criterion| !criterion.holds && !accept.contains(&criterion.verdict));
    broken.map_or(Verdict::Valid, |criterion| criterion.verdict)
}

/// How a command ends whose run was judged so.
pub(crate) fn exit(verdict: Verdict) -> Exit {
    match verdict {
        Verdict::Valid => Exit::Pass,
        Verdict::GeneratorBound => Exit::GeneratorBound,
        Verdict::NoisyHost => Exit::NoisyHost,
        Verdict::NotSaturated => Exit::NotSaturated,
        Verdict::TooShort => Exit::TooShort,
        Verdict::Interrupted => Exit::Interrupted,
    }
}

/// A run that a threshold stopped, as it was asked to, has said what it was to say.
fn end(run: &Run) -> Criterion {
    let seconds = run.meta.seconds;
    let evidence = match (&run.meta.stopped_by, run.meta.partial) {
        (Some(threshold), _) => {
            format!("stopped after {seconds:.1} s, as asked when {threshold} is breached")
        }
        (None, true) => format!("the run was stopped after {seconds:.1} s, before its end"),
        (None, false) => "the run went to its end".to_owned(),
    };
    Criterion {
        verdict: Verdict::Interrupted,
        holds: !run.meta.partial || run.meta.stopped_by.is_some(),
        evidence,
    }
}

fn is_measured(step: &&StepResult) -> bool {
    step.kind == "hold"
}

/// How busy one side was in a step: its busiest thread (of the generator: the mean of its threads), with and without
/// the time that it waited for a CPU, and the cores that it used.
#[derive(Clone, Copy, Debug)]
struct Side {
    busy: f64,
    wanted: f64,
    cores: f64,
}

fn generator(run: &Run, flow: &FlowResult) -> Criterion {
    let judged = flow.steps.iter().filter(is_measured).map(|step| {
        if flow.model == "open" {
            open(flow, step, generator_side(run, flow, step))
        } else {
            closed(run, flow, step)
        }
    });
    let mut judged: Vec<(bool, String)> = judged.collect();
    // The first hold that does not hold tells most; else the last, which mostly is the hardest.
    let broken = judged.iter().position(|(holds, _)| !holds);
    let found = match broken {
        Some(at) => judged.swap_remove(at),
        None => judged
            .pop()
            .unwrap_or((true, "it has no hold to be judged on".to_owned())),
    };
    Criterion {
        verdict: Verdict::GeneratorBound,
        holds: found.0,
        evidence: format!("{}: {}", flow.name, found.1),
    }
}

/// The flow's threads from what the collector counted, and their wait from what the watch saw.
fn generator_side(run: &Run, flow: &FlowResult, step: &StepResult) -> Option<Side> {
    let cpu_us = step.summary.generator_cpu_us?;
    let cores = cpu_us * step.summary.rate / 1e6;
    let busy = (cores / flow.threads.max(1) as f64).min(1.0);
    let watched = run
        .watched
        .subjects
        .iter()
        .find(|subject| subject.kind == "generator");
    let seen = watched.and_then(|subject| subject.steps.iter().find(|s| s.step == step.name));
    let waited = seen
        .filter(|seen| !seen.threads.is_empty())
        .map_or(0.0, |seen| {
            let sum: f64 = seen.threads.iter().map(|thread| thread.waited_share).sum();
            sum / seen.threads.len() as f64
        });
    Some(Side {
        busy,
        wanted: (busy + waited).min(1.0),
        cores,
    })
}

/// The busiest of what is watched, in a step.
fn target_side(run: &Run, step: &str) -> Option<Side> {
    let sides = run
        .watched
        .subjects
        .iter()
        .filter(|subject| is_target(subject))
        .filter_map(|subject| {
            let step = subject.steps.iter().find(|found| found.step == step)?;
            let busiest = step
                .threads
                .iter()
                .map(|thread| (thread.busy_share, thread.waited_share));
            let (busy, waited) = busiest.max_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)))?;
            Some(Side {
                busy,
                wanted: (busy + waited).min(1.0),
                cores: step.cores,
            })
        });
    sides.max_by(|a, b| a.wanted.total_cmp(&b.wanted))
}

fn is_target(subject: &SubjectResult) -> bool {
    subject.kind == "process" || subject.kind == "cgroup"
}

/// One side of a closed loop is always at its limit. It must not be the generator.
fn closed(run: &Run, flow: &FlowResult, step: &StepResult) -> (bool, String) {
    let Some(ours) = generator_side(run, flow, step) else {
        return (
            true,
            format!(
                "in {} nothing was completed, so its threads cannot be judged",
                step.name
            ),
        );
    };
    let own = format!(
        "its threads were busy for {} of {} (bound: {})",
        percent(ours.busy),
        step.name,
        percent(GENERATOR_BUSY_MAX)
    );
    let Some(theirs) = target_side(run, &step.name) else {
        if ours.busy <= GENERATOR_BUSY_MAX {
            return (true, own);
        }
        let advice = "; watch the target, so that the busier side can be told";
        return (false, format!("{own}{advice}"));
    };
    // A thread that waits for a CPU is as much at its limit as one that has it.
    if ours.wanted <= GENERATOR_BUSY_MAX {
        return (true, own);
    }
    let is_tie = (ours.wanted - theirs.wanted).abs() < TIE;
    let holds = if is_tie {
        theirs.cores >= ours.cores
    } else {
        theirs.wanted > ours.wanted
    };
    let side = if holds {
        "the busier side"
    } else {
        "the less busy side"
    };
    let evidence = format!(
        "{own}, busy or waiting for a CPU for {}; the target's busiest thread for {}, and {:.2} cores to our {:.2}: \
         the target was {side}",
        percent(ours.wanted),
        percent(theirs.wanted),
        theirs.cores,
        ours.cores,
    );
    (holds, evidence)
}

/// In an open run the generator must send when a request is due. Where requests had to wait for a connection, lag is
/// the target's doing, or that of too few connections.
fn open(flow: &FlowResult, step: &StepResult, ours: Option<Side>) -> (bool, String) {
    let summary = &step.summary;
    let p99 = |name: &str| summary.latency.get(name).map(|quantiles| quantiles.p99);
    let sent = (summary.requests + summary.dropped).max(1) as f64;
    let queued_share = (summary.queued + summary.dropped) as f64 / sent;
    let is_busy = ours.is_some_and(|ours| ours.busy > GENERATOR_BUSY_MAX);
    let busy = ours.map_or(String::new(), |ours| {
        format!("; its threads were busy for {}", percent(ours.busy))
    });
    let is_ours = is_busy || queued_share <= QUEUED_SHARE_MAX;
    let achieved = summary
        .rate_planned
        .filter(|planned| *planned > 0.0)
        .map(|planned| summary.rate / planned);
    if let Some(achieved) = achieved.filter(|achieved| *achieved < ACHIEVED_MIN)
        && is_ours
    {
        let evidence = format!(
            "{} of the arrivals planned in {} were answered (bound: {}), and it was not for want of connections{busy}",
            percent(achieved),
            step.name,
            percent(ACHIEVED_MIN)
        );
        return (false, evidence);
    }
    let (Some(lag_us), Some(response_us)) = (p99("lag"), p99("response")) else {
        return (
            true,
            format!(
                "in {} nothing was answered, so its lag cannot be judged",
                step.name
            ),
        );
    };
    let bound_us = (LAG_SHARE_MAX * response_us).max(LAG_US_MAX);
    let evidence = format!(
        "lag p99 was {:.3} ms in {} (bound: {:.3} ms){busy}",
        lag_us / 1000.0,
        step.name,
        bound_us / 1000.0
    );
    if lag_us > bound_us && !is_ours {
        let why = format!(
            "; {} of requests waited for one of {} connections, which is not the generator's lateness",
            percent(queued_share),
            flow.connections
        );
        return (true, evidence + &why);
    }
    (lag_us <= bound_us, evidence)
}

fn noise(run: &Run) -> Vec<Criterion> {
    let criterion = |holds, evidence| Criterion {
        verdict: Verdict::NoisyHost,
        holds,
        evidence,
    };
    let Some(noise) = &run.watched.noise else {
        return vec![criterion(true, "the host was not watched".to_owned())];
    };
    let mut criteria = vec![criterion(
        noise.steal_share <= STEAL_SHARE_MAX,
        format!(
            "the hypervisor gave {} of the CPU time to others (bound: {})",
            percent(noise.steal_share),
            percent(STEAL_SHARE_MAX)
        ),
    )];
    let pressure = match noise.pressure_share {
        Some(share) => format!(
            "; some task, ours included, waited for a CPU for {} of the time; load {:.2}",
            percent(share),
            noise.load1
        ),
        None => format!(
            "; this kernel does not tell of pressure; load {:.2}",
            noise.load1
        ),
    };
    criteria.push(match noise.others_share {
        Some(share) => criterion(
            share <= OTHERS_SHARE_MAX,
            format!(
                "others used {} of the CPU time (bound: {}){pressure}",
                percent(share),
                percent(OTHERS_SHARE_MAX)
            ),
        ),
        None => criterion(
            true,
            format!(
                "nothing is watched, so others' CPU time cannot be told from the target's{pressure}"
            ),
        ),
    });
    criteria
}

fn length(run: &Run, flow: &FlowResult) -> Criterion {
    let holds = flow.steps.iter().filter(is_measured);
    let shortest = holds.min_by(|a, b| a.summary.seconds.total_cmp(&b.summary.seconds));
    let (holds, evidence) = match shortest {
        None => (
            false,
            "it has no hold, and nothing is judged on a ramp".to_owned(),
        ),
        Some(step) => {
            let quantiles = step.summary.latency.get("response");
            let tail = match quantiles {
                Some(found) if found.p999.is_none() => {
                    "; too few requests for p99.9, which is left out"
                }
                _ => "",
            };
            let evidence = format!(
                "{} lasts {:.1} s (at least {HOLD_S_MIN:.0} s){tail}",
                step.name, step.summary.seconds
            );
            let is_cut = run.meta.stopped_by.is_some();
            (is_cut || step.summary.seconds >= HOLD_S_MIN, evidence)
        }
    };
    Criterion {
        verdict: Verdict::TooShort,
        holds,
        evidence: format!("{}: {evidence}", flow.name),
    }
}

/// A claim of what a target carries needs a sign that it was at its limit.
fn saturation(run: &Run) -> Criterion {
    let short = run.flows.iter().find_map(|flow| {
        let step = flow.steps.iter().rfind(|step| step.kind == "hold")?;
        let achieved = step.summary.rate / step.summary.rate_planned.filter(|rate| *rate > 0.0)?;
        (achieved < ACHIEVED_MIN).then(|| {
            format!(
                "{}: {} of the arrivals planned were answered",
                flow.name,
                percent(achieved)
            )
        })
    });
    let steps = run
        .flows
        .iter()
        .flat_map(|flow| &flow.steps)
        .filter(is_measured);
    let busiest = steps
        .filter_map(|step| Some((target_side(run, &step.name)?, step)))
        .max_by(|a, b| a.0.wanted.total_cmp(&b.0.wanted));
    let (holds, evidence) = match (short, busiest) {
        (Some(short), _) => (true, short),
        (None, Some((side, step))) => (
            side.wanted >= SATURATED_MIN,
            format!(
                "the target's busiest thread was busy or waiting for a CPU for {} of {} (at its limit: {})",
                percent(side.wanted),
                step.name,
                percent(SATURATED_MIN)
            ),
        ),
        (None, None) => (
            false,
            "nothing is watched that could show the target at its limit: watch its process"
                .to_owned(),
        ),
    };
    Criterion {
        verdict: Verdict::NotSaturated,
        holds,
        evidence,
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests;
