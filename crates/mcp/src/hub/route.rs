//! From a request at one URL to the server that it is for, and back.

use std::borrow::Cow;

use base::record::CallEnd;
use base::{ItemKind, Name, Refusal, Resource, ServerItem, refusal};
use bytes::Bytes;
use gate::{Call, Passed};
use http::StatusCode;
use identity::Verified;
use net::Response;
use serde_json::{Value, json};

use super::across::{Bridge, ToldClient, restate, with_token};
use super::lists::{SetList, result_of};
use super::names::{self, FoundName, Owned};
use super::talk::{Begun, Talk};
use super::turns::digest;
use super::{Asking, end};
use crate::actions::USE;
use crate::calls::own_token;
use crate::drive::{ClientWay, Refused, To, drive};
use crate::envelope::{Id, Message};
use crate::era::{CapabilitySet, Era, MessageEra, may_ask};
use crate::inbound::{accepted, accepts, rpc_error, say};
use crate::incoming::{AskedItem, Incoming, Parsed};
use crate::lane::{McpLane, Server};
use crate::listing::ListKind;
use crate::refuse;
use crate::upstream::own;
use crate::upstream::shared::status_of;

/// The way of a message that weir restated for one server: its era is known.
pub(super) struct RestatedWay {
    era: MessageEra,
    /// The id that the server was given for the request that the message cancels.
    cancels: Option<String>,
}

impl RestatedWay {
    pub(super) fn new(era: MessageEra) -> RestatedWay {
        RestatedWay { era, cancels: None }
    }

    /// The way of a message that cancels the request which the server was given the id `own` for.
    pub(super) fn cancelling(era: MessageEra, own: String) -> RestatedWay {
        let cancels = Some(own);
        RestatedWay { era, cancels }
    }
}

impl ClientWay for RestatedWay {
    type Way = ();

    fn era(&self, _: &Message<'_>) -> Result<MessageEra, Refusal> {
        Ok(self.era.clone())
    }

