//! The `scan` section of a configuration, as it is written: its keys, what they mean, and their defaults.
//!
//! [`settings`] checks what rules there are, and what of this they can take.

mod read;

use config::{ByRule, Count, FilePath, Label, List, OneOr, Reference, Switch, Text, Time};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Action, Class, Direction, HostList};

pub use read::settings;

/// What can be done about a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act(pub Action);

config::scalar!(Act, |text| action(text, &Action::ALL).map(Act), "off or warn or redact or refuse", {
    "enum": ["off", "warn", "redact", "refuse"]
});

/// What can be done about a finding that is no part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop(pub Action);

const STOPS: [Action; 3] = [Action::Off, Action::Warn, Action::Refuse];

config::scalar!(Stop, |text| action(text, &STOPS).map(Stop), "off or warn or refuse", {
    "enum": ["off", "warn", "refuse"]
});

fn action(text: &str, of: &[Action]) -> Result<Action, String> {
    match text {
        "hold" => Err("holds do not exist yet; write refuse".to_owned()),
        text => word(text, of, |action| action.as_str()),
    }
}

fn word<T: Copy>(text: &str, of: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    let found = of.iter().copied().find(|one| name(*one) == text);
    let names = || of.iter().map(|one| name(*one)).collect::<Vec<_>>();
    found.ok_or_else(|| format!("must be one of {}", names().join(", ")))
}

/// What rules look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfClass(pub Class);

config::scalar!(
    OfClass,
    |text| word(text, &Class::ALL, Class::as_str).map(OfClass),
    "secret or personal or injection or command or url or tool or chain",
    { "enum": ["secret", "personal", "injection", "command", "url", "tool", "chain"] }
);

/// Which way a text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way(pub Direction);

config::scalar!(
    Way,
    |text| word(text, &Direction::ALL, Direction::as_str).map(Way),
    "outgoing or incoming or description",
    { "enum": ["outgoing", "incoming", "description"] }
);

/// The id of a rule; whether there is such a rule is known once all rules are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleId(pub String);

config::scalar!(RuleId, rule, "rule", { "type": "string", "minLength": 1 });

fn rule(text: &str) -> Result<RuleId, String> {
    let shape = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    match !text.is_empty() && text.len() <= 128 && text.bytes().all(shape) {
        true => Ok(RuleId(text.to_owned())),
        false => Err("must be a rule's id, such as github_token".to_owned()),
    }
}

/// A host's name, `*.name`, an address or a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host(pub String);

config::scalar!(Host, host, "host, *.host, address or range", {
    "type": "string", "minLength": 1
});

fn host(text: &str) -> Result<Host, String> {
    HostList::default().add(text)?;
    Ok(Host(text.to_owned()))
}

/// Gives the actions of a struct with one for each direction.
macro_rules! by_direction {
    ($($of:ty)*) => {$(
        impl $of {
            /// The actions that are written, with their directions.
            pub fn actions(&self) -> impl Iterator<Item = (Direction, Action)> {
                let all = [
                    (Direction::Outgoing, self.outgoing),
                    (Direction::Incoming, self.incoming),
                    (Direction::Description, self.description),
                ];
                all.into_iter().filter_map(|(way, act)| Some((way, act?.0)))
            }
        }
    )*};
}

by_direction!(Secrets Personal Injection RuleDirections);

/// What to do about this rule's findings; one action for all directions, or one for each.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[schemars(example = &"off")]
pub struct RuleActions(pub OneOr<Act, RuleDirections>);

