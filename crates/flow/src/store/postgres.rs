//! The store of teams: one PostgreSQL database for all who share it, a tenant each.
//!
//! The tables, statements and documents are those of SQLite. What differs: each row has a tenant, which row-level security
//! compares with the session's; the writers of all servers take turns by an advisory lock of the tenant, so that one
//! transaction at a time writes, as on SQLite; and the clock is the server's. It refuses a role to which the policies do not
//! apply, a database of another program, and one of a version that this weir does not know. While the server is gone,
//! every call says so and when to ask again; the next one after that connects anew.

mod check;
mod schema;
mod turn;

use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ::postgres::{Fault, STATEMENT_MS_MAX, Session, SqlValue, Target};
use sha2::{Digest, Sha256};
use tools::serve::call::Problem;

use super::clock::Clock;
use super::unavailable;
use crate::model::problem;

pub(super) use check::migrate;
pub(super) use turn::Turn;

/// Connections of one server that read.
const READERS_MAX: usize = 8;
/// How long a call waits for one of them, in milliseconds.
const READER_MS_MAX: u64 = 10_000;
/// How long the writers of other servers are waited for, in milliseconds.
const TURN_MS_MAX: u64 = 6_000;
/// How long a transaction may stand still before the server ends it, in milliseconds: a server of ours that hangs keeps no
/// other from writing.
const IDLE_MS_MAX: u64 = 15_000;
/// How long nobody tries to connect again after nobody answered, in milliseconds.
const PAUSE_MS: u64 = 250;
/// How a reader begins: all that it reads is of one state.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// Longest name of a tenant, in bytes.
const TENANT_BYTES_MAX: usize = 64;

/// A database, and whose rows of it.
#[derive(Clone, Debug)]
pub struct Database {
    pub(super) target: Target,
    tenant: String,
}

impl Database {
    /// The rows of a tenant in a database.
    ///
    /// # Errors
    ///
    /// A name that no tenant can have.
    pub fn new(target: Target, tenant: &str) -> Result<Database, String> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if tenant.is_empty() || tenant.len() > TENANT_BYTES_MAX || !tenant.bytes().all(is_name) {
            return Err(format!(
                "must have 1 to {TENANT_BYTES_MAX} letters, digits, dots, dashes or underscores"
            ));
        }
        Ok(Database {
            target,
            tenant: tenant.to_owned(),
        })
    }

    /// The ports of TCP that its server listens on.
    pub fn ports(&self) -> Vec<u16> {
        self.target.ports()
    }

    /// Two that are the same have the same: whose engine it is.
    pub fn name(&self) -> String {
        format!("{} of {}", self.tenant, self.target.name())
    }

    /// The advisory lock of the tenant's writers.
    fn lock(&self) -> i32 {
        let digest = Sha256::digest(self.tenant.as_bytes());
        i32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
    }
}

/// `HOST/DATABASE`.
impl std::fmt::Display for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.target.fmt(f)
    }
}

/// The sessions of one server.
pub(super) struct Pool {
    database: Database,
    readers: Mutex<Readers>,
    /// A reader came back.
    back: Condvar,
    /// When nobody answered last, and what was said.
    gone: Mutex<Option<(Instant, Problem)>>,
    clock: OnceLock<Clock>,
}

#[derive(Default)]
struct Readers {
    idle: Vec<Session>,
    open: usize,
}

impl Pool {
    /// A pool whose database was looked at. A server that does not answer yet is asked again by each call.
    pub(super) fn open(database: &Database) -> Result<Pool, Problem> {
        let pool = Pool {
            database: database.clone(),
            readers: Mutex::default(),
            back: Condvar::new(),
            gone: Mutex::default(),
            clock: OnceLock::new(),
        };
        match pool.connect() {
            Ok(session) => pool.keep(session),
            Err(problem) if problem.code == "unavailable" => {
                tracing::warn!(problem = problem.message, "PostgreSQL");
            }
            Err(problem) => return Err(problem),
        }
        Ok(pool)
    }

