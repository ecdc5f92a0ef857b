//! As much of JSON Schema (2020-12) as the published schema uses; patterns aside.

use serde_json::{Map, Value};

/// Why a value does not fit a schema of `root`; nothing if it fits.
pub(crate) fn misfit(root: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    let Value::Object(schema) = schema else {
        return (schema == &Value::Bool(false)).then(|| format!("{at}: nothing is allowed"));
    };
    for (word, rule) in schema {
        let found = match word.as_str() {
            "$ref" => {
                let pointer = rule.as_str().unwrap().trim_start_matches('#');
                let target = root.pointer(pointer).expect("a reference leads somewhere");
                misfit(root, target, value, at)
            }
            "type" => (!is_type(rule, value)).then(|| format!("{at}: is not {rule}")),
            "const" => (rule != value).then(|| format!("{at}: is not {rule}")),
            "enum" => {
                let known = rule.as_array().unwrap().contains(value);
                (!known).then(|| format!("{at}: is not one of {rule}"))
            }
            "minimum" => number(value)
                .filter(|n| *n < number(rule).unwrap())
                .map(|n| format!("{at}: {n}")),
            "maximum" => number(value)
                .filter(|n| *n > number(rule).unwrap())
                .map(|n| format!("{at}: {n}")),
            "minItems" => {
                let short = |list: &&Vec<Value>| (list.len() as u64) < rule.as_u64().unwrap();
                value
                    .as_array()
                    .filter(short)
                    .map(|_| format!("{at}: is too short"))
            }
            "anyOf" | "oneOf" => {
                let all = rule.as_array().unwrap();
                let fits = all
                    .iter()
                    .filter(|one| misfit(root, one, value, at).is_none())
                    .count();
                let enough = if word == "oneOf" { fits == 1 } else { fits > 0 };
                (!enough).then(|| format!("{at}: fits {fits} of {}", all.len()))
            }
            "properties" | "additionalProperties" => None,
            "required" => {
                let all = rule.as_array().unwrap().iter().filter_map(Value::as_str);
                let missing = value
                    .as_object()
                    .and_then(|map| all.clone().find(|k| !map.contains_key(*k)));
                missing.map(|key| format!("{at}: has no {key}"))
            }
            "items" => {
                let list = value.as_array().into_iter().flatten().enumerate();
                list.into_iter()
                    .find_map(|(i, one)| misfit(root, rule, one, &format!("{at}[{i}]")))
            }
            "$schema" | "$defs" | "title" | "description" | "format" | "pattern" | "default" => {
                None
            }
            other => panic!("the test knows no {other}"),
        };
        if found.is_some() {
            return found;
        }
    }
    value
        .as_object()
        .and_then(|map| properties(root, schema, map, at))
}

fn properties(
    root: &Value,
    schema: &Map<String, Value>,
    map: &Map<String, Value>,
    at: &str,
) -> Option<String> {
    let empty = Map::new();
    let known = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    map.iter().find_map(|(key, value)| {
        let at = format!("{at}.{key}");
        match (known.get(key), schema.get("additionalProperties")) {
            (Some(rule), _) | (None, Some(rule)) => misfit(root, rule, value, &at),
            (None, None) => None,
        }
    })
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64()
}

fn is_type(rule: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type"),
    };
    match rule {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        _ => false,
    }
}
