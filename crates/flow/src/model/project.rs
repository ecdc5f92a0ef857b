//! A project: what everything else stands in. Nothing of one is told to who asks about another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Columns, Document, ObjectKind, Stamp};

/// A project.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Project {
    #[serde(flatten)]
    pub stamp: Stamp,
    /// Its name, which no other project has.
    pub name: String,
    /// What it is about.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether it is put away: it is read, and not written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
}

impl Document for Project {
    const KIND: ObjectKind = ObjectKind::Project;

    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn stamp_mut(&mut self) -> &mut Stamp {
        &mut self.stamp
    }

    fn columns(&self) -> Columns {
        let status = if self.archived { "archived" } else { "open" };
        Columns {
            status: Some(status.to_owned()),
            name: Some(self.name.to_lowercase()),
            ..Columns::default()
        }
    }
}
