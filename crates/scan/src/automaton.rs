//! One automaton for all literals of all rules, in every letter case and in leetspeak.
//!
//! It is the machine of Aho and Corasick (CACM 18:6, 1975) as a dense table over classes of bytes: the
//! letters of one class are those that stand for each other. A text is read in four places at once, so
//! that the processor does not wait for one step before it begins the next. What it answers are
//! candidates; whoever asks compares the bytes.

use crate::words::leet;

/// Texts shorter than this are read in one place, in bytes.
const LANES_BYTES_MIN: usize = 256;
const LANES: usize = 4;

/// What else is written for a lower-case letter.
type Spellings = fn(u8) -> &'static [u8];

/// The table. Built once, shared by all threads.
pub(crate) struct Automaton {
    /// The class of each byte; 0 is every byte that is in no literal.
    classes: [u8; 256],
    /// The next state: by state, shifted, and class.
    next: Vec<u16>,
    shift: u32,
    /// States from here on end a literal.
    first_end: u16,
    /// For each of those states, the literals that end in it.
    ends: Vec<Vec<u16>>,
    longest: usize,
}

/// The states in which literals end, with the place behind the literal.
#[derive(Default)]
pub(crate) struct Ends([Vec<(u32, u16)>; LANES]);

impl Ends {
    pub(crate) fn clear(&mut self) {
        self.0.iter_mut().for_each(Vec::clear);
    }
}

impl Automaton {
    /// One that reads leetspeak too. Errors: there are more literals than a state's number can tell apart.
    pub(crate) fn new(literals: &[&[u8]]) -> Result<Automaton, &'static str> {
        Automaton::with(literals, leet)
    }

    /// One that reads every letter case, and nothing else. Errors: as [`Automaton::new`].
    pub(crate) fn plain(literals: &[&[u8]]) -> Result<Automaton, &'static str> {
        Automaton::with(literals, |_| b"")
    }

    fn with(literals: &[&[u8]], leet: Spellings) -> Result<Automaton, &'static str> {
        let (classes, count) = classes(literals, leet);
        let mut trie = Trie::default();
        for (index, literal) in (0u16..).zip(literals) {
            trie.add(literal, &classes, index)?;
        }
        let shift = count.next_power_of_two().trailing_zeros();
        let (next, first_end, ends) = trie.complete(shift);
        Ok(Automaton {
            classes,
            next,
            shift,
            first_end,
            ends,
            longest: literals
                .iter()
                .map(|literal| literal.len())
                .max()
                .unwrap_or(0),
        })
    }

    fn step(&self, state: u16, byte: u8) -> u16 {
        let class = usize::from(self.classes[usize::from(byte)]);
        self.next[(usize::from(state) << self.shift) | class]
    }

    /// Whether any literal is in a text.
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        let mut state = 0;
        bytes.iter().any(|byte| {
            state = self.step(state, *byte);
            state >= self.first_end
        })
    }

    /// Finds all places where literals may end.
    pub(crate) fn find(&self, bytes: &[u8], ends: &mut Ends) {
        ends.clear();
        if bytes.len() < LANES_BYTES_MIN.max(self.longest * LANES) {
            return self.rest(0, bytes, 0, &mut ends.0[0]);
        }
        let part = bytes.len() / LANES;
        // Each lane starts early enough to know what it is in the middle of.
        let warm = |lane: usize| {
            let start = lane * part;
            let before = &bytes[start.saturating_sub(self.longest)..start];
            before.iter().fold(0, |state, byte| self.step(state, *byte))
        };
        let mut states: [u16; LANES] = std::array::from_fn(warm);
        let (a, rest) = bytes.split_at(part);
        let (b, rest) = rest.split_at(part);
        let (c, rest) = rest.split_at(part);
        let (d, tail) = rest.split_at(part);
        for (i, (((a, b), c), d)) in (1u32..).zip(a.iter().zip(b).zip(c).zip(d)) {
            for (lane, byte) in [a, b, c, d].into_iter().enumerate() {
                let state = self.step(states[lane], *byte);
                states[lane] = state;
                if state >= self.first_end {
                    ends.0[lane].push((i + (lane * part) as u32, state));
                }
            }
        }
        self.rest(
            states[LANES - 1],
            tail,
            LANES * part,
            &mut ends.0[LANES - 1],
        );
    }

    fn rest(&self, mut state: u16, bytes: &[u8], start: usize, ends: &mut Vec<(u32, u16)>) {
        for (i, byte) in bytes.iter().enumerate() {
            state = self.step(state, *byte);
            if state >= self.first_end {
                ends.push(((start + i + 1) as u32, state));
            }
        }
    }

    /// The candidates that were found: the place behind a literal, and which it is, in order of place.
    pub(crate) fn each<'a>(&'a self, ends: &'a Ends) -> impl Iterator<Item = (usize, u16)> + 'a {
        ends.0.iter().flatten().flat_map(|(end, state)| {
            let literals = &self.ends[usize::from(state - self.first_end)];
            literals.iter().map(|literal| (*end as usize, *literal))
        })
    }
}

