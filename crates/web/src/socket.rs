//! WebSocket through the gate (RFC 6455): judged as a request when it opens, and then message by message, both ways.
//!
//! A connection is one call, `web:send` on its site: through the proxy, in absolute form or inside of a tunnel that is
//! looked into, and at `/ws?url=`. The site is asked before the client is answered. A message is taken whole, in however
//! many frames it comes, judged, and sent on in one; no extension is offered, so nothing is compressed. The end of each
//! message is judged again together with the beginning of the next: of what is cut over two, the second does not pass.
//!
//! Example: `the key is AKIA…` closes the client's side with 1008 and the site's with 1001, and the site has none of it.

use std::time::Duration;

use base::record::CallEnd;
use base::{CallId, Json, Refusal, Resource, refusal};
use bytes::Bytes;
use gate::{Answer, Call, Channel, Passed, Role};
use http::header::{
    CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, ORIGIN, TRANSFER_ENCODING, UPGRADE,
    USER_AGENT,
};
use http::{Method, StatusCode};
use net::{
    Body, Request, Response, SendError, TunnelStop, WebSocket, WebSocketAsk, WebSocketBounds,
    WebSocketEnd, WebSocketMessage, WebSocketOffer,
};
use scan::Direction;

use crate::actions::SEND;
use crate::binary;
use crate::credentials::{self, Scrub, SiteCredential};
use crate::exchange::{Judged, SiteRequest, end, of_send};
use crate::lane::{Caller, WebLane};
use crate::meter::SiteDecision;
use crate::refuse::problem;
use crate::section::SocketOrigin;
use crate::site::{AskedUrl, invalid};

/// Bytes of two messages beside each other that are judged together, of each.
const SEAM_BYTES: usize = 256;
/// How records and policies name the method.
pub(crate) const METHOD: &str = "websocket";
/// Fields of the handshake that each side writes itself.
const HANDSHAKE: [&str; 3] = [
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-extensions",
];
const PROTOCOL: HeaderName = HeaderName::from_static("sec-websocket-protocol");

/// How WebSockets are carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketSettings {
    /// Whether messages may be bytes that are no text.
    pub is_binary: bool,
    pub origin: SocketOrigin,
    pub bounds: WebSocketBounds,
}

/// Whether a request asks to go on with WebSocket.
pub(crate) fn is_asked(fields: &HeaderMap) -> bool {
    let mut values = fields.get_all(UPGRADE).iter();
    let value = values.next().filter(|_| values.next().is_none());
    value.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// The URL of HTTP that a WebSocket's URL stands for (RFC 6455 §3): `wss://a.example/x` is asked at `https://a.example/x`.
pub(crate) fn http_url(text: &str) -> String {
    for (scheme, http) in [("wss://", "https://"), ("ws://", "http://")] {
        if let Some(start) = text.get(..scheme.len())
            && start.eq_ignore_ascii_case(scheme)
        {
            return format!("{http}{}", &text[scheme.len()..]);
        }
    }
    text.to_owned()
}

/// One of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Agent,
    Site,
}

/// How a connection came to its end.
enum SocketEnding {
    /// This side closed it, with this code if it gave one.
    Closed(Side, Option<u16>),
    /// A message that may not pass.
    Refused(Refusal),
    /// A bound, a stop, or a side that broke the protocol or off.
    Broken(Side, WebSocketEnd),
}

/// A connection with both of its sides.
struct SocketPair<'l> {
    lane: &'l WebLane,
    messages: MessageJudge<'l>,
    judged: Judged,
    agent: WebSocket,
    site: WebSocket,
    bytes: u64,
}

/// What judges the messages of one connection.
pub(crate) struct MessageJudge<'l> {
    credentials: &'l [SiteCredential],
    is_binary: bool,
    url: &'l AskedUrl,
    /// The ends of the last messages of the agent and of the site.
    sent: Seam,
    came: Seam,
}

