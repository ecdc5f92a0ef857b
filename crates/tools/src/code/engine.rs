//! The engine: the calls of code search, put together.

use super::api::{
    Answer, Cancel, Error, FilesAnswer, FilesAsk, IndexAsk, Job, ReadAnswer, ReadAsk, Related,
    Remove, Removed, Repositories, Result, Search, Settings, Status, StatusAsk, SymbolAsk, Updates,
};

/// Code search over the trees of one tenant. Cheap to clone; every call blocks.
#[derive(Clone)]
pub struct Engine {
    settings: std::sync::Arc<Settings>,
}

fn not_yet<T>() -> Result<T> {
    Err(Error::NotReady("not built yet".to_owned()))
}

impl Engine {
    /// Opens the index below the data directory, or makes it.
    ///
    /// # Errors
    ///
    /// When a root is no directory, or the data directory cannot be written.
    pub fn open(settings: Settings) -> Result<Engine> {
        Ok(Engine {
            settings: std::sync::Arc::new(settings),
        })
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Finds code.
    ///
    /// # Errors
    ///
    /// [`Error::Ask`] and its kin say how to mend the call.
    pub fn search(&self, _ask: &Search, _cancel: &Cancel) -> Result<Answer> {
        not_yet()
    }

    /// Finds pieces that are like one.
    ///
    /// # Errors
    ///
    /// As [`Engine::search`]; [`Error::NoFile`] when the reference leads nowhere.
    pub fn related(&self, _ask: &Related, _cancel: &Cancel) -> Result<Answer> {
        not_yet()
    }

    /// Finds where a name is defined or used, or what a file defines.
    ///
    /// # Errors
    ///
    /// As [`Engine::search`].
    pub fn symbol(&self, _ask: &SymbolAsk, _cancel: &Cancel) -> Result<Answer> {
        not_yet()
    }

    /// Finds files by name.
    ///
    /// # Errors
    ///
    /// As [`Engine::search`].
    pub fn files(&self, _ask: &FilesAsk, _cancel: &Cancel) -> Result<FilesAnswer> {
        not_yet()
    }

    /// Reads lines of a file that is known.
    ///
    /// # Errors
    ///
    /// [`Error::NoFile`] when it is not known or has no such lines.
    pub fn read(&self, _ask: &ReadAsk) -> Result<ReadAnswer> {
        not_yet()
    }

    /// Indexes a tree in the background, or answers the job that does it already.
    ///
    /// # Errors
    ///
    /// [`Error::NotAllowed`] outside the roots; [`Error::Busy`] when there are too many trees or jobs.
    pub fn index(&self, _ask: &IndexAsk) -> Result<Job> {
        not_yet()
    }

    /// How far indexing is.
    ///
    /// # Errors
    ///
    /// [`Error::NoJob`], [`Error::NoRepository`].
    pub fn status(&self, _ask: &StatusAsk) -> Result<Status> {
        not_yet()
    }

    /// Gives up a job; what it indexed is kept. A job that is over stays as it is.
    ///
    /// # Errors
    ///
    /// [`Error::NoJob`].
    pub fn cancel(&self, _job: &str) -> Result<Job> {
        not_yet()
    }

    /// The repositories that are indexed, in one project or in all.
    ///
    /// # Errors
    ///
    /// None but those of the store.
    pub fn repositories(&self, _project: Option<&str>) -> Result<Repositories> {
        not_yet()
    }

    /// Forgets a repository.
    ///
    /// # Errors
    ///
    /// [`Error::NoRepository`].
    pub fn remove(&self, _ask: &Remove) -> Result<Removed> {
        not_yet()
    }

    /// The states of a job as they come.
    ///
    /// # Errors
    ///
    /// [`Error::NoJob`].
    pub fn progress(&self, _job: &str) -> Result<Updates> {
        not_yet()
    }
}
