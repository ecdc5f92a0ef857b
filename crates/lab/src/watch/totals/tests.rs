//! Marks made by hand, so that every number is known.

use super::*;
use crate::schedule::Shape;
use crate::watch::tree::{Table, Tree};

/// A shot with CPU time and memory, and one thread that has used all of it and waited for half as long.
fn shot(cpu_us: u64, rss_bytes: u64) -> Shot {
    let sched = Sched {
        on_cpu_ns: cpu_us * 1000,
        waited_ns: cpu_us * 500,
        switches: 1,
    };
    Shot {
        cpu_us: Some(cpu_us),
        waited_us: Some(cpu_us / 2),
        switches: Some(cpu_us / 1000),
        rss_bytes: Some(rss_bytes),
        busiest: vec![Thread {
            tid: 7,
            name: "load-0-0".to_owned(),
            sched,
        }],
        ..Shot::default()
    }
}

/// Two subjects, of which the second is part of the first. Marks each second: the first subject uses 0.5 cores, the
/// second 0.25, the generator 0.2; the machine has two cores of which 1.5 are busy, 0.1 stolen.
fn book(begin: Instant, seconds: u64) -> Book {
    let tree = || Eye::Tree(Tree::new(&[], &Table::empty()));
    let mut watches = vec![
        Watch::new("a".to_owned(), tree()),
        Watch::new("b".to_owned(), tree()),
    ];
    watches[1].part_of = Some("a".to_owned());
    let mut book = Book::new(watches);
    for s in 0..=seconds {
        let host = host::Reading {
            cpu: host::Cpu {
                user_us: s * 1_000_000,
                system_us: s * 300_000,
                softirq_us: s * 100_000,
                steal_us: s * 100_000,
                idle_us: s * 500_000,
            },
            pressure: host::Pressure {
                cpu_us: Some(s * 250_000),
                ..host::Pressure::default()
            },
            load_1m: Some(1.5),
        };
        let at = begin + Duration::from_secs(s);
        book.host.push((at, host));
        book.marks.push(Mark {
            at,
            host,
            shots: vec![
                Some(shot(s * 500_000, 100 + s)),
                Some(shot(s * 250_000, 10)),
            ],
            rss_peaks: vec![Some(if s == 3 { 900 } else { 100 + s }), Some(10)],
            generator: shot(s * 200_000, 5),
            generator_rss_peak: Some(5),
        });
    }
    book
}

fn window(step: &str, spans: &[(u64, u64)], requests: u64) -> Window {
    let ns = |s: &u64| s * 1_000_000_000;
    Window {
        step: step.to_owned(),
        spans: spans.iter().map(|(from, to)| (ns(from), ns(to))).collect(),
        requests,
    }
}

fn assert_near(found: f64, want: f64) {
    assert!((found - want).abs() < 1e-6, "{found}, not {want}");
}

#[test]
fn a_step_has_what_passed_between_its_marks() {
    let begin = Instant::now();
    let book = book(begin, 10);
    let watched = Totals { book: &book, begin }.watched(&[window("one", &[(2, 4)], 1000)]);
    let step = &watched.subjects[0].steps[0];
    assert_near(step.cpu_us, 1_000_000.0);
    assert_near(step.cpu_us_per_request.unwrap(), 1000.0);
    assert_near(step.cores, 0.5);
    assert_eq!(
        (step.rss_bytes_max, step.rss_bytes_end),
        (Some(900), Some(104))
    );
    assert_eq!(
        (step.waited_us, step.switches),
        (Some(500_000.0), Some(1000))
    );
    assert_near(step.threads[0].busy_share, 0.5);
    assert_near(step.threads[0].waited_share, 0.25);
    let generator = watched.subjects.last().unwrap();
    assert_eq!(generator.kind, "generator");
    assert_near(generator.steps[0].cpu_us_per_request.unwrap(), 400.0);
    assert!(watched.noise.is_none(), "nothing is called measured");
}

#[test]
fn a_late_mark_is_scaled_away() {
    let begin = Instant::now();
    let mut book = book(begin, 2);
    book.marks[2].at += Duration::from_millis(100);
    for shot in book.marks[2].shots.iter_mut().flatten() {
        shot.cpu_us = shot.cpu_us.map(|us| us + 50_000);
    }
    let watched = Totals { book: &book, begin }.watched(&[window("", &[(0, 2)], 1000)]);
    assert_near(watched.subjects[0].steps[0].cpu_us, 1_000_000.0);
    assert_near(watched.subjects[0].steps[0].seconds, 2.0);
}

