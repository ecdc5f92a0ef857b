//! The `web:` section: what its keys say about each other, and the secrets and files that they name.

use std::sync::Arc;

use ::config::{ByName, Check, Listen, Path as Key};
use http::header::HeaderName;
use net::{InterceptAuthority, TunnelBounds, WebSocketBounds};
use web::section::{CredentialSection, InterceptSection, ReverseSection, WebSection};
use web::{AgentBounds, FetchSettings, HostNames, ReverseService, SiteCredential, SocketSettings};

use super::settings::{Ca, Web, WebIntercept, WebReverse};

/// The files of an authority in its folder.
pub(crate) const AUTHORITY_FILE: &str = "ca.pem";
pub(crate) const AUTHORITY_KEY_FILE: &str = "ca-key.pem";
/// Bytes of either.
const AUTHORITY_BYTES_MAX: usize = 64 << 10;
/// Shortest placeholder, in bytes: a shorter one would be found in what means something else.
const PLACEHOLDER_BYTES_MIN: usize = 12;
/// Fields that frame a message or say whom it is for.
const OUR_FIELDS: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The lane's settings. `public` is whether listeners may be reached from other machines, `taken` are the names of all other
/// destinations: a service behind the reverse proxy has one of its own.
pub(super) fn web(
    written: Option<&WebSection>,
    public: bool,
    taken: &[base::Name],
    check: &mut Check<'_>,
) -> Web {
    let defaults = WebSection::default();
    let (is_on, section) = (written.is_some(), written.unwrap_or(&defaults));
    let at = Key::of("web");
    check_local(section.listen.as_ref(), public, &at, check);
    let reverse = reverse(&section.reverse, (public, taken), &at.key("reverse"), check);
    let credentials = section.credentials.iter();
    let credentials = credentials.filter_map(|(name, written)| {
        credential(name, written, &at.key("credentials").key(name), check)
    });
    let credentials: Vec<SiteCredential> = credentials.collect();
    distinct(&credentials, &at.key("credentials"), check);
    let intercept = section.intercept.as_ref();
    let folder = intercept.and_then(|of| of.ca.as_ref());
    let folder = folder.map(|folder| check.folder.join(&folder.0));
    let intercept = intercept.and_then(|of| intercepted(of, &at.key("intercept"), check));
    let ca = check.of(&section.ca, &at.key("ca"), Check::certificates);
    Web {
        is_on,
        listen: section.listen.clone(),
        intercept,
        intercept_folder: folder,
        credentials,
        reverse,
        ca: ca.and_then(|ca| trusted(ca, &at.key("ca"), check)),
        ..numbers(section)
    }
}

/// Refuses a listener that other machines reach, where that is not allowed.
fn check_local(listen: Option<&Listen>, public: bool, at: &Key, check: &mut Check<'_>) {
    if listen.is_some_and(Listen::is_public) && !public {
        let message = "is reached by other machines, and agents' keys would cross that network in the clear; listen on 127.0.0.1, or write listen_public: true";
        check.say(&at.key("listen"), message);
    }
}

/// The services behind the reverse proxy.
fn reverse(
    written: &ByName<ReverseSection>,
    (public, taken): (bool, &[base::Name]),
    at: &Key,
    check: &mut Check<'_>,
) -> Vec<WebReverse> {
    let mut services = Vec::new();
    for (name, written) in written.iter() {
        let at = at.key(name);
        if taken.iter().any(|other| other.as_str() == name) {
            check.say_of_name(
                &at,
                "is the name of a server, a provider, an agent or a side of the relay too; give it another",
            );
        }
        check_local(written.listen.as_ref(), public, &at, check);
        let token = check.of(&written.token, &at.key("token"), Check::secret);
        let ca = check.of(&written.ca, &at.key("ca"), Check::certificates);
        let (Some(listen), Some(url)) = (&written.listen, &written.url) else {
            check.say_of_name(&at, "needs a listen and a url");
            continue;
        };
        if !url.https && !url.is_loopback() && check.wrote(&at.key("token")) {
            let message = "would cross the network in the clear; use an https url";
            check.say(&at.key("token"), message);
        }
        if !url.https && ca.is_some() {
            check.say(&at.key("ca"), "is for https, and the url is http");
        }
        let base = url.path.trim_end_matches('/');
        if base.contains('?') || web::read_url(&format!("{}{base}/", url.origin())).is_err() {
            check.say(
                &at.key("url"),
                "must be a URL without a query, such as https://wiki.example/api",
            );
        }
        let told = base::Name::new(name).map(|name| ReverseService {
            name,
            origin: url.origin(),
            base: base.to_owned(),
            token,
        });
        services.extend(told.map(|told| WebReverse {
            told: Arc::new(told),
            listen: listen.clone(),
            url: url.clone(),
            ca,
            addresses: written.addresses.values().map(|range| range.0).collect(),
        }));
    }
    services
}

/// Where no section is written.
pub(super) fn built_in() -> Web {
    numbers(&WebSection::default())
}

