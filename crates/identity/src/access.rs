//! Access tokens of this gateway (RFC 9068): made, and read again.
//!
//! They are signed with Ed25519, whose signatures need no randomness, and are bound to a key by `cnf` (RFC 7800 §3.1, RFC 9449
//! §6, RFC 8705 §3). A token without a binding is made for nobody who did not ask for one.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base::{Digest, Json, JsonValue};
use serde_json::json;

use crate::jose::{JoseError, base64url, string, to_base64url};
use crate::jws::{HeaderKey, KeySet, SignedText};
use crate::jwt::{CheckedClaims, ExpectedClaims};
use crate::public_key::PublicKey;

/// Most scopes of one token, and characters of all of them.
const SCOPES_MAX: usize = 64;
const SCOPE_CHARS_MAX: usize = 2048;

/// What a token is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenBinding {
    /// The thumbprint of a DPoP key (`jkt`).
    Key(Digest),
    /// The SHA-256 of a certificate (`x5t#S256`).
    Certificate(Digest),
}

/// What a new token says.
#[derive(Clone, Debug)]
pub struct NewToken<'t> {
    pub issuer: &'t str,
    pub audience: &'t str,
    /// The agent.
    pub subject: &'t str,
    /// The person or system that it acts for (RFC 8693 §4.1 names the agent in `act`, then).
    pub behalf: Option<&'t str>,
    pub scopes: &'t [String],
    pub binding: Option<TokenBinding>,
    /// The credential by which the agent got it: with that it is taken back.
    pub root: Digest,
    pub id: &'t str,
    pub now_unix_ms: u64,
    pub life_ms: u64,
}

/// What signs tokens.
pub struct TokenKey {
    pair: Ed25519KeyPair,
    public: PublicKey,
    kid: String,
}

impl TokenKey {
    /// Of 32 secret bytes.
    ///
    /// # Errors
    /// [`JoseError::Key`], which no 32 bytes cause.
    pub fn new(seed: &[u8; 32]) -> Result<TokenKey, JoseError> {
        let bad = |_| JoseError::Key("cannot be made");
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(bad)?;
        let x = to_base64url(pair.public_key().as_ref());
        let jwk = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
        let public = PublicKey::from_jwk_text(jwk.as_bytes())?;
        Ok(TokenKey {
            kid: public.thumbprint_text(),
            pair,
            public,
        })
    }

    /// Its public half, with its id.
    pub fn public(&self) -> (Option<String>, PublicKey) {
        (Some(self.kid.clone()), self.public.clone())
    }

    /// Its public half as a member of a JWK set.
    pub fn jwk(&self) -> serde_json::Value {
        let bytes = to_base64url(self.pair.public_key().as_ref());
        json!({
            "kty": "OKP", "crv": "Ed25519", "x": bytes, "kid": self.kid, "use": "sig", "alg": "EdDSA",
        })
    }

    /// Makes a token.
    pub fn sign(&self, new: &NewToken<'_>) -> String {
        let seconds = |ms: u64| ms / 1000;
        let (subject, actor) = match new.behalf {
            Some(person) => (person, Some(json!({ "sub": new.subject }))),
            None => (new.subject, None),
        };
        let mut claims = json!({
            "iss": new.issuer,
            "aud": new.audience,
            "sub": subject,
            "client_id": new.subject,
            "iat": seconds(new.now_unix_ms),
            "exp": seconds(new.now_unix_ms.saturating_add(new.life_ms)),
            "jti": new.id,
            "weir_root": to_base64url(&new.root.0),
        });
        if let Some(actor) = actor {
            claims["act"] = actor;
        }
        if !new.scopes.is_empty() {
            claims["scope"] = new.scopes.join(" ").into();
        }
        match new.binding {
            Some(TokenBinding::Key(key)) => claims["cnf"] = json!({ "jkt": to_base64url(&key.0) }),
            Some(TokenBinding::Certificate(certificate)) => {
                claims["cnf"] = json!({ "x5t#S256": to_base64url(&certificate.0) });
            }
            None => {}
        }
        self.sign_jwt("at+jwt", &claims)
    }

