//! Where a word counts: the largest share of its weight that it gives to a chunk, for each block of documents.
//!
//! The chunks of a file stand together, and so do the files of a directory: a word is frequent in some blocks, and not in most.

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::BlockSegmentPostings;

use super::view::NONE;

/// Documents of a block.
pub(super) const BLOCK: usize = 64;
/// By what a share is multiplied to make a number of it.
pub(super) const ALL: f32 = 254.0;

/// The largest share of a word in each block of a segment, rounded up to one byte.
pub(crate) struct Peaks(Box<[u8]>);

impl Peaks {
    /// Goes through the postings of a word. A document without an owner does not count; where lengths do not, the share is
    /// all of the weight.
    pub(crate) fn of(
        mut postings: BlockSegmentPostings,
        owners: &[u32],
        lengths: Option<(&FieldNormReader, &[f32; 256])>,
    ) -> Peaks {
        let mut peaks = vec![0; owners.len().div_ceil(BLOCK)].into_boxed_slice();
        while !postings.docs().is_empty() {
            let times = postings.freqs();
            for (at, doc) in postings.docs().iter().enumerate() {
                if owners[*doc as usize] == NONE {
                    continue;
                }
                let times = times.get(at).copied().unwrap_or(1);
                let share = lengths.map_or(1.0, |(lengths, norms)| {
                    share(times, norms[usize::from(lengths.fieldnorm_id(*doc))])
                });
                let peak = &mut peaks[*doc as usize / BLOCK];
                // Rounded up, so that only a block without the word has none.
                *peak = (1 + (share * ALL) as u8).max(*peak);
            }
            postings.advance();
        }
        Peaks(peaks)
    }

    /// The number of the largest share in each block, of [`ALL`].
    pub(crate) fn numbers(&self) -> &[u8] {
        &self.0
    }
}

/// The share of its weight that a word gives to a chunk in which it stands so many times: BM25.
pub(super) fn share(times: u32, norm: f32) -> f32 {
    let times = times as f32;
    times / (times + norm)
}
