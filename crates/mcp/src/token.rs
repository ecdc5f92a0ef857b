//! What servers give to be sent back, passed on inside a sealed text: session ids and ids of events.
//!
//! It is sealed for its kind, the agent and the server, so that any replica can open it, no other agent can use it, and an
//! agent can send a server nothing in its place. Nor can the agent read it: whatever a server writes there is scanned by
//! nobody. The same text is sealed the same each time, as clients expect of the id of their session.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use base::{CallId, Name};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::answers::{AskedMethod, Ids};
use crate::listing::ListKind;

/// Longest text inside, in bytes.
const INSIDE_BYTES_MAX: usize = 4096;
/// The same of the state of a request.
const STATE_BYTES_MAX: usize = 64 * 1024;
/// Characters that sealing adds: a nonce of 12 bytes, a tag of 16, and what their encoding rounds up.
const SEAL_CHARS: usize = 40;

/// Seals and opens texts for one agent and one server.
#[derive(Clone, Copy)]
pub(crate) struct Tokens<'a> {
    pub(crate) key: &'a [u8; 32],
    pub(crate) agent: &'a Name,
    pub(crate) server: &'a Name,
}

/// An event of a server's stream: from where it can be resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resume {
    /// The server's own id of the event.
    pub(crate) event: String,
    pub(crate) asked: AskedMethod,
    /// The request that the stream answers, if it answers one.
    pub(crate) ids: Option<Ids>,
}

