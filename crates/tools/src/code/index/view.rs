//! One state of one tree: its files, and which documents of the index are theirs.
//!
//! A view does not change. Searches hold one while the next is made, and everything that they count (how rare a word
//! is, how long texts are) is counted over the documents of the view alone: an index that has seen other branches answers as
//! one that was made from these files.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use tantivy::columnar::Column;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::InvertedIndexReader;
use tantivy::postings::{SegmentPostings, TermInfo};
use tantivy::query::{EnableScoring, Query};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, Searcher, SegmentReader, Term};

use super::document::{WHOLE, key_of};
use super::entry::{Depth, Entry};
use super::paths::Paths;
use super::peaks::{BLOCK, Peaks};
use super::runs::Runs;
use super::schema::{Fields, Scored};
use super::store;
use crate::code::api::{ChunkKey, Result};
use crate::code::trigram::Formula;

/// A document that belongs to no file of the view.
pub(super) const NONE: u32 = u32::MAX;
/// Words of which it is remembered what the index says.
const KNOWN_MAX: usize = 4096;
/// Bytes of what is remembered of where words count.
const PEAKS_BYTES_MAX: usize = 4 << 20;
/// Words of which it is remembered what is spelt alike.
const ALIKE_MAX: usize = 1024;
/// Documents that are gone through in the time in which one is looked for.
const FEW: usize = 32;

/// A document that a query found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Found {
    /// The place of the file in [`View::entries`].
    pub entry: u32,
    /// The number of the chunk in its file.
    pub chunk: u32,
    /// How well it fits.
    pub score: f32,
    /// The segment.
    pub segment: u32,
    /// The document in it.
    pub doc: DocId,
}

/// One state of one tree.
pub(crate) struct View {
    /// Counts the states.
    pub generation: u64,
    /// When the files were looked at.
    pub as_of: SystemTime,
    /// Whether all files of the tree are in `entries`.
    pub walked: bool,
    /// The files, by path.
    pub entries: Arc<Vec<Arc<Entry>>>,
    /// What the index has of them.
    body: Arc<Body>,
}

/// What an index has of some files.
struct Body {
    searcher: Searcher,
    fields: Fields,
    /// One for each segment.
    parts: Vec<Part>,
    /// Files whose documents are there, or that have none to wait for.
    ready: Vec<bool>,
    /// Files of which the index cannot tell what is in them.
    unread: Vec<usize>,
    /// The [`Entry::marks`] of each file, side by side.
    marks: Vec<u32>,
    chunks: u64,
    lengths: [u64; 5],
    words: Mutex<HashMap<Term, Arc<Known>>>,
    /// Words that no chunk has, with those that are spelt alike.
    alike: Mutex<HashMap<String, Option<String>>>,
    paths: OnceLock<Paths>,
}

/// What is kept at hand of a segment.
pub(crate) struct Part {
    /// For each document, the entry that it belongs to.
    pub owners: Vec<u32>,
    /// Documents of no entry, ascending.
    foreign: Vec<DocId>,
    /// The number of each document's chunk.
    pub chunk: Column<u64>,
    /// The kinds of symbols that each document defines.
    pub kinds: Column<u64>,
    /// What tells whether chunks say the same.
    pub sketch: Column<u64>,
    /// For each block of documents, the [`Entry::marks`] that all their files have.
    pub marks: Vec<u32>,
    /// The lengths of the fields of words.
    pub lengths: Vec<FieldNormReader>,
    /// Which files have which runs.
    runs: Runs,
}

/// What the index says of a word in a field.
pub(crate) struct Known {
    /// How many chunks of the tree have it.
    pub count: u64,
    /// Its postings in each segment.
    pub infos: Vec<Option<TermInfo>>,
    /// Where it counts most in each segment, found out when it is first searched for.
    pub peaks: Vec<OnceLock<Peaks>>,
}

impl View {
    /// The state of a tree with these files (sorted by path), over what the index holds.
    ///
    /// # Errors
    ///
    /// When the index cannot be read.
    pub(crate) fn new(
        generation: u64,
        as_of: SystemTime,
        walked: bool,
        entries: Arc<Vec<Arc<Entry>>>,
        searcher: Searcher,
        fields: Fields,
    ) -> Result<View> {
        let body = Arc::new(Body::new(&entries, searcher, fields)?);
        Ok(View {
            generation,
            as_of,
            walked,
            entries,
            body,
        })
    }

