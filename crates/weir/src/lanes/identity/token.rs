//! The token service: RFC 6749 §4.4 (client credentials), RFC 7523 (`private_key_jwt`), RFC 8705 (certificates), RFC 9449 (DPoP),
//! RFC 8693 (exchange for a person's token), RFC 8707 (resource), RFC 7662 (introspection), RFC 7009 (revocation).
//!
//! It is for machines: it has no page to log in, and no client has a secret that it sends. A parameter that is written twice, a
//! scope or a resource that is not known is refused.

use std::sync::Arc;

use base::refusal::{IDENTITY_INVALID, KEY_UNKNOWN, PROOF_INVALID, TOKEN_INVALID};
use base::{Digest, Refusal};
use gate::Call;
use gate::ports::Directory as _;
use http::StatusCode;
use identity::access::{AccessToken, NewToken, TokenBinding, read_scopes};
use identity::certificate::{ClientCertificate, certificate_thumbprint};
use identity::dpop::{ExpectedProof, GoodProof, ProofError, check_proof};
use identity::jose::needed;
use identity::jws::{HeaderKey, SignedText};
use identity::jwt::ExpectedClaims;
use identity::public_key::PublicKey;
use identity::recognise::{proof_refused, token_id};
use identity::trust::spiffe_digest;
use identity::{Agent, Credential, TokenTrust, Verified};
use net::{Request, Response};
use serde_json::{Value, json};
use store::directory::CredentialKind;

use super::shared::IdentityShared;
use super::{Asked, TOKEN, answer, field, resource};
use crate::routes::new_call_id;

/// How long an assertion of a client may be good, in milliseconds.
const ASSERTION_MS_MAX: u64 = 600_000;
/// What the header of an assertion may say that it is, where it says so (RFC 7523 §2.2; draft-ietf-oauth-rfc7523bis, section 3).
const ASSERTION_TYPES: &[&str] = &["jwt", "client-authentication+jwt"];
const JWT_BEARER: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// Most parameters of one request.
const PARAMETERS_MAX: usize = 32;

/// An error of OAuth (RFC 6749 §5.2), with the refusal that is recorded.
struct OauthError {
    error: &'static str,
    refusal: Box<Refusal>,
    /// Whether it is of a known agent, and recorded so already.
    is_recorded: bool,
}

/// An error that counts as a stranger's.
fn refused(error: &'static str, refusal: Refusal) -> OauthError {
    OauthError {
        error,
        refusal: Box::new(refusal),
        is_recorded: false,
    }
}

fn wrong(error: &'static str, why: impl Into<String>) -> OauthError {
    refused(error, Refusal::new(IDENTITY_INVALID, why))
}

fn no_client(why: impl Into<String>) -> OauthError {
    refused("invalid_client", Refusal::new(KEY_UNKNOWN, why))
}

/// A client that proved who it is.
struct OauthClient {
    agent: Arc<Agent>,
    /// The thumbprint of the credential by which it did.
    root: Digest,
    /// The SHA-256 of its certificate, where it was by that, and when that ends, in Unix milliseconds.
    certificate: Option<Digest>,
    until_unix_ms: Option<u64>,
}

/// Of whom a token says that it is on their behalf, and until when.
struct Behalf {
    name: String,
    until_unix_ms: u64,
}

/// `POST /oauth/token`.
pub(super) async fn serve(shared: &IdentityShared, mut asked: Asked<'_>) -> Response {
    let given = give(shared, &mut asked).await;
    respond(shared, asked, given).await
}

