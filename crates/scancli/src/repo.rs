//! `weir scan repo`: looks for secrets in the files of a folder, as they would be published.
//!
//! What git ignores is not read, unless it is asked for; links are not followed. What is not read for its
//! size is said, never passed over in silence. With `--history` the versions that git keeps are read in place of
//! the files, with `--staged` those that the next commit will hold. Findings that are known, by a baseline or by a comment
//! in the file, are counted and not listed.

mod allow;
mod baseline;
mod staged;
mod tally;

use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use scan::{Class, Direction, Engine, SubjectKind};
use terminal::{Answer, Ended, Failure, complain, remark, visible};

use self::allow::Allows;
use self::baseline::Baseline;
use self::staged::{StagedFile, staged};
use self::tally::{RuleTally, show};
use super::files::{FileAsJson, FileVersion, Sum, text};
use super::history::{History, Next, ReadBlob, Version};
use super::sarif::Sarif;
use super::say::{Judged, Output, count};
use super::with::{With, place};
use super::{ReadSettings, key};

/// Bytes of the largest file that is read.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Bytes at the start of a file in which a zero byte says that it is no text.
const BINARY_BYTES: usize = 8 << 10;
/// Folders of what was built or fetched, which are passed over where git does not say what to ignore.
const BUILT: [&str; 2] = ["node_modules", "target"];
/// Files between two words about how far it is.
const STEP: usize = 64;

/// Look for secrets in the files of a folder
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir scan repo .
  weir scan repo . --sarif found.sarif
  weir scan repo src --json | jq -r .file
  weir scan repo . --history --sarif found.sarif
  weir scan repo . --staged                                  What the next commit will hold
  weir scan repo . --baseline known.json --write-baseline    Take all that is found for known
  weir scan repo . --baseline known.json                     Tell what is new

In a git repository the files that .gitignore names are not read, nor is anything else of git; elsewhere
the folders node_modules and target are not. Files over 4 MiB and binary files are not read. Only the
classes secret and personal are looked for.

With --history, every version of every file in any branch or tag is read once, in place of the
files of the folder. A finding names the first commit that has it. git has to be installed.

A comment weir:allow, or weir:allow RULE, allows what is found on its line, or on the next one
where it has a line of its own.

Exit codes: 0 nothing found that would be redacted, 1 something was, 2 not everything could be read.")]
pub(super) struct Repo {
    /// The folder
    dir: PathBuf,
    /// Write what was found as SARIF 2.1.0; - is standard output
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Print a JSON object for each file in which something was found
    #[arg(long)]
    json: bool,
    /// Say of each finding what it is, why this is done about it, and what to do
    #[arg(long)]
    explain: bool,
    /// Read what git ignores, and the folders node_modules and target, too
    #[arg(long)]
    no_ignore: bool,
    /// Read the whole history of the git repository, and not the files of the folder
    #[arg(long, conflicts_with = "no_ignore")]
    history: bool,
    /// Read what git has staged, and not the files of the folder
    #[arg(long, conflicts_with_all = ["no_ignore", "history"])]
    staged: bool,
    /// Leave out the findings that this file has
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write all that is found to the file of --baseline, as known
    #[arg(long, requires = "baseline")]
    write_baseline: bool,
    #[command(flatten)]
    with: With,
}

/// What the walk came to.
struct Walk<'r> {
    repo: &'r Repo,
    engine: Engine,
    output: Output,
    sarif: Option<Sarif>,
    sum: Sum,
    tally: RuleTally,
    baseline: Option<Baseline>,
    /// Findings that a comment allows.
    allowed: usize,
    binary: usize,
    large: usize,
    failed: usize,
    /// Whether somebody is looking at how far it is.
    watched: bool,
}

