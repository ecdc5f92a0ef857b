//! `weir relay doctor`: whether a relay works, one check after the other, each with what to do about it.
//!
//! It stops at nothing that a later check does not need, and it changes nothing: the one request that goes
//! through to the origin has a safe method.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use seal::bhttp::{Decoder, Encoder, Event, Length, Limits, Reading, RequestLine};
use seal::chunk::Piece;
use seal::keytext::{self, PeerKey};
use seal::{InitRandom, Moment, Outbox, Pending, Public, Random, Response, Session};
use serde_json::{Value, json};

use super::probe::{KEYS_PATH, Listed, MESSAGES_PATH, Probe, Reply, listed};
use super::run::{Ask, psk_of, state, token_of};
use super::{keys, run};
use crate::cli::{Answer, ConfigFile, Ended, Failure, print};
use crate::config::settings::relay::{Outbound, Peer};

/// Clocks that differ by more than this are told of, in milliseconds. Messages are refused from 2 s on, but an
/// outbound goes by the inbound's clock.
const SKEW_MS: u64 = 1_000;
/// Where handshakes end for good, in milliseconds.
const SKEW_MS_MAX: u64 = 600_000;

/// Check the way to an inbound: reach, keys, handshake, clocks, and a request through to the origin
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir relay doctor                           Every peer of ./weir.yaml
  weir relay doctor --to https://east.example --peer east.pub --key outbound.key
  weir relay doctor --json | jq '.[].checks[] | select(.state != \"good\")'

The last check sends a request to the origin: HEAD /, or what --path says.

Exit codes: 0 all is good, 1 something is not, 2 it could not be tried.")]
pub(crate) struct Doctor {
    #[command(flatten)]
    file: ConfigFile,
    /// Check the way to this inbound, without a configuration
    #[arg(long, value_name = "URL", requires_all = ["peer", "key"], conflicts_with = "config")]
    to: Option<String>,
    /// The inbound's public key or pin, or a file with it
    #[arg(long, value_name = "KEY", requires = "to")]
    peer: Vec<String>,
    /// Our private key: a file, file:PATH or env:NAME
    #[arg(long, value_name = "SECRET", requires = "to")]
    key: Option<String>,
    /// The pre-shared key of the pair: a file, file:PATH or env:NAME
    #[arg(long, value_name = "SECRET", requires = "to")]
    psk: Option<String>,
    /// The join token that the inbound asks for: a file, file:PATH or env:NAME
    #[arg(long, value_name = "SECRET", requires = "to")]
    join_token: Option<String>,
    /// Private addresses that may be dialled, such as 10.0.0.0/8; may be given more than once
    #[arg(long, value_name = "RANGE", value_parser = crate::config::values::range, requires = "to")]
    address: Vec<gate::Range>,
    /// Certificates of authorities to trust instead of the public ones, as PEM
    #[arg(long, value_name = "FILE", requires = "to")]
    ca: Option<PathBuf>,
    /// The host of the request that goes through; by default that of the url
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// The path of the request that goes through
    #[arg(long, value_name = "PATH", default_value = "/")]
    path: String,
    /// The folder of the log; by default weir/relay in $XDG_STATE_HOME or ~/.local/state
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Good,
    /// It works, and should be looked at.
    Warning,
    Bad,
}

struct Check {
    name: &'static str,
    state: State,
    what: String,
    /// What to do; empty where nothing is.
    mend: String,
}

/// The checks of one peer.
#[derive(Default)]
struct Checks(Vec<Check>);

impl Checks {
    fn good(&mut self, name: &'static str, what: impl Into<String>) {
        self.push(name, State::Good, what.into(), "");
    }

    fn warn(&mut self, name: &'static str, what: impl Into<String>, mend: &str) {
        self.push(name, State::Warning, what.into(), mend);
    }

    fn bad(&mut self, name: &'static str, what: impl Into<String>, mend: &str) {
        self.push(name, State::Bad, what.into(), mend);
    }

    fn push(&mut self, name: &'static str, state: State, what: String, mend: &str) {
        let mend = mend.to_owned();
        self.0.push(Check {
            name,
            state,
            what,
            mend,
        });
    }

