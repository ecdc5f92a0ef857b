//! What each run of letters or of marks opens, learned once.
//!
//! A text has few words, many times. So what the words of the rules say of a run is kept, by a keyed digest of its
//! bytes: a run that was seen before costs a look into a small table. Nothing of a text itself is kept.

use std::hash::BuildHasher;
use std::ops::Range;

use crate::rule::Part;
use crate::runs::Run;

/// Runs that are kept: rows of slots, in one of which a run is kept. Its digest says in which row.
const ROWS: usize = 8192;
const ROW_SLOTS: usize = 4;
/// Bytes of the longest run that is kept.
const RUN_BYTES_MAX: usize = 32;
/// Bytes of half of it, which are read at once.
const HALF_BYTES: usize = 16;
/// The bits of a digest that a slot keeps; the others are the number of a list.
const HIGH: u64 = !0xffff;
/// What is kept of all runs together, and a little more; and the lists of it. Then all of it is forgotten.
const SEEN_MAX: usize = 1 << 16;
const LISTS_MAX: usize = 0xff00;

/// What a word, or a part of one, does where it stands in a run: eight bytes.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    /// The matcher that is opened; of a part of a word, the word.
    pub(crate) index: u16,
    /// Bytes from the start of a word of a branch to the end of the next one, at most; of a part of a word, the place
    /// behind the word, from the start of the run on.
    pub(crate) near: u16,
    pub(crate) what: What,
    /// Of a part of a word, the byte of the word that is beside it.
    beside: u8,
    /// Where it starts in the run; of a part of a word, the byte beyond the one beside it, or zero where there is none.
    start: u8,
    /// Where it ends in the run.
    end: u8,
}

/// What is in a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// A word, which is this to its matcher.
    Word(Part),
    /// A part of a word of which a part stands before the run, or else one behind it.
    Behind,
    Before,
}

impl Seen {
    /// What a word does that stands there in a run.
    pub(crate) fn word(matcher: u16, part: Part, near: u16, word: &Range<usize>) -> Seen {
        Seen {
            index: matcher,
            near,
            what: What::Word(part),
            beside: 0,
            start: place(word.start),
            end: place(word.end),
        }
    }

    /// A part of a word that ends there in a run, what the word has beside it, and where the word ends.
    pub(crate) fn part(
        word: u16,
        (what, [beside, beyond]): (What, [u8; 2]),
        part_end: usize,
        end: usize,
    ) -> Seen {
        Seen {
            index: word,
            near: end as u16,
            what,
            beside,
            start: beyond,
            end: place(part_end),
        }
    }

    /// Its turn among those of its run: what ends first; of one place what asks for others before it, then what others wait
    /// for. What is alike follows each other, which a processor foresees.
    pub(crate) fn turn(&self) -> (u8, u8) {
        let kind = match self.what {
            What::Word(Part::Second) => 0,
            What::Word(Part::Third) => 1,
            What::Word(Part::Only | Part::Literal) => 2,
            What::Word(Part::Middle) => 3,
            What::Word(Part::First) => 4,
            What::Behind => 5,
            What::Before => 6,
        };
        (self.end, kind)
    }

    /// Where it ends in a text in which its run begins here.
    #[inline(always)]
    pub(crate) fn end(&self, run: usize) -> usize {
        run + usize::from(self.end)
    }

    /// Where a word stands in a text in which its run begins here.
    #[inline(always)]
    pub(crate) fn place(&self, run: usize) -> Range<usize> {
        run + usize::from(self.start)..self.end(run)
    }

    /// Whether the part of a word may be one where its run stands. No letter is written for another one.
    #[inline(always)]
    pub(crate) fn fits(&self, bytes: &[u8], run: Run) -> bool {
        let [beside, beyond] = match self.what {
            What::Behind => [run.start.wrapping_sub(1), run.start.wrapping_sub(2)],
            _ => [run.end, run.end + 1],
        };
        let letter = bytes.get(beyond).filter(|byte| byte.is_ascii_alphabetic());
        let other = letter.is_some_and(|byte| byte | 0x20 != self.start) && self.start != 0;
        bytes.get(beside) == Some(&self.beside) && !other
    }
}

fn place(at: usize) -> u8 {
    u8::try_from(at).expect("a run that is kept is short")
}

