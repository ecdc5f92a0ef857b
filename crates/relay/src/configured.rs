//! The settings of the sealed relay, as the configuration gives them.
//!
//! Key texts were checked when they were read; private ones stay texts, so that they can be kept and compared,
//! and become keys when a relay is made of them.

use base::{Name, Secret};
use config::{Pem as Ca, Url};
use net::mutual::{Acceptor, Credentials, CredentialsError, MutualClient};
use seal::keytext::{PeerKey, TicketKey};
use seal::{Pin, Public, Suite};

use crate::HostMatch;

use config::Listen;
pub use read::{is_whole, relay};

mod read;

/// Both sides of the relay; a process may be one of them, or both.
#[derive(Clone, Default)]
pub struct Relay {
    pub outbound: Option<Outbound>,
    pub inbound: Option<Inbound>,
}

impl Relay {
    /// The names of all that is dialled.
    pub fn names(&self) -> impl Iterator<Item = Name> {
        let outbound = self.outbound.iter().flat_map(|side| {
            let peers = side.peers.iter().map(|peer| &peer.place);
            peers.chain(&side.plain)
        });
        let inbound = self.inbound.iter().flat_map(|side| &side.origins);
        outbound.chain(inbound).map(|place| place.name.clone())
    }

    /// Who calls by the relay's own settings: users, callers without a key, and outbounds that may call.
    pub fn agents(&self) -> impl Iterator<Item = &Name> {
        let outbound = self.outbound.iter();
        let callers = outbound.flat_map(|side| {
            let users = side.users.iter().map(|(name, _)| name);
            users.chain(&side.anyone)
        });
        let inbound = self.inbound.iter();
        callers.chain(inbound.flat_map(|side| {
            let sealed = side.allow.iter().map(|peer| &peer.name);
            sealed.chain(side.certified.iter().map(|peer| &peer.name))
        }))
    }
}

/// A host that is dialled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub name: Name,
    pub url: Url,
    pub ca: Option<Ca>,
    /// Whether HTTP/2 is spoken to it.
    pub http2: bool,
    pub addresses: Vec<base::AddressRange>,
}

/// TLS with certificates on both sides, in place of the seal. It was checked when it was read.
#[derive(Clone)]
pub struct Mutual {
    /// Our certificate, as PEM.
    pub certificate: Ca,
    /// Its private key, as PEM.
    pub key: Secret,
    /// The authorities that are trusted.
    pub ca: Ca,
    /// Their revocation lists, as PEM.
    pub crl: Option<Ca>,
}

impl Mutual {
    /// What TLS is told.
    ///
    /// # Errors
    /// A text is not what it should be, or the certificate does not fit the key.
    pub fn credentials(&self) -> Result<Credentials, CredentialsError> {
        let (certificate, ca) = (self.certificate.pem.as_bytes(), self.ca.pem.as_bytes());
        let credentials = Credentials::new(certificate, self.key.expose().as_bytes(), ca)?;
        match &self.crl {
            Some(crl) => credentials.with_revoked(crl.pem.as_bytes()),
            None => Ok(credentials),
        }
    }

    /// Whether the certificate can be shown and others checked.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> Result<(), CredentialsError> {
        let credentials = self.credentials()?;
        MutualClient::new(&credentials)?;
        Acceptor::new(&credentials).map(drop)
    }
}

/// The side that applications speak to.
#[derive(Clone)]
pub struct Outbound {
    pub listen: Listen,
    /// Whether applications may speak HTTP/2.
    pub http2: bool,
    /// Our private key, as text; there is one if there is a peer to seal for.
    pub key: Option<Secret>,
    pub peers: Vec<Peer>,
    /// Where requests go that are not sealed.
    pub plain: Vec<Place>,
    pub routes: Vec<Route>,
    /// Who callers are that show no key; without it a key or a user is demanded.
    pub anyone: Option<Name>,
    /// Users of this machine, on a Unix socket.
    pub users: Vec<(Name, u32)>,
    /// The field that a caller's key stands in.
    pub field: String,
    pub content_bytes_max: u64,
}

/// An inbound.
#[derive(Clone)]
pub struct Peer {
    pub place: Place,
    /// With it nothing is sealed, and what follows means nothing.
    pub mutual: Option<Mutual>,
    pub keys: Vec<PeerKey>,
    /// Pre-shared keys, as text.
    pub psks: Vec<Secret>,
    pub join_token: Option<Secret>,
    pub suite: Suite,
    pub padding: bool,
}

/// Where requests of a host and path go: by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub host: HostMatch,
    pub path: String,
    pub to: To,
}

/// What a route leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    Peer(Name),
    /// As plain HTTP: what is not sealed of an outbound, the origin of an inbound.
    Plain(Name),
}

/// The side that origins are behind.
#[derive(Clone)]
pub struct Inbound {
    pub listen: Listen,
    /// Whether outbounds may speak HTTP/2.
    pub http2: bool,
    /// With it nothing is sealed, and keys, tokens and tickets mean nothing.
    pub mutual: Option<Mutual>,
    /// Our private keys, as text: one, or more while they turn over.
    pub keys: Vec<Secret>,
    pub origins: Vec<Place>,
    pub routes: Vec<Route>,
    pub allow: Vec<Enrolled>,
    /// Those who may call by mtls.
    pub certified: Vec<Certified>,
    pub join_tokens: Vec<Secret>,
    /// Those that instances share; without them, this instance makes its own.
    pub ticket_keys: Option<Vec<TicketKey>>,
    /// As text: the key under which instances share their ticket keys through the store.
    pub fleet_key: Option<Secret>,
    /// What sessions are promised about replays.
    pub mode: seal::Mode,
    /// What outbounds are told to expect next.
    pub next_key: Option<Pin>,
    pub windows_max: usize,
    pub handshake_cpu_us_per_s: u64,
    pub session_ms: u64,
    pub content_bytes_max: u64,
    pub padding: bool,
}

/// An outbound that may call.
#[derive(Clone)]
pub struct Enrolled {
    pub name: Name,
    pub public: Public,
    pub groups: Vec<Name>,
    /// As text.
    pub psk: Option<Secret>,
    pub sessions_after_unix_ms: u64,
}

/// An outbound that may call by mtls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certified {
    pub name: Name,
    pub groups: Vec<Name>,
    /// What its certificate is for.
    pub certificate_name: String,
}

impl Place {
    /// Where it may be dialled: public addresses, the ranges that are named, and loopback where the URL names this
    /// machine.
    pub fn reach(&self) -> gate::Reach {
        let mut reach = match self.url.is_loopback() {
            true => gate::Reach::loopback(),
            false => gate::Reach::default(),
        };
        reach.ranges.extend(&self.addresses);
        reach
    }
}

impl Relay {
    /// Every place that requests go to.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        let outbound = self.outbound.iter();
        let peers = outbound
            .clone()
            .flat_map(|o| o.peers.iter().map(|peer| &peer.place));
        let plain = outbound.flat_map(|o| &o.plain);
        peers
            .chain(plain)
            .chain(self.inbound.iter().flat_map(|i| &i.origins))
    }
}
