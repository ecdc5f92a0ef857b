//! A client over stdio: one session before one child, with the gate between the two.
//!
//! Source: MCP 2025-11-25, "Transports", section "stdio". What the client writes comes in by a channel of
//! lines and what it is to read goes out by another, so nothing here touches a stream. Each line of the
//! client is a call of its own, judged in the order that they came; each line of the child answers one of
//! these, or belongs to a call of the session's own, which is judged before the child is started. No child
//! is started again: the client that stands before it would have to begin anew as well.

mod lines;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::net::Ipv4Addr;
use std::process::ExitStatus;
use std::time::Duration;

use base::limit::{CHILD_GRACE_MS, GIVEN_UP_MAX, SESSION_CALLS_MAX};
use base::record::CallEnd;
use base::{CallId, JsonValue, Name, Refusal, Resource, Secret, refusal};
use bytes::Bytes;
use gate::{Call, Passed};
use identity::Presented;
use net::{ChildIn, ChildOut, LineError, children};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

pub use lines::{ClientLine, Lines};

use crate::actions::USE;
use crate::answers::{Answers, AskedMethod};
use crate::calls::own_id;
use crate::envelope::{Id, Message, MessageText, Params, Sender};
use crate::incoming::{self, Incoming};
use crate::lane::{McpLane, ServerKind};
use crate::outbound::child::one_line;
use crate::refuse;
use lines::Top;

/// The method of the session's own call, under which the child is started and what it says unasked is judged.
const OWN_METHOD: &str = "stdio";
/// How often calls that wait too long are looked for, in milliseconds.
const TICK_MS: u64 = 1_000;
/// Lines of a child that are not MCP of which each is told; after these, none is.
const GARBAGE_TOLD_MAX: usize = 16;
/// Answers of the client that may not pass and wait for an error to be said in their place.
const UNSAID_MAX: usize = 16;

/// Who is at the other end.
pub struct Client {
    /// What it writes. Closed when it has no more to say.
    pub lines: mpsc::Receiver<ClientLine>,
    /// What it reads: messages without line breaks.
    pub out: mpsc::Sender<Bytes>,
    /// Its key, as an `Authorization` field.
    pub authorization: Secret,
    /// Gives each call its id.
    pub new_id: fn() -> CallId,
    /// How long calls under way may take once it is time to stop, in milliseconds.
    pub drain_ms: u64,
}

/// Why a session was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The child ended by itself; how, where that is known.
    Child(Option<ExitStatus>),
    /// The client or the operator ended it.
    Client,
}

impl McpLane {
    /// Serves one client over stdio until it has no more to say, `stop` is done, or the child ends.
    ///
    /// Must be called inside a `LocalSet`. The error is why there was no session: the server is not a child,
    /// its start was refused, or it cannot be started.
    pub async fn stdio(
        &self,
        server: &Name,
        client: Client,
        stop: impl Future<Output = ()>,
    ) -> Result<Over, Refusal> {
        let unknown = || Refusal::new(refusal::SERVER_UNKNOWN, "no child has that name");
        let known = self.settings().servers.get(server).ok_or_else(unknown)?;
        let ServerKind::Child(command) = &known.kind else {
            return Err(unknown());
        };
        let Client { lines, .. } = client;
        let session = Session {
            lane: self,
            server,
            resource: Resource::server(server.clone()),
            authorization: client.authorization,
            new_id: client.new_id,
            out: client.out,
            waiting: RefCell::default(),
            given_up: RefCell::default(),
            idle: Notify::new(),
        };
        let own = session.own().await?;
        let spawned = children::spawn(&own, command, self.settings().answer_bytes_max);
        let (child, out) = spawned.map_err(|error| {
            let why = format!("the server cannot be started: {error}");
            Refusal::new(refusal::SERVER_DOWN, why)
        })?;
        let own = Answers::new(own, AskedMethod::Other, None);
        Ok(session
            .serve(lines, child, out, own, stop, client.drain_ms)
            .await)
    }
}

/// A request under way.
struct WaitingRequest {
    answers: Answers,
    /// The client's id as it was written.
    client: String,
    progress: Option<String>,
    /// When the child last said something about it.
    heard: Instant,
}

