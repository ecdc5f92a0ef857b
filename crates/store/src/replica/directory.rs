//! The directory that replicas share: one document with an epoch, of which each holds the newest in memory.
//!
//! A thread listens for notifications and asks twice a second besides. A change is made on the document that is known and written
//! where the store still has that one; else it is tried on the newer one. So each change is made once, on what was there. Who cannot
//! reach the store changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base::Refusal;
use base::refusal::{DIRECTORY_FAILED, STORE_AWAY};
use postgres::{Fault, Heard, Session, SqlValue, Target};
use tokio::sync::{mpsc, oneshot};

use super::start::{look, unix_ms};
use super::{ReplicaError, StoreStanding, WATCH_ANSWER_MS_MAX, signed, told, unsigned};
use crate::directory::{DIRECTORY_BYTES_MAX, DirectoryBook};
use crate::log::Log;

/// How often the store is asked though nothing was notified, in milliseconds.
const POLL_MS: u64 = 400;
/// How often the other replicas are told that this one is here.
const SEEN_EVERY: Duration = Duration::from_secs(1);
/// How long it waits before it connects again.
const RETRY: Duration = Duration::from_millis(300);
/// Changes that wait.
const CHANGES_MAX: usize = 64;
/// How often a change is tried on a newer document.
const TRIES_MAX: usize = 16;
/// How long a change may take.
const CHANGE_MAX: Duration = Duration::from_secs(5);
/// When to try again, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// A document that is to take the place of the one with the epoch `expected`.
struct Change {
    expected: u64,
    book: DirectoryBook,
    answer: oneshot::Sender<Written>,
}

/// What became of it.
enum Written {
    Done,
    /// The store has this one.
    Newer(DirectoryBook),
    Failed(String),
}

/// What the directory of this replica is written by.
#[derive(Clone)]
pub struct SharedDirectory {
    changes: mpsc::Sender<Change>,
    standing: Arc<StoreStanding>,
}

/// What is done with a document that is newer.
pub type OnBook = Box<dyn Fn(DirectoryBook) + Send>;

/// The thread that keeps the snapshot fresh. Dropping it ends it without waiting.
pub struct Watching {
    stop: Arc<AtomicBool>,
    start: mpsc::Sender<OnBook>,
}

impl Watching {
    /// Gives what is done with documents from now on; before, none is taken.
    pub fn on_book(&self, on_book: OnBook) {
        let _ = self.start.try_send(on_book);
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Who a replica is to the others.
pub struct ReplicaWords<'s> {
    pub replica: &'s str,
    pub boot: &'s str,
    pub version: &'s str,
    pub trust_domain: Option<&'s str>,
}

/// Begins to watch.
///
/// # Errors
/// The thread cannot be made.
pub fn watch(
    target: &Target,
    me: &ReplicaWords<'_>,
    log: &Arc<Log>,
    standing: &Arc<StoreStanding>,
) -> Result<(SharedDirectory, Watching), std::io::Error> {
    let (changes, receiver) = mpsc::channel(CHANGES_MAX);
    let (start, started) = mpsc::channel(1);
    let stop = Arc::new(AtomicBool::new(false));
    let watcher = Watcher {
        target: target.clone(),
        replica: me.replica.to_owned(),
        boot: me.boot.to_owned(),
        version: me.version.to_owned(),
        trust_domain: me.trust_domain.map(str::to_owned),
        log: Arc::clone(log),
        standing: Arc::clone(standing),
        stop: Arc::clone(&stop),
        changes: receiver,
        started,
        on_book: None,
        epoch: 0,
        seen: None,
    };
    let thread = std::thread::Builder::new().name("watch".into());
    thread.spawn(move || watcher.run())?;
    let standing = Arc::clone(standing);
    Ok((
        SharedDirectory { changes, standing },
        Watching { stop, start },
    ))
}

impl SharedDirectory {
    /// Changes the directory for all replicas, and gives it as it is then. Nothing is written where `change` refuses.
    ///
    /// # Errors
    /// What `change` refuses, `store.away`, and `identity.directory_failed` where it is not known whether it was written.
    pub async fn change<T>(
        &self,
        known: DirectoryBook,
        change: impl Fn(&mut DirectoryBook) -> Result<T, Refusal>,
    ) -> Result<(DirectoryBook, T), Refusal> {
        let mut known = known;
        for _ in 0..TRIES_MAX {
            let mut book = known.clone();
            let answer = change(&mut book)?;
            if book == known {
                return Ok((book, answer));
            }
            book.epoch = known.epoch.saturating_add(1);
            match self.put(known.epoch, book.clone()).await? {
                Written::Done => return Ok((book, answer)),
                Written::Newer(newer) if newer.epoch >= known.epoch => known = newer,
                Written::Newer(_) => {
                    let why = "the store's directory is older than what is in force";
                    return Err(failed(why.to_owned()));
                }
                Written::Failed(why) => return Err(failed(why)),
            }
        }
        Err(failed(
            "others change the directory all the time".to_owned(),
        ))
    }

