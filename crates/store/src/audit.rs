//! Checking a log without the gateway: is each entry the one that was written, and if not, which is not.
//!
//! It reads a log's own directory, also while the log is written, or an export of it, and never changes
//! either. It says what the chain, the signed checkpoints and the stored hashes prove. What they cannot
//! prove: that nobody cut off entries together with every checkpoint that covers them, or rewrote the few at the end
//! that were not signed yet. A checkpoint that was kept elsewhere shows both.

use std::fmt;
use std::io;
use std::path::Path;

use base::Digest;

use crate::disk::{Disk, FileDisk};
use crate::entry::Entry;
use crate::log::{CHECKPOINTS, KEY_PUB, read_text};
use crate::note::{self, Checkpoint, Verifier};
use crate::tree;

pub use export::{ExportError, Exported, export};
use source::{Read, Source};

mod export;
mod source;
mod stored;
mod tail;
mod walk;

/// The newest checkpoint of an export, where `tlog-tiles` wants it.
const CHECKPOINT: &str = "checkpoint";

/// What a log that verifies holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Entries in the log.
    pub entries: u64,
    /// Those after the newest checkpoint, which are chained and not signed: no more than one interval leaves.
    pub unsigned: u64,
    /// Whether an entry is being written at the end.
    pub torn: bool,
    /// Entries at the beginning that were not read, because only what follows a checkpoint was asked for. Their
    /// stored hashes give what it signed.
    pub skipped: u64,
    /// Entries that say that an operator went on with what nothing proved.
    pub accepted: Vec<u64>,
    /// The Merkle root over all of them.
    pub root: Digest,
    /// Signed checkpoints that fit.
    pub checkpoints: u64,
    /// The one that covers most.
    pub newest: Option<Checkpoint>,
}

/// What kind of damage a log has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An entry, or a stored hash of it, is not what was written.
    Changed,
    /// An entry is gone, and later ones are there.
    Removed,
    /// An entry is there that was not written.
    Inserted,
    /// The log ends before what a checkpoint covers.
    CutOff,
    /// The chain fits and is not the one that was signed.
    Forked,
    /// A checkpoint is not signed by the log's key.
    BadCheckpoint,
    /// The lengths before the entries, or the entries, are not what a log has.
    Garbled,
    /// More entries than one interval leaves are signed by no checkpoint.
    Unsigned,
    /// An entry at the end is not finished, and nobody writes the log.
    Torn,
    /// A file is named like a part of the log and is none.
    Strange,
    /// The files cannot be read as a log.
    Unreadable,
}

impl Kind {
    /// The word for it on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Changed => "changed",
            Kind::Removed => "removed",
            Kind::Inserted => "inserted",
            Kind::CutOff => "cut off",
            Kind::Forked => "forked",
            Kind::BadCheckpoint => "bad checkpoint",
            Kind::Garbled => "garbled",
            Kind::Unsigned => "unsigned",
            Kind::Torn => "torn",
            Kind::Strange => "strange file",
            Kind::Unreadable => "unreadable",
        }
    }
}

/// Where a log stops being what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The first entry that does not fit. Of a fork without stored hashes: the first that no good
    /// checkpoint covers. Of a bad checkpoint: the entries that it says it covers.
    pub index: u64,
    pub kind: Kind,
    /// What was found, in words.
    pub what: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "entry {}: {}: {}",
            self.index,
            self.kind.as_str(),
            self.what
        )
    }
}

impl std::error::Error for Damage {}

impl Damage {
    fn new(index: u64, kind: Kind, what: impl Into<String>) -> Damage {
        Damage {
            index,
            kind,
            what: what.into(),
        }
    }

    fn unreadable(index: u64, what: &str, error: &io::Error) -> Damage {
        Damage::new(index, Kind::Unreadable, format!("{what}: {error}"))
    }
}

