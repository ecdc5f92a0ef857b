//! Providers of models: what is known of each kind, a file each below `providers/`.
//!
//! A kind says where its models are asked, by which path for each kind of request, and in which field it wants its key. What the
//! configuration says of a provider goes before what its kind says. Adding a kind is a file and a line in [`KINDS`].

use std::collections::BTreeMap;
use std::sync::Arc;

use base::{Name, Secret};
use gate::Price;
use http::HeaderName;
use http::header::CONTENT_TYPE;
use serde::Deserialize;

use crate::login::{Credential, ProviderLogin};
use crate::price::PriceTable;
use crate::wire::{self, Bills, Wire};

/// The kinds of providers: the name and the file.
const KINDS: &[(&str, &str)] = &[
    ("anthropic", include_str!("../providers/anthropic.toml")),
    ("azure", include_str!("../providers/azure.toml")),
    ("bedrock", include_str!("../providers/bedrock.toml")),
    ("cohere", include_str!("../providers/cohere.toml")),
    ("deepseek", include_str!("../providers/deepseek.toml")),
    ("gemini", include_str!("../providers/gemini.toml")),
    ("groq", include_str!("../providers/groq.toml")),
    ("mistral", include_str!("../providers/mistral.toml")),
    ("ollama", include_str!("../providers/ollama.toml")),
    ("openai", include_str!("../providers/openai.toml")),
    ("openrouter", include_str!("../providers/openrouter.toml")),
    ("together", include_str!("../providers/together.toml")),
    ("vertex", include_str!("../providers/vertex.toml")),
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
    /// The same where it depends on what the configuration says: on `{region}`, or on `{host}`, `{project}` and `{location}`.
    #[serde(default)]
    pub address: Option<String>,
    /// The field that its key goes in.
    pub key: KeyField,
    /// The name of its service in signatures of AWS, where requests may be signed in the place of a key.
    #[serde(default)]
    pub sigv4: Option<String>,
    /// Whether a service account of Google may stand in the place of a key.
    #[serde(default)]
    pub service_account: bool,
    /// The path of each kind of request that it takes, behind the URL; `{model}` stands for the model's name.
    pub paths: BTreeMap<String, String>,
    /// The path where the answer is to stream, if that is another.
    #[serde(default)]
    pub stream_paths: BTreeMap<String, String>,
    /// What the names of models begin with that a kind of request is for; kinds that do not stand here are for all other models.
    #[serde(default)]
    pub begins: BTreeMap<String, Vec<String>>,
    /// What a kind of request says otherwise than its dialect.
    #[serde(default)]
    pub body: BTreeMap<String, KindBody>,
    /// In which form an answer streams.
    #[serde(default)]
    pub events: KindEvents,
    /// Whether a model's name is one part of a path, with its slashes encoded.
    #[serde(default)]
    pub whole_names: bool,
    /// The kind whose prices hold where none of its own are known.
    #[serde(default)]
    pub priced_as: Option<String>,
    /// The path of its list of models; empty where it has none.
    #[serde(default = "models")]
    pub models: String,
    /// Fields that are sent where the client sends none of this name.
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
}

/// What a body says otherwise than its dialect.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindBody {
    /// Members that stand elsewhere.
    #[serde(default)]
    pub without: Vec<String>,
    /// Members that it has beside those of the client.
    #[serde(default)]
    pub with: BTreeMap<String, String>,
    /// The member that holds what clients of Anthropic's dialect say in `anthropic-beta`; in that field where it is absent.
    #[serde(default)]
    pub betas: Option<String>,
}

