//! Whether a request carries what it must, to test how a generator and a gateway authenticate.

use base::Secret;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};

/// What a request must carry.
#[derive(Clone)]
pub enum Auth {
    /// `Authorization: Bearer …`, or `x-api-key: …` as Anthropic's clients send it.
    Bearer(Secret),
    /// `Authorization: Basic …` with this `user:password`.
    Basic(Secret),
}

/// [`Auth`], made ready to be compared.
pub(super) struct Guard {
    authorization: [u8; 32],
    api_key: Option<[u8; 32]>,
    challenge: &'static str,
}

impl Guard {
    pub(super) fn new(auth: &Auth) -> Guard {
        match auth {
            Auth::Bearer(token) => Guard {
                authorization: digest(format!("Bearer {}", token.expose()).as_bytes()),
                api_key: Some(digest(token.expose().as_bytes())),
                challenge: "Bearer",
            },
            Auth::Basic(pair) => Guard {
                authorization: digest(
                    format!("Basic {}", STANDARD.encode(pair.expose())).as_bytes(),
                ),
                api_key: None,
                challenge: "Basic realm=\"lab\"",
            },
        }
    }

    /// Whether the headers carry it. Digests are compared, so the time says nothing of the secret.
    pub(super) fn admits(&self, headers: &HeaderMap) -> bool {
        let same = |name: &str, wanted: &[u8; 32]| {
            headers
                .get(name)
                .is_some_and(|value| digest(value.as_bytes()) == *wanted)
        };
        same(AUTHORIZATION.as_str(), &self.authorization)
            || self
                .api_key
                .is_some_and(|wanted| same("x-api-key", &wanted))
    }

    /// The value of `WWW-Authenticate`.
    pub(super) fn challenge(&self) -> &'static str {
        self.challenge
    }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}
