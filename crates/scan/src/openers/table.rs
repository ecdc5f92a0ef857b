//! The words of all rules as they are looked for, and what is found in one run.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::OnceLock;

use super::Openers;
use super::wide::Wide;
use crate::branch::{GAP_LEFT, GAP_RIGHT, LEFT, LONG_WORD_MIN, RIGHT};
use crate::lexicon::{Seen, What};
use crate::literals::{Found, LITERAL_BYTES_MAX, Literals, Places, Whole, Written};
use crate::rule::{Direction, Part, Use};
use crate::set::Matcher;
use crate::{runs, words};

/// All words as they are looked for.
pub(super) struct Table {
    /// Words of letters, by their numbers, and the parts of those that have marks too: many have the same one, which is
    /// looked for once.
    letters: Literals,
    parts: Vec<Vec<Fragment>>,
    /// Such parts that are too short to be looked for, by what they begin with: they are at an end of their run, or
    /// nowhere.
    short: Vec<Vec<Fragment>>,
    /// Words of marks by what they begin with, and fewest marks of one.
    marks: Vec<Vec<Fragment>>,
    pub(super) marks_min: usize,
    /// Words that are neither, such as spaces.
    others: Option<Literals>,
    /// Words that are not ASCII, built for the first text that has any of their letters; and those that are, for the first
    /// in which most runs are new.
    wide: OnceLock<Wide>,
    all: OnceLock<Literals>,
    /// Those that are ASCII, then the others.
    pub(super) words: Vec<Known>,
    pub(super) narrow: u16,
    uses: Vec<Opens>,
}

/// A part of a word, which has all letters of its run there, or all marks.
#[derive(Clone, Copy)]
struct Fragment {
    word: u16,
    /// Bytes of the word before it, and behind it.
    before: usize,
    behind: usize,
    length: usize,
    /// At which of its ends the word goes on, and with which two bytes, from it on.
    beside: (What, [u8; 2]),
}

/// A word, and which uses are its own.
pub(super) struct Known {
    pub(super) text: Cow<'static, [u8]>,
    uses: Range<u32>,
    /// What all its uses need, and what any of them does.
    needs: u16,
    asks: u16,
}

/// What a word opens, in eight bytes.
pub(super) struct Opens {
    /// Bytes from the start of a word of a branch to the end of the next one, at most.
    pub(super) near: u16,
    pub(super) matcher: u16,
    /// What has to be there: the edges of the word, [`PLAIN`], [`WIDE`]; and the directions in which it is not
    /// looked for.
    pub(super) needs: u16,
    pub(super) part: Part,
}

/// The word is written in no leetspeak.
const PLAIN: u16 = 16;
/// The text is not all ASCII.
pub(super) const WIDE: u16 = 32;
/// Letters of the shortest word that is looked for inside others, and letters and digits in a row that are then taken
/// for words without their gaps.
const GLUED_WORD_MIN: usize = 3;
const GLUED_BYTES_MIN: usize = 10;
/// Bytes of a text in which to look for all words pays for putting them there.
const ALL_BYTES_MIN: usize = 4 << 10;
/// Letters of the shortest part of a word that is looked for anywhere in a run.
const PART_BYTES_MIN: usize = 3;

/// The bit of a direction.
pub(super) fn bit(direction: Direction) -> u16 {
    64 << direction as u16
}

