//! Calls that are harmless one by one: what an agent did in the last minutes, and what that adds up to.
//!
//! It keeps of each call what kind of step it was and hashes of the names of files that it left behind,
//! for a bounded number of calls and a bounded time. Nothing of the texts is kept, and no clock is read.

mod step;

use base::limit::SESSION_PENDING_MAX;

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
    /// The oldest first.
    steps: Vec<Past>,
    window_ms: u64,
    /// The call that is judged now, where it can be taken back.
    call: Option<u64>,
}

/// A step that was made.
#[derive(Clone, Copy, Debug)]
struct Past {
    step: Step,
    at_ms: u64,
    /// The call that it belongs to, until it is known that the call passes.
    pending: Option<u64>,
}

/// A rule that a step completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    pub rule: &'static str,
    /// The kind of earlier call that makes it so.
    pub after: &'static str,
    /// For how long the same call completes the rule, in milliseconds from now.
    pub for_ms: u64,
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
            steps: Vec::new(),
            window_ms,
            call: None,
        }
    }

    /// Adds a step, and answers the rules that it completes. `now_ms` is of any clock that does not go back.
    pub fn observe(&mut self, step: Step, now_ms: u64) -> Vec<Link> {
        self.steps
            .retain(|past| now_ms.saturating_sub(past.at_ms) <= self.window_ms);
        if step.is_nothing() {
            return Vec::new();
        }
        let completed = completed(&self.steps, step, now_ms);
        let link = |(rule, after)| Link {
            rule,
            after,
            for_ms: self.lasts(rule, step, now_ms),
        };
        let found = completed.into_iter().map(link).collect();
        self.steps.push(Past {
            step,
            at_ms: now_ms,
            pending: self.call,
        });
        self.bound();
        found
    }

    /// How long the step completes the rule: until enough of the steps before it are too old.
    fn lasts(&self, rule: &str, step: Step, now_ms: u64) -> u64 {
        let ends = |past: &Past| [past.at_ms + self.window_ms + 1, past.at_ms + BURST_MS + 1];
        let mut ends: Vec<u64> = self.steps.iter().flat_map(ends).collect();
        ends.sort_unstable();
        let over = |then: &u64| {
            let young = |past: &&Past| then.saturating_sub(past.at_ms) <= self.window_ms;
            let left: Vec<Past> = self.steps.iter().filter(young).copied().collect();
            let holds = completed(&left, step, *then);
            *then > now_ms && holds.iter().all(|(still, _)| *still != rule)
        };
        let over = ends.into_iter().find(over);
        over.map_or(self.window_ms, |then| then - now_ms)
    }

    /// What is observed from here on belongs to this call, and is forgotten if it is taken back.
    pub(crate) fn begin(&mut self, call: Option<u64>) {
        self.call = call;
    }

    /// The call passes: its steps were made.
    pub(crate) fn keep(&mut self, call: u64) {
        for past in &mut self.steps {
            past.pending = past.pending.filter(|pending| *pending != call);
        }
        self.bound();
    }

    /// The call does not pass: none of its steps was made.
    pub(crate) fn take_back(&mut self, call: u64) {
        self.steps.retain(|past| past.pending != Some(call));
    }

    /// Forgets the oldest steps. One that may be taken back takes no other's place until it is kept; of too many
    /// such the oldest counts as made.
    fn bound(&mut self) {
        let pending = |past: &&mut Past| past.pending.is_some();
        let over = self.steps.iter_mut().filter(pending).count();
        let over = over.saturating_sub(SESSION_PENDING_MAX);
        for past in self.steps.iter_mut().filter(pending).take(over) {
            past.pending = None;
        }
        let kept = |past: &Past| past.pending.is_none();
        let mut over = self.steps.iter().filter(|past| kept(past)).count();
        while over > CHAIN_STEPS_MAX
            && let Some(oldest) = self.steps.iter().position(kept)
        {
            self.steps.remove(oldest);
            over -= 1;
        }
    }
}

/// The rules that a step completes after those before it, each with what it completes it after.
fn completed(before: &[Past], step: Step, now_ms: u64) -> Vec<(&'static str, &'static str)> {
    let any = |kinds: u16| before.iter().any(|past| past.step.is(kinds));
    let count = |kinds: u16| before.iter().filter(|past| past.step.is(kinds)).count();
    let mut found: Vec<(&'static str, &'static str)> = Vec::new();
    let mut add = |rule, holds: bool, after| {
        if holds && found.last().is_none_or(|(last, _)| *last != rule) {
            found.push((rule, after));
        }
    };
    let rule = "chain_read_then_send";
    let sends = step.is(NETWORK) && any(SECRET);
    add(rule, sends, "a call that read or held a secret");
    let posts = step.is(CARRIES) && step.is(DATA) && any(CONFIG);
    let after = "a call that read settings, which hold passwords as a rule";
    add(rule, posts, after);
    // Who asks a store for a secret may use it at a URL; who tells it to people leaks it.
    let tells = step.is(DATA) && !step.is(CARRIES) && any(STORE);
    add(rule, tells, "a call that asked a store of secrets for one");
    let sends = step.is(DATA) && any(ENVIRONMENT) || step.is(CARRIES) && any(ALL);
    let after = "a call that read the environment";
    add("chain_env_then_send", sends, after);
    let sends = step.is(DATA) && encoded(before, step);
    let after = "calls that read something and encoded it";
    add("chain_read_encode_send", sends, after);
    let runs = |past: &Past| past.step.left().any(|name| step.runs(name));
    let after = "a call that left the file which this one runs";
    add("chain_write_then_execute", before.iter().any(runs), after);
    let looks = step.is(SECRET) && count(LIST | RECON) >= LOOKS_MIN;
    add("chain_recon_then_read", looks, "calls that looked around");
    let after = "commands within a minute that looked around and reached out";
    add("chain_shell_burst", burst(before, step, now_ms), after);
    let leaves = step.is(DELETE) && sent_secret(before);
    let after = "calls that read a secret and sent something";
    add("chain_delete_after_send", leaves, after);
    let stays = step.is(PERSIST) && any(DOWNLOAD);
    let after = "a call that downloaded something";
    add("chain_persist_after_download", stays, after);
    found
}

/// Whether something was read and after that encoded.
fn encoded(before: &[Past], step: Step) -> bool {
    let read = before
        .iter()
        .position(|past| past.step.is(READ | SECRET | ENVIRONMENT));
    let encodes = |past: &Past| past.step.is(ENCODE);
    read.is_some_and(|read| step.is(ENCODE) || before[read..].iter().any(encodes))
}

/// Whether a secret was read, and something was sent with it or after it.
fn sent_secret(before: &[Past]) -> bool {
    let read = before.iter().position(|past| past.step.is(SECRET));
    let sends = |past: &Past| past.step.is(NETWORK);
    read.is_some_and(|read| before[read..].iter().any(sends))
}

/// Whether this command is one of many that together look around and reach out.
fn burst(before: &[Past], step: Step, now_ms: u64) -> bool {
    let recent = before
        .iter()
        .filter(|past| now_ms.saturating_sub(past.at_ms) <= BURST_MS)
        .map(|past| past.step);
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