    async fn put(&self, expected: u64, book: DirectoryBook) -> Result<Written, Refusal> {
        let away = |why: String| {
            Refusal::new(
                STORE_AWAY,
                "the store that holds the directory does not answer",
            )
            .with_private(why)
            .with_retry_ms(RETRY_MS)
        };
        let (answer, written) = oneshot::channel();
        let change = Change {
            expected,
            book,
            answer,
        };
        self.changes
            .try_send(change)
            .map_err(|_| away(self.standing.why()))?;
        match tokio::time::timeout(CHANGE_MAX, written).await {
            Ok(Ok(written)) => Ok(written),
            _ => Err(away(self.standing.why())),
        }
    }
}

fn failed(why: String) -> Refusal {
    Refusal::new(DIRECTORY_FAILED, "the directory cannot be changed").with_private(why)
}

struct Watcher {
    target: Target,
    replica: String,
    boot: String,
    version: String,
    trust_domain: Option<String>,
    log: Arc<Log>,
    standing: Arc<StoreStanding>,
    stop: Arc<AtomicBool>,
    changes: mpsc::Receiver<Change>,
    started: mpsc::Receiver<OnBook>,
    on_book: Option<OnBook>,
    /// Of the document that was given on last.
    epoch: u64,
    seen: Option<Instant>,
}

impl Watcher {
    fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            let why = match self.connect() {
                Ok(session) => match self.serve(&session) {
                    Ok(()) => return,
                    Err(fault) => told(&fault),
                },
                Err(error) => error.to_string(),
            };
            self.standing.failed(&why);
            tracing::warn!(
                why,
                "the store is away; what is known stays in force for store.outage_max"
            );
            self.turn_away(&why);
            std::thread::sleep(RETRY);
        }
    }

    /// Answers whoever waits while there is no session.
    fn turn_away(&mut self, why: &str) {
        while let Ok(change) = self.changes.try_recv() {
            let _ = change.answer.send(Written::Failed(why.to_owned()));
        }
    }

    fn connect(&mut self) -> Result<Session, ReplicaError> {
        let failed = |fault: Fault| ReplicaError::of("watching", &fault);
        let session = Session::open_within(&self.target, WATCH_ANSWER_MS_MAX).map_err(failed)?;
        look(&session, self.trust_domain.as_deref())?;
        session
            .batch("SET statement_timeout = 1500; LISTEN weir_directory")
            .map_err(failed)?;
        self.seen = None;
        Ok(session)
    }

    fn serve(&mut self, session: &Session) -> Result<(), Fault> {
        while !self.stop.load(Ordering::Relaxed) {
            if let Ok(on_book) = self.started.try_recv() {
                self.on_book = Some(on_book);
            }
            self.refresh(session)?;
            self.be_seen(session)?;
            match session.hear(POLL_MS, self.changes.recv())? {
                Heard::Other(Some(change)) => self.write(session, change)?,
                Heard::Other(None) => std::thread::sleep(RETRY),
                Heard::Notice | Heard::Nothing => {}
            }
        }
        Ok(())
    }

    /// Takes over what others changed, and says that the store was heard.
    fn refresh(&mut self, session: &Session) -> Result<(), Fault> {
        let sql = "SELECT epoch, (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM weir.directory";
        let rows = session.rows(sql, &[])?;
        let epoch = rows.first().map_or(0, |row| unsigned(row.get(0)));
        let clock: i64 = rows.first().map_or(0, |row| row.get(1));
        if let Some(on_book) = self.on_book.as_ref().filter(|_| epoch != self.epoch) {
            match read(session) {
                Ok(book) => {
                    if book.epoch < self.epoch {
                        tracing::error!(
                            epoch = self.epoch,
                            store = book.epoch,
                            "the store's directory is older than what is in force, which stays"
                        );
                    }
                    self.epoch = book.epoch;
                    on_book(book);
                }
                Err(error) => return Err(Fault::Gone(error.to_string())),
            }
        }
        self.standing.heard(clock - signed(unix_ms()));
        Ok(())
    }

    /// Tells the other replicas that this one is here, and how far its log is.
    fn be_seen(&mut self, session: &Session) -> Result<(), Fault> {
        if self.seen.is_some_and(|seen| seen.elapsed() < SEEN_EVERY) {
            return Ok(());
        }
        self.seen = Some(Instant::now());
        let sql = "INSERT INTO weir.replicas VALUES ($1, $2, $3, $4, clock_timestamp(), clock_timestamp(), $5, $6, false)
            ON CONFLICT (name) DO UPDATE SET boot = $2, origin = $3, version = $4, seen = clock_timestamp(), entries = $5, shipped = $6, ended = false,
            started = CASE WHEN weir.replicas.boot = $2 THEN weir.replicas.started ELSE clock_timestamp() END";
        let values = [
            SqlValue::Text(Some(&self.replica)),
            SqlValue::Text(Some(&self.boot)),
            SqlValue::Text(Some(self.log.origin())),
            SqlValue::Text(Some(&self.version)),
            SqlValue::Int(Some(signed(self.log.size()))),
            SqlValue::Int(Some(signed(self.standing.shipped()))),
        ];
        session.execute(sql, &values).map(drop)
    }

    fn write(&mut self, session: &Session, change: Change) -> Result<(), Fault> {
        let Change {
            expected,
            book,
            answer,
        } = change;
        // Who was told that it failed does not want it any more.
        if answer.is_closed() {
            return Ok(());
        }
        let written = put(session, expected, &book);
        let told_of = match &written {
            Ok(true) => Written::Done,
            Ok(false) => match read(session) {
                Ok(book) => Written::Newer(book),
                Err(error) => Written::Failed(error.to_string()),
            },
            Err(fault) => Written::Failed(told(fault)),
        };
        // Whoever asked may have gone away.
        let _ = answer.send(told_of);
        match written {
            Err(fault @ Fault::Gone(_)) => Err(fault),
            _ => Ok(()),
        }
    }
}