    /// The state after this one. What was found out about the same files over the same index is kept.
    ///
    /// # Errors
    ///
    /// As [`View::new`].
    pub(crate) fn next(
        &self,
        as_of: SystemTime,
        walked: bool,
        entries: Arc<Vec<Arc<Entry>>>,
        searcher: Searcher,
    ) -> Result<View> {
        let index = |searcher: &Searcher| searcher.generation().generation_id();
        let is_same =
            Arc::ptr_eq(&entries, &self.entries) && index(&searcher) == index(self.searcher());
        let body = match is_same {
            true => Arc::clone(&self.body),
            false => Arc::new(Body::new(&entries, searcher, self.body.fields)?),
        };
        Ok(View {
            generation: self.generation + 1,
            as_of,
            walked,
            entries,
            body,
        })
    }

    /// The file with this path.
    pub(crate) fn entry(&self, path: &str) -> Option<&Arc<Entry>> {
        self.place(path).map(|at| &self.entries[at])
    }

    /// The place of the file with this path.
    pub(crate) fn place(&self, path: &str) -> Option<usize> {
        let found = self
            .entries
            .binary_search_by(|entry| (*entry.path).cmp(path));
        found.ok()
    }

    /// Whether a file's documents are there (or it has none to wait for).
    pub(crate) fn is_ready(&self, entry: usize) -> bool {
        self.body.ready.get(entry).copied().unwrap_or(false)
    }

    /// Files that wait for their documents.
    pub(crate) fn pending(&self) -> u64 {
        self.body.ready.iter().filter(|ready| !**ready).count() as u64
    }

    /// Files of which the index cannot tell what is in them: those that wait, and those that could not be read.
    pub(crate) fn unread(&self) -> &[usize] {
        &self.body.unread
    }

    /// Chunks of the tree in the index.
    pub(crate) fn chunks(&self) -> u64 {
        self.body.chunks
    }

    /// What the view searches.
    pub(crate) fn searcher(&self) -> &Searcher {
        &self.body.searcher
    }

    /// The fields of its documents.
    pub(crate) fn fields(&self) -> &Fields {
        &self.body.fields
    }

