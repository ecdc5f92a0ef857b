//! What the operator does about agents while serving: lists, invites, approves, suspends, revokes, and makes keys.
//!
//! It answers at the admin listener alone, whose socket knows its user. Each change is recorded before it is in force. Agents that
//! the configuration defines are shown, and changed there alone.

use base::{Name, Refusal, refusal};
use http::{Method, StatusCode};
use net::{Request, Response};
use serde_json::{Value, json};
use store::directory::{
    AgentEntry, CredentialEntry, CredentialKind, EntryState, InviteEntry, NewInvite,
};

use crate::admin::AdminActor;
use crate::admin::body::json_object;
use crate::admin::shapes::{
    AgentList, AgentView, CredentialView, InviteMade, InviteView, KeyMade, RevokedCredentials,
};

use super::enrol::{INVITE_PREFIX, invite_digest};
use super::shared::IdentityShared;
use super::{Asked, answer};

const HOUR_MS: u64 = 3_600_000;
/// Longest life of an invite, in hours.
const INVITE_HOURS_MAX: u64 = 24 * 7;
/// Longest life that may be asked for a key or an agent, in hours: ten years.
const HOURS_MAX: u64 = 24 * 3650;

pub(super) async fn serve(shared: &IdentityShared, asked: Asked<'_>) -> Result<Response, Refusal> {
    let by = by(asked.request);
    let method = asked.request.head.method.clone();
    let path: Vec<&str> = asked
        .rest
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    match (&method, path.as_slice()) {
        (&Method::GET, []) => Ok(answer(StatusCode::OK, &json!(list(shared)))),
        (&Method::POST, []) => invite(shared, &by, asked.request).await,
        (&Method::GET, [name]) => show(shared, name),
        (&Method::POST, [name, "keys"]) => new_key(shared, &by, name, asked.request).await,
        (&Method::DELETE, [name, "credentials", id]) => remove(shared, &by, name, id).await,
        (&Method::POST, [name, verb]) => {
            json_object(asked.request, &[]).await?;
            set_state(shared, &by, name, verb).await
        }
        _ => Err(Refusal::new(
            refusal::METHOD,
            "this route has no such method",
        )),
    }
}

/// Who does it, as the admin listener found.
fn by(request: &Request) -> String {
    let actor = request.head.extensions.get::<AdminActor>();
    actor.map_or_else(|| "nobody".to_owned(), |actor| actor.by.clone())
}

fn list(shared: &IdentityShared) -> AgentList {
    let (configured, book) = shared.known.agents();
    let mut agents: Vec<AgentView> = Vec::new();
    for agent in &configured {
        // An agent with several keys stands there once for each.
        if agents.iter().any(|known| known.name == agent.name.as_str()) {
            continue;
        }
        agents.push(AgentView {
            name: agent.name.to_string(),
            state: agent.state.as_str().to_owned(),
            groups: agent.groups.iter().map(Name::to_string).collect(),
            expires: agent.expires_unix_ms.map(base::clock::rfc3339),
            from: "weir.yaml".to_owned(),
            made: None,
            hidden: None,
            credentials: None,
            invites: None,
        });
    }
    let of_file = agents.len();
    for entry in &book.agents {
        let is_hidden = agents[..of_file]
            .iter()
            .any(|known| known.name == entry.name);
        agents.push(AgentView {
            hidden: is_hidden.then(|| "weir.yaml defines an agent of this name".to_owned()),
            ..entry_view(entry)
        });
    }
    AgentList {
        epoch: book.epoch,
        agents,
    }
}

fn entry_view(entry: &AgentEntry) -> AgentView {
    AgentView {
        name: entry.name.clone(),
        state: entry.state.as_str().to_owned(),
        groups: entry.groups.clone(),
        expires: entry.expires_unix_ms.map(base::clock::rfc3339),
        from: "directory".to_owned(),
        made: Some(base::clock::rfc3339(entry.made_unix_ms)),
        hidden: None,
        credentials: Some(entry.credentials.iter().map(credential_view).collect()),
        invites: None,
    }
}

fn credential_view(credential: &CredentialEntry) -> CredentialView {
    let kind = match credential.kind {
        CredentialKind::Key => "key",
        CredentialKind::Jwk => "jwk",
        CredentialKind::Certificate => "certificate",
    };
    CredentialView {
        kind: kind.to_owned(),
        id: credential.id.clone(),
        made: base::clock::rfc3339(credential.made_unix_ms),
        expires: credential.expires_unix_ms.map(base::clock::rfc3339),
        serial: credential.serial.clone(),
    }
}

