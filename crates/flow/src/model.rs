//! What is kept, and what may follow what. Nothing here reads a file or a clock.

pub mod bounds;
pub mod contains;
pub mod cost;
pub mod deployment;
pub mod entity;
pub mod evolve;
pub mod filter;
pub mod item;
pub mod lease;
pub mod patch;
pub mod project;
pub mod shipped;
pub mod status;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tools::serve::call::Problem;

pub use deployment::Deployment;
pub use entity::{Entity, EntityType};
pub use item::WorkItem;
pub use lease::Lease;
pub use project::Project;
pub use status::Status;

/// What every object has: whose it is, which version, and who wrote it when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stamp {
    /// Its id.
    pub id: String,
    /// The id of its project.
    pub project: String,
    /// Counts its changes from 1; a change names the version that it is made to.
    pub version: i64,
    /// When it was made.
    pub created_at: String,
    /// Who made it.
    pub created_by: String,
    /// When it was changed last.
    pub updated_at: String,
    /// Who changed it last.
    pub updated_by: String,
    /// When it was deleted; it can be restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<String>,
}

/// Which of the six an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    Project,
    Item,
    Lease,
    EntityType,
    Entity,
    Deployment,
}

impl ObjectKind {
    /// Every kind, a project before what stands in it.
    pub const ALL: [ObjectKind; 6] = [
        ObjectKind::Project,
        ObjectKind::EntityType,
        ObjectKind::Entity,
        ObjectKind::Item,
        ObjectKind::Lease,
        ObjectKind::Deployment,
    ];

    /// Its word, as it is kept.
    pub fn as_str(self) -> &'static str {
        match self {
            ObjectKind::Project => "project",
            ObjectKind::Item => "item",
            ObjectKind::Lease => "lease",
            ObjectKind::EntityType => "entity_type",
            ObjectKind::Entity => "entity",
            ObjectKind::Deployment => "deployment",
        }
    }

    /// The kind of a word.
    pub fn of(word: &str) -> Option<ObjectKind> {
        ObjectKind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == word)
    }
}

/// The columns that an object is found by. They follow from its document, so that they can be made anew from it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// Its type, within its kind.
    pub type_name: Option<String>,
    /// Its status.
    pub status: Option<String>,
    /// The item above it, or that it belongs to.
    pub parent: Option<String>,
    /// Its number in the project.
    pub number: Option<i64>,
    /// Its name, in lower case.
    pub name: Option<String>,
    /// Who has it.
    pub assignee: Option<String>,
    /// How urgent it is, 1 first.
    pub priority: Option<i64>,
    /// Until when it holds.
    pub until: Option<String>,
    /// For full-text search: what it is called, and the rest.
    pub text: Option<(String, String)>,
    /// What it points to: the relation, and an id or a tag.
    pub edges: Vec<(&'static str, String)>,
    /// The JSON that filters look into, by the type that it is of.
    pub facts: Option<(String, Value)>,
}

/// An object that is kept as one JSON document.
pub trait Document: Clone + Serialize + DeserializeOwned {
    /// Which kind it is.
    const KIND: ObjectKind;

    /// What every object has.
    fn stamp(&self) -> &Stamp;

    /// The same, to be changed.
    fn stamp_mut(&mut self) -> &mut Stamp;

    /// What it is found by.
    fn columns(&self) -> Columns;
}

/// A problem with a word for programs and what to do about it.
pub fn problem(code: &str, message: impl Into<String>) -> Problem {
    Problem {
        code: code.to_owned(),
        message: message.into(),
        data: None,
    }
}

/// A problem that carries more for programs: the current row, or the rows that would break.
pub fn problem_with(code: &str, message: impl Into<String>, data: Value) -> Problem {
    Problem {
        data: Some(Box::new(data)),
        ..problem(code, message)
    }
}

/// The time of a text as RFC 3339 writes it, in milliseconds since 1970.
pub fn time_ms(text: &str) -> Option<u64> {
    let at =
        time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).ok()?;
    u64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok()
}

/// A time that was given, in UTC to the millisecond.
pub fn time(field: &str, text: &str) -> Result<String, Problem> {
    // A day alone, and a time without a zone, are of UTC.
    let forms = [
        text.to_owned(),
        format!("{text}Z"),
        format!("{text}T00:00:00Z"),
    ];
    let ms = forms
        .iter()
        .find_map(|form| time_ms(&form.replacen(' ', "T", 1)));
    ms.map(base::clock::rfc3339).ok_or_else(|| {
        Problem::argument(format!(
            "`{field}`: {text:?} is no time; write it as 2026-11-21T14:25:30Z"
        ))
    })
}
