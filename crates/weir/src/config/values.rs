//! Texts to values: one parser for each kind of scalar, with an error that says what would have been right.
//!
//! No error repeats a value, for it may be a secret that was put in the wrong place.

use std::net::SocketAddr;

use base::{Digest, Name};

use super::settings::relay::Listen;
use super::settings::{Reference, Url};

/// A whole number within its range.
pub(crate) fn count(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let digits = text.replace('_', "");
    match digits.parse::<u64>() {
        Ok(n) if (min..=max).contains(&n) && !text.starts_with(['_', '+']) => Ok(n),
        _ => Err(format!("must be a whole number from {min} to {max}")),
    }
}

/// `true` or `false`.
pub(crate) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "true" | "on" => Ok(true),
        "false" | "off" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// An address and port.
pub(crate) fn socket(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "must be an IP address and a port, such as 127.0.0.1:8700".to_owned())
}

/// Where a relay listens: an address and port, or `unix:PATH`.
pub(crate) fn listen(text: &str) -> Result<Listen, String> {
    match text.strip_prefix("unix:") {
        Some("") => Err("must name a path after unix:".to_owned()),
        Some(path) => Ok(Listen::Unix(path.into())),
        None => text.parse().map(Listen::Tcp).map_err(|_| {
            "must be an IP address and a port, such as 127.0.0.1:8701, or unix:PATH".to_owned()
        }),
    }
}

/// A name that can stand in a path, a label and a policy.
pub(crate) fn name(text: &str) -> Result<Name, String> {
    Name::new(text).ok_or_else(|| {
        "must be a name: 1 to 64 of a-z A-Z 0-9 . _ -, the first a letter or a digit".to_owned()
    })
}

/// The SHA-256 of an agent's key, as `weir agent key` prints it.
pub(crate) fn digest(text: &str) -> Result<Digest, String> {
    if text.starts_with("weir_") {
        return Err(
            "is a key itself; write its hash, and make a new key: this one was written down"
                .to_owned(),
        );
    }
    text.strip_prefix("sha256:")
        .and_then(Digest::from_hex)
        .ok_or_else(|| "must be sha256: and 64 hex digits".to_owned())
}

/// RFC 3339 to Unix milliseconds.
pub(crate) fn time(text: &str) -> Result<u64, String> {
    parse_time(text).ok_or_else(|| "must be a time such as 2027-01-01T00:00:00Z".to_owned())
}

fn parse_time(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| digits.parse().ok())?
    };
    let fixed = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if fixed
        .iter()
        .any(|&(i, byte)| text.as_bytes().get(i) != Some(&byte))
    {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (ms, rest) = fraction(text.get(19..)?)?;
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    u64::try_from((seconds - offset_seconds(rest)?) * 1000 + ms).ok()
}

/// The milliseconds of `.123456`, and what follows.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(rest) = text.strip_prefix('.') else {
        return Some((0, text));
    };
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    let digits = &rest[..end];
    let ms = format!("{digits:0<3}").get(..3)?.parse().ok()?;
    (1..=9).contains(&end).then_some((ms, &rest[end..]))
}

fn offset_seconds(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let two = |t: &str| t.len() == 2 && t.bytes().all(|b| b.is_ascii_digit());
    if !two(hours) || !two(minutes) {
        return None;
    }
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Days since 1970 in the proleptic Gregorian calendar; the inverse of the one in `base::clock`.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let yoe = year.rem_euclid(400);
    let doy = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468
}

