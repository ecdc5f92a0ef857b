//! Vectors: exact, through a graph, cut off, compacted.

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
    assert_eq!(other.len(), 0);
    assert_eq!(Vectors::open(dir.path(), "m").unwrap().len(), 5);
    other.put(&[(key(1), vector(1, 32))]).unwrap();
    assert_eq!(Vectors::open(dir.path(), "m").unwrap().len(), 0);
    assert!(other.put(&[(key(2), vector(1, 64))]).is_err());
    assert_eq!(other.len(), 1);
}

/// Vectors in clusters, as those of texts are: a few topics, and what differs within them. Some are copies.
fn clustered(count: u32, dimensions: usize) -> Vec<(ChunkKey, Vec<f32>)> {
    let topics = count / 50 + 1;
    let made = (0..count).map(|i| {
        let own = if i % 40 == 0 { i / 400 } else { i };
        let topic = vector(own.wrapping_mul(7919) % topics + 1_000_000, dimensions);
        let noise = vector(own + 2_000_000, dimensions);
        let sum: Vec<f32> = topic.iter().zip(&noise).map(|(t, n)| t + 0.7 * n).collect();
        let length = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
        (key(i), sum.iter().map(|x| x / length).collect())
    });
    made.collect()
}

/// Vectors with a graph of all of them, as the channel makes it.
fn with_graph(dir: &Path, vectors: &[(ChunkKey, Vec<f32>)]) -> Vectors {
    let mut kept = Vectors::open_with(dir, "m", 1).unwrap();
    kept.put(vectors).unwrap();
    grow(&mut kept);
    kept
}

fn grow(kept: &mut Vectors) {
    while let Some(joint) = kept.joint() {
        kept.join(joint);
    }
    assert!(kept.is_unmeasured());
    let width = Vectors::measured(|| &*kept);
    kept.use_graph(width);
    assert!(!kept.is_unmeasured());
}

/// The share of the ten nearest that the graph finds, over queries that are no rows, and how often it gave up.
fn recall(kept: &mut Vectors, queries: &[Vec<f32>], allowed: &dyn Fn(&ChunkKey) -> bool) -> f32 {
    let width = kept.width.take().unwrap();
    let exact: Vec<_> = queries
        .iter()
        .map(|query| kept.nearest(query, 10, allowed))
        .collect();
    kept.width = Some(width);
    let mut found = 0;
    for (query, exact) in queries.iter().zip(&exact) {
        let near = kept.nearest(query, 10, allowed);
        assert_eq!(near.len(), exact.len());
        assert!(near.iter().all(|(key, _)| allowed(key)));
        let worst = exact.last().unwrap().1;
        found += near.iter().filter(|(_, cosine)| *cosine >= worst).count();
    }
    found as f32 / exact.iter().map(Vec::len).sum::<usize>() as f32
}

/// `WEIR_VECTORS` and `WEIR_DIMENSIONS` make it larger than a test has time for.
#[test]
fn a_graph_finds_what_comparing_finds() {
    let asked = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let count = asked("WEIR_VECTORS").unwrap_or(16_000);
    let dimensions = asked("WEIR_DIMENSIONS").unwrap_or(32);
    let dir = tempfile::tempdir().unwrap();
    let all = clustered(u32::try_from(count).unwrap(), dimensions);
    let began = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let mut kept = with_graph(dir.path(), &all);
    let ended = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    for width in WIDTHS {
        let probes = (0..PROBES).map(|number| kept.probe(number, width).1);
        println!(
            "width {width}: {} of {}",
            probes.sum::<usize>(),
            PROBES * PROBE_NEIGHBOURS
        );
    }
    let width = kept.width.expect("it finds enough to be used");
    let queries: Vec<Vec<f32>> = clustered(300, dimensions)
        .into_iter()
        .zip(
            clustered(u32::try_from(count).unwrap(), dimensions)
                .into_iter()
                .step_by(37),
        )
        .map(|((_, a), (_, b))| {
            let sum: Vec<f32> = a.iter().zip(&b).map(|(a, b)| 0.5 * a + b).collect();
            let length = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
            sum.iter().map(|x| x / length).collect()
        })
        .collect();
    let share = recall(&mut kept, &queries, &|_| true);
    println!(
        "{count} vectors: recall@10 {share}, width {width}, {} s of CPU",
        ended.tv_sec - began.tv_sec
    );
    assert!(share >= RECALL_MIN, "{share}");
    // Filters that leave much, little and hardly anything.
    for modulus in [2, 20, 3_000] {
        let allowed = |key: &ChunkKey| u16::from_le_bytes([key[0], key[1]]) % modulus == 1;
        let share = recall(&mut kept, &queries[..40], &allowed);
        assert!(share >= RECALL_MIN, "{share} of one in {modulus}");
    }
    assert!(kept.nearest(&queries[0], 10, &|_| false).is_empty());
    // More than a walk finds is compared.
    assert_eq!(kept.nearest(&queries[0], count, &|_| true).len(), count);
}

