//! What was split over strings, put together: the values of a document, the parts of a URL, the data of
//! events.
//!
//! Values are joined in their order, and those of one key in theirs. Of a long value only the ends are
//! taken, since what lies inside it is not split. The work is one more reading of the text at most.

use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::decode::{ESCAPE_BYTES, escaped};
use crate::json;
use crate::layer::{Layer, Text};
use crate::report::Bound;

/// What is taken of each end of a value, in bytes: longer tokens that are split are found by their part.
const END_BYTES_MAX: usize = 256;
/// Stands between what does not belong together; longer than any gap that a rule allows.
const BREAK: &[u8] = &[0; 16];
/// Strings of one document that are documents themselves, whose values are joined.
const DOCUMENTS_MAX: usize = 64;
/// URLs in one text whose parts are joined.
const URLS_MAX: usize = 64;
/// What is read of one URL, in bytes.
const URL_BYTES_MAX: usize = 16 << 10;
/// Parameters that are put together in the order of their names too: how many, and the bytes of each value.
const ORDERED_MAX: usize = 12;
const ORDERED_BYTES_MIN: usize = 6;
/// Parts of one URL.
const PARTS_MAX: usize = 512;

/// What ends the scheme of a URL, and what begins the data of an event.
pub(crate) static SCHEME_END: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"://"));
static EVENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\ndata:"));

/// The bytes that end a URL in a text.
const OUTSIDE: [bool; 256] = {
    let mut outside = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let mark = matches!(byte as u8, b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\');
        outside[byte] = mark || byte <= 0x20;
        byte += 1;
    }
    outside
};

/// Digits of the name of a tool that is of words.
const NAME_DIGITS_MAX: usize = 2;

/// What messages of a protocol have in themselves, by its key: nobody's value begins or goes on in it.
const CONSTANTS: [(&[u8], &[u8]); 2] = [(b"jsonrpc", b"2.0"), (b"type", b"text")];

/// Calls `search` with each way to put the strings of a view together that joins anything.
pub(crate) fn each(
    layer: &Layer<'_>,
    is_call: bool,
    mut search: impl FnMut(&Text) -> Result<(), Bound>,
) -> Result<(), Bound> {
    let mut text = Text::take();
    let mut result = Ok(());
    let mut emit = |text: &mut Text| {
        let result = match text.joins() {
            true => {
                text.one_string();
                search(text)
            }
            false => Ok(()),
        };
        text.clear();
        result
    };
    if layer.strings.len() > 1 {
        result = values(layer, values_said(layer, is_call), &mut text, &mut emit);
    }
    let documents = layer
        .strings
        .iter()
        .filter(|string| is_document(&layer.bytes[(*string).clone()]));
    for document in documents.take(DOCUMENTS_MAX) {
        if result.is_ok() {
            let strings = json::strings(layer.bytes, document.clone());
            let document = Layer::plain(layer.bytes, &strings);
            result = values(&document, values_of(&document), &mut text, &mut emit);
        }
    }
    if result.is_ok() {
        urls(layer, &mut text);
        result = emit(&mut text);
    }
    if result.is_ok() {
        events(layer, &mut text);
        result = emit(&mut text);
    }
    text.give();
    result
}

/// Whether a string is a JSON document itself, as tools return them.
fn is_document(string: &[u8]) -> bool {
    matches!(string.trim_ascii(), [b'{', .., b'}'] | [b'[', .., b']'])
        && memchr::memchr(b'"', string).is_some()
}

type Emit<'a> = &'a mut dyn FnMut(&mut Text) -> Result<(), Bound>;

