//! A tree that is indexed: its files as they were last seen, what is known to have changed, and the job at work on it.
//!
//! A tree has one view at a time, which searches take and keep; whoever brings it up to date publishes the next. What is
//! kept on disk of a tree (`manifest`) only spares work: without it the files are read and hashed again.

mod manifest;
mod registry;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;

use super::api::{Result, Updates};
use super::fresh::{Dirty, Watch};
use super::index::{Entry, Family, View};

pub(super) use registry::{Registry, Row, digest};

/// A tree that is indexed.
pub(super) struct Tree {
    /// What is kept of it in the registry.
    pub row: Row,
    /// The index that it shares with its kin.
    pub family: Arc<Family>,
    /// Where its manifest is.
    manifest: PathBuf,
    view: ArcSwap<View>,
    /// What is known to have changed, and since which state it is dealt with.
    pub dirty: Mutex<Dirty>,
    applied: Condvar,
    /// What tells of changes; none where the kernel does not.
    pub watch: Mutex<Option<Watch>>,
    /// The directories that were seen, with when they changed, in nanoseconds since 1970.
    pub dirs: Mutex<BTreeMap<Box<str>, i128>>,
    /// Where the next look at files that are not watched goes on.
    pub looked: AtomicUsize,
    /// Whether somebody deals with what is known to have changed.
    pub updating: AtomicBool,
    /// The last job that was asked for.
    pub job: Mutex<Option<Updates>>,
    /// Held by whoever brings the tree up to date: one at a time.
    working: Mutex<()>,
    /// What one should know of the last walk.
    pub notes: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tree {
    /// Opens what is kept of a tree.
    ///
    /// # Errors
    ///
    /// When the index cannot be read.
    pub(super) fn open(row: Row, family: Arc<Family>, manifest: PathBuf) -> Result<Tree> {
        let kept = manifest::read(&manifest).unwrap_or_default();
        let entries = Arc::new(kept.entries);
        let (searcher, fields) = (family.searcher(), *family.fields());
        let view = View::new(1, kept.as_of, kept.walked, entries, searcher, fields)?;
        Ok(Tree {
            row,
            family,
            manifest,
            view: ArcSwap::from_pointee(view),
            dirty: Mutex::default(),
            applied: Condvar::new(),
            watch: Mutex::default(),
            dirs: Mutex::default(),
            looked: AtomicUsize::new(0),
            updating: AtomicBool::new(false),
            job: Mutex::default(),
            working: Mutex::default(),
            notes: Mutex::default(),
        })
    }

    /// The state now.
    pub(super) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// Waits for the right to bring the tree up to date.
    pub(super) fn work(&self) -> MutexGuard<'_, ()> {
        lock(&self.working)
    }

    /// Publishes the next state.
    ///
    /// # Errors
    ///
    /// When the index cannot be read; the state then stays.
    pub(super) fn publish(
        &self,
        entries: Arc<Vec<Arc<Entry>>>,
        walked: bool,
        as_of: SystemTime,
    ) -> Result<()> {
        let before = self.view();
        let view = before.next(as_of, walked, entries, self.family.searcher())?;
        self.view.store(Arc::new(view));
        Ok(())
    }

    /// Publishes the same files over what the index holds now.
    ///
    /// # Errors
    ///
    /// As [`Tree::publish`].
    pub(super) fn refresh(&self) -> Result<()> {
        let view = self.view();
        self.publish(Arc::clone(&view.entries), view.walked, view.as_of)
    }

    /// Keeps the state on disk.
    ///
    /// # Errors
    ///
    /// When it cannot be written; nothing is lost but time.
    pub(super) fn save(&self) -> Result<()> {
        manifest::write(&self.manifest, &self.view())
    }

    /// Forgets what is on disk.
    pub(super) fn erase(&self) {
        if let Err(error) = std::fs::remove_file(&self.manifest) {
            tracing::debug!(%error, "no manifest to remove");
        }
    }

    /// Whether something is known to have changed that is not dealt with: also while somebody deals with it.
    pub(super) fn is_behind(&self) -> bool {
        let dirty = lock(&self.dirty);
        dirty.is_any() || dirty.applied < dirty.known
    }

    /// Tells whoever waits that changes up to `state` are dealt with.
    pub(super) fn applied(&self, state: u64) {
        let mut dirty = lock(&self.dirty);
        dirty.applied = dirty.applied.max(state);
        self.applied.notify_all();
    }

    /// Waits until changes up to `state` are dealt with; false when that takes longer.
    pub(super) fn wait_for(&self, state: u64, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut dirty = lock(&self.dirty);
        while dirty.applied < state {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.applied.wait_timeout(dirty, left);
            dirty = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
