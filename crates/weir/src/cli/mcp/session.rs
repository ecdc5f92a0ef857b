//! One session with one server behind a gateway, as a client of MCP has it: it begins, asks, and ends.

use std::cell::Cell;

use base::{Name, Secret};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde_json::{Value, json};

use crate::assemble::client::Asker;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The revision in which each request says what it is of, without a session.
const STATELESS: &str = "2026-07-28";
/// Largest answer that is read.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// How long one answer may take, in milliseconds.
const ANSWER_MS: u64 = 120_000;
/// Most pages of one list, and items over all of them.
const PAGES_MAX: usize = 100;
const ITEMS_MAX: usize = 10_000;

/// Why there is no result.
pub(super) enum Said {
    /// The gateway or the server refuses, or answers an error.
    No(String),
    /// There is nobody, or what is there speaks no MCP.
    Failed(String),
}

impl Said {
    pub(super) fn text(&self) -> &str {
        match self {
            Said::No(why) | Said::Failed(why) => why,
        }
    }
}

/// The way to a gateway, with the key of an agent.
pub(super) struct Way<'w> {
    asker: &'w Asker<'w>,
    key: &'w Secret,
}

/// A session that began.
pub(super) struct Session<'w> {
    way: &'w Way<'w>,
    server: Name,
    id: Option<HeaderValue>,
    revision: String,
    /// The result of `initialize`.
    pub(super) about: Value,
    asked: Cell<u64>,
}

/// What one request carries beside its message.
#[derive(Default)]
struct Fields<'f> {
    session: Option<&'f HeaderValue>,
    revision: Option<&'f str>,
    method: Option<&'static str>,
}

impl<'w> Way<'w> {
    pub(super) fn new(asker: &'w Asker<'w>, key: &'w Secret) -> Way<'w> {
        Way { asker, key }
    }

    async fn send(
        &self,
        method: Method,
        server: &Name,
        body: Bytes,
        fields: &Fields<'_>,
    ) -> Result<(http::response::Parts, Bytes), Said> {
        let path = format!("/mcp/{server}");
        let unsendable =
            |_| Said::Failed("the key cannot be sent: it is no key of weir".to_owned());
        let mut key =
            HeaderValue::try_from(format!("Bearer {}", self.key.expose())).map_err(unsendable)?;
        key.set_sensitive(true);
        let mut request = http::Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("a name makes a path");
        let headers = request.headers_mut();
        headers.insert(AUTHORIZATION, key);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(ACCEPT, accept);
        if let Some(session) = fields.session {
            headers.insert(SESSION, session.clone());
        }
        if let Some(Ok(revision)) = fields.revision.map(HeaderValue::try_from) {
            headers.insert(REVISION, revision);
        }
        if let Some(method) = fields.method {
            let name = HeaderName::from_static("mcp-method");
            headers.insert(name, HeaderValue::from_static(method));
        }
        let asked = self.asker.ask(request, ANSWER_BYTES_MAX, ANSWER_MS).await;
        asked.map_err(Said::Failed)
    }

    /// The revisions that a server names without a session; none where it knows no such question.
    pub(super) async fn discover(&self, server: &Name) -> Vec<String> {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientInfo": client_info(),
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let message = json!({
            "jsonrpc": "2.0", "id": "weir-1", "method": "server/discover", "params": { "_meta": meta },
        });
        let fields = Fields {
            revision: Some(STATELESS),
            method: Some("server/discover"),
            ..Fields::default()
        };
        let body = Bytes::from(message.to_string());
        let Ok((head, body)) = self.send(Method::POST, server, body, &fields).await else {
            return Vec::new();
        };
        let result = result(&head, &body, &json!("weir-1")).unwrap_or_default();
        let versions = result["supportedVersions"].as_array();
        let versions = versions.into_iter().flatten().filter_map(Value::as_str);
        versions.map(str::to_owned).collect()
    }
}

fn client_info() -> Value {
    json!({ "name": "weir", "version": env!("CARGO_PKG_VERSION") })
}

impl<'w> Session<'w> {
    /// Begins one with a server, in this revision or in what the server offers in its place.
    pub(super) async fn begin(
        way: &'w Way<'w>,
        server: &Name,
        revision: &str,
    ) -> Result<Session<'w>, Said> {
        let params = json!({
            "protocolVersion": revision, "capabilities": {}, "clientInfo": client_info(),
        });
        let message =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let body = Bytes::from(message.to_string());
        let (head, body) = way
            .send(Method::POST, server, body, &Fields::default())
            .await?;
        let about = result(&head, &body, &json!(0))?;
        let agreed = about["protocolVersion"].as_str();
        let agreed = agreed.ok_or_else(|| Said::Failed("it names no revision".to_owned()))?;
        let session = Session {
            way,
            server: server.clone(),
            id: head.headers.get(SESSION).cloned(),
            revision: agreed.to_owned(),
            about,
            asked: Cell::new(0),
        };
        let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        session.send(Method::POST, told.to_string()).await?;
        Ok(session)
    }

