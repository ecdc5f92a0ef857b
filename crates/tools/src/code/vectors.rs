//! Vectors by what they are of: one byte a number, one scale a vector.
//!
//! They stand in one file for each embedder that is only appended to, and in memory. Up to [`GRAPH_MIN`] they are compared
//! one by one, which misses nothing; of more a graph is made in the background, and used only once it was measured to
//! find what comparing finds. A record that was not written whole when the power went is cut off; vectors can always
//! be made again. Those that no piece needs any more are taken out when they are many.

mod file;
mod graph;
mod rows;

use std::collections::{BinaryHeap, HashMap};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use base::hex;
use sha2::{Digest, Sha256};

use super::api::ChunkKey;
use super::embed::DIMENSIONS_MAX;
use file::{HEAD_BYTES, RECORD_BYTES, begun, empty, filled, head, parsed, record};
use graph::Graph;
pub(crate) use graph::{Draft, Joint};
use rows::{Near, Row, Rows, small};

/// Most vectors kept.
pub(crate) const VECTORS_MAX: usize = 1 << 20;
/// Bytes of all their numbers.
const NUMBERS_BYTES_MAX: usize = 1 << 30;
/// Vectors from which on a graph is made of them.
pub(crate) const GRAPH_MIN: usize = 200_000;
/// Rows that a graph may lack when it is used, and when it was last written; they are compared one by one, and joined
/// again after a restart.
const BEHIND_MAX: usize = 8_192;
/// Candidates of a search in a graph (ef): the first of these with which it finds enough.
const WIDTHS: [usize; 4] = [128, 256, 512, 1024];
/// Vectors by which a graph is measured, and how many neighbours each is asked for.
const PROBES: usize = 64;
const PROBE_NEIGHBOURS: usize = 10;
/// The share of those neighbours that a graph has to find.
pub(crate) const RECALL_MIN: f32 = 0.95;

/// The vectors of one embedder.
pub(crate) struct Vectors {
    path: PathBuf,
    file: Option<File>,
    dimensions: usize,
    at: HashMap<ChunkKey, usize>,
    keys: Vec<ChunkKey>,
    scales: Vec<f32>,
    numbers: Vec<i8>,
    graph: Graph,
    /// The candidates of a search in the graph; none while that was not measured, or does not find enough.
    width: Option<usize>,
    /// Rows of the graph when it was measured, and when it was written.
    probed: usize,
    written: usize,
    graph_min: usize,
}

/// Vectors without those that nobody needs, as they were written.
pub(crate) struct Compacted {
    file: File,
    /// The rows that stay.
    rows: Vec<usize>,
}

impl Vectors {
    /// Those that a folder has of an embedder; none where there is no file. Vectors of others are left where they
    /// are until this embedder has made one.
    ///
    /// # Errors
    ///
    /// Where the folder cannot be made, or the file cannot be read.
    pub(crate) fn open(dir: &Path, embedder: &str) -> io::Result<Vectors> {
        Vectors::open_with(dir, embedder, GRAPH_MIN)
    }

