//! The table of windows, spread over shards with a lock each, and the count of what it holds.
//!
//! A claim holds the locks of the one or two shards that it touches, in the order of the shards, from the first look to
//! the last bit: so it is one step for all threads. Room is counted under a lock of its own, which is only taken for a
//! sender's first message and when a window is forgotten, and always last.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::{Now, never};

use super::bits::Bits;
use super::key::{ByHash, Key, Spread};
use super::times::Times;
use super::{Attempt, Claim, KEPT_MS, PeerId, SESSION_SENDERS_MAX, Sid};

/// Locks that the windows are spread over, so that threads seldom meet.
const SHARDS: usize = 64;
/// Between two looks for windows to forget, in milliseconds.
const SWEEP_MS: u64 = 1_000;

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    New,
    Before,
    Stale,
    NoRoom,
}

struct Window {
    bits: Bits,
    /// When it was last claimed from, in milliseconds since the process started.
    last_mono_ms: u64,
    /// The newest time of a message that it answered for.
    newest_ms: u64,
    /// Whose room it takes.
    session: Session,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Session {
    peer_id: PeerId,
    sid: Sid,
}

#[derive(Default)]
struct Map {
    windows: HashMap<Key, Window, ByHash>,
    swept_mono_ms: u64,
}

/// A lock on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Shard(Mutex<Map>);

#[derive(Default)]
struct Room {
    /// Windows of each session that has some. Iterated over by nobody, so its order does not matter.
    sessions: HashMap<Session, u32>,
    taken: usize,
}

pub(super) struct Windows {
    shards: Box<[Shard]>,
    spread: Spread,
    windows_max: usize,
    room: Mutex<Room>,
    /// As in `room`, for those who only ask.
    count: AtomicUsize,
    swept_mono_ms: AtomicU64,
}

/// One place to take: a counter of a sender.
struct Place {
    key: Key,
    ctr: u64,
    ts_ms: u64,
}

/// What stands at a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    Free,
    Taken,
    /// There is no window.
    Absent,
}

