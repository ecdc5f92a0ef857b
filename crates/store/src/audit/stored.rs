//! Hashes that were stored beside the entries, and whether they are those of the entries.
//!
//! They carry no signature of their own. Where they differ, they tell which entry it is.

use base::Digest;

use super::source::{Layout, Source};
use crate::disk::Disk;
use crate::entry::{self, SEGMENT_ENTRIES, TILE_WIDTH};
use crate::tree;

/// Makes the tiles of a tree that grows, and hands each out as (level, index, hashes).
#[derive(Default)]
pub(super) struct Tiles {
    /// For each level the tile that grows, and how many are full.
    levels: Vec<(Vec<Digest>, u64)>,
}

impl Tiles {
    pub(super) fn push(&mut self, leaf: Digest, out: &mut dyn FnMut(usize, u64, &[Digest])) {
        let mut hash = leaf;
        for level in 0.. {
            if self.levels.len() == level {
                self.levels.push((Vec::new(), 0));
            }
            let (tile, full) = &mut self.levels[level];
            tile.push(hash);
            if (tile.len() as u64) < TILE_WIDTH {
                return;
            }
            out(level, *full, tile);
            hash = tree::root_of(tile);
            tile.clear();
            *full += 1;
        }
    }

    /// Hands out the tiles that are not full.
    pub(super) fn finish(&mut self, out: &mut dyn FnMut(usize, u64, &[Digest])) {
        for (level, (tile, full)) in self.levels.iter().enumerate() {
            if !tile.is_empty() {
                out(level, *full, tile);
            }
        }
    }
}

/// The bytes of a tile.
pub(super) fn tile_bytes(hashes: &[Digest]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| hash.0).collect()
}

/// Compares the hashes of entries with the stored ones.
pub(super) struct Stored<'s> {
    disk: &'s dyn Disk,
    kept: Kept,
    /// The first entry whose hash is stored otherwise, and the file that says so.
    pub(super) differs: Option<(u64, String)>,
}

enum Kept {
    Leaves { hashes: Vec<Digest>, segment: u64 },
    Tiles(Tiles),
}

impl<'s> Stored<'s> {
    /// From the beginning of a segment on.
    pub(super) fn new(source: &Source<'s>, segment: u64) -> Stored<'s> {
        let kept = match source.layout {
            Layout::Segments(_) => Kept::Leaves {
                hashes: Vec::new(),
                segment,
            },
            Layout::Tiles(_) => Kept::Tiles(Tiles::default()),
        };
        Stored {
            disk: source.disk,
            kept,
            differs: None,
        }
    }

    pub(super) fn push(&mut self, leaf: Digest) {
        let (disk, differs) = (self.disk, &mut self.differs);
        match &mut self.kept {
            Kept::Leaves { hashes, segment } => {
                hashes.push(leaf);
                if hashes.len() as u64 == SEGMENT_ENTRIES {
                    hashes.insert(0, tree::root_of(hashes));
                    // A segment that has just filled has no leaf-hash file yet.
                    let place = segment.saturating_mul(SEGMENT_ENTRIES);
                    let name = entry::leaves_name(*segment);
                    note_first(
                        differs,
                        compare(disk, &name, hashes).map(|at| (place + at.saturating_sub(1), name)),
                    );
                    hashes.clear();
                    *segment += 1;
                }
            }
            Kept::Tiles(tiles) => tiles.push(leaf, &mut |level, index, hashes| {
                note_first(differs, compare_tile(disk, level, index, hashes));
            }),
        }
    }

    pub(super) fn finish(&mut self) {
        let (disk, differs) = (self.disk, &mut self.differs);
        if let Kept::Tiles(tiles) = &mut self.kept {
            tiles.finish(&mut |level, index, hashes| {
                note_first(differs, compare_tile(disk, level, index, hashes));
            });
        }
    }
}

fn note_first(differs: &mut Option<(u64, String)>, found: Option<(u64, String)>) {
    if let Some(found) = found
        && differs.as_ref().is_none_or(|first| found.0 < first.0)
    {
        *differs = Some(found);
    }
}

fn compare_tile(
    disk: &dyn Disk,
    level: usize,
    index: u64,
    hashes: &[Digest],
) -> Option<(u64, String)> {
    let name = entry::tile_name(&level.to_string(), index, hashes.len() as u64);
    let hash = index * TILE_WIDTH + compare(disk, &name, hashes)?;
    let entries_each = TILE_WIDTH.pow(u32::try_from(level).unwrap_or(u32::MAX));
    Some((hash * entries_each, name))
}

/// The place of the first hash that a file has otherwise or not at all.
fn compare(disk: &dyn Disk, name: &str, hashes: &[Digest]) -> Option<u64> {
    let mut bytes = Vec::new();
    let read = disk
        .read(name, 0)
        .and_then(|mut file| file.read_to_end(&mut bytes));
    if read.is_err() {
        return name.starts_with("tile/").then_some(0);
    }
    let differs =
        |(at, hash): (usize, &Digest)| bytes.get(32 * at..32 * at + 32) != Some(&hash.0[..]);
    let longer = || (bytes.len() > 32 * hashes.len()).then(|| hashes.len() - 1);
    hashes
        .iter()
        .enumerate()
        .position(differs)
        .or_else(longer)
        .map(|at| at as u64)
}
