//! Work items: the later generation's names, with the earlier one's arguments taken too.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tools::serve::call::{Problem, schema};
use tools::serve::table::{Effect, Whose};

use super::{any_answer, rows, skipped, theirs, translated};
use crate::model::item::{ItemType, Relation};
use crate::model::{Project, Status, WorkItem, bounds};
use crate::ops::dependency::{self, DependencyAction, DependencyCall};
use crate::ops::items::{self, CreateItem, DeleteAction, DeleteItem, UpdateItem};
use crate::ops::{any_object, item, item_id};
use crate::store::{ItemFilter, Page, Tx};
use crate::table::{Tool, read, write};

/// Related items that one answer has, at most.
const RELATED_MAX: usize = 100;

/// Arguments of `create_work_item`, of both generations.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateWorkItem {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// project, session, task, research or subtask.
    item_type: ItemType,
    /// What is to be done, in 1 to 200 characters.
    title: String,
    /// More about it.
    description: Option<String>,
    /// planned, active, completed or blocked.
    status: Option<Status>,
    /// The id of the item above it.
    parent_id: Option<String>,
    /// Anything else.
    metadata: Option<Map<String, Value>>,
    /// A branch of git.
    branch_name: Option<String>,
    /// Taken, and not believed: who writes is who calls.
    #[allow(dead_code, reason = "the peer's clients send it")]
    created_by: Option<String>,
}

/// Arguments of `update_work_item`, of both generations.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateWorkItem {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// The id of the item.
    #[serde(alias = "id")]
    work_item_id: String,
    /// The version that is changed: another one is a conflict. Without it the current one is.
    version: Option<i64>,
    /// What is to be done.
    title: Option<String>,
    /// More about it.
    description: Option<String>,
    /// planned, active, completed or blocked.
    status: Option<Status>,
    /// Anything else, in place of what it has.
    metadata: Option<Map<String, Value>>,
    /// A time, or NOW(): the item is deleted.
    deleted_at: Option<String>,
    /// Taken, and not believed.
    #[allow(dead_code, reason = "the peer's clients send it")]
    updated_by: Option<String>,
}

/// Arguments of `query_work_items`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct QueryWorkItems {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// Only this status.
    status: Option<Status>,
    /// Only this type.
    item_type: Option<ItemType>,
    /// Only what stands below this item.
    parent_id: Option<String>,
    /// At every level below it.
    include_descendants: Option<bool>,
}

/// Arguments of what is about one item.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneWorkItem {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// The id of the item.
    #[serde(alias = "id")]
    work_item_id: String,
    /// Whether children are told.
    include_children: Option<bool>,
    /// Whether dependencies are told.
    include_dependencies: Option<bool>,
}

/// Arguments of `delete_work_item`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteWorkItem {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// The id of the item.
    work_item_id: String,
    /// Has to be true.
    confirmed: Option<bool>,
}

/// Arguments of `add_work_item_dependency`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AddDependency {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// The item that depends.
    work_item_id: String,
    /// The item that it depends on.
    depends_on_id: String,
    /// blocks, relates_to or duplicates.
    dependency_type: Option<Relation>,
}

/// Arguments of `list_blocked_work_items`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListBlocked {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
}

/// Arguments of `list_work_items`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListWorkItems {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// Only this type.
    item_type: Option<ItemType>,
    /// Only this status.
    status: Option<Status>,
    /// Only what stands right below this item; none for what stands below no other.
    parent_id: Option<String>,
    /// Deleted ones too.
    include_deleted: Option<bool>,
    /// Most items, 1 to 100.
    limit: Option<i64>,
    /// How many are left out.
    offset: Option<i64>,
}

theirs!(
    CreateWorkItem,
    UpdateWorkItem,
    QueryWorkItems,
    OneWorkItem,
    DeleteWorkItem,
    AddDependency,
    ListBlocked,
    ListWorkItems
);

pub(crate) const CREATE_ITEM: Tool = Tool {
    name: "create_work_item",
    title: "Create a work item (workflow-mcp)",
    doc: "Creates a work item.",
    effect: Effect::Writes,
    whose: Whose::Theirs,
    input: schema::<CreateWorkItem>,
    output: any_answer,
    run: |call, map| translated(write(call, "create_work_item", map, create)),
};

