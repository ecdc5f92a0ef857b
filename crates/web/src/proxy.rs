//! The forward proxy: requests in absolute form, tunnels by CONNECT, and what stands inside of tunnels that are looked into.
//!
//! In a tunnel to port 80, and in each that is looked into, a client may also speak plain HTTP, as those do that ask for a
//! WebSocket without TLS: it is judged as what stands inside of TLS is.
//!
//! It refuses at once what it would not carry: an upgrade to another protocol than WebSocket, a target without a port, a Host that is not
//! the target's inside of a tunnel.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::record::CallEnd;
use base::{CallId, Refusal, Resource, Site, refusal};
use gate::{Call, ContentPart, PartContent, Passed, Role};
use http::Method;
use http::header::{HOST, PROXY_AUTHORIZATION, UPGRADE};
use net::{
    Body, EdgeSettings, EdgeShared, Peer, Request, Response, Service, Switch, Tunnel, TunnelBounds,
    TunnelEnd, TunnelStop,
};

use crate::actions::{GET, SEND, TUNNEL, check_method};
use crate::answer::{back, ended};
use crate::exchange::{SiteRequest, end, of_send, read_body};
use crate::lane::{Caller, Intercept, PROOF, WebLane};
use crate::meter::SiteWay;
use crate::refuse::by_proxy;
use crate::site::{AskedUrl, authority, is_same_host};
use crate::socket;

/// How long a client may take to send its part of the TLS handshake, in milliseconds.
const HELLO_MS: u64 = 10_000;

/// The port of plain HTTP (RFC 9110 §4.2.1).
const PLAIN_PORT: u16 = 80;

/// The proxy on one thread, or inside of one tunnel.
pub struct ProxyService {
    /// The lane by the settings that are in force: asked for each request.
    lane: LaneNow,
    edge: Arc<EdgeShared>,
    inside: Option<Inside>,
}

/// Gives the lane by the settings that are in force now.
pub type LaneNow = Rc<dyn Fn() -> WebLane>;

/// One request to the proxy.
struct ProxyRequest<'s> {
    service: &'s ProxyService,
    lane: WebLane,
}

/// The tunnel that requests came in.
struct Inside {
    caller: Caller,
    host: Box<str>,
    port: u16,
    /// Whether the client spoke TLS in it.
    is_secured: bool,
}

impl ProxyService {
    /// The proxy as clients reach it.
    pub fn new(lane: LaneNow, edge: Arc<EdgeShared>) -> ProxyService {
        ProxyService {
            lane,
            edge,
            inside: None,
        }
    }
}

impl Service for ProxyService {
    async fn call(&self, request: Request) -> Response {
        let now = ProxyRequest {
            service: self,
            lane: (self.lane)(),
        };
        let id = (now.lane.settings().new_id)();
        let mut response = match (&self.inside, &request.head.method) {
            (None, &Method::CONNECT) => now.connect(request, id).await,
            _ => now.ask(request, id).await,
        };
        if let Ok(call) = id.to_string().parse() {
            response.headers_mut().insert("weir-call", call);
        }
        response
    }

    fn refuse(&self, refusal: &Refusal) -> Response {
        by_proxy(refusal, ((self.lane)().settings().new_id)())
    }
}

