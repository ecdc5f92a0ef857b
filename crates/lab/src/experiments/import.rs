//! `weir lab import`: a scenario file from what others recorded, described or wrote: HAR, OpenAPI, k6.
//!
//! Nothing is sent, and nothing of the input is executed. Credentials are dropped and counted, never written. The file that
//! is made is read back as `weir lab load` reads it before it is kept, and what could not be taken over is said by place.

mod har;
mod k6;
mod openapi;
mod yaml;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use crate::bench::deliver;
use crate::exit::{Ended, Exit, Failure};
use crate::output;
use crate::scenario::{self, read};

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: usize = 64 << 20;
/// Longest body that is taken over, in bytes.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Most lines of what was left out.
const SAID_MAX: usize = 20;
/// Fields that a connection or the generator sets itself.
const OWN_FIELDS: &[&str] = &[
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "accept-encoding",
    "proxy-connection",
    "http2-settings",
    "weir-lab-id",
];

/// What can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// An HTTP Archive 1.2, as browsers save it
    Har,
    /// An OpenAPI 3 description, as JSON or YAML
    Openapi,
    /// A script of k6: its options, requests and checks, as far as they are written and not computed
    K6,
}

/// Makes a scenario file from a HAR, an OpenAPI file or a k6 script
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir lab import har recorded.har -o scenario.yaml
  weir lab import openapi openapi.yaml --url http://127.0.0.1:8080 -o scenario.yaml
  weir lab import k6 script.js -e BASE_URL=http://127.0.0.1:8080 --hold 60s -o scenario.yaml
  weir lab load scenario.yaml -c 16 -d 30s

Cookies, Authorization and whatever sounds like a credential are dropped and counted: add yours with --bearer env:TOKEN.
Of a k6 script nothing is executed. A computed option, and a request in a loop or a condition, are refused with their line.

Exit codes: 0 written, 2 it could not be done.")]
pub struct Import {
    /// What the file is
    #[arg(value_name = "KIND")]
    kind: Kind,
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The scheme, host and port to send to, instead of those in the file
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// What __ENV.NAME is in a k6 script; may be given several times
    #[arg(short = 'e', long = "env", value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Hold the highest level for so long, where the stages of a k6 script only ramp
    #[arg(long, value_name = "TIME")]
    hold: Option<String>,
    /// The scenario file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// A scenario in the making, with what was left out of it.
#[derive(Default)]
struct Made {
    /// By origin: the kinds of requests.
    origins: Vec<(String, Vec<Value>)>,
    left_out: Vec<String>,
    /// Credentials that were dropped.
    secrets: usize,
    /// The whole scenario, where the source says more than requests.
    whole: Option<Value>,
}

/// The scenario file of a k6 script, or the lines that cannot be read. Nothing in a script can make this panic.
///
/// # Errors
///
/// What is wrong, with its lines.
pub fn k6_scenario(
    script: &str,
    env: &BTreeMap<String, String>,
    hold: Option<Duration>,
) -> Result<String, String> {
    let made = k6::read(script, env, hold, None)?;
    Ok(yaml::text(
        &made.whole.unwrap_or_default(),
        "Made by weir lab import",
    ))
}

impl Import {
    pub fn run(self) -> Ended {
        let text = read::text(&self.file, FILE_BYTES_MAX).map_err(|why| Failure::new(why, ""))?;
        let name = self.file.display().to_string();
        let fail = |why: String| Failure::new(format!("{name}: {why}"), "");
        let made = match self.kind {
            Kind::Har => har::read(&text).map_err(fail)?,
            Kind::Openapi => openapi::read(&text, self.url.as_deref()).map_err(fail)?,
            Kind::K6 => k6::read(&text, &self.variables()?, self.hold()?, self.url.as_deref())
                .map_err(fail)?,
        };
        if self.kind != Kind::K6 && (!self.env.is_empty() || self.hold.is_some()) {
            return Err(Failure::new(
                "--env and --hold are for k6 scripts",
                "leave them out",
            ));
        }
        if made.origins.is_empty() && made.whole.is_none() {
            return Err(Failure::new(
                format!("{name}: holds no request that can be sent"),
                "see what was left out: only http:// and https:// are taken over",
            ));
        }
        let scenario = yaml::text(
            &self.scenario(&made),
            &format!("Made by weir lab import from {}", short(&name)),
        );
        scenario::read_text(&scenario).map_err(|problems| scenario::failure(&problems))?;
        self.say(&made);
        match &self.output {
            Some(file) => deliver::write(file, &scenario)?,
            None => output::say(&mut std::io::stdout(), &scenario)?,
        }
        Ok(Exit::Pass)
    }

    fn variables(&self) -> Result<BTreeMap<String, String>, Failure> {
        let wrong = |pair: &String| {
            Failure::new(
                format!("--env {pair}: is not NAME=VALUE"),
                "write -e BASE_URL=http://127.0.0.1:8080",
            )
        };
        let split = |pair: &String| match pair.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => Err(wrong(pair)),
        };
        self.env.iter().map(split).collect()
    }

