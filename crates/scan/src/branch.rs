//! The alternatives of an expression against injection, and the words that open each of them.
//!
//! An expression with many gaps costs a hundred times what looking for words costs, and its words are
//! ordinary ones. So an expression is taken apart at its alternatives, and each is run only where two of its
//! rarest words stand in their order, no further apart than a match allows. The words are read from the
//! expression itself; where it says too little, the rule's literals open it. It never hides a match.
//!
//! `build.rs` does this for our own rules, so that a start does not.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

use crate::common::COMMON;
use crate::east;
use crate::words;

/// Alternatives that are told apart.
const BRANCHES_MAX: usize = 64;
/// Bytes of the shortest word: shorter ones stand everywhere, but for marks.
const WORD_BYTES_MIN: usize = 3;
const MARKS_BYTES_MIN: usize = 2;
/// Words of one step.
const STEP_WORDS_MAX: usize = 256;
/// How often a word stands in a megabyte that is not known to be common.
const RARE: u64 = 8;
/// Words that are this common do not tell enough to be waited for, where the others are rare.
const TOO_COMMON: u64 = 2_000;
const RARE_ENOUGH: u64 = 40;
/// A word that each match begins with is waited for alone where it is no more common than this.
const RARE_FIRST: u64 = 200;

/// One alternative of an expression, and what opens it.
#[derive(Debug, PartialEq)]
pub struct Branch<S, W> {
    /// The alternative, as an expression.
    pub(crate) regex: S,
    /// Whether it matches any text that is ASCII.
    pub(crate) ascii: bool,
    /// One of these words is in each match; there is none where that cannot be told.
    pub(crate) first: W,
    /// One of these comes after it in each match; there is none where the first says enough.
    pub(crate) second: W,
    /// Bytes from the start of the first word to the end of the second, at most.
    pub(crate) near: usize,
    /// Bytes from the start of a match to the end of the first word, at most.
    pub(crate) before: usize,
    /// Bytes from the start of the last of the words to the end of the match, at most.
    pub(crate) after: usize,
}

/// A branch that was just taken apart.
pub(crate) type Taken = Branch<String, Step>;

/// One of these words is in each match.
type Step = Vec<Vec<u8>>;

/// Parses an expression over bytes. Errors: it does not parse.
pub(crate) fn parse(regex: &str) -> Result<Hir, String> {
    let mut parser = ParserBuilder::new().unicode(false).utf8(false).build();
    let hir = parser.parse(&east::simplified(regex));
    hir.map_err(|error| error.to_string())
}

/// Parses the expression of a branch, as [`branches`] wrote it. Errors: it is none.
pub(crate) fn parse_written(regex: &str) -> Result<Hir, String> {
    // What is written says of each class whether it is of bytes.
    let mut parser = ParserBuilder::new().utf8(false).build();
    parser.parse(regex).map_err(|error| error.to_string())
}

/// Takes an expression apart. Errors: it does not parse, or has no bound.
pub(crate) fn branches(regex: &str) -> Result<Vec<Taken>, String> {
    let all = alternatives(&parse(regex)?);
    all.iter().map(branch).collect()
}

fn branch(hir: &Hir) -> Result<Taken, String> {
    let (steps, whole) = steps_in_order(hir);
    if whole == usize::MAX {
        return Err("it has no bound".to_owned());
    }
    let mut best: Vec<usize> = (0..steps.len()).collect();
    best.sort_by_key(|index| steps[*index].often());
    // What each match begins with is searched from there only, and says no soon.
    let begins = |place: &&Place| {
        let others = best.iter().filter(|index| **index != 0);
        let rarest = others.map(|index| steps[*index].often()).min();
        place.start == 0
            && place.words.iter().all(|word| word.len() == place.length)
            && place.often() <= rarest.unwrap_or(u64::MAX).max(RARE_FIRST)
    };
    if steps.first().filter(begins).is_some() {
        best = vec![0];
    } else if let [first, second, ..] = best[..] {
        let enough = steps[first].often() <= RARE_ENOUGH;
        best.truncate(if enough && steps[second].often() > TOO_COMMON {
            1
        } else {
            2
        });
    }
    best.sort_unstable();
    let words = |at: usize| {
        best.get(at)
            .map_or(Vec::new(), |at| steps[*at].words.clone())
    };
    let (first, last) = (best.first().copied(), best.last().copied());
    let end = |at: usize| steps[at].start + steps[at].length;
    let (before, near, after) = match (first, last) {
        (Some(first), Some(last)) => (
            end(first),
            end(last) - steps[first].start,
            whole - steps[last].start,
        ),
        _ => (whole, whole, whole),
    };
    Ok(Branch {
        regex: hir.to_string(),
        ascii: can_be_ascii(hir),
        first: words(0),
        second: words(1),
        near,
        before,
        after,
    })
}

