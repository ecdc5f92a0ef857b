//! One agent's link to one server, on which what the server says finds the call that it belongs to.
//!
//! A link is a child process, or an event stream of HTTP+SSE: one for each session of the eras that have sessions, and else one for all calls that an
//! agent makes with one key. No two agents ever share a server's state.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

use base::limit::EVENTS_WAITING_MAX;
use base::{Digest, Name, Refusal, refusal};
use bytes::Bytes;
use gate::Passed;
use net::ChildIn;
use tokio::sync::{Mutex as AsyncMutex, watch};

use super::events::EventsIn;
use super::lock;
use super::state::{
    Addressee, Caller, LinkState, MESSAGES_WAITING_MAX, Mailbox, Messages, NotTaken,
};
use crate::waiting::{BadLine, ChildLine, Unasked, gone};

/// Whose calls are on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkScope {
    /// Those of one session: the child remembers what the client said before, and may ask it something.
    Session,
    /// All that the agent makes with one key, of the era in which each says all of itself. The child asks nothing.
    Shared,
}

/// What the client of a call on a shared link takes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SharedCaller {
    pub(crate) takes_events: bool,
    pub(crate) is_listen: bool,
    pub(crate) wants_log: bool,
}

/// One agent's link to one child process.
pub(crate) struct Link {
    pub(crate) id: String,
    pub(crate) agent: Name,
    /// The thumbprint of the key that began it: the session ends when the key is taken back.
    pub(super) thumbprint: Option<Digest>,
    pub(crate) server: Name,
    pub(super) scope: LinkScope,
    /// The child's input; held while a child that ended is started again, so that one call does it.
    pub(crate) input: AsyncMutex<Option<ChildIn<Passed>>>,
    /// The event stream of a server over HTTP+SSE; held while it is opened.
    pub(super) events: AsyncMutex<Option<EventsIn>>,
    /// The client's `initialize`, said again to a child that takes the place of one that ended.
    pub(crate) initialize: OnceLock<Bytes>,
    pub(crate) backoff: Mutex<Restart>,
    /// Whether the session has ended; told when it does.
    pub(crate) over: watch::Sender<bool>,
    state: Mutex<LinkState>,
    used_ms: AtomicU64,
    /// How often its child was started.
    starts: AtomicU64,
    /// Set where it is weir's own, for clients of many servers: its event stream is weir's, and messages of the log are for
    /// calls.
    is_own: OnceLock<()>,
}

/// When a child may be started again.
#[derive(Default)]
pub(crate) struct Restart {
    pub(crate) backoff: net::Backoff,
    pub(crate) not_before_ms: u64,
}

