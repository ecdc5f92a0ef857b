//! YAML as a JSON value with a position for each part of it.
//!
//! The rest of YAML surprises, so anchors, aliases, tags, several documents and duplicate keys are refused. A
//! plain scalar is a number only when it is spelled as JSON spells numbers: `007`, `1_000` and `2025-11-25`
//! stay texts, and so do `yes`, `off` and `.nan`.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, StrInput};
use serde_json::{Map, Number, Value};

use super::problem::{Path, Step};

/// Largest scenario file, in bytes.
pub(super) const FILE_BYTES_MAX: usize = 1 << 20;
/// Deepest nesting.
pub(super) const DEPTH_MAX: usize = 32;

/// A line and a column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub line: usize,
    pub column: usize,
}

impl At {
    const BEGIN: At = At { line: 1, column: 1 };

    fn new(marker: &Marker) -> At {
        At {
            line: marker.line(),
            column: marker.col() + 1,
        }
    }
}

/// Where a value stands, and what is inside it.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    /// Of its key, where it has one.
    at: At,
    inside: Inside,
}

#[derive(Clone, Debug)]
enum Inside {
    Nothing,
    List(Vec<Spot>),
    Map(BTreeMap<String, Spot>),
}

impl Spot {
    /// The position of a path, or of the nearest above it that was written.
    pub(super) fn find(&self, path: &Path) -> At {
        let mut spot = self;
        for step in &path.0 {
            let below = match (&spot.inside, step) {
                (Inside::List(list), Step::Index(index)) => list.get(*index),
                (Inside::Map(map), Step::Key(key)) => map.get(key),
                _ => None,
            };
            let Some(below) = below else { break };
            spot = below;
        }
        spot.at
    }
}

/// What is wrong with the text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub at: At,
    pub message: String,
}

/// Reads one document. An empty one is an empty map.
///
/// # Errors
///
/// The first thing that is not YAML, or that is refused here.
pub(super) fn parse(text: &str) -> Result<(Value, Spot), Wrong> {
    if text.len() > FILE_BYTES_MAX {
        let message = format!("is larger than {FILE_BYTES_MAX} bytes");
        let at = At::BEGIN;
        return Err(Wrong { at, message });
    }
    let mut reader = Reader(Parser::new_from_str(text));
    let mut root = None;
    loop {
        let (event, span) = reader.next()?;
        match event {
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            Event::StreamEnd => break,
            _ if root.is_some() => return wrong(&span, "a file holds one YAML document"),
            event => root = Some(reader.node(event, &span, 0)?),
        }
    }
    let empty = || {
        let inside = Inside::Map(BTreeMap::new());
        let at = At::BEGIN;
        (Value::Object(Map::new()), Spot { at, inside })
    };
    Ok(root.filter(|(v, _)| !v.is_null()).unwrap_or_else(empty))
}

/// What a plain scalar means.
pub(super) fn scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" => return Value::Null,
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        _ => {}
    }
    let number = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    match serde_json::from_str::<Number>(text) {
        Ok(found) if number => Value::Number(found),
        _ => Value::String(text.to_owned()),
    }
}

fn wrong<T>(span: &Span, message: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong {
        at: At::new(&span.start),
        message: message.into(),
    })
}

