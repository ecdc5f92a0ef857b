//! Which files of a tree there are: by the rules of git and of the tree's own ignore files.
//!
//! Nested `.gitignore`, `.git/info/exclude` and git's global excludes count, `.ignore`, and `.mcpignore` and
//! `.codebaseignore`, which speak to code search alone. Hidden files are seen, `.git` is not. Links are never followed.
//! It tells names and stamps only; what is read is opened elsewhere ([`super::place`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::{DirEntry, ParallelVisitor, ParallelVisitorBuilder, WalkBuilder, WalkState};

use super::api::Cancel;
use super::place::Stamp;

/// Names of files whose change may change which files there are.
pub(super) const RULES: [&str; 4] = [".gitignore", ".ignore", ".mcpignore", ".codebaseignore"];
/// Whether a file has rules.
pub(super) fn is_rule(path: &str) -> bool {
    RULES.contains(&path.rsplit('/').next().unwrap_or(path))
}

/// Threads of one walk.
const THREADS: usize = 2;
/// Bytes of a path that is kept; longer ones are left out, and counted.
const PATH_BYTES_MAX: usize = 2048;

/// What a walk found, by path from the root of the tree.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The files.
    pub files: BTreeMap<Box<str>, Stamp>,
    /// The directories, `""` for the root of the tree, with when they changed, in nanoseconds since 1970.
    pub dirs: BTreeMap<Box<str>, i128>,
    /// Entries that were left out: names that are not UTF-8 or too long, directories that cannot be read.
    pub unreadable: u64,
    /// Files over the most that a tree may have.
    pub over: u64,
}

/// What a walk leaves out, and where it ends.
#[derive(Clone, Copy)]
pub(super) struct WalkBounds<'a> {
    /// Files and directories that are as if they were not there, without links on their way.
    pub hidden: &'a Arc<[PathBuf]>,
    pub files_max: usize,
    pub cancel: &'a Cancel,
}

/// Walks the whole tree below `root`, or from the directory `start` of it (a path from the root), or only that
/// directory's own entries. Ends early, with what it has, when the call is given up.
pub(super) fn list(root: &Path, start: &str, deep: bool, bounds: WalkBounds<'_>) -> Listing {
    let WalkBounds {
        hidden,
        files_max,
        cancel,
    } = bounds;
    let from = match start.is_empty() {
        true => root.to_owned(),
        false => root.join(start),
    };
    // Where a walk begins, no filter is asked.
    if hidden.iter().any(|hidden| from.starts_with(hidden)) {
        return Listing::default();
    }
    let hidden = Arc::clone(hidden);
    let is_hidden = move |path: &Path| hidden.iter().any(|hidden| path == hidden);
    let mut walk = WalkBuilder::new(&from);
    walk.hidden(false)
        .require_git(false)
        .follow_links(false)
        .threads(THREADS)
        .max_depth((!deep).then_some(1))
        .filter_entry(move |entry| entry.file_name() != ".git" && !is_hidden(entry.path()));
    for name in &RULES[2..] {
        walk.add_custom_ignore_filename(name);
    }
    let all = Mutex::new(Listing::default());
    let seen = AtomicUsize::new(0);
    let mut visitors = Shared {
        root,
        all: &all,
        seen: &seen,
        files_max,
        cancel,
    };
    walk.build_parallel().visit(&mut visitors);
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// What the threads of a walk share.
#[derive(Clone, Copy)]
struct Shared<'a> {
    root: &'a Path,
    all: &'a Mutex<Listing>,
    seen: &'a AtomicUsize,
    files_max: usize,
    cancel: &'a Cancel,
}

/// Gathers on one thread, and hands over at its end.
struct Visitor<'a> {
    shared: Shared<'a>,
    own: Listing,
}

impl<'a> ParallelVisitorBuilder<'a> for Shared<'a> {
    fn build(&mut self) -> Box<dyn ParallelVisitor + 'a> {
        Box::new(Visitor {
            shared: *self,
            own: Listing::default(),
        })
    }
}

impl ParallelVisitor for Visitor<'_> {
    fn visit(&mut self, entry: Result<DirEntry, ignore::Error>) -> WalkState {
        if self.shared.cancel.is_cancelled() {
            return WalkState::Quit;
        }
        let Ok(entry) = entry else {
            self.own.unreadable += 1;
            return WalkState::Continue;
        };
        self.take(&entry);
        WalkState::Continue
    }
}

