//! What a run looks at beside its requests: processes, cgroups, metrics endpoints, the machine.
//!
//! On a shared machine the CPU time of a request is the number that repeats, so it is measured in every run, and so is
//! what others took. All of it is read from `/proc`, cgroups of version 2, and Prometheus endpoints over plain HTTP;
//! no command is started. Linux only. What the kernel does not show is absent, never zero. It refuses to guess: a
//! subject that is not there, or that could be several, ends the command before load is sent.

mod book;
pub mod cgroup;
pub mod find;
pub mod host;
pub mod listener;
pub mod machine;
mod own;
pub mod ports;
pub mod process;
pub mod prometheus;
pub mod read;
pub mod scrape;
mod series;
mod subject;
mod totals;
pub mod tree;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use self::book::{Book, Watch};
use self::scrape::Endpoint;
use self::subject::Eye;
use self::totals::Totals;
use self::tree::Table;
use crate::exit::Failure;
use crate::result::Watched;
use crate::schedule::Profile;

pub use self::book::{LOAD_THREADS, MARKS_MAX};
pub use self::series::POINTS_MAX;
pub use self::subject::{SUBJECTS_MAX, Subject};
pub use self::totals::{Window, watched_cpu_us, windows};

/// The shortest time between two samples.
pub const EVERY_MIN: Duration = Duration::from_millis(100);
/// The time between two samples where none is asked for.
pub const EVERY_DEFAULT: Duration = Duration::from_secs(1);
/// A look may take this part of the time: on a machine with thousands of processes samples become rarer, since the
/// watch must not become the noise. Marks are not put off.
const LOOK_PART: u32 = 100;

/// Looks at its subjects on a thread of its own, from its start to [`Watcher::finish`].
pub struct Watcher {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    book: Mutex<Book>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stop: bool,
    /// When exact marks are due, in order.
    due: VecDeque<Instant>,
    begin: Option<Instant>,
    /// How many marks were made: the endpoints are asked after each.
    marks: u64,
}

/// What a subject does now.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    pub name: String,
    /// Cores used between the last two samples.
    pub cores: f64,
    pub rss_bytes: Option<u64>,
}

