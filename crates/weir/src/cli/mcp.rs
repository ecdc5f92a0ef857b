//! `weir mcp`: ask servers behind a gateway that runs, or put one server behind the gate with nothing else running.
//!
//! `wrap` makes the settings of a gateway of one agent and one server, and leaves the rest to `wrap`.

mod ask;
mod session;

use std::collections::HashMap;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};

use base::{Code, Digest, Name, Secret, hex, refusal};
use clap::{Args, Subcommand};
use sha2::{Digest as _, Sha256};
use store::Durability;

use super::agent::new_key;
use super::{Failure, complain, print_problems, state_folder, variable};
use crate::config::settings::{Agent, ChildServer, EnvValue, LOCAL, LogLevel, Server, ServerKind};
use crate::config::{Problem, Seen, Settings, read};
use crate::reload::Load;
use crate::wrap::{self, Failed};

/// The policy where no configuration is named.
const PERMIT_ALL: &str = "@id(\"wrap\") permit (principal, action, resource);\n";
/// Variables that a server has in any case: without them few programs start.
const ALWAYS: &[&str] = &["PATH", "HOME"];
/// Bytes of a digest that make a name one server's own.
const NAME_DIGEST_BYTES: usize = 4;
/// Exit code of a child that a signal ended, as shells have it: this and the signal's number.
const SIGNALLED: i32 = 128;
/// Exit codes of a program that cannot be executed and of one that is not there, as shells have them.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// What holds where no configuration is named: everything is permitted, and one client waits as long as it likes.
fn built_in() -> Settings {
    let mut settings = Settings::built_in(PERMIT_ALL);
    settings.log.durability = Durability::Os;
    settings.logs.level = LogLevel::Warn;
    settings.limits.answer_ms = 3_600_000;
    settings.limits.body_bytes_max = 16 << 20;
    settings.limits.answer_bytes_max = 16 << 20;
    settings
}

/// Ask MCP servers behind a gateway, or put one behind the gate in the place of a client
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir mcp list             The tools that the agent of WEIR_KEY may use
  weir mcp call files/list_directory '{\"path\": \".\"}'
  weir mcp inspect files
  weir mcp wrap -- mcp-server-filesystem ~/notes
  weir mcp wrap --help      How a client is told of it")]
pub(super) enum Mcp {
    List(ask::List),
    Call(ask::Call),
    Inspect(ask::Inspect),
    Wrap(Box<Wrap>),
}

/// Start a stdio MCP server behind the gate, in the place of the client
///
/// Give it to an MCP client as the command of a server, with the server's own command after --. Each
/// message is judged, scanned and recorded on its way in and out; tools are pinned.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  weir mcp wrap -- mcp-server-filesystem ~/notes
  weir mcp wrap --name notes --config ~/weir.yaml -- npx -y @modelcontextprotocol/server-filesystem ~/notes
  weir mcp wrap --clean-env --env GITHUB_TOKEN -- github-mcp-server stdio

Claude Desktop, in claude_desktop_config.json; Cursor, in ~/.cursor/mcp.json or .cursor/mcp.json:
  { \"mcpServers\": {
      \"notes\": {
        \"command\": \"weir\",
        \"args\": [\"mcp\", \"wrap\", \"--name\", \"notes\", \"--\",
                 \"npx\", \"-y\", \"@modelcontextprotocol/server-filesystem\", \"/home/me/notes\"] } } }

Exit codes: the server's own where it ended first (128 and the signal's number where a signal ended it),
0 where the client ended it, 1 the policy, a stop or the agent's state refuses, 2 it could not be
done, 126 COMMAND cannot be executed, 127 there is no such COMMAND.")]
pub(super) struct Wrap {
    /// What the server is called in policies and records; by default its program and a digest of COMMAND
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<Name>,
    /// Take policy, scan, limits and log from this configuration; by default all is permitted, and scanned
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Who the client is in policies and records; with the groups that the configuration gives it
    #[arg(long, value_name = "NAME", default_value = LOCAL, value_parser = name)]
    agent: Name,
    /// The folder of the log and the pins; by default weir/wrap/NAME in $XDG_STATE_HOME or ~/.local/state
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Give the server this variable and no others; may be given more than once (PATH and HOME stay)
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// Give the server no variables but those of --env (PATH and HOME stay); by default it has all of ours
    #[arg(long)]
    clean_env: bool,
    /// The server and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn name(text: &str) -> Result<Name, String> {
    let wrong = "must be 1 to 64 letters, digits, dots, _ or -, and begin with a letter or digit";
    Name::new(text).ok_or_else(|| wrong.to_owned())
}

impl Mcp {
    /// Serves. The server has exit codes of its own.
    pub(super) fn run(self) -> ExitCode {
        let wrap = match self {
            Mcp::List(command) => return terminal::exit(command.run()),
            Mcp::Call(command) => return terminal::exit(command.run()),
            Mcp::Inspect(command) => return terminal::exit(command.run()),
            Mcp::Wrap(command) => command,
        };
        match wrap.run() {
            Ok(code) => code,
            Err(failure) => {
                complain(&failure.what, &failure.help);
                ExitCode::from(2)
            }
        }
    }
}