impl Visitor<'_> {
    fn take(&mut self, entry: &DirEntry) {
        let Some(kind) = entry.file_type() else {
            return;
        };
        if !kind.is_dir() && !kind.is_file() {
            return;
        }
        let path = entry.path().strip_prefix(self.shared.root).ok();
        let path = path.and_then(Path::to_str);
        let Some(path) = path.filter(|path| path.len() <= PATH_BYTES_MAX) else {
            self.own.unreadable += 1;
            return;
        };
        if kind.is_dir() {
            let changed = entry
                .metadata()
                .map_or(-1, |metadata| Stamp::of(&metadata).mtime_ns);
            self.own.dirs.insert(path.into(), changed);
            return;
        }
        if self.shared.seen.fetch_add(1, Ordering::Relaxed) >= self.shared.files_max {
            self.own.over += 1;
            return;
        }
        match entry.metadata() {
            Ok(metadata) => {
                self.own.files.insert(path.into(), Stamp::of(&metadata));
            }
            Err(_) => self.own.unreadable += 1,
        }
    }
}

impl Drop for Visitor<'_> {
    fn drop(&mut self) {
        let mut all = self
            .shared
            .all
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.files.append(&mut self.own.files);
        all.dirs.append(&mut self.own.dirs);
        all.unreadable += self.own.unreadable;
        all.over += self.own.over;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists a tree but for what is hidden.
    fn listed(top: &Path, start: &str, hidden: &[&str], files_max: usize) -> Listing {
        let hidden: Arc<[PathBuf]> = hidden.iter().map(|path| top.join(path)).collect();
        let bounds = WalkBounds {
            hidden: &hidden,
            files_max,
            cancel: &Cancel::new(),
        };
        // The tests ask for a folder's own entries by its name, and for the tree by none.
        list(top, start, start.is_empty(), bounds)
    }

    fn names(listing: &Listing) -> Vec<&str> {
        listing.files.keys().map(AsRef::as_ref).collect()
    }

    #[test]
    fn rules_count_where_they_stand() {
        let made = tempfile::tempdir().unwrap();
        let top = made.path();
        let write = |path: &str, text: &str| {
            let path = top.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(".gitignore", "*.log\n/build\n");
        write("a.rs", "");
        write("a.log", "");
        write("build/x.rs", "");
        write("sub/.gitignore", "!keep.log\ngone.rs\n");
        write("sub/keep.log", "");
        write("sub/gone.rs", "");
        write("sub/build/y.rs", "");
        write(".git/config", "");
        write(".git/info/exclude", "private\n");
        write("private/z.rs", "");
        write(".mcpignore", "vendored\n");
        write("vendored/v.rs", "");
        write("other/.codebaseignore", "w.rs\n");
        write("other/w.rs", "");
        write(".github/ci.yml", "");
        std::os::unix::fs::symlink(top.join("sub"), top.join("again")).unwrap();
        let listing = listed(top, "", &[], 100);
        let wanted = [
            ".github/ci.yml",
            ".gitignore",
            ".mcpignore",
            "a.rs",
            "other/.codebaseignore",
            "sub/.gitignore",
            "sub/build/y.rs",
            "sub/keep.log",
        ];
        assert_eq!(names(&listing), wanted);
        let part = listed(top, "sub", &[], 100);
        assert_eq!(names(&part), ["sub/.gitignore", "sub/keep.log"]);
        let dirs: Vec<&str> = part.dirs.keys().map(AsRef::as_ref).collect();
        assert_eq!(dirs, ["sub", "sub/build"]);
    }

    #[test]
    fn what_is_hidden_is_as_if_it_were_not_there() {
        let made = tempfile::tempdir().unwrap();
        let top = made.path();
        for path in [
            "a.rs",
            "weir.yaml",
            "state/token.key",
            "state/log/key",
            "deep/ca.pass",
            "statement.rs",
        ] {
            let path = top.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let hidden = ["state", "weir.yaml", "deep/ca.pass", "not/there"];
        let listing = listed(top, "", &hidden, 100);
        assert_eq!(names(&listing), ["a.rs", "statement.rs"]);
        assert!(!listing.dirs.contains_key("state"));
        for start in ["state", "state/log"] {
            assert!(listed(top, start, &hidden, 100).files.is_empty(), "{start}");
        }
        assert!(listed(top, "deep", &hidden, 100).files.is_empty());
    }

    #[test]
    fn a_tree_is_bounded() {
        let made = tempfile::tempdir().unwrap();
        for i in 0..20 {
            std::fs::write(made.path().join(format!("{i}.txt")), "").unwrap();
        }
        let listing = listed(made.path(), "", &[], 15);
        assert_eq!((listing.files.len(), listing.over), (15, 5));
    }
}
