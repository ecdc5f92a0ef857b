//! JSON as the engine reads it: the strings, unescaped where they have escapes, and the path of a place.
//!
//! A document that was indexed already is not searched for its strings again. Of bytes it checks nothing: what is not
//! JSON is read as far as it goes, and never panics.

use std::fmt::Write as _;
use std::ops::Range;

use base::JsonValue;
use base::limit::JSON_DEPTH_MAX;

use crate::layer::{Layer, Text};

/// A JSON document that is scanned.
#[derive(Clone, Copy)]
pub enum Document<'a> {
    Bytes(&'a [u8]),
    /// One that was read, and is known to be JSON.
    Indexed(JsonValue<'a>),
}

impl<'a> Document<'a> {
    /// The document as it was written.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            Document::Bytes(bytes) => bytes,
            Document::Indexed(value) => value.bytes(),
        }
    }
}

impl<'a> From<&'a [u8]> for Document<'a> {
    fn from(bytes: &'a [u8]) -> Document<'a> {
        Document::Bytes(bytes)
    }
}

impl<'a> From<JsonValue<'a>> for Document<'a> {
    fn from(value: JsonValue<'a>) -> Document<'a> {
        Document::Indexed(value)
    }
}

/// Reads the strings of a document, once, for as long as `body` takes.
pub(crate) fn with_strings<R>(document: Document<'_>, body: impl FnOnce(&Layer<'_>) -> R) -> R {
    let mut text = Text::take();
    let json = document.bytes();
    match document {
        Document::Indexed(value) if !value.has_escapes() => text.strings.extend(value.strings()),
        _ => read(json, &mut text),
    }
    let result = match text.bytes.is_empty() {
        true => body(&Layer::plain(json, &text.strings)),
        false => body(&Layer::view(&text, "", None)),
    };
    text.give();
    result
}

/// Fills `text.strings`, keys and values in their order. `text.bytes` is filled too where a string has
/// escapes; it stays empty where the document can be read as it is. What stands between strings stays.
pub(crate) fn read(json: &[u8], text: &mut Text) {
    if memchr::memchr(b'\\', json).is_none() {
        let mut at = 0;
        while let Some(open) = memchr::memchr(b'"', &json[at..]).map(|i| at + i + 1) {
            let close = memchr::memchr(b'"', &json[open..]).map_or(json.len(), |i| open + i);
            text.strings.push(open..close);
            at = (close + 1).min(json.len());
        }
        return;
    }
    // What is read of an escape is never longer, and words are written whole.
    let mut out = std::mem::take(&mut text.bytes);
    out.resize(json.len() + WORD, 0);
    text.escape(0, 0..0, 0);
    let mut reader = Reader {
        json,
        at: 0,
        text,
        out: &mut out,
        written: 0,
    };
    while let Some(open) = memchr::memchr(b'"', &json[reader.at..]) {
        reader.copy(open + 1);
        let start = reader.written;
        reader.string();
        let end = reader.written;
        reader.text.strings.push(start..end);
        reader.copy(1);
    }
    reader.copy(json.len());
    let written = reader.written;
    // Nothing of what came stays behind the end.
    out[written..written + WORD].fill(0);
    out.truncate(written);
    text.bytes = out;
}

/// The strings of a document that stands in a text, as they are written.
pub(crate) fn strings(bytes: &[u8], document: Range<usize>) -> Vec<Range<usize>> {
    let (mut strings, mut at) = (Vec::new(), document.start);
    let json = &bytes[..document.end];
    while let Some(open) = memchr::memchr(b'"', &json[at..]).map(|i| at + i + 1) {
        let close = string_end(json, open);
        strings.push(open..close);
        at = (close + 1).min(json.len());
    }
    strings
}

/// Bytes that are looked at in one step.
const WORD: usize = size_of::<u64>();

/// A document with escapes, and what was written of it until here.
struct Reader<'a> {
    json: &'a [u8],
    at: usize,
    text: &'a mut Text,
    /// As long as the document and a word.
    out: &'a mut [u8],
    written: usize,
}

