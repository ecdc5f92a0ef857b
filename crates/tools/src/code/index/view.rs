//! One state of one tree: its files, and which documents of the index are theirs.
//!
//! A view does not change. Searches hold one while the next is made, and everything that they count (how rare a word
//! is, how long texts are) is counted over the documents of the view alone: an index that has seen other branches answers as
//! one that was made from these files.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use tantivy::query::{Bm25StatisticsProvider, EnableScoring, Query};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet, Searcher, SegmentReader, TERMINATED, Term};

use super::document::{WHOLE, key_of};
use super::schema::{Fields, Scored};
use super::{Blob, UnitId, store};
use crate::code::api::{ChunkKey, Result};
use crate::code::parse::{Language, Nature, Note};
use crate::code::place::Stamp;
use crate::code::rank::prior;

/// A document that belongs to no file of the view.
const NONE: u32 = u32::MAX;
/// Words of which the number of documents is remembered.
const COUNTED_MAX: usize = 8192;

/// Words of which it is remembered what is spelt alike.
const ALIKE_MAX: usize = 1024;

/// A file of a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its path from the root of the tree.
    pub path: Box<str>,
    /// Tells whether it may have changed.
    pub stamp: Stamp,
    /// Whether the stamp would also fit a change that came right after it was read.
    pub racy: bool,
    /// Its content; of files that were never read, nothing.
    pub blob: Blob,
    /// Its documents.
    pub unit: UnitId,
    /// What it is.
    pub about: About,
    /// What its place says of its worth ([`prior`]).
    pub marks: u32,
}

impl Entry {
    /// A file with a content.
    pub fn new(path: Box<str>, stamp: Stamp, racy: bool, blob: Blob, about: About) -> Entry {
        let unit = UnitId::of(&path, &blob);
        let mut entry = Entry {
            path,
            stamp,
            racy,
            blob,
            unit,
            about,
            marks: 0,
        };
        entry.marks = prior::marks(&entry);
        entry
    }

    /// A file that was not looked at.
    pub fn unseen(path: &str, stamp: Stamp) -> Entry {
        let about = About::only(Depth::Pending, Language::detect(path, b""));
        Entry::new(path.into(), stamp, true, Blob::default(), about)
    }

    /// The same file, to be looked at again.
    pub fn pending(mut self) -> Entry {
        self.about.depth = Depth::Pending;
        self.racy = true;
        self
    }
}

impl About {
    /// Of a file that has no documents.
    pub fn only(depth: Depth, language: Language) -> About {
        About {
            depth,
            language,
            nature: Nature::Written,
            chunks: 0,
            symbols: 0,
            notes: Vec::new(),
        }
    }
}

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// How it can be found.
    pub depth: Depth,
    /// Its language.
    pub language: Language,
    /// Who wrote it.
    pub nature: Nature,
    /// Its chunks.
    pub chunks: u32,
    /// Its definitions.
    pub symbols: u32,
    /// What could not be done with it.
    pub notes: Vec<Note>,
}

/// How a file can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Depth {
    /// It was not looked at yet.
    Pending,
    /// By everything.
    Meaning,
    /// By name and text: too large to be cut.
    Text,
    /// By name: not text.
    Binary,
    /// By name: too large to be read.
    Large,
    /// By name: it cannot be read.
    Unreadable,
}

impl Depth {
    /// Whether it has documents in the index.
    pub fn is_indexed(self) -> bool {
        matches!(self, Depth::Meaning | Depth::Text)
    }
}

/// A document that a query found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
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
pub struct View {
    /// Counts the states.
    pub generation: u64,
    /// When the files were looked at.
    pub as_of: SystemTime,
    /// Whether all files of the tree are in `entries`.
    pub walked: bool,
    /// The files, by path.
    pub entries: Arc<Vec<Arc<Entry>>>,
    searcher: Searcher,
    fields: Fields,
    /// For each segment, for each document, the entry that it belongs to.
    owners: Vec<Vec<u32>>,
    /// Files whose documents are there, or that have none to wait for.
    ready: Vec<bool>,
    chunks: u64,
    lengths: [u64; 5],
    /// Whether there are documents of others.
    mixed: bool,
    counted: Mutex<HashMap<Term, u64>>,
    /// Words that no chunk has, with those that are spelt alike.
    alike: Mutex<HashMap<String, Option<String>>>,
}

