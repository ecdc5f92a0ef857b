//! The transport `mtls`: who may speak, what passes, what is refused, and keys that change, with clients that are ours
//! and clients that are not.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test has files, sockets and programs of its own"
)]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "pair/rig.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod rig;

#[path = "pair/authority.rs"]
mod authority;
#[path = "pair/cases.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod cases;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use authority::{Authority, Leaf};
use cases::{REQUESTS, cases};
use net::mutual::{Credentials, MutualClient};
use relay::{Inbound, InboundSettings, Mutual, Outbound, OutboundSettings, Problem, To};
use rig::*;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const APP: &str = "app.example";
/// An origin that is never asked.
const NOWHERE: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9));

fn credentials(leaf: &Leaf, authority: &Authority) -> Credentials {
    let [certificate, key, ca] = [&leaf.certificate, &leaf.key, &authority.pem];
    Credentials::new(certificate.as_bytes(), key.as_bytes(), ca.as_bytes()).unwrap()
}

/// An inbound that takes `app.example` and `other.example`, by certificates of this authority.
fn inbound_by(authority: &Authority, origin: SocketAddr) -> InboundSettings {
    let own = authority.server(&["localhost", "127.0.0.1"]);
    let mut settings = inbound_settings(origin);
    settings.identities.clear();
    settings.peers.clear();
    settings.mutual = Some(Mutual {
        credentials: credentials(&own, authority),
        peers: vec![
            (agent("app"), APP.to_owned()),
            (agent("other"), "other.example".to_owned()),
        ],
    });
    settings
}

/// An outbound that shows this certificate.
fn outbound_by(inbound: SocketAddr, client: Arc<MutualClient>) -> OutboundSettings {
    let mut settings = outbound_settings(inbound);
    settings.peers.clear();
    let mut endpoint = net::Endpoint::parse(&format!("https://{inbound}")).unwrap();
    endpoint.mutual = Some(client);
    settings.plain = vec![(name("peer"), endpoint)];
    settings.routes = everything_to(To::Plain(name("peer")));
    settings
}

struct Pair {
    authority: Authority,
    clock: Arc<Shifted>,
    client: Arc<MutualClient>,
    inbound: Serving<Inbound>,
    outbound: Serving<Outbound>,
}

fn pair(origin: &Origin) -> Pair {
    let (authority, clock) = (Authority::new(), Shifted::new());
    // No two seconds are waited for: nothing can be replayed.
    let settings = inbound_by(&authority, origin.address);
    let inbound = inbound_at(settings, &clock, 1, anywhere());
    assert!(inbound.relay.is_ready());
    let own = credentials(&authority.client(&[APP]), &authority);
    let client = Arc::new(MutualClient::new(&own).unwrap());
    let outbound = outbound(outbound_by(inbound.address, Arc::clone(&client)), &clock);
    Pair {
        authority,
        clock,
        client,
        inbound,
        outbound,
    }
}

fn refusal(message: &Message) -> (u16, &str) {
    (
        message.status(),
        message.field("weir-refusal").unwrap_or_default(),
    )
}

#[test]
fn every_form_passes_and_the_other_side_knows_who() {
    let origin = Origin::echo();
    let pair = pair(&origin);
    let mut line = Line::to(pair.outbound.address);
    for bytes in [0, 1, 10_240, 65_536, 1 << 20, 5 << 20] {
        let body: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        let answer = line.ask(&request("POST", "/x?y=%2F", &body)).unwrap();
        assert!(answer.status() == 200 && answer.body == body, "{bytes}");
        assert_eq!(answer.field("x-path"), Some("/x?y=%2F"));
    }
    let head = line.ask(&request("HEAD", "/x", b"")).unwrap();
    assert_eq!(
        (head.status(), head.field("content-length")),
        (200, Some("0"))
    );
    let chunked =
        b"POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n4\r\nwire\r\n0\r\n\r\n";
    assert_eq!(line.ask(chunked).unwrap().body, b"wire");
    let upgrade = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
    assert_eq!(line.ask(upgrade).unwrap().status(), 501);
    assert!(comes(|| pair.inbound.relay.counters().completed == 8));
    let counters = pair.inbound.relay.counters();
    assert_eq!((counters.passages, counters.completed), (8, 8));
    // One connection, shaken once: it is used again.
    assert_eq!((counters.handshakes, counters.handshakes_failed), (1, 0));
    assert_eq!(pair.outbound.relay.counters().passages, 8);
    let records = pair.inbound.kept.all().join("\n");
    assert!(records.contains("\"app\""), "{records}");
}

