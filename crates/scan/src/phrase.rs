//! Finds seed phrases: runs of words of the BIP-39 list in which a checksum holds.
//!
//! No literal opens a phrase, since any of 2,048 words may stand anywhere in it. So the search looks at one
//! word in every stretch that is as long as the shortest phrase, and reads on only where that word is
//! listed. It knows the English list only, and never judges what the words mean.
//! Source: <https://github.com/bitcoin/bips/blob/master/bip-0039.mediawiki>.

pub(crate) mod parts;

use std::ops::Range;
use std::sync::LazyLock;

use sha2::{Digest as _, Sha256};

/// The English list, in the order that gives each word its number.
const LIST: &str = include_str!("../data/bip39-english.txt");
/// Lengths of phrases, in words.
const LENGTHS: [usize; 5] = [24, 21, 18, 15, 12];
/// Letters of the shortest and the longest listed word.
const LETTERS_MIN: usize = 3;
const LETTERS_MAX: usize = 8;
/// Heads that there are: three letters each.
const HEADS: usize = 26 * 26 * 26;
/// Bytes of the shortest phrase: twelve words of three letters, one byte apart.
const PHRASE_BYTES_MIN: usize = 12 * LETTERS_MIN + 11;
/// Bytes between two words of a phrase: spaces, numbers, quotes, commas.
const GAP_BYTES_MAX: usize = 6;
/// Words of a run that are looked at as one.
const RUN_WORDS_MAX: usize = 96;

/// The listed words, found by their first three letters.
struct Words {
    all: Vec<&'static str>,
    /// Where the words of each head begin in `all`, and the end.
    heads: Vec<u16>,
    /// The fourth letter of each word, which tells it from the others of its head; zero where it has three.
    fourths: Vec<u8>,
}

static WORDS: LazyLock<Words> = LazyLock::new(|| {
    let all: Vec<&str> = LIST.lines().collect();
    // The list is in order, so that its words of one head stand together.
    let mut heads = vec![0; HEADS + 1];
    for word in &all {
        heads[head(word.as_bytes()) + 1] += 1;
    }
    let mut before = 0;
    for count in &mut heads {
        before += *count;
        *count = before;
    }
    let fourths = all.iter().map(|word| fourth(word.as_bytes())).collect();
    Words {
        all,
        heads,
        fourths,
    }
});

/// Whether a word is listed, whatever marks stand around it.
pub(crate) fn listed(word: &[u8]) -> bool {
    let letter = |byte: &u8| byte.is_ascii_alphabetic();
    let start = word.iter().position(letter).unwrap_or(word.len());
    let end = word.iter().rposition(letter).map_or(start, |at| at + 1);
    let marks = word.len() - (end - start);
    marks <= GAP_BYTES_MAX
        && word[start..end].iter().all(letter)
        && WORDS.number(&word[start..end]).is_some()
}

/// The number of the first three letters, which there are.
fn head(word: &[u8]) -> usize {
    let value = |at: usize| usize::from((word[at] | 0x20) - b'a');
    (value(0) * 26 + value(1)) * 26 + value(2)
}

fn fourth(word: &[u8]) -> u8 {
    word.get(3).map_or(0, |letter| letter | 0x20)
}

impl Words {
    /// The number of a word in the list.
    fn number(&self, word: &[u8]) -> Option<u16> {
        if !(LETTERS_MIN..=LETTERS_MAX).contains(&word.len()) {
            return None;
        }
        let head = head(word);
        let (first, end) = (self.heads[head], self.heads[head + 1]);
        let fourths = &self.fourths[usize::from(first)..usize::from(end)];
        let at = fourths.iter().position(|letter| *letter == fourth(word))?;
        let same = |at: &u16| {
            let listed = self.all[usize::from(*at)].as_bytes();
            listed.eq_ignore_ascii_case(word)
        };
        Some(first + at as u16).filter(same)
    }
}

/// A listed word and where it stands.
type Word = (u16, Range<usize>);

/// The next run of listed words, from `from` on, with a phrase in it. `tried` counts the checksums made.
pub(crate) fn next(bytes: &[u8], from: usize, tried: &mut usize) -> Option<Range<usize>> {
    let mut at = from;
    // No phrase starts before `at`, so one that covers the last byte of this stretch has all its words here.
    while at + PHRASE_BYTES_MIN <= bytes.len() {
        let probe = at + PHRASE_BYTES_MIN - 1;
        let Some(start) = ahead(bytes, probe, 0) else {
            at = probe + 1;
            continue;
        };
        let word = around(bytes, start, at);
        let Some(number) = WORDS.number(&bytes[word.clone()]) else {
            at = word.end;
            continue;
        };
        let run = run(bytes, (number, word), at);
        let span = run[0].1.start..run[run.len() - 1].1.end;
        if holds_phrase(&run, tried) {
            return Some(span);
        }
        at = match run.len() {
            RUN_WORDS_MAX => run[RUN_WORDS_MAX - LENGTHS[0] + 1].1.start,
            1 => span.end,
            // The last word may begin a phrase with gaps of another kind.
            words => run[words - 1].1.start,
        };
    }
    None
}

