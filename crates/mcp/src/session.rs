//! Sessions that weir keeps, one child process for each, so that no two agents ever share a server's state.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::rand;
use base::limit::{EVENTS_WAITING_MAX, GIVEN_UP_MAX, SESSION_CALLS_MAX, SESSION_EVICT_MS};
use base::{Digest, Name, Refusal, refusal};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use gate::Passed;
use net::ChildIn;
use tokio::sync::{Mutex as AsyncMutex, Notify, mpsc};

use crate::lane::Server;

/// How long the stream of a server that answers no request may be silent, in milliseconds.
pub(crate) const LISTEN_SILENCE_MS: u64 = 3_600_000;
/// When a client that found no session left may try again, in milliseconds.
const SESSION_RETRY_MS: u64 = 10_000;
/// Messages for one call that its stream has not taken yet.
const MESSAGES_WAITING_MAX: usize = 64;

/// What a child says, on its way to whoever waits for it.
#[derive(Clone, Debug)]
pub(crate) enum ChildAnswer {
    Message(Bytes),
    /// A line was over the bound.
    TooLarge,
    /// The child is gone; the text is for the record.
    Gone(String),
}

/// A call that waits for its answer.
struct WaitingCall {
    said: mpsc::Sender<ChildAnswer>,
    /// The client's id as it was written.
    client: String,
    progress: Option<String>,
    takes_events: bool,
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
    pub(crate) initialize: Mutex<Option<Bytes>>,
    pub(crate) backoff: Mutex<Restart>,
    /// Told when the session ends.
    pub(crate) over: Notify,
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
    /// By the id that the child was given.
    waiting: HashMap<String, WaitingCall>,
    /// Ids of calls that nobody waits for any more, of the last [`GIVEN_UP_MAX`]: their answers are dropped.
    given_up: VecDeque<String>,
    listener: Option<mpsc::Sender<ChildAnswer>>,
    /// What came while nobody listened; the oldest is dropped at the bound.
    unheard: VecDeque<Bytes>,
    ended: bool,
}

