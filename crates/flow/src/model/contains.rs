//! Whether one JSON contains another, as PostgreSQL's `@>` has it (its documentation, 8.14.3 "jsonb Containment and Existence").
//!
//! An object contains another where it has all its keys with values that contain the other's. An array contains another
//! where each entry of the other is contained in some entry, whatever the order and number. At the top, and only there, an
//! array contains a scalar that is one of its entries.

use serde_json::{Number, Value};

/// Whether `left @> right`; nothing where that takes more steps than are left. Each pair of values that is compared takes one.
pub fn contains(left: &Value, right: &Value, steps: &mut usize) -> Option<bool> {
    match (left, right) {
        (Value::Array(entries), right) if !right.is_array() && !right.is_object() => {
            *steps = steps.checked_sub(entries.len())?;
            Some(entries.iter().any(|entry| same(entry, right)))
        }
        _ => deep(left, right, steps),
    }
}

fn deep(left: &Value, right: &Value, steps: &mut usize) -> Option<bool> {
    *steps = steps.checked_sub(1)?;
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            for (key, value) in right {
                let Some(own) = left.get(key) else {
                    return Some(false);
                };
                if !deep(own, value, steps)? {
                    return Some(false);
                }
            }
            Some(true)
        }
        (Value::Array(left), Value::Array(right)) => {
            for value in right {
                if !among(left, value, steps)? {
                    return Some(false);
                }
            }
            Some(true)
        }
        (left, right) => Some(same(left, right)),
    }
}

/// Whether some entry contains a value.
fn among(entries: &[Value], value: &Value, steps: &mut usize) -> Option<bool> {
    for entry in entries {
        if deep(entry, value, steps)? {
            return Some(true);
        }
    }
    Some(false)
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
            match (whole(a), whole(b)) {
                (Some(a), Some(b)) => a == b,
                // One has a fraction, or is larger than any number of an integer's bits.
                _ => a.as_f64() == b.as_f64(),
            }
        }
        (Value::Array(_) | Value::Object(_), _) | (_, Value::Array(_) | Value::Object(_)) => false,
        (a, b) => a == b,
    }
}

/// A number without a fraction. PostgreSQL reads a fractional number as it is written, in its shortest form: 1e19 is ten
/// billions of billions, to the last digit.
fn whole(number: &Number) -> Option<i128> {
    if let Some(number) = number.as_i64() {
        return Some(number.into());
    }
    if let Some(number) = number.as_u64() {
        return Some(number.into());
    }
    let number = number.as_f64().filter(|number| number.fract() == 0.0)?;
    format!("{number}").parse().ok()
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
            (
                json!(9007199254740993_i64),
                json!(9007199254740992.0),
                false,
            ),
            (
                json!(18446744073709551615_u64),
                json!(18446744073709551615.0),
                false,
            ),
            (json!(10000000000000000000_u64), json!(1e19), true),
            (json!(0), json!(-0.0), true),
            (json!({"a": null}), json!({"a": null}), true),
            (json!({}), json!({"a": null}), false),
            (json!({"a": 1}), json!({}), true),
            (json!([]), json!({}), false),
            (json!([1]), json!([]), true),
        ] {
            let found = contains(&left, &right, &mut 100);
            assert_eq!(found, Some(holds), "{left} @> {right}");
        }
    }

    #[test]
    fn each_comparison_takes_a_step() {
        let (left, right): (Value, Value) = ((0..1000).collect(), (1000..2000).collect());
        let mut steps = 5000;
        // The first entry that is not there is enough.
        assert_eq!(contains(&left, &right, &mut steps), Some(false));
        assert_eq!(steps, 5000 - 1 - 1000);
        let last: Value = vec![999; 1000].into();
        assert_eq!(contains(&left, &last, &mut steps), None);
        assert_eq!(contains(&left, &json!(1), &mut 999), None);
        assert_eq!(contains(&left, &json!(1), &mut 1000), Some(true));
    }
}
