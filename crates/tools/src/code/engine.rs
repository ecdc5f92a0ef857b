//! The engine: the calls of code search, put together.
//!
//! It opens what a tenant has, keeps it up to date in the background, and answers from one state of each tree. A call
//! first hears what changed, waits a little until that is indexed, and never shows text that it did not just read. It
//! refuses what is not below its roots, and knows nothing of other tenants.

mod exact;
mod files;
mod fold;
mod hits;
mod keeper;
mod scope;
mod search;
mod status;
mod symbols;
mod work;

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::api::{
    Answer, Cancel, Error, FilesAnswer, FilesAsk, IndexAsk, Job, ReadAnswer, ReadAsk, Related,
    Remove, Removed, Repositories, Result, Search, Settings, Status, StatusAsk, SymbolAsk, Updates,
};
use super::index::{Family, View};
use super::jobs::{Means, Parsers};
use super::tree::{Registry, Tree, digest};

use keeper::Keeper;
use scope::Reference;

/// Characters of a tenant's name.
const TENANT_CHARS_MAX: usize = 256;
/// How long a search waits for the first walk of a tree, in milliseconds.
const WALK_MS_MAX: u64 = 2_000;

/// Code search over the trees of one tenant. Cheap to clone; every call blocks.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
    // The last one ends the background work.
    _keeper: Arc<Keeper>,
}

/// What the engine and its background work share.
pub(crate) struct Inner {
    settings: Settings,
    means: Means,
    /// The tenant's directory.
    dir: PathBuf,
    trees: RwLock<Vec<Arc<Tree>>>,
    families: Mutex<HashMap<String, Arc<Family>>>,
    jobs: Mutex<VecDeque<Running>>,
    /// Jobs that run, and what tells that one ended.
    slots: (Mutex<usize>, Condvar),
    numbers: AtomicU64,
    bell: keeper::Bell,
    embedding: Mutex<status::Embedding>,
}

/// A job that was asked for.
struct Running {
    updates: Updates,
    cancel: Cancel,
}

