//! Units are written once and counted for the tree that has them.

use std::sync::Arc;
use std::time::SystemTime;

use super::*;
use crate::code::place::Stamp;
use crate::code::rank::prior::Priors;

fn entry(family: &Family, path: &str, text: &str) -> Arc<Entry> {
    let parsed = parse::file(path, text.as_bytes());
    let blob = Blob::of(text.as_bytes());
    let unit = UnitId::of(path, &blob);
    let mut grams = Grams::default();
    let put = family.put(unit, path, text.as_bytes(), &parsed, &mut grams, false);
    put.unwrap();
    let about = About::only(Depth::Meaning, parsed.language);
    Arc::new(Entry::new(
        path.into(),
        Stamp::default(),
        false,
        blob,
        about,
    ))
}

fn view(family: &Family, entries: Vec<Arc<Entry>>) -> View {
    let now = SystemTime::now();
    let entries = Arc::new(entries);
    View::new(1, now, true, entries, family.searcher(), *family.fields()).unwrap()
}

fn best(view: &View, word: &str) -> Vec<(String, f32)> {
    let term = Term::from_field_text(view.fields().of(Scored::Body), word);
    let clauses = [Clause { term, weight: 1.0 }];
    let pool = Pool { views: vec![view] };
    let choice = Choice {
        most: 10,
        kinds: None,
        factor: &|_| 1.0,
        most_of: &|_| 1.0,
    };
    let found = view.best(&clauses, &pool, &choice).unwrap();
    let name = |found: &Found| view.entries[found.entry as usize].path.to_string();
    found
        .iter()
        .map(|found| (name(found), found.score))
        .collect()
}

#[test]
fn a_view_counts_only_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let family = Family::open(dir.path(), 0).unwrap();
    let one = entry(&family, "a.txt", "apple banana");
    let two = entry(&family, "b.txt", "apple cherry cherry");
    let old = entry(&family, "b.txt", "apple");
    let other = entry(&family, "c.txt", "apple apple banana");
    family.commit().unwrap();
    let mine = view(&family, vec![one, two]);
    let theirs = view(&family, vec![old, other]);
    assert_eq!(mine.pending(), 0);
    assert_eq!(best(&mine, "cherry").len(), 1);
    assert_eq!(best(&theirs, "cherry"), []);

    // The same files with nothing else in the index score the same.
    let dir = tempfile::tempdir().unwrap();
    let alone = Family::open(dir.path(), 0).unwrap();
    let one = entry(&alone, "a.txt", "apple banana");
    let two = entry(&alone, "b.txt", "apple cherry cherry");
    alone.commit().unwrap();
    let fresh = view(&alone, vec![one, two]);
    for word in ["apple", "banana", "cherry"] {
        assert_eq!(best(&mine, word), best(&fresh, word), "{word}");
    }
}

#[test]
fn a_commit_outlives_the_process_and_nothing_else_does() {
    let dir = tempfile::tempdir().unwrap();
    let family = Family::open(dir.path(), 0).unwrap();
    let kept = entry(&family, "a.txt", "apple");
    family.commit().unwrap();
    let lost = entry(&family, "b.txt", "banana");
    assert!(!family.knows(lost.unit));
    drop(family);
    let family = Family::open(dir.path(), 0).unwrap();
    assert!(family.knows(kept.unit) && !family.knows(lost.unit));
    let view = view(&family, vec![kept.clone(), lost]);
    assert_eq!(view.pending(), 1);
    assert_eq!(
        family.unit(kept.unit).unwrap().unwrap().parsed.chunks.len(),
        1
    );
}

#[test]
fn an_index_that_cannot_be_read_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("meta.json"), "{").unwrap();
    let family = Family::open(dir.path(), 0).unwrap();
    assert_eq!(family.count(), 0);
}

#[test]
fn what_is_written_again_replaces() {
    let dir = tempfile::tempdir().unwrap();
    let family = Family::open(dir.path(), 0).unwrap();
    let one = entry(&family, "a.txt", "apple");
    family.commit().unwrap();
    let parsed = parse::file("a.txt", b"apple");
    let mut grams = Grams::default();
    for _ in 0..2 {
        let put = family.put(one.unit, "a.txt", b"apple", &parsed, &mut grams, true);
        put.unwrap();
        family.commit().unwrap();
    }
    assert_eq!(best(&view(&family, vec![one.clone()]), "apple").len(), 1);
    family.forget(&[one.unit]).unwrap();
    family.commit().unwrap();
    assert!(!family.knows(one.unit));
    assert_eq!(best(&view(&family, vec![one]), "apple"), []);
}

#[test]
fn segments_of_alike_size_are_joined_and_say_the_same() {
    assert_eq!(alike(vec![(7, 'b'), (5, 'a'), (9, 'c')]), ['a', 'b', 'c']);
    assert_eq!(alike(vec![(5, 'a'), (100, 'b'), (6, 'c')]), ['a', 'c']);
    assert_eq!(
        alike(vec![(JOIN_DOCS_MAX, 'a'), (JOIN_DOCS_MAX, 'b')]),
        ['a']
    );
    let made = tempfile::tempdir().unwrap();
    let family = Family::open(made.path(), 0).unwrap();
    let mut entries = Vec::new();
    for at in 0..JOIN_MIN + 1 {
        let text = "fn pool() {}\n".repeat(at + 1);
        entries.push(entry(&family, &format!("{at}.rs"), &text));
        family.commit().unwrap();
    }
    let before = view(&family, entries.clone());
    let writer = family.writer().unwrap();
    let Join::Now(joining) = family.join(&writer) else {
        panic!("nothing was joined");
    };
    joining.wait().unwrap();
    family.reader.reload().unwrap();
    let after = view(&family, entries);
    let segments = [&before, &after].map(|view| view.searcher().segment_readers().len());
    assert_eq!(segments, [JOIN_MIN + 1, 1]);
    assert_eq!(best(&before, "pool"), best(&after, "pool"));
    assert!(matches!(family.join(&writer), Join::Done));
}

