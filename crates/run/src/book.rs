//! All runs of a gateway: who may find which, how many there may be, and how long they are kept.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{Name, Refusal, refusal};
use store::runs::{KeptRun, RunFiles};

use crate::conversation::head_of;
use crate::event::{HeardEvent, RunHead};
use crate::live::{LiveRun, RunState};
use crate::settings::Settings;

/// When a run may be started that found no room, in milliseconds.
const BUSY_RETRY_MS: u64 = 1_000;
/// Runs that are not kept any more, and of which that is still told.
const GONE_MAX: usize = 10_000;
/// Runs of one thread that wait.
const THREAD_WAITING_MAX: usize = 16;

/// All runs. Their ids begin with the time at which they were made, so the order of ids is that of time.
pub(crate) struct RunBook {
    pub(crate) files: RunFiles,
    pages: Mutex<BookPages>,
}

#[derive(Default)]
struct BookPages {
    all: BTreeMap<Arc<str>, Arc<LiveRun>>,
    /// Those that have not ended.
    open: BTreeMap<Arc<str>, Arc<LiveRun>>,
    /// By owner and thread: the run that was started last.
    latest: HashMap<(Name, String), Arc<LiveRun>>,
    /// By owner and key: the run, and the SHA-256 of its body.
    keys: HashMap<(Name, String), (String, Arc<LiveRun>)>,
    /// Those that were found open, and that nobody drives yet.
    found: Vec<Arc<LiveRun>>,
    /// Owners and ids of those that were taken away since this process began.
    gone: VecDeque<(Name, Arc<str>)>,
    /// Ends by agent and state, since this process began.
    ended: BTreeMap<(Name, RunState), u64>,
}

impl RunBook {
    /// Of what was found on disk. A file whose head cannot be read stays where it is, and is no run.
    pub(crate) fn new(files: RunFiles, kept: Vec<KeptRun>) -> RunBook {
        let mut pages = BookPages::default();
        for found in kept {
            let run = head_of(&found.first).filter(|head| head.run == found.run);
            let Some(run) = run.and_then(|head| LiveRun::new(&head, RunState::Parked)) else {
                tracing::warn!(run = found.run, "the head of this run cannot be read");
                continue;
            };
            let last = std::str::from_utf8(&found.last).ok();
            let last = last.and_then(HeardEvent::read);
            let end = last.as_ref().filter(|(_, line)| line.event.is_final());
            let end = end.map(|(_, line)| {
                let at = config::kinds::unix_ms(&line.at);
                (&line.event, at.unwrap_or(run.created_ms))
            });
            let is_open = end.is_none();
            run.found(
                last.as_ref().map_or(0, |(heard, _)| heard.id),
                found.bytes,
                end,
            );
            let run = Arc::new(run);
            pages.add(&run);
            if is_open {
                pages.found.push(run);
            } else {
                pages.open.remove(&run.id);
            }
        }
        RunBook {
            files,
            pages: Mutex::new(pages),
        }
    }

    fn pages(&self) -> MutexGuard<'_, BookPages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run that was open when the process began, and that nobody drives yet.
    pub(crate) fn next_found(&self) -> Option<Arc<LiveRun>> {
        self.pages().found.pop()
    }

    /// An own run of this agent.
    pub(crate) fn find(&self, owner: &Name, id: &str) -> Option<Arc<LiveRun>> {
        let pages = self.pages();
        let run = pages.all.get(id).filter(|run| run.owner == *owner);
        run.cloned()
    }

    /// Whether this agent has, or had, a run of this id.
    pub(crate) fn is_known(&self, owner: &Name, id: &str) -> bool {
        let pages = self.pages();
        let is_kept = pages.all.get(id).is_some_and(|run| run.owner == *owner);
        is_kept
            || pages
                .gone
                .iter()
                .any(|(of, gone)| of == owner && **gone == *id)
    }

    /// Why this agent has no run of this id.
    pub(crate) fn why_not(&self, owner: &Name, id: &str) -> Refusal {
        let pages = self.pages();
        let mut gone = pages.gone.iter();
        match gone.any(|(of, gone)| of == owner && **gone == *id) {
            true => Refusal::new(refusal::RUN_GONE, "the run is not kept any more"),
            false => Refusal::new(refusal::RUN_UNKNOWN, "no run of this agent has that id"),
        }
    }

    /// The run of a thread that is at work.
    pub(crate) fn at_work(&self, owner: &Name, thread: &str) -> Option<Arc<LiveRun>> {
        let pages = self.pages();
        let mut open = pages.open.values();
        open.find(|run| run.owner == *owner && run.thread == thread)
            .cloned()
    }

    /// Whether no run of its thread was started after it.
    pub(crate) fn is_last(&self, run: &LiveRun) -> bool {
        let pages = self.pages();
        let thread = (run.owner.clone(), run.thread.clone());
        let last = pages.latest.get(&thread);
        last.is_some_and(|last| last.id == run.id)
    }