async fn give(shared: &IdentityShared, asked: &mut Asked<'_>) -> Result<Value, OauthError> {
    let form = Form::read(asked.request).await?;
    let trust = trust(shared)?;
    // Before the assertion is used up: who is asked for a nonce sends the same one again.
    let proof = proof(shared, &trust, asked.request)?;
    let client = client(shared, &trust, asked, &form).await?;
    let binding = binding(shared, proof, &client).await?;
    let behalf = match form.get("grant_type") {
        Some("client_credentials") => None,
        Some(EXCHANGE) => Some(exchanged(shared, &trust, &form)?),
        Some(_) => {
            return Err(wrong(
                "unsupported_grant_type",
                "this grant is not given here",
            ));
        }
        None => return Err(wrong("invalid_request", "grant_type is missing")),
    };
    let scopes = scopes(&form)?;
    let audience = audience(&trust, &form)?;
    let until = behalf.as_ref().map(|behalf| behalf.until_unix_ms);
    let life_ms = life_ms(shared, &client, until);
    let behalf = behalf.map(|behalf| behalf.name);
    let id = new_call_id().to_string();
    let token = shared.key.sign(&NewToken {
        issuer: &trust.issuer,
        audience: &audience,
        subject: client.agent.name.as_str(),
        behalf: behalf.as_deref(),
        scopes: &scopes,
        binding,
        root: client.root,
        id: &id,
        now_unix_ms: shared.now().unix_ms,
        life_ms,
    });
    shared.note(
        client.agent.name.as_str(),
        "token",
        client.agent.name.as_str(),
    );
    let mut said = json!({
        "access_token": token,
        "token_type": if matches!(binding, Some(TokenBinding::Key(_))) { "DPoP" } else { "Bearer" },
        "expires_in": life_ms / 1000,
    });
    if !scopes.is_empty() {
        said["scope"] = scopes.join(" ").into();
    }
    if behalf.is_some() {
        said["issued_token_type"] = "urn:ietf:params:oauth:token-type:access_token".into();
    }
    Ok(said)
}

fn trust(shared: &IdentityShared) -> Result<Arc<TokenTrust>, OauthError> {
    shared
        .trust()
        .ok_or_else(|| wrong("invalid_request", "this gateway gives no tokens"))
}

/// How long a token is good: no longer than its agent, the certificate by which it was asked for, and the token that it was exchanged
/// for.
fn life_ms(shared: &IdentityShared, client: &OauthClient, behalf_until: Option<u64>) -> u64 {
    let life_ms = shared
        .settings
        .as_ref()
        .map_or(0, |identity| identity.token_ms);
    let now = shared.now().unix_ms;
    let ends = [
        client.agent.expires_unix_ms,
        client.until_unix_ms,
        behalf_until,
    ];
    let ends = ends.into_iter().flatten();
    ends.map(|until| until.saturating_sub(now))
        .fold(life_ms, u64::min)
}

/// Who the client is: by an assertion, or by the certificate of its connection.
async fn client(
    shared: &IdentityShared,
    trust: &TokenTrust,
    asked: &Asked<'_>,
    form: &Form,
) -> Result<OauthClient, OauthError> {
    let certificate = asked.request.peer.certificate();
    let found = match (form.get("client_assertion"), certificate) {
        (Some(assertion), _) => {
            if form.get("client_assertion_type") != Some(JWT_BEARER) {
                return Err(no_client(
                    "client_assertion_type is another than jwt-bearer",
                ));
            }
            let found = asserted(shared, trust, asked, assertion).await?;
            // Two credentials that contradict are refused, here as for every call. A certificate that names no agent, such as a proxy's,
            // says nothing.
            let shown = certificate.and_then(|der| of_certificate(shared, der).ok());
            if shown.is_some_and(|shown| shown.agent.name != found.agent.name) {
                return Err(no_client(
                    "the certificate of this connection is another agent's",
                ));
            }
            found
        }
        (None, Some(der)) => {
            let found = of_certificate(shared, der)?;
            let agent = &found.agent;
            check_client(shared, asked, agent, Credential::Certificate, found.root).await?;
            found
        }
        (None, None) => {
            return Err(no_client("a client_assertion or a certificate is needed"));
        }
    };
    match form.get("client_id") {
        Some(id) if id != found.agent.name.as_str() => {
            Err(no_client("client_id is another than the client's"))
        }
        _ => Ok(found),
    }
}

/// Whose a certificate of the handshake is. A connection may be older than its end, which is asked for again here.
fn of_certificate(shared: &IdentityShared, der: &[u8]) -> Result<OauthClient, OauthError> {
    let read = ClientCertificate::read(der)
        .map_err(|error| no_client(format!("the certificate is not taken: {error}")))?;
    if read.expires_unix_ms <= shared.now().unix_ms {
        return Err(no_client("the certificate has ended"));
    }
    let digest = certificate_thumbprint(der);
    // One of another authority is known by the SPIFFE id that the operator mapped.
    let names = [digest, spiffe_digest(&read.id.to_string())];
    let mut roots = names.iter().map(identity::thumbprint);
    let found = roots.find_map(|root| Some((shared.known.agent_by_thumbprint(&root)?, root)));
    let (agent, root) = found.ok_or_else(|| no_client("no agent has this certificate"))?;
    Ok(OauthClient {
        agent,
        root,
        certificate: Some(digest),
        until_unix_ms: Some(read.expires_unix_ms),
    })
}

