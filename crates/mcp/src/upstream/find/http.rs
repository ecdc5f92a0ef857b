//! Asks a server over HTTP.

use base::{Refusal, Secret};
use bytes::Bytes;
use gate::Passed;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};
use net::{UpstreamAnswer, sse};
use serde_json::Value;

use super::{
    MODERN_ERRORS, REVISION_UNKNOWN, Spoken, Transport, begun, discover, discovered, id_of,
    initialize,
};
use crate::era::fields::{METHOD, REVISION};
use crate::era::{CapabilitySet, Era, Revision};
use crate::inbound::SESSION;
use crate::lane::McpLane;
use crate::upstream::http::is;

/// How long a server may take for one answer, in milliseconds.
const ANSWER_MS_MAX: u64 = 10_000;
/// Largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// The revision of HTTP+SSE.
const EVENTS_REVISION: &str = "2024-11-05";

/// An answer, as far as it tells what its server speaks.
struct FoundAnswer {
    status: u16,
    message: Value,
    session: Option<HeaderValue>,
}

pub(super) async fn find(
    lane: &McpLane,
    passed: &Passed,
    token: Option<&Secret>,
) -> Result<Spoken, String> {
    let asker = Asker {
        lane,
        passed,
        token,
    };
    let answer = asker.discover().await?;
    let modern = discovered(&answer.message);
    let second = asker.initialize().await;
    let (legacy, status) = match second {
        Ok(second) => (begun(&second.message), second.status),
        Err(_) if !modern.is_empty() => (None, 0),
        Err(why) => return Err(why),
    };
    let found = |legacy, transport| {
        Ok(Spoken {
            modern: modern.clone(),
            legacy,
            transport,
        })
    };
    if !modern.is_empty() || legacy.is_some() {
        return found(legacy, Transport::Streamable);
    }
    if let Some(why) = failed(status) {
        return Err(why);
    }
    let is_elsewhere = |status| matches!(status, 400 | 404 | 405);
    if is_elsewhere(answer.status) && is_elsewhere(status) && asker.has_events().await {
        return found(Revision::of(EVENTS_REVISION), Transport::Events);
    }
    // It answers, though nobody knows what it speaks: its clients may.
    found(None, Transport::Streamable)
}

/// Begins a session that is kept; gives its id, where the server gave one.
///
/// # Errors
/// Why there is none.
pub(in crate::upstream) async fn begin(
    lane: &McpLane,
    passed: &Passed,
    token: Option<&Secret>,
    can: CapabilitySet,
) -> Result<Option<String>, String> {
    let asker = Asker {
        lane,
        passed,
        token,
    };
    let answer = asker
        .post(asker.fields(), initialize(can), "initialize")
        .await?;
    let revision = begun(&answer.message)
        .ok_or_else(|| format!("it answered initialize with status {}", answer.status))?;
    let mut fields = asker.fields();
    fields.insert(REVISION, HeaderValue::from_static(revision.date));
    if let Some(session) = &answer.session {
        fields.insert(SESSION, session.clone());
    }
    let done = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    asker.send(Method::POST, fields, done).await?;
    let session = answer.session.as_ref().map(HeaderValue::to_str);
    session
        .transpose()
        .map(|session| session.map(str::to_owned))
        .map_err(|_| "the id of its session is no text".to_owned())
}

/// A modern server is asked what it speaks, any other by a `ping` outside of every session, to which each answer is a sign
/// of life.
pub(super) async fn is_same(
    lane: &McpLane,
    passed: &Passed,
    token: Option<&Secret>,
    spoken: &Spoken,
) -> Result<bool, String> {
    let asker = Asker {
        lane,
        passed,
        token,
    };
    let modern = spoken.speaks(Era::Modern);
    let answer = match modern {
        true => asker.discover().await?,
        false => asker.ping().await?,
    };
    if let Some(why) = failed(answer.status) {
        return Err(why);
    }
    let code = answer.message["error"]["code"].as_i64();
    let is_modern =
        code.is_some_and(|code| code == REVISION_UNKNOWN || MODERN_ERRORS.contains(&code));
    Ok(match modern {
        true => discovered(&answer.message) == spoken.modern,
        false => {
            // A server of HTTP+SSE that takes a POST now is one of a newer revision.
            let takes_post = spoken.transport == Transport::Events && answer.status < 300;
            !is_modern && !takes_post
        }
    })
}

/// Why a server that answers with this status does not work, if it does not.
fn failed(status: u16) -> Option<String> {
    matches!(status, 401 | 403 | 500..).then(|| format!("it answered {status}"))
}

struct Asker<'a> {
    lane: &'a McpLane,
    passed: &'a Passed,
    token: Option<&'a Secret>,
}

