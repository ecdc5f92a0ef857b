//! What servers give to be sent back, passed on inside a signed text: session ids and ids of events.
//!
//! The signature covers what kind it is, the agent and the server, so that any replica can open it, no other
//! agent can use it, and an agent can send a server nothing in its place. What is inside can be read.

use aws_lc_rs::hmac;
use base::{CallId, Name};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::answers::{AskedMethod, Ids};

/// Longest text inside, in bytes.
const INSIDE_BYTES_MAX: usize = 4096;

/// Signs and opens texts for one agent and one server.
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
        self.sign("session", id)
    }

    /// The server's session id inside, if it was signed for this agent and server.
    pub(crate) fn open_session(&self, given: &str) -> Option<String> {
        self.open("session", given)
    }

    /// The id of an event, for its agent.
    pub(crate) fn event(&self, resume: &Resume) -> String {
        let request = resume
            .ids
            .as_ref()
            .map(|ids| (&ids.client, ids.call.to_string()));
        let lists = resume.asked == AskedMethod::ToolsList;
        let inside = serde_json::json!([resume.event, lists, request]);
        self.sign("event", &inside.to_string())
    }

    /// The event inside, if it was signed for this agent and server.
    pub(crate) fn open_event(&self, given: &str) -> Option<Resume> {
        type Inside = (String, bool, Option<(String, String)>);
        let inside = self.open("event", given)?;
        let (event, lists, request): Inside = serde_json::from_str(&inside).ok()?;
        let ids = match request {
            Some((client, call)) => Some(Ids {
                client,
                call: CallId::from_hex(&call)?,
            }),
            None => None,
        };
        let asked = match lists {
            true => AskedMethod::ToolsList,
            false => AskedMethod::Other,
        };
        Some(Resume { event, asked, ids })
    }

    fn sign(&self, kind: &str, inside: &str) -> String {
        let tag = hmac::sign(&self.key(), &self.signed(kind, inside));
        let inside = URL_SAFE_NO_PAD.encode(inside);
        format!("{}.{inside}", URL_SAFE_NO_PAD.encode(tag.as_ref()))
    }

    fn open(&self, kind: &str, given: &str) -> Option<String> {
        let (tag, inside) = given.split_once('.')?;
        if inside.len() > INSIDE_BYTES_MAX * 4 / 3 + 2 {
            return None;
        }
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        let inside = String::from_utf8(URL_SAFE_NO_PAD.decode(inside).ok()?).ok()?;
        hmac::verify(&self.key(), &self.signed(kind, &inside), &tag).ok()?;
        Some(inside)
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.key)
    }

    /// Names hold no newline, so the parts cannot be shifted into each other.
    fn signed(&self, kind: &str, inside: &str) -> Vec<u8> {
        let (agent, server) = (self.agent, self.server);
        format!("weir mcp {kind}\n{agent}\n{server}\n{inside}").into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_text_is_of_use_to_its_agent_only_and_as_what_it_is() {
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
        for forged in ["abc/1", &format!("{given}A"), &given.replace('.', "")] {
            assert_eq!(own.open_session(forged), None);
        }
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
            (AskedMethod::ToolsList, Some(ids)),
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