/// Whether a client that proved who it is may ask: it is active, nothing stops it, and its budget is not spent. Asked before
/// anything is remembered of it.
async fn check_client(
    shared: &IdentityShared,
    asked: &Asked<'_>,
    agent: &Arc<Agent>,
    by: Credential,
    root: Digest,
) -> Result<(), OauthError> {
    let verified = Verified::by_lane(Arc::clone(agent), by, Some(root), shared.gate.epoch());
    let resource = resource();
    let request = &asked.request;
    let method = request.head.method.as_str();
    let call = Call::new(asked.id, request.peer.caller, &TOKEN, &resource, method);
    let checked = shared.gate.verify_client(verified, &call).await;
    checked.map(drop).map_err(|refusal| OauthError {
        error: match refusal.code.status {
            401 | 403 => "invalid_client",
            _ => "temporarily_unavailable",
        },
        refusal: Box::new(refusal),
        is_recorded: true,
    })
}

/// `private_key_jwt` (RFC 7523 §3): signed by a key that the agent enrolled, for this service, once.
async fn asserted(
    shared: &IdentityShared,
    trust: &TokenTrust,
    asked: &Asked<'_>,
    assertion: &str,
) -> Result<OauthClient, OauthError> {
    let bad = |why: &dyn std::fmt::Display| no_client(format!("the assertion is not taken: {why}"));
    let signed = SignedText::read(assertion, HeaderKey::Refused).map_err(|error| bad(&error))?;
    // What was signed for another purpose is no assertion (RFC 8725 §3.11): a proof, an access token, a proof of enrolment.
    let typ = signed.header.typ.as_deref();
    if !typ.is_none_or(|typ| ASSERTION_TYPES.contains(&typ)) {
        return Err(bad(&"its typ is none of an assertion"));
    }
    let json = signed.claims().map_err(|error| bad(&error))?;
    let name = needed(json.root(), "iss")
        .map_err(|error| bad(&error))?
        .into_owned();
    let keys = enrolled_keys(shared, &name).ok_or_else(|| bad(&"no agent has this name"))?;
    let mut keys = keys
        .iter()
        .filter_map(|jwk| PublicKey::from_jwk_text(jwk.as_bytes()).ok());
    let key = keys.find(|key| signed.verify(key).is_ok());
    let key = key.ok_or_else(|| bad(&"it is signed by no key of the agent"))?;
    let mut audiences = trust.uris(asked.request.head.uri.path());
    audiences.extend(trust.uris("/oauth/token"));
    audiences.extend(trust.uris("/"));
    audiences.extend(trust.origins.iter().cloned());
    let audiences: Vec<&str> = audiences.iter().map(String::as_str).collect();
    let now = shared.now().unix_ms;
    let expected = ExpectedClaims {
        issuer: &name,
        audiences: &audiences,
        life_ms_max: ASSERTION_MS_MAX,
        now_unix_ms: now,
    };
    let claims = expected.check(json.root()).map_err(|error| bad(&error))?;
    if claims.subject != name {
        return Err(bad(&"iss and sub differ"));
    }
    let id = claims
        .id
        .as_deref()
        .ok_or_else(|| bad(&"its claim jti is missing"))?;
    check_issued(claims.issued_unix_ms, shared.knows_since_unix_ms(), now)
        .map_err(|why| bad(&why))?;
    let root = identity::thumbprint(&key.thumbprint());
    let agent = shared.known.agent_by_thumbprint(&root);
    let agent = agent.ok_or_else(|| bad(&"the agent has its key no more"))?;
    check_client(shared, asked, &agent, Credential::Token, root).await?;
    let once = token_id(&format!("assertion {name} {id}"));
    let until = claims
        .expires_unix_ms
        .saturating_add(identity::jwt::CLOCK_SKEW_MS);
    let used = shared.gate.use_once(&once, until).await;
    used.map_err(|refusal| refused("invalid_client", refusal))?;
    Ok(OauthClient {
        agent,
        root,
        certificate: None,
        until_unix_ms: None,
    })
}

