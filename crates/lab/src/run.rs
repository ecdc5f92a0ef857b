//! Carries a plan out: makes the threads ready, lets them begin together, collects, watches, and judges.
//!
//! This is the one path of every measurement, whatever experiment asks for it. It reads top to bottom: watch ·
//! start · begin · collect · end · judge.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use crate::ceilings;
use crate::collect::{Closed, Collector, is_measured};
use crate::engine::{self, Begin, Control, STOP_LOOK, Shipment};
use crate::exit::Failure;
use crate::interrupt;
use crate::judge::{self, Claim, Threshold};
use crate::origin;
use crate::output::{FlowSnapshot, Observer, Snapshot, Spread, SubjectSnapshot};
use crate::plan::{Flow, Model, Plan};
use crate::result::{FlowResult, Meta, Run, SCHEMA};
use crate::tally::{Fault, Metric};
use crate::watch::{self, Subject, Watcher};

/// Intervals that may wait to be collected, for each thread; a thread waits when there are more.
const SHIPMENTS_MAX: usize = 8;

/// What a run has around its load.
#[derive(Default)]
pub struct Around {
    pub watch: Vec<Subject>,
    /// How often the watched are looked at.
    pub watch_every: Duration,
    /// What the run has to keep to.
    pub thresholds: Vec<Threshold>,
    /// The built-in origin behind the target, as `http://host:port`: asked what it counted.
    pub origin: Option<String>,
    /// The run claims what the target carries at most, so it must have been brought to its limit.
    pub saturating: bool,
    /// Texts for the report; instants, seconds and the machine are filled in here.
    pub meta: Meta,
}

/// Carries a plan out and says what happened. An interrupted run is a result too: it says that it is partial.
///
/// # Errors
///
/// The run cannot begin: a target that cannot be reached, a subject that cannot be watched; or it cannot go on:
/// the target does not speak the protocol.
pub(crate) fn carry_out(
    plan: &Plan,
    around: &Around,
    observer: &mut dyn Observer,
) -> Result<Run, Failure> {
    let watcher = Watcher::start(&around.watch, around.watch_every)?;
    let control = Arc::new(Control::default());
    let threads: usize = plan.flows.iter().map(|flow| flow.threads).sum();
    let (sender, shipments) = sync_channel(threads * SHIPMENTS_MAX);
    let handles = engine::start(plan, &control, &sender);
    drop(sender);
    let begun = control.begin(threads);
    let mut collector = Collector::new(plan);
    let mut stopped_by = None;
    if let Ok(begin) = &begun {
        watcher.follow(begin.instant, plan.flows.iter().map(|flow| &flow.profile));
        let mut show = Show::new(plan, &watcher, *begin);
        let thresholds = &around.thresholds;
        stopped_by = show.collect(&shipments, &control, &mut collector, thresholds, observer);
    }
    // The receiver is empty or nobody reads it any more: no thread can wait for it.
    drop(shipments);
    for handle in handles {
        if handle.join().is_err() {
            return Err(Failure::new(
                "a generator thread failed",
                "this is a defect of the lab",
            ));
        }
    }
    let begin = begun?;
    if let Some(failure) = control.failure() {
        return Err(failure);
    }
    let seconds = begin.instant.elapsed().as_secs_f64();
    let mut run = gather(plan, around, &collector, watcher, seconds);
    run.meta.started = base::clock::rfc3339(begin.unix_ns / 1_000_000);
    run.meta.partial = control.stopped();
    run.meta.stopped_by = stopped_by;
    conclude(&mut run, plan, around);
    Ok(run)
}

/// What everybody counted, as one result.
fn gather(
    plan: &Plan,
    around: &Around,
    collector: &Collector<'_>,
    watcher: Watcher,
    seconds: f64,
) -> Run {
    let (flows, measured, total) = collector.results(seconds);
    let mut windows = watch::windows(plan.flows.iter().map(|flow| &flow.profile));
    for window in &mut windows {
        window.requests = requests_in(plan, &flows, &window.step);
    }
    let (watched, warnings) = watcher.finish(&windows);
    let mut run = Run {
        schema: SCHEMA.into(),
        requests: collector.completed(),
        measured,
        total,
        flows,
        watched,
        notes: collector.notes().to_vec(),
        warnings,
        meta: around.meta.clone(),
        ..Run::default()
    };
    run.meta.seconds = seconds;
    run.meta.seed = plan.seed;
    run.meta.machine = watch::machine::read();
    run.meta.ceilings = ceilings::recall(&run.meta.machine);
    run.meta.version = version();
    costs(&mut run);
    run
}

/// Requests that were due in a window: in every flow's step of that name, or in what is measured.
fn requests_in(plan: &Plan, flows: &[FlowResult], name: &str) -> u64 {
    let pairs = plan.flows.iter().zip(flows);
    let steps = pairs.flat_map(|(flow, result)| {
        let steps = result.steps.iter().enumerate();
        steps.filter_map(move |(index, step)| {
            let is_in = if name.is_empty() {
                is_measured(flow, index)
            } else {
                step.name == name
            };
            is_in.then_some(step.summary.requests)
        })
    });
    steps.sum()
}

/// CPU time of the watched for a request, in the summaries.
fn costs(run: &mut Run) {
    run.measured.watched_cpu_us = watch::watched_cpu_us(&run.watched, "");
    for flow in &mut run.flows {
        for step in &mut flow.steps {
            step.summary.watched_cpu_us = watch::watched_cpu_us(&run.watched, &step.name);
        }
    }
}