    /// What is kept at hand of each segment.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.body.parts
    }

    /// What tells whether a chunk says the same as others ([`are_near`](super::are_near)); none of a file's path alone.
    pub(crate) fn sketch(&self, found: &Found) -> Option<u64> {
        let part = self.body.parts.get(found.segment as usize)?;
        part.sketch.first(found.doc)
    }

    /// The [`Entry::marks`] of a file.
    pub(crate) fn marks(&self, entry: u32) -> u32 {
        self.body.marks[entry as usize]
    }

    /// The paths of the files in lower case, made when they are first asked for.
    pub(crate) fn paths(&self) -> &Paths {
        self.body.paths.get_or_init(|| Paths::of(&self.entries))
    }

    /// The words of all chunks in a field, counted.
    pub(crate) fn length(&self, scored: Scored) -> u64 {
        self.body.lengths[scored as usize]
    }

    /// How many chunks of the tree have a word.
    ///
    /// # Errors
    ///
    /// When the index cannot be read.
    pub(crate) fn count(&self, term: &Term) -> Result<u64> {
        Ok(self.known(term)?.count)
    }

    /// What the index says of a word. It is asked for several times in a search.
    ///
    /// # Errors
    ///
    /// When the index cannot be read.
    pub(crate) fn known(&self, term: &Term) -> Result<Arc<Known>> {
        let words = &self.body.words;
        let lock = || words.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(term) {
            return Ok(Arc::clone(known));
        }
        let known = Arc::new(self.body.know(term).map_err(store)?);
        let blocks: usize = self
            .parts()
            .iter()
            .map(|part| part.owners.len() / BLOCK)
            .sum();
        let mut words = lock();
        if words.len() >= KNOWN_MAX.min(PEAKS_BYTES_MAX / blocks.max(1)) {
            words.clear();
        }
        words.insert(term.clone(), Arc::clone(&known));
        Ok(known)
    }

    /// Where a word stands in the documents of a segment.
    ///
    /// # Errors
    ///
    /// When the index cannot be read.
    pub(crate) fn positions(&self, term: &Term, segment: u32) -> Result<Option<SegmentPostings>> {
        let known = self.known(term)?;
        let Some(info) = known.infos.get(segment as usize).and_then(Option::as_ref) else {
            return Ok(None);
        };
        let reader = self.searcher().segment_reader(segment);
        let inverted = reader.inverted_index(term.field()).map_err(store)?;
        let option = IndexRecordOption::WithFreqsAndPositions;
        let postings = inverted.read_postings_from_terminfo(info, option);
        postings.map(Some).map_err(store)
    }

    /// What `find` finds for a word, which it does once for each word.
    ///
    /// # Errors
    ///
    /// Those of `find`.
    pub(crate) fn alike(
        &self,
        word: &str,
        find: impl FnOnce() -> Result<Option<String>>,
    ) -> Result<Option<String>> {
        let lock = || {
            self.body
                .alike
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(known) = lock().get(word) {
            return Ok(known.clone());
        }
        let found = find()?;
        let mut alike = lock();
        if alike.len() >= ALIKE_MAX {
            alike.clear();
        }
        alike.insert(word.to_owned(), found.clone());
        Ok(found)
    }

    /// Hands each chunk of the tree to `each`, with the key of its text.
    ///
    /// # Errors
    ///
    /// When the index cannot be read.
    pub(crate) fn keys(&self, each: &mut dyn FnMut(ChunkKey, Found)) -> Result<()> {
        for (ord, segment) in self.searcher().segment_readers().iter().enumerate() {
            let fast = segment.fast_fields();
            let chunk = &self.body.parts[ord].chunk;
            let halves = [
                fast.u64("key0").map_err(store)?,
                fast.u64("key1").map_err(store)?,
            ];
            for (doc, owner) in (0..).zip(&self.body.parts[ord].owners) {
                let number = chunk.first(doc).unwrap_or(WHOLE);
                if *owner == NONE || number == WHOLE {
                    continue;
                }
                let key = key_of(halves.each_ref().map(|half| half.first(doc).unwrap_or(0)));
                let found = Found {
                    entry: *owner,
                    chunk: u32::try_from(number).unwrap_or(NONE),
                    score: 0.0,
                    segment: u32::try_from(ord).expect("segments are few"),
                    doc,
                };
                each(key, found);
            }
        }
        Ok(())
    }

    /// The files of the tree of whose runs a formula is true, by their places; none where it says nothing.
    pub(crate) fn with_runs(&self, formula: &Formula) -> Option<Vec<usize>> {
        let mut files = Vec::new();
        for part in self.parts() {
            let docs = part.runs.places(formula)?;
            let docs = docs.into_iter().map(|place| part.runs.doc(place));
            let owners = docs.filter_map(|doc| part.owners.get(doc as usize));
            files.extend(
                owners
                    .filter(|owner| **owner != NONE)
                    .map(|at| *at as usize),
            );
        }
        Some(files)
    }

    /// Hands each document of the tree that a query finds to `each`: entry, segment and document.
    ///
    /// # Errors
    ///
    /// When the index cannot be read.
    pub(crate) fn each(
        &self,
        query: &dyn Query,
        each: &mut dyn FnMut(u32, u32, DocId),
    ) -> Result<()> {
        let scoring = EnableScoring::disabled_from_searcher(self.searcher());
        let weight = query.weight(scoring).map_err(store)?;
        for (ord, segment) in self.searcher().segment_readers().iter().enumerate() {
            let owners = &self.body.parts[ord].owners;
            let ord = u32::try_from(ord).expect("segments are few");
            let mut take = |docs: &[DocId]| {
                for doc in docs {
                    let owner = owners[*doc as usize];
                    if owner != NONE {
                        each(owner, ord, *doc);
                    }
                }
            };
            weight
                .for_each_no_score(segment, &mut take)
                .map_err(store)?;
        }
        Ok(())
    }
}

