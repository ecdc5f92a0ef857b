//! Every version of every file that the history of a git repository holds, each once, in the order of commits.
//!
//! git itself reads its repository, as child processes that write to pipes: no more than one file is in memory,
//! and nothing of the repository is run or changed. What git replaces by other objects is read as it is, and
//! what it would have to fetch is said to be missing.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use terminal::Failure;

/// Bytes of a line that git writes: a path, a name and a size.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Variables that name another repository than the one that was asked for.
const ELSEWHERE: [&str; 6] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_SHALLOW_FILE",
];

/// A version of a file.
pub(super) struct Version {
    /// Where it is in the first commit that has it.
    pub path: PathBuf,
    /// That commit; empty where a tag names the file by itself.
    pub commit: String,
    /// Its own name in git.
    pub blob: String,
    pub bytes: u64,
}

/// What the history gives next.
pub(super) enum Next {
    Version(Version),
    /// An object that is not there, with what git says of it.
    Missing(String),
    End,
}

/// The history of a repository, as it is read.
pub(super) struct History {
    list: Child,
    types: Child,
    names: BufReader<ChildStdout>,
    blobs: Blobs,
    commit: String,
    /// Whether commits are left out because this is a clone of the last ones alone.
    pub shallow: bool,
}

impl History {
    /// Begins to read the history of the repository that a folder is in, of all its branches and tags.
    pub(super) fn open(dir: &Path) -> Result<History, Failure> {
        let shallow = git(dir, &["rev-parse", "--is-shallow-repository"]).output();
        let shallow = shallow.map_err(|error| not_started(&error))?;
        if !shallow.status.success() {
            let what = String::from_utf8_lossy(&shallow.stderr);
            let what = what.trim().trim_start_matches("fatal: ");
            let what = format!("{}: git cannot read it: {what}", dir.display());
            return Err(Failure::new(what, "Name a folder of a git repository."));
        }
        let listed = [
            "rev-list",
            "--objects",
            "--in-commit-order",
            "--reverse",
            "--missing=print",
            "--all",
        ];
        let mut list = git(dir, &listed)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| not_started(&e))?;
        let objects = list.stdout.take().expect("it was piped");
        let format = "--batch-check=%(objecttype) %(objectname) %(objectsize) %(rest)";
        let types = git(dir, &["cat-file", "--buffer", format])
            .stdin(Stdio::from(objects))
            .stdout(Stdio::piped())
            .spawn();
        let mut types = types.map_err(|error| not_started(&error))?;
        let names = types.stdout.take().expect("it was piped");
        Ok(History {
            list,
            types,
            names: BufReader::new(names),
            blobs: Blobs::open(dir)?,
            commit: String::new(),
            shallow: shallow.stdout.starts_with(b"true"),
        })
    }

    /// The next version. Errors: git failed, and the history was not read to its end.
    pub(super) fn next(&mut self) -> Result<Next, Failure> {
        loop {
            let line = line(&mut self.names)?;
            if line.is_empty() {
                self.ended()?;
                return Ok(Next::End);
            }
            let mut fields = line.splitn(4, |byte| *byte == b' ');
            let mut word =
                || String::from_utf8_lossy(fields.next().unwrap_or_default()).into_owned();
            match [word(), word(), word()] {
                [kind, name, _] if kind == "commit" => self.commit = name,
                [kind, blob, bytes] if kind == "blob" => {
                    let path = fields.next().unwrap_or_default();
                    return Ok(Next::Version(Version {
                        path: PathBuf::from(OsStr::from_bytes(path)),
                        commit: self.commit.clone(),
                        blob,
                        bytes: bytes.parse().map_err(|_| not_understood())?,
                    }));
                }
                [kind, ..] if kind == "tree" || kind == "tag" => {}
                // `NAME missing`
                [name, what, _] => {
                    let name = name.trim_start_matches('?');
                    return Ok(Next::Missing(format!("{name} {what}")));
                }
            }
        }
    }

    /// What a version says.
    pub(super) fn contents(&mut self, version: &Version) -> Result<Vec<u8>, Failure> {
        match self.blobs.read(&version.blob, version.bytes)? {
            ReadBlob::Read(bytes) if bytes.len() as u64 == version.bytes => Ok(bytes),
            _ => Err(not_understood()),
        }
    }

    fn ended(&mut self) -> Result<(), Failure> {
        for child in [&mut self.list, &mut self.types] {
            let status = child.wait().map_err(|error| failed(&error))?;
            if !status.success() {
                let what = "git did not list all of the history; see its message above";
                return Err(Failure::new(
                    what,
                    "git fsck says whether the repository is whole.",
                ));
            }
        }
        Ok(())
    }
}

