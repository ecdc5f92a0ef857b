//! Reads code that no grammar here knows by the words that its lines begin with: `function`, `class`, `defmodule`.
//!
//! Languages agree on these words more than on anything else, so one table does for all of them. It takes a line for a
//! definition only where what follows the name looks like one; it refuses to guess where a language defines without
//! a word. Comments are the lines that begin with the language's sign.

use super::SYMBOLS_MAX;
use super::blocks;
use super::chunks::Scope;
use super::grammar::Found;
use super::language::Language;
use super::lines::Lines;
use super::types::{
    Bytes, Symbol,
    SymbolKind::{
        self, Class, Constant, Enum, Function, Interface, Macro, Module, Struct, Trait, Type,
    },
};

/// Languages that are read so, and the signs of their comments.
const LANGUAGES: &[(&str, &[&str])] = &[
    (
        "#",
        &[
            "perl",
            "r",
            "elixir",
            "julia",
            "nim",
            "crystal",
            "powershell",
            "fish",
            "tcl",
            "awk",
            "cmake",
            "graphql",
            "starlark",
        ],
    ),
    ("--", &["lua", "haskell", "vhdl"]),
    (";", &["clojure", "lisp"]),
    ("%", &["erlang"]),
    ("!", &["fortran"]),
    ("'", &["visualbasic"]),
    ("\"", &["vim"]),
    ("(*", &["ocaml"]),
    (
        "//",
        &[
            "protobuf",
            "thrift",
            "scala",
            "groovy",
            "dart",
            "fsharp",
            "objectivec",
            "zig",
            "d",
            "pascal",
            "verilog",
            "solidity",
            "vue",
            "svelte",
        ],
    ),
];

/// Words that may stand before the one that defines.
const BEFORE: &[&str] = &[
    "abstract",
    "async",
    "case",
    "const",
    "data",
    "default",
    "export",
    "extern",
    "external",
    "final",
    "implicit",
    "inline",
    "internal",
    "lazy",
    "local",
    "mutable",
    "override",
    "private",
    "protected",
    "pub",
    "public",
    "pure",
    "rec",
    "recursive",
    "sealed",
    "static",
    "virtual",
];

/// Words that define, in lower case, and what.
const WORDS: &[(&str, SymbolKind)] = &[
    ("@implementation", Class),
    ("@interface", Interface),
    ("@protocol", Interface),
    ("class", Class),
    ("contract", Class),
    ("def", Function),
    ("defclass", Class),
    ("defmacro", Macro),
    ("defmacrop", Macro),
    ("defmethod", Function),
    ("defmodule", Module),
    ("defn", Function),
    ("defn-", Function),
    ("defp", Function),
    ("defparameter", Constant),
    ("defprotocol", Interface),
    ("defrecord", Struct),
    ("defun", Function),
    ("defvar", Constant),
    ("entity", Module),
    ("enum", Enum),
    ("error", Type),
    ("event", Type),
    ("extend", Type),
    ("fn", Function),
    ("fun", Function),
    ("func", Function),
    ("function", Function),
    ("input", Type),
    ("instance", Class),
    ("interface", Interface),
    ("library", Module),
    ("macro", Macro),
    ("message", Struct),
    ("mixin", Class),
    ("modifier", Function),
    ("module", Module),
    ("namespace", Module),
    ("newtype", Type),
    ("object", Class),
    ("package", Module),
    ("proc", Function),
    ("procedure", Function),
    ("rpc", Function),
    ("service", Class),
    ("struct", Struct),
    ("sub", Function),
    ("subroutine", Function),
    ("task", Function),
    ("template", Function),
    ("trait", Trait),
    ("type", Type),
    ("typedef", Type),
    ("union", Struct),
];

/// Words that may follow the name of a definition.
const AFTER: &[&str] = &[
    "as",
    "begin",
    "do",
    "extends",
    "if",
    "implements",
    "inherits",
    "is",
    "on",
    "returns",
    "then",
    "when",
    "where",
    "with",
    "mutable",
    "of",
    "derives",
];
/// Bytes of a line that are kept as a signature.
const LINE_BYTES_MAX: usize = 200;
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 120;

