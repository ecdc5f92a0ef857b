//! Which of the ranked pieces come first in an answer: near copies once, and other files before much of one file.

use std::collections::{HashMap, VecDeque};

use crate::code::index::{Found, View, are_near, is_prose};
use crate::code::rank::order::Ranked;
use crate::code::rank::table;

/// Copies of one piece that an answer names.
pub(super) const COPIES_SHOWN: usize = 5;

/// A piece that a hit stands for: its view, and its place there.
pub(super) type CopyAt = (usize, Found);

/// A piece: its view, its file there, and its chunk.
type PieceKey = (usize, u32, u32);
/// Of pieces that are shown: their copies.
type CopiesOf = HashMap<PieceKey, Vec<CopyAt>>;

/// What of a ranking is shown by itself.
pub(super) struct Folded {
    /// In the order in which they are shown.
    pub ranked: Vec<Ranked>,
    /// Of each of them: pieces of other files that say nearly the same.
    copies: CopiesOf,
    /// The place of each of them by score alone.
    places: HashMap<PieceKey, usize>,
}

/// Pieces that a piece is compared with.
const COMPARED_MAX: usize = 1_000;
/// Pieces that are looked through for one of another file.
const WAITING_MAX: usize = 200;

fn file(one: &Ranked) -> (usize, u32) {
    (one.view, one.found.entry)
}

fn key(one: &Ranked) -> PieceKey {
    (one.view, one.found.entry, one.found.chunk)
}

impl Folded {
    /// Takes a ranking, best first.
    pub(super) fn of(views: &[&View], ranked: Vec<Ranked>) -> Folded {
        let (ranked, copies) = once(views, ranked);
        let places = ranked.iter().map(key).zip(0..).collect();
        Folded {
            ranked: spread(ranked),
            copies,
            places,
        }
    }

    /// The copies of a hit.
    pub(super) fn copies(&self, of: &Ranked) -> &[CopyAt] {
        self.copies.get(&key(of)).map_or(&[], Vec::as_slice)
    }

    /// For each of the hits from `offset` to before `end`, how many pieces of its file would stand there by their score
    /// and do not: told once a file, at its last hit.
    pub(super) fn held_back(&self, offset: usize, end: usize) -> Vec<usize> {
        let shown = self.ranked.len().min(end);
        let mut held: HashMap<(usize, u32), usize> = HashMap::new();
        for one in &self.ranked[shown..] {
            if self.places.get(&key(one)).is_some_and(|place| *place < end) {
                *held.entry(file(one)).or_default() += 1;
            }
        }
        let page = self.ranked[offset.min(shown)..shown].iter().rev();
        let mut counts: Vec<usize> = page
            .map(|one| held.remove(&file(one)).unwrap_or(0))
            .collect();
        counts.reverse();
        counts
    }
}

/// Leaves out pieces that say what a better one of another file says; and which these are.
fn once(views: &[&View], ranked: Vec<Ranked>) -> (Vec<Ranked>, CopiesOf) {
    let mut copies = CopiesOf::new();
    let mut kept: Vec<Ranked> = Vec::with_capacity(ranked.len());
    // Of each that is kept: what it says, and whether it is prose.
    let mut said: Vec<Option<(u64, bool)>> = Vec::with_capacity(ranked.len());
    for one in ranked {
        let view = views[one.view];
        let entry = &view.entries[one.found.entry as usize];
        let prose = is_prose(entry.about.language);
        let says = view.sketch(&one.found).map(|sketch| (sketch, prose));
        let is_same = |(other, of): &(&Ranked, &Option<(u64, bool)>)| {
            file(other) != file(&one)
                && matches!((says, of), (Some((a, prose)), Some((b, also))) if prose == *also && are_near(a, *b, prose))
        };
        match kept.iter().zip(&said).take(COMPARED_MAX).find(is_same) {
            Some((better, _)) => {
                let copies = copies.entry(key(better)).or_default();
                copies.push((one.view, one.found));
            }
            None => {
                kept.push(one);
                said.push(says);
            }
        }
    }
    (kept, copies)
}

/// Lets other files have their turn: of each [`table::SPREAD_OVER`] hits at most [`table::HITS_OF_FILE`] are of one file,
/// unless there are no others.
fn spread(ranked: Vec<Ranked>) -> Vec<Ranked> {
    let mut waiting: VecDeque<Ranked> = ranked.into();
    let mut spread = Vec::with_capacity(waiting.len());
    let mut counts: HashMap<(usize, u32), usize> = HashMap::new();
    while !waiting.is_empty() {
        if spread.len() % table::SPREAD_OVER == 0 {
            counts.clear();
        }
        let has_turn = |one: &Ranked| {
            counts
                .get(&file(one))
                .is_none_or(|count| *count < table::HITS_OF_FILE)
        };
        let next = waiting
            .iter()
            .take(WAITING_MAX)
            .position(has_turn)
            .unwrap_or(0);
        if let Some(one) = waiting.remove(next) {
            *counts.entry(file(&one)).or_default() += 1;
            spread.push(one);
        }
    }
    spread
}
