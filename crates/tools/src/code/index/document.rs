//! The documents of a file: one for the whole, one for each chunk.

use sha2::{Digest, Sha256};
use tantivy::TantivyDocument;

use super::schema::{Fields, Scored};
use super::{UnitId, store};
use crate::code::api::{ChunkKey, Result};
use crate::code::parse::{Chunk, Parsed, Symbol, SymbolKind};
use crate::code::trigram::Grams;

/// The number of a file's document where chunks have theirs.
pub const WHOLE: u64 = u32::MAX as u64;

/// All documents of a file.
pub fn documents(
    fields: &Fields,
    unit: UnitId,
    path: &str,
    bytes: &[u8],
    parsed: &Parsed,
    grams: &mut Grams,
) -> Result<Vec<TantivyDocument>> {
    let mut documents = Vec::with_capacity(parsed.chunks.len() + 1);
    let mut whole = TantivyDocument::new();
    whole.add_u64(fields.unit, unit.0);
    whole.add_u64(fields.file, unit.0);
    whole.add_u64(fields.chunk, WHOLE);
    whole.add_custom(fields.grams, &grams.of(bytes));
    let kept = postcard::to_allocvec(parsed).map_err(store)?;
    whole.add_bytes(fields.parsed, &kept);
    documents.push(whole);
    for (number, chunk) in parsed.chunks.iter().enumerate() {
        let number = u64::try_from(number).expect("chunks are counted in memory");
        let mut document = of_chunk(fields, path, bytes, parsed, chunk);
        document.add_u64(fields.unit, unit.0);
        document.add_u64(fields.chunk, number);
        documents.push(document);
    }
    Ok(documents)
}

fn of_chunk(
    fields: &Fields,
    path: &str,
    bytes: &[u8],
    parsed: &Parsed,
    chunk: &Chunk,
) -> TantivyDocument {
    let mut document = TantivyDocument::new();
    document.add_text(fields.of(Scored::Body), chunk.code(bytes));
    document.add_text(fields.of(Scored::Path), path);
    if !chunk.comments.is_empty() {
        document.add_text(fields.of(Scored::Comment), chunk.comment(bytes));
    }
    let defined = || {
        let symbols = chunk.defines.iter();
        symbols.filter_map(|index| parsed.symbols.get(*index as usize))
    };
    let mut names = chunk.crumbs.join(" ");
    let mut signatures = String::new();
    let mut kinds = 0;
    for symbol in defined() {
        names.push(' ');
        names.push_str(&symbol.name);
        signatures.push_str(&symbol.signature);
        signatures.push('\n');
        kinds |= kind_bit(symbol.kind);
        for name in names_of(symbol) {
            document.add_text(fields.names, name);
        }
    }
    if !names.trim().is_empty() {
        document.add_text(fields.of(Scored::Symbol), names);
    }
    if !signatures.is_empty() {
        document.add_text(fields.of(Scored::Signature), signatures);
    }
    document.add_u64(fields.kinds, kinds);
    let halves = key_halves(chunk_key(chunk.span.bytes.of(bytes)));
    for (field, half) in fields.key.iter().zip(halves) {
        document.add_u64(*field, half);
    }
    document
}

/// What a symbol is found by exactly: its name, and its name with its last parent.
fn names_of(symbol: &Symbol) -> impl Iterator<Item = String> {
    let name = symbol.name.to_lowercase();
    let parent = last_part(&symbol.parent).to_lowercase();
    let joined = (!parent.is_empty()).then(|| format!("{parent}.{name}"));
    [Some(name), joined].into_iter().flatten()
}

/// The last part of a name that is joined in any way.
pub fn last_part(name: &str) -> &str {
    let end = name.rfind([':', '.', '#', '/', '\\', '>', ' ']);
    end.map_or(name, |end| &name[end + 1..])
}

/// The bit of a kind.
pub fn kind_bit(kind: SymbolKind) -> u64 {
    1 << kind as u64
}

/// The key of a chunk's text, for vectors.
pub fn chunk_key(text: &[u8]) -> ChunkKey {
    let digest = Sha256::digest(text);
    digest[..16].try_into().expect("a digest has 32 bytes")
}

fn key_halves(key: ChunkKey) -> [u64; 2] {
    let number = u128::from_le_bytes(key);
    [number as u64, (number >> 64) as u64]
}

/// The key of which these are the halves.
pub fn key_of(halves: [u64; 2]) -> ChunkKey {
    (u128::from(halves[0]) | u128::from(halves[1]) << 64).to_le_bytes()
}
