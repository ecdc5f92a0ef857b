//! The calls: what each takes, what it does inside one transaction, and what it answers.
//!
//! A call is of one project: the one that it names, or the session's, or the only one there is. An id of another project's
//! object is not found.

pub mod board;
pub mod claim;
pub mod cursor;
pub mod dependency;
pub mod deployment;
pub mod entity;
pub mod history;
pub mod items;
pub mod projects;
pub mod search;
pub mod status;
pub mod types;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tools::serve::call::Problem;

use crate::model::{
    Document, Lease, ObjectKind, Project, Stamp, Status, WorkItem, patch, problem, problem_with,
};
use crate::store::{Page, Tx};

/// Rows of a page where no number is given.
pub const LIMIT_DEFAULT: usize = 20;
/// Most rows of a page.
pub const LIMIT_MAX: usize = 100;
/// Tokens of a page where no number is given, a token being four bytes of JSON.
pub const TOKENS_DEFAULT: usize = 8_000;
/// Most tokens of a page.
pub const TOKENS_MAX: usize = 15_000;
/// Names that an error tells, at most.
const NAMES_MAX: usize = 20;

/// Arguments that may name a project and an idempotency key.
pub trait Scoped {
    /// The project that is named.
    fn project(&self) -> Option<&str>;

    /// The idempotency key.
    fn key(&self) -> Option<&str> {
        None
    }

    /// A schema that is compiled before the thread that writes is asked, so that nobody else waits for that.
    fn schema(&self) -> Option<&Map<String, Value>> {
        None
    }
}

macro_rules! scoped {
    ($of:ty) => {
        impl crate::ops::Scoped for $of {
            fn project(&self) -> Option<&str> {
                self.project.as_deref()
            }
        }
    };
    ($of:ty, keyed) => {
        impl crate::ops::Scoped for $of {
            fn project(&self) -> Option<&str> {
                self.project.as_deref()
            }
            fn key(&self) -> Option<&str> {
                self.idempotency_key.as_deref()
            }
        }
    };
}
pub(crate) use scoped;

/// A work item in short.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ItemLine {
    /// Its id.
    pub id: String,
    /// Its number in the project.
    pub number: i64,
    /// What kind of work it is.
    #[serde(rename = "type")]
    pub item_type: crate::model::item::ItemType,
    /// What is to be done.
    pub title: String,
    /// How far it is.
    pub status: Status,
    /// How urgent it is: 1 first.
    pub priority: u8,
    /// Who works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
    /// The item above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Why it cannot go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_reason: Option<String>,
    /// Its version.
    pub version: i64,
    /// When it was changed last.
    pub updated_at: String,
}

impl From<&WorkItem> for ItemLine {
    fn from(item: &WorkItem) -> ItemLine {
        ItemLine {
            id: item.stamp.id.clone(),
            number: item.number,
            item_type: item.item_type,
            title: item.title.clone(),
            status: item.status,
            priority: item.priority,
            assignee: item.assignee.clone(),
            parent: item.parent.clone(),
            blocked_reason: item.blocked_reason.clone(),
            version: item.stamp.version,
            updated_at: item.stamp.updated_at.clone(),
        }
    }
}

/// The project of a call.
pub fn project(
    tx: &Tx<'_>,
    named: Option<&str>,
    of_session: Option<&str>,
) -> Result<Project, Problem> {
    if let Some(name) = named.or(of_session) {
        return find_project(tx, name);
    }
    let two = tx.projects(Page {
        before: None,
        limit: 2,
    })?;
    match two.rows.len() {
        1 => two
            .rows
            .into_iter()
            .next()
            .map(|(_, project)| project)
            .ok_or_else(|| no_project(tx)),
        _ => Err(no_project(tx)),
    }
}

/// A project by its id or name.
pub fn find_project(tx: &Tx<'_>, name: &str) -> Result<Project, Problem> {
    let by_id = tx.find::<Project>(name)?;
    let found = match by_id {
        Some(project) => Some(project),
        None => match tx.id_of_name(None, ObjectKind::Project, None, name)? {
            Some(id) => tx.find::<Project>(&id)?,
            None => None,
        },
    };
    found
        .filter(|project| project.stamp.deleted_at.is_none())
        .ok_or_else(|| {
            problem(
                "not_found",
                format!("`project`: there is no project {name:?}; {}", known(tx)),
            )
        })
}

