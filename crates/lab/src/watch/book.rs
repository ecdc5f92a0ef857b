//! What was seen so far: exact marks at the boundaries of steps, and bounded series in between.
//!
//! Only the marks are used for sums, so a step's CPU time does not depend on where a sample happened to fall. Nothing
//! here grows with the length of a run; marks grow with its steps, up to a bound.

use std::collections::BTreeMap;
use std::time::Instant;

use super::Live;
use super::host;
use super::own::Own;
use super::ports::{self, Ports};
use super::process::{self, Thread};
use super::prometheus::{Kept, Kind};
use super::series::Series;
use super::subject::{Eye, Shot};
use super::tree::{MEMBERS_MAX, Table};

/// The most marks of one run; further boundaries are not exact, and a warning says so.
pub const MARKS_MAX: usize = 4096;
/// The share of local ports in use over which a warning says so. All count as if they went to one address.
pub(super) const PORTS_USED_MAX: f64 = 0.8;
/// The most warnings kept.
pub(super) const WARNINGS_MAX: usize = 64;
/// How the engine names the threads that send load.
pub const LOAD_THREADS: &str = "load-";
/// The busiest threads that a mark keeps of the generator.
const THREADS_MAX: usize = 256;

/// Everything at one boundary.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub at: Instant,
    pub host: host::Reading,
    /// By subject; `None` for endpoints.
    pub shots: Vec<Option<Shot>>,
    /// The most memory since the mark before, by subject.
    pub rss_peaks: Vec<Option<u64>>,
    pub generator: Shot,
    pub generator_rss_peak: Option<u64>,
}

/// One sample in between, of one subject.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub at: Instant,
    pub shot: Shot,
}

/// One answer of an endpoint.
#[derive(Clone, Debug)]
pub(super) struct Scrape {
    pub at: Instant,
    pub values: BTreeMap<String, (Kind, f64)>,
}

/// One subject with all that was seen of it.
pub(super) struct Watch {
    pub name: String,
    pub eye: Eye,
    /// The subject that holds this one too, so that nothing is counted twice.
    pub part_of: Option<String>,
    pub series: Series<Sample>,
    pub scrapes: Series<Scrape>,
    /// Answers that belong to a mark.
    pub marked: Vec<Scrape>,
    rss_peak: Option<u64>,
    is_ended: bool,
    /// The last two looks, for what is going on now.
    pub before: Option<(Instant, Shot)>,
    pub last: Option<(Instant, Shot)>,
}

impl Watch {
    pub(super) fn new(name: String, eye: Eye) -> Watch {
        Watch {
            name,
            eye,
            part_of: None,
            series: Series::default(),
            scrapes: Series::default(),
            marked: Vec::new(),
            rss_peak: None,
            is_ended: false,
            before: None,
            last: None,
        }
    }
}

/// The whole of what was seen.
pub(super) struct Book {
    pub begun: Instant,
    pub watches: Vec<Watch>,
    pub own: Own,
    pub own_series: Series<Sample>,
    own_rss_peak: Option<u64>,
    pub host: Series<(Instant, host::Reading)>,
    pub marks: Vec<Mark>,
    pub ports: Ports,
    pub warnings: Vec<String>,
}

impl Book {
    /// An empty book.
    pub(super) fn new(watches: Vec<Watch>) -> Book {
        Book {
            begun: Instant::now(),
            watches,
            own: Own::default(),
            own_series: Series::default(),
            own_rss_peak: None,
            host: Series::default(),
            marks: Vec::new(),
            ports: Ports::default(),
            warnings: Vec::new(),
        }
    }

