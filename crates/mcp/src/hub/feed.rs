//! What servers tell without being asked: while a client of many servers has a stream of changes open, weir keeps one stream of
//! its own open to each working server of the set, as the client's agent.
//!
//! Such a stream is a feed. Example: an agent has three streams open at `/mcp`, before two servers: there are two feeds, which
//! end with the last of the three streams. Each opening is a call, judged and recorded as any. A feed says nothing to clients
//! itself: it notes in the [`Audience`](super::audience) what changed.
//!
//! All feeds are on one thread, so that they and their children outlive the threads and connections of the streams.

use std::sync::Arc;
use std::time::Duration;

use base::{CallId, Json, JsonValue, Name, Refusal, Resource};
use bytes::Bytes;
use gate::{Call, Passed};
use http::{HeaderValue, StatusCode};
use net::{Backoff, Body, Response, StreamBody, sse};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::audience::{FeedWant, NewFeed};
use super::route::RestatedWay;
use super::watch::{ChangeKinds, UPDATED};
use crate::actions::{READ, USE};
use crate::answers::{Answers, AskedMethod};
use crate::drive::drive;
use crate::era::{CapabilitySet, Era, MessageEra};
use crate::incoming::URI_BYTES_MAX;
use crate::lane::{McpLane, Server};
use crate::probe::mono_ms;
use crate::upstream::find::Transport;
use crate::upstream::own::{self, OwnWay};
use crate::upstream::{Link, http as over_http, look_every, session};

/// How long a server is left alone that has no such stream, or that the agent may not listen to, in milliseconds.
const REST_MS: u64 = 300_000;
/// How often it is looked whether a server that does not work works again, in milliseconds.
const LOOK_MS: u64 = 1_000;
const METHOD_UNKNOWN: i64 = -32601;

impl McpLane {
    /// Keeps the feeds open that the streams of clients need. Must be called inside a `LocalSet`. Feeds go on where this is
    /// dropped; where it is called again, by other settings, they are opened anew.
    pub async fn keep_feeds(&self) {
        let audience = &self.shared.hub.audience;
        let keeper = audience.keeper();
        let servers: Vec<&Name> = self.settings().servers.keys().collect();
        loop {
            let has = |set: Option<&Name>, server: &Name| self.is_in_set(set, server);
            for entry in audience.missing(keeper, &servers, has) {
                let feed = Feed {
                    lane: self.clone(),
                    entry,
                    gone: None,
                };
                tokio::task::spawn_local(feed.run());
            }
            audience.opened().await;
        }
    }

    fn is_in_set(&self, set: Option<&Name>, server: &Name) -> bool {
        let set = set.map(|set| self.settings().toolsets.get(set));
        set.is_none_or(|set| set.is_some_and(|set| set.has(server)))
    }
}

/// Weir's own stream to one server for one agent.
struct Feed {
    lane: McpLane,
    entry: NewFeed,
    /// The session over HTTP that the server did not know any more, to be begun again.
    gone: Option<Option<String>>,
}

/// Why a feed is not open any more.
enum FeedEnd {
    /// No stream of a client needs it.
    Unwanted,
    /// The server ended it, or did not open it now.
    Ended,
    /// The server has no such stream, or the agent may not listen to it.
    Without,
}

impl FeedEnd {
    /// What a refusal means: one that says when to try again is none for good.
    fn of(refusal: &Refusal) -> FeedEnd {
        match refusal.retry_ms {
            Some(_) => FeedEnd::Ended,
            None => FeedEnd::Without,
        }
    }
}

/// A feed that the server has opened.
struct OpenFeed {
    stream: StreamBody,
    reader: sse::Reader,
    /// The child in a session that it is of.
    child: Option<(Arc<Link>, u64)>,
}

impl Feed {
    async fn run(mut self) {
        let mut backoff = Backoff::new();
        let mut last = None;
        while let Some(want) = self.wanted() {
            if !self.is_up() {
                self.rest(LOOK_MS).await;
                continue;
            }
            backoff.started(mono_ms());
            last = Some((want.verified.clone(), want.peer));
            let wait_ms = match self.hear(want).await {
                FeedEnd::Unwanted => continue,
                FeedEnd::Ended => backoff.ended(mono_ms()),
                FeedEnd::Without => REST_MS,
            };
            self.rest(wait_ms).await;
        }
        if let Some((verified, peer)) = last {
            let server = self.entry.server.clone();
            self.lane.tell_subscriptions(&server, verified, peer).await;
        }
    }

