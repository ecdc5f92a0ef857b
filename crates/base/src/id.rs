//! Names and identifiers as types of their own, so that one cannot be passed for another.

use std::fmt;
use std::sync::Arc;

use crate::hex;

/// A name from the configuration: of an agent, a group or a server.
///
/// 1 to 64 characters of `a-z A-Z 0-9 . _ -`, the first a letter or a digit, so that it can stand in a
/// path, a label, a policy and a record without escaping.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl Name {
    pub const CHARS_MAX: usize = 64;

    /// The name, or nothing if the text cannot be one.
    pub fn new(text: &str) -> Option<Name> {
        let first = text.bytes().next()?.is_ascii_alphanumeric();
        let rest = text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        let is_name = first && rest && text.len() <= Name::CHARS_MAX;
        // Names stand in records and on pages. A key that was sent in the place of one must not.
        (is_name && !crate::secret::holds_own(text)).then(|| Name(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// One call's identifier: 128 random bits, written as 32 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallId(pub [u8; 16]);

impl CallId {
    /// Reads 32 hex digits, of either case.
    pub fn from_hex(text: &str) -> Option<CallId> {
        hex::decode(text).map(CallId)
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        put(f, &self.0)
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        put(f, &self.0)
    }
}

/// A SHA-256 value, written as 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Reads 64 hex digits, of either case.
    pub fn from_hex(text: &str) -> Option<Digest> {
        hex::decode(text).map(Digest)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        put(f, &self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        put(f, &self.0)
    }
}

/// Writes the digits of at most 32 bytes at once.
fn put(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let mut text = [0; 64];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair.copy_from_slice(&hex::pair(*byte));
    }
    f.write_str(std::str::from_utf8(&text[..bytes.len() * 2]).expect("hex digits are ASCII"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_safe_in_a_path() {
        for good in ["a", "files", "dev-1", "9lives", "a.b_c", &"x".repeat(64)] {
            assert!(Name::new(good).is_some(), "{good}");
        }
        for bad in ["", ".", "-a", "a/b", "a b", "ü", "a\n", &"x".repeat(65)] {
            assert!(Name::new(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_digest_reads_what_it_writes() {
        let digest = Digest(std::array::from_fn(|i| (i * 7) as u8));
        assert_eq!(Digest::from_hex(&digest.to_string()), Some(digest));
        assert_eq!(Digest::from_hex("00"), None);
        assert_eq!(Digest::from_hex(&"g".repeat(64)), None);
    }
}
