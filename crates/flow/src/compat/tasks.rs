//! `get_task`, `list_tasks`, `create_task`, `update_task`: work items of type task in the earlier generation's words.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tools::serve::call::{Problem, schema};
use tools::serve::table::{Effect, Whose};

use super::{any_answer, rows, theirs, translated};
use crate::model::item::ItemType;
use crate::model::{Project, Status, WorkItem};
use crate::ops::item;
use crate::ops::items::{self, CreateItem, UpdateItem};
use crate::store::{ItemFilter, Page, Tx};
use crate::table::{Tool, read, write};

/// How far a task is, in the peer's words.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
enum TaskStatus {
    #[serde(rename = "need to be done")]
    ToDo,
    #[serde(rename = "in-progress")]
    InProgress,
    #[serde(rename = "complete")]
    Complete,
}

/// Arguments of `get_task`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetTask {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// The id of the task.
    task_id: String,
}

/// Arguments of `list_tasks`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListTasks {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// need to be done, in-progress or complete.
    status: Option<TaskStatus>,
    /// Only what is done on this branch.
    branch: Option<String>,
    /// Most tasks, 1 to 100.
    limit: Option<i64>,
    /// Every field, and not the five short ones.
    full_details: Option<bool>,
}

/// Arguments of `create_task`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateTask {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// What is to be done, in 1 to 200 characters.
    title: String,
    /// More about it.
    description: Option<String>,
    /// Notes.
    notes: Option<String>,
    /// Paths of documents where it is planned.
    planning_references: Option<Vec<String>>,
}

/// Arguments of `update_task`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateTask {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// The id of the task.
    task_id: String,
    /// What is to be done.
    title: Option<String>,
    /// More about it.
    description: Option<String>,
    /// Notes.
    notes: Option<String>,
    /// need to be done, in-progress or complete.
    status: Option<TaskStatus>,
    /// A branch, added to those it has.
    branch: Option<String>,
    /// A commit of 40 hex digits, added to those it has.
    commit: Option<String>,
}

theirs!(GetTask, ListTasks, CreateTask, UpdateTask);

pub(crate) const GET_TASK: Tool = Tool {
    name: "get_task",
    title: "Get a task (workflow-mcp)",
    doc: "Shows a task.",
    effect: Effect::Reads,
    whose: Whose::Theirs,
    input: schema::<GetTask>,
    output: any_answer,
    run: |call, map| translated(read(call, "get_task", map, get)),
};

pub(crate) const LIST_TASKS: Tool = Tool {
    name: "list_tasks",
    title: "List tasks (workflow-mcp)",
    doc: "Lists tasks in five short fields, or in full.",
    effect: Effect::Reads,
    whose: Whose::Theirs,
    input: schema::<ListTasks>,
    output: any_answer,
    run: |call, map| translated(read(call, "list_tasks", map, list)),
};

pub(crate) const CREATE_TASK: Tool = Tool {
    name: "create_task",
    title: "Create a task (workflow-mcp)",
    doc: "Creates a task.",
    effect: Effect::Writes,
    whose: Whose::Theirs,
    input: schema::<CreateTask>,
    output: any_answer,
    run: |call, map| translated(write(call, "create_task", map, create)),
};

pub(crate) const UPDATE_TASK: Tool = Tool {
    name: "update_task",
    title: "Change a task (workflow-mcp)",
    doc: "Changes a task; branch and commit are added to those it has.",
    effect: Effect::Overwrites,
    whose: Whose::Theirs,
    input: schema::<UpdateTask>,
    output: any_answer,
    run: |call, map| translated(write(call, "update_task", map, update)),
};

fn word(status: Status) -> &'static str {
    match status {
        Status::Planned | Status::Blocked => "need to be done",
        Status::Active => "in-progress",
        Status::Completed | Status::Cancelled => "complete",
    }
}

fn short(item: &WorkItem) -> Value {
    json!({
        "id": item.stamp.id, "title": item.title, "status": word(item.status),
        "created_at": item.stamp.created_at, "updated_at": item.stamp.updated_at,
    })
}

fn full(item: &WorkItem) -> Value {
    json!({
        "id": item.stamp.id, "title": item.title, "description": item.description,
        "notes": item.metadata.get("notes"), "status": word(item.status),
        "created_at": item.stamp.created_at, "updated_at": item.stamp.updated_at,
        "planning_references": item.planning_references, "branches": item.branches, "commits": item.commits,
    })
}

