//! A text or an expression that is matched line by line, in time that grows with the file alone.
//!
//! Lines are what git takes for lines: they end at `\n`. A match never goes over an end of line, and `^`, `$`, `\A` and `\z`
//! mean the line's. It refuses expressions that would need too much memory, and back-references, which have no bound.

use std::sync::OnceLock;

use memchr::memmem::Finder;
use memchr::{memchr, memchr_iter, memrchr};
use regex_automata::meta::Regex;
use regex_automata::{Input, Span};
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look, LookSet};

use super::super::api::{Error, Result};
use super::Formula;

/// Bytes of a pattern.
const PATTERN_BYTES_MAX: usize = 4096;
/// Memory of a compiled pattern, and of its cache, in bytes.
const MEMORY_MAX: usize = 16 << 20;
/// Ranges of characters in an expression that surely fits into [`MEMORY_MAX`]: one takes far less than 4 KiB.
const RANGES_MAX: usize = MEMORY_MAX >> 12;
/// Bytes that a text must have to be looked for by itself.
const NEEDLE_BYTES_MIN: usize = 3;

/// What is matched.
pub(crate) struct Pattern {
    hir: Hir,
    /// Made with the pattern, unless `ascii` is there: then when a line is not ASCII.
    regex: OnceLock<Regex>,
    /// The expression for lines of ASCII, where each line is looked at by itself. All the letters that there are take
    /// longer to read in than all of a usual search.
    ascii: Option<Regex>,
    /// What tells fast which lines may match.
    sieve: Sieve,
    formula: Formula,
}

/// What tells fast which lines may match: it may let too many through, never too few.
enum Sieve {
    /// The expression itself.
    None,
    /// A text that each match has.
    Needle(Box<Finder<'static>>),
    /// The expression without the borders of words, which no automaton finds beside letters that are not ASCII.
    Coarse(Regex),
}

/// A line with a match: byte offsets in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// From 1.
    pub number: u32,
    /// First byte of the line.
    pub start: usize,
    /// The byte after the last one, without the end of line.
    pub end: usize,
    /// First byte of the first match.
    pub at: usize,
}

impl Pattern {
    /// An exact text.
    ///
    /// # Errors
    ///
    /// [`Error::Ask`] when it is empty, too long, or has a line break.
    pub(crate) fn text(text: &str, ignore_case: bool) -> Result<Pattern> {
        if text.contains('\n') {
            return Err(bad(
                "has a line break; search for one of its lines".to_owned()
            ));
        }
        Pattern::regex(&regex_syntax::escape(text), ignore_case)
    }

    /// A whole word: no letter, digit or underscore stands before or after it.
    ///
    /// # Errors
    ///
    /// As [`Pattern::text`].
    pub(crate) fn word(word: &str) -> Result<Pattern> {
        let escaped = regex_syntax::escape(word);
        match word.is_ascii() {
            true => Pattern::regex(&format!(r"(?-u:\b{escaped}\b)"), false),
            false => Pattern::regex(&format!(r"\b{escaped}\b"), false),
        }
    }

    /// A regular expression.
    ///
    /// # Errors
    ///
    /// [`Error::Ask`] when it is empty, too long, too large, or not one; with the place of the fault.
    pub(crate) fn regex(source: &str, ignore_case: bool) -> Result<Pattern> {
        if source.is_empty() {
            return Err(bad("is empty".to_owned()));
        }
        if source.len() > PATTERN_BYTES_MAX {
            let problem = format!("has over {PATTERN_BYTES_MAX} bytes; search for a part of it");
            return Err(bad(problem));
        }
        let parsed = regex_syntax::ParserBuilder::new()
            .utf8(false)
            .multi_line(true)
            .case_insensitive(ignore_case)
            .nest_limit(128)
            .build()
            .parse(source);
        let hir = parsed.map_err(|fault| {
            bad(format!(
                "is no regular expression: {fault}\nwrite mode `text` to search for it as it stands"
            ))
        })?;
        let hir = changed(&hir, &of_line);
        let sieve = Sieve::of(&hir)?;
        let ascii = match sieve {
            Sieve::Needle(_) if ranges(&hir) <= RANGES_MAX => {
                Some(built(&changed(&hir, &of_ascii))?)
            }
            _ => None,
        };
        let regex = match ascii {
            Some(_) => OnceLock::new(),
            None => OnceLock::from(built(&hir)?),
        };
        Ok(Pattern {
            regex,
            ascii,
            sieve,
            formula: Formula::of(&hir),
            hir,
        })
    }

    /// What a file must have.
    pub(crate) fn formula(&self) -> &Formula {
        &self.formula
    }

    /// Hands each line of `bytes` that matches to `each`, until that answers false.
    pub(crate) fn lines(&self, bytes: &[u8], mut each: impl FnMut(Line) -> bool) {
        let (mut number, mut counted, mut at) = (1, 0, 0);
        while let Some((start, end, first)) = self.next(bytes, at) {
            let breaks = memchr_iter(b'\n', &bytes[counted..start]).count();
            number += u32::try_from(breaks).unwrap_or(u32::MAX);
            counted = start;
            let line = Line {
                number,
                start,
                end,
                at: first,
            };
            if !each(line) {
                return;
            }
            at = end + 1;
        }
    }

