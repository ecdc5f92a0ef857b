//! JSON merge patch (RFC 7396), and what differs between two versions of an object.

use serde_json::{Map, Value};

/// Applies a merge patch: null takes a key away, objects are merged, everything else replaces.
pub fn merge(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.remove(key);
            }
            Value::Object(patch) => {
                let mut inner = match target.remove(key) {
                    Some(Value::Object(map)) => map,
                    _ => Map::new(),
                };
                merge(&mut inner, patch);
                target.insert(key.clone(), Value::Object(inner));
            }
            value => {
                target.insert(key.clone(), value.clone());
            }
        }
    }
}

/// The names of the top fields in which two objects differ.
pub fn differs(a: &Value, b: &Value) -> Vec<String> {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else {
        return Vec::new();
    };
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort();
    names.dedup();
    let differ = names
        .into_iter()
        .filter(|name| a.get(*name) != b.get(*name));
    differ.cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The test cases of RFC 7396, Appendix A, whose target and patch are objects.
    #[test]
    fn the_vectors_of_the_standard() {
        for (target, patch, result) in [
            (json!({"a":"b"}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"b"}), json!({"b":"c"}), json!({"a":"b","b":"c"})),
            (json!({"a":"b"}), json!({"a":null}), json!({})),
            (
                json!({"a":"b","b":"c"}),
                json!({"a":null}),
                json!({"b":"c"}),
            ),
            (json!({"a":["b"]}), json!({"a":"c"}), json!({"a":"c"})),
            (json!({"a":"c"}), json!({"a":["b"]}), json!({"a":["b"]})),
            (
                json!({"a":{"b":"c"}}),
                json!({"a":{"b":"d","c":null}}),
                json!({"a":{"b":"d"}}),
            ),
            (json!({"a":[{"b":"c"}]}), json!({"a":[1]}), json!({"a":[1]})),
            (json!({"e":null}), json!({"a":1}), json!({"e":null,"a":1})),
            (
                json!({}),
                json!({"a":{"bb":{"ccc":null}}}),
                json!({"a":{"bb":{}}}),
            ),
        ] {
            let mut map = target.as_object().unwrap().clone();
            merge(&mut map, patch.as_object().unwrap());
            assert_eq!(Value::Object(map), result, "{target} {patch}");
        }
    }
}
