//! The transport `mtls`: a connection of an outbound by TLS with certificates on both sides, and each of its requests.
//!
//! Nothing is sealed here, so there are no sessions, tickets and windows: TLS 1.3 without early data lets nobody repeat a
//! request, and the path has to pass TCP on as it is. An outbound is who its certificate names. That is asked for each
//! request anew where the settings changed, and once a minute, so that who was struck off or whose certificate expired
//! is refused at its next request.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use base::{Digest, Now, Refusal, refusal};
use net::AcceptedConnection;
use net::h1::{Error, Framing, PeerAddress, ServerConnection, Stream};
use net::mutual::{Acceptor, PeerName, Shown};

use super::Live;
use super::desk::{Current, Desk};
use crate::connection;
use crate::outbound::path_of;
use crate::plain::{self, Told};
use crate::refuse;
use crate::settings::{Agent, Mutual, PEERS_MAX, Problem};

/// How long a certificate that was found good is taken for good, in milliseconds.
const CHECKED_MS: u64 = 60_000;
/// Handshakes under way at once, over all threads; each may take as long as a head. Anybody can begin one, so they must
/// not take the places of connections that are good.
pub(super) const SHAKING_MAX: usize = 256;

/// Whom we trust by their certificates.
pub(super) struct Trust {
    acceptor: Acceptor,
    names: Vec<PeerName>,
    agents: Vec<(Agent, Digest)>,
}

impl Trust {
    pub(super) fn new(mutual: Mutual) -> Result<Trust, Problem> {
        if mutual.peers.len() > PEERS_MAX {
            return Err(Problem::TooMany("peers"));
        }
        let acceptor = Acceptor::new(&mutual.credentials).map_err(Problem::Credentials)?;
        let (mut names, mut agents) = (Vec::new(), Vec::new());
        for (agent, text) in mutual.peers {
            let name = PeerName::new(&text);
            let name = name.ok_or_else(|| Problem::PeerName(agent.name.clone()))?;
            if names.contains(&name) {
                return Err(Problem::PeerTwice(agent.name));
            }
            // What names it in records: certificates of one name come and go.
            let hash = digest::digest(&digest::SHA256, text.as_bytes());
            let credential = Digest(*hash.as_ref().first_chunk().expect("SHA-256 has 32 bytes"));
            names.push(name);
            agents.push((agent, credential));
        }
        Ok(Trust {
            acceptor,
            names,
            agents,
        })
    }

    /// The agent at a place, and what names it in records.
    pub(super) fn agent(&self, place: usize) -> &(Agent, Digest) {
        &self.agents[place]
    }

    /// The agent that a certificate is for, if it is good now.
    fn place(&self, shown: &Shown, now: Now) -> Option<usize> {
        let good = self.acceptor.takes(shown, now.unix_ms);
        good.then(|| shown.name_among(&self.names))?
    }
}

/// What is known of the other end of one connection.
struct Known {
    shown: Shown,
    /// By which settings, and when by the monotonic clock, it was asked who it is.
    asked: Option<(Arc<Live>, u64)>,
    place: Option<usize>,
}

impl Known {
    fn place(&mut self, live: &Arc<Live>, now: Now) -> Option<usize> {
        let fresh = self.asked.as_ref().is_some_and(|(of, at)| {
            Arc::ptr_eq(of, live) && now.mono_ms.saturating_sub(*at) < CHECKED_MS
        });
        if !fresh {
            let trust = live.trust.as_ref();
            self.place = trust.and_then(|trust| trust.place(&self.shown, now));
            self.asked = Some((Arc::clone(live), now.mono_ms));
        }
        self.place
    }
}

