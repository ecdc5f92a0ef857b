//! Taking over agentgateway: the models of its `llm` section, and the backends of kind `ai` below its routes.

use std::path::Path;

use serde_json::Value;

use super::clients::yaml as quoted;
use super::models::{Deployment, Given, MODELS_MAX, Taking};
use crate::cli::Failure;

/// agentgateway's names of providers, and the kinds that they are here.
const KINDS: &[(&str, &str)] = &[
    ("anthropic", "anthropic"),
    ("azure", "azure"),
    ("azureopenai", "azure"),
    ("bedrock", "bedrock"),
    ("cohere", "cohere"),
    ("custom", "vllm"),
    ("deepseek", "deepseek"),
    ("gemini", "gemini"),
    ("groq", "groq"),
    ("mistral", "mistral"),
    ("ollama", "ollama"),
    ("openai", "openai"),
    ("openrouter", "openrouter"),
    ("togetherai", "together"),
    ("vertex", "vertex"),
    ("xai", "xai"),
];
const REASONS: &[(&str, &str)] = &[
    ("llm.port", "weir listens where listen says"),
    ("port", "weir listens where listen says"),
    ("config.", "logs, metrics and records are always there"),
    (
        "guardrails",
        "the scan looks for secrets, personal data, injections and commands: docs/scan-configuration.md",
    ),
    (
        "promptGuard",
        "the scan looks for secrets, personal data, injections and commands: docs/scan-configuration.md",
    ),
    ("matches", "a route is chosen by the model's name alone"),
    (
        "localRateLimit",
        "write budgets, or limits.agent_per_minute",
    ),
    (
        "mcp",
        "write servers under mcp, or take them over by weir init --from mcp",
    ),
    (
        "apiKey",
        "agents have keys of their own here; that of dev is made now",
    ),
];

/// Reads a gateway's file.
pub(super) fn of_file(file: &Path) -> Result<Taking, Failure> {
    let mut taking = Taking::read(file)?;
    take(&mut taking);
    Ok(taking)
}

