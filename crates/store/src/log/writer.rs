//! The one thread that writes the log.
//!
//! A commit is one write of all that waits, at most one sync, and then all answers. A commit that fails
//! changes nothing in memory, so that the chain goes on from the last good entry.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base::Digest;
use base::limit::LOG_LOOK_MS;
use gate::ports::RecordError;

use super::open::Opened;
use super::queue::{Answer, Item, Queue, Wait, count_lost};
use super::{Durability, LogStats};
use crate::disk::{Disk, DiskFile};
use crate::entry::{self, ENTRY_EXTRA_BYTES, SEGMENT_ENTRIES};
use crate::note::Checkpoint;
use crate::tree::{self, Edge};
use crate::unsigned::{Unsigned, recorded_at};

/// How long outcomes may wait for a judgement to share a write with.
const OUTCOME_WAIT: Duration = Duration::from_millis(50);
/// How often a full disk is tried again.
const ROOM_WAIT: Duration = Duration::from_secs(1);
/// How often a checkpoint is signed while the log grows and each judgement is synced anyway.
const CHECKPOINT_WAIT_FSYNC: Duration = Duration::from_secs(1);
/// The same with `os`, where it costs a sync that calls wait for.
const CHECKPOINT_WAIT_OS: Duration = Duration::from_secs(5);
/// How often it is looked whether the log's files stand where they stood, while records come.
const LOOK_BUSY: Duration = Duration::from_millis(LOG_LOOK_MS.0);
/// The same while none do.
const LOOK_IDLE: Duration = Duration::from_millis(LOG_LOOK_MS.1);
/// Bytes written and cut again to see whether a full disk has room.
const PROBE_BYTES: usize = 64 << 10;

/// What went wrong in a commit.
enum Fail {
    /// The disk is full; what was written of it is cut again.
    Full,
    /// Nothing more can be written.
    Broken(String),
}

pub(super) struct Writer {
    disk: Arc<dyn Disk>,
    log: Opened,
    durability: Durability,
    queue: Arc<Queue>,
    stats: Arc<LogStats>,
    /// Entries on their way to the disk; kept for its room.
    buffer: Vec<u8>,
    /// The tree with the entries of this commit; kept for its room.
    edge_next: Edge,
    answers: Vec<(u64, Answer)>,
    /// Written, not synced.
    unsynced: bool,
    full: bool,
    checkpoint_due: Instant,
    looked: Instant,
    /// The newest checkpoint and its size, where the witness does not have it yet.
    noted: Option<(u64, String)>,
}

