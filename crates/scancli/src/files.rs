//! `weir scan FILE…`: judges files, or standard input, as one kind of thing.
//!
//! A text is read whole up to a bound, and flows through a stream beyond it, so that memory has a bound too.

use std::io::{ErrorKind, IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use scan::{Action, Direction, Engine, Finding, Place, Scope, Settings, Stream};
use scan::{Subject, SubjectKind};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use terminal::{Answer, Ended, Failure, complain, remark, visible};

use super::position::{Position, Trail};
use super::say::{AsJson, Found, Judged, Output, count};
use super::with::{With, place};
use super::{ReadSettings, key, lines};

/// Bytes of a text that are read whole; a longer one flows.
pub(super) const WHOLE_BYTES_MAX: usize = 16 << 20;
/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;
/// Findings of one text that are kept; more are counted.
const FINDINGS_KEPT_MAX: usize = 4096;

/// What is said where a person is to type what is judged.
const WAITS: &str = "waiting for standard input: type or paste a text, and end it with Ctrl-D on a line of its own \
                     (or name files: weir scan notes.md)";

/// What is to be judged.
#[derive(Args, Debug)]
pub(super) struct Files {
    /// What each file is; of text and response, a file *.json is read as JSON
    #[arg(long, default_value = "text", value_name = "KIND")]
    #[arg(value_parser = PossibleValuesParser::new(SubjectKind::ALL.map(SubjectKind::as_str)))]
    kind: String,
    /// Print a JSON object for each file
    #[arg(long)]
    json: bool,
    /// Say of each finding what it is, why this is done about it, and what to do
    #[arg(long)]
    explain: bool,
    /// Judge each line of the files as a JSON object, and answer with one
    #[arg(long, conflicts_with_all = ["kind", "json", "explain"])]
    jsonl: bool,
    /// Let lines with the same `session` know of each other
    #[arg(long, requires = "jsonl")]
    session: bool,
    #[command(flatten)]
    with: With,
    /// Files to judge; - is standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// An input, and what it is called.
pub(super) struct Input {
    pub name: String,
    pub from: Box<dyn Read>,
}

impl Input {
    pub(super) fn open(path: &Path) -> std::io::Result<Input> {
        if path == Path::new("-") {
            let from: Box<dyn Read> = Box::new(std::io::stdin().lock());
            let name = "-".to_owned();
            return Ok(Input { name, from });
        }
        let file = std::fs::File::open(path)?;
        if file.metadata()?.is_dir() {
            let what = "it is a folder; see weir scan repo";
            return Err(std::io::Error::new(std::io::ErrorKind::IsADirectory, what));
        }
        Ok(Input {
            name: path.display().to_string(),
            from: Box::new(file),
        })
    }
}

impl Files {
    pub(super) fn run(mut self, read: ReadSettings) -> Ended {
        if self.files.is_empty() {
            self.files.push("-".into());
        }
        let typed = self.files.iter().any(|file| file == Path::new("-"));
        if typed && std::io::stdin().is_terminal() {
            remark(WAITS);
        }
        if self.jsonl {
            return lines::run(&self.files, self.with.engine(read, key()?)?, self.session);
        }
        let kind = SubjectKind::ALL
            .into_iter()
            .find(|k| k.as_str() == self.kind);
        let settings = self.with.settings(read)?;
        let judge = Judge {
            kind: kind.expect("clap lets no other word pass"),
            engine: Engine::new(settings.clone(), key()?),
            settings,
        };
        self.judge_all(&judge)
    }

    fn judge_all(&self, judge: &Judge) -> Ended {
        let mut output = Output::new();
        let mut sum = Sum::default();
        let mut failed = 0;
        for path in &self.files {
            let judged = Input::open(path)
                .map_err(|error| (format!("cannot be read: {error}"), mend(&error)))
                .and_then(|mut input| match judge.input(&mut input) {
                    Ok(judged) => Ok((judged, input.name)),
                    Err(error) => Err((error, "")),
                });
            match judged {
                Ok((judged, name)) => {
                    sum.add(&judged);
                    match self.json {
                        true => output.json(&FileAsJson::of(
                            &name,
                            judge.kind,
                            &judged,
                            self.explain,
                        ))?,
                        false => show(&mut output, &name, &judged, self.explain)?,
                    }
                    // What flows by is said when it is known.
                    output.flush()?;
                }
                Err((error, mend)) => {
                    failed += 1;
                    let name = path.display().to_string();
                    complain(&format!("{}: {error}", visible(&name)), mend);
                    if self.json {
                        output.json(&serde_json::json!({ "file": name, "error": error }))?;
                    }
                }
            }
        }
        output.flush()?;
        if !self.json && sum.texts > 0 {
            remark(&sum.words("file"));
        }
        match (failed, sum.block) {
            (0, 0) => Ok(Answer::Yes),
            (0, _) => Ok(Answer::No),
            _ => Err(Failure::new(
                format!("not judged: {}", count(failed, "file")),
                "",
            )),
        }
    }
}

/// How many texts there were, and what was found in them.
#[derive(Default)]
pub(super) struct Sum {
    texts: usize,
    found: usize,
    bounds: usize,
    pub block: usize,
}

impl Sum {
    pub(super) fn add(&mut self, judged: &Judged) {
        self.texts += 1;
        self.found += judged.findings.len() + judged.more;
        self.bounds += usize::from(judged.bound.is_some());
        self.block += usize::from(judged.block);
    }

    pub(super) fn texts(&self) -> usize {
        self.texts
    }

    pub(super) fn words(&self, one: &str) -> String {
        let texts = count(self.texts, one);
        let bounds = match self.bounds {
            0 => String::new(),
            bounds => format!("; not wholly scanned: {bounds}"),
        };
        match (self.found, self.block) {
            (0, 0) => format!("nothing found in {texts}"),
            (found, 0) => format!("{} in {texts}, none to block", count(found, "finding")),
            (found, block) => {
                let found = count(found, "finding");
                let block = count(block, one);
                format!("{found} in {texts}, to block: {block}{bounds}")
            }
        }
    }
}

/// What to do about a file that does not open.
fn mend(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => "name a file that is there, or - for standard input",
        ErrorKind::PermissionDenied => {
            "scan it as a user who may read it, or send it to: weir scan -"
        }
        _ => "",
    }
}

/// Prints what was found in one file.
pub(super) fn show(
    output: &mut Output,
    name: &str,
    judged: &Judged,
    explain: bool,
) -> Result<(), Failure> {
    for found in &judged.findings {
        let line = found.line(name, output.paint);
        output.text(&line)?;
        if explain {
            output.text(&found.explanation())?;
        }
    }
    if judged.more > 0 {
        let more = count(judged.more, "more finding");
        output.text(&format!("{}: {more}\n", visible(name)))?;
    }
    if let Some(bound) = judged.bound {
        output.text(&format!("{}: not wholly scanned: {bound}\n", visible(name)))?;
    }
    Ok(())
}

/// A file and what was found in it, as JSON.
#[derive(Serialize)]
pub(super) struct FileAsJson<'j> {
    file: &'j str,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub version: Option<FileVersion<'j>>,
    kind: &'static str,
    verdict: &'static str,
    findings: Vec<AsJson<'j>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<&'static str>,
}

