//! Which files have which three-byte runs: a component of each segment, beside those of Tantivy.
//!
//! A file has thousands of runs, each once, and there are at most 65,536 of them. Tantivy finds each word of a text by its
//! hash, wherever it lies in memory; here all files of a segment are turned into lists at once, by counting, which
//! takes a tenth of the time. Tantivy writes, joins and deletes the component with its own, so a commit holds both or none.
//!
//! Numbers are little-endian. A component is the count of files and of runs, the documents of the files, the runs in
//! order, where the list of each ends, and the lists: the places of the files that have the run, each as its distance
//! from the one before, seven bits a byte.

use std::io::Write;

use tantivy::directory::{OwnedBytes, TerminatingWrite};
use tantivy::index::SegmentComponent;
use tantivy::indexer::doc_id_mapping::MappingType;
use tantivy::plugin::{PluginMergeContext, PluginWriter, PluginWriterContext, SegmentPlugin};
use tantivy::{DocId, Segment, SegmentReader, TantivyError};

use super::view::NONE;
use crate::code::trigram::{Formula, Gram, RUNS};

/// What the component is called.
const NAME: &str = "runs";
/// Runs that are looked at for one text; a few say as much as all.
const LOOKED_AT_MAX: usize = 16;
/// Bytes of a list for each file that is left over which it is sooner read what these files say.
const LONG: usize = 4096;
/// Bytes of a number in a list.
const NUMBER_BYTES_MAX: usize = 5;

/// Joins the components.
pub(super) struct Plugin;

impl SegmentPlugin for Plugin {
    fn extensions(&self) -> &[&str] {
        &[NAME]
    }

    fn create_writer(&self, _: &PluginWriterContext) -> tantivy::Result<Box<dyn PluginWriter>> {
        Err(broken("segments are not written by Tantivy"))
    }

    fn merge(&self, of: PluginMergeContext) -> tantivy::Result<()> {
        if of.doc_id_mapping.mapping_type() == MappingType::Shuffled {
            return Err(broken("documents keep their order"));
        }
        let (mut sources, mut docs, mut first) = (Vec::new(), Vec::new(), 0);
        for reader in of.readers {
            let runs = Runs::open(reader)?;
            let places = runs.moved(reader, first, &mut docs);
            first += reader.num_docs();
            sources.push((runs, places, 0));
        }
        let mut lists = Lists::default();
        for run in 0..=u16::MAX {
            let mut last = 0;
            for (runs, places, next) in &mut sources {
                if runs.run(*next) != Some(run) {
                    continue;
                }
                for place in Places::of(runs.list(*next)) {
                    let place = places.get(place as usize).copied().unwrap_or(NONE);
                    if place != NONE {
                        lists.push(place - last);
                        last = place;
                    }
                }
                *next += 1;
            }
            lists.end(run);
        }
        lists.write(&docs, of.target_segment)
    }
}

/// The files of a segment that is being written.
#[derive(Default)]
pub(super) struct Writer {
    docs: Vec<DocId>,
    /// Where the runs of each file end.
    ends: Vec<usize>,
    runs: Vec<u16>,
}

impl Writer {
    /// Adds the runs of a file, each once.
    pub(super) fn add(&mut self, doc: DocId, runs: &[u16]) {
        self.runs.extend_from_slice(runs);
        self.docs.push(doc);
        self.ends.push(self.runs.len());
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.runs.len() * size_of::<u16>() + self.docs.len() * size_of::<(u32, usize)>()
    }

    /// Writes the component of a segment.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(super) fn write(&self, segment: &Segment) -> tantivy::Result<()> {
        self.lists().write(&self.docs, segment)
    }

    /// Calls `each` with every place and run of a file, and its distance from the place before that has the run.
    fn each(&self, mut each: impl FnMut(usize, u32)) {
        let mut last = vec![0; RUNS];
        let mut from = 0;
        for (place, end) in (0..).zip(&self.ends) {
            for run in &self.runs[from..*end] {
                let run = usize::from(*run);
                each(run, place - last[run]);
                last[run] = place;
            }
            from = *end;
        }
    }

    /// The lists: it is counted how long each is, and then each number is put where it belongs.
    fn lists(&self) -> Lists {
        let mut next = vec![0; RUNS];
        self.each(|run, number| next[run] += bytes_of(number));
        let mut lists = Lists::default();
        let mut all = 0;
        for (run, next) in (0..=u16::MAX).zip(&mut next) {
            let length = std::mem::replace(next, all);
            all += length;
            if length > 0 {
                lists.runs.push(run);
                lists.ends.push(u32_of(all));
            }
        }
        lists.bytes = vec![0; all];
        self.each(|run, mut number| {
            let at = &mut next[run];
            while number >= 0x80 {
                lists.bytes[*at] = number as u8 | 0x80;
                number >>= 7;
                *at += 1;
            }
            lists.bytes[*at] = number as u8;
            *at += 1;
        });
        lists
    }
}

