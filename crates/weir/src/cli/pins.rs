//! `weir pins`: which tools are approved, what changed of those that wait, and approving them.
//!
//! It works without the gateway and beside a running one, which notices an approval by itself. What it
//! prints was written by servers, so nothing of it can steer a terminal or stay unseen.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use base::Name;
use base::clock::rfc3339;
use clap::{Args, Subcommand};
use gate::ports::HoldReason;
use scan::tool::{Change, Likeness, Names, Word, shown};
use serde_json::{Value, json};
use store::pins::{ApprovalError, Approved, Book, Folder, Pin, PinsError, Version, Wanted};

use super::{Answer, ConfigFile, Ended, Failure, print, print_problems, readable};

/// List the tools that are pinned, show what changed, and approve it
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir pins list
  weir pins diff
  weir pins approve files read_file")]
pub(super) enum Pins {
    List(List),
    Diff(Diff),
    Approve(Approve),
}

/// Where the pins are.
#[derive(Args, Debug)]
struct Place {
    #[command(flatten)]
    file: ConfigFile,
    /// The state folder that holds them, as of `weir mcp wrap`; by default that of the configuration
    #[arg(long, value_name = "DIR", conflicts_with = "config")]
    state: Option<PathBuf>,
}

/// Print every tool that was seen, and whether it is approved
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  weir pins list\n  weir pins list --json")]
pub(super) struct List {
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Show what changed of the tools that wait for approval, word by word
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir pins diff
  weir pins diff files
  weir pins diff files read_file

Exit codes: 0 nothing waits, 1 something changed and waits, 2 it could not be read.")]
pub(super) struct Diff {
    #[command(flatten)]
    place: Place,
    /// Only the tools of this server
    server: Option<String>,
    /// Only this tool
    #[arg(requires = "server")]
    tool: Option<String>,
}

/// Approve the definitions that wait; a running gateway lets the tools through at once
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir pins approve files read_file
  weir pins approve files read_file --digest 5f0c7e1d
  weir pins approve files --all
  weir audit show state/log.admin

Who approved which definition is recorded first, in log.admin beside the gateway's log.

Exit codes: 0 approved, 1 nothing was approved: none or another definition waits.")]
pub(super) struct Approve {
    #[command(flatten)]
    place: Place,
    /// The server, as the configuration names it
    server: String,
    /// The tools to approve
    #[arg(value_name = "TOOL", required_unless_present = "all")]
    tools: Vec<String>,
    /// Approve all that wait of this server
    #[arg(long, conflicts_with = "tools")]
    all: bool,
    /// Approve only the definition whose digest begins so, as `weir pins diff` shows it
    #[arg(long, value_name = "HEX", conflicts_with = "all", value_parser = digest_start)]
    digest: Option<String>,
}

/// Fewest digits of a digest that name one definition.
const DIGEST_DIGITS_MIN: usize = 8;

pub(super) fn digest_start(text: &str) -> Result<String, String> {
    let digits = text.chars().all(|c| c.is_ascii_hexdigit());
    match digits && (DIGEST_DIGITS_MIN..=64).contains(&text.len()) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(format!("has to be {DIGEST_DIGITS_MIN} to 64 hex digits")),
    }
}

impl Pins {
    pub(super) fn run(self) -> Ended {
        match self {
            Pins::List(command) => command.run(),
            Pins::Diff(command) => command.run(),
            Pins::Approve(command) => command.run(),
        }
    }
}

impl Place {
    /// The folder of the pins.
    fn folder(&self) -> Result<Folder, Failure> {
        Ok(Folder::of_state(&self.state()?))
    }

    fn state(&self) -> Result<PathBuf, Failure> {
        match &self.state {
            Some(state) if !state.is_dir() => Err(Failure::new(
                format!("{} is no folder", state.display()),
                "Name the state folder that the gateway or weir mcp wrap says when it starts.",
            )),
            Some(state) => Ok(state.clone()),
            None => self.configured(),
        }
    }

    fn configured(&self) -> Result<PathBuf, Failure> {
        let path = self.file.path();
        readable(&path)?;
        crate::config::read::state(&path).map_err(|problems| {
            print_problems(&problems);
            Failure::new(
                "the configuration does not say where the pins are",
                "Name a configuration with -c FILE, or a state folder with --state DIR.",
            )
        })
    }
}

fn unreadable(error: &PinsError) -> Failure {
    Failure::new(error.to_string(), "")
}

/// Every server's book, or one server's.
fn books(folder: &Folder, only: Option<&str>) -> Result<Vec<(Name, Book)>, Failure> {
    let servers = folder.servers().map_err(|error| unreadable(&error))?;
    if let Some(server) = only {
        known("server", server, servers.iter().map(Name::as_str))?;
    }
    servers
        .into_iter()
        .filter(|server| only.is_none_or(|only| only == server.as_str()))
        .map(|server| {
            let book = folder.read(&server).map_err(|error| unreadable(&error))?;
            Ok((server, book))
        })
        .collect()
}

