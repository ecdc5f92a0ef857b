//! `history`: who changed what, and how to take it back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tools::serve::call::Problem;

use super::cursor::QueryMark;
use super::{bytes, fitting, guard, item_id, limit, writable};
use crate::model::entity::check;
use crate::model::{Entity, Lease, ObjectKind, Project, patch, problem, problem_with, time};
use crate::store::{Event, Page, Tx};

/// What is asked of history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistoryAction {
    #[default]
    List,
    Undo,
}

/// Arguments of `history`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HistoryCall {
    /// The id or name of the project; the session's where none is named.
    pub project: Option<String>,
    /// list (the default), or undo a change.
    pub action: HistoryAction,
    /// Only what happened to this object: an id, or #7 for item 7 (list).
    pub id: Option<String>,
    /// Only what this one did (list).
    pub actor: Option<String>,
    /// Only since this time, as 2026-11-21T14:25:30Z (list).
    pub since: Option<String>,
    /// The number of the change to take back (undo), as list shows it.
    pub change: Option<i64>,
    /// Whether whole documents are told and not only what differs (list).
    pub full: bool,
    /// Most events, 1 to 100; 20 where none is given.
    pub limit: Option<u32>,
    /// Most tokens of the answer, 200 to 15,000.
    pub max_tokens: Option<u32>,
    /// Where the list goes on.
    pub cursor: Option<String>,
    /// A text of yours: the same call with the same key is done once.
    pub idempotency_key: Option<String>,
}
super::scoped!(HistoryCall, keyed);

/// The answer of `history`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct HistoryAnswer {
    /// The events, the newest first: number, change, time, who, by which tool, which object, and the fields that differ.
    pub events: Vec<Map<String, Value>>,
    /// Ids of what was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<Vec<String>>,
    /// Where the list goes on; none at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Lists what happened.
pub fn list(tx: &Tx<'_>, project: &Project, call: &HistoryCall) -> Result<HistoryAnswer, Problem> {
    let mark = QueryMark::of("history", &project.stamp.id, call);
    let id = call
        .id
        .as_deref()
        .map(|id| item_id(tx, project, "id", id))
        .transpose()?;
    let since = call
        .since
        .as_deref()
        .map(|since| time("since", since))
        .transpose()?;
    let limit = limit(call.limit)?;
    let page = Page {
        before: mark.place(call.cursor.as_deref())?,
        limit: limit + 1,
    };
    let mut events = tx.events(
        &project.stamp.id,
        id.as_deref(),
        call.actor.as_deref(),
        since.as_deref(),
        page,
    )?;
    let more = events.len() > limit;
    events.truncate(limit);
    let next = events.last().map(|event| event.seq).filter(|_| more);
    let rows = events
        .into_iter()
        .map(|event| (event.seq, told(event, call.full)))
        .collect();
    let (events, cut) = fitting(rows, bytes(call.max_tokens)?);
    Ok(HistoryAnswer {
        events,
        undone: None,
        cursor: cut.or(next).map(|place| mark.cursor(place)),
    })
}

fn told(event: Event, full: bool) -> Value {
    let changed: Map<String, Value> = match &event.before {
        None => Map::new(),
        Some(before) => patch::differs(before, &event.after)
            .into_iter()
            .filter(|name| !matches!(name.as_str(), "version" | "updated_at" | "updated_by"))
            .map(|name| {
                let values =
                    json!({ "before": before.get(&name), "after": event.after.get(&name) });
                (name, values)
            })
            .collect(),
    };
    let mut row = json!({
        "seq": event.seq, "change": event.change, "at": event.at, "actor": event.actor, "tool": event.tool,
        "kind": event.kind, "id": event.id, "version": event.version, "created": event.before.is_none(),
        "changed": changed,
    });
    if full {
        row["after"] = event.after;
    } else if let Some(title) = event.after.get("title").or(event.after.get("name")) {
        row["title"] = title.clone();
    }
    row
}

