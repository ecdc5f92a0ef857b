//! Tables of thresholds: what is read, what is refused, and what is found in a run.

use serde_json::json;

use super::*;
use crate::result::{KindResult, Quantiles, StepResult, SubjectResult, SubjectStep, Summary};

fn summary(p95_us: f64, requests: u64) -> Summary {
    let response = Quantiles {
        count: requests,
        mean: p95_us / 2.0,
        p50: p95_us / 2.0,
        p95: p95_us,
        p99: p95_us,
        max: p95_us * 2.0,
        ..Quantiles::default()
    };
    let failed = requests / 100;
    Summary {
        seconds: 10.0,
        requests,
        good: requests - failed,
        failed,
        rate: requests as f64 / 10.0,
        latency: [("response".to_owned(), response)].into(),
        errors: [("timeout".to_owned(), failed)].into(),
        generator_cpu_us: Some(7.0),
        ..Summary::default()
    }
}

fn step(name: &str, kind: &str, p95_us: f64, requests: u64) -> StepResult {
    StepResult {
        name: name.to_owned(),
        kind: kind.to_owned(),
        summary: summary(p95_us, requests),
        ..StepResult::default()
    }
}

/// Two flows: p95 100 ms and 200 ms in their holds, with 1,000 and 500 requests.
fn run() -> Run {
    let flow = |name: &str, p95_us: f64, requests: u64| FlowResult {
        name: name.to_owned(),
        measured: summary(p95_us, requests),
        steps: vec![
            step("up", "ramp", p95_us * 10.0, requests / 2),
            step("steady", "hold", p95_us, requests),
        ],
        kinds: vec![KindResult {
            name: "get".to_owned(),
            summary: summary(p95_us, requests),
        }],
        ..FlowResult::default()
    };
    let mut run = Run {
        measured: summary(150_000.0, 1500),
        flows: vec![flow("echo", 100_000.0, 1000), flow("tool", 200_000.0, 500)],
        ..Run::default()
    };
    let used = |step: &str| SubjectStep {
        step: step.to_owned(),
        cpu_us_per_request: Some(20.0),
        rss_bytes_max: Some(50_000_000),
        ..SubjectStep::default()
    };
    let subject = |name: &str, kind: &str| SubjectResult {
        name: name.to_owned(),
        kind: kind.to_owned(),
        steps: vec![used("steady"), used("")],
        ..SubjectResult::default()
    };
    run.watched.subjects = vec![
        subject("nginx", "process"),
        subject("redis", "cgroup"),
        subject("us", "generator"),
    ];
    run
}

fn known() -> Known {
    Known {
        flows: vec!["echo".to_owned(), "tool".to_owned()],
        steps: vec![("up".to_owned(), false), ("steady".to_owned(), true)],
        kinds: vec!["get".to_owned()],
    }
}