    fn text(&self, peer: &Peer) -> String {
        let url = peer.place.url.origin();
        let mut text = format!("{} ({url})\n", peer.place.name);
        for check in &self.0 {
            let state = match check.state {
                State::Good => "good",
                State::Warning => "look",
                State::Bad => "BAD ",
            };
            text.push_str(&format!("  {state}  {:<10} {}\n", check.name, check.what));
            if !check.mend.is_empty() {
                text.push_str(&format!("        {:<10} → {}\n", "", check.mend));
            }
        }
        text
    }

    fn json(&self, peer: &Peer) -> Value {
        let checks = self.0.iter().map(|check| {
            let state = match check.state {
                State::Good => "good",
                State::Warning => "warning",
                State::Bad => "bad",
            };
            json!({ "check": check.name, "state": state, "what": check.what, "mend": check.mend })
        });
        json!({
            "peer": peer.place.name.as_str(),
            "url": peer.place.url.origin(),
            "checks": checks.collect::<Vec<_>>(),
        })
    }
}

impl Doctor {
    pub(crate) fn run(self) -> Ended {
        let side = match &self.to {
            Some(to) => self.named(to)?,
            None => match self.configured()? {
                Ok(side) => side,
                Err(answer) => return Ok(answer),
            },
        };
        let mut all = Vec::new();
        for peer in &side.peers {
            let one = Outbound {
                peers: vec![peer.clone()],
                plain: Vec::new(),
                routes: run::to_peer(&peer.place.name),
                ..side.clone()
            };
            let mut checks = Checks::default();
            self.check(&one, peer, &mut checks)?;
            all.push((peer, checks));
        }
        print(&match self.json {
            true => {
                let all: Vec<Value> = all.iter().map(|(peer, checks)| checks.json(peer)).collect();
                format!("{}\n", Value::from(all))
            }
            false => all.iter().map(|(peer, checks)| checks.text(peer)).collect(),
        })?;
        let good = |checks: &Checks| checks.0.iter().all(|check| check.state != State::Bad);
        match all.iter().all(|(_, checks)| good(checks)) {
            true => Ok(Answer::Yes),
            false => Ok(Answer::No),
        }
    }

    fn named(&self, to: &str) -> Result<Outbound, Failure> {
        let ask = Ask {
            url: to,
            address: &self.address,
            ca: self.ca.as_deref(),
        };
        let mut side = ask.nobody()?;
        let text = self.key.as_deref().unwrap_or_default();
        let key = keys::secret("--key", text)?;
        keytext::identity(key.expose())
            .map_err(|message| Failure::new(format!("--key: the key {message}"), ""))?;
        side.key = Some(key);
        let peer = &mut side.peers[0];
        peer.keys.clear();
        for text in &self.peer {
            peer.keys.push(keys::public(text, keytext::peer_key)?);
        }
        peer.psks = psk_of(self.psk.as_deref())?.into_iter().collect();
        peer.join_token = match &self.join_token {
            Some(text) => Some(token_of(text)?),
            None => None,
        };
        Ok(side)
    }

    fn configured(&self) -> Result<Result<Outbound, Answer>, Failure> {
        let settings = match self.file.load() {
            Ok(settings) => settings,
            Err(answer) => return Ok(Err(answer)),
        };
        settings.relay.outbound.map(Ok).ok_or_else(|| {
            Failure::new(
                "the configuration has no relay.outbound, and it is from there that a relay is checked",
                "Run it where the outbound is, or name an inbound with --to, --peer and --key.",
            )
        })
    }

    fn check(&self, side: &Outbound, peer: &Peer, checks: &mut Checks) -> Result<(), Failure> {
        let probe = Probe::new(side.clone(), state(self.state.as_deref(), "probe")?)?;
        if peer.mutual.is_some() {
            self.by_tls(&probe, checks);
            return probe.close();
        }
        self.key_file(side, checks);
        let inbound = self.keys(&probe, peer, checks);
        if let Some(inbound) = inbound
            && let Some(session) = handshake(&probe, side, peer, inbound, checks)?
        {
            self.round_trip(&probe, peer, &Arc::new(session), checks)?;
        }
        probe.close()
    }

