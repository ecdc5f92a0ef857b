//! One request to a site: judged with all that it says, sent, and its answer begun.
//!
//! The URL, each field and the body are parts of the call. A body that fits is judged before any of it leaves; what was
//! redacted in it goes in its place. A larger one is judged as it flows. It is refused where it has a content coding: what
//! a piece of it holds is known only after later pieces, when the site would have it already.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use base::record::CallEnd;
use base::{Action, CallId, Json, JsonValue, Refusal, Resource, refusal};
use bytes::{Bytes, BytesMut};
use gate::{Call, CallEnding, Channel, ContentPart, PartContent, Passed, Role};
use http::Method;
use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST,
    HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE,
};
use net::h1::{Framing, SendOutcome};
use net::{Request, SendError, UpstreamAnswer};

use crate::actions::{SEND, of_method};
use crate::binary;
use crate::bounds::AgentPlace;
use crate::credentials::{self, Scrub};
use crate::decode::{self, Coding, CodingFault};
use crate::fields;
use crate::lane::{Caller, WebLane};
use crate::meter::{SiteDecision, SiteWay};
use crate::reverse::ReverseService;
use crate::site::AskedUrl;
use crate::socket;

/// What a body may unpack to in all, in bytes for each byte that it may have.
const UNPACKED_PER_BYTE: u64 = 16;
/// Bytes of a text before what is binary that a secret may begin in.
const BEFORE_BYTES: usize = 128;
/// Fields that are for the proxy or the connection, and say nothing.
const NOT_SENT: &[HeaderName] = &[
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    HOST,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];
/// `trailer` announces what is not sent: what came behind a body is dropped.
const NOT_SENT_EITHER: &[&str] = &["keep-alive", "proxy-connection", "trailer"];
/// Codings that are undone as they come, for `Accept-Encoding`.
const CODINGS: &[&str] = &["gzip", "x-gzip", "deflate", "br", "identity", "*"];

/// A request to a site, before it is judged.
pub(crate) struct SiteRequest {
    pub(crate) method: Method,
    pub(crate) url: AskedUrl,
    pub(crate) fields: HeaderMap,
    pub(crate) body: Bytes,
    /// The body is the beginning of one that is too large to be judged whole.
    pub(crate) is_begun: bool,
    /// It asks for a WebSocket.
    pub(crate) is_socket: bool,
    /// As what it is counted.
    pub(crate) way: SiteWay,
    /// The service behind the reverse proxy that it is for, where it is for one.
    pub(crate) service: Option<Arc<ReverseService>>,
}

/// A request that was judged, as it is to be sent.
pub(crate) struct Judged {
    pub(crate) passed: Passed,
    pub(crate) place: AgentPlace,
    pub(crate) fields: HeaderMap,
    pub(crate) body: Bytes,
    /// Takes credentials that were put in out of the answer.
    pub(crate) scrub: Scrub,
}

