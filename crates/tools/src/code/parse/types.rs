//! What a parse gives: chunks, symbols, and notes on what could not be done.
//!
//! Places are byte offsets in the file, so that nothing of the file is copied and each answer can be checked
//! against it; lines stand beside them because people and editors count lines. The types are small on
//! purpose: a store keeps them for each file that it knows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::language::Language;

/// Half-open byte offsets in a file.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Bytes {
    /// The first byte.
    pub start: u32,
    /// The byte after the last one.
    pub end: u32,
}

/// A piece of a file, in bytes and in lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Span {
    /// Its bytes.
    pub bytes: Bytes,
    /// Its first line; the first line of a file is 1.
    pub first: u32,
    /// The line of its last byte.
    pub last: u32,
}

/// What [`super::file`] makes of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parsed {
    /// What the file is written in.
    pub language: Language,
    /// Who wrote it, and for whom.
    pub nature: Nature,
    /// All bytes of a text file, each in exactly one chunk, in order. Empty for a binary or too large file.
    pub chunks: Vec<Chunk>,
    /// What the file defines, by the place of the definition; an outer one comes before those in it.
    pub symbols: Vec<Symbol>,
    /// What could not be done, and what was done instead.
    pub notes: Vec<Note>,
}

/// A piece of a file that stands for itself in an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Where it stands.
    pub span: Span,
    /// The names around its first definition, outermost first: types, functions, headings. Not the path.
    pub crumbs: Vec<Box<str>>,
    /// Indexes of the symbols whose definition begins in it, in order.
    pub defines: Vec<u32>,
    /// The comments and docstrings in it, in order and apart from each other. All else is code.
    pub comments: Vec<Bytes>,
}

/// A definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbol {
    /// What it is called where it is defined.
    pub name: Box<str>,
    /// What it is.
    pub kind: SymbolKind,
    /// The scopes around it, joined as its language joins them (`net::Pool`); empty at the top of a file.
    pub parent: Box<str>,
    /// The definition with its body; decorators are in it, the documentation before it is not.
    pub span: Span,
    /// Where its name stands in the definition.
    pub at: Bytes,
    /// The definition up to its body, on one line, cut at [`SIGNATURE_BYTES_MAX`].
    pub signature: Box<str>,
    /// Its documentation, as it stands in the file (comment signs included).
    pub doc: Option<Bytes>,
}

/// What a symbol is. Languages have more kinds than this; each takes the nearest.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SymbolKind {
    /// A function that belongs to no type.
    Function,
    /// A function of a type, constructors among them.
    Method,
    /// A class, a Kotlin or Swift object.
    Class,
    /// A struct, a record, a union.
    Struct,
    /// An enumeration.
    Enum,
    /// One value of an enumeration.
    Variant,
    /// An interface or protocol.
    Interface,
    /// A trait.
    Trait,
    /// A name for another type.
    Type,
    /// A module, namespace or package that the file defines.
    Module,
    /// A constant.
    Constant,
    /// A variable outside of functions.
    Variable,
    /// A field or property of a type.
    Field,
    /// A macro.
    Macro,
    /// A heading of a document.
    Heading,
    /// A key of a configuration file.
    Key,
    /// A table or view of a database.
    Table,
}

/// Who wrote a file, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Nature {
    /// People wrote it for people.
    Written,
    /// A program wrote it (a marker in its head, a lock file, a known name).
    Generated,
    /// A program pressed it together: lines that nobody reads.
    Minified,
    /// It is not text.
    Binary,
}

/// What could not be done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// Over [`super::FILE_BYTES_MAX`]: nothing was looked at.
    TooLarge,
    /// Too large, too deep or too pressed for a grammar: cut at blank lines, without symbols.
    NotParsed,
    /// The grammar took too long: cut at blank lines, without symbols.
    TimedOut,
    /// The process that parsed it died of it: cut at blank lines, without symbols.
    Crashed,
    /// Parts do not follow the grammar; what could be read was.
    SyntaxErrors,
    /// Not all of it is UTF-8.
    NotUtf8,
    /// There were more symbols than are kept.
    Cut,
}

