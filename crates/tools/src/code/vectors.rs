//! Vectors by what they are of: one byte a number, one scale a vector, searched one by one.
//!
//! They stand in one file for each embedder that is only appended to, and in memory. Up to some hundred thousand
//! an exact scan is as quick as a graph, and nothing is missed. A record that was not written whole when the
//! power went is cut off; vectors can always be made again.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::api::ChunkKey;
use super::embed::DIMENSIONS_MAX;

/// Most vectors kept.
pub const VECTORS_MAX: usize = 1 << 20;
/// What a file begins with: its form, and its version.
const MAGIC: &[u8; 8] = b"weirvec1";
/// Magic, dimensions.
const HEAD_BYTES: u64 = 12;
/// Key, scale and check of a record, beside its numbers.
const RECORD_BYTES: usize = 16 + 4 + 4;

/// The vectors of one embedder.
pub struct Vectors {
    path: PathBuf,
    file: Option<File>,
    dimensions: usize,
    at: HashMap<ChunkKey, usize>,
    keys: Vec<ChunkKey>,
    scales: Vec<f32>,
    numbers: Vec<i8>,
}

impl Vectors {
    /// Those that a folder has of an embedder; none where there is no file. Vectors of others are left where they
    /// are until this embedder has made one.
    ///
    /// # Errors
    ///
    /// Where the folder cannot be made, or the file cannot be read.
    pub fn open(dir: &Path, embedder: &str) -> io::Result<Vectors> {
        std::fs::create_dir_all(dir)?;
        let digest = Sha256::digest(embedder.as_bytes());
        let name: String = digest
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let mut vectors = Vectors {
            path: dir.join(format!("{name}.vectors")),
            file: None,
            dimensions: 0,
            at: HashMap::new(),
            keys: Vec::new(),
            scales: Vec::new(),
            numbers: Vec::new(),
        };
        match File::options().read(true).write(true).open(&vectors.path) {
            Ok(file) => vectors.load(file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(vectors)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether there is one of a key.
    pub fn has(&self, key: &ChunkKey) -> bool {
        self.at.contains_key(key)
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
        while self.len() < VECTORS_MAX && filled(&mut reader, &mut record)? {
            let Some((key, scale, numbers)) = parsed(&record) else {
                break;
            };
            self.keep(
                key,
                scale,
                numbers.iter().map(|byte| i8::from_le_bytes([*byte])),
            );
            whole += record.len() as u64;
        }
        drop(reader);
        file.set_len(whole)?;
        file.seek(SeekFrom::End(0))?;
        self.file = Some(file);
        Ok(())
    }

    fn keep(&mut self, key: ChunkKey, scale: f32, numbers: impl Iterator<Item = i8>) {
        if let Some(old) = self.at.insert(key, self.keys.len()) {
            // Written twice: the later one counts, and a scale of nothing is never found.
            self.scales[old] = 0.0;
        }
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
    pub fn put(&mut self, vectors: &[(ChunkKey, Vec<f32>)]) -> io::Result<()> {
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
        if self.len() + new.len() > VECTORS_MAX {
            return Err(io::Error::other(format!(
                "there are {VECTORS_MAX} vectors already"
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
            let start = bytes.len();
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(&scale.to_le_bytes());
            bytes.extend(numbers.iter().map(|number| number.to_le_bytes()[0]));
            let check = check(&bytes[start..]);
            bytes.extend_from_slice(&check.to_le_bytes());
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
    pub fn nearest(
        &self,
        query: &[f32],
        limit: usize,
        allowed: &dyn Fn(&ChunkKey) -> bool,
    ) -> Vec<(ChunkKey, f32)> {
        if query.len() != self.dimensions || limit == 0 {
            return Vec::new();
        }
        let (query_scale, query) = small(query);
        let mut best: BinaryHeap<Near> = BinaryHeap::with_capacity(limit + 1);
        for (i, numbers) in self.numbers.chunks_exact(self.dimensions).enumerate() {
            let scale = self.scales[i] * query_scale;
            let cosine = dot(&query, numbers) as f32 * scale;
            let is_better = |worst: &Near| cosine > worst.cosine;
            let full = best.len() >= limit;
            // Whether it is allowed is asked last, and of few.
            if scale > 0.0
                && (!full || best.peek().is_some_and(is_better))
                && allowed(&self.keys[i])
            {
                best.push(Near { cosine, i });
                if full {
                    best.pop();
                }
            }
        }
        let best = best.into_sorted_vec().into_iter();
        best.map(|near| (self.keys[near.i], near.cosine.clamp(-1.0, 1.0)))
            .collect()
    }
}

/// A candidate; the greatest is the worst, so that a heap gives it up first.
struct Near {
    cosine: f32,
    i: usize,
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
fn small(vector: &[f32]) -> (f32, Vec<i8>) {
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

/// FNV-1a, against halves of records; no adversary writes this file.
fn check(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, step)
}

fn head(reader: &mut impl Read) -> io::Result<Option<usize>> {
    let mut head = [0; HEAD_BYTES as usize];
    if !filled(reader, &mut head)? || head[..8] != *MAGIC {
        return Ok(None);
    }
    let dimensions = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
    Ok((1..=DIMENSIONS_MAX)
        .contains(&dimensions)
        .then_some(dimensions))
}

/// Whether the whole buffer was read.
fn filled(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn parsed(record: &[u8]) -> Option<(ChunkKey, f32, &[u8])> {
    let (body, told) = record.split_last_chunk::<4>()?;
    let (key, rest) = body.split_first_chunk::<16>()?;
    let (scale, numbers) = rest.split_first_chunk::<4>()?;
    let scale = f32::from_le_bytes(*scale);
    let is_whole = u32::from_le_bytes(*told) == check(body) && scale.is_finite() && scale > 0.0;
    is_whole.then_some((*key, scale, numbers))
}

/// A new file; those of other embedders, which nobody asks for any more, are removed.
fn begun(path: &Path, dimensions: usize) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        let others = std::fs::read_dir(dir)?
            .filter_map(Result::ok)
            .map(|entry| entry.path());
        let of_ours = |other: &PathBuf| other.extension().is_some_and(|end| end == "vectors");
        for other in others.filter(of_ours) {
            std::fs::remove_file(other)?;
        }
    }
    let mut file = File::options()
        .create(true)
        .truncate(true)
        .read(true)
        .write(true)
        .open(path)?;
    file.write_all(MAGIC)?;
    let dimensions = u32::try_from(dimensions).map_err(io::Error::other)?;
    file.write_all(&dimensions.to_le_bytes())?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> ChunkKey {
        let mut key = [0; 16];
        key[..4].copy_from_slice(&n.to_le_bytes());
        key
    }

    /// A vector of length one that depends on a seed alone.
    fn vector(seed: u32, dimensions: usize) -> Vec<f32> {
        let mut state = seed.wrapping_mul(2_654_435_761).max(1);
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state as f32 / u32::MAX as f32) - 0.5
        };
        let vector: Vec<f32> = (0..dimensions).map(|_| next()).collect();
        let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
        vector.into_iter().map(|x| x / length).collect()
    }

    fn filled_with(dir: &Path, n: u32) -> Vectors {
        let mut vectors = Vectors::open(dir, "m").unwrap();
        let batch: Vec<_> = (0..n).map(|i| (key(i), vector(i + 1, 64))).collect();
        vectors.put(&batch).unwrap();
        vectors
    }

    #[test]
    fn the_nearest_are_those_of_exact_arithmetic() {
        let dir = tempfile::tempdir().unwrap();
        let vectors = filled_with(dir.path(), 2000);
        for seed in 5000..5020 {
            let query = vector(seed, 64);
            let exact = |i: u32| -> f32 {
                let of = vector(i + 1, 64);
                of.iter().zip(&query).map(|(x, y)| x * y).sum()
            };
            let mut all: Vec<u32> = (0..2000).collect();
            all.sort_by(|a, b| exact(*b).total_cmp(&exact(*a)));
            let found = vectors.nearest(&query, 10, &|_| true);
            assert_eq!(found.len(), 10);
            let found_of = |i: u32| found.iter().any(|(found, _)| *found == key(i));
            // A byte a number: the tenth and the eleventh may be as good.
            let recall = all[..10].iter().filter(|i| found_of(**i)).count();
            assert!(recall >= 9, "{recall}");
            let best = found[0].1;
            assert!((best - exact(all[0])).abs() < 0.01, "{best}");
            assert!(found.windows(2).all(|pair| pair[0].1 >= pair[1].1));
        }
    }

    #[test]
    fn only_what_is_allowed_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let vectors = filled_with(dir.path(), 100);
        let odd = |key: &ChunkKey| key[0] % 2 == 1;
        let found = vectors.nearest(&vector(3, 64), 20, &odd);
        assert_eq!(found.len(), 20);
        assert!(found.iter().all(|(key, _)| odd(key)));
        assert!(vectors.nearest(&vector(3, 64), 5, &|_| false).is_empty());
        assert!(vectors.nearest(&vector(3, 32), 5, &|_| true).is_empty());
    }

    #[test]
    fn they_are_there_again_up_to_the_last_whole_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = {
            let vectors = filled_with(dir.path(), 50);
            vectors.path.clone()
        };
        let whole = std::fs::read(&path).unwrap();
        let record = RECORD_BYTES + 64;
        for cut in [0, 5, 12, 12 + record - 1, 12 + record, whole.len() - 1] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut vectors = Vectors::open(dir.path(), "m").unwrap();
            let left = cut.saturating_sub(12) / record;
            assert_eq!(vectors.len(), left, "{cut}");
            vectors.put(&[(key(999), vector(7, 64))]).unwrap();
            drop(vectors);
            let again = Vectors::open(dir.path(), "m").unwrap();
            assert!(again.len() == left + 1 && again.has(&key(999)));
        }
        let mut flipped = whole.clone();
        flipped[12 + record * 3 + 30] ^= 1;
        std::fs::write(&path, &flipped).unwrap();
        assert_eq!(Vectors::open(dir.path(), "m").unwrap().len(), 3);
    }

    #[test]
    fn another_embedder_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        drop(filled_with(dir.path(), 5));
        let mut other = Vectors::open(dir.path(), "n").unwrap();
        assert!(other.is_empty());
        assert_eq!(Vectors::open(dir.path(), "m").unwrap().len(), 5);
        other.put(&[(key(1), vector(1, 32))]).unwrap();
        assert!(Vectors::open(dir.path(), "m").unwrap().is_empty());
        assert!(other.put(&[(key(2), vector(1, 64))]).is_err());
        assert_eq!(other.len(), 1);
    }
}
