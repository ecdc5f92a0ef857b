//! The flags of a load: one table, from which the parser, the help and the overlay on a scenario are made.
//!
//! A row is a flag, the key that it writes, and how its text becomes that key's value. A flag does nothing that
//! a key cannot do, so there is one place where each is checked.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use serde_json::{Map, Value, json};

use config::yaml;

/// One flag.
#[derive(Debug)]
pub struct Flag {
    /// Without its dashes.
    pub name: &'static str,
    pub short: Option<char>,
    /// What stands for the value in the help; empty for a switch.
    pub value: &'static str,
    /// The key that it writes; `*` is every scenario.
    pub key: &'static str,
    /// The value of a text.
    pub read: fn(&str) -> Result<Value, String>,
    /// Keys beside its own that it takes away from the file.
    pub displaces: &'static [&'static str],
    /// It may be given several times.
    pub many: bool,
    pub heading: &'static str,
    pub help: &'static str,
}

/// A flag as it was given.
#[derive(Clone, Debug)]
pub struct Given {
    pub flag: &'static Flag,
    pub text: String,
}

/// All flags of a scenario that were given. Flatten it into a command's arguments.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub given: Vec<Given>,
}

const LOAD: &str = "Load";
const REQUEST: &str = "Requests";
const PROTOCOL: &str = "Protocols";
const TLS: &str = "Credentials and certificates";
const RUN: &str = "The run";
const OUTPUT: &str = "Output";

const BODIES: &[&str] = &["body", "body_json", "body_file", "unique"];

const fn flag(
    heading: &'static str,
    name: &'static str,
    value: &'static str,
    key: &'static str,
    read: fn(&str) -> Result<Value, String>,
    help: &'static str,
) -> Flag {
    Flag {
        name,
        short: None,
        value,
        key,
        read,
        displaces: &[],
        many: false,
        heading,
        help,
    }
}

impl Flag {
    const fn short(mut self, short: char) -> Flag {
        self.short = Some(short);
        self
    }

    const fn instead_of(mut self, keys: &'static [&'static str]) -> Flag {
        self.displaces = keys;
        self
    }

    const fn many(mut self) -> Flag {
        self.many = true;
        self
    }
}

