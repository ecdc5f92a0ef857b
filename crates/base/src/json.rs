//! A JSON text that was read once: where each of its values stands.
//!
//! Whoever judges a message asks this index, and nobody walks the text again. The reader is strict (RFC 8259): what it
//! takes, every reader takes as the same values. It does not say whether names stand twice; who gives them a meaning does.
//!
//! Example: `{"a":[1,"b"]}` is five nodes in the order of the text: the object, the key `a`, the array, `1`, `"b"`. Each
//! knows how many nodes are inside of it, so that a member is skipped in one step.

mod reader;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// Why a text cannot be indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonError {
    /// It is not JSON.
    Syntax,
    /// It is deeper than [`limit::JSON_DEPTH_MAX`](crate::limit::JSON_DEPTH_MAX), or has 4 GiB.
    Deep,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

/// A text and the places of its values.
pub struct Json<'t> {
    text: &'t str,
    nodes: Vec<Node>,
}

/// One value, or one key of an object.
#[derive(Clone, Copy)]
struct Node {
    /// Where it stands in the text, quotes included.
    start: u32,
    end: u32,
    /// The number of the node behind all that is inside of it.
    next: u32,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Value(JsonKind),
    Key,
    /// A string value, or a key, with escapes.
    EscapedString,
    EscapedKey,
}

impl Form {
    fn is_key(self) -> bool {
        matches!(self, Form::Key | Form::EscapedKey)
    }

    fn is_escaped(self) -> bool {
        matches!(self, Form::EscapedString | Form::EscapedKey)
    }
}

impl<'t> Json<'t> {
    /// Reads a text that is one JSON value.
    ///
    /// # Errors
    /// [`JsonError`].
    pub fn read(text: &'t [u8]) -> Result<Json<'t>, JsonError> {
        let text = std::str::from_utf8(text).map_err(|_| JsonError::Syntax)?;
        let nodes = reader::nodes(text)?;
        Ok(Json { text, nodes })
    }

    /// The value that is all of it.
    pub fn root(&self) -> JsonValue<'_> {
        JsonValue { json: self, at: 0 }
    }
}

/// One value of a text that was read.
#[derive(Clone, Copy)]
pub struct JsonValue<'j> {
    json: &'j Json<'j>,
    at: usize,
}

impl<'j> JsonValue<'j> {
    fn node(self) -> Node {
        self.json.nodes[self.at]
    }

    pub fn kind(self) -> JsonKind {
        match self.node().form {
            Form::Value(kind) => kind,
            Form::Key | Form::EscapedKey | Form::EscapedString => JsonKind::String,
        }
    }

    /// Where it stands in the text.
    pub fn span(self) -> Range<usize> {
        let node = self.node();
        node.start as usize..node.end as usize
    }

    /// The value as it is written.
    pub fn text(self) -> &'j str {
        &self.json.text[self.span()]
    }

    pub fn bytes(self) -> &'j [u8] {
        self.text().as_bytes()
    }

    /// What a string says; nothing where the value is none.
    pub fn as_str(self) -> Option<Cow<'j, str>> {
        (self.kind() == JsonKind::String).then(|| said(self.json, self.node()))
    }

    /// A member of an object, by its name. Of two with that name the first.
    pub fn get(self, name: &str) -> Option<JsonValue<'j>> {
        self.members()
            .find(|(key, _)| key.is(name))
            .map(|(_, value)| value)
    }

    /// The members of an object, in their order; none where the value is no object.
    pub fn members(self) -> impl Iterator<Item = (JsonKey<'j>, JsonValue<'j>)> {
        let is_object = self.kind() == JsonKind::Object;
        let mut children = self.children(is_object);
        std::iter::from_fn(move || {
            let (key, value) = (children.next()?, children.next()?);
            Some((JsonKey { key }, value))
        })
    }

    /// The items of an array, in their order; none where the value is no array.
    pub fn items(self) -> impl Iterator<Item = JsonValue<'j>> {
        self.children(self.kind() == JsonKind::Array)
    }

    fn children(self, has: bool) -> impl Iterator<Item = JsonValue<'j>> {
        let JsonValue { json, at } = self;
        let end = if has { self.node().next as usize } else { 0 };
        let mut at = at + 1;
        std::iter::from_fn(move || {
            let child = (at < end).then_some(JsonValue { json, at })?;
            at = child.node().next as usize;
            Some(child)
        })
    }

    /// What is inside of it, in the order of the text.
    fn inside(self) -> &'j [Node] {
        &self.json.nodes[self.at..self.node().next as usize]
    }

    /// The names of all objects in it, however deep, in the order of the text.
    pub fn names(self) -> impl Iterator<Item = Cow<'j, str>> {
        let keys = self.inside().iter().filter(|node| node.form.is_key());
        keys.map(move |key| said(self.json, *key))
    }

    /// All strings in it, names included, in the order of the text: where each stands in the value, without its quotes.
    pub fn strings(self) -> impl Iterator<Item = Range<usize>> {
        let from = self.node().start as usize;
        let is_string = |node: &&Node| node.form.is_key() || is_text(node.form);
        let strings = self.inside().iter().filter(is_string);
        strings.map(move |node| {
            let (start, end) = (node.start as usize, node.end as usize);
            start + 1 - from..end - 1 - from
        })
    }

    /// Whether a string in it has an escape.
    pub fn has_escapes(self) -> bool {
        self.inside().iter().any(|node| node.form.is_escaped())
    }
}

