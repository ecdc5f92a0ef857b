//! The endpoint that makes vectors of texts: Ollama's `/api/embed` or OpenAI's `/v1/embeddings`, in batches.
//!
//! It exists so that a search can go by likeness where somebody runs a model. It sends the texts of the index to
//! one configured address, follows no redirect, and never has a search wait for long.

mod client;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base::Secret;
use serde::Deserialize;
use serde_json::json;

use client::Client;

/// Bytes of one text that are sent.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// Longest vector.
pub const DIMENSIONS_MAX: usize = 8192;
/// Tries of one batch.
const TRIES_MAX: u32 = 3;
/// First wait between two tries, in milliseconds; it doubles.
const RETRY_MS: u64 = 200;
/// Longest wait that an endpoint may ask for (Retry-After), in milliseconds.
const RETRY_AFTER_MS_MAX: u64 = 10_000;
/// How long a batch may take, in milliseconds: a model on a CPU is slow.
const BATCH_MS_MAX: u64 = 120_000;
/// How long the vector of a query may take, in milliseconds; then the search goes on without.
const QUERY_MS_MAX: u64 = 2_000;
/// Queries whose vectors are remembered, for the next page and the next agent.
const QUERIES_MAX: usize = 256;

/// What an endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `POST /api/embed` (Ollama, docs/api.md).
    Ollama,
    /// `POST /v1/embeddings` (OpenAI API reference, Embeddings).
    OpenAi,
}

/// Where vectors are made.
#[derive(Clone)]
pub struct Endpoint {
    /// `http://` or `https://`, a host, and perhaps a port and a path that stands before that of the kind.
    pub url: String,
    /// What it speaks.
    pub kind: Kind,
    /// The model.
    pub model: String,
    /// Sent as `Authorization: Bearer`.
    pub key: Option<Secret>,
    /// What the model wants before a query.
    pub query_prefix: String,
    /// What it wants before a text that is searched.
    pub document_prefix: String,
}

