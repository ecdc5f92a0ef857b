//! Jobs: asked for, queued, run on threads of their own; and forgetting a tree.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::scope::bad;
use super::{Inner, Running, lock};
use crate::code::api::{Cancel, Error, IndexAsk, Job, JobState, Remove, Removed, Result, Updates};
use crate::code::fresh::Look;
use crate::code::index::Family;
use crate::code::jobs::{self, Work};
use crate::code::place;
use crate::code::time;
use crate::code::tree::{Registry, Row, Tree};

/// Jobs that are remembered.
const JOBS_MAX: usize = 100;
/// Jobs that wait or run at once.
const WAITING_MAX: usize = 64;
/// Characters of a project's or a repository's name.
const NAME_CHARS_MAX: usize = 120;

/// Asks for a job.
///
/// # Errors
///
/// As [`super::Engine::index`].
pub(super) fn index(inner: &Arc<Inner>, ask: &IndexAsk) -> Result<Job> {
    let dir = place::find(&inner.means.roots, &ask.path)?;
    if inner
        .means
        .hidden
        .iter()
        .any(|hidden| dir.starts_with(hidden))
    {
        return Err(Error::NotAllowed(ask.path.clone()));
    }
    let project = named("project", ask.project.as_deref())?.unwrap_or_else(|| "default".to_owned());
    let name = named("name", ask.name.as_deref())?;
    let tree = inner.tree_of(&project, name, &dir)?;
    let mut current = lock(&tree.job);
    if let Some(job) = current.as_ref().map(Updates::now)
        && !job.state.is_over()
    {
        return Ok(job);
    }
    let number = inner.numbers.fetch_add(1, Ordering::Relaxed);
    let started = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let id = format!("job-{:x}-{number}", started.as_millis());
    let updates = jobs::job(id, &tree, ask.force);
    let cancel = Cancel::new();
    inner.remember(&updates, &cancel)?;
    *current = Some(updates.subscribe());
    drop(current);
    let (of, tree_of, job) = (Arc::clone(inner), Arc::clone(&tree), updates.subscribe());
    let thread = std::thread::Builder::new().name("code-index".to_owned());
    let force = ask.force;
    thread
        .spawn(move || run(&of, &tree_of, force, &job, &cancel))
        .map_err(|error| Error::Busy(format!("no thread for the job: {error}")))?;
    Ok(updates.now())
}

fn named(field: &'static str, name: Option<&str>) -> Result<Option<String>> {
    let Some(name) = name.map(str::trim) else {
        return Ok(None);
    };
    let is_plain = |letter: char| !letter.is_control() && !matches!(letter, ':' | '@' | '#' | '/');
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX || !name.chars().all(is_plain) {
        return bad(
            field,
            format!("has 1 to {NAME_CHARS_MAX} characters, without `:`, `@`, `#` and `/`"),
        );
    }
    Ok(Some(name.to_owned()))
}

/// Runs a job from its turn to its end.
fn run(inner: &Arc<Inner>, tree: &Arc<Tree>, force: bool, job: &Updates, cancel: &Cancel) {
    let began = Instant::now();
    let result = match take_slot(inner, cancel) {
        false => Err(Error::Cancelled),
        true => {
            job.change(|job| {
                job.state = JobState::Running;
                job.started_at = Some(time::text(SystemTime::now()));
                "looking which files there are".clone_into(&mut job.message);
            });
            let state = {
                let mut dirty = lock(&tree.dirty);
                dirty.take();
                dirty.known
            };
            let work = Work {
                tree,
                look: Look::All,
                force,
                job,
                cancel,
            };
            let result = jobs::run(&inner.means, &work);
            if result.is_ok() {
                sweep(inner, &tree.family);
            }
            tree.applied(state);
            give_slot(inner);
            result
        }
    };
    job.change(|job| end(job, result, began.elapsed()));
    inner.bell.ring();
}

