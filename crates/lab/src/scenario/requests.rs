//! What is sent: kinds of requests with their bodies, fields and expectations.
//!
//! A request takes what it leaves out from its scenario. Fields that the generator writes itself are refused,
//! because two of them would make a request that means two things.

pub(super) mod headers;
pub(super) mod mcp;
pub(super) mod model;

use serde_json::Value as Json;

use super::address::check_path;
use super::check::One;
use super::feeds;
use super::file;
use super::read;
use super::units::{Count, Size, Text};
use crate::plan::{BodyCheck, Expect, KEPT_BYTES_MAX, Protocol, REQUESTS_MAX, Request, Value};
use crate::template::{Body, Feed, Template, UNIQUE_BYTES_MAX, UNIQUE_BYTES_MIN};
use config::Path;

/// Heaviest weight of a kind of request.
pub(super) const WEIGHT_MAX: u64 = 1_000_000;

/// What the requests of one scenario are made with.
pub(super) struct Words<'f> {
    feeds: &'f [Feed],
    in_json: Vec<Feed>,
    /// Path and query of the URL.
    url_path: &'f str,
    pub protocol: &'f Protocol,
}

/// Reads a scenario's requests.
pub(super) fn requests(
    one: &mut One,
    feeds: &[Feed],
    url_path: &str,
    protocol: &Protocol,
) -> Option<Vec<Request>> {
    let words = Words {
        feeds,
        in_json: feeds::names_in_json(feeds),
        url_path,
        protocol,
    };
    if let Protocol::Mcp(revision) = protocol {
        return mcp::requests(one, &words, *revision);
    }
    let own = file::Request::default();
    let Some(kinds) = &one.scenario.requests else {
        return http(one, &words, &own, None).map(|request| vec![request]);
    };
    if kinds.is_empty() || kinds.len() > REQUESTS_MAX {
        one.say("requests", format!("there are not 1 to {REQUESTS_MAX}"), "");
        return None;
    }
    let above = one.path.key("requests");
    let read = kinds.iter().enumerate();
    let read: Vec<_> = read
        .map(|(i, kind)| http(one, &words, kind, Some(above.index(i))))
        .collect();
    let read = read.into_iter().collect::<Option<Vec<Request>>>()?;
    distinct(one, &read)?;
    Some(read)
}

/// Refuses two kinds of one name, which no table could tell apart.
fn distinct(one: &mut One, kinds: &[Request]) -> Option<()> {
    for (at, kind) in kinds.iter().enumerate() {
        if kinds[..at].iter().any(|other| other.name == kind.name) {
            let message = format!("two of them are called `{}`", kind.name);
            one.say("requests", message, "give each its own name");
            return None;
        }
    }
    Some(())
}

/// The weight of a kind of request.
pub(super) fn weight(one: &mut One, path: &Path, written: Option<Count>) -> Option<u32> {
    let Count(weight) = written.unwrap_or(Count(1));
    if weight == 0 || weight > WEIGHT_MAX {
        let help = "leave out a request that is never sent";
        let message = format!("is not from 1 to {WEIGHT_MAX}");
        one.check.say(&path.key("weight"), message, help);
        return None;
    }
    Some(weight as u32)
}

/// One kind of request over HTTP. `at` is where it stands, if not in the scenario itself.
fn http(one: &mut One, words: &Words, kind: &file::Request, at: Option<Path>) -> Option<Request> {
    let scenario = one.scenario;
    let own = at.clone().unwrap_or_else(|| one.path.clone());
    let shared = one.path.clone();
    let (body, json) = body(one, words, kind, &own, at.is_some());
    let path_text = kind
        .path
        .as_ref()
        .map_or(words.url_path, |path| path.0.as_str());
    let path_key = if kind.path.is_some() { "path" } else { "url" };
    let path = path(one, words, &own.key(path_key), path_text);
    let written = match (&kind.method, &scenario.method) {
        (Some(method), _) => Some((own.key("method"), method)),
        (None, Some(method)) => Some((shared.key("method"), method)),
        (None, None) => None,
    };
    let has_body = !matches!(body, Some(Body::None));
    let method = method(one, written, has_body);
    let mut fields = headers::Fields::default();
    fields.add(one, words, &shared, &scenario.headers);
    if at.is_some() {
        fields.add(one, words, &own, &kind.headers);
    }
    fields.add_auth(one);
    fields.add_defaults(words.protocol, has_body.then_some(json));
    let (expect_at, expected) = match (&kind.expect, &scenario.expect) {
        (Some(expected), _) => (own.key("expect"), Some(expected)),
        (None, expected) => (shared.key("expect"), expected.as_ref()),
    };
    let expect = expect(
        one,
        words,
        &expect_at,
        expected,
        body.as_ref(),
        method.as_deref(),
    );
    let weight = weight(one, &own, kind.weight);
    let (method, body) = (method?, body?);
    let name = match &kind.name {
        Some(Text(name)) => one.name(&own.key("name"), name)?,
        None => short(&format!("{method} {path_text}")),
    };
    Some(Request {
        name,
        weight: weight?,
        method,
        path: path?,
        headers: fields.done()?,
        body,
        ask: None,
        expect: expect?,
    })
}

