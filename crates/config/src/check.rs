//! What a section is checked with after it was read: what one key says about another, and what files and variables
//! hold.
//!
//! A section's `check` says every problem that it finds and goes on; it gives nothing only where it said why.

use std::path::{Path as File, PathBuf};

use base::Secret;

use crate::document::Document;
use crate::kinds::{FileReference, Reference};
use crate::problem::{Path, Problem};

/// Most bytes of a file that holds a secret.
pub const SECRET_BYTES_MAX: usize = 64 << 10;
/// Most bytes of a file of certificates or keys.
pub const PEM_BYTES_MAX: usize = 1 << 20;

/// The world outside the file: this crate and its users do not look for themselves.
pub trait Outside {
    /// A variable of the environment.
    fn variable(&self, name: &str) -> Option<String>;

    /// A file's text.
    ///
    /// # Errors
    ///
    /// Why it cannot be read, to be put after "the file": it names neither the file nor its contents.
    fn text(&mut self, file: &File, bytes_max: usize) -> Result<String, String>;

    /// The files of a folder with this extension, sorted by name.
    ///
    /// # Errors
    ///
    /// Why it cannot be read, or that there are more than so many.
    fn files(
        &mut self,
        folder: &File,
        extension: &str,
        files_max: usize,
    ) -> Result<Vec<PathBuf>, String>;

    fn is_folder(&self, folder: &File) -> bool;

    fn now_unix_ms(&self) -> u64;
}

/// The secrets without which a configuration is not good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecretsNeeded {
    /// Every one that it names: who serves sends them.
    #[default]
    All,
    /// None: whoever reads it sends nothing. Those that can be found are read all the same.
    None,
}

/// The file that is checked, and what was found.
pub struct Check<'c> {
    pub document: &'c Document,
    pub outside: &'c mut dyn Outside,
    /// What paths are relative to.
    pub folder: PathBuf,
    pub secrets: SecretsNeeded,
    /// A secret was not found, and is not needed: the settings are without what needs it.
    pub misses_secrets: bool,
    pub problems: Vec<Problem>,
    /// What does not keep the configuration from being used.
    pub warnings: Vec<Problem>,
    /// The files that the configuration names and that were read: keys and passphrases among them.
    pub read: Vec<PathBuf>,
}

/// A file of certificates or of what belongs to them, as PEM that is not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pem {
    pub file: PathBuf,
    pub pem: String,
}

impl<'c> Check<'c> {
    pub fn new(document: &'c Document, outside: &'c mut dyn Outside, folder: PathBuf) -> Self {
        Check {
            document,
            outside,
            folder,
            secrets: SecretsNeeded::default(),
            misses_secrets: false,
            problems: Vec::new(),
            warnings: Vec::new(),
            read: Vec::new(),
        }
    }

    /// A problem of a key's value, or of the nearest above it that was written.
    pub fn say(&mut self, path: &Path, message: impl Into<String>) {
        self.problems.push(self.document.problem(path, message));
    }

    /// A problem of a name that the operator chose.
    pub fn say_of_name(&mut self, path: &Path, message: impl Into<String>) {
        let problem = self.document.problem_of_name(path, message);
        self.problems.push(problem);
    }

    pub fn warn(&mut self, path: &Path, message: impl Into<String>) {
        self.warnings.push(self.document.problem(path, message));
    }

    /// Whether a key is there, be its value good or not.
    pub fn wrote(&self, path: &Path) -> bool {
        self.document.wrote(path)
    }

    /// Says that keys do not go with what was kept.
    pub fn not_with(&mut self, path: &Path, kept: &str, others: &[&str]) {
        for other in others.iter().map(|other| path.key(other)) {
            if self.wrote(&other) {
                self.say(&other, format!("does not go with {kept}"));
            }
        }
    }

    /// The secret behind a reference: one line, without the line's end.
    pub fn secret(&mut self, reference: &Reference, path: &Path) -> Option<Secret> {
        let found = match reference {
            Reference::Env(name) => {
                let value = self.outside.variable(name);
                value.ok_or_else(|| format!("the variable {name} is not set"))
            }
            Reference::File(file) => self.text(file, SECRET_BYTES_MAX),
        };
        self.good_secret(path, found.and_then(|text| one_line(&text)))
            .map(Secret::new)
    }

    /// What a secret was found to be, or nothing and the problem, where secrets are needed.
    pub fn good_secret<T>(&mut self, path: &Path, found: Result<T, String>) -> Option<T> {
        match self.secrets {
            SecretsNeeded::All => self.good(path, found),
            SecretsNeeded::None => {
                self.misses_secrets |= found.is_err();
                found.ok()
            }
        }
    }

    /// A file of which at least one part begins so.
    pub fn pem(
        &mut self,
        reference: &FileReference,
        path: &Path,
        what: &str,
        begin: &str,
    ) -> Option<Pem> {
        let file = self.folder.join(&reference.0);
        let text = self.text(&reference.0, PEM_BYTES_MAX);
        let found = text.and_then(|pem| match pem.contains(begin) {
            true => Ok(Pem { file, pem }),
            false => Err(format!("the file holds no {what} ({begin})")),
        });
        self.good(path, found)
    }

    /// A file of certificates.
    pub fn certificates(&mut self, reference: &FileReference, path: &Path) -> Option<Pem> {
        self.pem(
            reference,
            path,
            "certificate",
            "-----BEGIN CERTIFICATE-----",
        )
    }

    /// A file's text.
    ///
    /// # Errors
    ///
    /// Why it cannot be read; it does not name the file.
    pub fn text(&mut self, file: &File, bytes_max: usize) -> Result<String, String> {
        let file = self.folder.join(file);
        let text = self.outside.text(&file, bytes_max);
        self.read.push(file);
        text.map_err(|message| format!("the file {message}"))
    }

    /// What a key that may be absent leads to.
    pub fn of<T, U>(
        &mut self,
        value: &Option<T>,
        at: &Path,
        find: impl FnOnce(&mut Self, &T, &Path) -> Option<U>,
    ) -> Option<U> {
        find(self, value.as_ref()?, at)
    }

    /// What was found, or nothing and the problem.
    pub fn good<T>(&mut self, path: &Path, found: Result<T, String>) -> Option<T> {
        found.map_err(|message| self.say(path, message)).ok()
    }
}

/// A secret without the end of its line.
///
/// # Errors
///
/// It is empty, or more than one line.
pub fn one_line(text: &str) -> Result<String, String> {
    let text = text.trim_end_matches(['\r', '\n']);
    match text {
        "" => Err("the secret is empty".to_owned()),
        text if text.contains(['\0', '\r', '\n']) => Err("the secret is not one line".to_owned()),
        text => Ok(text.to_owned()),
    }
}
