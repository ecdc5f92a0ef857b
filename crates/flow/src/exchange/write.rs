//! Exports: our own lines of JSON, task lists in Markdown, and rows of the peer's tables.

use std::collections::HashMap;
use std::fmt::Write;

use serde_json::{Value, json};
use tools::serve::call::Problem;

use crate::model::{Deployment, Entity, EntityType, ObjectKind, Project, WorkItem};
use crate::ops::ItemLine;
use crate::ops::board::line;
use crate::store::Tx;

/// All objects of a project, as lines of JSON with a line before that says what they are and one behind that counts them.
///
/// # Errors
///
/// Where the database cannot be read.
pub fn export_jsonl(tx: &Tx<'_>, project: &Project) -> Result<String, Problem> {
    let mut text = format!("{{\"weir_flow\":1,\"at\":{:?}}}\n", tx.now());
    let mut count = 0;
    tx.export(&project.stamp.id, |kind, doc| {
        if kind != ObjectKind::Lease.as_str() {
            let _ = writeln!(text, "{{\"kind\":\"{kind}\",\"doc\":{doc}}}");
            count += 1;
        }
        Ok(())
    })?;
    let _ = writeln!(text, "{{\"end\":{count}}}");
    Ok(text)
}

/// The items of a project as task lists, what stands below an item indented below it.
///
/// # Errors
///
/// Where the database cannot be read.
pub fn export_markdown(tx: &Tx<'_>, project: &Project) -> Result<String, Problem> {
    let mut below: HashMap<Option<String>, Vec<WorkItem>> = HashMap::new();
    for item in all::<WorkItem>(tx, project, ObjectKind::Item)? {
        if item.stamp.deleted_at.is_none() {
            below.entry(item.parent.clone()).or_default().push(item);
        }
    }
    let mut text = String::new();
    let mut open: Vec<(usize, WorkItem)> = Vec::new();
    let push = |open: &mut Vec<(usize, WorkItem)>, items: Option<Vec<WorkItem>>, level| {
        open.extend(
            items
                .unwrap_or_default()
                .into_iter()
                .rev()
                .map(|item| (level, item)),
        );
    };
    push(&mut open, below.remove(&None), 0);
    while let Some((level, item)) = open.pop() {
        let _ = writeln!(
            text,
            "{}{}",
            "  ".repeat(level),
            line(&ItemLine::from(&item))
        );
        push(&mut open, below.remove(&Some(item.stamp.id)), level + 1);
    }
    Ok(text)
}

/// The objects of a project as rows of workflow-mcp's tables, a line each.
///
/// # Errors
///
/// Where the database cannot be read.
pub fn export_workflow(tx: &Tx<'_>, project: &Project) -> Result<String, Problem> {
    let mut text = String::new();
    let mut row = |table: &str, mut row: Value| {
        row["table"] = table.into();
        let _ = writeln!(text, "{row}");
    };
    for of in all::<EntityType>(tx, project, ObjectKind::EntityType)? {
        row(
            "entity_types",
            json!({
                "id": of.stamp.id, "type_name": of.name, "schema": of.schema, "description": of.description,
                "version": of.stamp.version, "created_at": of.stamp.created_at, "updated_at": of.stamp.updated_at,
            }),
        );
    }
    for of in all::<Entity>(tx, project, ObjectKind::Entity)? {
        row(
            "entities",
            json!({
                "id": of.stamp.id, "entity_type": of.entity_type, "name": of.name, "data": of.data, "tags": of.tags,
                "version": of.stamp.version, "created_at": of.stamp.created_at, "updated_at": of.stamp.updated_at,
                "deleted_at": of.stamp.deleted_at, "created_by": of.stamp.created_by, "updated_by": of.stamp.updated_by,
            }),
        );
    }
    for of in all::<WorkItem>(tx, project, ObjectKind::Item)? {
        for edge in &of.depends_on {
            row(
                "work_item_dependencies",
                json!({
                    "work_item_id": of.stamp.id, "depends_on_id": edge.id, "dependency_type": edge.relation,
                }),
            );
        }
        let mut metadata = of.metadata.clone();
        metadata.insert("entity_refs".to_owned(), json!(of.entity_refs));
        row(
            "work_items",
            json!({
                "id": of.stamp.id, "item_type": of.item_type, "title": of.title, "description": of.description, "status": of.status,
                "parent_id": of.parent, "git_branch": of.branches.last(), "git_commits": of.commits, "metadata": metadata,
                "version": of.stamp.version, "created_at": of.stamp.created_at, "updated_at": of.stamp.updated_at,
                "completed_at": of.completed_at, "deleted_at": of.stamp.deleted_at, "created_by": of.stamp.created_by,
                "updated_by": of.stamp.updated_by,
            }),
        );
    }
    for of in all::<Deployment>(tx, project, ObjectKind::Deployment)? {
        row(
            "deployments",
            json!({
                "id": of.stamp.id, "environment": of.environment, "status": of.status, "commit_sha": of.commit_sha, "branch": of.branch,
                "commit_message": of.commit_message, "author_name": of.author_name, "author_email": of.author_email,
                "deployed_at": of.deployed_at, "metadata": of.metadata, "work_item_ids": of.work_item_ids,
                "version": of.stamp.version, "created_at": of.stamp.created_at, "updated_at": of.stamp.updated_at,
                "created_by": of.stamp.created_by, "updated_by": of.stamp.updated_by,
            }),
        );
    }
    Ok(text)
}

fn all<T: crate::model::Document>(
    tx: &Tx<'_>,
    project: &Project,
    kind: ObjectKind,
) -> Result<Vec<T>, Problem> {
    let mut found = Vec::new();
    tx.export(&project.stamp.id, |of, doc| {
        if of == kind.as_str() {
            let document =
                serde_json::from_str(doc).map_err(|error| Problem::ours(error.to_string()))?;
            found.push(document);
        }
        Ok(())
    })?;
    Ok(found)
}
