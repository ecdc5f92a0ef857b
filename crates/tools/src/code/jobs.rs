//! Bringing a tree up to date: walk, read what changed, parse what is new, write it, and publish on the way.
//!
//! Answers come from the first seconds on: what is not indexed yet is pending, and counted. A job that is given up or
//! killed loses nothing that was committed; the next one finds it there and goes on. It refuses to believe names: each
//! file is opened below the root of its tree ([`Place`]) and only then read.

mod lane;
mod parsers;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::api::{Cancel, Error, Job, Limits, Result, Updates};
use super::fresh::{Look, Watch};
use super::index::{Depth, Entry, UnitId, View};
use super::place::{Place, Stamp};
use super::tree::Tree;
use super::walk::{self, Listing};

pub(super) use lane::is_binary;
pub(super) use parsers::Parsers;

/// When the first part is published, in milliseconds. Each next one comes after twice the time, because each makes
/// pieces of the index that are joined later.
const PUBLISH_MS: u64 = 1_000;
/// The longest time between two parts, in milliseconds.
const PUBLISH_MS_MAX: u64 = 30_000;
/// How long before the end of a job one part more is published.
const END: Duration = Duration::from_secs(1);
/// Files that a job looks at before it is worth to publish parts, and the share of the tree, as one of so many files:
/// where most is known already, one part less is made sooner.
const PARTS_FILES_MIN: usize = 500;
const PARTS_ONE_OF: usize = 4;
/// Threads of a job for each processor, of so many: while some wait for parsers, the others read and write.
const LANES: usize = 2;
const PROCESSORS_MAX: usize = 4;
/// Files for which another thread is worth it.
const LANE_FILES_MIN: usize = 8;
/// Units of no tree that are kept, besides as many as the trees have: branches come back.
const SPARE_UNITS: usize = 20_000;

/// What every job needs.
pub(super) struct Means {
    /// Where files may be read.
    pub roots: Vec<PathBuf>,
    /// What below them is not looked at.
    pub hidden: Arc<[PathBuf]>,
    /// Bounds.
    pub limits: Limits,
    /// Where files are parsed.
    pub parsers: Parsers,
}

/// What a job is to do.
pub(super) struct Work<'a> {
    /// The tree.
    pub tree: &'a Tree,
    /// What to look at.
    pub look: Look,
    /// Whether everything is parsed again.
    pub force: bool,
    /// How far it is.
    pub job: &'a Updates,
    /// Given up when this is.
    pub cancel: &'a Cancel,
}

/// A file that was listed, with what was known of it.
struct Listed {
    path: Box<str>,
    stamp: Stamp,
    before: Option<Arc<Entry>>,
}

/// Brings a tree up to date.
///
/// # Errors
///
/// [`Error::Cancelled`] when it was given up, after what was done is published; [`Error::NotAllowed`] and
/// [`Error::Io`] when the tree cannot be read, [`Error::Store`] when the index cannot be written.
pub(super) fn run(means: &Means, work: &Work<'_>) -> Result<()> {
    let _right = work.tree.work();
    let tree = work.tree;
    let place = Place::open(&means.roots, &tree.row.dir)?;
    if !place.is_same() {
        return Err(Error::Io(
            "the tree was replaced while it was opened".to_owned(),
        ));
    }
    let as_of = SystemTime::now();
    let before = tree.view();
    let (listing, look) = list(means, work, &place, &before);
    if work.cancel.is_cancelled() {
        return Err(Error::Cancelled);
    }
    remember_dirs(tree, &listing, &look, as_of);
    watch(means, tree, &listing, &look);
    let (mut entries, todo) = sort_out(work, &before, listing);
    report_walk(work.job, &entries, &todo, &before);
    let is_same = todo.is_empty() && entries.len() == before.entries.len();
    if is_same && before.pending() == 0 && before.walked {
        tree.publish(Arc::clone(&before.entries), true, as_of)?;
        return Ok(());
    }
    let done = index(means, work, &place, as_of, &mut entries, todo)?;
    tree.family.commit()?;
    let whole = Arc::new(entries.into_values().collect());
    tree.publish(whole, true, as_of)?;
    tree.save()?;
    done
}