#[test]
fn several_spans_are_one_window_and_others_are_what_is_left() {
    let begin = Instant::now();
    let book = book(begin, 10);
    let windows = [window("", &[(1, 3), (5, 6)], 3000)];
    let watched = Totals { book: &book, begin }.watched(&windows);
    assert_near(watched.subjects[0].steps[0].cpu_us, 1_500_000.0);
    assert_near(watched.subjects[0].steps[0].seconds, 3.0);
    let noise = watched.noise.as_ref().unwrap();
    assert_near(noise.steal_share, 0.05);
    assert_near(noise.pressure_share.unwrap(), 0.25);
    assert_eq!(noise.pressure_io_share, None);
    // 1.3 cores of tasks, less 0.5 watched (of which 0.25 twice) and 0.2 ours, of two cores.
    assert_near(noise.others_share.unwrap(), 0.3);
    assert_near(watched_cpu_us(&watched, "").unwrap(), 500.0);
    assert_eq!(watched_cpu_us(&watched, "none"), None);
    assert_eq!(watched.host.len(), 10);
    assert_near(watched.host[0].busy_share, 0.75);
}

#[test]
fn what_was_cut_short_lasts_as_long_as_it_did() {
    let begin = Instant::now();
    let book = book(begin, 3);
    let windows = [
        window("cut", &[(2, 10)], 10),
        window("never", &[(10, 20)], 0),
    ];
    let watched = Totals { book: &book, begin }.watched(&windows);
    let steps = &watched.subjects[0].steps;
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert_near(steps[0].seconds, 1.0);
    assert_near(steps[0].cpu_us, 500_000.0);
}

#[test]
fn nothing_watched_leaves_others_unknown() {
    let begin = Instant::now();
    let mut book = book(begin, 2);
    book.watches.clear();
    let watched = Totals { book: &book, begin }.watched(&[window("", &[(0, 2)], 1)]);
    assert_eq!(watched.noise.unwrap().others_share, None);
}

#[test]
fn looks_within_a_few_ticks_are_no_shares() {
    let begin = Instant::now();
    let mut book = book(begin, 1);
    let (at, reading) = *book.host.points().last().unwrap();
    book.host.push((at + Duration::from_millis(3), reading));
    assert_eq!(Totals { book: &book, begin }.host().len(), 1);
}

#[test]
fn a_full_list_of_threads_counts_no_whole_lives() {
    let thread = |tid, ns| Thread {
        tid,
        name: String::new(),
        sched: Sched {
            on_cpu_ns: ns,
            ..Sched::default()
        },
    };
    let full: Vec<Thread> = (0..BUSIEST_MAX as u32)
        .map(|tid| thread(tid, 100))
        .collect();
    let mut sum = Used::default();
    add_threads(&mut sum, &full, &[thread(999, 5000), thread(3, 160)]);
    assert_eq!((sum[&999].1, sum[&3].1), (0, 60));
    let mut sum = Used::default();
    add_threads(&mut sum, &full[..3], &[thread(999, 5000)]);
    assert_eq!(sum[&999].1, 5000, "it began in between");
}

#[test]
fn windows_are_named_as_steps_are() {
    let hold = |name: &str, warmup, s| {
        let lasting = Duration::from_secs(s);
        (name.to_owned(), warmup, Shape::Hold { at: 1.0, lasting })
    };
    let ramp = |name: &str, to, s| {
        let over = Duration::from_secs(s);
        (name.to_owned(), false, Shape::Ramp { to, over })
    };
    let one = Profile::new([
        hold("warm", true, 1),
        ramp("up", 9.0, 2),
        hold("steady", false, 3),
    ]);
    let two = Profile::new([hold("steady", false, 4)]);
    let ramps = Profile::new([ramp("only", 5.0, 10)]);
    let found = windows([&one, &two]);
    let want = [
        window("warm", &[(0, 1)], 0),
        window("up", &[(1, 3)], 0),
        window("steady", &[(0, 6)], 0),
        window("", &[(0, 6)], 0),
    ];
    assert_eq!(found, want);
    assert_eq!(windows([&ramps]).last(), Some(&window("", &[(0, 10)], 0)));
    assert_eq!(windows([&one])[3], window("", &[(3, 6)], 0));
}
