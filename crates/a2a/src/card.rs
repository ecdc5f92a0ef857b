//! An agent's card: what is pinned of it, and what clients are shown in its place.
//!
//! What weir shows says one place, weir's own, and one way to be known there, a key of weir's. Every member that a client
//! could take for another place is left out, in whatever spelling: a client that found the agent's own URL would go around the gate.
//! Signatures are left out too, since what they sign is not what is shown; a card that is signed anew each time would else change
//! each time.
//!
//! Sources: A2A 1.0, sections 4.4 "Agent Discovery Objects" and 8; A2A 0.3.0, section 5.5.

use base::{Json, Refusal, refusal};
use serde_json::{Map, Value, json};

use crate::request::{is_alike, once};

/// Largest card, in bytes.
pub(crate) const CARD_BYTES_MAX: usize = 256 << 10;
/// Most interfaces of a card that are looked at.
const INTERFACES_MAX: usize = 64;
/// Longest version of a protocol, in bytes.
const VERSION_BYTES_MAX: usize = 16;
/// The name of the one way to be known.
const SCHEME: &str = "weir";
/// The binding that is carried, in both versions.
const JSON_RPC: &str = "JSONRPC";
/// Members of a card that say where the agent is and how it knows its clients; they are weir's to say.
const OURS: &[&str] = &[
    "url",
    "preferredTransport",
    "additionalInterfaces",
    "protocolVersion",
    "supportedInterfaces",
    "securitySchemes",
    "security",
    "securityRequirements",
    "supportsAuthenticatedExtendedCard",
    "signatures",
];
/// The same of its capabilities.
const OUR_CAPABILITIES: &[&str] = &["pushNotifications", "extendedAgentCard"];
/// The same of a skill.
const OUR_SKILL: &[&str] = &["security", "securityRequirements"];

/// A card as its agent gave it, without its signatures.
#[derive(Debug)]
pub(crate) struct Card(Map<String, Value>);

impl Card {
    /// Reads a card.
    ///
    /// # Errors
    /// `a2a.card_invalid`.
    pub(crate) fn read(body: &[u8]) -> Result<Card, Refusal> {
        let json = Json::read(body).map_err(|_| invalid("the card is not JSON"))?;
        once(json.root()).map_err(|_| invalid("the card could be read in two ways"))?;
        let Ok(Value::Object(mut card)) = serde_json::from_slice(body) else {
            return Err(invalid("the card is no object"));
        };
        card.retain(|key, _| !is_alike(key, "signatures"));
        match card.get("name") {
            Some(Value::String(name)) if !name.is_empty() => Ok(Card(card)),
            _ => Err(invalid("the card names no agent")),
        }
    }

    /// What is scanned and pinned.
    pub(crate) fn definition(&self) -> Vec<u8> {
        Value::Object(self.0.clone()).to_string().into_bytes()
    }

    /// What clients are shown: the same agent at this URL.
    ///
    /// # Errors
    /// `a2a.card_invalid` where the agent does not speak JSON-RPC.
    pub(crate) fn at(self, url: &str) -> Result<Vec<u8>, Refusal> {
        let Card(mut card) = self;
        let interfaces = interfaces(&card, url);
        let old = old_version(&card);
        if interfaces.is_empty() && old.is_none() {
            return Err(invalid(
                "the card offers no JSON-RPC, which alone is carried",
            ));
        }
        strip(&mut card, OURS);
        if let Some(Value::Object(capabilities)) = card.get_mut("capabilities") {
            strip(capabilities, OUR_CAPABILITIES);
        }
        if let Some(Value::Array(skills)) = card.get_mut("skills") {
            for skill in skills.iter_mut().filter_map(Value::as_object_mut) {
                strip(skill, OUR_SKILL);
            }
        }
        let mut scheme = Map::new();
        if !interfaces.is_empty() {
            card.insert("supportedInterfaces".into(), interfaces.into());
            let requirements = json!([{ "schemes": { SCHEME: { "list": [] } } }]);
            card.insert("securityRequirements".into(), requirements);
            let http = json!({ "scheme": "Bearer" });
            scheme.insert("httpAuthSecurityScheme".into(), http);
        }
        if let Some(version) = old {
            card.insert("url".into(), url.into());
            card.insert("preferredTransport".into(), JSON_RPC.into());
            card.insert("protocolVersion".into(), version.into());
            card.insert("security".into(), json!([{ SCHEME: [] }]));
            scheme.insert("type".into(), "http".into());
            scheme.insert("scheme".into(), "Bearer".into());
        }
        card.insert("securitySchemes".into(), json!({ SCHEME: scheme }));
        Ok(Value::Object(card).to_string().into_bytes())
    }
}

/// Takes out what is spelled in any way like one of these.
fn strip(object: &mut Map<String, Value>, names: &[&str]) {
    object.retain(|key, _| !names.iter().any(|name| is_alike(key, name)));
}

