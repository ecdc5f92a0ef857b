//! Edits the configuration of another program by byte span: members are put into one object of a JSON text, or taken out of it,
//! and every other byte stays as it is.
//!
//! Comments and trailing commas are read as editors read them (JSONC) and kept. Nothing is reformatted and nothing is sorted. A
//! text that two readers could read differently, since a name stands twice in an object that is edited, is refused.
//!
//! Example: `{"servers": {}}` with the member `weir` put into `servers` is `{"servers": {"weir": …}}`, on lines of its own.

mod mask;

use std::fmt;
use std::ops::Range;

use base::{Json, JsonError, JsonKind, JsonValue};
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

use mask::Mask;

/// What JSON takes for spaces (RFC 8259, section 2); other characters that look so are none.
const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

/// Why a text cannot be edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditError {
    /// It is not JSON, with or without comments.
    Syntax { line: usize, why: String },
    /// It is nested too deep, or too long.
    Deep,
    /// The whole text, or the member of that name, is no object.
    NotObject(Option<String>),
    /// A name stands twice in an object that is edited.
    Twice(String),
    /// A member of that name is there already.
    Exists(String),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditError::Syntax { line, why } => write!(f, "is not JSON: line {line}: {why}"),
            EditError::Deep => f.write_str("is nested too deep"),
            EditError::NotObject(None) => f.write_str("holds JSON that is no object"),
            EditError::NotObject(Some(name)) => write!(f, "has a {name:?} that is no object"),
            EditError::Twice(name) => write!(f, "has {name:?} twice in one object"),
            EditError::Exists(name) => write!(f, "has an entry {name:?} already"),
        }
    }
}

impl std::error::Error for EditError {}

/// Puts members into the object that the member `root` of the whole text is; makes it where it is not there.
///
/// # Errors
/// [`EditError`]; a member that is there already is never replaced.
pub fn insert(text: &str, root: &str, members: &[(String, Value)]) -> Result<String, EditError> {
    let mask = Mask::of(text)?;
    if is_blank(&mask.strict) {
        return Ok(new_text(text, root, members));
    }
    let json = index(&mask)?;
    let document = object(json.root(), None)?;
    let layout = Layout::of(text, &mask, document);
    match document.get(root) {
        None => {
            let all = members.iter().cloned().collect();
            let member = (root.to_owned(), Value::Object(all));
            Ok(layout.insert(document, &[member]))
        }
        Some(value) => {
            let value = object(value, Some(root))?;
            let there = members.iter().find(|(name, _)| value.get(name).is_some());
            match there {
                Some((name, _)) => Err(EditError::Exists(name.clone())),
                None => Ok(layout.insert(value, members)),
            }
        }
    }
}

/// Takes members out of the object that the member `root` is. Names that are not there are passed over. `and_root`: the object
/// goes too if nothing is left in it.
///
/// # Errors
/// [`EditError`].
pub fn remove(
    text: &str,
    root: &str,
    names: &[String],
    and_root: bool,
) -> Result<String, EditError> {
    let mut text = text.to_owned();
    for name in names {
        if let Some(without) = remove_one(&text, Some(root), name, |_| true)? {
            text = without;
        }
    }
    let is_empty = |value: JsonValue<'_>| value.members().next().is_none();
    if and_root && let Some(without) = remove_one(&text, None, root, is_empty)? {
        text = without;
    }
    Ok(text)
}

/// The text as strict JSON of the same length: comments, trailing commas and a byte order mark are spaces.
///
/// # Errors
/// [`EditError`].
pub fn strict(text: &str) -> Result<String, EditError> {
    let mask = Mask::of(text)?;
    index(&mask)?;
    Ok(mask.strict)
}

fn index(mask: &Mask) -> Result<Json<'_>, EditError> {
    Json::read(mask.strict.as_bytes()).map_err(|error| match error {
        JsonError::Deep => EditError::Deep,
        JsonError::Syntax => mask.syntax(),
    })
}

