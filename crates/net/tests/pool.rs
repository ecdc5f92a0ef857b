//! The pool, with real sockets: who may be dialled, what is used again, what is not, and how much is kept.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base::{CallId, Destination, Name, Permit, Refusal, Resource, Site, limit, refusal};
use net::h1::{ConnectionSettings, Framing, Thread};
use net::{Endpoint, SendError, Targets, Upstreams};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::{LocalSet, spawn_local};

const NO_FIELDS: [(&[u8], &[u8]); 0] = [];
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Allows what the test says, and remembers what it was asked.
struct Pass {
    target: Resource,
    allow: fn(IpAddr) -> bool,
    asked: RefCell<Vec<IpAddr>>,
}

impl Permit for Pass {
    fn call(&self) -> CallId {
        CallId([1; 16])
    }

    fn destination(&self) -> Destination<'_> {
        self.target.destination()
    }

    fn dial(&self, address: IpAddr) -> Result<(), Refusal> {
        self.asked.borrow_mut().push(address);
        match (self.allow)(address) {
            true => Ok(()),
            false => Err(Refusal::new(refusal::ADDRESS, format!("not {address}"))),
        }
    }

    fn in_force(&self) -> Result<(), Refusal> {
        Ok(())
    }
}

fn pass(allow: fn(IpAddr) -> bool) -> Pass {
    Pass {
        target: Resource::server(name()),
        allow,
        asked: RefCell::default(),
    }
}

/// Allows a call to a site that an agent named.
fn pass_to(address: SocketAddr) -> Pass {
    let site = Site {
        scheme: "http".into(),
        host: address.ip().to_string().into(),
        port: address.port(),
        path: "/".into(),
    };
    Pass {
        target: Resource::Site(site),
        ..pass(|_| true)
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

fn upstreams(address: SocketAddr, change: impl FnOnce(&mut Endpoint)) -> Upstreams<Pass> {
    let mut endpoint = Endpoint::parse(&format!("http://{address}")).unwrap();
    change(&mut endpoint);
    with([(name(), endpoint)])
}

fn with(endpoints: impl IntoIterator<Item = (Name, Endpoint)>) -> Upstreams<Pass> {
    let targets = Arc::new(Targets::new(endpoints).unwrap());
    let bounds = ConnectionSettings::default();
    Upstreams::new(targets, Thread::new(bounds.tick_ms()), bounds)
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
async fn ask(upstreams: &Upstreams<Pass>, permit: &Pass) -> Result<bool, SendError> {
    let mut wire = upstreams.take(permit, 5000).await?;
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
        let upstreams = upstreams(origin(OK.as_bytes(), false).await, |_| ());
        let permit = pass(|_| true);
        assert!(ask(&upstreams, &permit).await.unwrap());
        assert_eq!(upstreams.idle(&name()), 1);
        assert!(!ask(&upstreams, &permit).await.unwrap());
        // A connection that is dropped within its exchange does not come back.
        let mut wire = upstreams.take(&permit, 5000).await.unwrap();
        wire.request(b"GET", b"/", b"a", NO_FIELDS, Framing::None)
            .unwrap();
        drop(wire);
        assert_eq!(upstreams.idle(&name()), 0);
        // One that nothing was asked on does.
        drop(upstreams.take(&permit, 5000).await.unwrap());
        assert_eq!(upstreams.idle(&name()), 1);
        assert!(upstreams.dial(&permit, 5000).await.unwrap().is_fresh());
    });
}

#[test]
fn nothing_is_dialled_or_lent_that_the_permit_does_not_allow() {
    run(async {
        let address = origin(OK.as_bytes(), false).await;
        let upstreams = upstreams(address, |_| ());
        let no = pass(|_| false);
        assert!(matches!(
            ask(&upstreams, &no).await,
            Err(SendError::Refused(_))
        ));
        assert_eq!(*no.asked.borrow(), [address.ip()]);
        assert!(ask(&upstreams, &pass(|_| true)).await.unwrap());
        assert_eq!(upstreams.idle(&name()), 1);
        // The pooled connection was allowed to another call.
        let no = pass(|_| false);
        assert!(matches!(
            ask(&upstreams, &no).await,
            Err(SendError::Refused(_))
        ));
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
            let upstreams = upstreams(origin(first, close).await, |_| ());
            let permit = pass(|_| true);
            assert!(ask(&upstreams, &permit).await.unwrap());
            assert_eq!(upstreams.idle(&name()), kept);
            settle().await;
            assert!(ask(&upstreams, &permit).await.unwrap(), "a new connection");
        }
    });
}

#[test]
fn the_pool_is_bounded_in_number_and_time() {
    run(async {
        let address = origin(OK.as_bytes(), false).await;
        let upstreams = upstreams(address, |endpoint| {
            (endpoint.idle_max, endpoint.idle_ms) = (2, 1)
        });
        let permit = pass(|_| true);
        let mut lent = Vec::new();
        for _ in 0..3 {
            lent.push(upstreams.take(&permit, 5000).await.unwrap());
        }
        drop(lent);
        assert_eq!(upstreams.idle(&name()), 2);
        while upstreams.idle(&name()) > 0 {
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
        let failed = ask(&upstreams(address, |_| ()), &pass(|_| true)).await;
        assert!(
            matches!(failed, Err(SendError::Unreachable(_))),
            "{failed:?}"
        );
    });
}

/// Listens, answers `ok` to everything, and counts the connections that are open.
async fn counted_origin(open: &Rc<Cell<usize>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let open = Rc::clone(open);
    spawn_local(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let open = Rc::clone(&open);
            open.set(open.get() + 1);
            spawn_local(async move {
                let mut bytes = [0; 4096];
                while stream.read(&mut bytes).await.unwrap_or(0) > 0 {
                    stream.write_all(OK.as_bytes()).await.unwrap();
                }
                open.set(open.get() - 1);
            });
        }
    });
    address
}

