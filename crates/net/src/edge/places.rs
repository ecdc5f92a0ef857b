//! Who has a place at the edge, and who gives it up when there is none left.
//!
//! A connection is a stranger's until the service says that a request on it was of a known agent.
//! Strangers are bounded by address, so that one address cannot take all places. A stranger that asks nothing
//! gives up its place to whoever comes from its address at that bound, and to anyone when all are taken: the
//! longest open first. All is decided
//! under one lock, taken when a connection opens, becomes known, or closes; never for a request.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use base::limit;

use super::EdgeShared;

/// A stranger that asks nothing now.
const SILENT: u8 = 0;
/// A stranger whose request is being answered.
const BUSY: u8 = 1;
/// A stranger that has to give up its place.
const CLOSING: u8 = 2;
/// A known agent's connection.
const KNOWN: u8 = 3;

/// All strangers of an edge.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    next: u64,
    /// The longest open first.
    by_age: BTreeMap<u64, Arc<Guest>>,
    by_network: HashMap<IpAddr, usize>,
    /// Those that were told to close and have not closed yet.
    closing: usize,
}

/// What the threads know of one connection.
#[derive(Debug)]
pub(super) struct Guest {
    shared: Arc<EdgeShared>,
    age: u64,
    network: IpAddr,
    state: AtomicU8,
    /// Requests that are being answered; counted by the connection's own thread alone.
    asking: AtomicUsize,
    task: Mutex<Option<Waker>>,
}

/// A connection's part in its guest: all of it, or that of one stream of HTTP/2.
#[derive(Debug)]
pub(super) struct GuestPart {
    guest: Arc<Guest>,
    is_asking: Cell<bool>,
}

/// One connection's place.
pub(super) enum ConnectionPlace {
    /// One of all, held until it is dropped.
    Counted { _slot: ConnectionSlot },
    /// One of all, and of those of its address.
    Stranger(StrangerSlot),
}

impl ConnectionPlace {
    /// Takes a place for a connection from this address; with a bound on strangers, if need be of one that asks
    /// nothing.
    pub(super) fn take(
        shared: &Arc<EdgeShared>,
        address: IpAddr,
        connections_max: usize,
        strangers_max: Option<usize>,
    ) -> Result<ConnectionPlace, StrangersFull> {
        match strangers_max {
            None => ConnectionSlot::take(shared, connections_max)
                .map(|_slot| ConnectionPlace::Counted { _slot })
                .ok_or(StrangersFull::Everywhere),
            Some(strangers_max) => {
                StrangerSlot::take(shared, address, connections_max, strangers_max)
                    .map(ConnectionPlace::Stranger)
            }
        }
    }

    pub(super) fn guest(&self) -> Option<Arc<Guest>> {
        match self {
            ConnectionPlace::Counted { .. } => None,
            ConnectionPlace::Stranger(slot) => Some(slot.guest()),
        }
    }

    /// Waits until the connection has to close for another.
    pub(super) async fn given_up(&self) {
        match self {
            ConnectionPlace::Counted { .. } => std::future::pending().await,
            ConnectionPlace::Stranger(slot) => slot.given_up().await,
        }
    }
}

/// One of the `connections_max` places; dropping it frees it.
pub(super) struct ConnectionSlot(Arc<EdgeShared>);

