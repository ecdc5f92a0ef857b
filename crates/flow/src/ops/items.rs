//! `work_item_create`, `work_item_update`, `work_item_get`, `work_item_query`, `work_item_delete`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tools::serve::call::Problem;

use super::cursor::QueryMark;
use super::{
    ItemLine, any_object, bytes, confirmed, fitting, guard, item, item_id, limit, object,
    same_version, stamp, writable,
};
use crate::model::filter::Filter;
use crate::model::item::{CodeRef, Dependency, ItemType, Relation};
use crate::model::{Entity, Lease, Project, Status, WorkItem, bounds, patch, problem};
use crate::store::{ItemFilter, Page, Tx};

/// Related items that one answer names, at most; queries find the others.
const RELATED_MAX: usize = 50;
/// The word that stands for no item above.
pub const TOP: &str = "none";

/// Arguments of `work_item_create`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CreateItem {
    /// The id or name of the project; the session's where none is named.
    pub project: Option<String>,
    /// What kind of work: project, session, task, research or subtask; task where none is named.
    #[serde(rename = "type")]
    pub item_type: Option<ItemType>,
    /// What is to be done, in at most 200 characters.
    #[schemars(required)]
    pub title: String,
    /// More about it, in at most 20,000 characters.
    pub description: Option<String>,
    /// planned where none is named.
    pub status: Option<Status>,
    /// 1 (first) to 5 (last); 3 where none is named.
    pub priority: Option<i64>,
    /// The item above it: an id, or #7 for number 7.
    pub parent: Option<String>,
    /// Who is to work on it.
    pub assignee: Option<String>,
    /// Why it cannot go on, where its status is blocked.
    pub blocked_reason: Option<String>,
    /// Words to find it by.
    pub tags: Option<Vec<String>>,
    /// Where it is planned: paths of documents or URLs.
    pub planning_references: Option<Vec<String>>,
    /// A branch of git that it is done on.
    pub branch: Option<String>,
    /// Commits that belong to it.
    pub commits: Option<Vec<String>>,
    /// Code that it is about, by repository, path, symbol and lines as code search gives them.
    pub code_refs: Option<Vec<CodeRef>>,
    /// Ids of entities that it is about.
    pub entity_refs: Option<Vec<String>>,
    /// What it depends on: ids, or #7 for number 7.
    pub depends_on: Option<Vec<Dependency>>,
    /// Anything else, as a JSON object; queries can filter by it.
    pub metadata: Option<Map<String, Value>>,
    /// A text of yours: the same call with the same key is done once.
    pub idempotency_key: Option<String>,
}
super::scoped!(CreateItem, keyed);

/// Arguments of `work_item_update`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UpdateItem {
    /// The id or name of the project; the session's where none is named.
    pub project: Option<String>,
    /// The item: its id, or #7 for number 7.
    #[schemars(required)]
    pub id: String,
    /// The version that is changed, as it was read; a conflict answers with the current row.
    #[schemars(required)]
    pub version: Option<i64>,
    /// The token of your claim, where you hold one: a claim that is over is then refused.
    pub lease_token: Option<i64>,
    /// What is to be done.
    pub title: Option<String>,
    /// More about it.
    pub description: Option<String>,
    /// planned, active, blocked, completed or cancelled, where it may follow the current one.
    pub status: Option<Status>,
    /// Why it cannot go on, with status blocked.
    pub blocked_reason: Option<String>,
    /// 1 (first) to 5 (last).
    pub priority: Option<i64>,
    /// What kind of work.
    #[serde(rename = "type")]
    pub item_type: Option<ItemType>,
    /// Another item above it; none for the top.
    pub parent: Option<String>,
    /// Who works on it; an empty text for nobody.
    pub assignee: Option<String>,
    /// Words to find it by, in place of those it has.
    pub tags: Option<Vec<String>>,
    /// Where it is planned, in place of what it has.
    pub planning_references: Option<Vec<String>>,
    /// A branch, added to those it has.
    pub branch: Option<String>,
    /// Commits, added to those it has.
    pub commits: Option<Vec<String>>,
    /// Code that it is about, in place of what it has; stale: true marks what was found changed.
    pub code_refs: Option<Vec<CodeRef>>,
    /// Ids of entities, in place of those it has.
    pub entity_refs: Option<Vec<String>>,
    /// A merge patch for the metadata (RFC 7396): null takes a key away.
    pub metadata: Option<Map<String, Value>>,
    /// Whether `metadata` replaces all there is.
    pub replace: bool,
    /// A text of yours: the same call with the same key is done once.
    pub idempotency_key: Option<String>,
}
super::scoped!(UpdateItem, keyed);

