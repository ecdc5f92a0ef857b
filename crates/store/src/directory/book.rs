//! What can be done to the directory. Each function changes the book or refuses; none does I/O or reads a clock.

use base::refusal::{
    AGENT_STATE, AGENT_TAKEN, AGENT_UNKNOWN, IDENTITY_FULL, INVITE_EXPIRED, INVITE_LOCKED,
    INVITE_UNKNOWN, INVITE_USED, REQUEST_INVALID,
};
use base::{Digest, Name, Refusal};

use super::entries::{
    AgentEntry, CredentialEntry, CredentialKind, DirectoryBook, EntryState, InviteEntry,
    RevokedEntry,
};
use super::{AGENTS_MAX, CREDENTIALS_MAX, INVITE_TRIES_MAX, INVITES_MAX, REVOKED_MAX};

/// How long an invite that was used or ran out is remembered, in milliseconds, so that its use is told apart from a guess.
const INVITE_KEPT_MS: u64 = 7 * 86_400_000;

/// A new invite.
#[derive(Clone, Debug)]
pub struct NewInvite<'n> {
    pub agent: &'n Name,
    pub groups: &'n [Name],
    /// SHA-256 of the invite's text.
    pub digest: Digest,
    pub approved: bool,
    pub now_unix_ms: u64,
    pub life_ms: u64,
    /// From when on nothing of the agent is good.
    pub agent_expires_unix_ms: Option<u64>,
}

/// An invite that is good, of the agent that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redeemed {
    pub agent: Name,
    pub approved: bool,
}

impl DirectoryBook {
    /// The agent of this name.
    ///
    /// # Errors
    /// `identity.agent_unknown`.
    pub fn agent(&self, name: &str) -> Result<&AgentEntry, Refusal> {
        let found = self.agents.iter().find(|agent| agent.name == name);
        found.ok_or_else(unknown_agent)
    }

    fn agent_mut(&mut self, name: &str) -> Result<&mut AgentEntry, Refusal> {
        let found = self.agents.iter_mut().find(|agent| agent.name == name);
        found.ok_or_else(unknown_agent)
    }

    /// Makes an agent of this name where there is none. One that was revoked stays so: another name is for another.
    ///
    /// # Errors
    /// `identity.agent_taken` and `identity.full`.
    pub fn make_agent(
        &mut self,
        name: &Name,
        groups: &[Name],
        state: EntryState,
        now_unix_ms: u64,
    ) -> Result<&mut AgentEntry, Refusal> {
        if let Some(at) = self
            .agents
            .iter()
            .position(|agent| agent.name == name.as_str())
        {
            let agent = &mut self.agents[at];
            return match agent.state {
                EntryState::Revoked => {
                    let public = "an agent of this name was revoked, which is for good";
                    Err(Refusal::new(AGENT_TAKEN, public))
                }
                _ => Ok(&mut self.agents[at]),
            };
        }
        if self.agents.len() >= AGENTS_MAX {
            return Err(full("agents", AGENTS_MAX));
        }
        self.agents.push(AgentEntry {
            name: name.as_str().to_owned(),
            groups: groups
                .iter()
                .map(|group| group.as_str().to_owned())
                .collect(),
            state,
            made_unix_ms: now_unix_ms,
            expires_unix_ms: None,
            credentials: Vec::new(),
        });
        self.agents.last_mut().ok_or_else(unknown_agent)
    }

    /// Keeps an invite, and makes its agent where there is none. Invites before it for the same agent end.
    ///
    /// # Errors
    /// `identity.agent_taken` and `identity.full`.
    pub fn invite(&mut self, new: &NewInvite<'_>) -> Result<(), Refusal> {
        self.sweep(new.now_unix_ms);
        let agent = self.make_agent(new.agent, new.groups, EntryState::Invited, new.now_unix_ms)?;
        if !new.groups.is_empty() {
            agent.groups = new
                .groups
                .iter()
                .map(|group| group.as_str().to_owned())
                .collect();
        }
        if new.agent_expires_unix_ms.is_some() {
            agent.expires_unix_ms = new.agent_expires_unix_ms;
        }
        self.invites
            .retain(|invite| invite.used || invite.agent != new.agent.as_str());
        if self.invites.len() >= INVITES_MAX {
            return Err(full("invites", INVITES_MAX));
        }
        self.invites.push(InviteEntry {
            digest: new.digest.to_string(),
            agent: new.agent.as_str().to_owned(),
            approved: new.approved,
            made_unix_ms: new.now_unix_ms,
            expires_unix_ms: new.now_unix_ms.saturating_add(new.life_ms),
            used: false,
            tries: 0,
        });
        Ok(())
    }

