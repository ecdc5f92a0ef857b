//! The upstreams: what weir calls on behalf of agents.
//!
//! Nothing is sent without a permit, and nowhere but to the configured target that the permit is for. The
//! address dialled is the address that the permit was asked about (I-04). Redirects are not followed: a
//! redirect is a new call. Each thread has a pool of its own, so nothing is locked.

mod answer;
mod dial;
mod pool;
mod send;
mod targets;

use std::fmt;

use base::{Refusal, refusal};

pub use answer::UpstreamAnswer;
pub(crate) use dial::dial;
pub use send::Upstreams;
pub(crate) use targets::DialTarget;
pub use targets::{Endpoint, EndpointError, Scheme, TargetError, Targets};

/// Why there is no answer.
#[derive(Clone, Debug)]
pub enum SendError {
    /// The permit said no to every address of the target, or is for no target that is configured.
    Refused(Refusal),
    /// No connection: the name, the addresses, or TLS. Nothing was sent.
    Unreachable(String),
    /// The deadline passed.
    Slow,
    /// The connection broke after something was sent, or what came is not HTTP.
    Broken(String),
    /// The answer is larger than the bound that was given.
    TooLarge,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Refused(refusal) => write!(f, "refused: {}", refusal.public),
            SendError::Unreachable(why) => write!(f, "the server cannot be reached: {why}"),
            SendError::Slow => f.write_str("the server did not answer in time"),
            SendError::Broken(why) => write!(f, "the connection to the server broke: {why}"),
            SendError::TooLarge => f.write_str("the server's answer is too large"),
        }
    }
}

impl std::error::Error for SendError {}

impl From<SendError> for Refusal {
    fn from(error: SendError) -> Refusal {
        match error {
            SendError::Refused(refusal) => refusal,
            SendError::Slow => {
                Refusal::new(refusal::SERVER_SLOW, "the server did not answer in time")
            }
            SendError::TooLarge => Refusal::new(
                refusal::ANSWER_TOO_LARGE,
                "the server's answer is too large",
            ),
            SendError::Unreachable(why) => {
                Refusal::new(refusal::SERVER_DOWN, "the server cannot be reached").with_private(why)
            }
            SendError::Broken(why) => {
                Refusal::new(refusal::SERVER_DOWN, "the server broke off").with_private(why)
            }
        }
    }
}
