//! SARIF 2.1.0: findings in the form that code hosts and editors read.
//!
//! It says where a secret stands and never what it is; the fingerprints of its results are made of the rule,
//! the file and the number of the finding in it, so that they tell nothing either.

use std::fmt::Write as _;
use std::path::Path;

use base::hex;
use scan::{Action, Rule, Severity};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::history::Version;
use super::position::Position;
use super::repo::Source;
use super::say::{Found, Judged};

/// What was found, as results and the rules that they name.
#[derive(Default)]
pub(super) struct Sarif {
    rules: Vec<&'static Rule>,
    results: Vec<Value>,
    notifications: Vec<Value>,
}

impl Sarif {
    /// Adds what was found in a file, or in a version of it.
    pub(super) fn add(&mut self, source: &Source<'_>, bytes: &[u8], judged: &Judged) {
        let uri = uri(source.root, source.path);
        let mut seen: Vec<&str> = Vec::new();
        for found in &judged.findings {
            let id = found.finding.rule.id;
            let number = seen.iter().filter(|other| **other == id).count();
            seen.push(id);
            let mut result = self.result(found, &uri, bytes, number);
            if let Some(version) = source.version {
                // One file has many versions, and a finding in each is one of its own.
                let of = format!("{uri}@{}", version.blob);
                result["partialFingerprints"]["weirFinding/v1"] =
                    fingerprint(id, &of, number).into();
                result["properties"] = properties(version);
            }
            self.results.push(result);
        }
        if let Some(bound) = judged.bound {
            self.note(source, &format!("not wholly scanned: {bound}"));
        }
    }

    fn result(&mut self, found: &Found, uri: &str, bytes: &[u8], number: usize) -> Value {
        let finding = &found.finding;
        let rule = finding.rule;
        let known = self.rules.iter().position(|other| other.id == rule.id);
        let index = known.unwrap_or_else(|| {
            self.rules.push(rule);
            self.rules.len() - 1
        });
        let end = finding.span.end.min(bytes.len());
        let inside = &bytes[finding.span.start.min(end)..end];
        let end: Position = found.at.after(inside);
        let level = match finding.action {
            Action::Off | Action::Warn => level(rule.severity.min(Severity::Medium)),
            Action::Redact | Action::Refuse => level(rule.severity),
        };
        let undone = match finding.disguise {
            "" => String::new(),
            disguise => format!(" It was seen when {disguise} was undone."),
        };
        let message = format!("{}{undone} {}", rule.summary, rule.remedy);
        json!({
            "ruleId": rule.id,
            "ruleIndex": index,
            "level": level,
            "message": { "text": message.trim_end() },
            "locations": [{ "physicalLocation": {
                "artifactLocation": { "uri": uri, "uriBaseId": "%SRCROOT%" },
                "region": {
                    "startLine": found.at.line,
                    "startColumn": found.at.column,
                    "endLine": end.line,
                    "endColumn": end.column,
                },
            } }],
            "partialFingerprints": { "weirFinding/v1": fingerprint(rule.id, uri, number) },
        })
    }

    /// Says of a file that it was not, or not wholly, read.
    pub(super) fn note(&mut self, source: &Source<'_>, what: &str) {
        let location = json!({ "physicalLocation": { "artifactLocation":
            { "uri": uri(source.root, source.path), "uriBaseId": "%SRCROOT%" } } });
        let mut note = json!({
            "level": "warning",
            "message": { "text": what },
            "locations": [location],
        });
        if let Some(version) = source.version {
            note["properties"] = properties(version);
        }
        self.notifications.push(note);
    }

    /// Says what could not be read: as a warning or an error.
    pub(super) fn trouble(&mut self, level: &'static str, what: &str) {
        let text = json!({ "level": level, "message": { "text": what } });
        self.notifications.push(text);
    }

    /// The whole document.
    pub(super) fn document(&self, read_all: bool) -> Value {
        json!({
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{
                "tool": { "driver": {
                    "name": "weir",
                    "semanticVersion": env!("CARGO_PKG_VERSION"),
                    "rules": self.rules.iter().map(|rule| descriptor(rule)).collect::<Vec<_>>(),
                } },
                "columnKind": "unicodeCodePoints",
                "invocations": [{
                    "executionSuccessful": read_all,
                    "toolExecutionNotifications": self.notifications,
                }],
                "results": self.results,
            }],
        })
    }
}

/// Which version it is: the first commit that has it, and its own name in git.
fn properties(version: &Version) -> Value {
    match version.commit.as_str() {
        "" => json!({ "blob": version.blob }),
        commit => json!({ "commit": commit, "blob": version.blob }),
    }
}

fn descriptor(rule: &Rule) -> Value {
    let help = format!("{} {}", rule.summary, rule.remedy);
    let score = match rule.severity {
        Severity::Critical => "9.5",
        Severity::High => "8.0",
        Severity::Medium => "5.5",
        Severity::Low => "2.0",
    };
    json!({
        "id": rule.id,
        "shortDescription": { "text": rule.summary },
        "help": {
            "text": help.trim_end(),
            "markdown": format!("{} [Where it is documented]({})", help.trim_end(), rule.reference),
        },
        "helpUri": rule.reference,
        "defaultConfiguration": { "level": level(rule.severity) },
        "properties": {
            "tags": ["security", rule.class.as_str()],
            "security-severity": score,
        },
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical | Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Low => "note",
    }
}

/// The path from the folder, as the reference of a URI (RFC 3986, 4.2).
fn uri(root: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(root).unwrap_or(path);
    let inside = match inside.as_os_str().is_empty() {
        true => path.file_name().map(Path::new).unwrap_or(path),
        false => inside,
    };
    let mut uri = String::new();
    for byte in inside.as_os_str().as_encoded_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(*byte));
            }
            _ => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

fn fingerprint(rule: &str, uri: &str, number: usize) -> String {
    let hash = Sha256::digest(format!("{rule}\n{uri}\n{number}"));
    hex::encode(&hash[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_reference_of_a_uri() {
        let uri = |path: &str| uri(Path::new("a"), Path::new(path));
        assert_eq!(uri("a/b c/é%.txt"), "b%20c/%C3%A9%25.txt");
        assert_eq!(uri("a/x:y"), "x%3Ay");
    }
}
