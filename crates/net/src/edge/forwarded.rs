//! The fields by which HTTP proxies say whom they act for.
//!
//! Source: RFC 7239, section 4 (`Forwarded`), and the older `X-Forwarded-For`, a list of addresses. Each proxy adds one
//! element at the end, so the list is read from its end: past the addresses that are trusted, the first that is not is the
//! caller. What stands before it is whatever the caller made up. Example: behind the proxy 10.0.0.1, with 10.0.0.0/8
//! trusted, `for=1.2.3.4, for=192.0.2.7, for=10.0.0.9` is a call of 192.0.2.7.

use std::net::IpAddr;

/// Which field a listener's proxies set. One alone is believed: a proxy that sets one lets the other pass as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedField {
    Forwarded,
    XForwardedFor,
}

impl ForwardedField {
    pub(crate) fn name(self) -> &'static str {
        match self {
            ForwardedField::Forwarded => "forwarded",
            ForwardedField::XForwardedFor => "x-forwarded-for",
        }
    }
}

/// Elements that are looked at, from the end.
const ELEMENTS_MAX: usize = 64;

/// The caller: the last address of these fields' values, in their order, that is not trusted. Where a proxy does not say
/// an address (`unknown`, a name of its own, or what cannot be read), it is the nearest that did: the proxy that wrote
/// the element behind, or `peer`. Also whether the caller is named: not where that proxy acts for somebody else.
pub(crate) fn caller(
    field: ForwardedField,
    values: &[&str],
    peer: IpAddr,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> (IpAddr, bool) {
    let mut caller = peer;
    let elements = values.iter().rev().flat_map(|value| {
        let mut elements = match field {
            // A quotation that the client left open would hide what the proxy added behind it.
            ForwardedField::Forwarded => split(value, ',').unwrap_or_else(|| vec![""]),
            ForwardedField::XForwardedFor => value.split(',').collect(),
        };
        elements.reverse();
        elements
    });
    for element in elements.take(ELEMENTS_MAX) {
        if !is_trusted(caller) {
            break;
        }
        let node = match field {
            ForwardedField::Forwarded => node_of(element),
            ForwardedField::XForwardedFor => Some(element.trim().to_owned()),
        };
        match node.as_deref().and_then(address) {
            Some(address) => caller = address,
            None => return (caller, false),
        }
    }
    (caller, true)
}

/// The parts of a text between separators that stand outside of quotations; nothing where a quotation has no end.
fn split(text: &str, separator: char) -> Option<Vec<&str>> {
    let (mut parts, mut start, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if c == separator && !quoted => {
                parts.push(&text[start..at]);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    (!quoted).then_some(parts)
}

/// What an element says of `for`, once.
fn node_of(element: &str) -> Option<String> {
    let mut found = None;
    for pair in split(element, ';')? {
        let (name, value) = pair.split_once('=')?;
        if name.trim().eq_ignore_ascii_case("for") {
            let value = value.trim();
            let node = match value.strip_prefix('"') {
                Some(quoted) => unquoted(quoted.strip_suffix('"')?),
                None => value.to_owned(),
            };
            if found.replace(node).is_some() {
                return None;
            }
        }
    }
    found
}

fn unquoted(text: &str) -> String {
    let (mut plain, mut escaped) = (String::with_capacity(text.len()), false);
    for c in text.chars() {
        escaped = c == '\\' && !escaped;
        if !escaped {
            plain.push(c);
        }
    }
    plain
}

/// The address of a node: `192.0.2.1`, `192.0.2.1:80`, `[2001:db8::1]`, `[2001:db8::1]:80`; without brackets only as
/// `X-Forwarded-For` has it.
fn address(node: &str) -> Option<IpAddr> {
    if let Some(rest) = node.strip_prefix('[') {
        let (inside, port) = rest.split_once(']')?;
        let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
        let address = inside.parse::<std::net::Ipv6Addr>().ok()?;
        return is_port.then_some(address.to_canonical());
    }
    if let Ok(address) = node.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    let (v4, port) = node.split_once(':')?;
    let v4 = v4.parse::<std::net::Ipv4Addr>().ok()?;
    is_port(port).then_some(v4.into())
}

/// A port, or the name that a proxy uses in its place (RFC 7239, section 6).
fn is_port(port: &str) -> bool {
    let hidden = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match port.strip_prefix('_') {
        Some(name) => !name.is_empty() && name.chars().all(hidden),
        None => port.len() <= 5 && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: &str = "10.0.0.1";

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn called(field: ForwardedField, values: &[&str]) -> String {
        let trusted = |address: IpAddr| matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 10);
        caller(field, values, ip(PEER), trusted).0.to_string()
    }

    #[test]
    fn the_last_that_is_not_trusted_is_the_caller() {
        for (values, expected) in [
            (&["for=192.0.2.7"][..], "192.0.2.7"),
            (&["For=192.0.2.7;proto=https;by=10.0.0.1"], "192.0.2.7"),
            (&["for=1.2.3.4, for=192.0.2.7, for=10.0.0.9"], "192.0.2.7"),
            (&["for=1.2.3.4", "for=192.0.2.7"], "192.0.2.7"),
            (&[r#"for="[2001:db8:cafe::17]:4711""#], "2001:db8:cafe::17"),
            (&[r#"for="192.0.2.43:47011""#], "192.0.2.43"),
            (&[r#"for="192.0.2.43:_x""#], "192.0.2.43"),
            (&[r#"host="a,b;for=1.1.1.1";for=192.0.2.7"#], "192.0.2.7"),
            (&["for=10.0.0.7"], "10.0.0.7"),
            (&[r#"for="[::ffff:192.0.2.7]""#], "192.0.2.7"),
        ] {
            assert_eq!(
                called(ForwardedField::Forwarded, values),
                expected,
                "{values:?}"
            );
        }
        for (values, expected) in [
            (&["192.0.2.7"][..], "192.0.2.7"),
            (&["1.2.3.4, 192.0.2.7 , 10.0.0.9"], "192.0.2.7"),
            (&["2001:db8::1"], "2001:db8::1"),
            (&["192.0.2.7:80"], "192.0.2.7"),
            (&["\", 192.0.2.7"], "192.0.2.7"),
        ] {
            assert_eq!(
                called(ForwardedField::XForwardedFor, values),
                expected,
                "{values:?}"
            );
        }
    }

    #[test]
    fn what_says_no_address_is_the_proxys_own() {
        for values in [
            &[][..],
            &[""],
            &["for=unknown"],
            &["for=_hidden"],
            &["by=192.0.2.1"],
            &["for=192.0.2.7;for=192.0.2.8"],
            &["for"],
            &[r#"for="192.0.2.7"#],
            &["for=192.0.2.7:"],
            &["for=[2001:db8::1]x"],
            &["for=1.2.3.4, for=unknown"],
            // A proxy added the last element to what its client had made up.
            &[r#"for=1.2.3.4;x=", for=192.0.2.7"#],
            &[r#"for=1.2.3.4;x="\", for="192.0.2.7:80""#],
        ] {
            assert_eq!(
                called(ForwardedField::Forwarded, values),
                PEER,
                "{values:?}"
            );
        }
        assert_eq!(
            called(ForwardedField::Forwarded, &["for=x, for=10.0.0.2"]),
            "10.0.0.2"
        );
        assert_eq!(called(ForwardedField::XForwardedFor, &["1.2.3.4, x"]), PEER);
    }

    #[test]
    fn who_is_not_trusted_is_not_believed() {
        let by = |values: &[&str], is_trusted: bool| {
            caller(ForwardedField::Forwarded, values, ip(PEER), |_| is_trusted)
        };
        assert_eq!(by(&["for=1.2.3.4"], false), (ip(PEER), true));
        assert_eq!(by(&["for=unknown"], true), (ip(PEER), false));
        assert_eq!(by(&[], true), (ip(PEER), true));
    }
}
