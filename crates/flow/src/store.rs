//! What is kept: one SQLite file, one thread that writes, readers beside it.
//!
//! Each object is a row: its JSON document, and the columns, edges and facts by which it is found, all of which follow from
//! the document. Each change is an event with the document after it; events are only ever added, so the rows can be made
//! anew from them, byte for byte. Writers that wait are committed together.

mod clock;
mod open;
mod query;
mod replay;
mod row;
mod schema;
mod tx;
mod write;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use serde_json::Value;
use tools::serve::call::Problem;

pub use query::{Event, ItemFilter, Page, Rows};
pub use replay::{Standing, replay_beside};
pub use tx::{Caller, Tx};

use clock::Clock;
use write::Writer;

use crate::model::problem;

/// The file of the database, in the data folder.
pub const FILE: &str = "flow.db";
/// Readers that are kept open.
const READERS_MAX: usize = 4;
/// Prepared statements that a connection keeps.
const STATEMENTS_MAX: usize = 128;

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
    path: PathBuf,
    writer: Writer,
    readers: Mutex<Vec<Connection>>,
    /// The last event that is committed.
    last: Arc<AtomicU64>,
    clock: Arc<Clock>,
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
    /// Opens the database of a folder, or makes it. Only one process may have it open to write.
    ///
    /// # Errors
    ///
    /// A database of another program or of a newer version, a network file system, or a disk that fails.
    pub fn open(folder: &std::path::Path, durability: Durability) -> Result<Store, Problem> {
        let path = folder.join(FILE);
        let db = open::writer(&path, durability)?;
        let last = query::last_event(&db)?;
        let clock = Arc::new(Clock::from(last.as_ref().map_or(0, |(_, ms)| *ms)));
        let last = Arc::new(AtomicU64::new(last.map_or(0, |(seq, _)| seq)));
        let writer = Writer::start(db, Arc::clone(&last), Arc::clone(&clock))?;
        Ok(Store(Arc::new(Inner {
            path,
            writer,
            readers: Mutex::default(),
            last,
            clock,
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
        let db = self.reader()?;
        let result = db
            .execute_batch("BEGIN DEFERRED")
            .map_err(failed)
            .and_then(|()| run(&Tx::new(&db, caller, self.0.clock.now())));
        // A connection that cannot end its transaction is not used again.
        if db.execute_batch("COMMIT").is_ok() {
            let mut readers = self.readers();
            if readers.len() < READERS_MAX {
                readers.push(db);
            }
        }
        result
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

    fn reader(&self) -> Result<Connection, Problem> {
        let kept = self.readers().pop();
        kept.map_or_else(|| open::reader(&self.0.path), Ok)
    }

    fn readers(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.0
            .readers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A failure of the database. What it says of the disk is for the operator as well as for the caller.
pub(crate) fn failed(error: rusqlite::Error) -> Problem {
    use rusqlite::ErrorCode;
    let code = error.sqlite_error_code();
    let what = match code {
        Some(ErrorCode::DiskFull) => "the disk is full".to_owned(),
        Some(ErrorCode::ReadOnly) => "the database cannot be written".to_owned(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            "the database is damaged".to_owned()
        }
        _ => error.to_string(),
    };
    tracing::error!(%error, "the database of flow");
    problem(
        "unavailable",
        format!("nothing was written: {what}; whoever runs this server finds more in its log"),
    )
}

/// Reads the database of a folder that another process may have open to write.
///
/// # Errors
///
/// Where there is none, or it cannot be read; and what the reader says.
pub fn read_beside<T>(
    folder: &std::path::Path,
    run: impl FnOnce(&Tx<'_>) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let db = beside(folder)?;
    db.execute_batch("BEGIN DEFERRED").map_err(failed)?;
    let caller = Caller::default();
    run(&Tx::new(&db, &caller, Clock::from(0).now()))
}

fn beside(folder: &std::path::Path) -> Result<Connection, Problem> {
    let path = folder.join(FILE);
    if !path.exists() {
        let what = format!("{} has no database of flow yet", folder.display());
        return Err(problem("not_found", what));
    }
    let db = open::reader(&path)?;
    open::refuse_others(&db, &path)?;
    Ok(db)
}

/// Brings the database of a folder up to date, and gives its version.
///
/// # Errors
///
/// As [`Store::open`] has them.
pub fn migrate(folder: &std::path::Path, durability: Durability) -> Result<usize, Problem> {
    open::writer(&folder.join(FILE), durability)?;
    Ok(schema::STEPS.len())
}