/// Every flag, in the order of the help.
#[rustfmt::skip] // A table is read by its rows.
pub const FLAGS: &[Flag] = &[
    flag(LOAD, "connections", "N", "scenarios.*.connections", scalar,
        "Connections: the load when closed [default: 10], the most in flight when open [default: 256]")
        .short('c'),
    flag(LOAD, "rate", "RATE", "scenarios.*.rate", scalar,
        "Open load: arrivals a second, whether or not earlier requests were answered")
        .short('R').instead_of(&["stages"]),
    flag(LOAD, "duration", "TIME", "scenarios.*.duration", text, "How long [default: 10s]").short('d'),
    flag(LOAD, "warmup", "TIME", "scenarios.*.warmup", text,
        "Hold the load so long before, and leave that out of the result"),
    flag(LOAD, "stage", "STAGE", "scenarios.*.stages", stage,
        "ramp:TO,OVER or hold:AT,FOR[,NAME] or warmup:AT,FOR; levels are connections, or with --arrivals arrivals a second")
        .instead_of(&["duration", "warmup"]).many(),
    flag(LOAD, "arrivals", "HOW", "scenarios.*.arrivals", text,
        "uniform [default] or poisson; with --stage it makes the load open"),
    flag(LOAD, "burst", "N", "scenarios.*.burst", scalar,
        "So many arrivals come at the same instant, at the same --rate"),
    flag(LOAD, "queue", "N", "scenarios.*.queue", scalar,
        "Most requests that are due and wait for a connection; more are dropped [default: 10000]"),
    flag(LOAD, "threads", "N", "scenarios.*.threads", scalar,
        "Generator threads [default: the cores, at most one for each connection]").short('t'),
    flag(LOAD, "timeout", "TIME", "scenarios.*.timeout", text,
        "From the send to the last byte [default: 10s; streams: 120s]"),
    flag(LOAD, "pause", "TIME", "scenarios.*.pause", text,
        "How long a closed connection waits between an answer and its next request"),
    flag(LOAD, "reconnect", "", "scenarios.*.reconnect", scalar, "A new connection for each request"),
    flag(REQUEST, "method", "METHOD", "scenarios.*.method", text,
        "The method [default: GET, or POST with a body]").short('X'),
    flag(REQUEST, "header", "NAME: VALUE", "scenarios.*.headers", header,
        "A header field; VALUE may be env:NAME or file:PATH, and must be for credentials").short('H').many(),
    flag(REQUEST, "body", "TEXT", "scenarios.*.body", text, "The body, with substitutions such as ${seq}")
        .instead_of(BODIES),
    flag(REQUEST, "body-json", "JSON", "scenarios.*.body_json", parsed, "The body, as JSON").instead_of(BODIES),
    flag(REQUEST, "body-file", "FILE", "scenarios.*.body_file", text, "The file that is the body, byte for byte")
        .instead_of(BODIES),
    flag(REQUEST, "unique", "SIZE", "scenarios.*.unique", text,
        "A JSON body of this size that no other request has, such as 1KB").instead_of(BODIES),
    flag(REQUEST, "expect", "WHAT", "scenarios.*.expect", expect,
        "A good answer: echo, status=200,204, contains=TEXT, exact=TEXT, header=NAME:VALUE [default: any 2xx or 3xx]")
        .many(),
    flag(PROTOCOL, "protocol", "NAME", "scenarios.*.protocol", text,
        "http1 [default], http2, mcp, sse, openai or anthropic"),
    flag(PROTOCOL, "http2", "", "scenarios.*.protocol", http2, "The same as --protocol http2"),
    flag(PROTOCOL, "streams", "N", "scenarios.*.streams", scalar,
        "Requests at once on one HTTP/2 connection [default: 1]"),
    flag(PROTOCOL, "mcp-revision", "DATE", "scenarios.*.mcp.revision", text,
        "2025-06-18, 2025-11-25 [default] or 2026-07-28"),
    flag(PROTOCOL, "mcp-tool", "NAME", "scenarios.*.mcp.tool", text,
        "The tool to call; without one, the tools are listed").instead_of(&["calls"]),
    flag(PROTOCOL, "mcp-args", "JSON", "scenarios.*.mcp.arguments", parsed, "The tool's arguments"),
    flag(PROTOCOL, "model", "NAME", "scenarios.*.llm.model", text, "The model to ask"),
    flag(PROTOCOL, "prompt", "TEXT", "scenarios.*.llm.prompt", text, "What to ask it")
        .instead_of(&["messages"]),
    flag(PROTOCOL, "max-tokens", "N", "scenarios.*.llm.max_tokens", scalar,
        "Most tokens in its answer [default: 128]"),
    flag(PROTOCOL, "stream", "BOOL", "scenarios.*.llm.stream", scalar, "Whether it streams [default: true]"),
    flag(TLS, "bearer", "SECRET", "scenarios.*.auth", bearer, "Authorization: Bearer, from env:NAME or file:PATH")
        .instead_of(&["auth"]),
    flag(TLS, "basic", "USER:SECRET", "scenarios.*.auth", basic,
        "Authorization: Basic, the password from env:NAME or file:PATH").instead_of(&["auth"]),
    flag(TLS, "api-key", "SECRET", "scenarios.*.auth", api_key, "X-Api-Key, from env:NAME or file:PATH")
        .instead_of(&["auth"]),
    flag(TLS, "ca", "FILE", "scenarios.*.tls.ca", text, "The authorities to trust (PEM), instead of the web's"),
    flag(TLS, "cert", "FILE", "scenarios.*.tls.cert", text, "The client's certificate (PEM)"),
    flag(TLS, "key", "FILE", "scenarios.*.tls.key", text, "The client's key (PEM)"),
    flag(TLS, "server-name", "NAME", "scenarios.*.tls.server_name", text,
        "The name that the certificate must have, instead of the URL's host"),
    flag(TLS, "insecure", "", "scenarios.*.tls.insecure", scalar, "Accept any certificate"),
    flag(RUN, "name", "TEXT", "name", text, "What the run is called"),
    flag(RUN, "seed", "N", "seed", scalar, "Everything random is drawn from it [default: 1]"),
    flag(RUN, "interval", "TIME", "interval", text, "How fine the series over time are"),
    flag(RUN, "env", "NAME=VALUE", "env", assignment, "A variable for ${env.NAME}").short('e').many(),
    flag(RUN, "threshold", "METRIC:EXPR", "thresholds", threshold,
        "What must hold, in k6's spelling: http_req_duration:p(95)<250").many(),
    flag(RUN, "watch", "WHAT", "watch.subjects", one,
        "Watch a pid, name:nginx, cgroup:PATH or prom:URL beside the requests").many(),
    flag(RUN, "watch-every", "TIME", "watch.every", text, "How often [default: 1s]"),
    flag(RUN, "matrix", "KEY=A,B", "matrix", matrix, "Run once with each value; several make all combinations").many(),
    flag(RUN, "origin", "URL", "origin", text, "The built-in origin, to be asked for duplicates at the end"),
    flag(RUN, "accept", "VERDICT,…", "accept", list,
        "Do not fail for generator-bound, noisy-host, not-saturated or too-short").many(),
    flag(OUTPUT, "out", "FOLDER", "out", text, "The folder for run.json and all else"),
    flag(OUTPUT, "summary-export", "FILE", "summary_export", text, "Write a summary in k6's shape"),
    flag(OUTPUT, "csv", "FILE", "csv", text, "Write one row for each step"),
    flag(OUTPUT, "hlog", "FILE", "hlog", text, "Write the histogram of each interval (HdrHistogram log)"),
    flag(OUTPUT, "html", "FILE", "html", text, "Write the report"),
    flag(OUTPUT, "junit", "FILE", "junit", text, "Write JUnit XML: validity, integrity and thresholds as cases"),
    flag(OUTPUT, "markdown", "FILE", "markdown", text, "Write the result as Markdown"),
];