/// A class for each byte that is in a literal, and how many there are.
fn classes(literals: &[&[u8]], leet: Spellings) -> ([u8; 256], usize) {
    let mut classes = [0; 256];
    let mut count: usize = 1;
    for byte in literals.iter().flat_map(|literal| literal.iter()) {
        let spellings = [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()];
        let all = || spellings.iter().chain(leet(spellings[0]));
        // `1` is both an i and an l, so those two are one class.
        let known = all()
            .map(|b| classes[usize::from(*b)])
            .find(|class| *class != 0);
        let class = known.unwrap_or_else(|| {
            count += 1;
            u8::try_from(count - 1).expect("there are 256 bytes, and some are one class")
        });
        all().for_each(|b| classes[usize::from(*b)] = class);
    }
    (classes, count)
}

/// The literals as a tree, before it is an automaton. 0 is both its root and "none".
struct Trie {
    nodes: Vec<Node>,
}

#[derive(Clone, Default)]
struct Node {
    class: u8,
    child: u16,
    sibling: u16,
    /// Where the longest suffix goes that is in the tree too.
    suffix: u16,
    /// The literals that end here.
    ends: Vec<u16>,
}

impl Default for Trie {
    fn default() -> Trie {
        let nodes = vec![Node::default()];
        Trie { nodes }
    }
}

impl Trie {
    fn child(&self, node: u16, class: u8) -> Option<u16> {
        self.children(node)
            .find(|child| self.nodes[usize::from(*child)].class == class)
    }

