//! The `relay:` section: from what was written to a [`Relay`] whose keys are keys and whose routes lead somewhere.
//!
//! A side that is written holds or is a problem; a route or a key that is not understood is never left out.

use std::collections::HashSet;

use base::{Name, Secret};
use config::{ByName, Check, FileReference, OneOr, OneOrMore, Path as Key, Reference};
use seal::Public;
use seal::keytext::{self, TicketKey};

use super::{
    Certified, Enrolled, Inbound, Listen, Mutual, Outbound, Peer, Place, Relay, Route, To,
};
use crate::HostMatch;
use crate::section::{self as written, KeyText, Transport};

/// The name of the one place, where routes are not written.
const EVERYTHING: &str = "/";

/// `taken` are the names of other targets.
pub fn relay(section: Option<&written::Section>, taken: &[Name], check: &mut Check<'_>) -> Relay {
    let at = Key::of("relay");
    let outbound = section.and_then(|section| section.outbound.as_ref());
    let outbound = outbound.and_then(|side| self::outbound(side, &at.key("outbound"), check));
    let inbound = section.and_then(|section| section.inbound.as_ref());
    let inbound = inbound.and_then(|side| self::inbound(side, &at.key("inbound"), check));
    let relay = Relay { outbound, inbound };
    let mut names: HashSet<&Name> = taken.iter().collect();
    let twice = relay.places().find(|place| !names.insert(&place.name));
    if let Some(place) = twice {
        let message = format!(
            "the name {} is used twice among mcp, peers, plain and origins; policies could not tell them apart",
            place.name
        );
        check.say(&at, message);
    }
    relay
}

/// Whether all that is written is in the settings.
pub fn is_whole(section: Option<&written::Section>, relay: &Relay) -> bool {
    let outbound = section.and_then(|section| section.outbound.as_ref());
    let inbound = section.and_then(|section| section.inbound.as_ref());
    let outbound = match (outbound, &relay.outbound) {
        (Some(side), Some(made)) => {
            side.peers.iter().count() == made.peers.len()
                && side.plain.iter().count() == made.plain.len()
                && side.users.iter().count() == made.users.len()
        }
        (written, made) => written.is_none() && made.is_none(),
    };
    let inbound = match (inbound, &relay.inbound) {
        (Some(side), Some(made)) => {
            side.origins.iter().count() == made.origins.len()
                && side.allow.iter().count() == made.allow.len() + made.certified.len()
        }
        (written, made) => written.is_none() && made.is_none(),
    };
    outbound && inbound
}

fn outbound(side: &written::Outbound, at: &Key, check: &mut Check<'_>) -> Option<Outbound> {
    let listen = listen(&side.listen, check);
    if let Listen::Tcp(address) = listen
        && !address.ip().to_canonical().is_loopback()
        && !side.listen_public.0
    {
        let message = "other machines reach this address, and what they send is not sealed until it \
                       is here; listen on 127.0.0.1 or a Unix socket, or write listen_public: true";
        check.say(&at.key("listen"), message);
    }
    let key = side.key.as_ref();
    let key = key.and_then(|key| key_text(key, &at.key("key"), check, identity));
    let peers = side.peers.iter();
    let peers = peers.filter_map(|(name, written)| {
        let at = at.key("peers").key(name);
        peer(Name::new(name)?, written, &at, check)
    });
    let peers: Vec<Peer> = peers.collect();
    let plain = places(&side.plain, &at.key("plain"), check);
    let routes = outbound_routes(side, at, check);
    if !check.wrote(&at.key("peers")) {
        check.say(&at.key("peers"), "needs at least one peer to seal for");
    }
    let users = side.users.iter();
    let users = users.filter_map(|(name, uid)| Some((Name::new(name)?, uid.0.small())));
    let users: Vec<_> = users.collect();
    if !users.is_empty() && matches!(listen, Listen::Tcp(_)) {
        let message = "are known on a Unix socket only; listen on unix:PATH";
        check.say(&at.key("users"), message);
    }
    // By what is written: a key that is wrong is complained about once.
    let sealed = peers.iter().any(|peer| peer.mutual.is_none());
    if sealed && !check.wrote(&at.key("key")) {
        check.say(&at.key("key"), "is needed to seal for a peer");
    }
    if sealed && key.is_none() {
        return None;
    }
    Some(Outbound {
        listen,
        http2: side.http2.0,
        key,
        peers,
        plain,
        routes,
        anyone: side.anyone.as_ref().map(|name| name.0.clone()),
        users,
        field: side.field.0.clone(),
        content_bytes_max: side.content_bytes_max.0,
    })
}