    /// Whose invite this is, and whether it is good. It is not used up by that.
    ///
    /// # Errors
    /// `identity.invite_unknown`, `…_used`, `…_expired`, `…_locked`.
    pub fn invited(&self, digest: &Digest, now_unix_ms: u64) -> Result<Redeemed, Refusal> {
        let digest = digest.to_string();
        let invite = self.invites.iter().find(|invite| invite.digest == digest);
        let invite =
            invite.ok_or_else(|| Refusal::new(INVITE_UNKNOWN, "there is no such invite"))?;
        let refused =
            |code, public: &str| Err(Refusal::new(code, public).with_private(invite.agent.clone()));
        match () {
            () if invite.used => refused(INVITE_USED, "the invite was used already"),
            () if invite.tries >= INVITE_TRIES_MAX => {
                refused(INVITE_LOCKED, "the invite was used wrongly too often")
            }
            () if invite.expires_unix_ms <= now_unix_ms => {
                refused(INVITE_EXPIRED, "the invite has expired")
            }
            () => {
                let agent = Name::new(&invite.agent).ok_or_else(unknown_agent)?;
                let entry = self.agent(agent.as_str())?;
                match entry.state {
                    EntryState::Revoked | EntryState::Suspended => Err(wrong_state(entry)),
                    _ => Ok(Redeemed {
                        agent,
                        approved: invite.approved,
                    }),
                }
            }
        }
    }

    /// Counts a wrong use of an invite.
    pub fn count_try(&mut self, digest: &Digest) {
        let digest = digest.to_string();
        let mut invites = self.invites.iter_mut();
        if let Some(invite) = invites.find(|invite| invite.digest == digest) {
            invite.tries = invite.tries.saturating_add(1);
        }
    }

    /// Uses an invite up, and gives its agent this credential.
    ///
    /// # Errors
    /// As [`DirectoryBook::invited`], and `identity.full`.
    pub fn redeem(
        &mut self,
        digest: &Digest,
        credential: CredentialEntry,
        now_unix_ms: u64,
    ) -> Result<EntryState, Refusal> {
        let Redeemed { agent, approved } = self.invited(digest, now_unix_ms)?;
        self.add_credential(agent.as_str(), credential, now_unix_ms)?;
        let used = digest.to_string();
        for invite in self
            .invites
            .iter_mut()
            .filter(|invite| invite.digest == used)
        {
            invite.used = true;
        }
        let entry = self.agent_mut(agent.as_str())?;
        entry.state = match entry.state {
            EntryState::Invited if approved => EntryState::Active,
            EntryState::Invited => EntryState::Pending,
            state => state,
        };
        Ok(entry.state)
    }

    /// Gives an agent a credential more. Those whose time is over go.
    ///
    /// # Errors
    /// `identity.agent_unknown`, `identity.agent_taken` where another agent has it, and `identity.full`.
    pub fn add_credential(
        &mut self,
        agent: &str,
        credential: CredentialEntry,
        now_unix_ms: u64,
    ) -> Result<(), Refusal> {
        let is_it = |other: &CredentialEntry| {
            other.kind == credential.kind && other.digest == credential.digest
        };
        let mut others = self.agents.iter().filter(|other| other.name != agent);
        if others.any(|other| other.credentials.iter().any(is_it)) {
            return Err(Refusal::new(
                AGENT_TAKEN,
                "another agent has this credential",
            ));
        }
        if self.is_revoked_key(&credential) {
            let public = "this key was taken back; make another one";
            return Err(Refusal::new(REQUEST_INVALID, public));
        }
        let entry = self.agent_mut(agent)?;
        entry
            .credentials
            .retain(|old| !old.is_over(now_unix_ms) && !is_it(old));
        if entry.credentials.len() >= CREDENTIALS_MAX {
            return Err(full("credentials of this agent", CREDENTIALS_MAX));
        }
        entry.credentials.push(credential);
        Ok(())
    }

    /// Takes a credential from an agent, by its id, and gives all that went. A public key and the certificates over it go
    /// together: whoever has the private half of one has that of the others. Certificates go on the revocation list.
    ///
    /// # Errors
    /// `identity.agent_unknown`, also where the agent has no such credential; `identity.full`.
    pub fn remove_credential(
        &mut self,
        agent: &str,
        id: &str,
        now_unix_ms: u64,
    ) -> Result<Vec<CredentialEntry>, Refusal> {
        let entry = self.agent_mut(agent)?;
        let named = entry.credentials.iter().find(|one| one.id == id);
        let named = named
            .ok_or_else(|| Refusal::new(AGENT_UNKNOWN, "the agent has no credential of this id"))?;
        let key = named.public_key().map(str::to_owned);
        let goes = |one: &mut CredentialEntry| {
            one.id == id || key.is_some() && one.public_key() == key.as_deref()
        };
        let gone: Vec<CredentialEntry> = entry.credentials.extract_if(.., goes).collect();
        if let Some(key) = key {
            self.revoke_key(key, now_unix_ms)?;
        }
        for credential in &gone {
            self.revoke_certificate(credential, now_unix_ms)?;
        }
        Ok(gone)
    }

