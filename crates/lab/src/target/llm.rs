//! A fake LLM provider: two dialects, whole and streamed, with a pace that is known.
//!
//! The words mean nothing and the request is not looked into further than its answer needs. Tokens are counted
//! exactly in what is made; of what was asked they are the bytes of the body by four. The first token, and with
//! it everything that a dialect sends before it, is due after the time to first token, each later one a gap
//! after the one before, and what ends the answer comes with the last. A whole answer is due when its last
//! token would be.

mod anthropic;
mod chat;
mod responses;

use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::HeaderName;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::answer::{Cut, Origin, Seen};
use super::body::{Body, Paced};
use super::chance::{Distribution, Purpose, draw};
use super::plain::stream;
use super::refuse::{Shape, read, refuse, typed};

/// The most bytes of a request.
const REQUEST_BYTES_MAX: usize = 8 << 20;
/// The most tokens of one answer.
pub const TOKENS_MAX: u64 = 1_000_000;
/// What `/v1/models` names. Any other name is answered too.
const MODEL: &str = "lab-1";
const VERSION: HeaderName = HeaderName::from_static("anthropic-version");

/// How the fake provider makes its answers.
#[derive(Clone, Debug)]
pub struct Llm {
    /// The time to the first token, after the delay of every answer.
    pub first_token: Distribution,
    /// Tokens a second after the first; 0: all at once.
    pub tokens_per_second: f64,
    /// Tokens of an answer, from 1 to [`TOKENS_MAX`], unless the request allows fewer.
    pub tokens: u64,
}

impl Default for Llm {
    fn default() -> Llm {
        Llm {
            first_token: Distribution::NONE,
            tokens_per_second: 0.0,
            tokens: 32,
        }
    }
}

impl Llm {
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=TOKENS_MAX).contains(&self.tokens) {
            return Err(format!(
                "tokens must be from 1 to {TOKENS_MAX}, not {}",
                self.tokens
            ));
        }
        let rate = self.tokens_per_second;
        if !(rate == 0.0 || (0.01..=1e9).contains(&rate)) {
            return Err(format!(
                "tokens a second must be 0 or from 0.01 to 1e9, not {rate}"
            ));
        }
        Ok(())
    }

    fn gap(&self) -> Duration {
        match self.tokens_per_second {
            0.0 => Duration::ZERO,
            rate => Duration::from_secs_f64(1.0 / rate),
        }
    }
}

/// How a request wants to be answered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Dialect {
    Chat,
    Responses,
    Messages,
}

impl Dialect {
    fn shape(self) -> Shape {
        match self {
            Dialect::Chat | Dialect::Responses => Shape::OpenAi,
            Dialect::Messages => Shape::Anthropic,
        }
    }
}

/// What is read of a request, in either dialect. The rest is let be.
#[derive(Deserialize)]
struct Asked {
    model: String,
    #[serde(default)]
    stream: bool,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    messages: Option<Vec<IgnoredAny>>,
    input: Option<Input>,
    #[serde(default)]
    stream_options: StreamOptions,
    n: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Items(Vec<IgnoredAny>),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamOptions {
    include_usage: bool,
}

/// One answer that is to be made.
struct Made {
    /// Unlike that of any other answer of the run: 24 hexadecimal digits.
    id: String,
    /// As JSON, with its quotes.
    model: String,
    /// Seconds since 1970.
    created: u64,
    prompt_tokens: u64,
    tokens: u64,
    /// Whether the request allowed fewer tokens than there would be.
    cut: bool,
    include_usage: bool,
    nth: u64,
}

impl Made {
    /// The text of a token. It needs no escape in JSON.
    fn token(&self, index: u64) -> &'static str {
        const WORDS: [&str; 16] = [
            " a",
            " weir",
            " is",
            " the",
            " low",
            " dam",
            " that",
            " holds",
            " river",
            " and",
            " lets",
            " through",
            " what",
            " may",
            " pass",
            " measured",
        ];
        let at = usize::try_from((self.nth + index) % 16).expect("a remainder by 16");
        match index {
            0 => WORDS[at].trim_start(),
            _ => WORDS[at],
        }
    }

    fn text(&self) -> String {
        (0..self.tokens).map(|index| self.token(index)).collect()
    }

    /// Whether this is the last token.
    fn is_last(&self, index: u64) -> bool {
        index + 1 == self.tokens
    }
}

