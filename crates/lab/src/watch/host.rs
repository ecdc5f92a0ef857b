//! What the whole machine does: CPU time by kind, pressure, load.
//!
//! A slow answer on a busy machine says nothing of the server, so each step carries what others took. The times of
//! `/proc/stat` are in ticks of 10 ms, sampled: over a second they are good to a few percent.

use std::path::Path;

use super::{process, read};

/// CPU time of all cores since boot, in µs. `user` holds the time of guests and of nice processes too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    pub user_us: u64,
    pub system_us: u64,
    pub idle_us: u64,
    pub softirq_us: u64,
    /// Time that the hypervisor gave to other machines.
    pub steal_us: u64,
}

impl Cpu {
    /// All the time there was.
    pub fn total_us(&self) -> u64 {
        [
            self.user_us,
            self.system_us,
            self.idle_us,
            self.softirq_us,
            self.steal_us,
        ]
        .iter()
        .fold(0, |sum, part| sum.saturating_add(*part))
    }

    /// Both together.
    pub fn plus(&self, other: &Cpu) -> Cpu {
        Cpu {
            user_us: self.user_us.saturating_add(other.user_us),
            system_us: self.system_us.saturating_add(other.system_us),
            idle_us: self.idle_us.saturating_add(other.idle_us),
            softirq_us: self.softirq_us.saturating_add(other.softirq_us),
            steal_us: self.steal_us.saturating_add(other.steal_us),
        }
    }

    /// What passed since `before`.
    pub fn since(&self, before: &Cpu) -> Cpu {
        Cpu {
            user_us: self.user_us.saturating_sub(before.user_us),
            system_us: self.system_us.saturating_sub(before.system_us),
            idle_us: self.idle_us.saturating_sub(before.idle_us),
            softirq_us: self.softirq_us.saturating_sub(before.softirq_us),
            steal_us: self.steal_us.saturating_sub(before.steal_us),
        }
    }
}

/// Reads the first line of `/proc/stat`, whose times are in ticks. Missing columns are 0.
pub fn parse_cpu(text: &str, tick_us: u64) -> Option<Cpu> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let us: Vec<u64> = line
        .split_ascii_whitespace()
        .map_while(|ticks| ticks.parse::<u64>().ok())
        .map(|ticks| ticks.saturating_mul(tick_us))
        .collect();
    // user nice system idle iowait irq softirq steal; the guests' columns are in `user` and `nice` already.
    let column = |number: usize| us.get(number).copied().unwrap_or(0);
    if us.len() < 4 {
        return None;
    }
    Some(Cpu {
        user_us: column(0).saturating_add(column(1)),
        system_us: column(2),
        idle_us: column(3).saturating_add(column(4)),
        softirq_us: column(5).saturating_add(column(6)),
        steal_us: column(7),
    })
}

/// Time since boot in which some task waited for the resource, in µs; `None` where the kernel does not count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    pub cpu_us: Option<u64>,
    pub memory_us: Option<u64>,
    pub io_us: Option<u64>,
}

/// Reads the `some` total of a file of `/proc/pressure`, in µs.
pub fn parse_pressure(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split(' ')
        .find_map(|word| word.strip_prefix("total="))?
        .trim()
        .parse()
        .ok()
}

/// The first number of `/proc/loadavg`: tasks that ran or were ready to, averaged over a minute.
pub fn parse_load(text: &str) -> Option<f64> {
    text.split_ascii_whitespace()
        .next()?
        .parse()
        .ok()
        .filter(|load: &f64| load.is_finite())
}

/// The machine at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    pub cpu: Cpu,
    pub pressure: Pressure,
    pub load_1m: Option<f64>,
}

/// Reads the machine. What the kernel does not show is 0 for CPU time, `None` otherwise.
pub fn read() -> Reading {
    let text = |path: &str| read::text(Path::new(path)).ok();
    let pressure = |name: &str| parse_pressure(&text(&format!("/proc/pressure/{name}"))?);
    Reading {
        cpu: text("/proc/stat")
            .and_then(|text| parse_cpu(&text, process::tick_ns() / 1000))
            .unwrap_or_default(),
        pressure: Pressure {
            cpu_us: pressure("cpu"),
            memory_us: pressure("memory"),
            io_us: pressure("io"),
        },
        load_1m: text("/proc/loadavg").and_then(|text| parse_load(&text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_read() {
        let cpu = parse_cpu("cpu  10 2 3 40 5 1 6 7 9 9\ncpu0 1 2 3\n", 10_000).unwrap();
        let want = Cpu {
            user_us: 120_000,
            system_us: 30_000,
            idle_us: 450_000,
            softirq_us: 70_000,
            steal_us: 70_000,
        };
        assert_eq!(cpu, want);
        assert_eq!(cpu.total_us(), 740_000);
        assert_eq!(cpu.since(&cpu), Cpu::default());
        let some =
            "some avg10=0.77 avg60=1.08 avg300=2.20 total=984473153\nfull avg10=0.00 total=5\n";
        assert_eq!(parse_pressure(some), Some(984_473_153));
        assert_eq!(parse_load("0.31 0.84 1.25 1/85 6733\n"), Some(0.31));
        assert!(read().cpu.total_us() > 0);
    }

    #[test]
    fn what_is_broken_is_none() {
        for text in [
            "",
            "cpu",
            "cpu ",
            "cpu  1 2",
            "cpu  a b c d",
            "cpu0 1 2 3 4 5",
        ] {
            assert_eq!(parse_cpu(text, 10_000), None, "{text:?}");
        }
        for text in [
            "",
            "full total=5",
            "some avg10=0.0",
            "some total=",
            "some total=-1",
        ] {
            assert_eq!(parse_pressure(text), None, "{text:?}");
        }
        for text in ["", "x", "NaN 1 2", "inf"] {
            assert_eq!(parse_load(text), None, "{text:?}");
        }
    }
}
