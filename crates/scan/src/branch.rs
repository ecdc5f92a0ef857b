//! The alternatives of an expression against injection, and the words that open each of them.
//!
//! An expression with many gaps costs a hundred times what looking for words costs, and its words are
//! ordinary ones. So an expression is taken apart at its alternatives, and each is run only where two of its
//! rarest words stand in their order, no further apart than a match allows. The words are read from the
//! expression itself; where it says too little, the rule's literals open it.
//!
//! A word is waited for where the expression has it: `\b(?:rate)\b` is not in `generate`. A gap of an expression
//! may be empty, and words without their gaps are still found: long ones always, short ones in a row of letters; a
//! short word that is glued to one other short word is not.
//!
//! `build.rs` does this for our own rules, so that a start does not.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::{Extractor, Literal};
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use crate::common::{PARTS, WHOLE};
use crate::packed::Words;
use crate::spell;
use crate::words;

/// Alternatives that are told apart.
const BRANCHES_MAX: usize = 64;
/// Bytes of the shortest word: shorter ones stand everywhere, but for those that stand alone, and for marks.
const WORD_BYTES_MIN: usize = 3;
const ALONE_BYTES_MIN: usize = 2;
const MARKS_BYTES_MIN: usize = 2;
/// Words that begin with the same marks, and bytes of each of them that are looked at.
const MARKED_MAX: usize = 96;
const MARKED_BYTES_MAX: usize = 8;
/// Words of one step.
const STEP_WORDS_MAX: usize = 256;
/// How often a word stands in a megabyte that is not known to be common.
const RARE: u64 = 8;
/// The same of words of two bytes, as parts of others: each of those is looked at.
const PAIR: u64 = 3_000;
/// A second word is waited for where it is at most so many times as common as the first: to see it costs that
/// much less than to search what it would spare.
const WORTH: u64 = 64;
/// And where it stands seldom enough not to be near each first: times in a megabyte, by the bytes between them.
const NEAR: u64 = 1 << 20;
/// A word that each match begins with is waited for alone where it is no more common than this.
const RARE_FIRST: u64 = 60;

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

/// A branch of a rule, for the rest of the process.
pub(crate) type Fixed = Branch<&'static str, Words>;

/// A branch that was just taken apart.
pub(crate) type Taken = Branch<String, Step>;

/// One of these words is in each match, and has these edges there.
type Step = Vec<(Vec<u8>, u8)>;

/// A word begins, or ends, where the expression has a boundary of words.
pub(crate) const LEFT: u8 = 1;
pub(crate) const RIGHT: u8 = 2;
/// The same where it has a gap, or marks. A gap may be empty, but hardly where words are short.
pub(crate) const GAP_LEFT: u8 = 4;
pub(crate) const GAP_RIGHT: u8 = 8;
const LEFTS: u8 = LEFT | GAP_LEFT;
const RIGHTS: u8 = RIGHT | GAP_RIGHT;

/// Parses an expression over bytes. Errors: it does not parse.
pub(crate) fn parse(regex: &str) -> Result<Hir, String> {
    let mut parser = ParserBuilder::new().unicode(false).utf8(false).build();
    let hir = parser.parse(&spell::spelled(regex));
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
    let best = openers(&steps);
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

/// The one or two steps that open a branch, in their order.
fn openers(steps: &[Place]) -> Vec<usize> {
    let mut best: Vec<usize> = (0..steps.len()).collect();
    best.sort_by_key(|index| steps[*index].often());
    best.truncate(2);
    best.sort_unstable();
    let rarest = best
        .iter()
        .copied()
        .min_by_key(|index| steps[*index].often());
    if let [first, last] = best[..] {
        let (first, last) = (&steps[first], &steps[last]);
        let (one, other) = (
            first.often().min(last.often()),
            first.often().max(last.often()),
        );
        let near = last.start + last.length - first.start;
        // It spares nothing where one of its words is always near.
        if other > one * WORTH || other.saturating_mul(near as u64) > NEAR {
            best = Vec::from_iter(rarest);
        }
    }
    // What each match begins with is searched from there only, and says no soon.
    let begins = |place: &&Place| {
        let whole = |(word, _): &(Vec<u8>, u8)| word.len() == place.length;
        place.start == 0 && place.often() <= RARE_FIRST && place.words.iter().all(whole)
    };
    match steps.first().filter(begins) {
        Some(_) => vec![0],
        None => best,
    }
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
        sum(&self.words)
    }
}

/// The steps of a branch in their order, and the bytes of its longest match.
fn steps_in_order(hir: &Hir) -> (Vec<Place>, usize) {
    let parts = match hir.kind() {
        HirKind::Concat(parts) => &parts[..],
        _ => std::slice::from_ref(hir),
    };
    let lengths: Vec<usize> = parts.iter().map(words::length_max).collect();
    let start = |at: usize| {
        lengths[..at]
            .iter()
            .fold(0usize, |sum, one| sum.saturating_add(*one))
    };
    let places = row(parts, 0).into_iter().map(|(at, words, is_marked)| {
        let longest = words.iter().map(|(word, _)| word.len()).max();
        Place {
            start: start(at),
            length: if is_marked {
                longest.unwrap_or_default()
            } else {
                lengths[at]
            },
            words,
        }
    });
    (places.collect(), start(parts.len()))
}

