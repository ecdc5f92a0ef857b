//! From the settings of the relay to its two sides, and to their listeners.
//!
//! It refuses to decide: what is checked here was found good when the configuration was read.

use std::sync::Arc;

use base::{Name, Secret};
use net::mutual::{Credentials, MutualClient};
use net::{Endpoint, Targets};
use relay::{
    Agent, Callers, HostMatch, InboundSettings, Key32, OutboundSettings, TicketKeys, Token,
};
use seal::{Identity, keytext};

use crate::config::settings::relay::{Inbound, Mutual, Outbound, Peer, Place, Relay, Route, To};
use crate::config::settings::{Limits, Settings};

/// What is read is checked then.
const CHECKED: &str = "it was checked when it was read";

/// What an outbound of these settings is told. Agents' keys that have expired by `unix_ms` are left out.
pub(crate) fn outbound(outbound: &Outbound, settings: &Settings, unix_ms: u64) -> OutboundSettings {
    let by_tls = outbound.peers.iter().filter(|peer| peer.mutual.is_some());
    let by_tls: Vec<_> = by_tls.collect();
    let route = |written: &Route| {
        let mut route = route(written);
        if let relay::To::Peer(name) = &route.to
            && by_tls.iter().any(|peer| peer.place.name == *name)
        {
            route.to = relay::To::Plain(name.clone());
        }
        route
    };
    let plain = outbound.plain.iter().map(named);
    let by_tls = by_tls.iter().map(|peer| peer_endpoint(peer));
    OutboundSettings {
        routes: outbound.routes.iter().map(route).collect(),
        peers: sealed(outbound).flatten().collect(),
        plain: plain.chain(by_tls).collect(),
        callers: callers(outbound, settings, unix_ms),
        content_bytes_max: outbound.content_bytes_max,
        edge: net::h1::ConnectionSettings {
            http2: outbound.http2,
            ..bounds(&settings.limits)
        },
        upstream: bounds(&settings.limits),
    }
}

/// The peers of an outbound that it seals for, in the place of each; nothing for one that is spoken to by TLS.
pub(crate) fn sealed(outbound: &Outbound) -> impl Iterator<Item = Option<relay::Peer>> + '_ {
    let own = outbound.key.as_ref().map(|key| Arc::new(identity(key)));
    outbound.peers.iter().map(move |peer| {
        let identity = own.as_ref().filter(|_| peer.mutual.is_none())?;
        Some(relay::Peer {
            name: peer.place.name.clone(),
            endpoint: endpoint(&peer.place),
            keys: peer.keys.clone(),
            suite: peer.suite,
            identity: Arc::clone(identity),
            psks: peer.psks.iter().map(psk).collect(),
            token: peer.join_token.as_ref().map(token),
            padding: peer.padding,
        })
    })
}

/// What an inbound of these settings is told.
pub(crate) fn inbound(inbound: &Inbound, settings: &Settings) -> InboundSettings {
    let peers = inbound.allow.iter().map(|peer| relay::Enrolled {
        agent: Agent {
            name: peer.name.clone(),
            groups: peer.groups.clone(),
            state: state(&peer.name, settings),
        },
        public: peer.public.clone(),
        psk: peer.psk.as_ref().map(psk),
        sessions_after_unix_ms: peer.sessions_after_unix_ms,
    });
    let mutual = inbound.mutual.as_ref().map(|mutual| relay::Mutual {
        credentials: mutual.credentials().expect(CHECKED),
        peers: inbound
            .certified
            .iter()
            .map(|peer| {
                let agent = Agent {
                    name: peer.name.clone(),
                    groups: peer.groups.clone(),
                    state: state(&peer.name, settings),
                };
                (agent, peer.certificate_name.clone())
            })
            .collect(),
    });
    InboundSettings {
        mutual,
        routes: inbound.routes.iter().map(route).collect(),
        origins: inbound.origins.iter().map(named).collect(),
        identities: inbound.keys.iter().map(identity).collect(),
        peers: peers.collect(),
        tokens: inbound.join_tokens.iter().map(token).collect(),
        ticket_keys: match (&inbound.ticket_keys, &inbound.fleet_key) {
            (_, Some(key)) => TicketKeys::Shared(psk(key)),
            (Some(keys), None) => TicketKeys::Given(keys.clone()),
            (None, None) => TicketKeys::Own,
        },
        mode: inbound.mode,
        // Whoever opens the lane has it.
        claims: None,
        session_ms: inbound.session_ms,
        next_pin: inbound.next_key,
        windows_max: inbound.windows_max,
        handshake_cpu_us_per_s: inbound.handshake_cpu_us_per_s,
        content_bytes_max: inbound.content_bytes_max,
        padding: inbound.padding,
        edge: net::h1::ConnectionSettings {
            http2: inbound.http2,
            ..bounds(&settings.limits)
        },
        upstream: bounds(&settings.limits),
    }
}

