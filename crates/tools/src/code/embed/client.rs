//! HTTP/1.1 to one address, one request a connection, with bounds on time and bytes.

use std::sync::Arc;
use std::time::Duration;

use base::{Secret, limit};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;

use super::Error;

/// Longest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// Sends requests to one path of one host.
pub(super) struct Client {
    host: String,
    port: u16,
    authority: HeaderValue,
    path: Uri,
    bearer: Option<Secret>,
    tls: Option<TlsConnector>,
    /// Several threads may wait on it at once: a query does not wait for a batch.
    runtime: Runtime,
}

impl Client {
    /// For a path below a URL. A URL that ends with the first part of the path (`/v1`) has it already.
    pub(super) fn new(url: &str, path: &str, bearer: Option<Secret>) -> Result<Client, Error> {
        let wrong = |what: &str| Error::Url(what.to_owned());
        let uri: Uri = url.parse().map_err(|_| wrong("is none"))?;
        let host = uri.host().ok_or_else(|| wrong("names no host"))?;
        let authority = uri.authority().ok_or_else(|| wrong("names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("must not hold a user or a password"));
        }
        let tls = match uri.scheme_str() {
            Some("https") => Some(connector()?),
            Some("http") => None,
            _ => return Err(wrong("must begin with http:// or https://")),
        };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let here = bare == "localhost"
            || bare
                .parse()
                .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
        if bearer.is_some() && tls.is_none() && !here {
            return Err(wrong("would send the key in the clear; use https"));
        }
        let port = uri
            .port_u16()
            .unwrap_or(if tls.is_some() { 443 } else { 80 });
        let before = uri.path().trim_end_matches('/');
        let first = path[1..].split('/').next().unwrap_or_default();
        let path = match before
            .strip_suffix(first)
            .filter(|rest| rest.ends_with('/'))
        {
            Some(rest) => format!("{}{path}", rest.trim_end_matches('/')),
            None => format!("{before}{path}"),
        };
        Ok(Client {
            host: bare.to_owned(),
            port,
            authority: HeaderValue::from_str(authority.as_str()).map_err(|_| wrong("is none"))?,
            path: path.parse().map_err(|_| wrong("has a path that is none"))?,
            bearer,
            tls,
            runtime: runtime()?,
        })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Sends JSON and reads the answer of status 200.
    pub(super) fn post(&self, body: String, within: Duration) -> Result<Bytes, Error> {
        self.runtime.block_on(async {
            let asked = tokio::time::timeout(within, self.ask(body)).await;
            asked.unwrap_or_else(|_| Err(Error::Unreachable("no answer in time".to_owned())))
        })
    }

    async fn ask(&self, body: String) -> Result<Bytes, Error> {
        let dial = Duration::from_millis(limit::DIAL_MS_MAX);
        let dialled = TcpStream::connect((self.host.as_str(), self.port));
        let stream = match tokio::time::timeout(dial, dialled).await {
            Ok(stream) => stream.map_err(unreachable)?,
            Err(_) => return Err(Error::Unreachable("no connection in time".to_owned())),
        };
        let _ = stream.set_nodelay(true);
        match &self.tls {
            None => self.send(stream, body).await,
            Some(tls) => {
                let name = ServerName::try_from(self.host.clone()).map_err(unreachable)?;
                let stream = tls.connect(name, stream).await.map_err(unreachable)?;
                self.send(stream, body).await
            }
        }
    }

    async fn send<S>(&self, stream: S, body: String) -> Result<Bytes, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(unreachable)?;
        let request = self.request(body)?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(unreachable)?;
            let status = response.status().as_u16();
            if status != 200 {
                let after = response.headers().get(RETRY_AFTER);
                let seconds = after.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
                let after_ms = seconds.map(|seconds| seconds.saturating_mul(1000));
                return Err(Error::Refused { status, after_ms });
            }
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
            match body.collect().await {
                Ok(body) => Ok(body.to_bytes()),
                Err(error) => Err(Error::Answer(format!("breaks off: {error}"))),
            }
        };
        // The connection ends when it likes; the exchange is what counts, and it ends with the connection.
        let mut exchange = std::pin::pin!(exchange);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            biased;
            answer = &mut exchange => answer,
            _ = &mut connection => exchange.await,
        }
    }

    fn request(&self, body: String) -> Result<Request<Full<Bytes>>, Error> {
        let mut request = Request::post(self.path.clone())
            .header(HOST, self.authority.clone())
            .header(CONTENT_TYPE, "application/json");
        if let Some(bearer) = &self.bearer {
            let value = format!("Bearer {}", bearer.expose());
            let value = HeaderValue::from_str(&value);
            let mut value =
                value.map_err(|_| Error::Url("has a key that no header can hold".to_owned()))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let built = request.body(Full::from(body));
        built.map_err(|error| Error::Url(format!("makes no request: {error}")))
    }
}

fn runtime() -> Result<Runtime, Error> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().map_err(unreachable)
}

fn unreachable(error: impl std::fmt::Display) -> Error {
    Error::Unreachable(error.to_string())
}

/// TLS that trusts what browsers trust.
fn connector() -> Result<TlsConnector, Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unreachable)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(url: &str, path: &str) -> String {
        Client::new(url, path, None).unwrap().path.to_string()
    }

    #[test]
    fn paths_are_joined_once() {
        let openai = "/v1/embeddings";
        assert_eq!(path("http://h", openai), openai);
        assert_eq!(path("http://h/v1", openai), openai);
        assert_eq!(path("http://h/v1/", openai), openai);
        assert_eq!(path("http://h/proxy/v1", openai), "/proxy/v1/embeddings");
        assert_eq!(path("http://h/av1", openai), "/av1/v1/embeddings");
        assert_eq!(path("http://h:11434/", "/api/embed"), "/api/embed");
    }

    #[test]
    fn a_key_does_not_cross_a_network_in_the_clear() {
        let key = || Some(Secret::new("k".to_owned()));
        for bad in ["http://example.com", "ftp://h", "h", "https://u:p@h", ""] {
            assert!(Client::new(bad, "/v1/embeddings", key()).is_err(), "{bad}");
        }
        for good in [
            "https://example.com",
            "http://127.0.0.1:1",
            "http://[::1]:1",
            "http://localhost",
        ] {
            assert!(Client::new(good, "/v1/embeddings", key()).is_ok(), "{good}");
        }
    }
}
