//! Whether the way to an inbound works: one check after the other, each with what to do about it.
//!
//! It stops at nothing that a later check does not need, and it changes nothing: the one request that goes through to
//! the origin has a safe method. It believes nothing that is not sealed: what it finds in between is for a person to
//! look at.

mod exchange;
mod round_trip;

use std::sync::Arc;

use base::Now;
use seal::keytext::{self, PeerKey};
use seal::{Error, JoinToken, Kid, Mode, Pending, Psk, Public, Session};
use serde_json::Value;

pub use exchange::Way;

use crate::outer::{KEYS_PATH, PATH};
use crate::random;
use crate::settings::{Peer, Problem};
use exchange::Reply;

/// Clocks that differ by more than this are told of, in milliseconds. Messages are refused from 2 s on, but an
/// outbound goes by the inbound's clock.
const SKEW_MS: u64 = 1_000;
/// Where handshakes end for good, in milliseconds.
const SKEW_MS_MAX: u64 = 600_000;
/// Most keys that a list may have.
const KEYS_MAX: usize = 16;

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Good,
    /// It works, and should be looked at.
    Warning,
    Bad,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub check: &'static str,
    pub state: State,
    pub what: String,
    /// What to do; empty where nothing is.
    pub mend: &'static str,
}

/// The findings about one link, in the order of the checks.
#[derive(Clone, Debug, Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    pub fn all(&self) -> &[Finding] {
        &self.0
    }

    /// Whether no check went badly.
    pub fn is_good(&self) -> bool {
        self.0.iter().all(|finding| finding.state != State::Bad)
    }

    pub fn good(&mut self, check: &'static str, what: impl Into<String>) {
        self.push(check, State::Good, what.into(), "");
    }

    pub fn warn(&mut self, check: &'static str, what: impl Into<String>, mend: &'static str) {
        self.push(check, State::Warning, what.into(), mend);
    }

    pub fn bad(&mut self, check: &'static str, what: impl Into<String>, mend: &'static str) {
        self.push(check, State::Bad, what.into(), mend);
    }

    fn push(&mut self, check: &'static str, state: State, what: String, mend: &'static str) {
        self.0.push(Finding {
            check,
            state,
            what,
            mend,
        });
    }
}

/// The request that goes through to the origin: HEAD, of this host and path.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    pub host: &'r str,
    pub path: &'r str,
}

/// Checks the way to an inbound that is sealed for.
///
/// # Errors
/// What keeps us from trying: no random bytes, or a key that is none.
pub async fn check(
    way: &Way,
    peer: &Peer,
    request: &Request<'_>,
    findings: &mut Findings,
) -> Result<(), Problem> {
    if let Some(inbound) = reach(way, peer, findings).await
        && let Some(session) = handshake(way, peer, inbound, findings).await?
    {
        round_trip::check(way, request, &Arc::new(session), findings).await?;
    }
    Ok(())
}

/// Checks the way to an inbound that is spoken to by TLS, with certificates on both sides.
pub async fn check_mutual(way: &Way, path: &str, findings: &mut Findings) {
    let reply = match way.ask("HEAD", path.as_bytes(), None).await {
        Ok(reply) => reply,
        Err(what) => {
            return findings.bad(
                "reach",
                what,
                "Check the url, the name's addresses, that nothing in between ends TLS, and both certificates: whose they are, what for, and until when.",
            );
        }
    };
    let (address, ms) = (reply.address, reply.took.as_millis());
    findings.good(
        "reach",
        format!("{address} answered in {ms} ms, by TLS 1.3"),
    );
    match reply.status {
        403 => findings.warn(
            "round trip",
            format!("HEAD {path}: 403"),
            "If the origin did not say so: our certificate is for no certificate_name under allow at the inbound; its log has the reason.",
        ),
        status => findings.good("round trip", format!("HEAD {path}: {status}")),
    }
}

/// The keys that an inbound lists, which nothing vouches for. The error is for a person.
pub async fn keys(way: &Way) -> Result<Vec<Public>, String> {
    let reply = way.ask("GET", KEYS_PATH, None).await?;
    match reply.status {
        200 => listed(&reply.body),
        status => {
            let path = KEYS_PATH.escape_ascii();
            Err(format!(
                "{path} answered {status}; is a weir there that relays inbound?"
            ))
        }
    }
}