    /// Signs claims as a JWT of this type.
    pub fn sign_jwt(&self, typ: &str, claims: &serde_json::Value) -> String {
        let header = json!({ "alg": "EdDSA", "kid": self.kid, "typ": typ });
        let header = to_base64url(header.to_string().as_bytes());
        let claims = to_base64url(claims.to_string().as_bytes());
        let signed = format!("{header}.{claims}");
        let signature = to_base64url(self.pair.sign(signed.as_bytes()).as_ref());
        format!("{signed}.{signature}")
    }
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenKey({})", self.kid)
    }
}

/// What a token says that is one of this gateway's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessToken {
    pub agent: String,
    pub behalf: Option<String>,
    pub scopes: Vec<String>,
    pub binding: Option<TokenBinding>,
    pub root: Digest,
    pub claims: CheckedClaims,
}

impl AccessToken {
    /// Reads a token and checks that one of these keys signed it, for this issuer and audience.
    ///
    /// # Errors
    /// [`JoseError`].
    pub fn read(
        text: &str,
        keys: &KeySet,
        expected: &ExpectedClaims<'_>,
    ) -> Result<AccessToken, JoseError> {
        let signed = SignedText::read(text, HeaderKey::Refused)?;
        if signed.header.typ.as_deref() != Some("at+jwt") {
            return Err(JoseError::Type);
        }
        keys.verify(&signed)?;
        let json: Json<'_> = signed.claims()?;
        let root = json.root();
        let claims = expected.check(root)?;
        // Our own clock made it: it ends when it says.
        if claims.expires_unix_ms <= expected.now_unix_ms {
            return Err(JoseError::Expired);
        }
        let agent = crate::jose::needed(root, "client_id")?.into_owned();
        let behalf = (agent != claims.subject).then(|| claims.subject.clone());
        Ok(AccessToken {
            behalf,
            agent,
            scopes: scopes(root)?,
            binding: binding(root)?,
            root: digest(&crate::jose::needed(root, "weir_root")?)?,
            claims,
        })
    }
}

/// The issuer that a token names, before anything of it is believed: to find the keys to check it by.
///
/// # Errors
/// [`JoseError`].
pub fn issuer_of(text: &str) -> Result<String, JoseError> {
    let signed = SignedText::read(text, HeaderKey::Refused)?;
    let json = signed.claims()?;
    Ok(crate::jose::needed(json.root(), "iss")?.into_owned())
}

/// `scope` as RFC 8693 §4.2 writes it: names with one space between.
pub fn scopes(claims: JsonValue<'_>) -> Result<Vec<String>, JoseError> {
    let text = string(claims, "scope")?.unwrap_or_default();
    read_scopes(&text).ok_or(JoseError::Claim("scope"))
}

/// Reads a list of scopes (RFC 6749 §3.3).
pub fn read_scopes(text: &str) -> Option<Vec<String>> {
    let is_scope = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    if text.is_empty() {
        return Some(Vec::new());
    }
    let scopes: Vec<String> = text.split(' ').map(str::to_owned).collect();
    let is_good = text.len() <= SCOPE_CHARS_MAX
        && scopes.len() <= SCOPES_MAX
        && scopes
            .iter()
            .all(|one| !one.is_empty() && one.bytes().all(is_scope));
    is_good.then_some(scopes)
}

/// What `cnf` binds a token to (RFC 9449 §6.1, RFC 8705 §3.1). A binding that is not understood is refused.
pub fn binding(claims: JsonValue<'_>) -> Result<Option<TokenBinding>, JoseError> {
    let Some(cnf) = claims.get("cnf") else {
        return Ok(None);
    };
    let wrong = JoseError::Claim("cnf");
    let mut members = cnf.members();
    let (Some((name, value)), None) = (members.next(), members.next()) else {
        return Err(wrong);
    };
    let value = digest(&value.as_str().ok_or(wrong)?)?;
    match &*name.name() {
        "jkt" => Ok(Some(TokenBinding::Key(value))),
        "x5t#S256" => Ok(Some(TokenBinding::Certificate(value))),
        _ => Err(wrong),
    }
}

fn digest(text: &str) -> Result<Digest, JoseError> {
    let bytes = base64url(text)?;
    let bytes: [u8; 32] = bytes.try_into().map_err(|_| JoseError::Base64)?;
    Ok(Digest(bytes))
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
