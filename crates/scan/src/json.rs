//! JSON as the engine reads it: the strings, unescaped where they have escapes, and the path of a place.
//!
//! It checks nothing: whoever calls has parsed the message already. Bytes that are not JSON are read as
//! far as they go, and never panic.

use std::fmt::Write as _;
use std::ops::Range;

use base::limit::JSON_DEPTH_MAX;

use crate::layer::{Layer, Text};

/// Reads the strings of a document, once, for as long as `body` takes.
pub(crate) fn with_strings<R>(json: &[u8], body: impl FnOnce(&Layer<'_>) -> R) -> R {
    let mut text = Text::take();
    read(json, &mut text);
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
    let mut at = 0;
    while let Some(open) = memchr::memchr(b'"', &json[at..]).map(|i| at + i + 1) {
        text.copy(json, at..open);
        let start = text.bytes.len();
        at = string(json, open, text);
        text.strings.push(start..text.bytes.len());
        let quote = (at + 1).min(json.len());
        text.copy(json, at..quote);
        at = quote;
    }
    text.copy(json, at..json.len());
}

/// Copies one string's content, unescaped; answers where its closing quote is, or the end.
fn string(json: &[u8], open: usize, text: &mut Text) -> usize {
    let mut at = open;
    loop {
        let Some(stop) = memchr::memchr2(b'"', b'\\', &json[at..]).map(|i| at + i) else {
            text.copy(json, at..json.len());
            return json.len();
        };
        text.copy(json, at..stop);
        if json[stop] == b'"' {
            return stop;
        }
        at = escape(json, stop, text);
    }
}

/// Reads the escape at `at`; answers where it ends.
fn escape(json: &[u8], at: usize, text: &mut Text) -> usize {
    let byte = match json.get(at + 1) {
        Some(b'n') => b'\n',
        Some(b't') => b'\t',
        Some(b'r') => b'\r',
        Some(b'b') => 8,
        Some(b'f') => 12,
        Some(b'u') => return unicode(json, at, text),
        Some(byte) => *byte,
        None => {
            text.copy(json, at..json.len());
            return json.len();
        }
    };
    text.put(&[byte], at..at + 2);
    at + 2
}

/// Reads `\uXXXX`, or two of them that are a surrogate pair. A lone half becomes U+FFFD.
fn unicode(json: &[u8], at: usize, text: &mut Text) -> usize {
    let unit = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let value = |sum: u32, b: &u8| Some(sum * 16 + char::from(*b).to_digit(16)?);
        digits.iter().try_fold(0, value)
    };
    let Some(first) = unit(at) else {
        let end = (at + 2).min(json.len());
        text.copy(json, at..end);
        return end;
    };
    let (code, end) = match (first, unit(at + 6)) {
        (0xd800..=0xdbff, Some(second @ 0xdc00..=0xdfff)) => (
            0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00),
            at + 12,
        ),
        _ => (first, at + 6),
    };
    let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    text.put(character.encode_utf8(&mut [0; 4]).as_bytes(), at..end);
    end
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
