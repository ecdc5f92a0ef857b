//! The shape of `k6 run --summary-export`, so that what reads k6's file reads ours: the flat one. That of
//! `handleSummary` is made from it (`data`).
//!
//! Its oddities are kept: under `thresholds`, `false` means *passed* (grafana/k6 issue 1498); of `http_req_failed`,
//! `passes` counts the requests that failed. Durations are in milliseconds. Where it is not what k6 would write:
//!
//! - Everything is over what is measured, which are holds that are no warm-up; k6 has no such notion.
//! - `http_req_duration` is the response time from the *intended* start, of good answers. k6 counts from the send, and
//!   failed requests too; so `http_req_duration{expected_response:true}` is the same here.
//! - `http_req_waiting` is from the send to the *last* byte, `http_req_blocked` is how late the send was.
//!   `http_req_sending` and `http_req_receiving` were not measured and are absent.
//! - `http_req_connecting` and `http_req_tls_handshaking` have one value for each connection, not for each request.
//! - `vus` are requests in flight, `vus_max` the bound of connections. An iteration is a request. A check is that an
//!   answer is good, one for each kind of request.
//! - A metric without any value is absent, `p(99)` is always there, and `weir_lab` says whether the numbers are valid.

mod data;

use std::collections::BTreeMap;
use std::path::Path;

use base::hex;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::artefact;
use crate::exit::Failure;
use crate::result::{FlowResult, Quantiles, Run, Summary, ThresholdResult};

/// k6's name, ours.
const TRENDS: [(&str, &str); 7] = [
    ("http_req_duration", "response"),
    ("http_req_duration{expected_response:true}", "response"),
    ("iteration_duration", "response"),
    ("http_req_waiting", "service"),
    ("http_req_blocked", "lag"),
    ("http_req_connecting", "connect"),
    ("http_req_tls_handshaking", "tls"),
];
/// What readers take for granted in a trend.
const OF_TRENDS: [&str; 7] = ["avg", "min", "med", "max", "p(90)", "p(95)", "p(99)"];
/// k6's identifier of the group without a name: the MD5 of nothing.
const ROOT_ID: &str = "d41d8cd98f00b204e9800998ecf8427e";

/// Writes the file.
///
/// # Errors
///
/// It cannot be written, or does not read back.
pub fn write(run: &Run, path: &Path) -> Result<(), Failure> {
    artefact::replace(path, text(run).as_bytes(), |draft| {
        let bytes = std::fs::read(draft).map_err(|e| Failure::new(e.to_string(), ""))?;
        let back = serde_json::from_slice(&bytes);
        check(&back.map_err(|e| Failure::new(e.to_string(), ""))?)
    })
}

/// Writes the file in the shape of `handleSummary`.
///
/// # Errors
///
/// It cannot be written, or does not read back.
pub fn write_data(run: &Run, path: &Path) -> Result<(), Failure> {
    let flat: Value = serde_json::from_str(&text(run)).unwrap_or_default();
    let text = format!("{:#}\n", data::of(&flat));
    artefact::replace(path, text.as_bytes(), |draft| {
        let bytes = std::fs::read(draft).map_err(|e| Failure::new(e.to_string(), ""))?;
        let back = serde_json::from_slice::<Value>(&bytes);
        back.map(drop).map_err(|e| Failure::new(e.to_string(), ""))
    })
}

/// The whole file, with four columns for each level as k6 writes it.
pub fn text(run: &Run) -> String {
    let value = json!({
        "root_group": root_group(run),
        "metrics": metrics(run),
        "weir_lab": {
            "schema": run.schema,
            "verdict": run.validity.verdict.as_str(),
            "window": "holds that are no warm-up",
            "requests": run.requests,
        },
    });
    let mut bytes = Vec::new();
    let layout = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, layout);
    let done = serde::Serialize::serialize(&value, &mut serializer);
    done.expect("a value is JSON, and a vector takes any bytes");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("JSON of texts is text")
}

