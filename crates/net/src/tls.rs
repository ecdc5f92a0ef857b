//! TLS before agents: 1.2 and 1.3, several certificates by name, renewed while serving, and certificates of clients where
//! they are asked for.
//!
//! Keys are agreed on by the first of these for which the client sends its share: X25519MLKEM768, so that what is captured today stays
//! closed to the computers of tomorrow, then X25519, P-256 and P-384. There is no early data, because it can be replayed.
//! Where clients show certificates nothing is resumed, so that each connection shows who is at its end anew.

use std::fmt;
use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::verify_server_name;
use rustls::crypto::aws_lc_rs::{Ticketer, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ParsedCertificate, ResolvesServerCert,
    WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsStream};

use crate::h1::{ALPN_HTTP2, Stream};
use crate::mutual::{CredentialsError, Shown, several};

/// A certificate with its key, as PEM.
#[derive(Clone, Copy)]
pub struct CertificatePem<'a> {
    /// The certificate, and those between it and its authority.
    pub chain: &'a [u8],
    pub key: &'a [u8],
}

/// Whose certificates clients may show, as PEM.
#[derive(Clone, Copy)]
pub struct ClientAsk<'a> {
    pub authorities: &'a [u8],
    /// The authorities' revocation lists (RFC 5280 §5). With them each certificate has to be on a list's side.
    pub revoked: Option<&'a [u8]>,
    /// Whether a client without a certificate is refused.
    pub is_required: bool,
}

/// Why certificates cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsProblem {
    /// Which of the certificates, counted from 0; nothing where it is about those of clients.
    pub certificate: Option<usize>,
    pub kind: CredentialsError,
}

impl fmt::Display for TlsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.certificate {
            Some(number) => write!(f, "certificates[{number}]: {}", self.kind),
            None => write!(f, "clients: {}", self.kind),
        }
    }
}

impl std::error::Error for TlsProblem {}

impl TlsProblem {
    /// Whether it is about a key, and not about a certificate.
    pub fn is_of_key(&self) -> bool {
        matches!(self.kind, CredentialsError::Key(_))
    }
}

/// How a listener speaks TLS. Its certificates can be put in the place of those before, also while connections are open.
pub struct EdgeTls {
    config: ArcSwap<ServerConfig>,
    /// Whether clients may agree on HTTP/2.
    http2: bool,
}

impl EdgeTls {
    /// Reads the certificates; the first is for clients that name none of them.
    ///
    /// # Errors
    /// [`TlsProblem`], the first.
    pub fn new(
        certificates: &[CertificatePem<'_>],
        clients: Option<ClientAsk<'_>>,
    ) -> Result<EdgeTls, TlsProblem> {
        Ok(EdgeTls {
            config: ArcSwap::from_pointee(config(certificates, clients)?),
            http2: false,
        })
    }

    /// The same, and clients may agree on HTTP/2 (RFC 7301), which is taken where they offer both.
    pub fn with_http2(self) -> EdgeTls {
        let config = offering_http2((**self.config.load()).clone());
        EdgeTls {
            config: ArcSwap::from_pointee(config),
            http2: true,
        }
    }

    /// Reads other certificates, and gives what puts them in force from the next handshake on. Open connections stay.
    ///
    /// # Errors
    /// As [`EdgeTls::new`].
    pub fn prepare(
        &self,
        certificates: &[CertificatePem<'_>],
        clients: Option<ClientAsk<'_>>,
    ) -> Result<impl FnOnce() + use<'_>, TlsProblem> {
        let mut config = config(certificates, clients)?;
        if self.http2 {
            config = offering_http2(config);
        }
        let config = Arc::new(config);
        Ok(move || self.config.store(config))
    }

    /// Shakes hands, and gives what the client showed. Waits as long as the client does: the caller sets a bound.
    ///
    /// # Errors
    /// The client is no TLS client, or showed no certificate that is good where it has to; or the connection broke.
    pub async fn accept(&self, stream: TcpStream) -> io::Result<(Stream, Option<Shown>)> {
        let acceptor = TlsAcceptor::from(self.config.load_full());
        let stream = acceptor.accept(stream).await?;
        let chain = stream.get_ref().1.peer_certificates();
        let shown = chain.map(Shown::new);
        Ok((Stream::Tls(Box::new(TlsStream::Server(stream))), shown))
    }
}

impl fmt::Debug for EdgeTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EdgeTls")
    }
}