/// What a log is held against, beside itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Against<'a> {
    /// The log's public key, kept elsewhere.
    pub key: Option<&'a str>,
    /// A note with a checkpoint, kept elsewhere, which the log has to hold.
    pub checkpoint: Option<&'a str>,
    /// Reads only what follows that checkpoint, or without one the newest of the log, from the beginning of the
    /// segment that it stands in. Of what is before, the stored leaf hashes are read, and have to give what it signed. An
    /// export is always read as a whole.
    pub since: bool,
}

/// Verifies the log, or the export of one, in a directory. Without `vkey`, the key that lies beside it is
/// trusted, which proves less: whoever can write the directory can sign it anew.
///
/// # Errors
/// The first damage.
pub fn verify(dir: &Path, vkey: Option<&str>) -> Result<Verified, Damage> {
    verify_disk(&FileDisk::new(dir), vkey)
}

/// As [`verify`], held against more.
///
/// # Errors
/// The first damage.
pub fn verify_against(dir: &Path, against: Against<'_>) -> Result<Verified, Damage> {
    verify_disk_against(&FileDisk::new(dir), against)
}

/// As [`verify`], on any disk.
///
/// # Errors
/// The first damage.
pub fn verify_disk(disk: &dyn Disk, vkey: Option<&str>) -> Result<Verified, Damage> {
    let key = vkey;
    verify_disk_against(
        disk,
        Against {
            key,
            ..Against::default()
        },
    )
}

/// As [`verify_against`], on any disk.
///
/// # Errors
/// The first damage.
pub fn verify_disk_against(disk: &dyn Disk, against: Against<'_>) -> Result<Verified, Damage> {
    let verifier = verifier(disk, against.key)?;
    // Before the entries, so that a log that is written meanwhile has at least what they cover.
    let mut history = History::read(disk, verifier)?;
    let kept = against.checkpoint.map(|note| history.keep(note));
    let kept = kept.transpose()?;
    let source = Source::open(disk)?;
    source.check_names()?;
    let since = against
        .since
        .then(|| kept.or_else(|| history.checkpoints.last().cloned()));
    walk::walk(&source, &history, since.flatten().as_ref())
}

fn verifier(disk: &dyn Disk, vkey: Option<&str>) -> Result<Verifier, Damage> {
    let text = match vkey {
        Some(vkey) => vkey.to_owned(),
        None => {
            let beside = read_text(disk, KEY_PUB);
            beside.map_err(|error| Damage::unreadable(0, "the verifier key (key.pub)", &error))?
        }
    };
    Verifier::parse(&text).map_err(|error| Damage::new(0, Kind::Unreadable, error.to_string()))
}

/// The checkpoints of a log, the smallest first.
struct History {
    verifier: Verifier,
    checkpoints: Vec<Checkpoint>,
    /// The first that its key did not sign.
    bad: Option<Damage>,
}

impl History {
    fn read(disk: &dyn Disk, verifier: Verifier) -> Result<History, Damage> {
        let mut history = History {
            verifier,
            checkpoints: Vec::new(),
            bad: None,
        };
        for name in [CHECKPOINTS, CHECKPOINT] {
            let mut bytes = Vec::new();
            let read = disk
                .read(name, 0)
                .and_then(|mut file| file.read_to_end(&mut bytes));
            match read {
                Ok(_) => history.add(&bytes),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(Damage::unreadable(0, "the checkpoints", &error)),
            }
        }
        history
            .checkpoints
            .sort_by_key(|checkpoint| checkpoint.size);
        Ok(history)
    }

    /// Adds a checkpoint that was kept elsewhere.
    fn keep(&mut self, note: &str) -> Result<Checkpoint, Damage> {
        let kept = self.verifier.checkpoint(note).map_err(|error| {
            let claimed = note::read_checkpoint(note).map_or(0, |claimed| claimed.size);
            let what = format!("the checkpoint that was kept elsewhere does not hold: {error}");
            Damage::new(claimed, Kind::BadCheckpoint, what)
        })?;
        if !self.checkpoints.contains(&kept) {
            let before = |checkpoint: &Checkpoint| checkpoint.size <= kept.size;
            let place = self.checkpoints.partition_point(before);
            self.checkpoints.insert(place, kept.clone());
        }
        Ok(kept)
    }

