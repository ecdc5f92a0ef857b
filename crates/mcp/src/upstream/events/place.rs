//! Where a server of HTTP+SSE wants messages sent: a reference that is resolved against the server's own URL, and has to be at
//! the same scheme, host and port.
//!
//! Source: RFC 3986, section 5. Example: for `http://127.0.0.1:7/a/sse`, both `/messages?id=1` and `../messages?id=1` name
//! `/messages?id=1` there, and `http://127.0.0.1:8/messages` is refused.

use http::Uri;
use http::uri::PathAndQuery;
use net::{Endpoint, Scheme};

/// Longest reference that is read, in bytes.
const BYTES_MAX: usize = 4096;

/// Reads a reference.
///
/// # Errors
/// Why it cannot be used.
pub(super) fn read(own: &Endpoint, named: &[u8]) -> Result<PathAndQuery, &'static str> {
    if named.len() > BYTES_MAX {
        return Err("it is too long");
    }
    let named = std::str::from_utf8(named).map_err(|_| "it is not text")?;
    let named = named.trim_matches(' ');
    // What one reader takes for the end of the host, another takes for a part of it.
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    if named.is_empty() || !named.bytes().all(is_plain) {
        return Err("it is no URL");
    }
    let named = named.split('#').next().unwrap_or_default();
    let rest = match scheme_of(named) {
        Some((scheme, rest)) => {
            let own_scheme = match own.scheme {
                Scheme::Http => "http",
                Scheme::Https => "https",
            };
            if !scheme.eq_ignore_ascii_case(own_scheme) {
                return Err("it has another scheme");
            }
            if !rest.starts_with("//") {
                return Err("it is no URL");
            }
            rest
        }
        None => named,
    };
    let reference = match rest.strip_prefix("//") {
        Some(rest) => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            check(own, &rest[..end])?;
            match &rest[end..] {
                "" => "/".to_owned(),
                query if query.starts_with('?') => format!("/{query}"),
                path => path.to_owned(),
            }
        }
        None if rest.starts_with('/') => rest.to_owned(),
        None if rest.starts_with('?') => format!("{}{rest}", own.path),
        None => {
            let folder = own.path.rfind('/').map_or("/", |at| &own.path[..=at]);
            format!("{folder}{rest}")
        }
    };
    let (path, query) = match reference.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (&*reference, None),
    };
    let mut place = without_dots(path);
    if let Some(query) = query {
        place.push('?');
        place.push_str(query);
    }
    place.parse().map_err(|_| "it is no path")
}

/// The scheme of an absolute reference, and what follows it.
fn scheme_of(named: &str) -> Option<(&str, &str)> {
    let end = named.find([':', '/', '?'])?;
    let (scheme, rest) = named.split_at(end);
    let rest = rest.strip_prefix(':')?;
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let begins = scheme
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphabetic());
    (begins && scheme.bytes().all(is_scheme)).then_some((scheme, rest))
}

/// Holds an authority against the server's own.
fn check(own: &Endpoint, authority: &str) -> Result<(), &'static str> {
    if authority.contains('@') {
        return Err("it holds a user name");
    }
    let scheme = match own.scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    let uri: Uri = format!("{scheme}://{authority}/")
        .parse()
        .map_err(|_| "it is no URL")?;
    // The parser of the configuration reads it, so that the two are compared as they are dialled.
    let other = Endpoint::parse(&uri.to_string()).map_err(|_| "it is no URL")?;
    let is_same = other.host.eq_ignore_ascii_case(&own.host) && other.port == own.port;
    is_same.then_some(()).ok_or("it is at another address")
}

/// A path without the segments `.` and `..` (RFC 3986, section 5.2.4).
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    for (place, segment) in segments.iter().enumerate() {
        let is_last = place + 1 == segments.len();
        match *segment {
            "." | ".." => {
                if *segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_at_the_servers_own_address() {
        let own = Endpoint::parse("http://Tracker.example:8080/a/sse").unwrap();
        let same = Ok("/messages?id=1");
        let cases: &[(&str, Result<&str, &str>)] = &[
            ("/messages?id=1", same),
            ("http://tracker.example:8080/messages?id=1", same),
            ("HTTP://TRACKER.example:8080/messages?id=1", same),
            ("//tracker.example:8080/messages?id=1", same),
            ("../messages?id=1", same),
            ("../../../messages?id=1", same),
            ("/b/../messages?id=1#here", same),
            ("messages?id=1", Ok("/a/messages?id=1")),
            ("./messages/.", Ok("/a/messages/")),
            ("?id=1", Ok("/a/sse?id=1")),
            ("http://tracker.example:8080", Ok("/")),
            ("http://tracker.example:8080?id=1", Ok("/?id=1")),
            (
                "/messages?to=http://other.example/",
                Ok("/messages?to=http://other.example/"),
            ),
            (
                "http://other.example:8080/messages",
                Err("it is at another address"),
            ),
            (
                "//other.example:8080/messages",
                Err("it is at another address"),
            ),
            (
                "http://tracker.example/messages",
                Err("it is at another address"),
            ),
            (
                "http://tracker.example.:8080/",
                Err("it is at another address"),
            ),
            (
                "http://tracker.example:8080.other.example/",
                Err("it is no URL"),
            ),
            (
                "https://tracker.example:8080/messages",
                Err("it has another scheme"),
            ),
            ("file:///etc/passwd", Err("it has another scheme")),
            ("http:messages", Err("it is no URL")),
            (
                "http://tracker.example:8080@other.example/",
                Err("it holds a user name"),
            ),
            (
                "http://me@tracker.example:8080/",
                Err("it holds a user name"),
            ),
            ("http:\\\\other.example\\", Err("it is no URL")),
            ("/\\other.example/", Err("it is no URL")),
            ("/mess ages", Err("it is no URL")),
            ("/messages\r\nHost: other.example", Err("it is no URL")),
            ("", Err("it is no URL")),
        ];
        for (named, wanted) in cases {
            let place = read(&own, named.as_bytes());
            let place = place.as_ref().map(PathAndQuery::as_str).map_err(|why| *why);
            assert_eq!(place, *wanted, "{named:?}");
        }
        let long = vec![b'/'; BYTES_MAX + 1];
        assert!(read(&own, &long).is_err() && read(&own, b"/\xff").is_err());
        let usual = Endpoint::parse("https://tracker.example/sse").unwrap();
        for named in ["https://tracker.example:443/m", "//tracker.example/m", "/m"] {
            assert_eq!(read(&usual, named.as_bytes()).unwrap(), "/m", "{named}");
        }
    }
}
