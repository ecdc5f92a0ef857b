//! One number for a text, of which nearly equal texts share nearly all bits.
//!
//! Each three words that follow each other vote on each bit (Charikar, "Similarity estimation techniques from rounding
//! algorithms", 2002). A word that changes in a text of 200 moves about four bits of 64; texts that have nothing in common
//! differ in about 32. Short texts, and code, get the digest of their text instead: a changed word may be all that
//! a function is about, so only the same code is a copy.

use crate::code::parse::Language;

/// Words that follow each other and vote together.
const SHINGLE: usize = 3;
/// Words of a text that is long enough to be nearly the same as another one.
const WORDS_MIN: usize = 20;
/// Bits in which texts differ that say nearly the same.
const NEAR_BITS: u32 = 6;
/// Languages that people read: their texts can be nearly the same.
const PROSE: &[&str] = &[
    "markdown",
    "restructuredtext",
    "asciidoc",
    "org",
    "tex",
    "text",
    "html",
];

/// Whether texts in a language are prose.
pub(crate) fn is_prose(language: Language) -> bool {
    PROSE.contains(&language.name())
}

/// The sketch of a text in prose; `digest` of one that is too short.
pub(super) fn of_prose(text: &[u8], digest: u64) -> u64 {
    let mut votes = [0_i32; 64];
    let mut last = [0_u64; SHINGLE];
    let mut words = 0;
    for word in text.split(|byte| !byte.is_ascii_alphanumeric() && *byte < 0x80) {
        if word.is_empty() {
            continue;
        }
        last.rotate_left(1);
        last[SHINGLE - 1] = hash(word);
        words += 1;
        if words >= SHINGLE {
            let shingle = last.iter().fold(0_u64, |all, word| mix(all ^ word));
            for (bit, vote) in votes.iter_mut().enumerate() {
                *vote += if shingle >> bit & 1 == 1 { 1 } else { -1 };
            }
        }
    }
    if words < WORDS_MIN {
        return digest;
    }
    let bits = votes.iter().enumerate();
    bits.fold(0, |bits, (bit, vote)| bits | u64::from(*vote > 0) << bit)
}

/// Whether two pieces say the same, or of prose nearly so.
pub(crate) fn are_near(one: u64, other: u64, prose: bool) -> bool {
    match prose {
        true => (one ^ other).count_ones() <= NEAR_BITS,
        false => one == other,
    }
}

/// FNV-1a of a word, whatever its case.
fn hash(word: &[u8]) -> u64 {
    word.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x100_0000_01b3)
    })
}

/// The end of SplitMix64: each bit of what comes depends on each bit of what went in.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text of so many words, the same for the same seed.
    fn text(seed: u64, words: u64) -> String {
        let words = (0..words).map(|at| format!("w{}", mix(seed ^ at << 20) % 5_000));
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn nearly_equal_texts_are_near_and_others_are_not() {
        let near = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|text| of_prose(text.as_bytes(), 1));
            are_near(one, other, true)
        };
        let mut kept = 0;
        for seed in 0..50 {
            let one = text(seed, 200);
            let cased = one.replacen(" w", "\n\nW", 40);
            assert!(near(&one, &cased), "{seed}");
            let changed = one.replacen(" w", " version", 1);
            kept += u32::from(near(&one, &changed));
            assert!(!near(&one, &text(seed + 1_000, 200)), "{seed}");
            // Half of it is the same.
            let half = format!("{} {}", &one[..one.len() / 2], text(seed + 2_000, 100));
            assert!(!near(&one, &half), "{seed}");
        }
        // How many bits a word moves is chance: it is more than six for a few texts.
        assert!(kept >= 40, "{kept} of 50");
    }

    #[test]
    fn short_texts_are_copies_only_where_they_are_the_same() {
        assert_eq!(of_prose(b"one two three", 7), 7);
        assert!(are_near(7, 7, false) && !are_near(7, 6, false));
    }
}
