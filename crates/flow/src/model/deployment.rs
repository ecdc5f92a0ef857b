//! A deployment: what was brought where, and what it carried.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tools::serve::call::Problem;

use super::{Columns, Document, ObjectKind, Stamp, problem};

/// How far a deployment is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeploymentStatus {
    Pending,
    #[default]
    Deployed,
    Failed,
    RolledBack,
}

impl DeploymentStatus {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            DeploymentStatus::Pending => "pending",
            DeploymentStatus::Deployed => "deployed",
            DeploymentStatus::Failed => "failed",
            DeploymentStatus::RolledBack => "rolled_back",
        }
    }

    /// What may follow.
    pub fn next(self) -> &'static [DeploymentStatus] {
        use DeploymentStatus::{Deployed, Failed, Pending, RolledBack};
        match self {
            Pending => &[Deployed, Failed],
            Deployed => &[RolledBack, Failed],
            Failed => &[Pending, Deployed, RolledBack],
            RolledBack => &[],
        }
    }

    /// Refuses what may not follow, and says what may.
    pub fn to(self, next: DeploymentStatus) -> Result<DeploymentStatus, Problem> {
        if self == next || self.next().contains(&next) {
            return Ok(next);
        }
        let may: Vec<&str> = self.next().iter().map(|next| next.as_str()).collect();
        let may = match may.is_empty() {
            true => "nothing may: record another deployment".to_owned(),
            false => format!("what may is {}", may.join(", ")),
        };
        Err(problem(
            "status_not_allowed",
            format!(
                "`status`: {} may not follow {}; {may}",
                next.as_str(),
                self.as_str()
            ),
        ))
    }
}

/// Where something is brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Environment {
    #[default]
    Production,
    Staging,
    Dev,
}

impl Environment {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Environment::Production => "production",
            Environment::Staging => "staging",
            Environment::Dev => "dev",
        }
    }
}

/// A deployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Deployment {
    #[serde(flatten)]
    pub stamp: Stamp,
    /// Where it was brought.
    pub environment: Environment,
    /// How far it is.
    pub status: DeploymentStatus,
    /// The commit that was deployed.
    pub commit_sha: String,
    /// The branch of that commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_message: Option<String>,
    /// Who wrote the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author_name: Option<String>,
    /// Where they are written to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author_email: Option<String>,
    /// When it was deployed.
    pub deployed_at: String,
    /// Ids of the work items that it carried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub work_item_ids: Vec<String>,
    /// Ids of entities that it has to do with, such as vendors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entity_ids: Vec<String>,
    /// Anything else, as a JSON object.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl Document for Deployment {
    const KIND: ObjectKind = ObjectKind::Deployment;

    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn stamp_mut(&mut self) -> &mut Stamp {
        &mut self.stamp
    }

    fn columns(&self) -> Columns {
        let items = self.work_item_ids.iter().map(|id| ("carried", id.clone()));
        let entities = self.entity_ids.iter().map(|id| ("about", id.clone()));
        let mut body = self.commit_sha.clone();
        let more = [&self.branch, &self.commit_message, &self.author_name];
        for text in more.into_iter().flatten() {
            body.push('\n');
            body.push_str(text);
        }
        super::item::texts(&Value::Object(self.metadata.clone()), &mut body);
        let title = format!("{} {}", self.environment.as_str(), self.status.as_str());
        Columns {
            type_name: Some(self.environment.as_str().to_owned()),
            status: Some(self.status.as_str().to_owned()),
            text: Some((title, body)),
            edges: items.chain(entities).collect(),
            ..Columns::default()
        }
    }
}
