//! The SQLite database of simple-task-tracker: its tables `tasks`, `entities` and `task_entity_links`.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Map, Value, json};
use tools::serve::call::Problem;

use super::{NewIds, Record};
use crate::model::{ObjectKind, time};

/// The type that its entities get here.
const ENTITY_TYPE: &str = "tracked";

/// Reads the database, which stays as it is.
pub(super) fn read(path: &Path) -> Result<Vec<Record>, Problem> {
    let wrong = |error: rusqlite::Error| Problem::argument(format!("{}: {error}", path.display()));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(wrong)?;
    let tasks = rows(&db, "SELECT * FROM tasks ORDER BY id").map_err(|error| {
        Problem::argument(format!(
            "{} is no database of simple-task-tracker: {error}",
            path.display()
        ))
    })?;
    // Older versions have no entities.
    let entities = rows(&db, "SELECT * FROM entities ORDER BY id").unwrap_or_default();
    let links = rows(
        &db,
        "SELECT * FROM task_entity_links WHERE deleted_at IS NULL ORDER BY id",
    )
    .unwrap_or_default();
    let mut ids = NewIds::default();
    let mut refs: HashMap<String, Vec<String>> = HashMap::new();
    for link in &links {
        let entity = ids.of(&format!("e{}", link["entity_id"]));
        refs.entry(link["task_id"].to_string())
            .or_default()
            .push(entity);
    }
    let mut all = Vec::new();
    if !entities.is_empty() {
        all.push(entity_type());
    }
    for row in &entities {
        all.push(entity(row, &mut ids)?);
    }
    for row in &tasks {
        all.push(task(
            row,
            &mut ids,
            refs.remove(&row["id"].to_string()).unwrap_or_default(),
        )?);
    }
    Ok(all)
}

fn rows(db: &Connection, sql: &str) -> rusqlite::Result<Vec<Map<String, Value>>> {
    let mut select = db.prepare(sql)?;
    let names: Vec<String> = select.column_names().map(str::to_owned).collect();
    let mut found = select.query([])?;
    let mut all = Vec::new();
    while let Some(row) = found.next()? {
        let mut map = Map::new();
        for (index, name) in names.iter().enumerate() {
            let value = match row.get_ref(index)? {
                ValueRef::Integer(number) => number.into(),
                ValueRef::Real(number) => number.into(),
                ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
                ValueRef::Null | ValueRef::Blob(_) => Value::Null,
            };
            map.insert(name.clone(), value);
        }
        all.push(map);
    }
    Ok(all)
}

fn text<'r>(row: &'r Map<String, Value>, name: &str) -> &'r str {
    row.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// What every object keeps of its row.
fn stamp(row: &Map<String, Value>, id: String, doc: &mut Value) -> Result<(), Problem> {
    doc["id"] = id.into();
    for (ours, theirs) in [
        ("created_at", "created_at"),
        ("updated_at", "updated_at"),
        ("deleted_at", "deleted_at"),
    ] {
        let at = text(row, theirs);
        if !at.is_empty() {
            doc[ours] = time(theirs, at)?.into();
        }
    }
    // A version says that what is given of its making is kept.
    doc["version"] = 1.into();
    let by = text(row, "created_by");
    let by = if by.is_empty() {
        "simple-task-tracker"
    } else {
        by
    };
    doc["created_by"] = by.into();
    doc["updated_by"] = by.into();
    Ok(())
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

fn list(row: &Map<String, Value>, name: &str) -> Result<Vec<Value>, Problem> {
    let text = text(row, name);
    match text.is_empty() {
        true => Ok(Vec::new()),
        false => serde_json::from_str(text)
            .map_err(|error| Problem::argument(format!("`{name}` of row {}: {error}", row["id"]))),
    }
}

fn task(row: &Map<String, Value>, ids: &mut NewIds, refs: Vec<String>) -> Result<Record, Problem> {
    let status = match text(row, "status") {
        "todo" => "planned",
        "in_progress" => "active",
        "blocked" => "blocked",
        "done" => "completed",
        "cancelled" | "to_be_deleted" => "cancelled",
        other => {
            return Err(Problem::argument(format!(
                "`status` of task {}: {other:?} is none of its words",
                row["id"]
            )));
        }
    };
    let priority = match text(row, "priority") {
        "high" => 1,
        "low" => 5,
        _ => 3,
    };
    let mut key = |id: &Value| {
        ids.of(&format!(
            "t{}",
            id.as_str().map_or_else(|| id.to_string(), str::to_owned)
        ))
    };
    let parent = row
        .get("parent_task_id")
        .filter(|id| !id.is_null())
        .map(&mut key);
    let on: Vec<Value> = list(row, "depends_on")?
        .iter()
        .map(|id| json!({"id": key(id), "type": "blocks"}))
        .collect();
    let own = key(&row["id"]);
    let mut metadata = json!({"simple_task_tracker_id": row["id"]});
    if let Ok(workspace) = serde_json::from_str::<Value>(text(row, "workspace_metadata")) {
        metadata["workspace_metadata"] = workspace;
    }
    let (title, description) = cut(text(row, "title"), text(row, "description"));
    let mut doc = json!({
        "number": 0, "type": "task", "title": title, "description": description, "status": status,
        "priority": priority, "parent": parent, "depends_on": on, "tags": words(text(row, "tags")), "entity_refs": refs,
        "planning_references": list(row, "file_references")?, "metadata": metadata,
    });
    if status == "blocked" {
        doc["blocked_reason"] = text(row, "blocker_reason").into();
    }
    if status == "completed" {
        let at = [
            text(row, "completed_at"),
            text(row, "updated_at"),
            text(row, "created_at"),
        ];
        let at = at.into_iter().find(|at| !at.is_empty());
        doc["completed_at"] = at.map(|at| time("completed_at", at)).transpose()?.into();
    }
    stamp(row, own, &mut doc)?;
    Ok(record(ObjectKind::Item, doc))
}

/// A title that is too long goes on in the description.
fn cut(title: &str, description: &str) -> (String, String) {
    match title
        .char_indices()
        .nth(crate::model::bounds::TITLE_CHARS_MAX)
    {
        None => (title.to_owned(), description.to_owned()),
        Some((at, _)) => (title[..at].to_owned(), format!("{title}\n\n{description}")),
    }
}

fn entity_type() -> Record {
    let doc = json!({
        "name": ENTITY_TYPE, "description": "Entities of simple-task-tracker",
        "schema": {"type": "object", "properties": {
            "kind": {"type": "string"}, "identifier": {"type": ["string", "null"]}, "description": {"type": ["string", "null"]},
        }},
    });
    record(ObjectKind::EntityType, doc)
}

fn entity(row: &Map<String, Value>, ids: &mut NewIds) -> Result<Record, Problem> {
    let metadata = serde_json::from_str::<Value>(text(row, "metadata")).unwrap_or(Value::Null);
    let mut doc = json!({
        "type": ENTITY_TYPE, "name": text(row, "name"), "tags": words(text(row, "tags")),
        "data": {
            "kind": text(row, "entity_type"), "identifier": row.get("identifier"), "description": row.get("description"),
            "metadata": metadata,
        },
    });
    let id = ids.of(&format!("e{}", row["id"]));
    stamp(row, id, &mut doc)?;
    Ok(record(ObjectKind::Entity, doc))
}

fn record(kind: ObjectKind, doc: Value) -> Record {
    match doc {
        Value::Object(doc) => Record { kind, doc },
        _ => Record {
            kind,
            doc: Map::new(),
        },
    }
}
