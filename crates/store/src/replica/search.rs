//! Records of all replicas, by what they say; the newest first.

use postgres::{SqlValue, Target};

use super::{ReplicaError, start, unsigned};

/// Most records of one answer.
pub const FOUND_MAX: u64 = 10_000;

/// What is looked for; what is empty is not asked about.
#[derive(Clone, Debug, Default)]
pub struct StoreSearch {
    /// A call's id, or its beginning.
    pub call: Option<String>,
    pub agent: Option<String>,
    pub server: Option<String>,
    pub lane: Option<String>,
    /// `pass` or `refuse`, or how a call ended.
    pub decision: Option<String>,
    pub refusal: Option<String>,
    /// Only what was refused.
    pub is_refused: bool,
    /// Unix milliseconds.
    pub since_unix_ms: Option<u64>,
    pub until_unix_ms: Option<u64>,
    /// Only records of this replica.
    pub replica: Option<String>,
    pub most: u64,
}

/// One record, and where it stands.
#[derive(Clone, Debug)]
pub struct FoundRecord {
    pub replica: String,
    pub origin: String,
    pub index: u64,
    /// The record as it is kept.
    pub record: Vec<u8>,
}

/// Looks for records, and gives the newest of them, the oldest first.
///
/// # Errors
/// A store that does not answer.
pub fn search(target: &Target, wanted: &StoreSearch) -> Result<Vec<FoundRecord>, ReplicaError> {
    let session = start::open(target)?;
    let mut sql = "SELECT o.replica, o.origin, r.idx, r.record FROM weir.records r JOIN weir.origins o ON o.id = r.origin WHERE true".to_owned();
    let mut values: Vec<SqlValue<'_>> = Vec::new();
    // Conditions are ours and values are parameters: nothing that a person or an agent wrote becomes SQL.
    let prefix = wanted
        .call
        .as_ref()
        .map(|call| (call.clone(), format!("{call}~")));
    let texts = [
        (" AND r.agent = ", &wanted.agent),
        (" AND r.server = ", &wanted.server),
        (" AND r.lane = ", &wanted.lane),
        (" AND r.decision = ", &wanted.decision),
        (" AND r.refusal = ", &wanted.refusal),
        (" AND o.replica = ", &wanted.replica),
    ];
    let mut add = |condition: &str, value| {
        values.push(value);
        sql += &format!("{condition}${}", values.len());
    };
    for (condition, text) in texts {
        if let Some(text) = text {
            add(condition, SqlValue::Text(Some(text)));
        }
    }
    if let Some((from, to)) = &prefix {
        add(" AND r.call >= ", SqlValue::Text(Some(from)));
        add(" AND r.call < ", SqlValue::Text(Some(to)));
    }
    let times = [
        (" AND r.at >= ", wanted.since_unix_ms),
        (" AND r.at < ", wanted.until_unix_ms),
    ];
    for (condition, at) in times {
        if let Some(at) = at {
            add(condition, SqlValue::Int(Some(super::signed(at))));
        }
    }
    if wanted.is_refused {
        sql += " AND r.decision IN ('refuse', 'refused')";
    }
    let most = wanted.most.clamp(1, FOUND_MAX);
    sql += &format!(" ORDER BY r.at DESC, r.origin DESC, r.idx DESC LIMIT {most}");
    let rows = session.rows(&sql, &values);
    let rows = rows.map_err(|fault| ReplicaError::of("searching", &fault))?;
    let found = rows.iter().rev().map(|row| FoundRecord {
        replica: row.get(0),
        origin: row.get(1),
        index: unsigned(row.get(2)),
        record: row.get(3),
    });
    Ok(found.collect())
}
