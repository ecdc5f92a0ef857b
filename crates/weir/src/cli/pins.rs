//! `weir pins`: which tools, prompts and resources are approved, what changed of those that wait, and approving them.
//!
//! It works without the gateway and beside a running one, which notices an approval by itself. What it
//! prints was written by servers, so nothing of it can steer a terminal or stay unseen.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use base::clock::rfc3339;
use base::{ItemKind, Name, ServerItem};
use clap::{Args, Subcommand};
use gate::ports::HoldReason;
use scan::tool::{Change, Likeness, Names, Word, shown};
use serde_json::{Value, json};
use store::pins::{ApprovalError, Approved, Book, Folder, Pin, PinsError, Version, Wanted};

use super::{Answer, ConfigFile, Ended, Failure, print, print_problems, readable};

/// List the tools, prompts and resources that are pinned, show what changed, and approve it
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

/// Print every tool, prompt and resource that was seen, and whether it is approved
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir pins list\n  weir pins list --json\n\nExit codes: 0 printed, 2 they cannot be read."
)]
pub(super) struct List {
    #[command(flatten)]
    place: Place,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Show what changed of the items that wait for approval, word by word
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir pins diff
  weir pins diff files
  weir pins diff files read_file
  weir pins diff files greet --kind prompt
  weir pins diff --json

Exit codes: 0 nothing waits, 1 something changed and waits, 2 it could not be read.")]
pub(super) struct Diff {
    #[command(flatten)]
    place: Place,
    /// Only the items of this server
    server: Option<String>,
    /// Only this tool or prompt, or the resource of this URI
    #[arg(value_name = "NAME", requires = "server")]
    item: Option<String>,
    /// Only items of this kind
    #[arg(long)]
    kind: Option<Kind>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Approve the definitions that wait; a running gateway lets the items through at once
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir pins approve files read_file
  weir pins approve files read_file --digest 5f0c7e1d
  weir pins approve files greet --kind prompt
  weir pins approve files --all
  weir pins approve files --all --json | jq '.[].digest'
  weir audit show state/log.admin

Who approved which definition is recorded first, in log.admin beside the gateway's log.

Exit codes: 0 approved, 1 nothing was approved: none or another definition waits, 2 it could not be done.")]
pub(super) struct Approve {
    #[command(flatten)]
    place: Place,
    /// The server, as the configuration names it
    server: String,
    /// The tools and prompts to approve, or resources by their URIs
    #[arg(value_name = "NAME", required_unless_present = "all")]
    items: Vec<String>,
    /// Which kind is meant, where two have the same name
    #[arg(long, conflicts_with = "all")]
    kind: Option<Kind>,
    /// Approve all that wait of this server
    #[arg(long, conflicts_with = "items")]
    all: bool,
    /// Approve only the definition whose digest begins so, as `weir pins diff` shows it
    #[arg(long, value_name = "HEX", conflicts_with = "all", value_parser = digest_start)]
    digest: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What an item is.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kind {
    Tool,
    Prompt,
    Resource,
    /// What an agent behind a2a says of itself
    Card,
}

impl Kind {
    fn of_item(self) -> ItemKind {
        match self {
            Kind::Tool => ItemKind::Tool,
            Kind::Prompt => ItemKind::Prompt,
            Kind::Resource => ItemKind::Resource,
            Kind::Card => ItemKind::Card,
        }
    }
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
        true => "None was seen yet: an item is pinned when an agent lists it.".to_owned(),
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
            let row = |(kind, name, pin)| Row::new(server, (kind, name), pin, &names);
            book.items().map(row).collect::<Vec<_>>()
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
    kind: ItemKind,
    name: &'a str,
    pin: &'a Pin,
    like: Option<(Likeness, &'a str, &'a str)>,
}

impl<'a> Row<'a> {
    fn new(
        server: &'a Name,
        (kind, name): (ItemKind, &'a str),
        pin: &'a Pin,
        names: &'a Names,
    ) -> Row<'a> {
        let like = match kind {
            ItemKind::Tool => names.find(server.as_str(), name),
            ItemKind::Prompt | ItemKind::Resource | ItemKind::Card => None,
        };
        Row {
            server,
            kind,
            name,
            pin,
            like,
        }
    }