    fn add(&mut self, bytes: &[u8]) {
        // What follows the last newline is a note that is being written, or that a crash tore.
        let lines = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let Ok(text) = std::str::from_utf8(&bytes[..lines]) else {
            return self.add_bad(0, "the checkpoints are not text");
        };
        for note in note::split_history(text).0 {
            match self.verifier.checkpoint(note) {
                Ok(checkpoint) => self.checkpoints.push(checkpoint),
                Err(error) => {
                    let claimed = note::read_checkpoint(note).map_or(0, |claimed| claimed.size);
                    self.add_bad(claimed, &format!("a checkpoint does not hold: {error}"));
                }
            }
        }
    }

    fn add_bad(&mut self, index: u64, what: &str) {
        let bad = || Damage::new(index, Kind::BadCheckpoint, what);
        self.bad.get_or_insert_with(bad);
    }
}

/// Reads the records of a log from index `from` on, unchecked; [`verify`] checks them.
///
/// # Errors
/// `Unreadable` where the directory holds no log.
pub fn entries(dir: &Path, from: u64) -> Result<Entries, Damage> {
    let disk = FileDisk::new(dir);
    let source = Source::open(&disk)?;
    let (read, at) = source.read_from(from);
    Ok(Entries {
        disk,
        read: Some(read),
        at,
        from,
    })
}

/// The leaf hash of one entry; nothing where the log ends before it.
///
/// # Errors
/// `Unreadable` where the directory holds no log, and what is damaged before the entry.
pub(crate) fn leaf_at(dir: &Path, index: u64) -> Result<Option<Digest>, Damage> {
    let whole = entries(dir, index)?.next_whole().transpose()?;
    Ok(whole.map(|whole| whole.leaf))
}

/// One entry as it stands in a log, unchecked.
pub(crate) struct WholeEntry {
    pub(crate) seq: u64,
    pub(crate) prev: Digest,
    pub(crate) leaf: Digest,
    pub(crate) record: Vec<u8>,
}

/// The records of a log, each with its index. Ends after the last that is there, where [`Entries::again`] goes on, and
/// after the first that cannot be read.
pub struct Entries {
    disk: FileDisk,
    /// Nothing after a damage.
    read: Option<Read>,
    at: u64,
    from: u64,
}

impl Entries {
    /// Goes on after the end, with the records that were written since.
    ///
    /// # Errors
    /// `Unreadable` where the directory holds no log any more.
    pub fn again(&mut self) -> Result<(), Damage> {
        let source = Source::open(&self.disk)?;
        let layout = source.layout.clone();
        let Some(read) = &mut self.read else {
            return Ok(());
        };
        let gone = |error| Damage::unreadable(self.at, "the entries", &error);
        read.go_on(&self.disk, layout).map_err(gone)
    }

    /// The next entry with its hashes; nothing at the end, or after one that cannot be read.
    pub(crate) fn next_whole(&mut self) -> Option<Result<WholeEntry, Damage>> {
        let item = self.step();
        if matches!(item, Some(Err(_))) {
            self.read = None;
        }
        item
    }

    fn step(&mut self) -> Option<Result<WholeEntry, Damage>> {
        loop {
            let index = self.at;
            match self.read.as_mut()?.next(&self.disk, index) {
                Ok(Some(bytes)) => {
                    self.at += 1;
                    if index < self.from {
                        continue;
                    }
                    return Some(match Entry::parse(bytes) {
                        Some(entry) => Ok(WholeEntry {
                            seq: entry.seq,
                            prev: entry.prev,
                            leaf: tree::leaf_hash(bytes),
                            record: entry.record.to_vec(),
                        }),
                        None => Err(Damage::new(index, Kind::Changed, "it is not an entry")),
                    });
                }
                Ok(None) => return None,
                Err(damage) => return Some(Err(damage)),
            }
        }
    }
}

impl Iterator for Entries {
    type Item = Result<(u64, Vec<u8>), Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.next_whole()?;
        Some(item.map(|whole| (whole.seq, whole.record)))
    }
}

#[cfg(test)]
mod tests;
