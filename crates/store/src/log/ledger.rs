//! What a log's writer has to know of the records before: which calls are open, and which snapshots stand in the log.
//!
//! While a log is written, its recorder says which call a record opens or closes, so that nothing is read back. When a
//! log is opened, the ledger is read from its last segment, which begins with an `open` record (see
//! [`base::record::Open`]); where that is missing, from the segments before, back to one that has it or to the first.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use base::record::{OpenCalls, Subject};
use base::{CallId, Digest, Now};
use serde::Deserialize;

/// What a record does to the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A call passed: it is open.
    Opens(CallId),
    /// The call has ended.
    Closes(CallId),
    /// The last part of a snapshot.
    Snapshot(Subject, Digest),
}

/// The records until here, as far as later ones depend on them.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    /// Open calls, each with its place in the order in which they came. As many as calls in flight.
    open: HashMap<CallId, u64>,
    next: u64,
    /// Calls that were closed and not opened in the records that were read; empty from an `open` record on.
    closed: HashSet<CallId>,
    snapshots: BTreeMap<Subject, Digest>,
    /// An `open` record was read.
    based: bool,
    /// The parts of a snapshot that came so far: what it is of, how many there are, and how many came.
    snapshot: Option<((Subject, Digest), u64, u64)>,
    /// The parts of an `open` record that came so far.
    base: Option<Base>,
}

#[derive(Clone, Debug, Default)]
struct Base {
    calls: Vec<CallId>,
    snapshots: BTreeMap<Subject, Digest>,
    parts: u64,
    came: u64,
}

#[derive(Deserialize)]
struct Head<'r> {
    #[serde(borrow)]
    kind: Cow<'r, str>,
    #[serde(borrow, default)]
    call: Cow<'r, str>,
    #[serde(borrow, default)]
    decision: Cow<'r, str>,
}

#[derive(Deserialize)]
struct SnapshotHead<'r> {
    #[serde(borrow)]
    of: Cow<'r, str>,
    #[serde(borrow)]
    digest: Cow<'r, str>,
    part: u64,
    parts: u64,
}

#[derive(Deserialize)]
struct OpenHead {
    open: Vec<String>,
    snapshots: BTreeMap<String, String>,
    part: u64,
    parts: u64,
}

impl Ledger {
    /// Takes notice of a record as its recorder told it.
    pub(super) fn take(&mut self, step: Step) {
        match step {
            Step::Opens(call) => {
                self.open.insert(call, self.next);
                self.next += 1;
            }
            Step::Closes(call) => {
                if self.open.remove(&call).is_none() && !self.based {
                    self.closed.insert(call);
                }
            }
            Step::Snapshot(of, digest) => {
                self.snapshots.insert(of, digest);
            }
        }
    }