fn no_project(tx: &Tx<'_>) -> Problem {
    problem(
        "no_project",
        format!(
            "which project? Name one by `project`, or call project switch once in this session; {}",
            known(tx)
        ),
    )
}

fn known(tx: &Tx<'_>) -> String {
    let rows = tx
        .projects(Page {
            before: None,
            limit: NAMES_MAX,
        })
        .map(|rows| rows.rows);
    let names: Vec<String> = rows
        .unwrap_or_default()
        .into_iter()
        .map(|(_, project)| format!("{:?}", project.name))
        .collect();
    match names.is_empty() {
        true => "there is none yet: call project create with a name".to_owned(),
        false => format!("there are: {}", names.join(", ")),
    }
}

/// Refuses to write into a project that is put away.
pub fn writable(project: &Project) -> Result<(), Problem> {
    match project.archived {
        false => Ok(()),
        true => Err(problem(
            "archived",
            format!(
                "project {:?} is archived; call project restore first",
                project.name
            ),
        )),
    }
}

/// A new object's stamp.
pub fn stamp(project: &Project) -> Stamp {
    Stamp {
        id: new_id(),
        project: project.stamp.id.clone(),
        ..Stamp::default()
    }
}

/// A new id.
pub fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// An object of the project, by its id; deleted ones are not found.
pub fn object<T: Document>(
    tx: &Tx<'_>,
    project: &Project,
    field: &str,
    id: &str,
) -> Result<T, Problem> {
    let found = any_object::<T>(tx, project, field, id)?;
    match found.stamp().deleted_at {
        None => Ok(found),
        Some(_) => Err(problem(
            "not_found",
            format!(
                "`{field}`: {} {id} was deleted; restore it first",
                T::KIND.as_str()
            ),
        )),
    }
}

/// An object of the project, deleted or not.
pub fn any_object<T: Document>(
    tx: &Tx<'_>,
    project: &Project,
    field: &str,
    id: &str,
) -> Result<T, Problem> {
    let found = tx.find::<T>(id)?;
    found
        .filter(|of| of.stamp().project == project.stamp.id)
        .ok_or_else(|| {
            problem(
                "not_found",
                format!(
                    "`{field}`: project {:?} has no {} {id:?}",
                    project.name,
                    T::KIND.as_str()
                ),
            )
        })
}

/// The id of an item that is named by its id or its number, such as `#7`.
pub fn item_id(tx: &Tx<'_>, project: &Project, field: &str, text: &str) -> Result<String, Problem> {
    let text = text.trim();
    let number = text.strip_prefix('#').unwrap_or(text).parse::<i64>().ok();
    match number {
        None => Ok(text.to_owned()),
        Some(number) => tx.id_of_number(&project.stamp.id, number)?.ok_or_else(|| {
            problem(
                "not_found",
                format!(
                    "`{field}`: project {:?} has no item #{number}; work_item_query lists them",
                    project.name
                ),
            )
        }),
    }
}

/// An item that is named by its id or its number.
pub fn item(tx: &Tx<'_>, project: &Project, field: &str, text: &str) -> Result<WorkItem, Problem> {
    let id = item_id(tx, project, field, text)?;
    object(tx, project, field, &id)
}

/// Refuses a write that does not name the version that it changes; the refusal carries the current row.
pub fn same_version<T: Document>(
    tx: &Tx<'_>,
    current: &T,
    given: Option<i64>,
) -> Result<(), Problem> {
    let stamp = current.stamp();
    if given == Some(stamp.version) {
        return Ok(());
    }
    let row = json!(current);
    let Some(given) = given else {
        return Err(problem_with(
            "version_missing",
            format!(
                "`version`: is missing; the current version is {}, and its row is in data.current",
                stamp.version
            ),
            json!({ "current": row }),
        ));
    };
    let before = tx.at_version(&stamp.id, given)?;
    let differs = before.map(|before| patch::differs(&before, &row));
    let differs = differs.unwrap_or_default();
    Err(problem_with(
        "conflict",
        format!(
            "`version`: expected version {given}, current version {}; what was changed since: {}. Look at data.current, and call again with version {} if the change still makes sense",
            stamp.version,
            if differs.is_empty() {
                "unknown".to_owned()
            } else {
                differs.join(", ")
            },
            stamp.version
        ),
        json!({ "current": row, "differs": differs }),
    ))
}

