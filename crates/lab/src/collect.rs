//! Puts the threads' intervals together: totals by stage and kind, and a series that stays small.
//!
//! An interval of a flow is closed when every thread of the flow has passed it. What is kept of a closed
//! interval is one point; when there are too many points, neighbours are merged and the interval doubles, so a
//! week's run needs no more memory than an hour's.

use std::collections::BTreeMap;

use crate::engine::Shipment;
use crate::plan::{Flow, Model, Plan};
use crate::result::{self, FlowResult, KindResult, Note, Point, StepResult, Summary};
use crate::schedule::Step;
use crate::tally::{Fault, Key, Metric, Tally};

/// Most notes kept of one run.
const NOTES_MAX: usize = 64;

/// One closed interval of one flow.
pub struct Closed<'a> {
    pub flow: &'a Flow,
    /// When it ended, in seconds from the start, and how long it was.
    pub t_s: f64,
    pub seconds: f64,
    /// Of this interval, all kinds together.
    pub tally: &'a Tally,
    /// Of the flow so far.
    pub so_far: &'a Tally,
    pub in_flight: u64,
    pub waiting: u64,
}

/// What has been collected of a run.
pub struct Collector<'a> {
    plan: &'a Plan,
    totals: BTreeMap<Key, Tally>,
    flows: Vec<FlowState<'a>>,
    notes: Vec<Note>,
}

struct FlowState<'a> {
    flow: &'a Flow,
    threads: Vec<ThreadState>,
    open: BTreeMap<u64, Interval>,
    /// The first interval that is not closed.
    next: u64,
    so_far: Tally,
    series: Vec<Point>,
    /// Intervals that one point of the series holds.
    stride: u64,
    /// By step: the generator's CPU time and the requests completed, of intervals that lie inside it.
    cost: Vec<(u64, u64)>,
}

#[derive(Clone, Default)]
struct ThreadState {
    /// The first interval that it has not shipped.
    next: u64,
    in_flight: u64,
    waiting: u64,
    cpu_ns: u64,
    last: bool,
}

#[derive(Default)]
struct Interval {
    tally: Tally,
    cpu_ns: u64,
}