/// Waits until so many connections are open, and sees that none of those closes.
async fn are_open(open: &Cell<usize>, connections: usize) {
    while open.get() != connections {
        tokio::task::yield_now().await;
    }
    settle().await;
    assert_eq!(open.get(), connections);
}

/// Dials so many connections to each site at once, and gives them back.
async fn keep_some(upstreams: &Upstreams<Pass>, sites: &[Pass], connections: usize) {
    for site in sites {
        let mut lent = Vec::new();
        for _ in 0..connections {
            lent.push(upstreams.dial(site, 5000).await.unwrap());
        }
    }
}

#[test]
fn sites_are_bounded_in_number() {
    run(async {
        let open = Rc::new(Cell::new(0));
        let mut sites = Vec::new();
        for _ in 0..limit::SITES_POOLED_MAX + 8 {
            sites.push(pass_to(counted_origin(&open).await));
        }
        let upstreams = with([]);
        for site in &sites {
            assert!(ask(&upstreams, site).await.unwrap(), "each is dialled");
        }
        are_open(&open, limit::SITES_POOLED_MAX).await;
        assert!(
            !ask(&upstreams, &sites[8]).await.unwrap(),
            "it was used lately"
        );
        assert!(ask(&upstreams, &sites[0]).await.unwrap(), "it made room");
        assert!(
            ask(&upstreams, &sites[9]).await.unwrap(),
            "and so did this one now"
        );
        assert!(
            !ask(&upstreams, &sites[8]).await.unwrap(),
            "it was used after that"
        );
        drop(upstreams);
        are_open(&open, 0).await;

        let upstreams = with([]);
        keep_some(&upstreams, &sites[..1], limit::SITE_IDLE_MAX + 2).await;
        are_open(&open, limit::SITE_IDLE_MAX).await;
        let enough = limit::SITES_IDLE_MAX / limit::SITE_IDLE_MAX + 2;
        keep_some(&upstreams, &sites[..enough], limit::SITE_IDLE_MAX).await;
        are_open(&open, limit::SITES_IDLE_MAX).await;
    });
}

#[test]
fn a_site_is_dialled_and_used_again_by_permits_that_allow_its_address() {
    run(async {
        let address = origin(OK.as_bytes(), false).await;
        let upstreams = with([]);
        let permit = pass_to(address);
        assert!(ask(&upstreams, &permit).await.unwrap());
        assert!(!ask(&upstreams, &permit).await.unwrap());
        assert_eq!(*permit.asked.borrow(), [address.ip(); 2]);
        let no = Pass {
            allow: |_| false,
            ..pass_to(address)
        };
        assert!(matches!(
            ask(&upstreams, &no).await,
            Err(SendError::Refused(_))
        ));
        let Resource::Site(mut site) = pass_to(address).target else {
            unreachable!("it is one");
        };
        site.scheme = "ftp".into();
        let ftp = Pass {
            target: Resource::Site(site),
            ..pass(|_| true)
        };
        let failed = ask(&upstreams, &ftp).await;
        assert!(
            matches!(failed, Err(SendError::Unreachable(_))),
            "{failed:?}"
        );
        assert_eq!(ftp.asked.borrow().len(), 0, "nothing was dialled");
    });
}

#[test]
fn targets_that_follow_keep_the_connections_of_what_is_the_same() {
    run(async {
        let (one, other) = (
            origin(OK.as_bytes(), false).await,
            origin(OK.as_bytes(), false).await,
        );
        let at = |address: SocketAddr| Endpoint::parse(&format!("http://{address}")).unwrap();
        let same = Arc::new(Targets::new([(name(), at(one))]).unwrap());
        let bounds = ConnectionSettings::default();
        let first = Upstreams::new(Arc::clone(&same), Thread::new(bounds.tick_ms()), bounds);
        assert!(ask(&first, &pass(|_| true)).await.unwrap());
        let more = (Name::new("more").unwrap(), at(other));
        let next = Arc::new(same.next([(name(), at(one)), more]).unwrap());
        let second = first.to(Arc::clone(&next));
        assert_eq!(second.idle(&name()), 1);
        assert!(!ask(&second, &pass(|_| true)).await.unwrap());
        // Another address is another target, and whoever has the targets before goes on with these.
        let third = second.to(Arc::new(next.next([(name(), at(other))]).unwrap()));
        assert_eq!((third.idle(&name()), first.idle(&name())), (0, 1));
        assert!(ask(&third, &pass(|_| true)).await.unwrap());
        assert!(!ask(&first, &pass(|_| true)).await.unwrap());
        let bad = Endpoint {
            host: "not a host".into(),
            ..at(one)
        };
        assert!(next.next([(name(), bad)]).is_err());
    });
}