/// A definition whose end is not known yet.
struct Open {
    symbol: usize,
    scope: usize,
    indent: usize,
}

/// Reads a text; `None` where its language is not read so.
pub(super) fn find(language: Language, text: &[u8], lines: &Lines) -> Option<Found> {
    let (sign, _) = LANGUAGES
        .iter()
        .find(|(_, names)| names.contains(&language.name()))?;
    let mut found = Found {
        depths: blocks::depths(text, lines),
        ..Found::default()
    };
    let mut open: Vec<Open> = Vec::new();
    // The rows of comments that end right before this one.
    let mut doc: Option<Bytes> = None;
    // The row behind the last one that says something.
    let mut said = 0;
    for row in 0..lines.count() {
        let whole = lines.bytes(row, row + 1);
        let line = whole.of(text);
        let bare = line.trim_ascii();
        let start = whole.start as usize + line.len() - line.trim_ascii_start().len();
        let bytes = Bytes::new(start, start + bare.len());
        if bare.is_empty() || bare.starts_with(sign.as_bytes()) {
            doc = (!bare.is_empty()).then(|| {
                doc.map_or(bytes, |doc| Bytes {
                    end: bytes.end,
                    ..doc
                })
            });
            if !bare.is_empty() {
                found.comments.push(bytes);
            }
            continue;
        }
        let indent = blocks::indent(line);
        let closes =
            matches!(bare[0], b'}' | b')' | b']') || bare.to_ascii_lowercase().starts_with(b"end");
        close(&mut found, lines, &mut open, said, |of| {
            indent < of.indent || indent == of.indent && !closes
        });
        if let Some((kind, name)) = definition(bare).filter(|_| found.symbols.len() < SYMBOLS_MAX) {
            let at = Bytes::new(start + name.start, start + name.end);
            let name = String::from_utf8_lossy(at.of(text));
            let parents: Vec<_> = open
                .iter()
                .map(|open| &*found.scopes[open.scope].name)
                .collect();
            let parent = parents.join(language.joint()).into();
            let signature = String::from_utf8_lossy(&bare[..bare.len().min(LINE_BYTES_MAX)]);
            let signature = signature.trim_end_matches(['{', ' ']).into();
            open.push(Open {
                symbol: found.symbols.len(),
                scope: found.scopes.len(),
                indent,
            });
            found.scopes.push(Scope {
                bytes,
                name: name.as_ref().into(),
            });
            found.symbols.push(Symbol {
                name: name.as_ref().into(),
                kind,
                parent,
                span: lines.span(bytes),
                at,
                signature,
                doc: doc.take(),
            });
        }
        doc = None;
        said = row + 1;
    }
    close(&mut found, lines, &mut open, said, |_| true);
    Some(found)
}

/// Ends the definitions that a line is behind of; they reach to before the row `said`.
fn close(
    found: &mut Found,
    lines: &Lines,
    open: &mut Vec<Open>,
    said: usize,
    ends: impl Fn(&Open) -> bool,
) {
    while let Some(last) = open.pop_if(|last| ends(last)) {
        let bytes = &mut found.scopes[last.scope].bytes;
        bytes.end = bytes.end.max(lines.start(said) as u32);
        let bytes = *bytes;
        found.symbols[last.symbol].span = lines.span(bytes);
    }
}

/// What a line defines, and where in it the name stands.
fn definition(line: &[u8]) -> Option<(SymbolKind, std::ops::Range<usize>)> {
    let line = std::str::from_utf8(line).ok()?;
    let mut at = usize::from(line.starts_with('('));
    // Words before the one that defines; more of them are no definition.
    for _ in 0..5 {
        let rest = &line[at..];
        let word = rest.split(|c: char| c.is_whitespace() || c == '(').next()?;
        let next =
            at + word.len() + (rest[word.len()..].len() - rest[word.len()..].trim_start().len());
        let lower = word.to_ascii_lowercase();
        let kind = WORDS
            .iter()
            .find(|(known, _)| *known == lower)
            .map(|(_, kind)| *kind);
        match kind {
            // `case class`, `type class`: the last such word counts.
            Some(_) if is_word(&line[next..]) => at = next,
            Some(kind) => return named(line, next).map(|name| (kind, name)),
            None if BEFORE.contains(&lower.as_str()) => at = next,
            None => return None,
        }
    }
    None
}

