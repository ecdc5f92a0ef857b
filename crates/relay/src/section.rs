//! The `relay` section of a configuration, as it is written: its keys, what they mean, and their defaults.
//!
//! What one key says about another, and what files hold, is checked where the configuration is read.

use config::{
    Addresses, ByName, Count, FileReference, Label, List, Listen, OneOr, OneOrMore, Reference,
    Switch, Text, Time, Url,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::{CONTENT_BYTES_DEFAULT, HostMatch, SESSION_MS_DEFAULT};

/// Which hosts a route is for: a name, or `*.` and a name for all below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteHost(pub HostMatch);

config::scalar!(RouteHost, host, "text", { "type": "string", "minLength": 1 });

fn host(text: &str) -> Result<RouteHost, String> {
    let (under, name) = match text.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, text),
    };
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-._[]:".contains(&b);
    if name.is_empty() || !name.bytes().all(good) {
        return Err("must be a host's name, or *. and a name for all below it".to_owned());
    }
    Ok(RouteHost(match under {
        true => HostMatch::Under(name.to_owned()),
        false => HostMatch::Exact(name.to_owned()),
    }))
}

/// The path that a route is for, with all below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutePath(pub String);

config::scalar!(RoutePath, path, "text", { "type": "string", "minLength": 1 });
config::written_as!(RoutePath, |path| path.0.clone());

impl Default for RoutePath {
    fn default() -> RoutePath {
        RoutePath("/".to_owned())
    }
}

fn path(text: &str) -> Result<RoutePath, String> {
    match text.starts_with('/') && !text.contains(['?', '#', '*']) {
        true => Ok(RoutePath(text.to_owned())),
        false => Err(
            "must begin with / and is taken as it is: it stands for itself and for all below it"
                .to_owned(),
        ),
    }
}

/// A public key, its pin, or the file that holds it; which, is known once the file is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyText(pub String);

config::scalar!(KeyText, |text| Ok(KeyText(text.to_owned())), "public key, pin or file:PATH", {
    "type": "string", "minLength": 1
});

/// How the two sides speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    #[default]
    Shr,
    Mtls,
}

/// A cipher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Suite {
    #[default]
    #[serde(rename = "aes-256-gcm")]
    Aes256Gcm,
    #[serde(rename = "chacha20-poly1305")]
    ChaCha20Poly1305,
    #[serde(rename = "aes-256-gcm-siv")]
    Aes256GcmSiv,
}

/// How often a message may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Replay {
    #[default]
    Local,
    Strict,
}

/// Ticket keys that instances make together.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = &"{ store: true, key: file:fleet.psk }")]
pub struct SharedTickets {
    /// Makes, turns over and hands out the keys through the store of cache, which must not write to a disk.
    #[schemars(example = &"true")]
    #[serde(default)]
    pub store: Switch,
    /// The key that they are wrapped under there, the same at all instances, as `weir relay keygen --psk` makes it.
    #[schemars(required, example = &"file:fleet.psk")]
    pub key: Option<Reference>,
}

/// A store that replicas share: a Redis or a Valkey.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = &"{ redis: env:REDIS_URL }")]
pub struct CacheSection {
    /// Its URL, redis:// on this machine and rediss:// beyond, with the password in it.
    #[schemars(required, example = &"env:REDIS_URL")]
    pub redis: Option<Reference>,
    /// Certificates of authorities to trust for it instead of the public ones, as PEM.
    #[schemars(example = &"file:ca.pem")]
    pub ca: Option<FileReference>,
}

/// The user id of one agent.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[schemars(example = &"1000")]
pub struct UserId(pub Count<0, { u32::MAX as u64 }>);

/// The sealed relay: an outbound seals what applications send, an inbound opens it for origins.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Section {
    /// The side that applications speak to.
    #[schemars(
        example = &"{ key: file:outbound.key, anyone: local, peers: { east: { url: https://east.example, keys: file:east.pub } } }"
    )]
    pub outbound: Option<Outbound>,
    /// The side that origins are behind.
    #[schemars(
        example = &"{ keys: file:inbound.key, origins: { api: { url: http://127.0.0.1:3000 } }, allow: { app: { key: file:app.pub } } }"
    )]
    pub inbound: Option<Inbound>,
}

