//! The table of tools: names, schemas, annotations and what answers, one row a tool.
//!
//! The first sixteen are ours; the others are those of workflow-mcp, which answer in any case and are listed only where that
//! is asked for, because each listed tool costs context.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tools::serve::call::{Problem, Said, Session, arguments, schema};
use tools::serve::table::{Effect, Whose};

use crate::exchange::{ImportAnswer, ImportCall};
use crate::model::Project;
use crate::model::entity::compile;
use crate::ops::claim::{ClaimAnswer, ClaimCall, NextAnswer, NextCall};
use crate::ops::dependency::DependencyCall;
use crate::ops::deployment::{DeploymentAnswer, DeploymentCall};
use crate::ops::entity::{EntitiesAnswer, EntityAnswer, EntityCall, QueryEntities};
use crate::ops::history::{HistoryAction, HistoryAnswer, HistoryCall};
use crate::ops::items::{
    CreateItem, DeleteAnswer, DeleteItem, GetAnswer, GetItem, ItemAnswer, ItemsAnswer, QueryItems,
    UpdateItem,
};
use crate::ops::projects::{ProjectAction, ProjectAnswer, ProjectCall};
use crate::ops::search::{SearchAnswer, SearchCall};
use crate::ops::status::{StatusAnswer, StatusCall};
use crate::ops::types::{TypeAnswer, TypeCall};
use crate::ops::{self, Scoped};
use crate::service::{Call, Flow};
use crate::store::{Caller, Tx};
use crate::{compat, ops as calls};

/// A tool of work tracking.
pub type Tool = tools::serve::table::Tool<Flow>;

/// Longest idempotency key, in bytes.
const KEY_BYTES_MAX: usize = 200;

