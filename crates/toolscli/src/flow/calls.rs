//! Where the database is, which project is meant, and who calls; and one call of it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use flow::store::{Database, Durability, StorePlace};
use flow::{Desk, Settings, author};
use postgres::Target;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tools::serve::call::{Ask, Problem, Session};
use tools::serve::desk;

use crate::Failure;

/// Where the database is.
#[derive(Args, Debug)]
pub(crate) struct Data {
    /// The folder of the database, such as state/tools/flow of a gateway; by default weir/flow in $XDG_DATA_HOME or ~/.local/share
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// When a write is acknowledged: when the disk has it, or when the operating system has it; of those that share the folder the one that has the database decides
    #[arg(long, value_enum, value_name = "WHEN", default_value = "fsync")]
    durability: When,
    /// A PostgreSQL database in place of a file: env:NAME or file:PATH of its URL, or a URL without a password
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,
    /// Whose rows of the PostgreSQL database: those of one tenant are never seen by another
    #[arg(
        long,
        value_name = "NAME",
        default_value = "default",
        requires = "postgres"
    )]
    tenant: String,
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum When {
    Fsync,
    Os,
}

impl Data {
    /// The database, and its folder, which is made.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        let place = self.place()?;
        let data = match &place {
            StorePlace::Folder(folder, _) => folder.clone(),
            // One for each database: who has the folder answers for the database.
            StorePlace::Postgres(database) => match &self.data {
                Some(data) => data.clone(),
                None => {
                    let digest = Sha256::digest(database.name());
                    let name: String = digest[..8]
                        .iter()
                        .map(|byte| format!("{byte:02x}"))
                        .collect();
                    Data::home()?.join("flow-postgres").join(name)
                }
            },
        };
        store::state::make_dir(&data).map_err(|error| Failure::new(error.to_string(), ""))?;
        Ok(Settings { data, place })
    }

    /// The database, which may not be there.
    pub(crate) fn place(&self) -> Result<StorePlace, Failure> {
        let durability = match self.durability {
            When::Fsync => Durability::Fsync,
            When::Os => Durability::Os,
        };
        let Some(text) = &self.postgres else {
            let folder = match &self.data {
                Some(data) => data.clone(),
                None => Data::home()?.join("flow"),
            };
            return Ok(StorePlace::Folder(folder, durability));
        };
        let wrong =
            |flag: &'static str| move |what: String| Failure::new(format!("{flag} {what}"), "");
        let target = Target::referred(text).map_err(wrong("--postgres"))?;
        let database = Database::new(target, &self.tenant).map_err(wrong("--tenant"))?;
        Ok(StorePlace::Postgres(Box::new(database)))
    }

    /// The folder of the user's data.
    fn home() -> Result<PathBuf, Failure> {
        // A relative path is to be ignored (XDG Base Directory Specification).
        let folder = |name| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let home = || folder("HOME").map(|home| home.join(".local/share"));
        let base = folder("XDG_DATA_HOME").or_else(home).ok_or_else(|| {
            let what = "there is no folder for the database: neither XDG_DATA_HOME nor HOME is set";
            Failure::new(what, "Name one with --data DIR.")
        })?;
        Ok(base.join("weir"))
    }
}

/// Which project is meant, and who calls.
#[derive(Args, Debug)]
pub(crate) struct Scope {
    /// The project, by name or id; not needed where there is one alone
    #[arg(short, long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// Who you are, for history and claims; by default your user id
    #[arg(long = "as", value_name = "NAME")]
    actor: Option<String>,
    #[command(flatten)]
    pub(crate) data: Data,
}

/// Calls of one command.
pub(crate) struct Calls {
    runtime: tokio::runtime::Runtime,
    desk: Desk,
    session: Session,
}

impl Calls {
    /// Opens the database, or finds the process that has it.
    pub(crate) fn open(scope: &Scope) -> Result<Calls, Failure> {
        let settings = scope.data.settings()?;
        let runtime = crate::runtime()?;
        let opened = runtime.block_on(async { Desk::open(settings) });
        let desk = opened.map_err(|error| Failure::new(format!("the database: {error}"), ""))?;
        Ok(Calls {
            runtime,
            desk,
            session: Session {
                actor: author(scope.actor.as_deref()),
                project: scope.project.clone(),
                ..Session::default()
            },
        })
    }

    /// Calls a tool.
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Result<Value, Failure> {
        let mut named = arguments.as_object().cloned().unwrap_or_default();
        named.retain(|_, value| !value.is_null());
        let ask = Ask {
            tool: tool.to_owned(),
            arguments: named,
            session: self.session.clone(),
            // A call that is made again, since the process that answered it ended, is done once.
            request: flow::ops::new_id(),
            ..Ask::default()
        };
        let (told, _states) = desk::progress();
        let said = self.runtime.block_on(self.desk.call(ask, told));
        said.map(|said| said.value).map_err(failure)
    }
}

/// A problem with a call as the end of a command.
pub(crate) fn failure(problem: Problem) -> Failure {
    Failure::new(terminal::visible_lines(&problem.message).into_owned(), "")
}