struct Session<'a> {
    lane: &'a McpLane,
    server: &'a Name,
    resource: Resource,
    authorization: Secret,
    new_id: fn() -> CallId,
    out: mpsc::Sender<Bytes>,
    /// By the id that the child was given.
    waiting: RefCell<HashMap<String, WaitingRequest>>,
    /// Ids of calls that nobody waits for any more, of the last [`GIVEN_UP_MAX`].
    given_up: RefCell<VecDeque<String>>,
    /// Told when no call is under way any more.
    idle: Notify,
}

impl Session<'_> {
    /// The session's own call, judged like any other.
    async fn own(&self) -> Result<Passed, Refusal> {
        let call = self.bare((self.new_id)());
        let gate = &self.lane.shared.gate;
        let verified = gate.verify(&call, &self.presented()).await?;
        gate.pass(verified, call).await
    }

    /// A call of which only the server is known.
    fn bare(&self, id: CallId) -> Call<'_> {
        let peer = Ipv4Addr::LOCALHOST.into();
        Call::new(id, peer, &USE, &self.resource, OWN_METHOD)
    }

    fn presented(&self) -> Presented<'_> {
        let authorization = Some(self.authorization.expose());
        Presented::bearer(authorization, Ipv4Addr::LOCALHOST.into())
    }

    async fn serve(
        self,
        lines: mpsc::Receiver<ClientLine>,
        child: ChildIn<Passed>,
        mut out: ChildOut,
        mut own: Answers,
        stop: impl Future<Output = ()>,
        drain_ms: u64,
    ) -> Over {
        let (unsaid, to_say) = mpsc::channel(UNSAID_MAX);
        let over = {
            let hear = self.hear(&mut out, &mut own, child.clone(), to_say);
            let read = self.read(lines, child, unsaid);
            let mut stop = std::pin::pin!(stop);
            let mut hear = std::pin::pin!(hear);
            // `read` owns the child's input; done or dropped, it closes it.
            let leaving = tokio::select! {
                ended = &mut hear => Err(ended),
                () = read => Ok(false),
                () = &mut stop => Ok(true),
            };
            match leaving {
                Err(ended) => Some(ended),
                Ok(leaving) => tokio::select! {
                    ended = &mut hear => Some(ended),
                    () = self.drained(leaving, stop, drain_ms) => None,
                },
            }
        };
        let over = match over {
            Some(Ended::Exited(status)) => Over::Child(status),
            Some(Ended::Foreign) => {
                tracing::error!("the server answered what it was not asked; it is ended");
                Over::Child(out.end().await)
            }
            None => {
                out.end().await;
                Over::Client
            }
        };
        self.give_up(over);
        own.end(CallEnd::Complete, 0);
        over
    }

    /// Waits until the child may be ended: no call is under way, and unless somebody asked to `leave`, it had
    /// its time to end by itself.
    async fn drained(&self, leave: bool, stop: impl Future<Output = ()>, drain_ms: u64) {
        let idle = async {
            while !self.waiting.borrow().is_empty() {
                self.idle.notified().await;
            }
        };
        let quietly = async {
            if !leave {
                let grace = tokio::time::sleep(Duration::from_millis(CHILD_GRACE_MS));
                tokio::select! {
                    () = grace => {}
                    () = stop => {}
                }
            }
            idle.await;
        };
        let _ = tokio::time::timeout(Duration::from_millis(drain_ms), quietly).await;
    }

    /// Answers what is still under way, now that the child is gone.
    fn give_up(&self, over: Over) {
        let why = match over {
            Over::Child(Some(status)) => format!("it ended: {status}"),
            Over::Child(None) => "it ended".to_owned(),
            Over::Client => "the session was ended".to_owned(),
        };
        for (_, WaitingRequest { mut answers, .. }) in self.waiting.borrow_mut().drain() {
            let refusal = Refusal::new(refusal::SERVER_DOWN, "the server stopped");
            let error = answers.error(&refusal.with_private(why.clone()));
            answers.end(CallEnd::Failed, 0);
            // A client that does not read is not waited for at the end.
            let _ = error.map(|error| self.out.try_send(error));
        }
    }

    /// Gives the client a message. One that has gone away hears nothing; its end comes with its lines.
    async fn say(&self, message: Option<Bytes>) {
        if let Some(message) = message {
            let _ = self.out.send(one_line(&message)).await;
        }
    }
}