fn peer(name: Name, peer: &written::Peer, at: &Key, check: &mut Check<'_>) -> Option<Peer> {
    let mut place = place(
        name,
        (&peer.url, &peer.ca, peer.http2, &peer.addresses),
        at,
        check,
    );
    let mutual = match peer.transport {
        Transport::Mtls => {
            let sealing = ["keys", "psk", "join_token", "suite", "padding"];
            check.not_with(at, "transport: mtls", &sealing);
            if peer.url.as_ref().is_some_and(|url| !url.https) {
                let message = "has to be https where the transport is mtls";
                check.say(&at.key("url"), message);
            }
            // It can change while serving, and where a place is cannot.
            place.iter_mut().for_each(|place| place.ca = None);
            let files = [
                &peer.certificate,
                &peer.certificate_key,
                &peer.ca,
                &peer.crl,
            ];
            Some(mutual(files, at, check)?)
        }
        Transport::Shr => {
            let certifying = ["certificate", "certificate_key", "crl"];
            check.not_with(at, "transport: shr", &certifying);
            if !check.wrote(&at.key("keys")) {
                let message = "are needed: the inbound's public key, or its pin";
                check.say(&at.key("keys"), message);
            }
            None
        }
    };
    let keys = public_keys(
        peer.keys.as_ref(),
        &at.key("keys"),
        check,
        keytext::peer_key,
    );
    let psks = key_texts(peer.psk.as_ref(), &at.key("psk"), check, |text| {
        keytext::psk(text).map(drop)
    });
    let token = peer.join_token.as_ref();
    let token = token.and_then(|token| key_text(token, &at.key("join_token"), check, join_token));
    Some(Peer {
        place: place?,
        mutual,
        keys,
        psks,
        join_token: token,
        suite: match peer.suite {
            written::Suite::Aes256Gcm => seal::Suite::AesGcm,
            written::Suite::ChaCha20Poly1305 => seal::Suite::ChaCha,
            written::Suite::Aes256GcmSiv => seal::Suite::AesGcmSiv,
        },
        padding: peer.padding.0,
    })
}

fn outbound_routes(side: &written::Outbound, at: &Key, check: &mut Check<'_>) -> Vec<Route> {
    // By what is written: a peer that is wrong is complained about once.
    let peers = names(&at.key("peers"), check);
    let plain = names(&at.key("plain"), check);
    let Some(written) = &side.routes else {
        return match peers.as_slice() {
            [peer] => vec![everything(To::Peer(peer.clone()))],
            _ if check.wrote(&at.key("routes")) => Vec::new(),
            _ => {
                let message = "are needed where there is not exactly one peer";
                check.say(&at.key("routes"), message);
                Vec::new()
            }
        };
    };
    let mut routes = Vec::new();
    for (i, route) in written.iter() {
        let at = at.key("routes").index(i);
        let to = match (&route.peer, &route.plain) {
            (Some(peer), None) if peers.contains(&peer.0) => To::Peer(peer.0.clone()),
            (None, Some(name)) if plain.contains(&name.0) => To::Plain(name.0.clone()),
            (Some(_), None) => {
                check.say(&at.key("peer"), "is not among relay.outbound.peers");
                continue;
            }
            (None, Some(_)) => {
                check.say(&at.key("plain"), "is not among relay.outbound.plain");
                continue;
            }
            _ => {
                let message = "a route needs a peer, or plain: one of both";
                check.say(&at.key("peer"), message);
                continue;
            }
        };
        routes.push(self::route(route.host.as_ref(), &route.path, to));
    }
    routes
}

