//! The check of a credential, and the proof that it was made.
//!
//! It exists so that "who is this" is asked once for each call and cannot be skipped: what comes after
//! asks for a [`Verified`]. It refuses to guess: no key, a text that is no key, an unknown key and an
//! expired one are four different answers.

use std::sync::Arc;

use base::refusal::{KEY_EXPIRED, KEY_MALFORMED, KEY_MISSING, KEY_UNKNOWN};
use base::{Digest, Name, Now, Refusal};

use crate::key::{key_digest, sha256};

/// A caller that the operator configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    pub name: Name,
    pub groups: Vec<Name>,
    /// From when on the key is refused, in Unix milliseconds; never where absent.
    pub expires_unix_ms: Option<u64>,
}

/// The proof that a call's agent was recognised. Only [`verify`] makes one:
///
/// ```
/// # use std::sync::Arc;
/// # use base::{Name, Now};
/// # use identity::{Agent, new_key, verify};
/// # let now = Now { unix_ms: 1, mono_ms: 1 };
/// # let agent = Agent { name: Name::new("dev").unwrap(), groups: vec![], expires_unix_ms: None };
/// # let agent = Arc::new(agent);
/// let (key, _) = new_key([7; 32]);
/// let header = format!("Bearer {}", key.expose());
/// let verified = verify(Some(&header), |_| Some(agent), now).unwrap();
/// assert_eq!(verified.agent().name.as_str(), "dev");
/// ```
///
/// Its fields are private, so that it cannot be made by hand:
///
/// ```compile_fail,E0451
/// # use std::sync::Arc;
/// # use base::{Digest, Name};
/// # use identity::{Agent, Verified};
/// # let agent = Agent { name: Name::new("dev").unwrap(), groups: vec![], expires_unix_ms: None };
/// # let agent = Arc::new(agent);
/// let forged = Verified { agent, thumbprint: Digest([0; 32]) };
/// ```
#[derive(Debug)]
pub struct Verified {
    agent: Arc<Agent>,
    thumbprint: Digest,
}

impl Verified {
    /// Who is calling.
    pub fn agent(&self) -> &Arc<Agent> {
        &self.agent
    }

    /// SHA-256 of the key's SHA-256. It names the credential in records; a thief of the log cannot even
    /// look it up in the configuration, which holds the key's SHA-256.
    pub fn thumbprint(&self) -> Digest {
        self.thumbprint
    }

    /// From when on this proof is void, in Unix milliseconds; never where absent.
    pub fn expires_unix_ms(&self) -> Option<u64> {
        self.agent.expires_unix_ms
    }
}

/// The thumbprint of a key that has this SHA-256; see [`Verified::thumbprint`].
pub fn thumbprint(key: &Digest) -> Digest {
    sha256(&key.0)
}

/// Recognises the agent by the value of the `Authorization` field: `Bearer weir_…` (RFC 6750 §2.1; the
/// scheme in either case, RFC 9110 §11.1).
///
/// `lookup` finds an agent by the SHA-256 of its key. The key itself is never compared with anything, so
/// there is no comparison whose duration tells how much of it was right. A hash map that is asked for
/// the digest may well take longer for one digest than for another, but what that betrays is some bits of
/// a SHA-256, and whoever can choose a text by its SHA-256 can already guess 256 random bits.
///
/// # Errors
/// `agent.key_missing` without a `Bearer` credential, `agent.key_malformed` where it is no key of weir,
/// `agent.key_unknown`, and `agent.key_expired` from the moment of expiry on. None repeats what was sent.
pub fn verify(
    authorization: Option<&str>,
    lookup: impl FnOnce(&Digest) -> Option<Arc<Agent>>,
    now: Now,
) -> Result<Verified, Refusal> {
    let Some(value) = authorization else {
        return Err(Refusal::new(
            KEY_MISSING,
            "the request has no Authorization field",
        ));
    };
    let value = value.trim_matches(' ');
    let (scheme, key) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Refusal::new(
            KEY_MISSING,
            "the Authorization field is not of scheme Bearer",
        ));
    }
    let Some(digest) = key_digest(key.trim_start_matches(' ')) else {
        return Err(Refusal::new(
            KEY_MALFORMED,
            "the bearer credential is not a key of weir",
        ));
    };
    let thumbprint = thumbprint(&digest);
    let Some(agent) = lookup(&digest) else {
        return Err(Refusal::new(KEY_UNKNOWN, "no agent has this key")
            .with_private(format!("credential {thumbprint}")));
    };
    if agent
        .expires_unix_ms
        .is_some_and(|expires| now.unix_ms >= expires)
    {
        return Err(Refusal::new(KEY_EXPIRED, "the key has expired")
            .with_private(format!("agent {}, credential {thumbprint}", agent.name)));
    }
    Ok(Verified { agent, thumbprint })
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
            expires_unix_ms,
        })
    }

    fn key() -> (String, Digest) {
        let (text, digest) = new_key([9; 32]);
        (text.expose().to_owned(), digest)
    }

    /// Asks with this header, of a directory that knows one key.
    fn ask(header: Option<&str>, expires_unix_ms: Option<u64>) -> Result<Verified, Refusal> {
        let (_, known) = key();
        verify(
            header,
            |digest| (*digest == known).then(|| agent(expires_unix_ms)),
            NOW,
        )
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
            assert_eq!(verified.thumbprint(), sha256(&digest.0));
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
            let refusal = ask(Some(&header), Some(expired)).unwrap_err();
            assert_eq!(refusal.code, KEY_EXPIRED);
        }
        assert!(ask(Some(&header), Some(1_001)).is_ok());
        assert!(ask(Some(&header), None).is_ok());
    }

    #[test]
    fn what_is_no_key_is_not_looked_up() {
        let lookup = |_: &Digest| panic!("looked up");
        assert!(verify(Some("Bearer weir_short"), lookup, NOW).is_err());
    }
}
