//! Where files may be read: directories below the allowed roots, opened so that no name leads out of them.
//!
//! A path that was checked can be another one when it is opened, so nothing is checked and then opened: the kernel
//! resolves each name below an open directory (`openat2` with `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`), and where
//! it cannot, each part of a name is opened by itself without following links. It refuses `..`, absolute names,
//! links anywhere in a name, and whatever is no regular file.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::buffer::spare_capacity;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::{Errno, read, retry_on_intr};
use serde::{Deserialize, Serialize};

use super::api::{Error, Result};

/// A directory below which files are read.
pub(super) struct Place {
    /// Its canonical path.
    dir: PathBuf,
    fd: OwnedFd,
}

/// What tells that a file may have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    /// Its size, in bytes.
    pub bytes: u64,
    /// When its content changed, in nanoseconds since 1970.
    pub mtime_ns: i128,
    /// When its inode changed, in nanoseconds since 1970: a restored mtime does not hide a change.
    pub ctime_ns: i128,
    /// Its inode.
    pub inode: u64,
}

impl Stamp {
    /// The stamp of a file by its metadata.
    pub(super) fn of(metadata: &std::fs::Metadata) -> Stamp {
        use std::os::unix::fs::MetadataExt;
        let ns = |s: i64, n: i64| i128::from(s) * 1_000_000_000 + i128::from(n);
        Stamp {
            bytes: metadata.size(),
            mtime_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            ctime_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
        }
    }

    /// Whether it is still that of an open file.
    pub(super) fn is_of(&self, file: &File) -> bool {
        file.metadata().is_ok_and(|now| Stamp::of(&now) == *self)
    }

    /// Whether a change right after `at` could leave this stamp as it is, so that it proves nothing.
    pub(super) fn is_racy(&self, at: std::time::SystemTime) -> bool {
        /// The coarsest tick of a file system's clock that is met in practice.
        const TICK: Duration = Duration::from_millis(20);
        let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let earliest = at.saturating_sub(TICK).as_nanos();
        self.mtime_ns.max(self.ctime_ns) >= i128::try_from(earliest).unwrap_or(i128::MAX)
    }
}

/// Finds the directory that `asked` names below one of `roots`: absolute, or from a root.
///
/// # Errors
///
/// [`Error::NotAllowed`] for whatever is not below a root, whether it is there or not.
pub(super) fn find(roots: &[PathBuf], asked: &str) -> Result<PathBuf> {
    let refused = || Error::NotAllowed(asked.to_owned());
    let path = Path::new(asked);
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(Error::Ask {
            field: "path",
            problem: "has `..`; write the directory itself".to_owned(),
        });
    }
    let candidates: Vec<PathBuf> = match path.is_absolute() {
        true => vec![path.to_owned()],
        false => roots.iter().map(|root| root.join(path)).collect(),
    };
    let mut missing = None;
    for candidate in candidates {
        let Ok(found) = candidate.canonicalize() else {
            // Only below a root is it told that something is not there.
            if roots.iter().any(|root| candidate.starts_with(root)) {
                missing = Some(Error::Ask {
                    field: "path",
                    problem: format!("there is no directory `{asked}`"),
                });
            }
            continue;
        };
        if roots.iter().any(|root| found.starts_with(root)) {
            if found.is_dir() {
                return Ok(found);
            }
            missing = Some(Error::Ask {
                field: "path",
                problem: format!("`{asked}` is no directory"),
            });
        }
    }
    Err(missing.unwrap_or_else(refused))
}