impl ChildSession {
    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        if state.ended {
            return Err(Refusal::new(
                refusal::SESSION_UNKNOWN,
                "the session has ended",
            ));
        }
        if state
            .waiting
            .values()
            .any(|waiting| waiting.client == client)
        {
            return Err(Refusal::new(
                refusal::ID_IN_USE,
                "a call with this id is under way",
            ));
        }
        if state.waiting.len() >= SESSION_CALLS_MAX {
            return Err(Refusal::new(
                refusal::SESSION_BUSY,
                "too many calls are under way",
            ));
        }
        let (said, heard) = mpsc::channel(MESSAGES_WAITING_MAX);
        state.waiting.insert(
            own.to_owned(),
            WaitingCall {
                said,
                client: client.to_owned(),
                progress,
                takes_events,
            },
        );
        Ok(heard)
    }

    /// Forgets a call that nobody waits for any more: where it was not answered, its answer is dropped.
    pub(crate) fn forget(&self, own: &str) {
        let mut state = self.state();
        if state.waiting.remove(own).is_none() {
            return;
        }
        if state.given_up.len() >= GIVEN_UP_MAX {
            state.given_up.pop_front();
        }
        state.given_up.push_back(own.to_owned());
    }

    /// The id that the child was given for a request of the client that is under way.
    pub(crate) fn under_way(&self, client: &str) -> Option<String> {
        let state = self.state();
        let mut calls = state.waiting.iter();
        calls
            .find(|(_, waiting)| waiting.client == client)
            .map(|(own, _)| own.clone())
    }

    /// Registers the session's event stream, and what it missed.
    pub(crate) fn listen(&self) -> Result<(mpsc::Receiver<ChildAnswer>, Vec<Bytes>), Refusal> {
        let mut state = self.state();
        if state.listener.as_ref().is_some_and(|l| !l.is_closed()) {
            return Err(Refusal::new(
                refusal::STREAM_OPEN,
                "the session has an event stream",
            ));
        }
        let (said, heard) = mpsc::channel(EVENTS_WAITING_MAX);
        state.listener = Some(said);
        Ok((heard, state.unheard.drain(..).collect()))
    }

    /// Gives an answer to the call that waits for it, or drops it where nobody does any more. False where no
    /// request had this id, or it was answered before.
    pub(crate) fn answer(&self, own: &str, said: ChildAnswer) -> bool {
        let mut state = self.state();
        if let Some(waiting) = state.waiting.remove(own) {
            // A reader that does not keep up is told when its channel closes.
            let _ = waiting.said.try_send(said);
            return true;
        }
        let given_up = state.given_up.iter().position(|id| id == own);
        given_up.and_then(|at| state.given_up.remove(at)).is_some()
    }

    /// Whether the client does nothing with it: no call is under way, and no stream is open.
    fn is_unused(&self) -> bool {
        let state = self.state();
        let listens = state
            .listener
            .as_ref()
            .is_some_and(|listener| !listener.is_closed());
        state.waiting.is_empty() && !listens
    }

    /// Gives a message that answers no request to the call that it belongs to, else to the event stream,
    /// else keeps it until there is one. A reader that does not keep up is cut off, not waited for.
    pub(crate) fn tell(&self, message: Bytes, progress: Option<&str>) {
        let mut state = self.state();
        let by_token = |w: &&WaitingCall| w.progress.as_deref() == progress && w.takes_events;
        let called = progress.and_then(|_| state.waiting.values().find(by_token));
        if let Some(waiting) = called {
            let _ = waiting.said.try_send(ChildAnswer::Message(message));
            return;
        }
        if let Some(listener) = state.listener.as_ref().filter(|l| !l.is_closed()) {
            if listener.try_send(ChildAnswer::Message(message)).is_err() {
                state.listener = None;
            }
            return;
        }
        if let Some(waiting) = state.waiting.values().find(|w| w.takes_events) {
            let _ = waiting.said.try_send(ChildAnswer::Message(message));
            return;
        }
        if state.unheard.len() >= EVENTS_WAITING_MAX {
            state.unheard.pop_front();
        }
        state.unheard.push_back(message);
    }

    /// Tells every call under way, as when the child is gone.
    pub(crate) fn tell_all(&self, said: &ChildAnswer) {
        for (_, waiting) in self.state().waiting.drain() {
            let _ = waiting.said.try_send(said.clone());
        }
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.state().ended
    }

    fn end(&self, why: &str) {
        let mut state = self.state();
        state.ended = true;
        state.listener = None;
        drop(state);
        self.over.notify_waiters();
        self.tell_all(&ChildAnswer::Gone(why.to_owned()));
    }
}

/// The sessions that weir keeps, of all threads.
#[derive(Default)]
pub(crate) struct Sessions {
    table: Mutex<HashMap<String, Arc<ChildSession>>>,
}

impl Sessions {
    fn table(&self) -> MutexGuard<'_, HashMap<String, Arc<ChildSession>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new session. Where the agent or the server has as many as it may have, the one that is unused for
    /// the longest time makes room for it: one of the agent's own, or where the server is full one of
    /// another's that was unused for [`SESSION_EVICT_MS`].
    ///
    /// # Errors
    /// `mcp.server_busy` where none can make room.
    pub(crate) fn begin(
        &self,
        passed: &Passed,
        server: &Server,
        now_ms: u64,
    ) -> Result<Arc<ChildSession>, Refusal> {
        self.begin_for(passed.agent(), passed.thumbprint(), server, now_ms)
    }

