//! What the engine refuses of a request's framing, the edge refuses on each kind of listener: the cases of `cases/h1`
//! that are meant to smuggle, sent to the edge.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

#[path = "../../relay/tests/pair/authority.rs"]
#[allow(
    dead_code,
    reason = "one certificate of a server is all that is asked for"
)]
mod authority;
#[path = "h1/text.rs"]
#[allow(dead_code, reason = "the methods of answers are not asked for here")]
mod text;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use authority::Authority;
use base::{AddressRange, Refusal};
use net::tls::{CertificatePem, EdgeTls};
use net::{
    Body, CallerSaid, Drain, EdgeSettings, ForwardedField, Listener, ListenerSettings, Proxies,
    Request, Response, Service,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use text::Case;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::{LocalSet, spawn_local};
use tokio_rustls::TlsConnector;

/// Whom the proxies of these tests act for.
const CALLER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));
const V1: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 443\r\n";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc0\0\x02\x01\0\x50\x01\xbb";
const FORWARDED: &[u8] = b"Forwarded: for=192.0.2.7\r\n";

/// Reads each request whole, and notes who called.
#[derive(Default)]
struct Reads {
    callers: RefCell<BTreeSet<IpAddr>>,
}

impl Service for Reads {
    async fn call(&self, mut request: Request) -> Response {
        self.callers.borrow_mut().insert(request.peer.caller);
        match request.body().await {
            Ok(_) => Response::new(Body::Empty),
            Err(refusal) => self.refuse(&refusal),
        }
    }

    fn refuse(&self, refusal: &Refusal) -> Response {
        let response = http::Response::builder().status(refusal.code.status);
        response.body(Body::Empty).unwrap()
    }
}

trait ClientStream: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> ClientStream for S {}

/// How a client reaches a listener.
enum Way {
    Tcp(SocketAddr),
    Unix(PathBuf),
    Tls(SocketAddr, TlsConnector),
    /// With a header before all else.
    Proxy(SocketAddr, &'static [u8]),
    /// With a field in the first request.
    Forwarded(SocketAddr),
}

impl Way {
    async fn connect(&self) -> Box<dyn ClientStream> {
        let tcp = async |address: &SocketAddr| TcpStream::connect(address).await.unwrap();
        match self {
            Way::Tcp(address) | Way::Forwarded(address) => Box::new(tcp(address).await),
            Way::Unix(path) => Box::new(UnixStream::connect(path).await.unwrap()),
            Way::Tls(address, connector) => {
                let name = ServerName::try_from("localhost").unwrap();
                Box::new(connector.connect(name, tcp(address).await).await.unwrap())
            }
            Way::Proxy(address, header) => {
                let mut stream = tcp(address).await;
                stream.write_all(header).await.unwrap();
                Box::new(stream)
            }
        }
    }

    /// A case's bytes, as they come this way.
    fn bytes(&self, case: &Case) -> Vec<u8> {
        let mut bytes = case.parts().concat();
        if matches!(self, Way::Forwarded(_))
            && let Some(line) = memchr::memmem::find(&bytes, b" HTTP/1.1\r\n")
        {
            let after = line + b" HTTP/1.1\r\n".len();
            bytes.splice(after..after, FORWARDED.iter().copied());
        }
        bytes
    }