fn take(taking: &mut Taking) {
    let tree = taking.tree.clone();
    let models = tree["llm"]["models"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    for (number, entry) in models.iter().enumerate().take(MODELS_MAX) {
        let at = format!("llm.models[{number}]");
        if let Some(of) = model(taking, entry, &at) {
            taking.deploy(&of);
        }
    }
    backends(taking, &tree, "");
    taking.rest(REASONS);
}

/// One of `llm.models`. Of several with one name the first is taken: the others are for requests that say something.
fn model(taking: &mut Taking, entry: &Value, at: &str) -> Option<Deployment> {
    let name = entry["name"].as_str().unwrap_or_default();
    if taking.routes().iter().any(|known| known == name) {
        taking.lacks(
            at,
            "has the name of a model before it; a route is chosen by the model's name alone",
        );
        return None;
    }
    let params = &entry["params"];
    for used in [
        "name",
        "provider",
        "params.model",
        "params.apiKey",
        "params.baseUrl",
    ] {
        taking.uses(&format!("{at}.{used}"));
    }
    let provider = entry["provider"]
        .as_str()
        .or_else(|| one_name(&entry["provider"]));
    let mut of = Deployment {
        at: at.to_owned(),
        kind: kind(taking, provider, at)?,
        name: (!name.contains('*')).then(|| name.to_owned()),
        // Without a model the client's name goes on.
        model: params["model"]
            .as_str()
            .map(str::to_owned)
            .or((!name.contains('*')).then(|| name.to_owned())),
        url: params["baseUrl"].as_str().map(str::to_owned),
        key: params["apiKey"].as_str().map(given),
        ..Deployment::default()
    };
    login(taking, &mut of, params, &format!("{at}.params"))?;
    Some(of)
}

/// Backends of kind `ai`, wherever they stand.
fn backends(taking: &mut Taking, value: &Value, path: &str) {
    match value {
        Value::Object(members) => {
            if let Some(ai) = members
                .get("ai")
                .filter(|ai| ai.get("provider").is_some() || ai.get("groups").is_some())
            {
                backend(
                    taking,
                    ai,
                    &members.get("policies").cloned().unwrap_or_default(),
                    path,
                );
                return;
            }
            for (name, value) in members {
                backends(taking, value, &super::models::below(path, name));
            }
        }
        Value::Array(items) => {
            for (number, value) in items.iter().enumerate() {
                backends(taking, value, &format!("{path}[{number}]"));
            }
        }
        _ => {}
    }
}

fn backend(taking: &mut Taking, ai: &Value, policies: &Value, path: &str) {
    let groups = ai["groups"].as_array().map_or(&[][..], Vec::as_slice);
    let grouped = groups.iter().enumerate().flat_map(|(group, of)| {
        let providers = of["providers"].as_array().map_or(&[][..], Vec::as_slice);
        let at = move |number| format!("{path}.ai.groups[{group}].providers[{number}]");
        providers
            .iter()
            .enumerate()
            .map(move |(number, one)| (at(number), one))
    });
    let own = ai.get("provider").map(|_| (format!("{path}.ai"), ai));
    let name = ai["name"].as_str();
    taking.uses(&format!("{path}.ai.name"));
    for (at, one) in own.into_iter().chain(grouped) {
        taking.uses(&format!("{at}.name"));
        let Some(provider) = one_name(&one["provider"]) else {
            taking.lacks(&at, "names no provider");
            continue;
        };
        let says = &one["provider"][provider];
        let in_provider = format!("{at}.provider.{provider}");
        taking.uses(&format!("{in_provider}.model"));
        if says.as_object().is_none_or(serde_json::Map::is_empty) {
            taking.uses(&in_provider);
        }
        let Some(kind) = kind(taking, Some(provider), &at) else {
            continue;
        };
        let key = one["policies"]["backendAuth"]["key"]
            .as_str()
            .or(policies["backendAuth"]["key"].as_str());
        for used in [
            format!("{at}.policies.backendAuth.key"),
            format!("{path}.policies.backendAuth.key"),
        ] {
            taking.uses(&used);
        }
        let model = says["model"].as_str().map(str::to_owned);
        let mut of = Deployment {
            at: at.clone(),
            kind,
            name: model.as_ref().and(name).map(str::to_owned),
            model,
            key: key.map(given),
            url: one["hostOverride"]
                .as_str()
                .map(|host| format!("https://{host}")),
            ..Deployment::default()
        };
        taking.uses(&format!("{at}.hostOverride"));
        if login(taking, &mut of, says, &in_provider).is_some() {
            taking.deploy(&of);
        }
    }
}

/// The name of the one member of a map.
fn one_name(value: &Value) -> Option<&str> {
    value.as_object()?.keys().next().map(String::as_str)
}

fn kind(taking: &mut Taking, provider: Option<&str>, at: &str) -> Option<String> {
    let name = provider.unwrap_or_default().to_ascii_lowercase();
    let found = KINDS.iter().find(|(known, _)| *known == name);
    if found.is_none() {
        let why = "is of a provider that is none of the kinds here; write it as kind: vllm where it speaks OpenAI's dialect";
        taking.lacks(at, why);
    }
    found.map(|(_, kind)| (*kind).to_owned())
}

/// What stands in the place of a key.
fn login(taking: &mut Taking, of: &mut Deployment, says: &Value, at: &str) -> Option<()> {
    let mut text = |names: [&str; 2]| {
        let found = names.iter().find_map(|name| {
            let text = says[*name].as_str()?;
            Some(((*name).to_owned(), given(text)))
        });
        if let Some((name, _)) = &found {
            taking.uses(&format!("{at}.{name}"));
        }
        found.map(|(_, given)| given)
    };
    match of.kind.as_str() {
        "bedrock" if of.key.is_none() => {
            let Some(Given::Text(region)) = text(["awsRegion", "region"]) else {
                taking.lacks(
                    at,
                    "says no region that can be written; write llm.providers.bedrock.aws.region",
                );
                return None;
            };
            let mut variable =
                |name: &str| taking.secret(&Given::Variable(name.to_owned()), name, at);
            let (id, secret) = (
                variable("AWS_ACCESS_KEY_ID"),
                variable("AWS_SECRET_ACCESS_KEY"),
            );
            let says = format!(
                "{{ region: {}, key_id: {id}, secret: {secret} }}",
                quoted(&region)
            );
            of.login = Some(("aws".to_owned(), says));
        }
        "vertex" => {
            let location = text(["vertexRegion", "region"]);
            let project = text(["vertexProject", "projectId"]);
            let location = match location {
                Some(Given::Text(location)) => location,
                _ => "global".to_owned(),
            };
            let project = match project {
                Some(Given::Text(project)) => format!(", project: {}", quoted(&project)),
                _ => String::new(),
            };
            let what = "the file of the service account, as vertex-account.json beside weir.yaml";
            taking
                .exports
                .insert("(a file)".to_owned(), what.to_owned());
            let says = format!(
                "{{ service_account: file:vertex-account.json, location: {}{project} }}",
                quoted(&location)
            );
            of.login = Some(("google".to_owned(), says));
        }
        "azure" if of.url.is_none() => {
            if let Some(Given::Text(host)) = text(["azureHost", "host"]) {
                of.url = Some(format!("https://{host}"));
            }
        }
        _ => {}
    }
    Some(())
}

/// A value of agentgateway's: `$NAME` and `${NAME}` are variables.
fn given(text: &str) -> Given {
    let name = text
        .strip_prefix('$')
        .map(|name| name.trim_start_matches('{').trim_end_matches('}'));
    match name {
        Some(name) => Given::Variable(name.to_owned()),
        None => Given::Text(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_taken_over_and_the_rest_is_told() {
        let tree = serde_json::json!({
            "llm": { "port": 4000, "models": [
                { "name": "smart", "provider": "openAI", "params": { "model": "gpt-x", "apiKey": "$OPENAI_API_KEY" } },
                { "name": "smart", "provider": "anthropic", "matches": [] },
                { "name": "gemini-*", "provider": "vertex", "params": { "vertexProject": "$P", "vertexRegion": "global" } },
            ] },
            "binds": [{ "port": 3000, "listeners": [{ "routes": [{ "backends": [{
                "ai": { "name": "claude", "provider": { "anthropic": { "model": "claude-x" } } },
                "policies": { "backendAuth": { "key": "kept" }, "ai": { "promptGuard": {} } }
            }] }] }] }],
        });
        let mut taking = Taking::of(tree);
        take(&mut taking);
        let config = taking.config("0");
        for line in [
            "smart: [\"openai/gpt-x\"]",
            "claude: [\"anthropic/claude-x\"]",
            "key: env:ANTHROPIC_API_KEY",
            "location: \"global\"",
        ] {
            assert!(config.contains(line), "{line}\n{config}");
        }
        assert!(!config.contains("kept"));
        let told: Vec<&str> = taking.not.iter().map(|(path, _)| path.as_str()).collect();
        let backend = "binds[0].listeners[0].routes[0].backends[0]";
        assert!(
            told.contains(&"llm.models[1]")
                && told.contains(&"llm.port")
                && told.contains(&"binds[0].port"),
            "{told:?}"
        );
        assert!(
            told.contains(&format!("{backend}.policies.ai").as_str()),
            "{told:?}"
        );
    }
}
