//! The check of a credential, and the proof that it was made.
//!
//! It exists so that "who is this" is asked once for each call and cannot be skipped: what comes after
//! asks for a [`Verified`]. It refuses to guess: no key, a text that is no key and an unknown key are three
//! different answers. Whether an agent that is known may call is a question of its own, [`Verified::check`]: one
//! that may not is still no stranger.

use std::net::IpAddr;
use std::sync::Arc;

use base::refusal::{
    KEY_EXPIRED, KEY_MALFORMED, KEY_MISSING, KEY_UNKNOWN, PENDING, REVOKED, SUSPENDED,
};
use base::{Digest, Name, Now, Refusal};

use crate::key::{key_digest, sha256};

/// What a caller shows of who it is, as the edge read it.
#[derive(Clone, Copy)]
pub struct Presented<'a> {
    /// The value of the `Authorization` field.
    pub authorization: Option<&'a str>,
    /// The value of the `DPoP` field (RFC 9449 §4.1).
    pub proof: Option<&'a str>,
    /// Keys in fields of other dialects, which the lane reads beside `Authorization`: name and value, such as
    /// `x-api-key`. A caller that shows two different keys is refused.
    pub fields: &'a [(&'a str, &'a str)],
    /// The request's method and target URI, which a proof is bound to (RFC 9449 §4.3).
    pub method: &'a str,
    pub target: &'a str,
    pub peer: PresentedPeer<'a>,
}

/// The other end of the connection.
#[derive(Clone, Copy, Debug)]
pub struct PresentedPeer<'a> {
    pub address: IpAddr,
    /// The certificate that it proved to have in the TLS handshake, in DER.
    pub certificate: Option<&'a [u8]>,
}

impl<'a> Presented<'a> {
    /// What a caller shows that has no more than an `Authorization` field.
    pub fn bearer(authorization: Option<&'a str>, address: IpAddr) -> Presented<'a> {
        Presented {
            authorization,
            proof: None,
            fields: &[],
            method: "",
            target: "",
            peer: PresentedPeer {
                address,
                certificate: None,
            },
        }
    }
}

/// By what an agent was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A key of weir.
    Key,
    /// A token that a lane's own settings know, such as one of the relay's callers.
    Token,
    /// A certificate that was shown in a TLS handshake.
    Certificate,
    /// An access token of this gateway, or a token of an issuer that the operator trusts.
    AccessToken,
    /// A peer of the relay, by the key that it enrolled.
    Peer,
    /// The user of this machine at the other end of a Unix socket.
    User,
    /// Nothing but the socket that it came by: whoever reaches it is this agent.
    Socket,
}

impl Credential {
    /// In records.
    pub fn as_str(self) -> &'static str {
        match self {
            Credential::Key => "key",
            Credential::Token => "token",
            Credential::Certificate => "certificate",
            Credential::AccessToken => "access_token",
            Credential::Peer => "peer",
            Credential::User => "user",
            Credential::Socket => "socket",
        }
    }
}

/// Whether an agent may call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentState {
    #[default]
    Active,
    /// Enrolled, and refused until a person approves it.
    Pending,
    /// Known, and refused until the operator says otherwise.
    Suspended,
    /// Known, and refused for good: its keys are kept so that their use is told apart from a stranger's.
    Revoked,
}

impl AgentState {
    /// In records.
    pub fn as_str(self) -> &'static str {
        match self {
            AgentState::Active => "active",
            AgentState::Pending => "pending",
            AgentState::Suspended => "suspended",
            AgentState::Revoked => "revoked",
        }
    }

    /// Lets an active agent call.
    ///
    /// # Errors
    /// `agent.pending`, `agent.suspended` and `agent.revoked`.
    pub fn check(self) -> Result<(), Refusal> {
        match self {
            AgentState::Active => Ok(()),
            AgentState::Pending => Err(Refusal::new(PENDING, "the agent is not approved yet")),
            AgentState::Suspended => Err(Refusal::new(SUSPENDED, "the agent is suspended")),
            AgentState::Revoked => Err(Refusal::new(REVOKED, "the agent's access was revoked")),
        }
    }
}

