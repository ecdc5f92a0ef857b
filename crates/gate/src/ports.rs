//! What the gate has to ask of the world, each with a bound, and *refuse* on failure.
//!
//! `store` implements these. A port that answers from memory is a plain function; only the recorder, which
//! may wait for a disk, is awaited.

use std::net::IpAddr;
use std::sync::Arc;

use base::record::End;
use base::{Digest, Name, Now};
use identity::Agent;
use tokio::sync::oneshot;

/// Who is known. Answers from a snapshot in memory.
pub trait Directory: Send + Sync {
    /// The agent whose key has this SHA-256.
    fn agent_by_key(&self, key: &Digest) -> Option<Arc<Agent>>;
}

/// Whose limit a call counts against.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Counted {
    Agent(Name),
    /// IPv4 by address, IPv6 by its /64: one host has that many addresses for the asking.
    Address(IpAddr),
}

/// Limits and budgets, exact across threads.
pub trait Counters: Send + Sync {
    /// Takes one call from a limit of `per_minute`. On refusal: milliseconds until one is free.
    fn take(&self, counted: &Counted, per_minute: u32, now: Now) -> Result<(), u64>;
    /// Gives back one call that was taken and not used.
    fn give_back(&self, counted: &Counted, per_minute: u32, now: Now);
}

/// Why a record could not be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The log reached its bound, or its disk is full.
    Full,
    /// Too many records wait for a commit.
    Busy,
    /// The disk failed; the text is for the operator.
    Failed(String),
}

/// The log. Keeps bytes in the order that it took them, and chains them.
pub trait Recorder: Send + Sync {
    /// Queues a judgement. The answer comes once it is as durable as the log's setting says; a call
    /// passes only after `Ok`, which carries the record's index in the log.
    fn append(&self, record: Vec<u8>) -> oneshot::Receiver<Result<u64, RecordError>>;
    /// Queues an outcome, which no call waits for. A log that has taken a judgement keeps room for its
    /// outcome, so this does not fail for want of room; a disk that fails is the health check's to tell.
    fn note(&self, record: Vec<u8>);
    /// What is wrong with the log now, if anything.
    fn trouble(&self) -> Option<RecordError>;
}

/// The clocks, read where the gate needs to know how late it is.
pub trait Clock: Send + Sync {
    fn now(&self) -> Now;
}

/// What is counted for `/metrics`. A server's name may be what an agent asked for: only configured names
/// become labels.
pub trait Meter: Send + Sync {
    /// A call was judged; `code` is the refusal's, absent where it passed.
    fn judged(&self, server: &Name, code: Option<&'static str>);
    /// A call that passed has ended.
    fn ended(&self, server: &Name, end: End, duration_ms: u64);
    /// The scan found something, and this was done about it.
    fn found(&self, rule: &'static str, action: &'static str);
}

/// All ports of one gate.
pub struct Ports {
    pub directory: Arc<dyn Directory>,
    pub counters: Arc<dyn Counters>,
    pub recorder: Arc<dyn Recorder>,
    pub clock: Arc<dyn Clock>,
    pub meter: Arc<dyn Meter>,
}