impl Place {
    /// Opens a directory that [`find`] found, below the root that allows it.
    ///
    /// # Errors
    ///
    /// [`Error::NotAllowed`] when it is below no root any more, [`Error::Io`] when it cannot be opened.
    pub(super) fn open(roots: &[PathBuf], dir: &Path) -> Result<Place> {
        let root = roots.iter().find(|root| dir.starts_with(root));
        let Some(root) = root else {
            return Err(Error::NotAllowed(dir_name(dir)));
        };
        let failed = |error: &dyn std::fmt::Display| {
            Error::Io(format!(
                "the directory {} cannot be opened: {error}",
                dir_name(dir)
            ))
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::open(root, flags, Mode::empty()).map_err(|error| failed(&error))?;
        let rest = dir.strip_prefix(root).unwrap_or(Path::new(""));
        let fd = match rest.as_os_str().is_empty() {
            true => top,
            false => beneath(&top, rest, flags).map_err(|error| failed(&error))?,
        };
        Ok(Place {
            dir: dir.to_owned(),
            fd,
        })
    }

    /// Whether the directory by that path is still the one that was opened.
    pub(super) fn is_same(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let (Ok(now), Ok(opened)) = (std::fs::metadata(&self.dir), rustix::fs::fstat(&self.fd))
        else {
            return false;
        };
        now.ino() == opened.st_ino && now.dev() == opened.st_dev
    }

    /// Whether there is a directory by this path from here, with no link on the way.
    pub(super) fn has_dir(&self, path: &str) -> bool {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        path.is_empty() || beneath(&self.fd, Path::new(path), flags).is_ok()
    }

    /// Opens a regular file by its path from this directory.
    ///
    /// # Errors
    ///
    /// Those of the kernel; `ELOOP` for a link, `EXDEV` for a way out, `EINVAL` for what is no regular file.
    pub(super) fn file(&self, path: &str) -> io::Result<(File, Stamp)> {
        let path = Path::new(path);
        let plain = |part| matches!(part, Component::Normal(_));
        if path.as_os_str().is_empty() || !path.components().all(plain) {
            return Err(Errno::XDEV.into());
        }
        // A pipe would block the opening, and a device do whatever it does.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(beneath(&self.fd, path, flags)?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(Errno::INVAL.into());
        }
        Ok((file, Stamp::of(&metadata)))
    }

    /// Reads a regular file, at most `most` bytes of it: `None` when it has more.
    ///
    /// # Errors
    ///
    /// As [`Place::file`].
    pub(super) fn read(&self, path: &str, most: u64) -> io::Result<(Option<Vec<u8>>, Stamp)> {
        let mut bytes = Vec::new();
        let (file, stamp) = self.read_into(path, most, &mut bytes)?;
        Ok((file.map(|_| bytes), stamp))
    }

    /// As [`Place::read`], into a buffer that is used again; answers the file where it is in it. One that grows meanwhile
    /// is read as it was when its stamp was taken.
    ///
    /// # Errors
    ///
    /// As [`Place::file`].
    pub(super) fn read_into(
        &self,
        path: &str,
        most: u64,
        bytes: &mut Vec<u8>,
    ) -> io::Result<(Option<File>, Stamp)> {
        bytes.clear();
        let (file, stamp) = self.file(path)?;
        if stamp.bytes > most {
            return Ok((None, stamp));
        }
        let count = usize::try_from(stamp.bytes).unwrap_or(0);
        bytes.reserve(count);
        // As much as there is at once: `read_to_end` would ask for a few kilobytes first.
        while bytes.len() < count {
            if retry_on_intr(|| read(&file, spare_capacity(bytes)))? == 0 {
                break;
            }
        }
        bytes.truncate(count);
        Ok((Some(file), stamp))
    }
}