#[test]
fn the_path_sees_nothing() {
    let origin = Origin::echo();
    let (authority, clock) = (Authority::new(), Shifted::new());
    let inbound = inbound_at(
        inbound_by(&authority, origin.address),
        &clock,
        1,
        anywhere(),
    );
    let middle = Middle::new(inbound.address, Arc::new(|_, _| true));
    let own = credentials(&authority.client(&["canary-name.example", APP]), &authority);
    let client = Arc::new(MutualClient::new(&own).unwrap());
    let outbound = outbound(outbound_by(middle.address, client), &clock);
    let answer = Line::to(outbound.address)
        .ask(&request("POST", "/canary", b"canary"))
        .unwrap();
    assert_eq!(
        (answer.status(), answer.body.as_slice()),
        (200, &b"canary"[..])
    );
    let captured = middle.captured.lock().unwrap();
    assert!(captured.len() > 3_000);
    assert!(!captured.windows(6).any(|bytes| bytes == b"canary"));
}

#[test]
fn a_changed_byte_ends_the_connection_and_nothing_runs_twice() {
    let ran = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&ran);
    let origin = Origin::new(move |mut head, line| {
        line.body(&mut head)?;
        *counted.lock().unwrap() += 1;
        line.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
    });
    let (authority, clock) = (Authority::new(), Shifted::new());
    let inbound = inbound_at(
        inbound_by(&authority, origin.address),
        &clock,
        1,
        anywhere(),
    );
    let armed = Arc::new(AtomicBool::new(false));
    let arm = Arc::clone(&armed);
    let middle = Middle::new(
        inbound.address,
        Arc::new(move |toward, bytes| {
            if toward == Toward::Inbound && arm.swap(false, Ordering::SeqCst) {
                let last = bytes.len() - 1;
                bytes[last] ^= 1;
            }
            true
        }),
    );
    let own = credentials(&authority.client(&[APP]), &authority);
    let client = Arc::new(MutualClient::new(&own).unwrap());
    let outbound = outbound(outbound_by(middle.address, client), &clock);
    let mut line = Line::to(outbound.address);
    assert_eq!(line.ask(&request("POST", "/", b"x")).unwrap().status(), 200);
    armed.store(true, Ordering::SeqCst);
    let answer = line.ask(&request("POST", "/", b"x")).unwrap();
    assert_eq!(refusal(&answer), (502, "relay.maybe_executed"));
    armed.store(true, Ordering::SeqCst);
    let answer = line.ask(&request("GET", "/", b"")).unwrap();
    // It met a new connection's first byte, or a request's: neither was executed.
    assert!(
        matches!(
            refusal(&answer),
            (503, "relay.down") | (502, "relay.failed")
        ),
        "{answer:?}"
    );
    assert_eq!(*ran.lock().unwrap(), 1);
    assert_eq!(line.ask(&request("POST", "/", b"x")).unwrap().status(), 200);
}

/// A client that is none of ours: rustls with its defaults, or what it is told.
fn foreign(
    inbound: SocketAddr,
    authority: &Authority,
    own: Option<&Leaf>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let config = match own {
        Some(own) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap(),
            )
            .unwrap(),
        None => builder.with_no_client_auth(),
    };
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(inbound).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    StreamOwned::new(
        ClientConnection::new(Arc::new(config), name).unwrap(),
        stream,
    )
}