    /// Takes in a new run, behind the one of its thread that was started before; with `interrupts` the thread's other runs are ended.
    /// All of it is one step, so that two starts at once stand one behind the other, and a start that is refused ends nothing.
    ///
    /// # Errors
    /// `run.busy` where there is no room, `run.key_reused`; and the run that has its key already.
    pub(crate) fn admit(
        &self,
        settings: &Settings,
        head: &mut RunHead,
        interrupts: bool,
    ) -> Result<Result<Arc<LiveRun>, Arc<LiveRun>>, Refusal> {
        let run = LiveRun::new(head, RunState::Queued);
        let run = run.ok_or_else(|| Refusal::new(refusal::RUN_INVALID, "the run has no name"))?;
        let mut pages = self.pages();
        if let Some(key) = &run.key
            && let Some(known) = pages.of_key(&run.owner, key)?
        {
            return Ok(Err(known));
        }
        let of_owner = pages.open.values().filter(|of| of.owner == run.owner);
        let (own, thread) = of_owner.fold((0, 0), |(own, thread), of| {
            (own + 1, thread + usize::from(of.thread == run.thread))
        });
        let busy = |public: &str| {
            let refusal = Refusal::new(refusal::RUN_BUSY, public);
            Err(refusal.with_retry_ms(BUSY_RETRY_MS))
        };
        if pages.open.len() >= settings.at_once {
            return busy("there are as many runs as there may be");
        }
        if own >= settings.agent_at_once {
            return busy("this agent has as many runs as it may have");
        }
        if thread >= THREAD_WAITING_MAX {
            return busy("as many runs of this thread wait as may");
        }
        let in_thread = (run.owner.clone(), run.thread.clone());
        let before = pages.latest.get(&in_thread);
        head.after = before.map(|before| before.id.to_string());
        if interrupts {
            let open = pages.open.values();
            open.filter(|of| of.owner == run.owner && of.thread == run.thread)
                .for_each(|of| of.cancel());
        }
        let run = Arc::new(run);
        pages.add(&run);
        Ok(Ok(run))
    }

    /// Forgets a run that could not be kept.
    pub(crate) fn forget(&self, run: &LiveRun) {
        let mut pages = self.pages();
        pages.remove(run);
        let thread = (run.owner.clone(), run.thread.clone());
        if !pages.latest.contains_key(&thread) {
            let mut others = pages.all.values().rev();
            let before = others.find(|of| of.owner == run.owner && of.thread == run.thread);
            if let Some(before) = before.cloned() {
                pages.latest.insert(thread, before);
            }
        }
    }

    /// A run has ended: what is too old, or too much, is taken away.
    pub(crate) fn ended(&self, settings: &Settings, run: &LiveRun) {
        let mut pages = self.pages();
        pages.open.remove(&run.id);
        *pages
            .ended
            .entry((run.agent.clone(), run.state()))
            .or_default() += 1;
        drop(pages);
        self.sweep(settings);
    }

    /// Takes away what is too old, and where all is too much, what ended first.
    pub(crate) fn sweep(&self, settings: &Settings) {
        let now_ms = (settings.now)().unix_ms;
        let mut pages = self.pages();
        let mut bytes: u64 = pages.all.values().map(|run| run.bytes()).sum();
        let mut gone = Vec::new();
        for run in pages.all.values() {
            let Some(ended_ms) = run.ended_ms() else {
                continue;
            };
            if bytes > settings.bytes_max || ended_ms + settings.keep_ms < now_ms {
                bytes = bytes.saturating_sub(run.bytes());
                gone.push(Arc::clone(run));
            }
        }
        for run in gone {
            pages.remove(&run);
            if pages.gone.len() >= GONE_MAX {
                pages.gone.pop_front();
            }
            let name = (run.owner.clone(), Arc::clone(&run.id));
            pages.gone.push_back(name);
            self.files.remove(&run.id);
        }
    }

    /// Own runs of this agent, the newest first, from the one before `before` on: those that are wanted, and where to go on.
    pub(crate) fn list(
        &self,
        owner: &Name,
        wanted: impl Fn(&LiveRun) -> bool,
        before: Option<&str>,
        limit: usize,
    ) -> (Vec<Arc<LiveRun>>, bool) {
        let pages = self.pages();
        let all = pages.all.values().rev();
        let mut own = all
            .filter(|run| before.is_none_or(|before| &*run.id < before))
            .filter(|run| run.owner == *owner && wanted(run));
        let page: Vec<_> = own.by_ref().take(limit).cloned().collect();
        (page, own.next().is_some())
    }

    /// How many runs have not ended, by agent and state.
    pub(crate) fn open_states(&self) -> BTreeMap<(Name, RunState), u64> {
        let mut states = BTreeMap::new();
        for run in self.pages().open.values() {
            *states.entry((run.agent.clone(), run.state())).or_default() += 1;
        }
        states
    }

    /// How many ended since this process began, by agent and state.
    pub(crate) fn ended_states(&self) -> BTreeMap<(Name, RunState), u64> {
        self.pages().ended.clone()
    }
}

impl BookPages {
    fn add(&mut self, run: &Arc<LiveRun>) {
        self.all.insert(Arc::clone(&run.id), Arc::clone(run));
        self.open.insert(Arc::clone(&run.id), Arc::clone(run));
        let thread = (run.owner.clone(), run.thread.clone());
        self.latest.insert(thread, Arc::clone(run));
        if let Some((key, digest)) = &run.key {
            let key = (run.owner.clone(), key.clone());
            self.keys.insert(key, (digest.clone(), Arc::clone(run)));
        }
    }

    fn remove(&mut self, run: &LiveRun) {
        self.all.remove(&run.id);
        self.open.remove(&run.id);
        let thread = (run.owner.clone(), run.thread.clone());
        if self.latest.get(&thread).is_some_and(|of| of.id == run.id) {
            self.latest.remove(&thread);
        }
        if let Some((key, _)) = &run.key {
            self.keys.remove(&(run.owner.clone(), key.clone()));
        }
    }

    fn of_key(
        &self,
        owner: &Name,
        (key, digest): &(String, String),
    ) -> Result<Option<Arc<LiveRun>>, Refusal> {
        match self.keys.get(&(owner.clone(), key.clone())) {
            None => Ok(None),
            Some((known, run)) if known == digest => Ok(Some(Arc::clone(run))),
            Some(_) => Err(Refusal::new(
                refusal::RUN_KEY_REUSED,
                "this Idempotency-Key came with another body before",
            )),
        }
    }
}
