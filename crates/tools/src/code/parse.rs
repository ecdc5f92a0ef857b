//! From the bytes of a file to its pieces and its symbols.
//!
//! [`file`] is a pure function of a path and bytes. It runs in a process of its own ([`worker`]), because source
//! files come from strangers and grammars are C. It refuses nothing: what no grammar can read is cut at
//! blank lines, and the notes say so.

pub mod language;
pub mod types;
pub mod words;
pub mod worker;

mod blocks;
mod chunks;
mod grammar;
mod keys;
mod lines;
mod markdown;
mod nature;
mod outline;
mod shapes;

pub use language::Language;
pub use nature::is_binary;
pub use types::{Bytes, Chunk, Nature, Note, Parsed, Span, Symbol, SymbolKind};

use grammar::{Found, SYMBOLS_MAX};
use language::Cut;
use lines::Lines;

/// The version of everything that this module makes of bytes. Raise it when the same bytes give another answer:
/// what was kept under an older version is then parsed again.
pub const VERSION: u32 = 6;

/// Bytes of a file that is looked into at all; over it there are no chunks, only a note.
pub const FILE_BYTES_MAX: usize = 16 << 20;
/// Bytes of a file that a grammar reads; over it the file is cut by its lines alone.
pub const GRAMMAR_BYTES_MAX: usize = 2 << 20;
/// Bytes that a chunk should have at most. A long line is cut into pieces of about this size.
pub const CHUNK_BYTES: usize = 1500;
/// Bytes that a chunk has at most, once tiny neighbours were joined to it.
pub const CHUNK_BYTES_MAX: usize = 2000;

/// Parses one file. `path` is relative to its root, with `/`; only its name and extension are looked at.
///
/// Every byte of a text file stands in exactly one chunk, in order. A binary file has none.
pub fn file(path: &str, bytes: &[u8]) -> Parsed {
    file_until(path, bytes, &mut || false)
}

/// As [`file`], and `stop` is asked often: once it says so, the file is cut by its lines alone.
pub fn file_until(path: &str, bytes: &[u8], stop: &mut dyn FnMut() -> bool) -> Parsed {
    parse(
        path,
        bytes,
        &mut |language, text, lines| match language.row().cut {
            Cut::Grammar(shape) if text.len() <= GRAMMAR_BYTES_MAX => {
                grammar::find(shape, language.joint(), text, lines, stop)
            }
            Cut::Grammar(_) => Err(Note::NotParsed),
            Cut::Markdown => Ok(markdown::find(text, lines)),
            Cut::Keys => Ok(keys::find(text, lines)),
            Cut::Json => Ok(keys::json(text, lines)),
            Cut::Blocks => {
                let outline = outline::find(language, text, lines);
                Ok(outline.unwrap_or_else(|| plain(text, lines)))
            }
        },
    )
}

/// As [`file`] for a file that a parser died of: it is cut by its lines alone, with a note that says why.
pub fn file_without_grammar(path: &str, bytes: &[u8], why: Note) -> Parsed {
    parse(path, bytes, &mut |_, _, _| Err(why))
}

/// What reads a text.
type Read<'a> = &'a mut dyn FnMut(Language, &[u8], &Lines) -> Result<Found, Note>;

fn parse(path: &str, bytes: &[u8], read: Read<'_>) -> Parsed {
    let language = Language::detect(path, bytes);
    let mut parsed = Parsed::empty(language);
    if bytes.len() > FILE_BYTES_MAX {
        parsed.notes.push(Note::TooLarge);
        return parsed;
    }
    let lines = Lines::of(bytes);
    parsed.nature = nature::nature(path, bytes, language, &lines);
    if parsed.nature == Nature::Binary {
        return parsed;
    }
    if std::str::from_utf8(bytes).is_err() {
        parsed.notes.push(Note::NotUtf8);
    }
    let read = match parsed.nature {
        Nature::Minified => Err(Note::NotParsed),
        _ => read(language, bytes, &lines),
    };
    let found = read.unwrap_or_else(|note| {
        parsed.notes.push(note);
        plain(bytes, &lines)
    });
    fill(&mut parsed, bytes, &lines, found);
    parsed
}

/// What is known of a text that nothing reads.
fn plain(text: &[u8], lines: &Lines) -> Found {
    Found {
        depths: blocks::depths(text, lines),
        ..Found::default()
    }
}

/// Cuts a text as it was read.
fn fill(parsed: &mut Parsed, text: &[u8], lines: &Lines, found: Found) {
    let depth = |row: usize| found.depths.get(row).copied().unwrap_or(0);
    let depths = chunks::Depths::new(text, lines, depth);
    let pieces = chunks::cut(text, lines, &depths);
    parsed.chunks = chunks::assemble(
        text,
        lines,
        &pieces,
        &found.symbols,
        &found.scopes,
        &found.comments,
    );
    parsed.symbols = found.symbols;
    parsed.notes.extend(found.notes);
}
