//! The best chunks for weighted words: the sum of BM25 over all words, found without looking at every posting.
//!
//! Of each word it is known what it adds at most to a chunk of each block ([`Peaks`]). A block in which all words together
//! cannot lift a chunk over the worst of the best is passed over, and left as soon as those that are not added yet
//! cannot (after Ding and Suel, "Faster top-k document retrieval using block-max indexes", 2011). What is left out is none
//! of the best; a sum is always made in the same order, so that equal chunks score the same in any index.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::SegmentReader;
use tantivy::postings::BlockSegmentPostings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, Term};

use super::document::WHOLE;
use super::peaks::{ALL, BLOCK, Peaks, share};
use super::schema::Scored;
use super::store;
use super::view::{Found, Known, NONE, Part, View};
use crate::code::api::Result;
use crate::code::rank::table;

/// Sums that are compared at once.
const LANE: usize = 8;
/// Of so many blocks one is among those that are gone through first.
const FIRST: usize = 32;
/// `k1` of BM25, as most engines have it; its `b` is [`table::LENGTHS`].
const K1: f32 = 1.2;
/// How much more a sum of rounded numbers may be than the sum of their bounds.
const SLACK: f32 = 1.000_1;

/// A word in a field, and how much it counts.
#[derive(Clone, Debug)]
pub(crate) struct Clause {
    /// The word.
    pub term: Term,
    /// Its weight, over zero.
    pub weight: f32,
}

/// What is counted over several trees at once, so that their scores can be compared.
pub(crate) struct Pool<'a> {
    /// The trees.
    pub views: Vec<&'a View>,
}

impl Pool<'_> {
    fn chunks(&self) -> u64 {
        let chunks = self.views.iter().map(|view| view.chunks());
        chunks.sum::<u64>().max(1)
    }

    /// How much a word tells, by how rare it is.
    fn rarity(&self, term: &Term) -> Result<f32> {
        let all = self.chunks();
        let mut count = 0;
        for view in &self.views {
            count += view.count(term)?;
        }
        let count = count.min(all);
        let odds = ((all - count) as f32 + 0.5) / (count as f32 + 0.5);
        Ok((1.0 + odds).ln())
    }

    /// The mean length of a field.
    fn mean(&self, scored: Scored) -> f32 {
        let words = self.views.iter().map(|view| view.length(scored));
        words.sum::<u64>().max(1) as f32 / self.chunks() as f32
    }

    /// What the length of a chunk in a field does to the weight of its words, by the number that stands for the length.
    fn norms(&self, scored: Scored) -> [f32; 256] {
        let mean = self.mean(scored);
        let b = table::LENGTHS[scored as usize];
        let mut norms = [0.0; 256];
        for (norm, id) in norms.iter_mut().zip(0..=u8::MAX) {
            let length = FieldNormReader::id_to_fieldnorm(id) as f32;
            *norm = K1 * (1.0 - b + b * length / mean);
        }
        norms
    }
}

/// What lengths do in the fields of a tree.
struct Norms {
    /// Counted over all trees of the search.
    all: [[f32; 256]; 5],
    /// Counted over this one.
    own: [[f32; 256]; 5],
    /// How many times as much as by `own` a word adds by `all`, at most.
    excess: [f32; 5],
}

impl Norms {
    fn of(view: &View, pool: &Pool<'_>) -> Norms {
        let own = Pool { views: vec![view] };
        Norms {
            all: Scored::ALL.map(|scored| pool.norms(scored)),
            own: Scored::ALL.map(|scored| own.norms(scored)),
            // With a mean that is twice as long, norms are at least half of what they are, and shares at most twice.
            excess: Scored::ALL.map(|scored| (pool.mean(scored) / own.mean(scored)).max(1.0)),
        }
    }
}

/// A word as it is scored.
struct Word<'c> {
    term: &'c Term,
    known: Arc<Known>,
    /// The field, by its place among the scored ones; none where lengths do not count.
    scored: Option<usize>,
    weight: f32,
    /// The most that it adds to a chunk.
    most: f32,
}

/// What a search for the best is about.
pub(crate) struct Choice<'a> {
    /// How many.
    pub most: usize,
    /// Only chunks that define one of these kinds.
    pub kinds: Option<u64>,
    /// What the score of a file's chunks is multiplied by, at most one; zero leaves them out.
    pub factor: &'a dyn Fn(u32) -> f32,
    /// What that is at most where all files have some [marks](View::marks).
    pub most_of: &'a dyn Fn(u32) -> f32,
}

