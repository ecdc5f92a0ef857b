//! A new connection to a target: name, addresses, permit, TCP, TLS.
//!
//! The permit is asked for each address that the name resolved to, and the connection is made to exactly the
//! address it said yes to (I-04): the name is never resolved a second time.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::{Permit, Refusal, limit};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::SendError;
use super::targets::DialTarget;

/// What sends requests over one connection.
pub(super) type RequestSender = SendRequest<Full<Bytes>>;

/// Dials a target, within `DIAL_MS_MAX` and the deadline. `open` makes the connection to one address.
pub(crate) async fn dial<P: Permit, T>(
    target: &DialTarget,
    permit: &P,
    deadline: Instant,
    open: impl AsyncFn(&DialTarget, SocketAddr) -> Result<T, String>,
) -> Result<(T, IpAddr), SendError> {
    let dial_deadline = Instant::now() + Duration::from_millis(limit::DIAL_MS_MAX);
    let until = dial_deadline.min(deadline);
    let late = if deadline < dial_deadline {
        SendError::Slow
    } else {
        SendError::Unreachable(format!("no connection within {} ms", limit::DIAL_MS_MAX))
    };
    tokio::time::timeout_at(until, connect(target, permit, until, open))
        .await
        .unwrap_or(Err(late))
}

async fn connect<P: Permit, T>(
    target: &DialTarget,
    permit: &P,
    until: Instant,
    open: impl AsyncFn(&DialTarget, SocketAddr) -> Result<T, String>,
) -> Result<(T, IpAddr), SendError> {
    let addresses = judge(resolve(target).await?, permit).map_err(SendError::Refused)?;
    let mut failure = String::new();
    for (tried, address) in addresses.iter().enumerate() {
        // Each address has its share of what is left, so that a silent one cannot use up all of it.
        let left = until.saturating_duration_since(Instant::now());
        let share = left / (addresses.len() - tried) as u32;
        match tokio::time::timeout(share, open(target, *address)).await {
            Ok(Ok(opened)) => return Ok((opened, address.ip())),
            Ok(Err(error)) => failure = format!("{address}: {error}"),
            Err(_) => failure = format!("{address}: no answer"),
        }
    }
    Err(SendError::Unreachable(failure))
}

async fn resolve(target: &DialTarget) -> Result<Vec<SocketAddr>, SendError> {
    let (host, port) = (target.endpoint.host.as_str(), target.endpoint.port);
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let found = tokio::net::lookup_host((host, port)).await;
    let found = found.map_err(|error| SendError::Unreachable(format!("{host}: {error}")))?;
    let addresses: Vec<_> = found.take(limit::DIAL_ADDRESSES_MAX).collect();
    if addresses.is_empty() {
        return Err(SendError::Unreachable(format!("{host}: no address")));
    }
    Ok(addresses)
}

/// The addresses that the permit allows; if there is none, its reason.
fn judge<P: Permit>(addresses: Vec<SocketAddr>, permit: &P) -> Result<Vec<SocketAddr>, Refusal> {
    let mut allowed = Vec::with_capacity(addresses.len());
    let mut refusal = None;
    for address in addresses {
        match permit.dial(address.ip()) {
            Ok(()) => allowed.push(address),
            Err(no) => refusal = refusal.or(Some(no)),
        }
    }
    match refusal {
        Some(refusal) if allowed.is_empty() => Err(refusal),
        _ => Ok(allowed),
    }
}

/// Connects to one address, for hyper.
pub(super) async fn open(
    target: &DialTarget,
    address: SocketAddr,
) -> Result<RequestSender, String> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| error.to_string())?;
    stream
        .set_nodelay(true)
        .map_err(|error| error.to_string())?;
    match &target.tls {
        None => speak(TokioIo::new(stream)).await,
        Some(tls) => {
            let connector = TlsConnector::from(tls.config());
            let stream = connector.connect(tls.server.clone(), stream).await;
            speak(TokioIo::new(
                stream.map_err(|error| format!("TLS: {error}"))?,
            ))
            .await
        }
    }
}

async fn speak<T>(io: T) -> Result<RequestSender, String>
where
    T: hyper::rt::Read + hyper::rt::Write + Unpin + 'static,
{
    let mut builder = http1::Builder::new();
    builder.max_header_size(limit::HEAD_BYTES_MAX);
    let (sender, connection) = builder
        .handshake(io)
        .await
        .map_err(|error| error.to_string())?;
    spawn_local(async move {
        // Whoever waits for an answer is told the error by hyper; nobody else needs it.
        if let Err(error) = connection.await {
            tracing::debug!(target: "upstream", %error, "a connection broke");
        }
    });
    Ok(sender)
}
