//! Where agents and the operator connect: the keys `listen`, `public_url` and `admin`, as they are written and as they
//! are read.

use ::config::{
    Addresses, ByName, Check, Count, FileMode, FileReference, List, Listen, OneOr, OneOrMore,
    Path as Key, Pem, SECRET_BYTES_MAX, Switch,
};
use base::{Digest, Name, Secret};
use net::tls::{CertificatePem, ClientAsk, EdgeTls, TlsProblem};
use net::{CallerSaid, ForwardedField, Proxies};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Problem;
use super::file::{File, KeyHash};
use crate::admin::AdminRole;

/// The mode of a socket's file that nothing else was written for: this user alone.
const OWNER_ALONE: u32 = 0o600;

/// What `listen` may be: an address, more about one, or a list of these.
pub(crate) type Listens = OneOrMore<OneOr<Listen, ListenerSection>>;

/// A listener, as it is written.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = &"{ address: 0.0.0.0:8443, tls: { certificates: { … } } }")]
pub(crate) struct ListenerSection {
    /// An address and a port, or unix:PATH.
    #[schemars(required, example = &"0.0.0.0:8443")]
    pub address: Option<Listen>,
    /// With unix:PATH, the mode of the socket's file; without it this user alone may connect.
    #[schemars(example = &"\"0660\"")]
    pub mode: Option<FileMode>,
    /// TLS 1.2 and 1.3, which ends here.
    #[schemars(example = &"{ certificates: { certificate: file:weir.crt, key: file:weir.key } }")]
    pub tls: Option<TlsSection>,
    /// Whether HTTP/2 is spoken here beside HTTP/1.1: by TLS to clients that offer it, else to those that begin with it.
    /// false where a proxy in between does not speak it whole.
    #[schemars(example = &"false")]
    #[serde(default = "switched_on")]
    pub http2: Switch,
    /// How the proxies in front say who calls: by the PROXY protocol, or by a field. What callers send of it themselves
    /// must not pass those proxies.
    #[schemars(example = &"protocol")]
    pub proxy: Option<ProxySays>,
    /// The addresses of those proxies; with unix:PATH each process that may connect is one.
    #[schemars(example = &"[10.0.0.0/8]")]
    #[serde(default)]
    pub trusted: List<Addresses>,
}

/// TLS of a listener, as it is written.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TlsSection {
    /// One certificate or several: the first that is for the name that a client asks for, or the first of all. Changed
    /// files are read again while serving.
    #[schemars(required, example = &"{ certificate: file:weir.crt, key: file:weir.key }")]
    pub certificates: Option<OneOrMore<CertificateSection>>,
    /// Asks clients for certificates.
    #[schemars(example = &"{ ca: file:clients.pem }")]
    pub clients: Option<ClientsSection>,
}

/// A certificate with its key, as it is written.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CertificateSection {
    /// The certificate, with those between it and its authority, as PEM.
    #[schemars(required, example = &"file:weir.crt")]
    pub certificate: Option<FileReference>,
    /// Its private key, as PEM.
    #[schemars(required, example = &"file:weir.key")]
    pub key: Option<FileReference>,
}

/// Whose certificates clients show, as it is written.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientsSection {
    /// The authorities of clients' certificates, as PEM.
    #[schemars(required, example = &"file:clients.pem")]
    pub ca: Option<FileReference>,
    /// The authorities' revocation lists, as PEM; then a certificate has to be known to them and not revoked.
    #[schemars(example = &"file:clients.crl")]
    pub crl: Option<FileReference>,
    /// Whether a client without a certificate is refused.
    #[schemars(example = &"false")]
    #[serde(default = "switched_on")]
    pub required: Switch,
}

fn switched_on() -> Switch {
    Switch(true)
}

/// How proxies say whom they act for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ProxySays {
    /// A PROXY header before all else, version 1 or 2.
    Protocol,
    /// The field Forwarded (RFC 7239).
    Forwarded,
    /// The field X-Forwarded-For.
    XForwardedFor,
}

