//! Operations of the program that the lab is a part of.

use std::sync::Barrier;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use super::{Asked, Listed, MicroOperation, Source, Took};
use crate::exit::Failure;

pub(super) struct Own<'l> {
    lent: &'l [MicroOperation],
}

impl<'l> Own<'l> {
    pub(super) fn new(lent: &'l [MicroOperation]) -> Own<'l> {
        Own { lent }
    }
}

impl Source for Own<'_> {
    fn list(&mut self) -> Result<Vec<Listed>, Failure> {
        let one = |lent: &MicroOperation| Listed {
            name: lent.name.to_owned(),
            about: lent.about.to_owned(),
            is_sized: lent.is_sized,
        };
        match self.lent.is_empty() {
            true => Err(Failure::new(
                "this program lends no operations",
                "name a program with --exec",
            )),
            false => Ok(self.lent.iter().map(one).collect()),
        }
    }

    /// Every thread does it so many times. The CPU time is the whole process's, since an operation may have threads of its own.
    fn run(&mut self, cell: &Asked, times: u64) -> Result<Took, Failure> {
        let lent = self
            .lent
            .iter()
            .find(|lent| lent.name == cell.operation.name);
        let lent = lent.ok_or_else(|| Failure::new("there is no such operation", ""))?;
        let size = cell.size.unwrap_or(0) as usize;
        let mut ready: Vec<_> = (0..cell.threads).map(|_| (lent.prepare)(size)).collect();
        let begin = Barrier::new(cell.threads);
        let cpu = cpu_ns();
        let clock = Instant::now();
        match ready.as_mut_slice() {
            [one] => (0..times).for_each(|_| one()),
            all => std::thread::scope(|scope| {
                for operation in all {
                    let begin = &begin;
                    scope.spawn(move || {
                        begin.wait();
                        (0..times).for_each(|_| operation());
                    });
                }
            }),
        }
        let wall_ns = clock.elapsed().as_nanos() as f64;
        let cpu_ns = cpu_ns() - cpu;
        Ok(Took {
            times: times * cell.threads as u64,
            cpu_ns,
            wall_ns,
        })
    }
}

fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
