//! Taking over gateways of models: what LiteLLM or agentgateway was told becomes the `llm` and `budgets` sections of weir's own.
//!
//! Secrets are not copied: each becomes a reference to a variable, and what has to be exported is told. Every key of the file is taken
//! over or told with the reason; what nobody looked at is told too, because the whole file is walked at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use config::yaml::{self, Scalars};
use serde_json::Value;

use super::clients::{yaml as quoted, yaml_key};
use crate::cli::Failure;

/// Most models of one file.
pub(super) const MODELS_MAX: usize = 4_096;
/// Kinds that are asked at an address of the operator's own, and what that ends in.
const ADDRESS_ENDS: &[(&str, &str)] = &[
    ("anthropic", "/v1"),
    ("azure", "/openai/v1"),
    ("gemini", "/v1beta"),
    ("ollama", "/v1"),
];
/// The variable of each kind's key, as its maker names it.
const VARIABLES: &[(&str, &str)] = &[
    ("anthropic", "ANTHROPIC_API_KEY"),
    ("azure", "AZURE_API_KEY"),
    ("cohere", "COHERE_API_KEY"),
    ("deepseek", "DEEPSEEK_API_KEY"),
    ("gemini", "GEMINI_API_KEY"),
    ("groq", "GROQ_API_KEY"),
    ("mistral", "MISTRAL_API_KEY"),
    ("openai", "OPENAI_API_KEY"),
    ("openrouter", "OPENROUTER_API_KEY"),
    ("together", "TOGETHER_API_KEY"),
    ("vllm", "VLLM_API_KEY"),
    ("xai", "XAI_API_KEY"),
];
const POLICY: &str = "\
// Who may do what. What no policy permits is refused, and a forbid wins over every permit.
//
// Check this file:   weir policy check

// Engineers may ask every model. Narrow it by name: resource in Provider::\"openai\", or resource == Model::\"openai/gpt-5.4\".
@id(\"engineers-ask-models\")
permit (
  principal in Group::\"engineers\",
  action in Action::\"llm\",
  resource
);
";

/// A value as another product writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// The name of a variable.
    Variable(String),
    /// The text itself.
    Text(String),
}

/// One model at one provider, as another product has it.
#[derive(Clone, Debug, Default)]
pub(super) struct Deployment {
    /// Where it stands in the file.
    pub at: String,
    /// The name that clients ask for; nothing where they name the provider's models themselves.
    pub name: Option<String>,
    /// The kind of its provider here, and the model's name there.
    pub kind: String,
    pub model: Option<String>,
    pub key: Option<Given>,
    pub url: Option<String>,
    /// Lines of the provider's section that are of its kind alone: `aws`, `google`.
    pub login: Option<(String, String)>,
    pub weight: Option<u32>,
    /// Among those of one name: lower ones are tried first.
    pub order: u64,
    /// Dollars for a token, in and out.
    pub prices: Option<(f64, f64)>,
    pub calls_a_minute: Option<u64>,
    pub tokens_a_minute: Option<u64>,
    pub at_once: Option<u64>,
}

/// One provider as it is written.
#[derive(Clone, Debug, PartialEq)]
struct WrittenProvider {
    name: String,
    kind: String,
    key: Option<String>,
    url: Option<String>,
    login: Option<(String, String)>,
    prices: BTreeMap<String, (String, String)>,
}

/// One route as it is written.
#[derive(Clone, Debug)]
struct WrittenRoute {
    name: String,
    /// `provider/model`, and its weight.
    tries: Vec<(String, Option<u32>)>,
}

/// A file that is taken over.
pub(super) struct Taking {
    pub tree: Value,
    /// What was taken over or told: paths in the file.
    used: BTreeSet<String>,
    /// What became of it, and what has no counterpart.
    pub as_what: Vec<(String, String)>,
    pub not: Vec<(String, String)>,
    /// Variables to be set, and what they are for.
    pub exports: BTreeMap<String, String>,
    providers: Vec<WrittenProvider>,
    routes: Vec<WrittenRoute>,
    /// A budget's name and what it says.
    budgets: Vec<(String, String)>,
    pub answer_ms: Option<u64>,
}

