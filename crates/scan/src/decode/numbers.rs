//! Bytes that are written as numbers: in decimal (`103, 104, 112`), or in bits (`01100111 01101000`).

use std::ops::Range;

use super::{Decoder, Sink};
use crate::layer::Layer;
use crate::report::Bound;
use crate::stretches::run_in;
use crate::unpack;

/// Rows of numbers.
pub(super) const DECODER: Decoder = Decoder { next, decode };

/// Characters of a row of numbers, and bytes that it stands for.
const ROW_BYTES_MIN: usize = 36;
const BYTES_MIN: usize = 14;
/// Marks between two numbers.
const MARKS_MAX: usize = 4;
/// Digits of a byte in bits.
const BITS: usize = 8;

fn next(layer: &Layer<'_>, at: usize) -> Option<Range<usize>> {
    let class = |byte: u8| {
        let digit = byte.wrapping_sub(b'0') < 10;
        let space = (byte == b' ') | (byte == b'\n') | (byte == b'\t') | (byte == b'\r');
        digit | space | (byte == b',') | (byte == b';')
    };
    let rows = &layer.stretches().rows;
    let row = run_in(rows, (layer.bytes, at), ROW_BYTES_MIN, class)?;
    // A row begins and ends with a number, where it has any.
    let text = &layer.bytes[row.clone()];
    let first = text.iter().position(u8::is_ascii_digit);
    let last = text.iter().rposition(u8::is_ascii_digit);
    match (first, last) {
        (Some(first), Some(last)) => Some(row.start + first..row.start + last + 1),
        _ => Some(row),
    }
}

fn decode(row: &[u8], sink: Sink<'_>) -> Result<(), Bound> {
    let mut out = Vec::new();
    let mut marks = 0;
    let mut end = |out: &mut Vec<u8>| {
        if out.len() >= BYTES_MIN && unpack::has_text(out) {
            sink(out, "numbers");
        }
        out.clear();
    };
    for word in row.split(|byte| !byte.is_ascii_digit()) {
        marks += 1;
        if word.is_empty() {
            continue;
        }
        if marks > MARKS_MAX {
            end(&mut out);
        }
        marks = 0;
        let bits = word.iter().all(|byte| matches!(byte, b'0' | b'1'));
        if bits && word.len() % BITS == 0 {
            out.extend(word.chunks(BITS).map(|bits| value(bits, 2)));
        } else if let Some(byte) = decimal(word) {
            out.push(byte);
        } else {
            end(&mut out);
        }
    }
    end(&mut out);
    Ok(())
}

/// The byte of printable ASCII that a number is.
fn decimal(word: &[u8]) -> Option<u8> {
    let byte = match word.len() {
        2 | 3 if word[0] <= b'1' || word.len() == 2 => value(word, 10),
        _ => return None,
    };
    (b' '..=b'~').contains(&byte).then_some(byte)
}

fn value(digits: &[u8], base: u8) -> u8 {
    let add = |sum: u8, digit: &u8| sum.wrapping_mul(base).wrapping_add(digit - b'0');
    digits.iter().fold(0, add)
}

#[cfg(test)]
mod tests {
    use super::super::tests::all_of;
    use super::*;

    #[test]
    fn numbers_are_read_as_bytes() {
        let text = "a secret of mine";
        for joint in [" ", ",", ", ", ",\n  "] {
            let decimal: Vec<String> = text.bytes().map(|byte| byte.to_string()).collect();
            let bits: Vec<String> = text.bytes().map(|byte| format!("{byte:08b}")).collect();
            for all in [decimal, bits] {
                let row = format!("bytes: [{}] end", all.join(joint));
                assert_eq!(all_of(&DECODER, &row), [text], "{row}");
            }
        }
        let bits: String = text.bytes().map(|byte| format!("{byte:08b}")).collect();
        assert_eq!(all_of(&DECODER, &bits), [text]);
    }

    #[test]
    fn other_numbers_are_left_alone() {
        for text in [
            "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17",
            "2026 11 21 14 25 30 2026 11 21 14 25 30 2026 11 21",
            "1000 2000 3000 4000 5000 6000 7000 8000 9000 1000",
            "200, 201, 202, 204, 301, 302, 304, 400, 401, 403, 404, 500, 502",
            "                                                        ",
            "",
        ] {
            assert!(all_of(&DECODER, text).is_empty(), "{text}");
        }
    }
}