/// The value, if it is an object in which each name stands once.
fn object<'j>(value: JsonValue<'j>, name: Option<&str>) -> Result<JsonValue<'j>, EditError> {
    if value.kind() != JsonKind::Object {
        return Err(EditError::NotObject(name.map(str::to_owned)));
    }
    let mut names: Vec<_> = value.members().map(|(key, _)| key.name()).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(EditError::Twice(pair[0].to_string())),
        None => Ok(value),
    }
}

/// Whether a text is nothing but spaces.
fn is_blank(text: &str) -> bool {
    text.trim_matches(SPACES).is_empty()
}

/// A text of nothing but spaces and comments, with the object behind it.
fn new_text(text: &str, root: &str, members: &[(String, Value)]) -> String {
    let all: serde_json::Map<_, _> = members.iter().cloned().collect();
    let document = serde_json::json!({ root: all });
    let kept = if is_blank(text) { "" } else { text };
    let end = if kept.is_empty() || kept.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    format!("{kept}{end}{}\n", pretty(&document, "  "))
}

fn remove_one(
    text: &str,
    root: Option<&str>,
    name: &str,
    if_so: impl Fn(JsonValue<'_>) -> bool,
) -> Result<Option<String>, EditError> {
    let mask = Mask::of(text)?;
    if is_blank(&mask.strict) {
        return Ok(None);
    }
    let json = index(&mask)?;
    let document = object(json.root(), None)?;
    let within = match root {
        None => document,
        Some(root) => match document.get(root) {
            None => return Ok(None),
            Some(value) => object(value, Some(root))?,
        },
    };
    let spans = members(within, &mask);
    let place = within
        .members()
        .position(|(key, value)| key.is(name) && if_so(value));
    let Some(place) = place else { return Ok(None) };
    Ok(Some(without(text, &mask, &spans, place)))
}

/// Where each member of an object stands, from its name to the end of its value.
fn members(object: JsonValue<'_>, mask: &Mask) -> Vec<Range<usize>> {
    let mut from = object.span().start + 1;
    let mut spans = Vec::new();
    for (_, value) in object.members() {
        // The next quotation mark outside of comments begins the name.
        let start = mask.bare[from..].find('"').map_or(from, |at| from + at);
        spans.push(start..value.span().end);
        from = value.span().end;
    }
    spans
}

/// The text without one member: with the comma that belongs to it, and with its line if nothing else stands there.
fn without(text: &str, mask: &Mask, spans: &[Range<usize>], place: usize) -> String {
    let Range { start, mut end } = spans[place].clone();
    let mut comma_before = None;
    match mask.comma_behind(end) {
        Some(comma) => end = comma + 1,
        None => {
            let before = place.checked_sub(1).map(|before| spans[before].end);
            comma_before = before.and_then(|before| mask.comma_behind(before));
        }
    }
    let whole = whole_line(text, start, end);
    match comma_before {
        None => [&text[..whole.start], &text[whole.end..]].concat(),
        Some(comma) if text[comma + 1..start].trim().is_empty() => {
            [&text[..comma], &text[end..]].concat()
        }
        Some(comma) => {
            let between = &text[comma + 1..whole.start.max(comma + 1)];
            [&text[..comma], between, &text[whole.end..]].concat()
        }
    }
}

/// The span with the line break before it and the spaces around it, if its lines hold nothing else; otherwise with the spaces
/// behind it.
fn whole_line(text: &str, start: usize, end: usize) -> Range<usize> {
    let before = text[..start].trim_end_matches([' ', '\t']);
    let behind = text[end..].trim_start_matches([' ', '\t']);
    let behind_at = text.len() - behind.len();
    if before.ends_with('\n') && behind.starts_with(['\r', '\n']) {
        let before = before.strip_suffix('\n').unwrap_or(before);
        return before.strip_suffix('\r').unwrap_or(before).len()..behind_at;
    }
    start..behind_at
}

/// How a text is laid out, so that what is added looks as what is there.
struct Layout<'t> {
    text: &'t str,
    mask: &'t Mask,
    line_break: &'static str,
    /// One step of indentation.
    step: String,
}

