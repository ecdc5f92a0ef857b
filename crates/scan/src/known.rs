//! Texts that were scanned before, so that a conversation that is sent again each turn is not scanned again each turn.
//!
//! A text is known by an HMAC-SHA-256 of the rules, its place, its bytes and the texts before it in the same call: one that
//! stands elsewhere, after other texts, or under other rules is another. What is kept says only whether anything was found in it. The key
//! is the gateway's own, so nobody outside can make two texts that count as one.
//!
//! Example: a call of the texts `a b c`, after one of `a b`, knows `a` and `b` and scans `c`; one of `x b c` knows none.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use crate::engine::Engine;
use crate::place::Place;

/// Texts that are kept: of as many again the older half goes.
const KNOWN_MAX: usize = 1 << 18;
const BLOCK: usize = 64;

/// What a text is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TextMark([u8; 16]);

impl TextMark {
    /// Of what stands before the first text.
    pub const NONE: TextMark = TextMark([0; 16]);
}

impl Engine {
    /// The mark of a text that stands behind the one of this mark.
    pub fn mark(&self, before: TextMark, place: &Place<'_>, text: &[u8]) -> TextMark {
        let mut meta = Vec::with_capacity(128);
        meta.extend_from_slice(&self.number.to_be_bytes());
        meta.push(place.direction as u8);
        for name in [place.lane, place.target, place.agent] {
            meta.extend_from_slice(&(name.len() as u64).to_be_bytes());
            meta.extend_from_slice(name.as_bytes());
        }
        let mac = hmac(&self.memory_key, &[&before.0, &meta, text]);
        let mut mark = [0; 16];
        mark.copy_from_slice(&mac[..16]);
        TextMark(mark)
    }
}

/// HMAC-SHA-256 (RFC 2104, section 2) of parts one after another; the key is at most a block.
pub(crate) fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut pad = [0x36; BLOCK];
    pad.iter_mut().zip(key).for_each(|(pad, key)| *pad ^= key);
    let mut inner = Sha256::new().chain_update(pad);
    parts.iter().for_each(|part| inner.update(part));
    pad.iter_mut().for_each(|pad| *pad ^= 0x36 ^ 0x5c);
    let outer = Sha256::new().chain_update(pad);
    outer.chain_update(inner.finalize()).finalize().into()
}

/// Marks of texts, with whether nothing was found in each.
#[derive(Default)]
pub struct KnownTexts {
    halves: Mutex<Halves>,
}

#[derive(Default)]
struct Halves {
    young: HashMap<TextMark, bool>,
    old: HashMap<TextMark, bool>,
}

impl Halves {
    fn keep(&mut self, mark: TextMark, is_clean: bool) {
        if self.young.len() >= KNOWN_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(mark, is_clean);
    }
}

impl KnownTexts {
    /// Of the first texts that are known, one after another, whether nothing was found in each.
    pub fn first_known(&self, marks: &[TextMark]) -> Vec<bool> {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = Vec::new();
        for mark in marks {
            let young = halves.young.get(mark).copied();
            let Some(is_clean) = young.or_else(|| halves.old.get(mark).copied()) else {
                break;
            };
            if young.is_none() {
                halves.keep(*mark, is_clean);
            }
            known.push(is_clean);
        }
        known
    }

    /// These texts were scanned, and nothing was found in them, or something.
    pub fn note(&self, scanned: impl Iterator<Item = (TextMark, bool)>) {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        for (mark, is_clean) in scanned {
            halves.keep(mark, is_clean);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Direction;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_mac_is_that_of_rfc_4231() {
        let mac = hmac(&[0x0b; 20], &[b"Hi ", b"There"]);
        assert_eq!(
            hex(&mac),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        let mac = hmac(b"Jefe", &[b"what do ya want for nothing?"]);
        assert_eq!(
            hex(&mac),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn a_text_is_known_in_its_place_alone() {
        let engine = Engine::new(crate::Settings::default(), [1; 32]);
        let other = Engine::new(crate::Settings::default(), [1; 32]);
        let place = Place {
            agent: "dev",
            ..Direction::Outgoing.into()
        };
        let mark = |engine: &Engine, before, place: &Place<'_>, text: &[u8]| {
            engine.mark(before, place, text)
        };
        let first = mark(&engine, TextMark::NONE, &place, b"a");
        assert_eq!(first, mark(&engine, TextMark::NONE, &place, b"a"));
        for different in [
            mark(&other, TextMark::NONE, &place, b"a"),
            mark(&engine, first, &place, b"a"),
            mark(&engine, TextMark::NONE, &place, b"b"),
            mark(
                &engine,
                TextMark::NONE,
                &Place {
                    agent: "eve",
                    ..place
                },
                b"a",
            ),
            mark(
                &engine,
                TextMark::NONE,
                &Place {
                    agent: "de",
                    target: "v",
                    ..place
                },
                b"a",
            ),
            mark(
                &engine,
                TextMark::NONE,
                &Place {
                    direction: Direction::Incoming,
                    ..place
                },
                b"a",
            ),
        ] {
            assert_ne!(first, different);
        }
    }

    #[test]
    fn what_is_used_stays_and_all_is_bounded() {
        let known = KnownTexts::default();
        let mark = |i: u32| {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&i.to_be_bytes());
            TextMark(bytes)
        };
        known.note([(mark(0), true), (mark(1), false)].into_iter());
        for i in 2..400_000 {
            known.note(std::iter::once((mark(i), true)));
            if i % 50_000 == 0 {
                assert_eq!(known.first_known(&[mark(0)]), [true]);
            }
        }
        assert_eq!(
            known.first_known(&[mark(0), mark(1), mark(399_999)]),
            [true]
        );
        let halves = known.halves.lock().unwrap();
        assert!(halves.young.len() + halves.old.len() <= KNOWN_MAX);
    }
}
