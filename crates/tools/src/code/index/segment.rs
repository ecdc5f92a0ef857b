//! A segment that is being written: the documents of files, until there are enough of them.
//!
//! It is written in Tantivy's format, by Tantivy's own writers of each part, and Tantivy reads, joins and deletes it as its
//! own. What is ours is how words are gathered ([`postings`](super::postings)).

use tantivy::directory::TerminatingWrite;
use tantivy::fastfield::FastFieldsWriter;
use tantivy::fieldnorm::{FieldNormReaders, FieldNormsSerializer, FieldNormsWriter};
use tantivy::index::SegmentComponent;
use tantivy::postings::InvertedIndexSerializer;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::store::StoreWriter;
use tantivy::{Index, Segment, SegmentMeta};

use super::UnitId;
use super::document::{self, Document};
use super::lexicon::{Lexicon, Texts};
use super::postings::{DOCS_MAX, Lists, Log};
use super::runs;
use super::schema::{Fields, Scored};

/// Chunks of one file that are written; a parser that is believed gives far fewer.
const CHUNKS_MAX: usize = DOCS_MAX / 2 - 1;

/// Bytes of a whole name; Tantivy takes no word that is longer.
const NAME_BYTES_MAX: usize = u16::MAX as usize - 5;

/// A segment and what will be in it.
pub(super) struct Writing {
    fields: Fields,
    segment: Segment,
    lexicon: Lexicon,
    /// The words of the fields, in the order of [`Scored`].
    scored: [Log; 5],
    /// The whole names, and which documents have them.
    names: Texts,
    named: Log,
    /// The unit of each file, and its first document.
    files: Vec<(u64, u32)>,
    lengths: FieldNormsWriter,
    columns: FastFieldsWriter,
    store: StoreWriter,
    runs: runs::Writer,
    docs: u32,
}

impl Writing {
    /// A new segment of an index.
    ///
    /// # Errors
    ///
    /// When its files cannot be written.
    pub(super) fn new(index: &Index, fields: Fields) -> tantivy::Result<Writing> {
        let segment = index.new_segment();
        let (schema, settings) = (segment.schema(), index.settings());
        let tokenizers = index.fast_field_tokenizer().clone();
        let columns = FastFieldsWriter::from_schema_and_tokenizer_manager(&schema, tokenizers)?;
        let store = StoreWriter::new(
            segment.open_write(SegmentComponent::Store)?,
            settings.docstore_compression,
            settings.docstore_blocksize,
            settings.docstore_compress_dedicated_thread,
        )?;
        Ok(Writing {
            fields,
            segment,
            lexicon: Lexicon::default(),
            scored: Default::default(),
            names: Texts::default(),
            named: Log::default(),
            files: Vec::new(),
            lengths: FieldNormsWriter::for_schema(&schema),
            columns,
            store,
            runs: runs::Writer::default(),
            docs: 0,
        })
    }

    /// Adds the documents of a file.
    ///
    /// # Errors
    ///
    /// When its files cannot be written. The segment must not be used any more.
    pub(super) fn add(&mut self, file: &document::File<'_>) -> tantivy::Result<()> {
        self.files.push((file.unit.0, self.docs));
        self.runs.add(self.docs, file.runs);
        self.lengths.record(self.docs, self.fields.file, 1);
        self.put(&document::of_file(&self.fields, file))?;
        for (number, chunk) in file.parsed.chunks.iter().enumerate().take(CHUNKS_MAX) {
            let document = document::of_chunk(&self.fields, file, number, chunk);
            self.put(&document)?;
        }
        Ok(())
    }

    fn put(&mut self, document: &Document<'_>) -> tantivy::Result<()> {
        let doc = self.docs;
        for (scored, text) in &document.texts {
            let log = &mut self.scored[*scored as usize];
            let length = log.add(doc, text, &mut self.lexicon);
            self.lengths.record(doc, self.fields.of(*scored), length);
        }
        let is_kept = |name: &&String| name.len() <= NAME_BYTES_MAX;
        let names = document.names.iter().filter(is_kept);
        let names = names.map(|name| self.names.number(name.as_bytes()));
        self.named.add_whole(doc, names);
        self.lengths.record(doc, self.fields.unit, 1);
        self.columns.add_document(&document.values)?;
        self.store.store(&document.values, &self.segment.schema())?;
        self.docs += 1;
        Ok(())
    }