    /// Whether the public key of a credential was taken back.
    fn is_revoked_key(&self, credential: &CredentialEntry) -> bool {
        let key = credential.public_key();
        key.is_some_and(|key| self.keys.iter().any(|gone| gone.id == key))
    }

    fn revoke_key(&mut self, key: String, now_unix_ms: u64) -> Result<(), Refusal> {
        if self.keys.len() >= REVOKED_MAX {
            return Err(full("revoked keys", REVOKED_MAX));
        }
        self.keys.push(RevokedEntry {
            id: key,
            at_unix_ms: now_unix_ms,
            until_unix_ms: u64::MAX,
        });
        Ok(())
    }

    fn revoke_certificate(
        &mut self,
        gone: &CredentialEntry,
        now_unix_ms: u64,
    ) -> Result<(), Refusal> {
        let (CredentialKind::Certificate, Some(serial)) = (gone.kind, &gone.serial) else {
            return Ok(());
        };
        self.sweep(now_unix_ms);
        if self.certificates.len() >= REVOKED_MAX {
            return Err(full("revoked certificates", REVOKED_MAX));
        }
        self.certificates.push(RevokedEntry {
            id: serial.clone(),
            at_unix_ms: now_unix_ms,
            until_unix_ms: gone.expires_unix_ms.unwrap_or(u64::MAX),
        });
        Ok(())
    }

    /// Brings an agent from one of these states to another.
    ///
    /// # Errors
    /// `identity.agent_unknown`, and `identity.agent_state` where it is in none of them.
    pub fn set_state(
        &mut self,
        name: &str,
        from: &[EntryState],
        to: EntryState,
    ) -> Result<(), Refusal> {
        let entry = self.agent_mut(name)?;
        if !from.contains(&entry.state) {
            return Err(wrong_state(entry));
        }
        entry.state = to;
        Ok(())
    }

    /// Revokes an agent for good: its certificates go on the revocation list, and its invites end. Its credentials are
    /// kept, so that their use is told apart from a stranger's.
    ///
    /// # Errors
    /// `identity.agent_unknown`, `identity.agent_state` where it is revoked already, `identity.full`.
    pub fn revoke(&mut self, name: &str, now_unix_ms: u64) -> Result<(), Refusal> {
        const ALL: &[EntryState] = &[
            EntryState::Invited,
            EntryState::Pending,
            EntryState::Active,
            EntryState::Suspended,
        ];
        self.set_state(name, ALL, EntryState::Revoked)?;
        self.invites.retain(|invite| invite.agent != name);
        for credential in self.agent(name)?.credentials.clone() {
            self.revoke_certificate(&credential, now_unix_ms)?;
        }
        Ok(())
    }

    /// Takes a token back, by the digest of its id.
    ///
    /// # Errors
    /// `identity.full`.
    pub fn revoke_token(
        &mut self,
        id: &Digest,
        until_unix_ms: u64,
        now_unix_ms: u64,
    ) -> Result<(), Refusal> {
        self.sweep(now_unix_ms);
        let id = id.to_string();
        if self.tokens.iter().any(|token| token.id == id) {
            return Ok(());
        }
        if self.tokens.len() >= REVOKED_MAX {
            return Err(full("revoked tokens", REVOKED_MAX));
        }
        self.tokens.push(RevokedEntry {
            id,
            at_unix_ms: now_unix_ms,
            until_unix_ms,
        });
        Ok(())
    }

    /// Forgets what ended by itself.
    fn sweep(&mut self, now_unix_ms: u64) {
        self.tokens
            .retain(|token| token.until_unix_ms > now_unix_ms);
        self.certificates
            .retain(|one| one.until_unix_ms > now_unix_ms);
        self.invites
            .retain(|invite| invite.expires_unix_ms.saturating_add(INVITE_KEPT_MS) > now_unix_ms);
    }
}

fn unknown_agent() -> Refusal {
    Refusal::new(AGENT_UNKNOWN, "there is no such agent in the directory")
}

fn wrong_state(entry: &AgentEntry) -> Refusal {
    let public = format!("the agent is {}", entry.state.as_str());
    Refusal::new(AGENT_STATE, public)
}

fn full(what: &str, most: usize) -> Refusal {
    Refusal::new(IDENTITY_FULL, format!("there are {most} {what} already"))
}