    fn open_with(dir: &Path, embedder: &str, graph_min: usize) -> io::Result<Vectors> {
        std::fs::create_dir_all(dir)?;
        let name = hex::encode(&Sha256::digest(embedder.as_bytes())[..8]);
        let mut vectors = Vectors {
            path: dir.join(format!("{name}.vectors")),
            file: None,
            dimensions: 0,
            at: HashMap::new(),
            keys: Vec::new(),
            scales: Vec::new(),
            numbers: Vec::new(),
            graph: Graph::default(),
            width: None,
            probed: 0,
            written: 0,
            graph_min,
        };
        match File::options().read(true).write(true).open(&vectors.path) {
            Ok(file) => vectors.load(file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if vectors.len() >= graph_min {
            let graph = Graph::read(&vectors.graph_path(), &vectors.rows())?;
            vectors.graph = graph.unwrap_or_default();
            vectors.written = vectors.graph.len();
        }
        Ok(vectors)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.at.len()
    }

    /// Whether there is one of a key.
    pub(crate) fn has(&self, key: &ChunkKey) -> bool {
        self.at.contains_key(key)
    }

    fn rows(&self) -> Rows<'_> {
        Rows {
            dimensions: self.dimensions,
            keys: &self.keys,
            scales: &self.scales,
            numbers: &self.numbers,
        }
    }

    fn graph_path(&self) -> PathBuf {
        self.path.with_extension("graph")
    }

    /// Reads a file up to its last whole record, and cuts off the rest. A file of another form is begun anew.
    fn load(&mut self, mut file: File) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(1 << 20, &mut file);
        let Some(dimensions) = head(&mut reader)? else {
            return Ok(());
        };
        self.dimensions = dimensions;
        let mut record = vec![0; RECORD_BYTES + dimensions];
        let mut whole = HEAD_BYTES;
        while self.keys.len() < most(dimensions) && filled(&mut reader, &mut record)? {
            let Some((key, scale, numbers)) = parsed(&record) else {
                break;
            };
            let numbers = numbers.iter().map(|byte| i8::from_le_bytes([*byte]));
            self.keep(key, scale, numbers);
            whole += record.len() as u64;
        }
        drop(reader);
        file.set_len(whole)?;
        file.seek(SeekFrom::End(0))?;
        self.file = Some(file);
        Ok(())
    }

    /// Of two with one key the later one counts.
    fn keep(&mut self, key: ChunkKey, scale: f32, numbers: impl Iterator<Item = i8>) {
        self.at.insert(key, self.keys.len());
        self.keys.push(key);
        self.scales.push(scale);
        self.numbers.extend(numbers);
    }

