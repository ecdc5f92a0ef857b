//! The files of a tree as they were last seen, on disk: a digest, then all of it in one piece.
//!
//! What cannot be read is as if it were not there.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::registry::replace;
use crate::code::api::{Error, Result};
use crate::code::index::{About, Blob, Entry, UnitId, View};
use crate::code::place::Stamp;

/// The version of the file.
const VERSION: u32 = 1;
/// Most bytes of a manifest that are read.
const BYTES_MAX: u64 = 1 << 30;

/// What was kept.
pub(super) struct Kept {
    /// When the files were looked at.
    pub as_of: SystemTime,
    /// Whether all files of the tree are among them.
    pub walked: bool,
    /// The files, by path.
    pub entries: Vec<Arc<Entry>>,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept {
            as_of: UNIX_EPOCH,
            walked: false,
            entries: Vec::new(),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Whole {
    version: u32,
    as_of_ms: u64,
    walked: bool,
    files: Vec<File>,
}

#[derive(Serialize, Deserialize)]
struct File {
    path: Box<str>,
    stamp: Stamp,
    racy: bool,
    blob: [u8; 32],
    unit: u64,
    about: About,
}

/// Reads a manifest.
pub(super) fn read(path: &Path) -> Option<Kept> {
    let size = std::fs::metadata(path).ok()?.len();
    let bytes = (size <= BYTES_MAX).then(|| std::fs::read(path).ok())??;
    let (digest, rest) = bytes.split_at_checked(32)?;
    if Sha256::digest(rest).as_slice() != digest {
        return None;
    }
    let whole: Whole = postcard::from_bytes(rest).ok()?;
    if whole.version != VERSION {
        return None;
    }
    let entry = |file: File| {
        let (blob, unit) = (Blob(file.blob), UnitId(file.unit));
        // Of another version of the parser or the index, its documents are others.
        let is_now = !file.about.depth.is_indexed() || unit == UnitId::of(&file.path, &blob);
        let entry = Entry::new(file.path, file.stamp, file.racy, blob, file.about);
        Arc::new(if is_now { entry } else { entry.pending() })
    };
    Some(Kept {
        as_of: UNIX_EPOCH + Duration::from_millis(whole.as_of_ms),
        walked: whole.walked,
        entries: whole.files.into_iter().map(entry).collect(),
    })
}

/// Writes a manifest.
pub(super) fn write(path: &Path, view: &View) -> Result<()> {
    let file = |entry: &Arc<Entry>| File {
        path: entry.path.clone(),
        stamp: entry.stamp,
        racy: entry.racy,
        blob: entry.blob.0,
        unit: entry.unit.0,
        about: entry.about.clone(),
    };
    let as_of = view.as_of.duration_since(UNIX_EPOCH).unwrap_or_default();
    let whole = Whole {
        version: VERSION,
        as_of_ms: u64::try_from(as_of.as_millis()).unwrap_or(0),
        walked: view.walked,
        files: view.entries.iter().map(file).collect(),
    };
    let rest = postcard::to_allocvec(&whole).map_err(|error| Error::Store(error.to_string()))?;
    let mut bytes = Sha256::digest(&rest).to_vec();
    bytes.extend(rest);
    replace(path, &bytes)
}