fn show(shared: &IdentityShared, name: &str) -> Result<Response, Refusal> {
    let mut agents = list(shared).agents.into_iter();
    let found = agents.find(|agent| agent.name == name);
    let mut said = found
        .ok_or_else(|| Refusal::new(refusal::AGENT_UNKNOWN, "there is no agent of this name"))?;
    let (_, book) = shared.known.agents();
    let open = |invite: &&InviteEntry| invite.agent == name && !invite.used;
    let view = |invite: &InviteEntry| InviteView {
        expires: base::clock::rfc3339(invite.expires_unix_ms),
        approved: invite.approved,
        tries: invite.tries,
    };
    said.invites = Some(book.invites.iter().filter(open).map(view).collect());
    Ok(answer(StatusCode::OK, &json!(said)))
}

/// The name of an agent that the directory may change.
fn changeable(shared: &IdentityShared, name: &str) -> Result<Name, Refusal> {
    let read = Name::new(name).ok_or_else(|| {
        Refusal::new(
            refusal::IDENTITY_INVALID,
            "the name of an agent is 1 to 64 of a-z A-Z 0-9 . _ -, the first a letter or a digit",
        )
    })?;
    let (configured, _) = shared.known.agents();
    match configured.iter().any(|agent| agent.name == read) {
        true => Err(Refusal::new(
            refusal::AGENT_CONFIGURED,
            "weir.yaml defines this agent",
        )),
        false => Ok(read),
    }
}

/// A number of hours of a body, in milliseconds.
fn hours(body: &Value, name: &str, most: u64) -> Result<Option<u64>, Refusal> {
    let wrong = || {
        let public = format!("{name} has to be a number of hours, 1 to {most}");
        Refusal::new(refusal::IDENTITY_INVALID, public)
    };
    match &body[name] {
        Value::Null => Ok(None),
        value => {
            let hours = value.as_u64().filter(|hours| (1..=most).contains(hours));
            Ok(Some(hours.ok_or_else(wrong)? * HOUR_MS))
        }
    }
}

/// Whether a member of a body is true; it is not where it is not there.
fn switch(body: &Value, name: &str) -> Result<bool, Refusal> {
    match &body[name] {
        Value::Null => Ok(false),
        Value::Bool(is_on) => Ok(*is_on),
        _ => {
            let public = format!("{name} has to be true or false");
            Err(Refusal::new(refusal::IDENTITY_INVALID, public))
        }
    }
}

fn random() -> Result<[u8; 32], Refusal> {
    let mut random = [0; 32];
    aws_lc_rs::rand::fill(&mut random)
        .map_err(|_| Refusal::new(refusal::FAILED, "the system gives no random bytes"))?;
    Ok(random)
}

/// `POST /admin/agents`: `{"name", "groups", "approved", "hours", "agent_hours"}`.
async fn invite(
    shared: &IdentityShared,
    by: &str,
    request: &mut Request,
) -> Result<Response, Refusal> {
    const MEMBERS: &[&str] = &["name", "groups", "approved", "hours", "agent_hours"];
    let body = json_object(request, MEMBERS).await?;
    let agent = changeable(shared, body["name"].as_str().unwrap_or_default())?;
    let groups = groups(&body)?;
    let life_ms = hours(&body, "hours", INVITE_HOURS_MAX)?.unwrap_or(HOUR_MS);
    let agent_ms = hours(&body, "agent_hours", HOURS_MAX)?;
    let text = format!(
        "{INVITE_PREFIX}{}",
        identity::jose::to_base64url(&random()?)
    );
    let digest = invite_digest(&text).expect("an invite reads as it was written");
    let now = shared.now().unix_ms;
    let new = NewInvite {
        agent: &agent,
        groups: &groups,
        digest,
        approved: switch(&body, "approved")?,
        now_unix_ms: now,
        life_ms,
        agent_expires_unix_ms: agent_ms.map(|ms| now + ms),
    };
    let name = agent.as_str();
    shared
        .change(by, "agent.invite", name, |book| book.invite(&new))
        .await?;
    Ok(answer(
        StatusCode::CREATED,
        &json!(InviteMade {
            name: name.to_owned(),
            invite: text,
            expires: base::clock::rfc3339(now + life_ms),
            approved: new.approved,
            url: shared.trust().map(|trust| trust.issuer.clone()),
        }),
    ))
}

