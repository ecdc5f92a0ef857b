//! From names to addresses: each name is asked for once at a time, and its addresses are kept for a short while.
//!
//! An agent that may name sites must not be able to make a lookup of each call, nor thousands at once. What is kept
//! allows nothing: the permit of each call is asked about each address again. Failures are not kept.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use base::limit;
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_local;
use tokio::time::Instant;

/// The port is the caller's to set.
const NO_PORT: u16 = 0;

/// The addresses of a name, without a port, or why there are none.
type Addresses = Result<Rc<[SocketAddr]>, Rc<str>>;
type LocalLookup = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>>>>;

/// The names that one thread asked for lately.
#[derive(Clone)]
pub(crate) struct Resolver(Rc<ResolverState>);

struct ResolverState {
    names: RefCell<HashMap<Rc<str>, ResolvedName>>,
    lookups: Semaphore,
    lookup: Box<dyn Fn(Rc<str>) -> LocalLookup>,
}

enum ResolvedName {
    /// Being asked for: all who want it wait for the same answer.
    Pending(watch::Receiver<Option<Addresses>>),
    Known {
        addresses: Rc<[SocketAddr]>,
        until: Instant,
    },
}

impl Resolver {
    /// Asks the system: its `hosts` file and its name servers.
    pub(crate) fn new() -> Resolver {
        Resolver::with(|name| Box::pin(ask_system(name)))
    }

    fn with(lookup: impl Fn(Rc<str>) -> LocalLookup + 'static) -> Resolver {
        Resolver(Rc::new(ResolverState {
            names: RefCell::default(),
            lookups: Semaphore::new(limit::RESOLVING_MAX),
            lookup: Box::new(lookup),
        }))
    }

    /// The addresses of a host, at least one: itself if it is one, else those that its name has or had at most
    /// `RESOLVED_MS` ago. Waits as long as the lookup does: whoever calls sets a bound.
    pub(crate) async fn addresses(&self, host: &str) -> Addresses {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok([SocketAddr::new(address, NO_PORT)].into());
        }
        let mut pending = match self.known(host) {
            Some(ResolvedName::Known { addresses, .. }) => return Ok(addresses),
            Some(ResolvedName::Pending(pending)) => pending,
            None => self.begin(host)?,
        };
        let gone = || Rc::from("the lookup was given up");
        let answer = pending
            .wait_for(Option::is_some)
            .await
            .map_err(|_| gone())?;
        answer.clone().unwrap_or_else(|| Err(gone()))
    }

    /// Forgets the addresses of a host, so that the next call asks for them.
    pub(crate) fn forget(&self, host: &str) {
        let mut names = self.0.names.borrow_mut();
        if let Some(ResolvedName::Known { .. }) = names.get(host) {
            names.remove(host);
        }
    }

    fn known(&self, host: &str) -> Option<ResolvedName> {
        match self.0.names.borrow().get(host)? {
            ResolvedName::Pending(pending) => Some(ResolvedName::Pending(pending.clone())),
            ResolvedName::Known { until, .. } if *until <= Instant::now() => None,
            ResolvedName::Known { addresses, until } => Some(ResolvedName::Known {
                addresses: Rc::clone(addresses),
                until: *until,
            }),
        }
    }

    /// Begins to ask for a name. A task of its own does, so that the answer comes to the others if the first one who
    /// wanted it goes.
    fn begin(&self, host: &str) -> Result<watch::Receiver<Option<Addresses>>, Rc<str>> {
        self.make_room()?;
        let name: Rc<str> = host.into();
        let (sender, pending) = watch::channel(None);
        let entry = ResolvedName::Pending(pending.clone());
        self.0.names.borrow_mut().insert(Rc::clone(&name), entry);
        spawn_local(look_up(self.clone(), name, sender));
        Ok(pending)
    }

    /// Makes room for one more name: first those go that are too old, then the oldest one.
    fn make_room(&self) -> Result<(), Rc<str>> {
        let mut names = self.0.names.borrow_mut();
        if names.len() < limit::RESOLVED_MAX {
            return Ok(());
        }
        let now = Instant::now();
        names.retain(|_, name| !matches!(name, ResolvedName::Known { until, .. } if *until <= now));
        if names.len() < limit::RESOLVED_MAX {
            return Ok(());
        }
        let known = names.iter().filter_map(|(name, entry)| match entry {
            ResolvedName::Known { until, .. } => Some((*until, Rc::clone(name))),
            ResolvedName::Pending(_) => None,
        });
        let oldest = known.min_by_key(|(until, _)| *until);
        let (_, oldest) = oldest.ok_or("too many names are being looked up")?;
        names.remove(&oldest);
        Ok(())
    }
}

async fn look_up(resolver: Resolver, name: Rc<str>, sender: watch::Sender<Option<Addresses>>) {
    let Resolver(state) = &resolver;
    let permit = state.lookups.acquire().await;
    // One receiver is the table's. Nobody waits any more for a name that stood in the queue for too long.
    if permit.is_err() || sender.receiver_count() <= 1 {
        state.names.borrow_mut().remove(&name);
        return;
    }
    let found = (state.lookup)(Rc::clone(&name)).await;
    drop(permit);
    let answer = match found {
        Ok(addresses) if addresses.is_empty() => Err(Rc::from("no address")),
        Ok(addresses) => Ok(Rc::from(addresses)),
        Err(error) => Err(Rc::from(error.to_string())),
    };
    match &answer {
        Ok(addresses) => {
            let entry = ResolvedName::Known {
                addresses: Rc::clone(addresses),
                until: Instant::now() + Duration::from_millis(limit::RESOLVED_MS),
            };
            state.names.borrow_mut().insert(name, entry);
        }
        Err(_) => {
            state.names.borrow_mut().remove(&name);
        }
    }
    sender.send_replace(Some(answer));
}