/// The public keys of an agent, as JWKs; nothing where no agent has this name.
fn enrolled_keys(shared: &IdentityShared, name: &str) -> Option<Vec<String>> {
    shared.known.look(|book| {
        let credentials = book.agent(name).ok()?.credentials.iter();
        let keys = credentials.filter(|one| one.kind == CredentialKind::Jwk);
        Some(keys.filter_map(|one| one.jwk.clone()).collect())
    })
}

/// Refuses an assertion that may have been used before this process began, which remembers only what it saw itself. For that
/// none may be dated ahead either. Dates have whole seconds.
fn check_issued(
    issued_unix_ms: Option<u64>,
    started_unix_ms: u64,
    now_unix_ms: u64,
) -> Result<(), &'static str> {
    match issued_unix_ms {
        None => Err("its claim iat is missing"),
        Some(issued) if issued > now_unix_ms => Err("its iat is ahead of this gateway's clock"),
        Some(issued) if issued / 1000 < started_unix_ms / 1000 => {
            Err("it was made before this gateway started; make another")
        }
        Some(_) => Ok(()),
    }
}

/// The proof of a key, where there is one. Its id is not used up yet.
fn proof(
    shared: &IdentityShared,
    trust: &TokenTrust,
    request: &Request,
) -> Result<Option<GoodProof>, OauthError> {
    if !request.head.headers.contains_key("dpop") {
        return Ok(None);
    }
    let proof = field(request, "dpop");
    let proof =
        proof.ok_or_else(|| bad_proof(Refusal::new(PROOF_INVALID, "there are several proofs")))?;
    let uris = trust.uris(request.head.uri.path());
    let expected = ExpectedProof {
        method: request.head.method.as_str(),
        uris: &uris,
        token: None,
        nonces: &trust.nonces,
        now_unix_ms: shared.now().unix_ms,
    };
    let checked = check_proof(proof, &expected).map_err(|error| match error {
        ProofError::Nonce => refused("use_dpop_nonce", proof_refused(error)),
        error => bad_proof(proof_refused(error)),
    });
    checked.map(Some)
}

fn bad_proof(refusal: Refusal) -> OauthError {
    refused("invalid_dpop_proof", refusal)
}

/// What the new token is bound to: the key of a proof, or the certificate.
async fn binding(
    shared: &IdentityShared,
    proof: Option<GoodProof>,
    client: &OauthClient,
) -> Result<Option<TokenBinding>, OauthError> {
    let Some(proof) = proof else {
        return Ok(client.certificate.map(TokenBinding::Certificate));
    };
    let used = shared.gate.use_once(&proof.once, proof.until_unix_ms).await;
    used.map_err(bad_proof)?;
    Ok(Some(TokenBinding::Key(proof.key.thumbprint())))
}

/// On whose behalf, by the token of a person (RFC 8693 §2.1).
fn exchanged(
    shared: &IdentityShared,
    trust: &TokenTrust,
    form: &Form,
) -> Result<Behalf, OauthError> {
    let bad = |why: &dyn std::fmt::Display| {
        wrong(
            "invalid_request",
            format!("the subject_token is not taken: {why}"),
        )
    };
    let kind = form.get("subject_token_type").unwrap_or_default();
    let is_taken = ["jwt", "access_token", "id_token"]
        .iter()
        .any(|one| kind.strip_prefix("urn:ietf:params:oauth:token-type:") == Some(one));
    if !is_taken {
        return Err(bad(&"its type is another"));
    }
    if form.get("actor_token").is_some() {
        return Err(bad(
            &"the client is the actor, by what it proved itself with",
        ));
    }
    let token = form.get("subject_token").unwrap_or_default();
    let issuer = identity::access::issuer_of(token).map_err(|error| bad(&error))?;
    let outside = trust
        .outside(&issuer)
        .ok_or_else(|| bad(&"its issuer is not known here"))?;
    let read = outside.read(token, shared.now().unix_ms);
    let read = read.ok_or_else(|| bad(&"the keys of its issuer cannot be had now"))?;
    let read = read.map_err(|error| bad(&error))?;
    match read.binding {
        Some(_) => Err(bad(&"it is bound to a key that did not sign this request")),
        None if read.claims.expires_unix_ms <= shared.now().unix_ms => Err(bad(&"it has ended")),
        None => Ok(Behalf {
            name: format!("{}:{}", outside.name, read.claims.subject),
            until_unix_ms: read.claims.expires_unix_ms,
        }),
    }
}