/// Puts a document in the place of the one with this epoch, and tells everyone. False where there is another.
fn put(session: &Session, expected: u64, book: &DirectoryBook) -> Result<bool, Fault> {
    let Ok(text) = serde_json::to_string(book) else {
        return Ok(false);
    };
    let sql = "WITH changed AS (UPDATE weir.directory SET epoch = $2, book = $3 WHERE epoch = $1 RETURNING epoch)
        SELECT pg_notify('weir_directory', epoch::text)::text FROM changed";
    let values = [
        SqlValue::Int(Some(signed(expected))),
        SqlValue::Int(Some(signed(book.epoch))),
        SqlValue::Text(Some(&text)),
    ];
    let rows = session.rows(sql, &values)?;
    Ok(!rows.is_empty())
}

/// The document that the store has.
pub(super) fn read(session: &Session) -> Result<DirectoryBook, ReplicaError> {
    let rows = session.rows("SELECT book FROM weir.directory", &[]);
    let rows = rows.map_err(|fault| ReplicaError::of("reading the directory", &fault))?;
    let text: String = rows.first().map(|row| row.get(0)).unwrap_or_default();
    parse(&text)
}

/// Reads a document.
pub(super) fn parse(text: &str) -> Result<DirectoryBook, ReplicaError> {
    let damaged = |what: String| {
        ReplicaError::new(
            format!("the store's directory cannot be used: {what}"),
            "Put a good copy back: weir store import.",
        )
    };
    if text.len() > DIRECTORY_BYTES_MAX {
        return Err(damaged(format!(
            "it is larger than {DIRECTORY_BYTES_MAX} bytes"
        )));
    }
    serde_json::from_str(text).map_err(|error| damaged(error.to_string()))
}
