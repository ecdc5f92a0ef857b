//! What stands before HTTP on a listener of the edge: TLS, and what proxies say of whom they act for. With real sockets
//! and clients by rustls.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

#[path = "../../relay/tests/pair/authority.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod authority;

use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use authority::{Authority, Leaf};
use base::{AddressRange, Refusal};
use bytes::Bytes;
use net::mutual::CredentialsError;
use net::tls::{CertificatePem, ClientAsk, EdgeTls};
use net::{
    Body, CallerSaid, Drain, EdgeSettings, EdgeShared, ForwardedField, Listener, ListenerSettings,
    Proxies, Request, Response, Service,
};
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, NamedGroup, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::{LocalSet, spawn_local};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const GET: &str = "GET / HTTP/1.1\r\nhost: localhost\r\n";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc0\0\x02\x01\0\x50\x01\xbb";

/// TLS 1.2 and 1.3, each alone.
static BOTH_VERSIONS: [&[&SupportedProtocolVersion]; 2] =
    [&[&rustls::version::TLS12], &[&rustls::version::TLS13]];

/// Answers with who calls.
struct Who;

impl Service for Who {
    async fn call(&self, request: Request) -> Response {
        let peer = &request.peer;
        let shown = if peer.shown.is_some() { " shown" } else { "" };
        let tls = if peer.is_tls { " tls" } else { "" };
        Response::new(Body::Full(Bytes::from(format!(
            "{}{tls}{shown}",
            peer.caller
        ))))
    }

    fn refuse(&self, refusal: &Refusal) -> Response {
        net::refused(refusal, "text/plain", refusal.code.name.to_owned())
    }
}

struct Edge {
    address: SocketAddr,
    shared: Arc<EdgeShared>,
    drain: Drain,
}

/// The bounds of these tests: a head has half a second.
fn bounds() -> EdgeSettings {
    EdgeSettings {
        head_ms: 500,
        strangers_max: 2,
        ..EdgeSettings::default()
    }
}

fn serve(listener: Listener, settings: ListenerSettings) -> (Arc<EdgeShared>, Drain) {
    let (shared, drain) = (Arc::<EdgeShared>::default(), Drain::new());
    let listeners = vec![(listener, Rc::new(settings))];
    let bounds = Rc::new(bounds());
    let serving = net::serve(
        listeners,
        Rc::new(Who),
        bounds,
        Arc::clone(&shared),
        drain.clone(),
    );
    spawn_local(async move { serving.await.unwrap() });
    (shared, drain)
}

fn start(settings: ListenerSettings) -> Edge {
    let listener = net::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let (shared, drain) = serve(Listener::Tcp(listener), settings);
    Edge {
        address,
        shared,
        drain,
    }
}

/// A listener behind proxies at this range.
fn behind(said: CallerSaid, trusted: &str) -> ListenerSettings {
    ListenerSettings {
        proxies: Some(Proxies {
            said,
            trusted: vec![AddressRange::parse(trusted).unwrap()],
            is_unix_trusted: true,
        }),
        ..ListenerSettings::default()
    }
}

impl Edge {
    /// All that is answered to these bytes, followed by the end of what is sent.
    async fn all(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes.as_ref()).await.unwrap();
        read(&mut stream).await
    }

    /// Waits until so many have come, and nobody is connected any more.
    async fn at_rest(&self, accepted: u64) {
        while self.shared.accepted() < accepted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        while self.shared.connections() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Reads to the end of the connection.
async fn read(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

/// A request that asks for the end of its connection.
fn last(fields: &str) -> String {
    format!("{GET}{fields}connection: close\r\n\r\n")
}

fn run(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let bounded = tokio::time::timeout(Duration::from_secs(60), test).await;
        bounded.expect("the test ends in time");
    });
}

fn ends(answer: &str, status: &str, body: &str) {
    let is_right = answer.starts_with(&format!("HTTP/1.1 {status} "))
        && answer.ends_with(&format!("\r\n\r\n{body}"));
    assert!(is_right, "{answer}");
}

