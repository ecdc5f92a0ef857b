//! Base58 with a checksum: keys and addresses of Bitcoin and of what came from it.
//!
//! It answers whether the sum holds over a payload of a length that is in use; texts are decoded by it too.
//! Source: <https://en.bitcoin.it/wiki/Base58Check_encoding>.

use sha2::{Digest as _, Sha256};

const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
/// Bytes of the longest payload: an extended key with its sum.
pub(crate) const DECODED_BYTES_MAX: usize = 82;
/// Characters of the longest text that is decoded.
const TEXT_BYTES_MAX: usize = 113;
/// Characters whose number a word of the machine holds, and words that the longest payload takes.
const DIGITS: usize = 10;
const WORD_BYTES: usize = size_of::<u64>();
const WORDS: usize = DECODED_BYTES_MAX.div_ceil(WORD_BYTES);
/// The value of each character.
const VALUES: [Option<u8>; 256] = {
    let mut values = [None; 256];
    let mut value = 0;
    while value < ALPHABET.len() {
        values[ALPHABET[value] as usize] = Some(value as u8);
        value += 1;
    }
    values
};
/// Bytes before the sum: an address; a private key, uncompressed and compressed; an extended key.
const PAYLOADS: [usize; 4] = [21, 33, 34, 78];

/// Whether a character stands for a digit of Base58.
pub(crate) fn is_digit(byte: u8) -> bool {
    VALUES[usize::from(byte)].is_some()
}

/// Whether the text decodes to a payload of a known length with its true sum.
pub(super) fn holds(text: &[u8]) -> bool {
    let mut buffer = [0u8; DECODED_BYTES_MAX];
    let Some(length) = decode(text, &mut buffer) else {
        return false;
    };
    let decoded = &buffer[DECODED_BYTES_MAX - length..];
    let Some(payload) = length.checked_sub(4).filter(|n| PAYLOADS.contains(n)) else {
        return false;
    };
    let hash = Sha256::digest(Sha256::digest(&decoded[..payload]));
    hash[..4] == decoded[payload..]
}

/// Decodes to the end of the buffer; answers how many bytes, leading zeros and all.
///
/// As many characters as a word holds are taken at once, so that a long number costs as many steps as it has words.
pub(crate) fn decode(text: &[u8], buffer: &mut [u8; DECODED_BYTES_MAX]) -> Option<usize> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    // The number, its lowest word first.
    let (mut words, mut used) = ([0u64; WORDS], 0);
    for digits in text.chunks(DIGITS) {
        let (mut times, mut carry) = (1u64, 0u64);
        for byte in digits {
            carry = carry * 58 + u64::from(VALUES[usize::from(*byte)]?);
            times *= 58;
        }
        for word in &mut words[..used] {
            let product = u128::from(*word) * u128::from(times) + u128::from(carry);
            (*word, carry) = (product as u64, (product >> u64::BITS) as u64);
        }
        if carry > 0 {
            *words.get_mut(used)? = carry;
            used += 1;
        }
    }
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    let bytes = bytes.chain(std::iter::repeat(0));
    for (place, byte) in buffer.iter_mut().rev().zip(bytes) {
        *place = byte;
    }
    let over = words[WORDS - 1] >> (8 * (DECODED_BYTES_MAX % WORD_BYTES));
    let ones = text.iter().take_while(|byte| **byte == b'1').count();
    let zeros = buffer.iter().take_while(|byte| **byte == 0).count();
    let length = DECODED_BYTES_MAX - zeros + ones;
    (over == 0 && length <= DECODED_BYTES_MAX).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_holds_for_what_is_known_and_for_nothing_near() {
        for good in [
            "1BitcoinEaterAddressDontSendf59kuE",
            "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy",
            "5KJvsngHeMpm884wtkJNzQGaCErckhHJBGFsvd3VyK5qMZXj3hS",
            "KwDiBf89QgGbjEhKnhXJuH7LrciVrZi3qYjgd9M7rFU73sVHnoWn",
        ] {
            assert!(holds(good.as_bytes()), "{good}");
            let swapped: Vec<u8> = good.bytes().rev().collect();
            assert!(!holds(&swapped), "{good}");
            assert!(!holds(&good.as_bytes()[1..]), "{good}");
        }
        assert!(!holds(b""));
        assert!(!holds(b"1111111111111111111111111111111111111111111"));
        assert!(!holds(&[b'z'; 200]));
        assert!(!holds(b"0OIl"));
    }

    /// The number that characters stand for, digit by digit.
    fn slowly(text: &[u8]) -> Option<Vec<u8>> {
        let mut number = vec![0u8; DECODED_BYTES_MAX];
        for byte in text {
            let mut carry = ALPHABET.iter().position(|known| known == byte)?;
            for place in number.iter_mut().rev() {
                carry += usize::from(*place) * 58;
                *place = (carry % 256) as u8;
                carry /= 256;
            }
            if carry > 0 {
                return None;
            }
        }
        Some(number)
    }

    #[test]
    fn many_characters_at_once_are_the_same_number() {
        let mut seed = 1u32;
        for length in 0..=TEXT_BYTES_MAX {
            let text: Vec<u8> = (0..length)
                .map(|_| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    ALPHABET[(seed >> 24) as usize % ALPHABET.len()]
                })
                .collect();
            let ends = [
                &text[..],
                &text[..length / 2],
                &vec![b'z'; length],
                &vec![b'2'; length],
            ];
            for text in ends {
                let mut buffer = [0; DECODED_BYTES_MAX];
                let decoded = decode(text, &mut buffer);
                let due = slowly(text);
                if decoded.is_some() {
                    assert_eq!(due.as_deref(), Some(&buffer[..]));
                }
                // One that is too long with its leading zeros is none either.
                let ones = text.iter().take_while(|byte| **byte == b'1').count();
                assert!(decoded.is_some() || due.is_none() || ones > 0);
            }
        }
        assert!(decode(b"11110", &mut [0; DECODED_BYTES_MAX]).is_none());
    }
}
