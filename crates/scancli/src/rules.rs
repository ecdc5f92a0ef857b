//! `weir scan rules`: every rule, what is done about it in each direction, and where it comes from.

use clap::Args;
use clap::builder::PossibleValuesParser;
use scan::{Class, Direction, Rule, Settings};
use serde_json::json;
use terminal::{Answer, Ended};

use super::ReadSettings;
use super::say::Output;
use super::with::With;

/// List the rules: what each looks for, and what is done about it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir scan rules --class injection
  weir scan rules --json | jq -r '.[].id'

The columns: rule, class, kind and language (of injection), severity, what is done about what goes out /
comes back / describes a tool, what it is, and where that is documented.

Exit codes: 0 printed, 2 the configuration cannot be read.")]
pub(super) struct Rules {
    /// Only the rules of this class
    #[arg(long, value_name = "CLASS")]
    #[arg(value_parser = PossibleValuesParser::new(Class::ALL.map(Class::as_str)))]
    class: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    with: With,
}

impl Rules {
    pub(super) fn run(self, read: ReadSettings) -> Ended {
        let settings = self.with.settings(read)?;
        let own = settings.rules.iter().copied();
        let asked = |rule: &&Rule| {
            let class = self.class.as_deref();
            class.is_none_or(|class| class == rule.class.as_str())
        };
        let rules: Vec<&Rule> = scan::rules().iter().chain(own).filter(asked).collect();
        let mut output = Output::new();
        match self.json {
            true => {
                let objects = rules
                    .iter()
                    .map(|rule| as_json(rule, &settings).to_string());
                let objects: Vec<String> = objects.collect();
                output.text(&format!("[\n{}\n]\n", objects.join(",\n")))?;
            }
            false => output.text(&table(&rules, &settings))?,
        }
        output.flush()?;
        Ok(Answer::Yes)
    }
}

fn as_json(rule: &Rule, settings: &Settings) -> serde_json::Value {
    let action = |way| settings.action(rule, way).as_str();
    let mut object = json!({
        "id": rule.id,
        "class": rule.class.as_str(),
        "severity": rule.severity.as_str(),
        "actions": {
            "outgoing": action(Direction::Outgoing),
            "incoming": action(Direction::Incoming),
            "description": action(Direction::Description),
        },
        "summary": rule.summary,
        "remedy": rule.remedy,
        "reference": rule.reference,
    });
    if let Some(kind) = rule.kind {
        object["kind"] = kind.as_str().into();
        object["language"] = rule.language.into();
    }
    object
}

/// Columns as wide as what is in them; the last two are as long as they are.
fn table(rules: &[&Rule], settings: &Settings) -> String {
    let row = |rule: &&Rule| {
        let kind = rule.kind.map_or(String::new(), |kind| {
            format!("{} {}", kind.as_str(), rule.language)
        });
        let actions = Direction::ALL.map(|way| settings.action(rule, way).as_str());
        [
            rule.id.to_owned(),
            rule.class.as_str().to_owned(),
            kind,
            rule.severity.as_str().to_owned(),
            actions.join("/"),
        ]
    };
    let rows: Vec<[String; 5]> = rules.iter().map(row).collect();
    let mut wide = [0; 5];
    for row in &rows {
        for (wide, cell) in wide.iter_mut().zip(row) {
            *wide = cell.len().max(*wide);
        }
    }
    let mut table = String::new();
    for (row, rule) in rows.iter().zip(rules) {
        for (cell, wide) in row.iter().zip(wide).filter(|(_, wide)| *wide > 0) {
            table.push_str(&format!("{cell:wide$}  "));
        }
        table.push_str(&format!("{} {}\n", rule.summary, rule.reference));
    }
    table
}
