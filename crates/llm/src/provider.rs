//! Providers of models: what is known of each kind, a file each below `providers/`.
//!
//! A kind says where its models are asked, by which path for each kind of request, and in which field it wants its key. What the
//! configuration says of a provider goes before what its kind says. Adding a kind is a file and a line in [`KINDS`].

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Name, Secret};
use gate::Price;
use http::HeaderName;
use serde::Deserialize;

use crate::price::PriceTable;
use crate::wire::Wire;

/// The kinds of providers: the name and the file.
const KINDS: &[(&str, &str)] = &[
    ("anthropic", include_str!("../providers/anthropic.toml")),
    ("azure", include_str!("../providers/azure.toml")),
    ("cohere", include_str!("../providers/cohere.toml")),
    ("deepseek", include_str!("../providers/deepseek.toml")),
    ("gemini", include_str!("../providers/gemini.toml")),
    ("groq", include_str!("../providers/groq.toml")),
    ("mistral", include_str!("../providers/mistral.toml")),
    ("ollama", include_str!("../providers/ollama.toml")),
    ("openai", include_str!("../providers/openai.toml")),
    ("openrouter", include_str!("../providers/openrouter.toml")),
    ("together", include_str!("../providers/together.toml")),
    ("vllm", include_str!("../providers/vllm.toml")),
    ("xai", include_str!("../providers/xai.toml")),
];

/// What is known of one kind of provider.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderKind {
    /// Where it is asked; absent where each customer has an address of its own.
    #[serde(default)]
    pub url: Option<String>,
    /// The field that its key goes in.
    pub key: KeyField,
    /// The path of each kind of request that it takes, behind the URL; `{model}` stands for the model's name.
    pub paths: BTreeMap<String, String>,
    /// The path of its list of models.
    #[serde(default = "models")]
    pub models: String,
    /// Fields that are sent where the client sends none of this name.
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
}

/// Where most have the list of their models.
fn models() -> String {
    "/models".to_owned()
}

/// The field in which a provider wants its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyField {
    /// `Authorization: Bearer`.
    Bearer,
    XApiKey,
    XGoogApiKey,
    ApiKey,
}

impl KeyField {
    /// The field with the key in it.
    pub fn field(self, key: &Secret) -> (HeaderName, String) {
        let name = |name| HeaderName::from_static(name);
        match self {
            KeyField::Bearer => (
                http::header::AUTHORIZATION,
                format!("Bearer {}", key.expose()),
            ),
            KeyField::XApiKey => (name("x-api-key"), key.expose().to_owned()),
            KeyField::XGoogApiKey => (name("x-goog-api-key"), key.expose().to_owned()),
            KeyField::ApiKey => (name("api-key"), key.expose().to_owned()),
        }
    }
}

impl ProviderKind {
    /// The kind of this name.
    pub fn of(name: &str) -> Option<ProviderKind> {
        let (_, file) = KINDS.iter().find(|(known, _)| *known == name)?;
        let kind = toml::from_str(file);
        Some(kind.expect("a test reads each file"))
    }

    /// The names of all kinds.
    pub fn names() -> impl Iterator<Item = &'static str> {
        KINDS.iter().map(|(name, _)| *name)
    }
}

/// One configured provider.
#[derive(Clone, PartialEq)]
pub struct Provider {
    pub name: Name,
    pub kind: ProviderKind,
    /// The keys that it is asked with, in turn; none where it wants none.
    pub keys: Vec<Secret>,
    /// The models that it has, where the configuration names them; all else.
    pub models: Vec<String>,
    /// The name of its kind, by which prices are looked up.
    pub kind_name: String,
    /// What its models cost, where the configuration says so itself.
    pub prices: Vec<(String, Price)>,
    /// The operator's file of prices; empty where there is none.
    pub table: Arc<PriceTable>,
}

impl Provider {
    /// The path for a kind of request; nothing where it does not take it.
    pub(crate) fn path(&self, wire: &Wire, model: &str) -> Option<String> {
        let path = self.kind.paths.get(wire.name)?;
        Some(path.replace("{model}", &encoded(model)))
    }

    pub(crate) fn takes(&self, wire: &Wire) -> bool {
        self.kind.paths.contains_key(wire.name)
    }