    /// What the feed is for, as long as it is to be.
    fn wanted(&self) -> Option<FeedWant> {
        let has = |set: Option<&Name>, server: &Name| self.lane.is_in_set(set, server);
        let audience = &self.lane.shared.hub.audience;
        audience.wanted(&self.entry, has)
    }

    fn server(&self) -> Option<&Server> {
        self.lane.settings().servers.get(&self.entry.server)
    }

    /// Whether the server works, and it is known what it speaks.
    fn is_up(&self) -> bool {
        let health = self.lane.shared.health.get(&self.entry.server);
        let spoken = health.filter(|health| !health.is_down());
        let spoken = spoken.and_then(|health| health.spoken());
        // The stream of 2024-11-05 is another.
        spoken.is_some_and(|spoken| spoken.transport != Transport::Events)
    }

    /// Waits, and no longer than the feed is wanted.
    async fn rest(&self, wait_ms: u64) {
        let until = Instant::now() + Duration::from_millis(wait_ms);
        let woken = async {
            loop {
                self.entry.wake.notified().await;
                if self.wanted().is_none() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout_at(until, woken).await;
    }

    /// Opens the stream, and hears what comes on it.
    async fn hear(&mut self, mut want: FeedWant) -> FeedEnd {
        let mut open = match self.open(&want).await {
            Ok(open) => open,
            Err(end) => return end,
        };
        let era = self.era();
        if era == Era::Legacy {
            let audience = &self.lane.shared.hub.audience;
            audience.forget_told(&self.entry.agent, &self.entry.server);
        }
        loop {
            let again = tokio::select! {
                end = self.read(&mut open) => return end,
                again = self.keep(&want, era) => again,
            };
            let Some(again) = again else {
                return FeedEnd::Unwanted;
            };
            // What the server says meanwhile is heard on the stream that was open before.
            let next = tokio::select! {
                end = self.read(&mut open) => return end,
                next = self.listen_modern(&again) => next,
            };
            want = again;
            open = match next {
                Ok(next) => next,
                Err(end) => return end,
            };
        }
    }

    /// Keeps the server told of the subscriptions, until the stream has to be opened again for others: then gives what it is to
    /// be for. Gives nothing where no stream needs the feed.
    async fn keep(&self, want: &FeedWant, era: Era) -> Option<FeedWant> {
        loop {
            let now = self.wanted()?;
            match era {
                Era::Modern if now.uris != want.uris => return Some(now),
                Era::Modern => {}
                Era::Legacy => {
                    let told =
                        self.lane
                            .tell_subscriptions(&self.entry.server, now.verified, now.peer);
                    told.await;
                }
            }
            self.entry.wake.notified().await;
        }
    }

    fn era(&self) -> Era {
        let server = self.server();
        server.map_or(Era::Legacy, |server| {
            let era = self.lane.era_towards(server, &MessageEra::Legacy(None));
            era.era()
        })
    }

    async fn open(&mut self, want: &FeedWant) -> Result<OpenFeed, FeedEnd> {
        match self.era() {
            Era::Modern => self.listen_modern(want).await,
            Era::Legacy => self.listen_legacy(want).await,
        }
    }

    /// Opens `subscriptions/listen` for all lists, and the resources that clients are subscribed to.
    async fn listen_modern(&self, want: &FeedWant) -> Result<OpenFeed, FeedEnd> {
        let server = self.server().ok_or(FeedEnd::Ended)?;
        let era = self.lane.era_towards(server, &MessageEra::Legacy(None));
        let MessageEra::Modern(modern) = &era else {
            return Err(FeedEnd::Ended);
        };
        let mut filter = json!({
            "toolsListChanged": true,
            "promptsListChanged": true,
            "resourcesListChanged": true,
        });
        if !want.uris.is_empty() {
            filter["resourceSubscriptions"] = json!(want.uris);
        }
        let meta = super::across::meta(modern.revision, super::across::ToldClient::default());
        let method = "subscriptions/listen";
        let params = json!({ "notifications": filter, "_meta": meta });
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let body = Bytes::from(message.to_string());
        let resource = Resource::server(server.name.clone());
        let call = Call {
            bytes: body.len() as u64,
            ..Call::new(self.call_id(), want.peer, &USE, &resource, method)
        };
        let way = RestatedWay::new(era);
        let (shared, verified) = (&self.lane.shared, want.verified.clone());
        let driven = drive(shared, &way, server, verified, call, &body).await;
        let driven = driven.map_err(|refused| FeedEnd::of(&refused.refusal))?;
        let mut outgoing = driven.outgoing.ok_or(FeedEnd::Ended)?;
        outgoing.takes_events = true;
        let answers = driven.answers.unregistered();
        let nothing = CapabilitySet::default();
        let way = own::way(&self.lane, server, answers.passed(), Era::Modern, nothing);
        let way = way.map_err(|_refused| FeedEnd::Ended)?;
        let response = own::carry(&self.lane, server, &way, answers, outgoing, None).await;
        opened(response, None)
    }

    /// Opens the stream of weir's session with the server for the agent.
    async fn listen_legacy(&mut self, want: &FeedWant) -> Result<OpenFeed, FeedEnd> {
        let gone = self.gone.take();
        let server = self.server().ok_or(FeedEnd::Ended)?;
        let passed = self.pass_get(server, want).await?;
        let nothing = CapabilitySet::default();
        let way = own::way(&self.lane, server, &passed, Era::Legacy, nothing);
        let way = way.map_err(|_refused| FeedEnd::Ended)?;
        let answers = Answers::new(passed, AskedMethod::Other, None).unregistered();
        if let OwnWay::Child(link, _) = way {
            // A child is started by its first message.
            let resource = Resource::server(server.name.clone());
            let ping = Call::new(self.call_id(), want.peer, &USE, &resource, "ping");
            let verified = want.verified.clone();
            self.lane.ask(server, verified, ping, json!({})).await;
            let starts = link.starts();
            let response = session::listen(&self.lane, &link, answers);
            return opened(response, Some((link, starts)));
        }
        let revision = self.lane.shared.spoken(&server.name);
        let revision = revision.and_then(|spoken| spoken.legacy);
        let revision = revision.map(|revision| HeaderValue::from_static(revision.date));
        let was_gone = gone.is_some();
        let listened =
            over_http::listen_in_own(&self.lane, server, answers, revision.as_ref(), gone);
        let (response, session) = listened.await;
        if response.status() == StatusCode::NOT_FOUND && !was_gone {
            // The session is over; a server that answers the same again has no such stream.
            self.gone = session;
            return Err(FeedEnd::Ended);
        }
        opened(response, None)
    }

    async fn pass_get(&self, server: &Server, want: &FeedWant) -> Result<Passed, FeedEnd> {
        let resource = Resource::server(server.name.clone());
        let call = Call::new(self.call_id(), want.peer, &USE, &resource, "GET");
        let gate = &self.lane.shared.gate;
        let passed = gate.pass(want.verified.clone(), call).await;
        passed.map_err(|refusal| FeedEnd::of(&refusal))
    }

    fn call_id(&self) -> CallId {
        (self.lane.shared.settings.new_id)()
    }

    /// Hears what comes on the stream, until it ends.
    async fn read(&self, open: &mut OpenFeed) -> FeedEnd {
        let mut look = look_every();
        loop {
            let chunk = tokio::select! {
                chunk = open.stream.next() => chunk,
                _ = look.tick() => match &open.child {
                    // A child that was started again knows of no subscription.
                    Some((link, starts)) if link.starts() != *starts => return FeedEnd::Ended,
                    Some((link, _)) => {
                        link.used(mono_ms());
                        continue;
                    }
                    None => continue,
                },
            };
            let Some(chunk) = chunk else {
                return FeedEnd::Ended;
            };
            let mut messages = Vec::new();
            let read = open.reader.push(&chunk, |event| {
                messages.extend(event.data.filter(|data| !data.is_empty()));
            });
            for message in messages {
                self.heard(&Bytes::from(message)).await;
            }
            if read.is_err() {
                return FeedEnd::Ended;
            }
        }
    }

    /// Notes what a message says.
    async fn heard(&self, message: &Bytes) {
        let Ok(json) = Json::read(message) else {
            return;
        };
        let root = json.root();
        let Some(method) = root.get("method").and_then(JsonValue::as_str) else {
            return;
        };
        if let Some(id) = root.get("id") {
            return self.answer(id.text(), &method).await;
        }
        let (hub, server) = (&self.lane.shared.hub, &self.entry.server);
        let kinds = ChangeKinds::told_by(&method);
        if kinds != ChangeKinds::default() {
            hub.lists.stale(|of| of == server);
            let has = |set: Option<&Name>, of: &Name| self.lane.is_in_set(set, of);
            let agent = &self.entry.agent;
            hub.audience.lists_changed(agent, server, kinds, has);
        }
        let uri = root
            .get("params")
            .and_then(|params| params.get("uri")?.as_str());
        if let Some(uri) = uri.filter(|uri| method == UPDATED && uri.len() <= URI_BYTES_MAX) {
            hub.audience.updated(&self.entry.agent, server, &uri);
        }
    }

    /// Answers what a server of the legacy era asks weir: it is there, and can nothing else.
    async fn answer(&self, id: &str, method: &str) {
        let (Some(server), Some(want)) = (self.server(), self.wanted()) else {
            return;
        };
        let said = match method {
            "ping" => r#""result":{}"#.to_owned(),
            _ => {
                let message = "the client has no capability for that";
                let error = json!({ "code": METHOD_UNKNOWN, "message": message });
                format!(r#""error":{error}"#)
            }
        };
        let body = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},{said}}}"#));
        let resource = Resource::server(server.name.clone());
        let call = Call {
            bytes: body.len() as u64,
            ..Call::new(self.call_id(), want.peer, &USE, &resource, "response")
        };
        let era = self.lane.era_towards(server, &MessageEra::Legacy(None));
        let way = RestatedWay::new(era);
        let driven = drive(&self.lane.shared, &way, server, want.verified, call, &body).await;
        let Ok((Some(outgoing), answers)) = driven.map(|driven| (driven.outgoing, driven.answers))
        else {
            return;
        };
        let answers = answers.unregistered();
        let nothing = CapabilitySet::default();
        if let Ok(way) = own::way(
            &self.lane,
            server,
            answers.passed(),
            outgoing.era(),
            nothing,
        ) {
            own::carry(&self.lane, server, &way, answers, outgoing, None).await;
        }
    }
}

