//! `weir lab sweep`: where does it bend, how does it break, what do a request and a kilobyte cost, how does it scale?
//!
//! A sweep is many runs of `weir lab load` on one server, each of them valid or not for itself. Levels are repeated in an
//! order drawn by the seed, so that a drift of the machine does not look like one of the server.

mod course;
mod levels;
pub(super) use self::levels::times;
mod recovery;

use std::time::Duration;

use clap::Args;

use self::course::Course;
use self::levels::Levels;
use crate::bench::asked::AskedServer;
use crate::bench::deliver;
use crate::bench::shape::CpuShape;
use crate::bench::side::given;
use crate::bench::stand::Stand;
use crate::exit::{Ended, Exit, Failure};
use crate::experiments::load::Load;
use crate::facts::Facts;
use crate::interrupt;
use crate::output;
use crate::report::experiments::sweep::sheet;
use crate::report::words::seconds;
use crate::scenario::units;

/// Most levels of each kind, repeats, sizes and shapes.
pub const LEVELS_MAX: usize = 32;
pub const REPEATS_MAX: usize = 30;
/// The ladder by itself goes to so many connections at most.
const CONNECTIONS_MAX_DEFAULT: u32 = 1024;
/// How long a level is held, and its warm-up, where nothing else is said.
const DURATION: &str = "5s";
const WARMUP: &str = "1s";
/// Flags of a load that a sweep sets itself.
const NOT_HERE: &[&str] = &[
    "connections",
    "rate",
    "stage",
    "arrivals",
    "threshold",
    "interval",
];

const EXAMPLES: &str = "\
Examples:
  weir lab sweep http://127.0.0.1:8900/ --out sweep                   The ladder, arrivals, overload and recovery
  weir lab sweep http://127.0.0.1:8900/echo --payload 100B,2KB,5KB,10KB --direct http://127.0.0.1:8901/echo
  weir lab sweep --command './gateway --port {port}' http://127.0.0.1:{port}/ --shapes 0.5c,1c,2c/512MiB
  weir lab sweep http://127.0.0.1:8900/ --closed 8,16,32,64 --open none --overload 0 --repeat 5 -d 10s
  weir lab sweep http://127.0.0.1:8900/ --dry-run                     What it would do, and how long that takes

The folder of --out gets facts.json, report.html, report.md, a CSV file for each table and an SVG file for each picture.

Exit codes: 0 the knee was found and is valid, 2 it could not be run, 91 too short, 92 not brought to its limit, 93 noisy, 94
the generator was the limit, 95 a wrong answer, 105 interrupted. weir lab --help says each.";

/// Finds where a server bends, how it breaks, and what a request costs
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SweepArgs {
    #[command(flatten)]
    asked: AskedServer,
    /// Connections to try, or `auto`: 1, 2, 4, … until more of them give no more
    #[arg(long, value_name = "N,…|auto", default_value = "auto", value_parser = Levels::read)]
    closed: Levels,
    /// Most connections that `--closed auto` tries
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS_MAX_DEFAULT, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    connections_max: u32,
    /// Arrivals a second to try; `auto`: shares of what the knee carried; or `none`
    #[arg(long, value_name = "RATE,…|auto|none", default_value = "auto", value_parser = Levels::read)]
    open: Levels,
    /// Ask for up to so many times more than it carries, with more connections and with more arrivals; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(0..=64))]
    overload: u32,
    /// Sizes of a unique body to try, such as 100B,2KB,10KB: what a kilobyte costs
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = units::size)]
    payload: Vec<u64>,
    /// Shapes to start the server in, such as 0.5c,1c/256MiB: cores, and memory
    #[arg(
        long,
        value_name = "SHAPE,…",
        value_delimiter = ',',
        requires = "command"
    )]
    shapes: Vec<CpuShape>,
    /// The same load without the server in between, taken in turns: what the server adds
    #[arg(long, value_name = "URL")]
    direct: Option<String>,
    /// How often each level is measured; fewer than 3 are no headline
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=REPEATS_MAX as i64))]
    repeat: u32,
}

