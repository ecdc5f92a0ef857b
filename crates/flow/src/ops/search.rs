//! `search`: full-text search over items, entities and deployments.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tools::serve::call::Problem;

use super::cursor::QueryMark;
use super::{limit, offset_page};
use crate::model::{Deployment, Entity, ObjectKind, Project, WorkItem};
use crate::store::Tx;

/// Words of a query that count.
const WORDS_MAX: usize = 16;
/// Longest query, in characters.
const QUERY_CHARS_MAX: usize = 500;

/// What is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchedKind {
    Item,
    Entity,
    Deployment,
}

/// Arguments of `search`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SearchCall {
    /// The id or name of the project; the session's where none is named.
    pub project: Option<String>,
    /// Words that all have to be there; a word counts where it begins another.
    #[schemars(required)]
    pub query: String,
    /// What is searched: item, entity, deployment; all where none is named.
    pub kinds: Option<Vec<SearchedKind>>,
    /// Most hits, 1 to 100; 20 where none is given.
    pub limit: Option<u32>,
    /// Where the list goes on.
    pub cursor: Option<String>,
}
super::scoped!(SearchCall);

/// What was found.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SearchHit {
    /// item, entity or deployment.
    pub kind: ObjectKind,
    /// Its id.
    pub id: String,
    /// The number of an item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<i64>,
    /// What it is called.
    pub title: String,
    /// Its status; an entity has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Its type, or the environment of a deployment.
    #[serde(rename = "type")]
    pub type_name: String,
    /// How well it fits; more is better.
    pub score: f64,
}

/// The answer of `search`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SearchAnswer {
    /// What was found, best first.
    pub hits: Vec<SearchHit>,
    /// Where the list goes on; none at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Searches.
pub fn run(tx: &Tx<'_>, project: &Project, call: &SearchCall) -> Result<SearchAnswer, Problem> {
    let mark = QueryMark::of("search", &project.stamp.id, call);
    let limit = limit(call.limit)?;
    let place = mark.place(call.cursor.as_deref())?.unwrap_or_default();
    let offset = usize::try_from(place).unwrap_or(usize::MAX);
    let words = words(&call.query)?;
    let kinds: Vec<ObjectKind> = match call.kinds.as_deref() {
        None | Some([]) => vec![ObjectKind::Item, ObjectKind::Entity, ObjectKind::Deployment],
        Some(kinds) => kinds
            .iter()
            .map(|kind| match kind {
                SearchedKind::Item => ObjectKind::Item,
                SearchedKind::Entity => ObjectKind::Entity,
                SearchedKind::Deployment => ObjectKind::Deployment,
            })
            .collect(),
    };
    let found = tx.search(&project.stamp.id, &words, &kinds, limit + 1, offset)?;
    let (found, next) = offset_page(found, limit, offset);
    let hits = found
        .into_iter()
        .map(|(kind, id, score)| hit(tx, kind, id, score));
    Ok(SearchAnswer {
        hits: hits
            .filter_map(Result::transpose)
            .collect::<Result<_, _>>()?,
        cursor: next.map(|place| mark.cursor(place)),
    })
}

fn hit(
    tx: &Tx<'_>,
    kind: ObjectKind,
    id: String,
    score: f64,
) -> Result<Option<SearchHit>, Problem> {
    let of = |number, title, status, type_name| SearchHit {
        kind,
        id: id.clone(),
        number,
        title,
        status,
        type_name,
        score: (score * 1000.0).round() / 1000.0,
    };
    Ok(match kind {
        ObjectKind::Item => tx.find::<WorkItem>(&id)?.map(|item| {
            of(
                Some(item.number),
                item.title,
                Some(item.status.as_str().to_owned()),
                item.item_type.as_str().to_owned(),
            )
        }),
        ObjectKind::Entity => tx
            .find::<Entity>(&id)?
            .map(|entity| of(None, entity.name, None, entity.entity_type)),
        ObjectKind::Deployment => tx.find::<Deployment>(&id)?.map(|deployment| {
            let status = deployment.status.as_str().to_owned();
            let environment = deployment.environment.as_str().to_owned();
            of(
                None,
                deployment.commit_message.unwrap_or(deployment.commit_sha),
                Some(status),
                environment,
            )
        }),
        ObjectKind::Project | ObjectKind::Lease | ObjectKind::EntityType => None,
    })
}

/// The words of a query; whatever else is in it counts for nothing.
fn words(query: &str) -> Result<Vec<&str>, Problem> {
    if query.chars().count() > QUERY_CHARS_MAX {
        return Err(Problem::argument(format!(
            "`query`: has at most {QUERY_CHARS_MAX} characters"
        )));
    }
    let words: Vec<&str> = query
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .take(WORDS_MAX)
        .collect();
    match words.is_empty() {
        true => Err(Problem::argument(
            "`query`: has no word; work_item_query lists everything",
        )),
        false => Ok(words),
    }
}