/// Whether it is what readers of k6's file take for granted.
fn check(value: &Value) -> Result<(), Failure> {
    let fail = |name: &str, what: &str| Err(Failure::new(format!("`{name}` {what}"), ""));
    let Some(metrics) = value["metrics"].as_object() else {
        return fail("metrics", "is no object");
    };
    for (name, metric) in metrics {
        let Some(metric) = metric.as_object() else {
            return fail(name, "is no object");
        };
        let is_trend = metric.contains_key("avg");
        if is_trend
            && !OF_TRENDS
                .iter()
                .all(|key| metric.get(*key).is_some_and(Value::is_number))
        {
            return fail(name, "lacks a number");
        }
        let thresholds = metric.get("thresholds").and_then(Value::as_object);
        if thresholds.is_some_and(|all| !all.values().all(Value::is_boolean)) {
            return fail(name, "has a threshold that is not yes or no");
        }
    }
    if value["root_group"]["groups"].is_object() && value["root_group"]["checks"].is_object() {
        Ok(())
    } else {
        fail("root_group", "lacks its groups or checks")
    }
}

fn metrics(run: &Run) -> Map<String, Value> {
    let mut metrics = of_summary(&run.measured);
    let (vus, vus_max) = vus(&run.flows);
    metrics.insert("vus".to_owned(), vus);
    metrics.insert("vus_max".to_owned(), vus_max);
    for threshold in &run.thresholds {
        add_threshold(run, threshold, &mut metrics);
    }
    metrics
}

/// The metrics of a window.
fn of_summary(summary: &Summary) -> Map<String, Value> {
    let mut metrics = Map::new();
    for (name, ours) in TRENDS {
        if let Some(found) = summary.latency.get(ours) {
            metrics.insert(name.to_owned(), trend(found));
        }
    }
    let per_second = |n: u64| {
        if summary.seconds > 0.0 {
            n as f64 / summary.seconds
        } else {
            0.0
        }
    };
    let counters = [
        ("http_reqs", summary.requests),
        ("iterations", summary.requests),
        ("dropped_iterations", summary.dropped),
        ("data_sent", summary.bytes_out),
        ("data_received", summary.bytes_in),
    ];
    for (name, count) in counters {
        let counter = json!({"count": count, "rate": per_second(count)});
        metrics.insert(name.to_owned(), counter);
    }
    let (good, failed) = (summary.good, summary.failed);
    // `checks` after it: k6-html-reporter takes the last metric with `passes` for the checks.
    metrics.insert("http_req_failed".to_owned(), rate(failed, good));
    metrics.insert("checks".to_owned(), rate(good, failed));
    metrics
}

/// Milliseconds, from microseconds.
fn trend(found: &Quantiles) -> Value {
    json!({
        "avg": found.mean / 1e3,
        "min": found.min / 1e3,
        "med": found.p50 / 1e3,
        "max": found.max / 1e3,
        "p(90)": found.p90 / 1e3,
        "p(95)": found.p95 / 1e3,
        "p(99)": found.p99 / 1e3,
    })
}

/// `passes` are the times that what the metric's name says was so.
fn rate(passes: u64, fails: u64) -> Value {
    let all = passes + fails;
    let value = if all > 0 {
        passes as f64 / all as f64
    } else {
        0.0
    };
    json!({"passes": passes, "fails": fails, "value": value})
}

fn vus(flows: &[FlowResult]) -> (Value, Value) {
    // Flows are in step: their points with one time are one instant.
    let mut instants: BTreeMap<u64, u64> = BTreeMap::new();
    for point in flows.iter().flat_map(|flow| &flow.series) {
        *instants.entry((point.t_s * 1e3) as u64).or_default() += point.in_flight;
    }
    let last = instants.values().last().copied().unwrap_or(0);
    let least = instants.values().min().copied().unwrap_or(0);
    let most = instants.values().max().copied().unwrap_or(0);
    let bound: usize = flows.iter().map(|flow| flow.connections).sum();
    (
        json!({"value": last, "min": least, "max": most}),
        json!({"value": bound, "min": bound, "max": bound}),
    )
}