impl View {
    /// The state of a tree with these files (sorted by path), over what the index holds.
    ///
    /// # Errors
    ///
    /// When the index cannot be read.
    pub fn new(
        generation: u64,
        as_of: SystemTime,
        walked: bool,
        entries: Arc<Vec<Arc<Entry>>>,
        searcher: Searcher,
        fields: Fields,
    ) -> Result<View> {
        let mut by_unit = HashMap::with_capacity(entries.len());
        let mut ready = Vec::with_capacity(entries.len());
        for (at, entry) in entries.iter().enumerate() {
            let depth = entry.about.depth;
            if depth.is_indexed() {
                by_unit.insert(entry.unit.0, u32::try_from(at).unwrap_or(NONE));
            }
            ready.push(!depth.is_indexed() && depth != Depth::Pending);
        }
        let mut view = View {
            generation,
            as_of,
            walked,
            entries,
            searcher,
            fields,
            owners: Vec::new(),
            ready,
            chunks: 0,
            lengths: [0; 5],
            mixed: false,
            counted: Mutex::default(),
            alike: Mutex::default(),
        };
        for segment in view.searcher.segment_readers().to_vec() {
            let owners = view.own(&segment, &by_unit)?;
            view.owners.push(owners);
        }
        Ok(view)
    }

    /// Finds the owners of a segment's documents, and counts what is the tree's.
    fn own(&mut self, segment: &SegmentReader, by_unit: &HashMap<u64, u32>) -> Result<Vec<u32>> {
        let fast = segment.fast_fields();
        let unit = fast.u64("unit").map_err(store)?;
        let chunk = fast.u64("chunk").map_err(store)?;
        let mut lengths = Vec::new();
        for scored in Scored::ALL {
            let reader = segment.get_fieldnorms_reader(self.fields.of(scored));
            lengths.push(reader.map_err(store)?);
        }
        let mut owners = vec![NONE; segment.max_doc() as usize];
        let (mut last, mut owner) = (None, NONE);
        for doc in 0..segment.max_doc() {
            let of = unit.first(doc);
            if of != last {
                // Documents of a file stand together.
                last = of;
                owner = of.and_then(|of| by_unit.get(&of).copied()).unwrap_or(NONE);
            }
            if owner == NONE || segment.is_deleted(doc) {
                self.mixed = true;
                continue;
            }
            owners[doc as usize] = owner;
            if chunk.first(doc) == Some(WHOLE) {
                self.ready[owner as usize] = true;
                continue;
            }
            self.chunks += 1;
            for (sum, reader) in self.lengths.iter_mut().zip(&lengths) {
                *sum += u64::from(reader.fieldnorm(doc));
            }
        }
        Ok(owners)
    }

    /// The file with this path.
    pub fn entry(&self, path: &str) -> Option<&Arc<Entry>> {
        self.place(path).map(|at| &self.entries[at])
    }

    /// The place of the file with this path.
    pub fn place(&self, path: &str) -> Option<usize> {
        let found = self
            .entries
            .binary_search_by(|entry| (*entry.path).cmp(path));
        found.ok()
    }

    /// Whether a file's documents are there (or it has none to wait for).
    pub fn is_ready(&self, entry: usize) -> bool {
        self.ready.get(entry).copied().unwrap_or(false)
    }

    /// Files that wait for their documents.
    pub fn pending(&self) -> u64 {
        self.ready.iter().filter(|ready| !**ready).count() as u64
    }

    /// Chunks of the tree in the index.
    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    /// What the view searches.
    pub fn searcher(&self) -> &Searcher {
        &self.searcher
    }

    /// The fields of its documents.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// How many chunks of the tree have a word.
    ///
    /// # Errors
    ///
    /// When the index cannot be read.
    pub fn count(&self, term: &Term) -> tantivy::Result<u64> {
        if !self.mixed {
            return self.searcher.doc_freq(term);
        }
        let lock = || self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = lock().get(term) {
            return Ok(*count);
        }
        let mut count = 0;
        for (segment, owners) in self.searcher.segment_readers().iter().zip(&self.owners) {
            let inverted = segment.inverted_index(term.field())?;
            let postings = inverted.read_postings(term, IndexRecordOption::Basic)?;
            let Some(mut postings) = postings else {
                continue;
            };
            while postings.doc() != TERMINATED {
                count += u64::from(owners[postings.doc() as usize] != NONE);
                postings.advance();
            }
        }
        let mut counted = lock();
        if counted.len() >= COUNTED_MAX {
            counted.clear();
        }
        counted.insert(term.clone(), count);
        Ok(count)
    }