/// Bytes of a number in a list.
fn bytes_of(number: u32) -> usize {
    ((32 - number.leading_zeros()).div_ceil(7) as usize).max(1)
}

/// The lists of a component.
#[derive(Default)]
struct Lists {
    runs: Vec<u16>,
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

impl Lists {
    fn push(&mut self, mut number: u32) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// Ends the list of a run, if anything is in it.
    fn end(&mut self, run: u16) {
        let end = u32_of(self.bytes.len());
        if end > self.ends.last().copied().unwrap_or(0) {
            self.runs.push(run);
            self.ends.push(end);
        }
    }

    fn write(&self, docs: &[DocId], segment: &Segment) -> tantivy::Result<()> {
        let mut out = segment.open_write(component())?;
        for number in [docs.len(), self.runs.len()] {
            out.write_all(&u32_of(number).to_le_bytes())?;
        }
        for doc in docs {
            out.write_all(&doc.to_le_bytes())?;
        }
        for run in &self.runs {
            out.write_all(&run.to_le_bytes())?;
        }
        for end in &self.ends {
            out.write_all(&end.to_le_bytes())?;
        }
        out.write_all(&self.bytes)?;
        out.terminate()?;
        Ok(())
    }
}

/// A component that is read.
pub(super) struct Runs {
    docs: OwnedBytes,
    runs: OwnedBytes,
    ends: OwnedBytes,
    lists: OwnedBytes,
}

impl Runs {
    /// Opens the component of a segment.
    ///
    /// # Errors
    ///
    /// When it is not there, or shorter than it says.
    pub(super) fn open(segment: &SegmentReader) -> tantivy::Result<Runs> {
        let mut rest = segment.open_read(component())?.read_bytes()?;
        let mut take = |count: Option<usize>| {
            let count = count.filter(|count| *count <= rest.len());
            let count = count.ok_or_else(|| broken("a list ends early"))?;
            let (taken, after) = rest.clone().split(count);
            rest = after;
            Ok::<_, TantivyError>(taken)
        };
        let head = take(Some(8))?;
        let count = |at: usize| number(&head, at) as usize;
        let (docs, runs) = (
            take(count(0).checked_mul(4))?,
            take(count(1).checked_mul(2))?,
        );
        let ends = take(count(1).checked_mul(4))?;
        let end = number(&ends, count(1).wrapping_sub(1)) as usize;
        let lists = take(Some(end))?;
        Ok(Runs {
            docs,
            runs,
            ends,
            lists,
        })
    }

    /// The document of a file.
    pub(super) fn doc(&self, place: u32) -> DocId {
        number(&self.docs, place as usize)
    }

    /// The places of the files of which a formula is true, ascending; none where it says nothing.
    pub(super) fn places(&self, formula: &Formula) -> Option<Vec<u32>> {
        match formula {
            Formula::Any => None,
            Formula::Has(gram) => Some(Places::of(self.list_of(*gram)).collect()),
            Formula::All(parts) => {
                // All of many runs say hardly more than some, from begin to end.
                let step = parts.len().div_ceil(LOOKED_AT_MAX).max(1);
                let mut parts: Vec<&Formula> = parts.iter().step_by(step).collect();
                parts.sort_by_key(|part| self.length(part));
                let mut all: Option<Vec<u32>> = None;
                for part in parts {
                    all = match (all, part) {
                        (Some(all), Formula::Has(gram)) => {
                            let list = self.list_of(*gram);
                            if list.len() > all.len() * LONG {
                                return Some(all);
                            }
                            Some(both(all, list))
                        }
                        (Some(mut all), part) => {
                            if let Some(more) = self.places(part) {
                                all.retain(|place| more.binary_search(place).is_ok());
                            }
                            Some(all)
                        }
                        (None, part) => self.places(part),
                    };
                }
                all
            }
            Formula::One(parts) => {
                let mut one = Vec::new();
                for part in parts {
                    one.append(&mut self.places(part)?);
                }
                one.sort_unstable();
                one.dedup();
                Some(one)
            }
        }
    }

