//! A run's events over a WebSocket: each message is an event, as it stands in `GET /v1/runs/ID/events`.
//!
//! Nothing is said to it: what comes ends the connection.

use base::record::CallEnd;
use base::{Refusal, refusal};
use gate::{CallEnding, Passed};
use http::StatusCode;
use net::{
    Body, Request, Response, WebSocket, WebSocketBounds, WebSocketEnd, WebSocketMessage,
    WebSocketOffer,
};
use store::runs::LINE_BYTES_MAX;

use super::{RunAsking, RunQuery};
use crate::actions::READ;
use crate::listen::{EventFeed, Heard};

/// How long nothing may come or go, in milliseconds; a listener is pinged before that.
const IDLE_MS: u64 = 60_000;
/// How long a connection lasts, in milliseconds: a day.
const SOCKET_MS_MAX: u64 = 86_400_000;

impl RunAsking<'_> {
    /// Tells the events of a run until it ends or the client goes.
    pub(super) async fn run_socket(
        &self,
        run: &str,
        request: &mut Request,
    ) -> Result<Response, Refusal> {
        let offer = match WebSocketOffer::read(self.head) {
            Ok(offer) => offer,
            Err(refusal) => return Err(self.no(&READ, None, refusal).await),
        };
        let Some(run) = self.shared().book.find(self.owner(), run) else {
            let refusal = self.shared().book.why_not(self.owner(), run);
            return Err(self.no(&READ, None, refusal).await);
        };
        let query = RunQuery::of(self.head.uri.query().unwrap_or_default());
        let after = match self.after(&run, &query) {
            Ok(after) => after,
            Err(refusal) => return Err(self.no(&READ, Some(&run.id), refusal).await),
        };
        let passed = self.pass(&READ, &run.agent, Some(&run.id)).await?;
        let (mut socket, passed) = accept(request, passed, &offer, LINE_BYTES_MAX).await?;
        let mut feed = EventFeed::new(self.shared(), &run, after);
        let mut bytes = 0;
        let ended = tell(&mut socket, &passed, &mut feed, &mut bytes).await;
        end(passed, bytes, ended);
        Ok(taken())
    }
}

async fn tell(
    socket: &mut WebSocket,
    passed: &Passed,
    feed: &mut EventFeed,
    bytes: &mut u64,
) -> Result<CallEnd, WebSocketEnd> {
    loop {
        let heard = tokio::select! {
            heard = feed.next(passed) => heard,
            came = socket.next(passed) => match came? {
                Some(_) => {
                    socket.close(1003, "nothing is said here").await;
                    return Ok(CallEnd::Cut);
                }
                None => return Ok(CallEnd::Cut),
            },
        };
        match heard {
            Heard::Events(events) => {
                for heard in events {
                    *bytes += heard.line.len() as u64;
                    let line = WebSocketMessage::Text(heard.line.to_string());
                    socket.send(passed, line).await?;
                }
            }
            Heard::Silence => socket.ping(passed).await?,
            Heard::Over(end) => {
                let (code, reason) = closing(end);
                socket.close(code, reason).await;
                return Ok(end);
            }
        }
    }
}

/// How a listener is told why there is no more.
pub(super) fn closing(end: CallEnd) -> (u16, &'static str) {
    match end {
        CallEnd::Complete => (1000, "the run has ended"),
        CallEnd::Refused => (1008, "the agent may not listen any more"),
        CallEnd::Cut => (1001, "the gateway is stopping"),
        _ => (1011, "the events cannot be read"),
    }
}

/// Takes the connection over; where that cannot be done the call has failed.
pub(super) async fn accept(
    request: &mut Request,
    passed: Passed,
    offer: &WebSocketOffer,
    message_bytes_max: usize,
) -> Result<(WebSocket, Passed), Refusal> {
    let bounds = WebSocketBounds {
        idle_ms: IDLE_MS,
        whole_ms: SOCKET_MS_MAX,
        message_bytes_max,
    };
    match WebSocket::accept(request, &passed, offer, None, bounds).await {
        Ok(socket) => Ok((socket, passed)),
        Err(refusal) => {
            passed.end(super::failed(&refusal));
            Err(refusal)
        }
    }
}

/// Closes the record of a connection.
pub(super) fn end(passed: Passed, bytes: u64, ended: Result<CallEnd, WebSocketEnd>) {
    let why = ended.as_ref().err().map(WebSocketEnd::to_string);
    let code = match &ended {
        Err(WebSocketEnd::TooLarge) => refusal::BODY_TOO_LARGE,
        Err(WebSocketEnd::NotText | WebSocketEnd::Invalid(_)) => refusal::WEBSOCKET,
        _ => refusal::BODY_CUT,
    };
    passed.end(CallEnding {
        status: StatusCode::SWITCHING_PROTOCOLS.as_u16(),
        bytes,
        why: why.as_deref().map(|why| (code.name, why)),
        ..CallEnding::of(ended.unwrap_or(CallEnd::Cut))
    });
}

/// The answer to a request whose connection was taken over.
pub(super) fn taken() -> Response {
    let mut taken = Response::new(Body::Taken);
    *taken.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    taken
}
