//! Turns marks into results: what each subject used in each step, and for one request.
//!
//! CPU time is taken between the marks nearest to a step's ends and scaled to the step's length, since a mark may be
//! a few milliseconds late on a busy machine.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use super::book::{Book, Mark, Sample, Scrape, Watch};
use super::host;
use super::process::{Sched, Thread};
use super::prometheus::Kind;
use super::series::Series;
use super::subject::{Eye, Shot};
use super::tree::BUSIEST_MAX;
use crate::result::{
    HostSample, Noise, Ports, SubjectResult, SubjectSample, SubjectStep, ThreadShare, Watched,
};
use crate::schedule::Profile;

/// The most threads that a step lists.
pub(super) const THREADS_SHOWN_MAX: usize = 16;
/// The shortest time over which the machine's shares are told: ten ticks.
const APART: Duration = Duration::from_millis(100);
/// What an endpoint's own CPU time is called by every client library, in seconds.
const PROCESS_CPU: &str = "process_cpu_seconds_total";
const PROCESS_MEMORY: &str = "process_resident_memory_bytes";

/// Some part of a run, whose use of CPU is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// A step's name, or `""` for what is measured.
    pub step: String,
    /// In nanoseconds from the start of the run: begin and end, in order, without overlaps.
    pub spans: Vec<(u64, u64)>,
    /// Requests of all flows completed in it.
    pub requests: u64,
}

/// The windows of a run: each name of a step over all flows, and `""` for what is measured, which in each flow is
/// every hold that is no warm-up, or every step that is none where there is no hold. `requests` is left at 0, to be
/// filled in.
pub fn windows<'a>(profiles: impl IntoIterator<Item = &'a Profile>) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    let mut measured = Vec::new();
    for profile in profiles {
        let has_hold = profile
            .steps()
            .iter()
            .any(|step| step.is_hold() && !step.warmup);
        for step in profile.steps() {
            let span = (step.begin_ns, step.end_ns);
            if !step.warmup && (step.is_hold() || !has_hold) {
                measured.push(span);
            }
            match windows.iter_mut().find(|window| window.step == step.name) {
                Some(window) => window.spans.push(span),
                None => windows.push(Window {
                    step: step.name.clone(),
                    spans: vec![span],
                    requests: 0,
                }),
            }
        }
    }
    windows.push(Window {
        step: String::new(),
        spans: measured,
        requests: 0,
    });
    for window in &mut windows {
        window.spans = union(std::mem::take(&mut window.spans));
    }
    windows
}

/// Spans in order, those that touch or overlap as one.
fn union(mut spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    spans.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in spans {
        match joined.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((begin, end)),
        }
    }
    joined
}

/// A window on the marks: index of the mark at each begin and end.
struct Cut {
    pairs: Vec<(usize, usize)>,
    /// As planned, cut at the last mark.
    seconds: f64,
    /// Between the marks.
    seen_s: f64,
}

/// A book with the instant that the run began.
pub(super) struct Totals<'a> {
    pub book: &'a Book,
    pub begin: Instant,
}