/// Names suggested where one is not known.
const NAMES_SHOWN_MAX: usize = 20;

fn known<'n>(what: &str, given: &str, names: impl Iterator<Item = &'n str>) -> Result<(), Failure> {
    let mut others = Vec::new();
    for name in names {
        if name == given {
            return Ok(());
        }
        if others.len() < NAMES_SHOWN_MAX {
            others.push(shown(name));
        }
    }
    let help = match others.is_empty() {
        true => "None was seen yet: a tool is pinned when an agent lists it.".to_owned(),
        false => format!("There are: {}.", others.join(", ")),
    };
    Err(Failure::new(format!("no {what} {given:?} was seen"), help))
}

fn state(pin: &Pin) -> &'static str {
    match pin.held().map(|held| held.why) {
        None => "approved",
        Some(HoldReason::Refused) => "refused",
        Some(HoldReason::Changed) => "changed",
        Some(HoldReason::Lookalike) => "new",
    }
}

impl List {
    fn run(self) -> Ended {
        let books = books(&self.place.folder()?, None)?;
        let mut names = Names::default();
        for (server, book) in &books {
            for (tool, _) in book.tools() {
                names.add(server.as_str(), tool);
            }
        }
        let rows = books.iter().flat_map(|(server, book)| {
            let row = |(tool, pin)| Row::new(server, tool, pin, &names);
            book.tools().map(row).collect::<Vec<_>>()
        });
        let rows: Vec<Row<'_>> = rows.collect();
        print(&match self.json {
            true => {
                let rows: Vec<Value> = rows.iter().map(Row::to_json).collect();
                format!("{:#}\n", Value::from(rows))
            }
            false => table(&rows),
        })?;
        Ok(Answer::Yes)
    }
}

/// One line of the list.
struct Row<'a> {
    server: &'a Name,
    tool: &'a str,
    pin: &'a Pin,
    like: Option<(Likeness, &'a str, &'a str)>,
}

impl<'a> Row<'a> {
    fn new(server: &'a Name, tool: &'a str, pin: &'a Pin, names: &'a Names) -> Row<'a> {
        let like = names.find(server.as_str(), tool);
        Row {
            server,
            tool,
            pin,
            like,
        }
    }

    fn to_json(&self) -> Value {
        let version = |version: &Version| json!({ "digest": version.digest.to_string(), "at": rfc3339(version.at_ms), "rule": version.refused.as_deref() });
        let like = self.like.map(|(likeness, server, tool)| {
            json!({ "how": how(likeness), "server": server, "tool": tool })
        });
        json!({
            "server": self.server.as_str(),
            "tool": self.tool,
            "state": state(self.pin),
            "first_seen": rfc3339(self.pin.first_seen_ms),
            "approved": self.pin.approved.as_ref().map(version),
            "waiting": self.pin.waiting.as_ref().map(version),
            "note": self.pin.note,
            "like": like,
        })
    }

    fn cells(&self) -> [String; 4] {
        let like = match self.like {
            None => String::new(),
            Some((Likeness::Disguised, ..)) => "its name hides characters".to_owned(),
            Some((likeness, server, tool)) => {
                format!("{}: {}/{}", how(likeness), server, shown(tool))
            }
        };
        let name = format!("{}/{}", self.server, shown(self.tool));
        let seen = rfc3339(self.pin.first_seen_ms);
        let rule = self
            .pin
            .waiting
            .as_ref()
            .and_then(|version| version.refused.as_deref());
        let state = match rule {
            Some(rule) => format!("{}: {}", state(self.pin), shown(rule)),
            None => state(self.pin).to_owned(),
        };
        [name, state, seen, like]
    }
}

fn how(likeness: Likeness) -> &'static str {
    match likeness {
        Likeness::Same => "same name",
        Likeness::Similar => "similar name",
        Likeness::Confusable => "looks like",
        Likeness::Disguised => "hides characters",
    }
}

