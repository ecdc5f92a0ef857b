//! Sessions that weir keeps, one child process for each, so that no two agents ever share a server's state.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use aws_lc_rs::rand;
use base::limit::{CLIENT_TAKES_MS_MAX, EVENTS_WAITING_MAX, SESSION_EVICT_MS};
use base::{Digest, Name, Refusal, refusal};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use gate::Passed;
use net::ChildIn;
use tokio::sync::{Mutex as AsyncMutex, mpsc, watch};

use crate::lane::Server;
use crate::waiting::{BadLine, ChildLine, WaitingCalls, gone};

/// How long the stream of a server that answers no request may be silent, in milliseconds.
pub(crate) const LISTEN_SILENCE_MS: u64 = 3_600_000;
/// When a client that found no session left may try again, in milliseconds.
const SESSION_RETRY_MS: u64 = 10_000;
/// Messages for one call that its stream has not taken yet.
const MESSAGES_WAITING_MAX: usize = 64;

/// What a child says, on its way to whoever waits for it, or why it says nothing more.
pub(crate) type ChildAnswer = Result<Bytes, Refusal>;

/// How long a child is not read because a client does not take what was read. A unit test does not wait as long.
const TAKES_MS_MAX: u64 = if cfg!(test) { 200 } else { CLIENT_TAKES_MS_MAX };

/// Gives the messages of a child to one call, or to the event stream of its session.
#[derive(Clone)]
struct Reader {
    messages: mpsc::Sender<Bytes>,
    /// Why no more come, where that has to be told.
    why: Arc<OnceLock<Refusal>>,
}

/// What a [`Reader`] was given, to be read.
pub(crate) struct Messages {
    messages: mpsc::Receiver<Bytes>,
    why: Arc<OnceLock<Refusal>>,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotTaken {
    Gone,
    Slow,
}

impl Reader {
    fn new(places: usize) -> (Reader, Messages) {
        let (sender, receiver) = mpsc::channel(places);
        let why: Arc<OnceLock<Refusal>> = Arc::default();
        let reader = Reader {
            messages: sender,
            why: Arc::clone(&why),
        };
        let messages = receiver;
        (reader, Messages { messages, why })
    }

    /// Gives a message that is no answer, once the client has made room for it. The last place stays the answer's, so
    /// that the answer never waits.
    async fn give(&self, message: Bytes) -> Result<(), NotTaken> {
        let wait = Duration::from_millis(TAKES_MS_MAX);
        match tokio::time::timeout(wait, self.messages.reserve_many(2)).await {
            Ok(Ok(mut places)) => {
                let place = places.next().expect("two places were reserved");
                place.send(message);
                Ok(())
            }
            Ok(Err(_closed)) => Err(NotTaken::Gone),
            Err(_elapsed) => Err(NotTaken::Slow),
        }
    }

