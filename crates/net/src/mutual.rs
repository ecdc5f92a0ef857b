//! TLS between two weirs: both sides show a certificate, and each checks the other's.
//!
//! It exists for a path that carries TCP as it is, where a hop needs no seal above TLS. It is TLS 1.3 alone (RFC 8446).
//! What we dial agrees on keys by X25519MLKEM768 and by nothing else, so that what is captured today stays closed to
//! the computers of tomorrow; what is accepted prefers it, and takes X25519 and P-256 from clients that are not ours. It
//! refuses resumption and early data: each connection shows who is at its ends anew, and nothing can be replayed. It
//! trusts the authorities that it is given and no public ones.

use std::fmt;
use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime,
};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    NoServerSessionStorage, ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier,
};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsStream};
use zeroize::Zeroize;

use crate::h1::{ALPN_HTTP2, Stream};

/// Most certificates of a chain, and of authorities, and most revocation lists.
const CERTIFICATES_MAX: usize = 64;

/// A certificate of ours with its key, and whose certificates we take. Its key is wiped when it is dropped.
pub struct Credentials {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    roots: Arc<RootCertStore>,
    revoked: Vec<CertificateRevocationListDer<'static>>,
}

/// What is wrong with credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialsError {
    /// What should be certificates is none, or too many.
    Certificate(String),
    /// What should be a private key is none, or not that of the certificate.
    Key(String),
    /// What should be authorities are none.
    Authority(String),
    /// What should be revocation lists are none, or too many.
    Revoked(String),
}

impl fmt::Display for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CredentialsError::Certificate(why) => write!(f, "the certificate: {why}"),
            CredentialsError::Key(why) => write!(f, "the key: {why}"),
            CredentialsError::Authority(why) => write!(f, "the authorities: {why}"),
            CredentialsError::Revoked(why) => write!(f, "the revocation lists: {why}"),
        }
    }
}

impl std::error::Error for CredentialsError {}

impl Drop for Credentials {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

impl Credentials {
    /// Reads PEM: our certificate with those between it and its authority, its key, and the authorities.
    ///
    /// # Errors
    /// The first problem.
    pub fn new(certificate: &[u8], key: &[u8], ca: &[u8]) -> Result<Credentials, CredentialsError> {
        let chain = certificates(certificate).map_err(CredentialsError::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| CredentialsError::Key(error.to_string()))?;
        let mut roots = RootCertStore::empty();
        for authority in certificates(ca).map_err(CredentialsError::Authority)? {
            let added = roots.add(authority);
            added.map_err(|error| CredentialsError::Authority(error.to_string()))?;
        }
        Ok(Credentials {
            chain,
            key,
            roots: Arc::new(roots),
            revoked: Vec::new(),
        })
    }

    /// The same, with the authorities' revocation lists (PEM, RFC 5280 §5). From then on each certificate between the
    /// other side's and an authority has to be on a list's side: one that no list speaks of is refused, and so is every
    /// one once its list's next update is over.
    ///
    /// # Errors
    /// There is no list in it, or there are too many. What is wrong inside of one is found when it is used.
    pub fn with_revoked(mut self, lists: &[u8]) -> Result<Credentials, CredentialsError> {
        self.revoked = several(CertificateRevocationListDer::pem_slice_iter(lists))
            .map_err(CredentialsError::Revoked)?;
        Ok(self)
    }

    fn client(&self) -> Result<ClientConfig, CredentialsError> {
        let roots = Arc::clone(&self.roots);
        let mut verifier = WebPkiServerVerifier::builder_with_provider(roots, dialled());
        if !self.revoked.is_empty() {
            verifier = verifier
                .with_crls(self.revoked.clone())
                .enforce_revocation_expiration();
        }
        let mut config = ClientConfig::builder_with_provider(dialled())
            .with_protocol_versions(&[&TLS13])
            .map_err(key_error)?
            .with_webpki_verifier(verifier.build().map_err(verifier_error)?)
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())
            .map_err(key_error)?;
        config.alpn_protocols = alpn();
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, CredentialsError> {
        let roots = Arc::clone(&self.roots);
        let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, accepted());
        if !self.revoked.is_empty() {
            verifier = verifier
                .with_crls(self.revoked.clone())
                .enforce_revocation_expiration();
        }
        verifier.build().map_err(verifier_error)
    }

    fn server(
        &self,
        verifier: Arc<dyn ClientCertVerifier>,
    ) -> Result<ServerConfig, CredentialsError> {
        let mut config = ServerConfig::builder_with_provider(accepted())
            .with_protocol_versions(&[&TLS13])
            .map_err(key_error)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .map_err(key_error)?;
        config.alpn_protocols = alpn();
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        Ok(config)
    }
}

fn key_error(error: rustls::Error) -> CredentialsError {
    CredentialsError::Key(error.to_string())
}

fn verifier_error(error: VerifierBuilderError) -> CredentialsError {
    let why = error.to_string();
    match error {
        VerifierBuilderError::InvalidCrl(_) => CredentialsError::Revoked(why),
        _ => CredentialsError::Authority(why),
    }
}

fn alpn() -> Vec<Vec<u8>> {
    vec![b"http/1.1".to_vec()]
}