/// Answers a request in a dialect.
pub(super) async fn answer(
    dialect: Dialect,
    origin: &Rc<Origin>,
    seen: &Rc<Seen>,
    nth: u64,
    request: Request<Incoming>,
) -> Result<Response<Body>, Cut> {
    let unfit = |what: &str| Ok(refuse(dialect.shape(), StatusCode::BAD_REQUEST, what));
    if matches!(dialect, Dialect::Messages) && !request.headers().contains_key(VERSION) {
        return unfit("anthropic-version: header is required");
    }
    let Some(body) = read(request.into_body(), REQUEST_BYTES_MAX).await? else {
        let what = format!("the request is over {REQUEST_BYTES_MAX} bytes");
        return Ok(refuse(
            dialect.shape(),
            StatusCode::PAYLOAD_TOO_LARGE,
            &what,
        ));
    };
    let asked = match serde_json::from_slice::<Asked>(&body) {
        Ok(asked) => asked,
        Err(error) => return unfit(&format!("the request cannot be read: {error}")),
    };
    let llm = &origin.settings().llm;
    let made = match made(dialect, asked.max(dialect), &asked, llm.tokens) {
        Ok(made) => Made {
            id: id(origin, nth),
            prompt_tokens: (body.len() as u64).div_ceil(4),
            nth,
            ..made
        },
        Err(what) => return unfit(&what),
    };
    let rng = &mut draw(origin.settings().seed, nth, Purpose::FirstToken);
    let first = llm.first_token.sample(rng);
    if asked.stream {
        let script = match dialect {
            Dialect::Chat => chat::script(made),
            Dialect::Responses => responses::script(made),
            Dialect::Messages => anthropic::script(made),
        };
        return Ok(stream(Paced::body(origin, seen, first, llm.gap(), script)));
    }
    let rest = llm
        .gap()
        .saturating_mul(u32::try_from(made.tokens - 1).unwrap_or(u32::MAX));
    let due = origin.thawed(seen, Instant::now() + first + rest);
    origin.timer().until(due).await;
    let json = match dialect {
        Dialect::Chat => chat::whole(&made),
        Dialect::Responses => responses::whole(&made),
        Dialect::Messages => anthropic::whole(&made),
    };
    Ok(typed(StatusCode::OK, "application/json", json.into()))
}

impl Asked {
    /// The most tokens that the request allows.
    fn max(&self, dialect: Dialect) -> Option<u64> {
        match dialect {
            Dialect::Chat => self.max_completion_tokens.or(self.max_tokens),
            Dialect::Responses => self.max_output_tokens,
            Dialect::Messages => self.max_tokens,
        }
    }
}

/// What the request itself decides of an answer. The error says what the request lacks.
fn made(dialect: Dialect, max: Option<u64>, asked: &Asked, tokens: u64) -> Result<Made, String> {
    let some_messages = asked.messages.as_ref().is_some_and(|all| !all.is_empty());
    match dialect {
        Dialect::Chat if asked.n.is_some_and(|n| n != 1) => {
            return Err("n must be 1: this target makes one choice".into());
        }
        Dialect::Chat | Dialect::Messages if !some_messages => {
            return Err("messages: at least one message is required".into());
        }
        Dialect::Messages if max.is_none() => return Err("max_tokens: Field required".into()),
        Dialect::Responses => match &asked.input {
            Some(Input::Text(text)) if !text.is_empty() => {}
            Some(Input::Items(items)) if !items.is_empty() => {}
            _ => return Err("input: a text or a list of items is required".into()),
        },
        _ => {}
    }
    if max == Some(0) {
        return Err("the most tokens must be at least 1".into());
    }
    let allowed = max.unwrap_or(u64::MAX);
    Ok(Made {
        id: String::new(),
        model: serde_json::Value::from(asked.model.as_str()).to_string(),
        created: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        prompt_tokens: 0,
        tokens: tokens.min(allowed),
        cut: tokens > allowed,
        include_usage: asked.stream_options.include_usage,
        nth: 0,
    })
}

/// What sets an answer's names apart.
fn id(origin: &Origin, nth: u64) -> String {
    let mut rng = draw(origin.settings().seed, nth, Purpose::Id);
    format!("{:016x}{:08x}", rng.u64(..), rng.u32(..))
}

/// `GET /v1/models`, in the dialect that the client's headers show.
pub(super) fn models(request: &Request<Incoming>) -> Response<Body> {
    let json = if request.headers().contains_key(VERSION) {
        format!(
            r#"{{"data":[{{"type":"model","id":"{MODEL}","display_name":"{MODEL}","created_at":"2026-01-01T00:00:00Z"}}],"has_more":false,"first_id":"{MODEL}","last_id":"{MODEL}"}}"#
        )
    } else {
        format!(
            r#"{{"object":"list","data":[{{"id":"{MODEL}","object":"model","created":1767225600,"owned_by":"weir-lab"}}]}}"#
        )
    };
    typed(StatusCode::OK, "application/json", json.into())
}

/// The script of a stream: `write` writes the events of one token.
fn scripted(
    made: Made,
    mut write: impl FnMut(&Made, u64, &mut String) + 'static,
) -> super::body::Script {
    let mut index = 0;
    Box::new(move || {
        if index == made.tokens {
            return None;
        }
        let mut events = String::with_capacity(512);
        write(&made, index, &mut events);
        index += 1;
        Some(Bytes::from(events))
    })
}
