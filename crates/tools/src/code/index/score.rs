//! The best chunks for weighted words: the sum of BM25 over all words, found without looking at every posting.
//!
//! Chunks are gone through in windows, so that their sums stay in the processor's cache. Words stand in the order of
//! the most that they can add. Once enough chunks are found, the last ones, which all together cannot lift a chunk over the
//! worst of those, are looked up only for chunks that have other words (MaxScore: Turtle and Flood, "Query
//! evaluation: strategies and optimizations", 1995). What is left out of a sum is none of the best; a sum is
//! always made in the same order, so that equal chunks score the same in any index.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tantivy::fieldnorm::FieldNormReader;
use tantivy::index::SegmentReader;
use tantivy::postings::BlockSegmentPostings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, TERMINATED, Term};

use super::document::WHOLE;
use super::schema::Scored;
use super::store;
use super::view::{Found, NONE, Part, View};
use crate::code::api::Result;
use crate::code::rank::table;

/// Documents of one window.
const WINDOW: u32 = 4096;
/// Documents of a window that are looked at together.
const LANE: usize = 16;
/// `k1` of BM25, as most engines have it; its `b` is [`table::LENGTHS`].
const K1: f32 = 1.2;
/// How much more a sum of rounded numbers may be than the sum of their bounds.
const SLACK: f32 = 1.000_1;

/// A word in a field, and how much it counts.
#[derive(Clone, Debug)]
pub struct Clause {
    /// The word.
    pub term: Term,
    /// Its weight, over zero.
    pub weight: f32,
}

/// What is counted over several trees at once, so that their scores can be compared.
pub struct Pool<'a> {
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

    /// What the length of a chunk in a field does to the weight of its words, by the number that stands for the length.
    fn norms(&self, scored: Scored) -> [f32; 256] {
        let words = self.views.iter().map(|view| view.length(scored));
        let mean = words.sum::<u64>().max(1) as f32 / self.chunks() as f32;
        let b = table::LENGTHS[scored as usize];
        let mut norms = [0.0; 256];
        for (norm, id) in norms.iter_mut().zip(0..=u8::MAX) {
            let length = FieldNormReader::id_to_fieldnorm(id) as f32;
            *norm = K1 * (1.0 - b + b * length / mean);
        }
        norms
    }
}

/// A word as it is scored.
struct Word<'c> {
    term: &'c Term,
    /// The field, by its place among the scored ones; none where lengths do not count.
    scored: Option<usize>,
    weight: f32,
    /// The most that it adds to a chunk.
    most: f32,
}

/// What a search for the best is about.
pub struct Choice<'a> {
    /// How many.
    pub most: usize,
    /// Only chunks that define one of these kinds.
    pub kinds: Option<u64>,
    /// What the score of a file's chunks is multiplied by, at most one; zero leaves them out.
    pub factor: &'a dyn Fn(u32) -> f32,
}

impl View {
    /// The best chunks for some words, best first; of equal ones the first by path and place.
    ///
    /// # Errors
    ///
    /// When the index cannot be read.
    pub fn best(
        &self,
        clauses: &[Clause],
        pool: &Pool<'_>,
        choice: &Choice<'_>,
    ) -> Result<Vec<Found>> {
        let norms = Scored::ALL.map(|scored| pool.norms(scored));
        let words = self.words(clauses, pool)?;
        let mut search = Search {
            choice,
            best: Best::new(choice.most),
            sums: vec![0.0; WINDOW as usize],
        };
        let segments = self.searcher().segment_readers().iter();
        for ((ord, segment), part) in (0..).zip(segments).zip(self.parts()) {
            let mut cursors = Vec::with_capacity(words.len());
            for word in &words {
                cursors.extend(self.cursor(word, (ord, segment, part), &norms)?);
            }
            let mut rest = 0.0;
            for cursor in cursors.iter_mut().rev() {
                rest += cursor.rest;
                cursor.rest = rest;
            }
            search.segment(ord, part, &mut cursors);
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
            if self.count(term)? == 0 {
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
        word: &Word<'_>,
        (ord, segment, part): (u32, &SegmentReader, &'n Part),
        norms: &'n [[f32; 256]; 5],
    ) -> Result<Option<Cursor<'n>>> {
        let known = self.known(word.term)?;
        let Some(info) = &known.infos[ord as usize] else {
            return Ok(None);
        };
        let inverted = segment.inverted_index(word.term.field()).map_err(store)?;
        let option = IndexRecordOption::WithFreqs;
        let postings = inverted.read_block_postings_from_terminfo(info, option);
        Ok(Some(Cursor {
            postings: postings.map_err(store)?,
            at: 0,
            lengths: word.scored.map(|at| (&part.lengths[at], &norms[at])),
            weight: word.weight,
            rest: word.most,
        }))
    }
}

/// A word in one segment.
struct Cursor<'n> {
    postings: BlockSegmentPostings,
    /// The place in the block of postings in hand.
    at: usize,
    lengths: Option<(&'n FieldNormReader, &'n [f32; 256])>,
    weight: f32,
    /// The most that this word and all after it add to a chunk.
    rest: f32,
}

impl Cursor<'_> {
    /// The document in hand.
    fn doc(&self) -> DocId {
        let docs = self.postings.docs();
        docs.get(self.at).copied().unwrap_or(TERMINATED)
    }

