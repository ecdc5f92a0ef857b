//! What percent-encoding hides: nested encodings, control characters, and ways out of a path.
//!
//! Sources: RFC 3986 section 2.1, the WHATWG URL standard (percent-decoding), CWE-22 and CWE-93;
//! overlong UTF-8 as in RFC 3629 section 10.

/// How often an encoding is undone. What is nested deeper is refused by its depth.
const DEPTH_MAX: usize = 4;

/// Undoes percent-encoding until nothing changes. Returns how often that was.
///
/// `out` has the text as it was decoded last, whatever was in it before.
pub(super) fn unescape(text: &[u8], out: &mut Vec<u8>) -> usize {
    out.clear();
    out.extend_from_slice(text);
    (0..DEPTH_MAX).take_while(|_| once(out)).count()
}

/// Undoes one level in place; false if there was none.
fn once(text: &mut Vec<u8>) -> bool {
    let Some(first) = memchr::memchr(b'%', text) else {
        return false;
    };
    let (mut from, mut to) = (first, first);
    while from < text.len() {
        let (byte, length) = match decoded(&text[from..]) {
            Some(escape) => escape,
            None => (text[from], 1),
        };
        text[to] = byte;
        (from, to) = (from + length, to + 1);
    }
    let changed = to < text.len();
    text.truncate(to);
    changed
}

/// The byte that is encoded here, and how long its encoding is. `%u002e` is what old servers of
/// Microsoft read.
fn decoded(text: &[u8]) -> Option<(u8, usize)> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    match text {
        [b'%', b'u' | b'U', b'0', b'0', high, low, ..] => {
            Some((digit(*high)? << 4 | digit(*low)?, 6))
        }
        [b'%', high, low, ..] => Some((digit(*high)? << 4 | digit(*low)?, 3)),
        _ => None,
    }
}

/// Whether decoded text of a path or query splits a request, or a line of it.
///
/// In a path every control character does. In a query a line end by itself is a text of several
/// lines, unless what follows is a header.
pub(super) fn splits(text: &[u8], path: bool) -> bool {
    let control = |(at, byte): (usize, &u8)| match byte {
        b'\t' => path,
        b'\n' => path || header(&text[at + 1..]),
        _ => *byte < b' ' || *byte == 0x7f,
    };
    text.iter().enumerate().any(control)
}

/// `Some-Name: value`, `Host: value`, `GET /`, `HTTP/1.1`; not `Note: text`.
fn header(line: &[u8]) -> bool {
    let name = line
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'-');
    let (name, rest) = line.split_at(name.unwrap_or(line.len()));
    match rest {
        [b':', ..] => name.contains(&b'-') || known_header(name),
        [b' ' | b'+', b'/', ..] => !name.is_empty() && name.iter().all(u8::is_ascii_uppercase),
        [b'/', ..] => name == b"HTTP",
        _ => false,
    }
}

fn known_header(name: &[u8]) -> bool {
    let known = [
        "authorization",
        "bcc",
        "connection",
        "cookie",
        "host",
        "location",
        "refresh",
        "upgrade",
    ];
    known
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Whether decoded text has a component that is two dots. A whole segment needs no slash of its
/// own.
pub(super) fn climbs(text: &[u8], segment: bool) -> bool {
    let (mut at, mut dots, mut slashes) = (0, Some(0), 0);
    loop {
        let (kind, length) = unit(&text[at..]);
        let ends = matches!(kind, Unit::Slash | Unit::End);
        if ends && dots == Some(2) && (segment || slashes > 0 || matches!(kind, Unit::Slash)) {
            return true;
        }
        (dots, slashes) = match (kind, dots) {
            (Unit::End, _) => return false,
            (Unit::Slash, _) => (Some(0), slashes + 1),
            (Unit::Dot, Some(dots)) => (Some(dots + 1), slashes),
            // `..;/` is two dots to servers that drop parameters of segments.
            (Unit::Parameter, Some(2)) => (Some(2), slashes),
            _ => (None, slashes),
        };
        at += length;
    }
}

enum Unit {
    Dot,
    Slash,
    Parameter,
    Other,
    End,
}

/// One character as lenient decoders read it, overlong and fullwidth forms included.
fn unit(text: &[u8]) -> (Unit, usize) {
    match text {
        [] => (Unit::End, 0),
        [b'.', ..] => (Unit::Dot, 1),
        [b'/' | b'\\', ..] => (Unit::Slash, 1),
        [b';', ..] => {
            let length = text.iter().position(|byte| matches!(byte, b'/' | b'\\'));
            (Unit::Parameter, length.unwrap_or(text.len()))
        }
        [0xc0, 0xae | 0x2e, ..] => (Unit::Dot, 2),
        [0xc0, 0xaf | 0x2f, ..] | [0xc1, 0x9c | 0x1c, ..] => (Unit::Slash, 2),
        [0xe0, 0x80, 0xae, ..] | [0xef, 0xbc, 0x8e, ..] => (Unit::Dot, 3),
        [0xe0, 0x80, 0xaf, ..] | [0xef, 0xbc, 0x8f, ..] | [0xef, 0xbc, 0xbc, ..] => {
            (Unit::Slash, 3)
        }
        [0xe2, 0x88, 0x95, ..] | [0xe2, 0x81, 0x84, ..] => (Unit::Slash, 3),
        _ => (Unit::Other, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undone(text: &str) -> (String, usize) {
        let mut out = Vec::new();
        let depth = unescape(text.as_bytes(), &mut out);
        (String::from_utf8_lossy(&out).into_owned(), depth)
    }

    #[test]
    fn nesting_is_counted() {
        for (text, plain, depth) in [
            ("abc", "abc", 0),
            ("100%", "100%", 0),
            ("%zz%4", "%zz%4", 0),
            ("%41b", "Ab", 1),
            ("%2541", "A", 2),
            ("%252541", "A", 3),
            ("%%341", "A", 2),
            ("%25%34%31", "A", 2),
            ("%u002e", ".", 1),
            ("%2525252525252541", "%252525", 4),
        ] {
            let (found, times) = undone(text);
            assert_eq!(times, depth, "{text}");
            assert!(found.starts_with(plain), "{text}: {found}");
        }
    }

    #[test]
    fn line_ends_split_requests() {
        for text in [
            "a\r\nSet-Cookie:x=1",
            "a\nX-Evil: 1",
            "\nGET /admin",
            "a\0b",
            "a\x1bb",
            "\nHTTP/1.1 200",
        ] {
            assert!(splits(text.as_bytes(), false), "{text:?}");
        }
        for text in [
            "one\ntwo",
            "a\tb",
            "look:\nhttps://a.com",
            "# Title\n\nText is 5: five",
        ] {
            assert!(!splits(text.as_bytes(), false), "{text:?}");
        }
        assert!(splits(b"a\nb", true));
    }

    #[test]
    fn ways_out_of_a_path() {
        for text in [
            "..",
            "..;a=b",
            "../x",
            "a/../b",
            "a\\..\\b",
            "x/..",
            "\u{ff0e}\u{ff0e}/",
            "..;/x",
        ] {
            assert!(climbs(text.as_bytes(), true), "{text}");
        }
        assert!(climbs(b"\xc0\xae\xc0\xae\xc0\xaf", true));
        for text in ["...", "a..b", "..a", "v1...v2", "", ".", "a/.../b"] {
            assert!(!climbs(text.as_bytes(), true), "{text}");
        }
        assert!(!climbs(b"..", false));
        assert!(climbs(b"../x", false) && climbs(b"x/..", false));
    }
}
