//! An API key as text: `weir_` and 256 random bits.
//!
//! It exists so that a key is made and read in one place. It refuses every text but the one that
//! [`new_key`] would write, so that one key has one digest.

use base::{Digest, Secret};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// What each key begins with, so that a leaked one is found by a search.
const PREFIX: &str = "weir_";
/// Characters after the prefix: 256 bits in base64url without padding.
const CHARS: usize = 43;

/// Reads a key and gives the SHA-256 of its whole text, prefix included.
///
/// Nothing if the text is not `weir_` and 43 characters of base64url (RFC 4648 §5) that stand for
/// exactly 256 bits: the last two bits that 43 characters have to spare are zero.
pub fn key_digest(text: &str) -> Option<Digest> {
    let body = text
        .strip_prefix(PREFIX)
        .filter(|body| body.len() == CHARS)?;
    // base64 wants room for whole groups of three bytes.
    let mut bytes = [0; 33];
    let length = URL_SAFE_NO_PAD.decode_slice(body, &mut bytes).ok()?;
    (length == 32).then(|| sha256(text.as_bytes()))
}

/// Makes a key of 32 bytes that the caller drew from the system's random source.
///
/// Gives the text, to be shown once, and the digest, which is all that is stored. A plain SHA-256 is
/// enough here: slow hashes protect what can be guessed, and 256 random bits cannot.
pub fn new_key(random: [u8; 32]) -> (Secret, Digest) {
    let text = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
    let digest = sha256(text.as_bytes());
    (Secret::new(text), digest)
}

pub(crate) fn sha256(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_reads_as_its_own_digest() {
        for random in [[0; 32], [0xff; 32], std::array::from_fn(|i| (i * 37) as u8)] {
            let (text, digest) = new_key(random);
            assert_eq!(text.expose().len(), PREFIX.len() + CHARS);
            assert_eq!(key_digest(text.expose()), Some(digest));
        }
    }

    #[test]
    fn the_digest_is_sha256_of_the_whole_text() {
        // printf weir_AAA…A (43 A) | sha256sum
        let text = format!("weir_{}", "A".repeat(43));
        let known = "17a6f629df918980374b824dad37f2ccadd82bf2047cc9304f4b25d28d56e9f7";
        assert_eq!(key_digest(&text).unwrap().to_string(), known);
    }

    #[test]
    fn only_the_canonical_text_is_a_key() {
        let good = "A".repeat(43);
        assert!(key_digest(&format!("weir_{good}")).is_some());
        let a = |n: usize| "A".repeat(n);
        for bad in [
            String::new(),
            "weir_".into(),
            good.clone(),
            format!("weir_{}", a(42)),
            format!("weir_{}", a(44)),
            format!("WEIR_{good}"),
            format!("weir-{good}"),
            format!(" weir_{good}"),
            format!("weir_{good} "),
            format!("weir_{}=", a(42)),
            format!("weir_{}+", a(42)),
            format!("weir_{}/A", a(41)),
            format!("weir_{} A", a(41)),
            // The spare bits are set: the same 256 bits, written another way.
            format!("weir_{}B", a(42)),
            // 43 bytes, of which two are one character.
            format!("weir_{}é", a(41)),
        ] {
            assert!(key_digest(&bad).is_none(), "{bad:?}");
        }
    }
}
