//! Asking an inbound from the command line: one exchange at a time, by the same way out that a relay takes.
//!
//! It makes a gateway of its own, so that what it sends is judged and recorded like all else. It refuses to
//! believe anything that is not sealed: what it reports of the way in between is for a person to look at.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use base::{Name, Now, Resource};
use gate::{Asker, Call, Passed};
use net::h1::{Framing, Thread, Version, Wires};
use relay::actions::PASS;
use seal::{Kid, Public, keytext};
use serde_json::Value;
use tokio::task::LocalSet;

use super::run::gateway_settings;
use crate::assemble::Gateway;
use crate::cli::Failure;
use crate::config::settings::relay::Outbound;
use crate::routes::new_call_id;

/// Where an inbound lists its keys.
pub(super) const KEYS_PATH: &str = "/.well-known/shr/keys";
/// Where an inbound takes messages.
pub(super) const MESSAGES_PATH: &str = "/.well-known/shr/1";
/// Most bytes of an answer that is read here.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// For one connection, and for one exchange on it, in milliseconds.
const CONNECT_MS: u64 = 5_000;
const EXCHANGE_MS: u64 = 15_000;
/// Most keys that a list may have.
const KEYS_MAX: usize = 16;

/// One way to ask one inbound.
pub(super) struct Probe {
    gateway: Gateway,
    runtime: tokio::runtime::Runtime,
    peer: Name,
    began: Instant,
}

/// What came back in plain, and what its way looked like.
pub(super) struct Reply {
    pub status: u16,
    pub version: &'static str,
    /// What stands between, as it says itself: the Via, Server and Alt-Svc fields.
    pub between: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub took: Duration,
    pub address: IpAddr,
}

/// One key of an inbound's list.
pub(super) struct Listed {
    pub public: Public,
}

impl Probe {
    /// A way to the first peer of this outbound.
    pub(super) fn new(side: Outbound, state: PathBuf) -> Result<Probe, Failure> {
        let Some(peer) = side.peers.first().map(|peer| peer.place.name.clone()) else {
            return Err(Failure::new("there is no peer to ask", ""));
        };
        let mut settings = gateway_settings()?;
        settings.state = state;
        settings.relay.outbound = Some(side);
        let failed = |what: String| Failure::new(what, "");
        Ok(Probe {
            gateway: Gateway::with_logs(&settings, super::run::LOGS_MAX).map_err(failed)?,
            runtime: crate::serve::runtime().map_err(failed)?,
            peer,
            began: Instant::now(),
        })
    }

    /// The clocks now.
    pub(super) fn now(&self) -> Now {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Now {
            unix_ms: ms(now.unwrap_or_default()),
            mono_ms: ms(self.began.elapsed()),
        }
    }

    /// Sends one request and reads its whole answer.
    pub(super) fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
    ) -> Result<Reply, String> {
        let exchange = self.exchange(method, path, body);
        LocalSet::new().block_on(&self.runtime, async {
            let limit = Duration::from_millis(CONNECT_MS + EXCHANGE_MS);
            tokio::time::timeout(limit, exchange)
                .await
                .unwrap_or_else(|_| Err("no answer in time".to_owned()))
        })
    }

    async fn exchange(
        &self,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
    ) -> Result<Reply, String> {
        let resource = Resource::Route(self.peer.clone());
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let call = Call::new(new_call_id(), peer, &PASS, &resource, "probe");
        let grant = self.gateway.gate().grant(Asker::Gateway, call).await;
        let grant = Rc::new(grant.map_err(|refusal| refusal.public)?);
        let under = grant.call(self.gateway.now()).ok_or("the grant is over")?;
        let passed = under.permit();
        let settings = net::h1::ConnectionSettings {
            answer_ms: EXCHANGE_MS,
            ..net::h1::ConnectionSettings::default()
        };
        let thread = Thread::new(settings);
        let wires: Wires<Passed> = self.gateway.wires()(Rc::clone(&thread));
        let began = Instant::now();
        let mut wire = wires
            .dial(passed, CONNECT_MS)
            .await
            .map_err(|error| told(&error))?;
        let host = wire.host().to_vec();
        let fields: [(&[u8], &[u8]); 2] = [
            (b"content-type", b"application/shr"),
            (b"cache-control", b"no-store, no-transform"),
        ];
        let (fields, framing) = match body {
            Some(body) => (&fields[..], Framing::Length(body.len() as u64)),
            None => (&fields[1..], Framing::None),
        };
        let failed = |error: net::h1::Error| format!("{error}");
        wire.request(
            method.as_bytes(),
            path.as_bytes(),
            &host,
            fields.iter().copied(),
            framing,
        )
        .map_err(failed)?;
        if let Some(body) = body {
            wire.body(body).await.map_err(failed)?;
            wire.end().map_err(failed)?;
        }
        wire.flush().await.map_err(failed)?;
        let (status, version, between) = loop {
            let answer = wire.answer().await.map_err(failed)?;
            if answer.is_informational() {
                continue;
            }
            let between = answer.fields().iter().filter_map(|field| {
                let name = String::from_utf8_lossy(field.name).to_ascii_lowercase();
                let shown = matches!(name.as_str(), "via" | "server" | "alt-svc");
                shown.then(|| (name, field.value.escape_ascii().to_string()))
            });
            let version = match answer.version() {
                Version::Http10 => "HTTP/1.0",
                _ => "HTTP/1.1",
            };
            break (answer.status(), version, between.collect());
        };
        let mut whole = Vec::new();
        while let Some(piece) = wire.piece().await.map_err(failed)? {
            if whole.len() + piece.len() > ANSWER_BYTES_MAX {
                return Err(format!("the answer has more than {ANSWER_BYTES_MAX} bytes"));
            }
            whole.extend_from_slice(piece);
        }
        Ok(Reply {
            status,
            version,
            between,
            body: whole,
            took: began.elapsed(),
            address: wire.address(),
        })
    }

    /// Writes down what was asked.
    pub(super) fn close(self) -> Result<(), Failure> {
        let closed = self.gateway.log.close();
        closed.map_err(|error| Failure::new(format!("the log: {error:?}"), ""))
    }
}

/// Why nothing could be sent.
fn told(error: &net::SendError) -> String {
    format!("{error}")
}

/// The keys of a list, which nothing vouches for.
pub(super) fn listed(body: &[u8]) -> Result<Vec<Listed>, String> {
    let list: Value =
        serde_json::from_slice(body).map_err(|_| "the answer is not JSON".to_owned())?;
    let keys = list.get("keys").and_then(Value::as_array);
    let keys = keys.ok_or("the answer is no list of keys")?;
    if keys.is_empty() || keys.len() > KEYS_MAX {
        return Err(format!("the list has {} keys", keys.len()));
    }
    keys.iter().map(one).collect()
}

fn one(key: &Value) -> Result<Listed, String> {
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
    Ok(Listed { public })
}
