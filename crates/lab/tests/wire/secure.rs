//! Servers of hyper's, over TLS or without, that echo.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};

/// A certificate for `localhost`, with its key.
pub(crate) struct Certificate {
    pub der: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Certificate {
    pub(crate) fn new() -> Certificate {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        Certificate {
            der: made.cert.der().clone(),
            key: made.signing_key.into(),
        }
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        roots
    }

    /// A client that trusts it.
    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder().with_root_certificates(self.roots());
        Arc::new(builder.with_no_client_auth())
    }

    /// A client that trusts it and shows it.
    pub(crate) fn client_with_certificate(&self) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder().with_root_certificates(self.roots());
        let shown = builder.with_client_auth_cert(vec![self.der.clone()], self.key.clone_key());
        Arc::new(shown.unwrap())
    }

    /// A server with it, which offers these protocols, and may ask for a certificate.
    pub(crate) fn server(&self, protocols: &[&str], mutual: bool) -> Arc<ServerConfig> {
        let builder = match mutual {
            false => ServerConfig::builder().with_no_client_auth(),
            true => {
                let verifier = WebPkiClientVerifier::builder(Arc::new(self.roots()));
                ServerConfig::builder().with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let mut config = builder
            .with_single_cert(vec![self.der.clone()], self.key.clone_key())
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

/// A server that echoes each body, with `content-type` and `weir-lab-id`.
#[derive(Clone, Default)]
pub(crate) struct Echo {
    pub connections: Arc<AtomicU64>,
    pub requests: Arc<AtomicU64>,
    /// The number of the request, counted from 1, whose answer has its 10th byte wrong. 0: none.
    pub wrong: u64,
    pub http2: bool,
    pub tls: Option<Arc<ServerConfig>>,
}

impl Echo {
    /// Runs on a thread of its own until the test's process ends.
    pub(crate) fn start(&self) -> SocketAddr {
        let (echo, listener) = (
            self.clone(),
            std::net::TcpListener::bind("127.0.0.1:0").unwrap(),
        );
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(echo.accept(listener));
        });
        address
    }

    async fn accept(self, listener: std::net::TcpListener) {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        while let Ok((tcp, _)) = listener.accept().await {
            tcp.set_nodelay(true).unwrap();
            self.connections.fetch_add(1, Ordering::Relaxed);
            let echo = self.clone();
            tokio::spawn(async move {
                match &echo.tls {
                    None => echo.serve(tcp).await,
                    Some(config) => {
                        let acceptor = tokio_rustls::TlsAcceptor::from(config.clone());
                        if let Ok(tls) = acceptor.accept(tcp).await {
                            echo.serve(tls).await;
                        }
                    }
                }
            });
        }
    }

    async fn serve(&self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let io = TokioIo::new(io);
        let service = service_fn(|request| self.echo(request));
        // A client that goes away is no matter of the test.
        let _ = if self.http2 {
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            builder
                .serve_connection(io, service_fn(|request| self.clone().echoed(request)))
                .await
        } else {
            hyper::server::conn::http1::Builder::new()
                .serve_connection(io, service)
                .await
        };
    }

    async fn echoed(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        self.echo(request).await
    }

    async fn echo(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let (parts, body) = request.into_parts();
        let body = body
            .collect()
            .await
            .map(|body| body.to_bytes())
            .unwrap_or_default();
        let mut body = body.to_vec();
        if number == self.wrong {
            body[10] ^= 1;
        }
        let mut response = Response::new(Full::new(Bytes::from(body)));
        for name in ["content-type", "weir-lab-id"] {
            if let Some(value) = parts.headers.get(name) {
                let name = http::HeaderName::from_static(name);
                response.headers_mut().insert(name, value.clone());
            }
        }
        Ok(response)
    }
}
