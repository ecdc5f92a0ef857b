//! One thing that an agent asks, in the words that all lanes share.

use std::net::IpAddr;

use base::{Action, CallId, JsonValue, Resource};
use scan::Direction;

use crate::budget::Price;

/// One thing that an agent asks.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub id: CallId,
    pub peer: IpAddr,
    pub action: &'static Action,
    pub resource: &'a Resource,
    /// The protocol's own name for it, such as `tools/call`.
    pub method: &'a str,
    /// The request id that the agent sent, if it did.
    pub request: Option<&'a str>,
    /// What the agent wrote, as far as it is not the protocol's: scanned.
    pub content: &'a [ContentPart<'a>],
    /// The arguments among it: policies may read those that are declared.
    pub arguments: Option<JsonValue<'a>>,
    /// Size of the whole message.
    pub bytes: u64,
    pub cost: Cost,
    /// The `traceparent` of W3C Trace Context, where the agent sent one.
    pub trace: Option<&'a str>,
    pub repeat: Repeat,
    /// The call that this one goes on with, where a server asked something in between.
    pub first: Option<CallId>,
    /// The id of the run that this call is a step of, or that it starts, reads or cancels.
    pub run: Option<&'a str>,
    /// What the agent calls it by: they stand in the record and in the account of usage, and decide nothing.
    pub tags: &'a [String],
    /// What policies, decision points and the scan refuse passes all the same, and the record says what it was. Who calls, stops,
    /// budgets and the addresses that may be dialled are as ever.
    pub observes: bool,
}

/// A part of what is said in a call.
#[derive(Clone, Copy, Debug)]
pub struct ContentPart<'a> {
    pub role: Role,
    /// Where it stands in the message, for the paths of findings: `params`, or nothing where it is all of it.
    pub path: &'a str,
    pub content: PartContent<'a>,
}

/// Who says a part, and to whom: it decides the direction that the scan takes it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// What a tool is to do.
    Argument,
    /// What a model is told by whoever runs it. It may give orders.
    System,
    User,
    Assistant,
    /// What a tool or a server answered: it comes in, and is nobody's order.
    ToolResult,
    /// A field of an HTTP message.
    Header,
    /// The content of an HTTP request.
    Body,
}

impl Role {
    /// Whether it goes out from the agent, or came in from elsewhere.
    pub fn direction(self) -> Direction {
        match self {
            Role::ToolResult => Direction::Incoming,
            Role::Argument
            | Role::System
            | Role::User
            | Role::Assistant
            | Role::Header
            | Role::Body => Direction::Outgoing,
        }
    }
}

/// What a part says.
#[derive(Clone, Copy, Debug)]
pub enum PartContent<'a> {
    Json(JsonValue<'a>),
    Text(&'a [u8]),
    /// A URL that is about to be asked: where it leads is judged too. It is never redacted, but refused.
    Url(&'a str),
}

impl<'a> PartContent<'a> {
    /// It as it was written.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            PartContent::Json(json) => json.bytes(),
            PartContent::Text(text) => text,
            PartContent::Url(url) => url.as_bytes(),
        }
    }
}

/// What a call is expected to use, beside being one call: reserved before it, settled by what it used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Tokens of a model that go in.
    pub input: u64,
    /// Tokens that may come out.
    pub output: u64,
    /// What they cost, where that is known.
    pub price: Option<Price>,
}

impl Cost {
    /// All tokens, in and out.
    pub fn tokens(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// What they cost at most, in billionths of a dollar; 0 where no price is known.
    pub fn money(&self) -> u64 {
        let price = self.price.as_ref();
        price.map_or(0, |price| price.at_most(self.input, self.output))
    }
}

/// Whether a call may be asked again of another resource, with the same content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    No,
    /// What proves that the content is the same is kept, which costs a SHA-256 of it.
    Maybe,
}

impl<'a> Call<'a> {
    /// A call of which no more is known than who asks for what: without content.
    pub fn new(
        id: CallId,
        peer: IpAddr,
        action: &'static Action,
        resource: &'a Resource,
        method: &'a str,
    ) -> Call<'a> {
        Call {
            id,
            peer,
            action,
            resource,
            method,
            request: None,
            content: &[],
            arguments: None,
            bytes: 0,
            cost: Cost::default(),
            trace: None,
            repeat: Repeat::No,
            first: None,
            run: None,
            tags: &[],
            observes: false,
        }
    }
}
