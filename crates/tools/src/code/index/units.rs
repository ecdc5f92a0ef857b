//! What is kept of a unit besides its words: what the parser made of it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tantivy::schema::{IndexRecordOption, Value};
use tantivy::{DocAddress, DocSet, Searcher, TERMINATED, TantivyDocument, Term};

use super::document::WHOLE;
use super::schema::Fields;
use super::{UnitId, store};
use crate::code::api::Result;
use crate::code::parse::Parsed;

/// Bytes that the kept units have in the index; unpacked they have four times as many, about.
const CACHED_BYTES_MAX: usize = 8 << 20;

/// What is kept of a unit.
pub(crate) struct Unit {
    /// What the parser made of it.
    pub parsed: Parsed,
}

/// Units that were asked for lately.
#[derive(Default)]
pub(super) struct Cache {
    kept: Mutex<Kept>,
}

/// Units in two halves: when the young ones are as many as half may be, they are the old ones, and what was not asked for
/// since the last time is let go of.
#[derive(Default)]
struct Kept {
    young: HashMap<UnitId, (Arc<Unit>, usize)>,
    old: HashMap<UnitId, (Arc<Unit>, usize)>,
    /// Bytes of the young ones in the index.
    bytes: usize,
}

impl Kept {
    fn get(&mut self, unit: UnitId) -> Option<Arc<Unit>> {
        if let Some((kept, _)) = self.young.get(&unit) {
            return Some(Arc::clone(kept));
        }
        let (kept, bytes) = self.old.remove(&unit)?;
        self.keep(unit, Arc::clone(&kept), bytes);
        Some(kept)
    }

    fn keep(&mut self, unit: UnitId, kept: Arc<Unit>, bytes: usize) {
        if self.bytes + bytes > CACHED_BYTES_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += bytes;
        // Two may have read it at once.
        if let Some((_, twice)) = self.young.insert(unit, (kept, bytes)) {
            self.bytes -= twice;
        }
    }

    fn forget(&mut self, unit: UnitId) {
        self.old.remove(&unit);
        if let Some((_, bytes)) = self.young.remove(&unit) {
            self.bytes -= bytes;
        }
    }
}

impl Cache {
    pub(super) fn get(
        &self,
        searcher: &Searcher,
        fields: &Fields,
        unit: UnitId,
    ) -> Result<Option<Arc<Unit>>> {
        if let Some(kept) = self.lock().get(unit) {
            return Ok(Some(kept));
        }
        let Some(at) = find(searcher, fields, unit)? else {
            return Ok(None);
        };
        let document: TantivyDocument = searcher.doc(at).map_err(store)?;
        let value = document.get_first(fields.parsed);
        let bytes = value.as_ref().and_then(|value| value.as_bytes());
        let bytes = bytes.unwrap_or_default();
        let parsed = postcard::from_bytes(bytes).map_err(store)?;
        let unpacked = Arc::new(Unit { parsed });
        self.lock().keep(unit, Arc::clone(&unpacked), bytes.len());
        Ok(Some(unpacked))
    }

    /// Lets go of all.
    pub(super) fn rest(&self) {
        *self.lock() = Kept::default();
    }

    pub(super) fn forget(&self, unit: UnitId) {
        self.lock().forget(unit);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the document of a unit's file is.
fn find(searcher: &Searcher, fields: &Fields, unit: UnitId) -> Result<Option<DocAddress>> {
    let term = Term::from_field_u64(fields.file, unit.0);
    for (ord, segment) in searcher.segment_readers().iter().enumerate() {
        let inverted = segment.inverted_index(fields.file).map_err(store)?;
        let postings = inverted.read_postings(&term, IndexRecordOption::Basic);
        let Some(mut postings) = postings.map_err(store)? else {
            continue;
        };
        while postings.doc() != TERMINATED {
            if !segment.is_deleted(postings.doc()) {
                let ord = u32::try_from(ord).expect("segments are few");
                return Ok(Some(DocAddress::new(ord, postings.doc())));
            }
            postings.advance();
        }
    }
    Ok(None)
}

/// All units of an index.
pub(super) fn all(searcher: &Searcher) -> Result<HashSet<UnitId>> {
    let mut units = HashSet::new();
    for segment in searcher.segment_readers() {
        let fast = segment.fast_fields();
        let unit = fast.u64("unit").map_err(store)?;
        let chunk = fast.u64("chunk").map_err(store)?;
        for doc in segment.doc_ids_alive() {
            if chunk.first(doc) == Some(WHOLE) {
                units.extend(unit.first(doc).map(UnitId));
            }
        }
    }
    Ok(units)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::parse::Language;

    fn empty() -> Arc<Unit> {
        let language = Language::all().next().unwrap();
        let parsed = Parsed::empty(language);
        Arc::new(Unit { parsed })
    }

    #[test]
    fn what_was_asked_for_lately_is_kept_and_no_more_than_fits() {
        let mut kept = Kept::default();
        let part = CACHED_BYTES_MAX / 20;
        for number in 0..1_000 {
            kept.keep(UnitId(number), empty(), part);
            assert!(kept.get(UnitId(0)).is_some(), "{number}");
            assert!((kept.young.len() + kept.old.len()) * part <= CACHED_BYTES_MAX);
        }
        assert!(kept.get(UnitId(995)).is_some());
        assert!(kept.get(UnitId(900)).is_none());
        kept.forget(UnitId(995));
        assert!(kept.get(UnitId(995)).is_none());
        kept.keep(UnitId(1), empty(), 2 * CACHED_BYTES_MAX);
        assert!(kept.get(UnitId(1)).is_some());
    }
}
