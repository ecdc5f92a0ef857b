//! The budgets as the simulation keeps them beside the real ones, to hold each answer of those against its own.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::{Name, Now};
use gate::ports::{
    BudgetLine, BudgetSpent, Budgets, Counted, OverBudget, Per, Reply, Ticket, Unit,
};
use store::Limits;

/// A unit in the parts that drain: one part a millisecond and unit a minute.
const UNIT_PARTS: u64 = 60_000;

type Key = (Name, Unit);

struct Level {
    parts: u64,
    seen_ms: u64,
    per_minute: u64,
}

#[derive(Default)]
struct Kept {
    levels: HashMap<Key, Level>,
    /// What is reserved and not settled.
    open: Vec<Vec<BudgetLine>>,
    settled: HashMap<Key, u64>,
}

/// Asks the real budgets, and checks what they say of agents.
pub(crate) struct Book {
    limits: Limits,
    kept: Mutex<Kept>,
}

impl Book {
    pub(crate) fn new() -> Book {
        Book {
            limits: Limits::new(),
            kept: Mutex::default(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many reservations are not settled.
    pub(crate) fn open(&self) -> usize {
        self.kept().open.len()
    }

    /// What was settled of an agent's unit.
    pub(crate) fn settled(&self, agent: &Name, unit: Unit) -> u64 {
        let key = (agent.clone(), unit);
        self.kept().settled.get(&key).copied().unwrap_or_default()
    }

    /// Takes what the real budgets have left, which has to be what this book says, and no more.
    pub(crate) fn check_rest(&self, now: Now) {
        let mut kept = self.kept();
        for ((agent, unit), level) in &mut kept.levels {
            level.drain(now);
            let limit = level.per_minute * UNIT_PARTS;
            let line = |amount| BudgetLine {
                counted: Counted::Agent(agent.clone()),
                unit: *unit,
                amount,
                bound: level.per_minute,
                per: Per::Minute,
            };
            let takes = |amount| taken(&self.limits, vec![line(amount)], now).is_ok();
            if let Some(left) = limit.checked_sub(level.parts) {
                assert!(
                    takes(left / UNIT_PARTS),
                    "{agent} has less left than it should"
                );
            }
            assert!(!takes(1), "{agent} has more left than it should");
        }
    }
}

impl Level {
    fn drain(&mut self, now: Now) {
        let past = now.mono_ms.saturating_sub(self.seen_ms);
        self.parts = self.parts.saturating_sub(past * self.per_minute);
        self.seen_ms = self.seen_ms.max(now.mono_ms);
    }
}

impl Kept {
    fn level(&mut self, line: &BudgetLine, now: Now) -> &mut Level {
        let fresh = Level {
            parts: 0,
            seen_ms: now.mono_ms,
            per_minute: line.bound,
        };
        let level = self.levels.entry(key(line)).or_insert(fresh);
        level.drain(now);
        level
    }
}

impl Budgets for Book {
    fn reserve(&self, lines: Vec<BudgetLine>, now: Now) -> Reply<Result<Ticket, OverBudget>> {
        let mut kept = self.kept();
        let answer = taken(&self.limits, lines.clone(), now);
        if !are_of_agents(&lines) {
            return Reply::Ready(answer);
        }
        let room = |line: &BudgetLine| line.bound * UNIT_PARTS;
        match &answer {
            Ok(ticket) => {
                assert_eq!(ticket.lines, lines, "all lines are taken");
                for line in &lines {
                    let level = kept.level(line, now);
                    level.parts += line.amount * UNIT_PARTS;
                    assert!(level.parts <= room(line), "taken over the limit: {line:?}");
                }
                kept.open.push(lines);
            }
            Err(over) => {
                let line = &lines[over.line];
                let wanted = kept.level(line, now).parts + line.amount * UNIT_PARTS;
                assert!(wanted > room(line), "refused with room: {line:?}");
            }
        }
        Reply::Ready(answer)
    }

    fn settle(&self, ticket: Ticket, spent: BudgetSpent, now: Now) {
        let mut kept = self.kept();
        if are_of_agents(&ticket.lines) {
            let open = kept.open.iter().position(|lines| *lines == ticket.lines);
            let open = open.expect("what is settled was reserved, and was not settled before");
            kept.open.swap_remove(open);
            for line in &ticket.lines {
                let (took, spent) = (line.amount * UNIT_PARTS, spent.of(line.unit));
                let level = kept.level(line, now);
                // What was given back may have drained already: a budget is never below zero.
                level.parts = level
                    .parts
                    .saturating_sub(took.saturating_sub(spent * UNIT_PARTS));
                level.parts += (spent * UNIT_PARTS).saturating_sub(took);
                *kept.settled.entry(key(line)).or_default() += spent;
            }
        }
        self.limits.settle(ticket, spent, now);
    }
}

fn taken(limits: &Limits, lines: Vec<BudgetLine>, now: Now) -> Result<Ticket, OverBudget> {
    match limits.reserve(lines, now) {
        Reply::Ready(answer) => answer,
        Reply::Later(_) => panic!("memory answers at once"),
    }
}

fn are_of_agents(lines: &[BudgetLine]) -> bool {
    let is_agent = |line: &BudgetLine| matches!(line.counted, Counted::Agent(_));
    lines.iter().all(is_agent)
}

fn key(line: &BudgetLine) -> Key {
    match &line.counted {
        Counted::Agent(name) => (name.clone(), line.unit),
        other => panic!("only agents are kept: {other:?}"),
    }
}
