//! Lets whole days of records go, by the owner of the tables, and keeps what proves the rest.
//!
//! What goes is the beginning of each log. Of it stay its checkpoints, the edge of its tree and its last hash, so that what follows is
//! verified as before. Who did it and when stands in `weir.dropped`.

use base::Digest;
use postgres::{Fault, Session, SqlValue, Target};

use super::schema::identifier;
use super::{ReplicaError, signed, unsigned};
use crate::entry::NO_ENTRY;
use crate::tree::Edge;

/// Hashes that are read at once.
const PAGE: i64 = 20_000;
/// How long it may take, in milliseconds.
const RETAIN_MS_MAX: u64 = 600_000;

/// What was let go.
#[derive(Clone, Debug, Default)]
pub struct Retained {
    /// Days, as `YYYY-MM-DD`.
    pub days: Vec<String>,
    pub records: u64,
}

/// Drops the days before so many days ago.
///
/// # Errors
/// What the database refuses; then nothing was dropped.
pub fn retain(owner: &Target, days: u32) -> Result<Retained, ReplicaError> {
    let failed = |fault: Fault| ReplicaError::of("dropping days", &fault);
    let session = Session::open_within(owner, RETAIN_MS_MAX).map_err(failed)?;
    let done = session
        .batch("BEGIN")
        .and_then(|()| dropped(&session, days))
        .and_then(|retained| session.batch("COMMIT").map(|()| retained));
    done.map_err(failed)
}

fn dropped(session: &Session, days: u32) -> Result<Retained, Fault> {
    // Nobody ships meanwhile.
    session.batch("LOCK TABLE weir.origins IN SHARE ROW EXCLUSIVE MODE")?;
    let days = [SqlValue::Int(Some(i64::from(days)))];
    let sql = "SELECT c.relname::text, to_char(to_date(right(c.relname, 8), 'YYYYMMDD'), 'YYYY-MM-DD') FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'weir.records'::regclass AND to_date(right(c.relname, 8), 'YYYYMMDD') < (now() AT TIME ZONE 'UTC')::date - $1::bigint::int ORDER BY 1";
    let tables = session.rows(sql, &days)?;
    let tables: Vec<(String, String)> = tables.iter().map(|row| (row.get(0), row.get(1))).collect();
    let mut retained = Retained::default();
    let Some((_, last_day)) = tables.last() else {
        return Ok(retained);
    };
    for row in session.rows("SELECT id FROM weir.origins ORDER BY id", &[])? {
        retained.records += of_origin(session, row.get(0), last_day)?;
    }
    for (table, day) in &tables {
        session.batch(&format!("DROP TABLE weir.{}", identifier(table)))?;
        retained.days.push(day.clone());
    }
    Ok(retained)
}

/// Keeps of one log what proves what follows its entries up to a day. Gives how many those are.
fn of_origin(session: &Session, origin: i64, last_day: &str) -> Result<u64, Fault> {
    let id = SqlValue::Int(Some(origin));
    let sql =
        "SELECT upto, edge, last FROM weir.dropped WHERE origin = $1 ORDER BY upto DESC LIMIT 1";
    let before = session.rows(sql, std::slice::from_ref(&id))?;
    let (mut edge, mut last) = before.first().map_or((Edge::default(), NO_ENTRY), |row| {
        let roots = row
            .get::<_, &[u8]>(1)
            .chunks(32)
            .filter_map(digest)
            .collect();
        let edge = Edge::of(unsigned(row.get(0)), roots).unwrap_or_default();
        (edge, digest(row.get(2)).unwrap_or(NO_ENTRY))
    });
    let begins = edge.size();
    loop {
        let sql = "SELECT leaf FROM weir.records WHERE origin = $1 AND idx >= $2 AND day <= $3::text::date ORDER BY idx LIMIT $4";
        let from = SqlValue::Int(Some(signed(edge.size())));
        let values = [
            id.clone(),
            from,
            SqlValue::Text(Some(last_day)),
            SqlValue::Int(Some(PAGE)),
        ];
        let rows = session.rows(sql, &values)?;
        for leaf in rows.iter().filter_map(|row| digest(row.get(0))) {
            edge.push(leaf);
            last = leaf;
        }
        if rows.is_empty() {
            break;
        }
    }
    if edge.size() == begins {
        return Ok(0);
    }
    let roots: Vec<u8> = edge.roots().iter().flat_map(|root| root.0).collect();
    let values = [
        id,
        SqlValue::Int(Some(signed(edge.size()))),
        SqlValue::Bytes(Some(&roots)),
        SqlValue::Bytes(Some(&last.0)),
        SqlValue::Text(Some(last_day)),
    ];
    session.execute("INSERT INTO weir.dropped (origin, upto, edge, last, day) VALUES ($1, $2, $3, $4, $5::text::date)", &values)?;
    Ok(edge.size() - begins)
}

fn digest(bytes: &[u8]) -> Option<Digest> {
    <[u8; 32]>::try_from(bytes).map(Digest).ok()
}
