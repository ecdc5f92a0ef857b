//! A graph over vectors, for where there are too many to be compared one by one.
//!
//! It is the hierarchical navigable small world of Malkov and Yashunin (arXiv:1603.09320; their algorithms are named
//! below) over rows that stand elsewhere: it holds numbers of rows and nothing of a row. Rows are added in their order, and
//! none is taken out: whoever asks says which it wants. It refuses to walk far: a search that finds too little of
//! what is wanted gives up, and every row is compared instead.

mod file;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::rows::{Near, Row, Rows};
pub(crate) use file::Draft;

/// Links of a row on every level but the lowest (M of the paper), and as many are made for a new row.
const LINKS_MAX: usize = 16;
/// Links of a row on the lowest level.
const GROUND_MAX: usize = 2 * LINKS_MAX;
/// Candidates among which the links of a new row are chosen (efConstruction).
const BUILD_WIDTH: usize = 128;
/// Levels above the lowest. Each has a sixteenth of the rows of the one below it: five are enough for 2^20.
const LEVELS_MAX: usize = 5;
/// Of so many rows a search may look at one: beyond that comparing all of them is quicker.
const VISITED_SHARE: usize = 4;
/// No row.
const NONE: u32 = u32::MAX;

/// The graph.
#[derive(Default)]
pub(super) struct Graph {
    /// Rows in the graph: those before this one.
    count: u32,
    /// Where a search begins: a row of the highest level.
    entry: Option<u32>,
    /// The highest level.
    top: usize,
    /// For each row, places for its links on the lowest level, the free ones [`NONE`].
    ground: Vec<u32>,
    /// The links on the levels from 1, for the rows that have any.
    above: HashMap<u32, Vec<Vec<u32>>>,
}

/// How the next row is joined to a graph.
pub(crate) struct Joint {
    row: u32,
    level: usize,
    /// Rows, levels, and their links from now on.
    links: Vec<(u32, usize, Vec<u32>)>,
}

/// The level of a row with a key: chance by its bits, so that the same rows make the same graph.
fn level_of(key: &[u8; 16]) -> usize {
    let (half, _) = key.split_first_chunk().expect("a key has sixteen bytes");
    // The finalizer of MurmurHash3: keys of tests are not digests.
    let mut bits = u64::from_le_bytes(*half);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^= bits >> 33;
    (bits.leading_zeros() as usize / 4).min(LEVELS_MAX)
}

fn most(level: usize) -> usize {
    match level {
        0 => GROUND_MAX,
        _ => LINKS_MAX,
    }
}

impl Graph {
    /// Rows in the graph.
    pub(super) fn len(&self) -> usize {
        self.count as usize
    }

    fn links(&self, row: u32, level: usize) -> &[u32] {
        match level {
            0 => {
                let at = row as usize * GROUND_MAX;
                let all = &self.ground[at..at + GROUND_MAX];
                let used = all.iter().position(|link| *link == NONE);
                &all[..used.unwrap_or(GROUND_MAX)]
            }
            _ => {
                let levels = self.above.get(&row);
                let links = levels.and_then(|levels| levels.get(level - 1));
                links.map_or(&[], Vec::as_slice)
            }
        }
    }

    /// How the next row of `rows` is to be joined (algorithm 1): to be carried out by [`Graph::join`]. None when all are.
    pub(super) fn joint(&self, rows: &Rows<'_>) -> Option<Joint> {
        let row = self.count;
        let level = level_of(rows.key(row)?);
        let mut joint = Joint {
            row,
            level,
            links: Vec::new(),
        };
        let Some(entry) = self.entry else {
            return Some(joint);
        };
        let from = rows.row(row);
        let mut begin = vec![rows.near(from, entry)];
        for above in (level + 1..=self.top).rev() {
            begin = self.descend(rows, from, begin, above);
        }
        let mut seen = Seen::new(self.len());
        for level in (0..=level.min(self.top)).rev() {
            seen.clear();
            let found = self.walk(rows, from, &begin, (level, BUILD_WIDTH), &mut seen);
            let chosen = spread(rows, &found, LINKS_MAX);
            for near in &chosen {
                let links = self.linked(rows, near.i, row, level);
                joint.links.push((near.i, level, links));
            }
            let chosen = chosen.iter().map(|near| near.i).collect();
            joint.links.push((row, level, chosen));
            begin = found;
        }
        Some(joint)
    }

    /// The links of a row once there is one more, the most telling ones where there are too many.
    fn linked(&self, rows: &Rows<'_>, of: u32, more: u32, level: usize) -> Vec<u32> {
        let mut links = self.links(of, level).to_vec();
        links.push(more);
        if links.len() <= most(level) {
            return links;
        }
        let from = rows.row(of);
        let mut near: Vec<Near> = links.iter().map(|link| rows.near(from, *link)).collect();
        near.sort_unstable();
        let kept = spread(rows, &near, most(level));
        kept.iter().map(|near| near.i).collect()
    }

    /// Joins a row. Does nothing when it is not the next one: then the rows became others since it was planned.
    pub(super) fn join(&mut self, joint: Joint) {
        if joint.row != self.count {
            return;
        }
        self.count += 1;
        let places = self.len() * GROUND_MAX;
        self.ground.resize(places, NONE);
        if joint.level > 0 {
            self.above.insert(joint.row, vec![Vec::new(); joint.level]);
        }
        for (row, level, links) in joint.links {
            self.set(row, level, links);
        }
        if self.entry.is_none() || joint.level > self.top {
            self.entry = Some(joint.row);
            self.top = joint.level;
        }
    }