#[test]
fn thresholds_are_judged() {
    let run = run();
    // Metric, expression, what is found, whether it is kept, the window.
    let cases = [
        ("http_req_duration", "p(95)<250", 150.0, true, "holds"),
        ("http_req_duration", "p(95) < 150", 150.0, false, "holds"),
        ("http_req_duration", "p(95)<=150ms", 150.0, true, "holds"),
        ("http_req_duration", "med<0.1s", 75.0, true, "holds"),
        ("http_req_duration", "avg>75", 75.0, false, "holds"),
        ("http_req_duration", "max<1m", 300.0, true, "holds"),
        ("http_req_duration", "count>1499", 1500.0, true, "holds"),
        ("response", "p(99)<200000us", 150.0, true, "holds"),
        (
            "http_req_duration{scenario:echo}",
            "p(95)<101",
            100.0,
            true,
            "holds of echo",
        ),
        (
            "http_req_duration{step:steady}",
            "p(95)<101",
            200.0,
            false,
            "steady, the worst of 2",
        ),
        (
            "http_req_duration{step:steady}",
            "p(95)>101",
            100.0,
            false,
            "steady, the worst of 2",
        ),
        (
            "http_req_duration{ scenario:tool, step:steady }",
            "p(95)==200",
            200.0,
            true,
            "steady of tool",
        ),
        (
            "http_req_duration{name:get,scenario:echo}",
            "p(95)<101",
            100.0,
            true,
            "requests named get, in holds of echo",
        ),
        (
            "http_req_duration{expected_response:true}",
            "p(95)<250",
            150.0,
            true,
            "holds",
        ),
        ("http_req_failed", "rate<0.01", 0.01, false, "holds"),
        ("http_req_failed", "rate<=1%", 0.01, true, "holds"),
        ("errors", "count<=15", 15.0, true, "holds"),
        ("errors{class:timeout}", "count<15", 15.0, false, "holds"),
        ("errors{class:tls}", "count==0", 0.0, true, "holds"),
        ("errors{step:up}", "count<8", 7.0, true, "up"),
        ("checks", "rate>0.9", 0.99, true, "holds"),
        ("http_reqs", "count>=1500", 1500.0, true, "holds"),
        ("http_reqs", "rate>1000", 150.0, false, "holds"),
        (
            "http_reqs{step:steady}",
            "rate===150",
            150.0,
            true,
            "steady",
        ),
        ("http_reqs{step:up}", "count!=0", 750.0, true, "up"),
        ("dropped_iterations", "count<1", 0.0, true, "holds"),
        ("cpu_us_per_request", "value<50", 40.0, true, "holds"),
        (
            "cpu_us_per_request{process:nginx}",
            "value<20",
            20.0,
            false,
            "holds",
        ),
        (
            "cpu_us_per_request{step:steady}",
            "value<50",
            40.0,
            true,
            "steady",
        ),
        ("rss_mb", "max<128", 100.0, true, "holds"),
        ("generator_cpu_us", "value<8", 7.0, true, "holds"),
    ];
    for (metric, expression, found, ok, window) in cases {
        let map = json!({ metric: expression });
        let threshold = &read(&map, Some(&known())).unwrap()[0];
        let judged = threshold.judge(&run);
        let what = format!("{metric} {expression}: {judged:?}");
        assert!(
            judged
                .found
                .is_some_and(|value| (value - found).abs() < 1e-9),
            "{what}"
        );
        assert_eq!((judged.ok, judged.window.as_str()), (ok, window), "{what}");
        assert_eq!(
            (judged.metric.as_str(), judged.expression.as_str()),
            (metric, expression.trim())
        );
    }
}

#[test]
fn silence_is_a_breach() {
    let cases = [
        ("ttft", "p(95)<250", "no sample"),
        ("ttft", "p(95)>0", "no sample"),
        ("http_req_duration", "p(99.9)<250", "too few requests"),
        (
            "http_req_duration{step:steady}",
            "p(99.99)<1",
            "too few requests",
        ),
        ("cpu_us_per_request{process:nobody}", "value<1", "no sample"),
    ];
    for (metric, expression, why) in cases {
        let judged = parse(metric, expression).unwrap().judge(&run());
        assert_eq!((judged.found, judged.ok), (None, false), "{metric}");
        assert!(judged.window.contains(why), "{judged:?}");
    }
    let empty = parse("http_req_failed", "rate<0.01")
        .unwrap()
        .judge(&Run::default());
    assert_eq!((empty.found, empty.ok), (None, false), "{empty:?}");
    assert!(empty.window.contains("no hold"), "{empty:?}");
}

#[test]
fn a_ramp_is_never_judged_by_its_quantiles() {
    let mut run = run();
    for flow in &mut run.flows {
        flow.steps.truncate(1);
    }
    for metric in [
        "http_req_duration",
        "http_req_duration{step:up}",
        "http_req_duration{scenario:echo}",
    ] {
        let judged = parse(metric, "p(95)<99999").unwrap().judge(&run);
        assert_eq!((judged.found, judged.ok), (None, false), "{metric}");
        assert!(judged.window.contains("ramp"), "{judged:?}");
    }
    // Counting in a ramp that is named is well defined.
    assert!(
        parse("http_reqs{step:up}", "count>0")
            .unwrap()
            .judge(&run)
            .ok
    );
}

