//! The file of vectors: a head, and records of one length that are only appended.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::code::api::ChunkKey;
use crate::code::embed::DIMENSIONS_MAX;

/// What a file begins with: its form, and its version.
const MAGIC: &[u8; 8] = b"weirvec1";
/// Magic, dimensions.
pub(super) const HEAD_BYTES: u64 = 12;
/// Key, scale and check of a record, beside its numbers.
pub(super) const RECORD_BYTES: usize = 16 + 4 + 4;

/// Appends a record.
pub(super) fn record(bytes: &mut Vec<u8>, key: &ChunkKey, scale: f32, numbers: &[i8]) {
    let start = bytes.len();
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(&scale.to_le_bytes());
    bytes.extend(numbers.iter().map(|number| number.to_le_bytes()[0]));
    let check = check(&bytes[start..]);
    bytes.extend_from_slice(&check.to_le_bytes());
}

/// FNV-1a, against halves of records; no adversary writes this file.
fn check(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, step)
}

/// The dimensions that a file says; none where it is of another form.
pub(super) fn head(reader: &mut impl Read) -> io::Result<Option<usize>> {
    let mut head = [0; HEAD_BYTES as usize];
    if !filled(reader, &mut head)? || head[..8] != *MAGIC {
        return Ok(None);
    }
    let dimensions = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
    Ok((1..=DIMENSIONS_MAX)
        .contains(&dimensions)
        .then_some(dimensions))
}

/// Whether the whole buffer was read.
pub(super) fn filled(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// A record, if it is whole.
pub(super) fn parsed(record: &[u8]) -> Option<(ChunkKey, f32, &[u8])> {
    let (body, told) = record.split_last_chunk::<4>()?;
    let (key, rest) = body.split_first_chunk::<16>()?;
    let (scale, numbers) = rest.split_first_chunk::<4>()?;
    let scale = f32::from_le_bytes(*scale);
    let is_whole = u32::from_le_bytes(*told) == check(body) && scale.is_finite() && scale > 0.0;
    is_whole.then_some((*key, scale, numbers))
}

/// A new file; those of other embedders, which nobody asks for any more, are removed.
pub(super) fn begun(path: &Path, dimensions: usize) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        let others = std::fs::read_dir(dir)?
            .filter_map(Result::ok)
            .map(|entry| entry.path());
        let of_ours = |other: &PathBuf| {
            other
                .extension()
                .is_some_and(|end| end == "vectors" || end == "graph")
        };
        for other in others.filter(of_ours) {
            std::fs::remove_file(other)?;
        }
    }
    empty(path, dimensions)
}

/// A file without records.
pub(super) fn empty(path: &Path, dimensions: usize) -> io::Result<File> {
    let mut file = File::options()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(path)?;
    file.write_all(MAGIC)?;
    let dimensions = u32::try_from(dimensions).map_err(io::Error::other)?;
    file.write_all(&dimensions.to_le_bytes())?;
    Ok(file)
}
