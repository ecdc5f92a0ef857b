//! What models used before, and how the budgets stand by it: read from the log at the start, kept in memory from then on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{Name, Now};
use gate::ports::{Accounts, BudgetLine, Per, Unit, UsedTokens};
use gate::{Budget, Gate};
use serde_json::{Value, json};
use store::Limits;
use store::usage::{self, Account, AccountKey, AccountRow, TaggedKey};

use crate::config::Settings;
use crate::ports::Clock;

const DAY_MS: u64 = 86_400_000;
const MINUTE_MS: u64 = 60_000;

/// The budgets and the account of one process.
pub(crate) struct Spending {
    pub limits: Arc<Limits>,
    pub account: Arc<Account>,
    /// What the calls of runs cost.
    pub runs: Arc<RunMoney>,
}

/// What the calls of each run cost since the process began, in billionths of a dollar; of runs that have not ended.
#[derive(Default)]
pub(crate) struct RunMoney(Mutex<HashMap<String, u64>>);

impl RunMoney {
    fn table(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn of(&self, run: &str) -> u64 {
        self.table().get(run).copied().unwrap_or_default()
    }

    pub(crate) fn forget(&self, run: &str) {
        self.table().remove(run);
    }
}

/// The account of what models used, and of what runs cost.
struct RunAccounts {
    account: Arc<Account>,
    runs: Arc<RunMoney>,
}

impl Accounts for RunAccounts {
    fn used(&self, used: &UsedTokens<'_>) {
        self.account.used(used);
        let money_of_run = used.money.filter(|money| *money > 0);
        if let (Some(run), Some(more)) = (used.run, money_of_run) {
            let mut table = self.runs.table();
            match table.get_mut(run) {
                Some(money) => *money = money.saturating_add(more),
                None => drop(table.insert(run.to_owned(), more)),
            }
        }
    }
}

impl Spending {
    /// Nothing was used yet.
    pub(crate) fn new() -> Spending {
        Spending {
            limits: Arc::new(Limits::new()),
            account: Arc::default(),
            runs: Arc::default(),
        }
    }

    /// Reads what was used in this month from the logs of a state. The error is for the operator.
    pub(crate) fn read(
        settings: &Settings,
        logs: &[impl AsRef<Path>],
        now: Now,
    ) -> Result<Spending, String> {
        let spending = Spending::new();
        if settings.llm.providers.is_empty() {
            return Ok(spending);
        }
        let since = usage::month_begin(now.unix_ms);
        for log in logs {
            let log = log.as_ref();
            let each = |call: usage::UsedCall| {
                let providers = &settings.llm.providers;
                let provider = providers.iter().find(|of| of.told.name == call.provider);
                let price = provider.and_then(|provider| provider.told.price(&call.model));
                let used = UsedTokens {
                    at_unix_ms: call.at_unix_ms,
                    agent: &call.agent,
                    groups: &call.groups,
                    provider: &call.provider,
                    model: &call.model,
                    usage: call.usage,
                    is_estimated: call.is_estimated,
                    money: price.map(|price| price.of(&call.usage)),
                    run: None,
                    tags: &call.tags,
                };
                spending.account.used(&used);
                spending.count(&settings.budgets, &used, now);
            };
            usage::read(log, since, each).map_err(|damage| {
                let (log, what) = (log.display(), &damage.what);
                format!("what models used cannot be read from {log}: {what}; see weir audit verify")
            })?;
        }
        Ok(spending)
    }

    /// What is told of each call of a model.
    pub(crate) fn accounts(&self) -> Arc<dyn Accounts> {
        Arc::new(RunAccounts {
            account: Arc::clone(&self.account),
            runs: Arc::clone(&self.runs),
        })
    }

    /// Counts a call that was before this process.
    fn count(&self, budgets: &[Budget], used: &UsedTokens<'_>, now: Now) {
        for budget in budgets {
            let is_of = budget
                .scope
                .is_of(used.agent, used.groups, used.provider, used.model);
            let is_old = budget.per == Per::Minute && used.at_unix_ms + MINUTE_MS < now.unix_ms;
            if !is_of || is_old || budget.per == Per::AtOnce {
                continue;
            }
            let amount = match budget.unit {
                Unit::Calls => 1,
                Unit::Tokens => used.usage.total(),
                Unit::Money => used.money.unwrap_or_default(),
            };
            self.limits
                .add(&line(budget, used.agent, amount), used.at_unix_ms, now);
        }
    }