/// A body as it is judged.
enum ReadBody<'a> {
    Json(Json<'a>),
    Text(&'a [u8]),
    /// The texts in it.
    Binary(Vec<u8>),
}

impl<'a> ReadBody<'a> {
    fn of(asked: &SiteRequest, decoded: &'a [u8]) -> ReadBody<'a> {
        if asked.is_json()
            && let Ok(json) = Json::read(decoded)
        {
            return ReadBody::Json(json);
        }
        match binary::is_binary(decoded) {
            true => ReadBody::Binary(binary::texts(decoded)),
            false => ReadBody::Text(decoded),
        }
    }

    fn content(&self) -> PartContent<'_> {
        match self {
            ReadBody::Json(json) => PartContent::Json(json.root()),
            ReadBody::Text(text) => PartContent::Text(text),
            ReadBody::Binary(texts) => PartContent::Text(texts),
        }
    }
}

impl SiteRequest {
    /// A request with the fields of a client's that go on.
    pub(crate) fn new(method: Method, url: AskedUrl, from: &HeaderMap) -> SiteRequest {
        let mut fields = HeaderMap::with_capacity(from.len());
        let listed = listed(from);
        for (name, value) in from {
            let is_ours = NOT_SENT.contains(name) || NOT_SENT_EITHER.contains(&name.as_str());
            if !is_ours && !listed.iter().any(|listed| listed == name.as_str()) {
                fields.append(name.clone(), value.clone());
            }
        }
        accept(&mut fields);
        SiteRequest {
            method,
            url,
            fields,
            body: Bytes::new(),
            is_begun: false,
            is_socket: false,
            way: SiteWay::Proxy,
            service: None,
        }
    }

    /// What it is asked of.
    fn resource(&self) -> Resource {
        match &self.service {
            Some(service) => Resource::server(service.name.clone()),
            None => Resource::Site(self.url.site.clone()),
        }
    }

    /// A body sends something, whatever the method says, and so does a WebSocket.
    fn action(&self) -> &'static Action {
        match self.body.is_empty() && !self.is_socket {
            true => of_method(self.method.as_str()),
            false => &SEND,
        }
    }

    /// As what it is counted: a WebSocket is one wherever it was asked for.
    fn counted_as(&self) -> SiteWay {
        match self.is_socket {
            true => SiteWay::Socket,
            false => self.way,
        }
    }

    /// How the record and policies name what is done.
    fn method_name(&self) -> &str {
        match self.is_socket {
            true => socket::METHOD,
            false => self.method.as_str(),
        }
    }

    /// The body out of its coding.
    fn decoded(&self, bytes_max: usize) -> Result<Vec<u8>, CodingFault> {
        let coding = Coding::of(&self.fields)?;
        match (self.is_begun, coding) {
            // It is judged as it flows.
            (true, Coding::Identity) => Ok(Vec::new()),
            (true, _) => Err(CodingFault::TooLarge),
            (false, _) => decode::whole(coding, &self.body, bytes_max as u64 * UNPACKED_PER_BYTE),
        }
    }

    fn is_json(&self) -> bool {
        let kind = self.fields.get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json")
            || kind.to_ascii_lowercase().ends_with("+json")
    }
}

/// Names that the Connection fields of a head list (RFC 9110 §7.6.1).
fn listed(fields: &HeaderMap) -> Vec<String> {
    let values = fields.get_all(CONNECTION).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    let names = values.flat_map(|value| value.split(','));
    names.map(|name| name.trim().to_ascii_lowercase()).collect()
}

/// Asks for no coding that cannot be undone as it comes.
fn accept(fields: &mut HeaderMap) {
    let values = fields.get_all(ACCEPT_ENCODING).iter();
    let values: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
    if values.is_empty() {
        return;
    }
    let known = values
        .iter()
        .flat_map(|value| value.split(','))
        .filter(|item| {
            let name = item.split(';').next().unwrap_or_default().trim();
            CODINGS
                .iter()
                .any(|coding| coding.eq_ignore_ascii_case(name))
                && name != "*"
        });
    let known: Vec<&str> = known.map(str::trim).collect();
    let value = match known.is_empty() {
        true => HeaderValue::from_static("identity"),
        false => HeaderValue::try_from(known.join(", "))
            .unwrap_or_else(|_| HeaderValue::from_static("identity")),
    };
    fields.insert(ACCEPT_ENCODING, value);
}