impl Watcher {
    /// Finds the subjects and begins to look, every `every`: at least [`EVERY_MIN`], and [`EVERY_DEFAULT`] for zero.
    ///
    /// # Errors
    /// A subject that is not there, or that could be several; more than [`SUBJECTS_MAX`]; an endpoint that does not
    /// answer.
    pub fn start(subjects: &[Subject], every: Duration) -> Result<Watcher, Failure> {
        let watches = open(subjects)?;
        let endpoints: Vec<(usize, Endpoint)> = watches
            .iter()
            .enumerate()
            .filter_map(|(index, watch)| match &watch.eye {
                Eye::Endpoint(endpoint) => Some((index, endpoint.clone())),
                Eye::Tree(_) | Eye::Cgroup(_) => None,
            })
            .collect();
        let mut book = Book::new(watches);
        book.warn_of_parts();
        book.look(true);
        let shared = Arc::new(Shared {
            book: Mutex::new(book),
            state: Mutex::new(State {
                marks: 1,
                ..State::default()
            }),
            changed: Condvar::new(),
        });
        let every = match every {
            Duration::ZERO => EVERY_DEFAULT,
            every => every.max(EVERY_MIN),
        };
        let mut watcher = Watcher {
            shared: shared.clone(),
            threads: Vec::new(),
        };
        watcher.spawn("watch", move || shared.look_on(every))?;
        if !endpoints.is_empty() {
            let shared = watcher.shared.clone();
            watcher.spawn("watch-metrics", move || shared.ask_on(&endpoints, every))?;
        }
        Ok(watcher)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
        let spawned = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(work);
        let thread = spawned.map_err(|error| {
            Failure::new(
                format!("no thread can be started to watch with: {error}"),
                "raise the limit of processes",
            )
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Says when the run began, and marks every boundary of its flows' steps exactly, by itself.
    pub fn follow<'a>(&self, begin: Instant, profiles: impl IntoIterator<Item = &'a Profile>) {
        let steps = profiles.into_iter().flat_map(Profile::steps);
        let mut due: Vec<u64> = steps
            .flat_map(|step| [step.begin_ns, step.end_ns])
            .collect();
        due.sort_unstable();
        due.dedup();
        let mut state = self.shared.state();
        state.begin = Some(begin);
        state.due = due
            .into_iter()
            .map(|ns| begin + Duration::from_nanos(ns))
            .collect();
        self.shared.changed.notify_all();
    }

    /// Looks now, exactly. For boundaries that no profile knows.
    pub fn mark(&self) {
        self.shared.mark();
    }

    /// What each process and cgroup does now, and the generator last.
    pub fn live(&self) -> Vec<Live> {
        self.shared.book().live()
    }

    /// What others took of the machine between the last two samples: steal, and pressure where it is known.
    pub fn live_host(&self) -> Option<crate::result::HostSample> {
        let book = self.shared.book();
        let totals = Totals {
            book: &book,
            begin: book.begun,
        };
        totals.host().pop()
    }

    /// Ends the watch: a last mark, and everything by window. Seconds count from the begin that [`Watcher::follow`]
    /// was told, or from the start of the watch. The warnings come beside.
    pub fn finish(mut self, windows: &[Window]) -> (Watched, Vec<String>) {
        self.shared.mark();
        self.stop();
        let book = self.shared.book();
        let begin = self.shared.state().begin.unwrap_or(book.begun);
        let watched = Totals { book: &book, begin }.watched(windows);
        (watched, book.warnings.clone())
    }

    fn stop(&mut self) {
        self.shared.state().stop = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was already reported by the thread itself; what it had seen is still in the book.
            let _ = thread.join();
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("no thread panics with this lock")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with this lock")
    }

    fn mark(&self) {
        self.book().look(true);
        self.state().marks += 1;
        self.changed.notify_all();
    }

    /// Looks every `every`, and at each boundary, until it is told to stop.
    fn look_on(&self, every: Duration) {
        let mut next = Instant::now() + every;
        loop {
            let mut state = self.state();
            let is_due = loop {
                if state.stop {
                    return;
                }
                let now = Instant::now();
                let boundary = state.due.front().copied();
                if boundary.is_some_and(|due| due <= now) {
                    state.due.pop_front();
                    break true;
                }
                if next <= now {
                    break false;
                }
                let wait = boundary.map_or(next, |due| due.min(next)) - now;
                let waited = self.changed.wait_timeout(state, wait);
                state = waited.expect("no thread panics with this lock").0;
            };
            drop(state);
            if is_due {
                self.mark();
            } else {
                let begun = Instant::now();
                self.book().look(false);
                let now = Instant::now();
                next = (next + every).max(now + (now - begun) * LOOK_PART);
            }
        }
    }

    /// Asks the endpoints every `every`, and after each mark, the last one too.
    fn ask_on(&self, endpoints: &[(usize, Endpoint)], every: Duration) {
        let mut marks_seen = 0;
        loop {
            let (marks, stop) = {
                let state = self.state();
                (state.marks, state.stop)
            };
            let is_mark = marks != marks_seen;
            marks_seen = marks;
            for (index, endpoint) in endpoints {
                let at = Instant::now();
                let answer = endpoint.ask();
                self.book().scraped(*index, at, answer, is_mark);
            }
            if stop {
                return;
            }
            let idle = |state: &mut State| !state.stop && state.marks == marks_seen;
            let waited = self.changed.wait_timeout_while(self.state(), every, idle);
            drop(waited.expect("no thread panics with this lock"));
        }
    }
}

/// Finds every subject, and says of each whether another holds it too.
fn open(subjects: &[Subject]) -> Result<Vec<Watch>, Failure> {
    if subjects.len() > SUBJECTS_MAX {
        return Err(Failure::new(
            format!(
                "{} things are to be watched: {SUBJECTS_MAX} is the most",
                subjects.len()
            ),
            "watch their parent or their cgroup",
        ));
    }
    let table = Table::read();
    let mut watches: Vec<Watch> = Vec::with_capacity(subjects.len());
    for subject in subjects {
        let (name, eye) = Eye::open(subject, &table)
            .map_err(|what| Failure::new(format!("cannot watch: {what}"), ""))?;
        watches.push(Watch::new(name, eye));
    }
    let parts: Vec<Option<String>> = (0..watches.len())
        .map(|index| subject::holder(index, &watches, &table))
        .collect();
    for (watch, part_of) in watches.iter_mut().zip(parts) {
        watch.part_of = part_of;
    }
    Ok(watches)
}