/// Any of these is a match.
fn alternatives(hir: &Hir) -> Vec<Hir> {
    let all = match hir.kind() {
        HirKind::Alternation(parts) => parts.clone(),
        // What all alternatives begin with was put before them.
        HirKind::Concat(parts) => match parts.split_last() {
            Some((last, before)) => match last.kind() {
                HirKind::Alternation(parts) => {
                    let with = |part: &Hir| {
                        let parts = before.iter().chain([part]).cloned();
                        Hir::concat(parts.collect())
                    };
                    parts.iter().map(with).collect()
                }
                _ => Vec::new(),
            },
            None => Vec::new(),
        },
        _ => Vec::new(),
    };
    match (1..=BRANCHES_MAX).contains(&all.len()) {
        true => all,
        false => vec![hir.clone()],
    }
}

/// Whether an expression matches any text that is ASCII.
pub(crate) fn can_be_ascii(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => true,
        HirKind::Literal(literal) => literal.0.is_ascii(),
        HirKind::Class(Class::Bytes(class)) => class.ranges().iter().any(|r| r.start() < 0x80),
        HirKind::Class(Class::Unicode(class)) => {
            class.ranges().iter().any(|r| r.start() < '\u{80}')
        }
        HirKind::Repetition(repetition) => repetition.min == 0 || can_be_ascii(&repetition.sub),
        HirKind::Capture(capture) => can_be_ascii(&capture.sub),
        HirKind::Concat(parts) => parts.iter().all(can_be_ascii),
        HirKind::Alternation(parts) => parts.iter().any(can_be_ascii),
    }
}

/// Words of which each match has one, and where.
struct Place {
    words: Step,
    /// Bytes before the part of the expression that they are in, and of that part, at most.
    start: usize,
    length: usize,
}

impl Place {
    /// How often any of the words stands in a megabyte of ordinary text, about.
    fn often(&self) -> u64 {
        self.words.iter().map(|word| often(word)).sum()
    }
}

/// The steps of a branch in their order, and the bytes of its longest match.
fn steps_in_order(hir: &Hir) -> (Vec<Place>, usize) {
    let parts = match hir.kind() {
        HirKind::Concat(parts) => &parts[..],
        _ => std::slice::from_ref(hir),
    };
    let (mut all, mut start) = (Vec::new(), 0usize);
    for part in parts {
        let length = words::length_max(part);
        let places = steps(part).into_iter().map(|words| Place {
            words,
            start,
            length,
        });
        all.extend(places);
        start = start.saturating_add(length);
    }
    (all, start)
}

