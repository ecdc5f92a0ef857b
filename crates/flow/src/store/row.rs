//! How an object's document becomes its row, its edges, its facts and its words: the same for a write and for a replay.

use ::postgres::{Session, SqlValue};
use tools::serve::call::Problem;

use super::db::{Db, cells, encoded};
use super::postgres::failed;
use super::words;
use crate::model::filter::{FactValue, facts};
use crate::model::{
    Columns, Deployment, Document, Entity, EntityType, Lease, ObjectKind, Project, Stamp, WorkItem,
    bounds, problem,
};

/// The place of an object's facts that says that there are more than are indexed.
pub(super) const NOT_WHOLE: &str = "*";

/// What every object has, and its columns, of a document as it is kept.
pub(super) fn read(kind: ObjectKind, doc: &str) -> Result<(Stamp, Columns), Problem> {
    fn of<T: Document>(doc: &str) -> Result<(Stamp, Columns), Problem> {
        let document: T = serde_json::from_str(doc).map_err(damaged)?;
        Ok((document.stamp().clone(), document.columns()))
    }
    match kind {
        ObjectKind::Project => of::<Project>(doc),
        ObjectKind::Item => of::<WorkItem>(doc),
        ObjectKind::Lease => of::<Lease>(doc),
        ObjectKind::EntityType => of::<EntityType>(doc),
        ObjectKind::Entity => of::<Entity>(doc),
        ObjectKind::Deployment => of::<Deployment>(doc),
    }
}

pub(super) fn damaged(error: serde_json::Error) -> Problem {
    problem(
        "unavailable",
        format!("a row of the database is damaged: {error}"),
    )
}

/// Writes the row of an object, and everything that follows from it.
pub(super) fn write(
    db: Db<'_>,
    kind: ObjectKind,
    seq: i64,
    stamp: &Stamp,
    columns: &Columns,
    doc: &str,
) -> Result<(), Problem> {
    let place = match kind {
        ObjectKind::Item => Some(place(db, &stamp.id, columns.parent.as_deref())?),
        _ => None,
    };
    let (path, depth) = place.unzip();
    let row = db.one(
        match db {
            Db::Sqlite(_) => SQLITE_OBJECT,
            Db::Postgres(_) => POSTGRES_OBJECT,
        },
        cells![
            &stamp.id,
            kind.as_str(),
            &stamp.project,
            stamp.version,
            seq,
            stamp.deleted_at.is_some(),
            columns.type_name.as_deref(),
            columns.status.as_deref(),
            columns.parent.as_deref(),
            path.as_deref(),
            depth,
            columns.number,
            columns.name.as_deref(),
            columns.assignee.as_deref(),
            columns.priority,
            columns.until.as_deref(),
            doc
        ],
        |row| row.int(0),
    )?;
    let row = row.ok_or_else(|| problem("unavailable", "an object was not kept"))?;
    edges(db, &stamp.id, columns)?;
    words(db, row, stamp, columns)?;
    index(db, row, stamp, columns)
}

/// One statement, but for what makes an object the one that is there already.
macro_rules! object {
    ($same:literal) => {
        concat!(
            "INSERT INTO objects(row, id, kind, project, version, seq, deleted, type, status, parent, path, depth, number, name, \
             assignee, priority, until, doc) \
             VALUES((SELECT coalesce(max(row), 0) + 1 FROM objects),?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17) \
             ON CONFLICT(",
            $same,
            ") DO UPDATE SET version=?4, seq=?5, deleted=?6, type=?7, status=?8, parent=?9, path=?10, depth=?11, \
             number=?12, name=?13, assignee=?14, priority=?15, until=?16, doc=?17 RETURNING row"
        )
    };
}
const SQLITE_OBJECT: &str = object!("id");
const POSTGRES_OBJECT: &str = object!("tenant_id, id");

/// The path of an item, and its depth; what stands below it is moved along.
fn place(db: Db<'_>, id: &str, parent: Option<&str>) -> Result<(String, i64), Problem> {
    let of = |id: &str| {
        db.one(
            "SELECT path, depth FROM objects WHERE id=?1 AND kind='item'",
            cells![id],
            |row| Ok((row.text(0)?, row.int(1)?)),
        )
    };
    let (above, depth) = match parent {
        None => (String::new(), 0),
        Some(parent) => of(parent)?
            .ok_or_else(|| problem("not_found", format!("`parent`: there is no item {parent}")))?,
    };
    if above.split('/').any(|step| step == id) {
        return Err(problem(
            "cycle",
            "`parent`: an item cannot stand below itself; choose one that is not below it",
        ));
    }
    let (path, depth) = (format!("{above}/{id}"), depth + 1);
    let before = of(id)?.filter(|(before, _)| *before != path);
    let below = match &before {
        Some((before, at)) => moved(db, before, *at, &path, depth)?,
        None => depth,
    };
    if below > bounds::DEPTH_MAX {
        return Err(problem(
            "too_deep",
            format!(
                "`parent`: items stand in at most {} levels; this would be level {below}",
                bounds::DEPTH_MAX
            ),
        ));
    }
    Ok((path, depth))
}

