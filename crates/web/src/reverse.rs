//! The reverse proxy: a listener for one service that the configuration names; what is asked of it is judged, and so is what
//! it answers.
//!
//! A client is given the listener's URL in place of the service's, and needs to know of no proxy. It shows its key as
//! `Authorization: Bearer`, which stays here; where the service wants an `Authorization` of the client's own, the key stands in
//! `Proxy-Authorization`. The service is the operator's, so it may be at an address inside.
//!
//! It refuses upgrades to anything but WebSocket, and a path that leads out of the service's own.

use std::sync::Arc;

use base::record::CallEnd;
use base::{CallId, Name, Refusal, Resource, Secret, refusal};
use gate::Call;
use http::header::{
    AUTHORIZATION, HeaderMap, HeaderValue, IF_RANGE, LOCATION, PROXY_AUTHORIZATION, RANGE, UPGRADE,
};
use http::uri::PathAndQuery;
use net::{Request, Response, Service};

use crate::actions::{GET, check_method};
use crate::answer::back;
use crate::credentials::Scrub;
use crate::exchange::{SiteRequest, end, read_body};
use crate::lane::{Caller, PROOF, WebLane};
use crate::meter::SiteWay;
use crate::proxy::LaneNow;
use crate::refuse::problem;
use crate::site::AskedUrl;
use crate::socket;

/// A service of the operator's, and the name that it has.
#[derive(Clone, PartialEq)]
pub struct ReverseService {
    pub name: Name,
    /// Scheme, host and port, as a URL begins.
    pub origin: String,
    /// What stands before each path, without a slash at its end.
    pub base: String,
    pub token: Option<Secret>,
}

impl ReverseService {
    /// Shows the service the operator's token, which is in no record and does not come back.
    pub(crate) fn authorize(&self, fields: &mut HeaderMap, scrub: &mut Scrub) {
        let Some(token) = &self.token else {
            return;
        };
        if let Ok(mut value) = HeaderValue::try_from(format!("Bearer {}", token.expose())) {
            value.set_sensitive(true);
            fields.insert(AUTHORIZATION, value);
        }
        // What comes back in two parts could not be found.
        fields.remove(RANGE);
        fields.remove(IF_RANGE);
        scrub.add(token.expose());
    }
}

/// The reverse proxy of one service, on one thread.
pub struct ReverseProxy {
    lane: LaneNow,
    service: Arc<ReverseService>,
}

impl ReverseProxy {
    pub fn new(lane: LaneNow, service: Arc<ReverseService>) -> ReverseProxy {
        ReverseProxy { lane, service }
    }
}

/// One request to a service, which goes on by the settings in which it began.
struct ReverseRequest {
    lane: WebLane,
    service: Arc<ReverseService>,
}

impl ReverseRequest {
    async fn ask(&self, mut request: Request, id: CallId) -> Response {
        let resource = Resource::server(self.service.name.clone());
        let method = request.head.method.clone();
        let call = Call::new(id, request.peer.caller, &GET, &resource, method.as_str());
        let caller = match self.lane.who_by_reverse(&request, &call).await {
            Ok(caller) => caller,
            Err(refusal) => return problem(&refusal, id),
        };
        let asked = match self.asked(&mut request).await {
            Ok(asked) => asked,
            Err(refusal) => {
                let refusal = self.lane.no(&caller, &call, refusal).await;
                return problem(&refusal, id);
            }
        };
        match self.carry(&caller, id, asked, &mut request).await {
            Ok(response) => self.own_places(response),
            Err(refusal) => problem(&refusal, id),
        }
    }

    /// What a request asks of the service, with as much of its body as is judged whole.
    async fn asked(&self, request: &mut Request) -> Result<SiteRequest, Refusal> {
        let head = &request.head;
        check_method(head.method.as_str())?;
        if head.uri.scheme().is_some() {
            let public = "this is a service's own address; ask it for a path";
            return Err(Refusal::new(refusal::WEB_URL, public));
        }
        let is_socket = socket::is_asked(&head.headers);
        if head.headers.contains_key(UPGRADE) && !is_socket {
            let public = "the request asks to go on with another protocol, which is not carried";
            return Err(Refusal::new(refusal::WEB_UNSUPPORTED, public));
        }
        let path = head.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let ReverseService { origin, base, .. } = &*self.service;
        let url = AskedUrl::read(&format!("{origin}{base}{path}"))?;
        // A path that leads upwards would leave what stands before it.
        let is_below = url.url.path().strip_prefix(base.as_str());
        if !is_below.is_some_and(|rest| rest.starts_with('/')) {
            let public = "the path leads out of the service's own";
            return Err(Refusal::new(refusal::WEB_URL, public));
        }
        let mut asked = SiteRequest::new(head.method.clone(), url, &head.headers);
        asked.is_socket = is_socket;
        asked.way = SiteWay::Reverse;
        asked.service = Some(Arc::clone(&self.service));
        if !head.headers.contains_key(PROXY_AUTHORIZATION) {
            // It was the key.
            asked.fields.remove(AUTHORIZATION);
            asked.fields.remove(PROOF);
        }
        if !is_socket {
            read_body(&self.lane, request, &mut asked).await?;
        }
        Ok(asked)
    }

    async fn carry(
        &self,
        caller: &Caller,
        id: CallId,
        asked: SiteRequest,
        request: &mut Request,
    ) -> Result<Response, Refusal> {
        if asked.is_socket {
            return self.lane.carry_socket(caller, id, request, asked).await;
        }
        let mut judged = self.lane.judge(caller, id, None, &asked).await?;
        let sent = match asked.is_begun {
            false => self.lane.send(&judged, &asked.method, &asked.url).await,
            true => self.lane.send_flowing(&mut judged, &asked, request).await,
        };
        match sent {
            Ok(answer) => Ok(back(&self.lane, judged, answer, &asked.method, id).await),
            Err(refusal) => {
                end(judged.passed, CallEnd::Failed, 0, 0, Some(&refusal));
                Err(refusal)
            }
        }
    }

    /// Redirects of the service to itself lead here again.
    fn own_places(&self, mut response: Response) -> Response {
        let ReverseService { origin, base, .. } = &*self.service;
        let fields = response.headers_mut();
        let location = fields.get(LOCATION).and_then(|at| at.to_str().ok());
        let Some(location) = location else {
            return response;
        };
        let below = location.strip_prefix(origin.as_str()).unwrap_or(location);
        let own = below.strip_prefix(base.as_str());
        if let Some(own) = own.filter(|own| own.starts_with('/') && !own.starts_with("//"))
            && let Ok(own) = HeaderValue::try_from(own)
        {
            fields.insert(LOCATION, own);
        }
        response
    }
}

impl Service for ReverseProxy {
    async fn call(&self, request: Request) -> Response {
        let asked = ReverseRequest {
            lane: (self.lane)(),
            service: Arc::clone(&self.service),
        };
        let id = (asked.lane.settings().new_id)();
        let mut response = asked.ask(request, id).await;
        if let Ok(call) = id.to_string().parse() {
            response.headers_mut().insert("weir-call", call);
        }
        response
    }

    fn refuse(&self, refusal: &Refusal) -> Response {
        problem(refusal, ((self.lane)().settings().new_id)())
    }
}