/// In which form answers stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KindEvents {
    /// Server-sent events.
    #[default]
    Sse,
    /// Frames of AWS, in each of which an event is.
    Aws,
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
    /// What stands in the place of a key.
    pub login: Option<ProviderLogin>,
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
    pub(crate) fn path(&self, wire: &Wire, model: &str, is_stream: bool) -> Option<String> {
        let other = self.kind.stream_paths.get(wire.name);
        let path = other
            .filter(|_| is_stream)
            .or(self.kind.paths.get(wire.name))?;
        Some(path.replace("{model}", &encoded(model, self.kind.whole_names)))
    }

    /// Whether it takes a kind of request for a model.
    pub(crate) fn takes(&self, wire: &Wire, model: &str) -> bool {
        let begins = |with: &Vec<String>| with.iter().any(|with| model.starts_with(with));
        self.kind.paths.contains_key(wire.name)
            && match self.kind.begins.get(wire.name) {
                Some(with) => begins(with),
                None => !self.kind.begins.values().any(begins),
            }
    }

    /// How many keys it is asked with; a login counts as one.
    pub fn key_count(&self) -> usize {
        match (self.keys.len(), &self.login) {
            (0, Some(_)) => 1,
            (count, _) => count,
        }
    }

    /// The cheapest request that shows whether a credential is good where there is no list of models: one that asks a model
    /// nothing, which is no request. Nothing where it cannot be written.
    pub fn empty_request(
        &self,
        model: &str,
        token: Option<Secret>,
        unix_ms: u64,
    ) -> Option<http::Request<bytes::Bytes>> {
        let mut all = wire::ALL.iter();
        let wire = all.find(|wire| wire.bills == Bills::All && self.takes(wire, model))?;
        let mut request = http::Request::post(self.path(wire, model, false)?)
            .header(CONTENT_TYPE, "application/json")
            .body(bytes::Bytes::from_static(b"{}"))
            .ok()?;
        let credential = match (token, &self.login) {
            (Some(token), _) => Credential::Token(token),
            (None, Some(ProviderLogin::Aws(key))) => Credential::Signature(key, unix_ms),
            _ => Credential::Nothing,
        };
        credential.put(self, &mut request)?;
        Some(request)
    }

    /// What must not come back in an answer.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let of_login = self.login.iter().flat_map(ProviderLogin::secrets);
        self.keys.iter().chain(of_login).cloned().collect()
    }

    /// What a model costs: as the configuration says, else its file of prices, else the table that weir brings.
    pub fn price(&self, model: &str) -> Option<Price> {
        let own = self.prices.iter().find(|(name, _)| name == model);
        let own = own.map(|(_, price)| *price);
        let kinds = [Some(&self.kind_name), self.kind.priced_as.as_ref()];
        let kinds = kinds.into_iter().flatten();
        let of = |table: &PriceTable| kinds.clone().find_map(|kind| table.of(kind, model));
        own.or_else(|| of(&self.table))
            .or_else(|| of(PriceTable::known()))
    }

    /// Whether one of its keys stands in what it answered.
    pub(crate) fn has_key_in(&self, answered: &[u8]) -> bool {
        gives_back(&self.secrets(), answered)
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

/// A model's name in a path (RFC 3986, section 3.3). Mostly `/` is kept, since tuned models are named `tunedModels/x`; where the name
/// is to be one part of the path, all is encoded but what never needs it, as the ARN `arn:aws:bedrock:…/x`.
fn encoded(model: &str, is_one_part: bool) -> String {
    let mut path = String::with_capacity(model.len());
    let kept: &[u8] = match is_one_part {
        true => b"-._~",
        false => b"-._~/:@",
    };
    for byte in model.bytes() {
        match byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            true => path.push(char::from(byte)),
            false => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert!(kind.stream_paths.values().all(starts), "{name}");
            let all = [
                &kind.stream_paths.keys().collect(),
                &kind.body.keys().collect(),
                &kind.begins.keys().collect::<Vec<_>>(),
            ];
            let takes = |of: &&String| kind.paths.contains_key(*of);
            assert!(all.into_iter().all(|of| of.iter().all(takes)), "{name}");
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
        let of = |model| encoded(model, false);
        assert_eq!(of("gemini-3-pro"), "gemini-3-pro");
        assert_eq!(of("tunedModels/a b?c#d"), "tunedModels/a%20b%3Fc%23d");
        assert_eq!(encoded("a:b/c@d~", true), "a%3Ab%2Fc%40d~");
        assert!(is_plain("tunedModels/a") && is_plain("x..y") && is_plain("a:b@c"));
        for odd in ["../x", "a/../../files", "./x", "a//b", "/a", "a/", ""] {
            assert!(!is_plain(odd), "{odd}");
        }
    }
}