/// The steps of an expression, in their order: each match has one word of each.
fn steps(hir: &Hir) -> Vec<Step> {
    match hir.kind() {
        // A space is a gap of any marks, and of none.
        HirKind::Literal(literal) => {
            let words = literal.0.split(|byte| *byte == b' ');
            let words = words.filter(|word| {
                let marks = word.iter().all(u8::is_ascii_punctuation);
                word.len()
                    >= if marks {
                        MARKS_BYTES_MIN
                    } else {
                        WORD_BYTES_MIN
                    }
            });
            words.map(|word| vec![word.to_ascii_lowercase()]).collect()
        }
        HirKind::Repetition(repetition) if repetition.min > 0 => steps(&repetition.sub),
        HirKind::Capture(capture) => steps(&capture.sub),
        HirKind::Concat(parts) => parts.iter().flat_map(steps).collect(),
        HirKind::Alternation(parts) => {
            let best = |part| {
                let often = |step: &Step| step.iter().map(|word| often(word)).sum::<u64>();
                steps(part).into_iter().min_by_key(often)
            };
            let all: Option<Vec<Step>> = parts.iter().map(best).collect();
            let mut words = all.map(|steps| steps.concat()).unwrap_or_default();
            words.sort();
            words.dedup();
            match words.is_empty() || words.len() > STEP_WORDS_MAX {
                true => Vec::new(),
                false => vec![words],
            }
        }
        _ => Vec::new(),
    }
}

/// How often a word stands in a megabyte of ordinary text, about.
fn often(word: &[u8]) -> u64 {
    if !word.is_ascii() {
        // Each byte of another script halves it, and a little more.
        return 1 << 19u64.saturating_sub(word.len() as u64 * 5 / 3);
    }
    let known =
        |(_, words): &&(u32, &str)| words.split(' ').any(|common| common.as_bytes() == word);
    match COMMON.iter().find(known) {
        Some((power, _)) => 1 << power,
        None => RARE << 7u64.saturating_sub(word.len() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(step: &Step) -> Vec<&str> {
        let text = |word: &'_ Vec<u8>| std::str::from_utf8(word).unwrap().to_owned().leak() as &str;
        step.iter().map(text).collect()
    }

    fn one(regex: &str) -> Taken {
        let mut all = branches(regex).unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn the_rarest_words_open_a_branch() {
        let taken =
            one("(?:sends|mail) .{0,9}(?:passwords?|api[ -]?keys?) ?to the (?:pastebin|webhook)s");
        assert_eq!(words(&taken.first), ["mail", "sends"]);
        assert_eq!(words(&taken.second), ["pastebin", "webhook"]);
        assert_eq!((taken.before, taken.after), (5, 9));
        // Where a space is, up to eight marks are.
        assert_eq!(taken.near, 5 + 8 + 9 + 9 + 8 + 2 + 8 + 3 + 8 + 8);
    }

    #[test]
    fn what_a_match_begins_with_opens_it_alone() {
        let taken = one("sends.{0,9}passwords to the webhook");
        assert_eq!(words(&taken.first), ["sends"]);
        assert!(taken.second.is_empty());
        assert_eq!(taken.before, 5);
    }

    #[test]
    fn alternatives_are_opened_each_by_its_own_words() {
        let all = branches(r"\b(?:forget.{0,9}rules|drop.{0,9}tables|x.{0,3}y)").unwrap();
        let first: Vec<_> = all.iter().map(|taken| words(&taken.first)).collect();
        assert_eq!(first, [vec!["forget"], vec!["drop"], vec![]]);
    }

    #[test]
    fn a_rare_word_does_not_wait_for_one_that_stands_everywhere() {
        let taken = one("exfiltrate https?://");
        assert_eq!(words(&taken.first), ["exfiltrate"]);
        assert!(taken.second.is_empty());
    }

    #[test]
    fn a_branch_means_what_the_expression_means() {
        let regex = r"\bsend (?:it|[^\s]{1,3}) to (?:свой|наш)\b";
        let (before, after) = (parse(regex).unwrap(), one(regex));
        assert_eq!(parse_written(&after.regex).unwrap(), before);
    }

    #[test]
    fn what_has_no_bound_is_an_error() {
        assert!(branches("a+").is_err());
        assert!(branches("(").is_err());
    }

    #[test]
    fn other_scripts_are_no_ascii() {
        let ascii = |regex| branches(regex).unwrap().iter().any(|taken| taken.ascii);
        assert!(ascii("send (?:ключ|key)"));
        assert!(!ascii("send (?:ключ|пароль)"));
        assert!(ascii("send (?:ключ)?"));
    }
}
