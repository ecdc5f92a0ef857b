//! The lane of runs: an agent's loop on the server, for callers that have none of their own.
//!
//! A run asks a model, makes the calls of tools that it proposes, gives it the answers, and goes on until it has no more to call.
//! Each of these is an ordinary call of the agent that started the run, judged and recorded as if the agent had made it; a run
//! has no right that its agent lacks. What happens is on disk before anybody hears of it, so a run goes on after a crash. The
//! crate knows no protocol of models or tools: it asks ports ([`Models`], [`Tools`]).

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may fail by panic"))]

pub mod actions;
mod body;
mod book;
mod callback;
mod conversation;
mod drive;
mod event;
pub mod fuzzing;
mod lane;
mod listen;
mod live;
mod ports;
mod refuse;
pub mod section;
mod settings;
mod shapes;
mod steps;

pub use actions::LANE;
pub use event::{RunMessage, StepUsage, ToolCall};
pub use lane::{KnownAgent, RunLane, RunShared, answer_without};
pub use live::RunState;
pub use ports::{
    CallbackTold, Callbacks, ModelAnswer, ModelAsk, ModelPiece, Models, PortCaller, PortFailure,
    PortFuture, RunPorts, ToolAnswer, ToolOffer, Tools,
};
pub use refuse::{refuse, refuse_error};
pub use settings::{RunAgent, RunCallback, RunLimits, Settings};
pub use shapes::responses::PREFIX as MODEL_PREFIX;
