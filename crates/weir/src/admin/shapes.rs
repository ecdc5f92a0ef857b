//! What goes over the admin listener as JSON, both ways.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The schema of a type.
pub(crate) fn of<T: JsonSchema>() -> Value {
    let mut schema = config::schema::of::<T>();
    if let Some(members) = schema.as_object_mut() {
        members.remove("$schema");
    }
    schema
}

/// The schema of an answer whose form another document says.
pub(crate) fn any_object() -> Value {
    json!({ "type": "object" })
}

/// Of an answer that is no JSON.
pub(crate) fn nothing() -> Value {
    Value::Null
}

/// What is stopped, or is to be.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StopsBody {
    /// `all`, `lane:NAME` and `agent:NAME`.
    pub(crate) stop: Vec<String>,
}

/// What is stopped.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct StopsView {
    /// `all`, `lane:NAME` and `agent:NAME`; empty where nothing is.
    pub(crate) stopped: Vec<String>,
}

/// All agents.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct AgentList {
    /// It is another number after each change.
    pub(crate) epoch: u64,
    pub(crate) agents: Vec<AgentView>,
}

/// One agent.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct AgentView {
    pub(crate) name: String,
    /// `invited`, `pending`, `active`, `suspended`, `revoked`.
    pub(crate) state: String,
    pub(crate) groups: Vec<String>,
    /// RFC 3339, in UTC; nothing where it does not expire.
    pub(crate) expires: Option<String>,
    /// `weir.yaml` where the configuration defines it, and changes it alone; else `directory`.
    pub(crate) from: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) made: Option<String>,
    /// Why it is not in force, where the configuration has another of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hidden: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) credentials: Option<Vec<CredentialView>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) invites: Option<Vec<InviteView>>,
}

/// A credential, without what is secret.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CredentialView {
    /// `key`, `jwk`, `certificate`.
    pub(crate) kind: String,
    pub(crate) id: String,
    pub(crate) made: String,
    pub(crate) expires: Option<String>,
    /// Of a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) serial: Option<String>,
}

/// An invite that was not used.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct InviteView {
    pub(crate) expires: String,
    /// Whoever enrols by it may call at once.
    pub(crate) approved: bool,
    /// How often it was used wrongly.
    pub(crate) tries: u32,
}

/// What an invite is to be.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct InviteBody {
    /// The agent's name.
    #[schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"))]
    pub(crate) name: String,
    #[schemars(length(max = 64))]
    pub(crate) groups: Option<Vec<String>>,
    /// Whether it may call at once, without a person's approval.
    pub(crate) approved: Option<bool>,
    /// How long the invite is good; an hour where nothing is said.
    #[schemars(range(min = 1, max = 168))]
    pub(crate) hours: Option<u64>,
    /// How long the agent is.
    #[schemars(range(min = 1, max = 87600))]
    pub(crate) agent_hours: Option<u64>,
}

/// An invite, shown once.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct InviteMade {
    pub(crate) name: String,
    pub(crate) invite: String,
    pub(crate) expires: String,
    pub(crate) approved: bool,
    /// Where the agent enrols.
    pub(crate) url: Option<String>,
}

/// What a key is to be.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyBody {
    /// Of an agent that is made with it.
    #[schemars(length(max = 64))]
    pub(crate) groups: Option<Vec<String>>,
    /// How long the key is good; always, where nothing is said.
    #[schemars(range(min = 1, max = 87600))]
    pub(crate) hours: Option<u64>,
    /// The agent's other keys end then.
    #[schemars(range(min = 1, max = 87600))]
    pub(crate) overlap_hours: Option<u64>,
}

/// A key, shown once.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct KeyMade {
    pub(crate) name: String,
    pub(crate) key: String,
    pub(crate) id: String,
    pub(crate) expires: Option<String>,
}

/// Credentials that are good no more.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct RevokedCredentials {
    pub(crate) revoked: Vec<CredentialView>,
}

/// A refusal (RFC 9457).
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ProblemBody {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) title: String,
    pub(crate) status: u16,
    /// What to do.
    pub(crate) detail: String,
    /// One of the reference page's.
    pub(crate) code: String,
    /// The id that finds the record.
    pub(crate) call: String,
}
