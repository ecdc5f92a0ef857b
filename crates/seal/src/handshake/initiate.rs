//! The outbound's side: writes the init, and makes a session of the reply.
//!
//! It exists as one value that is used up: a [`Pending`] holds the ephemeral key and is gone, key and all,
//! once a reply was tried. It refuses a reply to another init, of another key, or with a field it does
//! not know.

use std::sync::Arc;

use base::Now;
use zeroize::Zeroizing;

use super::{
    CT1, CT1_CAPS, CT1_PEER, CT1_TIME, CT2, CT2_BYTES, CT2_EXPIRES, CT2_LONGEST, CT2_MODE,
    CT2_NEXT_PIN, CT2_T, CT2_TICKET, CT2_TIME, ENC1, ENC2, ENC3, KID, MAC1, info, transcript,
};
use crate::aead::Key;
use crate::error::Error;
use crate::head::{
    HEAD_BYTES, Head, INIT_BYTES, Kind, PUBLIC_BYTES, REPLY_BYTES, TICKET_BYTES, part,
};
use crate::kem::{self, Exported};
use crate::key::{Identity, JoinToken, Pin, Psk, Public, Sid};
use crate::random::InitRandom;
use crate::schedule::{hmac, mac1_key, prk, reply_key, session_secret};
use crate::session::{SESSION_MS, Session, Terms, offset_ms};
use crate::suite::Suite;
use crate::ticket::Mode;

/// Most pre-shared keys that an outbound tries on one reply: today's, and the next.
pub(super) const PSKS_MAX: usize = 2;

/// What an outbound needs to begin a handshake with one inbound.
pub struct Outbound {
    /// Our own key.
    pub identity: Arc<Identity>,
    /// The inbound's key: one that hashes to a configured pin.
    pub inbound: Public,
    /// Chosen by the configuration, and by nothing else.
    pub suite: Suite,
    pub token: Option<JoinToken>,
    /// The keys of this pair; more than one while they turn over. With any, no reply without one opens.
    /// Only the first two are tried.
    pub psks: Vec<Psk>,
}

/// A handshake that waits for its reply.
pub struct Pending {
    outbound: Arc<Outbound>,
    ephemeral: Identity,
    exp1: Exported,
    init: Box<[u8; INIT_BYTES]>,
    began: Now,
}

/// Begins a handshake. [`Pending::init`] is what to send.
///
/// # Errors
/// [`Error::Own`] if the inbound has our own key.
pub fn initiate(outbound: Arc<Outbound>, now: Now, random: InitRandom) -> Result<Pending, Error> {
    if outbound.inbound == *outbound.identity.public() {
        return Err(Error::Own);
    }
    let seed = Zeroizing::new(part::<32>(random.bytes(), 0));
    let ephemeral = Identity::from_seed(&seed);
    let mut init = Box::new([0; INIT_BYTES]);
    let head = Head {
        kind: Kind::Init,
        suite: outbound.suite,
        flag: false,
    };
    init[..HEAD_BYTES].copy_from_slice(&head.to_bytes());
    init[KID..ENC1].copy_from_slice(&outbound.inbound.kid().0);
    let plain = &mut init[CT1..MAC1];
    plain[..PUBLIC_BYTES].copy_from_slice(ephemeral.public().bytes());
    plain[CT1_PEER..CT1_TIME].copy_from_slice(&outbound.identity.public().peer_id().0);
    plain[CT1_TIME..CT1_CAPS].copy_from_slice(&now.unix_ms.to_be_bytes());

    let exp1 = seal(&outbound, &mut init, &random)?;
    let token = JoinToken::bytes(outbound.token.as_ref());
    let mac = hmac(&mac1_key(outbound.inbound.bytes(), token), &init[..MAC1]);
    init[MAC1..].copy_from_slice(&mac[..16]);
    Ok(Pending {
        outbound,
        ephemeral,
        exp1,
        init,
        began: now,
    })
}

/// Seals ct1 in place and writes enc1.
fn seal(
    outbound: &Outbound,
    init: &mut [u8; INIT_BYTES],
    random: &InitRandom,
) -> Result<Exported, Error> {
    let info = [b"shr1 init", &init[..ENC1]].concat();
    let (enc1, exp1) = kem::encapsulate(
        outbound.suite,
        &outbound.inbound,
        &info,
        &Zeroizing::new(part(random.bytes(), 32)),
        Some(&mut init[CT1..MAC1]),
        b"shr1 exp",
    )?;
    init[ENC1..CT1].copy_from_slice(&enc1);
    Ok(exp1)
}

