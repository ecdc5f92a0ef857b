//! What every experiment on one server is asked with: the server, the load, where results go, and how much is said.
//!
//! The flags of a load are those of `weir lab load`, so that no experiment spells a load in another way.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::launch::Launch;
use super::side::{Spec, given};
use crate::exit::Failure;
use crate::experiments::load::Load;
use crate::result::Verdict;
use crate::scenario::{self, Flags};

/// Longest that a server may take to be ready.
pub const READY_MAX: Duration = Duration::from_secs(60);

/// The part of a command line that experiments have in common.
#[derive(Clone, Debug, Args)]
pub struct AskedServer {
    /// The URL, or the scenario file with one scenario; {port} in a URL is the port of a started server
    #[arg(value_name = "URL|FILE", required = true, num_args = 1..=2)]
    pub what: Vec<String>,
    /// Start the server by this command; {port} becomes a free port
    #[arg(long, value_name = "COMMAND", help_heading = "The server")]
    pub command: Option<String>,
    /// Ask this http:// address whether the server is ready [default: until it says `listening on`, or accepts]
    #[arg(
        long,
        value_name = "URL",
        help_heading = "The server",
        requires = "command"
    )]
    pub ready: Option<String>,
    /// Print the facts as one JSON object, and nothing else, to standard output
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Say nothing while it runs
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
    /// Say what would be done and how long it takes, and send nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Allow targets outside this machine: they are yours, or you may load them
    #[arg(long)]
    pub i_own_this: bool,
    #[command(flatten)]
    pub flags: Flags,
}

impl AskedServer {
    /// The server.
    pub fn spec(&self) -> Spec {
        let url = self.what.iter().find(|text| text.contains("://"));
        Spec {
            label: self
                .command
                .clone()
                .or_else(|| url.map(|url| scenario::without_user(url)))
                .unwrap_or_default(),
            url: url.cloned(),
            launch: self.command.as_ref().map(|command| Launch {
                command: command.clone(),
                ready: self.ready.clone(),
                ready_max: READY_MAX,
            }),
            watch: Vec::new(),
            finds: true,
            names_failures: false,
        }
    }

    /// Another address that gets the same load: the direct way beside the one through the server.
    pub fn direct(&self, url: &str) -> Spec {
        Spec {
            label: scenario::without_user(url),
            url: Some(url.to_owned()),
            launch: None,
            watch: Vec::new(),
            finds: true,
            names_failures: false,
        }
    }

    /// The load without its target and without the flags that the experiment sets itself, which are refused.
    ///
    /// # Errors
    ///
    /// A flag that means nothing here was given.
    pub fn load(&self, not_here: &[&str]) -> Result<Load, Failure> {
        for name in not_here.iter().chain(&["matrix", "summary-export", "hlog"]) {
            if self.flag(name).is_some() {
                return Err(Failure::new(
                    format!("--{name} is not for this experiment"),
                    "leave it out, or use it with weir lab load",
                ));
            }
        }
        let mut load = Load {
            flags: self.flags.clone(),
            quiet: true,
            i_own_this: self.i_own_this,
            ..Load::default()
        };
        // Results go where the experiment puts them.
        let own = ["out", "html", "csv"];
        load.flags
            .given
            .retain(|given| !own.contains(&given.flag.name));
        load.source
            .extend(self.what.iter().find(|text| !text.contains("://")).cloned());
        Ok(load)
    }

    /// The text of a flag of the load, the last one that was given.
    pub fn flag(&self, name: &str) -> Option<&str> {
        let given = self.flags.given.iter().rev();
        let mut named = given.filter(|given| given.flag.name == name);
        named.next().map(|given| given.text.as_str())
    }

    /// A flag that is a duration.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn time(&self, name: &str, default: Duration) -> Result<Duration, Failure> {
        let text = self.flag(name);
        text.map_or(Ok(default), |text| {
            scenario::units::duration(text)
                .map_err(|what| Failure::new(format!("--{name}: {what}"), ""))
        })
    }

    /// The seed of everything that is drawn.
    pub fn seed(&self) -> u64 {
        self.flag("seed")
            .and_then(|text| text.parse().ok())
            .unwrap_or(1)
    }

    /// The folder for everything.
    pub fn out(&self) -> Option<PathBuf> {
        self.flag("out").map(PathBuf::from)
    }

    /// Says a line to who waits.
    pub fn tell(&self, line: &str) {
        if !self.quiet && !self.json {
            use std::io::Write as _;
            // Whoever waits may have closed the pipe; the measurement is for the result.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }

    /// The command that repeats this one, without what may be a secret; the experiment's own words in its middle.
    pub fn words(&self, experiment: &str, own: &[String]) -> Vec<String> {
        let mut words: Vec<String> = ["weir", "lab", experiment].map(String::from).to_vec();
        words.extend(self.what.iter().map(|word| scenario::without_user(word)));
        let pairs = [("--command", &self.command), ("--ready", &self.ready)];
        for (name, value) in pairs {
            words.extend(
                value
                    .iter()
                    .flat_map(|value| [name.to_owned(), value.clone()]),
            );
        }
        words.extend(own.iter().cloned());
        words.extend(self.flags.words());
        if self.i_own_this {
            words.push("--i-own-this".to_owned());
        }
        words
    }
}

/// A load with some flags in the place of those that were given.
///
/// # Errors
///
/// There is no such flag: a defect of the lab.
pub fn with(load: &Load, without: &[&str], flags: &[(&str, &str)]) -> Result<Load, Failure> {
    let mut load = load.clone();
    let is_replaced =
        |name: &str| without.contains(&name) || flags.iter().any(|(flag, _)| *flag == name);
    load.flags
        .given
        .retain(|given| !is_replaced(given.flag.name));
    for (name, text) in flags {
        load.flags.given.push(given(name, text)?);
    }
    Ok(load)
}

/// The first verdict of several that is neither valid nor accepted.
pub fn worst(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    let rank = |verdict: &Verdict| match verdict {
        Verdict::Valid => 0,
        Verdict::TooShort => 1,
        Verdict::NotSaturated => 2,
        Verdict::NoisyHost => 3,
        Verdict::GeneratorBound => 4,
        Verdict::Interrupted => 5,
    };
    verdicts.into_iter().max_by_key(rank).unwrap_or_default()
}