/// The answer of a write to one item.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ItemAnswer {
    /// The item as it is now.
    pub item: WorkItem,
    /// What may be meant otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Makes an item.
pub fn create(tx: &Tx<'_>, project: &Project, call: &CreateItem) -> Result<ItemAnswer, Problem> {
    writable(project)?;
    let mut new = WorkItem {
        stamp: stamp(project),
        number: tx.next_number(&project.stamp.id)?,
        item_type: call.item_type.unwrap_or_default(),
        title: bounds::title("title", &call.title)?,
        priority: 3,
        ..WorkItem::default()
    };
    let status = call.status.unwrap_or_default();
    // A new item may have any status; what goes with it is set as for a change.
    new.status = if status == Status::Completed {
        Status::Active
    } else {
        status
    };
    new.set_status(status, tx.now())?;
    let change = UpdateItem {
        description: call.description.clone(),
        blocked_reason: call.blocked_reason.clone(),
        priority: call.priority,
        parent: call.parent.clone(),
        assignee: call.assignee.clone(),
        tags: call.tags.clone(),
        planning_references: call.planning_references.clone(),
        branch: call.branch.clone(),
        commits: call.commits.clone(),
        code_refs: call.code_refs.clone(),
        entity_refs: call.entity_refs.clone(),
        metadata: call.metadata.clone(),
        ..UpdateItem::default()
    };
    apply(tx, project, &mut new, &change)?;
    for on in call.depends_on.iter().flatten() {
        depend(tx, project, &mut new, &on.id, on.relation)?;
    }
    tx.put(&mut new)?;
    Ok(ItemAnswer {
        warnings: warnings(tx, &new)?,
        item: new,
    })
}

/// Changes an item.
pub fn update(tx: &Tx<'_>, project: &Project, call: &UpdateItem) -> Result<ItemAnswer, Problem> {
    writable(project)?;
    let mut changed = item(tx, project, "id", &call.id)?;
    let lease = guard(tx, &changed.stamp.id, call.lease_token)?;
    same_version(tx, &changed, call.version)?;
    if let Some(status) = call.status {
        changed.set_status(status, tx.now())?;
    }
    apply(tx, project, &mut changed, call)?;
    tx.put(&mut changed)?;
    if changed.status.is_over() {
        give_back(tx, lease)?;
    }
    Ok(ItemAnswer {
        warnings: warnings(tx, &changed)?,
        item: changed,
    })
}

/// Ends the lease of an item that is over.
fn give_back(tx: &Tx<'_>, lease: Option<Lease>) -> Result<(), Problem> {
    match lease {
        Some(mut lease) if lease.agent.is_some() => {
            lease.agent = None;
            lease.until = tx.now().to_owned();
            tx.put(&mut lease)
        }
        _ => Ok(()),
    }
}

