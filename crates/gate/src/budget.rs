//! Budgets of an operator: how much of models there may be in a time, and what their tokens cost.
//!
//! A call of a model counts against every budget that it is of, and passes where all of them have room. Money is counted in
//! billionths of a dollar, so that the price of one token is not lost; what a call costs is rounded up to the next.

use std::sync::Arc;

use base::record::Usage;
use base::{Name, Resource};
use policy::Principal;

use crate::ports::{Counted, Per, Unit};

/// A dollar, in the unit in which money is counted.
pub const NANOS_PER_DOLLAR: u64 = 1_000_000_000;

/// What there may be of something in a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The operator's name for it.
    pub name: Name,
    pub scope: BudgetScope,
    /// Each agent has the whole of it for itself.
    pub is_each_agents: bool,
    pub unit: Unit,
    /// How much of the unit; of money in billionths of a dollar.
    pub bound: u64,
    pub per: Per,
}

/// Which calls a budget is of: those that meet all that is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetScope {
    pub agent: Option<Name>,
    pub group: Option<Name>,
    pub provider: Option<Name>,
    pub model: Option<Arc<str>>,
}

impl BudgetScope {
    /// Whether a call of this agent to this model is one of them.
    pub fn is_of(&self, agent: &Name, groups: &[Name], provider: &Name, model: &str) -> bool {
        let meets = |wanted: &Option<Name>, name: &Name| wanted.as_ref().is_none_or(|w| w == name);
        meets(&self.agent, agent)
            && meets(&self.provider, provider)
            && self.group.as_ref().is_none_or(|g| groups.contains(g))
            && self.model.as_ref().is_none_or(|m| **m == *model)
    }
}

impl Budget {
    /// What a call counts as here; nothing where the budget is not of it.
    pub(crate) fn counted(&self, principal: &Principal, resource: &Resource) -> Option<Counted> {
        let Resource::Model { provider, model } = resource else {
            return None;
        };
        let (agent, groups) = (&principal.name, &principal.groups);
        let is_of = self.scope.is_of(agent, groups, provider, model);
        is_of.then(|| self.key(agent))
    }

    /// Under what it is counted for an agent.
    pub fn key(&self, agent: &Name) -> Counted {
        Counted::Budget {
            name: self.name.clone(),
            agent: self.is_each_agents.then(|| agent.clone()),
        }
    }

    /// It in words, such as `month (money a month)`.
    pub fn words(&self) -> String {
        let unit = match self.unit {
            Unit::Calls => "calls",
            Unit::Tokens => "tokens",
            Unit::Money => "money",
        };
        match self.per {
            Per::AtOnce => format!("{} ({unit} at once)", self.name),
            per => format!("{} ({unit} a {})", self.name, per.as_str()),
        }
    }
}

/// What one token of each kind costs, in millionths of a millionth of a dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenPrices {
    pub input: u64,
    pub cached_read: u64,
    pub cached_write: u64,
    pub output: u64,
}

/// What a model costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    pub usual: TokenPrices,
    /// Where the whole input is more tokens than this, all of the call costs this instead.
    pub long: Option<(u64, TokenPrices)>,
}

impl Price {
    /// What was used costs this, in billionths of a dollar.
    pub fn of(&self, usage: &Usage) -> u64 {
        let input = usage.input.saturating_add(usage.cached_read);
        let prices = self.at(input.saturating_add(usage.cached_write));
        let cost = |tokens: u64, each: u64| u128::from(tokens) * u128::from(each);
        let all = cost(usage.input, prices.input)
            + cost(usage.cached_read, prices.cached_read)
            + cost(usage.cached_write, prices.cached_write)
            + cost(usage.output, prices.output);
        nanos(all)
    }

    /// What so many tokens cost at most, whatever of the input is cached.
    pub fn at_most(&self, input: u64, output: u64) -> u64 {
        let prices = self.at(input);
        let dearest = prices
            .input
            .max(prices.cached_read)
            .max(prices.cached_write);
        let all = u128::from(input) * u128::from(dearest);
        nanos(all + u128::from(output) * u128::from(prices.output))
    }

    fn at(&self, input: u64) -> TokenPrices {
        match self.long {
            Some((above, prices)) if input > above => prices,
            _ => self.usual,
        }
    }
}

fn nanos(picos: u128) -> u64 {
    u64::try_from(picos.div_ceil(1_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn a_price_is_of_each_kind_of_token_and_rounds_up() {
        // $3 and $15 for a million, cached $0.30 and $3.75, double above 200,000.
        let usual = TokenPrices {
            input: 3_000_000,
            cached_read: 300_000,
            cached_write: 3_750_000,
            output: 15_000_000,
        };
        let long = TokenPrices {
            input: 6_000_000,
            output: 22_500_000,
            ..usual
        };
        let price = Price {
            usual,
            long: Some((200_000, long)),
        };
        let usage = Usage {
            input: 1_000,
            cached_read: 10_000,
            cached_write: 2_000,
            output: 500,
            reasoning: 400,
        };
        assert_eq!(
            price.of(&usage),
            3_000_000 + 3_000_000 + 7_500_000 + 7_500_000
        );
        let usage = Usage {
            input: 200_001,
            ..Usage::default()
        };
        assert_eq!(price.of(&usage), 200_001 * 6_000);
        assert_eq!(price.at_most(1_000, 10), 1_000 * 3_750 + 10 * 15_000);
        let cheap = Price {
            usual: TokenPrices {
                input: 37_500,
                ..TokenPrices::default()
            },
            long: None,
        };
        let one = Usage {
            input: 1,
            ..Usage::default()
        };
        assert_eq!(cheap.of(&one), 38);
        assert_eq!(price.at_most(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn a_budget_is_of_the_calls_that_meet_all_it_says() {
        let scope = BudgetScope {
            group: Some(name("engineers")),
            provider: Some(name("openai")),
            ..BudgetScope::default()
        };
        let (dev, groups) = (name("dev"), [name("engineers"), name("all")]);
        assert!(scope.is_of(&dev, &groups, &name("openai"), "gpt"));
        assert!(!scope.is_of(&dev, &groups[1..], &name("openai"), "gpt"));
        assert!(!scope.is_of(&dev, &groups, &name("anthropic"), "gpt"));
        let scope = BudgetScope {
            model: Some("gpt".into()),
            agent: Some(dev.clone()),
            ..BudgetScope::default()
        };
        assert!(scope.is_of(&dev, &[], &name("openai"), "gpt"));
        assert!(!scope.is_of(&dev, &[], &name("openai"), "gpt-2"));
        assert!(!scope.is_of(&name("eve"), &[], &name("openai"), "gpt"));
    }
}
