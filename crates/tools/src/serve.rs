//! What every server that weir ships has in common: its tools as a table, MCP over pipes and HTTP, one owner of a data
//! folder, and what the process takes from itself before it starts.
//!
//! A server implements [`Service`] and nothing of the protocol. Nothing here knows what a tool does.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub mod call;
pub mod desk;
pub mod fence;
pub mod http;
pub mod memory;
pub mod resource;
pub mod session;
pub mod table;

mod cancel;
mod lines;
mod top;

pub use cancel::Cancel;

use call::Problem;
use table::Tool;

/// A server: its tools and the engine that they ask.
pub trait Service: Clone + Send + Sync + 'static {
    /// Its name, as it tells clients.
    const NAME: &'static str;
    /// What a model is told of it.
    const INSTRUCTIONS: &'static str;
    /// How a caller asks for less, where an answer is too large.
    const ASK_LESS: &'static str;
    /// Its tools, in the order of the listing.
    const TOOLS: &'static [Tool<Self>];

    /// Calls that only this program's own processes make: a client cannot name them, since no name of a tool has a slash.
    const INSIDE: &'static [Tool<Self>] = &[];
    /// What clients can read besides, if anything.
    const RESOURCES: Option<&'static resource::Resources<Self>> = None;

    /// What the engine is opened with.
    type Settings: Send + 'static;
    /// What the tools ask. One process has it open for a data folder.
    type Engine: Clone + Send + Sync + 'static;
    /// Work that goes on in the background.
    type Job: Job;

    /// The folder that the engine keeps.
    fn data_dir(settings: &Self::Settings) -> &Path;

    /// A text that is the same for settings whose answers may be told to each other's callers.
    fn whose(settings: &Self::Settings) -> String;

    /// The refusal of a caller whose settings are another's.
    fn not_yours() -> Problem;

    /// Opens the engine. Called once in a process, and only while it has the lock of the folder.
    ///
    /// # Errors
    ///
    /// Why the engine cannot be opened.
    fn open(settings: &Self::Settings) -> Result<Self::Engine, Problem>;

    /// Begins what goes on by itself, once calls are answered.
    fn begin(settings: &Self::Settings, engine: &Self::Engine);
}

/// A state of some work in the background.
pub trait Job: Clone + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The state, as the protocol tells it.
    fn progress(&self) -> Progress;
}

/// How far a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// How much is done.
    pub done: u64,
    /// How much there is, where that is known.
    pub total: Option<u64>,
    /// The same for people.
    pub message: String,
}
