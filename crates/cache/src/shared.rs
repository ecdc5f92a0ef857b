//! What all threads share of one store: what was found of it, and the way to ask.

use std::cell::RefCell;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::Now;
use base::limit::{CACHE_ANSWER_MS_MAX, CACHE_QUEUE_MAX, CACHE_RUN_MS, CACHE_WATCH_MS};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::dial::CacheTls;
use crate::examine::{self, Examined};
use crate::link::{self, Job};
use crate::problem::{CacheProblem, NoCacheAnswer};
use crate::resp::{CacheCommands, CacheReply};
use crate::url::CacheUrl;

/// The replies to what was asked, and until when claims have to be refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheAnswer {
    pub replies: Vec<CacheReply>,
    /// As in [`CacheState`], when the replies came.
    pub refuses_until_unix_ms: u64,
}

/// How the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheState {
    pub problem: Option<CacheProblem>,
    /// What is from this time or before may have been claimed in a run of the store that has forgotten it.
    pub refuses_until_unix_ms: u64,
}

/// What was counted since the start, over all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Questions that were answered in time.
    pub answered: u64,
    /// Questions of which nobody knows what became.
    pub unknown: u64,
    /// Questions that were not asked.
    pub unasked: u64,
    /// Connections that were found good.
    pub connections: u64,
    /// Microseconds that the answers took together.
    pub answered_us: u64,
}

/// A store that replicas share.
pub struct SharedCache {
    id: u64,
    pub(crate) url: CacheUrl,
    pub(crate) tls: CacheTls,
    clock: Box<dyn Fn() -> Now + Send + Sync>,
    must_not_persist: AtomicBool,
    known: Mutex<Known>,
    /// As in `known`, for those who only ask.
    generation: AtomicU64,
    tells: Mutex<Vec<TellRun>>,
    is_watched: AtomicBool,
    answered: AtomicU64,
    answered_us: AtomicU64,
    unknown: AtomicU64,
    unasked: AtomicU64,
    connections: AtomicU64,
}

/// Who is told of another run of the store.
type TellRun = Box<dyn Fn(&str) + Send + Sync>;

struct Known {
    run_id: Option<String>,
    problem: Option<CacheProblem>,
    refuses_until_unix_ms: u64,
}

thread_local! {
    /// The connections of this thread, by the number of the store.
    static LINKS: RefCell<Vec<(u64, mpsc::Sender<Job>)>> = const { RefCell::new(Vec::new()) };
}