impl Totals<'_> {
    /// Everything that was watched.
    pub(super) fn watched(&self, windows: &[Window]) -> Watched {
        let mut subjects: Vec<SubjectResult> = self
            .book
            .watches
            .iter()
            .enumerate()
            .map(|(index, watch)| self.subject(index, watch, windows))
            .collect();
        subjects.push(self.generator(windows));
        let measured = windows.iter().find(|window| window.step.is_empty());
        Watched {
            subjects,
            host: self.host(),
            noise: measured.and_then(|window| self.noise(window)),
            ports: (self.book.ports.range > 0).then_some(Ports {
                range: self.book.ports.range,
                time_wait_max: self.book.ports.time_wait,
            }),
        }
    }

    fn subject(&self, index: usize, watch: &Watch, windows: &[Window]) -> SubjectResult {
        let (steps, series) = if matches!(watch.eye, Eye::Endpoint(_)) {
            let steps = windows
                .iter()
                .filter_map(|window| self.scraped_step(watch, window));
            (steps.collect(), self.scraped_series(&watch.scrapes))
        } else {
            let shot = |mark: &Mark| mark.shots.get(index).cloned().flatten();
            let peak = |mark: &Mark| mark.rss_peaks.get(index).copied().flatten();
            (self.steps(windows, shot, peak), self.samples(&watch.series))
        };
        SubjectResult {
            name: watch.name.clone(),
            kind: watch.eye.kind().to_owned(),
            part_of: watch.part_of.clone(),
            steps,
            series,
        }
    }

    fn generator(&self, windows: &[Window]) -> SubjectResult {
        let shot = |mark: &Mark| Some(mark.generator.clone());
        SubjectResult {
            name: "generator".to_owned(),
            kind: "generator".to_owned(),
            part_of: None,
            steps: self.steps(windows, shot, |mark| mark.generator_rss_peak),
            series: self.samples(&self.book.own_series),
        }
    }

    fn steps(
        &self,
        windows: &[Window],
        shot: impl Fn(&Mark) -> Option<Shot>,
        peak: impl Fn(&Mark) -> Option<u64>,
    ) -> Vec<SubjectStep> {
        let step = |window: &Window| {
            let cut = self.cut(window)?;
            let marks = &self.book.marks;
            let (mut used_us, mut threads) = (0, HashMap::new());
            let (mut rss_max, mut last) = (None, Shot::default());
            let (mut waited_us, mut switches) = (Some(0.0), Some(0.0));
            for (from, to) in &cut.pairs {
                let (before, after) = (shot(&marks[*from])?, shot(&marks[*to])?);
                used_us += after.cpu_us?.saturating_sub(before.cpu_us?);
                add_threads(&mut threads, &before.busiest, &after.busiest);
                let between = marks[from + 1..=*to].iter().filter_map(&peak).max();
                rss_max = rss_max.max(between).max(before.rss_bytes);
                waited_us = add(waited_us, grown(before.waited_us, after.waited_us));
                switches = add(switches, grown(before.switches, after.switches));
                last = after;
            }
            let cores = used_us as f64 / 1e6 / cut.seen_s;
            Some(SubjectStep {
                rss_bytes_max: rss_max,
                rss_bytes_end: last.rss_bytes,
                anon_bytes_end: last.anon_bytes,
                waited_us,
                switches: switches.map(|count: f64| count as u64),
                threads: thread_shares(threads, cut.seen_s),
                ..used(window, cut.seconds, cores)
            })
        };
        windows.iter().filter_map(step).collect()
    }

    /// Finds a window's marks; `None` when it lies behind the last one or has no length.
    fn cut(&self, window: &Window) -> Option<Cut> {
        let last = self.book.marks.last()?.at;
        let mut cut = Cut {
            pairs: Vec::new(),
            seconds: 0.0,
            seen_s: 0.0,
        };
        for (begin, end) in &window.spans {
            let begin = self.begin + Duration::from_nanos(*begin);
            let end = (self.begin + Duration::from_nanos(*end)).min(last);
            let (from, to) = (self.nearest(begin)?, self.nearest(end)?);
            let marks = &self.book.marks;
            let seen = marks[to].at.saturating_duration_since(marks[from].at);
            if end > begin && !seen.is_zero() {
                cut.pairs.push((from, to));
                cut.seconds += (end - begin).as_secs_f64();
                cut.seen_s += seen.as_secs_f64();
            }
        }
        (!cut.pairs.is_empty()).then_some(cut)
    }

    fn nearest(&self, at: Instant) -> Option<usize> {
        let marks = self.book.marks.iter().enumerate();
        marks
            .min_by_key(|(_, mark)| distance(mark.at, at))
            .map(|(index, _)| index)
    }

    fn seconds(&self, at: Instant) -> f64 {
        let since = at.saturating_duration_since(self.begin).as_secs_f64();
        since - self.begin.saturating_duration_since(at).as_secs_f64()
    }

    fn samples(&self, series: &Series<Sample>) -> Vec<SubjectSample> {
        let points = series.points();
        let first_us = points
            .first()
            .and_then(|sample| sample.shot.cpu_us)
            .unwrap_or(0);
        let sample = |sample: &Sample| SubjectSample {
            t_s: self.seconds(sample.at),
            cpu_us: sample
                .shot
                .cpu_us
                .unwrap_or(first_us)
                .saturating_sub(first_us) as f64,
            rss_bytes: sample.shot.rss_bytes,
            anon_bytes: sample.shot.anon_bytes,
            threads: sample.shot.threads,
            descriptors: sample.shot.descriptors,
            values: BTreeMap::new(),
        };
        points.iter().map(sample).collect()
    }

    fn scraped_series(&self, scrapes: &Series<Scrape>) -> Vec<SubjectSample> {
        let value = |scrape: &Scrape, name: &str| scrape.values.get(name).map(|(_, value)| *value);
        let points = scrapes.points();
        let first_s = points
            .first()
            .and_then(|scrape| value(scrape, PROCESS_CPU))
            .unwrap_or(0.0);
        let sample = |scrape: &Scrape| SubjectSample {
            t_s: self.seconds(scrape.at),
            cpu_us: (value(scrape, PROCESS_CPU).unwrap_or(first_s) - first_s).max(0.0) * 1e6,
            rss_bytes: value(scrape, PROCESS_MEMORY).map(|bytes| bytes.max(0.0) as u64),
            values: scrape
                .values
                .iter()
                .map(|(name, (_, value))| (name.clone(), *value))
                .collect(),
            ..SubjectSample::default()
        };
        points.iter().map(sample).collect()
    }

    /// An endpoint is asked shortly after each mark, so its rates are over the time between its own answers.
    fn scraped_step(&self, watch: &Watch, window: &Window) -> Option<SubjectStep> {
        let cut = self.cut(window)?;
        let nearest = |mark: usize| {
            let at = self.book.marks[mark].at;
            watch
                .marked
                .iter()
                .min_by_key(|scrape| distance(scrape.at, at))
        };
        let mut grown: BTreeMap<String, f64> = BTreeMap::new();
        let mut values = BTreeMap::new();
        let mut seen_s = 0.0;
        for (from, to) in &cut.pairs {
            let (before, after) = (nearest(*from)?, nearest(*to)?);
            seen_s += after.at.saturating_duration_since(before.at).as_secs_f64();
            for (name, (kind, now)) in &after.values {
                match (kind, before.values.get(name)) {
                    (Kind::Gauge, _) => drop(values.insert(name.clone(), *now)),
                    // A counter that fell began again at zero when its process did.
                    (Kind::Counter, Some((_, was))) => {
                        let part = if now < was { *now } else { now - was };
                        *grown.entry(name.clone()).or_default() += part;
                    }
                    (Kind::Counter, None) => *grown.entry(name.clone()).or_default() += now,
                }
            }
        }
        if seen_s <= 0.0 {
            return None;
        }
        let cores = grown.get(PROCESS_CPU).map(|seconds| seconds / seen_s);
        let mut step = used(window, cut.seconds, cores.unwrap_or(0.0));
        step.cpu_us_per_request = step.cpu_us_per_request.filter(|_| cores.is_some());
        step.rss_bytes_end = values
            .get(PROCESS_MEMORY)
            .map(|bytes: &f64| bytes.max(0.0) as u64);
        step.rates = grown
            .into_iter()
            .map(|(name, sum)| (name, sum / seen_s))
            .collect();
        step.values = values;
        Some(step)
    }

    /// The machine over time.
    pub(super) fn host(&self) -> Vec<HostSample> {
        // Two looks within a few ticks say nothing of a share: the later one waits for the next.
        let mut kept: Vec<(Instant, host::Reading)> = Vec::new();
        for (at, reading) in self.book.host.points() {
            let is_apart = |(last, _): &(Instant, _)| at.saturating_duration_since(*last) >= APART;
            if kept.last().is_none_or(is_apart) {
                kept.push((*at, *reading));
            }
        }
        let pair = |pair: &[(Instant, host::Reading)]| {
            let ((was_at, was), (at, now)) = (pair[0], pair[1]);
            let cpu = now.cpu.since(&was.cpu);
            let total_us = cpu.total_us().max(1) as f64;
            let pressure = grown(was.pressure.cpu_us, now.pressure.cpu_us);
            let passed_us = at.saturating_duration_since(was_at).as_secs_f64() * 1e6;
            HostSample {
                t_s: self.seconds(at),
                busy_share: (total_us - cpu.idle_us as f64).max(0.0) / total_us,
                steal_share: cpu.steal_us as f64 / total_us,
                pressure_share: pressure.map(|us| (us / passed_us.max(1.0)).min(1.0)),
                load1: now.load_1m.unwrap_or(0.0),
            }
        };
        kept.windows(2).map(pair).collect()
    }

    fn noise(&self, window: &Window) -> Option<Noise> {
        let cut = self.cut(window)?;
        let (mut cpu, mut known_us, mut load1) = (host::Cpu::default(), 0_u64, 0.0_f64);
        let mut pressure = [Some(0.0); 3];
        for (from, to) in &cut.pairs {
            let (before, after) = (&self.book.marks[*from], &self.book.marks[*to]);
            cpu = cpu.plus(&after.host.cpu.since(&before.host.cpu));
            known_us = known_us.saturating_add(self.known_us(before, after));
            load1 = load1.max(after.host.load_1m.unwrap_or(0.0));
            let totals = |p: &host::Pressure| [p.cpu_us, p.memory_us, p.io_us];
            let was = totals(&before.host.pressure);
            let now = totals(&after.host.pressure);
            for (sum, (was, now)) in pressure.iter_mut().zip(was.into_iter().zip(now)) {
                *sum = add(*sum, grown(was, now));
            }
        }
        let share = |us: Option<f64>| us.map(|us| (us / 1e6 / cut.seen_s).min(1.0));
        let total_us = cpu.total_us().max(1) as f64;
        // Interrupts run in whoever has the CPU, mostly for our own packets, so they are nobody's.
        let tasks_us = cpu.user_us.saturating_add(cpu.system_us);
        let mut watches = self.book.watches.iter();
        let is_watched = watches.any(|watch| !matches!(watch.eye, Eye::Endpoint(_)));
        Some(Noise {
            steal_share: cpu.steal_us as f64 / total_us,
            pressure_share: share(pressure[0]),
            pressure_memory_share: share(pressure[1]),
            pressure_io_share: share(pressure[2]),
            others_share: is_watched.then(|| tasks_us.saturating_sub(known_us) as f64 / total_us),
            load1,
        })
    }

    /// CPU time of the generator and of what is watched, each process once.
    fn known_us(&self, before: &Mark, after: &Mark) -> u64 {
        let grown = |before: &Shot, after: &Shot| {
            let pair = after.cpu_us.zip(before.cpu_us);
            pair.map_or(0, |(after, before)| after.saturating_sub(before))
        };
        let pairs = before
            .shots
            .iter()
            .zip(&after.shots)
            .zip(&self.book.watches);
        pairs
            .filter(|(_, watch)| watch.part_of.is_none())
            .filter_map(|((before, after), _)| Some(grown(before.as_ref()?, after.as_ref()?)))
            .fold(
                grown(&before.generator, &after.generator),
                u64::saturating_add,
            )
    }
}