impl<'t> Layout<'t> {
    fn of(text: &'t str, mask: &'t Mask, document: JsonValue<'_>) -> Layout<'t> {
        let first = members(document, mask).into_iter().next();
        let own_line = first.and_then(|span| line_indent(text, span.start));
        let step = own_line.filter(|step| !step.is_empty()).unwrap_or("  ");
        Layout {
            text,
            mask,
            line_break: if text.contains("\r\n") { "\r\n" } else { "\n" },
            step: step.to_owned(),
        }
    }

    /// The text with the members at the end of the object.
    fn insert(&self, object: JsonValue<'_>, new: &[(String, Value)]) -> String {
        let spans = members(object, self.mask);
        let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
            return self.fill(object.span(), new);
        };
        let comma = self.mask.comma_behind(last.end);
        let Some(indent) = line_indent(self.text, first.start) else {
            // All members stand in one line, so those that are added do too.
            let texts = new.iter().map(|(name, value)| {
                let name = Value::from(name.as_str());
                format!(", {name}: {value}")
            });
            return self.with(last.end, &texts.collect::<String>());
        };
        let behind = comma.map_or(last.end, |comma| comma + 1);
        // A comment behind the last member stays in that member's line.
        let at = self.mask.blank_end_of_line(behind);
        let lines = self.lines(new, indent) + if comma.is_some() { "," } else { "" };
        let between = if comma.is_some() { "" } else { "," };
        let (head, rest) = self.text.split_at(last.end);
        let (line, tail) = rest.split_at(at - last.end);
        [head, between, line, &lines, tail].concat()
    }

    /// The text with the members in an object that has none.
    fn fill(&self, span: Range<usize>, new: &[(String, Value)]) -> String {
        let inside = &self.text[span.start + 1..span.end - 1];
        let at = span.start + 1 + inside.trim_end_matches(SPACES).len();
        let line_start = self.text[..span.start].rfind('\n').map_or(0, |at| at + 1);
        let line = self.text[line_start..].trim_start_matches('\u{feff}');
        let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        let mut lines = self.lines(new, &format!("{indent}{}", self.step));
        if !self.text[at..span.end].contains('\n') {
            lines.push_str(self.line_break);
            lines.push_str(indent);
        }
        self.with(at, &lines)
    }

    /// Each member on lines of its own, beginning with a line break.
    fn lines(&self, new: &[(String, Value)], indent: &str) -> String {
        let line_break = format!("{}{indent}", self.line_break);
        let texts = new.iter().map(|(name, value)| {
            let text = format!(
                "{}: {}",
                Value::from(name.as_str()),
                pretty(value, &self.step)
            );
            format!("{line_break}{}", text.replace('\n', &line_break))
        });
        texts.collect::<Vec<_>>().join(",")
    }

    fn with(&self, at: usize, added: &str) -> String {
        let (head, tail) = self.text.split_at(at);
        [head, added, tail].concat()
    }
}

/// The spaces before a place, if nothing else stands before it in its line and it is not in the first line.
fn line_indent(text: &str, at: usize) -> Option<&str> {
    let before = &text[..at];
    let line = &before[before.rfind('\n')? + 1..];
    line.trim_start_matches([' ', '\t'])
        .is_empty()
        .then_some(line)
}

/// The value over several lines.
fn pretty(value: &Value, step: &str) -> String {
    let mut bytes = Vec::new();
    let format = PrettyFormatter::with_indent(step.as_bytes());
    let written = value.serialize(&mut Serializer::with_formatter(&mut bytes, format));
    written.expect("a JSON value can be written to memory");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

#[cfg(test)]
mod tests;