/// What is looked for in calls and answers, and what is done about it.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Section {
    /// Whether a tool whose description or schema changed is held until `weir pins approve`; the first one seen
    /// is trusted.
    #[schemars(example = &"false")]
    pub pins: Switch,
    /// Keys, tokens and passwords; one action for all directions, or one for each.
    #[schemars(example = &"{ outgoing: refuse, incoming: redact }")]
    pub secrets: Option<OneOr<Act, Secrets>>,
    /// What identifies people and their money; one action for all directions, or one for each.
    #[schemars(example = &"{ outgoing: redact }")]
    pub personal: Option<OneOr<Act, Personal>>,
    /// Text that tries to give an agent orders; one action for all directions, or one for each.
    #[schemars(example = &"{ incoming: warn }")]
    pub injection: Option<OneOr<Act, Injection>>,
    /// What to do about a call that asks a tool for a dangerous command or file; the rule's own action by
    /// default.
    #[schemars(example = &"warn")]
    pub commands: Option<Stop>,
    /// What to do about a tool that changed, or that passes for another; the rule's own action by default.
    #[schemars(example = &"refuse")]
    pub tools: Option<Stop>,
    /// What to do about calls that are harmless one by one and not together; the rule's own action by default.
    #[schemars(example = &"warn")]
    pub chains: Option<Stop>,
    /// Which URLs may stand in calls.
    #[schemars(example = &"{ block: [paste.example], internal: [10.1.0.0/16] }")]
    pub urls: Urls,
    /// Rules with an action of their own, by their id, yours too; see the rules page.
    #[schemars(example = &"{ github_token: off }")]
    pub rules: ByRule<RuleActions>,
    /// Actions for a part of all calls; a rule wins over its class, then what names more of direction, lane,
    /// target and agent, then what stands later.
    #[schemars(example = &"[{ class: secret, target: files, action: warn }]")]
    pub overrides: Option<List<Override>>,
    /// Findings that are known and may pass for a time; they are still recorded.
    #[schemars(
        example = &"[{ rule: jwt, target: files, reason: sample data, expires: 2027-01-01T00:00:00Z }]"
    )]
    pub exempt: Option<List<Exempt>>,
    /// A folder of your own rules: its .toml files, in the order of their names, relative to this file.
    #[schemars(example = &"./rules")]
    pub folder: Option<FilePath>,
    /// Your own secrets, looked for as they are and encoded: a variable holds one, a file one a line, with #
    /// comments.
    #[schemars(example = &"[file:secrets.txt, env:DB_PASSWORD]")]
    pub values: Option<List<Reference>>,
    /// Values that nobody has a use for, so that whoever sends one took it; written like scan.values.
    #[schemars(example = &"[file:canaries.txt]")]
    pub canaries: Option<List<Reference>>,
}

impl Default for Section {
    fn default() -> Section {
        Section {
            pins: Switch(true),
            secrets: None,
            personal: None,
            injection: None,
            commands: None,
            tools: None,
            chains: None,
            urls: Default::default(),
            rules: Default::default(),
            overrides: None,
            exempt: None,
            folder: None,
            values: None,
            canaries: None,
        }
    }
}

/// Keys, tokens and passwords; one action for all directions, or one for each.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Secrets {
    /// What to do about a secret in what an agent sends; refuse, unless the rule itself is milder.
    #[schemars(example = &"refuse")]
    pub outgoing: Option<Act>,
    /// What to do about a secret in what a server answers; redact, unless the rule itself is milder.
    #[schemars(example = &"redact")]
    pub incoming: Option<Act>,
    /// What to do about a secret in a tool's description; redact, unless the rule itself is milder.
    #[schemars(example = &"redact")]
    pub description: Option<Act>,
}

/// What identifies people and their money; one action for all directions, or one for each.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Personal {
    /// What to do about personal data in what an agent sends; the rule's own action by default.
    #[schemars(example = &"redact")]
    pub outgoing: Option<Act>,
    /// What to do about personal data in what a server answers; warn, unless the rule itself is milder.
    #[schemars(example = &"redact")]
    pub incoming: Option<Act>,
    /// What to do about personal data in a tool's description; warn, unless the rule itself is milder.
    #[schemars(example = &"warn")]
    pub description: Option<Act>,
}

/// Text that tries to give an agent orders; one action for all directions, or one for each.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Injection {
    /// What to do about an injection in what an agent sends; the rule's own action by default.
    #[schemars(example = &"warn")]
    pub outgoing: Option<Act>,
    /// What to do about an injection in what a server answers; the rule's own action by default.
    #[schemars(example = &"refuse")]
    pub incoming: Option<Act>,
    /// What to do about an injection in a tool's description; the rule's own action by default.
    #[schemars(example = &"refuse")]
    pub description: Option<Act>,
}

