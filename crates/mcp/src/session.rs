//! Sessions: a server's own, passed on inside a signed id; and those that weir keeps, one child process
//! for each, so that no two agents ever share a server's state.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::{hmac, rand};
use base::limit::{EVENTS_WAITING_MAX, SESSION_CALLS_MAX};
use base::{Name, Refusal, refusal};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use gate::Passed;
use net::ChildIn;
use tokio::sync::{Mutex as AsyncMutex, mpsc};

/// How long the stream of a server that answers no request may be silent, in milliseconds.
pub(crate) const LISTEN_SILENCE_MS: u64 = 3_600_000;
/// Longest session id of a server, in bytes.
const UPSTREAM_ID_BYTES_MAX: usize = 1024;
/// Messages for one call that its stream has not taken yet.
const MESSAGES_WAITING_MAX: usize = 64;

/// A session id for the agent: the server's own, with a signature over agent, server and id, so that any
/// replica can open it and no other agent can use it.
pub(crate) fn sign(key: &[u8; 32], agent: &Name, server: &Name, upstream: &str) -> String {
    let tag = hmac::sign(
        &hmac::Key::new(hmac::HMAC_SHA256, key),
        &signed(agent, server, upstream),
    );
    let id = URL_SAFE_NO_PAD.encode(upstream);
    format!("{}.{id}", URL_SAFE_NO_PAD.encode(tag.as_ref()))
}

/// The server's session id inside a signed one, if it was signed for this agent and server.
pub(crate) fn open(key: &[u8; 32], agent: &Name, server: &Name, given: &str) -> Option<String> {
    let (tag, id) = given.split_once('.')?;
    if id.len() > UPSTREAM_ID_BYTES_MAX * 4 / 3 + 2 {
        return None;
    }
    let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
    let upstream = String::from_utf8(URL_SAFE_NO_PAD.decode(id).ok()?).ok()?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::verify(&key, &signed(agent, server, &upstream), &tag).ok()?;
    Some(upstream)
}

/// Names hold no newline, so the parts cannot be shifted into each other.
fn signed(agent: &Name, server: &Name, upstream: &str) -> Vec<u8> {
    format!("weir mcp session\n{agent}\n{server}\n{upstream}").into_bytes()
}

/// What a child says, on its way to whoever waits for it.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    Message(Bytes),
    /// A line was over the bound.
    TooLarge,
    /// The child is gone; the text is for the record.
    Gone(String),
}

/// A call that waits for its answer.
struct Waiting {
    said: mpsc::Sender<Said>,
    progress: Option<String>,
    takes_events: bool,
}

/// One agent's session with one child process.
pub(crate) struct ChildSession {
    pub(crate) id: String,
    pub(crate) agent: Name,
    pub(crate) server: Name,
    /// The child's input; held while a child that ended is started again, so that one call does it.
    pub(crate) input: AsyncMutex<Option<ChildIn<Passed>>>,
    /// The client's `initialize`, said again to a child that takes the place of one that ended.
    pub(crate) initialize: Mutex<Option<Bytes>>,
    pub(crate) backoff: Mutex<Restart>,
    state: Mutex<State>,
    used_ms: AtomicU64,
}

/// When a child may be started again.
#[derive(Default)]
pub(crate) struct Restart {
    pub(crate) backoff: net::Backoff,
    pub(crate) not_before_ms: u64,
}

#[derive(Default)]
struct State {
    waiting: HashMap<String, Waiting>,
    listener: Option<mpsc::Sender<Said>>,
    /// What came while nobody listened; the oldest is dropped at the bound.
    unheard: VecDeque<Bytes>,
    ended: bool,
}

impl ChildSession {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a call before its message is sent.
    pub(crate) fn wait(
        &self,
        id: &str,
        progress: Option<String>,
        takes_events: bool,
    ) -> Result<mpsc::Receiver<Said>, Refusal> {
        let mut state = self.state();
        if state.ended {
            return Err(Refusal::new(
                refusal::SESSION_UNKNOWN,
                "the session has ended",
            ));
        }
        if state.waiting.contains_key(id) {
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
            id.to_owned(),
            Waiting {
                said,
                progress,
                takes_events,
            },
        );
        Ok(heard)
    }

    /// Forgets a call: it was answered, or nobody waits for it any more.
    pub(crate) fn forget(&self, id: &str) {
        self.state().waiting.remove(id);
    }

