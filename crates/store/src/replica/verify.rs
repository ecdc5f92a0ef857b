//! Proves from PostgreSQL alone that each log is the one that was written, or says what was done to it.
//!
//! Every entry's hash is computed anew from its record and the hash before it, held against the stored one, and the tree over all
//! against every signed checkpoint. The columns that are searched by have to follow from the record. What that does not show: that the
//! newest entries went together with the checkpoints and the count of them. The replica's own disk shows that, at its next start.

use std::fmt;

use base::Digest;
use base::limit::LOG_UNSIGNED_ENTRIES_MAX;
use postgres::{Fault, Session, SqlValue, Target};

use super::row::{Columns, date, day};
use super::{ReplicaError, signed, start, unsigned};
use crate::audit::Kind;
use crate::entry::{self, NO_ENTRY};
use crate::note::{Checkpoint, Verifier};
use crate::tree::Edge;

/// Entries that are read at once.
const PAGE: i64 = 2_000;

/// A log of the store that verifies.
#[derive(Clone, Debug)]
pub struct StoredLog {
    pub origin: String,
    pub replica: String,
    pub before: Option<String>,
    /// Entries of it, with those that were dropped.
    pub entries: u64,
    /// Entries at the beginning that were dropped with their days.
    pub dropped: u64,
    /// Entries that no checkpoint in the store covers yet.
    pub unsigned: u64,
    pub checkpoints: u64,
    pub root: Digest,
}

/// What was done to a log of the store.
#[derive(Clone, Debug)]
pub struct StoreDamage {
    pub origin: String,
    /// The first entry that does not fit.
    pub index: u64,
    pub kind: Kind,
    pub what: String,
}

impl fmt::Display for StoreDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: entry {}: {}: {}",
            self.origin,
            self.index,
            self.kind.as_str(),
            self.what
        )
    }
}

