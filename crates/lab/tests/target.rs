//! The target over real sockets: what each route answers, and that its counts are exact.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "target/behaviour.rs"]
mod behaviour;
#[path = "target/client.rs"]
mod client;
#[path = "target/plain.rs"]
mod plain;

use lab::target::{Running, Settings, start};

fn started(settings: Settings) -> Running {
    start(settings).unwrap()
}
