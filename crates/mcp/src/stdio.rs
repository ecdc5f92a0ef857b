//! A client over stdio: one session before one child, with the gate between the two.
//!
//! Source: MCP 2025-11-25, "Transports", section "stdio". What the client writes comes in by a channel of
//! lines and what it is to read goes out by another, so nothing here touches a stream. Each line of the
//! client is a call of its own, judged in the order that they came; each line of the child answers one of
//! these, or belongs to a call of the session's own, which is judged before the child is started. No child
//! is started again: the client that stands before it would have to begin anew as well.

mod lines;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::Ipv4Addr;
use std::process::ExitStatus;
use std::time::Duration;

use base::limit::CHILD_GRACE_MS;
use base::record::CallEnd;
use base::{CallId, Name, Refusal, Resource, Secret, refusal};
use bytes::Bytes;
use gate::{Call, Passed};
use identity::{Presented, Verified};
use net::{ChildIn, ChildOut, LineError, children};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

pub(crate) use lines::Top;
pub use lines::{ClientLine, Lines};

use crate::actions::USE;
use crate::answers::{Answers, AskedMethod};
use crate::calls::own_id;
use crate::drive::{ClientWay, Driven, Refused, To, drive, failed};
use crate::envelope::{Id, Message};
use crate::era::MessageEra;
use crate::incoming::Incoming;
use crate::lane::{McpLane, Server, ServerKind, Shared};
use crate::refuse;
use crate::upstream::Outgoing;
use crate::upstream::child::{one_line, write};
use crate::waiting::{
    BadLine, CANCELLED, ChildLine, Unasked, WaitingCalls, cancelled_by_client, gone, slow,
    too_large,
};

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
            server: known,
            resource: Resource::server(server.clone()),
            authorization: client.authorization,
            new_id: client.new_id,
            out: client.out,
            waiting: RefCell::default(),
            idle: Notify::new(),
            is_modern: Cell::new(false),
        };
        let own = session.own().await?;
        let command = known.command_for(command, own.agent());
        let spawned = children::spawn(&own, &command, self.settings().answer_bytes_max);
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

/// What is kept of a request under way.
struct WaitingRequest {
    answers: Answers,
    /// When the child last said something about it.
    heard: Instant,
}

impl WaitingRequest {
    /// Why it ends before the child answers it, if it does.
    fn is_over(&self, silence: Duration) -> Option<Refusal> {
        let ended = self.answers.passed().in_force().err();
        // A subscription is open for as long as both sides want it.
        let waits = self.answers.asked() != AskedMethod::Listen;
        ended.or_else(|| (waits && self.heard.elapsed() > silence).then(slow))
    }
}

