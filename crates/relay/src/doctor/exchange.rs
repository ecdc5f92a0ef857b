//! One exchange with an inbound, on a connection of its own, and what its way looked like.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{Name, Now};
use gate::ports::Clock;
use gate::{Gate, GrantedCall, Passed};
use net::h1::{ConnectionSettings, Framing, Thread, Version};
use net::{Lease, Upstreams};

use crate::grants::{Asking, Grants};
use crate::outer;

/// Most bytes of an answer that is read here.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// For one connection, and for one exchange on it, in milliseconds.
const CONNECT_MS: u64 = 5_000;
const EXCHANGE_MS: u64 = 15_000;

/// A way to one inbound. What goes there is judged and recorded as the gateway's own traffic.
pub struct Way {
    grants: Grants,
    clock: Arc<dyn Clock>,
    upstreams: Upstreams<Passed>,
    target: Name,
}

/// An answer in plain, which nothing vouches for, and what its way looked like.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) version: &'static str,
    /// What stands between, as it says itself: the Via, Server and Alt-Svc fields.
    pub(super) between: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) took: Duration,
    pub(super) address: IpAddr,
}

impl Way {
    /// The way to this target, by connections of one thread. Inside a `LocalSet`.
    pub fn new(
        gate: Arc<Gate>,
        clock: Arc<dyn Clock>,
        target: Name,
        upstreams: impl FnOnce(Rc<Thread>, ConnectionSettings) -> Upstreams<Passed>,
    ) -> Way {
        let settings = ConnectionSettings {
            answer_ms: EXCHANGE_MS,
            ..ConnectionSettings::default()
        };
        Way {
            grants: Grants::new(gate),
            clock,
            upstreams: upstreams(Thread::new(settings.tick_ms()), settings),
            target,
        }
    }

    pub(super) fn now(&self) -> Now {
        self.clock.now()
    }

    /// Sends one request and reads its whole answer. The error is for a person.
    pub(super) async fn ask(
        &self,
        method: &str,
        path: &[u8],
        body: Option<&[u8]>,
    ) -> Result<Reply, String> {
        let limit = Duration::from_millis(CONNECT_MS + EXCHANGE_MS);
        tokio::time::timeout(limit, self.exchange(method, path, body))
            .await
            .unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }

    async fn exchange(
        &self,
        method: &str,
        path: &[u8],
        body: Option<&[u8]>,
    ) -> Result<Reply, String> {
        let under = self.grant().await?;
        let began = Instant::now();
        let dialled = self.upstreams.dial(under.permit(), CONNECT_MS).await;
        let mut wire = dialled.map_err(|error| error.to_string())?;
        let failed = |error: net::h1::Error| error.to_string();
        send(&mut wire, method, path, body).await.map_err(failed)?;
        let mut reply = head(&mut wire).await.map_err(failed)?;
        while let Some(piece) = wire.piece().await.map_err(failed)? {
            if reply.body.len() + piece.len() > ANSWER_BYTES_MAX {
                return Err(format!("the answer has more than {ANSWER_BYTES_MAX} bytes"));
            }
            reply.body.extend_from_slice(piece);
        }
        reply.took = began.elapsed();
        Ok(reply)
    }

    async fn grant(&self) -> Result<GrantedCall, String> {
        let asking = Asking {
            caller: None,
            peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
            method: "probe",
            target: &self.target,
        };
        let grant = self.grants.once(asking, self.now()).await;
        grant.map_err(|refusal| refusal.public)
    }
}

async fn send(
    wire: &mut Lease,
    method: &str,
    path: &[u8],
    body: Option<&[u8]>,
) -> Result<(), net::h1::Error> {
    let host = wire.host().to_vec();
    let (fields, framing) = match body {
        Some(body) => (&outer::FIELDS[..], Framing::Length(body.len() as u64)),
        // Without a body there is no type of it.
        None => (&outer::FIELDS[1..], Framing::None),
    };
    wire.request(
        method.as_bytes(),
        path,
        &host,
        fields.iter().copied(),
        framing,
    )?;
    if let Some(body) = body {
        wire.body(body).await?;
        wire.end()?;
    }
    wire.flush().await
}

/// The head of the final answer.
async fn head(wire: &mut Lease) -> Result<Reply, net::h1::Error> {
    while wire.answer().await?.is_informational() {}
    let address = wire.address();
    let answer = wire.answered();
    let between = answer.fields().iter().filter_map(|field| {
        let name = String::from_utf8_lossy(field.name).to_ascii_lowercase();
        let shown = matches!(name.as_str(), "via" | "server" | "alt-svc");
        shown.then(|| (name, field.value.escape_ascii().to_string()))
    });
    Ok(Reply {
        status: answer.status(),
        version: match answer.version() {
            Version::Http10 => "HTTP/1.0",
            _ => "HTTP/1.1",
        },
        between: between.collect(),
        body: Vec::new(),
        took: Duration::ZERO,
        address,
    })
}
