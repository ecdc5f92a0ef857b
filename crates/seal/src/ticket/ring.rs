//! The ring of ticket keys: which key seals new tickets, and which keys still open old ones.
//!
//! It exists so that keys turn over with no failed request: a key mints for an hour and opens for one
//! more. A ring never changes; a new one is put in its place. It refuses to mint with a key that is not
//! in its hour.

use aws_lc_rs::aead::AES_256_GCM_SIV;
use base::Now;
use zeroize::Zeroizing;

use super::{SESSION_MS, TICKET_PLAIN_BYTES, Ticket};
use crate::aead::Key;
use crate::error::Error;
use crate::head::{TAG_BYTES, TICKET_BYTES, part};

/// How long a ticket key mints, in milliseconds; it opens for as long again.
pub const TEK_MS: u64 = 3_600_000;
/// Most ticket keys in a ring: two are in use at once, and the next ones may lie ready.
pub const TICKET_KEYS_MAX: usize = 8;

/// A ticket key. Whoever has it opens the messages of its two hours and can pretend to be any peer.
pub struct Tek {
    id: u32,
    key: Key,
    begins_unix_ms: u64,
}

impl Tek {
    /// A key that mints from this time on. Instances that share tickets share id, key and time.
    pub fn new(id: u32, key: [u8; 32], begins_unix_ms: u64) -> Tek {
        let key = Zeroizing::new(key);
        Tek {
            id,
            key: Key::new(&AES_256_GCM_SIV, &key),
            begins_unix_ms,
        }
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    /// From when on it mints no more, in Unix milliseconds.
    pub fn mints_until_unix_ms(&self) -> u64 {
        self.begins_unix_ms.saturating_add(TEK_MS)
    }

    /// From when on it opens nothing, in Unix milliseconds.
    pub fn ends_unix_ms(&self) -> u64 {
        self.begins_unix_ms.saturating_add(2 * TEK_MS)
    }
}

/// Ticket keys, one of which mints at a time.
pub struct TekRing(Vec<Tek>);

impl TekRing {
    /// # Errors
    /// [`Error::Ring`] for no keys, more than [`TICKET_KEYS_MAX`], or two of one id.
    pub fn new(mut keys: Vec<Tek>) -> Result<TekRing, Error> {
        keys.sort_by_key(|tek| (tek.begins_unix_ms, tek.id));
        let twice = keys
            .iter()
            .enumerate()
            .any(|(at, tek)| keys[..at].iter().any(|other| other.id == tek.id));
        if keys.is_empty() || keys.len() > TICKET_KEYS_MAX || twice {
            return Err(Error::Ring);
        }
        Ok(TekRing(keys))
    }

    /// The key that mints now: the youngest of those in their hour, so that instances with the same ring
    /// agree. Nothing if there is none.
    pub fn minting(&self, now: Now) -> Option<&Tek> {
        let minting = |tek: &&Tek| {
            tek.begins_unix_ms <= now.unix_ms && now.unix_ms < tek.mints_until_unix_ms()
        };
        self.0.iter().rev().find(minting)
    }

    /// Whether a ticket that names this key can be opened now.
    pub(crate) fn opens(&self, id: u32, now: Now) -> bool {
        self.find(id, now).is_some()
    }

    fn find(&self, id: u32, now: Now) -> Option<&Tek> {
        let opens = |tek: &&Tek| tek.id == id && now.unix_ms < tek.ends_unix_ms();
        self.0.iter().find(opens)
    }

    /// Seals a ticket that begins now. It expires after an hour, or with its key.
    pub(crate) fn mint(
        &self,
        ticket: &Ticket,
        tek: &Tek,
        nonce: [u8; 12],
    ) -> Result<[u8; TICKET_BYTES], Error> {
        let mut sealed = [0; TICKET_BYTES];
        sealed[..4].copy_from_slice(&tek.id.to_be_bytes());
        sealed[4..16].copy_from_slice(&nonce);
        let mut plain = Zeroizing::new([0; TICKET_PLAIN_BYTES]);
        ticket.write(&mut plain);
        let tag = tek.key.seal(nonce, &aad(tek.id), &mut plain[..])?;
        sealed[16..TICKET_BYTES - TAG_BYTES].copy_from_slice(&plain[..]);
        sealed[TICKET_BYTES - TAG_BYTES..].copy_from_slice(&tag);
        Ok(sealed)
    }

    /// Opens a ticket by the key that it names, and reads it.
    pub(crate) fn open(
        &self,
        sealed: &[u8; TICKET_BYTES],
        now: Now,
        read: impl FnOnce(&[u8]) -> Result<Ticket, Error>,
    ) -> Result<Ticket, Error> {
        let id = tek_id(sealed);
        let tek = self.find(id, now).ok_or(Error::TicketKey)?;
        let mut text = Zeroizing::new(part::<{ TICKET_BYTES - 16 }>(sealed, 16));
        let opened = tek.key.open(part(sealed, 4), &aad(id), &mut text[..]);
        let ticket = read(opened.map_err(|_| Error::TicketOpen)?)?;
        Ok(ticket)
    }
}

impl Tek {
    /// When a ticket that this key mints now expires, in Unix milliseconds.
    pub(crate) fn expires_unix_ms(&self, now: Now) -> u64 {
        now.unix_ms
            .saturating_add(SESSION_MS)
            .min(self.ends_unix_ms())
    }
}

/// The id of the key that sealed a ticket, as the ticket says.
pub(crate) fn tek_id(sealed: &[u8; TICKET_BYTES]) -> u32 {
    u32::from_be_bytes(part(sealed, 0))
}

/// What a ticket's seal covers beside its text.
fn aad(id: u32) -> [u8; 15] {
    let mut aad = *b"shr1 ticket\0\0\0\0";
    aad[11..].copy_from_slice(&id.to_be_bytes());
    aad
}