impl Repo {
    pub(super) fn run(self, read: ReadSettings) -> Ended {
        let dir = self.dir.metadata();
        let dir = dir.map_err(|error| super::with::unreadable(&self.dir, &error))?;
        let mut settings = self.with.settings(read)?;
        for class in Class::ALL {
            if !matches!(class, Class::Secret | Class::Personal) {
                let off = settings.set(class.as_str(), None, scan::Action::Off);
                off.expect("it is a class");
            }
        }
        let baseline = self.baseline.as_deref();
        let baseline = baseline.map(|path| Baseline::read(path, self.write_baseline));
        let baseline = baseline.transpose()?;
        let key = baseline
            .as_ref()
            .map_or_else(key, |known| Ok(known.key()))?;
        let mut walk = Walk {
            repo: &self,
            engine: Engine::new(settings, key),
            output: Output::new(),
            sarif: self.sarif.is_some().then(Sarif::default),
            sum: Sum::default(),
            tally: RuleTally::default(),
            baseline,
            allowed: 0,
            binary: 0,
            large: 0,
            failed: 0,
            watched: std::io::stderr().is_terminal(),
        };
        match dir.is_dir() {
            _ if self.history => walk.history()?,
            _ if self.staged => walk.staged()?,
            true => walk.all()?,
            false => walk.file(&self.dir)?,
        }
        walk.end()
    }

    /// The files of the folder, in the order of their names.
    fn files(&self) -> ignore::Walk {
        let git = !self.no_ignore;
        let in_git = self.dir.ancestors().any(|dir| dir.join(".git").exists())
            || self
                .dir
                .canonicalize()
                .is_ok_and(|dir| dir.ancestors().any(|dir| dir.join(".git").exists()));
        let built = git && !in_git;
        ignore::WalkBuilder::new(&self.dir)
            .standard_filters(false)
            .git_ignore(git)
            .parents(git)
            .follow_links(false)
            .sort_by_file_name(|a, b| a.cmp(b))
            .filter_entry(move |entry| {
                let name = entry.file_name();
                let folder = entry.file_type().is_some_and(|kind| kind.is_dir());
                let passed =
                    name == ".git" || (built && folder && BUILT.iter().any(|b| name == *b));
                !passed || entry.depth() == 0
            })
            .build()
    }
}