impl SharedCache {
    /// A store that is not asked yet.
    pub fn new(
        url: CacheUrl,
        tls: CacheTls,
        clock: impl Fn() -> Now + Send + Sync + 'static,
    ) -> Arc<SharedCache> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        Arc::new(SharedCache {
            id: NUMBER.fetch_add(1, Ordering::Relaxed),
            url,
            tls,
            clock: Box::new(clock),
            must_not_persist: AtomicBool::new(false),
            known: Mutex::new(Known {
                run_id: None,
                problem: Some(CacheProblem::Unasked),
                refuses_until_unix_ms: 0,
            }),
            generation: AtomicU64::new(0),
            tells: Mutex::default(),
            is_watched: AtomicBool::new(false),
            answered: AtomicU64::new(0),
            answered_us: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            unasked: AtomicU64::new(0),
            connections: AtomicU64::new(0),
        })
    }

    /// From now on the store must not write what it has to a disk.
    pub fn must_not_persist(&self) {
        self.must_not_persist.store(true, Ordering::Relaxed);
    }

    pub fn url(&self) -> &CacheUrl {
        &self.url
    }

    pub fn state(&self) -> CacheState {
        let known = self.lock();
        CacheState {
            problem: known.problem,
            refuses_until_unix_ms: known.refuses_until_unix_ms,
        }
    }

    pub fn counts(&self) -> CacheCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        CacheCounts {
            answered: of(&self.answered),
            unknown: of(&self.unknown),
            unasked: of(&self.unasked),
            connections: of(&self.connections),
            answered_us: of(&self.answered_us),
        }
    }

    /// Asks, on this thread's connection, which is made where there is none. Must be called on a tokio runtime.
    pub fn ask(
        self: &Arc<Self>,
        commands: CacheCommands,
    ) -> impl Future<Output = Result<CacheAnswer, NoCacheAnswer>> + Send + use<> {
        let began = Instant::now();
        let deadline = began + Duration::from_millis(CACHE_ANSWER_MS_MAX);
        let (answer, answered) = oneshot::channel();
        let job = Job {
            commands,
            deadline,
            answer,
        };
        let sent = self.link().try_send(job).is_ok();
        let cache = Arc::clone(self);
        async move {
            let got = match sent {
                false => Err(NoCacheAnswer::Unasked),
                true => match tokio::time::timeout_at(deadline, answered).await {
                    Ok(Ok(answer)) => answer,
                    _ => Err(NoCacheAnswer::Unknown),
                },
            };
            match &got {
                Ok(_) => {
                    let us = began.elapsed().as_micros();
                    let us = u64::try_from(us).unwrap_or(u64::MAX);
                    cache.answered_us.fetch_add(us, Ordering::Relaxed);
                    &cache.answered
                }
                Err(NoCacheAnswer::Unknown) => &cache.unknown,
                Err(NoCacheAnswer::Unasked) => &cache.unasked,
            }
            .fetch_add(1, Ordering::Relaxed);
            got
        }
    }

    /// Makes this thread's connection where there is none. Must be called on a tokio runtime.
    pub fn warm(self: &Arc<Self>) {
        drop(self.link());
    }

    /// Calls this with the name of the store's run whenever another than the one before is met, before anything is
    /// answered by it.
    pub fn when_run(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        let mut tells = self.tells.lock().unwrap_or_else(PoisonError::into_inner);
        tells.push(Box::new(tell));
    }

    /// Looks again and again how the store is, for as long as this thread's runtime lasts; once for each process.
    pub fn watch(self: &Arc<Self>) {
        if !self.is_watched.swap(true, Ordering::Relaxed) {
            tokio::spawn(watch(Arc::clone(self)));
        }
    }

    /// Looks once, on a connection of its own.
    ///
    /// # Errors
    /// Why nothing was found.
    pub async fn examine(&self) -> Result<Examined, CacheProblem> {
        link::establish(self).await.map(|(_, examined)| examined)
    }

    pub(crate) fn now(&self) -> Now {
        (self.clock)()
    }

    pub(crate) fn may_not_persist(&self) -> bool {
        self.must_not_persist.load(Ordering::Relaxed)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Notes what a good examination found; gives the number of the store's run. What an earlier run let through is not
    /// known to a new one, so it must not be let through again: by clocks that are two seconds from the store's on both
    /// sides, and messages that are two seconds ahead.
    pub(crate) fn met(&self, examined: &Examined) -> u64 {
        let now_ms = self.now().unix_ms;
        let mut known = self.lock();
        let began_ms = match &known.run_id {
            Some(run_id) if *run_id == examined.run_id => None,
            // What this process did not see, the run of the store says itself.
            None => Some(examined.began_unix_ms.min(now_ms)),
            Some(_) => {
                tracing::warn!(store = %self.url, "the store was started anew, or is another");
                self.generation.fetch_add(1, Ordering::Release);
                Some(now_ms)
            }
        };
        if let Some(began_ms) = began_ms {
            known.run_id = Some(examined.run_id.clone());
            let until = began_ms.saturating_add(CACHE_RUN_MS);
            known.refuses_until_unix_ms = known.refuses_until_unix_ms.max(until);
            let tells = self.tells.lock().unwrap_or_else(PoisonError::into_inner);
            tells.iter().for_each(|tell| tell(&examined.run_id));
        }
        drop(known);
        self.note(None);
        self.generation()
    }

    /// Notes what is wrong, or that nothing is.
    pub(crate) fn note(&self, problem: Option<CacheProblem>) {
        let mut known = self.lock();
        if known.problem == problem {
            return;
        }
        let before = std::mem::replace(&mut known.problem, problem);
        drop(known);
        match (before, problem) {
            (_, Some(problem)) => {
                let (code, mend) = (problem.code(), problem.mend());
                tracing::warn!(store = %self.url, code, mend, "{problem}");
            }
            (Some(CacheProblem::Unasked), None) => {
                tracing::info!(store = %self.url, "the shared store is good");
            }
            (_, None) => tracing::warn!(store = %self.url, "the shared store is good again"),
        }
    }

    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    fn link(self: &Arc<Self>) -> mpsc::Sender<Job> {
        LINKS.with_borrow_mut(|links| {
            let known = links.iter().find(|(id, _)| *id == self.id);
            if let Some((_, link)) = known.filter(|(_, link)| !link.is_closed()) {
                return link.clone();
            }
            links.retain(|(_, link)| !link.is_closed());
            let (link, jobs) = mpsc::channel(CACHE_QUEUE_MAX);
            tokio::spawn(link::run(Arc::clone(self), jobs));
            links.push((self.id, link.clone()));
            link
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn watch(cache: Arc<SharedCache>) {
    loop {
        let asked = cache.now();
        let answer = cache.ask(examine::commands(cache.may_not_persist())).await;
        match answer {
            Ok(answer) => match examine::judge(&answer.replies, asked, cache.now()) {
                Ok(examined) => cache.note(examined.problem),
                Err(problem) => cache.note(Some(problem)),
            },
            // Who makes the connection knows better what is wrong.
            Err(_)
                if cache
                    .state()
                    .problem
                    .is_some_and(|p| p != CacheProblem::Unasked) => {}
            Err(_) => cache.note(Some(CacheProblem::Unreachable)),
        }
        tokio::time::sleep(Duration::from_millis(CACHE_WATCH_MS)).await;
    }
}
