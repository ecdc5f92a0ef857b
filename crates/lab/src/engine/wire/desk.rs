//! Who sends what next: places in connections on one side, arrivals on the other.
//!
//! A closed place makes its own work as long as the level reaches its connection. An open place waits for an
//! arrival; arrivals wait for a place in a bounded queue, and are dropped when it is full. Everything is on one
//! thread, so nothing is locked.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::task::{Poll, Waker};

/// One request to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its number in the flow.
    pub number: u64,
    /// When it is due, in nanoseconds from the start.
    pub intended_ns: u64,
}

/// What became of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// A place takes it now.
    Taken,
    /// It waits for a place.
    Queued,
    /// The queue is full.
    Dropped,
}

/// The desk of one thread.
#[derive(Default)]
pub struct Desk {
    state: RefCell<State>,
    queue_max: usize,
}

#[derive(Default)]
struct State {
    places: Vec<Place>,
    /// Places that wait for an arrival, the longest waiting first.
    free: VecDeque<usize>,
    queue: VecDeque<Job>,
    /// No more arrivals come.
    over: bool,
}

#[derive(Default)]
struct Place {
    waker: Option<Waker>,
    /// An arrival that was given to it.
    job: Option<Job>,
    free: bool,
}

impl Desk {
    /// A desk of so many places, all of them free, and a queue for so many arrivals.
    pub fn new(places: usize, queue_max: usize) -> Desk {
        let mut state = State {
            free: (0..places).collect(),
            ..State::default()
        };
        state.places.resize_with(places, || Place {
            free: true,
            ..Place::default()
        });
        Desk {
            state: RefCell::new(state),
            queue_max,
        }
    }

    /// Remembers whom to wake for a place.
    pub fn watch(&self, place: usize, waker: &Waker) {
        let mut state = self.state.borrow_mut();
        match &mut state.places[place].waker {
            Some(old) if old.will_wake(waker) => {}
            slot => *slot = Some(waker.clone()),
        }
    }

    /// Wakes some places, so that they look at the clock again.
    pub fn wake(&self, which: impl Fn(usize) -> bool) {
        let state = self.state.borrow();
        let places = state.places.iter().enumerate();
        for (_, place) in places.filter(|(number, _)| which(*number)) {
            if let Some(waker) = &place.waker {
                waker.wake_by_ref();
            }
        }
    }

    /// Gives an arrival to a free place or to the queue.
    pub fn offer(&self, job: Job) -> Offered {
        let mut state = self.state.borrow_mut();
        if let Some(free) = state.free.pop_front() {
            let place = &mut state.places[free];
            place.job = Some(job);
            place.free = false;
            if let Some(waker) = &place.waker {
                waker.wake_by_ref();
            }
            return Offered::Taken;
        }
        if state.queue.len() >= self.queue_max {
            return Offered::Dropped;
        }
        state.queue.push_back(job);
        Offered::Queued
    }

    /// No more arrivals come: places end once the queue is empty.
    pub fn close(&self) {
        self.state.borrow_mut().over = true;
        self.wake(|_| true);
    }

    /// The next arrival for a place; nothing when there will be none.
    pub fn take(&self, number: usize, waker: &Waker) -> Poll<Option<Job>> {
        self.watch(number, waker);
        let mut state = self.state.borrow_mut();
        if let Some(job) = state.places[number].job.take() {
            return Poll::Ready(Some(job));
        }
        if let Some(job) = state.queue.pop_front() {
            return Poll::Ready(Some(job));
        }
        if state.over {
            return Poll::Ready(None);
        }
        if !std::mem::replace(&mut state.places[number].free, true) {
            state.free.push_back(number);
        }
        Poll::Pending
    }

    /// Arrivals that wait for a place.
    pub fn waiting(&self) -> usize {
        self.state.borrow().queue.len()
    }

    /// Takes what was not begun, when the run is given up: what waits, and what was given and not looked at.
    pub fn abandon(&self) -> Vec<Job> {
        let mut state = self.state.borrow_mut();
        state.over = true;
        let given: Vec<Job> = state
            .places
            .iter_mut()
            .filter_map(|p| p.job.take())
            .collect();
        given.into_iter().chain(state.queue.drain(..)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Poll, Waker};

    use super::{Desk, Job, Offered};

    fn job(number: u64) -> Job {
        Job {
            number,
            intended_ns: number,
        }
    }

    #[test]
    fn arrivals_wait_in_order_and_within_the_bound() {
        let desk = Desk::new(2, 2);
        let waker = Waker::noop();
        assert_eq!(desk.take(1, waker), Poll::Pending, "free from the begin");
        assert_eq!(desk.offer(job(0)), Offered::Taken);
        assert_eq!(desk.offer(job(1)), Offered::Taken);
        assert_eq!(desk.take(1, waker), Poll::Ready(Some(job(1))));
        assert_eq!(desk.take(1, waker), Poll::Pending);
        assert_eq!(desk.take(1, waker), Poll::Pending, "asked twice, free once");
        assert_eq!(desk.offer(job(2)), Offered::Taken);
        assert_eq!(desk.offer(job(3)), Offered::Queued);
        assert_eq!(desk.offer(job(4)), Offered::Queued);
        assert_eq!(desk.offer(job(5)), Offered::Dropped);
        assert_eq!(desk.waiting(), 2);
        assert_eq!(desk.take(1, waker), Poll::Ready(Some(job(2))));
        assert_eq!(desk.take(0, waker), Poll::Ready(Some(job(0))));
        assert_eq!(desk.take(0, waker), Poll::Ready(Some(job(3))));
        desk.close();
        assert_eq!(desk.take(0, waker), Poll::Ready(Some(job(4))));
        assert_eq!(desk.take(0, waker), Poll::Ready(None));
    }

    #[test]
    fn what_is_given_up_is_told() {
        let desk = Desk::new(1, 4);
        let waker = Waker::noop();
        assert_eq!(desk.take(0, waker), Poll::Pending);
        for number in 0..3 {
            desk.offer(job(number));
        }
        assert_eq!(desk.abandon(), vec![job(0), job(1), job(2)]);
        assert_eq!(desk.take(0, waker), Poll::Ready(None));
    }
}
