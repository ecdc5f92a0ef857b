//! What an inbound opens messages with: static keys, ticket keys and the peers of today.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use base::{Digest, Now};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use seal::keytext::TicketKey;
use seal::ticket::{TEK_MS, wrap};
use seal::{
    Guard, JoinToken, Key32, Kid, Mode, PeerId, Psk, Public, Responder, Suite, TekRing, Today,
};

use crate::once::{Claims, ticket_place};
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
    pub(super) fn new(enrolled: Vec<Enrolled>, mode: Mode) -> Result<Roll, Problem> {
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
                mode,
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
    /// Where they are made together; set at the start alone.
    fleet: Option<Fleet>,
}

/// How instances make their ticket keys together: whoever is first in an hour puts a key in the store.
struct Fleet {
    claims: Arc<dyn Claims>,
    /// What keys are wrapped under.
    key: Key32,
    /// What the places in the store are called by: the first of our keys.
    kid: Kid,
    state: tokio::sync::Mutex<FleetState>,
    /// Whether a key of the store was wrapped under another key than ours.
    is_other: AtomicBool,
}

#[derive(Default)]
struct FleetState {
    keys: Vec<TicketKey>,
    due_mono_ms: u64,
}

/// Ticket keys that were found good and are not in force yet.
pub(super) enum NextTeks {
    /// Those of the instance itself stay.
    Same,
    Given(TekRing),
    Own(TicketKey, TekRing),
}

/// Between two looks at the ticket keys in the store, in milliseconds; while one is missing it is looked each second.
const SHARED_EVERY_MS: u64 = 5_000;

impl Teks {
    pub(super) fn new(settings: &InboundSettings, now: Now) -> Result<Teks, Problem> {
        let mut own = Vec::new();
        let mut fleet = None;
        let keys = &settings.ticket_keys;
        let ring = match keys {
            TicketKeys::Own => {
                own.push(fresh(now)?);
                ring(&own)?
            }
            TicketKeys::Given(keys) => ring(keys)?,
            TicketKeys::Shared(key) => {
                let first = settings.identities.first();
                fleet = Some(Fleet {
                    claims: settings.claims.clone().ok_or(Problem::NoStore)?,
                    key: key.clone(),
                    kid: first
                        .map(|own| own.public().kid())
                        .ok_or(Problem::NoStore)?,
                    state: tokio::sync::Mutex::default(),
                    is_other: AtomicBool::new(false),
                });
                // A key whose time is over: nothing is minted or opened until the store has one.
                let over = Now { unix_ms: 0, ..now };
                ring(&[fresh(over)?])?
            }
        };
        Ok(Teks {
            fleet,
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
            // Whether they are shared is read at the start alone.
            TicketKeys::Shared(_) => NextTeks::Same,
            _ if self.fleet.is_some() => NextTeks::Same,
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

impl Teks {
    /// Whether sessions can be made, where the store has the keys.
    pub(super) fn is_ready(&self, now: Now) -> bool {
        self.fleet.is_none() || self.ring().minting(now).is_some()
    }

    /// Whether the store has keys that were wrapped under another key than ours.
    pub(super) fn is_of_other_fleet(&self) -> bool {
        let other = |fleet: &Fleet| fleet.is_other.load(Ordering::Relaxed);
        self.fleet.as_ref().is_some_and(other)
    }

    /// Makes the ring what the store says, and puts there what is missing; whoever finds another at it lets it be.
    pub(super) async fn share(&self, now: Now) -> Result<(), Problem> {
        let Some(fleet) = &self.fleet else {
            return Ok(());
        };
        let Ok(mut state) = fleet.state.try_lock() else {
            return Ok(());
        };
        if now.mono_ms < state.due_mono_ms {
            return Ok(());
        }
        let hour = now.unix_ms / TEK_MS;
        let next = now.unix_ms + EARLY_MS >= (hour + 1) * TEK_MS;
        let (mut keys, mut missing) = (Vec::new(), false);
        for hour in hour.saturating_sub(1)..=hour + u64::from(next) {
            match fleet.key_of(hour * TEK_MS, &state.keys, now).await? {
                Some(key) => keys.push(key),
                None => missing = true,
            }
        }
        let every_ms = if missing { 0 } else { SHARED_EVERY_MS };
        state.due_mono_ms = now.mono_ms + every_ms;
        // What the store does not tell stays as it was: a ring outlives the store.
        if !missing {
            self.ring.store(Arc::new(ring(&keys)?));
            state.keys = keys;
        }
        Ok(())
    }
}

impl Fleet {
    /// The key of the hour that begins then: that of the store, or the one that is put there now.
    async fn key_of(
        &self,
        begins_unix_ms: u64,
        known: &[TicketKey],
        now: Now,
    ) -> Result<Option<TicketKey>, Problem> {
        let own = known
            .iter()
            .find(|key| key.begins_unix_ms == begins_unix_ms);
        let at = Now {
            unix_ms: begins_unix_ms,
            ..now
        };
        let own = own.cloned().map_or_else(|| fresh(at), Ok)?;
        let mut nonce = [0; 12];
        random::fill(&mut nonce).map_err(|_| Problem::Random)?;
        let value = wrap::wrap(&self.key, &own, nonce)?;
        let name = ticket_place(self.kid, begins_unix_ms);
        let until = begins_unix_ms + 2 * TEK_MS;
        let ms = until.saturating_sub(now.unix_ms).max(1);
        let Some(stored) = self.claims.place(name, value, ms).await else {
            return Ok(None);
        };
        match wrap::unwrap(&self.key, &stored, begins_unix_ms) {
            Ok(key) => {
                self.is_other.store(false, Ordering::Relaxed);
                Ok(Some(key))
            }
            Err(_) => {
                if !self.is_other.swap(true, Ordering::Relaxed) {
                    tracing::error!(target: "relay", code = "relay.fleet_key",
                        "the ticket keys in the store were wrapped under another key: ticket_keys.key differs among instances");
                }
                Ok(None)
            }
        }
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
