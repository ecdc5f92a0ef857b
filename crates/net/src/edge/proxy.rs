//! The PROXY protocol, versions 1 and 2: the address that a proxy in front of us says its client has.
//!
//! Source: "The PROXY protocol", HAProxy Technologies, 2020/03/05, sections 2.1 and 2.2. The header stands before
//! everything else that a connection carries, TLS included. Example: `PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n`.
//! What is read here is believed only where the socket's own address is trusted; who says so is the listener.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of a header, at most: 107 of version 1; of version 2 its 16, an address, and what else the proxy says.
pub(crate) const PROXY_BYTES_MAX: usize = 16 + 2048;
/// Bytes of a header of version 1, at most (section 2.1).
const LINE_BYTES_MAX: usize = 107;
pub(super) const LINE: &[u8] = b"PROXY ";
pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// What is left of it where the empty line before a request was skipped (RFC 9112 §2.2).
pub(super) const SIGNATURE_AFTER_A_LINE: &[u8] = b"\r\n\0\r\nQUIT\n";
/// The signature, version and command, family and transport, and the length of the rest.
const HEAD_BYTES: usize = 16;

/// Whose connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxySource {
    Client(IpAddr),
    /// That of somebody whom the proxy does not name by an address.
    Unknown,
    /// The proxy's own, such as a health check.
    Proxy,
}

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProxyFault(pub(crate) &'static str);

impl std::fmt::Display for ProxyFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// Whether what a connection begins with is, or may become, a header.
pub(crate) fn is_header(bytes: &[u8]) -> bool {
    let begins = |with: &[u8]| {
        let length = bytes.len().min(with.len());
        length > 0 && bytes[..length] == with[..length]
    };
    begins(LINE) || begins(SIGNATURE)
}

/// Reads the header at the start of what came: whose connection it is, and how long the header is. Nothing where more
/// has to come.
pub(crate) fn read(bytes: &[u8]) -> Result<Option<(ProxySource, usize)>, ProxyFault> {
    match bytes.first() {
        None => Ok(None),
        Some(b'P') => line(bytes),
        Some(b'\r') => binary(bytes),
        Some(_) => Err(ProxyFault("there is no PROXY header")),
    }
}

/// Version 1 (section 2.1): one line.
fn line(bytes: &[u8]) -> Result<Option<(ProxySource, usize)>, ProxyFault> {
    let within = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = memchr::memmem::find(within, b"\r\n") else {
        return match within.len() < LINE_BYTES_MAX && is_header(bytes) {
            true => Ok(None),
            false => Err(ProxyFault("the PROXY line is too long")),
        };
    };
    let fault = ProxyFault("the PROXY line is not one of version 1");
    let text = std::str::from_utf8(&within[..end]).map_err(|_| fault)?;
    let mut words = text.split(' ');
    let mut word = || words.next().filter(|word| !word.is_empty());
    if word() != Some("PROXY") {
        return Err(fault);
    }
    let source = match word() {
        // What follows is to be ignored.
        Some("UNKNOWN") => return Ok(Some((ProxySource::Unknown, end + 2))),
        Some("TCP4") => IpAddr::V4(pair::<Ipv4Addr>(word(), word()).ok_or(fault)?),
        Some("TCP6") => pair::<Ipv6Addr>(word(), word())
            .ok_or(fault)?
            .to_canonical(),
        _ => return Err(fault),
    };
    let ports = [word(), word()];
    match ports.into_iter().all(is_port) && words.next().is_none() {
        true => Ok(Some((ProxySource::Client(source), end + 2))),
        false => Err(fault),
    }
}

/// The source of a source and a destination, where both are addresses of this family.
fn pair<A: std::str::FromStr>(source: Option<&str>, destination: Option<&str>) -> Option<A> {
    let source = source?.parse().ok()?;
    destination?.parse::<A>().ok()?;
    Some(source)
}

/// A port without zeros before it.
fn is_port(word: Option<&str>) -> bool {
    let digits = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    word.is_some_and(|word| {
        digits(word) && (word == "0" || !word.starts_with('0')) && word.parse::<u16>().is_ok()
    })
}

/// Version 2 (section 2.2): bytes.
fn binary(bytes: &[u8]) -> Result<Option<(ProxySource, usize)>, ProxyFault> {
    if !is_header(bytes) {
        return Err(ProxyFault("there is no PROXY header"));
    }
    let Some(head) = bytes.get(..HEAD_BYTES) else {
        return Ok(None);
    };
    let length = HEAD_BYTES + usize::from(u16::from_be_bytes([head[14], head[15]]));
    if length > PROXY_BYTES_MAX {
        return Err(ProxyFault("the PROXY header is too long"));
    }
    let (version, command) = (head[12] >> 4, head[12] & 15);
    if version != 2 || command > 1 {
        return Err(ProxyFault("the PROXY header is not one of version 2"));
    }
    let Some(rest) = bytes.get(HEAD_BYTES..length) else {
        return Ok(None);
    };
    if command == 0 {
        return Ok(Some((ProxySource::Proxy, length)));
    }
    let short = ProxyFault("the PROXY header has no room for its addresses");
    // The family, and the transport: a stream, since that is what we accept.
    let source = match head[13] {
        0x00 | 0x31 => ProxySource::Unknown,
        0x11 => {
            let (source, _) = rest.get(..12).ok_or(short)?.split_at(4);
            let source: [u8; 4] = source.try_into().map_err(|_| short)?;
            ProxySource::Client(Ipv4Addr::from(source).into())
        }
        0x21 => {
            let (source, _) = rest.get(..36).ok_or(short)?.split_at(16);
            let source: [u8; 16] = source.try_into().map_err(|_| short)?;
            ProxySource::Client(Ipv6Addr::from(source).to_canonical())
        }
        _ => return Err(ProxyFault("the PROXY header is of no stream")),
    };
    Ok(Some((source, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    /// A header of version 2 with this byte for version and command, and for family and transport.
    fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).expect("short").to_be_bytes();
        [SIGNATURE, &[command, family], &length, rest].concat()
    }

    /// Every beginning of a header asks for more.
    fn whole(bytes: &[u8], source: ProxySource) {
        for end in 1..bytes.len() {
            assert_eq!(read(&bytes[..end]), Ok(None), "{end}");
        }
        let followed = [bytes, b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(read(&followed), Ok(Some((source, bytes.len()))));
    }

    #[test]
    fn version_1_is_read() {
        let client = ProxySource::Client(V4);
        whole(b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n", client);
        whole(b"PROXY TCP4 192.0.2.1 255.255.255.255 0 65535\r\n", client);
        let v6 = ProxySource::Client("2001:db8::1".parse().expect("an address"));
        whole(b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n", v6);
        whole(b"PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", client);
        whole(b"PROXY UNKNOWN\r\n", ProxySource::Unknown);
        whole(
            b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n",
            ProxySource::Unknown,
        );
    }

    #[test]
    fn version_2_is_read() {
        let v4 = [192, 0, 2, 1, 192, 0, 2, 2, 0xdc, 4, 1, 187];
        whole(&header(0x21, 0x11, &v4), ProxySource::Client(V4));
        let more = [&v4[..], &[4, 0, 3, 1, 2, 3]].concat();
        whole(&header(0x21, 0x11, &more), ProxySource::Client(V4));
        let mut v6 = [0; 36];
        v6[15] = 1;
        let source = ProxySource::Client(Ipv6Addr::LOCALHOST.into());
        whole(&header(0x21, 0x21, &v6), source);
        whole(&header(0x20, 0x00, &[]), ProxySource::Proxy);
        whole(&header(0x20, 0x11, &v4), ProxySource::Proxy);
        whole(&header(0x21, 0x31, &[0; 216]), ProxySource::Unknown);
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(100));
        for bad in [
            "GET / HTTP/1.1\r\n",
            "proxy TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXX",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 1 65536\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 01 2\r\n",
            "PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n",
            "PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY TCP4 192.0.2.01 192.0.2.2 1 2\r\n",
            "PROXY TCP4 ::1 ::2 1 2\r\n",
            "PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY UDP4 192.0.2.1 192.0.2.2 1 2\r\n",
            "PROXY \r\n",
            "\r\n\r\nX",
            &long,
        ] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(read(&header(0x11, 0x11, &[0; 12])).is_err(), "version 1");
        assert!(read(&header(0x22, 0x11, &[0; 12])).is_err(), "a command");
        assert!(read(&header(0x21, 0x12, &[0; 12])).is_err(), "datagrams");
        assert!(read(&header(0x21, 0x11, &[0; 11])).is_err(), "short");
        assert!(read(&header(0x21, 0x21, &[0; 35])).is_err(), "short");
        assert!(read(&header(0x21, 0x11, &[0; 2049])).is_err(), "long");
    }

    #[test]
    fn a_header_is_known_by_its_start() {
        assert!(is_header(b"PROXY TCP4") && is_header(b"P") && is_header(SIGNATURE));
        assert!(!is_header(b"") && !is_header(b"POST") && !is_header(b"\r\n\r\nG"));
    }
}
