//! TLS that ends here in the place of a site's: an authority of this gateway's own, and a certificate for each host.
//!
//! It exists so that an operator can have what agents say inside of TLS judged. Clients that trust the authority take its
//! certificates for the site's; nobody else does. The authority is one that was made here: a certificate that signs for
//! anything else is refused. The leaves of all hosts have one key, made when the process starts and never written down.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use aws_lc_rs::digest;
use base::Secret;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{RootCertStore, ServerConfig};
use tokio::io::AsyncReadExt;
use tokio_rustls::TlsAcceptor;

use crate::h1::Stream;
use crate::takeover::Tunnel;
use crate::tls;

/// How long an authority is good, in days.
const AUTHORITY_DAYS: u64 = 730;
/// How long the certificate of a host is good, and after how long another one is made, in days.
const LEAF_DAYS: u64 = 30;
const LEAF_FRESH: Duration = Duration::from_secs(24 * 3600);
/// How long before it is made a certificate is good, in days: clocks differ.
const EARLIER_DAYS: u64 = 1;
/// Certificates of hosts that are kept; the oldest goes first.
const LEAVES_MAX: usize = 1024;
/// Bytes of a client's first TLS message. Real ones have 2 KB at most.
const HELLO_BYTES_MAX: usize = 16 << 10;
/// First byte of a TLS record that holds a handshake (RFC 8446 §5.1).
const TLS_HANDSHAKE: u8 = 22;
/// What an authority's name begins with.
const AUTHORITY_NAME: &str = "weir interception ";
/// Characters of a name (RFC 5280, ub-common-name).
const COMMON_NAME_MAX: usize = 64;

/// Who certifies hosts to the clients of this gateway.
pub struct InterceptAuthority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    leaf_key: KeyPair,
    signing: Arc<dyn SigningKey>,
    config: ServerConfig,
    leaves: Mutex<Leaves>,
}

#[derive(Default)]
struct Leaves {
    /// How many were signed.
    made: u64,
    by_host: HashMap<Box<str>, (Arc<CertifiedKey>, Instant)>,
    order: VecDeque<Box<str>>,
}

/// What a client's first TLS message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeekedHello {
    /// The server that it asks for (RFC 6066, section 3), in lower case.
    pub server_name: Option<String>,
}