#[test]
fn a_flow_that_only_ramps_is_left_out() {
    let mut run = run();
    run.flows[1].steps.truncate(1);
    let judged = parse("http_req_duration", "p(95)<101").unwrap().judge(&run);
    assert_eq!((judged.found, judged.ok), (Some(100.0), true), "{judged:?}");
}

#[test]
fn what_cannot_be_judged_is_refused_before_load() {
    let cases = [
        (
            "http_req_durations",
            "p(95)<1",
            "there is no metric \"http_req_durations\"; there are http_req_duration,",
        ),
        ("", "p(95)<1", "there is no metric"),
        (
            "http_req_duration",
            "p(97)<1",
            "it has no \"p(97)\"; it has avg, min",
        ),
        ("http_req_duration", "p95<1", "it has no \"p95\""),
        ("http_req_duration", "rate<1", "it has no \"rate\""),
        ("http_req_failed", "p(95)<1", "it has rate, count"),
        ("http_reqs", "avg<1", "it has count, rate"),
        ("cpu_us_per_request", "rate<1", "it has value, max"),
        ("http_req_duration", "", "is not a statistic"),
        ("http_req_duration", "p(95)", "is not a statistic"),
        ("http_req_duration", "p(95)=1", "is not a statistic"),
        (
            "http_req_duration",
            "p(95)<",
            "is not a bound for it; write 250 (ms)",
        ),
        ("http_req_duration", "p(95)<fast", "is not a bound"),
        ("http_req_duration", "p(95)<-1", "is not a bound"),
        ("http_req_duration", "p(95)<NaN", "is not a bound"),
        ("http_req_duration", "p(95)<inf", "is not a bound"),
        ("http_req_duration", "p(95)<1e999", "is not a bound"),
        ("http_req_duration", "p(95)<5%", "is not a bound"),
        ("http_req_failed", "rate<5", "a share between 0 and 1"),
        ("http_req_failed", "rate<150%", "a share between 0 and 1"),
        ("http_reqs", "rate>1ms", "write a number"),
        (
            "http_req_duration{scenario:echo",
            "p(95)<1",
            "closing brace",
        ),
        (
            "http_req_duration{scenario}",
            "p(95)<1",
            "written name:value",
        ),
        (
            "http_req_duration{method:GET}",
            "p(95)<1",
            "no tag \"method\"",
        ),
        (
            "http_req_duration{class:tls}",
            "p(95)<1",
            "it has no tag \"class\"",
        ),
        ("errors{class:oops}", "count<1", "there are dns,"),
        ("http_req_duration{step:a,step:b}", "p(95)<1", "there twice"),
        ("http_req_duration{step:}", "p(95)<1", "is empty"),
        (
            "http_req_duration{name:get,step:steady}",
            "p(95)<1",
            "give one of them",
        ),
        ("rss_mb{scenario:echo}", "max<1", "cannot be told apart"),
        (
            "http_req_duration{scenario:nope}",
            "p(95)<1",
            "there is no scenario \"nope\"; there are echo, tool",
        ),
        (
            "http_req_duration{step:nope}",
            "p(95)<1",
            "there are up, steady",
        ),
        ("http_req_duration{name:nope}", "p(95)<1", "there are get"),
        (
            "http_req_duration{step:up}",
            "p(95)<1",
            "up is a ramp or a warm-up",
        ),
    ];
    for (metric, expression, says) in cases {
        let problems = read(&json!({ metric: [expression] }), Some(&known())).unwrap_err();
        assert!(
            problems.len() == 1 && problems[0].contains(says),
            "{problems:?}, not {says:?}"
        );
    }
    let ramps = Known {
        steps: vec![("up".to_owned(), false)],
        ..known()
    };
    let problems = read(&json!({ "http_reqs": "count>1" }), Some(&ramps)).unwrap_err();
    assert!(
        problems[0].contains("no hold to judge it on"),
        "{problems:?}"
    );
    assert!(read(&json!({ "http_reqs{step:up}": "count>1" }), Some(&ramps)).is_ok());
}