/// An absolute `http` or `https` URL without user, password or fragment.
pub(crate) fn url(text: &str) -> Result<Url, String> {
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

/// An address range, such as `10.0.0.0/8`, or one address.
pub(crate) fn range(text: &str) -> Result<gate::Range, String> {
    let mend = "must be an address range such as 10.0.0.0/8, or one address";
    gate::Range::parse(text).ok_or_else(|| mend.to_owned())
}

/// A type that policies can read an argument as.
pub(crate) fn argument(text: &str) -> Result<policy::ArgumentType, String> {
    let mend = || format!("must be one of {}", super::keys::ARGUMENT_TYPES.join(", "));
    text.parse().map_err(|_| mend())
}

/// The id of a scan rule; whether there is such a rule is known once all rules are read.
pub(crate) fn rule(text: &str) -> Result<(), String> {
    let shape = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if !text.is_empty() && text.len() <= 128 && text.bytes().all(shape) {
        Ok(())
    } else {
        Err("must be a rule's id, such as github_token".to_owned())
    }
}

/// What to do about a finding.
pub(crate) fn action(text: &str) -> Result<scan::Action, String> {
    let words = scan::Action::ALL.map(scan::Action::as_str).join(", ");
    scan::Action::named(text).ok_or_else(|| format!("must be one of {words}"))
}

/// A browser origin: scheme, host and port, nothing after.
pub(crate) fn origin(text: &str) -> Result<String, String> {
    let parsed = url(text)
        .ok()
        .filter(|url| url.path == "/" && !text.ends_with(['/', '?']));
    let mend = "must be an origin such as https://app.example, without a path";
    parsed
        .map(|url| url.origin())
        .ok_or_else(|| mend.to_owned())
}

/// Where a secret is: `env:NAME` or `file:PATH`.
pub(crate) fn reference(text: &str) -> Result<Reference, String> {
    match text.split_once(':') {
        Some(("env", name)) if env_name(name) => Ok(Reference::Env(name.to_owned())),
        Some(("env", _)) => Err("must name a variable after env:".to_owned()),
        Some(("file", path)) if !path.is_empty() => Ok(Reference::File(path.into())),
        Some(("file", _)) => Err("must name a file after file:".to_owned()),
        _ => Err(
            "must not be written here; put it in a variable or a file and write env:NAME or \
                  file:PATH"
                .to_owned(),
        ),
    }
}

/// Whether a text can name an environment variable.
pub(crate) fn env_name(text: &str) -> bool {
    let first = text
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    first && text.len() <= 128 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Whether a variable of this name is likely to hold a secret.
pub(crate) fn env_name_is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let words = [
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "APIKEY",
        "CREDENTIAL",
    ];
    words.iter().any(|word| name.contains(word)) || name.ends_with("_KEY") || name == "KEY"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(time("1970-01-01T00:00:00Z"), Ok(0));
        assert_eq!(time("2000-02-29T00:00:00Z"), Ok(951_782_400_000));
        assert_eq!(time("2026-11-21T14:25:30.123Z"), Ok(1_795_271_130_123));
        assert_eq!(time("2026-11-21T16:25:30.1+02:00"), Ok(1_795_271_130_100));
        for bad in [
            "2027-01-01",
            "2027-02-29T00:00:00Z",
            "2027-01-01T24:00:00Z",
            "2027-01-01 00:00:00Z",
            "2027-01-01T00:00:00",
            "2027-01-01T00:00:00.Z",
            "2027-01-01T00:00:00+2:00",
            "+027-01-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2027-13-01T00:00:00Z",
            "é",
            "2027-01-01T00:00:00Zé",
        ] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }

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

    #[test]
    fn the_words_of_the_table_are_those_of_the_crates() {
        for word in super::super::keys::ARGUMENT_TYPES {
            assert!(argument(word).is_ok(), "{word}");
        }
        assert_eq!(
            super::super::keys::ACTIONS,
            scan::Action::ALL.map(scan::Action::as_str)
        );
        assert!(range("10.0.0.0/8").is_ok() && range("10.0.0.0/33").is_err());
    }

    #[test]
    fn a_secret_is_a_reference() {
        assert_eq!(reference("env:A_B"), Ok(Reference::Env("A_B".into())));
        assert_eq!(reference("file:a/b"), Ok(Reference::File("a/b".into())));
        for bad in ["hunter2", "env:", "env:A B", "env:1", "file:", "https://x"] {
            let error = reference(bad).expect_err(bad);
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn counts_origins_and_digests() {
        assert_eq!(count("10_000", 1, 20_000), Ok(10_000));
        for bad in [
            "",
            "-1",
            "1.5",
            "0",
            "20001",
            "1e3",
            "+5",
            "_5",
            "99999999999999999999",
        ] {
            assert!(count(bad, 1, 20_000).is_err(), "{bad}");
        }
        assert_eq!(
            origin("https://App.example"),
            Ok("https://app.example".into())
        );
        assert_eq!(
            origin("http://localhost:3000"),
            Ok("http://localhost:3000".into())
        );
        for bad in ["https://a/", "https://a/x", "*", "null", "https://a?x"] {
            assert!(origin(bad).is_err(), "{bad}");
        }
        assert!(digest(&format!("sha256:{}", "a".repeat(64))).is_ok());
        assert!(
            digest("weir_abc").is_err_and(|e| e.contains("is a key itself") && !e.contains("abc"))
        );
        assert!(digest("sha256:12").is_err());
    }
}
