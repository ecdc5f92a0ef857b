//! On to the server: the bytes that came, by the transport that the server speaks.

pub(crate) mod child;
pub(crate) mod http;

use base::{Refusal, refusal};
use bytes::Bytes;
use net::SendError;

/// One message on its way to a server, after it was judged.
pub(crate) struct Outgoing {
    pub(crate) message: Bytes,
    /// The request's id as it was written; absent for notifications and responses.
    pub(crate) id: Option<String>,
    /// The token under which the request wants progress, as it was written.
    pub(crate) progress: Option<String>,
    pub(crate) is_initialize: bool,
    /// The revision that the client names in its header.
    pub(crate) revision: Option<String>,
    /// The client takes an event stream for an answer.
    pub(crate) takes_events: bool,
}

/// What transport could not do, as the agent is told.
pub(crate) fn refusal_of(error: SendError) -> Refusal {
    match error {
        SendError::Refused(refusal) => refusal,
        SendError::Slow => Refusal::new(refusal::SERVER_SLOW, "the server did not answer in time"),
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