/// A caller that the operator configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    pub name: Name,
    pub groups: Vec<Name>,
    pub state: AgentState,
    /// From when on the key is refused, in Unix milliseconds; never where absent.
    pub expires_unix_ms: Option<u64>,
}

/// The proof that a call's agent was recognised: who, by which credential, on whose behalf, limited to what, until when,
/// and by which state of the directory. [`verify`] makes it:
///
/// ```
/// # use std::sync::Arc;
/// # use base::{Name, Now};
/// # use identity::{Agent, Presented, new_key, verify};
/// # let now = Now { unix_ms: 1, mono_ms: 1 };
/// # let agent = Agent { name: Name::new("dev").unwrap(), groups: vec![], state: Default::default(), expires_unix_ms: None };
/// # let agent = Arc::new(agent);
/// let (key, _) = new_key([7; 32]);
/// let header = format!("Bearer {}", key.expose());
/// let presented = Presented::bearer(Some(&header), [127, 0, 0, 1].into());
/// let verified = verify(&presented, |_| Some(agent), 0).unwrap();
/// assert!(verified.check(now).is_ok());
/// assert_eq!(verified.agent().name.as_str(), "dev");
/// ```
///
/// Its fields are private, so that it cannot be made by hand:
///
/// ```compile_fail,E0451
/// # use std::sync::Arc;
/// # use base::{Digest, Name};
/// # use identity::{Agent, Credential, Verified};
/// # let agent = Agent { name: Name::new("dev").unwrap(), groups: vec![], state: Default::default(), expires_unix_ms: None };
/// # let (agent, by) = (Arc::new(agent), Credential::Key);
/// # let (thumbprint, expires_unix_ms, epoch) = (Some(Digest([0; 32])), None, 0);
/// let (is_bound, token) = (true, None);
/// let forged = Verified { agent, by, thumbprint, is_bound, token, behalf: None, scopes: None, expires_unix_ms, epoch };
/// ```
#[derive(Clone, Debug)]
pub struct Verified {
    agent: Arc<Agent>,
    by: Credential,
    thumbprint: Option<Digest>,
    /// Whether the private half of a key was proved, so that a copy of what was sent is of no use.
    is_bound: bool,
    /// Names the access token, where it was by one of this gateway's; see [`crate::recognise::token_id`].
    token: Option<Digest>,
    /// The person or system that the agent acts for.
    behalf: Option<Arc<str>>,
    /// What the credential is limited to; absent where it is not.
    scopes: Option<Arc<[Arc<str>]>>,
    expires_unix_ms: Option<u64>,
    epoch: u64,
}

impl Verified {
    /// What a lane found that knows its callers by its own settings: the relay.
    ///
    /// `thumbprint` names the credential in records, where there is one. `epoch` is the directory's.
    pub fn by_lane(
        agent: Arc<Agent>,
        by: Credential,
        thumbprint: Option<Digest>,
        epoch: u64,
    ) -> Verified {
        Verified {
            expires_unix_ms: agent.expires_unix_ms,
            agent,
            by,
            thumbprint,
            is_bound: false,
            token: None,
            behalf: None,
            scopes: None,
            epoch,
        }
    }

    /// What [`crate::recognise`] found by another credential than a key.
    pub(crate) fn by_credential(agent: Arc<Agent>, found: FoundCredential, epoch: u64) -> Verified {
        let until = [agent.expires_unix_ms, found.expires_unix_ms];
        Verified {
            expires_unix_ms: until.into_iter().flatten().min(),
            agent,
            by: found.by,
            thumbprint: Some(found.thumbprint),
            is_bound: found.is_bound,
            token: found.token,
            behalf: found.behalf,
            scopes: found.scopes,
            epoch,
        }
    }

