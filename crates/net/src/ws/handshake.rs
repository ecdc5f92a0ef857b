//! The handshake of WebSocket (RFC 6455 §4), in version 13 and without extensions.

use aws_lc_rs::{digest, rand};
use base::{Refusal, refusal};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AsHeaderName, CONNECTION, HeaderMap, UPGRADE};
use http::request::Parts;
use http::{Method, Version};

use crate::h1::{AnswerView, Error};
use crate::pool::Lease;

pub(super) const ACCEPT: &str = "sec-websocket-accept";
pub(super) const PROTOCOL: &str = "sec-websocket-protocol";
const EXTENSIONS: &str = "sec-websocket-extensions";
const KEY: &str = "sec-websocket-key";
const VERSION: &str = "sec-websocket-version";
/// What the key is hashed with (RFC 6455 §1.3).
const SALT: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const KEY_BYTES: usize = 16;
/// Protocols that one client may offer.
const PROTOCOLS_MAX: usize = 32;

/// A good handshake of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketOffer {
    accept: String,
    protocols: Vec<String>,
}

impl WebSocketOffer {
    /// Reads the head of a request.
    ///
    /// # Errors
    /// `http.websocket`
    pub fn read(head: &Parts) -> Result<WebSocketOffer, Refusal> {
        let wrong = |public: &str| Err(Refusal::new(refusal::WEBSOCKET, public));
        let fields = &head.headers;
        if head.method != Method::GET || head.version != Version::HTTP_11 {
            return wrong("A WebSocket is asked for by GET in HTTP/1.1.");
        }
        let lists = |name, wanted| elements(fields, name).any(|one| is_ascii_same(one, wanted));
        if !lists(UPGRADE, "websocket") || !lists(CONNECTION, "upgrade") {
            return wrong("The request does not ask to go on with WebSocket.");
        }
        if only(fields, VERSION) != Some("13") {
            return wrong("The version of the WebSocket protocol is not 13.");
        }
        let key = only(fields, KEY).filter(|key| is_key(key));
        let Some(key) = key else {
            return wrong("Sec-WebSocket-Key is not 16 bytes in base64.");
        };
        let protocols: Vec<String> = elements(fields, PROTOCOL).map(str::to_owned).collect();
        let are_unique = (1..protocols.len()).all(|at| !protocols[..at].contains(&protocols[at]));
        let are_texts = fields
            .get_all(PROTOCOL)
            .iter()
            .all(|value| value.to_str().is_ok());
        if protocols.len() > PROTOCOLS_MAX || !are_unique || !are_texts {
            return wrong("The protocols that are offered are too many, not unique or no names.");
        }
        Ok(WebSocketOffer {
            accept: accept_of(key),
            protocols,
        })
    }

    /// The protocols that the client speaks, those that it prefers first.
    pub fn protocols(&self) -> impl Iterator<Item = &str> {
        self.protocols.iter().map(String::as_str)
    }

    /// What proves to the client that its handshake was understood.
    pub(super) fn accept(&self) -> &str {
        &self.accept
    }
}

/// What a server is asked for.
#[derive(Clone, Copy, Debug)]
pub struct WebSocketAsk<'a> {
    /// The path and the query.
    pub target: &'a str,
    /// Protocols that we speak, those that are preferred first; each is a token.
    pub protocols: &'a [&'a str],
    /// Further fields of the request, such as `origin`.
    pub fields: &'a [(&'a [u8], &'a [u8])],
}

