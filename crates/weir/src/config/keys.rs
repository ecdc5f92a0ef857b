//! The table of configuration keys: the one list that errors, the JSON Schema, `config show` and the
//! reference page are made from.
//!
//! To add a key, add a row here and read it in `config::read`. A `*` stands for a name that the operator
//! chooses.

use base::limit;

use super::values;

/// One key.
#[derive(Debug)]
pub(crate) struct Key {
    /// Such as `agents.*.key`.
    pub path: &'static str,
    pub kind: Kind,
    pub default: Unset,
    /// One sentence.
    pub doc: &'static str,
    /// A value, as YAML in one line.
    pub example: &'static str,
}

/// What holds where a key is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unset {
    /// Nothing: the key has to be there.
    Required,
    /// Nothing: what the key would turn on is off, or the key belongs to an alternative.
    Nothing,
    Text(&'static str),
    Number(u64),
}

impl Unset {
    /// The default as it would be written.
    pub(crate) fn text(self) -> Option<String> {
        match self {
            Unset::Required | Unset::Nothing => None,
            Unset::Text(text) => Some(text.to_owned()),
            Unset::Number(number) => Some(number.to_string()),
        }
    }
}

/// What a key may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A map of the keys below it in the table.
    Group,
    /// The same, of something that is off where the map is not there.
    Feature,
    /// A map whose keys are names that the operator chooses.
    Names,
    /// A map whose keys are the names of environment variables.
    Variables,
    /// A map whose keys are arguments of tools.
    Arguments,
    /// A map whose keys are ids of scan rules.
    Rules,
    /// A list.
    List(&'static Kind),
    /// A list, or one value alone.
    OneOrMore(&'static Kind),
    /// A map of the keys below it, or one value alone.
    GroupOr(&'static Kind),
    Text,
    Path,
    Name,
    Count {
        min: u64,
        max: u64,
    },
    Choice(&'static [&'static str]),
    Switch,
    Digest,
    Time,
    Socket,
    Url,
    Range,
    Origin,
    /// What the checkpoints of a log call it.
    LogOrigin,
    /// `env:NAME` or `file:PATH`.
    Secret,
    /// `file:PATH`.
    File,
    /// A text, or a secret's reference.
    EnvValue,
    /// The id of a scan rule.
    Rule,
    /// A host's name, `*.name`, an address or a range.
    Host,
    /// An address and port, or `unix:PATH`.
    Listen,
    /// A public key of a relay, its pin, or `file:PATH`.
    RelayKey,
}

impl Kind {
    /// Whether a scalar may stand here, and if not, why.
    pub(crate) fn check(self, text: &str) -> Result<(), String> {
        match self {
            Kind::Group
            | Kind::Feature
            | Kind::Names
            | Kind::Variables
            | Kind::Arguments
            | Kind::Rules => Err("must be a map of keys".to_owned()),
            Kind::List(_) => Err("must be a list".to_owned()),
            Kind::OneOrMore(kind) | Kind::GroupOr(kind) => kind.check(text),
            Kind::Text | Kind::Path if text.is_empty() => Err("must not be empty".to_owned()),
            Kind::Text | Kind::Path => no_zero(text),
            Kind::Rule => values::rule(text),
            Kind::Listen => values::listen(text).map(drop),
            // What it is is known once its file is read.
            Kind::RelayKey => Ok(()),
            Kind::Host => scan::HostList::default().add(text),
            Kind::Name => values::name(text).map(drop),
            Kind::Count { min, max } => values::count(text, min, max).map(drop),
            Kind::Choice(words) if words.contains(&text) => Ok(()),
            Kind::Choice(words) if text == "hold" && words.contains(&"refuse") => {
                Err("holds do not exist yet; write refuse".to_owned())
            }
            Kind::Choice(words) => Err(format!("must be one of {}", words.join(", "))),
            Kind::Switch => values::switch(text).map(drop),
            Kind::Digest => values::digest(text).map(drop),
            Kind::Time => values::time(text).map(drop),
            Kind::Socket => values::socket(text).map(drop),
            Kind::Url => values::url(text).map(drop),
            Kind::Range => values::range(text).map(drop),
            Kind::Origin => values::origin(text).map(drop),
            Kind::LogOrigin if store::note::is_key_name(text) && text.len() <= 255 => Ok(()),
            Kind::LogOrigin => {
                Err("must have 1 to 255 bytes, and neither white space nor a +".to_owned())
            }
            Kind::Secret => values::reference(text).map(drop),
            Kind::File => match text.strip_prefix("file:") {
                Some(path) if !path.is_empty() => Ok(()),
                _ => Err("must be file: and a path".to_owned()),
            },
            Kind::EnvValue if text.starts_with("env:") || text.starts_with("file:") => {
                values::reference(text).map(drop)
            }
            Kind::EnvValue => no_zero(text),
        }
    }

    /// What the kind is called in the reference and in errors.
    pub(crate) fn describe(self) -> String {
        match self {
            Kind::Group | Kind::Feature => "map".to_owned(),
            Kind::Names => "map by name".to_owned(),
            Kind::Variables => "map by variable".to_owned(),
            Kind::Arguments => "map by argument".to_owned(),
            Kind::Rules => "map by rule".to_owned(),
            Kind::List(kind) => format!("list of {}", kind.describe()),
            Kind::OneOrMore(kind) => format!("{0}, or list of {0}", kind.describe()),
            Kind::GroupOr(kind) => format!("{}, or map", kind.describe()),
            Kind::Text => "text".to_owned(),
            Kind::Path => "path".to_owned(),
            Kind::Name => "name".to_owned(),
            Kind::Count { min, max } => format!("number, {min} to {max}"),
            Kind::Choice(words) => words.join(" or "),
            Kind::Switch => "true or false".to_owned(),
            Kind::Digest => "sha256:…".to_owned(),
            Kind::Time => "time".to_owned(),
            Kind::Socket => "address:port".to_owned(),
            Kind::Url => "URL".to_owned(),
            Kind::Range => "address range".to_owned(),
            Kind::Origin => "origin".to_owned(),
            Kind::LogOrigin => "name of a log".to_owned(),
            Kind::Secret => "env:NAME or file:PATH".to_owned(),
            Kind::File => "file:PATH".to_owned(),
            Kind::EnvValue => "text, env:NAME or file:PATH".to_owned(),
            Kind::Rule => "rule".to_owned(),
            Kind::Host => "host, *.host, address or range".to_owned(),
            Kind::Listen => "address:port or unix:PATH".to_owned(),
            Kind::RelayKey => "public key, pin or file:PATH".to_owned(),
        }
    }
}

fn no_zero(text: &str) -> Result<(), String> {
    if text.contains('\0') {
        Err("must not hold a zero byte".to_owned())
    } else {
        Ok(())
    }
}

/// What can be done about a finding.
pub(crate) const ACTIONS: &[&str] = &["off", "warn", "redact", "refuse"];
/// What can be done about a finding that is no part of a text.
pub(crate) const STOPS: &[&str] = &["off", "warn", "refuse"];
/// What rules look for.
pub(crate) const CLASSES: &[&str] = &[
    "secret",
    "personal",
    "injection",
    "command",
    "url",
    "tool",
    "chain",
];
/// Which way a text goes.
pub(crate) const DIRECTIONS: &[&str] = &["outgoing", "incoming", "description"];
/// How calls come in.
pub(crate) const LANES: &[&str] = &["mcp"];
/// Types that a policy can read an argument as, by their Cedar names.
pub(crate) const ARGUMENT_TYPES: &[&str] = &["String", "Long", "Bool", "Set<String>", "Set<Long>"];
/// Ciphers of the sealed relay.
pub(crate) const SUITES: &[&str] = &["aes-256-gcm", "chacha20-poly1305", "aes-256-gcm-siv"];
/// How the two sides of a relay speak.
pub(crate) const TRANSPORTS: &[&str] = &["shr", "mtls"];
/// Content of one message of the relay.
const CONTENT: Kind = Kind::Count {
    min: 1024,
    max: relay::settings::CONTENT_BYTES_DEFAULT,
};
const MS: Kind = Kind::Count {
    min: 1,
    max: 86_400_000,
};
const BYTES: Kind = Kind::Count {
    min: 1024,
    max: 1 << 30,
};
const PER_MINUTE: Kind = Kind::Count {
    min: 1,
    max: 10_000_000,
};

/// Makes the table: `path kind default "doc" "example";`.
macro_rules! keys {
    ($($path:literal $kind:expr, $default:expr, $doc:literal, $example:literal;)*) => {
        /// Every key, parents before children, in the order of the reference page.
        pub(crate) const ALL: &[Key] = &[$(Key {
            path: $path, kind: $kind, default: $default, doc: $doc, example: $example,
        }),*];
    };
}

use Unset::{Nothing, Number, Required, Text};

keys! {
    "listen" Kind::Socket, Text("127.0.0.1:8700"),
        "Where agents connect; only a loopback address, unless listen_public is true.", "127.0.0.1:8700";
    "listen_public" Kind::Switch, Text("false"),
        "Allows a listen address that other machines reach; agents' keys cross that network in the clear, so put a proxy that speaks TLS in front.", "true";
    "state" Kind::Path, Text("./state"),
        "The folder of the log and its keys, relative to this file.", "./state";
    "agents" Kind::Names, Nothing,
        "Who may call; without an agent nobody may.", "{ dev: { key: sha256:9f2c…, groups: [engineers] } }";
    "agents.*" Kind::Group, Nothing,
        "One agent.", "{ key: sha256:9f2c…, groups: [engineers] }";
    "agents.*.key" Kind::OneOrMore(&Kind::Digest), Required,
        "The hash of the agent's key, as `weir agent key` prints it; list two while one replaces the other.", "sha256:9f2c…";
    "agents.*.groups" Kind::List(&Kind::Name), Text("[]"),
        "The groups that policies know the agent by.", "[engineers]";
    "agents.*.expires" Kind::Time, Nothing,
        "When the agent's keys stop being good; without it they do not.", "2027-01-01T00:00:00Z";
    "mcp" Kind::Names, Nothing,
        "The MCP servers behind the gateway; agents reach each at /mcp/<name>.", "{ files: { command: [mcp-server-filesystem, .] } }";
    "mcp.*" Kind::Group, Nothing,
        "One server: either a command or a url.", "{ command: [mcp-server-filesystem, .] }";
    "mcp.*.command" Kind::List(&Kind::Text), Nothing,
        "The program and its arguments, started without a shell; it speaks over standard input and output.", "[mcp-server-filesystem, .]";
    "mcp.*.env" Kind::Variables, Nothing,
        "The program's whole environment: nothing of the gateway's own is handed on, not even PATH.", "{ HOME: /tmp, TOKEN: env:TOKEN }";
    "mcp.*.env.*" Kind::EnvValue, Nothing,
        "One variable; a name that says secret (TOKEN, PASSWORD, …) has to be a reference.", "env:TOKEN";
    "mcp.*.dir" Kind::Path, Text("."),
        "The folder that the program starts in, relative to this file.", ".";
    "mcp.*.url" Kind::Url, Nothing,
        "Where the server answers streamable HTTP.", "https://tracker.example/mcp";
    "mcp.*.token" Kind::Secret, Nothing,
        "Sent to the server as Authorization: Bearer; over https, or to this machine.", "env:TRACKER_TOKEN";
    "mcp.*.ca" Kind::File, Nothing,
        "Certificates to trust for this server instead of the public ones, as PEM.", "file:ca.pem";
    "mcp.*.addresses" Kind::List(&Kind::Range), Text("[]"),
        "Private address ranges that may be dialled for this server; those that are not public are refused otherwise.", "[10.0.0.0/8]";
    "mcp.*.sessions_max" Kind::Count { min: 1, max: 4096 }, Number(limit::SESSIONS_DEFAULT as u64),
        "Most sessions open at the server at once; each is a process where the server is a command.", "64";
    "mcp.*.agent_sessions_max" Kind::Count { min: 1, max: 4096 }, Number(limit::AGENT_SESSIONS_DEFAULT as u64),
        "Most of these sessions that one agent may have; a new one ends that which it used the longest time ago, where none is under way in it.", "16";
    "mcp.*.session_idle_ms" MS, Number(limit::SESSION_IDLE_MS_DEFAULT),
        "How long a session may be unused before it is ended, in milliseconds.", "1800000";
    "tools" Kind::Feature, Nothing,
        "The MCP servers that weir ships, written in short: each is a child process like any other server.", "{ code: { roots: [.] } }";
    "tools.code" Kind::Feature, Nothing,
        "Code search; agents reach it at /mcp/code.", "{ roots: [.] }";
    "tools.code.roots" Kind::List(&Kind::Path), Required,
        "The folders that may be searched, relative to this file; each is indexed when the server starts.", "[., ../library]";
    "tools.code.data" Kind::Path, Nothing,
        "The folder of the index, relative to this file; tools/code in the state folder where none is named.", "/var/lib/weir/code";
    "tools.code.compat" Kind::Choice(&["codebase"]), Nothing,
        "Whose tools are listed too: codebase lists the four of codebase-mcp, which answer in any case.", "codebase";
    "tools.code.embed" Kind::Feature, Nothing,
        "The endpoint that makes vectors of texts; without it there is no search by likeness alone, and nothing else is missing.", "{ url: http://127.0.0.1:11434, model: nomic-embed-text }";
    "tools.code.embed.url" Kind::Url, Required,
        "Where the endpoint is, without the path that its kind has; the child may connect to its port and no other.", "http://127.0.0.1:11434";
    "tools.code.embed.kind" Kind::Choice(&["ollama", "openai"]), Text("ollama"),
        "What the endpoint speaks: /api/embed of Ollama, or /v1/embeddings of OpenAI.", "openai";
    "tools.code.embed.model" Kind::Text, Required,
        "The model; vectors of another one are made anew.", "nomic-embed-text";
    "tools.code.embed.key" Kind::Secret, Nothing,
        "Sent as Authorization: Bearer; over https, or to this machine.", "env:EMBED_KEY";
    "tools.code.embed.query_prefix" Kind::Text, Nothing,
        "What the model wants before a query.", "\"search_query: \"";
    "tools.code.embed.document_prefix" Kind::Text, Nothing,
        "What the model wants before a text that is searched.", "\"search_document: \"";
    "tools.code.sessions_max" Kind::Count { min: 1, max: 4096 }, Number(limit::SESSIONS_DEFAULT as u64),
        "Most sessions open at once; each is a small process, and one of them has the index.", "64";
    "tools.code.agent_sessions_max" Kind::Count { min: 1, max: 4096 }, Number(limit::AGENT_SESSIONS_DEFAULT as u64),
        "Most of these sessions that one agent may have.", "16";
    "tools.code.session_idle_ms" MS, Number(limit::SESSION_IDLE_MS_DEFAULT),
        "How long a session may be unused before it is ended, in milliseconds.", "1800000";
    "policy" Kind::GroupOr(&Kind::Path), Required,
        "The Cedar policies: one file, or a map; what no policy permits is refused.", "policy.cedar";
    "policy.files" Kind::List(&Kind::Path), Required,
        "The policy files, relative to this file.", "[base.cedar, team.cedar]";
    "policy.arguments" Kind::Arguments, Nothing,
        "The arguments of tools that policies may read, with their types.", "{ path: String }";
    "policy.arguments.*" Kind::Choice(ARGUMENT_TYPES), Nothing,
        "The type of one argument; a call that sends another type is refused.", "String";
    "scan" Kind::Group, Nothing,
        "What is looked for in calls and answers, and what is done about it.", "{ secrets: { outgoing: refuse } }";
    "scan.pins" Kind::Switch, Text("true"),
        "Whether a tool whose description or schema changed is held until `weir pins approve`; the first one seen is trusted.", "false";
    "scan.secrets" Kind::GroupOr(&Kind::Choice(ACTIONS)), Nothing,
        "Keys, tokens and passwords; one action for all directions, or one for each.", "{ outgoing: refuse, incoming: redact }";
    "scan.secrets.outgoing" Kind::Choice(ACTIONS), Nothing,
        "What to do about a secret in what an agent sends; refuse, unless the rule itself is milder.", "refuse";
    "scan.secrets.incoming" Kind::Choice(ACTIONS), Nothing,
        "What to do about a secret in what a server answers; redact, unless the rule itself is milder.", "redact";
    "scan.secrets.description" Kind::Choice(ACTIONS), Nothing,
        "What to do about a secret in a tool's description; redact, unless the rule itself is milder.", "redact";
    "scan.personal" Kind::GroupOr(&Kind::Choice(ACTIONS)), Nothing,
        "What identifies people and their money; one action for all directions, or one for each.", "{ outgoing: redact }";
    "scan.personal.outgoing" Kind::Choice(ACTIONS), Nothing,
        "What to do about personal data in what an agent sends; the rule's own action by default.", "redact";
    "scan.personal.incoming" Kind::Choice(ACTIONS), Nothing,
        "What to do about personal data in what a server answers; warn, unless the rule itself is milder.", "redact";
    "scan.personal.description" Kind::Choice(ACTIONS), Nothing,
        "What to do about personal data in a tool's description; warn, unless the rule itself is milder.", "warn";
    "scan.injection" Kind::GroupOr(&Kind::Choice(ACTIONS)), Nothing,
        "Text that tries to give an agent orders; one action for all directions, or one for each.", "{ incoming: warn }";
    "scan.injection.outgoing" Kind::Choice(ACTIONS), Nothing,
        "What to do about an injection in what an agent sends; the rule's own action by default.", "warn";
    "scan.injection.incoming" Kind::Choice(ACTIONS), Nothing,
        "What to do about an injection in what a server answers; the rule's own action by default.", "refuse";
    "scan.injection.description" Kind::Choice(ACTIONS), Nothing,
        "What to do about an injection in a tool's description; the rule's own action by default.", "refuse";
    "scan.commands" Kind::Choice(STOPS), Nothing,
        "What to do about a call that asks a tool for a dangerous command or file; the rule's own action by default.", "warn";
    "scan.tools" Kind::Choice(STOPS), Nothing,
        "What to do about a tool that changed, or that passes for another; the rule's own action by default.", "refuse";
    "scan.chains" Kind::Choice(STOPS), Nothing,
        "What to do about calls that are harmless one by one and not together; the rule's own action by default.", "warn";
    "scan.urls" Kind::Group, Nothing,
        "Which URLs may stand in calls.", "{ block: [paste.example], internal: [10.1.0.0/16] }";
    "scan.urls.action" Kind::Choice(STOPS), Nothing,
        "What to do about a URL that breaks a rule; the rule's own action by default.", "warn";
    "scan.urls.allow" Kind::List(&Kind::Host), Nothing,
        "The only hosts that may be asked: names with all below them, *.names, addresses and ranges; without it, all.", "[example.com, *.example.org]";
    "scan.urls.block" Kind::List(&Kind::Host), Text("[]"),
        "Hosts that may not be asked, beside those of the gateway's own list.", "[paste.example]";
    "scan.urls.internal" Kind::List(&Kind::Host), Text("[]"),
        "Inside hosts and ranges that may be asked all the same.", "[wiki.internal, 10.1.0.0/16]";
    "scan.urls.schemes" Kind::List(&Kind::Name), Nothing,
        "The schemes that may be asked; without it https, http, wss and ws.", "[https]";
    "scan.urls.length_max" Kind::Count { min: 64, max: 64 << 10 }, Number(2048),
        "Longest URL, in bytes.", "2048";
    "scan.urls.per_minute" Kind::Count { min: 0, max: 10_000_000 }, Number(300),
        "URLs a minute for one agent and one owner of names; 0 is no bound.", "300";
    "scan.urls.bytes_per_minute" Kind::Count { min: 0, max: 1 << 40 }, Number(10 << 20),
        "Bytes of URLs a minute for one agent and one owner of names; 0 is no bound.", "10485760";
    "scan.urls.entropy" Kind::Switch, Text("true"),
        "Whether parts of URLs that look random are findings, and are counted against a budget.", "false";
    "scan.rules" Kind::Rules, Nothing,
        "Rules with an action of their own, by their id, yours too; see the rules page.", "{ github_token: off }";
    "scan.rules.*" Kind::GroupOr(&Kind::Choice(ACTIONS)), Nothing,
        "What to do about this rule's findings; one action for all directions, or one for each.", "off";
    "scan.rules.*.outgoing" Kind::Choice(ACTIONS), Nothing,
        "What to do about this rule's findings in what an agent sends.", "refuse";
    "scan.rules.*.incoming" Kind::Choice(ACTIONS), Nothing,
        "What to do about this rule's findings in what a server answers.", "redact";
    "scan.rules.*.description" Kind::Choice(ACTIONS), Nothing,
        "What to do about this rule's findings in a tool's description.", "redact";
    "scan.overrides" Kind::List(&Kind::Group), Nothing,
        "Actions for a part of all calls; a rule wins over its class, then what names more of direction, lane, target and agent, then what stands later.", "[{ class: secret, target: files, action: warn }]";
    "scan.overrides.rule" Kind::Rule, Nothing,
        "The rule that it is about: this or class.", "github_token";
    "scan.overrides.class" Kind::Choice(CLASSES), Nothing,
        "The class that it is about: this or rule.", "secret";
    "scan.overrides.direction" Kind::Choice(DIRECTIONS), Nothing,
        "The direction that it holds in; without it, all.", "incoming";
    "scan.overrides.lane" Kind::Choice(LANES), Nothing,
        "The lane that it holds in; without it, all.", "mcp";
    "scan.overrides.target" Kind::Text, Nothing,
        "The server that it holds for, or the host; without it, all.", "files";
    "scan.overrides.agent" Kind::Name, Nothing,
        "The agent that it holds for; without it, all.", "dev";
    "scan.overrides.action" Kind::Choice(ACTIONS), Required,
        "What is done about a finding there.", "warn";
    "scan.exempt" Kind::List(&Kind::Group), Nothing,
        "Findings that are known and may pass for a time; they are still recorded.", "[{ rule: jwt, target: files, reason: sample data, expires: 2027-01-01T00:00:00Z }]";
    "scan.exempt.rule" Kind::Rule, Required,
        "The one rule that is exempted.", "jwt";
    "scan.exempt.target" Kind::Text, Nothing,
        "The server that it is for, or the host; this or agent has to be there.", "files";
    "scan.exempt.agent" Kind::Name, Nothing,
        "The agent that it is for; this or target has to be there.", "dev";
    "scan.exempt.reason" Kind::Text, Required,
        "Why it may pass, for whoever reads this file.", "sample data of the tests";
    "scan.exempt.expires" Kind::Time, Required,
        "When it stops being in force; one that has expired is a warning.", "2027-01-01T00:00:00Z";
    "scan.folder" Kind::Path, Nothing,
        "A folder of your own rules: its .toml files, in the order of their names, relative to this file.", "./rules";
    "scan.values" Kind::List(&Kind::Secret), Nothing,
        "Your own secrets, looked for as they are and encoded: a variable holds one, a file one a line, with # comments.", "[file:secrets.txt, env:DB_PASSWORD]";
    "scan.canaries" Kind::List(&Kind::Secret), Nothing,
        "Values that nobody has a use for, so that whoever sends one took it; written like scan.values.", "[file:canaries.txt]";
    "relay" Kind::Feature, Nothing,
        "The sealed relay: an outbound seals what applications send, an inbound opens it for origins.", "{ outbound: { … } }";
    "relay.outbound" Kind::Feature, Nothing,
        "The side that applications speak to.", "{ key: file:outbound.key, anyone: local, peers: { east: { url: https://east.example, keys: file:east.pub } } }";
    "relay.outbound.listen" Kind::Listen, Text("127.0.0.1:8701"),
        "Where applications connect, with plain HTTP/1.1; only a loopback address or a Unix socket, unless listen_public is true.", "unix:/run/weir/relay.sock";
    "relay.outbound.listen_public" Kind::Switch, Text("false"),
        "Allows a listen address that other machines reach; what they send is not sealed until it is here.", "true";
    "relay.outbound.key" Kind::Secret, Nothing,
        "The private key that peers know us by, as `weir relay keygen` makes it; needed unless all peers are spoken to by mtls.", "file:outbound.key";
    "relay.outbound.peers" Kind::Names, Nothing,
        "The inbounds that requests are sealed for; policies know them as servers, by name.", "{ east: { url: https://east.example, keys: file:east.pub } }";
    "relay.outbound.peers.*" Kind::Group, Nothing,
        "One inbound.", "{ url: https://east.example, keys: file:east.pub }";
    "relay.outbound.peers.*.url" Kind::Url, Required,
        "Where the inbound is reached, over whatever stands between; http is as safe as https, and shows who talks to whom.", "https://east.example";
    "relay.outbound.peers.*.transport" Kind::Choice(TRANSPORTS), Text("shr"),
        "How requests get there: shr seals each, whatever stands between; mtls is TLS 1.3 with certificates on both sides, on a path that passes TCP on as it is.", "mtls";
    "relay.outbound.peers.*.certificate" Kind::File, Nothing,
        "With mtls: the certificate that the inbound is shown, with those between it and its authority, as PEM.", "file:app.crt";
    "relay.outbound.peers.*.certificate_key" Kind::File, Nothing,
        "With mtls: the private key of that certificate, as PEM.", "file:app.pem";
    "relay.outbound.peers.*.keys" Kind::OneOrMore(&Kind::RelayKey), Nothing,
        "The inbound's public key, or its pin; list the next one too while it turns over. Needed with shr.", "[file:east.pub, file:east-next.pub]";
    "relay.outbound.peers.*.psk" Kind::OneOrMore(&Kind::Secret), Nothing,
        "A pre-shared key of this pair, beside the key pairs; two while it turns over.", "env:EAST_PSK";
    "relay.outbound.peers.*.join_token" Kind::Secret, Nothing,
        "The join token that the inbound asks for before it looks at a handshake.", "env:EAST_JOIN_TOKEN";
    "relay.outbound.peers.*.suite" Kind::Choice(SUITES), Text("aes-256-gcm"),
        "The cipher; aes-256-gcm-siv for machines that are cloned or restored from snapshots.", "chacha20-poly1305";
    "relay.outbound.peers.*.padding" Kind::Switch, Text("false"),
        "Whether the lengths of requests are hidden in buckets.", "true";
    "relay.outbound.peers.*.ca" Kind::File, Nothing,
        "Certificates of authorities to trust for this url instead of the public ones, as PEM; needed with mtls.", "file:ca.pem";
    "relay.outbound.peers.*.crl" Kind::File, Nothing,
        "With mtls: the authorities' revocation lists, as PEM; the inbound's certificate has to be known to them and not revoked.", "file:crl.pem";
    "relay.outbound.peers.*.addresses" Kind::List(&Kind::Range), Text("[]"),
        "Private address ranges that may be dialled for this peer; those that are not public are refused otherwise.", "[10.0.0.0/8]";
    "relay.outbound.plain" Kind::Names, Nothing,
        "Where requests may be passed on as they are, unsealed.", "{ health: { url: http://127.0.0.1:3000 } }";
    "relay.outbound.plain.*" Kind::Group, Nothing,
        "One such place.", "{ url: http://127.0.0.1:3000 }";
    "relay.outbound.plain.*.url" Kind::Url, Required,
        "Where it is reached.", "http://127.0.0.1:3000";
    "relay.outbound.plain.*.ca" Kind::File, Nothing,
        "Certificates of authorities to trust for this url instead of the public ones, as PEM.", "file:ca.pem";
    "relay.outbound.plain.*.addresses" Kind::List(&Kind::Range), Text("[]"),
        "Private address ranges that may be dialled for it; those that are not public are refused otherwise.", "[10.0.0.0/8]";
    "relay.outbound.routes" Kind::List(&Kind::Group), Nothing,
        "Which requests go where: the first that matches; needed where there is more than one peer, else all go to that.", "[{ path: /health, plain: health }, { peer: east }]";
    "relay.outbound.routes.host" Kind::Text, Nothing,
        "The host of the request, or *.name for all below a name; without it, every host.", "api.example";
    "relay.outbound.routes.path" Kind::Text, Text("/"),
        "The path of the request, for itself and all below it.", "/v1";
    "relay.outbound.routes.peer" Kind::Name, Nothing,
        "The peer that it is sealed for: this or plain.", "east";
    "relay.outbound.routes.plain" Kind::Name, Nothing,
        "The place that it is passed on to unsealed: this or peer.", "health";
    "relay.outbound.anyone" Kind::Name, Nothing,
        "Who callers are that show no key; without it, the key of an agent is demanded.", "local";
    "relay.outbound.users" Kind::Names, Nothing,
        "Agents that are known by their user id, on a Unix socket.", "{ batch: 1000 }";
    "relay.outbound.users.*" Kind::Count { min: 0, max: u32::MAX as u64 }, Nothing,
        "The user id of one agent.", "1000";
    "relay.outbound.field" Kind::Text, Text("proxy-authorization"),
        "The field that an agent's key stands in, which is taken out before sealing; after Bearer in this one, alone in others.", "x-relay-key";
    "relay.outbound.content_bytes_max" CONTENT, Number(relay::settings::CONTENT_BYTES_DEFAULT),
        "Longest content of one request or answer, in bytes.", "1073741824";
    "relay.inbound" Kind::Feature, Nothing,
        "The side that origins are behind.", "{ keys: file:inbound.key, origins: { api: { url: http://127.0.0.1:3000 } }, allow: { app: { key: file:app.pub } } }";
    "relay.inbound.listen" Kind::Listen, Text("127.0.0.1:8702"),
        "Where outbounds connect, or what stands before us; only sealed messages are answered, so any address is good.", "0.0.0.0:8702";
    "relay.inbound.transport" Kind::Choice(TRANSPORTS), Text("shr"),
        "What outbounds send: shr is sealed messages; mtls is TLS 1.3 with certificates on both sides, and plain HTTP/1.1 in it.", "mtls";
    "relay.inbound.certificate" Kind::File, Nothing,
        "With mtls: our certificate, with those between it and its authority, as PEM.", "file:east.crt";
    "relay.inbound.certificate_key" Kind::File, Nothing,
        "With mtls: the private key of that certificate, as PEM.", "file:east.pem";
    "relay.inbound.ca" Kind::File, Nothing,
        "With mtls: the authorities whose certificates outbounds have to show, as PEM.", "file:ca.pem";
    "relay.inbound.crl" Kind::File, Nothing,
        "With mtls: the authorities' revocation lists, as PEM; an outbound's certificate has to be known to them and not revoked.", "file:crl.pem";
    "relay.inbound.keys" Kind::OneOrMore(&Kind::Secret), Nothing,
        "Our private keys, as `weir relay keygen` makes them: one, or two while it turns over. Needed with shr.", "[file:inbound.key, file:inbound-next.key]";
    "relay.inbound.origins" Kind::Names, Nothing,
        "Where opened requests go as plain HTTP/1.1; policies know them as servers, by name.", "{ api: { url: http://127.0.0.1:3000 } }";
    "relay.inbound.origins.*" Kind::Group, Nothing,
        "One origin.", "{ url: http://127.0.0.1:3000 }";
    "relay.inbound.origins.*.url" Kind::Url, Required,
        "Where it is reached.", "http://127.0.0.1:3000";
    "relay.inbound.origins.*.ca" Kind::File, Nothing,
        "Certificates of authorities to trust for this url instead of the public ones, as PEM.", "file:ca.pem";
    "relay.inbound.origins.*.addresses" Kind::List(&Kind::Range), Text("[]"),
        "Private address ranges that may be dialled for it; those that are not public are refused otherwise.", "[10.0.0.0/8]";
    "relay.inbound.routes" Kind::List(&Kind::Group), Nothing,
        "Which requests go to which origin: the first that matches; needed where there is more than one origin.", "[{ host: api.example, origin: api }]";
    "relay.inbound.routes.host" Kind::Text, Nothing,
        "The host of the request, or *.name for all below a name; without it, every host.", "api.example";
    "relay.inbound.routes.path" Kind::Text, Text("/"),
        "The path of the request, for itself and all below it.", "/v1";
    "relay.inbound.routes.origin" Kind::Name, Required,
        "The origin that it goes to.", "api";
    "relay.inbound.allow" Kind::Names, Nothing,
        "The outbounds that may call; policies know them as agents, by name. Without one nobody may.", "{ app: { key: file:app.pub } }";
    "relay.inbound.allow.*" Kind::Group, Nothing,
        "One outbound.", "{ key: file:app.pub, groups: [services] }";
    "relay.inbound.allow.*.key" Kind::RelayKey, Nothing,
        "The outbound's public key, whole. Needed with shr.", "file:app.pub";
    "relay.inbound.allow.*.certificate_name" Kind::Text, Nothing,
        "With mtls: the DNS name or IP address that the outbound's certificate is for, of its alternative names.", "app.example";
    "relay.inbound.allow.*.psk" Kind::Secret, Nothing,
        "The pre-shared key of this pair, beside the key pairs.", "env:APP_PSK";
    "relay.inbound.allow.*.groups" Kind::List(&Kind::Name), Text("[]"),
        "The groups that policies know the outbound by.", "[services]";
    "relay.inbound.allow.*.sessions_after" Kind::Time, Nothing,
        "Ends every session of the outbound that began before: write the time at which its key may have been stolen.", "2027-01-01T00:00:00Z";
    "relay.inbound.join_tokens" Kind::List(&Kind::Secret), Nothing,
        "Secrets of which a handshake has to show one before it costs us anything; two while they turn over.", "[env:JOIN_TOKEN]";
    "relay.inbound.ticket_keys" Kind::File, Nothing,
        "The ticket keys that instances share, as `weir relay keygen --tickets` writes them; without it this instance makes its own and tells nobody.", "file:tickets";
    "relay.inbound.next_key" Kind::RelayKey, Nothing,
        "The key that outbounds are told to expect next.", "file:inbound-next.key.pub";
    "relay.inbound.replay" Kind::Choice(&["local"]), Text("local"),
        "How often a message may run: local is once on each instance.", "local";
    "relay.inbound.windows_max" Kind::Count { min: 64, max: 1 << 20 }, Number(seal::replay::WINDOWS_DEFAULT as u64),
        "Most senders of the last half minute that are told apart, at 2 KiB each; over it, new ones are refused.", "16384";
    "relay.inbound.handshake_cpu_us_per_s" Kind::Count { min: 1_000, max: 1_000_000 }, Number(100_000),
        "CPU time that handshakes may take in each second, in microseconds.", "100000";
    "relay.inbound.session_ms" Kind::Count { min: 1_000, max: relay::settings::SESSION_MS_DEFAULT }, Number(relay::settings::SESSION_MS_DEFAULT),
        "How long sessions last, in milliseconds; outbounds renew them before they end.", "600000";
    "relay.inbound.content_bytes_max" CONTENT, Number(relay::settings::CONTENT_BYTES_DEFAULT),
        "Longest content of one request or answer, in bytes.", "1073741824";
    "relay.inbound.padding" Kind::Switch, Text("false"),
        "Whether the lengths of answers are hidden in buckets.", "true";
    "limits" Kind::Group, Nothing,
        "Bounds on what agents may ask.", "{ agent_per_minute: 600 }";
    "limits.agent_per_minute" PER_MINUTE, Number(limit::CALLS_PER_MINUTE_DEFAULT as u64),
        "Calls a minute for one agent.", "600";
    "limits.address_per_minute" PER_MINUTE, Nothing,
        "Calls a minute of all agents at one address (IPv6: one /64) together; not limited where it is not set.", "6000";
    "limits.strangers_per_minute" PER_MINUTE, Number(limit::STRANGERS_PER_MINUTE_DEFAULT as u64),
        "Requests a minute without a good key from one address (IPv6: one /64); agents at that address are not counted.", "60";
    "limits.body_bytes_max" BYTES, Number(limit::BODY_BYTES_DEFAULT as u64),
        "Largest request body, in bytes.", "4194304";
    "limits.answer_bytes_max" BYTES, Number(limit::ANSWER_BYTES_DEFAULT as u64),
        "Largest answer of a server, in bytes: one JSON body, one event, or one line.", "8388608";
    "limits.head_ms" MS, Number(limit::HEAD_MS_DEFAULT),
        "How long a request head may take, in milliseconds.", "10000";
    "limits.body_ms" MS, Number(limit::BODY_MS_DEFAULT),
        "How long a request body may take, in milliseconds.", "30000";
    "limits.answer_ms" MS, Number(limit::ANSWER_MS_DEFAULT),
        "How long a server may take to answer a call, in milliseconds.", "60000";
    "limits.connections_max" Kind::Count { min: 1, max: 1_000_000 }, Number(limit::CONNECTIONS_DEFAULT as u64),
        "Most connections of agents open at once. When all are taken, those that ask nothing and have shown no good key are closed, the oldest first.", "4096";
    "limits.strangers_connections_max" Kind::Count { min: 1, max: 1_000_000 }, Number(limit::STRANGERS_CONNECTIONS_DEFAULT as u64),
        "Of those, most from one address (IPv6: one /64) on which no good key was shown yet.", "1024";
    "limits.drain_ms" MS, Number(limit::DRAIN_MS_DEFAULT),
        "How long the gateway waits for calls in flight when it is told to stop, in milliseconds.", "10000";
    "log" Kind::Group, Nothing,
        "The log of records: what every agent asked, and what became of it.", "{ durability: fsync }";
    "log.durability" Kind::Choice(&["fsync", "os"]), Text("fsync"),
        "When a record counts as kept: once the disk says so, or once the operating system has it.", "fsync";
    "log.bytes_max" Kind::Count { min: 1 << 20, max: 1 << 50 }, Number(10 << 30),
        "Bytes on disk after which calls are refused rather than unrecorded.", "10737418240";
    "log.origin" Kind::LogOrigin, Nothing,
        "What the signed checkpoints of the log call it, for a log that begins; without it, a name is made at random. It never changes.", "weir.example/replica-1";
    "log.witness" Kind::Path, Nothing,
        "A file outside the log's folder, relative to this file, that keeps the newest signed checkpoint; the gateway starts only on a log that follows it.", "/mnt/witness/weir";
    "origins" Kind::List(&Kind::Origin), Text("[]"),
        "Web sites whose pages may call, beside the gateway's own address.", "[https://app.example]";
    "logs" Kind::Group, Nothing,
        "The gateway's own messages, on standard error.", "{ format: json, level: info }";
    "logs.format" Kind::Choice(&["text", "json"]), Text("text"),
        "The form of the messages.", "json";
    "logs.level" Kind::Choice(&["error", "warn", "info", "debug", "trace"]), Text("info"),
        "The least urgent message that is written.", "info";
    "threads" Kind::Count { min: 0, max: 1024 }, Number(0),
        "Serving threads; 0 is one for each core.", "0";
}

/// The row of a pattern.
pub(crate) fn find(pattern: &str) -> Option<&'static Key> {
    ALL.iter().find(|key| key.path == pattern)
}