/// Lists what the job looks at, and says what that was. Of a part of the tree, all else is listed as it was.
fn list(means: &Means, work: &Work<'_>, place: &Place, before: &View) -> (Listing, Look) {
    let dir = &work.tree.row.dir;
    let bounds = walk::WalkBounds {
        hidden: &means.hidden,
        files_max: means.limits.files,
        cancel: work.cancel,
    };
    let whole = || (walk::list(dir, "", true, bounds), Look::All);
    let dirs = match &work.look {
        Look::Dirs(dirs) if before.walked => dirs,
        _ => return whole(),
    };
    let known = work.tree.dirs.lock();
    let known = known.unwrap_or_else(PoisonError::into_inner).clone();
    // Where a walk begins, no rule is asked: what the last walk did not see may be ignored by now, or a link.
    let can_begin = |start: &str| known.contains_key(start) && place.has_dir(start);
    let dirs: Vec<(String, bool)> = dirs
        .iter()
        .filter(|dir| can_begin(&dir.0))
        .cloned()
        .collect();
    let mut listing = Listing::default();
    for (start, deep) in &dirs {
        let mut part = walk::list(dir, start, *deep, bounds);
        // Directories that nobody has seen yet are walked whole.
        let unseen = part
            .dirs
            .keys()
            .filter(|seen| !*deep && !known.contains_key(*seen));
        let unseen: Vec<Box<str>> = unseen.cloned().collect();
        for start in unseen {
            let mut more = walk::list(dir, &start, true, bounds);
            part.files.append(&mut more.files);
            part.dirs.append(&mut more.dirs);
        }
        listing.files.append(&mut part.files);
        listing.dirs.append(&mut part.dirs);
        listing.unreadable += part.unreadable;
        listing.over += part.over;
    }
    let subdirs: HashSet<&str> = listing.dirs.keys().map(AsRef::as_ref).collect();
    let mut rest = Vec::new();
    for entry in before.entries.iter() {
        let looked_at = is_looked_at(&entry.path, &dirs, &subdirs);
        if !looked_at {
            rest.push((entry.path.clone(), entry.stamp));
        } else if walk::is_rule(&entry.path) && listing.files.get(&entry.path) != Some(&entry.stamp)
        {
            // Other rules, other files, perhaps far from here.
            return whole();
        }
    }
    let is_new = |path: &str| walk::is_rule(path) && before.entry(path).is_none();
    if listing.files.keys().any(|path| is_new(path)) {
        return whole();
    }
    listing.files.extend(rest);
    (listing, work.look.clone())
}

/// Whether a walk of `dirs`, which saw `subdirs`, would have seen a file if it were there.
fn is_looked_at(path: &str, dirs: &[(String, bool)], subdirs: &HashSet<&str>) -> bool {
    let dir = super::fresh::parent(path);
    dirs.iter().any(|(looked, deep)| {
        if dir == looked {
            return true;
        }
        let below = match looked.is_empty() {
            true => Some(dir),
            false => dir
                .strip_prefix(looked.as_str())
                .and_then(|rest| rest.strip_prefix('/')),
        };
        let Some(below) = below else {
            return false;
        };
        // Without its own directory in the listing, the file went with it.
        let first = below.split('/').next().unwrap_or(below);
        let child = match looked.is_empty() {
            true => first.to_owned(),
            false => format!("{looked}/{first}"),
        };
        *deep || !subdirs.contains(child.as_str())
    })
}

/// Remembers when directories changed, for trees that are not watched. One that changed just now may change again
/// without showing it, and is looked at again.
fn remember_dirs(tree: &Tree, listing: &Listing, look: &Look, as_of: SystemTime) {
    let mut dirs = tree.dirs.lock().unwrap_or_else(PoisonError::into_inner);
    if *look == Look::All {
        dirs.clear();
    }
    for (dir, mtime_ns) in &listing.dirs {
        let stamp = Stamp {
            mtime_ns: *mtime_ns,
            ..Stamp::default()
        };
        let known = if stamp.is_racy(as_of) { -1 } else { *mtime_ns };
        dirs.insert(dir.clone(), known);
    }
    dirs.retain(|dir, _| dir.is_empty() || tree.row.dir.join(&**dir).is_dir());
}

