//! What an inbound opens messages with: static keys, ticket keys and the peers of today.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use base::{Digest, Now};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use seal::keytext::TicketKey;
use seal::ticket::TEK_MS;
use seal::{
    Guard, JoinToken, Key32, Kid, Mode, PeerId, Psk, Public, Responder, Suite, TekRing, Today,
};

use crate::random;
use crate::settings::{Agent, Enrolled, InboundSettings, PEERS_MAX, Problem, TicketKeys};

/// How long before its hour is over the instance's own ticket key gets a successor, in milliseconds.
const EARLY_MS: u64 = 60_000;

/// The peers that are enrolled. Whoever asks has opened a ticket that names the peer, so nobody chooses where he falls.
pub(super) struct Roll {
    peers: HashMap<PeerId, (seal::Peer, usize), BuildHasherDefault<AsItIs>>,
    agents: Vec<(Agent, Digest)>,
}

impl seal::Peers for Roll {
    fn peer(&self, id: &PeerId) -> Option<&seal::Peer> {
        self.peers.get(id).map(|(peer, _)| peer)
    }
}

impl Roll {
    pub(super) fn new(enrolled: Vec<Enrolled>) -> Result<Roll, Problem> {
        if enrolled.len() > PEERS_MAX {
            return Err(Problem::TooMany("peers"));
        }
        let mut roll = Roll {
            peers: HashMap::default(),
            agents: Vec::new(),
        };
        for Enrolled {
            agent,
            public,
            psk,
            sessions_after_unix_ms,
        } in enrolled
        {
            let id = public.peer_id();
            let peer = seal::Peer {
                public,
                psk: psk.map(|psk| Psk::new(*psk.bytes())).transpose()?,
                mode: Mode::Local,
                sessions_after_unix_ms,
            };
            let place = roll.agents.len();
            if roll.peers.insert(id, (peer, place)).is_some() {
                return Err(Problem::PeerTwice(agent.name));
            }
            roll.agents.push((agent, Digest(id.0)));
        }
        Ok(roll)
    }

    /// The place of a peer, by which grants are kept.
    pub(super) fn place(&self, id: &PeerId) -> Option<usize> {
        self.peers.get(id).map(|(_, place)| *place)
    }

    /// The agent at a place, and what names its key in records.
    pub(super) fn agent(&self, place: usize) -> &(Agent, Digest) {
        &self.agents[place]
    }
}

/// The hash of what is a hash already: its first bytes.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 ^= u64::from_le_bytes(*first);
        }
    }

    fn write_usize(&mut self, _: usize) {}
}

/// The ticket keys of an instance.
pub(super) struct Teks {
    ring: ArcSwap<TekRing>,
    /// Those that this instance made itself.
    own: Mutex<Vec<TicketKey>>,
    is_own: ArcSwap<bool>,
}

/// Ticket keys that were found good and are not in force yet.
pub(super) enum NextTeks {
    /// Those of the instance itself stay.
    Same,
    Given(TekRing),
    Own(TicketKey, TekRing),
}

impl Teks {
    pub(super) fn new(keys: &TicketKeys, now: Now) -> Result<Teks, Problem> {
        let mut own = Vec::new();
        let ring = match keys {
            TicketKeys::Own => {
                own.push(fresh(now)?);
                ring(&own)?
            }
            TicketKeys::Given(keys) => ring(keys)?,
        };
        Ok(Teks {
            ring: ArcSwap::from_pointee(ring),
            is_own: ArcSwap::from_pointee(!own.is_empty()),
            own: Mutex::new(own),
        })
    }

    pub(super) fn ring(&self) -> arc_swap::Guard<Arc<TekRing>> {
        self.ring.load()
    }

