//! Whose tokens are taken: this gateway's own, and those of issuers that the operator names.
//!
//! It is a snapshot: what changes, such as the keys of an issuer, comes with another one. Own tokens that were checked are
//! remembered by their hash, so that the signature of each is verified once. It refuses an issuer whose keys are not at hand.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::{Digest, Name};

use crate::access::AccessToken;
use crate::dpop::NonceKey;
use crate::jose::{JoseError, needed, strict_object};
use crate::jws::{HeaderKey, KeySet, SignedText};
use crate::jwt::{CheckedClaims, ExpectedClaims};
use crate::key::sha256;

/// Tokens that are remembered as checked; when there are as many, all are forgotten.
pub const CHECKED_TOKENS_MAX: usize = 8192;
/// How long a token of an outside issuer may be good, in milliseconds.
pub const OUTSIDE_LIFE_MS_MAX: u64 = 86_400_000;
/// Segments of a path that a token's audience may name.
const AUDIENCE_SEGMENTS_MAX: usize = 16;

/// Whose tokens are taken, and by which names this gateway is known to clients.
pub struct TokenTrust {
    /// The issuer of own tokens.
    pub issuer: String,
    /// By which the gateway is reached: scheme, host and port; the first is told to clients.
    pub origins: Vec<String>,
    /// The keys of own tokens: the one that signs now, and those before.
    pub keys: KeySet,
    pub nonces: Arc<NonceKey>,
    /// How long own tokens are good at most, in milliseconds.
    pub life_ms_max: u64,
    pub outside: Vec<OutsideIssuer>,
    checked: Mutex<HashMap<Digest, Arc<AccessToken>>>,
}

/// An issuer that the operator named.
#[derive(Clone, Debug)]
pub struct OutsideIssuer {
    pub name: Name,
    /// Its URL, as its tokens have it in `iss`.
    pub issuer: String,
    /// What its tokens have to have in `aud`.
    pub audience: String,
    /// Nothing while its keys cannot be had.
    pub keys: Option<Arc<KeySet>>,
    /// The claim that names who calls.
    pub claim: String,
    /// Which agent each value of that claim is.
    pub agents: Vec<(String, Name)>,
    /// Set when a token names a key that is not among the keys: the issuer may have new ones. Who fetches them takes it back.
    pub is_key_sought: Arc<AtomicBool>,
}

/// A token of an outside issuer, whose signature and claims are good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideToken {
    pub claims: CheckedClaims,
    /// The agent that it is mapped to, and the digest that names this mapping.
    pub agent: Option<(Name, Digest)>,
    pub binding: Option<crate::access::TokenBinding>,
    pub scopes: Vec<String>,
}

/// The digest that stands for a subject of an outside issuer, as that of a key stands for the key.
pub fn subject_digest(issuer: &str, subject: &str) -> Digest {
    sha256(format!("issuer {} {issuer} {subject}", issuer.len()).as_bytes())
}

/// The digest that stands for whoever has a certificate with this SPIFFE id.
pub fn spiffe_digest(id: &str) -> Digest {
    sha256(format!("spiffe {id}").as_bytes())
}

impl TokenTrust {
    pub fn new(
        issuer: String,
        origins: Vec<String>,
        keys: KeySet,
        nonces: Arc<NonceKey>,
    ) -> TokenTrust {
        TokenTrust {
            issuer,
            origins,
            keys,
            nonces,
            life_ms_max: 3_600_000,
            outside: Vec::new(),
            checked: Mutex::default(),
        }
    }

    /// The URIs by which a path here is known.
    pub fn uris(&self, path: &str) -> Vec<String> {
        let origins = self.origins.iter();
        origins.map(|origin| format!("{origin}{path}")).collect()
    }

