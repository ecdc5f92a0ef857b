//! The lane: what it is told, who calls, and what every call to a site has in common.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use base::{CallId, Name, Refusal, Resource, refusal};
use gate::{ActingFor, Call, Gate, Passed};
use http::header::{AUTHORIZATION, HeaderName, PROXY_AUTHORIZATION};
use identity::{Presented, PresentedPeer, Verified};
use net::{EdgeSettings, InterceptAuthority, Request, TunnelBounds, Upstreams, origin};

use crate::actions::GET;
use crate::bounds::{AgentBounds, AgentUse};
use crate::credentials::{HostNames, SiteCredential};
use crate::meter::SiteMeter;
use crate::robots::KeptRobots;
use crate::section::WebMode;
use crate::socket::SocketSettings;

/// W3C Trace Context, section 3.2.
pub(crate) const TRACE: HeaderName = HeaderName::from_static("traceparent");
/// The proof of a key that a token is bound to (RFC 9449 §4.1).
pub(crate) const PROOF: HeaderName = HeaderName::from_static("dpop");

/// What the lane is told.
#[derive(Clone)]
pub struct Settings {
    /// Whether the configuration has a web section.
    pub is_on: bool,
    pub mode: WebMode,
    pub fetch: FetchSettings,
    /// Largest body that is judged before any of it leaves, in bytes; a larger one is judged as it flows.
    pub body_bytes_max: usize,
    /// How long a site may take until its answer begins, in milliseconds.
    pub answer_ms: u64,
    /// How long a site may be silent in the middle of an answer, in milliseconds.
    pub silence_ms: u64,
    pub tunnel: TunnelBounds,
    pub socket: SocketSettings,
    pub agent: AgentBounds,
    pub credentials: Arc<[SiteCredential]>,
    /// Without it nobody looks into tunnels.
    pub intercept: Option<Intercept>,
    pub edge: EdgeSettings,
    /// Sites whose pages may call.
    pub origins: Vec<String>,
    pub meter: Arc<dyn SiteMeter>,
    /// Makes the id of a call.
    pub new_id: fn() -> CallId,
    /// The monotonic clock, in milliseconds.
    pub now_ms: fn() -> u64,
}

/// How pages are fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchSettings {
    pub user_agent: String,
    /// Largest page, in bytes, before and after its coding is undone.
    pub bytes_max: usize,
    pub redirects_max: usize,
    /// Whether sites are asked for their robots.txt.
    pub asks_robots: bool,
}

/// How tunnels are looked into.
#[derive(Clone)]
pub struct Intercept {
    pub authority: Arc<InterceptAuthority>,
    /// Hosts whose tunnels nobody looks into.
    pub pass: HostNames,
}

/// What all threads share.
pub struct Shared {
    pub(crate) settings: Settings,
    pub(crate) gate: Arc<Gate>,
    pub(crate) agents: Arc<AgentUse>,
    pub(crate) robots: Arc<KeptRobots>,
}

impl Shared {
    pub fn new(settings: Settings, gate: Arc<Gate>) -> Shared {
        Shared {
            agents: Arc::new(AgentUse::new(settings.agent, Arc::clone(&settings.meter))),
            robots: Arc::default(),
            settings,
            gate,
        }
    }

    /// What is in force after other settings were read: what agents have open and used, and what sites said, is the same.
    pub fn next(&self, settings: Settings) -> Shared {
        self.agents.set_bounds(settings.agent);
        Shared {
            agents: Arc::clone(&self.agents),
            robots: Arc::clone(&self.robots),
            gate: Arc::clone(&self.gate),
            settings,
        }
    }
}

/// The lane on one thread.
#[derive(Clone)]
pub struct WebLane {
    pub(crate) shared: Arc<Shared>,
    pub(crate) upstreams: Rc<Upstreams<Passed>>,
}

/// Who calls, once that is known.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) verified: Verified,
    pub(crate) peer: IpAddr,
    /// The id that the client gave its request.
    pub(crate) request: Option<String>,
    pub(crate) trace: Option<String>,
    /// The run whose step it is.
    pub(crate) run: Option<Arc<str>>,
}

impl Caller {
    pub(crate) fn agent(&self) -> &Name {
        &self.verified.agent().name
    }
}

impl WebLane {
    pub fn new(shared: Arc<Shared>, upstreams: Rc<Upstreams<Passed>>) -> WebLane {
        WebLane { shared, upstreams }
    }