impl Walk<'_> {
    fn all(&mut self) -> Result<(), Failure> {
        for entry in self.repo.files() {
            match entry {
                Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) => {
                    self.file(entry.path())?;
                }
                Ok(_) => {}
                Err(error) => self.wrong(&error.to_string()),
            }
        }
        Ok(())
    }

    /// Every version of every file.
    fn history(&mut self) -> Result<(), Failure> {
        let mut history = History::open(&self.repo.dir)?;
        if history.shallow {
            let note = "the clone is shallow: commits that it leaves out are not read";
            self.say(&format!("note: {note}"));
            if let Some(sarif) = &mut self.sarif {
                sarif.trouble("warning", note);
            }
        }
        loop {
            let version = match history.next()? {
                Next::Version(version) => version,
                Next::Missing(what) => {
                    self.wrong(&visible(&what));
                    continue;
                }
                Next::End => return Ok(()),
            };
            let file = match version.bytes > FILE_BYTES_MAX {
                true => File::Large(version.bytes),
                false => File::of(history.contents(&version)?),
            };
            let source = Source {
                root: Path::new(""),
                path: &version.path,
                version: Some(&version),
            };
            self.read(&source, file)?;
        }
    }

    /// Every file that is staged, as it is staged.
    fn staged(&mut self) -> Result<(), Failure> {
        let (files, mut blobs) = staged(&self.repo.dir)?;
        for StagedFile { path, blob } in files {
            let source = Source {
                root: Path::new(""),
                path: &path,
                version: None,
            };
            let Some(blob) = blob else {
                self.wrong(&format!("{}: it is in conflict", visible(&source.name())));
                continue;
            };
            let file = match blobs.read(&blob, FILE_BYTES_MAX)? {
                ReadBlob::Read(bytes) => File::of(bytes),
                ReadBlob::Large(bytes) => File::Large(bytes),
            };
            self.read(&source, file)?;
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<(), Failure> {
        let source = Source {
            root: &self.repo.dir,
            path,
            version: None,
        };
        match read(path) {
            Ok(file) => self.read(&source, file),
            Err(error) => {
                self.wrong(&format!("{}: {error}", visible(&source.name())));
                Ok(())
            }
        }
    }

    fn read(&mut self, source: &Source<'_>, file: File) -> Result<(), Failure> {
        match file {
            File::Text(bytes) => {
                let judged = self.judge(source, &bytes);
                self.found(source, &bytes, &judged)
            }
            File::Binary => {
                self.binary += 1;
                Ok(())
            }
            File::Large(bytes) => {
                self.large += 1;
                let note = format!("not read: {bytes} bytes are more than {FILE_BYTES_MAX}");
                self.say(&format!("note: {}: {note}", visible(&source.name())));
                if let Some(sarif) = &mut self.sarif {
                    sarif.note(source, &note);
                }
                Ok(())
            }
        }
    }

    fn judge(&mut self, source: &Source<'_>, bytes: &[u8]) -> Judged {
        let json = source.path.extension();
        let json = json.is_some_and(|extension| extension == "json");
        let mut judged = text(&self.engine, place(Direction::Incoming), bytes, json);
        // A rule that the configuration names is looked for, whatever its class.
        let asked = |class| matches!(class, Class::Secret | Class::Personal);
        judged
            .findings
            .retain(|found| asked(found.finding.rule.class));
        self.forgive(source, bytes, &mut judged);
        let blocks = |found: &super::say::Found| found.finding.action >= scan::Action::Redact;
        judged.block = judged.bound.is_some() || judged.findings.iter().any(blocks);
        judged
    }

    /// Takes away what a comment of the file allows, and what the baseline knows.
    fn forgive(&mut self, source: &Source<'_>, bytes: &[u8], judged: &mut Judged) {
        if judged.findings.is_empty() {
            return;
        }
        let own = &self.engine;
        let allows = Allows::of(bytes, |id| own.knows(id));
        for (line, what) in &allows.wrong {
            self.say(&format!("note: {}:{line}: {what}", visible(&source.name())));
        }
        let before = judged.findings.len();
        judged.findings.retain(|found| !allows.allow(found));
        self.allowed += before - judged.findings.len();
        if let Some(baseline) = &mut self.baseline {
            baseline.filter(&source.inside(), judged);
        }
    }

    fn found(&mut self, source: &Source<'_>, bytes: &[u8], judged: &Judged) -> Result<(), Failure> {
        self.sum.add(judged);
        self.tally.add(judged);
        if self.watched && self.sum.texts().is_multiple_of(STEP) {
            let files = count(self.sum.texts(), "file");
            let mut stderr = std::io::stderr().lock();
            let _ = write!(stderr, "\r{files}").and_then(|()| stderr.flush());
        }
        if judged.findings.is_empty() && judged.bound.is_none() {
            return Ok(());
        }
        if let Some(sarif) = &mut self.sarif {
            sarif.add(source, bytes, judged);
        }
        let explain = self.repo.explain;
        match (self.repo.json, self.repo.sarif.as_deref()) {
            (_, Some(to)) if to == Path::new("-") => Ok(()),
            (true, _) => {
                let path = source.path.display().to_string();
                let mut file = FileAsJson::of(&path, SubjectKind::Response, judged, explain);
                file.version = source.version.map(|version| FileVersion {
                    commit: &version.commit,
                    blob: &version.blob,
                });
                self.output.json(&file)
            }
            (false, _) => show(&mut self.output, &source.name(), judged, explain),
        }
    }

    fn end(mut self) -> Ended {
        if let (Some(sarif), Some(to)) = (&self.sarif, &self.repo.sarif) {
            let text = format!("{:#}\n", sarif.document(self.failed == 0));
            match to.as_os_str() == "-" {
                true => self.output.text(&text)?,
                false => std::fs::write(to, text).map_err(|error| {
                    let what = format!("{} cannot be written: {error}", to.display());
                    Failure::new(what, "")
                })?,
            }
        }
        self.output.flush()?;
        if self.repo.write_baseline {
            return self.write_baseline();
        }
        let found = self.tally.words();
        if !found.is_empty() {
            self.say(found.trim_end());
        }
        let not_read = match (self.binary, self.large) {
            (0, 0) => String::new(),
            (binary, large) => format!("; not read: binary {binary}, too large {large}"),
        };
        let known = self.known();
        self.say(&format!("{}{known}{not_read}", self.sum.words("file")));
        match (self.failed, self.sum.block) {
            (0, 0) => Ok(Answer::Yes),
            (0, _) => Ok(Answer::No),
            (failed, _) => Err(Failure::new(format!("could not be read: {failed}"), "")),
        }
    }

    /// What is known of the findings that are not listed.
    fn known(&self) -> String {
        let mut words = String::new();
        if self.allowed > 0 {
            words += &format!("; allowed by comments: {}", self.allowed);
        }
        if let Some(baseline) = &self.baseline {
            words += &format!("; known by the baseline: {}", baseline.passed);
            // Of what is staged alone, most known findings are not met.
            if !self.repo.staged && baseline.gone() > 0 {
                words += &format!(", of it no longer found: {}", baseline.gone());
            }
        }
        words
    }

    fn write_baseline(self) -> Ended {
        let (Some(baseline), Some(path)) = (&self.baseline, &self.repo.baseline) else {
            return Err(Failure::new("--write-baseline needs --baseline", ""));
        };
        if self.failed > 0 {
            let what = format!(
                "could not be read: {}; no baseline was written",
                self.failed
            );
            return Err(Failure::new(what, ""));
        }
        let known = baseline.write(path)?;
        let path = path.display();
        self.say(&format!("wrote {path}: {} known", count(known, "finding")));
        Ok(Answer::Yes)
    }

    fn say(&self, text: &str) {
        let clear = if self.watched { "\r\x1b[K" } else { "" };
        remark(&format!("{clear}{text}"));
    }

    fn wrong(&mut self, what: &str) {
        self.failed += 1;
        complain(what, "");
        if let Some(sarif) = &mut self.sarif {
            sarif.trouble("error", what);
        }
    }
}

/// Where a text is from.
pub(super) struct Source<'s> {
    /// The folder that the path is told from.
    pub root: &'s Path,
    pub path: &'s Path,
    /// Which version it is, in a history.
    pub version: Option<&'s Version>,
}

