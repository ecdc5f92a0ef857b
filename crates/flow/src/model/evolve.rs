//! Whether a new schema takes everything that the old one took.
//!
//! What cannot be shown to be wider counts as narrower: the answer is then the list of what is in the way. That a key may
//! not be declared any more counts as narrower too, since readers rely on it. Notes for people may change freely.

use serde_json::{Map, Value};

/// Most reasons that are told.
const REASONS_MAX: usize = 20;
/// Deepest part of a schema that is compared.
const DEPTH_MAX: usize = 40;
/// Keys that say nothing about what is valid.
const NOTES: &[&str] = &[
    "$schema",
    "$id",
    "$comment",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
];
/// Bounds that are narrower when they grow.
const LOW: &[&str] = &[
    "minimum",
    "exclusiveMinimum",
    "minLength",
    "minItems",
    "minProperties",
    "minContains",
];
/// Bounds that are narrower when they shrink.
const HIGH: &[&str] = &[
    "maximum",
    "exclusiveMaximum",
    "maxLength",
    "maxItems",
    "maxProperties",
    "maxContains",
];

/// Why the new schema is narrower; empty where it is not.
pub fn narrowing(old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<String> {
    let mut reasons = Vec::new();
    objects("", old, new, DEPTH_MAX, &mut reasons);
    reasons.truncate(REASONS_MAX);
    reasons
}

fn schemas(at: &str, old: &Value, new: &Value, depth: usize, reasons: &mut Vec<String>) {
    match (old, new) {
        (old, new) if old == new => {}
        (_, Value::Bool(true)) | (Value::Bool(false), _) => {}
        (Value::Bool(true), Value::Object(new)) => {
            objects(at, &Map::new(), new, depth, reasons);
        }
        (Value::Object(old), Value::Object(new)) => objects(at, old, new, depth, reasons),
        _ => say(reasons, at, "takes nothing any more"),
    }
}

fn objects(
    at: &str,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    depth: usize,
    reasons: &mut Vec<String>,
) {
    if depth == 0 {
        return say(reasons, at, "is too deep to be compared");
    }
    let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let (was, is) = (old.get(key), new.get(key));
        if was == is || NOTES.contains(&key.as_str()) {
            continue;
        }
        keyword(at, key, was, is, depth, reasons);
    }
}

fn keyword(
    at: &str,
    key: &str,
    was: Option<&Value>,
    is: Option<&Value>,
    depth: usize,
    reasons: &mut Vec<String>,
) {
    let place = format!("{at}/{key}");
    match (key, was, is) {
        ("properties" | "patternProperties" | "$defs" | "dependentSchemas", was, is) => {
            parts(&place, was, is, key, depth, reasons);
        }
        (
            "items"
            | "additionalProperties"
            | "unevaluatedProperties"
            | "unevaluatedItems"
            | "propertyNames",
            was,
            is,
        ) => {
            let any = Value::Bool(true);
            schemas(
                &place,
                was.unwrap_or(&any),
                is.unwrap_or(&any),
                depth - 1,
                reasons,
            );
        }
        ("type", Some(was), Some(is)) => {
            let (was, is) = (words(was), words(is));
            let takes = |word: &String| {
                is.contains(word) || word == "integer" && is.contains(&"number".to_owned())
            };
            if let Some(lost) = was.iter().find(|word| !takes(word)) {
                say(reasons, &place, &format!("does not take {lost} any more"));
            }
        }
        ("enum", Some(Value::Array(was)), Some(Value::Array(is))) => {
            if let Some(lost) = was.iter().find(|value| !is.contains(value)) {
                say(reasons, &place, &format!("does not take {lost} any more"));
            }
        }
        ("required", was, Some(is)) => {
            let was = was.map(words).unwrap_or_default();
            for name in words(is).iter().filter(|name| !was.contains(name)) {
                say(reasons, at, &format!("requires {name:?}"));
            }
        }
        (low, Some(was), Some(is)) if LOW.contains(&low) && is.as_f64() <= was.as_f64() => {}
        (high, Some(was), Some(is)) if HIGH.contains(&high) && is.as_f64() >= was.as_f64() => {}
        // Without it one entry has to fit.
        ("minContains", Some(was), None) if was.as_f64() < Some(1.0) => {
            say(reasons, at, "wants an entry that `contains` fits");
        }
        // A test that is gone takes more.
        (_, Some(_), None) => {}
        (_, Some(_), Some(_)) => say(reasons, &place, "is another, and perhaps narrower"),
        (_, None, _) => say(reasons, &place, "is a new restriction"),
    }
}

