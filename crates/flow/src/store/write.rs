//! The one thread that writes. What waits is done in one transaction, each part in a savepoint of its own: a part that
//! fails leaves nothing behind, and all others are acknowledged together, after the commit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;
use tools::serve::call::Problem;

use super::clock::Clock;
use super::tx::{Caller, Tx};
use super::{Written, failed};
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
    pub(super) fn start(
        db: Connection,
        last: Arc<AtomicU64>,
        clock: Arc<Clock>,
    ) -> Result<Writer, Problem> {
        let (to, from) = sync_channel(WAITING_MAX);
        std::thread::Builder::new()
            .name("flow writer".to_owned())
            .spawn(move || serve(&db, &from, &last, &clock))
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

fn serve(db: &Connection, from: &Receiver<Waiting>, last: &AtomicU64, clock: &Clock) {
    while let Ok(first) = from.recv() {
        let mut done = Vec::new();
        if let Err(problem) = db.execute_batch("BEGIN IMMEDIATE").map_err(failed) {
            let _ = first.answer.send(Err(problem));
            continue;
        }
        let mut next = Some(first);
        while let Some(waiting) = next {
            let result = part(db, &waiting.caller, waiting.run, clock);
            done.push((waiting.answer, result));
            next = (done.len() < TOGETHER_MAX)
                .then(|| from.try_recv().ok())
                .flatten();
        }
        let seq = super::query::last_event(db);
        let committed = db.execute_batch("COMMIT").map_err(failed);
        if committed.is_err() {
            // What cannot be rolled back is rolled back by the next process.
            let _ = db.execute_batch("ROLLBACK");
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

fn part(db: &Connection, caller: &Caller, run: Run, clock: &Clock) -> Result<Written, Problem> {
    db.execute_batch("SAVEPOINT part").map_err(failed)?;
    let result = catch_unwind(AssertUnwindSafe(|| once(db, caller, run, clock)));
    let result = result.unwrap_or_else(|_| {
        Err(problem(
            "failed",
            "the call failed; the server's log says why",
        ))
    });
    let end = match result.is_ok() {
        true => "RELEASE part",
        false => "ROLLBACK TO part; RELEASE part",
    };
    db.execute_batch(end).map_err(failed)?;
    result
}

/// Does it, or gives the answer again that its key had.
fn once(db: &Connection, caller: &Caller, run: Run, clock: &Clock) -> Result<Written, Problem> {
    if let Some(key) = &caller.key
        && let Some(value) = answered(db, caller, key)?
    {
        return Ok(Written {
            value,
            repeated: true,
        });
    }
    let value = run(&Tx::new(db, caller, clock.now()))?;
    if let Some(key) = &caller.key {
        keep(db, caller, key, &value)?;
    }
    Ok(Written {
        value,
        repeated: false,
    })
}

fn answered(db: &Connection, caller: &Caller, key: &str) -> Result<Option<Value>, Problem> {
    let kept: Option<(String, String)> = db
        .prepare_cached("SELECT digest, answer FROM keys WHERE actor=?1 AND key=?2")
        .and_then(|mut select| {
            select
                .query_row([&caller.actor, key], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()
        })
        .map_err(failed)?;
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

fn keep(db: &Connection, caller: &Caller, key: &str, value: &Value) -> Result<(), Problem> {
    let number: i64 = db
        .prepare_cached(
            "INSERT INTO keys(actor, key, digest, answer, number) \
             VALUES(?1,?2,?3,?4,(SELECT coalesce(max(number), 0) + 1 FROM keys)) RETURNING number",
        )
        .and_then(|mut insert| {
            insert.query_row(
                params![caller.actor, key, caller.digest, value.to_string()],
                |row| row.get(0),
            )
        })
        .map_err(failed)?;
    db.prepare_cached("DELETE FROM keys WHERE number <= ?1")
        .and_then(|mut delete| delete.execute([number - KEYS_MAX]))
        .map_err(failed)?;
    Ok(())
}
