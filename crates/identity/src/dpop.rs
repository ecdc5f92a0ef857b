//! DPoP (RFC 9449): the proof that whoever sends a request has the key that its token is bound to.
//!
//! A proof is good for one request: its method, its URI, its token, one id, and a nonce of the process that takes it. The
//! nonce is stateless: an HMAC over the time by a key that each process draws at its start. So ids have to be unique in one
//! process alone, and a proof that was used before a restart, or at another process, meets `use_dpop_nonce` (RFC 9449 §8).

use std::sync::{PoisonError, RwLock};

use base::{Digest, JsonValue};

use crate::jose::{JoseError, date_ms, needed, string, to_base64url};
use crate::jws::{HeaderKey, SignedText};
use crate::key::sha256;
use crate::public_key::PublicKey;
use crate::uri::same_resource;

/// Largest proof, in bytes.
pub const PROOF_BYTES_MAX: usize = 6 << 10;
/// How old a proof may be, in milliseconds.
pub const PROOF_AGE_MS_MAX: u64 = 120_000;
/// How far its `iat` may be ahead, in milliseconds.
pub const PROOF_AHEAD_MS_MAX: u64 = 30_000;
/// How long a nonce is given out, in milliseconds; it is taken for as long again.
pub const NONCE_WINDOW_MS: u64 = 120_000;
/// Most characters of a `jti`.
const JTI_CHARS_MAX: usize = 256;

/// What a proof has to be for.
#[derive(Clone, Copy)]
pub struct ExpectedProof<'e> {
    pub method: &'e str,
    /// The URIs by which this resource is known: one has to be the proof's, without query and fragment.
    pub uris: &'e [String],
    /// The access token that comes with it; absent at the token endpoint.
    pub token: Option<&'e str>,
    /// Of the process that takes it.
    pub nonces: &'e NonceKey,
    pub now_unix_ms: u64,
}

/// A proof that is good, but for its id: whoever takes it has to see that the id is new.
#[derive(Clone, Debug)]
pub struct GoodProof {
    pub key: PublicKey,
    /// Names the id together with the key, in fixed size.
    pub once: Digest,
    /// Until when the id has to be remembered, in Unix milliseconds.
    pub until_unix_ms: u64,
}

/// Why a proof is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofError {
    /// It has no nonce, an old one, or one of another process: ask again with the one that is given.
    Nonce,
    /// It is no good proof.
    Bad(JoseError),
    /// It is for another method.
    Method,
    /// It is for another URI.
    Uri,
    /// It is for another access token.
    Token,
    /// It is too old, or from the future.
    Time,
}

impl From<JoseError> for ProofError {
    fn from(error: JoseError) -> ProofError {
        ProofError::Bad(error)
    }
}

impl std::fmt::Display for ProofError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProofError::Nonce => f.write_str("it has no nonce that this process gave lately"),
            ProofError::Bad(error) => error.fmt(f),
            ProofError::Method => f.write_str("its htm is another method"),
            ProofError::Uri => f.write_str("its htu is another URI"),
            ProofError::Token => f.write_str("its ath is of another token"),
            ProofError::Time => f.write_str("its iat is not now; look at the clocks"),
        }
    }
}

/// Checks a proof as RFC 9449 §4.3 asks, in its order.
///
/// # Errors
/// [`ProofError`].
pub fn check_proof(proof: &str, expected: &ExpectedProof<'_>) -> Result<GoodProof, ProofError> {
    if proof.len() > PROOF_BYTES_MAX {
        return Err(JoseError::TooLarge.into());
    }
    let mut text = SignedText::read(proof, HeaderKey::Needed)?;
    if text.header.typ.as_deref() != Some("dpop+jwt") {
        return Err(JoseError::Type.into());
    }
    let key = text.header.jwk.take();
    let key = key.ok_or(JoseError::Key("is missing in the header"))?;
    text.verify(&key)?;
    let json = text.claims()?;
    let id = check_claims(json.root(), expected)?;
    let once = sha256(&[&key.thumbprint().0[..], id.as_bytes()].concat());
    Ok(GoodProof {
        key,
        once,
        until_unix_ms: expected
            .now_unix_ms
            .saturating_add(PROOF_AGE_MS_MAX + PROOF_AHEAD_MS_MAX),
    })
}

