//! Where the parts of a URL are, as the most generous client reads it.
//!
//! Follows RFC 3986 with the differences of the WHATWG URL standard that decide where a request
//! goes: backslashes are slashes, any number of them opens the host, the last `@` ends the user
//! information. Nothing is copied, and nothing is decided: a part may be empty or nonsense, and the
//! rules say so.

use std::net::IpAddr;
use std::ops::Range;

/// The parts of one URL, as spans of its text. A part that is absent is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UrlParts {
    /// Without its colon.
    pub scheme: Range<usize>,
    /// User and password, without the `@`.
    pub userinfo: Range<usize>,
    /// As it is written; an IPv6 address with its brackets.
    pub host: Range<usize>,
    /// Without its colon.
    pub port: Range<usize>,
    /// With its first slash.
    pub path: Range<usize>,
    /// Without its question mark.
    pub query: Range<usize>,
    /// Without its hash.
    pub fragment: Range<usize>,
    /// The address that the host spells, if it is one.
    pub address: Option<IpAddr>,
    /// Bits of entropy in what looks random, whether a rule was broken or not; for the budget.
    pub random_bits: u32,
}

impl UrlParts {
    /// Finds the parts. A text without a scheme has all of them but this.
    pub(super) fn find(url: &[u8]) -> UrlParts {
        let start = url.len() - url.trim_ascii_start().len();
        let url = url.trim_ascii_end();
        let scheme = scheme(url, start.min(url.len()));
        let mut at = scheme
            .as_ref()
            .map_or(start.min(url.len()), |scheme| scheme.end + 1);
        while at < url.len() && matches!(url[at], b'/' | b'\\') {
            at += 1;
        }
        let mut parts = UrlParts {
            scheme: scheme.unwrap_or(0..0),
            ..UrlParts::default()
        };
        let path = parts.authority(url, at);
        let query = memchr::memchr2(b'?', b'#', &url[path..]).map_or(url.len(), |at| path + at);
        let fragment = match url.get(query) {
            Some(b'?') => memchr::memchr(b'#', &url[query..]).map_or(url.len(), |at| query + at),
            _ => query,
        };
        parts.path = path..query;
        parts.query = (query + 1).min(fragment)..fragment;
        parts.fragment = (fragment + 1).min(url.len())..url.len();
        parts
    }

    /// Reads the authority that starts here; answers where it ends.
    fn authority(&mut self, url: &[u8], start: usize) -> usize {
        let (mut host, mut port) = (start, None);
        let mut at = start;
        let end = loop {
            let Some(mark) = until(url, at, ENDS | DIVIDES) else {
                break url.len();
            };
            match url[mark] {
                b'@' => {
                    self.userinfo = start..mark;
                    (host, port) = (mark + 1, None);
                }
                // The colons of an address are inside brackets.
                b']' => port = None,
                b':' => port = port.or(Some(mark)),
                _ => break mark,
            }
            at = mark + 1;
        };
        self.host = host..port.unwrap_or(end);
        self.port = port.map_or(0..0, |colon| colon + 1..end);
        end
    }

    /// The labels of the host.
    pub fn labels<'u>(&self, url: &'u str) -> impl Iterator<Item = Range<usize>> + use<'u> {
        split(url, self.host.clone(), |byte| byte == b'.')
    }

    /// The segments of the path.
    pub fn segments<'u>(&self, url: &'u str) -> impl Iterator<Item = Range<usize>> + use<'u> {
        let path = self.path.start.saturating_add(1).min(self.path.end)..self.path.end;
        split(url, path, |byte| matches!(byte, b'/' | b'\\'))
    }

    /// The parameters of the query, each as its name and its value.
    pub fn parameters<'u>(
        &self,
        url: &'u str,
    ) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + use<'u> {
        let pairs = split(url, self.query.clone(), |byte| matches!(byte, b'&' | b';'));
        pairs.map(|pair| {
            let equals = url.as_bytes()[pair.clone()]
                .iter()
                .position(|byte| *byte == b'=');
            match equals.map(|equals| pair.start + equals) {
                Some(equals) => (pair.start..equals, equals + 1..pair.end),
                None => (pair.clone(), pair.end..pair.end),
            }
        })
    }
}

/// Ends an authority.
const ENDS: u8 = 1;
/// Divides an authority.
const DIVIDES: u8 = 2;
/// Stands in no scheme.
const NO_SCHEME: u8 = 4;

