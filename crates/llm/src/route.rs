//! From the model that a client names to the providers that are tried for it.
//!
//! A name is, in this order: a route of the configuration; `provider/model`; the model of the one provider that takes this kind
//! of request and has it. Example: with `routes: { smart: [anthropic/claude-opus-5, openai/gpt-5.4] }` a client that asks for
//! `smart` in OpenAI's dialect gets both, as far as they speak it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use base::{Refusal, refusal};

use crate::convert::{self, Conversion, Dialect};
use crate::login::google::TokenCache;
use crate::provider::Provider;
use crate::wire::Wire;

/// Failures in a row after which a provider is left alone for a while.
const FAILURES_MAX: u32 = 5;
/// How long that is, in milliseconds.
const OPEN_MS: u64 = 30_000;
/// Longest time that a key is left alone because its provider says so, in milliseconds.
const COOL_MS_MAX: u64 = 300_000;
/// Tokens for 1,024 bytes that a body is taken to be at first, and at most, whatever a provider says.
const RATIO_DEFAULT: u64 = 512;
const RATIO_MAX: u64 = 2_048;
/// Counts after which the worst that was seen is taken in the place of that, and bodies that are too small to count.
const SEEN_MIN: u32 = 16;
const COUNTED_BYTES_MIN: u64 = 256;
/// Models of one provider that ratios are kept of.
const MODELS_SEEN_MAX: usize = 256;
/// The dialects that a request is converted into, in the order in which a provider is asked for them.
const PROVIDER_DIALECTS: [Dialect; 3] = [Dialect::Chat, Dialect::Messages, Dialect::Gemini];
/// Names that a refusal lists.
const NAMES_SHOWN_MAX: usize = 8;

/// One model that a route tries, with its weight among those that stand beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteTry {
    /// The provider, by its place among all.
    pub provider: usize,
    pub model: String,
    pub weight: u32,
}

/// An alias: the models that are tried, the first by its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelRoute {
    pub name: String,
    pub tries: Vec<RouteTry>,
}

/// One provider that is tried for one request.
#[derive(Clone)]
pub(crate) struct Candidate {
    pub(crate) provider: usize,
    pub(crate) model: String,
    /// The kind of request that the provider is sent: the client's, or that of another dialect.
    pub(crate) wire: &'static Wire,
    /// From the client's dialect to the provider's, where they differ.
    pub(crate) conversion: Option<Conversion>,
}

/// How a provider is asked: by the client's own kind of request where it takes that, else by that of another dialect.
fn way(
    provider: &Provider,
    wire: &'static Wire,
    model: &str,
    is_stream: bool,
) -> Option<(&'static Wire, Option<Conversion>)> {
    if provider.takes(wire, model) {
        return Some((wire, None));
    }
    let client = convert::dialect(wire)?;
    PROVIDER_DIALECTS.into_iter().find_map(|dialect| {
        let other = convert::wire_of(dialect, is_stream)?;
        let conversion = Conversion {
            client,
            provider: dialect,
        };
        provider
            .takes(other, model)
            .then_some((other, Some(conversion)))
    })
}