/// A value shows its kind and never its text, which may hold a secret.
impl fmt::Debug for JsonValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {:?}", self.kind(), self.span())
    }
}

/// The name of a member.
#[derive(Clone, Copy, Debug)]
pub struct JsonKey<'j> {
    key: JsonValue<'j>,
}

impl<'j> JsonKey<'j> {
    /// What it says.
    pub fn name(self) -> Cow<'j, str> {
        said(self.key.json, self.key.node())
    }

    /// Whether it says this.
    pub fn is(self, name: &str) -> bool {
        let node = self.key.node();
        match node.form.is_escaped() {
            true => self.name() == name,
            false => between_quotes(self.key.json, node) == name,
        }
    }
}

fn is_text(form: Form) -> bool {
    matches!(form, Form::Value(JsonKind::String) | Form::EscapedString)
}

fn between_quotes<'j>(json: &'j Json<'j>, node: Node) -> &'j str {
    &json.text[node.start as usize + 1..node.end as usize - 1]
}

/// What a string or a key says.
fn said<'j>(json: &'j Json<'j>, node: Node) -> Cow<'j, str> {
    let written = between_quotes(json, node);
    match node.form.is_escaped() {
        true => Cow::Owned(reader::unescaped(written)),
        false => Cow::Borrowed(written),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::JSON_DEPTH_MAX;

    fn refused(text: &str) -> Option<JsonError> {
        Json::read(text.as_bytes()).err()
    }

    #[test]
    fn values_are_found_where_they_stand() {
        let text = r#" {"a":[1,{"b":"c"},[]],"d\n":null,"e":{}} "#;
        let json = Json::read(text.as_bytes()).unwrap();
        let root = json.root();
        assert_eq!(root.text(), text.trim());
        let texts = |value: JsonValue<'_>| -> Vec<String> {
            value.items().map(|item| item.text().to_owned()).collect()
        };
        assert_eq!(texts(root.get("a").unwrap()), ["1", r#"{"b":"c"}"#, "[]"]);
        assert_eq!(root.get("d\n").unwrap().kind(), JsonKind::Null);
        assert_eq!(root.get("e").unwrap().members().count(), 0);
        assert!(root.get("b").is_none() && root.items().next().is_none());
        assert_eq!(root.names().collect::<Vec<_>>(), ["a", "b", "d\n", "e"]);
    }

    #[test]
    fn strings_are_said_without_escapes_and_shown_where_they_are() {
        let text = r#"["é\u00e9\ud83d\ude00\"\\\/\b\f\n\r\t", {"k":"v"}]"#;
        let json = Json::read(text.as_bytes()).unwrap();
        let items: Vec<JsonValue<'_>> = json.root().items().collect();
        let said = items[0].as_str().unwrap();
        assert_eq!(said, "éé😀\"\\/\u{8}\u{c}\n\r\t");
        assert_eq!(items[1].as_str(), None);
        assert!(json.root().has_escapes() && !items[1].has_escapes());
        let strings = items[1].strings().map(|span| &items[1].text()[span]);
        assert_eq!(strings.collect::<Vec<_>>(), ["k", "v"]);
        assert_eq!(format!("{:?}", items[1]), "Object at 41..50");
    }

    #[test]
    fn what_serde_json_reads_is_read_and_nothing_else() {
        let texts = [
            "",
            " ",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "{\"a\"}",
            "{1:2}",
            "[1 2]",
            "nul",
            "truex",
            "\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\ud800\"",
            "\"\\udc00\"",
            "\"\\ud800\\u0041\"",
            "\"\u{1}\"",
            "\"12345678\u{1}\"",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "+1",
            "0x1",
            "1e999",
            "-1e-999",
            "[]]",
            "{} {}",
            "\u{feff}{}",
            "'a'",
            "NaN",
            "\u{a0}1",
            "0",
            "-0",
            "1.5E+3",
            "\"\"",
            "\"\u{7f}é\"",
            " [ ] ",
            "\t{\r\n\"a\" : [ 1 , 2 ] } ",
            "\"a\\u0000\"",
        ];
        let digits = "9".repeat(400);
        for text in texts.into_iter().chain([&*digits]) {
            let serde = serde_json::from_str::<serde_json::Value>(text).is_ok();
            assert_eq!(refused(text).is_none(), serde, "{text:?}");
        }
        assert_eq!(Json::read(b"\"\xff\"").err(), Some(JsonError::Syntax));
    }

    #[test]
    fn a_string_may_end_at_any_place_of_a_word() {
        for length in 0..20 {
            for end in ["\"", "\\n\"", "\u{1f}\"", "é\""] {
                let text = format!("\"{}{end}", "a".repeat(length));
                let serde = serde_json::from_str::<String>(&text).ok();
                let json = Json::read(text.as_bytes()).ok();
                let said = json.as_ref().and_then(|json| json.root().as_str());
                assert_eq!(said.as_deref(), serde.as_deref(), "{text:?}");
            }
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert_eq!(refused(&nested(JSON_DEPTH_MAX + 1)), None);
        assert_eq!(refused(&nested(JSON_DEPTH_MAX + 2)), Some(JsonError::Deep));
    }
}
