//! Sessions that weir keeps, one child process for each, so that no two agents ever share a server's state.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use aws_lc_rs::rand;
use base::limit::{EVENTS_WAITING_MAX, SESSION_EVICT_MS};
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

/// A call that waits for its answer.
struct Caller {
    said: mpsc::Sender<ChildAnswer>,
    takes_events: bool,
}

impl Caller {
    /// Gives the caller what the child says before it answers. The last place is the answer's: a message that would take
    /// it is dropped, so that a burst of progress costs no answer.
    fn tell(&self, message: Bytes) {
        if self.said.capacity() > 1 {
            let _ = self.said.try_send(Ok(message));
        }
    }
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
    listener: Option<mpsc::Sender<ChildAnswer>>,
    /// What came while nobody listened; the oldest is dropped at the bound.
    unheard: VecDeque<Bytes>,
}

/// Takes a lock, also where whoever had it panicked.
pub(crate) fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SessionState {
    fn listener(&self) -> Option<&mpsc::Sender<ChildAnswer>> {
        self.listener
            .as_ref()
            .filter(|listener| !listener.is_closed())
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
    ) -> Result<mpsc::Receiver<ChildAnswer>, Refusal> {
        let mut state = self.state();
        if self.is_ended() {
            return Err(unknown());
        }
        state.waiting.has_room(client)?;
        let (said, heard) = mpsc::channel(MESSAGES_WAITING_MAX);
        let caller = Caller { said, takes_events };
        state.waiting.begin(own, client, progress, caller);
        Ok(heard)
    }

    /// Forgets a call that nobody waits for any more: where it was not answered, its answer is dropped.
    pub(crate) fn forget(&self, own: &str) {
        self.state().waiting.give_up(own);
    }

    /// The id that the child was given for a request of the client that is under way.
    pub(crate) fn under_way(&self, client: &str) -> Option<String> {
        self.state().waiting.under_way(client)
    }

    /// Registers the session's event stream, and what it missed.
    pub(crate) fn listen(&self) -> Result<(mpsc::Receiver<ChildAnswer>, Vec<Bytes>), Refusal> {
        let mut state = self.state();
        if state.listener().is_some() {
            return Err(Refusal::new(
                refusal::STREAM_OPEN,
                "the session has an event stream",
            ));
        }
        let (said, heard) = mpsc::channel(EVENTS_WAITING_MAX);
        state.listener = Some(said);
        Ok((heard, state.unheard.drain(..).collect()))
    }

    /// Gives a line of the child to whom it belongs.
    pub(crate) fn hear(&self, line: Bytes) -> Result<(), BadLine> {
        let answered = |own: &str| self.state().waiting.answered(own);
        match ChildLine::read(&line, answered)? {
            ChildLine::Answer(caller) => {
                // A reader that does not keep up is told when its channel closes.
                let _ = caller.said.try_send(Ok(line));
            }
            ChildLine::Late => {}
            ChildLine::Says(_, progress) => self.tell(line, progress.as_deref()),
        }
        Ok(())
    }

    /// Whether the client does nothing with it: no call is under way, and no stream is open.
    fn is_unused(&self) -> bool {
        let state = self.state();
        state.waiting.is_empty() && state.listener().is_none()
    }

    /// Gives a message that answers no request to the call that it belongs to, else to the event stream,
    /// else keeps it until there is one. A reader that does not keep up is cut off, not waited for.
    fn tell(&self, message: Bytes, progress: Option<&str>) {
        let mut state = self.state();
        let told = |token: Option<&str>, caller: &Caller| {
            progress.is_some() && token == progress && caller.takes_events
        };
        if let Some(caller) = state.waiting.find(told) {
            caller.tell(message);
            return;
        }
        if let Some(listener) = state.listener() {
            if listener.try_send(Ok(message)).is_err() {
                state.listener = None;
            }
            return;
        }
        if let Some(caller) = state.waiting.find(|_, caller| caller.takes_events) {
            caller.tell(message);
            return;
        }
        if state.unheard.len() >= EVENTS_WAITING_MAX {
            state.unheard.pop_front();
        }
        state.unheard.push_back(message);
    }

    /// Ends every call under way, as when the child is gone.
    pub(crate) fn end_calls(&self, why: &Refusal) {
        for (caller, ()) in self.state().waiting.give_up_those(|_| Some(())) {
            let _ = caller.said.try_send(Err(why.clone()));
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
        state.listener = None;
        drop(state);
        self.end_calls(why);
    }
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
        assert_eq!(
            call.try_recv().unwrap().unwrap_err().code.name,
            "gate.stopped"
        );
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

    #[test]
    fn messages_find_the_call_or_the_stream_that_they_belong_to() {
        let sessions = Sessions::default();
        let session = begin(&sessions, "dev", &server(1, 1), 0);
        session.tell(Bytes::from_static(b"early"), None);
        let (mut stream, missed) = session.listen().unwrap();
        assert_eq!(missed, [Bytes::from_static(b"early")]);
        assert!(session.listen().is_err());
        let mut call = session.wait("1", "a", Some("7".into()), true).unwrap();
        assert!(session.wait("2", "a", None, true).is_err());
        assert_eq!(session.under_way("a").as_deref(), Some("1"));
        session.tell(Bytes::from_static(b"progress"), Some("7"));
        session.tell(Bytes::from_static(b"other"), Some("8"));
        let answer = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert_eq!(session.hear(answer.clone()), Ok(()));
        assert_eq!(session.hear(answer.clone()), Err(BadLine::Foreign));
        let said = |of: &mut mpsc::Receiver<ChildAnswer>| of.try_recv().unwrap().unwrap();
        assert_eq!(
            (said(&mut call), said(&mut call)),
            ("progress".into(), answer.clone())
        );
        assert_eq!(said(&mut stream), "other");
        // A call that was ended may be answered still.
        let mut ended = session.wait("1", "a", None, true).unwrap();
        session.end_calls(&gone("it was ended"));
        assert!(ended.try_recv().unwrap().is_err());
        assert_eq!(session.hear(answer), Ok(()));
    }

    #[test]
    fn a_burst_of_messages_costs_no_answer() {
        let sessions = Sessions::default();
        let session = begin(&sessions, "dev", &server(1, 1), 0);
        let mut call = session.wait("1", "a", Some("7".into()), true).unwrap();
        for _ in 0..2 * MESSAGES_WAITING_MAX {
            session.tell(Bytes::from_static(b"progress"), Some("7"));
        }
        let answer = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert_eq!(session.hear(answer.clone()), Ok(()));
        let mut heard = Vec::new();
        while let Ok(Ok(message)) = call.try_recv() {
            heard.push(message);
        }
        assert_eq!(
            (heard.len(), heard.pop()),
            (MESSAGES_WAITING_MAX, Some(answer))
        );
    }
}