/// Words after which the phrases of the specification begin again: their bytes are all the same, but for the sum.
const CYCLE_WORDS: usize = 8;

/// Whether a phrase is one that the specification prints to test programs with: `abandon abandon … about`.
pub(crate) fn printed(phrase: &[u8]) -> bool {
    let words = phrase.split(|byte| !byte.is_ascii_alphabetic());
    let words: Vec<&[u8]> = words.filter(|word| word.len() >= LETTERS_MIN).collect();
    let Some((_, drawn)) = words.split_last() else {
        return false;
    };
    let mut again = drawn.iter().zip(drawn.iter().skip(CYCLE_WORDS));
    drawn.len() > CYCLE_WORDS && again.all(|(one, other)| one.eq_ignore_ascii_case(other))
}

/// The first letter from `at` on, at least `min` and at most [`GAP_BYTES_MAX`] bytes away.
fn ahead(bytes: &[u8], at: usize, min: usize) -> Option<usize> {
    let rest = &bytes[at..bytes.len().min(at + GAP_BYTES_MAX + 1)];
    let gap = rest.iter().position(u8::is_ascii_alphabetic)?;
    (gap >= min).then_some(at + gap)
}

/// The letters around a letter. Before it, no more are read than a listed word has, nor before `floor`.
fn around(bytes: &[u8], letter: usize, floor: usize) -> Range<usize> {
    let floor = floor.max(letter.saturating_sub(LETTERS_MAX + 1));
    let mut start = letter;
    while start > floor && bytes[start - 1].is_ascii_alphabetic() {
        start -= 1;
    }
    let more = bytes[letter..]
        .iter()
        .position(|b| !b.is_ascii_alphabetic());
    start..more.map_or(bytes.len(), |more| letter + more)
}

/// The listed words around one, as far as they follow each other with the same kind of gap; none starts
/// before `floor`.
fn run(bytes: &[u8], word: Word, floor: usize) -> Vec<Word> {
    let mut run = vec![word];
    let mut kind = None;
    let mut same = |gap: &[u8]| gap_kind(gap).is_some_and(|new| *kind.get_or_insert(new) == new);
    while run.len() < RUN_WORDS_MAX
        && let last = run[run.len() - 1].1.start
        && let Some(previous) = previous(bytes, last, floor)
        && same(&bytes[previous.1.end..last])
    {
        run.push(previous);
    }
    run.reverse();
    while run.len() < RUN_WORDS_MAX
        && let last = run[run.len() - 1].1.end
        && let Some(start) = ahead(bytes, last, 1)
        && same(&bytes[last..start])
    {
        let span = around(bytes, start, start);
        let Some(number) = WORDS.number(&bytes[span.clone()]) else {
            break;
        };
        run.push((number, span));
    }
    run
}

/// What joins two words: one sign, or spaces with what stands in lists. Operators of code join none.
fn gap_kind(gap: &[u8]) -> Option<u8> {
    let listed = |byte: &u8| byte.is_ascii_digit() || b" \t\r\n,.:;)\"'[]*#-".contains(byte);
    match gap {
        [sign] if sign.is_ascii_punctuation() => Some(*sign),
        _ if gap.iter().all(listed) => Some(b' '),
        _ => None,
    }
}

/// The listed word that ends shortly before `at`.
fn previous(bytes: &[u8], at: usize, floor: usize) -> Option<Word> {
    let from = at.saturating_sub(GAP_BYTES_MAX + 1).max(floor);
    let last = bytes[from..at].iter().rposition(u8::is_ascii_alphabetic)?;
    let span = around(bytes, from + last, floor);
    let number = WORDS.number(&bytes[span.clone()])?;
    (span.end < at).then_some((number, span))
}

/// Times that a word of prose stands in it, and other words that stand beside it.
const AGAIN_MIN: usize = 3;
const OTHERS_MIN: usize = 3;

/// Whether one word returns among many, as in a list of features (`web search, image search, video search`). In a phrase
/// that was drawn, one of 2,000 has a word three times.
fn prose(words: &[u16]) -> bool {
    let mut sorted = words.to_vec();
    sorted.sort_unstable();
    let runs = sorted.chunk_by(|a, b| a == b);
    let most = runs.clone().map(<[u16]>::len).max().unwrap_or(0);
    most >= AGAIN_MIN && runs.count() > OTHERS_MIN
}

