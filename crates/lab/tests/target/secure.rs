//! TLS, client certificates, HTTP/2, credentials, and the settings that cannot be.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::Secret;
use base64::Engine;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use lab::target::{Auth, Behaviour, Error, Running, Settings, Tls, start};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::client::Client;
use super::started;

fn secure(client_ca: Option<&Path>) -> Running {
    started(Settings {
        tls: Some(Tls {
            files: None,
            client_ca: client_ca.map(Path::to_owned),
        }),
        ..Settings::default()
    })
}

type Own = Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>;

fn config(ca_pem: &str, own: Own, protocols: &[&[u8]]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        Some((certificate, key)) => builder
            .with_client_auth_cert(vec![certificate], key)
            .unwrap(),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Arc::new(config)
}

fn dial(
    target: &Running,
    name: &'static str,
    config: Arc<ClientConfig>,
) -> StreamOwned<ClientConnection, TcpStream> {
    let stream = TcpStream::connect(target.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let name = ServerName::try_from(name).unwrap();
    StreamOwned::new(ClientConnection::new(config, name).unwrap(), stream)
}

/// Asks once, raw; the error is the handshake's.
fn asked(mut stream: StreamOwned<ClientConnection, TcpStream>) -> std::io::Result<Vec<u8>> {
    stream.write_all(b"GET / HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

#[test]
fn the_made_certificate_is_good_for_its_names_only() {
    let target = secure(None);
    let ca = target.ca_pem().unwrap();
    for name in ["localhost", "127.0.0.1", "::1"] {
        let mut client = Client::over(dial(&target, name, config(ca, None, &[])));
        assert_eq!(client.get("/").status, 200);
        assert_eq!(
            client.post("/echo", &[], vec![9; 300_000]).body,
            vec![9; 300_000]
        );
    }
    assert!(asked(dial(&target, "example.com", config(ca, None, &[]))).is_err());
    // Another target's authority does not vouch for this one.
    let other = secure(None);
    assert!(
        asked(dial(
            &target,
            "localhost",
            config(other.ca_pem().unwrap(), None, &[])
        ))
        .is_err()
    );
    // Plain bytes are no handshake, and hold nothing up.
    let mut plain = Client::to(target.address());
    plain.send("GET / HTTP/1.1\r\nhost: t\r\n\r\n");
    let mut answer = Vec::new();
    let _ = plain.stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"));
}

#[test]
fn clients_need_a_certificate_by_the_authority() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let authority = || {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    };
    let (known, stranger) = (authority(), authority());
    std::fs::write(&file, known.pem()).unwrap();
    let target = secure(Some(&file));
    let ca = target.ca_pem().unwrap();
    let own = |issuer: &CertifiedIssuer<KeyPair>| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        Some((certificate.der().clone(), key))
    };
    let ask = |own| asked(dial(&target, "localhost", config(ca, own, &[])));
    assert!(ask(own(&known)).unwrap().starts_with(b"HTTP/1.1 200"));
    assert!(ask(None).is_err());
    assert!(ask(own(&stranger)).is_err());
    assert_eq!(target.counts().requests, 1);
}

#[test]
fn what_cannot_be_started_says_why() {
    let fails = |settings: Settings| start(settings).err().expect("it cannot start");
    for threads in [0, 257] {
        let error = fails(Settings {
            threads,
            ..Settings::default()
        });
        assert!(
            matches!(&error, Error::Setting(what) if what.contains("256")),
            "{error}"
        );
    }
    let error = fails(Settings {
        body_bytes: (64 << 20) + 1,
        ..Settings::default()
    });
    assert!(matches!(error, Error::Setting(_)));
    let error = fails(Settings {
        behaviour: Behaviour {
            chances: vec!["500:60%".parse().unwrap(), "503:60%".parse().unwrap()],
            ..Behaviour::default()
        },
        ..Settings::default()
    });
    assert!(error.to_string().contains("120"), "{error}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap();
    let error = fails(Settings {
        listen,
        ..Settings::default()
    });
    assert!(
        matches!(&error, Error::Listen(what) if what.contains(&listen.to_string())),
        "{error}"
    );
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    for (files, client_ca) in [
        (Some((empty.clone(), empty.clone())), None),
        (Some((folder.path().join("none"), empty.clone())), None),
        (None, Some(empty.clone())),
    ] {
        let error = fails(Settings {
            tls: Some(Tls { files, client_ca }),
            ..Settings::default()
        });
        let Error::Tls(what) = error else {
            panic!("{error}")
        };
        assert!(what.contains(".pem") || what.contains("none"), "{what}");
    }
}

#[test]
fn without_the_credential_the_answer_is_401() {
    let with = |auth| {
        started(Settings {
            auth: Some(auth),
            ..Settings::default()
        })
    };
    let target = with(Auth::Bearer(Secret::new("s3cret".to_owned())));
    let mut client = Client::to(target.address());
    let mut status =
        |path: &str, headers: &[(&str, &str)]| client.ask("GET", path, headers, b"").status;
    assert_eq!(status("/", &[("authorization", "Bearer s3cret")]), 200);
    assert_eq!(status("/v1/models", &[("x-api-key", "s3cret")]), 200);
    for headers in [
        [("authorization", "Bearer s3cre")].as_slice(),
        &[("authorization", "bearer s3cret")],
        &[("authorization", "Basic s3cret")],
        &[("authorization", "s3cret")],
        &[("x-api-key", "other")],
        &[],
    ] {
        assert_eq!(status("/", headers), 401);
        assert_eq!(status("/lab/counts", headers), 200);
        assert_eq!(status("/lab/reset", headers), 401);
    }
    let counts = target.counts();
    assert_eq!(
        (counts.requests, counts.responses_ok, counts.unauthorized),
        (8, 2, 6)
    );
    let pair = "user:pass word";
    let target = with(Auth::Basic(Secret::new(pair.to_owned())));
    let mut client = Client::to(target.address());
    let value = format!(
        "Basic {}",
        base64::engine::general_purpose::STANDARD.encode(pair)
    );
    assert_eq!(
        client
            .ask("GET", "/", &[("authorization", &value)], b"")
            .status,
        200
    );
    let answer = client.get("/v1/models");
    assert_eq!(
        (answer.status, answer.header("www-authenticate")),
        (401, Some("Basic realm=\"lab\""))
    );
    assert_eq!(answer.json()["error"]["code"], "invalid_api_key");
}

#[test]
fn http2_is_spoken_by_prior_knowledge_and_by_alpn() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    runtime.block_on(async {
        let target = started(Settings {
            behaviour: Behaviour {
                every: vec!["close:7".parse().unwrap()],
                ..Behaviour::default()
            },
            ..Settings::default()
        });
        let stream = tokio::net::TcpStream::connect(target.address())
            .await
            .unwrap();
        let statuses = over_http2(stream).await;
        // The seventh stream is reset alone; the others share the connection and are answered.
        assert_eq!(statuses.iter().filter(|status| status.is_none()).count(), 1);
        assert_eq!(target.counts().injected_errors["close"], 1);
        let target = secure(None);
        let config = config(target.ca_pem().unwrap(), None, &[b"h2"]);
        let stream = tokio::net::TcpStream::connect(target.address())
            .await
            .unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = tokio_rustls::TlsConnector::from(config)
            .connect(name, stream)
            .await
            .unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
        let statuses = over_http2(stream).await;
        assert!(statuses.iter().all(|status| *status == Some(200)));
    });
}

/// Sends ten echoes at once over one connection; the status of each, when it was answered with its own body.
async fn over_http2<S>(stream: S) -> Vec<Option<u16>>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let asked: Vec<_> = (0..10_u8)
        .map(|nth| {
            let mut sender = sender.clone();
            tokio::spawn(async move {
                let body = Bytes::from(vec![nth; 100_000]);
                let request = http::Request::post("http://target/echo")
                    .body(Full::new(body.clone()))
                    .unwrap();
                let answer = sender.send_request(request).await.ok()?;
                let status = answer.status().as_u16();
                assert_eq!(answer.into_body().collect().await.ok()?.to_bytes(), body);
                Some(status)
            })
        })
        .collect();
    let mut statuses = Vec::new();
    for task in asked {
        statuses.push(task.await.unwrap());
    }
    statuses
}
