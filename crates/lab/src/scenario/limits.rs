//! What this machine must give before load is sent: descriptors, and places to write to.

use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::plan::Plan;
use config::Problem;

/// Descriptors beside the connections: files, timers, watched endpoints.
pub(super) const DESCRIPTORS_SLACK: u64 = 64;
/// Descriptors of one generator thread beside its connections.
pub(super) const DESCRIPTORS_THREAD: u64 = 8;

/// Sees to it that there are descriptors enough, by raising the soft limit where that is allowed.
///
/// # Errors
///
/// The hard limit is too low; the problem says how many are needed.
pub(super) fn descriptors(plan: &Plan) -> Result<(), Problem> {
    let each = |flow: &std::sync::Arc<crate::plan::Flow>| {
        flow.connections as u64 + flow.threads as u64 * DESCRIPTORS_THREAD
    };
    let needed = plan.flows.iter().map(each).sum::<u64>() + DESCRIPTORS_SLACK;
    let limit = getrlimit(Resource::Nofile);
    match raised(needed, limit) {
        Ok(None) => Ok(()),
        Ok(Some(new)) => setrlimit(Resource::Nofile, new).map_err(|_| too_low(needed, limit)),
        Err(problem) => Err(problem),
    }
}

/// The limit to set; nothing if it is high enough.
fn raised(needed: u64, limit: Rlimit) -> Result<Option<Rlimit>, Problem> {
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= needed);
    if enough(limit.current) {
        return Ok(None);
    }
    if !enough(limit.maximum) {
        return Err(too_low(needed, limit));
    }
    Ok(Some(Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    }))
}

fn too_low(needed: u64, limit: Rlimit) -> Problem {
    let most = limit.maximum.unwrap_or(u64::MAX);
    let message = format!("the run needs {needed} descriptors, and this process may have {most}");
    Problem::general(
        message,
        format!("ask for fewer connections, or raise the limit: ulimit -Hn {needed}"),
    )
}

/// Whether a file can be written in the folder of a path.
///
/// # Errors
///
/// Why not.
pub(super) fn writable_file(file: &Path) -> Result<(), String> {
    if file.is_dir() {
        return Err(format!("{} is a folder", file.display()));
    }
    if file.exists() && !file.is_file() {
        // A device or a pipe is written as it is.
        return Ok(());
    }
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(format!("there is no folder {}", folder.display()));
    }
    probe(folder)
}

/// Makes a folder, and sees whether a file can be written in it.
///
/// # Errors
///
/// Why not.
pub(super) fn writable_folder(folder: &Path) -> Result<(), String> {
    let wrong = |e| format!("the folder {} cannot be made: {e}", folder.display());
    std::fs::create_dir_all(folder).map_err(wrong)?;
    probe(folder)
}

fn probe(folder: &Path) -> Result<(), String> {
    let name = format!(".weir-lab-{}-{:08x}", std::process::id(), fastrand::u32(..));
    let file = folder.join(name);
    let wrong = |e| format!("the folder {} cannot be written to: {e}", folder.display());
    std::fs::File::create_new(&file).map_err(wrong)?;
    std::fs::remove_file(&file).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(current: u64, maximum: u64) -> Rlimit {
        Rlimit {
            current: Some(current),
            maximum: Some(maximum),
        }
    }

    #[test]
    fn the_soft_limit_is_raised_up_to_the_hard_one() {
        assert_eq!(raised(100, limit(100, 200)), Ok(None));
        assert_eq!(raised(150, limit(100, 200)), Ok(Some(limit(150, 200))));
        let problem = raised(201, limit(100, 200)).unwrap_err();
        assert!(
            problem.message.contains("needs 201 descriptors"),
            "{problem}"
        );
        assert!(problem.help.contains("ulimit -Hn 201"), "{problem}");
        let unlimited = Rlimit {
            current: None,
            maximum: None,
        };
        assert_eq!(raised(u64::MAX, unlimited), Ok(None));
    }

    #[test]
    fn places_are_tried_before_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        assert_eq!(writable_folder(&inner), Ok(()));
        assert_eq!(writable_file(&inner.join("x.csv")), Ok(()));
        assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 0);
        assert!(writable_file(&inner).unwrap_err().contains("is a folder"));
        assert!(
            writable_file(&inner.join("no/x"))
                .unwrap_err()
                .contains("no folder")
        );
        std::fs::write(inner.join("file"), "").unwrap();
        assert!(writable_folder(&inner.join("file")).is_err());
        assert!(writable_folder(Path::new("/proc/nothing")).is_err());
    }
}