    /// What a model costs: as the configuration says, else its file of prices, else the table that weir brings.
    pub fn price(&self, model: &str) -> Option<Price> {
        let own = self.prices.iter().find(|(name, _)| name == model);
        let own = own.map(|(_, price)| *price);
        let kind = self.kind_name.as_str();
        own.or_else(|| self.table.of(kind, model))
            .or_else(|| PriceTable::known().of(kind, model))
    }

    /// Whether one of its keys stands in what it answered.
    pub(crate) fn has_key_in(&self, answered: &[u8]) -> bool {
        gives_back(&self.keys, answered)
    }

    pub(crate) fn has(&self, model: &str) -> bool {
        self.models.is_empty() || self.models.iter().any(|known| known == model)
    }
}

/// Whether one of the keys stands in what was answered, as it is or with the escapes of JSON.
pub(crate) fn gives_back(keys: &[Secret], answered: &[u8]) -> bool {
    has_key_in(keys, answered)
        || (memchr::memchr(b'\\', answered).is_some() && has_key_in(keys, &unescaped(answered)))
}

/// A text without the escapes of JSON that letters of a key may have.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let (mut plain, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(byte) = text.get(at) {
        let hex = text
            .get(at + 2..at + 6)
            .filter(|_| text[at..].starts_with(b"\\u"));
        let letter =
            hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match (letter, byte) {
            (Some(letter), _) => {
                plain.push(letter);
                at += 6;
            }
            (None, b'\\') => {
                plain.extend(text.get(at + 1));
                at += 2;
            }
            (None, byte) => {
                plain.push(*byte);
                at += 1;
            }
        }
    }
    plain
}

/// Whether one of the keys stands in a text, as it is.
fn has_key_in(keys: &[Secret], text: &[u8]) -> bool {
    let mut keys = keys.iter().map(|key| key.expose().as_bytes());
    keys.any(|key| !key.is_empty() && memchr::memmem::find(text, key).is_some())
}

/// Whether a model's name is nothing but a name where it stands in a path (RFC 3986, section 5.2.4).
pub(crate) fn is_plain(model: &str) -> bool {
    !model.split('/').any(|part| matches!(part, "" | "." | ".."))
}

/// A model's name in a path (RFC 3986, section 3.3): `/` is kept, since tuned models are named `tunedModels/x`.
fn encoded(model: &str) -> String {
    let mut path = String::with_capacity(model.len());
    for byte in model.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~/:@".contains(&byte) {
            true => path.push(char::from(byte)),
            false => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    #[test]
    fn every_kind_is_read_and_names_known_requests() {
        let known = |name: &String| wire::ALL.iter().any(|wire| wire.name == name);
        for name in ProviderKind::names() {
            let kind = ProviderKind::of(name).unwrap();
            assert!(
                !kind.paths.is_empty() && kind.paths.keys().all(known),
                "{name}"
            );
            let starts = |path: &String| path.starts_with('/');
            assert!(kind.paths.values().all(starts), "{name}");
            assert!(
                kind.fields
                    .keys()
                    .all(|field| field.parse::<HeaderName>().is_ok())
            );
        }
        let mut names: Vec<_> = ProviderKind::names().collect();
        names.dedup();
        assert!(names.is_sorted() && names.len() == KINDS.len());
        assert_eq!(ProviderKind::of("nobody"), None);
    }

    #[test]
    fn a_key_is_found_however_it_is_written() {
        let keys = [Secret::new("sk-a/b".to_owned())];
        for text in [
            "x sk-a/b y",
            r"sk\u002da\u002Fb",
            r"sk-a\/b",
            r"\\\u0073k-a/b",
        ] {
            assert!(gives_back(&keys, text.as_bytes()), "{text}");
        }
        for text in ["sk-a", r"sk\u002d", r"\", r"\u00", ""] {
            assert!(!gives_back(&keys, text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_models_name_is_a_path_and_nothing_else() {
        assert_eq!(encoded("gemini-3-pro"), "gemini-3-pro");
        assert_eq!(encoded("tunedModels/a b?c#d"), "tunedModels/a%20b%3Fc%23d");
        assert!(is_plain("tunedModels/a") && is_plain("x..y") && is_plain("a:b@c"));
        for odd in ["../x", "a/../../files", "./x", "a//b", "/a", "a/", ""] {
            assert!(!is_plain(odd), "{odd}");
        }
    }
}
