//! A compact JWS (RFC 7515 §7.1), read strictly.
//!
//! What is read here is not trusted yet: [`SignedText::verify`] says whether a key signed it. It refuses `none` and symmetric
//! algorithms, `crit`, and headers that bring or name a key, but for the `jwk` of a DPoP proof.

use base::{Json, JsonKind, JsonValue};

use crate::jose::{JWS_BYTES_MAX, JoseError, base64url, needed, strict_object, string};
use crate::public_key::{JwsAlgorithm, PublicKey};

/// Most characters of a kid.
const KID_CHARS_MAX: usize = 256;

/// A compact JWS whose parts were read, and whose signature was not checked.
pub struct SignedText<'t> {
    pub header: JwsHeader,
    /// The payload, decoded.
    payload: Vec<u8>,
    signature: Vec<u8>,
    /// What was signed: the first two parts with the point between.
    signed: &'t str,
}

/// The header of a JWS (RFC 7515 §4).
pub struct JwsHeader {
    pub algorithm: JwsAlgorithm,
    pub kid: Option<String>,
    /// In lower case and without `application/` (RFC 7515 §4.1.9).
    pub typ: Option<String>,
    /// The key in it, where one may be.
    pub jwk: Option<PublicKey>,
}

/// Whether a header may bring its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderKey {
    /// As those of DPoP proofs do (RFC 9449 §4.2).
    Needed,
    Refused,
}

impl<'t> SignedText<'t> {
    /// Reads the parts.
    ///
    /// # Errors
    /// [`JoseError`].
    pub fn read(text: &'t str, header_key: HeaderKey) -> Result<SignedText<'t>, JoseError> {
        if text.len() > JWS_BYTES_MAX {
            return Err(JoseError::TooLarge);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(JoseError::NotCompact)?;
        let (header, payload) = signed.split_once('.').ok_or(JoseError::NotCompact)?;
        if payload.contains('.') {
            return Err(JoseError::NotCompact);
        }
        let header = read_header(&base64url(header)?, header_key)?;
        Ok(SignedText {
            header,
            payload: base64url(payload)?,
            signature: base64url(signature)?,
            signed,
        })
    }

    /// Checks that this key signed it.
    ///
    /// # Errors
    /// [`JoseError::KeyMismatch`] and [`JoseError::Signature`].
    pub fn verify(&self, key: &PublicKey) -> Result<(), JoseError> {
        key.verify(
            self.header.algorithm,
            self.signed.as_bytes(),
            &self.signature,
        )
    }

    /// The payload as a JSON object without members that are written twice.
    ///
    /// # Errors
    /// [`JoseError`].
    pub fn claims(&self) -> Result<Json<'_>, JoseError> {
        strict_object(&self.payload)
    }

    /// The payload's bytes.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }
}

fn read_header(text: &[u8], header_key: HeaderKey) -> Result<JwsHeader, JoseError> {
    let json = strict_object(text)?;
    let header = json.root();
    let algorithm = JwsAlgorithm::of(&needed(header, "alg")?).ok_or(JoseError::Algorithm)?;
    if header.get("crit").is_some() || header.get("b64").is_some() {
        return Err(JoseError::Critical);
    }
    // `x5t` and `x5t#S256` only name a certificate, and nothing here follows them.
    if ["jku", "x5u", "x5c"]
        .iter()
        .any(|name| header.get(name).is_some())
    {
        return Err(JoseError::EmbeddedKey);
    }
    let jwk = match (header.get("jwk"), header_key) {
        (Some(_), HeaderKey::Refused) => return Err(JoseError::EmbeddedKey),
        (None, HeaderKey::Refused) => None,
        (None, HeaderKey::Needed) => return Err(JoseError::Key("is missing in the header")),
        (Some(jwk), HeaderKey::Needed) if jwk.kind() == JsonKind::Object => {
            Some(PublicKey::from_jwk(jwk)?)
        }
        (Some(_), HeaderKey::Needed) => return Err(JoseError::Json),
    };
    let kid = string(header, "kid")?.map(|kid| kid.into_owned());
    if kid.as_ref().is_some_and(|kid| kid.len() > KID_CHARS_MAX) {
        return Err(JoseError::TooLarge);
    }
    let typ = string(header, "typ")?.map(|typ| {
        let typ = typ.to_ascii_lowercase();
        typ.strip_prefix("application/").unwrap_or(&typ).to_owned()
    });
    Ok(JwsHeader {
        algorithm,
        kid,
        typ,
        jwk,
    })
}

/// The keys of one issuer, by their ids.
#[derive(Clone, Debug, Default)]
pub struct KeySet {
    keys: Vec<(Option<String>, PublicKey)>,
    /// What was left out, as the operator is told: the id of the key, and why it cannot be used.
    left_out: Vec<String>,
}

/// Most keys of one set.
pub const KEY_SET_MAX: usize = 64;
/// Largest text of a set, in bytes.
pub const KEY_SET_BYTES_MAX: usize = 256 << 10;

impl KeySet {
    /// A set of these keys, each with its id.
    pub fn of(keys: impl IntoIterator<Item = (Option<String>, PublicKey)>) -> KeySet {
        KeySet {
            keys: keys.into_iter().take(KEY_SET_MAX).collect(),
            left_out: Vec::new(),
        }
    }

