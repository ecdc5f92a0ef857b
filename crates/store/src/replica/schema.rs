//! The tables in PostgreSQL, and how they come to be: forward only, by their owner, one at a time under an advisory lock.

use postgres::{Fault, Session, SqlValue, Target};

use super::ReplicaError;

/// The version that this program makes and uses.
pub const SCHEMA_VERSION: i64 = 1;
/// The lock that migrations take; any number that is nobody else's.
const MIGRATION_LOCK: i64 = 0x7765_6972_0001;
/// How long a migration may take, in milliseconds.
const MIGRATION_MS_MAX: u64 = 600_000;

/// The steps, each from the version before; the first from nothing.
const STEPS: [&str; SCHEMA_VERSION as usize] = [FIRST];

/// `records` is partitioned by day, so that old days can go as a whole. The day of an entry never is before that of the one before
/// it in its log, so what goes is always the beginning of each log.
const FIRST: &str = "
CREATE SCHEMA IF NOT EXISTS weir;
CREATE TABLE weir.meta (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE weir.replicas (
  name text PRIMARY KEY, boot text NOT NULL, origin text NOT NULL, version text NOT NULL,
  started timestamptz NOT NULL, seen timestamptz NOT NULL,
  entries bigint NOT NULL, shipped bigint NOT NULL, ended boolean NOT NULL);
CREATE TABLE weir.origins (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, origin text NOT NULL UNIQUE, vkey text NOT NULL,
  replica text NOT NULL, before text, next bigint NOT NULL DEFAULT 0, last bytea NOT NULL, day date NOT NULL,
  made timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE weir.records (
  day date NOT NULL, origin bigint NOT NULL, idx bigint NOT NULL, at bigint NOT NULL, kind text NOT NULL,
  call text, agent text, server text, lane text, decision text, refusal text,
  leaf bytea NOT NULL, record bytea NOT NULL, PRIMARY KEY (origin, idx, day)) PARTITION BY RANGE (day);
CREATE INDEX records_at ON weir.records (at DESC);
CREATE INDEX records_call ON weir.records (call) WHERE call IS NOT NULL;
CREATE INDEX records_agent ON weir.records (agent, at DESC) WHERE agent IS NOT NULL;
CREATE INDEX records_refused ON weir.records (agent, at DESC) WHERE decision IN ('refuse', 'refused');
CREATE TABLE weir.checkpoints (
  origin bigint NOT NULL, size bigint NOT NULL, root bytea NOT NULL, note text NOT NULL, PRIMARY KEY (origin, size));
CREATE TABLE weir.dropped (
  origin bigint NOT NULL, upto bigint NOT NULL, edge bytea NOT NULL, last bytea NOT NULL, day date NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp(), by text NOT NULL DEFAULT session_user, PRIMARY KEY (origin, upto));
CREATE TABLE weir.directory (one boolean PRIMARY KEY DEFAULT true CHECK (one), epoch bigint NOT NULL, book text NOT NULL);
CREATE TABLE weir.kept (name text PRIMARY KEY, text text NOT NULL);
CREATE FUNCTION weir.make_day(wanted date) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF wanted < current_date - 3660 OR wanted > current_date + 2 THEN
    RAISE EXCEPTION 'no records are of %', wanted;
  END IF;
  EXECUTE format('CREATE TABLE IF NOT EXISTS weir.%I PARTITION OF weir.records FOR VALUES FROM (%L) TO (%L)',
    'records_' || to_char(wanted, 'YYYYMMDD'), wanted, wanted + 1);
END $$;
REVOKE ALL ON FUNCTION weir.make_day(date) FROM PUBLIC;
";

/// What the role of the gateways may do, of which nothing changes or removes what was recorded.
fn grants(role: &str) -> String {
    let role = identifier(role);
    format!(
        "GRANT USAGE ON SCHEMA weir TO {role};
REVOKE ALL ON ALL TABLES IN SCHEMA weir FROM {role};
GRANT SELECT ON weir.meta, weir.replicas, weir.origins, weir.records, weir.checkpoints, weir.dropped, weir.directory, weir.kept TO {role};
GRANT INSERT ON weir.records, weir.checkpoints TO {role};
GRANT INSERT, UPDATE ON weir.replicas TO {role};
GRANT INSERT, UPDATE (next, last, day) ON weir.origins TO {role};
GRANT UPDATE ON weir.directory TO {role};
GRANT EXECUTE ON FUNCTION weir.make_day(date) TO {role};"
    )
}

/// A name as SQL writes it where it could be anything.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The version of the tables, and the oldest program that may use them; nothing where there are none.
pub(super) fn version(session: &Session) -> Result<Option<(i64, i64)>, Fault> {
    let there = session.rows("SELECT to_regclass('weir.meta') IS NOT NULL", &[])?;
    if !there.first().is_some_and(|row| row.get(0)) {
        return Ok(None);
    }
    let sql = "SELECT max(value) FILTER (WHERE name = 'schema'), max(value) FILTER (WHERE name = 'oldest') FROM weir.meta";
    let rows = session.rows(sql, &[])?;
    let number = |at: usize| -> Option<i64> {
        let text: Option<String> = rows.first()?.get(at);
        text?.parse().ok()
    };
    Ok(number(0).map(|version| (version, number(1).unwrap_or(version))))
}

/// Makes the tables or brings them up to date, as the role of `owner`, and lets the role of `user` use them. Gives the versions
/// before and after.
///
/// # Errors
/// What keeps it from being done; then nothing was.
pub fn migrate(owner: &Target, user: &Target) -> Result<(i64, i64), ReplicaError> {
    let failed = |fault: Fault| ReplicaError::of("migrating", &fault);
    let role = user.role();
    if owner.role() == role {
        return Err(ReplicaError::new(
            format!("{role:?} is the role of the gateways and cannot own the tables"),
            "Name with --owner the URL of another role, such as that of the database's owner.",
        ));
    }
    let session = Session::open_within(owner, MIGRATION_MS_MAX).map_err(failed)?;
    let known = session.rows(
        "SELECT 1 FROM pg_roles WHERE rolname = $1",
        &[SqlValue::Text(Some(&role))],
    );
    if known.map_err(failed)?.is_empty() {
        return Err(ReplicaError::new(
            format!("the database has no role {role:?}, as which gateways would connect"),
            format!("CREATE ROLE {} LOGIN, with a password.", identifier(&role)),
        ));
    }
    let lock = [SqlValue::Int(Some(MIGRATION_LOCK))];
    session
        .rows("SELECT pg_advisory_lock($1)::text", &lock)
        .map_err(failed)?;
    let before = version(&session).map_err(failed)?;
    let at = before.map_or(0, |(version, _)| version);
    if at > SCHEMA_VERSION {
        return Err(newer(at));
    }
    let steps = STEPS[usize::try_from(at).unwrap_or(0)..].concat();
    let done = session.batch_within(
        &format!(
            "BEGIN; {steps}
INSERT INTO weir.meta VALUES ('schema', '{SCHEMA_VERSION}'), ('oldest', '1') ON CONFLICT (name) DO UPDATE SET value = EXCLUDED.value;
{} COMMIT;",
            grants(&role)
        ),
        MIGRATION_MS_MAX,
    );
    done.map_err(failed)?;
    Ok((at, SCHEMA_VERSION))
}

/// That the tables are of a program that is newer than this one.
pub(super) fn newer(version: i64) -> ReplicaError {
    ReplicaError::new(
        format!(
            "the store's tables are of version {version}, newer than this program's {SCHEMA_VERSION}"
        ),
        "Run a weir that is as new as the one that migrated them.",
    )
}
