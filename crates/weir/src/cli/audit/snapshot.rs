//! `weir audit snapshot`: the policies, or the agents, that a digest in a record names, from the log alone.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::Value;
use store::audit;
use store::log::text_digest;
use terminal::{visible, visible_json, visible_lines};

use super::{Place, unreadable};
use crate::cli::{Answer, Ended, Failure, complain, pins, print};

/// Print the policies or agents that were in force, by the digest in a record
#[derive(Args, Debug)]
#[command(after_help = "\
A judgement names the policies that made it as policy_set; a start and a reload name them and the directory of agents.
Before anything comes into force its text is in the log, and the digest is SHA-256 of that text.

Examples:
  weir audit snapshot 5f0c7e1d
  weir audit snapshot 5f0c7e1d ./state
  weir audit snapshot --json 5f0c7e1d | sha256sum

Exit codes: 0 printed, 1 the log has no such text, or not as its digest says, 2 it cannot be read.")]
pub(crate) struct Snapshot {
    /// The digest, or how it begins
    #[arg(value_name = "HEX", value_parser = pins::digest_start)]
    digest: String,
    #[command(flatten)]
    place: Place,
    /// Print the text as it is kept, which is JSON, and nothing else
    #[arg(long)]
    json: bool,
}

/// Parts of one text, by their numbers.
#[derive(Default)]
struct Parts {
    of: String,
    parts: u64,
    texts: BTreeMap<u64, String>,
}

impl Snapshot {
    pub(super) fn run(self) -> Ended {
        let dir = self.place.dir()?;
        let mut found: BTreeMap<String, Parts> = BTreeMap::new();
        let entries = audit::entries(&dir, 0).map_err(|damage| unreadable(&dir, &damage))?;
        for entry in entries {
            let Ok((_, record)) = entry else {
                complain("the log is damaged", "Run weir audit verify.");
                return Ok(Answer::No);
            };
            self.take(&record, &mut found);
        }
        let whole = |parts: &Parts| parts.parts > 0 && parts.texts.len() as u64 == parts.parts;
        found.retain(|_, parts| whole(parts));
        let mut found = found.into_iter();
        match (found.next(), found.next()) {
            (Some((digest, parts)), None) => self.show(&digest, &parts),
            (None, _) => {
                let what = format!("the log has no text with the digest {}", self.digest);
                let help =
                    "See weir audit show; versions of weir that kept no texts wrote no snapshots.";
                complain(&what, help);
                Ok(Answer::No)
            }
            (Some(_), Some(_)) => {
                let what = format!(
                    "several texts have a digest that begins with {}",
                    self.digest
                );
                Err(Failure::new(what, "Give more of its digits."))
            }
        }
    }

    /// Keeps the record where it is a part of a text that was asked for.
    fn take(&self, record: &[u8], found: &mut BTreeMap<String, Parts>) {
        // Most records are told from a snapshot without being read as JSON.
        let kind = br#""kind":"snapshot""#;
        if !record.windows(kind.len()).any(|window| window == kind) {
            return;
        }
        let record: Value = serde_json::from_slice(record).unwrap_or_default();
        let text = |key: &str| record[key].as_str().unwrap_or_default();
        if record["kind"] != "snapshot" || !text("digest").starts_with(&self.digest) {
            return;
        }
        let parts = found.entry(text("digest").to_owned()).or_default();
        parts.of = text("of").to_owned();
        parts.parts = record["parts"].as_u64().unwrap_or(0);
        let part = record["part"].as_u64().unwrap_or(0);
        parts.texts.insert(part, text("text").to_owned());
    }

    fn show(&self, digest: &str, parts: &Parts) -> Ended {
        let text: String = parts.texts.values().map(String::as_str).collect();
        if text_digest(&text).to_string() != digest {
            let what = format!("the text of {digest} is not what its digest says");
            complain(&what, "Run weir audit verify.");
            return Ok(Answer::No);
        }
        print(&match (self.json, &*parts.of) {
            (true, _) => text,
            (false, "policies") => policies(&text),
            (false, _) => format!("{}\n", visible_json(&text)),
        })?;
        Ok(Answer::Yes)
    }
}

/// The files, each under its name.
fn policies(text: &str) -> String {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let files = value["files"].as_array().into_iter().flatten();
    let files = files.map(|file| {
        let of = |key: &str| file[key].as_str().unwrap_or_default();
        let lines = of("text")
            .lines()
            .map(|line| format!("{}\n", visible_lines(line)));
        format!("// {}\n{}", visible(of("file")), lines.collect::<String>())
    });
    files.collect()
}