/// Sends bytes and reads until the other side ends; an end without its alert is an error.
fn told(mut stream: StreamOwned<ClientConnection, TcpStream>, bytes: &[u8]) -> io::Result<String> {
    stream.write_all(bytes)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

const CLOSE: &[u8] =
    b"POST /foreign HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi";

#[test]
fn only_a_good_certificate_that_is_enrolled_passes() {
    let origin = Origin::echo();
    let pair = pair(&origin);
    let (inbound, authority) = (pair.inbound.address, &pair.authority);
    let both = rustls::ALL_VERSIONS;
    let good = authority.client(&[APP]);
    let answer = told(foreign(inbound, authority, Some(&good), both), CLOSE).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("hi"),
        "{answer}"
    );
    // Of the right authority, for somebody else: told so, and recorded.
    for names in [
        &["stranger.example"][..],
        &["sub.app.example"],
        &["*.example"],
    ] {
        let leaf = authority.client(names);
        let answer = told(foreign(inbound, authority, Some(&leaf), both), CLOSE).unwrap();
        assert!(answer.starts_with("HTTP/1.1 403 "), "{names:?} {answer}");
        assert!(answer.contains("relay.refused"), "{answer}");
    }
    let asked = origin.asked();
    let other = Authority::new();
    let failed = pair.inbound.relay.counters().handshakes_failed;
    for leaf in [
        None,
        Some(other.client(&[APP])),
        Some(authority.expired(&[APP])),
        Some(authority.not_yet(&[APP])),
        Some(authority.server(&[APP])),
        Some(Leaf::self_signed(APP)),
    ] {
        let stream = foreign(inbound, authority, leaf.as_ref(), both);
        assert!(told(stream, CLOSE).is_err());
    }
    // TLS 1.2 is refused, and so is what is not TLS.
    let old = foreign(inbound, authority, Some(&good), &[&rustls::version::TLS12]);
    assert!(told(old, CLOSE).is_err());
    let mut plain = TcpStream::connect(inbound).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(CLOSE).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"));
    let failures = || pair.inbound.relay.counters().handshakes_failed - failed;
    assert!(comes(|| failures() >= 8));
    assert_eq!(failures(), 8);
    assert_eq!(origin.asked(), asked);
}

#[test]
fn an_outbound_speaks_to_nobody_but_its_inbound() {
    let origin = Origin::echo();
    let (authority, clock) = (Authority::new(), Shifted::new());
    let own = credentials(&authority.client(&[APP]), &authority);
    let client = Arc::new(MutualClient::new(&own).unwrap());
    let other = Authority::new();
    let servers = [
        (&authority, authority.server(&["elsewhere.example"])),
        (&authority, authority.expired(&["127.0.0.1"])),
        (&authority, authority.client(&["127.0.0.1"])),
        (&other, other.server(&["127.0.0.1"])),
    ];
    for (issuer, leaf) in servers {
        let mut settings = inbound_by(&authority, origin.address);
        let [certificate, key, ca] = [&leaf.certificate, &leaf.key, &issuer.pem];
        let shown =
            Credentials::new(certificate.as_bytes(), key.as_bytes(), ca.as_bytes()).unwrap();
        settings.mutual.as_mut().unwrap().credentials = shown;
        let inbound = inbound_at(settings, &clock, 1, anywhere());
        let outbound = outbound(outbound_by(inbound.address, Arc::clone(&client)), &clock);
        let answer = Line::to(outbound.address)
            .ask(&request("POST", "/", b"x"))
            .unwrap();
        assert_eq!(refusal(&answer), (503, "relay.down"));
    }
    assert_eq!(origin.asked(), 0);
}

#[test]
fn certificates_and_authorities_turn_over_with_no_failed_request() {
    let origin = Origin::echo();
    let pair = pair(&origin);
    let mut line = Line::to(pair.outbound.address);
    let mut ask = || {
        for method in ["GET", "POST"] {
            let answer = line.ask(&request(method, "/", b"x")).unwrap();
            assert_eq!(answer.status(), 200, "{answer:?}");
        }
    };
    ask();
    // A new certificate of the same authority, at the outbound.
    let next = credentials(&pair.authority.client(&[APP]), &pair.authority);
    pair.client.replace(&next).unwrap();
    ask();
    // A new authority: both sides take both, then each shows a new certificate, then the old one goes.
    let new = Authority::new();
    let both = pair.authority.and(&new);
    let settings = |leaf: &Leaf, trusted: &Authority| {
        let mut settings = inbound_by(&pair.authority, origin.address);
        settings.mutual.as_mut().unwrap().credentials = credentials(leaf, trusted);
        settings
    };
    let old_leaf = pair.authority.server(&["127.0.0.1"]);
    let new_leaf = new.server(&["127.0.0.1"]);
    pair.inbound
        .relay
        .reload(settings(&old_leaf, &both))
        .unwrap();
    ask();
    let shown = credentials(&pair.authority.client(&[APP]), &both);
    pair.client.replace(&shown).unwrap();
    ask();
    pair.inbound
        .relay
        .reload(settings(&new_leaf, &both))
        .unwrap();
    ask();
    // From here on new connections are made: what the old certificate opened is closed by whoever refuses it.
    pair.client
        .replace(&credentials(&new.client(&[APP]), &new))
        .unwrap();
    drop(line);
    pair.inbound
        .relay
        .reload(settings(&new_leaf, &new))
        .unwrap();
    let mut line = Line::to(pair.outbound.address);
    let first = line.ask(&request("GET", "/", b"")).unwrap();
    assert!(matches!(first.status(), 200 | 403), "{first:?}");
    let second = line.ask(&request("POST", "/", b"x")).unwrap();
    assert_eq!(second.status(), 200, "{second:?}");
    let failed = pair.inbound.relay.counters().handshakes_failed;
    assert_eq!(failed, 0);
}