/// The keys that are read as they are written.
fn numbers(section: &WebSection) -> Web {
    Web {
        is_on: false,
        mode: section.mode,
        listen: None,
        intercept: None,
        intercept_folder: None,
        credentials: Vec::new(),
        reverse: Vec::new(),
        ca: None,
        fetch: FetchSettings {
            user_agent: section.fetch.user_agent.0.clone(),
            bytes_max: section.fetch.bytes_max.size(),
            redirects_max: section.fetch.redirects_max.size(),
            asks_robots: section.fetch.robots.0,
        },
        tunnel: TunnelBounds {
            idle_ms: section.tunnel.idle_ms.0,
            whole_ms: section.tunnel.whole_ms.0,
            bytes_max: section.tunnel.bytes_max.0,
        },
        socket: SocketSettings {
            is_binary: section.socket.binary.0,
            origin: section.socket.origin,
            bounds: WebSocketBounds {
                idle_ms: section.socket.idle_ms.0,
                whole_ms: section.socket.whole_ms.0,
                message_bytes_max: section.socket.message_bytes_max.size(),
            },
        },
        agent: AgentBounds {
            open_max: section.agent.open_max.size(),
            hosts_per_hour: section.agent.hosts_per_hour.size(),
            bytes_per_hour: section.agent.bytes_per_hour.0,
        },
        body_bytes_max: section.body_bytes_max.size(),
        answer_ms: section.answer_ms.0,
        silence_ms: section.silence_ms.0,
    }
}

/// Certificates that can be those of authorities.
fn trusted(ca: Ca, at: &Key, check: &mut Check<'_>) -> Option<Ca> {
    let tried = net::Targets::default().trusting(ca.pem.as_bytes());
    check.good(at, tried.map(|_| ca))
}

fn intercepted(
    written: &InterceptSection,
    at: &Key,
    check: &mut Check<'_>,
) -> Option<WebIntercept> {
    let pass = hosts(
        written.pass.values().map(|name| name.0.as_str()),
        &at.key("pass"),
        check,
    );
    let at = at.key("ca");
    let Some(folder) = &written.ca else {
        check.say(
            &at,
            "names the folder of the authority; make one with weir web ca init",
        );
        return None;
    };
    let mut read = |file: &str| {
        let text = check.text(&folder.0.join(file), AUTHORITY_BYTES_MAX);
        text.map_err(|message| {
            let file = folder.0.join(file).display().to_string();
            let message = message.replacen("the file", &format!("the file {file:?}"), 1);
            format!("{message}; make an authority with weir web ca init")
        })
    };
    let read = read(AUTHORITY_FILE).and_then(|pem| Ok((pem, read(AUTHORITY_KEY_FILE)?)));
    let read = read
        .and_then(|(pem, key)| InterceptAuthority::read(pem.as_bytes(), &base::Secret::new(key)));
    let authority = check.good(&at, read)?;
    Some(WebIntercept {
        authority: Arc::new(authority),
        pass: pass?,
    })
}

fn hosts<'a>(
    names: impl Iterator<Item = &'a str>,
    at: &Key,
    check: &mut Check<'_>,
) -> Option<HostNames> {
    check.good(at, HostNames::read(names))
}

fn credential(
    name: &str,
    written: &CredentialSection,
    at: &Key,
    check: &mut Check<'_>,
) -> Option<SiteCredential> {
    let names = written.hosts.values().map(|host| host.0.as_str());
    let hosts = hosts(names, &at.key("hosts"), check);
    if hosts.as_ref().is_some_and(HostNames::is_empty) {
        check.say(
            &at.key("hosts"),
            "names no host; a credential is for those that are named",
        );
    }
    let field = written
        .field
        .as_ref()
        .map_or("authorization", |field| field.0.as_str());
    let parsed = HeaderName::try_from(field).ok();
    let field = parsed.filter(|field| !OUR_FIELDS.contains(&field.as_str()));
    if field.is_none() {
        check.say(
            &at.key("field"),
            "is no field that a credential can go into",
        );
    }
    if written.value.is_none() {
        check.say_of_name(at, "needs a value, such as value: env:GITHUB_TOKEN");
    }
    let value = check.of(&written.value, &at.key("value"), Check::secret);
    let placeholder = written.placeholder.as_ref().map(|text| text.0.clone());
    let placeholder = placeholder.unwrap_or_else(|| format!("weir-credential-{name}"));
    let is_good = placeholder.len() >= PLACEHOLDER_BYTES_MIN
        && placeholder.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_good {
        let message = format!("must be {PLACEHOLDER_BYTES_MIN} visible ASCII characters or more");
        check.say(&at.key("placeholder"), message);
    }
    let field = field?;
    let before = written.before.as_ref().map(|text| text.0.clone());
    Some(SiteCredential {
        name: base::Name::new(name)?,
        hosts: hosts?,
        agents: written
            .agents
            .values()
            .map(|agent| agent.0.clone())
            .collect(),
        before: before.unwrap_or_else(|| web::usual_before(&field).to_owned()),
        field,
        value: value?,
        placeholder: Some(placeholder).filter(|_| is_good)?,
    })
}

/// Two credentials with one placeholder could not be told apart.
fn distinct(credentials: &[SiteCredential], at: &Key, check: &mut Check<'_>) {
    for (i, one) in credentials.iter().enumerate() {
        let same = |other: &&SiteCredential| {
            other.placeholder.contains(&one.placeholder)
                || one.placeholder.contains(&other.placeholder)
        };
        if let Some(other) = credentials[..i].iter().find(same) {
            let message = format!(
                "has a placeholder that is part of that of {}, or the other way round",
                other.name
            );
            check.say_of_name(&at.key(one.name.as_str()), message);
        }
    }
}

/// Whether all that is written is in the settings.
pub(super) fn is_whole(written: Option<&WebSection>, settings: &Web) -> bool {
    written.is_none_or(|written| {
        written.credentials.iter().count() == settings.credentials.len()
            && written.reverse.iter().count() == settings.reverse.len()
            && written.intercept.is_some() == settings.intercept.is_some()
    })
}