    /// Reads a JWK set (RFC 7517 §5). Keys that are of no use here are left out, as it asks, and so is a private or symmetric
    /// one, which others may have: the good ones beside it stay good.
    ///
    /// # Errors
    /// [`JoseError`]: the text is no set, has more than 64 keys, or none that can be used.
    pub fn read(text: &[u8]) -> Result<KeySet, JoseError> {
        if text.len() > KEY_SET_BYTES_MAX {
            return Err(JoseError::TooLarge);
        }
        let json = strict_object(text)?;
        let listed = json.root().get("keys").ok_or(JoseError::Claim("keys"))?;
        if listed.kind() != JsonKind::Array {
            return Err(JoseError::Claim("keys"));
        }
        let (mut keys, mut left_out) = (Vec::new(), Vec::new());
        for (number, jwk) in listed.items().enumerate() {
            if number >= KEY_SET_MAX {
                return Err(JoseError::TooLarge);
            }
            match set_member(jwk) {
                Ok(member) => keys.push(member),
                Err(why) => left_out.push(format!("key {} of its keys: {why}", number + 1)),
            }
        }
        match keys.is_empty() {
            true => Err(JoseError::Key(
                "is missing: the set has none that can be used",
            )),
            false => Ok(KeySet { keys, left_out }),
        }
    }

    /// Why keys of the text that was read are not in the set, by their places in it.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// How many keys it has.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Checks that one of the keys signed it: the one that the header names, or where it names none, any that the
    /// algorithm is of.
    ///
    /// # Errors
    /// [`JoseError::KeyUnknown`], [`JoseError::KeyMismatch`] and [`JoseError::Signature`].
    pub fn verify(&self, text: &SignedText<'_>) -> Result<&PublicKey, JoseError> {
        let kid = text.header.kid.as_deref();
        let named = |(id, _): &&(Option<String>, PublicKey)| match (kid, id) {
            (Some(kid), Some(id)) => kid == id,
            (Some(_), None) => false,
            (None, _) => true,
        };
        let mut why = JoseError::KeyUnknown;
        for (_, key) in self.keys.iter().filter(named) {
            match text.verify(key) {
                Ok(()) => return Ok(key),
                // That the algorithm is not of another key says less than that this one did not sign.
                Err(JoseError::KeyMismatch) if why == JoseError::Signature => {}
                Err(error) => why = error,
            }
        }
        Err(why)
    }
}

/// A key of a set, with its id.
fn set_member(jwk: JsonValue<'_>) -> Result<(Option<String>, PublicKey), JoseError> {
    let key = PublicKey::from_jwk(jwk)?;
    let kid = string(jwk, "kid")?.map(|kid| kid.into_owned());
    match kid.as_ref().is_some_and(|kid| kid.len() > KID_CHARS_MAX) {
        true => Err(JoseError::TooLarge),
        false => Ok((kid, key)),
    }
}

#[cfg(test)]
#[path = "jws_tests.rs"]
mod tests;