fn task(tx: &Tx<'_>, project: &Project, id: &str) -> Result<WorkItem, Problem> {
    let found = item(tx, project, "task_id", id)?;
    match found.item_type {
        ItemType::Task | ItemType::Subtask => Ok(found),
        _ => Err(crate::model::problem(
            "not_found",
            format!("Task not found: {id}"),
        )),
    }
}

fn get(tx: &Tx<'_>, project: &Project, call: &GetTask) -> Result<Value, Problem> {
    Ok(full(&task(tx, project, &call.task_id)?))
}

fn list(tx: &Tx<'_>, project: &Project, call: &ListTasks) -> Result<Value, Problem> {
    let of = ItemFilter {
        types: vec![ItemType::Task, ItemType::Subtask],
        statuses: match call.status {
            None => Vec::new(),
            Some(TaskStatus::ToDo) => vec![Status::Planned, Status::Blocked],
            Some(TaskStatus::InProgress) => vec![Status::Active],
            Some(TaskStatus::Complete) => vec![Status::Completed, Status::Cancelled],
        },
        branch: call.branch.clone(),
        ..ItemFilter::default()
    };
    let page = Page {
        before: None,
        limit: rows(call.limit, 50)?,
    };
    let found = tx.items(&project.stamp.id, &of, page)?.rows;
    let row = |item: &WorkItem| {
        if call.full_details == Some(true) {
            full(item)
        } else {
            short(item)
        }
    };
    let tasks: Vec<Value> = found.iter().map(|(_, item)| row(item)).collect();
    Ok(json!({ "total_count": tasks.len(), "tasks": tasks }))
}

fn notes(notes: &Option<String>) -> Option<Map<String, Value>> {
    let notes = notes.clone()?;
    Some(std::iter::once(("notes".to_owned(), Value::from(notes))).collect())
}

fn create(tx: &Tx<'_>, project: &Project, call: &CreateTask) -> Result<Value, Problem> {
    let made = items::create(
        tx,
        project,
        &CreateItem {
            title: call.title.clone(),
            description: call.description.clone(),
            planning_references: call.planning_references.clone(),
            metadata: notes(&call.notes),
            ..CreateItem::default()
        },
    )?;
    Ok(full(&made.item))
}

fn update(tx: &Tx<'_>, project: &Project, call: &UpdateTask) -> Result<Value, Problem> {
    let current = task(tx, project, &call.task_id)?;
    if let Some(commit) = &call.commit
        && (commit.len() != 40
            || !commit
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)))
    {
        return Err(Problem::argument(
            "`commit`: must be 40 hex digits in lower case",
        ));
    }
    let status = call.status.map(|status| match status {
        TaskStatus::ToDo => Status::Planned,
        TaskStatus::InProgress => Status::Active,
        TaskStatus::Complete => Status::Completed,
    });
    // The peer's three words go to one another; what ours ask for in between is done.
    if status == Some(Status::Planned) && current.status.is_over() {
        step(
            tx,
            project,
            &current.stamp.id,
            if current.status == Status::Completed {
                Status::Active
            } else {
                Status::Planned
            },
        )?;
    }
    if status == Some(Status::Completed) && current.status == Status::Blocked {
        step(tx, project, &current.stamp.id, Status::Active)?;
    }
    let current = task(tx, project, &call.task_id)?;
    let changed = items::update(
        tx,
        project,
        &UpdateItem {
            id: current.stamp.id.clone(),
            version: Some(current.stamp.version),
            title: call.title.clone(),
            description: call.description.clone(),
            status,
            metadata: notes(&call.notes),
            branch: call.branch.clone(),
            commits: call.commit.clone().map(|commit| vec![commit]),
            ..UpdateItem::default()
        },
    )?;
    Ok(full(&changed.item))
}

fn step(tx: &Tx<'_>, project: &Project, id: &str, status: Status) -> Result<(), Problem> {
    let current = item(tx, project, "task_id", id)?;
    let call = UpdateItem {
        id: id.to_owned(),
        version: Some(current.stamp.version),
        status: Some(status),
        ..UpdateItem::default()
    };
    items::update(tx, project, &call).map(drop)
}
