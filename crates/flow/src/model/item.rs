//! A work item: what is to be done, in a hierarchy, with what it waits for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tools::serve::call::Problem;

use super::{Columns, Document, ObjectKind, Stamp, Status, bounds};

/// What kind of work an item is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ItemType {
    Project,
    Session,
    #[default]
    Task,
    Research,
    Subtask,
}

impl ItemType {
    /// Every type.
    pub const ALL: [ItemType; 5] = [
        ItemType::Project,
        ItemType::Session,
        ItemType::Task,
        ItemType::Research,
        ItemType::Subtask,
    ];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            ItemType::Project => "project",
            ItemType::Session => "session",
            ItemType::Task => "task",
            ItemType::Research => "research",
            ItemType::Subtask => "subtask",
        }
    }

    /// The type of a word.
    pub fn of(word: &str) -> Option<ItemType> {
        ItemType::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// How an item depends on another.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The other has to be completed first.
    #[default]
    Blocks,
    /// The two have to do with each other.
    #[serde(alias = "relates")]
    RelatesTo,
    /// It is the same as the other.
    Duplicates,
}

impl Relation {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Relation::Blocks => "blocks",
            Relation::RelatesTo => "relates_to",
            Relation::Duplicates => "duplicates",
        }
    }

    /// Whether a circle of these makes no sense.
    pub fn is_acyclic(self) -> bool {
        !matches!(self, Relation::RelatesTo)
    }
}

/// What an item depends on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Dependency {
    /// The id of the other item.
    pub id: String,
    /// How.
    #[serde(rename = "type", default)]
    pub relation: Relation,
}

/// A stable reference into code, as code search gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodeRef {
    /// The repository.
    pub repo: String,
    /// The file, from the root of the repository.
    pub path: String,
    /// What is defined there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// The lines, such as 12-40.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<String>,
    /// Whether the code was found changed or gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}

/// A work item.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkItem {
    #[serde(flatten)]
    pub stamp: Stamp,
    /// Its number in the project; `#7` names it wherever an id is asked for.
    pub number: i64,
    /// What kind of work it is.
    #[serde(rename = "type")]
    pub item_type: ItemType,
    /// What is to be done.
    pub title: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// How far it is.
    pub status: Status,
    /// How urgent it is: 1 first, 5 last.
    pub priority: u8,
    /// The item above it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Who works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
    /// Why it cannot go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_reason: Option<String>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Where it is planned: paths of documents or URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planning_references: Vec<String>,
    /// Branches of git that it is done on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<String>,
    /// Commits that belong to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<String>,
    /// Code that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub code_refs: Vec<CodeRef>,
    /// Ids of entities that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entity_refs: Vec<String>,
    /// What it depends on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<Dependency>,
    /// Anything else, as a JSON object.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// When it was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
}

impl Document for WorkItem {
    const KIND: ObjectKind = ObjectKind::Item;

    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn stamp_mut(&mut self) -> &mut Stamp {
        &mut self.stamp
    }

    fn columns(&self) -> Columns {
        let edges = self
            .depends_on
            .iter()
            .map(|edge| (edge.relation.as_str(), edge.id.clone()));
        let tags = self.tags.iter().map(|tag| ("tag", tag.clone()));
        let entities = self.entity_refs.iter().map(|id| ("about", id.clone()));
        let metadata = Value::Object(self.metadata.clone());
        let mut body = self.description.clone();
        let lists = [
            &self.tags,
            &self.branches,
            &self.commits,
            &self.planning_references,
        ];
        let words = lists.into_iter().flatten().chain(&self.blocked_reason);
        for word in words {
            body.push('\n');
            body.push_str(word);
        }
        texts(&metadata, &mut body);
        Columns {
            type_name: Some(self.item_type.as_str().to_owned()),
            status: Some(self.status.as_str().to_owned()),
            parent: self.parent.clone(),
            number: Some(self.number),
            name: None,
            assignee: self.assignee.clone(),
            priority: Some(self.priority.into()),
            until: None,
            text: Some((self.title.clone(), body)),
            edges: edges.chain(tags).chain(entities).collect(),
            facts: Some((format!("item:{}", self.item_type.as_str()), metadata)),
        }
    }
}

impl WorkItem {
    /// Sets the status where it may follow, and what goes with it.
    pub fn set_status(&mut self, next: Status, now: &str) -> Result<(), Problem> {
        let next = self.status.to(next)?;
        if next == Status::Completed && self.status != Status::Completed {
            self.completed_at = Some(now.to_owned());
        }
        if next != Status::Completed {
            self.completed_at = None;
        }
        if next != Status::Blocked {
            self.blocked_reason = None;
        }
        self.status = next;
        Ok(())
    }

    /// Sets the priority.
    pub fn set_priority(&mut self, priority: i64) -> Result<(), Problem> {
        self.priority = u8::try_from(priority)
            .ok()
            .filter(|priority| (1..=5).contains(priority))
            .ok_or_else(|| Problem::argument("`priority`: must be 1 (first) to 5 (last)"))?;
        Ok(())
    }

    /// Sets the references into code.
    pub fn set_code_refs(&mut self, refs: &[CodeRef]) -> Result<(), Problem> {
        if refs.len() > bounds::LIST_MAX {
            let what = format!("`code_refs`: at most {} are kept", bounds::LIST_MAX);
            return Err(Problem::argument(what));
        }
        for of in refs {
            bounds::title("code_refs.repo", &of.repo)?;
            bounds::within("code_refs.path", &of.path, 1000)?;
            let more = of.symbol.iter().chain(&of.lines);
            more.into_iter()
                .try_for_each(|text| bounds::within("code_refs", text, 500).map(drop))?;
        }
        self.code_refs = refs.to_vec();
        Ok(())
    }
}

/// The texts in some JSON, one a line.
pub fn texts(value: &Value, into: &mut String) {
    match value {
        Value::String(text) => {
            into.push('\n');
            into.push_str(text);
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, into)),
        Value::Object(map) => map.values().for_each(|value| texts(value, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
