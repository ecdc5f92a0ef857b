//! The one thread that writes. What waits is done in one transaction, each part in a savepoint of its own: a part that
//! fails leaves nothing behind, and all others are acknowledged together, after the commit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rusqlite::Connection;
use serde_json::Value;
use tools::serve::call::Problem;

use super::clock::Clock;
use super::db::{Db, cells};
use super::open::FileSeen;
use super::postgres::{Pool, Turn};
use super::tx::{Caller, Tx};
use super::wal::Wal;
use super::{Written, failed, unavailable};
use crate::model::problem;

/// Writes that wait; whoever comes then waits for a place.
const WAITING_MAX: usize = 256;
/// Writes in one transaction.
const TOGETHER_MAX: usize = 64;
/// Idempotency keys that are kept; the oldest are forgotten.
const KEYS_MAX: i64 = 20_000;

pub(super) type Run = Box<dyn FnOnce(&Tx<'_>) -> Result<Value, Problem> + Send>;

struct Waiting {
    caller: Caller,
    run: Run,
    answer: SyncSender<Result<Written, Problem>>,
}

/// Hands writes to the thread.
pub(super) struct Writer(SyncSender<Waiting>);

impl Writer {
    /// Starts the thread.
    pub(super) fn start(mut hand: Hand, last: Arc<AtomicU64>) -> Result<Writer, Problem> {
        let (to, from) = sync_channel(WAITING_MAX);
        std::thread::Builder::new()
            .name("flow writer".to_owned())
            .spawn(move || serve(&mut hand, &from, &last))
            .map_err(|error| problem("unavailable", format!("a thread: {error}")))?;
        Ok(Writer(to))
    }

    pub(super) fn write(&self, caller: Caller, run: Run) -> Result<Written, Problem> {
        let (answer, result) = sync_channel(1);
        let gone = || {
            problem(
                "unavailable",
                "the writer of the database ended; start the server again",
            )
        };
        self.0
            .send(Waiting {
                caller,
                run,
                answer,
            })
            .map_err(|_| gone())?;
        result.recv().map_err(|_| gone())?
    }
}

/// What writes: the one connection of SQLite, or a turn among the servers of PostgreSQL.
pub(super) enum Hand {
    Sqlite(Connection, FileSeen, Arc<Clock>, Wal),
    Postgres(Box<Turn>, Arc<Pool>),
}

impl Hand {
    fn begin(&mut self) -> Result<(), Problem> {
        match self {
            Hand::Sqlite(db, file, ..) => {
                file.refuse_moved()?;
                db.execute_batch("BEGIN IMMEDIATE").map_err(failed)
            }
            Hand::Postgres(turn, _) => turn.begin(),
        }
    }

    /// The connection, once a transaction is begun.
    fn db(&self) -> Result<Db<'_>, Problem> {
        match self {
            Hand::Sqlite(db, ..) => Ok(Db::Sqlite(db)),
            Hand::Postgres(turn, _) => turn
                .session()
                .map(Db::Postgres)
                .ok_or_else(|| unavailable("the session ended", "nothing was written")),
        }
    }

    fn now(&self) -> u64 {
        match self {
            Hand::Sqlite(_, _, clock, _) => clock.now(),
            Hand::Postgres(_, pool) => pool.clock().now(),
        }
    }

    fn commit(&mut self) -> Result<(), Problem> {
        match self {
            Hand::Sqlite(db, _, _, wal) => {
                db.execute_batch("COMMIT").map_err(failed)?;
                wal.committed(db);
                Ok(())
            }
            Hand::Postgres(turn, _) => turn.commit(),
        }
    }

    /// What cannot be rolled back is rolled back by the next process, or by the server.
    fn give_up(&mut self) {
        match self {
            Hand::Sqlite(db, ..) => drop(db.execute_batch("ROLLBACK")),
            Hand::Postgres(turn, _) => turn.give_up(),
        }
    }
}

/// Whether a transaction can still be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whole {
    Yes,
    /// A part that failed may have left something behind.
    No,
}

