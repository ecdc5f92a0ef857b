//! `dependency`: what an item depends on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tools::serve::call::Problem;

use super::items::{ItemAnswer, depend};
use super::{guard, item, item_id, writable};
use crate::model::item::Relation;
use crate::model::{Project, problem};
use crate::store::Tx;

/// What is done to a dependency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DependencyAction {
    #[default]
    Add,
    Remove,
}

/// Arguments of `dependency`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DependencyCall {
    /// The id or name of the project; the session's where none is named.
    pub project: Option<String>,
    /// add (the default) or remove.
    pub action: DependencyAction,
    /// The item that depends: its id, or #7 for number 7.
    #[schemars(required)]
    pub id: String,
    /// The item that it depends on.
    #[schemars(required)]
    pub depends_on: String,
    /// blocks (the default): the other has to be completed first; relates_to; duplicates.
    #[serde(rename = "type")]
    pub relation: Relation,
    /// A text of yours: the same call with the same key is done once.
    pub idempotency_key: Option<String>,
}
super::scoped!(DependencyCall, keyed);

/// Adds or takes away a dependency. What is so already stays as it is.
pub fn change(
    tx: &Tx<'_>,
    project: &Project,
    call: &DependencyCall,
) -> Result<ItemAnswer, Problem> {
    writable(project)?;
    let mut of = item(tx, project, "id", &call.id)?;
    guard(tx, &of.stamp.id, None)?;
    let changed = match call.action {
        DependencyAction::Add => depend(tx, project, &mut of, &call.depends_on, call.relation)?,
        DependencyAction::Remove => {
            let on = item_id(tx, project, "depends_on", &call.depends_on)?;
            let before = of.depends_on.len();
            of.depends_on
                .retain(|edge| edge.id != on || edge.relation != call.relation);
            if of.depends_on.len() == before {
                return Err(problem(
                    "not_found",
                    format!(
                        "`depends_on`: item #{} does not depend on it by {}",
                        of.number,
                        call.relation.as_str()
                    ),
                ));
            }
            true
        }
    };
    if changed {
        tx.put(&mut of)?;
    }
    Ok(ItemAnswer {
        item: of,
        warnings: Vec::new(),
    })
}