struct Session<'a> {
    lane: &'a McpLane,
    server: &'a Server,
    resource: Resource,
    authorization: Secret,
    new_id: fn() -> CallId,
    out: mpsc::Sender<Bytes>,
    waiting: RefCell<WaitingCalls<WaitingRequest>>,
    /// Told when calls under way may have ended.
    idle: Notify,
    /// A request of the era was sent in which each says all of itself, and servers ask nothing.
    is_modern: Cell<bool>,
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
                () = read => Ok(Some(false)),
                () = &mut stop => Ok(Some(true)),
                // Nobody reads any more: what else the server does for the client is for nobody.
                () = self.out.closed() => Ok(None),
            };
            match leaving {
                Err(ended) => Some(ended),
                Ok(None) => None,
                Ok(Some(leaving)) => tokio::select! {
                    ended = &mut hear => Some(ended),
                    () = self.drained(leaving, stop, drain_ms) => None,
                    () = self.out.closed() => None,
                },
            }
        };
        let over = match over {
            Some(Ok(status)) => Over::Child(status),
            Some(Err(_foreign)) => {
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
        let quietly = async {
            if !leave {
                let grace = Duration::from_millis(CHILD_GRACE_MS);
                let _ = tokio::time::timeout(grace, stop).await;
            }
            while !self.waiting.borrow().is_empty() {
                self.idle.notified().await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_millis(drain_ms), quietly).await;
    }

    /// Answers what is still under way, now that the child is gone.
    fn give_up(&self, over: Over) {
        if self.out.is_closed() {
            // The client went away before its calls ended.
            let those = self.waiting.borrow_mut().give_up_those(|_| Some(()));
            for (kept, ()) in those {
                kept.answers.end(CallEnd::Cut, 0);
            }
            return;
        }
        let why = match over {
            Over::Child(Some(status)) => format!("it ended: {status}"),
            Over::Child(None) => "it ended".to_owned(),
            Over::Client => "the session was ended".to_owned(),
        };
        for error in self.end_those(|_| Some(gone(&why))) {
            // A client that does not read is not waited for at the end.
            let _ = self.out.try_send(error);
        }
    }

    /// Ends the calls under way for which there is a reason; gives what the client is to be told.
    fn end_those(&self, why: impl Fn(&WaitingRequest) -> Option<Refusal>) -> Vec<Bytes> {
        let those = self.waiting.borrow_mut().give_up_those(why).into_iter();
        let errors = those.filter_map(|(kept, refusal)| failed(kept.answers, &refusal));
        errors.collect()
    }

    /// The same, and tells the client.
    async fn tell_those(&self, why: impl Fn(&WaitingRequest) -> Option<Refusal>) {
        for error in self.end_those(why) {
            self.say(Some(error)).await;
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
            let Err(Refused { refusal, to, .. }) = self.line(id, &line, &child).await else {
                continue;
            };
            let (code, public) = (refusal.code.name, &refusal.public);
            tracing::warn!(call = %id, code, "{public}");
            match to {
                To::Client(request) => {
                    let request = request.or_else(|| line.id());
                    let error = refuse::error(&refusal, id, request.as_deref().map(Id));
                    self.say(Some(Bytes::from(error))).await;
                }
                To::Server(request) => {
                    let _ = unsaid.try_send(request);
                }
                To::Nobody => {}
            }
        }
    }

    /// Judges one line and sends it on.
    async fn line(
        &self,
        id: CallId,
        line: &ClientLine,
        child: &ChildIn<Passed>,
    ) -> Result<(), Refused> {
        let Shared { gate, .. } = &*self.lane.shared;
        let mut bare = self.bare(id);
        let verified = gate.verify(&bare, &self.presented()).await;
        let verified = verified.map_err(|refusal| Refused::by_gate(refusal, To::Client(None)))?;
        let line = match line {
            ClientLine::Whole(line) => line,
            ClientLine::TooLong { bytes, .. } => {
                bare.bytes = *bytes;
                let refusal = Refusal::new(refusal::BODY_TOO_LARGE, "the line is too long");
                let refusal = gate.reject(Some(&verified), &bare, refusal).await;
                return Err(Refused::by_gate(refusal, To::Client(None)));
            }
        };
        let driven = drive(&self.lane.shared, self, self.server, verified, bare, line).await?;
        let Driven { answers, to, .. } = driven;
        let Some(outgoing) = driven.outgoing else {
            answers.end(CallEnd::Complete, 0);
            return Ok(());
        };
        match write(child, answers.passed(), &outgoing.message).await {
            Ok(()) => self.sent(answers, outgoing),
            Err(refusal) => return Err(Refused::passed(answers, refusal, to)),
        }
        Ok(())
    }

    /// Notes what the child was sent. It cannot have answered yet: nothing else ran since its line was queued.
    fn sent(&self, answers: Answers, outgoing: Outgoing) {
        let mut waiting = self.waiting.borrow_mut();
        let Some(client) = outgoing.id else {
            answers.end(CallEnd::Complete, 0);
            let cancelled = outgoing.cancelled.as_ref();
            let cancelled = cancelled.and_then(|cancelled| waiting.give_up(&cancelled.own));
            if let Some(cancelled) = cancelled {
                // Its client waits for no answer any more, so none is said.
                failed(cancelled.answers, &cancelled_by_client());
            }
            return;
        };
        if answers.is_modern() {
            self.is_modern.set(true);
        }
        let own = own_id(answers.call());
        let heard = Instant::now();
        let kept = WaitingRequest { answers, heard };
        waiting.begin(&own, &client, outgoing.progress, kept);
    }
}

impl ClientWay for Session<'_> {
    type Way = ();

    fn era(&self, message: &Message<'_>) -> Result<MessageEra, Refusal> {
        MessageEra::read(None, message)
    }

    fn begin(&self, _: &Verified, said: &Incoming<'_>) -> Result<(), Refusal> {
        let has_room = |id: Id<'_>| self.waiting.borrow().has_room(id.0);
        said.id.map_or(Ok(()), has_room)
    }

    fn under_way(&self, (): &(), _: &Passed, client: &str) -> Option<String> {
        self.waiting.borrow().under_way(client)
    }
}