impl Drop for History {
    fn drop(&mut self) {
        for child in [&mut self.list, &mut self.types] {
            // One that has ended cannot be ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What files hold, as git has them by their names.
pub(super) struct Blobs {
    contents: Child,
    ask: ChildStdin,
    answer: BufReader<ChildStdout>,
}

/// What git has under a name.
pub(super) enum ReadBlob {
    Read(Vec<u8>),
    /// It has more bytes than were to be read: so many.
    Large(u64),
}

impl Blobs {
    /// Begins to read files of the repository that a folder is in. Errors: git cannot be started.
    pub(super) fn open(dir: &Path) -> Result<Blobs, Failure> {
        let contents = git(dir, &["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut contents = contents.map_err(|error| not_started(&error))?;
        let ask = contents.stdin.take().expect("it was piped");
        let answer = contents.stdout.take().expect("it was piped");
        Ok(Blobs {
            contents,
            ask,
            answer: BufReader::new(answer),
        })
    }

    /// What a file holds, up to a number of bytes. Errors: git failed, or has no such file.
    pub(super) fn read(&mut self, blob: &str, bytes_max: u64) -> Result<ReadBlob, Failure> {
        let asked = writeln!(self.ask, "{blob}").and_then(|()| self.ask.flush());
        asked.map_err(|error| failed(&error))?;
        let head = line(&mut self.answer)?;
        let head = String::from_utf8_lossy(&head);
        let start = format!("{blob} blob ");
        let length = head
            .strip_prefix(&*start)
            .and_then(|bytes| bytes.parse().ok());
        let length: u64 = length.ok_or_else(not_understood)?;
        // A line ends it.
        let mut all = self.answer.by_ref().take(length + 1);
        if length > bytes_max {
            let passed = std::io::copy(&mut all, &mut std::io::sink());
            passed.map_err(|error| failed(&error))?;
            return Ok(ReadBlob::Large(length));
        }
        let mut bytes = Vec::new();
        all.read_to_end(&mut bytes)
            .map_err(|error| failed(&error))?;
        match bytes.pop() {
            Some(b'\n') if bytes.len() as u64 == length => Ok(ReadBlob::Read(bytes)),
            _ => Err(not_understood()),
        }
    }
}

impl Drop for Blobs {
    fn drop(&mut self) {
        let _ = self.contents.kill();
        let _ = self.contents.wait();
    }
}

/// git in a folder, which asks nobody, fetches nothing and takes no object for another.
pub(super) fn git(dir: &Path, arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(dir).args(arguments);
    git.stdin(Stdio::null());
    git.env("GIT_NO_REPLACE_OBJECTS", "1")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_OPTIONAL_LOCKS", "0");
    for name in ELSEWHERE {
        git.env_remove(name);
    }
    git
}

/// A line of git's, without its end; empty at the end of all.
fn line(from: &mut BufReader<ChildStdout>) -> Result<Vec<u8>, Failure> {
    let mut line = Vec::new();
    let read = from
        .by_ref()
        .take(LINE_BYTES_MAX)
        .read_until(b'\n', &mut line);
    read.map_err(|error| failed(&error))?;
    match line.pop() {
        Some(b'\n') | None => Ok(line),
        Some(_) => Err(not_understood()),
    }
}

pub(super) fn not_started(error: &std::io::Error) -> Failure {
    let help = "The history is read by git, which has to be installed.";
    Failure::new(format!("git cannot be started: {error}"), help)
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::new(format!("git: {error}"), "")
}

pub(super) fn not_understood() -> Failure {
    Failure::new(
        "git said what is not understood",
        "git 2.16 or later is needed.",
    )
}