impl ProxySays {
    fn said(self) -> CallerSaid {
        match self {
            ProxySays::Protocol => CallerSaid::Protocol,
            ProxySays::Forwarded => CallerSaid::Field(ForwardedField::Forwarded),
            ProxySays::XForwardedFor => CallerSaid::Field(ForwardedField::XForwardedFor),
        }
    }
}

/// The admin listener, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = &"{ listen: '127.0.0.1:9090', key: sha256:9f2c… }")]
pub(crate) struct AdminSection {
    /// Where the operator's pages are; without it a socket in the state folder that this user alone may open.
    #[schemars(example = &"127.0.0.1:9090")]
    pub listen: Option<Listen>,
    /// With a socket, the mode of its file; without it this user alone may connect.
    #[schemars(example = &"\"0660\"")]
    pub mode: Option<FileMode>,
    /// The hash of a key that those have to send who ask, as `weir agent key` prints it; it acts as an admin.
    #[schemars(example = &"sha256:9f2c…")]
    pub key: Option<KeyHash>,
    /// Who else may ask, each in a role of its own.
    #[schemars(example = &"{ alice: { uid: 1001, role: operator }, ci: { key: sha256:9f2c…, role: auditor } }")]
    #[serde(default)]
    pub operators: ByName<OperatorSection>,
    /// TLS of this listener; needed with a key where other machines reach it.
    #[schemars(example = &"{ certificates: { certificate: file:weir.crt, key: file:weir.key } }")]
    pub tls: Option<TlsSection>,
}

/// One who may ask at the admin listener, as it is written.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = &"{ uid: 1001, role: operator }")]
pub(crate) struct OperatorSection {
    /// The user at the other end of the socket.
    #[schemars(example = &"1001")]
    pub uid: Option<Count<0, 4_294_967_294>>,
    /// The hash of the key that it sends, as `weir agent key` prints it.
    #[schemars(example = &"sha256:9f2c…")]
    pub key: Option<KeyHash>,
    /// auditor reads; operator also stops, suspends, approves and takes back; admin also lets in, by invites and keys.
    #[schemars(required, example = &"operator")]
    pub role: Option<AdminRole>,
}

/// Where something listens, and how.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Listener {
    pub at: Listen,
    /// Of the file of a Unix socket.
    pub mode: u32,
    /// Whether TLS is asked for.
    pub is_secured: bool,
    /// Its certificates, where they can be used.
    pub tls: Option<Tls>,
    pub http2: bool,
    pub proxies: Option<Proxies>,
}

impl Listener {
    /// One that speaks plain HTTP to who can reach it.
    pub(crate) fn plain(at: Listen) -> Listener {
        Listener {
            at,
            mode: OWNER_ALONE,
            is_secured: false,
            tls: None,
            http2: true,
            proxies: None,
        }
    }

    /// What of it is read at the start alone.
    pub(crate) fn fixed(&self) -> (&Listen, u32, [bool; 2], &Option<Proxies>) {
        let switches = [self.is_secured, self.http2];
        (&self.at, self.mode, switches, &self.proxies)
    }
}

/// The certificates of a listener, which fit their keys.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Tls {
    certificates: Vec<(Pem, Secret)>,
    clients: Option<Clients>,
}

/// Whose certificates clients show.
#[derive(Clone, PartialEq, Eq)]
struct Clients {
    ca: Pem,
    crl: Option<Pem>,
    is_required: bool,
}

impl Tls {
    /// As `net` speaks it.
    pub(crate) fn edge(&self) -> Result<EdgeTls, TlsProblem> {
        self.with(EdgeTls::new)
    }

