//! The traits that the gate needs from outside. Each has a bound, and a failure means that the call is refused.
//!
//! Ports of two kinds. A snapshot answers from memory, because it is asked for each call and while streams run: the
//! directory, the pins, the clock, the meter. Whoever keeps it brings it up to date. The others may have to wait for a
//! disk or a network, and answer with a [`Reply`]: at once where they can, which costs no await, and else in at most
//! [`REPLY_MS_MAX`]. A port whose feature is off is absent.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use base::record::{CallEnd, Usage};
use base::{Action, CallId, Digest, Name, Now, Resource, ServerItem};
use identity::{Agent, TokenTrust};
use tokio::sync::oneshot;

/// How long a port may take to answer, in milliseconds; an answer that is late is none.
pub const REPLY_MS_MAX: u64 = 2_000;

/// The answer of a port.
pub enum Reply<T> {
    Ready(T),
    Later(Pin<Box<dyn Future<Output = T> + Send>>),
}

impl<T> Reply<T> {
    /// The answer, unless it is late by this clock.
    pub(crate) async fn within_bound(self, clock: &dyn Clock) -> Option<T> {
        match self {
            Reply::Ready(answer) => Some(answer),
            Reply::Later(answer) => tokio::select! {
                answer = answer => Some(answer),
                () = clock.after(REPLY_MS_MAX) => None,
            },
        }
    }
}

/// Who is known: a snapshot in memory.
pub trait Directory: Send + Sync {
    /// A number that grows with each change.
    fn epoch(&self) -> u64;
    /// The agent whose key has this SHA-256.
    fn agent_by_key(&self, key: &Digest) -> Option<Arc<Agent>>;
    /// The agent whose key has this thumbprint: whether a key that was good still is.
    fn agent_by_thumbprint(&self, thumbprint: &Digest) -> Option<Arc<Agent>>;
    /// Whose tokens are taken; absent where none are.
    fn trust(&self) -> Option<Arc<TokenTrust>> {
        None
    }
    /// Whether the token with this id was taken back.
    fn is_revoked(&self, _token: &Digest) -> bool {
        false
    }
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
    /// A budget of the operator's, by its name; of an agent's own where each agent has it for itself.
    Budget {
        name: Name,
        agent: Option<Name>,
    },
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    Calls,
    /// Tokens of a model.
    Tokens,
    /// Billionths of a dollar.
    Money,
}

/// In what time there may be so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Per {
    /// It drains evenly: a burst of a minute's amount is allowed, and a steady excess is not.
    Minute,
    /// From midnight to midnight, UTC.
    Day,
    /// From the first of a month, UTC.
    Month,
    /// As long as a call lasts: what is settled is given back.
    AtOnce,
}

impl Per {
    pub fn as_str(self) -> &'static str {
        match self {
            Per::Minute => "minute",
            Per::Day => "day",
            Per::Month => "month",
            Per::AtOnce => "at_once",
        }
    }
}

/// An amount that is taken from one budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetLine {
    pub counted: Counted,
    pub unit: Unit,
    pub amount: u64,
    /// The budget: how much of the unit there may be.
    pub bound: u64,
    pub per: Per,
}

/// What was taken, to be settled once.
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket {
    pub lines: Vec<BudgetLine>,
    /// When it was taken, in Unix milliseconds: what is of an earlier day or month is not put into a later one.
    pub at_unix_ms: u64,
}

/// Which line found too little, and when that much may be there, in milliseconds from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget {
    pub line: usize,
    pub retry_ms: u64,
}

/// What a call used, by unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetSpent {
    pub calls: u64,
    pub tokens: u64,
    /// In billionths of a dollar.
    pub money: u64,
}

impl BudgetSpent {
    /// How much of a unit.
    pub fn of(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Calls => self.calls,
            Unit::Tokens => self.tokens,
            Unit::Money => self.money,
        }
    }
}

/// Limits and budgets, exact across threads.
pub trait Budgets: Send + Sync {
    /// Takes all lines, or none where one of them finds too little.
    fn reserve(&self, lines: Vec<BudgetLine>, now: Now) -> Reply<Result<Ticket, OverBudget>>;
    /// Puts what was spent in the place of what was reserved: gives the rest back, or takes what is missing, even
    /// where the budget has less.
    fn settle(&self, ticket: Ticket, spent: BudgetSpent, now: Now);
}