    fn key_file(&self, side: &Outbound, checks: &mut Checks) {
        use std::os::unix::fs::PermissionsExt;
        let Some(key) = &side.key else { return };
        let (peer_id, _) = crate::assemble::relay::names(key);
        let path = self
            .key
            .as_deref()
            .map(|text| text.strip_prefix("file:").unwrap_or(text));
        let open = path
            .and_then(|path| Path::new(path).metadata().ok())
            .is_some_and(|said| said.permissions().mode() & 0o077 != 0);
        match open {
            true => checks.warn(
                "key",
                format!("peer id {peer_id}; the file can be read by other users"),
                "chmod 600 the file; if others could read it, make a new key.",
            ),
            false => checks.good("key", format!("peer id {peer_id}")),
        }
    }

    /// A request through to the origin, by TLS with certificates on both sides.
    fn by_tls(&self, probe: &Probe, checks: &mut Checks) {
        match probe.ask("HEAD", &self.path, None) {
            Err(what) => checks.bad(
                "reach",
                what,
                "Check the url, the name's addresses, that nothing in between ends TLS, and both certificates: whose they are, what for, and until when.",
            ),
            Ok(reply) => {
                let ms = reply.took.as_millis();
                checks.good("reach", format!("{} answered in {ms} ms, by TLS 1.3", reply.address));
                match reply.status {
                    403 => checks.warn(
                        "round trip",
                        format!("HEAD {}: 403", self.path),
                        "If the origin did not say so: our certificate is for no certificate_name under allow at the inbound; its log has the reason.",
                    ),
                    status => checks.good("round trip", format!("HEAD {}: {status}", self.path)),
                }
            }
        }
    }

    /// Reach, what stands in between, and whether a pinned key is there.
    fn keys(&self, probe: &Probe, peer: &Peer, checks: &mut Checks) -> Option<Public> {
        let known = peer.keys.iter().find_map(|key| match key {
            PeerKey::Public(public) => Some(public.clone()),
            PeerKey::Pin(_) => None,
        });
        let reply = match probe.ask("GET", KEYS_PATH, None) {
            Ok(reply) => reply,
            Err(what) => {
                let mend = "Check the url, the name's addresses (private ones have to be allowed), firewalls, and that the inbound runs.";
                checks.bad("reach", what, mend);
                return None;
            }
        };
        let ms = reply.took.as_millis();
        checks.good("reach", format!("{} answered in {ms} ms", reply.address));
        between(&reply, checks);
        let list = match (reply.status, listed(&reply.body)) {
            (200, Ok(list)) => list,
            (200, Err(what)) => {
                checks.bad(
                    "keys",
                    what,
                    "Something else answers at this url: look at what stands before the inbound.",
                );
                return known;
            }
            (status, _) => {
                checks.bad(
                    "keys",
                    format!("{KEYS_PATH} answered {status}"),
                    "What stands before the inbound has to pass /.well-known/shr/ on, with POST and bodies of any length.",
                );
                return known;
            }
        };
        let pinned = |key: &&Listed| {
            peer.keys
                .iter()
                .any(|known| known.pin() == key.public.pin())
        };
        match list.iter().find(pinned) {
            Some(key) => {
                checks.good("keys", format!("pin {} is among them", key.public.pin()));
                Some(key.public.clone())
            }
            None => {
                let theirs: Vec<_> = list
                    .iter()
                    .map(|key| key.public.pin().to_string())
                    .collect();
                checks.bad(
                    "keys",
                    format!("the pinned key is not among them; they are {}", theirs.join(", ")),
                    "Ask the other side's operator: after a change of keys, pin the new one; else somebody stands in between.",
                );
                None
            }
        }
    }

