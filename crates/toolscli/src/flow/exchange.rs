//! `weir flow import`, `export`, `migrate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use flow::exchange::{FileFormat, export_jsonl, export_markdown, export_workflow, read};
use flow::store::StorePlace;
use serde_json::json;

use super::calls::{Calls, Data, Scope, failure};
use crate::{Answer, Ended, Failure, print};

/// Bring in what another file or program has, all or nothing
///
/// What the file does not bring a project for goes to --project, which is made where there is none of the name.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir flow import board.jsonl
  weir flow import TODO.md --project Shop
  weir flow import .project_status.md --project Shop
  weir flow import ~/.task-mcp/databases/project_0123abcd.db --project Shop
  weir flow import workflow.jsonl --project Shop   (rows of workflow-mcp's tables, each with its table)\n\nExit codes: 0 done, 1 no, 2 it could not be done.")]
pub struct Import {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What kind of file it is; by default by its name: .md, .db and .sqlite, else lines of JSON
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<ImportFormat>,
    #[command(flatten)]
    scope: Scope,
}

/// What kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ImportFormat {
    /// Lines of JSON: of weir flow export, or rows of workflow-mcp's tables
    Jsonl,
    /// Task lists, or a .project_status.md
    Markdown,
    /// The SQLite database of simple-task-tracker
    Tracker,
}

impl Import {
    pub(crate) fn run(self) -> Ended {
        let by_name = match self
            .file
            .extension()
            .and_then(|extension| extension.to_str())
        {
            Some("md" | "markdown") => ImportFormat::Markdown,
            Some("db" | "sqlite" | "sqlite3") => ImportFormat::Tracker,
            _ => ImportFormat::Jsonl,
        };
        let format = match self.format.unwrap_or(by_name) {
            ImportFormat::Jsonl => FileFormat::Jsonl,
            ImportFormat::Markdown => FileFormat::Markdown,
            ImportFormat::Tracker => FileFormat::Tracker,
        };
        let records = read(format, &self.file).map_err(failure)?;
        let calls = Calls::open(&self.scope)?;
        let answer = calls.call(
            "flow/import",
            json!({ "project": self.scope.project, "records": records }),
        )?;
        let written = answer["written"].as_object().cloned().unwrap_or_default();
        let parts: Vec<String> = written
            .iter()
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        let parts = if parts.is_empty() {
            "nothing new".to_owned()
        } else {
            parts.join(", ")
        };
        print(&format!(
            "imported: {parts}; {} were there already\n",
            answer["known"]
        ))?;
        Ok(Answer::Yes)
    }
}

/// Write a project to standard output
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir flow export > board.jsonl
  weir flow export --format markdown --project Shop > TODO.md
  weir flow export --format workflow > workflow.jsonl\n\nExit codes: 0 done, 1 no, 2 it could not be done.")]
pub struct Export {
    /// What is written
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "jsonl")]
    format: ExportFormat,
    #[command(flatten)]
    scope: Scope,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// Every object with its id, version and authors, a line each
    Jsonl,
    /// Work items as task lists
    Markdown,
    /// Rows of workflow-mcp's tables, a line each
    Workflow,
}

impl Export {
    pub(crate) fn run(self) -> Ended {
        let place = self.scope.data.place()?;
        let text = flow::store::read_beside(&place, |tx| {
            let project = flow::ops::project(tx, self.scope.project.as_deref(), None)?;
            match self.format {
                ExportFormat::Jsonl => export_jsonl(tx, &project),
                ExportFormat::Markdown => export_markdown(tx, &project),
                ExportFormat::Workflow => export_workflow(tx, &project),
            }
        });
        print(&text.map_err(failure)?)?;
        Ok(Answer::Yes)
    }
}

/// Bring a database of an older weir up to date, forward only
///
/// Opening a file does the same; this says so, and does nothing else. A PostgreSQL database is brought up to date by this alone,
/// since other servers may work on it: stop those of an older weir first. An empty one gets its tables. Who runs it owns the
/// tables; --grant lets the role of the servers use them, so that they need not own what they use.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir flow migrate
  weir flow migrate --data state/tools/flow
  weir flow migrate --postgres env:FLOW_OWNER_URL --grant weir_flow\n\nExit codes: 0 done, 1 no, 2 it could not be done.")]
pub struct Migrate {
    #[command(flatten)]
    data: Data,
    /// The role of PostgreSQL that may read and write rows then
    #[arg(long, value_name = "ROLE", requires = "postgres")]
    grant: Option<String>,
}

impl Migrate {
    pub(crate) fn run(self) -> Ended {
        let place = self.data.place()?;
        let name = match &place {
            StorePlace::Folder(folder, _) => {
                let path = folder.join(flow::store::FILE);
                if !path.exists() {
                    return Err(Failure::new(
                        format!("{} is not there", path.display()),
                        "Name its folder with --data DIR.",
                    ));
                }
                path.display().to_string()
            }
            StorePlace::Postgres(database) => database.to_string(),
        };
        let version = flow::store::migrate(&place, self.grant.as_deref()).map_err(failure)?;
        print(&format!("{name} has version {version}\n"))?;
        Ok(Answer::Yes)
    }
}
