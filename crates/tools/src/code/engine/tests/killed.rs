//! A process that is killed at any moment leaves an index that opens and goes on.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::*;

/// Where the child of this test works; set for it alone.
const ROLE: &str = "WEIR_CODE_TEST_CHILD";

fn child(top: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "code::engine::tests::killed::goes_on_where_it_was",
            "--nocapture",
        ])
        .env(ROLE, top)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The child: indexes, changes files, indexes again, until it is killed.
fn work(top: &Path) {
    let engine = Engine::open(settings(&top.join("data"), &[top.join("tree")])).unwrap();
    for round in 0.. {
        index(&engine, "");
        for i in 0..20 {
            let text = format!("fn changed_{round}_{i}() {{}}\nfn common() {{}}\n");
            write_all(&top.join("tree"), &[(&format!("c{i}.rs"), &text)]);
        }
        let ask = IndexAsk {
            force: round % 2 == 1,
            ..IndexAsk::default()
        };
        let job = engine.index(&ask).unwrap();
        engine.progress(&job.id).unwrap().last().unwrap();
    }
}

#[test]
fn goes_on_where_it_was() {
    if let Some(top) = std::env::var_os(ROLE) {
        return work(Path::new(&top));
    }
    let rounds = std::env::var("WEIR_CODE_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(8);
    let made = tempfile::tempdir().unwrap();
    let top = made.path().canonicalize().unwrap();
    let files: Vec<(String, String)> = (0..150)
        .map(|i| {
            (
                format!("d{}/f{i}.rs", i % 7),
                format!("fn stays_{i}() {{}}\nfn common() {{}}\n"),
            )
        })
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    write_all(&top.join("tree"), &files);
    let mut random = fastrand::Rng::with_seed(11);
    let mut slowest = Duration::ZERO;
    for round in 0..rounds {
        let mut running = child(&top);
        std::thread::sleep(Duration::from_millis(random.u64(5..700)));
        running.kill().unwrap();
        running.wait().unwrap();
        let began = Instant::now();
        let engine = Engine::open(settings(&top.join("data"), &[top.join("tree")])).unwrap();
        slowest = slowest.max(began.elapsed());
        index(&engine, "");
        let fresh_data = tempfile::tempdir().unwrap();
        let fresh = Engine::open(settings(fresh_data.path(), &[top.join("tree")])).unwrap();
        index(&fresh, "");
        for (query, mode) in [
            ("common", Mode::Text),
            ("stays_17", Mode::Symbol),
            ("changed", Mode::Auto),
        ] {
            let (ours, theirs) = (search(&engine, query, mode), search(&fresh, query, mode));
            let said = |answer: &Answer| {
                answer
                    .hits
                    .iter()
                    .map(|hit| hit.reference.clone())
                    .collect::<Vec<_>>()
            };
            assert_eq!(said(&ours), said(&theirs), "{query} after round {round}");
        }
    }
    println!("{rounds} kills; slowest start {slowest:?}");
}
