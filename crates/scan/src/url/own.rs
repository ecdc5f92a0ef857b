//! The operator's own rules about URLs: expressions over a URL as it is written, and as it is asked.
//!
//! As it is asked, a URL has its scheme and host in lower case and as resolvers read them, no user, slashes for
//! backslashes, and no percent-encoding. Either form may match, so that what one client leaves encoded and
//! another does not is found all the same. It does not resolve steps out of a directory: `url_traversal` does.

use std::ops::Range;

use super::escape;
use super::host::Host;
use super::parts::UrlParts;
use crate::opening::{Opened, Opening};
use crate::rule::{Class, Rule};

/// The rules of class `url` that have an expression.
pub(crate) struct OwnRules {
    rules: Opening,
}

/// A rule that a URL breaks, the part of the URL that says it, and what was undone to see it.
pub(crate) type OwnHit = (&'static Rule, Range<usize>, &'static str);

impl OwnRules {
    pub(crate) fn new(rules: &[&'static Rule]) -> OwnRules {
        let urls = |rule: &&Rule| rule.class == Class::Url && !rule.regex.is_empty();
        OwnRules {
            rules: Opening::new(rules.iter().copied().filter(urls)),
        }
    }

    /// The rules that a URL breaks, each once.
    pub(crate) fn judge(&self, url: &str) -> Vec<OwnHit> {
        if self.rules.rules.is_empty() {
            return Vec::new();
        }
        let mut hits: Vec<OwnHit> = Vec::new();
        let mut opened = Opened::default();
        for matcher in self.rules.each(url.as_bytes(), &mut opened) {
            if let Some(span) = matcher.find(url.as_bytes(), 0) {
                hits.push((matcher.rule, span, ""));
            }
        }
        let (asked, disguise) = asked(url);
        if asked != url.as_bytes() {
            for matcher in self.rules.each(&asked, &mut opened) {
                let known = hits.iter().any(|(rule, ..)| rule.id == matcher.rule.id);
                if !known && matcher.find(&asked, 0).is_some() {
                    hits.push((matcher.rule, 0..url.len(), disguise));
                }
            }
        }
        hits
    }
}

/// A URL as it is asked, and what was undone of what hides a part of it.
fn asked(url: &str) -> (Vec<u8>, &'static str) {
    let parts = UrlParts::find(url.as_bytes());
    let mut asked = Vec::with_capacity(url.len());
    let mut decoded = Vec::new();
    let mut depth = 0;
    if !parts.scheme.is_empty() {
        asked.extend(
            url[parts.scheme.clone()]
                .bytes()
                .map(|b| b.to_ascii_lowercase()),
        );
        asked.extend_from_slice(b"://");
    }
    let written = &url[parts.host.clone()];
    let host = Host::read(written);
    asked.extend_from_slice(host.as_ref().map_or(written, Host::as_str).as_bytes());
    for (mark, part) in [
        (":", parts.port),
        ("", parts.path.clone()),
        ("?", parts.query),
        ("#", parts.fragment),
    ] {
        if part.is_empty() {
            continue;
        }
        asked.extend_from_slice(mark.as_bytes());
        depth += escape::unescape(&url.as_bytes()[part.clone()], &mut decoded);
        let path = part == parts.path;
        let slash = |byte: &u8| if path && *byte == b'\\' { b'/' } else { *byte };
        asked.extend(decoded.iter().map(slash));
    }
    let disguise = match (host.map_or("", |host| host.disguise), depth) {
        ("", 0) => "",
        ("", _) => "percent",
        (disguise, _) => disguise,
    };
    (asked, disguise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_as_it_is_asked() {
        for (url, plain, disguise) in [
            ("https://a.example/b?c=d#e", "https://a.example/b?c=d#e", ""),
            ("HTTPS://A.Example:81/B", "https://a.example:81/B", ""),
            ("https:\\\\u:p@a.example\\b\\c", "https://a.example/b/c", ""),
            (
                "https://a.example/%62?%2563",
                "https://a.example/b?c",
                "percent",
            ),
            ("https://%61.example./x", "https://a.example/x", "percent"),
            ("a.example", "a.example", ""),
            ("", "", ""),
        ] {
            let (read, how) = asked(url);
            assert_eq!(
                (&*String::from_utf8_lossy(&read), how),
                (plain, disguise),
                "{url}"
            );
        }
    }
}
