//! The tables of workflow-mcp, a row a line with the name of its table: what
//! `COPY (SELECT to_jsonb(t) || '{"table": "work_items"}' FROM work_items t) TO STDOUT` writes for each.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use tools::serve::call::Problem;

use super::Record;
use crate::model::{ObjectKind, time};

/// Reads rows, each with the name of its table.
pub(super) fn read(rows: Vec<Map<String, Value>>) -> Result<Vec<Record>, Problem> {
    let mut of: HashMap<String, Vec<Map<String, Value>>> = HashMap::new();
    for row in rows {
        let table = text(&row, "table").to_owned();
        of.entry(table).or_default().push(row);
    }
    let mut take = |name: &str| of.remove(name).unwrap_or_default();
    let mut on: HashMap<String, Vec<Value>> = HashMap::new();
    for row in take("work_item_dependencies") {
        let relation = match text(&row, "dependency_type") {
            "" => "blocks",
            relation => relation,
        };
        let target = [text(&row, "depends_on_id"), text(&row, "target_id")].concat();
        let source = [text(&row, "work_item_id"), text(&row, "source_id")].concat();
        on.entry(source)
            .or_default()
            .push(json!({"id": target, "type": relation}));
    }
    let mut carried: HashMap<String, Vec<Value>> = HashMap::new();
    for row in take("deployment_work_items") {
        carried
            .entry(text(&row, "deployment_id").to_owned())
            .or_default()
            .push(row["work_item_id"].clone());
    }
    let mut all = Vec::new();
    for row in take("entity_types") {
        let doc = json!({"name": row.get("type_name").or(row.get("name")), "description": text(&row, "description"), "schema": row.get("schema").or(row.get("json_schema"))});
        all.push(record(ObjectKind::EntityType, &row, doc)?);
    }
    for row in take("entities") {
        let doc = json!({"type": text(&row, "entity_type"), "name": text(&row, "name"), "data": row.get("data"), "tags": row.get("tags").filter(|tags| tags.is_array()).cloned().unwrap_or(json!([]))});
        all.push(record(ObjectKind::Entity, &row, doc)?);
    }
    for row in take("vendors").into_iter().chain(take("vendor_extractors")) {
        let mut data = object(&row, "metadata");
        data.insert("status".to_owned(), text(&row, "status").into());
        let version = Some(text(&row, "extractor_version"))
            .filter(|version| !version.is_empty())
            .unwrap_or("0.0.0");
        data.insert("extractor_version".to_owned(), version.into());
        all.push(record(
            ObjectKind::Entity,
            &row,
            json!({"type": "vendor", "name": text(&row, "name"), "data": data}),
        )?);
    }
    for row in take("work_items") {
        all.push(item(&row, on.remove(text(&row, "id")).unwrap_or_default())?);
    }
    for row in take("tasks") {
        all.push(task(&row)?);
    }
    for row in take("deployments")
        .into_iter()
        .chain(take("deployment_events"))
    {
        let items = carried.remove(text(&row, "id")).unwrap_or_default();
        all.push(deployment(&row, items)?);
    }
    match of.keys().next() {
        None => Ok(all),
        Some(table) => Err(Problem::argument(format!(
            "table {table:?} is none of work_items, work_item_dependencies, tasks, entity_types, entities, vendors, deployments, deployment_work_items"
        ))),
    }
}

fn text<'r>(row: &'r Map<String, Value>, name: &str) -> &'r str {
    row.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn object(row: &Map<String, Value>, name: &str) -> Map<String, Value> {
    row.get(name)
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default()
}

