//! The key schedule: from what a handshake agreed on to the key and the nonce of one chunk.
//!
//! It exists so that every label of the protocol that is not HPKE's stands in one file. Each function is
//! one line of the specification; none keeps anything.

use aws_lc_rs::{digest, hkdf, hmac};
use zeroize::Zeroizing;

use crate::aead::Key;
use crate::head::part;
use crate::key::{SenderId, Sid};
use crate::suite::Suite;

/// 32 secret bytes.
pub(crate) type Secret = Zeroizing<[u8; 32]>;

/// H: SHA-256 of the parts, joined.
pub(crate) fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(part);
    }
    part(context.finish().as_ref(), 0)
}

/// HMAC-SHA256.
pub(crate) fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    part(hmac::sign(&key, text).as_ref(), 0)
}

/// A length that `hkdf` wants as a type.
struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand with SHA-256 (RFC 5869 §2.3).
fn expand<const N: usize>(secret: &[u8; 32], info: &[&[u8]]) -> Zeroizing<[u8; N]> {
    let mut out = Zeroizing::new([0; N]);
    hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, secret)
        .expand(info, Length(N))
        .and_then(|okm| okm.fill(&mut out[..]))
        .expect("HKDF-SHA256 expands to 8,160 bytes, and this is 32 at most");
    out
}

/// The key of mac1, made once for each of an inbound's keys and join tokens.
pub(crate) fn mac1_key(public: &[u8], token: &[u8]) -> [u8; 32] {
    hash(&[b"shr1 mac1", public, token])
}

/// What a handshake agreed on: HKDF-Extract with the transcript's hash as salt (RFC 5869 §2.2).
pub(crate) fn prk(th: &[u8; 32], secrets: [&[u8; 32]; 4]) -> Secret {
    let mut ikm = Zeroizing::new([0; 128]);
    for (into, secret) in ikm.chunks_exact_mut(32).zip(secrets) {
        into.copy_from_slice(secret);
    }
    Zeroizing::new(hmac(th, &ikm[..]))
}

/// The key of the reply's ct2.
pub(crate) fn reply_key(prk: &Secret) -> Secret {
    expand(prk, &[b"shr1 reply"])
}

/// The secret of the session that a reply begins.
pub(crate) fn session_secret(prk: &Secret) -> Secret {
    expand(prk, &[b"shr1 session"])
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Request,
    Response,
}

/// The secret of one direction of a session.
pub(crate) fn way_secret(session: &Secret, suite: Suite, sid: Sid, way: Way) -> Secret {
    let label: &[u8] = match way {
        Way::Request => b"shr1 req",
        Way::Response => b"shr1 rsp",
    };
    expand(session, &[label, &suite.number().to_be_bytes(), &sid.0])
}

/// The key and the IV of one sender.
pub(crate) fn sender_key(way: &Secret, suite: Suite, id: SenderId) -> (Key, [u8; 12]) {
    let (key, iv) = sender_bytes(way, id);
    (Key::new(suite.cipher(), &key), iv)
}

pub(crate) fn sender_bytes(way: &Secret, id: SenderId) -> (Secret, [u8; 12]) {
    (
        expand(way, &[b"key", &id.0]),
        *expand::<12>(way, &[b"iv", &id.0]),
    )
}

/// The nonce of one chunk: no two chunks of one sender have the same (ctr, i).
pub(crate) fn nonce(iv: &[u8; 12], ctr: u64, index: u32, last: bool) -> [u8; 12] {
    let low = u32::from(last) << 31 | index;
    let place = u128::from(ctr) << 32 | u128::from(low);
    let place = place.to_be_bytes();
    std::array::from_fn(|at| iv[at] ^ place[at + 4])
}
