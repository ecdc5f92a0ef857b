//! Answers that are kept for the same request of the same agent: off where the configuration names no agent.
//!
//! The key is a hash over the agent, the provider, the model and all of the request as the provider would get it but for the credential, so
//! that no other agent, and no request that differs in one byte, can be served from it. What is kept is the provider's answer as it came:
//! it is judged anew each time that it is given, by the rules of that time. Streams, stored responses and failures are not kept.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::digest::{Context, SHA256};
use base::Name;
use bytes::Bytes;
use http::Request;

use crate::route::Candidate;

/// Most answers that are kept, however small they are.
const ANSWERS_MAX: usize = 65_536;

/// What the configuration says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerCacheSettings {
    /// The agents whose answers are kept.
    pub agents: Vec<Name>,
    pub keep_ms: u64,
    pub bytes_max: usize,
}

/// What an answer is kept under.
pub(crate) type CacheKey = [u8; 32];

/// The answers that are kept, for all threads.
pub(crate) struct AnswerCache {
    settings: AnswerCacheSettings,
    table: Mutex<CacheTable>,
}

#[derive(Default)]
struct CacheTable {
    answers: HashMap<CacheKey, (Bytes, u64)>,
    /// The oldest first.
    order: VecDeque<CacheKey>,
    bytes: usize,
}

impl AnswerCache {
    pub(crate) fn new(settings: AnswerCacheSettings) -> AnswerCache {
        AnswerCache {
            settings,
            table: Mutex::default(),
        }
    }

    /// What the answer to this request is kept under; nothing of an agent that has none kept.
    pub(crate) fn key(
        &self,
        agent: &Name,
        candidate: &Candidate,
        provider: &Name,
        request: &Request<Bytes>,
    ) -> Option<CacheKey> {
        self.settings.agents.contains(agent).then_some(())?;
        let mut hash = Context::new(&SHA256);
        let mut part = |bytes: &[u8]| {
            // With its length, so that no two parts are taken for two others.
            hash.update(&(bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        part(agent.as_str().as_bytes());
        part(provider.as_str().as_bytes());
        part(candidate.model.as_bytes());
        part(candidate.wire.name.as_bytes());
        part(request.method().as_str().as_bytes());
        part(request.uri().to_string().as_bytes());
        for (name, value) in request.headers() {
            // A credential, and when it was signed.
            if !value.is_sensitive() && name.as_str() != "x-amz-date" {
                part(name.as_str().as_bytes());
                part(value.as_bytes());
            }
        }
        part(request.body());
        hash.finish().as_ref().try_into().ok()
    }

    pub(crate) fn find(&self, key: &CacheKey, now_ms: u64) -> Option<Bytes> {
        let table = self.lock();
        let (body, until_ms) = table.answers.get(key)?;
        (now_ms < *until_ms).then(|| body.clone())
    }

    pub(crate) fn keep(&self, key: CacheKey, body: &Bytes, now_ms: u64) {
        let AnswerCacheSettings {
            keep_ms, bytes_max, ..
        } = self.settings;
        if body.len() > bytes_max {
            return;
        }
        let mut table = self.lock();
        if let Some((old, _)) = table.answers.remove(&key) {
            table.bytes -= old.len();
            table.order.retain(|known| *known != key);
        }
        while table.bytes + body.len() > bytes_max || table.answers.len() >= ANSWERS_MAX {
            let Some(oldest) = table.order.pop_front() else {
                break;
            };
            if let Some((old, _)) = table.answers.remove(&oldest) {
                table.bytes -= old.len();
            }
        }
        table.bytes += body.len();
        table.order.push_back(key);
        let until_ms = now_ms.saturating_add(keep_ms);
        // A piece of a larger buffer would keep all of that.
        let body = Bytes::copy_from_slice(body);
        table.answers.insert(key, (body, until_ms));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, CacheTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    fn cache(bytes_max: usize) -> AnswerCache {
        AnswerCache::new(AnswerCacheSettings {
            agents: ["a", "b"].map(|name| Name::new(name).unwrap()).to_vec(),
            keep_ms: 100,
            bytes_max,
        })
    }

    #[test]
    fn a_key_is_of_one_agent_and_one_request() {
        let cache = cache(100);
        let name = |name: &str| Name::new(name).unwrap();
        let key = |agent: &str, provider: &str, model: &str, body: &'static str, field: &str| {
            let candidate = Candidate {
                provider: 0,
                model: model.to_owned(),
                wire: &wire::CHAT_COMPLETIONS,
                conversion: None,
            };
            let request = Request::post("/x").header("beta", field);
            let request = request.body(Bytes::from(body)).unwrap();
            cache.key(&name(agent), &candidate, &name(provider), &request)
        };
        let one = key("a", "p", "m", "body", "f").unwrap();
        assert_eq!(key("a", "p", "m", "body", "f"), Some(one));
        for other in [
            key("b", "p", "m", "body", "f"),
            key("a", "q", "m", "body", "f"),
            key("a", "p", "n", "body", "f"),
            key("a", "p", "m", "body ", "f"),
            key("a", "p", "m", "body", "g"),
            key("a", "pm", "", "body", "f"),
        ] {
            assert_ne!(other.unwrap(), one);
        }
        assert_eq!(key("c", "p", "m", "body", "f"), None);
    }

    #[test]
    fn what_is_kept_is_bounded_in_time_and_bytes() {
        let cache = cache(10);
        let body = |text: &'static str| Bytes::from(text);
        cache.keep([1; 32], &body("12345"), 0);
        cache.keep([2; 32], &body("12345"), 0);
        assert_eq!(cache.find(&[1; 32], 99), Some(body("12345")));
        assert_eq!(cache.find(&[1; 32], 100), None);
        cache.keep([1; 32], &body("123"), 50);
        cache.keep([3; 32], &body("123"), 50);
        assert_eq!((cache.find(&[2; 32], 60), cache.lock().bytes), (None, 6));
        cache.keep([4; 32], &body("12345678901"), 50);
        assert_eq!(
            (cache.find(&[4; 32], 60), cache.lock().answers.len()),
            (None, 2)
        );
    }
}