fn apply(
    tx: &Tx<'_>,
    project: &Project,
    item: &mut WorkItem,
    call: &UpdateItem,
) -> Result<(), Problem> {
    if let Some(title) = &call.title {
        item.title = bounds::title("title", title)?;
    }
    if let Some(text) = &call.description {
        item.description = bounds::within("description", text, bounds::DESCRIPTION_CHARS_MAX)?;
    }
    if let Some(priority) = call.priority {
        item.set_priority(priority)?;
    }
    if let Some(of) = call.item_type {
        item.item_type = of;
    }
    if let Some(parent) = &call.parent {
        item.parent = match parent.as_str() {
            "" | TOP => None,
            parent => Some(self::item(tx, project, "parent", parent)?.stamp.id),
        };
    }
    if let Some(who) = &call.assignee {
        let who = bounds::within("assignee", who.trim(), bounds::WORD_CHARS_MAX)?;
        item.assignee = Some(who).filter(|who| !who.is_empty());
    }
    if let Some(why) = &call.blocked_reason {
        if item.status != Status::Blocked {
            return Err(Problem::argument(
                "`blocked_reason`: goes with status blocked",
            ));
        }
        item.blocked_reason = Some(bounds::within("blocked_reason", why, 500)?);
    }
    if let Some(refs) = &call.code_refs {
        item.set_code_refs(refs)?;
    }
    lists(item, call)?;
    if let Some(ids) = &call.entity_refs {
        item.entity_refs = bounds::words("entity_refs", ids)?;
        for id in &item.entity_refs {
            object::<Entity>(tx, project, "entity_refs", id)?;
        }
    }
    metadata(item, call)
}

fn lists(item: &mut WorkItem, call: &UpdateItem) -> Result<(), Problem> {
    if let Some(tags) = &call.tags {
        item.tags = bounds::words("tags", tags)?;
    }
    if let Some(references) = &call.planning_references {
        item.planning_references = bounds::words("planning_references", references)?;
    }
    if let Some(branch) = &call.branch {
        item.branches.push(bounds::title("branch", branch)?);
        item.branches = bounds::words("branch", &item.branches)?;
    }
    for commit in call.commits.iter().flatten() {
        item.commits.push(bounds::commit("commits", commit)?);
    }
    item.commits = bounds::words("commits", &item.commits)?;
    Ok(())
}

fn metadata(item: &mut WorkItem, call: &UpdateItem) -> Result<(), Problem> {
    let Some(given) = &call.metadata else {
        return Ok(());
    };
    bounds::json("metadata", &Value::Object(given.clone()))?;
    if call.replace {
        item.metadata = Map::new();
    }
    patch::merge(&mut item.metadata, given);
    bounds::json("metadata", &Value::Object(item.metadata.clone()))
}

/// Adds a dependency to an item that is not put yet.
pub fn depend(
    tx: &Tx<'_>,
    project: &Project,
    of: &mut WorkItem,
    on: &str,
    relation: Relation,
) -> Result<bool, Problem> {
    let other = item(tx, project, "depends_on", on)?;
    if other.stamp.id == of.stamp.id {
        return Err(problem(
            "cycle",
            "`depends_on`: an item cannot depend on itself",
        ));
    }
    let edge = Dependency {
        id: other.stamp.id,
        relation,
    };
    if of.depends_on.contains(&edge) {
        return Ok(false);
    }
    if of.depends_on.len() >= bounds::LIST_MAX {
        return Err(Problem::argument(format!(
            "`depends_on`: an item has at most {}",
            bounds::LIST_MAX
        )));
    }
    of.depends_on.push(edge);
    Ok(true)
}

fn warnings(tx: &Tx<'_>, item: &WorkItem) -> Result<Vec<String>, Problem> {
    let mut all = Vec::new();
    if matches!(item.status, Status::Active | Status::Completed) {
        for other in tx.waits_for(&item.stamp.id, 5)? {
            all.push(format!(
                "it depends on #{} ({}), which is not completed",
                other.number, other.title
            ));
        }
    }
    if item.status == Status::Completed {
        let below = tx.statuses(&item.stamp.id, true)?;
        let is_open = |word: &str| Status::of(word).is_some_and(|status| !status.is_over());
        let open: i64 = below
            .iter()
            .filter(|(word, _)| is_open(word))
            .map(|(_, count)| count)
            .sum();
        if open > 0 {
            all.push(format!("{open} items below it are not completed"));
        }
    }
    Ok(all)
}

