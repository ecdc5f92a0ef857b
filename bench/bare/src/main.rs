//! The bare proxy of `make bench`: what it costs to carry a request with hyper, and nothing else.
//!
//! It exists so that what weir judges, scans and records can be told from what any proxy in Rust costs. Each request
//! goes to the one server that the first argument names (`127.0.0.1:PORT`), with its fields and its body as it comes, and
//! each frame of the answer goes back as it comes. One thread for each core, each with a listener, a runtime and kept
//! connections of its own, as weir has. It reads no body, knows no key, judges nothing and writes no log. A server that
//! cannot be reached ends the client's connection, so that a wrong benchmark fails.

use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, Uri, Version};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::runtime::Builder;

/// Connections that the kernel holds for one listener until they are accepted.
const BACKLOG: i32 = 1_024;
/// Idle connections to the server that a thread keeps, as many as nginx keeps in the same benchmark.
const IDLE_MAX: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "the argument is the server's address, such as 127.0.0.1:8900";
    let server: SocketAddr = std::env::args().nth(1).ok_or(usage)?.parse()?;
    let threads = std::thread::available_parallelism()?.get();
    let first = listen(0)?;
    let address = first.local_addr()?;
    let mut listeners = vec![first];
    for _ in 1..threads {
        listeners.push(listen(address.port())?);
    }
    println!("listening on {}", address.port());
    let running: Vec<_> = listeners
        .into_iter()
        .map(|listener| std::thread::spawn(move || serve(listener, server)))
        .collect();
    for thread in running {
        // A thread that panicked has ended the process already.
        let _ = thread.join();
    }
    Ok(())
}

/// A listener that shares its port with those of the other threads.
fn listen(port: u16) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn serve(listener: TcpListener, server: SocketAddr) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client: Client<HttpConnector, Incoming> = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(IDLE_MAX)
            .build(connector);
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let client = client.clone();
            let carry = service_fn(move |request| carry(client.clone(), server, request));
            tokio::spawn(async move {
                let connection = hyper::server::conn::http1::Builder::new();
                // How a connection ends is its client's affair.
                let _ = connection
                    .serve_connection(TokioIo::new(stream), carry)
                    .await;
            });
        }
    })
}

/// Carries a request to the server, and its answer back.
async fn carry(
    client: Client<HttpConnector, Incoming>,
    server: SocketAddr,
    mut request: Request<Incoming>,
) -> Result<Response<Incoming>, Box<dyn Error + Send + Sync>> {
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    *request.uri_mut() = Uri::try_from(format!("http://{server}{path}"))?;
    *request.version_mut() = Version::HTTP_11;
    let host = HeaderValue::try_from(server.to_string())?;
    request.headers_mut().insert(HOST, host);
    // What is between two hops stays there (RFC 9110, section 7.6.1).
    request.headers_mut().remove(CONNECTION);
    let mut answer = client.request(request).await?;
    answer.headers_mut().remove(CONNECTION);
    Ok(answer)
}