struct Reader<'t>(Parser<'t, StrInput<'t>>);

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Wrong> {
        match self.0.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(Wrong {
                at: At::new(error.marker()),
                message: format!("is not YAML: {}", error.info()),
            }),
            None => Err(Wrong {
                at: At::BEGIN,
                message: "is not YAML: it ends early".to_owned(),
            }),
        }
    }

    fn node(
        &mut self,
        event: Event<'t>,
        span: &Span,
        depth: usize,
    ) -> Result<(Value, Spot), Wrong> {
        if depth > DEPTH_MAX {
            return wrong(span, format!("is nested deeper than {DEPTH_MAX} levels"));
        }
        let (value, inside) = match event {
            Event::Alias(_) => return wrong(span, "aliases (*name) are not allowed"),
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _)
                if anchor > 0 =>
            {
                return wrong(span, "anchors (&name) are not allowed");
            }
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => {
                return wrong(span, "tags (!name) are not allowed");
            }
            Event::Scalar(text, ScalarStyle::Plain, ..) => (scalar(&text), Inside::Nothing),
            Event::Scalar(text, ..) => (Value::String(text.into_owned()), Inside::Nothing),
            Event::SequenceStart(..) => self.list(depth)?,
            Event::MappingStart(..) => self.map(depth)?,
            _ => return wrong(span, "a value is expected here"),
        };
        let at = At::new(&span.start);
        Ok((value, Spot { at, inside }))
    }

    fn list(&mut self, depth: usize) -> Result<(Value, Inside), Wrong> {
        let (mut values, mut spots) = (Vec::new(), Vec::new());
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok((values.into(), Inside::List(spots))),
                (event, span) => {
                    let (value, spot) = self.node(event, &span, depth + 1)?;
                    values.push(value);
                    spots.push(spot);
                }
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<(Value, Inside), Wrong> {
        let (mut values, mut spots) = (Map::new(), BTreeMap::new());
        loop {
            let (event, key_span) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok((values.into(), Inside::Map(spots))),
                Event::Scalar(key, _, 0, None) => key.into_owned(),
                _ => return wrong(&key_span, "a key must be a plain text"),
            };
            let (event, span) = self.next()?;
            let (value, mut spot) = self.node(event, &span, depth + 1)?;
            spot.at = At::new(&key_span.start);
            if spots.insert(key.clone(), spot).is_some() {
                return wrong(&key_span, format!("the key `{key}` is here twice"));
            }
            values.insert(key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refused(text: &str) -> String {
        parse(text).unwrap_err().message
    }

    #[test]
    fn values_and_positions() {
        let (value, spot) = parse("a: 1\nb:\n  - x: 2.5\n    y: '3'\n  - off\n").unwrap();
        assert_eq!(value, json!({"a": 1, "b": [{"x": 2.5, "y": "3"}, "off"]}));
        let y = Path::of("b").index(0).key("y");
        assert_eq!(spot.find(&y), At { line: 4, column: 5 });
        assert_eq!(spot.find(&y.key("deeper")), At { line: 4, column: 5 });
        let second = Path::of("b").index(1);
        assert_eq!(spot.find(&second), At { line: 5, column: 5 });
    }

    #[test]
    fn scalars_that_are_no_json_numbers_stay_texts() {
        for text in [
            "007",
            "1_000",
            "2025-11-25",
            ".nan",
            ".inf",
            "0x10",
            "1e",
            "+5",
            "yes",
            "-",
        ] {
            assert_eq!(scalar(text), json!(text));
        }
        assert_eq!(scalar("-5"), json!(-5));
        assert_eq!(scalar("1e3"), json!(1000.0));
        assert_eq!(scalar("~"), Value::Null);
    }

    #[test]
    fn what_is_refused() {
        assert!(refused("a: &x 1\nb: *x").contains("anchors"));
        assert!(refused("a: !!int 1").contains("tags"));
        assert!(refused("a: 1\na: 2").contains("twice"));
        assert!(refused("--- {}\n--- {}").contains("one YAML document"));
        assert!(refused("? [a]\n: 1").contains("key"));
        assert!(refused("a: [1").contains("not YAML"));
        assert!(refused(&"[".repeat(40)).contains("nested deeper"));
        assert!(refused(&" ".repeat(FILE_BYTES_MAX + 1)).contains("larger"));
        assert_eq!(parse("").unwrap().0, json!({}));
    }

    #[test]
    fn json_is_read_as_it_is() {
        let text = r#"{"a": [1, -2.5, true, null, "x\ny"], "b": {"c": {}}}"#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(parse(text).unwrap().0, expected);
    }
}