    /// Makes what is to come in force; the instance's own keys stay if there are no others.
    pub(super) fn prepare(&self, keys: &TicketKeys, now: Now) -> Result<NextTeks, Problem> {
        Ok(match keys {
            TicketKeys::Given(keys) => NextTeks::Given(ring(keys)?),
            TicketKeys::Own if **self.is_own.load() => NextTeks::Same,
            TicketKeys::Own => {
                let key = fresh(now)?;
                let ring = ring(std::slice::from_ref(&key))?;
                NextTeks::Own(key, ring)
            }
        })
    }

    /// Puts in force what was prepared.
    pub(super) fn take(&self, next: NextTeks) {
        let ring = match next {
            NextTeks::Same => return,
            NextTeks::Given(ring) => {
                self.is_own.store(Arc::new(false));
                ring
            }
            NextTeks::Own(key, ring) => {
                *self.own.lock().unwrap_or_else(PoisonError::into_inner) = vec![key];
                self.is_own.store(Arc::new(true));
                ring
            }
        };
        self.ring.store(Arc::new(ring));
    }

    /// Makes a new key of its own when it is time, and forgets those that open nothing any more.
    pub(super) fn turn(&self, now: Now) -> Result<(), Problem> {
        if !**self.is_own.load() {
            return Ok(());
        }
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let due = |key: &TicketKey| now.unix_ms + EARLY_MS >= key.begins_unix_ms + TEK_MS;
        // A clock that went back behind the begin of the key leaves nothing that mints, too.
        let early = |key: &TicketKey| now.unix_ms < key.begins_unix_ms;
        if !own.last().is_none_or(|key| due(key) || early(key)) {
            return Ok(());
        }
        own.push(fresh(now)?);
        own.retain(|key| now.unix_ms < key.begins_unix_ms + 2 * TEK_MS);
        let over = own.len().saturating_sub(seal::ticket::TICKET_KEYS_MAX);
        own.drain(..over);
        self.ring.store(Arc::new(ring(&own)?));
        Ok(())
    }
}

fn ring(keys: &[TicketKey]) -> Result<TekRing, Problem> {
    Ok(TekRing::new(keys.iter().map(TicketKey::tek).collect())?)
}

fn fresh(now: Now) -> Result<TicketKey, Problem> {
    let (mut id, mut key) = ([0; 4], [0; 32]);
    random::fill(&mut id).map_err(|_| Problem::Random)?;
    random::fill(&mut key).map_err(|_| Problem::Random)?;
    Ok(TicketKey {
        id: u32::from_be_bytes(id),
        key: Key32::new(key),
        begins_unix_ms: now.unix_ms,
    })
}

/// The answers to handshakes, with our keys and tokens.
pub(super) fn responder(
    settings: &mut InboundSettings,
    guard: Arc<Guard>,
) -> Result<Responder, Problem> {
    let identities = std::mem::take(&mut settings.identities);
    let tokens = settings.tokens.iter().map(|token| JoinToken::new(&token.0));
    let tokens: Vec<JoinToken> = tokens.collect::<Result<_, _>>()?;
    let longest = settings.content_bytes_max;
    let next = settings.next_pin;
    let responder = Responder::new(identities, &tokens, longest, next, guard)?;
    Ok(responder.with_session_ms(settings.session_ms))
}

/// What is asked on every message.
pub(super) fn today<'a>(ring: &'a TekRing, kids: &'a [Kid], roll: &'a Roll) -> Today<'a> {
    Today {
        ring,
        kids,
        peers: roll,
    }
}

/// The list of `/.well-known/shr/keys`.
pub(super) fn list<'k>(keys: impl Iterator<Item = &'k Public>) -> Vec<u8> {
    let suites = Suite::ALL.map(Suite::number);
    let entry = |key: &Public| {
        serde_json::json!({
            "kid": key.kid().to_string(),
            "suite": suites,
            "pk": URL_SAFE_NO_PAD.encode(key.bytes()),
        })
    };
    let keys: Vec<_> = keys.map(entry).collect();
    serde_json::json!({ "keys": keys }).to_string().into_bytes()
}
