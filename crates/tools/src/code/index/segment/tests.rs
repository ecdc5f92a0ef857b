//! What is written is what Tantivy would have written.

use std::collections::BTreeMap;

use tantivy::postings::Postings;
use tantivy::schema::{IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{TextAnalyzer, Token, TokenStream, Tokenizer};
use tantivy::{DocSet, IndexWriter, SegmentReader, TERMINATED, TantivyDocument};

use super::super::{Family, UnitId};
use super::*;
use crate::code::parse::words::Words;
use crate::code::parse::{self, Parsed};
use crate::code::trigram::Grams;

/// For each word: the documents, how often it stands there, and where.
type All = BTreeMap<Vec<u8>, Vec<(u32, u32, Vec<u32>)>>;

/// All that a segment says of the words of a field, and the lengths of its documents.
fn all(segment: &SegmentReader, field: Field) -> (All, Vec<u8>) {
    let inverted = segment.inverted_index(field).unwrap();
    let (mut all, mut terms) = (All::new(), inverted.terms().stream().unwrap());
    while terms.advance() {
        let option = IndexRecordOption::WithFreqsAndPositions;
        let postings = inverted.read_postings_from_terminfo(terms.value(), option);
        let (mut postings, mut found) = (postings.unwrap(), Vec::new());
        while postings.doc() != TERMINATED {
            let mut places = Vec::new();
            postings.positions(&mut places);
            found.push((postings.doc(), postings.term_freq(), places));
            postings.advance();
        }
        assert_eq!(found.len(), terms.value().doc_freq as usize);
        all.insert(terms.key().to_vec(), found);
    }
    let lengths = segment.get_fieldnorms_reader(field).unwrap();
    let lengths = (0..segment.max_doc()).map(|doc| lengths.fieldnorm_id(doc));
    (all, lengths.collect())
}

#[derive(Clone, Default)]
struct Cutter(Token);

struct Stream<'a>(Words<'a>, &'a mut Token);

impl Tokenizer for Cutter {
    type TokenStream<'a> = Stream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Stream<'a> {
        self.0.reset();
        Stream(Words::of(text), &mut self.0)
    }
}

impl TokenStream for Stream<'_> {
    fn advance(&mut self) -> bool {
        let is_there = self.0.advance();
        self.1.text = self.0.text().to_owned();
        self.1.position = self.0.position();
        is_there
    }

    fn token(&self) -> &Token {
        self.1
    }

    fn token_mut(&mut self) -> &mut Token {
        self.1
    }
}

/// The same documents as Tantivy writes them.
fn by_tantivy(files: &[(&str, &str, Parsed)], fields: &Fields) -> Index {
    let mut schema = Schema::builder();
    let of = super::super::schema::schema().0;
    for (_, entry) in of.fields() {
        let option = entry.field_type().get_index_record_option();
        let is_scored = entry.has_fieldnorms() && entry.field_type().is_str();
        let cutter = if is_scored { "cutter" } else { "raw" };
        let indexing = TextFieldIndexing::default()
            .set_tokenizer(cutter)
            .set_index_option(option.unwrap_or(IndexRecordOption::Basic))
            .set_fieldnorms(is_scored);
        schema.add_text_field(
            entry.name(),
            TextOptions::default().set_indexing_options(indexing),
        );
    }
    let index = Index::create_in_ram(schema.build());
    let cutter = TextAnalyzer::builder(Cutter::default()).build();
    index.tokenizers().register("cutter", cutter);
    let mut writer: IndexWriter = index.writer_with_num_threads(1, 16 << 20).unwrap();
    for (number, (path, text, parsed)) in (0..).zip(files) {
        writer.add_document(TantivyDocument::new()).unwrap();
        let file = document::File {
            unit: UnitId(number),
            path,
            bytes: text.as_bytes(),
            parsed,
            kept: b"",
            runs: &[],
        };
        for (number, chunk) in parsed.chunks.iter().enumerate() {
            let of = document::of_chunk(fields, &file, number, chunk);
            let mut document = TantivyDocument::new();
            for (scored, text) in of.texts {
                document.add_text(fields.of(scored), text);
            }
            for name in of.names {
                document.add_text(fields.names, name);
            }
            writer.add_document(document).unwrap();
        }
    }
    writer.commit().unwrap();
    index
}

#[test]
fn a_segment_is_as_tantivy_would_write_it() {
    let long = "x".repeat(200);
    let odd =
        format!("_ __ naïve_Part →arrow 検索だ Ünder {long} sha256sum2 a1a1 aB__aB 漢字x {long}");
    let texts = [
        ("src/index.rs", include_str!("../../index.rs")),
        ("src/words.rs", include_str!("../../parse/words.rs")),
        ("odd.txt", odd.as_str()),
        ("empty.txt", ""),
        ("again/index.rs", include_str!("../../index.rs")),
    ];
    let files = texts.map(|(path, text)| (path, text, parse::file(path, text.as_bytes())));
    let dir = tempfile::tempdir().unwrap();
    let family = Family::open(dir.path(), 0).unwrap();
    let mut grams = Grams::default();
    for (number, (path, text, parsed)) in (0..).zip(&files) {
        let unit = UnitId(number);
        let put = family.put(unit, path, text.as_bytes(), parsed, &mut grams, false);
        put.unwrap();
    }
    family.commit().unwrap();
    let theirs = by_tantivy(&files, family.fields()).reader().unwrap();
    let (ours, theirs) = (family.searcher(), theirs.searcher());
    let (ours, theirs) = (ours.segment_reader(0), theirs.segment_reader(0));
    assert_eq!(ours.max_doc(), theirs.max_doc());
    for scored in Scored::ALL {
        let field = family.fields().of(scored);
        assert!(all(ours, field) == all(theirs, field), "{scored:?}");
        let words = |segment: &SegmentReader| {
            let inverted = segment.inverted_index(field).unwrap();
            inverted.total_num_tokens()
        };
        assert_eq!(words(ours), words(theirs));
    }
    let names = |segment: &SegmentReader| {
        let inverted = segment.inverted_index(family.fields().names).unwrap();
        let mut terms = inverted.terms().stream().unwrap();
        let mut all = Vec::new();
        while terms.advance() {
            all.push((terms.key().to_vec(), terms.value().doc_freq));
        }
        all
    };
    assert_eq!(names(ours), names(theirs));
}
