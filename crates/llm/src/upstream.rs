//! On to a provider: each try judged for its own target, the bytes that came, and back what the provider answers.
//!
//! A try is repeated at the next provider only for what another one can mend: no connection, a limit, a failure of the provider,
//! a model that it does not have. Nothing is tried again once an answer has begun.

pub(crate) mod answered;
mod request;

use std::ops::Range;
use std::time::Duration;

use base::record::{CallEnd, Usage};
use base::{Json, JsonValue, Name, Refusal, refusal};
use bytes::Bytes;
use gate::{Answer, Call, CallEnding, ContentPart, Cost, Passed, Repeat};
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER,
};
use http::{HeaderMap, StatusCode};
use net::{Body, Response, SendError};
use serde_json::Value;

use crate::answer::AnswerSaid;
use crate::cache::CacheKey;
use crate::lane::{KnownRequest, LlmLane, check_letters, check_names, resource};
use crate::login::Credential;
use crate::meter::TryWatch;
use crate::provider::{KindEvents, Provider, gives_back};
use crate::route::Candidate;
use crate::stored::{Keeping, StoredResponse};
use crate::stream::frames::FrameReader;
use crate::wire::{self, Bills, Wire};
use crate::{refuse, stream};

use answered::ProviderAnswer;

/// Most tries of one request, all providers and keys together.
const TRIES_MAX: usize = 4;
/// How often a call that lasts looks whether it is still in force, in milliseconds.
const LOOK_MS: u64 = 1_000;
/// How long a key is left alone where a provider says that it is at its limit, and not for how long, in milliseconds.
const COOL_MS_DEFAULT: u64 = 5_000;
/// Fields of an answer that go back, and what the names of others begin with. Their values are short, and no texts.
const PASSED_BACK: &[&str] = &[
    "request-id",
    "x-request-id",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "server-timing",
    "x-amzn-requestid",
];
const PASSED_BACK_FROM: &[&str] = &["anthropic-", "openai-", "x-ratelimit-"];
const FIELD_BYTES_MAX: usize = 128;
/// Says that an answer was kept from an earlier time.
const CACHE: HeaderName = HeaderName::from_static("weir-cache");
/// Bytes of an answer that a token stands for at most, on the whole.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;

/// A request on its way.
pub(crate) struct Sending<'a> {
    pub(crate) wire: &'static Wire,
    pub(crate) is_stream: bool,
    /// A number that is the same for all requests of one conversation.
    pub(crate) conversation: u64,
    /// The member that names the model, where the body does.
    pub(crate) model: Option<JsonValue<'a>>,
    /// Where each part stands in the body, by its number; parts beyond are fields.
    pub(crate) spans: Vec<Range<usize>>,
    /// Where the object stands that has a list of tags in it, which does not go on.
    pub(crate) tags: Option<Range<usize>>,
    pub(crate) fields: &'a [(HeaderName, String)],
    pub(crate) query: Option<&'a str>,
    /// The model's name as the client wrote it.
    pub(crate) asked: &'a str,
    pub(crate) body: &'a Bytes,
    pub(crate) content: &'a [ContentPart<'a>],
    /// Bytes that a model reads as text, and tokens that its media are at most.
    pub(crate) read_bytes: u64,
    pub(crate) media_tokens: u64,
    /// Tokens that the answer may have.
    pub(crate) output_tokens: u64,
    pub(crate) agent: &'a Name,
    /// The response that it goes on with, which one provider has for one key.
    pub(crate) previous: Option<StoredResponse>,
    pub(crate) repeat: Repeat,
}

