//! Client certificates (X.509, RFC 5280), read for who they name; and requests for them (PKCS #10, RFC 2986).
//!
//! A certificate that comes here was proved in a TLS handshake against the operator's authorities. What is asked here is whom
//! it names: one SPIFFE URI, as an X.509-SVID has it. It refuses certificates of authorities, and those that name two.

use base::{Digest, Name};
use x509_cert::Certificate;
use x509_cert::der::oid::{AssociatedOid, ObjectIdentifier};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAltName};
use x509_cert::request::{CertReq, ExtensionReq};

use crate::key::sha256;
use crate::public_key::PublicKey;
use crate::spki::der_of;

/// Largest certificate and largest request that is read, in bytes.
pub const CERTIFICATE_BYTES_MAX: usize = 16 << 10;
/// The attribute challengePassword (RFC 2985 §5.4.1).
const CHALLENGE_PASSWORD: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.7");
/// Longest SPIFFE id (SPIFFE-ID §2.3), in bytes.
const SPIFFE_BYTES_MAX: usize = 2048;

/// Why a certificate, or a request for one, is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateError {
    TooLarge,
    Malformed,
    /// It is one of an authority (X.509-SVID §4.1).
    IsAuthority,
    /// It has no URI, or it has several (X.509-SVID §2).
    NotOneUri,
    /// Its URI is no SPIFFE id.
    NotSpiffe,
    /// It asks for a name that is not its own.
    OtherName,
    /// It asks for more than to be a client: for the rights of an authority, or names of other kinds.
    TooMuch,
    /// Its key is of a kind or size that is not taken.
    WeakKey,
    /// It is not signed by its own key.
    NotItsKey,
    /// It brings a password (RFC 2985 §5.4.1) that nobody asked for, and that whoever sees it can read.
    Password,
    /// It asks for an extension that has to be understood, and is not (RFC 5280 §4.2).
    UnknownCritical,
}

impl std::fmt::Display for CertificateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            CertificateError::TooLarge => "it is too long",
            CertificateError::Malformed => "it is malformed",
            CertificateError::IsAuthority => "it is that of an authority",
            CertificateError::NotOneUri => "it has not exactly one URI among its names",
            CertificateError::NotSpiffe => "its URI is no SPIFFE id",
            CertificateError::OtherName => "it asks for another name than the invite's",
            CertificateError::TooMuch => "it asks for more than to be a client",
            CertificateError::WeakKey => {
                "its key is not P-256, P-384, Ed25519 or RSA of 2,048 bits"
            }
            CertificateError::NotItsKey => "it is not signed by its own key",
            CertificateError::Password => "it has a challenge password; make it without one",
            CertificateError::UnknownCritical => {
                "it asks for a critical extension that is not known here"
            }
        })
    }
}

impl std::error::Error for CertificateError {}

/// A SPIFFE id: a trust domain and a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpiffeId {
    trust_domain: String,
    path: String,
}

impl SpiffeId {
    /// Reads `spiffe://trust-domain/path` in its one form (SPIFFE-ID §2).
    pub fn read(text: &str) -> Option<SpiffeId> {
        if text.len() > SPIFFE_BYTES_MAX {
            return None;
        }
        let rest = text.strip_prefix("spiffe://")?;
        let (domain, path) = rest.split_once('/')?;
        let is_domain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_');
        let is_path = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/".contains(&byte);
        let segments_are_good = path.split('/').all(|one| !matches!(one, "" | "." | ".."));
        let is_good = !domain.is_empty()
            && domain.len() <= 255
            && domain.bytes().all(is_domain)
            && path.bytes().all(is_path)
            && segments_are_good;
        is_good.then(|| SpiffeId {
            trust_domain: domain.to_owned(),
            path: path.to_owned(),
        })
    }

    /// The id of an agent.
    pub fn of_agent(trust_domain: &str, agent: &Name) -> SpiffeId {
        SpiffeId {
            trust_domain: trust_domain.to_owned(),
            path: format!("agent/{agent}"),
        }
    }

    pub fn trust_domain(&self) -> &str {
        &self.trust_domain
    }

    /// The agent that it names, where its path is `agent/<name>`.
    pub fn agent(&self) -> Option<Name> {
        Name::new(self.path.strip_prefix("agent/")?)
    }
}

impl std::fmt::Display for SpiffeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "spiffe://{}/{}", self.trust_domain, self.path)
    }
}

/// What a client's certificate says.
#[derive(Clone, Debug)]
pub struct ClientCertificate {
    pub id: SpiffeId,
    /// SHA-256 of the certificate in DER: `x5t#S256` (RFC 8705 §3.1).
    pub thumbprint: Digest,
    /// When it ends to be good, in Unix milliseconds.
    pub expires_unix_ms: u64,
    /// The serial number in lower-case hex digits.
    pub serial: String,
}

/// SHA-256 of a certificate in DER: `x5t#S256` (RFC 8705 §3.1).
pub fn certificate_thumbprint(der: &[u8]) -> Digest {
    sha256(der)
}

