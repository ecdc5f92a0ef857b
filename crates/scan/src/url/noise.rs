//! Whether a text looks random: how many of its characters nobody would have written.
//!
//! A text is cut where letters, digits and case change. Pieces that read like words, and digits
//! that stand by themselves, are explained; what is left over counts. The largest sum over a
//! stretch decides, with words counting against it, so that neither a long slug adds up nor words
//! around a key hide it. What words look like is a table of pairs of letters that are common in
//! eleven languages of Latin script.

use std::ops::Range;

use crate::entropy::entropy;

/// Letters that often follow each letter, from `a` to `z`.
const FOLLOWERS: [&[u8]; 26] = [
    b"abcdefgiklmnoprstuvwxyz",
    b"abceilorsuy",
    b"acdehiklmoprstuyz",
    b"abcdefgilmorsuyz",
    b"abcdefghijklmnopqrstuvwxy",
    b"aefilortuy",
    b"aeghilmnorsu",
    b"aeiortuy",
    b"abcdefgklmnoprstuvxz",
    b"aeosu",
    b"aeilosu",
    b"abcdefgiklmopstuvy",
    b"abcdeilmopsuy",
    b"abcdefgiklmnopstuvy",
    b"abcdefgijklmnoprstuvwx",
    b"acdehiloprstuy",
    b"lu",
    b"abcdefgiklmnoprstuvyz",
    b"acdefhiklmnopqstuwyz",
    b"abcdefhilmoprstuwy",
    b"abcdegilmnprst",
    b"aeio",
    b"aehinors",
    b"eipt",
    b"abcelmnopst",
    b"acdeiklnouyz",
];

/// [`FOLLOWERS`] as one bit for each letter.
const PAIRS: [u32; 26] = {
    let mut pairs = [0; 26];
    let mut first = 0;
    while first < 26 {
        let mut at = 0;
        while at < FOLLOWERS[first].len() {
            pairs[first] |= 1 << (FOLLOWERS[first][at] - b'a');
            at += 1;
        }
        first += 1;
    }
    pairs
};

/// Lengths of hexadecimal numbers that programs give to things: 32 bits to 512, object ids of 96
/// bits, and hashes whose first byte or two are a directory.
const HEX_LENGTHS: [usize; 16] = [
    8, 12, 16, 17, 24, 30, 32, 38, 40, 48, 56, 60, 62, 64, 96, 128,
];
/// Digits in a row that are a number; fewer among letters can be part of a key, and more by
/// themselves a message.
const NUMBER_DIGITS: std::ops::RangeInclusive<usize> = 5..=24;
/// Numbers in a word of letters that nobody writes.
const LACED_NUMBERS_MIN: usize = 3;
/// Characters that a mark between words takes off a sum. A dot of a host has to be there, and takes
/// one.
const SEPARATOR: isize = 3;

/// What looks random in a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Noise {
    /// Characters of the noisiest stretch that nobody would have written, less those of words in
    /// it.
    pub(super) characters: usize,
    /// The noisiest stretch.
    pub(super) span: Range<usize>,
    /// Characters of well-known forms of identifiers: hashes, UUIDs, ULIDs.
    pub(super) named: usize,
    /// Hexadecimal digits that spell a text.
    pub(super) spelled: Option<Range<usize>>,
}

impl Noise {
    /// Entropy of the noisiest stretch, in bits a character.
    pub(super) fn bits(&self, text: &[u8]) -> f32 {
        entropy(&text[self.span.clone()])
    }
}

/// Which identifiers are well known in this part.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Place {
    /// Paths and queries hold hashes and UUIDs.
    Path,
    /// Names of hosts do not.
    Host,
}

/// Looks at one part of a URL.
pub(super) fn noise(text: &[u8], place: Place) -> Noise {
    let mut sum = Sum::default();
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        if !byte.is_ascii_alphanumeric() {
            // What joins the letters of base64 is neutral, everything else speaks against one
            // token.
            if !matches!(byte, b'-' | b'_' | b'+') && byte.is_ascii() {
                let cost = if place == Place::Host { 1 } else { SEPARATOR };
                sum.add(at..at + 1, -cost);
            }
            at += 1;
            continue;
        }
        let fresh = at == 0 || !text[at - 1].is_ascii_alphanumeric();
        let end = word_end(text, at);
        let known = if fresh {
            known(text, at..end, place, &mut sum.noise)
        } else {
            0
        };
        match known {
            0 => word(text, at..end, &mut sum),
            length => sum.noise.named += length,
        }
        at = if known > 0 { at + known } else { end };
    }
    sum.noise
}

