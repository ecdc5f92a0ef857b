//! Enrolment: an invite is used once, by who has the private key of what it brings.
//!
//! A certificate request (PKCS #10) is signed by its own key, and a JWK comes with a JWS of that key over this gateway and this
//! invite. What is not good counts against the invite, which is locked after some. An agent renews its certificate by the
//! certificate that it has. No private key is taken, asked for, or made here.

use std::sync::Arc;

use base::{Digest, Name, Refusal, refusal};
use http::StatusCode;
use identity::certificate;
use identity::certificate::{CertificateRequest, SpiffeId};
use identity::jose::{needed, to_base64url};
use identity::jws::{HeaderKey, SignedText};
use identity::public_key::PublicKey;
use net::Response;
use serde_json::{Value, json};
use store::authority::AuthorityError;
use store::directory::{CredentialEntry, CredentialKind, DirectoryBook, EntryState};

use super::shared::IdentityShared;
use super::{Asked, ENROL, answer, json_body};

/// What each invite begins with, so that a leaked one is found by a search.
pub(super) const INVITE_PREFIX: &str = "winv_";
/// Largest certificate request as text, in bytes.
const REQUEST_BYTES_MAX: usize = certificate::CERTIFICATE_BYTES_MAX * 2;

/// The digest of an invite's text; nothing where it is no such text.
pub(super) fn invite_digest(text: &str) -> Option<Digest> {
    let body = text
        .strip_prefix(INVITE_PREFIX)
        .filter(|body| body.len() == 43)?;
    identity::jose::base64url(body).ok()?;
    Some(certificate::certificate_thumbprint(text.as_bytes()))
}

/// What an agent enrols with.
enum Brought {
    Request(CertificateRequest),
    Key(PublicKey),
}

/// `POST /enrol`.
pub(super) async fn enrol(shared: &IdentityShared, asked: Asked<'_>) -> Result<Response, Refusal> {
    let body = json_body(asked.request).await;
    let body = match body {
        Ok(body) => body,
        Err(refusal) => return Err(shared.turn_away(&asked, &ENROL, refusal).await),
    };
    match enrolled(shared, &body).await {
        Ok(response) => Ok(response),
        Err(refusal) => Err(shared.turn_away(&asked, &ENROL, refusal).await),
    }
}

async fn enrolled(shared: &IdentityShared, body: &Value) -> Result<Response, Refusal> {
    let unknown = || Refusal::new(refusal::INVITE_UNKNOWN, "there is no such invite");
    let text = body["invite"].as_str().unwrap_or_default();
    let digest = invite_digest(text).ok_or_else(unknown)?;
    let now = shared.now().unix_ms;
    let redeemed = shared.known.look(|book| book.invited(&digest, now))?;
    let brought = match brought(shared, body, text, &redeemed.agent) {
        Ok(brought) => brought,
        Err(refusal) => {
            let count = |book: &mut DirectoryBook| {
                book.count_try(&digest);
                Ok(())
            };
            shared.keeper.change(&shared.known, count).await?;
            return Err(refusal);
        }
    };
    let agent = redeemed.agent;
    let (credentials, chain) = credentials(shared, &brought, &agent, now).await?;
    let state = shared
        .change("invite", "agent.enrol", agent.as_str(), |book| {
            let mut credentials = credentials.iter().cloned();
            let first = credentials.next().ok_or_else(unknown)?;
            let state = book.redeem(&digest, first, now)?;
            for credential in credentials {
                book.add_credential(agent.as_str(), credential, now)?;
            }
            Ok(state)
        })
        .await?;
    Ok(said(shared, &agent, state, chain, StatusCode::CREATED))
}

fn said(
    shared: &IdentityShared,
    agent: &Name,
    state: EntryState,
    chain: Option<String>,
    status: StatusCode,
) -> Response {
    let issuer = shared.trust().map(|trust| trust.issuer.clone());
    let domain = shared
        .settings
        .as_ref()
        .map(|identity| identity.trust_domain.as_str());
    answer(
        status,
        &json!({
            "agent": agent.as_str(),
            "state": state.as_str(),
            "id": domain.map(|domain| SpiffeId::of_agent(domain, agent).to_string()),
            "certificate": chain,
            "issuer": issuer,
        }),
    )
}

/// Reads the key that is brought, and that who brings it has its private half.
fn brought(
    shared: &IdentityShared,
    body: &Value,
    invite: &str,
    agent: &Name,
) -> Result<Brought, Refusal> {
    let bad = |why: String| Refusal::new(refusal::REQUEST_INVALID, why);
    match (body["csr"].as_str(), body.get("jwk")) {
        (Some(text), None) => {
            let read = read_request(shared, text, agent)?;
            Ok(Brought::Request(read))
        }
        (None, Some(jwk)) => {
            let key = PublicKey::from_jwk_text(jwk.to_string().as_bytes());
            let key = key.map_err(|error| bad(format!("the key is not taken: {error}")))?;
            let proof = body["proof"].as_str().unwrap_or_default();
            check_possession(shared, &key, proof, invite)
                .map_err(|error| bad(format!("the proof of the key is not taken: {error}")))?;
            Ok(Brought::Key(key))
        }
        _ => Err(bad("one of csr and jwk is needed".to_owned())),
    }
}

fn read_request(
    shared: &IdentityShared,
    text: &str,
    agent: &Name,
) -> Result<CertificateRequest, Refusal> {
    let (_, identity) = shared.authority()?;
    let bad = |why: &str| {
        Refusal::new(
            refusal::REQUEST_INVALID,
            format!("the request is not taken: {why}"),
        )
    };
    if text.len() > REQUEST_BYTES_MAX {
        return Err(bad("it is too long"));
    }
    let der = store::sealed::unpem("CERTIFICATE REQUEST", text);
    let der = der.ok_or_else(|| bad("it is no PEM text of a CERTIFICATE REQUEST"))?;
    let id = SpiffeId::of_agent(&identity.trust_domain, agent);
    CertificateRequest::read(&der, &id).map_err(|error| bad(&error.to_string()))
}

