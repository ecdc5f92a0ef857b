//! The append-only log on the replica's own disk.
//!
//! One thread writes. It takes all records that wait, writes them at once, makes them durable at once, and
//! then answers everyone. A log whose disk failed takes nothing more until it is opened again, because
//! nothing is known of what a failed sync left behind; a full disk is waited out.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};

use base::record::{Lost, Snapshot, Subject, parts};
use base::{CallId, Digest, Now};
use gate::ports::{Appended, RecordError, Recorder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::disk::{Disk, FileDisk};
use crate::log::ledger::Step;
use crate::log::open::Doubt;
use crate::log::queue::{Queue, Room};
use crate::log::writer::Writer;
use crate::note::{Checkpoint, NoteError, Verifier};

pub use accept::{AcceptError, accept};
pub use once::append_once;
pub use witness::Witness;

pub(crate) use open::{CHECKPOINTS, KEY_PUB, read_text, stored_leaves};

mod accept;
mod ledger;
mod once;
mod open;
mod queue;
mod standing;
mod witness;
mod writer;

/// When a judgement counts as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Once it is on the disk: survives a loss of power.
    Fsync,
    /// Once the operating system has it: survives a crash of the process. The disk follows within
    /// seconds, before each checkpoint.
    Os,
}

impl Durability {
    /// As the configuration writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Durability::Fsync => "fsync",
            Durability::Os => "os",
        }
    }
}

/// How a log is kept.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// The log's name in its checkpoints, such as `weir.example/replica-1`. Never changes.
    pub origin: String,
    /// When a judgement counts as recorded.
    pub durability: Durability,
    /// Bytes of the whole log, after which judgements are refused. A sixteenth of it, at most 16 MiB, is
    /// kept for outcomes.
    pub bytes_max: u64,
}

/// The checkpoint that covers most, and the note that it stands in.
struct Newest {
    checkpoint: Checkpoint,
    note: String,
}

/// What an operator goes on with, though nothing proves that the gateway wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Entries in the log.
    pub entries: u64,
    /// Those that no checkpoint covers.
    pub unsigned: u64,
    /// What is wrong, in words.
    pub what: String,
}

