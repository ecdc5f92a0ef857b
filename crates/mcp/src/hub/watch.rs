//! Streams of changes: a client is told which lists are others now, and which resources were updated, once a second at most.

use std::sync::Arc;
use std::time::Duration;

use base::record::CallEnd;
use base::{ItemKind, JsonValue, Name, Refusal, Resource, refusal};
use bytes::Bytes;
use gate::{CallEnding, Passed};
use net::{Body, BodySender, Response, sse};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::Asking;
use super::audience::{Audience, ClientStream, OpenStream, Subscribed, URIS_MAX, WaitingChanges};
use crate::actions::{READ, USE};
use crate::envelope::Id;
use crate::inbound::{accepts, event_stream};
use crate::incoming::Parsed;
use crate::incoming::URI_BYTES_MAX;
use crate::upstream::look_every;

/// How often a client is told of changes, in milliseconds.
const TOLD_MS_MIN: u64 = 1_000;
/// After how many looks without a change a comment shows that the stream is alive: a look is a second.
const COMMENT_LOOKS: u32 = 15;
/// Events that may wait for a slow client.
const EVENTS_MAX: usize = 16;
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// The member of a subscription's filter that names resources.
const URIS: &str = "resourceSubscriptions";
const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
pub(super) const UPDATED: &str = "notifications/resources/updated";

/// Lists of which something is said: which of them changed, or of which a client wants to hear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeKinds {
    tools: bool,
    prompts: bool,
    resources: bool,
}

impl ChangeKinds {
    pub(crate) const ALL: ChangeKinds = ChangeKinds {
        tools: true,
        prompts: true,
        resources: true,
    };

    /// The list that a notification says has changed; none where it says something else.
    pub(super) fn told_by(method: &str) -> ChangeKinds {
        ChangeKinds {
            tools: method == TOOLS_CHANGED,
            prompts: method == PROMPTS_CHANGED,
            resources: method == RESOURCES_CHANGED,
        }
    }

    pub(super) fn and(self, other: ChangeKinds) -> ChangeKinds {
        ChangeKinds {
            tools: self.tools && other.tools,
            prompts: self.prompts && other.prompts,
            resources: self.resources && other.resources,
        }
    }

    pub(super) fn or(self, other: ChangeKinds) -> ChangeKinds {
        ChangeKinds {
            tools: self.tools || other.tools,
            prompts: self.prompts || other.prompts,
            resources: self.resources || other.resources,
        }
    }

    /// As the filter of `subscriptions/listen` says it.
    fn of(params: Option<JsonValue<'_>>) -> ChangeKinds {
        let filter = params.and_then(|params| params.get("notifications"));
        let wants = |key: &str| {
            let value = filter.and_then(|filter| filter.get(key));
            value.is_some_and(|value| value.text() == "true")
        };
        ChangeKinds {
            tools: wants("toolsListChanged"),
            prompts: wants("promptsListChanged"),
            resources: wants("resourcesListChanged"),
        }
    }

    fn methods(self) -> impl Iterator<Item = &'static str> {
        let those = [
            (self.tools, TOOLS_CHANGED),
            (self.prompts, PROMPTS_CHANGED),
            (self.resources, RESOURCES_CHANGED),
        ];
        those
            .into_iter()
            .filter(|(wanted, _)| *wanted)
            .map(|(_, method)| method)
    }

    /// What of the filter is honoured.
    fn honoured(self) -> Map<String, Value> {
        let mut honoured = Map::new();
        for (wanted, key) in [
            (self.tools, "toolsListChanged"),
            (self.prompts, "promptsListChanged"),
            (self.resources, "resourcesListChanged"),
        ] {
            if wanted {
                honoured.insert(key.to_owned(), Value::Bool(true));
            }
        }
        honoured
    }
}