    fn hold(&self) -> Result<Option<Duration>, Failure> {
        let Some(text) = &self.hold else {
            return Ok(None);
        };
        match serde_json::from_value(Value::from(text.as_str())) {
            Ok(scenario::units::Span(span)) if !span.is_zero() => Ok(Some(span)),
            _ => Err(Failure::new(
                format!("--hold {text}: is no time such as 60s"),
                "",
            )),
        }
    }

    fn scenario(&self, made: &Made) -> Value {
        if let Some(whole) = &made.whole {
            return whole.clone();
        }
        let mut scenarios = Map::new();
        for (number, (origin, requests)) in made.origins.iter().enumerate() {
            let url = self.url.as_deref().unwrap_or(origin).trim_end_matches('/');
            let name = match made.origins.len() {
                1 => "imported".to_owned(),
                _ => format!("origin{}", number + 1),
            };
            scenarios.insert(
                name,
                json!({ "url": escaped(&format!("{url}/")), "connections": 10, "duration": "10s", "requests": requests }),
            );
        }
        json!({ "version": 1, "scenarios": scenarios })
    }

    /// Says what was taken over and what was not, on standard error.
    fn say(&self, made: &Made) {
        let requests: usize = made
            .origins
            .iter()
            .map(|(_, requests)| requests.len())
            .sum();
        let mut lines = Vec::new();
        if made.whole.is_none() {
            lines.push(format!(
                "{requests} kinds of requests to {} origins",
                made.origins.len()
            ));
        }
        if made.secrets > 0 {
            lines.push(format!(
                "{} credentials were dropped: add yours, such as --bearer env:TOKEN",
                made.secrets
            ));
        }
        let left_out = made.left_out.iter().take(SAID_MAX);
        lines.extend(left_out.map(|line| format!("left out: {}", output::units::plain(line))));
        if made.left_out.len() > SAID_MAX {
            lines.push(format!("left out: {} more", made.left_out.len() - SAID_MAX));
        }
        // The scenario is what matters; whoever closed standard error does not read along.
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let _ = output::say(&mut std::io::stderr(), &text);
    }
}

/// A text in which nothing is a substitution.
fn escaped(text: &str) -> String {
    text.replace("${", "$${")
}

/// JSON in whose texts nothing is a substitution.
fn escaped_json(value: &Value) -> Value {
    match value {
        Value::String(text) => escaped(text).into(),
        Value::Array(items) => items.iter().map(escaped_json).collect(),
        Value::Object(map) => {
            let pairs = map
                .iter()
                .map(|(name, value)| (name.clone(), escaped_json(value)));
            Value::Object(pairs.collect())
        }
        other => other.clone(),
    }
}

/// The last part of a path, for a comment.
fn short(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    output::units::cut(&output::units::plain(last), 60)
}

/// Whether a field, a parameter or a member carries a credential by its name.
fn is_secret(name: &str) -> bool {
    scenario::flags::sounds_secret(name) || name.to_ascii_lowercase().contains("session")
}

/// Whether JSON holds a member that carries a credential by its name.
fn holds_secret(value: &Value) -> bool {
    match value {
        Value::Object(map) => map
            .iter()
            .any(|(name, value)| is_secret(name) || holds_secret(value)),
        Value::Array(items) => items.iter().any(holds_secret),
        _ => false,
    }
}

/// Path and query without parameters that carry credentials; how many those were.
fn without_secrets(path: &str) -> (String, usize) {
    let Some((path, query)) = path.split_once('?') else {
        return (path.to_owned(), 0);
    };
    let is_kept = |pair: &&str| !is_secret(pair.split('=').next().unwrap_or(pair));
    let kept: Vec<&str> = query.split('&').filter(is_kept).collect();
    let dropped = query.split('&').count() - kept.len();
    match kept.is_empty() {
        true => (path.to_owned(), dropped),
        false => (format!("{path}?{}", kept.join("&")), dropped),
    }
}

/// Scheme, host and port of a URL, and its path with the query. A user in it is a credential, and left out.
fn split(url: &str) -> Option<(String, String)> {
    let url = url.split('#').next()?;
    let (scheme, rest) = url.split_once("://")?;
    if scheme != "http" && scheme != "https" {
        return None;
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit('@').next()?;
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    (!host.is_empty()).then(|| (format!("{scheme}://{host}"), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split_and_credentials_left_out() {
        let split = |url| super::split(url).map(|(origin, path)| format!("{origin} {path}"));
        assert_eq!(split("https://u:p@h:1/a?b#c").unwrap(), "https://h:1 /a?b");
        assert_eq!(split("http://h?x=1").unwrap(), "http://h /?x=1");
        for url in ["data:x", "ws://h/", "http://", "h"] {
            assert_eq!(split(url), None, "{url}");
        }
        assert_eq!(
            without_secrets("/a?x=1&api_key=2&y"),
            ("/a?x=1&y".to_owned(), 1)
        );
        assert_eq!(without_secrets("/a?token=2"), ("/a".to_owned(), 1));
        assert!(holds_secret(&json!({ "a": [{ "password": "x" }] })));
        assert_eq!(escaped("a${b}$"), "a$${b}$");
    }
}