    /// The statuses of all answers.
    async fn statuses(&self, case: &Case) -> Vec<u16> {
        let mut stream = self.connect().await;
        // The edge may close before it has read all.
        let _ = stream.write_all(&self.bytes(case)).await;
        let _ = stream.shutdown().await;
        let mut answers = Vec::new();
        let _ = stream.read_to_end(&mut answers).await;
        let answers = String::from_utf8(answers).unwrap();
        let found = answers
            .match_indices("HTTP/1.")
            .map(|(at, _)| &answers[at + 9..at + 12]);
        let statuses = found.filter_map(|status| status.parse().ok());
        statuses.filter(|status| *status != 100).collect()
    }
}

/// What the engine tells before it refuses.
struct ToldOfRefusal {
    /// Whole requests that it took.
    taken: usize,
    status: u16,
    /// Whether it took a head and refused the body in chunks that follows.
    is_of_body: bool,
}

/// Nothing where the engine refuses no request.
fn told_of_refusal(case: &Case) -> Option<ToldOfRefusal> {
    let status = |line: &str| line.split(' ').next()?.parse::<u16>().ok();
    let lines: Vec<&str> = case.told.lines().collect();
    let end = lines.iter().position(|line| status(line).is_some())?;
    let is_request = |line: &str| line.contains(" origin of ") || line.contains(" absolute ");
    let heads = lines[..end].iter().filter(|line| is_request(line)).count();
    let last = lines[..end].iter().rposition(|line| is_request(line));
    // Of a body that is whole its bytes or trailers are told.
    let is_of_body = last.is_some_and(|last| {
        let of_body = |line: &&str| line.starts_with("  body ") || line.starts_with("  trailer ");
        lines[last].ends_with(" chunked") && !lines[last..end].iter().any(of_body)
    });
    Some(ToldOfRefusal {
        taken: heads - usize::from(is_of_body),
        status: status(lines[end])?,
        is_of_body,
    })
}

/// Whether the edge takes no request more than the engine, and then refuses as the engine does. What is wrong within
/// a body is 400 for the service that reads it.
fn is_right(told: &ToldOfRefusal, statuses: &[u16]) -> bool {
    let answered = statuses.iter().take_while(|status| **status == 200).count();
    let refusals = &statuses[answered..];
    let is_refused = refusals == [told.status] || told.is_of_body && refusals == [400];
    answered <= told.taken && is_refused
}

async fn check(way: Way) {
    let (mut refused, mut wrong) = (0, Vec::new());
    for (path, _, cases) in text::files() {
        let file = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if !matches!(file.as_str(), "request-smuggling" | "request-framing") {
            continue;
        }
        for case in cases {
            let Some(told) = told_of_refusal(&case) else {
                continue;
            };
            let statuses = way.statuses(&case).await;
            refused += 1;
            if !is_right(&told, &statuses) {
                let (taken, status, title) = (told.taken, told.status, &case.title);
                wrong.push(format!(
                    "{file}: {title}: {taken} taken, then {status}; the edge: {statuses:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(refused > 60, "{refused} cases");
}

/// Serves a listener, checks every case on the way to it, and says who called.
fn callers(listener: Listener, settings: ListenerSettings, way: Way) -> Vec<IpAddr> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().unwrap();
    let service = Rc::new(Reads::default());
    let test = async {
        let (bounds, shared) = (Rc::new(EdgeSettings::default()), Arc::default());
        let listeners = vec![(listener, Rc::new(settings))];
        let serving = net::serve(listeners, Rc::clone(&service), bounds, shared, Drain::new());
        spawn_local(serving);
        let bounded = tokio::time::timeout(Duration::from_secs(60), check(way)).await;
        bounded.expect("the edge answers in time");
    };
    LocalSet::new().block_on(&runtime, test);
    service.callers.take().into_iter().collect()
}

/// A listener on TCP, and its address.
fn tcp() -> (Listener, SocketAddr) {
    let listener = net::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    (Listener::Tcp(listener), address)
}

fn behind(said: CallerSaid) -> ListenerSettings {
    ListenerSettings {
        proxies: Some(Proxies {
            said,
            trusted: vec![AddressRange::parse("127.0.0.1").unwrap()],
            is_unix_trusted: false,
        }),
        ..ListenerSettings::default()
    }
}

fn connector(authority: &Authority) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap();
    roots.add(root).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

#[test]
fn what_the_engine_refuses_of_framing_is_refused_on_tcp() {
    let (listener, address) = tcp();
    let found = callers(listener, ListenerSettings::default(), Way::Tcp(address));
    assert_eq!(found, [Ipv4Addr::LOCALHOST]);
}

#[test]
fn it_is_refused_on_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weir.sock");
    let listener = Listener::unix(&path, 0o600).unwrap();
    let found = callers(listener, ListenerSettings::default(), Way::Unix(path));
    assert_eq!(found, [Ipv4Addr::LOCALHOST]);
}

#[test]
fn it_is_refused_within_tls() {
    let authority = Authority::new();
    let leaf = authority.server(&["localhost"]);
    let certificate = CertificatePem {
        chain: leaf.certificate.as_bytes(),
        key: leaf.key.as_bytes(),
    };
    let settings = ListenerSettings {
        tls: Some(Arc::new(EdgeTls::new(&[certificate], None).unwrap())),
        ..ListenerSettings::default()
    };
    let (listener, address) = tcp();
    let way = Way::Tls(address, connector(&authority));
    assert_eq!(callers(listener, settings, way), [Ipv4Addr::LOCALHOST]);
}

#[test]
fn it_is_refused_behind_a_proxy_header() {
    for header in [V1, V2] {
        let (listener, address) = tcp();
        let way = Way::Proxy(address, header);
        let found = callers(listener, behind(CallerSaid::Protocol), way);
        assert_eq!(found, [CALLER]);
    }
}

#[test]
fn it_is_refused_behind_a_proxy_that_sets_a_field() {
    let (listener, address) = tcp();
    let settings = behind(CallerSaid::Field(ForwardedField::Forwarded));
    let found = callers(listener, settings, Way::Forwarded(address));
    assert!(found.contains(&CALLER), "{found:?}");
}
