//! Text whose characters stand apart: `s k - a n t`, `i.g.n.o.r.e`, `41-4b-49`, `0x41, 0x4b`.

use std::ops::Range;

use super::{Decoder, Sink, hex};
use crate::layer::Layer;
use crate::report::Bound;
use crate::unpack;

/// Single characters with one mark between them.
pub(super) const SINGLE: Decoder = Decoder {
    next: next_single,
    decode: decode_single,
};

/// Bytes in hex with marks between them.
pub(super) const PAIRS: Decoder = Decoder {
    next: next_pairs,
    decode: decode_pairs,
};

/// Fewest characters that are put together.
const SINGLES_MIN: usize = 10;
/// Most marks in a row: two stand between words, three are one that is itself a character of the text.
const MARKS_MAX: usize = 9;
/// Most marks between two bytes in hex.
const JOINT_MARKS_MAX: usize = 3;
/// Fewest bytes in hex that are put together.
const PAIRS_MIN: usize = 8;

/// Places that are looked at in one step: a multiple of the twelve bytes that seeds are looked for in.
const BLOCK_BYTES: usize = 96;

/// Whether in a block of a text no ASCII byte stands `TIMES` times more, each `STEP` further, and not beside itself.
///
/// All places of the block are looked at without a branch. False where less than a block is left.
fn none<const STEP: usize, const TIMES: usize>(bytes: &[u8]) -> bool {
    let Some(block) = bytes.first_chunk::<{ BLOCK_BYTES + 6 }>() else {
        return false;
    };
    let seed = |at: usize| {
        let byte = block[at];
        let again = (1..=TIMES).fold(true, |all, i| all & (block[at + i * STEP] == byte));
        again & (block[at + 1] != byte) & byte.is_ascii()
    };
    !(0..BLOCK_BYTES).fold(false, |any, at| any | seed(at))
}

/// Whether a byte can stand between characters.
fn mark(byte: u8) -> bool {
    !byte.is_ascii_alphanumeric() && byte < 0x80 && !matches!(byte, b'"' | b'\\' | 0)
}

fn next_single(layer: &Layer<'_>, mut at: usize) -> Option<Range<usize>> {
    let bytes = layer.bytes;
    // Nine marks two apart: one of any four places in a row of sixteen sees four of them.
    while at + 8 <= bytes.len() {
        if none::<2, 3>(&bytes[at..]) {
            at += BLOCK_BYTES;
            continue;
        }
        for start in [at, at + 1] {
            let byte = bytes[start];
            if byte == bytes[start + 2]
                && byte == bytes[start + 4]
                && byte == bytes[start + 6]
                && mark(byte)
                && bytes[start + 1] != byte
                && let Some(run) = singles(layer, start)
            {
                return Some(run);
            }
        }
        at += 2 * SINGLES_MIN - 8;
    }
    None
}

/// The run around a mark in which each character stands alone.
fn singles(layer: &Layer<'_>, seed: usize) -> Option<Range<usize>> {
    let (_, bounds) = layer.string(seed)?;
    let mark = layer.bytes[seed];
    let after = stretch(layer.bytes[seed + 1..bounds.end].iter(), mark);
    let before = stretch(layer.bytes[bounds.start..seed].iter().rev(), mark);
    let run = seed - before..seed + 1 + after;
    (run.len() >= 2 * SINGLES_MIN - 1).then_some(run)
}

/// How far characters stand alone, from a mark on.
fn stretch<'a>(bytes: impl Iterator<Item = &'a u8>, mark: u8) -> usize {
    let (mut length, mut before, mut marks) = (0, 0, 1);
    for (i, byte) in bytes.enumerate() {
        if *byte == mark {
            marks += 1;
            if marks > MARKS_MAX {
                break;
            }
        } else if marks == 0 {
            // Two characters side by side: where they are one word, the one before was not alone.
            return if byte.is_ascii_alphanumeric() {
                before
            } else {
                length
            };
        } else {
            (before, length, marks) = (length, i + 1, 0);
        }
    }
    length
}

fn decode_single(run: &[u8], sink: Sink<'_>) -> Result<(), Bound> {
    let mark = match run {
        [a, b, ..] if mark(*a) && !mark(*b) => *a,
        [_, b, ..] => *b,
        _ => return Ok(()),
    };
    let mut out = Vec::with_capacity(run.len() / 2 + 1);
    let mut marks = 0;
    for byte in run {
        if *byte == mark {
            marks += 1;
            continue;
        }
        match marks {
            0 | 1 => {}
            2 => out.push(b' '),
            // A mark between marks is a character of the text.
            more => out.extend(std::iter::repeat_n(mark, (more - 1) / 2)),
        }
        marks = 0;
        out.push(*byte);
    }
    sink(&out, "spaced");
    Ok(())
}

fn next_pairs(layer: &Layer<'_>, from: usize) -> Option<Range<usize>> {
    let bytes = layer.bytes;
    let apart = apart(layer, from);
    // Longer joints hold an x, which is rare enough to be looked for by itself.
    // A run may begin before `from`, since it is read backwards too.
    let end = apart
        .as_ref()
        .map_or(bytes.len(), |run| run.start.max(from));
    let mut ex = memchr::memchr2_iter(b'x', b'X', &bytes[from..end]);
    let prefixed = ex.find_map(|at| {
        let at = from + at;
        let again = bytes.get(at + 4..at + 7)?.iter().any(|b| *b == bytes[at]);
        again.then(|| pairs(layer, at))?
    });
    prefixed.or(apart)
}