impl WebLane {
    /// Has a request judged, and makes it ready to be sent.
    ///
    /// # Errors
    /// The refusal, which is recorded.
    pub(crate) async fn judge(
        &self,
        caller: &Caller,
        id: CallId,
        first: Option<CallId>,
        asked: &SiteRequest,
    ) -> Result<Judged, Refusal> {
        let resource = asked.resource();
        let call = Call {
            request: caller.request.as_deref(),
            trace: caller.trace.as_deref(),
            run: caller.run.as_deref(),
            bytes: asked.body.len() as u64,
            first,
            observes: self.observes(),
            ..Call::new(
                id,
                caller.peer,
                asked.action(),
                &resource,
                asked.method_name(),
            )
        };
        let way = asked.counted_as();
        let (place, decoded) = match self.prepare(caller, asked) {
            Ok(prepared) => prepared,
            Err(refusal) => {
                self.settings().meter.judged(way, SiteDecision::Refused);
                return Err(self.no(caller, &call, refusal).await);
            }
        };
        let read = ReadBody::of(asked, &decoded);
        let credentials = &self.settings().credentials;
        let fields = asked.fields.iter();
        let fields = fields.map(|(name, value)| credentials::judged_as(credentials, name, value));
        let fields: Vec<_> = fields.collect();
        let together = fields::together(&asked.fields, &fields);
        let together = Json::read(together.as_bytes()).map_err(|_| unreadable())?;
        let content = parts(asked, &fields, read.content(), together.root());
        let call = Call {
            content: &content,
            ..call
        };
        let passed = self.gate().pass(caller.verified.clone(), call).await;
        self.count(way, &passed);
        let passed = passed?;
        if matches!(read, ReadBody::Binary(_)) && passed.redacted(asked.fields.len()).is_some() {
            let refusal = binary::in_binary();
            end(passed, CallEnd::Refused, 0, 0, Some(&refusal));
            return Err(refusal);
        }
        if fields::are_refused(&passed, asked.fields.len(), content.len() - 1) {
            let public =
                "a secret stands in the names of fields, or goes from one field on in the next";
            let refusal = Refusal::new(refusal::SECRET, public);
            end(passed, CallEnd::Refused, 0, 0, Some(&refusal));
            return Err(refusal);
        }
        if asked.service.is_some() && passed.redacted(asked.fields.len() + 1).is_some() {
            // Another path would be another call.
            let public = "a secret stands in the path or in the query";
            let refusal = Refusal::new(refusal::SECRET, public);
            end(passed, CallEnd::Refused, 0, 0, Some(&refusal));
            return Err(refusal);
        }
        let (mut fields, body) = redacted(&passed, asked, &content);
        // What would have been refused gets no credential.
        let scrub = match passed.is_objected() {
            true => Scrub::default(),
            false => {
                let url = &asked.url;
                let mut scrub = credentials::put_in(credentials, caller.agent(), url, &mut fields);
                if let Some(service) = &asked.service {
                    service.authorize(&mut fields, &mut scrub);
                }
                scrub
            }
        };
        Ok(Judged {
            passed,
            place,
            fields,
            body,
            scrub,
        })
    }

    /// Counts what was decided of a call.
    pub(crate) fn count(&self, way: SiteWay, passed: &Result<Passed, Refusal>) {
        let decision = match passed {
            Ok(passed) if passed.is_objected() => SiteDecision::Observed,
            Ok(_) => SiteDecision::Passed,
            Err(_) => SiteDecision::Refused,
        };
        self.settings().meter.judged(way, decision);
    }

    /// What is found before the gate is asked.
    fn prepare(
        &self,
        caller: &Caller,
        asked: &SiteRequest,
    ) -> Result<(AgentPlace, Vec<u8>), Refusal> {
        let settings = self.settings();
        let decoded = asked.decoded(settings.body_bytes_max).map_err(|fault| {
            Refusal::new(
                refusal::WEB_BODY_CODING,
                format!("the body cannot be read: {fault}"),
            )
        })?;
        let texts = [
            asked.url.text.as_bytes(),
            asked.url.url.as_str().as_bytes(),
            &decoded,
        ];
        let agent = caller.agent();
        credentials::check(
            &settings.credentials,
            agent,
            &asked.url,
            &asked.fields,
            &texts,
        )?;
        let host = &asked.url.site.host;
        let (agents, now_ms) = (&self.shared.agents, (settings.now_ms)());
        let place = agents.enter(agent, host, asked.counted_as(), now_ms)?;
        place.sent(asked.body.len() as u64)?;
        Ok((place, decoded))
    }