#[test]
fn who_is_struck_off_or_expires_is_refused_at_the_next_request() {
    let origin = Origin::echo();
    let pair = pair(&origin);
    let mut line = Line::to(pair.outbound.address);
    assert_eq!(line.ask(&request("GET", "/", b"")).unwrap().status(), 200);
    let mut settings = inbound_by(&pair.authority, origin.address);
    settings.mutual.as_mut().unwrap().peers.remove(0);
    pair.inbound.relay.reload(settings).unwrap();
    let answer = line.ask(&request("GET", "/", b"")).unwrap();
    assert_eq!(refusal(&answer), (403, "relay.refused"));
    pair.inbound
        .relay
        .reload(inbound_by(&pair.authority, origin.address))
        .unwrap();
    assert_eq!(line.ask(&request("GET", "/", b"")).unwrap().status(), 200);
    // All certificates of this authority end in 2090.
    pair.clock.pass(70 * 365 * 86_400_000);
    let answer = line.ask(&request("GET", "/", b"")).unwrap();
    assert_eq!(refusal(&answer), (403, "relay.refused"));
}

#[test]
fn who_is_on_a_revocation_list_is_refused_at_the_next_request() {
    let origin = Origin::echo();
    let (authority, clock) = (Authority::new(), Shifted::new());
    let (gone, good) = (authority.client(&[APP]), authority.client(&[APP]));
    let inbound = inbound_at(
        inbound_by(&authority, origin.address),
        &clock,
        1,
        anywhere(),
    );
    let listed = |lists: &str| {
        let mut settings = inbound_by(&authority, origin.address);
        let own = authority.server(&["localhost", "127.0.0.1"]);
        let own = credentials(&own, &authority).with_revoked(lists.as_bytes());
        settings.mutual.as_mut().unwrap().credentials = own.unwrap();
        settings
    };
    let side = |leaf: &Leaf| {
        let client = MutualClient::new(&credentials(leaf, &authority)).unwrap();
        outbound(outbound_by(inbound.address, Arc::new(client)), &clock)
    };
    let get = request("GET", "/", b"");
    let (gone_side, good_side) = (side(&gone), side(&good));
    let (mut gone_line, mut good_line) = (Line::to(gone_side.address), Line::to(good_side.address));
    assert_eq!(gone_line.ask(&get).unwrap().status(), 200);
    assert_eq!(good_line.ask(&get).unwrap().status(), 200);
    let list = authority.revoked(&[&gone], 2090);
    inbound.relay.reload(listed(&list)).unwrap();
    // On the connection that it has, and on a new one.
    let answer = gone_line.ask(&get).unwrap();
    assert_eq!(refusal(&answer), (403, "relay.refused"));
    let answer = Line::to(side(&gone).address).ask(&get).unwrap();
    assert!(refusal(&answer).0 >= 500, "{:?}", refusal(&answer));
    assert_eq!(good_line.ask(&get).unwrap().status(), 200);
    let good_again = side(&good);
    assert_eq!(
        Line::to(good_again.address).ask(&get).unwrap().status(),
        200
    );
    // A list whose time is over, or of another authority alone, says nothing good of anybody.
    for list in [
        authority.revoked(&[], 2022),
        Authority::new().revoked(&[], 2090),
    ] {
        inbound.relay.reload(listed(&list)).unwrap();
        let answer = good_line.ask(&get).unwrap();
        assert_eq!(refusal(&answer), (403, "relay.refused"));
        good_line = Line::to(good_again.address);
    }
}