/// CPU time for a request of everything watched together, in µs, in a step (`""`: in what is measured). The generator
/// is left out, and what is part of something else; endpoints count only where no process or cgroup is watched, since
/// they mostly speak of the same. `None` where nothing was watched, or nothing was completed.
pub fn watched_cpu_us(watched: &Watched, step: &str) -> Option<f64> {
    let of_kinds = |kinds: &[&str]| {
        let subjects = watched.subjects.iter();
        subjects
            .filter(|subject| kinds.contains(&subject.kind.as_str()) && subject.part_of.is_none())
            .filter_map(|subject| {
                let step = subject.steps.iter().find(|found| found.step == step)?;
                step.cpu_us_per_request
            })
            .reduce(|sum, part| sum + part)
    };
    of_kinds(&["process", "cgroup"]).or_else(|| of_kinds(&["prometheus"]))
}

/// A step's numbers from its cores used.
fn used(window: &Window, seconds: f64, cores: f64) -> SubjectStep {
    let cpu_us = cores * seconds * 1e6;
    SubjectStep {
        step: window.step.clone(),
        seconds,
        cpu_us,
        requests: window.requests,
        cpu_us_per_request: (window.requests > 0).then(|| cpu_us / window.requests as f64),
        cores,
        ..SubjectStep::default()
    }
}

