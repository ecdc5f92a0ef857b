//! `weir lab bisect`: which commit made it slower? `git bisect run` around `weir lab compare`.
//!
//! The checkout that it is called in is not touched: the good commit and the one that is tried are checked out in worktrees of
//! their own, in a temporary folder, which are removed at the end. A commit that cannot be built, does not start, or of which the
//! comparison cannot tell anything is skipped, as git means it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use serde_json::json;

use crate::exit::{Ended, Exit, Failure};
use crate::output;
use crate::output::units::plain;
use crate::scenario::Flags;

/// What `git bisect run` takes as: good, bad, cannot be tried, stop.
const GOOD: &str = "exit 0";
const BAD: &str = "exit 1";
const SKIP: &str = "exit 125";
const STOP: &str = "exit 128";

/// Finds the commit that made a server slower
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir lab bisect v1.0 HEAD --build 'cargo build --release' -R 2000 -- ./target/release/server --port {port}
  weir lab bisect abc123 main --url http://127.0.0.1:{port}/health -c 16 -d 5s --margin 10% -- ./serve {port}

GOOD and BAD are compared first: where BAD is not worse, there is nothing to find. Each step is weir lab compare of GOOD and the
commit that git chose, in worktrees of their own; the flags are those of weir lab load.

Exit codes: 0 found, 2 it could not be done, 97 only commits are left that cannot be told apart, 105 interrupted.")]
pub struct Bisect {
    /// A commit that is fast enough
    #[arg(value_name = "GOOD")]
    good: String,
    /// A later commit that is not
    #[arg(value_name = "BAD")]
    bad: String,
    /// Builds the server, in the root of the checkout
    #[arg(long, value_name = "COMMAND")]
    build: Option<String>,
    /// What is asked; {port} is the server's port
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:{port}/")]
    url: String,
    /// The change below which a difference does not matter
    #[arg(long, value_name = "SHARE", default_value = "5%")]
    margin: String,
    /// Blocks of each comparison
    #[arg(long, value_name = "N", default_value_t = 6)]
    blocks: usize,
    #[command(flatten)]
    flags: Flags,
    /// Print one JSON object, and nothing else, to standard output
    #[arg(long)]
    json: bool,
    /// Starts the server, in the root of the checkout; {port} is a free port
    #[arg(value_name = "COMMAND", last = true, required = true)]
    command: Vec<String>,
}

/// Worktrees in a folder of their own. Dropping it removes them.
struct Worktrees {
    repository: PathBuf,
    folder: PathBuf,
}

impl Bisect {
    pub fn run(self) -> Ended {
        let repository = PathBuf::from(git(Path::new("."), &["rev-parse", "--show-toplevel"])?);
        let commit = |name: &str| {
            git(
                &repository,
                &[
                    "rev-parse",
                    "--verify",
                    "--quiet",
                    &format!("{name}^{{commit}}"),
                ],
            )
        };
        let unknown = |name: &str| {
            Failure::new(
                format!("{} is no commit here", plain(name)),
                "name a commit, a branch or a tag",
            )
        };
        let good = commit(&self.good).map_err(|_| unknown(&self.good))?;
        let bad = commit(&self.bad).map_err(|_| unknown(&self.bad))?;
        let worktrees = Worktrees::make(&repository)?;
        let (kept, tried) = (worktrees.add("good", &good)?, worktrees.add("tried", &bad)?);
        self.build(&kept, &self.good)?;
        let script = self.script(&kept)?;
        let first = sh(&tried, &script)?;
        match first {
            Some(1) => {}
            Some(0) => {
                return Err(Failure::new(
                    format!(
                        "{} is not worse than {}: there is nothing to find",
                        plain(&self.bad),
                        plain(&self.good)
                    ),
                    "name other commits, or a smaller --margin",
                ));
            }
            Some(125) => {
                return Err(Failure::new(
                    format!(
                        "{} cannot be compared with {}",
                        plain(&self.bad),
                        plain(&self.good)
                    ),
                    "see what weir lab compare said above",
                ));
            }
            _ => return Ok(Exit::Interrupted),
        }
        git(&tried, &["bisect", "start", &bad, &good])?;
        let ended = Command::new("git")
            .args(["bisect", "run", "sh", "-c", &script])
            .current_dir(&tried)
            .stdin(Stdio::null())
            .stdout(std::io::stderr())
            .status()
            .map_err(|e| Failure::new(format!("git: {e}"), ""))?;
        let steps = git(&tried, &["bisect", "log"])?
            .lines()
            .filter(|line| line.starts_with("git bisect ") && !line.contains(" start"))
            .count();
        if !ended.success() {
            // 2 is git's word for: only skipped commits are left.
            return match ended.code() {
                Some(2) => Ok(Exit::CannotTell),
                _ => Ok(Exit::Interrupted),
            };
        }
        let found = git(&tried, &["rev-parse", "refs/bisect/bad"])?;
        let subject = plain(&git(&tried, &["show", "-s", "--format=%s", &found])?);
        let text = match self.json {
            true => json!({ "commit": found, "subject": subject, "good": good, "bad": bad, "steps": steps }).to_string() + "\n",
            false => format!("{found} made it slower: {subject}\n"),
        };
        output::say(&mut std::io::stdout(), &text)?;
        Ok(Exit::Pass)
    }

