//! From what a caller shows to the agent that it is: by a key, a token with its proof, or a certificate.
//!
//! It exists so that all credentials come together in one function, and each refusal carries the challenge of its RFC. It
//! refuses a token without the proof that it is bound to, whoever brings it, and a caller who shows two credentials that
//! contradict.

use std::sync::Arc;

use base::refusal::{
    CERTIFICATE, ISSUER_AWAY, ISSUER_UNKNOWN, KEY_MISSING, PROOF_INVALID, PROOF_MISSING,
    PROOF_NONCE, SUBJECT_UNKNOWN, TOKEN_AUDIENCE, TOKEN_EXPIRED, TOKEN_INVALID,
};
use base::{Digest, Refusal};

use crate::access::{TokenBinding, issuer_of};
use crate::certificate::{ClientCertificate, certificate_thumbprint};
use crate::dpop::{ExpectedProof, GoodProof, ProofError, check_proof};
use crate::jose::JoseError;
use crate::public_key::JWS_ALGORITHMS;
use crate::trust::{TokenTrust, spiffe_digest};
use crate::verified::{
    Agent, Credential, FoundCredential, Presented, Verified, thumbprint, verify,
};

/// Who is known, and by what tokens are checked: of one state of the directory.
pub struct KnownCallers<'d> {
    /// The agent whose key has this SHA-256.
    pub by_key: &'d dyn Fn(&Digest) -> Option<Arc<Agent>>,
    /// The agent that has a credential with this thumbprint.
    pub by_thumbprint: &'d dyn Fn(&Digest) -> Option<Arc<Agent>>,
    /// Whether the token with this id was taken back.
    pub is_revoked: &'d dyn Fn(&Digest) -> bool,
    /// Absent where no tokens and certificates are taken.
    pub trust: Option<&'d TokenTrust>,
    pub epoch: u64,
    pub now_unix_ms: u64,
}

/// Who was recognised, and what may be used once alone.
#[derive(Debug)]
pub struct Recognised {
    pub verified: Verified,
    pub once: Option<OnceId>,
}

/// An id that may be used once.
#[derive(Clone, Copy, Debug)]
pub struct OnceId {
    pub id: Digest,
    /// Until when it has to be remembered, in Unix milliseconds.
    pub until_unix_ms: u64,
}

/// Recognises an agent by what it shows.
///
/// # Errors
/// Those of [`verify`] for keys, and those of tokens, proofs and certificates, each with its challenge. None repeats what was
/// sent.
pub fn recognise(
    presented: &Presented<'_>,
    known: &KnownCallers<'_>,
) -> Result<Recognised, Refusal> {
    let Some(trust) = known.trust else {
        return by_key(presented, known);
    };
    let found = match shown(presented) {
        ShownCredential::Key => by_key(presented, known),
        ShownCredential::Certificate(der) => {
            by_certificate(der, known).map(|verified| Recognised {
                verified,
                once: None,
            })
        }
        ShownCredential::Token { text, is_dpop } => {
            by_token(presented, known, trust, text, is_dpop)
        }
    };
    let found = found.and_then(|found| agrees(found, presented, known));
    found.map_err(|refusal| challenged(refusal, trust, presented.target, known.now_unix_ms))
}

/// Refuses a caller whose connection showed the certificate of another agent. A certificate that names no agent, such as
/// that of a proxy, contradicts nothing.
fn agrees(
    found: Recognised,
    presented: &Presented<'_>,
    known: &KnownCallers<'_>,
) -> Result<Recognised, Refusal> {
    let shown = presented.peer.certificate;
    let shown = shown.and_then(|der| by_certificate(der, known).ok());
    match shown.is_some_and(|shown| shown.agent().name != found.verified.agent().name) {
        true => Err(Refusal::new(
            CERTIFICATE,
            "the certificate of this connection is another agent's",
        )),
        false => Ok(found),
    }
}

fn by_key(presented: &Presented<'_>, known: &KnownCallers<'_>) -> Result<Recognised, Refusal> {
    let verified = verify(presented, |key| (known.by_key)(key), known.epoch)?;
    Ok(Recognised {
        verified,
        once: None,
    })
}

/// What is shown, by its form.
enum ShownCredential<'a> {
    Key,
    Token { text: &'a str, is_dpop: bool },
    Certificate(&'a [u8]),
}

fn shown<'a>(presented: &Presented<'a>) -> ShownCredential<'a> {
    if !presented.fields.is_empty() {
        return ShownCredential::Key;
    }
    let Some(value) = presented.authorization else {
        return match presented.peer.certificate {
            Some(der) => ShownCredential::Certificate(der),
            None => ShownCredential::Key,
        };
    };
    let value = value.trim_matches(' ');
    let (scheme, text) = value.split_once(' ').unwrap_or((value, ""));
    let (text, is_dpop) = (
        text.trim_start_matches(' '),
        scheme.eq_ignore_ascii_case("dpop"),
    );
    match is_dpop || scheme.eq_ignore_ascii_case("bearer") && text.contains('.') {
        true => ShownCredential::Token { text, is_dpop },
        false => ShownCredential::Key,
    }
}