/// Why a log was not opened.
#[derive(Debug)]
pub enum LogError {
    /// The origin cannot stand in a checkpoint: it is empty or has white space or `+`.
    Origin(String),
    /// The log in the directory has another origin; the text is its verifier key line.
    OtherOrigin(String),
    /// Another process writes this log.
    Locked,
    /// The log has reached its bound.
    Full,
    /// The key is missing though the log has entries, or is not 64 hex digits.
    Key(&'static str),
    /// The newest checkpoint does not verify.
    Checkpoint(NoteError),
    /// What is on the disk is not a log that only a crash may have cut; `weir audit verify` says more.
    Damaged {
        /// The first entry that does not fit.
        index: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// More entries than a crash leaves are signed by no checkpoint, or there is none.
    Unsigned {
        /// How many are not signed.
        entries: u64,
        /// Whether there is any checkpoint.
        ever_signed: bool,
    },
    /// The witness saw another log; the text says what.
    Witness(String),
    /// The disk failed.
    Io(&'static str, io::Error),
}

/// How an operator goes on with a log that is refused.
const ACCEPT: &str = "see weir audit verify, and go on with weir audit accept --reason TEXT";

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Origin(origin) => {
                write!(
                    f,
                    "the log's origin {origin:?} is empty or has white space or a +"
                )
            }
            LogError::OtherOrigin(vkey) => {
                write!(f, "the log in this directory is of another origin: {vkey}")
            }
            LogError::Locked => f.write_str("another process writes this log"),
            LogError::Full => f.write_str(
                "the log has as many bytes as it may have; move its folder away to begin another",
            ),
            LogError::Key(what) => write!(f, "the log's key {what}"),
            LogError::Checkpoint(error) => write!(f, "the log's newest checkpoint: {error}"),
            LogError::Damaged { index, what } => {
                write!(
                    f,
                    "the log is damaged at entry {index}: {what}; see weir audit verify, and move the folder away to begin \
                     another log"
                )
            }
            LogError::Unsigned {
                entries,
                ever_signed,
            } => {
                let told = crate::unsigned::told(*entries, *ever_signed);
                write!(f, "{told}; {ACCEPT}")
            }
            LogError::Witness(what) => write!(f, "{what}; {ACCEPT}"),
            LogError::Io(what, error) => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for LogError {}

/// What the log did since it was opened, for metrics.
#[derive(Debug, Default)]
pub struct LogStats {
    /// Entries in the log.
    pub entries: AtomicU64,
    /// Bytes of all files of the log.
    pub bytes: AtomicU64,
    /// Group commits.
    pub commits: AtomicU64,
    /// Microseconds that the last commit took, sync included.
    pub commit_us_last: AtomicU64,
    /// Checkpoints signed.
    pub checkpoints: AtomicU64,
    /// Outcomes that a failed log could not take.
    pub lost: AtomicU64,
    /// Entries that are on the disk for certain.
    synced: AtomicU64,
    /// Who is woken when there are more of them.
    waker: OnceLock<Thread>,
}

impl LogStats {
    /// Entries that are on the disk for certain.
    pub fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// Has a thread woken whenever more is on the disk; the first that asks is.
    pub fn wake_on_sync(&self, thread: Thread) {
        let _ = self.waker.set(thread);
    }

    fn set_synced(&self, entries: u64) {
        self.synced.store(entries, Ordering::Release);
        if let Some(thread) = self.waker.get() {
            thread.unpark();
        }
    }
}

/// An open log. Dropping it writes what waits.
pub struct Log {
    path: PathBuf,
    vkey: String,
    queue: Arc<Queue>,
    stats: Arc<LogStats>,
    /// Calls that were open when it was opened, and of which nothing more was said yet.
    left_open: Mutex<Vec<CallId>>,
    /// The newest snapshot of each subject.
    snapshots: Mutex<BTreeMap<Subject, Digest>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// SHA-256 of a text, which names its snapshot.
pub fn text_digest(text: &str) -> Digest {
    Digest(Sha256::digest(text).into())
}

/// The origin of the log in a directory; nothing where none has begun there.
///
/// # Errors
/// Those of the disk, and a key line that is none.
pub fn origin_of(dir: &Path) -> Result<Option<String>, LogError> {
    match read_text(&FileDisk::new(dir), KEY_PUB) {
        Ok(text) => {
            let verifier = Verifier::parse(&text).map_err(LogError::Checkpoint)?;
            Ok(Some(verifier.name().to_owned()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LogError::Io("the log's key", error)),
    }
}

impl Log {
    /// Opens the log in a directory, or begins one there.
    ///
    /// An entry that a crash left unfinished at the end is cut, since nobody was told that it was kept.
    ///
    /// # Errors
    /// Anything else that does not fit: see [`LogError`].
    pub fn open(dir: &Path, settings: LogSettings) -> Result<Log, LogError> {
        Log::open_on(Arc::new(FileDisk::new(dir)), dir, settings)
    }

    /// As [`Log::open`], with the newest checkpoint kept in a witness as well, which the log has to follow.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn open_witnessed(
        disk: Arc<dyn Disk>,
        path: &Path,
        settings: LogSettings,
        witness: Option<Witness>,
    ) -> Result<Log, LogError> {
        let opened = open::open(&*disk, &settings, witness, Doubt::Refuse)?;
        Log::start(disk, opened, path, &settings)
    }

    /// Goes on with a log that [`Log::open`] refuses because more of its end than a crash leaves is unsigned, or because its
    /// witness saw another: puts `record` at its end, which is made of what was found, and signs all. Nothing where there
    /// is nothing to accept.
    ///
    /// # Errors
    /// Any other damage is refused as by [`Log::open`], and nothing is signed where the record cannot be kept.
    pub fn accept(
        disk: Arc<dyn Disk>,
        settings: &LogSettings,
        witness: Option<Witness>,
        record: impl FnOnce(&Found) -> Vec<u8>,
    ) -> Result<Option<Found>, LogError> {
        let opened = open::open(&*disk, settings, witness, Doubt::Accept)?;
        let Some(found) = opened.found.clone() else {
            return Ok(None);
        };
        let stats = Arc::new(LogStats::default());
        // The bound on the size of the log is not for this one record.
        let queue = Arc::new(Queue::new(u64::MAX, Arc::clone(&stats)));
        let kept = queue.append(record(&found), None, Room::Bounded);
        queue.close();
        Writer::new(disk, opened, Durability::Fsync, &queue, &stats).run();
        let failed =
            |error: RecordError| LogError::Io("accepting", io::Error::other(error.to_string()));
        let kept = kept.blocking_recv();
        kept.unwrap_or_else(|_| Err(RecordError::Failed("the log took no record".into())))
            .map_err(failed)?;
        queue
            .trouble()
            .map_or(Ok(Some(found)), |error| Err(failed(error)))
    }

    /// As [`Log::open`], on another disk; `path` is only what [`Log::path`] says.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn open_on(
        disk: Arc<dyn Disk>,
        path: &Path,
        settings: LogSettings,
    ) -> Result<Log, LogError> {
        Log::open_witnessed(disk, path, settings, None)
    }

    fn start(
        disk: Arc<dyn Disk>,
        opened: open::Opened,
        path: &Path,
        settings: &LogSettings,
    ) -> Result<Log, LogError> {
        let stats = Arc::new(LogStats::default());
        let queue = Arc::new(Queue::new(settings.bytes_max, Arc::clone(&stats)));
        let vkey = opened.signer.vkey();
        let left_open = Mutex::new(opened.ledger.open());
        let snapshots = Mutex::new(opened.ledger.snapshots().clone());
        let writer = Writer::new(disk, opened, settings.durability, &queue, &stats);
        let thread = std::thread::Builder::new().name("log".into());
        let thread = thread.spawn(move || writer.run());
        let thread =
            thread.map_err(|error| LogError::Io("the log's thread did not start", error))?;
        Ok(Log {
            path: path.to_owned(),
            vkey,
            queue,
            stats,
            left_open,
            snapshots,
            writer: Mutex::new(Some(thread)),
        })
    }

    /// Writes what waits, makes it durable, signs it, and takes no more.
    ///
    /// # Errors
    /// What was wrong with the log at the end.
    pub fn close(&self) -> Result<(), RecordError> {
        self.queue.close();
        let thread = lock(&self.writer).take();
        // A writer that panicked has left its trouble in the queue.
        let _ = thread.map(JoinHandle::join);
        self.queue.trouble().map_or(Ok(()), Err)
    }

    /// How many calls an earlier process left open, and [`Log::tell_lost`] has not told of.
    pub fn left_open(&self) -> u64 {
        lock(&self.left_open).len() as u64
    }

    /// Records of each call that an earlier process left open that it was lost.
    pub fn tell_lost(&self, now: Now) {
        for call in lock(&self.left_open).drain(..) {
            self.ends(call, Lost { call, at: now }.to_json());
        }
    }

    /// Keeps a text that is about to be in force, where the newest snapshot of its subject is another, and waits until
    /// it is as durable as the log's setting says. Blocks the thread for that long.
    ///
    /// # Errors
    /// What is wrong with the log; then no record names the text yet.
    pub fn keep_snapshot(&self, of: Subject, text: &str, now: Now) -> Result<Digest, RecordError> {
        let digest = text_digest(text);
        let mut newest = lock(&self.snapshots);
        if newest.get(&of) == Some(&digest) {
            return Ok(digest);
        }
        let waiting = snapshot(of, digest, text, now);
        // Its parts are not refused at the bound of the log: what a judgement names has to stand before it.
        let waiting = waiting.map(|(record, step)| self.queue.append(record, step, Room::Kept));
        let waiting: Vec<Appended> = waiting.collect();
        wait(waiting)?;
        newest.insert(of, digest);
        Ok(digest)
    }

    /// As [`Log::keep_snapshot`], without waiting: it stands before every record that follows, and so before the first
    /// that names it, whenever the disk has room again.
    pub fn note_snapshot(&self, of: Subject, text: &str, now: Now) -> Digest {
        let digest = text_digest(text);
        for (record, step) in snapshot(of, digest, text, now) {
            self.queue.note(record, step);
        }
        lock(&self.snapshots).insert(of, digest);
        digest
    }

    /// Entries that are in the log.
    pub fn size(&self) -> u64 {
        self.stats.entries.load(Ordering::Relaxed)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name in its checkpoints.
    pub fn origin(&self) -> &str {
        self.vkey.split('+').next().unwrap_or_default()
    }

    /// The verifier key line that its checkpoints are checked with.
    pub fn vkey(&self) -> &str {
        &self.vkey
    }

    /// What it did since it was opened.
    pub fn stats(&self) -> &LogStats {
        &self.stats
    }
}

/// The records of a snapshot, in order, the last with what it does to the ledger.
fn snapshot(
    of: Subject,
    digest: Digest,
    text: &str,
    now: Now,
) -> impl Iterator<Item = (Vec<u8>, Option<Step>)> + '_ {
    let parts = parts(text);
    let count = parts.len() as u64;
    (1..).zip(parts).map(move |(part, text)| {
        let record = Snapshot {
            at: now,
            of,
            digest,
            part,
            parts: count,
            text,
        };
        let step = (part == count).then_some(Step::Snapshot(of, digest));
        (record.to_json(), step)
    })
}

/// Waits for answers, also where the caller's thread runs a runtime, which must not be blocked from within.
fn wait(answers: Vec<Appended>) -> Result<(), RecordError> {
    let closed = || RecordError::Failed("the log is closed".into());
    let wait = || {
        let mut answers = answers.into_iter();
        answers.try_for_each(|answer| {
            let answer = answer.blocking_recv();
            answer.unwrap_or_else(|_| Err(closed())).map(drop)
        })
    };
    std::thread::scope(|scope| {
        let waited = scope.spawn(wait).join();
        waited.unwrap_or_else(|_| Err(closed()))
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl Recorder for Log {
    fn append(&self, record: Vec<u8>) -> Appended {
        self.queue.append(record, None, Room::Bounded)
    }

    fn note(&self, record: Vec<u8>) {
        self.queue.note(record, None);
    }

    fn passes(&self, call: CallId, record: Vec<u8>) -> Appended {
        let step = Some(Step::Opens(call));
        self.queue.append(record, step, Room::Bounded)
    }

    fn ends(&self, call: CallId, record: Vec<u8>) {
        self.queue.note(record, Some(Step::Closes(call)));
    }

    fn trouble(&self) -> Option<RecordError> {
        self.queue.trouble()
    }
}

#[cfg(test)]
mod tests;