    /// Gives what puts these certificates in the place of others.
    pub(crate) fn renew<'e>(
        &self,
        tls: &'e EdgeTls,
    ) -> Result<impl FnOnce() + use<'e>, TlsProblem> {
        self.with(|certificates, clients| tls.prepare(certificates, clients))
    }

    fn with<T>(&self, work: impl FnOnce(&[CertificatePem<'_>], Option<ClientAsk<'_>>) -> T) -> T {
        let certificates = self.certificates.iter();
        let certificates = certificates.map(|(chain, key)| CertificatePem {
            chain: chain.pem.as_bytes(),
            key: key.expose().as_bytes(),
        });
        let certificates: Vec<_> = certificates.collect();
        let clients = self.clients.as_ref().map(|clients| ClientAsk {
            authorities: clients.ca.pem.as_bytes(),
            revoked: clients.crl.as_ref().map(|crl| crl.pem.as_bytes()),
            is_required: clients.is_required,
        });
        work(&certificates, clients)
    }
}

/// The admin listener.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Admin {
    /// Nothing where it is the socket in the state folder.
    pub listener: Option<Listener>,
    /// The mode of the file of the socket in the state folder.
    pub mode: u32,
    /// The SHA-256 of the key that is asked for.
    pub key: Option<Digest>,
    pub operators: Vec<AdminOperator>,
}

/// One who may ask at the admin listener.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct AdminOperator {
    pub name: Name,
    pub by: OperatorBy,
    pub role: AdminRole,
}

/// How an operator is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperatorBy {
    User(u32),
    /// The SHA-256 of a key.
    Key(Digest),
}

impl Admin {
    /// The one that nothing was written for.
    pub(crate) fn built_in() -> Admin {
        Admin {
            listener: None,
            mode: OWNER_ALONE,
            key: None,
            operators: Vec::new(),
        }
    }

    /// Whether anybody is known by a key.
    pub(crate) fn has_keys(&self) -> bool {
        let is_key = |operator: &AdminOperator| matches!(operator.by, OperatorBy::Key(_));
        self.key.is_some() || self.operators.iter().any(is_key)
    }
}

/// Where agents connect.
pub(super) fn listeners(file: &File, check: &mut Check<'_>) -> Vec<Listener> {
    let mut listeners: Vec<Listener> = Vec::new();
    let at = Key::of("listen");
    if file.listen.is_empty() {
        check.say(&at, "must name at least one address");
    }
    for (at, written) in file.listen.at(&at) {
        let Some(listener) = listener(written, &at, check) else {
            continue;
        };
        if listener.at.is_public() && !listener.is_secured && !file.listen_public.0 {
            let message = "other machines reach this address, and agents' keys would cross the \
                           network in the clear; write tls: { certificates: { certificate: \
                           file:…, key: file:… } }, or listen on 127.0.0.1 behind a proxy that \
                           speaks TLS, or write listen_public: true";
            check.say(&at, message);
        }
        let is_fixed = !matches!(listener.at, Listen::Tcp(address) if address.port() == 0);
        if is_fixed && listeners.iter().any(|other| other.at == listener.at) {
            check.say(&at, "is listened on twice");
        }
        listeners.push(listener);
    }
    listeners
}