/// The next run whose joints are one mark.
fn apart(layer: &Layer<'_>, mut at: usize) -> Option<Range<usize>> {
    let bytes = layer.bytes;
    // Seven marks three apart: of any nine places in a row three see three of them.
    while at + 9 <= bytes.len() {
        if none::<3, 2>(&bytes[at..]) {
            at += BLOCK_BYTES;
            continue;
        }
        for start in at..at + 3 {
            let byte = bytes[start];
            if byte == bytes[start + 3]
                && byte == bytes[start + 6]
                && mark(byte)
                && let Some(run) = pairs(layer, start)
            {
                return Some(run);
            }
        }
        at += 3 * PAIRS_MIN - 12;
    }
    None
}

/// The run of bytes in hex around a mark, with the same joint between all of them.
fn pairs(layer: &Layer<'_>, seed: usize) -> Option<Range<usize>> {
    let (_, bounds) = layer.string(seed)?;
    let bytes = &layer.bytes[..bounds.end];
    let begin = [seed.checked_sub(2), Some(seed + 1)];
    let mut start = begin.into_iter().flatten().find(|at| pair(bytes, *at))?;
    let joint = joint(&bytes[start + 2..])?;
    let step = joint.len() + 2;
    let (mut end, mut count) = (start + 2, 1);
    while bytes[end..].starts_with(joint) && pair(bytes, end + joint.len()) {
        end += step;
        count += 1;
    }
    while let Some(before) = start.checked_sub(step)
        && before >= bounds.start
        && bytes[before + 2..start] == *joint
        && pair(bytes, before)
    {
        start = before;
        count += 1;
    }
    (count >= PAIRS_MIN).then_some(start..end)
}

/// Whether two hexadecimal digits stand here, and not a third; the zero of the next `0x` is none.
fn pair(bytes: &[u8], at: usize) -> bool {
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    let prefix = || bytes[at + 2] == b'0' && matches!(bytes.get(at + 3), Some(b'x' | b'X'));
    digit(at) && digit(at + 1) && (!digit(at + 2) || prefix())
}

/// What stands between two bytes in hex: up to three marks, then perhaps `0x`, or `\x`; or `0x` alone.
fn joint(bytes: &[u8]) -> Option<&[u8]> {
    let marks = bytes.iter().take(JOINT_MARKS_MAX);
    let marks = marks
        .take_while(|byte| mark(**byte) || **byte == b'\\')
        .count();
    let prefix = match &bytes[marks..] {
        [b'0', b'x' | b'X', ..] => 2,
        [b'x' | b'X', ..] => 1,
        _ => 0,
    };
    (marks > 0 || prefix == 2).then_some(&bytes[..marks + prefix])
}

fn decode_pairs(run: &[u8], sink: Sink<'_>) -> Result<(), Bound> {
    let joint = joint(&run[2..]).map_or(0, <[u8]>::len);
    let byte = |pair: &[u8]| Some(hex(pair[0])? * 16 + hex(pair[1])?);
    let out: Vec<u8> = run.chunks(joint + 2).filter_map(byte).collect();
    if unpack::has_text(&out) {
        sink(&out, "hex");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::all_of;
    use super::*;

    #[test]
    fn single_characters_are_put_together() {
        let single = |text: &str| all_of(&SINGLE, text);
        assert_eq!(single("say i g n o r e   a l l now"), ["ignore all"]);
        assert_eq!(single("i.g.n.o.r.e..a.l.l..o.f.."), ["ignore all of"]);
        assert_eq!(single("A-K-I-A-1-2-3-4-5-6-7"), ["AKIA1234567"]);
        for shift in 0..40 {
            let text = format!(
                "{}k_e_y_1_2_3_4_5_6_7_8_9",
                "word ".repeat(9)[..shift].to_owned() + " "
            );
            assert_eq!(single(&text), ["key123456789"], "{text}");
        }
        assert!(single("a normal sentence, as one would write it - or not.").is_empty());
        assert!(single("------------------------------------------------").is_empty());
    }

    #[test]
    fn what_stands_apart_is_found_wherever_it_stands() {
        let single = "k_e_y_1_2_3_4_5_6_7_8_9";
        let pairs = "68-65-6c-6c-6f-20-77-6f-72-6c-64-21-21-21";
        for before in 0..3 * BLOCK_BYTES {
            for after in [0, 2 * BLOCK_BYTES] {
                let around =
                    |count: usize| "word, or not; ".repeat(count / 14 + 1)[..count].to_owned();
                let text = |run: &str| format!("{} {run} {}", around(before), around(after));
                assert_eq!(all_of(&SINGLE, &text(single)), ["key123456789"], "{before}");
                assert_eq!(all_of(&PAIRS, &text(pairs)), ["hello world!!!"], "{before}");
            }
        }
    }

    #[test]
    fn bytes_in_hex_are_put_together() {
        let pairs = |text: &str| all_of(&PAIRS, text);
        let hex: Vec<String> = "Hello, world!"
            .bytes()
            .map(|b| format!("{b:02x}"))
            .collect();
        for joint in ["-", ":", " ", "\\x", ",0x", ", 0x", " 0x"] {
            for before in ["", "x", "see ", "key="] {
                let text = format!("{before} {}", hex.join(joint));
                assert_eq!(pairs(&text), ["Hello, world!"], "{text}");
            }
        }
        assert!(pairs("12:30:45 and 01-02-03").is_empty());
    }
}