fn text(text: &str) -> Result<Value, String> {
    Ok(json!(text))
}

fn scalar(text: &str) -> Result<Value, String> {
    Ok(yaml::scalar(text))
}

fn one(text: &str) -> Result<Value, String> {
    Ok(json!([text]))
}

fn list(text: &str) -> Result<Value, String> {
    Ok(text.split(',').map(|item| json!(item.trim())).collect())
}

fn http2(_: &str) -> Result<Value, String> {
    Ok(json!("http2"))
}

fn parsed(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|e| format!("is not JSON: {e}"))
}

fn pair(key: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(key.to_owned(), value)]))
}

fn header(text: &str) -> Result<Value, String> {
    let (name, value) = text.split_once(':').ok_or("is not NAME: VALUE")?;
    Ok(pair(name.trim(), json!(value.trim())))
}

fn assignment(text: &str) -> Result<Value, String> {
    let (name, value) = text.split_once('=').ok_or("is not NAME=VALUE")?;
    Ok(pair(name.trim(), json!(value)))
}

fn matrix(text: &str) -> Result<Value, String> {
    let (key, values) = text.split_once('=').ok_or("is not KEY=A,B")?;
    let values: Vec<Value> = values.split(',').map(|v| yaml::scalar(v.trim())).collect();
    Ok(pair(key.trim(), values.into()))
}

fn threshold(text: &str) -> Result<Value, String> {
    // The metric may hold a colon in its tags; the expression holds none.
    let (metric, expression) = text
        .rsplit_once(':')
        .filter(|(metric, _)| !metric.is_empty())
        .ok_or("is not METRIC:EXPRESSION, such as http_req_duration:p(95)<250")?;
    Ok(pair(metric.trim(), json!([expression.trim()])))
}

fn expect(text: &str) -> Result<Value, String> {
    let wrong = "is not echo, status=200,204, contains=TEXT, exact=TEXT or header=NAME:VALUE";
    match text.split_once('=') {
        None if text == "echo" => Ok(json!({ "body": "echo" })),
        Some(("status", list)) => {
            let list: Vec<Value> = list.split(',').map(|s| yaml::scalar(s.trim())).collect();
            Ok(json!({ "status": list }))
        }
        Some((how @ ("contains" | "exact"), value)) => {
            Ok(json!({ "body": pair(how, json!(value)) }))
        }
        Some(("header", value)) => Ok(json!({ "headers": header(value)? })),
        _ => Err(wrong.to_owned()),
    }
}