fn listener(
    written: &OneOr<Listen, ListenerSection>,
    at: &Key,
    check: &mut Check<'_>,
) -> Option<Listener> {
    let section = match written {
        OneOr::One(listen) => return Some(Listener::plain(found(listen, check))),
        OneOr::Map(section) => section,
    };
    let listen = found(section.address.as_ref()?, check);
    let is_unix = matches!(listen, Listen::Unix(_));
    if is_unix {
        check.not_with(at, "a Unix socket", &["tls"]);
        if section.proxy == Some(ProxySays::Protocol) {
            let message = "protocol does not go with a Unix socket; have the proxy send a field";
            check.say(&at.key("proxy"), message);
        }
    } else {
        check.not_with(at, "an address", &["mode"]);
    }
    let trusted = section.trusted.values().map(|range| range.0);
    let proxies = section.proxy.map(|proxy| Proxies {
        said: proxy.said(),
        trusted: trusted.collect(),
        is_unix_trusted: is_unix,
    });
    match &proxies {
        Some(proxies) if proxies.trusted.is_empty() && !is_unix => {
            let message = "needs trusted: [ADDRESS, …], the addresses of the proxies: whoever is \
                           believed can call as anybody";
            check.say(&at.key("proxy"), message);
        }
        None if check.wrote(&at.key("trusted")) => {
            let message = "needs proxy: protocol, forwarded or x-forwarded-for";
            check.say(&at.key("trusted"), message);
        }
        _ => {}
    }
    Some(Listener {
        at: listen,
        mode: section.mode.map_or(OWNER_ALONE, |mode| mode.0),
        is_secured: section.tls.is_some(),
        tls: check.of(&section.tls, &at.key("tls"), tls),
        http2: section.http2.0,
        proxies,
    })
}

/// A place with the path of its socket made whole.
fn found(listen: &Listen, check: &Check<'_>) -> Listen {
    match listen {
        Listen::Unix(path) => Listen::Unix(check.folder.join(path)),
        tcp => tcp.clone(),
    }
}

fn tls(check: &mut Check<'_>, section: &TlsSection, at: &Key) -> Option<Tls> {
    let (mut certificates, mut places) = (Vec::new(), Vec::new());
    let key = at.key("certificates");
    let written = section.certificates.as_ref()?;
    if written.is_empty() {
        check.say(&key, "must list at least one certificate");
    }
    let mut is_whole = true;
    for (at, one) in written.at(&key) {
        let pem = check.of(
            &one.certificate,
            &at.key("certificate"),
            Check::certificates,
        );
        let private = check.of(&one.key, &at.key("key"), private_key);
        is_whole &= pem.is_some() && private.is_some();
        certificates.extend(pem.zip(private));
        places.push(at);
    }
    let clients = check.of(&section.clients, &at.key("clients"), clients);
    if !is_whole || certificates.is_empty() || clients.is_none() && section.clients.is_some() {
        return None;
    }
    let tls = Tls {
        certificates,
        clients,
    };
    let Err(problem) = tls.edge() else {
        warn_of_expiry(&tls, &places, check);
        return Some(tls);
    };
    let place = problem.certificate.and_then(|number| places.get(number));
    let place = match place {
        Some(place) if problem.is_of_key() => place.key("key"),
        Some(place) => place.key("certificate"),
        None => at.key("clients"),
    };
    check.say(&place, problem.kind.to_string());
    None
}

/// Says which certificates clients refuse because their time is over.
fn warn_of_expiry(tls: &Tls, places: &[Key], check: &mut Check<'_>) {
    let now_unix_ms = check.outside.now_unix_ms();
    for ((chain, _), place) in tls.certificates.iter().zip(places) {
        let Some(until) = net::tls::expires(chain.pem.as_bytes()) else {
            continue;
        };
        if ::config::unix_ms(&until).is_some_and(|at| at <= now_unix_ms) {
            let message =
                format!("expired at {until}, so clients refuse it; put a new one in its place");
            check.warn(&place.key("certificate"), message);
        }
    }
}

fn private_key(check: &mut Check<'_>, file: &FileReference, at: &Key) -> Option<Secret> {
    let text = check.text(&file.0, SECRET_BYTES_MAX);
    check.good(at, text).map(Secret::new)
}

fn clients(check: &mut Check<'_>, section: &ClientsSection, at: &Key) -> Option<Clients> {
    let ca = check.of(&section.ca, &at.key("ca"), Check::certificates)?;
    let lists = |check: &mut Check<'_>, file: &FileReference, at: &Key| {
        check.pem(file, at, "revocation list", "-----BEGIN X509 CRL-----")
    };
    let crl = check.of(&section.crl, &at.key("crl"), lists);
    let is_whole = crl.is_some() || section.crl.is_none();
    is_whole.then_some(Clients {
        ca,
        crl,
        is_required: section.required.0,
    })
}