/// The values of a JSON document: in their order, and grouped by their keys where keys repeat.
fn values(
    layer: &Layer<'_>,
    mut values: Vec<(&[u8], Range<usize>)>,
    text: &mut Text,
    emit: Emit<'_>,
) -> Result<(), Bound> {
    let bytes = layer.bytes;
    // A value alone is split over no others.
    let own =
        |(key, value): &&(&[u8], Range<usize>)| !CONSTANTS.contains(&(*key, &bytes[value.clone()]));
    if values.iter().filter(own).nth(1).is_none() {
        return Ok(());
    }
    for (_, value) in &values {
        ends(bytes, value, text);
    }
    emit(text)?;
    // The order by key says something new only where a key's values do not follow each other.
    values.sort_by_key(|(key, _)| *key);
    let repeats = values.windows(2).any(|pair| pair[0].0 == pair[1].0);
    let same = values
        .windows(2)
        .all(|pair| pair[0].1.start < pair[1].1.start);
    if !repeats || same {
        return Ok(());
    }
    let mut before: &[u8] = b"";
    for (key, value) in values {
        if key != before {
            text.put(BREAK, value.start..value.start);
            before = key;
        }
        ends(bytes, &value, text);
    }
    emit(text)
}

/// The strings of a document that are values, each with its key.
pub(crate) fn values_of<'a>(layer: &Layer<'a>) -> Vec<(&'a [u8], Range<usize>)> {
    let mut values = Vec::with_capacity(layer.strings.len());
    let mut key: &[u8] = b"";
    for string in layer.strings {
        if is_key(layer.bytes, string.end) {
            key = &layer.bytes[string.clone()];
        } else if !string.is_empty() {
            values.push((key, string.clone()));
        }
    }
    values
}

/// The values of a document without the name of the tool, where it is the parameters of a call, begins with that as ours
/// do, and the name is of words: nothing begins or goes on in such a name. Any other may be half of a secret.
pub(crate) fn values_said<'a>(layer: &Layer<'a>, is_call: bool) -> Vec<(&'a [u8], Range<usize>)> {
    let mut values = values_of(layer);
    let first = layer.strings.first().map(|first| &layer.bytes[..first.end]);
    let named = first.and_then(|head| head.trim_ascii_start().strip_prefix(b"{"));
    let named = named.is_some_and(|head| head.trim_ascii_start() == b"\"name");
    let of_words = |(key, name): &(&[u8], Range<usize>)| {
        *key == b"name" && is_of_words(&layer.bytes[name.clone()])
    };
    if is_call && named && values.first().is_some_and(of_words) {
        values.remove(0);
    }
    values
}

/// Whether a name has lower-case letters and marks alone, and few digits.
fn is_of_words(name: &[u8]) -> bool {
    let digits = name.iter().filter(|byte| byte.is_ascii_digit()).count();
    let known = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'/');
    digits <= NAME_DIGITS_MAX && name.iter().all(known)
}

