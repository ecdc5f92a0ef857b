//! What `/proc` says about one process: its CPU time as fine as it can be had, memory, threads, descriptors.
//!
//! Two sources tell of CPU time, and neither is enough. `/proc/PID/stat` counts threads that have ended too, but in
//! ticks (10 ms almost everywhere), which is 2 % of a step of one second at half a core. `/proc/PID/task/*/schedstat`
//! counts in nanoseconds, but only threads that live. [`OwnTime`] takes the sum of the second, keeps the last word of
//! each thread that ended, and never says less than the first, which is a floor: the kernel cuts, it does not round.
//! What is left: a running thread's own count is up to one scheduler tick old (1 to 10 ms), and what a thread did
//! between the last sample and its end is seen only when it adds up to more than two ticks.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::read;

/// The most threads of one process that are read one by one; beyond it only `stat` is read.
pub const THREADS_MAX: usize = 4096;

/// The length of a tick of `/proc/PID/stat`, in ns.
pub fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// `/proc/PID/stat`, as far as it is used. Times are in ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The command's name, cut by the kernel to 15 bytes.
    pub comm: String,
    /// `Z` and `X` have ended.
    pub state: char,
    pub parent: u32,
    pub user_ticks: u64,
    pub system_ticks: u64,
    /// The same of children that ended and were waited for, theirs included.
    pub children_ticks: u64,
    pub threads: u64,
    /// When it began, in ticks since boot: with the pid it names one process for good.
    pub started_ticks: u64,
}

/// Reads `/proc/PID/stat`. The name may hold spaces and parentheses, so the last `)` ends it.
pub fn parse_stat(text: &str) -> Option<Stat> {
    let open = text.find('(')?;
    let close = text.rfind(')')?;
    let comm = text.get(open + 1..close)?.to_owned();
    let rest: Vec<&str> = text.get(close + 1..)?.split_ascii_whitespace().collect();
    // proc(5) counts from 1 with the pid; `rest` begins with field 3.
    let field = |number: usize| rest.get(number - 3)?.parse::<u64>().ok();
    Some(Stat {
        comm,
        state: rest.first()?.chars().next()?,
        parent: u32::try_from(field(4)?).ok()?,
        user_ticks: field(14)?,
        system_ticks: field(15)?,
        // Signed in proc(5); a negative one has never meant anything.
        children_ticks: field(16)?.saturating_add(field(17)?),
        threads: field(20)?,
        started_ticks: field(22)?,
    })
}

/// `schedstat` of one thread: time on a CPU, time waited for one, times it was put on one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sched {
    pub on_cpu_ns: u64,
    pub waited_ns: u64,
    pub switches: u64,
}

/// One thread: its number, its name, and its times since it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    pub tid: u32,
    pub name: String,
    pub sched: Sched,
}

/// The kernel's name for a process or a thread; empty when it is gone.
pub fn name(id: u32) -> String {
    let name = read::text(&folder(id).join("comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// Reads a `schedstat` line.
pub fn parse_schedstat(text: &str) -> Option<Sched> {
    let mut fields = text.split_ascii_whitespace().map(str::parse::<u64>);
    let mut next = || fields.next()?.ok();
    Some(Sched {
        on_cpu_ns: next()?,
        waited_ns: next()?,
        switches: next()?,
    })
}

/// Memory of a process, from `/proc/PID/status`. Absent for a zombie, and where the kernel does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub rss_bytes: Option<u64>,
    /// The part of it that no file backs: what a leak grows.
    pub anon_bytes: Option<u64>,
    /// The most that it ever was.
    pub peak_bytes: Option<u64>,
}

/// Reads the memory lines of `/proc/PID/status`.
pub fn parse_memory(text: &str) -> Memory {
    let bytes = |key| read::keyed(text, key).map(|kb| kb.saturating_mul(1024));
    Memory {
        rss_bytes: bytes("VmRSS"),
        anon_bytes: bytes("RssAnon"),
        peak_bytes: bytes("VmHWM"),
    }
}

/// The folder of a process.
pub fn folder(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

/// `stat` of a process that lives or is a zombie; `None` when there is none.
pub fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&read::text(&folder(pid).join("stat")).ok()?)
}

/// Open descriptors; `None` where another user's process does not show them.
pub fn descriptors(pid: u32) -> Option<u64> {
    let path = folder(pid).join("fd");
    // Since Linux 6.2 the folder's size is the count; before, it is 0 and they are counted.
    match std::fs::metadata(&path).ok()?.len() {
        0 => Some(std::fs::read_dir(&path).ok()?.count() as u64),
        count => Some(count),
    }
}

/// The numbers of the numbered entries of a folder (`/proc`, `/proc/PID/task`), at most `max`.
pub fn numbered(path: &Path, max: usize) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(path) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .take(max)
        .collect()
}

/// Each live thread's `schedstat`; empty where the kernel has none, or where there are more than [`THREADS_MAX`].
pub fn threads(pid: u32, count: u64) -> Vec<(u32, Sched)> {
    if count > THREADS_MAX as u64 {
        return Vec::new();
    }
    let tasks = folder(pid).join("task");
    numbered(&tasks, THREADS_MAX)
        .into_iter()
        .filter_map(|tid| {
            let text = read::text(&tasks.join(tid.to_string()).join("schedstat")).ok()?;
            Some((tid, parse_schedstat(&text)?))
        })
        .collect()
}

/// The CPU time of one process since it began, without its children, put together from both sources.
#[derive(Clone, Debug, Default)]
pub struct OwnTime {
    live: HashMap<u32, Sched>,
    ended_ns: u64,
    ended_waited_ns: u64,
    ended_switches: u64,
}

