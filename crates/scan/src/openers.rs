//! The words that open rules, and where each rule that they open is to be searched.
//!
//! All words of all rules are looked for in one pass. A literal opens its rule at once; of a branch that
//! has two words, the second opens it where the first stands near enough before it.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use crate::branch::{GAP_LEFT, GAP_RIGHT, LEFT, RIGHT};
use crate::east;
use crate::literals::{Literals, Places, Whole};
use crate::rule::{Direction, Part, Rule, Use, Word};
use crate::set::Matcher;
use crate::words;

/// The words of all rules.
pub(crate) struct Openers {
    /// Of our own rules: those that are ASCII, and the others.
    own: [&'static [Word]; 2],
    /// Of other rules.
    more: [Vec<(Cow<'static, [u8]>, Use)>; 2],
    /// The matcher of each rule's first branch, where it reads texts.
    first: Vec<Option<u16>>,
    /// Built for the first text.
    table: OnceLock<Table>,
}

/// All words as they are looked for.
struct Table {
    ascii: Literals,
    /// Words that are not ASCII, built for the first text that has any of their letters.
    wide: OnceLock<Literals>,
    /// Those that are ASCII, then the others.
    words: Vec<Known>,
    narrow: u16,
    uses: Vec<Opens>,
}

/// A word, and which uses are its own.
struct Known {
    text: Cow<'static, [u8]>,
    uses: Range<u32>,
    /// What all its uses need, and what any of them does.
    needs: u16,
    asks: u16,
}

/// What a word opens, in eight bytes.
struct Opens {
    /// Bytes from the start of a branch's first word to the end of its second, at most.
    near: u16,
    matcher: u16,
    /// What has to be there: the edges of the word, [`PLAIN`], [`WIDE`]; and the directions in which it is not
    /// looked for.
    needs: u16,
    part: Part,
}

/// The word is written in no leetspeak.
const PLAIN: u16 = 16;
/// The text is not all ASCII.
const WIDE: u16 = 32;
/// Letters of a word that is seldom a part of others.
const LONG_WORD_MIN: usize = 5;
/// Letters of the shortest word that is looked for inside others, and letters and digits in a row that are then taken
/// for words without their gaps.
const GLUED_WORD_MIN: usize = 3;
const GLUED_BYTES_MIN: usize = 9;

/// The bit of a direction.
fn bit(direction: Direction) -> u16 {
    64 << direction as u16
}

/// A part of a text in which a rule is to be searched.
pub(crate) struct Candidate {
    /// The matcher that was opened.
    pub(crate) matcher: u16,
    /// Where the word starts that opened it.
    pub(crate) place: usize,
    pub(crate) window: Range<usize>,
    /// A match begins where the window does, or nowhere.
    pub(crate) anchored: bool,
}

/// What a pass over a text needs. Kept by who searches.
#[derive(Default)]
pub(crate) struct Opened {
    places: Places,
    branches: Branches,
}

/// The branches whose first word was seen.
#[derive(Default)]
struct Branches {
    /// By matcher.
    firsts: Vec<Firsts>,
    /// The number of a text's first place, and of one behind its last: those of the texts before are smaller.
    base: u32,
    end: u32,
}

/// The first words of a branch that were seen.
#[derive(Clone, Copy, Default)]
struct Firsts {
    /// The numbers of the places where the last one starts, and the first one that may still be near enough.
    last: u32,
    first: u32,
}

impl Openers {
    /// `first` is the matcher of each rule's first branch: of our own rules, then of the others.
    pub(crate) fn new(
        own: [&'static [Word]; 2],
        more: &[&'static Rule],
        first: Vec<Option<u16>>,
    ) -> Openers {
        let mut lists = [Vec::new(), Vec::new()];
        let start = first.len() - more.len();
        for (rule, index) in more.iter().zip(start..) {
            words_of(rule, index as u16, |text, one| {
                lists[usize::from(!text.is_ascii())].push((text, one));
            });
        }
        Openers {
            own,
            more: lists,
            first,
            table: OnceLock::new(),
        }
    }

    /// Calls `open` with each part of a text in which a rule is to be searched.
    ///
    /// Errors: those of `open`, which ends the pass.
    pub(crate) fn each<E>(
        &self,
        matchers: &[Matcher],
        (bytes, direction): (&[u8], Direction),
        opened: &mut Opened,
        mut open: impl FnMut(Candidate) -> Result<(), E>,
    ) -> Result<(), E> {
        opened.branches.begin(matchers.len(), bytes.len());
        let table = self.table.get_or_init(|| Table::new(self, matchers));
        let Opened { places, branches } = opened;
        places.clear();
        table.ascii.add(bytes, 0, places);
        let mut lacks = bit(direction);
        match bytes.is_ascii() {
            true => lacks |= WIDE,
            false => table.wide().add(bytes, table.narrow, places),
        }
        for (end, index, plain) in places.spelled() {
            let known = &table.words[usize::from(index)];
            let word = end - known.text.len()..end;
            let lacks = lacks | lacking_edges(bytes, &word, known.asks);
            if known.needs & lacks != 0 {
                continue;
            }
            let spelling = || words::spelling(&bytes[word.clone()], &known.text);
            let lacks = match if plain { Some(true) } else { spelling() } {
                Some(true) => lacks,
                Some(false) => lacks | PLAIN,
                None => continue,
            };
            let uses = known.uses.start as usize..known.uses.end as usize;
            for one in table.uses[uses].iter().filter(|one| one.needs & lacks == 0) {
                let Some(start) = branches.start(one, &word) else {
                    continue;
                };
                let it = &matchers[usize::from(one.matcher)];
                let anchored = it.begins_with(one.part, &word);
                if anchored && !it.may_begin(bytes, word.start) {
                    continue;
                }
                open(Candidate {
                    matcher: one.matcher,
                    place: word.start,
                    window: it.window(one.part, start, &word),
                    anchored,
                })?;
            }
        }
        Ok(())
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
    before.take_while(letters).count() + after.take_while(letters).count() >= most
}

impl Table {
    fn new(openers: &Openers, matchers: &[Matcher]) -> Table {
        let (mut words, mut uses) = (Vec::new(), Vec::new());
        let mut add = |text: Cow<'static, [u8]>, all: &[Use]| {
            let from = uses.len();
            uses.extend(all.iter().filter_map(|one| {
                let first = openers.first[usize::from(one.rule)]?;
                Opens::new(one, first + one.branch, matchers)
            }));
            words.push(Known {
                text,
                needs: uses[from..].iter().fold(!0, |all, one| all & one.needs),
                asks: uses[from..].iter().fold(0, |all, one| all | one.needs),
                uses: from as u32..uses.len() as u32,
            });
        };
        for (own, more) in openers.own.iter().zip(&openers.more) {
            for word in *own {
                add(Cow::Borrowed(word.text), word.uses);
            }
            for (text, one) in more {
                add(text.clone(), std::slice::from_ref(one));
            }
        }
        let narrow = openers.own[0].len() + openers.more[0].len();
        Table {
            ascii: literals(&words[..narrow], &uses),
            wide: OnceLock::new(),
            words,
            narrow: narrow as u16,
            uses,
        }
    }

    fn wide(&self) -> &Literals {
        let words = &self.words[usize::from(self.narrow)..];
        self.wide.get_or_init(|| literals(words, &self.uses))
    }
}

/// Words as they are looked for; those that open nothing are not.
fn literals(words: &[Known], uses: &[Opens]) -> Literals {
    let texts =
        words.iter().map(
            |word| match &uses[word.uses.start as usize..word.uses.end as usize] {
                [] => (&b""[..], Whole::Part),
                uses => (&word.text[..], whole(&word.text, uses)),
            },
        );
    Literals::new(&texts.collect::<Vec<_>>())
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

impl Opens {
    /// What a word opens; nothing where its rule is not looked for.
    fn new(one: &Use, matcher: u16, matchers: &[Matcher]) -> Option<Opens> {
        let it = matchers.get(usize::from(matcher))?;
        let off = Direction::ALL
            .into_iter()
            .filter(|direction| !it.looked_for[*direction as usize]);
        let off = off.fold(0, |all, direction| all | bit(direction));
        let needs = match it.branch {
            Some(branch) if branch.ascii => 0,
            Some(_) => WIDE,
            None => PLAIN,
        };
        let all_off = Direction::ALL
            .into_iter()
            .fold(0, |all, one| all | bit(one));
        (off != all_off).then_some(Opens {
            near: it
                .branch
                .map_or(0, |branch| branch.near.min(usize::from(u16::MAX)) as u16),
            matcher,
            part: one.part,
            needs: needs | u16::from(one.edges) | off,
        })
    }
}

impl Branches {
    /// Forgets what was seen, so that none of it is near any word of a text of so many bytes.
    fn begin(&mut self, matchers: usize, bytes: usize) {
        const FAR: u32 = u16::MAX as u32 + 1;
        self.firsts.resize(matchers, Firsts::default());
        let end = |base: u32| base.checked_add(u32::try_from(bytes).ok()?);
        let next = self.end.checked_add(FAR);
        (self.base, self.end) = match next.and_then(|base| Some((base, end(base)?))) {
            Some(range) => range,
            None => {
                self.firsts.fill(Firsts::default());
                (FAR, end(FAR).unwrap_or(u32::MAX))
            }
        };
    }

    /// Where the first word starts of those that open a matcher, if this is the last of them.
    #[inline(always)]
    fn start(&mut self, one: &Opens, word: &Range<usize>) -> Option<usize> {
        if matches!(one.part, Part::Literal | Part::Only) {
            return Some(word.start);
        }
        let (start, end) = (self.base + word.start as u32, self.base + word.end as u32);
        let seen = &mut self.firsts[usize::from(one.matcher)];
        let known = end.wrapping_sub(seen.last) <= u32::from(one.near);
        if one.part == Part::Second {
            let nearest = end - u32::from(one.near);
            return known.then(|| (nearest.max(seen.first) - self.base) as usize);
        }
        seen.first = if known { seen.first.min(start) } else { start };
        seen.last = start;
        None
    }
}

/// The words that open a rule, as `build.rs` says of our own.
fn words_of(rule: &Rule, index: u16, mut add: impl FnMut(Cow<'static, [u8]>, Use)) {
    let literals = |branch: u16, add: &mut dyn FnMut(Cow<'static, [u8]>, Use)| {
        for literal in rule.literals {
            let text = east::simplified(literal).to_ascii_lowercase().into_bytes();
            let one = Use {
                rule: index,
                branch,
                part: Part::Literal,
                edges: 0,
            };
            add(Cow::Owned(text), one);
        }
    };
    if rule.branches.is_empty() {
        literals(0, &mut add);
    }
    for (branch, it) in (0u16..).zip(rule.branches) {
        if it.first.is_empty() {
            literals(branch, &mut add);
        }
        let first = if it.second.is_empty() {
            Part::Only
        } else {
            Part::First
        };
        for (words, part) in [(it.second, Part::Second), (it.first, first)] {
            for (word, edges) in words {
                let one = Use {
                    rule: index,
                    branch,
                    part,
                    edges: *edges,
                };
                add(Cow::Borrowed(*word), one);
            }
        }
    }
}