    /// Reads, from one state of the whole.
    pub(super) fn read<T>(
        &self,
        run: impl FnOnce(&Session, u64) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let place = self.place()?;
        let mut session = match self.lock_readers().idle.pop() {
            Some(session) => session,
            None => self.connect()?,
        };
        if let Err(fault) = session.batch(BEGIN) {
            // A session that was kept may have lost its server long ago.
            tracing::debug!(?fault, "a kept session");
            session = self.connect()?;
            session.batch(BEGIN).map_err(failed)?;
        }
        let result = run(&session, self.clock().now());
        if session.batch("COMMIT").is_ok() {
            self.keep(session);
        }
        drop(place);
        result
    }

    /// A place among the readers.
    fn place(&self) -> Result<ReaderPlace<'_>, Problem> {
        let readers = self.lock_readers();
        let wait = Duration::from_millis(READER_MS_MAX);
        let full = |readers: &mut Readers| readers.open >= READERS_MAX;
        let (mut readers, waited) = self
            .back
            .wait_timeout_while(readers, wait, full)
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(unavailable(
                "too many calls wait for PostgreSQL",
                "nothing was written",
            ));
        }
        readers.open += 1;
        Ok(ReaderPlace(self))
    }

    fn keep(&self, session: Session) {
        let mut readers = self.lock_readers();
        if readers.idle.len() < READERS_MAX {
            readers.idle.push(session);
        }
    }

    fn lock_readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new session, checked. For a moment after nobody answered, nobody is asked.
    pub(super) fn connect(&self) -> Result<Session, Problem> {
        let pause = Duration::from_millis(PAUSE_MS);
        let gone = self
            .gone
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let is_news = gone.is_none();
        if let Some((_, problem)) = gone.filter(|(at, _)| at.elapsed() < pause) {
            return Err(problem);
        }
        let opened = check::session(&self.database, is_news);
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        *gone = match &opened {
            Err(problem) if problem.code == "unavailable" => {
                Some((Instant::now(), problem.clone()))
            }
            Ok(_) | Err(_) => None,
        };
        drop(gone);
        let (session, now_ms) = opened?;
        self.clock.get_or_init(|| Clock::at(now_ms)).raise(now_ms);
        Ok(session)
    }

    pub(super) fn clock(&self) -> &Clock {
        self.clock.get_or_init(|| Clock::from(0))
    }
}

/// Given back when it is dropped.
struct ReaderPlace<'p>(&'p Pool);

impl Drop for ReaderPlace<'_> {
    fn drop(&mut self) {
        self.0.lock_readers().open -= 1;
        self.0.back.notify_one();
    }
}

/// What each session of a tenant is set to, before it is asked anything.
fn settle(session: &Session, tenant: &str) -> Result<(), Fault> {
    session.batch(&format!(
        "SET search_path = pg_catalog, {schema}, pg_temp; SET statement_timeout = {STATEMENT_MS_MAX}; \
         SET lock_timeout = {TURN_MS_MAX}; SET idle_in_transaction_session_timeout = {IDLE_MS_MAX}; \
         SET row_security = on",
        schema = schema::SCHEMA
    ))?;
    let set = "SELECT set_config('weir.tenant', $1, false)";
    session.rows(set, &[SqlValue::Text(Some(tenant))]).map(drop)
}

/// A fault of the server as callers are told. What it said is for the log.
pub(super) fn failed(fault: Fault) -> Problem {
    match &fault {
        Fault::Gone(_) => tracing::debug!(?fault, "the PostgreSQL of flow"),
        Fault::Refused { .. } => tracing::error!(?fault, "the PostgreSQL of flow"),
    }
    match fault {
        Fault::Gone(_) => unavailable("PostgreSQL does not answer", "nothing was written"),
        Fault::Refused { state, .. } => {
            let what = match state.as_str() {
                // Appendix A of PostgreSQL's documentation.
                "53100" => "PostgreSQL's disk is full",
                "25006" => "PostgreSQL takes no writes now",
                "55P03" => "others were writing all the time",
                "57014" => "PostgreSQL took too long",
                "42501" => "the role of this server lacks a right in the database",
                _ => "PostgreSQL refused a statement",
            };
            unavailable(what, "nothing was written")
        }
    }
}

/// A column that is not of the type that it was made with.
pub(super) fn unread(error: impl std::fmt::Display) -> Problem {
    problem(
        "unavailable",
        format!("a row of the database is damaged: {error}"),
    )
}
