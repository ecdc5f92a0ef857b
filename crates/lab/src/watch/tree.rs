//! The CPU time and memory of a process with its children, found again at each sample.
//!
//! A server that forks for its work would look idle if only its own process were read. Members are known by pid and
//! start time, so a pid that is given out again is another process; one that was in the tree stays in it when its
//! parent ends. A child that ends between two samples is found in its parent's `cutime` and `cstime` when it was waited
//! for. What cannot be seen: what a process did between the last sample and its end, when nobody of the tree waited
//! for it (a daemon that left its parent, a parent that ignores `SIGCHLD`), or when the root itself ended.

use std::collections::HashMap;
use std::path::Path;

use super::process::{self, OwnTime, Sched, Stat, Thread};
use super::read;

/// The most processes of the machine that one sample looks at.
pub const PROCESSES_MAX: usize = 65_536;

/// The most members of one tree; further ones are not read, and [`Reading::is_cut`] says so.
pub const MEMBERS_MAX: usize = 1024;

/// The most threads that [`Tree::busiest`] lists.
pub const BUSIEST_MAX: usize = 64;

/// Every process of the machine, as one sample found it.
pub struct Table {
    stats: HashMap<u32, Stat>,
    children: HashMap<u32, Vec<u32>>,
}

impl Table {
    /// Reads `/proc/*/stat`, at most [`PROCESSES_MAX`].
    pub fn read() -> Table {
        let pids = process::numbered(Path::new("/proc"), PROCESSES_MAX);
        Table::of(
            pids.into_iter()
                .filter_map(|pid| Some((pid, process::stat(pid)?))),
        )
    }

    /// A table without processes.
    pub fn empty() -> Table {
        Table::of(std::iter::empty())
    }

    fn of(stats: impl Iterator<Item = (u32, Stat)>) -> Table {
        let stats: HashMap<u32, Stat> = stats.collect();
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for (pid, stat) in &stats {
            children.entry(stat.parent).or_default().push(*pid);
        }
        Table { stats, children }
    }

    /// A process of the table.
    pub fn get(&self, pid: u32) -> Option<&Stat> {
        self.stats.get(&pid)
    }

    /// Every pid with its `stat`, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Stat)> {
        self.stats.iter().map(|(pid, stat)| (*pid, stat))
    }

    /// The pid's ancestors, nearest first, without itself.
    pub fn ancestors(&self, pid: u32) -> Vec<u32> {
        let mut found = Vec::new();
        let mut at = pid;
        // A table is not taken at one instant, so a chain could close into a ring.
        while let Some(stat) = self.stats.get(&at)
            && stat.parent != 0
            && found.len() < MEMBERS_MAX
            && !found.contains(&stat.parent)
        {
            at = stat.parent;
            found.push(at);
        }
        found
    }

    /// `from` and all that descend from them, at most [`MEMBERS_MAX`], and whether there were more.
    fn with_descendants(&self, from: &[u32]) -> (Vec<u32>, bool) {
        let mut found: Vec<u32> = Vec::new();
        let mut next: Vec<u32> = from.to_vec();
        let mut seen = std::collections::HashSet::new();
        while let Some(pid) = next.pop() {
            if !seen.insert(pid) || !self.stats.contains_key(&pid) {
                continue;
            }
            if found.len() == MEMBERS_MAX {
                return (found, true);
            }
            found.push(pid);
            next.extend(self.children.get(&pid).into_iter().flatten());
        }
        (found, false)
    }
}

/// What a tree is at one instant. Times and switches count from the first sample; memory, threads and descriptors
/// are sums over the members that live. Pages that members share are counted for each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub cpu_us: u64,
    /// Time that threads were ready to run and had no CPU.
    pub waited_us: u64,
    pub switches: u64,
    pub rss_bytes: Option<u64>,
    pub anon_bytes: Option<u64>,
    pub processes: u64,
    pub threads: u64,
    /// `None` where no member shows its descriptors.
    pub descriptors: Option<u64>,
    /// True when every process that the tree was begun with has ended.
    pub is_ended: bool,
    /// True when there were more than [`MEMBERS_MAX`] members.
    pub is_cut: bool,
}

