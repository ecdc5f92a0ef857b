//! The inbound's side: checks an init in a fixed order and writes the reply.
//!
//! It exists so that what costs nothing is asked first: form, key id, budget and mac1 come before any
//! decapsulation. It keeps nothing but the mac1, and learns nothing about the peer that it may act upon:
//! a reply proves nothing until a message opens.

use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::{constant_time, hmac};
use base::Now;
use zeroize::Zeroizing;

use super::seen::Seen;
use super::{
    Budget, CT1, CT1_PEER, CT1_TIME, CT2, CT2_BYTES, CT2_EXPIRES, CT2_LONGEST, CT2_MODE,
    CT2_NEXT_PIN, CT2_T, CT2_TICKET, CT2_TIME, ENC1, ENC2, ENC3, INIT_CLOCK_MS, KID, MAC1, info,
    transcript,
};
use crate::aead::Key;
use crate::error::{Error, Refused};
use crate::head::{
    HEAD_BYTES, Head, INIT_BYTES, Kind, PUBLIC_BYTES, REPLY_BYTES, TAG_BYTES, TICKET_BYTES, part,
};
use crate::hint::Hint;
use crate::kem::{self, Exported};
use crate::key::{Identity, JoinToken, Kid, PeerId, Pin, Psk, Public, Sid};
use crate::peers::{Peer, Peers};
use crate::random::ReplyRandom;
use crate::schedule::{mac1_key, prk, reply_key, session_secret};
use crate::suite::Suite;
use crate::ticket::{SESSION_MS, TekRing, Ticket};

/// Most static keys of one inbound: two while they turn over, and room for a mistake.
pub const IDENTITIES_MAX: usize = 4;
/// The shortest session, in milliseconds.
pub(super) const SESSION_MS_MIN: u64 = 1_000;
/// Most join tokens that are good at once.
pub const TOKENS_MAX: usize = 2;

/// What one instance remembers of handshakes, whatever its configuration becomes.
#[derive(Default)]
pub struct Guard {
    budget: Budget,
    seen: Mutex<Seen>,
}

impl Guard {
    pub fn new(budget: Budget) -> Guard {
        Guard {
            budget,
            seen: Mutex::default(),
        }
    }

    fn has_seen(&self, mac: &[u8; 16]) -> bool {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .has(mac)
    }

    fn add(&self, mac: [u8; 16]) -> bool {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(mac)
    }
}

/// An inbound that answers handshakes. All threads share one; a new configuration is a new one, over
/// the same [`Guard`].
pub struct Responder {
    doors: Vec<Door>,
    kids: Vec<Kid>,
    longest_bytes: u64,
    next_pin: Option<Pin>,
    session_ms: u64,
    guard: Arc<Guard>,
}

/// One static key, with the key of mac1 for each join token.
struct Door {
    identity: Identity,
    macs: Vec<hmac::Key>,
}

/// An init that opened: whose, and with what.
struct Opened<'a> {
    door: &'a Door,
    suite: Suite,
    ephemeral: Public,
    peer: &'a Peer,
    peer_id: PeerId,
    exp1: Exported,
}

impl Responder {
    /// An inbound with these static keys. With tokens, an init without one of them is refused.
    /// `longest_bytes` is the longest message that peers are told we take; `next_pin` the key that peers
    /// are told to expect.
    ///
    /// # Errors
    /// [`Error::Keys`] for no key, more than [`IDENTITIES_MAX`], a key twice, or more than
    /// [`TOKENS_MAX`] tokens.
    pub fn new(
        identities: Vec<Identity>,
        tokens: &[JoinToken],
        longest_bytes: u64,
        next_pin: Option<Pin>,
        guard: Arc<Guard>,
    ) -> Result<Responder, Error> {
        let kids: Vec<Kid> = identities.iter().map(|own| own.public().kid()).collect();
        let twice = (1..kids.len()).any(|at| kids[..at].contains(&kids[at]));
        let fits = (1..=IDENTITIES_MAX).contains(&kids.len()) && tokens.len() <= TOKENS_MAX;
        if twice || !fits {
            return Err(Error::Keys);
        }
        let door = |identity: Identity| {
            let given = tokens.iter().map(Some);
            let tokens = given.chain(tokens.is_empty().then_some(None));
            let key = |token| mac1_key(identity.public().bytes(), JoinToken::bytes(token));
            let macs = tokens.map(|token| hmac::Key::new(hmac::HMAC_SHA256, &key(token)));
            Door {
                macs: macs.collect(),
                identity,
            }
        };
        Ok(Responder {
            doors: identities.into_iter().map(door).collect(),
            kids,
            longest_bytes,
            next_pin,
            session_ms: SESSION_MS,
            guard,
        })
    }