impl<'a> Collector<'a> {
    pub fn new(plan: &'a Plan) -> Collector<'a> {
        let flows = plan.flows.iter().map(|flow| FlowState {
            flow,
            threads: vec![ThreadState::default(); flow.threads],
            open: BTreeMap::new(),
            next: 0,
            so_far: Tally::default(),
            series: Vec::new(),
            stride: 1,
            cost: vec![(0, 0); flow.profile.steps().len()],
        });
        Collector {
            plan,
            totals: BTreeMap::new(),
            flows: flows.collect(),
            notes: Vec::new(),
        }
    }

    /// Takes one thread's interval in, and shows each interval that is closed by it.
    pub fn take(&mut self, shipment: Shipment, show: &mut dyn FnMut(Closed<'_>)) {
        let interval_ns = self.plan.interval.as_nanos() as u64;
        let state = &mut self.flows[shipment.flow];
        // What comes for an interval that is closed counts in the next; nothing is lost.
        let number = shipment.interval.max(state.next);
        let interval = state.open.entry(number).or_default();
        for (key, tally) in &shipment.tallies {
            self.totals.entry(*key).or_default().add(tally);
            // Set-up exchanges have no weight and are in no series.
            if is_own(state.flow, usize::from(key.request)) {
                interval.tally.add(tally);
            }
        }
        let room = NOTES_MAX - self.notes.len();
        self.notes.extend(shipment.notes.into_iter().take(room));
        let thread = &mut state.threads[shipment.thread];
        interval.cpu_ns += shipment.cpu_ns - thread.cpu_ns;
        *thread = ThreadState {
            next: number + 1,
            in_flight: shipment.in_flight,
            waiting: shipment.waiting,
            cpu_ns: shipment.cpu_ns,
            last: shipment.last,
        };
        state.close(interval_ns, show);
    }

    /// Closes what is left, when no thread ships any more.
    pub fn end(&mut self, show: &mut dyn FnMut(Closed<'_>)) {
        let interval_ns = self.plan.interval.as_nanos() as u64;
        for state in &mut self.flows {
            state
                .threads
                .iter_mut()
                .for_each(|thread| thread.last = true);
            state.close(interval_ns, show);
        }
    }

    /// Each flow's results, everything together over what is measured, and over the whole run, so many seconds
    /// after its begin. A step that is not over yet, or was cut short, lasts as long as it did.
    pub fn results(&self, seconds: f64) -> (Vec<FlowResult>, Summary, Summary) {
        let flows = self.flows.iter().map(|state| self.flow(state, seconds));
        let flows: Vec<FlowResult> = flows.collect();
        let measured = self.sum(|flow, kind, step| is_own(flow, kind) && is_measured(flow, step));
        let seconds_measured = flows.iter().map(|f| f.measured.seconds).fold(0.0, f64::max);
        let mut measured = Summary::of(&measured, seconds_measured);
        measured.rate = flows.iter().map(|flow| flow.measured.rate).sum();
        let planned = flows.iter().map(|flow| flow.measured.rate_planned);
        measured.rate_planned = planned.sum();
        let of = |state: &FlowState, step: usize| {
            is_measured(state.flow, step).then_some(state.cost[step])
        };
        let costs = self
            .flows
            .iter()
            .flat_map(|state| (0..state.cost.len()).filter_map(move |step| of(state, step)));
        measured.generator_cpu_us = cost_us(costs);
        let mut total = Summary::of(&self.sum(|_, _, _| true), seconds);
        let cpu_ns = self
            .flows
            .iter()
            .flat_map(|f| &f.threads)
            .map(|t| t.cpu_ns)
            .sum();
        total.generator_cpu_us = cost_us([(cpu_ns, total.requests)]);
        (flows, measured, total)
    }

    /// Requests that were answered, everything that was sent included.
    pub fn completed(&self) -> u64 {
        self.totals.values().map(|tally| tally.completed).sum()
    }

    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The tallies of each flow, kind and step that are asked for, added up.
    fn sum(&self, wanted: impl Fn(&Flow, usize, usize) -> bool) -> Tally {
        let mut sum = Tally::default();
        for (key, tally) in &self.totals {
            let flow = &self.plan.flows[usize::from(key.flow)];
            if wanted(flow, usize::from(key.request), usize::from(key.step)) {
                sum.add(tally);
            }
        }
        sum
    }

    fn flow(&self, state: &FlowState, elapsed_s: f64) -> FlowResult {
        let flow = state.flow;
        let of = |wanted: &dyn Fn(usize, usize) -> bool| {
            self.sum(|found, kind, step| found.index == flow.index && wanted(kind, step))
        };
        let own = |kind: usize| is_own(flow, kind);
        let measured_s = measured_seconds(flow, elapsed_s);
        let steps = (0..flow.profile.steps().len()).map(|step| {
            let tally = of(&|kind, s| own(kind) && s == step);
            self.step(state, step, &tally, elapsed_s)
        });
        let kinds = flow.requests.iter().enumerate().map(|(kind, request)| {
            let tally = of(&|k, step| k == kind && (!own(kind) || is_measured(flow, step)));
            KindResult {
                name: request.name.clone(),
                summary: Summary::of(&tally, measured_s),
            }
        });
        let tally = of(&|kind, step| own(kind) && is_measured(flow, step));
        let mut measured = Summary::of(&tally, measured_s);
        measured.rate_planned = planned(flow, |step| is_measured(flow, step));
        let costs = state.cost.iter().enumerate();
        let costs = costs.filter(|(step, _)| is_measured(flow, *step));
        measured.generator_cpu_us = cost_us(costs.map(|(_, cost)| *cost));
        FlowResult {
            name: flow.name.clone(),
            targets: flow.targets.iter().map(|t| t.url()).collect(),
            protocol: flow.protocol.to_string(),
            model: match flow.model {
                Model::Closed => "closed".into(),
                Model::Open { .. } => "open".into(),
            },
            connections: flow.connections,
            threads: flow.threads,
            spectrum: spectra(&tally),
            measured,
            steps: steps.collect(),
            kinds: kinds.collect(),
            series: state.series.clone(),
        }
    }

    fn step(&self, state: &FlowState, index: usize, tally: &Tally, elapsed_s: f64) -> StepResult {
        let step = &state.flow.profile.steps()[index];
        let mut summary = Summary::of(tally, lasted_s(step, elapsed_s));
        summary.rate_planned = planned(state.flow, |s| s == index);
        summary.generator_cpu_us = cost_us([state.cost[index]]);
        let kind = match (step.warmup, step.is_hold()) {
            (true, _) => "warm-up",
            (false, true) => "hold",
            (false, false) => "ramp",
        };
        StepResult {
            name: step.name.clone(),
            kind: kind.into(),
            from: step.from,
            to: step.to,
            begin_s: step.begin_ns as f64 / 1e9,
            summary,
        }
    }
}

/// Whether a kind of request is one that the plan asks for, and not part of setting connections up.
fn is_own(flow: &Flow, kind: usize) -> bool {
    flow.requests[kind].weight > 0
}

/// Whether a step is in the headline: a hold that is no warm-up, or any step that is none where no hold is.
pub fn is_measured(flow: &Flow, step: usize) -> bool {
    let steps = flow.profile.steps();
    let holds = steps.iter().any(|s| s.is_hold() && !s.warmup);
    !steps[step].warmup && (steps[step].is_hold() || !holds)
}

fn measured_seconds(flow: &Flow, elapsed_s: f64) -> f64 {
    let steps = flow.profile.steps().iter().enumerate();
    let measured = steps.filter(|(index, _)| is_measured(flow, *index));
    measured.map(|(_, step)| lasted_s(step, elapsed_s)).sum()
}

/// How long a step has lasted, in seconds: as planned, or until the run was stopped.
fn lasted_s(step: &Step, elapsed_s: f64) -> f64 {
    let left = elapsed_s - step.begin_ns as f64 / 1e9;
    left.clamp(0.0, step.seconds())
}

/// Arrivals a second that the steps mean; nothing when closed.
fn planned(flow: &Flow, wanted: impl Fn(usize) -> bool) -> Option<f64> {
    let Model::Open { .. } = flow.model else {
        return None;
    };
    let steps = flow.profile.steps().iter().enumerate();
    let (mut arrivals, mut seconds) = (0.0, 0.0);
    for (_, step) in steps.filter(|(index, _)| wanted(*index)) {
        arrivals += (step.from + step.to) / 2.0 * step.seconds();
        seconds += step.seconds();
    }
    (seconds > 0.0).then_some(arrivals / seconds)
}

/// Microseconds of CPU for a request, of pairs of nanoseconds and requests.
fn cost_us(costs: impl IntoIterator<Item = (u64, u64)>) -> Option<f64> {
    let sum = |(ns, n): (u64, u64), (more, m): (u64, u64)| (ns + more, n + m);
    let (ns, requests) = costs.into_iter().fold((0, 0), sum);
    (requests > 0).then(|| ns as f64 / 1000.0 / requests as f64)
}

fn spectra(tally: &Tally) -> BTreeMap<String, Vec<(f64, f64)>> {
    let shown = [Metric::Response, Metric::Service, Metric::Lag];
    let found = shown.iter().filter_map(|metric| {
        let distribution = tally.distribution(*metric)?;
        Some((metric.as_str().to_owned(), result::spectrum(distribution)))
    });
    found.collect()
}

impl FlowState<'_> {
    /// Closes the intervals that every thread has passed.
    fn close(&mut self, interval_ns: u64, show: &mut dyn FnMut(Closed<'_>)) {
        loop {
            let passed = |thread: &ThreadState| thread.last || thread.next > self.next;
            let ended = self.threads.iter().all(|thread| thread.last);
            if !self.threads.iter().all(passed) || ended && self.open.is_empty() {
                return;
            }
            let interval = self.open.remove(&self.next).unwrap_or_default();
            let end_ns = (self.next + 1) * interval_ns;
            self.next += 1;
            self.account(end_ns - interval_ns, end_ns, &interval);
            self.so_far.add(&interval.tally);
            let point = self.point(end_ns, interval_ns, &interval.tally);
            show(Closed {
                flow: self.flow,
                t_s: point.t_s,
                seconds: point.seconds,
                tally: &interval.tally,
                so_far: &self.so_far,
                in_flight: point.in_flight,
                waiting: point.waiting,
            });
            self.keep(point, interval_ns);
        }
    }

    fn account(&mut self, begin_ns: u64, end_ns: u64, interval: &Interval) {
        let steps = self.flow.profile.steps().iter().zip(&mut self.cost);
        for (step, cost) in steps {
            if step.begin_ns <= begin_ns && end_ns <= step.end_ns {
                cost.0 += interval.cpu_ns;
                cost.1 += interval.tally.completed;
            }
        }
    }

    fn point(&self, end_ns: u64, interval_ns: u64, tally: &Tally) -> Point {
        let response = tally.distribution(Metric::Response);
        let at = |q| {
            response
                .and_then(|d| d.quantile(q))
                .map(|ns| ns as f64 / 1e3)
        };
        let faults = Fault::ALL.iter().zip(&tally.faults);
        let errors = faults.filter(|(_, n)| **n > 0);
        Point {
            t_s: end_ns as f64 / 1e9,
            seconds: interval_ns as f64 / 1e9,
            sent: tally.sent,
            completed: tally.completed,
            failed: tally.failures(),
            dropped: tally.dropped,
            in_flight: self.threads.iter().map(|thread| thread.in_flight).sum(),
            waiting: self.threads.iter().map(|thread| thread.waiting).sum(),
            errors: errors.map(|(f, n)| (f.as_str().to_owned(), *n)).collect(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            max_us: at(1.0),
            cells: response.map(cells).unwrap_or_default(),
        }
    }

    /// Appends a point, or merges it into the last while that has room.
    fn keep(&mut self, point: Point, interval_ns: u64) {
        let full = self.stride as f64 * interval_ns as f64 / 1e9 - 1e-9;
        match self.series.last_mut() {
            Some(last) if last.seconds < full => last.merge(&point),
            _ => self.series.push(point),
        }
        if self.series.len() > result::POINTS_MAX {
            let mut halved: Vec<Point> = Vec::with_capacity(result::POINTS_MAX);
            for pair in self.series.chunks(2) {
                let mut first = pair[0].clone();
                pair[1..].iter().for_each(|second| first.merge(second));
                halved.push(first);
            }
            self.series = halved;
            self.stride *= 2;
        }
    }
}

/// Counts by latency, eight cells an octave of microseconds; what is faster than one is in the first.
fn cells(distribution: &crate::tally::Distribution) -> Vec<(u16, u64)> {
    let mut cells = BTreeMap::new();
    for step in distribution.histogram.iter_recorded() {
        let us = step.value_iterated_to() as f64 / 1e3;
        let cell = (us.log2() * 8.0).max(0.0) as u16;
        *cells.entry(cell).or_insert(0) += step.count_since_last_iteration();
    }
    cells.into_iter().collect()
}

impl Point {
    /// Takes in the point that follows. Quantiles are then those of the cells, within 9 %.
    fn merge(&mut self, next: &Point) {
        self.t_s = next.t_s;
        self.seconds += next.seconds;
        self.sent += next.sent;
        self.completed += next.completed;
        self.failed += next.failed;
        self.dropped += next.dropped;
        self.in_flight = next.in_flight;
        self.waiting = next.waiting;
        for (fault, count) in &next.errors {
            *self.errors.entry(fault.clone()).or_insert(0) += count;
        }
        let mut cells: BTreeMap<u16, u64> = self.cells.iter().copied().collect();
        for (cell, count) in &next.cells {
            *cells.entry(*cell).or_insert(0) += count;
        }
        self.cells = cells.into_iter().collect();
        self.p50_us = self.cell_quantile(0.5);
        self.p90_us = self.cell_quantile(0.9);
        self.p99_us = self.cell_quantile(0.99);
        self.max_us = match (self.max_us, next.max_us) {
            (Some(one), Some(two)) => Some(one.max(two)),
            (one, two) => one.or(two),
        };
    }

    fn cell_quantile(&self, q: f64) -> Option<f64> {
        let total: u64 = self.cells.iter().map(|(_, count)| count).sum();
        let wanted = (q * total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.cells.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        found.map(|(cell, _)| ((f64::from(*cell) + 0.5) / 8.0).exp2())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    use crate::plan::{Expect, Protocol, Request, Target};
    use crate::schedule::{Profile, Shape};
    use crate::template::{Body, Template};

    fn plan(threads: usize, seconds: u64) -> Plan {
        let stages = [
            ("warm".to_owned(), true, Duration::from_secs(1)),
            ("steady".to_owned(), false, Duration::from_secs(seconds)),
        ];
        let stages =
            stages.map(|(name, warmup, lasting)| (name, warmup, Shape::Hold { at: 4.0, lasting }));
        let request = |name: &str, weight| Request {
            name: name.into(),
            weight,
            method: "GET".into(),
            path: Template::plain("/"),
            headers: Vec::new(),
            body: Body::None,
            ask: None,
            expect: Expect::default(),
        };
        let flow = Flow {
            name: "f".into(),
            index: 0,
            targets: vec![Target {
                tls: false,
                host: "127.0.0.1".into(),
                port: 1,
                authority: "127.0.0.1:1".into(),
                addresses: Vec::new(),
            }],
            protocol: Protocol::Http1,
            model: Model::Closed,
            profile: Profile::new(stages),
            connections: 4,
            threads,
            requests: vec![request("get", 1), request("initialize", 0)],
            feeds: Vec::new(),
            tls: None,
            timeout: Duration::from_secs(1),
            pause: Duration::ZERO,
            reconnect: false,
            names_failures: false,
        };
        Plan {
            name: "p".into(),
            seed: 1,
            run: 1,
            flows: vec![Arc::new(flow)],
            interval: Duration::from_secs(1),
        }
    }

    fn shipment(thread: usize, interval: u64, kind: u16, step: u16, good: u64) -> Shipment {
        let mut tally = Tally::default();
        (0..good).for_each(|_| tally.good(0, 0, 1_000_000));
        let key = Key {
            flow: 0,
            request: kind,
            step,
        };
        Shipment {
            flow: 0,
            thread,
            interval,
            tallies: vec![(key, Box::new(tally))],
            in_flight: 1,
            waiting: 0,
            cpu_ns: (interval + 1) * 1_000_000,
            notes: Vec::new(),
            last: false,
        }
    }

    #[test]
    fn an_interval_is_closed_when_every_thread_has_passed_it() {
        let plan = plan(2, 3);
        let (mut collector, mut shown) = (Collector::new(&plan), Vec::new());
        let show = |shown: &mut Vec<(f64, u64)>, closed: Closed<'_>| {
            shown.push((closed.t_s, closed.tally.completed));
        };
        collector.take(shipment(0, 0, 0, 0, 5), &mut |c| show(&mut shown, c));
        collector.take(shipment(0, 1, 0, 1, 7), &mut |c| show(&mut shown, c));
        assert!(shown.is_empty());
        // The other thread was late and ships intervals 0 and 1 as one.
        collector.take(shipment(1, 1, 0, 1, 2), &mut |c| show(&mut shown, c));
        assert_eq!(shown, [(1.0, 5), (2.0, 9)]);
        collector.take(shipment(0, 2, 0, 1, 1), &mut |c| show(&mut shown, c));
        collector.end(&mut |c| show(&mut shown, c));
        assert_eq!(shown.last(), Some(&(3.0, 1)));
    }

    #[test]
    fn warm_up_and_set_up_are_counted_and_in_no_headline() {
        let plan = plan(1, 3);
        let mut collector = Collector::new(&plan);
        let mut first = shipment(0, 0, 1, 0, 2);
        first.tallies.extend(shipment(0, 0, 0, 0, 10).tallies);
        collector.take(first, &mut |_| {});
        collector.take(shipment(0, 1, 0, 1, 30), &mut |_| {});
        collector.end(&mut |_| {});
        let (flows, measured, total) = collector.results(4.0);
        assert_eq!(collector.completed(), 42);
        assert_eq!((total.requests, measured.requests), (42, 30));
        assert_eq!((measured.seconds, measured.rate), (3.0, 10.0));
        let steps: Vec<_> = flows[0]
            .steps
            .iter()
            .map(|s| (s.kind.as_str(), s.summary.requests))
            .collect();
        assert_eq!(steps, [("warm-up", 10), ("hold", 30)]);
        assert_eq!(flows[0].kinds[1].summary.requests, 2);
        assert_eq!(
            flows[0].steps[1].summary.generator_cpu_us,
            Some(1000.0 / 30.0)
        );
    }

    #[test]
    fn the_series_stays_small() {
        let plan = plan(1, 10_000);
        let mut collector = Collector::new(&plan);
        for interval in 0..10_000 {
            collector.take(shipment(0, interval, 0, 1, 3), &mut |_| {});
        }
        collector.end(&mut |_| {});
        let (flows, ..) = collector.results(10_000.0);
        let series = &flows[0].series;
        assert!(series.len() <= result::POINTS_MAX && series.len() > result::POINTS_MAX / 4);
        assert_eq!(series.iter().map(|p| p.completed).sum::<u64>(), 30_000);
        assert!(series.is_sorted_by(|a, b| a.t_s < b.t_s));
        let p50 = series[0].p50_us.unwrap();
        assert!((p50 / 1000.0 - 1.0).abs() < 0.1, "{p50}");
    }
}