fn groups(body: &Value) -> Result<Vec<Name>, Refusal> {
    let wrong = || {
        Refusal::new(
            refusal::IDENTITY_INVALID,
            "groups has to be a list of names",
        )
    };
    match &body["groups"] {
        Value::Null => Ok(Vec::new()),
        value => {
            let listed = value.as_array().filter(|listed| listed.len() <= 64);
            let names = listed.ok_or_else(wrong)?.iter();
            let names = names.map(|name| name.as_str().and_then(Name::new).ok_or_else(wrong));
            names.collect()
        }
    }
}

/// `POST /admin/agents/NAME/keys`: a new key, shown once. The agent is made where there is none.
async fn new_key(
    shared: &IdentityShared,
    by: &str,
    name: &str,
    request: &mut Request,
) -> Result<Response, Refusal> {
    let body = json_object(request, &["groups", "hours", "overlap_hours"]).await?;
    let agent = changeable(shared, name)?;
    let groups = groups(&body)?;
    let now = shared.now().unix_ms;
    let life_ms = hours(&body, "hours", HOURS_MAX)?;
    let (key, digest) = identity::new_key(random()?);
    let entry = CredentialEntry {
        expires_unix_ms: life_ms.map(|ms| now + ms),
        ..CredentialEntry::new(CredentialKind::Key, digest, now)
    };
    let (id, expires) = (entry.id.clone(), entry.expires_unix_ms);
    // For a key that takes the place of others: until when those are good still.
    let overlap_ms = hours(&body, "overlap_hours", HOURS_MAX)?;
    let name = agent.as_str();
    shared
        .change(by, "key.new", name, |book| {
            let entry_state = {
                let made = book.make_agent(&agent, &groups, EntryState::Active, now)?;
                if made.state == EntryState::Invited {
                    made.state = EntryState::Active;
                }
                if let Some(overlap_ms) = overlap_ms {
                    end_keys(made, now + overlap_ms);
                }
                made.state
            };
            book.add_credential(name, entry.clone(), now)?;
            Ok(entry_state)
        })
        .await?;
    Ok(answer(
        StatusCode::CREATED,
        &json!(KeyMade {
            name: name.to_owned(),
            key: key.expose().to_owned(),
            id,
            expires: expires.map(base::clock::rfc3339),
        }),
    ))
}

/// Has the keys of an agent end then, where they would be good for longer.
fn end_keys(agent: &mut AgentEntry, at_unix_ms: u64) {
    for key in &mut agent.credentials {
        if key.kind == CredentialKind::Key {
            let until = key.expires_unix_ms.unwrap_or(u64::MAX).min(at_unix_ms);
            key.expires_unix_ms = Some(until);
        }
    }
}

/// `DELETE /admin/agents/NAME/credentials/ID`. Says all that went with it.
async fn remove(
    shared: &IdentityShared,
    by: &str,
    name: &str,
    id: &str,
) -> Result<Response, Refusal> {
    let agent = changeable(shared, name)?;
    let now = shared.now().unix_ms;
    let name = agent.as_str();
    let gone = shared.change(by, "credential.revoke", name, |book| {
        book.remove_credential(name, id, now)
    });
    let gone = RevokedCredentials {
        revoked: gone.await?.iter().map(credential_view).collect(),
    };
    Ok(answer(StatusCode::OK, &json!(gone)))
}

/// `POST /admin/agents/NAME/approve`, `suspend`, `resume`, `revoke`.
async fn set_state(
    shared: &IdentityShared,
    by: &str,
    name: &str,
    verb: &str,
) -> Result<Response, Refusal> {
    use EntryState::{Active, Pending, Suspended};
    let agent = changeable(shared, name)?;
    let name = agent.as_str();
    let now = shared.now().unix_ms;
    let (what, from, to): (_, &[EntryState], _) = match verb {
        "approve" => ("agent.approve", &[Pending], Active),
        "suspend" => ("agent.suspend", &[Pending, Active], Suspended),
        "resume" => ("agent.resume", &[Suspended], Active),
        "revoke" => {
            shared
                .change(by, "agent.revoke", name, |book| book.revoke(name, now))
                .await?;
            return show(shared, name);
        }
        _ => {
            return Err(Refusal::new(
                refusal::NOT_FOUND,
                "there is nothing at this path",
            ));
        }
    };
    shared
        .change(by, what, name, |book| book.set_state(name, from, to))
        .await?;
    show(shared, name)
}