impl WebSocketAsk<'_> {
    /// Writes the request, and gives what its answer has to hold.
    pub(super) fn write(&self, lease: &mut Lease) -> Result<String, Error> {
        let mut key = [0; KEY_BYTES];
        rand::fill(&mut key).map_err(|_| Error::Misuse("there is no randomness"))?;
        let key = STANDARD.encode(key);
        let protocols = self.protocols.join(", ");
        let own = [(VERSION, "13"), (KEY, &key), (PROTOCOL, &protocols)];
        let own = own.iter().filter(|(_, value)| !value.is_empty());
        let own = own.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let fields = self.fields.iter().copied().chain(own);
        let host = lease.host().to_vec();
        lease.request_upgrade(b"websocket", self.target.as_bytes(), &host, fields)?;
        Ok(accept_of(&key))
    }

    /// Checks the answer; gives the protocol that the server chose. The error is for the operator.
    pub(super) fn check(
        &self,
        answer: &AnswerView<'_>,
        is_switched: bool,
        accept: &str,
    ) -> Result<Option<String>, String> {
        let fields = answer.fields();
        let only = |name: &str| {
            let mut values = fields.all(name.as_bytes());
            values.next().filter(|_| values.next().is_none())
        };
        if !is_switched {
            let status = answer.status();
            return Err(format!(
                "the server answered the WebSocket handshake with {status}"
            ));
        }
        if !only("upgrade").is_some_and(|value| value.eq_ignore_ascii_case(b"websocket")) {
            return Err("the server switched to another protocol than WebSocket".to_owned());
        }
        if only(ACCEPT) != Some(accept.as_bytes()) {
            return Err("the server did not read the key of the WebSocket handshake".to_owned());
        }
        if fields.get(EXTENSIONS.as_bytes()).is_some() {
            return Err(
                "the server uses an extension of WebSocket that was not offered".to_owned(),
            );
        }
        match (fields.get(PROTOCOL.as_bytes()), only(PROTOCOL)) {
            (None, _) => Ok(None),
            (_, Some(chosen)) => {
                let mut offered = self.protocols.iter();
                let chosen = offered.find(|known| known.as_bytes() == chosen);
                let why = "the server chose a protocol that was not offered";
                chosen
                    .map(|chosen| Some((*chosen).to_owned()))
                    .ok_or(why.to_owned())
            }
            (_, None) => Err("the server chose more than one protocol".to_owned()),
        }
    }
}

/// The proof that a key was read (RFC 6455 §4.2.2): no secret, so SHA-1 is as good as any hash.
fn accept_of(key: &str) -> String {
    let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key.as_bytes());
    hash.update(SALT.as_bytes());
    STANDARD.encode(hash.finish())
}

fn is_key(key: &str) -> bool {
    STANDARD.decode(key).is_ok_and(|key| key.len() == KEY_BYTES)
}

fn is_ascii_same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// The value of a field that stands once, where it is text.
fn only<'f>(fields: &'f HeaderMap, name: &str) -> Option<&'f str> {
    let mut values = fields.get_all(name).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    value.to_str().ok()
}

/// The elements of the lists in all fields of this name.
fn elements(fields: &HeaderMap, name: impl AsHeaderName) -> impl Iterator<Item = &str> {
    let values = fields.get_all(name).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let elements = texts.flat_map(|text| text.split(','));
    elements
        .map(str::trim)
        .filter(|element| !element.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(change: &[(&str, Option<&str>)]) -> Result<WebSocketOffer, Refusal> {
        let mut request = http::Request::get("/chat");
        for (name, value) in [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
            (VERSION, "13"),
            (KEY, "dGhlIHNhbXBsZSBub25jZQ=="),
            (PROTOCOL, "chat, superchat"),
            (EXTENSIONS, "permessage-deflate"),
        ] {
            let changed = change.iter().find(|(changed, _)| *changed == name);
            if let Some(value) = changed.map_or(Some(value), |(_, value)| *value) {
                request = request.header(name, value);
            }
        }
        WebSocketOffer::read(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn the_example_of_the_standard_is_understood() {
        let offer = read(&[]).unwrap();
        assert_eq!(offer.accept(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(offer.protocols().collect::<Vec<_>>(), ["chat", "superchat"]);
        assert_eq!(read(&[(PROTOCOL, None)]).unwrap().protocols().count(), 0);
    }

    #[test]
    fn a_handshake_that_is_not_good_is_refused() {
        let many: Vec<String> = (0..=PROTOCOLS_MAX)
            .map(|number| number.to_string())
            .collect();
        let many = many.join(",");
        for (name, value) in [
            ("connection", None),
            ("connection", Some("close")),
            ("upgrade", Some("websockets")),
            (VERSION, Some("8")),
            (VERSION, None),
            (KEY, None),
            (KEY, Some("dGhlIHNhbXBsZSBub25jZQ")),
            (KEY, Some("dGhlIHNhbXBsZSBub25j")),
            (KEY, Some("dGhlIHNhbXBsZSBub25jZR==")),
            (PROTOCOL, Some("a, a")),
            (PROTOCOL, Some(many.as_str())),
        ] {
            let refusal = read(&[(name, value)]).unwrap_err();
            assert_eq!(refusal.code, refusal::WEBSOCKET, "{name}: {value:?}");
        }
        let twice = http::Request::get("/").header(KEY, "a").header(KEY, "b");
        let twice = twice.body(()).unwrap();
        assert_eq!(only(twice.headers(), KEY), None);
    }
}