    fn build(&self, folder: &Path, name: &str) -> Result<(), Failure> {
        let Some(command) = &self.build else {
            return Ok(());
        };
        match sh(folder, command)? {
            Some(0) => Ok(()),
            _ => Err(Failure::new(
                format!("`{}` fails at {}", plain(command), plain(name)),
                "GOOD has to be built",
            )),
        }
    }

    /// What is run at each commit: build, compare, and say it in git's codes.
    fn script(&self, good: &Path) -> Result<String, Failure> {
        let own = std::env::current_exe()
            .map_err(|e| Failure::new(format!("this program's own path: {e}"), ""))?;
        let command = match self.command.as_slice() {
            [one] => one.clone(),
            words => words
                .iter()
                .map(|word| quoted(word))
                .collect::<Vec<String>>()
                .join(" "),
        };
        let path = |path: &Path| quoted(&path.display().to_string());
        let mut words = vec![
            path(&own),
            "lab compare".to_owned(),
            "--a-command".to_owned(),
            quoted(&format!("cd {} && {command}", path(good))),
            "--b-command".to_owned(),
            quoted(&command),
            quoted(&self.url),
            format!("--blocks {}", self.blocks),
            format!("--margin {}", quoted(&self.margin)),
        ];
        words.extend(self.flags.words().iter().map(|word| quoted(word)));
        let build = match &self.build {
            Some(build) => format!("( {build} ) >&2 || {SKIP}\n"),
            None => String::new(),
        };
        let codes = format!(
            "case $? in 0) {GOOD};; {}) {BAD};; {}) {STOP};; *) {SKIP};; esac",
            Exit::Worse.code(),
            Exit::Interrupted.code()
        );
        Ok(format!("{build}{} >&2\n{codes}", words.join(" ")))
    }
}

impl Worktrees {
    fn make(repository: &Path) -> Result<Worktrees, Failure> {
        let folder = std::env::temp_dir().join(format!("weir-bisect-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(|e| {
            Failure::new(
                format!("{}: {e}", folder.display()),
                "name another folder by TMPDIR",
            )
        })?;
        Ok(Worktrees {
            repository: repository.to_owned(),
            folder,
        })
    }

    fn add(&self, name: &str, commit: &str) -> Result<PathBuf, Failure> {
        let path = self.folder.join(name);
        git(
            &self.repository,
            &[
                "worktree",
                "add",
                "--quiet",
                "--detach",
                &path.display().to_string(),
                commit,
            ],
        )?;
        Ok(path)
    }
}

impl Drop for Worktrees {
    fn drop(&mut self) {
        // Nothing is left to be done when even that fails.
        let _ = std::fs::remove_dir_all(&self.folder);
        let _ = git(&self.repository, &["worktree", "prune"]);
    }
}

/// What git says, without its last line feed.
fn git(folder: &Path, words: &[&str]) -> Result<String, Failure> {
    let done = Command::new("git")
        .args(words)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output();
    let done = done.map_err(|e| Failure::new(format!("git cannot be run: {e}"), "install git"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match done.status.success() {
        true => Ok(text(&done.stdout)),
        false => Err(Failure::new(
            format!(
                "git {}: {}",
                words.first().unwrap_or(&""),
                plain(&text(&done.stderr))
            ),
            "",
        )),
    }
}

/// Runs a command of the shell; its exit code, where it was not killed. What it prints goes to standard error.
fn sh(folder: &Path, command: &str) -> Result<Option<i32>, Failure> {
    let status = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status();
    status
        .map(|status| status.code())
        .map_err(|e| Failure::new(format!("sh: {e}"), ""))
}

/// A word as the shell takes it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_word_is_one_word_of_the_shell() {
        assert_eq!(super::quoted("a'b $x"), r"'a'\''b $x'");
    }
}
