//! Taking over a LiteLLM proxy: its `model_list`, fallbacks, aliases, limits and prices (LiteLLM docs, "Proxy Config.yaml").

use std::path::Path;

use serde_json::{Map, Value};

use super::clients::yaml as quoted;
use super::models::{Deployment, Given, MODELS_MAX, Taking, below};
use crate::cli::Failure;

/// LiteLLM's names of providers, and the kinds that they are here.
const KINDS: &[(&str, &str)] = &[
    ("anthropic", "anthropic"),
    ("azure", "azure"),
    ("azure_ai", "azure"),
    ("bedrock", "bedrock"),
    ("cohere", "cohere"),
    ("cohere_chat", "cohere"),
    ("custom_openai", "vllm"),
    ("deepseek", "deepseek"),
    ("gemini", "gemini"),
    ("groq", "groq"),
    ("hosted_vllm", "vllm"),
    ("mistral", "mistral"),
    ("ollama", "ollama"),
    ("ollama_chat", "ollama"),
    ("openai", "openai"),
    ("openai_like", "vllm"),
    ("openrouter", "openrouter"),
    ("together_ai", "together"),
    ("vertex_ai", "vertex"),
    ("xai", "xai"),
];
/// Whose a model is whose name says no provider.
const BEGINS: &[(&str, &str)] = &[
    ("gpt-", "openai"),
    ("chatgpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("text-embedding-", "openai"),
    ("claude-", "anthropic"),
    ("command-", "cohere"),
    ("deepseek-", "deepseek"),
    ("gemini-", "vertex_ai"),
];
/// Why whole parts of the file have no counterpart, by what their paths begin or end with.
const REASONS: &[(&str, &str)] = &[
    (
        "general_settings.master_key",
        "agents have keys of their own here; that of dev is made now, more by weir agent key",
    ),
    (
        "general_settings.database",
        "nothing is kept in a database; keys are agents, and usage is in the log",
    ),
    (
        "general_settings.alerting",
        "weir_budget_used and the other metrics are there for alerts",
    ),
    (
        "litellm_settings.callbacks",
        "records and metrics are always there: weir audit, weir usage, /metrics",
    ),
    (
        "litellm_settings.success_callback",
        "records and metrics are always there: weir audit, weir usage, /metrics",
    ),
    (
        "litellm_settings.failure_callback",
        "records and metrics are always there: weir audit, weir usage, /metrics",
    ),
    (
        "litellm_settings.drop_params",
        "what a provider cannot take is refused by name and never dropped",
    ),
    ("litellm_settings.cache", "answers are not kept"),
    (
        "litellm_settings.context_window_fallbacks",
        "there is no route for long requests alone",
    ),
    (
        "router_settings.context_window_fallbacks",
        "there is no route for long requests alone",
    ),
    (
        "litellm_settings.content_policy_fallbacks",
        "what a provider refuses is its answer",
    ),
    (
        "router_settings.content_policy_fallbacks",
        "what a provider refuses is its answer",
    ),
    (
        "router_settings.redis",
        "what gateways would share is not shared: limits and health are of one process",
    ),
    (
        "router_settings.routing_strategy",
        "a route's first model is drawn by weight, and a conversation stays with it",
    ),
    (
        "num_retries",
        "the next model of a route is tried, and no model twice",
    ),
    (
        "allowed_fails",
        "a provider that fails five times is left alone for 30 s",
    ),
    (
        "cooldown_time",
        "a provider that fails five times is left alone for 30 s",
    ),
    ("set_verbose", "logs.level says how much is told"),
    (
        "guardrails",
        "the scan looks for secrets, personal data, injections and commands: docs/scan-configuration.md",
    ),
    (
        "mcp_servers",
        "write servers under mcp, or take them over by weir init --from mcp",
    ),
    (
        "api_version",
        "Azure is asked by its v1 API, which has no version",
    ),
];

/// Reads a proxy's file.
pub(super) fn of_file(file: &Path) -> Result<Taking, Failure> {
    let mut taking = Taking::read(file)?;
    take(&mut taking);
    Ok(taking)
}

fn take(taking: &mut Taking) {
    let tree = taking.tree.clone();
    models(taking, &tree);
    for section in ["router_settings", "litellm_settings"] {
        fallbacks(taking, &tree, section);
    }
    aliases(taking, &tree);
    let settings = &tree["litellm_settings"];
    budget(taking, settings);
    provider_budgets(taking, &tree["router_settings"]["provider_budget_config"]);
    for path in [
        "litellm_settings.request_timeout",
        "router_settings.timeout",
    ] {
        let (section, name) = path.split_once('.').unwrap_or_default();
        let seconds = tree[section][name]
            .as_f64()
            .filter(|s| (0.001..=86_400.0).contains(s));
        if let Some(seconds) = seconds.filter(|_| taking.answer_ms.is_none()) {
            taking.answer_ms = Some((seconds * 1_000.0) as u64);
            taking.becomes(path, "llm.answer_ms");
        }
    }
    variables(taking, &tree["environment_variables"]);
    taking.rest(REASONS);
}

/// The deployments. Those of one name share its calls, by weight; those of a lower `order` go before.
fn models(taking: &mut Taking, tree: &Value) {
    let list = tree["model_list"].as_array().map_or(&[][..], Vec::as_slice);
    let mut found = Vec::new();
    for (number, entry) in list.iter().enumerate() {
        let at = format!("model_list[{number}]");
        if number >= MODELS_MAX {
            taking.lacks(&at, "is one of more models than are taken over");
            continue;
        }
        found.extend(deployment(taking, entry, &at));
    }
    let names: Vec<String> = found
        .iter()
        .filter_map(|of: &Deployment| of.name.clone())
        .collect();
    found.sort_by_key(|of| of.order);
    for mut of in found {
        let is_shared = of.name.as_ref().is_some_and(|name| {
            names.iter().filter(|other| *other == name).count() > 1 && of.order == 0
        });
        of.weight = is_shared.then(|| of.weight.unwrap_or(1));
        taking.deploy(&of);
    }
}

fn deployment(taking: &mut Taking, entry: &Value, at: &str) -> Option<Deployment> {
    let params = &entry["litellm_params"];
    let text = |name: &str| params[name].as_str();
    let in_params = |name: &str| format!("{at}.litellm_params.{name}");
    let Some(model) = text("model") else {
        taking.lacks(at, "names no model in litellm_params.model");
        return None;
    };
    taking.uses(&format!("{at}.model_name"));
    taking.uses(&in_params("model"));
    let (prefix, own) = match (text("custom_llm_provider"), model.split_once('/')) {
        (Some(provider), _) => (
            provider,
            model.strip_prefix(&format!("{provider}/")).unwrap_or(model),
        ),
        (None, Some((prefix, own))) if KINDS.iter().any(|(known, _)| *known == prefix) => {
            (prefix, own)
        }
        (None, Some((prefix, own)))
            if BEGINS.iter().all(|(begin, _)| !model.starts_with(begin)) =>
        {
            (prefix, own)
        }
        (None, _) => {
            let known = BEGINS.iter().find(|(begin, _)| model.starts_with(begin));
            (known.map_or("", |(_, provider)| *provider), model)
        }
    };
    taking.uses(&in_params("custom_llm_provider"));
    let url = text("api_base").or(text("base_url"));
    let kind = KINDS
        .iter()
        .find(|(known, _)| *known == prefix)
        .map(|(_, kind)| *kind);
    let kind = match (kind, url) {
        (Some("openai"), Some(url)) if !url.contains("api.openai.com") => "vllm",
        (Some(kind), _) => kind,
        (None, Some(_)) => {
            taking.lacks(at, "is of a provider that is none of the kinds here; write it as kind: vllm where it speaks OpenAI's dialect");
            return None;
        }
        (None, None) => {
            taking.lacks(at, "is of a provider that is none of the kinds here");
            return None;
        }
    };
    let mut of = Deployment {
        at: at.to_owned(),
        kind: kind.to_owned(),
        model: (!own.contains('*')).then(|| own.to_owned()),
        name: entry["model_name"]
            .as_str()
            .filter(|name| !name.contains('*'))
            .map(str::to_owned),
        order: params["order"]
            .as_u64()
            .or(entry["order"].as_u64())
            .unwrap_or_default(),
        ..Deployment::default()
    };
    for name in ["api_base", "base_url"] {
        taking.uses(&in_params(name));
    }
    if let Some(written) = url {
        match given(written) {
            Given::Text(url) => of.url = Some(url),
            Given::Variable(name) => {
                let why = format!(
                    "is the variable {name}, and an address has to be written; write llm.providers.NAME.url"
                );
                taking.lacks(at, &why);
                return None;
            }
        }
    }
    if let Some(key) = text("api_key") {
        taking.uses(&in_params("api_key"));
        of.key = Some(given(key)).filter(|_| !matches!(key, "" | "none" | "None" | "EMPTY"));
    }
    match kind {
        "bedrock" => bedrock(taking, &mut of, params)?,
        "vertex" => vertex(taking, &mut of, params)?,
        _ => {}
    }
    bounds(taking, &mut of, entry);
    Some(of)
}

/// Limits, weights and prices.
fn bounds(taking: &mut Taking, of: &mut Deployment, entry: &Value) {
    let at = of.at.clone();
    let params = &entry["litellm_params"];
    let mut take = |name: &str| {
        taking.uses(&format!("{at}.litellm_params.{name}"));
        params[name].clone()
    };
    of.calls_a_minute = take("rpm").as_u64().filter(|bound| *bound > 0);
    of.tokens_a_minute = take("tpm").as_u64().filter(|bound| *bound > 0);
    of.at_once = take("max_parallel_requests")
        .as_u64()
        .filter(|bound| *bound > 0);
    let weight = take("weight").as_f64();
    take("order");
    // LiteLLM's weights are shares; ours are whole numbers.
    of.weight = weight.map(|weight| {
        let whole = if weight < 1.0 { weight * 100.0 } else { weight };
        (whole.round() as u32).clamp(1, 1_000)
    });
    for part in ["litellm_params", "model_info"] {
        let cost = |name: &str| entry[part][name].as_f64();
        let prices = cost("input_cost_per_token").zip(cost("output_cost_per_token"));
        if let Some(prices) = prices {
            of.prices = Some(prices);
            for name in ["input_cost_per_token", "output_cost_per_token"] {
                taking.uses(&format!("{at}.{part}.{name}"));
            }
        }
    }
}

fn bedrock(taking: &mut Taking, of: &mut Deployment, params: &Value) -> Option<()> {
    let at = of.at.clone();
    // `converse/…` says by which API, and `us-east-1/…` where.
    let model = of.model.take().unwrap_or_default();
    let model = model.strip_prefix("converse/").unwrap_or(&model);
    let (region, model) = match model.split_once('/') {
        Some((region, rest)) if is_region(region) => (Some(region.to_owned()), rest),
        _ => (None, model),
    };
    if !model.contains("anthropic") && !model.starts_with("arn:") {
        taking.lacks(
            &at,
            "is of Bedrock, where weir asks Anthropic's models alone",
        );
        return None;
    }
    of.model = Some(model.to_owned());
    let mut text = |name: &str| {
        taking.uses(&format!("{at}.litellm_params.{name}"));
        params[name].as_str().map(given)
    };
    let written = text("aws_region_name");
    let (id, secret, session) = (
        text("aws_access_key_id"),
        text("aws_secret_access_key"),
        text("aws_session_token"),
    );
    let region = match (region, written) {
        (Some(region), _) | (None, Some(Given::Text(region))) => region,
        _ => {
            taking.lacks(
                &at,
                "says no region that can be written; write llm.providers.bedrock.aws.region",
            );
            return None;
        }
    };
    if of.key.is_some() {
        of.url = of.url.take().or(Some(format!(
            "https://bedrock-runtime.{region}.amazonaws.com"
        )));
        return Some(());
    }
    let mut reference = |given: Option<Given>, usual: &str, name: &str| {
        let given = given.unwrap_or_else(|| Given::Variable(usual.to_owned()));
        taking.secret(&given, usual, &format!("{at}.litellm_params.{name}"))
    };
    let id = reference(id, "AWS_ACCESS_KEY_ID", "aws_access_key_id");
    let secret = reference(secret, "AWS_SECRET_ACCESS_KEY", "aws_secret_access_key");
    let session = session.map(|given| {
        let session = reference(Some(given), "AWS_SESSION_TOKEN", "aws_session_token");
        format!(", session_token: {session}")
    });
    let says = format!(
        "{{ region: {}, key_id: {id}, secret: {secret}{} }}",
        quoted(&region),
        session.unwrap_or_default()
    );
    of.login = Some(("aws".to_owned(), says));
    Some(())
}

fn vertex(taking: &mut Taking, of: &mut Deployment, params: &Value) -> Option<()> {
    let at = of.at.clone();
    let mut text = |name: &str| {
        taking.uses(&format!("{at}.litellm_params.{name}"));
        params[name].as_str().map(given)
    };
    let location = text("vertex_location").or(text("vertex_ai_location"));
    let project = text("vertex_project").or(text("vertex_ai_project"));
    let file = text("vertex_credentials").or(text("vertex_ai_credentials"));
    let location = match location {
        None => "us-central1".to_owned(),
        Some(Given::Text(location)) => location,
        Some(Given::Variable(name)) => {
            let why = format!(
                "says where by the variable {name}; write llm.providers.vertex.google.location"
            );
            taking.lacks(&at, &why);
            return None;
        }
    };
    let file = match file {
        // The account itself, or where it is.
        Some(Given::Text(file)) if !file.trim_start().starts_with('{') => file,
        _ => {
            let what = "the file of the service account, as vertex-account.json beside weir.yaml";
            taking
                .exports
                .insert("(a file)".to_owned(), what.to_owned());
            "vertex-account.json".to_owned()
        }
    };
    let project = match project {
        Some(Given::Text(project)) => format!(", project: {}", quoted(&project)),
        _ => String::new(),
    };
    let says = format!(
        "{{ service_account: {}, location: {}{project} }}",
        quoted(&format!("file:{file}")),
        quoted(&location)
    );
    of.login = Some(("google".to_owned(), says));
    Some(())
}

fn is_region(text: &str) -> bool {
    let mut parts = text.split('-');
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    is_plain
        && parts
            .next_back()
            .is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()))
        && parts.count() >= 2
}

