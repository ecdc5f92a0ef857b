//! YAML as a JSON value, with a position for each part of it.
//!
//! The rest of YAML surprises, so anchors, aliases, tags, several documents and duplicate keys are refused.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, StrInput};
use serde_json::{Map, Number, Value};

use crate::FILE_BYTES_MAX;
use crate::problem::{Path, Step};

/// Deepest nesting.
pub const DEPTH_MAX: usize = 32;

/// What plain scalars are read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalars {
    /// The text that was written: `off`, `1_000` and `1.10` mean nothing until a key says what they mean.
    Written,
    /// Numbers and booleans where they are spelled as in JSON: `007`, `1_000`, `yes` and `.nan` stay texts.
    Json,
}

/// A line and a column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
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
pub struct Spot {
    at: At,
    /// Of its key, where it has one.
    key: Option<At>,
    inside: Inside,
}

#[derive(Clone, Debug)]
enum Inside {
    Nothing,
    List(Vec<Spot>),
    Map(BTreeMap<String, Spot>),
}

impl Spot {
    /// The position of a path's value, or of the nearest above it that was written.
    pub fn value(&self, path: &Path) -> At {
        self.find(path).at
    }

    /// The same of its key, where it has one.
    pub fn key(&self, path: &Path) -> At {
        let spot = self.find(path);
        spot.key.unwrap_or(spot.at)
    }

    fn find(&self, path: &Path) -> &Spot {
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
        spot
    }
}

/// What is wrong with the text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub at: At,
    pub message: String,
}

/// Reads one document. An empty one is an empty map.
///
/// # Errors
///
/// The first thing that is not YAML, or that is refused here.
pub fn parse(text: &str, scalars: Scalars) -> Result<(Value, Spot), Wrong> {
    if text.len() > FILE_BYTES_MAX {
        let message = format!("the file is larger than {FILE_BYTES_MAX} bytes");
        let at = At::BEGIN;
        return Err(Wrong { at, message });
    }
    let events = Parser::new_from_str(text);
    let mut reader = Reader { events, scalars };
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
        let (at, key) = (At::BEGIN, None);
        (Value::Object(Map::new()), Spot { at, key, inside })
    };
    Ok(root.filter(|(v, _)| !v.is_null()).unwrap_or_else(empty))
}

/// What a plain scalar means in JSON.
pub fn scalar(text: &str) -> Value {
    match text {
        _ if is_nothing(text) => return Value::Null,
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

fn is_nothing(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

fn wrong<T>(span: &Span, message: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong {
        at: At::new(&span.start),
        message: message.into(),
    })
}

struct Reader<'t> {
    events: Parser<'t, StrInput<'t>>,
    scalars: Scalars,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Wrong> {
        match self.events.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(Wrong {
                at: At::new(error.marker()),
                message: format!("this is not YAML: {}", error.info()),
            }),
            None => Err(Wrong {
                at: At::BEGIN,
                message: "this is not YAML: it ends early".to_owned(),
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
            let message = format!("this is nested deeper than {DEPTH_MAX} levels");
            return wrong(span, message);
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
            Event::Scalar(text, style, ..) => (self.text(&text, style), Inside::Nothing),
            Event::SequenceStart(..) => self.list(depth)?,
            Event::MappingStart(..) => self.map(depth)?,
            _ => return wrong(span, "a value is expected here"),
        };
        let (at, key) = (At::new(&span.start), None);
        Ok((value, Spot { at, key, inside }))
    }

    fn text(&self, text: &str, style: ScalarStyle) -> Value {
        match (style, self.scalars) {
            (ScalarStyle::Plain, Scalars::Json) => scalar(text),
            (ScalarStyle::Plain, Scalars::Written) if is_nothing(text) => Value::Null,
            _ => Value::String(text.to_owned()),
        }
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
            if event == Event::MappingEnd {
                return Ok((values.into(), Inside::Map(spots)));
            }
            let is_plain = |style: &ScalarStyle| *style == ScalarStyle::Plain;
            let key = match event {
                Event::Scalar(key, style, 0, None) if !(is_plain(&style) && is_nothing(&key)) => {
                    key.into_owned()
                }
                // An anchor or a tag is told as such.
                event => {
                    self.node(event, &key_span, depth + 1)?;
                    return wrong(&key_span, "a key must be a text");
                }
            };
            let (event, span) = self.next()?;
            let (value, mut spot) = self.node(event, &span, depth + 1)?;
            spot.key = Some(At::new(&key_span.start));
            if spots.insert(key.clone(), spot).is_some() {
                return wrong(&key_span, format!("the key {key:?} is here twice"));
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
        let wrong = parse(text, Scalars::Written).expect_err("refused");
        format!("{}:{}: {}", wrong.at.line, wrong.at.column, wrong.message)
    }

    #[test]
    fn values_and_positions() {
        let text = "a: 1\nb:\n  - x: 2.50\n    y: '3'\n  - off\n";
        let (value, spot) = parse(text, Scalars::Json).unwrap();
        assert_eq!(value, json!({"a": 1, "b": [{"x": 2.5, "y": "3"}, "off"]}));
        let (value, _) = parse(text, Scalars::Written).unwrap();
        let written = json!({"a": "1", "b": [{"x": "2.50", "y": "3"}, "off"]});
        assert_eq!(value, written);
        let y = Path::of("b").index(0).key("y");
        assert_eq!(spot.key(&y), At { line: 4, column: 5 });
        assert_eq!(spot.value(&y), At { line: 4, column: 8 });
        assert_eq!(spot.value(&y.key("deeper")), At { line: 4, column: 8 });
        let second = Path::of("b").index(1);
        assert_eq!(spot.key(&second), At { line: 5, column: 5 });
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
    fn an_empty_file_is_an_empty_map() {
        for text in ["", "\n# nothing\n", "---\n", "~"] {
            let (value, _) = parse(text, Scalars::Written).unwrap();
            assert_eq!(value, json!({}), "{text:?}");
        }
    }

    #[test]
    fn what_surprises_is_refused() {
        let cases = [
            ("a: &x 1\nb: *x\n", "1:4: anchors (&name) are not allowed"),
            ("a: !!int 1\n", "1:4: tags (!name) are not allowed"),
            ("a: 1\nb: 2\na: 3\n", "3:1: the key \"a\" is here twice"),
            ("a: 1\n---\nb: 2\n", "3:1: a file holds one YAML document"),
            ("[a]: 1\n", "1:1: a key must be a text"),
            ("? [a]\n: 1", "1:3: a key must be a text"),
            ("~: 1", "1:1: a key must be a text"),
        ];
        for (text, message) in cases {
            assert_eq!(refused(text), message, "{text:?}");
        }
        assert!(refused("a: [1\nb: 2").contains("this is not YAML"));
        assert!(refused("a: {b: *nobody}").contains("not"));
    }

    #[test]
    fn size_and_depth_are_bounded() {
        assert!(refused(&"[".repeat(40)).contains("nested deeper than 32 levels"));
        assert!(refused(&format!("a: {}", "x".repeat(FILE_BYTES_MAX))).contains("larger than"));
        assert!(refused(&"- ".repeat(5000)).contains("nested deeper"));
    }

    #[test]
    fn json_is_read_as_it_is() {
        let text = r#"{"a": [1, -2.5, true, null, "x\ny"], "b": {"c": {}}}"#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(parse(text, Scalars::Json).unwrap().0, expected);
    }
}
