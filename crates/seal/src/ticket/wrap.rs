//! Ticket keys as they lie in a store that instances share: wrapped under a key of the fleet, which the store never has.
//!
//! Whoever reads the store learns nothing, and whoever writes to it cannot make a ticket key: a value that this fleet
//! did not wrap, or not for this hour, does not open.

use aws_lc_rs::aead::AES_256_GCM_SIV;
use zeroize::Zeroizing;

use crate::aead::Key;
use crate::error::Error;
use crate::head::{TAG_BYTES, part};
use crate::key::Key32;
use crate::keytext::TicketKey;

/// Bytes of the id and the key.
const PLAIN_BYTES: usize = 36;
/// Bytes of a wrapped ticket key: nonce, id and key, tag.
pub const WRAPPED_BYTES: usize = 12 + PLAIN_BYTES + TAG_BYTES;

/// Wraps a ticket key; `nonce` is random.
///
/// # Errors
/// None that these lengths give.
pub fn wrap(fleet: &Key32, key: &TicketKey, nonce: [u8; 12]) -> Result<Vec<u8>, Error> {
    let mut plain = Zeroizing::new([0; PLAIN_BYTES]);
    plain[..4].copy_from_slice(&key.id.to_be_bytes());
    plain[4..].copy_from_slice(key.key.bytes());
    let sealer = Key::new(&AES_256_GCM_SIV, fleet.bytes());
    let tag = sealer.seal(nonce, &aad(key.begins_unix_ms), &mut plain[..])?;
    Ok([&nonce[..], &plain[..], &tag[..]].concat())
}

/// Opens one that was wrapped for the hour that begins then.
///
/// # Errors
/// [`Error::Length`], and [`Error::Open`] for another fleet's key or another hour's.
pub fn unwrap(fleet: &Key32, wrapped: &[u8], begins_unix_ms: u64) -> Result<TicketKey, Error> {
    let wrapped: &[u8; WRAPPED_BYTES] = wrapped.try_into().map_err(|_| Error::Length)?;
    let opener = Key::new(&AES_256_GCM_SIV, fleet.bytes());
    let mut text = Zeroizing::new(part::<{ PLAIN_BYTES + TAG_BYTES }>(wrapped, 12));
    let plain = opener.open(part(wrapped, 0), &aad(begins_unix_ms), &mut text[..])?;
    Ok(TicketKey {
        id: u32::from_be_bytes(part(plain, 0)),
        key: Key32::new(part(plain, 4)),
        begins_unix_ms,
    })
}

fn aad(begins_unix_ms: u64) -> [u8; 25] {
    let mut aad = *b"weir ticket key 1\0\0\0\0\0\0\0\0";
    aad[17..].copy_from_slice(&begins_unix_ms.to_be_bytes());
    aad
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapped_key_opens_for_its_fleet_and_its_hour_alone() {
        let (fleet, other) = (Key32::new([1; 32]), Key32::new([2; 32]));
        let key = TicketKey {
            id: 7,
            key: Key32::new([3; 32]),
            begins_unix_ms: 3_600_000,
        };
        let wrapped = wrap(&fleet, &key, [4; 12]).unwrap();
        assert!(!wrapped.windows(8).any(|bytes| bytes == [3; 8]));
        let opened = unwrap(&fleet, &wrapped, 3_600_000).unwrap();
        assert_eq!((opened.id, opened.key.bytes()), (7, &[3; 32]));
        assert!(unwrap(&other, &wrapped, 3_600_000).is_err());
        assert!(unwrap(&fleet, &wrapped, 7_200_000).is_err());
        for at in 0..wrapped.len() {
            let mut changed = wrapped.clone();
            changed[at] ^= 1;
            assert!(unwrap(&fleet, &changed, 3_600_000).is_err(), "{at}");
            assert!(unwrap(&fleet, &wrapped[..at], 3_600_000).is_err(), "{at}");
        }
    }
}
