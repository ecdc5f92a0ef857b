//! An `http` or `https` URL as a configuration names one.

use std::net::IpAddr;

/// An `http` or `https` URL in its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub https: bool,
    /// Lower case; an IPv6 address stands without brackets.
    pub host: String,
    pub port: u16,
    /// Path and query; starts with `/`.
    pub path: String,
}

impl Url {
    /// Host and port as a `Host` field has them: the port only where it is not the scheme's own.
    pub fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        let usual = if self.https { 443 } else { 80 };
        if self.port == usual {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }

    /// Scheme, host and port, as browsers write an origin.
    pub fn origin(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    /// Whether the URL names this machine: `localhost`, or a loopback address written out.
    pub fn is_loopback(&self) -> bool {
        let literal = self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        literal || self.host == "localhost"
    }
}

crate::scalar!(Url, parse, "URL", { "type": "string", "pattern": "^https?://" });

/// An absolute `http` or `https` URL without user, password or fragment.
///
/// # Errors
///
/// What would have been right; the text is not repeated.
pub fn parse(text: &str) -> Result<Url, String> {
    let shape = "must be a URL such as https://tracker.example/mcp".to_owned();
    let (https, rest) = match text.split_once("://") {
        Some(("https", rest)) => (true, rest),
        Some(("http", rest)) => (false, rest),
        _ => return Err(shape),
    };
    let plain = rest
        .bytes()
        .all(|b| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b));
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if !plain || authority.is_empty() {
        return Err(shape);
    }
    if authority.contains('@') {
        return Err(
            "must not hold a user or a password; give a token as env:NAME or file:PATH".to_owned(),
        );
    }
    if path.contains('#') {
        return Err("must not hold a fragment (#…)".to_owned());
    }
    let (host, port) = authority_parts(authority).ok_or(shape)?;
    let port = port.unwrap_or(if https { 443 } else { 80 });
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    Ok(Url {
        https,
        host,
        port,
        path,
    })
}

/// `host`, `host:port` or `[v6]:port`; the host in lower case and without brackets.
fn authority_parts(text: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (
                host,
                if port.is_empty() {
                    None
                } else {
                    Some(port.strip_prefix(':')?)
                },
            )
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let named = |host: &str| {
        let allowed = host
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
        allowed && !host.starts_with(['.', '-']) && host.len() <= 253
    };
    if host.is_empty() || !(text.starts_with('[') || named(host)) {
        return None;
    }
    let port = match port {
        Some(port) => Some(port.parse::<u16>().ok().filter(|&p| p > 0)?),
        None => None,
    };
    Some((host.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use super::parse as url;

    #[test]
    fn urls() {
        let parts = |text| url(text).map(|u| (u.https, u.host, u.port, u.path));
        assert_eq!(
            parts("https://A.example/mcp?x=1"),
            Ok((true, "a.example".into(), 443, "/mcp?x=1".into()))
        );
        assert_eq!(
            parts("http://[::1]:80"),
            Ok((false, "::1".into(), 80, "/".into()))
        );
        for bad in [
            "",
            "ftp://a/",
            "https://",
            "https:///x",
            "https://u:p@a/",
            "https://a/#x",
            "https://a:0/",
            "https://a:99999/",
            "https://a b/",
            "https://[::1/",
            "https://a/\u{e9}",
            "https://[a]/",
            "//a/",
        ] {
            assert!(url(bad).is_err(), "{bad}");
        }
        assert!(url("http://LOCALHOST:1/").is_ok_and(|u| u.is_loopback()));
        assert!(url("http://127.0.0.2/").is_ok_and(|u| u.is_loopback()));
        assert!(url("http://[::1]/").is_ok_and(|u| u.is_loopback()));
        assert!(url("http://localhost.example/").is_ok_and(|u| !u.is_loopback()));
    }
}
