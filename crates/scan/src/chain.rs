//! Calls that are harmless one by one: what an agent did in the last minutes, and what that adds up to.
//!
//! It keeps of each call what kind of step it was and hashes of the names of files that it left behind,
//! for a bounded number of calls and a bounded time. Nothing of the texts is kept, and no clock is read.

mod step;

pub use step::Step;
use step::{
    ALL, CARRIES, CONFIG, DATA, DELETE, DOWNLOAD, ENCODE, ENVIRONMENT, LIST, NETWORK, PERSIST,
    READ, RECON, SECRET, SHELL, STORE,
};

/// Calls of one agent that are remembered.
pub const CHAIN_STEPS_MAX: usize = 16;
/// How long a call is remembered, in milliseconds.
pub const CHAIN_WINDOW_MS_DEFAULT: u64 = 120_000;
/// The time in which many commands are a burst, in milliseconds.
const BURST_MS: u64 = 60_000;
/// Commands in a burst.
const BURST_STEPS_MIN: usize = 4;
/// What the steps of a burst weigh: looking around and the network 1, secrets and persistence 2.
const BURST_WEIGHT_MIN: usize = 4;
/// Steps that look around before a secret is read.
const LOOKS_MIN: usize = 2;

/// The last steps of one agent.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The oldest first, each with its time in milliseconds.
    steps: [(Step, u64); CHAIN_STEPS_MAX],
    length: usize,
    window_ms: u64,
}

impl Default for Chain {
    fn default() -> Chain {
        Chain::new(CHAIN_WINDOW_MS_DEFAULT)
    }
}

impl Chain {
    /// No step yet. Steps are forgotten after `window_ms` milliseconds.
    pub fn new(window_ms: u64) -> Chain {
        Chain {
            steps: [(Step::default(), 0); CHAIN_STEPS_MAX],
            length: 0,
            window_ms,
        }
    }

    /// Adds a step, and answers the rules that it completes. `now_ms` is of any clock that does not go back.
    pub fn observe(&mut self, step: Step, now_ms: u64) -> Vec<&'static str> {
        self.forget(now_ms);
        let mut found = Vec::new();
        if step.is_nothing() {
            return found;
        }
        let before = &self.steps[..self.length];
        let any = |kinds: u16| before.iter().any(|(past, _)| past.is(kinds));
        let count = |kinds: u16| before.iter().filter(|(past, _)| past.is(kinds)).count();
        let mut add = |rule: &'static str, holds: bool| found.extend(holds.then_some(rule));

        let posts = step.is(CARRIES) && step.is(DATA) && any(CONFIG);
        // Who asks a store for a secret may use it at a URL; who tells it to people leaks it.
        let tells = step.is(DATA) && !step.is(CARRIES) && any(STORE);
        let sends = step.is(NETWORK) && any(SECRET) || posts || tells;
        add("chain_read_then_send", sends);
        let sends = step.is(DATA) && any(ENVIRONMENT) || step.is(CARRIES) && any(ALL);
        add("chain_env_then_send", sends);
        add(
            "chain_read_encode_send",
            step.is(DATA) && encoded(before, step),
        );
        let runs = before
            .iter()
            .any(|(past, _)| past.left().any(|name| step.runs(name)));
        add("chain_write_then_execute", runs);
        let looks = step.is(SECRET) && count(LIST | RECON) >= LOOKS_MIN;
        add("chain_recon_then_read", looks);
        add("chain_shell_burst", burst(before, step, now_ms));
        let leaves = step.is(DELETE) && sent_secret(before);
        add("chain_delete_after_send", leaves);
        let stays = step.is(PERSIST) && any(DOWNLOAD);
        add("chain_persist_after_download", stays);

        self.push(step, now_ms);
        found
    }

    fn forget(&mut self, now_ms: u64) {
        let old = |(_, at): &&(Step, u64)| now_ms.saturating_sub(*at) > self.window_ms;
        let gone = self.steps[..self.length].iter().take_while(old).count();
        self.steps.copy_within(gone..self.length, 0);
        self.length -= gone;
    }

    fn push(&mut self, step: Step, now_ms: u64) {
        if self.length == CHAIN_STEPS_MAX {
            self.steps.copy_within(1.., 0);
            self.length -= 1;
        }
        self.steps[self.length] = (step, now_ms);
        self.length += 1;
    }
}

/// Whether something was read and after that encoded.
fn encoded(before: &[(Step, u64)], step: Step) -> bool {
    let read = before
        .iter()
        .position(|(past, _)| past.is(READ | SECRET | ENVIRONMENT));
    read.is_some_and(|read| {
        step.is(ENCODE) || before[read..].iter().any(|(past, _)| past.is(ENCODE))
    })
}

/// Whether a secret was read, and something was sent with it or after it.
fn sent_secret(before: &[(Step, u64)]) -> bool {
    let read = before.iter().position(|(past, _)| past.is(SECRET));
    read.is_some_and(|read| before[read..].iter().any(|(past, _)| past.is(NETWORK)))
}

/// Whether this command is one of many that together look around and reach out.
fn burst(before: &[(Step, u64)], step: Step, now_ms: u64) -> bool {
    let recent = before
        .iter()
        .filter(|(_, at)| now_ms.saturating_sub(*at) <= BURST_MS)
        .map(|(past, _)| *past);
    let shell = recent.chain([step]).filter(|step| step.is(SHELL));
    let (mut steps, mut weight, mut looks) = (0, 0, 0);
    for step in shell {
        steps += 1;
        looks += usize::from(step.is(RECON));
        weight += usize::from(step.is(RECON)) + usize::from(step.is(NETWORK));
        weight += 2 * (usize::from(step.is(SECRET)) + usize::from(step.is(PERSIST)));
    }
    let reaches = weight > looks || looks >= BURST_STEPS_MIN;
    step.is(SHELL) && steps >= BURST_STEPS_MIN && weight >= BURST_WEIGHT_MIN && reaches && looks > 0
}

#[cfg(test)]
mod tests;