impl Reader<'_> {
    /// Copies so many bytes, or as many as are left.
    fn copy(&mut self, count: usize) {
        let from = &self.json[self.at..];
        let from = &from[..count.min(from.len())];
        self.out[self.written..self.written + from.len()].copy_from_slice(from);
        self.at += from.len();
        self.written += from.len();
    }

    /// Copies a string's content, unescaped, up to its closing quote or the end.
    fn string(&mut self) {
        loop {
            self.plain();
            match self.json.get(self.at) {
                Some(b'\\') => self.escape(),
                _ => return,
            }
        }
    }

    /// Copies up to the next quote or backslash: eight bytes in one step, since they stand close together.
    fn plain(&mut self) {
        let (from, _) = self.json[self.at..].as_chunks::<WORD>();
        let (to, _) = self.out[self.written..].as_chunks_mut::<WORD>();
        let mut length = 0;
        for (from, to) in from.iter().zip(to) {
            *to = *from;
            let marks = marks(u64::from_le_bytes(*from));
            if marks != 0 {
                length += marks.trailing_zeros() as usize / 8;
                self.at += length;
                self.written += length;
                return;
            }
            length += WORD;
        }
        self.at += length;
        self.written += length;
        let rest = &self.json[self.at..];
        let length = memchr::memchr2(b'"', b'\\', rest);
        self.copy(length.unwrap_or(rest.len()));
    }

    /// Reads the escape that stands here.
    fn escape(&mut self) {
        let byte = match self.json.get(self.at + 1) {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'u') => return self.unicode(),
            Some(byte) => *byte,
            None => return self.copy(1),
        };
        self.put(&[byte], 2);
    }

    /// Reads `\uXXXX`, or two of them that are a surrogate pair. A lone half becomes U+FFFD.
    fn unicode(&mut self) {
        let unit = |at: usize| {
            let digits = self.json.get(at..at + 6)?.strip_prefix(b"\\u")?;
            let value = |sum: u32, b: &u8| Some(sum * 16 + char::from(*b).to_digit(16)?);
            digits.iter().try_fold(0, value)
        };
        let Some(first) = unit(self.at) else {
            return self.copy(2);
        };
        let (code, length) = match (first, unit(self.at + 6)) {
            (0xd800..=0xdbff, Some(second @ 0xdc00..=0xdfff)) => {
                (0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00), 12)
            }
            _ => (first, 6),
        };
        let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        self.put(character.encode_utf8(&mut [0; 4]).as_bytes(), length);
    }

    /// Writes what an escape of so many bytes stands for.
    fn put(&mut self, bytes: &[u8], length: usize) {
        self.text
            .escape(self.written, self.at..self.at + length, bytes.len() as u8);
        self.out[self.written..self.written + bytes.len()].copy_from_slice(bytes);
        self.at += length;
        self.written += bytes.len();
    }
}

/// The high bit of each byte that is a quote or a backslash, up to the first of them; it comes first in
/// memory. (Mycroft's test for a zero byte; those above the first may be wrong.)
fn marks(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & ONES << 7;
    zero(word ^ (ONES * u64::from(b'"'))) | zero(word ^ (ONES * u64::from(b'\\')))
}

/// The field paths of places in a document, in one walk. `places` are in ascending order. A key's own
/// path is that of its object; a key that holds some of `hidden` is shown as `*`.
pub(crate) fn paths(
    json: &[u8],
    root: &str,
    places: &[usize],
    hidden: &[Range<usize>],
) -> Vec<String> {
    let mut paths = Vec::with_capacity(places.len());
    let mut walk = Walk {
        json,
        hidden,
        at: 0,
        levels: Vec::new(),
        too_deep: 0,
    };
    for place in places {
        walk.to(*place);
        paths.push(walk.path(root));
    }
    paths
}

/// A container that is open.
enum Level {
    Array(usize),
    /// The span of the current key, and whether the next string is a key.
    Object(Range<usize>, bool),
}

struct Walk<'a> {
    json: &'a [u8],
    /// What must not be shown: a key that holds some of it is `*`.
    hidden: &'a [Range<usize>],
    at: usize,
    levels: Vec<Level>,
    /// Levels beyond [`JSON_DEPTH_MAX`], which are counted and not named.
    too_deep: usize,
}

impl Walk<'_> {
    /// Goes on to the token that holds `place`.
    fn to(&mut self, place: usize) {
        while self.at <= place && self.at < self.json.len() {
            match self.json[self.at] {
                b'"' => {
                    let end = string_end(self.json, self.at + 1);
                    if end >= place {
                        return;
                    }
                    if self.too_deep == 0
                        && let Some(Level::Object(key, expected @ true)) = self.levels.last_mut()
                    {
                        *key = self.at + 1..end;
                        *expected = false;
                    }
                    self.at = end;
                }
                b'{' => self.open(Level::Object(0..0, true)),
                b'[' => self.open(Level::Array(0)),
                b'}' | b']' if self.too_deep > 0 => self.too_deep -= 1,
                b'}' | b']' => drop(self.levels.pop()),
                b',' if self.too_deep == 0 => match self.levels.last_mut() {
                    Some(Level::Array(index)) => *index += 1,
                    Some(Level::Object(key, expected)) => (*key, *expected) = (0..0, true),
                    None => {}
                },
                _ => {}
            }
            self.at += 1;
        }
    }

    fn open(&mut self, level: Level) {
        if self.levels.len() < JSON_DEPTH_MAX {
            self.levels.push(level);
        } else {
            self.too_deep += 1;
        }
    }

    fn path(&self, root: &str) -> String {
        let mut path = root.to_owned();
        for level in &self.levels {
            match level {
                Level::Array(index) => {
                    let _ = write!(path, "[{index}]");
                }
                Level::Object(key, _) if key.is_empty() => {}
                Level::Object(key, _) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    let shows = |span: &Range<usize>| span.start < key.end && key.start < span.end;
                    if self.hidden.iter().any(shows) {
                        path.push('*');
                        continue;
                    }
                    let key = &self.json[key.start..key.end.min(key.start + KEY_BYTES_MAX)];
                    path.push_str(&String::from_utf8_lossy(key));
                }
            }
        }
        path
    }
}

