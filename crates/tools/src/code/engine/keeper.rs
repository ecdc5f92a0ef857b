//! The background: hears of changes, brings trees up to date, closes what nobody uses, and makes vectors.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::{Inner, lock, status};
use crate::code::api::{Cancel, Error, Job, Result, Updates};
use crate::code::fresh::{Dirty, look};
use crate::code::jobs::{self, Work};
use crate::code::place::Place;
use crate::code::tree::Tree;

/// How often it is looked whether something can be closed, in milliseconds, while something is open.
const REST_MS: i64 = 1_000;
/// How long changes are gathered before they are dealt with, in milliseconds.
const GATHER_MS: u64 = 15;

/// Wakes the keeper.
pub(super) struct Bell {
    rung: OwnedFd,
}

impl Bell {
    pub(super) fn new() -> Result<Bell> {
        let rung = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let rung = rung.map_err(|error| Error::Io(format!("an event descriptor: {error}")))?;
        Ok(Bell { rung })
    }

    pub(super) fn ring(&self) {
        // A full counter is one that was rung.
        let _ = rustix::io::write(&self.rung, &1u64.to_ne_bytes());
    }

    fn quiet(&self) {
        let _ = rustix::io::read(&self.rung, &mut [0u8; 8]);
    }
}

/// The thread of the keeper; it ends when this is dropped.
pub(super) struct Keeper {
    ended: Arc<AtomicBool>,
    inner: Weak<Inner>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub(super) fn start(inner: &Arc<Inner>) -> Result<Keeper> {
        let ended = Arc::new(AtomicBool::new(false));
        let (of, end) = (Arc::clone(inner), Arc::clone(&ended));
        let thread = std::thread::Builder::new().name("code-keeper".to_owned());
        let thread = thread.spawn(move || run(&of, &end));
        let thread = thread.map_err(|error| Error::Io(format!("a thread: {error}")))?;
        Ok(Keeper {
            ended,
            inner: Arc::downgrade(inner),
            thread: Some(thread),
        })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(inner) = self.inner.upgrade() {
            for running in lock(&inner.jobs).iter() {
                running.cancel.cancel();
            }
            inner.slots.1.notify_all();
            inner.bell.ring();
        }
        if let Some(thread) = self.thread.take() {
            // A keeper that panicked has said so already.
            let _ = thread.join();
        }
    }
}

fn run(inner: &Arc<Inner>, ended: &AtomicBool) {
    while !ended.load(Ordering::Acquire) {
        let trees = inner.all_trees();
        wait(inner, &trees);
        inner.bell.quiet();
        for tree in &trees {
            hear(tree);
            if !ended.load(Ordering::Acquire) {
                update(inner, tree);
            }
        }
        rest(inner);
        status::embed(inner, ended);
    }
}

/// Waits until something happens in a watched tree, the bell rings, or there may be something to close.
fn wait(inner: &Inner, trees: &[Arc<Tree>]) {
    let queues: Vec<Arc<OwnedFd>> = trees
        .iter()
        .filter_map(|tree| lock(&tree.watch).as_ref().map(|watch| watch.queue()))
        .collect();
    let mut waited = vec![PollFd::new(&inner.bell.rung, PollFlags::IN)];
    waited.extend(
        queues
            .iter()
            .map(|queue| PollFd::new(&**queue, PollFlags::IN)),
    );
    let open = lock(&inner.families)
        .values()
        .any(|family| family.is_writing());
    let open = open || inner.means.parsers.is_open();
    let rest = Timespec {
        tv_sec: if open { REST_MS / 1000 } else { 60 },
        tv_nsec: 0,
    };
    // What interrupts it is as good as what it waited for.
    let _ = poll(&mut waited, Some(&rest));
}

/// Reads what happened in a tree.
fn hear(tree: &Tree) {
    let mut watch = lock(&tree.watch);
    if let Some(watch) = watch.as_mut() {
        watch.drain(&mut lock(&tree.dirty));
    }
}

/// Deals with what changed in a tree, on a thread of its own, unless somebody does already.
fn update(inner: &Arc<Inner>, tree: &Arc<Tree>) {
    if !lock(&tree.dirty).is_any() || tree.updating.swap(true, Ordering::AcqRel) {
        return;
    }
    let (of, tree_of) = (Arc::clone(inner), Arc::clone(tree));
    let thread = std::thread::Builder::new().name("code-update".to_owned());
    let spawned = thread.spawn(move || {
        // Whoever changes one file often changes a few.
        std::thread::sleep(Duration::from_millis(GATHER_MS));
        catch_up(&of, &tree_of);
        tree_of.updating.store(false, Ordering::Release);
        if lock(&tree_of.dirty).is_any() {
            of.bell.ring();
        }
    });
    if spawned.is_err() {
        tree.updating.store(false, Ordering::Release);
    }
}

fn catch_up(inner: &Inner, tree: &Tree) {
    let Some((look, state)) = lock(&tree.dirty).take() else {
        return;
    };
    let job = Updates::new(Job::default());
    let cancel = Cancel::new();
    let work = Work {
        tree,
        look,
        force: false,
        job: &job,
        cancel: &cancel,
    };
    if let Err(error) = jobs::run(&inner.means, &work) {
        tracing::warn!(%error, tree = %tree.row.name, "a tree cannot be brought up to date");
        *lock(&tree.notes) = vec![format!(
            "since {}: {error}",
            crate::code::time::text(SystemTime::now())
        )];
    }
    tree.applied(state);
}

/// Closes writers that nobody uses, and lets go of segments that were merged.
fn rest(inner: &Inner) {
    inner.means.parsers.rest();
    let families: Vec<_> = lock(&inner.families)
        .iter()
        .map(|(id, family)| (id.clone(), Arc::clone(family)))
        .collect();
    for (id, family) in families {
        if !family.rest() {
            continue;
        }
        for tree in inner
            .all_trees()
            .iter()
            .filter(|tree| tree.row.family == id)
        {
            let _right = tree.work();
            if let Err(error) = tree.refresh() {
                tracing::warn!(%error, "an index cannot be read again");
            }
        }
    }
}

impl Inner {
    /// Notes a change, and has it dealt with.
    pub(crate) fn note(&self, tree: &Tree, change: impl FnOnce(&mut Dirty)) {
        change(&mut lock(&tree.dirty));
        self.bell.ring();
    }

    /// Finds out what changed in a tree; answers the state to wait for, if any.
    pub(crate) fn listen(&self, tree: &Tree) -> Option<u64> {
        let watched = {
            let mut watch = lock(&tree.watch);
            watch
                .as_mut()
                .map(|watch| watch.drain(&mut lock(&tree.dirty)))
                .is_some()
        };
        let view = tree.view();
        if !watched && view.walked && !lock(&tree.dirty).is_any() {
            let time = Duration::from_millis(self.settings.limits.check_ms);
            if let Ok(place) = Place::open(&self.means.roots, &tree.row.dir) {
                let from = tree.looked.load(Ordering::Relaxed);
                let dirs = lock(&tree.dirs).clone();
                let mut found = Dirty::default();
                let next = look(&place, &view, &dirs, from, time, &mut found);
                tree.looked.store(next, Ordering::Relaxed);
                lock(&tree.dirty).absorb(found);
            }
        }
        // While a job is at work it is not waited for: what is pending is said.
        let busy = lock(&tree.job)
            .as_ref()
            .is_some_and(|job| !job.now().state.is_over());
        let dirty = lock(&tree.dirty);
        if dirty.applied >= dirty.known || busy {
            return None;
        }
        self.bell.ring();
        Some(dirty.known)
    }
}