impl OwnTime {
    /// Takes in one reading: every live thread, and the floor that `stat` gives, in ns.
    pub fn update(&mut self, threads: &[(u32, Sched)], floor_ns: u64) {
        let mut live = HashMap::with_capacity(threads.len());
        for (tid, sched) in threads {
            let before = self.live.remove(tid);
            // A count that went back is another thread under an old number.
            if let Some(before) = before.filter(|before| before.on_cpu_ns > sched.on_cpu_ns) {
                self.end(before);
            }
            live.insert(*tid, *sched);
        }
        for (_, ended) in std::mem::replace(&mut self.live, live) {
            self.end(ended);
        }
        let short_ns = floor_ns.saturating_sub(self.on_cpu_ns());
        self.ended_ns = self.ended_ns.saturating_add(short_ns);
    }

    fn end(&mut self, thread: Sched) {
        self.ended_ns = self.ended_ns.saturating_add(thread.on_cpu_ns);
        self.ended_waited_ns = self.ended_waited_ns.saturating_add(thread.waited_ns);
        self.ended_switches = self.ended_switches.saturating_add(thread.switches);
    }

    /// Time on a CPU, in ns. Never falls.
    pub fn on_cpu_ns(&self) -> u64 {
        self.plus_live(self.ended_ns, |sched| sched.on_cpu_ns)
    }

    /// Time that its threads were ready to run and had no CPU, in ns.
    pub fn waited_ns(&self) -> u64 {
        self.plus_live(self.ended_waited_ns, |sched| sched.waited_ns)
    }

    /// How often its threads were put on a CPU.
    pub fn switches(&self) -> u64 {
        self.plus_live(self.ended_switches, |sched| sched.switches)
    }

    /// The threads that lived at the last reading.
    pub fn live(&self) -> impl Iterator<Item = (u32, Sched)> {
        self.live.iter().map(|(tid, sched)| (*tid, *sched))
    }

    fn plus_live(&self, ended: u64, of: impl Fn(&Sched) -> u64) -> u64 {
        self.live.values().map(of).fold(ended, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "6721 (a) b (c) R 6711 6711 5155 0 -1 4194304 102 0 0 0 7 8 30 4 20 0 3 0 1229358 3133440 401 0 0 0\n";

    fn sched(on_cpu_ns: u64) -> Sched {
        Sched {
            on_cpu_ns,
            waited_ns: 1,
            switches: 2,
        }
    }

    #[test]
    fn stat_is_read_past_a_name_with_parentheses() {
        let stat = parse_stat(STAT).unwrap();
        assert_eq!(stat.comm, "a) b (c");
        assert_eq!((stat.state, stat.parent), ('R', 6711));
        assert_eq!((stat.user_ticks, stat.system_ticks), (7, 8));
        assert_eq!(stat.children_ticks, 34);
        assert_eq!((stat.threads, stat.started_ticks), (3, 1229358));
    }

    #[test]
    fn no_bytes_break_the_parsers() {
        let mut random = fastrand::Rng::with_seed(1);
        for text in [STAT, "1 2 3", "VmRSS: 12 kB\nRssAnon: x kB"] {
            for _ in 0..2_000 {
                let mut bytes = text.as_bytes().to_vec();
                for _ in 0..random.usize(1..6) {
                    let at = random.usize(0..bytes.len());
                    match random.u8(0..3) {
                        0 => bytes[at] = random.u8(..),
                        1 => bytes.truncate(at + 1),
                        _ => bytes.insert(at, b"() -9\n"[random.usize(0..6)]),
                    }
                }
                let text = String::from_utf8_lossy(&bytes);
                let _ = (parse_stat(&text), parse_schedstat(&text));
                let _ = parse_memory(&text);
            }
        }
        assert_eq!(parse_stat(""), None);
        assert_eq!(parse_stat(")("), None);
        assert_eq!(parse_schedstat("1 2"), None);
        assert_eq!(parse_memory("Name: x\n"), Memory::default());
    }

    #[test]
    fn threads_that_ended_stay_counted() {
        let mut own = OwnTime::default();
        own.update(&[(1, sched(100)), (2, sched(50))], 0);
        assert_eq!(own.on_cpu_ns(), 150);
        own.update(&[(1, sched(120))], 0);
        assert_eq!(own.on_cpu_ns(), 170);
        // The number 2 again, for a new thread; then again, seen only by its count.
        own.update(&[(1, sched(120)), (2, sched(5))], 0);
        assert_eq!(own.on_cpu_ns(), 175);
        own.update(&[(1, sched(120)), (2, sched(3))], 0);
        assert_eq!(own.on_cpu_ns(), 178);
        assert_eq!(own.switches(), 8);
    }

    #[test]
    fn stat_is_a_floor() {
        let mut own = OwnTime::default();
        own.update(&[(1, sched(30))], 100);
        assert_eq!(own.on_cpu_ns(), 100);
        own.update(&[(1, sched(45))], 110);
        assert_eq!(own.on_cpu_ns(), 115, "fine growth above the floor");
        own.update(&[], 110);
        assert_eq!(own.on_cpu_ns(), 115, "never falls");
    }

    #[test]
    fn this_process_can_be_read() {
        let pid = std::process::id();
        let stat = stat(pid).unwrap();
        assert!(stat.threads >= 1 && stat.started_ticks > 0);
        assert!(!threads(pid, stat.threads).is_empty());
        assert!(descriptors(pid).unwrap() >= 3);
        let memory = parse_memory(&read::text(&folder(pid).join("status")).unwrap());
        assert!(memory.rss_bytes.unwrap() > 100_000);
        assert!(memory.peak_bytes >= memory.rss_bytes);
    }
}
