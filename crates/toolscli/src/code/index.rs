//! `weir code index`: index a tree and say how far that is. Also where the index of a tree is kept.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use base::hex;
use clap::Args;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tools::code::api::{self, Job, JobState, ParseBy};
use tools::code::{Desk, Settings};
use tools::serve::call::{Ask, Problem, Said};
use tools::serve::desk;

use crate::{Answer, Ended, Failure, print};

/// The tenant of a process that has one.
const TENANT: &str = "default";
/// Parsers at once, at most.
const WORKERS_MAX: usize = 8;
/// How long one call waits for the end of a job, in seconds; then it is asked again.
const WAIT_S: u32 = 50;

/// Which trees, and where their index is.
#[derive(Args, Debug)]
pub(crate) struct Index {
    /// A folder to search; may be given more than once; by default the git repository that this one is in
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,
    /// The folder of the index; by default one for these roots, weir/code in $XDG_CACHE_HOME or ~/.cache
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// A file or folder below a root that is as if it were not there; may be given more than once
    #[arg(long, value_name = "PATH")]
    hide: Vec<PathBuf>,
}

impl Index {
    /// Roots and a folder of their own, which is made.
    pub(crate) fn settings(&self, index_roots: bool) -> Result<Settings, Failure> {
        let given = match self.root.is_empty() {
            true => vec![repository()?],
            false => self.root.clone(),
        };
        let real = |root: &PathBuf| {
            root.canonicalize()
                .ok()
                .filter(|root| root.is_dir())
                .ok_or_else(|| Failure::new(format!("{} is not a folder", root.display()), ""))
        };
        let roots: Vec<PathBuf> = given.iter().map(real).collect::<Result<_, _>>()?;
        let data = match &self.data {
            Some(data) => data.clone(),
            None => cache()?.join(name(&roots)),
        };
        store::state::make_dir(&data).map_err(|error| Failure::new(error.to_string(), ""))?;
        let program = std::env::current_exe()
            .map_err(|error| Failure::new(format!("this program: {error}"), ""))?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Settings {
            engine: api::Settings {
                data_dir: data,
                roots,
                hidden: self.hide.clone(),
                tenant: TENANT.to_owned(),
                limits: api::Limits::default(),
                parse: ParseBy::Worker {
                    program,
                    args: ["tools", "code", "--parse"].map(str::to_owned).into(),
                    workers: cores.min(WORKERS_MAX),
                },
                embed: None,
            },
            index_roots,
            endpoint: None,
        })
    }
}

/// The repository that the working folder is in, or else that folder.
fn repository() -> Result<PathBuf, Failure> {
    let here = std::env::current_dir()
        .map_err(|error| Failure::new(format!("the working folder: {error}"), ""))?;
    let mut above = here.ancestors();
    let root = above.find(|dir| dir.join(".git").exists());
    Ok(root.unwrap_or(&here).to_path_buf())
}

fn cache() -> Result<PathBuf, Failure> {
    // A relative path is to be ignored (XDG Base Directory Specification).
    let folder = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let base = folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")));
    let base = base.ok_or_else(|| {
        let what = "there is no folder for the index: neither XDG_CACHE_HOME nor HOME is set";
        Failure::new(what, "Name one with --data DIR.")
    })?;
    Ok(base.join("weir/code"))
}

/// A folder's name that is these roots' own, and says whose.
fn name(roots: &[PathBuf]) -> String {
    let mut digest = Sha256::new();
    for root in roots {
        let bytes = root.as_os_str().as_encoded_bytes();
        digest.update((bytes.len() as u64).to_be_bytes());
        digest.update(bytes);
    }
    let digits = hex::encode(&digest.finalize()[..6]);
    let stem = roots
        .first()
        .and_then(|root| root.file_name())
        .unwrap_or_default();
    let plain = |c: &char| c.is_ascii_alphanumeric() || "_-.".contains(*c);
    let stem: String = stem
        .to_string_lossy()
        .chars()
        .filter(plain)
        .take(40)
        .collect();
    format!("{stem}-{digits}")
}

/// Calls of one command, on a desk of its own.
pub(crate) struct Calls {
    runtime: tokio::runtime::Runtime,
    desk: Desk,
}

impl Calls {
    /// Opens the index, or finds the process that has it.
    pub(crate) fn open(settings: Settings) -> Result<Calls, Failure> {
        let runtime = crate::runtime()?;
        let opened = runtime.block_on(async { Desk::open(settings) });
        let desk = opened.map_err(|error| Failure::new(format!("the index: {error}"), ""))?;
        Ok(Calls { runtime, desk })
    }