    /// About how many files there are to look at; what is no single run comes last.
    fn length(&self, formula: &Formula) -> usize {
        match formula {
            Formula::Has(gram) => self.list_of(*gram).len(),
            _ => usize::MAX,
        }
    }

    /// The run of a list.
    fn run(&self, at: usize) -> Option<u16> {
        let bytes = self.runs.get(at * 2..at * 2 + 2)?;
        Some(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    /// A list, by its place among them.
    fn list(&self, at: usize) -> &[u8] {
        let from = match at {
            0 => 0,
            _ => number(&self.ends, at - 1) as usize,
        };
        let end = number(&self.ends, at) as usize;
        self.lists.get(from..end).unwrap_or_default()
    }

    fn list_of(&self, gram: Gram) -> &[u8] {
        let runs = self.runs.as_chunks().0;
        let found = runs.binary_search_by_key(&gram.number(), |run| u16::from_le_bytes(*run));
        found.map_or(&[], |at| self.list(at))
    }

    /// Where each file is in a segment that this one is joined to, behind `first` documents and the files of `docs`,
    /// to which its own are added; [`NONE`] where it was deleted.
    fn moved(&self, segment: &SegmentReader, first: DocId, docs: &mut Vec<DocId>) -> Vec<u32> {
        let mut alive = (first..).zip(segment.doc_ids_alive()).peekable();
        let count = u32_of(self.docs.len() / 4);
        let mut places = Vec::with_capacity(count as usize);
        for doc in (0..count).map(|place| self.doc(place)) {
            while alive.next_if(|(_, old)| *old < doc).is_some() {}
            let kept = alive.next_if(|(_, old)| *old == doc);
            places.push(kept.map_or(NONE, |_| u32_of(docs.len())));
            docs.extend(kept.map(|(new, _)| new));
        }
        places
    }
}

/// The places in a list.
struct Places<'a> {
    bytes: std::slice::Iter<'a, u8>,
    last: u32,
}

impl Places<'_> {
    fn of(list: &[u8]) -> Places<'_> {
        Places {
            bytes: list.iter(),
            last: 0,
        }
    }
}

impl Iterator for Places<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let mut byte = u32::from(*self.bytes.next()?);
        let mut number = byte & 0x7F;
        for shift in (1..NUMBER_BYTES_MAX as u32).map(|byte| byte * 7) {
            // Nearly all numbers have one byte.
            if byte < 0x80 {
                break;
            }
            byte = u32::from(*self.bytes.next()?);
            number |= (byte & 0x7F) << shift;
        }
        self.last = self.last.wrapping_add(number);
        Some(self.last)
    }
}

/// The places of `one` that are in a list, too.
fn both(mut one: Vec<u32>, list: &[u8]) -> Vec<u32> {
    let mut places = Places::of(list);
    let mut next = places.next();
    one.retain(|place| {
        while next.is_some_and(|next| next < *place) {
            next = places.next();
        }
        next == Some(*place)
    });
    one
}

fn number(bytes: &[u8], at: usize) -> u32 {
    bytes
        .as_chunks()
        .0
        .get(at)
        .map_or(0, |number| u32::from_le_bytes(*number))
}

fn u32_of(count: usize) -> u32 {
    u32::try_from(count).expect("a segment is under 4 GiB")
}

fn component() -> SegmentComponent {
    SegmentComponent::Custom(NAME.to_owned())
}

