//! What the directory's file holds, as it is written.

use base::{Digest, Name};
use identity::AgentState;
use serde::{Deserialize, Serialize};

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectoryBook {
    /// Grows with each change.
    pub epoch: u64,
    pub agents: Vec<AgentEntry>,
    pub invites: Vec<InviteEntry>,
    /// Tokens that were taken back, until they end.
    pub tokens: Vec<RevokedEntry>,
    /// Certificates that were taken back, by serial number, until they end.
    #[serde(default)]
    pub certificates: Vec<RevokedEntry>,
    /// Public keys that were taken back, by their thumbprints. They stay: a key that was stolen is not good again later.
    #[serde(default)]
    pub keys: Vec<RevokedEntry>,
}

/// An agent that was made while serving.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentEntry {
    pub name: String,
    #[serde(default)]
    pub groups: Vec<String>,
    pub state: EntryState,
    pub made_unix_ms: u64,
    /// From when on nothing of it is good; never where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_unix_ms: Option<u64>,
    #[serde(default)]
    pub credentials: Vec<CredentialEntry>,
}

/// Whether an agent may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryState {
    /// It has an invite that was not used yet.
    Invited,
    /// It enrolled, and waits for approval.
    Pending,
    Active,
    Suspended,
    Revoked,
}

impl EntryState {
    pub fn as_str(self) -> &'static str {
        match self {
            EntryState::Invited => "invited",
            EntryState::Pending => "pending",
            EntryState::Active => "active",
            EntryState::Suspended => "suspended",
            EntryState::Revoked => "revoked",
        }
    }
}

impl From<EntryState> for AgentState {
    fn from(state: EntryState) -> AgentState {
        match state {
            EntryState::Invited | EntryState::Pending => AgentState::Pending,
            EntryState::Active => AgentState::Active,
            EntryState::Suspended => AgentState::Suspended,
            EntryState::Revoked => AgentState::Revoked,
        }
    }
}

/// Something by which an agent is recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialEntry {
    pub kind: CredentialKind,
    /// Names it to the operator: the first 16 digits of its thumbprint in records.
    pub id: String,
    /// SHA-256 in hex digits: of a key's text, of a certificate in DER; of a JWK its thumbprint (RFC 7638).
    pub digest: String,
    pub made_unix_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_unix_ms: Option<u64>,
    /// The serial number of a certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// The thumbprint of the public key (RFC 7638) that a certificate is over, in hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The public key itself, of a JWK.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwk: Option<String>,
}

/// What a credential is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CredentialKind {
    /// A key of weir, `weir_…`.
    Key,
    /// A public key, with whose private half the agent signs assertions.
    Jwk,
    /// A certificate of the gateway's authority.
    Certificate,
}

impl CredentialEntry {
    /// A credential with this digest.
    pub fn new(kind: CredentialKind, digest: Digest, made_unix_ms: u64) -> CredentialEntry {
        CredentialEntry {
            kind,
            id: identity::thumbprint(&digest).to_string()[..16].to_owned(),
            digest: digest.to_string(),
            made_unix_ms,
            expires_unix_ms: None,
            serial: None,
            key: None,
            jwk: None,
        }
    }

    /// Its digest; nothing where the file was edited by hand and has none.
    pub fn digest(&self) -> Option<Digest> {
        Digest::from_hex(&self.digest)
    }

    /// The thumbprint of the public key that it stands for, in hex digits; nothing of a key of weir.
    pub fn public_key(&self) -> Option<&str> {
        match self.kind {
            CredentialKind::Key => None,
            CredentialKind::Jwk => Some(&self.digest),
            CredentialKind::Certificate => self.key.as_deref(),
        }
    }

    /// Whether its time is over.
    pub fn is_over(&self, now_unix_ms: u64) -> bool {
        self.expires_unix_ms.is_some_and(|at| at <= now_unix_ms)
    }
}

impl AgentEntry {
    /// Its name; nothing where the file was edited by hand and has none.
    pub fn name(&self) -> Option<Name> {
        Name::new(&self.name)
    }
}

/// Leave to enrol once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InviteEntry {
    /// SHA-256 of its text, in hex digits.
    pub digest: String,
    pub agent: String,
    /// Whether who enrols is active at once.
    pub approved: bool,
    pub made_unix_ms: u64,
    pub expires_unix_ms: u64,
    pub used: bool,
    /// How often it was used wrongly.
    pub tries: u32,
}

/// Something that was taken back before its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevokedEntry {
    /// Of a token the SHA-256 of its id, of a certificate its serial number; in hex digits.
    pub id: String,
    pub at_unix_ms: u64,
    /// When it ends by itself, and may be forgotten.
    pub until_unix_ms: u64,
}
