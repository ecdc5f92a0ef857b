//! Requests, built ahead as far as they can be.
//!
//! What is the same for every request of a kind is made once for each target; the rest is rendered into it. A
//! rendered text that a field or a path cannot hold ends the run with the reason: sending something else than
//! what was asked would measure something else.

use base64::Engine as _;
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Uri, Version};

use super::check::Asked;
use super::dial::Body;
use super::rpc::version_of;
use crate::exit::Failure;
use crate::plan::{self, Ask, BodyCheck, Flow, McpRevision, Protocol, Value};
use crate::template::{At, Template, id};

/// The identifier of a request, which an echo brings back.
pub(super) const ID: HeaderName = HeaderName::from_static("weir-lab-id");

/// One kind of request.
pub struct Message {
    method: Method,
    path: Template,
    /// By target, where the path is always the same.
    uris: Vec<Option<Uri>>,
    /// By target: `scheme://authority` for HTTP/2, empty otherwise.
    fronts: Vec<String>,
    /// By target: the fields that are always the same.
    fixed: Vec<HeaderMap>,
    varying: Vec<(HeaderName, Template)>,
    body: crate::template::Body,
    echo: bool,
    version: Version,
}

/// The tool that an MCP request calls: its arguments, by number.
pub(super) fn arguments(template: &Template, at: &At) -> Vec<u8> {
    let mut out = Vec::new();
    template.render(at, &mut out);
    out
}

impl Message {
    /// # Errors
    ///
    /// A name, a value, the method or the path cannot be sent.
    pub fn new(flow: &Flow, request: &plan::Request) -> Result<Message, Failure> {
        let http2 = matches!(flow.protocol, Protocol::Http2 { .. });
        let method = match &request.ask {
            Some(_) => Method::POST,
            None => Method::from_bytes(request.method.as_bytes()).map_err(|_| {
                let what = format!("`{}` is no method", request.method);
                Failure::new(what, "use a word such as GET or POST")
            })?,
        };
        let mut message = Message {
            method,
            path: request.path.clone(),
            uris: Vec::new(),
            fronts: Vec::new(),
            fixed: Vec::new(),
            varying: Vec::new(),
            body: match request.ask {
                Some(_) => crate::template::Body::None,
                None => request.body.clone(),
            },
            echo: request.expect.body == BodyCheck::Echo,
            version: if http2 {
                Version::HTTP_2
            } else {
                Version::HTTP_11
            },
        };
        let mut fixed = message.fields(request)?;
        for (name, value) in protocol_fields(&flow.protocol, request.ask.as_ref())? {
            if !message.varying.iter().any(|(varying, _)| *varying == name) {
                fixed.entry(name).or_insert(value);
            }
        }
        for target in &flow.targets {
            let front = match (http2, target.tls) {
                (false, _) => String::new(),
                (true, true) => format!("https://{}", target.authority),
                (true, false) => format!("http://{}", target.authority),
            };
            let mut map = HeaderMap::with_capacity(fixed.len() + 3);
            if !http2 {
                map.insert(header::HOST, field("host", target.authority.as_bytes())?);
            }
            map.extend(fixed.clone());
            message.fixed.push(map);
            let path = message.path.fixed().map(|path| uri(&front, path));
            message.uris.push(path.transpose()?);
            message.fronts.push(front);
        }
        Ok(message)
    }

    /// The fields that the scenario asks for: the fixed ones, with the others put aside.
    fn fields(&mut self, request: &plan::Request) -> Result<HeaderMap, Failure> {
        let mut fixed = HeaderMap::new();
        for (text, value) in &request.headers {
            let name = HeaderName::from_bytes(text.as_bytes()).map_err(|_| {
                Failure::new(
                    format!("`{text}` is no field name"),
                    "use letters, digits and `-`",
                )
            })?;
            match value {
                Value::Secret(secret) => {
                    let mut value = field(text, secret.expose().as_bytes())?;
                    value.set_sensitive(true);
                    fixed.append(name, value);
                }
                Value::Text(template) => match template.fixed() {
                    Some(bytes) => {
                        fixed.append(name, field(text, bytes)?);
                    }
                    None => self.varying.push((name, template.clone())),
                },
            }
        }
        Ok(fixed)
    }