impl SweepArgs {
    pub fn run(self) -> Ended {
        let load = self.load()?;
        let hold = self.asked.time("duration", Duration::from_secs(5))?;
        self.bounds()?;
        if self.asked.dry_run {
            self.asked.spec().check(&load)?;
            output::say(&mut std::io::stdout(), &self.plan(hold)?)?;
            return Ok(Exit::Pass);
        }
        deliver::check(&self.asked)?;
        interrupt::listen()?;
        let direct = self.direct.as_ref().map(|url| self.asked.direct(url));
        if let Some(direct) = &direct {
            direct.check(&load)?;
        }
        let stand = Stand::set_up(self.asked.spec(), load, None)?;
        let mut course = Course::new(&self, stand, direct, hold);
        // What was measured before a failure is delivered too.
        let carried = course.carry_out();
        let exit = course.exit();
        let sweep = course.facts(self.asked.words("sweep", &self.own_words()));
        if carried.is_ok() || !sweep.closed.is_empty() {
            let mut facts = Facts::new();
            let sheet = sheet(&sweep);
            facts.sweeps.push(sweep);
            deliver::deliver(&self.asked, &facts, &sheet)?;
        }
        carried.map(|()| exit)
    }

    /// The load of every cell, without its level.
    fn load(&self) -> Result<Load, Failure> {
        let mut load = self.asked.load(NOT_HERE)?;
        for (name, text) in [("duration", DURATION), ("warmup", WARMUP)] {
            if self.asked.flag(name).is_none() {
                load.flags.given.push(given(name, text)?);
            }
        }
        Ok(load)
    }

    fn bounds(&self) -> Result<(), Failure> {
        let counts = [
            ("--payload", self.payload.len()),
            ("--shapes", self.shapes.len()),
        ];
        for (name, count) in counts {
            if count > LEVELS_MAX {
                return Err(Failure::new(
                    format!("{name} names {count}; {LEVELS_MAX} is the most"),
                    "name fewer",
                ));
            }
        }
        Ok(())
    }

    fn own_words(&self) -> Vec<String> {
        let mut words = vec!["--closed".to_owned(), self.closed.to_string()];
        let mut say = |name: &str, value: String| words.extend([name.to_owned(), value]);
        if self.connections_max != CONNECTIONS_MAX_DEFAULT {
            say("--connections-max", self.connections_max.to_string());
        }
        say("--open", self.open.to_string());
        say("--overload", self.overload.to_string());
        let list = |items: Vec<String>| items.join(",");
        if !self.payload.is_empty() {
            say(
                "--payload",
                list(self.payload.iter().map(u64::to_string).collect()),
            );
        }
        if !self.shapes.is_empty() {
            say(
                "--shapes",
                list(self.shapes.iter().map(CpuShape::to_string).collect()),
            );
        }
        if let Some(direct) = &self.direct {
            say("--direct", crate::scenario::without_user(direct));
        }
        say("--repeat", self.repeat.to_string());
        words
    }

    /// How many cells there will be, about: the ladder finds its own end.
    fn cells(&self) -> Vec<(String, usize)> {
        let repeat = self.repeat as usize;
        let doublings = (self.connections_max.ilog2() + 1).min(9) as usize;
        let closed = self.closed.count().unwrap_or(doublings);
        let open = self.open.count().unwrap_or(levels::SHARES.len());
        let overload = levels::times(self.overload).len();
        let mut cells = vec![(format!("closed levels ({})", self.closed), closed * repeat)];
        let mut more = |what: String, count: usize| {
            if count > 0 {
                cells.push((what, count));
            }
        };
        more(
            "light and knee, through and direct".to_owned(),
            usize::from(self.direct.is_some()) * 4 * repeat,
        );
        more(format!("arrivals ({})", self.open), open * repeat);
        more(
            format!("overload, closed, to {} times", self.overload),
            overload * repeat,
        );
        more(
            format!("overload, open, to {} times", self.overload),
            overload * repeat,
        );
        more("recovery".to_owned(), usize::from(self.overload > 0));
        more(
            "payloads, light and at the knee".to_owned(),
            self.payload.len() * 2 * repeat,
        );
        more("shapes".to_owned(), self.shapes.len() * repeat);
        cells
    }

    fn plan(&self, hold: Duration) -> Result<String, Failure> {
        let warmup = self.asked.time("warmup", Duration::from_secs(1))?;
        let each = (hold + warmup).as_secs_f64() + 0.3;
        let mut text = String::new();
        let mut all = 0;
        for (what, count) in self.cells() {
            text += &format!("{count:>4} runs  {what}\n");
            all += count;
        }
        Ok(text + &format!("{all:>4} runs, about {}\n", seconds(all as f64 * each)))
    }
}
