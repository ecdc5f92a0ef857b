//! `weir relay outbound` and `weir relay inbound`: one side of a relay, without a configuration file.
//!
//! They make the settings of a gateway that relays and does nothing else, and leave the rest to `serve`. Whatever
//! they do can be written in `weir.yaml` too, where policies, routes and more than one peer are.

use std::path::PathBuf;

use base::Secret;
use clap::{Args, ValueEnum};
use config::Listen;
use relay::HostMatch;
use seal::{Suite, keytext};
use store::Durability;

use super::arguments::{
    Ask, PEER, certified, enrolled, mutual, name, note, psk_of, seen, state, token_of,
};
use super::{keygen, keys};
use crate::cli::{Answer, Ended, Failure};
use crate::config::listen::Listener;
use crate::config::settings::LogLevel;
use crate::config::settings::relay::{
    Inbound as InboundSide, Outbound as OutboundSide, Peer, Place, Route, To,
};
use crate::config::{Problem, Seen, Settings, read, values};
use crate::serve::{Process, Signals};

/// The policy of both sides: what may pass is said by their keys.
const PERMIT_ALL: &str = "@id(\"relay\") permit (principal, action, resource);\n";
/// Who callers of an outbound are.
const LOCAL: &str = "local";
/// Where a caller's key would stand; no caller has one here.
const FIELD: &str = "proxy-authorization";
/// The origin of an inbound.
const ORIGIN: &str = "origin";
/// Processes that may share one state folder: each writes a log of its own.
const LOGS_MAX: usize = base::limit::LOGS_MAX;

/// What both sides take.
#[derive(Args, Debug)]
struct Common {
    /// Our private key: a file, file:PATH or env:NAME; by default one is made in the state folder
    #[arg(long, value_name = "SECRET")]
    key: Option<String>,
    /// Serve /health and /metrics at this address too
    #[arg(long, value_name = "ADDR")]
    status: Option<std::net::SocketAddr>,
    /// The folder of the log and the key; by default weir/relay/outbound, or /inbound, in $XDG_STATE_HOME or
    /// ~/.local/state
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Private addresses that may be dialled, such as 10.0.0.0/8; may be given more than once
    #[arg(long, value_name = "RANGE", value_parser = values::range)]
    address: Vec<base::AddressRange>,
    /// Certificates of authorities to trust instead of the public ones, as PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Serving threads; 0 is one for each core
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Hide lengths in buckets
    #[arg(long)]
    padding: bool,
    /// Say more, or less
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = level)]
    log_level: LogLevel,
}

/// Seal what applications send, and send it to an inbound
///
/// Applications speak plain HTTP/1.1 to it. It knows no callers, so it listens on this machine only.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir relay outbound --listen 127.0.0.1:8701 --to https://east.example --peer inbound.key.pub
  weir relay outbound --listen unix:/run/app/relay.sock --to http://10.0.0.5:8702 --peer 4f6a…  (a pin)
  weir relay outbound --listen 127.0.0.1:8701 --to https://east.example:8703 \\
      --certificate app.crt --certificate-key app.pem --ca ca.pem
  curl -H 'Host: api.example' http://127.0.0.1:8701/v1/things

The inbound has to know this side's public key (--allow): without --key, one is made at the first
start, and told of.

Exit codes: 0 it was told to stop, 2 it could not begin.")]
pub(crate) struct Outbound {
    /// Where applications connect: an address of this machine, or unix:PATH
    #[arg(long, value_name = "ADDR", value_parser = values::listen)]
    listen: Listen,
    /// Where the inbound is reached
    #[arg(long, value_name = "URL")]
    to: String,
    /// The inbound's public key or pin, or a file with it; the next one too while it turns over
    #[arg(long, value_name = "KEY", required_unless_present = "certificate")]
    peer: Vec<String>,
    /// The pre-shared key of the pair: a file, file:PATH or env:NAME
    #[arg(long, value_name = "SECRET")]
    psk: Option<String>,
    /// The join token that the inbound asks for: a file, file:PATH or env:NAME
    #[arg(long, value_name = "SECRET")]
    join_token: Option<String>,
    /// Speak TLS with certificates on both sides instead of sealing, and show this one (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["certificate_key", "ca"],
          conflicts_with_all = ["peer", "psk", "join_token", "key", "padding"])]
    certificate: Option<PathBuf>,
    /// The private key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "certificate")]
    certificate_key: Option<PathBuf>,
    /// The cipher
    #[arg(long, value_enum, default_value = "aes-256-gcm")]
    suite: Cipher,
    #[command(flatten)]
    common: Common,
}

