//! Stops that are asked for while the gateway runs: by `weir stop`, by a signal, by the operator's page.
//!
//! They stand in a file of the state folder, so that a restart keeps them, and are in force beside those of the
//! configuration. A file that cannot be read stops everything: whoever wrote it wanted something stopped.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base::Name;
use base::record::Admin;
use gate::ports::Recorder as _;
use gate::{Gate, Stops};
use store::Log;

use crate::config::file::{Stopped, stopped};
use crate::config::read::read_text;
use crate::ports::Clock;

/// The file in the state folder: a stop in each line, as `stop` of the configuration has them.
const FILE: &str = "stop";
/// Bytes of that file.
const FILE_BYTES_MAX: usize = 64 << 10;

/// Who asked for what is in force now, and what.
pub(crate) struct Stopping {
    path: PathBuf,
    gate: Arc<Gate>,
    log: Arc<Log>,
    clock: Arc<Clock>,
    asked: Mutex<AskedStops>,
}

#[derive(Default)]
struct AskedStops {
    by_configuration: Stops,
    by_file: Stops,
    /// The file's text, to see that it changed.
    text: Option<String>,
}

impl Stopping {
    /// Puts the stops of the configuration and of the file in force.
    pub(crate) fn new(
        state: &Path,
        configured: &Stops,
        gate: &Arc<Gate>,
        log: &Arc<Log>,
        clock: &Arc<Clock>,
    ) -> Stopping {
        let stopping = Stopping {
            path: state.join(FILE),
            gate: Arc::clone(gate),
            log: Arc::clone(log),
            clock: Arc::clone(clock),
            asked: Mutex::default(),
        };
        stopping.configured(configured.clone());
        stopping.look("start");
        stopping
    }

    /// Puts other stops of the configuration in force.
    pub(crate) fn configured(&self, stops: Stops) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.by_configuration = stops;
        self.gate.stop(asked.all());
    }

    /// Looks whether the file changed, and puts what it says in force. `by` is what made it change, for the record.
    pub(crate) fn look(&self, by: &str) {
        let text = read(&self.path);
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.text == text {
            return;
        }
        let before = std::mem::take(&mut asked.by_file);
        asked.by_file = text.as_deref().map_or_else(Stops::default, of_text);
        asked.text = text;
        self.gate.stop(asked.all());
        if asked.by_file != before {
            let stopped = words(&asked.by_file);
            tracing::warn!(by, stopped = stopped.join(", "), "stops changed");
            let (what, none) = (if stopped.is_empty() { "go" } else { "stop" }, &[]);
            let admin = Admin {
                at: gate::ports::Clock::now(&*self.clock),
                what,
                by,
                changed: &stopped,
                waiting: none,
                policy_set: None,
                directory: None,
                refused: None,
            };
            self.log.note(admin.to_json());
        }
    }

    /// Writes other stops into the file, and puts them in force.
    ///
    /// # Errors
    /// The file cannot be written; what was in force stays.
    pub(crate) fn ask(&self, stops: &Stops, by: &str) -> io::Result<()> {
        write(&self.path, stops)?;
        self.look(by);
        Ok(())
    }

    /// All that is in force, as words.
    pub(crate) fn in_force(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        words(&asked.all())
    }
}

impl AskedStops {
    fn all(&self) -> Stops {
        let (one, other) = (&self.by_configuration, &self.by_file);
        Stops {
            all: one.all || other.all,
            lanes: [one.lanes.clone(), other.lanes.clone()].concat(),
            agents: [one.agents.clone(), other.agents.clone()].concat(),
        }
    }
}

/// The stops that stand in the file of a state folder.
pub(crate) fn of_state(state: &Path) -> Stops {
    let text = read(&state.join(FILE));
    text.as_deref().map_or_else(Stops::default, of_text)
}

/// Writes the stops of a state folder. A gateway that runs puts them in force at once.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_to_state(state: &Path, stops: &Stops) -> io::Result<()> {
    write(&state.join(FILE), stops)
}

/// The file's text; nothing where it is not there. One that is there and cannot be read says `all`.
fn read(path: &Path) -> Option<String> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        _ => Some(read_text(path, FILE_BYTES_MAX).unwrap_or_else(|_| "all".to_owned())),
    }
}

fn write(path: &Path, stops: &Stops) -> io::Result<()> {
    let words = words(stops);
    if words.is_empty() {
        return match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let new = path.with_extension("new");
    let mut file = std::fs::File::create(&new)?;
    file.write_all(format!("{}\n", words.join("\n")).as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}

/// The stops in a text. A line that means nothing stops everything.
fn of_text(text: &str) -> Stops {
    let mut stops = Stops::default();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match stopped(line) {
            Ok(stop) => add(&mut stops, stop),
            Err(_) => stops.all = true,
        }
    }
    stops
}

pub(crate) fn add(stops: &mut Stops, stop: Stopped) {
    match stop {
        Stopped::All => stops.all = true,
        Stopped::Lane(lane) if !stops.lanes.contains(&lane) => stops.lanes.push(lane),
        Stopped::Agent(agent) if !stops.agents.contains(&agent) => stops.agents.push(agent),
        Stopped::Lane(_) | Stopped::Agent(_) => {}
    }
}

/// Stops as the configuration writes them.
pub(crate) fn words(stops: &Stops) -> Vec<String> {
    let all = stops.all.then(|| "all".to_owned());
    let lanes = stops.lanes.iter().map(|lane| format!("lane:{lane}"));
    let agents = stops.agents.iter().map(Name::as_str);
    let agents = agents.map(|agent| format!("agent:{agent}"));
    all.into_iter().chain(lanes).chain(agents).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_are_kept_as_they_are_written() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(of_state(dir.path()), Stops::default());
        let stops = Stops {
            all: false,
            lanes: vec!["web".into()],
            agents: vec![Name::new("dev").unwrap()],
        };
        write_to_state(dir.path(), &stops).unwrap();
        assert_eq!(of_state(dir.path()), stops);
        write_to_state(dir.path(), &Stops::default()).unwrap();
        assert!(!dir.path().join(FILE).exists());
    }

    #[test]
    fn what_cannot_be_read_stops_everything() {
        assert!(of_text("# why\n\nlane:web\nagent dev\n").all);
        assert!(!of_text("# why\n\nlane:web\n").all);
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(FILE)).unwrap();
        assert!(of_state(dir.path()).all);
    }
}