impl Taking {
    /// Reads a file of YAML.
    pub(super) fn read(file: &Path) -> Result<Taking, Failure> {
        let failed = |why: String| {
            let what = format!("{} {why}", file.display());
            Failure::new(
                what,
                "The file is the YAML that the other gateway is started with.",
            )
        };
        let text = crate::config::read::read_text(file, config::FILE_BYTES_MAX).map_err(failed)?;
        let parsed = yaml::parse(&text, Scalars::Json);
        let (tree, _) = parsed.map_err(|wrong| {
            failed(format!(
                "cannot be read at line {}: {}",
                wrong.at.line, wrong.message
            ))
        })?;
        match tree.is_object() {
            true => Ok(Taking::of(tree)),
            false => Err(failed("is no map of keys".to_owned())),
        }
    }

    pub(super) fn of(tree: Value) -> Taking {
        Taking {
            tree,
            used: BTreeSet::new(),
            as_what: Vec::new(),
            not: Vec::new(),
            exports: BTreeMap::new(),
            providers: Vec::new(),
            routes: Vec::new(),
            budgets: Vec::new(),
            answer_ms: None,
        }
    }

    /// A path was looked at, and what it says is in what is written or told.
    pub(super) fn uses(&mut self, path: &str) {
        self.used.insert(path.to_owned());
    }

    /// A path has no counterpart, for this reason.
    pub(super) fn lacks(&mut self, path: &str, why: &str) {
        self.uses(path);
        self.not.push((path.to_owned(), why.to_owned()));
    }

    /// A path became this.
    pub(super) fn becomes(&mut self, path: &str, what: &str) {
        self.uses(path);
        self.as_what.push((path.to_owned(), what.to_owned()));
    }

    /// A secret as a reference; one that stands in the file is not copied.
    pub(super) fn secret(&mut self, given: &Given, usual: &str, path: &str) -> String {
        let name = match given {
            Given::Variable(name) if config::kinds::is_variable(name) => name.clone(),
            Given::Variable(_) | Given::Text(_) => {
                let taken = |name: &String| self.exports.get(name).is_some_and(|of| of != path);
                let numbers = (1..).map(|number| match number {
                    1 => usual.to_owned(),
                    number => format!("{usual}_{number}"),
                });
                let mut free = numbers.filter(|name| !taken(name));
                free.next().unwrap_or_else(|| usual.to_owned())
            }
        };
        let stands = match given {
            Given::Variable(_) => "as before".to_owned(),
            Given::Text(_) => path.to_owned(),
        };
        self.exports.entry(name.clone()).or_insert(stands);
        format!("env:{name}")
    }

    /// Takes one model over: its provider, and the route by which clients name it.
    pub(super) fn deploy(&mut self, of: &Deployment) {
        let url = of.url.as_deref().map(|url| address(&of.kind, url));
        let usual = VARIABLES.iter().find(|(kind, _)| *kind == of.kind);
        let usual = usual.map(|(_, name)| *name);
        let key = match (&of.key, &of.login, usual) {
            (_, Some(_), _) => None,
            (Some(given), None, usual) => {
                let usual = usual.unwrap_or("PROVIDER_API_KEY");
                Some(self.secret(given, usual, &format!("{}.api_key", of.at)))
            }
            (None, None, Some(usual)) if url.is_none() => {
                let given = Given::Variable(usual.to_owned());
                Some(self.secret(&given, usual, &of.at))
            }
            _ => None,
        };
        let name = self.provider(of, key, url);
        let Some(model) = &of.model else {
            self.as_what.push((
                of.at.clone(),
                format!("llm.providers.{name}, asked as {name}/MODEL"),
            ));
            return;
        };
        let full = format!("{name}/{model}");
        self.bounds(of, &full);
        match &of.name {
            Some(route) if is_route(route) => {
                let weight = of.weight;
                self.as_what
                    .push((of.at.clone(), format!("llm.routes.{route}: {full}")));
                match self.routes.iter_mut().find(|known| known.name == *route) {
                    Some(known) => known.tries.push((full, weight)),
                    None => self.routes.push(WrittenRoute {
                        name: route.clone(),
                        tries: vec![(full, weight)],
                    }),
                }
            }
            Some(route) => {
                let why = format!("{route:?} cannot be a route's name; clients ask for {full}");
                self.not.push((of.at.clone(), why));
            }
            None => self.as_what.push((of.at.clone(), full)),
        }
    }