/// Puts a threshold under its metric, which is made if nothing else made it: a part of a metric such as
/// `http_req_duration{scenario:echo}` from that flow or step, another from what was found.
fn add_threshold(run: &Run, threshold: &ThresholdResult, metrics: &mut Map<String, Value>) {
    let name = &threshold.metric;
    if !metrics.contains_key(name) {
        let part = part_of(run, name).unwrap_or_else(|| json!({"value": threshold.found}));
        metrics.insert(name.clone(), part);
    }
    let metric = metrics.get_mut(name).and_then(Value::as_object_mut);
    let metric = metric.expect("every metric is an object");
    let thresholds = metric.entry("thresholds").or_insert_with(|| json!({}));
    thresholds[&threshold.expression] = json!(!threshold.ok);
}

/// What a metric holds of one scenario, step or kind of request: `name{scenario:a,step:b}`, `name{name:c}`.
fn part_of(run: &Run, metric: &str) -> Option<Value> {
    let (name, tags) = metric.strip_suffix('}')?.split_once('{')?;
    let (mut scenario, mut step, mut kind) = (None, None, None);
    for tag in tags.split(',') {
        let (key, value) = tag.split_once(':')?;
        match (key.trim(), value.trim()) {
            ("scenario", value) => scenario = Some(value),
            ("step", value) => step = Some(value),
            ("name", value) => kind = Some(value),
            // Latencies are of good answers anyway.
            ("expected_response", "true") => {}
            _ => return None,
        }
    }
    let is_asked = |flow: &&FlowResult| scenario.is_none_or(|name| flow.name == name);
    let mut flows = run.flows.iter().filter(is_asked);
    let found = match (step, kind) {
        (None, None) if scenario.is_some() => &flows.next()?.measured,
        (None, None) => &run.measured,
        (Some(step), None) => {
            let steps = flows.flat_map(|flow| &flow.steps);
            &only(steps.filter(|found| found.name == step))?.summary
        }
        (None, Some(kind)) => {
            let kinds = flows.flat_map(|flow| &flow.kinds);
            &only(kinds.filter(|found| found.name == kind))?.summary
        }
        // A run does not keep the kinds of each step.
        (Some(_), Some(_)) => return None,
    };
    match found.latency.get(name) {
        Some(ours) => Some(trend(ours)),
        None => of_summary(found).remove(name),
    }
}

/// The one that there is. Quantiles of two cannot be made from theirs.
fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

/// One group for each flow, in which each kind of request is a check.
fn root_group(run: &Run) -> Value {
    let mut groups = Map::new();
    for flow in &run.flows {
        let path = format!("::{}", flow.name);
        let mut checks = Map::new();
        for kind in &flow.kinds {
            let name = format!("{}: the answer is good", kind.name);
            let path = format!("{path}::{name}");
            let check = json!({
                "name": name,
                "id": id(&path),
                "path": path,
                "passes": kind.summary.good,
                "fails": kind.summary.failed,
            });
            checks.insert(name, check);
        }
        let group = json!({
            "name": flow.name,
            "id": id(&path),
            "path": path,
            "groups": {},
            "checks": checks,
        });
        groups.insert(flow.name.clone(), group);
    }
    json!({"name": "", "path": "", "id": ROOT_ID, "groups": groups, "checks": {}})
}