/// Named schemas: those that both have are compared, and none may be gone.
fn parts(
    place: &str,
    was: Option<&Value>,
    is: Option<&Value>,
    key: &str,
    depth: usize,
    reasons: &mut Vec<String>,
) {
    let none = Map::new();
    let map = |value: Option<&Value>| value.and_then(Value::as_object).cloned();
    let (was, is) = (map(was).unwrap_or(none.clone()), map(is).unwrap_or(none));
    for (name, old) in &was {
        match is.get(name) {
            Some(new) => schemas(&format!("{place}/{name}"), old, new, depth - 1, reasons),
            None => say(reasons, place, &format!("has no {name:?} any more")),
        }
    }
    let added = is.keys().find(|name| !was.contains_key(*name));
    if let (Some(name), true) = (
        added,
        matches!(key, "patternProperties" | "dependentSchemas"),
    ) {
        say(reasons, place, &format!("{name:?} is a new restriction"));
    }
}

fn words(value: &Value) -> Vec<String> {
    match value {
        Value::String(word) => vec![word.clone()],
        Value::Array(values) => values
            .iter()
            .filter_map(|value| value.as_str().map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    }
}

fn say(reasons: &mut Vec<String>, at: &str, what: &str) {
    if reasons.len() < REASONS_MAX {
        let at = if at.is_empty() { "/" } else { at };
        reasons.push(format!("{at} {what}"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reasons(old: Value, new: Value) -> Vec<String> {
        narrowing(old.as_object().unwrap(), new.as_object().unwrap())
    }

    #[test]
    fn wider_schemas_are_told_from_narrower_ones() {
        let old = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "maxLength": 5}, "n": {"type": "integer"}}});
        let with = |edit: fn(&mut Value)| {
            let mut new = old.clone();
            edit(&mut new);
            reasons(old.clone(), new)
        };
        for wider in [
            with(|new| new["properties"]["b"] = json!({"type": "string"})),
            with(|new| new["required"] = json!([])),
            with(|new| new["properties"]["a"]["maxLength"] = json!(6)),
            with(|new| new["properties"]["a"]["type"] = json!(["string", "null"])),
            with(|new| new["properties"]["n"]["type"] = json!("number")),
            with(|new| new["title"] = json!("A")),
            with(|new| new["properties"]["a"] = json!(true)),
        ] {
            assert_eq!(wider, Vec::<String>::new());
        }
        for narrower in [
            with(|new| new["required"] = json!(["a", "b"])),
            with(|new| new["properties"]["a"]["maxLength"] = json!(4)),
            with(|new| new["properties"]["a"]["type"] = json!("integer")),
            with(|new| new["properties"]["n"]["minimum"] = json!(0)),
            with(|new| new["additionalProperties"] = json!(false)),
            with(|new| new["properties"] = json!({"a": {"type": "string", "maxLength": 5}})),
            with(|new| new["properties"]["a"]["pattern"] = json!("^x")),
            with(|new| new["properties"]["a"] = json!(false)),
            with(|new| new["anyOf"] = json!([{"required": ["b"]}])),
        ] {
            assert_eq!(narrower.len(), 1, "{narrower:?}");
        }
    }
}