fn record(kind: ObjectKind, row: &Map<String, Value>, doc: Value) -> Result<Record, Problem> {
    let Value::Object(mut doc) = doc else {
        return Err(Problem::argument("a row is no object"));
    };
    doc.insert("id".to_owned(), text(row, "id").into());
    let version = row.get("version").and_then(Value::as_i64).unwrap_or(1);
    doc.insert("version".to_owned(), version.max(1).into());
    for name in ["created_at", "updated_at", "deleted_at"] {
        let at = text(row, name);
        let at = if at.is_empty() && name == "updated_at" {
            text(row, "created_at")
        } else {
            at
        };
        if !at.is_empty() {
            doc.insert(name.to_owned(), time(name, at)?.into());
        }
    }
    for name in ["created_by", "updated_by"] {
        let by = text(row, name);
        doc.insert(
            name.to_owned(),
            if by.is_empty() { "workflow-mcp" } else { by }.into(),
        );
    }
    Ok(Record { kind, doc })
}

fn item(row: &Map<String, Value>, on: Vec<Value>) -> Result<Record, Problem> {
    let mut metadata = object(row, "metadata");
    let refs = metadata
        .remove("entity_refs")
        .filter(Value::is_array)
        .unwrap_or(json!([]));
    let branch = [text(row, "git_branch"), text(row, "branch_name")].concat();
    let branches: Vec<String> = Some(branch)
        .filter(|branch| !branch.is_empty())
        .into_iter()
        .collect();
    let commits = row
        .get("git_commits")
        .filter(|commits| commits.is_array())
        .cloned()
        .unwrap_or(json!([]));
    let mut doc = json!({
        "number": 0, "type": text(row, "item_type"), "title": text(row, "title"), "description": text(row, "description"),
        "status": text(row, "status"), "priority": 3, "parent": row.get("parent_id"), "branches": branches, "commits": commits,
        "entity_refs": refs, "depends_on": on, "metadata": metadata,
    });
    let done = text(row, "completed_at");
    if !done.is_empty() {
        doc["completed_at"] = time("completed_at", done)?.into();
    }
    record(ObjectKind::Item, row, doc)
}

fn task(row: &Map<String, Value>) -> Result<Record, Problem> {
    let status = match text(row, "status") {
        "need to be done" => "planned",
        "in-progress" => "active",
        "complete" => "completed",
        other => {
            return Err(Problem::argument(format!(
                "`status` of a task: {other:?} is none of the three words"
            )));
        }
    };
    let notes = text(row, "notes");
    let metadata = if notes.is_empty() {
        json!({})
    } else {
        json!({"notes": notes})
    };
    let list = |name: &str| {
        row.get(name)
            .filter(|list| list.is_array())
            .cloned()
            .unwrap_or(json!([]))
    };
    let doc = json!({
        "number": 0, "type": "task", "title": text(row, "title"), "description": text(row, "description"), "status": status,
        "priority": 3, "planning_references": list("planning_references"), "branches": list("branches"),
        "commits": list("commits"), "metadata": metadata,
    });
    record(ObjectKind::Item, row, doc)
}

fn deployment(row: &Map<String, Value>, mut items: Vec<Value>) -> Result<Record, Problem> {
    let metadata = object(row, "metadata");
    let commit = [text(row, "commit_sha"), text(row, "commit_hash")]
        .into_iter()
        .find(|commit| !commit.is_empty());
    let commit = commit
        .or(metadata.get("commit_hash").and_then(Value::as_str))
        .unwrap_or_default();
    items.extend(
        row.get("work_item_ids")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default(),
    );
    let word = |name: &str, default: &str| match text(row, name) {
        "" => default.to_owned(),
        word => word.to_owned(),
    };
    let given = |name: &str| row.get(name).filter(|value| value.is_string());
    let doc = json!({
        "environment": word("environment", "production"), "status": word("status", "deployed"), "commit_sha": commit,
        "branch": given("branch"), "commit_message": given("commit_message"), "author_name": given("author_name"),
        "author_email": given("author_email"), "deployed_at": time("deployed_at", text(row, "deployed_at"))?,
        "work_item_ids": items, "metadata": metadata,
    });
    record(ObjectKind::Deployment, row, doc)
}
