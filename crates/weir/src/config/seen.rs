//! Which files a configuration was read from, and whether they are still what they were.
//!
//! A file is known by what the file system says of it (inode, size, times), never by its contents, so that a
//! look costs one call for each file.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files and folders, each with what was said of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen(BTreeMap<PathBuf, Option<Stamp>>);

/// What the file system says of a file; nothing of one that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// The same, of the entry itself: a file that is moved here keeps its other time.
    changed: (i64, i64),
}

impl Seen {
    /// Looks at a file, before it is read.
    pub(crate) fn note(&mut self, path: &Path) {
        self.0.insert(path.to_path_buf(), stamp(path));
    }

    /// The same files as they are now.
    pub(crate) fn again(&self) -> Seen {
        let now = |path: &PathBuf| (path.clone(), stamp(path));
        Seen(self.0.keys().map(now).collect())
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let said = std::fs::metadata(path).ok()?;
    Some(Stamp {
        device: said.dev(),
        inode: said.ino(),
        size: said.size(),
        modified: (said.mtime(), said.mtime_nsec()),
        changed: (said.ctime(), said.ctime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_comes_grows_or_goes_is_noticed() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("a.toml");
        let mut seen = Seen::default();
        seen.note(&file);
        assert_eq!(seen, seen.again());
        std::fs::write(&file, "a").expect("a file");
        let there = seen.again();
        assert_ne!(seen, there);
        std::fs::write(&file, "ab").expect("a file");
        assert_ne!(there, there.again());
        std::fs::remove_file(&file).expect("gone");
        assert_eq!(seen, there.again());
    }
}
