//! From the bytes of a file to its pieces, its symbols and the names that it mentions.
//!
//! [`file`] is a pure function of a path and bytes. It runs in a process of its own ([`worker`]), because source
//! files come from strangers and grammars are C. It refuses nothing: what no grammar can read is cut at
//! blank lines, and the notes say so.

pub mod blocks;
pub mod language;
pub mod types;
pub mod words;

pub use language::Language;
pub use types::{
    Bytes, Chunk, Mention, MentionKind, Nature, Note, Parsed, Span, Symbol, SymbolKind,
};

/// The version of everything that this module makes of bytes. Raise it when the same bytes give another answer:
/// what was kept under an older version is then parsed again.
pub const VERSION: u32 = 1;

/// Bytes of a file that is looked into at all; over it there are no chunks, only a note.
pub const FILE_BYTES_MAX: usize = 16 << 20;
/// Bytes that a chunk should have at most. One line that is longer is cut into several chunks.
pub const CHUNK_BYTES: usize = 1500;

/// Parses one file. `path` is relative to its root, with `/`; only its name and extension are looked at.
///
/// Every byte of a text file stands in exactly one chunk, in order. A binary file has none.
pub fn file(path: &str, bytes: &[u8]) -> Parsed {
    let language = Language::detect(path, bytes);
    let mut parsed = Parsed::empty(language);
    if bytes.len() > FILE_BYTES_MAX {
        parsed.notes.push(Note::TooLarge);
        return parsed;
    }
    if bytes.contains(&0) {
        parsed.nature = Nature::Binary;
        return parsed;
    }
    parsed.chunks = blocks::split(bytes);
    parsed
}