    fn begin_for(
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
            initialize: Mutex::new(None),
            backoff: Mutex::default(),
            over: Notify::new(),
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
            evicted.end("it made room for another");
        }
        Ok(session)
    }

    /// The session with this id, if it is this agent's with this server.
    pub(crate) fn find(&self, id: &str, agent: &Name, server: &Name) -> Option<Arc<ChildSession>> {
        let session = self.table().get(id).cloned()?;
        (session.agent == *agent && session.server == *server).then_some(session)
    }

    pub(crate) fn end(&self, session: &ChildSession, why: &str) {
        self.table().remove(&session.id);
        session.end(why);
    }

    /// Ends the sessions that were unused for longer than `idle_ms` says of their server, and those of agents
    /// that may not `stay`.
    pub(crate) fn sweep(
        &self,
        now_ms: u64,
        idle_ms: impl Fn(&Name) -> u64,
        stays: impl Fn(&Name, Option<&Digest>) -> bool,
    ) {
        let over = |session: &ChildSession| {
            if session.idle_ms(now_ms) > idle_ms(&session.server) {
                return Some("it was idle");
            }
            let stays = stays(&session.agent, session.thumbprint.as_ref());
            (!stays).then_some("its agent was stopped, or its key was taken back")
        };
        let open: Vec<_> = self.table().values().cloned().collect();
        for session in open {
            if let Some(why) = over(&session) {
                self.end(&session, why);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table().len()
    }
}

impl ChildSession {
    pub(crate) fn used(&self, now_ms: u64) {
        self.used_ms.store(now_ms, Ordering::Relaxed);
    }

    fn idle_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.used_ms.load(Ordering::Relaxed))
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
        sessions
            .begin_for(&name(agent), None, server, now_ms)
            .unwrap()
    }

    #[test]
    fn sessions_belong_to_one_agent_and_end_when_idle_or_without_a_key() {
        let sessions = Sessions::default();
        let server = server(9, 9);
        let one = begin(&sessions, "dev", &server, 0);
        let find = |agent| sessions.find(&one.id, &name(agent), &name("files"));
        assert!(find("dev").is_some() && find("eve").is_none());
        sessions.sweep(10, |_| 10, |_, _| true);
        assert_eq!(sessions.len(), 1);
        sessions.sweep(11, |_| 10, |_, _| true);
        assert_eq!(sessions.len(), 0);
        assert!(one.is_ended() && one.wait("w1", "1", None, true).is_err());
        let key = Digest([1; 32]);
        let two = sessions
            .begin_for(&name("dev"), Some(key), &server, 0)
            .unwrap();
        sessions.sweep(
            0,
            |_| 10,
            |agent, thumbprint| (agent.as_str(), thumbprint) == ("dev", Some(&key)),
        );
        assert!(!two.is_ended());
        sessions.sweep(0, |_| 10, |_, _| false);
        assert!(two.is_ended());
    }

    #[test]
    fn the_longest_unused_session_makes_room() {
        let sessions = Sessions::default();
        let server = server(3, 2);
        let refused = |agent, now_ms| {
            let refused = sessions
                .begin_for(&name(agent), None, &server, now_ms)
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
        let mut call = session.wait("w1", "1", Some("7".into()), true).unwrap();
        assert!(session.wait("w2", "1", None, true).is_err());
        assert_eq!(session.under_way("1").as_deref(), Some("w1"));
        session.tell(Bytes::from_static(b"progress"), Some("7"));
        session.tell(Bytes::from_static(b"other"), Some("8"));
        assert!(
            session.answer("w1", ChildAnswer::TooLarge)
                && !session.answer("w1", ChildAnswer::TooLarge)
        );
        assert!(matches!(call.try_recv(), Ok(ChildAnswer::Message(m)) if m == "progress"));
        assert!(matches!(call.try_recv(), Ok(ChildAnswer::TooLarge)));
        assert!(matches!(stream.try_recv(), Ok(ChildAnswer::Message(m)) if m == "other"));
    }

    #[test]
    fn a_late_answer_is_dropped_once_and_one_to_nothing_is_told() {
        let sessions = Sessions::default();
        let session = begin(&sessions, "dev", &server(1, 1), 0);
        let call = session.wait("w1", "1", None, true).unwrap();
        drop(call);
        session.forget("w1");
        assert_eq!(session.under_way("1"), None);
        assert!(
            session.answer("w1", ChildAnswer::TooLarge)
                && !session.answer("w1", ChildAnswer::TooLarge)
        );
        session.forget("w9");
        assert!(!session.answer("w9", ChildAnswer::TooLarge));
        for i in 0..=GIVEN_UP_MAX {
            let own = format!("w{i}");
            session.wait(&own, &i.to_string(), None, true).unwrap();
            session.forget(&own);
        }
        assert!(
            !session.answer("w0", ChildAnswer::TooLarge)
                && session.answer("w1", ChildAnswer::TooLarge)
        );
    }
}
