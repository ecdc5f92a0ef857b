//! One transaction: objects got and put, and the events that putting leaves.

use std::cell::Cell;

use tools::serve::call::Problem;

use super::db::{Db, cells};
use super::row;
use crate::model::{Document, ObjectKind, Stamp, problem};

/// Who calls, by which tool, and with which idempotency key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Who: the agent that the gate verified, or the user.
    pub actor: String,
    /// The tool.
    pub tool: String,
    /// The key by which the call is done once.
    pub key: Option<String>,
    /// A digest of the call, so that a key is not given to two.
    pub digest: String,
}

/// A transaction.
pub struct Tx<'t> {
    pub(super) db: Db<'t>,
    caller: &'t Caller,
    now_ms: u64,
    now: String,
    /// The event that all events of this transaction are of one change with.
    change: Cell<Option<i64>>,
}

impl<'t> Tx<'t> {
    pub(super) fn new(db: Db<'t>, caller: &'t Caller, now_ms: u64) -> Tx<'t> {
        Tx {
            db,
            caller,
            now_ms,
            now: base::clock::rfc3339(now_ms),
            change: Cell::new(None),
        }
    }

    /// The time, as RFC 3339.
    pub fn now(&self) -> &str {
        &self.now
    }

    /// The time so many seconds from now.
    pub fn after(&self, seconds: u64) -> String {
        base::clock::rfc3339(self.now_ms + seconds * 1000)
    }

    /// Who calls.
    pub fn actor(&self) -> &str {
        &self.caller.actor
    }

    /// What whoever runs the server should see to in the database; nothing where all is well, and of PostgreSQL, which has its own
    /// operators.
    pub fn trouble(&self) -> Option<String> {
        match self.db {
            Db::Sqlite(db) => super::wal::trouble(db),
            Db::Postgres(_) => None,
        }
    }

    /// An object, deleted or not.
    pub fn find<T: Document>(&self, id: &str) -> Result<Option<T>, Problem> {
        let doc = self.db.one(
            "SELECT doc FROM objects WHERE id=?1 AND kind=?2",
            cells![id, T::KIND.as_str()],
            |row| row.text(0),
        )?;
        doc.map(|doc| serde_json::from_str(&doc).map_err(row::damaged))
            .transpose()
    }

    /// Keeps an object as its next version. Its stamp says when and who.
    pub fn put<T: Document>(&self, object: &mut T) -> Result<(), Problem> {
        let stamp = object.stamp_mut();
        stamp.version += 1;
        stamp.updated_at = self.now.clone();
        stamp.updated_by = self.caller.actor.clone();
        if stamp.version == 1 && stamp.created_at.is_empty() {
            stamp.created_at = self.now.clone();
            stamp.created_by = self.caller.actor.clone();
        }
        let doc = serde_json::to_string(object)
            .map_err(|error| problem("failed", format!("JSON: {error}")))?;
        self.keep(T::KIND, object.stamp(), &object.columns(), &doc)
    }

    /// Keeps a document of any kind as it is, with the stamp that it has: for undo and import.
    pub fn put_document(&self, kind: ObjectKind, doc: &str) -> Result<(), Problem> {
        let (stamp, columns) = row::read(kind, doc)?;
        self.keep(kind, &stamp, &columns, doc)
    }

    fn keep(
        &self,
        kind: ObjectKind,
        stamp: &Stamp,
        columns: &crate::model::Columns,
        doc: &str,
    ) -> Result<(), Problem> {
        let seq = self.event(kind, stamp, doc)?;
        row::write(self.db, kind, seq, stamp, columns, doc)?;
        if kind == ObjectKind::Item {
            self.refuse_circles(&stamp.id, columns)?;
        }
        Ok(())
    }

    fn event(&self, kind: ObjectKind, stamp: &Stamp, doc: &str) -> Result<i64, Problem> {
        let seq = self.db.one(
            "INSERT INTO events(seq, change, at, actor, tool, project, kind, id, version, after) \
             SELECT n.next, coalesce(?1, n.next), ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 \
             FROM (SELECT coalesce(max(seq), 0) + 1 AS next FROM events) n RETURNING seq",
            cells![
                self.change.get(),
                &self.now,
                &self.caller.actor,
                &self.caller.tool,
                &stamp.project,
                kind.as_str(),
                &stamp.id,
                stamp.version,
                doc
            ],
            |row| row.int(0),
        )?;
        let seq = seq.ok_or_else(|| problem("unavailable", "an event was not kept"))?;
        if self.change.get().is_none() {
            self.change.set(Some(seq));
        }
        Ok(seq)
    }

    /// Refuses an item that waits for itself, over however many others.
    fn refuse_circles(&self, id: &str, columns: &crate::model::Columns) -> Result<(), Problem> {
        for relation in ["blocks", "duplicates"] {
            if !columns.edges.iter().any(|(own, _)| *own == relation) {
                continue;
            }
            let next = match self.db {
                Db::Sqlite(_) => "edges e JOIN reached r ON e.source=r.id WHERE e.relation=?2",
                // Without statistics a join would walk through all edges at each step.
                Db::Postgres(_) => {
                    "reached r CROSS JOIN LATERAL \
                     (SELECT n.target FROM edges n WHERE n.source=r.id AND n.relation=?2 OFFSET 0) e"
                }
            };
            let closes = self.db.one(
                &format!(
                    "WITH RECURSIVE reached(id) AS ( \
                       SELECT target FROM edges WHERE source=?1 AND relation=?2 UNION SELECT e.target FROM {next} \
                     ) SELECT EXISTS(SELECT 1 FROM reached WHERE id=?1)"
                ),
                cells![id, relation],
                |row| row.flag(0),
            )?;
            if closes == Some(true) {
                return Err(problem(
                    "cycle",
                    format!(
                        "`depends_on`: {relation} would close a circle: the other item depends on this one already"
                    ),
                ));
            }
        }
        Ok(())
    }
}