impl Table {
    pub(super) fn new(openers: &Openers, matchers: &[Matcher]) -> Table {
        let opened: Vec<Option<Waiting>> = matchers.iter().map(Waiting::of).collect();
        let (mut words, mut uses) = (Vec::new(), Vec::new());
        let mut add = |text: Cow<'static, [u8]>, all: &[Use]| {
            let from = uses.len();
            let (mut needs, mut asks) = (!0, 0);
            uses.extend(all.iter().filter_map(|one| {
                let matcher = openers.first[usize::from(one.rule)]? + one.branch;
                let opens = opened
                    .get(usize::from(matcher))?
                    .as_ref()?
                    .opens(matcher, one);
                (needs, asks) = (needs & opens.needs, asks | opens.needs);
                Some(opens)
            }));
            words.push(Known {
                text,
                needs,
                asks,
                uses: from as u32..uses.len() as u32,
            });
        };
        for (own, more) in openers.own.iter().zip(&openers.more) {
            for (text, uses) in own.iter() {
                add(Cow::Borrowed(text), uses);
            }
            for (text, one) in more {
                add(text.clone(), std::slice::from_ref(one));
            }
        }
        let narrow = openers.own[0].ends.len() + openers.more[0].len();
        Table::of(words, uses, narrow)
    }

    /// Puts the words where they are looked for. Those that open nothing are not.
    fn of(words: Vec<Known>, uses: Vec<Opens>, narrow: usize) -> Table {
        let mut letters: Vec<Wanted<'_>> = vec![NONE; narrow];
        let mut parts: Vec<Vec<Fragment>> = Vec::new();
        let (mut texts, mut numbers) = (Vec::new(), HashMap::new());
        let mut short: Vec<Vec<Fragment>> = (0..256).map(|_| Vec::new()).collect();
        let (mut marks, mut others) = (short.clone(), Vec::new());
        for (index, word) in words[..narrow].iter().enumerate() {
            let (text, number) = (&*word.text, index as u16);
            let uses = &uses[range(&word.uses)];
            if uses.is_empty() {
                continue;
            }
            if is_letters(text) {
                letters[index] = (text, whole(text, uses), written(uses));
            } else if let Some(part) = Fragment::of(text, number, runs::is_letter) {
                if part.length < PART_BYTES_MIN {
                    let first = text[part.before];
                    let spellings = [first, first.to_ascii_uppercase()];
                    let mut spellings = [&spellings[..], words::leet(first)].concat();
                    spellings.dedup();
                    for byte in spellings {
                        short[usize::from(byte)].push(part);
                    }
                    continue;
                }
                let wanted = (&text[part.range()], Whole::Part, written(uses));
                let number = *numbers.entry((wanted.0, wanted.2)).or_insert(parts.len());
                if number == parts.len() {
                    texts.push(wanted);
                    parts.push(Vec::new());
                }
                parts[number].push(part);
            } else if let Some(part) = Fragment::of(text, number, |byte| !runs::is_gap(byte)) {
                marks[usize::from(text[part.before])].push(part);
            } else {
                others.resize(index, NONE);
                others.push((text, Whole::Part, written(uses)));
            }
        }
        letters.extend(texts);
        let shortest = marks.iter().flatten().map(|part| part.length).min();
        Table {
            letters: Literals::new(&letters),
            parts,
            short,
            marks_min: shortest.map_or(2, |shortest| shortest.min(2)),
            marks,
            others: (!others.is_empty()).then(|| Literals::new(&others)),
            wide: OnceLock::new(),
            all: OnceLock::new(),
            words,
            narrow: narrow as u16,
            uses,
        }
    }

    /// Finds the words that are not ASCII.
    pub(super) fn wide(&self, bytes: &[u8], places: &mut Places) {
        let text = |word: u16| &*self.words[usize::from(word)].text;
        let wide = self.wide.get_or_init(|| {
            let words = (self.narrow..).zip(&self.words[usize::from(self.narrow)..]);
            let used = words.filter(|(_, word)| !word.uses.is_empty());
            Wide::new(used.map(|(number, _)| (text(number), number)))
        });
        wide.find(bytes, text, places);
    }

    /// Finds all words that are ASCII and end behind a place, where they are there to be looked for or it pays to put them
    /// there; answers whether it did.
    pub(super) fn rest(&self, bytes: &[u8], from: usize, places: (&mut Places, usize)) -> bool {
        let words = ..usize::from(self.narrow);
        let all = match bytes.len() > from + ALL_BYTES_MIN {
            true => Some(self.all.get_or_init(|| self.literals(&self.words[words]))),
            false => self.all.get(),
        };
        let part = from.saturating_sub(LITERAL_BYTES_MAX)..bytes.len();
        if let Some(all) = all {
            all.add(bytes, &part, places, |found, keep| {
                if found.0 > from {
                    keep(found);
                }
            });
        }
        all.is_some()
    }

    fn literals(&self, words: &[Known]) -> Literals {
        let texts = words.iter().map(|word| match self.uses_of(word) {
            [] => NONE,
            uses => (&*word.text, whole(&word.text, uses), written(uses)),
        });
        Literals::new(&texts.collect::<Vec<_>>())
    }

    pub(super) fn uses_of(&self, word: &Known) -> &[Opens] {
        &self.uses[range(&word.uses)]
    }

    /// What a word lacks where it stands, given what the text lacks, and whether it is known to be written plainly;
    /// nothing where it opens nothing, or is another word.
    pub(super) fn lacks(
        &self,
        bytes: &[u8],
        known: &Known,
        word: &Range<usize>,
        (lacks, plain): (u16, bool),
    ) -> Option<u16> {
        let lacks = lacks | lacking_edges(bytes, word, known.asks);
        if known.needs & lacks != 0 {
            return None;
        }
        let spelling = || words::spelling(&bytes[word.clone()], &known.text);
        match if plain { Some(true) } else { spelling() }? {
            true => Some(lacks),
            false => Some(lacks | PLAIN),
        }
    }

    /// Whether a word ends at a place, in whatever spelling.
    pub(super) fn is_spelled(&self, bytes: &[u8], word: u16, end: usize) -> bool {
        let text = &self.words[usize::from(word)].text;
        let start = end.checked_sub(text.len());
        let found = start.and_then(|start| bytes.get(start..end));
        found.is_some_and(|found| words::spelling(found, text).is_some())
    }

    /// Finds the words that are in no run.
    pub(super) fn others(&self, bytes: &[u8], places: &mut Places) {
        if let Some(others) = &self.others {
            others.add(bytes, &(0..bytes.len()), (places, 0), |found, keep| {
                keep(found)
            });
        }
    }

    /// Calls `each` with what is in a run and where it ends.
    fn find<'t>(
        &'t self,
        bytes: &[u8],
        run: &Range<usize>,
        mut each: impl FnMut(usize, Sight<'t>),
    ) {
        if !runs::is_letter(bytes[run.start]) {
            return self.marks(bytes, run, each);
        }
        self.short(bytes, run, |end, part| each(end, Sight::Part(part)));
        self.letters.each_in(bytes, run, |end, literal, plain| {
            self.sights((end, literal, plain), run, |sight| each(end, sight));
        });
    }

    /// Calls `each` with what a literal is that was found in a run of letters: a word, or a part of some, which is none
    /// of those that cannot be there.
    #[inline]
    fn sights<'t>(
        &'t self,
        (end, literal, plain): Found,
        run: &Range<usize>,
        mut each: impl FnMut(Sight<'t>),
    ) {
        match literal.checked_sub(self.narrow) {
            None => each(Sight::Word(literal, plain)),
            Some(number) => {
                let parts = self.parts[usize::from(number)].iter();
                let parts = parts.filter(|part| part.fits(run, end));
                parts.map(Sight::Part).for_each(each);
            }
        }
    }

    /// Finds the words in a run of marks, place by place, since one may begin in another.
    fn marks<'t>(
        &'t self,
        bytes: &[u8],
        run: &Range<usize>,
        mut each: impl FnMut(usize, Sight<'t>),
    ) {
        for start in run.clone() {
            for part in &self.marks[usize::from(bytes[start])] {
                let text = &self.words[usize::from(part.word)].text[part.range()];
                let end = start + part.length;
                if bytes[start..run.end].starts_with(text) && part.fits(run, end) {
                    let sight = match part.before + part.behind {
                        0 => Sight::Word(part.word, true),
                        _ => Sight::Part(part),
                    };
                    each(end, sight);
                }
            }
        }
    }

    /// Finds the parts of words at the ends of a run that are too short to be looked for.
    fn short<'t>(
        &'t self,
        bytes: &[u8],
        run: &Range<usize>,
        mut each: impl FnMut(usize, &'t Fragment),
    ) {
        let starts = (1..PART_BYTES_MIN).filter_map(|length| run.end.checked_sub(length));
        let starts = starts.filter(|start| *start > run.start);
        for start in std::iter::once(run.start).chain(starts) {
            for part in &self.short[usize::from(bytes[start])] {
                let end = start + part.length;
                let begins = start == run.start || part.before == 0;
                let ends = end == run.end || part.behind == 0;
                let text = &self.words[usize::from(part.word)].text[part.range()];
                if begins
                    && ends
                    && end <= run.end
                    && words::spelling(&bytes[start..end], text).is_some()
                {
                    each(end, part);
                }
            }
        }
    }

    /// Finds what is in a run that is too long to be kept.
    pub(super) fn long(&self, bytes: &[u8], run: &Range<usize>, done: usize, places: &mut Places) {
        if !runs::is_letter(bytes[run.start]) {
            self.marks(bytes, run, |end, sight| {
                let (end, word, plain) = sight.found(end);
                places.keep(done, end, word, plain);
            });
            return;
        }
        self.letters.add(bytes, run, (places, done), |found, keep| {
            self.sights(found, run, |sight| keep(sight.found(found.0)));
        });
        self.short(bytes, run, |end, part| {
            places.keep(done, end + part.behind, part.word, false);
        });
    }

    /// What the words in a run do wherever it stands.
    pub(super) fn learn(&self, text: &[u8], lacks: u16, learned: &mut Vec<Seen>) {
        let (whole, mut found) = (0..text.len(), Vec::new());
        match runs::is_letter(text[0]) && !self.letters.may_hold(text) {
            true => self.short(text, &whole, |end, part| {
                found.push((end, Sight::Part(part)))
            }),
            false => self.find(text, &whole, |end, sight| found.push((end, sight))),
        }
        learned.clear();
        for (end, sight) in found {
            match sight {
                Sight::Part(part) => {
                    let word_end = end + part.behind;
                    learned.push(Seen::part(part.word, part.beside, end, word_end));
                }
                Sight::Word(index, plain) => {
                    let known = &self.words[usize::from(index)];
                    let word = end - known.text.len()..end;
                    let Some(lacks) = self.lacks(text, known, &word, (lacks, plain)) else {
                        continue;
                    };
                    let uses = self.uses_of(known).iter();
                    let uses = uses.filter(|one| one.needs & lacks == 0);
                    let seen = |one: &Opens| Seen::word(one.matcher, one.part, one.near, &word);
                    learned.extend(uses.map(seen));
                }
            }
        }
        learned.sort_by_key(Seen::turn);
    }
}