/// What the client says.
impl Session<'_> {
    async fn read(
        &self,
        mut lines: mpsc::Receiver<ClientLine>,
        child: ChildIn<Passed>,
        unsaid: mpsc::Sender<String>,
    ) {
        while let Some(line) = lines.recv().await {
            let id = (self.new_id)();
            let refused = match line {
                ClientLine::Whole(line) => self.line(id, &line, &child).await,
                ClientLine::TooLong { bytes, id: request } => {
                    self.too_long(id, bytes, request).await
                }
            };
            if let Err(Refused { refusal, to }) = refused {
                let (code, public) = (refusal.code.name, &refusal.public);
                tracing::warn!(call = %id, code, "{public}");
                match to {
                    To::Client(request) => {
                        let request = request.as_deref().map(Id);
                        let error = refuse::error(&refusal, id, request);
                        self.say(Some(Bytes::from(error))).await;
                    }
                    To::Child(request) => {
                        let _ = unsaid.try_send(request);
                    }
                    To::Nobody => {}
                }
            }
        }
    }

    async fn too_long(
        &self,
        id: CallId,
        bytes: u64,
        request: Option<String>,
    ) -> Result<(), Refused> {
        let call = Call {
            bytes,
            ..self.bare(id)
        };
        let gate = &self.lane.shared.gate;
        let refusal = match gate.verify(&call, &self.presented()).await {
            Ok(verified) => {
                let refusal = Refusal::new(refusal::BODY_TOO_LARGE, "the line is too long");
                gate.reject(Some(&verified), &call, refusal).await
            }
            Err(refusal) => refusal,
        };
        Err(refusal.to(To::Client(request)))
    }

    /// Judges one line and sends it on.
    async fn line(&self, id: CallId, line: &Bytes, child: &ChildIn<Passed>) -> Result<(), Refused> {
        let gate = &self.lane.shared.gate;
        let bare = self.bare(id);
        let asked = || To::Client(Top::of(line).id(true).map(str::to_owned));
        let verified = gate.verify(&bare, &self.presented()).await;
        let verified = verified.map_err(|refusal| refusal.to(asked()))?;
        let text = MessageText::of(line);
        let parsed = match incoming::parse(&text) {
            Ok(parsed) => parsed,
            Err(refusal) => {
                let refusal = gate.reject(Some(&verified), &bare, refusal);
                return Err(refusal.await.to(asked()));
            }
        };
        let to = || To::sender_of(&parsed.message);
        let declared = &self.lane.shared.declared;
        let said = match Incoming::read(&parsed, self.server, declared) {
            Ok(said) => said,
            Err(refusal) => {
                let refusal = gate.reject(Some(&verified), &bare, refusal);
                return Err(refusal.await.to(to()));
            }
        };
        let resource = said.resource(self.server);
        let call = said.call(bare, &resource, line);
        if let Err(refusal) = self.has_room(said.id) {
            let refusal = gate.reject(Some(&verified), &call, refusal);
            return Err(refusal.await.to(to()));
        }
        let passed = gate.pass(verified, call).await;
        let passed = passed.map_err(|refusal| refusal.to(to()))?;
        let cancelled = said.cancels().map(|id| self.under_way(id));
        if matches!(cancelled, Some(None)) {
            // The request was answered, or never made: the child has nothing to cancel.
            said.answers(passed).end(CallEnd::Complete, 0);
            return Ok(());
        }
        let cancelled = cancelled.flatten();
        let message = said.message(&passed, line, cancelled.as_deref());
        let answers = said.answers(passed);
        self.send(&said, message, answers, child)
            .await
            .map_err(|refusal| refusal.to(to()))
    }

    /// Whether a request with this id may begin.
    fn has_room(&self, id: Option<Id<'_>>) -> Result<(), Refusal> {
        let waiting = self.waiting.borrow();
        match id {
            Some(id) if waiting.values().any(|call| call.client == id.0) => Err(Refusal::new(
                refusal::ID_IN_USE,
                "a call with this id is under way",
            )),
            Some(_) if waiting.len() >= SESSION_CALLS_MAX => Err(Refusal::new(
                refusal::SESSION_BUSY,
                "too many calls are under way",
            )),
            _ => Ok(()),
        }
    }

    async fn send(
        &self,
        said: &Incoming<'_>,
        message: Result<Bytes, Refusal>,
        mut answers: Answers,
        child: &ChildIn<Passed>,
    ) -> Result<(), Refusal> {
        let sent = match message {
            Ok(message) => {
                let sent = child.send(answers.passed(), one_line(&message)).await;
                sent.map_err(|error| {
                    Refusal::new(refusal::SERVER_DOWN, "the server does not take messages")
                        .with_private(error.to_string())
                })
            }
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = sent {
            answers.error(&refusal);
            answers.end(CallEnd::Failed, 0);
            return Err(refusal);
        }
        // The child cannot have answered yet: nothing else ran since its line was queued.
        match said.id {
            Some(id) => {
                let own = own_id(answers.call());
                let waiting = WaitingRequest {
                    answers,
                    client: id.0.to_owned(),
                    progress: said.progress(),
                    heard: Instant::now(),
                };
                self.waiting.borrow_mut().insert(own, waiting);
            }
            None => {
                answers.end(CallEnd::Complete, 0);
                self.forget_cancelled(said);
            }
        }
        Ok(())
    }

    /// A request that the client cancelled is not answered any more.
    fn forget_cancelled(&self, said: &Incoming<'_>) {
        if let Some(own) = said.cancels().and_then(|id| self.under_way(id))
            && let Some(waiting) = self.give_up_on(&own)
        {
            waiting.answers.end(CallEnd::Cut, 0);
        }
    }

    /// The id that the child was given for a request of the client that is under way.
    fn under_way(&self, client: &str) -> Option<String> {
        let waiting = self.waiting.borrow();
        let mut calls = waiting.iter();
        calls
            .find(|(_, call)| call.client == client)
            .map(|(own, _)| own.clone())
    }

    /// Takes a call that is not waited for any more: its answer is dropped when it comes.
    fn give_up_on(&self, own: &str) -> Option<WaitingRequest> {
        let removed = self.remove(own)?;
        let mut given_up = self.given_up.borrow_mut();
        if given_up.len() >= GIVEN_UP_MAX {
            given_up.pop_front();
        }
        given_up.push_back(own.to_owned());
        Some(removed)
    }

    fn remove(&self, own: &str) -> Option<WaitingRequest> {
        let mut waiting = self.waiting.borrow_mut();
        let removed = waiting.remove(own);
        if waiting.is_empty() {
            self.idle.notify_one();
        }
        removed
    }
}