/// How keys are agreed on with what we dial.
fn dialled() -> Arc<CryptoProvider> {
    provider(vec![kx_group::X25519MLKEM768])
}

/// How keys are agreed on with what dials us: by the first of these that the client offers.
fn accepted() -> Arc<CryptoProvider> {
    provider(vec![
        kx_group::X25519MLKEM768,
        kx_group::X25519,
        kx_group::SECP256R1,
    ])
}

pub(crate) fn provider(kx_groups: Vec<&'static dyn SupportedKxGroup>) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        kx_groups,
        ..default_provider()
    })
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    several(CertificateDer::pem_slice_iter(pem))
}

/// What was found in a PEM text: at least one, and no more than the bound.
pub(crate) fn several<T>(
    found: impl Iterator<Item = Result<T, pem::Error>>,
) -> Result<Vec<T>, String> {
    let found: Result<Vec<_>, _> = found.take(CERTIFICATES_MAX + 1).collect();
    match found {
        Err(error) => Err(error.to_string()),
        Ok(found) if found.is_empty() => Err("there is none in it".to_owned()),
        Ok(found) if found.len() > CERTIFICATES_MAX => {
            Err(format!("there are more than {CERTIFICATES_MAX} in it"))
        }
        Ok(found) => Ok(found),
    }
}

/// How one target is dialled: with a certificate of ours. It can be put in the place of the one before.
pub struct MutualClient(ArcSwap<ClientConfig>);

impl MutualClient {
    /// # Errors
    /// The key is not that of the certificate.
    pub fn new(credentials: &Credentials) -> Result<MutualClient, CredentialsError> {
        Ok(MutualClient(ArcSwap::from_pointee(credentials.client()?)))
    }

    /// Puts other credentials in force, from the next connection on.
    ///
    /// # Errors
    /// As of [`MutualClient::new`]; nothing was changed then.
    pub fn replace(&self, credentials: &Credentials) -> Result<(), CredentialsError> {
        self.0.store(Arc::new(credentials.client()?));
        Ok(())
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        self.0.load_full()
    }
}

impl fmt::Debug for MutualClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

/// How connections are accepted: with a certificate of ours, and only from who shows one of the authorities'.
pub struct Acceptor {
    config: Arc<ServerConfig>,
    /// The same, where clients may agree on HTTP/2.
    with_http2: Arc<ServerConfig>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Acceptor {
    /// # Errors
    /// The key is not that of the certificate, or the authorities cannot be used.
    pub fn new(credentials: &Credentials) -> Result<Acceptor, CredentialsError> {
        let verifier = credentials.verifier()?;
        let config = credentials.server(Arc::clone(&verifier))?;
        let mut with_http2 = config.clone();
        with_http2.alpn_protocols.insert(0, ALPN_HTTP2.to_vec());
        Ok(Acceptor {
            config: Arc::new(config),
            with_http2: Arc::new(with_http2),
            verifier,
        })
    }

    /// Shakes hands; with `http2` the client may agree on HTTP/2. Waits as long as the client does: a caller that needs a bound sets one.
    ///
    /// # Errors
    /// The client is no TLS 1.3 client, shows no certificate, or none that is good; or the connection broke.
    pub async fn accept(&self, stream: TcpStream, http2: bool) -> io::Result<(Stream, Shown)> {
        let acceptor = TlsAcceptor::from(Arc::clone(match http2 {
            true => &self.with_http2,
            false => &self.config,
        }));
        let stream = acceptor.accept(stream).await?;
        let chain = stream.get_ref().1.peer_certificates();
        let shown = Shown::new(chain.unwrap_or_default());
        let stream = Stream::Tls(Box::new(TlsStream::Server(stream)));
        Ok((stream, shown))
    }

    /// Whether the certificate that was shown is good at this time: of our authorities, and not expired.
    pub fn takes(&self, shown: &Shown, unix_ms: u64) -> bool {
        let Some((own, between)) = shown.0.split_first() else {
            return false;
        };
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_millis(unix_ms));
        self.verifier.verify_client_cert(own, between, now).is_ok()
    }
}

/// The certificates that a client showed, its own first.
#[derive(Clone, Debug)]
pub struct Shown(Vec<CertificateDer<'static>>);

impl Shown {
    pub(crate) fn new(chain: &[CertificateDer<'_>]) -> Shown {
        Shown(chain.iter().map(|one| one.clone().into_owned()).collect())
    }

    /// The client's own certificate, in DER.
    pub fn leaf(&self) -> Option<&[u8]> {
        self.0.first().map(|leaf| &**leaf)
    }

    /// The first of these names that the certificate is for (RFC 6125, RFC 9525): of its subject's alternative names.
    pub fn name_among<'n>(&self, names: impl IntoIterator<Item = &'n PeerName>) -> Option<usize> {
        let own = ParsedCertificate::try_from(self.0.first()?).ok()?;
        let mut names = names.into_iter();
        names.position(|name| verify_server_name(&own, &name.0).is_ok())
    }
}

/// The name that a certificate has to be for: a DNS name or an IP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerName(ServerName<'static>);

impl PeerName {
    /// Nothing if it is no such name. A wildcard is none: a peer is one.
    pub fn new(text: &str) -> Option<PeerName> {
        ServerName::try_from(text.to_owned()).ok().map(PeerName)
    }
}
