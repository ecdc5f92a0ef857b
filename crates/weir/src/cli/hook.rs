//! Where `weir hook` keeps its records: a log of its own in a state folder, signed and chained as the gateway's.
//!
//! It is none of the gateway's logs, which have one writer for as long as it runs. Hooks are processes of a moment and
//! share one log: each takes it, puts its record there, and ends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use scancli::HookLog;
use store::{Durability, LogSettings, State, StateError};

use super::state_folder;

/// How long a hook waits for others that write the log. Coding agents give a hook ten seconds, and let pass what takes
/// longer.
const WAIT: Duration = Duration::from_secs(3);
/// Bytes of the log after which nothing more is recorded: about a million events.
const LOG_BYTES_MAX: u64 = 1 << 30;
/// Most bytes of the list of users that is read.
const USERS_BYTES_MAX: u64 = 1 << 20;

/// The state folder of hooks.
struct HookState {
    dir: PathBuf,
    state: State,
}

/// The log of hooks: in this folder, or below the state folder of this configuration, or where it is by default.
pub(super) fn log(state: Option<&Path>, config: Option<&Path>) -> Result<Box<dyn HookLog>, String> {
    let dir = match (state, config) {
        (Some(state), _) => state.to_owned(),
        (None, Some(config)) => of_config(config)?.join("hook"),
        (None, None) => by_default()?,
    };
    let state = State::open(&dir).map_err(told)?;
    Ok(Box::new(HookState { dir, state }))
}

fn of_config(config: &Path) -> Result<PathBuf, String> {
    crate::config::read::state(config).map_err(|problems| {
        let first = problems.first().map(ToString::to_string);
        first.unwrap_or_else(|| format!("{} names no state folder", config.display()))
    })
}

/// Coding agents may start a hook without `HOME`, and then the system knows the folder.
fn by_default() -> Result<PathBuf, String> {
    state_folder("hook").or_else(|failure| {
        let home = home().ok_or_else(|| failure.to_string())?;
        Ok(home.join(".local/state/weir/hook"))
    })
}

fn home() -> Option<PathBuf> {
    use std::io::Read as _;
    use std::os::unix::fs::MetadataExt as _;

    let uid = std::fs::metadata("/proc/self").ok()?.uid();
    let mut users = String::new();
    let file = std::fs::File::open("/etc/passwd").ok()?;
    file.take(USERS_BYTES_MAX).read_to_string(&mut users).ok()?;
    home_of(uid, &users)
}

/// The home folder of a user in a list as `passwd`(5) has it.
fn home_of(uid: u32, users: &str) -> Option<PathBuf> {
    let of = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_theirs = fields.get(2)?.parse() == Ok(uid);
        let home = Path::new(*fields.get(5)?);
        (is_theirs && home.is_absolute()).then(|| home.to_owned())
    };
    users.lines().find_map(of)
}

fn told(error: StateError) -> String {
    error.to_string()
}

impl HookLog for HookState {
    fn key(&self) -> Result<[u8; 32], String> {
        self.state.key("fingerprint.key").map_err(told)
    }

    fn keep(&self, record: &[u8]) -> Result<(), String> {
        let settings = LogSettings {
            origin: String::new(),
            durability: Durability::Os,
            bytes_max: LOG_BYTES_MAX,
        };
        let kept = self.state.keep_once(&settings, record, WAIT);
        kept.map_err(|error| {
            let dir = self.dir.display();
            format!(
                "{error}; see weir audit verify --state {dir}, or name another folder with --state"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_home() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken:x:7\ndev:x:1000:1000::/home/dev:/bin/sh\nno:x:8:8::none:/bin/sh\n";
        assert_eq!(home_of(1000, users), Some("/home/dev".into()));
        assert_eq!(home_of(7, users), None);
        assert_eq!(home_of(8, users), None);
        assert_eq!(home_of(9, users), None);
    }
}
