//! From a request at one URL to the server that it is for, and back.

use std::borrow::Cow;

use base::{Name, Refusal, Resource, refusal};
use bytes::Bytes;
use gate::{Call, Passed};
use http::StatusCode;
use identity::Verified;
use net::Response;
use serde_json::{Value, json};

use super::across::{Bridge, restate, with_token};
use super::lists::{ListKind, SetList, result_of};
use super::names::{Found, Owned};
use super::{Asking, end};
use crate::actions::USE;
use crate::calls::{CallClient, own_token};
use crate::drive::{ClientWay, Refused, drive};
use crate::envelope::{Id, Message};
use crate::era::MessageEra;
use crate::inbound::{accepted, accepts, say};
use crate::incoming::{Incoming, Parsed};
use crate::lane::{McpLane, Server};
use crate::refuse;
use crate::upstream::own;

/// The way of a message that weir restated for one server: its era is known.
struct RestatedWay(MessageEra);

impl ClientWay for RestatedWay {
    type Way = ();

    fn era(&self, _: &Message<'_>) -> Result<MessageEra, Refusal> {
        Ok(self.0.clone())
    }

    fn begin(&self, _: &Verified, _: &Incoming<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn under_way(&self, (): &(), _: &Passed, _: &str) -> Option<String> {
        None
    }
}

/// What a request is for.
struct Target<'a> {
    server: &'a Server,
    /// The member of `params` that names the item at this URL, with the server's own name of it, where that is another.
    renamed: Option<(&'static str, String)>,
}

impl Asking<'_> {
    /// Carries a request to the server that has what it names.
    pub(super) async fn route(
        &self,
        method: &str,
        id: Id<'_>,
        (body, parsed): (&Bytes, &Parsed<'_>),
        era: MessageEra,
    ) -> Response {
        let target = match self.target(method, parsed).await {
            Ok(target) => target,
            Err(refusal) => return self.no(refusal, Some(id)).await,
        };
        let server = target.server;
        let to = self.lane.era_towards(server, &era);
        let bridge = Bridge::new(
            method,
            era.era(),
            to.era(),
            parsed.progress(),
            era.wants_log(),
        );
        let restated = restate(parsed, target.renamed, &bridge, &to);
        let Some(restated) = restated else {
            let refusal = Refusal::new(refusal::MESSAGE_INVALID, "params is an object");
            return self.no(refusal, Some(id)).await;
        };
        let resource = Resource::server(server.name.clone());
        let bare = Call::new(self.id, self.peer, &USE, &resource, method);
        let bare = Call {
            bytes: body.len() as u64,
            ..bare
        };
        let (shared, verified) = (&self.lane.shared, self.verified.clone());
        let way = RestatedWay(to);
        let driven = match drive(shared, &way, server, verified, bare, &restated).await {
            Ok(driven) => driven,
            Err(refused) => return say(&refused, self.id),
        };
        let Some(mut outgoing) = driven.outgoing else {
            return accepted();
        };
        outgoing.takes_events = accepts(self.head, "text/event-stream");
        if outgoing.progress.is_some() {
            // Clients that share a link may use the same one.
            let own = own_token(self.id);
            outgoing.message = with_token(&outgoing.message, &own);
            outgoing.progress = Some(own);
        }
        let session = self.session().ok().flatten();
        let answers = driven.answers.across(bridge);
        own::carry(self.lane, server, answers, outgoing, session).await
    }

    /// The server that a request is for.
    async fn target(&self, method: &str, parsed: &Parsed<'_>) -> Result<Target<'_>, Refusal> {
        let params = parsed.params();
        let text = |member: &str| {
            let value = params.and_then(|params| params.get(member));
            value.and_then(base::JsonValue::as_str)
        };
        match method {
            "tools/call" => self.by_name(ListKind::Tools, text("name"), "name").await,
            "prompts/get" => self.by_name(ListKind::Prompts, text("name"), "name").await,
            "resources/read" => self.by_uri(text("uri")).await,
            "completion/complete" => {
                let named = params.and_then(|params| params.get("ref"));
                let member = |key: &str| named?.get(key)?.as_str();
                match member("type").as_deref() {
                    Some("ref/prompt") => {
                        self.by_name(ListKind::Prompts, member("name"), "ref").await
                    }
                    _ => self.by_uri(member("uri")).await,
                }
            }
            _ => {
                let public = "this URL has no such method; ask one server at /mcp/<server>";
                Err(Refusal::new(refusal::METHOD_GONE, public))
            }
        }
    }

    async fn by_name(
        &self,
        kind: ListKind,
        name: Option<Cow<'_, str>>,
        member: &'static str,
    ) -> Result<Target<'_>, Refusal> {
        let name = name.ok_or_else(|| unknown("no name is given"))?;
        let list = self.lists(kind).await;
        let names = self.names(&list);
        match names.find(&name) {
            Found::One(owned) => self.owned(owned, (*name != owned.name).then_some(member)),
            Found::Several(those) => {
                let public = format!("several servers have it: use {}", those.join(" or "));
                Err(Refusal::new(refusal::NAME_CLASH, public))
            }
            Found::None => Err(self.missing(&list, "no server of this URL lists that name")),
        }
    }

    fn owned(&self, owned: &Owned, member: Option<&'static str>) -> Result<Target<'_>, Refusal> {
        let servers = &self.lane.settings().servers;
        let server = servers.get(&owned.server);
        Ok(Target {
            server: server.ok_or_else(|| unknown("its server is gone"))?,
            renamed: member.map(|member| (member, owned.name.clone())),
        })
    }

    /// By the list that gave the URI, else by the template whose beginning it has the most of, else the one server that there
    /// is.
    async fn by_uri(&self, uri: Option<Cow<'_, str>>) -> Result<Target<'_>, Refusal> {
        let uri = uri.ok_or_else(|| unknown("no URI is given"))?;
        let target = |server| Target {
            server,
            renamed: None,
        };
        let list = self.lists(ListKind::Resources).await;
        for (server, listed) in &list.lists {
            if listed.items.iter().any(|item| item.key == uri) {
                return self.of(&server.name).map(target);
            }
        }
        let templates = self.lists(ListKind::Templates).await;
        let fitting = templates.lists.iter().filter_map(|(server, listed)| {
            let literal = |template: &str| template.split('{').next().unwrap_or_default().len();
            let fits = |item: &&super::lists::Item| {
                let literal = literal(&item.key);
                literal > 0 && uri.starts_with(&item.key[..literal])
            };
            let those = listed.items.iter().filter(fits);
            let longest = those.map(|item| literal(&item.key)).max()?;
            Some((longest, &server.name))
        });
        if let Some((_, server)) = fitting.max_by_key(|(literal, _)| *literal) {
            return self.of(server).map(target);
        }
        match self.servers().as_slice() {
            [one] => self.of(&one.name).map(target),
            _ => Err(self.missing(&list, "no server of this URL lists that URI")),
        }
    }

    fn of(&self, server: &Name) -> Result<&Server, Refusal> {
        let server = self.lane.settings().servers.get(server);
        server.ok_or_else(|| unknown("its server is gone"))
    }

    /// What is said of an item that is not listed: a server that is down may have it.
    fn missing(&self, list: &SetList<'_>, public: &str) -> Refusal {
        if list.missing.is_empty() {
            return unknown(public);
        }
        let missing: Vec<&str> = list.missing.iter().map(|name| name.as_str()).collect();
        let public = format!("{public}; these do not answer: {}", missing.join(", "));
        Refusal::new(refusal::ITEM_UNKNOWN, public)
    }

    /// Takes a cancellation to the server that the request is under way at.
    pub(super) async fn cancel(&self, body: &Bytes, parsed: &Parsed<'_>) -> Response {
        let passed = self
            .pass(&USE, "notifications/cancelled", Some((body, parsed)))
            .await;
        let passed = match passed {
            Ok(passed) => passed,
            Err(refusal) => return refuse::refuse_http(&refusal, self.id, None),
        };
        let requested = parsed.params().and_then(|params| params.get("requestId"));
        let session = self.session().ok().flatten();
        if let Some(requested) = requested {
            for server in self.servers() {
                let client = CallClient {
                    agent: self.agent(),
                    server: &server.name,
                    session,
                };
                let calls = &self.lane.shared.calls;
                if calls.find(client, requested.text()).is_some() {
                    // Its connection closes, and with that the server hears of it.
                    calls.cancel(client, requested.text());
                }
            }
        }
        end(passed, 202);
        accepted()
    }
}

fn unknown(public: &str) -> Refusal {
    Refusal::new(refusal::ITEM_UNKNOWN, public)
}

impl McpLane {
    /// The era in which a server is spoken to: that of the client, where the server speaks it or where nothing is known of it.
    pub(crate) fn era_towards(&self, server: &Server, client: &MessageEra) -> MessageEra {
        let spoken = self.shared.spoken(&server.name);
        let (legacy, modern) = match &spoken {
            Some(spoken) => (spoken.legacy, spoken.modern.last().copied()),
            None => (None, None),
        };
        match (client, legacy, modern) {
            (MessageEra::Modern(message), _, Some(_)) => MessageEra::Modern(message.clone()),
            (_, None, Some(revision)) => MessageEra::modern(revision),
            (_, legacy, _) => MessageEra::Legacy(legacy),
        }
    }

    /// Asks a server something as an agent, and gives the result of its answer, or that it refused; nothing where there was no
    /// answer, or none that may pass.
    pub(crate) async fn ask(
        &self,
        server: &Server,
        verified: Verified,
        call: Call<'_>,
        params: Value,
    ) -> Option<Result<Bytes, ()>> {
        let method = call.method;
        let era = self.era_towards(server, &MessageEra::Legacy(None));
        let mut params = params;
        if let MessageEra::Modern(modern) = &era {
            params["_meta"] = super::across::meta(modern.revision);
        }
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let body = Bytes::from(message.to_string());
        let way = RestatedWay(era);
        let driven = drive(&self.shared, &way, server, verified, call, &body).await;
        let driven = driven.map_err(|Refused { .. }| ()).ok()?;
        let mut outgoing = driven.outgoing?;
        outgoing.takes_events = true;
        let answers = driven.answers.unregistered();
        let response = own::carry(self, server, answers, outgoing, None).await;
        let message = message_in(response).await?;
        result_of(&message)
    }
}

/// The answer in a response: its body, or the last message of its event stream.
async fn message_in(response: Response) -> Option<Bytes> {
    let is_ok = response.status() == StatusCode::OK;
    match response.into_body() {
        net::Body::Full(message) => Some(message),
        net::Body::Stream(mut stream) if is_ok => {
            let mut reader = net::sse::Reader::default();
            let mut last = None;
            while let Some(chunk) = stream.next().await {
                let read = reader.push(&chunk, |event| {
                    let data = event.data.filter(|data| !data.is_empty());
                    last = data.map(Bytes::from).or(last.take());
                });
                read.ok()?;
            }
            last
        }
        _ => None,
    }
}
