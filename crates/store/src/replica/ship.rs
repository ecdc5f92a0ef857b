//! The thread that ships a log: what is synced on this disk, in order, by `COPY`, each entry once.
//!
//! The store's own count of a log (`weir.origins.next`) is where it goes on, so nothing is shipped twice whatever was confirmed or
//! not: rows and count are one transaction, and the count's row is locked in it. What a commit has that nobody confirmed is seen when
//! it looks again. It waits for nobody: a store that is away costs the log nothing but its room on the disk.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::Digest;
use postgres::{Fault, Session, SqlValue, Target};

use super::row::{COPY, Columns, Rows, date, day};
use super::start::{Begun, Place, hold_name, look, open};
use super::{ReplicaError, StoreStanding, signed, told, unsigned};
use crate::audit::{self, Entries};
use crate::log::{CHECKPOINTS, Log, LogStats};
use crate::note;

/// Most entries of one transaction.
const ROWS_MAX: usize = 4_000;
/// About the most bytes of one transaction.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// How long it sleeps where nothing wakes it.
const IDLE: Duration = Duration::from_millis(500);
/// How long it waits before it tries again.
const RETRY: Duration = Duration::from_millis(500);
/// Bytes of the newest checkpoints that are read at once.
const CHECKPOINT_BYTES_MAX: u64 = 1 << 20;
/// How long the end of a log may take to be shipped when the gateway stops.
const CLOSE_MAX: Duration = Duration::from_secs(5);
/// How long the name is waited for when the session was lost: the server may not have seen it yet.
const NAME_AGAIN: Duration = Duration::from_secs(2);

/// The running thread. Dropping it ends it without waiting.
pub struct Shipping {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What went wrong.
enum Wrong {
    /// The store does not answer, or refuses: tried again.
    Failed(String),
    /// No trying mends it.
    Alarm(String),
}

impl From<Fault> for Wrong {
    fn from(fault: Fault) -> Wrong {
        Wrong::Failed(told(&fault))
    }
}

struct Cursor {
    target: Target,
    replica: String,
    trust_domain: Option<String>,
    origin: String,
    vkey: String,
    dir: PathBuf,
    log: Arc<Log>,
    standing: Arc<StoreStanding>,
    stop: Arc<AtomicBool>,
    session: Option<Session>,
    at: Option<Standing>,
    days_made: BTreeSet<i64>,
}

/// Where it stands in both.
struct Standing {
    place: Place,
    entries: Entries,
    /// Where the next checkpoint stands in the file.
    notes_at: u64,
    /// The size that the newest one in the store covers.
    noted: u64,
}

impl Shipping {
    /// Begins to ship a log for the replica that was begun.
    ///
    /// # Errors
    /// The thread cannot be made.
    pub fn start(
        begun: Begun,
        trust_domain: Option<&str>,
        log: &Arc<Log>,
        standing: &Arc<StoreStanding>,
    ) -> Result<Shipping, std::io::Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let cursor = Cursor {
            target: begun.target,
            replica: begun.replica,
            trust_domain: trust_domain.map(str::to_owned),
            origin: log.origin().to_owned(),
            vkey: log.vkey().to_owned(),
            dir: log.path().to_owned(),
            log: Arc::clone(log),
            standing: Arc::clone(standing),
            stop: Arc::clone(&stop),
            session: Some(begun.session),
            at: None,
            days_made: BTreeSet::new(),
        };
        let thread = std::thread::Builder::new().name("ship".into());
        let thread = thread.spawn(move || cursor.run())?;
        log.stats().wake_on_sync(thread.thread().clone());
        Ok(Shipping {
            stop,
            thread: Some(thread),
        })
    }