    /// What `find` finds for a word, which it does once for each word.
    ///
    /// # Errors
    ///
    /// Those of `find`.
    pub fn alike(
        &self,
        word: &str,
        find: impl FnOnce() -> Result<Option<String>>,
    ) -> Result<Option<String>> {
        let lock = || self.alike.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// The best chunks for a query, best first, at most `most`. `weigh` gets the entry and the score, and answers the score that
    /// counts, no higher; zero leaves the chunk out. With `kinds`, only chunks that define one of these kinds.
    ///
    /// # Errors
    ///
    /// When the index cannot be read.
    pub fn best(
        &self,
        query: &dyn Query,
        pool: &Pool<'_>,
        most: usize,
        kinds: Option<u64>,
        weigh: &dyn Fn(u32, f32) -> f32,
    ) -> Result<Vec<Found>> {
        let scoring = EnableScoring::enabled_from_statistics_provider(pool, &self.searcher);
        let weight = query.weight(scoring).map_err(store)?;
        let mut best = Best::new(most);
        for (ord, segment) in self.searcher.segment_readers().iter().enumerate() {
            let owners = &self.owners[ord];
            let ord = u32::try_from(ord).expect("segments are few");
            let floor = best.least();
            let column = segment.fast_fields().u64("kinds").map_err(store)?;
            let defines = |doc: DocId| {
                kinds.is_none_or(|kinds| column.first(doc).is_some_and(|of| of & kinds != 0))
            };
            let mut take = |doc: DocId, score: f32| {
                let owner = owners[doc as usize];
                if owner != NONE && defines(doc) {
                    let score = weigh(owner, score);
                    if score > 0.0 {
                        best.take(score, owner, ord, doc);
                    }
                }
                best.least()
            };
            weight
                .for_each_pruning(floor, segment, &mut take)
                .map_err(store)?;
        }
        let mut found = Vec::new();
        for (score, entry, ord, doc) in best.sorted() {
            let segment = self.searcher.segment_reader(ord);
            let chunk = segment.fast_fields().u64("chunk").map_err(store)?;
            let chunk = chunk.first(doc).unwrap_or(WHOLE);
            if chunk != WHOLE {
                found.push(Found {
                    entry,
                    chunk: u32::try_from(chunk).unwrap_or(NONE),
                    score,
                    segment: ord,
                    doc,
                });
            }
        }
        Ok(found)
    }

    /// Hands each chunk of the tree to `each`, with the key of its text.
    ///
    /// # Errors
    ///
    /// When the index cannot be read.
    pub fn keys(&self, each: &mut dyn FnMut(ChunkKey, Found)) -> Result<()> {
        for (ord, segment) in self.searcher.segment_readers().iter().enumerate() {
            let fast = segment.fast_fields();
            let chunk = fast.u64("chunk").map_err(store)?;
            let halves = [
                fast.u64("key0").map_err(store)?,
                fast.u64("key1").map_err(store)?,
            ];
            for (doc, owner) in (0..).zip(&self.owners[ord]) {
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

    /// Hands each document of the tree that a query finds to `each`: entry, segment and document.
    ///
    /// # Errors
    ///
    /// When the index cannot be read.
    pub fn each(&self, query: &dyn Query, each: &mut dyn FnMut(u32, u32, DocId)) -> Result<()> {
        let scoring = EnableScoring::disabled_from_searcher(&self.searcher);
        let weight = query.weight(scoring).map_err(store)?;
        for (ord, segment) in self.searcher.segment_readers().iter().enumerate() {
            let owners = &self.owners[ord];
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

/// The best so far: a heap whose least is on top.
struct Best {
    heap: std::collections::BinaryHeap<std::cmp::Reverse<Kept>>,
    most: usize,
}

/// Ordered by score; of equal ones the earlier document is the better.
#[derive(Clone, Copy, PartialEq)]
struct Kept(f32, std::cmp::Reverse<(u32, u32, DocId)>);

impl Eq for Kept {}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Kept) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kept {
    fn cmp(&self, other: &Kept) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

impl Best {
    fn new(most: usize) -> Best {
        Best {
            heap: std::collections::BinaryHeap::with_capacity(most + 1),
            most,
        }
    }

    fn take(&mut self, score: f32, owner: u32, segment: u32, doc: DocId) {
        let kept = Kept(score, std::cmp::Reverse((owner, segment, doc)));
        self.heap.push(std::cmp::Reverse(kept));
        if self.heap.len() > self.most {
            self.heap.pop();
        }
    }

    /// What a score must be over to count.
    fn least(&self) -> f32 {
        match self.heap.len() < self.most {
            true => 0.0,
            false => self.heap.peek().map_or(0.0, |least| least.0.0),
        }
    }

    fn sorted(self) -> impl Iterator<Item = (f32, u32, u32, DocId)> {
        let sorted = self.heap.into_sorted_vec().into_iter();
        sorted.map(
            |std::cmp::Reverse(Kept(score, std::cmp::Reverse((owner, segment, doc))))| {
                (score, owner, segment, doc)
            },
        )
    }
}

/// What is counted over several trees at once, so that their scores can be compared.
pub struct Pool<'a> {
    /// The trees.
    pub views: Vec<&'a View>,
}

impl Bm25StatisticsProvider for Pool<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        let sum = |view: &&View| {
            let at = view
                .fields
                .scored
                .iter()
                .position(|scored| *scored == field);
            at.map_or(view.chunks, |at| view.lengths[at])
        };
        Ok(self.views.iter().map(sum).sum::<u64>().max(1))
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self
            .views
            .iter()
            .map(|view| view.chunks)
            .sum::<u64>()
            .max(1))
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        let counts = self.views.iter().map(|view| view.count(term));
        let sum = counts.sum::<tantivy::Result<u64>>()?;
        Ok(sum.min(self.total_num_docs()?))
    }
}
