//! What an expression cannot say about a match: sums, entropy, and whether a value stands for another.
//!
//! A check looks at one match and nothing else.

pub(crate) mod base58;
mod bech32;
mod value;

use crate::entropy::entropy;

/// Decides whether a match is what its rule looks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Check {
    /// At least this many bits of Shannon entropy a byte.
    pub(crate) entropy: Option<f32>,
    pub(crate) test: Option<Test>,
}

impl Check {
    pub(crate) fn passes(self, text: &[u8]) -> bool {
        self.entropy.is_none_or(|floor| entropy(text) >= floor)
            && self.test.is_none_or(|test| test.passes(text))
    }
}

/// A test that looks at one match, by the name that pattern files give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    /// ISO/IEC 7812-1 annex B, over the digits of the match.
    Luhn,
    /// ISO 13616-1, over the letters and digits of the match: mod 97.
    Iban,
    /// The sum of Base58Check, over a payload of a length that is in use.
    Base58,
    /// The sum of Bech32 or Bech32m.
    Bech32,
    /// A number of 64 hex digits that can be a private key on the curve secp256k1.
    Secp256k1,
    /// A key or token, not a name or a template.
    Random,
    /// Letters and digits, or both cases: a key of a form that its rule knows.
    Mixed,
    /// A password, not one of documentation.
    Password,
    /// A password that may be one of documentation.
    WeakPassword,
    /// A password in a URL, not one of documentation.
    UrlPassword,
    /// `user:password@host`, not one of documentation.
    Login,
    /// Not a template such as `YOUR_TOKEN`.
    Filled,
}

impl Test {
    pub(crate) const ALL: [Test; 12] = [
        Test::Luhn,
        Test::Iban,
        Test::Base58,
        Test::Bech32,
        Test::Secp256k1,
        Test::Random,
        Test::Mixed,
        Test::Password,
        Test::WeakPassword,
        Test::UrlPassword,
        Test::Login,
        Test::Filled,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Test::Luhn => "luhn",
            Test::Iban => "iban",
            Test::Base58 => "base58",
            Test::Bech32 => "bech32",
            Test::Secp256k1 => "secp256k1",
            Test::Random => "random",
            Test::Mixed => "mixed",
            Test::Password => "password",
            Test::WeakPassword => "weak_password",
            Test::UrlPassword => "url_password",
            Test::Login => "login",
            Test::Filled => "filled",
        }
    }

    fn passes(self, text: &[u8]) -> bool {
        match self {
            Test::Luhn => luhn(text),
            Test::Iban => iban(text),
            Test::Base58 => base58::holds(text),
            Test::Bech32 => bech32::holds(text),
            Test::Secp256k1 => secp256k1(text),
            Test::Random => value::random(text),
            Test::Mixed => value::mixed(text),
            Test::Password => value::password(text),
            Test::WeakPassword => value::weak_password(text),
            Test::UrlPassword => value::url_password(text),
            Test::Login => value::login(text),
            Test::Filled => !value::template(text),
        }
    }
}

pub(crate) fn luhn(text: &[u8]) -> bool {
    let digits = text
        .iter()
        .rev()
        .filter(|b| b.is_ascii_digit())
        .map(|b| u32::from(b - b'0'));
    let mut sum = 0;
    let mut seen = [false; 10];
    for (i, digit) in digits.enumerate() {
        seen[digit as usize] = true;
        let weighted = if i % 2 == 1 { digit * 2 } else { digit };
        sum += weighted / 10 + weighted % 10;
    }
    // One digit repeated is nobody's card, whatever its sum.
    sum % 10 == 0 && !near_power(text) && seen.iter().filter(|seen| **seen).count() > 1
}

/// Whether a number is a little more or less than a power of two: a constant of arithmetic.
fn near_power(text: &[u8]) -> bool {
    const NEAR: u64 = 1 << 12;
    let number = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.is_some_and(|number: u64| {
        let power = number.checked_add(NEAR).map(|above| 1u64 << above.ilog2());
        power.is_some_and(|power| number.abs_diff(power) <= NEAR)
    })
}

/// The first four characters go to the end, and a letter counts as its place in the alphabet plus nine.
fn iban(text: &[u8]) -> bool {
    let mut characters = text.iter().filter(|byte| byte.is_ascii_alphanumeric());
    let first: Vec<u8> = characters.by_ref().take(4).copied().collect();
    let mut sum = 0;
    for byte in characters.copied().chain(first) {
        let value = char::from(byte).to_digit(36).unwrap_or(0);
        sum = if value < 10 {
            sum * 10 + value
        } else {
            sum * 100 + value
        } % 97;
    }
    sum == 1
}

/// SEC 2 section 2.4.1: from one to the order of the group. A padded address or a small number is no key.
fn secp256k1(text: &[u8]) -> bool {
    const ORDER: &[u8; 64] = b"fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
    let digits = text
        .strip_prefix(b"0x")
        .unwrap_or(text)
        .to_ascii_lowercase();
    digits.len() == 64
        && digits[..] < ORDER[..]
        && !digits.starts_with(b"00000000")
        && entropy(&digits) >= 2.8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn luhn_tells_a_wrong_digit() {
        assert!(luhn(b"4111 1111 1111 1111"));
        assert!(!luhn(b"4111 1111 1111 1112"));
        assert!(!luhn(b"0000 0000 0000 0000"));
        assert!(!luhn(b"4503599627370443") && !luhn(b"4503599627370518"));
        assert!(luhn(b"4503599627379501"));
    }

    #[test]
    fn iban_tells_a_wrong_digit() {
        assert!(iban(b"GB82 WEST 1234 5698 7654 32"));
        assert!(iban(b"de89370400440532013000"));
        assert!(!iban(b"GB82 WEST 1234 5698 7654 23"));
    }

    #[test]
    fn a_private_number_is_told_from_a_padded_one() {
        assert!(secp256k1(
            b"0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
        ));
        assert!(!secp256k1(
            b"0x000000000000000000000000d8da6bf26964af9d7eed9e03e53415d37aa96045"
        ));
        assert!(!secp256k1(&[b'f'; 64]));
    }
}