    /// Sends a request whose body is here, and waits for the head of its answer.
    pub(crate) async fn send(
        &self,
        judged: &Judged,
        method: &Method,
        url: &AskedUrl,
    ) -> Result<UpstreamAnswer, Refusal> {
        let mut request = http::Request::new(judged.body.clone());
        *request.method_mut() = method.clone();
        *request.headers_mut() = judged.fields.clone();
        let (passed, answer_ms) = (&judged.passed, self.settings().answer_ms);
        let sent = self
            .upstreams
            .send_to(passed, &url.path, request, answer_ms);
        sent.await.map_err(of_send)
    }

    /// Sends a request whose body is larger than what is judged whole: each piece is judged before it leaves. The
    /// request never looks whole to the site where it was cut.
    pub(crate) async fn send_flowing(
        &self,
        judged: &mut Judged,
        asked: &SiteRequest,
        request: &mut Request,
    ) -> Result<UpstreamAnswer, Refusal> {
        let answer_ms = self.settings().answer_ms;
        let length = content_length(&request.head.headers);
        let lease = self.upstreams.dial(&judged.passed, answer_ms).await;
        let mut lease = lease.map_err(of_send)?;
        let framing = length.map_or(Framing::Chunked, Framing::Length);
        let host = lease.host().to_vec();
        let fields = judged.fields.iter();
        let fields = fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
        let (method, path) = (asked.method.as_str(), asked.url.path.as_str());
        let began = lease.request(method.as_bytes(), path.as_bytes(), &host, fields, framing);
        began.map_err(broken)?;
        let mut upload = Upload::new(self);
        let mut piece = Some(asked.body.clone());
        while let Some(bytes) = piece {
            judged.passed.in_force()?;
            upload.push(self, judged, &asked.url, &bytes)?;
            lease.body(&upload.out).await.map_err(broken)?;
            upload.out.clear();
            if lease.send().await.map_err(broken)? == SendOutcome::Early {
                // The site has answered; what it did not take is nobody's.
                let answer =
                    tokio::time::timeout(Duration::from_millis(answer_ms), lease.into_answer());
                return answer
                    .await
                    .unwrap_or(Err(SendError::Slow))
                    .map_err(of_send);
            }
            piece = request.chunk().await?;
            let came = piece.as_ref().map_or(0, Bytes::len);
            judged.place.sent(came as u64)?;
        }
        upload.finish(judged)?;
        lease.body(&upload.out).await.map_err(broken)?;
        lease.end().map_err(broken)?;
        lease.flush().await.map_err(broken)?;
        let answer = tokio::time::timeout(Duration::from_millis(answer_ms), lease.into_answer());
        answer
            .await
            .unwrap_or(Err(SendError::Slow))
            .map_err(of_send)
    }
}

/// A body on its way out.
struct Upload {
    channel: Channel,
    /// What may be sent now.
    out: Vec<u8>,
    /// The end of what came, in which a placeholder may begin.
    tail: Vec<u8>,
    tail_max: usize,
    /// The end of what is binary: a text in it may go on.
    run: Vec<u8>,
    /// The end of the text before what is binary.
    before: Vec<u8>,
}

impl Upload {
    fn new(lane: &WebLane) -> Upload {
        let credentials = lane.settings().credentials.iter();
        let longest = credentials.map(|of| of.placeholder.len()).max();
        Upload {
            channel: Channel::new(Role::Body, "body"),
            out: Vec::new(),
            tail: Vec::new(),
            tail_max: longest.unwrap_or_default(),
            run: Vec::new(),
            before: Vec::new(),
        }
    }

    fn push(
        &mut self,
        lane: &WebLane,
        judged: &mut Judged,
        url: &AskedUrl,
        bytes: &[u8],
    ) -> Result<(), Refusal> {
        self.check(lane, judged, url, bytes)?;
        match binary::is_binary(bytes) {
            true => self.push_binary(judged, bytes),
            false => {
                let text = [&std::mem::take(&mut self.run), bytes].concat();
                self.before = text[text.len().saturating_sub(BEFORE_BYTES)..].to_vec();
                self.channel.push(&mut judged.passed, &text, &mut self.out)
            }
        }
    }

