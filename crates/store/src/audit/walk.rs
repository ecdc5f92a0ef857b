//! One pass over the entries: the chain, the numbers, the checkpoints and the stored hashes together.
//!
//! An entry that does not follow the one before may be wrong itself, or the one before may be. The entry
//! after it, and the checkpoints that already fitted, tell which.

use base::Digest;

use super::source::{Layout, Read, Source};
use super::stored::Stored;
use super::tail::Tail;
use super::{Damage, History, Kind, Verified};
use crate::entry::{self, End, Entry, NO_ENTRY, SEGMENT_ENTRIES, SEGMENT_LEVEL};
use crate::log::stored_leaves;
use crate::note::Checkpoint;
use crate::tree::{self, Edge};
use crate::unsigned;

/// What the record of something that was accepted has in it; others may have it too.
const ACCEPTED: &[u8] = b"\"kind\":\"accepted\"";

struct Walk<'s> {
    source: &'s Source<'s>,
    read: Read,
    edge: Edge,
    /// The hashes of the last entry and of the one before it.
    last: Digest,
    before: Digest,
    /// Entries that a checkpoint proves.
    proven: u64,
    /// The size of the first checkpoint that signed something else.
    fork: Option<u64>,
    /// What follows the newest checkpoint that fitted.
    tail: Tail,
    checkpoints: u64,
    skipped: u64,
    accepted: Vec<u64>,
    stored: Stored<'s>,
}

pub(super) fn walk(
    source: &Source<'_>,
    history: &History,
    since: Option<&Checkpoint>,
) -> Result<Verified, Damage> {
    let mut walk = Walk::new(source, since)?;
    let skipped = walk.skipped;
    let mut ahead = &history.checkpoints[..];
    ahead = &ahead[ahead.partition_point(|checkpoint| checkpoint.size < skipped)..];
    loop {
        while let Some((checkpoint, rest)) = ahead.split_first()
            && checkpoint.size == walk.edge.size()
        {
            walk.hold_against(checkpoint);
            ahead = rest;
        }
        if ahead.is_empty() && walk.tail.wants_more() {
            walk.look_again(history)?;
        }
        match walk.step() {
            Ok(true) => {}
            Ok(false) => break,
            Err(damage) => {
                // What a checkpoint denies came first, unless it is the same entry.
                let fork = walk.fork.filter(|size| *size <= damage.index);
                return Err(fork.map_or(damage, |size| walk.forked(size)));
            }
        }
    }
    walk.end(history)
}

