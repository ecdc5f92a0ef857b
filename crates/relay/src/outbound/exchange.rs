//! One connection with an application, and each of its requests: who calls, where to, may they, and the attempts.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{CallId, Name, Refusal, Resource, refusal};
use gate::{Call, GrantedCall};
use net::h1::{Error, PeerAddress, ServerConnection, Stream};
use seal::bhttp::{Decoder, Fault, Reading};
use seal::{Mode, Session};

use super::desk::{Current, Desk};
use super::handshake::NoSession;
use super::kept::Kept;
use super::link::Link;
use super::retry::{self, Fate, Next};
use crate::actions::PASS;
use crate::connection;
use crate::counters::Stages;
use crate::grants::Asking;
use crate::plain::{self, Told};
use crate::routes::Way;
use crate::{outer, random, refuse};

/// What a connection reuses from request to request.
pub(super) struct Tools {
    pub(super) decoder: Decoder,
    /// The head of the request as it is sealed.
    pub(super) head: Vec<u8>,
    /// The body of the request, where it goes piece by piece and may have to go again.
    pub(super) kept: Option<Kept>,
}

/// How an attempt ended.
pub(super) enum Ended {
    /// The application has its whole answer.
    Done,
    /// The request itself cannot be relayed.
    Refused(Refusal),
    /// No answer; what follows is the table's to say.
    Fate(Fate),
    /// The application is gone, or its request is broken.
    App(Error),
    /// The answer broke off after the application saw some of it.
    Cut,
}

/// What the attempts of one request share.
pub(super) struct Job<'a> {
    pub(super) link: &'a Link,
    pub(super) grant: &'a GrantedCall,
    pub(super) ours: &'a dyn Fn(&[u8]) -> bool,
    pub(super) content_bytes_max: u64,
    pub(super) stages: &'a Stages,
    /// Bytes of the body, where all of it is at hand.
    pub(super) whole: Option<usize>,
}

/// Serves one connection to its end.
pub(super) async fn connection(
    desk: Rc<Desk>,
    server: ServerConnection<Stream>,
    peer: PeerAddress,
) {
    let limits = outer::limits(desk.current().live.content_bytes_max);
    let mut tools = Tools {
        decoder: Decoder::new(limits, Reading::Response),
        head: Vec::new(),
        kept: None,
    };
    connection::serve(server, async |server| {
        desk.exchange(server, peer, &mut tools).await
    })
    .await;
}

impl Desk {
    /// Answers one request. An error ends the connection; with one, an answer is owed if it has a status.
    async fn exchange(
        &self,
        server: &mut ServerConnection<Stream>,
        peer: PeerAddress,
        tools: &mut Tools,
    ) -> Result<(), Option<Error>> {
        self.counters.requests.one();
        if self.shared.is_draining() {
            server.close_after();
        }
        let current = self.current();
        let (agent, way) = match self.find(&current, server, peer) {
            Ok(found) => found,
            Err(refusal) => return self.reject(server, peer, refusal).await,
        };
        let grant = match self.grant(&current, agent, way, peer).await {
            Ok(grant) => grant,
            // The gate has recorded it.
            Err(refusal) => return self.refuse(server, &refusal),
        };
        let callers = &current.live.callers;
        let ours = |name: &[u8]| callers.is_ours(name);
        match way {
            Way::Plain(index) => {
                let told = match current.live.plain[index].is_mutual {
                    false => Told::PLAIN,
                    true => Told::peer(server.request().method()),
                };
                self.pass(server, &grant, &ours, told).await
            }
            Way::Peer(index) => {
                let stages = Stages::begin(&self.counters);
                let mut job = Job {
                    link: &current.live.links[index],
                    grant: &grant,
                    ours: &ours,
                    content_bytes_max: current.live.content_bytes_max,
                    stages: &stages,
                    whole: None,
                };
                let done = self.relay(server, tools, &mut job).await;
                tools.kept = None;
                done
            }
        }
    }