/// What a line of the child is.
enum Heard {
    Mcp,
    NotMcp,
    /// An answer to a request that was not made, or is answered.
    Foreign,
}

/// Why the child is heard no more.
enum Ended {
    Exited(Option<ExitStatus>),
    Foreign,
}

/// A line of the client that did not go on, and who is told.
struct Refused {
    refusal: Refusal,
    to: To,
}

enum To {
    /// The request's id, where it has one that can be told.
    Client(Option<String>),
    /// The line answered this request of the child, which waits for it.
    Child(String),
    /// A notification: nobody waits.
    Nobody,
}

impl To {
    fn sender_of(message: &Message<'_>) -> To {
        match message {
            Message::Request { id, .. } => To::Client(Some(id.0.to_owned())),
            Message::Response { id: Some(id), .. } => To::Child(id.0.to_owned()),
            Message::Response { id: None, .. } => To::Nobody,
            Message::Notification { .. } => To::Nobody,
        }
    }
}

trait ToWhom {
    fn to(self, to: To) -> Refused;
}

impl ToWhom for Refusal {
    fn to(self, to: To) -> Refused {
        Refused { refusal: self, to }
    }
}

/// What the child says.
impl Session<'_> {
    /// Passes on what the child says until it ends, or has to; gives how.
    async fn hear(
        &self,
        out: &mut ChildOut,
        own: &mut Answers,
        child: ChildIn<Passed>,
        mut unsaid: mpsc::Receiver<String>,
    ) -> Ended {
        // Dropped when the client has no more to say, so that the child sees the end of its input.
        let mut child = Some(child);
        let mut garbage = 0;
        let mut tick = tokio::time::interval(Duration::from_millis(TICK_MS));
        loop {
            tokio::select! {
                line = out.next() => match line {
                    Some(Ok(line)) => match self.heard(&line, own, child.as_ref()).await {
                        Heard::Mcp => {}
                        Heard::NotMcp => {
                            garbage += 1;
                            if garbage <= GARBAGE_TOLD_MAX {
                                tracing::warn!("the server printed what is not MCP; it is left out");
                            }
                        }
                        Heard::Foreign => return Ended::Foreign,
                    },
                    Some(Err(LineError::TooLong)) => self.answer_is_too_large().await,
                    Some(Err(LineError::Exited(status))) => return Ended::Exited(status),
                    None => return Ended::Exited(None),
                },
                id = unsaid.recv(), if child.is_some() => match (id, &child) {
                    (Some(id), Some(child)) => refuse_child(&id, own, child).await,
                    _ => child = None,
                },
                _ = tick.tick() => self.end_the_slow().await,
            }
        }
    }

    /// Passes on one line.
    async fn heard(
        &self,
        line: &Bytes,
        own: &mut Answers,
        child: Option<&ChildIn<Passed>>,
    ) -> Heard {
        let text = MessageText::of(line);
        let message = match text.read(Sender::Server) {
            Ok(message) => message,
            // Answers in a form that is none still end their call, with an error.
            Err(_) => match Top::of(line).id(false).and_then(|id| self.remove(id)) {
                Some(waiting) => return self.answer(waiting, line).await,
                None => return Heard::NotMcp,
            },
        };
        match message {
            Message::Response { id: None, .. } => return Heard::NotMcp,
            Message::Response { id: Some(id), .. } => match self.remove(id.0) {
                Some(waiting) => return self.answer(waiting, line).await,
                None if self.is_late(id.0) => {}
                None => return Heard::Foreign,
            },
            Message::Notification { params, .. } => {
                let token = Params::read(params).ok().and_then(|p| p.progress_token);
                let judged = self.progress(token.map(JsonValue::text), line);
                let judged = judged.unwrap_or_else(|| own.take(&self.lane.shared.declared, line));
                self.say(judged).await;
            }
            Message::Request { id, .. } => {
                let judged = own.take(&self.lane.shared.declared, line);
                if let (None, Some(child)) = (&judged, child) {
                    tracing::warn!("a request of the server was refused");
                    refuse_child(id.0, own, child).await;
                }
                self.say(judged).await;
            }
        }
        Heard::Mcp
    }

    async fn answer(&self, waiting: WaitingRequest, line: &Bytes) -> Heard {
        let mut answers = waiting.answers;
        let judged = answers.take(&self.lane.shared.declared, line);
        answers.end(CallEnd::Complete, 0);
        self.say(judged).await;
        Heard::Mcp
    }

    /// Whether this is the answer to a call that was given up, which is dropped once.
    fn is_late(&self, own: &str) -> bool {
        let mut given_up = self.given_up.borrow_mut();
        let at = given_up.iter().position(|id| id == own);
        at.and_then(|at| given_up.remove(at)).is_some()
    }

    /// The message as it may pass, judged with the call whose progress it tells; nothing where there is none.
    fn progress(&self, token: Option<&str>, line: &Bytes) -> Option<Option<Bytes>> {
        let mut waiting = self.waiting.borrow_mut();
        let call = waiting
            .values_mut()
            .find(|waiting| token.is_some() && waiting.progress.as_deref() == token)?;
        call.heard = Instant::now();
        Some(call.answers.take(&self.lane.shared.declared, line))
    }

    /// A line over the bound was skipped. It may have answered any of the calls under way.
    async fn answer_is_too_large(&self) {
        let refusal = Refusal::new(
            refusal::ANSWER_TOO_LARGE,
            "the server's answer is too large",
        );
        self.end_those(&refusal, |_| true).await;
    }

    async fn end_the_slow(&self) {
        let silence = Duration::from_millis(self.lane.settings().answer_ms);
        let refusal = Refusal::new(refusal::SERVER_SLOW, "the server did not answer in time");
        self.end_those(&refusal, |waiting| waiting.heard.elapsed() > silence)
            .await;
    }

    async fn end_those(&self, refusal: &Refusal, which: impl Fn(&WaitingRequest) -> bool) {
        let ids: Vec<String> = {
            let waiting = self.waiting.borrow();
            let those = waiting.iter().filter(|(_, waiting)| which(waiting));
            those.map(|(id, _)| id.clone()).collect()
        };
        for waiting in ids.iter().filter_map(|id| self.give_up_on(id)) {
            let mut answers = waiting.answers;
            let error = answers.error(refusal);
            answers.end(CallEnd::Failed, 0);
            self.say(error).await;
        }
    }
}

/// Tells the child that its request is not answered: what stood in the answer, or in the request, may not pass.
async fn refuse_child(id: &str, own: &Answers, child: &ChildIn<Passed>) {
    let error = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{},"message":"refused by weir"}}}}"#,
        base::refusal::RPC_REFUSED
    );
    if let Err(error) = child.send(own.passed(), Bytes::from(error)).await {
        tracing::warn!("the server was not told: {error}");
    }
}