impl AsFd for Place {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens `path` below `dir`, with no link on the way and none at the end.
fn beneath(dir: impl AsFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(&dir, path, flags, Mode::empty(), resolve) {
        // A kernel before 5.6, or a sandbox that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => by_parts(dir, path, flags),
        opened => opened,
    }
}

/// The same, part by part.
fn by_parts(dir: impl AsFd, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let parts: Vec<_> = path.components().collect();
    let (last, before) = parts.split_last().ok_or(Errno::INVAL)?;
    let through = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at: Option<OwnedFd> = None;
    for part in before.iter().chain([last]) {
        let Component::Normal(name) = part else {
            return Err(Errno::XDEV);
        };
        let flags = match std::ptr::eq(part, last) {
            true => flags | OFlags::NOFOLLOW,
            false => through,
        };
        at = Some(match &at {
            None => openat(&dir, *name, flags, Mode::empty())?,
            Some(at) => openat(at, *name, flags, Mode::empty())?,
        });
    }
    at.ok_or(Errno::INVAL)
}

/// What a message may tell of a directory: its name.
fn dir_name(dir: &Path) -> String {
    let name = dir.file_name().unwrap_or(dir.as_os_str());
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn tree() -> (tempfile::TempDir, PathBuf) {
        let made = tempfile::tempdir().unwrap();
        let top = made.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("in/deep")).unwrap();
        std::fs::create_dir_all(top.join("out")).unwrap();
        std::fs::write(top.join("in/deep/a.txt"), "inside").unwrap();
        std::fs::write(top.join("out/secret.txt"), "canary").unwrap();
        symlink(top.join("out/secret.txt"), top.join("in/link.txt")).unwrap();
        symlink(top.join("out"), top.join("in/way")).unwrap();
        symlink("deep", top.join("in/near")).unwrap();
        (made, top)
    }

    #[test]
    fn no_name_leads_out() {
        let (_made, top) = tree();
        let roots = vec![top.join("in")];
        let place = Place::open(&roots, &top.join("in")).unwrap();
        let (read, _) = place.read("deep/a.txt", 100).unwrap();
        assert_eq!(read.as_deref(), Some(&b"inside"[..]));
        let has = ["", "deep", "way", "near", "../out", "link.txt"].map(|dir| place.has_dir(dir));
        assert_eq!(has, [true, true, false, false, false, false]);
        let absolute = top.join("out/secret.txt");
        for name in [
            "link.txt",
            "way/secret.txt",
            "near/a.txt",
            "../out/secret.txt",
            "deep/../../out/secret.txt",
            absolute.to_str().unwrap(),
            "",
            ".",
            "deep",
            "/proc/self/root/etc/passwd",
        ] {
            assert!(place.read(name, 100).is_err(), "{name}");
            let parts = by_parts(&place.fd, Path::new(name), OFlags::RDONLY);
            let regular = parts.map(|fd| File::from(fd).metadata().unwrap().is_file());
            assert!(!regular.unwrap_or(false), "{name} by parts");
        }
    }

    #[test]
    fn a_file_over_the_bound_is_not_read() {
        let (_made, top) = tree();
        let place = Place::open(std::slice::from_ref(&top), &top).unwrap();
        assert!(place.read("in/deep/a.txt", 5).unwrap().0.is_none());
        assert!(place.read("in/deep/a.txt", 6).unwrap().0.is_some());
    }

    #[test]
    fn a_pipe_is_refused_and_does_not_block() {
        let (_made, top) = tree();
        let pipe = top.join("in/pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let place = Place::open(std::slice::from_ref(&top), &top).unwrap();
        assert!(place.file("in/pipe").is_err());
    }

    #[test]
    fn only_below_roots_is_told_what_is_there() {
        let (_made, top) = tree();
        let roots = vec![top.join("in")];
        assert_eq!(find(&roots, "deep").unwrap(), top.join("in/deep"));
        assert_eq!(find(&roots, "").unwrap(), top.join("in"));
        assert_eq!(
            find(&roots, top.join("in/near").to_str().unwrap()).unwrap(),
            top.join("in/deep")
        );
        let outside = [top.join("out"), top.join("none"), top.join("in/way")];
        for path in outside {
            let path = path.to_str().unwrap();
            assert_eq!(find(&roots, path), Err(Error::NotAllowed(path.to_owned())));
        }
        assert!(matches!(find(&roots, "nothing"), Err(Error::Ask { .. })));
        assert!(matches!(find(&roots, "../out"), Err(Error::Ask { .. })));
    }
}
