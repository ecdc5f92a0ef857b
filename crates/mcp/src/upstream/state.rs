//! Who waits on a link for what its server says: calls under way, and the event stream.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::Refusal;
use base::limit::{CLIENT_TAKES_MS_MAX, EVENTS_WAITING_MAX};
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::waiting::{Unasked, WaitingCalls};

/// Messages for one call that its stream has not taken yet.
pub(super) const MESSAGES_WAITING_MAX: usize = 64;
/// How long a child is not read because a client does not take what was read. A unit test does not wait as long.
const TAKES_MS_MAX: u64 = if cfg!(test) { 200 } else { CLIENT_TAKES_MS_MAX };

/// What a child says, on its way to whoever waits for it, or why it says nothing more.
pub(crate) type ChildAnswer = Result<Bytes, Refusal>;

/// Gives the messages of a child to one call, or to the event stream of its session.
#[derive(Clone)]
pub(super) struct Mailbox {
    pub(super) messages: mpsc::Sender<Bytes>,
    /// Why no more come, where that has to be told.
    pub(super) why: Arc<OnceLock<Refusal>>,
}

/// What a [`Mailbox`] was given, to be read.
pub(crate) struct Messages {
    pub(super) messages: mpsc::Receiver<Bytes>,
    pub(super) why: Arc<OnceLock<Refusal>>,
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    Gone,
    Slow,
}

impl Mailbox {
    pub(super) fn new(places: usize) -> (Mailbox, Messages) {
        let (sender, receiver) = mpsc::channel(places);
        let why: Arc<OnceLock<Refusal>> = Arc::default();
        let reader = Mailbox {
            messages: sender,
            why: Arc::clone(&why),
        };
        let messages = receiver;
        (reader, Messages { messages, why })
    }

    /// Gives a message that is no answer, once the client has made room for it. The last place stays the answer's, so
    /// that the answer never waits.
    pub(super) async fn give(&self, message: Bytes) -> Result<(), NotTaken> {
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
    pub(super) fn end(self, why: Refusal) {
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
pub(super) struct Caller {
    /// The id that the child was given.
    pub(super) own: String,
    pub(super) reader: Mailbox,
    pub(super) takes_events: bool,
    /// It is a subscription, which lasts until one side ends it.
    pub(super) is_listen: bool,
    /// It asked, by itself, for messages of the server's log.
    pub(super) wants_log: bool,
}

/// To whom a message goes that answers nothing.
pub(super) struct Addressee {
    /// The call by its own id; absent for the event stream.
    pub(super) call: Option<String>,
    /// It is of the call alone, as its progress is, and of use to nobody else.
    pub(super) is_progress: bool,
    pub(super) reader: Mailbox,
}

#[derive(Default)]
pub(super) struct LinkState {
    pub(super) waiting: WaitingCalls<Caller>,
    pub(super) listener: Option<Mailbox>,
    /// What came while nobody listened; the oldest is dropped at the bound.
    pub(super) unheard: VecDeque<Bytes>,
    /// One was dropped, and that was told.
    pub(super) lost: bool,
}

impl LinkState {
    pub(super) fn listener(&self) -> Option<&Mailbox> {
        self.listener
            .as_ref()
            .filter(|listener| !listener.messages.is_closed())
    }

    /// To whom a message goes that answers nothing: the call whose progress it tells, else the event stream, else any
    /// call that takes events.
    pub(super) fn addressee(&mut self, progress: Option<&str>) -> Option<Addressee> {
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

    /// To whom a message of the log goes on a link of weir's own: any call that takes events.
    pub(super) fn log_addressee(&mut self) -> Option<Addressee> {
        let caller = self.waiting.find(|_, caller| caller.takes_events)?;
        Some(Addressee {
            call: Some(caller.own.clone()),
            is_progress: true,
            reader: caller.reader.clone(),
        })
    }

    /// The same on a shared link, where each message is of one call alone: the one whose progress it tells, whose token is
    /// the call's own id; the subscription that it is of; or where it is of the log, the oldest call that asked for that.
    pub(super) fn shared_addressee(&mut self, said: &Unasked) -> Option<Addressee> {
        let named = said.subscription.as_ref().or(said.progress.as_ref());
        let caller = match named {
            Some(own) => self.waiting.get(own)?,
            None if said.is_log => self.waiting.find(|_, caller| caller.wants_log)?,
            None => return None,
        };
        let is_meant = caller.takes_events && caller.is_listen == said.subscription.is_some();
        is_meant.then(|| Addressee {
            call: Some(caller.own.clone()),
            is_progress: true,
            reader: caller.reader.clone(),
        })
    }

    /// Keeps a message until somebody listens. Says whether the first one was dropped for it.
    pub(super) fn keep(&mut self, message: Bytes) -> bool {
        let is_full = self.unheard.len() >= EVENTS_WAITING_MAX;
        if is_full {
            self.unheard.pop_front();
        }
        self.unheard.push_back(message);
        is_full && !std::mem::replace(&mut self.lost, true)
    }
}
