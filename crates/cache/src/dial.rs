//! A connection with the store: TCP, and TLS that is verified.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::problem::CacheProblem;
use crate::url::CacheUrl;

/// How a store proves who it is.
#[derive(Clone)]
pub struct CacheTls(Arc<ClientConfig>);

impl CacheTls {
    /// By the public authorities, or by these alone, as PEM.
    ///
    /// # Errors
    /// They are no certificates.
    pub fn new(authorities: Option<&[u8]>) -> Result<CacheTls, String> {
        let mut roots = RootCertStore::empty();
        match authorities {
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(pem) => {
                for one in CertificateDer::pem_slice_iter(pem) {
                    let one = one.map_err(|error| error.to_string())?;
                    roots.add(one).map_err(|error| error.to_string())?;
                }
            }
        }
        if roots.is_empty() {
            return Err("there is no certificate in it".to_owned());
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(CacheTls(Arc::new(config)))
    }
}

/// An open connection.
pub(crate) enum Wire {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Connects; the caller bounds how long.
pub(crate) async fn dial(url: &CacheUrl, tls: &CacheTls) -> Result<Wire, CacheProblem> {
    if url.is_exposed() {
        return Err(CacheProblem::Tls);
    }
    let stream = TcpStream::connect((url.host.as_str(), url.port)).await;
    let stream = stream.map_err(|_| CacheProblem::Unreachable)?;
    stream
        .set_nodelay(true)
        .map_err(|_| CacheProblem::Unreachable)?;
    if !url.is_tls {
        return Ok(Wire::Tcp(stream));
    }
    let name = ServerName::try_from(url.host.clone()).map_err(|_| CacheProblem::Tls)?;
    let connector = TlsConnector::from(Arc::clone(&tls.0));
    let stream = connector.connect(name, stream).await;
    stream
        .map(|stream| Wire::Tls(Box::new(stream)))
        .map_err(|_| CacheProblem::Tls)
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Wire::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Wire::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Wire::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Wire::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Wire::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