/// `fallbacks: [{ a: [b, c] }]`, and `default_fallbacks: [b]`.
fn fallbacks(taking: &mut Taking, tree: &Value, section: &str) {
    let settings = &tree[section];
    let lists = settings["fallbacks"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let mut pairs: Vec<(String, String, Value)> = Vec::new();
    for (number, one) in lists.iter().enumerate() {
        let path = format!("{section}.fallbacks[{number}]");
        for (from, to) in one.as_object().into_iter().flatten() {
            pairs.push((below(&path, from), from.clone(), to.clone()));
        }
    }
    let all = &settings["default_fallbacks"];
    if all.is_array() {
        pairs.push((
            format!("{section}.default_fallbacks"),
            "*".to_owned(),
            all.clone(),
        ));
    }
    for (path, from, to) in pairs {
        let names = to
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let names: Vec<String> = names.map(str::to_owned).collect();
        let routes = match from.as_str() {
            "*" => taking.routes(),
            name => vec![name.to_owned()],
        };
        let mut wrong = None;
        for route in &routes {
            for to in names.iter().filter(|to| *to != route) {
                wrong = taking.falls_back(route, to).err().or(wrong);
            }
        }
        match wrong {
            None => taking.becomes(
                &path,
                &format!("llm.routes.{from}: then {}", names.join(", ")),
            ),
            Some(why) => taking.lacks(&path, &why),
        }
    }
}

/// `model_group_alias: { a: b }`, or `{ a: { model: b } }`.
fn aliases(taking: &mut Taking, tree: &Value) {
    let all = tree["router_settings"]["model_group_alias"].as_object();
    for (name, of) in all.into_iter().flatten() {
        let path = format!("router_settings.model_group_alias.{name}");
        let target = of.as_str().or(of["model"].as_str()).unwrap_or_default();
        match taking.alias(name, target) {
            Ok(()) => taking.becomes(&path, &format!("llm.routes.{name}")),
            Err(why) => taking.lacks(&path, &why),
        }
    }
}

/// The words of a time, as budgets have it.
fn per(text: &str) -> Option<&'static str> {
    Some(match text {
        "60s" | "1m" | "1min" => "minute",
        "1d" | "24h" | "daily" => "day",
        "30d" | "1mo" | "31d" | "monthly" => "month",
        _ => return None,
    })
}

