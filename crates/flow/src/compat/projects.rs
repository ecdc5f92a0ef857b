//! `create_project`, `switch_project`, `get_active_project`, `list_projects`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tools::serve::call::{Problem, Said, arguments, schema};
use tools::serve::table::{Effect, Whose};

use super::{any_answer, rows, skipped, translated};
use crate::model::{ObjectKind, Project};
use crate::ops;
use crate::service::Call;
use crate::store::Page;
use crate::table::{self, Tool, caller, chosen};

/// Arguments of `create_project`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateProject {
    /// Its name.
    name: String,
    /// What it is about.
    description: Option<String>,
}

/// Arguments of `switch_project`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SwitchProject {
    /// The id or name of the project.
    project_id: String,
}

/// No arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoArguments {}

/// Arguments of `list_projects`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListProjects {
    /// Most projects, 1 to 100.
    limit: Option<i64>,
    /// How many are left out.
    offset: Option<i64>,
}

pub(crate) const CREATE_PROJECT: Tool = Tool {
    name: "create_project",
    title: "Create a project (workflow-mcp)",
    doc: "Creates a project and chooses it for this session.",
    effect: Effect::Writes,
    whose: Whose::Theirs,
    input: schema::<CreateProject>,
    output: any_answer,
    run: |call, map| translated(create(call, map)),
};

pub(crate) const SWITCH_PROJECT: Tool = Tool {
    name: "switch_project",
    title: "Switch project (workflow-mcp)",
    doc: "Chooses a project for this session, and for no other.",
    effect: Effect::Adds,
    whose: Whose::Theirs,
    input: schema::<SwitchProject>,
    output: any_answer,
    run: |call, map| translated(switch(call, map)),
};

pub(crate) const ACTIVE_PROJECT: Tool = Tool {
    name: "get_active_project",
    title: "Active project (workflow-mcp)",
    doc: "Shows the project that this session chose, if any.",
    effect: Effect::Reads,
    whose: Whose::Theirs,
    input: schema::<NoArguments>,
    output: any_answer,
    run: |call, map| translated(active(call, map)),
};

pub(crate) const LIST_PROJECTS: Tool = Tool {
    name: "list_projects",
    title: "List projects (workflow-mcp)",
    doc: "Lists projects.",
    effect: Effect::Reads,
    whose: Whose::Theirs,
    input: schema::<ListProjects>,
    output: any_answer,
    run: |call, map| translated(list(call, map)),
};

fn row(project: &Project) -> Value {
    let id: String = project
        .stamp
        .id
        .chars()
        .filter(char::is_ascii_hexdigit)
        .take(16)
        .collect();
    json!({
        "id": project.stamp.id,
        "name": project.name,
        "description": project.description,
        "database_name": format!("workflow_project_{id}"),
        "created_at": project.stamp.created_at,
        "updated_at": project.stamp.updated_at,
        "metadata": {},
    })
}

fn create(call: &Call<'_>, map: Map<String, Value>) -> Result<Said, Problem> {
    let by = caller(call, "create_project", &map, None)?;
    let asked: CreateProject = arguments(map)?;
    let written = call.engine.write(&by, move |tx| {
        let text = asked.description.as_deref().unwrap_or_default();
        Ok(row(&ops::projects::create(tx, &asked.name, text)?))
    })?;
    let mut said = table::said(written.value);
    said.session = chosen(call, &said.value);
    Ok(said)
}

fn switch(call: &Call<'_>, map: Map<String, Value>) -> Result<Said, Problem> {
    let by = caller(call, "switch_project", &map, None)?;
    let asked: SwitchProject = arguments(map)?;
    let project = call
        .engine
        .read(&by, |tx| ops::find_project(tx, &asked.project_id))?;
    let mut said = table::said(json!({
        "success": true, "message": "this session works in the project from now on", "project": row(&project),
    }));
    said.session = chosen(call, &said.value["project"]);
    Ok(said)
}

fn active(call: &Call<'_>, map: Map<String, Value>) -> Result<Said, Problem> {
    let by = caller(call, "get_active_project", &map, None)?;
    let NoArguments {} = arguments(map)?;
    let project = call.engine.read(&by, |tx| {
        match ops::project(tx, None, call.session.project.as_deref()) {
            Ok(project) => Ok(Some(project)),
            Err(problem) if problem.code == "no_project" => Ok(None),
            Err(problem) => Err(problem),
        }
    })?;
    Ok(table::said(json!({ "project": project.as_ref().map(row) })))
}

fn list(call: &Call<'_>, map: Map<String, Value>) -> Result<Said, Problem> {
    let by = caller(call, "list_projects", &map, None)?;
    let asked: ListProjects = arguments(map)?;
    let (limit, offset) = (rows(asked.limit, 20)?, skipped(asked.offset)?);
    call.engine.read(&by, |tx| {
        let page = Page {
            before: None,
            limit: limit + offset,
        };
        let found = tx.projects(page)?.rows;
        let projects: Vec<Value> = found.iter().skip(offset).map(|(_, project)| row(project)).collect();
        Ok(table::said(json!({
            "count": projects.len(), "projects": projects, "total": tx.count(None, ObjectKind::Project)?,
            "limit": limit, "offset": offset,
        })))
    })
}
