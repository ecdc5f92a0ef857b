//! The experiments: each is a command of `weir lab`, one file below, one row here.

pub mod bisect;
pub mod calibrate;
pub mod certify;
pub mod coldstart;
pub mod compare;
pub mod export;
pub mod import;
pub mod load;
pub mod micro;
pub mod report;
pub mod schema;
pub mod size;
pub mod soak;
pub mod sweep;
pub mod target;
pub mod verify;

use clap::Subcommand;

use crate::exit::Ended;

/// What stands below the help of `weir lab`.
pub const EXAMPLES: &str = "\
Examples:
  weir lab target                                          Start a server to measure against
  weir lab load http://127.0.0.1:8900/ -c 64 -d 10s        64 connections, as fast as they are answered
  weir lab load http://127.0.0.1:8900/ -R 1000 -d 30s      1,000 requests a second, whatever the answers do
  weir lab sweep http://127.0.0.1:8900/ --out sweep        Where it bends, how it breaks, what a request costs
  weir lab soak http://127.0.0.1:8900/ -R 500 -d 60m          Does it leak?
  weir lab certify http://127.0.0.1:8900/echo --origin http://127.0.0.1:8900
  weir lab size sweep --peak 3000 --payload 5KB               What to buy, from what was measured
  weir lab load scenario.yaml --out run                    What a file says, with run.json and a report

Exit codes:
  0    done: valid, within its thresholds, not worse
  2    could not be run: wrong use, a file, the target, or this machine's limits
  91   too short to be judged
  92   the target was not brought to its limit
  93   the machine was busy with something else
  94   the generator was the limit, not the target
  95   an answer was not what was sent, or a request was executed twice
  96   the comparison cannot tell, because blocks were dropped
  97   the comparison cannot tell (with --strict)
  98   the comparison says worse
  99   a threshold was breached
  105  interrupted; a partial result was written";

/// What `weir lab` can be asked.
#[derive(Debug, Subcommand)]
pub enum Experiment {
    Load(load::Load),
    Target(Box<target::Target>),
    Calibrate(calibrate::Calibrate),
    Compare(Box<compare::Compare>),
    Schema(schema::Schema),
    Report(report::Report),
    Sweep(Box<sweep::SweepArgs>),
    Soak(Box<soak::SoakArgs>),
    Certify(Box<certify::CertifyArgs>),
    Verify(verify::Verify),
    Size(Box<size::SizeArgs>),
    Import(import::Import),
    Export(export::Export),
    Micro(micro::Micro),
    Bisect(Box<bisect::Bisect>),
}

impl Experiment {
    /// Carries it out. What it has to say goes to standard output. What `micro` measures is lent by the program around.
    pub fn run(self, lent: &[micro::MicroOperation]) -> Ended {
        match self {
            Experiment::Load(load) => load.run(),
            Experiment::Target(target) => target.run(),
            Experiment::Calibrate(calibrate) => calibrate.run(),
            Experiment::Compare(compare) => compare.run(),
            Experiment::Schema(schema) => schema.run(),
            Experiment::Report(report) => report.run(),
            Experiment::Sweep(sweep) => sweep.run(),
            Experiment::Soak(soak) => soak.run(),
            Experiment::Certify(certify) => certify.run(),
            Experiment::Verify(verify) => verify.run(),
            Experiment::Size(size) => size.run(),
            Experiment::Import(import) => import.run(),
            Experiment::Export(export) => export.run(),
            Experiment::Micro(micro) => micro.run(lent),
            Experiment::Bisect(bisect) => bisect.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::exit::Exit;

    #[test]
    fn the_help_tells_every_exit_code() {
        for exit in Exit::ALL {
            let line = format!("  {:<4} {}", exit.code(), exit.meaning());
            assert!(super::EXAMPLES.contains(&line), "{line}");
        }
    }
}
