//! Bech32 and Bech32m: the addresses of segregated witness.
//!
//! It answers only whether the sum holds. Sources: BIP-173 and BIP-350.

const ALPHABET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
const GENERATORS: [u32; 5] = [
    0x3b6a_57b2,
    0x2650_8e6d,
    0x1ea1_19fa,
    0x3d42_33dd,
    0x2a14_62b3,
];
/// What remains of a true Bech32 text, and of a true Bech32m one.
const REMAINDERS: [u32; 2] = [1, 0x2bc8_30a3];
/// Characters of the longest text.
const TEXT_BYTES_MAX: usize = 90;

/// Whether a text of one letter case has its true sum.
pub(super) fn holds(text: &[u8]) -> bool {
    let lower = text.iter().all(|byte| !byte.is_ascii_uppercase());
    let upper = text.iter().all(|byte| !byte.is_ascii_lowercase());
    let separator = text.iter().rposition(|byte| *byte == b'1');
    let Some(separator) = separator.filter(|_| lower || upper) else {
        return false;
    };
    let (prefix, data) = (&text[..separator], &text[separator + 1..]);
    if text.len() > TEXT_BYTES_MAX || data.len() < 6 {
        return false;
    }
    let prefix = prefix.iter().map(|byte| u32::from(byte | 0x20));
    let mut sum = prefix.clone().map(|byte| byte >> 5).fold(1, step);
    sum = prefix.map(|byte| byte & 31).fold(step(sum, 0), step);
    for byte in data {
        let byte = byte.to_ascii_lowercase();
        let Some(value) = ALPHABET.iter().position(|known| *known == byte) else {
            return false;
        };
        sum = step(sum, value as u32);
    }
    REMAINDERS.contains(&sum)
}

fn step(sum: u32, value: u32) -> u32 {
    let top = sum >> 25;
    let next = (sum & 0x01ff_ffff) << 5 ^ value;
    let used = (0..5).filter(|bit| top >> bit & 1 == 1);
    used.fold(next, |sum, bit| sum ^ GENERATORS[bit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_holds_for_the_standards_examples_and_nothing_near() {
        for good in [
            "A12UEL5L",
            "a1lqfn3a",
            "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4",
            "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
        ] {
            assert!(holds(good.as_bytes()), "{good}");
        }
        for bad in [
            "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5",
            "bc1QW508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
            "bc1q",
            "1",
            "",
        ] {
            assert!(!holds(bad.as_bytes()), "{bad}");
        }
    }
}