struct Member {
    started_ticks: u64,
    parent: u32,
    own: OwnTime,
    children_ns: u64,
    /// Less than zero: what was counted of children that its `cutime` has not shown yet, in ns.
    carried_ns: i64,
}

/// A process tree, or several as one subject.
pub struct Tree {
    roots: Vec<(u32, u64)>,
    members: HashMap<u32, Member>,
    /// Start time of the youngest process at the first sample: what is older was not born under this watch.
    begun_ticks: u64,
    is_begun: bool,
    tick_ns: u64,
    cpu_ns: u64,
    waited_ns: u64,
    switches: u64,
}

impl Tree {
    /// A tree with these roots. Those that are not in the table count as ended.
    pub fn new(roots: &[u32], table: &Table) -> Tree {
        Tree {
            roots: roots
                .iter()
                .filter_map(|pid| Some((*pid, table.get(*pid)?.started_ticks)))
                .collect(),
            members: HashMap::new(),
            begun_ticks: table
                .iter()
                .map(|(_, stat)| stat.started_ticks)
                .max()
                .unwrap_or(0),
            is_begun: false,
            tick_ns: process::tick_ns(),
            cpu_ns: 0,
            waited_ns: 0,
            switches: 0,
        }
    }

    /// Reads the tree again. `table` must be younger than the last one given: the threads are read after it, so a
    /// child that its parent's times hold already is not met alive as well.
    pub fn sample(&mut self, table: &Table) -> Reading {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        let members = self
            .members
            .iter()
            .map(|(pid, member)| (*pid, member.started_ticks));
        let known: Vec<u32> = self
            .roots
            .iter()
            .copied()
            .chain(members)
            .filter(|(pid, started)| {
                table
                    .get(*pid)
                    .is_some_and(|stat| stat.started_ticks == *started)
            })
            .map(|(pid, _)| pid)
            .collect();
        let (pids, is_cut) = table.with_descendants(&known);
        let mut reading = Reading {
            is_cut,
            ..Reading::default()
        };
        let mut reaped_ns: HashMap<u32, u64> = HashMap::new();
        let mut before = std::mem::take(&mut self.members);
        for pid in pids {
            let stat = table.get(pid).expect("descendants come from the table");
            let threads = process::threads(pid, stat.threads);
            if threads.is_empty() && process::stat(pid).is_none() {
                continue;
            }
            let member = before
                .remove_entry(&pid)
                .map(|(_, member)| member)
                .filter(|member| member.started_ticks == stat.started_ticks);
            let grown_ns = self.take_in(pid, member, stat, &threads, is_first);
            reaped_ns.insert(pid, grown_ns);
            add_size(&mut reading, pid, stat);
        }
        self.settle(before, &reaped_ns);
        reading.is_ended = !self.roots.iter().any(|root| is_running(table, root));
        reading.cpu_us = self.cpu_ns / 1000;
        reading.waited_us = self.waited_ns / 1000;
        reading.switches = self.switches;
        reading
    }

    /// The processes that it was begun with.
    pub fn roots(&self) -> impl Iterator<Item = u32> {
        self.roots.iter().map(|(pid, _)| *pid)
    }

    /// CPU time of all members, alive and ended, since the first sample, in µs.
    pub fn cpu_us(&self) -> u64 {
        self.cpu_ns / 1000
    }

    /// The live threads with the most CPU time since they began, at most [`BUSIEST_MAX`].
    pub fn busiest(&self) -> Vec<Thread> {
        let live = self.members.values().flat_map(|member| member.own.live());
        let mut all: Vec<(u32, Sched)> = live.collect();
        all.sort_unstable_by_key(|(tid, sched)| (std::cmp::Reverse(sched.on_cpu_ns), *tid));
        all.truncate(BUSIEST_MAX);
        let named = |(tid, sched)| Thread {
            tid,
            name: process::name(tid),
            sched,
        };
        all.into_iter().map(named).collect()
    }

