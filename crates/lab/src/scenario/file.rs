//! A scenario file exactly as it was written: every key optional, no unknown ones, nothing judged yet.
//!
//! The doc comments are the descriptions in the published JSON Schema. Flags write the same keys, so what a
//! file can say and what the command line can say is one thing.

use std::borrow::Cow;

use config::{Named, Reference};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::{Map, Value};

use super::units::{Count, Level, Size, Span, Switch, Text};

/// A scenario file for weir lab load.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The format's version: 1
    pub version: Option<Count>,
    /// What the run is called
    pub name: Option<Text>,
    /// What it does, in a sentence
    pub description: Option<Text>,
    /// What it stands for in production
    pub represents: Option<Text>,
    /// What it leaves out
    pub excludes: Option<Vec<Text>>,
    /// Everything random is drawn from this; by default 1
    pub seed: Option<Count>,
    /// Generator threads of each scenario; by default the cores, shared by the scenarios
    pub threads: Option<Count>,
    /// How fine the series over time are; by default 1s, and finer for runs under 50s
    pub interval: Option<Span>,
    /// Variables for ${env.NAME}; -e NAME=VALUE replaces one, and the process's environment comes last
    pub env: Option<Named<Text>>,
    /// What is sent: each scenario is one kind of traffic with its own load; all run at once
    pub scenarios: Option<Named<Scenario>>,
    /// What must hold, by metric, in k6's spelling: http_req_duration: ["p(95)<250"]
    pub thresholds: Option<Named<Thresholds>>,
    /// What is watched beside the requests
    pub watch: Option<Watch>,
    /// Values to try one after another, by key: each combination is a run
    pub matrix: Option<Named<Vec<Value>>>,
    /// The URL of the built-in origin, which is asked for duplicates at the end
    pub origin: Option<Text>,
    /// Verdicts of validity that do not fail the command
    pub accept: Option<Vec<Accepted>>,
    /// The folder for run.json and all else
    pub out: Option<Text>,
    /// A file for a summary in k6's shape
    pub summary_export: Option<Text>,
    /// A file for one row for each step
    pub csv: Option<Text>,
    /// A file for the histogram of each interval, in HdrHistogram's log format
    pub hlog: Option<Text>,
    /// A file for the report
    pub html: Option<Text>,
    /// A file for JUnit XML
    pub junit: Option<Text>,
    /// A file for Markdown
    pub markdown: Option<Text>,
}

/// One kind of traffic, with its own load.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Where requests go: http:// or https://, with the path
    pub url: Option<Text>,
    /// Several targets, which connections take in turn
    pub urls: Option<Vec<Text>>,
    /// How it speaks; by default http1
    pub protocol: Option<Protocol>,
    /// Connections: the load when closed (by default 10), the most in flight when open (by default 256)
    pub connections: Option<Count>,
    /// Arrivals a second, whether or not earlier ones were answered: this makes the load open
    pub rate: Option<Level>,
    /// How arrivals are spaced; by default uniform. With stages, it makes their levels arrivals a second
    pub arrivals: Option<Arrivals>,
    /// So many arrivals come at the same instant, at the same rate
    pub burst: Option<Count>,
    /// Most requests that are due and wait for a connection; more are dropped. By default 10000
    pub queue: Option<Count>,
    /// How long; by default 10s
    pub duration: Option<Span>,
    /// How long the same load is held before, and left out of the result
    pub warmup: Option<Span>,
    /// Ramps and holds in order, instead of a duration
    pub stages: Option<Vec<Stage>>,
    /// Generator threads
    pub threads: Option<Count>,
    /// The method; by default GET, or POST with a body
    pub method: Option<Text>,
    /// Header fields; a value may be env:NAME or file:PATH, and must be for credentials
    pub headers: Option<Named<Text>>,
    /// The body, as text with substitutions
    pub body: Option<Text>,
    /// The body, as JSON with substitutions in its texts
    pub body_json: Option<Value>,
    /// The file that is the body, byte for byte
    pub body_file: Option<Text>,
    /// A JSON body of this size that no other request has
    pub unique: Option<Size>,
    /// What a good answer is
    pub expect: Option<Expect>,
    /// Several kinds of requests; what they leave out is taken from the scenario
    pub requests: Option<Vec<Request>>,
    /// What is asked of an MCP server
    pub mcp: Option<Mcp>,
    /// What is asked of a model
    pub llm: Option<Llm>,
    /// Credentials
    pub auth: Option<Auth>,
    /// Certificates
    pub tls: Option<Tls>,
    /// Tables whose rows requests take in turn, as ${NAME.COLUMN}
    pub feeds: Option<Named<Feed>>,
    /// From the send to the last byte; by default 10s, and 120s for sse, openai and anthropic
    pub timeout: Option<Span>,
    /// How long a closed connection waits between an answer and its next request
    pub pause: Option<Span>,
    /// A new connection for each request
    pub reconnect: Option<Switch>,
    /// Requests at once on one HTTP/2 connection; by default 1
    pub streams: Option<Count>,
}