/// The side that applications speak to.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Outbound {
    /// Where applications connect, with plain HTTP/1.1; only a loopback address or a Unix socket, unless
    /// listen_public is true.
    #[schemars(example = &"unix:/run/weir/relay.sock")]
    pub listen: Listen,
    /// Whether applications may speak HTTP/2, too: those that begin with it.
    #[schemars(example = &"false")]
    pub http2: Switch,
    /// Allows a listen address that other machines reach; what they send is not sealed until it is here.
    #[schemars(example = &"true")]
    pub listen_public: Switch,
    /// The private key that peers know us by, as `weir relay keygen` makes it; needed unless all peers are
    /// spoken to by mtls.
    #[schemars(example = &"file:outbound.key")]
    pub key: Option<Reference>,
    /// The inbounds that requests are sealed for; policies know them as servers, by name.
    #[schemars(example = &"{ east: { url: https://east.example, keys: file:east.pub } }")]
    pub peers: ByName<Peer>,
    /// Where requests may be passed on as they are, unsealed.
    #[schemars(example = &"{ health: { url: http://127.0.0.1:3000 } }")]
    pub plain: ByName<Place>,
    /// Routing rules, first match wins. Required with more than one peer; otherwise everything goes to the only
    /// peer.
    #[schemars(example = &"[{ path: /health, plain: health }, { peer: east }]")]
    pub routes: Option<List<OutboundRoute>>,
    /// Who callers are that show no key; without it, the key of an agent is demanded.
    #[schemars(example = &"local")]
    pub anyone: Option<Label>,
    /// Agents that are known by their user id, on a Unix socket.
    #[schemars(example = &"{ batch: 1000 }")]
    pub users: ByName<UserId>,
    /// The field that an agent's key stands in, which is taken out before sealing; after Bearer in this one,
    /// alone in others.
    #[schemars(example = &"x-relay-key")]
    pub field: Text,
    /// Longest content of one request or answer, in bytes.
    #[schemars(example = &"1073741824")]
    pub content_bytes_max: Count<1024, CONTENT_BYTES_DEFAULT>,
}

impl Default for Outbound {
    fn default() -> Outbound {
        Outbound {
            listen: Listen::local(8701),
            http2: Switch(true),
            listen_public: Default::default(),
            key: None,
            peers: Default::default(),
            plain: Default::default(),
            routes: None,
            anyone: None,
            users: Default::default(),
            field: Text("proxy-authorization".to_owned()),
            content_bytes_max: Count(CONTENT_BYTES_DEFAULT),
        }
    }
}

/// One inbound.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = &"{ url: https://east.example, keys: file:east.pub }")]
pub struct Peer {
    /// Where the inbound is reached, over whatever stands between; http is as safe as https, and shows who
    /// talks to whom.
    #[schemars(required, example = &"https://east.example")]
    pub url: Option<Url>,
    /// How requests get there: shr seals each, whatever stands between; mtls is TLS 1.3 with certificates on
    /// both sides, on a path that passes TCP on as it is.
    #[schemars(example = &"mtls")]
    #[serde(default)]
    pub transport: Transport,
    /// With mtls: the certificate that the inbound is shown, with those between it and its authority, as PEM.
    #[schemars(example = &"file:app.crt")]
    pub certificate: Option<FileReference>,
    /// With mtls: the private key of that certificate, as PEM.
    #[schemars(example = &"file:app.pem")]
    pub certificate_key: Option<FileReference>,
    /// The inbound's public key, or its pin; list the next one too while it turns over. Needed with shr.
    #[schemars(example = &"[file:east.pub, file:east-next.pub]")]
    pub keys: Option<OneOrMore<KeyText>>,
    /// A pre-shared key of this pair, beside the key pairs; two while it turns over.
    #[schemars(example = &"env:EAST_PSK")]
    pub psk: Option<OneOrMore<Reference>>,
    /// The join token that the inbound asks for before it looks at a handshake.
    #[schemars(example = &"env:EAST_JOIN_TOKEN")]
    pub join_token: Option<Reference>,
    /// The cipher; aes-256-gcm-siv for machines that are cloned or restored from snapshots.
    #[schemars(example = &"chacha20-poly1305")]
    #[serde(default)]
    pub suite: Suite,
    /// Whether the lengths of requests are hidden in buckets.
    #[schemars(example = &"true")]
    #[serde(default)]
    pub padding: Switch,
    /// Certificates of authorities to trust for this url instead of the public ones, as PEM; needed with mtls.
    #[schemars(example = &"file:ca.pem")]
    pub ca: Option<FileReference>,
    /// With mtls: the authorities' revocation lists, as PEM; the inbound's certificate has to be known to them
    /// and not revoked.
    #[schemars(example = &"file:crl.pem")]
    pub crl: Option<FileReference>,
    /// Whether HTTP/2 is spoken to it: over https where it agrees, over http without asking. Not where something in between
    /// speaks HTTP/1.1 alone.
    #[schemars(example = &"true")]
    #[serde(default)]
    pub http2: Switch,
    /// Private address ranges that may be dialled for this peer; those that are not public are refused
    /// otherwise.
    #[schemars(example = &"[10.0.0.0/8]")]
    #[serde(default)]
    pub addresses: List<Addresses>,
}