fn money(value: &Value) -> Option<String> {
    let dollars = value
        .as_f64()
        .filter(|dollars| *dollars > 0.0 && dollars.is_finite())?;
    let text = format!("{dollars:.2}");
    Some(text.trim_end_matches('0').trim_end_matches('.').to_owned())
}

fn budget(taking: &mut Taking, settings: &Value) {
    if settings["max_budget"].is_null() {
        return;
    }
    let time = settings["budget_duration"].as_str().and_then(per);
    match (money(&settings["max_budget"]), time) {
        (Some(money), Some(time)) => {
            let says = format!("{{ group: engineers, money: {money}, per: {time} }}");
            taking.budget("all", &says, "litellm_settings.max_budget");
            taking.uses("litellm_settings.max_budget");
            taking.uses("litellm_settings.budget_duration");
        }
        _ => taking.lacks(
            "litellm_settings.max_budget",
            "is of another time than a minute, a day or a month",
        ),
    }
}

fn provider_budgets(taking: &mut Taking, all: &Value) {
    for (provider, says) in all.as_object().into_iter().flatten() {
        let path = format!("router_settings.provider_budget_config.{provider}");
        let kind = KINDS.iter().find(|(known, _)| known == provider);
        let limit = says.get("budget_limit").or(says.get("max_budget"));
        let time = says.get("time_period").or(says.get("budget_duration"));
        let time = time.and_then(Value::as_str).and_then(per);
        match (kind, limit.and_then(money), time) {
            (Some((_, kind)), Some(money), Some(time)) if taking.has_provider(kind) => {
                let says = format!("{{ provider: {kind}, money: {money}, per: {time} }}");
                taking.budget(&format!("{kind}-{time}"), &says, &path);
                taking.uses(&path);
            }
            _ => taking.lacks(&path, "is of a provider that was not taken over, or of another time than a minute, a day or a month"),
        }
    }
}

