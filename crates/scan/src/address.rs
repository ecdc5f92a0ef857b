//! Which addresses and names are inside: what a gateway can reach and an agent should not.
//!
//! An address has many spellings, and programs differ about some of them; a host is inside if any
//! common reading of it is. Names are judged by what they say; what a name resolves to is judged by
//! [`internal`], after resolution. Sources: RFC 6890 with IANA's special-purpose registries, the
//! WHATWG URL standard (IPv4 parser), RFC 6052 (NAT64), RFC 3056 (6to4), RFC 4380 (Teredo), RFC
//! 5214 (ISATAP), the providers' pages on instance metadata.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Labels at the end of names that no public name has.
fn inside_end(label: &str) -> bool {
    matches!(
        label,
        "consul"
            | "corp"
            | "default"
            | "docker"
            | "home"
            | "internal"
            | "intra"
            | "intranet"
            | "lan"
            | "local"
            | "localdomain"
            | "localhost"
            | "private"
            | "svc"
    )
}

/// Public names of metadata services.
fn metadata_name(name: &str) -> bool {
    matches!(
        name,
        "metadata.goog"
            | "metadata.google.internal"
            | "metadata.packet.net"
            | "metadata.platformequinix.com"
            | "metadata.tencentyun.com"
    )
}

/// Public names below which every name resolves to the machine itself.
fn loopback_name(name: &str) -> bool {
    matches!(
        name,
        "fuf.me"
            | "lacolhost.com"
            | "local.gd"
            | "localho.st"
            | "localtest.me"
            | "lvh.me"
            | "smackaho.st"
            | "ulh.us"
            | "vcap.me"
    )
}

/// Public names below which a name resolves to the address that it spells.
fn spelling_name(name: &str) -> bool {
    matches!(
        name,
        "1u.ms"
            | "backname.io"
            | "local-ip.co"
            | "nip.io"
            | "plex.direct"
            | "rbndr.us"
            | "sslip.io"
            | "traefik.me"
            | "xip.io"
    )
}

/// IANA's special-purpose registry for IPv4, metadata services first.
const V4: &[([u8; 4], u32, &str)] = &[
    ([169, 254, 169, 254], 32, "metadata"),
    ([169, 254, 170, 2], 32, "metadata"),
    ([169, 254, 170, 23], 32, "metadata"),
    ([169, 254, 0, 23], 32, "metadata"),
    ([100, 100, 100, 200], 32, "metadata"),
    ([168, 63, 129, 16], 32, "metadata"),
    ([192, 0, 0, 192], 32, "metadata"),
    ([0, 0, 0, 0], 8, "this_network"),
    ([10, 0, 0, 0], 8, "private"),
    ([100, 64, 0, 0], 10, "shared"),
    ([127, 0, 0, 0], 8, "loopback"),
    ([169, 254, 0, 0], 16, "link_local"),
    ([172, 16, 0, 0], 12, "private"),
    ([192, 0, 0, 0], 24, "protocol"),
    ([192, 0, 2, 0], 24, "documentation"),
    ([192, 88, 99, 0], 24, "relay"),
    ([192, 168, 0, 0], 16, "private"),
    ([198, 18, 0, 0], 15, "benchmark"),
    ([198, 51, 100, 0], 24, "documentation"),
    ([203, 0, 113, 0], 24, "documentation"),
    ([224, 0, 0, 0], 4, "multicast"),
    ([255, 255, 255, 255], 32, "broadcast"),
    ([240, 0, 0, 0], 4, "reserved"),
];

/// IANA's special-purpose registry for IPv6, metadata services first.
const V6: &[([u16; 8], u32, &str)] = &[
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, "metadata"),
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128, "metadata"),
    ([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, "metadata"),
    ([0; 8], 128, "this_network"),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, "loopback"),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, "private"),
    ([0x100, 0, 0, 0, 0, 0, 0, 0], 64, "discard"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, "teredo"),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, "protocol"),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, "documentation"),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "documentation"),
    ([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, "segment_routing"),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "private"),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "link_local"),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "private"),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "multicast"),
];

