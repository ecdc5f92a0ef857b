//! SubjectPublicKeyInfo (RFC 5280 §4.1.2.7), read to the parts of a key.

use x509_cert::der::asn1::UintRef;
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::{Decode, Encode, Reader, SliceReader};
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use crate::jose::JoseError;

const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// A key as it stands there, not checked yet.
pub(crate) enum SpkiKey {
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
    Rsa { n: Vec<u8>, e: Vec<u8> },
}

pub(crate) fn key_kind_of(der: &[u8]) -> Result<SpkiKey, JoseError> {
    let malformed = || JoseError::Key("is malformed");
    let spki = SubjectPublicKeyInfoOwned::from_der(der).map_err(|_| malformed())?;
    let bytes = spki.subject_public_key.as_bytes().ok_or_else(malformed)?;
    let algorithm = spki.algorithm;
    if algorithm.oid == EC {
        let curve = algorithm.parameters.ok_or_else(malformed)?;
        let curve: ObjectIdentifier = curve.decode_as().map_err(|_| malformed())?;
        return match curve {
            P256 => Ok(SpkiKey::P256(bytes.to_vec())),
            P384 => Ok(SpkiKey::P384(bytes.to_vec())),
            _ => Err(JoseError::Key("is on a curve that is not taken")),
        };
    }
    match algorithm.oid {
        ED25519 => Ok(SpkiKey::Ed25519(bytes.to_vec())),
        RSA => rsa_parts(bytes).ok_or_else(malformed),
        _ => Err(JoseError::Key("is of a kind that is not taken")),
    }
}

/// RSAPublicKey (RFC 8017 §A.1.1).
fn rsa_parts(der: &[u8]) -> Option<SpkiKey> {
    let mut reader = SliceReader::new(der).ok()?;
    let (n, e) = reader
        .sequence(|inner| {
            let n = UintRef::decode(inner)?;
            let e = UintRef::decode(inner)?;
            Ok::<_, x509_cert::der::Error>((n.as_bytes().to_vec(), e.as_bytes().to_vec()))
        })
        .ok()?;
    reader.is_finished().then_some(SpkiKey::Rsa { n, e })
}

/// A part of a certificate in DER, as it was signed.
pub(crate) fn der_of(part: &impl Encode) -> Result<Vec<u8>, JoseError> {
    part.to_der().map_err(|_| JoseError::Key("is malformed"))
}
