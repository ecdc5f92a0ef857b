//! Where requests go: URLs read, resolved, and kept on this machine unless somebody says otherwise.
//!
//! Load on a stranger's server is an attack, so an address outside loopback needs a flag that no file can set.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use http::uri::Authority;

use super::check::{Lookup, One};
use crate::plan::{Protocol, Target};
use config::Path;

/// Most targets of one scenario.
pub(super) const TARGETS_MAX: usize = 1024;
/// Longest URL, in bytes.
pub(super) const URL_BYTES_MAX: usize = 8192;

/// Where a scenario's requests go.
pub(super) struct Places {
    pub targets: Vec<Target>,
    /// Path and query as written, substitutions and all.
    pub first: String,
}

/// A URL in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    pub tls: bool,
    /// Without brackets.
    pub host: String,
    pub port: u16,
    pub authority: String,
    /// Path and query; empty where there is none.
    pub path: String,
}

/// Reads where a scenario goes.
pub(super) fn places(one: &mut One, protocol: &Protocol) -> Option<Places> {
    let scenario = one.scenario;
    let above = one.path.clone();
    let written: Vec<(Path, &str)> = match (&scenario.url, &scenario.urls) {
        (Some(url), None) => vec![(above.key("url"), url.0.as_str())],
        (None, Some(urls)) => {
            let at = |(i, url): (usize, _)| (above.key("urls").index(i), url);
            let urls = urls.iter().map(|url| url.0.as_str());
            urls.enumerate().map(at).collect()
        }
        (None, None) => {
            let (message, help) = match one.check.source.file() {
                Some(_) => ("has no `url`", "write url: http://127.0.0.1:8080/"),
                None => (
                    "there is no target",
                    "write weir lab load http://127.0.0.1:8080/",
                ),
            };
            one.check.say(&above, message, help);
            return None;
        }
        (Some(_), Some(_)) => {
            one.say("urls", "does not go together with url", "keep one of them");
            return None;
        }
    };
    if written.is_empty() || written.len() > TARGETS_MAX {
        one.say("urls", format!("there are not 1 to {TARGETS_MAX}"), "");
        return None;
    }
    let read: Vec<_> = written
        .iter()
        .map(|(at, url)| place(one, at, url))
        .collect();
    let read = read.into_iter().collect::<Option<Vec<(Url, Target)>>>()?;
    let (first, _) = read.first().expect("there is at least one");
    let others = read.iter().zip(&written);
    let others = others.map(|((url, _), (at, _))| (at, url));
    alike(one, first, others)?;
    let first = match first.path.as_str() {
        "" => default_path(protocol).to_owned(),
        path => path.to_owned(),
    };
    let targets = read.into_iter().map(|(_, target)| target).collect();
    Some(Places { targets, first })
}

/// Refuses targets that one kind of request cannot go to.
fn alike<'u>(
    one: &mut One,
    first: &Url,
    others: impl Iterator<Item = (&'u Path, &'u Url)>,
) -> Option<()> {
    for (at, url) in others {
        if url.tls != first.tls {
            let help = "make two scenarios of them";
            one.check.say(at, "https and http do not go together", help);
            return None;
        }
        if url.path != first.path {
            let help = "give all the same path, or write requests: [{ path: … }]";
            one.check.say(at, "has another path than the first", help);
            return None;
        }
    }
    Some(())
}

/// The path of a URL that has none.
fn default_path(protocol: &Protocol) -> &'static str {
    match protocol {
        Protocol::Http1 | Protocol::Http2 { .. } | Protocol::Sse => "/",
        Protocol::Mcp(_) => "/mcp",
        Protocol::Openai => "/v1/chat/completions",
        Protocol::Anthropic => "/v1/messages",
    }
}

