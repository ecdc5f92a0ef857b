//! The record of an approval: who approved which definition, in a log that shows when it was changed.
//!
//! A gateway that runs holds its own log, so what administrators do stands in another one beside it, of the same
//! kind: `log.admin` in the state folder, which `weir audit` verifies and shows. A tool is approved after its
//! record is on the disk, and not at all where it cannot be written.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use base::Name;
use base::clock::Now;
use base::record::Approval;
use gate::ports::Recorder;
use store::log::{Durability, Log, LogError, LogSettings};
use store::pins::Pin;
use store::state::make_dir;

use super::Failure;

/// The folder of the log, in the state folder.
const FOLDER: &str = "log.admin";
/// What its checkpoints call it.
const ORIGIN: &str = "weir.local/log.admin";
/// Bytes of the whole log: a million approvals.
const LOG_BYTES_MAX: u64 = 1 << 30;
/// How long another approval is waited for.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How often it is looked whether that one has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The login id of a process that nobody logged in for (`proc_pid_loginuid`(5)).
const NO_LOGIN: u32 = u32::MAX;

/// The log of approvals, and who approves.
pub(super) struct Approvals {
    log: Log,
    by: String,
    login: Option<String>,
}

impl Approvals {
    /// Opens the log of a state folder, or begins it.
    pub(super) fn open(state: &Path) -> Result<Approvals, Failure> {
        let dir = state.join(FOLDER);
        make_dir(&dir).map_err(|error| not_recorded(error.to_string()))?;
        let log = open(&dir)
            .map_err(|error| not_recorded(format!("the log in {}: {error}", dir.display())))?;
        let (by, login) = who().map_err(|error| not_recorded(format!("who this is: {error}")))?;
        Ok(Approvals { log, by, login })
    }

    /// Records that what waits of a tool is approved now, in Unix milliseconds.
    pub(super) fn record(
        &self,
        server: &Name,
        tool: &str,
        pin: &Pin,
        now_ms: u64,
    ) -> Result<(), Failure> {
        let Some(waiting) = &pin.waiting else {
            return Ok(());
        };
        let approval = Approval {
            at: Now {
                unix_ms: now_ms,
                mono_ms: 0,
            },
            by: &self.by,
            login: self.login.as_deref(),
            server: server.as_str(),
            tool,
            digest: waiting.digest,
            before: pin.approved.as_ref().map(|approved| approved.digest),
        };
        match self.log.append(approval.to_json()).blocking_recv() {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(not_recorded(format!("the log: {error}"))),
            Err(_) => Err(not_recorded("the log took no record".to_owned())),
        }
    }

    /// Signs what was recorded.
    pub(super) fn close(self) -> Result<(), Failure> {
        let closed = self.log.close();
        closed.map_err(|error| not_recorded(format!("the log: {error}")))
    }
}

/// Who runs this, as the system knows them, and who they logged in as where it keeps that.
pub(crate) fn who() -> std::io::Result<(String, Option<String>)> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let by = std::fs::metadata("/proc/self")?.uid();
    let login = std::fs::read_to_string("/proc/self/loginuid").ok();
    let login = login.and_then(|text| text.trim().parse().ok());
    let login = login.filter(|id| *id != NO_LOGIN);
    Ok((named(by, &users), login.map(|id| named(id, &users))))
}

/// Opens the log, after whoever writes it now.
fn open(dir: &Path) -> Result<Log, LogError> {
    let began = Instant::now();
    loop {
        let settings = LogSettings {
            origin: ORIGIN.to_owned(),
            durability: Durability::Fsync,
            bytes_max: LOG_BYTES_MAX,
        };
        match Log::open(dir, settings) {
            Err(LogError::Locked) if began.elapsed() < WAIT_MAX => std::thread::sleep(LOOK_EVERY),
            opened => return opened,
        }
    }
}

fn not_recorded(why: String) -> Failure {
    Failure::new(
        format!("the approval cannot be recorded: {why}"),
        "Nothing was approved.",
    )
}

/// A user's name and number; the number alone where the system has no name for it.
fn named(id: u32, users: &str) -> String {
    let of = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    };
    match users.lines().find_map(of) {
        Some(name) => format!("{name} ({id})"),
        None => id.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_name_or_a_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\ndev:x:1000:1000::/home/dev:/bin/sh\n";
        assert_eq!(named(0, users), "root (0)");
        assert_eq!(named(1000, users), "dev (1000)");
        assert_eq!(named(7, users), "7");
        assert_eq!(named(0, ""), "0");
    }
}