fn offering_http2(mut config: ServerConfig) -> ServerConfig {
    config.alpn_protocols = vec![ALPN_HTTP2.to_vec(), b"http/1.1".to_vec()];
    config
}

fn config(
    certificates: &[CertificatePem<'_>],
    clients: Option<ClientAsk<'_>>,
) -> Result<ServerConfig, TlsProblem> {
    let provider = provider();
    let key = |number| {
        move |error: rustls::Error| TlsProblem {
            certificate: Some(number),
            kind: CredentialsError::Key(error.to_string()),
        }
    };
    let mut by_name = Vec::with_capacity(certificates.len());
    for (number, certificate) in certificates.iter().enumerate() {
        by_name.push(Arc::new(certified(number, certificate, &provider)?));
    }
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(key(0))?;
    let asks = clients.is_some();
    let builder = match clients {
        Some(ask) => builder.with_client_cert_verifier(verifier(ask, provider)?),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(ByName(by_name)));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.max_early_data_size = 0;
    match asks {
        true => {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        false => config.ticketer = Ticketer::new().map_err(key(0))?,
    }
    Ok(config)
}

/// How TLS is spoken in the place of sites. The certificate is each connection's own.
pub(crate) fn intercepting(provider: Arc<CryptoProvider>) -> Result<ServerConfig, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth();
    let mut config = builder.with_cert_resolver(Arc::new(ByName(Vec::new())));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.max_early_data_size = 0;
    config.ticketer = Ticketer::new()?;
    Ok(config)
}

/// How keys are agreed on: by the first of these that the other side offers.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    const GROUPS: [&dyn SupportedKxGroup; 4] = [
        kx_group::X25519MLKEM768,
        kx_group::X25519,
        kx_group::SECP256R1,
        kx_group::SECP384R1,
    ];
    crate::mutual::provider(GROUPS.to_vec())
}

fn certified(
    number: usize,
    certificate: &CertificatePem<'_>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsProblem> {
    let problem = |kind| TlsProblem {
        certificate: Some(number),
        kind,
    };
    let chain = several(CertificateDer::pem_slice_iter(certificate.chain));
    let chain = chain.map_err(|why| problem(CredentialsError::Certificate(why)))?;
    let is_encrypted = memchr::memmem::find(certificate.key, b"ENCRYPTED").is_some();
    let bad_key = |why: String| problem(CredentialsError::Key(why));
    let not_a_key = |error: pem::Error| {
        bad_key(match error {
            pem::Error::NoItemsFound if is_encrypted => {
                "it is encrypted; write it without a password, for this user alone".to_owned()
            }
            pem::Error::NoItemsFound => "there is no private key in it".to_owned(),
            error => error.to_string(),
        })
    };
    let key = PrivateKeyDer::from_pem_slice(certificate.key).map_err(not_a_key)?;
    let not_its_key = |error: rustls::Error| {
        bad_key(match error {
            rustls::Error::InconsistentKeys(_) => "it is not that of the certificate".to_owned(),
            error => error.to_string(),
        })
    };
    let own = chain.first().map(ParsedCertificate::try_from);
    if let Some(Err(error)) = own {
        let why =
            format!("it cannot be used ({error}); one of version 3 with subjectAltName is needed");
        return Err(problem(CredentialsError::Certificate(why)));
    }
    CertifiedKey::from_der(chain, key, provider).map_err(not_its_key)
}

fn verifier(
    ask: ClientAsk<'_>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsProblem> {
    let problem = |kind| TlsProblem {
        certificate: None,
        kind,
    };
    let authority = |why: String| problem(CredentialsError::Authority(why));
    let mut roots = RootCertStore::empty();
    for one in several(CertificateDer::pem_slice_iter(ask.authorities)).map_err(authority)? {
        roots
            .add(one)
            .map_err(|error| authority(error.to_string()))?;
    }
    let mut verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    if let Some(lists) = ask.revoked {
        let lists = several(CertificateRevocationListDer::pem_slice_iter(lists));
        let lists = lists.map_err(|why| problem(CredentialsError::Revoked(why)))?;
        verifier = verifier.with_crls(lists).enforce_revocation_expiration();
    }
    if !ask.is_required {
        verifier = verifier.allow_unauthenticated();
    }
    verifier
        .build()
        .map_err(|error| authority(error.to_string()))
}

