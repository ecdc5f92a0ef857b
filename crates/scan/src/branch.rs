//! The alternatives of an expression against injection, and the words that open each of them.
//!
//! An expression with many gaps costs a hundred times what looking for words costs, and its words are
//! ordinary ones. So an expression is taken apart at its alternatives, and each is run only where up to three of its
//! words stand in their order, no further apart than a match allows: those that cost the least to wait for, and spare
//! the most. The words are read from the expression itself; where it says too little, the rule's literals open it.
//!
//! A word is waited for where the expression has it: `\b(?:rate)\b` is not in `generate`. A gap of an expression
//! may be empty, and words without their gaps are still found: long ones always, short ones in a row of letters; a
//! short word that is glued to one other short word is not.
//!
//! `build.rs` does this for our own rules, so that a start does not.

use std::collections::HashMap;
use std::sync::OnceLock;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::{Extractor, Literal};
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use crate::common::{BEGINS, PARTS, WHOLE};
use crate::packed::Words;
use crate::spell;
use crate::words;

/// Branches of one expression.
const BRANCHES_MAX: usize = 128;
/// Bytes of the shortest word: shorter ones stand everywhere, but for those that stand alone, and for marks.
const WORD_BYTES_MIN: usize = 3;
const ALONE_BYTES_MIN: usize = 2;
const MARKS_BYTES_MIN: usize = 2;
/// Words that begin with the same marks, and bytes of each of them that are looked at.
const MARKED_MAX: usize = 96;
const MARKED_BYTES_MAX: usize = 8;
/// Words that a part of an expression is spelled out as, and bytes of each.
const SPELLED_MAX: usize = 8;
const SPELLED_BYTES_MAX: usize = 16;
/// Bytes of the shortest word that is found wherever it stands in others, though its gaps were taken out.
pub(crate) const LONG_WORD_MIN: usize = 5;
/// Words of one step.
const STEP_WORDS_MAX: usize = 256;
/// How often a word stands in a megabyte that is not known to be common.
const RARE: u64 = 2;
/// The same of words of two bytes, as parts of others: each of those is looked at.
const PAIR: u64 = 3_000;
/// Words of a branch that are waited for one after the other, and steps of it that are tried, the rarest.
const WORDS_MAX: usize = 3;
const STEPS_TRIED: usize = 10;
/// What it costs to see a word, and to search where all words of a branch were seen, one beside the other.
const SEE_COST: u64 = 1;
const SEARCH_COST: u64 = 500;
/// What it costs that a step has only words that are missed where their gaps are taken out.
const SHORT_COST: u64 = 80;
/// What a branch costs that is taken apart, and about what one costs that no words open.
const APART_COST: u64 = 10_000;
const NO_WORDS_COST: u64 = 1 << 24;
/// Bytes among which to count how often a word stands, as a power of two.
const COUNTED: u32 = 20;
/// How much a word spares at most, since those of a branch stand together more often than by chance: nothing where it is
/// as near as this, and twice as much where it may be twice as far, as powers of two.
const BESIDE: u32 = 4;
const SPARED: u32 = 4;
/// A word that each match begins with is waited for alone where it is no more common than this.
const RARE_FIRST: u64 = 60;

/// One alternative of an expression, and what opens it.
#[derive(Debug, PartialEq)]
pub(crate) struct Branch<S, W> {
    /// The alternative, as an expression.
    pub(crate) regex: S,
    /// Whether it matches any text that is ASCII.
    pub(crate) ascii: bool,
    /// One of these words is in each match; there is none where that cannot be told.
    pub(crate) first: W,
    /// One of these comes after it in each match; there is none where two say enough.
    pub(crate) middle: W,
    /// One of these comes after those in each match; there is none where the first says enough.
    pub(crate) last: W,
    /// Bytes from the start of the first word to the end of the next one, and from the start of the middle one to the
    /// end of the last, at most.
    pub(crate) near: [usize; 2],
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
pub(crate) type Step = Vec<(Vec<u8>, u8)>;

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
    let all = apart(alternatives(&parse(regex)?));
    all.iter().map(branch).collect()
}

fn branch(hir: &Hir) -> Result<Taken, String> {
    let (steps, whole) = steps_in_order(hir);
    if whole == usize::MAX {
        return Err("it has no bound".to_owned());
    }
    let best: Vec<&Place> = openers(&steps).into_iter().map(|at| &steps[at]).collect();
    let words = |place: Option<&&Place>| place.map_or(Vec::new(), |place| place.words.clone());
    let near = |two: &[&Place]| two[1].end() - two[0].start;
    let mut links = best.windows(2).map(near);
    Ok(Branch {
        regex: hir.to_string(),
        ascii: can_be_ascii(hir),
        first: words(best.first()),
        middle: words(best[..best.len().max(1) - 1].get(1)),
        last: words(best.get(1..).and_then(<[_]>::last)),
        near: [links.next().unwrap_or(whole), links.next().unwrap_or(whole)],
        before: best.first().map_or(whole, |first| first.end()),
        after: best.last().map_or(whole, |last| whole - last.start),
    })
}

