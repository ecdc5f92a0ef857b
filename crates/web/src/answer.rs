//! What a site answers, on its way to the agent: judged whole where it is short, and otherwise as it flows.
//!
//! A short answer goes back as the bytes that came, in the coding that they came in, if nothing was found in it. One that
//! flows is taken out of its coding, so that what is found can be replaced; one that is cut never looks whole to the
//! agent. Bytes that are no text pass without being read, unless the site says that they are one.

use std::time::Duration;

use base::record::CallEnd;
use base::{CallId, Json, Refusal, refusal};
use bytes::Bytes;
use encoding_rs::{Encoding, UTF_8};
use gate::{Answer, Channel, Passed, Role};
use http::header::{
    CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, PROXY_AUTHENTICATE, UPGRADE,
};
use http::{Method, StatusCode};
use net::{Body, BodySender, Response, UpstreamAnswer, sse};
use tokio::task::spawn_local;

use crate::binary::is_binary;
use crate::bounds::AgentPlace;
use crate::credentials::Scrub;
use crate::decode::{self, Coding, Decoder};
use crate::exchange::{Judged, coding_fault, end, of_send};
use crate::fetch;
use crate::html;
use crate::lane::WebLane;
use crate::refuse;

/// Largest answer that is judged whole, in bytes as it comes.
const WHOLE_BYTES_MAX: u64 = 256 << 10;
/// What such an answer may unpack to, in bytes.
const UNPACKED_BYTES_MAX: u64 = 8 << 20;
/// Largest event of a stream of events, in bytes.
const EVENT_BYTES_MAX: usize = 1 << 20;
/// Pieces of an answer that wait for the client.
const PIECES_WAITING_MAX: usize = 8;
/// How often a call that waits looks whether it is still in force, in milliseconds.
const LOOK_MS: u64 = 1_000;

/// Gives an answer back.
pub(crate) async fn back(
    lane: &WebLane,
    judged: Judged,
    answer: UpstreamAnswer,
    method: &Method,
    id: CallId,
) -> Response {
    let status = answer.head.status.as_u16();
    let coding = match Coding::of(&answer.head.headers) {
        Ok(coding) => coding,
        Err(fault) => return failed(judged, coding_fault(fault, "answer"), status, id),
    };
    let has_body = *method != Method::HEAD && !matches!(status, 204 | 304);
    if !has_body || answer.is_done() {
        return bodiless(judged, answer, has_body);
    }
    let is_short = answer
        .length()
        .is_some_and(|length| length <= WHOLE_BYTES_MAX);
    match is_short || coding == Coding::Zstd {
        true => whole(lane, judged, answer, coding, id).await,
        false => flowing(lane, judged, answer, coding),
    }
}

/// An answer of which there is only a head.
fn bodiless(mut judged: Judged, mut answer: UpstreamAnswer, has_body: bool) -> Response {
    answer.reuse();
    let mut response = respond(&answer.head, &mut judged.scrub);
    if !has_body && let Some(length) = answer.announced() {
        let (_, body) = Body::stream_of(1, Some(length));
        *response.body_mut() = body;
    }
    end(
        judged.passed,
        CallEnd::Complete,
        answer.head.status.as_u16(),
        0,
        None,
    );
    response
}

async fn whole(
    lane: &WebLane,
    mut judged: Judged,
    mut answer: UpstreamAnswer,
    coding: Coding,
    id: CallId,
) -> Response {
    let (status, silence_ms) = (answer.head.status.as_u16(), lane.settings().silence_ms);
    let bytes_max = UNPACKED_BYTES_MAX as usize;
    let read = answer.whole(bytes_max, silence_ms).await.map_err(of_send);
    let read = read.and_then(|bytes| judged.passed.in_force().map(|()| bytes));
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(refusal) => return failed(judged, refusal, status, id),
    };
    answer.reuse();
    let spent = judged.place.came(bytes.len() as u64);
    let decoded = decode::whole(coding, &bytes, UNPACKED_BYTES_MAX);
    let decoded = decoded.map_err(|fault| coding_fault(fault, "answer"));
    let found = spent.and(decoded).and_then(|decoded| {
        let kept = judge_text(&mut judged.passed, &answer.head.headers, &decoded)?;
        let mut told = judged.scrub.push(&kept);
        told.extend(judged.scrub.finish());
        Ok((told != decoded).then_some(told))
    });
    let replaced = match found {
        Ok(replaced) => replaced,
        Err(refusal) => return failed(judged, refusal, status, id),
    };
    let mut response = respond(&answer.head, &mut judged.scrub);
    let body = match replaced {
        None => bytes,
        Some(told) => {
            changed(response.headers_mut());
            told.into()
        }
    };
    end(
        judged.passed,
        CallEnd::Complete,
        status,
        body.len() as u64,
        None,
    );
    *response.body_mut() = Body::Full(body);
    response
}

