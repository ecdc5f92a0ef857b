//! The `llm:` section: what a provider's keys say about each other, and the secrets and files that they name.

mod login;

use std::sync::Arc;

use ::config::{ByName, Check, Path as Key, Url};
use base::Name;
use llm::section::{LlmSection, ProviderSection};
use llm::{ModelRoute, PRICES_BYTES_MAX, PriceTable, Provider, ProviderKind, RouteTry};

use super::settings::{Llm, ModelProvider};

/// Weights of a route's models.
const WEIGHT_MAX: u32 = 1_000;

/// The lane's settings. `taken` are the names of servers and of the relay's sides: a provider has one of its own.
pub(super) fn llm(written: &LlmSection, taken: &[Name], check: &mut Check<'_>) -> Llm {
    let at = Key::of("llm");
    let table = prices(written, &at, check);
    let mut providers = Vec::new();
    for (name, provider) in written.providers.iter() {
        let at = at.key("providers").key(name);
        if taken.iter().any(|other| other.as_str() == name) {
            check.say_of_name(
                &at,
                "is the name of a server or of a side of the relay too; give it another",
            );
        }
        check_model(&format!("{name}/"), &at, check);
        providers.extend(self::provider(name, provider, &table, &at, check));
    }
    for token in providers.iter().filter_map(|of| of.token.as_ref()) {
        let names = providers.iter().map(|of| &of.told.name).chain(taken);
        if names.into_iter().any(|name| *name == token.name) {
            let at = at.key("providers").key(token.name.as_str());
            check.say_of_name(
                &at,
                "is what the place of another provider's tokens is called; give it another name",
            );
        }
    }
    let mut routes = Vec::new();
    for (name, route) in written.routes.iter() {
        let at = at.key("routes").key(name);
        check_model(name, &at, check);
        let mut tries = Vec::new();
        for (i, text) in route.0.iter() {
            let known = (&written.providers, &providers[..]);
            tries.extend(one_try(&text.0, known, &at.index(i), check));
        }
        if route.0.is_empty() {
            check.say(&at, "names no model");
        }
        routes.push(ModelRoute {
            name: name.to_owned(),
            tries,
        });
    }
    Llm {
        providers,
        routes,
        cache: written
            .cache
            .as_ref()
            .map(|cache| llm::AnswerCacheSettings {
                agents: cache.agents.values().map(|agent| agent.0.clone()).collect(),
                keep_ms: cache.keep_ms.0,
                bytes_max: cache.bytes_max.size(),
            }),
        body_bytes_max: written.body_bytes_max.size(),
        answer_bytes_max: written.answer_bytes_max.size(),
        answer_ms: written.answer_ms.0,
        silence_ms: written.silence_ms.0,
        stream_ms: written.stream_ms.0,
        socket_idle_ms: written.socket_idle_ms.0,
    }
}

/// Models whose names begin so are agents of runs.
fn check_model(name: &str, at: &Key, check: &mut Check<'_>) {
    if name.starts_with(run::MODEL_PREFIX) {
        check.say_of_name(
            at,
            "names models as agents of runs are named, run/AGENT; give it another name",
        );
    }
}

fn provider(
    name: &str,
    written: &ProviderSection,
    table: &Arc<PriceTable>,
    at: &Key,
    check: &mut Check<'_>,
) -> Option<ModelProvider> {
    let kind = kind(name, written, at, check)?;
    let (found, token) = login::login(name, written, &kind, at, check);
    let url = url(written, &kind, found.as_ref(), at, check)?;
    let keys = keys(written, at, check);
    let has_login = written.aws.is_some() || written.google.is_some();
    let has_key = check.wrote(&at.key("key")) || check.wrote(&at.key("keys")) || has_login;
    if !has_key && written.url.is_none() && !url.is_loopback() {
        let message = "has no key, and providers of this kind refuse a call without one; write key: env:NAME or file:PATH";
        check.warn(at, message);
    }
    check_clear(&url, !keys.is_empty() || has_login, at, check);
    let login = found.and_then(|found| found.at(&url));
    let ca = check.of(&written.ca, &at.key("ca"), Check::certificates);
    if !url.https && ca.is_some() {
        check.say(&at.key("ca"), "is for https, and the url is http");
    }
    Some(ModelProvider {
        told: Provider {
            name: Name::new(name)?,
            kind,
            keys,
            login,
            models: written
                .models
                .values()
                .map(|model| model.0.clone())
                .collect(),
            kind_name: kind_name(name, written).to_owned(),
            prices: written
                .prices
                .iter()
                .map(|(model, price)| (model.to_owned(), price.price()))
                .collect(),
            table: Arc::clone(table),
        },
        url,
        token,
        ca,
        addresses: written.addresses.values().map(|range| range.0).collect(),
    })
}