/// Every tool, in the order of the listing.
pub const ALL: &[Tool] = &[
    Tool {
        name: "project",
        title: "Projects",
        doc: "Makes, chooses, shows, lists or archives projects. Everything else belongs to one project; switch chooses one for this session alone.",
        effect: Effect::Writes,
        whose: Whose::Ours,
        input: schema::<ProjectCall>,
        output: schema::<ProjectAnswer>,
        run: project,
    },
    Tool {
        name: "work_item_create",
        title: "Create a work item",
        doc: "Creates a work item: a project, session, task, research or subtask, below another one where `parent` says so (at most five levels), and waiting for others where `depends_on` says so.",
        effect: Effect::Writes,
        whose: Whose::Ours,
        input: schema::<CreateItem>,
        output: schema::<ItemAnswer>,
        run: |call, map| write(call, "work_item_create", map, calls::items::create),
    },
    Tool {
        name: "work_item_update",
        title: "Change a work item",
        doc: "Changes fields of a work item. `version` is the one that you read: if another changed it meanwhile, nothing is written and the answer carries the current row. Branches and commits are added, metadata is merged.",
        effect: Effect::Overwrites,
        whose: Whose::Ours,
        input: schema::<UpdateItem>,
        output: schema::<ItemAnswer>,
        run: |call, map| write(call, "work_item_update", map, calls::items::update),
    },
    Tool {
        name: "work_item_get",
        title: "Look at a work item",
        doc: "Shows one work item with what stands above and below it, what it waits for, who holds it, what carried it, and how far everything below it is.",
        effect: Effect::Reads,
        whose: Whose::Ours,
        input: schema::<GetItem>,
        output: schema::<GetAnswer>,
        run: |call, map| read(call, "work_item_get", map, calls::items::get),
    },
    Tool {
        name: "work_item_query",
        title: "List work items",
        doc: "Lists work items by status, type, parent, assignee, priority, tags, branch or a filter of their metadata, the one that was changed last first. Short rows unless detail is full.",
        effect: Effect::Reads,
        whose: Whose::Ours,
        input: schema::<QueryItems>,
        output: schema::<ItemsAnswer>,
        run: |call, map| read(call, "work_item_query", map, calls::items::query),
    },
    Tool {
        name: "work_item_delete",
        title: "Delete or restore a work item",
        doc: "Deletes a work item (confirmed: true), with what stands below it where that is asked for, or restores a deleted one.",
        effect: Effect::Removes,
        whose: Whose::Ours,
        input: schema::<DeleteItem>,
        output: schema::<DeleteAnswer>,
        run: |call, map| write(call, "work_item_delete", map, calls::items::delete),
    },
    Tool {
        name: "dependency",
        title: "Add or remove a dependency",
        doc: "Says that an item depends on another (blocks, relates_to, duplicates), or not any more. A circle is refused.",
        effect: Effect::Writes,
        whose: Whose::Ours,
        input: schema::<DependencyCall>,
        output: schema::<ItemAnswer>,
        run: |call, map| write(call, "dependency", map, calls::dependency::change),
    },
    Tool {
        name: "claim",
        title: "Claim work",
        doc: "Takes an item for you alone for some time (without id: the most urgent that is ready), renews that, or gives it back. The token that it gives goes with your writes: once the claim is over, they are refused.",
        effect: Effect::Writes,
        whose: Whose::Ours,
        input: schema::<ClaimCall>,
        output: schema::<ClaimAnswer>,
        run: |call, map| write(call, "claim", map, calls::claim::change),
    },
    Tool {
        name: "next_work",
        title: "What is next",
        doc: "Lists what can be taken now, what waits and for what, or what is yours.",
        effect: Effect::Reads,
        whose: Whose::Ours,
        input: schema::<NextCall>,
        output: schema::<NextAnswer>,
        run: |call, map| read(call, "next_work", map, calls::claim::next),
    },
    Tool {
        name: "entity_type",
        title: "Types of entities",
        doc: "Registers a type of entities by JSON Schema 2020-12, shows or lists types, or evolves one to a schema that takes more (dry_run says what would break).",
        effect: Effect::Writes,
        whose: Whose::Ours,
        input: schema::<TypeCall>,
        output: schema::<TypeAnswer>,
        run: entity_type,
    },
    Tool {
        name: "entity_write",
        title: "Create, change or delete an entity",
        doc: "Writes an entity of a registered type. Data is checked against the type's schema; update merges unless replace is true, and names the version that it changes.",
        effect: Effect::Overwrites,
        whose: Whose::Ours,
        input: schema::<EntityCall>,
        output: schema::<EntityAnswer>,
        run: |call, map| write(call, "entity_write", map, calls::entity::write),
    },
    Tool {
        name: "entity_query",
        title: "Find entities",
        doc: "Finds entities by type, name, tags, or a filter over their data: eq, in, gt, exists, contains (as PostgreSQL's @>), not, and, or.",
        effect: Effect::Reads,
        whose: Whose::Ours,
        input: schema::<QueryEntities>,
        output: schema::<EntitiesAnswer>,
        run: |call, map| read(call, "entity_query", map, calls::entity::query),
    },
    Tool {
        name: "deployment",
        title: "Deployments",
        doc: "Records what was deployed where and which work items it carried, changes its status, shows one, or lists them.",
        effect: Effect::Writes,
        whose: Whose::Ours,
        input: schema::<DeploymentCall>,
        output: schema::<DeploymentAnswer>,
        run: deployment,
    },
    Tool {
        name: "status",
        title: "Status of a project",
        doc: "The whole project in one answer: counts, what is active, ready, blocked and held, the last deployments, vendors. As JSON, or as Markdown too.",
        effect: Effect::Reads,
        whose: Whose::Ours,
        input: schema::<StatusCall>,
        output: schema::<StatusAnswer>,
        run: |call, map| read(call, "status", map, calls::status::run),
    },
    Tool {
        name: "search",
        title: "Search",
        doc: "Finds work items, entities and deployments by words in what they say.",
        effect: Effect::Reads,
        whose: Whose::Ours,
        input: schema::<SearchCall>,
        output: schema::<SearchAnswer>,
        run: |call, map| read(call, "search", map, calls::search::run),
    },
    Tool {
        name: "history",
        title: "History and undo",
        doc: "Lists who changed what and when, with what differs; or takes a change back (undo), unless others built on it.",
        effect: Effect::Overwrites,
        whose: Whose::Ours,
        input: schema::<HistoryCall>,
        output: schema::<HistoryAnswer>,
        run: history,
    },
    compat::CREATE_PROJECT,
    compat::SWITCH_PROJECT,
    compat::ACTIVE_PROJECT,
    compat::LIST_PROJECTS,
    compat::CREATE_ITEM,
    compat::UPDATE_ITEM,
    compat::QUERY_ITEMS,
    compat::ITEM_HIERARCHY,
    compat::DELETE_ITEM,
    compat::ADD_DEPENDENCY,
    compat::BLOCKED_ITEMS,
    compat::REGISTER_TYPE,
    compat::CREATE_ENTITY,
    compat::QUERY_ENTITIES,
    compat::UPDATE_ENTITY,
    compat::DELETE_ENTITY,
    compat::EVOLVE_TYPE,
    compat::RECORD_DEPLOYMENT,
    compat::LIST_DEPLOYMENTS,
    compat::GET_DEPLOYMENT,
    compat::GET_TASK,
    compat::LIST_TASKS,
    compat::CREATE_TASK,
    compat::UPDATE_TASK,
    compat::QUERY_ITEM,
    compat::LIST_ITEMS,
    compat::VENDOR_STATUS,
    compat::UPDATE_VENDOR,
    compat::CREATE_VENDOR,
    compat::GET_CONFIGURATION,
    compat::UPDATE_CONFIGURATION,
];

