//! How objects are found. Lists go from the object that was changed last to older ones, and their places are numbers of
//! events, so that a page goes on where the one before ended, whatever was written meanwhile.

use serde::Serialize;
use serde_json::Value;
use tools::serve::call::Problem;

use super::Tx;
use super::db::{Cell, Db, Row, cells};
use super::found::{Given, Where};
use super::row::damaged;
use super::words;
use crate::model::filter::{Filter, STEPS_MAX};
use crate::model::item::ItemType;
use crate::model::{Document, Lease, ObjectKind, Project, Stamp, Status, WorkItem};

/// Rows that one page looks at, at most: a filter that fits few may look at this many and go on by its cursor.
const SCANNED_MAX: usize = 20_000;
/// Bytes of documents that one page looks at, at most, and one row more.
const SCANNED_BYTES_MAX: usize = 64 << 20;
/// Rows that are read at once.
const CHUNK: usize = 256;
/// An item waits for another one that is open. The other one is looked up by its id alone: of a join PostgreSQL makes a walk
/// through all objects as long as it has no statistics of them.
const WAITS: &str = "EXISTS(SELECT 1 FROM edges e WHERE e.source=o.id AND e.relation='blocks' AND \
     (SELECT b.deleted=0 AND b.status NOT IN ('completed','cancelled') FROM objects b WHERE b.id=e.target LIMIT 1 OFFSET 0) \
     LIMIT 1 OFFSET 0)";

/// A part of a list.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Older than this event; from the newest where there is none.
    pub before: Option<i64>,
    /// Most rows.
    pub limit: usize,
}

impl Page {
    /// The newest rows.
    pub fn first(limit: usize) -> Page {
        Page {
            before: None,
            limit,
        }
    }
}

/// Rows of a page, each with its place.
#[derive(Debug)]
pub struct Rows<T> {
    pub rows: Vec<(i64, T)>,
    /// Where the next page begins, if there may be one.
    pub next: Option<i64>,
}

/// How many items have a status, a type and a priority.
#[derive(Clone, Debug)]
pub struct ItemCount {
    pub status: String,
    pub of: String,
    pub priority: Option<i64>,
    pub count: i64,
}

/// Which work items.
#[derive(Clone, Debug, Default)]
pub struct ItemFilter {
    pub statuses: Vec<Status>,
    pub types: Vec<ItemType>,
    /// Those right below an item; below none where it says none.
    pub parent: Option<Option<String>>,
    /// Those anywhere below an item.
    pub below: Option<String>,
    pub assignee: Option<String>,
    pub priority: Option<i64>,
    pub tags: Vec<String>,
    pub branch: Option<String>,
    /// Deleted ones too.
    pub with_deleted: bool,
    /// A filter over metadata.
    pub filter: Option<Filter>,
}

/// An event, as history tells it.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    pub seq: i64,
    pub change: i64,
    pub at: String,
    pub actor: String,
    pub tool: String,
    pub project: String,
    pub kind: String,
    pub id: String,
    pub version: i64,
    pub after: Value,
    /// The document before; nothing where the event made it.
    pub before: Option<Value>,
}

/// One document alone takes more comparisons than a page has.
fn too_much(stamp: &Stamp) -> Problem {
    Problem::argument(format!(
        "`filter`: takes more than {STEPS_MAX} comparisons at {} alone; give contains shorter arrays",
        stamp.id
    ))
}

/// The last event's number and time.
pub(super) fn last_event(db: Db<'_>) -> Result<Option<(u64, u64)>, Problem> {
    let last = db.one(
        "SELECT seq, at FROM events ORDER BY seq DESC LIMIT 1",
        &[],
        |row| Ok((row.int(0)?, row.text(1)?)),
    )?;
    Ok(last.map(|(seq, at)| {
        let ms = crate::model::time_ms(&at).unwrap_or_default();
        (u64::try_from(seq).unwrap_or_default(), ms)
    }))
}

