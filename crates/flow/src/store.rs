//! What is kept: one SQLite file or one tenant of a PostgreSQL database, one thread that writes, readers beside it.
//!
//! Each object is a row: its JSON document, and the columns, edges and facts by which it is found, all of which follow from
//! the document. Each change is an event with the document after it; events are only ever added, so the rows can be made
//! anew from them, byte for byte. Writers that wait are committed together.

mod clock;
mod db;
mod found;
mod open;
mod postgres;
mod query;
mod replay;
mod row;
mod schema;
mod tx;
mod wal;
mod words;
mod write;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use serde_json::{Value, json};
use tools::serve::call::Problem;

pub use postgres::Database;
pub use query::{Event, ItemCount, ItemFilter, Page, Rows};
pub use replay::{Standing, replay_beside};
pub use tx::{Caller, Tx};

use clock::Clock;
use db::Db;
use postgres::{Pool, Turn};
use write::{Hand, Writer};

use crate::model::{problem, problem_with};

/// The file of the database, in the data folder.
pub const FILE: &str = "flow.db";
/// Readers that are kept open.
const READERS_MAX: usize = 4;
/// Prepared statements that a connection keeps.
const STATEMENTS_MAX: usize = 128;
/// When to ask again, in milliseconds, as callers are told while a database cannot be asked.
const RETRY_MS: u64 = 1_000;

/// Where a database is.
#[derive(Clone, Debug)]
pub enum StorePlace {
    /// A file of SQLite in a folder of this machine.
    Folder(PathBuf, Durability),
    /// A tenant of a PostgreSQL database. A write is acknowledged when the server has committed it.
    Postgres(Box<Database>),
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the operating system has it: it outlives the process, not a power cut.
    Os,
    /// When the disk has it.
    #[default]
    Fsync,
}

/// The store, open. Cheap to clone.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    readers: Readers,
    writer: Writer,
    /// The last event that is committed.
    last: Arc<AtomicU64>,
}

/// Where readers read.
enum Readers {
    Sqlite {
        path: PathBuf,
        idle: Mutex<Vec<Connection>>,
        clock: Arc<Clock>,
    },
    Postgres(Arc<Pool>),
}

/// What a write answers, kept with its idempotency key.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The structured answer.
    pub value: Value,
    /// Whether it was done by an earlier call with the same key.
    pub repeated: bool,
}

impl Store {
    /// Opens a database, or makes it. Of a file only one process may have it open to write. A PostgreSQL server that does
    /// not answer yet is asked again by each call.
    ///
    /// # Errors
    ///
    /// A database of another program or of a newer version, a network file system, a disk that fails, a role that may see
    /// all tenants.
    pub fn open(place: &StorePlace) -> Result<Store, Problem> {
        let (readers, hand, last) = match place {
            StorePlace::Folder(folder, durability) => {
                let path = folder.join(FILE);
                let db = open::writer(&path, *durability)?;
                let last = query::last_event(Db::Sqlite(&db))?;
                let clock = Arc::new(Clock::from(last.map_or(0, |(_, ms)| ms)));
                let file = open::FileSeen::at(&path)?;
                let readers = Readers::Sqlite {
                    path,
                    idle: Mutex::default(),
                    clock: Arc::clone(&clock),
                };
                (
                    readers,
                    Hand::Sqlite(db, file, clock, wal::Wal::default()),
                    last.map(|(seq, _)| seq),
                )
            }
            StorePlace::Postgres(database) => {
                let pool = Arc::new(Pool::open(database)?);
                let turn = Turn::new(Arc::clone(&pool));
                let readers = Readers::Postgres(Arc::clone(&pool));
                (readers, Hand::Postgres(Box::new(turn), pool), None)
            }
        };
        let last = Arc::new(AtomicU64::new(last.unwrap_or_default()));
        let writer = Writer::start(hand, Arc::clone(&last))?;
        Ok(Store(Arc::new(Inner {
            readers,
            writer,
            last,
        })))
    }

