//! A text or an expression that is matched line by line, in time that grows with the file alone.
//!
//! Lines are what git takes for lines: they end at `\n`. A match never goes over an end of line, and `^`, `$`, `\A` and `\z`
//! mean the line's. It refuses expressions that would need too much memory, and back-references, which have no bound.

use memchr::{memchr, memchr_iter, memrchr};
use regex_automata::meta::Regex;
use regex_automata::{Input, Span};
use regex_syntax::hir::{Hir, HirKind, Look};

use super::super::api::{Error, Result};
use super::Formula;

/// Bytes of a pattern.
const PATTERN_BYTES_MAX: usize = 4096;
/// Memory of a compiled pattern, and of its cache, in bytes.
const MEMORY_MAX: usize = 16 << 20;

/// What is matched.
pub struct Pattern {
    regex: Regex,
    formula: Formula,
}

/// A line with a match: byte offsets in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
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
    pub fn text(text: &str, ignore_case: bool) -> Result<Pattern> {
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
    pub fn word(word: &str) -> Result<Pattern> {
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
    pub fn regex(source: &str, ignore_case: bool) -> Result<Pattern> {
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
        let hir = of_lines(&hir);
        let formula = Formula::of(&hir);
        let config = Regex::config()
            .utf8_empty(false)
            .nfa_size_limit(Some(MEMORY_MAX))
            .hybrid_cache_capacity(MEMORY_MAX / 8);
        let built = Regex::builder().configure(config).build_from_hir(&hir);
        let regex = built.map_err(|fault| bad(format!("needs too much memory: {fault}")))?;
        Ok(Pattern { regex, formula })
    }

    /// What a file must have.
    pub fn formula(&self) -> &Formula {
        &self.formula
    }

    /// Hands each line of `bytes` that matches to `each`, until that answers false.
    pub fn lines(&self, bytes: &[u8], mut each: impl FnMut(Line) -> bool) {
        let mut at = 0;
        let (mut number, mut counted) = (1, 0);
        while at < bytes.len() {
            let Some(found) = self.find(bytes, at, bytes.len()) else {
                return;
            };
            if found.start == bytes.len() && bytes.ends_with(b"\n") {
                return;
            }
            let start = memrchr(b'\n', &bytes[..found.start]).map_or(0, |before| before + 1);
            let end = memchr(b'\n', &bytes[found.start..]).map_or(bytes.len(), |i| found.start + i);
            // A match that goes over the end of the line is none; there may be another one within.
            let within = match found.end <= end {
                true => Some(found),
                false => self.find(bytes, found.start, end),
            };
            if let Some(within) = within {
                let breaks = memchr_iter(b'\n', &bytes[counted..start]).count();
                number += u32::try_from(breaks).unwrap_or(u32::MAX);
                counted = start;
                let line = Line {
                    number,
                    start,
                    end,
                    at: within.start,
                };
                if !each(line) {
                    return;
                }
            }
            at = end + 1;
        }
    }

    fn find(&self, bytes: &[u8], from: usize, to: usize) -> Option<Span> {
        let input = Input::new(bytes).range(from..to);
        self.regex.search(&input).map(|found| found.span())
    }
}

fn bad(problem: String) -> Error {
    Error::Ask {
        field: "query",
        problem,
    }
}

/// The same expression, with the ends of the text made ends of a line.
fn of_lines(hir: &Hir) -> Hir {
    match hir.kind() {
        HirKind::Look(Look::Start) => Hir::look(Look::StartLF),
        HirKind::Look(Look::End) => Hir::look(Look::EndLF),
        HirKind::Repetition(repetition) => Hir::repetition(regex_syntax::hir::Repetition {
            min: repetition.min,
            max: repetition.max,
            greedy: repetition.greedy,
            sub: Box::new(of_lines(&repetition.sub)),
        }),
        HirKind::Capture(capture) => of_lines(&capture.sub),
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(of_lines).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(of_lines).collect()),
        _ => hir.clone(),
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