impl View {
    /// The best chunks for some words, best first; of equal ones the first by path and place.
    ///
    /// # Errors
    ///
    /// When the index cannot be read.
    pub(crate) fn best(
        &self,
        clauses: &[Clause],
        pool: &Pool<'_>,
        choice: &Choice<'_>,
    ) -> Result<Vec<Found>> {
        let norms = Norms::of(self, pool);
        let words = self.words(clauses, pool)?;
        let mut search = Search {
            choice,
            best: Best::new(choice.most),
            here: Vec::with_capacity(words.len()),
        };
        let segments = self.searcher().segment_readers().iter();
        for ((ord, segment), part) in (0..).zip(segments).zip(self.parts()) {
            let mut cursors = Vec::with_capacity(words.len());
            for word in &words {
                cursors.extend(self.cursor(word, (ord, segment, part), &norms)?);
            }
            search.segment(ord, part, cursors);
        }
        let parts = self.parts();
        let found = search.best.sorted().map(|(score, entry, segment, doc)| {
            let chunk = parts[segment as usize].chunk.first(doc).unwrap_or(WHOLE);
            let chunk = u32::try_from(chunk).unwrap_or(NONE);
            Found {
                entry,
                chunk,
                score,
                segment,
                doc,
            }
        });
        Ok(found
            .filter(|found| u64::from(found.chunk) != WHOLE)
            .collect())
    }

    /// The words that are there, those first that can add most.
    fn words<'c>(&self, clauses: &'c [Clause], pool: &Pool<'_>) -> Result<Vec<Word<'c>>> {
        let mut words = Vec::with_capacity(clauses.len());
        for Clause { term, weight } in clauses {
            let known = self.known(term)?;
            if known.count == 0 {
                continue;
            }
            let field = term.field();
            let scored = self.fields().scored.iter().position(|of| *of == field);
            let weight = pool.rarity(term)? * (1.0 + K1) * weight;
            let most = match scored {
                Some(_) => weight,
                None => weight / (1.0 + K1),
            };
            words.push(Word {
                term,
                known,
                scored,
                weight,
                most,
            });
        }
        words.sort_by(|a, b| b.most.total_cmp(&a.most).then_with(|| a.term.cmp(b.term)));
        Ok(words)
    }

    fn cursor<'n>(
        &self,
        word: &'n Word<'_>,
        (ord, segment, part): (u32, &SegmentReader, &'n Part),
        norms: &'n Norms,
    ) -> Result<Option<Cursor<'n>>> {
        let Some(info) = &word.known.infos[ord as usize] else {
            return Ok(None);
        };
        let inverted = segment.inverted_index(word.term.field()).map_err(store)?;
        let option = IndexRecordOption::WithFreqs;
        let postings = inverted.read_block_postings_from_terminfo(info, option);
        let postings = postings.map_err(store)?;
        let peaks = word.known.peaks[ord as usize].get_or_init(|| {
            let lengths = word.scored.map(|at| (&part.lengths[at], &norms.own[at]));
            Peaks::of(postings.clone(), &part.owners, lengths)
        });
        let peaks = peaks.numbers();
        Ok(Some(Cursor {
            postings: Box::new(postings),
            at: 0,
            lengths: word.scored.map(|at| (&part.lengths[at], &norms.all[at])),
            weight: word.weight,
            peaks,
            most: word.most * word.scored.map_or(1.0, |at| norms.excess[at]) / ALL,
        }))
    }
}

/// A word in one segment.
#[derive(Clone)]
struct Cursor<'n> {
    /// Apart, so that what else is asked of each word for each block stands near by.
    postings: Box<BlockSegmentPostings>,
    /// The place in the block of postings in hand.
    at: usize,
    lengths: Option<(&'n FieldNormReader, &'n [f32; 256])>,
    weight: f32,
    peaks: &'n [u8],
    /// The most that it adds to a chunk for each unit of its peak.
    most: f32,
}

impl Cursor<'_> {
    /// Adds what the word gives to each document of a block to their sums.
    fn add(&mut self, base: DocId, sums: &mut [f32; BLOCK]) {
        let now = self.postings.docs().get(self.at);
        if now.is_none_or(|doc| *doc < base) {
            self.at = self.postings.seek(base);
        }
        loop {
            let docs = self.postings.docs().get(self.at..).unwrap_or_default();
            let times = self.postings.freqs().get(self.at..).unwrap_or_default();
            let here = docs
                .iter()
                .take_while(|doc| (**doc - base) < BLOCK as DocId);
            let mut count = 0;
            for doc in here {
                sums[(*doc - base) as usize % BLOCK] += match self.lengths {
                    Some((lengths, norms)) => {
                        let times = times.get(count).copied().unwrap_or(1);
                        self.weight * share(times, norms[usize::from(lengths.fieldnorm_id(*doc))])
                    }
                    None => self.weight / (1.0 + K1),
                };
                count += 1;
            }
            self.at += count;
            if count < docs.len() || self.postings.docs().is_empty() {
                return;
            }
            self.postings.advance();
            self.at = 0;
        }
    }
}

/// A search at work.
struct Search<'a> {
    choice: &'a Choice<'a>,
    best: Best,
    /// The words that are in the block in hand, from the last: their places, and what each and all after it add at most.
    here: Vec<(usize, f32)>,
}

