//! An answer that streams: events are held until what they say was scanned, and go on as the bytes that came.
//!
//! What grows over events (the content of a choice, its reasoning, the arguments of a call) is one text to the scan, so that
//! nothing passes because it was cut in two. An event waits until the scan lets go of the text up to its end: mostly one word. A
//! call of a tool waits until it is whole, and is judged as a call. Only an event in which something was redacted is written anew.
//!
//! Example: the deltas `my key is AK`, `IA…` with a rule for such keys: the first event waits for the second, and where the rule
//! redacts, the first goes on as `my key is [redacted:aws_key]`, the second with an empty text.

pub(crate) mod events;
pub(crate) mod frames;
mod texts;

use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

use base::record::{CallEnd, Usage};
use base::{Json, JsonValue, Permit as _, Refusal, Secret, refusal};
use bytes::Bytes;
use gate::{Answer, Passed};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use net::{Body, BodySender, Response, UpstreamAnswer};
use tokio::time::Instant;

use crate::answer::{Delta, TextKey, TextKind};
use crate::convert::stream::StreamConversion;
use crate::lane::LlmLane;
use crate::meter::TryWatch;
use crate::provider::gives_back;
use crate::route::Candidate;
use crate::stored::Keeping;
use crate::upstream::{
    BYTES_PER_TOKEN, Sending, end, gives_key_back, is_clear, of_send, pass_back,
};
use crate::wire::{Bills, Wire};
use crate::{refuse, usage};

use events::{Splitter, data_of, lines_beside};
use frames::FrameReader;
use texts::Texts;

/// Chunks that may wait for a slow client before the provider is made to wait.
const CHUNKS_WAITING_MAX: usize = 16;
/// Bytes of events that wait to be let go.
const HELD_BYTES_MAX: usize = 4 << 20;
/// How often a stream looks whether its call is in force, in milliseconds.
const LOOK_MS: u64 = 1_000;
/// After how long without an event the client is told that there is one to come, in milliseconds.
const KEEP_ALIVE_MS: u64 = 15_000;
/// Different lines beside the data that are remembered as clean: the names of a dialect's events.
const CLEAN_LINES_MAX: usize = 64;
/// Longest event beside its texts that is remembered as clean.
const CLEAN_BYTES_MAX: usize = 4 << 10;
/// What a stream may begin with, and no client reads (HTML standard, section 9.2.5).
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// Keeps nginx from collecting a stream.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Carries a stream to the client, on a task of its own.
pub(crate) fn carry(
    lane: &LlmLane,
    passed: Passed,
    (sending, candidate): (&Sending<'_>, &Candidate),
    (answer, frames): (UpstreamAnswer, Option<FrameReader>),
    (watch, keeping): (TryWatch, Option<Keeping>),
) -> Response {
    let (sender, body) = Body::stream(CHUNKS_WAITING_MAX);
    let mut response = Response::new(body);
    let fields = response.headers_mut();
    let provider = &lane.settings().providers[candidate.provider];
    pass_back(&answer.head.headers, provider, fields);
    fields.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream; charset=utf-8"),
    );
    fields.insert(BUFFERING, HeaderValue::from_static("no"));
    let settings = lane.settings();
    let mut secrets = provider.secrets();
    secrets.extend(lane.shared.states[candidate.provider].tokens.secrets());
    let carrying = Carrying {
        frames,
        splitter: Splitter::new(settings.answer_bytes_max),
        judge: EventJudge::new(passed, candidate.wire, (secrets, keeping)),
        client: sending.wire,
        conversion: candidate
            .conversion
            .map(|of| StreamConversion::new(of, sending.asked)),
        silence: Duration::from_millis(settings.silence_ms),
        whole: Duration::from_millis(settings.stream_ms),
        answer,
        sender,
        watch,
    };
    tokio::task::spawn_local(carrying.run());
    response
}

/// How a stream came to its end.
enum Ended {
    Whole,
    ClientGone,
    Refused(Refusal),
}

struct Carrying {
    /// The kind of request that the client made.
    client: &'static Wire,
    /// Into the client's dialect, where the provider's is another.
    conversion: Option<StreamConversion>,
    /// What events come in, where they do not come as they are.
    frames: Option<FrameReader>,
    splitter: Splitter,
    judge: EventJudge,
    silence: Duration,
    /// How long the answer may take in all.
    whole: Duration,
    answer: UpstreamAnswer,
    sender: BodySender,
    watch: TryWatch,
}

