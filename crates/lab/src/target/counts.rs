//! What the target saw and did, exact over all threads.
//!
//! A generator's own count says what it sent; only the origin knows what was executed, and whether anything was
//! executed twice. So each id that comes in is marked in a bitmap: one bit an id, in pieces that are allocated
//! when they are needed, up to a bound for each run and a bound of runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use http::StatusCode;
use serde::{Deserialize, Serialize};

/// The most runs whose ids are marked.
pub const RUNS_MAX: usize = 1_024;
/// Ids below this are marked: at most 8 MiB of bits a run.
pub const SEQUENCE_MAX: u64 = 64 << 20;
/// The most pieces of bitmaps over all runs: 128 MiB, which is 16 runs of [`SEQUENCE_MAX`] ids.
pub const PIECES_MAX: usize = 16_384;
/// How many duplicates, and how many corrupt answers, are told apart.
pub const FIRST_MAX: usize = 16;
/// Bits in one piece of a bitmap.
const PIECE_BITS: u64 = 64 << 10;

/// One request of one run, as the header `weir-lab-id` names it: `RUN-SEQ`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    pub run: u64,
    pub sequence: u64,
}

impl Id {
    /// Reads `RUN-SEQ`: up to 16 hexadecimal digits, a hyphen, a decimal number below 2^64.
    pub fn read(text: &[u8]) -> Option<Id> {
        let hyphen = memchr::memchr(b'-', text)?;
        let (run, sequence) = (&text[..hyphen], &text[hyphen + 1..]);
        if run.is_empty() || run.len() > 16 || sequence.is_empty() || sequence.len() > 20 {
            return None;
        }
        let mut id = Id {
            run: 0,
            sequence: 0,
        };
        for byte in run {
            let digit = char::from(*byte).to_digit(16)?;
            id.run = id.run << 4 | u64::from(digit);
        }
        for byte in sequence {
            let digit = char::from(*byte).to_digit(10)?;
            id.sequence = id.sequence.checked_mul(10)?.checked_add(u64::from(digit))?;
        }
        Some(id)
    }
}

/// What one thread counts. On its own cache lines, so that threads do not slow each other.
#[derive(Default)]
#[repr(align(128))]
pub struct Shard {
    pub requests: AtomicU64,
    pub ok: AtomicU64,
    pub refused: AtomicU64,
    pub unauthorized: AtomicU64,
    pub abandoned: AtomicU64,
    pub delays: AtomicU64,
    pub frozen: AtomicU64,
    pub close: AtomicU64,
    pub reset: AtomicU64,
    pub corrupt: AtomicU64,
    pub garbage: AtomicU64,
    pub broken: AtomicU64,
    pub uncounted: AtomicU64,
}

/// Adds one. The counts are read one by one and need no order among them.
pub fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

/// Everything that is counted since the start or the last reset.
pub struct Tables {
    pub shards: Box<[Shard]>,
    /// The number of the last request that drew one.
    numbered: AtomicU64,
    /// The time zero of the freezes.
    zero: OnceLock<Instant>,
    /// Injected statuses, from 400 on.
    statuses: Box<[AtomicU64]>,
    corrupted: Mutex<Vec<Corrupted>>,
    /// By the run's id, in the first place from its own on that is its or was free.
    runs: Box<[OnceLock<Run>]>,
    /// How many pieces all runs have.
    pieces: AtomicUsize,
}

struct Run {
    id: u64,
    pieces: Box<[OnceLock<Piece>]>,
    duplicates: AtomicU64,
    first: Mutex<Vec<u64>>,
}

impl Tables {
    /// Empty tables for so many threads. With `zero` the time zero is known already.
    pub fn new(threads: usize, zero: Option<Instant>) -> Arc<Tables> {
        let tables = Tables {
            shards: (0..threads).map(|_| Shard::default()).collect(),
            numbered: AtomicU64::new(0),
            zero: OnceLock::new(),
            statuses: (400..600).map(|_| AtomicU64::new(0)).collect(),
            corrupted: Mutex::new(Vec::new()),
            runs: (0..RUNS_MAX).map(|_| OnceLock::new()).collect(),
            pieces: AtomicUsize::new(0),
        };
        if let Some(zero) = zero {
            tables.zero.get_or_init(|| zero);
        }
        Arc::new(tables)
    }

