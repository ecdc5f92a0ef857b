//! Secrets that are split over calls: the end of what an agent sent is read again with what it sends next.
//!
//! Of each argument, by its name, and of all arguments together, the last bytes are kept for a short while,
//! and wiped when they go.

use std::ops::Range;

use base::limit::{
    SCAN_FRAGMENT_BYTES_MAX, SCAN_FRAGMENT_MS_MAX, SCAN_FRAGMENTS_MAX, SESSION_PENDING_MAX,
};

use crate::joined;
use crate::layer::{Layer, Text};

/// The ends of what one agent sent.
#[derive(Default)]
pub struct Fragments {
    tails: Vec<Tail>,
    /// What calls added that may still be taken back, in their order; at most `SESSION_PENDING_MAX`.
    pending: Vec<Ends>,
    /// The call that is judged now, where it can be taken back.
    call: Option<u64>,
}

/// The ends of what one call sent.
struct Ends {
    call: u64,
    /// The call passes; those before it are not known to.
    kept: bool,
    ends: Vec<Tail>,
}

struct Tail {
    /// The argument's name, hashed; 0 is all of them together.
    key: u64,
    bytes: Vec<u8>,
    seen_ms: u64,
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.bytes.fill(0);
    }
}

impl Tail {
    fn new(key: u64, bytes: &[u8], seen_ms: u64) -> Tail {
        let mut kept = Vec::with_capacity(SCAN_FRAGMENT_BYTES_MAX);
        kept.extend_from_slice(bytes);
        Tail {
            key,
            bytes: kept,
            seen_ms,
        }
    }
}

/// Bytes that are wiped when they go.
#[derive(PartialEq)]
struct Wiped(Vec<u8>);

impl Drop for Wiped {
    fn drop(&mut self) {
        self.0.fill(0);
    }
}

/// Appends to an end, of which the last bytes are kept.
fn append(tail: &mut Vec<u8>, bytes: &[u8]) {
    // Room is made first, so that the bytes never move to where they are not wiped.
    let over = (tail.len() + bytes.len()).saturating_sub(SCAN_FRAGMENT_BYTES_MAX);
    tail.drain(..over.min(tail.len()));
    tail.extend_from_slice(bytes);
}

impl std::fmt::Debug for Fragments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fragments({})", self.tails.len())
    }
}

