//! The promises of `compare`, each as a rate over many made-up comparisons.
//!
//! Seeds are fixed, so a rate is the same number each time; its bound is the binomial quantile that a comparison
//! which keeps the promise passes in all but one of ten thousand.

use lab::experiments::compare::answer::{Answer, Judged, Pair, Rule, judge_blocks, judge_unpaired};
use lab::experiments::compare::blocks::{Count, Interleaved};
use lab::experiments::compare::metrics::{Errors, METRIC, METRICS};
use lab::stats::counts::binomial_most;
use lab::stats::power::{Design, POWER};

use super::world::{ALL, NOISY, Noise, QUIET, compared};

const ALPHA: f64 = 0.01;
const MARGIN: f64 = 0.048_790_164_169_432; // ln(1.05)
const SLOWER: f64 = 0.095_310_179_804_325; // ln(1.1)

fn rule(margin: f64) -> Rule {
    Rule {
        alpha: ALPHA,
        margin,
        judged: (0..METRICS).collect(),
    }
}

fn cpu_only() -> Rule {
    Rule {
        judged: vec![0],
        ..rule(MARGIN)
    }
}

fn alarmed(answer: Answer) -> bool {
    matches!(answer, Answer::Better | Answer::Worse)
}

/// How many of `times` comparisons answer so.
fn count(times: u64, mut answers: impl FnMut(u64) -> bool) -> u64 {
    (0..times).filter(|seed| answers(*seed)).count() as u64
}

#[test]
fn false_alarms_are_as_rare_as_promised() {
    // Nearly no margin, so that nothing but the interval holds the promise.
    const TIMES: u64 = 1000;
    for (name, noise) in ALL {
        for (counted, blocks) in [
            (6, Count::Fixed(6)),
            (24, Count::Fixed(24)),
            (0, Count::Auto { most: 24 }),
        ] {
            let rule = rule(1e-6);
            let alarms = count(TIMES, |seed| {
                alarmed(compared(*noise, 0.0, blocks, &rule, seed).judged.answer)
            });
            let most = binomial_most(TIMES, ALPHA, 1e-4);
            println!("{name}, {counted} blocks: {alarms} false alarms in {TIMES}, at most {most}");
            assert!(alarms <= most, "{name}, {counted}: {alarms} of {TIMES}");
        }
    }
}

/// The share of comparisons on one metric that find B slower.
fn found(noise: Noise, effect: f64, blocks: usize, times: u64) -> f64 {
    let rule = cpu_only();
    let hits = count(times, |seed| {
        compared(noise, effect, Count::Fixed(blocks), &rule, seed)
            .judged
            .answer
            == Answer::Worse
    });
    hits as f64 / times as f64
}

#[test]
fn a_slowdown_is_found_with_the_power_that_is_printed() {
    for (noise, blocks) in [
        (QUIET, 6),
        (QUIET, 12),
        (QUIET, 24),
        (NOISY, 24),
        (NOISY, 60),
    ] {
        let level = level_of_cpu_alone(noise, blocks);
        let power = Design::of_blocks(blocks as u32, noise.pair, level, MARGIN).power(SLOWER);
        let found = found(noise, SLOWER, blocks, 1000);
        println!(
            "noise {}, {blocks} blocks: 10 % slower found in {found:.3}, printed power {power:.3}",
            noise.pair
        );
        assert!((found - power).abs() < 0.05, "{found} is not {power}");
    }
}

/// The level that the comparison itself says it judged CPU per request at.
fn level_of_cpu_alone(noise: Noise, blocks: usize) -> f64 {
    let judged = compared(noise, 0.0, Count::Fixed(blocks), &cpu_only(), 1).judged;
    judged.findings[0].level
}

#[test]
fn the_least_effect_that_is_printed_is_found_in_four_of_five() {
    for (noise, blocks) in [(QUIET, 6), (QUIET, 12), (NOISY, 24)] {
        let rule = cpu_only();
        let mut hits = 0;
        const TIMES: u64 = 400;
        for seed in 0..TIMES {
            // What one comparison prints, tried as the truth of another.
            let pilot = compared(noise, 0.0, Count::Fixed(blocks), &rule, seed);
            let effect = pilot.judged.findings[0].design().detectable();
            let trial = compared(noise, effect, Count::Fixed(blocks), &rule, TIMES + seed);
            hits += u64::from(trial.judged.answer == Answer::Worse);
        }
        let found = hits as f64 / TIMES as f64;
        println!(
            "noise {}, {blocks} blocks: the printed least effect found in {found:.3}",
            noise.pair
        );
        assert!(
            (POWER - 0.1..POWER + 0.1).contains(&found),
            "{blocks}: {found}"
        );
    }
}

#[test]
fn same_is_never_said_of_a_difference_that_matters() {
    const TIMES: u64 = 1000;
    let still = Noise {
        pair: 0.03,
        ..QUIET
    };
    let rule = cpu_only();
    for (noise, blocks) in [(still, 6), (still, 24), (QUIET, 24), (QUIET, 60)] {
        for effect in [1.0001 * MARGIN, -1.0001 * MARGIN, SLOWER] {
            let same = count(TIMES, |seed| {
                let compared = compared(noise, effect, Count::Fixed(blocks), &rule, seed);
                compared.judged.answer == Answer::Same
            });
            let most = binomial_most(TIMES, ALPHA, 1e-4);
            assert!(same <= most, "{}, {blocks}, {effect}: {same}", noise.pair);
        }
    }
    let same = count(500, |seed| {
        let compared = compared(still, 0.0, Count::Fixed(12), &rule, seed);
        compared.judged.answer == Answer::Same
    });
    assert!(same > 450, "what is the same is called so: {same} of 500");
}