/// The interfaces of 1.0 that speak JSON-RPC, at this URL, each version once.
fn interfaces(card: &Map<String, Value>, url: &str) -> Vec<Value> {
    let Some(Value::Array(written)) = card.get("supportedInterfaces") else {
        return Vec::new();
    };
    let mut kept: Vec<Value> = Vec::new();
    for interface in written.iter().take(INTERFACES_MAX) {
        let text = |name: &str| interface[name].as_str();
        let is_rpc = text("protocolBinding") == Some(JSON_RPC);
        let Some(version) = text("protocolVersion").filter(|version| is_rpc && is_version(version))
        else {
            continue;
        };
        let mut ours = json!({
            "url": url,
            "protocolBinding": JSON_RPC,
            "protocolVersion": version,
        });
        if let Some(tenant) = text("tenant").filter(|tenant| !tenant.is_empty()) {
            ours["tenant"] = tenant.into();
        }
        if !kept.contains(&ours) {
            kept.push(ours);
        }
    }
    kept
}

/// The version of a card of 0.3 whose agent speaks JSON-RPC.
fn old_version(card: &Map<String, Value>) -> Option<String> {
    card.get("url")?.as_str()?;
    let version = card.get("protocolVersion")?.as_str()?;
    let main = card.get("preferredTransport").and_then(Value::as_str);
    let more = card.get("additionalInterfaces").and_then(Value::as_array);
    let mut more = more.into_iter().flatten().take(INTERFACES_MAX);
    let speaks = main.is_none_or(|main| main == JSON_RPC)
        || more.any(|interface| interface["transport"].as_str() == Some(JSON_RPC));
    (speaks && is_version(version)).then(|| version.to_owned())
}

fn is_version(text: &str) -> bool {
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    is_plain && (1..=VERSION_BYTES_MAX).contains(&text.len())
}

fn invalid(why: &str) -> Refusal {
    Refusal::new(refusal::A2A_CARD_INVALID, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://weir.example/a2a/helper";

    fn shown(card: &Value) -> Value {
        let card = Card::read(card.to_string().as_bytes()).unwrap();
        serde_json::from_slice(&card.at(URL).unwrap()).unwrap()
    }

    #[test]
    fn a_card_shows_weir_alone() {
        let card = json!({
            "name": "Helper",
            "url": "https://agent.example/rpc",
            "protocolVersion": "0.3.0",
            "additionalInterfaces": [{ "url": "https://agent.example/grpc", "transport": "GRPC" }],
            "supportedInterfaces": [
                { "url": "https://agent.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "a" },
                { "url": "https://agent.example/g", "protocolBinding": "GRPC", "protocolVersion": "1.0" },
            ],
            "supported_interfaces": [{ "url": "https://agent.example/" }],
            "URL": "https://agent.example/",
            "capabilities": { "streaming": true, "pushNotifications": true, "extended_agent_card": true },
            "skills": [{ "id": "a", "security": [{ "oauth": [] }] }],
            "security": [{ "oauth": [] }],
            "securitySchemes": { "oauth": { "type": "oauth2", "oauth2MetadataUrl": "https://agent.example/" } },
            "signatures": [{ "signature": "x" }],
        });
        let shown = shown(&card);
        assert!(!shown.to_string().contains("agent.example"), "{shown}");
        assert_eq!(shown["supportedInterfaces"].as_array().unwrap().len(), 1);
        assert_eq!(shown["supportedInterfaces"][0]["tenant"], "a");
        assert_eq!(
            (&shown["url"], &shown["preferredTransport"]),
            (&json!(URL), &json!("JSONRPC"))
        );
        assert_eq!(shown["capabilities"], json!({ "streaming": true }));
        assert_eq!(shown["skills"], json!([{ "id": "a" }]));
        assert!(shown.get("signatures").is_none());
    }

    #[test]
    fn a_card_is_of_the_versions_that_its_agent_speaks() {
        let new = json!({ "name": "n", "supportedInterfaces": [
            { "url": "http://a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" },
        ] });
        assert!(shown(&new).get("url").is_none());
        let old = json!({ "name": "n", "url": "http://a", "protocolVersion": "0.3.0" });
        assert!(shown(&old).get("supportedInterfaces").is_none());
        assert_eq!(shown(&old)["url"], URL);
        for bad in [
            json!({ "name": "n", "url": "http://a", "protocolVersion": "0.3.0", "preferredTransport": "GRPC" }),
            json!({ "name": "n", "url": "http://a" }),
            json!({ "name": "n", "supportedInterfaces": [{ "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0" }] }),
        ] {
            let card = Card::read(bad.to_string().as_bytes()).unwrap();
            assert_eq!(card.at(URL).unwrap_err().code.name, "a2a.card_invalid");
        }
        for bad in ["", "[]", "{}", r#"{"name":"a","name":"b"}"#] {
            assert!(Card::read(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn signatures_are_no_change() {
        let card = |signature: &str| {
            let card = json!({ "name": "n", "description": "d", "signatures": [signature] });
            Card::read(card.to_string().as_bytes())
                .unwrap()
                .definition()
        };
        assert_eq!(card("a"), card("b"));
    }
}
