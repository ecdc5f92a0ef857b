//! The index of one family of trees: the worktrees of one git repository share it, and so do their branches.
//!
//! What is indexed is a *unit*: a path with a content, under one version of the parser. It is indexed once, however many trees
//! have it and however often it comes back; which units a tree has now is its own affair ([`View`]). Tantivy keeps the
//! documents, and commits whole: after a crash the last commit stands, and what was not in it is indexed again.

mod document;
mod entry;
mod lexicon;
mod paths;
mod peaks;
mod postings;
mod runs;
mod schema;
mod score;
mod segment;
mod sketch;
mod units;
mod view;
mod words;

use std::collections::HashSet;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use base::hex;
use sha2::{Digest, Sha256};
use tantivy::directory::MmapDirectory;
use tantivy::indexer::LogMergePolicy;
use tantivy::{
    FutureResult, Index, IndexReader, IndexSettings, IndexWriter, ReloadPolicy, Searcher,
    SegmentMeta, Term,
};

use super::api::{Error, Result};
use super::parse::{self, Parsed};
use super::trigram::Grams;

use document::File;
pub(super) use document::{as_spelt, kind_bit, last_part};
pub(super) use entry::{About, Depth, Entry};
pub(super) use schema::{Fields, Scored};
pub(super) use score::{Choice, Clause, Pool};
use segment::Writing;
pub(super) use sketch::{are_near, is_prose};
pub(super) use units::Unit;
pub(super) use view::{Found, View};
pub(super) use words::words_of;

/// The version of the documents: what is kept under an older one is indexed again.
const VERSION: u32 = 5;
/// Segments of one size before they are merged.
const SEGMENTS_MAX: usize = 8;
/// How long a writer that nobody uses is kept, in milliseconds.
const WRITER_IDLE_MS: u64 = 5_000;
/// How long a writer is not used before small segments are joined, in milliseconds.
const JOIN_IDLE_MS: u64 = 1_500;
/// Segments of alike size that are joined then, at least.
const JOIN_MIN: usize = 3;
/// A segment is not joined with smaller ones when it has so many times as many documents as all of them.
const JOIN_LARGER: u32 = 4;
/// Documents of segments that are joined at once.
const JOIN_DOCS_MAX: u32 = 1_000_000;
/// Memory that Tantivy may use for documents. It is given none, and takes no less.
const TANTIVY_BYTES: usize = 16 << 20;
/// Least memory of a segment that is being written, in bytes.
const WRITER_BYTES_MIN: usize = 16 << 20;

/// The SHA-256 of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Blob(pub [u8; 32]);

/// A path with a content, as the parser and the index of these versions see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct UnitId(pub u64);

impl Blob {
    /// The digest of a file.
    pub(super) fn of(bytes: &[u8]) -> Blob {
        Blob(Sha256::digest(bytes).into())
    }

    /// The first 16 hexadecimal digits: what references carry.
    pub(super) fn short(&self) -> String {
        hex::encode(&self.0[..8])
    }
}

impl UnitId {
    /// The unit of a path with a content.
    pub(super) fn of(path: &str, blob: &Blob) -> UnitId {
        let mut hash = Sha256::new();
        hash.update(VERSION.to_le_bytes());
        hash.update(parse::VERSION.to_le_bytes());
        hash.update(blob.0);
        hash.update(path);
        let digest = hash.finalize();
        let first: [u8; 8] = digest[..8].try_into().expect("a digest has 32 bytes");
        UnitId(u64::from_le_bytes(first))
    }
}

/// The index of one family.
pub(super) struct Family {
    index: Index,
    fields: Fields,
    reader: IndexReader,
    state: Mutex<State>,
    /// What was written since the last segment.
    writing: Mutex<Option<Writing>>,
    /// Held by whoever writes a segment that is full; whoever commits waits for them.
    finishing: RwLock<()>,
    writer_bytes: usize,
    units: units::Cache,
}

#[derive(Default)]
struct State {
    /// Units of the last commit.
    known: HashSet<UnitId>,
    /// Units written since.
    fresh: HashSet<UnitId>,
    /// Their segments that are written, with what is in them.
    segments: Vec<(SegmentMeta, Vec<UnitId>)>,
    /// Whether units of the last commit were taken out since.
    is_less: bool,
    writer: Option<Writer>,
}