/// Whether a problem is of certificates, without which those that are shown already can stay.
pub(super) fn is_of_certificates(problem: &Problem) -> bool {
    let is_of_listener = problem.key.starts_with("listen") || problem.key.starts_with("admin.");
    is_of_listener && problem.key.contains("tls.")
}

/// Where the operator's pages are.
pub(super) fn admin(file: &File, agents: &[Listener], check: &mut Check<'_>) -> Admin {
    let Some(section) = &file.admin else {
        return Admin::built_in();
    };
    let at = Key::of("admin");
    let listen = section.listen.as_ref();
    let listen = listen.map(|listen| found(listen, check));
    let key = section.key.map(|key| key.0);
    let operators = operators(section, &at, check);
    let has_keys = key.is_some()
        || operators
            .iter()
            .any(|of| matches!(of.by, OperatorBy::Key(_)));
    let is_taken = |listen: &Listen| {
        let is_fixed = !matches!(listen, Listen::Tcp(address) if address.port() == 0);
        is_fixed && agents.iter().any(|other| other.at == *listen)
    };
    if listen.as_ref().is_some_and(is_taken) {
        check.say(
            &at.key("listen"),
            "is where agents connect; write another address",
        );
    }
    let tls = check.of(&section.tls, &at.key("tls"), tls);
    match &listen {
        None | Some(Listen::Unix(_)) => check.not_with(&at, "a Unix socket", &["tls"]),
        Some(public) if public.is_public() => {
            if !has_keys && !check.wrote(&at.key("key")) {
                let message = "other machines reach this address, and what servers are named is \
                               not for all of them; write key: sha256:…, which weir agent key \
                               prints, or listen on 127.0.0.1";
                check.say(&at.key("listen"), message);
            }
            if !check.wrote(&at.key("tls")) {
                let message = "other machines reach this address, and the key would cross the \
                               network in the clear; write tls: { certificates: { certificate: \
                               file:…, key: file:… } }, or listen on 127.0.0.1";
                check.say(&at.key("listen"), message);
            }
        }
        Some(_) if !has_keys => {
            let message = "every program of this machine may read the metrics here, and nobody may do more; \
                           write key: sha256:…, which weir agent key prints, to ask for one";
            check.warn(&at.key("listen"), message);
        }
        Some(_) => {}
    }
    if matches!(listen, Some(Listen::Tcp(_))) {
        check.not_with(&at, "an address", &["mode"]);
    }
    let mode = section.mode.map_or(OWNER_ALONE, |mode| mode.0);
    Admin {
        listener: listen.map(|listen| Listener {
            is_secured: section.tls.is_some(),
            tls,
            mode,
            ..Listener::plain(listen)
        }),
        mode,
        key,
        operators,
    }
}

/// Who may ask at the admin listener beside its owner.
fn operators(section: &AdminSection, at: &Key, check: &mut Check<'_>) -> Vec<AdminOperator> {
    let mut operators: Vec<AdminOperator> = Vec::new();
    for (name, written) in section.operators.iter() {
        let at = at.key("operators").key(name);
        let by = match (written.uid, written.key) {
            (Some(uid), None) => OperatorBy::User(uid.0 as u32),
            (None, Some(key)) => OperatorBy::Key(key.0),
            _ => {
                check.say(&at, "needs either uid or key");
                continue;
            }
        };
        let is_known = operators.iter().any(|other| other.by == by)
            || section.key.is_some_and(|key| OperatorBy::Key(key.0) == by);
        if is_known {
            check.say(
                &at,
                "is known by what somebody else is known by; give each its own",
            );
        }
        if let (Some(name), Some(role)) = (Name::new(name), written.role) {
            operators.push(AdminOperator { name, by, role });
        }
    }
    operators
}