    /// Counts what a live member did since the last sample; answers with what its ended children's times grew by.
    fn take_in(
        &mut self,
        pid: u32,
        member: Option<Member>,
        stat: &Stat,
        threads: &[(u32, Sched)],
        is_first: bool,
    ) -> u64 {
        let own_ns =
            (stat.user_ticks.saturating_add(stat.system_ticks)).saturating_mul(self.tick_ns);
        let children_ns = stat.children_ticks.saturating_mul(self.tick_ns);
        let is_new = member.is_none();
        let mut member = member.unwrap_or_else(|| Member {
            started_ticks: stat.started_ticks,
            parent: stat.parent,
            own: OwnTime::default(),
            children_ns: 0,
            carried_ns: 0,
        });
        let was = (
            member.own.on_cpu_ns(),
            member.own.waited_ns(),
            member.own.switches(),
        );
        member.own.update(threads, own_ns);
        let is_older = is_new && (is_first || stat.started_ticks < self.begun_ticks);
        if is_older {
            member.children_ns = children_ns;
        } else {
            self.cpu_ns = self
                .cpu_ns
                .saturating_add(member.own.on_cpu_ns().saturating_sub(was.0));
            self.waited_ns = self
                .waited_ns
                .saturating_add(member.own.waited_ns().saturating_sub(was.1));
            self.switches = self
                .switches
                .saturating_add(member.own.switches().saturating_sub(was.2));
        }
        let grown_ns = children_ns.saturating_sub(member.children_ns);
        member.children_ns = children_ns;
        member.parent = stat.parent;
        self.members.insert(pid, member);
        grown_ns
    }

    /// Counts what children that ended did after they were last seen: what the times of the member that waited for
    /// them grew by, less what was counted of them while they lived.
    fn settle(&mut self, ended: HashMap<u32, Member>, reaped_ns: &HashMap<u32, u64>) {
        let mut counted_ns: HashMap<u32, u64> = HashMap::new();
        for member in ended.values() {
            let mut parent = member.parent;
            // The one that waited for it may have ended too; its own parent's times then hold both.
            for _ in 0..MEMBERS_MAX {
                let Some(ended_too) = ended.get(&parent) else {
                    break;
                };
                parent = ended_too.parent;
            }
            let sum = counted_ns.entry(parent).or_default();
            *sum = sum.saturating_add(member.own.on_cpu_ns().saturating_add(member.children_ns));
        }
        let slack_ns = signed(2 * self.tick_ns);
        for (pid, member) in &mut self.members {
            let fresh = signed(counted_ns.get(pid).copied().unwrap_or(0));
            let grown = signed(reaped_ns.get(pid).copied().unwrap_or(0));
            let rest = grown
                .saturating_sub(fresh)
                .saturating_add(member.carried_ns);
            if rest >= 0 {
                self.cpu_ns = self.cpu_ns.saturating_add(rest.unsigned_abs());
                member.carried_ns = 0;
            } else {
                // A child may be gone before its parent's times show it, so a debt of this sample waits for the next
                // one. An older one can only be the ticks' cutting: who does not wait for children never shows them.
                member.carried_ns = rest.max(-(fresh.saturating_add(slack_ns)));
            }
        }
    }
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

fn is_running(table: &Table, (pid, started_ticks): &(u32, u64)) -> bool {
    table.get(*pid).is_some_and(|stat| {
        stat.started_ticks == *started_ticks && !matches!(stat.state, 'Z' | 'X')
    })
}

fn add_size(reading: &mut Reading, pid: u32, stat: &Stat) {
    fn add(sum: &mut Option<u64>, part: Option<u64>) {
        if let Some(part) = part {
            *sum = Some(sum.unwrap_or(0).saturating_add(part));
        }
    }
    if matches!(stat.state, 'Z' | 'X') {
        return;
    }
    let status = read::text(&process::folder(pid).join("status")).unwrap_or_default();
    let memory = process::parse_memory(&status);
    add(&mut reading.rss_bytes, memory.rss_bytes);
    add(&mut reading.anon_bytes, memory.anon_bytes);
    add(&mut reading.descriptors, process::descriptors(pid));
    reading.processes += 1;
    reading.threads = reading.threads.saturating_add(stat.threads);
}