/// The steps that open a branch, in their order: those with which it costs the least.
fn openers(steps: &[Place]) -> Vec<usize> {
    // What each match begins with is searched from there only, and says no soon.
    let begins = |place: &&Place| {
        let whole = |(word, _): &(Vec<u8>, u8)| word.len() == place.length;
        place.start == 0 && place.often <= RARE_FIRST && place.words.iter().all(whole)
    };
    if steps.first().is_some_and(|first| begins(&first)) {
        return vec![0];
    }
    let mut rarest: Vec<usize> = (0..steps.len()).collect();
    rarest.sort_by_key(|at| steps[*at].often);
    rarest.truncate(STEPS_TRIED);
    rarest.sort_unstable();
    let (mut best, mut least) = (Vec::new(), u64::MAX);
    let mut rows: Vec<Vec<usize>> = rarest.iter().map(|at| vec![*at]).collect();
    while let Some(row) = rows.pop() {
        let places: Vec<&Place> = row.iter().map(|at| &steps[*at]).collect();
        let cost = cost(&places);
        if cost < least {
            (best, least) = (row.clone(), cost);
        }
        if row.len() < WORDS_MAX {
            let last = row[row.len() - 1];
            let later = rarest.iter().filter(|at| **at > last);
            rows.extend(later.map(|at| [&row[..], &[*at]].concat()));
        }
    }
    best
}

/// What a branch costs in a megabyte of ordinary text if these steps open it, about.
fn cost(places: &[&Place]) -> u64 {
    let near = |two: &[&Place]| (two[1].end() - two[0].start) as u64;
    let links: Vec<u64> = places.windows(2).map(near).collect();
    let rarest = (0..places.len()).min_by_key(|at| places[*at].often);
    let rarest = rarest.expect("there is one");
    let one = 1u64 << COUNTED;
    let mut searched = places[rarest].often * SEARCH_COST;
    for (at, other) in places.iter().enumerate().filter(|(at, _)| *at != rarest) {
        let before = at.checked_sub(1).and_then(|at| links.get(at));
        let near = before.into_iter().chain(links.get(at)).min();
        let near = near.copied().unwrap_or(1);
        // It is there by chance, or always.
        let spared = near.ilog2().saturating_sub(BESIDE).min(SPARED);
        let chance = other.often.saturating_mul(near).clamp(one >> spared, one);
        searched = searched.saturating_mul(chance) >> COUNTED;
    }
    let seen: u64 = places.iter().map(|place| place.often).sum();
    let short: u64 = places.iter().map(|place| place.short()).sum();
    seen * SEE_COST + searched + short * SHORT_COST
}

/// Any of these is a match.
pub(crate) fn alternatives(hir: &Hir) -> Vec<Hir> {
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
    if all.is_empty() {
        return vec![hir.clone()];
    }
    // Neighbours stay together where they are too many.
    let together = all.chunks(all.len().div_ceil(BRANCHES_MAX));
    together
        .map(|some| Hir::alternation(some.to_vec()))
        .collect()
}

/// The same, those that cost much taken apart at an alternation inside of them, where its alternatives cost less one by
/// one: words of one of them say more than words of any.
pub(crate) fn apart(all: Vec<Hir>) -> Vec<Hir> {
    let mut left: Vec<(u64, Hir)> = all
        .into_iter()
        .rev()
        .map(|one| (cost_of(&one), one))
        .collect();
    let mut done = Vec::new();
    while let Some((cost, one)) = left.pop() {
        let room = (BRANCHES_MAX - 1).saturating_sub(left.len() + done.len());
        match (cost > APART_COST).then(|| pieces(&one, room)).flatten() {
            Some(pieces) if sum_of(&pieces) <= cost / 2 => left.extend(pieces.into_iter().rev()),
            _ => done.push(one),
        }
    }
    done
}

/// An expression taken apart at the alternation where that costs the least, in no more pieces than there is room for.
fn pieces(hir: &Hir, room: usize) -> Option<Vec<(u64, Hir)>> {
    let HirKind::Concat(parts) = hir.kind() else {
        return None;
    };
    let all = parts.iter().enumerate().filter_map(|(at, part)| {
        let HirKind::Alternation(alternatives) = part.kind() else {
            return None;
        };
        let with = |one: &Hir| {
            let one =
                Hir::concat([&parts[..at], std::slice::from_ref(one), &parts[at + 1..]].concat());
            (cost_of(&one), one)
        };
        (alternatives.len() <= room).then(|| alternatives.iter().map(with).collect())
    });
    all.min_by_key(|pieces: &Vec<(u64, Hir)>| sum_of(pieces))
}