    /// Budgets that are new, or of other calls than before, begin with what was used of them already.
    pub(crate) fn reloaded(&self, old: &[Budget], new: &[Budget], now: Now) {
        let today = now.unix_ms / DAY_MS;
        let is_same = |budget: &Budget, other: &Budget| {
            let key = |of: &Budget| (of.name.clone(), of.unit, of.per, of.is_each_agents);
            key(budget) == key(other) && budget.scope == other.scope
        };
        for budget in new {
            let is_kept = old.iter().any(|other| is_same(budget, other));
            if is_kept || !matches!(budget.per, Per::Day | Per::Month) {
                continue;
            }
            let is_of = |key: &AccountKey| {
                let scope = &budget.scope;
                scope.is_of(&key.agent, &key.groups, &key.provider, &key.model)
                    && (budget.per == Per::Month || key.day == today)
            };
            let rows = self.account.of(is_of);
            let agents: BTreeSet<&Name> = rows.iter().map(|(key, _)| &key.agent).collect();
            let sum = |of: Option<&Name>| -> u64 {
                let of = rows
                    .iter()
                    .filter(|(key, _)| of.is_none_or(|agent| key.agent == *agent));
                of.map(|(_, row)| amount(budget.unit, row)).sum()
            };
            match budget.is_each_agents {
                true => agents.iter().for_each(|agent| {
                    self.limits.set(&line(budget, agent, sum(Some(agent))), now);
                }),
                false => {
                    let nobody = Name::new("all").expect("all is a name");
                    self.limits.set(&line(budget, &nobody, sum(None)), now);
                }
            }
        }
    }
}

/// Says how agents stand.
pub(crate) struct OfAgents {
    limits: Arc<Limits>,
    account: Arc<Account>,
    gate: Arc<Gate>,
    clock: Arc<Clock>,
}

impl Spending {
    pub(crate) fn of_agents(&self, gate: &Arc<Gate>, clock: &Arc<Clock>) -> OfAgents {
        OfAgents {
            limits: Arc::clone(&self.limits),
            account: Arc::clone(&self.account),
            gate: Arc::clone(gate),
            clock: Arc::clone(clock),
        }
    }
}

impl llm::UsageOf for OfAgents {
    fn usage_of(&self, agent: &Name, groups: &[Name]) -> Value {
        let now = gate::ports::Clock::now(&*self.clock);
        let budgets = self.gate.budgets();
        let meets = |wanted: &Option<Name>| wanted.as_ref().is_none_or(|name| name == agent);
        let is_in = |group: &Option<Name>| group.as_ref().is_none_or(|name| groups.contains(name));
        let own = budgets.iter();
        let own = own.filter(|budget| meets(&budget.scope.agent) && is_in(&budget.scope.group));
        let own: Vec<Value> = own.map(|budget| self.budget(budget, agent, now)).collect();
        let today = now.unix_ms / DAY_MS;
        let rows = self.account.of(|key| key.agent == *agent);
        let tagged = self.account.of_tags(agent);
        let since = usage::month_begin(now.unix_ms);
        json!({
            "agent": agent.as_str(),
            "groups": groups.iter().map(Name::as_str).collect::<Vec<_>>(),
            "budgets": own,
            "today": by_model(rows.iter().filter(|(key, _)| key.day == today)),
            "month": by_model(rows.iter().filter(|(key, _)| key.day * DAY_MS >= since)),
            "today_by_tag": by_tag(tagged.iter().filter(|(key, _)| key.day == today)),
            "month_by_tag": by_tag(tagged.iter().filter(|(key, _)| key.day * DAY_MS >= since)),
        })
    }
}

/// How one budget stands, for `/metrics`.
pub(crate) struct BudgetGauge {
    pub budget: String,
    /// `dollars`, `tokens` or `calls`.
    pub unit: &'static str,
    pub per: &'static str,
    /// Of whom, where each agent has it for itself.
    pub agent: String,
    pub limit: f64,
    /// Spent and reserved.
    pub used: f64,
}

impl OfAgents {
    /// How all budgets stand; those that each agent has for itself, for the agents that used a model in this month.
    pub(crate) fn gauges(&self) -> Vec<BudgetGauge> {
        let now = gate::ports::Clock::now(&*self.clock);
        let rows = self.account.of(|_| true);
        let agents: BTreeSet<Name> = rows.into_iter().map(|(key, _)| key.agent).collect();
        let nobody = BTreeSet::from([Name::new("all").expect("all is a name")]);
        let mut gauges = Vec::new();
        for budget in self.gate.budgets() {
            let of = if budget.is_each_agents {
                &agents
            } else {
                &nobody
            };
            for agent in of {
                let standing = self.limits.standing(&line(&budget, agent, 0), now);
                let amount = |amount: u64| match budget.unit {
                    Unit::Money => dollars(amount),
                    Unit::Calls | Unit::Tokens => amount as f64,
                };
                let is_own = budget.is_each_agents;
                gauges.push(BudgetGauge {
                    budget: budget.name.to_string(),
                    unit: unit_word(budget.unit),
                    per: budget.per.as_str(),
                    agent: if is_own {
                        agent.to_string()
                    } else {
                        String::new()
                    },
                    limit: amount(budget.bound),
                    used: amount(standing.spent.saturating_add(standing.reserved)),
                });
            }
        }
        gauges
    }