    fn score(&self, doc: DocId, times: u32) -> f32 {
        let times = times as f32;
        match self.lengths {
            Some((lengths, norms)) => {
                let norm = norms[usize::from(lengths.fieldnorm_id(doc))];
                self.weight * (times / (times + norm))
            }
            None => self.weight / (1.0 + K1),
        }
    }

    /// Adds what the word gives to each document before `end` to the sums from `base` on.
    fn add(&mut self, base: DocId, end: DocId, sums: &mut [f32]) {
        loop {
            let docs = self.postings.docs();
            let times = self.postings.freqs();
            let until = self.at + docs[self.at..].partition_point(|doc| *doc < end);
            for (at, doc) in docs[self.at..until].iter().enumerate() {
                let times = times.get(self.at + at).copied().unwrap_or(1);
                sums[(doc - base) as usize] += self.score(*doc, times);
            }
            self.at = until;
            if until < docs.len() || docs.is_empty() {
                return;
            }
            self.postings.advance();
            self.at = 0;
        }
    }

    /// What the word gives to a document; they are asked for in ascending order.
    fn look(&mut self, doc: DocId) -> f32 {
        if self.doc() < doc {
            self.at = self.postings.seek(doc);
        }
        if self.doc() != doc {
            return 0.0;
        }
        let times = self.postings.freqs().get(self.at).copied().unwrap_or(1);
        self.score(doc, times)
    }
}

/// A search at work.
struct Search<'a> {
    choice: &'a Choice<'a>,
    best: Best,
    sums: Vec<f32>,
}

impl Search<'_> {
    fn segment(&mut self, ord: u32, part: &Part, cursors: &mut [Cursor<'_>]) {
        loop {
            let least = self.best.least();
            let can_lift = |cursor: &&Cursor<'_>| cursor.rest * SLACK >= least;
            let leading = cursors.iter().take_while(can_lift).count();
            let (leading, others) = cursors.split_at_mut(leading);
            let base = leading.iter().map(Cursor::doc).min();
            let Some(base) = base.filter(|base| *base != TERMINATED) else {
                return;
            };
            let end = base.saturating_add(WINDOW);
            for cursor in leading {
                cursor.add(base, end, &mut self.sums);
            }
            self.window((ord, part), base, others);
        }
    }

    /// Takes the documents of a window that may be among the best, and clears the sums.
    fn window(&mut self, part: (u32, &Part), base: DocId, others: &mut [Cursor<'_>]) {
        let rest = others.first().map_or(0.0, |cursor| cursor.rest);
        let mut sums = std::mem::take(&mut self.sums);
        // What a sum must at least be, with all that may be added to it.
        let floor = |best: &Best| best.least() / SLACK - rest;
        let mut least = floor(&self.best);
        for (start, lane) in (base..).step_by(LANE).zip(sums.chunks_mut(LANE)) {
            // Numbers over zero are ordered as their bits are, and whole numbers are compared many at once.
            let top = lane.iter().fold(0, |top, sum| sum.to_bits().max(top));
            if top > 0 && f32::from_bits(top) >= least {
                for (doc, sum) in (start..).zip(lane.iter()) {
                    if *sum > 0.0 && *sum >= least {
                        self.weigh(part, doc, *sum, others);
                        least = floor(&self.best);
                    }
                }
            }
            lane.fill(0.0);
        }
        self.sums = sums;
    }

    /// Takes a document that may be one of the best, once its sum is whole.
    fn weigh(
        &mut self,
        (ord, part): (u32, &Part),
        doc: DocId,
        mut sum: f32,
        others: &mut [Cursor<'_>],
    ) {
        let owner = part.owners[doc as usize];
        if owner == NONE {
            return;
        }
        let factor = (self.choice.factor)(owner);
        let defines = |kinds: u64| part.kinds.first(doc).is_some_and(|of| of & kinds != 0);
        if factor <= 0.0 || !self.choice.kinds.is_none_or(defines) {
            return;
        }
        for cursor in others {
            if (sum + cursor.rest) * factor * SLACK < self.best.least() {
                return;
            }
            sum += cursor.look(doc);
        }
        if sum * factor >= self.best.least() {
            self.best.take(sum * factor, owner, ord, doc);
        }
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