    /// The units whose documents are in it.
    pub(super) fn holds(&self) -> impl Iterator<Item = UnitId> + '_ {
        self.files.iter().map(|(unit, _)| UnitId(*unit))
    }

    /// Whether it is time to write it, when it should take no more memory than this.
    pub(super) fn is_full(&self, bytes_max: usize) -> bool {
        let logs = self.scored.iter().chain([&self.named]).map(Log::bytes);
        let others = [
            self.lexicon.bytes(),
            self.names.bytes(),
            self.columns.mem_usage(),
            self.runs.bytes(),
        ];
        let bytes = logs.chain(others).sum::<usize>();
        bytes >= bytes_max || self.docs as usize > DOCS_MAX / 2
    }

    /// Writes it.
    ///
    /// # Errors
    ///
    /// When its files cannot be written.
    pub(super) fn finish(mut self) -> tantivy::Result<SegmentMeta> {
        let segment = self.segment.clone().with_max_doc(self.docs);
        self.lengths.fill_up_to_max_doc(self.docs);
        let out = segment.open_write(SegmentComponent::FieldNorms)?;
        let out = FieldNormsSerializer::from_write(out)?;
        self.lengths.serialize(out, None)?;
        let lengths = FieldNormReaders::open(segment.open_read(SegmentComponent::FieldNorms)?)?;
        self.postings(&segment, &lengths)?;
        let mut out = segment.open_write(SegmentComponent::FastFields)?;
        self.columns.serialize(&mut out, None)?;
        out.terminate()?;
        self.store.close()?;
        self.runs.write(&segment)?;
        Ok(segment.meta().clone())
    }

    /// Writes the lists of all fields, which come in the order of the schema.
    fn postings(&self, segment: &Segment, lengths: &FieldNormReaders) -> tantivy::Result<()> {
        let mut out = InvertedIndexSerializer::open(segment)?;
        self.units(&mut out, lengths)?;
        let order = self.lexicon.words.in_order();
        for (scored, log) in Scored::ALL.iter().zip(&self.scored) {
            let field = self.fields.of(*scored);
            let lists = || log.cut(&self.lexicon);
            self.field(
                &mut out,
                lengths,
                field,
                log,
                lists,
                (&self.lexicon.words, &order),
            )?;
        }
        let order = self.names.in_order();
        let lists = || self.named.whole(&self.names);
        let (field, log) = (self.fields.names, &self.named);
        self.field(&mut out, lengths, field, log, lists, (&self.names, &order))?;
        out.close()?;
        Ok(())
    }

    fn field(
        &self,
        out: &mut InvertedIndexSerializer,
        lengths: &FieldNormReaders,
        field: Field,
        log: &Log,
        lists: impl FnOnce() -> Lists,
        (texts, order): (&Texts, &[u32]),
    ) -> tantivy::Result<()> {
        if log.words() == 0 {
            return Ok(());
        }
        let schema = self.segment.schema();
        let option = schema
            .get_field_entry(field)
            .field_type()
            .get_index_record_option();
        let option = option.unwrap_or(IndexRecordOption::Basic);
        let mut out = out.new_field(field, log.words(), lengths.get_field(field)?)?;
        lists().write(texts, order, option, &mut out)?;
        out.close()?;
        Ok(())
    }

    /// Writes which documents each unit has, and which one is of the file.
    fn units(
        &self,
        out: &mut InvertedIndexSerializer,
        lengths: &FieldNormReaders,
    ) -> tantivy::Result<()> {
        let ends = self.files.iter().skip(1).map(|(_, first)| *first);
        let ends = ends.chain([self.docs]);
        let mut units: Vec<_> = self.files.iter().zip(ends).collect();
        units.sort_unstable();
        for (field, is_file) in [(self.fields.unit, false), (self.fields.file, true)] {
            let count = match is_file {
                true => self.files.len() as u64,
                false => u64::from(self.docs),
            };
            let mut out = out.new_field(field, count, lengths.get_field(field)?)?;
            for ((unit, first), end) in &units {
                out.new_term(&unit.to_be_bytes(), 0, false)?;
                let end = if is_file { first + 1 } else { *end };
                (*first..end).for_each(|doc| out.write_doc(doc, 0, &[]));
                out.close_term()?;
            }
            out.close()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
