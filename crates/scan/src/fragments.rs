//! Secrets that are split over calls: the end of what an agent sent is read again with what it sends next.
//!
//! Of each argument, by its name, and of all arguments together, the last bytes are kept for a short while,
//! and wiped when they go.

use std::ops::Range;

use base::limit::{SCAN_FRAGMENT_BYTES_MAX, SCAN_FRAGMENT_MS_MAX, SCAN_FRAGMENTS_MAX};

use crate::joined;
use crate::layer::{Layer, Text};

/// The ends of what one agent sent.
#[derive(Default)]
pub struct Fragments {
    tails: Vec<Tail>,
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
            self.keep(key, bytes, now_ms);
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
            self.keep(0, &end.concat(), now_ms);
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
        let mut both = [tail, b"\0", head].concat();
        let mut text = Text::take();
        let seam = tail.len();
        text.copy(&both, 0..seam);
        text.copy(&both, seam + 1..both.len());
        text.one_string();
        let result = search(&text, &both, place);
        text.give();
        both.fill(0);
        result
    }

    /// The end that was kept under a key.
    fn tail(&self, key: u64) -> Option<&[u8]> {
        let tail = self.tails.iter().find(|tail| tail.key == key);
        tail.map(|tail| &tail.bytes[..])
    }

    fn keep(&mut self, key: u64, bytes: &[u8], now_ms: u64) {
        let from = bytes.len().saturating_sub(SCAN_FRAGMENT_BYTES_MAX);
        let bytes = &bytes[from..];
        if let Some(tail) = self.tails.iter_mut().find(|tail| tail.key == key) {
            // A short piece goes on from the one before: three pieces are found like two.
            tail.bytes.extend_from_slice(bytes);
            let over = tail.bytes.len().saturating_sub(SCAN_FRAGMENT_BYTES_MAX);
            tail.bytes.drain(..over);
            tail.seen_ms = now_ms;
            return;
        }
        if self.tails.len() == SCAN_FRAGMENTS_MAX {
            let oldest = (0..self.tails.len()).min_by_key(|i| self.tails[*i].seen_ms);
            self.tails.swap_remove(oldest.expect("the list is full"));
        }
        let mut kept = Vec::with_capacity(SCAN_FRAGMENT_BYTES_MAX);
        kept.extend_from_slice(bytes);
        self.tails.push(Tail {
            key,
            bytes: kept,
            seen_ms: now_ms,
        });
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