    /// Lets an agent call that is active and whose key has not expired. [`verify`] does not ask this, so that a refused
    /// agent is counted and recorded as itself.
    ///
    /// # Errors
    /// `agent.key_expired` from the moment of expiry on, `agent.suspended` and `agent.revoked`.
    pub fn check(&self, now: Now) -> Result<(), Refusal> {
        if self.expires_unix_ms.is_some_and(|at| at <= now.unix_ms) {
            return Err(Refusal::new(KEY_EXPIRED, "the agent's key has expired"));
        }
        self.agent.state.check()
    }

    /// Who is calling.
    pub fn agent(&self) -> &Arc<Agent> {
        &self.agent
    }

    /// By what it was recognised.
    pub fn by(&self) -> Credential {
        self.by
    }

    /// Names the credential in records: of a key the SHA-256 of its SHA-256, so that a thief of the log cannot even
    /// look it up in the configuration, which holds the key's SHA-256.
    pub fn thumbprint(&self) -> Option<Digest> {
        self.thumbprint
    }

    /// Whether the caller proved to have a private key: by a certificate, or by a token that is bound to a key or to a
    /// certificate.
    pub fn is_bound(&self) -> bool {
        self.is_bound
    }

    /// Names the access token by which it was recognised, which may be taken back by itself.
    pub fn token(&self) -> Option<Digest> {
        self.token
    }

    /// On whose behalf it calls, where a credential says so.
    pub fn behalf(&self) -> Option<&str> {
        self.behalf.as_deref()
    }

    /// What the credential is limited to; nothing where it is not limited.
    pub fn scopes(&self) -> Option<&[Arc<str>]> {
        self.scopes.as_deref()
    }

    /// From when on this proof is void, in Unix milliseconds; never where absent.
    pub fn expires_unix_ms(&self) -> Option<u64> {
        self.expires_unix_ms
    }

    /// Which state of the directory it was made of: in a later one, the agent may be gone.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// What a credential says beside whose it is.
pub(crate) struct FoundCredential {
    pub by: Credential,
    pub thumbprint: Digest,
    pub is_bound: bool,
    pub token: Option<Digest>,
    pub behalf: Option<Arc<str>>,
    pub scopes: Option<Arc<[Arc<str>]>>,
    pub expires_unix_ms: Option<u64>,
}

/// The thumbprint of a key that has this SHA-256; see [`Verified::thumbprint`].
pub fn thumbprint(key: &Digest) -> Digest {
    sha256(&key.0)
}

/// Recognises the agent by the key that it shows: in the `Authorization` field as `Bearer weir_…` (RFC 6750 §2.1;
/// the scheme in either case, RFC 9110 §11.1), or in a field that its lane reads.
///
/// `lookup` finds an agent by the SHA-256 of its key. The key itself is never compared with anything, so
/// there is no comparison whose duration tells how much of it was right. A hash map that is asked for
/// the digest may well take longer for one digest than for another, but what that betrays is some bits of
/// a SHA-256, and whoever can choose a text by its SHA-256 can already guess 256 random bits. `epoch` is the state
/// of the directory that `lookup` asks, read before it is asked.
///
/// # Errors
/// `agent.key_missing` without a credential, `agent.key_malformed` where it is no key of weir or two different ones
/// are shown, and `agent.key_unknown`. None repeats what was sent.
pub fn verify(
    presented: &Presented<'_>,
    lookup: impl FnOnce(&Digest) -> Option<Arc<Agent>>,
    epoch: u64,
) -> Result<Verified, Refusal> {
    let Some(digest) = key_digest(shown_key(presented)?) else {
        let public = "the credential is not a key of weir";
        return Err(Refusal::new(KEY_MALFORMED, public));
    };
    let thumbprint = thumbprint(&digest);
    let Some(agent) = lookup(&digest) else {
        return Err(Refusal::new(KEY_UNKNOWN, "no agent has this key")
            .with_private(format!("credential {thumbprint}")));
    };
    Ok(Verified {
        expires_unix_ms: agent.expires_unix_ms,
        agent,
        by: Credential::Key,
        thumbprint: Some(thumbprint),
        is_bound: false,
        token: None,
        behalf: None,
        scopes: None,
        epoch,
    })
}

/// The text that stands where a key is expected.
fn shown_key<'a>(presented: &Presented<'a>) -> Result<&'a str, Refusal> {
    let mut keys = presented
        .fields
        .iter()
        .map(|(_, value)| value.trim_matches(' '));
    let first = keys.next();
    let two = || Refusal::new(KEY_MALFORMED, "the request shows two different keys");
    if first.is_some_and(|first| keys.any(|other| other != first)) {
        return Err(two());
    }
    let Some(value) = presented.authorization else {
        let missing = "the request has no Authorization field";
        return first.ok_or_else(|| Refusal::new(KEY_MISSING, missing));
    };
    let value = value.trim_matches(' ');
    let (scheme, key) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        let other = "the Authorization field is not of scheme Bearer";
        return Err(Refusal::new(KEY_MISSING, other));
    }
    let key = key.trim_start_matches(' ');
    match first {
        Some(first) if first != key => Err(two()),
        _ => Ok(key),
    }
}

