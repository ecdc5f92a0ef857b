//! Header fields: what may be written, and what must not stand in a file.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue};

use super::{Words, text_value};
use crate::plan::{Protocol, Value};
use crate::scenario::check::One;
use crate::scenario::file::Auth;
use crate::scenario::units::Text;
use config::{Named, Path, Reference};

/// Most fields of one request.
pub(crate) const FIELDS_MAX: usize = 64;
/// Longest value, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 8192;

/// Fields that the generator writes, with the key that is meant instead.
const OWN: &[(&str, &str)] = &[
    ("content-length", "leave it out: it is always right"),
    ("transfer-encoding", "leave it out"),
    (
        "connection",
        "write reconnect: true for a new connection for each request",
    ),
    ("upgrade", "leave it out"),
    ("weir-lab-id", "leave it out: expect.body: echo sends it"),
];
/// Fields that the generator writes when it speaks MCP.
const OWN_MCP: &[&str] = &[
    "mcp-session-id",
    "mcp-protocol-version",
    "accept",
    "content-type",
];

/// The fields of one request, in order.
#[derive(Default)]
pub(crate) struct Fields {
    all: Vec<(String, Value)>,
    wrong: bool,
}

impl Fields {
    /// Adds what is written; a field that is there already is replaced.
    pub(crate) fn add(
        &mut self,
        one: &mut One,
        words: &Words,
        above: &Path,
        written: &Option<Named<Text>>,
    ) {
        let nested = above.0.len() > one.path.0.len();
        for (name, Text(text)) in written.iter().flat_map(|named| &named.0) {
            if name.eq_ignore_ascii_case("host") && !nested {
                // It is the targets' authority.
                continue;
            }
            let at = above.key("headers").key(name);
            let known = self::name(one, &at, name).filter(|known| !refused(one, words, &at, known));
            match known.and_then(|known| value(one, words, &at, &known, text)) {
                Some(value) => self.set(name, value),
                None => self.wrong = true,
            }
        }
        if self.all.len() > FIELDS_MAX {
            let message = format!("there are more than {FIELDS_MAX}");
            one.check.say(&above.key("headers"), message, "");
            self.wrong = true;
        }
    }

    fn set(&mut self, name: &str, value: Value) {
        self.all
            .retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self.all.push((name.to_owned(), value));
    }

    fn has(&self, name: &str) -> bool {
        self.all
            .iter()
            .any(|(other, _)| other.eq_ignore_ascii_case(name))
    }

    /// Adds the scenario's credentials.
    pub(crate) fn add_auth(&mut self, one: &mut One) {
        let Some(auth) = &one.scenario.auth else {
            return;
        };
        let name = match auth {
            Auth::Bearer(_) | Auth::Basic(_) => "authorization",
            Auth::ApiKey(_) => "x-api-key",
        };
        if self.has(name) {
            one.say(
                "auth",
                format!("the headers have {name} already"),
                "keep one of them",
            );
            self.wrong = true;
        }
        match credential(one, auth) {
            Some(value) => self.set(name, value),
            None => self.wrong = true,
        }
    }

    /// Adds what a request should say about itself. `json` is nothing where there is no body.
    pub(crate) fn add_defaults(&mut self, protocol: &Protocol, json: Option<bool>) {
        if !self.has("user-agent") {
            let agent = concat!("weir-lab/", env!("CARGO_PKG_VERSION"));
            self.set("user-agent", text_value(agent));
        }
        if let Some(json) = json.filter(|_| !self.has("content-type")) {
            let kind = if json {
                "application/json"
            } else {
                "text/plain; charset=utf-8"
            };
            self.set("content-type", text_value(kind));
        }
        if *protocol == Protocol::Sse && !self.has("accept") {
            self.set("accept", text_value("text/event-stream"));
        }
        if *protocol == Protocol::Anthropic && !self.has("anthropic-version") {
            self.set("anthropic-version", text_value("2023-06-01"));
        }
    }

    /// The fields, unless one of them was wrong.
    pub(crate) fn done(self) -> Option<Vec<(String, Value)>> {
        (!self.wrong).then_some(self.all)
    }
}

