//! The server over streamable HTTP, for clients of this machine.
//!
//! It listens on a loopback address only and asks nobody for a key: what lets other machines in is the gateway
//! in front of it. Requests whose Host or Origin is another site's are refused, so that no web page calls it.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::limit;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::Service;
use super::desk::Desk;
use super::session::Server;

/// Where it answers.
const PATH: &str = "/mcp";
/// Connections at once; more wait in the kernel.
const CONNECTIONS_MAX: usize = 512;

/// Listens where it may: on a loopback address.
///
/// # Errors
///
/// Another address, or one that is in use.
pub fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    if !address.ip().is_loopback() {
        let what = format!(
            "{address} can be reached from elsewhere; listen on 127.0.0.1 and let weir serve it to others"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves until the process ends.
///
/// # Errors
///
/// Where the listener fails.
pub async fn serve<S: Service>(
    listener: std::net::TcpListener,
    desk: Desk<S>,
    compat: bool,
    actor: &str,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    // A page of ours would have one of these; every other site is refused.
    let port = listener.local_addr()?.port();
    let own = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("http://{host}:{port}"));
    let config = StreamableHttpServerConfig::default()
        .enforce_origin_validation()
        .with_allowed_origins(own)
        .with_max_request_body_bytes(limit::BODY_BYTES_DEFAULT);
    let first = Server::new(desk, compat, actor);
    let service = StreamableHttpService::new(
        move || Ok(first.another()),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = Arc::clone(&connections).acquire_owned().await;
        let (stream, _) = listener.accept().await?;
        let _ = stream.set_nodelay(true);
        let service = service.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let service = service.clone();
                async move {
                    if request.uri().path() != PATH {
                        return Ok::<_, Infallible>(nothing_here());
                    }
                    Ok(service.handle(request).await)
                }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_millis(limit::HEAD_MS_DEFAULT))
                .max_buf_size(limit::HEAD_BYTES_MAX)
                .serve_connection(TokioIo::new(stream), answer);
            // One that breaks off has nobody to be told.
            let _ = connection.await;
            drop(permit);
        });
    }
}

type Body = http_body_util::combinators::BoxBody<bytes::Bytes, Infallible>;

fn nothing_here() -> hyper::Response<Body> {
    use http_body_util::BodyExt;
    let text = format!("the server answers at {PATH}\n");
    let mut response = hyper::Response::new(http_body_util::Full::from(text).boxed());
    *response.status_mut() = hyper::StatusCode::NOT_FOUND;
    response
}
