//! Knowing that files changed: the kernel tells of it, and where it does not, a search looks for itself.
//!
//! Only directories that the walk saw are watched, so that a build below an ignored one costs nothing. What is known is
//! which directories to look at again; what changed there is found by walking them. It never takes silence for truth:
//! an overflow of the kernel's queue means that the whole tree is looked at.

use std::collections::{BTreeMap, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::io::Errno;

use super::index::View;
use super::place::{Place, Stamp};
use super::walk::RULES;

/// Directories that are looked at one by one; with more the whole tree is.
const DIRS_MAX: usize = 64;
/// Events that are read at once; the others stay in the kernel's queue, which has its own bound.
const EVENTS_MAX: usize = 65_536;
/// Bytes of the buffer for events.
const BUFFER_BYTES: usize = 32 << 10;

/// What is known to have changed.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    /// Directories to look at, with all below them or by themselves.
    dirs: BTreeMap<String, bool>,
    /// Whether to look at everything.
    all: bool,
    /// Counts what became known.
    pub known: u64,
    /// Up to where it is dealt with.
    pub applied: u64,
}

/// What to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// The whole tree.
    All,
    /// These directories, with all below them or by themselves.
    Dirs(Vec<(String, bool)>),
}

impl Dirty {
    /// Notes that a directory changed; with `deep` everything below it may have.
    pub(super) fn dir(&mut self, dir: &str, deep: bool) {
        self.known += 1;
        if self.all {
            return;
        }
        *self.dirs.entry(dir.to_owned()).or_default() |= deep;
        if self.dirs.len() > DIRS_MAX {
            self.everything();
        }
    }

    /// Notes that a file changed.
    pub(super) fn file(&mut self, path: &str) {
        self.dir(parent(path), false);
    }

    /// Notes that anything may have changed.
    pub(super) fn everything(&mut self) {
        self.known += 1;
        self.all = true;
        self.dirs.clear();
    }

    /// Notes all that another has noted.
    pub(super) fn absorb(&mut self, other: Dirty) {
        if other.all {
            self.everything();
        }
        for (dir, deep) in other.dirs {
            self.dir(&dir, deep);
        }
    }

    /// Whether anything is to be looked at.
    pub(super) fn is_any(&self) -> bool {
        self.all || !self.dirs.is_empty()
    }

    /// Hands over what is to be looked at, and the state that it stands for.
    pub(super) fn take(&mut self) -> Option<(Look, u64)> {
        if !self.is_any() {
            return None;
        }
        let look = match std::mem::take(&mut self.all) {
            true => Look::All,
            false => Look::Dirs(std::mem::take(&mut self.dirs).into_iter().collect()),
        };
        Some((look, self.known))
    }
}

/// The directory of a path.
pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

/// What the kernel tells of one tree.
pub(super) struct Watch {
    queue: Arc<OwnedFd>,
    dirs: HashMap<i32, Box<str>>,
    watched: HashMap<Box<str>, i32>,
}

impl Watch {
    /// Begins to watch nothing.
    ///
    /// # Errors
    ///
    /// When the kernel has no more queues.
    pub(super) fn new() -> rustix::io::Result<Watch> {
        Ok(Watch {
            queue: Arc::new(inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?),
            dirs: HashMap::new(),
            watched: HashMap::new(),
        })
    }

    /// What becomes readable when something happens.
    pub(super) fn queue(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.queue)
    }

    /// Watches directories of a tree, too; answers those that were not watched before.
    ///
    /// # Errors
    ///
    /// When the kernel has no more watches: the tree is then better not watched at all.
    pub(super) fn add<'d>(
        &mut self,
        root: &Path,
        dirs: impl Iterator<Item = &'d Box<str>>,
    ) -> rustix::io::Result<Vec<Box<str>>> {
        let flags = WatchFlags::CREATE
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW;
        let mut new = Vec::new();
        for dir in dirs {
            if self.watched.contains_key(dir) {
                continue;
            }
            let path = match dir.is_empty() {
                true => root.to_owned(),
                false => root.join(&**dir),
            };
            match inotify::add_watch(&*self.queue, &path, flags) {
                Ok(number) => {
                    // A directory that was moved keeps its number, and gets its new name here.
                    if let Some(before) = self.dirs.insert(number, dir.clone()) {
                        self.watched.remove(&before);
                    }
                    self.watched.insert(dir.clone(), number);
                    new.push(dir.clone());
                }
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(new)
    }

    /// Reads what happened; answers whether anything did.
    pub(super) fn drain(&mut self, dirty: &mut Dirty) -> bool {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut events = inotify::Reader::new(&*self.queue, &mut buffer);
        let mut any = false;
        let mut gone = Vec::new();
        for _ in 0..EVENTS_MAX {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(_) => break,
            };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                dirty.everything();
                any = true;
                continue;
            }
            let Some(dir) = self.dirs.get(&event.wd()) else {
                continue;
            };
            if event.events().contains(ReadFlags::IGNORED) {
                let dir = self.dirs.remove(&event.wd());
                self.watched.retain(|_, number| *number != event.wd());
                if let Some(dir) = dir.filter(|dir| !dir.is_empty()) {
                    dirty.dir(parent(&dir), false);
                    any = true;
                }
                continue;
            }
            let name = event
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            let Some(name) = name.filter(|name| name != ".git") else {
                continue;
            };
            any = true;
            dirty.dir(dir, RULES.contains(&name.as_str()));
            if !event.events().contains(ReadFlags::ISDIR) {
                continue;
            }
            // Another directory may have this name now: what was known below it says nothing.
            let below = match dir.is_empty() {
                true => name,
                false => format!("{dir}/{name}"),
            };
            dirty.dir(&below, true);
            if event
                .events()
                .intersects(ReadFlags::MOVED_FROM | ReadFlags::DELETE)
            {
                gone.push(below);
            }
        }
        for dir in gone {
            self.forget(&dir);
        }
        any
    }

    /// Watches a directory and all below it no more, because they are elsewhere now; the walk that finds them there
    /// has them watched again.
    fn forget(&mut self, dir: &str) {
        let below = format!("{dir}/");
        let is_gone = |known: &str| known == dir || known.starts_with(&below);
        let gone: Vec<Box<str>> = self
            .watched
            .keys()
            .filter(|known| is_gone(known))
            .cloned()
            .collect();
        for known in gone {
            if let Some(number) = self.watched.remove(&known) {
                self.dirs.remove(&number);
                // Of a directory that was deleted the kernel has removed it already.
                let _ = inotify::remove_watch(&*self.queue, number);
            }
        }
    }
}

