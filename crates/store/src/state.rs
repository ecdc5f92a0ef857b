//! A state folder: the secret keys, the logs and the pins that one gateway keeps, or several that share it.
//!
//! It opens what is there and begins what is not. A key or a log that cannot be used is an error, and never replaced
//! by a new one.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::limit::LOGS_MAX;
use base::{Digest, Name, Secret};

use crate::disk::FileDisk;
use crate::log::{Log, LogError, LogSettings, Witness, append_once, origin_of};
use crate::note::is_key_name;
use crate::pins::{Pins, PinsError};
use crate::plain::{open_plain, tell_loose};
use crate::runs::{KeptRun, RunFiles};
use crate::tasks::TaskOwners;

/// The first log of a state folder.
const LOG: &str = "log";
/// The file that keeps what logs are called that begin here.
const ORIGIN: &str = "origin";
/// The mode of files with secrets.
const OWNER_ALONE: u32 = 0o600;
/// Largest part of a file with one key that is read, in bytes.
const KEY_FILE_BYTES_MAX: u64 = 4 << 10;
/// Random bytes in it.
const ORIGIN_BYTES: usize = 8;

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
    /// The log has another origin than was asked for: its own, and what to ask for instead.
    Origin {
        log: PathBuf,
        own: String,
        instead: String,
    },
    /// Every log that may be written has another writer.
    Taken,
    /// The log's witness is not where it proves something.
    Witness(PathBuf, String),
    Pins(PinsError),
    /// The file of whose tasks are whose.
    Tasks(PathBuf, io::Error),
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
        let make = || {
            let mut key = [0; 32];
            aws_lc_rs::rand::fill(&mut key).ok()?;
            Some(Digest(key).to_string())
        };
        let text = Secret::new(made_once(path, OWNER_ALONE, make)?);
        let key = Digest::from_hex(text.expose().trim());
        Ok(key.ok_or(KeyError::Damaged)?.0)
    }

    /// The origin that logs of this folder begin with, made at random when it is first asked for.
    pub fn origin(&self) -> Result<String, StateError> {
        let path = self.dir.join(ORIGIN);
        let make = || {
            let mut bytes = [0; ORIGIN_BYTES];
            aws_lc_rs::rand::fill(&mut bytes).ok()?;
            Some(format!("weir.local/{:016x}", u64::from_be_bytes(bytes)))
        };
        // It is no secret, and whoever approves tools may be another user than the gateway.
        let text = made_once(&path, 0o644, make);
        let text = text.map_err(|error| StateError::Key(path.clone(), error))?;
        let origin = text.trim();
        match is_key_name(origin) {
            true => Ok(origin.to_owned()),
            false => Err(StateError::Log(path, LogError::Origin(origin.to_owned()))),
        }
    }

    /// The origin of the `nth` log, in this folder. One that has begun keeps its own; what is asked for has to be that.
    fn origin_of(&self, dir: &Path, asked: &str, nth: usize) -> Result<String, StateError> {
        let numbered = |origin: String| match nth {
            1 => origin,
            nth => format!("{origin}/{nth}"),
        };
        let asked = (!asked.is_empty()).then(|| numbered(asked.to_owned()));
        let own = origin_of(dir).map_err(|error| StateError::Log(dir.to_owned(), error))?;
        match (own, asked) {
            (Some(own), Some(asked)) if own != asked => {
                let instead = own.strip_suffix(&format!("/{nth}")).unwrap_or(&own);
                Err(StateError::Origin {
                    log: dir.to_owned(),
                    instead: instead.to_owned(),
                    own,
                })
            }
            (Some(own), _) => Ok(own),
            (None, Some(asked)) => Ok(asked),
            (None, None) => self.origin().map(numbered),
        }
    }

    /// The first log of this folder that no other process writes, of as many as there may be. Where there is a
    /// witness, the second log has its own beside it, and so on. Where the settings' origin is empty, a log that has
    /// begun keeps its own, and another takes [`State::origin`]; the second has `/2` behind it.
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
            let settings = LogSettings {
                origin: self.origin_of(&dir, &settings.origin, nth + 1)?,
                ..settings.clone()
            };
            let disk = Arc::new(FileDisk::new(&dir));
            match Log::open_witnessed(disk, &dir, settings, witness) {
                Err(LogError::Locked) if nth + 1 < logs => {}
                opened => return opened.map_err(|error| StateError::Log(dir, error)),
            }
        }
        Err(StateError::Taken)
    }

    /// Puts one record at the end of the first log of this folder, for a process that ends right after; see
    /// [`append_once`]. The log's origin is found as by [`State::log`].
    pub fn keep_once(
        &self,
        settings: &LogSettings,
        record: &[u8],
        wait: Duration,
    ) -> Result<(), StateError> {
        let dir = self.dir.join(LOG);
        make_dir(&dir)?;
        let settings = LogSettings {
            origin: self.origin_of(&dir, &settings.origin, 1)?,
            ..settings.clone()
        };
        let kept = append_once(&FileDisk::new(&dir), &settings, record, wait);
        kept.map_err(|error| StateError::Log(dir, error))
    }

    /// The folders of the logs that are there.
    pub fn logs(&self) -> Vec<PathBuf> {
        let all = log_names(Path::new("")).map(|(name, _)| self.dir.join(name));
        all.filter(|dir| dir.is_dir()).collect()
    }

    /// The events of runs, for one process at a time; nothing where another has them.
    pub fn runs(&self, syncs: bool) -> Result<Option<(RunFiles, Vec<KeptRun>)>, StateError> {
        let dir = self.dir.join(crate::runs::FOLDER);
        make_dir(&dir)?;
        match RunFiles::open(Arc::new(FileDisk::new(&dir)), syncs) {
            Ok(opened) => Ok(Some(opened)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(StateError::Folder(dir, error)),
        }
    }

    /// Which agent each task of agents of others belongs to.
    pub fn task_owners(&self) -> Result<TaskOwners, StateError> {
        let path = self.dir.join(crate::tasks::FILE);
        TaskOwners::open(&path).map_err(|error| StateError::Tasks(path, error))
    }

    /// Which definitions of tools of these servers are approved.
    pub fn pins(&self, servers: impl Iterator<Item = Name>) -> Result<Pins, StateError> {
        let dir = self.dir.join(crate::pins::FOLDER);
        make_dir(&dir)?;
        Pins::open(&dir, servers).map_err(StateError::Pins)
    }
}