impl Wrap {
    fn run(self) -> Result<ExitCode, Failure> {
        let (key, digest) = new_key()?;
        let name = self.name();
        let state = self.state(&name)?;
        let mut seen = Seen::default();
        let settings = match self.settings(&name, &state, digest, &mut seen) {
            Ok(settings) => settings,
            Err(problems) => {
                print_problems(&problems);
                return Ok(ExitCode::from(2));
            }
        };
        // Before anything is written.
        if let Err(error) = net::children::find(&self.command[0]) {
            return Ok(self.not_started(&error));
        }
        let again = self.config.is_some().then(|| {
            let (command, name) = (self.clone(), name.clone());
            let load = move |seen: &mut Seen| command.settings(&name, &state, digest, seen);
            (seen, Box::new(load) as Load)
        });
        match wrap::run(&settings, &name, &key, again) {
            Ok(status) => Ok(status.map_or(ExitCode::SUCCESS, code)),
            Err(Failed::Refused(refusal)) => {
                complain(&refusal.public, refusal.mend());
                Ok(ExitCode::from(if is_no(refusal.code) { 1 } else { 2 }))
            }
            Err(Failed::Error(what)) => Err(Failure::new(what, "")),
        }
    }

    /// Says why COMMAND cannot be started, with the exit code that a shell would have.
    fn not_started(&self, error: &io::Error) -> ExitCode {
        let program = &self.command[0];
        let (what, help, code) = match error.kind() {
            io::ErrorKind::NotFound => (
                format!("{program}: there is no such program"),
                "Write the whole path of the server's program, or a name that is in PATH.",
                NOT_FOUND,
            ),
            _ => (
                format!("{program} cannot be executed: {error}"),
                "Name a program that this user may execute.",
                NOT_EXECUTABLE,
            ),
        };
        complain(&what, help);
        ExitCode::from(code)
    }

    /// The settings of a gateway of this agent and this server, and the files that they come from.
    fn settings(
        &self,
        name: &Name,
        state: &Path,
        key: Digest,
        seen: &mut Seen,
    ) -> Result<Settings, Vec<Problem>> {
        let mut settings = match &self.config {
            Some(path) => read::load(path, &variable, seen)?,
            None => built_in(),
        };
        settings.state = state.to_owned();
        settings.agents = vec![self.agent(&settings, key)];
        settings.servers = vec![self.server(name)];
        Ok(settings)
    }

    /// The program alone would be the same name for all that `npx` or `python` runs, and pins are a name's.
    fn name(&self) -> Name {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let program = Path::new(&self.command[0]);
        let stem = program.file_stem().unwrap_or_default().to_string_lossy();
        let plain = |c: &char| c.is_ascii_alphanumeric() || "_-".contains(*c);
        let stem: String = stem.chars().filter(plain).take(40).collect();
        let stem = stem.trim_start_matches(['_', '-']);
        let stem = if stem.is_empty() { "server" } else { stem };
        let mut digest = Sha256::new();
        for word in &self.command {
            digest.update((word.len() as u64).to_be_bytes());
            digest.update(word.as_bytes());
        }
        let digest = digest.finalize();
        let digits = hex::encode(&digest[..NAME_DIGEST_BYTES]);
        Name::new(&format!("{stem}-{digits}")).expect("letters and digits make a name")
    }

    fn state(&self, name: &Name) -> Result<PathBuf, Failure> {
        if let Some(state) = &self.state {
            return Ok(state.clone());
        }
        Ok(state_folder("wrap")?.join(name.as_str()))
    }

    /// The one agent: its key is made for this process and nobody else has it.
    fn agent(&self, settings: &Settings, key: Digest) -> Agent {
        let mut known = settings.agents.iter();
        let known = known.find(|agent| agent.name == self.agent);
        Agent {
            name: self.agent.clone(),
            keys: vec![key],
            groups: known.map(|agent| agent.groups.clone()).unwrap_or_default(),
            state: known.map(|agent| agent.state).unwrap_or_default(),
            expires_unix_ms: known.and_then(|agent| agent.expires_unix_ms),
        }
    }

    fn server(&self, name: &Name) -> Server {
        let child = ChildServer {
            command: self.command.clone(),
            env: self.variables(),
            dir: PathBuf::from("."),
            errors: net::children::Errors::Ours,
        };
        Server {
            name: name.clone(),
            kind: ServerKind::Child(child),
            sessions_max: 1,
            agent_sessions_max: 1,
            session_idle_ms: 0,
            tells_agent: false,
            list_ms: 0,
            names: HashMap::new(),
            items: HashMap::new(),
        }
    }

    fn variables(&self) -> Vec<EnvValue> {
        let narrow = self.clean_env || !self.env.is_empty();
        let named = |name: &str| ALWAYS.contains(&name) || self.env.iter().any(|env| env == name);
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| !narrow || named(name))
            .map(|(name, value)| EnvValue {
                name,
                value: Secret::new(value),
            })
            .collect()
    }
}

/// Whether a refusal is the operator's no, and not something that failed.
fn is_no(code: &Code) -> bool {
    let is_of = |kind: &str| code.name.starts_with(kind);
    is_of("policy.") || is_of("agent.") || code == refusal::STOPPED
}

/// How the server ended, as our own exit code.
fn code(status: ExitStatus) -> ExitCode {
    let signalled = || status.signal().map(|signal| SIGNALLED + signal);
    let code = status.code().or_else(signalled).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
