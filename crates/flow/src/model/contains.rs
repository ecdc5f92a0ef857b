//! Whether one JSON contains another, as PostgreSQL's `@>` has it (its documentation, 8.14.3 "jsonb Containment and Existence").
//!
//! An object contains another where it has all its keys with values that contain the other's. An array contains another
//! where each entry of the other is contained in some entry, whatever the order and number. At the top, and only there, an
//! array contains a scalar that is one of its entries.

use serde_json::Value;

/// Whether `left @> right`.
pub fn contains(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Array(entries), right) if !right.is_array() && !right.is_object() => {
            entries.iter().any(|entry| same(entry, right))
        }
        _ => deep(left, right),
    }
}

fn deep(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => right.iter().all(|(key, value)| {
            let own = left.get(key);
            own.is_some_and(|own| deep(own, value))
        }),
        (Value::Array(left), Value::Array(right)) => right
            .iter()
            .all(|value| left.iter().any(|own| deep(own, value))),
        (left, right) => same(left, right),
    }
}

/// Whether two scalars are one. Numbers are by value: 1 is 1.0.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
                return a == b;
            }
            if let (Some(a), Some(b)) = (a.as_u64(), b.as_u64()) {
                return a == b;
            }
            a.as_f64() == b.as_f64()
        }
        (Value::Array(_) | Value::Object(_), _) | (_, Value::Array(_) | Value::Object(_)) => false,
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The examples of PostgreSQL's documentation, and the corners around them.
    #[test]
    fn as_postgresql_has_it() {
        for (left, right, holds) in [
            (json!("foo"), json!("foo"), true),
            (json!([1, 2, 3]), json!([1, 3]), true),
            (json!([1, 2, 3]), json!([3, 1]), true),
            (json!([1, 2, 3]), json!([1, 2, 2]), true),
            (
                json!({"product": "PostgreSQL", "version": 9.4, "jsonb": true}),
                json!({"version": 9.4}),
                true,
            ),
            (json!([1, 2, [1, 3]]), json!([1, 3]), false),
            (json!([1, 2, [1, 3]]), json!([[1, 3]]), true),
            (json!({"foo": {"bar": "baz"}}), json!({"bar": "baz"}), false),
            (json!({"foo": {"bar": "baz"}}), json!({"foo": {}}), true),
            (json!(["foo", "bar"]), json!("bar"), true),
            (json!("bar"), json!(["bar"]), false),
            (json!({"a": ["x"]}), json!({"a": "x"}), false),
            (json!([["x"]]), json!(["x"]), false),
            (json!({"a": 1}), json!({"a": 1.0}), true),
            (json!({"a": null}), json!({"a": null}), true),
            (json!({}), json!({"a": null}), false),
            (json!({"a": 1}), json!({}), true),
            (json!([]), json!({}), false),
            (json!([1]), json!([]), true),
        ] {
            assert_eq!(contains(&left, &right), holds, "{left} @> {right}");
        }
    }
}
