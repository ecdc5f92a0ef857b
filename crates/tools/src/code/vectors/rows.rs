//! Vectors in a byte a number, and how like two of them are.

use std::cmp::Ordering;

use crate::code::api::ChunkKey;

/// A vector: what one step of its numbers is worth, and the numbers.
#[derive(Clone, Copy)]
pub(super) struct Row<'r> {
    pub scale: f32,
    pub numbers: &'r [i8],
}

/// Vectors that stand one after the other.
pub(super) struct Rows<'r> {
    pub dimensions: usize,
    pub keys: &'r [ChunkKey],
    pub scales: &'r [f32],
    pub numbers: &'r [i8],
}

impl<'r> Rows<'r> {
    /// The key of a row, if there is such a row.
    pub(super) fn key(&self, row: u32) -> Option<&'r ChunkKey> {
        self.keys.get(row as usize)
    }

    pub(super) fn row(&self, row: u32) -> Row<'r> {
        let at = row as usize * self.dimensions;
        Row {
            scale: self.scales[row as usize],
            numbers: &self.numbers[at..at + self.dimensions],
        }
    }

    /// How near a row is to a vector.
    pub(super) fn near(&self, to: Row<'_>, row: u32) -> Near {
        let of = self.row(row);
        Near {
            cosine: dot(to.numbers, of.numbers) as f32 * (to.scale * of.scale),
            i: row,
        }
    }
}

/// A row and how near it is; the greatest is the worst, so that a heap gives it up first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Near {
    pub cosine: f32,
    pub i: u32,
}

impl Ord for Near {
    fn cmp(&self, other: &Near) -> Ordering {
        let by_cosine = other.cosine.total_cmp(&self.cosine);
        by_cosine.then(self.i.cmp(&other.i))
    }
}

impl PartialOrd for Near {
    fn partial_cmp(&self, other: &Near) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Near {
    fn eq(&self, other: &Near) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Near {}

/// The scale of a vector and its numbers in a byte each.
pub(super) fn small(vector: &[f32]) -> (f32, Vec<i8>) {
    let most = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let scale = if most > 0.0 { most / 127.0 } else { 1.0 };
    let number = |x: &f32| (x / scale).round().clamp(-127.0, 127.0) as i8;
    (scale, vector.iter().map(number).collect())
}

/// The compiler makes wide multiplications of this shape: products fit 16 bits, sums 32.
fn dot(a: &[i8], b: &[i8]) -> i32 {
    let products = a
        .iter()
        .zip(b)
        .map(|(x, y)| i32::from(i16::from(*x) * i16::from(*y)));
    products.sum()
}
