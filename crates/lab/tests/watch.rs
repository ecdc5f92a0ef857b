//! Watches real processes that use a known amount of CPU, and a real metrics endpoint.
//!
//! The processes are this test binary itself, told by its environment what to be.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lab::result::{SubjectStep, Watched};
use lab::schedule::{Profile, Shape};
use lab::watch::{Subject, Watcher, Window, windows};

const ROLE: &str = "WEIR_LAB_WATCH_TEST_ROLE";

/// Not a test: what the processes that are started below do.
#[test]
fn plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    // The harness captures what `println!` writes.
    let say = |text: &str| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "said {text}").unwrap();
        out.flush().unwrap();
    };
    let hear = || {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        !line.is_empty()
    };
    say("ready");
    if !hear() {
        return;
    }
    match role.as_str() {
        "spin" => spin_ms(200),
        "threads" => {
            // Four threads that have ended when anybody looks.
            for _ in 0..4 {
                std::thread::spawn(|| spin_ms(50)).join().unwrap();
            }
        }
        "parent" => {
            for _ in 0..2 {
                let mut child = Played::start("spin");
                child.go();
                child.end();
            }
        }
        other => panic!("no role {other}"),
    }
    say("done");
    hear();
}

/// Uses CPU until this thread's own clock has gone on by so much.
fn spin_ms(ms: u64) {
    let clock = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let until = clock() + ms * 1_000_000;
    while clock() < until {}
}

/// A process that plays a role, and what is said to it and by it.
struct Played {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Played {
    fn start(role: &str) -> Played {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "plays_its_role",
                "--exact",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let mut played = Played {
            child,
            stdin,
            stdout: BufReader::new(stdout),
        };
        played.wait_for("said ready");
        played
    }

    fn wait_for(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert!(
                self.stdout.read_line(&mut line).unwrap() > 0,
                "ended before {text:?}"
            );
        }
    }

    /// Lets it do its part, and waits until it has.
    fn go(&mut self) {
        self.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        self.wait_for("said done");
    }

    fn end(&mut self) {
        drop(self.stdin.take());
        self.child.wait().unwrap();
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Watches while something is done, exactly from its begin to its end.
fn watch_while(subjects: &[Subject], act: impl FnOnce(&Watcher)) -> (Watched, Vec<String>) {
    // So long between samples that only the marks see anything.
    let watcher = Watcher::start(subjects, Duration::from_secs(600)).unwrap();
    let begin = Instant::now();
    watcher.follow(begin, []);
    watcher.mark();
    let from = begin.elapsed().as_nanos() as u64;
    act(&watcher);
    watcher.mark();
    let to = begin.elapsed().as_nanos() as u64;
    let window = Window {
        step: String::new(),
        spans: vec![(from, to)],
        requests: 1000,
    };
    let (watched, mut warnings) = watcher.finish(&[window]);
    // Other tests on the machine may use its ports up; that is told, and is not what is tested here.
    warnings.retain(|text| !text.contains("local ports"));
    (watched, warnings)
}

fn step<'a>(watched: &'a Watched, kind: &str) -> &'a SubjectStep {
    let subject = watched
        .subjects
        .iter()
        .find(|subject| subject.kind == kind)
        .unwrap();
    &subject.steps[0]
}

#[track_caller]
fn assert_within(found_us: f64, want_us: f64, share: f64) {
    let off = (found_us / want_us - 1.0).abs();
    assert!(off < share, "{found_us} µs of {want_us} µs");
}

#[test]
fn a_process_that_uses_200_ms_is_seen_to() {
    let mut child = Played::start("spin");
    let pid = child.child.id();
    let (watched, warnings) = watch_while(&[Subject::Pid(pid)], |_| child.go());
    let found = step(&watched, "process");
    assert_within(found.cpu_us, 200_000.0, 0.05);
    assert_within(found.cpu_us_per_request.unwrap(), 200.0, 0.05);
    assert!(found.rss_bytes_max.unwrap() > 100_000);
    assert!(found.threads[0].busy_share > 0.0, "{:?}", found.threads);
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn threads_that_ended_in_between_are_seen() {
    let mut child = Played::start("threads");
    let pid = child.child.id();
    let (watched, _) = watch_while(&[Subject::Pid(pid)], |_| child.go());
    // Only `stat` knows of them, to a tick of 10 ms for each of user and system time.
    assert_within(step(&watched, "process").cpu_us, 200_000.0, 0.11);
}

#[test]
fn grandchildren_that_ended_in_between_are_seen() {
    let mut child = Played::start("parent");
    let pid = child.child.id();
    let (watched, _) = watch_while(&[Subject::Pid(pid)], |_| child.go());
    // Twice 200 ms and two starts of this binary, in ticks.
    let cpu_us = step(&watched, "process").cpu_us;
    assert!((370_000.0..600_000.0).contains(&cpu_us), "{cpu_us}");
}

#[test]
fn grandchildren_seen_alive_are_counted_once() {
    let mut child = Played::start("parent");
    let pid = child.child.id();
    let (watched, _) = watch_while(&[Subject::Pid(pid)], |watcher| {
        child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                child.wait_for("said done");
                done.store(true, Ordering::Release);
            });
            // As many looks as there is time for: each grandchild is met alive, gone, and everything between.
            while !done.load(Ordering::Acquire) {
                watcher.mark();
            }
            waits.join().unwrap();
        });
    });
    let cpu_us = step(&watched, "process").cpu_us;
    assert!((370_000.0..600_000.0).contains(&cpu_us), "{cpu_us}");
}