/// What is told beside an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Include {
    Ancestors,
    Children,
    Descendants,
    Dependencies,
}

/// Arguments of `work_item_get`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GetItem {
    /// The id or name of the project; the session's where none is named.
    pub project: Option<String>,
    /// The item: its id, or #7 for number 7.
    #[schemars(required)]
    pub id: String,
    /// What is told beside it; ancestors, children and dependencies where none is named.
    pub include: Option<Vec<Include>>,
}
super::scoped!(GetItem);

/// What became of what stands below an item.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct RollUp {
    /// How many items stand below it, at every level.
    pub total: i64,
    /// How many of them have each status.
    pub by_status: std::collections::BTreeMap<String, i64>,
    /// How many of a hundred are over, cancelled ones left out.
    pub done_percent: f64,
}

/// The answer of `work_item_get`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetAnswer {
    /// The item.
    pub item: WorkItem,
    /// The items above it, the top first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ancestors: Option<Vec<ItemLine>>,
    /// The items right below it, at most 50; work_item_query finds all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<Vec<ItemLine>>,
    /// The items anywhere below it, at most 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descendants: Option<Vec<ItemLine>>,
    /// The open items that it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<Vec<ItemLine>>,
    /// The items that wait for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Vec<ItemLine>>,
    /// What became of all that stands below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roll_up: Option<RollUp>,
    /// Who holds it now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// Ids of deployments that carried it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deployments: Vec<String>,
}

/// An item, and what stands around it.
pub fn get(tx: &Tx<'_>, project: &Project, call: &GetItem) -> Result<GetAnswer, Problem> {
    let id = item_id(tx, project, "id", &call.id)?;
    let found: WorkItem = any_object(tx, project, "id", &id)?;
    let all = [Include::Ancestors, Include::Children, Include::Dependencies];
    let include = call.include.as_deref().unwrap_or(&all);
    let wants = |what: Include| include.contains(&what);
    let below = |filter: ItemFilter| {
        let rows = tx.items(&project.stamp.id, &filter, Page::first(RELATED_MAX))?;
        let items: Vec<WorkItem> = rows.rows.into_iter().map(|(_, item)| item).collect();
        Ok::<_, Problem>(lines(&items))
    };
    let mut answer = GetAnswer {
        lease: tx
            .find::<Lease>(&Lease::id_of(&id))?
            .filter(|lease| lease.holder(tx.now()).is_some()),
        deployments: tx.sources("carried", &id, RELATED_MAX)?,
        roll_up: Some(roll_up(tx, &id)?).filter(|sum| sum.total > 0),
        ..GetAnswer::default()
    };
    if wants(Include::Ancestors) {
        answer.ancestors = Some(lines(&above(tx, &id)?));
    }
    if wants(Include::Children) {
        answer.children = Some(below(ItemFilter {
            parent: Some(Some(id.clone())),
            ..ItemFilter::default()
        })?);
    }
    if wants(Include::Descendants) {
        answer.descendants = Some(below(ItemFilter {
            below: Some(id.clone()),
            ..ItemFilter::default()
        })?);
    }
    if wants(Include::Dependencies) {
        answer.waits_for = Some(lines(&tx.waits_for(&id, RELATED_MAX)?));
        let mut waiting: Vec<WorkItem> = tx.all(&tx.sources("blocks", &id, RELATED_MAX)?)?;
        waiting.retain(|item| item.stamp.deleted_at.is_none());
        answer.blocks = Some(lines(&waiting));
    }
    answer.item = found;
    Ok(answer)
}

fn lines(items: &[WorkItem]) -> Vec<ItemLine> {
    items.iter().map(ItemLine::from).collect()
}

