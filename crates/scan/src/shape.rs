//! What the first bytes of a match can be, place by place.
//!
//! Most of what opens a rule is none of its matches, as `key-` in a text about keys. A few classes of bytes
//! say so at a fraction of what an automaton costs, also where a text repeats what opens a rule.

use regex_syntax::hir::{Class, Hir, HirKind, Look};
use regex_syntax::is_word_byte;

/// Bytes of a match that are looked at.
const SHAPE_BYTES_MAX: usize = 24;

/// A class of bytes: a bit for each.
pub(crate) type Bytes = [u64; 4];

/// The classes that the first bytes of each match are of, as far as each is at a known place.
pub(crate) struct Shape {
    classes: Vec<Bytes>,
    /// A match begins at a boundary of words.
    bounded: bool,
}

impl Shape {
    pub(crate) fn of(hir: &Hir) -> Shape {
        let mut classes = Vec::new();
        add(hir, &mut classes);
        classes.truncate(SHAPE_BYTES_MAX);
        Shape {
            classes,
            bounded: bounded(hir),
        }
    }

    /// Whether each match begins at a boundary of words.
    pub(crate) fn is_bounded(&self) -> bool {
        self.bounded
    }

    /// Whether a match can begin here.
    pub(crate) fn fits(&self, bytes: &[u8], start: usize) -> bool {
        let (before, bytes) = bytes.split_at(start.min(bytes.len()));
        let inside = |byte: Option<&u8>| byte.is_some_and(|byte| is_word_byte(*byte));
        let classes = self.classes.iter();
        bytes.len() >= self.classes.len()
            && !(self.bounded && inside(before.last()) == inside(bytes.first()))
            && classes.zip(bytes).all(|(class, byte)| holds(class, *byte))
    }
}

/// Whether all bytes of each match are of a class.
pub(crate) fn made_of(hir: &Hir, class: fn(u8) -> bool) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => true,
        HirKind::Literal(literal) => literal.0.iter().all(|byte| class(*byte)),
        HirKind::Class(Class::Bytes(bytes)) => {
            let mut ranges = bytes.ranges().iter();
            ranges.all(|range| (range.start()..=range.end()).all(class))
        }
        HirKind::Class(Class::Unicode(_)) => false,
        HirKind::Repetition(repetition) => made_of(&repetition.sub, class),
        HirKind::Capture(capture) => made_of(&capture.sub, class),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().all(|part| made_of(part, class))
        }
    }
}

/// Marks by how seldom they stand in texts: what is not there is soon told.
const MARKS: &[u8] = b"`~^|\\@$%*+!?;&<>[]{}#'=\"()_,:/.-";

/// The rarest mark that is in each match, if it is none of those that are known to be there.
pub(crate) fn needed(hir: &Hir, known: impl Fn(u8) -> bool) -> Option<u8> {
    let all = always(hir);
    let mut marks = MARKS.iter().copied();
    marks.find(|mark| holds(&all, *mark) && !known(*mark))
}

/// The bytes that are in each match.
fn always(hir: &Hir) -> Bytes {
    let joined = |parts: &[Hir], join: fn(u64, u64) -> u64| {
        let all = parts.iter().map(always);
        all.reduce(|one, other| std::array::from_fn(|at| join(one[at], other[at])))
    };
    match hir.kind() {
        HirKind::Literal(literal) => class_of(literal.0.iter().copied()),
        HirKind::Class(Class::Bytes(class)) => match class.ranges() {
            [one] if one.start() == one.end() => class_of(std::iter::once(one.start())),
            _ => [0; 4],
        },
        HirKind::Repetition(repetition) if repetition.min > 0 => always(&repetition.sub),
        HirKind::Capture(capture) => always(&capture.sub),
        HirKind::Concat(parts) => joined(parts, |one, other| one | other).unwrap_or_default(),
        HirKind::Alternation(parts) => joined(parts, |one, other| one & other).unwrap_or_default(),
        _ => [0; 4],
    }
}

/// Whether an expression begins with a boundary of words.
fn bounded(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Look(look) => *look == Look::WordAscii,
        HirKind::Concat(parts) => parts.first().is_some_and(bounded),
        HirKind::Capture(capture) => bounded(&capture.sub),
        HirKind::Alternation(parts) => parts.iter().all(bounded),
        _ => false,
    }
}

