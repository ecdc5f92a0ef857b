//! The `log` section of a configuration: its keys, what they mean, and their defaults.

use std::path::PathBuf;

use config::kinds::{Count, FilePath, plain, some};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Durability;
use crate::note::is_key_name;

/// The name of a log in its checkpoints: that of a key of a signed note.
struct LogOrigin(String);

config::scalar!(LogOrigin, log_origin, "name of a log", {
    "type": "string", "pattern": r"^[^\s+]{1,255}$"
});

impl From<LogOrigin> for String {
    fn from(origin: LogOrigin) -> String {
        origin.0
    }
}

fn log_origin(text: &str) -> Result<LogOrigin, String> {
    match is_key_name(text) && text.len() <= 255 {
        true => Ok(LogOrigin(text.to_owned())),
        false => Err("must have 1 to 255 bytes, and neither white space nor a +".to_owned()),
    }
}

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
    /// What the signed checkpoints of the log call it, for a log that begins; without it, a name is made at
    /// random. It never changes.
    #[serde(deserialize_with = "some::<LogOrigin, _, _>")]
    #[schemars(with = "Option<LogOrigin>", example = &"weir.example/replica-1")]
    pub origin: Option<String>,
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
            origin: None,
            witness: None,
        }
    }
}