    /// The provider of a model, known already or new; gives its name.
    fn provider(&mut self, of: &Deployment, key: Option<String>, url: Option<String>) -> String {
        let is_same = |known: &&mut WrittenProvider| {
            (&known.kind, &known.key, &known.url, &known.login) == (&of.kind, &key, &url, &of.login)
        };
        let prices = of.prices.zip(of.model.as_ref());
        let prices = prices.map(|((input, output), model)| {
            let dollars = |cost: f64| {
                let text = format!("{:.6}", cost * 1e6);
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            };
            (model.clone(), (dollars(input), dollars(output)))
        });
        if let Some(known) = self.providers.iter_mut().find(is_same) {
            known.prices.extend(prices);
            return known.name.clone();
        }
        let has = |name: &str| self.providers.iter().any(|known| known.name == name);
        let mut names = (1..).map(|number| match number {
            1 => of.kind.clone(),
            number => format!("{}-{number}", of.kind),
        });
        let name = names.find(|name| !has(name)).unwrap_or_default();
        self.providers.push(WrittenProvider {
            name: name.clone(),
            kind: of.kind.clone(),
            key,
            url,
            login: of.login.clone(),
            prices: prices.into_iter().collect(),
        });
        name
    }

    /// The limits of one model.
    fn bounds(&mut self, of: &Deployment, full: &str) {
        let name: String = full
            .chars()
            .map(|letter| {
                if letter.is_ascii_alphanumeric() {
                    letter
                } else {
                    '-'
                }
            })
            .take(48)
            .collect();
        let model = quoted(full);
        let timed = [("calls", of.calls_a_minute), ("tokens", of.tokens_a_minute)];
        let timed: Vec<String> = timed
            .iter()
            .filter_map(|(unit, bound)| Some(format!("{unit}: {}", (*bound)?)))
            .collect();
        if !timed.is_empty() {
            let says = format!("{{ model: {model}, {}, per: minute }}", timed.join(", "));
            self.budget(&format!("{name}-minute"), &says, &of.at);
        }
        if let Some(at_once) = of.at_once {
            let says = format!("{{ model: {model}, at_once: {at_once} }}");
            self.budget(&format!("{name}-at-once"), &says, &of.at);
        }
    }

    /// Adds a budget. The path may stand for more than the budget, so that it is not taken as looked at.
    pub(super) fn budget(&mut self, name: &str, says: &str, path: &str) {
        let has = |name: &str| self.budgets.iter().any(|(known, _)| known == name);
        let mut names = (1..).map(|number| match number {
            1 => name.to_owned(),
            number => format!("{name}-{number}"),
        });
        let name = names.find(|name| !has(name)).unwrap_or_default();
        self.as_what
            .push((path.to_owned(), format!("budgets.{name}")));
        self.budgets.push((name, says.to_owned()));
    }

    /// Has a route go on with another one's models. Errors: why not.
    pub(super) fn falls_back(&mut self, route: &str, to: &str) -> Result<(), String> {
        let find = |name: &str| self.routes.iter().position(|known| known.name == name);
        let found = find(route).zip(find(to));
        let (from, to) = found.ok_or("names a model that was not taken over")?;
        let more = self.routes[to].tries.clone();
        for (model, _) in more {
            let tries = &mut self.routes[from].tries;
            if !tries.iter().any(|(known, _)| *known == model) {
                tries.push((model, None));
            }
        }
        Ok(())
    }

    /// Gives a route another name. Errors: why not.
    pub(super) fn alias(&mut self, name: &str, of: &str) -> Result<(), String> {
        let known = self.routes.iter().find(|known| known.name == of);
        let known = known.ok_or("names a model that was not taken over")?;
        if !is_route(name) || self.routes.iter().any(|known| known.name == name) {
            return Err("cannot be a route's name, or is one already".to_owned());
        }
        let tries = known.tries.clone();
        self.routes.push(WrittenRoute {
            name: name.to_owned(),
            tries,
        });
        Ok(())
    }

    /// Whether a provider of this name is written.
    pub(super) fn has_provider(&self, name: &str) -> bool {
        self.providers.iter().any(|known| known.name == name)
    }

    /// The names of all routes.
    pub(super) fn routes(&self) -> Vec<String> {
        self.routes.iter().map(|route| route.name.clone()).collect()
    }

    /// Whether there is anything to write.
    pub(super) fn is_empty(&self) -> bool {
        self.providers.is_empty()
    }

    /// Tells what nobody looked at. `reasons` are those of whole sections, by what their paths begin with.
    pub(super) fn rest(&mut self, reasons: &[(&str, &str)]) {
        let mut left = Vec::new();
        self.left(&self.tree, "", &mut left);
        for path in left {
            let known = reasons
                .iter()
                .find(|(begin, _)| path.ends_with(begin) || path.starts_with(begin));
            let why = known.map_or("has no counterpart", |(_, why)| *why);
            self.not.push((path, why.to_owned()));
        }
    }