/// Why there is no vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The URL is none, or would send the key in the clear.
    Url(String),
    /// The endpoint does not answer, or not in time.
    Unreachable(String),
    /// It refuses.
    Refused {
        /// The HTTP status.
        status: u16,
        /// When to ask again, in milliseconds, where it says so.
        after_ms: Option<u64>,
    },
    /// It answers with something else than as many vectors as there were texts.
    Answer(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Url(what) => write!(f, "the embedding endpoint's URL {what}"),
            Error::Unreachable(what) => write!(f, "the embedding endpoint: {what}"),
            Error::Refused { status, .. } => {
                write!(f, "the embedding endpoint answers with status {status}")
            }
            Error::Answer(what) => write!(f, "the embedding endpoint's answer {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// Whether the same may pass a moment later.
    fn passes(&self) -> bool {
        match self {
            Error::Unreachable(_) => true,
            Error::Refused { status, .. } => *status == 429 || *status >= 500,
            Error::Url(_) | Error::Answer(_) => false,
        }
    }

    fn wait_ms(&self, tried: u32) -> u64 {
        match self {
            Error::Refused {
                after_ms: Some(ms), ..
            } => (*ms).min(RETRY_AFTER_MS_MAX),
            _ => RETRY_MS << tried,
        }
    }
}

/// Makes vectors. Every call blocks: call it from a thread that may wait.
pub struct Embedder {
    endpoint: Endpoint,
    client: Client,
    queries: Mutex<VecDeque<(String, Vec<f32>)>>,
}

#[derive(Deserialize)]
struct OllamaAnswer {
    embeddings: Vec<Vec<f32>>,
}

#[derive(Deserialize)]
struct OpenAiAnswer {
    data: Vec<OpenAiVector>,
}

#[derive(Deserialize)]
struct OpenAiVector {
    index: usize,
    embedding: Vec<f32>,
}

impl Embedder {
    /// For an endpoint, which is not asked yet.
    ///
    /// # Errors
    ///
    /// [`Error::Url`].
    pub fn new(endpoint: Endpoint) -> Result<Embedder, Error> {
        let path = match endpoint.kind {
            Kind::Ollama => "/api/embed",
            Kind::OpenAi => "/v1/embeddings",
        };
        let client = Client::new(&endpoint.url, path, endpoint.key.clone())?;
        Ok(Embedder {
            endpoint,
            client,
            queries: Mutex::default(),
        })
    }

    /// The port that is connected to.
    pub fn port(&self) -> u16 {
        self.client.port()
    }

    /// What makes its vectors others: the model, and what is put before texts.
    pub fn id(&self) -> String {
        let of = &self.endpoint;
        let kind = match of.kind {
            Kind::Ollama => "ollama",
            Kind::OpenAi => "openai",
        };
        let prefixes = match (&*of.query_prefix, &*of.document_prefix) {
            ("", "") => String::new(),
            (query, document) => format!(" {query:?} {document:?}"),
        };
        format!("{kind} {}{prefixes}", of.model)
    }

    /// The vectors of texts that are searched, each of length one.
    ///
    /// # Errors
    ///
    /// After as many tries as are worth it.
    pub fn documents(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, Error> {
        let prefix = &self.endpoint.document_prefix;
        let texts: Vec<String> = texts.iter().map(|text| cut(prefix, text)).collect();
        let mut tried = 0;
        loop {
            match self.ask(&texts, BATCH_MS_MAX) {
                Err(error) if error.passes() && tried + 1 < TRIES_MAX => {
                    std::thread::sleep(Duration::from_millis(error.wait_ms(tried)));
                    tried += 1;
                }
                ended => return ended,
            }
        }
    }

    /// The vector of a query. Tried once, as somebody waits.
    ///
    /// # Errors
    ///
    /// At the first failure.
    pub fn query(&self, query: &str) -> Result<Vec<f32>, Error> {
        let known = |queries: &VecDeque<(String, Vec<f32>)>| {
            let found = queries.iter().find(|(text, _)| text == query);
            found.map(|(_, vector)| vector.clone())
        };
        if let Some(vector) = known(&self.queries()) {
            return Ok(vector);
        }
        let text = cut(&self.endpoint.query_prefix, query);
        let vector = self.ask(&[text], QUERY_MS_MAX)?.remove(0);
        let mut queries = self.queries();
        queries.truncate(QUERIES_MAX - 1);
        queries.push_front((query.to_owned(), vector.clone()));
        Ok(vector)
    }

    fn queries(&self) -> std::sync::MutexGuard<'_, VecDeque<(String, Vec<f32>)>> {
        self.queries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, texts: &[String], ms_max: u64) -> Result<Vec<Vec<f32>>, Error> {
        let model = &self.endpoint.model;
        let body = match self.endpoint.kind {
            Kind::Ollama => json!({ "model": model, "input": texts, "truncate": true }),
            Kind::OpenAi => json!({ "model": model, "input": texts, "encoding_format": "float" }),
        };
        let bytes = self
            .client
            .post(body.to_string(), Duration::from_millis(ms_max))?;
        let vectors = answer(self.endpoint.kind, &bytes)?;
        if vectors.len() != texts.len() {
            let what = format!("has {} vectors for {} texts", vectors.len(), texts.len());
            return Err(Error::Answer(what));
        }
        Ok(vectors)
    }
}

/// A prefix and as much of a text as is sent.
fn cut(prefix: &str, text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    format!("{prefix}{}", &text[..end])
}

/// The vectors of an answer in their order, each of length one.
///
/// # Errors
///
/// [`Error::Answer`].
pub fn answer(kind: Kind, bytes: &[u8]) -> Result<Vec<Vec<f32>>, Error> {
    read(kind, bytes)?.into_iter().map(unit).collect()
}

fn read(kind: Kind, bytes: &[u8]) -> Result<Vec<Vec<f32>>, Error> {
    let wrong =
        |error: serde_json::Error| Error::Answer(format!("is not what it should be: {error}"));
    match kind {
        Kind::Ollama => {
            let answer: OllamaAnswer = serde_json::from_slice(bytes).map_err(wrong)?;
            Ok(answer.embeddings)
        }
        Kind::OpenAi => {
            let mut answer: OpenAiAnswer = serde_json::from_slice(bytes).map_err(wrong)?;
            answer.data.sort_by_key(|one| one.index);
            if !answer
                .data
                .iter()
                .map(|one| one.index)
                .eq(0..answer.data.len())
            {
                return Err(Error::Answer("leaves texts out".to_owned()));
            }
            Ok(answer.data.into_iter().map(|one| one.embedding).collect())
        }
    }
}

/// A vector of length one in the same direction.
fn unit(mut vector: Vec<f32>) -> Result<Vec<f32>, Error> {
    if vector.is_empty() || vector.len() > DIMENSIONS_MAX {
        return Err(Error::Answer(format!(
            "has a vector of {} numbers",
            vector.len()
        )));
    }
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if !length.is_finite() || length <= f32::MIN_POSITIVE {
        return Err(Error::Answer("has a vector without direction".to_owned()));
    }
    vector.iter_mut().for_each(|x| *x /= length);
    Ok(vector)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_in_order_or_not_at_all() {
        let ollama = br#"{"model":"m","embeddings":[[3,4],[0,2]],"total_duration":5}"#;
        assert_eq!(
            read(Kind::Ollama, ollama).unwrap(),
            [[3.0, 4.0], [0.0, 2.0]]
        );
        let openai = br#"{"object":"list","data":[{"object":"embedding","index":1,"embedding":[2]},{"index":0,"embedding":[1]}],"usage":{}}"#;
        assert_eq!(read(Kind::OpenAi, openai).unwrap(), [[1.0], [2.0]]);
        let twice = br#"{"data":[{"index":0,"embedding":[2]},{"index":0,"embedding":[1]}]}"#;
        assert!(read(Kind::OpenAi, twice).is_err());
        for bad in [&b"{}"[..], b"[]", b"{\"embeddings\":[[\"x\"]]}", b"<html>"] {
            assert!(read(Kind::Ollama, bad).is_err());
        }
    }

    #[test]
    fn vectors_have_length_one() {
        assert_eq!(unit(vec![3.0, 4.0]).unwrap(), [0.6, 0.8]);
        for bad in [
            vec![],
            vec![0.0; 3],
            vec![f32::NAN],
            vec![1.0; DIMENSIONS_MAX + 1],
        ] {
            assert!(unit(bad).is_err());
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let text = "ä".repeat(TEXT_BYTES_MAX);
        let sent = cut("search_query: ", &text);
        assert!(sent.len() <= TEXT_BYTES_MAX + "search_query: ".len());
    }

    #[test]
    fn what_will_not_pass_is_not_tried_again() {
        let refused = |status| Error::Refused {
            status,
            after_ms: None,
        };
        assert!(refused(429).passes() && refused(503).passes());
        assert!(!refused(401).passes() && !refused(404).passes());
        let after = Error::Refused {
            status: 429,
            after_ms: Some(86_400_000),
        };
        assert_eq!(after.wait_ms(0), RETRY_AFTER_MS_MAX);
    }
}
