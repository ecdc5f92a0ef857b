//! The `store` section of a configuration.

use config::{Count, Reference};
use schemars::JsonSchema;
use serde::Deserialize;

/// What replicas share, in PostgreSQL.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = &"{ postgres: env:DATABASE_URL, passphrase: file:store.pass }")]
pub struct StoreSection {
    /// The URL of the database, of a role that owns nothing in it; TLS is asked for unless it says sslmode=disable.
    #[schemars(required, example = &"env:DATABASE_URL")]
    pub postgres: Option<Reference>,
    /// What the keys in the database are sealed with, 12 characters or more; the same for all replicas.
    #[schemars(required, example = &"file:store.pass")]
    pub passphrase: Option<Reference>,
    /// For how many seconds calls go on when the database is away, or records do not reach it.
    #[schemars(example = &"60")]
    #[serde(default = "outage_max")]
    pub outage_max: Count<1, 86_400>,
}

fn outage_max() -> Count<1, 86_400> {
    Count(60)
}