/// Where it is asked: as it is written, else as is known of its kind.
fn url(
    written: &ProviderSection,
    kind: &ProviderKind,
    login: Option<&login::FoundLogin>,
    at: &Key,
    check: &mut Check<'_>,
) -> Option<Url> {
    let known = match (&kind.url, &kind.address, login) {
        (Some(url), ..) => Some(url.clone()),
        (None, Some(address), Some(login)) => Some(login.address(address)),
        _ => None,
    };
    match (&written.url, known) {
        (Some(url), _) => Some(url.clone()),
        (None, Some(known)) => check.good(at, ::config::url::parse(&known)),
        // What is wrong with it was said.
        (None, None) if written.aws.is_some() || written.google.is_some() => None,
        (None, None) => {
            let how = match (&kind.sigv4, kind.service_account) {
                (Some(_), _) => ", or aws with a region and a key",
                (None, true) => ", or google with a service account and a location",
                _ => "",
            };
            check.say_of_name(
                at,
                format!("needs a url{how}: each customer of this kind of provider has an address of its own"),
            );
            None
        }
    }
}

/// The file of prices; empty where there is none.
fn prices(written: &LlmSection, at: &Key, check: &mut Check<'_>) -> Arc<PriceTable> {
    let at = at.key("prices");
    let Some(file) = &written.prices else {
        return Arc::default();
    };
    let text = check.text(&file.0, PRICES_BYTES_MAX);
    let table = text.and_then(|text| {
        PriceTable::parse(&text).map_err(|why| {
            format!("cannot be read as prices: {why}; weir prices import writes such a file")
        })
    });
    check.good(&at, table).map_or_else(Arc::default, Arc::new)
}

fn kind_name<'w>(name: &'w str, written: &'w ProviderSection) -> &'w str {
    written.kind.as_ref().map_or(name, |kind| kind.0.as_str())
}

/// What is known of the kind that is written, or of that by the provider's name.
fn kind(
    name: &str,
    written: &ProviderSection,
    at: &Key,
    check: &mut Check<'_>,
) -> Option<ProviderKind> {
    let wanted = kind_name(name, written);
    let kind = ProviderKind::of(wanted);
    if kind.is_none() {
        let known: Vec<&str> = ProviderKind::names().collect();
        let near = base::near::meant(wanted, known.iter().copied());
        let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
        let known = known.join(", ");
        match written.kind {
            Some(_) => check.say(&at.key("kind"), format!("is none of {known}{near}")),
            None => check.say_of_name(at, format!("needs a kind, one of {known}{near}")),
        }
    }
    kind
}

fn keys(written: &ProviderSection, at: &Key, check: &mut Check<'_>) -> Vec<base::Secret> {
    if check.wrote(&at.key("key")) && check.wrote(&at.key("keys")) {
        check.say(&at.key("keys"), "stands beside key; keep one of the two");
    }
    let one = check.of(&written.key, &at.key("key"), Check::secret);
    let mut keys: Vec<base::Secret> = one.into_iter().collect();
    for (i, reference) in written.keys.iter() {
        keys.extend(check.secret(reference, &at.key("keys").index(i)));
    }
    keys
}

fn check_clear(url: &Url, has_key: bool, at: &Key, check: &mut Check<'_>) {
    if has_key && !url.https && !url.is_loopback() {
        let message = "is http, and the key would cross the network in the clear; use an https url";
        check.say(&at.key("url"), message);
    }
}

/// One model of a route: `provider/model`, with a weight behind it where the first is drawn by weights.
fn one_try(
    written: &str,
    (all, providers): (&ByName<ProviderSection>, &[ModelProvider]),
    at: &Key,
    check: &mut Check<'_>,
) -> Option<RouteTry> {
    let (named, weight) = match written.rsplit_once(' ') {
        Some((named, weight)) => (named.trim_end(), Some(weight)),
        None => (written, None),
    };
    let weight = match weight.map(str::parse::<u32>) {
        None => 0,
        Some(Ok(weight)) if (1..=WEIGHT_MAX).contains(&weight) => weight,
        Some(_) => {
            check.say(
                at,
                format!("has a weight that is no whole number from 1 to {WEIGHT_MAX}"),
            );
            return None;
        }
    };
    let Some((name, model)) = named.split_once('/').filter(|(_, model)| !model.is_empty()) else {
        check.say(at, format!("{named:?} is not written as provider/model"));
        return None;
    };
    let of_name = |provider: &ModelProvider| provider.told.name.as_str() == name;
    let names = || all.iter().map(|(name, _)| name);
    let Some(provider) = providers.iter().position(of_name) else {
        if names().any(|known| known == name) {
            // What is wrong with the provider was said.
            return None;
        }
        let near = base::near::meant(name, names());
        let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
        check.say(at, format!("no provider is named {name:?}{near}"));
        return None;
    };
    let models = &providers[provider].told.models;
    if !models.is_empty() && !models.iter().any(|known| known == model) {
        let near = base::near::meant(model, models.iter().map(String::as_str));
        let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
        let message = format!("the provider {name} has no model {model:?} among its models{near}");
        check.say(at, message);
        return None;
    }
    Some(RouteTry {
        provider,
        model: model.to_owned(),
        weight,
    })
}

/// Whether all that is written is in the settings.
pub(super) fn is_whole(written: &LlmSection, settings: &Llm) -> bool {
    let routes = written.routes.iter().zip(&settings.routes);
    let mut routes =
        routes.map(|((_, written), route)| (written.0.iter().count(), route.tries.len()));
    written.providers.iter().count() == settings.providers.len()
        && routes.all(|(written, settled)| written == settled)
}