/// What kind of inside an address is, such as `loopback`; `None` for what is public.
///
/// For the check after resolution: ask it for each address that a name resolves to, before dialing.
pub fn internal(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => internal_v4(address),
        IpAddr::V6(address) => internal_v6(address),
    }
}

fn internal_v4(address: Ipv4Addr) -> Option<&'static str> {
    let bits = u32::from(address);
    let within = |(net, length, _): &&([u8; 4], u32, &str)| {
        (bits ^ u32::from_be_bytes(*net)) >> (32 - length) == 0
    };
    V4.iter().find(within).map(|(_, _, kind)| *kind)
}

fn internal_v6(address: Ipv6Addr) -> Option<&'static str> {
    let bits = u128::from(address);
    let within = |(net, length, _): &&([u16; 8], u32, &str)| {
        (bits ^ u128::from(Ipv6Addr::from(*net))) >> (128 - length) == 0
    };
    let kind = V6.iter().find(within).map(|(_, _, kind)| *kind);
    kind.or_else(|| internal_v4(embedded(address)?))
}

/// The IPv4 address that traffic to an IPv6 address ends at.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let low = (u32::from(g) << 16) | u32::from(h);
    match (a, b, c, d, e, f) {
        // Compatible, mapped, translated (RFC 2765), NAT64.
        (0, 0, 0, 0, 0, 0 | 0xffff)
        | (0, 0, 0, 0, 0xffff, 0)
        | (0x64, 0xff9b, 0, 0, 0, 0)
        | (_, _, _, _, 0 | 0x200, 0x5efe) => Some(Ipv4Addr::from(low)),
        (0x2002, ..) => Some(Ipv4Addr::from((u32::from(b) << 16) | u32::from(c))),
        _ => None,
    }
}

/// The address that a host spells, in any notation that browsers read; `None` for names.
///
/// Notations: `127.0.0.1`, `127.1`, `0177.0.0.1`, `0x7f000001`, `2130706433`, `[::1]`, `::1`,
/// `[fe80::1%25eth0]`.
pub fn host_address(host: &str) -> Option<IpAddr> {
    if host.starts_with('[') || host.bytes().any(|byte| byte == b':') {
        let inner = host.strip_prefix('[').unwrap_or(host);
        let inner = inner.strip_suffix(']').unwrap_or(inner);
        let inner = inner.split_once('%').map_or(inner, |(inner, _)| inner);
        return inner.parse().ok().map(IpAddr::V6);
    }
    if !ends_in_number(host) {
        return None;
    }
    ipv4(host, Zeros::Octal).map(IpAddr::V4)
}

/// What kind of inside a host is; `None` for public names and addresses.
///
/// The host is in lower case and has no dot at its end. `unclear` is a host that looks like an
/// address and is none: programs differ about what it means.
pub fn internal_host(host: &str) -> Option<&'static str> {
    if host.starts_with('[') || ends_in_number(host) {
        // Some programs read a zero in front as octal, others as nothing.
        let plain = ipv4(host, Zeros::Decimal).map(IpAddr::V4);
        let read = host_address(host);
        let kind = read.and_then(internal).or_else(|| plain.and_then(internal));
        return match read.or(plain) {
            None => Some("unclear"),
            Some(_) => kind,
        };
    }
    if metadata_name(host) {
        return Some("metadata");
    }
    let dot = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte == b'.');
    let Some(last) = dot(host.as_bytes()) else {
        return Some("single_label");
    };
    let end = &host[last + 1..];
    if inside_end(end) || host == "home.arpa" || host.ends_with(".home.arpa") {
        return Some("private_name");
    }
    let second = dot(&host.as_bytes()[..last]).map_or(0, |at| at + 1);
    let domain = &host[second..];
    if loopback_name(domain) {
        return Some("loopback");
    }
    let spelled = spelling_name(domain);
    spelled.then(|| spelled_inside(&host[..second]))?
}