fn place(one: &mut One, at: &Path, written: &str) -> Option<(Url, Target)> {
    let lookup = |name: &str| one.check.variable(name);
    let text = match with_env(written, &lookup) {
        Ok(text) => text,
        Err(message) => {
            one.check
                .say(at, message, "give it with -e NAME=VALUE, or in env");
            return None;
        }
    };
    let url = match parse(&text) {
        Ok(url) => url,
        Err(message) => {
            one.check.say(at, message, "write http://HOST:PORT/PATH");
            return None;
        }
    };
    let name = tls_name(one).unwrap_or_else(|| url.host.clone());
    if url.tls && rustls::pki_types::ServerName::try_from(name.as_str()).is_err() {
        let message = format!("`{name}` cannot be the name of a certificate");
        one.check
            .say(at, message, "write tls: { server_name: NAME }");
        return None;
    }
    let addresses = resolved(one, at, &url)?;
    let authority = host_field(one).unwrap_or_else(|| url.authority.clone());
    if authority.parse::<Authority>().is_err() {
        let headers = one.path.key("headers");
        one.check.say(&headers, "Host is not HOST or HOST:PORT", "");
        return None;
    }
    let target = Target {
        tls: url.tls,
        host: tls_name(one).unwrap_or_else(|| url.host.clone()),
        port: url.port,
        authority,
        addresses,
    };
    Some((url, target))
}

/// The addresses of a URL's host, all of them on this machine unless others are allowed.
fn resolved(one: &mut One, at: &Path, url: &Url) -> Option<Vec<SocketAddr>> {
    let addresses = match (url.host.as_str(), url.port).to_socket_addrs() {
        Ok(found) => found.collect::<Vec<SocketAddr>>(),
        Err(e) => {
            let message = format!("the name `{}` does not resolve: {e}", url.host);
            one.check
                .say(at, message, "write an address, or mend the name");
            return None;
        }
    };
    if addresses.is_empty() {
        let message = format!("the name `{}` has no address", url.host);
        one.check.say(at, message, "");
        return None;
    }
    let foreign = addresses.iter().find(|a| !is_loopback(a.ip()));
    if let Some(foreign) = foreign.filter(|_| !one.check.around.any_target) {
        let message = format!("{} is outside this machine", foreign.ip());
        let help = "add --i-own-this if the server is yours to load";
        one.check.say(at, message, help);
        return None;
    }
    Some(addresses)
}

/// The name that the certificate must have, where the scenario writes one.
fn tls_name(one: &One) -> Option<String> {
    let written = one.scenario.tls.as_ref()?.server_name.as_ref()?;
    Some(written.0.clone())
}

/// The Host field, where the scenario writes one.
fn host_field(one: &One) -> Option<String> {
    let headers = one.scenario.headers.iter().flat_map(|named| &named.0);
    let mut host = headers.filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    host.next().map(|(_, value)| value.0.clone())
}