struct Writer {
    shared: Arc<RwLock<IndexWriter>>,
    used: Instant,
    join: Join,
}

/// Whether segments are joined since the writer was used.
enum Join {
    NotYet,
    Now(FutureResult<Option<SegmentMeta>>),
    Done,
}

fn store(error: impl std::fmt::Display) -> Error {
    Error::Store(error.to_string())
}

impl Family {
    /// Opens the index in a directory, or makes it. One that cannot be read, or is of an older version, is made anew:
    /// all that it holds can be had from the files again.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] when the directory cannot be written.
    pub(super) fn open(dir: &Path, writer_bytes: usize) -> Result<Family> {
        let made = Family::try_open(dir, writer_bytes);
        let Err(why) = made else {
            return made;
        };
        tracing::warn!(%why, "an index cannot be read and is made anew");
        std::fs::remove_dir_all(dir).map_err(store)?;
        Family::try_open(dir, writer_bytes)
    }

    fn try_open(dir: &Path, writer_bytes: usize) -> Result<Family> {
        std::fs::create_dir_all(dir).map_err(store)?;
        let (schema, fields) = schema::schema();
        let settings = IndexSettings {
            docstore_compress_dedicated_thread: false,
            ..IndexSettings::default()
        };
        let directory = MmapDirectory::open(dir).map_err(store)?;
        let builder = Index::builder().schema(schema).settings(settings);
        let builder = builder.register_plugin(Arc::new(runs::Plugin));
        let index = builder.open_or_create(directory).map_err(store)?;
        let reader = index
            .reader_builder()
            .reload_policy(ReloadPolicy::Manual)
            .doc_store_cache_num_blocks(8)
            .try_into()
            .map_err(store)?;
        let family = Family {
            index,
            fields,
            reader,
            state: Mutex::default(),
            writing: Mutex::default(),
            finishing: RwLock::default(),
            writer_bytes: writer_bytes.max(WRITER_BYTES_MIN),
            units: units::Cache::default(),
        };
        family.lock().known = units::all(&family.reader.searcher())?;
        Ok(family)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The fields of its documents.
    pub(super) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// What the last commit holds.
    pub(super) fn searcher(&self) -> Searcher {
        self.reader.searcher()
    }

    /// Whether a unit is in the last commit.
    pub(super) fn knows(&self, unit: UnitId) -> bool {
        self.lock().known.contains(&unit)
    }

    /// How many units the last commit holds.
    pub(super) fn count(&self) -> usize {
        self.lock().known.len()
    }

    /// Units of the last commit that are not among these.
    pub(super) fn spare(&self, live: &HashSet<UnitId>) -> Vec<UnitId> {
        self.lock().known.difference(live).copied().collect()
    }

    /// What is kept of a unit of the last commit.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] when it cannot be read.
    pub(super) fn unit(&self, unit: UnitId) -> Result<Option<Arc<Unit>>> {
        self.units.get(&self.searcher(), &self.fields, unit)
    }

    fn writer(&self) -> Result<Arc<RwLock<IndexWriter>>> {
        let mut state = self.lock();
        if let Some(writer) = &mut state.writer {
            writer.used = Instant::now();
            if matches!(writer.join, Join::Done) {
                writer.join = Join::NotYet;
            }
            return Ok(Arc::clone(&writer.shared));
        }
        let opened = self.index.writer_with_num_threads(1, TANTIVY_BYTES);
        let writer: IndexWriter = opened.map_err(|error| match error {
            tantivy::TantivyError::LockFailure(..) => {
                Error::Busy("another process writes this index".to_owned())
            }
            other => store(other),
        })?;
        let mut policy = LogMergePolicy::default();
        policy.set_min_num_segments(SEGMENTS_MAX);
        policy.set_del_docs_ratio_before_merge(0.5);
        writer.set_merge_policy(Box::new(policy));
        // Another process may have written since.
        self.reader.reload().map_err(store)?;
        state.known = units::all(&self.reader.searcher())?;
        let shared = Arc::new(RwLock::new(writer));
        state.writer = Some(Writer {
            shared: Arc::clone(&shared),
            used: Instant::now(),
            join: Join::NotYet,
        });
        Ok(shared)
    }

    /// Writes the documents of a file; with `again`, also when its unit is known. They count from the next
    /// [`Family::commit`] on, all or none.
    ///
    /// # Errors
    ///
    /// [`Error::Store`], [`Error::Busy`] when another process writes.
    pub(super) fn put(
        &self,
        unit: UnitId,
        path: &str,
        bytes: &[u8],
        parsed: &Parsed,
        grams: &mut Grams,
        again: bool,
    ) -> Result<()> {
        let kept = postcard::to_allocvec(parsed).map_err(store)?;
        let file = File {
            unit,
            path,
            bytes,
            parsed,
            kept: &kept,
            runs: grams.of(bytes),
        };
        let writer = self.writer()?;
        let done = self.put_by(&writer, &file, again);
        done.inspect_err(|_| self.roll_back(&writer))
    }

    fn put_by(&self, writer: &RwLock<IndexWriter>, file: &File<'_>, again: bool) -> Result<()> {
        // Held until all documents are written: a commit takes a file whole or not at all.
        let writer = writer.read().unwrap_or_else(PoisonError::into_inner);
        let known = {
            let mut state = self.lock();
            let known = state.known.contains(&file.unit);
            if !state.fresh.insert(file.unit) || (known && !again) {
                return Ok(());
            }
            state.is_less |= known;
            known
        };
        if known {
            writer.delete_term(Term::from_field_u64(self.fields.unit, file.unit.0));
            self.units.forget(file.unit);
        }
        let full = self.write(file).map_err(store)?;
        if full.is_some() {
            let _finishing = self.finishing.read();
            drop(writer);
            self.finish(full).map_err(store)?;
        }
        Ok(())
    }

    /// Forgets what was written since the last commit.
    fn roll_back(&self, writer: &RwLock<IndexWriter>) {
        let mut writer = writer.write().unwrap_or_else(PoisonError::into_inner);
        let _none_finishes = self.finishing.write();
        if let Err(error) = writer.rollback() {
            tracing::warn!(%error, "an index cannot be taken back to what it was");
        }
        *self.writing() = None;
        let mut state = self.lock();
        state.fresh.clear();
        state.segments.clear();
        state.is_less = false;
    }

    /// Adds the documents of a file to the segment that is being written, and takes it out when it is full.
    fn write(&self, file: &File<'_>) -> tantivy::Result<Option<Writing>> {
        let mut place = self.writing();
        let mut writing = match place.take() {
            Some(writing) => writing,
            None => Writing::new(&self.index, self.fields)?,
        };
        writing.add(file)?;
        let is_full = writing.is_full(self.writer_bytes);
        *place = Some(writing);
        Ok(place.take_if(|_| is_full))
    }

    /// Writes a segment. It counts from the next commit on.
    fn finish(&self, writing: Option<Writing>) -> tantivy::Result<()> {
        if let Some(writing) = writing {
            let units = writing.holds().collect();
            let segment = writing.finish()?;
            self.lock().segments.push((segment, units));
        }
        Ok(())
    }

    fn writing(&self) -> MutexGuard<'_, Option<Writing>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes units out at the next commit.
    ///
    /// # Errors
    ///
    /// As [`Family::put`].
    pub(super) fn forget(&self, units: &[UnitId]) -> Result<()> {
        let writer = self.writer()?;
        let writer = writer.read().unwrap_or_else(PoisonError::into_inner);
        for unit in units {
            writer.delete_term(Term::from_field_u64(self.fields.unit, unit.0));
            self.units.forget(*unit);
            self.lock().known.remove(unit);
        }
        self.lock().is_less = true;
        Ok(())
    }

    /// Makes what was written count, durably.
    ///
    /// # Errors
    ///
    /// As [`Family::put`]. What was written since the last commit is then lost, and no longer taken for known.
    pub(super) fn commit(&self) -> Result<()> {
        let writer = self.writer()?;
        let done = self.commit_by(&writer).map_err(store);
        done.inspect_err(|_| self.roll_back(&writer))?;
        self.reader.reload().map_err(store)
    }

    fn commit_by(&self, writer: &RwLock<IndexWriter>) -> tantivy::Result<()> {
        // Others go on writing, to the next segment.
        self.finish_all()?;
        let mut writer = writer.write().unwrap_or_else(PoisonError::into_inner);
        let is_less = std::mem::take(&mut self.lock().is_less);
        if is_less {
            // What is taken out may be in that one again. It must not be looked for in the new segments.
            self.finish_all()?;
            writer.commit()?;
        }
        let segments = std::mem::take(&mut self.lock().segments);
        let (segments, units): (Vec<_>, Vec<_>) = segments.into_iter().unzip();
        for segment in segments {
            writer.add_segment(segment)?;
        }
        writer.commit()?;
        let mut state = self.lock();
        for unit in units.into_iter().flatten() {
            state.fresh.remove(&unit);
            state.known.insert(unit);
        }
        Ok(())
    }

    /// Writes the segment that is not full yet, and waits until those are written that are.
    fn finish_all(&self) -> tantivy::Result<()> {
        let last = self.writing().take();
        self.finish(last)?;
        drop(self.finishing.write());
        Ok(())
    }

    /// Whether a writer is open.
    pub(super) fn is_writing(&self) -> bool {
        self.lock().writer.is_some()
    }

    /// Once nobody writes: joins segments, since a search opens each word in each of them, and then closes the writer.
    /// Answers whether segments may have changed.
    pub(super) fn rest(&self) -> bool {
        let mut state = self.lock();
        let Some(writer) = &mut state.writer else {
            return false;
        };
        if let Join::Now(joining) = &mut writer.join {
            let mut context = Context::from_waker(Waker::noop());
            let Poll::Ready(joined) = Pin::new(joining).poll(&mut context) else {
                return false;
            };
            if let Err(error) = joined {
                tracing::warn!(%error, "joining segments");
            }
            writer.join = Join::Done;
            return self.reader.reload().is_ok();
        }
        // What was written and not committed stays, and a writer with it.
        if Arc::strong_count(&writer.shared) > 1 || self.writing().is_some() {
            return false;
        }
        let idle = writer.used.elapsed();
        if idle >= Duration::from_millis(JOIN_IDLE_MS) && matches!(writer.join, Join::NotYet) {
            writer.join = self.join(&writer.shared);
        }
        let is_idle = |writer: &mut Writer| {
            matches!(writer.join, Join::Done) && idle >= Duration::from_millis(WRITER_IDLE_MS)
        };
        let Some(writer) = state.writer.take_if(is_idle) else {
            return false;
        };
        if let Ok(writer) = Arc::try_unwrap(writer.shared) {
            let writer = writer.into_inner().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = writer.wait_merging_threads() {
                tracing::warn!(%error, "merging segments");
            }
        }
        self.units.rest();
        self.reader.reload().is_ok()
    }

    /// Begins to join segments, unless they are few or too different. Whoever writes meanwhile is not held up.
    fn join(&self, writer: &RwLock<IndexWriter>) -> Join {
        let metas = self.index.searchable_segment_metas().unwrap_or_default();
        let sizes = metas.iter().map(|meta| (meta.num_docs(), meta.id()));
        let chosen = alike(sizes.collect());
        match writer.try_write() {
            Ok(mut writer) if chosen.len() >= JOIN_MIN => Join::Now(writer.merge(&chosen)),
            _ => Join::Done,
        }
    }
}

/// The smallest segments, up to the first that is much larger than all before it.
fn alike<T: Ord>(mut segments: Vec<(u32, T)>) -> Vec<T> {
    segments.sort_unstable();
    let (mut sum, mut chosen) = (0_u32, Vec::new());
    for (docs, segment) in segments {
        let with = sum.saturating_add(docs);
        let is_larger = !chosen.is_empty() && docs > sum.saturating_mul(JOIN_LARGER);
        if is_larger || with > JOIN_DOCS_MAX {
            break;
        }
        sum = with;
        chosen.push(segment);
    }
    chosen
}

#[cfg(test)]
mod tests;