#[test]
fn an_outbound_does_not_speak_to_an_inbound_that_was_revoked() {
    let origin = Origin::echo();
    let (authority, clock) = (Authority::new(), Shifted::new());
    let own = authority.server(&["localhost", "127.0.0.1"]);
    let mut settings = inbound_by(&authority, origin.address);
    settings.mutual.as_mut().unwrap().credentials = credentials(&own, &authority);
    let inbound = inbound_at(settings, &clock, 1, anywhere());
    let leaf = authority.client(&[APP]);
    for (revoked, status) in [(vec![], 200), (vec![&own], 502)] {
        let list = authority.revoked(&revoked, 2090);
        let shown = credentials(&leaf, &authority).with_revoked(list.as_bytes());
        let client = MutualClient::new(&shown.unwrap()).unwrap();
        let side = outbound(outbound_by(inbound.address, Arc::new(client)), &clock);
        let answer = Line::to(side.address).ask(&request("GET", "/", b""));
        assert_eq!(answer.unwrap().status() >= 500, status >= 500);
    }
    let none = |lists: &[u8]| {
        let shown = credentials(&leaf, &authority).with_revoked(lists);
        shown.err().map(|error| error.to_string())
    };
    let said = none(b"").unwrap();
    assert!(said.starts_with("the revocation lists: "), "{said}");
    assert!(none(leaf.certificate.as_bytes()).is_some());
}

#[test]
fn handshakes_under_way_are_bounded_and_hurt_nobody_who_is_through() {
    const SHAKING_MAX: usize = 256;
    let origin = Origin::echo();
    let pair = pair(&origin);
    let mut line = Line::to(pair.outbound.address);
    assert_eq!(line.ask(&request("GET", "/", b"")).unwrap().status(), 200);
    let connect = || TcpStream::connect(pair.inbound.address).unwrap();
    let held: Vec<TcpStream> = (0..SHAKING_MAX).map(|_| connect()).collect();
    // Connections are taken in the order that they came in.
    assert!(matches!(connect().read(&mut [0]), Ok(0) | Err(_)));
    assert_eq!(line.ask(&request("GET", "/", b"")).unwrap().status(), 200);
    let failed = || pair.inbound.relay.counters().handshakes_failed as usize;
    drop(held);
    assert!(comes(|| failed() > SHAKING_MAX));
    assert_eq!(failed(), SHAKING_MAX + 1);
    let settings = outbound_by(pair.inbound.address, Arc::clone(&pair.client));
    let other = outbound(settings, &pair.clock);
    let answer = Line::to(other.address).ask(&request("GET", "/", b""));
    assert_eq!(answer.unwrap().status(), 200);
}

#[test]
fn what_was_lost_is_owned_up_to() {
    let origin = Origin::new(|mut head, line| {
        line.body(&mut head)?;
        Err(io::ErrorKind::Other.into())
    });
    let mut pair = pair(&origin);
    let mut line = Line::to(pair.outbound.address);
    let answer = line.ask(&request("POST", "/", b"x")).unwrap();
    assert_eq!(refusal(&answer), (502, "relay.maybe_executed"));
    let answer = line.ask(&request("GET", "/", b"")).unwrap();
    assert_eq!(refusal(&answer), (502, "relay.failed"));
    // An origin that is not there, and then a peer that is not there: nothing was executed.
    let nowhere = std::net::TcpListener::bind(anywhere()).unwrap();
    let gone = nowhere.local_addr().unwrap();
    drop(nowhere);
    let settings = inbound_by(&pair.authority, gone);
    let other = inbound_at(settings, &pair.clock, 1, anywhere());
    let outbound = outbound(
        outbound_by(other.address, Arc::clone(&pair.client)),
        &pair.clock,
    );
    let answer = Line::to(outbound.address)
        .ask(&request("POST", "/", b"x"))
        .unwrap();
    assert_eq!(refusal(&answer), (502, "relay.origin"));
    pair.inbound.stop();
    let answer = Line::to(pair.outbound.address)
        .ask(&request("POST", "/", b"x"))
        .unwrap();
    assert_eq!(refusal(&answer), (503, "relay.down"));
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (own, key) = (
        authority.server(&["a.example"]),
        other.server(&["a.example"]),
    );
    let new = |certificate: &str, key: &str, ca: &str| {
        Credentials::new(certificate.as_bytes(), key.as_bytes(), ca.as_bytes())
    };
    for (certificate, key, ca) in [
        ("", own.key.as_str(), authority.pem.as_str()),
        (&own.certificate, "", &authority.pem),
        (&own.certificate, &own.key, ""),
        (
            "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----",
            &own.key,
            &authority.pem,
        ),
    ] {
        assert!(new(certificate, key, ca).is_err());
    }
    // The key of another certificate.
    let mixed = new(&own.certificate, &key.key, &authority.pem).unwrap();
    assert!(MutualClient::new(&mixed).is_err() && net::mutual::Acceptor::new(&mixed).is_err());
    let clock = Shifted::new();
    let inbound = inbound_at(inbound_by(&authority, NOWHERE), &clock, 1, anywhere());
    let with = |names: &[&str]| {
        let mut settings = inbound_by(&authority, NOWHERE);
        let peers = names.iter().enumerate();
        let peers = peers.map(|(at, text)| (agent(&format!("a{at}")), (*text).to_owned()));
        settings.mutual.as_mut().unwrap().peers = peers.collect();
        inbound.relay.reload(settings)
    };
    assert_eq!(with(&["*.example"]), Err(Problem::PeerName(name("a0"))));
    assert_eq!(
        with(&["a.example", "a.example"]),
        Err(Problem::PeerTwice(name("a1")))
    );
    assert_eq!(with(&["a.example", "127.0.0.1"]), Ok(()));
    // A certificate is shown by https alone.
    let client = Arc::new(MutualClient::new(&credentials(&own, &authority)).unwrap());
    let mut endpoint = endpoint(inbound.address);
    endpoint.mutual = Some(client);
    assert!(net::Targets::new([(name("peer"), endpoint)]).is_err());
}

