//! Opens a session, and refuses a role, a database or tables that would not keep tenants apart or that are not ours; makes
//! the tables.

use ::postgres::{Fault, Session, SqlValue};
use tools::serve::call::Problem;

use super::schema::{APPLICATION, LOCKS, SCHEMA, STEPS, TABLES, policies};
use super::{Database, failed, settle};
use crate::model::problem;
use crate::store::unavailable;

/// How long the tables may take to be brought up to date, in milliseconds.
const MIGRATE_MS_MAX: u64 = 600_000;

/// Of why a server cannot be reached, the characters that are told.
const WHY_CHARS_MAX: usize = 200;

/// Whose database it is.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    /// There is no table at all.
    Empty,
    /// Ours, of this version.
    Version(usize),
}

/// A session of the tenant, and the server's time in milliseconds since 1970. An empty database gets its tables. That nobody
/// answers is logged where it is news.
pub(super) fn session(database: &Database, is_news: bool) -> Result<(Session, u64), Problem> {
    let session = open(database, is_news)?;
    refuse_mighty(&session, database)?;
    match standing(&session, database)? {
        Standing::Empty => bring(&session, database, Policies::OfNewTables)?,
        Standing::Version(version) if version == STEPS.len() => {}
        Standing::Version(version) => {
            return Err(problem(
                "older_database",
                format!(
                    "{} has version {version}, and this weir needs {}; weir flow migrate brings it up to date, for all servers that share it",
                    database.target,
                    STEPS.len()
                ),
            ));
        }
    }
    refuse_open_tables(&session, database)?;
    settle(&session, &database.tenant).map_err(failed)?;
    let now = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)";
    let now = number(&session, now)?;
    Ok((session, u64::try_from(now).unwrap_or_default()))
}

/// Brings the tables up to date, and gives their version. A role that is named may use them then, and not change them.
pub(in crate::store) fn migrate(database: &Database, user: Option<&str>) -> Result<usize, Problem> {
    let session = open(database, true)?;
    standing(&session, database)?;
    bring(&session, database, Policies::Again)?;
    if let Some(user) = user {
        grant(&session, user)?;
    }
    Ok(STEPS.len())
}

fn open(database: &Database, is_news: bool) -> Result<Session, Problem> {
    Session::open(&database.target).map_err(|fault| match fault {
        Fault::Gone(why) => {
            if is_news {
                tracing::error!(why, server = %database.target, "the PostgreSQL of flow");
            }
            let why: String = why.chars().take(WHY_CHARS_MAX).collect();
            unavailable(
                &format!("PostgreSQL cannot be reached ({why})"),
                "nothing was written",
            )
        }
        refused @ Fault::Refused { .. } => failed(refused),
    })
}

/// Refuses a role to which row-level security does not apply, or that could become one.
fn refuse_mighty(session: &Session, database: &Database) -> Result<(), Problem> {
    let is_mighty = "SELECT CAST(EXISTS(SELECT 1 FROM pg_catalog.pg_roles r WHERE (r.rolsuper OR r.rolbypassrls) \
         AND (pg_catalog.pg_has_role(session_user, r.oid, 'MEMBER') OR pg_catalog.pg_has_role(current_user, r.oid, 'MEMBER'))) \
         AS INTEGER)::BIGINT";
    match number(session, is_mighty)? {
        0 => Ok(()),
        _ => Err(problem(
            "mighty_role",
            format!(
                "the role of {} may bypass row-level security, which keeps tenants apart; give flow a role of its own: CREATE ROLE weir_flow LOGIN NOSUPERUSER NOBYPASSRLS",
                database.target
            ),
        )),
    }
}

fn standing(session: &Session, database: &Database) -> Result<Standing, Problem> {
    let encoding =
        "SELECT CAST(pg_catalog.current_setting('server_encoding') = 'UTF8' AS INTEGER)::BIGINT";
    if number(session, encoding)? == 0 {
        return Err(problem(
            "other_encoding",
            format!(
                "{} does not keep UTF-8; make a database that does",
                database.target
            ),
        ));
    }
    // Both counts of one state: another server may be making the tables at this moment.
    let tables = format!(
        "SELECT count(*) FILTER (WHERE n.nspname = '{SCHEMA}' AND c.relname = 'about'), count(*) \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ('r', 'p') AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'"
    );
    let rows = session.rows(&tables, &[]).map_err(failed)?;
    let row = rows.first().ok_or_else(|| other(database))?;
    let count = |at: usize| row.try_get::<_, i64>(at).map_err(super::unread);
    match (count(0)?, count(1)?) {
        (0, 0) => return Ok(Standing::Empty),
        (0, _) => return Err(other(database)),
        _ => {}
    }
    let about = format!("SELECT application, version FROM {SCHEMA}.about");
    let rows = session.rows(&about, &[]).map_err(failed)?;
    let row = rows.first().ok_or_else(|| other(database))?;
    let application: String = row.try_get(0).map_err(super::unread)?;
    let version: i64 = row.try_get(1).map_err(super::unread)?;
    if application != APPLICATION {
        return Err(other(database));
    }
    let version = usize::try_from(version).unwrap_or(usize::MAX);
    if version > STEPS.len() {
        return Err(newer(&database.target.to_string(), version));
    }
    Ok(Standing::Version(version))
}

