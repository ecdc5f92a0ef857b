//! What control data and fields may hold: the same rules for what we write and for what we read.
//!
//! They are those of RFC 9292 §3.4 to §3.6 and a few more, so that whatever passes can be written in HTTP/1.1 and is
//! read there in one way only. They refuse rather than mend: to leave out what is not passed on is the work of the
//! HTTP/1.1 engine, which knows what Connection lists.

use super::{Fault, RequestLine};

/// Each byte of a token (RFC 9110 §5.6.2) in lower case, and 0 for every other byte.
static LOWER: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        if matches!(byte as u8,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'!' | b'#' | b'$' | b'%' | b'&' | b'\''
            | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
        {
            table[byte] = (byte as u8).to_ascii_lowercase();
        }
        byte += 1;
    }
    table
};

/// The byte of a token in lower case; 0 if it is of none.
#[inline]
pub(super) fn lower(byte: u8) -> u8 {
    LOWER[usize::from(byte)]
}

/// What a field is for, as far as this format has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Host,
    ContentLength,
    /// Not empty, and for one connection alone (RFC 9113 §8.2.2).
    Connection,
    /// TE, which may say `trailers` and nothing else (RFC 9113 §8.2.2).
    Te,
    Upgrade,
}

/// Where fields stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Head,
    Interim,
    Trailers,
}

/// The kind of a field by its name in lower case.
#[inline]
fn kind(name: &[u8]) -> Kind {
    match name {
        b"te" => Kind::Te,
        b"host" => Kind::Host,
        b"upgrade" => Kind::Upgrade,
        b"content-length" => Kind::ContentLength,
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" => {
            Kind::Connection
        }
        _ => Kind::Plain,
    }
}

/// Checks one field, its name already in lower case and known to be a token.
#[inline]
pub(super) fn field(name: &[u8], value: &[u8], place: Place) -> Result<Kind, Fault> {
    if !is_value(value) {
        return Err(Fault::FieldValue);
    }
    match (kind(name), place) {
        (Kind::Plain, _) => Ok(Kind::Plain),
        (Kind::Upgrade, Place::Head) => Err(Fault::Upgrade),
        (Kind::Te, Place::Head) if value.eq_ignore_ascii_case(b"trailers") => Ok(Kind::Te),
        (Kind::Connection | Kind::Te | Kind::Upgrade, _) => Err(Fault::ConnectionField),
        (Kind::Host | Kind::ContentLength, Place::Trailers) => Err(Fault::TrailerField),
        (Kind::ContentLength, Place::Interim) => Err(Fault::ContentLength),
        (found, _) => Ok(found),
    }
}

/// Whether these bytes are a token, whatever its case.
pub(super) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|byte| lower(*byte) != 0)
}

/// Whether these bytes are a token without capitals.
#[inline]
pub(super) fn is_lower_token(bytes: &[u8]) -> bool {
    let good = |byte: u8| (byte != 0) & (lower(byte) == byte);
    !bytes.is_empty() && bytes.iter().fold(true, |all, byte| all & good(*byte))
}

/// Whether these bytes are a field's value: no control characters but the tab (RFC 9110 §5.5), which includes CR, LF
/// and NUL, and no whitespace around it (RFC 9113 §8.2.1).
#[inline]
pub(super) fn is_value(bytes: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    // Without an early end, so that many bytes are looked at at once.
    let bad = bytes.iter().fold(false, |bad, byte| {
        bad | ((*byte < 0x20) & (*byte != b'\t')) | (*byte == 0x7f)
    });
    !bad && !is_space(bytes.first()) && !is_space(bytes.last())
}

/// Checks the control data of a request.
pub(super) fn request(line: &RequestLine<'_>) -> Result<(), Fault> {
    if !is_token(line.method) {
        return Err(Fault::Method);
    }
    if line.method == b"CONNECT" {
        return Err(Fault::Connect);
    }
    if line.scheme != b"http" && line.scheme != b"https" {
        return Err(Fault::Scheme);
    }
    if !is_authority(line.authority) {
        return Err(Fault::Authority);
    }
    if !(is_path(line.path) || line.path == b"*" && line.method == b"OPTIONS") {
        return Err(Fault::Path);
    }
    Ok(())
}

/// Whether these bytes are a path and perhaps a query. Bytes over 0x7f pass, as they do between a client and a server
/// that talk to each other directly; `#` does not, since some would cut the path there.
fn is_path(path: &[u8]) -> bool {
    let good = |byte: &u8| matches!(byte, 0x21..=0x7e | 0x80..=0xff) && *byte != b'#';
    path.first() == Some(&b'/') && path.iter().all(good)
}

/// Whether these bytes are a host and perhaps a port (RFC 3986 §3.2.2, §3.2.3), without user information.
fn is_authority(authority: &[u8]) -> bool {
    let (host, port) = match authority.iter().rposition(|byte| *byte == b':') {
        // The colons of an IPv6 address stand before its bracket.
        Some(at) if authority.last() != Some(&b']') => (&authority[..at], &authority[at + 1..]),
        _ => (authority, &b""[..]),
    };
    let is_host = match host {
        [b'[', address @ .., b']'] => is_literal(address),
        name => !name.is_empty() && name.iter().all(|byte| is_name_byte(*byte)),
    };
    is_host && port.iter().all(u8::is_ascii_digit)
}

/// An IPv6 address, or what may become of it: RFC 3986 has `v1.fe:ab`, and RFC 6874 `%25eth0`.
fn is_literal(address: &[u8]) -> bool {
    !address.is_empty()
        && address
            .iter()
            .all(|byte| *byte == b':' || is_name_byte(*byte))
}

fn is_name_byte(byte: u8) -> bool {
    NAME[usize::from(byte)]
}

/// Each byte that a name in an authority may have (RFC 3986 §3.2.2).
static NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(byte as u8,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'%' | b'!' | b'$' | b'&' | b'\''
            | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=');
        byte += 1;
    }
    table
};

/// Reads the one number of a Content-Length: digits alone, and nothing over 2^62 - 1.
pub(super) fn content_length(value: &[u8]) -> Result<u64, Fault> {
    if value.is_empty() || value.len() > 19 {
        return Err(Fault::ContentLength);
    }
    let digit = |sum: u64, byte: &u8| {
        byte.is_ascii_digit()
            .then(|| sum * 10 + u64::from(byte - b'0'))
    };
    let number = value.iter().try_fold(0, digit);
    number
        .filter(|n| *n <= super::integer::MAX)
        .ok_or(Fault::ContentLength)
}

/// Whether a final response of this status has no content, whatever its length says (RFC 9110 §6.4.1).
pub(super) fn has_no_content(status: u16) -> bool {
    matches!(status, 204 | 304)
}
