//! What `weir store status` and `weir replicas` say.

use postgres::{Fault, Target};
use serde::Serialize;

use super::{ReplicaError, start, unsigned};

/// After how long without a word a replica counts as gone, in milliseconds.
const GONE_MS: u64 = 5_000;

/// One replica, as the store knows it.
#[derive(Clone, Debug, Serialize)]
pub struct ReplicaRow {
    pub name: String,
    /// `serving`, `stopped`, or `gone` where nothing was heard of it.
    pub state: &'static str,
    pub seen_ms_ago: u64,
    /// Entries of its log, as far as it said.
    pub entries: u64,
    /// Of these, those in the store.
    pub shipped: u64,
    pub origin: String,
    /// The log before it of this replica.
    pub before: Option<String>,
    pub version: String,
}

/// What the store holds.
#[derive(Clone, Debug, Serialize)]
pub struct StoreStatus {
    pub schema: i64,
    pub trust_domain: String,
    pub directory_epoch: u64,
    pub agents: usize,
    pub has_authority: bool,
    pub clock_ahead_ms: i64,
    pub origins: u64,
    pub records: u64,
    pub checkpoints: u64,
    /// Days of records, the first and the last.
    pub days: u64,
}

/// The replicas, by name.
///
/// # Errors
/// A store that does not answer.
pub fn replicas(target: &Target) -> Result<Vec<ReplicaRow>, ReplicaError> {
    let session = start::open(target)?;
    let sql = "SELECT r.name, r.ended, (extract(epoch FROM clock_timestamp() - r.seen) * 1000)::bigint, r.entries, o.next, r.origin, o.before, r.version
        FROM weir.replicas r LEFT JOIN weir.origins o ON o.origin = r.origin ORDER BY r.name";
    let rows = session.rows(sql, &[]);
    let rows = rows.map_err(|fault| ReplicaError::of("listing replicas", &fault))?;
    let rows = rows.iter().map(|row| {
        let seen_ms_ago = unsigned(row.get(2));
        ReplicaRow {
            name: row.get(0),
            state: match (row.get(1), seen_ms_ago > GONE_MS) {
                (true, _) => "stopped",
                (false, true) => "gone",
                (false, false) => "serving",
            },
            seen_ms_ago,
            entries: unsigned(row.get(3)),
            shipped: unsigned(row.get::<_, Option<i64>>(4).unwrap_or(0)),
            origin: row.get(5),
            before: row.get(6),
            version: row.get(7),
        }
    });
    Ok(rows.collect())
}

/// What the store holds, where a gateway of this trust domain could use it.
///
/// # Errors
/// What would keep a gateway from starting with it.
pub fn status(target: &Target, trust_domain: Option<&str>) -> Result<StoreStatus, ReplicaError> {
    let session = start::open(target)?;
    let clock_ahead_ms = start::look(&session, trust_domain)?;
    let book = super::directory::read(&session)?;
    let sql = "SELECT (SELECT count(*) FROM weir.origins), (SELECT coalesce(sum(next), 0)::bigint FROM weir.origins), (SELECT count(*) FROM weir.checkpoints),
        (SELECT count(*) FROM pg_inherits WHERE inhparent = 'weir.records'::regclass), (SELECT count(*) FROM weir.kept WHERE name = 'ca/root.pem'),
        (SELECT value::bigint FROM weir.meta WHERE name = 'schema')";
    let failed = |fault: Fault| ReplicaError::of("counting", &fault);
    let rows = session.rows(sql, &[]).map_err(failed)?;
    let number = |at: usize| rows.first().map_or(0, |row| row.get::<_, i64>(at));
    Ok(StoreStatus {
        schema: number(5),
        trust_domain: trust_domain.unwrap_or_default().to_owned(),
        directory_epoch: book.epoch,
        agents: book.agents.len(),
        has_authority: number(4) > 0,
        clock_ahead_ms,
        origins: unsigned(number(0)),
        records: unsigned(number(1)),
        checkpoints: unsigned(number(2)),
        days: unsigned(number(3)),
    })
}
