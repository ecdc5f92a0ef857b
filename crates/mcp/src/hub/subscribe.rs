//! `resources/subscribe` and `resources/unsubscribe` of clients of the legacy era, at the URL of many servers.
//!
//! Each is judged and recorded as a call of the server that has the resource. A server of the legacy era is sent it, in weir's
//! session for the agent: a subscription as often as it is asked for, its end when nobody of the agent wants it any more. A
//! server of the modern era has no such request: its feed is opened again with the resources that are wanted now.

use base::record::CallEnd;
use base::{JsonValue, Refusal, Resource, refusal};
use bytes::Bytes;
use gate::Call;
use http::StatusCode;
use net::Response;

use super::route::{RestatedWay, message_in};
use super::sessions::SetSession;
use super::{Asking, answer};
use crate::actions::READ;
use crate::drive::{Driven, Refused, drive};
use crate::envelope::Id;
use crate::era::{CapabilitySet, Era, MessageEra};
use crate::inbound::{json, rpc_error, say};
use crate::incoming::{AskedItem, Parsed, URI_BYTES_MAX};
use crate::lane::Server;
use crate::upstream::own;

pub(super) const SUBSCRIBE: &str = "resources/subscribe";
pub(super) const UNSUBSCRIBE: &str = "resources/unsubscribe";

impl Asking<'_> {
    /// Answers [`SUBSCRIBE`].
    pub(super) async fn subscribe_resource(
        &self,
        id: Id<'_>,
        message: (&Bytes, &Parsed<'_>),
    ) -> Response {
        let (session, uri) = match self.subscription(message.1) {
            Ok(both) => both,
            Err(refusal) => return self.no(refusal, Some(id)).await,
        };
        let server = match self.server_of_uri(&uri).await {
            Ok(server) => server,
            Err(refusal) => {
                let asked = AskedItem::resource(&uri);
                return self
                    .no_item(SUBSCRIBE, asked, refusal, (id, message.0))
                    .await;
            }
        };
        let driven = match self.judge(server, SUBSCRIBE, message.0).await {
            Ok(driven) => driven,
            Err(refused) => return say(&refused, self.id),
        };
        let audience = &self.lane.shared.hub.audience;
        // Before the server is told, so that its first update finds its client.
        let of = (&*uri, &server.name);
        let is_sent = self.era_of(server).era() == Era::Legacy;
        if let Err(refusal) = audience.subscribe(self.agent(), &session, of, is_sent) {
            return rpc_error(driven.answers, &refusal);
        }
        if !is_sent {
            return done(driven, id);
        }
        let (answered, is_ok) = self.send(server, driven).await;
        if !is_ok {
            audience.unsubscribe(self.agent(), &session, &uri);
        }
        answered
    }

    /// Answers [`UNSUBSCRIBE`]. What is not subscribed to is left so.
    pub(super) async fn unsubscribe_resource(
        &self,
        id: Id<'_>,
        message: (&Bytes, &Parsed<'_>),
    ) -> Response {
        let (session, uri) = match self.subscription(message.1) {
            Ok(both) => both,
            Err(refusal) => return self.no(refusal, Some(id)).await,
        };
        let audience = &self.lane.shared.hub.audience;
        let ended = audience.unsubscribe(self.agent(), &session, &uri);
        let servers = &self.lane.settings().servers;
        let server = match ended.as_ref().and_then(|ended| servers.get(&ended.server)) {
            Some(server) => server,
            None => match self.server_of_uri(&uri).await {
                Ok(server) => server,
                Err(refusal) => {
                    let asked = AskedItem::resource(&uri);
                    return self
                        .no_item(UNSUBSCRIBE, asked, refusal, (id, message.0))
                        .await;
                }
            },
        };
        let driven = match self.judge(server, UNSUBSCRIBE, message.0).await {
            Ok(driven) => driven,
            Err(refused) => return say(&refused, self.id),
        };
        let is_last = ended.is_some_and(|ended| ended.is_last);
        match is_last && self.era_of(server).era() == Era::Legacy {
            true => self.send(server, driven).await.0,
            false => done(driven, id),
        }
    }

    /// Ends the subscriptions of a session that ended.
    pub(super) async fn end_subscriptions(&self, session: &SetSession) {
        let audience = &self.lane.shared.hub.audience;
        let servers = audience.end_session(self.agent(), &session.number);
        for server in servers {
            let verified = self.verified.clone();
            self.lane
                .tell_subscriptions(&server, verified, self.peer)
                .await;
        }
    }

    /// The session, by its number, and the URI that a request names.
    fn subscription(&self, parsed: &Parsed<'_>) -> Result<(String, String), Refusal> {
        let session = self.session()?.ok_or_else(|| {
            let public = "a subscription is of a session, and the request names none";
            Refusal::new(refusal::SESSION_MISSING, public)
        })?;
        let uri = parsed.params().and_then(|params| params.get("uri"));
        let uri = uri.and_then(JsonValue::as_str);
        let fits = uri.filter(|uri| uri.len() <= URI_BYTES_MAX);
        let uri = fits.ok_or_else(|| {
            let public = format!("params.uri is a string of at most {URI_BYTES_MAX} bytes");
            Refusal::new(refusal::MESSAGE_INVALID, public)
        })?;
        Ok((session.1.number, uri.into_owned()))
    }

    fn era_of(&self, server: &Server) -> MessageEra {
        self.lane.era_towards(server, &MessageEra::Legacy(None))
    }

    /// Judges a request as the call of its server that it is.
    async fn judge(
        &self,
        server: &Server,
        method: &str,
        body: &Bytes,
    ) -> Result<Driven<()>, Refused> {
        let resource = Resource::server(server.name.clone());
        let call = Call {
            bytes: body.len() as u64,
            ..Call::new(self.id, self.peer, &READ, &resource, method)
        };
        let legacy = self.lane.shared.spoken(&server.name);
        let legacy = legacy.and_then(|spoken| spoken.legacy);
        let way = RestatedWay::new(MessageEra::Legacy(legacy));
        let (shared, verified) = (&self.lane.shared, self.verified.clone());
        drive(shared, &way, server, verified, call, body).await
    }

    /// Sends a request to a server of the legacy era. Gives the answer, and whether it is a result.
    async fn send(&self, server: &Server, driven: Driven<()>) -> (Response, bool) {
        let answers = driven.answers;
        let Some(mut outgoing) = driven.outgoing else {
            return (say(&super::route::server_gone(), self.id), false);
        };
        outgoing.takes_events = true;
        let nothing = CapabilitySet::default();
        let way = own::way(self.lane, server, answers.passed(), Era::Legacy, nothing);
        let way = match way {
            Ok(way) => way,
            Err(refusal) => return (rpc_error(answers, &refusal), false),
        };
        let session = self.session().ok().flatten().map(|(given, _)| given);
        let carried = own::carry(self.lane, server, &way, answers, outgoing, session).await;
        let status = carried.status();
        match message_in(carried).await {
            Some(message) => {
                let is_ok = super::lists::result_of(&message).is_some_and(|said| said.is_ok());
                (json(status, message, None), is_ok)
            }
            None => (say(&super::route::server_gone(), self.id), false),
        }
    }
}

/// The answer of weir itself to a request that passed.
fn done(driven: Driven<()>, id: Id<'_>) -> Response {
    driven.answers.end(CallEnd::Complete, 200);
    json(StatusCode::OK, answer(id, "{}"), None)
}