impl McpLane {
    /// Tells a server of the legacy era which resources of the agent's subscriptions are new, and which are not wanted any more.
    pub(super) async fn tell_subscriptions(
        &self,
        server: &Name,
        verified: identity::Verified,
        peer: std::net::IpAddr,
    ) {
        let Some(server) = self.settings().servers.get(server) else {
            return;
        };
        if self.era_towards(server, &MessageEra::Legacy(None)).era() == Era::Modern {
            return;
        }
        let agent = &verified.agent().name;
        let changes = self.shared.hub.audience.to_tell(agent, &server.name);
        let resource = Resource::server(server.name.clone());
        for (method, uris) in [
            ("resources/subscribe", changes.subscribe),
            ("resources/unsubscribe", changes.unsubscribe),
        ] {
            for uri in uris {
                let id = (self.shared.settings.new_id)();
                let call = Call::new(id, peer, &READ, &resource, method);
                self.ask(server, verified.clone(), call, json!({ "uri": uri }))
                    .await;
            }
        }
    }
}

/// The stream in a response, or why there is none.
fn opened(response: Response, child: Option<(Arc<Link>, u64)>) -> Result<OpenFeed, FeedEnd> {
    let status = response.status();
    match response.into_body() {
        Body::Stream(stream) if status == StatusCode::OK => Ok(OpenFeed {
            stream,
            reader: sse::Reader::default(),
            child,
        }),
        Body::Full(message) => match is_unknown_method(&message) {
            true => Err(FeedEnd::Without),
            false => Err(FeedEnd::Ended),
        },
        _ if matches!(
            status,
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_FOUND
        ) =>
        {
            Err(FeedEnd::Without)
        }
        _ => Err(FeedEnd::Ended),
    }
}

fn is_unknown_method(answer: &[u8]) -> bool {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    answer["error"]["code"] == METHOD_UNKNOWN
}
