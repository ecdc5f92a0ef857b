//! A baseline: findings that are known, so that a scan tells what is new.
//!
//! The file holds rules, names of files and fingerprints, and never a secret. A fingerprint is keyed by a random key that
//! stands in the file too: it tells nothing of a random token, but whoever has the file can try guesses of a weak password.
//! An entry is of one secret in one file, wherever it stands there. A file that cannot be read is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;

use base::hex;
use serde::{Deserialize, Serialize};
use terminal::Failure;

use super::super::key;
use super::super::say::{Found, Judged};
use super::super::with::unreadable;

/// Bytes of a baseline.
const BASELINE_BYTES_MAX: u64 = 16 << 20;
/// The form of the file.
const VERSION: u32 = 1;
const FIRST: &str = "Write it first: weir scan repo DIR --baseline FILE --write-baseline";
const AGAIN: &str = "Write it anew: weir scan repo DIR --baseline FILE --write-baseline";

/// The file as it is written.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct BaselineFile {
    version: u32,
    /// What keys the fingerprints, as 64 hexadecimal digits.
    key: String,
    findings: Vec<KnownSecret>,
}

/// A secret that is known in a file.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(deny_unknown_fields)]
struct KnownSecret {
    /// The path in the folder, with `/`.
    file: String,
    rule: String,
    fingerprint: String,
}

/// The findings that are known, and those of this run.
pub(super) struct Baseline {
    key: [u8; 32],
    /// Whether each was met in this run.
    known: BTreeMap<KnownSecret, bool>,
    /// Findings of this run that a new baseline has.
    met: BTreeSet<KnownSecret>,
    /// How many findings were known.
    pub passed: usize,
}

impl Baseline {
    /// Reads a baseline; where it is to be written and is not there, an empty one with a fresh key.
    ///
    /// # Errors
    /// It cannot be read, or is no baseline.
    pub(super) fn read(path: &Path, write: bool) -> Result<Baseline, Failure> {
        let file = match std::fs::File::open(path) {
            Err(error) if write && error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Baseline::new(key()?, []));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let what = format!("{} is not there", path.display());
                return Err(Failure::new(what, FIRST));
            }
            file => file.map_err(|error| unreadable(path, &error))?,
        };
        let mut text = String::new();
        let read = file.take(BASELINE_BYTES_MAX + 1).read_to_string(&mut text);
        read.map_err(|error| unreadable(path, &error))?;
        let wrong = |what: &str| {
            let what = format!("{} is no baseline: {what}", path.display());
            Failure::new(what, AGAIN)
        };
        if text.len() as u64 > BASELINE_BYTES_MAX {
            return Err(wrong(&format!(
                "it has more than {BASELINE_BYTES_MAX} bytes"
            )));
        }
        let file: BaselineFile =
            serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
        if file.version != VERSION {
            return Err(wrong(&format!("its version is {}", file.version)));
        }
        let key = hex::decode::<32>(&file.key);
        let key = key.ok_or_else(|| wrong("its key is not 64 hexadecimal digits"))?;
        Ok(Baseline::new(key, file.findings))
    }

    fn new(key: [u8; 32], known: impl IntoIterator<Item = KnownSecret>) -> Baseline {
        Baseline {
            key,
            known: known.into_iter().map(|known| (known, false)).collect(),
            met: BTreeSet::new(),
            passed: 0,
        }
    }

    /// What keys the fingerprints of this run.
    pub(super) fn key(&self) -> [u8; 32] {
        self.key
    }

    /// Takes the known findings of a file away.
    pub(super) fn filter(&mut self, file: &str, judged: &mut Judged) {
        judged.findings.retain(|found| {
            let one = KnownSecret::of(file, found);
            let known = self.known.get_mut(&one);
            let is_known = known.is_some();
            if let Some(met) = known {
                *met = true;
            }
            self.met.insert(one);
            self.passed += usize::from(is_known);
            !is_known
        });
    }

    /// How many known findings were not met.
    pub(super) fn gone(&self) -> usize {
        self.known.values().filter(|met| !**met).count()
    }

    /// Writes the findings of this run as the new baseline; answers how many.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write(&self, path: &Path) -> Result<usize, Failure> {
        let file = BaselineFile {
            version: VERSION,
            key: hex::encode(&self.key),
            findings: self.met.iter().cloned().collect(),
        };
        let text = serde_json::to_string_pretty(&file).map_err(std::io::Error::from);
        let written = text.and_then(|text| std::fs::write(path, text + "\n"));
        written.map_err(|error| {
            Failure::new(format!("{} cannot be written: {error}", path.display()), "")
        })?;
        Ok(self.met.len())
    }
}

impl KnownSecret {
    fn of(file: &str, found: &Found) -> KnownSecret {
        KnownSecret {
            file: file.to_owned(),
            rule: found.finding.rule.id.to_owned(),
            fingerprint: format!("{:016x}", found.finding.fingerprint),
        }
    }
}
