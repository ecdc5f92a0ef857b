//! Opening a log: finding where it ends, and refusing to go on from anything that a crash does not explain.
//!
//! Only the last segment is read. Of the others the roots are enough, which lie in their leaf-hash files.

use std::any::Any;
use std::io::{self, ErrorKind, Read};

use base::Digest;

use super::{LogError, LogSettings};
use crate::disk::{Disk, DiskFile};
use crate::entry::{self, Entry, NO_ENTRY, Next, SEGMENT_ENTRIES, SEGMENT_LEVEL};
use crate::note::{self, Checkpoint, Signer, Verifier};
use crate::tree::{self, Edge};

/// The signing key's seed as 64 hex digits.
pub(crate) const KEY: &str = "key";
/// The verifier key line.
pub(crate) const KEY_PUB: &str = "key.pub";
/// Every checkpoint that was signed, one after another.
pub(crate) const CHECKPOINTS: &str = "checkpoints";
/// How much of the checkpoints' end is read to find the newest.
const CHECKPOINT_TAIL_BYTES: u64 = 64 << 10;

/// A log that is ready to be written.
pub(super) struct Opened {
    pub(super) signer: Signer,
    pub(super) edge: Edge,
    /// The leaf hash of the last entry.
    pub(super) prev: Digest,
    /// The segment that grows, its file and length, and the leaf hashes of its entries.
    pub(super) segment: u64,
    pub(super) file: Box<dyn DiskFile>,
    pub(super) file_len: u64,
    pub(super) leaves: Vec<Digest>,
    pub(super) checkpoints: Box<dyn DiskFile>,
    pub(super) checkpoints_len: u64,
    /// Entries that the newest checkpoint covers.
    pub(super) signed: u64,
    /// Bytes of all files.
    pub(super) bytes: u64,
    /// Held for as long as the log is open.
    _lock: Box<dyn Any + Send + Sync>,
}

pub(super) fn open(disk: &dyn Disk, settings: &LogSettings) -> Result<Opened, LogError> {
    if !note::is_key_name(&settings.origin) {
        return Err(LogError::Origin(settings.origin.clone()));
    }
    let lock = disk.lock().map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => LogError::Locked,
        _ => LogError::Io("the log's directory cannot be locked", error),
    })?;
    let files = disk
        .list()
        .map_err(|error| LogError::Io("the log's directory", error))?;
    let segments = entry::segments(&files);
    let begun = !segments.is_empty() || files.iter().any(|(name, _)| name == CHECKPOINTS);
    let signer = signer(disk, &settings.origin, begun)?;
    let (checkpoints, checkpoints_len, newest) = checkpoints(disk, &signer)?;
    let (mut edge, mut prev) = finished_segments(disk, &segments)?;
    let segment = segments.last().copied().unwrap_or(0);
    let tail = Tail::read(disk, segment, &mut edge, &mut prev, newest.as_ref())?;
    let opening = |error| LogError::Io("the log's last segment", error);
    let mut file = disk
        .append(&entry::segment_name(segment))
        .map_err(opening)?;
    let found = file.length().map_err(opening)?;
    if found > tail.len {
        tracing::warn!(
            bytes = found - tail.len,
            "cut an entry that a crash left unfinished"
        );
        file.truncate(tail.len).map_err(opening)?;
    }
    file.sync().map_err(opening)?;
    Ok(Opened {
        signer,
        edge,
        prev,
        segment,
        file,
        file_len: tail.len,
        leaves: tail.leaves,
        checkpoints,
        checkpoints_len,
        signed: newest.map_or(0, |checkpoint| checkpoint.size),
        bytes: files.iter().map(|(_, len)| len).sum(),
        _lock: lock,
    })
}