    /// Has sessions end after this long, in milliseconds: an hour at most, a second at least.
    #[must_use]
    pub fn with_session_ms(self, session_ms: u64) -> Responder {
        let session_ms = session_ms.clamp(SESSION_MS_MIN, SESSION_MS);
        Responder { session_ms, ..self }
    }

    /// The ids of our keys: what a ticket's kid must be among.
    pub fn kids(&self) -> &[Kid] {
        &self.kids
    }

    /// Our public keys, for `/.well-known/shr/keys`.
    pub fn publics(&self) -> impl Iterator<Item = &Public> {
        self.doors.iter().map(|door| door.identity.public())
    }

    /// Answers an init. `random` is called only once the init has passed every check.
    ///
    /// # Errors
    /// The hint to send back, and the reason to log. The order of checks is the specification's; the
    /// budget is asked before mac1 and paid after it, so that junk does not spend it.
    pub fn answer(
        &self,
        init: &[u8],
        now: Now,
        random: impl FnOnce() -> ReplyRandom,
        ring: &TekRing,
        peers: &dyn Peers,
    ) -> Result<Box<[u8; REPLY_BYTES]>, Refused> {
        let form = |_| Refused::form(Error::Length);
        let init: &[u8; INIT_BYTES] = init.try_into().map_err(form)?;
        let head = Head::read(part(init, 0), Kind::Init).map_err(Refused::form)?;
        let door = self.door(Kid(part(init, KID)))?;
        self.pass_guard(door, init, now)?;
        let failed = |error| Refused::new(Hint::OpenFailed, error);
        let opened = self
            .open(door, head.suite, init, now, peers)
            .map_err(failed)?;
        let busy = |error| Refused::new(Hint::Overload, error);
        self.reply(&opened, init, now, random, ring).map_err(busy)
    }

    fn door(&self, kid: Kid) -> Result<&Door, Refused> {
        self.doors
            .iter()
            .find(|door| door.identity.public().kid() == kid)
            .ok_or(Refused::new(Hint::UnknownKid, Error::Kid))
    }

    /// Budget, mac1, mac1 not opened before; then the handshake is paid for.
    fn pass_guard(&self, door: &Door, init: &[u8; INIT_BYTES], now: Now) -> Result<(), Refused> {
        let spent = Refused::new(Hint::Overload, Error::Budget);
        if !self.guard.budget.has_room(now) {
            return Err(spent);
        }
        let mac: [u8; 16] = part(init, MAC1);
        if !door.knows(&mac, &init[..MAC1]) {
            return Err(Refused::new(Hint::OpenFailed, Error::Mac));
        }
        if self.guard.has_seen(&mac) {
            return Err(Refused::new(Hint::OpenFailed, Error::Repeated));
        }
        if !self.guard.budget.take(now) {
            return Err(spent);
        }
        Ok(())
    }