    /// How many lines of `bytes` match.
    pub(crate) fn count(&self, bytes: &[u8]) -> u64 {
        let (mut count, mut at) = (0, 0);
        while let Some((_, end, _)) = self.next(bytes, at) {
            count += 1;
            at = end + 1;
        }
        count
    }

    /// The first line from `at` on, where a line begins, that matches: its ends, and the first byte of the match.
    fn next(&self, bytes: &[u8], mut at: usize) -> Option<(usize, usize, usize)> {
        while at < bytes.len() {
            let sifted = match &self.sieve {
                Sieve::None => self.find(bytes, at, bytes.len())?,
                Sieve::Needle(needle) => Span::from(at + needle.find(&bytes[at..])?..usize::MAX),
                Sieve::Coarse(coarse) => coarse.search(&Input::new(bytes).range(at..))?.span(),
            };
            if sifted.start == bytes.len() && bytes.ends_with(b"\n") {
                return None;
            }
            let start = memrchr(b'\n', &bytes[at..sifted.start]).map_or(at, |i| at + i + 1);
            let end = memchr(b'\n', &bytes[sifted.start..]);
            let end = end.map_or(bytes.len(), |i| sifted.start + i);
            // A match that goes over the end of the line is none; there may be another one within.
            let within = match &self.sieve {
                Sieve::None if sifted.end <= end => Some(sifted),
                Sieve::None => self.find(bytes, sifted.start, end),
                _ => self.find(bytes, start, end),
            };
            if let Some(within) = within {
                return Some((start, end, within.start));
            }
            at = end + 1;
        }
        None
    }

    fn find(&self, bytes: &[u8], from: usize, to: usize) -> Option<Span> {
        let regex = match &self.ascii {
            Some(ascii) if bytes[from..to].is_ascii() => ascii,
            _ => self.regex.get_or_init(|| {
                built(&self.hir).expect("an expression of few ranges needs little memory")
            }),
        };
        let input = Input::new(bytes).range(from..to);
        regex.search(&input).map(|found| found.span())
    }
}

impl Sieve {
    fn of(hir: &Hir) -> Result<Sieve> {
        let whole = matches!(hir.kind(), HirKind::Literal(_));
        let needle = needle(hir).filter(|needle| {
            !whole && needle.len() >= NEEDLE_BYTES_MIN && !needle.contains(&b'\n')
        });
        if let Some(needle) = needle {
            return Ok(Sieve::Needle(Box::new(Finder::new(needle).into_owned())));
        }
        match hir.properties().look_set().contains_word_unicode() {
            true => Ok(Sieve::Coarse(built(&changed(hir, &without_word))?)),
            false => Ok(Sieve::None),
        }
    }
}

/// The longest text that each match of `hir` has.
fn needle(hir: &Hir) -> Option<&[u8]> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(&literal.0),
        HirKind::Capture(capture) => needle(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => needle(&repetition.sub),
        HirKind::Concat(parts) => parts
            .iter()
            .filter_map(needle)
            .max_by_key(|needle| needle.len()),
        _ => None,
    }
}

fn built(hir: &Hir) -> Result<Regex> {
    let config = Regex::config()
        .utf8_empty(false)
        .nfa_size_limit(Some(MEMORY_MAX))
        .hybrid_cache_capacity(MEMORY_MAX / 8)
        // It only knows where groups are, and nobody asks.
        .onepass(false)
        // To make all of it takes longer than a search that makes what it meets.
        .dfa(false);
    let built = Regex::builder().configure(config).build_from_hir(hir);
    built.map_err(|fault| bad(format!("needs too much memory: {fault}")))
}

fn bad(problem: String) -> Error {
    Error::Ask {
        field: "query",
        problem,
    }
}

/// What a look stands for where lines are matched: the ends of the text are ends of a line.
fn of_line(leaf: &Hir) -> Hir {
    match leaf.kind() {
        HirKind::Look(Look::Start) => Hir::look(Look::StartLF),
        HirKind::Look(Look::End) => Hir::look(Look::EndLF),
        _ => leaf.clone(),
    }
}

/// The same without borders of words.
fn without_word(leaf: &Hir) -> Hir {
    match leaf.kind() {
        HirKind::Look(look) if LookSet::singleton(*look).contains_word() => Hir::empty(),
        _ => leaf.clone(),
    }
}

/// The same in a text of ASCII.
fn of_ascii(leaf: &Hir) -> Hir {
    match leaf.kind() {
        HirKind::Class(Class::Unicode(class)) => {
            let mut class = class.clone();
            class.intersect(&ClassUnicode::new([ClassUnicodeRange::new('\0', '\x7F')]));
            Hir::class(Class::Unicode(class))
        }
        _ => leaf.clone(),
    }
}