/// Which version of a file it is, in a history.
#[derive(Serialize)]
pub(super) struct FileVersion<'j> {
    pub commit: &'j str,
    pub blob: &'j str,
}

impl<'j> FileAsJson<'j> {
    pub(super) fn of(file: &'j str, kind: SubjectKind, judged: &'j Judged, explain: bool) -> Self {
        FileAsJson {
            file,
            version: None,
            kind: kind.as_str(),
            verdict: judged.verdict(),
            findings: judged.findings.iter().map(|f| f.as_json(explain)).collect(),
            more: Some(judged.more).filter(|more| *more > 0),
            bound: judged.bound.map(|bound| bound.0),
        }
    }
}

/// Judges inputs as one kind of thing.
struct Judge {
    kind: SubjectKind,
    engine: Engine,
    settings: Settings,
}

impl Judge {
    fn input(&self, input: &mut Input) -> Result<Judged, String> {
        let failed = |error: std::io::Error| format!("cannot be read: {error}");
        let mut start = Vec::new();
        let whole = WHOLE_BYTES_MAX as u64 + 1;
        input
            .from
            .by_ref()
            .take(whole)
            .read_to_end(&mut start)
            .map_err(failed)?;
        let flows = start.len() > WHOLE_BYTES_MAX;
        let direction = match self.kind {
            SubjectKind::Response => Direction::Incoming,
            _ => Direction::Outgoing,
        };
        match self.kind {
            SubjectKind::Text | SubjectKind::Response if flows => self
                .flow(place(direction), &start, &mut input.from)
                .map_err(failed),
            _ if flows => Err(format!(
                "has more than {WHOLE_BYTES_MAX} bytes, and a {} is read whole",
                self.kind.as_str()
            )),
            SubjectKind::Text | SubjectKind::Response => {
                let json = input.name.ends_with(".json");
                Ok(text(&self.engine, place(direction), &start, json))
            }
            SubjectKind::Url => self.urls(&start),
            SubjectKind::Tool | SubjectKind::Call | SubjectKind::Message => self.json(&start),
        }
    }