/// Whether the string that ends here is a key: a quote and a colon come next.
fn is_key(bytes: &[u8], end: usize) -> bool {
    let mut rest = bytes[end..]
        .iter()
        .take(4)
        .skip_while(|byte| **byte != b'"');
    rest.next();
    rest.find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

/// Adds a value, or both its ends.
fn ends(bytes: &[u8], value: &Range<usize>, text: &mut Text) {
    if value.len() <= 2 * END_BYTES_MAX {
        return text.copy(bytes, value.clone());
    }
    text.copy(bytes, value.start..value.start + END_BYTES_MAX);
    text.put(BREAK, value.start..value.start);
    text.copy(bytes, value.end - END_BYTES_MAX..value.end);
}

/// The labels, the path segments and the query values of each URL, each of these by itself.
fn urls(layer: &Layer<'_>, text: &mut Text) {
    let bytes = layer.bytes;
    let mut finder = SCHEME_END.find_iter(bytes).peekable();
    for _ in 0..URLS_MAX {
        let Some(start) = finder.next().map(|at| at + 3) else {
            break;
        };
        let next = finder.peek().copied().unwrap_or(bytes.len());
        let bytes = &bytes[..next.min(start + URL_BYTES_MAX)];
        let outside = |b: &u8| OUTSIDE[usize::from(*b)];
        let length = bytes[start..].iter().position(outside);
        let end = length.map_or(bytes.len(), |length| start + length);
        let after = |from: usize, length: Option<usize>| length.map_or(end, |length| from + length);
        let path = after(start, memchr::memchr3(b'/', b'?', b'#', &bytes[start..end]));
        let query = after(path, memchr::memchr2(b'?', b'#', &bytes[path..end]));
        let fragment = after(query, memchr::memchr(b'#', &bytes[query..end]));
        // The last two labels are the domain that the others are under.
        let domain = memchr::memrchr(b'.', &bytes[start..path]).unwrap_or(0);
        let labels = memchr::memrchr(b'.', &bytes[start..start + domain]).unwrap_or(0);
        let mut add = Parts {
            bytes,
            unescape: unescapes(&bytes[path..end]),
            place: end,
            text,
        };
        add.apart(split(bytes, start..start + labels, b'.'));
        add.apart(split(bytes, (path + 1).min(query)..query, b'/'));
        // Each parameter as its name, with the mark behind it, and its value.
        let parameter = |pair: Range<usize>| {
            let name = bytes[pair.clone()].iter().position(|b| *b == b'=');
            let value = name.map_or(pair.start, |at| pair.start + at + 1);
            (pair.start..value, value..pair.end)
        };
        let pairs = split(bytes, (query + 1).min(fragment)..fragment, b'&');
        let pairs: Vec<_> = pairs
            .map(parameter)
            .filter(|(_, value)| !value.is_empty())
            .collect();
        add.apart(pairs.iter().map(|(_, value)| value.clone()));
        // Whoever sends a secret in parts may number them, and send them in another order.
        let long = || {
            pairs
                .iter()
                .filter(|(_, value)| value.len() >= ORDERED_BYTES_MIN)
        };
        let name = |(name, _): &&(Range<usize>, Range<usize>)| &bytes[name.clone()];
        if !long().is_sorted_by_key(|pair| name(&pair)) {
            let mut long: Vec<_> = long().take(ORDERED_MAX).collect();
            long.sort_by_key(name);
            add.apart(long.into_iter().map(|(_, value)| value.clone()));
        }
    }
}

/// Whether a URL's parts may be put together without their escapes. Where what is escaped is not ASCII, or may be of
/// another escape, all of them together are undone later, and then folded.
fn unescapes(url: &[u8]) -> bool {
    let plain = |at| {
        let byte = escaped(&url[at..]);
        byte.is_none_or(|byte| byte.is_ascii() && !matches!(byte, b'%' | b'\\' | b'&'))
    };
    memchr::memchr_iter(b'%', url).all(plain)
}

/// Puts the parts of a URL together.
struct Parts<'t> {
    bytes: &'t [u8],
    unescape: bool,
    /// Where the URL ends.
    place: usize,
    text: &'t mut Text,
}

impl Parts<'_> {
    /// Adds parts, and a break behind them, where there are several; else nothing.
    fn apart(&mut self, parts: impl Iterator<Item = Range<usize>>) {
        let before = self.text.len();
        let mut count = 0;
        for part in parts.filter(|part| !part.is_empty()) {
            self.add(part);
            count += 1;
        }
        match count {
            0 | 1 => self.text.cut(before),
            _ => self.text.put(BREAK, self.place..self.place),
        }
    }

    /// Adds a part, as whoever puts it together with others reads it.
    fn add(&mut self, part: Range<usize>) {
        let bytes = &self.bytes[..part.end];
        let mut from = part.start;
        if self.unescape {
            for at in memchr::memchr_iter(b'%', &bytes[part.clone()]) {
                let at = part.start + at;
                if let Some(byte) = escaped(&bytes[at..]) {
                    self.text.copy(bytes, from..at);
                    self.text.put(&[byte], at..at + ESCAPE_BYTES);
                    from = at + ESCAPE_BYTES;
                }
            }
        }
        self.text.copy(bytes, from..part.end);
    }
}

fn split(bytes: &[u8], range: Range<usize>, mark: u8) -> impl Iterator<Item = Range<usize>> {
    let mut start = range.start;
    let parts = bytes[range]
        .split(move |byte| *byte == mark)
        .map(move |part| {
            let here = start..start + part.len();
            start = here.end + 1;
            here
        });
    parts.take(PARTS_MAX)
}