/// Whether an address is this machine's own, IPv4 in IPv6 too.
pub(super) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Replaces `${env.NAME}` and leaves all other substitutions.
///
/// # Errors
///
/// A variable is not set.
pub(super) fn with_env(text: &str, lookup: Lookup) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("${env.") {
        let escaped = rest[..at].ends_with('$');
        let Some(end) = rest[at..].find('}').filter(|_| !escaped) else {
            let (plain, after) = rest.split_at(at + "${env.".len());
            out.push_str(plain);
            rest = after;
            continue;
        };
        out.push_str(&rest[..at]);
        let name = rest[at + "${env.".len()..at + end].trim();
        let value = lookup(name).ok_or_else(|| format!("the variable {name} is not set"))?;
        out.push_str(&value);
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Reads a URL. Substitutions may stand in its path and query.
///
/// # Errors
///
/// What is wrong with it. What may be a credential is not repeated.
pub(super) fn parse(text: &str) -> Result<Url, String> {
    if text.len() > URL_BYTES_MAX {
        return Err(format!("is longer than {URL_BYTES_MAX} bytes"));
    }
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err("has no scheme".to_owned());
    };
    let (tls, default_port) = match scheme.to_ascii_lowercase().as_str() {
        "http" => (false, 80),
        "https" => (true, 443),
        _ if scheme.len() <= 16 && scheme.chars().all(|c| c.is_ascii_alphanumeric()) => {
            return Err(format!("{scheme} is not spoken; there are http and https"));
        }
        _ => return Err("has no scheme that is known".to_owned()),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.contains('@') {
        return Err(
            "holds a user or a password, which belong in auth: { basic: … } or --basic".to_owned(),
        );
    }
    let read: Authority = authority
        .parse()
        .map_err(|_| format!("`{authority}` is not HOST or HOST:PORT"))?;
    let host = read.host().trim_start_matches('[').trim_end_matches(']');
    let port = match read.as_str().strip_prefix(read.host()) {
        Some("") => default_port,
        _ => match read.port_u16() {
            Some(port) if port > 0 => port,
            _ => return Err(format!("`{authority}` has no port from 1 to 65535")),
        },
    };
    if host.is_empty() {
        return Err("has no host".to_owned());
    }
    if path.contains('#') && !path.contains("${") {
        return Err("has a fragment (#…), which is never sent".to_owned());
    }
    let path = match path {
        query if query.starts_with('?') => format!("/{query}"),
        path => path.to_owned(),
    };
    check_path(&path)?;
    Ok(Url {
        tls,
        host: host.to_owned(),
        port,
        authority: authority.to_owned(),
        path,
    })
}

/// Reads the URL of the built-in origin, which is a scheme, a host and a port.
///
/// # Errors
///
/// What is wrong with it.
pub(super) fn origin(text: &str) -> Result<(), String> {
    let url = parse(text)?;
    if url.tls || !matches!(url.path.as_str(), "" | "/") {
        return Err("is not http://HOST:PORT alone".to_owned());
    }
    Ok(())
}

/// Whether a path and query can stand in a request, substitutions aside.
///
/// # Errors
///
/// The first character that cannot.
pub(super) fn check_path(path: &str) -> Result<(), String> {
    if !path.is_empty() && !path.starts_with('/') {
        return Err("a path begins with /".to_owned());
    }
    let mut rest = path;
    while !rest.is_empty() {
        let begin = rest.find("${").unwrap_or(rest.len());
        let (plain, after) = rest.split_at(begin);
        let wrong = |c: char| !c.is_ascii_graphic() || matches!(c, '"' | '<' | '>' | '\\' | '#');
        if let Some(c) = plain.chars().find(|c| wrong(*c)) {
            return Err(format!("{c:?} cannot stand in a path; percent-encode it"));
        }
        rest = after.find('}').map_or("", |end| &after[end + 1..]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let url = parse("http://127.0.0.1:8080/a?b=${seq}").unwrap();
        assert_eq!(
            (url.tls, url.port, url.path.as_str()),
            (false, 8080, "/a?b=${seq}")
        );
        let url = parse("HTTPS://[::1]?x").unwrap();
        assert_eq!(
            (url.host.as_str(), url.port, url.path.as_str()),
            ("::1", 443, "/?x")
        );
        assert_eq!(url.authority, "[::1]");
        for wrong in [
            "",
            "127.0.0.1:80",
            "ws://a/",
            "http://",
            "http://:80/",
            "http://a:0/",
            "http://a:x/",
            "http://a:99999/",
            "http://a/ b",
            "http://a/é",
            "http://a/#x",
            "http://a b/",
            "://a",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        let why = parse("http://me:hunter2@127.0.0.1/").unwrap_err();
        assert!(why.contains("--basic") && !why.contains("hunter2"), "{why}");
    }

    #[test]
    fn variables() {
        let lookup = |name: &str| (name == "BASE").then(|| "http://box".to_owned());
        let put = |text| with_env(text, &lookup);
        assert_eq!(put("${env.BASE}/x/${seq}").unwrap(), "http://box/x/${seq}");
        assert_eq!(put("$${env.BASE}").unwrap(), "$${env.BASE}");
        assert_eq!(
            put("${env.OTHER}").unwrap_err(),
            "the variable OTHER is not set"
        );
        assert_eq!(put("${env.BASE").unwrap(), "${env.BASE");
    }

    #[test]
    fn this_machine_only() {
        for own in ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"] {
            assert!(is_loopback(own.parse().unwrap()), "{own}");
        }
        for other in ["0.0.0.0", "10.0.0.1", "::", "::ffff:10.0.0.1", "8.8.8.8"] {
            assert!(!is_loopback(other.parse().unwrap()), "{other}");
        }
    }
}