/// The text of a file, made when it is first needed, once, by whichever process is first.
fn made_once(
    path: &Path,
    mode: u32,
    make: impl Fn() -> Option<String>,
) -> Result<String, KeyError> {
    match read_small(path, mode) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let text = make().ok_or(KeyError::NoRandom)?;
            match make_file(path, mode, &text) {
                // Another process was at the same, and was first.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    made_once(path, mode, make)
                }
                made => made.map(|()| text).map_err(KeyError::Io),
            }
        }
        read => read.map_err(KeyError::Io),
    }
}

/// The text of a small file. That others may read a secret is told.
fn read_small(path: &Path, mode: u32) -> io::Result<String> {
    let file = open_plain(path)?;
    if mode == OWNER_ALONE {
        tell_loose(path, &file);
    }
    let mut text = String::new();
    file.take(KEY_FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Makes a new file of one line. It is written under a name of its own until it is whole, for another process may be
/// at the same.
fn make_file(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    let mut draft = path.to_owned().into_os_string();
    draft.push(format!(".{}", std::process::id()));
    let draft = PathBuf::from(draft);
    let mut options = std::fs::OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(mode);
    let written = options
        .open(&draft)
        .and_then(|mut file| writeln!(file, "{text}"));
    let linked = written.and_then(|()| std::fs::hard_link(&draft, path));
    let _ = std::fs::remove_file(&draft);
    linked
}

/// The logs of a state folder, which processes that share it take one each, with the witness of each.
pub fn log_names(witness: &Path) -> impl Iterator<Item = (String, PathBuf)> + '_ {
    let numbered = |name: &str, nth: usize| match nth {
        1 => name.to_owned(),
        nth => format!("{name}.{nth}"),
    };
    let witness = witness.display().to_string();
    (1..=LOGS_MAX).map(move |nth| (numbered(LOG, nth), numbered(&witness, nth).into()))
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
            StateError::Origin { log, own, instead } => write!(
                f,
                "the log in {} has the origin {own}, which never changes, and log.origin is another: write log.origin: \
                 {instead}, or move the folder away to begin another log",
                log.display()
            ),
            StateError::Log(dir, error) => write!(f, "the log in {}: {error}", dir.display()),
            StateError::Taken => f.write_str("all logs of the state folder are written by others"),
            StateError::Witness(path, why) => write!(f, "log.witness {}: {why}", path.display()),
            StateError::Pins(error) => write!(f, "{error}"),
            StateError::Tasks(path, error) => write!(f, "{}: {error}", path.display()),
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