impl Tx<'_> {
    fn list<T: Document>(
        &self,
        of: &Where,
        page: Page,
        mut fits: impl FnMut(&T) -> Option<bool>,
    ) -> Result<Rows<T>, Problem> {
        let (found, values) = of.found(self.db)?;
        let sql = format!(
            "SELECT o.seq, o.doc FROM {found} AND o.seq < ? ORDER BY o.seq DESC LIMIT {CHUNK}"
        );
        let (mut rows, mut scanned, mut bytes) = (Vec::new(), 0, 0);
        let mut before = page.before.unwrap_or(i64::MAX);
        loop {
            let values = [&values[..], &[Cell::from(before)]].concat();
            // Where the next page begins, once this one is full.
            let mut full = None;
            let mut seen = 0;
            self.db.each(&sql, &values, |row| {
                seen += 1;
                let seq = row.int(0)?;
                if rows.len() == page.limit {
                    full = Some(rows.last().map(|(seq, _)| *seq));
                    return Ok(false);
                }
                let doc = row.str(1)?;
                let document: T = serde_json::from_str(doc).map_err(damaged)?;
                let fit = match fits(&document) {
                    Some(fit) => fit,
                    None if scanned + seen == 1 => return Err(too_much(document.stamp())),
                    // The next page begins with this one, and with all its steps.
                    None => {
                        full = Some(Some(before));
                        return Ok(false);
                    }
                };
                before = seq;
                bytes += doc.len();
                if fit {
                    rows.push((seq, document));
                }
                if bytes >= SCANNED_BYTES_MAX {
                    full = Some(Some(before));
                }
                Ok(full.is_none())
            })?;
            scanned += seen;
            if let Some(next) = full {
                return Ok(Rows { rows, next });
            }
            if seen < CHUNK {
                return Ok(Rows { rows, next: None });
            }
            if scanned >= SCANNED_MAX {
                return Ok(Rows {
                    rows,
                    next: Some(before),
                });
            }
        }
    }

    /// Work items.
    pub fn items(
        &self,
        project: &str,
        of: &ItemFilter,
        page: Page,
    ) -> Result<Rows<WorkItem>, Problem> {
        let mut sql = Where::new(self.db, project, ObjectKind::Item);
        if !of.with_deleted {
            sql.and("o.deleted=0", []);
        }
        if !of.statuses.is_empty() {
            let words: Vec<&str> = of.statuses.iter().map(|status| status.as_str()).collect();
            sql.one_of("status", &words);
        }
        let types = if of.types.is_empty() {
            &ItemType::ALL[..]
        } else {
            &of.types
        };
        if !of.types.is_empty() {
            let words: Vec<&str> = of.types.iter().map(|of| of.as_str()).collect();
            sql.one_of("type", &words);
        }
        match &of.parent {
            Some(Some(parent)) => sql.eq("parent", parent.as_str()),
            Some(None) => sql.and("o.parent IS NULL", []),
            None => {}
        }
        if let Some(below) = &of.below {
            let path = self.path(below)?;
            let bounds = [format!("{path}/"), format!("{path}0")];
            sql.and("o.path >= ? AND o.path < ?", bounds.map(Given::Text));
        }
        if let Some(assignee) = &of.assignee {
            sql.eq("assignee", assignee.as_str());
        }
        if let Some(priority) = of.priority {
            sql.eq("priority", priority);
        }
        sql.tags(&of.tags);
        if let Some(filter) = &of.filter {
            let types: Vec<String> = types
                .iter()
                .map(|of| format!("item:{}", of.as_str()))
                .collect();
            sql.facts(project, &types, filter);
        }
        let mut steps = STEPS_MAX;
        self.list(&sql, page, |item: &WorkItem| {
            let branch = of.branch.as_ref();
            match &of.filter {
                _ if branch.is_some_and(|branch| !item.branches.contains(branch)) => Some(false),
                None => Some(true),
                Some(filter) => filter.holds(&Value::Object(item.metadata.clone()), &mut steps),
            }
        })
    }

    /// Entities of a type.
    pub fn entities(
        &self,
        project: &str,
        entity_type: Option<&str>,
        filter: Option<&Filter>,
        tags: &[String],
        with_deleted: bool,
        page: Page,
    ) -> Result<Rows<crate::model::Entity>, Problem> {
        let mut sql = Where::new(self.db, project, ObjectKind::Entity);
        if !with_deleted {
            sql.and("o.deleted=0", []);
        }
        if let Some(of) = entity_type {
            sql.eq("type", of);
            if let Some(filter) = filter.filter(|_| !with_deleted) {
                sql.facts(project, &[of.to_owned()], filter);
            }
        }
        sql.tags(tags);
        let mut steps = STEPS_MAX;
        self.list(&sql, page, |entity: &crate::model::Entity| match filter {
            None => Some(true),
            Some(filter) => filter.holds(&Value::Object(entity.data.clone()), &mut steps),
        })
    }

    /// Objects of a kind, of a type where one is named.
    pub fn objects<T: Document>(
        &self,
        project: &str,
        type_name: Option<&str>,
        page: Page,
    ) -> Result<Rows<T>, Problem> {
        let mut sql = Where::new(self.db, project, T::KIND);
        sql.and("o.deleted=0", []);
        if let Some(of) = type_name {
            sql.eq("type", of);
        }
        self.list(&sql, page, |_| Some(true))
    }

    /// Every project, the one that was changed last first.
    pub fn projects(&self, page: Page) -> Result<Rows<Project>, Problem> {
        self.list(&Where::projects(self.db), page, |_| Some(true))
    }

    /// How many objects of a kind there are, and not deleted.
    pub fn count(&self, project: Option<&str>, kind: ObjectKind) -> Result<i64, Problem> {
        let count = self.db.one(
            "SELECT count(*) FROM objects WHERE (?1 IS NULL OR project=?1) AND kind=?2 AND deleted=0",
            cells![project, kind.as_str()],
            |row| row.int(0),
        )?;
        Ok(count.unwrap_or_default())
    }

    /// The id of an object of a name, in any case of letters.
    pub fn id_of_name(
        &self,
        project: Option<&str>,
        kind: ObjectKind,
        type_name: Option<&str>,
        name: &str,
    ) -> Result<Option<String>, Problem> {
        self.db.one(
            "SELECT id FROM objects WHERE (?1 IS NULL OR project=?1) AND kind=?2 AND (?3 IS NULL OR type=?3) AND name=?4 \
             AND deleted=0 ORDER BY row LIMIT 1",
            cells![project, kind.as_str(), type_name, &name.to_lowercase()],
            |row| row.text(0),
        )
    }

    /// The id of the item of a number.
    pub fn id_of_number(&self, project: &str, number: i64) -> Result<Option<String>, Problem> {
        self.db.one(
            "SELECT id FROM objects WHERE project=?1 AND number=?2 AND kind='item'",
            cells![project, number],
            |row| row.text(0),
        )
    }

    /// The number that the next item of a project has.
    pub fn next_number(&self, project: &str) -> Result<i64, Problem> {
        let next = self.db.one(
            "SELECT coalesce(max(number), 0) + 1 FROM objects WHERE project=?1 AND number IS NOT NULL",
            cells![project],
            |row| row.int(0),
        )?;
        Ok(next.unwrap_or(1))
    }

    /// The ids from the top to an item, as `/a/b/c`.
    pub fn path(&self, item: &str) -> Result<String, Problem> {
        let path = self.db.one(
            "SELECT path FROM objects WHERE id=?1 AND path IS NOT NULL",
            cells![item],
            |row| row.text(0),
        )?;
        Ok(path.unwrap_or_default())
    }

    /// The sources of edges to something, oldest id first, at most so many.
    pub fn sources(
        &self,
        relation: &str,
        target: &str,
        most: usize,
    ) -> Result<Vec<String>, Problem> {
        self.strings(
            "SELECT source FROM edges WHERE relation=?1 AND target=?2 ORDER BY source LIMIT ?3",
            cells![relation, target, count(most)],
        )
    }

    /// The items that an item waits for: not over, and not deleted.
    pub fn waits_for(&self, item: &str, most: usize) -> Result<Vec<WorkItem>, Problem> {
        let ids = self.strings(
            "SELECT e.target FROM edges e WHERE e.source=?1 AND e.relation='blocks' AND \
             (SELECT o.deleted=0 AND o.status NOT IN ('completed','cancelled') FROM objects o WHERE o.id=e.target LIMIT 1 OFFSET 0) \
             ORDER BY (SELECT o.number FROM objects o WHERE o.id=e.target LIMIT 1 OFFSET 0) LIMIT ?2",
            cells![item, count(most)],
        )?;
        self.all(&ids)
    }

    /// The objects of some ids, in that order; those that are not there are left out.
    pub fn all<T: Document>(&self, ids: &[String]) -> Result<Vec<T>, Problem> {
        let found = ids.iter().map(|id| self.find(id).transpose());
        found.flatten().collect()
    }

    /// How many items right below an item, or anywhere below it, have each status.
    pub fn statuses(&self, item: &str, deep: bool) -> Result<Vec<(String, i64)>, Problem> {
        let path = self.path(item)?;
        let (sql, low, high) = match deep {
            true => (
                "path >= ?1 AND path < ?2",
                format!("{path}/"),
                format!("{path}0"),
            ),
            false => ("parent = ?1 AND ?2 = ?2", item.to_owned(), String::new()),
        };
        let sql = format!(
            "SELECT status, count(*) FROM objects WHERE {sql} AND kind='item' AND deleted=0 GROUP BY status ORDER BY status"
        );
        self.counts(&sql, cells![&low, &high])
    }

    /// How many objects of a kind a project has by the values of a column.
    pub fn counts_by(
        &self,
        project: &str,
        kind: ObjectKind,
        column: &'static str,
        open: bool,
    ) -> Result<Vec<(String, i64)>, Problem> {
        let open = if open {
            "AND status NOT IN ('completed','cancelled')"
        } else {
            ""
        };
        let sql = format!(
            "SELECT CAST({column} AS TEXT), count(*) FROM objects WHERE project=?1 AND kind=?2 AND deleted=0 {open} \
             AND {column} IS NOT NULL GROUP BY {column} ORDER BY {column}"
        );
        self.counts(&sql, cells![project, kind.as_str()])
    }

    /// How many items of a project there are by status, type and priority.
    pub fn item_counts(&self, project: &str) -> Result<Vec<ItemCount>, Problem> {
        self.db.all(
            "SELECT status, type, priority, count(*) FROM objects WHERE project=?1 AND kind='item' AND deleted=0 \
             GROUP BY status, type, priority",
            cells![project],
            |row| {
                Ok(ItemCount {
                    status: row.opt_text(0)?.unwrap_or_default(),
                    of: row.opt_text(1)?.unwrap_or_default(),
                    priority: row.opt_int(2)?,
                    count: row.int(3)?,
                })
            },
        )
    }

    /// Items that can be taken now, the most urgent first: nobody has them, nothing that they wait for is open, and nothing
    /// below them is. `offset` of them are left out.
    pub fn ready(
        &self,
        project: &str,
        actor: &str,
        types: &[ItemType],
        limit: usize,
        offset: usize,
    ) -> Result<Vec<WorkItem>, Problem> {
        let words: Vec<String> = types
            .iter()
            .map(|of| format!("'{}'", of.as_str()))
            .collect();
        let words = words.join(",");
        // Columns are compared with columns alone: below row-level security PostgreSQL looks an expression up in no index.
        // With an offset it asks each part for each item, by an index, and makes no join of what it has no statistics of yet.
        let lease = |holds: &str| {
            format!(
                "EXISTS(SELECT 1 FROM objects l WHERE l.parent=o.id AND l.kind='lease' AND l.assignee IS NOT NULL \
                 AND l.until {holds} ?2 LIMIT 1 OFFSET 0)"
            )
        };
        let (held, over) = (lease(">"), lease("<="));
        // Each status by itself: an index has its items in the order of their urgency, and no more are looked at than are told.
        let part = |status: &str, free: &str| {
            format!(
                "SELECT * FROM (SELECT o.priority, o.number, o.doc FROM objects o WHERE o.project=?1 AND o.kind='item' \
                 AND o.deleted=0 AND o.status='{status}' AND o.type IN ({words}) AND (o.assignee IS NULL OR {free}) \
                 AND NOT {held} AND NOT {WAITS} \
                 AND NOT EXISTS(SELECT 1 FROM objects c WHERE c.parent=o.id AND c.kind='item' AND c.deleted=0 \
                   AND c.status NOT IN ('completed','cancelled') LIMIT 1 OFFSET 0) \
                 ORDER BY o.priority, o.number LIMIT ?4) {status}"
            )
        };
        let sql = format!(
            "SELECT doc FROM ({} UNION ALL {}) ready ORDER BY priority, number LIMIT ?5 OFFSET ?6",
            part("planned", "o.assignee=?3"),
            part("active", &over),
        );
        let most = count(limit.saturating_add(offset));
        self.documents(
            &sql,
            cells![
                project,
                self.now(),
                actor,
                most,
                count(limit),
                count(offset)
            ],
        )
    }

    /// Items that are blocked, or that wait for another one.
    pub fn blocked(
        &self,
        project: &str,
        limit: usize,
        offset: usize,
    ) -> Result<Vec<WorkItem>, Problem> {
        let sql = format!(
            "SELECT o.doc FROM objects o WHERE o.project=?1 AND o.kind='item' AND o.deleted=0 \
             AND o.status IN ('planned','active','blocked') AND (o.status='blocked' OR {WAITS}) \
             ORDER BY o.priority, o.number LIMIT ?2 OFFSET ?3"
        );
        self.documents(&sql, cells![project, count(limit), count(offset)])
    }

    /// Items of a status by urgency, for the board.
    pub fn by_urgency(
        &self,
        project: &str,
        status: Status,
        limit: usize,
    ) -> Result<Vec<WorkItem>, Problem> {
        self.documents(
            "SELECT doc FROM objects WHERE project=?1 AND kind='item' AND deleted=0 AND status=?2 \
             ORDER BY priority, number LIMIT ?3",
            cells![project, status.as_str(), count(limit)],
        )
    }

    /// Leases that hold now.
    pub fn leases(&self, project: &str, limit: usize) -> Result<Vec<Lease>, Problem> {
        self.documents(
            "SELECT doc FROM objects WHERE project=?1 AND kind='lease' AND deleted=0 AND assignee IS NOT NULL AND until > ?2 \
             ORDER BY until LIMIT ?3",
            cells![project, self.now(), count(limit)],
        )
    }

    /// Objects in which each of some words begins one, best first: kind, id and how well.
    pub fn search(
        &self,
        project: &str,
        query: &[&str],
        kinds: &[ObjectKind],
        limit: usize,
        offset: usize,
    ) -> Result<Vec<(ObjectKind, String, f64)>, Problem> {
        let kinds: Vec<String> = kinds
            .iter()
            .map(|kind| format!("'{}'", kind.as_str()))
            .collect();
        let kinds = kinds.join(",");
        let read = |row: &Row<'_>| Ok((row.text(0)?, row.text(1)?, row.real(2)?));
        let rows = match self.db {
            Db::Sqlite(_) => {
                let sql = format!(
                    "SELECT o.kind, o.id, -bm25(texts, 4.0, 1.0) AS score FROM texts JOIN objects o ON o.row=texts.rowid \
                     WHERE texts MATCH ?1 AND o.project=?2 AND o.deleted=0 AND o.kind IN ({kinds}) \
                     ORDER BY score DESC, o.row LIMIT ?3 OFFSET ?4"
                );
                // Each word is quoted, so that nothing in it is an operator of FTS5.
                let quoted: Vec<String> = query.iter().map(|word| format!("\"{word}\"*")).collect();
                let quoted = quoted.join(" ");
                let values = cells![&quoted, project, count(limit), count(offset)];
                self.db.all(&sql, values, read)?
            }
            Db::Postgres(_) => {
                let words: Vec<String> = query.iter().flat_map(|word| words::words(word)).collect();
                if words.is_empty() {
                    return Ok(Vec::new());
                }
                let sql = searched(words.len(), &kinds);
                let ends: Vec<String> = words
                    .iter()
                    .map(|word| format!("{word}\u{10ffff}"))
                    .collect();
                let mut values = cells![project, count(limit), count(offset)].to_vec();
                for (word, end) in words.iter().zip(&ends) {
                    values.extend_from_slice(cells![word, end]);
                }
                self.db.all(&sql, &values, read)?
            }
        };
        let known = rows
            .into_iter()
            .filter_map(|(kind, id, score)| Some((ObjectKind::of(&kind)?, id, score)));
        Ok(known.collect())
    }

    /// Events of a project, newest first; of one object, one actor, since a time.
    pub fn events(
        &self,
        project: &str,
        id: Option<&str>,
        actor: Option<&str>,
        since: Option<&str>,
        page: Page,
    ) -> Result<Vec<Event>, Problem> {
        let before = page.before.unwrap_or(i64::MAX);
        self.db.all(
            &format!(
                "{EVENTS} WHERE e.project=?1 AND (?2 IS NULL OR e.id=?2) AND (?3 IS NULL OR e.actor=?3) \
                 AND (?4 IS NULL OR e.at>=?4) AND e.seq < ?5 ORDER BY e.seq DESC LIMIT ?6"
            ),
            cells![project, id, actor, since, before, count(page.limit)],
            read_event,
        )
    }

    /// The events of one change, first to last.
    pub fn change(&self, project: &str, change: i64) -> Result<Vec<Event>, Problem> {
        self.db.all(
            &format!("{EVENTS} WHERE e.project=?1 AND e.change=?2 ORDER BY e.seq"),
            cells![project, change],
            read_event,
        )
    }

    /// The events of an object after a version: who built on it.
    pub fn later(&self, id: &str, version: i64) -> Result<Vec<(i64, String)>, Problem> {
        self.db.all(
            "SELECT change, actor FROM events WHERE id=?1 AND version>?2 ORDER BY version LIMIT 20",
            cells![id, version],
            |row| Ok((row.int(0)?, row.text(1)?)),
        )
    }

    /// The last event that changed an object of one of these kinds; 0 where there is none.
    pub fn last_change(&self, project: &str, kinds: &[ObjectKind]) -> Result<i64, Problem> {
        let mut last = 0;
        for kind in kinds {
            for deleted in [0, 1] {
                let of = self.db.one(
                    "SELECT max(seq) FROM objects WHERE project=?1 AND kind=?2 AND deleted=?3",
                    cells![project, kind.as_str(), deleted],
                    |row| row.opt_int(0),
                )?;
                last = last.max(of.flatten().unwrap_or_default());
            }
        }
        Ok(last)
    }

    /// An object as it was in a version.
    pub fn at_version(&self, id: &str, version: i64) -> Result<Option<Value>, Problem> {
        let doc = self.db.one(
            "SELECT after FROM events WHERE id=?1 AND version=?2",
            cells![id, version],
            |row| row.text(0),
        )?;
        doc.map(|doc| serde_json::from_str(&doc).map_err(damaged))
            .transpose()
    }

    /// The version that an object has now; 0 where there is none.
    pub fn version_of(&self, id: &str) -> Result<i64, Problem> {
        let version = self.db.one(
            "SELECT version FROM objects WHERE id=?1",
            cells![id],
            |row| row.int(0),
        )?;
        Ok(version.unwrap_or_default())
    }

    /// Documents of one project, or of all, as export writes them: kind by kind, items by number, and everything
    /// else by id, which begins with the time. An import keeps both, so that its export is the same.
    pub fn export(
        &self,
        project: &str,
        mut each: impl FnMut(&str, &str) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        for kind in ObjectKind::ALL {
            self.db.each(
                "SELECT doc FROM objects WHERE project=?1 AND kind=?2 ORDER BY number, id",
                cells![project, kind.as_str()],
                |row| each(kind.as_str(), row.str(0)?).map(|()| true),
            )?;
        }
        Ok(())
    }

    fn documents<T: Document>(&self, sql: &str, values: &[Cell<'_>]) -> Result<Vec<T>, Problem> {
        self.db.all(sql, values, |row| {
            serde_json::from_str(row.str(0)?).map_err(damaged)
        })
    }

    fn strings(&self, sql: &str, values: &[Cell<'_>]) -> Result<Vec<String>, Problem> {
        self.db.all(sql, values, |row| row.text(0))
    }

    fn counts(&self, sql: &str, values: &[Cell<'_>]) -> Result<Vec<(String, i64)>, Problem> {
        self.db
            .all(sql, values, |row| Ok((row.text(0)?, row.int(1)?)))
    }
}

/// Events with the document before each.
const EVENTS: &str = "SELECT e.seq, e.change, e.at, e.actor, e.tool, e.project, e.kind, e.id, e.version, e.after, \
     (SELECT p.after FROM events p WHERE p.id=e.id AND p.version<e.version ORDER BY p.version DESC LIMIT 1) FROM events e";

/// A number of rows, as SQL takes it.
fn count(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// The search for so many words on PostgreSQL: the project, the limit and the offset first, then each word and where the
/// words that it begins end.
fn searched(words: usize, kinds: &str) -> String {
    let each: Vec<String> = (0..words)
        .map(|number| {
            let (word, end) = (4 + 2 * number, 5 + 2 * number);
            format!(
                "SELECT object, max(weight) AS weight FROM words \
                 WHERE project=?1 AND word >= ?{word} AND word < ?{end} GROUP BY object"
            )
        })
        .collect();
    // Only what has all the words is looked up, by the number of its row.
    format!(
        "SELECT o.kind, o.id, CAST(w.weight AS DOUBLE PRECISION) AS score FROM \
           (SELECT object, sum(weight) AS weight FROM ({}) each GROUP BY object HAVING count(*)={words}) w \
         CROSS JOIN LATERAL (SELECT x.row, x.kind, x.id, x.project, x.deleted FROM objects x WHERE x.row=w.object LIMIT 1 OFFSET 0) o \
         WHERE o.project=?1 AND o.deleted=0 AND o.kind IN ({kinds}) ORDER BY score DESC, o.row LIMIT ?2 OFFSET ?3",
        each.join(" UNION ALL ")
    )
}

fn read_event(row: &Row<'_>) -> Result<Event, Problem> {
    let json = |text: String| serde_json::from_str(&text).unwrap_or(Value::Null);
    Ok(Event {
        seq: row.int(0)?,
        change: row.int(1)?,
        at: row.text(2)?,
        actor: row.text(3)?,
        tool: row.text(4)?,
        project: row.text(5)?,
        kind: row.text(6)?,
        id: row.text(7)?,
        version: row.int(8)?,
        after: json(row.text(9)?),
        before: row.opt_text(10)?.map(json),
    })
}
