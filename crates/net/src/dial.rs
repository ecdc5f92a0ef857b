//! A new connection to a target: name, addresses, permit, TCP, TLS. The one dial of this crate.
//!
//! The permit is asked for each address that the name resolved to, and the connection is made to exactly the
//! address it said yes to (I-04). An address that is kept from an earlier call is asked about again.

mod resolve;
mod targets;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base::{Destination, Permit, Refusal, limit, refusal};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::{TlsConnector, TlsStream};

pub(crate) use resolve::Resolver;
pub(crate) use targets::{DialTarget, ShelfKey};
pub use targets::{Endpoint, EndpointError, Scheme, TargetError, Targets};

use crate::h1::Stream;
use crate::own;
use crate::send::SendError;

/// Dials a target, within `DIAL_MS_MAX` and the deadline.
pub(crate) async fn dial<P: Permit>(
    target: &DialTarget,
    permit: &P,
    resolver: &Resolver,
    deadline: Instant,
) -> Result<(Stream, IpAddr), SendError> {
    let dial_deadline = Instant::now() + Duration::from_millis(limit::DIAL_MS_MAX);
    let until = dial_deadline.min(deadline);
    let late = if deadline < dial_deadline {
        SendError::Slow
    } else {
        SendError::Unreachable(format!("no connection within {} ms", limit::DIAL_MS_MAX))
    };
    tokio::time::timeout_at(until, connect(target, permit, resolver, until))
        .await
        .unwrap_or(Err(late))
}

async fn connect<P: Permit>(
    target: &DialTarget,
    permit: &P,
    resolver: &Resolver,
    until: Instant,
) -> Result<(Stream, IpAddr), SendError> {
    let (host, port) = (target.endpoint.host.as_str(), target.endpoint.port);
    let found = resolver.addresses(host).await;
    let found = found.map_err(|why| SendError::Unreachable(format!("{host}: {why}")))?;
    let addresses = judge(&found, permit).map_err(SendError::Refused)?;
    let mut failure = String::new();
    for (tried, mut address) in addresses.iter().copied().enumerate() {
        address.set_port(port);
        // Each address has its share of what is left, so that a silent one cannot use up all of it.
        let left = until.saturating_duration_since(Instant::now());
        let share = left / (addresses.len() - tried) as u32;
        let is_named = matches!(permit.destination(), Destination::Site(_));
        match tokio::time::timeout(share, open(target, address, is_named)).await {
            Ok(Ok(stream)) => return Ok((stream, address.ip())),
            Ok(Err(OpenError::Own)) => return Err(SendError::Refused(own_place())),
            Ok(Err(OpenError::Failed(error))) => failure = format!("{address}: {error}"),
            Err(_) => failure = format!("{address}: no answer"),
        }
    }
    // The name may have moved since its addresses were kept.
    resolver.forget(host);
    Err(SendError::Unreachable(failure))
}

/// The addresses that the permit allows; if there is none, its reason.
fn judge<P: Permit>(addresses: &[SocketAddr], permit: &P) -> Result<Vec<SocketAddr>, Refusal> {
    let mut allowed = Vec::with_capacity(addresses.len());
    let mut refusal = None;
    for address in addresses {
        match permit.dial(address.ip()) {
            Ok(()) => allowed.push(*address),
            Err(no) => refusal = refusal.or(Some(no)),
        }
    }
    match refusal {
        Some(refusal) if allowed.is_empty() => Err(refusal),
        _ => Ok(allowed),
    }
}

/// Why there is no connection to an address.
enum OpenError {
    /// It ends in this process.
    Own,
    Failed(String),
}

fn own_place() -> Refusal {
    let public = "the address is one at which this gateway listens itself";
    Refusal::new(refusal::ADDRESS, public)
}