#[test]
fn what_a_graph_lacks_is_compared() {
    let dir = tempfile::tempdir().unwrap();
    let all = clustered(3_000, 32);
    let mut kept = with_graph(dir.path(), &all[..2_900]);
    kept.put(&all[2_900..]).unwrap();
    for (key, vector) in &all[2_900..] {
        assert_eq!(kept.nearest(vector, 1, &|other| other == key)[0].0, *key);
        let near = kept.nearest(vector, 10, &|_| true);
        assert!(
            near.iter()
                .any(|(other, cosine)| other == key || *cosine > 0.99)
        );
    }
}

#[test]
fn a_graph_is_believed_only_of_its_own_vectors() {
    let dir = tempfile::tempdir().unwrap();
    let all = clustered(1_500, 32);
    let kept = with_graph(dir.path(), &all[..1_400]);
    let rows = kept.graph_draft().unwrap().unwrap().keep().unwrap();
    assert_eq!(rows, 1_400);
    let path = kept.graph_path();
    drop(kept);
    let graph_of = || Vectors::open_with(dir.path(), "m", 1).unwrap().graph.len();
    assert_eq!(graph_of(), 1_400);
    // Vectors that came later are joined; they change nothing of what is there.
    let mut more = Vectors::open_with(dir.path(), "m", 1).unwrap();
    more.put(&all[1_400..]).unwrap();
    drop(more);
    assert_eq!(graph_of(), 1_400);
    let whole = std::fs::read(&path).unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..50 {
        let mut other = whole.clone();
        let at = random.usize(..other.len());
        other[at] ^= 1 << random.u8(..8);
        other.truncate(random.usize(other.len() / 2..=other.len()));
        std::fs::write(&path, &other).unwrap();
        assert_eq!(graph_of(), 0, "a bit of byte {at}");
    }
    // Below the bound no graph is looked for.
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(
        Vectors::open_with(dir.path(), "m", 5_000)
            .unwrap()
            .graph
            .len(),
        0
    );
    // Of other vectors.
    let mut other = Vectors::open_with(dir.path(), "m", 1).unwrap();
    let compacted = other.compacted(&|key| key[0] != 7).unwrap();
    other.compact(compacted);
    assert_eq!(graph_of(), 0);
}

#[test]
fn what_is_not_needed_is_taken_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut kept = with_graph(dir.path(), &clustered(600, 32));
    let before: Vec<_> = (0..600).map(key).map(|key| kept.has(&key)).collect();
    assert!(before.iter().all(|has| *has));
    let needed = |key: &ChunkKey| key[0].is_multiple_of(3);
    let query = vector(9, 32);
    let due = kept.nearest(&query, 20, &needed);
    let old = std::fs::metadata(&kept.path).unwrap().len();
    let compacted = kept.compacted(&needed).unwrap();
    assert_eq!(kept.len(), 600, "nothing happens before it is asked for");
    kept.compact(compacted);
    for kept in [&kept, &Vectors::open(dir.path(), "m").unwrap()] {
        assert!((0..600).map(key).all(|key| kept.has(&key) == needed(&key)));
        assert_eq!(kept.nearest(&query, 20, &|_| true), due);
    }
    let record = (RECORD_BYTES + 32) as u64;
    let gone = 600 - kept.len() as u64;
    assert_eq!(
        std::fs::metadata(&kept.path).unwrap().len(),
        old - gone * record
    );
    // It goes on where it is.
    kept.put(&[(key(7_000), vector(7, 32))]).unwrap();
    grow(&mut kept);
    let again = Vectors::open(dir.path(), "m").unwrap();
    assert!(again.has(&key(7_000)) && again.len() == kept.len());
    let all = kept.compacted(&|_| false).unwrap();
    kept.compact(all);
    assert!(kept.len() == 0 && kept.nearest(&query, 5, &|_| true).is_empty());
    kept.put(&[(key(1), vector(1, 32))]).unwrap();
    assert_eq!(Vectors::open(dir.path(), "m").unwrap().len(), 1);
}

/// Copies of one key: the later one counts, also in a graph.
#[test]
fn the_later_of_two_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = clustered(200, 32);
    all.push((key(5), vector(77, 32)));
    let kept = with_graph(dir.path(), &all);
    let found = kept.nearest(&vector(77, 32), 3, &|_| true);
    assert!(found[0].0 == key(5) && found[0].1 > 0.99);
    let of_five = found.iter().filter(|(found, _)| *found == key(5)).count();
    assert_eq!((of_five, kept.len()), (1, 200));
}