/// The trees that a call is about, each in one state.
pub(crate) struct Scope {
    trees: Vec<Arc<Tree>>,
    views: Vec<Arc<View>>,
    roots: Vec<PathBuf>,
    text_bytes: u64,
    /// Trees of which the view may lack something that is known to have changed.
    behind: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A path without links; as it is where nothing is there yet.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

impl Engine {
    /// Opens the index below the data directory, or makes it.
    ///
    /// # Errors
    ///
    /// When a root is no directory, or the data directory cannot be written.
    pub fn open(mut settings: Settings) -> Result<Engine> {
        let tenant = &settings.tenant;
        if tenant.is_empty() || tenant.chars().count() > TENANT_CHARS_MAX {
            let problem = format!("a tenant's name has 1 to {TENANT_CHARS_MAX} characters");
            return Err(Error::Ask {
                field: "tenant",
                problem,
            });
        }
        // Whatever the name is, the directory's is plain and its own.
        let dir = settings.data_dir.join(digest(&[tenant.as_bytes()]));
        let io = |what: &str, error: std::io::Error| Error::Io(format!("{what}: {error}"));
        for root in &mut settings.roots {
            let found = root.canonicalize();
            *root = found.map_err(|error| io(&format!("the root {}", root.display()), error))?;
        }
        std::fs::create_dir_all(&dir).map_err(|error| io("the data directory", error))?;
        let means = Means {
            roots: settings.roots.clone(),
            hidden: settings.hidden.iter().map(|path| real(path)).collect(),
            limits: settings.limits.clone(),
            parsers: Parsers::new(settings.parse.clone()),
        };
        let inner = Arc::new(Inner {
            settings,
            means,
            dir,
            trees: RwLock::default(),
            families: Mutex::default(),
            jobs: Mutex::default(),
            slots: (Mutex::new(0), Condvar::new()),
            numbers: AtomicU64::new(1),
            bell: keeper::Bell::new()?,
            embedding: Mutex::default(),
        });
        for row in Registry::read(&inner.registry())?.trees {
            // It was below a root once: nothing of it is told any more.
            if !inner
                .means
                .roots
                .iter()
                .any(|root| row.dir.starts_with(root))
            {
                continue;
            }
            match inner.open_tree(row) {
                Ok(tree) => inner.write_trees().push(tree),
                Err(error) => tracing::warn!(%error, "a tree cannot be opened"),
            }
        }
        let keeper = Arc::new(Keeper::start(&inner)?);
        // What changed while nobody was there is found by walking.
        for tree in inner.all_trees() {
            inner.note(&tree, |dirty| dirty.everything());
        }
        Ok(Engine {
            inner,
            _keeper: keeper,
        })
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Finds code.
    ///
    /// # Errors
    ///
    /// [`Error::Ask`] and its kin say how to mend the call.
    pub fn search(&self, ask: &Search, cancel: &Cancel) -> Result<Answer> {
        let trees = self
            .inner
            .choose(ask.project.as_deref(), &ask.repositories)?;
        let how = search::read(ask)?;
        self.inner.answer(&trees, cancel, |scope| {
            search::run(&self.inner, scope, ask, &how, cancel)
        })
    }

    /// Finds pieces that are like one.
    ///
    /// # Errors
    ///
    /// As [`Engine::search`]; [`Error::NoFile`] when the reference leads nowhere.
    pub fn related(&self, ask: &Related, cancel: &Cancel) -> Result<Answer> {
        let reference = Reference::read(&ask.reference)?;
        let from = self
            .inner
            .choose(None, std::slice::from_ref(&reference.repository))?;
        let project = from.first().map(|tree| tree.row.project.clone());
        let mut trees = self.inner.choose(project.as_deref(), &ask.repositories)?;
        trees.retain(|tree| from.iter().all(|from| from.row.id != tree.row.id));
        trees.splice(0..0, from.into_iter().take(1));
        self.inner.answer(&trees, cancel, |scope| {
            symbols::related(&self.inner, scope, (0, &reference), ask, cancel)
        })
    }

    /// Finds where a name is defined or used, or what a file defines.
    ///
    /// # Errors
    ///
    /// As [`Engine::search`].
    pub fn symbol(&self, ask: &SymbolAsk, cancel: &Cancel) -> Result<Answer> {
        let trees = self
            .inner
            .choose(ask.project.as_deref(), &ask.repositories)?;
        self.inner.answer(&trees, cancel, |scope| {
            symbols::run(&self.inner, scope, ask, cancel)
        })
    }

    /// Finds files by name.
    ///
    /// # Errors
    ///
    /// As [`Engine::search`].
    pub fn files(&self, ask: &FilesAsk, cancel: &Cancel) -> Result<FilesAnswer> {
        let trees = self
            .inner
            .choose(ask.project.as_deref(), &ask.repositories)?;
        let scope = self.inner.fresh(&trees, cancel)?;
        files::run(&self.inner, &scope, ask)
    }

    /// Reads lines of a file that is known.
    ///
    /// # Errors
    ///
    /// [`Error::NoFile`] when it is not known or has no such lines.
    pub fn read(&self, ask: &ReadAsk) -> Result<ReadAnswer> {
        files::read(&self.inner, ask)
    }

    /// Indexes a tree in the background, or answers the job that does it already.
    ///
    /// # Errors
    ///
    /// [`Error::NotAllowed`] outside the roots; [`Error::Busy`] when there are too many trees or jobs.
    pub fn index(&self, ask: &IndexAsk) -> Result<Job> {
        work::index(&self.inner, ask)
    }

    /// How far indexing is.
    ///
    /// # Errors
    ///
    /// [`Error::NoJob`], [`Error::NoRepository`].
    pub fn status(&self, ask: &StatusAsk) -> Result<Status> {
        status::status(&self.inner, ask)
    }

    /// Gives up a job; what it indexed is kept. A job that is over stays as it is.
    ///
    /// # Errors
    ///
    /// [`Error::NoJob`].
    pub fn cancel(&self, job: &str) -> Result<Job> {
        let jobs = lock(&self.inner.jobs);
        let found = jobs.iter().find(|running| running.updates.now().id == job);
        let running = found.ok_or_else(|| Error::NoJob(job.to_owned()))?;
        running.cancel.cancel();
        self.inner.slots.1.notify_all();
        Ok(running.updates.now())
    }

    /// The repositories that are indexed, in one project or in all.
    ///
    /// # Errors
    ///
    /// None but those of the store.
    pub fn repositories(&self, project: Option<&str>) -> Result<Repositories> {
        let trees = self.inner.all_trees();
        let of = trees
            .iter()
            .filter(|tree| project.is_none_or(|project| tree.row.project == project));
        Ok(Repositories {
            repositories: of
                .map(|tree| status::repository(&self.inner, tree))
                .collect(),
        })
    }

    /// Forgets a repository.
    ///
    /// # Errors
    ///
    /// [`Error::NoRepository`].
    pub fn remove(&self, ask: &Remove) -> Result<Removed> {
        work::remove(&self.inner, ask)
    }

    /// The states of a job as they come.
    ///
    /// # Errors
    ///
    /// [`Error::NoJob`].
    pub fn progress(&self, job: &str) -> Result<Updates> {
        let jobs = lock(&self.inner.jobs);
        let found = jobs.iter().find(|running| running.updates.now().id == job);
        let running = found.ok_or_else(|| Error::NoJob(job.to_owned()))?;
        Ok(running.updates.subscribe())
    }
}

impl Inner {
    fn registry(&self) -> PathBuf {
        self.dir.join("trees.json")
    }

