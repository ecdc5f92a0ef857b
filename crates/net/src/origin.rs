//! Which site a request comes from, and which host it was sent to: `Origin` and `Host`, read strictly.
//!
//! A browser sends both. A page of a foreign site must not call the gateway, also where the name of that
//! site was made to resolve to this machine (DNS rebinding). What does not parse is foreign: a reader that
//! guesses takes `127.0.0.1.evil.example` or `http://127.0.0.1@evil.example` for this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::{Refusal, refusal};
use http::header::{HOST, HeaderName, ORIGIN};
use http::request::Parts;

/// Longest name of a host (RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 253;

/// A host as it stands in `Host` and `Origin`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Host {
    /// In lower case.
    Name(String),
    Address(IpAddr),
}

/// `host [":" port]` (RFC 9110 §7.2), without a user name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Authority {
    host: Host,
    port: Option<u16>,
}

/// A serialised origin (RFC 6454 §6.2): scheme, host and port, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    https: bool,
    host: Host,
    port: u16,
}

/// Whether a text is a serialised origin.
pub fn is_origin(text: &str) -> bool {
    Origin::parse(text).is_some()
}

impl Host {
    fn parse(text: &str) -> Option<Host> {
        if let Some(rest) = text.strip_prefix('[') {
            let address: Ipv6Addr = rest.strip_suffix(']')?.parse().ok()?;
            return Some(Host::Address(IpAddr::V6(address).to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Host::Address(address.into()));
        }
        let is_label = |label: &str| {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
            !label.is_empty() && label.bytes().all(plain)
        };
        // A name whose last label begins with a digit is an address to browsers, such as 127.1 or 0x7f000001.
        let last = text.rsplit('.').next().unwrap_or_default();
        let is_name = text.len() <= NAME_BYTES_MAX
            && text.split('.').all(is_label)
            && !last.starts_with(|c: char| c.is_ascii_digit());
        is_name.then(|| Host::Name(text.to_ascii_lowercase()))
    }

    fn is_loopback(&self) -> bool {
        match self {
            Host::Name(name) => name == "localhost",
            Host::Address(address) => address.is_loopback(),
        }
    }
}

impl Authority {
    fn parse(text: &str) -> Option<Authority> {
        let end = match text.starts_with('[') {
            true => text.find(']')? + 1,
            false => text.find(':').unwrap_or(text.len()),
        };
        let (host, rest) = text.split_at(end);
        let port = match rest.strip_prefix(':') {
            Some(digits) => Some(port(digits)?),
            None if rest.is_empty() => None,
            None => return None,
        };
        let host = Host::parse(host)?;
        Some(Authority { host, port })
    }

    /// Of the one `Host` of a request.
    fn of(head: &Parts) -> Option<Authority> {
        Authority::parse(only(head, &HOST)?)
    }
}

/// One to five digits, the first of them not 0: a browser writes a port in no other way.
fn port(digits: &str) -> Option<u16> {
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    plain.then(|| digits.parse().ok()).flatten()
}

impl Origin {
    fn parse(text: &str) -> Option<Origin> {
        let (scheme, rest) = text.split_once("://")?;
        let https = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let Authority { host, port } = Authority::parse(rest)?;
        let port = port.unwrap_or(if https { 443 } else { 80 });
        Some(Origin { https, host, port })
    }

    /// Whether this is the gateway's own address as the request names it. Without TLS only this machine's names are
    /// believed: any other name may have been made to resolve here. By TLS a browser has seen a certificate for the name.
    fn is_own(&self, head: &Parts, is_tls: bool) -> bool {
        let Some(own) = Authority::of(head) else {
            return false;
        };
        let port = own.port.unwrap_or(if is_tls { 443 } else { 80 });
        let is_same = own.host == self.host && port == self.port && self.https == is_tls;
        is_same && (is_tls || self.host.is_loopback())
    }
}

/// The value of a field that stands once in a head.
fn only<'a>(head: &'a Parts, name: &HeaderName) -> Option<&'a str> {
    let mut values = head.headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// A browser names the site whose page calls. Only the gateway's own address and the sites that are
