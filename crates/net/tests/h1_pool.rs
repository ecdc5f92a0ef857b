//! The pool, with real sockets: who may be dialled, what is used again, and what is not.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

use std::cell::RefCell;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base::{CallId, Name, Permit, Refusal, refusal};
use net::h1::{ConnectionSettings, Framing, Thread, Wires};
use net::{Endpoint, SendError, Targets};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::{LocalSet, spawn_local};

const NO_FIELDS: [(&[u8], &[u8]); 0] = [];
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Allows what the test says, and remembers what it was asked.
struct Pass {
    target: Name,
    allow: fn(IpAddr) -> bool,
    asked: RefCell<Vec<IpAddr>>,
}

impl Permit for Pass {
    fn call(&self) -> CallId {
        CallId([1; 16])
    }

    fn destination(&self) -> base::Destination<'_> {
        base::Destination::Configured(&self.target)
    }

    fn dial(&self, address: IpAddr) -> Result<(), Refusal> {
        self.asked.borrow_mut().push(address);
        match (self.allow)(address) {
            true => Ok(()),
            false => Err(Refusal::new(refusal::ADDRESS, format!("not {address}"))),
        }
    }
}

fn pass(allow: fn(IpAddr) -> bool) -> Pass {
    let (target, asked) = (name(), RefCell::default());
    Pass {
        target,
        allow,
        asked,
    }
}

fn name() -> Name {
    Name::new("origin").unwrap()
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let bounded = async { tokio::time::timeout(Duration::from_secs(20), test).await };
    LocalSet::new()
        .block_on(&runtime, bounded)
        .expect("the test ends in time");
}

fn wires(address: SocketAddr, change: impl FnOnce(&mut Endpoint)) -> Wires<Pass> {
    let mut endpoint = Endpoint::parse(&format!("http://{address}")).unwrap();
    change(&mut endpoint);
    let targets = Arc::new(Targets::new([(name(), endpoint)]).unwrap());
    let bounds = ConnectionSettings::default();
    Wires::new(targets, Thread::new(bounds.tick_ms()), bounds)
}

/// Listens, and answers the first request of each connection with these bytes, more of them with
/// `OK`; what `close` says is closed after its first answer.
async fn origin(first: &'static [u8], close: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    spawn_local(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            spawn_local(async move {
                let mut answer = first;
                let mut bytes = [0; 4096];
                while stream.read(&mut bytes).await.unwrap_or(0) > 0 {
                    stream.write_all(answer).await.unwrap();
                    if close {
                        return;
                    }
                    answer = OK.as_bytes();
                }
            });
        }
    });
    address
}

/// One exchange; says whether the connection was a new one.
async fn ask(wires: &Wires<Pass>, permit: &Pass) -> Result<bool, SendError> {
    let mut wire = wires.take(permit, 5000).await?;
    wire.request(b"GET", b"/", b"a", NO_FIELDS, Framing::None)
        .unwrap();
    wire.end().unwrap();
    wire.flush().await.unwrap();
    assert_eq!(wire.answer().await.unwrap().status(), 200);
    assert_eq!(wire.piece().await.unwrap().unwrap(), b"ok");
    assert_eq!(wire.piece().await.unwrap(), None);
    Ok(wire.is_fresh())
}

/// Lets everything that is due happen.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_whole_exchange_leaves_a_connection_for_the_next() {
    run(async {
        let wires = wires(origin(OK.as_bytes(), false).await, |_| ());
        let permit = pass(|_| true);
        assert!(ask(&wires, &permit).await.unwrap());
        assert_eq!(wires.idle(&name()), 1);
        assert!(!ask(&wires, &permit).await.unwrap());
        // A connection that is dropped within its exchange does not come back.
        let mut wire = wires.take(&permit, 5000).await.unwrap();
        wire.request(b"GET", b"/", b"a", NO_FIELDS, Framing::None)
            .unwrap();
        drop(wire);
        assert_eq!(wires.idle(&name()), 0);
        // One that nothing was asked on does.
        drop(wires.take(&permit, 5000).await.unwrap());
        assert_eq!(wires.idle(&name()), 1);
        assert!(wires.dial(&permit, 5000).await.unwrap().is_fresh());
    });
}

#[test]
fn nothing_is_dialled_or_lent_that_the_permit_does_not_allow() {
    run(async {
        let address = origin(OK.as_bytes(), false).await;
        let wires = wires(address, |_| ());
        let no = pass(|_| false);
        assert!(matches!(ask(&wires, &no).await, Err(SendError::Refused(_))));
        assert_eq!(*no.asked.borrow(), [address.ip()]);
        assert!(ask(&wires, &pass(|_| true)).await.unwrap());
        assert_eq!(wires.idle(&name()), 1);
        // The pooled connection was allowed to another call.
        let no = pass(|_| false);
        assert!(matches!(ask(&wires, &no).await, Err(SendError::Refused(_))));
        assert_eq!(
            no.asked.borrow().len(),
            2,
            "for the pooled one and for the new one"
        );
    });
}

#[test]
fn a_connection_that_ended_or_spoke_is_not_used_again() {
    run(async {
        let unasked =
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n".as_bytes();
        let closing =
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok".as_bytes();
        for (first, close, kept) in [
            (OK.as_bytes(), true, 1),
            (unasked, false, 0),
            (closing, false, 0),
        ] {
            let wires = wires(origin(first, close).await, |_| ());
            let permit = pass(|_| true);
            assert!(ask(&wires, &permit).await.unwrap());
            assert_eq!(wires.idle(&name()), kept);
            settle().await;
            assert!(ask(&wires, &permit).await.unwrap(), "a new connection");
        }
    });
}

#[test]
fn the_pool_is_bounded_in_number_and_time() {
    run(async {
        let address = origin(OK.as_bytes(), false).await;
        let wires = wires(address, |endpoint| {
            (endpoint.idle_max, endpoint.idle_ms) = (2, 1)
        });
        let permit = pass(|_| true);
        let mut lent = Vec::new();
        for _ in 0..3 {
            lent.push(wires.take(&permit, 5000).await.unwrap());
        }
        drop(lent);
        assert_eq!(wires.idle(&name()), 2);
        while wires.idle(&name()) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn what_cannot_be_reached_says_so() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let failed = ask(&wires(address, |_| ()), &pass(|_| true)).await;
        assert!(
            matches!(failed, Err(SendError::Unreachable(_))),
            "{failed:?}"
        );
    });
}
