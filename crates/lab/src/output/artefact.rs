//! Files that are replaced whole or not at all.
//!
//! What is written goes to a draft in the same folder, is read back by whoever understands it, and takes the
//! file's place only then. So a full disk or a fault of ours never costs the file that was there before.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::exit::Failure;

/// Most names that are tried for a draft.
const NAMES_MAX: u32 = 100;

/// A file that is being written. It is removed when it is dropped before [`Draft::keep`].
pub(crate) struct Draft {
    /// Where it goes, links followed.
    path: PathBuf,
    /// Where it is until then; absent for what is no file, such as a pipe or `/dev/stdout`, which is written at once.
    draft: Option<PathBuf>,
    out: BufWriter<File>,
}

impl Draft {
    /// Begins a file that will stand at `path`.
    ///
    /// # Errors
    ///
    /// The folder is missing or cannot be written.
    pub(crate) fn begin(path: &Path) -> Result<Draft, Failure> {
        let fail = |e: io::Error| failure(path, &e);
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if path.metadata().is_ok_and(|data| data.is_dir()) {
            return Err(Failure::new(
                format!("{} is a folder", path.display()),
                "name a file in it",
            ));
        }
        if path.metadata().is_ok_and(|data| !data.is_file()) {
            let file = OpenOptions::new().write(true).open(&path).map_err(fail)?;
            return Ok(Draft {
                path,
                draft: None,
                out: BufWriter::new(file),
            });
        }
        let (draft, file) = beside(&path).map_err(fail)?;
        Ok(Draft {
            path,
            draft: Some(draft),
            out: BufWriter::new(file),
        })
    }

    /// Says what an error in writing means for this file.
    pub(crate) fn failure(&self, error: &io::Error) -> Failure {
        failure(&self.path, error)
    }

    /// Puts the draft in its place when `check` can read it back. What is no file cannot be read back, and is not.
    ///
    /// # Errors
    ///
    /// It cannot be written, or does not read back. What stood at its place is still there.
    pub(crate) fn keep(
        mut self,
        check: impl FnOnce(&Path) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.out.flush().map_err(|e| failure(&self.path, &e))?;
        let Some(draft) = &self.draft else {
            return Ok(());
        };
        let synced = self.out.get_ref().sync_all();
        synced.map_err(|e| failure(&self.path, &e))?;
        check(draft).map_err(|why| {
            Failure::new(
                format!(
                    "{} was not written: it does not read back: {why}",
                    self.path.display()
                ),
                "what stood there is unchanged; this is a fault of weir lab",
            )
        })?;
        std::fs::rename(draft, &self.path).map_err(|e| failure(&self.path, &e))?;
        self.draft = None;
        Ok(())
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(draft) = &self.draft {
            // Nothing is left to be done when even that fails.
            let _ = std::fs::remove_file(draft);
        }
    }
}

/// Writes a file whole, as [`Draft`] does.
///
/// # Errors
///
/// See [`Draft::begin`] and [`Draft::keep`].
pub(crate) fn replace(
    path: &Path,
    bytes: &[u8],
    check: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut draft = Draft::begin(path)?;
    let written = draft.write_all(bytes);
    written.map_err(|e| draft.failure(&e))?;
    draft.keep(check)
}

/// Finds out whether a file could be written, without leaving a trace. Known before load is sent.
///
/// # Errors
///
/// It could not be.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    Draft::begin(path).map(drop)
}

/// A new file in the same folder, hidden, with a name of its own.
fn beside(path: &Path) -> io::Result<(PathBuf, File)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().ok_or(ErrorKind::InvalidFilename)?;
    for _ in 0..NAMES_MAX {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{number}.partial", std::process::id()));
        let draft = path.with_file_name(hidden);
        match OpenOptions::new().write(true).create_new(true).open(&draft) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|file| (draft, file)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    let help = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space there, or write elsewhere",
        ErrorKind::NotFound => "make its folder first",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "write where this user may write"
        }
        _ => "",
    };
    Failure::new(format!("{}: {error}", path.display()), help)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let name = |e: io::Result<std::fs::DirEntry>| e.unwrap().file_name();
        entries
            .map(|e| name(e).to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn a_file_is_replaced_when_it_reads_back_and_only_then() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        replace(&path, b"old", |_| Ok(())).unwrap();
        let refused = replace(&path, b"new", |draft| {
            assert_eq!(std::fs::read(draft).unwrap(), b"new");
            Err(Failure::new("not a run", ""))
        });
        let said = refused.unwrap_err().to_string();
        assert!(
            said.contains("a.json was not written") && said.contains("not a run"),
            "{said}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(left(folder.path()), ["a.json"]);
        replace(&path, b"new", |_| Ok(())).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(left(folder.path()), ["a.json"]);
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, b"new", |_| Ok(())).unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
    }

    #[test]
    fn a_full_disk_is_said_and_a_device_stays_a_device() {
        let full = Path::new("/dev/full");
        let said = replace(full, b"bytes", |_| Ok(())).unwrap_err().to_string();
        assert!(
            said.starts_with("/dev/full: No space left on device"),
            "{said}"
        );
        assert!(
            said.ends_with("free space there, or write elsewhere"),
            "{said}"
        );
        assert!(!full.metadata().unwrap().is_file());
    }

    #[test]
    fn what_cannot_be_written_is_known_before() {
        let folder = tempfile::tempdir().unwrap();
        let missing = check(&folder.path().join("no/such.json")).unwrap_err();
        assert_eq!(missing.help, "make its folder first");
        let is_folder = check(folder.path()).unwrap_err();
        assert!(is_folder.what.ends_with("is a folder"), "{is_folder}");
        check(&folder.path().join("fine.json")).unwrap();
        assert!(left(folder.path()).is_empty());
    }
}