/// What is in a run.
enum Sight<'t> {
    /// A word, by its number, and whether it is known to be written plainly.
    Word(u16, bool),
    /// The part of a word that has all letters or marks which such a word may have in a run.
    Part(&'t Fragment),
}

impl Sight<'_> {
    /// The word that may end behind a place where this ends, or there itself.
    fn found(&self, end: usize) -> Found {
        match self {
            Sight::Word(word, plain) => (end, *word, *plain),
            Sight::Part(part) => (end + part.behind, part.word, false),
        }
    }
}

impl Fragment {
    /// The longest part of a word that is of one kind.
    fn of<'t>(text: &'t [u8], word: u16, kind: impl Fn(u8) -> bool) -> Option<Fragment> {
        let pieces = text.chunk_by(|one, next| kind(*one) == kind(*next));
        let pieces = pieces.scan(0, |start, piece| {
            *start += piece.len();
            Some((*start - piece.len(), piece))
        });
        let pieces = pieces.filter(|(_, piece)| kind(piece[0]));
        // Of two the first: names begin with whose they are, and end as many do.
        let longer = |best: (usize, &'t [u8]), next: (usize, &'t [u8])| match next.1.len() {
            length if length > best.1.len() => next,
            _ => best,
        };
        let (before, piece) = pieces.reduce(longer)?;
        let end = before + piece.len();
        let byte = |at: usize| text.get(at).copied().unwrap_or_default();
        let beside = match before {
            0 => (What::Before, [byte(end), byte(end + 1)]),
            _ => (
                What::Behind,
                [1, 2].map(|back| byte(before.wrapping_sub(back))),
            ),
        };
        Some(Fragment {
            word,
            before,
            behind: text.len() - end,
            length: piece.len(),
            beside,
        })
    }

    /// Whether its run begins and ends as its word asks, where it ends here.
    fn fits(&self, run: &Range<usize>, end: usize) -> bool {
        (self.before == 0 || end - self.length == run.start) && (self.behind == 0 || end == run.end)
    }

    /// Where it stands in its word.
    fn range(&self) -> Range<usize> {
        self.before..self.before + self.length
    }
}

