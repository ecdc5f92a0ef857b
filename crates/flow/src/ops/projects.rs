//! `project`: create, choose, look at, list, put away.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tools::serve::call::Problem;

use super::cursor::QueryMark;
use super::{confirmed, find_project, limit, new_id};
use crate::model::{ObjectKind, Project, Stamp, bounds, problem};
use crate::store::{Page, Tx};

/// What is done to a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProjectAction {
    Create,
    Switch,
    Get,
    List,
    Update,
    Archive,
    Restore,
}

/// Arguments of `project`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectCall {
    /// create makes one and chooses it for this session; switch chooses one for this session; get shows the chosen or named one; list; update; archive puts one away, so that it is only read; restore takes it back.
    pub action: ProjectAction,
    /// The id or name of a project (switch, get, update, archive, restore).
    pub project: Option<String>,
    /// Its name (create, update); no two have the same.
    pub name: Option<String>,
    /// What it is about (create, update).
    pub description: Option<String>,
    /// The version that is changed (update).
    pub version: Option<i64>,
    /// Has to be true to archive.
    pub confirmed: Option<bool>,
    /// Most projects of a list, 1 to 100.
    pub limit: Option<u32>,
    /// Where a list goes on.
    pub cursor: Option<String>,
    /// A text of yours: the same call with the same key is done once.
    pub idempotency_key: Option<String>,
}
super::scoped!(ProjectCall, keyed);

/// The answer of `project`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ProjectAnswer {
    /// The project; none where none is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Project>,
    /// The projects of a list, the one that was changed last first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projects: Option<Vec<Project>>,
    /// How many projects there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// Where the list goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl ProjectAnswer {
    fn of(project: Project) -> ProjectAnswer {
        ProjectAnswer {
            project: Some(project),
            ..ProjectAnswer::default()
        }
    }
}

/// Reads: switch, get, list.
pub fn read(
    tx: &Tx<'_>,
    of_session: Option<&str>,
    call: &ProjectCall,
) -> Result<ProjectAnswer, Problem> {
    match call.action {
        ProjectAction::List => {
            let mark = QueryMark::of("project", "", call);
            let page = Page {
                before: mark.place(call.cursor.as_deref())?,
                limit: limit(call.limit)?,
            };
            let found = tx.projects(page)?;
            Ok(ProjectAnswer {
                projects: Some(found.rows.into_iter().map(|(_, project)| project).collect()),
                total: Some(tx.count(None, ObjectKind::Project)?),
                cursor: found.next.map(|place| mark.cursor(place)),
                ..ProjectAnswer::default()
            })
        }
        ProjectAction::Switch => {
            let name = call.project.as_deref().or(call.name.as_deref());
            let name =
                name.ok_or_else(|| Problem::argument("`project`: name the project to switch to"))?;
            find_project(tx, name).map(ProjectAnswer::of)
        }
        _ => super::project(
            tx,
            call.project.as_deref().or(call.name.as_deref()),
            of_session,
        )
        .map(ProjectAnswer::of),
    }
}

/// Writes: create, update, archive, restore.
pub fn write(
    tx: &Tx<'_>,
    of_session: Option<&str>,
    call: &ProjectCall,
) -> Result<ProjectAnswer, Problem> {
    if call.action == ProjectAction::Create {
        let name = call
            .name
            .as_deref()
            .ok_or_else(|| Problem::argument("`name`: is missing"))?;
        return create(tx, name, call.description.as_deref().unwrap_or_default())
            .map(ProjectAnswer::of);
    }
    let mut project = super::project(tx, call.project.as_deref(), of_session)?;
    match call.action {
        ProjectAction::Archive => {
            confirmed(call.confirmed == Some(true), "it")?;
            project.archived = true;
        }
        ProjectAction::Restore => project.archived = false,
        _ => {
            super::same_version(tx, &project, call.version)?;
            if let Some(name) = &call.name {
                project.name = free_name(tx, name, Some(&project.stamp.id))?;
            }
            if let Some(text) = &call.description {
                project.description =
                    bounds::within("description", text, bounds::DESCRIPTION_CHARS_MAX)?;
            }
        }
    }
    tx.put(&mut project)?;
    Ok(ProjectAnswer::of(project))
}

/// Makes a project.
pub fn create(tx: &Tx<'_>, name: &str, description: &str) -> Result<Project, Problem> {
    let id = new_id();
    let mut project = Project {
        stamp: Stamp {
            id: id.clone(),
            project: id,
            ..Stamp::default()
        },
        name: free_name(tx, name, None)?,
        description: bounds::within("description", description, bounds::DESCRIPTION_CHARS_MAX)?,
        archived: false,
    };
    tx.put(&mut project)?;
    Ok(project)
}

fn free_name(tx: &Tx<'_>, name: &str, own: Option<&str>) -> Result<String, Problem> {
    let name = bounds::title("name", name)?;
    match tx.id_of_name(None, ObjectKind::Project, None, &name)? {
        Some(id) if Some(id.as_str()) != own => Err(problem(
            "exists",
            format!(
                "`name`: there is a project {name:?} already; switch to it, or choose another name"
            ),
        )),
        _ => Ok(name),
    }
}
