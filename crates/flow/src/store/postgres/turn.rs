//! A writer's turn: one transaction under the lock of the tenant, and what became of it where the server was lost at its
//! commit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::postgres::{Fault, Session, SqlValue};
use tools::serve::call::Problem;

use super::schema::{LOCKS, STEPS};
use super::{Pool, check, failed};
use crate::model::time_ms;
use crate::store::unavailable;

/// How long a commit that nobody confirmed is asked after, in milliseconds.
const ASK_MS_MAX: u64 = 5_000;
/// How often it is asked after, in milliseconds.
const ASK_MS: u64 = 100;

/// The session that writes.
pub(in crate::store) struct Turn {
    pool: Arc<Pool>,
    session: Option<Session>,
    /// The number of the transaction, by which its end is found (`pg_xact_status`).
    transaction: String,
    /// The version of the tables.
    version: i64,
}

impl Turn {
    pub(in crate::store) fn new(pool: Arc<Pool>) -> Turn {
        Turn {
            pool,
            session: None,
            transaction: String::new(),
            version: 0,
        }
    }

    /// The session, in a transaction that `begin` opened.
    pub(in crate::store) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Begins a transaction once no other server writes.
    pub(in crate::store) fn begin(&mut self) -> Result<(), Problem> {
        let kept = self.session.take().filter(|session| !session.is_broken());
        let begun = match kept.map(|session| self.lock(session)) {
            // There was none, or it lost its server since it wrote last.
            None | Some(Err(Fault::Gone(_))) => {
                let session = self.pool.connect()?;
                self.lock(session)
            }
            Some(other) => other,
        };
        begun.map_err(failed)?;
        // A later weir may have changed the tables while this one served.
        let version = usize::try_from(self.version).unwrap_or(usize::MAX);
        if version == STEPS.len() {
            return Ok(());
        }
        self.give_up();
        Err(check::newer(
            &self.pool.database.target.to_string(),
            version,
        ))
    }

    fn lock(&mut self, session: Session) -> Result<(), Fault> {
        let lock = self.pool.database.lock();
        let locked = session.batch(&format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT pg_advisory_xact_lock({LOCKS}, {lock})"
        ));
        // A statement of its own: what it sees has to be what the writer before committed.
        let seen = locked.and_then(|()| {
            session.rows(
                "SELECT CAST(pg_current_xact_id() AS TEXT), (SELECT version FROM about), \
                 (SELECT at FROM events ORDER BY seq DESC LIMIT 1)",
                &[],
            )
        });
        let rows = match seen {
            Ok(rows) => rows,
            Err(fault) => {
                let _ = session.batch("ROLLBACK");
                self.session = Some(session);
                return Err(fault);
            }
        };
        self.session = Some(session);
        let Some(row) = rows.first() else {
            return Err(Fault::Gone("no number of the transaction".to_owned()));
        };
        let read = |error: &dyn std::fmt::Display| Fault::Gone(error.to_string());
        self.transaction = row.try_get(0).map_err(|error| read(&error))?;
        self.version = row.try_get(1).map_err(|error| read(&error))?;
        let last: Option<String> = row.try_get(2).map_err(|error| read(&error))?;
        if let Some(ms) = last.as_deref().and_then(time_ms) {
            self.pool.clock().raise(ms);
        }
        Ok(())
    }

    /// Commits. Where the server is lost at that moment, it is asked what became of the transaction as soon as it is back.
    pub(in crate::store) fn commit(&mut self) -> Result<(), Problem> {
        let Some(session) = &self.session else {
            return Err(unavailable("the session ended", "nothing was written"));
        };
        match session.batch("COMMIT") {
            Ok(()) => Ok(()),
            Err(Fault::Refused { state, message }) => {
                self.give_up();
                Err(failed(Fault::Refused { state, message }))
            }
            Err(fault) => {
                tracing::error!(?fault, "the PostgreSQL of flow, at a commit");
                self.session = None;
                self.ask_after()
            }
        }
    }

    /// Leaves nothing of the transaction behind.
    pub(in crate::store) fn give_up(&mut self) {
        let ended = self
            .session
            .as_ref()
            .map(|session| session.batch("ROLLBACK"));
        // The server rolls back what a session leaves open.
        if !matches!(ended, Some(Ok(()))) {
            self.session = None;
        }
    }

    fn ask_after(&mut self) -> Result<(), Problem> {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(ASK_MS_MAX) {
            std::thread::sleep(Duration::from_millis(ASK_MS));
            let Ok(session) = self.pool.connect() else {
                continue;
            };
            let status = "SELECT pg_xact_status(CAST($1 AS XID8))";
            let status = session.rows(status, &[SqlValue::Text(Some(&self.transaction))]);
            let status: Option<String> = status
                .ok()
                .and_then(|rows| rows.first().and_then(|row| row.try_get(0).ok().flatten()));
            match status.as_deref() {
                Some("committed") => {
                    self.session = Some(session);
                    return Ok(());
                }
                Some("aborted") => {
                    self.session = Some(session);
                    return Err(unavailable(
                        "PostgreSQL ended the transaction",
                        "nothing was written",
                    ));
                }
                // In progress: the server has not seen yet that the session is gone.
                _ => {}
            }
        }
        Err(unavailable(
            "PostgreSQL was lost at the commit; repeat the call with the same idempotency_key, and it is done once",
            "whether it was written is not known",
        ))
    }
}