/// A name made of what a request is, cut to the length of a name.
fn short(name: &str) -> String {
    let most = super::check::NAME_BYTES_MAX;
    match name
        .char_indices()
        .map(|(at, _)| at)
        .take_while(|at| *at <= most - 3)
        .last()
    {
        Some(at) if name.len() > most => format!("{}…", &name[..at]),
        _ => name.to_owned(),
    }
}

/// Compiles a path.
fn path(one: &mut One, words: &Words, at: &Path, text: &str) -> Option<Template> {
    if let Err(message) = check_path(text) {
        one.check.say(at, message, "write /path?query");
        return None;
    }
    words.plain(one, at, text)
}

fn method(one: &mut One, written: Option<(Path, &Text)>, has_body: bool) -> Option<String> {
    let Some((at, Text(method))) = written else {
        return Some(if has_body { "POST" } else { "GET" }.to_owned());
    };
    let known = http::Method::from_bytes(method.as_bytes());
    match known {
        Ok(known) if known != http::Method::CONNECT => Some(method.clone()),
        _ => {
            one.check.say(
                &at,
                format!("`{method}` cannot be sent"),
                "write GET or POST",
            );
            None
        }
    }
}

/// A body as it was written, in the request or in its scenario.
struct Written<'w> {
    at: Path,
    text: Option<&'w Text>,
    json: Option<&'w Json>,
    file: Option<&'w Text>,
    unique: Option<Size>,
}

impl Written<'_> {
    /// The keys that are there.
    fn keys(&self) -> Vec<&'static str> {
        let all = [
            ("body", self.text.is_some()),
            ("body_json", self.json.is_some()),
            ("body_file", self.file.is_some()),
            ("unique", self.unique.is_some()),
        ];
        let there = all.iter().filter(|(_, there)| *there);
        there.map(|(key, _)| *key).collect()
    }
}

/// The body, and whether it is JSON.
fn body(
    one: &mut One,
    words: &Words,
    kind: &file::Request,
    own: &Path,
    nested: bool,
) -> (Option<Body>, bool) {
    let scenario = one.scenario;
    let inner = Written {
        at: own.clone(),
        text: kind.body.as_ref(),
        json: kind.body_json.as_ref(),
        file: kind.body_file.as_ref(),
        unique: kind.unique,
    };
    let outer = Written {
        at: one.path.clone(),
        text: scenario.body.as_ref(),
        json: scenario.body_json.as_ref(),
        file: scenario.body_file.as_ref(),
        unique: scenario.unique,
    };
    let written = if nested && !inner.keys().is_empty() {
        inner
    } else {
        outer
    };
    let model = matches!(words.protocol, Protocol::Openai | Protocol::Anthropic);
    let keys = written.keys();
    let others = usize::from(scenario.llm.is_some());
    if let Some(last) = keys.last().filter(|_| keys.len() + others > 1) {
        let help = "keep one of body, body_json, body_file, unique and llm";
        let at = written.at.key(last);
        one.check.say(&at, "there is another body already", help);
        return (None, false);
    }
    if model && keys.is_empty() {
        return (model::body(one, words), true);
    }
    let json = written.json.is_some() || written.unique.is_some() || model;
    (one_body(one, words, &written), json)
}

