//! A graph as a file: written whole beside the vectors, believed only where it is of their very rows.
//!
//! All numbers are little-endian: [`MAGIC`], the number of rows, a digest of their keys in their order, the row to
//! begin at, then for each row its level and for each of its levels a count and as many rows; at the end a digest of
//! all before it. Whatever does not fit is no graph, and one is made anew: it costs time and nothing else.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::super::rows::Rows;
use super::{GROUND_MAX, Graph, LEVELS_MAX, LINKS_MAX, NONE, level_of, most};

/// What a file begins with: its form, and its version.
const MAGIC: &[u8; 8] = b"weirhnw1";
/// Bytes of the digest of the keys.
const KEYS_BYTES: usize = 16;
/// Bytes of the digest at the end.
const CHECK_BYTES: usize = 32;
/// Most bytes of a row: its level, and on each level a count and links.
const ROW_BYTES_MAX: usize = 1 + (1 + GROUND_MAX * 4) + LEVELS_MAX * (1 + LINKS_MAX * 4);

/// A digest of the first keys in their order: the same keys have the same vectors, and make the same graph.
fn digest(rows: &Rows<'_>, count: usize) -> [u8; KEYS_BYTES] {
    let mut digest = Sha256::new();
    for key in &rows.keys[..count] {
        digest.update(key);
    }
    let mut short = [0; KEYS_BYTES];
    short.copy_from_slice(&digest.finalize()[..KEYS_BYTES]);
    short
}

/// Writes and digests.
struct Digested<W> {
    to: W,
    digest: Sha256,
}

impl<W: Write> Digested<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.digest.update(bytes);
        self.to.write_all(bytes)
    }
}

/// A graph that was written beside the place of its file.
pub(crate) struct Draft {
    file: File,
    path: PathBuf,
    rows: usize,
}

impl Draft {
    /// Puts it in the place of the graph's file, whole or not at all; answers the rows that it has.
    ///
    /// # Errors
    ///
    /// When it cannot be written; then the file is as it was.
    pub(crate) fn keep(self) -> io::Result<usize> {
        self.file.sync_all()?;
        std::fs::rename(draft(&self.path), &self.path)?;
        Ok(self.rows)
    }
}

fn draft(path: &Path) -> PathBuf {
    path.with_extension("graph-draft")
}

impl Graph {
    /// Writes the graph beside the place of its file.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(crate) fn draft(&self, path: &Path, rows: &Rows<'_>) -> io::Result<Draft> {
        let mut to = Digested {
            to: BufWriter::with_capacity(1 << 20, File::create(draft(path))?),
            digest: Sha256::new(),
        };
        to.put(MAGIC)?;
        to.put(&self.count.to_le_bytes())?;
        to.put(&digest(rows, self.len()))?;
        to.put(&self.entry.unwrap_or(NONE).to_le_bytes())?;
        for row in 0..self.count {
            let above = self.above.get(&row).map_or(0, Vec::len);
            to.put(&[u8::try_from(above).unwrap_or(u8::MAX)])?;
            for level in 0..=above {
                let links = self.links(row, level);
                to.put(&[u8::try_from(links.len()).unwrap_or(u8::MAX)])?;
                for link in links {
                    to.put(&link.to_le_bytes())?;
                }
            }
        }
        let check = to.digest.finalize();
        to.to.write_all(&check)?;
        Ok(Draft {
            file: to.to.into_inner()?,
            path: path.to_owned(),
            rows: self.len(),
        })
    }

    /// Reads the graph of these rows, or of the first of them; none where a file is of others, or not whole.
    ///
    /// # Errors
    ///
    /// When there is a file that cannot be read.
    pub(crate) fn read(path: &Path, rows: &Rows<'_>) -> io::Result<Option<Graph>> {
        let length = match std::fs::metadata(path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // A graph of more rows than there are is not theirs.
        if length > (rows.keys.len() * ROW_BYTES_MAX + 128) as u64 {
            return Ok(None);
        }
        Ok(parsed(&std::fs::read(path)?, rows))
    }
}

fn parsed(bytes: &[u8], rows: &Rows<'_>) -> Option<Graph> {
    let (body, check) = bytes.split_at_checked(bytes.len().checked_sub(CHECK_BYTES)?)?;
    if Sha256::digest(body)[..] != *check {
        return None;
    }
    let mut rest = body.strip_prefix(MAGIC)?;
    let count = number(&mut rest)?;
    let keys = rest.split_off(..KEYS_BYTES)?;
    if count as usize > rows.keys.len() || digest(rows, count as usize) != *keys {
        return None;
    }
    let entry = number(&mut rest)?;
    let mut graph = Graph {
        count,
        entry: (entry != NONE).then_some(entry),
        top: 0,
        ground: vec![NONE; count as usize * GROUND_MAX],
        above: HashMap::new(),
    };
    for row in 0..count {
        let above = usize::from(*rest.split_off_first()?);
        if above != level_of(rows.key(row)?) {
            return None;
        }
        if above > 0 {
            graph.above.insert(row, vec![Vec::new(); above]);
        }
        for level in 0..=above {
            let links = links(&mut rest, most(level), count)?;
            graph.set(row, level, links);
        }
    }
    graph.top = match graph.entry {
        Some(entry) if entry >= count => return None,
        Some(entry) => graph.above.get(&entry).map_or(0, Vec::len),
        None if count > 0 => return None,
        None => 0,
    };
    rest.is_empty().then_some(graph)
}

fn links(rest: &mut &[u8], most: usize, count: u32) -> Option<Vec<u32>> {
    let length = usize::from(*rest.split_off_first()?);
    let links: Option<Vec<u32>> = (0..length)
        .map(|_| number(rest).filter(|link| *link < count))
        .collect();
    links.filter(|links| links.len() <= most)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let bytes = rest.split_off(..4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}
