//! The channel of vectors: an embedder and what it made, for the engine.

use std::path::Path;
use std::sync::{PoisonError, RwLock};

use super::api::{ChunkKey, Dense, Error, Result};
use super::embed::{Embedder, Endpoint};
use super::vectors::Vectors;

/// Vectors of one endpoint.
pub struct Channel {
    embedder: Embedder,
    vectors: RwLock<Vectors>,
}

impl Channel {
    /// Opens what a folder has of an endpoint's vectors. The endpoint is not asked yet.
    ///
    /// # Errors
    ///
    /// Where the URL is none, or the folder cannot be read or written.
    pub fn open(dir: &Path, endpoint: Endpoint) -> Result<Channel> {
        let embedder = Embedder::new(endpoint).map_err(|error| Error::Io(error.to_string()))?;
        let vectors = Vectors::open(dir, &embedder.id()).map_err(stored)?;
        Ok(Channel {
            embedder,
            vectors: RwLock::new(vectors),
        })
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
        let vectors = self.vectors.read().unwrap_or_else(PoisonError::into_inner);
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
        let mut kept = self.vectors.write().unwrap_or_else(PoisonError::into_inner);
        kept.put(&vectors).map_err(stored)
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
        let vectors = self.vectors.read().unwrap_or_else(PoisonError::into_inner);
        Ok(vectors.nearest(&query, limit, allowed))
    }

    fn count(&self) -> usize {
        self.vectors
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }
}
