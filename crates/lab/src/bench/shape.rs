//! How much of this machine a started server may use: so many cores, so much memory, as a container would be bounded.
//!
//! A quota of CPU time is a cgroup's, of version 2 or of version 1, whichever this machine has and this user may write.
//! Where there is none, whole cores are given by CPU affinity, which is said, and everything else is refused: a shape
//! that is not held is not measured.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::exit::Failure;
use crate::output::units;
use crate::scenario::units::size;
use crate::watch::cgroup;

/// The period of a quota of CPU time, in µs: the kernel's default.
const PERIOD_US: u64 = 100_000;
/// The least quota that the kernel takes, in µs.
const QUOTA_US_MIN: f64 = 1000.0;
/// How long a group may still be busy after its processes ended.
const REMOVE_MAX: Duration = Duration::from_secs(2);

/// So many cores, and at most so much memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuShape {
    pub cores: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_bytes: Option<u64>,
}

impl FromStr for CpuShape {
    type Err = String;

    fn from_str(text: &str) -> Result<CpuShape, String> {
        let wrong = || format!("`{text}` is no shape; write 0.5c, 2c or 0.5c/256MiB");
        let (cores, memory) = match text.split_once('/') {
            Some((cores, memory)) => (cores, Some(size(memory.trim()).map_err(|_| wrong())?)),
            None => (text, None),
        };
        let cores = cores.trim().strip_suffix('c').ok_or_else(wrong)?;
        let cores: f64 = cores.parse().map_err(|_| wrong())?;
        if !(QUOTA_US_MIN / PERIOD_US as f64..=4096.0).contains(&cores) || memory == Some(0) {
            return Err(wrong());
        }
        Ok(CpuShape {
            cores,
            memory_bytes: memory,
        })
    }
}

impl fmt::Display for CpuShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}c", self.cores)?;
        match self.memory_bytes {
            Some(bytes) => write!(f, "/{}", units::memory(bytes).replace(' ', "")),
            None => Ok(()),
        }
    }
}

/// A place for one server that holds it to a shape. Drop it after the server ended.
#[derive(Debug, Default)]
pub struct Room {
    /// Groups that were made for it.
    folders: Vec<PathBuf>,
    /// Processors that it is bound to.
    affinity: Option<CpuSet>,
    /// How the shape is held, in words.
    pub how: String,
}

impl Room {
    /// Makes a place of a shape.
    ///
    /// # Errors
    ///
    /// The shape cannot be held on this machine by this user.
    pub fn of(shape: CpuShape) -> Result<Room, Failure> {
        let mut why = Vec::new();
        for (version, make) in [(2, version_2 as Make), (1, version_1 as Make)] {
            match make(shape) {
                Ok(folders) => {
                    return Ok(Room {
                        folders,
                        affinity: None,
                        how: format!("by a cgroup of version {version}"),
                    });
                }
                Err(what) => why.push(format!("version {version}: {what}")),
            }
        }
        let is_whole = shape.cores.fract() == 0.0 && shape.memory_bytes.is_none();
        if let Some(set) = affinity(shape.cores as usize).filter(|_| is_whole) {
            return Ok(Room {
                folders: Vec::new(),
                affinity: Some(set),
                how: "by CPU affinity, since no cgroup can be written here".to_owned(),
            });
        }
        Err(Failure::new(
            format!(
                "the shape {shape} cannot be held here: no cgroup can be written ({})",
                why.join("; ")
            ),
            "run as a user that may write a cgroup, or give whole cores of this machine without memory, such as 1c",
        ))
    }

    /// What a shell does first so that it, and all that it starts, is in the groups.
    pub(super) fn enter(&self) -> String {
        let enter = |folder: &PathBuf| {
            let path = folder.join("cgroup.procs").display().to_string();
            format!("echo $$ > '{}' || exit 97; ", path.replace('\'', "'\\''"))
        };
        self.folders.iter().map(enter).collect()
    }