/// Takes a change back, where nobody built on it.
pub fn undo(tx: &Tx<'_>, project: &Project, call: &HistoryCall) -> Result<HistoryAnswer, Problem> {
    writable(project)?;
    let change = call.change.ok_or_else(|| {
        Problem::argument("`change`: is missing: which change? history lists them")
    })?;
    let events = tx.change(&project.stamp.id, change)?;
    if events.is_empty() {
        return Err(problem(
            "not_found",
            format!(
                "`change`: project {:?} has no change {change}",
                project.name
            ),
        ));
    }
    refuse_built_on(tx, &events)?;
    refuse_held(tx, &events)?;
    let mut undone = Vec::new();
    // An object that the change wrote twice goes back to before the first.
    let mut first: Vec<&Event> = Vec::new();
    for event in &events {
        if !first.iter().any(|before| before.id == event.id) {
            first.push(event);
        }
    }
    for event in first.into_iter().rev() {
        if take_back(tx, project, event)? {
            undone.push(event.id.clone());
        }
    }
    Ok(HistoryAnswer {
        undone: Some(undone),
        ..HistoryAnswer::default()
    })
}

fn refuse_built_on(tx: &Tx<'_>, events: &[Event]) -> Result<(), Problem> {
    for event in events {
        let own = events
            .iter()
            .filter(|other| other.id == event.id)
            .map(|other| other.version)
            .max();
        let later = tx.later(&event.id, own.unwrap_or(event.version))?;
        if later.is_empty() {
            continue;
        }
        let who: Vec<String> = later
            .iter()
            .map(|(change, actor)| format!("change {change} by {actor}"))
            .collect();
        return Err(problem_with(
            "built_on",
            format!(
                "`change`: others built on it: {} of {} {}; undo those first",
                who.join(", "),
                event.kind,
                event.id
            ),
            json!({ "changes": later.iter().map(|(change, _)| change).collect::<Vec<_>>() }),
        ));
    }
    Ok(())
}

/// Refuses to touch an item, or the lease of one, that another holds now.
fn refuse_held(tx: &Tx<'_>, events: &[Event]) -> Result<(), Problem> {
    for event in events {
        match ObjectKind::of(&event.kind) {
            Some(ObjectKind::Item) => guard(tx, &event.id, None)?,
            Some(ObjectKind::Lease) => match tx.find::<Lease>(&event.id)? {
                Some(lease) => guard(tx, &lease.item, None)?,
                None => None,
            },
            _ => None,
        };
    }
    Ok(())
}

/// Writes an object as it was before an event.
fn take_back(tx: &Tx<'_>, project: &Project, event: &Event) -> Result<bool, Problem> {
    let kind =
        ObjectKind::of(&event.kind).ok_or_else(|| Problem::ours("an event is of no kind"))?;
    if kind == ObjectKind::Lease {
        // A token never goes back: the lease ends instead.
        if let Some(mut lease) = tx
            .find::<Lease>(&event.id)?
            .filter(|lease| lease.agent.is_some())
        {
            lease.agent = None;
            lease.until = tx.now().to_owned();
            tx.put(&mut lease)?;
        }
        return Ok(true);
    }
    if kind == ObjectKind::Project && event.before.is_none() {
        return Err(Problem::argument(
            "`change`: making a project is not undone; archive it",
        ));
    }
    let current = tx.version_of(&event.id)?;
    let mut document = event.before.clone().unwrap_or_else(|| event.after.clone());
    let Value::Object(map) = &mut document else {
        return Ok(false);
    };
    map.insert("version".to_owned(), (current + 1).into());
    map.insert("updated_at".to_owned(), tx.now().into());
    map.insert("updated_by".to_owned(), tx.actor().into());
    if event.before.is_none() {
        map.insert("deleted_at".to_owned(), tx.now().into());
    }
    if kind == ObjectKind::Entity && event.before.is_some() {
        let entity: Entity = serde_json::from_value(document.clone())
            .map_err(|error| Problem::ours(error.to_string()))?;
        let of = super::types::find(tx, project, &entity.entity_type)?;
        check(&of, &entity.data)?;
    }
    tx.put_document(kind, &document.to_string())?;
    Ok(true)
}