fn sum_of(pieces: &[(u64, Hir)]) -> u64 {
    pieces.iter().map(|(cost, _)| cost).sum()
}

/// What a branch costs, if those words open it with which it costs the least.
fn cost_of(hir: &Hir) -> u64 {
    let (steps, _) = steps_in_order(hir);
    let best: Vec<&Place> = openers(&steps).into_iter().map(|at| &steps[at]).collect();
    match best.is_empty() {
        true => NO_WORDS_COST,
        false => cost(&best),
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
pub(crate) struct Place {
    pub(crate) words: Step,
    /// How often any of them stands in a megabyte of ordinary text, about.
    often: u64,
    /// Bytes before the part of the expression that they are in, and of that part, at most.
    start: usize,
    length: usize,
}

impl Place {
    /// How many of a hundred of its words are missed where they are glued to another one.
    fn short(&self) -> u64 {
        let glued = |edges: u8| edges & (GAP_LEFT | GAP_RIGHT) != 0;
        let short = |(word, edges): &&(Vec<u8>, u8)| word.len() < LONG_WORD_MIN && glued(*edges);
        let count = self.words.iter().filter(short).count();
        (count * 100 / self.words.len().max(1)) as u64
    }

    /// Bytes of a match before what is behind it, at most.
    fn end(&self) -> usize {
        self.start + self.length
    }
}

/// The steps of a branch in their order, and the bytes of its longest match.
pub(crate) fn steps_in_order(hir: &Hir) -> (Vec<Place>, usize) {
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
            often: sum(&words),
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
    let mark = |byte: u8| !byte.is_ascii_alphanumeric();
    match part.kind() {
        // Nothing of a word is beyond the text.
        HirKind::Look(Look::Start) => (side == LEFTS).then_some(true),
        HirKind::Look(Look::End) => (side == RIGHTS).then_some(true),
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
            let steps: Vec<Step> = steps.map(|(_, words, _)| words).collect();
            match steps.is_empty() {
                true => spelled_out(parts, edges).into_iter().collect(),
                false => steps,
            }
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

/// All that a row matches, as words, where that is little: `ai` and `ais`, of which neither is in the other.
fn spelled_out(parts: &[Hir], row: u8) -> Option<Step> {
    let look = |part: &Hir| matches!(part.kind(), HirKind::Look(_));
    let first = parts.iter().position(|part| !look(part))?;
    let last = parts.iter().rposition(|part| !look(part))?;
    let edges = edges(parts, first, row) & LEFTS | edges(parts, last, row) & RIGHTS;
    let mut extractor = Extractor::new();
    extractor
        .limit_total(SPELLED_MAX)
        .limit_literal_len(SPELLED_BYTES_MAX);
    let all = extractor.extract(&Hir::concat(parts[first..=last].to_vec()));
    let whole = |one: &Literal| one.is_exact() && !one.as_bytes().contains(&b' ');
    let words = all.literals()?.iter().map(|one| {
        let word = one.as_bytes().to_ascii_lowercase();
        (whole(one) && is_told(&word, edges)).then_some((word, edges))
    });
    let mut words: Step = words.collect::<Option<_>>()?;
    words.sort();
    words.dedup();
    (!words.is_empty()).then_some(words)
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
        // A mark has letters beside it, or none, as it likes.
        let letter = |byte: Option<&u8>| byte.is_none_or(|byte| !byte.is_ascii_punctuation());
        let left = if letter(word.first()) { left } else { 0 };
        let right = if letter(word.last()) { right } else { 0 };
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
    let [parts, begins, whole] = powers(word);
    // Of two marks in a row the list has all that are common; the same mark twice stands in rows of it.
    if word.iter().all(u8::is_ascii_punctuation) && word.iter().any(|mark| *mark != word[0]) {
        return parts.map_or(RARE, |power| 1 << power);
    }
    let alone = edges & LEFTS != 0 && edges & RIGHTS != 0;
    if word.len() < WORD_BYTES_MIN && !alone {
        return parts.map_or(PAIR, |power| PAIR / 2 + (1 << power));
    }
    match (edges & LEFTS != 0, edges & RIGHTS != 0) {
        (false, false) => parts.map(|power| 1 << power),
        (true, true) => whole.map(|power| 1 << power),
        (true, false) => begins.map(|power| 1 << power),
        (false, true) => parts.map(|power| 1 << power.saturating_sub(1)),
    }
    .unwrap_or(RARE << 7u64.saturating_sub(word.len() as u64))
}

/// How often a word stands in a megabyte, as a power of two, of those that were counted: anywhere, where a word begins,
/// as a whole one.
fn powers(word: &[u8]) -> [Option<u32>; 3] {
    type Counted = HashMap<&'static [u8], [Option<u32>; 3]>;
    static ALL: OnceLock<Counted> = OnceLock::new();
    let counted = ALL.get_or_init(|| {
        let mut all = Counted::new();
        for (list, words) in [PARTS, BEGINS, WHOLE].into_iter().enumerate() {
            for (power, words) in words {
                for word in words.split(' ') {
                    all.entry(word.as_bytes()).or_default()[list] = Some(*power);
                }
            }
        }
        all
    });
    counted.get(word).copied().unwrap_or_default()
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
        let taken = one(
            "(?:her|mail) .{0,9}(?:passwords?|api[ -]?keys?) ?to the .{0,40}(?:pastebin|webhook)s",
        );
        assert_eq!(words(&taken.first), ["api", "password"]);
        assert!(taken.middle.is_empty());
        assert_eq!(words(&taken.last), ["pastebin", "webhook"]);
        // Where a space is, up to eight marks are.
        assert_eq!(taken.before, 4 + 8 + 9 + 9);
        assert_eq!(taken.near[0], 9 + 8 + 2 + 8 + 3 + 8 + 40 + 8);
        assert_eq!(taken.after, 8 + 1);
    }

    #[test]
    fn three_words_open_a_branch_of_common_ones() {
        let regex = r"\b(?:when|if)\b.{0,60}\b(?:file|data)\b.{0,60}\bcan\b.{0,60}\bshould\b";
        let taken = one(regex);
        assert_eq!(words(&taken.first), ["if", "when"]);
        assert_eq!(words(&taken.middle), ["data", "file"]);
        assert_eq!(words(&taken.last), ["should"]);
        assert_eq!(taken.near, [4 + 60 + 4, 4 + 60 + 3 + 60 + 6]);
        assert_eq!((taken.before, taken.after), (4, 6));
    }

    #[test]
    fn a_word_that_is_always_beside_another_spares_nothing() {
        let taken = one(r"\]\(https?://.{0,200}\?token=");
        assert_eq!(words(&taken.first), ["](http"]);
        assert_eq!(words(&taken.last), ["?token="]);
    }

    #[test]
    fn a_dear_branch_is_taken_apart() {
        let regex = r"(?:the (?:model|agent).{0,90}file|your (?:user|tool).{0,90}path).{0,200}(?:use|set|get)";
        let first = |taken: &Taken| taken.first.iter().map(|(word, _)| word.clone()).collect();
        let all: Vec<Vec<Vec<u8>>> = branches(regex).unwrap().iter().map(first).collect();
        assert!(all.len() > 1, "{all:?}");
        let rare = r"(?:the|your) pastebin.{0,9}file";
        assert_eq!(branches(rare).unwrap().len(), 1);
    }

    #[test]
    fn short_words_with_an_ending_are_spelled_out() {
        let taken = one(r"\b(?:ais?|llms?)\b .");
        assert_eq!(words(&taken.first), ["ai", "ais", "llm"]);
        let taken = one(r"\b(?:ais?|llms?).");
        assert!(taken.first.is_empty());
    }

    #[test]
    fn a_text_begins_beside_no_word() {
        let taken = one(r"(?:^|[.:]) ?(?:pin|show) ?.{0,30}x");
        let edges: Vec<u8> = taken.first.iter().map(|(_, edges)| *edges).collect();
        assert_eq!(words(&taken.first), ["pin", "show"]);
        assert_eq!(edges, [GAP_LEFT, GAP_LEFT]);
    }

    #[test]
    fn neighbours_stay_together_where_they_are_too_many() {
        let letter = |at: usize| char::from(b'a' + (at % 26) as u8);
        let word = |at: usize| format!("{0}{0}{0}{1}", letter(at / 26), letter(at));
        let all: Vec<String> = (0..2 * BRANCHES_MAX - 6).map(word).collect();
        let taken = branches(&format!("(?:{})x", all.join("|"))).unwrap();
        assert_eq!(taken.len(), 1);
        let all: Vec<String> = all.iter().map(|word| format!("{word}.{{0,9}}y")).collect();
        let taken = branches(&all.join("|")).unwrap();
        assert_eq!(taken.len(), BRANCHES_MAX - 3);
        assert_eq!(words(&taken[0].first), ["aaaa", "aaab"]);
    }

    #[test]
    fn what_a_match_begins_with_opens_it_alone() {
        let taken = one("sends.{0,9}passwords to the webhook");
        assert_eq!(words(&taken.first), ["sends"]);
        assert!(taken.last.is_empty());
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
        assert!(taken.last.is_empty());
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