impl<'s> Walk<'s> {
    /// Stands at the first entry, or at the beginning of the segment that holds the checkpoint `since`.
    fn new(source: &'s Source<'s>, since: Option<&Checkpoint>) -> Result<Walk<'s>, Damage> {
        let (mut edge, mut last, mut before) = (Edge::default(), NO_ENTRY, NO_ENTRY);
        let finished = match &source.layout {
            Layout::Segments(segments) => segments.len().saturating_sub(1) as u64,
            Layout::Tiles(_) => 0,
        };
        let first = since.map_or(0, |since| finished.min(since.size / SEGMENT_ENTRIES));
        for segment in 0..first {
            let cut = || {
                let what = "the stored leaf hashes of its segment do not give their root";
                Damage::new(segment * SEGMENT_ENTRIES, Kind::Changed, what)
            };
            let leaves = stored_leaves(source.disk, segment).ok_or_else(cut)?;
            edge.push_subtree(tree::root_of(&leaves), SEGMENT_LEVEL);
            if let [.., one, two] = leaves[..] {
                (before, last) = (one, two);
            }
        }
        Ok(Walk {
            source,
            read: source.read_from(edge.size()).0,
            tail: Tail::new(edge.clone()),
            skipped: edge.size(),
            edge,
            last,
            before,
            proven: 0,
            fork: None,
            checkpoints: 0,
            accepted: Vec::new(),
            stored: Stored::new(source, first),
        })
    }

    /// Holds the entries until here against a checkpoint that covers as many.
    fn hold_against(&mut self, checkpoint: &Checkpoint) {
        self.checkpoints += 1;
        match self.fork {
            None if checkpoint.root == self.edge.root() => {
                self.proven = checkpoint.size;
                self.tail.begin(&self.edge, checkpoint.clone());
            }
            None => self.fork = Some(checkpoint.size),
            Some(_) => {}
        }
    }

    /// More follows the newest checkpoint than a writer leaves: it has signed meanwhile, or nobody has.
    fn look_again(&mut self, history: &History) -> Result<(), Damage> {
        let now = History::read(self.source.disk, history.verifier.clone())?;
        for checkpoint in &now.checkpoints {
            match self.tail.advance(checkpoint) {
                Some(true) => {
                    self.checkpoints += 1;
                    self.proven = checkpoint.size;
                }
                Some(false) => self.fork = self.fork.or(Some(checkpoint.size)),
                None => {}
            }
        }
        self.tail.give_up();
        Ok(())
    }

    /// Takes the next entry; false at the end.
    fn step(&mut self) -> Result<bool, Damage> {
        let index = self.edge.size();
        let Some(bytes) = self.read.next(self.source.disk, index)? else {
            return Ok(false);
        };
        let hash = tree::leaf_hash(bytes);
        let entry = Entry::parse(bytes);
        let found = entry.map(|entry| (entry.seq, entry.prev));
        if found != Some((index, self.last)) {
            return Err(self.name_damage(index, found, hash));
        }
        if let Some(entry) = entry {
            self.tail.push(hash, entry.record);
            if is_accepted(entry.record) {
                self.accepted.push(index);
            }
        }
        (self.before, self.last) = (self.last, hash);
        self.edge.push(hash);
        self.stored.push(hash);
        Ok(true)
    }

    /// Tells apart what can be wrong with an entry that does not fit.
    fn name_damage(&mut self, index: u64, found: Option<(u64, Digest)>, hash: Digest) -> Damage {
        let next = match self.read.next(self.source.disk, index + 1) {
            Ok(next) => next.map(|bytes| Entry::parse(bytes).map(|entry| (entry.seq, entry.prev))),
            Err(damage) if found.is_none() => return Damage { index, ..damage },
            Err(_) => Some(None),
        };
        let next_seq = next.flatten().map(|(seq, _)| seq);
        let torn = self.read.torn;
        let Some((seq, prev)) = found else {
            let (kind, what) = match (next, next_seq) {
                (_, Some(seq)) if seq == index => (Kind::Inserted, "it is not an entry"),
                (_, Some(seq)) if seq == index + 1 => (Kind::Changed, "it is no longer an entry"),
                (None, _) if !torn => (Kind::Changed, "it is no longer an entry"),
                _ => (Kind::Garbled, "it is not an entry, nor is what follows"),
            };
            return Damage::new(index, kind, what);
        };
        if seq != index && next_seq == Some(index + 1) {
            return Damage::new(
                index,
                Kind::Changed,
                format!("it says that it is entry {seq}"),
            );
        }
        if seq > index {
            return Damage::new(
                index,
                Kind::Removed,
                format!("entry {seq} stands in its place"),
            );
        }
        let suspect = index > 0 && self.proven < index;
        if seq < index {
            let twin = suspect && seq + 1 == index && prev == self.before && hash != self.last;
            let what = format!("there are two entries {seq}");
            return Damage::new(index - u64::from(twin), Kind::Inserted, what);
        }
        let follows = next
            .flatten()
            .is_none_or(|(_, next_prev)| next_prev == hash);
        match suspect && follows {
            true => Damage::new(
                index - 1,
                Kind::Changed,
                "the next entry holds another hash of it",
            ),
            false => Damage::new(
                index,
                Kind::Changed,
                "it does not hold the hash of the one before",
            ),
        }
    }

    /// The chain fits; a checkpoint over `size` entries does not.
    fn forked(&mut self, size: u64) -> Damage {
        self.stored.finish();
        let stored = self.stored.differs.as_ref().map(|(index, _)| *index);
        let index = stored
            .filter(|index| (self.proven..size).contains(index))
            .unwrap_or(self.proven);
        let what = format!("the checkpoint over {size} entries signed others");
        // A single last entry has no successor that could deny it.
        let last = index + 1 == self.edge.size();
        Damage::new(index, if last { Kind::Changed } else { Kind::Forked }, what)
    }

    /// What stands behind the last entry; a length that is not its entry's is damage.
    fn torn(&self) -> Result<Option<End>, Damage> {
        if !self.read.torn {
            return Ok(None);
        }
        let index = self.edge.size();
        match entry::end(self.read.rest(), &self.last, index) {
            End::Length => {
                let what = "its length was changed";
                Err(Damage::new(index, Kind::Changed, what))
            }
            end => Ok(Some(end)),
        }
    }

    /// Whether an entry is being written at the end; what stands there while nobody writes is damage. A gateway
    /// that writes cuts what another has put there.
    fn is_being_written(&self, end: Option<End>) -> Result<bool, Damage> {
        let index = self.edge.size();
        let Some(end) = end else { return Ok(false) };
        let locked = self.source.disk.is_locked();
        if locked.map_err(|error| Damage::unreadable(index, "the lock", &error))? {
            return Ok(true);
        }
        let (kind, what) = match end {
            End::Junk => (
                Kind::Inserted,
                "what stands behind the last entry is none of this log",
            ),
            End::Unfinished | End::Length => (
                Kind::Torn,
                "an entry is unfinished, and nobody writes the log; a crash leaves that, and the next start cuts it",
            ),
        };
        Err(Damage::new(index, kind, what))
    }

    fn end(mut self, history: &History) -> Result<Verified, Damage> {
        let entries = self.edge.size();
        if let Some(size) = self.fork {
            return Err(self.forked(size));
        }
        if let Some(bad) = &history.bad {
            return Err(bad.clone());
        }
        let torn = self.torn()?;
        let most = history.checkpoints.last().map_or(0, |newest| newest.size);
        if most > entries {
            let what = format!("a checkpoint covers {most} entries");
            return Err(Damage::new(entries, Kind::CutOff, what));
        }
        let ever_signed = self.tail.newest().is_some();
        let signed = self.tail.newest().map_or(0, |newest| newest.size);
        let unsigned = entries - signed;
        if !ever_signed || self.tail.is_over() {
            let what = unsigned::told(unsigned, ever_signed);
            return Err(Damage::new(signed, Kind::Unsigned, what));
        }
        let torn = self.is_being_written(torn)?;
        self.stored.finish();
        if let Some((index, name)) = self.stored.differs {
            return Err(Damage::new(
                index,
                Kind::Changed,
                format!("{name} holds another hash"),
            ));
        }
        Ok(Verified {
            entries,
            unsigned,
            torn,
            skipped: self.skipped,
            accepted: self.accepted,
            root: self.edge.root(),
            checkpoints: self.checkpoints,
            newest: self.tail.newest().cloned(),
        })
    }
}

/// Whether a record says that an operator accepted something.
fn is_accepted(record: &[u8]) -> bool {
    // Most records are told from it without being read as JSON.
    let maybe = record
        .windows(ACCEPTED.len())
        .any(|window| window == ACCEPTED);
    let read = || serde_json::from_slice::<serde_json::Value>(record);
    maybe && read().is_ok_and(|record| record["kind"] == "accepted")
}