    /// Does something that starts a process on this thread; the process is bound to the room's processors.
    pub(super) fn bound<T>(&self, start: impl FnOnce() -> T) -> Result<T, Failure> {
        let Some(set) = &self.affinity else {
            return Ok(start());
        };
        let fail = |e: rustix::io::Errno| Failure::new(format!("CPU affinity: {e}"), "");
        let before = sched_getaffinity(None).map_err(fail)?;
        // A child inherits the affinity of the thread that starts it.
        sched_setaffinity(None, set).map_err(fail)?;
        let started = start();
        sched_setaffinity(None, &before).map_err(fail)?;
        Ok(started)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        for folder in &self.folders {
            let begin = Instant::now();
            // A group is busy until the kernel has buried its last process.
            while std::fs::remove_dir(folder).is_err() && begin.elapsed() < REMOVE_MAX {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

type Make = fn(CpuShape) -> Result<Vec<PathBuf>, String>;

/// The last processors that this process may use, so many.
fn affinity(cores: usize) -> Option<CpuSet> {
    let all = sched_getaffinity(None).ok()?;
    let known: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| all.is_set(*cpu))
        .collect();
    if cores == 0 || cores > known.len() {
        return None;
    }
    let mut set = CpuSet::new();
    known[known.len() - cores..]
        .iter()
        .for_each(|cpu| set.set(*cpu));
    Some(set)
}

/// A name that no other group has.
fn name() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("weir-lab-{}-{number}", std::process::id())
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    std::fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))
}

/// Makes a folder and fills it; nothing of it stays where that fails.
fn made(parent: &Path, fill: impl FnOnce(&Path) -> Result<(), String>) -> Result<PathBuf, String> {
    let folder = parent.join(name());
    std::fs::create_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    match fill(&folder) {
        Ok(()) => Ok(folder),
        Err(why) => {
            // What failed is told; an empty group that cannot be removed harms nobody.
            let _ = std::fs::remove_dir(&folder);
            Err(why)
        }
    }
}

/// One group below this process's own, or beside it: a group with processes may have none below it.
fn version_2(shape: CpuShape) -> Result<Vec<PathBuf>, String> {
    let own = cgroup::own().ok_or("it is not mounted")?;
    let mut why = String::new();
    for parent in [Some(own.as_path()), own.parent()].into_iter().flatten() {
        let controllers = std::fs::read_to_string(parent.join("cgroup.controllers"));
        let controllers = controllers.unwrap_or_default();
        let has = |name: &str| controllers.split_whitespace().any(|known| known == name);
        if !has("cpu") || shape.memory_bytes.is_some() && !has("memory") {
            why = format!("{} has no such controllers", parent.display());
            continue;
        }
        // They may be on already; whether they are shows when the limits are written.
        let _ = std::fs::write(parent.join("cgroup.subtree_control"), "+cpu +memory");
        let made = made(parent, |folder| {
            let quota = (shape.cores * PERIOD_US as f64).round();
            write(&folder.join("cpu.max"), &format!("{quota} {PERIOD_US}"))?;
            match shape.memory_bytes {
                Some(bytes) => write(&folder.join("memory.max"), &bytes.to_string()),
                None => Ok(()),
            }
        });
        match made {
            Ok(folder) => return Ok(vec![folder]),
            Err(what) => why = what,
        }
    }
    Err(why)
}

/// One group of each controller, below this process's own.
fn version_1(shape: CpuShape) -> Result<Vec<PathBuf>, String> {
    let quota = (shape.cores * PERIOD_US as f64).round();
    let parent = cgroup::of_version_1("cpu").ok_or("the cpu controller is not mounted")?;
    let cpu = made(&parent, |folder| {
        write(&folder.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
        write(&folder.join("cpu.cfs_quota_us"), &quota.to_string())
    })?;
    let Some(bytes) = shape.memory_bytes else {
        return Ok(vec![cpu]);
    };
    let memory =
        cgroup::of_version_1("memory").ok_or("the memory controller is not mounted".to_owned());
    let memory = memory.and_then(|parent| {
        made(&parent, |folder| {
            write(&folder.join("memory.limit_in_bytes"), &bytes.to_string())
        })
    });
    memory
        .map(|memory| vec![cpu.clone(), memory])
        .inspect_err(|_| {
            let _ = std::fs::remove_dir(&cpu);
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read() {
        let shape: CpuShape = "0.5c/256MiB".parse().unwrap();
        assert_eq!((shape.cores, shape.memory_bytes), (0.5, Some(256 << 20)));
        assert_eq!(shape.to_string(), "0.5c/256MiB");
        assert_eq!("2c".parse::<CpuShape>().unwrap().to_string(), "2c");
        for text in [
            "", "2", "c", "0c", "-1c", "2c/", "2c/x", "2c/0", "0.001c", "1e9c", "nanc",
        ] {
            assert!(text.parse::<CpuShape>().is_err(), "{text}");
        }
    }

    #[test]
    fn processors_are_the_last_ones() {
        let all = sched_getaffinity(None).unwrap().count() as usize;
        assert_eq!(affinity(1).unwrap().count(), 1);
        assert_eq!(affinity(all + 1), None);
        assert_eq!(affinity(0), None);
    }
}
