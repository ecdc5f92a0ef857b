//! What stands before HTTP on a connection: the PROXY header of a proxy in front of us, then TLS.

use std::fmt;
use std::io;

use base::{Refusal, refusal};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::proxy::{self, PROXY_BYTES_MAX, ProxyFault, ProxySource};
use crate::h1::Stream;
use crate::mutual::Shown;
use crate::tls::EdgeTls;

/// First byte of a TLS record that holds a handshake (RFC 8446 §5.1).
const TLS_HANDSHAKE: u8 = 22;

/// Why a connection did not get as far as HTTP.
#[derive(Debug)]
pub(super) enum Unopened {
    /// It took longer than a head may.
    Late,
    /// A trusted proxy sent no PROXY header, or not a good one.
    Proxy(ProxyFault),
    /// The client speaks something else than TLS.
    NotTls,
    Broken(io::Error),
}

impl fmt::Display for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unopened::Late => f.write_str("the client took too long"),
            Unopened::Proxy(fault) => f.write_str(fault.0),
            Unopened::NotTls => f.write_str("the client does not speak TLS"),
            Unopened::Broken(error) => error.fmt(f),
        }
    }
}

impl Unopened {
    /// What the client is told, where it can be.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        match self {
            Unopened::Proxy(fault) => Some(bad_header(*fault)),
            Unopened::NotTls => {
                let public = "This listener speaks TLS, and the request came without it.";
                Some(Refusal::new(refusal::TLS, public))
            }
            Unopened::Late | Unopened::Broken(_) => None,
        }
    }
}

fn bad_header(fault: ProxyFault) -> Refusal {
    let public = format!("This listener takes a PROXY header from this address, and {fault}.");
    Refusal::new(refusal::PROXY, public)
}

/// What is told to whoever sends a PROXY header and is not believed; nothing where the bytes begin with none.
pub(super) fn unasked_header(bytes: &[u8]) -> Option<Refusal> {
    let is_header = bytes.starts_with(proxy::LINE)
        || bytes.starts_with(proxy::SIGNATURE)
        || bytes.starts_with(proxy::SIGNATURE_AFTER_A_LINE);
    let public = "This listener takes no PROXY header from this address.";
    is_header.then(|| Refusal::new(refusal::PROXY, public))
}

/// Reads the PROXY header that a connection has to begin with, and nothing behind it. Waits as long as the proxy does:
/// the caller sets a bound.
pub(super) async fn read_proxy(socket: &mut TcpStream) -> Result<ProxySource, Unopened> {
    let mut bytes = [0; PROXY_BYTES_MAX];
    let mut taken = 0;
    loop {
        let came = socket.peek(&mut bytes[taken..]).await;
        let came = came.map_err(Unopened::Broken)?;
        if came == 0 {
            return Err(Unopened::Broken(io::ErrorKind::UnexpectedEof.into()));
        }
        let read = proxy::read(&bytes[..taken + came]).map_err(Unopened::Proxy)?;
        // Of a header that is not whole yet, all that came is part.
        let end = read.map_or(taken + came, |(_, bytes)| bytes);
        let rest = socket.read_exact(&mut bytes[taken..end]).await;
        rest.map_err(Unopened::Broken)?;
        taken = end;
        if let Some((source, _)) = read {
            return Ok(source);
        }
    }
}

/// Shakes hands. Waits as long as the client does: the caller sets a bound. Gives the socket back where nothing was read
/// from it.
pub(super) async fn shake(
    tls: &EdgeTls,
    socket: TcpStream,
) -> Result<(Stream, Option<Shown>), (Option<TcpStream>, Unopened)> {
    let mut first = [0];
    match socket.peek(&mut first).await {
        Ok(1) if first[0] != TLS_HANDSHAKE => Err((Some(socket), Unopened::NotTls)),
        Ok(_) => tls
            .accept(socket)
            .await
            .map_err(|error| (None, Unopened::Broken(error))),
        Err(error) => Err((None, Unopened::Broken(error))),
    }
}