/// Scans all of a text, and gives what may go on of it.
///
/// # Errors
/// The refusal of a finding.
pub(crate) fn judge_text(
    passed: &mut Passed,
    fields: &HeaderMap,
    text: &[u8],
) -> Result<Vec<u8>, Refusal> {
    let kind = kind(fields);
    if kind.contains("json")
        && let Ok(json) = Json::read(text)
    {
        return Ok(match passed.answer(json.root(), "answer")? {
            Answer::AsItCame => text.to_vec(),
            Answer::Redacted(redacted) => redacted,
        });
    }
    if kind.contains("html") {
        // What is split over elements, or written in character references, stands together here.
        let page = html::read(&fetch::text(fields, text));
        let (mut channel, mut unused) = (Channel::new(Role::ToolResult, "page"), Vec::new());
        channel.push(passed, page.all.as_bytes(), &mut unused)?;
        channel.finish(passed, &mut unused)?;
    }
    let (mut read, mut out) = (AnswerText::new(fields), Vec::with_capacity(text.len()));
    read.push(passed, text, &mut out)?;
    read.finish(passed, &mut out)?;
    Ok(out)
}

/// The media type of a message, in lower case.
pub(crate) fn kind(fields: &HeaderMap) -> String {
    let kind = fields.get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

/// Whether a media type is one of texts; what says nothing of itself may be one.
pub(crate) fn is_text(kind: &str) -> bool {
    const TEXTS: &[&str] = &[
        "json",
        "xml",
        "html",
        "javascript",
        "ecmascript",
        "x-www-form-urlencoded",
        "yaml",
        "event-stream",
    ];
    kind.is_empty() || kind.starts_with("text/") || TEXTS.iter().any(|text| kind.contains(text))
}

/// A text of an answer, as far as it came.
struct AnswerText {
    channel: Channel,
    /// The site says that it is text, so that all of it is read.
    is_text: bool,
    is_begun: bool,
    events: Option<SiteEvents>,
    charset: Option<Charset>,
}

impl AnswerText {
    fn new(fields: &HeaderMap) -> AnswerText {
        let kind = kind(fields);
        let events = (kind == "text/event-stream").then(|| SiteEvents {
            reader: sse::Reader::new(EVENT_BYTES_MAX),
            reading: SecondReading::new("events"),
        });
        let charset = fields.get(CONTENT_TYPE);
        let charset = charset.and_then(|kind| fetch::label(kind.as_bytes()));
        AnswerText {
            channel: Channel::new(Role::ToolResult, "answer"),
            is_text: is_text(&kind),
            is_begun: false,
            events,
            charset: charset.filter(|said| *said != UTF_8).map(Charset::new),
        }
    }

    fn push(
        &mut self,
        passed: &mut Passed,
        piece: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        if !self.is_text && is_binary(piece) {
            self.channel.finish(passed, out)?;
            self.channel = Channel::new(Role::ToolResult, "answer");
            out.extend_from_slice(piece);
            return Ok(());
        }
        let from = out.len();
        self.channel.push(passed, piece, out)?;
        self.read_again(passed, &out[from..], false)
    }

    fn finish(&mut self, passed: &mut Passed, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let from = out.len();
        self.channel.finish(passed, out)?;
        self.read_again(passed, &out[from..], true)
    }

    /// Reads what is about to go on as its reader will.
    fn read_again(
        &mut self,
        passed: &mut Passed,
        text: &[u8],
        is_end: bool,
    ) -> Result<(), Refusal> {
        if let (false, Some(first)) = (self.is_begun, text.first()) {
            self.is_begun = true;
            // No UTF-8 begins so, but the byte order marks of UTF-16 do.
            if self.is_text && self.charset.is_none() && *first >= 0xfe {
                self.charset = Some(Charset::new(UTF_8));
            }
        }
        if let Some(events) = &mut self.events {
            events.push(passed, text, is_end)?;
        }
        match &mut self.charset {
            Some(charset) => charset.push(passed, text, is_end),
            None => Ok(()),
        }
    }
}

/// A text that is judged beside the one that goes on, which says the same in another form. What would be replaced in it
/// cannot be found in the other, so that the answer is cut there.
struct SecondReading {
    channel: Channel,
    /// What came and was not let go yet.
    waiting: Vec<u8>,
}

impl SecondReading {
    fn new(path: &str) -> SecondReading {
        SecondReading {
            channel: Channel::new(Role::ToolResult, path),
            waiting: Vec::new(),
        }
    }

    fn push(&mut self, passed: &mut Passed, text: &[u8], is_end: bool) -> Result<(), Refusal> {
        self.waiting.extend_from_slice(text);
        let mut told = Vec::new();
        self.channel.push(passed, text, &mut told)?;
        if is_end {
            self.channel.finish(passed, &mut told)?;
        }
        let is_same = self.waiting.starts_with(&told);
        if !is_same || (is_end && self.waiting.len() > told.len()) {
            let public = "a secret stands in the answer in a form in which it cannot be replaced";
            return Err(Refusal::new(refusal::SECRET, public));
        }
        self.waiting.drain(..told.len());
        Ok(())
    }
}

/// What the events of a stream say, one after the other: a secret that is split over two of them stands together here.
struct SiteEvents {
    reader: sse::Reader,
    reading: SecondReading,
}

impl SiteEvents {
    fn push(&mut self, passed: &mut Passed, text: &[u8], is_end: bool) -> Result<(), Refusal> {
        let mut said = Vec::new();
        let read = self
            .reader
            .push(text, |event| said.extend(event.data.unwrap_or_default()));
        read.map_err(|_| {
            Refusal::new(
                refusal::WEB_TOO_LARGE,
                "an event of the answer is too large",
            )
        })?;
        self.reading.push(passed, &said, is_end)
    }
}

/// What a text says that is not in UTF-8.
struct Charset {
    decoder: encoding_rs::Decoder,
    reading: SecondReading,
}

impl Charset {
    /// A byte order mark is stronger than what is said.
    fn new(said: &'static Encoding) -> Charset {
        Charset {
            decoder: said.new_decoder(),
            reading: SecondReading::new("decoded"),
        }
    }

    fn push(&mut self, passed: &mut Passed, text: &[u8], is_end: bool) -> Result<(), Refusal> {
        let room = self.decoder.max_utf8_buffer_length(text.len());
        let mut said = String::with_capacity(room.unwrap_or_default());
        let (result, taken, _) = self.decoder.decode_to_string(text, &mut said, is_end);
        // With the room that the decoder asks for it takes all.
        if result != encoding_rs::CoderResult::InputEmpty || taken < text.len() {
            return Err(Refusal::new(
                refusal::FAILED,
                "the answer's text cannot be read",
            ));
        }
        self.reading.push(passed, said.as_bytes(), is_end)
    }
}

/// The head of an answer, without credentials that it gives back and without what is for the connection.
fn respond(head: &http::response::Parts, scrub: &mut Scrub) -> Response {
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = head.status;
    let fields = response.headers_mut();
    for (name, value) in &head.headers {
        if *name != PROXY_AUTHENTICATE && *name != UPGRADE {
            fields.append(name.clone(), scrub.field(value));
        }
    }
    // A site's 407 would have the client send the site its key for us.
    if head.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
        *response.status_mut() = StatusCode::BAD_GATEWAY;
    }
    response
}