impl Asking<'_> {
    /// Answers `subscriptions/listen`.
    pub(super) async fn subscribe(&self, id: Id<'_>, message: (&Bytes, &Parsed<'_>)) -> Response {
        if !accepts(self.head, "text/event-stream") {
            let public = "a subscription is an event stream";
            let refusal = Refusal::new(refusal::NOT_ACCEPTED, public);
            return self.no(refusal, Some(id)).await;
        }
        let params = message.1.params();
        let uris = match uris(params) {
            Ok(uris) => uris,
            Err(refusal) => return self.no(refusal, Some(id)).await,
        };
        let passed = match self.pass(&USE, "subscriptions/listen", Some(message)).await {
            Ok(passed) => passed,
            Err(refusal) => return self.judged(&refusal, id),
        };
        let mut subscribed = Subscribed::new();
        for uri in uris.into_iter().flatten() {
            if let Ok(server) = self.server_of_uri(&uri).await
                && may_read(&passed, &server.name, &uri)
            {
                subscribed.insert(uri, server.name.clone());
            }
        }
        let wants = ChangeKinds::of(params);
        let mut honoured = wants.honoured();
        if params
            .and_then(|params| params.get("notifications")?.get(URIS))
            .is_some()
        {
            let uris: Vec<&String> = subscribed.keys().collect();
            honoured.insert(URIS.to_owned(), json!(uris));
        }
        let subscription = Subscription {
            id: serde_json::from_str(id.0).unwrap_or_default(),
            honoured,
        };
        self.stream(passed, wants, subscribed, Some(subscription))
    }

    /// The stream of a call that passed, until its client goes or the call is not in force any more.
    pub(super) fn stream(
        &self,
        passed: Passed,
        wants: ChangeKinds,
        subscribed: Subscribed,
        subscription: Option<Subscription>,
    ) -> Response {
        let session = match &subscription {
            Some(_) => None,
            None => self.session().ok().flatten(),
        };
        let stream = ClientStream {
            set: self.set.map(|_| self.name.clone()),
            session: session.map(|(_, session)| session.number),
            subscribed,
            wants,
            verified: self.verified.clone(),
            peer: self.peer,
            waiting: WaitingChanges::default(),
            wake: Arc::default(),
        };
        let changes = Audience::open(&self.lane.shared.hub, self.agent(), stream);
        let (sender, body) = Body::stream(EVENTS_MAX);
        let teller = Teller {
            passed,
            subscription,
            changes,
            sender,
        };
        tokio::task::spawn_local(async move {
            let end = teller.run().await.unwrap_or(CallEnd::Cut);
            teller.passed.end(CallEnding {
                status: 200,
                ..CallEnding::of(end)
            });
        });
        event_stream(body, None)
    }
}

/// Whether policy lets the agent of a call read a resource of a server.
fn may_read(passed: &Passed, server: &Name, uri: &str) -> bool {
    let resource = Resource::item(server.clone(), ItemKind::Resource, uri);
    passed.may_list(&READ, &resource)
}

/// The URIs that the filter of `subscriptions/listen` names; nothing where it names none.
fn uris(params: Option<JsonValue<'_>>) -> Result<Option<Vec<String>>, Refusal> {
    let invalid = |public: String| Err(Refusal::new(refusal::MESSAGE_INVALID, public));
    let named = params.and_then(|params| params.get("notifications")?.get(URIS));
    let Some(named) = named else {
        return Ok(None);
    };
    let mut uris = Vec::new();
    for uri in named.items() {
        let Some(uri) = uri.as_str() else {
            return invalid(format!("an entry of {URIS} is no string"));
        };
        if uri.len() > URI_BYTES_MAX || uris.len() >= URIS_MAX {
            return invalid(format!(
                "{URIS} has at most {URIS_MAX} URIs of at most {URI_BYTES_MAX} bytes"
            ));
        }
        uris.push(uri.into_owned());
    }
    Ok(Some(uris))
}

/// What a client of the modern era asked to be told.
pub(super) struct Subscription {
    /// The id of its request.
    id: Value,
    /// What of its filter is honoured.
    honoured: Map<String, Value>,
}

/// Tells one client what changed.
struct Teller {
    passed: Passed,
    subscription: Option<Subscription>,
    changes: OpenStream,
    sender: BodySender,
}

impl Teller {
    async fn run(&self) -> Result<CallEnd, net::Gone> {
        if let Some(Subscription { honoured, .. }) = &self.subscription {
            let honoured = json!({ "notifications": honoured });
            let method = "notifications/subscriptions/acknowledged";
            self.say(method, honoured).await?;
        }
        let mut look = look_every();
        let mut quiet = 0;
        let mut next_at = Instant::now();
        loop {
            let has_changes = self.changes.has_changes();
            tokio::select! {
                () = self.sender.closed() => return Ok(CallEnd::Cut),
                () = self.changes.woken() => {}
                () = tokio::time::sleep_until(next_at), if has_changes => {
                    self.tell(self.changes.take_changes()).await?;
                    next_at = Instant::now() + Duration::from_millis(TOLD_MS_MIN);
                    quiet = 0;
                }
                _ = look.tick() => {
                    if self.passed.in_force().is_err() {
                        return Ok(CallEnd::Cut);
                    }
                    quiet += 1;
                    if quiet >= COMMENT_LOOKS {
                        quiet = 0;
                        self.sender.send(Bytes::from_static(b":\n\n")).await?;
                    }
                }
            }
        }
    }

    async fn tell(&self, changes: WaitingChanges) -> Result<(), net::Gone> {
        for method in changes.lists.methods() {
            self.say(method, json!({})).await?;
        }
        for (uri, server) in changes.updated {
            if may_read(&self.passed, &server, &uri) {
                self.say(UPDATED, json!({ "uri": uri })).await?;
            }
        }
        Ok(())
    }

    async fn say(&self, method: &str, mut params: Value) -> Result<(), net::Gone> {
        if let Some(Subscription { id, .. }) = &self.subscription {
            params["_meta"] = json!({ SUBSCRIPTION: id });
        }
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let event = sse::Event::message(message.to_string().as_bytes());
        self.sender.send(Bytes::from(sse::write(&event))).await
    }
}