    /// A request through to the origin.
    fn round_trip(
        &self,
        probe: &Probe,
        peer: &Peer,
        session: &Arc<Session>,
        checks: &mut Checks,
    ) -> Result<(), Failure> {
        let host = self
            .host
            .clone()
            .unwrap_or_else(|| peer.place.url.authority());
        let line = RequestLine {
            method: b"HEAD",
            scheme: b"https",
            authority: host.as_bytes(),
            path: self.path.as_bytes(),
        };
        let mut outbox = Outbox::default();
        let moment = Moment {
            now: probe.now(),
            generation: 0,
        };
        let id = keys::random::<16>()?;
        let mut plain = Vec::new();
        let encoder = Encoder::request(
            &mut plain,
            &Limits::default(),
            &line,
            [],
            None,
            Length::Whole(0),
        );
        let finished = encoder.and_then(|encoder| encoder.finish(&mut plain, []));
        if let Err(fault) = finished {
            checks.bad(
                "round trip",
                format!("{fault}"),
                "Name a host and a path that a request may have.",
            );
            return Ok(());
        }
        let mut out = Vec::new();
        let begun = outbox.request(session, moment, || Random::new(*id), None, &mut out);
        let sealed = begun.and_then(|(attempt, mut sealing)| {
            sealing.push(&mut out, &plain, Piece::Last)?;
            Ok(attempt)
        });
        let attempt = match sealed {
            Ok(attempt) => attempt,
            Err(error) => {
                checks.bad(
                    "round trip",
                    error.message(),
                    "This is a fault of weir; tell us.",
                );
                return Ok(());
            }
        };
        let mend = "Look at the inbound's log, and at what stands before it: limits of bodies and of time, and what it does to POST.";
        match probe.ask("POST", MESSAGES_PATH, Some(&out)) {
            Err(what) => checks.bad("round trip", what, mend),
            Ok(reply) if reply.status != 200 => {
                checks.bad(
                    "round trip",
                    format!("answered {} in plain", reply.status),
                    mend,
                );
            }
            Ok(mut reply) => {
                let ms = reply.took.as_millis();
                match open(&mut outbox, session, attempt, &mut reply.body) {
                    Ok(Opened::Origin(status)) => {
                        checks.good(
                            "round trip",
                            format!("HEAD {} of {host}: {status} in {ms} ms", self.path),
                        );
                    }
                    Ok(Opened::Weir(code)) => weir_made(code, checks),
                    Err(what) => checks.bad("round trip", what, mend),
                }
            }
        }
        Ok(())
    }
}

fn between(reply: &Reply, checks: &mut Checks) {
    let said: Vec<String> = reply
        .between
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let said = match said.as_slice() {
        [] => "nothing in between says who it is".to_owned(),
        said => said.join(", "),
    };
    match reply.version {
        "HTTP/1.1" => checks.good("http", format!("HTTP/1.1; {said}")),
        version => checks.warn(
            "http",
            format!("{version}; {said}"),
            "Have what stands before the inbound speak HTTP/1.1: streams need it.",
        ),
    }
}