/// The data of server-sent events (WHATWG HTML, 9.2.6), without what stands between.
fn events(layer: &Layer<'_>, text: &mut Text) {
    let bytes = layer.bytes;
    if !bytes.starts_with(b"data:") && EVENT.find(bytes).is_none() {
        return;
    }
    let mut start = 0;
    for line in bytes.split(|byte| *byte == b'\n') {
        let here = start;
        start += line.len() + 1;
        let Some(data) = line.strip_prefix(b"data:") else {
            continue;
        };
        let skip = 5 + usize::from(data.starts_with(b" "));
        let cut = usize::from(line.ends_with(b"\r"));
        if skip + cut <= line.len() {
            ends(bytes, &(here + skip..here + line.len() - cut), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn joined(text: &str) -> Vec<String> {
        let mut strings = Text::take();
        if text.starts_with(['{', '[']) {
            json::read(text.as_bytes(), &mut strings);
        } else {
            strings.strings.push(0..text.len());
        }
        let layer = Layer::plain(text.as_bytes(), &strings.strings);
        let mut all = Vec::new();
        each(&layer, false, |text| {
            let parts = text.bytes.split(|byte| *byte == 0);
            let parts = parts.filter(|part| !part.is_empty());
            let parts: Vec<_> = parts.map(String::from_utf8_lossy).collect();
            all.push(parts.join("|"));
            Ok(())
        })
        .unwrap();
        all
    }

    #[test]
    fn values_are_joined_and_keys_are_not() {
        assert_eq!(joined(r#"{"a":"sk-","b":["an","t-"],"c":1}"#), ["sk-ant-"]);
        assert_eq!(joined(r#"{"only":"one"}"#), [""; 0]);
        assert_eq!(
            joined(r#"{"jsonrpc":"2.0","result":[{"type":"text","text":"one"}]}"#),
            [""; 0]
        );
        assert_eq!(
            joined(r#"{"jsonrpc":"2","result":[{"type":"text","text":"one"}]}"#),
            ["2textone"]
        );
        let deltas = r#"[{"type":"delta","text":"sk-"},{"type":"delta","text":"ant-"}]"#;
        assert_eq!(joined(deltas), ["deltask-deltaant-", "sk-ant-|deltadelta"]);
    }

    #[test]
    fn parts_of_urls_are_joined() {
        assert_eq!(
            joined("see https://a.b.c.example/c/d?x=1&y=2&z now"),
            ["ab|cd|12z"]
        );
        assert_eq!(joined("https://localhost"), [""; 0]);
        // Parameters that hold something, also in the order of their names.
        assert_eq!(
            joined("https://e.org/?b=secret&c=ending&a=before"),
            ["secretendingbefore|beforesecretending"]
        );
        // Escapes of ASCII are undone in each part, unless they may hide others; one part alone is not joined.
        assert_eq!(joined("https://e.org/a%2Db/c%20?x=%6"), ["a-bc "]);
        assert_eq!(joined("https://e.org/?x=%2&y=B"), ["%2B"]);
        for other in ["%E2%80%8B", "%2541", "%5Cx41", "%26"] {
            let both = joined(&format!("https://e.org/?x={other}&y=%41"));
            assert_eq!(both, [format!("{other}%41")]);
        }
        assert_eq!(joined("https://e.org/?x=%41%42"), [""; 0]);
    }

    #[test]
    fn data_of_events_is_joined() {
        let events = "event: x\ndata: sk-\n\nid: 1\r\ndata:ant-\r\n\r\n";
        assert_eq!(joined(events), ["sk-ant-"]);
    }

    #[test]
    fn of_a_long_value_the_ends_are_taken() {
        let json = format!(r#"["{}","{}"]"#, "a".repeat(5000), "b".repeat(5000));
        assert_eq!(joined(&json)[0].len(), 4 * END_BYTES_MAX + 2);
    }
}
