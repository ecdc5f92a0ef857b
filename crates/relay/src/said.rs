//! What is said in the log of things that anybody can cause: each reason once in a while, with how often it was.
//!
//! A stranger who sends junk could otherwise fill the log. It holds a bounded number of reasons; over it, what was said
//! longest ago is forgotten, so that a new reason is always heard.

use std::collections::HashMap;

/// Between two lines of one reason, in milliseconds.
const EVERY_MS: u64 = 10_000;
/// Reasons that are remembered.
const REASONS_MAX: usize = 64;
/// Longest reason that is remembered, in characters.
const REASON_CHARS_MAX: usize = 200;

/// When each reason was said last, and how often it came since.
#[derive(Default)]
pub(crate) struct Said(HashMap<Box<str>, (u64, u64)>);

impl Said {
    /// Whether to say a reason now, by the monotonic clock: how often it came since it was said last, with this time.
    pub(crate) fn may_say(&mut self, why: &str, mono_ms: u64) -> Option<u64> {
        let end = why.char_indices().nth(REASON_CHARS_MAX);
        let why = end.map_or(why, |(end, _)| &why[..end]);
        if let Some((at, times)) = self.0.get_mut(why) {
            *times += 1;
            if mono_ms.saturating_sub(*at) < EVERY_MS {
                return None;
            }
            *at = mono_ms;
            return Some(std::mem::take(times));
        }
        if self.0.len() >= REASONS_MAX {
            let oldest = self.0.iter().min_by_key(|(_, (at, _))| *at);
            let oldest = oldest.map(|(why, _)| why.clone());
            oldest.and_then(|why| self.0.remove(&why));
        }
        self.0.insert(why.into(), (mono_ms, 0));
        Some(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_said_now_and_then_with_its_number() {
        let mut said = Said::default();
        assert_eq!(said.may_say("a", 5), Some(1));
        assert_eq!(said.may_say("a", 5), None);
        assert_eq!(said.may_say("b", 6), Some(1));
        assert_eq!(said.may_say("a", 10_004), None);
        assert_eq!(said.may_say("a", 10_005), Some(3));
        assert_eq!(said.may_say("a", 10_006), None);
    }

    #[test]
    fn reasons_are_bounded_and_a_new_one_is_heard() {
        let mut said = Said::default();
        for i in 0..10 * REASONS_MAX as u64 {
            assert_eq!(said.may_say(&format!("reason {i}"), i), Some(1));
        }
        assert_eq!(said.0.len(), REASONS_MAX);
        assert_eq!(said.may_say("reason 0", 10_000), Some(1));
    }
}