    /// The bounds of the proxy's connections.
    pub fn edge_settings(&self) -> &EdgeSettings {
        &self.shared.settings.edge
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Whether what is refused passes, and is only recorded.
    pub(crate) fn observes(&self) -> bool {
        self.settings().mode == WebMode::Observe
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.shared.gate
    }

    /// Whoever asks a route of the gateway, once it comes from no other site's page and shows a key.
    ///
    /// # Errors
    /// The refusal, which is recorded.
    pub(crate) async fn who(
        &self,
        request: &Request,
        id: CallId,
        what: &'static str,
    ) -> Result<Caller, Refusal> {
        let resource = setting(what);
        let call = Call::new(id, request.peer.caller, &GET, &resource, what);
        let head = &request.head;
        if let Err(refusal) = origin::check(head, request.peer.is_tls, &self.settings().origins) {
            return Err(self.gate().turn_away(&call, refusal).await);
        }
        let shown = request.field(&AUTHORIZATION).map(str::to_owned);
        let caller = self
            .known(request, &call, shown, request.head.uri.path())
            .await?;
        if self.settings().is_on {
            return Ok(caller);
        }
        let public = "the web lane is not configured";
        Err(self
            .no(&caller, &call, Refusal::new(refusal::WEB_OFF, public))
            .await)
    }

    /// Whoever asks the proxy: a key in `Proxy-Authorization`, as Bearer, or as the password of Basic (RFC 7617).
    ///
    /// # Errors
    /// The refusal, which is recorded.
    pub(crate) async fn who_by_proxy(
        &self,
        request: &Request,
        id: CallId,
    ) -> Result<Caller, Refusal> {
        let resource = setting("proxy");
        let method = request.head.method.as_str();
        let call = Call::new(id, request.peer.caller, &GET, &resource, method);
        let shown = request.field(&PROXY_AUTHORIZATION).map(proxy_bearer);
        // The proxy is no resource with a path; the request's path is the site's.
        self.known(request, &call, shown, "").await
    }

    /// Whoever asks a service behind the reverse proxy: a key as clients of proxies show it, or else in `Authorization`.
    ///
    /// # Errors
    /// The refusal, which is recorded.
    pub(crate) async fn who_by_reverse(
        &self,
        request: &Request,
        call: &Call<'_>,
    ) -> Result<Caller, Refusal> {
        let by_proxy = request.field(&PROXY_AUTHORIZATION).map(proxy_bearer);
        let shown = by_proxy.or_else(|| request.field(&AUTHORIZATION).map(proxy_bearer));
        self.known(request, call, shown, request.head.uri.path())
            .await
    }

    async fn known(
        &self,
        request: &Request,
        call: &Call<'_>,
        authorization: Option<String>,
        target: &str,
    ) -> Result<Caller, Refusal> {
        if let Some(acting) = request.head.extensions.get::<ActingFor>() {
            return Ok(Caller {
                verified: self.gate().verify_acting(call, acting).await?,
                peer: call.peer,
                request: None,
                trace: None,
                run: Some(Arc::clone(&acting.run)),
            });
        }
        let presented = Presented {
            authorization: authorization.as_deref(),
            proof: request.field(&PROOF),
            fields: &[],
            method: request.head.method.as_str(),
            target,
            peer: PresentedPeer {
                address: call.peer,
                certificate: request.peer.certificate(),
            },
        };
        let verified = self.gate().verify(call, &presented).await?;
        request.is_of_known_agent();
        Ok(Caller {
            verified,
            peer: call.peer,
            request: request.id().map(str::to_owned),
            trace: request.field(&TRACE).map(str::to_owned),
            run: None,
        })
    }

    /// Records a refusal that the lane found itself.
    pub(crate) async fn no(&self, caller: &Caller, call: &Call<'_>, refusal: Refusal) -> Refusal {
        self.gate()
            .reject(Some(&caller.verified), call, refusal)
            .await
    }
}

/// What a request is of before it is known which site it asks.
pub(crate) fn setting(name: &'static str) -> Resource {
    Resource::Setting(Name::new(name).expect("it is a name"))
}

/// What a client of a proxy shows, as the `Authorization` field of an agent: programs write a key as the password, or as
/// the user name alone.
fn proxy_bearer(shown: &str) -> String {
    use base64::Engine as _;
    let Some((scheme, coded)) = shown.split_once(' ') else {
        return shown.to_owned();
    };
    if !scheme.eq_ignore_ascii_case("basic") {
        return shown.to_owned();
    }
    let plain = base64::engine::general_purpose::STANDARD.decode(coded.trim());
    let plain = plain.ok().and_then(|plain| String::from_utf8(plain).ok());
    let plain = plain.unwrap_or_default();
    let (user, password) = plain.split_once(':').unwrap_or((&plain, ""));
    let key = if password.is_empty() { user } else { password };
    format!("Bearer {key}")
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn a_key_is_a_token_or_a_password_or_a_user() {
        let basic = |plain: &str| proxy_bearer(&format!("Basic {}", STANDARD.encode(plain)));
        assert_eq!(basic("dev:weir_x"), "Bearer weir_x");
        assert_eq!(basic("weir_x:"), "Bearer weir_x");
        assert_eq!(basic("weir_x"), "Bearer weir_x");
        assert_eq!(proxy_bearer("Bearer weir_x"), "Bearer weir_x");
        assert_eq!(proxy_bearer("Basic %%%"), "Bearer ");
        assert_eq!(proxy_bearer("Digest x"), "Digest x");
    }
}
