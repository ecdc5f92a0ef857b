//! The store that replicas share where an answer has to come quickly: a Redis or a Valkey, spoken to by a small client
//! of our own (decision 0046).
//!
//! One pipelined connection a thread. What is asked is answered within [`base::limit::CACHE_ANSWER_MS_MAX`] or not at
//! all: a late answer is none, and whoever asked refuses. Each connection is examined before anything is asked on it
//! ([`examine`]): a store that forgets keys by itself, only copies another, or whose clock is another is not used. It
//! keeps nothing, retries nothing by itself, and knows nothing of what its users keep in it.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod dial;
mod examine;
mod link;
mod problem;
mod resp;
mod shared;
mod url;

pub use dial::CacheTls;
pub use examine::Examined;
pub use problem::{CacheProblem, NoCacheAnswer};
pub use resp::{CacheCommands, CacheReply, ReplyFault};
pub use shared::{CacheAnswer, CacheCounts, CacheState, SharedCache};
pub use url::CacheUrl;

#[doc(hidden)]
pub mod fuzzing {
    //! What the fuzzer reaches.

    /// Reads replies as a connection does, in pieces, and whole; both have to say the same. What examinations make of
    /// them must not panic.
    pub fn replies(bytes: &[u8]) {
        let whole = crate::resp::read(bytes);
        for cut in [1, 2, bytes.len() / 2] {
            let part = crate::resp::read(&bytes[..cut.min(bytes.len())]);
            if let (Ok(Some((reply, used))), Ok(Some((same, of)))) = (&part, &whole) {
                assert_eq!((reply, used), (same, of));
            }
        }
        if let Ok(Some((reply, used))) = whole {
            assert!(used <= bytes.len());
            crate::examine::fuzz(&reply);
        }
        if let Ok(text) = std::str::from_utf8(bytes) {
            let _ = crate::CacheUrl::parse(text);
        }
    }
}
