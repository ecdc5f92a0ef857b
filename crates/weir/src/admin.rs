//! The admin API: what the operator may do at the admin listener, who is known there, and in which role.
//!
//! [`actions::ACTIONS`] is the one table: the router asks it which role an action needs, the OpenAPI document and the reference page
//! are made of it, and a test tries each of its rows in every role.
//!
//! ```text
//! request ─► access: who asks, in which role ─► actions: what is asked, which role it needs ─► record ─► the page or the lane
//! ```

pub(crate) mod access;
pub(crate) mod actions;
pub(crate) mod body;
pub(crate) mod break_glass;
pub(crate) mod openapi;
pub(crate) mod shapes;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What somebody may do at the admin listener. Each may do what those before it may.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AdminRole {
    /// Reads everything.
    Auditor,
    /// Stops, suspends, approves and takes back.
    Operator,
    /// Lets new ones in: invites and keys.
    Admin,
}

impl AdminRole {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            AdminRole::Auditor => "auditor",
            AdminRole::Operator => "operator",
            AdminRole::Admin => "admin",
        }
    }
}

impl fmt::Display for AdminRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who asks at the admin listener, once it is known. A lane finds it in the request's extensions.
#[derive(Clone, Debug)]
pub(crate) struct AdminActor {
    /// As records name it: `uid 1000`, `ci`, `break-glass`, `admin at 127.0.0.1`.
    pub(crate) by: String,
    pub(crate) role: AdminRole,
}