/// Serves one connection to its end.
pub(super) async fn connection(desk: Rc<Desk>, accepted: AcceptedConnection) {
    let (thread, bounds) = (accepted.thread, accepted.bounds);
    let peer = accepted.peer.address;
    // A Unix socket needs no certificates, and the settings name none for it.
    let Stream::Tcp(stream) = accepted.stream else {
        return;
    };
    let Ok(place) = desk.shared.shaking.try_acquire() else {
        return desk.not_shaken("too many were under way at once");
    };
    let live = Arc::clone(&desk.current().live);
    let Some(trust) = &live.trust else { return };
    let within = Duration::from_millis(bounds.head_ms);
    let accepted = tokio::time::timeout(within, trust.acceptor.accept(stream, bounds.http2)).await;
    let (stream, shown) = match accepted {
        Ok(Ok(accepted)) => accepted,
        Ok(Err(error)) => return desk.not_shaken(&error.to_string()),
        Err(_) => return desk.not_shaken("the client took too long"),
    };
    drop((live, place));
    desk.counters.handshakes.one();
    let all = (Rc::clone(&thread), Rc::clone(&bounds));
    net::each_stream(stream, (&all.0, &all.1), async move |stream| {
        let mut known = Known {
            shown: shown.clone(),
            asked: None,
            place: None,
        };
        let server = ServerConnection::new(stream, &thread, &bounds);
        connection::serve(server, async |server| {
            desk.pass(server, &mut known, peer).await
        })
        .await;
    })
    .await;
}

impl Desk {
    /// Counts a handshake that failed, and says why now and then.
    fn not_shaken(&self, why: &str) {
        self.counters.handshakes_failed.one();
        self.shared.warn_refused(why, self.now());
    }

    /// Passes one request on. An error ends the connection; with one, an answer is owed if it has a status.
    async fn pass(
        &self,
        server: &mut ServerConnection<Stream>,
        known: &mut Known,
        peer: PeerAddress,
    ) -> Result<(), Option<Error>> {
        self.counters.requests.one();
        if self.shared.is_draining() {
            server.close_after();
        }
        let current = self.current();
        let found = self.find(&current, server, known);
        let (place, way) = match found {
            Ok(found) => found,
            Err(refusal) => {
                let refusal = self.reject(peer, refusal).await;
                return refuse::answer(server, &refusal).map_err(Some);
            }
        };
        let grant = match current.grants.kept((place, way), self.now()) {
            Some(grant) => grant,
            None => match self.ask(&current, place, way, peer).await {
                Ok(grant) => grant,
                Err(refusal) => return refuse::answer(server, &refusal).map_err(Some),
            },
        };
        self.counters.passages.one();
        let told = Told::origin(server.request().method());
        let done = plain::pass(server, &self.upstreams, grant.permit(), &|_| false, told).await;
        grant.count_bytes(done.bytes);
        match done.ended {
            plain::Ended::Done => {
                self.counters.completed.one();
                Ok(())
            }
            plain::Ended::Refused(refusal) => {
                let maybe = refusal.code == refusal::RELAY_MAYBE;
                self.counters.maybe_executed.add(u64::from(maybe));
                refuse::answer(server, &refusal).map_err(Some)
            }
            plain::Ended::App(error) => Err(Some(error)),
            plain::Ended::Cut => {
                self.counters.cut.one();
                Err(None)
            }
        }
    }

    /// Who calls, and where to.
    fn find(
        &self,
        current: &Current,
        server: &mut ServerConnection<Stream>,
        known: &mut Known,
    ) -> Result<(usize, crate::routes::Way), Refusal> {
        let Some(place) = known.place(&current.live, self.now()) else {
            server.close_after();
            let public = "the certificate is for nobody who may call";
            return Err(Refusal::new(refusal::RELAY_REFUSED, public));
        };
        let request = server.request();
        if request.method() == b"CONNECT" || request.wants_upgrade() {
            let public = "the request asks for CONNECT or Upgrade";
            return Err(Refusal::new(refusal::RELAY_UNSUPPORTED, public));
        }
        let longest = current.live.content_bytes_max;
        if matches!(request.framing(), Framing::Length(bytes) if bytes > longest) {
            let public = "the request's body is longer than the relay takes";
            return Err(Refusal::new(refusal::RELAY_TOO_LONG, public));
        }
        let path = path_of(request.target());
        let way = current.live.routes.find(request.authority(), path);
        let none = || Refusal::new(refusal::RELAY_ROUTE, "no route is for this host and path");
        Ok((place, way.ok_or_else(none)?))
    }
}
