//! Opening a log: finding where it ends, and refusing to go on from anything that a crash does not explain.
//!
//! Only the last segment is read. Of the others the roots are enough, which lie in their leaf-hash files; unless the
//! last does not begin with what is still open of those before it, as logs of older versions do not.

use std::io::{self, ErrorKind, Read};

use base::Digest;

use super::ledger::Ledger;
use super::witness::Witness;
use super::{Found, LogError, LogSettings, Newest};
use crate::audit;
use crate::disk::{Disk, DiskFile, Held};
use crate::entry::{self, End, Entry, NO_ENTRY, Next, SEGMENT_ENTRIES, SEGMENT_LEVEL};
use crate::note::{self, Checkpoint, Signer, Verifier};
use crate::tree::{self, Edge};
use crate::unsigned::{self, Unsigned};

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
    /// Entries that the newest checkpoint covers, and those after it.
    pub(super) signed: u64,
    pub(super) unsigned: Unsigned,
    /// The open calls, and the snapshots that stand in the log.
    pub(super) ledger: Ledger,
    /// The segment does not say yet what is open of those before it.
    pub(super) unbased: bool,
    pub(super) witness: Option<Witness>,
    /// What an operator has to accept before anything more is signed.
    pub(super) found: Option<Found>,
    /// Bytes of all files.
    pub(super) bytes: u64,
    /// The folder, held for as long as the log is open.
    pub(super) folder: Box<dyn Held>,
}

/// What is done about an end of the log that no crash explains.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    Refuse,
    /// It is found and told, for an operator who has said why.
    Accept,
}

pub(super) fn open(
    disk: &dyn Disk,
    settings: &LogSettings,
    witness: Option<Witness>,
    doubt: Doubt,
) -> Result<Opened, LogError> {
    open_whole(disk, settings, witness, doubt).map_err(|error| match error {
        // An entry that was changed shows at the next one, which does not follow it any more; the audit tells it.
        LogError::Damaged { index, what } => match audit::verify_disk(disk, None) {
            Err(damage) if damage.index + 1 == index => LogError::Damaged {
                index: damage.index,
                what: damage.kind.as_str(),
            },
            _ => LogError::Damaged { index, what },
        },
        error => error,
    })
}