impl WebLane {
    /// Answers `/ws?url=`: a WebSocket to a site for clients that know no proxy.
    pub async fn web_socket(&self, mut request: Request, id: CallId) -> Response {
        let caller = match self.who(&request, id, "ws").await {
            Ok(caller) => caller,
            Err(refusal) => return problem(&refusal, id),
        };
        let asked = match asked_by_query(&request) {
            Ok(asked) => asked,
            Err(refusal) => {
                let resource = crate::lane::setting("ws");
                let call = Call::new(id, caller.peer, &SEND, &resource, METHOD);
                return problem(&self.no(&caller, &call, refusal).await, id);
            }
        };
        let carried = self.carry_socket(&caller, id, &mut request, asked).await;
        carried.unwrap_or_else(|refusal| problem(&refusal, id))
    }

    /// Carries the WebSocket that a request asks for, to its end.
    ///
    /// # Errors
    /// The refusal, which is recorded; the client has no answer yet.
    pub(crate) async fn carry_socket(
        &self,
        caller: &Caller,
        id: CallId,
        request: &mut Request,
        asked: SiteRequest,
    ) -> Result<Response, Refusal> {
        let offer = match offer(request) {
            Ok(offer) => offer,
            Err(refusal) => {
                let resource = Resource::Site(asked.url.site.clone());
                let call = Call::new(id, caller.peer, &SEND, &resource, METHOD);
                return Err(self.no(caller, &call, refusal).await);
            }
        };
        let asked = self.handshake(asked);
        let judged = self.judge(caller, id, None, &asked).await?;
        let opened = self.open_socket(&judged, &asked, &offer, request).await;
        let (agent, site) = match opened {
            Ok(opened) => opened,
            Err(refusal) => {
                end(judged.passed, CallEnd::Failed, 0, 0, Some(&refusal));
                return Err(refusal);
            }
        };
        let pair = SocketPair {
            lane: self,
            messages: MessageJudge::new(
                &self.settings().credentials,
                self.settings().socket.is_binary,
                &asked.url,
            ),
            judged,
            agent,
            site,
            bytes: 0,
        };
        pair.carry().await;
        let mut taken = Response::new(Body::Taken);
        *taken.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        Ok(taken)
    }

    /// The request as it is judged: without what each side of the handshake writes itself, with the origin as configured.
    fn handshake(&self, mut asked: SiteRequest) -> SiteRequest {
        asked.is_socket = true;
        for name in HANDSHAKE {
            asked.fields.remove(name);
        }
        match self.settings().socket.origin {
            SocketOrigin::Keep => {}
            SocketOrigin::Drop => {
                asked.fields.remove(ORIGIN);
            }
            SocketOrigin::Replace => {
                let origin = asked.url.url.origin().ascii_serialization();
                if let Ok(origin) = HeaderValue::try_from(origin) {
                    asked.fields.insert(ORIGIN, origin);
                }
            }
        }
        asked
    }

    /// Opens the site's side, and then the client's with the protocol that the site chose.
    async fn open_socket(
        &self,
        judged: &Judged,
        asked: &SiteRequest,
        offer: &WebSocketOffer,
        request: &mut Request,
    ) -> Result<(WebSocket, WebSocket), Refusal> {
        let (settings, passed) = (self.settings(), &judged.passed);
        let protocols = asked.fields.get_all(PROTOCOL).iter();
        if !protocols.eq(judged.fields.get_all(PROTOCOL).iter()) {
            let public = "a secret stands in the protocols that are offered";
            return Err(Refusal::new(refusal::SECRET, public));
        }
        let fields = judged.fields.iter();
        let fields = fields.filter(|(name, _)| **name != PROTOCOL);
        let fields: Vec<(&[u8], &[u8])> = fields
            .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
            .collect();
        let protocols: Vec<&str> = offer.protocols().collect();
        let ask = WebSocketAsk {
            target: asked.url.path.as_str(),
            protocols: &protocols,
            fields: &fields,
        };
        let opened = async {
            let lease = self.upstreams.dial(passed, settings.answer_ms).await?;
            WebSocket::connect(lease, passed, ask, settings.socket.bounds).await
        };
        let opened = tokio::time::timeout(Duration::from_millis(settings.answer_ms), opened).await;
        let (site, protocol) =
            opened
                .unwrap_or(Err(SendError::Slow))
                .map_err(|error| match error {
                    SendError::Broken(why) => {
                        let public = "the site did not open a WebSocket";
                        Refusal::new(refusal::WEB_DOWN, public).with_private(why)
                    }
                    error => of_send(error),
                })?;
        let bounds = settings.socket.bounds;
        let accepted = WebSocket::accept(request, passed, offer, protocol.as_deref(), bounds).await;
        Ok((accepted?, site))
    }
}