    /// URLs, one a line.
    fn urls(&self, bytes: &[u8]) -> Result<Judged, String> {
        let all = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8")?;
        let place = place(Direction::Outgoing);
        let mut judged = Judged::default();
        let mut before = 0;
        for (line, text) in (1..).zip(all.split('\n')) {
            let url = text.strip_suffix('\r').unwrap_or(text);
            if !url.is_empty() {
                let at = |finding: &Finding| Position {
                    line,
                    ..Position::START
                        .after(url.as_bytes().get(..finding.span.start).unwrap_or_default())
                };
                match self.engine.url(place, url, None) {
                    Ok(report) => {
                        judged.block |= report.action >= Action::Redact;
                        for mut finding in report.findings {
                            let at = at(&finding);
                            finding.span = before + finding.span.start..before + finding.span.end;
                            keep(&mut judged, finding, at, Direction::Outgoing);
                        }
                    }
                    Err(bound) => (judged.block, judged.bound) = (true, Some(bound)),
                }
            }
            before += text.len() + 1;
        }
        Ok(judged.once())
    }

    /// A tool, a call, a message. Spans come to count in the file.
    fn json(&self, bytes: &[u8]) -> Result<Judged, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8")?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let subject = Subject::of(self.kind, text)?;
        let direction = subject.direction();
        let verdict = subject.judge(&self.engine, place(direction), None);
        let mut judged = Judged {
            block: verdict.block,
            bound: verdict.bound,
            ..Judged::default()
        };
        let parts = Parts::of(self.kind, text, bytes.len() - text.len());
        for mut finding in verdict.findings {
            let from = match finding.path.starts_with("arguments") {
                true => parts.arguments,
                false => parts.first,
            };
            finding.span = from + finding.span.start..from + finding.span.end;
            let at = position(bytes, finding.span.start);
            keep(&mut judged, finding, at, direction);
        }
        Ok(judged.once())
    }

    /// A text that is too long to be held.
    fn flow(&self, place: Place<'_>, start: &[u8], from: &mut dyn Read) -> std::io::Result<Judged> {
        let mut flow = Flow {
            engine: Engine::new(going_on(&self.settings, place.direction), [0; 32]),
            settings: &self.settings,
            place,
            stream: Stream::default(),
            trail: Trail::new(),
            judged: Judged::default(),
            out: Vec::new(),
        };
        for piece in start.chunks(PIECE_BYTES) {
            flow.piece(piece);
        }
        let mut piece = vec![0; PIECE_BYTES];
        while flow.judged.bound.is_none() {
            match from.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => flow.piece(&piece[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(flow.end())
    }
}

/// Judges a text, or JSON.
pub(super) fn text(engine: &Engine, place: Place<'_>, bytes: &[u8], json: bool) -> Judged {
    let json = json && serde_json::from_slice::<&RawValue>(bytes).is_ok();
    let report = match json {
        true => engine.json(place, bytes, ""),
        false => engine.bytes(place, bytes, ""),
    };
    let mut judged = Judged::default();
    match report {
        Ok(report) => {
            judged.block = report.action >= Action::Redact;
            for finding in report.findings {
                let at = position(bytes, finding.span.start);
                keep(&mut judged, finding, at, place.direction);
            }
        }
        Err(bound) => (judged.block, judged.bound) = (true, Some(bound)),
    }
    judged.once()
}

fn position(text: &[u8], offset: usize) -> Position {
    Position::START.after(&text[..offset.min(text.len())])
}

fn keep(judged: &mut Judged, finding: Finding, at: Position, direction: Direction) {
    match judged.findings.len() < FINDINGS_KEPT_MAX {
        true => judged.findings.push(Found {
            finding,
            at,
            direction,
            also: Vec::new(),
        }),
        false => judged.more += 1,
    }
}

/// Where the parts of a JSON text begin in it that its findings count from.
struct Parts {
    /// The whole, or the tool's name of a call.
    first: usize,
    arguments: usize,
}

#[derive(Deserialize)]
struct Call<'t> {
    #[serde(borrow, alias = "name")]
    tool: Option<&'t RawValue>,
    #[serde(borrow, alias = "arguments")]
    args: Option<&'t RawValue>,
}

impl Parts {
    fn of(kind: SubjectKind, text: &str, before: usize) -> Parts {
        let offset = |part: &str| before + (part.as_ptr() as usize - text.as_ptr() as usize);
        let whole = offset(text.trim_start());
        match serde_json::from_str::<Call<'_>>(text) {
            Ok(call) if kind == SubjectKind::Call => Parts {
                first: call.tool.map_or(whole, |tool| offset(tool.get())),
                arguments: call.args.map_or(whole, |args| offset(args.get())),
            },
            _ => Parts {
                first: whole,
                arguments: whole,
            },
        }
    }
}

