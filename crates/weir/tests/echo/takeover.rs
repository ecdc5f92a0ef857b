//! Connections that the lane takes over: a WebSocket at `/echo/ws`, which sends each text back, and the tunnel to its
//! server that CONNECT asks for.
//!
//! Each is one call: judged before the connection is taken over, held to its permit while it lasts, recorded when it ends.

use base::record::CallEnd;
use base::{CallId, Refusal, Resource, refusal};
use gate::{Call, CallEnding, Channel, Passed, Role};
use http::Method;
use http::header::AUTHORIZATION;
use identity::Presented;
use net::{
    Body, Request, Response, Switch, TunnelBounds, TunnelStop, WebSocket, WebSocketBounds,
    WebSocketEnd, WebSocketMessage, WebSocketOffer,
};

use super::{EchoThread, SEND, own_name};

#[cfg(test)]
mod tests;

const IDLE_MS: u64 = 60_000;
const WHOLE_MS: u64 = 3_600_000;
const TUNNEL_BYTES_MAX: u64 = 1 << 30;
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// What was carried, and how that ended.
struct Carried {
    bytes: u64,
    end: CallEnd,
    why: Option<(&'static str, String)>,
}

/// Whether a request asks for a connection. CONNECT names no path.
pub(super) fn is_asked(rest: &str, method: &Method) -> bool {
    method == Method::CONNECT || (method == Method::GET && rest == "ws")
}

impl EchoThread {
    pub(super) async fn take_over(
        &self,
        mut request: Request,
        id: CallId,
    ) -> Result<Response, Refusal> {
        let resource = Resource::server(own_name());
        let peer = request.peer.caller;
        let is_tunnel = request.head.method == Method::CONNECT;
        let (method, status) = match is_tunnel {
            true => ("connect", 200),
            false => ("websocket", 101),
        };
        let call = Call::new(id, peer, &SEND, &resource, method);
        let shown = Presented::bearer(request.field(&AUTHORIZATION), peer);
        let gate = &self.lane.gate;
        let verified = gate.verify(&call, &shown).await?;
        request.is_of_known_agent();
        let unknown = || Refusal::new(refusal::SERVER_UNKNOWN, "no server has this name");
        let offer = match (self.lane.is_configured, is_tunnel) {
            (false, _) => Err(unknown()),
            (true, true) => Ok(None),
            (true, false) => WebSocketOffer::read(&request.head).map(Some),
        };
        let offer = match offer {
            Ok(offer) => offer,
            Err(refusal) => return Err(gate.reject(Some(&verified), &call, refusal).await),
        };
        let mut passed = gate.pass(verified, call).await?;
        let carried = match offer {
            Some(offer) => socket(&mut request, &mut passed, &offer).await,
            None => self.tunnel(&mut request, &passed).await,
        };
        let answer = match &carried {
            Ok(carried) => {
                let why = carried.why.as_ref();
                passed.end(CallEnding {
                    status,
                    bytes: carried.bytes,
                    why: why.map(|(code, private)| (*code, private.as_str())),
                    ..CallEnding::of(carried.end)
                });
                let mut taken = Response::new(Body::Taken);
                *taken.status_mut() = http::StatusCode::from_u16(status).expect("one of two");
                return Ok(taken);
            }
            Err(refusal) => refusal.clone(),
        };
        passed.end(CallEnding {
            why: Some((answer.code.name, &answer.private)),
            ..CallEnding::of(CallEnd::Failed)
        });
        Err(answer)
    }

    /// A tunnel to the lane's own server, and to no other.
    async fn tunnel(&self, request: &mut Request, passed: &Passed) -> Result<Carried, Refusal> {
        let upstreams = self.out.upstreams();
        let lease = upstreams.dial(passed, self.lane.answer_ms).await?;
        let asked = request.head.uri.authority();
        if asked.map(|authority| authority.as_str().as_bytes()) != Some(lease.host()) {
            let public = "a tunnel leads to the server of this lane alone";
            return Err(Refusal::new(refusal::SERVER_UNKNOWN, public));
        }
        let far = lease.take_over(passed)?;
        let near = request.take_over(passed, Switch::connected()).await?;
        let bounds = TunnelBounds {
            idle_ms: IDLE_MS,
            whole_ms: WHOLE_MS,
            bytes_max: TUNNEL_BYTES_MAX,
        };
        let end = near.join(far, passed, bounds).await;
        Ok(Carried::stopped(end.up + end.down, &end.why))
    }
}

/// Sends each text back as it passes the scan.
async fn socket(
    request: &mut Request,
    passed: &mut Passed,
    offer: &WebSocketOffer,
) -> Result<Carried, Refusal> {
    let bounds = WebSocketBounds {
        idle_ms: IDLE_MS,
        whole_ms: WHOLE_MS,
        message_bytes_max: MESSAGE_BYTES_MAX,
    };
    let mut socket = WebSocket::accept(request, passed, offer, None, bounds).await?;
    let mut bytes = 0;
    loop {
        let text = match socket.next(passed).await {
            Ok(Some(WebSocketMessage::Text(text))) => text,
            Ok(Some(WebSocketMessage::Binary(_))) => {
                socket.close(1003, "only text is sent back").await;
                return Ok(Carried::stopped(bytes, &TunnelStop::Closed));
            }
            Ok(None) => return Ok(Carried::stopped(bytes, &TunnelStop::Closed)),
            Err(end) => return Ok(Carried::broken(bytes, &end)),
        };
        let echo = match scanned(passed, &text) {
            Ok(echo) => echo,
            Err(refusal) => {
                socket.close(1008, refusal.code.name).await;
                let stop = TunnelStop::Ended(refusal);
                return Ok(Carried::stopped(bytes, &stop));
            }
        };
        bytes += echo.len() as u64;
        if let Err(end) = socket.send(passed, WebSocketMessage::Text(echo)).await {
            return Ok(Carried::broken(bytes, &end));
        }
    }
}

/// A text as it may go out.
fn scanned(passed: &mut Passed, text: &str) -> Result<String, Refusal> {
    let (mut channel, mut out) = (Channel::new(Role::Body, "message"), Vec::new());
    channel.push(passed, text.as_bytes(), &mut out)?;
    channel.finish(passed, &mut out)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

impl Carried {
    fn stopped(bytes: u64, stop: &TunnelStop) -> Carried {
        let code = match stop {
            TunnelStop::Closed => None,
            TunnelStop::Ended(refusal) => Some(refusal.code),
            TunnelStop::Drained => Some(refusal::DRAINING),
            TunnelStop::Idle | TunnelStop::Late => Some(refusal::SERVER_SLOW),
            TunnelStop::TooLong => Some(refusal::ANSWER_TOO_LARGE),
            TunnelStop::Broken(_) => Some(refusal::SERVER_DOWN),
        };
        Carried {
            bytes,
            end: match stop {
                TunnelStop::Closed => CallEnd::Complete,
                _ => CallEnd::Cut,
            },
            why: code.map(|code| (code.name, stop.to_string())),
        }
    }

    fn broken(bytes: u64, end: &WebSocketEnd) -> Carried {
        match end {
            WebSocketEnd::Stopped(stop) => Carried::stopped(bytes, stop),
            end => Carried {
                bytes,
                end: CallEnd::Cut,
                why: Some((refusal::BODY_CUT.name, end.to_string())),
            },
        }
    }
}
