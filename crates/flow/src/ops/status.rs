//! `status`: the whole of a project in one answer, as JSON or as Markdown.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tools::serve::call::Problem;

use super::ItemLine;
use crate::model::deployment::{DeploymentStatus, Environment};
use crate::model::{Deployment, Entity, ObjectKind, Project, Status, shipped};
use crate::store::{Page, Tx};

/// Items of each list, at most.
const LISTED_MAX: usize = 10;
/// Vendors that are counted.
const VENDORS_MAX: usize = 1000;

/// How the status is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StatusFormat {
    #[default]
    Json,
    Markdown,
}

/// Arguments of `status`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StatusCall {
    /// The id or name of the project; the session's where none is named.
    pub project: Option<String>,
    /// json (the default), or markdown as well.
    pub format: StatusFormat,
}
super::scoped!(StatusCall);

/// How many items there are, by what.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ItemCounts {
    /// All that are not deleted.
    pub total: i64,
    /// Those that are not over.
    pub open: i64,
    /// All by their status.
    pub by_status: BTreeMap<String, i64>,
    /// Those that are not over, by their type.
    pub by_type: BTreeMap<String, i64>,
    /// Those that are not over, by their priority.
    pub by_priority: BTreeMap<String, i64>,
}

/// How vendors are.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct VendorHealth {
    /// How many there are.
    pub total: i64,
    /// How many work.
    pub operational: i64,
    /// How many do not.
    pub broken: i64,
    /// How many of a hundred work.
    pub operational_percent: f64,
}

/// A lease that holds now.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct HeldItem {
    /// The id of the item.
    pub item: String,
    /// Who holds it.
    pub agent: String,
    /// Until when.
    pub until: String,
}

/// A deployment in short.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeploymentLine {
    /// Its id.
    pub id: String,
    /// Where it was brought.
    pub environment: Environment,
    /// How far it is.
    pub status: DeploymentStatus,
    /// The commit.
    pub commit_sha: String,
    /// When it was deployed.
    pub deployed_at: String,
    /// How many work items it carried.
    pub work_items: usize,
}

/// The answer of `status`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct StatusAnswer {
    /// The project.
    pub project: Project,
    /// How many items there are.
    pub items: ItemCounts,
    /// What is being worked on, at most 10.
    pub active: Vec<ItemLine>,
    /// What can be taken now, at most 10.
    pub ready: Vec<ItemLine>,
    /// What is blocked or waits, at most 10.
    pub blocked: Vec<ItemLine>,
    /// Who holds what.
    pub leases: Vec<HeldItem>,
    /// The last deployments, at most 10.
    pub deployments: Vec<DeploymentLine>,
    /// How many entities there are, by type.
    pub entities: BTreeMap<String, i64>,
    /// How vendors are, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendors: Option<VendorHealth>,
    /// What whoever runs this server should see to, where there is anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// When this was.
    pub as_of: String,
    /// All of it as Markdown, where that is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub markdown: Option<String>,
}

/// The status of a project.
pub fn run(tx: &Tx<'_>, project: &Project, call: &StatusCall) -> Result<StatusAnswer, Problem> {
    let id = &project.stamp.id;
    let lines =
        |items: Vec<crate::model::WorkItem>| items.iter().map(ItemLine::from).collect::<Vec<_>>();
    let work = [
        crate::model::item::ItemType::Task,
        crate::model::item::ItemType::Research,
        crate::model::item::ItemType::Subtask,
    ];
    let leases = tx.leases(id, super::LIMIT_MAX)?.into_iter();
    let mut answer = StatusAnswer {
        project: project.clone(),
        items: counts(tx, id)?,
        active: lines(tx.by_urgency(id, Status::Active, LISTED_MAX)?),
        ready: lines(tx.ready(id, tx.actor(), &work, LISTED_MAX, 0)?),
        blocked: lines(tx.blocked(id, LISTED_MAX, 0)?),
        leases: leases
            .map(|lease| HeldItem {
                item: lease.item,
                agent: lease.agent.unwrap_or_default(),
                until: lease.until,
            })
            .collect(),
        deployments: deployments(tx, id)?,
        entities: tx
            .counts_by(id, ObjectKind::Entity, "type", false)?
            .into_iter()
            .collect(),
        vendors: None,
        trouble: tx.trouble(),
        as_of: tx.now().to_owned(),
        markdown: None,
    };
    if answer.entities.contains_key(shipped::VENDOR) {
        answer.vendors = Some(vendors(tx, id)?);
    }
    if call.format == StatusFormat::Markdown {
        answer.markdown = Some(super::board::status(&answer));
    }
    Ok(answer)
}

fn counts(tx: &Tx<'_>, project: &str) -> Result<ItemCounts, Problem> {
    let mut counts = ItemCounts::default();
    for of in tx.item_counts(project)? {
        counts.total += of.count;
        let is_open = Status::of(&of.status).is_some_and(|status| !status.is_over());
        *counts.by_status.entry(of.status).or_default() += of.count;
        if !is_open {
            continue;
        }
        counts.open += of.count;
        *counts.by_type.entry(of.of).or_default() += of.count;
        if let Some(priority) = of.priority {
            *counts.by_priority.entry(priority.to_string()).or_default() += of.count;
        }
    }
    Ok(counts)
}

fn deployments(tx: &Tx<'_>, project: &str) -> Result<Vec<DeploymentLine>, Problem> {
    let page = Page {
        before: None,
        limit: LISTED_MAX,
    };
    let found = tx
        .objects::<Deployment>(project, None, page)?
        .rows
        .into_iter();
    let line = |(_, of): (i64, Deployment)| DeploymentLine {
        id: of.stamp.id,
        environment: of.environment,
        status: of.status,
        commit_sha: of.commit_sha,
        deployed_at: of.deployed_at,
        work_items: of.work_item_ids.len(),
    };
    Ok(found.map(line).collect())
}

/// How the vendors of a project are.
pub fn vendors(tx: &Tx<'_>, project: &str) -> Result<VendorHealth, Problem> {
    let page = Page {
        before: None,
        limit: VENDORS_MAX,
    };
    let found = tx.entities(project, Some(shipped::VENDOR), None, &[], false, page)?;
    let works = |entity: &Entity| {
        entity.data.get("status").and_then(|status| status.as_str()) == Some("operational")
    };
    let total = i64::try_from(found.rows.len()).unwrap_or_default();
    let operational = i64::try_from(
        found
            .rows
            .iter()
            .filter(|(_, entity)| works(entity))
            .count(),
    )
    .unwrap_or_default();
    Ok(VendorHealth {
        total,
        operational,
        broken: total - operational,
        operational_percent: if total == 0 {
            0.0
        } else {
            (operational * 1000 / total) as f64 / 10.0
        },
    })
}