#[cfg(test)]
mod tests {
    use base::Code;

    use super::*;
    use crate::new_key;

    const NOW: Now = Now {
        unix_ms: 1_000,
        mono_ms: 5,
    };

    fn agent(expires_unix_ms: Option<u64>) -> Arc<Agent> {
        let groups = vec![Name::new("engineers").unwrap()];
        Arc::new(Agent {
            name: Name::new("dev").unwrap(),
            groups,
            state: AgentState::Active,
            expires_unix_ms,
        })
    }

    fn key() -> (String, Digest) {
        let (text, digest) = new_key([9; 32]);
        (text.expose().to_owned(), digest)
    }

    /// Asks with this header, of a directory that knows one key.
    fn ask(header: Option<&str>, expires_unix_ms: Option<u64>) -> Result<Verified, Refusal> {
        with_fields(header, &[], expires_unix_ms)
    }

    fn with_fields(
        header: Option<&str>,
        fields: &[(&str, &str)],
        expires_unix_ms: Option<u64>,
    ) -> Result<Verified, Refusal> {
        let (_, known) = key();
        let presented = Presented {
            fields,
            ..Presented::bearer(header, [127, 0, 0, 1].into())
        };
        let lookup = |digest: &Digest| (*digest == known).then(|| agent(expires_unix_ms));
        verify(&presented, lookup, 7)
    }

    fn refused(header: Option<&str>, code: &'static Code) {
        let refusal = ask(header, None).unwrap_err();
        assert_eq!(refusal.code, code, "{header:?}");
        let sent = header
            .and_then(|header| header.split_once(' '))
            .map_or("weir_", |pair| pair.1);
        assert!(
            sent.is_empty() || !format!("{refusal:?}").contains(sent),
            "{header:?} was repeated"
        );
    }

    #[test]
    fn a_known_key_is_its_agent() {
        let (text, digest) = key();
        for scheme in ["Bearer ", "bearer ", "BEARER ", "Bearer   ", " Bearer "] {
            let verified = ask(Some(&format!("{scheme}{text}")), Some(1_001)).unwrap();
            assert_eq!(**verified.agent(), *agent(Some(1_001)));
            assert_eq!(verified.thumbprint(), Some(sha256(&digest.0)));
            assert_eq!((verified.by(), verified.epoch()), (Credential::Key, 7));
            assert_eq!(verified.expires_unix_ms(), Some(1_001));
        }
    }

