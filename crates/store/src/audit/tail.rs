//! The entries that follow the newest checkpoint that fitted, and whether they are too many.
//!
//! A log that is written while it is read has checkpoints that were not there when the reading began. So the
//! hashes of the tail are kept, no more than the bound has, to hold them against a checkpoint inside the tail.

use base::Digest;
use base::limit::LOG_UNSIGNED_ENTRIES_MAX;

use crate::note::Checkpoint;
use crate::tree::Edge;
use crate::unsigned::{Unsigned, recorded_at};

pub(super) struct Tail {
    /// The tree until the newest checkpoint.
    edge: Edge,
    newest: Option<Checkpoint>,
    /// The hash and the time of each entry after it.
    entries: Vec<(Digest, Option<u64>)>,
    unsigned: Unsigned,
    /// Nothing has signed what is over the bound, so nothing more is kept.
    given_up: bool,
}

impl Tail {
    /// Behind a tree that no checkpoint has been held against.
    pub(super) fn new(edge: Edge) -> Tail {
        Tail {
            edge,
            newest: None,
            entries: Vec::new(),
            unsigned: Unsigned::default(),
            given_up: false,
        }
    }

    /// The checkpoint that it follows.
    pub(super) fn newest(&self) -> Option<&Checkpoint> {
        self.newest.as_ref()
    }

    pub(super) fn is_over(&self) -> bool {
        self.unsigned.is_over()
    }

    /// Whether it is over the bound and checkpoints that were signed meanwhile may show otherwise.
    pub(super) fn wants_more(&self) -> bool {
        !self.given_up && self.is_over()
    }

    pub(super) fn push(&mut self, hash: Digest, record: &[u8]) {
        let at = recorded_at(record);
        self.unsigned.push_at(at);
        // Of more than the bound, no checkpoint of a writer is asked for any more.
        if !self.given_up && self.entries.len() as u64 <= LOG_UNSIGNED_ENTRIES_MAX {
            self.entries.push((hash, at));
        }
    }

    /// Begins anew behind a checkpoint that fits.
    pub(super) fn begin(&mut self, edge: &Edge, checkpoint: Checkpoint) {
        *self = Tail::new(edge.clone());
        self.newest = Some(checkpoint);
    }

    /// Holds a checkpoint that covers a part of the tail against it: whether it fits, and nothing where it
    /// covers no part.
    pub(super) fn advance(&mut self, checkpoint: &Checkpoint) -> Option<bool> {
        let before = self.edge.size();
        let count = usize::try_from(checkpoint.size.checked_sub(before)?).ok()?;
        if count == 0 || count > self.entries.len() {
            return None;
        }
        let mut edge = self.edge.clone();
        let covered = self.entries[..count].iter();
        covered.for_each(|(hash, _)| edge.push(*hash));
        if edge.root() != checkpoint.root {
            return Some(false);
        }
        self.entries.drain(..count);
        self.edge = edge;
        self.newest = Some(checkpoint.clone());
        self.unsigned = Unsigned::default();
        let left = self.entries.iter();
        left.for_each(|(_, at)| self.unsigned.push_at(*at));
        Some(true)
    }

    /// Keeps no more of a tail that is over the bound still.
    pub(super) fn give_up(&mut self) {
        if self.is_over() {
            self.given_up = true;
            self.entries = Vec::new();
        }
    }
}
