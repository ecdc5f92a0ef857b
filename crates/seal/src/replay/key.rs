//! The name of a window, hashed once.
//!
//! Peers choose their senders, so the hash has a key that they do not know; it only spreads windows over the table,
//! and no answer depends on it.

use std::hash::{BuildHasherDefault, Hash, Hasher};

use crate::{PeerId, SenderId};

/// Makes hashes of names.
#[derive(Clone, Copy)]
pub(super) struct Spread {
    keys: [u64; 2],
}

impl Spread {
    pub(super) fn new(hash_key: [u8; 16]) -> Spread {
        let number = u128::from_be_bytes(hash_key);
        Spread {
            keys: [(number >> 64) as u64, number as u64],
        }
    }

    #[inline]
    pub(super) fn key(&self, peer_id: PeerId, sender: SenderId) -> Key {
        let mut hash = self.keys[0];
        for part in [&peer_id.0[..16], &peer_id.0[16..], &sender.0[..]] {
            let (a, b) = part.split_at(8);
            hash = fold(word(a) ^ hash, word(b) ^ self.keys[1]) ^ hash.rotate_left(23);
        }
        Key {
            peer_id,
            sender,
            hash: fold(hash ^ self.keys[1], self.keys[0] | 1),
        }
    }
}

#[inline]
fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("half of 16 bytes"))
}

/// Both halves of a product of two words, as one.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// A peer's sender.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    peer_id: PeerId,
    sender: SenderId,
    hash: u64,
}

impl Key {
    /// One of `shards`, by bits that a map uses last.
    #[inline]
    pub(super) fn shard(&self, shards: usize) -> usize {
        (self.hash >> 32) as usize % shards
    }
}

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Takes the hash as it is.
#[derive(Default)]
pub(super) struct AsItIs(u64);

impl Hasher for AsItIs {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        // Keys write one word; anything else is still hashed, if badly.
        self.0 = bytes
            .iter()
            .fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }
}

pub(super) type ByHash = BuildHasherDefault<AsItIs>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_a_name_moves_its_place() {
        let spread = Spread::new(*b"0123456789abcdef");
        let (peer_id, sender) = ([7; 32], [9; 16]);
        let plain = spread.key(PeerId(peer_id), SenderId(sender));
        for bit in 0..384 {
            let (mut other_peer, mut other_sender) = (peer_id, sender);
            match bit {
                0..256 => other_peer[bit / 8] ^= 1 << (bit % 8),
                _ => other_sender[bit / 8 - 32] ^= 1 << (bit % 8),
            }
            let other = spread.key(PeerId(other_peer), SenderId(other_sender));
            assert_ne!(plain.hash, other.hash, "bit {bit}");
        }
        assert_ne!(
            plain.hash,
            Spread::new([1; 16])
                .key(PeerId(peer_id), SenderId(sender))
                .hash
        );
    }

    #[test]
    fn senders_are_spread_evenly() {
        let spread = Spread::new(*b"0123456789abcdef");
        let mut counts = [0_u32; 64];
        for number in 0_u128..64_000 {
            counts[spread
                .key(PeerId([0; 32]), SenderId(number.to_be_bytes()))
                .shard(64)] += 1;
        }
        assert!(
            counts.iter().all(|count| (800..1200).contains(count)),
            "{counts:?}"
        );
    }
}