    /// Calls a tool, telling the states of the job that it waits for.
    pub(crate) fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        mut tell: impl FnMut(&Job),
    ) -> Result<Said, Problem> {
        let ask = Ask {
            tool: tool.to_owned(),
            arguments,
            ..Ask::default()
        };
        let (told, mut jobs) = desk::progress();
        self.runtime.block_on(async {
            let telling = async {
                while let Some(job) = jobs.recv().await {
                    tell(&job);
                }
            };
            tokio::join!(self.desk.call(ask, told), telling).0
        })
    }

    /// Indexes a tree to the end, with a line of progress on a terminal.
    pub(crate) fn index(&self, dir: &Path, force: bool) -> Result<Job, Failure> {
        let path = dir.display().to_string();
        let mut line = Line::new();
        let mut again = force;
        loop {
            let arguments = json!({ "path": path, "force": again, "wait_s": WAIT_S });
            let arguments = arguments.as_object().cloned().unwrap_or_default();
            let said = self.call("index_repository", arguments, |job| line.tell(job));
            let said = said.map_err(failure)?;
            let job: Job = serde_json::from_value(said.value)
                .map_err(|error| Failure::new(format!("the index's answer: {error}"), ""))?;
            if job.state.is_over() {
                line.end();
                return Ok(job);
            }
            again = false;
        }
    }
}

/// A problem with a call as the end of a command.
pub(crate) fn failure(problem: Problem) -> Failure {
    Failure::new(problem.message, "")
}

/// One line on standard error that says how far it is, where that is a terminal.
struct Line {
    shown: bool,
}

impl Line {
    fn new() -> Line {
        Line {
            shown: std::io::stderr().is_terminal(),
        }
    }

    fn tell(&mut self, job: &Job) {
        if !self.shown {
            return;
        }
        const CELLS: u64 = 30;
        let full = match job.files_seen {
            0 => 0,
            seen => (job.files_done * CELLS / seen).min(CELLS),
        };
        let bar: String = (0..CELLS)
            .map(|i| if i < full { '█' } else { '░' })
            .collect();
        let of = if job.walked { "" } else { "…" };
        let left = job
            .left_ms
            .map(|ms| format!(", {} s to go", ms.div_ceil(1000)));
        let left = left.unwrap_or_default();
        let text = format!(
            "\r\x1b[K{bar} {}/{}{of} files{left}",
            job.files_done, job.files_seen
        );
        self.write(&text);
    }

    fn end(&mut self) {
        if self.shown {
            self.write("\r\x1b[K");
        }
    }

    fn write(&self, text: &str) {
        // There is nobody to tell where standard error is closed.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }
}

/// Index a folder, or bring its index up to date
///
/// Only what changed is read again. What was indexed is searched by weir code search in the same folder.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir code index
  weir code index ~/src/app --json
  weir code index --data /tmp/index --force ~/src/app

Exit codes: 0 the index is up to date, 1 the job failed, 2 it could not begin.")]
pub struct IndexCommand {
    /// The folder; by default the git repository that this one is in
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The folder of the index; by default one for this folder, weir/code in $XDG_CACHE_HOME or ~/.cache
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Parse every file again
    #[arg(long)]
    force: bool,
    /// Print the job as JSON
    #[arg(long)]
    json: bool,
}

impl IndexCommand {
    pub(crate) fn run(self) -> Ended {
        let index = Index {
            root: self.dir.into_iter().collect(),
            data: self.data,
            hide: Vec::new(),
        };
        let settings = index.settings(false)?;
        let root = settings.engine.roots[0].clone();
        let job = Calls::open(settings)?.index(&root, self.force)?;
        if self.json {
            let text = serde_json::to_string(&job)
                .map_err(|error| Failure::new(format!("JSON: {error}"), ""))?;
            print(&format!("{text}\n"))?;
        } else {
            print(&summary(&job))?;
        }
        match job.state {
            JobState::Done => Ok(Answer::Yes),
            JobState::Queued | JobState::Running | JobState::Cancelled | JobState::Failed => {
                Ok(Answer::No)
            }
        }
    }
}

fn summary(job: &Job) -> String {
    let mut text = format!(
        "{}: {} files, {} indexed in {} pieces, {} unchanged, {} gone, {} by name only; {:.1} s\n",
        job.repository,
        job.files_seen,
        job.files_indexed,
        job.chunks,
        job.files_unchanged,
        job.files_removed,
        job.files_skipped,
        job.took_ms as f64 / 1000.0
    );
    if let Some(error) = &job.error {
        text.push_str(&format!("  {error}\n"));
    }
    text
}
