//! `weir reference`: the reference pages, from the tables that the code itself uses.
//!
//! Hidden, for it serves the repository: a test holds `docs/reference/` against what this writes.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use super::{Answer, Cli, Ended, Failure};
use crate::admin::actions::{ACTIONS, Recorded};
use crate::routes::Open;

/// Write the reference pages to a folder
#[derive(Args, Debug)]
#[command(hide = true, after_help = "Examples:\n  weir reference docs/reference")]
pub(super) struct Reference {
    dir: PathBuf,
}

const MADE: &str =
    "<!-- Made by `weir reference`. Change the table in the code, not this page. -->\n\n";

impl Reference {
    pub(super) fn run(self) -> Ended {
        let pages = [
            ("config.md", config_keys()),
            ("refusals.md", refusals()),
            ("commands.md", commands()),
            ("rules.md", rules()),
            ("metrics.md", metrics()),
            ("routes.md", routes()),
            ("admin.md", admin()),
            ("conversion.md", conversion()),
        ];
        for (name, text) in pages {
            let path = self.dir.join(name);
            std::fs::write(&path, text).map_err(|error| {
                Failure::new(format!("{} cannot be written: {error}", path.display()), "")
            })?;
        }
        Ok(Answer::Yes)
    }
}

/// A text as a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

fn config_keys() -> String {
    let mut page = format!(
        "# Configuration\n\n{MADE}\
         One YAML file, by default `weir.yaml`. `weir config check` says every problem at once, \
         `weir config show` prints what holds, and `weir config schema` prints a JSON Schema for \
         editors. An unknown key is an error. A `*` stands for a name of your choice. Paths are \
         relative to the file. Secrets are references: `env:NAME` or `file:PATH`. Anchors, aliases and \
         tags of YAML are not allowed.\n\n\
         | key | value | default | what it says | example |\n|---|---|---|---|---|\n"
    );
    for row in config::schema::rows(&crate::config::file::schema()) {
        let default = match &row.default {
            _ if row.required => "required".to_owned(),
            Some(default) => format!("`{default}`"),
            None => String::new(),
        };
        let (value, doc, example) = (cell(&row.kind), cell(&row.doc), cell(&row.example));
        page.push_str(&format!(
            "| `{}` | {value} | {default} | {doc} | `{example}` |\n",
            row.path
        ));
    }
    page
}

fn conversion() -> String {
    let mut page = format!(
        "# Conversion\n\n{MADE}\
         What becomes of the members of a request where its provider speaks another dialect ([Models](../llm.md)). A member \
         that stands in no row is refused with `llm.unconvertible`, by its path, and so is a part of a conversation, a tool or \
         a format that the other dialect has no word for.\n\n\
         | dialect | member | becomes |\n|---|---|---|\n"
    );
    for [dialect, member, becomes] in llm::conversion_rows() {
        page.push_str(&format!(
            "| {dialect} | `{member}` | {} |\n",
            cell(&becomes)
        ));
    }
    page
}

fn admin() -> String {
    let mut page = format!(
        "# Admin API\n\n{MADE}\
         What can be asked at the admin listener ([Operators](../operators.md)), and the least role that may. `weir api openapi` \
         prints the same as an OpenAPI document, with the forms of bodies and answers; the gateway answers it at \
         `/admin/openapi.json`.\n\n\
         | action | request | role | what it does | record |\n|---|---|---|---|---|\n"
    );
    for action in ACTIONS {
        let recorded = match action.recorded {
            Recorded::No => "none",
            Recorded::Asked => "that it was asked for",
            Recorded::Change => "the change, before it is in force",
        };
        page.push_str(&format!(
            "| `{}` | `{} {}` | {} | {} | {recorded} |\n",
            action.name,
            action.method,
            action.path,
            action.role,
            cell(action.does)
        ));
    }
    page
}

fn refusals() -> String {
    let mut page = format!(
        "# Refusals\n\n{MADE}\
         What an agent is told when the gateway says no. The code is stable. Over HTTP it is an RFC 9457 \
         problem with the status; over MCP it is a JSON-RPC error. Both carry the call's id, which finds \
         the record: `weir audit show --call ID`. Where the scan refuses what a server said, another sentence \
         says what to do: it stands behind \"answer:\".\n\n\
         | code | status | what to do |\n|---|---|---|\n"
    );
    for code in base::refusal::ALL {
        let answer = match code.mend_answer {
            "" => String::new(),
            mend => format!(" — answer: {mend}"),
        };
        page.push_str(&format!(
            "| `{}` | {} | {}{} |\n",
            code.name,
            code.status,
            cell(code.mend),
            cell(&answer)
        ));
    }
    page
}

fn rules() -> String {
    let mut page = format!(
        "# Scan rules\n\n{MADE}\
         What is looked for, and what is done about it by default in each direction: *outgoing* is what an \
         agent sends, *incoming* what a server answers, *description* what a server says of its tools. \
         Change it with `scan` in the configuration.\n\n\
         | rule | class | severity | outgoing | incoming | description | what it is | source |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    for rule in scan::rules() {
        let actions = scan::Direction::ALL
            .map(|way| rule.default_action(way).as_str())
            .join(" | ");
        page.push_str(&format!(
            "| `{}` | {} | {} | {actions} | {} | {} |\n",
            rule.id,
            rule.class.as_str(),
            rule.severity.as_str(),
            cell(rule.summary),
            cell(rule.reference),
        ));
    }
    page
}

fn commands() -> String {
    let mut page = format!("# Commands\n\n{MADE}");
    let mut root = Cli::command().term_width(100);
    root.build();
    command(&mut page, &mut root);
    page
}

fn command(page: &mut String, command: &mut clap::Command) {
    let name = command.get_bin_name().unwrap_or("weir").to_owned();
    let help = command.render_long_help();
    page.push_str(&format!(
        "## {name}\n\n```text\n{}\n```\n\n",
        help.to_string().trim_end()
    ));
    let shown = |below: &&mut clap::Command| !below.is_hide_set() && below.get_name() != "help";
    for below in command.get_subcommands_mut().filter(shown) {
        self::command(page, below);
    }
}

fn metrics() -> String {
    let mut page = format!(
        "# Metrics\n\n{MADE}\
         `GET /metrics` answers in the OpenMetrics text format, where a counter's name ends in \
         `_total`. Labels are route templates, codes and names from the configuration; every name that \
         is not configured is `(other)`.\n\n\
         | metric | kind | labels | what it says |\n|---|---|---|---|\n"
    );
    for doc in crate::metrics::all() {
        let help = cell(doc.help);
        page.push_str(&format!(
            "| `{}` | {} | {} | {help} |\n",
            doc.name, doc.kind, doc.labels
        ));
    }
    page
}

fn routes() -> String {
    let mut page = format!(
        "# Routes\n\n{MADE}\
         Every path that the gateway answers. Agents are known by their key. Every answer carries \
         `x-request-id` (the one that was sent, if one was) and `weir-call` (the id in the log).\n\n\
         | path | methods | open to | why |\n|---|---|---|---|\n"
    );
    for (route, _) in crate::routes::all() {
        let methods: Vec<&str> = route.methods.iter().map(http::Method::as_str).collect();
        let (open, why) = match route.open {
            Open::Agents => ("agents", ""),
            Open::Everyone(why) => ("everyone", why),
            Open::Applicants(why) => ("applicants", why),
            Open::Operator(why) => ("the operator, at the admin listener", why),
        };
        page.push_str(&format!(
            "| `{}` | {} | {open} | {} |\n",
            route.template,
            methods.join(", "),
            cell(why)
        ));
    }
    page
}