/// The proof's id, once all other claims are good.
fn check_claims(claims: JsonValue<'_>, expected: &ExpectedProof<'_>) -> Result<String, ProofError> {
    let id = needed(claims, "jti")?;
    if id.is_empty() || id.len() > JTI_CHARS_MAX {
        return Err(JoseError::Claim("jti").into());
    }
    // Methods are case-sensitive (RFC 9110 §9.1).
    if needed(claims, "htm")? != expected.method {
        return Err(ProofError::Method);
    }
    let htu = needed(claims, "htu")?;
    if !expected.uris.iter().any(|uri| same_resource(&htu, uri)) {
        return Err(ProofError::Uri);
    }
    let issued = date_ms(claims, "iat")?.ok_or(JoseError::Claim("iat"))?;
    let token_hash = string(claims, "ath")?;
    match (expected.token, token_hash) {
        (Some(token), Some(hash)) if hash == to_base64url(&sha256(token.as_bytes()).0) => {}
        (None, None) => {}
        _ => return Err(ProofError::Token),
    }
    // A good nonce shows that the proof is fresh, and tells the client's clock nothing: the window of iat is for both.
    let now = expected.now_unix_ms;
    let is_now = issued <= now.saturating_add(PROOF_AHEAD_MS_MAX)
        && issued.saturating_add(PROOF_AGE_MS_MAX) >= now;
    let nonce = string(claims, "nonce")?;
    if !nonce.is_some_and(|nonce| expected.nonces.knows(&nonce, now)) {
        return Err(ProofError::Nonce);
    }
    match is_now {
        true => Ok(id.into_owned()),
        false => Err(ProofError::Time),
    }
}

/// What makes and knows the nonces of one process, or of those that share what was used.
pub struct NonceKey(RwLock<aws_lc_rs::hmac::Key>);

/// Bytes of the HMAC in a nonce.
const NONCE_MAC_BYTES: usize = 16;

impl NonceKey {
    /// Of 32 bytes that the caller drew from the system's random source at its start.
    pub fn new(random: &[u8; 32]) -> NonceKey {
        NonceKey(RwLock::new(hmac_key(random)))
    }

    /// Makes those of processes that have the same secret and the same store of used ids, in one run of that store:
    /// what was used before the store forgot it has another nonce.
    pub fn share(&self, secret: &[u8; 32], run: &str) {
        let of_run = [b"weir dpop nonce 1", run.as_bytes()].concat();
        let tag = aws_lc_rs::hmac::sign(&hmac_key(secret), &of_run);
        let mut key = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *key = hmac_key(tag.as_ref());
    }

    /// The nonce that is given out now.
    pub fn nonce(&self, now_unix_ms: u64) -> String {
        self.of_window(now_unix_ms / NONCE_WINDOW_MS)
    }

    fn of_window(&self, window: u64) -> String {
        let window = window.to_be_bytes();
        let key = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mac = aws_lc_rs::hmac::sign(&key, &window);
        to_base64url(&[&window[..], &mac.as_ref()[..NONCE_MAC_BYTES]].concat())
    }

    /// Whether this process gave it, in this window or the one before. A nonce is no secret, so it may be compared in
    /// any time.
    fn knows(&self, nonce: &str, now_unix_ms: u64) -> bool {
        let window = now_unix_ms / NONCE_WINDOW_MS;
        nonce == self.of_window(window) || window > 0 && nonce == self.of_window(window - 1)
    }
}

fn hmac_key(bytes: &[u8]) -> aws_lc_rs::hmac::Key {
    aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, bytes)
}

impl std::fmt::Debug for NonceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NonceKey")
    }
}

#[cfg(test)]
#[path = "dpop_tests.rs"]
mod tests;