/// Digits of a commit that are shown to people, as git does.
const COMMIT_DIGITS: usize = 12;

impl Source<'_> {
    /// Its path in the folder, with `/`, whatever the folder is called here.
    fn inside(&self) -> String {
        let inside = self.path.strip_prefix(self.root).unwrap_or(self.path);
        match inside.as_os_str().is_empty() {
            true => self.path.file_name().map(Path::new).unwrap_or(self.path),
            false => inside,
        }
        .display()
        .to_string()
    }

    /// What it is called; with the start of the commit, as git takes it: `COMMIT:PATH`.
    fn name(&self) -> String {
        let path = self.path.display();
        match self.version {
            Some(version) if !version.commit.is_empty() => {
                let commit = version
                    .commit
                    .get(..COMMIT_DIGITS)
                    .unwrap_or(&version.commit);
                format!("{commit}:{path}")
            }
            _ => path.to_string(),
        }
    }
}

enum File {
    Text(Vec<u8>),
    Binary,
    Large(u64),
}

impl File {
    fn of(bytes: Vec<u8>) -> File {
        match &bytes[..bytes.len().min(BINARY_BYTES)] {
            _ if bytes.len() as u64 > FILE_BYTES_MAX => File::Large(bytes.len() as u64),
            start if start.contains(&0) => File::Binary,
            _ => File::Text(bytes),
        }
    }
}

fn read(path: &Path) -> std::io::Result<File> {
    let file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    if length > FILE_BYTES_MAX {
        return Ok(File::Large(length));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(File::of(bytes))
}
