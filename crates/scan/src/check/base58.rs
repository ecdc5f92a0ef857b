//! Base58 with a checksum: keys and addresses of Bitcoin and of what came from it.
//!
//! It answers only whether the sum holds over a payload of a length that is in use.
//! Source: <https://en.bitcoin.it/wiki/Base58Check_encoding>.

use sha2::{Digest as _, Sha256};

const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
/// Bytes of the longest payload: an extended key with its sum.
const DECODED_BYTES_MAX: usize = 82;
/// Characters of the longest text that is decoded.
const TEXT_BYTES_MAX: usize = 113;
/// Bytes before the sum: an address; a private key, uncompressed and compressed; an extended key.
const PAYLOADS: [usize; 4] = [21, 33, 34, 78];

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
fn decode(text: &[u8], buffer: &mut [u8; DECODED_BYTES_MAX]) -> Option<usize> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    for byte in text {
        let mut carry = ALPHABET.iter().position(|known| known == byte)?;
        for place in buffer.iter_mut().rev() {
            carry += usize::from(*place) * 58;
            *place = (carry % 256) as u8;
            carry /= 256;
        }
        if carry > 0 {
            return None;
        }
    }
    let ones = text.iter().take_while(|byte| **byte == b'1').count();
    let zeros = buffer.iter().take_while(|byte| **byte == 0).count();
    let length = DECODED_BYTES_MAX - zeros + ones;
    (length <= DECODED_BYTES_MAX).then_some(length)
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
}
