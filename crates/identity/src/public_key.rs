//! Public keys: read from a JWK (RFC 7517, 7518, 8037) or from SubjectPublicKeyInfo, named by RFC 7638, and asked whether a
//! signature is theirs.
//!
//! Each key has its algorithms: what a header says can choose among them and cannot add one, so that a key for one
//! algorithm is never used for another. It refuses private and symmetric parts, weak RSA keys, and points that are not on their
//! curve.

use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{self, ParsedPublicKey, RsaParameters, VerificationAlgorithm};
use base::{Digest, JsonKind, JsonValue};

use crate::jose::{JoseError, base64url, needed, strict_object, string, to_base64url};
use crate::key::sha256;

/// Most bytes of an RSA modulus: 4,096 bits.
const RSA_BYTES_MAX: usize = 512;
/// Least bytes of an RSA modulus: 2,048 bits.
const RSA_BYTES_MIN: usize = 256;
/// Largest JWK, in bytes.
pub const JWK_BYTES_MAX: usize = 8 << 10;

/// A signature algorithm of JWS (RFC 7518 §3.1, RFC 8037 §3.1, RFC 9864 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JwsAlgorithm {
    Es256,
    Es384,
    /// Ed25519, written `EdDSA` or `Ed25519`.
    EdDsa,
    Rs256,
    Ps256,
}

/// The names of all algorithms that are taken, for metadata.
pub const JWS_ALGORITHMS: &[&str] = &["ES256", "ES384", "EdDSA", "Ed25519", "RS256", "PS256"];

impl JwsAlgorithm {
    /// The algorithm of this name; nothing for `none`, symmetric and unknown ones. Case counts (RFC 7515 §4.1.1).
    pub fn of(name: &str) -> Option<JwsAlgorithm> {
        Some(match name {
            "ES256" => JwsAlgorithm::Es256,
            "ES384" => JwsAlgorithm::Es384,
            "EdDSA" | "Ed25519" => JwsAlgorithm::EdDsa,
            "RS256" => JwsAlgorithm::Rs256,
            "PS256" => JwsAlgorithm::Ps256,
            _ => return None,
        })
    }
}

/// A public key that signatures can be checked by.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    kind: KeyKind,
    /// The one algorithm that its JWK names, where it names one.
    only: Option<JwsAlgorithm>,
}

/// The parts of a key, as its JWK has them.
#[derive(Clone, PartialEq, Eq)]
enum KeyKind {
    /// An uncompressed point: 0x04, x, y.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PublicKey({})", self.thumbprint_text())
    }
}

impl PublicKey {
    /// Reads the text of a JWK.
    ///
    /// # Errors
    /// [`JoseError`].
    pub fn from_jwk_text(text: &[u8]) -> Result<PublicKey, JoseError> {
        if text.len() > JWK_BYTES_MAX {
            return Err(JoseError::TooLarge);
        }
        PublicKey::from_jwk(strict_object(text)?.root())
    }