/// Reads the key, or makes it where the log has not begun.
fn signer(disk: &dyn Disk, origin: &str, begun: bool) -> Result<Signer, LogError> {
    let reading = |error| LogError::Io("the log's key", error);
    let seed = match read_text(disk, KEY) {
        Ok(text) => {
            Digest::from_hex(text.trim_end())
                .ok_or(LogError::Key("is not 64 hex digits"))?
                .0
        }
        Err(error) if error.kind() == ErrorKind::NotFound && !begun => {
            let seed = Signer::fresh_seed();
            let text = format!("{}\n", Digest(seed));
            disk.write(KEY, text.as_bytes(), true).map_err(reading)?;
            seed
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(LogError::Key("is missing, though the log has begun"));
        }
        Err(error) => return Err(reading(error)),
    };
    let signer = Signer::new(origin, &seed).ok_or_else(|| LogError::Origin(origin.to_owned()))?;
    let vkey = signer.vkey();
    match read_text(disk, KEY_PUB) {
        Ok(text) if text.trim_end() == vkey => Ok(signer),
        Ok(text) => Err(LogError::OtherOrigin(text.trim_end().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            disk.write(KEY_PUB, format!("{vkey}\n").as_bytes(), false)
                .map_err(reading)?;
            Ok(signer)
        }
        Err(error) => Err(reading(error)),
    }
}

pub(crate) fn read_text(disk: &dyn Disk, name: &str) -> io::Result<String> {
    let mut text = String::new();
    disk.read(name, 0)?
        .take(CHECKPOINT_TAIL_BYTES)
        .read_to_string(&mut text)?;
    Ok(text)
}

type Checkpoints = (Box<dyn DiskFile>, u64, Option<Checkpoint>);

/// Opens the checkpoints, cuts one that a crash left unfinished, and checks the newest.
fn checkpoints(disk: &dyn Disk, signer: &Signer) -> Result<Checkpoints, LogError> {
    let reading = |error| LogError::Io("the log's checkpoints", error);
    let mut file = disk.append(CHECKPOINTS).map_err(reading)?;
    let len = file.length().map_err(reading)?;
    let mut tail = Vec::new();
    let start = len.saturating_sub(CHECKPOINT_TAIL_BYTES);
    disk.read(CHECKPOINTS, start)
        .map_err(reading)?
        .read_to_end(&mut tail)
        .map_err(reading)?;
    // A note ends in a newline, so what stands after the last one is torn; before it is text.
    let lines = tail
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    let first = tail[..lines]
        .iter()
        .position(|byte| byte & 0xc0 != 0x80)
        .unwrap_or(0);
    let damaged = LogError::Damaged {
        index: 0,
        what: "its checkpoints are not text",
    };
    let text = std::str::from_utf8(&tail[first..lines]).map_err(|_| damaged)?;
    let (notes, torn) = note::split_history(text);
    let whole = len - (tail.len() - lines + torn.len()) as u64;
    if whole < len {
        file.truncate(whole).map_err(reading)?;
    }
    let verifier = Verifier::parse(&signer.vkey()).map_err(LogError::Checkpoint)?;
    let newest = notes
        .last()
        .map(|note| verifier.checkpoint(note))
        .transpose();
    Ok((file, whole, newest.map_err(LogError::Checkpoint)?))
}

/// The tree over all segments but the last, and the leaf hash of its last entry.
fn finished_segments(disk: &dyn Disk, segments: &[u64]) -> Result<(Edge, Digest), LogError> {
    let mut edge = Edge::default();
    let mut prev = NO_ENTRY;
    for (expected, segment) in (0..).zip(segments) {
        let index = expected * SEGMENT_ENTRIES;
        if *segment != expected {
            return Err(LogError::Damaged {
                index,
                what: "a segment is missing",
            });
        }
        if expected + 1 == segments.len() as u64 {
            break;
        }
        let name = entry::leaves_name(*segment);
        let what = "the leaf hashes of its segment are missing or cut";
        let root = read_hash(disk, &name, 0).ok_or(LogError::Damaged { index, what })?;
        let last = read_hash(disk, &name, 32 * SEGMENT_ENTRIES);
        prev = last.ok_or(LogError::Damaged { index, what })?;
        edge.push_subtree(root, SEGMENT_LEVEL);
    }
    Ok((edge, prev))
}

fn read_hash(disk: &dyn Disk, name: &str, offset: u64) -> Option<Digest> {
    let mut hash = [0; 32];
    disk.read(name, offset).ok()?.read_exact(&mut hash).ok()?;
    Some(Digest(hash))
}

/// The last segment as far as it is whole.
struct Tail {
    len: u64,
    leaves: Vec<Digest>,
}

impl Tail {
    /// Reads the last segment, adds it to the tree, and holds the tree against the newest checkpoint.
    fn read(
        disk: &dyn Disk,
        segment: u64,
        edge: &mut Edge,
        prev: &mut Digest,
        newest: Option<&Checkpoint>,
    ) -> Result<Tail, LogError> {
        let reading = |error| LogError::Io("the log's last segment", error);
        let mut tail = Tail {
            len: 0,
            leaves: Vec::new(),
        };
        let mut reader = match disk.read(&entry::segment_name(segment), 0) {
            Ok(reader) => reader,
            Err(error) if error.kind() == ErrorKind::NotFound => Box::new(io::empty()),
            Err(error) => return Err(reading(error)),
        };
        let mut buffer = Vec::new();
        loop {
            let index = edge.size();
            if newest.is_some_and(|newest| newest.size == index && newest.root != edge.root()) {
                return Err(LogError::Damaged {
                    index,
                    what: "a checkpoint signed something else",
                });
            }
            match entry::read_next(&mut reader, &mut buffer).map_err(reading)? {
                Next::Entry => tail.add(&buffer, edge, prev)?,
                Next::End | Next::Torn => break,
                Next::Empty => {
                    return Err(LogError::Damaged {
                        index,
                        what: "it is empty",
                    });
                }
            }
        }
        let index = edge.size();
        match newest {
            Some(newest) if newest.size > index => Err(LogError::Damaged {
                index,
                what: "entries that a checkpoint covers are missing",
            }),
            _ => Ok(tail),
        }
    }

    fn add(&mut self, bytes: &[u8], edge: &mut Edge, prev: &mut Digest) -> Result<(), LogError> {
        let index = edge.size();
        let damaged = |what| Err(LogError::Damaged { index, what });
        match Entry::parse(bytes) {
            None => return damaged("it is not an entry"),
            Some(entry) if entry.seq != index => return damaged("it has another number"),
            Some(entry) if entry.prev != *prev => {
                return damaged("it does not follow the one before");
            }
            Some(_) if self.leaves.len() as u64 == SEGMENT_ENTRIES => {
                return damaged("its segment has too many entries");
            }
            Some(_) => {}
        }
        *prev = tree::leaf_hash(bytes);
        edge.push(*prev);
        self.leaves.push(*prev);
        self.len += 2 + bytes.len() as u64;
        Ok(())
    }
}