impl<'a> Sending<'a> {
    /// A request without a body, of a response that is kept.
    pub(crate) fn of_nothing(
        wire: &'static Wire,
        response: &'a StoredResponse,
        body: &'a Bytes,
        content: &'a [ContentPart<'a>],
    ) -> Sending<'a> {
        Sending {
            wire,
            is_stream: false,
            conversation: 0,
            model: None,
            spans: Vec::new(),
            tags: None,
            fields: &[],
            query: None,
            asked: &response.model,
            body,
            content,
            read_bytes: 0,
            media_tokens: 0,
            output_tokens: 0,
            agent: &response.agent,
            previous: None,
            repeat: Repeat::No,
        }
    }

    /// Tokens that the answer may have, as the provider is told: where a model is to think, a conversion gives it room for that
    /// beside what the client allows.
    fn output_tokens(&self, candidate: &Candidate) -> u64 {
        let sent = candidate.conversion.and_then(|conversion| {
            let body: Value = serde_json::from_slice(self.body).ok()?;
            conversion.output_max(&body)
        });
        self.output_tokens.max(sent.unwrap_or_default())
    }

    /// What a try is expected to use, and what that costs.
    fn cost(&self, lane: &LlmLane, candidate: &Candidate) -> Cost {
        let state = &lane.shared.states[candidate.provider];
        let provider = &lane.settings().providers[candidate.provider];
        let input = state.tokens(&candidate.model, self.read_bytes);
        let input = input.saturating_add(self.media_tokens);
        match self.wire.bills {
            Bills::Nothing => Cost::default(),
            bills => Cost {
                input,
                output: if bills == Bills::All {
                    self.output_tokens(candidate)
                } else {
                    0
                },
                price: provider.price(&candidate.model),
            },
        }
    }
}

/// What became of one try.
enum Tried {
    /// The provider answered, and the answer is the client's.
    Answered(Box<ProviderAnswer>),
    /// Another provider can mend it.
    Mendable(FailedTry),
    /// Whether the provider may have worked for it.
    Refused(Refusal, Billed),
}

/// A try that another provider can mend.
struct FailedTry {
    why: String,
    answer: Option<Box<ProviderAnswer>>,
    billed: Billed,
}

/// Whether a provider may bill a call that was not answered well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Billed {
    /// It was asked, and nobody knows how far it came.
    Perhaps,
    /// It was not reached, or said no.
    Nothing,
}

impl Billed {
    fn of_status(status: u16) -> Billed {
        match status {
            400.. => Billed::Nothing,
            _ => Billed::Perhaps,
        }
    }
}

/// Carries a request to the candidates, one after another, and its answer back.
pub(crate) async fn carry(
    lane: &LlmLane,
    known: KnownRequest<'_>,
    sending: &Sending<'_>,
    candidates: &[Candidate],
) -> Response {
    let (id, family) = (known.call.id, sending.wire.family);
    let mut failures: Vec<String> = Vec::new();
    let mut retry_ms = None;
    let mut last: Option<(Passed, FailedTry, TryWatch)> = None;
    let (mut at, mut tried) = (0, None);
    for _ in 0..TRIES_MAX {
        let Some(candidate) = candidates.get(at) else {
            break;
        };
        let provider = &lane.settings().providers[candidate.provider];
        let state = &lane.shared.states[candidate.provider];
        let now_ms = (lane.settings().now_ms)();
        let key = match &sending.previous {
            Some(previous) => previous.key(provider),
            None => state.key(Some(sending.conversation), &candidate.model, now_ms),
        };
        let left_alone = match (state.is_open(now_ms), key) {
            (true, _) => Some("left alone after failures"),
            (false, None) if provider.key_count() > 0 => {
                let cools = state.cools_ms(&candidate.model, now_ms);
                retry_ms = Some(retry_ms.map_or(cools, |known: u64| known.min(cools)));
                Some("at its limit")
            }
            _ => None,
        };
        if let Some(why) = left_alone {
            failures.push(format!("{} is {why}", provider.name));
            at += 1;
            continue;
        }
        let passed = match judge(lane, &known, sending, candidate, last.as_ref()).await {
            Ok(passed) => passed,
            Err(refusal) => {
                // Who may not ask this one, or has no money for it, may ask the next.
                let is_last = at + 1 >= candidates.len();
                if !is_of_target(&refusal) || (is_last && last.is_none()) {
                    give_up(last);
                    return refuse::respond(family, &refusal, id);
                }
                failures.push(format!("{}: {}", provider.name, refusal.public));
                at += 1;
                continue;
            }
        };
        give_up(last.take());
        let watch = TryWatch::new(lane, sending, candidate);
        match attempt(lane, &passed, sending, candidate, key).await {
            Tried::Answered(answer) => {
                let keeping = Keeping::of(lane, sending.agent, candidate, key);
                let what = (sending, candidate);
                return back(lane, passed, what, *answer, watch, keeping).await;
            }
            Tried::Refused(refusal, billed)
                if refusal.code == refusal::LLM_UNCONVERTIBLE && at + 1 < candidates.len() =>
            {
                failures.push(format!("{}: {}", provider.name, refusal.public));
                watch.ended(None, Some(refusal.code.name));
                end_failed(passed, 0, &refusal, billed);
                at += 1;
            }
            Tried::Refused(refusal, billed) => {
                watch.ended(None, Some(refusal.code.name));
                end_failed(passed, 0, &refusal, billed);
                return refuse::respond(family, &refusal, id);
            }
            Tried::Mendable(failed) => {
                failures.push(format!("{} {}", provider.name, failed.why));
                // Another key of the same provider may do.
                let now_ms = (lane.settings().now_ms)();
                let other = state.key(Some(sending.conversation), &candidate.model, now_ms);
                let is_limit = failed
                    .answer
                    .as_ref()
                    .is_some_and(|answer| answer.status() == 429);
                let may_change = sending.previous.is_none() && other.is_some() && other != key;
                if !(is_limit && may_change) {
                    at += 1;
                }
                last = Some((passed, failed, watch));
                tried = Some(candidate);
            }
        }
    }
    match (last, tried) {
        // What the last of them said is what the client can use.
        (
            Some((
                passed,
                FailedTry {
                    answer: Some(answer),
                    ..
                },
                watch,
            )),
            Some(candidate),
        ) => back(lane, passed, (sending, candidate), *answer, watch, None).await,
        (last, _) => {
            let refusal = none_left(&failures, retry_ms);
            match last {
                Some((passed, failed, watch)) => {
                    watch.ended(None, Some(refusal.code.name));
                    end_failed(passed, 0, &refusal, failed.billed);
                    refuse::respond(family, &refusal, id)
                }
                None => lane.no(&known, refusal).await,
            }
        }
    }
}