/// What the command line asks besides.
pub const INSIDE: &[Tool] = &[Tool {
    name: "flow/import",
    title: "Import",
    doc: "Imports records, all or none.",
    effect: Effect::Writes,
    whose: Whose::Ours,
    input: schema::<ImportCall>,
    output: schema::<ImportAnswer>,
    run: |call, map| {
        let caller = caller(call, "import", &Map::new(), None)?;
        let asked: ImportCall = arguments(map)?;
        let written = call.engine.write(&caller, move |tx| {
            ops::answer(&crate::exchange::import(tx, &asked)?)
        })?;
        Ok(said(written.value))
    },
}];

/// Who calls which tool; a write without a key gets one of its session and request, since a call whose server process ended
/// is made again.
pub(crate) fn caller(
    call: &Call<'_>,
    tool: &str,
    map: &Map<String, Value>,
    key: Option<&str>,
) -> Result<Caller, Problem> {
    let key = match key {
        Some(key) if key.is_empty() || key.len() > KEY_BYTES_MAX || key.starts_with("auto:") => {
            return Err(Problem::argument(format!(
                "`idempotency_key`: is a text of 1 to {KEY_BYTES_MAX} bytes that does not begin with auto:"
            )));
        }
        Some(key) => Some(key.to_owned()),
        None => Some(format!("auto:{}", call.request)).filter(|_| !call.request.is_empty()),
    };
    let mut names: Vec<&String> = map.keys().collect();
    names.sort();
    let mut digest = Sha256::new();
    digest.update(tool.as_bytes());
    for name in names {
        digest.update(format!("\n{name}={}", map[name]).as_bytes());
    }
    Ok(Caller {
        actor: call.session.actor.clone(),
        tool: tool.to_owned(),
        key,
        digest: base::hex::encode(&digest.finalize()),
    })
}

