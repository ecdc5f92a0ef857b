//! What an expression cannot say about a match: sums and entropy.
//!
//! A check looks at one match and nothing else.

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
}

impl Test {
    pub(crate) const ALL: [Test; 1] = [Test::Luhn];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Test::Luhn => "luhn",
        }
    }

    fn passes(self, text: &[u8]) -> bool {
        match self {
            Test::Luhn => luhn(text),
        }
    }
}

fn luhn(text: &[u8]) -> bool {
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
    sum % 10 == 0 && seen.iter().filter(|seen| **seen).count() > 1
}

pub(crate) fn entropy(text: &[u8]) -> f32 {
    let mut counts = [0u32; 256];
    for byte in text {
        counts[usize::from(*byte)] += 1;
    }
    let total = text.len().max(1) as f32;
    let shares = counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| *count as f32 / total);
    shares.map(|share| -share * share.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn luhn_tells_a_wrong_digit() {
        assert!(luhn(b"4111 1111 1111 1111"));
        assert!(!luhn(b"4111 1111 1111 1112"));
        assert!(!luhn(b"0000 0000 0000 0000"));
    }

    #[test]
    fn entropy_tells_noise_from_repetition() {
        assert!(entropy(b"aaaaaaaaaaaaaaaa") < 0.01);
        assert!((entropy(b"abcdefghijklmnop") - 4.0).abs() < 0.01);
        assert!(entropy(b"") < 0.01);
    }
}