/// One place that requests go to.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = &"{ url: http://127.0.0.1:3000 }")]
pub struct Place {
    /// Where it is reached.
    #[schemars(required, example = &"http://127.0.0.1:3000")]
    pub url: Option<Url>,
    /// Certificates of authorities to trust for this url instead of the public ones, as PEM.
    #[schemars(example = &"file:ca.pem")]
    pub ca: Option<FileReference>,
    /// Whether HTTP/2 is spoken to it, which gRPC needs: over https where it agrees, over http without asking.
    #[schemars(example = &"true")]
    #[serde(default)]
    pub http2: Switch,
    /// Private address ranges that may be dialled for it; those that are not public are refused otherwise.
    #[schemars(example = &"[10.0.0.0/8]")]
    #[serde(default)]
    pub addresses: List<Addresses>,
}

/// Routing rules, first match wins. Required with more than one peer; otherwise everything goes to the only peer.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OutboundRoute {
    /// The host of the request, or *.name for all below a name; without it, every host.
    #[schemars(example = &"api.example")]
    pub host: Option<RouteHost>,
    /// The path of the request, for itself and all below it.
    #[schemars(example = &"/v1")]
    pub path: RoutePath,
    /// The peer that it is sealed for: this or plain.
    #[schemars(example = &"east")]
    pub peer: Option<Label>,
    /// The place that it is passed on to unsealed: this or peer.
    #[schemars(example = &"health")]
    pub plain: Option<Label>,
}