impl Carrying {
    async fn run(mut self) {
        let ended = self.carry().await;
        let Carrying {
            client,
            judge,
            sender,
            watch,
            ..
        } = self;
        let (bytes, usage) = (judge.bytes, judge.usage);
        let least = match judge.wire.bills {
            Bills::Nothing => 0,
            _ => judge.said_bytes / BYTES_PER_TOKEN,
        };
        let used = (usage, least);
        let error = match &ended {
            Ended::Whole => judge.is_error.then_some("provider"),
            Ended::ClientGone => Some("client_gone"),
            Ended::Refused(refusal) => Some(refusal.code.name),
        };
        watch.ended(usage, error);
        match ended {
            Ended::Whole => {
                let how = if judge.is_error {
                    CallEnd::Failed
                } else {
                    CallEnd::Complete
                };
                end(judge.passed, how, 200, bytes, used, None);
            }
            Ended::ClientGone => end(judge.passed, CallEnd::Cut, 200, bytes, used, None),
            Ended::Refused(refusal) => {
                let event = refuse::event(client, &refusal, judge.passed.call());
                // Nobody may be there to read it.
                let _ = sender.send(Bytes::from(event)).await;
                let how = match refusal.code.is_of_scan {
                    true => CallEnd::Refused,
                    false => CallEnd::Cut,
                };
                end(judge.passed, how, 200, bytes, used, Some(&refusal));
            }
        }
    }

    async fn carry(&mut self) -> Ended {
        let mut look = tokio::time::interval(Duration::from_millis(LOOK_MS));
        let begun = Instant::now();
        let (mut came, mut told) = (begun, begun);
        loop {
            let piece = tokio::select! {
                piece = self.answer.chunk() => piece,
                () = self.sender.closed() => return Ended::ClientGone,
                _ = look.tick() => {
                    if let Err(refusal) = self.judge.passed.in_force() {
                        return Ended::Refused(refusal);
                    }
                    if let Some(public) = self.is_late(begun, came) {
                        return Ended::Refused(Refusal::new(refusal::LLM_PROVIDER_SLOW, public));
                    }
                    if told.elapsed() > Duration::from_millis(KEEP_ALIVE_MS) {
                        told = Instant::now();
                        if self.sender.send(Bytes::from_static(b": keep-alive\n\n")).await.is_err() {
                            return Ended::ClientGone;
                        }
                    }
                    continue;
                }
            };
            self.watch.came();
            let (mut out, mut is_last) = (Vec::new(), false);
            let taken = match piece {
                Ok(Some(piece)) => {
                    let before = self.judge.said;
                    let taken = self.take(&piece, &mut out);
                    // Comments and empty events are no word of the model.
                    if self.judge.said > before {
                        came = Instant::now();
                    }
                    taken
                }
                Ok(None) => {
                    is_last = true;
                    self.last(&mut out)
                }
                Err(error) => Err(of_send(error)),
            };
            let taken = self.in_clients_words(&mut out, taken, is_last);
            if !out.is_empty() {
                told = Instant::now();
                if self.sender.send(Bytes::from(out)).await.is_err() {
                    return Ended::ClientGone;
                }
            }
            match taken {
                Err(refusal) => return Ended::Refused(refusal),
                Ok(()) if is_last => return Ended::Whole,
                Ok(()) => {}
            }
        }
    }

    /// Why the provider is given up, where it says nothing for too long, or never ends.
    fn is_late(&self, begun: Instant, came: Instant) -> Option<&'static str> {
        if came.elapsed() > self.silence {
            return Some("the provider sent nothing for longer than llm.silence_ms");
        }
        let is_over = begun.elapsed() > self.whole;
        is_over.then_some("the provider's answer took longer than llm.stream_ms")
    }

    /// What may go on, said in the client's dialect. A provider that has not said how its answer ends broke off.
    fn in_clients_words(
        &mut self,
        out: &mut Vec<u8>,
        taken: Result<(), Refusal>,
        is_last: bool,
    ) -> Result<(), Refusal> {
        let Some(conversion) = &mut self.conversion else {
            return taken;
        };
        let mut said = Vec::new();
        conversion.events(out, &mut said);
        if is_last && taken.is_ok() {
            conversion.end(&mut said);
        }
        *out = said;
        match taken {
            Ok(()) if is_last && !conversion.is_ended() => Err(Refusal::new(
                refusal::LLM_PROVIDER_FAILED,
                "the provider broke off",
            )),
            taken => taken,
        }
    }

    /// Takes what came; adds to `out` what may go on, also where it is refused.
    fn take(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        self.judge.bytes += piece.len() as u64;
        let Some(mut frames) = self.frames.take() else {
            return self.take_events(piece, out);
        };
        frames.push(piece);
        let taken = loop {
            match frames.next() {
                Ok(Some(event)) => {
                    if let Err(refusal) = self.take_events(&event, out) {
                        break Err(refusal);
                    }
                }
                Ok(None) => break Ok(()),
                Err(refusal) => break Err(refusal),
            }
        };
        self.frames = Some(frames);
        taken
    }

    /// The same of server-sent events.
    fn take_events(&mut self, piece: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let mut taken = self.splitter.push(piece);
        while let (Ok(()), Some(event)) = (&taken, self.splitter.next()) {
            taken = self.judge.take(event);
            self.judge.release(out);
        }
        taken
    }

    /// Takes what is left: the stream has ended.
    fn last(&mut self, out: &mut Vec<u8>) -> Result<(), Refusal> {
        if self.frames.as_ref().is_some_and(FrameReader::is_cut) {
            self.judge.release(out);
            let public = "the provider broke off";
            return Err(Refusal::new(refusal::LLM_PROVIDER_FAILED, public));
        }
        let rest = self.splitter.rest();
        let mut taken = rest.map_or(Ok(()), |rest| self.judge.take(rest));
        if taken.is_ok() {
            taken = self.judge.finish();
        }
        self.judge.release(out);
        taken
    }
}

