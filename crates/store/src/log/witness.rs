//! The newest checkpoint, kept a second time where the log's folder is not.
//!
//! Whoever can write the log's folder can put an older log there, or another one. A witness that they cannot
//! write shows that: the log has to hold what the witness says, and its checkpoints have to go at least as far.
//! The witness only moves on; only `weir audit accept` puts one there that does not follow.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use base::Digest;

use super::open::read_text;
use super::{LogError, Newest};
use crate::disk::{Disk, FileDisk};
use crate::note::Verifier;

/// A file that holds one signed checkpoint.
pub struct Witness {
    disk: Arc<dyn Disk>,
    name: String,
    /// What was last found or put there.
    text: Option<String>,
}

impl Witness {
    /// A file of the file system, whose folder has to be there. Nothing where the path names no file.
    pub fn new(path: &Path) -> Option<Witness> {
        let name = path.file_name()?.to_str()?.to_owned();
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let disk = FileDisk::new(folder.unwrap_or(Path::new(".")));
        Some(Witness::on(Arc::new(disk), name))
    }

    /// A file of any disk.
    pub fn on(disk: Arc<dyn Disk>, name: String) -> Witness {
        Witness {
            disk,
            name,
            text: None,
        }
    }

    fn read(&self) -> io::Result<Option<String>> {
        // A folder that is gone is an error: it may be a disk that is not mounted, and not a new witness.
        self.disk.identity("")?;
        match read_text(&*self.disk, &self.name) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What of the log is not as the witness says, in words; nothing where all is. `root_at` is asked for sizes
    /// that the log has.
    pub(super) fn differs(
        &mut self,
        entries: u64,
        newest: Option<&Newest>,
        verifier: &Verifier,
        root_at: impl FnOnce(u64) -> Result<Digest, LogError>,
    ) -> Result<Option<String>, LogError> {
        let read = self.read();
        self.text = read.map_err(|error| LogError::Io("the log's witness", error))?;
        let Some(text) = &self.text else {
            let what = format!("the witness is missing, and the log has {entries} entries");
            return Ok((entries > 0).then_some(what));
        };
        let seen = match verifier.checkpoint(text) {
            Ok(seen) => seen,
            Err(error) => return Ok(Some(format!("the witness is of another log: {error}"))),
        };
        let signed = newest.map_or(0, |newest| newest.checkpoint.size);
        if seen.size > entries {
            let what = format!(
                "the witness saw {} entries, and the log has {entries}",
                seen.size
            );
            return Ok(Some(what));
        }
        if seen.size > signed {
            let what = format!(
                "the witness saw {} entries signed, and {signed} are",
                seen.size
            );
            return Ok(Some(what));
        }
        if root_at(seen.size)? != seen.root {
            let what = format!(
                "the witness saw other entries among the first {}",
                seen.size
            );
            return Ok(Some(what));
        }
        Ok(None)
    }

    /// Puts a checkpoint there that covers at least what the last one did.
    pub(super) fn put(&mut self, note: &str) -> io::Result<()> {
        if self.text.as_deref() == Some(note) {
            return Ok(());
        }
        if self.read()? != self.text {
            return Err(io::Error::other("another has changed or removed it"));
        }
        self.disk.write(&self.name, note.as_bytes(), false)?;
        self.text = Some(note.to_owned());
        Ok(())
    }
}