    fn all_trees(&self) -> Vec<Arc<Tree>> {
        self.trees
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn write_trees(&self) -> std::sync::RwLockWriteGuard<'_, Vec<Arc<Tree>>> {
        self.trees.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The trees of a project, or those of some names.
    fn choose(&self, project: Option<&str>, names: &[String]) -> Result<Vec<Arc<Tree>>> {
        let mut trees = self.all_trees();
        trees.retain(|tree| project.is_none_or(|project| tree.row.project == project));
        let known = || {
            let names = trees.iter().map(|tree| tree.row.name.clone());
            names.take(20).collect()
        };
        let missing = match names {
            [] if trees.is_empty() => Some(project.unwrap_or("any")),
            names => {
                let there = |name: &&String| !trees.iter().any(|tree| tree.row.name == **name);
                names.iter().find(there).map(String::as_str)
            }
        };
        if let Some(asked) = missing {
            return Err(Error::NoRepository {
                asked: asked.to_owned(),
                known: known(),
            });
        }
        trees.retain(|tree| names.is_empty() || names.contains(&tree.row.name));
        Ok(trees)
    }

    /// Answers from the latest states; once more when files changed under it.
    fn answer(
        &self,
        trees: &[Arc<Tree>],
        cancel: &Cancel,
        run: impl Fn(&Scope) -> Result<hits::Made>,
    ) -> Result<Answer> {
        let began = Instant::now();
        let mut scope = self.fresh(trees, cancel)?;
        let (mut answer, changed) = run(&scope)?;
        if !changed.is_empty() {
            for (tree, path) in &changed {
                self.note(&scope.trees[*tree], |dirty| dirty.file(path));
            }
            scope = self.fresh(trees, cancel)?;
            let (again, still) = run(&scope)?;
            answer = again;
            for (tree, path) in still {
                self.note(&scope.trees[tree], |dirty| dirty.file(&path));
                scope.behind = scope.behind.max(1);
            }
        }
        answer.standing = status::standing(&scope);
        answer.took_ms = began.elapsed().as_secs_f64() * 1000.0;
        Ok(answer)
    }

    /// The latest states of trees: what is known to have changed is waited for, a little.
    fn fresh(&self, trees: &[Arc<Tree>], cancel: &Cancel) -> Result<Scope> {
        let until = Instant::now() + Duration::from_millis(self.settings.limits.wait_ms);
        let states: Vec<Option<u64>> = trees.iter().map(|tree| self.listen(tree)).collect();
        for (tree, state) in trees.iter().zip(states) {
            self.first_walk(tree, cancel)?;
            if let Some(state) = state {
                tree.wait_for(state, until.saturating_duration_since(Instant::now()));
            }
        }
        Ok(Scope {
            // Asked before the views are taken: what is dealt with by then is in them.
            behind: trees.iter().filter(|tree| tree.is_behind()).count() as u64,
            views: trees.iter().map(|tree| tree.view()).collect(),
            trees: trees.to_vec(),
            roots: self.means.roots.clone(),
            text_bytes: self.settings.limits.text_bytes,
        })
    }

    /// Waits until a tree that was just asked for was walked.
    fn first_walk(&self, tree: &Tree, cancel: &Cancel) -> Result<()> {
        if tree.view().walked {
            return Ok(());
        }
        let job = lock(&tree.job).as_ref().map(Updates::subscribe);
        let until = Instant::now() + Duration::from_millis(WALK_MS_MAX);
        if let Some(mut job) = job {
            while !tree.view().walked && Instant::now() < until && !cancel.is_cancelled() {
                if job.next_within(Duration::from_millis(20)).is_err() {
                    break;
                }
            }
        }
        match tree.view().walked {
            true => Ok(()),
            false => Err(Error::NotReady(format!(
                "`{}` is not walked yet",
                tree.row.name
            ))),
        }
    }
}

#[cfg(test)]
mod tests;