/// Open what outbounds sealed, and pass it on to an origin
///
/// The origin is spoken to in plain HTTP/1.1. Whoever is not allowed is refused.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir relay inbound --listen 0.0.0.0:8702 --origin http://127.0.0.1:3000 --allow outbound.key.pub
  weir relay inbound --listen 0.0.0.0:8702 --origin http://127.0.0.1:3000 --allow app=app.pub --allow batch=batch.pub
  weir relay inbound --listen 0.0.0.0:8703 --origin http://127.0.0.1:3000 --allow app=app.example \\
      --certificate east.crt --certificate-key east.pem --client-ca ca.pem

An outbound has to know this side's pin (--peer): the log says it when it starts. It listens from
two seconds after that, because what was sealed before cannot be told from a repetition.

Exit codes: 0 it was told to stop, 2 it could not begin.")]
pub(crate) struct Inbound {
    /// Where outbounds connect, or what stands before us: an address, or unix:PATH
    #[arg(long, value_name = "ADDR", value_parser = values::listen)]
    listen: Listen,
    /// Where opened requests go
    #[arg(long, value_name = "URL")]
    origin: String,
    /// An outbound's public key, or a file with it; NAME= before it is its name in the log. With --certificate, the
    /// DNS name or IP address that its certificate is for
    #[arg(long, value_name = "[NAME=]KEY", required = true)]
    allow: Vec<String>,
    /// The pre-shared key of these pairs: a file, file:PATH or env:NAME
    #[arg(long, value_name = "SECRET")]
    psk: Option<String>,
    /// A secret that handshakes have to show: a file, file:PATH or env:NAME
    #[arg(long, value_name = "SECRET")]
    join_token: Vec<String>,
    /// The ticket keys that instances share, as weir relay keygen --tickets writes them
    #[arg(long, value_name = "FILE")]
    ticket_keys: Option<PathBuf>,
    /// Take TLS with certificates on both sides instead of what is sealed, and show this one (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["certificate_key", "client_ca"],
          conflicts_with_all = ["psk", "join_token", "ticket_keys", "key", "padding"])]
    certificate: Option<PathBuf>,
    /// The private key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "certificate")]
    certificate_key: Option<PathBuf>,
    /// The authorities whose certificates outbounds have to show (PEM)
    #[arg(long, value_name = "FILE", requires = "certificate")]
    client_ca: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cipher {
    #[value(name = "aes-256-gcm")]
    AesGcm,
    #[value(name = "chacha20-poly1305")]
    ChaCha,
    #[value(name = "aes-256-gcm-siv")]
    AesGcmSiv,
}

fn level(text: &str) -> Result<LogLevel, String> {
    let levels = [
        LogLevel::Error,
        LogLevel::Warn,
        LogLevel::Info,
        LogLevel::Debug,
        LogLevel::Trace,
    ];
    let words = levels.map(LogLevel::as_str).join(", ");
    levels
        .into_iter()
        .find(|level| level.as_str() == text)
        .ok_or_else(|| format!("must be one of {words}"))
}

impl Outbound {
    pub(crate) fn run(self) -> Ended {
        let settings = self.settings()?;
        let (admin, seen) = (self.common.status.is_some(), self.seen());
        serve(settings, admin, seen, move |seen| {
            *seen = self.seen();
            self.settings()
        })
    }

    /// The files that can be replaced while serving.
    fn seen(&self) -> Seen {
        let secrets = [&self.psk, &self.join_token, &self.common.key];
        let secrets = secrets.into_iter().flatten();
        let mut seen = seen(self.peer.iter().chain(secrets).map(String::as_str));
        note(
            &mut seen,
            [&self.certificate, &self.certificate_key, &self.common.ca],
        );
        seen
    }