impl Search<'_> {
    /// Goes through the blocks that promise most, so that it is known how good the best are, and then through the others.
    fn segment(&mut self, ord: u32, part: &Part, mut cursors: Vec<Cursor<'_>>) {
        let mut bounds = vec![0.0; part.owners.len().div_ceil(BLOCK)];
        for cursor in &cursors {
            for (bound, peak) in bounds.iter_mut().zip(cursor.peaks) {
                *bound += cursor.most * f32::from(*peak);
            }
        }
        let factor = |marks: &u32| (self.choice.most_of)(*marks);
        let factors: Vec<f32> = part.marks.iter().map(factor).collect();
        for (bound, factor) in bounds.iter_mut().zip(&factors) {
            *bound *= factor;
        }
        let first = first_of(&bounds);
        let mut again = cursors.clone();
        for (cursors, is_first) in [(&mut cursors, true), (&mut again, false)] {
            for (block, bound) in bounds.iter().enumerate() {
                if *bound > 0.0
                    && (*bound >= first) == is_first
                    && bound * SLACK >= self.best.least()
                {
                    self.block((ord, part), (block, factors[block]), cursors);
                }
            }
        }
    }

    /// Takes the documents of a block that may be among the best, though their scores are multiplied by `factor` or less.
    fn block(
        &mut self,
        part: (u32, &Part),
        (block, factor): (usize, f32),
        cursors: &mut [Cursor<'_>],
    ) {
        let mut rest = 0.0;
        self.here.clear();
        for (at, cursor) in cursors.iter().enumerate().rev() {
            let peak = cursor.peaks[block];
            if peak > 0 {
                rest += cursor.most * f32::from(peak);
                self.here.push((at, rest));
            }
        }
        let base = (block * BLOCK) as DocId;
        let mut sums = [0.0; BLOCK];
        for (at, rest) in self.here.iter().rev() {
            let least = self.best.least() / (SLACK * factor);
            if *rest < least && top(&sums) + rest < least {
                return;
            }
            cursors[*at].add(base, &mut sums);
        }
        if top(&sums) * factor < self.best.least() {
            return;
        }
        for (doc, sum) in (base..).zip(sums) {
            if sum > 0.0 && sum * factor >= self.best.least() {
                self.weigh(part, doc, sum);
            }
        }
    }

    /// Takes a document that may be one of the best.
    fn weigh(&mut self, (ord, part): (u32, &Part), doc: DocId, sum: f32) {
        let owner = part.owners[doc as usize];
        if owner == NONE {
            return;
        }
        let factor = (self.choice.factor)(owner);
        let defines = |kinds: u64| part.kinds.first(doc).is_some_and(|of| of & kinds != 0);
        if factor <= 0.0 || !self.choice.kinds.is_none_or(defines) {
            return;
        }
        if sum * factor >= self.best.least() {
            self.best.take(sum * factor, owner, ord, doc);
        }
    }
}

/// The largest sum.
fn top(sums: &[f32; BLOCK]) -> f32 {
    let mut top = [0.0_f32; LANE];
    for lane in sums.as_chunks::<LANE>().0 {
        for (top, sum) in top.iter_mut().zip(lane) {
            *top = if *sum > *top { *sum } else { *top };
        }
    }
    top.into_iter().fold(0.0, f32::max)
}

/// What the bound of a block must at least be for it to be gone through first.
fn first_of(bounds: &[f32]) -> f32 {
    let mut bounds = bounds.to_vec();
    let at = bounds.len() / FIRST;
    match bounds.is_empty() {
        true => 0.0,
        false => *bounds.select_nth_unstable_by(at, |a, b| b.total_cmp(a)).1,
    }
}

/// The best so far: a heap whose least is on top.
struct Best {
    heap: BinaryHeap<Reverse<Kept>>,
    most: usize,
}

/// Ordered by score; of equal ones the earlier document is the better.
#[derive(Clone, Copy, PartialEq)]
struct Kept(f32, Reverse<(u32, u32, DocId)>);

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
            heap: BinaryHeap::with_capacity(most + 1),
            most,
        }
    }

    fn take(&mut self, score: f32, owner: u32, segment: u32, doc: DocId) {
        let kept = Kept(score, Reverse((owner, segment, doc)));
        if self.heap.len() < self.most {
            self.heap.push(Reverse(kept));
        } else if let Some(mut least) = self.heap.peek_mut()
            && least.0 < kept
        {
            *least = Reverse(kept);
        }
    }

    /// What a score must at least be to count.
    fn least(&self) -> f32 {
        match self.heap.len() < self.most {
            true => 0.0,
            false => self.heap.peek().map_or(0.0, |least| least.0.0),
        }
    }

    fn sorted(self) -> impl Iterator<Item = (f32, u32, u32, DocId)> {
        let sorted = self.heap.into_sorted_vec().into_iter();
        sorted.map(|Reverse(Kept(score, Reverse((owner, segment, doc))))| {
            (score, owner, segment, doc)
        })
    }
}