#[test]
fn a_process_that_ends_is_a_warning_and_keeps_its_time() {
    let mut child = Played::start("spin");
    let pid = child.child.id();
    let (watched, warnings) = watch_while(&[Subject::Pid(pid)], |watcher| {
        child.go();
        watcher.mark();
        child.end();
    });
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("was found ended"), "{warnings:?}");
    assert_within(step(&watched, "process").cpu_us, 200_000.0, 0.05);
    assert_eq!(step(&watched, "process").rss_bytes_end, None);
}

#[test]
fn the_same_process_twice_is_no_others_work() {
    let mut child = Played::start("spin");
    let pid = child.child.id();
    let (watched, warnings) = watch_while(&[Subject::Pid(pid), Subject::Pid(pid)], |_| child.go());
    assert!(warnings[0].contains("counted once"), "{warnings:?}");
    let noise = watched.noise.unwrap();
    assert!(noise.others_share.is_some());
    assert!((0.0..=1.0).contains(&noise.steal_share));
    assert!(watched.ports.unwrap().range > 0);
}

#[test]
fn subjects_that_are_not_there_end_the_command() {
    let start = |subjects: &[Subject]| {
        Watcher::start(subjects, Duration::from_secs(1))
            .err()
            .unwrap()
    };
    let nobody = Subject::Name {
        name: "no-such-process".to_owned(),
        all: false,
    };
    assert!(
        start(std::slice::from_ref(&nobody))
            .what
            .contains("no process named no-such-process")
    );
    let many = vec![nobody; 40];
    assert!(start(&many).what.contains("32 is the most"));
}

#[test]
fn steps_are_marked_by_themselves() {
    let hold = |name: &str, warmup| {
        let lasting = Duration::from_millis(400);
        (name.to_owned(), warmup, Shape::Hold { at: 1.0, lasting })
    };
    let profile = Profile::new([hold("first", true), hold("second", false)]);
    let watcher = Watcher::start(&[], Duration::from_secs(600)).unwrap();
    watcher.follow(Instant::now(), [&profile]);
    let until = Instant::now() + Duration::from_millis(810);
    while Instant::now() < until {
        spin_ms(5);
    }
    let (watched, _) = watcher.finish(&windows([&profile, &profile]));
    let steps: Vec<&str> = watched.subjects[0]
        .steps
        .iter()
        .map(|step| step.step.as_str())
        .collect();
    assert_eq!(steps, ["first", "second", ""]);
    for step in &watched.subjects[0].steps {
        assert!((step.seconds - 0.4).abs() < 1e-9, "{step:?}");
        assert!(step.cores > 0.0, "{step:?}");
        assert_eq!(step.cpu_us_per_request, None, "no requests were said");
    }
}

/// Answers each question with a counter that is larger by 10, until it is dropped.
fn endpoint() -> (String, Arc<AtomicU64>, std::thread::JoinHandle<()>) {
    let count = Arc::new(AtomicU64::new(0));
    let counted = count.clone();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        for asked in 1_u32.. {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let count = stream.read(&mut request).unwrap();
            if count == 0 {
                return;
            }
            assert!(request.starts_with(b"GET /metrics HTTP/1.0\r\n"));
            let body = format!(
                "# TYPE asked_total counter\nasked_total{{a=\"b\"}} {}\nin_use 7\nother 1\n\
                 process_cpu_seconds_total {}\n",
                asked * 10,
                f64::from(asked) * 0.5,
            );
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all((head + &body).as_bytes()).unwrap();
            drop(stream);
            counted.store(u64::from(asked), Ordering::Release);
        }
    });
    (url, count, thread)
}

#[test]
fn a_metrics_endpoint_is_asked() {
    let (url, asked, thread) = endpoint();
    let address = url
        .trim_start_matches("http://")
        .trim_end_matches("/metrics")
        .to_owned();
    let metrics = ["asked", "in_use", "process_cpu_seconds_total"].map(str::to_owned);
    let subject = Subject::Prometheus {
        url: url.clone(),
        metrics: metrics.to_vec(),
    };
    let (watched, warnings) = watch_while(&[subject], |watcher| {
        // The answers come in on another thread. One for the first mark is waited for, and one for a later mark.
        for _ in 0..2 {
            let before = asked.load(Ordering::Acquire);
            watcher.mark();
            while asked.load(Ordering::Acquire) < before + 2 {
                watcher.mark();
            }
        }
    });
    assert_eq!(warnings, Vec::<String>::new());
    let subject = &watched.subjects[0];
    assert_eq!(
        (subject.kind.as_str(), subject.name.as_str()),
        ("prometheus", url.as_str())
    );
    let step = &subject.steps[0];
    assert_eq!(step.values["in_use"], 7.0);
    assert!(step.rates["asked_total{a=\"b\"}"] > 0.0);
    assert!(step.cpu_us > 0.0 && step.cpu_us_per_request.is_some());
    assert!(!step.values.contains_key("other"));
    let missing = Subject::Prometheus {
        url,
        metrics: vec!["absent".to_owned()],
    };
    let error = Watcher::start(&[missing], Duration::from_secs(1))
        .err()
        .unwrap();
    assert!(
        error.what.contains("has none of the metrics absent"),
        "{error}"
    );
    drop(std::net::TcpStream::connect(address).unwrap());
    thread.join().unwrap();
}

#[test]
fn what_was_watched_can_be_written_and_read() {
    let (watched, _) = watch_while(&[Subject::Pid(std::process::id())], |_| spin_ms(5));
    let text = serde_json::to_string(&watched).unwrap();
    let again: Watched = serde_json::from_str(&text).unwrap();
    assert_eq!(again.subjects.len(), 2);
    assert_eq!(
        again.subjects[0].steps[0].threads.len(),
        step(&watched, "process").threads.len()
    );
    assert_eq!(again.ports, watched.ports);
}