impl SocketPair<'_> {
    async fn carry(mut self) {
        let ending = self.exchange().await;
        let (how, why) = match ending {
            SocketEnding::Closed(side, code) => {
                let code = code.filter(|code| may_be_sent(*code)).unwrap_or(1000);
                self.other(side).close(code, "").await;
                (CallEnd::Complete, None)
            }
            SocketEnding::Refused(refusal) => {
                let reason = format!("{}: {}", refusal.code.name, refusal.mend());
                self.agent.close(1008, &reason).await;
                self.site.close(1001, "").await;
                (CallEnd::Refused, Some(refusal))
            }
            SocketEnding::Broken(side, broken) => {
                let code = match broken {
                    WebSocketEnd::Stopped(TunnelStop::Ended(_)) => 1008,
                    WebSocketEnd::TooLarge => 1009,
                    _ => 1001,
                };
                self.other(side).close(code, "").await;
                (CallEnd::Cut, Some(refusal_of(broken)))
            }
        };
        let status = StatusCode::SWITCHING_PROTOCOLS.as_u16();
        end(self.judged.passed, how, status, self.bytes, why.as_ref());
    }

    fn other(&mut self, side: Side) -> &mut WebSocket {
        match side {
            Side::Agent => &mut self.site,
            Side::Site => &mut self.agent,
        }
    }

    /// Carries messages until an end.
    async fn exchange(&mut self) -> SocketEnding {
        loop {
            let passed = &self.judged.passed;
            let (side, came) = tokio::select! {
                came = self.agent.next(passed) => (Side::Agent, came),
                came = self.site.next(passed) => (Side::Site, came),
            };
            let message = match came {
                Ok(Some(message)) => message,
                Ok(None) => {
                    let code = match side {
                        Side::Agent => self.agent.closed_with(),
                        Side::Site => self.site.closed_with(),
                    };
                    return SocketEnding::Closed(side, code);
                }
                Err(broken) => return SocketEnding::Broken(side, broken),
            };
            let message = self.judge(side, message);
            let decision = match &message {
                Ok(_) => SiteDecision::Passed,
                Err(_) => SiteDecision::Refused,
            };
            let meter = &self.lane.settings().meter;
            meter.message(side == Side::Agent, decision);
            let message = match message {
                Ok(message) => message,
                Err(refusal) => return SocketEnding::Refused(refusal),
            };
            let sent = match side {
                Side::Agent => self.site.send(&self.judged.passed, message).await,
                Side::Site => self.agent.send(&self.judged.passed, message).await,
            };
            if let Err(broken) = sent {
                let side = match side {
                    Side::Agent => Side::Site,
                    Side::Site => Side::Agent,
                };
                return SocketEnding::Broken(side, broken);
            }
        }
    }

    /// Judges a message; gives it as it may go on.
    fn judge(
        &mut self,
        side: Side,
        message: WebSocketMessage,
    ) -> Result<WebSocketMessage, Refusal> {
        let came = match &message {
            WebSocketMessage::Text(text) => text.len(),
            WebSocketMessage::Binary(bytes) => bytes.len(),
        };
        self.bytes += came as u64;
        match side {
            Side::Agent => self.judged.place.sent(came as u64)?,
            Side::Site => self.judged.place.came(came as u64)?,
        }
        let Judged { passed, scrub, .. } = &mut self.judged;
        passed.in_force()?;
        self.messages.judge(passed, scrub, side, message)
    }
}