    /// Passes a request on as it is: unsealed, or by TLS with certificates on both sides.
    async fn pass(
        &self,
        server: &mut ServerConnection<Stream>,
        grant: &GrantedCall,
        ours: &dyn Fn(&[u8]) -> bool,
        told: Told,
    ) -> Result<(), Option<Error>> {
        let counters = &self.counters;
        match told.unsent == refusal::RELAY_PLAIN {
            true => counters.plain.one(),
            false => counters.passages.one(),
        }
        let done = plain::pass(server, &self.upstreams, grant.permit(), ours, told).await;
        grant.count_bytes(done.bytes);
        match done.ended {
            plain::Ended::Done => {
                counters.completed.one();
                Ok(())
            }
            plain::Ended::Refused(refusal) => {
                let maybe = refusal.code == refusal::RELAY_MAYBE;
                counters.maybe_executed.add(u64::from(maybe));
                self.refuse(server, &refusal)
            }
            plain::Ended::App(error) => Err(Some(error)),
            plain::Ended::Cut => {
                counters.cut.one();
                Err(None)
            }
        }
    }

    /// Who calls, and where to.
    fn find(
        &self,
        current: &Current,
        server: &ServerConnection<Stream>,
        peer: PeerAddress,
    ) -> Result<(usize, Way), Refusal> {
        let request = server.request();
        let agent = current.live.callers.caller(peer, request.fields())?;
        if request.method() == b"CONNECT" || request.wants_upgrade() {
            let public = "the request asks for CONNECT or Upgrade";
            return Err(Refusal::new(refusal::RELAY_UNSUPPORTED, public));
        }
        let path = path_of(request.target());
        let way = current.live.routes.find(request.authority(), path);
        let none = || Refusal::new(refusal::RELAY_ROUTE, "no route is for this host and path");
        Ok((agent, way.ok_or_else(none)?))
    }

    async fn grant(
        &self,
        current: &Current,
        agent: usize,
        way: Way,
        peer: PeerAddress,
    ) -> Result<GrantedCall, Refusal> {
        let key = (agent, way);
        if let Some(grant) = current.grants.kept(key, self.now()) {
            return Ok(grant);
        }
        let caller = current.live.callers.agent(agent);
        let target = match way {
            Way::Peer(index) => &current.live.links[index].name,
            Way::Plain(index) => &current.live.plain[index].name,
        };
        let asking = Asking {
            caller: Some(caller),
            peer: address(peer),
            method: "http",
            target,
        };
        current.grants.get(key, asking, || self.now()).await
    }

    /// Answers with a refusal of this lane's own, which is recorded.
    async fn reject(
        &self,
        server: &mut ServerConnection<Stream>,
        peer: PeerAddress,
        refusal: Refusal,
    ) -> Result<(), Option<Error>> {
        let relay = Name::new("relay").expect("relay is a name");
        let resource = Resource::Route(relay);
        let id = random::call_id().unwrap_or(CallId([0; 16]));
        let call = Call::new(id, address(peer), &PASS, &resource, "http");
        let refusal = self.shared.gate.reject(None, &call, refusal).await;
        self.refuse(server, &refusal)
    }

    fn refuse(
        &self,
        server: &mut ServerConnection<Stream>,
        refusal: &Refusal,
    ) -> Result<(), Option<Error>> {
        self.counters.refused.one();
        refuse::answer(server, refusal).map_err(Some)
    }

    /// Relays one request: at most three attempts.
    async fn relay(
        &self,
        server: &mut ServerConnection<Stream>,
        tools: &mut Tools,
        job: &mut Job<'_>,
    ) -> Result<(), Option<Error>> {
        if let Some(bytes) = outer::whole(server.request().framing()) {
            if bytes > 0 {
                server.fill(bytes).await.map_err(Some)?;
            }
            job.whole = Some(bytes);
        }
        self.counters.passages.one();
        let mut call = retry::Call::new(server.request().method());
        let mut used: Option<Arc<Session>> = None;
        loop {
            let session = match self.session_for(job.link, &mut call, used.as_ref()).await {
                Ok(session) => session,
                Err(why) => match self.next(&mut call, Fate::Unsent, None) {
                    Next::Give(code) => return self.give(server, code),
                    _ if why.is_final() => return self.give(server, refusal::RELAY_DOWN),
                    next => {
                        wait(next).await;
                        continue;
                    }
                },
            };
            let ended = self.attempt(server, tools, job, &mut call, &session).await;
            let fate = match ended {
                Ended::Done => {
                    self.counters.completed.one();
                    job.stages.end(&self.counters);
                    return Ok(());
                }
                Ended::Refused(refusal) => return self.refuse(server, &refusal),
                Ended::App(error) => return Err(Some(error)),
                Ended::Cut => {
                    self.counters.cut.one();
                    return Err(None);
                }
                Ended::Fate(fate) => fate,
            };
            self.count(fate);
            match self.next(&mut call, fate, Some(session.mode())) {
                Next::Give(code) => {
                    if call.shake {
                        // No further attempt of this call asks for a session, and the next call would end as
                        // this one did. A failure is told to whoever needs the session.
                        let _ = self.session_for(job.link, &mut call, Some(&session)).await;
                    }
                    return self.give(server, code);
                }
                next => wait(next).await,
            }
            used = Some(session);
        }
    }

