//! A lease: who works on an item, and until when. Its token grows with each claim, so that who slept past the end of a lease
//! cannot write as if it held it still.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Columns, Document, ObjectKind, Stamp};

/// The lease of one item.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lease {
    #[serde(flatten)]
    pub stamp: Stamp,
    /// The id of the item.
    pub item: String,
    /// Who holds it; nobody after it was given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The number of the claim: writes under the lease name it.
    pub token: i64,
    /// When it ends.
    pub until: String,
}

impl Lease {
    /// The id of an item's lease.
    pub fn id_of(item: &str) -> String {
        format!("lease:{item}")
    }

    /// Who holds it now.
    pub fn holder(&self, now: &str) -> Option<&str> {
        self.agent.as_deref().filter(|_| self.until.as_str() > now)
    }
}

impl Document for Lease {
    const KIND: ObjectKind = ObjectKind::Lease;

    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn stamp_mut(&mut self) -> &mut Stamp {
        &mut self.stamp
    }

    fn columns(&self) -> Columns {
        Columns {
            parent: Some(self.item.clone()),
            assignee: self.agent.clone(),
            until: Some(self.until.clone()),
            ..Columns::default()
        }
    }
}