async fn ask_system(name: Rc<str>) -> io::Result<Vec<SocketAddr>> {
    let found = tokio::net::lookup_host((&*name, NO_PORT)).await?;
    Ok(found.take(limit::DIAL_ADDRESSES_MAX).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::net::Ipv4Addr;

    use tokio::task::LocalSet;

    use super::*;

    /// Runs a test whose clock stands still but for waits: then it jumps.
    pub(in crate::dial) fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        LocalSet::new().block_on(&runtime, test);
    }

    /// A resolver whose lookups get these answers in turn, and how many there were.
    pub(in crate::dial) fn scripted(
        answers: Vec<Result<Vec<SocketAddr>, &'static str>>,
    ) -> (Resolver, Rc<Cell<usize>>) {
        let asked = Rc::new(Cell::new(0));
        let (count, answers) = (Rc::clone(&asked), RefCell::new(VecDeque::from(answers)));
        let resolver = Resolver::with(move |_| {
            count.set(count.get() + 1);
            let answer = answers.borrow_mut().pop_front().expect("no more lookups");
            Box::pin(async move {
                tokio::time::sleep(Duration::from_millis(100)).await;
                answer.map_err(io::Error::other)
            })
        });
        (resolver, asked)
    }

    fn address(last: u8) -> SocketAddr {
        (Ipv4Addr::new(192, 0, 2, last), NO_PORT).into()
    }

    #[test]
    fn a_name_is_asked_again_after_30_s() {
        run(async {
            let answers = vec![Ok(vec![address(1)]), Ok(vec![address(2)])];
            let (resolver, asked) = scripted(answers);
            assert_eq!(
                *resolver.addresses("a.example").await.unwrap(),
                [address(1)]
            );
            tokio::time::sleep(Duration::from_millis(29_999)).await;
            assert_eq!(
                *resolver.addresses("a.example").await.unwrap(),
                [address(1)]
            );
            assert_eq!(asked.get(), 1);
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert_eq!(
                *resolver.addresses("a.example").await.unwrap(),
                [address(2)]
            );
            assert_eq!(asked.get(), 2);
        });
    }

    #[test]
    fn all_who_want_a_name_at_once_wait_for_one_lookup() {
        run(async {
            let (resolver, asked) = scripted(vec![Ok(vec![address(1)])]);
            // The first one gives up; the others have their answer all the same.
            let wait = Duration::from_millis(10);
            let given_up = tokio::time::timeout(wait, resolver.addresses("a.example")).await;
            assert!(given_up.is_err());
            let (one, two) = tokio::join!(
                resolver.addresses("a.example"),
                resolver.addresses("a.example")
            );
            assert_eq!(
                (&*one.unwrap(), &*two.unwrap()),
                (&[address(1)][..], &[address(1)][..])
            );
            assert_eq!(asked.get(), 1);
        });
    }

    #[test]
    fn failures_and_literal_addresses_are_not_kept() {
        run(async {
            let answers = vec![Err("no such name"), Ok(vec![]), Ok(vec![address(1)])];
            let (resolver, asked) = scripted(answers);
            let failed = resolver.addresses("a.example").await;
            assert_eq!(&*failed.unwrap_err(), "no such name");
            let none = resolver.addresses("a.example").await;
            assert_eq!(&*none.unwrap_err(), "no address");
            assert_eq!(
                *resolver.addresses("a.example").await.unwrap(),
                [address(1)]
            );
            assert_eq!(asked.get(), 3);
            let (resolver, asked) = scripted(Vec::new());
            assert_eq!(
                *resolver.addresses("192.0.2.7").await.unwrap(),
                [address(7)]
            );
            assert!(
                resolver.addresses("::1").await.unwrap()[0]
                    .ip()
                    .is_loopback()
            );
            assert_eq!((asked.get(), resolver.0.names.borrow().len()), (0, 0));
        });
    }

    #[test]
    fn names_and_lookups_are_bounded_in_number() {
        run(async {
            let (running, most) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            let counts = (Rc::clone(&running), Rc::clone(&most));
            let resolver = Resolver::with(move |_| {
                let (running, most) = (Rc::clone(&counts.0), Rc::clone(&counts.1));
                Box::pin(async move {
                    running.set(running.get() + 1);
                    most.set(running.get().max(most.get()));
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    running.set(running.get() - 1);
                    Ok(vec![address(1)])
                })
            });
            let waiting: Vec<_> = (0..limit::RESOLVED_MAX)
                .map(|number| {
                    let resolver = resolver.clone();
                    spawn_local(
                        async move { resolver.addresses(&format!("{number}.example")).await },
                    )
                })
                .collect();
            while resolver.0.names.borrow().len() < limit::RESOLVED_MAX {
                tokio::task::yield_now().await;
            }
            let refused = resolver.addresses("one.more.example").await;
            assert_eq!(&*refused.unwrap_err(), "too many names are being looked up");
            for waiting in waiting {
                waiting.await.unwrap().unwrap();
            }
            assert_eq!(most.get(), limit::RESOLVING_MAX);
            // The table is full of names that are known: the oldest gives its room.
            resolver.addresses("one.more.example").await.unwrap();
            assert_eq!(resolver.0.names.borrow().len(), limit::RESOLVED_MAX);
        });
    }
}
