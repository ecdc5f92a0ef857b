//! On to the server: the bytes that came, by the transport that the server speaks.

mod link;
mod links;
mod starts;
mod state;

pub(crate) mod child;
mod events;
pub(crate) mod find;
pub(crate) mod http;
pub(crate) mod own;
pub(crate) mod session;
pub(crate) mod shared;

#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ::http::HeaderMap;
use base::Refusal;
use bytes::Bytes;
use gate::Passed;

use crate::era::{Era, Revision};
pub(crate) use link::{Link, LinkScope, unknown};
pub(crate) use links::Links;
pub(crate) use starts::ServerStarts;
pub(crate) use state::{ChildAnswer, Messages};

/// How long the stream of a server that answers no request may be silent, in milliseconds.
pub(crate) const LISTEN_SILENCE_MS: u64 = 3_600_000;
/// How often a call that lasts looks whether it is still in force, in milliseconds.
const LOOK_MS: u64 = 1_000;

/// One message on its way to a server, after it was judged.
pub(crate) struct Outgoing {
    pub(crate) message: Bytes,
    /// The client's id of the request as it was written; absent for notifications and responses.
    pub(crate) id: Option<String>,
    /// The token under which the request wants progress, as it was written.
    pub(crate) progress: Option<String>,
    /// The request that this message cancels.
    pub(crate) cancelled: Option<Cancelled>,
    pub(crate) is_initialize: bool,
    /// The revision that it says it is of.
    pub(crate) revision: Option<&'static Revision>,
    /// It asks for messages of the server's log, of the modern era.
    pub(crate) wants_log: bool,
    /// What goes on in the fields of a message of the modern era, over HTTP.
    pub(crate) fields: HeaderMap,
    /// The client takes an event stream for an answer, over HTTP.
    pub(crate) takes_events: bool,
}

impl Outgoing {
    pub(crate) fn era(&self) -> Era {
        self.revision.map_or(Era::Legacy, |revision| revision.era)
    }
}

/// A request under way that a message cancels.
pub(crate) struct Cancelled {
    /// Its id as the client wrote it.
    pub(crate) client: String,
    /// The id that the server was given for it.
    pub(crate) own: String,
}

/// The same, as ticks.
pub(crate) fn look_every() -> tokio::time::Interval {
    let mut look = tokio::time::interval(Duration::from_millis(LOOK_MS));
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    look
}

/// What a server does for a call, as long as the call is in force.
///
/// # Errors
/// What ended the call before the server was done: a stop, or the agent's key.
pub(crate) async fn while_in_force<T>(
    passed: &Passed,
    work: impl Future<Output = T>,
) -> Result<T, Refusal> {
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(Duration::from_millis(LOOK_MS), &mut work).await {
            Ok(done) => return Ok(done),
            Err(_) => passed.in_force()?,
        }
    }
}

/// Takes a lock, also where whoever had it panicked.
pub(crate) fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}
