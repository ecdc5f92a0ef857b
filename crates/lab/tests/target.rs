//! The target over real sockets: what each route answers, and that its counts are exact.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "target/behaviour.rs"]
mod behaviour;
#[path = "target/client.rs"]
mod client;
#[path = "target/llm.rs"]
mod llm;
#[path = "target/mcp.rs"]
mod mcp;
#[path = "target/plain.rs"]
mod plain;
#[path = "target/provider.rs"]
mod provider;
#[path = "target/secure.rs"]
mod secure;

use lab::target::{Running, Settings, start};

fn started(settings: Settings) -> Running {
    start(settings).unwrap()
}
