//! `make bench`, third part: what a scan costs, beside the `regex` crate running the same rules one by one.
//!
//! Every figure is CPU time of one thread (`CLOCK_THREAD_CPUTIME_ID`), because machines are shared. All
//! operations take turns, round by round; printed are the least, the median and the most. With `--once`
//! one operation runs alone a known number of times, so that valgrind can count its instructions.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")
)]

mod corpus;
mod naive;
mod operations;
mod rules;

use std::hint::black_box;
use std::sync::Barrier;

use corpus::Corpus;
use operations::Operation;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// Nanoseconds that one measurement takes at least.
const MEASURED_NS: u64 = 50_000_000;
const ROUNDS_DEFAULT: usize = 9;

/// CPU time of this thread, in nanoseconds.
pub fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let after = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1).cloned()
    };
    if args.first().is_some_and(|arg| arg == "start") {
        return start();
    }
    let corpus = Corpus::read();
    match args.first().map(String::as_str) {
        Some("rules") => return rules::each_alone(&corpus, after("rules")),
        Some("slow") => {
            println!("{}", rules::slow(after("slow")));
            return;
        }
        Some("grown") => {
            println!("{}", rules::grown(after("grown")));
            return;
        }
        _ => {}
    }
    let only = after("--only");
    let chosen = |operation: &Operation| {
        only.as_ref()
            .is_none_or(|only| operation.name.contains(&**only))
    };
    let mut all: Vec<Operation> = operations::all(&corpus)
        .into_iter()
        .filter(chosen)
        .collect();
    if let Some(times) = after("--once").and_then(|times| times.parse().ok()) {
        all.iter_mut().for_each(|operation| {
            counted(operation, times);
        });
        return;
    }
    let rounds = after("--rounds").and_then(|rounds| rounds.parse().ok());
    let figures = measure(&mut all, rounds.unwrap_or(ROUNDS_DEFAULT));
    for (operation, (ours, naive)) in all.iter().zip(&figures) {
        let naive = naive.map_or(String::new(), |naive| {
            format!("{:>12.2} µs naive", naive[1])
        });
        let [least, median, most] = ours;
        println!(
            "{:<34}{median:>10.2} µs ({least:.2} to {most:.2}){naive}",
            operation.name
        );
    }
    if let Some(path) = after("--json") {
        let operation = |(operation, (ours, naive)): (&Operation, &Figures)| json!({"name": operation.name, "bytes": operation.bytes, "us": ours, "naive_us": naive});
        let list: Vec<Value> = all.iter().zip(&figures).map(operation).collect();
        let result = json!({
            "real": corpus.real,
            "operations": list,
            "threads": threads(&corpus),
            "slow": rules::slow(None),
            "grown": rules::grown(None),
        });
        std::fs::write(&path, result.to_string()).expect("the result can be written");
    }
}

/// Least, median and most, in microseconds: of ours, and of the peer.
type Figures = ([f64; 3], Option<[f64; 3]>);

fn measure(all: &mut [Operation], rounds: usize) -> Vec<Figures> {
    let mut ours = vec![Vec::new(); all.len()];
    let mut naive = vec![Vec::new(); all.len()];
    for operation in all.iter_mut() {
        // Rules are compiled when they are first opened.
        (operation.ours)();
        operation.naive.as_mut().map(|peer| peer());
    }
    for _ in 0..rounds {
        for (i, operation) in all.iter_mut().enumerate() {
            // What was learned of a set of rules is forgotten where another one is searched with, as the operation before may
            // have; a gateway has one.
            microseconds(&mut operation.ours);
            ours[i].push(microseconds(&mut operation.ours));
            if let Some(peer) = &mut operation.naive {
                naive[i].push(microseconds(peer));
            }
        }
    }
    let spread = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        let middle = values.get(values.len() / 2)?;
        Some([values[0], *middle, values[values.len() - 1]])
    };
    let pairs = ours.into_iter().zip(naive);
    pairs
        .map(|(ours, naive)| (spread(ours).expect("there are rounds"), spread(naive)))
        .collect()
}

/// CPU time of one call of a body that makes several, in microseconds a call.
fn microseconds(body: &mut dyn FnMut() -> usize) -> f64 {
    let start = cpu_ns();
    let (mut calls, mut between) = (0, 1);
    loop {
        for _ in 0..between {
            calls += black_box(body());
        }
        let spent = cpu_ns() - start;
        if spent >= MEASURED_NS {
            return spent as f64 / 1000.0 / calls as f64;
        }
        // Asking for the time costs as much as a short operation: it is asked ever less often.
        between *= 2;
    }
}

/// What valgrind counts: see `bench/scan.py`.
#[inline(never)]
fn counted(operation: &mut Operation, times: usize) {
    (operation.ours)();
    let mut calls = 0;
    for _ in 0..times {
        calls += counted_body(operation);
    }
    println!("{}\t{calls}", operation.name);
}

#[inline(never)]
fn counted_body(operation: &mut Operation) -> usize {
    black_box((operation.ours)())
}

/// CPU time of a scan on one thread, and on each of two at once: what they share costs them.
fn threads(corpus: &Corpus) -> Value {
    let texts = corpus.stretches(10 << 10, 12);
    let engine = operations::engine(&[]);
    let run = |count: usize| -> f64 {
        let barrier = Barrier::new(count);
        let work = || {
            barrier.wait();
            let start = cpu_ns();
            for text in texts.iter().cycle().take(2400) {
                black_box(operations::text(&engine, text));
            }
            (cpu_ns() - start) as f64 / 2400.0 / 1000.0
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
            let each = all
                .into_iter()
                .map(|one| one.join().expect("a scan does not panic"));
            each.fold(0.0, f64::max)
        })
    };
    run(1);
    let best = |count| (0..5).map(|_| run(count)).fold(f64::MAX, f64::min);
    json!({"one_us": best(1), "two_us": best(2)})
}

/// What a start costs, in microseconds of CPU time, and a first scan after it.
fn start() {
    let before = cpu_ns();
    let settings = scan::Settings::default();
    let at = cpu_ns();
    let engine = scan::Engine::new(settings, [7; 32]);
    let built = cpu_ns();
    let json = br#"{"name":"run","arguments":{"command":"ls -la; cat Cargo.toml"}}"#;
    black_box(
        engine
            .call(scan::Direction::Outgoing, json, "", None)
            .is_ok(),
    );
    let first = cpu_ns();
    black_box(
        engine
            .call(scan::Direction::Outgoing, json, "", None)
            .is_ok(),
    );
    let second = cpu_ns();
    black_box(engine.text(scan::Direction::Outgoing, "größer", "").is_ok());
    let wide = cpu_ns();
    println!(
        "settings {} µs, Engine::new {} µs",
        (at - before) / 1000,
        (built - at) / 1000
    );
    println!(
        "first call {} µs, second {} µs",
        (first - built) / 1000,
        (second - first) / 1000
    );
    println!("first text that is not ASCII {} µs", (wide - second) / 1000);
}