    fn left(&self, value: &Value, path: &str, left: &mut Vec<String>) {
        if self.used.contains(path) {
            return;
        }
        let is_looked_into = path.is_empty()
            || self
                .used
                .range(path.to_owned()..)
                .next()
                .is_some_and(|used| {
                    let rest = used.strip_prefix(path).unwrap_or_default();
                    rest.starts_with('.') || rest.starts_with('[')
                });
        match value {
            // What a whole section says is told by its members, as each has a reason of its own.
            Value::Object(members) if is_looked_into || !path.contains(['.', '[']) => {
                for (name, value) in members {
                    self.left(value, &below(path, name), left);
                }
            }
            Value::Array(items) if is_looked_into => {
                for (number, value) in items.iter().enumerate() {
                    self.left(value, &format!("{path}[{number}]"), left);
                }
            }
            Value::Null => {}
            _ => left.push(path.to_owned()),
        }
    }

    /// The configuration, for an agent whose key has this hash.
    pub(super) fn config(&self, hash: &str) -> String {
        let mut text = format!(
            "# weir: what it serves, to whom, and under which policy.\n#\n# Check this file:  weir config check\n\
             # See what works:   weir llm check\n# Every key:        docs/reference/config.md\n\n\
             listen: 127.0.0.1:8700\nstate: ./state\n\nagents:\n  dev:\n    key: sha256:{hash}\n    groups: [engineers]\n\nllm:\n"
        );
        if let Some(ms) = self.answer_ms {
            text.push_str(&format!("  answer_ms: {ms}\n"));
        }
        text.push_str("  providers:\n");
        for provider in &self.providers {
            text.push_str(&provider.text());
        }
        if !self.routes.is_empty() {
            text.push_str("  routes:\n");
        }
        for route in &self.routes {
            text.push_str(&route.text());
        }
        if !self.budgets.is_empty() {
            text.push_str("\nbudgets:\n");
        }
        for (name, says) in &self.budgets {
            text.push_str(&format!("  {}: {says}\n", yaml_key(name)));
        }
        text.push_str("\npolicy: policy.cedar\n");
        text
    }

    pub(super) fn policy() -> &'static str {
        POLICY
    }
}

impl WrittenProvider {
    fn text(&self) -> String {
        let mut text = format!("    {}:\n", yaml_key(&self.name));
        if self.kind != self.name {
            text.push_str(&format!("      kind: {}\n", self.kind));
        }
        let lines = [
            ("url", self.url.as_deref().map(quoted)),
            ("key", self.key.clone()),
        ];
        for (name, value) in lines {
            if let Some(value) = value {
                text.push_str(&format!("      {name}: {value}\n"));
            }
        }
        if let Some((name, says)) = &self.login {
            text.push_str(&format!("      {name}: {says}\n"));
        }
        if !self.prices.is_empty() {
            text.push_str("      prices:\n");
        }
        for (model, (input, output)) in &self.prices {
            let model = quoted(model);
            text.push_str(&format!(
                "        {model}: {{ input: {input}, output: {output} }}\n"
            ));
        }
        text
    }
}

impl WrittenRoute {
    /// Weights are written where models of one name share the calls.
    fn text(&self) -> String {
        let shared = self
            .tries
            .iter()
            .filter(|(_, weight)| weight.is_some())
            .count()
            > 1;
        let tries = self.tries.iter().map(|(model, weight)| match weight {
            Some(weight) if shared => quoted(&format!("{model} {weight}")),
            _ => quoted(model),
        });
        let tries: Vec<String> = tries.collect();
        format!("    {}: [{}]\n", yaml_key(&self.name), tries.join(", "))
    }
}

/// A member's path.
pub(super) fn below(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// Whether a text can name a route.
fn is_route(name: &str) -> bool {
    base::Name::new(name).is_some()
}

/// The address of a provider, with what its kind has behind it.
fn address(kind: &str, url: &str) -> String {
    let url = url.trim_end_matches('/');
    let end = ADDRESS_ENDS.iter().find(|(of, _)| *of == kind);
    match end {
        Some((_, end)) if !url.ends_with(end) => format!("{url}{end}"),
        _ => url.to_owned(),
    }
}