fn stage(text: &str) -> Result<Value, String> {
    let wrong = "is not ramp:TO,OVER or hold:AT,FOR or warmup:AT,FOR, such as hold:50,2m";
    let (kind, rest) = text.split_once(':').ok_or(wrong)?;
    let mut parts = rest.splitn(3, ',').map(str::trim);
    let (Some(level), Some(time)) = (parts.next(), parts.next()) else {
        return Err(wrong.to_owned());
    };
    let (level_key, time_key) = match kind.trim() {
        "ramp" => ("to", "over"),
        "hold" | "warmup" => ("at", "for"),
        _ => return Err(wrong.to_owned()),
    };
    let mut inner = Map::new();
    inner.insert(level_key.to_owned(), yaml::scalar(level));
    inner.insert(time_key.to_owned(), json!(time));
    if let Some(name) = parts.next() {
        inner.insert("name".to_owned(), json!(name));
    }
    Ok(json!([pair(kind.trim(), inner.into())]))
}

fn bearer(text: &str) -> Result<Value, String> {
    Ok(json!({ "bearer": text }))
}

fn api_key(text: &str) -> Result<Value, String> {
    Ok(json!({ "api_key": text }))
}

fn basic(text: &str) -> Result<Value, String> {
    let wrong = "is not USER:env:NAME or USER:file:PATH";
    let (user, password) = text.split_once(':').ok_or(wrong)?;
    config::Reference::parse(password)?;
    Ok(json!({ "basic": { "user": user, "password": password } }))
}

impl Flags {
    /// The words that give these flags again. What may be a secret is left out.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        for Given { flag, text } in &self.given {
            words.push(format!("--{}", flag.name));
            if !flag.value.is_empty() {
                words.push(without_secret(flag.name, text));
            }
        }
        words
    }
}

/// A flag's text without what may be a secret: references stay, values with a name that looks like one go.
fn without_secret(flag: &str, text: &str) -> String {
    let kept = match flag {
        "bearer" | "api-key" => config::Reference::parse(text).is_ok(),
        "basic" => basic(text).is_ok(),
        "header" | "env" => {
            let name = text.split([':', '=']).next().unwrap_or_default();
            let value = text[name.len()..].trim_start_matches([':', '=', ' ']);
            !sounds_secret(name) || config::Reference::parse(value).is_ok()
        }
        _ => true,
    };
    if kept {
        return text.to_owned();
    }
    let name = text.split([':', '=']).next().unwrap_or_default();
    match flag {
        "header" | "env" => format!("{}…", &text[..(name.len() + 1).min(text.len())]),
        _ => "…".to_owned(),
    }
}

/// Whether a header or a variable of this name carries a credential.
pub fn sounds_secret(name: &str) -> bool {
    const SOUNDS: &[&str] = &[
        "auth",
        "cookie",
        "token",
        "secret",
        "passw",
        "key",
        "credential",
    ];
    let name = name.to_ascii_lowercase();
    SOUNDS.iter().any(|sound| name.contains(sound))
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        FLAGS.iter().fold(command, |command, flag| {
            let action = match (flag.value, flag.many) {
                ("", _) => ArgAction::SetTrue,
                (_, true) => ArgAction::Append,
                (_, false) => ArgAction::Set,
            };
            let arg = Arg::new(flag.name)
                .long(flag.name)
                .action(action)
                .help(flag.help)
                .help_heading(flag.heading);
            let arg = match flag.value {
                "" => arg,
                value => arg.value_name(value).allow_negative_numbers(true),
            };
            command.arg(match flag.short {
                Some(short) => arg.short(short),
                None => arg,
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Flags, clap::Error> {
        let mut flags = Flags::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.given.clear();
        for flag in FLAGS {
            if flag.value.is_empty() {
                if matches.get_flag(flag.name) {
                    let text = "true".to_owned();
                    self.given.push(Given { flag, text });
                }
                continue;
            }
            for text in matches.get_many::<String>(flag.name).into_iter().flatten() {
                let text = text.clone();
                self.given.push(Given { flag, text });
            }
        }
        Ok(())
    }
}
