//! What experiments find: one tree, `facts.json`, which they write, and which reports, sizes and pages read.
//!
//! Nothing that is shown is computed from anything else, so a page can be rendered again from its facts years later.
//! Names end in their unit. What was not measured is absent, never zero. Runs of different machines may lie in one
//! tree; whether they do is asked of it, not assumed.

pub mod certificate;
pub mod level;
pub mod size;
pub mod soak;
pub mod sweep;

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::exit::Failure;
use crate::output::{artefact, json};
use crate::result::{Ceilings, Machine};

use certificate::Certificate;
use size::Sizing;
use soak::Soak;
use sweep::Sweep;

/// The format's name and version.
pub const SCHEMA: &str = "weir-lab-facts/1";
/// The file's name in a folder.
pub const FACTS_FILE: &str = "facts.json";
/// Largest file that is read, in bytes.
pub const FACTS_BYTES_MAX: u64 = 64 << 20;
/// Most experiments in one tree.
pub const EXPERIMENTS_MAX: usize = 256;
/// Fewer repeats than this are no headline.
pub const REPEATS_MIN: usize = 3;

/// Everything that was found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Facts {
    pub schema: String,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub sweeps: Vec<Sweep>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub soaks: Vec<Soak>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub certificates: Vec<Certificate>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub sizes: Vec<Sizing>,
}

/// Where and how an experiment was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub represents: String,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub excludes: Vec<String>,
    /// What was measured: a URL without credentials, or a command.
    pub target: String,
    /// The command that repeats it.
    pub command: Vec<String>,
    /// SHA-256 of the scenario as it was read, in hex.
    pub scenario_sha256: String,
    pub seed: u64,
    /// RFC 3339, in UTC.
    pub started: String,
    pub seconds: f64,
    /// It was stopped before its end.
    pub partial: bool,
    /// The lab's version and profile.
    pub version: String,
    pub machine: Machine,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ceilings: Option<Ceilings>,
    /// How long a started server took to be ready.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ready_after_s: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
}

impl Facts {
    pub fn new() -> Facts {
        Facts {
            schema: SCHEMA.to_owned(),
            ..Facts::default()
        }
    }

    /// Reads a `facts.json`, or the one in a folder.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is too large, is not JSON, or is not of a version that is known.
    pub fn read(path: &Path) -> Result<Facts, Failure> {
        let file = if path.is_dir() {
            path.join(FACTS_FILE)
        } else {
            path.to_owned()
        };
        let help = "name a facts.json, or a folder with one, as weir lab sweep --out DIR writes it";
        let fail = |why: String| Failure::new(format!("{}: {why}", file.display()), help);
        let meta = std::fs::metadata(&file).map_err(|e| fail(e.to_string()))?;
        if meta.len() > FACTS_BYTES_MAX {
            return Err(fail(format!("is larger than {FACTS_BYTES_MAX} bytes")));
        }
        let text = std::fs::read(&file).map_err(|e| fail(e.to_string()))?;
        Facts::parse(&text).map_err(fail)
    }

    /// Reads a tree from its bytes.
    ///
    /// # Errors
    ///
    /// In words, what it is not.
    pub fn parse(text: &[u8]) -> Result<Facts, String> {
        let facts: Facts = serde_json::from_slice(text).map_err(|e| e.to_string())?;
        if facts.schema != SCHEMA {
            return Err(format!("is `{}`, not `{SCHEMA}`", facts.schema));
        }
        match facts.settings().count() {
            count if count > EXPERIMENTS_MAX => Err(format!(
                "holds {count} experiments; {EXPERIMENTS_MAX} is the most"
            )),
            _ => Ok(facts),
        }
    }

    /// Adds what another tree holds.
    pub fn join(&mut self, other: Facts) {
        self.sweeps.extend(other.sweeps);
        self.soaks.extend(other.soaks);
        self.certificates.extend(other.certificates);
        self.sizes.extend(other.sizes);
    }

    /// The tree as JSON, ending in a line feed.
    ///
    /// # Errors
    ///
    /// A number in it is not finite, so that it does not read back.
    pub fn json(&self) -> Result<String, Failure> {
        let text = json::laid_out(self);
        let back = Facts::parse(text.as_bytes());
        back.map_err(|why| {
            Failure::new(
                format!("the facts do not read back: {why}"),
                "this is a fault of weir lab",
            )
        })?;
        Ok(text)
    }

    /// Writes `facts.json`, whole or not at all.
    ///
    /// # Errors
    ///
    /// It cannot be written, or does not read back.
    pub fn write(&self, file: &Path) -> Result<(), Failure> {
        artefact::replace(file, self.json()?.as_bytes(), |draft| {
            Facts::read(draft).map(drop)
        })
    }

    /// Where each experiment was made.
    pub fn settings(&self) -> impl Iterator<Item = &Setting> {
        let sweeps = self.sweeps.iter().map(|one| &one.setting);
        let soaks = self.soaks.iter().map(|one| &one.setting);
        let certificates = self.certificates.iter().map(|one| &one.setting);
        let sizes = self.sizes.iter().map(|one| &one.setting);
        sweeps.chain(soaks).chain(certificates).chain(sizes)
    }

    /// Says it where the tree is of several machines: numbers of two machines must not stand side by side unsaid.
    pub fn machines_differ(&self) -> Option<String> {
        let mut settings = self.settings();
        let first = settings.next()?;
        let other = settings.find(|other| other.machine != first.machine)?;
        Some(format!(
            "These numbers are of different machines: {} ({}) and {} ({}). They cannot be compared.",
            first.machine.cpu, first.name, other.machine.cpu, other.name
        ))
    }
}