/// How a scenario speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    #[default]
    Http1,
    Http2,
    Mcp,
    Sse,
    Openai,
    Anthropic,
}

/// How arrivals are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    Uniform,
    Poisson,
}

/// A stage of the load: go to a level, or stay at one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// From the level before to another
    Ramp(Ramp),
    /// Stay at a level; what is judged
    Hold(Hold),
    /// Stay at a level, left out of the result
    Warmup(Hold),
}

/// A ramp.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ramp {
    /// The level at its end: connections, or arrivals a second
    pub to: Option<Level>,
    /// How long it takes
    pub over: Option<Span>,
    /// What it is called
    pub name: Option<Text>,
}

/// A hold.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// The level: connections, or arrivals a second
    pub at: Option<Level>,
    /// How long
    pub r#for: Option<Span>,
    /// What it is called
    pub name: Option<Text>,
}

/// One kind of request.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// What it is called
    pub name: Option<Text>,
    /// How often beside the others; by default 1
    pub weight: Option<Count>,
    /// Path and query, instead of the URL's
    pub path: Option<Text>,
    /// The method
    pub method: Option<Text>,
    /// Header fields, beside the scenario's
    pub headers: Option<Named<Text>>,
    /// The body, as text with substitutions
    pub body: Option<Text>,
    /// The body, as JSON with substitutions in its texts
    pub body_json: Option<Value>,
    /// The file that is the body, byte for byte
    pub body_file: Option<Text>,
    /// A JSON body of this size that no other request has
    pub unique: Option<Size>,
    /// What a good answer is
    pub expect: Option<Expect>,
}

/// What a good answer is.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Good statuses; by default every 2xx and 3xx
    pub status: Option<Statuses>,
    /// Fields that must be there with exactly these values
    pub headers: Option<Named<Text>>,
    /// What the body must be
    pub body: Option<Body>,
}

/// What a body must be.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    /// What was sent, byte for byte
    Echo,
    /// Exactly this text
    Exact(Text),
    /// This text is somewhere in it
    Contains(Text),
}

/// What is asked of an MCP server.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mcp {
    /// The revision; by default 2025-11-25
    pub revision: Option<Revision>,
    /// The one tool that is called; without it and without calls, the tools are listed
    pub tool: Option<Text>,
    /// Its arguments, with substitutions in their texts
    pub arguments: Option<Map<String, Value>>,
    /// Several kinds of calls, instead of one tool
    pub calls: Option<Vec<Call>>,
}

/// A revision of MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Revision {
    #[serde(rename = "2025-06-18")]
    June2025,
    #[serde(rename = "2025-11-25")]
    November2025,
    #[serde(rename = "2026-07-28")]
    July2026,
}

