//! The directory that is changed while serving: agents, their credentials, invites, and what was taken back.
//!
//! It is one file of the state folder, written whole or not at all. Whoever changes it holds a lock and reads first, so that
//! processes which share a state folder do not undo each other's changes. Its epoch grows with each change. It keeps the hashes
//! of keys and invites, and never one itself. A file that is damaged, or that was there and is not, is an error, never an empty
//! directory: that would forget what was revoked. That it was there stands in the file that is locked.

mod book;
mod entries;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base::Refusal;
use base::refusal::DIRECTORY_FAILED;

use crate::disk::{Disk, FileDisk};
use crate::plain::open_plain;

pub use book::{NewInvite, Redeemed};
pub use entries::{
    AgentEntry, CredentialEntry, CredentialKind, DirectoryBook, EntryState, InviteEntry,
    RevokedEntry,
};

/// Largest file, in bytes.
pub const DIRECTORY_BYTES_MAX: usize = 64 << 20;
/// Most agents.
pub const AGENTS_MAX: usize = 10_000;
/// Most credentials of one agent.
pub const CREDENTIALS_MAX: usize = 32;
/// Most invites that are kept.
pub const INVITES_MAX: usize = 2_000;
/// Most tokens and certificates that are remembered as taken back.
pub const REVOKED_MAX: usize = 20_000;
/// Wrong uses of an invite after which it is locked.
pub const INVITE_TRIES_MAX: u32 = 5;

const FILE: &str = "directory.json";
const LOCK: &str = "directory.lock";
/// What stands in the locked file once a directory was kept.
const BEGUN: &[u8] = b"directory.json was begun, and belongs beside this file\n";

/// The directory of one state folder.
#[derive(Clone, Debug)]
pub struct DirectoryFile {
    dir: PathBuf,
}

/// Why the directory cannot be used.
#[derive(Debug)]
pub enum DirectoryError {
    Io(PathBuf, io::Error),
    Damaged(PathBuf, String),
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectoryError::Io(path, error) => {
                write!(f, "the directory {}: {error}", path.display())
            }
            DirectoryError::Damaged(path, what) => write!(
                f,
                "the directory {} cannot be used: {what}; put a good copy back",
                path.display()
            ),
        }
    }
}

impl std::error::Error for DirectoryError {}

impl DirectoryFile {
    /// That of a state folder, which exists.
    pub fn of_state(state: &Path) -> DirectoryFile {
        DirectoryFile {
            dir: state.to_owned(),
        }
    }

    /// What is kept now; an empty book where nothing was ever kept.
    ///
    /// # Errors
    /// The file cannot be read, or is no directory.
    pub fn read(&self) -> Result<DirectoryBook, DirectoryError> {
        let path = self.dir.join(FILE);
        let mut bytes = Vec::new();
        let limit = DIRECTORY_BYTES_MAX as u64 + 1;
        let read = match open_plain(&path) {
            Ok(file) => file.take(limit).read_to_end(&mut bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => return self.empty(path),
            Err(error) => Err(error),
        };
        read.map_err(|error| DirectoryError::Io(path.clone(), error))?;
        if bytes.len() > DIRECTORY_BYTES_MAX {
            let what = format!("it is larger than {DIRECTORY_BYTES_MAX} bytes");
            return Err(DirectoryError::Damaged(path, what));
        }
        serde_json::from_slice(&bytes)
            .map_err(|error| DirectoryError::Damaged(path, error.to_string()))
    }

    /// A directory in which nothing was ever kept.
    fn empty(&self, path: PathBuf) -> Result<DirectoryBook, DirectoryError> {
        let lock = self.dir.join(LOCK);
        match std::fs::metadata(&lock) {
            Ok(of) if of.len() > 0 => {
                let lock = lock.display();
                let what = format!(
                    "it was kept here, and is gone (whoever wants to begin without all who were enrolled and revoked removes {lock} too)"
                );
                Err(DirectoryError::Damaged(path, what))
            }
            Ok(_) => Ok(DirectoryBook::default()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(DirectoryBook::default()),
            Err(error) => Err(DirectoryError::Io(lock, error)),
        }
    }

    /// Changes the directory, with no other process in between, and gives it as it is then. Nothing is written where
    /// `change` refuses. The new epoch is above the file's and above `known_epoch`, which is in force: so the change comes
    /// into force also where an older copy of the file was put back.
    ///
    /// # Errors
    /// What `change` refuses, and `identity.directory_failed` where the file cannot be read or written.
    pub fn change<T>(
        &self,
        known_epoch: u64,
        change: impl FnOnce(&mut DirectoryBook) -> Result<T, Refusal>,
    ) -> Result<(DirectoryBook, T), Refusal> {
        let failed = |error: DirectoryError| {
            Refusal::new(DIRECTORY_FAILED, "the directory cannot be changed")
                .with_private(error.to_string())
        };
        let lock = self.lock().map_err(failed)?;
        let mut book = self.read().map_err(failed)?;
        let (before, epoch) = (book.clone(), book.epoch);
        let answer = change(&mut book)?;
        if book == before {
            return Ok((book, answer));
        }
        book.epoch = epoch.max(known_epoch).saturating_add(1);
        self.write(&book).map_err(failed)?;
        self.mark(&lock).map_err(failed)?;
        Ok((book, answer))
    }

    /// Writes a copy of a directory that is kept elsewhere, for commands that read the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep_copy(&self, book: &DirectoryBook) -> Result<(), DirectoryError> {
        let _lock = self.lock()?;
        self.write(book)
    }

    fn lock(&self) -> Result<File, DirectoryError> {
        let path = self.dir.join(LOCK);
        let failed = |error| DirectoryError::Io(path.clone(), error);
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(failed)?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|error| failed(error.into()))?;
        Ok(file)
    }

    /// Remembers that there is a directory, so that it is missed where it is not.
    fn mark(&self, lock: &File) -> Result<(), DirectoryError> {
        let failed = |error| DirectoryError::Io(self.dir.join(LOCK), error);
        if lock.metadata().map_err(failed)?.len() > 0 {
            return Ok(());
        }
        lock.write_all_at(BEGUN, 0).map_err(failed)?;
        lock.sync_all().map_err(failed)
    }

    fn write(&self, book: &DirectoryBook) -> Result<(), DirectoryError> {
        let path = self.dir.join(FILE);
        let json = serde_json::to_vec(book)
            .map_err(|error| DirectoryError::Damaged(path.clone(), error.to_string()))?;
        FileDisk::new(&self.dir)
            .write(FILE, &json, true)
            .map_err(|error| DirectoryError::Io(path, error))
    }

    /// What tells one content of the file from another without reading it; nothing where there is none.
    pub fn stamp(&self) -> Option<(u64, u64, i64, i64)> {
        use std::os::unix::fs::MetadataExt;
        let of = std::fs::metadata(self.dir.join(FILE)).ok()?;
        Some((of.ino(), of.len(), of.mtime(), of.mtime_nsec()))
    }
}

#[cfg(test)]
#[path = "directory/tests.rs"]
mod tests;