/// By a certificate of the TLS handshake: the one that is kept of the agent, or one with the SPIFFE id that the operator
/// mapped.
fn by_certificate(der: &[u8], known: &KnownCallers<'_>) -> Result<Verified, Refusal> {
    let unknown = |why: String| {
        Refusal::new(
            CERTIFICATE,
            "no agent has the certificate of this connection",
        )
        .with_private(why)
    };
    let read = ClientCertificate::read(der).map_err(|error| unknown(error.to_string()))?;
    let own = thumbprint(&certificate_thumbprint(der));
    let mapped = thumbprint(&spiffe_digest(&read.id.to_string()));
    let find = |name: Digest| (known.by_thumbprint)(&name).map(|agent| (agent, name));
    let found = find(own).or_else(|| find(mapped));
    let (agent, thumbprint) = found.ok_or_else(|| unknown(read.id.to_string()))?;
    let found = FoundCredential {
        by: Credential::Certificate,
        thumbprint,
        is_bound: true,
        token: None,
        behalf: None,
        scopes: None,
        expires_unix_ms: Some(read.expires_unix_ms),
    };
    Ok(Verified::by_credential(agent, found, known.epoch))
}

/// What a token says, whoever issued it.
struct TokenSays {
    /// The thumbprint of the credential that it hangs on, and the name of the agent that has to have it.
    root: Digest,
    /// Its id, where this gateway issued it.
    token: Option<Digest>,
    agent: String,
    behalf: Option<String>,
    scopes: Vec<String>,
    binding: Option<TokenBinding>,
    expires_unix_ms: u64,
}

fn by_token(
    presented: &Presented<'_>,
    known: &KnownCallers<'_>,
    trust: &TokenTrust,
    text: &str,
    is_dpop: bool,
) -> Result<Recognised, Refusal> {
    let says = read_token(presented, known, trust, text)?;
    let proof = check_binding(presented, known, trust, text, is_dpop, says.binding)?;
    let agent = (known.by_thumbprint)(&says.root).filter(|agent| agent.name.as_str() == says.agent);
    let Some(agent) = agent else {
        let public = "the credential that the token was given for is not known any more";
        return Err(Refusal::new(TOKEN_INVALID, public));
    };
    let scopes = (!says.scopes.is_empty()).then(|| {
        says.scopes
            .iter()
            .map(|one| Arc::from(one.as_str()))
            .collect()
    });
    let found = FoundCredential {
        by: Credential::AccessToken,
        thumbprint: says.root,
        is_bound: says.binding.is_some(),
        token: says.token,
        behalf: says.behalf.as_deref().map(Arc::from),
        scopes,
        expires_unix_ms: Some(says.expires_unix_ms),
    };
    Ok(Recognised {
        verified: Verified::by_credential(agent, found, known.epoch),
        once: proof.map(|proof| OnceId {
            id: proof.once,
            until_unix_ms: proof.until_unix_ms,
        }),
    })
}

fn read_token(
    presented: &Presented<'_>,
    known: &KnownCallers<'_>,
    trust: &TokenTrust,
    text: &str,
) -> Result<TokenSays, Refusal> {
    let now = known.now_unix_ms;
    let issuer = issuer_of(text).map_err(token_refused)?;
    if issuer == trust.issuer {
        let token = trust
            .own(text, presented.target, now)
            .map_err(token_refused)?;
        let id = token.claims.id.as_deref().map(token_id);
        if id.is_some_and(|id| (known.is_revoked)(&id)) {
            return Err(Refusal::new(TOKEN_INVALID, "the token was taken back"));
        }
        return Ok(TokenSays {
            root: token.root,
            token: id,
            agent: token.agent.clone(),
            behalf: token.behalf.clone(),
            scopes: token.scopes.clone(),
            binding: token.binding,
            expires_unix_ms: token.claims.expires_unix_ms,
        });
    }
    let outside = trust.outside(&issuer);
    let outside = outside.ok_or_else(|| {
        Refusal::new(
            ISSUER_UNKNOWN,
            "the token is of an issuer that is not known here",
        )
    })?;
    let token = outside.read(text, now).ok_or_else(|| {
        Refusal::new(
            ISSUER_AWAY,
            "the keys of the token's issuer cannot be had now",
        )
        .with_private(outside.name.to_string())
    })?;
    let token = token.map_err(token_refused)?;
    let Some((agent, subject)) = token.agent else {
        return Err(
            Refusal::new(SUBJECT_UNKNOWN, "the token's subject is no agent here")
                .with_private(outside.name.to_string()),
        );
    };
    Ok(TokenSays {
        root: thumbprint(&subject),
        token: None,
        agent: agent.as_str().to_owned(),
        behalf: None,
        scopes: token.scopes,
        binding: token.binding,
        expires_unix_ms: token.claims.expires_unix_ms,
    })
}