/// The runs that one thread has seen.
pub(crate) struct Lexicon {
    /// The set of rules that it is about.
    set: u64,
    key: [u64; 3],
    /// Of each run the high bits of its digest, and which of the lists it has; zero where there is none. A slot is small,
    /// so that all of them stay near.
    slots: Vec<[u64; ROW_SLOTS]>,
    /// Where each list begins in what was seen, and where it ends. The first is empty.
    lists: Vec<(u32, u32)>,
    seen: Vec<Seen>,
}

impl Default for Lexicon {
    fn default() -> Lexicon {
        let random = std::hash::RandomState::new();
        Lexicon {
            set: 0,
            key: [0, 1, 2].map(|number: u64| random.hash_one(number)),
            slots: Vec::new(),
            lists: Vec::new(),
            seen: Vec::new(),
        }
    }
}

/// A run of a text, and what is known of it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Looked {
    pub(crate) run: Run,
    /// [`LONG`] where it is too long to be kept.
    digest: u64,
    /// The number of its list.
    list: u32,
}

/// The bit that is set in each digest and each slot but empty ones; and a digest that no slot has.
const KEPT: u64 = 1 << 63;
const LONG: u64 = KEPT >> 1;
/// The list of what nobody knows.
const UNKNOWN: u32 = u32::MAX;

impl Looked {
    /// Whether anything is known of the run, or nothing is known yet.
    #[inline(always)]
    pub(crate) fn says(&self) -> bool {
        self.list != 0
    }

    /// Whether what it says can be kept.
    pub(crate) fn can_be_kept(&self) -> bool {
        self.digest != LONG
    }
}

impl Lexicon {
    /// Makes it be about a set of rules.
    pub(crate) fn about(&mut self, set: u64) {
        if self.set != set || self.slots.is_empty() {
            self.set = set;
            self.forget();
        }
    }