/// When the first certificate of a PEM text ends to be good, as RFC 3339 writes it; nothing where it cannot be read.
pub fn expires(chain: &[u8]) -> Option<String> {
    let certificate = CertificateDer::from_pem_slice(chain).ok()?;
    // RFC 5280, section 4.1: what stands before the validity, and its second time.
    const SEQUENCE: u8 = 0x30;
    const VERSION: u8 = 0xa0;
    let (_, certificate, _) = element(&certificate)?;
    let (_, signed, _) = element(certificate)?;
    let (tag, _, after_version) = element(signed)?;
    let rest = if tag == VERSION {
        after_version
    } else {
        signed
    };
    let (_, _serial, rest) = element(rest)?;
    let (_, _algorithm, rest) = element(rest)?;
    let (_, _issuer, rest) = element(rest)?;
    let (tag, validity, _) = element(rest)?;
    let (_, _not_before, rest) = element(validity)?;
    let (kind, time, _) = element(rest)?;
    (tag == SEQUENCE)
        .then(|| written_time(kind, time))
        .flatten()
}

/// A DER element at the start of bytes: its tag, its content, and what follows (X.690, section 8.1).
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = digits
                .iter()
                .fold(0, |all, &digit| all << 8 | usize::from(digit));
            (length, rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// A time of a certificate (RFC 5280, section 4.1.2.5): `YYMMDDHHMMSSZ` until 2049, else `YYYYMMDDHHMMSSZ`.
fn written_time(kind: u8, time: &[u8]) -> Option<String> {
    const UTC_TIME: u8 = 0x17;
    const GENERALIZED_TIME: u8 = 0x18;
    let time = std::str::from_utf8(time).ok()?.strip_suffix('Z')?;
    let time = match kind {
        UTC_TIME => format!("{}{time}", if time.get(..2)? < "50" { "20" } else { "19" }),
        GENERALIZED_TIME => time.to_owned(),
        _ => return None,
    };
    if time.len() != 14 || !time.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (day, hour) = time.split_at(8);
    let (year, month, day) = (&day[..4], &day[4..6], &day[6..]);
    let (hour, minute, second) = (&hour[..2], &hour[2..4], &hour[4..]);
    Some(format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z"))
}

/// The certificates by the name that a client asks for (RFC 6066, section 3).
#[derive(Debug)]
struct ByName(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for ByName {
    /// The first that is for the name, else the first.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello.server_name();
        let asked = asked.and_then(|name| ServerName::try_from(name).ok());
        let is_for = |certified: &&Arc<CertifiedKey>| {
            let own = certified.end_entity_cert().ok();
            let own = own.and_then(|own| ParsedCertificate::try_from(own).ok());
            let both = own.zip(asked.as_ref());
            both.is_some_and(|(own, name)| verify_server_name(&own, name).is_ok())
        };
        let found = self.0.iter().find(is_for).or(self.0.first());
        found.cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_says_when_it_ends_to_be_good() {
        let until = |year| {
            let mut params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
            params.not_after = rcgen::date_time_ymd(year, 3, 4);
            let key = rcgen::KeyPair::generate().unwrap();
            let pem = params.self_signed(&key).unwrap().pem();
            expires(pem.as_bytes())
        };
        assert_eq!(until(2021).as_deref(), Some("2021-03-04T00:00:00Z"));
        assert_eq!(until(2077).as_deref(), Some("2077-03-04T00:00:00Z"));
        for none in [
            &b""[..],
            b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n",
        ] {
            assert_eq!(expires(none), None);
        }
        assert_eq!(element(b"\x30\x84\0\0\0\x01a"), None);
        assert_eq!(element(b"\x30\x05abc"), None);
    }
}
