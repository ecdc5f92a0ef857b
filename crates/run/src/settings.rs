//! What the lane is told.

use base::{CallId, Name, Now, Secret};
use serde::{Deserialize, Serialize};

/// What the lane is told.
#[derive(Clone)]
pub struct Settings {
    /// The agents that runs may name.
    pub agents: Vec<RunAgent>,
    /// Bounds of runs that bring their own model, instructions and tools.
    pub own: RunLimits,
    /// The servers that such runs may take tools of.
    pub servers: Vec<Name>,
    /// Most runs that have not ended, and most of one agent.
    pub at_once: usize,
    pub agent_at_once: usize,
    /// How long an ended run is kept, in milliseconds, and most bytes of all runs; the oldest go first.
    pub keep_ms: u64,
    pub bytes_max: u64,
    /// Largest body of a request, in bytes.
    pub body_bytes_max: usize,
    /// Sites whose pages may call.
    pub origins: Vec<String>,
    /// The URL by which clients reach the gateway, where one is configured.
    pub public_url: Option<String>,
    /// Makes the id of a call, and of a run.
    pub new_id: fn() -> CallId,
    /// The clocks.
    pub now: fn() -> Now,
}

/// An agent of the configuration: what a run that names it is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunAgent {
    pub name: Name,
    pub model: String,
    pub instructions: String,
    /// As `server/tool`, where `*` stands for any text.
    pub tools: Vec<String>,
    pub limits: RunLimits,
    /// Who is told when a run of it has ended.
    pub callback: Option<RunCallback>,
}

/// Where the end of a run is told.
#[derive(Clone, PartialEq, Eq)]
pub struct RunCallback {
    /// Of the configuration alone: no caller names one.
    pub url: String,
    /// The key of the signature.
    pub secret: Secret,
}

impl std::fmt::Debug for RunCallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunCallback")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// How much a run may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// Times that the model is asked.
    pub steps: u64,
    /// Tokens in and out, over all steps.
    pub tokens: Option<u64>,
    /// In billionths of a dollar; what has no known price costs nothing here.
    pub money: Option<u64>,
    /// From its start to its end, in milliseconds.
    pub time_ms: u64,
}
