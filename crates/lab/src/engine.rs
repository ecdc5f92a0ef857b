//! The generator: threads that share nothing but an instant to begin and a flag to stop.
//!
//! Plain HTTP/1.1 goes by `fast`, which is epoll and prepared bytes; whatever needs TLS, HTTP/2 or a dialogue
//! goes by `wire`, which is hyper. Both count in the same tallies and follow the same schedule.

pub mod fast;
pub mod wire;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::exit::Failure;
use crate::plan::{Flow, Plan, Protocol};
use crate::result::Note;
use crate::tally::{Key, Tally};

/// Most notes that one thread keeps of wrong answers.
pub const NOTES_MAX: usize = 16;
/// How long a thread may go without looking whether it should stop.
pub const STOP_LOOK: Duration = Duration::from_millis(50);
/// How long connections may take to be made before the run begins.
pub const WARM_MAX: Duration = Duration::from_secs(30);

/// What one generator thread is given.
pub struct Share {
    pub flow: Arc<Flow>,
    /// Its number among the flow's threads.
    pub thread: usize,
    pub seed: u64,
    /// The part of `weir-lab-id` before the dash: the run and the flow, twelve hex digits.
    pub run: String,
    pub interval: Duration,
    pub control: Arc<Control>,
    pub shipments: SyncSender<Shipment>,
}

/// One interval of one thread.
pub struct Shipment {
    pub flow: usize,
    pub thread: usize,
    /// The interval's number from the start of the run.
    pub interval: u64,
    pub tallies: Vec<(Key, Box<Tally>)>,
    /// At the end of the interval: requests sent and not answered, and due and not sent.
    pub in_flight: u64,
    pub waiting: u64,
    /// CPU time of the thread since it began, in nanoseconds.
    pub cpu_ns: u64,
    pub notes: Vec<Note>,
    /// Nothing more comes from this thread.
    pub last: bool,
}

/// What all threads of a run share.
#[derive(Default)]
pub struct Control {
    gate: Mutex<Gate>,
    opened: Condvar,
    stop: AtomicBool,
}

#[derive(Default)]
struct Gate {
    ready: usize,
    failure: Option<Failure>,
    begin: Option<Begin>,
    cancelled: bool,
}

/// When the run began, on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Begin {
    pub instant: Instant,
    pub unix_ns: u64,
}

impl Begin {
    /// Nanoseconds since the run began.
    pub fn ns(&self) -> u64 {
        self.instant.elapsed().as_nanos() as u64
    }
}

impl Control {
    /// Says that a thread's connections are made, and waits for the run to begin. Nothing if it will not.
    pub fn ready(&self) -> Option<Begin> {
        let mut gate = self.gate.lock().expect("no thread panics with this lock");
        gate.ready += 1;
        self.opened.notify_all();
        while gate.begin.is_none() && !gate.cancelled {
            gate = self
                .opened
                .wait(gate)
                .expect("no thread panics with this lock");
        }
        gate.begin
    }

    /// Says that a thread cannot begin, or cannot go on. The first word stands; the run stops.
    pub fn fail(&self, failure: Failure) {
        let mut gate = self.gate.lock().expect("no thread panics with this lock");
        gate.failure.get_or_insert(failure);
        gate.ready += 1;
        self.stop.store(true, Ordering::Relaxed);
        self.opened.notify_all();
    }

    /// What a thread failed of.
    pub fn failure(&self) -> Option<Failure> {
        let gate = self.gate.lock().expect("no thread panics with this lock");
        gate.failure.clone()
    }

    /// Waits for all threads, and lets them begin together.
    ///
    /// # Errors
    ///
    /// What a thread failed of, or that they were not ready in time.
    pub fn begin(&self, threads: usize) -> Result<Begin, Failure> {
        let gate = self.gate.lock().expect("no thread panics with this lock");
        let waiting =
            |gate: &mut Gate| gate.ready < threads && gate.failure.is_none() && !self.stopped();
        let waited = self.opened.wait_timeout_while(gate, WARM_MAX, waiting);
        let (mut gate, _) = waited.expect("no thread panics with this lock");
        if let Some(failure) = gate.failure.clone().or_else(|| {
            (gate.ready < threads).then(|| {
                Failure::new(
                    "the connections were not made in time",
                    "ask for fewer connections, or look at the target's backlog",
                )
            })
        }) {
            gate.cancelled = true;
            self.opened.notify_all();
            return Err(failure);
        }
        let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let begin = Begin {
            instant: Instant::now(),
            unix_ns: unix.map_or(0, |since| since.as_nanos() as u64),
        };
        gate.begin = Some(begin);
        self.opened.notify_all();
        Ok(begin)
    }