/// Connects to one address that the permit allowed. One that an agent named is none of this process' own.
async fn open(
    target: &DialTarget,
    address: SocketAddr,
    is_named: bool,
) -> Result<Stream, OpenError> {
    let failed = |error: std::io::Error| OpenError::Failed(error.to_string());
    let stream = TcpStream::connect(address).await.map_err(failed)?;
    if is_named && own::is_own(&stream) {
        return Err(OpenError::Own);
    }
    stream.set_nodelay(true).map_err(failed)?;
    let Some(tls) = &target.tls else {
        return Ok(Stream::Tcp(stream));
    };
    let connector = TlsConnector::from(tls.config());
    let stream = connector.connect(tls.server.clone(), stream).await;
    let stream = stream.map_err(|error| OpenError::Failed(format!("TLS: {error}")))?;
    Ok(Stream::Tls(Box::new(TlsStream::Client(stream))))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::net::Ipv4Addr;

    use base::{CallId, Name};

    use super::*;

    /// Allows what the test says, and remembers what it was asked.
    struct Pass {
        target: Name,
        allows: bool,
        asked: RefCell<Vec<IpAddr>>,
    }

    impl Permit for Pass {
        fn call(&self) -> CallId {
            CallId([1; 16])
        }

        fn destination(&self) -> Destination<'_> {
            Destination::Configured(&self.target)
        }

        fn dial(&self, address: IpAddr) -> Result<(), Refusal> {
            self.asked.borrow_mut().push(address);
            match self.allows {
                true => Ok(()),
                false => Err(Refusal::new(refusal::ADDRESS, "not there")),
            }
        }

        fn in_force(&self) -> Result<(), Refusal> {
            Ok(())
        }
    }

    fn pass(allows: bool) -> Pass {
        Pass {
            target: Name::new("tracker").unwrap(),
            allows,
            asked: RefCell::default(),
        }
    }

    #[test]
    fn a_kept_address_is_judged_anew() {
        let home = IpAddr::V4(Ipv4Addr::LOCALHOST);
        resolve::tests::run(async move {
            let listener = tokio::net::TcpListener::bind((home, 0)).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let (resolver, asked) = resolve::tests::scripted(vec![Ok(vec![(home, 0).into()])]);
            let endpoint = Endpoint::parse(&format!("http://tracker.example:{port}/")).unwrap();
            let targets = Targets::new([(Name::new("tracker").unwrap(), endpoint)]).unwrap();
            let target = targets.get(&Name::new("tracker").unwrap()).unwrap();
            let deadline = Instant::now() + Duration::from_secs(1);
            for allows in [true, false, true] {
                let permit = pass(allows);
                let dialled = dial(target, &permit, &resolver, deadline).await;
                assert_eq!(*permit.asked.borrow(), [home]);
                match dialled {
                    Ok((_, address)) => assert!(allows && address == home),
                    Err(error) => {
                        assert!(!allows && matches!(error, SendError::Refused(_)), "{error}");
                    }
                }
            }
            assert_eq!(asked.get(), 1, "the name was asked for once");
        });
    }

    #[test]
    fn a_name_whose_addresses_take_no_connection_is_asked_again() {
        let home = IpAddr::V4(Ipv4Addr::LOCALHOST);
        resolve::tests::run(async move {
            let listener = tokio::net::TcpListener::bind((home, 0)).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            drop(listener);
            let answers = vec![Ok(vec![(home, 0).into()]), Ok(vec![(home, 0).into()])];
            let (resolver, asked) = resolve::tests::scripted(answers);
            let endpoint = Endpoint::parse(&format!("http://tracker.example:{port}/")).unwrap();
            let targets = Targets::new([(Name::new("tracker").unwrap(), endpoint)]).unwrap();
            let target = targets.get(&Name::new("tracker").unwrap()).unwrap();
            for times in 1..=2 {
                let deadline = Instant::now() + Duration::from_secs(1);
                let dialled = dial(target, &pass(true), &resolver, deadline).await;
                assert!(matches!(dialled, Err(SendError::Unreachable(_))));
                assert_eq!(asked.get(), times);
            }
        });
    }
}