    async fn send(
        &self,
        method: Method,
        body: String,
    ) -> Result<(http::response::Parts, Bytes), Said> {
        let fields = Fields {
            session: self.id.as_ref(),
            revision: Some(&self.revision),
            method: None,
        };
        self.way
            .send(method, &self.server, body.into(), &fields)
            .await
    }

    /// Asks, and waits for the result.
    pub(super) async fn ask(&self, method: &str, params: Value) -> Result<Value, Said> {
        self.asked.set(self.asked.get() + 1);
        let id = json!(self.asked.get());
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let (head, body) = self.send(Method::POST, message.to_string()).await?;
        result(&head, &body, &id)
    }

    /// All pages of a list.
    pub(super) async fn list(&self, method: &str, member: &str) -> Result<Vec<Value>, Said> {
        let (mut items, mut cursor) = (Vec::new(), Value::Null);
        for _ in 0..PAGES_MAX {
            let params = match &cursor {
                Value::Null => json!({}),
                cursor => json!({ "cursor": cursor }),
            };
            let mut page = self.ask(method, params).await?;
            if let Some(Value::Array(more)) = page.get_mut(member).map(Value::take) {
                items.extend(more);
            }
            cursor = page["nextCursor"].take();
            if cursor.is_null() || items.len() > ITEMS_MAX {
                return Ok(items);
            }
        }
        Ok(items)
    }

    /// Ends it, so that the server's place is free. A server without sessions has nothing to end.
    pub(super) async fn end(self) {
        if self.id.is_some() {
            // It ends by itself where this does not reach the gateway.
            let _ = self.send(Method::DELETE, String::new()).await;
        }
    }
}

/// The result that an answer holds for the request of this id.
fn result(head: &http::response::Parts, body: &[u8], id: &Value) -> Result<Value, Said> {
    let text = String::from_utf8_lossy(body);
    let kind = head
        .headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    let messages: Vec<Value> = match is_stream {
        true => events(&text).iter().filter_map(|text| read(text)).collect(),
        false => read(&text).into_iter().collect(),
    };
    let error = messages.iter().find_map(|message| message.get("error"));
    let answer = messages
        .iter()
        .find(|message| message.get("id") == Some(id));
    if let Some(result) = answer.and_then(|answer| answer.get("result")) {
        return Ok(result.clone());
    }
    if let Some(error) = error.filter(|error| error.is_object()) {
        let code = error["data"]["code"].as_str().map(str::to_owned);
        let code = code.unwrap_or_else(|| error["code"].to_string());
        let message = error["message"].as_str().unwrap_or_default();
        return Err(Said::No(format!("{message} ({code})")));
    }
    // A refusal of the exchange itself is a problem (RFC 9457).
    let problem = messages.first().filter(|_| head.status != StatusCode::OK);
    if let Some(code) = problem.and_then(|problem| problem["code"].as_str()) {
        let title = problem
            .and_then(|problem| problem["title"].as_str())
            .unwrap_or_default();
        return Err(Said::No(format!("{title} ({code})")));
    }
    Err(Said::Failed(format!(
        "it answered {} and no message of MCP",
        head.status
    )))
}

/// The data of each event of a stream (HTML, section 9.2.6).
fn events(text: &str) -> Vec<String> {
    let (mut events, mut data) = (Vec::new(), Vec::new());
    for line in text.lines().chain([""]) {
        if let Some(piece) = line.strip_prefix("data:") {
            data.push(piece.strip_prefix(' ').unwrap_or(piece));
        }
        if line.is_empty() && !data.is_empty() {
            events.push(std::mem::take(&mut data).join("\n"));
        }
    }
    events
}