/// Whether some words of a run are a phrase. Words in the order of the list are a copy of the list.
fn holds_phrase(run: &[Word], tried: &mut usize) -> bool {
    if run.len() < LENGTHS[LENGTHS.len() - 1] {
        return false;
    }
    let numbers: Vec<u16> = run.iter().map(|word| word.0).collect();
    let mut phrase = |at: usize, length: usize| {
        let words = &numbers[at..at + length];
        // Words that repeat themselves have been tried.
        let before = at.saturating_sub(LENGTHS[0])..at;
        let again = before
            .rev()
            .any(|before| numbers[before..before + length] == *words);
        if again || words.is_sorted_by(|a, b| a < b) || prose(words) {
            return false;
        }
        *tried += 1;
        checksum(words)
    };
    LENGTHS.iter().any(|length| {
        (0..(numbers.len() + 1).saturating_sub(*length)).any(|at| phrase(at, *length))
    })
}

/// Eleven bits a word: the entropy, then as many bits of its hash as there are words, divided by three.
fn checksum(words: &[u16]) -> bool {
    let mut bytes = [0u8; 24 * 11 / 8 + 1];
    let (mut bits, mut count, mut at) = (0u32, 0, 0);
    for word in words {
        (bits, count) = (bits << 11 | u32::from(*word), count + 11);
        while count >= 8 {
            count -= 8;
            bytes[at] = (bits >> count) as u8;
            at += 1;
        }
    }
    bytes[at] = (bits << (8 - count)) as u8;
    let entropy = words.len() * 4 / 3;
    let shift = 8 - words.len() / 3;
    let hash = Sha256::digest(&bytes[..entropy]);
    hash[0] >> shift == bytes[entropy] >> shift
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<&str> {
        next(text.as_bytes(), 0, &mut 0).map(|span| &text[span])
    }

    #[test]
    fn the_phrases_of_the_specification_are_known() {
        let zeros = format!("{}about", "abandon ".repeat(11));
        let eights =
            "letter advice cage absurd amount doctor acoustic avoid letter advice cage above";
        assert!(printed(zeros.as_bytes()) && printed(eights.as_bytes()));
        let drawn = "rack rubber able sing until jazz decade rookie fiction lounge spend december";
        assert!(!printed(drawn.as_bytes()) && !printed(b"abandon about"));
    }

    #[test]
    fn the_list_is_the_standards() {
        let hash = Sha256::digest(LIST);
        assert_eq!(hash[..4], [0x2f, 0x5e, 0xed, 0x53]);
        assert_eq!(WORDS.all.len(), 2048);
        assert!((0..2048).all(|i| WORDS.number(WORDS.all[i].as_bytes()) == Some(i as u16)));
    }

    /// A phrase whose last word makes the checksum hold, and one of which it does not.
    fn phrase(length: usize) -> (Vec<&'static str>, Vec<&'static str>) {
        let mut numbers: Vec<u16> = (0..length).map(|i| (i * 631 % 2048) as u16).collect();
        let mut with = |holds: bool| {
            let last = (0..2048).find(|last| {
                numbers[length - 1] = *last;
                checksum(&numbers) == holds
            });
            assert!(last.is_some());
            numbers.iter().map(|i| WORDS.all[usize::from(*i)]).collect()
        };
        (with(true), with(false))
    }

    #[test]
    fn a_phrase_is_found_whatever_stands_between_and_around_its_words() {
        for length in LENGTHS {
            let (good, _) = phrase(length);
            for joint in [" ", "\n", ", ", "-", "_", "\", \"", "\r\n  "] {
                let words = good.join(joint);
                for pad in 0..60 {
                    let text = format!("{}: {words}. It", "x".repeat(pad));
                    assert_eq!(found(&text), Some(&*words), "{joint:?} {pad}");
                }
            }
            assert!(found(&good.join(" ").to_uppercase()).is_some());
            assert_eq!(found(&good[..11].join(" ")), None);
            assert_eq!(found(&good.join("")), None);
            assert_eq!(found(&good.join(" of ")), None);
        }
    }

    #[test]
    fn a_wrong_checksum_and_the_list_itself_are_left_alone() {
        let (_, bad) = phrase(12);
        assert_eq!(found(&bad.join(" ")), None);
        assert_eq!(found(LIST), None);
        assert_eq!(found(&"a ".repeat(100)), None);
        assert_eq!(found(&"zoo".repeat(100)), None);
    }

    #[test]
    fn a_phrase_in_a_long_run_of_listed_words_is_found() {
        let (good, _) = phrase(12);
        let sorted = WORDS.all[..200].join(" ");
        let text = format!("{sorted} {} {sorted}", good.join(" "));
        let span = next(text.as_bytes(), 0, &mut 0).unwrap();
        assert!(text[span].contains(&good.join(" ")));
    }
}
