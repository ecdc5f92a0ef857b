//! What the generator itself uses: this process, thread by thread.
//!
//! A generator at its limit measures itself. Children of this process are not counted: a target that the lab started
//! is not the generator.

use std::collections::HashMap;

use super::process::{self, OwnTime, Thread};

/// This process, as often as it was read.
#[derive(Default)]
pub(super) struct Own {
    time: OwnTime,
    /// Threads that were ever seen keep their last word, so one that ended within a step still counts in it.
    threads: HashMap<u32, Thread>,
}

impl Own {
    /// Reads it again.
    pub(super) fn sample(&mut self) {
        let Some(stat) = process::stat(std::process::id()) else {
            return;
        };
        let threads = process::threads(std::process::id(), stat.threads);
        let ticks = stat.user_ticks.saturating_add(stat.system_ticks);
        self.time
            .update(&threads, ticks.saturating_mul(process::tick_ns()));
        for (tid, sched) in threads {
            let is_full = self.threads.len() >= process::THREADS_MAX;
            match self.threads.get_mut(&tid) {
                Some(thread) if thread.sched.on_cpu_ns <= sched.on_cpu_ns => thread.sched = sched,
                None if is_full => {}
                _ => {
                    let name = process::name(tid);
                    self.threads.insert(tid, Thread { tid, name, sched });
                }
            }
        }
    }

    /// CPU time of the whole process since it began, in µs.
    pub(super) fn cpu_us(&self) -> u64 {
        self.time.on_cpu_ns() / 1000
    }

    /// Time that its threads were ready to run and had no CPU, in µs.
    pub(super) fn waited_us(&self) -> u64 {
        self.time.waited_ns() / 1000
    }

    /// How often its threads were put on a CPU.
    pub(super) fn switches(&self) -> u64 {
        self.time.switches()
    }

    /// Every thread seen so far, those that ended too.
    pub(super) fn threads(&self) -> impl Iterator<Item = &Thread> {
        self.threads.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_found_by_its_name() {
        let mut own = Own::default();
        own.sample();
        let before = own.cpu_us();
        let (asked, asks) = std::sync::mpsc::channel::<()>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("spins-a-bit".to_owned())
            .spawn(move || {
                let clock = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
                while clock().tv_sec == 0 && clock().tv_nsec < 60_000_000 {}
                ready.send(()).unwrap();
                let _ = asks.recv();
            })
            .unwrap();
        is_ready.recv().unwrap();
        own.sample();
        let found = own
            .threads()
            .find(|thread| thread.name == "spins-a-bit")
            .unwrap();
        // A thread's own count may be one scheduler tick behind its clock.
        assert!(found.sched.on_cpu_ns >= 48_000_000, "{found:?}");
        assert!(own.cpu_us() - before >= 48_000, "{} {before}", own.cpu_us());
        drop(asked);
        thread.join().unwrap();
    }
}
