//! One connection's place: the connection that is there now, and the next one when it is gone.
//!
//! It never repeats a request that may have been sent. Only one that provably never left is sent again.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;

use super::dial::{Body, Dialer, Dialled, Meter, Refused, Sender};
use super::fault::Bad;
use super::mcp::Session;

/// A place for one connection.
pub(super) struct Link {
    /// The connection's number in its flow.
    pub number: usize,
    pub target: usize,
    pub meter: Rc<Meter>,
    /// For MCP.
    pub session: RefCell<Session>,
    dialer: Rc<Dialer>,
    now: RefCell<Option<Now>>,
    /// Streams of one connection wait for each other when it must be made anew.
    dialling: Mutex<()>,
    /// Connections that could not be made, in a row.
    refused: Cell<u32>,
}

/// The connection that is there.
struct Now {
    sender: Sender,
    driver: AbortHandle,
    ended: Rc<RefCell<Option<Bad>>>,
}

/// A request that was not answered.
pub(super) enum Unsent {
    /// It never left; here it is.
    Back(Box<Request<Body>>),
    /// It may have left.
    Failed(Bad),
}

enum Waiting<A, B> {
    One(A),
    Two(B),
}

impl Link {
    pub(super) fn new(number: usize, target: usize, dialer: Rc<Dialer>) -> Link {
        Link {
            number,
            target,
            meter: Rc::new(Meter::default()),
            session: RefCell::new(Session::default()),
            dialer,
            now: RefCell::new(None),
            dialling: Mutex::new(()),
            refused: Cell::new(0),
        }
    }

    /// Waits until the connection can take a request; false if there is none any more.
    pub(super) async fn ready(&self) -> bool {
        poll_fn(|cx| match &mut *self.now.borrow_mut() {
            None => Poll::Ready(false),
            Some(Now { sender, .. }) => match sender {
                Sender::One(sender) => sender.poll_ready(cx).map(|ready| ready.is_ok()),
                Sender::Two(sender) => sender.poll_ready(cx).map(|ready| ready.is_ok()),
            },
        })
        .await
    }

    /// Makes the connection if it is not there. Gives its times when it was made now: to connect, and TLS.
    ///
    /// # Errors
    ///
    /// It cannot be made.
    pub(super) async fn connect(&self) -> Result<Option<(u64, Option<u64>)>, Refused> {
        let _turn = self.dialling.lock().await;
        if self.is_open() {
            return Ok(None);
        }
        self.close();
        let made = self.dialer.dial(&self.meter).await;
        let Dialled {
            sender,
            driver,
            ended,
            connect_ns,
            tls_ns,
        } = made.inspect_err(|_| self.refused.set(self.refused.get() + 1))?;
        self.refused.set(0);
        *self.now.borrow_mut() = Some(Now {
            sender,
            driver,
            ended,
        });
        Ok(Some((connect_ns, tls_ns)))
    }

    fn is_open(&self) -> bool {
        self.now
            .borrow()
            .as_ref()
            .is_some_and(|now| match &now.sender {
                Sender::One(sender) => !sender.is_closed(),
                Sender::Two(sender) => !sender.is_closed(),
            })
    }

    /// Connections that could not be made, in a row.
    pub(super) fn refused(&self) -> u32 {
        self.refused.get()
    }

    /// Sends a request on the connection and waits for the head of its answer.
    ///
    /// # Errors
    ///
    /// It was not sent, or not answered.
    pub(super) async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>, Unsent> {
        let (waiting, ended) = match &mut *self.now.borrow_mut() {
            None => return Err(Unsent::Back(Box::new(request))),
            Some(now) => {
                let waiting = match &mut now.sender {
                    Sender::One(sender) => Waiting::One(sender.try_send_request(request)),
                    Sender::Two(sender) => Waiting::Two(sender.try_send_request(request)),
                };
                (waiting, now.ended.clone())
            }
        };
        let answered = match waiting {
            Waiting::One(waiting) => waiting.await,
            Waiting::Two(waiting) => waiting.await,
        };
        answered.map_err(|error| unsent(error, &ended))
    }

    /// Ends the connection, with everything on it.
    pub(super) fn close(&self) {
        if let Some(now) = self.now.borrow_mut().take() {
            now.driver.abort();
        }
    }

    /// Ends the connection if an answer on it was not read to its end and others are in the way of it: HTTP/1.1.
    pub(super) fn spoil(&self) {
        let single =
            matches!(&*self.now.borrow(), Some(now) if matches!(now.sender, Sender::One(_)));
        if single {
            self.close();
        }
    }
}

fn unsent(mut error: TrySendError<Request<Body>>, ended: &Rc<RefCell<Option<Bad>>>) -> Unsent {
    if let Some(request) = error.take_message() {
        return Unsent::Back(Box::new(request));
    }
    let error = error.into_error();
    // The task that moved the bytes knows better what the connection ended of than who waited for it.
    let known = ended
        .borrow()
        .clone()
        .filter(|_| error.is_canceled() || error.is_closed());
    Unsent::Failed(known.unwrap_or_else(|| Bad::of(&error)))
}