    /// The session for the next attempt. One that a plain answer asked for is made at most once a second, and if it
    /// cannot be had the old one is used.
    async fn session_for(
        &self,
        link: &Link,
        call: &mut retry::Call,
        used: Option<&Arc<Session>>,
    ) -> Result<Arc<Session>, NoSession> {
        let now = self.now();
        let usable = link.usable(now);
        if std::mem::take(&mut call.shake)
            && let (Some(used), Some(usable)) = (used, &usable)
            && Arc::ptr_eq(used, usable)
            && link.may_force(now)
        {
            return match self.session(link, Some(used)).await {
                Ok(session) => Ok(session),
                Err(_) => Ok(Arc::clone(usable)),
            };
        }
        match usable {
            Some(session) => Ok(session),
            None => self.session(link, None).await,
        }
    }

    fn next(&self, call: &mut retry::Call, fate: Fate, mode: Option<Mode>) -> Next {
        let next = call.after(fate, mode.unwrap_or(Mode::Local), self.now().mono_ms);
        if !matches!(next, Next::Give(_)) {
            self.counters.retries.one();
        }
        next
    }

    fn give(
        &self,
        server: &mut ServerConnection<Stream>,
        code: &'static base::Code,
    ) -> Result<(), Option<Error>> {
        if code == refusal::RELAY_MAYBE {
            self.counters.maybe_executed.one();
        }
        let public = "the relay has no answer to this call";
        refuse::answer(server, &Refusal::new(code, public)).map_err(Some)
    }

    fn count(&self, fate: Fate) {
        use seal::{Advice, Code};
        let counters = &self.counters;
        match fate {
            Fate::Unsent => return,
            Fate::Lost | Fate::Plain(Advice::Lost) => &counters.lost,
            Fate::Plain(Advice::Handshake) => &counters.unknown_ticket,
            Fate::Plain(Advice::HandshakeOnceASecond) => &counters.open_failed,
            Fate::Plain(Advice::OtherKey) => &counters.unknown_kid,
            Fate::Plain(Advice::Fail | Advice::OtherInstance) => &counters.other_hints,
            Fate::Weir(answer) => match answer.code {
                Code::Claimed => &counters.claimed,
                Code::Stale => &counters.stale,
                Code::Draining => &counters.draining,
                Code::Overload => &counters.overload,
                Code::Malformed => &counters.malformed,
                Code::Refused => &counters.forbidden,
                Code::NotReached => &counters.not_reached,
                Code::Failed => &counters.failed,
                Code::Cut => &counters.cut_requests,
            },
        }
        .one();
    }
}

async fn wait(next: Next) {
    let (Next::New { wait_ms } | Next::RetryOf { wait_ms }) = next else {
        return;
    };
    if wait_ms > 0 {
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
    }
}

/// The path of a target in any form.
pub(crate) fn path_of(target: &[u8]) -> &[u8] {
    if target.first() == Some(&b'/') {
        return target;
    }
    let scheme = target.windows(3).position(|window| window == b"://");
    let Some(rest) = scheme.map(|at| &target[at + 3..]) else {
        return target;
    };
    let path = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
    path.map_or(b"/", |at| &rest[at..])
}

/// The address that a record says of a peer.
pub(crate) fn address(peer: PeerAddress) -> IpAddr {
    match peer {
        PeerAddress::Tcp(address) => address.ip(),
        PeerAddress::Unix { .. } => IpAddr::V4(Ipv4Addr::LOCALHOST),
    }
}

/// What is wrong with a request that Binary HTTP does not take.
pub(super) fn refusal_of(fault: Fault) -> Refusal {
    let code = match fault.status() {
        501 => refusal::RELAY_UNSUPPORTED,
        413 | 431 => refusal::RELAY_TOO_LONG,
        _ => refusal::RELAY_FORM,
    };
    Refusal::new(code, fault.text())
}
