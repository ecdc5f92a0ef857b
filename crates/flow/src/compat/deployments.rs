//! `record_deployment`, `list_deployments`, `get_deployment`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tools::serve::call::{Problem, schema};
use tools::serve::table::{Effect, Whose};

use super::{any_answer, rows, skipped, theirs, translated};
use crate::model::deployment::{DeploymentStatus, Environment};
use crate::model::{Deployment, Entity, ObjectKind, Project, WorkItem};
use crate::ops::deployment::{self, DeploymentAction, DeploymentCall};
use crate::ops::object;
use crate::store::{Page, Tx};
use crate::table::{Tool, read, write};

/// Arguments of `record_deployment`, of both generations.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RecordDeployment {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// The commit that was deployed; the earlier generation says it in metadata.commit_hash.
    commit_sha: Option<String>,
    /// The branch of that commit.
    branch: Option<String>,
    /// production, staging or dev.
    environment: Option<Environment>,
    /// pending, deployed, failed or rolled_back.
    status: Option<DeploymentStatus>,
    /// The commit's message.
    commit_message: Option<String>,
    /// Who wrote the commit.
    author_name: Option<String>,
    /// Where they are written to.
    author_email: Option<String>,
    /// When it was deployed.
    deployed_at: Option<String>,
    /// Anything else: pr_number, pr_title, commit_hash, test_summary, constitutional_compliance.
    metadata: Option<Map<String, Value>>,
    /// Ids of the work items that it carried.
    work_item_ids: Option<Vec<String>>,
    /// Ids of the vendors that it has to do with.
    vendor_ids: Option<Vec<String>>,
    /// Taken, and not believed.
    #[allow(dead_code, reason = "the peer's clients send it")]
    created_by: Option<String>,
}

/// Arguments of `list_deployments`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListDeployments {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// production, staging or dev.
    environment: Option<Environment>,
    /// Most deployments, 1 to 100.
    limit: Option<i64>,
    /// How many are left out.
    offset: Option<i64>,
}

/// Arguments of `get_deployment`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetDeployment {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// The id of the deployment.
    deployment_id: String,
}

theirs!(RecordDeployment, ListDeployments, GetDeployment);

pub(crate) const RECORD_DEPLOYMENT: Tool = Tool {
    name: "record_deployment",
    title: "Record a deployment (workflow-mcp)",
    doc: "Records what was deployed and what it carried.",
    effect: Effect::Writes,
    whose: Whose::Theirs,
    input: schema::<RecordDeployment>,
    output: any_answer,
    run: |call, map| translated(write(call, "record_deployment", map, record)),
};

pub(crate) const LIST_DEPLOYMENTS: Tool = Tool {
    name: "list_deployments",
    title: "List deployments (workflow-mcp)",
    doc: "Lists deployments.",
    effect: Effect::Reads,
    whose: Whose::Theirs,
    input: schema::<ListDeployments>,
    output: any_answer,
    run: |call, map| translated(read(call, "list_deployments", map, list)),
};

pub(crate) const GET_DEPLOYMENT: Tool = Tool {
    name: "get_deployment",
    title: "Get a deployment (workflow-mcp)",
    doc: "Shows a deployment with what it carried.",
    effect: Effect::Reads,
    whose: Whose::Theirs,
    input: schema::<GetDeployment>,
    output: any_answer,
    run: |call, map| translated(read(call, "get_deployment", map, get)),
};

fn row(of: &Deployment) -> Value {
    json!({
        "id": of.stamp.id, "environment": of.environment, "status": of.status, "commit_sha": of.commit_sha,
        "commit_hash": of.commit_sha, "branch": of.branch, "commit_message": of.commit_message,
        "author_name": of.author_name, "author_email": of.author_email, "deployed_at": of.deployed_at,
        "metadata": of.metadata, "work_item_ids": of.work_item_ids, "vendor_ids": of.entity_ids,
        "created_at": of.stamp.created_at, "created_by": of.stamp.created_by, "updated_at": of.stamp.updated_at,
    })
}

fn record(tx: &Tx<'_>, project: &Project, call: &RecordDeployment) -> Result<Value, Problem> {
    let of_metadata = call
        .metadata
        .as_ref()
        .and_then(|map| map.get("commit_hash"))
        .and_then(Value::as_str);
    let commit = call.commit_sha.as_deref().or(of_metadata);
    let made = deployment::run(
        tx,
        project,
        &DeploymentCall {
            action: DeploymentAction::Record,
            project: None,
            id: None,
            version: None,
            environment: call.environment,
            status: call.status,
            commit_sha: commit.map(str::to_owned),
            branch: call.branch.clone(),
            commit_message: call.commit_message.clone(),
            author_name: call.author_name.clone(),
            author_email: call.author_email.clone(),
            deployed_at: call.deployed_at.clone(),
            work_item_ids: call.work_item_ids.clone(),
            entity_ids: call.vendor_ids.clone(),
            metadata: call.metadata.clone(),
            limit: None,
            cursor: None,
            idempotency_key: None,
        },
    )?;
    Ok(made.deployment.as_ref().map(row).unwrap_or_default())
}

fn list(tx: &Tx<'_>, project: &Project, call: &ListDeployments) -> Result<Value, Problem> {
    let (limit, offset) = (rows(call.limit, 20)?, skipped(call.offset)?);
    let page = Page {
        before: None,
        limit: limit + offset,
    };
    let of = call.environment.map(Environment::as_str);
    let found = tx.objects::<Deployment>(&project.stamp.id, of, page)?.rows;
    let deployments: Vec<Value> = found.iter().skip(offset).map(|(_, of)| row(of)).collect();
    let total = match call.environment {
        None => tx.count(Some(&project.stamp.id), ObjectKind::Deployment)?,
        Some(of) => {
            let counts = tx.counts_by(&project.stamp.id, ObjectKind::Deployment, "type", false)?;
            counts
                .iter()
                .find(|(word, _)| word == of.as_str())
                .map_or(0, |(_, count)| *count)
        }
    };
    Ok(
        json!({ "count": deployments.len(), "deployments": deployments, "total": total, "limit": limit, "offset": offset }),
    )
}

fn get(tx: &Tx<'_>, project: &Project, call: &GetDeployment) -> Result<Value, Problem> {
    let of: Deployment = object(tx, project, "deployment_id", &call.deployment_id)?;
    let mut answer = row(&of);
    let items: Vec<WorkItem> = tx.all(&of.work_item_ids)?;
    let items = items.iter().map(|item| super::work::row(tx, item));
    answer["work_items"] = items.collect::<Result<Vec<Value>, Problem>>()?.into();
    let entities: Vec<Entity> = tx.all(&of.entity_ids)?;
    answer["vendors"] = entities.iter().map(super::entities::row).collect();
    Ok(answer)
}
