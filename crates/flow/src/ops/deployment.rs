//! `deployment`: what was brought where, and what it carried.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tools::serve::call::Problem;

use super::cursor::QueryMark;
use super::{ItemLine, item, limit, object, same_version, stamp, writable};
use crate::model::deployment::{DeploymentStatus, Environment};
use crate::model::{Deployment, Entity, Project, WorkItem, bounds, time};
use crate::store::{Page, Tx};

/// What is done to a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeploymentAction {
    Record,
    Update,
    Get,
    List,
}

/// Arguments of `deployment`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeploymentCall {
    /// record writes one down; update changes its status or adds to it; get; list.
    pub action: DeploymentAction,
    /// The id or name of the project; the session's where none is named.
    pub project: Option<String>,
    /// The id of the deployment (update, get).
    pub id: Option<String>,
    /// The version that is changed, as it was read (update).
    pub version: Option<i64>,
    /// production, staging or dev (record; a test in list).
    pub environment: Option<Environment>,
    /// pending, deployed, failed or rolled_back, where it may follow; deployed where none is named.
    pub status: Option<DeploymentStatus>,
    /// The commit that was deployed (record).
    pub commit_sha: Option<String>,
    /// The branch of that commit.
    pub branch: Option<String>,
    /// The commit's message.
    pub commit_message: Option<String>,
    /// Who wrote the commit.
    pub author_name: Option<String>,
    /// Where they are written to.
    pub author_email: Option<String>,
    /// When it was deployed, as 2026-11-21T14:25:30Z; now where it is not said.
    pub deployed_at: Option<String>,
    /// The work items that it carried: ids, or #7 for number 7; added to those it has (update).
    pub work_item_ids: Option<Vec<String>>,
    /// Ids of entities that it has to do with, such as vendors; added to those it has (update).
    pub entity_ids: Option<Vec<String>>,
    /// Anything else, as a JSON object.
    pub metadata: Option<Map<String, Value>>,
    /// Most deployments of a list, 1 to 100.
    pub limit: Option<u32>,
    /// Where a list goes on.
    pub cursor: Option<String>,
    /// A text of yours: the same call with the same key is done once.
    pub idempotency_key: Option<String>,
}
super::scoped!(DeploymentCall, keyed);

/// The answer of `deployment`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeploymentAnswer {
    /// The deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<Deployment>,
    /// The work items that it carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_items: Option<Vec<ItemLine>>,
    /// The deployments of a list, the one that was changed last first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployments: Option<Vec<Deployment>>,
    /// Where the list goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Whether the call writes.
pub fn writes(call: &DeploymentCall) -> bool {
    matches!(
        call.action,
        DeploymentAction::Record | DeploymentAction::Update
    )
}

/// Answers the call.
pub fn run(
    tx: &Tx<'_>,
    project: &Project,
    call: &DeploymentCall,
) -> Result<DeploymentAnswer, Problem> {
    let id = || {
        call.id
            .as_deref()
            .ok_or_else(|| Problem::argument("`id`: is missing: which deployment?"))
    };
    match call.action {
        DeploymentAction::Record => record(tx, project, call),
        DeploymentAction::Update => update(tx, project, object(tx, project, "id", id()?)?, call),
        DeploymentAction::Get => told(tx, object(tx, project, "id", id()?)?),
        DeploymentAction::List => list(tx, project, call),
    }
}

fn told(tx: &Tx<'_>, deployment: Deployment) -> Result<DeploymentAnswer, Problem> {
    let items: Vec<WorkItem> = tx.all(&deployment.work_item_ids)?;
    Ok(DeploymentAnswer {
        deployment: Some(deployment),
        work_items: Some(items.iter().map(ItemLine::from).collect()),
        ..DeploymentAnswer::default()
    })
}

fn list(
    tx: &Tx<'_>,
    project: &Project,
    call: &DeploymentCall,
) -> Result<DeploymentAnswer, Problem> {
    let mark = QueryMark::of("deployment", &project.stamp.id, call);
    let page = Page {
        before: mark.place(call.cursor.as_deref())?,
        limit: limit(call.limit)?,
    };
    let of = call.environment.map(Environment::as_str);
    let found = tx.objects::<Deployment>(&project.stamp.id, of, page)?;
    Ok(DeploymentAnswer {
        deployments: Some(found.rows.into_iter().map(|(_, of)| of).collect()),
        cursor: found.next.map(|place| mark.cursor(place)),
        ..DeploymentAnswer::default()
    })
}

fn record(
    tx: &Tx<'_>,
    project: &Project,
    call: &DeploymentCall,
) -> Result<DeploymentAnswer, Problem> {
    writable(project)?;
    let commit = call
        .commit_sha
        .as_deref()
        .ok_or_else(|| Problem::argument("`commit_sha`: is missing"))?;
    let mut new = Deployment {
        stamp: stamp(project),
        environment: call.environment.unwrap_or_default(),
        status: call.status.unwrap_or_default(),
        commit_sha: bounds::commit("commit_sha", commit)?,
        deployed_at: tx.now().to_owned(),
        ..Deployment::default()
    };
    apply(tx, project, &mut new, call)?;
    tx.put(&mut new)?;
    told(tx, new)
}

fn update(
    tx: &Tx<'_>,
    project: &Project,
    mut of: Deployment,
    call: &DeploymentCall,
) -> Result<DeploymentAnswer, Problem> {
    writable(project)?;
    same_version(tx, &of, call.version)?;
    if let Some(status) = call.status {
        of.status = of.status.to(status)?;
    }
    if call
        .environment
        .is_some_and(|environment| environment != of.environment)
    {
        return Err(Problem::argument(
            "`environment`: stays as it was recorded; record another deployment",
        ));
    }
    apply(tx, project, &mut of, call)?;
    tx.put(&mut of)?;
    told(tx, of)
}

fn apply(
    tx: &Tx<'_>,
    project: &Project,
    of: &mut Deployment,
    call: &DeploymentCall,
) -> Result<(), Problem> {
    let text = |field: &str, text: &Option<String>, most| {
        text.as_deref()
            .map(|text| bounds::within(field, text, most))
            .transpose()
    };
    let word = bounds::WORD_CHARS_MAX;
    of.branch = text("branch", &call.branch, word)?.or(of.branch.take());
    of.commit_message = text(
        "commit_message",
        &call.commit_message,
        bounds::DESCRIPTION_CHARS_MAX,
    )?
    .or(of.commit_message.take());
    of.author_name = text("author_name", &call.author_name, word)?.or(of.author_name.take());
    of.author_email = text("author_email", &call.author_email, 320)?.or(of.author_email.take());
    if let Some(at) = &call.deployed_at {
        of.deployed_at = time("deployed_at", at)?;
    }
    for id in call.work_item_ids.iter().flatten() {
        of.work_item_ids
            .push(item(tx, project, "work_item_ids", id)?.stamp.id);
    }
    of.work_item_ids = bounds::words("work_item_ids", &of.work_item_ids)?;
    for id in call.entity_ids.iter().flatten() {
        of.entity_ids
            .push(object::<Entity>(tx, project, "entity_ids", id)?.stamp.id);
    }
    of.entity_ids = bounds::words("entity_ids", &of.entity_ids)?;
    if let Some(metadata) = &call.metadata {
        bounds::json("metadata", &Value::Object(metadata.clone()))?;
        crate::model::patch::merge(&mut of.metadata, metadata);
        bounds::json("metadata", &Value::Object(of.metadata.clone()))?;
    }
    Ok(())
}
