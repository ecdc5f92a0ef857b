//! The machine that a run was made on, for the first line of every report.
//!
//! A number without its machine is a rumour. What cannot be read is `None`, never a guess.

use std::collections::HashSet;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{cgroup, read};

/// The machine, its kernel and its limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// As the CPU names itself.
    pub cpu_model: Option<String>,
    /// CPUs that this process may run on.
    pub logical_cores: u64,
    /// CPUs of the machine that do not share a core.
    pub physical_cores: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub kernel: Option<String>,
    /// The CPU limit of this process's cgroup, in thousandths of a core; `None` without one.
    pub cpu_limit_millicores: Option<u64>,
    /// The memory limit of this process's cgroup; `None` without one.
    pub memory_limit_bytes: Option<u64>,
    /// How the kernel chooses the CPU's frequency; `None` where it does not (most virtual machines).
    pub governor: Option<String>,
    pub clock_source: Option<String>,
    /// The kind of container, as far as it shows itself.
    pub container: Option<String>,
    /// The version of weir that measured.
    pub version: String,
}

/// Reads the machine that this process is on.
pub fn read() -> Machine {
    let text = |path: &str| read::text(Path::new(path)).ok();
    let line = |path: &str| {
        text(path)
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
    };
    let cpu_info = text("/proc/cpuinfo").unwrap_or_default();
    let own = cgroup::own();
    let limit = |name: &str| read::text(&own.as_ref()?.join(name)).ok();
    Machine {
        cpu_model: cpu_value(&cpu_info, "model name").map(str::to_owned),
        logical_cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
        physical_cores: physical_cores(&cpu_info),
        memory_bytes: text("/proc/meminfo")
            .and_then(|text| read::keyed(&text, "MemTotal"))
            .map(|kb| kb.saturating_mul(1024)),
        kernel: line("/proc/sys/kernel/osrelease"),
        cpu_limit_millicores: limit("cpu.max").and_then(|text| parse_cpu_max(&text)),
        memory_limit_bytes: limit("memory.max").and_then(|text| text.trim().parse().ok()),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        container: container(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn cpu_value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// Cores that differ in socket or number; `None` where the kernel does not name them (most ARM machines).
fn physical_cores(text: &str) -> Option<u64> {
    let cores: HashSet<(&str, &str)> = text
        .split("\n\n")
        .filter_map(|one| Some((cpu_value(one, "physical id")?, cpu_value(one, "core id")?)))
        .collect();
    (!cores.is_empty()).then_some(cores.len() as u64)
}

/// Reads `cpu.max`: the quota and the period, in µs. `max` is no limit.
fn parse_cpu_max(text: &str) -> Option<u64> {
    let mut words = text.split_ascii_whitespace();
    let quota: u64 = words.next()?.parse().ok()?;
    let period: u64 = words.next()?.parse().ok()?;
    quota.checked_mul(1000)?.checked_div(period)
}

fn container() -> Option<String> {
    for (path, kind) in [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")] {
        if Path::new(path).exists() {
            return Some(kind.to_owned());
        }
    }
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Some("kubernetes".to_owned());
    }
    let groups = read::text(Path::new("/proc/1/cgroup")).unwrap_or_default();
    ["kubepods", "docker", "containerd", "lxc"]
        .into_iter()
        .find(|kind| groups.contains(kind))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_says_what_it_is() {
        let machine = read();
        assert!(machine.logical_cores >= 1);
        assert!(machine.memory_bytes.unwrap() > 1 << 20);
        assert!(machine.kernel.unwrap().contains('.'));
        assert_eq!(machine.version, env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn threads_of_one_core_are_one_physical_core() {
        let one = |core| format!("processor\t: 0\nphysical id\t: 0\ncore id\t\t: {core}\n");
        let text = [one(0), one(1), one(0), one(1)].join("\n");
        assert_eq!(physical_cores(&text), Some(2));
        assert_eq!(physical_cores("processor : 0\n\nprocessor : 1\n"), None);
        assert_eq!(physical_cores(""), None);
        assert_eq!(
            cpu_value("model name\t: A: B\n", "model name"),
            Some("A: B")
        );
    }

    #[test]
    fn a_cpu_limit_is_in_thousandths() {
        assert_eq!(parse_cpu_max("150000 100000\n"), Some(1500));
        for text in [
            "max 100000\n",
            "",
            "1",
            "1 0",
            "99999999999999999999 1",
            "-1 5",
        ] {
            assert_eq!(parse_cpu_max(text), None, "{text:?}");
        }
    }
}