/// The largest sum over a stretch (Kadane).
#[derive(Default)]
struct Sum {
    noise: Noise,
    running: isize,
    start: usize,
}

impl Sum {
    fn add(&mut self, span: Range<usize>, characters: isize) {
        if self.running == 0 {
            self.start = span.start;
        }
        self.running = (self.running + characters).max(0);
        if self.running as usize > self.noise.characters {
            self.noise.characters = self.running as usize;
            self.noise.span = self.start..span.end;
        }
    }
}

fn word_end(text: &[u8], at: usize) -> usize {
    let rest = text[at..]
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric());
    rest.map_or(text.len(), |length| at + length)
}

/// Characters of a well-known form of identifier at the start of this word; 0 for none.
fn known(text: &[u8], word: Range<usize>, place: Place, noise: &mut Noise) -> usize {
    let bytes = &text[word.clone()];
    let length = bytes.len();
    if length < 8 {
        return 0;
    }
    let hex = bytes.iter().all(u8::is_ascii_hexdigit);
    let digits = bytes.iter().all(u8::is_ascii_digit);
    if hex && !digits && length >= 16 && spells(bytes) {
        noise.spelled = Some(word);
        return 0;
    }
    if place == Place::Host {
        return 0;
    }
    if hex && length == 8 && uuid(&text[word.start..]) {
        return 36;
    }
    if hex && !digits && HEX_LENGTHS.contains(&length) && one_case(bytes) {
        return length;
    }
    let form = match length {
        26 => ulid(bytes),
        10..=20 => numbered(bytes),
        42 if bytes.starts_with(b"0x") => account(bytes),
        33..=42 => anchor(bytes),
        59 => content(bytes),
        _ => false,
    };
    if form { length } else { 0 }
}

/// A number in hexadecimal that says so, perhaps after the letters of its field:
/// `0x47e66e2964e34e2d`.
fn numbered(text: &[u8]) -> bool {
    (0..=2).any(|prefix| {
        let digits = text.get(prefix..).and_then(|rest| rest.strip_prefix(b"0x"));
        digits.is_some_and(|digits| {
            (8..=16).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit)
        })
    })
}

/// A hash after a letter or two, as generators of documentation and reviews of code write them.
fn anchor(text: &[u8]) -> bool {
    [1, 2].into_iter().any(|prefix| {
        let rest = &text[prefix..];
        matches!(rest.len(), 32 | 40) && rest.iter().all(u8::is_ascii_hexdigit) && one_case(rest)
    })
}

/// An account of Ethereum, whose letters in upper case are its sum.
fn account(text: &[u8]) -> bool {
    let digits = &text[2..];
    digits.iter().all(u8::is_ascii_hexdigit) && !spells(digits)
}

/// The address of a content in IPFS: version 1, in base 32, a SHA-256.
fn content(text: &[u8]) -> bool {
    let digit = |byte: &u8| matches!(byte, b'a'..=b'z' | b'2'..=b'7');
    (text.starts_with(b"bafy") || text.starts_with(b"bafk")) && text.iter().all(digit)
}

/// RFC 9562, without its version: many make their own.
fn uuid(text: &[u8]) -> bool {
    let Some(text) = text.get(..36) else {
        return false;
    };
    let shape = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.iter().enumerate().all(shape)
}

/// Crockford's base 32 of 128 bits, which begin with the time.
fn ulid(text: &[u8]) -> bool {
    let letter = |byte: &u8| match byte.to_ascii_uppercase() {
        b'I' | b'L' | b'O' | b'U' => false,
        byte => byte.is_ascii_alphanumeric(),
    };
    text[0] == b'0' && text.iter().all(letter) && one_case(text)
}

fn one_case(text: &[u8]) -> bool {
    !text.iter().any(u8::is_ascii_uppercase) || !text.iter().any(u8::is_ascii_lowercase)
}

/// Whether hexadecimal digits are a printable text.
fn spells(hex: &[u8]) -> bool {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(16);
    let printable = |pair: &[u8]| (0x20..0x7f).contains(&(digit(pair[0]) * 16 + digit(pair[1])));
    hex.len().is_multiple_of(2) && hex.chunks_exact(2).all(printable)
}