    /// Reads an own token for the resource at this path. Its audience is the gateway, or a URL at or above the path.
    ///
    /// # Errors
    /// [`JoseError`].
    pub fn own(
        &self,
        text: &str,
        path: &str,
        now_unix_ms: u64,
    ) -> Result<Arc<AccessToken>, JoseError> {
        let audiences = self.audiences(path);
        let audiences: Vec<&str> = audiences.iter().map(String::as_str).collect();
        let expected = ExpectedClaims {
            issuer: &self.issuer,
            audiences: &audiences,
            life_ms_max: self.life_ms_max,
            now_unix_ms,
        };
        let name = sha256(&[text.as_bytes(), b" ", path.as_bytes()].concat());
        let known = self.lock().get(&name).cloned();
        if let Some(known) = known {
            return match known.claims.expires_unix_ms <= now_unix_ms {
                true => Err(JoseError::Expired),
                false => Ok(known),
            };
        }
        let token = Arc::new(AccessToken::read(text, &self.keys, &expected)?);
        let mut checked = self.lock();
        if checked.len() >= CHECKED_TOKENS_MAX {
            checked.clear();
        }
        checked.insert(name, Arc::clone(&token));
        Ok(token)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Digest, Arc<AccessToken>>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a token for this path may name as its audience (RFC 8707 §2): an origin of the gateway, or a URL whose path
    /// is this one or above it.
    fn audiences(&self, path: &str) -> Vec<String> {
        let mut audiences = vec![self.issuer.clone()];
        for origin in &self.origins {
            audiences.push(origin.clone());
            audiences.push(format!("{origin}/"));
            let ends = path
                .match_indices('/')
                .map(|(at, _)| at)
                .filter(|at| *at > 0);
            let ends = ends.chain([path.len()]).take(AUDIENCE_SEGMENTS_MAX);
            audiences.extend(ends.map(|end| format!("{origin}{}", &path[..end])));
        }
        audiences
    }

    /// The issuer of this URL.
    pub fn outside(&self, issuer: &str) -> Option<&OutsideIssuer> {
        self.outside.iter().find(|outside| outside.issuer == issuer)
    }
}

impl std::fmt::Debug for TokenTrust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenTrust")
            .field("issuer", &self.issuer)
            .field("origins", &self.origins)
            .finish_non_exhaustive()
    }
}

impl OutsideIssuer {
    /// Reads a token of this issuer; nothing where its keys are not at hand.
    ///
    /// # Errors
    /// [`JoseError`].
    pub fn read(&self, text: &str, now_unix_ms: u64) -> Option<Result<OutsideToken, JoseError>> {
        let keys = self.keys.as_ref()?;
        Some(self.read_by(keys, text, now_unix_ms))
    }

    fn read_by(
        &self,
        keys: &KeySet,
        text: &str,
        now_unix_ms: u64,
    ) -> Result<OutsideToken, JoseError> {
        let signed = SignedText::read(text, HeaderKey::Refused)?;
        // A DPoP proof, or a token for another purpose, is no token (RFC 8725 §3.11).
        let is_token = |typ: &str| matches!(typ, "jwt" | "at+jwt");
        if !signed.header.typ.as_deref().is_none_or(is_token) {
            return Err(JoseError::Type);
        }
        if let Err(error) = keys.verify(&signed) {
            if error == JoseError::KeyUnknown {
                self.is_key_sought.store(true, Ordering::Relaxed);
            }
            return Err(error);
        }
        let json = strict_object(signed.payload())?;
        let root = json.root();
        let expected = ExpectedClaims {
            issuer: &self.issuer,
            audiences: &[&self.audience],
            life_ms_max: OUTSIDE_LIFE_MS_MAX,
            now_unix_ms,
        };
        let claims = expected.check(root)?;
        let who = root.get(&self.claim).and_then(|value| value.as_str());
        let agent = self
            .agents
            .iter()
            .find(|(value, _)| who.as_deref() == Some(value));
        // `cid` and `scp` are other dialects; `scope` is RFC 8693's.
        let scopes = match root.get("scope") {
            Some(_) => crate::access::scopes(root)?,
            None => Vec::new(),
        };
        let _ = needed(root, "iss")?;
        Ok(OutsideToken {
            agent: agent.map(|(value, name)| (name.clone(), subject_digest(&self.issuer, value))),
            binding: crate::access::binding(root)?,
            scopes,
            claims,
        })
    }
}