    /// Keeps vectors of length one, all with the same number of dimensions.
    ///
    /// # Errors
    ///
    /// Where a vector has another number of dimensions than the first one had, where there are too many, or where
    /// the file cannot be written: then none is kept.
    pub(crate) fn put(&mut self, vectors: &[(ChunkKey, Vec<f32>)]) -> io::Result<()> {
        let new: Vec<_> = vectors.iter().filter(|(key, _)| !self.has(key)).collect();
        let Some((_, first)) = new.first() else {
            return Ok(());
        };
        let dimensions = match self.dimensions {
            0 => first.len(),
            dimensions => dimensions,
        };
        if dimensions > DIMENSIONS_MAX || new.iter().any(|(_, vector)| vector.len() != dimensions) {
            let what = format!("vectors of {dimensions} numbers were due");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let most = most(dimensions);
        if self.keys.len() + new.len() > most {
            return Err(io::Error::other(format!(
                "there are {most} vectors already"
            )));
        }
        let mut bytes = Vec::with_capacity(new.len() * (RECORD_BYTES + dimensions));
        let small: Vec<(ChunkKey, f32, Vec<i8>)> = new
            .iter()
            .map(|(key, vector)| {
                let (scale, numbers) = small(vector);
                (*key, scale, numbers)
            })
            .collect();
        for (key, scale, numbers) in &small {
            record(&mut bytes, key, *scale, numbers);
        }
        self.append(dimensions, &bytes)?;
        self.dimensions = dimensions;
        for (key, scale, numbers) in small {
            self.keep(key, scale, numbers.into_iter());
        }
        Ok(())
    }

    fn append(&mut self, dimensions: usize, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() {
            self.file = Some(begun(&self.path, dimensions)?);
        }
        let file = self.file.as_mut().expect("it was begun");
        let before = file.stream_position()?;
        file.write_all(bytes).inspect_err(|_| {
            // What was written of it would hide what comes after it.
            let _ = file.set_len(before);
            let _ = file.seek(SeekFrom::Start(before));
        })
    }

    /// The nearest to a vector of length one among those that are allowed, with the cosine, best first.
    pub(crate) fn nearest(
        &self,
        query: &[f32],
        limit: usize,
        allowed: &dyn Fn(&ChunkKey) -> bool,
    ) -> Vec<(ChunkKey, f32)> {
        if query.len() != self.dimensions || limit == 0 {
            return Vec::new();
        }
        let (scale, numbers) = small(query);
        let query = Row {
            scale,
            numbers: &numbers,
        };
        let wanted = |row: u32| self.is_live(row) && allowed(&self.keys[row as usize]);
        let walked = self
            .width
            .and_then(|width| self.walked(query, limit, width, &wanted));
        let best = walked.unwrap_or_else(|| self.compared(query, limit, 0, &wanted));
        best.into_iter()
            .map(|near| (self.keys[near.i as usize], near.cosine.clamp(-1.0, 1.0)))
            .collect()
    }

    /// Whether a row is the vector of its key, and not one that was written before it.
    fn is_live(&self, row: u32) -> bool {
        let row = row as usize;
        self.at.get(&self.keys[row]) == Some(&row)
    }

    /// The nearest rows from one on, best first: each is compared.
    fn compared(
        &self,
        query: Row<'_>,
        limit: usize,
        from: usize,
        wanted: &dyn Fn(u32) -> bool,
    ) -> Vec<Near> {
        let rows = self.rows();
        let mut best: BinaryHeap<Near> = BinaryHeap::with_capacity(limit + 1);
        for row in from..self.keys.len() {
            let near = rows.near(query, u32::try_from(row).unwrap_or(u32::MAX));
            let full = best.len() >= limit;
            // Whether it is wanted is asked last, and of few.
            if (!full || best.peek().is_some_and(|worst| near < *worst)) && wanted(near.i) {
                best.push(near);
                if full {
                    best.pop();
                }
            }
        }
        best.into_sorted_vec()
    }

    /// The nearest rows by the graph, and those that it lacks by comparing them. None where the graph finds fewer than
    /// are asked for: few are wanted, or they are far away.
    fn walked(
        &self,
        query: Row<'_>,
        limit: usize,
        width: usize,
        wanted: &dyn Fn(u32) -> bool,
    ) -> Option<Vec<Near>> {
        if self.behind() > BEHIND_MAX {
            return None;
        }
        let (rows, width) = (self.rows(), width.max(limit));
        let mut best = self.graph.nearest(&rows, query, width, wanted)?;
        if best.len() < limit {
            return None;
        }
        best.extend(self.compared(query, limit, self.graph.len(), wanted));
        best.sort_unstable();
        best.truncate(limit);
        Some(best)
    }

    /// Rows that the graph lacks.
    fn behind(&self) -> usize {
        self.keys.len() - self.graph.len()
    }

    /// Whether there are so many that a graph is due, and it lacks some.
    pub(crate) fn is_behind(&self) -> bool {
        self.keys.len() >= self.graph_min && self.behind() > 0
    }

    /// How the next vector is to be joined to the graph; none where there are too few for one, or all are in it.
    pub(crate) fn joint(&self) -> Option<Joint> {
        match self.is_behind() {
            true => self.graph.joint(&self.rows()),
            false => None,
        }
    }

    /// Joins a vector to the graph.
    pub(crate) fn join(&mut self, joint: Joint) {
        self.graph.join(joint);
    }

    /// Whether the graph is to be measured: it has all vectors, and twice as many as when it was measured last.
    pub(crate) fn is_unmeasured(&self) -> bool {
        self.graph.len() > 0 && self.behind() == 0 && self.graph.len() >= 2 * self.probed
    }

    /// How many neighbours of one of [`PROBES`] vectors there are, and how many of them the graph finds with a width.
    fn probe(&self, number: usize, width: usize) -> (usize, usize) {
        let row = number * self.keys.len() / PROBES;
        let row = self.rows().row(u32::try_from(row).unwrap_or(u32::MAX));
        let exact = self.compared(row, PROBE_NEIGHBOURS, 0, &|_| true);
        let found = self.walked(row, PROBE_NEIGHBOURS, width, &|_| true);
        let worst = exact.last().map_or(1.0, |worst| worst.cosine);
        // Copies are as good as each other.
        let as_good = |near: &&Near| near.cosine >= worst;
        let found = found.map_or(0, |found| found.iter().filter(as_good).count());
        (exact.len(), found)
    }

    /// The least width with which the graph finds [`RECALL_MIN`] of what comparing finds; none where no width does. The
    /// vectors are asked for again and again, so that nobody waits long for them.
    pub(crate) fn measured<V: Deref<Target = Vectors>>(vectors: impl Fn() -> V) -> Option<usize> {
        WIDTHS.into_iter().find(|width| {
            let probes = (0..PROBES).map(|number| vectors().probe(number, *width));
            let (due, found) = probes.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            found as f32 >= due as f32 * RECALL_MIN
        })
    }

    /// Has searches use the graph with a width; none has them compare every vector.
    pub(crate) fn use_graph(&mut self, width: Option<usize>) {
        (self.width, self.probed) = (width, self.graph.len());
    }

    /// A draft of the graph's file, where the graph grew by so much that making it again would take a while.
    ///
    /// # Errors
    ///
    /// When it cannot be written; then it is made again after a restart.
    pub(crate) fn graph_draft(&self) -> io::Result<Option<Draft>> {
        if self.graph.len() < self.written + BEHIND_MAX.min(self.graph_min) {
            return Ok(None);
        }
        let draft = self.graph.draft(&self.graph_path(), &self.rows());
        draft.map(Some)
    }

    /// Remembers how much of the graph was written.
    pub(crate) fn graph_written(&mut self, rows: usize) {
        self.written = rows;
    }

    /// Writes a new file of those vectors that are needed, in the place of the old one. Until [`Vectors::compact`] it has
    /// no effect here; nothing may be put between the two.
    ///
    /// # Errors
    ///
    /// When it cannot be written; then the old file is as it was.
    pub(crate) fn compacted(&self, needed: &dyn Fn(&ChunkKey) -> bool) -> io::Result<Compacted> {
        let draft = self.path.with_extension("draft");
        let mut to = BufWriter::with_capacity(1 << 20, empty(&draft, self.dimensions)?);
        let (all, mut rows, mut bytes) = (self.rows(), Vec::new(), Vec::new());
        for (at, key) in self.keys.iter().enumerate() {
            let row = u32::try_from(at).unwrap_or(u32::MAX);
            if self.is_live(row) && needed(key) {
                let Row { scale, numbers } = all.row(row);
                bytes.clear();
                record(&mut bytes, key, scale, numbers);
                to.write_all(&bytes)?;
                rows.push(at);
            }
        }
        let file = to.into_inner()?;
        file.sync_all()?;
        std::fs::rename(draft, &self.path)?;
        Ok(Compacted { file, rows })
    }

    /// Takes out what was not written by [`Vectors::compacted`]. The graph is of other rows then, and is made anew.
    pub(crate) fn compact(&mut self, compacted: Compacted) {
        self.at.clear();
        for (to, from) in compacted.rows.iter().copied().enumerate() {
            self.keys[to] = self.keys[from];
            self.scales[to] = self.scales[from];
            let from = from * self.dimensions;
            let numbers = from..from + self.dimensions;
            self.numbers.copy_within(numbers, to * self.dimensions);
            self.at.insert(self.keys[to], to);
        }
        let count = compacted.rows.len();
        self.keys.truncate(count);
        self.scales.truncate(count);
        self.numbers.truncate(count * self.dimensions);
        self.numbers.shrink_to_fit();
        self.file = Some(compacted.file);
        self.graph = Graph::default();
        (self.width, self.probed, self.written) = (None, 0, 0);
    }
}

/// Most vectors of so many dimensions.
fn most(dimensions: usize) -> usize {
    VECTORS_MAX.min(NUMBERS_BYTES_MAX / dimensions.max(1))
}

#[cfg(test)]
mod tests;