    fn begin(&self, _: &Verified, _: &Incoming<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn under_way(&self, (): &(), _: &Passed, _: &str) -> Option<String> {
        self.cancels.clone()
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
        if let Some(token) = self.parked(method, parsed, &era) {
            return self.resume(token, method, id, (body, parsed)).await;
        }
        let asked = match asked(method, parsed, &era) {
            Ok(asked) => asked,
            Err(refusal) => return self.no(refusal, Some(id)).await,
        };
        let target = match self.target(method, &asked.item).await {
            Ok(target) => target,
            Err(refusal) => return self.no_item(method, asked, refusal, (id, body)).await,
        };
        let server = target.server;
        let can = self.can(&era);
        let to = self.lane.era_towards(server, &era).able(can);
        let checked = self.check_fields(&target, &era, parsed);
        if let Err(refusal) = checked.and_then(|()| check_state(&era, &to, parsed)) {
            return self.no(refusal, Some(id)).await;
        }
        let bridge = Bridge::new(
            method,
            era.era(),
            to.era(),
            parsed.progress(),
            era.wants_log(),
        );
        let session = self.session().ok().flatten().map(|(_, session)| session);
        let told = ToldClient {
            can,
            level: self.lane.shared.hub.sessions.level(session.as_ref()),
        };
        let restated = restate(parsed, target.renamed.clone(), &bridge, &to, told);
        let Some(restated) = restated else {
            let refusal = Refusal::new(refusal::MESSAGE_INVALID, "params is an object");
            return self.no(refusal, Some(id)).await;
        };
        // Servers of the modern era ask clients of it in the answer; the others ask in the middle of it, whom they may.
        let is_plain = match (era.era(), to.era()) {
            (Era::Modern, Era::Modern) => true,
            (Era::Legacy, Era::Legacy) => can.is_empty(),
            _ => false,
        };
        if let Some(method) = may_ask(method).filter(|_| !is_plain) {
            let begun = Begun {
                server: server.name.clone(),
                method,
                renamed: target.renamed,
                to,
                can,
                bridge: bridge.asking(),
                request: restated,
                digest: digest(method, parsed.params()),
                call: self.id,
            };
            return Box::pin(self.talk(begun, id, era.era())).await;
        }
        let resource = Resource::server(server.name.clone());
        let bare = self.call(&USE, &resource, method);
        let (shared, verified) = (&self.lane.shared, self.verified.clone());
        let way = RestatedWay::new(to);
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
        let session = self.session().ok().flatten().map(|(given, _)| given);
        let answers = driven.answers.across(bridge);
        let nothing = CapabilitySet::default();
        match own::way(self.lane, server, answers.passed(), outgoing.era(), nothing) {
            Ok(way) => {
                let carried = own::carry(self.lane, server, &way, answers, outgoing, session);
                with_status(carried.await, era.era())
            }
            Err(refusal) => rpc_error(answers, &refusal),
        }
    }

    /// Holds the fields of a call against the schema of its tool, as a server of the modern era does.
    fn check_fields(
        &self,
        target: &Target<'_>,
        era: &MessageEra,
        parsed: &Parsed<'_>,
    ) -> Result<(), Refusal> {
        let params = parsed.params();
        let member = |name: &str| params.and_then(|params| params.get(name));
        let renamed = target
            .renamed
            .as_ref()
            .map(|(_, name)| Cow::Borrowed(&**name));
        let name = renamed.or_else(|| member("name")?.as_str());
        let (declared, server) = (&self.lane.shared.declared, &target.server.name);
        match name {
            Some(tool) => declared.check_fields(server, &tool, member("arguments"), era),
            None => Ok(()),
        }
    }

    /// What the client is capable of when it is asked: of its session, or as the request says it.
    fn can(&self, era: &MessageEra) -> CapabilitySet {
        match era {
            MessageEra::Modern(modern) => modern.can,
            MessageEra::Legacy(_) => {
                let session = self.session().ok().flatten();
                session.map(|(_, session)| session.can).unwrap_or_default()
            }
        }
    }

    /// Judges a request that goes on with a parked call as the call that it is. It is not sent: the server has it already.
    pub(super) async fn judge_again(
        &self,
        talk: &Talk,
        parsed: &Parsed<'_>,
    ) -> Result<(), Refused> {
        let server = self.lane.settings().servers.get(&talk.server);
        let server = server.ok_or_else(server_gone)?;
        let restated = restate(
            parsed,
            talk.renamed.clone(),
            &talk.bridge,
            &talk.to,
            ToldClient::of(talk.can),
        );
        let restated = restated.ok_or_else(server_gone)?;
        let resource = Resource::server(server.name.clone());
        let bare = self.call(&USE, &resource, talk.method);
        let bare = Call {
            first: Some(talk.first),
            ..bare
        };
        let (shared, verified) = (&self.lane.shared, self.verified.clone());
        let way = RestatedWay::new(talk.to.clone());
        let driven = drive(shared, &way, server, verified, bare, &restated).await?;
        driven.answers.end(CallEnd::Complete, 200);
        Ok(())
    }

    /// The server that a request is for.
    async fn target(&self, method: &str, item: &ServerItem) -> Result<Target<'_>, Refusal> {
        match item.kind {
            ItemKind::Tool => self.by_name(ListKind::Tools, &item.name, "name").await,
            ItemKind::Prompt => {
                let is_ref = method == "completion/complete";
                let member = if is_ref { "ref" } else { "name" };
                self.by_name(ListKind::Prompts, &item.name, member).await
            }
            ItemKind::Resource => self.by_uri(&item.name).await,
            ItemKind::Card => {
                base::never!("no message of MCP names a card");
                Err(Refusal::new(refusal::FAILED, "no server has a card"))
            }
        }
    }

