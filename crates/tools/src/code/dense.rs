//! The channel of vectors: an embedder and what it made, for the engine; and the thread that makes a graph of many.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::api::{ChunkKey, Dense, Error, Result};
use super::embed::{Embedder, Endpoint};
use super::vectors::Vectors;

/// Vectors of one endpoint. Dropping it ends the work on the graph.
pub(super) struct Channel {
    embedder: Embedder,
    shared: Arc<Shared>,
}

/// What the channel and the thread of the graph share.
struct Shared {
    vectors: RwLock<Vectors>,
    /// Whether there is such a thread.
    growing: AtomicBool,
    ended: AtomicBool,
}

impl Shared {
    fn read(&self) -> RwLockReadGuard<'_, Vectors> {
        self.vectors.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vectors> {
        self.vectors.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins vectors to the graph until it has all of them, then measures and keeps it. Only this thread changes the
    /// graph, so what is found out while others read holds when it is written down.
    fn grow(&self) {
        while !self.ended.load(Ordering::Acquire) {
            let joint = self.read().joint();
            let Some(joint) = joint else {
                break;
            };
            self.write().join(joint);
        }
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        if self.read().is_unmeasured() {
            let width = Vectors::measured(|| self.read());
            if width.is_none() {
                tracing::warn!("the graph of vectors finds too little; each vector is compared");
            }
            self.write().use_graph(width);
        }
        if let Err(error) = self.keep_graph() {
            tracing::warn!(%error, "the graph of vectors cannot be written");
        }
    }

    fn keep_graph(&self) -> std::io::Result<()> {
        let draft = self.read().graph_draft()?;
        if let Some(draft) = draft {
            let rows = draft.keep()?;
            self.write().graph_written(rows);
        }
        Ok(())
    }
}

impl Channel {
    /// Opens what a folder has of an endpoint's vectors. The endpoint is not asked yet.
    ///
    /// # Errors
    ///
    /// Where the URL is none, or the folder cannot be read or written.
    pub(super) fn open(dir: &Path, endpoint: Endpoint) -> Result<Channel> {
        let embedder = Embedder::new(endpoint).map_err(|error| Error::Io(error.to_string()))?;
        let vectors = Vectors::open(dir, &embedder.id()).map_err(stored)?;
        let channel = Channel {
            embedder,
            shared: Arc::new(Shared {
                vectors: RwLock::new(vectors),
                growing: AtomicBool::new(false),
                ended: AtomicBool::new(false),
            }),
        };
        channel.grow();
        Ok(channel)
    }

    /// Has the graph made on a thread of its own, unless there is nothing to do or somebody does it.
    fn grow(&self) {
        let is_due = {
            let vectors = self.shared.read();
            vectors.is_behind() || vectors.is_unmeasured()
        };
        if !is_due || self.shared.growing.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("code-graph".to_owned());
        let spawned = thread.spawn(move || {
            shared.grow();
            shared.growing.store(false, Ordering::Release);
        });
        if spawned.is_err() {
            // The next vectors try again.
            self.shared.growing.store(false, Ordering::Release);
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
    }
}

fn stored(error: std::io::Error) -> Error {
    Error::Store(format!("vectors: {error}"))
}

impl Dense for Channel {
    fn id(&self) -> String {
        self.embedder.id()
    }

    fn missing(&self, keys: &[ChunkKey]) -> Vec<usize> {
        let vectors = self.shared.read();
        let keys = keys.iter().enumerate();
        keys.filter(|(_, key)| !vectors.has(key))
            .map(|(i, _)| i)
            .collect()
    }

    fn put(&self, texts: &[(ChunkKey, String)]) -> Result<()> {
        let (keys, texts): (Vec<ChunkKey>, Vec<String>) = texts.iter().cloned().unzip();
        // Nobody waits for the lock while the endpoint thinks.
        let made = self
            .embedder
            .documents(&texts)
            .map_err(|error| Error::Io(error.to_string()))?;
        let vectors: Vec<_> = keys.into_iter().zip(made).collect();
        self.shared.write().put(&vectors).map_err(stored)?;
        self.grow();
        Ok(())
    }

    fn nearest(
        &self,
        query: &str,
        limit: usize,
        allowed: &dyn Fn(&ChunkKey) -> bool,
    ) -> Result<Vec<(ChunkKey, f32)>> {
        let query = self
            .embedder
            .query(query)
            .map_err(|error| Error::Io(error.to_string()))?;
        Ok(self.shared.read().nearest(&query, limit, allowed))
    }

    fn count(&self) -> usize {
        self.shared.read().len()
    }

    fn compact(&self, needed: &dyn Fn(&ChunkKey) -> bool) -> Result<()> {
        if self.shared.growing.swap(true, Ordering::AcqRel) {
            // Whoever waits to write holds up those that read: not while a file of all vectors is written.
            return Ok(());
        }
        let compacted = self.shared.read().compacted(needed);
        let done = compacted.map(|compacted| self.shared.write().compact(compacted));
        self.shared.growing.store(false, Ordering::Release);
        self.grow();
        done.map_err(stored)
    }
}
