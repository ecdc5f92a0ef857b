//! The `budgets:` section: what there may be of models in a time, and for whom.

use ::config::kinds::Dollars;
use ::config::{Check, Count, Label, Path as Key, Text};
use base::Name;
use gate::ports::{Per, Unit};
use gate::{Budget, BudgetScope};
use schemars::JsonSchema;
use serde::Deserialize;

use super::file::File;
use super::settings::{Llm, ModelProvider};

/// Billionths of a dollar in a millionth.
const NANOS_PER_MICRO: u64 = 1_000;
/// Most dollars of a budget of a minute: more cannot be counted to the last token.
const MINUTE_DOLLARS_MAX: u64 = 100_000;

/// One budget: the calls of models that meet all that is said share it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ group: engineers, money: 200, per: month }")]
pub(crate) struct BudgetSection {
    /// Of this agent alone.
    #[schemars(example = &"build")]
    pub agent: Option<Label>,
    /// Of the agents of this group, together.
    #[schemars(example = &"engineers")]
    pub group: Option<Label>,
    /// Of this provider's models.
    #[schemars(example = &"anthropic")]
    pub provider: Option<Label>,
    /// Of this model: its name, or provider/model.
    #[schemars(example = &"anthropic/claude-opus-5")]
    pub model: Option<Text>,
    /// agent: each agent has the whole of it for itself.
    #[schemars(example = &"agent")]
    pub each: Option<Each>,
    /// Dollars.
    #[schemars(example = &"200")]
    pub money: Option<Dollars>,
    /// Tokens, in and out.
    #[schemars(example = &"5000000")]
    pub tokens: Option<Tokens>,
    /// Calls.
    #[schemars(example = &"1000")]
    pub calls: Option<Tokens>,
    /// Calls under way at once.
    #[schemars(example = &"8")]
    pub at_once: Option<Count<1, 1_000_000>>,
    /// In what time there may be so much; days and months are of UTC.
    #[schemars(example = &"month")]
    pub per: Option<Time>,
}

type Tokens = Count<1, 1_000_000_000_000>;

/// Who has a budget for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Each {
    Agent,
}

/// The time of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Time {
    Minute,
    Day,
    Month,
}

impl From<Time> for Per {
    fn from(time: Time) -> Per {
        match time {
            Time::Minute => Per::Minute,
            Time::Day => Per::Day,
            Time::Month => Per::Month,
        }
    }
}

/// All budgets, a row for each amount.
pub(super) fn budgets(file: &File, llm: &Llm, check: &mut Check<'_>) -> Vec<Budget> {
    let providers = &llm.providers;
    if file.budgets.iter().count() > 0 && file.llm.providers.iter().count() == 0 {
        let message = "bound nothing: they are of models, and llm names no provider";
        check.warn(&Key::of("budgets"), message);
    }
    let mut rows = Vec::new();
    for (name, budget) in file.budgets.iter() {
        let at = Key::of("budgets").key(name);
        let scope = scope(budget, file, providers, &at, check);
        let amounts = [
            (
                Unit::Money,
                budget
                    .money
                    .map(|money| money.0.saturating_mul(NANOS_PER_MICRO)),
            ),
            (Unit::Tokens, budget.tokens.map(|tokens| tokens.0)),
            (Unit::Calls, budget.calls.map(|calls| calls.0)),
        ];
        let timed: Vec<(Unit, u64)> = amounts
            .into_iter()
            .filter_map(|(unit, bound)| Some((unit, bound?)))
            .collect();
        let wrote = |key: &&str| check.wrote(&at.key(key));
        if !["money", "tokens", "calls", "at_once"].iter().any(wrote) {
            check.say_of_name(&at, "says no amount: money, tokens, calls or at_once");
        }
        if !timed.is_empty() && !check.wrote(&at.key("per")) {
            check.say_of_name(&at, "needs per: minute, day or month");
        }
        if timed.is_empty() && budget.per.is_some() && budget.at_once.is_some() {
            check.say(
                &at.key("per"),
                "does not go with at_once alone, which has no time",
            );
        }
        let is_much = |micros: Dollars| micros.0 > MINUTE_DOLLARS_MAX * 1_000_000;
        if budget.per == Some(Time::Minute) && budget.money.is_some_and(is_much) {
            check.say(
                &at.key("money"),
                format!("may be {MINUTE_DOLLARS_MAX} a minute at most"),
            );
        }
        let Some(name) = Name::new(name) else {
            continue;
        };
        let row = |unit, bound, per| Budget {
            name: name.clone(),
            scope: scope.clone(),
            is_each_agents: budget.each.is_some(),
            unit,
            bound,
            per,
        };
        if let Some(per) = budget.per {
            rows.extend(
                timed
                    .into_iter()
                    .map(|(unit, bound)| row(unit, bound, per.into())),
            );
        }
        rows.extend(
            budget
                .at_once
                .map(|most| row(Unit::Calls, most.0, Per::AtOnce)),
        );
    }
    warn_of_unpriced(&rows, llm, check);
    rows
}