/// What a call of a model used, for who keeps account of it.
#[derive(Clone, Copy, Debug)]
pub struct UsedTokens<'a> {
    /// When the call was judged, in Unix milliseconds.
    pub at_unix_ms: u64,
    pub agent: &'a Name,
    pub groups: &'a [Name],
    pub provider: &'a Name,
    pub model: &'a str,
    pub usage: Usage,
    /// Nobody counted it, or a part of it alone: it is what was reserved.
    pub is_estimated: bool,
    /// What it costs, in billionths of a dollar, where a price is known.
    pub money: Option<u64>,
    /// The run that the call is a step of.
    pub run: Option<&'a str>,
    /// What the agent calls it by.
    pub tags: &'a [String],
}

/// The account of what models used. Answers from memory.
pub trait Accounts: Send + Sync {
    fn used(&self, used: &UsedTokens<'_>);
}

/// Ids that may be used once, such as those of proofs.
pub trait OnceIds: Send + Sync {
    /// Whether this is the first time that the id is seen; it is remembered until then, in Unix milliseconds. Nothing
    /// where nobody can say.
    fn is_first(&self, id: &Digest, until_unix_ms: u64) -> Reply<Option<bool>>;
}

/// A call that is about to pass, for those who have a say beside the policies.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub call: CallId,
    pub agent: &'a Name,
    pub groups: &'a [Name],
    pub action: &'static Action,
    pub resource: &'a Resource,
    /// The ids of the policies that permit it.
    pub policies: &'a [String],
    /// The ids of the scan's rules that matched.
    pub findings: &'a [&'a str],
    /// SHA-256 of what the agent wrote.
    pub content: Digest,
}

/// What an outside decision point says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    Permit,
    /// With the reason, which only the record keeps.
    Refuse(String),
}

/// A decision point outside of the gateway. It is asked after the policies and can only refuse.
pub trait Advisor: Send + Sync {
    fn advise(&self, question: &Question<'_>) -> Reply<Advice>;
}

/// Whether a call has to wait for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    NotNeeded,
    /// A person approved this very call; the approval is used up.
    Approved,
    /// It waits under this id.
    Waiting(String),
}

/// Calls that wait for a person.
pub trait Holds: Send + Sync {
    fn claim(&self, question: &Question<'_>) -> Reply<Hold>;
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
    /// Nothing was heard of the store that replicas share for longer than that is allowed.
    Away,
    /// Records do not reach that store for longer than that is allowed.
    Behind,
}

impl fmt::Display for RecordError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Full => out.write_str("it reached its bound, or its disk is full"),
            RecordError::Busy => out.write_str("too many records wait to be written"),
            RecordError::Failed(why) => out.write_str(why),
            RecordError::Away => out.write_str("the store is away"),
            RecordError::Behind => out.write_str("records do not reach the store"),
        }
    }
}

/// The answer to a judgement that was queued.
pub type Appended = oneshot::Receiver<Result<u64, RecordError>>;

/// The log. Keeps bytes in the order that it took them, and chains them.
pub trait Recorder: Send + Sync {
    /// Queues a judgement. The answer comes once it is as durable as the log's setting says; a call
    /// passes only after `Ok`, which carries the record's index in the log.
    fn append(&self, record: Vec<u8>) -> Appended;
    /// Queues an outcome, which no call waits for. A log that has taken a judgement keeps room for its
    /// outcome, so this does not fail for want of room; a disk that fails is the health check's to tell.
    fn note(&self, record: Vec<u8>);
    /// Queues the judgement of a call that passes, as [`Recorder::append`] does. The call is open from then on: a log
    /// says of it that it was lost where its outcome does not come before the process dies.
    fn passes(&self, call: CallId, record: Vec<u8>) -> Appended {
        let _ = call;
        self.append(record)
    }
    /// Queues the outcome of a call that passed, as [`Recorder::note`] does.
    fn ends(&self, call: CallId, record: Vec<u8>) {
        let _ = call;
        self.note(record);
    }
    /// As [`Recorder::ends`], of a call that passed and was refused after all, as for what its answer holds. Says whose it was
    /// and of what, which the record of an outcome leaves to that of its judgement.
    fn ends_refused(&self, call: CallId, record: Vec<u8>, agent: &Name, resource: &Resource) {
        let _ = (agent, resource);
        self.ends(call, record);
    }
    /// What is wrong with the log now, if anything.
    fn trouble(&self) -> Option<RecordError>;
}

