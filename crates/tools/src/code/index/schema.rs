//! The fields of the documents.

use tantivy::schema::{
    BytesOptions, FAST, Field, INDEXED, IndexRecordOption, NumericOptions, Schema,
    TextFieldIndexing, TextOptions,
};

/// The fields that words are looked for in, each with lengths of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scored {
    /// Code without comments.
    Body,
    /// Comments and docstrings.
    Comment,
    /// Names that are defined, and the names around them.
    Symbol,
    /// Signatures.
    Signature,
    /// The path.
    Path,
}

impl Scored {
    /// All of them, by number.
    pub(crate) const ALL: [Scored; 5] = [
        Scored::Body,
        Scored::Comment,
        Scored::Symbol,
        Scored::Signature,
        Scored::Path,
    ];
}

/// The fields of the documents. A unit has one document for the file, and one for each chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    /// Which unit a document is of.
    pub unit: Field,
    /// The same, on the document of the file only.
    pub file: Field,
    /// The number of the chunk in its file.
    pub chunk: Field,
    /// Which kinds of symbols the chunk defines: one bit each.
    pub kinds: Field,
    /// The digest of the chunk's text, in two halves.
    pub key: [Field; 2],
    /// What tells whether two chunks say the same ([`sketch`](super::sketch)).
    pub sketch: Field,
    /// The fields of words, in the order of [`Scored`].
    pub scored: [Field; 5],
    /// Names that the chunk defines, whole: in lower case, also with their parents, joined by dots; and
    /// [as they are spelt](super::document::as_spelt).
    pub names: Field,
    /// What the parser made of the file.
    pub parsed: Field,
}

impl Fields {
    /// A field of words.
    pub(crate) fn of(&self, scored: Scored) -> Field {
        self.scored[scored as usize]
    }
}

/// The tokenizer of words.
pub(super) const WORDS: &str = "weir-words";

/// The schema, and its fields.
pub(super) fn schema() -> (Schema, Fields) {
    let mut schema = Schema::builder();
    let text = |tokenizer: &str, record: IndexRecordOption, lengths: bool| {
        let indexing = TextFieldIndexing::default()
            .set_tokenizer(tokenizer)
            .set_index_option(record)
            .set_fieldnorms(lengths);
        TextOptions::default().set_indexing_options(indexing)
    };
    let number = || NumericOptions::from(FAST);
    let fields = Fields {
        unit: schema.add_u64_field("unit", number() | INDEXED),
        file: schema.add_u64_field("file", INDEXED),
        chunk: schema.add_u64_field("chunk", number()),
        kinds: schema.add_u64_field("kinds", number()),
        key: ["key0", "key1"].map(|name| schema.add_u64_field(name, number())),
        sketch: schema.add_u64_field("sketch", number()),
        scored: [
            ("body", IndexRecordOption::WithFreqsAndPositions),
            ("comment", IndexRecordOption::WithFreqs),
            ("symbol", IndexRecordOption::WithFreqs),
            ("signature", IndexRecordOption::WithFreqs),
            ("path", IndexRecordOption::WithFreqs),
        ]
        .map(|(name, record)| schema.add_text_field(name, text(WORDS, record, true))),
        names: schema.add_text_field("names", text("raw", IndexRecordOption::Basic, false)),
        parsed: schema.add_bytes_field("parsed", BytesOptions::default().set_stored()),
    };
    (schema.build(), fields)
}