/// Whether a word stands in one run of letters.
pub(super) fn is_letters(text: &[u8]) -> bool {
    text.iter().all(|byte| runs::is_letter(*byte))
}

fn range(uses: &Range<u32>) -> Range<usize> {
    uses.start as usize..uses.end as usize
}

/// A word as it is looked for, and one that is not.
type Wanted<'t> = (&'t [u8], Whole, Written);
const NONE: Wanted<'_> = (b"", Whole::Part, Written::Freely);

/// How a word is written where it opens anything.
fn written(uses: &[Opens]) -> Written {
    match uses.iter().all(|one| one.needs & PLAIN != 0) {
        true => Written::Plainly,
        false => Written::Freely,
    }
}

/// What a word is of the words that it opens anything in.
fn whole(text: &[u8], uses: &[Opens]) -> Whole {
    let needs = |one: &Opens, edges: u8| one.needs & u16::from(edges) != 0;
    let all = |edges: u8| uses.iter().all(|one| needs(one, edges));
    match (all(LEFT), all(RIGHT)) {
        (true, true) => Whole::Word,
        // A word of two letters that is glued to others is none.
        _ if text.len() == 2 && all(LEFT | GAP_LEFT) && all(RIGHT | GAP_RIGHT) => Whole::Word,
        (true, false) => Whole::Begins,
        _ => Whole::Part,
    }
}