impl Windows {
    pub(super) fn new(windows_max: usize, hash_key: [u8; 16]) -> Windows {
        Windows {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            spread: Spread::new(hash_key),
            windows_max,
            room: Mutex::default(),
            count: AtomicUsize::new(0),
            swept_mono_ms: AtomicU64::new(0),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Takes the place of the request and, of a retry, that of its first attempt: both or neither.
    pub(super) fn take(&self, claim: &Claim, now: Now, times: &Times) -> Taken {
        let taken = self.take_if_room(claim, now, times);
        // A full table is swept at most once a second, whoever asks.
        if taken == Taken::NoRoom && self.is_sweep_due(now) {
            self.sweep(now, times);
            return self.take_if_room(claim, now, times);
        }
        taken
    }

    pub(super) fn sweep(&self, now: Now, times: &Times) {
        for shard in &self.shards {
            self.sweep_shard(&mut lock(&shard.0), now, times);
        }
    }

    fn take_if_room(&self, claim: &Claim, now: Now, times: &Times) -> Taken {
        let place = |attempt: &Attempt| Place {
            key: self.spread.key(claim.peer_id, attempt.sender),
            ctr: attempt.ctr,
            ts_ms: attempt.ts_unix_ms,
        };
        let own = place(&claim.attempt);
        let step = Step {
            windows: self,
            session: Session {
                peer_id: claim.peer_id,
                sid: claim.sid,
            },
            now,
            times,
        };
        let own_shard = own.key.shard(SHARDS);
        let Some(first) = claim.retry_of.as_ref().map(place) else {
            return step.take_one(&mut self.lock(own_shard), &own);
        };
        let first_shard = first.key.shard(SHARDS);
        if own_shard == first_shard {
            let mut map = self.lock(own_shard);
            return step.take_two(Maps::One(&mut map), &own, &first);
        }
        // Always the lower shard before the higher: two threads cannot wait for each other.
        let mut lower = self.lock(own_shard.min(first_shard));
        let mut higher = self.lock(own_shard.max(first_shard));
        let (own_map, first_map) = if own_shard < first_shard {
            (&mut *lower, &mut *higher)
        } else {
            (&mut *higher, &mut *lower)
        };
        step.take_two(Maps::Two(own_map, first_map), &own, &first)
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Map> {
        lock(&self.shards[shard].0)
    }

    fn is_sweep_due(&self, now: Now) -> bool {
        let swept = self.swept_mono_ms.load(Ordering::Relaxed);
        let due = now.mono_ms.saturating_sub(swept) >= SWEEP_MS;
        due && self
            .swept_mono_ms
            .compare_exchange(swept, now.mono_ms, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    fn sweep_shard(&self, map: &mut Map, now: Now, times: &Times) {
        map.swept_mono_ms = now.mono_ms;
        map.windows.retain(|_, window| {
            let is_kept = now.mono_ms.saturating_sub(window.last_mono_ms) < KEPT_MS;
            if !is_kept {
                times.raise(window.newest_ms);
                self.give_room_back(&window.session);
            }
            is_kept
        });
    }

    /// Reserves room for `count` more windows of the session: all of them or none.
    fn take_room(&self, session: Session, count: u32) -> bool {
        let mut room = lock(&self.room);
        let (taken, of_session) = (
            room.taken,
            room.sessions.get(&session).copied().unwrap_or(0),
        );
        let fits =
            self.windows_max - taken >= count as usize && SESSION_SENDERS_MAX - of_session >= count;
        if fits {
            room.taken += count as usize;
            room.sessions.insert(session, of_session + count);
            self.count.store(room.taken, Ordering::Relaxed);
        }
        fits
    }

    fn give_room_back(&self, session: &Session) {
        let mut room = lock(&self.room);
        match room.sessions.get_mut(session) {
            Some(1) => drop(room.sessions.remove(session)),
            Some(count) => *count -= 1,
            None => never!("a window of a session that has none"),
        }
        room.taken = room.taken.saturating_sub(1);
        self.count.store(room.taken, Ordering::Relaxed);
    }
}

/// The maps of a retry: that of its own place and that of its first attempt may be one.
enum Maps<'m> {
    One(&'m mut Map),
    Two(&'m mut Map, &'m mut Map),
}

impl Maps<'_> {
    fn own(&mut self) -> &mut Map {
        match self {
            Maps::One(map) | Maps::Two(map, _) => map,
        }
    }

    fn first(&mut self) -> &mut Map {
        match self {
            Maps::One(map) | Maps::Two(_, map) => map,
        }
    }
}

/// One claim under its locks.
struct Step<'s> {
    windows: &'s Windows,
    session: Session,
    now: Now,
    times: &'s Times,
}

impl Step<'_> {
    #[inline]
    fn take_one(&self, map: &mut Map, own: &Place) -> Taken {
        if self.is_stale(own) {
            return Taken::Stale;
        }
        // The usual case, with one look at the map.
        if let Some(window) = map.windows.get_mut(&own.key) {
            if !window.bits.is_free(own.ctr) {
                return Taken::Before;
            }
            window.bits.take(own.ctr);
            self.touch(window, own.ts_ms);
            return Taken::New;
        }
        self.make_room(map);
        if !self.windows.take_room(self.session, 1) {
            return Taken::NoRoom;
        }
        self.enter(map, own);
        Taken::New
    }

    fn take_two(&self, mut maps: Maps<'_>, own: &Place, first: &Place) -> Taken {
        // First of all, so that what is seen afterwards stays.
        self.make_room(maps.own());
        self.make_room(maps.first());
        if self.is_stale(own) || self.is_stale(first) {
            return Taken::Stale;
        }
        let (at_own, at_first) = (look(maps.own(), own), look(maps.first(), first));
        if at_own == Look::Taken || at_first == Look::Taken {
            return Taken::Before;
        }
        let absent = match (at_own, at_first) {
            (Look::Absent, Look::Absent) if own.key != first.key => 2,
            (Look::Absent, _) | (_, Look::Absent) => 1,
            _ => 0,
        };
        if absent > 0 && !self.windows.take_room(self.session, absent) {
            return Taken::NoRoom;
        }
        // The first attempt's counter is the lower one of the same sender: taken first, it cannot fall out.
        self.enter(maps.first(), first);
        self.enter(maps.own(), own);
        Taken::New
    }

    /// Judged under the lock of the place's shard: a window that any thread has forgotten there has raised the floor.
    fn is_stale(&self, place: &Place) -> bool {
        !self.times.is_good(place.ts_ms, self.now)
    }

    /// Forgets what matters no more in this shard, at most once a second.
    fn make_room(&self, map: &mut Map) {
        if self.now.mono_ms.saturating_sub(map.swept_mono_ms) >= SWEEP_MS {
            self.windows.sweep_shard(map, self.now, self.times);
        }
    }

    /// Takes a place that is free, in a window that is made where there is none; its room has been taken.
    fn enter(&self, map: &mut Map, place: &Place) {
        if let Some(window) = map.windows.get_mut(&place.key) {
            window.bits.take(place.ctr);
            self.touch(window, place.ts_ms);
            return;
        }
        let window = Window {
            bits: Bits::new(place.ctr),
            last_mono_ms: self.now.mono_ms,
            newest_ms: place.ts_ms,
            session: self.session,
        };
        map.windows.insert(place.key, window);
    }

    #[inline]
    fn touch(&self, window: &mut Window, ts_ms: u64) {
        window.last_mono_ms = window.last_mono_ms.max(self.now.mono_ms);
        window.newest_ms = window.newest_ms.max(ts_ms);
    }
}

fn look(map: &Map, place: &Place) -> Look {
    match map.windows.get(&place.key) {
        Some(window) if window.bits.is_free(place.ctr) => Look::Free,
        Some(_) => Look::Taken,
        None => Look::Absent,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks panics; were it to, a bit may be set too many, never one too few.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