    fn to_json(&self) -> Value {
        let like = self.like.map(|(likeness, server, tool)| {
            json!({ "how": how(likeness), "server": server, "tool": tool })
        });
        json!({
            "server": self.server.as_str(),
            "kind": self.kind.as_str(),
            self.kind.as_str(): self.name,
            "state": state(self.pin),
            "first_seen": rfc3339(self.pin.first_seen_ms),
            "approved": self.pin.approved.as_ref().map(version),
            "waiting": self.pin.waiting.as_ref().map(version),
            "note": self.pin.note,
            "like": like,
        })
    }

    fn cells(&self) -> [String; 5] {
        let like = match self.like {
            None => String::new(),
            Some((Likeness::Disguised, ..)) => "its name hides characters".to_owned(),
            Some((likeness, server, tool)) => {
                format!("{}: {}/{}", how(likeness), server, shown(tool))
            }
        };
        let name = format!("{}/{}", self.server, shown(self.name));
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
        [self.kind.as_str().to_owned(), name, state, seen, like]
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
        return "nothing was seen yet: an item is pinned when an agent lists it\n".to_owned();
    }
    let head = ["kind", "name", "state", "first seen", "like"].map(str::to_owned);
    let cells: Vec<[String; 5]> = std::iter::once(head)
        .chain(rows.iter().map(Row::cells))
        .collect();
    let width = |column: usize| {
        let widths = cells.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let widths = [width(0), width(1), width(2), width(3)];
    let line = |[kind, name, state, seen, like]: &[String; 5]| {
        let [a, b, c, d] = widths;
        format!("{kind:a$}  {name:b$}  {state:c$}  {seen:d$}  {like}")
            .trim_end()
            .to_owned()
            + "\n"
    };
    cells.iter().map(line).collect()
}

/// A version as JSON says it.
fn version(version: &Version) -> Value {
    json!({
        "digest": version.digest.to_string(),
        "at": rfc3339(version.at_ms),
        "rule": version.refused.as_deref(),
    })
}

impl Diff {
    fn run(self) -> Ended {
        let books = books(&self.place.folder()?, self.server.as_deref())?;
        if let (Some(item), Some((_, book))) = (&self.item, books.first()) {
            known("item", item, book.items().map(|(_, name, _)| name))?;
        }
        let kind = self.kind.map(Kind::of_item);
        let waiting: Vec<_> = books
            .iter()
            .flat_map(|(server, book)| book.items().map(move |item| (server, item)))
            .filter(|(_, (_, name, _))| self.item.as_ref().is_none_or(|only| only == name))
            .filter(|(_, (of, ..))| kind.is_none_or(|only| only == *of))
            .filter(|(_, (.., pin))| pin.waiting.is_some())
            .collect();
        if self.json {
            let waiting = waiting.iter();
            let rows =
                waiting.map(|(server, (kind, name, pin))| difference(server, *kind, name, pin));
            print(&format!("{:#}\n", rows.collect::<Value>()))?;
        } else if waiting.is_empty() {
            print("nothing waits for approval\n")?;
        } else {
            let pen = Pen::new();
            let texts = waiting.iter();
            let texts = texts.map(|(server, (kind, name, pin))| pen.pin(server, *kind, name, pin));
            print(&texts.collect::<String>())?;
        }
        Ok(match waiting.is_empty() {
            true => Answer::Yes,
            false => Answer::No,
        })
    }
}

/// What waits of an item, with both definitions, as JSON says it.
fn difference(server: &Name, kind: ItemKind, name: &str, pin: &Pin) -> Value {
    let with_definition = |of: &Version| {
        let mut value = version(of);
        let definition = of.definition.as_deref();
        let definition = definition.and_then(|text| serde_json::from_str(text).ok());
        value["definition"] = definition.unwrap_or(Value::Null);
        value["masked"] = of.is_masked.into();
        value
    };
    json!({
        "server": server.as_str(),
        "kind": kind.as_str(),
        kind.as_str(): name,
        "state": state(pin),
        "note": pin.note,
        "approved": pin.approved.as_ref().map(with_definition),
        "waiting": pin.waiting.as_ref().map(with_definition),
    })
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

    /// What waits of an item; nothing where nothing does.
    fn pin(&self, server: &Name, kind: ItemKind, name: &str, pin: &Pin) -> String {
        let Some(waiting) = &pin.waiting else {
            return String::new();
        };
        let name = named(server, kind, name);
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

/// A tool as `server/tool`, another item after the word for it: `prompt server/name`.
fn named(server: &Name, kind: ItemKind, name: &str) -> String {
    let name = shown(name);
    match kind {
        ItemKind::Tool => format!("{server}/{name}"),
        ItemKind::Prompt | ItemKind::Resource => format!("{} {server}/{name}", kind.as_str()),
        ItemKind::Card => format!("card of {server}"),
    }
}

/// The item of a book that goes by a name.
fn only(book: &Book, kind: Option<ItemKind>, name: &str) -> Result<ServerItem, Failure> {
    let of_kind = || {
        book.items()
            .filter(|(of, ..)| kind.is_none_or(|kind| kind == *of))
    };
    known("item", name, of_kind().map(|(_, name, _)| name))?;
    let mut kinds = of_kind()
        .filter(|(_, of, _)| *of == name)
        .map(|(kind, ..)| kind);
    match (kinds.next(), kinds.next()) {
        (Some(kind), None) => Ok(ServerItem {
            kind,
            name: name.into(),
        }),
        _ => Err(Failure::new(
            format!("two items are called {name:?}"),
            "Say which is meant: --kind tool, prompt or resource.",
        )),
    }
}

impl Approve {
    fn run(self) -> Ended {
        let folder = self.place.folder()?;
        let books = books(&folder, Some(&self.server))?;
        let Some((server, book)) = books.first() else {
            return Ok(Answer::No);
        };
        let kind = self.kind.map(Kind::of_item);
        let items = self.items.iter().map(|name| only(book, kind, name));
        let items: Vec<ServerItem> = items.collect::<Result<_, _>>()?;
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let wanted = Wanted {
            items: (!self.all).then_some(&items[..]),
            digest: self.digest.as_deref().unwrap_or_default(),
        };
        let answers = store::pins::approve(&self.place.state()?, server, &wanted, now_ms);
        let answers = answers.map_err(|error| match error {
            ApprovalError::Pins(error) => unreadable(&error),
            error => Failure::new(error.to_string(), "Nothing was approved."),
        })?;
        let told = answers.iter();
        print(&match self.json {
            true => {
                let told = told.map(|(item, answer)| told_json(server, item, answer));
                format!("{}\n", told.collect::<Value>())
            }
            false if answers.is_empty() => "nothing waits for approval\n".to_owned(),
            false => told
                .map(|(item, answer)| told_text(server, item, answer))
                .collect(),
        })?;
        let mut answers = answers.iter();
        Ok(
            match answers.any(|(_, answer)| matches!(answer, Approved::Yes(_))) {
                true => Answer::Yes,
                false => Answer::No,
            },
        )
    }
}

fn told_text(server: &Name, item: &ServerItem, answer: &Approved) -> String {
    let name = named(server, item.kind, &item.name);
    match answer {
        Approved::Nothing => format!("{name}: nothing waits\n"),
        Approved::Another(digest) => format!("{name}: another definition waits: {digest}\n"),
        Approved::Yes(digest) => format!("{name}: approved {digest}\n"),
    }
}

fn told_json(server: &Name, item: &ServerItem, answer: &Approved) -> Value {
    let (state, digest) = match answer {
        Approved::Nothing => ("nothing waits", None),
        Approved::Another(digest) => ("another waits", Some(digest.to_string())),
        Approved::Yes(digest) => ("approved", Some(digest.to_string())),
    };
    let kind = item.kind.as_str();
    json!({ "server": server.as_str(), "kind": kind, kind: &*item.name, "state": state, "digest": digest })
}