impl ProxyRequest<'_> {
    /// Carries a request to its site.
    async fn ask(&self, mut request: Request, id: CallId) -> Response {
        let caller = match &self.service.inside {
            Some(inside) => inside.caller.clone(),
            None => match self.lane.who_by_proxy(&request, id).await {
                Ok(caller) => caller,
                Err(refusal) => return by_proxy(&refusal, id),
            },
        };
        let asked = match self.asked(&mut request).await {
            Ok(asked) => asked,
            Err(refusal) => return self.no(&caller, &request, id, refusal).await,
        };
        if asked.is_socket {
            let carried = self.lane.carry_socket(&caller, id, &mut request, asked);
            return carried
                .await
                .unwrap_or_else(|refusal| by_proxy(&refusal, id));
        }
        let mut judged = match self.lane.judge(&caller, id, None, &asked).await {
            Ok(judged) => judged,
            Err(refusal) => return by_proxy(&refusal, id),
        };
        let sent = match asked.is_begun {
            false => self.lane.send(&judged, &asked.method, &asked.url).await,
            true => {
                self.lane
                    .send_flowing(&mut judged, &asked, &mut request)
                    .await
            }
        };
        match sent {
            Ok(answer) => back(&self.lane, judged, answer, &asked.method, id).await,
            Err(refusal) => {
                end(judged.passed, CallEnd::Failed, 0, 0, Some(&refusal));
                by_proxy(&refusal, id)
            }
        }
    }

    /// Records a refusal of what names no site yet, and says it.
    async fn no(
        &self,
        caller: &Caller,
        request: &Request,
        id: CallId,
        refusal: Refusal,
    ) -> Response {
        let resource = crate::lane::setting("proxy");
        let call = Call::new(
            id,
            caller.peer,
            &GET,
            &resource,
            request.head.method.as_str(),
        );
        by_proxy(&self.lane.no(caller, &call, refusal).await, id)
    }

    /// What a request asks, with as much of its body as is judged whole.
    async fn asked(&self, request: &mut Request) -> Result<SiteRequest, Refusal> {
        let head = &request.head;
        check_method(head.method.as_str())?;
        let uri = &head.uri;
        let text = match &self.service.inside {
            None if uri.scheme().is_none() => {
                let public = "this is the proxy; ask it for a whole URL, as clients do that are told of a proxy";
                return Err(Refusal::new(refusal::WEB_URL, public));
            }
            None => uri.to_string(),
            Some(inside) => {
                inside.check_host(request)?;
                let path = uri.path_and_query().map_or("/", |path| path.as_str());
                format!("{}{path}", inside.origin())
            }
        };
        let is_socket = socket::is_asked(&head.headers);
        if head.headers.contains_key(UPGRADE) && !is_socket {
            let public = "the request asks to go on with another protocol, which is not carried";
            return Err(Refusal::new(refusal::WEB_UNSUPPORTED, public));
        }
        // What goes on is the URL as it was read, since that is what is judged.
        let url = match is_socket {
            true => AskedUrl::read(&socket::http_url(&text))?,
            false => AskedUrl::read(&text)?,
        };
        let mut asked = SiteRequest::new(head.method.clone(), url, &head.headers);
        asked.is_socket = is_socket;
        if self.service.inside.is_some() {
            asked.way = SiteWay::Inside;
        }
        let shown = head.headers.get(PROXY_AUTHORIZATION);
        if shown.is_some_and(|shown| is_dpop(shown.as_bytes())) {
            // The proof was for the proxy.
            asked.fields.remove(PROOF);
        }
        if is_socket {
            return Ok(asked);
        }
        read_body(&self.lane, request, &mut asked).await?;
        Ok(asked)
    }

    /// Opens a tunnel.
    async fn connect(&self, request: Request, id: CallId) -> Response {
        let caller = match self.lane.who_by_proxy(&request, id).await {
            Ok(caller) => caller,
            Err(refusal) => return by_proxy(&refusal, id),
        };
        let target = request.head.uri.to_string();
        let (host, port) = match authority(&target) {
            Ok(target) => target,
            Err(refusal) => return self.no(&caller, &request, id, refusal).await,
        };
        let intercept = self.lane.settings().intercept.as_ref();
        let intercept = intercept.filter(|intercept| !intercept.pass.hold(&host));
        let opened = TunnelAsk {
            service: self,
            caller,
            id,
            host,
            port,
            written: target,
        };
        match intercept {
            Some(intercept) => opened.look_into(request, Some(intercept)).await,
            None if port == PLAIN_PORT => opened.look_into(request, None).await,
            None => opened.carry(request).await,
        }
    }
}

impl Inside {
    fn origin(&self) -> String {
        let Inside { host, port, .. } = self;
        let scheme = if self.is_secured { "https" } else { "http" };
        match host.contains(':') {
            true => format!("{scheme}://[{host}]:{port}"),
            false => format!("{scheme}://{host}:{port}"),
        }
    }

    /// Refuses a request for another host than the tunnel's: the site would take it for its own, and what was judged
    /// would not be what it answers.
    fn check_host(&self, request: &Request) -> Result<(), Refusal> {
        let named = request
            .head
            .headers
            .get(HOST)
            .and_then(|host| host.to_str().ok());
        let named = named.unwrap_or_default();
        let (host, port) = match named.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
            _ if self.is_secured => (named, Some(443)),
            _ => (named, Some(PLAIN_PORT)),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        match is_same_host(host, &self.host) && port == Some(self.port) {
            true => Ok(()),
            false => {
                let public = "the Host of the request is not the one that the tunnel is for";
                Err(Refusal::new(refusal::MISDIRECTED, public))
            }
        }
    }
}

/// Whether a field's value is of the scheme DPoP (RFC 9449 §7.1).
fn is_dpop(shown: &[u8]) -> bool {
    let scheme = shown.split(|byte| *byte == b' ').next();
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"dpop"))
}

/// A tunnel that a client asks for.
struct TunnelAsk<'a> {
    service: &'a ProxyRequest<'a>,
    caller: Caller,
    id: CallId,
    host: Box<str>,
    port: u16,
    /// The target as it was written.
    written: String,
}

