//! The words that open rules, and where each rule that they open is to be searched.
//!
//! All words of all rules are looked for in one pass. A literal opens its rule at once; of a branch that
//! has two words, the second opens it where the first stands near enough before it.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use crate::east;
use crate::literals::{ASCII_BYTES, Literals, Places, WIDE_BYTES};
use crate::rule::{Direction, Part, Rule, Use, Word};
use crate::set::Matcher;
use crate::words;

/// The words of all rules.
pub(crate) struct Openers {
    ascii: List<ASCII_BYTES>,
    /// Words that are not ASCII: most texts have none.
    wide: List<WIDE_BYTES>,
}

/// Words that are found in one pass.
struct List<const BYTES: usize> {
    own: &'static [Word],
    /// Of rules that are not our own.
    more: Vec<(Cow<'static, [u8]>, Use)>,
    /// The matcher of each rule's first branch.
    first: Vec<u16>,
    /// Whether a rule is looked for anywhere.
    looked_for: Vec<bool>,
    /// Built for the first text that needs it.
    literals: OnceLock<Literals<BYTES>>,
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
    ascii_places: Places,
    wide_places: Places,
    branches: Branches,
}

/// The branches whose first word was seen.
#[derive(Default)]
struct Branches {
    /// By matcher.
    firsts: Vec<Firsts>,
    pass: u32,
}

/// The first words of a branch that were seen.
#[derive(Clone, Copy, Default)]
struct Firsts {
    /// In which pass that was.
    pass: u32,
    /// Where the last one starts, and where the first one does that may still be near enough.
    last: u32,
    first: u32,
}

impl Openers {
    /// `first` is the matcher of each rule's first branch: of our own rules, then of the others.
    pub(crate) fn new(
        own: [&'static [Word]; 2],
        more: &[&'static Rule],
        first: &[u16],
        looked_for: &[bool],
    ) -> Openers {
        let mut lists = [Vec::new(), Vec::new()];
        let start = first.len() - more.len();
        let known = more.iter().zip(start..);
        for (rule, index) in known.filter(|(_, index)| looked_for[*index]) {
            words_of(rule, index as u16, |text, one| {
                lists[usize::from(!text.is_ascii())].push((text, one));
            });
        }
        let [ascii, wide] = lists;
        Openers {
            ascii: List::new(own[0], ascii, first, looked_for),
            wide: List::new(own[1], wide, first, looked_for),
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
        opened.begin(matchers.len());
        let ascii = bytes.is_ascii();
        let Opened {
            ascii_places,
            wide_places,
            branches,
        } = opened;
        self.ascii.literals().find(bytes, ascii_places);
        wide_places.clear();
        if !ascii {
            self.wide.literals().find(bytes, wide_places);
        }
        // A branch may have words of both kinds, so both are gone through in their common order.
        let mut wide = wide_places.each().peekable();
        let mut narrow = ascii_places.each().peekable();
        loop {
            let wide_first = match (wide.peek(), narrow.peek()) {
                (Some(wide), Some(narrow)) => wide.0 < narrow.0,
                (wide, _) => wide.is_some(),
            };
            let next = if wide_first {
                wide.next()
            } else {
                narrow.next()
            };
            let Some((end, index)) = next else {
                return Ok(());
            };
            let (text, uses, first) = match wide_first {
                true => self.wide.word(index),
                false => self.ascii.word(index),
            };
            let word = end - text.len()..end;
            let Some(plain) = words::spelling(&bytes[word.clone()], text) else {
                continue;
            };
            for one in uses {
                let matcher = first[usize::from(one.rule)] + one.branch;
                let it = &matchers[usize::from(matcher)];
                let reads = match it.branch {
                    Some(branch) => branch.ascii || !ascii,
                    None => plain,
                };
                if !reads || !it.looked_for[direction as usize] {
                    continue;
                }
                if let Some(window) = branches.window(it, matcher, one.part, &word) {
                    open(Candidate {
                        matcher,
                        place: word.start,
                        anchored: it.begins_with(one.part, &word),
                        window,
                    })?;
                }
            }
        }
    }
}

impl<const BYTES: usize> List<BYTES> {
    fn new(
        own: &'static [Word],
        more: Vec<(Cow<'static, [u8]>, Use)>,
        first: &[u16],
        looked_for: &[bool],
    ) -> List<BYTES> {
        List {
            own,
            more,
            first: first.to_vec(),
            looked_for: looked_for.to_vec(),
            literals: OnceLock::new(),
        }
    }

    fn literals(&self) -> &Literals<BYTES> {
        self.literals.get_or_init(|| {
            // What opens nothing is not looked for.
            let needed = |one: &Use| self.looked_for[usize::from(one.rule)];
            let own = self
                .own
                .iter()
                .map(|word| match word.uses.iter().any(needed) {
                    true => word.text,
                    false => b"",
                });
            let more = self.more.iter().map(|(text, _)| &text[..]);
            Literals::new(&own.chain(more).collect::<Vec<_>>())
        })
    }

    /// A word, what it is used for, and the matcher of each rule's first branch.
    fn word(&self, index: u16) -> (&[u8], &[Use], &[u16]) {
        let index = usize::from(index);
        match self.own.get(index) {
            Some(word) => (word.text, word.uses, &self.first),
            None => {
                let (text, one) = &self.more[index - self.own.len()];
                (text, std::slice::from_ref(one), &self.first)
            }
        }
    }
}

impl Opened {
    fn begin(&mut self, matchers: usize) {
        let Branches { firsts, pass } = &mut self.branches;
        firsts.resize(matchers, Firsts::default());
        *pass = pass.wrapping_add(1);
        if *pass == 0 {
            firsts.fill(Firsts::default());
            *pass = 1;
        }
    }
}

impl Branches {
    /// Where a matcher is to be searched, now that this word of it was seen.
    fn window(
        &mut self,
        it: &Matcher,
        matcher: u16,
        part: Part,
        word: &Range<usize>,
    ) -> Option<Range<usize>> {
        let (Some(branch), Part::First | Part::Second) = (it.branch, part) else {
            return Some(it.around(word));
        };
        let end = word.start + branch.after;
        let seen = &mut self.firsts[usize::from(matcher)];
        let known =
            seen.pass == self.pass && word.end.saturating_sub(seen.last as usize) <= branch.near;
        match part {
            Part::Second => {
                let nearest = word.end.saturating_sub(branch.near);
                let first = nearest.max(seen.first as usize);
                known.then(|| first.saturating_sub(branch.before)..end)
            }
            _ if branch.second.is_empty() => Some(word.end.saturating_sub(branch.before)..end),
            _ => {
                let start = word.start as u32;
                *seen = Firsts {
                    pass: self.pass,
                    last: start,
                    first: if known { seen.first.min(start) } else { start },
                };
                None
            }
        }
    }
}

/// The words that open a rule, as `build.rs` says of our own.
fn words_of(rule: &Rule, index: u16, mut add: impl FnMut(Cow<'static, [u8]>, Use)) {
    let literals = |branch: u16, add: &mut dyn FnMut(Cow<'static, [u8]>, Use)| {
        for literal in rule.literals {
            let text = east::simplified(literal).to_ascii_lowercase().into_bytes();
            let part = Part::Literal;
            add(
                Cow::Owned(text),
                Use {
                    rule: index,
                    branch,
                    part,
                },
            );
        }
    };
    if rule.branches.is_empty() {
        literals(0, &mut add);
    }
    for (branch, it) in (0u16..).zip(rule.branches) {
        if it.first.is_empty() {
            literals(branch, &mut add);
        }
        for (words, part) in [(it.second, Part::Second), (it.first, Part::First)] {
            for word in words {
                add(
                    Cow::Borrowed(*word),
                    Use {
                        rule: index,
                        branch,
                        part,
                    },
                );
            }
        }
    }
}