/// What the child says.
impl Session<'_> {
    /// Passes on what the child says until it ends, or has to be ended; gives how.
    async fn hear(
        &self,
        out: &mut ChildOut,
        own: &mut Answers,
        child: ChildIn<Passed>,
        mut unsaid: mpsc::Receiver<String>,
    ) -> Result<Option<ExitStatus>, BadLine> {
        // Dropped when the client has no more to say, so that the child sees the end of its input.
        let mut child = Some(child);
        let mut garbage = 0;
        let silence = Duration::from_millis(self.lane.settings().answer_ms);
        let mut tick = tokio::time::interval(Duration::from_millis(TICK_MS));
        loop {
            tokio::select! {
                line = out.next() => match line {
                    Some(Ok(line)) => match self.heard(&line, own, child.as_ref()).await {
                        Ok(()) => {}
                        Err(BadLine::NotMcp(_)) => {
                            garbage += 1;
                            if garbage <= GARBAGE_TOLD_MAX {
                                tracing::warn!("the server printed what is not MCP; it is left out");
                            }
                        }
                        Err(foreign) => return Err(foreign),
                    },
                    Some(Err(LineError::TooLong)) => self.tell_those(|_| Some(too_large())).await,
                    Some(Err(LineError::Exited(status))) => return Ok(status),
                    None => return Ok(None),
                },
                id = unsaid.recv(), if child.is_some() => match (id, &child) {
                    (Some(id), Some(child)) => refuse_child(&id, own, child).await,
                    _ => child = None,
                },
                _ = tick.tick() => self.tell_those(|kept| kept.is_over(silence)).await,
            }
            self.idle.notify_one();
        }
    }

    /// Passes on one line.
    async fn heard(
        &self,
        line: &Bytes,
        own: &mut Answers,
        child: Option<&ChildIn<Passed>>,
    ) -> Result<(), BadLine> {
        let declared = &self.lane.shared.declared;
        let answered = |own: &str| self.waiting.borrow_mut().answered(own);
        let judged = match ChildLine::read(line, answered)? {
            ChildLine::Answer(WaitingRequest { mut answers, .. }) => {
                let judged = answers.take(declared, line);
                answers.end(CallEnd::Complete, 0);
                judged
            }
            ChildLine::Late => None,
            ChildLine::Says(Unasked {
                request: Some(id), ..
            }) => {
                let judged = match self.is_modern.get() {
                    true => None,
                    false => own.take(declared, line),
                };
                if let (None, Some(child)) = (&judged, child) {
                    tracing::warn!("a request of the server was refused");
                    refuse_child(&id, own, child).await;
                }
                judged
            }
            ChildLine::Says(said) => {
                let judged = match self.is_modern.get() {
                    true => self.subscription(&said, line),
                    false => None,
                };
                let judged = judged.or_else(|| self.progress(said.progress.as_deref(), line));
                judged.unwrap_or_else(|| own.take(declared, line))
            }
        };
        self.say(judged).await;
        Ok(())
    }

    /// The message as it may pass, judged with the subscription that it is of, or that it ends; nothing where it is of none.
    fn subscription(&self, said: &Unasked, line: &Bytes) -> Option<Option<Bytes>> {
        let mut waiting = self.waiting.borrow_mut();
        let is_listen = |call: &WaitingRequest| call.answers.asked() == AskedMethod::Listen;
        if let Some(own) = &said.subscription {
            let call = waiting.get(own).filter(|call| is_listen(call));
            return Some(call.and_then(|call| call.answers.take(&self.lane.shared.declared, line)));
        }
        let own = said.cancels.as_ref()?;
        waiting.get(own).filter(|call| is_listen(call))?;
        let client = waiting.client(own)?.to_owned();
        let ended = waiting.give_up(own)?;
        ended.answers.end(CallEnd::Complete, 0);
        let cancelled = format!(
            r#"{{"jsonrpc":"2.0","method":"{CANCELLED}","params":{{"requestId":{client}}}}}"#
        );
        Some(Some(Bytes::from(cancelled)))
    }

    /// The message as it may pass, judged with the call whose progress it tells; nothing where there is none.
    fn progress(&self, token: Option<&str>, line: &Bytes) -> Option<Option<Bytes>> {
        let mut waiting = self.waiting.borrow_mut();
        let call = waiting.find(|of, _| token.is_some() && of == token)?;
        call.heard = Instant::now();
        Some(call.answers.take(&self.lane.shared.declared, line))
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