/// Finds what a name stands for. The list is not empty.
///
/// # Errors
/// `llm.model_unknown` where nothing has the name, and where several do; `llm.dialect` where none of them speaks the dialect.
pub(crate) fn find(
    providers: &[Provider],
    routes: &[ModelRoute],
    (wire, is_stream): (&'static Wire, bool),
    name: &str,
    seed: u64,
) -> Result<Vec<Candidate>, Refusal> {
    let one = |at: usize, model: &str| match way(&providers[at], wire, model, is_stream) {
        Some((wire, conversion)) => Ok(vec![Candidate {
            provider: at,
            model: model.to_owned(),
            wire,
            conversion,
        }]),
        None => Err(other_dialect(
            &format!("{}/{model}", providers[at].name),
            wire,
        )),
    };
    if let Some(route) = routes.iter().find(|route| route.name == name) {
        let all = of_route(route, seed).into_iter();
        let speaks = all
            .filter_map(|of| one(of.provider, &of.model).ok())
            .flatten();
        let speaks: Vec<Candidate> = speaks.collect();
        return match speaks.is_empty() {
            false => Ok(speaks),
            true => Err(other_dialect(name, wire)),
        };
    }
    if let Some((of, model)) = name.split_once('/')
        && let Some(at) = providers.iter().position(|known| known.name.as_str() == of)
    {
        return match providers[at].has(model) {
            true => one(at, model),
            false => Err(unknown(providers, routes, wire, name)),
        };
    }
    // Who speaks the dialect goes before whom it is converted for, and who names the model before who may have any.
    let named = |at: &&usize| !providers[**at].models.is_empty();
    let speaks = |takes: &dyn Fn(&Provider) -> bool| -> Vec<usize> {
        let all = providers.iter().enumerate();
        let fit = all.filter(|(_, of)| of.has(name) && takes(of));
        fit.map(|(at, _)| at).collect()
    };
    let native = speaks(&|of| of.takes(wire, name));
    let all = match native.is_empty() {
        false => native,
        true => speaks(&|of| way(of, wire, name, is_stream).is_some()),
    };
    match (
        all.as_slice(),
        all.iter().filter(named).collect::<Vec<_>>().as_slice(),
    ) {
        ([at], _) => one(*at, name),
        (_, [at]) => one(**at, name),
        _ => Err(unknown(providers, routes, wire, name)),
    }
}

/// The tries of a route: the first by weight, the others as they stand.
fn of_route(route: &ModelRoute, seed: u64) -> Vec<RouteTry> {
    let mut all: Vec<RouteTry> = route.tries.clone();
    let sum: u64 = route.tries.iter().map(|of| u64::from(of.weight)).sum();
    let Some(mut at) = seed.checked_rem(sum) else {
        return all;
    };
    for (i, of) in route.tries.iter().enumerate() {
        if at < u64::from(of.weight) {
            let first = all.remove(i);
            all.insert(0, first);
            break;
        }
        at -= u64::from(of.weight);
    }
    all
}

fn other_dialect(name: &str, wire: &Wire) -> Refusal {
    let public = format!(
        "{name:?} is of no provider that takes requests of the kind {}",
        wire.name
    );
    Refusal::new(refusal::LLM_DIALECT, public)
}

/// Names what could be asked in its place.
fn unknown(
    providers: &[Provider],
    routes: &[ModelRoute],
    wire: &'static Wire,
    name: &str,
) -> Refusal {
    let speaks = |of: &&Provider| {
        let mut models = of.models.iter().map(String::as_str);
        way(of, wire, "", false).is_some()
            || models.any(|model| way(of, wire, model, false).is_some())
    };
    let of_providers = providers.iter().filter(speaks);
    let of_providers = of_providers.map(|provider| match provider.models.first() {
        Some(model) => format!("{}/{model}", provider.name),
        None => format!("{}/MODEL", provider.name),
    });
    let known: Vec<String> = routes
        .iter()
        .map(|route| route.name.clone())
        .chain(of_providers)
        .take(NAMES_SHOWN_MAX)
        .collect();
    let public = match known.is_empty() {
        true => format!("no model is named {name:?}, and no provider takes requests of this kind"),
        false => format!(
            "no one model is named {name:?}; there are {}",
            known.join(", ")
        ),
    };
    Refusal::new(refusal::LLM_MODEL_UNKNOWN, public)
}

/// How one provider does: shared by all threads.
#[derive(Default)]
pub(crate) struct ProviderState {
    /// Failures of its own in a row.
    failures: AtomicU32,
    /// Until when it is left alone, on the monotonic clock.
    open_until_ms: AtomicU64,
    keys: usize,
    /// The token that it is asked with, where there is one.
    pub(crate) tokens: TokenCache,
    /// Until when a key is left alone for a model: providers count what is asked by both.
    cooling: Mutex<HashMap<(usize, Box<str>), u64>>,
    turn: AtomicU32,
    /// How many tokens each of its models counts for a body.
    ratios: Mutex<HashMap<Box<str>, TokenRatio>>,
}

/// The worst ratio of tokens to bytes that was seen of a model.
#[derive(Clone, Copy, Default)]
struct TokenRatio {
    /// Tokens for 1,024 bytes.
    worst: u64,
    seen: u32,
}

impl ProviderState {
    pub(crate) fn new(keys: usize) -> ProviderState {
        ProviderState {
            keys,
            ..ProviderState::default()
        }
    }

    /// Whether it is left alone for now.
    pub(crate) fn is_open(&self, now_ms: u64) -> bool {
        now_ms < self.open_until_ms.load(Ordering::Relaxed)
    }

    /// It answered, whatever that was: it works.
    pub(crate) fn worked(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    /// It failed by its own fault.
    pub(crate) fn failed(&self, now_ms: u64) {
        let before = self.failures.fetch_add(1, Ordering::Relaxed);
        if before + 1 >= FAILURES_MAX {
            self.failures.store(0, Ordering::Relaxed);
            self.open_until_ms
                .store(now_ms + OPEN_MS, Ordering::Relaxed);
        }
    }

    /// How many tokens a body of so many bytes is at most, by what was seen of the model; one for two bytes as long as that is
    /// little.
    pub(crate) fn tokens(&self, model: &str, bytes: u64) -> u64 {
        let ratios = self.ratios.lock().unwrap_or_else(PoisonError::into_inner);
        let known = ratios.get(model).copied().unwrap_or_default();
        let ratio = match known.seen < SEEN_MIN {
            true => known.worst.max(RATIO_DEFAULT),
            false => known.worst,
        };
        bytes.saturating_mul(ratio).div_ceil(1_024)
    }

    /// The provider counted so many tokens for a body of so many bytes.
    pub(crate) fn counted(&self, model: &str, bytes: u64, tokens: u64) {
        if bytes < COUNTED_BYTES_MIN {
            return;
        }
        let ratio = tokens.saturating_mul(1_024).div_ceil(bytes).min(RATIO_MAX);
        let mut ratios = self.ratios.lock().unwrap_or_else(PoisonError::into_inner);
        if !ratios.contains_key(model) && ratios.len() >= MODELS_SEEN_MAX {
            ratios.clear();
        }
        let known = ratios.entry(model.into()).or_default();
        known.worst = known.worst.max(ratio);
        known.seen = known.seen.saturating_add(1);
    }

    /// The key to ask with: the conversation's own where it is not left alone, since a provider's cache is by key; else the
    /// next that is not. Nothing where all are.
    pub(crate) fn key(&self, conversation: Option<u64>, model: &str, now_ms: u64) -> Option<usize> {
        let count = self.keys;
        if count == 0 {
            return None;
        }
        let turn = || u64::from(self.turn.fetch_add(1, Ordering::Relaxed));
        let first = conversation.unwrap_or_else(turn) as usize % count;
        let all = (0..count).map(|i| (first + i) % count);
        let cooling = self.cooling();
        let until = |key| cooling.get(&(key, model.into())).copied();
        let mut free = all.filter(|key| until(*key).is_none_or(|until| until <= now_ms));
        free.next()
    }

    /// When the first of its keys may be used again for a model, in milliseconds from now.
    pub(crate) fn cools_ms(&self, model: &str, now_ms: u64) -> u64 {
        let cooling = self.cooling();
        let until = |key| {
            cooling
                .get(&(key, model.into()))
                .copied()
                .unwrap_or_default()
        };
        let first = (0..self.keys).map(until).min();
        first.unwrap_or_default().saturating_sub(now_ms)
    }

    /// A key is left alone for a model, as the provider asked.
    pub(crate) fn cool(&self, key: usize, model: &str, for_ms: u64, now_ms: u64) {
        let mut cooling = self.cooling();
        if cooling.len() >= MODELS_SEEN_MAX {
            cooling.retain(|_, until| *until > now_ms);
        }
        // Agents name models: of too many, none more is kept, and the provider says so again.
        if cooling.len() < MODELS_SEEN_MAX {
            cooling.insert((key, model.into()), now_ms + for_ms.min(COOL_MS_MAX));
        }
    }

    fn cooling(&self) -> std::sync::MutexGuard<'_, HashMap<(usize, Box<str>), u64>> {
        self.cooling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::ProviderKind;
    use crate::wire::{CHAT_COMPLETIONS, COUNT_TOKENS, MESSAGES};
    use base::Name;

    fn provider(name: &str, models: &[&str]) -> Provider {
        Provider {
            name: Name::new(name).unwrap(),
            kind: ProviderKind::of(name).unwrap(),
            keys: Vec::new(),
            login: None,
            models: models.iter().map(|model| (*model).to_owned()).collect(),
            kind_name: name.to_owned(),
            prices: Vec::new(),
            table: std::sync::Arc::default(),
        }
    }

    fn names(found: Result<Vec<Candidate>, Refusal>) -> Vec<(usize, String)> {
        let found = found.unwrap().into_iter();
        found.map(|of| (of.provider, of.model)).collect()
    }

    #[test]
    fn a_name_is_a_route_a_providers_model_or_the_only_one() {
        let all = [
            provider("openai", &[]),
            provider("anthropic", &[]),
            provider("groq", &["llama"]),
        ];
        let tries = [("openai", 0, "gpt-5.4"), ("anthropic", 1, "claude-opus-5")];
        let tries = tries.map(|(_, provider, model)| RouteTry {
            provider,
            model: model.to_owned(),
            weight: 1,
        });
        let routes = [ModelRoute {
            name: "smart".to_owned(),
            tries: tries.to_vec(),
        }];
        let ask = |wire, name: &str| find(&all, &routes, (wire, false), name, 0);
        assert_eq!(
            names(ask(&MESSAGES, "smart")),
            [(0, "gpt-5.4".to_owned()), (1, "claude-opus-5".to_owned())]
        );
        let converted = ask(&MESSAGES, "smart").unwrap();
        let wires: Vec<&str> = converted.iter().map(|of| of.wire.name).collect();
        assert_eq!(wires, ["chat", "messages"]);
        assert!(converted[0].conversion.is_some() && converted[1].conversion.is_none());
        assert_eq!(names(ask(&CHAT_COMPLETIONS, "smart")).len(), 2);
        assert_eq!(
            names(ask(&MESSAGES, "claude-x")),
            [(1, "claude-x".to_owned())]
        );
        assert_eq!(
            names(ask(&CHAT_COMPLETIONS, "llama")),
            [(2, "llama".to_owned())]
        );
        assert_eq!(
            names(ask(&CHAT_COMPLETIONS, "openai/a/b")),
            [(0, "a/b".to_owned())]
        );
        for (wire, name, code) in [
            (&CHAT_COMPLETIONS, "groq/other", "llm.model_unknown"),
            (&COUNT_TOKENS, "openai/gpt", "llm.dialect"),
        ] {
            assert_eq!(
                ask(wire, name).map(drop).unwrap_err().code.name,
                code,
                "{name}"
            );
        }
    }

    #[test]
    fn weights_are_kept_and_the_others_follow() {
        let tries = [3, 1].map(|weight| RouteTry {
            provider: weight as usize,
            model: "m".to_owned(),
            weight,
        });
        let route = ModelRoute {
            name: "r".to_owned(),
            tries: tries.to_vec(),
        };
        let firsts: Vec<usize> = (0..8)
            .map(|seed| of_route(&route, seed)[0].provider)
            .collect();
        assert_eq!(firsts, [3, 3, 3, 1, 3, 3, 3, 1]);
        assert_eq!(of_route(&route, 3).len(), 2);
    }

    #[test]
    fn a_body_is_taken_for_the_most_tokens_that_were_seen() {
        let state = ProviderState::new(0);
        assert_eq!(state.tokens("m", 1_001), 501);
        for _ in 0..SEEN_MIN {
            state.counted("m", 1_024, 256);
            state.counted("m", 10, 1_000);
        }
        assert_eq!(
            (state.tokens("m", 4_096), state.tokens("n", 4_096)),
            (1_024, 2_048)
        );
        state.counted("m", 1_024, 300);
        state.counted("m", 1_024, 200);
        assert_eq!(state.tokens("m", 1_024), 300);
        state.counted("m", 1_024, u64::MAX);
        assert_eq!(state.tokens("m", 1_024), RATIO_MAX);
    }

    #[test]
    fn a_provider_that_fails_is_left_alone_and_a_key_that_is_full_too() {
        let state = ProviderState::new(2);
        for _ in 0..FAILURES_MAX - 1 {
            state.failed(0);
        }
        state.worked();
        state.failed(0);
        assert!(!state.is_open(1));
        for _ in 0..FAILURES_MAX {
            state.failed(0);
        }
        assert!(state.is_open(OPEN_MS - 1) && !state.is_open(OPEN_MS));
        assert_eq!(state.key(Some(5), "m", 0), Some(1));
        state.cool(1, "m", 1_000, 0);
        assert_eq!(state.key(Some(5), "m", 0), Some(0));
        state.cool(0, "m", u64::MAX, 0);
        assert_eq!(
            (state.key(None, "m", 0), state.cools_ms("m", 0)),
            (None, 1_000)
        );
        assert_eq!(state.key(Some(5), "m", 1_000), Some(1));
        // Another model is not at its limit.
        assert_eq!(state.key(Some(5), "other", 0), Some(1));
        assert_eq!(ProviderState::new(0).key(None, "m", 0), None);
    }
}
