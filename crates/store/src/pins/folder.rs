//! The files of the pins: one for each server, written whole or not at all, by the gateway and by the
//! command line.
//!
//! Whoever writes holds a lock and reads first, so that an approval is not lost. A file that is damaged is
//! an error, never an empty book: that would trust whatever comes next.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base::Name;
use base::limit::PINS_FILE_BYTES_MAX;

use super::book::Book;
use crate::disk::{Disk, FileDisk};
use crate::plain::open_plain;

/// The folder of the pins, in the state folder.
pub(crate) const FOLDER: &str = "pins";

/// The folder of all books.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: PathBuf,
}

/// Why a book could not be read or written.
#[derive(Debug)]
pub enum PinsError {
    Io(PathBuf, io::Error),
    Damaged(PathBuf, String),
}

impl fmt::Display for PinsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PinsError::Io(path, error) => write!(f, "the pins in {}: {error}", path.display()),
            PinsError::Damaged(path, what) => write!(
                f,
                "the pins in {} cannot be used: {what}; put a good copy back, or move the file away, \
                 and the server's tools are trusted as they are seen next",
                path.display()
            ),
        }
    }
}

impl std::error::Error for PinsError {}

/// Tells one content of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    length: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl Folder {
    /// A folder that may not exist yet.
    pub fn new(dir: &Path) -> Folder {
        Folder {
            dir: dir.to_owned(),
        }
    }

    /// The folder of the pins in a state folder.
    pub fn of_state(state: &Path) -> Folder {
        Folder::new(&state.join(FOLDER))
    }

    fn path(&self, server: &Name) -> PathBuf {
        self.dir.join(file(server))
    }

    /// The servers that have a file, in the order of their names.
    pub fn servers(&self) -> Result<Vec<Name>, PinsError> {
        let files = FileDisk::new(&self.dir).list();
        let files = files.map_err(|error| PinsError::Io(self.dir.clone(), error))?;
        let mut names: Vec<Name> = files
            .iter()
            .filter_map(|(file, _)| Name::new(file.strip_suffix(".json")?))
            .collect();
        names.sort();
        Ok(names)
    }

    /// A server's book; empty where it has no file.
    pub fn read(&self, server: &Name) -> Result<Book, PinsError> {
        let path = self.path(server);
        let mut bytes = Vec::new();
        let limit = PINS_FILE_BYTES_MAX as u64 + 1;
        let read = match open_plain(&path) {
            Ok(file) => file.take(limit).read_to_end(&mut bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Book::default()),
            Err(error) => Err(error),
        };
        read.map_err(|error| PinsError::Io(path.clone(), error))?;
        if bytes.len() > PINS_FILE_BYTES_MAX {
            let what = format!("it is larger than {PINS_FILE_BYTES_MAX} bytes");
            return Err(PinsError::Damaged(path, what));
        }
        Book::from_json(server.as_str(), &bytes).map_err(|what| PinsError::Damaged(path, what))
    }

    /// Changes a server's book, with no other process in between. Nothing is written where `change` says
    /// that nothing changed.
    pub fn change<T>(
        &self,
        server: &Name,
        change: impl FnOnce(&mut Book) -> (bool, T),
    ) -> Result<T, PinsError> {
        let _lock = self.lock()?;
        let mut book = self.read(server)?;
        let (changed, answer) = change(&mut book);
        if changed {
            self.write(server, &book.to_json(server.as_str()))?;
        }
        Ok(answer)
    }

    /// Waits until no other process writes.
    pub(super) fn lock(&self) -> Result<impl Sized, PinsError> {
        let path = self.dir.join("lock");
        let failed = |error| PinsError::Io(path.clone(), error);
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(failed)?;
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
            .map_err(|error| failed(error.into()))?;
        Ok(file)
    }

    /// Writes a file that only its owner can read. The caller holds the lock.
    pub(super) fn write(&self, server: &Name, json: &[u8]) -> Result<(), PinsError> {
        FileDisk::new(&self.dir)
            .write(&file(server), json, true)
            .map_err(|error| PinsError::Io(self.path(server), error))
    }

    /// What the file is now; nothing where there is none.
    pub(super) fn stamp(&self, server: &Name) -> Option<Stamp> {
        let of = std::fs::metadata(self.path(server)).ok()?;
        Some(Stamp {
            inode: of.ino(),
            length: of.len(),
            seconds: of.mtime(),
            nanoseconds: of.mtime_nsec(),
        })
    }
}

fn file(server: &Name) -> String {
    format!("{server}.json")
}
