//! What a relay counts: one set for each thread, added up by whoever asks.
//!
//! A thread writes only its own, so nothing is fought over. Stage times are taken of one message in sixteen.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use base::Metric;

/// One message in this many has its stages timed.
pub(crate) const TIMED_EVERY: u64 = 16;

/// What `/metrics` shows of a relay.
pub const EVENTS: Metric = Metric {
    name: "weir_relay_events",
    kind: "counter",
    labels: "side, event",
    help: "What happened in the sealed relay; the guide says what each event is",
};
/// See [`EVENTS`].
pub const BYTES: Metric = Metric {
    name: "weir_relay_bytes",
    kind: "counter",
    labels: "side, way",
    help: "Bytes of content and heads that were `sealed` or `opened`",
};
/// See [`EVENTS`]. The counters have nanoseconds.
pub const STAGES: Metric = Metric {
    name: "weir_relay_stage_seconds",
    kind: "counter",
    labels: "side, stage",
    help: "Time that messages took, of one in sixteen (event `timed`): `first` to the sealed or opened request, `wait` to the first byte of the answer, `last` to its end",
};
/// See [`EVENTS`]. It is no counter, but what a side says of itself.
pub const READY: Metric = Metric {
    name: "weir_relay_ready",
    kind: "gauge",
    labels: "side",
    help: "1 where this side of the relay lets requests through",
};

/// The metric that shows a counter, with the label that tells it from the others there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// In [`EVENTS`], by its `event`.
    Event(&'static str),
    /// In [`BYTES`], by its `way`.
    Bytes(&'static str),
    /// In [`STAGES`], by its `stage`.
    Stage(&'static str),
}

/// Makes the counters and their snapshot, one row each: the field, and where it is shown under which label. A label is
/// public: it stays when a field is renamed.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident $shown:ident($label:ident);)*) => {
        /// The counters of one thread.
        #[derive(Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Count,)*
        }

        /// What was counted since the start, over all threads.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Snapshot {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Snapshot {
            /// Every counter, in order.
            pub fn all(&self) -> impl Iterator<Item = (Shown, u64)> {
                [$((Shown::$shown(stringify!($label)), self.$name),)*].into_iter()
            }

            fn add(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.get();)*
            }
        }
    };
}

counters! {
    /// Requests that came.
    requests Event(requests);
    /// Requests that were passed on sealed, or opened and passed on.
    passages Event(passages);
    /// Requests that were passed on as they are.
    plain Event(plain);
    /// Requests that were answered whole.
    completed Event(completed);
    /// Answers that were cut.
    cut Event(cut);
    /// Requests that the gate, the routes or the caller check refused.
    refused Event(refused);
    /// Answers `maybe_executed`.
    maybe_executed Event(maybe_executed);
    /// Bytes of content and heads that were sealed.
    sealed_bytes Bytes(sealed);
    /// Bytes of content and heads that were opened.
    opened_bytes Bytes(opened);
    /// Handshakes that made a session.
    handshakes Event(handshakes);
    /// Handshakes that failed or were refused.
    handshakes_failed Event(handshakes_failed);
    /// Attempts after the first.
    retries Event(retries);
    /// Requests that had been let through before.
    replays Event(replays);
    /// Claims that the store of all instances gave us.
    claims_fresh Event(claims_fresh);
    /// Claims that another had, or nobody answered for.
    claims_taken Event(claims_taken);
    claims_unknown Event(claims_unknown);
    /// Requests that were refused because the store could not be asked.
    claims_unasked Event(claims_unasked);
    /// Tickets that promise another replay mode.
    other_mode Event(other_mode);
    /// Weir-made answers, by their code.
    claimed Event(claimed);
    stale Event(stale);
    draining Event(draining);
    overload Event(overload);
    malformed Event(malformed);
    forbidden Event(forbidden);
    not_reached Event(not_reached);
    failed Event(failed);
    cut_requests Event(cut_requests);
    /// Plain hints, by their word.
    unknown_ticket Event(unknown_ticket);
    open_failed Event(open_failed);
    unknown_kid Event(unknown_kid);
    other_hints Event(other_hints);
    /// Answers that were lost, forged, or did not open.
    lost Event(lost);
    /// Messages of which the stages were timed.
    timed Event(timed);
    /// Nanoseconds of those: from the head to the sealed request, or to the opened and claimed one.
    first_ns Stage(first);
    /// Nanoseconds of those: from there to the first byte of the answer.
    wait_ns Stage(wait);
    /// Nanoseconds of those: from there to the end of the answer.
    last_ns Stage(last);
}

/// One counter, written by one thread.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        // The thread is the only writer, so nothing is lost between the two.
        self.0
            .store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// When the stages of one message were over, if they are timed.
#[derive(Default)]
pub(crate) struct Stages {
    began: Option<Instant>,
    sent: Cell<Option<Instant>>,
    answered: Cell<Option<Instant>>,
}

impl Stages {
    /// The head of a request is here. Times one request in [`TIMED_EVERY`].
    pub(crate) fn begin(counters: &Counters) -> Stages {
        let timed = counters.requests.get().is_multiple_of(TIMED_EVERY);
        Stages {
            began: timed.then(Instant::now),
            ..Stages::default()
        }
    }

    /// The request is sealed; or opened and let through.
    pub(crate) fn sent(&self) {
        self.sent.set(self.began.map(|_| Instant::now()));
    }

    /// The answer begins to come.
    pub(crate) fn answered(&self) {
        self.answered.set(self.began.map(|_| Instant::now()));
    }

    /// The answer is whole.
    pub(crate) fn end(&self, counters: &Counters) {
        let marks = (self.began, self.sent.get(), self.answered.get());
        let (Some(began), Some(sent), Some(answered)) = marks else {
            return;
        };
        let ns = |from: Instant, to: Instant| {
            let ns = to.saturating_duration_since(from).as_nanos();
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        counters.timed.one();
        counters.first_ns.add(ns(began, sent));
        counters.wait_ns.add(ns(sent, answered));
        counters.last_ns.add(ns(answered, Instant::now()));
    }
}

/// The counters of all threads.
#[derive(Default)]
pub(crate) struct All(Mutex<Vec<Arc<Counters>>>);

impl All {
    /// The counters of one more thread.
    pub(crate) fn thread(&self) -> Arc<Counters> {
        let counters = Arc::new(Counters::default());
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::clone(&counters));
        counters
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut snapshot = Snapshot::default();
        all.iter().for_each(|counters| snapshot.add(counters));
        snapshot
    }
}
