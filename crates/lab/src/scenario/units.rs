//! Values with units as a person writes them: `30s`, `10KB`, `env:TOKEN`.
//!
//! A duration without its unit is refused, because half of all tools mean seconds and the other half
//! milliseconds. Each type reads a JSON value and says in a sentence what it expects.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error};
use serde_json::Value;

/// Longest duration: thirty days.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(30 * 86_400);

/// A duration, such as `5ms`, `1.5s`, `1m30s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

/// A size in bytes, such as `512`, `10KB` (10,000) or `1MiB` (1,048,576).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// A number that is not negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level(pub f64);

/// A whole number that is not negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u64);

/// A text; whole numbers and booleans are taken as they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(pub String);

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch(pub bool);

/// Reads a duration. Parts may follow each other: `1m30s`.
///
/// # Errors
///
/// The sentence that says how one is written.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration; write 5ms, 30s, 2m or 1h");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let (mut seconds, mut rest) = (0.0, text);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, tail) = rest.split_at(digits.ok_or_else(wrong)?);
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, tail) = tail.split_at(unit.unwrap_or(tail.len()));
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let factor = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return Err(wrong()),
        };
        seconds += number * factor;
        rest = tail;
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(found) if found > DURATION_MAX => Err(format!("`{text}` is longer than 30 days")),
        Ok(found) if !text.is_empty() => Ok(found),
        _ => Err(wrong()),
    }
}

/// Reads a size in bytes. `KB` is 1,000 and `KiB` 1,024.
///
/// # Errors
///
/// The sentence that says how one is written.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size; write 512, 10KB or 1MiB");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let factor = match unit.trim() {
        "" | "B" => 1.0,
        "KB" | "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    let bytes = number * factor;
    if bytes.fract() != 0.0 || bytes > 1e15 {
        return Err(wrong());
    }
    Ok(bytes as u64)
}

fn span(value: &Value) -> Result<Span, String> {
    match value {
        Value::String(text) => duration(text).map(Span),
        Value::Number(zero) if zero.as_f64() == Some(0.0) => Ok(Span(Duration::ZERO)),
        Value::Number(bare) => Err(format!("{bare} has no unit; write {bare}s or {bare}ms")),
        _ => Err("is not a duration; write 5ms, 30s, 2m or 1h".to_owned()),
    }
}

fn bytes(value: &Value) -> Result<Size, String> {
    match value {
        Value::String(text) => size(text).map(Size),
        Value::Number(plain) => plain.as_u64().map(Size).ok_or_else(|| size_expected(plain)),
        _ => Err("is not a size; write 512, 10KB or 1MiB".to_owned()),
    }
}

fn size_expected(found: &serde_json::Number) -> String {
    format!("{found} is not a size; write 512, 10KB or 1MiB")
}

fn level(value: &Value) -> Result<Level, String> {
    match value {
        Value::Number(found) => match found.as_f64() {
            Some(level) if level.is_finite() && level >= 0.0 => Ok(Level(level)),
            _ => Err(format!("{found} is not a number from 0 up")),
        },
        other => Err(format!("{} is not a number", shown(other))),
    }
}

fn count(value: &Value) -> Result<Count, String> {
    let found = value.as_u64().map(Count);
    found.ok_or_else(|| format!("{} is not a whole number from 0 up", shown(value)))
}

fn text(value: &Value) -> Result<Text, String> {
    match value {
        Value::String(text) => Ok(Text(text.clone())),
        Value::Bool(on) => Ok(Text(on.to_string())),
        Value::Number(number) if number.is_i64() || number.is_u64() => Ok(Text(number.to_string())),
        Value::Number(_) => Err("is a fraction and would be rounded; put it in quotes".to_owned()),
        _ => Err("is not a text".to_owned()),
    }
}

fn switch(value: &Value) -> Result<Switch, String> {
    let found = value.as_bool().map(Switch);
    found.ok_or_else(|| format!("{} is neither true nor false", shown(value)))
}

/// A value as an error shows it.
fn shown(value: &Value) -> String {
    const SHOWN_MAX: usize = 40;
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
        Value::Null => "nothing".to_owned(),
        Value::String(text) if text.chars().count() <= SHOWN_MAX => format!("`{text}`"),
        Value::String(_) => "a long text".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Reads a type from a JSON value by a function, and gives it its schema.
macro_rules! from_value {
    ($type:ident, $read:path, $name:literal, $schema:tt) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                $read(&Value::deserialize(from)?).map_err(D::Error::custom)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

from_value!(Span, span, "Duration", {
    "description": "A duration with its unit: 5ms, 1.5s, 1m30s, 2h",
    "anyOf": [
        { "type": "string", "pattern": "^(0|([0-9.]+(ns|us|µs|ms|s|m|h|d))+)$" },
        { "const": 0 }
    ]
});
from_value!(Size, bytes, "Size", {
    "description": "A size in bytes: 512, 10KB (10,000), 1MiB (1,048,576)",
    "anyOf": [
        { "type": "string", "pattern": "^[0-9.]+ ?(B|[kK]B|MB|GB|KiB|MiB|GiB)?$" },
        { "type": "integer", "minimum": 0 }
    ]
});
from_value!(Level, level, "Level", {
    "description": "A number that is not negative",
    "type": "number", "minimum": 0
});
from_value!(Count, count, "Count", {
    "description": "A whole number that is not negative",
    "type": "integer", "minimum": 0
});
from_value!(Text, text, "Text", { "type": ["string", "integer", "boolean"] });
from_value!(Switch, switch, "Switch", { "type": "boolean" });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let ms = |text| duration(text).map(|d| d.as_secs_f64() * 1e3);
        assert_eq!(ms("5ms"), Ok(5.0));
        assert_eq!(ms("1.5s"), Ok(1500.0));
        assert_eq!(ms("1m30s"), Ok(90_000.0));
        assert_eq!(ms("250us"), Ok(0.25));
        assert_eq!(ms("0"), Ok(0.0));
        for wrong in [
            "", "5", "s", "5x", "-5s", "1..5s", "nan", "5 s", "1e3s", "99999d", "∞",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size("512"), Ok(512));
        assert_eq!(size("10KB"), Ok(10_000));
        assert_eq!(size("1.5 KiB"), Ok(1536));
        assert_eq!(size("1MiB"), Ok(1 << 20));
        for wrong in ["", "KB", "-1", "1.5", "10XB", "1e9", "99999999GiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