    fn settings(&self) -> Result<Settings, Failure> {
        if let Listen::Tcp(address) = &self.listen
            && !address.ip().to_canonical().is_loopback()
        {
            return Err(Failure::new(
                format!(
                    "{address} can be reached by other machines, and what they send is not sealed until it is here"
                ),
                "Listen on 127.0.0.1 or unix:PATH, or write weir.yaml, where callers have keys.",
            ));
        }
        let mut peer_keys = Vec::new();
        for text in &self.peer {
            peer_keys.push(keys::public(text, keytext::peer_key)?);
        }
        let mut settings = self.common.settings("outbound")?;
        let mutual = mutual([&self.certificate, &self.certificate_key, &self.common.ca])?;
        let place = self.place(mutual.is_some())?;
        let psks = psk_of(self.psk.as_deref())?.into_iter().collect();
        let join_token = match &self.join_token {
            Some(text) => Some(token_of(text)?),
            None => None,
        };
        // Last, because it may write a new one.
        let key = match &mutual {
            Some(_) => None,
            None => Some(self.common.key(&settings, "outbound.key")?),
        };
        settings.relay.outbound = Some(OutboundSide {
            http2: true,
            listen: self.listen.clone(),
            key,
            peers: vec![Peer {
                place,
                mutual,
                keys: peer_keys,
                psks,
                join_token,
                suite: self.suite.suite(),
                padding: self.common.padding,
            }],
            plain: Vec::new(),
            routes: vec![everything(To::Peer(name(PEER)))],
            anyone: Some(name(LOCAL)),
            users: Vec::new(),
            field: FIELD.to_owned(),
            content_bytes_max: relay::settings::CONTENT_BYTES_DEFAULT,
        });
        Ok(settings)
    }
}

impl Outbound {
    fn place(&self, is_mutual: bool) -> Result<Place, Failure> {
        let mut place = self.common.place(PEER, "--to", &self.to)?;
        if is_mutual && !place.url.https {
            let what = "--to has to be https where certificates are shown";
            return Err(Failure::new(what, ""));
        }
        // Whom we trust is part of what can change while serving.
        place.ca = place.ca.filter(|_| !is_mutual);
        Ok(place)
    }
}

impl Inbound {
    pub(crate) fn run(self) -> Ended {
        let settings = self.settings()?;
        let (admin, seen) = (self.common.status.is_some(), self.seen());
        serve(settings, admin, seen, move |seen| {
            *seen = self.seen();
            self.settings()
        })
    }

    /// The files that can be replaced while serving.
    fn seen(&self) -> Seen {
        let bare = |text: &'_ String| {
            text.split_once('=')
                .map_or(text.clone(), |(_, key)| key.to_owned())
        };
        let allow: Vec<String> = self.allow.iter().map(bare).collect();
        let secrets = [&self.psk, &self.common.key].into_iter().flatten();
        let secrets = secrets.chain(&self.join_token).chain(&allow);
        let mut seen = seen(secrets.map(String::as_str));
        note(
            &mut seen,
            [
                &self.ticket_keys,
                &self.certificate,
                &self.certificate_key,
                &self.client_ca,
            ],
        );
        seen
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let psk = psk_of(self.psk.as_deref())?;
        let mutual = mutual([&self.certificate, &self.certificate_key, &self.client_ca])?;
        let (mut allow, mut certified_peers) = (Vec::new(), Vec::new());
        for text in &self.allow {
            match mutual {
                Some(_) => certified_peers.push(certified(text)?),
                None => allow.push(enrolled(text, psk.clone())?),
            }
        }
        if mutual.is_some() && matches!(self.listen, Listen::Unix(_)) {
            let what = "--listen has to be an address where certificates are shown";
            return Err(Failure::new(what, ""));
        }
        let mut join_tokens = Vec::new();
        for text in &self.join_token {
            join_tokens.push(token_of(text)?);
        }
        let mut settings = self.common.settings("inbound")?;
        let origin = self.common.place(ORIGIN, "--origin", &self.origin)?;
        let ticket_keys = self.tickets()?;
        // Last, because it may write a new one.
        let keys = match &mutual {
            Some(_) => Vec::new(),
            None => vec![self.common.key(&settings, "inbound.key")?],
        };
        settings.relay.inbound = Some(InboundSide {
            http2: true,
            listen: self.listen.clone(),
            mutual,
            keys,
            origins: vec![origin],
            routes: vec![everything(To::Plain(name(ORIGIN)))],
            allow,
            certified: certified_peers,
            join_tokens,
            ticket_keys,
            fleet_key: None,
            mode: seal::Mode::Local,
            next_key: None,
            windows_max: seal::replay::WINDOWS_DEFAULT,
            handshake_cpu_us_per_s: 100_000,
            session_ms: relay::settings::SESSION_MS_DEFAULT,
            content_bytes_max: relay::settings::CONTENT_BYTES_DEFAULT,
            padding: self.common.padding,
        });
        Ok(settings)
    }

    fn tickets(&self) -> Result<Option<Vec<keytext::TicketKey>>, Failure> {
        let Some(path) = &self.ticket_keys else {
            return Ok(None);
        };
        let failed = |message: String| {
            Failure::new(
                format!("{} {message}", path.display()),
                "weir relay keygen --tickets FILE writes such a file.",
            )
        };
        let text = read::read_text(path, crate::config::SECRET_BYTES_MAX).map_err(failed)?;
        let held = keytext::ticket_keys(&zeroize::Zeroizing::new(text)).map_err(failed)?;
        keytext::ring(&held).map_err(failed)?;
        Ok(Some(held))
    }
}

