//! What an agent asks for: the lane it came in by, the action, and the target it is asked of.

use crate::Name;

/// A protocol that weir speaks. Each has a crate of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    Mcp,
    /// The sealed relay.
    Relay,
}

impl Lane {
    /// The lanes whose messages the scan reads. The relay's are not read.
    pub const SCANNED: &[Lane] = &[Lane::Mcp];

    pub fn as_str(self) -> &'static str {
        match self {
            Lane::Mcp => "mcp",
            Lane::Relay => "relay",
        }
    }
}

/// What is asked, as policies name it (`Action::"mcp:call"`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// `tools/list`, `resources/list`, `resources/templates/list`, `prompts/list`.
    McpList,
    /// `tools/call`.
    McpCall,
    /// `resources/read`, `resources/subscribe`, `resources/unsubscribe`.
    McpRead,
    /// `prompts/get`.
    McpPrompt,
    /// Everything else of the protocol: `initialize`, `ping`, notifications, the event stream,
    /// ending a session, and methods that weir does not know.
    McpUse,
    /// An HTTP request through the relay: on the outbound side to a peer, on the inbound side to an origin.
    RelayPass,
}

impl Action {
    pub const ALL: &[Action] = &[
        Action::McpList,
        Action::McpCall,
        Action::McpRead,
        Action::McpPrompt,
        Action::McpUse,
        Action::RelayPass,
    ];

    /// The lane that it is asked in.
    pub fn lane(self) -> Lane {
        match self {
            Action::McpList
            | Action::McpCall
            | Action::McpRead
            | Action::McpPrompt
            | Action::McpUse => Lane::Mcp,
            Action::RelayPass => Lane::Relay,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Action::McpList => "mcp:list",
            Action::McpCall => "mcp:call",
            Action::McpRead => "mcp:read",
            Action::McpPrompt => "mcp:prompt",
            Action::McpUse => "mcp:use",
            Action::RelayPass => "relay:pass",
        }
    }
}

/// What is asked of: a configured server, and one of its tools where the action names one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    pub server: Name,
    pub tool: Option<String>,
}
