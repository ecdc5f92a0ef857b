//! What an engine is opened with, and its bounds.

use std::path::PathBuf;
use std::sync::Arc;

use super::error::Result;

/// What an engine is opened with.
#[derive(Clone)]
pub struct Settings {
    /// Where the index is kept; made if it is not there. Below it, each tenant has a directory of its own.
    pub data_dir: PathBuf,
    /// The directories that may be indexed, and all below them. Nothing outside is ever read.
    pub roots: Vec<PathBuf>,
    /// Files and directories below the roots that are as if they were not there, such as what a gateway keeps for itself.
    pub hidden: Vec<PathBuf>,
    /// Whose index this is. Engines of different tenants share nothing.
    pub tenant: String,
    /// Bounds.
    pub limits: Limits,
    /// Where files are parsed.
    pub parse: ParseBy,
    /// Vectors, where an embedding endpoint is configured.
    pub embed: Option<Arc<dyn Dense>>,
}

/// Where files are parsed.
#[derive(Clone, Debug)]
pub enum ParseBy {
    /// In this process: for tests, and for trees that are trusted.
    Here,
    /// In child processes of this command line, which speak the worker's frames.
    Worker {
        /// The program, usually weir itself.
        program: PathBuf,
        /// Its arguments (`tools code --parse`).
        args: Vec<String>,
        /// How many at once.
        workers: usize,
    },
}

/// Bounds of one engine.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Largest file that is cut into pieces, in bytes; larger ones are found by name, text and regex only.
    pub file_bytes: u64,
    /// Largest file that is searched for text, in bytes; larger ones are found by name only.
    pub text_bytes: u64,
    /// Most files of one tree; more are left out, and the status says so.
    pub files: usize,
    /// Most trees of one tenant.
    pub trees: usize,
    /// Jobs that run at once.
    pub jobs: usize,
    /// Longest time one search may take, in milliseconds; what was found till then is answered.
    pub search_ms: u64,
    /// Longest time a search looks for changed files before it answers, in milliseconds.
    pub check_ms: u64,
    /// Longest time a search waits until changes that are known are indexed, in milliseconds.
    pub wait_ms: u64,
    /// Memory of the part of an index that is being written, in bytes. While it goes to the disk, the next one begins.
    pub writer_bytes: usize,
    /// Whether to watch trees for changes (inotify); without it each search looks by itself.
    pub watch: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            file_bytes: 1 << 20,
            text_bytes: 32 << 20,
            files: 1_000_000,
            trees: 256,
            jobs: 2,
            search_ms: 5_000,
            check_ms: 20,
            wait_ms: 400,
            writer_bytes: 96 << 20,
            watch: true,
        }
    }
}

/// What a vector belongs to: the digest of the text that was embedded.
pub type ChunkKey = [u8; 16];

/// The channel of vectors: absent, late or wrong, it never breaks a search.
///
/// The engine hands over texts in the background and asks for neighbours; where vectors are kept, and who makes
/// them, is the implementation's business.
pub trait Dense: Send + Sync {
    /// Which embedder: another id means other vectors.
    fn id(&self) -> String;

    /// The places in `keys` that have no vector yet.
    fn missing(&self, keys: &[ChunkKey]) -> Vec<usize>;

    /// Embeds texts and keeps their vectors. Called from one background thread, with at most 64 at once.
    ///
    /// # Errors
    ///
    /// When the endpoint fails: the engine asks again later.
    fn put(&self, texts: &[(ChunkKey, String)]) -> Result<()>;

    /// The nearest keys to a query among those allowed, with cosine similarity, best first.
    ///
    /// # Errors
    ///
    /// When the query cannot be embedded: the search then goes on without vectors, and says so.
    fn nearest(
        &self,
        query: &str,
        limit: usize,
        allowed: &dyn Fn(&ChunkKey) -> bool,
    ) -> Result<Vec<(ChunkKey, f32)>>;

    /// How many vectors are kept.
    fn count(&self) -> usize;

    /// Forgets vectors that are not needed, now or at a later time. Called from the same thread as [`Dense::put`].
    ///
    /// # Errors
    ///
    /// When what is kept cannot be written: then all is as it was.
    fn compact(&self, needed: &dyn Fn(&ChunkKey) -> bool) -> Result<()>;
}
