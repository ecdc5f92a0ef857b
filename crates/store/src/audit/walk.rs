//! One pass over the entries: the chain, the numbers, the checkpoints and the stored hashes together.
//!
//! An entry that does not follow the one before may be wrong itself, or the one before may be. The entry
//! after it, and the checkpoints that already fitted, tell which.

use base::Digest;

use super::source::{Read, Source};
use super::stored::Stored;
use super::{Damage, History, Kind, Verified};
use crate::entry::{Entry, NO_ENTRY};
use crate::tree::{self, Edge};

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
    stored: Stored<'s>,
}

pub(super) fn walk(source: &Source<'_>, history: &History) -> Result<Verified, Damage> {
    let mut walk = Walk {
        source,
        read: source.read_from(0).0,
        edge: Edge::default(),
        last: NO_ENTRY,
        before: NO_ENTRY,
        proven: 0,
        fork: None,
        stored: Stored::new(source),
    };
    let mut ahead = &history.checkpoints[..];
    loop {
        while let Some((checkpoint, rest)) = ahead.split_first()
            && checkpoint.size == walk.edge.size()
        {
            match walk.fork {
                None if checkpoint.root == walk.edge.root() => walk.proven = checkpoint.size,
                None => walk.fork = Some(checkpoint.size),
                Some(_) => {}
            }
            ahead = rest;
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

impl Walk<'_> {
    /// Takes the next entry; false at the end.
    fn step(&mut self) -> Result<bool, Damage> {
        let index = self.edge.size();
        let Some(bytes) = self.read.next(self.source.disk, index)? else {
            return Ok(false);
        };
        let hash = tree::leaf_hash(bytes);
        let found = Entry::parse(bytes).map(|entry| (entry.seq, entry.prev));
        if found != Some((index, self.last)) {
            return Err(self.name_damage(index, found, hash));
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
                _ => (Kind::Unreadable, "it is not an entry, nor is what follows"),
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

    fn end(mut self, history: &History) -> Result<Verified, Damage> {
        let entries = self.edge.size();
        if let Some(size) = self.fork {
            return Err(self.forked(size));
        }
        if let Some(bad) = &history.bad {
            return Err(bad.clone());
        }
        let newest = history.checkpoints.last().cloned();
        if let Some(newest) = newest.as_ref().filter(|newest| newest.size > entries) {
            let what = format!("a checkpoint covers {} entries", newest.size);
            return Err(Damage::new(entries, Kind::CutOff, what));
        }
        self.stored.finish();
        if let Some((index, name)) = self.stored.differs {
            return Err(Damage::new(
                index,
                Kind::Changed,
                format!("{name} holds another hash"),
            ));
        }
        let checkpoints = history.checkpoints.len() as u64;
        Ok(Verified {
            entries,
            root: self.edge.root(),
            checkpoints,
            newest,
        })
    }
}
