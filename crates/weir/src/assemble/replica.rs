//! A gateway as one of several: what it shares, and the two threads that see to it.

use std::sync::{Arc, Mutex, PoisonError};

use base::Refusal;
use store::Log;
use store::directory::{DirectoryBook, DirectoryFile};
use store::replica::directory::{ReplicaWords, SharedDirectory, Watching, watch};
use store::replica::{Begun, Joining, Shipping, StoreStanding};

use crate::config::Settings;
use crate::health::ReplicaHealth;
use crate::ports::Known;

/// Looks at the store, takes the replica's name, and puts what is shared into the state folder. Nothing without a store.
pub(super) fn join(settings: &Settings) -> Result<Option<Begun>, String> {
    let Some(store) = &settings.store else {
        return Ok(None);
    };
    let joining = Joining {
        target: &store.target,
        trust_domain: trust_domain(settings),
        replica: &store.replica,
        passphrase: &store.passphrase,
        state: &settings.state,
    };
    let begun = Begun::join(&joining);
    begun.map(Some).map_err(|error| format!("store: {error}"))
}

fn trust_domain(settings: &Settings) -> Option<&str> {
    let identity = settings.identity.as_ref();
    identity.map(|identity| identity.trust_domain.as_str())
}

/// A gateway that shares a store.
pub(crate) struct Replica {
    name: String,
    before: Option<String>,
    standing: Arc<StoreStanding>,
    shipping: Mutex<Option<Shipping>>,
    directory: SharedDirectory,
    watching: Mutex<Option<Watching>>,
    book: DirectoryBook,
    mirror: DirectoryFile,
}

impl Replica {
    /// Finds this log's place in the store, and begins to ship it and to watch the directory. The error is for the operator.
    pub(super) fn start(
        begun: Begun,
        settings: &Settings,
        log: &Arc<Log>,
    ) -> Result<Replica, String> {
        let Some(store) = &settings.store else {
            return Err("there is no store".to_owned());
        };
        let before = begun
            .attach(log)
            .map_err(|error| format!("store: {error}"))?;
        let standing = Arc::new(StoreStanding::new(store.outage_max));
        let domain = trust_domain(settings);
        let boot = format!("{}-{}", std::process::id(), crate::ports::now().unix_ms);
        let words = ReplicaWords {
            replica: store.replica.as_str(),
            boot: &boot,
            version: env!("CARGO_PKG_VERSION"),
            trust_domain: domain,
        };
        let thread = |error: std::io::Error| format!("a thread: {error}");
        let book = begun.book.clone();
        let (directory, watching) = watch(&store.target, &words, log, &standing).map_err(thread)?;
        let shipping = Shipping::start(begun, domain, log, &standing).map_err(thread)?;
        tracing::info!(replica = store.replica.as_str(), store = %store.target, before = before.as_deref().unwrap_or("-"), "shares a store");
        Ok(Replica {
            name: store.replica.as_str().to_owned(),
            before,
            standing,
            shipping: Mutex::new(Some(shipping)),
            directory,
            watching: Mutex::new(Some(watching)),
            book,
            mirror: DirectoryFile::of_state(&settings.state),
        })
    }

    /// The log that this replica wrote on another disk.
    pub(super) fn before(&self) -> Option<&str> {
        self.before.as_deref()
    }

    pub(crate) fn standing(&self) -> Arc<StoreStanding> {
        Arc::clone(&self.standing)
    }

    /// Entries of the log that are not in the store yet.
    pub(crate) fn behind(&self, log: &Log) -> u64 {
        log.size().saturating_sub(self.standing.shipped())
    }

    pub(crate) fn health(&self, log: &Log) -> ReplicaHealth {
        ReplicaHealth {
            name: self.name.clone(),
            behind: self.behind(log),
            standing: self.standing(),
        }
    }

    /// Ships the end of a log that was closed.
    pub(super) fn close(&self) {
        let take =
            |of: &Mutex<Option<Shipping>>| of.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(
            self.watching
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        if let Some(shipping) = take(&self.shipping) {
            shipping.close();
        }
    }
}

/// What the directory is written by.
#[derive(Clone)]
pub(crate) enum DirectoryKeeper {
    /// A file of the state folder.
    File(DirectoryFile),
    /// The store that replicas share; the file is a copy for commands that read it.
    Shared(SharedDirectory),
}

impl DirectoryKeeper {
    /// That of these settings, with what it holds now in force from the first call on.
    pub(crate) fn open(
        settings: &Settings,
        replica: Option<&Arc<Replica>>,
        known: &Arc<Known>,
    ) -> Result<DirectoryKeeper, String> {
        let file = DirectoryFile::of_state(&settings.state);
        let Some(replica) = replica else {
            known.enter(file.read().map_err(|error| error.to_string())?);
            return Ok(DirectoryKeeper::File(file));
        };
        take_over(&replica.mirror, known, replica.book.clone());
        let (mirror, entered) = (replica.mirror.clone(), Arc::clone(known));
        let on_book = Box::new(move |book| take_over(&mirror, &entered, book));
        let watching = replica
            .watching
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(watching) = &*watching {
            watching.on_book(on_book);
        }
        Ok(DirectoryKeeper::Shared(replica.directory.clone()))
    }

    /// The file, where changes by others are seen by it.
    pub(crate) fn file(&self) -> Option<&DirectoryFile> {
        match self {
            DirectoryKeeper::File(file) => Some(file),
            DirectoryKeeper::Shared(_) => None,
        }
    }

    /// Changes the directory and puts that in force.
    ///
    /// # Errors
    /// What `change` refuses, and where it cannot be written.
    pub(crate) async fn change<T>(
        &self,
        known: &Known,
        change: impl Fn(&mut DirectoryBook) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let (book, answer) = match self {
            DirectoryKeeper::File(file) => file.change(known.look(|book| book.epoch), change)?,
            DirectoryKeeper::Shared(directory) => {
                directory.change(known.agents().1, change).await?
            }
        };
        known.enter(book);
        Ok(answer)
    }
}

fn take_over(mirror: &DirectoryFile, known: &Known, book: DirectoryBook) {
    known.enter(book.clone());
    if let Err(error) = mirror.keep_copy(&book) {
        tracing::warn!(%error, "the copy of the directory in the state folder is old");
    }
}