    /// Reads a JWK of an object that was read strictly.
    ///
    /// # Errors
    /// [`JoseError::PrivateKey`], [`JoseError::Key`], and those of its members.
    pub fn from_jwk(jwk: JsonValue<'_>) -> Result<PublicKey, JoseError> {
        if jwk.kind() != JsonKind::Object {
            return Err(JoseError::Json);
        }
        // RFC 7518 §6.2.2, §6.3.2, §6.4.1: what a public key never has.
        const PRIVATE: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];
        if PRIVATE.iter().any(|name| jwk.get(name).is_some()) {
            return Err(JoseError::PrivateKey);
        }
        check_use(jwk)?;
        let only = match string(jwk, "alg")? {
            None => None,
            Some(name) => Some(JwsAlgorithm::of(&name).ok_or(JoseError::Algorithm)?),
        };
        let key = PublicKey {
            kind: key_kind(jwk)?,
            only,
        };
        match only {
            Some(only) if !key.may(only) => Err(JoseError::KeyMismatch),
            _ => Ok(key),
        }
    }

    /// Reads SubjectPublicKeyInfo in DER (RFC 5280 §4.1), as certificates and requests for them have it.
    ///
    /// # Errors
    /// [`JoseError::Key`].
    pub fn from_spki(der: &[u8]) -> Result<PublicKey, JoseError> {
        let kind = crate::spki::key_kind_of(der)?;
        let kind = match kind {
            crate::spki::SpkiKey::P256(point) => point_kind(point, true)?,
            crate::spki::SpkiKey::P384(point) => point_kind(point, false)?,
            crate::spki::SpkiKey::Ed25519(bytes) => ed25519(bytes)?,
            crate::spki::SpkiKey::Rsa { n, e } => rsa(n, e)?,
        };
        Ok(PublicKey { kind, only: None })
    }

    /// The kind of the key, by the algorithm that comes first for it.
    pub fn first_algorithm(&self) -> JwsAlgorithm {
        match &self.kind {
            KeyKind::P256(_) => JwsAlgorithm::Es256,
            KeyKind::P384(_) => JwsAlgorithm::Es384,
            KeyKind::Ed25519(_) => JwsAlgorithm::EdDsa,
            KeyKind::Rsa { .. } => JwsAlgorithm::Rs256,
        }
    }

    /// Whether the key may be used with this algorithm.
    pub fn may(&self, algorithm: JwsAlgorithm) -> bool {
        let fits = match &self.kind {
            KeyKind::P256(_) => algorithm == JwsAlgorithm::Es256,
            KeyKind::P384(_) => algorithm == JwsAlgorithm::Es384,
            KeyKind::Ed25519(_) => algorithm == JwsAlgorithm::EdDsa,
            KeyKind::Rsa { .. } => {
                matches!(algorithm, JwsAlgorithm::Rs256 | JwsAlgorithm::Ps256)
            }
        };
        fits && self.only.is_none_or(|only| only == algorithm)
    }

    /// Checks a JWS signature, which of ECDSA is r and s one after the other (RFC 7518 §3.4).
    ///
    /// # Errors
    /// [`JoseError::KeyMismatch`] and [`JoseError::Signature`].
    pub fn verify(
        &self,
        algorithm: JwsAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), JoseError> {
        if !self.may(algorithm) {
            return Err(JoseError::KeyMismatch);
        }
        let by: &'static dyn VerificationAlgorithm = match algorithm {
            JwsAlgorithm::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
            JwsAlgorithm::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
            JwsAlgorithm::EdDsa => &signature::ED25519,
            JwsAlgorithm::Rs256 => {
                return self.verify_rsa(&signature::RSA_PKCS1_2048_8192_SHA256, message, signature);
            }
            JwsAlgorithm::Ps256 => {
                return self.verify_rsa(&signature::RSA_PSS_2048_8192_SHA256, message, signature);
            }
        };
        let (KeyKind::P256(bytes) | KeyKind::P384(bytes) | KeyKind::Ed25519(bytes)) = &self.kind
        else {
            return Err(JoseError::KeyMismatch);
        };
        by.verify_sig(bytes, message, signature)
            .map_err(|_| JoseError::Signature)
    }

    fn verify_rsa(
        &self,
        by: &RsaParameters,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), JoseError> {
        let KeyKind::Rsa { n, e } = &self.kind else {
            return Err(JoseError::KeyMismatch);
        };
        let key = PublicKeyComponents { n, e };
        key.verify(by, message, signature)
            .map_err(|_| JoseError::Signature)
    }

    /// Checks a signature of X.509, where that of ECDSA is DER (RFC 5758 §3.2) and RSA is PKCS #1 v1.5, with SHA-256 or
    /// SHA-384.
    pub(crate) fn verify_x509(
        &self,
        is_sha384: bool,
        message: &[u8],
        signed: &[u8],
    ) -> Result<(), JoseError> {
        let by: &'static dyn VerificationAlgorithm = match (&self.kind, is_sha384) {
            (KeyKind::P256(_), false) => &signature::ECDSA_P256_SHA256_ASN1,
            (KeyKind::P256(_), true) => &signature::ECDSA_P256_SHA384_ASN1,
            (KeyKind::P384(_), false) => &signature::ECDSA_P384_SHA256_ASN1,
            (KeyKind::P384(_), true) => &signature::ECDSA_P384_SHA384_ASN1,
            (KeyKind::Ed25519(_), _) => &signature::ED25519,
            (KeyKind::Rsa { .. }, false) => {
                return self.verify_rsa(&signature::RSA_PKCS1_2048_8192_SHA256, message, signed);
            }
            (KeyKind::Rsa { .. }, true) => {
                return self.verify_rsa(&signature::RSA_PKCS1_2048_8192_SHA384, message, signed);
            }
        };
        let (KeyKind::P256(bytes) | KeyKind::P384(bytes) | KeyKind::Ed25519(bytes)) = &self.kind
        else {
            return Err(JoseError::KeyMismatch);
        };
        by.verify_sig(bytes, message, signed)
            .map_err(|_| JoseError::Signature)
    }

    /// The JWK thumbprint (RFC 7638 §3): SHA-256 over the needed members, in their order, without spaces.
    pub fn thumbprint(&self) -> Digest {
        sha256(self.canonical_jwk().as_bytes())
    }

    /// The thumbprint in base64url, as `jkt` has it (RFC 9449 §6.1).
    pub fn thumbprint_text(&self) -> String {
        to_base64url(&self.thumbprint().0)
    }

    /// The key as a JWK of the needed members alone, in the order of RFC 7638.
    pub fn canonical_jwk(&self) -> String {
        let halves = |point: &[u8]| {
            let (x, y) = point[1..].split_at((point.len() - 1) / 2);
            (to_base64url(x), to_base64url(y))
        };
        match &self.kind {
            KeyKind::P256(point) => {
                let (x, y) = halves(point);
                format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#)
            }
            KeyKind::P384(point) => {
                let (x, y) = halves(point);
                format!(r#"{{"crv":"P-384","kty":"EC","x":"{x}","y":"{y}"}}"#)
            }
            KeyKind::Ed25519(bytes) => {
                let x = to_base64url(bytes);
                format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#)
            }
            KeyKind::Rsa { n, e } => {
                let (n, e) = (to_base64url(n), to_base64url(e));
                format!(r#"{{"e":"{e}","kty":"RSA","n":"{n}"}}"#)
            }
        }
    }
}

/// A key that is for encryption, or for signing alone, is no key here (RFC 7517 §4.2, §4.3). In a bundle of SPIFFE, `jwt-svid` is that of tokens,
/// and `x509-svid` that of certificates (SPIFFE Trust Domain and Bundle §4.2.2).
fn check_use(jwk: JsonValue<'_>) -> Result<(), JoseError> {
    if string(jwk, "use")?.is_some_and(|usage| usage != "sig" && usage != "jwt-svid") {
        return Err(JoseError::Key("is not for signatures"));
    }
    let Some(operations) = jwk.get("key_ops") else {
        return Ok(());
    };
    let verifies = |item: JsonValue<'_>| item.as_str().is_some_and(|op| op == "verify");
    match operations.items().any(verifies) {
        true => Ok(()),
        false => Err(JoseError::Key("is not for verifying")),
    }
}

fn key_kind(jwk: JsonValue<'_>) -> Result<KeyKind, JoseError> {
    let part = |name| base64url(&needed(jwk, name)?);
    match &*needed(jwk, "kty")? {
        "EC" => {
            let is_256 = match &*needed(jwk, "crv")? {
                "P-256" => true,
                "P-384" => false,
                _ => return Err(JoseError::Key("is on a curve that is not taken")),
            };
            let bytes = if is_256 { 32 } else { 48 };
            let (x, y) = (part("x")?, part("y")?);
            // RFC 7518 §6.2.1.2: the full size of a coordinate, with leading zeros.
            if x.len() != bytes || y.len() != bytes {
                return Err(JoseError::Key("has a coordinate of another length"));
            }
            point_kind([&[4], &x[..], &y[..]].concat(), is_256)
        }
        "OKP" => match &*needed(jwk, "crv")? {
            "Ed25519" => ed25519(part("x")?),
            _ => Err(JoseError::Key("is on a curve that is not taken")),
        },
        "RSA" => rsa(part("n")?, part("e")?),
        _ => Err(JoseError::Key("is of a kind that is not taken")),
    }
}

/// A point that is on its curve.
fn point_kind(point: Vec<u8>, is_256: bool) -> Result<KeyKind, JoseError> {
    let (by, bytes) = match is_256 {
        true => (&signature::ECDSA_P256_SHA256_FIXED, 65),
        false => (&signature::ECDSA_P384_SHA384_FIXED, 97),
    };
    if point.len() != bytes || point[0] != 4 || ParsedPublicKey::new(by, &point).is_err() {
        return Err(JoseError::Key("is no point of its curve"));
    }
    Ok(match is_256 {
        true => KeyKind::P256(point),
        false => KeyKind::P384(point),
    })
}

fn ed25519(bytes: Vec<u8>) -> Result<KeyKind, JoseError> {
    match bytes.len() == 32 && ParsedPublicKey::new(&signature::ED25519, &bytes).is_ok() {
        true => Ok(KeyKind::Ed25519(bytes)),
        false => Err(JoseError::Key("is no Ed25519 key")),
    }
}

/// A modulus of 2,048 to 4,096 bits, and an odd exponent of 65,537 or more, without leading zeros (RFC 7518 §6.3.1).
fn rsa(n: Vec<u8>, e: Vec<u8>) -> Result<KeyKind, JoseError> {
    let is_sized = (RSA_BYTES_MIN..=RSA_BYTES_MAX).contains(&n.len()) && n[0] != 0;
    // The first byte counts whole: 2,041 bits are taken for 2,048 by nobody.
    if !is_sized || (n.len() == RSA_BYTES_MIN && n[0] < 0x80) {
        return Err(JoseError::Key("is RSA of other than 2,048 to 4,096 bits"));
    }
    let is_good = (3..=4).contains(&e.len()) && e[0] != 0 && e[e.len() - 1] % 2 == 1;
    match is_good {
        true => Ok(KeyKind::Rsa { n, e }),
        false => Err(JoseError::Key("has an exponent that is not taken")),
    }
}

#[cfg(test)]
#[path = "public_key_tests.rs"]
mod tests;