    async fn by_name(
        &self,
        kind: ListKind,
        name: &str,
        member: &'static str,
    ) -> Result<Target<'_>, Refusal> {
        let known = self.known_lists(kind);
        // Where every server's list is known, a name that is found needs no server to be asked.
        let known_names = known.missing.is_empty().then(|| self.names(kind, &known));
        if let Some(FoundName::One(owned)) = known_names.as_ref().map(|names| names.find(name)) {
            return self.owned(owned, (name != owned.name).then_some(member));
        }
        let list = self.lists(kind).await;
        let names = self.names(kind, &list);
        match names.find(name) {
            FoundName::One(owned) => self.owned(owned, (name != owned.name).then_some(member)),
            FoundName::Several(those) => {
                let public = format!("several servers have it: use {}", those.join(" or "));
                Err(Refusal::new(refusal::NAME_CLASH, public))
            }
            FoundName::None => match self.withheld(kind, name) {
                Some(owned) => self.owned(&owned, (name != owned.name).then_some(member)),
                None => Err(self.missing(&list, "no server of this URL lists that name")),
            },
        }
    }

    /// The item that is kept out of a list, by a name that the agent would know it by: its call is judged as any.
    fn withheld(&self, kind: ListKind, name: &str) -> Option<Owned> {
        let (_, item_kind) = kind.used_by();
        let withheld = &self.lane.shared.declared.withheld;
        self.servers().into_iter().find_map(|server| {
            let is_it = |own: &str| {
                let shown = server.names.get(own).map_or(own, String::as_str);
                let is_named = shown == name || names::long(&server.name, own) == name;
                is_named && self.is_in(server, own)
            };
            let name = withheld.find(&server.name, item_kind, is_it)?;
            let server = server.name.clone();
            Some(Owned { server, name })
        })
    }

    fn owned(&self, owned: &Owned, member: Option<&'static str>) -> Result<Target<'_>, Refusal> {
        let servers = &self.lane.settings().servers;
        let server = servers.get(&owned.server);
        Ok(Target {
            server: server.ok_or_else(|| unknown("its server is gone"))?,
            renamed: member.map(|member| (member, owned.name.clone())),
        })
    }

    /// The server that a resource is of.
    pub(super) async fn server_of_uri(&self, uri: &str) -> Result<&Server, Refusal> {
        let target = self.by_uri(uri).await?;
        Ok(target.server)
    }

    /// By the list that gave the URI, else by the template whose beginning it has the most of, else the one server that there
    /// is, else by the list that it was kept out of.
    async fn by_uri(&self, uri: &str) -> Result<Target<'_>, Refusal> {
        let target = |server| Target {
            server,
            renamed: None,
        };
        let list = self.lists(ListKind::Resources).await;
        for (server, listed) in &list.lists {
            let is_listed = listed.items.iter().any(|item| item.key == uri);
            if is_listed && self.is_in(server, uri) {
                return self.of(&server.name).map(target);
            }
        }
        let templates = self.lists(ListKind::Templates).await;
        // Of two that fit as well, the first counts: the last of those in reverse.
        let lists = templates.lists.iter().rev();
        let fitting = lists.filter_map(|(server, listed)| {
            if !self.is_in(server, uri) {
                return None;
            }
            let literal = |template: &str| template.split('{').next().unwrap_or_default().len();
            let fits = |item: &&super::lists::ListItem| {
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
            [one] if self.is_in(one, uri) => self.of(&one.name).map(target),
            _ => match self.withheld(ListKind::Resources, uri) {
                Some(owned) => self.of(&owned.server).map(target),
                None => Err(self.missing(&list, "no server of this URL lists that URI")),
            },
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
        if let Some(requested) = requested {
            self.cancel_request(requested.text(), body).await;
        }
        end(passed, 202);
        accepted()
    }
}

/// The item that a request names, of the methods that are for one server of many.
fn asked(method: &str, parsed: &Parsed<'_>, era: &MessageEra) -> Result<AskedItem, Refusal> {
    match method {
        "tools/call" | "prompts/get" | "resources/read" | "completion/complete" => {
            let asked = AskedItem::read(method, parsed.params(), era)?;
            asked.ok_or_else(|| {
                let public = "params.ref is neither a prompt nor a resource";
                Refusal::new(refusal::MESSAGE_INVALID, public)
            })
        }
        _ => {
            let public = "this URL has no such method; ask one server at /mcp/<server>";
            Err(Refusal::new(refusal::METHOD_GONE, public))
        }
    }
}

/// A server of the legacy era knows no state of a request: what is no parked call's is nobody's.
fn check_state(
    client: &MessageEra,
    server: &MessageEra,
    parsed: &Parsed<'_>,
) -> Result<(), Refusal> {
    let has_state = parsed
        .params()
        .is_some_and(|params| params.get("requestState").is_some());
    match (client.era(), server.era(), has_state) {
        (Era::Modern, Era::Legacy, true) => Err(Refusal::new(
            refusal::STATE_INVALID,
            "requestState is not one that this request was given",
        )),
        _ => Ok(()),
    }
}

/// An answer with the status that its error has for a client of the modern era (MCP 2026-07-28, "Streamable HTTP").
pub(super) fn with_status(mut response: Response, client: Era) -> Response {
    if let (net::Body::Full(message), Era::Modern) = (response.body(), client) {
        *response.status_mut() = status_of(message);
    }
    response
}

/// What is said where the server of a call was taken out of the settings meanwhile.
pub(super) fn server_gone() -> Refused {
    let refusal = Refusal::new(refusal::SERVER_CHANGED, "the server is not there any more");
    Refused::by_gate(refusal, To::Nobody)
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
            params["_meta"] = super::across::meta(modern.revision, ToldClient::default());
        }
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let body = Bytes::from(message.to_string());
        let way = RestatedWay::new(era);
        let driven = drive(&self.shared, &way, server, verified, call, &body).await;
        let driven = driven.map_err(|Refused { .. }| ()).ok()?;
        let mut outgoing = driven.outgoing?;
        outgoing.takes_events = true;
        let answers = driven.answers.unregistered();
        let nothing = CapabilitySet::default();
        let way = own::way(self, server, answers.passed(), outgoing.era(), nothing).ok()?;
        let response = own::carry(self, server, &way, answers, outgoing, None).await;
        let message = message_in(response).await?;
        result_of(&message)
    }
}

/// The answer in a response: its body, or the last message of its event stream.
pub(super) async fn message_in(response: Response) -> Option<Bytes> {
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