#[test]
fn k6_objects_are_read() {
    let map = json!({
        "http_req_failed": [
            { "threshold": "rate<0.01", "abortOnFail": true, "delayAbortEval": "10s" },
            { "threshold": "rate<0.02", "abortOnFail": true },
            { "threshold": "rate<0.03", "abortOnFail": false, "delayAbortEval": null },
            "rate<0.04",
        ],
    });
    let found: Vec<Option<u64>> = read(&map, None)
        .unwrap()
        .iter()
        .map(|threshold| threshold.abort_after.map(|after| after.as_secs()))
        .collect();
    assert_eq!(found, [Some(10), Some(0), None, None]);
    let stops = |after_s| {
        let thresholds = read(&map, None).unwrap();
        let stops = thresholds
            .iter()
            .map(|t| t.stops_by(Duration::from_secs(after_s)));
        stops.collect::<Vec<bool>>()
    };
    assert_eq!(stops(9), [false, true, false, false]);
    assert_eq!(stops(10), [true, true, false, false]);
    let refused = [
        (
            json!({ "http_reqs": { "threshold": "count>1", "abortOnFail": true } }),
            "not known before the end",
        ),
        (
            json!({ "rss_mb": { "threshold": "max<1", "abortOnFail": true } }),
            "not known before the end",
        ),
        (json!([]), "a map from a metric"),
        (json!({ "http_reqs": [] }), "no expression"),
        (json!({ "http_reqs": 7 }), "is a text, or an object"),
        (json!({ "http_reqs": {} }), "is a text, or an object"),
        (
            json!({ "http_reqs": { "threshold": "count>1", "abort": true } }),
            "abortOnFail",
        ),
        (
            json!({ "http_reqs": { "threshold": "count>1", "delayAbortEval": "soon" } }),
            "write 10s",
        ),
        (
            json!({ "http_reqs": { "threshold": "count>1", "delayAbortEval": "1e300s" } }),
            "is a text",
        ),
    ];
    for (map, says) in refused {
        let problems = read(&map, None).unwrap_err();
        assert!(problems[0].contains(says), "{problems:?}");
    }
}

#[test]
fn every_problem_is_found_and_all_is_bounded() {
    let map = json!({ "nope": "p(95)<1", "http_reqs": ["avg<1", "count>1", "rate>x"] });
    assert_eq!(read(&map, None).unwrap_err().len(), 3);
    let many: Vec<String> = (0..300).map(|i| format!("count>{i}")).collect();
    let problems = read(&json!({ "http_reqs": many }), None).unwrap_err();
    assert!(problems[0].contains("256 is the most"), "{problems:?}");
    assert!(
        parse(&"x".repeat(5000), "count>1")
            .unwrap_err()
            .contains("longer than")
    );
}

#[test]
fn no_bytes_break_the_parser() {
    let mut random = fastrand::Rng::with_seed(3);
    let texts = [
        "http_req_duration{scenario:echo,step:steady}",
        "p(95)<250ms",
        "errors{class:tls}",
        "rate<1%",
    ];
    for _ in 0..20_000 {
        let mut broken = |text: &str| {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..random.usize(0..4) {
                let at = random.usize(0..bytes.len());
                bytes[at] = if random.bool() {
                    random.u8(..)
                } else {
                    b"{}:,<>=!%(). "[random.usize(0..13)]
                };
            }
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let pair = (broken(texts[0]), broken(texts[1]));
        let _ = (
            parse(&pair.0, &pair.1),
            parse(&broken(texts[2]), &broken(texts[3])),
        );
    }
}
