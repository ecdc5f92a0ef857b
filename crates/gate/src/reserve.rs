//! Is there room: what the call is expected to use, taken from the budgets before the record, and settled once.

use std::sync::Arc;

use base::{Refusal, refusal};

use crate::gate::Gate;
use crate::inspect::Scanned;
use crate::judge::Case;
use crate::ports::{BudgetLine, BudgetSpent, Counted, OverBudget, Reply, Ticket, Unit};

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

    /// What is reserved of a unit.
    pub(crate) fn reserved(&self, unit: Unit) -> u64 {
        let lines = self.ticket.iter().flat_map(|ticket| &ticket.lines);
        let amounts = lines.filter(|line| line.unit == unit);
        amounts.map(|line| line.amount).max().unwrap_or_default()
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

impl Case<'_> {
    /// Takes the call, and what it is expected to cost, from the agent's budgets. The gateway's own calls have none.
    ///
    /// # Errors
    /// `limit.agent` and `limit.tokens` where too little is left, and where the budgets do not answer.
    pub async fn reserve(&mut self, scanned: Scanned) -> Result<Reserved, Refusal> {
        if scanned.permitted.asker.agent().is_none() {
            let reservation = Reservation::new(self.gate, None);
            return Ok(Reserved {
                scanned,
                reservation,
            });
        }
        let rates = self.rules.rates;
        let agent = Counted::Agent(scanned.permitted.principal.name.clone());
        let tokens = rates.agent_tokens_per_minute;
        let tokens = tokens.filter(|_| self.call.cost.tokens > 0);
        let tokens = tokens.map(|per_minute| BudgetLine {
            counted: agent.clone(),
            unit: Unit::Tokens,
            amount: self.call.cost.tokens,
            per_minute,
        });
        let calls = BudgetLine {
            counted: agent,
            unit: Unit::Calls,
            amount: 1,
            per_minute: rates.agent_per_minute,
        };
        // A call that is tried again is still one call.
        let calls = Some(calls).filter(|_| !self.trail.is_tried_again());
        let lines: Vec<BudgetLine> = calls.into_iter().chain(tokens).collect();
        let units: Vec<(Unit, u32)> = lines.iter().map(|l| (l.unit, l.per_minute)).collect();
        let reply = self.gate.ports.budgets.reserve(lines, self.now);
        let ticket = answer(self.gate, reply).await?;
        let ticket = ticket.map_err(|over| over_agent(over, &units))?;
        Ok(Reserved {
            scanned,
            reservation: Reservation::new(self.gate, Some(ticket)),
        })
    }
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

fn over_agent(over: OverBudget, units: &[(Unit, u32)]) -> Refusal {
    let (unit, per_minute) = units[over.line];
    let refusal = match unit {
        Unit::Calls => {
            let public = format!("this agent made more than {per_minute} calls a minute");
            Refusal::new(refusal::LIMIT_AGENT, public)
        }
        Unit::Tokens => {
            let public = format!("this agent would use more than {per_minute} tokens a minute");
            Refusal::new(refusal::LIMIT_TOKENS, public)
        }
    };
    refusal.with_retry_ms(over.retry_ms)
}