/// configured may. A program sends no `Origin`. `is_tls` says whether the request came by TLS.
pub fn check(head: &Parts, is_tls: bool, configured: &[String]) -> Result<(), Refusal> {
    if !head.headers.contains_key(ORIGIN) {
        return Ok(());
    }
    let origin = only(head, &ORIGIN).and_then(Origin::parse);
    let may = origin.is_some_and(|origin| {
        let mut known = configured.iter().filter_map(|known| Origin::parse(known));
        known.any(|known| known == origin) || origin.is_own(head, is_tls)
    });
    if may {
        return Ok(());
    }
    let public = "a page of another site may not call this gateway";
    Err(Refusal::new(refusal::ORIGIN, public))
}

/// Whether a request was sent to a host that cannot have been made to resolve here by a stranger: an
/// address in numbers, `localhost`, or the host of a site that is configured.
pub fn is_trusted_host(head: &Parts, configured: &[String]) -> bool {
    let is_trusted = |authority: Option<Authority>| match authority.map(|a| a.host) {
        None => false,
        Some(Host::Address(_)) => true,
        Some(host) if host.is_loopback() => true,
        Some(host) => configured
            .iter()
            .filter_map(|known| Origin::parse(known))
            .any(|known| known.host == host),
    };
    // A target in absolute form names the host too, and servers have to believe it (RFC 9112 §3.2.2).
    let target = head.uri.authority().map(|a| Authority::parse(a.as_str()));
    // HTTP/1.0 has no Host, and no browser speaks it.
    let has_none = head.version < http::Version::HTTP_11 && !head.headers.contains_key(HOST);
    (has_none || is_trusted(Authority::of(head))) && target.is_none_or(is_trusted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&str, &str)], target: &str) -> Parts {
        let mut request = http::Request::builder().uri(target);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn may(origin: &str, host: &str) -> bool {
        let configured = ["https://app.example".to_owned()];
        let head = head(&[("origin", origin), ("host", host)], "/mcp/web");
        check(&head, false, &configured).is_ok()
    }

    #[test]
    fn an_origin_that_is_the_gateways_own_may_call() {
        for (origin, host) in [
            ("http://127.0.0.1:8700", "127.0.0.1:8700"),
            ("http://127.8.9.1:8700", "127.8.9.1:8700"),
            ("http://localhost:8700", "localhost:8700"),
            ("http://LOCALHOST:8700", "localhost:8700"),
            ("HTTP://localhost:8700", "LocalHost:8700"),
            ("http://[::1]:8700", "[::1]:8700"),
            ("http://[0:0:0:0:0:0:0:1]:8700", "[::1]:8700"),
            ("http://[::ffff:127.0.0.1]:8700", "127.0.0.1:8700"),
            ("http://localhost", "localhost:80"),
            ("http://localhost:80", "localhost"),
            ("https://app.example", "anything.example"),
            ("https://APP.example:443", "127.0.0.1:8700"),
        ] {
            assert!(may(origin, host), "{origin} at {host}");
        }
    }

    #[test]
    fn by_tls_the_name_that_was_asked_for_is_the_gateways_own() {
        let may = |origin: &str, host: &str| {
            let head = head(&[("origin", origin), ("host", host)], "/mcp/web");
            check(&head, true, &[]).is_ok()
        };
        assert!(may("https://weir.example", "weir.example"));
        assert!(may("https://weir.example:8443", "weir.example:8443"));
        assert!(may("https://localhost:8443", "localhost:8443"));
        assert!(!may("http://localhost:8443", "localhost:8443"));
        assert!(!may("https://weir.example", "weir.example:8443"));
        assert!(!may("https://evil.example", "weir.example"));
    }

    #[test]
    fn an_origin_that_only_looks_like_it_is_foreign() {
        for (origin, host) in [
            (
                "http://127.0.0.1.evil.example:8700",
                "127.0.0.1.evil.example:8700",
            ),
            ("http://localhost.evil:8700", "localhost.evil:8700"),
            ("http://evil.localhost.example", "evil.localhost.example"),
            ("http://evil.example:8700", "evil.example:8700"),
            ("http://127.0.0.1:8700@evil", "127.0.0.1:8700@evil"),
            ("http://127.0.0.1:8700@evil", "127.0.0.1:8700"),
            ("http://evil@127.0.0.1:8700", "127.0.0.1:8700"),
            ("http://127.0.0.1:x", "127.0.0.1:x"),
            ("http://127.0.0.1:", "127.0.0.1:"),
            ("http://127.0.0.1:+80", "127.0.0.1"),
            ("http://127.0.0.1:080", "127.0.0.1"),
            ("http://127.0.0.1:0", "127.0.0.1:0"),
            ("http://127.0.0.1:65536", "127.0.0.1:65536"),
            ("http://127.0.0.1:8700/", "127.0.0.1:8700"),
            ("http://127.0.0.1:8700/path", "127.0.0.1:8700"),
            ("http://127.0.0.1:8700?q", "127.0.0.1:8700"),
            ("http://127.0.0.1:8700#f", "127.0.0.1:8700"),
            ("http://127.0.0.1:8701", "127.0.0.1:8700"),
            ("http://localhost:8700", "127.0.0.1:8700"),
            ("https://127.0.0.1:8700", "127.0.0.1:8700"),
            ("ws://127.0.0.1:8700", "127.0.0.1:8700"),
            ("http://127.1:8700", "127.1:8700"),
            ("http://0x7f000001:8700", "0x7f000001:8700"),
            ("http://2130706433:8700", "2130706433:8700"),
            ("http://127.0.0.01:8700", "127.0.0.01:8700"),
            ("http://[::1:8700", "[::1:8700"),
            ("http://[::1]8700", "[::1]8700"),
            ("http://[::1%lo]:8700", "[::1%lo]:8700"),
            ("http://::1:8700", "::1:8700"),
            ("http://[127.0.0.1]:8700", "[127.0.0.1]:8700"),
            ("http://localhost.:8700", "localhost.:8700"),
            (
                "http://127.0.0.1:8700 http://127.0.0.1:8700",
                "127.0.0.1:8700",
            ),
            ("127.0.0.1:8700", "127.0.0.1:8700"),
            ("//127.0.0.1:8700", "127.0.0.1:8700"),
            ("http://", ""),
            ("http://app.example", "127.0.0.1:8700"),
            ("https://app.example:8443", "127.0.0.1:8700"),
            ("https://app.example.evil", "127.0.0.1:8700"),
            ("null", "127.0.0.1:8700"),
            ("", "127.0.0.1:8700"),
        ] {
            assert!(!may(origin, host), "{origin} at {host}");
        }
    }

    #[test]
    fn a_field_that_stands_twice_says_nothing() {
        let own = "http://127.0.0.1:8700";
        let host = ("host", "127.0.0.1:8700");
        let twice = head(&[("origin", own), ("origin", own), host], "/");
        assert!(check(&twice, false, &[]).is_err());
        let hosts = head(&[("origin", own), host, host], "/");
        assert!(check(&hosts, false, &[]).is_err() && !is_trusted_host(&hosts, &[]));
        assert!(check(&head(&[host], "/"), false, &[]).is_ok());
    }

    #[test]
    fn a_host_is_trusted_where_no_stranger_can_give_it_an_address() {
        let configured = ["https://weir.example".to_owned()];
        let trusted = |host, target| is_trusted_host(&head(&[("host", host)], target), &configured);
        for host in [
            "127.0.0.1:8700",
            "localhost",
            "[::1]:8700",
            "10.0.0.7:80",
            "WEIR.example:8700",
        ] {
            assert!(trusted(host, "/health"), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1@evil.example",
            "127.0.0.1:x",
            "",
        ] {
            assert!(!trusted(host, "/health"), "{host}");
        }
        assert!(!trusted("localhost", "http://evil.example/health"));
        assert!(trusted("localhost", "http://localhost:8700/health"));
    }
}
