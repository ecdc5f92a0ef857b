//! What may be done after an attempt that brought no answer: the section "Retry" of the protocol, and nothing else.
//!
//! It is a table without sockets, so that each line of it has a test. What is not known to be harmless is not sent
//! again, and the application is told that the call may have been executed.

use base::{Code, refusal};
use seal::{Advice, Answer, Attempt, Mode};

use crate::plain::is_safe;

/// Attempts of one call.
pub(super) const ATTEMPTS_MAX: u32 = 3;
/// How long after the first attempt another may name it, in milliseconds.
pub(super) const RETRY_OF_MS_MAX: u64 = 60_000;
/// A message that is this much too old, in milliseconds, can never be let through any more.
const DEAD_MS: u64 = 40_000;
/// Longest wait before another attempt, in milliseconds.
pub(super) const WAIT_MS_MAX: u64 = 1_000;
/// The wait where the other side names none, in milliseconds.
const WAIT_MS: u64 = 50;

/// How an attempt ended, if not by an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nobody can have seen any of it.
    Unsent,
    /// The peer's own sealed answer.
    Weir(Answer),
    /// A plain answer, which anyone can have made.
    Plain(Advice),
    /// No answer, or one that does not open.
    Lost,
}

/// The next attempt, or the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A message of its own.
    New { wait_ms: u64 },
    /// A message that names the first attempt.
    RetryOf { wait_ms: u64 },
    /// No more; this is what the application is told.
    Give(&'static Code),
}

/// One call, over its attempts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// GET, HEAD or OPTIONS.
    pub(super) is_safe: bool,
    /// Whether the whole request is still at hand.
    pub(super) can_repeat: bool,
    /// The attempt that others name, and when it was made by the monotonic clock.
    pub(super) first: Option<(Attempt, u64)>,
    /// The attempt that was made last.
    pub(super) last: Option<Attempt>,
    /// Whether the next attempt names the first.
    pub(super) names_first: bool,
    /// Whether a new handshake is asked for.
    pub(super) shake: bool,
    attempts: u32,
    may_have_run: bool,
}

impl Call {
    pub(super) fn new(method: &[u8]) -> Call {
        Call {
            is_safe: is_safe(method),
            can_repeat: true,
            first: None,
            last: None,
            names_first: false,
            shake: false,
            attempts: 0,
            may_have_run: false,
        }
    }

    /// The first attempt, where the next one has to name it.
    pub(super) fn retry_of(&self) -> Option<Attempt> {
        let (first, _) = self.first?;
        self.names_first.then_some(first)
    }

    /// Notes that an attempt has its name.
    pub(super) fn sealed(&mut self, attempt: Attempt, mono_ms: u64) {
        self.last = Some(attempt);
        if !self.names_first || self.first.is_none() {
            self.first = Some((attempt, mono_ms));
        }
    }

    pub(super) fn is_first(&self) -> bool {
        self.attempts == 0
    }

    /// Decides what follows an attempt.
    pub(super) fn after(&mut self, fate: Fate, mode: Mode, mono_ms: u64) -> Next {
        self.attempts += 1;
        self.shake |= matches!(
            fate,
            Fate::Plain(Advice::Handshake | Advice::HandshakeOnceASecond | Advice::OtherKey)
        );
        let next = self.wanted(fate, mode);
        let spent = self.attempts >= ATTEMPTS_MAX || !self.can_repeat;
        let next = match next {
            Next::Give(_) => next,
            _ if spent => Next::Give(self.last_word(fate)),
            Next::RetryOf { wait_ms } if !self.can_name_first(mono_ms) => {
                if self.is_safe {
                    Next::New { wait_ms }
                } else {
                    Next::Give(self.last_word(fate))
                }
            }
            next => next,
        };
        self.names_first = match (next, fate) {
            // Nothing happened: the same attempt once more.
            (_, Fate::Unsent) => self.names_first,
            (next, _) => matches!(next, Next::RetryOf { .. }),
        };
        next
    }

    fn wanted(&mut self, fate: Fate, mode: Mode) -> Next {
        let now = Next::New { wait_ms: 0 };
        match fate {
            Fate::Unsent => Next::New { wait_ms: WAIT_MS },
            Fate::Weir(answer) => self.after_answer(answer, mode),
            Fate::Plain(Advice::Fail) => {
                self.may_have_run = true;
                Next::Give(self.last_word(fate))
            }
            Fate::Plain(Advice::OtherInstance) => self.unknown(mode, WAIT_MS),
            Fate::Plain(_) | Fate::Lost => match self.unknown(mode, 0) {
                // The second of two answers that were lost: the name of the first is taken by now.
                Next::RetryOf { .. } if self.is_safe && self.attempts > 1 => now,
                next => next,
            },
        }
    }

    fn after_answer(&mut self, answer: Answer, mode: Mode) -> Next {
        use seal::Code;
        let now = Next::New { wait_ms: 0 };
        let asked_ms = u64::from(answer.retry_after_ms).min(WAIT_MS_MAX);
        match answer.code {
            Code::Claimed | Code::Failed | Code::Cut if self.is_safe => {
                self.may_have_run = true;
                now
            }
            Code::Claimed => {
                self.may_have_run = true;
                Next::Give(refusal::RELAY_MAYBE)
            }
            Code::Failed | Code::Cut => self.unknown(mode, 0),
            Code::Stale if self.is_safe => now,
            Code::Stale => {
                let ts = self.last.map_or(0, |last| last.ts_unix_ms);
                match answer.server_unix_ms.saturating_sub(ts) > DEAD_MS {
                    true => now,
                    false => self.unknown(mode, 0),
                }
            }
            Code::Draining => Next::RetryOf { wait_ms: asked_ms },
            Code::Overload => Next::RetryOf {
                wait_ms: asked_ms.max(WAIT_MS),
            },
            Code::Malformed => Next::Give(refusal::RELAY_FORM),
            Code::Refused => Next::Give(refusal::RELAY_REFUSED),
            Code::NotReached => Next::New {
                wait_ms: asked_ms.max(WAIT_MS),
            },
        }
    }

    /// After something of which nobody knows whether the call was executed.
    fn unknown(&mut self, mode: Mode, wait_ms: u64) -> Next {
        self.may_have_run = true;
        match mode == Mode::Strict || self.is_safe {
            true => Next::RetryOf { wait_ms },
            false => Next::Give(refusal::RELAY_MAYBE),
        }
    }

    fn can_name_first(&self, mono_ms: u64) -> bool {
        let since = |(_, began): (Attempt, u64)| mono_ms.saturating_sub(began);
        self.first
            .map(since)
            .is_some_and(|ms| ms <= RETRY_OF_MS_MAX)
    }

    /// What the application is told when there is no further attempt.
    fn last_word(&self, fate: Fate) -> &'static Code {
        match fate {
            _ if self.may_have_run && self.is_safe => refusal::RELAY_FAILED,
            _ if self.may_have_run => refusal::RELAY_MAYBE,
            Fate::Weir(answer) if answer.code == seal::Code::NotReached => refusal::RELAY_ORIGIN,
            Fate::Weir(_) => refusal::RELAY_BUSY,
            _ => refusal::RELAY_DOWN,
        }
    }
}

#[cfg(test)]
mod tests;
