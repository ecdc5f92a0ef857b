//! A state folder: the secret keys, the logs and the pins that one gateway keeps, or several that share it.
//!
//! It opens what is there and begins what is not. A key or a log that cannot be used is an error, and never replaced
//! by a new one.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::limit::LOGS_MAX;
use base::{Digest, Name, Secret};

use crate::disk::FileDisk;
use crate::log::{Log, LogError, LogSettings, Witness};
use crate::pins::{Pins, PinsError};

/// A folder that only this user can look into.
pub struct State {
    dir: PathBuf,
}

/// Why something of a state folder cannot be used.
#[derive(Debug)]
pub enum StateError {
    Folder(PathBuf, io::Error),
    Key(PathBuf, KeyError),
    Log(PathBuf, LogError),
    /// Every log that may be written has another writer.
    Taken,
    /// The log's witness is not where it proves something.
    Witness(PathBuf, String),
    Pins(PinsError),
}

/// Why a secret key cannot be used.
#[derive(Debug)]
pub enum KeyError {
    Damaged,
    NoRandom,
    Io(io::Error),
}

impl State {
    /// The folder, which is made where it is not there.
    pub fn open(dir: &Path) -> Result<State, StateError> {
        make_dir(dir)?;
        Ok(State {
            dir: dir.to_owned(),
        })
    }

    /// A secret key in a file of this name, made when it is first asked for.
    pub fn key(&self, file: &str) -> Result<[u8; 32], StateError> {
        let path = self.dir.join(file);
        self.read_or_make(&path)
            .map_err(|error| StateError::Key(path, error))
    }

    fn read_or_make(&self, path: &Path) -> Result<[u8; 32], KeyError> {
        match std::fs::read_to_string(path) {
            Ok(text) => {
                let text = Secret::new(text);
                let key = Digest::from_hex(text.expose().trim());
                Ok(key.ok_or(KeyError::Damaged)?.0)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => match make_key(path) {
                // Another process was at the same, and was first.
                Err(KeyError::Io(error)) if error.kind() == ErrorKind::AlreadyExists => {
                    self.read_or_make(path)
                }
                made => made,
            },
            Err(error) => Err(KeyError::Io(error)),
        }
    }

    /// The first log of this folder that no other process writes, of as many as there may be. Where there is a
    /// witness, the second log has its own beside it, and so on.
    pub fn log(
        &self,
        settings: &LogSettings,
        witness: Option<&Path>,
        logs: usize,
    ) -> Result<Log, StateError> {
        let names = log_names(witness.unwrap_or(Path::new("")));
        for (nth, (name, witness_file)) in names.enumerate() {
            let dir = self.dir.join(name);
            make_dir(&dir)?;
            let witness = witness
                .map(|_| witness_at(&witness_file, &dir))
                .transpose()?;
            let disk = Arc::new(FileDisk::new(&dir));
            match Log::open_witnessed(disk, &dir, settings.clone(), witness) {
                Err(LogError::Locked) if nth + 1 < logs => {}
                opened => return opened.map_err(|error| StateError::Log(dir, error)),
            }
        }
        Err(StateError::Taken)
    }

    /// Which definitions of tools of these servers are approved.
    pub fn pins(&self, servers: impl Iterator<Item = Name>) -> Result<Pins, StateError> {
        let dir = self.dir.join(crate::pins::FOLDER);
        make_dir(&dir)?;
        Pins::open(&dir, servers).map_err(StateError::Pins)
    }
}

/// Makes a key in a new file. It is written under a name of its own until it is whole, for another process may be at
/// the same.
fn make_key(path: &Path) -> Result<[u8; 32], KeyError> {
    let mut key = [0; 32];
    aws_lc_rs::rand::fill(&mut key).map_err(|_| KeyError::NoRandom)?;
    let mut draft = path.to_owned().into_os_string();
    draft.push(format!(".{}", std::process::id()));
    let draft = PathBuf::from(draft);
    let mut options = std::fs::OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let written = options
        .open(&draft)
        .and_then(|mut file| writeln!(file, "{}", Digest(key)));
    let linked = written.and_then(|()| std::fs::hard_link(&draft, path));
    let _ = std::fs::remove_file(&draft);
    linked.map_err(KeyError::Io)?;
    Ok(key)
}

/// The logs of a state folder, which processes that share it take one each, with the witness of each.
pub fn log_names(witness: &Path) -> impl Iterator<Item = (String, PathBuf)> + '_ {
    let numbered = |name: &str, nth: usize| match nth {
        1 => name.to_owned(),
        nth => format!("{name}.{nth}"),
    };
    let witness = witness.display().to_string();
    (1..=LOGS_MAX).map(move |nth| (numbered("log", nth), numbered(&witness, nth).into()))
}

/// A log's witness, which has to be where whoever writes the log's folder does not reach it.
pub fn witness_at(path: &Path, log: &Path) -> Result<Witness, StateError> {
    let failed = |why: &dyn fmt::Display| StateError::Witness(path.to_owned(), why.to_string());
    let witness = Witness::new(path).ok_or_else(|| failed(&"name a file"))?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).canonicalize();
    let folder = folder.map_err(|error| {
        failed(&format!(
            "its folder: {error}; make the folder, or mount it"
        ))
    })?;
    let log = log.canonicalize().map_err(|error| failed(&error))?;
    if folder.starts_with(&log) {
        let why = "it is inside the log's folder and would be lost or changed with it; name a file elsewhere";
        return Err(failed(&why));
    }
    Ok(witness)
}

/// Makes a folder that only this user can look into.
pub fn make_dir(dir: &Path) -> Result<(), StateError> {
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir);
    made.map_err(|error| StateError::Folder(dir.to_owned(), error))
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::Folder(dir, error) => {
                write!(f, "the folder {} cannot be made: {error}", dir.display())
            }
            StateError::Key(path, error) => write!(f, "the key {}: {error}", path.display()),
            StateError::Log(dir, error) => write!(f, "the log in {}: {error}", dir.display()),
            StateError::Taken => f.write_str("all logs of the state folder are written by others"),
            StateError::Witness(path, why) => write!(f, "log.witness {}: {why}", path.display()),
            StateError::Pins(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for StateError {}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Damaged => f.write_str("is not 64 hex digits; remove it to have a new one"),
            KeyError::NoRandom => f.write_str("no random bytes"),
            KeyError::Io(error) => write!(f, "{error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_a_damaged_one_is_never_replaced() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("state");
        let state = State::open(&dir).unwrap();
        let key = state.key("session.key").unwrap();
        assert_eq!(state.key("session.key").unwrap(), key);
        assert_ne!(state.key("fingerprint.key").unwrap(), key);
        let path = dir.join("session.key");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&dir), mode(&path)), (0o700, 0o600));
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 2);

        std::fs::write(&path, "half a key").unwrap();
        let error = state.key("session.key").unwrap_err().to_string();
        assert!(
            error.contains("64 hex digits") && !error.contains("half"),
            "{error}"
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "half a key");
    }
}
