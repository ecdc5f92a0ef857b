//! Entrances for the fuzzer to parsers that nothing outside this crate calls.

use std::net::IpAddr;

use super::ForwardedField;
use super::forwarded;
use super::proxy::{self, ProxySource};

/// The address that a PROXY header at the start of these bytes says, if it says one, and the header's length. Nothing
/// where more has to come; an error where there is no header.
pub fn proxy_header(bytes: &[u8]) -> Result<Option<(Option<IpAddr>, usize)>, &'static str> {
    let read = proxy::read(bytes).map_err(|fault| fault.0)?;
    Ok(read.map(|(source, length)| match source {
        ProxySource::Client(address) => (Some(address), length),
        ProxySource::Unknown | ProxySource::Proxy => (None, length),
    }))
}

/// Whether bytes are, or may become, a PROXY header.
pub fn is_proxy_header(bytes: &[u8]) -> bool {
    proxy::is_header(bytes)
}

/// The caller that these values of a field name, behind the proxy `peer`.
pub fn caller(
    field: ForwardedField,
    values: &[&str],
    peer: IpAddr,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> IpAddr {
    forwarded::caller(field, values, peer, is_trusted).0
}