/// Moves what stands below an item, and says how deep that then reaches.
fn moved(db: Db<'_>, from: &str, from_depth: i64, to: &str, depth: i64) -> Result<i64, Problem> {
    let length = i64::try_from(from.chars().count()).unwrap_or(i64::MAX);
    db.execute(
        "UPDATE objects SET path = ?3 || substr(path, CAST(?4 AS INTEGER)), depth = depth + ?5 WHERE path >= ?1 AND path < ?2",
        cells![
            &format!("{from}/"),
            &format!("{from}0"),
            to,
            length + 1,
            depth - from_depth
        ],
    )?;
    let deepest = db.one(
        "SELECT max(depth) FROM objects WHERE path >= ?1 AND path < ?2",
        cells![&format!("{to}/"), &format!("{to}0")],
        |row| row.opt_int(0),
    )?;
    Ok(deepest.flatten().unwrap_or(depth))
}

/// Edges stay when an object is deleted, so that restoring it cannot close a circle.
fn edges(db: Db<'_>, id: &str, columns: &Columns) -> Result<(), Problem> {
    db.execute("DELETE FROM edges WHERE source=?1", cells![id])?;
    if let Db::Postgres(session) = db {
        let relations = columns.edges.iter().map(|(relation, _)| *relation);
        let targets = columns.edges.iter().map(|(_, target)| target.as_str());
        let sql = "INSERT INTO edges(source, relation, target) \
             SELECT $1, e.relation, e.target FROM unnest($2, $3) AS e(relation, target) ON CONFLICT DO NOTHING";
        let values = [
            SqlValue::Text(Some(id)),
            SqlValue::Texts(relations.collect()),
            SqlValue::Texts(targets.collect()),
        ];
        return many(session, sql, columns.edges.len(), &values);
    }
    for (relation, target) in &columns.edges {
        db.execute(
            "INSERT OR IGNORE INTO edges(source, relation, target) VALUES(?1,?2,?3)",
            cells![id, *relation, target],
        )?;
    }
    Ok(())
}

/// Rows that go to PostgreSQL in one statement, where there are any.
fn many(
    session: &Session,
    sql: &str,
    count: usize,
    values: &[SqlValue<'_>],
) -> Result<(), Problem> {
    if count == 0 {
        return Ok(());
    }
    session.execute(sql, values).map(drop).map_err(failed)
}

fn words(db: Db<'_>, row: i64, stamp: &Stamp, columns: &Columns) -> Result<(), Problem> {
    let Some((title, body)) = &columns.text else {
        return Ok(());
    };
    let is_deleted = stamp.deleted_at.is_some();
    if let Db::Postgres(session) = db {
        db.execute("DELETE FROM words WHERE object=?1", cells![row])?;
        let found = match is_deleted {
            true => Vec::new(),
            false => words::weights(title, body),
        };
        let sql = "INSERT INTO words(project, word, object, weight) \
             SELECT $1, w.word, $2, w.weight FROM unnest($3, $4) AS w(word, weight)";
        let values = [
            SqlValue::Text(Some(&stamp.project)),
            SqlValue::Int(Some(row)),
            SqlValue::Texts(found.iter().map(|(word, _)| word.as_str()).collect()),
            SqlValue::Ints(found.iter().map(|(_, weight)| *weight).collect()),
        ];
        return many(session, sql, found.len(), &values);
    }
    db.execute("DELETE FROM texts WHERE rowid=?1", cells![row])?;
    match is_deleted {
        true => Ok(()),
        false => db.execute(
            "INSERT INTO texts(rowid, title, body) VALUES(?1,?2,?3)",
            cells![row, title, body],
        ),
    }
}

fn index(db: Db<'_>, row: i64, stamp: &Stamp, columns: &Columns) -> Result<(), Problem> {
    let Some((type_name, document)) = &columns.facts else {
        return Ok(());
    };
    db.execute("DELETE FROM facts WHERE object=?1", cells![row])?;
    let (mut all, whole) = facts(document);
    if !whole {
        all.push((NOT_WHOLE.to_owned(), FactValue::Word(0)));
    }
    if let Db::Postgres(session) = db {
        let encoded: Vec<String> = all.iter().map(|(_, value)| encoded(value)).collect();
        let sql = "INSERT INTO facts(project, type, place, value, object) \
             SELECT $1, $2, f.place, f.value, $3 FROM unnest($4, $5) AS f(place, value) ON CONFLICT DO NOTHING";
        let values = [
            SqlValue::Text(Some(&stamp.project)),
            SqlValue::Text(Some(type_name)),
            SqlValue::Int(Some(row)),
            SqlValue::Texts(all.iter().map(|(place, _)| place.as_str()).collect()),
            SqlValue::Texts(encoded.iter().map(String::as_str).collect()),
        ];
        return many(session, sql, all.len(), &values);
    }
    for (place, value) in &all {
        db.execute(
            "INSERT OR IGNORE INTO facts(project, type, place, value, object) VALUES(?1,?2,?3,?4,?5)",
            cells![&stamp.project, type_name, place, value, row],
        )?;
    }
    Ok(())
}
