//! `weir stop`, `weir go`, `weir stopped`: have nothing pass, for all, a lane or an agent, and let it pass again.

use std::path::{Path, PathBuf};

use base::Name;
use clap::Args;
use serde_json::json;
use store::directory::DirectoryFile;

use super::{Answer, ConfigFile, Ended, Failure, print, print_problems};
use crate::config::file::{Stopped, stopped};
use crate::{lanes, stopping};

/// Where stops are kept.
#[derive(Args, Debug)]
struct StopsPlace {
    #[command(flatten)]
    file: ConfigFile,
    /// The gateway's state folder, where its configuration cannot be read
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl StopsPlace {
    /// The state folder: what is named, or what the configuration says, be the rest of it good or not.
    fn state(&self) -> Result<PathBuf, Failure> {
        if let Some(state) = &self.state {
            return match state.is_dir() {
                true => Ok(state.clone()),
                false => {
                    let what = format!("{} is not a folder", state.display());
                    Err(Failure::new(what, "Name the state folder of the gateway."))
                }
            };
        }
        let path = self.file.path();
        crate::config::read::state(&path).map_err(|problems| {
            print_problems(&problems);
            let what = format!("{} does not say where the state folder is", path.display());
            let help = "Name that folder with --state DIR, or send SIGUSR1 to the gateway, which stops everything.";
            Failure::new(what, help)
        })
    }
}

/// Let nothing pass: of everything, of one agent, or of one lane
///
/// It is in force for the next byte of what runs, tunnels and streams too, and a restart keeps it. Health and metrics stay.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir stop                  Everything
  weir stop --agent dev      One agent
  weir stop --lane web       One lane
  weir stop --state ./state  Everything, while weir.yaml cannot be read
  weir go                    Lift what weir stop stopped

It writes the file stop in the state folder, which a gateway that runs looks at ten times a second. SIGUSR1 stops everything
in the same way. What stop in the configuration stops, weir go does not lift.
Exit codes: 0 done, 2 it could not be done.")]
pub(super) struct Stop {
    #[command(flatten)]
    place: StopsPlace,
    /// Stop this agent
    #[arg(long, value_name = "NAME")]
    agent: Vec<String>,
    /// Stop this lane: mcp, llm, web, a2a, run or relay
    #[arg(long, value_name = "NAME")]
    lane: Vec<String>,
}

/// Let pass again what weir stop stopped
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir go                    Lift all that weir stop, the signal or the operator's page stopped
  weir go --agent dev        Lift the stop of one agent

Exit codes: 0 done, 2 it could not be done.")]
pub(super) struct Go {
    #[command(flatten)]
    place: StopsPlace,
    /// Lift the stop of this agent alone
    #[arg(long, value_name = "NAME")]
    agent: Vec<String>,
    /// Lift the stop of this lane alone
    #[arg(long, value_name = "NAME")]
    lane: Vec<String>,
}

/// Say what is stopped
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir stopped
  weir stopped --json

Exit codes: 0 nothing is stopped, 1 something is, 2 it could not be found out.")]
pub(super) struct StoppedNow {
    #[command(flatten)]
    place: StopsPlace,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Stop {
    pub(super) fn run(self) -> Ended {
        let state = self.place.state()?;
        let asked = asked(&self.place.file, &state, &self.agent, &self.lane)?;
        let asked = if asked.is_empty() {
            vec![Stopped::All]
        } else {
            asked
        };
        let mut stops = stopping::of_state(&state);
        asked
            .into_iter()
            .for_each(|stop| stopping::add(&mut stops, stop));
        write(&state, &stops)?;
        say(&stops)
    }
}

impl Go {
    pub(super) fn run(self) -> Ended {
        let state = self.place.state()?;
        let mut stops = stopping::of_state(&state);
        match self.agent.is_empty() && self.lane.is_empty() {
            true => stops = gate::Stops::default(),
            false => {
                stops
                    .agents
                    .retain(|agent| !self.agent.iter().any(|name| name == agent.as_str()));
                stops.lanes.retain(|lane| !self.lane.contains(lane));
            }
        }
        write(&state, &stops)?;
        say(&stops)
    }
}

impl StoppedNow {
    pub(super) fn run(self) -> Ended {
        let state = self.place.state()?;
        let mut stops = stopping::of_state(&state);
        if let Ok(settings) = self.place.file.read()? {
            let configured = stopping::words(&settings.stop);
            for stop in configured.iter().filter_map(|word| stopped(word).ok()) {
                stopping::add(&mut stops, stop);
            }
        }
        let words = stopping::words(&stops);
        match self.json {
            true => print(&format!("{}\n", json!({ "stopped": words })))?,
            false => say(&stops).map(drop)?,
        }
        Ok(if words.is_empty() {
            Answer::Yes
        } else {
            Answer::No
        })
    }
}

/// What is to be stopped. A name that nothing has would stop nothing, and nobody would notice.
fn asked(
    file: &ConfigFile,
    state: &Path,
    agents: &[String],
    lanes: &[String],
) -> Result<Vec<Stopped>, Failure> {
    let known: Vec<&str> = lanes::tables().iter().map(|lane| lane.name).collect();
    let unknown = |what: &str, name: &str, known: &[&str]| {
        let known = format!("There are: {}.", known.join(", "));
        Failure::new(format!("there is no {what} {name:?}"), known)
    };
    if let Some(lane) = lanes.iter().find(|lane| !known.contains(&lane.as_str())) {
        return Err(unknown("lane", lane, &known));
    }
    // A configuration that has problems must not keep anybody from stopping.
    let book = DirectoryFile::of_state(state).read();
    if let (Ok(Ok(settings)), Ok(book)) = (file.read(), book) {
        let enrolled = book.agents.iter().map(|agent| agent.name.as_str());
        let configured = settings.agents.iter().map(|agent| &agent.name);
        let configured = configured.chain(settings.relay.agents());
        let known: Vec<&str> = configured.map(Name::as_str).chain(enrolled).collect();
        if let Some(agent) = agents.iter().find(|agent| !known.contains(&agent.as_str())) {
            return Err(unknown("agent", agent, &known));
        }
    }
    let lanes = lanes.iter().map(|lane| format!("lane:{lane}"));
    let words = lanes.chain(agents.iter().map(|agent| format!("agent:{agent}")));
    let stops =
        words.map(|word| stopped(&word).map_err(|why| Failure::new(format!("{word:?} {why}"), "")));
    stops.collect()
}

fn write(state: &std::path::Path, stops: &gate::Stops) -> Result<(), Failure> {
    stopping::write_to_state(state, stops).map_err(|error| {
        let what = format!("{}: the stops cannot be written: {error}", state.display());
        Failure::new(
            what,
            "Is this the gateway's state folder, and yours to write?",
        )
    })
}

fn say(stops: &gate::Stops) -> Ended {
    let words = stopping::words(stops);
    print(&match words.is_empty() {
        true => "nothing is stopped\n".to_owned(),
        false => format!("stopped: {}\n", words.join(", ")),
    })?;
    Ok(Answer::Yes)
}
