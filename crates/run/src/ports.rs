//! What a run asks: models and tools, whatever protocol they have.
//!
//! Each is asked for the agent of the run, so what is behind a port judges and records it as that agent's call.

use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;

use gate::ActingFor;

use crate::event::{RunMessage, StepUsage, ToolCall};
use crate::settings::RunCallback;

/// Work of one thread.
pub type PortFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// The ports of one thread.
#[derive(Clone)]
pub struct RunPorts {
    pub models: Rc<dyn Models>,
    pub tools: Rc<dyn Tools>,
    pub callbacks: Rc<dyn Callbacks>,
}

/// For whom a port is asked.
#[derive(Clone, Debug)]
pub struct PortCaller {
    pub acting: ActingFor,
    /// Where the run was started from, for records and policies.
    pub peer: IpAddr,
}

/// What a model is asked.
#[derive(Clone, Copy, Debug)]
pub struct ModelAsk<'a> {
    pub model: &'a str,
    /// What was said before the run, and after these what was said in it.
    pub before: &'a [RunMessage],
    pub messages: &'a [RunMessage],
    pub tools: &'a [ToolOffer],
}

/// Models.
pub trait Models {
    /// Asks one. Dropping the future or the answer ends the call, and closes the model's connection.
    fn ask<'a>(
        &'a self,
        caller: &'a PortCaller,
        ask: ModelAsk<'a>,
    ) -> PortFuture<'a, Result<Box<dyn ModelAnswer>, PortFailure>>;

    /// What the calls of a run cost so far, in billionths of a dollar, since this process began.
    fn spent(&self, run: &str) -> u64;

    /// Forgets what a run cost.
    fn forget(&self, run: &str);
}

/// What a model says, as it comes.
pub trait ModelAnswer {
    /// The next piece; nothing at the end of a whole answer.
    fn next(&mut self) -> PortFuture<'_, Result<Option<ModelPiece>, PortFailure>>;
}

/// A piece of what a model says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelPiece {
    Text(String),
    Reasoning(String),
    /// A call of a tool begins, or goes on: the calls of an answer are told apart by their number.
    Call {
        index: u64,
        id: Option<String>,
        name: Option<String>,
        arguments: String,
    },
    Usage(StepUsage),
}

/// Tools.
pub trait Tools {
    /// The tools of these patterns that the agent may see.
    fn list<'a>(
        &'a self,
        caller: &'a PortCaller,
        patterns: &'a [String],
    ) -> PortFuture<'a, Result<Vec<ToolOffer>, PortFailure>>;

    /// Makes a call. Dropping the future cancels it.
    fn call<'a>(
        &'a self,
        caller: &'a PortCaller,
        patterns: &'a [String],
        call: &'a ToolCall,
    ) -> PortFuture<'a, Result<ToolAnswer, PortFailure>>;
}

/// Whoever is told of the ends of runs.
pub trait Callbacks {
    /// Tells one, with a signature. Each try is a call of its own.
    fn tell<'a>(
        &'a self,
        caller: &'a PortCaller,
        to: &'a RunCallback,
        told: &'a CallbackTold,
    ) -> PortFuture<'a, Result<(), PortFailure>>;
}

/// What is told of the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackTold {
    /// The same in each try.
    pub id: String,
    pub unix_s: u64,
    pub body: String,
}

/// A tool, as models are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOffer {
    pub name: String,
    pub description: String,
    /// JSON Schema of its arguments, as JSON text.
    pub schema: String,
    /// A call whose end is not known may be made again: it only reads, or says that it can be repeated.
    pub is_repeatable: bool,
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolAnswer {
    pub content: String,
    /// The tool says that it failed.
    pub is_error: bool,
}

/// Why a port gives nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortFailure {
    /// The code of a refusal, such as `policy.forbidden`, or of what failed.
    pub code: String,
    /// What happened, for the agent.
    pub message: String,
    /// The call that was refused, where there was one.
    pub call: Option<String>,
    /// The same may succeed, after so many milliseconds.
    pub retry_ms: Option<u64>,
}
