//! The words that are not ASCII, in one pass over the characters of a text that are not.
//!
//! Of each word its *key* is looked for: six bytes that few other words have, three letters or two characters of East
//! Asia, or one character. A bit in a small table says whether a key may stand at a place, and only then are words compared.

use std::collections::HashMap;

use crate::literals::Places;
use crate::runs::{BLOCK_BYTES, inside};
use crate::words;

/// Bytes of a long key.
const KEY_BYTES: u32 = 6;
/// Bytes that are read of a text at once.
const READ_BYTES: usize = 8;
/// Bits of a table: 8 KB.
const TABLE_BITS: u32 = 16;
const WORD_BITS: u32 = 6;
const WORDS: usize = 1 << (TABLE_BITS - WORD_BITS);
/// Places whose words are in one row.
const ROW_BITS: u32 = 3;
const ROWS: usize = 1 << (TABLE_BITS - ROW_BITS);

/// Words to be found in one pass.
pub(super) struct Wide {
    long: Keys,
    /// Those of which a long key would have ASCII in it, or go beyond their end.
    short: Keys,
}

/// The keys of words in a table of bits, and the words of each.
struct Keys {
    bits: Box<[u64; WORDS]>,
    /// Where the words of each row of places begin, and the end.
    starts: Vec<u32>,
    words: Vec<Word>,
}

/// Where a word stands, told by its key.
#[derive(Clone, Copy)]
struct Word {
    /// The first bytes from its key on that are not ASCII, and which those are.
    letters: u64,
    mask: u64,
    number: u16,
    /// Bytes before its key.
    before: u16,
}

impl Wide {
    /// Words, each with its number. Those that are ASCII are in no text.
    pub(super) fn new<'t>(words: impl Iterator<Item = (&'t [u8], u16)> + Clone) -> Wide {
        let mut often: HashMap<u64, u32> = HashMap::new();
        for (_, key) in words.clone().flat_map(|(text, _)| keys(text)) {
            *often.entry(key).or_default() += 1;
        }
        let (mut long, mut short) = (Vec::new(), Vec::new());
        for (text, number) in words {
            let rarest = keys(text).min_by_key(|(_, key)| often[key]);
            let first = text.iter().position(|byte| !byte.is_ascii());
            let Some(before) = rarest.map(|(at, _)| at).or(first) else {
                continue;
            };
            let eight = eight(&text[before..]);
            let mask = not_ascii(eight);
            let word = Word {
                letters: eight & mask,
                mask,
                number,
                before: before as u16,
            };
            match rarest {
                Some((_, key)) => long.push((place(key), word)),
                None => short.push((place(short_key(eight)), word)),
            }
        }
        Wide {
            long: Keys::new(long),
            short: Keys::new(short),
        }
    }

    /// Adds the places of all words; `text` says how a word is spelled.
    pub(super) fn find<'t>(
        &self,
        bytes: &[u8],
        text: impl Fn(u16) -> &'t [u8],
        places: &mut Places,
    ) {
        let mut kept = [0; BLOCK_BYTES];
        for base in (0..bytes.len()).step_by(BLOCK_BYTES) {
            let count = self.block(&bytes[base..], &mut kept);
            for at in &kept[..count] {
                let at = base + usize::from(*at);
                let eight = eight(&bytes[at..]);
                let long = self.long.words(long_key(eight));
                for word in long.chain(self.short.words(short_key(eight))) {
                    if eight & word.mask != word.letters {
                        continue;
                    }
                    let text = text(word.number);
                    let start = at.wrapping_sub(usize::from(word.before));
                    let end = start.wrapping_add(text.len());
                    let found = bytes.get(start..end);
                    if let Some(plain) = found.and_then(|found| words::spelling(found, text)) {
                        places.keep(0, end, word.number, plain);
                    }
                }
            }
        }
    }

    /// Keeps the places in the first block of a text where keys may be, and counts them.
    #[inline(never)]
    fn block(&self, bytes: &[u8], kept: &mut [u8; BLOCK_BYTES]) -> usize {
        let mut starts = match bytes.first_chunk() {
            Some(block) => inside(block, begins),
            None => {
                let mut block = [0; BLOCK_BYTES];
                block[..bytes.len()].copy_from_slice(bytes);
                inside(&block, begins)
            }
        };
        let mut count = 0;
        while starts != 0 {
            let at = starts.trailing_zeros();
            starts &= starts - 1;
            let eight = eight(&bytes[at as usize..]);
            let may = self.long.may(long_key(eight)) | self.short.may(short_key(eight));
            // Whether a place is kept is no branch, since a processor could not foresee it.
            kept[count] = at as u8;
            count += may as usize;
        }
        count
    }
}