    /// Registers the session's event stream, and what it missed.
    pub(crate) fn listen(&self) -> Result<(mpsc::Receiver<Said>, Vec<Bytes>), Refusal> {
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

    /// Gives an answer to the call that waits for it. False where none does.
    pub(crate) fn answer(&self, id: &str, said: Said) -> bool {
        match self.state().waiting.remove(id) {
            Some(waiting) => waiting.said.try_send(said).is_ok(),
            None => false,
        }
    }

    /// Gives a message that answers no request to the call that it belongs to, else to the event stream,
    /// else keeps it until there is one. A reader that does not keep up is cut off, not waited for.
    pub(crate) fn tell(&self, message: Bytes, progress: Option<&str>) {
        let mut state = self.state();
        let by_token = |w: &&Waiting| w.progress.as_deref() == progress && w.takes_events;
        let called = progress.and_then(|_| state.waiting.values().find(by_token));
        if let Some(waiting) = called {
            let _ = waiting.said.try_send(Said::Message(message));
            return;
        }
        if let Some(listener) = state.listener.as_ref().filter(|l| !l.is_closed()) {
            if listener.try_send(Said::Message(message)).is_err() {
                state.listener = None;
            }
            return;
        }
        if let Some(waiting) = state.waiting.values().find(|w| w.takes_events) {
            let _ = waiting.said.try_send(Said::Message(message));
            return;
        }
        if state.unheard.len() >= EVENTS_WAITING_MAX {
            state.unheard.pop_front();
        }
        state.unheard.push_back(message);
    }

    /// Tells every call under way, as when the child is gone.
    pub(crate) fn tell_all(&self, said: &Said) {
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
        self.tell_all(&Said::Gone(why.to_owned()));
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

    /// A new session, unless the server has as many as it may have.
    pub(crate) fn begin(
        &self,
        agent: &Name,
        server: &Name,
        sessions_max: usize,
    ) -> Result<Arc<ChildSession>, Refusal> {
        let mut random = [0; 16];
        rand::fill(&mut random)
            .map_err(|_| Refusal::new(refusal::FAILED, "no random bytes for a session id"))?;
        let session = Arc::new(ChildSession {
            id: URL_SAFE_NO_PAD.encode(random),
            agent: agent.clone(),
            server: server.clone(),
            input: AsyncMutex::new(None),
            initialize: Mutex::new(None),
            backoff: Mutex::default(),
            state: Mutex::default(),
            used_ms: AtomicU64::new(0),
        });
        let mut table = self.table();
        if table.values().filter(|s| s.server == *server).count() >= sessions_max {
            return Err(Refusal::new(
                refusal::SERVER_BUSY,
                "the server has no session left",
            ));
        }
        table.insert(session.id.clone(), Arc::clone(&session));
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

    /// Ends the sessions that `is_idle` says are idle, given how long ago each was used.
    pub(crate) fn sweep(&self, now_ms: u64, idle_ms: impl Fn(&Name) -> u64) {
        let idle: Vec<_> = self
            .table()
            .values()
            .filter(|s| {
                now_ms.saturating_sub(s.used_ms.load(Ordering::Relaxed)) > idle_ms(&s.server)
            })
            .cloned()
            .collect();
        for session in idle {
            self.end(&session, "it was idle");
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn a_signed_session_is_of_use_to_its_agent_only() {
        let key = [7; 32];
        let given = sign(&key, &name("dev"), &name("files"), "abc/1");
        let open_as =
            |key, agent, server, given: &str| open(key, &name(agent), &name(server), given);
        assert_eq!(
            open_as(&key, "dev", "files", &given).as_deref(),
            Some("abc/1")
        );
        assert_eq!(open_as(&key, "eve", "files", &given), None);
        assert_eq!(open_as(&key, "dev", "other", &given), None);
        assert_eq!(open_as(&[8; 32], "dev", "files", &given), None);
        assert_eq!(open_as(&key, "dev", "files", "abc/1"), None);
        assert_eq!(open_as(&key, "dev", "files", &format!("{given}A")), None);
    }

    #[test]
    fn sessions_are_bounded_and_belong_to_one_agent() {
        let sessions = Sessions::default();
        let one = sessions.begin(&name("dev"), &name("files"), 1).unwrap();
        assert!(sessions.begin(&name("dev"), &name("files"), 1).is_err());
        assert!(
            sessions
                .find(&one.id, &name("dev"), &name("files"))
                .is_some()
        );
        assert!(
            sessions
                .find(&one.id, &name("eve"), &name("files"))
                .is_none()
        );
        sessions.sweep(10, |_| 10);
        assert_eq!(sessions.len(), 1);
        sessions.sweep(11, |_| 10);
        assert_eq!(sessions.len(), 0);
        assert!(one.is_ended() && one.wait("1", None, true).is_err());
    }

    #[test]
    fn messages_find_the_call_or_the_stream_that_they_belong_to() {
        let sessions = Sessions::default();
        let session = sessions.begin(&name("dev"), &name("files"), 1).unwrap();
        session.tell(Bytes::from_static(b"early"), None);
        let (mut stream, missed) = session.listen().unwrap();
        assert_eq!(missed, [Bytes::from_static(b"early")]);
        assert!(session.listen().is_err());
        let mut call = session.wait("1", Some("7".into()), true).unwrap();
        assert!(session.wait("1", None, true).is_err());
        session.tell(Bytes::from_static(b"progress"), Some("7"));
        session.tell(Bytes::from_static(b"other"), Some("8"));
        assert!(session.answer("1", Said::TooLarge) && !session.answer("1", Said::TooLarge));
        assert!(matches!(call.try_recv(), Ok(Said::Message(m)) if m == "progress"));
        assert!(matches!(call.try_recv(), Ok(Said::TooLarge)));
        assert!(matches!(stream.try_recv(), Ok(Said::Message(m)) if m == "other"));
    }
}