impl<'l> MessageJudge<'l> {
    pub(crate) fn new(
        credentials: &'l [SiteCredential],
        is_binary: bool,
        url: &'l AskedUrl,
    ) -> MessageJudge<'l> {
        MessageJudge {
            credentials,
            is_binary,
            url,
            sent: Seam::new(Role::Body),
            came: Seam::new(Role::ToolResult),
        }
    }

    /// Judges a message; gives it as it may go on.
    pub(crate) fn judge(
        &mut self,
        passed: &mut Passed,
        scrub: &mut Scrub,
        side: Side,
        message: WebSocketMessage,
    ) -> Result<WebSocketMessage, Refusal> {
        match message {
            WebSocketMessage::Text(text) => {
                let text = self.without_credentials(passed, scrub, side, text.into_bytes())?;
                let text = String::from_utf8_lossy(&text);
                self.judge_text(passed, side, &text)
                    .map(WebSocketMessage::Text)
            }
            WebSocketMessage::Binary(_) if !self.is_binary => {
                let public = "a message is no text, and web.socket.binary is not written";
                Err(Refusal::new(refusal::WEB_BINARY, public))
            }
            WebSocketMessage::Binary(bytes) => {
                let bytes = self.without_credentials(passed, scrub, side, bytes.to_vec())?;
                binary::judge(passed, side.role(), &bytes)?;
                let bytes = Bytes::from(bytes);
                Ok(WebSocketMessage::Binary(bytes))
            }
        }
    }

    /// Refuses placeholders that an agent sends, and takes credentials out of what the site says.
    fn without_credentials(
        &self,
        passed: &Passed,
        scrub: &mut Scrub,
        side: Side,
        text: Vec<u8>,
    ) -> Result<Vec<u8>, Refusal> {
        match side {
            Side::Site if scrub.is_idle() => Ok(text),
            Side::Site => Ok([scrub.push(&text), scrub.finish()].concat()),
            Side::Agent => {
                let (agent, none) = (passed.agent(), HeaderMap::new());
                credentials::check(self.credentials, agent, self.url, &none, &[&text])
                    .map(|()| text)
            }
        }
    }

    fn judge_text(
        &mut self,
        passed: &mut Passed,
        side: Side,
        text: &str,
    ) -> Result<String, Refusal> {
        let seam = match side {
            Side::Agent => &mut self.sent,
            Side::Site => &mut self.came,
        };
        let starts_json = text.trim_start().starts_with(['{', '[']);
        let json = Json::read(text.as_bytes()).ok().filter(|_| starts_json);
        let judged = match json {
            Some(json) => match passed.message(side.direction(), json.root(), "message")? {
                Answer::AsItCame => text.to_owned(),
                Answer::Redacted(redacted) => String::from_utf8_lossy(&redacted).into_owned(),
            },
            None => whole(passed, side.role(), text)?,
        };
        seam.join(passed, &judged)?;
        Ok(judged)
    }
}

impl Side {
    fn role(self) -> Role {
        match self {
            Side::Agent => Role::Body,
            Side::Site => Role::ToolResult,
        }
    }

    fn direction(self) -> Direction {
        self.role().direction()
    }
}