/// Refuses what takes away unless it is confirmed.
pub fn confirmed(confirmed: bool, what: &str) -> Result<(), Problem> {
    match confirmed {
        true => Ok(()),
        false => Err(problem(
            "not_confirmed",
            format!("`confirmed`: has to be true to delete {what}; it can be restored later"),
        )),
    }
}

/// Refuses a write to an item that another holds, and one under a lease that is over.
pub fn guard(tx: &Tx<'_>, item: &str, token: Option<i64>) -> Result<Option<Lease>, Problem> {
    let lease = tx.find::<Lease>(&Lease::id_of(item))?;
    let holder = lease
        .as_ref()
        .and_then(|lease| lease.holder(tx.now()).map(str::to_owned));
    match (token, &lease) {
        (Some(token), Some(held))
            if token == held.token && holder.as_deref() == Some(tx.actor()) => {}
        (Some(token), held) => {
            let now = match (held, &holder) {
                (Some(held), Some(holder)) => format!(
                    "{holder} holds it now with token {} until {}",
                    held.token, held.until
                ),
                (Some(held), None) if held.token == token => format!("it ended at {}", held.until),
                _ => "nobody holds it now".to_owned(),
            };
            return Err(problem(
                "lease_lost",
                format!(
                    "`lease_token`: {token} is no lease of yours any more: {now}; look at the item, and claim it again if it is still to be done"
                ),
            ));
        }
        (None, _) => {
            if let (Some(held), Some(holder)) = (&lease, &holder)
                && holder != tx.actor()
            {
                return Err(leased(held, holder));
            }
        }
    }
    Ok(lease)
}

pub(crate) fn leased(lease: &Lease, holder: &str) -> Problem {
    problem_with(
        "leased",
        format!(
            "{holder} holds this item until {}; take another (claim without id takes the next), or wait",
            lease.until
        ),
        json!({ "holder": holder, "until": lease.until }),
    )
}

/// How many rows a page has.
pub fn limit(given: Option<u32>) -> Result<usize, Problem> {
    let limit = given.map_or(LIMIT_DEFAULT, |limit| limit as usize);
    match (1..=LIMIT_MAX).contains(&limit) {
        true => Ok(limit),
        false => Err(Problem::argument(format!(
            "`limit`: must be 1 to {LIMIT_MAX}"
        ))),
    }
}

/// How many bytes a page has.
pub fn bytes(max_tokens: Option<u32>) -> Result<usize, Problem> {
    let tokens = max_tokens.map_or(TOKENS_DEFAULT, |tokens| tokens as usize);
    match (200..=TOKENS_MAX).contains(&tokens) {
        true => Ok(tokens * 4),
        false => Err(Problem::argument(format!(
            "`max_tokens`: must be 200 to {TOKENS_MAX}"
        ))),
    }
}

/// As many rows as fit into so many bytes, at least one; and the place of the last where not all do.
pub fn fitting(rows: Vec<(i64, Value)>, bytes: usize) -> (Vec<Map<String, Value>>, Option<i64>) {
    let (mut all, mut sum, mut last) = (Vec::new(), 0, None);
    for (place, row) in rows {
        sum += row.to_string().len();
        if sum > bytes && !all.is_empty() {
            return (all, last);
        }
        last = Some(place);
        if let Value::Object(map) = row {
            all.push(map);
        }
    }
    (all, None)
}

/// A list of rows whose next page begins at an offset.
pub fn offset_page<T>(mut rows: Vec<T>, limit: usize, offset: usize) -> (Vec<T>, Option<i64>) {
    let more = rows.len() > limit;
    rows.truncate(limit);
    let next = offset + rows.len();
    (rows, more.then(|| i64::try_from(next).unwrap_or(i64::MAX)))
}

/// The answer of an operation, as JSON.
pub fn answer<T: Serialize>(answer: &T) -> Result<Value, Problem> {
    serde_json::to_value(answer).map_err(|error| Problem::ours(format!("JSON: {error}")))
}
