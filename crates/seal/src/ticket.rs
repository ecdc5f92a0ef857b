//! Tickets: the whole state of a session, sealed by the inbound for itself and carried by the outbound.
//!
//! They exist so that any instance can open any message with no store between instances. A ticket gives
//! no authority: what a peer may do is looked up today, by its id. This file refuses tickets of other
//! keys, suites and sessions, and those that are early, expired or ended.

use base::Now;

use crate::error::Error;
use crate::head::{TICKET_BYTES, VERSION, part};
use crate::key::{Kid, PeerId, Sid};
use crate::peers::{Peer, Peers};
use crate::schedule::Secret;
use crate::suite::Suite;

mod ring;
pub mod wrap;

pub(crate) use ring::tek_id;
pub use ring::{TEK_MS, TICKET_KEYS_MAX, Tek, TekRing};

/// How long a session lasts, in milliseconds.
pub const SESSION_MS: u64 = 3_600_000;
/// How far in the future a ticket may have been issued, because clocks of instances differ.
pub const TICKET_FUTURE_MS: u64 = 2_000;
/// Bytes of a ticket's plaintext.
pub(crate) const TICKET_PLAIN_BYTES: usize = 112;

/// What the inbound promises about replays in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// Exact on one instance; a captured message can run once more on each other instance for 30 s.
    Local = 0,
    /// At most once over all instances, by a store; without it the inbound refuses.
    Strict = 1,
}

impl Mode {
    pub(crate) fn from_byte(byte: u8) -> Result<Mode, Error> {
        match byte {
            0 => Ok(Mode::Local),
            1 => Ok(Mode::Strict),
            _ => Err(Error::Field),
        }
    }
}

/// The plaintext of a ticket.
pub(crate) struct Ticket {
    pub(crate) mode: Mode,
    pub(crate) suite: Suite,
    pub(crate) kid: Kid,
    pub(crate) issued_unix_ms: u64,
    pub(crate) expires_unix_ms: u64,
    pub(crate) sid: Sid,
    pub(crate) peer_id: PeerId,
    pub(crate) secret: Secret,
}

impl Ticket {
    /// Writes the plaintext.
    pub(crate) fn write(&self, into: &mut [u8; TICKET_PLAIN_BYTES]) {
        into[0] = VERSION;
        into[1] = self.mode as u8;
        into[2..4].copy_from_slice(&self.suite.number().to_be_bytes());
        into[4..8].fill(0);
        into[8..16].copy_from_slice(&self.kid.0);
        into[16..24].copy_from_slice(&self.issued_unix_ms.to_be_bytes());
        into[24..32].copy_from_slice(&self.expires_unix_ms.to_be_bytes());
        into[32..48].copy_from_slice(&self.sid.0);
        into[48..80].copy_from_slice(&self.peer_id.0);
        into[80..112].copy_from_slice(&self.secret[..]);
    }

    /// Reads the plaintext.
    fn read(bytes: &[u8]) -> Result<Ticket, Error> {
        let bytes: &[u8; TICKET_PLAIN_BYTES] = bytes.try_into().map_err(|_| Error::Length)?;
        if bytes[0] != VERSION || bytes[4..8] != [0; 4] {
            return Err(Error::Field);
        }
        let suite = Suite::from_number(u16::from_be_bytes([bytes[2], bytes[3]]));
        Ok(Ticket {
            mode: Mode::from_byte(bytes[1])?,
            suite: suite.ok_or(Error::Field)?,
            kid: Kid(part(bytes, 8)),
            issued_unix_ms: u64::from_be_bytes(part(bytes, 16)),
            expires_unix_ms: u64::from_be_bytes(part(bytes, 24)),
            sid: Sid(part(bytes, 32)),
            peer_id: PeerId(part(bytes, 48)),
            secret: Secret::new(part(bytes, 80)),
        })
    }

    /// Opens a ticket that came in a request whose head says this suite and session, and makes every
    /// check on it.
    pub(crate) fn open(
        sealed: &[u8; TICKET_BYTES],
        ring: &TekRing,
        head: (Suite, Sid),
        kids: &[Kid],
        peers: &dyn Peers,
        now: Now,
    ) -> Result<Ticket, Error> {
        let ticket = ring.open(sealed, now, Ticket::read)?;
        if (ticket.suite, ticket.sid) != head {
            return Err(Error::TicketSession);
        }
        ticket.check(kids, peers, now)?;
        Ok(ticket)
    }

    /// The checks that are made again on every message, because what they ask changes: the keys and the
    /// peers of today, and the time.
    pub(crate) fn check<'a>(
        &self,
        kids: &[Kid],
        peers: &'a dyn Peers,
        now: Now,
    ) -> Result<&'a Peer, Error> {
        if !kids.contains(&self.kid) {
            return Err(Error::TicketSession);
        }
        if self.issued_unix_ms > now.unix_ms.saturating_add(TICKET_FUTURE_MS) {
            return Err(Error::TicketEarly);
        }
        if now.unix_ms >= self.expires_unix_ms {
            return Err(Error::TicketExpired);
        }
        let peer = peers.peer(&self.peer_id).ok_or(Error::Peer)?;
        if self.issued_unix_ms < peer.sessions_after_unix_ms {
            return Err(Error::TicketEnded);
        }
        // Another promise than the one that is kept here: a session that was promised less or more needs a new ticket.
        if self.mode != peer.mode {
            return Err(Error::TicketMode);
        }
        Ok(peer)
    }
}

#[cfg(test)]
mod tests;