/// The logs of a store, each whole or with its first damage.
///
/// # Errors
/// A store that cannot be read.
pub fn verify(
    target: &Target,
    keys: &[String],
) -> Result<Vec<Result<StoredLog, StoreDamage>>, ReplicaError> {
    let session = start::open(target)?;
    let failed = |fault: Fault| ReplicaError::of("verifying", &fault);
    session
        .batch("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        .map_err(failed)?;
    let sql = "SELECT id, origin, vkey, replica, before, next FROM weir.origins ORDER BY id";
    let rows = session.rows(sql, &[]).map_err(failed)?;
    let mut logs = Vec::new();
    for row in rows {
        let told = ToldLog {
            id: row.get(0),
            origin: row.get(1),
            vkey: row.get(2),
            replica: row.get(3),
            before: row.get(4),
            next: unsigned(row.get(5)),
        };
        logs.push(told.verify(&session, keys).map_err(failed)?);
    }
    let sql = "SELECT origin, min(idx) FROM weir.records r WHERE NOT EXISTS (SELECT 1 FROM weir.origins o WHERE o.id = r.origin) GROUP BY origin";
    for row in session.rows(sql, &[]).map_err(failed)? {
        let (id, index): (i64, i64) = (row.get(0), row.get(1));
        logs.push(Err(StoreDamage {
            origin: format!("#{id}"),
            index: unsigned(index),
            kind: Kind::Inserted,
            what: "these entries are of no log that is known".to_owned(),
        }));
    }
    Ok(logs)
}

/// A log, as the store says it is.
struct ToldLog {
    id: i64,
    origin: String,
    vkey: String,
    replica: String,
    before: Option<String>,
    next: u64,
}

/// Where a walk over entries stands.
struct Walked {
    edge: Edge,
    last: Digest,
    day: i64,
    /// The size that the newest checkpoint proved.
    proven: u64,
}

type Found<T> = Result<Result<T, StoreDamage>, Fault>;

impl ToldLog {
    fn damage(&self, index: u64, kind: Kind, what: impl Into<String>) -> StoreDamage {
        StoreDamage {
            origin: self.origin.clone(),
            index,
            kind,
            what: what.into(),
        }
    }

    fn verify(&self, session: &Session, keys: &[String]) -> Found<StoredLog> {
        let verifier = match Verifier::parse(&self.vkey) {
            Ok(verifier) if verifier.name() == self.origin => verifier,
            _ => {
                return Ok(Err(self.damage(
                    0,
                    Kind::BadCheckpoint,
                    "its key is that of another log",
                )));
            }
        };
        let is_known = keys.is_empty() || keys.iter().any(|key| key.trim() == self.vkey);
        if !is_known {
            return Ok(Err(self.damage(
                0,
                Kind::BadCheckpoint,
                "its key is none of those that were named with --key",
            )));
        }
        let checkpoints = match self.checkpoints(session, &verifier)? {
            Ok(checkpoints) => checkpoints,
            Err(damage) => return Ok(Err(damage)),
        };
        let (mut walked, dropped) = self.begin(session)?;
        let mut ahead = &checkpoints[checkpoints.partition_point(|one| one.size < dropped)..];
        loop {
            let from = walked.edge.size();
            match self.page(session, &mut walked, &mut ahead)? {
                Ok(()) if walked.edge.size() == from => break,
                Ok(()) => {}
                Err(damage) => return Ok(Err(damage)),
            }
        }
        let size = walked.edge.size();
        let claimed = checkpoints
            .last()
            .map_or(0, |last| last.size)
            .max(self.next);
        if size < claimed {
            let what = format!("{claimed} entries were shipped or signed, and {size} are there");
            return Ok(Err(self.damage(size, Kind::CutOff, what)));
        }
        let covered = checkpoints.last().map_or(0, |last| last.size);
        if size - covered.min(size) > LOG_UNSIGNED_ENTRIES_MAX {
            let what = format!("{} entries are signed by no checkpoint", size - covered);
            return Ok(Err(self.damage(covered, Kind::Unsigned, what)));
        }
        Ok(Ok(StoredLog {
            origin: self.origin.clone(),
            replica: self.replica.clone(),
            before: self.before.clone(),
            entries: size,
            dropped,
            unsigned: size - covered,
            checkpoints: checkpoints.len() as u64,
            root: walked.edge.root(),
        }))
    }

    fn checkpoints(&self, session: &Session, verifier: &Verifier) -> Found<Vec<Checkpoint>> {
        let sql = "SELECT size, root, note FROM weir.checkpoints WHERE origin = $1 ORDER BY size";
        let rows = session.rows(sql, &[SqlValue::Int(Some(self.id))])?;
        let mut all = Vec::with_capacity(rows.len());
        for row in rows {
            let (size, root, note): (i64, &[u8], &str) = (row.get(0), row.get(1), row.get(2));
            match verifier.checkpoint(note) {
                Ok(checkpoint) if signed(checkpoint.size) == size && checkpoint.root.0 == root => {
                    all.push(checkpoint)
                }
                Ok(_) => {
                    return Ok(Err(self.damage(
                        unsigned(size),
                        Kind::BadCheckpoint,
                        "a checkpoint is not what was signed",
                    )));
                }
                Err(error) => {
                    let what = format!("a checkpoint does not hold: {error}");
                    return Ok(Err(self.damage(unsigned(size), Kind::BadCheckpoint, what)));
                }
            }
        }
        Ok(Ok(all))
    }

    /// Where the entries that are there begin: after those whose days were dropped.
    fn begin(&self, session: &Session) -> Result<(Walked, u64), Fault> {
        let sql = "SELECT upto, edge, last, (day - '1970-01-01'::date)::bigint FROM weir.dropped WHERE origin = $1 ORDER BY upto DESC LIMIT 1";
        let rows = session.rows(sql, &[SqlValue::Int(Some(self.id))])?;
        let nothing = Walked {
            edge: Edge::default(),
            last: NO_ENTRY,
            day: 0,
            proven: 0,
        };
        let Some(row) = rows.first() else {
            return Ok((nothing, 0));
        };
        let (roots, last): (&[u8], &[u8]) = (row.get(1), row.get(2));
        let digest = |bytes: &[u8]| <[u8; 32]>::try_from(bytes).map(Digest).ok();
        let roots: Option<Vec<Digest>> = roots.chunks(32).map(digest).collect();
        let upto = unsigned(row.get(0));
        let edge = roots.and_then(|roots| Edge::of(upto, roots));
        // An edge that is none leaves the walk at the beginning, where the first entry is missing then.
        let (Some(edge), Some(last)) = (edge, digest(last)) else {
            return Ok((nothing, 0));
        };
        Ok((
            Walked {
                edge,
                last,
                day: row.get(3),
                proven: upto,
            },
            upto,
        ))
    }

    /// Walks over one page.
    fn page(&self, session: &Session, walked: &mut Walked, ahead: &mut &[Checkpoint]) -> Found<()> {
        let sql = "SELECT idx, day::text, at, kind, call, agent, server, lane, decision, refusal, leaf, record FROM weir.records
            WHERE origin = $1 AND idx >= $2 ORDER BY idx, day LIMIT $3";
        let from = walked.edge.size();
        let values = [
            SqlValue::Int(Some(self.id)),
            SqlValue::Int(Some(signed(from))),
            SqlValue::Int(Some(PAGE)),
        ];
        if let Err(damage) = self.hold(walked, ahead) {
            return Ok(Err(damage));
        }
        for row in session.rows(sql, &values)? {
            if let Err(damage) = self
                .step(&row, walked)
                .and_then(|()| self.hold(walked, ahead))
            {
                return Ok(Err(damage));
            }
        }
        Ok(Ok(()))
    }

    /// Takes one entry, where it is the one that follows.
    fn step(&self, row: &postgres::Row, walked: &mut Walked) -> Result<(), StoreDamage> {
        let index = walked.edge.size();
        let found = unsigned(row.get(0));
        if found != index {
            return Err(match found < index {
                true => self.damage(
                    found,
                    Kind::Inserted,
                    "there are two entries of this number",
                ),
                false => self.damage(
                    index,
                    Kind::Removed,
                    format!("the next that is there is {found}"),
                ),
            });
        }
        let (stored, record): (&[u8], &[u8]) = (row.get(10), row.get(11));
        let leaf = entry::push(&mut Vec::new(), &walked.last, record, index);
        if leaf.0 != stored {
            return Err(self.damage(
                index,
                Kind::Changed,
                "its record, its place or its hash is not what was written",
            ));
        }
        let columns = Columns::of(record);
        walked.day = day(columns.at, walked.day);
        let searched = Columns {
            at: unsigned(row.get(2)),
            kind: row.get(3),
            call: row.get(4),
            agent: row.get(5),
            server: row.get(6),
            lane: row.get(7),
            decision: row.get(8),
            refusal: row.get(9),
        };
        if searched != columns || row.get::<_, &str>(1) != date(walked.day) {
            return Err(self.damage(
                index,
                Kind::Changed,
                "what it is searched by is not what its record says",
            ));
        }
        walked.last = leaf;
        walked.edge.push(leaf);
        Ok(())
    }

    /// Holds what was walked over against the checkpoints of that size.
    fn hold(&self, walked: &mut Walked, ahead: &mut &[Checkpoint]) -> Result<(), StoreDamage> {
        while let Some((checkpoint, rest)) = ahead.split_first()
            && checkpoint.size <= walked.edge.size()
        {
            *ahead = rest;
            if checkpoint.size < walked.edge.size() {
                continue;
            }
            if checkpoint.root != walked.edge.root() {
                let what = format!(
                    "the chain fits and is not what was signed: something in entries {} to {} was written anew or reordered",
                    walked.proven,
                    checkpoint.size.saturating_sub(1)
                );
                return Err(self.damage(walked.proven, Kind::Forked, what));
            }
            walked.proven = checkpoint.size;
        }
        Ok(())
    }
}