    /// The number of the next request; the first has 1.
    pub fn number(&self) -> u64 {
        self.numbered.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The time zero; the first who asks sets it to `now`.
    pub fn zero(&self, now: Instant) -> Instant {
        *self.zero.get_or_init(|| now)
    }

    /// Counts an injected status.
    pub fn injected(&self, status: StatusCode) {
        if let Some(count) = usize::from(status.as_u16())
            .checked_sub(400)
            .and_then(|at| self.statuses.get(at))
        {
            add(count);
        }
    }

    /// Remembers which byte of which answer was changed, of the first few.
    pub fn corrupted(&self, corrupted: Corrupted) {
        let mut all = self
            .corrupted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if all.len() < FIRST_MAX {
            all.push(corrupted);
        }
    }

    /// Marks that a request of a run has come.
    pub fn mark(&self, shard: &Shard, id: Id) {
        let marked = id.sequence < SEQUENCE_MAX
            && self
                .run(id.run)
                .is_some_and(|run| run.mark(id.sequence, &self.pieces));
        if !marked {
            add(&shard.uncounted);
        }
    }

    /// The run's marks. None when there are too many runs.
    fn run(&self, id: u64) -> Option<&Run> {
        // A place, once taken, stays whose it is: whoever looks later finds the same.
        let own = usize::try_from(id % RUNS_MAX as u64).expect("a remainder by 1,024");
        let (before, from) = self.runs.split_at(own);
        from.iter()
            .chain(before)
            .map(|place| place.get_or_init(|| Run::new(id)))
            .find(|run| run.id == id)
    }

    /// Reads everything. While requests come in, each number is exact at the moment it is read.
    pub fn read(&self) -> Counts {
        let sum = |of: fn(&Shard) -> &AtomicU64| {
            self.shards
                .iter()
                .map(|shard| of(shard).load(Ordering::Relaxed))
                .sum::<u64>()
        };
        let mut injected_errors = BTreeMap::from([
            ("close".to_owned(), sum(|shard| &shard.close)),
            ("reset".to_owned(), sum(|shard| &shard.reset)),
            ("corrupt".to_owned(), sum(|shard| &shard.corrupt)),
            ("garbage".to_owned(), sum(|shard| &shard.garbage)),
            ("broken".to_owned(), sum(|shard| &shard.broken)),
        ]);
        injected_errors.extend(
            (400_u16..)
                .zip(&self.statuses)
                .map(|(status, count)| (status.to_string(), count.load(Ordering::Relaxed))),
        );
        injected_errors.retain(|_, count| *count > 0);
        let runs = self.runs.iter().filter_map(OnceLock::get);
        Counts {
            requests: sum(|shard| &shard.requests),
            responses_ok: sum(|shard| &shard.ok),
            responses_refused: sum(|shard| &shard.refused),
            unauthorized: sum(|shard| &shard.unauthorized),
            abandoned: sum(|shard| &shard.abandoned),
            injected_delays: sum(|shard| &shard.delays),
            frozen: sum(|shard| &shard.frozen),
            injected_errors,
            corrupted: self
                .corrupted
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            runs: runs
                .map(|run| (format!("{:x}", run.id), run.read()))
                .collect(),
            uncounted: sum(|shard| &shard.uncounted),
        }
    }
}

impl Run {
    fn new(id: u64) -> Run {
        Run {
            id,
            pieces: (0..SEQUENCE_MAX / PIECE_BITS)
                .map(|_| OnceLock::new())
                .collect(),
            duplicates: AtomicU64::new(0),
            first: Mutex::new(Vec::new()),
        }
    }

    /// Marks an id. False when there is no room for its piece.
    fn mark(&self, sequence: u64, pieces: &AtomicUsize) -> bool {
        let index = |bits: u64| usize::try_from(bits).expect("a marked id is below 2^26");
        let Some(piece) = piece(&self.pieces[index(sequence / PIECE_BITS)], pieces) else {
            return false;
        };
        let bit = 1 << (sequence % 64);
        let before = piece[index(sequence % PIECE_BITS / 64)].fetch_or(bit, Ordering::Relaxed);
        if before & bit != 0 {
            add(&self.duplicates);
            let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
            if first.len() < FIRST_MAX {
                first.push(sequence);
            }
        }
        true
    }

    fn read(&self) -> RunCounts {
        let words = self.pieces.iter().filter_map(OnceLock::get).flatten();
        RunCounts {
            distinct: words
                .map(|word| u64::from(word.load(Ordering::Relaxed).count_ones()))
                .sum(),
            duplicates: self.duplicates.load(Ordering::Relaxed),
            first_duplicates: self
                .first
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        }
    }
}

type Piece = Box<[AtomicU64]>;

/// The piece at a place, made when it is not there. None when there are [`PIECES_MAX`].
fn piece<'a>(place: &'a OnceLock<Piece>, pieces: &AtomicUsize) -> Option<&'a Piece> {
    if let Some(piece) = place.get() {
        return Some(piece);
    }
    if pieces.fetch_add(1, Ordering::Relaxed) >= PIECES_MAX {
        pieces.fetch_sub(1, Ordering::Relaxed);
        return None;
    }
    let mut made = false;
    let piece = place.get_or_init(|| {
        made = true;
        (0..PIECE_BITS / 64).map(|_| AtomicU64::new(0)).collect()
    });
    if !made {
        // Another thread was first, and counted it.
        pieces.fetch_sub(1, Ordering::Relaxed);
    }
    Some(piece)
}

