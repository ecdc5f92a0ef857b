//! The `log` section of a configuration: its keys, what they mean, and their defaults.

use std::path::PathBuf;

use config::kinds::{Count, FilePath, plain, some};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Durability;

type Bytes = Count<{ 1 << 20 }, { 1 << 50 }>;

/// The log of records: what every agent asked, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// When a record counts as kept: once the disk says so, or once the operating system has it.
    #[schemars(example = &"fsync")]
    pub durability: Durability,
    /// Bytes on disk after which calls are refused rather than unrecorded.
    #[serde(deserialize_with = "plain::<Bytes, _, _>")]
    #[schemars(with = "Bytes", example = &"10737418240")]
    pub bytes_max: u64,
    /// A file outside the log's folder, relative to this file, that keeps the newest signed checkpoint; the
    /// gateway starts only on a log that follows it.
    #[serde(deserialize_with = "some::<FilePath, _, _>")]
    #[schemars(with = "Option<FilePath>", example = &"/mnt/witness/weir")]
    pub witness: Option<PathBuf>,
}

impl Default for Log {
    fn default() -> Log {
        Log {
            durability: Durability::Fsync,
            bytes_max: 10 << 30,
            witness: None,
        }
    }
}
