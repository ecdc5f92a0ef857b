//! The shared words of weir: what every other crate means by a name, a resource, a refusal, a record.
//!
//! Nothing here decides anything. A type lives here when two crates that must not know each other have
//! to mean the same thing by it.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")
)]

pub mod action;
pub mod address;
pub mod clock;
pub mod fold;
pub mod hex;
pub mod id;
pub mod json;
pub mod limit;
pub mod metric;
pub mod near;
pub mod never;
pub mod permit;
pub mod record;
pub mod refusal;
pub mod resource;
pub mod secret;

pub use action::{Action, Entity, Lane, ScanAs};
pub use address::{AddressRange, network};
pub use clock::Now;
pub use id::{CallId, Digest, Name};
pub use json::{Json, JsonError, JsonKey, JsonKind, JsonValue};
pub use metric::Metric;
pub use permit::Permit;
pub use refusal::{Code, Refusal};
pub use resource::{CARD, Destination, ItemKind, Resource, ServerItem, Site};
pub use secret::Secret;