/// What the target saw and did; `GET /lab/counts` answers this.
///
/// Requests to `/lab/` are not counted. When none is in flight, `requests` is the sum of `responses_ok`,
/// `responses_refused`, `unauthorized`, `abandoned` and everything in `injected_errors`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests whose head was read.
    pub requests: u64,
    /// Answers as they should be, handed to the connection. A stream counts when it begins.
    pub responses_ok: u64,
    /// Answers to requests that were wrong in themselves (unknown path, bad JSON, too large).
    pub responses_refused: u64,
    /// Answers 401.
    pub unauthorized: u64,
    /// Requests whose client went away before the answer began.
    pub abandoned: u64,
    /// Requests that a delay above zero was drawn for.
    pub injected_delays: u64,
    /// Requests that a freeze held up.
    pub frozen: u64,
    /// Injected faults, by status or by `close`, `reset`, `corrupt`. What did not happen is absent.
    pub injected_errors: BTreeMap<String, u64>,
    /// The first [`FIRST_MAX`] corrupt answers.
    pub corrupted: Vec<Corrupted>,
    /// By the run's id in hexadecimal without leading zeros.
    pub runs: BTreeMap<String, RunCounts>,
    /// Requests with an id beyond [`RUNS_MAX`], [`SEQUENCE_MAX`] or [`PIECES_MAX`]: answered, not told apart. While
    /// this is 0, the duplicates of `runs` are all that there were.
    pub uncounted: u64,
}

/// What was seen of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCounts {
    /// Different ids.
    pub distinct: u64,
    /// Requests with an id that had come before.
    pub duplicates: u64,
    /// The ids of the first [`FIRST_MAX`] duplicates, in the order that they came.
    pub first_duplicates: Vec<u64>,
}

/// One answer that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Corrupted {
    /// The number of the request; the first has 1.
    pub request: u64,
    /// The request's `weir-lab-id`, when it had one.
    pub id: Option<String>,
    /// Which byte of the body, from 0.
    pub offset: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_strictly() {
        let id = |run, sequence| Some(Id { run, sequence });
        assert_eq!(Id::read(b"9f-12"), id(0x9f, 12));
        assert_eq!(
            Id::read(b"ffffffffffffffff-18446744073709551615"),
            id(u64::MAX, u64::MAX)
        );
        for text in [
            "",
            "-",
            "1-",
            "-1",
            "1",
            "g-1",
            "1-a",
            "1--1",
            "+1-1",
            "1-+1",
            "1 -1",
            "11111111111111111-1",
            "1-18446744073709551616",
            "1-000000000000000000001",
        ] {
            assert_eq!(Id::read(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn duplicates_are_exact_over_threads() {
        let tables = Tables::new(8, None);
        std::thread::scope(|scope| {
            for shard in &tables.shards {
                let tables = &tables;
                // Each thread marks 0..20,000 of run 5: seven of eight marks are duplicates.
                scope.spawn(move || {
                    for sequence in 0..20_000 {
                        tables.mark(shard, Id { run: 5, sequence });
                    }
                });
            }
        });
        let run = &tables.read().runs["5"];
        assert_eq!((run.distinct, run.duplicates), (20_000, 140_000));
        assert_eq!(run.first_duplicates.len(), FIRST_MAX);
    }

    #[test]
    fn beyond_the_bounds_ids_are_uncounted() {
        let tables = Tables::new(1, None);
        let shard = &tables.shards[0];
        let runs = RUNS_MAX as u64;
        // Ids that want the same place, and then one more than there are places.
        for run in (0..runs).map(|nth| nth * runs).chain([1]) {
            tables.mark(shard, Id { run, sequence: 1 });
        }
        for sequence in [SEQUENCE_MAX - 1, SEQUENCE_MAX, u64::MAX] {
            tables.mark(shard, Id { run: 0, sequence });
        }
        let counts = tables.read();
        assert_eq!(counts.runs.len(), RUNS_MAX);
        assert!(!counts.runs.contains_key("1"));
        assert_eq!(counts.runs["0"].distinct, 2);
        assert_eq!(counts.uncounted, 3);
    }

    #[test]
    fn pieces_have_a_bound_over_all_runs() {
        let tables = Tables::new(1, None);
        tables.pieces.store(PIECES_MAX - 1, Ordering::Relaxed);
        let shard = &tables.shards[0];
        let mark = |run, sequence| tables.mark(shard, Id { run, sequence });
        mark(1, 0);
        mark(1, PIECE_BITS);
        mark(2, 0);
        mark(1, 0);
        let counts = tables.read();
        assert_eq!(
            (counts.runs["1"].distinct, counts.runs["1"].duplicates),
            (1, 1)
        );
        assert_eq!((counts.runs["2"].distinct, counts.uncounted), (0, 2));
    }
}