/// What is the same of all words that open a matcher.
struct Waiting {
    needs: u16,
    near: [u16; 2],
}

impl Waiting {
    /// Nothing where its rule is not looked for.
    fn of(it: &Matcher) -> Option<Waiting> {
        let off = Direction::ALL
            .into_iter()
            .filter(|direction| !it.looked_for[*direction as usize]);
        let off = off.fold(0, |all, direction| all | bit(direction));
        let written = match it.branch {
            Some(branch) if branch.ascii => 0,
            Some(_) => WIDE,
            None => PLAIN,
        };
        it.looked_for.contains(&true).then(|| Waiting {
            needs: written | off,
            near: [Part::First, Part::Third].map(|part| it.near(part)),
        })
    }

    /// What a word opens.
    fn opens(&self, matcher: u16, one: &Use) -> Opens {
        Opens {
            near: self.near[usize::from(one.part == Part::Third)],
            matcher,
            part: one.part,
            needs: self.needs | u16::from(one.edges),
        }
    }
}

/// What a byte is to a word: a letter or a digit, and whether a boundary of words takes it for a part of one.
const LETTER: u8 = 1;
const INSIDE: u8 = 2;
const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => LETTER | INSIDE,
            b'_' => INSIDE,
            _ => 0,
        };
        byte += 1;
    }
    kinds
};

/// What a byte is to a word; nothing outside of the text.
#[inline(always)]
fn kind(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).map_or(0, |byte| KINDS[usize::from(*byte)])
}

/// The edges that a word lacks where it stands, of those that are asked for.
#[inline(always)]
fn lacking_edges(bytes: &[u8], word: &Range<usize>, asks: u16) -> u16 {
    let edges = [LEFT, RIGHT, GAP_LEFT, GAP_RIGHT].map(u16::from);
    let [left, right, gap_left, gap_right] = edges;
    if asks & (left | right | gap_left | gap_right) == 0 {
        return 0;
    }
    let before = kind(bytes, word.start.wrapping_sub(1));
    let after = kind(bytes, word.end);
    let same = |one: u8, other: u8| (one ^ other) & INSIDE == 0;
    let mut lacks = 0;
    if same(before, kind(bytes, word.start)) {
        lacks |= left;
    }
    if same(after, kind(bytes, word.end - 1)) {
        lacks |= right;
    }
    if before & LETTER != 0 {
        lacks |= gap_left;
    }
    if after & LETTER != 0 {
        lacks |= gap_right;
    }
    let gaps = asks & (gap_left | gap_right);
    if lacks & gaps != 0 && glued(bytes, word) {
        lacks &= !gaps;
    }
    lacks
}

/// Whether a word is one by itself, though letters stand beside it: it is long, or it stands in so many letters that
/// their gaps may have been taken out.
fn glued(bytes: &[u8], word: &Range<usize>) -> bool {
    if word.len() < GLUED_WORD_MIN || word.len() >= LONG_WORD_MIN {
        return word.len() >= LONG_WORD_MIN;
    }
    let letters = |byte: &&u8| KINDS[usize::from(**byte)] & LETTER != 0;
    let most = GLUED_BYTES_MIN - word.len();
    let before = bytes[..word.start].iter().rev().take(most);
    let after = bytes[word.end..].iter().take(most);
    let before = before.take_while(letters).count();
    before == most || before + after.take_while(letters).count() >= most
}