fn end(job: &mut Job, result: Result<()>, took: Duration) {
    job.took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    job.ended_at = Some(time::text(SystemTime::now()));
    job.left_ms = None;
    match result {
        Ok(()) => {
            job.state = JobState::Done;
            job.message = match (job.files_indexed, job.files_removed) {
                (0, 0) => format!("nothing changed in {} files", job.files_seen),
                (indexed, removed) => format!(
                    "{indexed} of {} files indexed in {} pieces, {removed} removed",
                    job.files_seen, job.chunks
                ),
            };
        }
        Err(Error::Cancelled) => {
            job.state = JobState::Cancelled;
            job.message = format!(
                "given up after {} of {} files; what was indexed is kept",
                job.files_done, job.files_seen
            );
        }
        Err(error) => {
            job.state = JobState::Failed;
            job.message = error.to_string();
            job.error = Some(error.to_string());
        }
    }
}

/// Waits for the turn of a job; false when it is given up before.
fn take_slot(inner: &Inner, cancel: &Cancel) -> bool {
    let (slots, freed) = &inner.slots;
    let mut used = lock(slots);
    while *used >= inner.settings.limits.jobs.max(1) {
        if cancel.is_cancelled() {
            return false;
        }
        used = freed.wait(used).unwrap_or_else(PoisonError::into_inner);
    }
    if cancel.is_cancelled() {
        return false;
    }
    *used += 1;
    true
}

fn give_slot(inner: &Inner) {
    *lock(&inner.slots.0) -= 1;
    inner.slots.1.notify_all();
}

fn sweep(inner: &Inner, family: &Arc<Family>) {
    let mut kin = inner.all_trees();
    kin.retain(|tree| Arc::ptr_eq(&tree.family, family));
    if let Err(error) = jobs::sweep(&kin) {
        tracing::warn!(%error, "an index cannot be swept");
    }
}

/// Forgets a tree.
///
/// # Errors
///
/// As [`super::Engine::remove`].
pub(super) fn remove(inner: &Inner, ask: &Remove) -> Result<Removed> {
    let found = inner.choose(
        ask.project.as_deref(),
        std::slice::from_ref(&ask.repository),
    )?;
    let [tree] = found.as_slice() else {
        return bad(
            "project",
            "is missing: several projects have a repository of that name",
        );
    };
    for running in lock(&inner.jobs).iter() {
        let job = running.updates.now();
        if (&job.repository, &job.project) == (&tree.row.name, &tree.row.project) {
            running.cancel.cancel();
        }
    }
    let _right = tree.work();
    let is_last = {
        let mut trees = inner.write_trees();
        trees.retain(|other| other.row.id != tree.row.id);
        inner.write_registry(&trees)?;
        !trees
            .iter()
            .any(|other| other.row.family == tree.row.family)
    };
    tree.erase();
    if is_last {
        lock(&inner.families).remove(&tree.row.family);
        let dir = inner.dir.join("index").join(&tree.row.family);
        std::fs::remove_dir_all(dir).map_err(|error| Error::Store(error.to_string()))?;
    }
    Ok(Removed {
        repository: tree.row.name.clone(),
        project: tree.row.project.clone(),
        files: tree.view().entries.len() as u64,
    })
}

/// What the kin of a tree have in common: their git repository, where that is below a root, or else the directory.
fn family_of(roots: &[PathBuf], dir: &Path) -> PathBuf {
    let git = dir.join(".git");
    let pointed = std::fs::read_to_string(&git).ok();
    let pointed = pointed.and_then(|text| {
        text.trim()
            .strip_prefix("gitdir:")
            .map(|at| dir.join(at.trim()))
    });
    let Some(own) = pointed else {
        return dir.to_owned();
    };
    let common = std::fs::read_to_string(own.join("commondir")).ok();
    let common = common.map(|text| own.join(text.trim()));
    let common = common.and_then(|common| common.canonicalize().ok());
    let top = common.as_deref().and_then(Path::parent);
    match top {
        Some(top) if roots.iter().any(|root| top.starts_with(root)) => top.to_owned(),
        _ => dir.to_owned(),
    }
}