/// A JWS of the key: `typ` is `weir-enrol+jwt`, `aud` this gateway, `invite` the hash of the invite.
fn check_possession(
    shared: &IdentityShared,
    key: &PublicKey,
    proof: &str,
    invite: &str,
) -> Result<(), String> {
    let text = |error: identity::jose::JoseError| error.to_string();
    let signed = SignedText::read(proof, HeaderKey::Refused).map_err(text)?;
    if signed.header.typ.as_deref() != Some("weir-enrol+jwt") {
        return Err("its typ is not weir-enrol+jwt".to_owned());
    }
    signed.verify(key).map_err(text)?;
    let json = signed.claims().map_err(text)?;
    let hash = to_base64url(&certificate::certificate_thumbprint(invite.as_bytes()).0);
    let trust = shared.trust();
    let audience = needed(json.root(), "aud").map_err(text)?;
    let is_for_us = trust.is_some_and(|trust| trust.origins.iter().any(|one| *one == audience));
    match is_for_us && needed(json.root(), "invite").map_err(text)? == hash {
        true => Ok(()),
        false => Err("it is for another gateway or another invite".to_owned()),
    }
}

/// What is kept of what was brought, and the certificate that is given for it. The key of a certificate is good for
/// assertions too.
async fn credentials(
    shared: &IdentityShared,
    brought: &Brought,
    agent: &Name,
    now: u64,
) -> Result<(Vec<CredentialEntry>, Option<String>), Refusal> {
    let of_key = |key: &PublicKey| CredentialEntry {
        jwk: Some(key.canonical_jwk()),
        ..CredentialEntry::new(CredentialKind::Jwk, key.thumbprint(), now)
    };
    match brought {
        Brought::Key(key) => Ok((vec![of_key(key)], None)),
        Brought::Request(request) => {
            let (entry, chain) = issued(shared, request, agent, now).await?;
            Ok((vec![of_key(&request.key), entry], Some(chain)))
        }
    }
}

async fn issued(
    shared: &IdentityShared,
    request: &CertificateRequest,
    agent: &Name,
    now: u64,
) -> Result<(CredentialEntry, String), Refusal> {
    let (authority, identity) = shared.authority()?;
    let id = SpiffeId::of_agent(&identity.trust_domain, agent);
    let issued = {
        let (authority, request) = (Arc::clone(authority), request.clone());
        // No longer than the agent: others may trust the authority, and know nothing of agents.
        let until = shared.known.look(|book| {
            let agent = book.agent(agent.as_str()).ok();
            agent.and_then(|agent| agent.expires_unix_ms)
        });
        let life_ms = identity.certificate_ms;
        let life_ms = until.map_or(life_ms, |until| life_ms.min(until.saturating_sub(now)));
        // A module may take long to sign, and no thread that carries calls waits for it.
        tokio::task::spawn_blocking(move || authority.issue(&request, &id, now, life_ms)).await
    };
    let issued = issued.map_err(|error| AuthorityError::Unmakeable(error.to_string()));
    let issued = issued.flatten().map_err(|error| {
        let refusal = match &error {
            AuthorityError::Module(_) => Refusal::new(
                refusal::AUTHORITY_AWAY,
                "the module that has the authority's key does not sign",
            ),
            _ => Refusal::new(refusal::AUTHORITY_OFF, "the authority cannot sign"),
        };
        refusal.with_private(error.to_string())
    })?;
    let entry = CredentialEntry {
        expires_unix_ms: Some(issued.expires_unix_ms),
        serial: Some(issued.serial),
        key: Some(request.key.thumbprint().to_string()),
        ..CredentialEntry::new(CredentialKind::Certificate, issued.digest, now)
    };
    Ok((entry, issued.chain_pem))
}

/// `POST /enrol/renew`: another certificate, by the one of this connection, or by a token that is bound to a key and has
/// no scope.
pub(super) async fn renew(shared: &IdentityShared, asked: Asked<'_>) -> Result<Response, Refusal> {
    let verified = shared.verify(&asked, &ENROL).await?;
    // What can be copied, or is limited to something, does not become a certificate, which is good for all.
    if !verified.is_bound() || verified.scopes().is_some() || verified.behalf().is_some() {
        let public = "a certificate is renewed by a certificate, or by a token that is bound to a key and has no scope";
        return Err(Refusal::new(refusal::CERTIFICATE, public));
    }
    asked.request.is_of_known_agent();
    let body = json_body(asked.request).await?;
    let agent = verified.agent().name.clone();
    let request = read_request(shared, body["csr"].as_str().unwrap_or_default(), &agent)?;
    let now = shared.now().unix_ms;
    let (entry, chain) = issued(shared, &request, &agent, now).await?;
    let jwk = CredentialEntry {
        jwk: Some(request.key.canonical_jwk()),
        ..CredentialEntry::new(CredentialKind::Jwk, request.key.thumbprint(), now)
    };
    let name = agent.as_str();
    let state = shared
        .change(name, "agent.renew", name, |book| {
            book.add_credential(name, entry.clone(), now)?;
            book.add_credential(name, jwk.clone(), now)?;
            book.agent(name).map(|agent| agent.state)
        })
        .await?;
    Ok(said(
        shared,
        &agent,
        state,
        Some(chain),
        StatusCode::CREATED,
    ))
}