impl Tokens<'_> {
    /// The server's session id, for its agent.
    pub(crate) fn session(&self, id: &str) -> String {
        self.seal("session", id)
    }

    /// The server's session id inside, if it was sealed for this agent and server.
    pub(crate) fn open_session(&self, given: &str) -> Option<String> {
        self.open("session", given)
    }

    /// The id of an event, for its agent.
    pub(crate) fn event(&self, resume: &Resume) -> String {
        let request = resume
            .ids
            .as_ref()
            .map(|ids| (&ids.client, ids.call.to_string()));
        let list = match resume.asked {
            AskedMethod::List(kind) => Some(kind.method()),
            AskedMethod::Listen | AskedMethod::Other => None,
        };
        let inside = serde_json::json!([resume.event, list, request]);
        self.seal("event", &inside.to_string())
    }

    /// The event inside, if it was sealed for this agent and server.
    pub(crate) fn open_event(&self, given: &str) -> Option<Resume> {
        type Inside = (String, Option<String>, Option<(String, String)>);
        let inside = self.open("event", given)?;
        let (event, list, request): Inside = serde_json::from_str(&inside).ok()?;
        let ids = match request {
            Some((client, call)) => Some(Ids {
                client,
                call: CallId::from_hex(&call)?,
            }),
            None => None,
        };
        let kind = list.as_deref().and_then(ListKind::of);
        let asked = kind.map_or(AskedMethod::Other, AskedMethod::List);
        Some(Resume { event, asked, ids })
    }

    /// The state by which a server knows a request of this method again; nothing where it is longer than 64 KiB.
    pub(crate) fn state(&self, method: &str, state: &str) -> Option<String> {
        let fits = state.len() <= STATE_BYTES_MAX;
        fits.then(|| self.seal(&format!("state {method}"), state))
    }

    /// The state inside, if it was sealed for this agent, server and method.
    pub(crate) fn open_state(&self, method: &str, given: &str) -> Option<String> {
        self.open_up_to(&format!("state {method}"), given, STATE_BYTES_MAX)
    }

    /// What a parked call is found by.
    pub(crate) fn parked(&self, inside: &str) -> String {
        self.seal("parked", inside)
    }

    /// The same inside, if it was sealed for this agent at this URL.
    pub(crate) fn open_parked(&self, given: &str) -> Option<String> {
        self.open("parked", given)
    }

    /// The nonce is made of all that is sealed (as RFC 8452, section 1, has it of synthetic ones), so that no two texts have
    /// the same, and stands before what it sealed.
    fn seal(&self, kind: &str, inside: &str) -> String {
        let whose = self.whose(kind);
        let nonce = self.derived(&format!("nonce\n{whose}\n{inside}"));
        let nonce: [u8; NONCE_LEN] = nonce[..NONCE_LEN].try_into().expect("it is longer");
        let mut sealed = inside.as_bytes().to_vec();
        let nonce_of = Nonce::assume_unique_for_key(nonce);
        self.key()
            .seal_in_place_append_tag(nonce_of, Aad::from(whose), &mut sealed)
            .expect("a text is shorter than the cipher's bound");
        URL_SAFE_NO_PAD.encode([&nonce, &*sealed].concat())
    }

    fn open(&self, kind: &str, given: &str) -> Option<String> {
        self.open_up_to(kind, given, INSIDE_BYTES_MAX)
    }

    fn open_up_to(&self, kind: &str, given: &str, bytes_max: usize) -> Option<String> {
        if given.len() > bytes_max * 4 / 3 + SEAL_CHARS {
            return None;
        }
        let mut sealed = URL_SAFE_NO_PAD.decode(given).ok()?;
        let (nonce, sealed) = sealed.split_first_chunk_mut::<NONCE_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let whose = Aad::from(self.whose(kind));
        let inside = self.key().open_in_place(nonce, whose, sealed).ok()?;
        String::from_utf8(inside.to_vec()).ok()
    }

    fn key(&self) -> LessSafeKey {
        let key = UnboundKey::new(&AES_256_GCM_SIV, &self.derived("key"));
        LessSafeKey::new(key.expect("the key has the cipher's length"))
    }

    /// 32 bytes for one use of the key.
    fn derived(&self, of: &str) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.key);
        let tag = hmac::sign(&key, format!("weir mcp token {of}").as_bytes());
        tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// Names hold no newline, so the parts cannot be shifted into each other.
    fn whose(&self, kind: &str) -> String {
        format!("{kind}\n{}\n{}", self.agent, self.server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_text_is_of_use_to_its_agent_only_and_as_what_it_is() {
        let [dev, eve, files, other] =
            ["dev", "eve", "files", "other"].map(|name| Name::new(name).unwrap());
        let (key, another) = ([7; 32], [8; 32]);
        let tokens = |key, agent, server| Tokens { key, agent, server };
        let own = tokens(&key, &dev, &files);
        let given = own.session("abc/1");
        assert_eq!(own.open_session(&given).as_deref(), Some("abc/1"));
        for stranger in [
            tokens(&key, &eve, &files),
            tokens(&key, &dev, &other),
            tokens(&another, &dev, &files),
        ] {
            assert_eq!(stranger.open_session(&given), None);
        }
        let other = if given.starts_with('A') { "B" } else { "A" };
        let changed = format!("{other}{}", &given[1..]);
        for forged in ["", "abc/1", &given[1..], &format!("{given}AAAA"), &changed] {
            assert_eq!(own.open_session(forged), None, "{forged}");
        }
        // The agent cannot read it, and is given the same each time.
        let inside = URL_SAFE_NO_PAD.decode(&given).unwrap();
        assert!(!inside.windows(5).any(|part| part == b"abc/1"));
        assert_eq!(own.session("abc/1"), given);
        let long = "x".repeat(INSIDE_BYTES_MAX);
        assert_eq!(own.open_session(&own.session(&long)), Some(long));
        assert_eq!(own.open_event(&given), None);
    }

    #[test]
    fn an_event_says_what_its_stream_answers() {
        let name = Name::new("dev").unwrap();
        let tokens = Tokens {
            key: &[7; 32],
            agent: &name,
            server: &name,
        };
        let ids = Ids {
            client: "\"a\\\"b\"".into(),
            call: CallId([9; 16]),
        };
        for (asked, ids) in [
            (AskedMethod::List(ListKind::Prompts), Some(ids)),
            (AskedMethod::Other, None),
        ] {
            let resume = Resume {
                event: "s/7 \u{e9}".into(),
                asked,
                ids,
            };
            let token = tokens.event(&resume);
            assert!(token.bytes().all(|byte| byte.is_ascii_graphic()));
            assert_eq!(tokens.open_event(&token), Some(resume));
            assert_eq!(tokens.open_session(&token), None);
        }
    }
}
