//! A fake provider of models: the dialects of OpenAI, Anthropic and Google, whole and streamed, with a pace that is known.
//!
//! Without a script the words mean nothing, and the request is not looked into further than its answer needs: a tool
//! is called where the request says that one must be, reasoning comes where it is asked for. A script (`script.rs`)
//! says what each model answers, turn by turn. Tokens are counted exactly in what is made; of what was asked they are
//! the bytes of the body by four. The first token, and with it everything that a dialect sends before it, is due after
//! the time to first token, each later one a gap after the one before, and what ends the answer comes with the last. A
//! whole answer is due when its last token would be. Nothing is kept between requests: the same request with the same
//! number has the same answer.

mod anthropic;
mod asked;
mod chat;
mod embed;
mod gemini;
mod made;
mod models;
mod responses;
mod script;

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::HeaderName;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;

use super::answer::{Cut, Origin, Seen};
use super::body::{Body, Paced, Script as Pieces};
use super::chance::{Distribution, Purpose, draw};
use super::plain::{array, stream};
use super::refuse::{Shape, read, refuse, refuse_with, typed};
use asked::Asked;
use made::Made;
pub(super) use models::models;
use script::{Reply, Turn};
pub use script::{SCRIPT_BYTES_MAX, Script};

/// The most bytes of a request.
const REQUEST_BYTES_MAX: usize = 8 << 20;
/// The most tokens of one answer, and the most of reasoning in one.
pub const TOKENS_MAX: u64 = 1_000_000;
/// How many times the true usage may be told, at most.
pub const USAGE_TIMES_MAX: f64 = 1_000.0;
/// The longest time of a `Retry-After`, in seconds.
pub const RETRY_AFTER_MAX: u64 = 86_400;
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
    /// Tokens of reasoning before an answer whose request asks for it, at most [`TOKENS_MAX`].
    pub reasoning: u64,
    /// The share of what was asked that is told as read from the provider's cache, from 0 to 1.
    pub cached: f64,
    /// How many times the tokens that were counted are told, at most [`USAGE_TIMES_MAX`]: a usage that lies.
    pub usage_times: f64,
    /// What a client that is refused for a while is told to wait, in seconds, at most [`RETRY_AFTER_MAX`].
    pub retry_after: u64,
    /// What models answer, by their names.
    pub script: Option<Arc<Script>>,
}

impl Default for Llm {
    fn default() -> Llm {
        Llm {
            first_token: Distribution::NONE,
            tokens_per_second: 0.0,
            tokens: 32,
            reasoning: 16,
            cached: 0.0,
            usage_times: 1.0,
            retry_after: 1,
            script: None,
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
        if self.reasoning > TOKENS_MAX {
            return Err(format!(
                "tokens of reasoning must be at most {TOKENS_MAX}, not {}",
                self.reasoning
            ));
        }
        let rate = self.tokens_per_second;
        if !(rate == 0.0 || (0.01..=1e9).contains(&rate)) {
            return Err(format!(
                "tokens a second must be 0 or from 0.01 to 1e9, not {rate}"
            ));
        }
        let times = self.usage_times;
        if !(0.0..=USAGE_TIMES_MAX).contains(&times) {
            return Err(format!(
                "the usage can be told 0 to {USAGE_TIMES_MAX} times, not {times}"
            ));
        }
        if self.retry_after > RETRY_AFTER_MAX {
            return Err(format!(
                "a time to wait must be at most {RETRY_AFTER_MAX} s, not {}",
                self.retry_after
            ));
        }
        Ok(())
    }
}

/// How a request wants to be answered.
#[derive(Clone, Debug)]
pub(super) enum Dialect {
    Chat,
    Responses,
    Messages,
    /// Of the model that the path names.
    Gemini {
        model: String,
        form: Form,
    },
}

/// How an answer in Google's dialect comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Whole,
    /// As an event stream (`alt=sse`).
    Events,
    /// As one JSON array that grows.
    Array,
}

/// What counts, or makes vectors of texts, and says no word.
#[derive(Clone, Copy, Debug)]
pub(super) enum Aside {
    /// Anthropic's `count_tokens`.
    CountMessages,
    /// Google's `countTokens`.
    CountGemini,
    /// OpenAI's embeddings.
    Embeddings,
    /// Google's `embedContent`.
    EmbedOne,
    /// Google's `batchEmbedContents`.
    EmbedBatch,
}

impl Dialect {
    fn shape(&self) -> Shape {
        match self {
            Dialect::Chat => Shape::OpenAi,
            Dialect::Responses => Shape::Responses,
            Dialect::Messages => Shape::Anthropic,
            Dialect::Gemini { .. } => Shape::Gemini,
        }
    }

    fn whole(&self, made: &Made) -> String {
        match self {
            Dialect::Chat => chat::whole(made),
            Dialect::Responses => responses::whole(made),
            Dialect::Messages => anthropic::whole(made),
            Dialect::Gemini { .. } => gemini::whole(made),
        }
    }