impl Keys {
    /// Words and the places of their keys.
    fn new(mut words: Vec<(u32, Word)>) -> Keys {
        words.sort_by_key(|(place, word)| (place >> ROW_BITS, word.number));
        let mut bits = Box::new([0; WORDS]);
        let mut starts = vec![0; ROWS + 1];
        for (place, _) in &words {
            bits[(place >> WORD_BITS) as usize] |= 1 << (place % (1 << WORD_BITS));
            starts[(place >> ROW_BITS) as usize + 1] += 1;
        }
        for row in 0..ROWS {
            starts[row + 1] += starts[row];
        }
        Keys {
            bits,
            starts,
            words: words.into_iter().map(|(_, word)| word).collect(),
        }
    }

    /// One where a key may be that of a word, else none.
    #[inline(always)]
    fn may(&self, key: u64) -> u64 {
        let place = place(key);
        self.bits[(place >> WORD_BITS) as usize] >> (place % (1 << WORD_BITS)) & 1
    }

    /// The words that may have a key, and others.
    #[inline(always)]
    fn words(&self, key: u64) -> impl Iterator<Item = &Word> {
        let row = (place(key) >> ROW_BITS) as usize;
        self.words[self.starts[row] as usize..self.starts[row + 1] as usize].iter()
    }
}

/// The first bytes of a text; zeros where it has no more.
#[inline(always)]
fn eight(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(match bytes.first_chunk() {
        Some(eight) => *eight,
        None => {
            let mut eight = [0; READ_BYTES];
            eight[..bytes.len()].copy_from_slice(bytes);
            eight
        }
    })
}

/// The long key that eight bytes begin with.
#[inline(always)]
fn long_key(eight: u64) -> u64 {
    eight & ((1 << (8 * KEY_BYTES)) - 1)
}

/// The short key that eight bytes begin with: a character, or the first three bytes of one.
#[inline(always)]
fn short_key(eight: u64) -> u64 {
    match eight as u8 >= 0xe0 {
        true => eight & 0xff_ffff,
        false => eight & 0xffff,
    }
}

/// The long keys that a word may be looked for by, and where they stand in it.
fn keys(text: &[u8]) -> impl Iterator<Item = (usize, u64)> + '_ {
    let starts = (0..text.len()).filter(|at| begins(text[*at]));
    let keys = starts.map(|at| (at, eight(&text[at..])));
    let whole = keys.filter(|(_, eight)| long_key(not_ascii(*eight)) == long_key(!0));
    whole.map(|(at, eight)| (at, long_key(eight)))
}

/// Whether a character of more than one byte begins with this one.
fn begins(byte: u8) -> bool {
    byte >= 0xc0
}

/// All bits of those bytes that are not ASCII.
fn not_ascii(eight: u64) -> u64 {
    let highest = eight & u64::from_le_bytes([0x80; READ_BYTES]);
    (highest >> 7) * 0xff
}

/// The place of a key in a table.
#[inline(always)]
fn place(key: u64) -> u32 {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - TABLE_BITS)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_wherever_they_stand() {
        let words = [
            "пароль",
            "я",
            "из",
            "нет api",
            "忽略",
            "忽略之前",
            "刻",
            "[系统",
            "دا",
            "é",
            "역할",
        ];
        let text = |word: u16| words[usize::from(word)].as_bytes();
        let wide = Wide::new(
            (0u16..)
                .zip(words)
                .map(|(number, word)| (word.as_bytes(), number)),
        );
        for pad in 0..70 {
            let all = format!(
                "{}{} НЕТ нет API {}.",
                "x".repeat(pad),
                words.join(" ю"),
                words[0]
            );
            let mut places = Places::default();
            wide.find(all.as_bytes(), text, &mut places);
            let mut found: Vec<_> = places.each().collect();
            found.sort_unstable();
            let mut wanted = Vec::new();
            for (number, word) in (0u16..).zip(words) {
                let lower = all.to_ascii_lowercase();
                wanted.extend(
                    lower
                        .match_indices(word)
                        .map(|(at, _)| (at + word.len(), number)),
                );
            }
            wanted.sort_unstable();
            assert_eq!(found, wanted);
        }
    }
}