/// The digest by which a token that was taken back is remembered.
pub fn token_id(id: &str) -> Digest {
    crate::key::sha256(format!("token {id}").as_bytes())
}

/// Checks that who brings the token is who it was given to.
fn check_binding(
    presented: &Presented<'_>,
    known: &KnownCallers<'_>,
    trust: &TokenTrust,
    text: &str,
    is_dpop: bool,
    binding: Option<TokenBinding>,
) -> Result<Option<GoodProof>, Refusal> {
    let bound_key = match binding {
        None if !is_dpop => return Ok(None),
        // RFC 9449 §7.1: with the scheme DPoP a token has to be bound.
        None => return Err(Refusal::new(PROOF_INVALID, "the token is bound to no key")),
        Some(TokenBinding::Certificate(bound)) => {
            let shown = presented.peer.certificate.map(certificate_thumbprint);
            return match shown == Some(bound) && !is_dpop {
                true => Ok(None),
                false => Err(Refusal::new(
                    PROOF_MISSING,
                    "the token is bound to a certificate that this connection did not show",
                )),
            };
        }
        Some(TokenBinding::Key(bound)) => bound,
    };
    let (Some(proof), true) = (presented.proof, is_dpop) else {
        let public = "the token is bound to a key, and the request has no one proof of it";
        return Err(Refusal::new(PROOF_MISSING, public));
    };
    let uris = trust.uris(presented.target);
    let expected = ExpectedProof {
        method: presented.method,
        uris: &uris,
        token: Some(text),
        nonces: &trust.nonces,
        now_unix_ms: known.now_unix_ms,
    };
    let proof = check_proof(proof, &expected).map_err(proof_refused)?;
    match proof.key.thumbprint() == bound_key {
        true => Ok(Some(proof)),
        false => Err(Refusal::new(
            PROOF_INVALID,
            "the proof is of another key than the token's",
        )),
    }
}

/// The refusal of a bad proof.
pub fn proof_refused(error: ProofError) -> Refusal {
    match error {
        ProofError::Nonce => Refusal::new(PROOF_NONCE, "the proof has no nonce of this process"),
        error => Refusal::new(PROOF_INVALID, format!("the proof is not taken: {error}")),
    }
}

fn token_refused(error: JoseError) -> Refusal {
    let code = match error {
        JoseError::Expired => TOKEN_EXPIRED,
        JoseError::Audience => TOKEN_AUDIENCE,
        _ => TOKEN_INVALID,
    };
    Refusal::new(code, format!("the token is not taken: {error}"))
}

/// The same refusal with the challenges of RFC 6750 §3, RFC 9449 §7.1 and RFC 9728 §5.1, where it is a 401.
pub fn challenged(refusal: Refusal, trust: &TokenTrust, path: &str, now_unix_ms: u64) -> Refusal {
    let code = refusal.code;
    if code.status != 401 {
        return refusal;
    }
    let metadata = metadata_url(trust, path);
    let error = match () {
        () if code == KEY_MISSING || code == CERTIFICATE => String::new(),
        () if code == PROOF_NONCE => ", error=\"use_dpop_nonce\"".to_owned(),
        () if code == PROOF_INVALID || code == PROOF_MISSING => {
            ", error=\"invalid_dpop_proof\"".to_owned()
        }
        () => ", error=\"invalid_token\"".to_owned(),
    };
    let algs = JWS_ALGORITHMS.join(" ");
    let dpop =
        format!("DPoP realm=\"weir\"{error}, algs=\"{algs}\", resource_metadata=\"{metadata}\"");
    let bearer = format!("Bearer realm=\"weir\"{error}, resource_metadata=\"{metadata}\"");
    let is_of_proof = code == PROOF_NONCE || code == PROOF_INVALID || code == PROOF_MISSING;
    let refusal = match is_of_proof {
        true => refusal.with_field("www-authenticate", dpop),
        false => refusal
            .with_field("www-authenticate", bearer)
            .with_field("www-authenticate", dpop),
    };
    refusal.with_field("dpop-nonce", trust.nonces.nonce(now_unix_ms))
}

/// Where the metadata of the resource at this path is (RFC 9728 §3.1).
pub fn metadata_url(trust: &TokenTrust, path: &str) -> String {
    let origin = trust.origins.first().map_or("", String::as_str);
    // What stands in a quoted string has to be plain (RFC 9110 §5.6.4).
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/@%:+".contains(&byte);
    let path = match path.bytes().all(is_plain) && path != "/" {
        true => path,
        false => "",
    };
    format!("{origin}/.well-known/oauth-protected-resource{path}")
}

/// The challenge of a call whose token lacks a scope (RFC 6750 §3.1).
pub fn scope_challenge(trust: &TokenTrust, path: &str, scope: &str) -> String {
    let metadata = metadata_url(trust, path);
    format!(
        "Bearer realm=\"weir\", error=\"insufficient_scope\", scope=\"{scope}\", resource_metadata=\"{metadata}\""
    )
}

#[cfg(test)]
#[path = "recognise_tests.rs"]
mod tests;