/// Reach, what stands in between, and whether a pinned key is there.
async fn reach(way: &Way, peer: &Peer, findings: &mut Findings) -> Option<Public> {
    let reply = match way.ask("GET", KEYS_PATH, None).await {
        Ok(reply) => reply,
        Err(what) => {
            let mend = "Check the url, the name's addresses (private ones have to be allowed), firewalls, and that the inbound runs.";
            findings.bad("reach", what, mend);
            return None;
        }
    };
    let ms = reply.took.as_millis();
    findings.good("reach", format!("{} answered in {ms} ms", reply.address));
    between(&reply, findings);
    let list = match (reply.status, listed(&reply.body)) {
        (200, Ok(list)) => list,
        (200, Err(what)) => {
            let mend =
                "Something else answers at this url: look at what stands before the inbound.";
            findings.bad("keys", what, mend);
            return known(peer);
        }
        (status, _) => {
            let what = format!("{} answered {status}", KEYS_PATH.escape_ascii());
            let mend = "What stands before the inbound has to pass /.well-known/shr/ on, with POST and bodies of any length.";
            findings.bad("keys", what, mend);
            return known(peer);
        }
    };
    pinned(peer, &list, findings)
}

/// The key that we have whole, and need no list for.
fn known(peer: &Peer) -> Option<Public> {
    peer.keys.iter().find_map(|key| match key {
        PeerKey::Public(public) => Some(public.clone()),
        PeerKey::Pin(_) => None,
    })
}

/// The first key of a list that is pinned.
fn pinned(peer: &Peer, list: &[Public], findings: &mut Findings) -> Option<Public> {
    let is_pinned = |key: &&Public| peer.keys.iter().any(|known| known.pin() == key.pin());
    let found = list.iter().find(is_pinned);
    match found {
        Some(key) => findings.good("keys", format!("pin {} is among them", key.pin())),
        None => {
            let theirs: Vec<_> = list.iter().map(|key| key.pin().to_string()).collect();
            findings.bad(
                "keys",
                format!("the pinned key is not among them; they are {}", theirs.join(", ")),
                "Ask the other side's operator: after a change of keys, pin the new one; else somebody stands in between.",
            );
        }
    }
    found.cloned()
}

fn between(reply: &Reply, findings: &mut Findings) {
    let said = reply.between.iter();
    let said: Vec<String> = said
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let said = match said.as_slice() {
        [] => "nothing in between says who it is".to_owned(),
        said => said.join(", "),
    };
    match reply.version {
        "HTTP/1.1" => findings.good("http", format!("HTTP/1.1; {said}")),
        version => findings.warn(
            "http",
            format!("{version}; {said}"),
            "Have what stands before the inbound speak HTTP/1.1: streams need it.",
        ),
    }
}

/// The keys of a list, each with an id that is its own.
fn listed(body: &[u8]) -> Result<Vec<Public>, String> {
    let list: Value =
        serde_json::from_slice(body).map_err(|_| "the answer is not JSON".to_owned())?;
    let keys = list.get("keys").and_then(Value::as_array);
    let keys = keys.ok_or("the answer is no list of keys")?;
    if keys.is_empty() || keys.len() > KEYS_MAX {
        return Err(format!("the list has {} keys", keys.len()));
    }
    keys.iter().map(one).collect()
}

fn one(key: &Value) -> Result<Public, String> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    let (kid, pk) = (
        text("kid").ok_or("a key has no kid")?,
        text("pk").ok_or("a key has no pk")?,
    );
    let public = keytext::public(&format!("{}{pk}", keytext::PUBLIC))
        .map_err(|_| "a key of the list is no public key".to_owned())?;
    let kid: Kid = kid
        .parse()
        .map_err(|_| "a kid of the list is none".to_owned())?;
    if kid != public.kid() {
        return Err("a kid of the list is not its key's".to_owned());
    }
    Ok(public)
}