    fn budget(&self, budget: &Budget, agent: &Name, now: Now) -> Value {
        let standing = self.limits.standing(&line(budget, agent, 0), now);
        let say = |amount: u64| match budget.unit {
            Unit::Money => json!(dollars(amount)),
            Unit::Calls | Unit::Tokens => json!(amount),
        };
        let taken = standing.spent.saturating_add(standing.reserved);
        let scope = &budget.scope;
        json!({
            "name": budget.name.as_str(),
            "unit": unit_word(budget.unit),
            "per": budget.per.as_str(),
            "provider": scope.provider.as_ref().map(Name::as_str),
            "model": scope.model.as_deref(),
            "limit": say(budget.bound),
            "spent": say(standing.spent),
            "reserved": say(standing.reserved),
            "left": say(budget.bound.saturating_sub(taken)),
            "until": standing.until_unix_ms.map(base::clock::rfc3339),
        })
    }
}

fn unit_word(unit: Unit) -> &'static str {
    match unit {
        Unit::Calls => "calls",
        Unit::Tokens => "tokens",
        Unit::Money => "dollars",
    }
}

/// Billionths of a dollar as dollars.
pub(crate) fn dollars(nanos: u64) -> f64 {
    nanos as f64 / gate::NANOS_PER_DOLLAR as f64
}

fn by_model<'r>(rows: impl Iterator<Item = &'r (AccountKey, AccountRow)>) -> Vec<Value> {
    let name = |key: &AccountKey| format!("{}/{}", key.provider, key.model);
    summed("model", rows.map(|(key, row)| (name(key), row)))
}

fn by_tag<'r>(rows: impl Iterator<Item = &'r (TaggedKey, AccountRow)>) -> Vec<Value> {
    summed("tag", rows.map(|(key, row)| (key.tag.to_string(), row)))
}

/// One row for each name, which stands under `title`.
fn summed<'r>(title: &str, rows: impl Iterator<Item = (String, &'r AccountRow)>) -> Vec<Value> {
    let mut sums: BTreeMap<String, AccountRow> = BTreeMap::new();
    for (name, row) in rows {
        sums.entry(name).or_default().merge(row);
    }
    let row = |(name, row): (String, AccountRow)| {
        json!({
            title: name,
            "calls": row.calls,
            "input": row.usage.input,
            "cached_read": row.usage.cached_read,
            "cached_write": row.usage.cached_write,
            "output": row.usage.output,
            "reasoning": row.usage.reasoning,
            "estimated": row.estimated,
            "dollars": (row.unpriced == 0).then(|| dollars(row.money)),
        })
    };
    sums.into_iter().map(row).collect()
}

fn amount(unit: Unit, row: &AccountRow) -> u64 {
    match unit {
        Unit::Calls => row.calls,
        Unit::Tokens => row.usage.total(),
        Unit::Money => row.money,
    }
}

fn line(budget: &Budget, agent: &Name, amount: u64) -> BudgetLine {
    BudgetLine {
        counted: budget.key(agent),
        unit: budget.unit,
        amount,
        bound: budget.bound,
        per: budget.per,
    }
}