/// A field's name in lower case.
pub(crate) fn name(one: &mut One, at: &Path, name: &str) -> Option<String> {
    let known = HeaderName::from_bytes(name.as_bytes());
    if known.is_err() {
        one.check.say(
            at,
            "is not the name of a field",
            "write letters, digits and dashes",
        );
    }
    known.ok().map(|known| known.as_str().to_owned())
}

fn refused(one: &mut One, words: &Words, at: &Path, name: &str) -> bool {
    let own = OWN
        .iter()
        .find(|(own, _)| *own == name)
        .map(|(_, help)| *help);
    let mcp = matches!(words.protocol, Protocol::Mcp(_)) && OWN_MCP.contains(&name);
    let host = (name == "host").then_some("write it in the scenario's own headers");
    let help = own.or(mcp.then_some("leave it out")).or(host);
    if let Some(help) = help {
        one.check.say(at, "is written by the generator", help);
    }
    help.is_some()
}

/// Whether a field is only ever a credential.
fn is_credential(name: &str) -> bool {
    const ALWAYS: &[&str] = &["authorization", "proxy-authorization", "cookie"];
    const PARTS: &[&str] = &[
        "api-key",
        "apikey",
        "-token",
        "secret",
        "passw",
        "credential",
    ];
    ALWAYS.contains(&name) || PARTS.iter().any(|part| name.contains(part))
}

fn value(one: &mut One, words: &Words, at: &Path, name: &str, text: &str) -> Option<Value> {
    if let Ok(reference) = Reference::parse(text) {
        return secret(one, at, &reference, "");
    }
    if is_credential(name) && !text.contains("${") {
        let message = "a credential is not written here; put it in a variable or a file";
        let help = "write env:NAME or file:PATH, or a text with ${env.NAME} in it";
        one.check.say(at, message, help);
        return None;
    }
    let odd = |c: char| c.is_control() && c != '\t';
    if text.len() > VALUE_BYTES_MAX || text.contains(odd) || text.trim() != text {
        let message = format!(
            "a value has at most {VALUE_BYTES_MAX} bytes, no control characters, and no spaces around it"
        );
        one.check.say(at, message, "");
        return None;
    }
    let template = words.plain(one, at, text)?;
    match template.fixed() {
        Some(fixed) if HeaderValue::from_bytes(fixed).is_err() => {
            one.check
                .say(at, "a variable in it cannot stand in a field", "");
            None
        }
        Some(fixed) if is_credential(name) => {
            let text = String::from_utf8_lossy(fixed).into_owned();
            Some(Value::Secret(base::Secret::new(text)))
        }
        _ => Some(Value::Text(template)),
    }
}

/// A secret as a field's value, after a word such as `Bearer `.
fn secret(one: &mut One, at: &Path, reference: &Reference, before: &str) -> Option<Value> {
    let secret = one.check.secret(at, reference)?;
    let text = format!("{before}{}", secret.expose());
    if HeaderValue::from_str(&text).is_err() {
        one.check.say(at, "the secret cannot stand in a field", "");
        return None;
    }
    Some(Value::Secret(base::Secret::new(text)))
}

fn credential(one: &mut One, auth: &Auth) -> Option<Value> {
    let at = one.path.key("auth");
    match auth {
        Auth::Bearer(reference) => secret(one, &at.key("bearer"), reference, "Bearer "),
        Auth::ApiKey(reference) => secret(one, &at.key("api_key"), reference, ""),
        Auth::Basic(basic) => {
            let at = at.key("basic");
            let (Some(Text(user)), Some(password)) = (&basic.user, &basic.password) else {
                let help = "write basic: { user: me, password: env:NAME }";
                one.check.say(&at, "needs `user` and `password`", help);
                return None;
            };
            if user.contains(':') || user.chars().any(char::is_control) {
                one.check
                    .say(&at.key("user"), "a user has no colon in it", "");
                return None;
            }
            let password = one.check.secret(&at.key("password"), password)?;
            let both = STANDARD.encode(format!("{user}:{}", password.expose()));
            Some(Value::Secret(base::Secret::new(format!("Basic {both}"))))
        }
    }
}