/// What to do with the definition of an item that is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Trust it from now on: trust on first use.
    FirstUse,
    /// Keep it, and hold the item until a person approves it; the text says why.
    Hold(String),
    /// As `Hold`: the scan refused the definition, by this rule.
    Refused(Arc<str>),
}

/// The definition of a tool, a prompt or a resource as a server gave it just now.
#[derive(Clone, Copy, Debug)]
pub struct SeenDefinition<'a> {
    pub server: &'a Name,
    pub item: &'a ServerItem,
    /// The scan finds something private in the item's name: it is not to be kept as it is.
    pub is_private: bool,
    /// SHA-256 of the canonical definition, with all that it holds.
    pub digest: Digest,
    /// The canonical definition without what the scan found private in it; absent where that is not known.
    pub definition: Option<&'a str>,
    /// SHA-256 of the definition's bytes as they came.
    pub bytes: Digest,
}

/// What is known of an item's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It was never seen before.
    New,
    /// It is the one that is approved.
    Approved,
    /// The scan refused it, and a person approved it all the same.
    Accepted,
    Held(HeldItem),
}

/// A definition that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldItem {
    pub why: HoldReason,
    /// The rule of the scan that refused it, where one did.
    pub rule: Option<Arc<str>>,
    /// SHA-256 of the canonical definition that waits.
    pub digest: Digest,
}

/// Why an item is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// It is not what was approved.
    Changed,
    /// Its name is like another's, and it was never approved.
    Lookalike,
    /// The scan refused its definition.
    Refused,
}

/// The items of a server are as many as are remembered of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinsFull;

/// Which definitions of tools, prompts and resources are approved. Answers from memory; what has to be kept is queued.
pub trait Pins: Send + Sync {
    /// Whether an item is held. Asked for each call of one.
    fn held(&self, server: &Name, item: &ServerItem) -> Option<HeldItem>;
    /// What is known of a definition with these bytes, where they were seen since the start.
    fn known(&self, server: &Name, item: &ServerItem, bytes: &Digest) -> Option<Standing>;
    /// Takes notice of a definition. It is kept for later changes even where it is not to be trusted.
    fn see(&self, sight: &SeenDefinition<'_>, trust: Trust, now: Now)
    -> Result<Standing, PinsFull>;
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
    /// Is done once this many milliseconds have passed.
    fn after(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// What is counted for `/metrics`. Agents choose what they ask for: only configured names become labels.
pub trait Meter: Send + Sync {
    /// A call was judged; `code` is the refusal's, absent where it passed.
    fn judged(&self, resource: &Resource, code: Option<&'static str>);
    /// A call that passed has ended.
    fn ended(&self, resource: &Resource, end: CallEnd, duration_ms: u64);
    /// The scan found something, and this was done about it.
    fn found(&self, rule: &'static str, action: &'static str);
}

/// All ports of one gate.
pub struct Ports {
    pub directory: Arc<dyn Directory>,
    pub budgets: Arc<dyn Budgets>,
    pub recorder: Arc<dyn Recorder>,
    pub clock: Arc<dyn Clock>,
    pub meter: Arc<dyn Meter>,
    /// Absent where definitions are not pinned.
    pub pins: Option<Arc<dyn Pins>>,
    /// Absent where nobody keeps account of what models used.
    pub accounts: Option<Arc<dyn Accounts>>,
    /// Absent where no credential has an id that may be used once.
    pub once_ids: Option<Arc<dyn OnceIds>>,
    /// Asked in this order.
    pub advisors: Vec<Arc<dyn Advisor>>,
    /// Absent where no call waits for a person.
    pub holds: Option<Arc<dyn Holds>>,
}

impl Ports {
    /// The ports that every gate has; the others are absent.
    pub fn new(
        directory: Arc<dyn Directory>,
        budgets: Arc<dyn Budgets>,
        recorder: Arc<dyn Recorder>,
        clock: Arc<dyn Clock>,
        meter: Arc<dyn Meter>,
    ) -> Ports {
        Ports {
            directory,
            budgets,
            recorder,
            clock,
            meter,
            pins: None,
            accounts: None,
            once_ids: None,
            advisors: Vec::new(),
            holds: None,
        }
    }
}
