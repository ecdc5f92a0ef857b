//! On to the server: the bytes that came, by the transport that the server speaks.

pub(crate) mod child;
pub(crate) mod http;

use std::time::Duration;

use base::{Refusal, refusal};
use bytes::Bytes;

/// How often a stream looks whether its agent is still known, in milliseconds.
const LOOK_MS: u64 = 1_000;

/// One message on its way to a server, after it was judged.
pub(crate) struct Outgoing {
    pub(crate) message: Bytes,
    /// The client's id of the request as it was written; absent for notifications and responses.
    pub(crate) id: Option<String>,
    /// The token under which the request wants progress, as it was written.
    pub(crate) progress: Option<String>,
    /// The id that the server was given for the request that this message cancels.
    pub(crate) cancelled: Option<String>,
    pub(crate) is_initialize: bool,
    /// The revision that the client names in its header.
    pub(crate) revision: Option<String>,
    /// The client takes an event stream for an answer.
    pub(crate) takes_events: bool,
}

/// How often a stream looks whether its agent is still known.
pub(crate) fn look_every() -> tokio::time::Interval {
    let mut look = tokio::time::interval(Duration::from_millis(LOOK_MS));
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    look
}

/// The refusal of a stream whose agent is known no more.
pub(crate) fn taken_back() -> Refusal {
    Refusal::new(
        refusal::KEY_UNKNOWN,
        "the key of this stream is taken back or has expired",
    )
}