fn distance(a: Instant, b: Instant) -> Duration {
    a.saturating_duration_since(b)
        .max(b.saturating_duration_since(a))
}

fn add(sum: Option<f64>, part: Option<f64>) -> Option<f64> {
    Some(sum? + part?)
}

fn grown(before: Option<u64>, after: Option<u64>) -> Option<f64> {
    Some(after?.saturating_sub(before?) as f64)
}

type Used = HashMap<u32, (String, u64, u64)>;

/// Adds what each thread did between two marks. One that was not there before began in between.
fn add_threads(sum: &mut Used, before: &[Thread], after: &[Thread]) {
    // A list that is full has left threads out; one of those must not count with its whole life.
    let is_full = before.len() >= BUSIEST_MAX;
    let before: HashMap<u32, Sched> = before.iter().map(|t| (t.tid, t.sched)).collect();
    for thread in after {
        let unknown = if is_full {
            thread.sched
        } else {
            Sched::default()
        };
        let was = before.get(&thread.tid).copied().unwrap_or(unknown);
        let entry = sum
            .entry(thread.tid)
            .or_insert_with(|| (thread.name.clone(), 0, 0));
        entry.1 += thread.sched.on_cpu_ns.saturating_sub(was.on_cpu_ns);
        entry.2 += thread.sched.waited_ns.saturating_sub(was.waited_ns);
    }
}

fn thread_shares(threads: Used, seen_s: f64) -> Vec<ThreadShare> {
    let share = |ns: u64| (ns as f64 / 1e9 / seen_s).min(1.0);
    let mut threads: Vec<(u32, (String, u64, u64))> = threads.into_iter().collect();
    threads.sort_unstable_by_key(|(tid, (_, cpu_ns, _))| (std::cmp::Reverse(*cpu_ns), *tid));
    threads.truncate(THREADS_SHOWN_MAX);
    let shown = threads
        .into_iter()
        .map(|(_, (name, cpu_ns, waited_ns))| ThreadShare {
            name,
            busy_share: share(cpu_ns),
            waited_share: share(waited_ns),
        });
    shown.collect()
}

#[cfg(test)]
mod tests;