fn other(database: &Database) -> Problem {
    problem(
        "other_database",
        format!(
            "{} is a database of another program; give flow a database of its own",
            database.target
        ),
    )
}

/// The refusal of a version that only a later weir knows.
pub(super) fn newer(name: &str, version: usize) -> Problem {
    problem(
        "newer_database",
        format!(
            "{name} has version {version}, and this weir knows {}; update weir",
            STEPS.len()
        ),
    )
}

/// Refuses tables that somebody opened to all tenants.
fn refuse_open_tables(session: &Session, database: &Database) -> Result<(), Problem> {
    let kept = format!(
        "SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = '{SCHEMA}' AND c.relkind = 'r' AND c.relname <> 'about' AND c.relrowsecurity AND c.relforcerowsecurity \
         AND (SELECT count(*) FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid) = 1"
    );
    let kept = usize::try_from(number(session, &kept)?).unwrap_or_default();
    match kept >= TABLES.len() {
        true => Ok(()),
        false => Err(problem(
            "open_tables",
            format!(
                "row-level security does not hold on all tables of {}; weir flow migrate puts it up again",
                database.target
            ),
        )),
    }
}

/// Which tables get their policies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Policies {
    /// Those that are made now: a table in use is left alone, since a policy waits for all who read it.
    OfNewTables,
    /// All: somebody may have taken them away.
    Again,
}

/// Makes what is missing, all or nothing; one server at a time.
fn bring(session: &Session, database: &Database, which: Policies) -> Result<(), Problem> {
    let begin = format!(
        "BEGIN; SET LOCAL statement_timeout = {MIGRATE_MS_MAX}; SELECT pg_advisory_xact_lock({LOCKS}, 0); \
         CREATE SCHEMA IF NOT EXISTS {SCHEMA}; SET LOCAL search_path = {SCHEMA}, pg_catalog, pg_temp"
    );
    let done = session
        .batch_within(&begin, MIGRATE_MS_MAX)
        .map_err(|fault| not_allowed(fault, database))
        // Another server may have made them meanwhile.
        .and_then(|()| standing(session, database))
        .and_then(|standing| {
            let done = match standing {
                Standing::Empty => 0,
                Standing::Version(version) => version,
            };
            if done == STEPS.len() && which == Policies::OfNewTables {
                return session.batch("COMMIT").map_err(failed);
            }
            let mut sql: String = STEPS[done..].concat();
            sql.push_str(&policies());
            sql.push_str(&format!(
                "DELETE FROM about; INSERT INTO about VALUES('{APPLICATION}', {}); COMMIT",
                STEPS.len()
            ));
            session
                .batch_within(&sql, MIGRATE_MS_MAX)
                .map_err(|fault| not_allowed(fault, database))
        });
    if done.is_err() {
        // What cannot be rolled back is rolled back by the server when the session ends.
        let _ = session.batch("ROLLBACK");
    }
    done
}

fn not_allowed(fault: Fault, database: &Database) -> Problem {
    match &fault {
        Fault::Refused { state, .. } if state == "42501" => problem(
            "not_allowed",
            format!(
                "the role of {} may not make or change tables; let their owner run weir flow migrate --grant ROLE",
                database.target
            ),
        ),
        Fault::Refused { .. } | Fault::Gone(_) => failed(fault),
    }
}

/// Lets a role read and write rows.
fn grant(session: &Session, user: &str) -> Result<(), Problem> {
    let tables: Vec<String> = TABLES
        .iter()
        .map(|table| format!("{SCHEMA}.{table}"))
        .collect();
    let sql = format!(
        "SELECT format('GRANT USAGE ON SCHEMA {SCHEMA} TO %1$I; GRANT SELECT ON {SCHEMA}.about TO %1$I; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON {} TO %1$I', $1)",
        tables.join(", ")
    );
    let rows = session
        .rows(&sql, &[SqlValue::Text(Some(user))])
        .map_err(failed)?;
    let row = rows
        .first()
        .ok_or_else(|| problem("failed", "no grant was written"))?;
    let sql: String = row.try_get(0).map_err(super::unread)?;
    session.batch(&sql).map_err(|fault| {
        let Fault::Refused { message, .. } = fault else {
            return failed(fault);
        };
        problem("not_allowed", format!("--grant {user}: {message}"))
    })
}

fn number(session: &Session, sql: &str) -> Result<i64, Problem> {
    let rows = session.rows(sql, &[]).map_err(failed)?;
    let row = rows
        .first()
        .ok_or_else(|| problem("failed", "a question without an answer"))?;
    row.try_get(0).map_err(super::unread)
}