impl InterceptAuthority {
    /// Makes an authority: its certificate and its key, as PEM.
    ///
    /// # Errors
    /// The cryptography failed.
    pub fn make() -> Result<(String, Secret), String> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|e| e.to_string())?;
        let mut params = authority_params(&key)?;
        valid_for(&mut params, AUTHORITY_DAYS);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let made = params.self_signed(&key).map_err(|e| e.to_string())?;
        Ok((made.pem(), Secret::new(key.serialize_pem())))
    }

    /// Reads an authority that was made by [`InterceptAuthority::make`].
    ///
    /// # Errors
    /// What is wrong with the texts; the key is not repeated.
    pub fn read(certificate: &[u8], key: &Secret) -> Result<InterceptAuthority, String> {
        let certificate = CertificateDer::from_pem_slice(certificate)
            .map_err(|error| format!("the certificate: {error}"))?;
        let key = KeyPair::from_pem(key.expose())
            .map_err(|_| "the key is no private key that can be used".to_owned())?;
        let params = authority_params(&key)?;
        let holds = |part: &[u8]| memchr::memmem::find(&certificate, part).is_some();
        let name = authority_name(&key);
        if !holds(key.der_bytes()) || !holds(name.as_bytes()) {
            let why = "the certificate is no authority for interception that weir made with this key; make one with weir web ca init";
            return Err(why.to_owned());
        }
        // A store takes only what can be an authority.
        let mut roots = RootCertStore::empty();
        let added = roots.add(certificate.clone());
        added.map_err(|error| format!("the certificate: {error}"))?;
        let leaf_key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|e| e.to_string())?;
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(leaf_key.serialize_der()));
        let provider = tls::provider();
        let signing = provider.key_provider.load_private_key(der);
        Ok(InterceptAuthority {
            issuer: Issuer::new(params, key),
            signing: signing.map_err(|error| error.to_string())?,
            config: tls::intercepting(provider).map_err(|error| error.to_string())?,
            certificate,
            leaf_key,
            leaves: Mutex::default(),
        })
    }

    /// The SHA-256 of the certificate, as programs show it: pairs of hex digits.
    pub fn fingerprint(&self) -> String {
        let digest = digest::digest(&digest::SHA256, &self.certificate);
        let pairs = digest.as_ref().iter().map(|byte| format!("{byte:02X}"));
        pairs.collect::<Vec<_>>().join(":")
    }

    /// How many certificates of hosts were signed, and how many are kept.
    pub fn leaves(&self) -> (u64, usize) {
        let leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        (leaves.made, leaves.by_host.len())
    }

    /// Ends the client's TLS in a tunnel as the host would. Waits as long as the client does: the caller sets a bound.
    ///
    /// # Errors
    /// The client is no TLS client, or does not trust the authority; or the connection broke.
    pub async fn accept(&self, tunnel: Tunnel, host: &str) -> io::Result<Tunnel> {
        let leaf = self.leaf(host).map_err(io::Error::other)?;
        let mut config = self.config.clone();
        config.cert_resolver = Arc::new(OneLeaf(leaf));
        let (thread, settings) = tunnel.watched_by();
        let stream = TlsAcceptor::from(Arc::new(config)).accept(tunnel).await?;
        let stream = Stream::Inner(Box::new(stream));
        Ok(Tunnel::new((stream, Vec::new()), &thread, &settings))
    }

    /// The certificate of a host.
    fn leaf(&self, host: &str) -> Result<Arc<CertifiedKey>, String> {
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((leaf, made)) = leaves.by_host.get(host)
            && made.elapsed() < LEAF_FRESH
        {
            return Ok(Arc::clone(leaf));
        }
        let leaf = Arc::new(self.sign(host)?);
        leaves.made += 1;
        leaves.keep(host, &leaf);
        Ok(leaf)
    }

    fn sign(&self, host: &str) -> Result<CertifiedKey, String> {
        let mut params = CertificateParams::default();
        let name = match host.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(host.try_into().map_err(|_| "no host name".to_owned())?),
        };
        params.subject_alt_names = vec![name];
        params.distinguished_name = DistinguishedName::new();
        if host.len() <= COMMON_NAME_MAX {
            params.distinguished_name.push(DnType::CommonName, host);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        valid_for(&mut params, LEAF_DAYS);
        let leaf = params.signed_by(&self.leaf_key, &self.issuer);
        let leaf = leaf.map_err(|error| error.to_string())?.der().clone();
        let chain = vec![leaf, self.certificate.clone()];
        Ok(CertifiedKey::new(chain, Arc::clone(&self.signing)))
    }
}

impl Leaves {
    fn keep(&mut self, host: &str, leaf: &Arc<CertifiedKey>) {
        let entry = (Arc::clone(leaf), Instant::now());
        if self.by_host.insert(host.into(), entry).is_some() {
            return;
        }
        self.order.push_back(host.into());
        if self.order.len() > LEAVES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_host.remove(&oldest);
        }
    }
}

/// The name of the authority with this key, so that the two can be known for each other's.
fn authority_name(key: &KeyPair) -> String {
    let digest = digest::digest(&digest::SHA256, key.der_bytes());
    let short = digest.as_ref().iter().take(8);
    let short: String = short.map(|byte| format!("{byte:02x}")).collect();
    format!("{AUTHORITY_NAME}{short}")
}

fn authority_params(key: &KeyPair) -> Result<CertificateParams, String> {
    let mut params = CertificateParams::new(Vec::new()).map_err(|error| error.to_string())?;
    params.distinguished_name = DistinguishedName::new();
    let name = authority_name(key);
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// From yesterday on, for so many days.
fn valid_for(params: &mut CertificateParams, days: u64) {
    let day = |days: u64| Duration::from_secs(days * 24 * 3600);
    let now = SystemTime::now();
    params.not_before = (now - day(EARLIER_DAYS)).into();
    params.not_after = (now + day(days)).into();
}

#[derive(Debug)]
struct OneLeaf(Arc<CertifiedKey>);

impl ResolvesServerCert for OneLeaf {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

impl fmt::Debug for InterceptAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InterceptAuthority")
    }
}