/// One event that waits.
struct HeldEvent {
    /// As it came, its blank line included.
    raw: Vec<u8>,
    texts: Vec<HeldText>,
}

/// A text in an event that waits: which, from where to where in that text, and where it stands in the event.
type HeldText = (TextKey, Range<usize>, Range<usize>);

/// Judges the events of one stream.
struct EventJudge {
    passed: Passed,
    /// The provider's: they are in no event.
    keys: Vec<Secret>,
    /// For whom the provider keeps the response, if it is one.
    keeping: Option<Keeping>,
    wire: &'static Wire,
    texts: Texts,
    held: VecDeque<HeldEvent>,
    held_bytes: usize,
    /// What the last event said beside its texts, in which nothing was found: most events say the same.
    clean: Vec<u8>,
    /// Lines beside the data (`event:`, `id:`, comments) in which nothing was found.
    clean_lines: HashSet<Vec<u8>>,
    usage: Option<Usage>,
    bytes: u64,
    /// Bytes of the texts that grow.
    said_bytes: u64,
    /// Events that had data.
    said: u64,
    has_begun: bool,
    is_error: bool,
}

impl EventJudge {
    fn new(
        passed: Passed,
        wire: &'static Wire,
        (keys, keeping): (Vec<Secret>, Option<Keeping>),
    ) -> EventJudge {
        EventJudge {
            passed,
            keys,
            keeping,
            wire,
            texts: Texts::default(),
            held: VecDeque::new(),
            held_bytes: 0,
            clean: Vec::new(),
            clean_lines: HashSet::new(),
            usage: None,
            bytes: 0,
            said_bytes: 0,
            said: 0,
            has_begun: false,
            is_error: false,
        }
    }

    /// Takes one event.
    fn take(&mut self, mut event: Vec<u8>) -> Result<(), Refusal> {
        if !std::mem::replace(&mut self.has_begun, true) && event.starts_with(BYTE_ORDER_MARK) {
            event.drain(..BYTE_ORDER_MARK.len());
        }
        if gives_back(&self.keys, &event) {
            return Err(gives_key_back());
        }
        let (mut raw, data) = data_of(event);
        self.lines(&raw, &data)?;
        let text = raw[data.clone()].to_vec();
        let mut held = Vec::new();
        if data.is_empty() {
            // A comment, or an event without data.
        } else if text == b"[DONE]" {
            self.texts.finish(&mut self.passed, |_| true)?;
        } else {
            self.said += 1;
            let json = Json::read(&text);
            let json = json.map_err(|_| invalid("an event of the provider is not JSON"))?;
            let root = json.root();
            is_clear(root)?;
            let mut delta = Delta::default();
            (self.wire.event)(root, &mut delta);
            if let Some(why) = delta.invalid {
                return Err(invalid(why));
            }
            if self.wire.bills != Bills::Nothing {
                self.usage = usage::merge(self.usage, delta.usage);
            }
            let stored = delta.stored.and_then(JsonValue::as_str);
            if let (Some(keeping), Some(id)) = (&self.keeping, stored) {
                keeping.keep(&id);
            }
            self.is_error |= delta.is_error;
            for call in &delta.whole_calls {
                call.judge(&mut self.passed)?;
            }
            if let Some(redacted) = self.beside(&text, root, &delta)? {
                raw.splice(data.clone(), redacted);
            }
            held = self.grow(&delta, data.start)?;
        }
        self.held_bytes += raw.len();
        self.held.push_back(HeldEvent { raw, texts: held });
        match self.held_bytes > HELD_BYTES_MAX {
            false => Ok(()),
            true => Err(Refusal::new(
                refusal::SCAN_BOUND,
                "more of the answer waits to be judged than may",
            )
            .of_answer()),
        }
    }