/// Whether another target may do where this one was refused.
fn is_of_target(refusal: &Refusal) -> bool {
    let codes = [
        refusal::FORBIDDEN,
        refusal::LIMIT_BUDGET,
        refusal::LIMIT_TOO_DEAR,
        refusal::LIMIT_PRICE_UNKNOWN,
    ];
    codes.contains(&refusal.code)
}

/// No provider is left: who failed how.
fn none_left(failures: &[String], retry_ms: Option<u64>) -> Refusal {
    let refusal = Refusal::new(
        refusal::LLM_NONE_LEFT,
        format!("no provider is left: {}", failures.join("; ")),
    );
    match retry_ms {
        Some(retry_ms) => refusal.with_retry_ms(retry_ms),
        None => refusal,
    }
}

/// Ends a try whose place another takes.
fn give_up(last: Option<(Passed, FailedTry, TryWatch)>) {
    if let Some((passed, failed, watch)) = last {
        let status = failed.answer.map_or(0, |answer| answer.status().as_u16());
        let refusal = Refusal::new(refusal::LLM_PROVIDER_FAILED, "another provider was tried");
        watch.ended(None, Some(refusal.code.name));
        end_failed(passed, status, &refusal, failed.billed);
    }
}

/// Has the gate judge one try for its own target.
async fn judge(
    lane: &LlmLane,
    known: &KnownRequest<'_>,
    sending: &Sending<'_>,
    candidate: &Candidate,
    last: Option<&(Passed, FailedTry, TryWatch)>,
) -> Result<Passed, Refusal> {
    let resource = resource(lane.settings(), candidate);
    let call = Call {
        resource: &resource,
        content: sending.content,
        cost: sending.cost(lane, candidate),
        repeat: sending.repeat,
        ..known.call
    };
    let gate = &lane.shared.gate;
    match last {
        None => gate.pass(known.verified.clone(), call).await,
        Some((first, ..)) => {
            let id = (lane.settings().new_id)();
            gate.again(first, Call { id, ..call }).await
        }
    }
}