/// Proves both keys, and looks at the clocks.
async fn handshake(
    way: &Way,
    peer: &Peer,
    inbound: Public,
    findings: &mut Findings,
) -> Result<Option<Session>, Problem> {
    let drawn = random::draw().map_err(|_| Problem::Random)?;
    let pending = match seal::initiate(Arc::new(ours(peer, inbound)?), way.now(), drawn) {
        Ok(pending) => pending,
        Err(error) => {
            let mend = "Each side needs a key of its own.";
            findings.bad("handshake", error.message(), mend);
            return Ok(None);
        }
    };
    let reply = match way.ask("POST", PATH, Some(pending.init())).await {
        Ok(reply) => reply,
        Err(what) => {
            let mend =
                "The list of keys came through and this did not: something in between stops POST.";
            findings.bad("handshake", what, mend);
            return Ok(None);
        }
    };
    if reply.status != 200 {
        let (what, mend) = hint(reply.status);
        let what = format!("{what} ({} in plain)", reply.status);
        findings.bad("handshake", what, mend);
        return Ok(None);
    }
    Ok(finish(pending, &reply, way.now(), peer, findings))
}

/// Our side of a handshake.
fn ours(peer: &Peer, inbound: Public) -> Result<seal::Outbound, Error> {
    let psks = peer.psks.iter().map(|psk| Psk::new(*psk.bytes()));
    let token = peer.token.as_ref();
    Ok(seal::Outbound {
        identity: Arc::clone(&peer.identity),
        inbound,
        suite: peer.suite,
        token: token.map(|token| JoinToken::new(&token.0)).transpose()?,
        psks: psks.collect::<Result<_, _>>()?,
    })
}

fn finish(
    pending: Pending,
    reply: &Reply,
    now: Now,
    peer: &Peer,
    findings: &mut Findings,
) -> Option<Session> {
    let session = match pending.finish(&reply.body, now) {
        Ok(session) => session,
        Err(error) => {
            findings.bad(
                "handshake",
                format!("the answer is not this inbound's: {}", error.message()),
                "If a pre-shared key is set, both sides need the same one; else somebody in between answered.",
            );
            return None;
        }
    };
    let (suite, ms) = (session.suite().name(), reply.took.as_millis());
    findings.good(
        "handshake",
        format!("both sides proved their keys, with {suite} in {ms} ms"),
    );
    clock(&session, now, findings);
    let mode = match session.mode() {
        Mode::Strict => "strict",
        _ => "local",
    };
    findings.good("ticket", format!("replay {mode}"));
    if let Some(next) = session.next_pin()
        && peer.keys.iter().all(|known| known.pin() != next)
    {
        findings.warn(
            "next key",
            format!("the inbound will have the key {next}"),
            "Confirm it with its operator, and list it beside the present one.",
        );
    }
    Some(session)
}

/// What a plain answer to a handshake is likely to mean. Nothing vouches for it.
fn hint(status: u16) -> (&'static str, &'static str) {
    match status {
        403 => (
            "the inbound does not take the handshake",
            "Our key is not under allow, a join token is missing, or clocks differ by more than ten minutes; the inbound says which in its messages at level debug.",
        ),
        421 => (
            "the inbound has no such key",
            "Pin the key that it has now.",
        ),
        503 => (
            "the inbound has no room for handshakes",
            "Try again in a moment.",
        ),
        426 => (
            "the inbound speaks another version",
            "Use the same release on both sides.",
        ),
        413 | 400 => (
            "the message did not come through whole",
            "Something in between changes or limits bodies.",
        ),
        _ => (
            "something in between answered",
            "Have it pass /.well-known/shr/ on as it is.",
        ),
    }
}

fn clock(session: &Session, now: Now, findings: &mut Findings) {
    let theirs = session.server_unix_ms(now);
    let skew = theirs.abs_diff(now.unix_ms);
    let word = if theirs > now.unix_ms {
        "behind"
    } else {
        "ahead of"
    };
    let what = format!("ours is {:.1} s {word} the inbound's", skew as f64 / 1000.0);
    match skew {
        0..SKEW_MS => findings.good("clock", "ours and the inbound's agree within a second"),
        SKEW_MS..SKEW_MS_MAX => findings.warn(
            "clock",
            what,
            "It works, for we go by the inbound's; have both keep time by NTP.",
        ),
        _ => findings.bad("clock", what, "Have both keep time by NTP."),
    }
}