fn handshake(
    probe: &Probe,
    side: &Outbound,
    peer: &Peer,
    inbound: Public,
    checks: &mut Checks,
) -> Result<Option<Session>, Failure> {
    let checked = "it was checked when it was read";
    let key = side.key.as_ref().expect("whoever seals has a key");
    let outbound = seal::Outbound {
        identity: Arc::new(keytext::identity(key.expose()).expect(checked)),
        inbound,
        suite: peer.suite,
        token: peer
            .join_token
            .as_ref()
            .map(|text| seal::JoinToken::new(text.expose().as_bytes()).expect(checked)),
        psks: peer
            .psks
            .iter()
            .map(|text| keytext::seal_psk(text.expose()).expect(checked))
            .collect(),
    };
    let random: InitRandom = Random::new(*keys::random()?);
    let sent = probe.now();
    let pending: Pending = match seal::initiate(Arc::new(outbound), sent, random) {
        Ok(pending) => pending,
        Err(error) => {
            checks.bad(
                "handshake",
                error.message(),
                "Each side needs a key of its own.",
            );
            return Ok(None);
        }
    };
    let reply = match probe.ask("POST", MESSAGES_PATH, Some(pending.init())) {
        Ok(reply) => reply,
        Err(what) => {
            checks.bad(
                "handshake",
                what,
                "The list of keys came through and this did not: something in between stops POST.",
            );
            return Ok(None);
        }
    };
    if reply.status != 200 {
        let (what, mend) = hint(reply.status);
        checks.bad(
            "handshake",
            format!("{what} ({} in plain)", reply.status),
            mend,
        );
        return Ok(None);
    }
    let now = probe.now();
    match pending.finish(&reply.body, now) {
        Ok(session) => {
            let ms = reply.took.as_millis();
            checks.good(
                "handshake",
                format!(
                    "both sides proved their keys, with {} in {ms} ms",
                    session.suite().name()
                ),
            );
            clock(&session, now, checks);
            checks.good("ticket", format!("replay {}", mode(&session)));
            if let Some(next) = session.next_pin()
                && peer.keys.iter().all(|known| known.pin() != next)
            {
                checks.warn(
                    "next key",
                    format!("the inbound will have the key {next}"),
                    "Confirm it with its operator, and list it beside the present one.",
                );
            }
            Ok(Some(session))
        }
        Err(error) => {
            checks.bad(
                "handshake",
                format!("the answer is not this inbound's: {}", error.message()),
                "If a pre-shared key is set, both sides need the same one; else somebody in between answered.",
            );
            Ok(None)
        }
    }
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

fn clock(session: &Session, now: base::Now, checks: &mut Checks) {
    let theirs = session.server_unix_ms(now);
    let skew = theirs.abs_diff(now.unix_ms);
    let word = if theirs > now.unix_ms {
        "behind"
    } else {
        "ahead of"
    };
    let what = format!("ours is {:.1} s {word} the inbound's", skew as f64 / 1000.0);
    match skew {
        0..SKEW_MS => checks.good("clock", "ours and the inbound's agree within a second"),
        SKEW_MS..SKEW_MS_MAX => checks.warn(
            "clock",
            what,
            "It works, for we go by the inbound's; have both keep time by NTP.",
        ),
        _ => checks.bad("clock", what, "Have both keep time by NTP."),
    }
}

fn mode(session: &Session) -> &'static str {
    match session.mode() {
        seal::Mode::Strict => "strict",
        _ => "local",
    }
}

enum Opened {
    Origin(u16),
    Weir(seal::Code),
}

fn open(
    outbox: &mut Outbox,
    session: &Arc<Session>,
    attempt: seal::Attempt,
    body: &mut [u8],
) -> Result<Opened, String> {
    const HEAD: usize = seal::head::RESPONSE_BYTES;
    let short = "the answer is shorter than one";
    let (head, rest) = body.split_first_chunk_mut::<HEAD>().ok_or(short)?;
    let failed = |error: seal::Error| format!("the answer does not open: {}", error.message());
    let answering = outbox.response(session, attempt, head).map_err(failed)?;
    let length = rest.first_chunk::<4>().ok_or(short)?;
    let length = (u32::from_be_bytes(*length) & 0x7fff_ffff) as usize;
    let chunk = rest.get_mut(..4 + length).ok_or(short)?;
    match answering.first(outbox, chunk).map_err(failed)? {
        Response::Weir(answer) => Ok(Opened::Weir(answer.code)),
        Response::Origin(_, text) => {
            let mut decoder = Decoder::new(Limits::default(), Reading::ResponseToHead);
            let mut input: &[u8] = text;
            loop {
                match decoder
                    .read(&mut input)
                    .map_err(|fault| format!("{fault}"))?
                {
                    Event::Head => {
                        return decoder
                            .status()
                            .map(Opened::Origin)
                            .ok_or_else(|| short.to_owned());
                    }
                    Event::More | Event::Done => return Err(short.to_owned()),
                    Event::Interim | Event::Content(_) => {}
                }
            }
        }
    }
}

fn weir_made(code: seal::Code, checks: &mut Checks) {
    let mend = match code.number() {
        2 => "The clocks differ; see above.",
        3 | 4 => "The inbound is ending or busy, or began less than two seconds ago; try again.",
        6 => {
            "The inbound's policy or routes refuse it: see its log, or name another --host and --path."
        }
        7 | 8 => "The inbound works, and the origin behind it does not: look there.",
        _ => "See the inbound's log.",
    };
    checks.bad(
        "round trip",
        format!("the inbound says: {}", code.name()),
        mend,
    );
}