impl Inner {
    /// The tree of a directory in a project; it is new when nobody asked for it before.
    fn tree_of(&self, project: &str, name: Option<String>, dir: &Path) -> Result<Arc<Tree>> {
        let mut trees = self.write_trees();
        let family = family_of(&self.means.roots, dir);
        let mut row = Row::new(project, "", dir, &family);
        if let Some(tree) = trees.iter().find(|tree| tree.row.id == row.id) {
            return match name {
                Some(name) if name != tree.row.name => bad(
                    "name",
                    format!("this directory is indexed as `{}`", tree.row.name),
                ),
                _ => Ok(Arc::clone(tree)),
            };
        }
        if trees.len() >= self.settings.limits.trees {
            return Err(Error::Busy(format!(
                "{} trees are indexed, which is the most; remove one",
                trees.len()
            )));
        }
        let taken = |name: &str| {
            trees
                .iter()
                .any(|tree| tree.row.project == project && tree.row.name == name)
        };
        row.name = match name {
            Some(name) if taken(&name) => {
                return bad(
                    "name",
                    format!("`{name}` is another repository of this project"),
                );
            }
            Some(name) => name,
            None => free_name(dir, taken),
        };
        let tree = self.open_tree(row)?;
        trees.push(Arc::clone(&tree));
        self.write_registry(&trees)?;
        Ok(tree)
    }

    fn write_registry(&self, trees: &[Arc<Tree>]) -> Result<()> {
        let registry = Registry {
            trees: trees.iter().map(|tree| tree.row.clone()).collect(),
        };
        registry.write(&self.registry())
    }

    /// Opens a tree over the index of its family.
    pub(crate) fn open_tree(&self, row: Row) -> Result<Arc<Tree>> {
        let family = {
            let mut families = lock(&self.families);
            match families.get(&row.family) {
                Some(family) => Arc::clone(family),
                None => {
                    let dir = self.dir.join("index").join(&row.family);
                    let family = Arc::new(Family::open(&dir, self.settings.limits.writer_bytes)?);
                    families.insert(row.family.clone(), Arc::clone(&family));
                    family
                }
            }
        };
        let manifest = self.dir.join(format!("{}.tree", row.id));
        Ok(Arc::new(Tree::open(row, family, manifest)?))
    }

    /// Remembers a job; forgets the oldest that is over.
    fn remember(&self, updates: &Updates, cancel: &Cancel) -> Result<()> {
        let mut jobs = lock(&self.jobs);
        let going_on = jobs
            .iter()
            .filter(|running| !running.updates.now().state.is_over());
        if going_on.count() >= WAITING_MAX {
            return Err(Error::Busy(format!("{WAITING_MAX} jobs wait already")));
        }
        if jobs.len() >= JOBS_MAX
            && let Some(over) = jobs
                .iter()
                .position(|running| running.updates.now().state.is_over())
        {
            jobs.remove(over);
        }
        jobs.push_back(Running {
            updates: updates.subscribe(),
            cancel: cancel.clone(),
        });
        Ok(())
    }
}

/// A name for a directory that no other repository has.
fn free_name(dir: &Path, taken: impl Fn(&str) -> bool) -> String {
    let name = dir
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name: String = name
        .unwrap_or_else(|| "root".to_owned())
        .chars()
        .map(|letter| match letter {
            ':' | '@' | '#' | '/' => '-',
            letter if letter.is_control() => '-',
            letter => letter,
        })
        .take(NAME_CHARS_MAX - 8)
        .collect();
    let mut free = name.clone();
    let mut number = 2;
    while taken(&free) {
        free = format!("{name}-{number}");
        number += 1;
    }
    free
}