/// What each byte is.
const MARKS: [u8; 256] = {
    let mut marks = [NO_SCHEME; 256];
    let mut byte = 0;
    while byte < 128 {
        marks[byte] = match byte as u8 {
            b'/' | b'\\' | b'?' | b'#' => ENDS | NO_SCHEME,
            b'@' | b']' | b':' => DIVIDES | NO_SCHEME,
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'+' | b'-' | b'.' => 0,
            _ => NO_SCHEME,
        };
        byte += 1;
    }
    marks
};

/// The scheme, if the text has one before anything else.
fn scheme(url: &[u8], start: usize) -> Option<Range<usize>> {
    let end = until(url, start, NO_SCHEME)?;
    let named = url[start].is_ascii_alphabetic() && url[end] == b':';
    // `host:8080/path` has a port, not a scheme.
    let port = url.get(end + 1).is_some_and(u8::is_ascii_digit) && url[start..end].contains(&b'.');
    (named && !port).then_some(start..end)
}

/// Where the next byte is that has one of these marks.
fn until(url: &[u8], from: usize, marks: u8) -> Option<usize> {
    let marked = |byte: &u8| MARKS[usize::from(*byte)] & marks != 0;
    let length = url[from..].iter().position(marked)?;
    Some(from + length)
}

/// The spans between separators; nothing for an empty span.
fn split(
    url: &str,
    span: Range<usize>,
    separator: fn(u8) -> bool,
) -> impl Iterator<Item = Range<usize>> {
    let mut at = (!span.is_empty()).then_some(span.start);
    std::iter::from_fn(move || {
        let start = at?;
        let rest = &url.as_bytes()[start..span.end];
        let length = rest.iter().position(|byte| separator(*byte));
        at = length.map(|length| start + length + 1);
        Some(start..length.map_or(span.end, |length| start + length))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(url: &str) -> [&str; 7] {
        let parts = UrlParts::find(url.as_bytes());
        let spans = [
            parts.scheme,
            parts.userinfo,
            parts.host,
            parts.port,
            parts.path,
            parts.query,
            parts.fragment,
        ];
        spans.map(|span| &url[span])
    }

    #[test]
    fn the_parts_are_where_clients_see_them() {
        for (url, parts) in [
            ("https://a.com", ["https", "", "a.com", "", "", "", ""]),
            (
                "https://a.com/b?c#d",
                ["https", "", "a.com", "", "/b", "c", "d"],
            ),
            (
                "https://u:p@a.com:81?c",
                ["https", "u:p", "a.com", "81", "", "c", ""],
            ),
            ("https:a.com/b", ["https", "", "a.com", "", "/b", "", ""]),
            (
                "https:/\\a.com\\b",
                ["https", "", "a.com", "", "\\b", "", ""],
            ),
            ("https:///a.com/b", ["https", "", "a.com", "", "/b", "", ""]),
            ("//a.com/b", ["", "", "a.com", "", "/b", "", ""]),
            ("a.com:81/b", ["", "", "a.com", "81", "/b", "", ""]),
            (
                "http://a@b@c.com/",
                ["http", "a@b", "c.com", "", "/", "", ""],
            ),
            (
                "http://a.com\\@b.com/",
                ["http", "", "a.com", "", "\\@b.com/", "", ""],
            ),
            (
                "http://a.com#@b.com/",
                ["http", "", "a.com", "", "", "", "@b.com/"],
            ),
            (
                "http://[::1]:80/b",
                ["http", "", "[::1]", "80", "/b", "", ""],
            ),
            ("http://[::1]", ["http", "", "[::1]", "", "", "", ""]),
            (
                "javascript:alert(1)",
                ["javascript", "", "alert(1)", "", "", "", ""],
            ),
            (
                " https://a.com/ \n",
                ["https", "", "a.com", "", "/", "", ""],
            ),
            ("://x", ["", "", "", "", "//x", "", ""]),
            ("", [""; 7]),
            ("?", [""; 7]),
        ] {
            assert_eq!(said(url), parts, "{url}");
        }
    }

    #[test]
    fn parts_split() {
        let url = "https://a.b.c/d//e\\f?g=1&h&=2;i==#x";
        let parts = UrlParts::find(url.as_bytes());
        let labels: Vec<_> = parts.labels(url).map(|span| &url[span]).collect();
        let segments: Vec<_> = parts.segments(url).map(|span| &url[span]).collect();
        let parameters = parts
            .parameters(url)
            .map(|(name, value)| (&url[name], &url[value]));
        let parameters: Vec<_> = parameters.collect();
        assert_eq!(labels, ["a", "b", "c"]);
        assert_eq!(segments, ["d", "", "e", "f"]);
        assert_eq!(parameters, [("g", "1"), ("h", ""), ("", "2"), ("i", "=")]);
    }
}