    fn set(&mut self, row: u32, level: usize, links: Vec<u32>) {
        if level == 0 {
            let at = row as usize * GROUND_MAX;
            let places = &mut self.ground[at..at + GROUND_MAX];
            places.fill(NONE);
            places[..links.len()].copy_from_slice(&links);
        } else if let Some(levels) = self.above.get_mut(&row)
            && let Some(before) = levels.get_mut(level - 1)
        {
            *before = links;
        }
    }

    /// The rows nearest to one among those that are wanted, best first (algorithm 5), found among `width` candidates.
    /// None when the walk would be longer than comparing all rows.
    pub(super) fn nearest(
        &self,
        rows: &Rows<'_>,
        to: Row<'_>,
        width: usize,
        wanted: &dyn Fn(u32) -> bool,
    ) -> Option<Vec<Near>> {
        let mut begin = vec![rows.near(to, self.entry?)];
        for level in (1..=self.top).rev() {
            begin = self.descend(rows, to, begin, level);
        }
        let mut walk = Walk {
            seen: &mut Seen::new(self.len()),
            ahead: BinaryHeap::new(),
            best: BinaryHeap::new(),
            width,
            left: self.len() / VISITED_SHARE + width,
        };
        for near in begin {
            walk.meet(near, wanted);
        }
        self.go(rows, to, 0, &mut walk, wanted);
        (walk.left > 0).then(|| walk.best.into_sorted_vec())
    }

    /// The nearest row of a level, greedily.
    fn descend(&self, rows: &Rows<'_>, to: Row<'_>, begin: Vec<Near>, level: usize) -> Vec<Near> {
        let mut best = begin;
        loop {
            let Some(here) = best.first().copied() else {
                return best;
            };
            let links = self.links(here.i, level).iter();
            // The least is the nearest.
            match links.map(|link| rows.near(to, *link)).min() {
                Some(next) if next < here => best = vec![next],
                _ => return best,
            }
        }
    }

    /// The `width` rows of a level that are nearest to one, best first (algorithm 2).
    fn walk(
        &self,
        rows: &Rows<'_>,
        to: Row<'_>,
        begin: &[Near],
        (level, width): (usize, usize),
        seen: &mut Seen,
    ) -> Vec<Near> {
        let mut walk = Walk {
            seen,
            ahead: BinaryHeap::new(),
            best: BinaryHeap::new(),
            width,
            left: usize::MAX,
        };
        for near in begin {
            walk.meet(*near, &|_| true);
        }
        self.go(rows, to, level, &mut walk, &|_| true);
        walk.best.into_sorted_vec()
    }

    fn go(
        &self,
        rows: &Rows<'_>,
        to: Row<'_>,
        level: usize,
        walk: &mut Walk<'_>,
        wanted: &dyn Fn(u32) -> bool,
    ) {
        while let Some(Reverse(here)) = walk.ahead.pop() {
            if walk.is_full() && walk.best.peek().is_some_and(|worst| here > *worst) {
                return;
            }
            for link in self.links(here.i, level) {
                if walk.seen.is_new(*link) {
                    walk.left -= 1;
                    if walk.left == 0 {
                        return;
                    }
                    walk.meet(rows.near(to, *link), wanted);
                }
            }
        }
    }
}

/// A walk along the links of one level.
struct Walk<'s> {
    seen: &'s mut Seen,
    /// What is to be looked at, nearest first.
    ahead: BinaryHeap<Reverse<Near>>,
    /// The nearest that are wanted, the worst of them on top.
    best: BinaryHeap<Near>,
    width: usize,
    /// Rows that may still be looked at.
    left: usize,
}

impl Walk<'_> {
    fn is_full(&self) -> bool {
        self.best.len() >= self.width
    }

    fn meet(&mut self, near: Near, wanted: &dyn Fn(u32) -> bool) {
        self.seen.is_new(near.i);
        if self.is_full() && self.best.peek().is_some_and(|worst| near > *worst) {
            return;
        }
        // What is not wanted leads on all the same.
        self.ahead.push(Reverse(near));
        if wanted(near.i) {
            self.best.push(near);
            if self.best.len() > self.width {
                self.best.pop();
            }
        }
    }
}

/// Of rows near to one (best first) those that lead furthest (algorithm 4): each is nearer to it than to any that was
/// taken before. Free places go to the nearest of the others: copies of one text would else have no way to each other.
fn spread(rows: &Rows<'_>, near: &[Near], most: usize) -> Vec<Near> {
    let mut kept: Vec<Near> = Vec::with_capacity(most);
    let mut others = Vec::new();
    for one in near {
        if kept.len() == most {
            return kept;
        }
        let row = rows.row(one.i);
        match kept.iter().all(|kept| rows.near(row, kept.i) > *one) {
            true => kept.push(*one),
            false => others.push(*one),
        }
    }
    let free = most - kept.len();
    kept.extend(others.into_iter().take(free));
    kept
}

/// Rows that were looked at.
struct Seen(Vec<u64>);

impl Seen {
    fn new(count: usize) -> Seen {
        Seen(vec![0; count.div_ceil(64)])
    }

    fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Whether a row was not looked at before; now it was.
    fn is_new(&mut self, row: u32) -> bool {
        let (word, bit) = (&mut self.0[row as usize / 64], 1 << (row % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}
