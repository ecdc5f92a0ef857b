//! The shape that k6 hands to `handleSummary`, from the flat one: each metric has a type and its values apart, thresholds say `ok`,
//! groups and checks are lists. Newer readers, such as k6-html-reporter, take this one only.

use serde_json::{Map, Value, json};

/// Turns the flat file into the other shape. What is no metric of k6's shape is left out.
pub(super) fn of(flat: &Value) -> Value {
    let metrics = flat["metrics"].as_object().into_iter().flatten();
    let metrics: Map<String, Value> = metrics
        .filter_map(|(name, metric)| Some((name.clone(), self::metric(name, metric.as_object()?))))
        .collect();
    json!({
        "root_group": group(&flat["root_group"]),
        "options": { "summaryTrendStats": super::OF_TRENDS, "summaryTimeUnit": "ms", "noColor": true },
        "state": { "isStdOutTTY": false, "isStdErrTTY": false },
        "metrics": metrics,
        "weir_lab": flat["weir_lab"],
    })
}

fn metric(name: &str, flat: &Map<String, Value>) -> Value {
    let mut values = flat.clone();
    let thresholds = values.remove("thresholds");
    let kind = match name {
        _ if values.contains_key("avg") => "trend",
        _ if values.contains_key("passes") => {
            // The share has another name there.
            let share = values.remove("value").unwrap_or_default();
            values.insert("rate".to_owned(), share);
            "rate"
        }
        _ if values.contains_key("count") => "counter",
        _ => "gauge",
    };
    let contains = match name {
        "data_sent" | "data_received" => "data",
        _ if kind == "trend" => "time",
        _ => "default",
    };
    let mut metric = json!({ "type": kind, "contains": contains, "values": values });
    if let Some(Value::Object(thresholds)) = thresholds {
        // In the flat shape `false` means that it holds.
        let ok = |(text, breached): (String, Value)| (text, json!({ "ok": breached == false }));
        metric["thresholds"] = Value::Object(thresholds.into_iter().map(ok).collect());
    }
    metric
}

fn group(flat: &Value) -> Value {
    let all = |name: &str| {
        flat[name]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(_, one)| one)
    };
    let groups: Vec<Value> = all("groups").map(group).collect();
    let checks: Vec<Value> = all("checks").cloned().collect();
    json!({ "name": flat["name"], "path": flat["path"], "id": flat["id"], "groups": groups, "checks": checks })
}