/// One kind of MCP request: a list, a ping, or a call of a tool.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// tools/list, to its last page
    pub list: Option<Switch>,
    /// ping
    pub ping: Option<Switch>,
    /// tools/call of this tool
    pub tool: Option<Text>,
    /// Its arguments, with substitutions in their texts
    pub arguments: Option<Map<String, Value>>,
    /// What it is called
    pub name: Option<Text>,
    /// How often beside the others; by default 1
    pub weight: Option<Count>,
}

/// What is asked of a model.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Llm {
    /// The model's name
    pub model: Option<Text>,
    /// The user's message, with substitutions
    pub prompt: Option<Text>,
    /// The whole conversation, in the dialect's own shape
    pub messages: Option<Vec<Map<String, Value>>>,
    /// Most tokens in the answer; by default 128
    pub max_tokens: Option<Count>,
    /// Whether the answer is streamed; by default true
    pub stream: Option<Switch>,
}

/// Credentials. Secrets are named, not written: env:NAME or file:PATH.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// Authorization: Bearer
    Bearer(Reference),
    /// Authorization: Basic
    Basic(Basic),
    /// X-Api-Key
    ApiKey(Reference),
}

/// A user and a password.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Basic {
    /// The user's name
    pub user: Option<Text>,
    /// The password
    pub password: Option<Reference>,
}

/// Certificates, as PEM files.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The authorities that are trusted, instead of the web's
    pub ca: Option<Text>,
    /// The client's certificate, with those that it is signed by
    pub cert: Option<Text>,
    /// The client's key
    pub key: Option<Text>,
    /// Accept any certificate
    pub insecure: Option<Switch>,
    /// The name that the certificate must have, instead of the URL's host
    pub server_name: Option<Text>,
}

/// A table of values.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Feed {
    /// A CSV file with a header row, or JSON objects, one a line (.jsonl, .ndjson)
    pub file: Option<Text>,
    /// Row by row, or any row each time; by default sequential
    pub order: Option<Order>,
}

/// In which order a feed's rows are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    Sequential,
    Random,
}

/// What is watched beside the requests.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    /// How often; by default 1s
    pub every: Option<Span>,
    /// A number (a process with its children), name:nginx, all:nginx, command:TEXT, cgroup:PATH or prom:URL#METRIC
    pub subjects: Option<Vec<Text>>,
}

/// A verdict of validity that may be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Accepted {
    GeneratorBound,
    NoisyHost,
    NotSaturated,
    TooShort,
}

/// One status, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statuses(pub Vec<u16>);

impl<'de> Deserialize<'de> for Statuses {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Statuses, D::Error> {
        let one = |value: &Value| {
            let status = value.as_u64().and_then(|n| u16::try_from(n).ok());
            status.filter(|status| (200..600).contains(status))
        };
        let found = match Value::deserialize(from)? {
            Value::Array(list) => list.iter().map(one).collect(),
            value => one(&value).map(|status| vec![status]),
        };
        let found = found.filter(|list: &Vec<u16>| !list.is_empty());
        let wrong = || D::Error::custom("is not a status from 200 to 599, or a list of them");
        found.map(Statuses).ok_or_else(wrong)
    }
}

impl JsonSchema for Statuses {
    fn schema_name() -> Cow<'static, str> {
        "Statuses".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = serde_json::json!({ "type": "integer", "minimum": 200, "maximum": 599 });
        json_schema!({
            "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }]
        })
    }
}

/// The thresholds of one metric as they were written; the judge reads them.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds(pub Value);

impl<'de> Deserialize<'de> for Thresholds {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Thresholds, D::Error> {
        Value::deserialize(from).map(Thresholds)
    }
}

impl JsonSchema for Thresholds {
    fn schema_name() -> Cow<'static, str> {
        "Thresholds".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let long = serde_json::json!({
            "type": "object",
            "properties": {
                "threshold": { "type": "string" },
                "abortOnFail": { "type": "boolean" },
                "delayAbortEval": { "type": ["string", "null"] }
            },
            "required": ["threshold"],
            "additionalProperties": false
        });
        let one = serde_json::json!({ "anyOf": [{ "type": "string" }, long] });
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}
