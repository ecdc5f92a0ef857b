//! Lanes and what agents can do in them, as rows of a table that each lane owns.
//!
//! It exists so that a new lane edits nobody else's list: the gate, the policies and the scan read the row and have
//! no case for any lane. A row holds data and pure functions; it decides nothing.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::Resource;

/// A family of protocols that the gateway speaks, such as MCP. Each lane's crate has one, as a `static`.
pub struct Lane {
    /// In policies, records and settings: `mcp`.
    pub name: &'static str,
    /// Whether the scan reads what passes; without it, a policy that reads findings permits nothing here.
    pub is_scanned: bool,
    /// What agents can do here.
    pub actions: &'static [&'static Action],
    /// The lane's part of the Cedar schema: its actions, and entity types that no other lane has.
    pub schema: &'static str,
}

/// One thing that an agent can do, such as `mcp:call`: a row of its lane's table.
pub struct Action {
    pub lane: &'static Lane,
    /// The id of the Cedar action, in records too.
    pub name: &'static str,
    /// The protocol's method that stands for the action where an operator asks what would happen.
    pub method: &'static str,
    /// The Cedar entity of what the action is asked of; nothing where the resource is not one that the action goes
    /// with, and then it is refused.
    pub entity: fn(&Resource) -> Option<Entity<'_>>,
    /// Whether policies read the declared arguments of it.
    pub has_arguments: bool,
    pub scan_as: ScanAs,
    /// Whether the definition of what it is asked of has to be approved.
    pub is_pinned: bool,
}

/// How the scan takes the content of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanAs {
    /// As a text that goes out.
    Message,
    /// As the parameters of a tool call, `{"name": …, "arguments": {…}}`: what the tool would do is judged too.
    ToolCall,
    /// As parameters that name a resource by `uri`, which is judged as a tool that reads it.
    ResourceRead,
}

/// A Cedar entity, without its attributes of other types than text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity<'a> {
    /// The entity type, such as `Server`.
    pub kind: &'static str,
    pub id: Cow<'a, str>,
    /// Attributes by name; all of them are strings.
    pub attributes: Vec<(&'static str, Cow<'a, str>)>,
    pub parents: Vec<Entity<'a>>,
}

impl<'a> Entity<'a> {
    /// The entity of a name from the configuration, which is its id and its attribute `name`.
    pub fn named(kind: &'static str, name: &'a str) -> Entity<'a> {
        Entity {
            kind,
            id: Cow::Borrowed(name),
            attributes: vec![("name", Cow::Borrowed(name))],
            parents: Vec::new(),
        }
    }
}

impl PartialEq for Action {
    fn eq(&self, other: &Action) -> bool {
        std::ptr::eq(self, other) || self.name == other.name
    }
}

impl Eq for Action {}

impl Hash for Action {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
