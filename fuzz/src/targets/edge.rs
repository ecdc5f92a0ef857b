//! What proxies in front of the edge say of whom they act for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use net::ForwardedField;
use net::edge::fuzzing;

/// Bytes of a header, at most.
const HEADER_BYTES_MAX: usize = 16 + 2048;

/// A PROXY header, version 1 or 2: the same however its bytes come, and read as a careless reader reads it.
pub fn net_proxy(data: &[u8]) {
    let read = fuzzing::proxy_header(data);
    let until = data.len().min(HEADER_BYTES_MAX + 1);
    match read {
        Ok(Some((address, length))) => {
            assert!(
                length <= data.len() && length <= HEADER_BYTES_MAX,
                "a header longer than it may be"
            );
            assert!(
                fuzzing::is_proxy_header(data),
                "a header that begins as none"
            );
            for end in 0..length {
                assert_eq!(
                    fuzzing::proxy_header(&data[..end]),
                    Ok(None),
                    "a part of a header is one, or is none"
                );
            }
            assert_eq!(
                fuzzing::proxy_header(&data[..length]),
                read,
                "what follows counts"
            );
            if address.is_some() {
                assert_eq!(
                    address,
                    careless(&data[..length]),
                    "two readers see two addresses"
                );
            }
        }
        // More may make a header of it, and did not make one yet.
        Ok(None) => {
            assert!(
                data.len() < HEADER_BYTES_MAX,
                "a header without end is waited for"
            );
            assert!(
                data.is_empty() || fuzzing::is_proxy_header(data),
                "what is no header is waited for"
            );
        }
        Err(_) => {
            let more = [&data[..until], b" 1 2\r\n"].concat();
            let once = fuzzing::proxy_header(&data[..until]);
            assert!(
                once.is_err() && fuzzing::proxy_header(&more).is_err(),
                "what came later mended a header"
            );
        }
    }
}

/// The source of a whole header that names one, by a reader that believes what it sees.
fn careless(header: &[u8]) -> Option<IpAddr> {
    if header.starts_with(b"PROXY") {
        let line = std::str::from_utf8(header).ok()?;
        return line.split_ascii_whitespace().nth(2)?.parse().ok();
    }
    let v4 = header
        .get(16..20)
        .and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    let v6 = header
        .get(16..32)
        .and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
    match header[13] {
        0x11 => v4.map(|bytes| Ipv4Addr::from(bytes).into()),
        _ => v6.map(|bytes| Ipv6Addr::from(bytes).to_canonical()),
    }
}

/// `Forwarded` and `X-Forwarded-For`: whatever a client makes up, in fields or in the part of a field before what the
/// proxy adds, the caller is the one that the proxy says, or the proxy.
pub fn net_forwarded(data: &[u8]) {
    let Some((&first, text)) = data.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(text);
    let (field, added) = match first % 3 {
        0 => (ForwardedField::Forwarded, "for=192.0.2.7"),
        1 => (ForwardedField::Forwarded, "for=\"192.0.2.7:80\""),
        _ => (ForwardedField::XForwardedFor, "192.0.2.7"),
    };
    let (proxy, said) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([192, 0, 2, 7]));
    let is_trusted = |address: IpAddr| matches!(address, IpAddr::V4(v4) if v4.octets()[0] == 10);
    let made_up: Vec<&str> = text.split('\n').collect();
    assert_eq!(
        fuzzing::caller(field, &made_up, said, is_trusted),
        said,
        "who is not trusted is believed"
    );
    let own_field: Vec<&str> = made_up.iter().copied().chain([added]).collect();
    assert_eq!(
        fuzzing::caller(field, &own_field, proxy, is_trusted),
        said,
        "a client chose who it is"
    );
    let (last, before) = made_up.split_last().expect("a split has a part");
    let joined = format!("{last}, {added}");
    let same_field: Vec<&str> = before.iter().copied().chain([&*joined]).collect();
    let caller = fuzzing::caller(field, &same_field, proxy, is_trusted);
    assert!(
        caller == said || caller == proxy,
        "a client chose who it is, by a field that its proxy went on with"
    );
}
