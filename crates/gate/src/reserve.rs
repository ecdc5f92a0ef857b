//! Is there room: what the call is expected to use, taken from the budgets before the record, and settled once.

use std::sync::Arc;

use base::{Refusal, Resource, refusal};
use policy::Principal;

use crate::budget::Budget;
use crate::gate::Gate;
use crate::inspect::Scanned;
use crate::judge::Case;
use crate::ports::{BudgetLine, BudgetSpent, Counted, OverBudget, Per, Reply, Ticket, Unit};
use crate::rules::Rules;

/// The proof that the budgets have room for the call.
pub struct Reserved {
    pub(crate) scanned: Scanned,
    pub(crate) reservation: Reservation,
}

/// What was taken from budgets for one call. Dropped without [`Reservation::settle`], all of it is given back: the call
/// did not happen.
///
/// It cannot be copied, so it is settled once:
///
/// ```compile_fail
/// fn twice(reservation: gate::Reservation) -> [gate::Reservation; 2] {
///     [reservation.clone(), reservation]
/// }
/// ```
pub struct Reservation {
    gate: Arc<Gate>,
    ticket: Option<Ticket>,
}

impl Reservation {
    fn new(gate: &Arc<Gate>, ticket: Option<Ticket>) -> Reservation {
        Reservation {
            gate: Arc::clone(gate),
            ticket,
        }
    }

    /// Puts what was spent in the place of what was reserved.
    pub(crate) fn settle(mut self, spent: BudgetSpent) {
        self.settle_once(spent);
    }

    fn settle_once(&mut self, spent: BudgetSpent) {
        if let Some(ticket) = self.ticket.take() {
            let now = self.gate.ports.clock.now();
            self.gate.ports.budgets.settle(ticket, spent, now);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.settle_once(BudgetSpent::default());
    }
}

/// Whose room a line takes.
enum RoomOf<'a> {
    /// The agent's calls or tokens in a minute.
    Rate(Unit, u32),
    Budget(&'a Budget),
}

impl Case<'_> {
    /// Takes the call, and what it is expected to cost, from the agent's rates and from each budget that it is of. The
    /// gateway's own calls have none.
    ///
    /// # Errors
    /// `limit.agent`, `limit.tokens` and `limit.budget` where too little is left, `limit.price_unknown` where nobody can say
    /// what the call costs, and `limit.budgets` where the budgets do not answer.
    pub async fn reserve(&mut self, scanned: Scanned) -> Result<Reserved, Refusal> {
        if scanned.permitted.asker.agent().is_none() {
            let reservation = Reservation::new(self.gate, None);
            return Ok(Reserved {
                scanned,
                reservation,
            });
        }
        let rules = Arc::clone(&self.rules);
        let (lines, rooms) = self.lines(&scanned.permitted.principal, &rules)?;
        let reply = self.gate.ports.budgets.reserve(lines, self.now);
        let ticket = answer(self.gate, reply).await?;
        let ticket = ticket.map_err(|over| self.over(over, &rooms[over.line]))?;
        Ok(Reserved {
            scanned,
            reservation: Reservation::new(self.gate, Some(ticket)),
        })
    }

    /// What the call takes, and of what.
    fn lines<'r>(
        &self,
        principal: &Principal,
        rules: &'r Rules,
    ) -> Result<(Vec<BudgetLine>, Vec<RoomOf<'r>>), Refusal> {
        let (cost, rates) = (&self.call.cost, &rules.rates);
        let (mut lines, mut rooms) = (Vec::new(), Vec::new());
        let mut rate = |unit, amount, per_minute: u32| {
            lines.push(BudgetLine {
                counted: Counted::Agent(principal.name.clone()),
                unit,
                amount,
                bound: u64::from(per_minute),
                per: Per::Minute,
            });
            rooms.push(RoomOf::Rate(unit, per_minute));
        };
        // A call that is tried again is still one call.
        let is_new = !self.trail.is_tried_again();
        if is_new {
            rate(Unit::Calls, 1, rates.agent_per_minute);
        }
        if let Some(per_minute) = rates.agent_tokens_per_minute
            && cost.tokens() > 0
        {
            rate(Unit::Tokens, cost.tokens(), per_minute);
        }
        for budget in &rules.budgets {
            let Some(counted) = budget.counted(principal, self.call.resource) else {
                continue;
            };
            let amount = match budget.unit {
                // Each try of a call is under way at its own provider.
                Unit::Calls => u64::from(is_new || budget.per == Per::AtOnce),
                Unit::Tokens => cost.tokens(),
                Unit::Money if cost.price.is_none() && cost.tokens() > 0 => {
                    return Err(no_price(self.call.resource, budget));
                }
                Unit::Money => cost.money(),
            };
            if amount > 0 {
                lines.push(BudgetLine {
                    counted,
                    unit: budget.unit,
                    amount,
                    bound: budget.bound,
                    per: budget.per,
                });
                rooms.push(RoomOf::Budget(budget));
            }
        }
        Ok((lines, rooms))
    }

    fn over(&self, over: OverBudget, room: &RoomOf<'_>) -> Refusal {
        let refusal = match room {
            RoomOf::Rate(Unit::Calls, per_minute) => {
                let public = format!("this agent made more than {per_minute} calls a minute");
                Refusal::new(refusal::LIMIT_AGENT, public)
            }
            RoomOf::Rate(_, per_minute) => {
                let public = format!("this agent would use more than {per_minute} tokens a minute");
                Refusal::new(refusal::LIMIT_TOKENS, public)
            }
            RoomOf::Budget(budget) => {
                let words = budget.words();
                if over.retry_ms == u64::MAX {
                    let public = format!("the call may cost more than the whole budget {words}");
                    return Refusal::new(refusal::LIMIT_TOO_DEAR, public);
                }
                let public = match budget.per {
                    Per::AtOnce => format!("as many calls as the budget {words} has are under way"),
                    _ => {
                        let free = self.now.unix_ms.saturating_add(over.retry_ms);
                        let free = base::clock::rfc3339(free);
                        format!(
                            "the budget {words} has too little left for this call; it has more at {free}"
                        )
                    }
                };
                Refusal::new(refusal::LIMIT_BUDGET, public)
            }
        };
        refusal.with_retry_ms(over.retry_ms)
    }
}

fn no_price(resource: &Resource, budget: &Budget) -> Refusal {
    let model = resource.part().map_or("", |(_, model)| model);
    let (place, words) = (resource.place(), budget.words());
    Refusal::new(
        refusal::LIMIT_PRICE_UNKNOWN,
        format!("no price of {place}/{model} is known, and the budget {words} counts money"),
    )
}

/// What the budgets answer, which is a refusal where they do not in time.
pub(crate) async fn answer(
    gate: &Gate,
    reply: Reply<Result<Ticket, OverBudget>>,
) -> Result<Result<Ticket, OverBudget>, Refusal> {
    let silent = || Refusal::new(refusal::BUDGETS, "the budgets do not answer");
    let answer = reply.within_bound(&*gate.ports.clock).await;
    answer.ok_or_else(silent)
}