/// Watches the directories that were seen; those that are new are looked at once more, because something may have
/// happened in them before they were watched.
fn watch(means: &Means, tree: &Tree, listing: &Listing, look: &Look) {
    if !means.limits.watch {
        return;
    }
    let mut watch = tree.watch.lock().unwrap_or_else(PoisonError::into_inner);
    if watch.is_none() {
        if *look != Look::All {
            return;
        }
        *watch = Watch::new().ok();
    }
    let Some(watching) = watch.as_mut() else {
        return;
    };
    match watching.add(&tree.row.dir, listing.dirs.keys()) {
        Ok(new) => {
            let mut dirty = tree.dirty.lock().unwrap_or_else(PoisonError::into_inner);
            for dir in new {
                dirty.dir(&dir, false);
            }
        }
        Err(error) => {
            tracing::warn!(%error, "a tree cannot be watched; each search looks at it");
            *watch = None;
        }
    }
}

/// Which files are as they were, and which are to be read.
fn sort_out(
    work: &Work<'_>,
    before: &View,
    listing: Listing,
) -> (BTreeMap<Box<str>, Arc<Entry>>, Vec<Listed>) {
    let mut notes = Vec::new();
    if listing.unreadable > 0 {
        notes.push(format!("{} names could not be read", listing.unreadable));
    }
    if listing.over > 0 {
        notes.push(format!(
            "{} files are over the most that a tree may have",
            listing.over
        ));
    }
    *work
        .tree
        .notes
        .lock()
        .unwrap_or_else(PoisonError::into_inner) = notes;
    let mut entries = BTreeMap::new();
    let mut todo = Vec::new();
    let mut old = before.entries.iter().enumerate().peekable();
    for (path, stamp) in listing.files {
        while old.next_if(|(_, entry)| *entry.path < *path).is_some() {}
        let known = old.next_if(|(_, entry)| *entry.path == *path);
        if let Some((at, entry)) = known {
            let is_same = entry.stamp == stamp && !entry.racy && before.is_ready(at);
            if is_same && !work.force {
                entries.insert(path, Arc::clone(entry));
                continue;
            }
        }
        let before = known.map(|(_, entry)| Arc::clone(entry));
        let pending = Entry::unseen(&path, stamp);
        entries.insert(path.clone(), Arc::new(pending));
        todo.push(Listed {
            path,
            stamp,
            before,
        });
    }
    (entries, todo)
}

fn report_walk(
    job: &Updates,
    entries: &BTreeMap<Box<str>, Arc<Entry>>,
    todo: &[Listed],
    before: &View,
) {
    let gone = before
        .entries
        .iter()
        .filter(|entry| !entries.contains_key(&entry.path));
    let gone = gone.count() as u64;
    job.change(|job| {
        job.walked = true;
        job.files_seen = entries.len() as u64;
        job.files_done = (entries.len() - todo.len()) as u64;
        job.files_unchanged = job.files_done;
        job.files_removed = gone;
        job.message = format!("reading {} of {} files", todo.len(), entries.len());
    });
}

/// What the threads of a job share.
struct Shared<'a> {
    means: &'a Means,
    work: &'a Work<'a>,
    place: &'a Place,
    as_of: SystemTime,
    began: Instant,
    todo: Vec<Listed>,
    next: AtomicUsize,
    done: Mutex<Vec<Arc<Entry>>>,
    failed: Mutex<Option<Error>>,
    left: AtomicUsize,
}

impl Shared<'_> {
    /// Whether little is left, as far as can be told from how many files were taken until now.
    fn ends_soon(&self) -> bool {
        let taken = self.next.load(Ordering::Relaxed).min(self.todo.len());
        let left = self.todo.len() - taken;
        self.began.elapsed().saturating_mul(left as u32) <= END.saturating_mul(taken as u32)
    }
}

