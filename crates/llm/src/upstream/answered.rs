//! What a provider answered: an answer that comes, one whose body was read already, or one that was kept from an earlier time.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use net::{SendError, UpstreamAnswer};
use serde_json::Value;

use crate::cache::CacheKey;

/// What providers say of a request that is too long for the model, in the code or the words of their errors.
const TOO_LONG: &[&str] = &[
    "context_length_exceeded",
    "context length",
    "context window",
    "maximum context",
    "prompt is too long",
    "input is too long",
    "exceeds the maximum number of tokens",
    "string_above_max_length",
];

/// An answer.
pub(crate) struct ProviderAnswer {
    /// Absent where it was kept.
    answer: Option<Box<UpstreamAnswer>>,
    fields: HeaderMap,
    read: Option<Bytes>,
    /// What it may be kept under.
    pub(crate) cache_key: Option<CacheKey>,
}

impl ProviderAnswer {
    /// One that comes.
    pub(crate) fn coming(answer: UpstreamAnswer) -> ProviderAnswer {
        ProviderAnswer {
            fields: HeaderMap::new(),
            answer: Some(Box::new(answer)),
            read: None,
            cache_key: None,
        }
    }

    /// The same, which may be kept under this.
    pub(crate) fn kept_under(self, cache_key: Option<CacheKey>) -> ProviderAnswer {
        ProviderAnswer { cache_key, ..self }
    }

    /// One that was kept, which was good.
    pub(crate) fn kept(body: Bytes) -> ProviderAnswer {
        let json = HeaderValue::from_static("application/json");
        ProviderAnswer {
            fields: HeaderMap::from_iter([(CONTENT_TYPE, json)]),
            answer: None,
            read: Some(body),
            cache_key: None,
        }
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.answer.is_none()
    }

    pub(crate) fn status(&self) -> StatusCode {
        let coming = self.answer.as_ref();
        coming.map_or(StatusCode::OK, |answer| answer.head.status)
    }

    pub(crate) fn fields(&self) -> &HeaderMap {
        let coming = self.answer.as_ref();
        coming.map_or(&self.fields, |answer| &answer.head.headers)
    }

    /// The answer as it comes, whose connection is used again; nothing where it was read.
    pub(crate) fn into_coming(self) -> Option<UpstreamAnswer> {
        let answer = self.answer.filter(|_| self.read.is_none());
        answer.map(|answer| *answer)
    }

    pub(crate) fn reuse(&mut self) {
        if let Some(answer) = &mut self.answer {
            answer.reuse();
        }
    }

    /// All of it, read at most once.
    ///
    /// # Errors
    /// As [`UpstreamAnswer::whole`].
    pub(crate) async fn whole(&mut self, bytes_max: usize, ms: u64) -> Result<Bytes, SendError> {
        if let Some(read) = &self.read {
            return Ok(read.clone());
        }
        let body = match &mut self.answer {
            Some(answer) => answer.whole(bytes_max, ms).await?,
            None => Bytes::new(),
        };
        self.read = Some(body.clone());
        Ok(body)
    }
}

/// Whether a provider's error says that the request is too long for its model: another model may take it.
pub(crate) fn is_too_long(body: &[u8]) -> bool {
    let Ok(said) = serde_json::from_slice::<Value>(body) else {
        return false;
    };
    let error = said.get("error").unwrap_or(&said);
    let texts = ["code", "message", "type", "status"];
    let texts = texts.iter().filter_map(|name| error[*name].as_str());
    let texts: Vec<String> = texts.map(str::to_ascii_lowercase).collect();
    TOO_LONG
        .iter()
        .any(|words| texts.iter().any(|text| text.contains(words)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_providers_words_for_a_request_that_is_too_long_are_known() {
        for body in [
            r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
            r#"{"error":{"code":400,"message":"The input token count (2000000) exceeds the maximum number of tokens allowed","status":"INVALID_ARGUMENT"}}"#,
            r#"{"message":"Input is too long for requested model."}"#,
        ] {
            assert!(is_too_long(body.as_bytes()), "{body}");
        }
        for body in [
            r#"{"error":{"message":"max_tokens is too large","code":null}}"#,
            "no",
            "[]",
        ] {
            assert!(!is_too_long(body.as_bytes()), "{body}");
        }
    }
}