/// What an address spelled in front of a name is: `10.0.0.1.`, `app-10-0-0-1.`, `0a000001.`,
/// `--1.`.
fn spelled_inside(front: &str) -> Option<&'static str> {
    let mut last = [None; 4];
    for word in front.split(['.', '-']) {
        last.rotate_left(1);
        last[3] = word.parse::<u8>().ok();
        let kind = match (last, word.len()) {
            ([Some(a), Some(b), Some(c), Some(d)], _) => internal_v4(Ipv4Addr::new(a, b, c, d)),
            (_, 8) => u32::from_str_radix(word, 16)
                .ok()
                .and_then(|bits| internal_v4(bits.into())),
            _ => None,
        };
        if kind.is_some() {
            return kind;
        }
    }
    let v6 = |label: &str| label.replace('-', ":").parse().ok().and_then(internal_v6);
    front
        .split('.')
        .filter(|label| label.len() <= 39 && label.contains("--"))
        .find_map(v6)
}

/// How a zero in front of a number is read.
#[derive(Clone, Copy, PartialEq)]
enum Zeros {
    Octal,
    Decimal,
}

/// Whether a host can only be an IPv4 address (WHATWG URL, "ends in a number checker").
pub(crate) fn ends_in_number(host: &str) -> bool {
    let host = host.as_bytes();
    // The last byte tells for nearly all names.
    match host.last() {
        Some(b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' | b'x') => {}
        _ => return false,
    }
    let label = host.iter().rposition(|byte| *byte == b'.');
    let last = label.map_or(host, |dot| &host[dot + 1..]);
    match last {
        [b'0', b'x', hex @ ..] => hex.iter().all(u8::is_ascii_hexdigit),
        _ => last.iter().all(u8::is_ascii_digit),
    }
}

fn ipv4(host: &str, zeros: Zeros) -> Option<Ipv4Addr> {
    let mut value = 0u64;
    let mut parts = host.split('.');
    for shift in [24, 16, 8, 0] {
        let part = number(parts.next()?, zeros)?;
        let Some(_) = parts.clone().next() else {
            // The last part fills what is left.
            let fits = part < 1 << (shift + 8);
            return fits.then(|| Ipv4Addr::from((value | part) as u32));
        };
        if part > 255 {
            return None;
        }
        value |= part << shift;
    }
    None
}

fn number(text: &str, zeros: Zeros) -> Option<u64> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] if zeros == Zeros::Octal => (&text[1..], 8),
        _ => (text, 10),
    };
    if digits.is_empty() {
        return (radix == 16).then_some(0);
    }
    let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(digits, radix).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notation_of_an_inside_address_is_inside() {
        for (host, kind) in [
            ("127.0.0.1", "loopback"),
            ("127.1", "loopback"),
            ("127.0.1", "loopback"),
            ("0177.0.0.1", "loopback"),
            ("0x7f.1", "loopback"),
            ("0x7f000001", "loopback"),
            ("2130706433", "loopback"),
            ("017700000001", "loopback"),
            ("0x7f.0x0.0x0.0x1", "loopback"),
            ("000177.0.0.01", "loopback"),
            ("127.000.000.001", "loopback"),
            ("010.8.8.8", "private"),
            ("012.1.2.3", "private"),
            ("10.0.0.08", "private"),
            ("0", "this_network"),
            ("0x", "this_network"),
            ("0.0.0.0", "this_network"),
            ("0.1.2.3", "this_network"),
            ("10.255.0.1", "private"),
            ("172.16.0.1", "private"),
            ("172.31.255.255", "private"),
            ("192.168.0.1", "private"),
            ("3232235777", "private"),
            ("100.64.0.1", "shared"),
            ("100.100.100.200", "metadata"),
            ("169.254.1.1", "link_local"),
            ("169.254.169.254", "metadata"),
            ("2852039166", "metadata"),
            ("0xa9fea9fe", "metadata"),
            ("169.254.43518", "metadata"),
            ("169.254.170.2", "metadata"),
            ("168.63.129.16", "metadata"),
            ("192.0.0.8", "protocol"),
            ("192.0.2.5", "documentation"),
            ("198.18.5.5", "benchmark"),
            ("198.51.100.9", "documentation"),
            ("203.0.113.9", "documentation"),
            ("224.0.0.1", "multicast"),
            ("239.255.255.250", "multicast"),
            ("240.0.0.1", "reserved"),
            ("255.255.255.255", "broadcast"),
            ("4294967296", "unclear"),
            ("127.0.0.256", "unclear"),
            ("1.2.3.4.5", "unclear"),
            ("08.8.8.999", "unclear"),
            ("[::]", "this_network"),
            ("[::1]", "loopback"),
            ("[0:0:0:0:0:0:0:1]", "loopback"),
            ("[0000:0000:0000:0000:0000:0000:0000:0001]", "loopback"),
            ("[::ffff:127.0.0.1]", "loopback"),
            ("[::ffff:7f00:1]", "loopback"),
            ("[::ffff:a00:1]", "private"),
            ("[::127.0.0.1]", "loopback"),
            ("[::ffff:0:10.0.0.1]", "private"),
            ("[64:ff9b::169.254.169.254]", "metadata"),
            ("[64:ff9b::a00:1]", "private"),
            ("[64:ff9b:1::8.8.8.8]", "private"),
            ("[2002:7f00:1::]", "loopback"),
            ("[2002:c0a8:101::1]", "private"),
            ("[2001:0:53aa:64c::1]", "teredo"),
            ("[2001:db8::1]", "documentation"),
            ("[2a00:1450::5efe:10.0.0.1]", "private"),
            ("[fc00::1]", "private"),
            ("[fd12:3456::1]", "private"),
            ("[fd00:ec2::254]", "metadata"),
            ("[fe80::1]", "link_local"),
            ("[fe80::1%25eth0]", "link_local"),
            ("[fe80::1%eth0]", "link_local"),
            ("[fec0::1]", "private"),
            ("[ff02::1]", "multicast"),
            ("[::1", "loopback"),
            ("[v1.x]", "unclear"),
        ] {
            assert_eq!(internal_host(host), Some(kind), "{host}");
        }
    }

    #[test]
    fn names_of_the_inside_are_inside() {
        for (host, kind) in [
            ("localhost", "single_label"),
            ("intranet", "single_label"),
            ("metadata", "single_label"),
            ("app.localhost", "private_name"),
            ("printer.local", "private_name"),
            ("db.internal", "private_name"),
            ("host.docker.internal", "private_name"),
            ("nas.lan", "private_name"),
            ("router.home.arpa", "private_name"),
            ("git.corp", "private_name"),
            ("kubernetes.default.svc", "private_name"),
            ("kubernetes.default.svc.cluster.local", "private_name"),
            ("vault.service.consul", "private_name"),
            ("metadata.google.internal", "metadata"),
            ("metadata.goog", "metadata"),
            ("localtest.me", "loopback"),
            ("a.b.lvh.me", "loopback"),
            ("10.0.0.1.nip.io", "private"),
            ("app.10.0.0.1.nip.io", "private"),
            ("app-127-0-0-1.nip.io", "loopback"),
            ("127-0-0-1.sslip.io", "loopback"),
            ("7f000001.nip.io", "loopback"),
            ("app-7f000001.nip.io", "loopback"),
            ("--1.sslip.io", "loopback"),
            ("fd12--1.sslip.io", "private"),
            ("192.168.1.250.xip.io", "private"),
            ("7f000001.08080808.rbndr.us", "loopback"),
        ] {
            assert_eq!(internal_host(host), Some(kind), "{host}");
        }
    }

    #[test]
    fn the_outside_is_not() {
        for host in [
            "8.8.8.8",
            "134744072",
            "0x08080808",
            "93.184.215.14",
            "172.32.0.1",
            "100.128.0.1",
            "192.0.3.1",
            "[2606:4700:4700::1111]",
            "[::ffff:8.8.8.8]",
            "[64:ff9b::808:808]",
            "[2002:808:808::1]",
            "example.com",
            "local.example.com",
            "internal.example.com",
            "localhost.example.com",
            "8.8.8.8.nip.io",
            "nip.io",
            "metadata.example.com",
            "10.example.com",
            "corp.com",
            "x.test",
            "x.invalid",
        ] {
            assert_eq!(internal_host(host), None, "{host}");
        }
    }

    #[test]
    fn names_have_no_address() {
        for host in ["example.com", "abc", "", "1.2.3.x", "0xg", "1u.ms"] {
            assert_eq!(host_address(host), None, "{host}");
        }
    }
}