/// Warns of models of routes that a budget of money is about and of which no price is known.
fn warn_of_unpriced(budgets: &[Budget], llm: &Llm, check: &mut Check<'_>) {
    for route in &llm.routes {
        for (i, one) in route.tries.iter().enumerate() {
            let provider = &llm.providers[one.provider].told;
            let is_of = |budget: &&Budget| {
                let scope = &budget.scope;
                let of_provider = scope
                    .provider
                    .as_ref()
                    .is_none_or(|name| *name == provider.name);
                let of_model = scope
                    .model
                    .as_ref()
                    .is_none_or(|model| **model == *one.model);
                budget.unit == Unit::Money && of_provider && of_model
            };
            let (Some(budget), None) = (budgets.iter().find(is_of), provider.price(&one.model))
            else {
                continue;
            };
            let message = format!(
                "no price of {}/{} is known, so the budget {} does not count it; write llm.providers.{}.prices",
                provider.name, one.model, budget.name, provider.name
            );
            let at = Key::of("llm.routes").key(&route.name);
            check.warn(&at.index(i), message);
        }
    }
}

fn scope(
    budget: &BudgetSection,
    file: &File,
    providers: &[ModelProvider],
    at: &Key,
    check: &mut Check<'_>,
) -> BudgetScope {
    let agents: Vec<&str> = file.agents.iter().map(|(name, _)| name).collect();
    let groups = file
        .agents
        .iter()
        .flat_map(|(_, agent)| agent.groups.values());
    let groups: Vec<&str> = groups.map(|group| group.0.as_str()).collect();
    let known: Vec<&str> = file.llm.providers.iter().map(|(name, _)| name).collect();
    let named = budget.model.as_ref().map(|model| model.0.as_str());
    let split = named.and_then(|name| name.split_once('/'));
    let split = split.filter(|(provider, _)| known.contains(provider));
    let model = split.map(|(_, model)| model).or(named);
    if let (Some((of, _)), None) = (named.and_then(|name| name.split_once('/')), split) {
        let is_listed =
            |provider: &ModelProvider| provider.told.models.iter().any(|of| Some(&**of) == named);
        if !providers.iter().any(is_listed) {
            let near = base::near::meant(of, known.iter().copied());
            let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
            let message =
                format!("no provider is named {of:?}, so this is no model that is known{near}");
            check.warn(&at.key("model"), message);
        }
    }
    let of_model = split.and_then(|(provider, _)| Name::new(provider));
    if of_model.is_some() && budget.provider.is_some() {
        check.say(
            &at.key("provider"),
            "stands beside a model that names its provider; keep one of the two",
        );
    }
    let mut name = |key: &str, what: &str, label: &Option<Label>, known: &[&str]| {
        let label = label.as_ref()?;
        let name = label.0.as_str();
        if !known.contains(&name) {
            let near = base::near::meant(name, known.iter().copied());
            let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
            check.say(&at.key(key), format!("no {what} is named {name:?}{near}"));
        }
        Some(label.0.clone())
    };
    BudgetScope {
        agent: name("agent", "agent", &budget.agent, &agents),
        group: name("group", "agent's group", &budget.group, &groups),
        provider: name("provider", "provider", &budget.provider, &known).or(of_model),
        model: model.map(Into::into),
    }
}
