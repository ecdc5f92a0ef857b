//! Writing a log as a C2SP `tlog-tiles` directory, which other tools can read and serve.
//!
//! It exports what the newest checkpoint covers, and nothing if the entries do not give its root.

use std::fmt;
use std::io;
use std::path::Path;

use super::source::Source;
use super::stored::{Tiles, tile_bytes};
use super::{CHECKPOINT, Damage, Kind, verifier};
use crate::disk::{Disk, FileDisk};
use crate::entry::{self, TILE_WIDTH};
use crate::log::{CHECKPOINTS, KEY_PUB};
use crate::note::{self, Checkpoint};
use crate::tree::{self, Edge};

/// What was exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Entries in the export.
    pub entries: u64,
    /// The checkpoint that covers them.
    pub checkpoint: Checkpoint,
}

/// Why a log was not exported.
#[derive(Debug)]
pub enum ExportError {
    /// The log does not fit its newest checkpoint; [`super::verify`] says where.
    Damage(Damage),
    /// The log has no checkpoint yet.
    Unsigned,
    /// There is something in the directory already.
    NotEmpty,
    /// The export cannot be written.
    Io(io::Error),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportError::Damage(damage) => write!(f, "the log is damaged: {damage}"),
            ExportError::Unsigned => f.write_str("the log has no checkpoint yet"),
            ExportError::NotEmpty => f.write_str("the directory for the export is not empty"),
            ExportError::Io(error) => write!(f, "the export cannot be written: {error}"),
        }
    }
}

impl std::error::Error for ExportError {}

impl From<Damage> for ExportError {
    fn from(damage: Damage) -> ExportError {
        ExportError::Damage(damage)
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> ExportError {
        ExportError::Io(error)
    }
}

/// Writes the log in `dir` to `out`, an empty or new directory: `checkpoint`, `tile/…`, `tile/entries/…`,
/// and beside them `checkpoints` (all that were signed) and `key.pub`. The checkpoint comes last, so a
/// directory without one is not an export.
///
/// # Errors
/// See [`ExportError`].
pub fn export(dir: &Path, out: &Path) -> Result<Exported, ExportError> {
    let disk = FileDisk::new(dir);
    if !FileDisk::new(out).list()?.is_empty() {
        return Err(ExportError::NotEmpty);
    }
    let verifier = verifier(&disk, None)?;
    let history = read(&disk, CHECKPOINTS)?;
    let (notes, _) = note::split_history(&history);
    let newest = *notes.last().ok_or(ExportError::Unsigned)?;
    let checkpoint = verifier
        .checkpoint(newest)
        .map_err(|error| Damage::new(0, Kind::BadCheckpoint, error.to_string()))?;
    let source = Source::open(&disk)?;
    write_tiles(&source, &checkpoint, out)?;
    put(out, KEY_PUB, read(&disk, KEY_PUB)?.as_bytes())?;
    put(out, CHECKPOINTS, notes.concat().as_bytes())?;
    put(out, CHECKPOINT, newest.as_bytes())?;
    Ok(Exported {
        entries: checkpoint.size,
        checkpoint,
    })
}

fn read(disk: &dyn Disk, name: &str) -> Result<String, Damage> {
    let mut bytes = Vec::new();
    let read = disk
        .read(name, 0)
        .and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(|error| Damage::unreadable(0, name, &error))?;
    let lines = bytes
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    bytes.truncate(lines);
    String::from_utf8(bytes).map_err(|_| Damage::new(0, Kind::Unreadable, "it is not text"))
}

fn put(out: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let path = out.join(name);
    std::fs::create_dir_all(path.parent().unwrap_or(out))?;
    std::fs::write(path, bytes)
}

/// Writes the bundles and tiles of as many entries as the checkpoint covers.
fn write_tiles(
    source: &Source<'_>,
    checkpoint: &Checkpoint,
    out: &Path,
) -> Result<(), ExportError> {
    let mut read = source.read_from(0).0;
    let mut edge = Edge::default();
    let mut tiles = Tiles::default();
    let mut bundle = Vec::new();
    let mut written = Ok(());
    let mut tile_out = |level: usize, index, hashes: &[_]| {
        let name = entry::tile_name(&level.to_string(), index, hashes.len() as u64);
        if written.is_ok() {
            written = put(out, &name, &tile_bytes(hashes));
        }
    };
    while edge.size() < checkpoint.size {
        let index = edge.size();
        let missing = || Damage::new(index, Kind::CutOff, "a checkpoint covers more entries");
        let bytes = read.next(source.disk, index)?.ok_or_else(missing)?;
        let len = u16::try_from(bytes.len()).expect("an entry's length was read from two bytes");
        bundle.extend_from_slice(&len.to_be_bytes());
        bundle.extend_from_slice(bytes);
        let leaf = tree::leaf_hash(bytes);
        edge.push(leaf);
        tiles.push(leaf, &mut tile_out);
        if edge.size() % TILE_WIDTH == 0 || edge.size() == checkpoint.size {
            let width = index % TILE_WIDTH + 1;
            put(
                out,
                &entry::tile_name("entries", index / TILE_WIDTH, width),
                &bundle,
            )?;
            bundle.clear();
        }
    }
    tiles.finish(&mut tile_out);
    written?;
    if edge.root() != checkpoint.root {
        let what = "the newest checkpoint signed others; verify says where";
        return Err(Damage::new(0, Kind::Forked, what).into());
    }
    Ok(())
}