    /// Reads, from one state of the whole.
    ///
    /// # Errors
    ///
    /// What the reader says, or that the database fails.
    pub fn read<T>(
        &self,
        caller: &Caller,
        run: impl FnOnce(&Tx<'_>) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.0
            .readers
            .read(|db, now_ms| run(&Tx::new(db, caller, now_ms)))
    }

    /// Writes: all that `run` does, or nothing. With a key, it is done once, and the answer given again.
    ///
    /// # Errors
    ///
    /// What `run` says, or that the database fails.
    pub fn write(
        &self,
        caller: &Caller,
        run: impl FnOnce(&Tx<'_>) -> Result<Value, Problem> + Send + 'static,
    ) -> Result<Written, Problem> {
        self.0.writer.write(caller.clone(), Box::new(run))
    }

    /// The number of the last event.
    pub fn last_event(&self) -> u64 {
        self.0.last.load(Ordering::Acquire)
    }

    fn with_reader<T>(&self, run: impl FnOnce(Db<'_>) -> Result<T, Problem>) -> Result<T, Problem> {
        self.0.readers.read(|db, _| run(db))
    }
}

impl Readers {
    /// Gives a reader a connection in a transaction, and the time.
    fn read<T>(&self, run: impl FnOnce(Db<'_>, u64) -> Result<T, Problem>) -> Result<T, Problem> {
        let (path, idle, clock) = match self {
            Readers::Sqlite { path, idle, clock } => (path, idle, clock),
            Readers::Postgres(pool) => {
                return pool.read(|session, now_ms| run(Db::Postgres(session), now_ms));
            }
        };
        let idle = || idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle().pop();
        let db = kept.map_or_else(|| open::reader(path), Ok)?;
        let result = db
            .execute_batch("BEGIN DEFERRED")
            .map_err(failed)
            .and_then(|()| run(Db::Sqlite(&db), clock.now()));
        // A connection that cannot end its transaction is not used again.
        if db.execute_batch("COMMIT").is_ok() {
            let mut idle = idle();
            if idle.len() < READERS_MAX {
                idle.push(db);
            }
        }
        result
    }
}

/// What a caller is told while the database cannot be asked.
fn unavailable(what: &str, written: &str) -> Problem {
    let seconds = RETRY_MS / 1000;
    problem_with(
        "unavailable",
        format!(
            "{written}: {what}; ask again in {seconds} s. Whoever runs this server finds more in its log"
        ),
        json!({ "retry_after_ms": RETRY_MS }),
    )
}

/// A failure of SQLite. What it says of the disk is for the operator as well as for the caller.
pub(crate) fn failed(error: rusqlite::Error) -> Problem {
    use rusqlite::ErrorCode;
    let what = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full".to_owned(),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            "the database cannot be written".to_owned()
        }
        Some(ErrorCode::SystemIoFailure) => "the disk fails".to_owned(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program has the database locked".to_owned()
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            "the database is damaged".to_owned()
        }
        _ => error.to_string(),
    };
    tracing::error!(%error, "the database of flow");
    unavailable(&what, "nothing was written")
}

/// Reads a database that another process may have open to write.
///
/// # Errors
///
/// Where there is none, or it cannot be read; and what the reader says.
pub fn read_beside<T>(
    place: &StorePlace,
    run: impl FnOnce(&Tx<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let caller = Caller::default();
    beside(place, |db, now_ms| run(&Tx::new(db, &caller, now_ms)))
}

fn beside<T>(
    place: &StorePlace,
    run: impl FnOnce(Db<'_>, u64) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let folder = match place {
        StorePlace::Folder(folder, _) => folder,
        StorePlace::Postgres(database) => {
            return Pool::open(database)?
                .read(|session, now_ms| run(Db::Postgres(session), now_ms));
        }
    };
    let path = folder.join(FILE);
    if !path.exists() {
        let what = format!("{} has no database of flow yet", folder.display());
        return Err(problem("not_found", what));
    }
    let db = open::reader(&path)?;
    open::refuse_others(&db, &path)?;
    db.execute_batch("BEGIN DEFERRED").map_err(failed)?;
    run(Db::Sqlite(&db), Clock::from(0).now())
}

/// Brings a database up to date, and gives its version. On PostgreSQL a role may be named that may use its tables then.
///
/// # Errors
///
/// As [`Store::open`] has them, but for the role: who makes tables may be anybody.
pub fn migrate(place: &StorePlace, user: Option<&str>) -> Result<usize, Problem> {
    match place {
        StorePlace::Folder(folder, durability) => {
            open::writer(&folder.join(FILE), *durability)?;
            Ok(schema::STEPS.len())
        }
        StorePlace::Postgres(database) => postgres::migrate(database, user),
    }
}
