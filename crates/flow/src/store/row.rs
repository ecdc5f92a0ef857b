//! How an object's document becomes its row, its edges, its facts and its words: the same for a write and for a replay.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, ToSql, params};
use tools::serve::call::Problem;

use super::failed;
use crate::model::filter::{FactValue, facts};
use crate::model::{
    Columns, Deployment, Document, Entity, EntityType, Lease, ObjectKind, Project, Stamp, WorkItem,
    bounds, problem,
};

/// The place of an object's facts that says that there are more than are indexed.
pub(super) const NOT_WHOLE: &str = "*";

impl ToSql for FactValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            FactValue::Number(number) => (*number).into(),
            FactValue::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            FactValue::Word(word) => ToSqlOutput::Owned(vec![*word].into()),
        })
    }
}

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
    db: &Connection,
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
    let row: i64 = db
        .prepare_cached(
            "INSERT INTO objects(id, kind, project, version, seq, deleted, type, status, parent, path, depth, number, name, \
             assignee, priority, until, doc) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17) \
             ON CONFLICT(id) DO UPDATE SET version=?4, seq=?5, deleted=?6, type=?7, status=?8, parent=?9, path=?10, depth=?11, \
             number=?12, name=?13, assignee=?14, priority=?15, until=?16, doc=?17 RETURNING row",
        )
        .and_then(|mut insert| {
            insert.query_row(
                params![
                    stamp.id, kind.as_str(), stamp.project, stamp.version, seq, stamp.deleted_at.is_some(),
                    columns.type_name, columns.status, columns.parent, path, depth, columns.number, columns.name,
                    columns.assignee, columns.priority, columns.until, doc
                ],
                |row| row.get(0),
            )
        })
        .map_err(failed)?;
    edges(db, &stamp.id, columns)?;
    words(db, row, stamp, columns)?;
    index(db, row, stamp, columns)
}

/// The path of an item, and its depth; what stands below it is moved along.
fn place(db: &Connection, id: &str, parent: Option<&str>) -> Result<(String, i64), Problem> {
    let of = |id: &str| {
        db.prepare_cached("SELECT path, depth FROM objects WHERE id=?1 AND kind='item'")
            .and_then(|mut select| {
                select
                    .query_row([id], |row| {
                        Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
                    })
                    .optional()
            })
            .map_err(failed)
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
fn moved(
    db: &Connection,
    from: &str,
    from_depth: i64,
    to: &str,
    depth: i64,
) -> Result<i64, Problem> {
    let (low, high) = (format!("{from}/"), format!("{from}0"));
    db.prepare_cached(
        "UPDATE objects SET path = ?3 || substr(path, ?4), depth = depth + ?5 WHERE path >= ?1 AND path < ?2",
    )
    .and_then(|mut update| {
        let length = i64::try_from(from.len()).unwrap_or(i64::MAX);
        update.execute(params![low, high, to, length + 1, depth - from_depth])
    })
    .map_err(failed)?;
    let (low, high) = (format!("{to}/"), format!("{to}0"));
    let deepest: Option<i64> = db
        .prepare_cached("SELECT max(depth) FROM objects WHERE path >= ?1 AND path < ?2")
        .and_then(|mut select| select.query_row([low, high], |row| row.get(0)))
        .map_err(failed)?;
    Ok(deepest.unwrap_or(depth))
}

/// Edges stay when an object is deleted, so that restoring it cannot close a circle.
fn edges(db: &Connection, id: &str, columns: &Columns) -> Result<(), Problem> {
    db.prepare_cached("DELETE FROM edges WHERE source=?1")
        .and_then(|mut delete| delete.execute([id]))
        .map_err(failed)?;
    for (relation, target) in &columns.edges {
        db.prepare_cached("INSERT OR IGNORE INTO edges(source, relation, target) VALUES(?1,?2,?3)")
            .and_then(|mut insert| insert.execute([id, relation, target]))
            .map_err(failed)?;
    }
    Ok(())
}

fn words(db: &Connection, row: i64, stamp: &Stamp, columns: &Columns) -> Result<(), Problem> {
    let Some((title, body)) = &columns.text else {
        return Ok(());
    };
    db.prepare_cached("DELETE FROM texts WHERE rowid=?1")
        .and_then(|mut delete| delete.execute([row]))
        .map_err(failed)?;
    if stamp.deleted_at.is_none() {
        db.prepare_cached("INSERT INTO texts(rowid, title, body) VALUES(?1,?2,?3)")
            .and_then(|mut insert| insert.execute(params![row, title, body]))
            .map_err(failed)?;
    }
    Ok(())
}

fn index(db: &Connection, row: i64, stamp: &Stamp, columns: &Columns) -> Result<(), Problem> {
    let Some((type_name, document)) = &columns.facts else {
        return Ok(());
    };
    db.prepare_cached("DELETE FROM facts WHERE object=?1")
        .and_then(|mut delete| delete.execute([row]))
        .map_err(failed)?;
    let (all, whole) = facts(document);
    let more = (!whole).then(|| (NOT_WHOLE.to_owned(), FactValue::Word(0)));
    let mut insert = db
        .prepare_cached("INSERT OR IGNORE INTO facts(project, type, place, value, object) VALUES(?1,?2,?3,?4,?5)")
        .map_err(failed)?;
    for (place, value) in all.into_iter().chain(more) {
        insert
            .execute(params![stamp.project, type_name, place, value, row])
            .map_err(failed)?;
    }
    Ok(())
}