    /// No more messages come; this is told after those that wait.
    fn end(self, why: Refusal) {
        let _ = self.why.set(why);
    }
}

impl Messages {
    /// The next message, or why no more come; nothing where that has no reason.
    pub(crate) async fn next(&mut self) -> Option<ChildAnswer> {
        match self.messages.recv().await {
            Some(message) => Some(Ok(message)),
            None => self.why.get().cloned().map(Err),
        }
    }
}

/// A call that waits for its answer.
struct Caller {
    /// The id that the child was given.
    own: String,
    reader: Reader,
    takes_events: bool,
}

/// To whom a message goes that answers nothing.
struct Addressee {
    /// The call by its own id; absent for the event stream.
    call: Option<String>,
    /// It is the call's own progress, and of use to nobody else.
    is_progress: bool,
    reader: Reader,
}

/// One agent's session with one child process.
pub(crate) struct ChildSession {
    pub(crate) id: String,
    pub(crate) agent: Name,
    /// The thumbprint of the key that began it: the session ends when the key is taken back.
    thumbprint: Option<Digest>,
    pub(crate) server: Name,
    /// The child's input; held while a child that ended is started again, so that one call does it.
    pub(crate) input: AsyncMutex<Option<ChildIn<Passed>>>,
    /// The client's `initialize`, said again to a child that takes the place of one that ended.
    pub(crate) initialize: OnceLock<Bytes>,
    pub(crate) backoff: Mutex<Restart>,
    /// Whether the session has ended; told when it does.
    pub(crate) over: watch::Sender<bool>,
    state: Mutex<SessionState>,
    used_ms: AtomicU64,
}

/// When a child may be started again.
#[derive(Default)]
pub(crate) struct Restart {
    pub(crate) backoff: net::Backoff,
    pub(crate) not_before_ms: u64,
}

#[derive(Default)]
struct SessionState {
    waiting: WaitingCalls<Caller>,
    listener: Option<Reader>,
    /// What came while nobody listened; the oldest is dropped at the bound.
    unheard: VecDeque<Bytes>,
    /// One was dropped, and that was told.
    lost: bool,
}

/// Takes a lock, also where whoever had it panicked.
pub(crate) fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SessionState {
    fn listener(&self) -> Option<&Reader> {
        self.listener
            .as_ref()
            .filter(|listener| !listener.messages.is_closed())
    }

    /// To whom a message goes that answers nothing: the call whose progress it tells, else the event stream, else any
    /// call that takes events.
    fn addressee(&mut self, progress: Option<&str>) -> Option<Addressee> {
        let to = |caller: &mut Caller, is_progress| Addressee {
            call: Some(caller.own.clone()),
            is_progress,
            reader: caller.reader.clone(),
        };
        let told = |token: Option<&str>, caller: &Caller| {
            progress.is_some() && token == progress && caller.takes_events
        };
        if let Some(caller) = self.waiting.find(told) {
            return Some(to(caller, true));
        }
        if let Some(listener) = self.listener() {
            return Some(Addressee {
                call: None,
                is_progress: false,
                reader: listener.clone(),
            });
        }
        let caller = self.waiting.find(|_, caller| caller.takes_events);
        caller.map(|caller| to(caller, false))
    }

    /// Keeps a message until somebody listens. Says whether the first one was dropped for it.
    fn keep(&mut self, message: Bytes) -> bool {
        let is_full = self.unheard.len() >= EVENTS_WAITING_MAX;
        if is_full {
            self.unheard.pop_front();
        }
        self.unheard.push_back(message);
        is_full && !std::mem::replace(&mut self.lost, true)
    }
}

impl ChildSession {
    fn state(&self) -> MutexGuard<'_, SessionState> {
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
        let (reader, messages) = Reader::new(MESSAGES_WAITING_MAX);
        let caller = Caller {
            own: own.to_owned(),
            reader,
            takes_events,
        };
        state.waiting.begin(own, client, progress, caller);
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
        let (reader, messages) = Reader::new(EVENTS_WAITING_MAX);
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
            ChildLine::Says(_, progress) => self.tell(line, progress.as_deref()).await,
        }
        Ok(())
    }

    /// Whether the client does nothing with it: no call is under way, and no stream is open.
    fn is_unused(&self) -> bool {
        let state = self.state();
        state.waiting.is_empty() && state.listener().is_none()
    }

    /// Gives a message that answers no request to its [`Addressee`], or keeps it until there is one. A client that takes
    /// nothing for too long loses its call or its event stream.
    async fn tell(&self, message: Bytes, progress: Option<&str>) {
        let addressee = self.state().addressee(progress);
        let Some(Addressee {
            call,
            is_progress,
            reader,
        }) = addressee
        else {
            return self.keep(message);
        };
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

    fn idle_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.used_ms.load(Ordering::Relaxed))
    }

    fn end(&self, why: &Refusal) {
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

/// The sessions that weir keeps, of all threads.
#[derive(Default)]
pub(crate) struct Sessions {
    table: Mutex<HashMap<String, Arc<ChildSession>>>,
}

impl Sessions {
    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<ChildSession>>> {
        lock(&self.table)
    }

    /// A new session. Where the agent or the server has as many as it may have, the one that is unused for
    /// the longest time makes room for it: one of the agent's own, or where the server is full one of
    /// another's that was unused for [`SESSION_EVICT_MS`].
    ///
    /// # Errors
    /// `mcp.server_busy` where none can make room.
    pub(crate) fn begin(
        &self,
        agent: &Name,
        thumbprint: Option<Digest>,
        server: &Server,
        now_ms: u64,
    ) -> Result<Arc<ChildSession>, Refusal> {
        let mut random = [0; 16];
        rand::fill(&mut random)
            .map_err(|_| Refusal::new(refusal::FAILED, "no random bytes for a session id"))?;
        let session = Arc::new(ChildSession {
            id: URL_SAFE_NO_PAD.encode(random),
            agent: agent.clone(),
            thumbprint,
            server: server.name.clone(),
            input: AsyncMutex::new(None),
            initialize: OnceLock::new(),
            backoff: Mutex::default(),
            over: watch::Sender::new(false),
            state: Mutex::default(),
            used_ms: AtomicU64::new(now_ms),
        });
        let mut table = self.table();
        let evicted = make_room(&table, agent, server, now_ms)?;
        if let Some(evicted) = &evicted {
            table.remove(&evicted.id);
        }
        table.insert(session.id.clone(), Arc::clone(&session));
        drop(table);
        if let Some(evicted) = evicted {
            evicted.end(&gone("it made room for another"));
        }
        Ok(session)
    }

    /// The session with this id, if it is this agent's with this server.
    pub(crate) fn find(&self, id: &str, agent: &Name, server: &Name) -> Option<Arc<ChildSession>> {
        let session = self.table().get(id).cloned()?;
        (session.agent == *agent && session.server == *server).then_some(session)
    }

    pub(crate) fn end(&self, session: &ChildSession, why: &Refusal) {
        self.table().remove(&session.id);
        session.end(why);
    }

    /// Ends the sessions that were unused for longer than `idle_ms` says of their server, and those of agents
    /// that may not stay, with the reason that `stays` gives.
    pub(crate) fn sweep(
        &self,
        now_ms: u64,
        idle_ms: impl Fn(&Name) -> u64,
        stays: impl Fn(&Name, Option<&Digest>) -> Result<(), Refusal>,
    ) {
        let over = |session: &ChildSession| {
            if session.idle_ms(now_ms) > idle_ms(&session.server) {
                return Some(gone("it was idle"));
            }
            stays(&session.agent, session.thumbprint.as_ref()).err()
        };
        let open: Vec<_> = self.table().values().cloned().collect();
        for session in open {
            if let Some(why) = over(&session) {
                self.end(&session, &why);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table().len()
    }
}

/// The session that has to end so that the agent may begin one with the server; nothing where there is room.
fn make_room(
    table: &HashMap<String, Arc<ChildSession>>,
    agent: &Name,
    server: &Server,
    now_ms: u64,
) -> Result<Option<Arc<ChildSession>>, Refusal> {
    let sessions: Vec<_> = table.values().filter(|s| s.server == server.name).collect();
    let own = |session: &ChildSession| session.agent == *agent;
    let agent_is_full = sessions.iter().filter(|s| own(s)).count() >= server.agent_sessions_max;
    if !agent_is_full && sessions.len() < server.sessions_max {
        return Ok(None);
    }
    let may_end = |session: &ChildSession| {
        let long_unused = !agent_is_full && session.idle_ms(now_ms) >= SESSION_EVICT_MS;
        (own(session) || long_unused) && session.is_unused()
    };
    let candidates = sessions.iter().filter(|s| may_end(s));
    let oldest = candidates.min_by_key(|s| s.used_ms.load(Ordering::Relaxed));
    match oldest {
        Some(oldest) => Ok(Some(Arc::clone(oldest))),
        None => {
            let public = match agent_is_full {
                true => "this agent has no session left with the server, and all are in use",
                false => "the server has no session left",
            };
            let refusal = Refusal::new(refusal::SERVER_BUSY, public);
            Err(refusal.with_retry_ms(SESSION_RETRY_MS))
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn stopped() -> Refusal {
        Refusal::new(refusal::STOPPED, "the operator stopped this agent")
    }

    fn server(sessions_max: usize, agent_sessions_max: usize) -> Server {
        Server {
            name: name("files"),
            kind: crate::lane::ServerKind::Url { token: None },
            sessions_max,
            agent_sessions_max,
            session_idle_ms: 10,
        }
    }

    fn begin(sessions: &Sessions, agent: &str, server: &Server, now_ms: u64) -> Arc<ChildSession> {
        sessions.begin(&name(agent), None, server, now_ms).unwrap()
    }

    #[test]
    fn sessions_belong_to_one_agent_and_end_when_idle_or_without_a_key() {
        let sessions = Sessions::default();
        let server = server(9, 9);
        let one = begin(&sessions, "dev", &server, 0);
        let find = |agent| sessions.find(&one.id, &name(agent), &name("files"));
        assert!(find("dev").is_some() && find("eve").is_none());
        sessions.sweep(10, |_| 10, |_, _| Ok(()));
        assert_eq!(sessions.len(), 1);
        sessions.sweep(11, |_| 10, |_, _| Ok(()));
        assert_eq!(sessions.len(), 0);
        assert!(one.is_ended() && one.wait("w1", "1", None, true).is_err());
        let key = Digest([1; 32]);
        let two = sessions.begin(&name("dev"), Some(key), &server, 0).unwrap();
        let is_dev = |agent: &Name, thumbprint: Option<&Digest>| {
            let is_dev = (agent.as_str(), thumbprint) == ("dev", Some(&key));
            is_dev.then_some(()).ok_or_else(stopped)
        };
        sessions.sweep(0, |_| 10, is_dev);
        assert!(!two.is_ended());
        let mut call = two.wait("w1", "1", None, true).unwrap();
        sessions.sweep(0, |_| 10, |_, _| Err(stopped()));
        assert!(two.is_ended());
        assert_eq!(said(&mut call), Some(Err("gate.stopped")),);
    }

    #[test]
    fn the_longest_unused_session_makes_room() {
        let sessions = Sessions::default();
        let server = server(3, 2);
        let refused = |agent, now_ms| {
            let refused = sessions
                .begin(&name(agent), None, &server, now_ms)
                .err()
                .unwrap();
            (refused.code.name, refused.retry_ms.is_some())
        };
        let first = begin(&sessions, "dev", &server, 1);
        let second = begin(&sessions, "dev", &server, 2);
        first.used(3);
        let third = begin(&sessions, "dev", &server, 4);
        assert!(second.is_ended() && !first.is_ended());
        // In use: a call under way, or an open stream.
        let _call = first.wait("w1", "1", None, true).unwrap();
        let _stream = third.listen().unwrap();
        assert_eq!(refused("dev", 5), ("mcp.server_busy", true));
        let others = begin(&sessions, "eve", &server, 5);
        // The server is full: another agent's session goes once it was unused for long, not before.
        assert_eq!(refused("kim", 6), ("mcp.server_busy", true));
        let kim = begin(&sessions, "kim", &server, 5 + SESSION_EVICT_MS);
        assert!(others.is_ended() && !kim.is_ended());
    }

    /// What a reader is told next, if anything waits for it.
    fn said(messages: &mut Messages) -> Option<Result<Bytes, &'static str>> {
        let next = tokio::task::unconstrained(messages.next());
        let said = next.now_or_never().flatten();
        said.map(|said| said.map_err(|refusal| refusal.code.name))
    }

    #[tokio::test]
    async fn messages_find_the_call_or_the_stream_that_they_belong_to() {
        let sessions = Sessions::default();
        let session = begin(&sessions, "dev", &server(1, 1), 0);
        session.tell(Bytes::from_static(b"early"), None).await;
        let (mut stream, missed) = session.listen().unwrap();
        assert_eq!(missed, [Bytes::from_static(b"early")]);
        assert!(session.listen().is_err());
        let mut call = session.wait("1", "a", Some("7".into()), true).unwrap();
        assert!(session.wait("2", "a", None, true).is_err());
        assert_eq!(session.under_way("a").as_deref(), Some("1"));
        session.tell("progress".into(), Some("7")).await;
        session.tell("other".into(), Some("8")).await;
        assert_eq!(session.hear(answer(1)).await, Ok(()));
        assert_eq!(session.hear(answer(1)).await, Err(BadLine::Foreign));
        assert_eq!(said(&mut call), Some(Ok("progress".into())));
        assert_eq!(said(&mut call), Some(Ok(answer(1))));
        assert_eq!(said(&mut call), None);
        assert_eq!(said(&mut stream), Some(Ok("other".into())));
        // A call that was ended may be answered still.
        let mut ended = session.wait("1", "a", None, true).unwrap();
        session.end_calls(&gone("it was ended"));
        assert_eq!(said(&mut ended), Some(Err("mcp.server_down")));
        assert_eq!(session.hear(answer(1)).await, Ok(()));
        // What is decided about the session is told to its stream.
        sessions.end(&session, &stopped());
        assert_eq!(said(&mut stream), Some(Err("gate.stopped")));
    }

    fn answer(own: u32) -> Bytes {
        Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{own},"result":{{}}}}"#))
    }

    #[tokio::test]
    async fn of_what_nobody_hears_the_newest_is_kept_and_the_loss_told_once() {
        let sessions = Sessions::default();
        let session = begin(&sessions, "dev", &server(1, 1), 0);
        for at in 0..EVENTS_WAITING_MAX {
            session.tell(at.to_string().into(), None).await;
            assert!(!session.state().lost);
        }
        assert!(session.state().keep("one more".into()));
        assert!(!session.state().keep("and another".into()));
        let (_, missed) = session.listen().unwrap();
        assert_eq!(
            (missed.len(), &*missed[0]),
            (EVENTS_WAITING_MAX, b"2".as_slice())
        );
    }

    #[tokio::test]
    async fn a_burst_of_messages_is_heard_whole() {
        let sessions = Sessions::default();
        let session = begin(&sessions, "dev", &server(1, 1), 0);
        let mut call = session.wait("1", "a", Some("7".into()), true).unwrap();
        let burst = 4 * MESSAGES_WAITING_MAX;
        let tell = async {
            for at in 0..burst {
                session.tell(at.to_string().into(), Some("7")).await;
            }
            session.hear(answer(1)).await.unwrap();
        };
        let hear = async {
            for at in 0..burst {
                let heard = call.next().await.unwrap().unwrap();
                assert_eq!(heard, Bytes::from(at.to_string()));
            }
            assert_eq!(call.next().await.unwrap().unwrap(), answer(1));
        };
        tokio::join!(tell, hear);
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_loses_its_own_call_alone() {
        let sessions = Sessions::default();
        let session = begin(&sessions, "dev", &server(1, 1), 0);
        let mut call = session.wait("1", "a", Some("7".into()), true).unwrap();
        let mut other = session.wait("2", "b", None, true).unwrap();
        for at in 0..MESSAGES_WAITING_MAX {
            session.tell(at.to_string().into(), Some("7")).await;
        }
        assert_eq!(session.under_way("a"), None);
        for own in [1, 2] {
            assert_eq!(session.hear(answer(own)).await, Ok(()));
        }
        assert_eq!(said(&mut other), Some(Ok(answer(2))));
        for at in 0..MESSAGES_WAITING_MAX - 1 {
            assert_eq!(said(&mut call), Some(Ok(at.to_string().into())));
        }
        assert_eq!(said(&mut call), Some(Err("mcp.client_slow")));
        // A stream that nobody reads ends, and what it did not take waits for the next.
        let (mut stream, _) = session.listen().unwrap();
        for at in 0..EVENTS_WAITING_MAX {
            session.tell(at.to_string().into(), None).await;
        }
        for at in 0..EVENTS_WAITING_MAX - 1 {
            assert_eq!(said(&mut stream), Some(Ok(at.to_string().into())));
        }
        assert_eq!(said(&mut stream), Some(Err("mcp.client_slow")));
        let (_, missed) = session.listen().unwrap();
        assert_eq!(missed, [Bytes::from((EVENTS_WAITING_MAX - 1).to_string())]);
    }
}