pub(crate) const UPDATE_ITEM: Tool = Tool {
    name: "update_work_item",
    title: "Change a work item (workflow-mcp)",
    doc: "Changes a work item; with a version only that one.",
    effect: Effect::Overwrites,
    whose: Whose::Theirs,
    input: schema::<UpdateWorkItem>,
    output: any_answer,
    run: |call, map| translated(write(call, "update_work_item", map, update)),
};

pub(crate) const QUERY_ITEMS: Tool = Tool {
    name: "query_work_items",
    title: "Query work items (workflow-mcp)",
    doc: "Lists work items by status, type and parent.",
    effect: Effect::Reads,
    whose: Whose::Theirs,
    input: schema::<QueryWorkItems>,
    output: any_answer,
    run: |call, map| translated(read(call, "query_work_items", map, query)),
};

pub(crate) const ITEM_HIERARCHY: Tool = Tool {
    name: "get_work_item_hierarchy",
    title: "Work item hierarchy (workflow-mcp)",
    doc: "Shows a work item with what stands above and below it.",
    effect: Effect::Reads,
    whose: Whose::Theirs,
    input: schema::<OneWorkItem>,
    output: any_answer,
    run: |call, map| translated(read(call, "get_work_item_hierarchy", map, hierarchy)),
};

pub(crate) const DELETE_ITEM: Tool = Tool {
    name: "delete_work_item",
    title: "Delete a work item (workflow-mcp)",
    doc: "Deletes a work item; history and work_item_delete restore it.",
    effect: Effect::Removes,
    whose: Whose::Theirs,
    input: schema::<DeleteWorkItem>,
    output: any_answer,
    run: |call, map| translated(write(call, "delete_work_item", map, delete)),
};

pub(crate) const ADD_DEPENDENCY: Tool = Tool {
    name: "add_work_item_dependency",
    title: "Add a dependency (workflow-mcp)",
    doc: "Says that an item depends on another; a circle is refused.",
    effect: Effect::Adds,
    whose: Whose::Theirs,
    input: schema::<AddDependency>,
    output: any_answer,
    run: |call, map| translated(write(call, "add_work_item_dependency", map, add_dependency)),
};

pub(crate) const BLOCKED_ITEMS: Tool = Tool {
    name: "list_blocked_work_items",
    title: "Blocked work items (workflow-mcp)",
    doc: "Lists items that wait for others.",
    effect: Effect::Reads,
    whose: Whose::Theirs,
    input: schema::<ListBlocked>,
    output: any_answer,
    run: |call, map| translated(read(call, "list_blocked_work_items", map, blocked)),
};

pub(crate) const QUERY_ITEM: Tool = Tool {
    name: "query_work_item",
    title: "Query one work item (workflow-mcp)",
    doc: "Shows a work item with its hierarchy and what it depends on.",
    effect: Effect::Reads,
    whose: Whose::Theirs,
    input: schema::<OneWorkItem>,
    output: any_answer,
    run: |call, map| translated(read(call, "query_work_item", map, query_one)),
};

pub(crate) const LIST_ITEMS: Tool = Tool {
    name: "list_work_items",
    title: "List work items (workflow-mcp)",
    doc: "Lists work items, the one that was changed last first.",
    effect: Effect::Reads,
    whose: Whose::Theirs,
    input: schema::<ListWorkItems>,
    output: any_answer,
    run: |call, map| translated(read(call, "list_work_items", map, list)),
};

/// An item as the peer writes it.
pub(super) fn row(tx: &Tx<'_>, item: &WorkItem) -> Result<Value, Problem> {
    let path = tx.path(&item.stamp.id)?;
    let level = path.matches('/').count();
    let mut metadata = item.metadata.clone();
    metadata.insert("entity_refs".to_owned(), json!(item.entity_refs));
    Ok(json!({
        "id": item.stamp.id,
        "item_type": item.item_type,
        "title": item.title,
        "description": item.description,
        "status": item.status,
        "parent_id": item.parent,
        "materialized_path": path,
        "path": path,
        "hierarchy_level": level,
        "depth": level.saturating_sub(1),
        "created_at": item.stamp.created_at,
        "created_by": item.stamp.created_by,
        "updated_at": item.stamp.updated_at,
        "updated_by": item.stamp.updated_by,
        "completed_at": item.completed_at,
        "deleted_at": item.stamp.deleted_at,
        "metadata": metadata,
        "git_branch": item.branches.last(),
        "git_commits": item.commits,
        "version": item.stamp.version,
    }))
}