    /// Makes room where it is full. What was looked up before is then no longer there.
    #[inline(always)]
    pub(crate) fn make_room(&mut self) {
        if self.seen.len() > SEEN_MAX || self.lists.len() > LISTS_MAX {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.seen.clear();
        self.lists.clear();
        self.lists.push((0, 0));
        // Zeros that nobody wrote: a short text touches few of them.
        self.slots = vec![[0; ROW_SLOTS]; ROWS];
    }

    /// Looks a run up, which is read in one of a few ways.
    #[inline(always)]
    pub(crate) fn look(&self, bytes: &[u8], run: Run, way: u16) -> Looked {
        let digest = self.digest(bytes, run, way);
        self.with(run, digest)
    }

    /// Looks a run up once more.
    pub(crate) fn again(&self, looked: &Looked) -> Looked {
        self.with(looked.run, looked.digest)
    }

    #[inline(always)]
    fn with(&self, run: Run, digest: u64) -> Looked {
        // In the slot of the run the high bits are the same, so that only those of the list are left.
        let left = |slot: u64| slot ^ digest & HIGH;
        let [one, two, three, four] = self.slots[row(digest)].map(left);
        // Which of them it is, is no branch.
        let list = one.min(two).min(three.min(four));
        let list = if list & HIGH == 0 {
            list as u32
        } else {
            UNKNOWN
        };
        Looked { run, digest, list }
    }

    #[inline(always)]
    fn digest(&self, bytes: &[u8], run: Run, way: u16) -> u64 {
        let [one, two, three] = self.key;
        let mixed = |(low, high): (u64, u64), key: (u64, u64)| {
            let product = u128::from(low ^ key.0) * u128::from(high ^ key.1);
            product as u64 ^ (product >> 64) as u64
        };
        let length = run.end - run.start;
        let first = half(bytes, run.start, length);
        let mut digest = mixed(first, (one, two ^ u64::from(way)));
        if length > HALF_BYTES {
            if length > RUN_BYTES_MAX {
                return LONG;
            }
            let second = half(bytes, run.start + HALF_BYTES, length - HALF_BYTES);
            digest = mixed((second.0 ^ digest, second.1), (two, three));
        }
        digest | KEPT
    }

    /// What was learned of a run, by the numbers that [`Lexicon::seen`] takes; nothing where nobody knows.
    #[inline(always)]
    pub(crate) fn known(&self, looked: &Looked) -> Option<Range<u32>> {
        let (start, end) = *self.lists.get(looked.list as usize)?;
        Some(start..end)
    }

    /// What was learned, by its numbers.
    #[inline(always)]
    pub(crate) fn seen(&self, numbers: Range<u32>) -> &[Seen] {
        &self.seen[numbers.start as usize..numbers.end as usize]
    }

    /// Keeps what a run says; answers by which numbers.
    pub(crate) fn learn(&mut self, looked: &Looked, seen: &[Seen]) -> Range<u32> {
        let number = |at: usize| u32::try_from(at).expect("room is made in time");
        let start = number(self.seen.len());
        self.seen.extend_from_slice(seen);
        let end = number(self.seen.len());
        let mut list = 0;
        if !seen.is_empty() {
            list = self.lists.len() as u64;
            self.lists.push((start, end));
        }
        let slots = &mut self.slots[row(looked.digest)];
        // The one that came first goes.
        slots.rotate_right(1);
        slots[0] = looked.digest & HIGH | list;
        start..end
    }
}

/// The row of a run. The low bits of its digest say so, which are not kept.
#[inline(always)]
fn row(digest: u64) -> usize {
    digest as usize % ROWS
}

/// At most sixteen bytes of a text as two numbers; those behind them are zero, which no run has.
#[inline(always)]
fn half(bytes: &[u8], start: usize, count: usize) -> (u64, u64) {
    let count = count.min(HALF_BYTES);
    let rest = &bytes[start..];
    let (low, high) = match rest.first_chunk::<HALF_BYTES>() {
        Some(half) => halves(half),
        None => {
            let mut half = [0; HALF_BYTES];
            half[..count].copy_from_slice(&rest[..count]);
            halves(&half)
        }
    };
    let (low_mask, high_mask) = MASKS[count];
    (low & low_mask, high & high_mask)
}

/// The first so many of sixteen bytes.
const MASKS: [(u64, u64); HALF_BYTES + 1] = {
    let mut masks = [(0, 0); HALF_BYTES + 1];
    let mut count = 1;
    while count <= HALF_BYTES {
        let mask = !0u128 >> (8 * (HALF_BYTES - count));
        masks[count] = (mask as u64, (mask >> 64) as u64);
        count += 1;
    }
    masks
};

#[inline(always)]
fn halves(bytes: &[u8; HALF_BYTES]) -> (u64, u64) {
    let both = u128::from_le_bytes(*bytes);
    (both as u64, (both >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: usize, end: usize) -> Run {
        Run { start, end }
    }

    #[test]
    fn runs_are_told_apart() {
        let mut lexicon = Lexicon::default();
        lexicon.about(1);
        let text = b"a ab abcdefghijklmnop abcdefghijklmnopq abcdefghijklmnopr ab";
        let runs = [(0, 1), (2, 4), (5, 21), (22, 39), (40, 57), (58, 60)];
        let digest = |(start, end), way| lexicon.digest(text, run(start, end), way);
        let mut all: Vec<u64> = runs.iter().map(|of| digest(*of, 0)).collect();
        assert_eq!(all[1], all[5], "the end of a text is no part of a run");
        all.push(digest(runs[0], 1));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), runs.len());
        let long = vec![b'a'; RUN_BYTES_MAX + 1];
        let looked = lexicon.look(&long, run(0, long.len()), 0);
        assert!(!looked.can_be_kept() && looked.says());
        assert!(lexicon.known(&looked).is_none());
    }

    #[test]
    fn what_was_learned_is_found_until_there_is_too_much() {
        let mut lexicon = Lexicon::default();
        lexicon.about(1);
        let text = b"one two";
        let [one, two] = [run(0, 3), run(4, 7)].map(|run| lexicon.look(text, run, 0));
        let known = |lexicon: &Lexicon, looked: &Looked| lexicon.known(&lexicon.again(looked));
        let seen = vec![Seen::word(7, Part::Literal, 0, &(0..3)); SEEN_MAX];
        assert!(one.says() && lexicon.known(&one).is_none());
        let numbers = lexicon.learn(&one, &seen[..2]);
        assert_eq!(known(&lexicon, &one), Some(numbers.clone()));
        assert_eq!(lexicon.seen(numbers)[0].place(4), 4..7);
        lexicon.learn(&two, &seen);
        assert!(known(&lexicon, &one).is_some() && known(&lexicon, &two).is_some());
        lexicon.make_room();
        assert!(known(&lexicon, &one).is_none() && known(&lexicon, &two).is_none());
        lexicon.learn(&one, &[]);
        lexicon.make_room();
        assert!(!lexicon.again(&one).says());
        lexicon.about(2);
        assert!(known(&lexicon, &one).is_none());
    }
}