fn serve(hand: &mut Hand, from: &Receiver<Waiting>, last: &AtomicU64) {
    while let Ok(first) = from.recv() {
        let mut done = Vec::new();
        if let Err(problem) = hand.begin() {
            let _ = first.answer.send(Err(problem));
            continue;
        }
        let mut whole = Whole::Yes;
        let mut next = Some(first);
        while let Some(waiting) = next {
            let (result, then) = part(hand, &waiting.caller, waiting.run);
            done.push((waiting.answer, result));
            whole = then;
            next = (done.len() < TOGETHER_MAX && whole == Whole::Yes)
                .then(|| from.try_recv().ok())
                .flatten();
        }
        let seq = hand.db().and_then(super::query::last_event);
        let committed = match whole {
            Whole::Yes => hand.commit(),
            Whole::No => Err(unavailable(
                "a call before could not be taken back",
                "nothing was written",
            )),
        };
        if committed.is_err() {
            hand.give_up();
        } else if let Ok(Some((seq, _))) = seq {
            last.store(seq, Ordering::Release);
        }
        for (answer, result) in done {
            let result = match &committed {
                Ok(()) => result,
                Err(problem) => result.and_then(|_| Err(problem.clone())),
            };
            // A caller that gave up has what it wrote written.
            let _ = answer.send(result);
        }
    }
}

/// One call. Whatever becomes of it, it leaves nothing behind unless it succeeded.
fn part(hand: &Hand, caller: &Caller, run: Run) -> (Result<Written, Problem>, Whole) {
    let saved = hand.db().and_then(|db| {
        db.batch("SAVEPOINT part")?;
        Ok(db)
    });
    let db = match saved {
        Ok(db) => db,
        Err(problem) => return (Err(problem), Whole::No),
    };
    let result = catch_unwind(AssertUnwindSafe(|| once(db, caller, run, hand.now())));
    let result = result.unwrap_or_else(|_| {
        Err(problem(
            "failed",
            "the call failed; the server's log says why",
        ))
    });
    // PostgreSQL refuses this after a statement failed, even where the call went on.
    let result = result.and_then(|written| db.batch("RELEASE part").map(|()| written));
    let ended = match &result {
        Ok(_) => Ok(()),
        Err(_) => db.batch("ROLLBACK TO part; RELEASE part"),
    };
    let whole = if ended.is_ok() { Whole::Yes } else { Whole::No };
    (result, whole)
}

/// Does it, or gives the answer again that its key had.
fn once(db: Db<'_>, caller: &Caller, run: Run, now_ms: u64) -> Result<Written, Problem> {
    if let Some(key) = &caller.key
        && let Some(value) = answered(db, caller, key)?
    {
        return Ok(Written {
            value,
            repeated: true,
        });
    }
    let value = run(&Tx::new(db, caller, now_ms))?;
    if let Some(key) = &caller.key {
        keep(db, caller, key, &value)?;
    }
    Ok(Written {
        value,
        repeated: false,
    })
}

fn answered(db: Db<'_>, caller: &Caller, key: &str) -> Result<Option<Value>, Problem> {
    let kept = db.one(
        "SELECT digest, answer FROM keys WHERE actor=?1 AND key=?2",
        cells![&caller.actor, key],
        |row| Ok((row.text(0)?, row.text(1)?)),
    )?;
    match kept {
        None => Ok(None),
        Some((digest, answer)) if digest == caller.digest => serde_json::from_str(&answer)
            .map(Some)
            .map_err(super::row::damaged),
        Some(_) => Err(problem(
            "key_reused",
            "`idempotency_key`: was given to another call before; make a new key for each new call",
        )),
    }
}

fn keep(db: Db<'_>, caller: &Caller, key: &str, value: &Value) -> Result<(), Problem> {
    let number = db.one(
        "INSERT INTO keys(actor, key, digest, answer, number) \
         VALUES(?1,?2,?3,?4,(SELECT coalesce(max(number), 0) + 1 FROM keys)) RETURNING number",
        cells![&caller.actor, key, &caller.digest, &value.to_string()],
        |row| row.int(0),
    )?;
    let oldest = number.unwrap_or_default() - KEYS_MAX;
    db.execute("DELETE FROM keys WHERE number <= ?1", cells![oldest])
}
