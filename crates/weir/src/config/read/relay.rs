//! The `relay:` section: from what was written to a [`Relay`] whose keys are keys and whose routes lead somewhere.
//!
//! A side that is written holds or is a problem; a route or a key that is not understood is never left out.

use std::collections::HashSet;

use base::{Name, Secret};
use relay::HostMatch;
use seal::{Pin, Public};

use super::{Group, Node, Read, Value, values};
use crate::config::keys::SUITES;
use crate::config::keytext::{self, PeerKey, TicketKey};
use crate::config::settings::Reference;
use crate::config::settings::relay::{
    Certified, Enrolled, Inbound, Listen, Mutual, Outbound, Peer, Place, Relay, Route, To,
};

/// The name of the one place, where routes are not written.
const EVERYTHING: &str = "/";

impl Read<'_> {
    /// `taken` are the names of other targets.
    pub(super) fn relay(&mut self, root: &Group<'_>, taken: &[Name]) -> Relay {
        let group = root.group("relay");
        let outbound = group.group("outbound");
        let outbound = outbound.node.and_then(|_| self.outbound(&outbound));
        let inbound = group.group("inbound");
        let inbound = inbound.node.and_then(|_| self.inbound(&inbound));
        let relay = Relay { outbound, inbound };
        let mut names: HashSet<&Name> = taken.iter().collect();
        let twice = relay.places().find(|place| !names.insert(&place.name));
        if let Some(place) = twice {
            let message = format!(
                "the name {} is used twice among mcp, peers, plain and origins; policies could not tell them apart",
                place.name
            );
            self.say_key(root, "relay", message);
        }
        relay
    }

    fn outbound(&mut self, group: &Group<'_>) -> Option<Outbound> {
        let listen = self.relay_listen(group);
        let public = group.scalar("listen_public", values::switch);
        if let (Some(Listen::Tcp(listen)), Some(false)) = (&listen, public)
            && !listen.ip().to_canonical().is_loopback()
        {
            let message = "other machines reach this address, and what they send is not sealed until it \
                           is here; listen on 127.0.0.1 or a Unix socket, or write listen_public: true";
            self.say_key(group, "listen", message);
        }
        let key = self.key_texts(group, "key", |text| keytext::identity(text).map(drop));
        let mut peers = Vec::new();
        for (name, _, peer) in group.named("peers") {
            peers.extend(Name::new(name).and_then(|name| self.peer(name, &peer)));
        }
        let plain = self.places(group, "plain");
        // By what is written: a peer that is wrong is complained about once.
        let names = written(group, "peers");
        let routes = self.outbound_routes(group, &names);
        if peers.is_empty() && group.get("peers").is_none() {
            self.say_key(group, "peers", "needs at least one peer to seal for");
        }
        let users = group
            .named("users")
            .into_iter()
            .filter_map(|(name, _, value)| {
                let Some(Value::Text(uid)) = value.node.map(|node| &node.value) else {
                    return None;
                };
                Some((Name::new(name)?, uid.parse().ok()?))
            });
        let users: Vec<_> = users.collect();
        if !users.is_empty() && !matches!(listen, Some(Listen::Unix(_)) | None) {
            self.say_key(
                group,
                "users",
                "are known on a Unix socket only; listen on unix:PATH",
            );
        }
        let key = key.into_iter().next();
        // By what is written, as below: a key that is wrong is complained about once.
        let sealed = peers.iter().any(|peer| peer.mutual.is_none());
        if sealed && group.get("key").is_none() {
            self.say_key(group, "key", "is needed to seal for a peer");
        }
        if sealed && key.is_none() {
            return None;
        }
        Some(Outbound {
            listen: listen?,
            key,
            peers,
            plain,
            routes,
            anyone: group.scalar("anyone", values::name),
            users,
            field: group.scalar("field", |text| Ok(text.to_owned()))?,
            content_bytes_max: group.count("content_bytes_max")?,
        })
    }

    fn peer(&mut self, name: Name, group: &Group<'_>) -> Option<Peer> {
        let mut place = self.place(name, group);
        let mutual = match self.is_mutual(group) {
            true => {
                let sealing = ["keys", "psk", "join_token", "suite", "padding"];
                self.not_with(group, "transport: mtls", &sealing);
                if place.as_ref().is_some_and(|place| !place.url.https) {
                    self.say_key(group, "url", "has to be https where the transport is mtls");
                }
                // It can change while serving, and where a place is cannot.
                place.iter_mut().for_each(|place| place.ca = None);
                Some(self.mutual(group)?)
            }
            false => {
                self.not_with(
                    group,
                    "transport: shr",
                    &["certificate", "certificate_key", "crl"],
                );
                if group.get("keys").is_none() {
                    self.say_key(
                        group,
                        "keys",
                        "are needed: the inbound's public key, or its pin",
                    );
                }
                None
            }
        };
        let keys = self.public_keys(group, "keys", keytext::peer_key);
        let psks = self.key_texts(group, "psk", |text| keytext::psk(text).map(drop));
        let join_token = self
            .key_texts(group, "join_token", join_token)
            .into_iter()
            .next();
        let suite = group.scalar("suite", |text| {
            SUITES
                .iter()
                .position(|word| *word == text)
                .ok_or_else(String::new)
        })?;
        Some(Peer {
            place: place?,
            mutual,
            keys,
            psks,
            join_token,
            suite: seal::Suite::ALL[suite],
            padding: group.scalar("padding", values::switch)?,
        })
    }

    fn outbound_routes(&mut self, group: &Group<'_>, peers: &[Name]) -> Vec<Route> {
        let plain = written(group, "plain");
        let maps = group.maps("routes");
        if group.get("routes").is_none() {
            return match peers {
                [peer] => vec![everything(To::Peer(peer.clone()))],
                _ => {
                    self.say_key(
                        group,
                        "routes",
                        "are needed where there is not exactly one peer",
                    );
                    Vec::new()
                }
            };
        }
        let mut routes = Vec::new();
        for map in maps {
            let to = match (
                map.scalar("peer", values::name),
                map.scalar("plain", values::name),
            ) {
                (Some(peer), None) if peers.contains(&peer) => To::Peer(peer),
                (None, Some(name)) if plain.contains(&name) => To::Plain(name),
                (Some(_), None) => {
                    self.say_key(&map, "peer", "is not among relay.outbound.peers");
                    continue;
                }
                (None, Some(_)) => {
                    self.say_key(&map, "plain", "is not among relay.outbound.plain");
                    continue;
                }
                _ => {
                    self.say_key(&map, "peer", "a route needs a peer, or plain: one of both");
                    continue;
                }
            };
            routes.extend(self.route(&map, to));
        }
        routes
    }

    /// Whether certificates take the place of the seal.
    fn is_mutual(&self, group: &Group<'_>) -> bool {
        group.text("transport") == Some("mtls")
    }

    /// Our certificate, its key, and whom we trust.
    fn mutual(&mut self, group: &Group<'_>) -> Option<Mutual> {
        let mut missing = false;
        for key in ["certificate", "certificate_key", "ca"] {
            if group.get(key).is_none() {
                self.say_key(group, key, "is needed where the transport is mtls");
                missing = true;
            }
        }
        let certificate = self.certificates(group, "certificate");
        let ca = self.certificates(group, "ca");
        let key = self.certificate_key(group);
        let begin = "-----BEGIN X509 CRL-----";
        let crl = self.pem(group, "crl", "revocation list", begin);
        if missing || crl.is_none() && group.get("crl").is_some() {
            return None;
        }
        let mutual = Mutual {
            certificate: certificate?,
            key: key?,
            ca: ca?,
            crl,
        };
        match crate::assemble::relay::check(&mutual) {
            Ok(()) => Some(mutual),
            Err(error) => {
                self.say_key(group, "certificate", error.to_string());
                None
            }
        }
    }

    fn certificate_key(&mut self, group: &Group<'_>) -> Option<Secret> {
        let Ok(Reference::File(path)) = values::reference(group.text("certificate_key")?) else {
            return None; // Said by the first stage.
        };
        let text = self.text_of(&self.folder.join(path), super::SECRET_BYTES_MAX);
        match text {
            Ok(text) => Some(Secret::new(text)),
            Err(message) => {
                self.say_key(group, "certificate_key", format!("the file {message}"));
                None
            }
        }
    }

    fn inbound(&mut self, group: &Group<'_>) -> Option<Inbound> {
        let listen = self.relay_listen(group);
        let is_mutual = self.is_mutual(group);
        let mutual = match is_mutual {
            true => {
                let sealing = [
                    "keys",
                    "join_tokens",
                    "ticket_keys",
                    "next_key",
                    "session_ms",
                ];
                self.not_with(group, "transport: mtls", &sealing);
                if matches!(listen, Some(Listen::Unix(_))) {
                    self.say_key(
                        group,
                        "listen",
                        "has to be an address where the transport is mtls",
                    );
                }
                Some(self.mutual(group)?)
            }
            false => {
                self.not_with(
                    group,
                    "transport: shr",
                    &["certificate", "certificate_key", "ca", "crl"],
                );
                if group.get("keys").is_none() {
                    self.say_key(group, "keys", "are needed to open what is sealed");
                }
                None
            }
        };
        let keys = self.key_texts(group, "keys", |text| keytext::identity(text).map(drop));
        if keys.len() > seal::handshake::IDENTITIES_MAX {
            let max = seal::handshake::IDENTITIES_MAX;
            self.say_key(group, "keys", format!("lists more than {max} keys"));
        }
        let origins = self.places(group, "origins");
        let routes = self.inbound_routes(group);
        let (mut allow, mut certified) = (Vec::new(), Vec::new());
        for (name, _, peer) in group.named("allow") {
            let Some(name) = Name::new(name) else {
                continue;
            };
            match is_mutual {
                true => certified.extend(self.certified(name, &peer)),
                false => allow.extend(self.enrolled(name, &peer)),
            }
        }
        let names = certified.iter().map(|peer| &peer.certificate_name);
        if names.collect::<HashSet<_>>().len() < certified.len() {
            self.say_key(group, "allow", "two outbounds have one certificate_name");
        }
        let join_tokens = self.key_texts(group, "join_tokens", join_token);
        let ticket_keys = self.ticket_keys(group);
        let next_key = self.public_keys(group, "next_key", keytext::peer_key);
        Some(Inbound {
            listen: listen?,
            mutual,
            keys,
            origins,
            routes,
            allow,
            certified,
            join_tokens,
            ticket_keys,
            next_key: next_key.first().map(|key: &PeerKey| -> Pin { key.pin() }),
            windows_max: group.size("windows_max")?,
            handshake_cpu_us_per_s: group.count("handshake_cpu_us_per_s")?,
            session_ms: group.count("session_ms")?,
            content_bytes_max: group.count("content_bytes_max")?,
            padding: group.scalar("padding", values::switch)?,
        })
    }

    fn inbound_routes(&mut self, group: &Group<'_>) -> Vec<Route> {
        let origins = written(group, "origins");
        if group.get("routes").is_none() {
            return match origins.as_slice() {
                [origin] => vec![everything(To::Plain(origin.clone()))],
                [] => {
                    self.say_key(group, "origins", "needs at least one origin");
                    Vec::new()
                }
                _ => {
                    self.say_key(
                        group,
                        "routes",
                        "are needed where there is more than one origin",
                    );
                    Vec::new()
                }
            };
        }
        let mut routes = Vec::new();
        for map in group.maps("routes") {
            let origin = map.scalar("origin", values::name);
            match origin.filter(|name| origins.contains(name)) {
                Some(name) => routes.extend(self.route(&map, To::Plain(name))),
                None => self.say_key(&map, "origin", "is not among relay.inbound.origins"),
            }
        }
        routes
    }

    fn certified(&mut self, name: Name, group: &Group<'_>) -> Option<Certified> {
        self.not_with(group, "transport: mtls", &["key", "psk", "sessions_after"]);
        let Some(text) = group.text("certificate_name") else {
            let message = "is needed where the transport is mtls: what the certificate is for";
            self.say_key(group, "certificate_name", message);
            return None;
        };
        if net::mutual::PeerName::new(text).is_none() {
            let message = "must be a DNS name without *, or an IP address";
            self.say_key(group, "certificate_name", message);
            return None;
        }
        Some(Certified {
            name,
            groups: group.list("groups", values::name),
            certificate_name: text.to_owned(),
        })
    }

    fn enrolled(&mut self, name: Name, group: &Group<'_>) -> Option<Enrolled> {
        self.not_with(group, "transport: shr", &["certificate_name"]);
        if group.get("key").is_none() {
            self.say_key(group, "key", "is needed: the outbound's public key");
        }
        let keys: Vec<Public> = self.public_keys(group, "key", |text| match keytext::pin(text) {
            Ok(_) => {
                Err("is a pin or an id; the whole public key is needed to answer a peer".to_owned())
            }
            Err(_) => keytext::public(text),
        });
        let psk = self.key_texts(group, "psk", |text| keytext::psk(text).map(drop));
        Some(Enrolled {
            name,
            public: keys.into_iter().next()?,
            groups: group.list("groups", values::name),
            psk: psk.into_iter().next(),
            sessions_after_unix_ms: group.scalar("sessions_after", values::time).unwrap_or(0),
        })
    }

    fn relay_listen(&mut self, group: &Group<'_>) -> Option<Listen> {
        let listen = group.scalar("listen", values::listen)?;
        Some(match listen {
            Listen::Unix(path) => Listen::Unix(self.folder.join(path)),
            listen => listen,
        })
    }

    fn places(&mut self, group: &Group<'_>, key: &str) -> Vec<Place> {
        let named = group.named(key).into_iter();
        named
            .filter_map(|(name, _, below)| self.place(Name::new(name)?, &below))
            .collect()
    }

    fn place(&mut self, name: Name, group: &Group<'_>) -> Option<Place> {
        let ca = self.ca(group);
        let addresses = group.list("addresses", values::range);
        let url = group.scalar("url", values::url)?;
        if url.path != "/" {
            self.say_key(
                group,
                "url",
                "must have no path: that of the request is kept",
            );
        }
        if !url.https && ca.is_some() {
            self.say_key(group, "ca", "is for https, and the url is http");
        }
        Some(Place {
            name,
            url,
            ca,
            addresses,
        })
    }

    fn route(&mut self, group: &Group<'_>, to: To) -> Option<Route> {
        let host = match group.text("host").map(host) {
            None => HostMatch::Any,
            Some(Ok(host)) => host,
            Some(Err(message)) => {
                self.say_key(group, "host", message);
                return None;
            }
        };
        let path = group.scalar("path", |text| Ok(text.to_owned()))?;
        if !path.starts_with('/') || path.contains(['?', '#', '*']) {
            self.say_key(
                group,
                "path",
                "must begin with / and is taken as it is: it stands for itself and for all below it",
            );
            return None;
        }
        Some(Route { host, path, to })
    }

    /// The texts behind references, each of which has to be a key.
    fn key_texts(
        &mut self,
        group: &Group<'_>,
        key: &str,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> Vec<Secret> {
        let mut texts = Vec::new();
        let below = group.group(key);
        for (node, reference) in scalars(group, key) {
            let Ok(reference) = values::reference(reference) else {
                continue; // Said by the first stage.
            };
            let Some(text) = self.secret(&reference, node.at, &below) else {
                continue;
            };
            match check(text.expose()) {
                Ok(()) => texts.push(text),
                Err(message) => self.say(node.at, &below.path, &below.pattern, message),
            }
        }
        texts
    }

    /// Public keys and pins: texts, or the files that hold them.
    fn public_keys<T>(
        &mut self,
        group: &Group<'_>,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let mut keys = Vec::new();
        let below = group.group(key);
        for (node, text) in scalars(group, key) {
            let text = match text.strip_prefix("file:") {
                Some(path) => self
                    .text_of(&self.folder.join(path), keytext::PUBLIC_FILE_BYTES_MAX)
                    .map_err(|message| format!("the file {message}")),
                None => Ok(text.to_owned()),
            };
            match text.and_then(|text| parse(text.trim())) {
                Ok(key) => keys.push(key),
                Err(message) => self.say(node.at, &below.path, &below.pattern, message),
            }
        }
        keys
    }

    fn ticket_keys(&mut self, group: &Group<'_>) -> Option<Vec<TicketKey>> {
        let below = group.group("ticket_keys");
        let Ok(Reference::File(path)) = values::reference(group.text("ticket_keys")?) else {
            return None;
        };
        let text = self
            .text_of(&self.folder.join(path), super::SECRET_BYTES_MAX)
            .map_err(|message| format!("the file {message}"));
        let text = text.map(zeroize::Zeroizing::new);
        let keys = text.and_then(|text| keytext::ticket_keys(&text));
        match keys.and_then(|keys| keytext::ring(&keys).map(|_| keys)) {
            Ok(keys) => Some(keys),
            Err(message) => {
                let at = below.node.unwrap_or(&self.file.root).at;
                self.say(at, &below.path, &below.pattern, message);
                None
            }
        }
    }
}