impl Asker<'_> {
    async fn discover(&self) -> Result<FoundAnswer, String> {
        let method = "server/discover";
        let mut fields = self.fields();
        let date = Revision::dates(Era::Modern).last().unwrap_or_default();
        fields.insert(REVISION, HeaderValue::from_static(date));
        fields.insert(METHOD, HeaderValue::from_static(method));
        let answer = self.post(fields, discover(), method).await?;
        match answer.status {
            401 | 403 => Err(format!("it answered {}", answer.status)),
            _ => Ok(answer),
        }
    }

    /// Asks for a session, and ends it.
    async fn initialize(&self) -> Result<FoundAnswer, String> {
        let method = "initialize";
        let answer = self
            .post(self.fields(), initialize(CapabilitySet::default()), method)
            .await?;
        if let Some(session) = &answer.session {
            let mut fields = self.fields();
            fields.remove(CONTENT_TYPE);
            fields.insert(SESSION, session.clone());
            // A server that keeps it all the same ends it when it is unused.
            let _ = self.send(Method::DELETE, fields, Bytes::new()).await;
        }
        Ok(answer)
    }

    async fn ping(&self) -> Result<FoundAnswer, String> {
        let ping = r#"{"jsonrpc":"2.0","id":"weir:probe:ping","method":"ping"}"#;
        self.post(self.fields(), ping.to_owned(), "ping").await
    }

    /// Whether a GET gives the event stream of 2024-11-05, whose first event says where to send messages.
    async fn has_events(&self) -> bool {
        let mut fields = self.fields();
        fields.remove(CONTENT_TYPE);
        fields.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let Ok(answer) = self.send(Method::GET, fields, Bytes::new()).await else {
            return false;
        };
        if !answer.head.status.is_success() || !is(&answer.head.headers, "text/event-stream") {
            return false;
        }
        let wait = std::time::Duration::from_millis(ANSWER_MS_MAX);
        let first = tokio::time::timeout(wait, first_event(answer, |_| true)).await;
        first
            .is_ok_and(|event| event.is_some_and(|event| event.name.as_deref() == Some("endpoint")))
    }

    fn fields(&self) -> HeaderMap {
        let mut fields = HeaderMap::with_capacity(6);
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        fields.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        let bearer = self.token.map(|token| format!("Bearer {}", token.expose()));
        if let Some(mut value) = bearer.and_then(|bearer| HeaderValue::try_from(bearer).ok()) {
            value.set_sensitive(true);
            fields.insert(AUTHORIZATION, value);
        }
        fields
    }

    async fn send(
        &self,
        method: Method,
        fields: HeaderMap,
        body: Bytes,
    ) -> Result<UpstreamAnswer, String> {
        let mut request = http::Request::new(body);
        *request.method_mut() = method;
        *request.headers_mut() = fields;
        // On a connection of its own: a server that answers late answers nobody else there.
        let upstreams = &self.lane.upstreams;
        let answer = upstreams.send_fresh(self.passed, request, ANSWER_MS_MAX);
        let answer = answer.await;
        answer.map_err(|error| format!("{:?}", Refusal::from(error)))
    }

    async fn post(
        &self,
        fields: HeaderMap,
        message: String,
        method: &str,
    ) -> Result<FoundAnswer, String> {
        let mut answer = self
            .send(Method::POST, fields, Bytes::from(message))
            .await?;
        let status = answer.head.status.as_u16();
        let session = answer.head.headers.get(SESSION).cloned();
        // The first event of a stream that can be resumed has no message.
        let own = |message: &Value| {
            let id = &message["id"];
            message.is_object() && (*id == id_of(method) || id.is_null())
        };
        let message = if is(&answer.head.headers, "text/event-stream") {
            let is_own = |event: &sse::Event| own(&message_of(event));
            let wait = std::time::Duration::from_millis(ANSWER_MS_MAX);
            let event = tokio::time::timeout(wait, first_event(answer, is_own)).await;
            event.ok().flatten().map(|event| message_of(&event))
        } else {
            let whole = answer.whole(ANSWER_BYTES_MAX, ANSWER_MS_MAX).await;
            let whole = whole.ok();
            whole.and_then(|whole| serde_json::from_slice(&whole).ok())
        };
        let message = message.filter(own);
        Ok(FoundAnswer {
            status,
            message: message.unwrap_or_default(),
            session,
        })
    }
}

/// The first event of a stream that is meant.
async fn first_event(
    mut answer: UpstreamAnswer,
    is_meant: impl Fn(&sse::Event) -> bool,
) -> Option<sse::Event> {
    let mut reader = sse::Reader::new(ANSWER_BYTES_MAX);
    let mut bytes = 0;
    while let Ok(Some(chunk)) = answer.chunk().await {
        bytes += chunk.len();
        let mut events = Vec::new();
        let read = reader.push(&chunk, |event| events.push(event));
        let mut events = events.into_iter().filter(|event| event.data.is_some());
        if let Some(event) = events.find(&is_meant) {
            return Some(event);
        }
        if read.is_err() || bytes > ANSWER_BYTES_MAX {
            return None;
        }
    }
    None
}

fn message_of(event: &sse::Event) -> Value {
    let data = event.data.as_deref().unwrap_or_default();
    serde_json::from_slice(data).unwrap_or_default()
}