fn open_whole(
    disk: &dyn Disk,
    settings: &LogSettings,
    witness: Option<Witness>,
    doubt: Doubt,
) -> Result<Opened, LogError> {
    if !note::is_key_name(&settings.origin) {
        return Err(LogError::Origin(settings.origin.clone()));
    }
    let folder = disk.lock().map_err(|error| match error.kind() {
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
    let (base, last) = finished_segments(disk, &segments)?;
    let segment = segments.last().copied().unwrap_or(0);
    let signed = newest.as_ref().map_or(0, |newest| newest.checkpoint.size);
    let tail = Tail::read(disk, segment, (base, last), signed)?;
    let mut witness = witness;
    let found = hold_against(disk, &signer, &tail, newest.as_ref(), &mut witness, doubt)?;
    let unbased = segment > 0 && !tail.ledger.is_based();
    let ledger = read_back(disk, segment, tail.ledger)?;
    // Nothing but a torn checkpoint has been changed until here: a log that is refused stays as it is.
    let mut opened = Opened {
        file: open_segment(disk, segment, tail.len)?,
        signer,
        edge: tail.edge,
        prev: tail.prev,
        segment,
        file_len: tail.len,
        leaves: tail.leaves,
        checkpoints,
        checkpoints_len,
        signed,
        unsigned: tail.unsigned,
        ledger,
        unbased,
        witness,
        found,
        bytes: files.iter().map(|(_, len)| len).sum(),
        folder,
    };
    if opened.found.is_none() {
        opened.begin(newest)?;
    }
    Ok(opened)
}

/// Holds the entries against the newest checkpoint, the bound of what may be unsigned, and the witness.
fn hold_against(
    disk: &dyn Disk,
    signer: &Signer,
    tail: &Tail,
    newest: Option<&Newest>,
    witness: &mut Option<Witness>,
    doubt: Doubt,
) -> Result<Option<Found>, LogError> {
    let size = tail.edge.size();
    let root_at = |at: u64| root_at(disk, &tail.leaves, size, at);
    if let Some(Newest { checkpoint, .. }) = newest {
        let damaged = |index, what| Err(LogError::Damaged { index, what });
        if checkpoint.size > size {
            return damaged(size, "entries that a checkpoint covers are missing");
        }
        if root_at(checkpoint.size)? != checkpoint.root {
            return damaged(checkpoint.size, "a checkpoint signed something else");
        }
    }
    let unsigned = tail.unsigned.entries();
    let ever_signed = newest.is_some();
    let mut what: Vec<String> = Vec::new();
    if tail.unsigned.is_over() || (size > 0 && !ever_signed) {
        if doubt == Doubt::Refuse {
            return Err(LogError::Unsigned {
                entries: unsigned,
                ever_signed,
            });
        }
        what.push(unsigned::told(unsigned, ever_signed));
    }
    if let Some(witness) = witness {
        let verifier = Verifier::parse(&signer.vkey()).map_err(LogError::Checkpoint)?;
        match witness.differs(size, newest, &verifier, root_at)? {
            Some(differs) if doubt == Doubt::Refuse => return Err(LogError::Witness(differs)),
            differs => what.extend(differs),
        }
    }
    Ok((!what.is_empty()).then(|| Found {
        entries: size,
        unsigned,
        what: what.join("; "),
    }))
}

/// Opens the last segment for appending, and cuts what a crash left behind `len`.
fn open_segment(disk: &dyn Disk, segment: u64, len: u64) -> Result<Box<dyn DiskFile>, LogError> {
    let opening = |error| LogError::Io("the log's last segment", error);
    let name = entry::segment_name(segment);
    let mut file = disk.append(&name).map_err(opening)?;
    let found = file.length().map_err(opening)?;
    if found > len {
        let bytes = found - len;
        tracing::warn!(bytes, "cut an entry that a crash left unfinished");
        file.truncate(len).map_err(opening)?;
    }
    file.sync().map_err(opening)?;
    Ok(file)
}

impl Opened {
    /// Signs a log that begins, and sees to it that the witness knows the newest checkpoint.
    fn begin(&mut self, newest: Option<Newest>) -> Result<(), LogError> {
        let writing = |error| LogError::Io("the log's checkpoints", error);
        let note = match newest {
            Some(newest) => newest.note,
            None => {
                let (size, root) = (self.edge.size(), self.edge.root());
                let note = self.signer.checkpoint(&Checkpoint { size, root });
                let written = self.checkpoints.write_at(note.as_bytes(), 0);
                written
                    .and_then(|()| self.checkpoints.sync())
                    .map_err(writing)?;
                self.checkpoints_len = note.len() as u64;
                self.bytes += self.checkpoints_len;
                note
            }
        };
        let witnessed = self.witness.as_mut().map(|witness| witness.put(&note));
        witnessed
            .transpose()
            .map_err(|error| LogError::Io("the log's witness", error))?;
        let unsigned = self.unsigned.entries();
        if unsigned > 0 {
            tracing::info!(
                unsigned,
                "the log ended without being closed; signing its end"
            );
        }
        Ok(())
    }
}

/// The root over the first `at` entries of a log of `size`, by the leaf hashes: `leaves` are those of the last segment.
fn root_at(disk: &dyn Disk, leaves: &[Digest], size: u64, at: u64) -> Result<Digest, LogError> {
    let base = size - leaves.len() as u64;
    let segment = at.min(base) / SEGMENT_ENTRIES;
    let mut edge = Edge::default();
    for before in 0..segment {
        let root = read_hash(disk, &entry::leaves_name(before), 0);
        edge.push_subtree(root.ok_or_else(|| cut_leaves(before))?, SEGMENT_LEVEL);
    }
    if at >= base {
        let count = usize::try_from(at - base).unwrap_or(usize::MAX);
        leaves.iter().take(count).for_each(|leaf| edge.push(*leaf));
        return Ok(edge.root());
    }
    let stored = stored_leaves(disk, segment).ok_or_else(|| cut_leaves(segment))?;
    let count = usize::try_from(at - edge.size()).unwrap_or(usize::MAX);
    stored.iter().take(count).for_each(|leaf| edge.push(*leaf));
    Ok(edge.root())
}

fn cut_leaves(segment: u64) -> LogError {
    LogError::Damaged {
        index: segment * SEGMENT_ENTRIES,
        what: "the leaf hashes of its segment are missing or cut",
    }
}

/// The leaf hashes of a finished segment, once they give the root that is stored with them.
pub(crate) fn stored_leaves(disk: &dyn Disk, segment: u64) -> Option<Vec<Digest>> {
    let mut bytes = Vec::new();
    let most = 32 * (SEGMENT_ENTRIES + 1);
    let mut file = disk.read(&entry::leaves_name(segment), 0).ok()?;
    (&mut file).take(most + 1).read_to_end(&mut bytes).ok()?;
    let (hashes, rest) = bytes.as_chunks::<32>();
    let (root, leaves) = hashes.split_first()?;
    let leaves: Vec<Digest> = leaves.iter().map(|hash| Digest(*hash)).collect();
    let whole = rest.is_empty() && bytes.len() as u64 == most;
    (whole && tree::root_of(&leaves).0 == *root).then_some(leaves)
}

/// Reads the key, or makes it where the log has not begun.
pub(super) fn signer(disk: &dyn Disk, origin: &str, begun: bool) -> Result<Signer, LogError> {
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

pub(super) type Checkpoints = (Box<dyn DiskFile>, u64, Option<Newest>);

/// Opens the checkpoints, cuts one that a crash left unfinished, and checks the newest.
pub(super) fn checkpoints(disk: &dyn Disk, signer: &Signer) -> Result<Checkpoints, LogError> {
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
    let read = |note: &&str| {
        let checkpoint = verifier.checkpoint(note).map_err(LogError::Checkpoint)?;
        let note = (*note).to_owned();
        Ok(Newest { checkpoint, note })
    };
    Ok((file, whole, notes.last().map(read).transpose()?))
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
        let root = read_hash(disk, &name, 0).ok_or_else(|| cut_leaves(*segment))?;
        let last = read_hash(disk, &name, 32 * SEGMENT_ENTRIES);
        prev = last.ok_or_else(|| cut_leaves(*segment))?;
        edge.push_subtree(root, SEGMENT_LEVEL);
    }
    Ok((edge, prev))
}

fn read_hash(disk: &dyn Disk, name: &str, offset: u64) -> Option<Digest> {
    let mut hash = [0; 32];
    disk.read(name, offset).ok()?.read_exact(&mut hash).ok()?;
    Some(Digest(hash))
}

/// What the last segment's ledger does not say, from the segments before it.
fn read_back(disk: &dyn Disk, segment: u64, last: Ledger) -> Result<Ledger, LogError> {
    let mut ledger = last;
    for before in (0..segment).rev() {
        if ledger.is_based() {
            break;
        }
        if before + 1 == segment {
            tracing::info!(
                segments = segment,
                "the log's last segment does not say which calls were open; reading those before it"
            );
        }
        ledger = segment_ledger(disk, before)?.then(ledger);
    }
    Ok(ledger)
}

/// The ledger of one finished segment alone.
fn segment_ledger(disk: &dyn Disk, segment: u64) -> Result<Ledger, LogError> {
    let reading = |error| LogError::Io("one of the log's segments", error);
    let mut reader = disk
        .read(&entry::segment_name(segment), 0)
        .map_err(reading)?;
    let (mut ledger, mut buffer) = (Ledger::default(), Vec::new());
    let mut index = segment * SEGMENT_ENTRIES;
    loop {
        let next = entry::read_next(&mut reader, &mut buffer).map_err(reading)?;
        let entry = match next {
            Next::End if index == (segment + 1) * SEGMENT_ENTRIES => return Ok(ledger),
            Next::Entry => Entry::parse(&buffer),
            Next::End | Next::Torn | Next::Empty => None,
        };
        let Some(entry) = entry else {
            let what = "it is not an entry";
            return Err(LogError::Damaged { index, what });
        };
        ledger.read(entry.record);
        index += 1;
    }
}

/// The last segment as far as it is whole, and the tree with it.
struct Tail {
    len: u64,
    leaves: Vec<Digest>,
    edge: Edge,
    prev: Digest,
    unsigned: Unsigned,
    ledger: Ledger,
}

impl Tail {
    /// Reads the last segment behind the tree over those before it. Entries from `signed` on are counted.
    fn read(
        disk: &dyn Disk,
        segment: u64,
        (edge, prev): (Edge, Digest),
        signed: u64,
    ) -> Result<Tail, LogError> {
        let reading = |error| LogError::Io("the log's last segment", error);
        let mut tail = Tail {
            len: 0,
            leaves: Vec::new(),
            ledger: Ledger::default(),
            unsigned: Unsigned::of(edge.size().saturating_sub(signed)),
            edge,
            prev,
        };
        let mut reader = match disk.read(&entry::segment_name(segment), 0) {
            Ok(reader) => reader,
            Err(error) if error.kind() == ErrorKind::NotFound => Box::new(io::empty()),
            Err(error) => return Err(reading(error)),
        };
        let mut buffer = Vec::new();
        loop {
            let index = tail.edge.size();
            let damaged = |what| Err(LogError::Damaged { index, what });
            match entry::read_next(&mut reader, &mut buffer).map_err(reading)? {
                Next::Entry => tail.add(&buffer, signed)?,
                Next::End => return Ok(tail),
                Next::Torn => match entry::end(&buffer, &tail.prev, index) {
                    End::Unfinished => return Ok(tail),
                    End::Length => return damaged("its length was changed"),
                    End::Junk => return damaged("what stands there is no entry of this log"),
                },
                Next::Empty => return damaged("it is empty"),
            }
        }
    }

    fn add(&mut self, bytes: &[u8], signed: u64) -> Result<(), LogError> {
        let index = self.edge.size();
        let damaged = |what| Err(LogError::Damaged { index, what });
        let entry = match Entry::parse(bytes) {
            None => return damaged("it is not an entry"),
            Some(entry) if entry.seq != index => return damaged("it has another number"),
            Some(entry) if entry.prev != self.prev => {
                return damaged("it does not follow the one before");
            }
            Some(_) if self.leaves.len() as u64 == SEGMENT_ENTRIES => {
                return damaged("its segment has too many entries");
            }
            Some(entry) => entry,
        };
        if index >= signed {
            self.unsigned.push(entry.record);
        }
        self.ledger.read(entry.record);
        self.prev = tree::leaf_hash(bytes);
        self.edge.push(self.prev);
        self.leaves.push(self.prev);
        self.len += 2 + bytes.len() as u64;
        Ok(())
    }
}