    #[test]
    fn no_credential_is_missing() {
        let (text, _) = key();
        refused(None, KEY_MISSING);
        refused(Some(""), KEY_MISSING);
        refused(Some("Basic ZGV2OmRldg=="), KEY_MISSING);
        refused(Some("Bearerx abcdef"), KEY_MISSING);
        refused(Some(&text), KEY_MISSING);
        refused(Some(&format!("Bearer\t{text}")), KEY_MISSING);
    }

    #[test]
    fn what_is_no_key_is_malformed() {
        let (text, _) = key();
        refused(Some("Bearer"), KEY_MALFORMED);
        refused(Some("Bearer "), KEY_MALFORMED);
        refused(Some("Bearer sk-live-123"), KEY_MALFORMED);
        refused(Some(&format!("Bearer {text}x")), KEY_MALFORMED);
        refused(Some(&format!("Bearer {text} {text}")), KEY_MALFORMED);
        refused(Some(&format!("Bearer {text},{text}")), KEY_MALFORMED);
        refused(
            Some(&format!("Bearer {}", &text[..text.len() - 1])),
            KEY_MALFORMED,
        );
    }

    #[test]
    fn a_key_of_nobody_is_unknown() {
        let (text, _) = new_key([8; 32]);
        refused(Some(&format!("Bearer {}", text.expose())), KEY_UNKNOWN);
    }

    #[test]
    fn a_key_ends_at_its_expiry() {
        let header = format!("Bearer {}", key().0);
        for expired in [0, 999, 1_000] {
            let verified = ask(Some(&header), Some(expired)).unwrap();
            assert_eq!(verified.check(NOW).unwrap_err().code, KEY_EXPIRED);
        }
        for good in [Some(1_001), None] {
            assert!(ask(Some(&header), good).unwrap().check(NOW).is_ok());
        }
    }

    #[test]
    fn an_agent_that_may_not_call_is_known_and_refused() {
        let header = format!("Bearer {}", key().0);
        let presented = Presented::bearer(Some(&header), [127, 0, 0, 1].into());
        for (state, code) in [
            (AgentState::Suspended, SUSPENDED),
            (AgentState::Revoked, REVOKED),
        ] {
            let agent = Arc::new(Agent {
                state,
                ..Agent::clone(&agent(None))
            });
            let verified = verify(&presented, |_| Some(agent), 0).unwrap();
            assert_eq!(verified.agent().name.as_str(), "dev");
            assert_eq!(verified.check(NOW).unwrap_err().code, code);
        }
    }

    #[test]
    fn what_is_no_key_is_not_looked_up() {
        let lookup = |_: &Digest| panic!("looked up");
        let presented = Presented::bearer(Some("Bearer weir_short"), [127, 0, 0, 1].into());
        assert!(verify(&presented, lookup, 0).is_err());
    }

    #[test]
    fn a_key_in_a_field_of_another_dialect_is_one_key_or_refused() {
        let (text, _) = key();
        let (bearer, other) = (format!("Bearer {text}"), new_key([8; 32]).0);
        let code = |header: Option<&str>, fields: &[(&str, &str)]| {
            with_fields(header, fields, None).err().map(|r| r.code.name)
        };
        let (mine, theirs) = (text.as_str(), other.expose());
        assert_eq!(code(None, &[("x-api-key", mine)]), None);
        assert_eq!(code(Some(&bearer), &[("x-api-key", mine)]), None);
        assert_eq!(code(None, &[("x-api-key", mine), ("key", mine)]), None);
        let malformed = Some("agent.key_malformed");
        assert_eq!(code(Some(&bearer), &[("x-api-key", theirs)]), malformed);
        assert_eq!(
            code(None, &[("x-api-key", mine), ("key", theirs)]),
            malformed
        );
        assert_eq!(code(None, &[("x-api-key", "sk-1")]), malformed);
        assert_eq!(
            code(None, &[("x-api-key", theirs)]),
            Some("agent.key_unknown")
        );
    }
}