impl Link {
    pub(super) fn new(
        id: String,
        agent: Name,
        thumbprint: Option<Digest>,
        server: Name,
        scope: LinkScope,
        now_ms: u64,
    ) -> Link {
        Link {
            id,
            agent,
            thumbprint,
            server,
            scope,
            input: AsyncMutex::new(None),
            events: AsyncMutex::new(None),
            initialize: OnceLock::new(),
            backoff: Mutex::default(),
            over: watch::Sender::new(false),
            state: Mutex::default(),
            used_ms: AtomicU64::new(now_ms),
            starts: AtomicU64::new(0),
            is_own: OnceLock::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, LinkState> {
        lock(&self.state)
    }

    /// Registers a call before its message is sent: `own` is the id that the child is given, `client` the
    /// one that the client gave.
    pub(crate) fn wait(
        &self,
        own: &str,
        client: &str,
        progress: Option<String>,
        takes_events: bool,
    ) -> Result<Messages, Refusal> {
        let mut state = self.state();
        if self.is_ended() {
            return Err(unknown());
        }
        state.waiting.has_room(client)?;
        let (reader, messages) = Mailbox::new(MESSAGES_WAITING_MAX);
        let caller = Caller {
            own: own.to_owned(),
            reader,
            takes_events,
            is_listen: false,
            wants_log: false,
        };
        state.waiting.begin(own, client, progress, caller);
        Ok(messages)
    }

    /// The same on a shared link, where several clients may use the same id. `listens_max` is the most subscriptions that
    /// may be open on it.
    pub(super) fn wait_shared(
        &self,
        own: &str,
        takes: SharedCaller,
        listens_max: usize,
    ) -> Result<Messages, Refusal> {
        let mut state = self.state();
        if self.is_ended() {
            return Err(gone("its link ended"));
        }
        state.waiting.has_room(own)?;
        if takes.is_listen && state.waiting.count(|caller| caller.is_listen) >= listens_max {
            let public = "this agent has as many subscriptions open with the server as it may have";
            return Err(Refusal::new(refusal::SERVER_BUSY, public));
        }
        let (reader, messages) = Mailbox::new(MESSAGES_WAITING_MAX);
        let caller = Caller {
            own: own.to_owned(),
            reader,
            takes_events: takes.takes_events,
            is_listen: takes.is_listen,
            wants_log: takes.wants_log,
        };
        state.waiting.begin(own, own, None, caller);
        Ok(messages)
    }

    /// Forgets a call that nobody waits for any more: where it was not answered, its answer is dropped.
    pub(crate) fn forget(&self, own: &str) {
        self.state().waiting.give_up(own);
    }

    /// Ends one call under way; where the child answers it all the same, the answer is dropped.
    pub(crate) fn end_call(&self, own: &str, why: Refusal) {
        if let Some(caller) = self.state().waiting.give_up(own) {
            caller.reader.end(why);
        }
    }

    /// The id that the child was given for a request of the client that is under way.
    pub(crate) fn under_way(&self, client: &str) -> Option<String> {
        self.state().waiting.under_way(client)
    }

    /// Registers the session's event stream, and what it missed.
    pub(crate) fn listen(&self) -> Result<(Messages, Vec<Bytes>), Refusal> {
        let mut state = self.state();
        if state.listener().is_some() {
            return Err(Refusal::new(
                refusal::STREAM_OPEN,
                "the session has an event stream",
            ));
        }
        let (reader, messages) = Mailbox::new(EVENTS_WAITING_MAX);
        state.listener = Some(reader);
        Ok((messages, state.unheard.drain(..).collect()))
    }

    /// Gives a line of the child to whom it belongs. Waits while that client takes nothing, so that the child is not read
    /// meanwhile, and for at most [`TAKES_MS_MAX`].
    pub(crate) async fn hear(&self, line: Bytes) -> Result<(), BadLine> {
        let answered = |own: &str| self.state().waiting.answered(own);
        match ChildLine::read(&line, answered)? {
            ChildLine::Answer(caller) => {
                // There is a place for it, unless nobody waits any more.
                let _ = caller.reader.messages.try_send(line);
            }
            ChildLine::Late => {}
            ChildLine::Says(said) if self.scope == LinkScope::Shared => {
                self.tell_one(line, &said).await?;
            }
            ChildLine::Says(said) if said.is_log && self.is_own.get().is_some() => {
                let caller = self.state().log_addressee();
                if let Some(caller) = caller {
                    self.give(line, caller).await;
                }
            }
            ChildLine::Says(said) => self.tell(line, said.progress.as_deref()).await,
        }
        Ok(())
    }

    /// Gives a message that answers no request to the one call that it is of. One that is of none is for nobody.
    async fn tell_one(&self, message: Bytes, said: &Unasked) -> Result<(), BadLine> {
        if said.request.is_some() {
            let why = "it asks something, as no server of its era does";
            return Err(BadLine::NotMcp(why.to_owned()));
        }
        if let Some(own) = &said.cancels {
            let mut state = self.state();
            if state
                .waiting
                .get(own)
                .is_some_and(|caller| caller.is_listen)
            {
                // The end of a subscription: its stream ends, and nothing is wrong.
                state.waiting.give_up(own);
            }
            return Ok(());
        }
        let addressee = self.state().shared_addressee(said);
        let Some(Addressee { call, reader, .. }) = addressee else {
            return Ok(());
        };
        if let (Err(NotTaken::Slow), Some(own)) = (reader.give(message).await, call) {
            self.end_call(&own, unread());
        }
        Ok(())
    }

    /// Whether a call is under way in it.
    pub(crate) fn is_busy(&self) -> bool {
        !self.state().waiting.is_empty()
    }

    /// Whether the client does nothing with it: no call is under way, and no stream is open but weir's.
    pub(super) fn is_unused(&self) -> bool {
        let state = self.state();
        let is_heard = state.listener().is_some() && self.is_own.get().is_none();
        state.waiting.is_empty() && !is_heard
    }

    /// Gives a message that answers no request to its [`Addressee`], or keeps it until there is one. A client that takes
    /// nothing for too long loses its call or its event stream.
    pub(super) async fn tell(&self, message: Bytes, progress: Option<&str>) {
        let addressee = self.state().addressee(progress);
        match addressee {
            Some(addressee) => self.give(message, addressee).await,
            None => self.keep(message),
        }
    }

    async fn give(&self, message: Bytes, addressee: Addressee) {
        let Addressee {
            call,
            is_progress,
            reader,
        } = addressee;
        let Err(why) = reader.give(message.clone()).await else {
            return;
        };
        match (why, call) {
            (NotTaken::Gone, _) => {}
            (NotTaken::Slow, Some(own)) => self.end_call(&own, unread()),
            (NotTaken::Slow, None) => {
                if let Some(listener) = self.state().listener.take() {
                    listener.end(unread());
                }
            }
        }
        if !is_progress {
            self.keep(message);
        }
    }

    /// Keeps a message that nobody hears now.
    fn keep(&self, message: Bytes) {
        if self.state().keep(message) {
            let server = &self.server;
            tracing::warn!(server = %server, max = EVENTS_WAITING_MAX, "nobody hears what the server says: the oldest is dropped");
        }
    }

    /// Ends every call under way, as when the child is gone.
    pub(crate) fn end_calls(&self, why: &Refusal) {
        for (caller, ()) in self.state().waiting.give_up_those(|_| Some(())) {
            caller.reader.end(why.clone());
        }
    }

    pub(crate) fn is_ended(&self) -> bool {
        *self.over.borrow()
    }

    pub(crate) fn used(&self, now_ms: u64) {
        self.used_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Makes it weir's own.
    pub(super) fn own(&self) {
        let _ = self.is_own.set(());
    }

    /// How often its child was started: another number says that another child hears now.
    pub(crate) fn starts(&self) -> u64 {
        self.starts.load(Ordering::Relaxed)
    }

    pub(super) fn started(&self) {
        self.starts.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn used_ms(&self) -> u64 {
        self.used_ms.load(Ordering::Relaxed)
    }

    pub(super) fn idle_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.used_ms())
    }

    pub(super) fn end(&self, why: &Refusal) {
        let mut state = self.state();
        self.over.send_replace(true);
        if let Some(listener) = state.listener.take() {
            // The end of a session ends its stream as well; only what somebody decided is told.
            if why.code != refusal::SERVER_DOWN {
                listener.end(why.clone());
            }
        }
        drop(state);
        self.end_calls(why);
    }
}

/// What a client is told that does not take the messages of its call or its stream.
fn unread() -> Refusal {
    Refusal::new(
        refusal::CLIENT_SLOW,
        "messages of the server were not taken in time",
    )
}

/// What is said of a session that there is not, or not any more.
pub(crate) fn unknown() -> Refusal {
    Refusal::new(refusal::SESSION_UNKNOWN, "there is no such session")
}