/// The items above one, the top first.
pub fn above(tx: &Tx<'_>, id: &str) -> Result<Vec<WorkItem>, Problem> {
    let path = tx.path(id)?;
    let steps = path
        .split('/')
        .filter(|step| !step.is_empty() && *step != id);
    let ids: Vec<String> = steps.map(str::to_owned).collect();
    tx.all(&ids)
}

/// Counts what stands below an item.
pub fn roll_up(tx: &Tx<'_>, id: &str) -> Result<RollUp, Problem> {
    let by_status = tx.statuses(id, true)?;
    let sum = |of: &dyn Fn(&str) -> bool| -> i64 {
        by_status
            .iter()
            .filter(|(word, _)| of(word))
            .map(|(_, count)| count)
            .sum()
    };
    let counted = sum(&|word| word != "cancelled");
    let done = sum(&|word| word == "completed");
    Ok(RollUp {
        total: sum(&|_| true),
        done_percent: if counted == 0 {
            0.0
        } else {
            (done * 1000 / counted) as f64 / 10.0
        },
        by_status: by_status.into_iter().collect(),
    })
}

/// How much of each row is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    #[default]
    Summary,
    Full,
}

/// Arguments of `work_item_query`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QueryItems {
    /// The id or name of the project; the session's where none is named.
    pub project: Option<String>,
    /// Only these statuses.
    pub status: Option<Vec<Status>>,
    /// Only these types.
    #[serde(rename = "type")]
    pub types: Option<Vec<ItemType>>,
    /// Only what stands right below this item (an id, or #7); none for what stands below no other.
    pub parent: Option<String>,
    /// With `parent`: everything below it, at every level.
    pub include_descendants: bool,
    /// Only what is assigned to this one.
    pub assignee: Option<String>,
    /// Only this priority.
    pub priority: Option<i64>,
    /// Only what has all of these tags.
    pub tags: Option<Vec<String>>,
    /// Only what is done on this branch.
    pub branch: Option<String>,
    /// A test of the metadata: {"eq": {"a.b": 1}}, in, gt, exists, contains, not, and, or.
    pub filter: Option<Value>,
    /// Deleted items too.
    pub include_deleted: bool,
    /// summary (the default) is short; full has every field.
    pub detail: Detail,
    /// Most items, 1 to 100; 20 where none is given.
    pub limit: Option<u32>,
    /// Most tokens of the answer, 200 to 15,000.
    pub max_tokens: Option<u32>,
    /// Where the list goes on.
    pub cursor: Option<String>,
}
super::scoped!(QueryItems);

/// A list of items.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ItemsAnswer {
    /// The items, the one that was changed last first, with the fields that `detail` asks for.
    pub items: Vec<Map<String, Value>>,
    /// Where the list goes on; none at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Lists items.
pub fn query(tx: &Tx<'_>, project: &Project, call: &QueryItems) -> Result<ItemsAnswer, Problem> {
    let mark = QueryMark::of("work_item_query", &project.stamp.id, call);
    let page = Page {
        before: mark.place(call.cursor.as_deref())?,
        limit: limit(call.limit)?,
    };
    let mut of = ItemFilter {
        statuses: call.status.clone().unwrap_or_default(),
        types: call.types.clone().unwrap_or_default(),
        assignee: call.assignee.clone(),
        priority: call.priority,
        tags: call.tags.clone().unwrap_or_default(),
        branch: call.branch.clone(),
        with_deleted: call.include_deleted,
        filter: call.filter.as_ref().map(Filter::read).transpose()?,
        ..ItemFilter::default()
    };
    match call.parent.as_deref() {
        None => {}
        Some(TOP) => of.parent = Some(None),
        Some(parent) => {
            let id = item_id(tx, project, "parent", parent)?;
            let id = any_object::<WorkItem>(tx, project, "parent", &id)?.stamp.id;
            match call.include_descendants {
                true => of.below = Some(id),
                false => of.parent = Some(Some(id)),
            }
        }
    }
    let found = tx.items(&project.stamp.id, &of, page)?;
    let row = |item: &WorkItem| match call.detail {
        Detail::Summary => json!(ItemLine::from(item)),
        Detail::Full => json!(item),
    };
    let rows = found
        .rows
        .iter()
        .map(|(place, item)| (*place, row(item)))
        .collect();
    let (items, cut) = fitting(rows, bytes(call.max_tokens)?);
    Ok(ItemsAnswer {
        items,
        cursor: cut.or(found.next).map(|place| mark.cursor(place)),
    })
}