#[test]
fn an_automatic_count_stops_when_it_knows() {
    let rule = cpu_only();
    let still = Noise {
        pair: 0.02,
        ..QUIET
    };
    let count = Count::Auto { most: 48 };
    let known = compared(still, 2.0 * SLOWER, count, &rule, 3);
    assert_eq!((known.judged.answer, known.look), (Answer::Worse, 1));
    let unknown = compared(NOISY, 0.0, count, &rule, 3);
    assert_eq!((unknown.look, unknown.looks), (3, 3));
    assert_eq!(unknown.pairs().len(), 48);
    assert!(unknown.judged.findings[0].blocks_needed() > Some(48));
}

/// A way to answer from what was measured.
type Analysis = fn(&Interleaved, &Rule) -> Judged;

/// What any analysis must do to be trusted with a verdict.
fn trusted(analysis: Analysis) -> Result<(), String> {
    const TIMES: u64 = 300;
    let rule = cpu_only();
    let measured = |effect, seed| compared(QUIET, effect, Count::Fixed(24), &rule, seed);
    // Again with nearly no margin, which would hide what the interval promises in vain.
    let no_margin = Rule {
        margin: 1e-6,
        ..rule.clone()
    };
    let alarms = count(TIMES, |seed| {
        alarmed(analysis(&measured(0.0, seed), &no_margin).answer)
    });
    if alarms > binomial_most(TIMES, ALPHA, 1e-4) {
        return Err(format!("{alarms} false alarms in {TIMES}"));
    }
    let hits = count(TIMES, |seed| {
        analysis(&measured(SLOWER, seed), &rule).answer == Answer::Worse
    });
    if hits < TIMES - binomial_most(TIMES, 1.0 - POWER, 1e-4) {
        return Err(format!("a slowdown of 10 % found {hits} times in {TIMES}"));
    }
    Ok(())
}

/// The first metric of both sides, as if it had not been measured in blocks.
fn columns(pairs: &[Pair]) -> (Vec<f64>, Vec<f64>) {
    let values = pairs
        .iter()
        .map(|p| (p.a.values[0].unwrap(), p.b.values[0].unwrap()));
    values.unzip()
}

fn unpaired(measured: &Interleaved, rule: &Rule) -> Judged {
    let (a, b) = columns(&measured.pairs());
    let none = (Errors::default(), Errors::default());
    judge_unpaired(&[a], &[b], none, rule)
}

/// Each run as a thousand requests that vary by a third, and each request as a sample.
fn by_requests(measured: &Interleaved, rule: &Rule) -> Judged {
    let mut rng = fastrand::Rng::with_seed(5);
    let mut requests = |runs: Vec<f64>| -> Vec<f64> {
        let each = runs.iter().flat_map(|run| std::iter::repeat_n(*run, 1000));
        each.map(|run| run * (rng.f64() - 0.5).exp()).collect()
    };
    let (a, b) = columns(&measured.pairs());
    let (a, b) = (requests(a), requests(b));
    let none = (Errors::default(), Errors::default());
    judge_unpaired(&[a], &[b], none, rule)
}

#[test]
fn only_pairs_of_blocks_can_be_trusted() {
    assert_eq!(
        trusted(|measured, rule| judge_blocks(&measured.pairs(), rule)),
        Ok(())
    );
    let unpaired = trusted(unpaired).unwrap_err();
    println!("unpaired: {unpaired}");
    assert!(unpaired.contains("slowdown"), "{unpaired}");
    let by_requests = trusted(by_requests).unwrap_err();
    println!("by requests: {by_requests}");
    assert!(by_requests.contains("false alarms"), "{by_requests}");
}

#[test]
fn an_increase_of_errors_is_worse_whatever_else_is_better() {
    let mut measured = compared(QUIET, -2.0 * SLOWER, Count::Fixed(12), &rule(MARGIN), 1).pairs();
    assert_eq!(
        judge_blocks(&measured, &rule(MARGIN)).answer,
        Answer::Better
    );
    for pair in &mut measured {
        pair.b.errors.failed = pair.a.errors.failed + 3;
    }
    let judged = judge_blocks(&measured, &rule(MARGIN));
    assert_eq!((judged.answer, judged.leading), (Answer::Worse, None));
    assert_eq!(judged.errors.answer, Answer::Worse);
}

#[test]
fn what_was_not_measured_is_not_judged() {
    let mut pairs = compared(QUIET, 0.0, Count::Fixed(6), &rule(MARGIN), 1).pairs();
    for pair in &mut pairs {
        pair.b.values[0] = None;
    }
    let judged = judge_blocks(&pairs, &rule(MARGIN));
    assert!(
        judged
            .findings
            .iter()
            .all(|f| f.metric.name != METRIC[0].name)
    );
    assert_eq!(judged.findings.len(), METRICS - 1);
    assert_eq!(
        judge_blocks(&pairs[..2], &rule(MARGIN)).answer,
        Answer::CannotTell
    );
    assert_eq!(judge_blocks(&[], &rule(MARGIN)).answer, Answer::CannotTell);
}