pub(crate) fn holds(class: &Bytes, byte: u8) -> bool {
    class[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
}

pub(crate) fn class_of(bytes: impl Iterator<Item = u8>) -> Bytes {
    bytes.fold([0; 4], |mut class, byte| {
        class[usize::from(byte >> 6)] |= 1 << (byte & 63);
        class
    })
}

/// Adds the classes of an expression's bytes; false where the place of what follows is not known.
fn add(hir: &Hir, classes: &mut Vec<Bytes>) -> bool {
    if classes.len() >= SHAPE_BYTES_MAX {
        return false;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => true,
        HirKind::Literal(literal) => {
            classes.extend(literal.0.iter().map(|byte| class_of([*byte].into_iter())));
            true
        }
        HirKind::Class(Class::Bytes(class)) => {
            let all = class.ranges().iter();
            classes.push(class_of(all.flat_map(|range| range.start()..=range.end())));
            true
        }
        HirKind::Class(Class::Unicode(_)) => false,
        HirKind::Repetition(repetition) => {
            let times = (repetition.min as usize).min(SHAPE_BYTES_MAX);
            (0..times).all(|_| add(&repetition.sub, classes))
                && repetition.max == Some(repetition.min)
        }
        HirKind::Capture(capture) => add(&capture.sub, classes),
        HirKind::Concat(parts) => parts.iter().all(|part| add(part, classes)),
        HirKind::Alternation(parts) => any(parts, classes),
    }
}

/// Adds the classes that the bytes of any of these are of.
fn any(parts: &[Hir], classes: &mut Vec<Bytes>) -> bool {
    let shapes = parts.iter().map(|part| {
        let mut classes = Vec::new();
        let known = add(part, &mut classes);
        (classes, known)
    });
    let joined = shapes.reduce(|(one, known), (other, also)| {
        let same = one.len() == other.len();
        let both = one.iter().zip(&other);
        let both = both.map(|(one, other)| std::array::from_fn(|at| one[at] | other[at]));
        (both.collect(), known && also && same)
    });
    let (joined, known) = joined.unwrap_or_default();
    classes.extend(joined);
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(regex: &str) -> Shape {
        Shape::of(&crate::branch::parse(regex).unwrap())
    }

    #[test]
    fn a_text_that_cannot_be_a_match_does_not_fit() {
        let key = shape(r"\bkey-([0-9a-f]{32})\b");
        let fits = |text: &str| key.fits(text.as_bytes(), 0);
        assert!(fits("key-0123456789abcdef0123456789abcdef"));
        assert!(!fits("key-0123456789abcdefg123456789abcdef"));
        assert!(!fits("key-key-key-key-key-key-key-key-key-"));
        assert!(!fits("key-0123456789"), "it ends too early");
    }

    #[test]
    fn a_mark_of_each_match_is_needed() {
        let needed = |regex: &str, known: &[u8]| {
            let hir = crate::branch::parse(regex).unwrap();
            needed(&hir, |mark| known.contains(&mark))
        };
        assert_eq!(needed("a://[^@]{1,9}@x", b""), Some(b'@'));
        assert_eq!(needed("a://[^@]{1,9}@x", b"@"), Some(b':'));
        assert_eq!(needed("(?:a>|b{0,2}>c)", b""), Some(b'>'));
        assert_eq!(needed("(?:a>|b<)", b""), None);
        assert_eq!(needed("a>?b>{0,2}", b""), None);
        assert_eq!(needed("a(?:[>]b){2}", b""), Some(b'>'));
        assert_eq!(needed("words alone", b""), None);
    }

    #[test]
    fn a_match_begins_at_a_boundary_where_its_expression_does() {
        for (regex, text, fit) in [
            (r"\bkey", "a key", true),
            (r"\bkey", "a_key", false),
            ("key", "a_key", true),
            (r"(\bkey|\bkez)", "aakey", false),
            (r"(?:\bkey|ke)", "aakey", true),
            (r"\b-key", "aa-key", true),
            (r"\b-key", "a -key", false),
        ] {
            assert_eq!(shape(regex).fits(text.as_bytes(), 2), fit, "{regex} {text}");
        }
        assert!(shape(r"\bkey").fits(b"key", 0));
    }

    #[test]
    fn what_is_behind_an_unknown_place_is_not_asked() {
        for (regex, fit) in [
            ("(?i)ab(?:c|d)e", "aBde"),
            ("ab(?:cd|e)f", "abef"),
            ("a[0-9]{2,4}b", "a12b"),
            ("(?:ab)?c", "c"),
            ("(?:ab){2}c", "ababc"),
            ("a(?:b|)c", "ac"),
        ] {
            assert!(shape(regex).fits(fit.as_bytes(), 0), "{regex}");
        }
        assert!(!shape("ab(?:cd|e)f").fits(b"abff", 0));
        assert!(!shape("a[0-9]{2,4}b").fits(b"a1bb", 0));
        assert!(!shape("(?:ab){2}c").fits(b"ababd", 0));
        assert!(shape("a*b").fits(b"", 0));
    }
}
