//! What the gate has to ask of the world, each with a bound, and *refuse* on failure.
//!
//! `store` implements these. A port that answers from memory is a plain function; only the recorder, which
//! may wait for a disk, is awaited.

use std::fmt;
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
    /// The agent whose key has this thumbprint: whether a key that was good still is.
    fn agent_by_thumbprint(&self, thumbprint: &Digest) -> Option<Arc<Agent>>;
}

/// Whose limit a call counts against.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Counted {
    Agent(Name),
    /// Requests of an agent, also those that were refused.
    Requests(Name),
    /// IPv4 by address, IPv6 by its /64: one host has that many addresses for the asking.
    Address(IpAddr),
    /// Requests from an address that showed no good key; the address as above.
    Stranger(IpAddr),
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

impl fmt::Display for RecordError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Full => out.write_str("it reached its bound, or its disk is full"),
            RecordError::Busy => out.write_str("too many records wait to be written"),
            RecordError::Failed(why) => out.write_str(why),
        }
    }
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

/// What to do with a definition of a tool that is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Trust it from now on: trust on first use.
    FirstUse,
    /// Keep it, and hold the tool until a person approves it; the text says why.
    Hold(String),
    /// As `Hold`: the scan refused the definition, by this rule.
    Refused(Arc<str>),
}

/// A definition of a tool as a server gave it just now.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    pub server: &'a Name,
    pub tool: &'a str,
    /// SHA-256 of the canonical definition.
    pub digest: Digest,
    /// The canonical definition.
    pub definition: &'a str,
    /// SHA-256 of the definition's bytes as they came.
    pub bytes: Digest,
}

/// What is known of a tool's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It was never seen before.
    New,
    /// It is the one that is approved.
    Approved,
    /// The scan refused it, and a person approved it all the same.
    Accepted,
    Held(Held),
}

/// A definition that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub why: Why,
    /// The rule of the scan that refused it, where one did.
    pub rule: Option<Arc<str>>,
    /// SHA-256 of the canonical definition that waits.
    pub digest: Digest,
}

/// Why a tool is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is not what was approved.
    Changed,
    /// Its name is like another's, and it was never approved.
    Lookalike,
    /// The scan refused its definition.
    Refused,
}

/// The tools of a server are as many as are remembered of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinsFull;

/// Which definitions of tools are approved. Answers from memory; what has to be kept is queued.
pub trait Pins: Send + Sync {
    /// Whether a tool is held. Asked for each call of a tool.
    fn held(&self, server: &Name, tool: &str) -> Option<Held>;
    /// What is known of a definition with these bytes, where they were seen since the start.
    fn known(&self, server: &Name, tool: &str, bytes: &Digest) -> Option<Standing>;
    /// Takes notice of a definition. Held for later changes even where it is not to be trusted.
    fn see(&self, sight: &Sight<'_>, trust: Trust, now: Now) -> Result<Standing, PinsFull>;
    /// Calls `each` with the server and name of every tool that was ever approved: what only poses as one
    /// of them is not to be compared with.
    fn names(&self, each: &mut dyn FnMut(&Name, &str));
    /// Calls `each` with the server, the name and the canonical definition of every approved tool whose text is
    /// kept.
    fn definitions(&self, each: &mut dyn FnMut(&Name, &str, &str));
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
    /// Absent where definitions are not pinned.
    pub pins: Option<Arc<dyn Pins>>,
}