fn all(tx: &Tx<'_>, items: &[WorkItem]) -> Result<Vec<Value>, Problem> {
    items.iter().map(|item| row(tx, item)).collect()
}

fn create(tx: &Tx<'_>, project: &Project, call: &CreateWorkItem) -> Result<Value, Problem> {
    let made = items::create(
        tx,
        project,
        &CreateItem {
            item_type: Some(call.item_type),
            title: call.title.clone(),
            description: call.description.clone(),
            status: call.status,
            parent: call.parent_id.clone(),
            branch: call.branch_name.clone(),
            metadata: call.metadata.clone(),
            ..CreateItem::default()
        },
    )?;
    row(tx, &made.item)
}

fn update(tx: &Tx<'_>, project: &Project, call: &UpdateWorkItem) -> Result<Value, Problem> {
    let id = item_id(tx, project, "work_item_id", &call.work_item_id)?;
    let current = item(tx, project, "work_item_id", &id)?;
    let changed = items::update(
        tx,
        project,
        &UpdateItem {
            id: id.clone(),
            version: Some(call.version.unwrap_or(current.stamp.version)),
            title: call.title.clone(),
            description: call.description.clone(),
            status: call.status,
            metadata: call.metadata.clone(),
            replace: true,
            ..UpdateItem::default()
        },
    )?;
    if call.deleted_at.is_none() {
        return row(tx, &changed.item);
    }
    delete_one(tx, project, &id)?;
    row(tx, &any_object(tx, project, "work_item_id", &id)?)
}

fn delete_one(tx: &Tx<'_>, project: &Project, id: &str) -> Result<(), Problem> {
    let call = DeleteItem {
        id: id.to_owned(),
        action: DeleteAction::Delete,
        confirmed: true,
        with_descendants: true,
        ..DeleteItem::default()
    };
    items::delete(tx, project, &call).map(drop)
}

fn delete(tx: &Tx<'_>, project: &Project, call: &DeleteWorkItem) -> Result<Value, Problem> {
    crate::ops::confirmed(call.confirmed == Some(true), "an item")?;
    let id = item_id(tx, project, "work_item_id", &call.work_item_id)?;
    item(tx, project, "work_item_id", &id)?;
    delete_one(tx, project, &id)?;
    let gone: WorkItem = any_object(tx, project, "work_item_id", &id)?;
    Ok(json!({ "success": true, "id": id, "deleted_at": gone.stamp.deleted_at }))
}

fn query(tx: &Tx<'_>, project: &Project, call: &QueryWorkItems) -> Result<Value, Problem> {
    let mut of = ItemFilter {
        statuses: call.status.into_iter().collect(),
        types: call.item_type.into_iter().collect(),
        ..ItemFilter::default()
    };
    if let Some(parent) = &call.parent_id {
        let id = item(tx, project, "parent_id", parent)?.stamp.id;
        match call.include_descendants == Some(true) {
            true => of.below = Some(id),
            false => of.parent = Some(Some(id)),
        }
    }
    let page = Page {
        before: None,
        limit: RELATED_MAX,
    };
    let found = tx.items(&project.stamp.id, &of, page)?;
    let items: Vec<WorkItem> = found.rows.into_iter().map(|(_, item)| item).collect();
    let items = all(tx, &items)?;
    Ok(json!({ "count": items.len(), "work_items": items, "truncated": found.next.is_some() }))
}

fn list(tx: &Tx<'_>, project: &Project, call: &ListWorkItems) -> Result<Value, Problem> {
    let (limit, offset) = (rows(call.limit, 50)?, skipped(call.offset)?);
    let mut of = ItemFilter {
        statuses: call.status.into_iter().collect(),
        types: call.item_type.into_iter().collect(),
        with_deleted: call.include_deleted == Some(true),
        ..ItemFilter::default()
    };
    of.parent = match call.parent_id.as_deref() {
        None => None,
        Some(items::TOP) => Some(None),
        Some(parent) => Some(Some(item(tx, project, "parent_id", parent)?.stamp.id)),
    };
    let page = Page {
        before: None,
        limit: limit + offset,
    };
    let found = tx.items(&project.stamp.id, &of, page)?;
    let items: Vec<WorkItem> = found
        .rows
        .into_iter()
        .skip(offset)
        .map(|(_, item)| item)
        .collect();
    let items = all(tx, &items)?;
    Ok(json!({ "total_count": items.len(), "items": items, "limit": limit, "offset": offset }))
}