/// Asks the origin, and judges: valid first, fast second.
fn conclude(run: &mut Run, plan: &Plan, around: &Around) {
    if let Some(url) = &around.origin {
        match origin::counts(url, plan.run) {
            Ok(counts) => run.origin = Some(counts),
            Err(why) => run
                .warnings
                .push(format!("the origin's counts are not known: {why}")),
        }
    }
    if run
        .flows
        .iter()
        .all(|flow| flow.steps.iter().all(|step| step.kind != "hold"))
    {
        run.warnings.push(
            "no stage holds a level, so everything but the warm-up is measured, and no quantile is a headline".into(),
        );
    }
    let claim = if around.saturating {
        Claim::Saturation
    } else {
        Claim::Load
    };
    run.validity = judge::validity(run, claim);
    run.thresholds = judge::judge(&around.thresholds, run);
}

/// The lab's own version and profile.
pub(crate) fn version() -> String {
    let profile = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    format!("{} ({profile})", env!("CARGO_PKG_VERSION"))
}

/// Shows a run to its observer while it goes on.
struct Show<'a> {
    watcher: &'a Watcher,
    begin: Begin,
    total_s: f64,
    flows: Vec<FlowSnapshot>,
    shown: Instant,
}

impl<'a> Show<'a> {
    fn new(plan: &Plan, watcher: &'a Watcher, begin: Begin) -> Show<'a> {
        let ends = plan.flows.iter().map(|flow| flow.profile.end_ns());
        let flows = plan.flows.iter().map(|flow| FlowSnapshot {
            name: flow.name.clone(),
            open: flow.model != Model::Closed,
            ..FlowSnapshot::default()
        });
        Show {
            watcher,
            begin,
            total_s: ends.max().unwrap_or(0) as f64 / 1e9,
            flows: flows.collect(),
            shown: begin.instant,
        }
    }

    /// Takes shipments in until no thread is left. Says which threshold stopped the run, if one did.
    fn collect(
        &mut self,
        shipments: &Receiver<Shipment>,
        control: &Control,
        collector: &mut Collector<'_>,
        thresholds: &[Threshold],
        observer: &mut dyn Observer,
    ) -> Option<String> {
        let mut stopped_by = None;
        loop {
            match shipments.recv_timeout(STOP_LOOK) {
                Ok(shipment) => {
                    collector.take(shipment, &mut |closed| self.closed(&closed, observer));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if interrupt::asked() && !control.stopped() {
                observer.message("interrupted: stopping; what was measured is written");
                control.stop();
            }
            if self.shown.elapsed() >= Duration::from_millis(500) {
                self.snapshot(observer);
                if stopped_by.is_none() && !control.stopped() {
                    stopped_by = breached(thresholds, collector, self.begin);
                    if let Some(threshold) = &stopped_by {
                        observer.message(&format!("{threshold} is breached: stopping"));
                        control.stop();
                    }
                }
            }
        }
        collector.end(&mut |closed| self.closed(&closed, observer));
        self.snapshot(observer);
        stopped_by
    }

    fn closed(&mut self, closed: &Closed<'_>, observer: &mut dyn Observer) {
        observer.histograms(closed.t_s, closed.seconds, &closed.flow.name, closed.tally);
        let snapshot = &mut self.flows[closed.flow.index];
        let spread =
            |tally: &crate::tally::Tally| tally.distribution(Metric::Response).and_then(Spread::of);
        let faults = Fault::ALL.iter().zip(&closed.so_far.faults);
        *snapshot = FlowSnapshot {
            rate: closed.tally.completed as f64 / closed.seconds,
            in_flight: closed.in_flight,
            waiting: closed.waiting,
            completed: closed.so_far.completed,
            good: closed.so_far.good,
            failed: closed.so_far.failures(),
            dropped: closed.so_far.dropped,
            errors: faults
                .filter(|(_, n)| **n > 0)
                .map(|(fault, n)| (fault.as_str().to_owned(), *n))
                .collect(),
            last: spread(closed.tally),
            so_far: spread(closed.so_far),
            ..std::mem::take(snapshot)
        };
        let ns = (closed.t_s * 1e9) as u64;
        level(snapshot, closed.flow, ns);
    }

    fn snapshot(&mut self, observer: &mut dyn Observer) {
        self.shown = Instant::now();
        let subjects = self.watcher.live().into_iter().map(|live| SubjectSnapshot {
            name: live.name,
            cores: Some(live.cores),
            rss_bytes: live.rss_bytes,
        });
        let snapshot = Snapshot {
            t_s: self.begin.instant.elapsed().as_secs_f64(),
            total_s: self.total_s,
            flows: self.flows.clone(),
            subjects: subjects.collect(),
            host: self.watcher.live_host(),
        };
        observer.interval(&snapshot);
    }
}

/// The first threshold that is to stop the run and is breached by what there is of it.
fn breached(thresholds: &[Threshold], collector: &Collector<'_>, begin: Begin) -> Option<String> {
    let elapsed = begin.instant.elapsed();
    let mut due = thresholds.iter().filter(|t| t.stops_by(elapsed)).peekable();
    due.peek()?;
    let (flows, measured, total) = collector.results(elapsed.as_secs_f64());
    let so_far = Run {
        flows,
        measured,
        total,
        ..Run::default()
    };
    let found = due.find(|threshold| {
        let result = threshold.judge(&so_far);
        // Nothing to judge yet is no breach yet.
        result.found.is_some() && !result.ok
    });
    found.map(|threshold| format!("{}: {}", threshold.metric, threshold.expression))
}

fn level(snapshot: &mut FlowSnapshot, flow: &Flow, ns: u64) {
    let inside = ns.saturating_sub(1);
    let step = &flow.profile.steps()[flow.profile.step_at(inside)];
    snapshot.step.clone_from(&step.name);
    snapshot.planned = flow.profile.level_at(inside);
}