impl ConnectionSlot {
    fn take(shared: &Arc<EdgeShared>, max: usize) -> Option<ConnectionSlot> {
        let place = ConnectionSlot(Arc::clone(shared));
        // Relaxed: the count guards nothing but itself.
        let before = shared.connections.fetch_add(1, Ordering::Relaxed);
        (before < max).then_some(place)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One stranger's place; dropping it frees it.
pub(super) struct StrangerSlot(Arc<Guest>);

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StrangersFull {
    /// All are taken, by agents or by requests that are being answered.
    Everywhere,
    /// The address has as many strangers as it may have, and all are being answered.
    Address,
}

impl StrangerSlot {
    /// Takes a place for a connection from this address, if need be of a stranger that asks nothing.
    pub(super) fn take(
        shared: &Arc<EdgeShared>,
        address: IpAddr,
        connections_max: usize,
        strangers_max: usize,
    ) -> Result<StrangerSlot, StrangersFull> {
        let network = base::network(address);
        let mut strangers = shared.strangers();
        let here = strangers.by_network.get(&network).copied();
        if here.unwrap_or(0) >= strangers_max {
            // Whoever comes may be an agent, and who is here asks nothing.
            let one = strangers.close_one(shared, |guest| guest.network == network);
            one.map_err(|_| StrangersFull::Address)?;
        }
        if shared.connections() >= connections_max {
            strangers.close_one(shared, |_| true)?;
        }
        shared.connections.fetch_add(1, Ordering::Relaxed);
        let age = strangers.next;
        let guest = Arc::new(Guest {
            shared: Arc::clone(shared),
            age,
            network,
            state: AtomicU8::new(SILENT),
            asking: AtomicUsize::new(0),
            task: Mutex::new(None),
        });
        strangers.next += 1;
        strangers.by_age.insert(age, Arc::clone(&guest));
        *strangers.by_network.entry(network).or_default() += 1;
        Ok(StrangerSlot(guest))
    }

    pub(super) fn guest(&self) -> Arc<Guest> {
        Arc::clone(&self.0)
    }

    /// Waits until the connection has to close for another.
    pub(super) async fn given_up(&self) {
        poll_fn(|context| {
            match self.0.state.load(Ordering::Acquire) {
                CLOSING => return Poll::Ready(()),
                KNOWN => return Poll::Pending,
                _ => {}
            }
            let mut task = self.0.task();
            let is_kept = task
                .as_ref()
                .is_some_and(|kept| kept.will_wake(context.waker()));
            if !is_kept {
                *task = Some(context.waker().clone());
            }
            drop(task);
            // Again, because it may have been told between the look and the note.
            match self.0.state.load(Ordering::Acquire) {
                CLOSING => Poll::Ready(()),
                _ => Poll::Pending,
            }
        })
        .await;
    }
}

impl Drop for StrangerSlot {
    fn drop(&mut self) {
        let shared = &self.0.shared;
        let mut strangers = shared.strangers();
        if self.0.state.load(Ordering::Acquire) == CLOSING {
            strangers.closing -= 1;
            return;
        }
        strangers.remove(&self.0);
        shared.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Guest {
    /// One more request is being answered, or one less.
    fn count(&self, is_asking: bool) {
        // The one thread that counts needs no exchange.
        let before = self.asking.load(Ordering::Relaxed);
        let now = match is_asking {
            true => before + 1,
            false => before.saturating_sub(1),
        };
        self.asking.store(now, Ordering::Relaxed);
        match (before, now) {
            (0, _) => self.change(SILENT, BUSY),
            (_, 0) => self.change(BUSY, SILENT),
            _ => false,
        };
    }

    /// A request on this connection was of a known agent.
    pub(super) fn is_known(&self) {
        if self.state.load(Ordering::Acquire) == KNOWN {
            return;
        }
        let mut strangers = self.shared.strangers();
        if strangers.remove(self) {
            self.state.store(KNOWN, Ordering::Release);
        }
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn task(&self) -> MutexGuard<'_, Option<Waker>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GuestPart {
    pub(super) fn new(guest: Arc<Guest>) -> GuestPart {
        GuestPart {
            guest,
            is_asking: Cell::new(false),
        }
    }

    /// A request has come. False where the connection has to close: then it must not be answered.
    pub(super) fn asks(&self) -> bool {
        self.is_busy();
        self.guest.state.load(Ordering::Acquire) != CLOSING
    }

    /// Nothing is being answered, or the client does not take its answer.
    pub(super) fn is_silent(&self) {
        if self.is_asking.replace(false) {
            self.guest.count(false);
        }
    }

    /// The client takes its answer again.
    pub(super) fn is_busy(&self) {
        if !self.is_asking.replace(true) {
            self.guest.count(true);
        }
    }

    /// A request on this connection was of a known agent.
    pub(super) fn is_known(&self) {
        self.guest.is_known();
    }
}

impl Drop for GuestPart {
    fn drop(&mut self) {
        self.is_silent();
    }
}

impl Strangers {
    /// Tells the longest open stranger that asks nothing, among those that `may` be told, to close, and takes
    /// its place away.
    fn close_one(
        &mut self,
        shared: &EdgeShared,
        may: impl Fn(&Guest) -> bool,
    ) -> Result<(), StrangersFull> {
        if self.closing >= limit::CLOSING_MAX {
            return Err(StrangersFull::Everywhere);
        }
        let mut oldest = self.by_age.values();
        // The exchange decides: a request that has come just now is answered.
        let guest = oldest.find(|guest| may(guest) && guest.change(SILENT, CLOSING));
        let guest = guest.cloned();
        let guest = guest.ok_or(StrangersFull::Everywhere)?;
        self.remove(&guest);
        self.closing += 1;
        shared.connections.fetch_sub(1, Ordering::Relaxed);
        shared.closed_silent.fetch_add(1, Ordering::Relaxed);
        if let Some(task) = guest.task().take() {
            task.wake();
        }
        Ok(())
    }

    /// Strikes a connection off. False where it is no stranger's any more.
    fn remove(&mut self, guest: &Guest) -> bool {
        if self.by_age.remove(&guest.age).is_none() {
            return false;
        }
        if let Some(here) = self.by_network.get_mut(&guest.network) {
            *here -= 1;
            if *here == 0 {
                self.by_network.remove(&guest.network);
            }
        }
        true
    }
}

impl EdgeShared {
    fn strangers(&self) -> MutexGuard<'_, Strangers> {
        // What is done under the lock cannot panic half-way, so a poisoned lock is still right.
        self.strangers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says that a request came on this connection, and that it is being answered until its part is dropped.
    fn asks(seat: &StrangerSlot) -> GuestPart {
        let part = GuestPart::new(seat.guest());
        assert!(part.asks());
        part
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_has_a_bound_that_known_connections_do_not_count_for() {
        let (shared, max) = (Arc::default(), (100, 2));
        let take = |address| StrangerSlot::take(&shared, ip(address), max.0, max.1);
        let first = take("2001:db8::1").unwrap();
        let second = take("2001:db8::2:1").unwrap();
        let _asking = (asks(&first), asks(&second));
        assert_eq!(take("2001:db8::3").err(), Some(StrangersFull::Address));
        let _other = take("2001:db8:0:1::1").unwrap();
        first.guest().is_known();
        let third = take("2001:db8::3").unwrap();
        let _third = asks(&third);
        assert_eq!(take("2001:db8::4").err(), Some(StrangersFull::Address));
        drop(first);
        assert_eq!(take("2001:db8::4").err(), Some(StrangersFull::Address));
        assert_eq!(shared.connections(), 3);
    }

    #[test]
    fn at_the_bound_of_an_address_the_oldest_of_it_that_is_silent_gives_way() {
        let (shared, max) = (Arc::default(), (100, 2));
        let take = |address| StrangerSlot::take(&shared, ip(address), max.0, max.1);
        let closing = |seat: &StrangerSlot| seat.0.state.load(Ordering::Relaxed) == CLOSING;
        let other = take("192.0.2.9").unwrap();
        let busy = take("192.0.2.1").unwrap();
        let _asking = asks(&busy);
        let silent = take("192.0.2.1").unwrap();
        let _new = take("192.0.2.1").unwrap();
        assert!(closing(&silent) && !closing(&busy) && !closing(&other));
        assert_eq!(shared.connections(), 3);
    }

    #[test]
    fn the_oldest_silent_stranger_gives_up_its_place() {
        let (shared, max) = (Arc::default(), (3, 3));
        let take = |address| StrangerSlot::take(&shared, ip(address), max.0, max.1);
        let closing = |seat: &StrangerSlot| seat.0.state.load(Ordering::Relaxed) == CLOSING;
        let known = take("192.0.2.1").unwrap();
        known.guest().is_known();
        let busy = take("192.0.2.1").unwrap();
        let asking = asks(&busy);
        let silent = take("192.0.2.1").unwrap();
        let newer = take("192.0.2.2").unwrap();
        assert!(closing(&silent) && !closing(&busy) && !closing(&known));
        assert!(!GuestPart::new(silent.guest()).asks(), "too late");
        let _newer = asks(&newer);
        assert_eq!(take("192.0.2.3").err(), Some(StrangersFull::Everywhere));
        drop(asking);
        let last = take("192.0.2.3").unwrap();
        assert!(closing(&busy) && !closing(&newer));
        drop((silent, busy));
        assert_eq!((shared.connections(), shared.closed_silent()), (3, 2));
        drop((known, newer, last));
        assert_eq!(shared.connections(), 0);
        let strangers = shared.strangers();
        assert!(strangers.by_age.is_empty() && strangers.by_network.is_empty());
        assert_eq!(strangers.closing, 0);
    }

    #[test]
    fn a_connection_is_silent_once_all_of_its_streams_are() {
        let shared = Arc::default();
        let seat = StrangerSlot::take(&shared, ip("192.0.2.1"), 1, 1).unwrap();
        let state = || seat.0.state.load(Ordering::Relaxed);
        let (one, other) = (asks(&seat), asks(&seat));
        one.is_silent();
        one.is_silent();
        assert_eq!(state(), BUSY);
        one.is_busy();
        drop(other);
        assert_eq!(state(), BUSY);
        drop(one);
        assert_eq!(state(), SILENT);
    }

    #[test]
    fn threads_count_exactly() {
        let (shared, max) = (Arc::default(), (1000, 64));
        let taken = AtomicUsize::new(0);
        let seats: Vec<Vec<StrangerSlot>> = std::thread::scope(|scope| {
            let take = || {
                let seats = (0..50)
                    .filter_map(|_| StrangerSlot::take(&shared, ip("::1"), max.0, max.1).ok());
                let seats: Vec<StrangerSlot> = seats.collect();
                taken.fetch_add(seats.len(), Ordering::Relaxed);
                seats
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        // Those above the bound took the places of others.
        assert!(taken.into_inner() >= 64);
        assert_eq!(shared.connections(), 64);
        drop(seats);
        assert_eq!(shared.connections(), 0);
    }
}