/// Sums up one word of letters and digits, by its pieces of one kind.
fn word(text: &[u8], word: Range<usize>, sum: &mut Sum) {
    let mut at = word.start;
    let mut after_word = true;
    let laced = laced(&text[word.clone()]);
    while at < word.end {
        let end = piece_end(text, at, word.end);
        let piece = &text[at..end];
        let alone = piece.len() == word.len();
        let characters = if piece[0].is_ascii_digit() {
            // `utf8`, `cvtsi256`: letters and a number are a name. A digit among letters is part of
            // them.
            let named = at > word.start && end == word.end && after_word;
            let number = alone || named || NUMBER_DIGITS.contains(&piece.len());
            let explained = number && piece.len() <= *NUMBER_DIGITS.end();
            if explained { 0 } else { piece.len() as isize }
        } else {
            letters(piece, alone, laced)
        };
        after_word = at == word.start || characters < 0;
        sum.add(at..end, characters);
        at = end;
    }
}

/// Whether letters and digits take turns as in no name: three numbers in a word.
fn laced(word: &[u8]) -> bool {
    let starts = |pair: &&[u8]| !pair[0].is_ascii_digit() && pair[1].is_ascii_digit();
    let first = usize::from(word[0].is_ascii_digit());
    first + word.windows(2).filter(starts).count() >= LACED_NUMBERS_MIN
}

/// What letters add to a sum: their number, nothing, or as much less as a word takes off.
fn letters(piece: &[u8], alone: bool, laced: bool) -> isize {
    let length = piece.len() as isize;
    match (piece.len(), alone) {
        (..=6, false) if laced => length,
        (..=3, true) => 0,
        (..=2, false) => length,
        (3, false) => {
            if common_pairs(piece) == 2 {
                0
            } else {
                length
            }
        }
        // Chance makes words of four and five letters, but seldom between marks.
        (4..=5, false) => {
            if common_pairs(piece) + 1 == piece.len() {
                0
            } else {
                length
            }
        }
        (4..=6, _) => {
            if common_pairs(piece) * 3 >= (piece.len() - 1) * 2 {
                -length
            } else {
                length
            }
        }
        _ => {
            if common_pairs(piece) * 4 >= (piece.len() - 1) * 3 {
                -length
            } else {
                length
            }
        }
    }
}

/// The end of a piece: digits, letters of one case, or one capital and small letters.
fn piece_end(text: &[u8], at: usize, end: usize) -> usize {
    let run = |from: usize, test: fn(&u8) -> bool| {
        let rest = text[from..end].iter().position(|byte| !test(byte));
        rest.map_or(end, |length| from + length)
    };
    if text[at].is_ascii_digit() {
        return run(at, u8::is_ascii_digit);
    }
    if text[at].is_ascii_lowercase() {
        return run(at, u8::is_ascii_lowercase);
    }
    let capitals = run(at, u8::is_ascii_uppercase);
    let small = run(capitals, u8::is_ascii_lowercase);
    match capitals - at {
        _ if small == capitals => capitals,
        1 => small,
        // `HTTPServer`: the last capital belongs to the next word.
        _ => capitals - 1,
    }
}

/// Letters of a word that may be scrambled, and how many of them are of either case.
const SCRAMBLED_LETTERS_MIN: usize = 12;
const SCRAMBLED_CASE_MIN: usize = 3;
/// Times that its case changes.
const SCRAMBLED_CHANGES_MIN: usize = 4;

/// Whether letters of both cases are drawn by chance: their case changes as in no name, and one pair in four is rare.
/// What is no letter is left out.
pub(crate) fn scrambled(text: &[u8]) -> bool {
    let letters = text.iter().filter(|byte| byte.is_ascii_alphabetic());
    let letters: Vec<u8> = letters.copied().collect();
    let capitals = letters.iter().filter(|byte| byte.is_ascii_uppercase());
    let capitals = capitals.count();
    if letters.len() < SCRAMBLED_LETTERS_MIN
        || capitals.min(letters.len() - capitals) < SCRAMBLED_CASE_MIN
    {
        return false;
    }
    let changes = |pair: &&[u8]| pair[0].is_ascii_uppercase() != pair[1].is_ascii_uppercase();
    let changes = letters.windows(2).filter(changes).count();
    let (mut at, mut pieces) = (0, 0);
    while at < letters.len() {
        at = piece_end(&letters, at, letters.len());
        pieces += 1;
    }
    let pairs = letters.len() - 1;
    changes >= SCRAMBLED_CHANGES_MIN
        && letters.len() * 2 <= pieces * 7
        && (pairs - common_pairs(&letters)) * 4 >= pairs
}