/// Our certificate, its key, and whom we trust: the files of `certificate`, `certificate_key`, `ca` and `crl`.
fn mutual(
    [certificate, key, ca, crl]: [&Option<FileReference>; 4],
    at: &Key,
    check: &mut Check<'_>,
) -> Option<Mutual> {
    let mut missing = false;
    for key in ["certificate", "certificate_key", "ca"] {
        if !check.wrote(&at.key(key)) {
            check.say(&at.key(key), "is needed where the transport is mtls");
            missing = true;
        }
    }
    let of = |key: &str| at.key(key);
    let certificate = check.of(certificate, &of("certificate"), Check::certificates);
    let ca = check.of(ca, &of("ca"), Check::certificates);
    let key = key.as_ref().and_then(|file| {
        let text = check.text(&file.0, config::SECRET_BYTES_MAX);
        check.good(&of("certificate_key"), text).map(Secret::new)
    });
    let begin = "-----BEGIN X509 CRL-----";
    let crl = crl.as_ref();
    let crl = crl.and_then(|file| check.pem(file, &of("crl"), "revocation list", begin));
    if missing || crl.is_none() && check.wrote(&of("crl")) {
        return None;
    }
    let mutual = Mutual {
        certificate: certificate?,
        key: key?,
        ca: ca?,
        crl,
    };
    let good = mutual.check().map_err(|error| error.to_string());
    check.good(&of("certificate"), good).map(|()| mutual)
}

fn inbound(side: &written::Inbound, at: &Key, check: &mut Check<'_>) -> Option<Inbound> {
    let listen = listen(&side.listen, check);
    let mutual = match side.transport {
        Transport::Mtls => {
            let sealing = [
                "keys",
                "join_tokens",
                "ticket_keys",
                "next_key",
                "session_ms",
                "replay",
                "cache",
            ];
            check.not_with(at, "transport: mtls", &sealing);
            if matches!(listen, Listen::Unix(_)) {
                let message = "has to be an address where the transport is mtls";
                check.say(&at.key("listen"), message);
            }
            let files = [
                &side.certificate,
                &side.certificate_key,
                &side.ca,
                &side.crl,
            ];
            Some(mutual(files, at, check)?)
        }
        Transport::Shr => {
            let certifying = ["certificate", "certificate_key", "ca", "crl"];
            check.not_with(at, "transport: shr", &certifying);
            if !check.wrote(&at.key("keys")) {
                check.say(&at.key("keys"), "are needed to open what is sealed");
            }
            None
        }
    };
    let keys = key_texts(side.keys.as_ref(), &at.key("keys"), check, identity);
    if keys.len() > seal::handshake::IDENTITIES_MAX {
        let max = seal::handshake::IDENTITIES_MAX;
        check.say(&at.key("keys"), format!("lists more than {max} keys"));
    }
    let origins = places(&side.origins, &at.key("origins"), check);
    let routes = inbound_routes(side, at, check);
    let (allow, certified) = allowed(side, &at.key("allow"), check);
    let tokens = side.join_tokens.iter().flat_map(|all| all.iter());
    let tokens = tokens.filter_map(|(i, token)| {
        let at = at.key("join_tokens").index(i);
        key_text(token, &at, check, join_token)
    });
    let join_tokens = tokens.collect();
    let (mut ticket_keys, mut fleet_key) = (None, None);
    match &side.ticket_keys {
        None => {}
        Some(OneOr::One(file)) => ticket_keys = ticket_keys_of(file, at, check),
        Some(OneOr::Map(shared)) => fleet_key = self::fleet_key(shared, at, check),
    }
    let next_key = side.next_key.as_ref();
    let next_key =
        next_key.and_then(|key| public_key(key, &at.key("next_key"), check, &keytext::peer_key));
    Some(Inbound {
        listen,
        http2: side.http2.0,
        mutual,
        keys,
        origins,
        routes,
        allow,
        certified,
        join_tokens,
        ticket_keys,
        fleet_key,
        mode: match side.replay {
            written::Replay::Local => seal::Mode::Local,
            written::Replay::Strict => seal::Mode::Strict,
        },
        next_key: next_key.map(|key| key.pin()),
        windows_max: side.windows_max.size(),
        handshake_cpu_us_per_s: side.handshake_cpu_us_per_s.0,
        session_ms: side.session_ms.0,
        content_bytes_max: side.content_bytes_max.0,
        padding: side.padding.0,
    })
}