    /// Keeps a warning, once, if there is room.
    pub(super) fn warn(&mut self, text: String) {
        if self.warnings.len() < WARNINGS_MAX && !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    /// Says which subjects are counted within others.
    pub(super) fn warn_of_parts(&mut self) {
        let part = |watch: &Watch| {
            let part_of = watch.part_of.as_ref()?;
            Some(format!(
                "{} is part of {part_of}, and counted once in sums",
                watch.name
            ))
        };
        let warnings: Vec<String> = self.watches.iter().filter_map(part).collect();
        warnings.into_iter().for_each(|text| self.warn(text));
    }

    /// What each process and cgroup does now, and the generator last.
    pub(super) fn live(&self) -> Vec<Live> {
        let own = match self.own_series.points() {
            [.., before, last] => Some((
                "generator",
                Some((before.at, &before.shot)),
                (last.at, &last.shot),
            )),
            _ => None,
        };
        let watched = self.watches.iter().filter_map(|watch| {
            let (at, shot) = watch.last.as_ref()?;
            let before = watch.before.as_ref().map(|(at, shot)| (*at, shot));
            Some((watch.name.as_str(), before, (*at, shot)))
        });
        let live =
            |(name, before, (at, shot)): (&str, Option<(Instant, &Shot)>, (Instant, &Shot))| {
                let cores = before.map_or(0.0, |(was_at, was)| {
                    let us = shot
                        .cpu_us
                        .unwrap_or(0)
                        .saturating_sub(was.cpu_us.unwrap_or(0));
                    let seconds = at.saturating_duration_since(was_at).as_secs_f64();
                    us as f64 / 1e6 / seconds.max(1e-3)
                });
                Live {
                    name: name.to_owned(),
                    cores,
                    rss_bytes: shot.rss_bytes,
                }
            };
        watched.chain(own).map(live).collect()
    }

    /// Looks at everything but endpoints, in order of how fast it changes.
    pub(super) fn look(&mut self, is_mark: bool) {
        let at = Instant::now();
        let host = host::read();
        self.own.sample();
        let has_trees = self
            .watches
            .iter()
            .any(|watch| matches!(watch.eye, Eye::Tree(_)));
        let table = if has_trees {
            Table::read()
        } else {
            Table::empty()
        };
        let mut shots = Vec::with_capacity(self.watches.len());
        for index in 0..self.watches.len() {
            shots.push(self.look_at(index, &table, at, is_mark));
        }
        let ports = ports::read();
        if let Some(used) = ports.used().filter(|used| *used > PORTS_USED_MAX) {
            self.warn(format!(
                "{:.0} % of this machine's {} local ports were in use or in TIME_WAIT: new connections may fail here",
                used * 100.0,
                ports.range
            ));
        }
        self.ports.range = ports.range;
        self.ports.time_wait = self.ports.time_wait.max(ports.time_wait);
        let own = self.own_shot();
        self.own_rss_peak = self.own_rss_peak.max(own.rss_bytes);
        self.host.push((at, host));
        self.own_series.push(Sample {
            at,
            shot: thin(&own),
        });
        if is_mark {
            self.mark(at, host, shots, own);
        }
    }

    fn look_at(&mut self, index: usize, table: &Table, at: Instant, is_mark: bool) -> Option<Shot> {
        let begun = self.begun;
        let watch = &mut self.watches[index];
        if matches!(watch.eye, Eye::Endpoint(_)) {
            return None;
        }
        let shot = watch.eye.look(table, is_mark).unwrap_or_else(|| Shot {
            // A cgroup that is gone used what it had used when it was last seen.
            cpu_us: watch.last.as_ref().and_then(|(_, shot)| shot.cpu_us),
            has_ended: true,
            ..Shot::default()
        });
        watch.rss_peak = watch.rss_peak.max(shot.rss_bytes);
        watch.series.push(Sample {
            at,
            shot: thin(&shot),
        });
        watch.before = watch.last.replace((at, thin(&shot)));
        let name = &watch.name;
        let seconds = at.saturating_duration_since(begun).as_secs_f64();
        let ended = format!("{name} was found ended {seconds:.1} s after the watch began");
        let cut =
            format!("{name} has more than {MEMBERS_MAX} processes; the further ones are not seen");
        let has_ended = shot.has_ended && !std::mem::replace(&mut watch.is_ended, true);
        if has_ended {
            self.warn(ended);
        }
        if shot.is_cut {
            self.warn(cut);
        }
        Some(shot)
    }

    fn own_shot(&self) -> Shot {
        let status =
            super::read::text(std::path::Path::new("/proc/self/status")).unwrap_or_default();
        let memory = process::parse_memory(&status);
        let load = |thread: &&Thread| thread.name.starts_with(LOAD_THREADS);
        let mut busiest: Vec<Thread> = self.own.threads().filter(load).cloned().collect();
        busiest.sort_unstable_by_key(|thread| std::cmp::Reverse(thread.sched.on_cpu_ns));
        busiest.truncate(THREADS_MAX);
        Shot {
            cpu_us: Some(self.own.cpu_us()),
            waited_us: Some(self.own.waited_us()),
            switches: Some(self.own.switches()),
            rss_bytes: memory.rss_bytes,
            anon_bytes: memory.anon_bytes,
            threads: super::read::keyed(&status, "Threads"),
            descriptors: process::descriptors(std::process::id()),
            busiest,
            has_ended: false,
            is_cut: false,
        }
    }

    fn mark(&mut self, at: Instant, host: host::Reading, shots: Vec<Option<Shot>>, own: Shot) {
        if self.marks.len() >= MARKS_MAX {
            self.warn(format!(
                "more than {MARKS_MAX} boundaries of steps: CPU times of later steps are not exact"
            ));
            // The last place is kept for the end of the run.
            self.marks.pop();
        }
        let rss_peaks = self
            .watches
            .iter_mut()
            .map(|watch| watch.rss_peak.take())
            .collect();
        self.marks.push(Mark {
            at,
            host,
            shots,
            rss_peaks,
            generator: own,
            generator_rss_peak: self.own_rss_peak.take(),
        });
    }

    /// Takes in an endpoint's answer.
    pub(super) fn scraped(
        &mut self,
        index: usize,
        at: Instant,
        answer: Result<Kept, String>,
        is_mark: bool,
    ) {
        let kept = match answer {
            Ok(kept) => kept,
            Err(error) => {
                return self.warn(error);
            }
        };
        let name = self.watches[index].name.clone();
        if kept.is_cut {
            self.warn(format!(
                "{name}: more than {} series match; the further ones are not kept",
                super::prometheus::SERIES_MAX
            ));
        }
        let values = kept
            .values
            .into_iter()
            .map(|value| (value.series, (value.kind, value.value)));
        let scrape = Scrape {
            at,
            values: values.collect(),
        };
        let watch = &mut self.watches[index];
        if is_mark && watch.marked.len() < MARKS_MAX {
            watch.marked.push(scrape.clone());
        }
        watch.scrapes.push(scrape);
    }
}

/// A shot without its threads, for a series.
fn thin(shot: &Shot) -> Shot {
    Shot {
        busiest: Vec::new(),
        ..shot.clone()
    }
}