/// Judges a text that came whole; gives what may go on of it.
fn whole(passed: &mut Passed, role: Role, text: &str) -> Result<String, Refusal> {
    let (mut channel, mut out) = (
        Channel::new(role, "message"),
        Vec::with_capacity(text.len()),
    );
    channel.push(passed, text.as_bytes(), &mut out)?;
    channel.finish(passed, &mut out)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// The end of the last message of one side.
struct Seam {
    role: Role,
    end: String,
}

impl Seam {
    fn new(role: Role) -> Seam {
        Seam {
            role,
            end: String::new(),
        }
    }

    /// Judges the end of the last message with the beginning of this, which is itself good.
    fn join(&mut self, passed: &mut Passed, text: &str) -> Result<(), Refusal> {
        let joined = self.joined(text);
        if let Some(joined) = joined
            && whole(passed, self.role, &joined)? != joined
        {
            let public = "a secret stands over two messages, so that it cannot be replaced";
            return Err(Refusal::new(refusal::SECRET, public));
        }
        self.keep(text);
        Ok(())
    }

    fn joined(&self, text: &str) -> Option<String> {
        let mut end = text.len().min(SEAM_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let is_any = !self.end.is_empty() && end > 0;
        is_any.then(|| format!("{}{}", self.end, &text[..end]))
    }

    /// Keeps the last characters of all that was said: short messages add up.
    fn keep(&mut self, text: &str) {
        self.end.push_str(text);
        let mut start = self.end.len().saturating_sub(SEAM_BYTES);
        while !self.end.is_char_boundary(start) {
            start += 1;
        }
        self.end.drain(..start);
    }
}

/// What `/ws?url=` asks for: the URL of the query, and of the fields those that say something to the site.
fn asked_by_query(request: &Request) -> Result<SiteRequest, Refusal> {
    let query = request.head.uri.query().unwrap_or_default();
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    let url = match (pairs.next(), pairs.next()) {
        (Some((name, url)), None) if name == "url" => url.into_owned(),
        _ => return Err(invalid("the query is url= and nothing else")),
    };
    let url = AskedUrl::read(&http_url(&url))?;
    let mut fields = HeaderMap::new();
    for name in [ORIGIN, USER_AGENT, PROTOCOL] {
        for value in request.head.headers.get_all(&name) {
            fields.append(name.clone(), value.clone());
        }
    }
    Ok(SiteRequest::new(Method::GET, url, &fields))
}

/// The handshake of a client. A body in front of it would be read as frames by one side alone.
fn offer(request: &Request) -> Result<WebSocketOffer, Refusal> {
    let fields = &request.head.headers;
    let length = fields.get(CONTENT_LENGTH).map(HeaderValue::as_bytes);
    if length.is_some_and(|length| length != b"0") || fields.contains_key(TRANSFER_ENCODING) {
        let public = "a request for a WebSocket has no body";
        return Err(Refusal::new(refusal::WEBSOCKET, public));
    }
    WebSocketOffer::read(&request.head)
}

/// Whether a close code may be written in a frame (RFC 6455 §7.4.1 and 7.4.2).
fn may_be_sent(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

fn refusal_of(broken: WebSocketEnd) -> Refusal {
    let code = match broken {
        WebSocketEnd::Stopped(TunnelStop::Ended(refusal)) => return refusal,
        WebSocketEnd::Stopped(TunnelStop::Drained) => refusal::DRAINING,
        WebSocketEnd::Stopped(_) => refusal::WEB_BOUND,
        WebSocketEnd::TooLarge => refusal::BODY_TOO_LARGE,
        WebSocketEnd::NotText | WebSocketEnd::Invalid(_) => refusal::WEBSOCKET,
        WebSocketEnd::Broken(_) | WebSocketEnd::Closed => refusal::WEB_DOWN,
    };
    Refusal::new(code, broken.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_web_socket_is_asked_by_http() {
        assert_eq!(http_url("wss://a.example/x?y"), "https://a.example/x?y");
        assert_eq!(http_url("WS://a.example"), "http://a.example");
        assert_eq!(http_url("https://a.example"), "https://a.example");
        assert_eq!(http_url("ws:/"), "ws:/");
    }

    #[test]
    fn the_ends_of_messages_add_up() {
        let mut seam = Seam::new(Role::Body);
        assert_eq!(seam.joined("b"), None);
        for letter in ["a", "b", ""] {
            seam.keep(letter);
        }
        assert_eq!(seam.joined("c").as_deref(), Some("abc"));
        seam.keep(&"é".repeat(SEAM_BYTES));
        assert!(seam.end.len() <= SEAM_BYTES && seam.end.starts_with('é'));
        let joined = seam.joined(&"ü".repeat(SEAM_BYTES)).unwrap();
        assert!(joined.len() <= 2 * SEAM_BYTES && joined.ends_with('ü'));
    }

    #[test]
    fn codes_that_no_frame_has_are_not_passed_on() {
        let of = |codes: &[u16]| codes.iter().filter(|code| may_be_sent(**code)).count();
        assert_eq!(of(&[1004, 1005, 1006, 1015, 999, 2000, 5000]), 0);
        assert_eq!(of(&[1000, 1001, 1009, 1011, 3000, 4999]), 6);
    }
}