/// As long as k6's, which are MD5: the first half of the path's SHA-256.
fn id(path: &str) -> String {
    hex::encode(&Sha256::digest(path.as_bytes())[..16])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{KindResult, Point, StepResult};

    fn quantiles(us: f64) -> Quantiles {
        Quantiles {
            count: 10,
            mean: us,
            min: us,
            p50: us,
            p75: us,
            p90: us,
            p95: us,
            p99: us,
            p999: None,
            p9999: None,
            max: us,
        }
    }

    fn summary(us: f64) -> Summary {
        Summary {
            seconds: 2.0,
            requests: 10,
            good: 8,
            failed: 2,
            latency: [("response".to_owned(), quantiles(us))].into(),
            ..Summary::default()
        }
    }

    fn run() -> Run {
        let step = StepResult {
            name: "steady".to_owned(),
            summary: summary(3000.0),
            ..StepResult::default()
        };
        let kind = KindResult {
            name: "get".to_owned(),
            summary: summary(4000.0),
        };
        let point = |t_s, in_flight| Point {
            t_s,
            in_flight,
            ..Point::default()
        };
        let flow = FlowResult {
            name: "echo".to_owned(),
            connections: 4,
            measured: summary(2000.0),
            steps: vec![step],
            kinds: vec![kind],
            series: vec![point(1.0, 4), point(2.0, 1)],
            ..FlowResult::default()
        };
        let threshold = |metric: &str, expression: &str, ok| ThresholdResult {
            metric: metric.to_owned(),
            expression: expression.to_owned(),
            found: Some(7.0),
            ok,
            ..ThresholdResult::default()
        };
        Run {
            measured: summary(1000.0),
            flows: vec![flow],
            thresholds: vec![
                threshold("http_req_duration", "p(95)<250", true),
                threshold("http_req_duration", "max<1", false),
                threshold("http_req_failed", "rate<0.01", false),
                threshold("http_req_duration{scenario:echo}", "p(95)<250", true),
                threshold("response{step:steady}", "p(95)<250", true),
                threshold("http_req_duration{name:get, scenario:echo}", "max<1", true),
                threshold("cpu_us_per_request", "value<9", true),
            ],
            ..Run::default()
        }
    }

    #[test]
    fn false_means_passed_and_passes_mean_failed() {
        let value: Value = serde_json::from_str(&text(&run())).unwrap();
        check(&value).unwrap();
        let metrics = &value["metrics"];
        let thresholds = &metrics["http_req_duration"]["thresholds"];
        assert_eq!(*thresholds, json!({"p(95)<250": false, "max<1": true}));
        let failed = &metrics["http_req_failed"];
        assert_eq!(
            (&failed["passes"], &failed["fails"]),
            (&json!(2), &json!(8))
        );
        assert_eq!(failed["value"], json!(0.2));
        assert_eq!(metrics["checks"]["passes"], json!(8));
        assert_eq!(metrics["http_reqs"], json!({"count": 10, "rate": 5.0}));
        assert_eq!(
            metrics["http_req_duration"]["p(95)"],
            json!(1.0),
            "milliseconds"
        );
        assert_eq!(metrics["vus"], json!({"value": 1, "min": 1, "max": 4}));
        assert!(metrics.get("http_req_connecting").is_none(), "not measured");
    }

    #[test]
    fn the_other_shape_says_the_same() {
        let flat: Value = serde_json::from_str(&text(&run())).unwrap();
        let data = data::of(&flat);
        let duration = &data["metrics"]["http_req_duration"];
        assert_eq!(
            (&duration["type"], &duration["contains"]),
            (&json!("trend"), &json!("time"))
        );
        assert_eq!(duration["values"]["p(95)"], json!(1.0));
        assert_eq!(
            duration["thresholds"],
            json!({"p(95)<250": {"ok": true}, "max<1": {"ok": false}})
        );
        assert_eq!(
            data["metrics"]["http_req_failed"]["values"]["rate"],
            json!(0.2)
        );
        assert_eq!(data["metrics"]["http_reqs"]["type"], json!("counter"));
        assert_eq!(data["metrics"]["vus"]["type"], json!("gauge"));
        assert_eq!(
            data["root_group"]["groups"][0]["checks"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
    }

    #[test]
    fn thresholds_on_parts_have_the_numbers_of_that_part() {
        let value: Value = serde_json::from_str(&text(&run())).unwrap();
        let metrics = &value["metrics"];
        let part = |name: &str, key: &str| metrics[name][key].clone();
        assert_eq!(part("http_req_duration{scenario:echo}", "avg"), json!(2.0));
        assert_eq!(
            part("http_req_duration{name:get, scenario:echo}", "avg"),
            json!(4.0)
        );
        assert_eq!(part("response{step:steady}", "avg"), json!(3.0));
        assert_eq!(part("cpu_us_per_request", "value"), json!(7.0));
        assert_eq!(
            part("cpu_us_per_request", "thresholds"),
            json!({"value<9": false})
        );
    }

    #[test]
    fn what_readers_would_stumble_over_is_refused() {
        for (value, why) in [
            (json!({}), "`metrics` is no object"),
            (json!({"metrics": {"a": {"avg": 1}}}), "`a` lacks a number"),
            (
                json!({"metrics": {"a": {"thresholds": {"x": 1}}}}),
                "not yes or no",
            ),
            (json!({"metrics": {}}), "`root_group`"),
        ] {
            let said = check(&value).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }
}
