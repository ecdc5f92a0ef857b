//! What a rule is: the words that rules, settings and findings share.
//!
//! A rule is data. It lives in a file under `patterns/` and is checked when it is read.

use crate::check::Check;

/// Which way a text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Arguments: from the agent to a server.
    Outgoing,
    /// Results: from a server to the agent.
    Incoming,
    /// Descriptions and schemas of tools: from a server to the agent, read as instructions.
    Description,
}

impl Direction {
    pub const ALL: [Direction; 3] = [
        Direction::Outgoing,
        Direction::Incoming,
        Direction::Description,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Direction::Outgoing => "outgoing",
            Direction::Incoming => "incoming",
            Direction::Description => "description",
        }
    }
}

/// What to do about a finding, from nothing to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// The rule is not looked for.
    Off,
    /// Pass, and record the finding.
    Warn,
    /// Pass with the span replaced.
    Redact,
    /// Do not pass.
    Refuse,
}

impl Action {
    pub const ALL: [Action; 4] = [Action::Off, Action::Warn, Action::Redact, Action::Refuse];

    pub fn as_str(self) -> &'static str {
        match self {
            Action::Off => "off",
            Action::Warn => "warn",
            Action::Redact => "redact",
            Action::Refuse => "refuse",
        }
    }

    /// The action of this name.
    pub fn named(name: &str) -> Option<Action> {
        Action::ALL
            .into_iter()
            .find(|action| action.as_str() == name)
    }
}

/// What kind of thing a rule looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Secret,
    Injection,
}

impl Class {
    pub const ALL: [Class; 2] = [Class::Secret, Class::Injection];

    pub fn as_str(self) -> &'static str {
        match self {
            Class::Secret => "secret",
            Class::Injection => "injection",
        }
    }

    /// What is done by default about this class in this direction.
    pub fn default_action(self, direction: Direction) -> Action {
        match (self, direction) {
            (Class::Secret, Direction::Outgoing) => Action::Refuse,
            (Class::Secret, Direction::Incoming | Direction::Description) => Action::Redact,
            (Class::Injection, Direction::Outgoing | Direction::Incoming) => Action::Warn,
            (Class::Injection, Direction::Description) => Action::Redact,
        }
    }
}

/// How bad it is when a finding is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    Low,
    Medium,
    High,
    Critical,
}

impl Severity {
    pub const ALL: [Severity; 4] = [
        Severity::Low,
        Severity::Medium,
        Severity::High,
        Severity::Critical,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Low => "low",
            Severity::Medium => "medium",
            Severity::High => "high",
            Severity::Critical => "critical",
        }
    }
}

/// One pattern that is looked for, as its data file says it.
#[derive(Debug)]
pub struct Rule {
    /// Stable name in lower_snake, such as `github_token`.
    pub id: &'static str,
    pub class: Class,
    pub severity: Severity,
    /// One sentence for the reference page.
    pub summary: &'static str,
    /// Where the shape is documented, or the attack is described.
    pub reference: &'static str,
    /// The strongest action that the rule takes by default; its class may ask for less.
    pub action: Action,
    /// One of these stands in each match, in any ASCII case. Empty only where `digits` is set.
    pub literals: Vec<&'static str>,
    /// The exact expression, over bytes, of bounded length.
    pub regex: &'static str,
    /// Texts that the rule finds.
    pub hits: Vec<&'static str>,
    /// Texts that look alike and that the rule leaves alone.
    pub misses: Vec<&'static str>,
    /// Bytes that a match may begin before its literal.
    pub(crate) before: usize,
    /// Whether a match may begin in a JSON key and end in its value.
    pub(crate) pair: bool,
    /// Whether runs of digits open the rule, in place of literals.
    pub(crate) digits: bool,
    /// Whether a match goes on to the end of its PEM block.
    pub(crate) block: bool,
    pub(crate) check: Check,
}

impl Rule {
    /// What is done by default in this direction.
    pub fn default_action(&self, direction: Direction) -> Action {
        self.class.default_action(direction).min(self.action)
    }
}
