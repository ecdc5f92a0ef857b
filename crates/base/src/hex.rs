//! Bytes as hexadecimal digits, and back.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The two digits of a byte, in lower case.
pub fn pair(byte: u8) -> [u8; 2] {
    let digit = |nibble: u8| DIGITS[usize::from(nibble)];
    [digit(byte >> 4), digit(byte & 15)]
}

/// The digits of all bytes, in lower case.
pub fn encode(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| pair(*byte));
    digits.map(char::from).collect()
}

/// Reads twice as many digits as there are bytes, of either case.
pub fn decode<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    if text.len() != 2 * BYTES {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = (high * 16 + low) as u8;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let bytes: [u8; 256] = std::array::from_fn(|i| i as u8);
        let text = encode(&bytes);
        assert!(text.starts_with("000102") && text.ends_with("fdfeff"));
        assert_eq!(decode(&text), Some(bytes));
        assert_eq!(decode(&text.to_uppercase()), Some(bytes));
    }

    #[test]
    fn other_texts_are_not_read() {
        for bad in ["", "0", "000", "0g", "+1", " 1", "é"] {
            assert_eq!(decode::<1>(bad), None, "{bad}");
        }
    }
}
