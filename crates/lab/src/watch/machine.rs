//! The machine that a run was made on, for the first line of every report.
//!
//! A number without its machine is a rumour. What cannot be read is `None`, never a guess.

use std::collections::HashSet;
use std::path::Path;

use super::{cgroup, read};
use crate::result::Machine;

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
    let memory_kb = text("/proc/meminfo").and_then(|text| read::keyed(&text, "MemTotal"));
    Machine {
        cpu: cpu_value(&cpu_info, "model name")
            .unwrap_or("unknown")
            .to_owned(),
        cores_logical: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
        cores_physical: physical_cores(&cpu_info),
        memory_bytes: memory_kb.unwrap_or(0).saturating_mul(1024),
        kernel: line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()),
        os: text("/etc/os-release")
            .and_then(|text| parse_os(&text))
            .unwrap_or_else(|| std::env::consts::OS.to_owned()),
        cgroup_cores: limit("cpu.max").and_then(|text| parse_cpu_max(&text)),
        cgroup_memory_bytes: limit("memory.max").and_then(|text| text.trim().parse().ok()),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        virtualization: virtualization(&cpu_info),
    }
}

fn cpu_value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// Cores that differ in socket or number; `None` where the kernel does not name them (most ARM machines).
fn physical_cores(text: &str) -> Option<usize> {
    let cores: HashSet<(&str, &str)> = text
        .split("\n\n")
        .filter_map(|one| Some((cpu_value(one, "physical id")?, cpu_value(one, "core id")?)))
        .collect();
    (!cores.is_empty()).then_some(cores.len())
}

/// The name that `/etc/os-release` gives for people.
fn parse_os(text: &str) -> Option<String> {
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?
        .trim_matches(['"', '\'']);
    (!name.is_empty()).then(|| name.to_owned())
}

/// Reads `cpu.max`, the quota and the period in µs, as cores. `max` is no limit.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let mut words = text.split_ascii_whitespace();
    let quota: u64 = words.next()?.parse().ok()?;
    let period: u64 = words.next()?.parse().ok()?;
    (period > 0).then(|| quota as f64 / period as f64)
}

/// A virtual machine or a container, as far as they show themselves.
fn virtualization(cpu_info: &str) -> Option<String> {
    let is_virtual = cpu_value(cpu_info, "flags")
        .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let found: Vec<String> = [
        is_virtual.then(|| "virtual machine".to_owned()),
        container(),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!found.is_empty()).then(|| found.join(", "))
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
        assert!(machine.cores_logical >= 1);
        assert!(machine.memory_bytes > 1 << 20);
        assert!(machine.kernel.contains('.'), "{}", machine.kernel);
        assert!(!machine.os.is_empty() && !machine.cpu.is_empty());
    }

    #[test]
    fn a_virtual_machine_is_told_by_its_flag() {
        let shown = virtualization("flags\t\t: fpu hypervisor lm\n").unwrap();
        assert!(shown.starts_with("virtual machine"), "{shown}");
        assert_eq!(
            parse_os("A=b\nPRETTY_NAME=\"Debian 12\"\n").unwrap(),
            "Debian 12"
        );
        assert_eq!(parse_os("PRETTY_NAME=\n"), None);
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
    fn a_cpu_limit_is_in_cores() {
        assert_eq!(parse_cpu_max("150000 100000\n"), Some(1.5));
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