/// Which URLs may stand in calls.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Urls {
    /// What to do about a URL that breaks a rule; the rule's own action by default.
    #[schemars(example = &"warn")]
    pub action: Option<Stop>,
    /// The only hosts that may be asked: names with all below them, *.names, addresses and ranges; without it,
    /// all.
    #[schemars(example = &"[example.com, *.example.org]")]
    pub allow: Option<List<Host>>,
    /// Hosts that may not be asked, beside those of the gateway's own list.
    #[schemars(example = &"[paste.example]")]
    pub block: List<Host>,
    /// Inside hosts and ranges that may be asked all the same.
    #[schemars(example = &"[wiki.internal, 10.1.0.0/16]")]
    pub internal: List<Host>,
    /// The schemes that may be asked; without it https, http, wss and ws.
    #[schemars(example = &"[https]")]
    pub schemes: Option<List<Label>>,
    /// Longest URL, in bytes.
    #[schemars(example = &"2048")]
    pub length_max: Count<64, { 64 << 10 }>,
    /// URLs a minute for one agent and one owner of names; 0 is no bound.
    #[schemars(example = &"300")]
    pub per_minute: Count<0, 10_000_000>,
    /// Bytes of URLs a minute for one agent and one owner of names; 0 is no bound.
    #[schemars(example = &"10485760")]
    pub bytes_per_minute: Count<0, { 1 << 40 }>,
    /// Whether parts of URLs that look random are findings, and are counted against a budget.
    #[schemars(example = &"false")]
    pub entropy: Switch,
}

impl Default for Urls {
    fn default() -> Urls {
        Urls {
            action: None,
            allow: None,
            block: Default::default(),
            internal: Default::default(),
            schemes: None,
            length_max: Count(2048),
            per_minute: Count(300),
            bytes_per_minute: Count(10 << 20),
            entropy: Switch(true),
        }
    }
}

/// What to do about this rule's findings; one action for all directions, or one for each.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"off")]
pub struct RuleDirections {
    /// What to do about this rule's findings in what an agent sends.
    #[schemars(example = &"refuse")]
    pub outgoing: Option<Act>,
    /// What to do about this rule's findings in what a server answers.
    #[schemars(example = &"redact")]
    pub incoming: Option<Act>,
    /// What to do about this rule's findings in a tool's description.
    #[schemars(example = &"redact")]
    pub description: Option<Act>,
}

/// Actions for a part of all calls; a rule wins over its class, then what names more of direction, lane, target
/// and agent, then what stands later.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// The rule that it is about: this or class.
    #[schemars(example = &"github_token")]
    pub rule: Option<RuleId>,
    /// The class that it is about: this or rule.
    #[schemars(example = &"secret")]
    pub class: Option<OfClass>,
    /// The direction that it holds in; without it, all.
    #[schemars(example = &"incoming")]
    pub direction: Option<Way>,
    /// The lane that it holds in, one whose messages the scan reads; without it, all.
    #[schemars(example = &"mcp")]
    pub lane: Option<Label>,
    /// The server that it holds for, or the host; without it, all.
    #[schemars(example = &"files")]
    pub target: Option<Text>,
    /// The agent that it holds for; without it, all.
    #[schemars(example = &"dev")]
    pub agent: Option<Label>,
    /// What is done about a finding there.
    #[schemars(required, example = &"warn")]
    pub action: Option<Act>,
}

/// Findings that are known and may pass for a time; they are still recorded.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exempt {
    /// The one rule that is exempted.
    #[schemars(required, example = &"jwt")]
    pub rule: Option<RuleId>,
    /// The server that it is for, or the host; this or agent has to be there.
    #[schemars(example = &"files")]
    pub target: Option<Text>,
    /// The agent that it is for; this or target has to be there.
    #[schemars(example = &"dev")]
    pub agent: Option<Label>,
    /// Why it may pass, for whoever reads this file.
    #[schemars(required, example = &"sample data of the tests")]
    pub reason: Option<Text>,
    /// When it stops being in force; one that has expired is a warning.
    #[schemars(required, example = &"2027-01-01T00:00:00Z")]
    pub expires: Option<Time>,
}
