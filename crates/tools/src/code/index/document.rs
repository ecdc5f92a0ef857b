//! The documents of a file: one for the whole, one for each chunk.

use std::borrow::Cow;

use sha2::{Digest, Sha256};
use tantivy::TantivyDocument;

use super::UnitId;
use super::schema::{Fields, Scored};
use super::sketch;
use crate::code::api::ChunkKey;
use crate::code::parse::{Chunk, Parsed, Symbol, SymbolKind};

/// The number of a file's document where chunks have theirs.
pub(super) const WHOLE: u64 = u32::MAX as u64;

/// A file, as it comes from the parser.
pub(super) struct File<'a> {
    pub unit: UnitId,
    pub path: &'a str,
    pub bytes: &'a [u8],
    pub parsed: &'a Parsed,
    /// What the parser made of it, as it is kept.
    pub kept: &'a [u8],
    /// Its three-byte runs ([`Grams::of`](crate::code::trigram::Grams::of)).
    pub runs: &'a [u16],
}

/// What is written of a document.
pub(super) struct Document<'a> {
    /// Texts whose words are looked for.
    pub texts: Vec<(Scored, Cow<'a, str>)>,
    /// Names that are looked for as they are.
    pub names: Vec<String>,
    /// Numbers, and what is only kept.
    pub values: TantivyDocument,
}

/// The document of a file.
pub(super) fn of_file<'a>(fields: &Fields, file: &File<'a>) -> Document<'a> {
    let mut values = TantivyDocument::new();
    values.add_u64(fields.unit, file.unit.0);
    values.add_u64(fields.chunk, WHOLE);
    values.add_bytes(fields.parsed, file.kept);
    Document {
        texts: Vec::new(),
        names: Vec::new(),
        values,
    }
}

/// The document of a chunk.
pub(super) fn of_chunk<'a>(
    fields: &Fields,
    file: &File<'a>,
    number: usize,
    chunk: &'a Chunk,
) -> Document<'a> {
    let mut texts = vec![
        (Scored::Body, chunk.code(file.bytes).into()),
        (Scored::Path, file.path.into()),
    ];
    if !chunk.comments.is_empty() {
        texts.push((Scored::Comment, chunk.comment(file.bytes).into()));
    }
    let defined = || {
        let symbols = chunk.defines.iter();
        symbols.filter_map(|index| file.parsed.symbols.get(*index as usize))
    };
    let mut around = chunk.crumbs.join(" ");
    let mut signatures = String::new();
    let (mut names, mut kinds) = (Vec::new(), 0);
    for symbol in defined() {
        around.push(' ');
        around.push_str(&symbol.name);
        signatures.push_str(&symbol.signature);
        signatures.push('\n');
        kinds |= kind_bit(symbol.kind);
        names.extend(names_of(symbol));
    }
    texts.push((Scored::Symbol, around.into()));
    texts.push((Scored::Signature, signatures.into()));
    let mut values = TantivyDocument::new();
    values.add_u64(fields.unit, file.unit.0);
    let number = u64::try_from(number).expect("chunks are counted in memory");
    values.add_u64(fields.chunk, number);
    values.add_u64(fields.kinds, kinds);
    let text = chunk.span.bytes.of(file.bytes);
    let halves = key_halves(chunk_key(text));
    let sketch = match sketch::is_prose(file.parsed.language) {
        true => sketch::of_prose(text, halves[0]),
        false => halves[0],
    };
    values.add_u64(fields.sketch, sketch);
    for (field, half) in fields.key.iter().zip(halves) {
        values.add_u64(*field, half);
    }
    Document {
        texts,
        names,
        values,
    }
}

/// What a symbol is found by exactly: its name, its name with its last parent, and its name as it is spelt. A constructor is
/// found with its parent only: `Pool` is the class, `Pool.Pool` its constructor.
fn names_of(symbol: &Symbol) -> impl Iterator<Item = String> {
    let name = symbol.name.to_lowercase();
    let parent = last_part(&symbol.parent);
    let is_constructor = symbol.kind == SymbolKind::Method && *symbol.name == *parent;
    let joined = (!parent.is_empty()).then(|| format!("{}.{name}", parent.to_lowercase()));
    let alone = (!is_constructor).then(|| [as_spelt(&symbol.name), name]);
    joined.into_iter().chain(alone.into_iter().flatten())
}

/// What a name is found by in its own letters, large and small: no name in lower case begins so.
pub(crate) fn as_spelt(name: &str) -> String {
    format!("={name}")
}

/// The last part of a name that is joined in any way.
pub(crate) fn last_part(name: &str) -> &str {
    let end = name.rfind([':', '.', '#', '/', '\\', '>', ' ']);
    end.map_or(name, |end| &name[end + 1..])
}

/// The bit of a kind.
pub(crate) fn kind_bit(kind: SymbolKind) -> u64 {
    1 << kind as u64
}

/// The key of a chunk's text, for vectors.
pub(super) fn chunk_key(text: &[u8]) -> ChunkKey {
    let digest = Sha256::digest(text);
    digest[..16].try_into().expect("a digest has 32 bytes")
}

fn key_halves(key: ChunkKey) -> [u64; 2] {
    let number = u128::from_le_bytes(key);
    [number as u64, (number >> 64) as u64]
}

/// The key of which these are the halves.
pub(super) fn key_of(halves: [u64; 2]) -> ChunkKey {
    (u128::from(halves[0]) | u128::from(halves[1]) << 64).to_le_bytes()
}