#[test]
fn a_proxy_header_says_who_calls() {
    run(async {
        let edge = start(behind(CallerSaid::Protocol, "127.0.0.0/8"));
        let v1 = format!("PROXY TCP4 192.0.2.7 192.0.2.1 4711 443\r\n{}", last(""));
        ends(&edge.all(&v1).await, "200", "192.0.2.7");
        let v2 = [V2, last("").as_bytes()].concat();
        ends(&edge.all(&v2).await, "200", "192.0.2.7");
        let own = format!("PROXY UNKNOWN\r\n{}", last(""));
        ends(&edge.all(&own).await, "200", "127.0.0.1");
        // In pieces of one byte, none of which is read too far.
        for whole in [v1.as_bytes(), &v2] {
            let mut stream = TcpStream::connect(edge.address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            for byte in whole {
                stream.write_all(&[*byte]).await.unwrap();
                tokio::task::yield_now().await;
            }
            ends(&read(&mut stream).await, "200", "192.0.2.7");
        }
        edge.at_rest(0).await;
        assert_eq!(edge.shared.unopened(), 0);
    });
}

#[test]
fn a_trusted_proxy_has_to_send_a_good_header_in_time() {
    run(async {
        let edge = start(behind(CallerSaid::Protocol, "127.0.0.0/8"));
        ends(&edge.all(last("")).await, "400", "http.proxy");
        let bad = format!("PROXY TCP4 192.0.2.7\r\n{}", last(""));
        ends(&edge.all(bad).await, "400", "http.proxy");
        assert_eq!(edge.all("PROXY TCP4 192.").await, "", "it came too late");
        let mut gone = TcpStream::connect(edge.address).await.unwrap();
        gone.write_all(b"PROXY").await.unwrap();
        drop(gone);
        edge.at_rest(4).await;
        assert_eq!(edge.shared.unopened(), 4);
    });
}

#[test]
fn a_header_of_whoever_is_not_believed_is_refused() {
    run(async {
        for settings in [
            ListenerSettings::default(),
            behind(CallerSaid::Protocol, "192.0.2.0/24"),
            behind(CallerSaid::Field(ForwardedField::Forwarded), "127.0.0.1"),
        ] {
            let edge = start(settings);
            let v1 = format!("PROXY TCP4 192.0.2.7 192.0.2.1 4711 443\r\n{}", last(""));
            ends(&edge.all(v1).await, "400", "http.proxy");
            let v2 = [V2, last("").as_bytes()].concat();
            ends(&edge.all(v2).await, "400", "http.proxy");
            ends(&edge.all(last("")).await, "200", "127.0.0.1");
            edge.at_rest(0).await;
        }
    });
}

#[test]
fn the_callers_of_one_proxy_have_bounds_of_their_own() {
    run(async {
        let edge = start(behind(CallerSaid::Protocol, "127.0.0.0/8"));
        let mut open = Vec::new();
        for caller in ["192.0.2.7", "192.0.2.8", "192.0.2.7"] {
            let mut stream = TcpStream::connect(edge.address).await.unwrap();
            let header = format!("PROXY TCP4 {caller} 192.0.2.1 4711 443\r\n");
            stream.write_all(header.as_bytes()).await.unwrap();
            open.push(stream);
        }
        while edge.shared.accepted() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        // A third of one caller takes the place of its oldest that is silent, and of no other's.
        let header = "PROXY TCP4 192.0.2.7 192.0.2.1 4711 443\r\n";
        ends(
            &edge.all(format!("{header}{}", last(""))).await,
            "200",
            "192.0.2.7",
        );
        assert_eq!(open[0].read(&mut [0]).await.unwrap(), 0);
        let other = last("");
        open[1].write_all(other.as_bytes()).await.unwrap();
        ends(&read(&mut open[1]).await, "200", "192.0.2.8");
    });
}

#[test]
fn a_field_says_who_calls_of_each_request() {
    run(async {
        let forwarded = CallerSaid::Field(ForwardedField::Forwarded);
        let edge = start(behind(forwarded, "127.0.0.1"));
        let two = format!("{GET}forwarded: for=192.0.2.7\r\n\r\n{}", last(""));
        let answers = edge.all(two).await;
        assert!(
            answers.contains("\r\n\r\n192.0.2.7HTTP/1.1 200"),
            "{answers}"
        );
        ends(&answers, "200", "127.0.0.1");
        let made_up = last("x-forwarded-for: 1.1.1.1\r\nforwarded: for=1.1.1.1, for=192.0.2.7\r\n");
        ends(&edge.all(made_up).await, "200", "192.0.2.7");
        let older = start(behind(
            CallerSaid::Field(ForwardedField::XForwardedFor),
            "127.0.0.1",
        ));
        let both = last("forwarded: for=1.1.1.1\r\nx-forwarded-for: 192.0.2.7\r\n");
        ends(&older.all(both).await, "200", "192.0.2.7");
        let untrusted = start(behind(forwarded, "192.0.2.0/24"));
        let from = untrusted.all(last("forwarded: for=1.1.1.1\r\n")).await;
        ends(&from, "200", "127.0.0.1");
    });
}

#[test]
fn a_unix_socket_is_a_listener_too() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.sock");
        let listener = Listener::unix(&path, 0o660).unwrap();
        let forwarded = CallerSaid::Field(ForwardedField::Forwarded);
        let (_, drain) = serve(listener, behind(forwarded, "127.0.0.1"));
        for (fields, caller) in [
            ("", "127.0.0.1"),
            ("forwarded: for=192.0.2.7\r\n", "192.0.2.7"),
        ] {
            let mut stream = UnixStream::connect(&path).await.unwrap();
            stream.write_all(last(fields).as_bytes()).await.unwrap();
            ends(&read(&mut stream).await, "200", caller);
        }
        drain.start();
    });
}