/// Reads, parses and writes what is to be done, on several threads, and publishes parts meanwhile. The outer error is
/// of the store; the inner one tells that it was given up.
fn index(
    means: &Means,
    work: &Work<'_>,
    place: &Place,
    as_of: SystemTime,
    entries: &mut BTreeMap<Box<str>, Arc<Entry>>,
    todo: Vec<Listed>,
) -> Result<Result<()>> {
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let lanes = (processors.min(PROCESSORS_MAX) * LANES).min(todo.len().div_ceil(LANE_FILES_MIN));
    let lanes = lanes.max(1);
    let parts = todo.len() >= PARTS_FILES_MIN && todo.len() >= entries.len() / PARTS_ONE_OF;
    let shared = Shared {
        means,
        work,
        place,
        as_of,
        began: Instant::now(),
        todo,
        next: AtomicUsize::new(0),
        done: Mutex::default(),
        failed: Mutex::default(),
        left: AtomicUsize::new(lanes),
    };
    if parts {
        // What is known by name can be found by name and text from now on.
        work.tree
            .publish(Arc::new(entries.values().cloned().collect()), true, as_of)?;
    }
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| lane::run(&shared));
        }
        if parts {
            publish_parts(&shared, entries);
        }
    });
    take_done(&shared, entries);
    let failed = shared
        .failed
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    match failed {
        Some(Error::Cancelled) => Ok(Err(Error::Cancelled)),
        Some(error) => Err(error),
        None => Ok(Ok(())),
    }
}

fn take_done(shared: &Shared<'_>, entries: &mut BTreeMap<Box<str>, Arc<Entry>>) {
    let done = std::mem::take(&mut *shared.done.lock().unwrap_or_else(PoisonError::into_inner));
    for entry in done {
        match entry.about.depth {
            // It was deleted between the walk and the reading.
            Depth::Pending => entries.remove(&entry.path),
            _ => entries.insert(entry.path.clone(), entry),
        };
    }
}

fn publish_parts(shared: &Shared<'_>, entries: &mut BTreeMap<Box<str>, Arc<Entry>>) {
    let (mut wait, mut is_early) = (Duration::from_millis(PUBLISH_MS), false);
    loop {
        let last = Instant::now();
        // One part is made early, shortly before the end, since nobody else works while the last one is written.
        let is_due = || {
            let early = !is_early && last.elapsed() >= END && shared.ends_soon();
            early || last.elapsed() >= wait
        };
        while !is_due() {
            if shared.left.load(Ordering::Acquire) == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        is_early |= last.elapsed() < wait;
        wait = (wait * 2).min(Duration::from_millis(PUBLISH_MS_MAX));
        take_done(shared, entries);
        let tree = shared.work.tree;
        let entries = Arc::new(entries.values().cloned().collect());
        let published = tree
            .family
            .commit()
            .and_then(|()| tree.publish(entries, true, shared.as_of));
        if let Err(error) = published {
            tracing::warn!(%error, "a part of an index cannot be published");
        }
    }
}

/// Takes units that no tree has out of an index, when there are too many of them.
///
/// # Errors
///
/// When the index cannot be written.
pub(super) fn sweep(trees: &[Arc<Tree>]) -> Result<()> {
    let Some(first) = trees.first() else {
        return Ok(());
    };
    let live: HashSet<UnitId> = trees
        .iter()
        .flat_map(|tree| {
            tree.view()
                .entries
                .iter()
                .map(|entry| entry.unit)
                .collect::<Vec<_>>()
        })
        .collect();
    if first.family.count() <= live.len() * 2 + SPARE_UNITS {
        return Ok(());
    }
    let spare = first.family.spare(&live);
    first.family.forget(&spare)?;
    first.family.commit()
}

/// A job that has just been asked for.
pub(super) fn job(id: String, tree: &Tree, force: bool) -> Updates {
    Updates::new(Job {
        id,
        repository: tree.row.name.clone(),
        project: tree.row.project.clone(),
        message: "waits for its turn".to_owned(),
        force,
        created_at: super::time::text(SystemTime::now()),
        ..Job::default()
    })
}