fn one_body(one: &mut One, words: &Words, written: &Written) -> Option<Body> {
    if let Some(Text(text)) = written.text {
        let at = written.at.key("body");
        return words.plain(one, &at, text).map(Body::Template);
    }
    if let Some(json) = written.json {
        let at = written.at.key("body_json");
        return words.json(one, &at, json).map(Body::Template);
    }
    if let Some(Text(file)) = written.file {
        let at = written.at.key("body_file");
        return match read::bytes(&one.check.beside(&at, file), UNIQUE_BYTES_MAX) {
            Ok(bytes) => Some(Body::Template(Template::plain(bytes))),
            Err(message) => {
                one.check.say(&at, message, "");
                None
            }
        };
    }
    let Some(Size(bytes)) = written.unique else {
        return Some(Body::None);
    };
    let fits = (UNIQUE_BYTES_MIN as u64..=UNIQUE_BYTES_MAX as u64).contains(&bytes);
    if !fits {
        let message = format!("is not from {UNIQUE_BYTES_MIN} to {UNIQUE_BYTES_MAX} bytes");
        one.check.say(&written.at.key("unique"), message, "");
    }
    let bytes = bytes as usize;
    fits.then_some(Body::Unique { bytes })
}

impl Words<'_> {
    /// Compiles a text.
    pub(super) fn plain(&self, one: &mut One, at: &Path, text: &str) -> Option<Template> {
        let lookup = |name: &str| one.check.variable(name);
        let found = Template::parse(text, self.feeds, &lookup);
        said(one, at, found)
    }

    /// Compiles JSON. What is substituted is escaped as JSON wants it.
    pub(super) fn json(&self, one: &mut One, at: &Path, json: &Json) -> Option<Template> {
        let lookup = |name: &str| one.check.variable(name).map(|value| feeds::in_json(&value));
        let found = Template::parse(&json.to_string(), &self.in_json, &lookup);
        said(one, at, found)
    }
}

fn said(one: &mut One, at: &Path, found: Result<Template, String>) -> Option<Template> {
    match found {
        Ok(template) => Some(template),
        Err(message) => {
            one.check.say(at, message, "");
            None
        }
    }
}

/// What a good answer is.
pub(super) fn expect(
    one: &mut One,
    words: &Words,
    at: &Path,
    written: Option<&file::Expect>,
    body: Option<&Body>,
    method: Option<&str>,
) -> Option<Expect> {
    let Some(written) = written else {
        return Some(Expect::default());
    };
    let mut headers = Vec::new();
    for (name, Text(value)) in written.headers.iter().flat_map(|named| &named.0) {
        headers::name(one, &at.key("headers").key(name), name)?;
        headers.push((name.to_ascii_lowercase(), value.clone()));
    }
    let plain = matches!(words.protocol, Protocol::Http1 | Protocol::Http2 { .. });
    let at = at.key("body");
    let check = match &written.body {
        None => BodyCheck::Any,
        Some(_) if !plain => {
            let help = "leave it out: for this protocol the answer itself is read and checked";
            one.check
                .say(&at, "is for the protocols http1 and http2", help);
            return None;
        }
        Some(_) if method == Some("HEAD") => {
            one.check
                .say(&at, "the answer to HEAD has no body", "leave it out");
            return None;
        }
        Some(file::Body::Echo) if matches!(body, Some(Body::None)) => {
            let help = "add one, such as unique: 1KB";
            one.check.say(&at, "there is no body to be echoed", help);
            return None;
        }
        Some(file::Body::Echo) => BodyCheck::Echo,
        Some(file::Body::Exact(text)) => BodyCheck::Exact(kept(one, &at, text)?),
        Some(file::Body::Contains(text)) => BodyCheck::Contains(kept(one, &at, text)?),
    };
    let statuses = written.status.as_ref().map_or(Vec::new(), |s| s.0.clone());
    Some(Expect {
        statuses,
        headers,
        body: check,
    })
}

fn kept(one: &mut One, at: &Path, text: &Text) -> Option<Vec<u8>> {
    if text.0.is_empty() || text.0.len() > KEPT_BYTES_MAX {
        let message = format!("is not 1 to {KEPT_BYTES_MAX} bytes long");
        one.check.say(at, message, "");
        return None;
    }
    Some(text.0.clone().into_bytes())
}

/// The value of a field, for those who make one.
pub(super) fn text_value(text: &str) -> Value {
    Value::Text(Template::plain(text))
}
