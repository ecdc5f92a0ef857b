//! Runs made by hand, one for each way to be invalid.

use std::collections::BTreeMap;

use super::*;
use crate::result::{Noise, Quantiles, SubjectStep, Summary, ThreadShare};

/// A closed run of one flow with one hold that is valid.
fn run() -> Run {
    let quantiles = |p99| Quantiles {
        count: 1000,
        p99,
        ..Quantiles::default()
    };
    let latency = [("response", 4000.0), ("lag", 10.0)];
    let step = StepResult {
        name: "steady".to_owned(),
        kind: "hold".to_owned(),
        summary: Summary {
            seconds: 10.0,
            requests: 100_000,
            rate: 10_000.0,
            latency: latency
                .map(|(name, p99)| (name.to_owned(), quantiles(p99)))
                .into(),
            generator_cpu_us: Some(50.0),
            ..Summary::default()
        },
        ..StepResult::default()
    };
    let mut run = Run::default();
    run.flows.push(FlowResult {
        name: "f".to_owned(),
        model: "closed".to_owned(),
        threads: 1,
        steps: vec![step],
        ..FlowResult::default()
    });
    run.watched.noise = Some(Noise {
        others_share: Some(0.05),
        pressure_share: Some(0.9),
        ..Noise::default()
    });
    run
}

fn subject(kind: &str, cores: f64, busy_share: f64, waited_share: f64) -> SubjectResult {
    let thread = ThreadShare {
        name: "t".to_owned(),
        busy_share,
        waited_share,
    };
    SubjectResult {
        name: kind.to_owned(),
        kind: kind.to_owned(),
        steps: vec![SubjectStep {
            step: "steady".to_owned(),
            cores,
            threads: vec![thread],
            ..SubjectStep::default()
        }],
        ..SubjectResult::default()
    }
}

fn summary(run: &mut Run) -> &mut Summary {
    &mut run.flows[0].steps[0].summary
}

fn open_run(lag_us: f64, response_us: f64, queued: u64, rate: f64) -> Run {
    let mut run = run();
    run.flows[0].model = "open".to_owned();
    let summary = summary(&mut run);
    summary.rate_planned = Some(10_000.0);
    summary.rate = rate;
    summary.queued = queued;
    let p99 = |p99| Quantiles {
        p99,
        ..Quantiles::default()
    };
    summary.latency = BTreeMap::from([
        ("lag".to_owned(), p99(lag_us)),
        ("response".to_owned(), p99(response_us)),
    ]);
    run
}

#[track_caller]
fn check(run: &Run, want: Verdict, says: &str) {
    let found = validity(run, Claim::Load);
    assert_eq!(found.verdict, want, "{:#?}", found.criteria);
    let told: Vec<&str> = found
        .criteria
        .iter()
        .filter(|criterion| want == Verdict::Valid || !criterion.holds)
        .map(|criterion| criterion.evidence.as_str())
        .collect();
    assert!(
        told.iter().any(|text| text.contains(says)),
        "{says:?} is not in {told:#?}"
    );
}

#[test]
fn a_closed_run_is_bound_by_the_busier_side() {
    check(&run(), Verdict::Valid, "busy for 50.0 % of steady");
    let mut busy = run();
    summary(&mut busy).generator_cpu_us = Some(95.0);
    check(&busy, Verdict::GeneratorBound, "watch the target");
    // Target watched: cores, busy, waited; whether the run is valid.
    let cases = [
        (
            0.99,
            0.99,
            0.0,
            false,
            "a tie, and the generator takes as much CPU and more",
        ),
        (1.50, 0.99, 0.0, true, "a tie, and the target takes more"),
        (
            1.60,
            0.40,
            0.0,
            false,
            "four threads at 40 %: the generator is the limit",
        ),
    ];
    for (cores, share, waited, valid, why) in cases {
        let mut run = busy.clone();
        summary(&mut run).generator_cpu_us = Some(99.9);
        run.watched.subjects = vec![subject("process", cores, share, waited)];
        let found = validity(&run, Claim::Load).verdict;
        assert_eq!(found == Verdict::Valid, valid, "{why}");
    }
}

#[test]
fn a_generator_that_waits_for_a_cpu_is_at_its_limit() {
    let mut run = run();
    run.watched.subjects = vec![
        subject("generator", 0.5, 0.5, 0.49),
        subject("process", 0.3, 0.3, 0.1),
    ];
    check(
        &run,
        Verdict::GeneratorBound,
        "busy or waiting for a CPU for 99.0 %",
    );
    run.watched.subjects[1] = subject("process", 1.5, 0.6, 0.4);
    check(&run, Verdict::Valid, "the target was the busier side");
}