/// The keys right below a pattern (below the root: the empty pattern), with their last segment.
pub(crate) fn children(pattern: &str) -> impl Iterator<Item = (&'static str, &'static Key)> {
    ALL.iter()
        .filter_map(move |key| match key.path.rsplit_once('.') {
            Some((parent, last)) => (parent == pattern).then_some((last, key)),
            None => pattern.is_empty().then_some((key.path, key)),
        })
}

/// The key of a group that is most like a word, if any is like it.
pub(crate) fn nearest<'k>(word: &str, among: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let far = 1 + word.len().min(64) / 3;
    among
        .map(|key| (distance(word, key), key))
        .filter(|(d, _)| *d <= far)
        .min()
        .map(|(_, key)| key)
}

/// Edits between two words: letters put in, left out, or replaced.
fn distance(a: &str, b: &str) -> usize {
    if a.len() > 64 {
        return usize::MAX;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_a_parent_a_sentence_and_a_default_that_fits() {
        for (i, key) in ALL.iter().enumerate() {
            if let Some((parent, _)) = key.path.rsplit_once('.') {
                let at = ALL.iter().position(|k| k.path == parent);
                assert!(at.is_some_and(|at| at < i), "{}", key.path);
            }
            assert!(
                key.doc.ends_with('.') && !key.example.is_empty(),
                "{}",
                key.path
            );
            match (key.kind, key.default.text()) {
                (Kind::List(_), Some(text)) => assert_eq!(text, "[]", "{}", key.path),
                (kind, Some(text)) => assert_eq!(kind.check(&text), Ok(()), "{}", key.path),
                (_, None) => {}
            }
            assert_eq!(
                ALL.iter().filter(|k| k.path == key.path).count(),
                1,
                "{}",
                key.path
            );
        }
    }

    #[test]
    fn words_are_those_of_the_engine() {
        let classes = scan::Class::ALL.map(scan::Class::as_str);
        let directions = scan::Direction::ALL.map(scan::Direction::as_str);
        let lanes: Vec<&str> = crate::lanes::scanned().map(|lane| lane.name).collect();
        let actions = scan::Action::ALL.map(scan::Action::as_str);
        assert_eq!(CLASSES, classes);
        assert_eq!(DIRECTIONS, directions);
        assert_eq!(LANES, lanes);
        assert_eq!(ACTIONS, actions);
    }

    #[test]
    fn the_nearest_key_is_suggested() {
        let top = || children("").map(|(name, _)| name);
        assert_eq!(nearest("lisen", top()), Some("listen"));
        assert_eq!(nearest("agent", top()), Some("agents"));
        assert_eq!(nearest("zzzzzz", top()), None);
        assert_eq!(nearest(&"x".repeat(100_000), top()), None);
    }
}
