//! What several gateways share in PostgreSQL, so that they are one: the directory, the keys and the authority that came from one
//! of them, and the logs of all.
//!
//! Each replica serves from memory and appends to its own log on its own disk; no call waits for the database.
//! A thread ships what is synced ([`ship`]), another keeps the snapshot of the directory fresh
//! and writes its changes ([`directory`]). The role that a gateway connects as may add records and checkpoints, and neither change nor
//! remove them: tables belong to another role, by which `weir store migrate` makes them. All refusals at the start are in [`start`].

use std::fmt;

use postgres::Fault;

pub mod directory;
pub mod keep;
pub mod retain;
mod row;
mod schema;
pub mod search;
pub mod section;
mod ship;
mod standing;
mod start;
pub mod status;
pub mod verify;

pub use postgres::Target;
pub use schema::{SCHEMA_VERSION, migrate};
pub use section::StoreSection;
pub use ship::Shipping;
pub use standing::{StoreStanding, StoreTrouble};
pub use start::{Begun, Joining};

/// How long a statement of the watching thread may take, in milliseconds: who waits longer hears nothing of revocations.
const WATCH_ANSWER_MS_MAX: u64 = 2_000;
/// How long a statement of the shipping thread may take, in milliseconds.
const SHIP_ANSWER_MS_MAX: u64 = 8_000;
/// How far the clocks of a replica and of the database may be apart, in milliseconds.
pub const CLOCKS_APART_MS_MAX: u64 = 60_000;

/// Why the store cannot be used, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaError {
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub help: String,
}

impl ReplicaError {
    fn new(what: impl Into<String>, help: impl Into<String>) -> ReplicaError {
        ReplicaError {
            what: what.into(),
            help: help.into(),
        }
    }

    /// What the server said, of something that was asked of it.
    fn of(what: &str, fault: &Fault) -> ReplicaError {
        match fault {
            Fault::Gone(why) => ReplicaError::new(
                format!("the store does not answer ({what}): {why}"),
                "Start PostgreSQL, or mend store.postgres.",
            ),
            Fault::Refused { state, message } => ReplicaError::new(
                format!("the store refuses ({what}): {message} ({state})"),
                "See weir store status, and that weir store migrate was run for this role.",
            ),
        }
    }
}

impl fmt::Display for ReplicaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.help)
    }
}

impl std::error::Error for ReplicaError {}

/// What a fault says.
fn told(fault: &Fault) -> String {
    match fault {
        Fault::Gone(why) => why.clone(),
        Fault::Refused { state, message } => format!("{message} ({state})"),
    }
}

/// Digits of a number of a row, which the schema keeps from being negative.
fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// The other way. No log has so many entries.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