#[test]
fn an_open_run_is_bound_by_lateness_that_is_its_own() {
    check(
        &open_run(50.0, 4000.0, 0, 10_000.0),
        Verdict::Valid,
        "lag p99 was 0.050 ms",
    );
    check(
        &open_run(900.0, 4000.0, 0, 10_000.0),
        Verdict::Valid,
        "bound: 1.000 ms",
    );
    check(
        &open_run(1500.0, 4000.0, 0, 10_000.0),
        Verdict::GeneratorBound,
        "1.500 ms",
    );
    check(
        &open_run(1500.0, 40_000.0, 0, 10_000.0),
        Verdict::Valid,
        "bound: 2.000 ms",
    );
    // A frozen target: everything waits for a connection.
    check(
        &open_run(1.8e6, 1.9e6, 30_000, 10_000.0),
        Verdict::Valid,
        "waited for one of",
    );
    check(
        &open_run(50.0, 4000.0, 0, 9_000.0),
        Verdict::GeneratorBound,
        "90.0 % of the arrivals",
    );
    check(
        &open_run(1.8e6, 1.9e6, 30_000, 5_000.0),
        Verdict::Valid,
        "waited for one of",
    );
    let mut busy = open_run(1.8e6, 1.9e6, 30_000, 5_000.0);
    summary(&mut busy).generator_cpu_us = Some(199.0);
    check(&busy, Verdict::GeneratorBound, "busy for 99.5 %");
}

#[test]
fn a_noisy_host_is_told() {
    let mut noisy = run();
    noisy.watched.noise.as_mut().unwrap().others_share = Some(0.11);
    check(&noisy, Verdict::NoisyHost, "others used 11.0 %");
    let mut noisy = run();
    noisy.watched.noise.as_mut().unwrap().steal_share = 0.03;
    check(&noisy, Verdict::NoisyHost, "gave 3.0 %");
    let mut unknown = run();
    unknown.watched.noise.as_mut().unwrap().others_share = None;
    check(&unknown, Verdict::Valid, "cannot be told");
    check(
        &run(),
        Verdict::Valid,
        "ours included, waited for a CPU for 90.0 %",
    );
    unknown.watched.noise = None;
    check(&unknown, Verdict::Valid, "not watched");
}

#[test]
fn what_is_accepted_does_not_hide_what_is_not() {
    let mut run = open_run(1500.0, 4000.0, 0, 10_000.0);
    run.watched.noise.as_mut().unwrap().others_share = Some(0.9);
    let found = validity(&run, Claim::Load);
    assert_eq!(found.verdict, Verdict::NoisyHost);
    assert_eq!(unaccepted(&found, &[]), Verdict::NoisyHost);
    assert_eq!(
        unaccepted(&found, &[Verdict::NoisyHost]),
        Verdict::GeneratorBound
    );
    let both = [Verdict::NoisyHost, Verdict::GeneratorBound];
    assert_eq!(unaccepted(&found, &both), Verdict::Valid);
}

#[test]
fn a_short_hold_and_no_hold_are_too_short() {
    let mut short = run();
    summary(&mut short).seconds = 4.9;
    check(&short, Verdict::TooShort, "steady lasts 4.9 s");
    let mut ramp = run();
    ramp.flows[0].steps[0].kind = "ramp".to_owned();
    check(&ramp, Verdict::TooShort, "no hold");
    check(&run(), Verdict::Valid, "too few requests for p99.9");
    let mut partial = short;
    partial.meta.partial = true;
    check(&partial, Verdict::Interrupted, "was stopped after");
    partial.meta.stopped_by = Some("http_req_failed: rate<0.01".to_owned());
    check(
        &partial,
        Verdict::Valid,
        "as asked when http_req_failed: rate<0.01",
    );
}

#[test]
fn only_a_claim_of_capacity_needs_saturation() {
    let saturated = |run: &Run| validity(run, Claim::Saturation).verdict == Verdict::Valid;
    let mut run = run();
    assert!(!saturated(&run), "nothing is watched");
    run.watched.subjects = vec![subject("process", 0.6, 0.6, 0.0)];
    assert!(!saturated(&run));
    assert_eq!(validity(&run, Claim::Load).verdict, Verdict::Valid);
    run.watched.subjects = vec![subject("process", 0.95, 0.95, 0.0)];
    assert!(saturated(&run));
    let mut open = open_run(1.8e6, 1.9e6, 30_000, 5_000.0);
    assert!(saturated(&open));
    summary(&mut open).rate = 10_000.0;
    assert!(!saturated(&open));
}

#[test]
fn an_empty_run_is_judged() {
    check(&Run::default(), Verdict::TooShort, "nothing was run");
    assert_eq!(exit(Verdict::Valid), Exit::Pass);
    assert_eq!(exit(Verdict::Interrupted).code(), 105);
}