fn inbound_routes(side: &written::Inbound, at: &Key, check: &mut Check<'_>) -> Vec<Route> {
    let origins = names(&at.key("origins"), check);
    let Some(written) = &side.routes else {
        return match origins.as_slice() {
            [origin] => vec![everything(To::Plain(origin.clone()))],
            _ if check.wrote(&at.key("routes")) => Vec::new(),
            [] => {
                check.say(&at.key("origins"), "needs at least one origin");
                Vec::new()
            }
            _ => {
                let message = "are needed where there is more than one origin";
                check.say(&at.key("routes"), message);
                Vec::new()
            }
        };
    };
    let mut routes = Vec::new();
    for (i, route) in written.iter() {
        let at = at.key("routes").index(i).key("origin");
        let origin = route.origin.as_ref().map(|origin| &origin.0);
        match origin.filter(|name| origins.contains(name)) {
            Some(name) => {
                let to = To::Plain(name.clone());
                routes.push(self::route(route.host.as_ref(), &route.path, to));
            }
            None => check.say(&at, "is not among relay.inbound.origins"),
        }
    }
    routes
}

/// Those who may call: by their keys, or by certificates.
fn allowed(
    side: &written::Inbound,
    at: &Key,
    check: &mut Check<'_>,
) -> (Vec<Enrolled>, Vec<Certified>) {
    let (mut allow, mut certified) = (Vec::new(), Vec::new());
    for (name, peer) in side.allow.iter() {
        let (at, Some(name)) = (at.key(name), Name::new(name)) else {
            continue;
        };
        match side.transport {
            Transport::Mtls => certified.extend(self::certified(name, peer, &at, check)),
            Transport::Shr => allow.extend(enrolled(name, peer, &at, check)),
        }
    }
    let names = certified
        .iter()
        .map(|peer: &Certified| &peer.certificate_name);
    if names.collect::<HashSet<_>>().len() < certified.len() {
        check.say(at, "two outbounds have one certificate_name");
    }
    (allow, certified)
}

fn certified(
    name: Name,
    peer: &written::Allowed,
    at: &Key,
    check: &mut Check<'_>,
) -> Option<Certified> {
    check.not_with(at, "transport: mtls", &["key", "psk", "sessions_after"]);
    let at = at.key("certificate_name");
    if !check.wrote(&at) {
        let message = "is needed where the transport is mtls: what the certificate is for";
        check.say(&at, message);
    }
    let text = &peer.certificate_name.as_ref()?.0;
    if net::mutual::PeerName::new(text).is_none() {
        check.say(&at, "must be a DNS name without *, or an IP address");
        return None;
    }
    Some(Certified {
        name,
        groups: groups(peer),
        certificate_name: text.clone(),
    })
}

fn enrolled(
    name: Name,
    peer: &written::Allowed,
    at: &Key,
    check: &mut Check<'_>,
) -> Option<Enrolled> {
    check.not_with(at, "transport: shr", &["certificate_name"]);
    if !check.wrote(&at.key("key")) {
        check.say(&at.key("key"), "is needed: the outbound's public key");
    }
    let whole = |text: &str| match keytext::pin(text) {
        Ok(_) => {
            Err("is a pin or an id; the whole public key is needed to answer a peer".to_owned())
        }
        Err(_) => keytext::public(text),
    };
    let key = peer.key.as_ref();
    let public: Option<Public> = key.and_then(|key| public_key(key, &at.key("key"), check, &whole));
    let psk = peer.psk.as_ref();
    let psk = psk.and_then(|psk| {
        key_text(psk, &at.key("psk"), check, |text| {
            keytext::psk(text).map(drop)
        })
    });
    Some(Enrolled {
        name,
        public: public?,
        groups: groups(peer),
        psk,
        sessions_after_unix_ms: peer.sessions_after.map_or(0, |time| time.0),
    })
}

fn groups(peer: &written::Allowed) -> Vec<Name> {
    peer.groups.values().map(|group| group.0.clone()).collect()
}

fn listen(listen: &Listen, check: &Check<'_>) -> Listen {
    match listen {
        Listen::Unix(path) => Listen::Unix(check.folder.join(path)),
        listen => listen.clone(),
    }
}

fn places(written: &ByName<written::Place>, at: &Key, check: &mut Check<'_>) -> Vec<Place> {
    let places = written.iter().filter_map(|(name, place)| {
        let keys = (&place.url, &place.ca, place.http2, &place.addresses);
        self::place(Name::new(name)?, keys, &at.key(name), check)
    });
    places.collect()
}