/// The side that origins are behind.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Inbound {
    /// Where outbounds connect, or what stands before us; only sealed messages are answered, so any address is
    /// good.
    #[schemars(example = &"0.0.0.0:8702")]
    pub listen: Listen,
    /// Whether outbounds may speak HTTP/2, too: those that begin with it, or agree on it by mtls. false where a proxy
    /// in between does not speak it whole.
    #[schemars(example = &"false")]
    pub http2: Switch,
    /// What outbounds send: shr is sealed messages; mtls is TLS 1.3 with certificates on both sides, and plain
    /// HTTP/1.1 in it.
    #[schemars(example = &"mtls")]
    pub transport: Transport,
    /// With mtls: our certificate, with those between it and its authority, as PEM.
    #[schemars(example = &"file:east.crt")]
    pub certificate: Option<FileReference>,
    /// With mtls: the private key of that certificate, as PEM.
    #[schemars(example = &"file:east.pem")]
    pub certificate_key: Option<FileReference>,
    /// With mtls: the authorities whose certificates outbounds have to show, as PEM.
    #[schemars(example = &"file:ca.pem")]
    pub ca: Option<FileReference>,
    /// With mtls: the authorities' revocation lists, as PEM; an outbound's certificate has to be known to them
    /// and not revoked.
    #[schemars(example = &"file:crl.pem")]
    pub crl: Option<FileReference>,
    /// Our private keys, as `weir relay keygen` makes them: one, or two while it turns over. Needed with shr.
    #[schemars(example = &"[file:inbound.key, file:inbound-next.key]")]
    pub keys: Option<OneOrMore<Reference>>,
    /// Where opened requests go as plain HTTP/1.1; policies know them as servers, by name.
    #[schemars(example = &"{ api: { url: http://127.0.0.1:3000 } }")]
    pub origins: ByName<Place>,
    /// Which requests go to which origin: the first that matches; needed where there is more than one origin.
    #[schemars(example = &"[{ host: api.example, origin: api }]")]
    pub routes: Option<List<InboundRoute>>,
    /// The outbounds that may call; policies know them as agents, by name. Without one nobody may.
    #[schemars(example = &"{ app: { key: file:app.pub } }")]
    pub allow: ByName<Allowed>,
    /// Secrets of which a handshake has to show one before it costs us anything; two while they turn over.
    #[schemars(example = &"[env:JOIN_TOKEN]")]
    pub join_tokens: Option<List<Reference>>,
    /// The ticket keys that instances share: a file, as `weir relay keygen --tickets` writes it, or a map where they
    /// make them through the store; without it this instance makes its own and tells nobody.
    #[schemars(example = &"file:tickets")]
    pub ticket_keys: Option<OneOr<FileReference, SharedTickets>>,
    /// The key that outbounds are told to expect next.
    #[schemars(example = &"file:inbound-next.key.pub")]
    pub next_key: Option<KeyText>,
    /// How often a message may run: local is once on each instance, strict is once over all of them, by the store of
    /// cache.
    #[schemars(example = &"strict")]
    pub replay: Replay,
    /// The store of this side's instances, in place of the one of cache.
    #[schemars(example = &"{ redis: env:RELAY_REDIS_URL }")]
    pub cache: Option<CacheSection>,
    /// Most senders of the last half minute that are told apart, at 2 KiB each; over it, new ones are refused.
    #[schemars(example = &"16384")]
    pub windows_max: Count<64, { 1 << 20 }>,
    /// CPU time that handshakes may take in each second, in microseconds.
    #[schemars(example = &"100000")]
    pub handshake_cpu_us_per_s: Count<1_000, 1_000_000>,
    /// How long sessions last, in milliseconds; outbounds renew them before they end.
    #[schemars(example = &"600000")]
    pub session_ms: Count<1_000, { SESSION_MS_DEFAULT }>,
    /// Longest content of one request or answer, in bytes.
    #[schemars(example = &"1073741824")]
    pub content_bytes_max: Count<1024, CONTENT_BYTES_DEFAULT>,
    /// Whether the lengths of answers are hidden in buckets.
    #[schemars(example = &"true")]
    pub padding: Switch,
}

impl Default for Inbound {
    fn default() -> Inbound {
        Inbound {
            listen: Listen::local(8702),
            http2: Switch(true),
            transport: Default::default(),
            certificate: None,
            certificate_key: None,
            ca: None,
            crl: None,
            keys: None,
            origins: Default::default(),
            routes: None,
            allow: Default::default(),
            join_tokens: None,
            ticket_keys: None,
            next_key: None,
            replay: Default::default(),
            cache: None,
            windows_max: Count(seal::replay::WINDOWS_DEFAULT as u64),
            handshake_cpu_us_per_s: Count(100_000),
            session_ms: Count(SESSION_MS_DEFAULT),
            content_bytes_max: Count(CONTENT_BYTES_DEFAULT),
            padding: Default::default(),
        }
    }
}

/// Which requests go to which origin: the first that matches; needed where there is more than one origin.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InboundRoute {
    /// The host of the request, or *.name for all below a name; without it, every host.
    #[schemars(example = &"api.example")]
    pub host: Option<RouteHost>,
    /// The path of the request, for itself and all below it.
    #[schemars(example = &"/v1")]
    #[serde(default)]
    pub path: RoutePath,
    /// The origin that it goes to.
    #[schemars(required, example = &"api")]
    pub origin: Option<Label>,
}

/// One outbound.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ key: file:app.pub, groups: [services] }")]
pub struct Allowed {
    /// The outbound's public key, whole. Needed with shr.
    #[schemars(example = &"file:app.pub")]
    pub key: Option<KeyText>,
    /// With mtls: the DNS name or IP address that the outbound's certificate is for, of its alternative names.
    #[schemars(example = &"app.example")]
    pub certificate_name: Option<Text>,
    /// The pre-shared key of this pair, beside the key pairs.
    #[schemars(example = &"env:APP_PSK")]
    pub psk: Option<Reference>,
    /// The groups that policies know the outbound by.
    #[schemars(example = &"[services]")]
    pub groups: List<Label>,
    /// Sessions of this outbound that started before this time are ended. Set it to when its key may have been
    /// stolen.
    #[schemars(example = &"2027-01-01T00:00:00Z")]
    pub sessions_after: Option<Time>,
}