fn scopes(form: &Form) -> Result<Vec<String>, OauthError> {
    let unknown = || {
        wrong(
            "invalid_scope",
            "a scope is the name of a lane or of an action",
        )
    };
    let scopes = read_scopes(form.get("scope").unwrap_or_default()).ok_or_else(unknown)?;
    let is_known = |scope: &String| {
        crate::lanes::ALL.iter().any(|row| {
            row.lane.name == scope || row.lane.actions.iter().any(|action| action.name == scope)
        })
    };
    match scopes.iter().all(is_known) {
        true => Ok(scopes),
        false => Err(unknown()),
    }
}

/// Where the token may be used: the gateway, or what stands at and below a URL of it.
fn audience(trust: &TokenTrust, form: &Form) -> Result<String, OauthError> {
    let Some(resource) = form.get("resource").or_else(|| form.get("audience")) else {
        return Ok(trust.issuer.clone());
    };
    let is_ours = trust.origins.iter().any(|origin| {
        let rest = resource.strip_prefix(origin.as_str());
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.starts_with('/') && !rest.contains(['?', '#'])
        })
    });
    match is_ours {
        true => Ok(resource.to_owned()),
        false => Err(wrong(
            "invalid_target",
            "the resource is none of this gateway's",
        )),
    }
}

async fn respond(
    shared: &IdentityShared,
    asked: Asked<'_>,
    given: Result<Value, OauthError>,
) -> Response {
    let id = asked.id;
    let mut response = match given {
        Ok(said) => {
            asked.request.is_of_known_agent();
            answer(StatusCode::OK, &said)
        }
        Err(OauthError {
            error,
            refusal,
            is_recorded,
        }) => {
            let refusal = match is_recorded {
                true => *refusal,
                false => shared.turn_away(&asked, &TOKEN, *refusal).await,
            };
            let own = StatusCode::from_u16(refusal.code.status);
            let status = match own.unwrap_or(StatusCode::BAD_REQUEST) {
                own @ StatusCode::TOO_MANY_REQUESTS => own,
                own if own.is_server_error() => own,
                _ if error == "invalid_client" => StatusCode::UNAUTHORIZED,
                _ => StatusCode::BAD_REQUEST,
            };
            let said = json!({
                "error": error,
                "error_description": format!("{}. {}", refusal.public, refusal.mend()),
                "code": refusal.code.name,
                "call": id.to_string(),
            });
            answer(status, &said)
        }
    };
    let nonce = http::HeaderValue::try_from(shared.nonce());
    if let Ok(nonce) = nonce {
        response.headers_mut().insert("dpop-nonce", nonce);
    }
    response
}

/// Reads an own token of any audience.
fn own(shared: &IdentityShared, trust: &TokenTrust, text: &str) -> Option<AccessToken> {
    let signed = SignedText::read(text, HeaderKey::Refused).ok()?;
    let json = signed.claims().ok()?;
    let audience = needed(json.root(), "aud").ok()?.into_owned();
    let expected = ExpectedClaims {
        issuer: &trust.issuer,
        audiences: &[&audience],
        life_ms_max: trust.life_ms_max,
        now_unix_ms: shared.now().unix_ms,
    };
    AccessToken::read(text, &trust.keys, &expected).ok()
}

/// `POST /oauth/introspect` (RFC 7662): for agents, of own tokens.
pub(super) async fn introspect(shared: &IdentityShared, mut asked: Asked<'_>) -> Response {
    let said = introspected(shared, &mut asked).await;
    respond(shared, asked, said).await
}

