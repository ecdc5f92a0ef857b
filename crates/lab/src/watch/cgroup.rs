//! A cgroup of version 2: the CPU time, memory and processes of all that is in it, as the kernel counts them.
//!
//! This is how a container is watched: nothing is lost when processes end, and the CPU time is in µs. Version 1 has no
//! such files and is refused with a sentence that says so.

use std::path::{Path, PathBuf};

use super::read;

/// What a cgroup says. A number is `None` where its controller is not on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Since the cgroup was made, in µs.
    pub cpu_us: Option<u64>,
    /// Time that its CPU limit held it back, in µs.
    pub throttled_us: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub memory_peak_bytes: Option<u64>,
    /// Memory that no file backs.
    pub anon_bytes: Option<u64>,
    pub processes: Option<u64>,
}

/// Reads the cgroup; `None` when it is gone.
pub fn read(folder: &Path) -> Option<Reading> {
    let cpu = read::text(&folder.join("cpu.stat")).ok()?;
    let memory = read::text(&folder.join("memory.stat")).unwrap_or_default();
    Some(Reading {
        cpu_us: read::keyed(&cpu, "usage_usec"),
        throttled_us: read::keyed(&cpu, "throttled_usec"),
        memory_bytes: read::number(&folder.join("memory.current")),
        memory_peak_bytes: read::number(&folder.join("memory.peak")),
        anon_bytes: read::keyed(&memory, "anon"),
        processes: read::number(&folder.join("pids.current")).or_else(|| count_pids(folder)),
    })
}

fn count_pids(folder: &Path) -> Option<u64> {
    let text = read::text(&folder.join("cgroup.procs")).ok()?;
    Some(text.lines().count() as u64)
}

/// The folder that `path` names: as it is, or below the place where version 2 is mounted.
///
/// # Errors
/// A sentence that says what was looked for, and what to give instead.
pub fn find(path: &str) -> Result<PathBuf, String> {
    let mount = mount();
    let below = mount
        .as_ref()
        .map(|mount| mount.join(path.trim_start_matches('/')));
    let candidates = [Some(PathBuf::from(path)), below];
    let is_cgroup = |folder: &&PathBuf| {
        read::text(&folder.join("cpu.stat"))
            .is_ok_and(|text| read::keyed(&text, "usage_usec").is_some())
    };
    if let Some(found) = candidates.iter().flatten().find(is_cgroup) {
        return Ok(found.clone());
    }
    Err(match mount {
        Some(mount) => format!(
            "there is no cgroup of version 2 at {path}: give its folder below {}",
            mount.display()
        ),
        None => format!("{path} cannot be watched: this machine has no cgroups of version 2"),
    })
}

/// Where version 2 is mounted, alone or beside version 1.
pub fn mount() -> Option<PathBuf> {
    parse_mount(&read::text(Path::new("/proc/self/mountinfo")).ok()?)
}

/// The folder of a controller of version 1 that this process is in.
pub fn of_version_1(controller: &str) -> Option<PathBuf> {
    let mounts = read::text(Path::new("/proc/self/mountinfo")).ok()?;
    let groups = read::text(Path::new("/proc/self/cgroup")).ok()?;
    let (mount, root) = parse_mount_of(&mounts, controller)?;
    let path = parse_path_of(&groups, controller)?;
    // In a container the mount shows only the part below its root.
    let below = path.strip_prefix(root.as_str()).unwrap_or(path);
    Some(mount.join(below.trim_start_matches('/')))
}

fn parse_mount_of(text: &str, controller: &str) -> Option<(PathBuf, String)> {
    text.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let options = kind.strip_prefix("cgroup ")?.split_whitespace().last()?;
        options.split(',').find(|option| *option == controller)?;
        let mut fields = mount.split(' ').skip(3);
        let root = fields.next()?.trim_end_matches('/').to_owned();
        Some((PathBuf::from(fields.next()?), root))
    })
}

fn parse_path_of<'t>(text: &'t str, controller: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let controllers = parts.nth(1)?;
        controllers.split(',').find(|name| *name == controller)?;
        parts.next()
    })
}

fn parse_mount(text: &str) -> Option<PathBuf> {
    text.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        if !kind.starts_with("cgroup2 ") {
            return None;
        }
        mount.split(' ').nth(4).map(PathBuf::from)
    })
}

/// Whether a process is in the cgroup, or in one below it.
pub fn holds(folder: &Path, pid: u32) -> bool {
    of(&pid.to_string()).is_some_and(|cgroup| cgroup.starts_with(folder))
}

/// The cgroup that this process is in, as a folder.
pub fn own() -> Option<PathBuf> {
    of("self")
}

fn of(pid: &str) -> Option<PathBuf> {
    let text = read::text(&Path::new("/proc").join(pid).join("cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(mount()?.join(path.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_read_as_far_as_its_controllers_are_on() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(read(folder.path()), None);
        write(
            "cpu.stat",
            "usage_usec 1234567\nuser_usec 1\nthrottled_usec 9\n",
        );
        write("cgroup.procs", "1\n2\n3\n");
        let some = read(folder.path()).unwrap();
        assert_eq!((some.cpu_us, some.throttled_us), (Some(1_234_567), Some(9)));
        assert_eq!((some.memory_bytes, some.processes), (None, Some(3)));
        write("memory.current", "4096\n");
        write("memory.peak", "max\n");
        write("memory.stat", "anon 1024\nfile 2048\nanon_thp 7\n");
        write("pids.current", "8\n");
        let all = read(folder.path()).unwrap();
        assert_eq!(
            (all.memory_bytes, all.memory_peak_bytes),
            (Some(4096), None)
        );
        assert_eq!((all.anon_bytes, all.processes), (Some(1024), Some(8)));
        assert_eq!(
            find(folder.path().to_str().unwrap()).unwrap(),
            folder.path()
        );
    }

    #[test]
    fn the_mount_of_a_controller_of_version_1_is_found() {
        let text = "31 30 0:28 /docker/ab /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                    32 30 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let cpu = ("/sys/fs/cgroup/cpu,cpuacct".into(), "/docker/ab".to_owned());
        assert_eq!(parse_mount_of(text, "cpu"), Some(cpu));
        assert_eq!(parse_mount_of(text, "memory").unwrap().1, "");
        assert_eq!(parse_mount_of(text, "pids"), None);
        let groups = "3:cpu,cpuacct:/docker/ab/x\n2:memory:/y:z\n0::/\n";
        assert_eq!(parse_path_of(groups, "cpu"), Some("/docker/ab/x"));
        assert_eq!(parse_path_of(groups, "memory"), Some("/y:z"));
        assert_eq!(parse_path_of(groups, "pids"), None);
    }

    #[test]
    fn a_place_that_is_no_cgroup_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = find(folder.path().to_str().unwrap()).unwrap_err();
        assert!(error.contains("version 2"), "{error}");
    }

    #[test]
    fn the_mount_is_found_beside_version_1() {
        let text = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
                    41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        assert_eq!(
            parse_mount(text),
            Some(PathBuf::from("/sys/fs/cgroup/unified"))
        );
        assert_eq!(parse_mount("no such line"), None);
        assert_eq!(parse_mount("1 - cgroup2 x"), None);
    }
}