fn pem(leaf: &Leaf) -> CertificatePem<'_> {
    CertificatePem {
        chain: leaf.certificate.as_bytes(),
        key: leaf.key.as_bytes(),
    }
}

fn secured(tls: EdgeTls) -> (Arc<EdgeTls>, Edge) {
    let tls = Arc::new(tls);
    let settings = ListenerSettings {
        tls: Some(Arc::clone(&tls)),
        ..ListenerSettings::default()
    };
    (tls, start(settings))
}

/// How a client shakes hands.
struct Client<'a> {
    authority: &'a Authority,
    groups: Vec<&'static dyn rustls::crypto::SupportedKxGroup>,
    versions: &'static [&'static SupportedProtocolVersion],
    shows: Option<&'a Leaf>,
    protocols: Vec<Vec<u8>>,
}

impl<'a> Client<'a> {
    fn of(authority: &'a Authority) -> Client<'a> {
        Client {
            authority,
            groups: vec![kx_group::X25519MLKEM768, kx_group::X25519],
            versions: rustls::ALL_VERSIONS,
            shows: None,
            protocols: Vec::new(),
        }
    }

    fn config(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(self.authority.pem.as_bytes()).unwrap();
        roots.add(authority).unwrap();
        let provider = rustls::crypto::CryptoProvider {
            kx_groups: self.groups.clone(),
            ..default_provider()
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(self.versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match self.shows {
            None => builder.with_no_client_auth(),
            Some(leaf) => {
                let chain = CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![chain], key).unwrap()
            }
        };
        config.alpn_protocols = self.protocols.clone();
        config
    }

    async fn connect(&self, edge: &Edge, name: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(edge.address).await?;
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let connector = TlsConnector::from(Arc::new(self.config()));
        connector.connect(name, stream).await
    }

    /// What is answered to a request, or why there is no answer.
    async fn ask(&self, edge: &Edge, name: &str) -> std::io::Result<String> {
        let mut stream = self.connect(edge, name).await?;
        stream.write_all(last("").as_bytes()).await?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await?;
        Ok(String::from_utf8(bytes).unwrap())
    }
}

#[test]
fn tls_is_spoken_in_both_versions_and_by_the_strongest_group() {
    run(async {
        let authority = Authority::new();
        let leaf = authority.server(&["localhost"]);
        let (_, edge) = secured(EdgeTls::new(&[pem(&leaf)], None).unwrap());
        for versions in BOTH_VERSIONS {
            let client = Client {
                versions,
                ..Client::of(&authority)
            };
            ends(
                &client.ask(&edge, "localhost").await.unwrap(),
                "200",
                "127.0.0.1 tls",
            );
        }
        // As browsers offer it.
        let stream = Client::of(&authority)
            .connect(&edge, "localhost")
            .await
            .unwrap();
        let group = stream.get_ref().1.negotiated_key_exchange_group().unwrap();
        assert_eq!(group.name(), NamedGroup::X25519MLKEM768);
        drop(stream);
        for group in [
            kx_group::SECP256R1,
            kx_group::SECP384R1,
            kx_group::X25519MLKEM768,
        ] {
            let client = Client {
                groups: vec![group],
                ..Client::of(&authority)
            };
            client.ask(&edge, "localhost").await.unwrap();
        }
        let other = Client {
            protocols: vec![b"h2".to_vec()],
            ..Client::of(&authority)
        };
        assert!(other.ask(&edge, "localhost").await.is_err());
        edge.at_rest(0).await;
        assert_eq!(edge.shared.unopened(), 1);
    });
}

#[test]
fn a_certificate_is_chosen_by_name() {
    run(async {
        let authority = Authority::new();
        let exact = authority.server(&["localhost", "a.example"]);
        let wild = authority.server(&["*.b.example"]);
        let tls = EdgeTls::new(&[pem(&exact), pem(&wild)], None).unwrap();
        let (_, edge) = secured(tls);
        for name in ["localhost", "a.example", "x.b.example"] {
            let answer = Client::of(&authority).ask(&edge, name).await;
            ends(&answer.unwrap(), "200", "127.0.0.1 tls");
        }
        // Who asks for another name is shown the first, and takes it for what it is.
        for name in ["b.example", "c.example", "127.0.0.1"] {
            assert!(
                Client::of(&authority).ask(&edge, name).await.is_err(),
                "{name}"
            );
        }
        edge.at_rest(0).await;
    });
}

#[test]
fn certificates_are_renewed_without_a_dropped_connection() {
    run(async {
        let (old, new) = (Authority::new(), Authority::new());
        let (before, after) = (old.server(&["localhost"]), new.server(&["localhost"]));
        let (tls, edge) = secured(EdgeTls::new(&[pem(&before)], None).unwrap());
        let mut open = Client::of(&old).connect(&edge, "localhost").await.unwrap();
        let mixed = CertificatePem {
            chain: after.certificate.as_bytes(),
            key: before.key.as_bytes(),
        };
        let problem = tls.prepare(&[mixed], None).err().unwrap();
        assert_eq!(problem.certificate, Some(0));
        assert!(
            matches!(problem.kind, CredentialsError::Key(_)),
            "{problem}"
        );
        Client::of(&old).ask(&edge, "localhost").await.unwrap();
        let take = tls.prepare(&[pem(&after)], None).unwrap();
        Client::of(&old).ask(&edge, "localhost").await.unwrap();
        take();
        assert!(Client::of(&old).ask(&edge, "localhost").await.is_err());
        Client::of(&new).ask(&edge, "localhost").await.unwrap();
        open.write_all(last("").as_bytes()).await.unwrap();
        ends(&read(&mut open).await, "200", "127.0.0.1 tls");
    });
}

#[test]
fn certificates_that_cannot_be_used_are_said() {
    let authority = Authority::new();
    let (one, other) = (
        authority.server(&["a.example"]),
        authority.server(&["b.example"]),
    );
    let say = |certificate: CertificatePem<'_>| {
        let made = EdgeTls::new(&[pem(&one), certificate], None);
        made.unwrap_err().to_string()
    };
    let mixed = CertificatePem {
        chain: one.certificate.as_bytes(),
        key: other.key.as_bytes(),
    };
    assert!(
        say(mixed).starts_with("certificates[1]: the key: "),
        "{}",
        say(mixed)
    );
    for (chain, key, start) in [
        ("", &*one.key, "certificates[1]: the certificate: "),
        (&*one.key, &*one.key, "certificates[1]: the certificate: "),
        (&*one.certificate, "", "certificates[1]: the key: "),
        (
            &*one.certificate,
            &*one.certificate,
            "certificates[1]: the key: ",
        ),
    ] {
        let said = say(CertificatePem {
            chain: chain.as_bytes(),
            key: key.as_bytes(),
        });
        assert!(said.starts_with(start), "{said}");
    }
    let ask = ClientAsk {
        authorities: b"none",
        revoked: None,
        is_required: true,
    };
    let said = EdgeTls::new(&[pem(&one)], Some(ask))
        .unwrap_err()
        .to_string();
    assert!(said.starts_with("clients: the authorities: "), "{said}");
}

#[test]
fn clients_show_certificates_where_they_are_asked_for() {
    run(async {
        let (authority, stranger) = (Authority::new(), Authority::new());
        let server = authority.server(&["localhost"]);
        let (good, gone) = (authority.client(&["app"]), authority.client(&["gone"]));
        let (expired, foreign) = (authority.expired(&["app"]), stranger.client(&["app"]));
        let lists = authority.revoked(&[&gone], 2090);
        let ask = |is_required| ClientAsk {
            authorities: authority.pem.as_bytes(),
            revoked: Some(lists.as_bytes()),
            is_required,
        };
        for is_required in [true, false] {
            let tls = EdgeTls::new(&[pem(&server)], Some(ask(is_required))).unwrap();
            let (_, edge) = secured(tls);
            let by = async |shows| {
                let client = Client {
                    shows,
                    ..Client::of(&authority)
                };
                client.ask(&edge, "localhost").await
            };
            let answer = by(Some(&good)).await.unwrap();
            ends(&answer, "200", "127.0.0.1 tls shown");
            for bad in [&gone, &expired, &foreign] {
                assert!(by(Some(bad)).await.is_err());
            }
            match is_required {
                true => assert!(by(None).await.is_err()),
                false => ends(&by(None).await.unwrap(), "200", "127.0.0.1 tls"),
            }
            edge.at_rest(0).await;
        }
    });
}

#[test]
fn who_does_not_speak_tls_is_told_so_and_slow_handshakes_end() {
    run(async {
        let authority = Authority::new();
        let leaf = authority.server(&["localhost"]);
        let (_, edge) = secured(EdgeTls::new(&[pem(&leaf)], None).unwrap());
        ends(&edge.all(last("")).await, "400", "http.tls");
        // The beginning of a handshake, and nothing.
        assert_eq!(edge.all(b"\x16\x03\x01\x02\0\x01").await, "");
        assert_eq!(edge.all(b"").await, "");
        edge.at_rest(0).await;
        assert_eq!(edge.shared.unopened(), 3);
        // Handshakes that wait give way to one that goes on.
        let first = TcpStream::connect(edge.address).await.unwrap();
        let _second = TcpStream::connect(edge.address).await.unwrap();
        while edge.shared.connections() < 2 {
            tokio::task::yield_now().await;
        }
        Client::of(&authority)
            .ask(&edge, "localhost")
            .await
            .unwrap();
        assert_eq!(edge.shared.closed_silent(), 1);
        drop(first);
        edge.drain.start();
    });
}

#[test]
fn a_drain_does_not_wait_for_handshakes() {
    run(async {
        let authority = Authority::new();
        let leaf = authority.server(&["localhost"]);
        let (_, edge) = secured(EdgeTls::new(&[pem(&leaf)], None).unwrap());
        let _silent = TcpStream::connect(edge.address).await.unwrap();
        let mut idle = Client::of(&authority)
            .connect(&edge, "localhost")
            .await
            .unwrap();
        while edge.shared.connections() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let before = tokio::time::Instant::now();
        edge.drain.start();
        edge.at_rest(2).await;
        // Less than the ten seconds that calls in flight would have.
        assert!(before.elapsed() < Duration::from_secs(5));
        let mut rest = Vec::new();
        // It ended without a word of TLS, as an idle connection may.
        let _ = idle.read_to_end(&mut rest).await;
        assert!(rest.is_empty());
    });
}

#[test]
fn tls_follows_a_proxy_header() {
    run(async {
        let authority = Authority::new();
        let leaf = authority.server(&["localhost"]);
        let edge = start(ListenerSettings {
            tls: Some(Arc::new(EdgeTls::new(&[pem(&leaf)], None).unwrap())),
            ..behind(CallerSaid::Protocol, "127.0.0.1")
        });
        let mut stream = TcpStream::connect(edge.address).await.unwrap();
        stream.write_all(V2).await.unwrap();
        let connector = TlsConnector::from(Arc::new(Client::of(&authority).config()));
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = connector.connect(name, stream).await.unwrap();
        stream.write_all(last("").as_bytes()).await.unwrap();
        ends(&read(&mut stream).await, "200", "192.0.2.7 tls");
    });
}