fn table(rows: &[Row<'_>]) -> String {
    if rows.is_empty() {
        return "no tool was seen yet: a tool is pinned when an agent lists it\n".to_owned();
    }
    let head = ["tool", "state", "first seen", "like"].map(str::to_owned);
    let cells: Vec<[String; 4]> = std::iter::once(head)
        .chain(rows.iter().map(Row::cells))
        .collect();
    let width = |column: usize| {
        let widths = cells.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let widths = [width(0), width(1), width(2)];
    let line = |[name, state, seen, like]: &[String; 4]| {
        let [a, b, c] = widths;
        format!("{name:a$}  {state:b$}  {seen:c$}  {like}")
            .trim_end()
            .to_owned()
            + "\n"
    };
    cells.iter().map(line).collect()
}

impl Diff {
    fn run(self) -> Ended {
        let books = books(&self.place.folder()?, self.server.as_deref())?;
        if let (Some(tool), Some((_, book))) = (&self.tool, books.first()) {
            known("tool", tool, book.tools().map(|(tool, _)| tool))?;
        }
        let pen = Pen::new();
        let mut text = String::new();
        for (server, book) in &books {
            for (tool, pin) in book.tools() {
                if self.tool.as_ref().is_none_or(|only| only == tool) {
                    text.push_str(&pen.pin(server, tool, pin));
                }
            }
        }
        if text.is_empty() {
            print("nothing waits for approval\n")?;
            return Ok(Answer::Yes);
        }
        print(&text)?;
        Ok(Answer::No)
    }
}

/// Writes differences, in colour on a terminal only.
struct Pen {
    removed: [&'static str; 2],
    added: [&'static str; 2],
}

impl Pen {
    fn new() -> Pen {
        let colour = terminal::has_colour(&std::io::stdout());
        match colour {
            true => Pen {
                removed: ["\x1b[31m", "\x1b[0m"],
                added: ["\x1b[32m", "\x1b[0m"],
            },
            false => Pen {
                removed: ["[-", "-]"],
                added: ["{+", "+}"],
            },
        }
    }

    /// What waits of a tool; nothing where nothing does.
    fn pin(&self, server: &Name, tool: &str, pin: &Pin) -> String {
        let Some(waiting) = &pin.waiting else {
            return String::new();
        };
        let name = format!("{server}/{}", shown(tool));
        let since = rfc3339(waiting.at_ms);
        let mut text = match &pin.approved {
            Some(approved) => {
                let at = rfc3339(approved.at_ms);
                format!("{name}: changed at {since}, approved at {at}\n")
            }
            None => format!("{name}: new at {since}; {}\n", shown(&pin.note)),
        };
        text.push_str(&format!("  digest: {}\n", waiting.digest));
        if let Some(rule) = &waiting.refused {
            text.push_str(&format!("  refused by the scan: {}\n", shown(rule)));
        }
        let old = match &pin.approved {
            Some(approved) => approved.definition.as_deref(),
            None => Some("{}"),
        };
        match (old, waiting.definition.as_deref()) {
            (Some(old), Some(new)) => {
                let changes = scan::tool::diff(old, new);
                for change in &changes {
                    text.push_str(&self.change(change));
                }
                let is_masked = |version: &Version| version.is_masked;
                if is_masked(waiting) || pin.approved.as_ref().is_some_and(is_masked) {
                    text.push_str(match changes.is_empty() {
                        true => {
                            "  what differs is hidden: the scan found it private
"
                        }
                        false => {
                            "  what the scan found private is hidden, and may differ as well
"
                        }
                    });
                }
            }
            _ => text.push_str("  the definitions are too long to be kept and compared\n"),
        }
        text
    }

    fn change(&self, change: &Change) -> String {
        let ([removed, removed_end], [added, added_end]) = (self.removed, self.added);
        match change {
            Change::Added { path, value } => {
                format!("  + {path}: {added}{}{added_end}\n", indented(value))
            }
            Change::Removed { path, value } => {
                format!("  - {path}: {removed}{}{removed_end}\n", indented(value))
            }
            Change::Changed { path, words } => {
                let word = |word: &Word| match word {
                    Word::Same(text) => indented(text),
                    Word::Removed(text) => format!("{removed}{}{removed_end}", indented(text)),
                    Word::Added(text) => format!("{added}{}{added_end}", indented(text)),
                };
                format!(
                    "  ~ {path}: {}\n",
                    words.iter().map(word).collect::<String>()
                )
            }
            Change::More => "  and more\n".to_owned(),
        }
    }
}

/// Lines of a text cannot pass for lines of ours.
fn indented(text: &str) -> String {
    text.replace('\n', "\n      ")
}

impl Approve {
    fn run(self) -> Ended {
        let folder = self.place.folder()?;
        let books = books(&folder, Some(&self.server))?;
        let Some((server, book)) = books.first() else {
            return Ok(Answer::No);
        };
        for tool in &self.tools {
            known("tool", tool, book.tools().map(|(tool, _)| tool))?;
        }
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let wanted = Wanted {
            tools: (!self.all).then_some(&self.tools[..]),
            digest: self.digest.as_deref().unwrap_or_default(),
        };
        let answers = store::pins::approve(&self.place.state()?, server, &wanted, now_ms);
        let answers = answers.map_err(|error| match error {
            ApprovalError::Pins(error) => unreadable(&error),
            error => Failure::new(error.to_string(), "Nothing was approved."),
        })?;
        if answers.is_empty() {
            print("nothing waits for approval\n")?;
        }
        let mut any = Answer::No;
        for (tool, answer) in &answers {
            let name = format!("{server}/{}", shown(tool));
            print(&match answer {
                Approved::Nothing => format!("{name}: nothing waits\n"),
                Approved::Another(digest) => {
                    format!("{name}: another definition waits: {digest}\n")
                }
                Approved::Yes(digest) => format!("{name}: approved {digest}\n"),
            })?;
            if matches!(answer, Approved::Yes(_)) {
                any = Answer::Yes;
            }
        }
        Ok(any)
    }
}