    /// Ships what is left of a log that was closed, and ends; for 5 s at most.
    pub fn close(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Drop for Shipping {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Cursor {
    fn run(mut self) {
        let mut closing: Option<Instant> = None;
        loop {
            if self.stop.load(Ordering::Relaxed) && closing.is_none() {
                closing = Some(Instant::now() + CLOSE_MAX);
            }
            let turn = self.turn();
            let is_over = closing.is_some_and(|by| Instant::now() >= by);
            match turn {
                Ok(true) if !is_over => {}
                Ok(_) if closing.is_some() => break,
                Ok(_) => std::thread::park_timeout(IDLE),
                Err(Wrong::Alarm(alarm)) => return self.standing.raise(alarm),
                Err(Wrong::Failed(why)) => {
                    self.standing.failed(&why);
                    tracing::warn!(why, "records do not reach the store; tried again");
                    self.session = None;
                    if is_over {
                        break;
                    }
                    std::thread::sleep(RETRY);
                }
            }
        }
        if let Some(session) = &self.session {
            let sql = "UPDATE weir.replicas SET ended = true, entries = $2, shipped = $2, seen = clock_timestamp() WHERE name = $1";
            let shipped = SqlValue::Int(Some(signed(self.standing.shipped())));
            let _ = session.execute(sql, &[SqlValue::Text(Some(&self.replica)), shipped]);
        }
    }

    fn stats(&self) -> &LogStats {
        self.log.stats()
    }

    /// Ships one batch; says whether there was one.
    fn turn(&mut self) -> Result<bool, Wrong> {
        if self.stats().synced() > self.standing.shipped() {
            self.standing.waits();
        }
        self.session()?;
        let synced = self.stats().synced();
        let (Some(session), Some(at)) = (&self.session, &mut self.at) else {
            return Ok(false);
        };
        let Batch {
            rows,
            next,
            last,
            day,
            days,
        } = batch(at, synced)?;
        if rows.count > 0 {
            for day in days {
                if self.days_made.insert(day) {
                    let date = date(day);
                    let made = session.rows(
                        "SELECT weir.make_day($1::text::date)::text",
                        &[SqlValue::Text(Some(&date))],
                    );
                    if let Err(fault) = made {
                        self.days_made.remove(&day);
                        return Err(fault.into());
                    }
                }
            }
            ship(session, &at.place, rows, (next, last, day))?;
            (at.place.next, at.place.last, at.place.day) = (next, last, day);
        }
        notes(session, at, &self.dir, &self.origin, &self.vkey)?;
        let more = self.log.stats().synced() > at.place.next;
        self.standing.progress(at.place.next, more);
        Ok(more)
    }

    /// Sees that there is a session, and that it stands where the log does.
    fn session(&mut self) -> Result<(), Wrong> {
        if self
            .session
            .as_ref()
            .is_some_and(|session| !session.is_broken())
            && self.at.is_some()
        {
            return Ok(());
        }
        self.at = None;
        let failed = |error: ReplicaError| Wrong::Failed(error.to_string());
        let session = match self.session.take().filter(|session| !session.is_broken()) {
            Some(session) => session,
            None => {
                let session = open(&self.target).map_err(failed)?;
                look(&session, self.trust_domain.as_deref()).map_err(failed)?;
                hold_name(&session, &self.replica, NAME_AGAIN).map_err(failed)?;
                session
            }
        };
        let place =
            Place::find(&session, &self.origin, &self.vkey, &self.replica).map_err(failed)?;
        let fork = |error: ReplicaError| Wrong::Alarm(error.to_string());
        place.fits(&self.dir, self.stats().synced()).map_err(fork)?;
        let entries = audit::entries(&self.dir, place.next);
        let entries = entries.map_err(|damage| Wrong::Failed(damage.to_string()))?;
        let noted = session.rows(
            "SELECT coalesce(max(size), 0) FROM weir.checkpoints WHERE origin = $1",
            &[SqlValue::Int(Some(place.id))],
        )?;
        let noted = noted.first().map_or(0, |row| unsigned(row.get(0)));
        self.standing
            .progress(place.next, self.stats().synced() > place.next);
        self.at = Some(Standing {
            place,
            entries,
            notes_at: 0,
            noted,
        });
        self.session = Some(session);
        Ok(())
    }
}

/// Rows to ship, and where the log stands with them.
struct Batch {
    rows: Rows,
    next: u64,
    last: Digest,
    day: i64,
    days: BTreeSet<i64>,
}

/// Reads what is synced, up to the bounds of one transaction.
fn batch(at: &mut Standing, synced: u64) -> Result<Batch, Wrong> {
    let mut batch = Batch {
        rows: Rows::default(),
        next: at.place.next,
        last: at.place.last,
        day: at.place.day,
        days: BTreeSet::new(),
    };
    let unreadable =
        |damage: audit::Damage| Wrong::Failed(format!("the log on the disk: {damage}"));
    while batch.next < synced && batch.rows.count < ROWS_MAX && batch.rows.len() < BATCH_BYTES_MAX {
        let whole = match at.entries.next_whole() {
            Some(whole) => whole.map_err(unreadable)?,
            None => {
                at.entries.again().map_err(unreadable)?;
                match at.entries.next_whole() {
                    Some(whole) => whole.map_err(unreadable)?,
                    None => break,
                }
            }
        };
        if whole.seq != batch.next || whole.prev != batch.last {
            let what = format!(
                "entry {} on the disk does not follow the one before it; see weir audit verify",
                batch.next
            );
            return Err(Wrong::Alarm(what));
        }
        let columns = Columns::of(&whole.record);
        batch.day = day(columns.at, batch.day);
        batch.days.insert(batch.day);
        batch.rows.add(
            batch.day,
            (at.place.id, whole.seq),
            &columns,
            &whole.leaf,
            &whole.record,
        );
        (batch.next, batch.last) = (whole.seq + 1, whole.leaf);
    }
    Ok(batch)
}

/// Puts rows and the count of them into the store, both or none.
fn ship(session: &Session, place: &Place, rows: Rows, to: (u64, Digest, i64)) -> Result<(), Wrong> {
    let shipped = shipped(session, place, rows, to);
    if shipped.is_err() && !session.is_broken() {
        let _ = session.batch("ROLLBACK");
    }
    shipped
}

fn shipped(
    session: &Session,
    place: &Place,
    rows: Rows,
    (next, last, day): (u64, Digest, i64),
) -> Result<(), Wrong> {
    let id = SqlValue::Int(Some(place.id));
    session.batch("BEGIN")?;
    let stands = session.rows(
        "SELECT next, last FROM weir.origins WHERE id = $1 FOR UPDATE",
        std::slice::from_ref(&id),
    )?;
    let stands = stands
        .first()
        .map(|row| (unsigned(row.get(0)), row.get::<_, &[u8]>(1) == place.last.0));
    if stands != Some((place.next, true)) {
        // Looked at anew: another may have written this log, or the server was put back to an earlier time.
        return Err(Wrong::Failed(
            "the store stands elsewhere in this log than it did".to_owned(),
        ));
    }
    session.copy_in(COPY, rows.finish())?;
    let date = date(day);
    let values = [
        id,
        SqlValue::Int(Some(signed(next))),
        SqlValue::Bytes(Some(&last.0)),
        SqlValue::Text(Some(&date)),
    ];
    session.execute(
        "UPDATE weir.origins SET next = $2, last = $3, day = $4::text::date WHERE id = $1",
        &values,
    )?;
    session.batch("COMMIT")?;
    Ok(())
}

/// Puts checkpoints into the store whose entries are there. A second root for one size is a fork.
fn notes(
    session: &Session,
    at: &mut Standing,
    dir: &std::path::Path,
    origin: &str,
    vkey: &str,
) -> Result<(), Wrong> {
    if at.noted >= at.place.next {
        return Ok(());
    }
    let unreadable =
        |error: std::io::Error| Wrong::Failed(format!("the log's checkpoints: {error}"));
    let (text, begins) = newest(dir, at.notes_at, origin).map_err(unreadable)?;
    let verifier = note::Verifier::parse(vkey).map_err(|error| Wrong::Alarm(error.to_string()))?;
    let mut read = begins;
    for note in note::split_history(&text).0 {
        let checkpoint = verifier.checkpoint(note);
        let checkpoint = checkpoint
            .map_err(|error| Wrong::Alarm(format!("a checkpoint on the disk: {error}")))?;
        if checkpoint.size > at.place.next {
            break;
        }
        read += note.len() as u64;
        if checkpoint.size <= at.noted {
            continue;
        }
        let values = [
            SqlValue::Int(Some(at.place.id)),
            SqlValue::Int(Some(signed(checkpoint.size))),
            SqlValue::Bytes(Some(&checkpoint.root.0)),
            SqlValue::Text(Some(note)),
        ];
        let insert = "INSERT INTO weir.checkpoints VALUES ($1, $2, $3, $4) ON CONFLICT (origin, size) DO NOTHING";
        if session.execute(insert, &values)? == 0 {
            let sql = "SELECT root FROM weir.checkpoints WHERE origin = $1 AND size = $2";
            let rows = session.rows(sql, &values[..2])?;
            if rows
                .first()
                .is_none_or(|row| row.get::<_, &[u8]>(0) != checkpoint.root.0)
            {
                let what = format!(
                    "a fork: the store has another root for the first {} entries of this log",
                    checkpoint.size
                );
                return Err(Wrong::Alarm(what));
            }
        }
        at.noted = checkpoint.size;
    }
    at.notes_at = read;
    Ok(())
}

/// The checkpoints from a place in the file on, and the place where they begin. Of very many the last are read: each covers
/// those before it.
fn newest(dir: &std::path::Path, from: u64, origin: &str) -> std::io::Result<(String, u64)> {
    let mut file = match File::open(dir.join(CHECKPOINTS)) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok((String::new(), 0));
        }
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    let start = from.max(length.saturating_sub(CHECKPOINT_BYTES_MAX));
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(2 * CHECKPOINT_BYTES_MAX)
        .read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if start == from {
        return Ok((text, start));
    }
    // In the middle of a note: the next one begins with the origin's line.
    let line = format!("\n{origin}\n");
    let skipped = text.find(&line).map_or(text.len(), |at| at + 1);
    Ok((text[skipped..].to_owned(), start + skipped as u64))
}