    /// Takes a piece that is no text: the texts in it are judged before any of it is sent.
    fn push_binary(&mut self, judged: &mut Judged, bytes: &[u8]) -> Result<(), Refusal> {
        let passed = &mut judged.passed;
        self.channel.finish(passed, &mut self.out)?;
        self.channel = Channel::new(Role::Body, "body");
        let mut piece = std::mem::take(&mut self.run);
        piece.extend_from_slice(bytes);
        self.run = piece.split_off(binary::last_run(&piece));
        // A secret may begin in the text before, which is sent already; what is sent is not whole then.
        let mut said = std::mem::take(&mut self.before);
        said.extend_from_slice(&piece);
        binary::judge(passed, Role::Body, &said)?;
        self.out.extend_from_slice(&piece);
        Ok(())
    }

    /// Refuses placeholders, also over two pieces.
    fn check(
        &mut self,
        lane: &WebLane,
        judged: &Judged,
        url: &AskedUrl,
        text: &[u8],
    ) -> Result<(), Refusal> {
        if self.tail_max == 0 {
            return Ok(());
        }
        self.tail.extend_from_slice(text);
        let (credentials, agent) = (&lane.settings().credentials, judged.passed.agent());
        credentials::check(credentials, agent, url, &HeaderMap::new(), &[&self.tail])?;
        let before = self.tail.len().saturating_sub(self.tail_max);
        self.tail.drain(..before);
        Ok(())
    }

    fn finish(&mut self, judged: &mut Judged) -> Result<(), Refusal> {
        let (run, passed) = (std::mem::take(&mut self.run), &mut judged.passed);
        self.channel.push(passed, &run, &mut self.out)?;
        self.channel.finish(passed, &mut self.out)
    }
}

/// Reads as much of a request's body as is judged whole.
pub(crate) async fn read_body(
    lane: &WebLane,
    request: &mut Request,
    asked: &mut SiteRequest,
) -> Result<(), Refusal> {
    let fits = lane.settings().body_bytes_max as u64;
    request.bound_body(usize::MAX);
    if content_length(&request.head.headers).is_some_and(|length| length > fits) {
        (asked.body, asked.is_begun) = (request.chunk().await?.unwrap_or_default(), true);
        return Ok(());
    }
    (asked.body, asked.is_begun) = begin(request, fits).await?;
    Ok(())
}

/// The body, and whether it is only the beginning of one that does not fit.
async fn begin(request: &mut Request, fits: u64) -> Result<(Bytes, bool), Refusal> {
    let Some(first) = request.chunk().await? else {
        return Ok((Bytes::new(), false));
    };
    let mut body = BytesMut::from(&*first);
    while body.len() as u64 <= fits {
        match request.chunk().await? {
            Some(piece) => body.extend_from_slice(&piece),
            None => return Ok((body.freeze(), false)),
        }
    }
    Ok((body.freeze(), true))
}

/// All that a request says.
fn parts<'a>(
    asked: &'a SiteRequest,
    fields: &'a [Cow<'a, [u8]>],
    body: PartContent<'a>,
    together: JsonValue<'a>,
) -> Vec<ContentPart<'a>> {
    let mut content = Vec::with_capacity(asked.fields.len() + 4);
    let url = |url| ContentPart {
        role: Role::Argument,
        path: "url",
        content: PartContent::Url(url),
    };
    // Each value, also where a name stands there twice.
    let fields = asked.fields.iter().map(|(name, _)| name).zip(fields);
    let fields = fields.map(|(name, value)| ContentPart {
        role: Role::Header,
        path: name.as_str(),
        content: PartContent::Text(value),
    });
    content.extend(fields);
    content.push(ContentPart {
        role: Role::Body,
        path: "body",
        content: body,
    });
    match asked.service {
        // The place is the operator's; what the agent says of it is the path.
        Some(_) => content.push(ContentPart {
            role: Role::Argument,
            path: "url",
            content: PartContent::Text(asked.url.path.as_str().as_bytes()),
        }),
        None => {
            content.push(url(&asked.url.text));
            content.extend(asked.url.other().map(url));
        }
    }
    content.push(ContentPart {
        role: Role::Header,
        path: "fields",
        content: PartContent::Json(together),
    });
    content
}