/// An item with what stands around it.
struct ItemTree {
    of: WorkItem,
    above: Vec<WorkItem>,
    children: Vec<WorkItem>,
    below: Vec<WorkItem>,
}

fn around(tx: &Tx<'_>, project: &Project, text: &str) -> Result<ItemTree, Problem> {
    let id = item_id(tx, project, "work_item_id", text)?;
    let of: WorkItem = any_object(tx, project, "work_item_id", &id)?;
    let above = items::above(tx, &id)?;
    let found = |of: ItemFilter| {
        let rows = tx
            .items(&project.stamp.id, &of, Page::first(RELATED_MAX))?
            .rows;
        Ok::<Vec<WorkItem>, Problem>(rows.into_iter().map(|(_, item)| item).collect())
    };
    let children = found(ItemFilter {
        parent: Some(Some(id.clone())),
        ..ItemFilter::default()
    })?;
    let below = found(ItemFilter {
        below: Some(id),
        ..ItemFilter::default()
    })?;
    Ok(ItemTree {
        of,
        above,
        children,
        below,
    })
}

fn hierarchy(tx: &Tx<'_>, project: &Project, call: &OneWorkItem) -> Result<Value, Problem> {
    let tree = around(tx, project, &call.work_item_id)?;
    Ok(json!({
        "work_item": row(tx, &tree.of)?,
        "ancestors": all(tx, &tree.above)?,
        "children": all(tx, &tree.children)?,
        "descendants": all(tx, &tree.below)?,
    }))
}

fn query_one(tx: &Tx<'_>, project: &Project, call: &OneWorkItem) -> Result<Value, Problem> {
    let ItemTree {
        of,
        above,
        children,
        below,
    } = around(tx, project, &call.work_item_id)?;
    let short = |items: &[WorkItem]| {
        let line = |item: &WorkItem| {
            let path = tx.path(&item.stamp.id)?;
            let depth = path.matches('/').count().saturating_sub(1);
            Ok(json!({
                "id": item.stamp.id, "title": item.title, "item_type": item.item_type, "depth": depth, "path": path,
            }))
        };
        items
            .iter()
            .map(line)
            .collect::<Result<Vec<Value>, Problem>>()
    };
    let mut answer = row(tx, &of)?;
    answer["ancestors"] = short(&above)?.into();
    answer["descendants"] = short(&below)?.into();
    if call.include_children != Some(false) {
        answer["children"] = short(&children)?.into();
    }
    if call.include_dependencies != Some(false) {
        answer["dependencies"] = json!(of.depends_on);
    }
    Ok(answer)
}

fn add_dependency(tx: &Tx<'_>, project: &Project, call: &AddDependency) -> Result<Value, Problem> {
    let relation = call.dependency_type.unwrap_or_default();
    let changed = dependency::change(
        tx,
        project,
        &DependencyCall {
            action: DependencyAction::Add,
            id: call.work_item_id.clone(),
            depends_on: call.depends_on_id.clone(),
            relation,
            ..DependencyCall::default()
        },
    )?;
    let on = item_id(tx, project, "depends_on_id", &call.depends_on_id)?;
    Ok(json!({
        "success": true, "work_item_id": changed.item.stamp.id, "depends_on_id": on, "dependency_type": relation,
        "created_at": tx.now(),
    }))
}

fn blocked(tx: &Tx<'_>, project: &Project, _call: &ListBlocked) -> Result<Value, Problem> {
    let items = tx.blocked(&project.stamp.id, RELATED_MAX, 0)?;
    let mut rows = Vec::new();
    for item in &items {
        let mut row = row(tx, item)?;
        let on = tx.waits_for(&item.stamp.id, bounds::LIST_MAX)?;
        row["blocked_by"] = on.iter().map(|other| json!({ "id": other.stamp.id, "title": other.title, "status": other.status })).collect();
        rows.push(row);
    }
    Ok(json!({ "count": rows.len(), "work_items": rows }))
}
