//! How much work a document makes for a schema, at most: counted before it is validated, so that no schema of a stranger
//! keeps a thread busy.
//!
//! Each schema that meets each value counts, whatever comes of it. A schema that leads back to itself at the same value has no
//! end and is found by its depth. Example: `{"$ref": "#"}` meets every value for ever.

use serde_json::{Map, Value};
use tools::serve::call::Problem;

/// Meetings of a schema and a value in one validation.
pub const MEETINGS_MAX: usize = 200_000;
/// What a pattern takes for each byte that it looks at, in meetings.
const PATTERN_BYTE: usize = 2;
/// Schemas inside one another, at one value or below it.
const DEPTH_MAX: usize = 200;

/// Keywords whose schemas meet the same value.
const HERE_ONE: &[&str] = &["not", "if", "then", "else"];
const HERE_LIST: &[&str] = &["allOf", "anyOf", "oneOf"];
/// Keywords whose schema meets each entry, each member or each name.
const BELOW_ONE: &[&str] = &[
    "items",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "propertyNames",
];

/// Refuses a document that would make too much work.
pub fn check(schema: &Map<String, Value>, data: &Value) -> Result<(), Problem> {
    let root = Value::Object(schema.clone());
    let mut left = MEETINGS_MAX;
    meet(&root, &root, data, DEPTH_MAX, &mut left).ok_or_else(|| {
        Problem::argument(format!(
            "`schema`: validating this takes more than {MEETINGS_MAX} steps, or has no end: a $ref leads back to itself, the same parts are asked for again and again, or patterns look at long texts"
        ))
    })
}

fn meet(root: &Value, schema: &Value, data: &Value, depth: usize, left: &mut usize) -> Option<()> {
    *left = left.checked_sub(1)?;
    let depth = depth.checked_sub(1)?;
    let Value::Object(schema) = schema else {
        return Some(());
    };
    for (key, part) in schema {
        match (key.as_str(), part) {
            ("$ref" | "$dynamicRef", Value::String(to)) => {
                if let Some(target) = target(root, to) {
                    meet(root, target, data, depth, left)?;
                }
            }
            ("pattern", _) => matched(data.as_str().unwrap_or_default(), left)?,
            (key, part) if HERE_ONE.contains(&key) => meet(root, part, data, depth, left)?,
            (key, Value::Array(parts)) if HERE_LIST.contains(&key) => {
                for part in parts {
                    meet(root, part, data, depth, left)?;
                }
            }
            ("dependentSchemas", Value::Object(parts)) => {
                for part in parts.values() {
                    meet(root, part, data, depth, left)?;
                }
            }
            (key, part) => below(root, key, part, data, depth, left)?,
        }
    }
    Some(())
}

/// A pattern that looks at a text.
fn matched(text: &str, left: &mut usize) -> Option<()> {
    *left = left.checked_sub(text.len() * PATTERN_BYTE)?;
    Some(())
}

/// What meets the entries and members of a value.
fn below(
    root: &Value,
    key: &str,
    part: &Value,
    data: &Value,
    depth: usize,
    left: &mut usize,
) -> Option<()> {
    match (key, part, data) {
        ("properties", Value::Object(parts), Value::Object(map)) => {
            for (name, part) in parts {
                if let Some(value) = map.get(name) {
                    meet(root, part, value, depth, left)?;
                }
            }
        }
        ("patternProperties", Value::Object(parts), Value::Object(map)) => {
            for part in parts.values() {
                for (name, value) in map {
                    matched(name, left)?;
                    meet(root, part, value, depth, left)?;
                }
            }
        }
        ("prefixItems", Value::Array(parts), Value::Array(values)) => {
            for (part, value) in parts.iter().zip(values) {
                meet(root, part, value, depth, left)?;
            }
        }
        (key, part, Value::Array(values)) if BELOW_ONE.contains(&key) => {
            for value in values {
                meet(root, part, value, depth, left)?;
            }
        }
        (key, part, Value::Object(map)) if BELOW_ONE.contains(&key) => {
            for value in map.values() {
                meet(root, part, value, depth, left)?;
            }
        }
        _ => {}
    }
    Some(())
}

/// What a reference inside the schema refers to; an anchor is looked for, a pointer followed (RFC 6901).
fn target<'s>(root: &'s Value, to: &str) -> Option<&'s Value> {
    let fragment = to.strip_prefix('#')?;
    if fragment.is_empty() || fragment.starts_with('/') {
        return root.pointer(&fragment.replace("%25", "%").replace("%22", "\""));
    }
    anchored(root, fragment)
}

fn anchored<'s>(value: &'s Value, name: &str) -> Option<&'s Value> {
    match value {
        Value::Object(map) => {
            let is = |key: &str| map.get(key).and_then(Value::as_str) == Some(name);
            if is("$anchor") || is("$dynamicAnchor") {
                return Some(value);
            }
            map.values().find_map(|value| anchored(value, name))
        }
        Value::Array(values) => values.iter().find_map(|value| anchored(value, name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fits(schema: Value, data: Value) -> bool {
        check(schema.as_object().unwrap(), &data).is_ok()
    }

    #[test]
    fn work_without_end_is_found_before_it_begins() {
        let bomb = |levels: usize| {
            let mut defs = Map::new();
            for level in 0..levels {
                let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
                defs.insert(format!("a{level}"), json!({"allOf": [next, next]}));
            }
            defs.insert(format!("a{levels}"), json!({"type": "object"}));
            json!({"$ref": "#/$defs/a0", "$defs": defs})
        };
        assert!(fits(bomb(10), json!({})));
        assert!(!fits(bomb(30), json!({})));
        for endless in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"anyOf": [{"$ref": "#"}]}]}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
            json!({"$anchor": "x", "not": {"$ref": "#x"}}),
        ] {
            assert!(!fits(endless.clone(), json!({})), "{endless}");
        }
        // Twice as often at each level of the document.
        let deep = json!({"properties": {"n": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
        let document = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"n": inner}));
        assert!(fits(deep.clone(), document(5)));
        assert!(!fits(deep, document(30)));
        // What patterns look at counts by its length.
        let pattern = json!({"properties": {"a": {"pattern": "x"}}});
        assert!(fits(pattern.clone(), json!({"a": "x".repeat(90_000)})));
        assert!(!fits(pattern, json!({"a": "x".repeat(110_000)})));
        let names = json!({"patternProperties": {"x": true, "y": true}});
        assert!(!fits(names, json!({"x".repeat(60_000): 1})));
        // A tree is no bomb.
        let tree = json!({"properties": {"children": {"items": {"$ref": "#"}}}});
        let node = json!({"children": vec![json!({"children": []}); 1000]});
        assert!(fits(tree, node));
    }
}