impl Body {
    fn new(entries: &[Arc<Entry>], searcher: Searcher, fields: Fields) -> Result<Body> {
        let mut by_unit = HashMap::with_capacity(entries.len());
        let mut ready = Vec::with_capacity(entries.len());
        for (at, entry) in entries.iter().enumerate() {
            let depth = entry.about.depth;
            if depth.is_indexed() {
                by_unit.insert(entry.unit.0, u32::try_from(at).unwrap_or(NONE));
            }
            ready.push(!depth.is_indexed() && depth != Depth::Pending);
        }
        let mut body = Body {
            searcher,
            fields,
            parts: Vec::new(),
            ready,
            unread: Vec::new(),
            marks: entries.iter().map(|entry| entry.marks).collect(),
            chunks: 0,
            lengths: [0; 5],
            words: Mutex::default(),
            alike: Mutex::default(),
            paths: OnceLock::new(),
        };
        for segment in body.searcher.segment_readers().to_vec() {
            let part = body.own(&segment, &by_unit)?;
            body.parts.push(part);
        }
        let is_unread = |at: &usize| match entries[*at].about.depth {
            Depth::Pending | Depth::Unreadable => true,
            Depth::Meaning | Depth::Text => !body.ready[*at],
            Depth::Binary | Depth::Large => false,
        };
        body.unread = (0..entries.len()).filter(is_unread).collect();
        Ok(body)
    }

    /// Finds the owners of a segment's documents, and counts what is the tree's.
    fn own(&mut self, segment: &SegmentReader, by_unit: &HashMap<u64, u32>) -> Result<Part> {
        let fast = segment.fast_fields();
        let unit = fast.u64("unit").map_err(store)?;
        let lengths = Scored::ALL.map(|scored| {
            let reader = segment.get_fieldnorms_reader(self.fields.of(scored));
            reader.map_err(store)
        });
        let mut part = Part {
            owners: vec![NONE; segment.max_doc() as usize],
            foreign: Vec::new(),
            chunk: fast.u64("chunk").map_err(store)?,
            kinds: fast.u64("kinds").map_err(store)?,
            sketch: fast.u64("sketch").map_err(store)?,
            marks: Vec::new(),
            lengths: lengths.into_iter().collect::<Result<_>>()?,
            runs: Runs::open(segment).map_err(store)?,
        };
        let (mut last, mut owner) = (None, NONE);
        for doc in 0..segment.max_doc() {
            let of = unit.first(doc);
            if of != last {
                // Documents of a file stand together.
                last = of;
                owner = of.and_then(|of| by_unit.get(&of).copied()).unwrap_or(NONE);
            }
            if owner == NONE || segment.is_deleted(doc) {
                part.foreign.push(doc);
                continue;
            }
            part.owners[doc as usize] = owner;
            if part.chunk.first(doc) == Some(WHOLE) {
                self.ready[owner as usize] = true;
                continue;
            }
            self.chunks += 1;
            for (sum, reader) in self.lengths.iter_mut().zip(&part.lengths) {
                *sum += u64::from(reader.fieldnorm(doc));
            }
        }
        let common = |block: &[u32]| {
            let owned = block.iter().filter(|owner| **owner != NONE);
            owned.fold(u32::MAX, |marks, owner| marks & self.marks[*owner as usize])
        };
        part.marks = part.owners.chunks(BLOCK).map(common).collect();
        Ok(part)
    }

    fn know(&self, term: &Term) -> tantivy::Result<Known> {
        let mut known = Known {
            count: 0,
            infos: Vec::with_capacity(self.parts.len()),
            peaks: self.parts.iter().map(|_| OnceLock::new()).collect(),
        };
        for (segment, part) in self.searcher.segment_readers().iter().zip(&self.parts) {
            let inverted = segment.inverted_index(term.field())?;
            let info = inverted.get_term_info(term)?;
            if let Some(info) = &info {
                known.count += part.count(&inverted, info)?;
            }
            known.infos.push(info);
        }
        Ok(known)
    }
}

impl Part {
    /// How many documents of the tree have a word: all that have it, without those of others.
    fn count(&self, inverted: &InvertedIndexReader, info: &TermInfo) -> tantivy::Result<u64> {
        let all = u64::from(info.doc_freq);
        if self.foreign.is_empty() {
            return Ok(all);
        }
        let basic = IndexRecordOption::Basic;
        let mut postings = inverted.read_block_postings_from_terminfo(info, basic)?;
        if self.foreign.len() <= info.doc_freq as usize / FEW {
            let is_there = |doc: &&DocId| {
                let at = postings.seek(**doc);
                postings.doc(at) == **doc
            };
            return Ok(all - self.foreign.iter().filter(is_there).count() as u64);
        }
        let mut count = 0;
        while !postings.docs().is_empty() {
            let own = |doc: &&DocId| self.owners[**doc as usize] != NONE;
            count += postings.docs().iter().filter(own).count() as u64;
            postings.advance();
        }
        Ok(count)
    }
}