    fn children(&self, node: u16) -> impl Iterator<Item = u16> + '_ {
        let some = |node: u16| Some(node).filter(|node| *node != 0);
        std::iter::successors(some(self.nodes[usize::from(node)].child), move |node| {
            some(self.nodes[usize::from(*node)].sibling)
        })
    }

    /// Errors: there are too many nodes.
    fn add(&mut self, text: &[u8], classes: &[u8; 256], index: u16) -> Result<(), &'static str> {
        let mut node = 0;
        for byte in text {
            let class = classes[usize::from(*byte)];
            node = match self.child(node, class) {
                Some(child) => child,
                None => {
                    let new = u16::try_from(self.nodes.len()).map_err(|_| "too many literals")?;
                    let sibling = std::mem::replace(&mut self.nodes[usize::from(node)].child, new);
                    self.nodes.push(Node {
                        class,
                        sibling,
                        ..Node::default()
                    });
                    new
                }
            };
        }
        self.nodes[usize::from(node)].ends.push(index);
        Ok(())
    }

    /// The table, the first of the states that end a literal, and what each of those ends.
    ///
    /// States are numbered by their depth, so that those of ordinary text stand together; those that end
    /// a literal come last, so that one comparison tells them.
    fn complete(mut self, shift: u32) -> (Vec<u16>, u16, Vec<Vec<u16>>) {
        let order = self.suffixes();
        let (ending, plain): (Vec<u16>, Vec<u16>) = order
            .iter()
            .partition(|node| !self.nodes[usize::from(**node)].ends.is_empty());
        let mut new = vec![0u16; self.nodes.len()];
        for (number, node) in (0u16..).zip(plain.iter().chain(&ending)) {
            new[usize::from(*node)] = number;
        }
        let stride = 1usize << shift;
        let mut table = vec![0u16; self.nodes.len() * stride];
        for node in order {
            let row = usize::from(new[usize::from(node)]) << shift;
            if node != 0 {
                // Where it has no way on, it goes where its longest suffix goes.
                let suffix = self.nodes[usize::from(node)].suffix;
                let from = usize::from(new[usize::from(suffix)]) << shift;
                table.copy_within(from..from + stride, row);
            }
            for child in self.children(node) {
                let class = self.nodes[usize::from(child)].class;
                table[row + usize::from(class)] = new[usize::from(child)];
            }
        }
        let first_end = plain.len() as u16;
        let ends = ending
            .iter()
            .map(|node| std::mem::take(&mut self.nodes[usize::from(*node)].ends));
        (table, first_end, ends.collect())
    }

    /// Finds the suffix of each node, and what it ends besides; answers the nodes in order of depth.
    fn suffixes(&mut self) -> Vec<u16> {
        let mut order = Vec::with_capacity(self.nodes.len());
        order.push(0);
        let mut at = 0;
        while let Some(node) = order.get(at).copied() {
            at += 1;
            let first = order.len();
            order.extend(self.children(node));
            for child in order[first..].iter().copied() {
                let suffix = match node {
                    0 => 0,
                    _ => self.follow(node, self.nodes[usize::from(child)].class),
                };
                let more = self.nodes[usize::from(suffix)].ends.clone();
                let child = &mut self.nodes[usize::from(child)];
                child.suffix = suffix;
                child.ends.extend(more);
            }
        }
        order
    }

    /// Where a node's suffixes go with a class: the longest that goes anywhere.
    fn follow(&self, node: u16, class: u8) -> u16 {
        let mut suffix = self.nodes[usize::from(node)].suffix;
        loop {
            if let Some(child) = self.child(suffix, class) {
                return child;
            }
            if suffix == 0 {
                return 0;
            }
            suffix = self.nodes[usize::from(suffix)].suffix;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(literals: &[&str], text: &str) -> Vec<(usize, u16)> {
        let literals: Vec<&[u8]> = literals.iter().map(|literal| literal.as_bytes()).collect();
        let automaton = Automaton::new(&literals).unwrap();
        let mut ends = Ends::default();
        automaton.find(text.as_bytes(), &mut ends);
        automaton.each(&ends).collect()
    }

    #[test]
    fn literals_are_found_where_they_end() {
        let literals = ["he", "she", "his", "hers"];
        assert_eq!(found(&literals, "ushers"), [(4, 1), (4, 0), (6, 3)]);
        assert_eq!(found(&literals, "HE SH3"), [(2, 0), (6, 1), (6, 0)]);
        assert_eq!(found(&literals, "nothing"), []);
        assert_eq!(found(&[], "nothing"), []);
    }

    #[test]
    fn four_lanes_find_what_one_finds() {
        let literals = ["abcab", "bca", "c", "aaaaaaaaaa"];
        let mut text = String::new();
        let mut seed = 1u32;
        for _ in 0..3000 {
            seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            text.push(['a', 'b', 'c', 'a', 'a'][(seed >> 16) as usize % 5]);
        }
        let mut one = Vec::new();
        for end in 1..=text.len() {
            for (index, literal) in (0..).zip(&literals) {
                if text[..end].ends_with(literal) {
                    one.push((end, index));
                }
            }
        }
        let mut four = found(&literals, &text);
        four.sort_unstable();
        one.sort_unstable();
        assert_eq!(four, one);
    }

    #[test]
    fn other_scripts_are_bytes() {
        assert_eq!(found(&["忽略", "the"], "请忽略the"), [(9, 0), (12, 1)]);
    }
}