async fn introspected(shared: &IdentityShared, asked: &mut Asked<'_>) -> Result<Value, OauthError> {
    let form = Form::read(asked.request).await?;
    let trust = trust(shared)?;
    client(shared, &trust, asked, &form).await?;
    let token = own(shared, &trust, form.get("token").unwrap_or_default());
    let token = token.filter(|token| {
        let id = token.claims.id.as_deref().map(token_id);
        let holder = shared.known.agent_by_thumbprint(&token.root);
        let is_held = holder
            .is_some_and(|agent| agent.name.as_str() == token.agent && agent.state.check().is_ok());
        is_held && !id.is_some_and(|id| shared.known.is_revoked(&id))
    });
    let Some(token) = token else {
        return Ok(json!({ "active": false }));
    };
    let mut said = json!({
        "active": true,
        "client_id": token.agent,
        "sub": token.claims.subject,
        "iss": trust.issuer,
        "exp": token.claims.expires_unix_ms / 1000,
        "jti": token.claims.id,
        "scope": token.scopes.join(" "),
    });
    match token.binding {
        Some(TokenBinding::Key(key)) => {
            said["token_type"] = "DPoP".into();
            said["cnf"] = json!({ "jkt": identity::jose::to_base64url(&key.0) });
        }
        Some(TokenBinding::Certificate(certificate)) => {
            said["token_type"] = "Bearer".into();
            said["cnf"] = json!({ "x5t#S256": identity::jose::to_base64url(&certificate.0) });
        }
        None => said["token_type"] = "Bearer".into(),
    }
    Ok(said)
}

/// `POST /oauth/revoke` (RFC 7009): an agent takes back a token of its own. A token that is none is taken back already.
pub(super) async fn revoke(shared: &IdentityShared, mut asked: Asked<'_>) -> Response {
    let said = revoked(shared, &mut asked).await;
    respond(shared, asked, said).await
}

async fn revoked(shared: &IdentityShared, asked: &mut Asked<'_>) -> Result<Value, OauthError> {
    let form = Form::read(asked.request).await?;
    let trust = trust(shared)?;
    let client = client(shared, &trust, asked, &form).await?;
    let Some(token) = own(shared, &trust, form.get("token").unwrap_or_default()) else {
        return Ok(json!({}));
    };
    let name = client.agent.name.as_str();
    let id = token.claims.id.as_deref().map(token_id);
    let (true, Some(id)) = (token.agent == name, id) else {
        let refusal = Refusal::new(TOKEN_INVALID, "the token is another agent's");
        return Err(refused("unauthorized_client", refusal));
    };
    let (now, until) = (shared.now().unix_ms, token.claims.expires_unix_ms);
    let changed = shared.change(name, "token.revoke", name, |book| {
        book.revoke_token(&id, until, now)
    });
    changed.await.map_err(|refusal| OauthError {
        error: "server_error",
        refusal: Box::new(refusal),
        is_recorded: true,
    })?;
    Ok(json!({}))
}

/// The parameters of a request.
struct Form(Vec<(String, String)>);

impl Form {
    /// Reads `application/x-www-form-urlencoded`. RFC 6749 §3.2: none is there twice, and one without a value is not there.
    async fn read(request: &mut Request) -> Result<Form, OauthError> {
        let body = request.body().await;
        let body = body.map_err(|refusal| refused("invalid_request", refusal))?;
        let malformed = || wrong("invalid_request", "the body is not a form of parameters");
        let kind = field(request, "content-type").unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return Err(malformed());
        }
        let text = std::str::from_utf8(&body).map_err(|_| malformed())?;
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decoded(name).ok_or_else(malformed)?;
            let value = decoded(value).ok_or_else(malformed)?;
            if pairs.len() >= PARAMETERS_MAX || pairs.iter().any(|(other, _)| *other == name) {
                return Err(wrong("invalid_request", "a parameter is there twice"));
            }
            pairs.push((name, value));
        }
        Ok(Form(pairs))
    }

    fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(other, _)| other == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }
}

fn decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                out.push(is_hex.then(|| u8::from_str_radix(digits, 16).ok())??);
            }
            byte => out.push(byte),
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::{check_issued, decoded};

    #[test]
    fn an_assertion_is_of_this_process() {
        let check = |issued| check_issued(issued, 10_500, 20_000).is_ok();
        assert!(check(Some(10_000)) && check(Some(20_000)));
        assert!(!check(None) && !check(Some(9_000)) && !check(Some(21_000)));
    }

    #[test]
    fn a_form_is_decoded_in_one_way() {
        assert_eq!(decoded("a+b%20c%3a").as_deref(), Some("a b c:"));
        for bad in ["%", "%a", "%zz", "%+1", "%ff"] {
            assert_eq!(decoded(bad), None, "{bad}");
        }
    }
}