/// How many ranges of characters an expression has, written out.
fn ranges(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(Class::Unicode(class)) => class.ranges().len(),
        HirKind::Class(Class::Bytes(class)) => class.ranges().len(),
        HirKind::Capture(capture) => ranges(&capture.sub),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1);
            ranges(&repetition.sub).saturating_mul(times as usize)
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(ranges).fold(0, usize::saturating_add)
        }
    }
}

/// The same expression with other leaves, and without captures.
fn changed(hir: &Hir, leaf: &dyn Fn(&Hir) -> Hir) -> Hir {
    let all = |parts: &[Hir]| parts.iter().map(|part| changed(part, leaf)).collect();
    match hir.kind() {
        HirKind::Repetition(repetition) => Hir::repetition(regex_syntax::hir::Repetition {
            min: repetition.min,
            max: repetition.max,
            greedy: repetition.greedy,
            sub: Box::new(changed(&repetition.sub, leaf)),
        }),
        HirKind::Capture(capture) => changed(&capture.sub, leaf),
        HirKind::Concat(parts) => Hir::concat(all(parts)),
        HirKind::Alternation(parts) => Hir::alternation(all(parts)),
        _ => leaf(hir),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pattern: &Pattern, text: &str) -> Vec<u32> {
        let mut found = Vec::new();
        pattern.lines(text.as_bytes(), |line| {
            found.push(line.number);
            true
        });
        found
    }

    fn regex(source: &str, text: &str) -> Vec<u32> {
        lines(&Pattern::regex(source, false).unwrap(), text)
    }

    #[test]
    fn matches_stay_within_lines() {
        assert_eq!(regex("a\\s+b", "a\nb\na b\n"), [3]);
        assert_eq!(regex("[^x]+", "x\n\nyx\n"), [3]);
        assert_eq!(regex("a[^x]*b|c", "ac\nb\n"), [1]);
        assert_eq!(regex("^$", "a\n\nb\n"), [2]);
        assert_eq!(regex("$", "a\nb"), [1, 2]);
        assert_eq!(regex("$", "a\nb\n"), [1, 2]);
        assert_eq!(regex("\\Aa\\z", "a\nba\na"), [1, 3]);
    }

    #[test]
    fn a_sieve_lets_all_through_that_matches() {
        let text = "größe fn_late x\nfn ö late\nfn  late\nlate fn\n\nfnlate fn y late";
        let plain = |source: &str| {
            let mut pattern = Pattern::regex(source, false).unwrap();
            let sieve = std::mem::replace(&mut pattern.sieve, Sieve::None);
            assert!(!matches!(sieve, Sieve::None), "{source}");
            lines(&pattern, text)
        };
        for (source, wanted) in [
            (r"fn\b.*\blate", &[2, 3, 6][..]),
            (r"\bfn\b", &[2, 3, 4, 6]),
            (r"\w+_late", &[1]),
            (r"(fn)+\s+(late)+$", &[3]),
            (r"\bö\b", &[2]),
            (r"\s\b", &[1, 2, 3, 4, 6]),
            (r"fn[^x]*\blate", &[2, 3, 6]),
        ] {
            assert_eq!(regex(source, text), wanted, "{source}");
            assert_eq!(plain(source), wanted, "{source}");
            let count = Pattern::regex(source, false)
                .unwrap()
                .count(text.as_bytes());
            assert_eq!(count, wanted.len() as u64, "{source}");
        }
    }

    #[test]
    fn what_is_made_late_needs_little_memory() {
        for class in [
            r"\w",
            r"\W",
            ".",
            "[^a]",
            r"[^\x00-\x7F]",
            r"\p{Lu}",
            "(?i:é)",
        ] {
            let one = Pattern::regex(class, false).unwrap();
            let times = (RANGES_MAX / ranges(&one.hir)).min(1000) - NEEDLE_BYTES_MIN;
            let many = Pattern::regex(&format!("abc{class}{{{times}}}"), false).unwrap();
            assert!(many.ascii.is_some() && built(&many.hir).is_ok(), "{class}");
        }
        // Nor is what needs much put off until it is too late to refuse it.
        assert!(Pattern::regex(r"needle(\w{100}){100}", false).is_err());
    }

    #[test]
    fn a_text_is_no_expression() {
        let pattern = Pattern::text("a.b(", false).unwrap();
        assert_eq!(lines(&pattern, "a.b(\naxb(\nA.B("), [1]);
        let pattern = Pattern::text("a.b(", true).unwrap();
        assert_eq!(lines(&pattern, "a.b(\naxb(\nA.B("), [1, 3]);
    }

    #[test]
    fn a_word_is_whole() {
        let pattern = Pattern::word("pass").unwrap();
        assert_eq!(lines(&pattern, "pass\npassed\nby_pass\nx.pass()\n"), [1, 4]);
    }

    #[test]
    fn what_has_no_bound_is_refused() {
        for source in ["", "(", r"(a)\1", "a{1000}{1000}{1000}"] {
            assert!(Pattern::regex(source, false).is_err(), "{source}");
        }
        assert!(Pattern::regex(&"a".repeat(PATTERN_BYTES_MAX + 1), false).is_err());
        assert!(Pattern::text("two\nlines", false).is_err());
    }
}
