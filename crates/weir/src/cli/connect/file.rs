//! A client's configuration on disk: read with care, written whole or not at all, and undone to the very bytes.
//!
//! Beside the file stand a backup of it as it was before, and a note of what was written: names, and the digests that tell whether
//! anything else changed the file since.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Failure;

/// Largest configuration of a client that is edited.
const BYTES_MAX: usize = 4 << 20;
/// Largest note.
const NOTE_BYTES_MAX: usize = 64 << 10;
/// Who may open a file that is new, or that holds a key: its owner.
pub(super) const OWNER_ONLY: u32 = 0o600;

/// What a file held when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub text: String,
    pub mode: u32,
}

/// What was written to a file, so that it can be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Note {
    /// SHA-256 of the backup; nothing where there was no file.
    pub before: Option<String>,
    /// SHA-256 of what was written.
    pub after: String,
    /// The mode of the file before.
    pub mode: u32,
    /// The entries that are ours.
    pub entries: Vec<String>,
    /// Whether what holds them is ours too.
    pub root: bool,
    /// What else was written beside the servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<NoteSection>,
}

/// Entries below another name than that of the servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoteSection {
    /// The name; empty where the entries stand at the top.
    pub root: String,
    pub entries: Vec<String>,
    /// Whether what holds them is ours too.
    pub is_ours: bool,
}

pub(super) fn digest(text: &str) -> String {
    hex::encode(&Sha256::digest(text.as_bytes()))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Where the file stands as it was before.
pub(super) fn backup(path: &Path) -> PathBuf {
    beside(path, ".weir-backup")
}

/// Where it stands what was written.
pub(super) fn note(path: &Path) -> PathBuf {
    beside(path, ".weir-note")
}

fn cannot(path: &Path, what: &str, help: &str) -> Failure {
    let text = format!("{} {what}; nothing was changed", path.display());
    Failure::new(text, help)
}

/// What the file holds; nothing where there is none.
pub(super) fn read(path: &Path) -> Result<Option<Held>, Failure> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot(path, &format!("cannot be read: {error}"), "")),
    };
    if metadata.is_symlink() {
        let help = "Name the file that it points to with --file.";
        return Err(cannot(path, "is a symbolic link", help));
    }
    if !metadata.is_file() {
        return Err(cannot(path, "is no file", "Name another with --file."));
    }
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o200 == 0 {
        let help = "Make it writable for its owner first, if it is to be changed.";
        return Err(cannot(path, "is read-only", help));
    }
    let text = read_text(path, BYTES_MAX)?;
    Ok(Some(Held { text, mode }))
}

fn read_text(path: &Path, bytes_max: usize) -> Result<String, Failure> {
    let failed = |error: std::io::Error| cannot(path, &format!("cannot be read: {error}"), "");
    let mut bytes = Vec::new();
    let file = fs::File::open(path).map_err(failed)?;
    let mut file = file.take(bytes_max as u64 + 1);
    file.read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > bytes_max {
        let what = format!("has more than {bytes_max} bytes");
        return Err(cannot(path, &what, "Name another file with --file."));
    }
    let not_text = |_| cannot(path, "is not UTF-8", "Save it as UTF-8 first.");
    String::from_utf8(bytes).map_err(not_text)
}

/// What was written to the file before, if anything was.
pub(super) fn read_note(path: &Path) -> Result<Option<Note>, Failure> {
    let path = note(path);
    if fs::symlink_metadata(&path).is_err() {
        return Ok(None);
    }
    let text = read_text(&path, NOTE_BYTES_MAX)?;
    let help = "Take it away, and the entries that begin with weir by hand.";
    let read = serde_json::from_str(&text);
    read.map(Some)
        .map_err(|error| cannot(&path, &format!("is no note of weir: {error}"), help))
}

/// What the file held before, by its backup.
pub(super) fn read_backup(path: &Path, note: &Note) -> Option<String> {
    let text = read_text(&backup(path), BYTES_MAX).ok()?;
    (note.before.as_deref() == Some(&digest(&text))).then_some(text)
}

/// Writes the file with its backup and note beside it. `before` is what it held when it was read.
pub(super) fn write(
    path: &Path,
    found: Option<&Held>,
    before: Option<&str>,
    text: &str,
    mode: u32,
    told: &Note,
) -> Result<(), Failure> {
    is_still(path, found)?;
    // Whoever may read the one file may read the others, and nobody else.
    match before {
        Some(before) => replace(&backup(path), before, mode & told.mode)?,
        None => take_away(&backup(path))?,
    }
    let told = serde_json::to_string(told).expect("a note can be written as JSON");
    replace(&note(path), &told, mode)?;
    replace_found(path, found, text, mode)
}

/// Writes the file as it was, or takes it away, and all that stands beside it.
pub(super) fn restore(
    path: &Path,
    found: Option<&Held>,
    text: Option<&str>,
    mode: u32,
) -> Result<(), Failure> {
    match text {
        Some(text) => replace_found(path, found, text, mode)?,
        None => take_away(path)?,
    }
    take_away(&backup(path))?;
    take_away(&note(path))
}

/// Replaces the file, if it still is what was read.
fn replace_found(path: &Path, found: Option<&Held>, text: &str, mode: u32) -> Result<(), Failure> {
    is_still(path, found)?;
    replace(path, text, mode)
}

/// The program that owns the file may have written meanwhile.
fn is_still(path: &Path, found: Option<&Held>) -> Result<(), Failure> {
    if read(path)?.as_ref() == found {
        return Ok(());
    }
    let help = "Close the program that writes it, and try again.";
    Err(cannot(path, "was changed meanwhile", help))
}

/// Writes a file whole or not at all: beside it, then in its place.
fn replace(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let new = beside(path, &format!(".weir-{}", std::process::id()));
    let written = write_beside(&new, path, text, mode).and_then(|()| fs::rename(&new, path));
    written.map_err(|error| {
        // What is left of it is of no use.
        let _ = fs::remove_file(&new);
        cannot(path, &format!("cannot be written: {error}"), "")
    })
}

fn write_beside(new: &Path, old: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(OWNER_ONLY)
        .open(new)?;
    file.write_all(text.as_bytes())?;
    if let Ok(owner) = fs::symlink_metadata(old)
        && let Ok(ours) = file.metadata()
        && (owner.uid(), owner.gid()) != (ours.uid(), ours.gid())
    {
        std::os::unix::fs::fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
    }
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

fn take_away(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(cannot(path, &format!("cannot be taken away: {error}"), ""))
        }
        _ => Ok(()),
    }
}