/// Looks for files and directories of a view that are not as they were, for a bounded time, going on from `from`.
/// Answers where to go on.
pub(super) fn look(
    place: &Place,
    view: &View,
    dirs: &BTreeMap<Box<str>, i128>,
    from: usize,
    time: Duration,
    dirty: &mut Dirty,
) -> usize {
    let until = Instant::now() + time;
    for (dir, mtime_ns) in dirs {
        let now = stamp(place, if dir.is_empty() { "." } else { dir });
        if now.is_none_or(|now| now.mtime_ns != *mtime_ns) {
            dirty.dir(if now.is_some() { dir } else { parent(dir) }, false);
        }
    }
    let count = view.entries.len();
    for step in 0..count {
        let at = (from + step) % count;
        let entry = &view.entries[at];
        if entry.racy || stamp(place, &entry.path) != Some(entry.stamp) {
            dirty.file(&entry.path);
        }
        if step % 64 == 63 && Instant::now() >= until {
            return (at + 1) % count;
        }
    }
    0
}

/// The stamp of a file or directory, links not followed.
pub(super) fn stamp(place: &Place, path: &str) -> Option<Stamp> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let found = statx(place, path, flags, StatxFlags::BASIC_STATS).ok()?;
    let ns = |at: rustix::fs::StatxTimestamp| {
        i128::from(at.tv_sec) * 1_000_000_000 + i128::from(at.tv_nsec)
    };
    Some(Stamp {
        bytes: found.stx_size,
        mtime_ns: ns(found.stx_mtime),
        ctime_ns: ns(found.stx_ctime),
        inode: found.stx_ino,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_told_by_directory() {
        let made = tempfile::tempdir().unwrap();
        let top = made.path();
        std::fs::create_dir(top.join("sub")).unwrap();
        let mut watch = Watch::new().unwrap();
        let new = watch.add(top, ["".into(), "sub".into()].iter()).unwrap();
        assert_eq!(new.len(), 2);
        assert!(watch.add(top, ["sub".into()].iter()).unwrap().is_empty());
        let mut dirty = Dirty::default();
        assert!(!watch.drain(&mut dirty));
        std::fs::write(top.join("sub/a.rs"), "").unwrap();
        assert!(watch.drain(&mut dirty));
        let (look, state) = dirty.take().unwrap();
        assert_eq!(look, Look::Dirs(vec![("sub".to_owned(), false)]));
        assert_eq!((state, dirty.is_any()), (dirty.known, false));
        std::fs::write(top.join(".gitignore"), "").unwrap();
        watch.drain(&mut dirty);
        let (look, _) = dirty.take().unwrap();
        assert_eq!(look, Look::Dirs(vec![(String::new(), true)]));
    }

    #[test]
    fn another_directory_of_the_same_name_is_another() {
        let made = tempfile::tempdir().unwrap();
        let top = made.path();
        std::fs::create_dir_all(top.join("sub/deep")).unwrap();
        let dirs: [Box<str>; 3] = ["".into(), "sub".into(), "sub/deep".into()];
        let mut watch = Watch::new().unwrap();
        watch.add(top, dirs.iter()).unwrap();
        std::fs::rename(top.join("sub"), top.join("zzz")).unwrap();
        std::fs::create_dir_all(top.join("sub/deep")).unwrap();
        let mut dirty = Dirty::default();
        watch.drain(&mut dirty);
        let (look, _) = dirty.take().unwrap();
        let Look::Dirs(looked) = look else {
            panic!("some directories");
        };
        assert!(
            looked.contains(&("sub".to_owned(), true))
                && looked.contains(&("zzz".to_owned(), true))
        );
        let new = watch.add(top, dirs.iter()).unwrap();
        assert_eq!(new.len(), 2);
        std::fs::write(top.join("sub/deep/a.rs"), "").unwrap();
        assert!(watch.drain(&mut dirty));
        assert_eq!(
            dirty.take().unwrap().0,
            Look::Dirs(vec![("sub/deep".to_owned(), false)])
        );
    }

    #[test]
    fn many_directories_are_the_whole_tree() {
        let mut dirty = Dirty::default();
        for i in 0..=DIRS_MAX {
            dirty.dir(&i.to_string(), false);
        }
        assert_eq!(dirty.take().unwrap().0, Look::All);
        assert!(dirty.take().is_none());
    }
}
