//! The target's certificate: given, or made at the start.

use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use super::{Error, Tls};

/// What a made certificate is good for.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

pub(super) struct Server {
    pub(super) config: Arc<ServerConfig>,
    pub(super) ca_pem: Option<String>,
}

pub(super) fn server(tls: &Tls) -> Result<Server, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let (chain, key, ca_pem) = match &tls.files {
        Some((chain, key)) => (certificates(chain)?, key_of(key)?, None),
        None => {
            made().map_err(|error| Error::Tls(format!("cannot make a certificate: {error}")))?
        }
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Tls(error.to_string()))?;
    let builder = match &tls.client_ca {
        Some(file) => builder.with_client_cert_verifier(verifier(file, provider)?),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| Error::Tls(format!("the certificate and the key do not fit: {error}")))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Server {
        config: Arc::new(config),
        ca_pem,
    })
}

type Made = (
    Vec<CertificateDer<'static>>,
    PrivateKeyDer<'static>,
    Option<String>,
);

/// An authority, a certificate by it for [`NAMES`], and its key.
fn made() -> Result<Made, rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::<String>::new())?;
    authority
        .distinguished_name
        .push(DnType::CommonName, "weir lab target authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let mut own = CertificateParams::new(NAMES.map(str::to_owned))?;
    own.distinguished_name
        .push(DnType::CommonName, "weir lab target");
    own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let own = own.signed_by(&key, &authority)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok((vec![own.der().clone()], key, Some(authority.pem())))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let wrong = |what: &dyn std::fmt::Display| {
        Error::Tls(format!(
            "cannot read certificates of {}: {what}",
            file.display()
        ))
    };
    let certificates: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| wrong(&error))?;
    if certificates.is_empty() {
        return Err(wrong(&"there is none in it; it must be PEM"));
    }
    Ok(certificates)
}

fn key_of(file: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| {
        Error::Tls(format!(
            "cannot read a private key of {}: {error}",
            file.display()
        ))
    })
}

fn verifier(
    file: &Path,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, Error> {
    let wrong = |error: &dyn std::fmt::Display| {
        Error::Tls(format!(
            "cannot use the authorities of {}: {error}",
            file.display()
        ))
    };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| wrong(&error))
}