    /// Judges the lines of an event beside its data. Clients show the name, the id and even a comment to a model's user.
    fn lines(&mut self, raw: &[u8], data: &Range<usize>) -> Result<(), Refusal> {
        for line in lines_beside(raw, data) {
            if self.clean_lines.contains(line) {
                continue;
            }
            let text = serde_json::Value::from(String::from_utf8_lossy(line)).to_string();
            let json = Json::read(text.as_bytes());
            let json = json.map_err(|_| invalid("a line of the provider cannot be read"))?;
            if let Answer::Redacted(_) = self.passed.answer(json.root(), "event")? {
                let public = "a secret stands in a line of the stream that is no data";
                return Err(Refusal::new(refusal::SECRET, public).of_answer());
            }
            if self.clean_lines.len() < CLEAN_LINES_MAX && line.len() <= CLEAN_BYTES_MAX {
                self.clean_lines.insert(line.to_vec());
            }
        }
        Ok(())
    }

    /// Takes what an event adds to texts and calls; gives where its parts of them stand. Its data begin at `start`.
    fn grow(&mut self, delta: &Delta<'_>, start: usize) -> Result<Vec<HeldText>, Refusal> {
        let mut held = Vec::new();
        for begin in &delta.begun {
            self.texts.begin_call(&mut self.passed, begin)?;
        }
        for (key, value) in &delta.texts {
            let said = value.as_str().unwrap_or_default();
            self.said_bytes += said.len() as u64;
            let span = self.texts.push(&mut self.passed, *key, said.as_bytes())?;
            let at = value.span();
            held.push((*key, span, start + at.start..start + at.end));
        }
        for group in &delta.ended {
            self.texts
                .finish(&mut self.passed, |key| key.group == *group)?;
        }
        Ok(held)
    }

    /// Judges what an event says beside the texts that grow; gives it where something was redacted.
    fn beside(
        &mut self,
        text: &[u8],
        root: JsonValue<'_>,
        delta: &Delta<'_>,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        if delta.texts.is_empty() {
            if text == self.clean {
                return Ok(None);
            }
            let answer = self.passed.answer(root, "")?;
            return Ok(match answer {
                Answer::AsItCame => {
                    self.keep_clean(text);
                    None
                }
                Answer::Redacted(redacted) => Some(redacted),
            });
        }
        let mut bare = Vec::with_capacity(text.len());
        let mut at = 0;
        let mut spans: Vec<Range<usize>> =
            delta.texts.iter().map(|(_, value)| value.span()).collect();
        spans.sort_by_key(|span| span.start);
        for span in spans {
            bare.extend_from_slice(&text[at..span.start]);
            bare.extend_from_slice(b"\"\"");
            at = span.end;
        }
        bare.extend_from_slice(&text[at..]);
        if bare == self.clean {
            return Ok(None);
        }
        let json =
            Json::read(&bare).map_err(|_| invalid("an event of the provider is not JSON"))?;
        match self.passed.answer(json.root(), "")? {
            Answer::AsItCame => {
                self.keep_clean(&bare);
                Ok(None)
            }
            Answer::Redacted(_) => {
                let public = "a secret stands where it cannot be taken out of a stream";
                Err(Refusal::new(refusal::SECRET, public).of_answer())
            }
        }
    }

    fn keep_clean(&mut self, text: &[u8]) {
        self.clean.clear();
        if text.len() <= CLEAN_BYTES_MAX {
            self.clean.extend_from_slice(text);
        }
    }

    /// The stream has ended: what waits is whole.
    fn finish(&mut self) -> Result<(), Refusal> {
        self.texts.finish(&mut self.passed, |_| true)
    }

    /// Adds the events to `out` that may go on.
    fn release(&mut self, out: &mut Vec<u8>) {
        while let Some(front) = self.held.front() {
            if !front
                .texts
                .iter()
                .all(|(key, span, _)| self.texts.is_free(key, span))
            {
                return;
            }
            let Some(mut event) = self.held.pop_front() else {
                return;
            };
            self.held_bytes -= event.raw.len();
            let mut changes = Vec::new();
            for (key, span, at) in &event.texts {
                if let Some(text) = self.texts.assign(key, span) {
                    let text = String::from_utf8_lossy(&text).into_owned();
                    changes.push((at.clone(), serde_json::Value::from(text).to_string()));
                }
            }
            changes.sort_by_key(|(at, _)| std::cmp::Reverse(at.start));
            for (at, with) in changes {
                event.raw.splice(at, with.into_bytes());
            }
            out.extend_from_slice(&event.raw);
        }
    }
}

fn invalid(why: &str) -> Refusal {
    Refusal::new(refusal::LLM_ANSWER_INVALID, why)
}

/// Whether a text is one of a call of a tool.
fn is_call(key: &TextKey) -> bool {
    matches!(key.kind, TextKind::Arguments | TextKind::Input)
}