    /// One request to a target, and what its answer will be compared with.
    ///
    /// # Errors
    ///
    /// What was rendered cannot be sent.
    pub fn build(&self, target: usize, at: &At) -> Result<(Request<Body>, Asked), Failure> {
        let mut body = Vec::with_capacity(self.body.fixed_bytes().unwrap_or(0));
        self.body.render(at, &mut body);
        let body = Bytes::from(body);
        let mut request = self.with(target, at, body.clone())?;
        let mut asked = Asked::default();
        if self.echo {
            let mut bytes = Vec::with_capacity(32);
            id(at, &mut bytes);
            let value = field(ID.as_str(), &bytes)?;
            request.headers_mut().insert(ID, value.clone());
            asked = Asked {
                body,
                id: Some(value),
                content_type: request.headers().get(header::CONTENT_TYPE).cloned(),
            };
        }
        Ok((request, asked))
    }

    /// One request to a target with a body of the caller's.
    ///
    /// # Errors
    ///
    /// What was rendered cannot be sent.
    pub fn with(&self, target: usize, at: &At, body: Bytes) -> Result<Request<Body>, Failure> {
        let uri = match &self.uris[target] {
            Some(uri) => uri.clone(),
            None => {
                let mut path = Vec::new();
                self.path.render(at, &mut path);
                uri(&self.fronts[target], &path)?
            }
        };
        let mut request = Request::new(Body::new(body));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri;
        *request.version_mut() = self.version;
        let mut headers = self.fixed[target].clone();
        for (name, template) in &self.varying {
            let mut value = Vec::new();
            template.render(at, &mut value);
            headers.append(name, field(name.as_str(), &value)?);
        }
        *request.headers_mut() = headers;
        Ok(request)
    }
}

fn uri(front: &str, path: &[u8]) -> Result<Uri, Failure> {
    let made = [front.as_bytes(), path].concat();
    Uri::from_maybe_shared(Bytes::from(made)).map_err(|_| {
        let shown = super::fault::quoted(&String::from_utf8_lossy(path));
        let what = format!("the path `{shown}` cannot be sent");
        Failure::new(
            what,
            "begin it with `/`, and percent-encode what is no ASCII",
        )
    })
}

fn field(name: &str, value: &[u8]) -> Result<HeaderValue, Failure> {
    HeaderValue::from_bytes(value).map_err(|_| {
        let what = format!("the value of the field `{name}` holds a line end or a control byte");
        Failure::new(
            what,
            "take it out of the header, or out of the feed that fills it",
        )
    })
}

/// What the protocol itself adds; the scenario's own fields win.
fn protocol_fields(
    protocol: &Protocol,
    ask: Option<&Ask>,
) -> Result<Vec<(HeaderName, HeaderValue)>, Failure> {
    let text = HeaderValue::from_static;
    let revision = match protocol {
        Protocol::Sse => return Ok(vec![(header::ACCEPT, text("text/event-stream"))]),
        Protocol::Openai => return Ok(vec![(header::CONTENT_TYPE, text("application/json"))]),
        Protocol::Anthropic => {
            return Ok(vec![
                (header::CONTENT_TYPE, text("application/json")),
                (ANTHROPIC, text("2023-06-01")),
            ]);
        }
        Protocol::Mcp(revision) => *revision,
        Protocol::Http1 | Protocol::Http2 { .. } => return Ok(Vec::new()),
    };
    let mut fields = vec![
        (header::CONTENT_TYPE, text("application/json")),
        (header::ACCEPT, text("application/json, text/event-stream")),
    ];
    let (method, name) = match ask {
        None | Some(Ask::Initialize) => return Ok(fields),
        Some(Ask::List) => ("tools/list", None),
        Some(Ask::Call { tool, .. }) => ("tools/call", Some(tool)),
        Some(Ask::Ping) => ("ping", None),
    };
    fields.push((VERSION, text(version_of(revision))));
    if let McpRevision::Stateless(version) = revision {
        if method == "ping" {
            return Err(Failure::new(
                format!("MCP {version} has no `ping`"),
                "ask for `tools/list` or `tools/call`, or for an earlier revision",
            ));
        }
        fields.push((HeaderName::from_static("mcp-method"), text(method)));
        if let Some(tool) = name {
            let value = field("mcp-name", field_text(tool).as_bytes())?;
            fields.push((HeaderName::from_static("mcp-name"), value));
        }
    }
    Ok(fields)
}

/// The revision of Anthropic's API, without which it answers nothing.
const ANTHROPIC: HeaderName = HeaderName::from_static("anthropic-version");

/// The revision that is spoken.
pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// A name as the stateless revision writes it in a field: as it is, or in base64 where a field cannot hold it.
fn field_text(name: &str) -> String {
    let plain = name.bytes().all(|byte| matches!(byte, 0x20..=0x7e));
    if plain && name.trim() == name && !name.starts_with("=?base64?") {
        return name.to_owned();
    }
    let encoded = base64::engine::general_purpose::STANDARD.encode(name);
    format!("=?base64?{encoded}?=")
}