/// Answers a call that only reads.
pub(crate) fn read<A, T>(
    call: &Call<'_>,
    tool: &str,
    map: Map<String, Value>,
    run: fn(&Tx<'_>, &Project, &A) -> Result<T, Problem>,
) -> Result<Said, Problem>
where
    A: DeserializeOwned + Scoped,
    T: Serialize,
{
    let caller = caller(call, tool, &map, None)?;
    let asked: A = arguments(map)?;
    let session = call.session.project.as_deref();
    let answer = call.engine.read(&caller, |tx| {
        let project = ops::project(tx, asked.project(), session)?;
        run(tx, &project, &asked)
    })?;
    ops::answer(&answer).map(said)
}

/// Answers a call that writes.
pub(crate) fn write<A, T>(
    call: &Call<'_>,
    tool: &str,
    map: Map<String, Value>,
    run: fn(&Tx<'_>, &Project, &A) -> Result<T, Problem>,
) -> Result<Said, Problem>
where
    A: DeserializeOwned + Scoped + Send + 'static,
    T: Serialize + 'static,
{
    let digested = map.clone();
    let asked: A = arguments(map)?;
    let caller = caller(call, tool, &digested, asked.key())?;
    if let Some(schema) = asked.schema() {
        compile(schema)?;
    }
    let session = call.session.project.clone();
    let written = call.engine.write(&caller, move |tx| {
        let project = ops::project(tx, asked.project(), session.as_deref())?;
        ops::answer(&run(tx, &project, &asked)?)
    })?;
    Ok(said(written.value))
}

fn project(call: &Call<'_>, map: Map<String, Value>) -> Result<Said, Problem> {
    let digested = map.clone();
    let asked: ProjectCall = arguments(map)?;
    let caller = caller(call, "project", &digested, asked.key())?;
    let session = call.session.project.clone();
    let chooses = matches!(asked.action, ProjectAction::Create | ProjectAction::Switch);
    let value = match asked.action {
        ProjectAction::Switch | ProjectAction::Get | ProjectAction::List => {
            let answer = call.engine.read(&caller, |tx| {
                calls::projects::read(tx, session.as_deref(), &asked)
            })?;
            ops::answer(&answer)?
        }
        ProjectAction::Create
        | ProjectAction::Update
        | ProjectAction::Archive
        | ProjectAction::Restore => {
            let written = call.engine.write(&caller, move |tx| {
                ops::answer(&calls::projects::write(tx, session.as_deref(), &asked)?)
            })?;
            written.value
        }
    };
    let mut answer = said(value);
    if chooses {
        answer.session = chosen(call, &answer.value["project"]);
    }
    Ok(answer)
}

/// The session with a project chosen.
pub(crate) fn chosen(call: &Call<'_>, project: &Value) -> Option<Session> {
    let id = project["id"].as_str()?;
    Some(Session {
        project: Some(id.to_owned()),
        ..call.session.clone()
    })
}

fn entity_type(call: &Call<'_>, map: Map<String, Value>) -> Result<Said, Problem> {
    let asked: TypeCall = arguments(map.clone())?;
    match calls::types::writes(&asked) {
        true => write(call, "entity_type", map, calls::types::run),
        false => read(call, "entity_type", map, calls::types::run),
    }
}

fn deployment(call: &Call<'_>, map: Map<String, Value>) -> Result<Said, Problem> {
    let asked: DeploymentCall = arguments(map.clone())?;
    match calls::deployment::writes(&asked) {
        true => write(call, "deployment", map, calls::deployment::run),
        false => read(call, "deployment", map, calls::deployment::run),
    }
}

fn history(call: &Call<'_>, map: Map<String, Value>) -> Result<Said, Problem> {
    let asked: HistoryCall = arguments(map.clone())?;
    match asked.action {
        HistoryAction::List => read(call, "history", map, calls::history::list),
        HistoryAction::Undo => write(call, "history", map, calls::history::undo),
    }
}

/// An answer in both its forms. A list of short rows is told a line each, everything else as JSON.
pub(crate) fn said(value: Value) -> Said {
    let text = match value.get("items").or(value.get("hits")) {
        Some(Value::Array(rows)) => lines(rows, &value),
        _ => match value.get("markdown").and_then(Value::as_str) {
            Some(markdown) => markdown.to_owned(),
            None => value.to_string(),
        },
    };
    Said {
        value,
        text,
        session: None,
    }
}

fn lines(rows: &[Value], all: &Value) -> String {
    // Rows with every field lose nothing as JSON.
    if rows.iter().any(|row| row.get("created_at").is_some()) {
        return all.to_string();
    }
    let mut text = String::new();
    for row in rows {
        text.push_str(&line(row));
        text.push('\n');
    }
    if rows.is_empty() {
        text.push_str("none\n");
    }
    if let Some(cursor) = all["cursor"].as_str() {
        text.push_str(&format!("more: cursor {cursor}\n"));
    }
    text
}

fn line(row: &Value) -> String {
    let word = |name: &str| row[name].as_str().unwrap_or_default();
    let title = calls::board::escaped(word("title"));
    let mut line = match row["number"].as_i64() {
        Some(number) => format!("#{number} [{}] {title} ({})", word("status"), word("type")),
        None => format!("{} {title} ({}) {}", word("kind"), word("type"), word("id")),
    };
    if let (Some(priority), Some(version)) = (row["priority"].as_i64(), row["version"].as_i64()) {
        line.push_str(&format!(" P{priority} v{version}"));
    }
    if let Some(who) = row["assignee"].as_str() {
        line.push_str(&format!(" @{}", calls::board::escaped(who)));
    }
    let waits = row["waits_for"].as_array().into_iter().flatten();
    let waits: Vec<String> = waits
        .filter_map(|other| other["number"].as_i64())
        .map(|n| format!("#{n}"))
        .collect();
    if !waits.is_empty() {
        line.push_str(&format!(" waits for {}", waits.join(", ")));
    }
    if let Some(why) = row["blocked_reason"].as_str() {
        line.push_str(&format!(": {}", calls::board::escaped(why)));
    }
    line
}