/// Bytes of a signature that are kept.
pub const SIGNATURE_BYTES_MAX: usize = 400;

impl Bytes {
    /// The bytes from `start` to before `end`. Offsets fit: files are bounded by [`super::FILE_BYTES_MAX`].
    pub fn new(start: usize, end: usize) -> Bytes {
        let offset = |at: usize| u32::try_from(at).expect("a file is under 4 GiB");
        Bytes {
            start: offset(start),
            end: offset(end),
        }
    }

    /// How many bytes.
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// These bytes of `file`; empty where the file is not the one that was parsed.
    pub fn of(self, file: &[u8]) -> &[u8] {
        file.get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }
}

impl Parsed {
    /// Nothing yet of a file in `language`.
    pub fn empty(language: Language) -> Parsed {
        Parsed {
            language,
            nature: Nature::Written,
            chunks: Vec::new(),
            symbols: Vec::new(),
            notes: Vec::new(),
        }
    }
}

impl Parsed {
    /// Whether this can be what was made of `file`: each place stands in it, and chunks cover it. An answer of a
    /// process that read hostile bytes is not believed before.
    pub fn is_about(&self, file: &[u8]) -> bool {
        let length = file.len() as u64;
        let within = |bytes: Bytes| bytes.start <= bytes.end && u64::from(bytes.end) <= length;
        let lines = memchr::memchr_iter(b'\n', file).count() as u32 + 1;
        let spans = |span: Span| {
            within(span.bytes) && 1 <= span.first && span.first <= span.last && span.last <= lines
        };
        let (mut at, mut defined) = (0, 0);
        for chunk in &self.chunks {
            let bytes = chunk.span.bytes;
            let comments = chunk
                .comments
                .iter()
                .all(|part| within(*part) && bytes.start <= part.start && part.end <= bytes.end);
            let in_order = chunk.comments.is_sorted_by(|a, b| a.end <= b.start);
            let defines = chunk
                .defines
                .iter()
                .zip(defined..)
                .all(|(index, next)| *index == next);
            if bytes.start != at
                || bytes.is_empty()
                || !spans(chunk.span)
                || !comments
                || !in_order
                || !defines
            {
                return false;
            }
            at = bytes.end;
            defined += chunk.defines.len() as u32;
        }
        let covers = u64::from(at) == length || self.chunks.is_empty();
        let symbols = self
            .symbols
            .iter()
            .all(|symbol| spans(symbol.span) && within(symbol.at) && symbol.doc.is_none_or(within));
        covers && defined as usize == self.symbols.len() && symbols
    }
}

impl Chunk {
    /// The comments and docstrings of it, one after the other, as they stand in `file`.
    pub fn comment(&self, file: &[u8]) -> String {
        let mut text = String::new();
        for comment in &self.comments {
            text.push_str(&String::from_utf8_lossy(comment.of(file)));
            text.push('\n');
        }
        text
    }

    /// All of it but its comments.
    pub fn code(&self, file: &[u8]) -> String {
        let mut text = String::new();
        let mut from = self.span.bytes.start;
        for comment in &self.comments {
            let gap = Bytes {
                start: from,
                end: comment.start.max(from),
            };
            text.push_str(&String::from_utf8_lossy(gap.of(file)));
            from = comment.end;
        }
        let rest = Bytes {
            start: from.min(self.span.bytes.end),
            end: self.span.bytes.end,
        };
        text.push_str(&String::from_utf8_lossy(rest.of(file)));
        text
    }
}

impl Symbol {
    /// Its name with the scopes around it, as its language joins them.
    pub fn qualified(&self, language: Language) -> String {
        if self.parent.is_empty() {
            return self.name.to_string();
        }
        format!("{}{}{}", self.parent, language.joint(), self.name)
    }
}
