//! Going on with a log whose end nothing proves: the record of it, and its signature.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use base::clock::Now;
use base::record::Accepted;

use crate::disk::FileDisk;
use crate::note::{NoteError, Verifier};
use crate::operator::Operator;

use super::{Durability, Found, KEY_PUB, Log, LogError, LogSettings, Witness};

/// Why a log was not accepted.
#[derive(Debug)]
pub enum AcceptError {
    /// Who runs this is not known.
    Operator(io::Error),
    /// The log's public key cannot be read.
    KeyFile(io::Error),
    /// The log's public key is none.
    Key(NoteError),
    Log(LogError),
}

impl fmt::Display for AcceptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcceptError::Operator(error) => write!(f, "who this is: {error}"),
            AcceptError::KeyFile(error) => write!(f, "key.pub: {error}"),
            AcceptError::Key(error) => write!(f, "key.pub: {error}"),
            AcceptError::Log(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for AcceptError {}

/// Goes on with the log in this folder: puts a record with the reason and what was found at its end, and signs it all.
/// Nothing where there is nothing to accept. See [`Log::accept`].
pub fn accept(
    dir: &Path,
    witness: Option<Witness>,
    reason: &str,
    unix_ms: u64,
) -> Result<Option<Found>, AcceptError> {
    let operator = Operator::who().map_err(AcceptError::Operator)?;
    let record = |found: &Found| {
        let accepted = Accepted {
            at: Now {
                unix_ms,
                mono_ms: 0,
            },
            by: &operator.by,
            login: operator.login.as_deref(),
            found: &found.what,
            reason,
            unsigned: found.unsigned,
        };
        accepted.to_json()
    };
    let disk = Arc::new(FileDisk::new(dir));
    Log::accept(disk, &settings(dir)?, witness, record).map_err(AcceptError::Log)
}

/// The settings that a log was begun with, as far as accepting needs them.
fn settings(dir: &Path) -> Result<LogSettings, AcceptError> {
    let key = std::fs::read_to_string(dir.join(KEY_PUB)).map_err(AcceptError::KeyFile)?;
    let verifier = Verifier::parse(&key).map_err(AcceptError::Key)?;
    Ok(LogSettings {
        origin: verifier.name().to_owned(),
        durability: Durability::Fsync,
        bytes_max: u64::MAX,
    })
}