#[test]
fn what_is_passed_over_is_none_of_the_best() {
    let dir = tempfile::tempdir().unwrap();
    let family = Family::open(dir.path(), 0).unwrap();
    let (mut entries, mut long) = (Vec::new(), Vec::new());
    let mut random = 7_u32;
    let mut below = |most: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) % most
    };
    for file in 0..600 {
        // The files of a stretch have words of their own, and some are long.
        let (stretch, length) = (file / 50, 3 + below(8) * below(20));
        let word = |_| format!("w{} ", below(4) * below(12) + below(2) * stretch);
        let text: String = (0..length).map(word).collect();
        // So have they a worth.
        let dir = ["src", "tests", "vendor", "src"][stretch as usize % 4];
        entries.push(entry(&family, &format!("{file:03}/{dir}/a.txt"), &text));
        if length > 40 || file % 7 == 0 {
            long.extend(entries.last().cloned());
        }
        if file % 250 == 0 {
            family.commit().unwrap();
        }
    }
    family.commit().unwrap();
    // A tree that has less: segments have documents of others, and the mean length is another.
    let (all, some) = (view(&family, entries), view(&family, long));
    let term =
        |word: u32| Term::from_field_text(all.fields().of(Scored::Body), &format!("w{word}"));
    for words in [
        vec![1],
        vec![0, 3, 9],
        vec![2, 4, 11, 22, 33],
        (0..45).collect(),
    ] {
        let clause = |word: &u32| Clause {
            term: term(*word),
            weight: 0.3 + (*word % 5) as f32,
        };
        let clauses: Vec<Clause> = words.iter().map(clause).collect();
        let best = |view: &View, views: Vec<&View>, most: usize| {
            let priors = Priors::of(&[]);
            let factor = |entry: u32| match entry % 4 {
                2 => 0.0,
                _ => priors.factor(view.marks(entry)),
            };
            let choice = Choice {
                most,
                kinds: None,
                factor: &factor,
                most_of: &|marks| priors.factor(marks),
            };
            view.best(&clauses, &Pool { views }, &choice).unwrap()
        };
        for (view, views) in [
            (&all, vec![&all]),
            (&some, vec![&some, &all]),
            (&all, vec![&all, &some]),
        ] {
            // Who asks for all has nothing passed over.
            let plain = best(view, views.clone(), 10_000);
            for most in [1, 5, 40] {
                let most = most.min(plain.len());
                assert_eq!(best(view, views.clone(), most), plain[..most], "{words:?}");
            }
        }
    }
}

#[test]
fn what_is_written_while_others_commit_is_kept_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut family = Family::open(dir.path(), 0).unwrap();
    // Segments are full soon, so that some are being written whenever a part is committed.
    family.writer_bytes = 256 << 10;
    let text =
        |round: usize, at: usize| format!("fn pool_{round}_{at}() {{ apple(); }}\n").repeat(40);
    let path = |thread: usize, at: usize| format!("{thread}/{at}.rs");
    let put = |round: usize, thread: usize, at: usize, again: bool| {
        let (path, text) = (path(thread, at), text(round, at));
        let parsed = parse::file(&path, text.as_bytes());
        let unit = UnitId::of(&path, &Blob::of(text.as_bytes()));
        let mut grams = Grams::default();
        let put = family.put(unit, &path, text.as_bytes(), &parsed, &mut grams, again);
        put.unwrap();
        (unit, parsed.chunks.len() as u64 + 1)
    };
    // The second round writes half of the first again.
    let mut docs = 0;
    for round in 0..2 {
        let done = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (put, done) = (&put, &done);
                scope.spawn(move || {
                    for at in 0..60 {
                        let again = round == 1 && at % 2 == 0;
                        let (unit, docs) = put(if again { 0 } else { round }, thread, at, again);
                        done.lock().unwrap().push((unit, docs, again));
                    }
                });
            }
            while done.lock().unwrap().len() < 240 {
                let before: Vec<_> = done.lock().unwrap().clone();
                family.commit().unwrap();
                assert!(before.iter().all(|(unit, ..)| family.knows(*unit)));
                let there = units::all(&family.searcher()).unwrap();
                assert!(before.iter().all(|(unit, ..)| there.contains(unit)));
            }
        });
        family.commit().unwrap();
        let done = done.into_inner().unwrap();
        docs += done
            .iter()
            .filter(|(.., again)| !again)
            .map(|(_, docs, _)| docs)
            .sum::<u64>();
        assert_eq!(family.searcher().num_docs(), docs);
        assert!(done.iter().all(|(unit, ..)| family.knows(*unit)));
        assert!(family.lock().fresh.is_empty());
    }
    let again = Family::open(dir.path(), 0).unwrap();
    assert_eq!(again.count(), 240 + 120);
}
