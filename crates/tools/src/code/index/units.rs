//! What is kept of a unit besides its words: what the parser made of it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use tantivy::schema::{IndexRecordOption, Value};
use tantivy::{DocAddress, DocSet, Searcher, TERMINATED, TantivyDocument, Term};

use super::document::WHOLE;
use super::schema::Fields;
use super::{UnitId, store};
use crate::code::api::Result;
use crate::code::parse::Parsed;

/// Units that are kept unpacked.
const CACHED_MAX: usize = 256;

/// What is kept of a unit.
pub struct Unit {
    /// What the parser made of it.
    pub parsed: Parsed,
}

/// Units that were asked for lately.
#[derive(Default)]
pub struct Cache {
    units: Mutex<HashMap<UnitId, Arc<Unit>>>,
}

impl Cache {
    pub fn get(
        &self,
        searcher: &Searcher,
        fields: &Fields,
        unit: UnitId,
    ) -> Result<Option<Arc<Unit>>> {
        let lock = || self.units.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = lock().get(&unit) {
            return Ok(Some(Arc::clone(kept)));
        }
        let Some(at) = find(searcher, fields, unit)? else {
            return Ok(None);
        };
        let document: TantivyDocument = searcher.doc(at).map_err(store)?;
        let value = document.get_first(fields.parsed);
        let bytes = value.as_ref().and_then(|value| value.as_bytes());
        let parsed = postcard::from_bytes(bytes.unwrap_or_default()).map_err(store)?;
        let unpacked = Arc::new(Unit { parsed });
        let mut units = lock();
        if units.len() >= CACHED_MAX {
            units.clear();
        }
        units.insert(unit, Arc::clone(&unpacked));
        Ok(Some(unpacked))
    }

    /// Lets go of all.
    pub fn rest(&self) {
        *self.units.lock().unwrap_or_else(PoisonError::into_inner) = HashMap::new();
    }

    pub fn forget(&self, unit: UnitId) {
        let mut units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
        units.remove(&unit);
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
pub fn all(searcher: &Searcher) -> Result<HashSet<UnitId>> {
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