    /// Asks every thread to stop: no new requests, nothing more is waited for.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.opened.notify_all();
    }

    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The tallies that a thread is filling.
pub struct Tallies {
    flow: usize,
    thread: usize,
    steps: usize,
    slots: Vec<Option<Box<Tally>>>,
    notes: Vec<Note>,
    notes_left: usize,
    interval: u64,
    interval_ns: u64,
    shipments: SyncSender<Shipment>,
}

impl Tallies {
    pub fn new(share: &Share) -> Tallies {
        let steps = share.flow.profile.steps().len();
        Tallies {
            flow: share.flow.index,
            thread: share.thread,
            steps,
            slots: vec![None; steps * share.flow.requests.len()],
            notes: Vec::new(),
            notes_left: NOTES_MAX,
            interval: 0,
            interval_ns: share.interval.as_nanos() as u64,
            shipments: share.shipments.clone(),
        }
    }

    /// The tally for a kind of request that was due in a step.
    pub fn of(&mut self, request: usize, step: usize) -> &mut Tally {
        self.slots[request * self.steps + step].get_or_insert_default()
    }

    /// Keeps what was wrong with an answer, if there is room.
    pub fn note(&mut self, note: impl FnOnce() -> Note) {
        if self.notes_left > 0 {
            self.notes_left -= 1;
            self.notes.push(note());
        }
    }

    /// When the current interval ends, in nanoseconds from the start.
    pub fn due_ns(&self) -> u64 {
        (self.interval + 1) * self.interval_ns
    }

    /// Hands the interval over if it has ended. The states are of this instant.
    pub fn tick(&mut self, now_ns: u64, in_flight: u64, waiting: u64) {
        if now_ns >= self.due_ns() {
            self.ship(in_flight, waiting, false);
            self.interval = now_ns / self.interval_ns;
        }
    }

    /// Hands over what is left; nothing more comes.
    pub fn finish(mut self) {
        self.ship(0, 0, true);
    }

    fn ship(&mut self, in_flight: u64, waiting: u64, last: bool) {
        let (steps, flow) = (self.steps, self.flow as u16);
        let slots = self.slots.iter_mut().enumerate();
        let tallies = slots.filter_map(|(slot, tally)| {
            let key = Key {
                flow,
                request: (slot / steps) as u16,
                step: (slot % steps) as u16,
            };
            Some((key, tally.take()?))
        });
        let shipment = Shipment {
            flow: self.flow,
            thread: self.thread,
            interval: self.interval,
            tallies: tallies.collect(),
            in_flight,
            waiting,
            cpu_ns: thread_cpu_ns(),
            notes: std::mem::take(&mut self.notes),
            last,
        };
        // The collector is gone only when the run was given up; then nobody counts any more.
        let _ = self.shipments.send(shipment);
    }
}

/// CPU time of the calling thread, in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Starts a generator thread for each share of each flow. They wait at the gate of `control`, which is also told
/// when a thread cannot be made.
pub fn start(
    plan: &Plan,
    control: &Arc<Control>,
    shipments: &SyncSender<Shipment>,
) -> Vec<std::thread::JoinHandle<()>> {
    let mut threads = Vec::new();
    for flow in &plan.flows {
        for thread in 0..flow.threads {
            let share = Share {
                flow: flow.clone(),
                thread,
                seed: crate::template::mix(plan.seed, flow.index as u64),
                run: format!("{:08x}{:04x}", plan.run, flow.index),
                interval: plan.interval,
                control: control.clone(),
                shipments: shipments.clone(),
            };
            let started = std::thread::Builder::new()
                .name(format!("load-{}-{thread}", flow.index))
                .spawn(move || work(share));
            match started {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    control.fail(Failure::new(
                        format!("a generator thread cannot be started: {error}"),
                        "ask for fewer threads",
                    ));
                    return threads;
                }
            }
        }
    }
    threads
}

/// One thread, from its connections to its last tally.
fn work(share: Share) {
    let control = share.control.clone();
    let plain = share.flow.targets.iter().all(|target| !target.tls);
    let ended = if share.flow.protocol == Protocol::Http1 && plain {
        fast::run(share)
    } else {
        wire::run(share)
    };
    if let Err(failure) = ended {
        control.fail(failure);
    }
}