/// Asks one provider with one of its keys.
async fn attempt(
    lane: &LlmLane,
    passed: &Passed,
    sending: &Sending<'_>,
    candidate: &Candidate,
    key: Option<usize>,
) -> Tried {
    let provider = &lane.settings().providers[candidate.provider];
    let state = &lane.shared.states[candidate.provider];
    let credential = Credential::of(lane, provider, state, key);
    let credential = match while_in_force(passed, credential).await {
        Ok(Ok(credential)) => credential,
        Ok(Err(why)) => {
            return Tried::Mendable(FailedTry {
                why,
                answer: None,
                billed: Billed::Nothing,
            });
        }
        Err(refusal) => return Tried::Refused(refusal, Billed::Nothing),
    };
    let request = match request::request(provider, passed, sending, candidate, &credential) {
        Ok(request) => request,
        Err(refusal) => return Tried::Refused(refusal, Billed::Nothing),
    };
    let cache_key = cache_key(lane, sending, candidate, &request);
    let now_ms = lane.settings().now_ms;
    if let Some(kept) = cache_key.and_then(|key| lane.shared.cache.as_ref()?.find(&key, now_ms())) {
        return Tried::Answered(Box::new(ProviderAnswer::kept(kept)));
    }
    let answer_ms = lane.settings().answer_ms;
    let sent = lane.upstreams.send(passed, request, answer_ms);
    let sent = match while_in_force(passed, sent).await {
        Ok(sent) => sent,
        Err(refusal) => return Tried::Refused(refusal, Billed::Perhaps),
    };
    match sent {
        Ok(answer) => {
            learn(lane, candidate, &answer.head, key, &credential);
            let cache_key = cache_key.filter(|_| answer.head.status == StatusCode::OK);
            let answer = ProviderAnswer::coming(answer).kept_under(cache_key);
            answered(lane, passed, sending, answer).await
        }
        Err(SendError::Refused(refusal)) => Tried::Refused(refusal, Billed::Nothing),
        Err(error) => {
            state.failed((lane.settings().now_ms)());
            let (why, billed) = match error {
                SendError::Slow => ("did not answer in time", Billed::Perhaps),
                SendError::Unreachable(_) => ("cannot be reached", Billed::Nothing),
                _ => ("broke off", Billed::Perhaps),
            };
            Tried::Mendable(FailedTry {
                why: why.to_owned(),
                answer: None,
                billed,
            })
        }
    }
}

/// What an answer says of the provider, its key and its token.
fn learn(
    lane: &LlmLane,
    candidate: &Candidate,
    head: &http::response::Parts,
    key: Option<usize>,
    credential: &Credential<'_>,
) {
    let state = &lane.shared.states[candidate.provider];
    let now_ms = (lane.settings().now_ms)();
    match head.status.as_u16() {
        429 => {
            let for_ms = retry_after_ms(&head.headers).unwrap_or(COOL_MS_DEFAULT);
            if let Some(key) = key {
                state.cool(key, &candidate.model, for_ms, now_ms);
            }
        }
        500.. => state.failed(now_ms),
        _ => state.worked(),
    }
    if let (401, Credential::Token(token)) = (head.status.as_u16(), credential) {
        state.tokens.forget(token);
    }
}

/// Whether an answer is the client's, or another provider can mend it: what a request that is too long says has to be read for that.
async fn answered(
    lane: &LlmLane,
    passed: &Passed,
    sending: &Sending<'_>,
    mut answer: ProviderAnswer,
) -> Tried {
    let settings = lane.settings();
    let status = answer.status().as_u16();
    let why = match status {
        401 | 403 | 404 | 408 | 429 | 500.. => format!("answered {status}"),
        400 | 413 if sending.repeat == Repeat::Maybe => {
            let read = answer.whole(settings.answer_bytes_max, settings.answer_ms);
            match while_in_force(passed, read).await {
                Ok(Ok(body)) if answered::is_too_long(&body) => {
                    "has no model for so long a request".to_owned()
                }
                Ok(Ok(_)) => return Tried::Answered(Box::new(answer)),
                Ok(Err(error)) => return Tried::Refused(of_send(error), Billed::Nothing),
                Err(refusal) => return Tried::Refused(refusal, Billed::Nothing),
            }
        }
        _ => return Tried::Answered(Box::new(answer)),
    };
    Tried::Mendable(FailedTry {
        why,
        answer: Some(Box::new(answer)),
        billed: Billed::Nothing,
    })
}

