//! The client's side of TLS, made once for each scenario.
//!
//! The provider is named (aws-lc-rs), so that nothing depends on a process-wide default.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::check::One;
use super::file;
use super::read;
use crate::plan::Protocol;

/// The client's configuration where the targets speak TLS. The outer nothing is a problem.
pub(super) fn client(
    one: &mut One,
    secure: bool,
    protocol: &Protocol,
) -> Option<Option<Arc<ClientConfig>>> {
    if secure {
        return secured(one, protocol).map(Some);
    }
    if one.scenario.tls.is_some() {
        one.say("tls", "is for https, and the url is http", "write https://");
        return None;
    }
    Some(None)
}

fn secured(one: &mut One, protocol: &Protocol) -> Option<Arc<ClientConfig>> {
    let scenario = one.scenario;
    let empty = file::Tls::default();
    let tls = scenario.tls.as_ref().unwrap_or(&empty);
    let insecure = tls.insecure.is_some_and(|on| on.0);
    let provider = Arc::new(aws_lc_rs::default_provider());
    let roots = roots(one, tls, insecure);
    let identity = identity(one, tls);
    let (roots, identity) = (roots?, identity?);
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("the provider has cipher suites for TLS 1.2 and 1.3");
    let builder = match roots {
        Some(roots) => builder.with_root_certificates(roots),
        None => {
            let warning = "the targets' certificates are not checked (tls.insecure)";
            one.check.warnings.push(format!("{}: {warning}", one.path));
            let verifier = Arc::new(AcceptAny(provider));
            builder
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        }
    };
    let mut config = match identity {
        Some((chain, key)) => match builder.with_client_auth_cert(chain, key) {
            Ok(config) => config,
            Err(e) => {
                let help = "give the key that the certificate was made for";
                one.say(
                    "tls.key",
                    format!("does not fit the certificate: {e}"),
                    help,
                );
                return None;
            }
        },
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![match protocol {
        Protocol::Http2 { .. } => b"h2".to_vec(),
        _ => b"http/1.1".to_vec(),
    }];
    Some(Arc::new(config))
}

/// Whom to trust; nobody is asked when the inner one is nothing.
fn roots(one: &mut One, tls: &file::Tls, insecure: bool) -> Option<Option<RootCertStore>> {
    let Some(ca) = &tls.ca else {
        let web = RootCertStore::from_iter(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        return Some((!insecure).then_some(web));
    };
    if insecure {
        let help = "keep one of them";
        one.say("tls.insecure", "does not go together with ca", help);
        return None;
    }
    let certificates = certificates(one, "tls.ca", &ca.0)?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        if let Err(e) = roots.add(certificate) {
            one.say(
                "tls.ca",
                format!("is not a certificate of an authority: {e}"),
                "",
            );
            return None;
        }
    }
    Some(Some(roots))
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The client's certificate and key, where there are some.
fn identity(one: &mut One, tls: &file::Tls) -> Option<Option<Identity>> {
    match (&tls.cert, &tls.key) {
        (None, None) => Some(None),
        (Some(_), None) => {
            one.say("tls", "has a cert and no `key`", "name the key's file");
            None
        }
        (None, Some(_)) => {
            one.say(
                "tls",
                "has a key and no `cert`",
                "name the certificate's file",
            );
            None
        }
        (Some(cert), Some(key)) => {
            let chain = certificates(one, "tls.cert", &cert.0);
            let key = private_key(one, &key.0);
            Some(Some((chain?, key?)))
        }
    }
}

fn pem(one: &mut One, key: &str, file: &str) -> Option<Vec<u8>> {
    let at = config::Path([&one.path.0[..], &config::Path::of(key).0[..]].concat());
    match read::bytes(&one.check.beside(&at, file), read::PEM_BYTES_MAX) {
        Ok(pem) => Some(pem),
        Err(message) => {
            one.say(key, message, "");
            None
        }
    }
}

fn certificates(one: &mut One, key: &str, file: &str) -> Option<Vec<CertificateDer<'static>>> {
    let pem = pem(one, key, file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Some(found),
        Ok(_) => {
            one.say(
                key,
                "holds no certificate (-----BEGIN CERTIFICATE-----)",
                "",
            );
            None
        }
        Err(e) => {
            one.say(key, format!("is not PEM: {e}"), "");
            None
        }
    }
}

fn private_key(one: &mut One, file: &str) -> Option<PrivateKeyDer<'static>> {
    let pem = pem(one, "tls.key", file)?;
    match PrivateKeyDer::from_pem_slice(&pem) {
        Ok(key) => Some(key),
        // What the file holds is not repeated.
        Err(_) => {
            let help = "give a key in PEM without a password (-----BEGIN PRIVATE KEY-----)";
            one.say("tls.key", "holds no private key that can be read", help);
            None
        }
    }
}

/// Accepts every certificate, for targets whose certificate nobody signed. Signatures are still checked.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