impl TunnelAsk<'_> {
    fn lane(&self) -> &WebLane {
        &self.service.lane
    }

    /// Carries bytes, once both ends speak TLS for the host that was judged.
    async fn carry(self, mut request: Request) -> Response {
        let site = self.site("tcp");
        let passed = self.judge(&TUNNEL, &site).await;
        self.lane().count(SiteWay::Tunnel, &passed);
        let passed = match passed {
            Ok(passed) => passed,
            Err(refusal) => return by_proxy(&refusal, self.id),
        };
        let settings = self.lane().settings();
        let agents = &self.lane().shared.agents;
        let (agent, now_ms) = (self.caller.agent(), (settings.now_ms)());
        let place = agents.enter(agent, &self.host, SiteWay::Tunnel, now_ms);
        let opened = match place {
            Ok(place) => self.open(&passed).await.map(|far| (place, far)),
            Err(refusal) => Err(refusal),
        };
        let taken = match opened {
            Ok((place, far)) => {
                let near = request.take_over(&passed, Switch::connected()).await;
                near.map(|near| (place, near, far))
            }
            Err(refusal) => Err(refusal),
        };
        let (place, near, far) = match taken {
            Ok(taken) => taken,
            Err(refusal) => {
                end(passed, CallEnd::Failed, 0, 0, Some(&refusal));
                return by_proxy(&refusal, self.id);
            }
        };
        let reserved = place.reserve(settings.tunnel.bytes_max);
        let bounds = TunnelBounds {
            bytes_max: reserved.bytes,
            ..settings.tunnel
        };
        let (up, down, why) = self.join(near, far, &passed, bounds).await;
        place.settle(reserved, up, down);
        let how = if why.is_some() {
            CallEnd::Cut
        } else {
            CallEnd::Complete
        };
        end(passed, how, 200, up + down, why.as_ref());
        Response::new(Body::Taken)
    }

    /// How many bytes were carried, up and down, and what ended it before both sides closed.
    async fn join(
        &self,
        mut near: Tunnel,
        far: Tunnel,
        passed: &Passed,
        bounds: TunnelBounds,
    ) -> (u64, u64, Option<Refusal>) {
        if let Err(refusal) = self.check_hello(&mut near).await {
            near.abandon();
            return (0, 0, Some(refusal));
        }
        let TunnelEnd { up, down, why } = near.join(far, passed, bounds).await;
        let why = match why {
            TunnelStop::Closed => None,
            TunnelStop::Ended(refusal) => Some(refusal),
            why @ TunnelStop::TooLong => Some(Refusal::new(refusal::WEB_BOUND, why.to_string())),
            why => Some(Refusal::new(refusal::WEB_DOWN, why.to_string())),
        };
        (up, down, why)
    }

    /// Reads the beginning of the client's TLS, and lets it pass only for the host that was judged.
    async fn check_hello(&self, near: &mut Tunnel) -> Result<(), Refusal> {
        let hello = near.peek_hello(HELLO_MS).await;
        let hello = hello.map_err(|error| {
            let public = "the client does not speak TLS in the tunnel";
            Refusal::new(refusal::WEB_TUNNEL, public).with_private(error.to_string())
        })?;
        // An address is not named (RFC 6066, section 3).
        let is_address = self.host.parse::<std::net::IpAddr>().is_ok();
        match hello.server_name.as_deref() {
            None if is_address => Ok(()),
            Some(name) if is_same_host(name, &self.host) => Ok(()),
            None => Err(tunnel("the client's TLS names no server")),
            Some(_) => Err(tunnel("the client's TLS names another server than CONNECT")),
        }
    }

    async fn open(&self, passed: &Passed) -> Result<Tunnel, Refusal> {
        let lane = self.lane();
        let lease = lane.upstreams.dial(passed, lane.settings().answer_ms).await;
        lease
            .and_then(|lease| lease.take_over(passed))
            .map_err(of_send)
    }

    fn site(&self, scheme: &str) -> Resource {
        Resource::Site(Site {
            scheme: scheme.into(),
            host: self.host.clone(),
            port: self.port,
            path: "/".into(),
        })
    }

    async fn judge(
        &self,
        action: &'static base::Action,
        resource: &Resource,
    ) -> Result<Passed, Refusal> {
        let url = format!("https://{}/", self.written);
        let content = [ContentPart {
            role: Role::Argument,
            path: "url",
            content: PartContent::Url(&url),
        }];
        let call = Call {
            request: self.caller.request.as_deref(),
            trace: self.caller.trace.as_deref(),
            content: &content,
            observes: self.lane().observes(),
            ..Call::new(self.id, self.caller.peer, action, resource, "CONNECT")
        };
        self.lane()
            .gate()
            .pass(self.caller.verified.clone(), call)
            .await
    }

    /// Ends the client's TLS here, and serves what is inside as requests to the one host. Without an authority there may be
    /// no TLS.
    async fn look_into(self, mut request: Request, intercept: Option<&Intercept>) -> Response {
        let site = self.site(if intercept.is_some() { "https" } else { "http" });
        // What is inside is judged request by request. The tunnel itself needs leave for either.
        let gate = self.lane().gate();
        let may_get = gate.may(&self.caller.verified, &GET, &site);
        let action = if may_get { &GET } else { &SEND };
        let passed = self.judge(action, &site).await;
        self.lane().count(SiteWay::Intercept, &passed);
        let passed = match passed {
            Ok(passed) => passed,
            Err(refusal) => return by_proxy(&refusal, self.id),
        };
        let peer = request.peer.clone();
        let settings = self.lane().settings();
        let agents = &self.lane().shared.agents;
        let (agent, now_ms) = (self.caller.agent(), (settings.now_ms)());
        let place = agents.enter(agent, &self.host, SiteWay::Intercept, now_ms);
        let taken = match place {
            Ok(place) => {
                let near = request.take_over(&passed, Switch::connected()).await;
                near.map(|near| (place, near))
            }
            Err(refusal) => Err(refusal),
        };
        let (_place, near) = match taken {
            Ok(taken) => taken,
            Err(refusal) => {
                end(passed, CallEnd::Failed, 0, 0, Some(&refusal));
                return by_proxy(&refusal, self.id);
            }
        };
        let why = self
            .serve_inside(near, peer, &passed, intercept)
            .await
            .err();
        let how = if why.is_some() {
            CallEnd::Cut
        } else {
            CallEnd::Complete
        };
        end(passed, how, 200, 0, why.as_ref());
        Response::new(Body::Taken)
    }

    async fn serve_inside(
        &self,
        mut near: Tunnel,
        peer: Peer,
        passed: &Passed,
        intercept: Option<&Intercept>,
    ) -> Result<(), Refusal> {
        let is_tls = near.peek_is_tls(HELLO_MS).await;
        let is_tls = is_tls.map_err(|error| {
            tunnel("the client says nothing in the tunnel").with_private(error.to_string())
        })?;
        if !is_tls {
            return self.serve_requests(near, peer, passed, false).await;
        }
        let Some(intercept) = intercept else {
            near.abandon();
            return Err(tunnel("the client speaks TLS to the port of plain HTTP"));
        };
        if let Err(refusal) = self.check_hello(&mut near).await {
            near.abandon();
            return Err(refusal);
        }
        let secured = intercept.authority.accept(near, &self.host);
        let secured = tokio::time::timeout(Duration::from_millis(HELLO_MS), secured).await;
        let secured = secured.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        let secured = secured.map_err(|error| {
            let public = "the client does not trust the gateway's certificate, or broke off";
            Refusal::new(refusal::WEB_TUNNEL, public).with_private(error.to_string())
        })?;
        self.serve_requests(secured, peer, passed, true).await
    }

    /// Serves what comes in the tunnel as requests to its host, until it ends or its bounds or a stop end it.
    async fn serve_requests(
        &self,
        inside: Tunnel,
        peer: Peer,
        passed: &Passed,
        is_secured: bool,
    ) -> Result<(), Refusal> {
        let service = Rc::new(ProxyService {
            lane: Rc::clone(&self.service.service.lane),
            edge: Arc::clone(&self.service.service.edge),
            inside: Some(Inside {
                caller: self.caller.clone(),
                host: self.host.clone(),
                port: self.port,
                is_secured,
            }),
        });
        let settings: Rc<EdgeSettings> = Rc::new(self.lane().settings().edge.clone());
        let peer = Peer {
            is_tls: is_secured || peer.is_tls,
            ..peer
        };
        let shared = Arc::clone(&self.service.service.edge);
        let whole = Duration::from_millis(self.lane().settings().tunnel.whole_ms);
        let mut stops = self.lane().gate().stops();
        tokio::select! {
            biased;
            refusal = ended(passed, &mut stops) => Err(refusal),
            () = net::serve_tunnel(inside, peer, service, settings, shared) => Ok(()),
            () = tokio::time::sleep(whole) => {
                Err(Refusal::new(refusal::WEB_BOUND, TunnelStop::Late.to_string()))
            }
        }
    }
}

fn tunnel(why: &str) -> Refusal {
    Refusal::new(refusal::WEB_TUNNEL, why)
}