    /// Decapsulates, and checks what was in it.
    fn open<'a>(
        &self,
        door: &'a Door,
        suite: Suite,
        init: &[u8; INIT_BYTES],
        now: Now,
        peers: &'a dyn Peers,
    ) -> Result<Opened<'a>, Error> {
        let mut ct1: [u8; MAC1 - CT1] = part(init, CT1);
        let exp1 = kem::decapsulate(
            suite,
            door.identity.secret(),
            &init[ENC1..CT1],
            &[b"shr1 init", &init[..ENC1]].concat(),
            Some(&mut ct1),
            b"shr1 exp",
        )?;
        // Two threads may have opened the same init at once: one of them remembers it first.
        if !self.guard.add(part(init, MAC1)) {
            return Err(Error::Repeated);
        }
        let time_unix_ms = u64::from_be_bytes(part(&ct1, CT1_TIME));
        if now.unix_ms.abs_diff(time_unix_ms) > INIT_CLOCK_MS {
            return Err(Error::Clock);
        }
        let ephemeral = Public::from_bytes(&ct1[..PUBLIC_BYTES])?;
        let peer_id = PeerId(part(&ct1, CT1_PEER));
        let peer = peers.peer(&peer_id).ok_or(Error::Peer)?;
        if self.publics().any(|own| *own == peer.public) {
            return Err(Error::Own);
        }
        // An entry under an id that is not its key's would let one key speak in another's name.
        if peer.public.peer_id() != peer_id {
            return Err(Error::Peer);
        }
        Ok(Opened {
            door,
            suite,
            ephemeral,
            peer,
            peer_id,
            exp1,
        })
    }

    fn reply(
        &self,
        opened: &Opened<'_>,
        init: &[u8; INIT_BYTES],
        now: Now,
        random: impl FnOnce() -> ReplyRandom,
        ring: &TekRing,
    ) -> Result<Box<[u8; REPLY_BYTES]>, Error> {
        let tek = ring.minting(now).ok_or(Error::NoTicketKey)?;
        let random = random();
        let suite = opened.suite;
        let mut reply = Box::new([0; REPLY_BYTES]);
        let head = Head {
            kind: Kind::Reply,
            suite,
            flag: false,
        };
        reply[..HEAD_BYTES].copy_from_slice(&head.to_bytes());
        let encapsulate = |to: &Public, info_label: &[u8], at, label: &[u8]| {
            let random = Zeroizing::new(part(random.bytes(), at));
            kem::encapsulate(suite, to, &info(info_label, init), &random, None, label)
        };
        let (enc2, ss2) = encapsulate(&opened.ephemeral, b"shr1 eph", 0, b"shr1 ss2")?;
        reply[ENC2..ENC3].copy_from_slice(&enc2);
        let (enc3, ss3) = encapsulate(&opened.peer.public, b"shr1 static", 64, b"shr1 ss3")?;
        reply[ENC3..CT2].copy_from_slice(&enc3);

        let inbound = opened.door.identity.public();
        let th = transcript(inbound, &opened.peer.public, init, &reply[..]);
        let psk = Psk::bytes(opened.peer.psk.as_ref());
        let prk = prk(&th, [&opened.exp1, &ss2, &ss3, psk]);
        let ticket = Ticket {
            mode: opened.peer.mode,
            suite,
            kid: inbound.kid(),
            issued_unix_ms: now.unix_ms,
            expires_unix_ms: tek
                .expires_unix_ms(now)
                .min(now.unix_ms.saturating_add(self.session_ms)),
            sid: Sid(part(random.bytes(), 128)),
            peer_id: opened.peer_id,
            secret: session_secret(&prk),
        };
        let sealed = ring.mint(&ticket, tek, part(random.bytes(), 144))?;
        let (text, tag) = reply[CT2..].split_at_mut(CT2_BYTES);
        self.write_terms(text, &ticket, &sealed);
        let key = Key::new(suite.cipher(), &reply_key(&prk));
        tag.copy_from_slice(&key.seal([0; 12], &th, text)?);
        debug_assert_eq!(tag.len(), TAG_BYTES);
        Ok(reply)
    }

    /// Writes the plaintext of ct2 over zeros.
    fn write_terms(&self, text: &mut [u8], ticket: &Ticket, sealed: &[u8; TICKET_BYTES]) {
        text[..CT2_TIME].copy_from_slice(&ticket.sid.0);
        text[CT2_TIME..CT2_EXPIRES].copy_from_slice(&ticket.issued_unix_ms.to_be_bytes());
        text[CT2_EXPIRES..CT2_MODE].copy_from_slice(&ticket.expires_unix_ms.to_be_bytes());
        text[CT2_MODE] = ticket.mode as u8;
        text[CT2_T..CT2_LONGEST].copy_from_slice(&(TICKET_BYTES as u16).to_be_bytes());
        text[CT2_LONGEST..CT2_NEXT_PIN].copy_from_slice(&self.longest_bytes.to_be_bytes());
        if let Some(pin) = self.next_pin {
            text[CT2_NEXT_PIN..CT2_TICKET].copy_from_slice(&pin.0);
        }
        text[CT2_TICKET..].copy_from_slice(sealed);
    }
}

impl Door {
    /// Whether mac1 was made with this key and one of the join tokens, in constant time.
    fn knows(&self, mac: &[u8; 16], text: &[u8]) -> bool {
        let same = |key: &hmac::Key| {
            let made = hmac::sign(key, text);
            constant_time::verify_slices_are_equal(&made.as_ref()[..16], mac).is_ok()
        };
        self.macs.iter().any(same)
    }
}