    fn pieces(&self, made: Made) -> Pieces {
        match self {
            Dialect::Chat => made.pieces(chat::Events::default()),
            Dialect::Responses => made.pieces(responses::Events::default()),
            Dialect::Messages => made.pieces(anthropic::Events),
            Dialect::Gemini { form, .. } => made.pieces(gemini::Events::new(*form == Form::Array)),
        }
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
    let shape = dialect.shape();
    let (asked, bytes) = match asked(&dialect, request).await? {
        Ok(asked) => asked,
        Err(refused) => return Ok(refused),
    };
    let llm = &origin.settings().llm;
    let turn = llm
        .script
        .as_ref()
        .and_then(|script| script.turn(&asked.model, asked.turns));
    let reply = match turn.map(|turn| &turn.reply) {
        Some(Reply::Refused(error)) => {
            let after = error.retry_after.unwrap_or(llm.retry_after);
            return Ok(refuse_with(
                shape,
                error.status,
                &error.message,
                after,
                &error.names,
            ));
        }
        Some(Reply::Said(reply)) => Some(reply),
        None => None,
    };
    let made = Made::of(&asked, reply, bytes, llm, || id(origin, nth));
    let made = Made { nth, ..made };
    let mut response = if asked.stream {
        streamed(&dialect, turn, origin, seen, made)
    } else {
        let (first, gap) = pace(turn, origin, nth);
        let rest = gap.saturating_mul(u32::try_from(made.pieces_count() - 1).unwrap_or(u32::MAX));
        let due = origin.thawed(seen, Instant::now() + first + rest);
        origin.timer().until(due).await;
        let json = dialect.whole(&made);
        typed(StatusCode::OK, "application/json", json.into())
    };
    if let Some(fault) = turn.and_then(|turn| turn.fault) {
        response.extensions_mut().insert(fault);
    }
    Ok(response)
}

/// What a request asks, and its length in bytes; or the answer where it cannot be asked.
async fn asked(
    dialect: &Dialect,
    request: Request<Incoming>,
) -> Result<Result<(Asked, u64), Response<Body>>, Cut> {
    let shape = dialect.shape();
    if shape == Shape::Anthropic && !request.headers().contains_key(VERSION) {
        let what = "anthropic-version: header is required";
        return Ok(Err(refuse(shape, StatusCode::BAD_REQUEST, what)));
    }
    let body = match bounded(shape, request).await? {
        Ok(body) => body,
        Err(refused) => return Ok(Err(refused)),
    };
    let asked = Asked::read(dialect, &body);
    Ok(asked
        .map(|asked| (asked, body.len() as u64))
        .map_err(|what| refuse(shape, StatusCode::BAD_REQUEST, &what)))
}

fn streamed(
    dialect: &Dialect,
    turn: Option<&Turn>,
    origin: &Rc<Origin>,
    seen: &Rc<Seen>,
    made: Made,
) -> Response<Body> {
    let (first, gap) = pace(turn, origin, made.nth);
    let is_array = matches!(
        dialect,
        Dialect::Gemini {
            form: Form::Array,
            ..
        }
    );
    let body = Paced::body(origin, seen, first, gap, dialect.pieces(made));
    match is_array {
        true => array(body),
        false => stream(body),
    }
}

/// The time to the first token of an answer, and that from one to the next.
fn pace(turn: Option<&Turn>, origin: &Origin, nth: u64) -> (Duration, Duration) {
    let llm = &origin.settings().llm;
    let rng = &mut draw(origin.settings().seed, nth, Purpose::FirstToken);
    let first = turn.and_then(|turn| turn.first_token.as_ref());
    let first = first.unwrap_or(&llm.first_token).sample(rng);
    let rate = turn.and_then(|turn| turn.tokens_per_second);
    let gap = match rate.unwrap_or(llm.tokens_per_second) {
        0.0 => Duration::ZERO,
        rate => Duration::from_secs_f64(1.0 / rate),
    };
    (first, gap)
}

/// Counts a request, or makes vectors of its texts.
pub(super) async fn aside(
    aside: Aside,
    origin: &Rc<Origin>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Cut> {
    let shape = Shape::of(request.uri().path());
    let body = match bounded(shape, request).await? {
        Ok(body) => body,
        Err(refused) => return Ok(refused),
    };
    let tokens = origin.settings().llm.told(tokens_of(body.len() as u64));
    let json = match aside {
        Aside::CountMessages => asked::is_object(&body).map(|()| anthropic::count(tokens)),
        Aside::CountGemini => asked::is_object(&body).map(|()| gemini::count(tokens)),
        Aside::Embeddings => embed::openai(&body, tokens),
        Aside::EmbedOne => embed::one(&body),
        Aside::EmbedBatch => embed::batch(&body),
    };
    Ok(match json {
        Ok(json) => typed(StatusCode::OK, "application/json", json.into()),
        Err(what) => refuse(shape, StatusCode::BAD_REQUEST, &what),
    })
}

/// The body of a request, or the answer where it is too long.
async fn bounded(
    shape: Shape,
    request: Request<Incoming>,
) -> Result<Result<bytes::Bytes, Response<Body>>, Cut> {
    let body = read(request.into_body(), REQUEST_BYTES_MAX).await?;
    Ok(body.ok_or_else(|| {
        let what = format!("the request is over {REQUEST_BYTES_MAX} bytes");
        refuse(shape, StatusCode::PAYLOAD_TOO_LARGE, &what)
    }))
}

/// Tokens of so many bytes of a request.
fn tokens_of(bytes: u64) -> u64 {
    bytes.div_ceil(4)
}

impl Llm {
    /// What is told of so many tokens.
    fn told(&self, tokens: u64) -> u64 {
        match self.usage_times {
            1.0 => tokens,
            times => (tokens as f64 * times).round() as u64,
        }
    }
}

/// What sets an answer's names apart.
fn id(origin: &Origin, nth: u64) -> String {
    let mut rng = draw(origin.settings().seed, nth, Purpose::Id);
    format!("{:016x}{:08x}", rng.u64(..), rng.u32(..))
}

/// A text as JSON, with its quotes.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