/// The steps of a row that has these edges, each with the part that it begins in, and whether it is [`marked`].
fn row(parts: &[Hir], edges: u8) -> Vec<(usize, Step, bool)> {
    let mut all = Vec::new();
    // Bytes that marked words may reach on: what else is there would not come behind them.
    let mut reach = 0usize;
    for (at, part) in parts.iter().enumerate() {
        if reach == 0
            && let Some(words) = marked(&parts[at..])
        {
            reach = words.iter().map(|(word, _)| word.len()).max().unwrap_or(0);
            all.push((at, words, true));
        } else if reach == 0 {
            let steps = steps(part, self::edges(parts, at, edges)).into_iter();
            all.extend(steps.map(|words| (at, words, false)));
        }
        // A space is a gap, which may be empty.
        let gaps = part.to_string().matches(' ').count();
        let least = part.properties().minimum_len().unwrap_or(0);
        reach = reach.saturating_sub(least.saturating_sub(gaps));
    }
    all
}

/// The edges that a part of a row has, given those of the row.
fn edges(parts: &[Hir], at: usize, row: u8) -> u8 {
    let (before, after) = (parts[..at].iter().rev(), parts[at + 1..].iter());
    edge(before, row, LEFTS) | edge(after, row, RIGHTS)
}

/// What a part has at one of its sides, where these are the parts beside it, from the next on.
fn edge<'a>(parts: impl Iterator<Item = &'a Hir>, row: u8, side: u8) -> u8 {
    let mut optional = false;
    for part in parts {
        if let HirKind::Look(Look::WordAscii) = part.kind() {
            // Where something may stand between, it is a gap.
            let kind = if optional {
                GAP_LEFT | GAP_RIGHT
            } else {
                LEFT | RIGHT
            };
            return side & kind;
        }
        match outside(part, side) {
            Some(true) => return side & (GAP_LEFT | GAP_RIGHT),
            Some(false) => optional = true,
            None => return 0,
        }
    }
    match optional && row & side != 0 {
        true => side & (GAP_LEFT | GAP_RIGHT),
        false => row & side,
    }
}

/// Whether what a part matches is, at the side that is turned to a word, outside of words: always, or where it
/// matches anything.
fn outside(part: &Hir, side: u8) -> Option<bool> {
    let mark = |byte: u8| byte < 0x80 && !byte.is_ascii_alphanumeric();
    match part.kind() {
        HirKind::Literal(literal) => {
            let (first, last) = (*literal.0.first()?, *literal.0.last()?);
            mark(if side == LEFTS { last } else { first }).then_some(true)
        }
        HirKind::Class(Class::Bytes(class)) => {
            let all = class
                .ranges()
                .iter()
                .flat_map(|range| range.start()..=range.end());
            all.into_iter().all(mark).then_some(true)
        }
        HirKind::Repetition(repetition) => {
            outside(&repetition.sub, side).map(|always| always && repetition.min > 0)
        }
        HirKind::Capture(capture) => outside(&capture.sub, side),
        HirKind::Concat(parts) => {
            let next = if side == LEFTS {
                parts.last()
            } else {
                parts.first()
            };
            outside(next?, side).filter(|always| *always)
        }
        HirKind::Alternation(parts) => {
            let all = parts.iter().map(|part| outside(part, side));
            all.reduce(|all, one| Some(all? && one?))?
        }
        _ => None,
    }
}

/// The steps of an expression that has these edges, in their order: each match has one word of each.
fn steps(hir: &Hir, edges: u8) -> Vec<Step> {
    match hir.kind() {
        HirKind::Literal(literal) => words_of(&literal.0, edges),
        HirKind::Repetition(repetition) if repetition.min > 0 => {
            let once = repetition.max == Some(1);
            steps(&repetition.sub, if once { edges } else { edges & LEFTS })
        }
        HirKind::Capture(capture) => steps(&capture.sub, edges),
        HirKind::Concat(parts) => {
            let steps = row(parts, edges).into_iter();
            steps.map(|(_, words, _)| words).collect()
        }
        HirKind::Alternation(parts) => {
            let best = |part| steps(part, edges).into_iter().min_by_key(sum);
            let all: Option<Vec<Step>> = parts.iter().map(best).collect();
            let mut words = all.map(|steps| steps.concat()).unwrap_or_default();
            words.sort();
            // Of a word that has other edges elsewhere, those count that it has everywhere.
            words.dedup_by(|next, word| {
                let same = next.0 == word.0;
                if same {
                    word.1 = common(word.1, next.1);
                }
                same
            });
            let told = words.iter().all(|(word, edges)| is_told(word, *edges));
            match !told || words.is_empty() || words.len() > STEP_WORDS_MAX {
                true => Vec::new(),
                false => vec![words],
            }
        }
        _ => Vec::new(),
    }
}