impl Fragments {
    /// Gives each end that was kept to `search`, joined with what goes on from it, and where it came
    /// from; then keeps the ends of this call.
    pub(crate) fn next<E>(
        &mut self,
        (layer, is_call): (&Layer<'_>, bool),
        now_ms: u64,
        mut search: impl FnMut(&Text, &[u8], Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.forget(now_ms);
        let values = joined::values_said(layer, is_call);
        // Of one argument all are no more than that one.
        let is_one = match &values[..] {
            [(key, _)] => self.tail(hash(key)) == self.tail(0),
            _ => false,
        };
        let mut all: Vec<u8> = Vec::new();
        let mut first = None;
        for (key, value) in values.iter().take(SCAN_FRAGMENTS_MAX) {
            let bytes = &layer.bytes[value.clone()];
            let key = hash(key);
            self.join(key, bytes, value.clone(), &mut search)?;
            self.keep_end(key, bytes, now_ms);
            first = first.or(Some(value.clone()));
            if all.len() < SCAN_FRAGMENT_BYTES_MAX {
                all.extend_from_slice(&bytes[..bytes.len().min(SCAN_FRAGMENT_BYTES_MAX)]);
            }
        }
        if let Some(first) = first {
            if !is_one {
                self.join(0, &all, first, &mut search)?;
            }
            let last = values.iter().rev().take(SCAN_FRAGMENTS_MAX);
            let mut end: Vec<&[u8]> = last.map(|(_, value)| &layer.bytes[value.clone()]).collect();
            end.reverse();
            self.keep_end(0, &end.concat(), now_ms);
            end.clear();
        }
        all.fill(0);
        Ok(())
    }

    /// Searches the end that was kept under a key together with what goes on from it.
    fn join<E>(
        &self,
        key: u64,
        bytes: &[u8],
        place: Range<usize>,
        search: &mut impl FnMut(&Text, &[u8], Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(tail) = self.tail(key) else {
            return Ok(());
        };
        let head = &bytes[..bytes.len().min(SCAN_FRAGMENT_BYTES_MAX)];
        // What follows in the source goes on in a text, so that a byte that is in neither is their seam.
        let mut both = [&tail.0, &b"\0"[..], head].concat();
        let mut text = Text::take();
        let seam = tail.0.len();
        text.copy(&both, 0..seam);
        text.copy(&both, seam + 1..both.len());
        text.one_string();
        let result = search(&text, &both, place);
        text.give();
        both.fill(0);
        result
    }

    /// The end that was kept under a key, and what calls added that may still be taken back.
    fn tail(&self, key: u64) -> Option<Wiped> {
        let pending = self.pending.iter().flat_map(|call| &call.ends);
        let mut all = self.tails.iter().chain(pending);
        let first = all.find(|tail| tail.key == key)?;
        let mut bytes = Vec::with_capacity(SCAN_FRAGMENT_BYTES_MAX);
        bytes.extend_from_slice(&first.bytes);
        for more in all.filter(|tail| tail.key == key) {
            append(&mut bytes, &more.bytes);
        }
        Some(Wiped(bytes))
    }

    /// Keeps the end of what was sent under a key.
    fn keep_end(&mut self, key: u64, bytes: &[u8], now_ms: u64) {
        let from = bytes.len().saturating_sub(SCAN_FRAGMENT_BYTES_MAX);
        let bytes = &bytes[from..];
        let Some(call) = self.call else {
            return self.settle(key, bytes, now_ms);
        };
        if self.pending.last().is_none_or(|last| last.call != call) {
            self.pending.push(Ends {
                call,
                kept: false,
                ends: Vec::new(),
            });
        }
        if let Some(last) = self.pending.last_mut() {
            last.ends.push(Tail::new(key, bytes, now_ms));
        }
    }

    /// Adds to the end under a key what can no longer be taken back.
    fn settle(&mut self, key: u64, bytes: &[u8], now_ms: u64) {
        if let Some(tail) = self.tails.iter_mut().find(|tail| tail.key == key) {
            // A short piece goes on from the one before: three pieces are found like two.
            append(&mut tail.bytes, bytes);
            tail.seen_ms = now_ms;
            return;
        }
        if self.tails.len() == SCAN_FRAGMENTS_MAX {
            let oldest = (0..self.tails.len()).min_by_key(|i| self.tails[*i].seen_ms);
            self.tails.swap_remove(oldest.expect("the list is full"));
        }
        self.tails.push(Tail::new(key, bytes, now_ms));
    }

    /// What is kept from here on belongs to this call, and is forgotten if it is taken back.
    pub(crate) fn begin(&mut self, call: Option<u64>) {
        self.call = call;
        // Room for one more: of too many the oldest counts as passed.
        let over = (self.pending.len() + 1).saturating_sub(SESSION_PENDING_MAX);
        if call.is_some() && over > 0 {
            for call in &mut self.pending[..over] {
                call.kept = true;
            }
            self.settle_first();
        }
    }

    /// The call passes.
    pub(crate) fn keep(&mut self, call: u64) {
        for pending in &mut self.pending {
            pending.kept |= pending.call == call;
        }
        self.settle_first();
    }

    /// The call does not pass: it sent nothing.
    pub(crate) fn take_back(&mut self, call: u64) {
        self.pending.retain(|pending| pending.call != call);
        self.settle_first();
    }

    /// Settles the calls that pass, up to the first that is not known to: what was split stays in its order.
    fn settle_first(&mut self) {
        let waits = self.pending.iter().position(|call| !call.kept);
        let first = waits.unwrap_or(self.pending.len());
        let settled: Vec<Ends> = self.pending.drain(..first).collect();
        for end in settled.iter().flat_map(|call| &call.ends) {
            self.settle(end.key, &end.bytes, end.seen_ms);
        }
    }

    fn forget(&mut self, now_ms: u64) {
        let young = |tail: &Tail| now_ms.saturating_sub(tail.seen_ms) < SCAN_FRAGMENT_MS_MAX;
        self.tails.retain(young);
    }
}

/// FNV-1a, never 0. It tells names apart, and nothing depends on that it cannot be forged: two names of
/// one hash share a tail.
fn hash(name: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    name.iter().fold(0xcbf2_9ce4_8422_2325, step).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept under a key after these calls: their numbers, the text, and whether each passes.
    fn kept(calls: &[(u64, &str, Option<bool>)]) -> String {
        let mut fragments = Fragments::default();
        for (call, text, _) in calls {
            fragments.begin(Some(*call));
            fragments.keep_end(7, text.as_bytes(), 1);
        }
        fragments.begin(None);
        // The last one is known of first: the log answers in any order.
        for (call, _, passes) in calls.iter().rev() {
            match passes {
                Some(true) => fragments.keep(*call),
                Some(false) => fragments.take_back(*call),
                None => {}
            }
        }
        if calls.iter().all(|(.., passes)| passes.is_some()) {
            assert!(fragments.pending.is_empty());
        }
        let tail = fragments.tail(7);
        tail.map_or_else(String::new, |tail| {
            String::from_utf8_lossy(&tail.0).into_owned()
        })
    }

    #[test]
    fn a_call_that_is_taken_back_sent_nothing() {
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(kept(&[(1, "a", yes), (2, "b", yes), (3, "c", yes)]), "abc");
        assert_eq!(kept(&[(1, "a", yes), (2, "b", no), (3, "c", yes)]), "ac");
        assert_eq!(kept(&[(1, "a", no), (2, "b", no)]), "");
        // What is not known yet counts, and in its place.
        assert_eq!(kept(&[(1, "a", None), (2, "b", yes), (3, "c", no)]), "ab");
        // What is long and taken back pushes nothing out.
        let long = "x".repeat(SCAN_FRAGMENT_BYTES_MAX * 2);
        assert_eq!(kept(&[(1, "a", yes), (2, &long, no), (3, "b", yes)]), "ab");
        assert_eq!(
            kept(&[(1, "a", yes), (2, &long, yes)]).len(),
            SCAN_FRAGMENT_BYTES_MAX
        );
    }

    #[test]
    fn what_may_be_taken_back_is_bounded() {
        let mut fragments = Fragments::default();
        for call in 0..1000 {
            fragments.begin(Some(call));
            fragments.keep_end(7, b"a", 1);
            assert!(fragments.pending.len() <= SESSION_PENDING_MAX);
        }
        // The oldest counts as passed, and so nothing is forgotten.
        fragments.take_back(0);
        let tail = fragments.tail(7).map(|tail| tail.0.len());
        assert_eq!(tail, Some(SCAN_FRAGMENT_BYTES_MAX));
    }
}
