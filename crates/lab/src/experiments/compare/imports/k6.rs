//! k6 summaries, in the three shapes that k6 writes.
//!
//! `--summary-export` is flat (`metrics.NAME.med`), `handleSummary` nests (`metrics.NAME.values.med`), and the machine
//! readable summary has a list (`results.metrics[].values`). Durations are in milliseconds. In `http_req_failed`,
//! `passes` (or `matches`) counts requests that *failed*: the metric is true when a request has failed.

use serde_json::Value;

use super::super::metrics::{Errors, Measured, place};

/// What a summary says; nothing where this is none.
pub(super) fn totals(json: &Value) -> Option<Measured> {
    let duration = values(json, "http_req_duration")?;
    let mut measured = Measured {
        errors: errors(json),
        ..Measured::default()
    };
    let quantiles = [
        ("service_us_p50", "med"),
        ("service_us_p90", "p(90)"),
        ("service_us_p99", "p(99)"),
    ];
    for (name, key) in quantiles {
        let us = number(duration, key).map(|ms| ms * 1000.0);
        measured.values[place(name)?] = us;
    }
    let rate = values(json, "http_reqs").and_then(|reqs| number(reqs, "rate"));
    measured.values[place("requests_per_second")?] = rate;
    Some(measured)
}

/// The object with a metric's numbers.
fn values<'a>(json: &'a Value, name: &str) -> Option<&'a Value> {
    if let Some(list) = json.pointer("/results/metrics").and_then(Value::as_array) {
        let metric = list.iter().find(|metric| metric["name"] == name)?;
        return metric.get("values");
    }
    let metric = json.get("metrics")?.get(name)?;
    Some(metric.get("values").unwrap_or(metric))
}

fn number(values: &Value, key: &str) -> Option<f64> {
    let number = values.get(key)?.as_f64()?;
    (number.is_finite() && number > 0.0).then_some(number)
}

fn errors(json: &Value) -> Errors {
    let count = |values: &Value, key: &str| values.get(key).and_then(Value::as_u64);
    let failed = values(json, "http_req_failed");
    let requests = values(json, "http_reqs").and_then(|v| number(v, "count"));
    Errors {
        requests: requests.map_or(0, |n| n as u64),
        failed: failed
            .and_then(|v| count(v, "passes").or_else(|| count(v, "matches")))
            .unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        text: &str,
        p50: Option<f64>,
        p99: Option<f64>,
        rate: Option<f64>,
        errors: (u64, u64),
    ) {
        let measured = totals(&serde_json::from_str(text).unwrap()).unwrap();
        let value = |name| measured.values[place(name).unwrap()];
        assert_eq!(value("service_us_p50"), p50);
        assert_eq!(value("service_us_p99"), p99);
        assert_eq!(value("requests_per_second"), rate);
        assert_eq!((measured.errors.requests, measured.errors.failed), errors);
    }

    #[test]
    fn each_shape_is_read() {
        let flat = r#"{"metrics": {
            "http_req_duration": {"avg": 2.5, "med": 2.0, "p(90)": 4.0, "p(95)": 5.0, "p(99)": 8.0},
            "http_reqs": {"count": 1000, "rate": 99.5},
            "http_req_failed": {"passes": 3, "fails": 997, "value": 0.003, "thresholds": {"rate<0.01": false}}}}"#;
        check(flat, Some(2000.0), Some(8000.0), Some(99.5), (1000, 3));
        let nested = r#"{"metrics": {
            "http_req_duration": {"type": "trend", "contains": "time", "values": {"med": 2.0, "p(90)": 4.0}},
            "http_reqs": {"type": "counter", "values": {"count": 1000, "rate": 99.5}},
            "http_req_failed": {"type": "rate", "values": {"rate": 0.003, "passes": 3, "fails": 997}}}}"#;
        check(nested, Some(2000.0), None, Some(99.5), (1000, 3));
        let listed = r#"{"results": {"metrics": [
            {"name": "http_req_duration", "type": "trend", "values": {"med": 2.0, "p(90)": 4.0, "p(95)": 5.0}},
            {"name": "http_reqs", "type": "counter", "values": {"count": 1000}},
            {"name": "http_req_failed", "type": "rate", "values": {"matches": 3, "total": 1000, "rate": 0.003}}]}}"#;
        check(listed, Some(2000.0), None, None, (1000, 3));
    }

    #[test]
    fn anything_else_is_none() {
        for text in [
            "{}",
            "[]",
            "3",
            r#"{"metrics": []}"#,
            r#"{"metrics": {"iterations": {"count": 3}}}"#,
            r#"{"results": {"metrics": {}}}"#,
            r#"{"results": {"metrics": [3, {"name": "http_req_duration"}]}}"#,
        ] {
            assert_eq!(totals(&serde_json::from_str(text).unwrap()), None, "{text}");
        }
        let odd = r#"{"metrics": {"http_req_duration": {"med": -1, "p(90)": "x"}, "http_reqs": {"count": -5}}}"#;
        check(odd, None, None, None, (0, 0));
    }
}