impl ClientCertificate {
    /// Reads a certificate in DER.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn read(der: &[u8]) -> Result<ClientCertificate, CertificateError> {
        if der.len() > CERTIFICATE_BYTES_MAX {
            return Err(CertificateError::TooLarge);
        }
        let malformed = |_| CertificateError::Malformed;
        let certificate = Certificate::from_der(der).map_err(malformed)?;
        let signed = certificate.tbs_certificate();
        let constraints = signed.get_extension::<BasicConstraints>();
        let constraints = constraints.map_err(malformed)?;
        let usage = signed.get_extension::<KeyUsage>().map_err(malformed)?;
        if constraints.is_some_and(|(_, found)| found.ca)
            || usage.is_some_and(|(_, found)| found.key_cert_sign() || found.crl_sign())
        {
            return Err(CertificateError::IsAuthority);
        }
        let names = signed
            .get_extension::<SubjectAltName>()
            .map_err(malformed)?;
        let names = names.ok_or(CertificateError::NotOneUri)?.1;
        let until = signed.validity().not_after.to_unix_duration();
        let serial = signed.serial_number().as_bytes();
        Ok(ClientCertificate {
            id: one_id(&names.0)?,
            thumbprint: certificate_thumbprint(der),
            expires_unix_ms: u64::try_from(until.as_millis()).unwrap_or(u64::MAX),
            serial: serial.iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    }
}

/// The one URI among names, which has to be a SPIFFE id.
fn one_id(names: &[GeneralName]) -> Result<SpiffeId, CertificateError> {
    let mut uris = names.iter().filter_map(|name| match name {
        GeneralName::UniformResourceIdentifier(uri) => Some(uri.as_str()),
        _ => None,
    });
    match (uris.next(), uris.next()) {
        (Some(uri), None) => SpiffeId::read(uri).ok_or(CertificateError::NotSpiffe),
        _ => Err(CertificateError::NotOneUri),
    }
}

/// A request for a certificate, whose key signed it.
#[derive(Clone, Debug)]
pub struct CertificateRequest {
    pub key: PublicKey,
    /// The key as SubjectPublicKeyInfo in DER.
    pub spki: Vec<u8>,
    /// The bits of the key in it.
    pub public_bits: Vec<u8>,
}

impl CertificateRequest {
    /// Reads a request in DER for this id. It may name the id, or nothing; its subject is not looked at, because no
    /// certificate takes it over.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn read(der: &[u8], id: &SpiffeId) -> Result<CertificateRequest, CertificateError> {
        if der.len() > CERTIFICATE_BYTES_MAX {
            return Err(CertificateError::TooLarge);
        }
        let malformed = |_| CertificateError::Malformed;
        let request = CertReq::from_der(der).map_err(malformed)?;
        let spki = request.info.public_key.to_der().map_err(malformed)?;
        let key = PublicKey::from_spki(&spki).map_err(|_| CertificateError::WeakKey)?;
        let bits = request.info.public_key.subject_public_key.as_bytes();
        let public_bits = bits.ok_or(CertificateError::Malformed)?.to_vec();
        check_asked(&request, id)?;
        let signed = der_of(&request.info).map_err(|_| CertificateError::Malformed)?;
        let signature = request.signature.as_bytes();
        let signature = signature.ok_or(CertificateError::Malformed)?;
        key.verify_x509(is_sha384(&request)?, &signed, signature)
            .map_err(|_| CertificateError::NotItsKey)?;
        Ok(CertificateRequest {
            key,
            spki,
            public_bits,
        })
    }
}

/// Whether a request is signed with SHA-384. Others than SHA-256 and SHA-384, and Ed25519, are not taken.
fn is_sha384(request: &CertReq) -> Result<bool, CertificateError> {
    // RFC 5758 §3.2, RFC 4055 §5, RFC 8410 §3.
    match request.algorithm.oid.to_string().as_str() {
        "1.2.840.10045.4.3.2" | "1.2.840.113549.1.1.11" | "1.3.101.112" => Ok(false),
        "1.2.840.10045.4.3.3" | "1.2.840.113549.1.1.12" => Ok(true),
        _ => Err(CertificateError::WeakKey),
    }
}

/// What a request asks for by extensions: to be this id, and no more.
fn check_asked(request: &CertReq, id: &SpiffeId) -> Result<(), CertificateError> {
    let malformed = |_| CertificateError::Malformed;
    for attribute in request.info.attributes.iter() {
        if attribute.oid == CHALLENGE_PASSWORD {
            return Err(CertificateError::Password);
        }
        if attribute.oid != ExtensionReq::OID {
            continue;
        }
        for value in attribute.values.iter() {
            let der = value.to_der().map_err(malformed)?;
            let asked = ExtensionReq::from_der(&der).map_err(malformed)?;
            for extension in asked.0 {
                let bytes = extension.extn_value.as_bytes();
                if extension.extn_id == SubjectAltName::OID {
                    let names = SubjectAltName::from_der(bytes).map_err(malformed)?;
                    if names.0.len() != 1 {
                        return Err(CertificateError::TooMuch);
                    }
                    if one_id(&names.0)? != *id {
                        return Err(CertificateError::OtherName);
                    }
                } else if extension.extn_id == BasicConstraints::OID {
                    let asked = BasicConstraints::from_der(bytes).map_err(malformed)?;
                    if asked.ca {
                        return Err(CertificateError::TooMuch);
                    }
                } else if extension.extn_id == KeyUsage::OID {
                    let asked = KeyUsage::from_der(bytes).map_err(malformed)?;
                    if asked.key_cert_sign() || asked.crl_sign() {
                        return Err(CertificateError::TooMuch);
                    }
                } else if extension.critical && extension.extn_id != ExtendedKeyUsage::OID {
                    // What is not critical may be left out, and is.
                    return Err(CertificateError::UnknownCritical);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "certificate_tests.rs"]
mod tests;