/// How many neighbours among letters are common.
fn common_pairs(letters: &[u8]) -> usize {
    let index = |letter: u8| usize::from(letter.to_ascii_lowercase() - b'a');
    let common = |pair: &&[u8]| PAIRS[index(pair[0])] >> index(pair[1]) & 1 == 1;
    letters.windows(2).filter(common).count()
}

/// Whether a label is pairs of hexadecimal digits of a printable text, with a hyphen between them.
pub(super) fn spelled_in_pairs(label: &[u8]) -> bool {
    let pair = |pair: &[u8]| pair.len() == 2 && pair.iter().all(u8::is_ascii_hexdigit);
    let hex = label.split(|byte| *byte == b'-');
    hex.clone().all(|part| pair(part) && spells(part))
}

/// Whether a label is base32 (RFC 4648 section 6) or base64url of a printable text.
pub(super) fn spelled_in_base(label: &[u8]) -> bool {
    let base32 = |byte: u8| match byte.to_ascii_lowercase() {
        byte @ b'a'..=b'z' => Some(byte - b'a'),
        byte @ b'2'..=b'7' => Some(byte - b'2' + 26),
        _ => None,
    };
    let base64 = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    };
    printable(label, 5, base32) || printable(label, 6, base64)
}

/// Whether digits of so many bits spell printable bytes and nothing else.
fn printable(label: &[u8], bits: u32, digit: impl Fn(u8) -> Option<u8>) -> bool {
    let (mut held, mut holds) = (0u32, 0);
    for byte in label {
        let Some(value) = digit(*byte) else {
            return false;
        };
        held = (held << bits | u32::from(value)) & 0xffff;
        holds += bits;
        if holds >= 8 {
            holds -= 8;
            if !(0x20..0x7f).contains(&(held >> holds & 0xff)) {
                return false;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_writes_counts() {
        for text in [
            "aB3xK9mQ7pR2wE5tY8uI0oL4hG6fD1sZ",
            "bXktc2VjcmV0LXRva2VuLXZhbHVlLTEyMzQ1",
            "hello-hello-hello-Zk83hQx0mPwT2vRb9LcN-hello-hello",
            "qwertyuiopasdfghjklz",
            "r7km2np9qw4xb5vy8za3b",
            "ORUGS4ZNNFZS2YJNORSXG5BNOZQWY5LF",
        ] {
            let found = noise(text.as_bytes(), Place::Path);
            assert!(found.characters >= 16, "{text}: {found:?}");
            assert!(found.bits(text.as_bytes()) >= 3.0, "{text}");
        }
    }

    #[test]
    fn what_people_and_programs_write_does_not() {
        for text in [
            "how-to-parse-json-in-rust-2024-edition",
            "AbstractSingletonProxyFactoryBean",
            "getElementsByClassNameAndReturnHTMLCollection",
            "550e8400-e29b-41d4-a716-446655440000",
            "d41d8cd98f00b204e9800998ecf8427e",
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            "python-3.12.1-embed-amd64.zip",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
            "2024-11-05T13%3A45%3A00Z",
            "1795220257856534628",
            "rust-1.92.0-x86_64-unknown-linux-gnu.tar.xz",
        ] {
            let found = noise(text.as_bytes(), Place::Path);
            let bits = found.bits(text.as_bytes());
            assert!(
                found.characters < 16 || bits < 3.0,
                "{text}: {found:?} {bits}"
            );
        }
    }

    #[test]
    fn encoded_texts_are_read() {
        let hex = noise(b"7365637265745f6170695f6b6579", Place::Path);
        assert_eq!(hex.spelled, Some(0..28));
        assert_eq!(
            noise(b"d41d8cd98f00b204e9800998ecf8427e", Place::Path).spelled,
            None
        );
        assert!(spelled_in_base(b"c2VjcmV0X3Rva2VuXzEyMzQ1"));
        assert!(spelled_in_base(b"onswg4tfoqwxi33lmvxa"));
        assert!(spelled_in_pairs(b"64-62-5f-70-61-73-73-31"));
        assert!(!spelled_in_pairs(b"00-1b-44-11-3a-b7") && !spelled_in_pairs(b"cafe-babe"));
        assert!(!spelled_in_base(b"internationalization"));
        assert!(!spelled_in_base(b"documentation-server"));
    }
}