/// What was written here cannot be read here.
fn unreadable() -> Refusal {
    Refusal::new(refusal::FAILED, "the fields cannot be judged")
}

/// Fields and body as they are to be sent: what the scan redacted is replaced.
fn redacted(
    passed: &Passed,
    asked: &SiteRequest,
    content: &[ContentPart<'_>],
) -> (HeaderMap, Bytes) {
    let mut fields = HeaderMap::with_capacity(asked.fields.len() + 1);
    for (number, (name, value)) in asked.fields.iter().enumerate() {
        let value = match passed.redacted(number) {
            None => value.clone(),
            Some(redacted) => HeaderValue::from_bytes(redacted)
                .unwrap_or_else(|_| HeaderValue::from_static("[redacted]")),
        };
        fields.append(name.clone(), value);
    }
    let number = asked.fields.len();
    debug_assert!(
        content
            .get(number)
            .is_some_and(|part| part.role == Role::Body)
    );
    match passed.redacted(number) {
        None => (fields, asked.body.clone()),
        Some(body) => {
            fields.remove(CONTENT_ENCODING);
            (fields, Bytes::copy_from_slice(body))
        }
    }
}

/// The length that a head announces; nothing where the body comes in chunks.
pub(crate) fn content_length(fields: &HeaderMap) -> Option<u64> {
    if fields.contains_key(TRANSFER_ENCODING) {
        return None;
    }
    fields
        .get(CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// What an exchange with a site that failed is refused with.
pub(crate) fn of_send(error: SendError) -> Refusal {
    match error {
        SendError::Refused(refusal) => refusal,
        SendError::Slow => Refusal::new(refusal::WEB_SLOW, "the site did not answer in time"),
        SendError::TooLarge => Refusal::new(
            refusal::WEB_TOO_LARGE,
            "the answer is larger than it may be",
        ),
        SendError::Unreachable(why) => {
            let public = match why.contains("TLS: ") {
                true => "TLS with the site failed: its certificate is not good for its name",
                false => "the site cannot be reached",
            };
            Refusal::new(refusal::WEB_DOWN, public).with_private(why)
        }
        SendError::Broken(why) => {
            Refusal::new(refusal::WEB_DOWN, "the site broke off").with_private(why)
        }
    }
}

fn broken(error: net::h1::Error) -> Refusal {
    of_send(error.into())
}

pub(crate) fn coding_fault(fault: CodingFault, what: &str) -> Refusal {
    let code = match what {
        "body" => refusal::WEB_BODY_CODING,
        _ => refusal::WEB_CODING,
    };
    Refusal::new(code, format!("the {what} cannot be read: {fault}"))
}

/// Records how a call ended.
pub(crate) fn end(passed: Passed, how: CallEnd, status: u16, bytes: u64, why: Option<&Refusal>) {
    let how = match why {
        Some(refusal) if refusal.code.is_of_scan => CallEnd::Refused,
        _ => how,
    };
    passed.end(CallEnding {
        status,
        bytes,
        why: why.map(|refusal| (refusal.code.name, refusal.private.as_str())),
        ..CallEnding::of(how)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_connection_stay_behind() {
        let mut from = HeaderMap::new();
        for (name, value) in [
            ("connection", "x-mine, close"),
            ("x-mine", "1"),
            ("proxy-authorization", "Bearer weir_x"),
            ("proxy-connection", "keep-alive"),
            ("host", "other.example"),
            ("accept", "*/*"),
            ("accept-encoding", "zstd, gzip;q=0.5, br, *"),
            ("upgrade", "h2c"),
        ] {
            from.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        let url = AskedUrl::read("http://a.example/").unwrap();
        let asked = SiteRequest::new(Method::GET, url, &from);
        let names: Vec<&str> = asked.fields.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["accept", "accept-encoding"]);
        assert_eq!(asked.fields["accept-encoding"], "gzip;q=0.5, br");
    }
}
