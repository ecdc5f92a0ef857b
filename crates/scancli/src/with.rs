//! The engine that a command asks: the rules' defaults, or a configuration's, with rules and secrets of the
//! operator's own.
//!
//! A rule or a secret that cannot be used is an error. Nothing here prints a secret.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use base::Secret;
use clap::Args;
use scan::{Direction, Engine, Place, Settings, ValueKind, Values};
use terminal::{Failure, complain};

use super::ReadSettings;

/// Files of rules in one folder.
const RULE_FILES_MAX: usize = 256;
/// Bytes of a file of secrets.
const SECRETS_BYTES_MAX: u64 = 16 << 20;

/// Beyond the rules that are built in
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct With {
    /// Rules of your own: a folder with files *.toml, or one such file
    #[arg(long, value_name = "DIR")]
    rules: Option<PathBuf>,
    /// Secrets of your own, one a line; empty lines and lines that begin with # are left out
    #[arg(long, value_name = "FILE")]
    secrets: Option<PathBuf>,
    /// A configuration whose scan settings hold; without it the rules' defaults
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl With {
    /// The configuration that was named.
    pub(crate) fn config(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The files and folders that were named, after their flags.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let all = [
            ("--rules", &self.rules),
            ("--secrets", &self.secrets),
            ("--config", &self.config),
        ];
        let named = all.into_iter();
        named.filter_map(|(flag, path)| Some((flag, path.as_deref()?)))
    }

    /// What is to be done about each rule.
    pub(crate) fn settings(&self, read_settings: ReadSettings) -> Result<Settings, Failure> {
        let mut settings = match &self.config {
            None => Settings::default(),
            Some(path) => read_settings(path)?,
        };
        if let Some(path) = &self.rules {
            settings.rules.extend(own_rules(path)?);
        }
        if let Some(path) = &self.secrets {
            if settings.values.is_some() {
                let what = "--secrets and the values of the configuration are both given";
                return Err(Failure::new(what, "Add the file to the configuration."));
            }
            settings.values = Some(secrets(path)?);
        }
        Ok(settings)
    }

    /// The engine with these settings. Fingerprints have this key.
    pub(crate) fn engine(
        &self,
        read_settings: ReadSettings,
        key: [u8; 32],
    ) -> Result<Engine, Failure> {
        Ok(Engine::new(self.settings(read_settings)?, key))
    }
}

/// Where a text stands that goes this way, now.
pub(crate) fn place(direction: Direction) -> Place<'static> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Place {
        now_s: now.unwrap_or_default().as_secs(),
        ..Place::from(direction)
    }
}

/// A failure to read a file.
pub(crate) fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("{} cannot be read: {error}", path.display()), "")
}

fn own_rules(path: &Path) -> Result<Vec<&'static scan::Rule>, Failure> {
    let mut files = vec![path.to_path_buf()];
    if path.is_dir() {
        let entries = std::fs::read_dir(path).map_err(|error| unreadable(path, &error))?;
        let paths = entries.map(|entry| entry.map(|entry| entry.path()));
        let paths: Result<Vec<PathBuf>, _> = paths.take(RULE_FILES_MAX + 1).collect();
        files = paths.map_err(|error| unreadable(path, &error))?;
        if files.len() > RULE_FILES_MAX {
            let what = format!("{} has more than {RULE_FILES_MAX} files", path.display());
            return Err(Failure::new(what, ""));
        }
        files.retain(|file| {
            file.extension()
                .is_some_and(|extension| extension == "toml")
        });
        files.sort();
        if files.is_empty() {
            let what = format!("{} has no file *.toml", path.display());
            return Err(Failure::new(
                what,
                "Put rules into it, or leave --rules out.",
            ));
        }
    }
    let mut rules: Vec<&'static scan::Rule> = Vec::new();
    let mut problems = 0;
    for file in files {
        let text = read(&file, scan::OPERATOR_FILE_BYTES_MAX as u64)?;
        match scan::operator_rules(&text) {
            Ok(read) => {
                for rule in read {
                    if rules.iter().any(|other| other.id == rule.id) {
                        let what =
                            format!("{}: the rule {} is there twice", file.display(), rule.id);
                        complain(&what, "");
                        problems += 1;
                    }
                    rules.push(rule);
                }
            }
            Err(found) => {
                problems += found.len();
                for problem in found {
                    let what = format!("{}:{}: {}", file.display(), problem.line, problem.message);
                    complain(&what, "");
                }
            }
        }
    }
    match problems {
        0 => Ok(rules),
        _ => Err(Failure::new(format!("problems in rules: {problems}"), "")),
    }
}

fn secrets(path: &Path) -> Result<Values, Failure> {
    let text = Secret::new(read(path, SECRETS_BYTES_MAX)?);
    let lines = text.expose().lines().map(str::trim);
    let values: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    if values.is_empty() {
        let what = format!("{} has no secrets", path.display());
        return Err(Failure::new(what, "Write one a line."));
    }
    let values = values.into_iter().map(|value| (ValueKind::Secret, value));
    Values::new(values).map_err(|error| {
        let help = "Count lines without empty ones and comments.";
        Failure::new(format!("{}: {error}", path.display()), help)
    })
}

/// A file of text, up to a number of bytes.
fn read(path: &Path, bytes_max: u64) -> Result<String, Failure> {
    let file = std::fs::File::open(path).map_err(|error| unreadable(path, &error))?;
    let mut text = String::new();
    let read = file.take(bytes_max + 1).read_to_string(&mut text);
    read.map_err(|error| unreadable(path, &error))?;
    match text.len() as u64 > bytes_max {
        true => Err(unreadable(
            path,
            &format!("it has more than {bytes_max} bytes"),
        )),
        false => Ok(text),
    }
}
