//! The tools of workflow-mcp, by their names, arguments, words and envelopes: the 20 of its later generation and those of
//! the 14 of its earlier one whose names the later did not take again.
//!
//! They do what ours do, so a circle, a version and an archived project are refused here, too. Who writes is who calls,
//! whatever `created_by` or `updated_by` says. `switch_project` holds for its session.

mod deployments;
mod entities;
mod projects;
mod tasks;
mod vendors;
mod work;

use serde_json::{Map, Value, json};
use tools::serve::call::{Problem, Said};

pub(crate) use deployments::{GET_DEPLOYMENT, LIST_DEPLOYMENTS, RECORD_DEPLOYMENT};
pub(crate) use entities::{
    CREATE_ENTITY, DELETE_ENTITY, EVOLVE_TYPE, QUERY_ENTITIES, REGISTER_TYPE, UPDATE_ENTITY,
};
pub(crate) use projects::{ACTIVE_PROJECT, CREATE_PROJECT, LIST_PROJECTS, SWITCH_PROJECT};
pub(crate) use tasks::{CREATE_TASK, GET_TASK, LIST_TASKS, UPDATE_TASK};
pub(crate) use vendors::{
    CREATE_VENDOR, GET_CONFIGURATION, UPDATE_CONFIGURATION, UPDATE_VENDOR, VENDOR_STATUS,
};
pub(crate) use work::{
    ADD_DEPENDENCY, BLOCKED_ITEMS, CREATE_ITEM, DELETE_ITEM, ITEM_HIERARCHY, LIST_ITEMS,
    QUERY_ITEM, QUERY_ITEMS, UPDATE_ITEM,
};

/// Arguments with a project of the peer's.
macro_rules! theirs {
    ($($of:ty),+) => {
        $(impl crate::ops::Scoped for $of {
            fn project(&self) -> Option<&str> {
                self.project_id.as_deref()
            }
        })+
    };
}
pub(crate) use theirs;

/// The schema of the peer's answers, which it never said.
pub(crate) fn any_answer() -> Map<String, Value> {
    let schema = json!({ "type": "object", "properties": {}, "additionalProperties": true });
    match schema {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// A problem in the peer's words.
pub(crate) fn translated(result: Result<Said, Problem>) -> Result<Said, Problem> {
    result.map_err(|problem| {
        let code = match problem.code.as_str() {
            "no_project" => "NO_ACTIVE_PROJECT",
            "not_found" => "NOT_FOUND",
            "unavailable" | "failed" => "DATABASE_ERROR",
            "conflict" => "VERSION_CONFLICT",
            _ => "VALIDATION_ERROR",
        };
        let mut data = json!({ "reason": problem.code });
        if let (Some(Value::Object(more)), Value::Object(map)) =
            (problem.data.as_deref(), &mut data)
        {
            map.extend(more.clone());
        }
        Problem {
            code: code.to_owned(),
            message: problem.message,
            data: Some(Box::new(data)),
        }
    })
}

/// A number of rows in the peer's bounds.
pub(crate) fn rows(limit: Option<i64>, default: i64) -> Result<usize, Problem> {
    let limit = limit.unwrap_or(default);
    usize::try_from(limit)
        .ok()
        .filter(|limit| (1..=100).contains(limit))
        .ok_or_else(|| Problem::argument("`limit`: must be 1 to 100"))
}

/// Rows behind an offset, as the peer counts them.
pub(crate) fn skipped(offset: Option<i64>) -> Result<usize, Problem> {
    usize::try_from(offset.unwrap_or_default())
        .ok()
        .filter(|offset| *offset <= OFFSET_MAX)
        .ok_or_else(|| Problem::argument(format!("`offset`: must be 0 to {OFFSET_MAX}")))
}

/// Farthest offset: what is behind it is found by ours, which have cursors.
const OFFSET_MAX: usize = 10_000;