#[test]
fn curl_and_openssl_are_clients_too() {
    let origin = Origin::echo();
    let pair = pair(&origin);
    let port = pair.inbound.address.port();
    let folder = std::env::temp_dir().join(format!("weir-mutual-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let own = pair.authority.client(&[APP]);
    for (file, text) in [
        ("ca", &pair.authority.pem),
        ("own", &own.certificate),
        ("key", &own.key),
    ] {
        std::fs::write(folder.join(file), text).unwrap();
    }
    let curl = |more: &[&str]| {
        Command::new("curl")
            .current_dir(&folder)
            .args(["-sS", "--noproxy", "*", "--cacert", "ca", "-d", "from curl"])
            .args(more)
            .arg(format!("https://localhost:{port}/curl"))
            .args(["--resolve", &format!("localhost:{port}:127.0.0.1")])
            .output()
            .unwrap()
    };
    let shown = ["--cert", "own", "--key", "key"];
    let done = curl(&shown);
    assert!(
        done.status.success() && done.stdout == b"from curl",
        "{done:?}"
    );
    assert!(!curl(&[]).status.success());
    assert!(
        !curl(&[&shown[..], &["--tls-max", "1.2"]].concat())
            .status
            .success()
    );
    let mut openssl = Command::new("openssl")
        .current_dir(&folder)
        .args([
            "s_client",
            "-connect",
            &format!("127.0.0.1:{port}"),
            "-ign_eof",
        ])
        .args([
            "-CAfile",
            "ca",
            "-cert",
            "own",
            "-key",
            "key",
            "-verify_return_error",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    openssl.stdin.take().unwrap().write_all(CLOSE).unwrap();
    let done = openssl.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    for part in ["TLSv1.3", "Verify return code: 0 (ok)", "HTTP/1.1 200 OK"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    // No ticket is given: each connection shows who it is anew.
    assert!(!said.contains("New Session Ticket"), "{said}");
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(origin.asked(), 2);
}

#[test]
fn no_request_is_smuggled_by_who_has_a_certificate() {
    let origin = Origin::echo();
    let (authority, clock) = (Authority::new(), Shifted::new());
    let mut settings = inbound_by(&authority, origin.address);
    settings.edge.head_ms = 2_000;
    settings.edge.piece_ms = 300;
    let inbound = inbound_at(settings, &clock, 1, anywhere());
    let own = authority.client(&[APP]);
    let (mut tried, mut allowed) = (0, 0);
    for file in REQUESTS {
        for case in cases(file) {
            let mut stream = foreign(
                inbound.address,
                &authority,
                Some(&own),
                rustls::ALL_VERSIONS,
            );
            // It may be refused before all of it is sent.
            let _ = stream.write_all(&case.sent);
            stream.conn.send_close_notify();
            let _ = stream.flush();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            allowed += case.requests();
            let asked = origin.asked();
            assert!(
                asked <= allowed,
                "{file}: {}: {asked} of {allowed}",
                case.title
            );
            tried += 1;
        }
    }
    assert!(tried > 50 && origin.asked() > 10, "{tried}");
    for head in origin.seen.lock().unwrap().iter() {
        let both =
            head.field("content-length").is_some() && head.field("transfer-encoding").is_some();
        assert!(!both, "{head:?}");
    }
}