fn is_word(rest: &str) -> bool {
    let word = rest.split_whitespace().next().unwrap_or_default();
    let more = rest.len() > word.len();
    more && WORDS.iter().any(|(known, _)| *known == word) && named(rest, 0).is_none()
}

/// The name that begins at `at`, if what follows it can follow a name.
fn named(line: &str, at: usize) -> Option<std::ops::Range<usize>> {
    let rest = line.get(at..)?;
    let is_name = |c: char| {
        c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '?' | '!' | '/' | '*' | '@')
    };
    let name = &rest[..rest.find(|c: char| !is_name(c)).unwrap_or(rest.len())];
    let name = name.trim_end_matches([':', '.', '-', '*', '/']);
    let begins = name.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '*' | '@'));
    let after = rest[name.len()..].trim_start();
    let word = after
        .split(|c: char| !c.is_alphanumeric())
        .next()
        .unwrap_or_default();
    let follows = word.is_empty() || AFTER.contains(&word) || line.starts_with('(');
    (begins && name.len() <= NAME_BYTES_MAX && follows).then(|| at..at + name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let lines = Lines::of(text.as_bytes());
        let found = find(Language::detect(path, b""), text.as_bytes(), &lines).unwrap();
        let shown = found.symbols.iter().map(|s| {
            format!(
                "{:?} {}/{} {}-{}",
                s.kind, s.parent, s.name, s.span.first, s.span.last
            )
        });
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        for symbol in &found.symbols {
            assert_eq!(symbol.at.of(text.as_bytes()), symbol.name.as_bytes());
        }
    }

    #[test]
    fn words_at_the_left_define() {
        check(
            "a.lua",
            "-- Adds.\nlocal function add(a, b)\n  return a + b\nend\n\nfunction M.sub(a)\nend\n",
            &["Function /add 2-4", "Function /M.sub 6-7"],
        );
        check(
            "a.ex",
            "defmodule A.B do\n  def run(x) do\n    x\n  end\nend\n",
            &["Module /A.B 1-5", "Function A.B/run 2-4"],
        );
        check(
            "a.scala",
            "final case class Pool(size: Int)\nobject Pool {\n  def take(): Int = {\n    1\n  }\n}\n",
            &[
                "Class /Pool 1-1",
                "Class /Pool 2-6",
                "Function Pool/take 3-5",
            ],
        );
        check(
            "a.clj",
            "(defn add [a b]\n  (+ a b))\n",
            &["Function /add 1-2"],
        );
        check(
            "a.proto",
            "message Ask {\n  string name = 1;\n}\nservice S {\n  rpc Find (Ask) returns (Answer);\n}\n",
            &["Struct /Ask 1-3", "Class /S 4-6", "Function S/Find 5-5"],
        );
        check(
            "a.sol",
            "contract Bank is Owned {\n  event Paid(uint a);\n}\n",
            &["Class /Bank 1-3", "Type Bank/Paid 2-2"],
        );
        check(
            "a.f90",
            "SUBROUTINE solve(a)\nEND SUBROUTINE\n",
            &["Function /solve 1-2"],
        );
    }

    #[test]
    fn prose_and_uses_define_nothing() {
        check(
            "a.lua",
            "type of the thing\nfunction(a) end\nclass\nx = function (a)\n",
            &[],
        );
        check(
            "a.scala",
            "/* type checks are\n   class based things here */\n",
            &[],
        );
        assert!(find(Language::text(), b"class A", &Lines::of(b"class A")).is_none());
    }
}