/// What the answer to this try may be kept under: of requests that do not stream, and leave nothing at the provider.
fn cache_key(
    lane: &LlmLane,
    sending: &Sending<'_>,
    candidate: &Candidate,
    request: &http::Request<Bytes>,
) -> Option<CacheKey> {
    let cache = lane.shared.cache.as_ref()?;
    let is_response = [wire::RESPONSES.name, wire::COMPACT.name].contains(&candidate.wire.name);
    let is_kept = !sending.is_stream && !is_response;
    let provider = &lane.settings().providers[candidate.provider].name;
    cache
        .key(sending.agent, candidate, provider, request)
        .filter(|_| is_kept)
}

/// Whether all clients read the same in what a provider says: no member twice, none that is known under a name in other letters.
///
/// # Errors
/// `llm.answer_invalid`.
pub(crate) fn is_clear(said: JsonValue<'_>) -> Result<(), Refusal> {
    check_names(said)
        .and_then(|()| check_letters(said))
        .map_err(|of| {
            let public = format!(
                "the provider's answer could be read in two ways: {}",
                of.public
            );
            Refusal::new(refusal::LLM_ANSWER_INVALID, public)
        })
}

/// The refusal of an answer in which the provider's key stands.
pub(crate) fn gives_key_back() -> Refusal {
    let public = "the provider's answer has the key in it that the provider was asked with";
    Refusal::new(refusal::LLM_ANSWER_INVALID, public)
}

pub(crate) fn never(why: &str) -> Refusal {
    Refusal::new(refusal::FAILED, "the request cannot be written").with_private(why)
}

/// How long the provider wants to be left alone, in milliseconds (RFC 9110, section 10.2.3; as seconds alone).
fn retry_after_ms(fields: &HeaderMap) -> Option<u64> {
    let number = |name: &str| fields.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let ms = number("retry-after-ms").or(number(RETRY_AFTER.as_str()).map(|s| s * 1000.0));
    ms.filter(|ms| *ms >= 0.0).map(|ms| ms as u64)
}

/// What is done for a call, as long as the call is in force.
///
/// # Errors
/// What ended the call before that was done.
pub(crate) async fn while_in_force<T>(
    passed: &Passed,
    work: impl Future<Output = T>,
) -> Result<T, Refusal> {
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(Duration::from_millis(LOOK_MS), &mut work).await {
            Ok(done) => return Ok(done),
            Err(_) => passed.in_force()?,
        }
    }
}