impl Tunnel {
    /// Reads what the client's first TLS message says, over however many segments it comes, and leaves it to be read
    /// again.
    ///
    /// # Errors
    /// `InvalidData` where the client does not speak TLS, `TimedOut` after so many milliseconds.
    pub async fn peek_hello(&mut self, ms: u64) -> io::Result<PeekedHello> {
        let peeked = tokio::time::timeout(Duration::from_millis(ms), self.hello()).await;
        peeked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Whether the client begins as TLS does; what it said is left to be read again.
    ///
    /// # Errors
    /// `UnexpectedEof` where it says nothing, `TimedOut` after so many milliseconds.
    pub async fn peek_is_tls(&mut self, ms: u64) -> io::Result<bool> {
        let mut piece = [0; 4096];
        let came = tokio::time::timeout(Duration::from_millis(ms), self.read(&mut piece)).await;
        match came.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => {
                self.unread(piece[..bytes].to_vec());
                Ok(piece[0] == TLS_HANDSHAKE)
            }
        }
    }

    async fn hello(&mut self) -> io::Result<PeekedHello> {
        let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
        let (mut came, mut acceptor) = (Vec::new(), rustls::server::Acceptor::default());
        let mut piece = [0; 4096];
        loop {
            let bytes = self.read(&mut piece).await?;
            if bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            came.extend_from_slice(&piece[..bytes]);
            if came[0] != TLS_HANDSHAKE {
                return Err(bad("it does not begin as TLS does"));
            }
            if came.len() > HELLO_BYTES_MAX {
                return Err(bad("its first message is too long"));
            }
            let mut rest = &piece[..bytes];
            while !rest.is_empty() {
                acceptor.read_tls(&mut rest)?;
            }
            let accepted = acceptor.accept();
            let accepted = accepted.map_err(|(error, _)| bad(&error.to_string()))?;
            if let Some(accepted) = accepted {
                let name = accepted
                    .client_hello()
                    .server_name()
                    .map(str::to_ascii_lowercase);
                self.unread(came);
                return Ok(PeekedHello { server_name: name });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority() -> (String, InterceptAuthority) {
        let (pem, key) = InterceptAuthority::make().unwrap();
        let authority = InterceptAuthority::read(pem.as_bytes(), &key).unwrap();
        (pem, authority)
    }

    #[test]
    fn a_leaf_is_good_for_its_host_to_who_trusts_the_authority() {
        let (pem, authority) = authority();
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier =
            rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.build().unwrap();
        let good = |leaf: &CertifiedKey, host: &str| {
            use rustls::client::danger::ServerCertVerifier as _;
            let name = rustls::pki_types::ServerName::try_from(host.to_owned()).unwrap();
            let now = rustls::pki_types::UnixTime::now();
            verifier
                .verify_server_cert(&leaf.cert[0], &leaf.cert[1..], &name, &[], now)
                .is_ok()
        };
        let long = format!("{}.example", "a".repeat(63));
        for host in ["a.example", "127.0.0.1", "2001:db8::1", &long] {
            let leaf = authority.leaf(host).unwrap();
            assert!(good(&leaf, host), "{host}");
            assert!(!good(&leaf, "other.example"), "{host}");
        }
    }

    #[test]
    fn many_hosts_are_few_leaves() {
        let (_, authority) = authority();
        for host in 0..LEAVES_MAX + 200 {
            authority.leaf(&format!("h{host}.example")).unwrap();
        }
        let one = authority.leaf("h1200.example").unwrap();
        assert!(Arc::ptr_eq(&one, &authority.leaf("h1200.example").unwrap()));
        let leaves = authority.leaves.lock().unwrap();
        assert_eq!(
            (leaves.by_host.len(), leaves.order.len()),
            (LEAVES_MAX, LEAVES_MAX)
        );
    }

    #[test]
    fn only_an_authority_of_our_own_is_taken() {
        let (pem, _) = InterceptAuthority::make().unwrap();
        let (other, key) = InterceptAuthority::make().unwrap();
        assert!(
            InterceptAuthority::read(pem.as_bytes(), &key)
                .unwrap_err()
                .contains("weir web ca init")
        );
        assert!(InterceptAuthority::read(b"", &key).is_err());
        let no_key = Secret::new("nothing".to_owned());
        assert!(InterceptAuthority::read(other.as_bytes(), &no_key).is_err());
    }
}
