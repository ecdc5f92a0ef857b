//! Streams of changes: a client is told that a list is another now, once a second at most.

use std::sync::Arc;
use std::time::Duration;

use base::record::CallEnd;
use bytes::Bytes;
use gate::{CallEnding, Passed};
use net::{Body, BodySender, Response, sse};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Asking;
use crate::actions::USE;
use crate::envelope::Id;
use crate::inbound::event_stream;
use crate::incoming::Parsed;
use crate::lane::Shared;
use crate::upstream::look_every;

/// How often a list may be said to have changed, in milliseconds.
const TOLD_MS_MIN: u64 = 1_000;
/// After how many looks without a change a comment shows that the stream is alive: a look is a second.
const COMMENT_LOOKS: u32 = 15;
/// Events that may wait for a slow client.
const EVENTS_MAX: usize = 16;
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Counts the changes of what servers offer.
pub(crate) struct Changes(watch::Sender<u64>);

impl Default for Changes {
    fn default() -> Changes {
        Changes(watch::Sender::new(0))
    }
}

impl Changes {
    /// A server came, went, or lists something else.
    pub(crate) fn note(&self) {
        self.0.send_modify(|count| *count += 1);
    }
}

/// Which lists a client wants to hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    tools: bool,
    prompts: bool,
    resources: bool,
}

impl Wanted {
    pub(crate) fn all() -> Wanted {
        Wanted {
            tools: true,
            prompts: true,
            resources: true,
        }
    }

    /// As the filter of `subscriptions/listen` says it.
    fn of(params: Option<base::JsonValue<'_>>) -> Wanted {
        let filter = params.and_then(|params| params.get("notifications"));
        let wants = |key: &str| {
            let value = filter.and_then(|filter| filter.get(key));
            value.is_some_and(|value| value.text() == "true")
        };
        Wanted {
            tools: wants("toolsListChanged"),
            prompts: wants("promptsListChanged"),
            resources: wants("resourcesListChanged"),
        }
    }

    fn methods(self) -> impl Iterator<Item = &'static str> {
        let those = [
            (self.tools, "notifications/tools/list_changed"),
            (self.prompts, "notifications/prompts/list_changed"),
            (self.resources, "notifications/resources/list_changed"),
        ];
        those
            .into_iter()
            .filter(|(wanted, _)| *wanted)
            .map(|(_, method)| method)
    }

    /// What of the filter is honoured.
    fn honoured(self) -> Value {
        let mut honoured = serde_json::Map::new();
        for (wanted, key) in [
            (self.tools, "toolsListChanged"),
            (self.prompts, "promptsListChanged"),
            (self.resources, "resourcesListChanged"),
        ] {
            if wanted {
                honoured.insert(key.to_owned(), Value::Bool(true));
            }
        }
        honoured.into()
    }
}

impl Asking<'_> {
    /// Answers `subscriptions/listen`.
    pub(super) async fn subscribe(&self, id: Id<'_>, message: (&Bytes, &Parsed<'_>)) -> Response {
        if !crate::inbound::accepts(self.head, "text/event-stream") {
            let public = "a subscription is an event stream";
            let refusal = base::Refusal::new(base::refusal::NOT_ACCEPTED, public);
            return self.no(refusal, Some(id)).await;
        }
        let wanted = Wanted::of(message.1.params());
        match self.pass(&USE, "subscriptions/listen", Some(message)).await {
            Ok(passed) => stream(&self.lane.shared, passed, wanted, Some(id.0.to_owned())),
            Err(refusal) => self.judged(&refusal, id),
        }
    }
}

/// The stream of a call that passed. `subscription` is the id of the request that it answers, as it was written.
pub(super) fn stream(
    shared: &Arc<Shared>,
    passed: Passed,
    wanted: Wanted,
    subscription: Option<String>,
) -> Response {
    let (sender, body) = Body::stream(EVENTS_MAX);
    let changes = shared.hub.changes.0.subscribe();
    tokio::task::spawn_local(async move {
        let end = tell(&passed, wanted, subscription.as_deref(), changes, &sender).await;
        passed.end(CallEnding {
            status: 200,
            ..CallEnding::of(end)
        });
    });
    event_stream(body, None)
}

async fn tell(
    passed: &Passed,
    wanted: Wanted,
    subscription: Option<&str>,
    mut changes: watch::Receiver<u64>,
    sender: &BodySender,
) -> CallEnd {
    let id = subscription.map(|id| serde_json::from_str::<Value>(id).unwrap_or_default());
    let say = async |method: &str, mut params: Value| {
        if let Some(id) = &id {
            params["_meta"] = json!({ SUBSCRIPTION: id });
        }
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let event = sse::Event::message(message.to_string().as_bytes());
        sender.send(Bytes::from(sse::write(&event))).await
    };
    if id.is_some() {
        let honoured = json!({ "notifications": wanted.honoured() });
        let told = say("notifications/subscriptions/acknowledged", honoured).await;
        if told.is_err() {
            return CallEnd::Cut;
        }
    }
    let mut look = look_every();
    let mut quiet = 0;
    loop {
        tokio::select! {
            changed = changes.changed() => {
                if changed.is_err() {
                    return CallEnd::Complete;
                }
                for method in wanted.methods() {
                    if say(method, json!({})).await.is_err() {
                        return CallEnd::Cut;
                    }
                }
                quiet = 0;
                tokio::time::sleep(Duration::from_millis(TOLD_MS_MIN)).await;
            }
            () = sender.closed() => return CallEnd::Cut,
            _ = look.tick() => {
                if passed.in_force().is_err() {
                    return CallEnd::Cut;
                }
                quiet += 1;
                if quiet >= COMMENT_LOOKS {
                    quiet = 0;
                    if sender.send(Bytes::from_static(b":\n\n")).await.is_err() {
                        return CallEnd::Cut;
                    }
                }
            }
        }
    }
}
