//! Who calls an outbound: by a token in a field, or as a user of this machine on a Unix socket.
//!
//! A token is looked up by its SHA-256, so nothing is compared whose duration could tell how much of it was right. The
//! field is for us alone: it is taken out of the request.

use std::collections::HashMap;

use aws_lc_rs::digest;
use base::{Digest, Refusal, refusal};
use identity::Credential;
use net::h1::{Fields, PeerAddress};

use crate::grants::Caller;
use crate::settings::{Agent, CALLERS_MAX, Callers, Problem};

/// The field that a proxy's own credentials stand in (RFC 9110 §11.7.2).
const PROXY_FIELD: &[u8] = b"proxy-authorization";

/// Everyone that may call, and how they are recognised.
pub(crate) struct Known {
    field: Box<[u8]>,
    tokens: HashMap<Digest, usize>,
    users: HashMap<u32, usize>,
    anyone: Option<usize>,
    agents: Vec<(Agent, Credential, Option<Digest>)>,
}

impl Known {
    pub(crate) fn new(callers: &Callers) -> Result<Known, Problem> {
        let token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if callers.field.is_empty() || !callers.field.bytes().all(token_byte) {
            return Err(Problem::CallerField);
        }
        if callers.tokens.len() + callers.users.len() > CALLERS_MAX {
            return Err(Problem::TooMany("callers"));
        }
        let mut agents = Vec::new();
        let mut add = |agent: &Agent, by, thumbprint| {
            agents.push((agent.clone(), by, thumbprint));
            agents.len() - 1
        };
        let token = |(digest, agent): &(Digest, Agent)| {
            // What names it in records cannot be looked up among the digests that are configured.
            (
                *digest,
                add(agent, Credential::Token, Some(sha256(&digest.0))),
            )
        };
        let tokens = callers.tokens.iter().map(token).collect();
        let users = callers.users.iter();
        let users = users.map(|(uid, agent)| (*uid, add(agent, Credential::User, None)));
        let users = users.collect();
        let anyone = callers.anyone.as_ref();
        let anyone = anyone.map(|agent| add(agent, Credential::Socket, None));
        Ok(Known {
            field: callers.field.to_ascii_lowercase().into_bytes().into(),
            tokens,
            users,
            anyone,
            agents,
        })
    }

    /// Whether a field is for us alone.
    pub(crate) fn is_ours(&self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(&self.field)
    }

    /// Who calls: the index of an agent.
    ///
    /// # Errors
    /// The refusal of a stranger. A token that is wrong is refused, whoever else the caller might be.
    pub(crate) fn caller(&self, peer: PeerAddress, fields: Fields<'_>) -> Result<usize, Refusal> {
        if !self.tokens.is_empty() {
            let mut given = fields.iter().filter(|field| self.is_ours(field.name));
            if let Some(field) = given.next() {
                let again = given.next().is_some();
                let token = self.token(field.value).filter(|_| !again);
                let agent = token.and_then(|token| self.tokens.get(&sha256(token)));
                let unknown = || Refusal::new(refusal::RELAY_CALLER, "the token is not known");
                return agent.copied().ok_or_else(unknown);
            }
        }
        let user = match peer {
            PeerAddress::Unix { uid, .. } => self.users.get(&uid).copied(),
            PeerAddress::Tcp(_) => None,
        };
        user.or(self.anyone).ok_or_else(|| {
            Refusal::new(refusal::RELAY_CALLER, "the request does not say who calls")
        })
    }

    pub(crate) fn agent(&self, index: usize) -> Caller<'_> {
        let (agent, by, thumbprint) = &self.agents[index];
        Caller {
            agent,
            by: *by,
            thumbprint: *thumbprint,
        }
    }

    fn token<'v>(&self, value: &'v [u8]) -> Option<&'v [u8]> {
        if *self.field != *PROXY_FIELD {
            return Some(value);
        }
        let (scheme, token) = value.split_at_checked(7)?;
        scheme
            .eq_ignore_ascii_case(b"bearer ")
            .then(|| token.trim_ascii())
    }
}

fn sha256(bytes: &[u8]) -> Digest {
    let hash = digest::digest(&digest::SHA256, bytes);
    Digest(*hash.as_ref().first_chunk().expect("SHA-256 has 32 bytes"))
}
