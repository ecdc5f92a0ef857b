//! `weir llm check`: asks each provider for its models, with each of its keys, and says what works and how to mend what does not.
//!
//! The list of models is the cheapest thing that a provider can be asked: it costs no tokens. Where there is none a model is asked
//! nothing at all, which shows whether the credential is taken. What it may ask of a model, and whether there is money left, only a
//! request shows.

use std::time::Instant;

use base::Secret;
use bytes::Bytes;
use clap::Args;
use http::header::{ACCEPT, HeaderName, HeaderValue};
use llm::{Provider, ProviderLogin, ServiceAccount};
use serde_json::{Value, json};

use crate::assemble::client::{Asker, Client};
use crate::cli::{Answer, ConfigFile, Ended, Failure, print};
use crate::config::settings::{Llm, ModelProvider, TokenPlace};

/// Largest list of models that is read, in bytes.
const LIST_BYTES_MAX: usize = 16 << 20;
/// How long a provider may take, in milliseconds.
const ANSWER_MS: u64 = 20_000;
/// Names that a line shows.
const NAMES_SHOWN_MAX: usize = 4;

/// Ask each provider of models for its list of models, and say how to mend what does not work
///
/// Each is asked with each of its keys, from here, as the gateway would ask it. No tokens are spent. Models that the configuration
/// names and the provider does not list are told.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir llm check
  weir llm check openai anthropic
  weir llm check --json | jq '.[] | select(.state != \"works\")'

Exit codes: 0 all work, 1 one does not, 2 it could not be done.")]
pub(in crate::cli) struct Check {
    /// Providers, by their names in the configuration; by default all
    providers: Vec<String>,
    #[command(flatten)]
    config: ConfigFile,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How a provider answered one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyState {
    Works,
    /// It answers, and something is not as the configuration has it.
    Doubtful,
    Fails,
}

impl KeyState {
    fn as_str(self) -> &'static str {
        match self {
            KeyState::Works => "works",
            KeyState::Doubtful => "doubtful",
            KeyState::Fails => "fails",
        }
    }
}

/// What was found of one provider with one of its keys.
struct KeyCheck {
    provider: String,
    url: String,
    /// The number of the key, from one; nothing where it has none.
    key: Option<usize>,
    state: KeyState,
    what: String,
    help: String,
    models: Option<usize>,
    ms: u128,
}

impl Check {
    pub(super) fn run(self) -> Ended {
        let settings = self.config.load()?;
        let chosen = self.chosen(&settings.llm)?;
        let mut found = Vec::new();
        for provider in chosen {
            let wanted = wanted(&settings.llm, provider);
            found.extend(check(provider, &wanted));
        }
        print(&match self.json {
            true => format!(
                "{}\n",
                Value::from(found.iter().map(to_json).collect::<Vec<_>>())
            ),
            false => found.iter().map(to_text).collect(),
        })?;
        match found.iter().any(|check| check.state == KeyState::Fails) {
            true => Ok(Answer::No),
            false => Ok(Answer::Yes),
        }
    }

    fn chosen<'l>(&self, settings: &'l Llm) -> Result<Vec<&'l ModelProvider>, Failure> {
        if settings.providers.is_empty() {
            let help = "Write one under llm.providers in weir.yaml, such as openai: { key: env:OPENAI_API_KEY }.";
            return Err(Failure::new("there is no provider of models", help));
        }
        let known = |name: &str| {
            let mut providers = settings.providers.iter();
            providers.find(|provider| provider.told.name.as_str() == name)
        };
        if let Some(unknown) = self.providers.iter().find(|name| known(name).is_none()) {
            let names = settings
                .providers
                .iter()
                .map(|provider| provider.told.name.as_str());
            let help = format!("There are: {}.", names.collect::<Vec<_>>().join(", "));
            return Err(Failure::new(
                format!("there is no provider {unknown:?}"),
                help,
            ));
        }
        let is_chosen = |provider: &&ModelProvider| {
            self.providers.is_empty()
                || self
                    .providers
                    .iter()
                    .any(|name| name == provider.told.name.as_str())
        };
        Ok(settings.providers.iter().filter(is_chosen).collect())
    }
}