fn broken(what: &str) -> TantivyError {
    TantivyError::InternalError(format!("{NAME}: {what}"))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::{Family, UnitId};
    use super::*;
    use crate::code::parse;
    use crate::code::trigram::Grams;

    /// An index of texts with numbers; those between two breaks are of one segment.
    struct Texts {
        family: Family,
        texts: BTreeMap<u64, String>,
        _dir: tempfile::TempDir,
    }

    impl Texts {
        fn new() -> Texts {
            let dir = tempfile::tempdir().unwrap();
            Texts {
                family: Family::open(dir.path(), 0).unwrap(),
                texts: BTreeMap::new(),
                _dir: dir,
            }
        }

        fn add(&mut self, number: u64, text: &str) {
            let (unit, mut grams) = (UnitId(number), Grams::default());
            let parsed = parse::file("a.txt", text.as_bytes());
            let family = &self.family;
            let put = family.put(unit, "a.txt", text.as_bytes(), &parsed, &mut grams, false);
            put.unwrap();
            self.texts.insert(number, text.to_owned());
        }

        fn delete(&mut self, number: u64) {
            self.family.forget(&[UnitId(number)]).unwrap();
            self.texts.remove(&number);
        }

        fn join(&mut self) {
            let all = self.family.index.searchable_segment_ids().unwrap();
            let writer = self.family.writer().unwrap();
            writer.write().unwrap().merge(&all).wait().unwrap();
            self.family.reader.reload().unwrap();
        }

        /// The numbers of the texts that a formula names.
        fn find(&self, formula: &Formula) -> BTreeSet<u64> {
            let mut found = BTreeSet::new();
            let searcher = self.family.searcher();
            for segment in searcher.segment_readers() {
                let numbers = segment.fast_fields().u64("unit").unwrap();
                let runs = Runs::open(segment).unwrap();
                let docs = runs.places(formula).unwrap().into_iter();
                let docs = docs.map(|place| runs.doc(place));
                let alive = docs.filter(|doc| !segment.is_deleted(*doc));
                found.extend(alive.map(|doc| numbers.first(doc).unwrap()));
            }
            found
        }

        #[track_caller]
        fn check(&self) {
            for letters in ["aaa", "aba", "abba", "babab", "caa", "xyz"] {
                let has = |(_, text): &(&u64, &String)| {
                    (3..=letters.len()).all(|end| text.contains(&letters[end - 3..end]))
                };
                let expected = self.texts.iter().filter(has).map(|(number, _)| *number);
                let found = self.find(&Formula::of_text(letters.as_bytes()));
                assert_eq!(found, expected.collect(), "{letters}");
            }
        }
    }

    #[test]
    fn files_are_found_by_their_runs_in_any_segment() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut texts = Texts::new();
        texts.check();
        for round in 0..4 {
            for number in round * 300..(round + 1) * 300 {
                let length = random.usize(..12);
                let letters: String = (0..length).map(|_| random.char('a'..='c')).collect();
                texts.add(number, &letters);
            }
            texts.family.commit().unwrap();
            texts.check();
            for _ in 0..40 {
                texts.delete(random.u64(..(round + 1) * 300));
            }
            texts.family.commit().unwrap();
            texts.check();
            if round % 2 == 1 {
                texts.join();
                texts.check();
            }
        }
        assert_eq!(
            texts.family.index.searchable_segment_ids().unwrap().len(),
            1
        );
    }

    #[test]
    fn one_of_several_is_enough_and_nothing_in_particular_is_no_answer() {
        let mut texts = Texts::new();
        for (number, text) in (0..).zip(["abc", "bcd", "xabcd", ""]) {
            texts.add(number, text);
        }
        texts.family.commit().unwrap();
        let of = |text: &str| Formula::of_text(text.as_bytes());
        let one = Formula::One(vec![of("abcd"), of("abc")]);
        assert_eq!(texts.find(&one), [0, 2].into());
        let both = Formula::All(vec![one, of("bcd")]);
        assert_eq!(texts.find(&both), [2].into());
        let segment = texts.family.searcher();
        let runs = Runs::open(segment.segment_reader(0)).unwrap();
        assert_eq!(runs.places(&Formula::Any), None);
        assert_eq!(
            runs.places(&Formula::One(vec![of("abc"), Formula::Any])),
            None
        );
    }

    #[test]
    fn numbers_are_read_as_they_were_written() {
        let mut lists = Lists::default();
        let numbers = [0, 1, 127, 128, 16_383, 16_384, u32::MAX >> 4];
        for number in numbers {
            let before = lists.bytes.len();
            lists.push(number);
            assert_eq!(lists.bytes.len() - before, bytes_of(number));
        }
        let mut last = 0;
        let read =
            Places::of(&lists.bytes).map(|place| place - std::mem::replace(&mut last, place));
        assert_eq!(read.collect::<Vec<_>>(), numbers);
    }
}
