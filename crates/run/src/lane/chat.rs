//! AgentZero's chat: `POST /api/chat` answers with the run's last word, `/ws/chat` with its words as they come. A connection is one
//! thread.

use std::collections::VecDeque;
use std::sync::Arc;

use base::record::CallEnd;
use base::{Name, Refusal, refusal};
use bytes::Bytes;
use gate::{CallEnding, Passed};
use http::header::LOCATION;
use http::{Method, StatusCode};
use net::{Request, Response, WebSocket, WebSocketEnd, WebSocketMessage, WebSocketOffer};
use serde_json::{Value, json};

use super::socket::{accept, closing, end, taken};
use super::{BegunRun, IDEMPOTENCY, RunAsking, failed, location, said};
use crate::actions::{ALL, READ, START};
use crate::body::{StartBody, invalid};
use crate::event::{HeardEvent, RunEvent};
use crate::listen::{EventFeed, Heard};
use crate::live::LiveRun;
use crate::refuse;
use crate::shapes::chat;

/// Messages of one connection that wait for the run before them.
const WAITING_MAX: usize = 16;
/// How long nothing may be said on a connection, in milliseconds.
const QUIET_MS: u64 = 30 * 60_000;
/// How often a client that says nothing is asked whether it is there, in milliseconds.
const PING_MS: u64 = 15_000;

impl RunAsking<'_> {
    /// Starts a run of a message, and answers with what it said last.
    pub(super) async fn chat(&self, request: &mut Request) -> Result<Response, Refusal> {
        if self.head.method != Method::POST {
            let refusal = Refusal::new(refusal::METHOD, "this path is asked by POST");
            return Err(self.no(&START, None, refusal).await);
        }
        let body = self.body(request).await?;
        let settings = &self.shared().settings;
        let begun = self
            .launch(&body, &|body| chat::read(body, settings))
            .await?;
        let BegunRun { run, passed, .. } = begun;
        if let Err(refusal) = self.wait(&run, &passed).await {
            passed.end(failed(&refusal));
            return Err(refusal);
        }
        let end = match self.loaded(&run).await {
            Ok(loaded) => loaded.end,
            Err(refusal) => {
                passed.end(failed(&refusal));
                return Err(refusal);
            }
        };
        let (status, body) = self.answer_of(&run, end.as_ref());
        let mut response = said(passed, status, &body);
        response.headers_mut().insert(LOCATION, location(&run));
        Ok(response)
    }

    /// The answer of AgentZero's gateway, with the run and its thread.
    fn answer_of(&self, run: &LiveRun, end: Option<&RunEvent>) -> (StatusCode, Value) {
        let (code, message) = match end {
            Some(RunEvent::Completed { output, usage }) => {
                let tokens = usage.input_tokens + usage.output_tokens;
                let body = json!({
                    "message": output, "tokens_used_estimate": tokens, "run": &*run.id,
                    "thread": run.thread,
                });
                return (StatusCode::OK, body);
            }
            Some(RunEvent::Failed { code, message, .. }) => (code.as_str(), message.as_str()),
            _ => ("run.cancelled", "the run was cancelled"),
        };
        let body = json!({ "error": {
            "type": "agent_execution_failed", "message": message, "code": code,
            "run": &*run.id, "call": self.id.to_string(),
        } });
        (StatusCode::INTERNAL_SERVER_ERROR, body)
    }

    /// Takes messages one after another until the client goes.
    pub(super) async fn chat_socket(&self, request: &mut Request) -> Result<Response, Refusal> {
        let offer = WebSocketOffer::read(self.head).and_then(|offer| {
            match self.head.headers.contains_key(&IDEMPOTENCY) {
                true => Err(invalid(
                    "a connection has no Idempotency-Key: it is many runs",
                )),
                false => Ok(offer),
            }
        });
        let offer = match offer {
            Ok(offer) => offer,
            Err(refusal) => return Err(self.no(&READ, None, refusal).await),
        };
        let all = Name::new(ALL).expect("all is a name");
        let passed = self.pass(&READ, &all, None).await?;
        let bytes_max = self.shared().settings.body_bytes_max;
        let (socket, passed) = accept(request, passed, &offer, bytes_max).await?;
        let mut chat = ChatSocket {
            asking: self,
            socket,
            passed: &passed,
            waiting: VecDeque::new(),
            thread: None,
            bytes: 0,
        };
        let ended = chat.carry().await;
        let bytes = chat.bytes;
        end(passed, bytes, ended);
        Ok(taken())
    }

    /// The same agent, for another call.
    fn again(&self) -> RunAsking<'_> {
        RunAsking {
            lane: self.lane,
            verified: self.verified.clone(),
            head: self.head,
            peer: self.peer,
            id: (self.shared().settings.new_id)(),
            request: self.request,
            trace: self.trace,
        }
    }
}