/// The names of a map, whether or not what they stand for is right.
fn written(group: &Group<'_>, key: &str) -> Vec<Name> {
    let named = group.named(key).into_iter();
    named.filter_map(|(name, _, _)| Name::new(name)).collect()
}

fn everything(to: To) -> Route {
    Route {
        host: HostMatch::Any,
        path: EVERYTHING.to_owned(),
        to,
    }
}

/// A name, or `*.` and a name for all below it.
fn host(text: &str) -> Result<HostMatch, String> {
    let (under, name) = match text.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, text),
    };
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-._[]:".contains(&b);
    if name.is_empty() || !name.bytes().all(good) {
        return Err("must be a host's name, or *. and a name for all below it".to_owned());
    }
    Ok(match under {
        true => HostMatch::Under(name.to_owned()),
        false => HostMatch::Exact(name.to_owned()),
    })
}

fn join_token(text: &str) -> Result<(), String> {
    seal::JoinToken::new(text.as_bytes())
        .map(drop)
        .map_err(|error| format!("{error}"))
}

/// The texts of a key: of a list, or one alone.
fn scalars<'f>(group: &Group<'f>, key: &str) -> Vec<(&'f Node, &'f str)> {
    let nodes = match group.get(key) {
        None => &[],
        Some(Node {
            value: Value::List(nodes),
            ..
        }) => nodes.as_slice(),
        Some(node) => std::slice::from_ref(node),
    };
    let text = |node: &'f Node| match &node.value {
        Value::Text(text) => Some((node, text.as_str())),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    };
    nodes.iter().filter_map(text).collect()
}