/// Bytes of one key in a path; the rest of it is left out.
const KEY_BYTES_MAX: usize = 64;

/// Where the string that starts at `at` has its closing quote, or the end.
fn string_end(json: &[u8], mut at: usize) -> usize {
    while let Some(stop) = memchr::memchr2(b'"', b'\\', json.get(at..).unwrap_or_default()) {
        if json[at + stop] == b'"' {
            return at + stop;
        }
        at += stop + 2;
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(json: &[u8]) -> Vec<String> {
        let mut text = Text::take();
        read(json, &mut text);
        let bytes = if text.bytes.is_empty() {
            json
        } else {
            &text.bytes
        };
        let lossy = |range: &Range<usize>| String::from_utf8_lossy(&bytes[range.clone()]).into();
        text.strings.iter().map(lossy).collect()
    }

    #[test]
    fn strings_are_read_with_and_without_escapes() {
        assert_eq!(strings(br#"{"a":["b",1,"c"]}"#), ["a", "b", "c"]);
        let escaped = br#"{"a\n":"\"q\\\u00e9\ud83d\ude00\ud800x\/"}"#;
        assert_eq!(strings(escaped), ["a\n", "\"q\\é😀\u{fffd}x/"]);
    }

    #[test]
    fn escapes_are_read_and_found_again_at_every_place() {
        for before in 0..20 {
            for escape in ["\\n", "\\\"", "\\u00e9", "\\ud83d\\ude00", "\\n\\\\\\t"] {
                let (head, tail) = ("a".repeat(before), "z".repeat(20 - before));
                let json = format!("{{\"{head}{escape}{tail}\": [1, \"{escape}{tail}\"]}}");
                let keys: std::collections::BTreeMap<String, serde_json::Value> =
                    serde_json::from_str(&json).unwrap();
                let (key, value) = keys.first_key_value().unwrap();
                assert_eq!(strings(json.as_bytes()), [key, value[1].as_str().unwrap()]);
                with_strings(json.as_bytes().into(), |layer| {
                    let key = &layer.strings[0];
                    assert_eq!(layer.source(key), 2..2 + 20 + escape.len());
                    let last = layer.source(&(key.end - 1..key.end));
                    let first = layer.source(&(key.start + before..key.start + before + 1));
                    assert_eq!(&json[first.start..][..2], &escape[..2], "{json}");
                    match tail.is_empty() {
                        true => assert_eq!(last.end, 22 + escape.len()),
                        false => assert_eq!(&json[last], "z"),
                    }
                });
            }
        }
    }

    #[test]
    fn what_is_not_json_is_read_as_far_as_it_goes() {
        for bad in [
            &b"\""[..],
            b"\"\\",
            b"\"\\u",
            b"\"\\u12",
            b"\"\\ud800\\",
            b"\\",
            b"{\"a",
            b"]]}",
        ] {
            strings(bad);
            paths(bad, "", &[0, bad.len(), bad.len() + 9], &[]);
        }
    }

    #[test]
    fn a_path_names_the_field() {
        let json = br#"{"a":{"b":[1,{"c d":"here"},"there"]},"z\"":"last"}"#;
        let find = |needle: &[u8]| memchr::memmem::find(json, needle).unwrap();
        let places = [find(b"c d"), find(b"here"), find(b"there"), find(b"last")];
        let expected = ["r.a.b[1]", "r.a.b[1].c d", "r.a.b[2]", "r.z\\\""];
        assert_eq!(paths(json, "r", &places, &[]), expected);
        assert_eq!(paths(br#"["x"]"#, "", &[2], &[]), ["[0]"]);
        let hidden = find(b"c d") + 1..find(b"c d") + 2;
        assert_eq!(paths(json, "", &places[1..2], &[hidden]), ["a.b[1].*"]);
    }

    #[test]
    fn a_path_has_a_bound() {
        let deep = [b"[".repeat(1000), b"\"x\"".to_vec(), b"]".repeat(1000)].concat();
        assert_eq!(
            paths(&deep, "", &[1001], &[])[0].len(),
            "[0]".len() * JSON_DEPTH_MAX
        );
    }
}