impl Pending {
    /// The message to send.
    pub fn init(&self) -> &[u8; INIT_BYTES] {
        &self.init
    }

    /// Makes a session of the reply. The ephemeral key is wiped, whatever comes of it.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Version`] and [`Error::Head`] for another form, [`Error::Open`] for a
    /// reply to another init, by another key, to another key, or with another psk, and [`Error::Field`]
    /// for a reply that verifies and makes no sense.
    pub fn finish(self, reply: &[u8], now: Now) -> Result<Session, Error> {
        self.try_finish(reply, now)
    }

    pub(super) fn try_finish(&self, reply: &[u8], now: Now) -> Result<Session, Error> {
        let reply: &[u8; REPLY_BYTES] = reply.try_into().map_err(|_| Error::Length)?;
        let head = Head::read(part(reply, 0), Kind::Reply)?;
        if head.suite != self.outbound.suite {
            return Err(Error::Head);
        }
        let ss2 = self.decapsulate(&self.ephemeral, &reply[ENC2..ENC3], b"eph", b"ss2")?;
        let own = &self.outbound.identity;
        let ss3 = self.decapsulate(own, &reply[ENC3..CT2], b"static", b"ss3")?;
        let th = transcript(&self.outbound.inbound, own.public(), &self.init[..], reply);
        let psks = self.outbound.psks.iter().take(PSKS_MAX).map(Some);
        let none = self.outbound.psks.is_empty().then_some(None);
        for psk in psks.chain(none) {
            let prk = prk(&th, [&self.exp1, &ss2, &ss3, Psk::bytes(psk)]);
            let key = Key::new(head.suite.cipher(), &reply_key(&prk));
            let mut ct2 = Zeroizing::new(part::<{ REPLY_BYTES - CT2 }>(reply, CT2));
            if let Ok(plain) = key.open([0; 12], &th, &mut ct2[..]) {
                let plain: &[u8; CT2_BYTES] = &part(plain, 0);
                let terms = self.terms(plain, now)?;
                return Ok(Session::new(terms, session_secret(&prk)));
            }
        }
        Err(Error::Open)
    }

    fn decapsulate(
        &self,
        with: &Identity,
        enc: &[u8],
        info_word: &[u8],
        label_word: &[u8],
    ) -> Result<Exported, Error> {
        let info = info(&[b"shr1 ", info_word].concat(), &self.init[..]);
        let label = [b"shr1 ", label_word].concat();
        kem::decapsulate(self.outbound.suite, with.secret(), enc, &info, None, &label)
    }

    #[cfg(test)]
    pub(super) fn swap_identity(&mut self, identity: Identity) {
        let outbound = Arc::get_mut(&mut self.outbound).expect("a handshake of a test");
        outbound.identity = Arc::new(identity);
    }

    /// Reads the plaintext of ct2.
    fn terms(&self, plain: &[u8; CT2_BYTES], now: Now) -> Result<Terms, Error> {
        let server_unix_ms = u64::from_be_bytes(part(plain, CT2_TIME));
        let expires_unix_ms = u64::from_be_bytes(part(plain, CT2_EXPIRES));
        let ticket_bytes = u16::from_be_bytes(part(plain, CT2_T));
        let life_ms = expires_unix_ms.checked_sub(server_unix_ms);
        let in_bounds = life_ms.is_some_and(|life| (1..=SESSION_MS).contains(&life));
        let sound =
            in_bounds && plain[CT2_MODE + 1] == 0 && usize::from(ticket_bytes) == TICKET_BYTES;
        if !sound {
            return Err(Error::Field);
        }
        let next_pin = Pin(part(plain, CT2_NEXT_PIN));
        let no_pin = next_pin.0 == [0; 32];
        Ok(Terms {
            inbound: self.outbound.inbound.pin(),
            sid: Sid(part(plain, 0)),
            suite: self.outbound.suite,
            mode: Mode::from_byte(plain[CT2_MODE])?,
            ticket: part(plain, CT2_TICKET),
            server_unix_ms,
            expires_unix_ms,
            longest_bytes: u64::from_be_bytes(part(plain, CT2_LONGEST)),
            next_pin: (!no_pin).then_some(next_pin),
            offset_ms: offset_ms(server_unix_ms, self.began, now),
        })
    }
}