/// A host that is dialled, of its `url`, `ca`, `http2` and `addresses`.
fn place(
    name: Name,
    (url, ca, http2, addresses): (
        &Option<config::Url>,
        &Option<FileReference>,
        config::Switch,
        &config::List<config::Addresses>,
    ),
    at: &Key,
    check: &mut Check<'_>,
) -> Option<Place> {
    let ca = check.of(ca, &at.key("ca"), Check::certificates);
    let url = url.clone()?;
    if url.path != "/" {
        let message = "must have no path: that of the request is kept";
        check.say(&at.key("url"), message);
    }
    if !url.https && ca.is_some() {
        check.say(&at.key("ca"), "is for https, and the url is http");
    }
    Some(Place {
        name,
        url,
        ca,
        http2: http2.0,
        addresses: addresses.values().map(|range| range.0).collect(),
    })
}

fn route(host: Option<&written::RouteHost>, path: &written::RoutePath, to: To) -> Route {
    Route {
        host: host.map_or(HostMatch::Any, |host| host.0.clone()),
        path: path.0.clone(),
        to,
    }
}

fn everything(to: To) -> Route {
    Route {
        host: HostMatch::Any,
        path: EVERYTHING.to_owned(),
        to,
    }
}

/// The names of a map, whether or not what they stand for is right.
fn names(at: &Key, check: &Check<'_>) -> Vec<Name> {
    check.document.names(at).filter_map(Name::new).collect()
}

fn identity(text: &str) -> Result<(), String> {
    keytext::identity(text).map(drop)
}

fn join_token(text: &str) -> Result<(), String> {
    seal::JoinToken::new(text.as_bytes())
        .map(drop)
        .map_err(|error| format!("{error}"))
}

/// The text behind a reference, which has to be a key.
fn key_text(
    reference: &Reference,
    at: &Key,
    check: &mut Check<'_>,
    good: impl Fn(&str) -> Result<(), String>,
) -> Option<Secret> {
    let text = check.secret(reference, at)?;
    let found = good(text.expose());
    check.good(at, found).map(|()| text)
}

fn key_texts(
    references: Option<&OneOrMore<Reference>>,
    at: &Key,
    check: &mut Check<'_>,
    good: impl Fn(&str) -> Result<(), String>,
) -> Vec<Secret> {
    let all = references.into_iter().flat_map(|all| all.iter());
    all.filter_map(|(i, reference)| key_text(reference, &element(at, i), check, &good))
        .collect()
}

/// A public key or a pin: a text, or the file that holds it.
fn public_key<T>(
    key: &KeyText,
    at: &Key,
    check: &mut Check<'_>,
    parse: &impl Fn(&str) -> Result<T, String>,
) -> Option<T> {
    let text = match key.0.strip_prefix("file:") {
        Some(path) => check.text(path.as_ref(), keytext::PUBLIC_FILE_BYTES_MAX),
        None => Ok(key.0.clone()),
    };
    check.good(at, text.and_then(|text| parse(text.trim())))
}

fn public_keys<T>(
    keys: Option<&OneOrMore<KeyText>>,
    at: &Key,
    check: &mut Check<'_>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Vec<T> {
    let all = keys.into_iter().flat_map(|all| all.iter());
    all.filter_map(|(i, key)| public_key(key, &element(at, i), check, &parse))
        .collect()
}

/// Where an element stands; of one alone, where the key does.
fn element(at: &Key, index: Option<usize>) -> Key {
    index.map_or_else(|| at.clone(), |index| at.index(index))
}

/// The key under which ticket keys are shared.
fn fleet_key(shared: &written::SharedTickets, at: &Key, check: &mut Check<'_>) -> Option<Secret> {
    let at = at.key("ticket_keys");
    if !shared.store.0 {
        let message = "must be true, or ticket_keys a file: there is no other way to share them";
        check.say(&at.key("store"), message);
    }
    key_text(shared.key.as_ref()?, &at.key("key"), check, |text| {
        keytext::psk(text).map(drop)
    })
}

fn ticket_keys_of(file: &FileReference, at: &Key, check: &mut Check<'_>) -> Option<Vec<TicketKey>> {
    let text = check.text(&file.0, config::SECRET_BYTES_MAX);
    let text = text.map(zeroize::Zeroizing::new);
    let keys = text.and_then(|text| keytext::ticket_keys(&text));
    let keys = keys.and_then(|keys| keytext::ring(&keys).map(|_| keys));
    check.good(&at.key("ticket_keys"), keys)
}