/// Variables that the proxy sets itself: their values are not copied.
fn variables(taking: &mut Taking, all: &Value) {
    let empty = Map::new();
    for (name, _) in all.as_object().unwrap_or(&empty) {
        let path = format!("environment_variables.{name}");
        match taking.exports.contains_key(name) {
            true => {
                taking.exports.insert(name.clone(), path.clone());
                taking.becomes(&path, &format!("the variable {name}"));
            }
            false => taking.lacks(&path, "no key here refers to it"),
        }
    }
}

/// A value of LiteLLM's: `os.environ/NAME` is a variable.
fn given(text: &str) -> Given {
    match text.strip_prefix("os.environ/") {
        Some(name) => Given::Variable(name.to_owned()),
        None => Given::Text(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_taken_over_is_told_and_no_secret_is_copied() {
        let tree = serde_json::json!({
            "model_list": [
                { "model_name": "a", "litellm_params": { "model": "openai/gpt-x", "api_key": "sk-kept", "rpm": 6, "seed": 3 }, "model_info": { "id": "1" } },
                { "model_name": "b", "litellm_params": { "model": "sagemaker/x" } },
            ],
            "litellm_settings": { "fallbacks": [{ "a": ["nobody"] }], "drop_params": true, "unheard_of": { "x": 1 } },
            "later": [1],
        });
        let mut taking = Taking::of(tree);
        take(&mut taking);
        let config = taking.config("0");
        assert!(
            config.contains("key: env:OPENAI_API_KEY") && !config.contains("kept"),
            "{config}"
        );
        assert!(
            config.contains("a: [\"openai/gpt-x\"]") && config.contains("calls: 6, per: minute"),
            "{config}"
        );
        let mut told: Vec<&str> = taking.not.iter().map(|(path, _)| path.as_str()).collect();
        told.sort_unstable();
        assert_eq!(
            told,
            [
                "later",
                "litellm_settings.drop_params",
                "litellm_settings.fallbacks[0].a",
                "litellm_settings.unheard_of",
                "model_list[0].litellm_params.seed",
                "model_list[0].model_info",
                "model_list[1]",
            ]
        );
        assert_eq!(taking.exports["OPENAI_API_KEY"], "model_list[0].api_key");
        assert!(
            is_region("us-gov-west-1")
                && !is_region("anthropic.claude-3")
                && !is_region("converse")
        );
    }
}