/// What is said of a body that is not the one that came (RFC 9110 §7.7).
fn changed(fields: &mut HeaderMap) {
    fields.remove(CONTENT_ENCODING);
    let tag = fields.get(ETAG).and_then(|tag| tag.to_str().ok());
    let weak = tag.filter(|tag| !tag.starts_with("W/"));
    let weak = weak.and_then(|tag| HeaderValue::try_from(format!("W/{tag}")).ok());
    if let Some(weak) = weak {
        fields.insert(ETAG, weak);
    }
    for name in [
        "content-md5",
        "digest",
        "content-digest",
        "repr-digest",
        "accept-ranges",
    ] {
        fields.remove(name);
    }
}

/// An answer that is not given back.
fn failed(judged: Judged, refusal: Refusal, status: u16, id: CallId) -> Response {
    let refusal = refusal.of_answer();
    end(judged.passed, CallEnd::Failed, status, 0, Some(&refusal));
    refuse::by_proxy(&refusal, id)
}

/// An answer that is given back as it comes.
fn flowing(lane: &WebLane, mut judged: Judged, answer: UpstreamAnswer, coding: Coding) -> Response {
    let mut response = respond(&answer.head, &mut judged.scrub);
    let kind = kind(&answer.head.headers);
    // What may be replaced has no length that could be said before.
    let is_fixed = coding == Coding::Identity && !is_text(&kind) && judged.scrub.is_idle();
    let length = answer.length().filter(|_| is_fixed);
    if coding != Coding::Identity {
        changed(response.headers_mut());
    }
    let (sender, body) = Body::stream_of(PIECES_WAITING_MAX, length);
    *response.body_mut() = body;
    let flow = AnswerFlow {
        decoder: Decoder::new(coding, u64::MAX),
        text: AnswerText::new(&answer.head.headers),
        scrub: judged.scrub,
        silence: Duration::from_millis(lane.settings().silence_ms),
        passed: judged.passed,
        place: judged.place,
        answer,
        bytes: 0,
    };
    spawn_local(flow.run(sender, lane.gate().stops()));
    response
}