    /// Takes notice of a record that is read back. Records of other kinds, and of other programs, mean nothing.
    pub(super) fn read(&mut self, record: &[u8]) {
        let base = self.base.take();
        let Ok(head) = serde_json::from_slice::<Head<'_>>(record) else {
            return;
        };
        match (&*head.kind, CallId::from_hex(&head.call)) {
            ("judgement", Some(call)) if head.decision == "pass" => self.take(Step::Opens(call)),
            ("outcome" | "lost" | "oversized", Some(call)) => self.take(Step::Closes(call)),
            ("snapshot", _) => self.read_snapshot(record),
            ("open", _) => self.read_base(base, record),
            _ => {}
        }
    }

    fn read_snapshot(&mut self, record: &[u8]) {
        let begun = self.snapshot.take();
        let Ok(head) = serde_json::from_slice::<SnapshotHead<'_>>(record) else {
            return;
        };
        let of = Subject::of(&head.of).zip(Digest::from_hex(&head.digest));
        let Some(of) = of else { return };
        let came = begun.filter(|(begun, parts, _)| (*begun, *parts) == (of, head.parts));
        let came = came.map_or(0, |(_, _, came)| came);
        // The first part begins anew: a crash may have cut the one before short.
        match head.part {
            part if part != 1 && part != came + 1 => {}
            part if part == head.parts => self.take(Step::Snapshot(of.0, of.1)),
            part => self.snapshot = Some((of, head.parts, part)),
        }
    }

    /// An `open` record says all that is open, whatever was read before. Its parts stand one after another.
    fn read_base(&mut self, begun: Option<Base>, record: &[u8]) {
        let Ok(head) = serde_json::from_slice::<OpenHead>(record) else {
            return;
        };
        let mut base = begun.filter(|_| head.part > 1).unwrap_or_default();
        if head.part != base.came + 1 || (base.came > 0 && head.parts != base.parts) {
            return;
        }
        (base.came, base.parts) = (head.part, head.parts);
        let calls = head.open.iter().filter_map(|call| CallId::from_hex(call));
        base.calls.extend(calls);
        for (of, digest) in &head.snapshots {
            if let (Some(of), Some(digest)) = (Subject::of(of), Digest::from_hex(digest)) {
                base.snapshots.insert(of, digest);
            }
        }
        if base.came < base.parts {
            self.base = Some(base);
            return;
        }
        *self = Ledger {
            next: base.calls.len() as u64,
            open: base.calls.into_iter().zip(0..).collect(),
            snapshots: base.snapshots,
            based: true,
            ..Ledger::default()
        };
    }

    /// Whether it holds all that was open, also before the records that were read.
    pub(super) fn is_based(&self) -> bool {
        self.based
    }

    /// The ledger of these records and those that follow.
    pub(super) fn then(mut self, after: Ledger) -> Ledger {
        if after.based {
            return after;
        }
        for call in after.closed {
            self.take(Step::Closes(call));
        }
        let mut opened: Vec<(CallId, u64)> = after.open.into_iter().collect();
        opened.sort_unstable_by_key(|(_, place)| *place);
        for (call, _) in opened {
            self.take(Step::Opens(call));
        }
        self.snapshots.extend(after.snapshots);
        (self.snapshot, self.base) = (after.snapshot, after.base);
        self
    }

    /// The calls that are open, in the order in which they came.
    pub(super) fn open(&self) -> Vec<CallId> {
        let mut open: Vec<(u64, CallId)> = self.open.iter().map(|(id, at)| (*at, *id)).collect();
        open.sort_unstable_by_key(|(at, _)| *at);
        open.into_iter().map(|(_, call)| call).collect()
    }

    /// The newest snapshot of each subject.
    pub(super) fn snapshots(&self) -> &BTreeMap<Subject, Digest> {
        &self.snapshots
    }

    /// The `open` record that a reader can begin with, in parts.
    pub(super) fn base(&self, unix_ms: Option<u64>) -> Vec<Vec<u8>> {
        let at = unix_ms.map(|unix_ms| Now {
            unix_ms,
            mono_ms: 0,
        });
        let snapshots = self.snapshots.iter();
        let snapshots: Vec<_> = snapshots.map(|(of, digest)| (*of, *digest)).collect();
        OpenCalls::all(at, &self.open(), &snapshots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> CallId {
        CallId([n; 16])
    }

    fn record(kind: &str, n: u8) -> Vec<u8> {
        let call = id(n);
        format!(r#"{{"attributes":{{"kind":"lost"}},"call":"{call}","calls":3,"decision":"pass","kind":"{kind}"}}"#).into_bytes()
    }

    fn snapshot(n: u8, part: u64, parts: u64) -> Vec<u8> {
        let snapshot = base::record::Snapshot {
            at: Now {
                unix_ms: 0,
                mono_ms: 0,
            },
            of: Subject::Policies,
            digest: Digest([n; 32]),
            part,
            parts,
            text: "x",
        };
        snapshot.to_json()
    }

    #[test]
    fn what_passed_is_open_until_it_ended_or_was_lost() {
        let mut ledger = Ledger::default();
        for n in 1..=4 {
            ledger.read(&record("judgement", n));
        }
        ledger.read(&record("outcome", 2));
        ledger.read(&record("lost", 3));
        let refused = String::from_utf8(record("judgement", 9)).unwrap();
        ledger.read(refused.replace("\"pass\"", "\"refuse\"").as_bytes());
        ledger.read(b"{}");
        ledger.read(b"not JSON");
        assert_eq!(ledger.open(), [id(1), id(4)]);
    }

    #[test]
    fn a_base_stands_for_all_before_it_where_each_part_is_there() {
        let mut ledger = Ledger::default();
        let many = (0..3000_u128).map(|n| CallId((n << 64).to_be_bytes()));
        let many: Vec<CallId> = many.collect();
        for call in &many {
            ledger.take(Step::Opens(*call));
        }
        ledger.take(Step::Snapshot(Subject::Policies, Digest([7; 32])));
        let base = ledger.base(Some(5));
        assert_eq!(base.len(), 3);
        let mut again = Ledger::default();
        again.read(&record("judgement", 1));
        base.iter().for_each(|part| again.read(part));
        again.read(&record("judgement", 2));
        assert!(again.is_based());
        assert!(again.open() == [&many[..], &[id(2)]].concat());
        assert_eq!(again.snapshots(), ledger.snapshots());
        // A part is missing, or stands elsewhere.
        let mut cut = Ledger::default();
        base[..2].iter().for_each(|part| cut.read(part));
        cut.read(&record("judgement", 2));
        cut.read(&base[2]);
        assert!(!cut.is_based() && cut.open() == [id(2)]);
    }

    #[test]
    fn stretches_that_are_read_backwards_join() {
        let stretches = [
            vec![
                record("judgement", 1),
                record("judgement", 2),
                snapshot(1, 1, 1),
            ],
            vec![
                record("outcome", 1),
                record("judgement", 3),
                snapshot(2, 1, 1),
            ],
            vec![record("outcome", 3), record("judgement", 4)],
        ];
        let read = |records: &Vec<Vec<u8>>| {
            let mut ledger = Ledger::default();
            records.iter().for_each(|record| ledger.read(record));
            ledger
        };
        let mut ledger = read(&stretches[2]);
        for stretch in [&stretches[1], &stretches[0]] {
            ledger = read(stretch).then(ledger);
        }
        assert_eq!(ledger.open(), [id(2), id(4)]);
        assert_eq!(ledger.snapshots()[&Subject::Policies], Digest([2; 32]));
    }

    #[test]
    fn a_snapshot_is_there_once_its_last_part_is() {
        let mut ledger = Ledger::default();
        ledger.read(&snapshot(1, 1, 2));
        ledger.read(&record("judgement", 1));
        assert!(ledger.snapshots().is_empty());
        // A crash: it was begun again.
        ledger.read(&snapshot(1, 1, 2));
        ledger.read(&snapshot(1, 2, 2));
        assert_eq!(ledger.snapshots()[&Subject::Policies], Digest([1; 32]));
        ledger.read(&snapshot(2, 2, 2));
        assert_eq!(ledger.snapshots()[&Subject::Policies], Digest([1; 32]));
    }
}
