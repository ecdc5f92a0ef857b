//! Words that each match of an expression holds, in their order: what a window must have before the
//! expression runs.
//!
//! An expression with many gaps makes its machine anew on ordinary text, a hundred times dearer than one
//! pass of an automaton. So an expression is taken apart at its alternatives, and each is run only where
//! its words stand in their order, no further apart than a match is long. The words are read from the
//! expression itself; where they say too little, the whole window is searched. It never hides a match.

use std::collections::HashMap;
use std::ops::Range;

use regex_syntax::hir::{Class, Hir, HirKind};

use crate::automaton::{Automaton, Ends};

/// Alternatives that are told apart.
const BRANCHES_MAX: usize = 64;
/// Bytes of the shortest word: shorter ones stand everywhere.
const WORD_BYTES_MIN: usize = 3;
/// Words of one step.
const STEP_WORDS_MAX: usize = 256;

/// One of these words is in each match.
type Step = Vec<Vec<u8>>;

/// The alternatives of an expression: any of them is a match.
pub(crate) fn branches(hir: &Hir) -> Vec<Hir> {
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

/// The steps of an expression, in their order: each match has one word of each.
fn steps(hir: &Hir) -> Vec<Step> {
    match hir.kind() {
        // A space is a gap of any marks, and of none.
        HirKind::Literal(literal) => {
            let words = literal.0.split(|byte| *byte == b' ');
            let words = words.filter(|word| word.len() >= WORD_BYTES_MIN);
            words.map(|word| vec![word.to_ascii_lowercase()]).collect()
        }
        HirKind::Repetition(repetition) if repetition.min > 0 => steps(&repetition.sub),
        HirKind::Capture(capture) => steps(&capture.sub),
        HirKind::Concat(parts) => parts.iter().flat_map(steps).collect(),
        HirKind::Alternation(parts) => {
            let best = |part| {
                let shortest = |step: &Step| step.iter().map(Vec::len).min();
                steps(part).into_iter().max_by_key(shortest)
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

/// The words of all branches of one expression.
pub(crate) struct Factors {
    words: Automaton,
    of: Vec<Word>,
    branches: Vec<Bounds>,
}

struct Word {
    text: Vec<u8>,
    /// Branch and step, the later steps of a branch first.
    steps: Vec<(usize, usize)>,
}

/// One branch.
struct Bounds {
    /// Where the branch's first step is in the list of all steps.
    first: usize,
    steps: Vec<Reach>,
}

/// How far a match can reach around a word of a step, in bytes.
struct Reach {
    /// From the start of the match to the end of the word.
    before: usize,
    /// From the start of the word to the end of the match.
    after: usize,
    /// From the start of the word of the step before to the end of the word.
    between: usize,
}

/// A way through the steps of a branch.
#[derive(Clone, Copy)]
struct Way {
    /// Where its last word starts.
    last: usize,
    /// Where the first word of any way ends that may still go on.
    first: usize,
}

/// What a search for factors needs. Kept by who searches.
#[derive(Default)]
pub(crate) struct Tracks {
    ends: Ends,
    /// For each step its last word to which a way led.
    ways: Vec<Option<Way>>,
    waiting: Vec<Range<usize>>,
    /// Parts to search, and for which branch, in order of place.
    pub(crate) parts: Vec<(Range<usize>, usize)>,
}

impl Factors {
    /// Takes the branches apart; `length` gives the bytes of the longest match of a part of one.
    ///
    /// Errors: too many words.
    pub(crate) fn new(hirs: &[Hir], length: fn(&Hir) -> usize) -> Result<Factors, &'static str> {
        let mut of: Vec<Word> = Vec::new();
        let mut known = HashMap::new();
        let mut branches = Vec::new();
        let mut first = 0;
        for (branch, hir) in hirs.iter().enumerate() {
            let (steps, reaches) = reaches(hir, length);
            for (step, words) in steps.into_iter().enumerate().rev() {
                for text in words {
                    let at = *known.entry(text).or_insert_with_key(|text| {
                        of.push(Word {
                            text: text.clone(),
                            steps: Vec::new(),
                        });
                        of.len() - 1
                    });
                    of[at].steps.push((branch, step));
                }
            }
            let steps = reaches;
            let count = steps.len();
            branches.push(Bounds { first, steps });
            first += count;
        }
        let texts: Vec<&[u8]> = of.iter().map(|word| &word.text[..]).collect();
        Ok(Factors {
            words: Automaton::new(&texts)?,
            of,
            branches,
        })
    }

    /// Fills `tracks.parts` with the parts of a window that each branch has to be searched in.
    pub(crate) fn parts(&self, bytes: &[u8], window: Range<usize>, tracks: &mut Tracks) {
        let Tracks {
            ends,
            ways,
            waiting,
            parts,
        } = tracks;
        ways.clear();
        ways.resize(self.branches.iter().map(|b| b.steps.len()).sum(), None);
        waiting.clear();
        waiting.resize(self.branches.len(), 0..0);
        parts.clear();
        self.words.find(&bytes[window.clone()], ends);
        for (end, word) in self.words.each(ends) {
            let word = &self.of[usize::from(word)];
            let end = window.start + end;
            for (branch, step) in &word.steps {
                let bounds = &self.branches[*branch];
                let span = end - word.text.len()..end;
                let Some(way) = bounds.go(*step, &span, ways) else {
                    continue;
                };
                if step + 1 == bounds.steps.len() {
                    let part = bounds.part(*step, way, &span);
                    let part = part.start.max(window.start)..part.end.min(window.end);
                    add(&mut waiting[*branch], part, *branch, parts);
                }
            }
        }
        for (branch, bounds) in self.branches.iter().enumerate() {
            if bounds.steps.is_empty() {
                parts.push((window.clone(), branch));
            } else if waiting[branch].start < waiting[branch].end {
                parts.push((waiting[branch].clone(), branch));
            }
        }
        parts.sort_by_key(|(part, _)| part.start);
    }
}

impl Bounds {
    /// Goes on to a step whose word stands here, where a way leads to it.
    fn go(&self, step: usize, word: &Range<usize>, ways: &mut [Option<Way>]) -> Option<Way> {
        let near = |way: &Way, step: &Reach| word.end - way.last <= step.between;
        let first = match step {
            0 => word.end,
            _ => {
                let way = ways[self.first + step - 1];
                way.filter(|way| near(way, &self.steps[step]))?.first
            }
        };
        let known = &mut ways[self.first + step];
        // A way that may still go on keeps its first word.
        let older = match self.steps.get(step + 1) {
            Some(next) => known.filter(|way| near(way, next)),
            None => None,
        };
        let way = Way {
            last: word.start,
            first: older.map_or(first, |way| way.first.min(first)),
        };
        *known = Some(way);
        Some(way)
    }

    /// Where a match is whose last word stands here.
    fn part(&self, step: usize, way: Way, word: &Range<usize>) -> Range<usize> {
        let reach = &self.steps[step];
        let longest = word.end.saturating_sub(reach.before);
        let earliest = way.first.saturating_sub(self.steps[0].before);
        longest.max(earliest)..word.start + reach.after
    }
}

/// The steps of a branch, and how far a match reaches around each.
fn reaches(hir: &Hir, length: fn(&Hir) -> usize) -> (Vec<Step>, Vec<Reach>) {
    let parts = match hir.kind() {
        HirKind::Concat(parts) => &parts[..],
        _ => std::slice::from_ref(hir),
    };
    let lengths: Vec<usize> = parts.iter().map(length).collect();
    let whole: usize = lengths.iter().sum();
    let (mut all, mut reaches) = (Vec::new(), Vec::new());
    // Bytes before the part, and before the part of the step before.
    let (mut start, mut last) = (0, 0);
    for (part, length) in parts.iter().zip(lengths) {
        for step in steps(part) {
            all.push(step);
            reaches.push(Reach {
                before: start + length,
                after: whole - start,
                between: start + length - last,
            });
            last = start;
        }
        start += length;
    }
    (all, reaches)
}

/// Adds a part to the one that waits; sends that one where they do not touch.
fn add(
    waiting: &mut Range<usize>,
    part: Range<usize>,
    branch: usize,
    parts: &mut Vec<(Range<usize>, usize)>,
) {
    if waiting.start == waiting.end {
        *waiting = part;
    } else if part.start <= waiting.end {
        waiting.start = waiting.start.min(part.start);
        waiting.end = waiting.end.max(part.end);
    } else {
        parts.push((std::mem::replace(waiting, part), branch));
    }
}

#[cfg(test)]
mod tests {
    use regex_automata::util::syntax;

    use super::*;

    fn hir(regex: &str) -> Hir {
        let syntax = syntax::Config::new().unicode(false).utf8(false);
        syntax::parse_with(regex, &syntax).unwrap()
    }

    fn words(regex: &str) -> Vec<Vec<String>> {
        let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into();
        let step = |step: &Step| step.iter().map(text).collect();
        steps(&hir(regex)).iter().map(step).collect()
    }

    #[test]
    fn steps_are_what_each_match_has() {
        let regex = "(?:send|mail) .{0,9}(?:passwords?|api[ -]?keys?) ?to the (?:url|web)";
        let expected = [
            vec!["mail", "send"],
            vec!["key", "password"],
            vec!["the"],
            vec!["url", "web"],
        ];
        assert_eq!(words(regex), expected);
        assert_eq!(words("(?:a|send)x?(?:y|zz)"), [[""; 0]; 0]);
    }

    #[test]
    fn a_branch_is_searched_where_its_words_stand_in_order() {
        let regex = r"\b(?:send.{0,9}keys|drop.{0,9}table)";
        let branches = branches(&hir(regex));
        assert_eq!(branches.len(), 2);
        let length = |hir: &Hir| hir.properties().maximum_len().unwrap();
        let factors = Factors::new(&branches, length).unwrap();
        let mut tracks = Tracks::default();
        let mut parts = |text: &str| {
            factors.parts(text.as_bytes(), 0..text.len(), &mut tracks);
            tracks.parts.clone()
        };
        assert_eq!(parts("keys to send and a table to drop"), []);
        assert_eq!(parts("send many, many, many keys"), []);
        assert_eq!(parts("I send the keys to you"), [(2..15, 0)]);
        assert_eq!(parts("send it, send the keys"), [(5..22, 0)]);
        assert_eq!(parts("drop a table"), [(0..12, 1)]);
    }

    #[test]
    fn other_scripts_are_no_ascii() {
        assert!(can_be_ascii(&hir("send (?:ключ|key)")));
        assert!(!can_be_ascii(&hir("send (?:ключ|пароль)")));
        assert!(can_be_ascii(&hir("send (?:ключ)?")));
    }
}
