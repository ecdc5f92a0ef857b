//! One connection of an agent, from its first byte to its close.
//!
//! Its requests are read one after the other, and each is answered before the next one is looked at. What must not
//! be read, or comes too slowly, is refused in the service's words and ends the connection.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use base::{Refusal, limit, refusal};

use super::accept::AcceptedConnection;
use super::listen::Agents;
use super::opening::unasked_header;
use super::places::GuestPart;
use super::{Request, Response, Service, answer, request};
use crate::h1::{Error, Fault, ServerConnection, Stream, Wait};

/// The connection of an agent.
pub(super) type AgentConnection = ServerConnection<Stream>;

/// Serves one connection to its end.
pub(super) async fn run<S: Service>(agents: &Agents<S>, accepted: AcceptedConnection) {
    let AcceptedConnection {
        stream,
        peer,
        thread,
        bounds,
        guest,
        settings,
    } = accepted;
    let mut server = Box::new(AgentConnection::new(stream, &thread, &bounds));
    let mut lent = Rc::new(LentConnection::new(&guest));
    loop {
        let head = match server.head().await {
            Ok(None) => return,
            // It gave up its place: nobody reads what would be answered.
            Ok(Some(_)) if guest.as_ref().is_some_and(|guest| !guest.asks()) => return,
            Ok(Some(view)) => request::parts(view),
            Err(error) => match refusal(error, server.unread()) {
                Some(refusal) => Err(refusal),
                None => return,
            },
        };
        let head = match head {
            Ok(head) => head,
            Err(refusal) => {
                agents.shared.refused_heads.fetch_add(1, Ordering::Relaxed);
                return answer::refuse(server, agents.service.refuse(&refusal)).await;
            }
        };
        if server.is_body_here() {
            server.forget_request();
        }
        let done = server.is_body_here();
        let peer = settings.caller_of(&peer, &head);
        let request = Request::new(head, peer, Rc::downgrade(&lent), &agents.settings, done);
        lent.put(server);
        let response = watched(agents.service.call(request), &lent).await;
        // It is gone where the call took it over: that has ended by now, too.
        let (Some(response), Some(back)) = (response, lent.take()) else {
            return;
        };
        server = back;
        // A request that is kept longer than its call must not read the body of the next one.
        if Rc::get_mut(&mut lent).is_none() {
            lent = Rc::new(LentConnection::new(&guest));
        }
        if answer::write(&mut server, response, guest.as_deref())
            .await
            .is_err()
        {
            return;
        }
    }
}

/// The answer of a call; nothing where the client left before it was there.
async fn watched(call: impl Future<Output = Response>, lent: &LentConnection) -> Option<Response> {
    let mut call = pin!(call);
    poll_fn(|context| match call.as_mut().poll(context) {
        Poll::Ready(response) => Poll::Ready(Some(response)),
        Poll::Pending => lent.poll_gone(context).map(|()| None),
    })
    .await
}

/// A connection while a call runs: the call reads its request's body from it, and the edge looks whether the client
/// is still there.
pub(super) struct LentConnection {
    server: RefCell<Option<Box<AgentConnection>>>,
    /// The call has the connection for itself.
    is_taken: Cell<bool>,
    guest: Option<Rc<GuestPart>>,
}

impl LentConnection {
    fn new(guest: &Option<Rc<GuestPart>>) -> LentConnection {
        LentConnection {
            server: RefCell::new(None),
            is_taken: Cell::new(false),
            guest: guest.clone(),
        }
    }

    fn put(&self, server: Box<AgentConnection>) {
        *self.server.borrow_mut() = Some(server);
    }

    fn take(&self) -> Option<Box<AgentConnection>> {
        self.server.borrow_mut().take()
    }

    /// Lets a call work on the connection; nothing once the call is over.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut AgentConnection) -> R) -> Option<R> {
        self.server.borrow_mut().as_deref_mut().map(work)
    }

    /// Lets a call have the connection for itself, if its request asks for what ends HTTP with this status.
    pub(super) fn take_over(&self, status: u16) -> Option<Box<AgentConnection>> {
        let mut server = self.server.borrow_mut();
        let taken = server.take_if(|server| server.can_switch(status))?;
        self.is_taken.set(true);
        Some(taken)
    }

    /// Says that a known agent asks.
    pub(super) fn is_of_known_agent(&self) {
        if let Some(guest) = &self.guest {
            guest.is_known();
        }
    }

    fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.is_taken.get() {
            return Poll::Pending;
        }
        let looked = self.with(|server| server.poll_gone(context));
        looked.unwrap_or(Poll::Ready(()))
    }
}

/// What a head that could not be read is refused with; nothing for a connection that merely broke.
fn refusal(error: Error, bytes: &[u8]) -> Option<Refusal> {
    match error {
        Error::Fault(fault) => Some(unasked_header(bytes).unwrap_or_else(|| refusal_of(fault))),
        Error::Slow(Wait::Head) => Some(Refusal::new(
            refusal::HEAD_TOO_SLOW,
            "The request head took too long.",
        )),
        Error::Slow(_) | Error::Cut | Error::Io(_) | Error::Misuse(_) => None,
    }
}

/// What a head with this fault is refused with.
pub(super) fn refusal_of(fault: Fault) -> Refusal {
    let code = fault.code().unwrap_or(refusal::HEAD_INVALID);
    match fault {
        Fault::HeadTooLarge | Fault::TooManyFields => {
            let (bytes, fields) = (limit::HEAD_BYTES_MAX, limit::HEAD_FIELDS_MAX);
            let public =
                format!("The request head has more than {bytes} bytes or {fields} fields.");
            Refusal::new(code, public)
        }
        _ => Refusal::new(code, fault.text()),
    }
}
