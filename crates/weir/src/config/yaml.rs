//! YAML as a tree with positions: maps, lists and texts, and nothing else.
//!
//! A configuration needs little of YAML, and the rest of it surprises: so anchors, aliases, tags, merge keys,
//! several documents and duplicate keys are refused here, and a scalar stays the text that was written (`off`
//! is not a boolean until a key says so).

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span};

use super::{DEPTH_MAX, FILE_BYTES_MAX};

/// A position in a file: line and column, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub line: usize,
    pub column: usize,
}

impl At {
    fn new(marker: &Marker) -> At {
        At {
            line: marker.line(),
            column: marker.col() + 1,
        }
    }
}

/// A value and where it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub at: At,
    pub value: Value,
}

/// What YAML can say here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Nothing, `~` or `null`.
    Null,
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// One key of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub key: String,
    pub at: At,
    pub node: Node,
}

impl Node {
    /// The value of a map's key.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|e| e.key == key).map(|e| &e.node),
            Value::Null | Value::Text(_) | Value::List(_) => None,
        }
    }
}

/// What is wrong with the text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub at: At,
    pub message: String,
}

/// Reads one document. An empty file is an empty map.
pub(crate) fn parse(text: &str) -> Result<Node, Wrong> {
    if text.len() > FILE_BYTES_MAX {
        let message = format!("the file is larger than {FILE_BYTES_MAX} bytes");
        return Err(Wrong {
            at: At { line: 1, column: 1 },
            message,
        });
    }
    let mut reader = Reader {
        events: Parser::new_from_str(text),
    };
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
    let at = At { line: 1, column: 1 };
    Ok(root
        .filter(|node| node.value != Value::Null)
        .unwrap_or(Node {
            at,
            value: Value::Map(Vec::new()),
        }))
}

fn wrong<T>(span: &Span, message: &str) -> Result<T, Wrong> {
    Err(Wrong {
        at: At::new(&span.start),
        message: message.to_owned(),
    })
}

struct Reader<'t> {
    events: Parser<'t, saphyr_parser::StrInput<'t>>,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Wrong> {
        let end = At { line: 1, column: 1 };
        match self.events.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let message = format!("this is not YAML: {}", error.info());
                Err(Wrong {
                    at: At::new(error.marker()),
                    message,
                })
            }
            None => Err(Wrong {
                at: end,
                message: "this is not YAML: it ends early".to_owned(),
            }),
        }
    }

    fn node(&mut self, event: Event<'t>, span: &Span, depth: usize) -> Result<Node, Wrong> {
        if depth > DEPTH_MAX {
            return wrong(
                span,
                &format!("this is nested deeper than {DEPTH_MAX} levels"),
            );
        }
        let at = At::new(&span.start);
        let value = match event {
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
            Event::Scalar(text, style, ..) => scalar(text.into_owned(), style),
            Event::SequenceStart(..) => Value::List(self.list(depth)?),
            Event::MappingStart(..) => Value::Map(self.map(depth)?),
            _ => return wrong(span, "a value is expected here"),
        };
        Ok(Node { at, value })
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Wrong> {
        let mut nodes = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(nodes),
                (event, span) => nodes.push(self.node(event, &span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Entry>, Wrong> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(entries);
            }
            let Node {
                at,
                value: Value::Text(key),
            } = self.node(event, &span, depth + 1)?
            else {
                return wrong(&span, "a key must be a text");
            };
            if !seen.insert(key.clone()) {
                return wrong(&span, &format!("the key {key:?} is here twice"));
            }
            let (event, span) = self.next()?;
            let node = self.node(event, &span, depth + 1)?;
            entries.push(Entry { key, at, node });
        }
    }
}

/// A plain scalar that means nothing is nothing; all others are their text.
fn scalar(text: String, style: ScalarStyle) -> Value {
    let plain = style == ScalarStyle::Plain;
    if plain && matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL") {
        Value::Null
    } else {
        Value::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let wrong = parse(text).expect_err("refused");
        format!("{}:{}: {}", wrong.at.line, wrong.at.column, wrong.message)
    }

    #[test]
    fn positions_count_from_one() {
        let root = parse("a: 1\nb:\n  c: [x, off]\n").expect("YAML");
        let c = root.get("b").and_then(|b| b.get("c")).expect("c");
        assert_eq!(c.at, At { line: 3, column: 6 });
        let Value::List(items) = &c.value else {
            panic!("a list")
        };
        assert_eq!(items[1].value, Value::Text("off".into()));
        assert_eq!(
            items[1].at,
            At {
                line: 3,
                column: 10
            }
        );
    }

    #[test]
    fn an_empty_file_is_an_empty_map() {
        for text in ["", "\n# nothing\n", "---\n", "~"] {
            assert_eq!(
                parse(text).expect(text).value,
                Value::Map(Vec::new()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn what_surprises_is_refused() {
        assert_eq!(
            refused("a: &x 1\nb: *x\n"),
            "1:4: anchors (&name) are not allowed"
        );
        assert_eq!(refused("a: !!int 1\n"), "1:4: tags (!name) are not allowed");
        assert_eq!(
            refused("a: 1\nb: 2\na: 3\n"),
            "3:1: the key \"a\" is here twice"
        );
        assert_eq!(
            refused("a: 1\n---\nb: 2\n"),
            "3:1: a file holds one YAML document"
        );
        assert_eq!(refused("[a]: 1\n"), "1:1: a key must be a text");
        assert!(refused("a: [1\nb: 2").contains("this is not YAML"));
        assert!(refused("a: {b: *nobody}").contains("not"));
    }

    #[test]
    fn size_and_depth_are_bounded() {
        assert!(refused(&"[".repeat(40)).contains("nested deeper than 16 levels"));
        assert!(refused(&format!("a: {}", "x".repeat(FILE_BYTES_MAX))).contains("larger than"));
        assert!(refused(&"- ".repeat(5000)).contains("nested deeper"));
    }
}