impl Cipher {
    fn suite(self) -> Suite {
        match self {
            Cipher::AesGcm => Suite::AesGcm,
            Cipher::ChaCha => Suite::ChaCha,
            Cipher::AesGcmSiv => Suite::AesGcmSiv,
        }
    }
}

/// A gateway that relays nothing yet, and permits all.
fn gateway_settings() -> Settings {
    let mut settings = Settings::built_in(PERMIT_ALL);
    settings.log.durability = Durability::Os;
    settings.pins = false;
    settings.limits.connections_max = 16_384;
    settings.limits.agent_per_minute = 10_000_000;
    settings
}

impl Common {
    fn settings(&self, side: &str) -> Result<Settings, Failure> {
        let mut settings = gateway_settings();
        settings.state = state(self.state.as_deref(), side)?;
        settings.threads = self.threads;
        settings.logs.level = self.log_level;
        if let Some(status) = self.status {
            settings.admin.listener = Some(Listener::plain(Listen::Tcp(status)));
        }
        Ok(settings)
    }

    /// Our private key. One that is made is told of, for the other side has to know it.
    fn key(&self, settings: &Settings, file: &str) -> Result<Secret, Failure> {
        if let Some(text) = &self.key {
            let held = keys::secret("--key", text)?;
            keytext::identity(held.expose())
                .map_err(|message| Failure::new(format!("--key: the key {message}"), ""))?;
            return Ok(held);
        }
        let path = settings.state.join(file);
        if path.symlink_metadata().is_err() {
            let help = "Name another with --state DIR, or a key with --key FILE.";
            store::state::make_dir(&settings.state)
                .map_err(|error| Failure::new(error.to_string(), help))?;
            let (_, public_file) = keygen::make_pair_files(&path)?;
            crate::cli::warn(
                &format!("there was no key; made {}", path.display()),
                &format!("The other side has to know {}.", public_file.display()),
            );
        }
        let held = keys::read_line(&path, crate::config::SECRET_BYTES_MAX)?;
        keytext::identity(held.expose()).map_err(|message| {
            Failure::new(
                format!("{} {message}", path.display()),
                "Name a key with --key FILE, or move the file away to have a new one.",
            )
        })?;
        Ok(held)
    }

    fn place(&self, place: &str, flag: &str, text: &str) -> Result<Place, Failure> {
        let ask = Ask {
            url: text,
            address: &self.address,
            ca: self.ca.as_deref(),
        };
        ask.place(place, flag)
    }
}

/// Serves until told to stop. `again` makes the settings anew, of the same arguments and of files that may have changed.
fn serve(
    settings: Settings,
    admin: bool,
    seen: Seen,
    again: impl Fn(&mut Seen) -> Result<Settings, Failure> + Send + 'static,
) -> Ended {
    let load = move |seen: &mut Seen| {
        again(seen).map_err(|failure| {
            vec![Problem {
                file: "command line".to_owned(),
                line: 0,
                column: 0,
                key: String::new(),
                message: failure.what,
                help: failure.help,
            }]
        })
    };
    let process = Process {
        agents: false,
        admin,
        logs: LOGS_MAX,
        load: Box::new(load),
    };
    let failed = |what| Failure::new(what, "");
    let signals = Signals::new().map_err(failed)?;
    crate::serve::run_as(signals, settings, seen, process).map_err(failed)?;
    Ok(Answer::Yes)
}

fn everything(to: To) -> Route {
    Route {
        host: HostMatch::Any,
        path: "/".to_owned(),
        to,
    }
}