/// What is done to an item that is, or was, there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeleteAction {
    #[default]
    Delete,
    Restore,
}

/// Arguments of `work_item_delete`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DeleteItem {
    /// The id or name of the project; the session's where none is named.
    pub project: Option<String>,
    /// The item: its id, or #7 for number 7.
    #[schemars(required)]
    pub id: String,
    /// delete (the default), or restore what was deleted.
    pub action: DeleteAction,
    /// Has to be true to delete.
    pub confirmed: bool,
    /// The version that is deleted, where that matters.
    pub version: Option<i64>,
    /// Whether what stands below it is deleted too; else an item with others below it is refused.
    pub with_descendants: bool,
    /// A text of yours: the same call with the same key is done once.
    pub idempotency_key: Option<String>,
}
super::scoped!(DeleteItem, keyed);

/// The answer of `work_item_delete`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeleteAnswer {
    /// Ids of what was deleted, or restored.
    pub ids: Vec<String>,
    /// Whether it is deleted now.
    pub deleted: bool,
}

/// Items that one call deletes, at most.
const DELETED_MAX: usize = 1000;

/// Deletes an item, or takes it back.
pub fn delete(tx: &Tx<'_>, project: &Project, call: &DeleteItem) -> Result<DeleteAnswer, Problem> {
    writable(project)?;
    let id = item_id(tx, project, "id", &call.id)?;
    let found: WorkItem = any_object(tx, project, "id", &id)?;
    if call.version.is_some() {
        same_version(tx, &found, call.version)?;
    }
    if call.action == DeleteAction::Restore {
        return restore(tx, project, found);
    }
    confirmed(call.confirmed, "an item")?;
    let below = ItemFilter {
        below: Some(id),
        ..ItemFilter::default()
    };
    let below = tx.items(&project.stamp.id, &below, Page::first(DELETED_MAX))?;
    if !below.rows.is_empty() && !call.with_descendants {
        return Err(problem(
            "has_children",
            format!(
                "{} items stand below it; delete them first, move them, or give with_descendants: true",
                below.rows.len()
            ),
        ));
    }
    if below.next.is_some() {
        return Err(Problem::argument(format!(
            "more than {DELETED_MAX} items stand below it; delete a part of them first"
        )));
    }
    let mut ids = Vec::new();
    let all = std::iter::once(found).chain(below.rows.into_iter().map(|(_, item)| item));
    for mut item in all.filter(|item| item.stamp.deleted_at.is_none()) {
        let lease = guard(tx, &item.stamp.id, None)?;
        give_back(tx, lease)?;
        item.stamp.deleted_at = Some(tx.now().to_owned());
        tx.put(&mut item)?;
        ids.push(item.stamp.id);
    }
    Ok(DeleteAnswer { ids, deleted: true })
}

fn restore(tx: &Tx<'_>, project: &Project, mut found: WorkItem) -> Result<DeleteAnswer, Problem> {
    if let Some(parent) = &found.parent {
        object::<WorkItem>(tx, project, "id (the item above it)", parent)?;
    }
    if found.stamp.deleted_at.take().is_some() {
        tx.put(&mut found)?;
    }
    Ok(DeleteAnswer {
        ids: vec![found.stamp.id],
        deleted: false,
    })
}