type Stops = tokio::sync::watch::Receiver<std::sync::Arc<gate::Stops>>;

struct AnswerFlow {
    decoder: Decoder,
    text: AnswerText,
    scrub: Scrub,
    silence: Duration,
    passed: Passed,
    place: AgentPlace,
    answer: UpstreamAnswer,
    /// Bytes that were given to the client.
    bytes: u64,
}

impl AnswerFlow {
    async fn run(mut self, sender: BodySender, mut stops: Stops) {
        let flowed = self.flow(&sender, &mut stops).await;
        let status = self.answer.head.status.as_u16();
        match flowed {
            Ok(true) => {
                self.answer.reuse();
                end(self.passed, CallEnd::Complete, status, self.bytes, None);
            }
            // The client is gone.
            Ok(false) => end(self.passed, CallEnd::Cut, status, self.bytes, None),
            Err(refusal) => {
                tracing::debug!(code = refusal.code.name, "an answer was cut");
                sender.abort();
                end(
                    self.passed,
                    CallEnd::Cut,
                    status,
                    self.bytes,
                    Some(&refusal),
                );
            }
        }
    }

    /// Whether all of it reached the client.
    async fn flow(&mut self, sender: &BodySender, stops: &mut Stops) -> Result<bool, Refusal> {
        loop {
            let Some(piece) = self.next(sender, stops).await? else {
                return Ok(false);
            };
            let is_end = piece.is_empty();
            self.place.came(piece.len() as u64)?;
            let out = self.take(&piece)?;
            self.passed.in_force()?;
            self.bytes += out.len() as u64;
            if !out.is_empty() && sender.send(out.into()).await.is_err() {
                return Ok(false);
            }
            if is_end {
                return Ok(true);
            }
        }
    }

    /// The next piece; empty at the end, and nothing once the client is gone.
    async fn next(
        &mut self,
        sender: &BodySender,
        stops: &mut Stops,
    ) -> Result<Option<Bytes>, Refusal> {
        let slow = || {
            Refusal::new(
                refusal::WEB_SLOW,
                "the site is silent in the middle of its answer",
            )
        };
        tokio::select! {
            biased;
            refusal = ended(&self.passed, stops) => Err(refusal),
            () = sender.closed() => Ok(None),
            piece = tokio::time::timeout(self.silence, self.answer.chunk()) => {
                let piece = piece.map_err(|_| slow())?.map_err(of_send)?;
                Ok(Some(piece.unwrap_or_default()))
            }
        }
    }

    /// What may go on of a piece, or of the end.
    fn take(&mut self, piece: &[u8]) -> Result<Vec<u8>, Refusal> {
        let fault = |fault| coding_fault(fault, "answer");
        let (mut decoded, mut kept) = (Vec::new(), Vec::new());
        match piece.is_empty() {
            false => self.decoder.push(piece, &mut decoded).map_err(fault)?,
            true => self.decoder.finish(&mut decoded).map_err(fault)?,
        }
        if !decoded.is_empty() {
            self.text.push(&mut self.passed, &decoded, &mut kept)?;
        }
        if piece.is_empty() {
            self.text.finish(&mut self.passed, &mut kept)?;
        }
        let mut told = self.scrub.push(&kept);
        if piece.is_empty() {
            told.extend(self.scrub.finish());
        }
        Ok(told)
    }
}

/// Waits until the call is not in force any more.
pub(crate) async fn ended(passed: &Passed, stops: &mut Stops) -> Refusal {
    loop {
        if let Err(refusal) = passed.in_force() {
            return refusal;
        }
        let look = Duration::from_millis(LOOK_MS);
        // A gate that is gone changes nothing any more.
        if let Ok(Err(_)) = tokio::time::timeout(look, stops.changed()).await {
            tokio::time::sleep(look).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_known_by_their_media_type() {
        assert!(is_text("application/vnd.api+json") && is_text("") && !is_text("image/png"));
    }
}