/// The provider's answer, for the client.
pub(crate) async fn back(
    lane: &LlmLane,
    passed: Passed,
    (sending, candidate): (&Sending<'_>, &Candidate),
    mut answer: ProviderAnswer,
    watch: TryWatch,
    keeping: Option<Keeping>,
) -> Response {
    let call = base::Permit::call(&passed);
    let is_coded = |coding: &HeaderValue| !coding.as_bytes().eq_ignore_ascii_case(b"identity");
    let mut codings = answer.fields().get_all(CONTENT_ENCODING).iter();
    if codings.any(is_coded) {
        let refusal = Refusal::new(
            refusal::LLM_ANSWER_INVALID,
            "the provider's answer is compressed, which was not asked for",
        );
        let status = answer.status().as_u16();
        watch.ended(None, Some(refusal.code.name));
        end_failed(passed, status, &refusal, Billed::of_status(status));
        return refuse::respond(sending.wire.family, &refusal, call);
    }
    answer.reuse();
    let kind = answer
        .fields()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let provider = &lane.settings().providers[candidate.provider];
    let is = |what: &str| kind.is_some_and(|kind| kind.starts_with(what));
    let frames = match provider.kind.events {
        KindEvents::Aws if is("application/vnd.amazon.eventstream") => {
            Some(FrameReader::new(lane.settings().answer_bytes_max))
        }
        _ => None,
    };
    let is_stream = frames.is_some() || is("text/event-stream");
    if answer.status().is_success() && is_stream {
        let Some(answer) = answer.into_coming() else {
            let refusal = never("a stream that was read");
            end_failed(passed, 0, &refusal, Billed::Nothing);
            return refuse::respond(sending.wire.family, &refusal, call);
        };
        let what = (sending, candidate);
        return stream::carry(lane, passed, what, (answer, frames), (watch, keeping));
    }
    whole(
        lane,
        passed,
        (sending, candidate),
        answer,
        (&watch, keeping),
    )
    .await
}

/// An answer that is one JSON text.
async fn whole(
    lane: &LlmLane,
    mut passed: Passed,
    (sending, candidate): (&Sending<'_>, &Candidate),
    mut answer: ProviderAnswer,
    (watch, keeping): (&TryWatch, Option<Keeping>),
) -> Response {
    let (settings, wire) = (lane.settings(), sending.wire);
    let call = base::Permit::call(&passed);
    let (status, is_kept, cache_key) = (answer.status(), answer.is_kept(), answer.cache_key);
    let read = answer.whole(settings.answer_bytes_max, settings.answer_ms);
    let body = match while_in_force(&passed, read).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) => Err(of_send(error)),
        Err(refusal) => Err(refusal),
    };
    let mut usage = None;
    let provider = &settings.providers[candidate.provider];
    let state = &lane.shared.states[candidate.provider];
    let is_said = wire.bills == Bills::All && status.is_success();
    let judged = body.and_then(|body| {
        if provider.has_key_in(&body) || gives_back(&state.tokens.secrets(), &body) {
            return Err(gives_key_back());
        }
        let (judged, stored) = judge_whole(&mut passed, candidate.wire, status, &body, &mut usage)?;
        if let (Some(keeping), Some(id)) = (keeping, stored) {
            keeping.keep(&id);
        }
        let said = said_back(judged, (sending, candidate), status)?;
        if let Some((cache, key)) = lane.shared.cache.as_ref().zip(cache_key) {
            cache.keep(key, &body, (settings.now_ms)());
        }
        Ok((said, body.len() as u64))
    });
    // What was kept was billed when it came.
    let usage = usage.filter(|_| !is_kept);
    let is_said = is_said && !is_kept;
    match judged {
        Ok((body, bytes)) => {
            let error = (status.as_u16() >= 400).then_some("provider");
            watch.ended(usage, error);
            let said = usage.is_some_and(|usage| usage.output > 0);
            passed.end(CallEnding {
                status: status.as_u16(),
                bytes,
                // An answer of which nobody counted what the model said costs its text at least.
                usage: usage.filter(|_| said || !is_said),
                output_least: match said || !is_said {
                    true => 0,
                    false => bytes / BYTES_PER_TOKEN,
                },
                is_unbilled: is_kept || Billed::of_status(status.as_u16()) == Billed::Nothing,
                ..CallEnding::of(CallEnd::Complete)
            });
            let mut response = Response::new(Body::Full(body));
            *response.status_mut() = status;
            let fields = response.headers_mut();
            pass_back(answer.fields(), provider, fields);
            if is_kept {
                fields.insert(CACHE, HeaderValue::from_static("hit"));
            }
            fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Err(refusal) => {
            let how = if refusal.code.is_of_scan {
                CallEnd::Refused
            } else {
                CallEnd::Failed
            };
            let billed = Billed::of_status(status.as_u16());
            watch.ended(usage, Some(refusal.code.name));
            passed.end(CallEnding {
                status: status.as_u16(),
                usage,
                is_counted: usage.is_some(),
                is_unbilled: billed == Billed::Nothing,
                why: Some((refusal.code.name, &refusal.private)),
                ..CallEnding::of(how)
            });
            refuse::respond(wire.family, &refusal, call)
        }
    }
}

/// Judges an answer: all of its texts, and each call of a tool as the call that it is. Gives it with the id of what the provider keeps.
fn judge_whole(
    passed: &mut Passed,
    wire: &Wire,
    status: StatusCode,
    body: &Bytes,
    usage: &mut Option<Usage>,
) -> Result<(Bytes, Option<String>), Refusal> {
    let Ok(json) = Json::read(body) else {
        let what = match status.is_success() {
            true => "the provider's answer is not JSON".to_owned(),
            false => format!(
                "the provider answered {} without a word that can be read",
                status.as_u16()
            ),
        };
        return Err(Refusal::new(refusal::LLM_ANSWER_INVALID, what));
    };
    is_clear(json.root())?;
    let mut said = AnswerSaid::default();
    if status.is_success() {
        (wire.answer)(json.root(), &mut said);
    }
    *usage = said.usage.filter(|_| wire.bills != Bills::Nothing);
    let stored = said.stored.and_then(JsonValue::as_str);
    let stored = stored.map(std::borrow::Cow::into_owned);
    for call in &said.calls {
        call.judge(passed)?;
    }
    let body = match passed.answer(json.root(), "")? {
        Answer::AsItCame => body.clone(),
        Answer::Redacted(redacted) => redacted.into(),
    };
    Ok((body, stored))
}

/// An answer in the client's dialect.
fn said_back(
    body: Bytes,
    (sending, candidate): (&Sending<'_>, &Candidate),
    status: StatusCode,
) -> Result<Bytes, Refusal> {
    let Some(conversion) = candidate.conversion else {
        return Ok(body);
    };
    let body: Value =
        serde_json::from_slice(&body).map_err(|_| never("an answer that is no JSON"))?;
    let said = match status.is_success() {
        true => conversion.answer(&body, sending.asked).map_err(|why| {
            let public = "the provider's answer cannot be said in the client's dialect";
            Refusal::new(refusal::LLM_ANSWER_INVALID, public)
                .with_private(format!("{} {}", why.path, why.why))
        })?,
        false => refuse::provider_error(sending.wire.family, status.as_u16(), &body),
    };
    Ok(said.to_string().into())
}

pub(crate) fn of_send(error: SendError) -> Refusal {
    match error {
        SendError::Refused(refusal) => refusal,
        SendError::Slow => Refusal::new(
            refusal::LLM_PROVIDER_SLOW,
            "the provider did not answer in time",
        ),
        SendError::TooLarge => Refusal::new(
            refusal::LLM_ANSWER_INVALID,
            "the provider's answer is larger than llm.answer_bytes_max",
        ),
        error => Refusal::new(refusal::LLM_PROVIDER_FAILED, "the provider broke off")
            .with_private(error.to_string()),
    }
}

/// Records that a call failed before anything of an answer came.
pub(crate) fn end_failed(passed: Passed, status: u16, why: &Refusal, billed: Billed) {
    passed.end(CallEnding {
        status,
        is_unbilled: billed == Billed::Nothing,
        why: Some((why.code.name, &why.private)),
        ..CallEnding::of(CallEnd::Failed)
    });
}

/// Records how the call ended.
pub(crate) fn end(
    passed: Passed,
    how: CallEnd,
    status: u16,
    bytes: u64,
    (usage, output_least): (Option<Usage>, u64),
    why: Option<&Refusal>,
) {
    passed.end(CallEnding {
        status,
        bytes,
        usage,
        output_least,
        why: why.map(|refusal| (refusal.code.name, refusal.private.as_str())),
        ..CallEnding::of(how)
    });
}

/// The fields of the provider's answer that go back.
pub(crate) fn pass_back(from: &HeaderMap, provider: &Provider, to: &mut HeaderMap) {
    let goes = |name: &str| {
        PASSED_BACK.contains(&name) || PASSED_BACK_FROM.iter().any(|start| name.starts_with(start))
    };
    for (name, value) in from {
        let is_short = value.len() <= FIELD_BYTES_MAX && value.to_str().is_ok();
        if goes(name.as_str()) && is_short && !provider.has_key_in(value.as_bytes()) {
            to.append(name.clone(), value.clone());
        }
    }
    to.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_left_alone_for_a_time_that_ends() {
        let of = |name: &'static str, value: &str| {
            let value = HeaderValue::try_from(value).unwrap();
            retry_after_ms(&HeaderMap::from_iter([(
                HeaderName::from_static(name),
                value,
            )]))
        };
        assert_eq!(of("retry-after", " 7 "), Some(7_000));
        assert_eq!(of("retry-after-ms", "250"), Some(250));
        for long in ["1e300", "inf", "99999999999999999999"] {
            assert!(of("retry-after", long) > Some(1 << 60), "{long}");
        }
        for none in ["-1", "NaN", "soon", "Wed, 21 Oct 2026 07:28:00 GMT"] {
            assert_eq!(of("retry-after", none), None, "{none}");
        }
    }
}