/// Every place of both sides, as `net` is told of it.
pub(crate) fn endpoints(relay: &Relay) -> Vec<(Name, Endpoint)> {
    let outbound = relay.outbound.iter();
    let peers = outbound.clone().flat_map(|side| &side.peers);
    let plain = outbound.flat_map(|side| &side.plain);
    let origins = relay.inbound.iter().flat_map(|side| &side.origins);
    let others = plain.chain(origins).map(named);
    peers.map(peer_endpoint).chain(others).collect()
}

/// A certificate that a peer is to be shown from now on.
pub(crate) struct Renewal<'t> {
    client: &'t MutualClient,
    credentials: Credentials,
}

/// The certificates of these settings, for the peers that are spoken to by mtls. The error is the name of one that was
/// not when the gateway started: what is sent there would not be under TLS.
pub(crate) fn renewals<'t>(
    outbound: &Outbound,
    targets: &'t Targets,
) -> Result<Vec<Renewal<'t>>, Name> {
    let peers = outbound.peers.iter();
    let by_tls = peers.filter_map(|peer| Some((&peer.place.name, peer.mutual.as_ref()?)));
    let renewal = |(name, mutual): (&Name, &Mutual)| {
        let client = targets.endpoint(name).and_then(|at| at.mutual.as_deref());
        Ok(Renewal {
            client: client.ok_or_else(|| name.clone())?,
            credentials: mutual.credentials().expect(CHECKED),
        })
    };
    by_tls.map(renewal).collect()
}

impl Renewal<'_> {
    /// Puts it in the place of the one before.
    pub(crate) fn apply(&self) {
        self.client.replace(&self.credentials).expect(CHECKED);
    }
}

/// A peer as `net` is told of it.
pub(crate) fn peer_endpoint(peer: &Peer) -> (Name, Endpoint) {
    let mut endpoint = endpoint(&peer.place);
    endpoint.mutual = peer.mutual.as_ref().map(|mutual| {
        let credentials = mutual.credentials().expect(CHECKED);
        Arc::new(MutualClient::new(&credentials).expect(CHECKED))
    });
    (peer.place.name.clone(), endpoint)
}

/// A place as `net` is told of it.
pub(crate) fn endpoint(place: &Place) -> Endpoint {
    Endpoint {
        http2: place.http2,
        ..super::endpoint(&place.url, place.ca.as_ref())
    }
}

/// What the key of this text is called: as an outbound, and as an inbound.
pub(crate) fn names(key: &Secret) -> (seal::PeerId, seal::Pin) {
    let identity = identity(key);
    (identity.public().peer_id(), identity.public().pin())
}

fn named(place: &Place) -> (Name, Endpoint) {
    (place.name.clone(), endpoint(place))
}

fn callers(outbound: &Outbound, settings: &Settings, unix_ms: u64) -> Callers {
    let agent = |name: &base::Name| {
        let known = settings.agents.iter().find(|agent| agent.name == *name);
        Agent {
            name: name.clone(),
            groups: known.map(|agent| agent.groups.clone()).unwrap_or_default(),
            state: state(name, settings),
        }
    };
    let good = |expires: Option<u64>| expires.is_none_or(|expires| unix_ms < expires);
    let agents = settings.agents.iter();
    let good = agents.filter(|agent| good(agent.expires_unix_ms));
    let tokens = good.flat_map(|known| known.keys.iter().map(|key| (*key, agent(&known.name))));
    Callers {
        field: outbound.field.clone(),
        tokens: tokens.collect(),
        users: outbound
            .users
            .iter()
            .map(|(name, uid)| (*uid, agent(name)))
            .collect(),
        anyone: outbound.anyone.as_ref().map(agent),
    }
}

/// The state of the agent that has this name; one that `agents` does not name is active.
fn state(name: &Name, settings: &Settings) -> identity::AgentState {
    let known = settings.agents.iter().find(|agent| agent.name == *name);
    known.map(|agent| agent.state).unwrap_or_default()
}

fn route(route: &Route) -> relay::Route {
    relay::Route {
        host: HostMatch::clone(&route.host),
        path: route.path.clone(),
        to: match &route.to {
            To::Peer(name) => relay::To::Peer(name.clone()),
            To::Plain(name) => relay::To::Plain(name.clone()),
        },
    }
}

fn bounds(limits: &Limits) -> net::h1::ConnectionSettings {
    net::h1::ConnectionSettings {
        head_ms: limits.head_ms,
        piece_ms: limits.body_ms,
        answer_ms: limits.answer_ms,
        connections_max: limits.connections_max,
        drain_ms: limits.drain_ms,
        ..net::h1::ConnectionSettings::default()
    }
}

fn identity(text: &Secret) -> Identity {
    keytext::identity(text.expose()).expect("the key was checked when it was read")
}

fn psk(text: &Secret) -> Key32 {
    keytext::psk(text.expose()).expect("the key was checked when it was read")
}

pub(crate) fn token(text: &Secret) -> Token {
    Token::new(text.expose().as_bytes().to_vec())
}
