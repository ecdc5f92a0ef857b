//! The `mcp` section of a configuration, as it is written: a server's keys, what they mean, and their defaults.
//!
//! What one key says about another, and what files hold, is checked where the configuration is read.

use base::limit;
use config::{
    Addresses, ByItem, ByVariable, Count, EnvValue, FilePath, FileReference, List, Reference,
    Switch, Text, Url,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// How long a list is kept at the URL of many servers where its server does not say it, in milliseconds.
const LIST_MS_DEFAULT: u64 = 60_000;

/// One variable; a name that says secret (TOKEN, PASSWORD, …) has to be a reference.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[schemars(example = &"env:TOKEN")]
pub struct Variable(pub EnvValue);

/// What an item is called at /mcp: letters, digits, _ and -, at most 64.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[schemars(example = &"new_ticket")]
pub struct ItemName(pub Text);

/// Whether the hint holds.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[schemars(example = &"true")]
pub struct Hint(pub Switch);

/// One server: either a command or a url.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ command: [mcp-server-filesystem, ./files] }")]
pub struct ServerSection {
    /// The program and its arguments, started without a shell; it speaks over standard input and output.
    #[schemars(example = &"[mcp-server-filesystem, ./files]")]
    pub command: Option<List<Text>>,
    /// The program's whole environment: nothing of the gateway's own is handed on, not even PATH.
    #[schemars(example = &"{ HOME: /tmp, TOKEN: env:TOKEN }", extend("x-with" = "command"))]
    pub env: ByVariable<Variable>,
    /// The folder that the program starts in, relative to this file.
    #[schemars(example = &".", extend("x-with" = "command"))]
    pub dir: FilePath,
    /// Where the server answers streamable HTTP.
    #[schemars(example = &"https://tracker.example/mcp")]
    pub url: Option<Url>,
    /// Sent to the server as Authorization: Bearer; over https, or to this machine.
    #[schemars(example = &"env:TRACKER_TOKEN")]
    pub token: Option<Reference>,
    /// Certificates to trust for this server instead of the public ones, as PEM.
    #[schemars(example = &"file:ca.pem")]
    pub ca: Option<FileReference>,
    /// Whether HTTP/2 is spoken to it: over https where it agrees, over http without asking.
    #[schemars(example = &"true", extend("x-with" = "url"))]
    pub http2: Switch,
    /// Private address ranges that may be dialled for this server; those that are not public are refused
    /// otherwise.
    #[schemars(example = &"[10.0.0.0/8]", extend("x-with" = "url"))]
    pub addresses: List<Addresses>,
    /// Whether the program is told by the variable WEIR_AGENT which agent it is started for, as weir verified it; a program
    /// serves one agent alone.
    #[schemars(example = &"true", extend("x-with" = "command"))]
    pub tells_agent: Switch,
    /// Most sessions open at the server at once; each is a process where the server is a command.
    #[schemars(example = &"64")]
    pub sessions_max: Count<1, 4096>,
    /// Most of these sessions that one agent may have; a new one ends that which it used the longest time ago,
    /// where none is under way in it.
    #[schemars(example = &"16")]
    pub agent_sessions_max: Count<1, 4096>,
    /// How long a session may be unused before it is ended, in milliseconds.
    #[schemars(example = &"1800000")]
    pub session_idle_ms: Count<1, 86_400_000>,
    /// How long a list of the server is kept at /mcp where the server does not say it, in milliseconds; 0 asks each time.
    #[schemars(example = &"60000")]
    pub list_ms: Count<0, 3_600_000>,
    /// What its tools and prompts are called at /mcp, by the server's own names; each name once.
    #[schemars(example = &"{ create_issue: new_ticket }")]
    pub names: ByItem<ItemName>,
    /// What is said of its items at /mcp in place of what the server says.
    #[schemars(example = &"{ create_issue: { description: Files a ticket. } }")]
    pub items: ByItem<ItemSection>,
}

/// What is said of an item of a server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ description: Files a ticket., annotations: { destructiveHint: false } }")]
pub struct ItemSection {
    /// What it does, for the model that chooses it.
    #[schemars(example = &"Files a ticket.")]
    pub description: Option<Text>,
    /// Hints of a tool, such as readOnlyHint; the others stay as the server says them.
    #[schemars(example = &"{ destructiveHint: false }")]
    pub annotations: ByItem<Hint>,
}

/// A chosen set of servers and their items; agents reach it at /mcp/@<name>.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = &"{ servers: [files, tracker], tools: [files/read_text_file, tracker/*] }")]
pub struct ToolsetSection {
    /// Its servers, by name.
    #[schemars(required, example = &"[files, tracker]")]
    pub servers: Option<List<Text>>,
    /// Its items as server/item, where * stands for any text; all where none is named.
    #[schemars(example = &"[files/read_text_file, tracker/*]")]
    pub tools: Option<List<Text>>,
    /// Three tools that find, describe and call the others, in place of a long list.
    #[schemars(example = &"false")]
    #[serde(default)]
    pub search: Switch,
}

impl Default for ServerSection {
    fn default() -> ServerSection {
        ServerSection {
            command: None,
            env: Default::default(),
            dir: FilePath(".".into()),
            url: None,
            token: None,
            ca: None,
            http2: Switch::default(),
            addresses: Default::default(),
            tells_agent: Switch::default(),
            sessions_max: Count(limit::SESSIONS_DEFAULT as u64),
            agent_sessions_max: Count(limit::AGENT_SESSIONS_DEFAULT as u64),
            session_idle_ms: Count(limit::SESSION_IDLE_MS_DEFAULT),
            list_ms: Count(LIST_MS_DEFAULT),
            names: Default::default(),
            items: Default::default(),
        }
    }
}