struct ChatSocket<'a> {
    asking: &'a RunAsking<'a>,
    socket: WebSocket,
    passed: &'a Passed,
    /// Messages that came while a run was at work.
    waiting: VecDeque<String>,
    /// The thread of the first run, in which the others are.
    thread: Option<String>,
    bytes: u64,
}

impl ChatSocket<'_> {
    async fn carry(&mut self) -> Result<CallEnd, WebSocketEnd> {
        loop {
            let text = match self.waiting.pop_front() {
                Some(text) => text,
                None => match self.next().await? {
                    Some(text) => text,
                    None => return Ok(CallEnd::Complete),
                },
            };
            if let Some(end) = self.turn(text).await? {
                return Ok(end);
            }
        }
    }

    /// The next message; nothing once the client goes or says nothing for long.
    async fn next(&mut self) -> Result<Option<String>, WebSocketEnd> {
        let mut quiet_ms = 0;
        while quiet_ms < QUIET_MS {
            let wait = tokio::time::sleep(std::time::Duration::from_millis(PING_MS));
            tokio::select! {
                came = self.socket.next(self.passed) => match came? {
                    Some(WebSocketMessage::Text(text)) => return Ok(Some(text)),
                    Some(WebSocketMessage::Binary(_)) => self.no_binary().await?,
                    None => return Ok(None),
                },
                () = wait => {
                    quiet_ms += PING_MS;
                    self.socket.ping(self.passed).await?;
                }
            }
        }
        self.socket.close(1000, "nothing was said for long").await;
        Ok(None)
    }

    async fn no_binary(&mut self) -> Result<(), WebSocketEnd> {
        let error = json!({ "type": "error", "message": "messages are texts" });
        self.say(&error).await
    }

    async fn say(&mut self, frame: &Value) -> Result<(), WebSocketEnd> {
        let text = frame.to_string();
        self.bytes += text.len() as u64;
        let text = WebSocketMessage::Text(text);
        self.socket.send(self.passed, text).await
    }

    /// Starts a run of a message, and says its words. What ends the connection is given back.
    async fn turn(&mut self, text: String) -> Result<Option<CallEnd>, WebSocketEnd> {
        let asking = self.asking.again();
        let body = Bytes::from(chat::body_of(text));
        let (settings, thread) = (&asking.shared().settings, self.thread.clone());
        let read = |body: &[u8]| {
            let mut start: StartBody = chat::read(body, settings)?;
            start.thread = start.thread.or_else(|| thread.clone());
            Ok(start)
        };
        let begun = match asking.launch(&body, &read).await {
            Ok(begun) => begun,
            Err(refusal) => {
                let mut error = refuse::error(&refusal, asking.id)["error"].take();
                error["type"] = "error".into();
                self.say(&error).await?;
                return Ok(None);
            }
        };
        let BegunRun { run, passed, .. } = begun;
        self.thread.get_or_insert_with(|| run.thread.clone());
        let before = self.bytes;
        let ended = self.tell(&run, &passed).await;
        let end = *ended.as_ref().unwrap_or(&CallEnd::Cut);
        passed.end(CallEnding {
            status: StatusCode::OK.as_u16(),
            bytes: self.bytes - before,
            ..CallEnding::of(end)
        });
        match ended? {
            CallEnd::Complete => Ok(None),
            end => {
                let (code, reason) = closing(end);
                self.socket.close(code, reason).await;
                Ok(Some(end))
            }
        }
    }

    async fn tell(&mut self, run: &Arc<LiveRun>, passed: &Passed) -> Result<CallEnd, WebSocketEnd> {
        let mut feed = EventFeed::new(self.asking.shared(), run, 0);
        loop {
            let heard = tokio::select! {
                heard = feed.next(passed) => heard,
                came = self.socket.next(self.passed) => {
                    match came? {
                        Some(WebSocketMessage::Text(text)) => self.wait(text).await?,
                        Some(WebSocketMessage::Binary(_)) => self.no_binary().await?,
                        None => return Ok(CallEnd::Cut),
                    }
                    continue;
                }
            };
            match heard {
                Heard::Events(events) => {
                    for event in events {
                        let read = HeardEvent::read(&event.line);
                        if let Some(frame) = read.and_then(|(_, line)| chat::frame(&line.event)) {
                            self.say(&frame).await?;
                        }
                    }
                }
                Heard::Silence => self.socket.ping(self.passed).await?,
                Heard::Over(end) => return Ok(end),
            }
        }
    }

    /// Has a message wait for the run that is at work.
    async fn wait(&mut self, text: String) -> Result<(), WebSocketEnd> {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(text);
            return Ok(());
        }
        let refusal = Refusal::new(
            refusal::RUN_BUSY,
            "too many messages wait on this connection",
        );
        let mut error = refuse::error(&refusal, self.asking.id)["error"].take();
        error["type"] = "error".into();
        self.say(&error).await
    }
}
