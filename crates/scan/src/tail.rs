//! The value at the end of a match, read by its classes and not by an automaton.
//!
//! Most rules end in `([A-Za-z0-9_-]{12,200})`. An automaton counts by having a state for each count, and what finds a
//! group goes over all of a match once more. So it looks for the twelve only; what goes on from there is read by a loop.

use std::ops::Range;

use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

use crate::shape::{Bytes, class_of, holds};

/// What is read behind a match of an expression that was cut.
pub(crate) struct Tail {
    /// Bytes of the value that the match holds, at its end; `None` where all of the match is the value.
    inside: Option<usize>,
    /// What the value goes on with: bytes of each class, as many as there are and may be.
    runs: Vec<(Bytes, usize)>,
}

impl Tail {
    /// Cuts an expression that ends in its only group, or has none: answers what must match, and what is read behind it.
    ///
    /// What is cut off may be empty, so that it never decides what the rest matches.
    pub(crate) fn cut(hir: &Hir) -> Option<(Hir, Tail)> {
        let mut all = parts(hir);
        let groups = hir.properties().explicit_captures_len();
        if groups == 0 {
            let runs = cut_off(&mut all);
            let inside = None;
            return (!runs.is_empty()).then(|| (Hir::concat(all), Tail { inside, runs }));
        }
        let look = |part: &Hir| matches!(part.kind(), HirKind::Look(_));
        let looks = all.iter().rev().take_while(|part| look(part)).count();
        let behind = all.split_off(all.len() - looks);
        let last = all.pop()?;
        let HirKind::Capture(group) = last.kind() else {
            return None;
        };
        let mut value = parts(&group.sub);
        let runs = match looks {
            0 => cut_off(&mut value),
            _ => Vec::new(),
        };
        let inside = value.iter().map(length).sum::<Option<usize>>()?;
        all.extend(value);
        all.extend(behind);
        let inside = Some(inside);
        (groups == 1).then(|| (Hir::concat(all), Tail { inside, runs }))
    }

    /// All of a match, and its value, where the expression that was cut matches this.
    pub(crate) fn read(&self, bytes: &[u8], cut: Range<usize>) -> (Range<usize>, Range<usize>) {
        let end = self.runs.iter().fold(cut.end, |at, (class, most)| {
            let run = bytes[at..].iter().take(*most);
            at + run.take_while(|byte| holds(class, **byte)).count()
        });
        let value = self.inside.map_or(cut.start, |inside| cut.end - inside);
        (cut.start..end, value..end)
    }
}

/// Takes from the end of a sequence what a loop can read, and leaves what a match must hold of it.
fn cut_off(parts: &mut Vec<Hir>) -> Vec<(Bytes, usize)> {
    let mut runs = Vec::new();
    while let Some(HirKind::Repetition(repetition)) = parts.last().map(Hir::kind) {
        let Some(run) = run(repetition) else {
            break;
        };
        let least = Repetition {
            max: Some(repetition.min),
            ..repetition.clone()
        };
        runs.insert(0, run);
        parts.pop();
        if least.min > 0 {
            parts.push(Hir::repetition(least));
            break;
        }
    }
    runs
}

/// Of a repetition of one class of bytes, what it may take beyond what it must.
fn run(repetition: &Repetition) -> Option<(Bytes, usize)> {
    let class = match repetition.sub.kind() {
        HirKind::Class(Class::Bytes(class)) => {
            let ranges = class.ranges().iter();
            class_of(ranges.flat_map(|range| range.start()..=range.end()))
        }
        HirKind::Literal(literal) if literal.0.len() == 1 => class_of([literal.0[0]].into_iter()),
        _ => return None,
    };
    let more = repetition.max?.checked_sub(repetition.min)?;
    (repetition.greedy && more > 0).then_some((class, usize::try_from(more).ok()?))
}

/// What an expression is a sequence of.
fn parts(hir: &Hir) -> Vec<Hir> {
    match hir.kind() {
        HirKind::Concat(parts) => parts.clone(),
        _ => vec![hir.clone()],
    }
}

/// How many bytes an expression takes, where it is always as many.
fn length(hir: &Hir) -> Option<usize> {
    let length = hir.properties().minimum_len()?;
    (hir.properties().maximum_len()? == length).then_some(length)
}

#[cfg(test)]
mod tests {
    use regex_automata::meta;

    use super::*;
    use crate::branch::parse;

    fn regex(hir: &Hir) -> meta::Regex {
        let config = meta::Config::new().utf8_empty(false);
        let mut builder = meta::Builder::new();
        builder.configure(config).build_from_hir(hir).unwrap()
    }

    #[test]
    fn what_is_read_is_what_the_expression_takes() {
        let expressions = [
            "key=([a-z0-9]{3,9})",
            "key=([a-z0-9]{3,9}[(]?)",
            r#"key=["']?([^\s"$][^\s"]{2,6}[(\[{]?)"#,
            "(?:k|ke)[ey]{0,2}=?([a-z=]{2,5})",
            r"\b[kx][a-z]{2,8}",
            "x{0,3}([a-wy-z][a-z]{4,6})",
            "key(?:=|=a)([a-z]{2,4})",
            "[a-y]=([a-z]{0,9}[0-9]{0,2})",
            r"\bkey=([a-z]{5})\b",
            "key=([a-z]{3})$",
        ];
        let texts = [
            "key=abc",
            "key=ab",
            "a key=abcdefghijkl key=xyz(",
            "key=a\u{e9}bd\u{e9}fghij(",
            "key=\"ab(cd(ef",
            "key='$abc",
            "key=\u{e9}$\u{e9}bc",
            "xxxxabcdefg",
            "kexy==abc",
            "key=aaa",
            "key=abcdef key=abcde.",
            "key=12345",
            "keys keykeykeys",
        ];
        for expression in expressions {
            let hir = parse(expression).unwrap();
            let whole = regex(&hir);
            let (part, tail) = Tail::cut(&hir).unwrap_or_else(|| panic!("{expression}"));
            let part = regex(&part);
            assert_eq!(part.captures_len(), 1, "{expression}");
            for text in texts {
                let mut captures = whole.create_captures();
                whole.captures(text, &mut captures);
                let wanted = captures.get_match().map(|all| {
                    let group = captures.get_group(1);
                    (
                        all.range(),
                        group.map_or(all.range(), |group| group.range()),
                    )
                });
                let cut = part.find(text);
                let read = cut.map(|cut| tail.read(text.as_bytes(), cut.range()));
                assert_eq!(wanted, read, "{expression} in {text}");
            }
        }
    }

    #[test]
    fn what_a_loop_cannot_read_is_left_whole() {
        for expression in [
            "a[bc]{2}",
            "([a-z]{2,9})x",
            r"([a-z]{2,9})\b",
            "(a)([a-z]{2,9})",
            "a(b{1,2}?)",
            "a(?:b|[a-z]{2,9})",
            "(a{1,2}[b-c]{1,2})",
            "a(?:([a-z]{2,9})|b)",
        ] {
            assert!(
                Tail::cut(&parse(expression).unwrap()).is_none(),
                "{expression}"
            );
        }
    }
}