/// The settings under which a stream goes on behind what is refused: all that is refused is replaced.
fn going_on(settings: &Settings, direction: Direction) -> Settings {
    let mut softer = settings.clone();
    let own = settings.rules.iter().copied();
    for rule in scan::rules().iter().chain(own) {
        if settings.action(rule, direction) == Action::Refuse {
            let scope = Scope {
                direction: Some(direction),
                ..Scope::default()
            };
            let set = softer.set_in(rule.id, scope, Action::Redact);
            set.expect("the rule is one of those that are known");
        }
    }
    softer
}

/// A text that flows by, and what was found in it so far.
struct Flow<'s> {
    engine: Engine,
    /// What is really to be done.
    settings: &'s Settings,
    place: Place<'s>,
    stream: Stream,
    trail: Trail,
    judged: Judged,
    /// What may go on; here it goes nowhere.
    out: Vec<u8>,
}

impl Flow<'_> {
    fn piece(&mut self, piece: &[u8]) {
        self.trail.push(piece);
        let found = self
            .stream
            .push(&self.engine, self.place, piece, &mut self.out);
        self.add(found);
    }

    fn end(mut self) -> Judged {
        if self.judged.bound.is_none() {
            let found = self.stream.finish(&self.engine, self.place, &mut self.out);
            self.add(found);
        }
        self.judged.once()
    }

    fn add(&mut self, found: Result<Vec<Finding>, scan::Bound>) {
        self.out.clear();
        match found {
            Ok(findings) => {
                for mut finding in findings {
                    if finding.action == Action::Redact {
                        finding.action = self.settings.action(finding.rule, self.place);
                        self.judged.block = true;
                    }
                    let at = self.trail.at(finding.span.start);
                    keep(&mut self.judged, finding, at, self.place.direction);
                }
            }
            Err(bound) => (self.judged.block, self.judged.bound) = (true, Some(bound)),
        }
    }
}
