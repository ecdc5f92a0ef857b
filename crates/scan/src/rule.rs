//! What a rule is: the words that rules, settings and findings share.
//!
//! A rule is data. It lives in a file under `patterns/` and is checked when it is read.

use crate::branch::Fixed;
use crate::check::Check;
use crate::packed::Texts;

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
    /// Keys, tokens, passwords.
    Secret,
    /// What identifies a person or their money.
    Personal,
    /// Text that gives a model orders.
    Injection,
    /// Commands that a tool is asked to run, and files that it is asked to touch.
    Command,
    /// Addresses of the web that must not be asked.
    Url,
    /// Tools that are not what they were, or not who they say they are.
    Tool,
    /// Calls that are harmless one by one.
    Chain,
}

impl Class {
    pub const ALL: [Class; 7] = [
        Class::Secret,
        Class::Personal,
        Class::Injection,
        Class::Command,
        Class::Url,
        Class::Tool,
        Class::Chain,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Class::Secret => "secret",
            Class::Personal => "personal",
            Class::Injection => "injection",
            Class::Command => "command",
            Class::Url => "url",
            Class::Tool => "tool",
            Class::Chain => "chain",
        }
    }

    /// Whether rules of this class look at every text, rather than at one kind of input.
    pub(crate) fn reads_text(self) -> bool {
        matches!(self, Class::Secret | Class::Personal | Class::Injection)
    }

    /// What is done by default about this class in this direction.
    pub fn default_action(self, direction: Direction) -> Action {
        match (self, direction) {
            (Class::Secret | Class::Personal, Direction::Incoming | Direction::Description) => {
                Action::Redact
            }
            _ => Action::Refuse,
        }
    }
}

/// The ways in which text gives a model orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Tells a model to drop what it was told before.
    Override,
    /// Plays the system, the developer or the user.
    Role,
    /// The control tokens of chat templates.
    Template,
    /// Orders in comments and hidden elements.
    Hidden,
    /// Personas without rules.
    Jailbreak,
    /// Claims the authority of a vendor, an owner, an administrator.
    Authority,
    /// Asks for keys, passwords, system prompts.
    Solicit,
    /// Asks to keep something from the user.
    Covert,
    /// Asks to remember or prefer something from now on.
    Memory,
    /// Asks to decode something and follow it.
    Encoded,
    /// Forges or demands calls of tools.
    Tool,
    /// Sends data out by a link or an image.
    Exfil,
}

impl Kind {
    pub const ALL: [Kind; 12] = [
        Kind::Override,
        Kind::Role,
        Kind::Template,
        Kind::Hidden,
        Kind::Jailbreak,
        Kind::Authority,
        Kind::Solicit,
        Kind::Covert,
        Kind::Memory,
        Kind::Encoded,
        Kind::Tool,
        Kind::Exfil,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Override => "override",
            Kind::Role => "role",
            Kind::Template => "template",
            Kind::Hidden => "hidden",
            Kind::Jailbreak => "jailbreak",
            Kind::Authority => "authority",
            Kind::Solicit => "solicit",
            Kind::Covert => "covert",
            Kind::Memory => "memory",
            Kind::Encoded => "encoded",
            Kind::Tool => "tool",
            Kind::Exfil => "exfil",
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
#[derive(Debug, PartialEq)]
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
    /// One of these stands in each match, in any ASCII case. Empty only where `digits`, `base58` or `phrase` is set.
    pub literals: Texts,
    /// The exact expression, over bytes, of bounded length. Empty for what code looks for.
    pub regex: &'static str,
    /// What to do about a finding that is true.
    pub remedy: &'static str,
    /// Which attack it is, for rules against injection.
    pub kind: Option<Kind>,
    /// The language that it reads, as in BCP 47, for rules against injection.
    pub language: &'static str,
    /// The directions in which it is looked for.
    pub directions: &'static [Direction],
    /// Texts that the rule finds.
    pub hits: Texts,
    /// Texts that look alike and that the rule leaves alone.
    pub misses: Texts,
    /// Bytes that a match may begin before its literal.
    pub(crate) before: usize,
    /// Whether a match may begin in a JSON key and end in its value.
    pub(crate) pair: bool,
    /// Whether a match may begin in a string that names a value, and end in that value: strings after it.
    pub(crate) named: bool,
    /// Whether runs of digits open the rule, in place of literals.
    pub(crate) digits: bool,
    /// Whether runs of Base58 open the rule.
    pub(crate) base58: bool,
    /// Whether the rule finds seed phrases, which no expression says.
    pub(crate) phrase: bool,
    /// Whether a match goes on to the end of its PEM block.
    pub(crate) block: bool,
    pub(crate) check: Check,
    /// The alternatives of the expression, each with what opens it. Only of rules against injection.
    pub(crate) branches: &'static [Fixed],
}

impl Rule {
    /// What is done by default in this direction.
    pub fn default_action(&self, direction: Direction) -> Action {
        if self.directions.contains(&direction) {
            self.class.default_action(direction).min(self.action)
        } else {
            Action::Off
        }
    }
}

/// Words that open rules, and what each is to which of them: all texts, all uses, and for each word where both of its own
/// end.
#[derive(Clone, Copy)]
pub(crate) struct Openings {
    pub(crate) texts: &'static [u8],
    pub(crate) uses: &'static [Use],
    pub(crate) ends: &'static [(u32, u32)],
}

impl Openings {
    /// No words.
    pub(crate) const NONE: Openings = Openings {
        texts: &[],
        uses: &[],
        ends: &[],
    };

    pub(crate) fn iter(self) -> impl Iterator<Item = (&'static [u8], &'static [Use])> {
        self.ends.iter().scan((0, 0), move |start, end| {
            let ((text, one), (text_end, end)) = (*start, *end);
            *start = (text_end, end);
            Some((
                &self.texts[text as usize..text_end as usize],
                &self.uses[one as usize..end as usize],
            ))
        })
    }
}

/// What a word is to a rule.
#[derive(Clone, Copy)]
pub(crate) struct Use {
    /// Index of the rule in its list.
    pub(crate) rule: u16,
    /// Index of its branch; 0 where it has none.
    pub(crate) branch: u16,
    pub(crate) part: Part,
    /// Where words have to end beside it: bits of [`crate::branch::LEFT`] and of those that follow it there.
    pub(crate) edges: u8,
}

/// Which part of a match a word is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// One of the rule's literals.
    Literal,
    /// One of the words of a branch that has no others.
    Only,
    /// One of the first words of a branch.
    First,
    /// One of the words between its first and its last ones.
    Middle,
    /// One of the last words of a branch that has first and last ones, and of one that has middle ones, too.
    Second,
    Third,
}