impl Writer {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        log: Opened,
        durability: Durability,
        queue: &Arc<Queue>,
        stats: &Arc<LogStats>,
    ) -> Writer {
        stats.entries.store(log.edge.size(), Ordering::Relaxed);
        stats.bytes.store(log.bytes, Ordering::Relaxed);
        stats.set_synced(log.edge.size());
        Writer {
            disk,
            log,
            durability,
            queue: Arc::clone(queue),
            stats: Arc::clone(stats),
            buffer: Vec::new(),
            edge_next: Edge::default(),
            answers: Vec::new(),
            unsynced: false,
            full: false,
            checkpoint_due: Instant::now(),
            looked: Instant::now(),
            noted: None,
        }
    }

    /// Runs until the queue is closed and empty, or the disk fails.
    pub(super) fn run(mut self) {
        let _alarm = Alarm(Arc::clone(&self.queue));
        let mut items: Vec<Item> = Vec::new();
        let mut fresh = Vec::new();
        let mut wrote = false;
        loop {
            let open = self
                .queue
                .take(&mut fresh, self.wait(wrote, !items.is_empty()));
            items.append(&mut fresh);
            wrote = !items.is_empty();
            let result = self
                .look(!open)
                .and_then(|()| self.commit_all(&mut items, open))
                .and_then(|()| self.checkpoint_if_due(!open));
            match result {
                Ok(()) if self.full => {
                    self.full = false;
                    self.queue.set_trouble(None);
                    tracing::info!("the disk of the log has room again; calls are taken");
                }
                Ok(()) => {}
                Err(Fail::Full) => self.wait_for_room(&mut items),
                Err(Fail::Broken(why)) => return self.give_up(items, &why),
            }
            if !open {
                count_lost(&self.stats.lost, items.len() as u64);
                return;
            }
        }
    }

    /// How long to wait, and for what.
    fn wait(&self, wrote: bool, kept: bool) -> Wait {
        if self.full || kept {
            return Wait::Nap(Instant::now() + ROOM_WAIT);
        }
        let due = (self.log.edge.size() > self.log.signed).then_some(self.checkpoint_due);
        let look = self.looked + LOOK_IDLE;
        let due = due.map_or(look, |due| due.min(look));
        if !wrote {
            return Wait::Sleep(Some(due));
        }
        Wait::Nap(due.min(Instant::now() + OUTCOME_WAIT))
    }

    /// Fails where the log's files no longer stand where they stood, before more is written to them.
    fn look(&mut self, closing: bool) -> Result<(), Fail> {
        let now = Instant::now();
        if !closing && now < self.looked + LOOK_BUSY {
            return Ok(());
        }
        self.looked = now;
        let astray = self.log.astray(&*self.disk);
        let failed = |what| Fail::Broken(format!("{what} while the log was open"));
        astray.map_or(Ok(()), |what| Err(failed(what)))
    }

    fn commit_all(&mut self, items: &mut Vec<Item>, open: bool) -> Result<(), Fail> {
        if self.full && items.is_empty() && open {
            self.probe()?;
        }
        while !items.is_empty() {
            self.make_room(items)?;
            let room = SEGMENT_ENTRIES as usize - self.log.leaves.len();
            let mut count = items.len().min(room);
            // Who accepts an end that is over the bound signs it with the record that says so, and not before.
            if self.log.found.is_none() {
                let records = items[..count].iter().map(|item| &item.record[..]);
                count = self.log.unsigned.room(records);
                if count == 0 {
                    self.checkpoint()?;
                    continue;
                }
            }
            let started = Instant::now();
            let waited = items[..count].iter().any(|item| item.answer.is_some());
            self.write(items[..count].iter().map(|item| &item.record[..]))?;
            let mut settled = 0;
            let first = self.log.edge.size() - count as u64;
            for (index, item) in (first..).zip(items.drain(..count)) {
                settled += (item.record.len() + ENTRY_EXTRA_BYTES) as u64;
                item.step
                    .into_iter()
                    .for_each(|step| self.log.ledger.take(step));
                self.answers
                    .extend(item.answer.map(|answer| (index, answer)));
            }
            if waited && self.durability == Durability::Fsync {
                self.sync()?;
            }
            self.committed(started, settled);
        }
        Ok(())
    }

    /// Begins another segment where this one is full. Each begins with what is open of those before it, so that the
    /// next start has to read no other.
    fn make_room(&mut self, items: &[Item]) -> Result<(), Fail> {
        if self.log.leaves.len() as u64 == SEGMENT_ENTRIES {
            self.roll()?;
        }
        // Nothing may be signed before the record that accepts what is there.
        if !self.log.unbased || self.log.found.is_some() {
            return Ok(());
        }
        // It stands there at the time of the record that follows: nothing has happened since.
        let at = items.first().and_then(|item| recorded_at(&item.record));
        let base = self.log.ledger.base(at);
        // In the last entries of a segment of an older version there may be no room for it; the next one begins with it.
        if self.log.leaves.len() + base.len() >= SEGMENT_ENTRIES as usize {
            return Ok(());
        }
        let records = || base.iter().map(|record| &record[..]);
        if self.log.unsigned.room(records()) < base.len() {
            self.checkpoint()?;
        }
        self.write(records())?;
        self.log.unbased = false;
        self.count_bytes();
        Ok(())
    }

    /// Adds what the last write wrote to the bytes of the log.
    fn count_bytes(&self) {
        let written = self.buffer.len() as u64;
        self.stats.bytes.fetch_add(written, Ordering::Relaxed);
    }

    /// Puts records behind the last entry, in one write. On a failure nothing has changed.
    fn write<'r>(&mut self, records: impl Iterator<Item = &'r [u8]> + Clone) -> Result<(), Fail> {
        let log = &mut self.log;
        log.trim()?;
        let leaves_before = log.leaves.len();
        let mut prev = log.prev;
        self.edge_next.copy_from(&log.edge);
        self.buffer.clear();
        for record in records.clone() {
            prev = entry::push(&mut self.buffer, &prev, record, self.edge_next.size());
            self.edge_next.push(prev);
            log.leaves.push(prev);
        }
        let written = log.file.write_at(&self.buffer, log.file_len);
        if let Err(error) = written {
            log.leaves.truncate(leaves_before);
            return Err(undo(&mut *log.file, log.file_len, &error));
        }
        log.prev = prev;
        log.file_len += self.buffer.len() as u64;
        records.for_each(|record| log.unsigned.push(record));
        std::mem::swap(&mut log.edge, &mut self.edge_next);
        self.unsynced = true;
        Ok(())
    }

    /// Never tried again after it failed: the system may have dropped what it could not write.
    fn sync(&mut self) -> Result<(), Fail> {
        let synced = self.log.file.sync();
        synced.map_err(|error| Fail::Broken(format!("syncing the log failed: {error}")))?;
        self.unsynced = false;
        self.stats.set_synced(self.log.edge.size());
        Ok(())
    }

    /// Counts a commit and answers everyone in it.
    fn committed(&mut self, started: Instant, settled: u64) {
        let size = self.log.edge.size();
        let stats = &self.stats;
        stats.entries.store(size, Ordering::Relaxed);
        self.count_bytes();
        stats.commits.fetch_add(1, Ordering::Relaxed);
        let took = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        stats.commit_us_last.store(took, Ordering::Relaxed);
        self.queue.settle(settled);
        for (index, answer) in self.answers.drain(..) {
            // Whoever asked may have gone away; the record stays.
            let _ = answer.send(Ok(index));
        }
    }

    /// Finishes a full segment and begins the next.
    fn roll(&mut self) -> Result<(), Fail> {
        if self.unsynced {
            self.sync()?;
        }
        // The next segment is made by its name, so the folder has to be the one that is held.
        self.look(true)?;
        let log = &mut self.log;
        let mut hashes = Vec::with_capacity(32 * (log.leaves.len() + 1));
        hashes.extend_from_slice(&tree::root_of(&log.leaves).0);
        hashes.extend(log.leaves.iter().flat_map(|leaf: &Digest| leaf.0));
        self.disk
            .write(&entry::leaves_name(log.segment), &hashes, false)
            .map_err(|e| fail(&e))?;
        log.file = self
            .disk
            .append(&entry::segment_name(log.segment + 1))
            .map_err(|e| fail(&e))?;
        if log.file.length().map_err(|e| fail(&e))? > 0 {
            let why = "a file stands where the log's next segment begins";
            return Err(Fail::Broken(why.to_owned()));
        }
        log.file_len = 0;
        log.segment += 1;
        log.unbased = true;
        log.leaves.clear();
        self.stats
            .bytes
            .fetch_add(hashes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn checkpoint_if_due(&mut self, closing: bool) -> Result<(), Fail> {
        let grown = self.log.edge.size() > self.log.signed;
        if grown && (closing || Instant::now() >= self.checkpoint_due) {
            self.checkpoint()?;
        }
        if closing { self.log.trim() } else { Ok(()) }
    }

    /// Signs what is on the disk, never more: a checkpoint that a crash could outrun would be a lie. It is on the disk
    /// itself before anything follows, so that no crash leaves more unsigned than the bound.
    fn checkpoint(&mut self) -> Result<(), Fail> {
        if self.unsynced {
            self.sync()?;
        }
        let size = self.log.edge.size();
        // Where only the witness was full, the checkpoint is there already.
        let note = match self.noted.take().filter(|(noted, _)| *noted == size) {
            Some((_, note)) => note,
            None => self.sign(size)?,
        };
        if let Some(witness) = &mut self.log.witness
            && let Err(error) = witness.put(&note)
        {
            self.noted = Some((size, note));
            return Err(match fail(&error) {
                Fail::Full => Fail::Full,
                Fail::Broken(_) => Fail::Broken(format!("the log's witness: {error}")),
            });
        }
        self.log.signed = size;
        self.log.unsigned = Unsigned::default();
        self.checkpoint_due = Instant::now()
            + match self.durability {
                Durability::Fsync => CHECKPOINT_WAIT_FSYNC,
                Durability::Os => CHECKPOINT_WAIT_OS,
            };
        self.stats.checkpoints.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Puts a checkpoint over all entries behind the others, and returns its note.
    fn sign(&mut self, size: u64) -> Result<String, Fail> {
        let log = &mut self.log;
        let root = log.edge.root();
        let note = log.signer.checkpoint(&Checkpoint { size, root });
        let written = log
            .checkpoints
            .write_at(note.as_bytes(), log.checkpoints_len);
        written.map_err(|error| undo(&mut *log.checkpoints, log.checkpoints_len, &error))?;
        let synced = log.checkpoints.sync();
        synced.map_err(|error| Fail::Broken(format!("syncing a checkpoint failed: {error}")))?;
        log.checkpoints_len += note.len() as u64;
        self.stats
            .bytes
            .fetch_add(note.len() as u64, Ordering::Relaxed);
        Ok(note)
    }

    /// Whether a disk that was full takes bytes again.
    fn probe(&mut self) -> Result<(), Fail> {
        let log = &mut self.log;
        let written = log.file.write_at(&[0; PROBE_BYTES], log.file_len);
        let cut = log.file.truncate(log.file_len);
        written
            .and(cut)
            .map_err(|error| undo(&mut *log.file, log.file_len, &error))
    }

    /// The disk is full: refuses the judgements that wait and keeps the outcomes.
    fn wait_for_room(&mut self, items: &mut Vec<Item>) {
        if !self.full {
            tracing::error!("the disk of the log is full; all calls are refused until it has room");
        }
        self.full = true;
        self.queue.set_trouble(Some(RecordError::Full));
        let mut refused = 0;
        let answers = items.extract_if(.., |item| item.answer.is_some());
        for item in answers {
            refused += (item.record.len() + ENTRY_EXTRA_BYTES) as u64;
            let _ = item
                .answer
                .map(|answer| answer.send(Err(RecordError::Full)));
        }
        self.queue.settle(refused);
    }

    /// The disk failed: refuses all that waits and all that comes.
    fn give_up(mut self, mut items: Vec<Item>, why: &str) {
        tracing::error!(
            why,
            "the log failed; all calls are refused until it is opened again"
        );
        let failed = RecordError::Failed(why.to_owned());
        self.queue.set_trouble(Some(failed.clone()));
        let mut rest = Vec::new();
        self.queue.take(&mut rest, Wait::Nap(Instant::now()));
        items.append(&mut rest);
        let mut lost = 0;
        let waiting = items.into_iter().filter_map(|item| {
            lost += u64::from(item.answer.is_none());
            item.answer
        });
        for answer in self
            .answers
            .drain(..)
            .map(|(_, answer)| answer)
            .chain(waiting)
        {
            let _ = answer.send(Err(failed.clone()));
        }
        count_lost(&self.stats.lost, lost);
    }
}

impl Opened {
    /// Cuts what another has put behind the last entry. Where another has cut the segment, a write would leave a hole
    /// that gives it its length again, so that is a failure.
    fn trim(&mut self) -> Result<(), Fail> {
        let found = self.file.length().map_err(|e| fail(&e))?;
        if found < self.file_len {
            let why = "the log's segment was cut by another while the log was open";
            return Err(Fail::Broken(why.to_owned()));
        }
        if found > self.file_len {
            let bytes = found - self.file_len;
            tracing::warn!(
                bytes,
                "cut what another has put behind the log's last entry"
            );
            self.file.truncate(self.file_len).map_err(|e| fail(&e))?;
        }
        Ok(())
    }
}

/// Cuts what a failed write left, so that the next one stands where this one should have.
fn undo(file: &mut dyn DiskFile, len: u64, error: &io::Error) -> Fail {
    match (fail(error), file.truncate(len)) {
        (Fail::Full, Err(error)) => Fail::Broken(format!("cutting the log failed: {error}")),
        (fail, _) => fail,
    }
}

fn fail(error: &io::Error) -> Fail {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Fail::Full,
        _ => Fail::Broken(format!("writing the log failed: {error}")),
    }
}

/// Refuses everything if the writer panics; a log without a writer would let calls wait for ever.
struct Alarm(Arc<Queue>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0
                .set_trouble(Some(RecordError::Failed("the log's writer stopped".into())));
            // Dropping the records drops their answers, which tells whoever waits.
            self.0.take(&mut Vec::new(), Wait::Nap(Instant::now()));
        }
    }
}
