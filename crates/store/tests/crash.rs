//! A process that appends is killed at random moments; nothing that it acknowledged may be lost.
//!
//! The child is this test binary, started again with a directory in its environment.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use gate::ports::Recorder;
use store::{Durability, Log, LogSettings, audit};

const DIR: &str = "STORE_CRASH_TEST_DIR";
const ROUNDS: u64 = 20;
const THREADS: usize = 4;

fn settings(durability: Durability) -> LogSettings {
    LogSettings {
        origin: "crash.example".into(),
        durability,
        bytes_max: 1 << 30,
    }
}

/// The child: appends until it is killed, and prints each index once it is acknowledged.
#[test]
fn child_appends_until_it_is_killed() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let durability = if dir.ends_with("os") {
        Durability::Os
    } else {
        Durability::Fsync
    };
    let log = Arc::new(Log::open(Path::new(&dir), settings(durability)).unwrap());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = Arc::clone(&log);
            scope.spawn(move || {
                loop {
                    let record = format!(r#"{{"thread":{thread}}}"#).into_bytes();
                    let index = log.append(record).blocking_recv().unwrap().unwrap();
                    log.note(b"{\"kind\":\"outcome\"}".to_vec());
                    writeln!(std::io::stdout(), "acknowledged {index} {thread}").unwrap();
                }
            });
        }
    });
}

/// Runs the child until it has acknowledged `count`, kills it, and returns all that it acknowledged.
fn run_and_kill(dir: &Path, count: usize) -> Vec<(u64, String)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child_appends_until_it_is_killed", "--exact", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acknowledged = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        // The last line may be torn by the kill; then it does not count.
        let line = line.unwrap();
        let mut words = line
            .split(' ')
            .skip_while(|word| *word != "acknowledged")
            .skip(1);
        if let (Some(index), Some(thread)) = (words.next(), words.next()) {
            acknowledged.push((index.parse().unwrap(), thread.to_owned()));
        }
        if acknowledged.len() == count {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(acknowledged.len() >= count, "the child stopped by itself");
    acknowledged
}

#[test]
fn nothing_acknowledged_is_lost() {
    let root = tempfile::tempdir().unwrap();
    let seed = std::process::id().into();
    let mut random: u64 = seed;
    for round in 0..ROUNDS {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let (name, durability) =
            [("fsync", Durability::Fsync), ("os", Durability::Os)][(round % 2) as usize];
        let dir = root.path().join(name);
        let acknowledged = run_and_kill(&dir, 1 + (random >> 33) as usize % 80);
        let log = Log::open(&dir, settings(durability)).unwrap();
        let vkey = log.vkey().to_owned();
        let size = log.size();
        log.close().unwrap();
        let verified = audit::verify(&dir, Some(&vkey)).unwrap();
        assert_eq!(verified.entries, size, "seed {seed} round {round}");
        let records: Vec<_> = audit::entries(&dir, 0)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        for (index, thread) in acknowledged {
            let kept = &records[index as usize];
            assert_eq!(kept.0, index, "seed {seed} round {round}");
            assert_eq!(
                kept.1,
                format!(r#"{{"thread":{thread}}}"#).into_bytes(),
                "seed {seed} round {round}"
            );
        }
    }
}