/// The words that a row begins with, where it begins with marks: `<` says little, `<!--` and `<system` much.
fn marked(parts: &[Hir]) -> Option<Step> {
    let marks = match parts.first()?.kind() {
        HirKind::Literal(literal) => literal.0.iter().all(u8::is_ascii_punctuation),
        _ => false,
    };
    if !marks || parts.len() == 1 {
        return None;
    }
    let mut extractor = Extractor::new();
    extractor
        .limit_total(MARKED_MAX)
        .limit_literal_len(MARKED_BYTES_MAX);
    let all = extractor.extract(&Hir::concat(parts.to_vec()));
    let word = |literal: &Literal| {
        let bytes = literal.as_bytes().to_ascii_lowercase();
        let end = bytes.iter().position(|byte| *byte == b' ');
        bytes[..end.unwrap_or(bytes.len())].to_vec()
    };
    let mut words: Vec<_> = all.literals()?.iter().map(|one| (word(one), 0)).collect();
    words.sort();
    // A word that begins with another one is found by that.
    words.dedup_by(|next, word| next.0.starts_with(&word.0));
    let long = |(word, _): &(Vec<u8>, u8)| word.len() >= WORD_BYTES_MIN;
    (!words.is_empty() && words.iter().all(long)).then_some(words)
}

/// The edges that a word has in both of two places.
fn common(one: u8, other: u8) -> u8 {
    let gaps = |edges: u8| (edges & (LEFT | RIGHT)) << 2 | edges;
    gaps(one) & gaps(other) & (GAP_LEFT | GAP_RIGHT) | one & other
}

/// The words of a literal, each as a step. A space is a gap of any marks, and of none.
fn words_of(literal: &[u8], edges: u8) -> Vec<Step> {
    let last = literal.split(|byte| *byte == b' ').count() - 1;
    let words = literal.split(|byte| *byte == b' ').enumerate();
    let words = words.map(|(at, word)| {
        let left = if at == 0 { edges & LEFTS } else { GAP_LEFT };
        let right = if at == last {
            edges & RIGHTS
        } else {
            GAP_RIGHT
        };
        (word.to_ascii_lowercase(), left | right)
    });
    let words = words.filter(|(word, edges)| is_told(word, *edges));
    words.map(|word| vec![word]).collect()
}

/// Whether a word says enough to be looked for: it is long enough, or can be told from those that it is in.
fn is_told(word: &[u8], edges: u8) -> bool {
    let alone = edges & LEFTS != 0 && edges & RIGHTS != 0;
    let all = |test: fn(&u8) -> bool| word.iter().all(test);
    word.len()
        >= match () {
            () if alone && all(u8::is_ascii_alphanumeric) => ALONE_BYTES_MIN,
            () if all(u8::is_ascii_punctuation) => MARKS_BYTES_MIN,
            () => WORD_BYTES_MIN,
        }
}

/// How often any of these words stands in a megabyte of ordinary text, about.
fn sum(step: &Step) -> u64 {
    step.iter().map(|(word, edges)| often(word, *edges)).sum()
}

/// How often a word stands in a megabyte of ordinary text, about.
fn often(word: &[u8], edges: u8) -> u64 {
    if !word.is_ascii() {
        // Each byte of another script halves it, and a little more.
        return 1 << 19u64.saturating_sub(word.len() as u64 * 5 / 3);
    }
    let known =
        |(_, words): &&(u32, &str)| words.split(' ').any(|common| common.as_bytes() == word);
    let power = |list: &[(u32, &str)]| list.iter().find(known).map(|(power, _)| *power);
    // Of two marks in a row the list has all that are common; the same mark twice stands in rows of it.
    if word.iter().all(u8::is_ascii_punctuation) && word.iter().any(|mark| *mark != word[0]) {
        return power(PARTS).map_or(RARE, |power| 1 << power);
    }
    let alone = edges & LEFTS != 0 && edges & RIGHTS != 0;
    if word.len() < WORD_BYTES_MIN && !alone {
        return power(PARTS).map_or(PAIR, |power| PAIR / 2 + (1 << power));
    }
    match (edges & LEFTS != 0, edges & RIGHTS != 0) {
        (false, false) => power(PARTS).map(|power| 1 << power),
        (true, true) => power(WHOLE).map(|power| 1 << power),
        _ => power(PARTS).map(|power| 1 << (power - 1)),
    }
    .unwrap_or(RARE << 7u64.saturating_sub(word.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(step: &Step) -> Vec<&str> {
        let text = |(word, _): &(Vec<u8>, u8)| {
            std::str::from_utf8(word).unwrap().to_owned().leak() as &str
        };
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