/// The models that the configuration expects of a provider.
fn wanted(settings: &Llm, provider: &ModelProvider) -> Vec<String> {
    let tries = settings.routes.iter().flat_map(|route| &route.tries);
    let tries = tries.filter(|of| settings.providers[of.provider].told.name == provider.told.name);
    let routed = tries.map(|of| of.model.clone());
    let mut wanted: Vec<String> = provider.told.models.iter().cloned().chain(routed).collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

fn check(provider: &ModelProvider, wanted: &[String]) -> Vec<KeyCheck> {
    let told = &provider.told;
    let keys: Vec<Option<(usize, &Secret)>> = match told.keys.is_empty() {
        true => vec![None],
        false => told.keys.iter().enumerate().map(Some).collect(),
    };
    let client = Client::within(&provider.url, provider.ca.as_ref(), provider.reach());
    let mut found = Vec::new();
    for key in keys {
        let begun = Instant::now();
        let secret = key.map(|(_, secret)| secret);
        let answered = client.as_ref().map_err(Clone::clone).and_then(|client| {
            match told.kind.models.is_empty() {
                false => client.run(async |asker| ask(asker, told, secret).await),
                true => ask_nothing(client, provider, secret, wanted),
            }
        });
        let (state, what, help, models) = judged(told, wanted, answered);
        found.push(KeyCheck {
            provider: told.name.as_str().to_owned(),
            url: format!("{}{}", provider.url.origin(), provider.url.path),
            key: key.map(|(number, _)| number + 1),
            state,
            what,
            help,
            models,
            ms: begun.elapsed().as_millis(),
        });
    }
    found
}

/// Asks for the list of models. The error is for a person.
async fn ask(
    asker: &Asker<'_>,
    provider: &Provider,
    key: Option<&Secret>,
) -> Result<(u16, Bytes), String> {
    let mut request = http::Request::new(Bytes::new());
    let path = provider.kind.models.parse();
    *request.uri_mut() = path.map_err(|_| "the path of its models is none".to_owned())?;
    let fields = request.headers_mut();
    fields.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let known = provider.kind.fields.iter();
    let known =
        known.map(|(name, value)| (name.parse::<HeaderName>(), HeaderValue::try_from(value)));
    for (name, value) in known {
        if let (Ok(name), Ok(value)) = (name, value) {
            fields.insert(name, value);
        }
    }
    if let Some(key) = key {
        let (name, value) = provider.kind.key.field(key);
        let value = HeaderValue::try_from(value);
        let mut value =
            value.map_err(|_| "the key has characters that no field can hold".to_owned())?;
        value.set_sensitive(true);
        fields.insert(name, value);
    }
    let (head, body) = asker.ask(request, LIST_BYTES_MAX, ANSWER_MS).await?;
    Ok((head.status.as_u16(), body))
}

/// Asks a model nothing, as the gateway would sign that. The error is for a person.
fn ask_nothing(
    client: &Client,
    provider: &ModelProvider,
    key: Option<&Secret>,
    wanted: &[String],
) -> Result<(u16, Bytes), String> {
    let now = crate::ports::now().unix_ms;
    let told = &provider.told;
    let token = match (key, &told.login, &provider.token) {
        (Some(key), ..) => Some(key.clone()),
        (None, Some(ProviderLogin::Google(account)), Some(place)) => {
            Some(token(account, provider, place, now)?)
        }
        _ => None,
    };
    let model = wanted.first().map_or("none", String::as_str);
    let request = told.empty_request(model, token, now);
    let request = request.ok_or("the key has characters that no field can hold")?;
    client.run(async |asker| {
        let (head, body) = asker.ask(request, LIST_BYTES_MAX, ANSWER_MS).await?;
        Ok((head.status.as_u16(), body))
    })
}

/// A token for a service account.
fn token(
    account: &ServiceAccount,
    provider: &ModelProvider,
    place: &TokenPlace,
    now_ms: u64,
) -> Result<Secret, String> {
    let ca = provider.ca.as_ref().filter(|_| place.is_own);
    let client = Client::within(&place.url, ca, provider.token_reach(place))?;
    let request = account.request(now_ms / 1_000);
    let request = request.ok_or("the statement cannot be signed")?;
    let answered = client.run(async |asker| asker.ask(request, LIST_BYTES_MAX, ANSWER_MS).await);
    let (head, body) = answered.map_err(|why| format!("the place of its tokens: {why}"))?;
    let given = ServiceAccount::token(&body).filter(|_| head.status.is_success());
    let status = head.status.as_u16();
    given.ok_or_else(|| format!("the place of its tokens gave none (it answered {status})"))
}

/// What an answer means: how it stands, why, what to do, and how many models there are.
fn judged(
    provider: &Provider,
    wanted: &[String],
    answered: Result<(u16, Bytes), String>,
) -> (KeyState, String, String, Option<usize>) {
    let name = &provider.name;
    let fails = |what: String, help: String| (KeyState::Fails, what, help, None);
    let (status, body) = match answered {
        Ok(answered) => answered,
        Err(why) => {
            let help =
                format!("Check llm.providers.{name}.url, and whether this machine reaches it.");
            return fails(why, help);
        }
    };
    match status {
        // It takes the credential, and says that nothing was asked.
        400 if provider.kind.models.is_empty() => {
            let what = "takes the credential; it has no list of models here".to_owned();
            (KeyState::Works, what, String::new(), None)
        }
        200..=299 => listed(name.as_str(), wanted, &body),
        401 | 403 => {
            let help = format!("Write a key that is good there in llm.providers.{name}.key.");
            let what = match provider.key_count() == 0 {
                true => format!("wants a key (it answered {status})"),
                false => format!("does not take the key (it answered {status})"),
            };
            fails(what, help)
        }
        429 => fails(
            "is at a limit (it answered 429)".to_owned(),
            "Wait, or raise the limit there; llm.providers takes several keys.".to_owned(),
        ),
        404 | 405 => (
            KeyState::Doubtful,
            format!("answers, and lists no models ({status})"),
            format!(
                "Ask a model through the gateway to see whether the key is good, or check llm.providers.{name}.url."
            ),
            None,
        ),
        _ => fails(
            format!("answered {status}"),
            "Try again later, or ask the provider.".to_owned(),
        ),
    }
}

/// What a list of models means.
fn listed(name: &str, wanted: &[String], body: &[u8]) -> (KeyState, String, String, Option<usize>) {
    let list: Option<Value> = serde_json::from_slice(body).ok();
    let items = list.as_ref().and_then(|list| {
        let items = list.get("data").or(list.get("models")).or(Some(list));
        items.and_then(Value::as_array)
    });
    let Some(items) = items else {
        let help = format!("Is llm.providers.{name}.url that of its API? It mostly ends in /v1.");
        let what = "answers something that is no list of models".to_owned();
        return (KeyState::Fails, what, help, None);
    };
    let ids = items.iter().filter_map(|item| {
        let id = item
            .get("id")
            .or(item.get("name"))
            .and_then(Value::as_str)?;
        Some(id.strip_prefix("models/").unwrap_or(id))
    });
    let ids: Vec<&str> = ids.collect();
    let missing = wanted.iter().map(String::as_str);
    let missing: Vec<&str> = missing.filter(|model| !ids.contains(model)).collect();
    let models = ids.len();
    match missing.as_slice() {
        [] => (
            KeyState::Works,
            format!("{models} models"),
            String::new(),
            Some(models),
        ),
        missing => {
            let shown = missing.iter().take(NAMES_SHOWN_MAX).copied();
            let what = format!("does not list {}", shown.collect::<Vec<_>>().join(", "));
            let help = format!(
                "Check llm.providers.{name}.models and llm.routes; a list may leave models out."
            );
            (KeyState::Doubtful, what, help, Some(models))
        }
    }
}

fn to_text(check: &KeyCheck) -> String {
    let key = check
        .key
        .map_or_else(|| "no key".to_owned(), |number| format!("key {number}"));
    let mut text = format!(
        "{:<16} {:<7} {:<9} {} ({} ms)\n",
        check.provider,
        key,
        check.state.as_str(),
        terminal::visible(&check.what),
        check.ms,
    );
    if !check.help.is_empty() {
        text.push_str(&format!("{:<16} {}\n", "", check.help));
    }
    text
}

fn to_json(check: &KeyCheck) -> Value {
    json!({
        "provider": check.provider,
        "url": check.url,
        "key": check.key,
        "state": check.state.as_str(),
        "what": check.what,
        "help": check.help,
        "models": check.models,
        "ms": u64::try_from(check.ms).unwrap_or(u64::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Name;
    use llm::ProviderKind;

    #[test]
    fn answers_say_what_works_and_what_to_do() {
        let provider = Provider {
            name: Name::new("openai").unwrap(),
            kind: ProviderKind::of("openai").unwrap(),
            keys: vec![Secret::new("k".to_owned())],
            login: None,
            models: Vec::new(),
            kind_name: "openai".to_owned(),
            prices: Vec::new(),
            table: std::sync::Arc::default(),
        };
        let wanted = ["gpt-5.4".to_owned()];
        let judge = |status: u16, body: &'static str| {
            let (state, what, help, models) =
                judged(&provider, &wanted, Ok((status, Bytes::from(body))));
            assert_eq!(help.is_empty(), state == KeyState::Works, "{what}");
            (state, models)
        };
        use KeyState::{Doubtful, Fails, Works};
        let list = r#"{"object":"list","data":[{"id":"gpt-5.4"},{"id":"x"}]}"#;
        assert_eq!(judge(200, list), (Works, Some(2)));
        let google = r#"{"models":[{"name":"models/gpt-5.4"}]}"#;
        assert_eq!(judge(200, google), (Works, Some(1)));
        assert_eq!(judge(200, r#"{"data":[]}"#), (Doubtful, Some(0)));
        for body in ["<html>", "{}", "7"] {
            assert_eq!(judge(200, body), (Fails, None), "{body}");
        }
        for (status, state) in [
            (401, Fails),
            (403, Fails),
            (404, Doubtful),
            (405, Doubtful),
            (429, Fails),
            (503, Fails),
        ] {
            assert_eq!(judge(status, "").0, state, "{status}");
        }
        assert_eq!(
            judged(&provider, &wanted, Err("nobody".to_owned())).0,
            Fails
        );
    }
}
