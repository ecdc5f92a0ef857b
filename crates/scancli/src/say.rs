//! What a finding says: as a line for people, explained at length, and as JSON. Never what matched.

use std::fmt::Write as _;
use std::io::Write;

use scan::{Action, Bound, Direction, Finding, Severity, Sighting};
use serde::Serialize;
use terminal::{Failure, has_colour, unwritable_output, visible};

use super::position::Position;

/// A finding, and where it begins in the file.
pub(super) struct Found {
    pub finding: Finding,
    pub at: Position,
    pub direction: Direction,
    /// Other rules that found the same secret at the same place.
    pub also: Vec<&'static str>,
}

/// What was found in one text.
#[derive(Default)]
pub(super) struct Judged {
    pub findings: Vec<Found>,
    /// How many more there were than are kept.
    pub more: usize,
    pub bound: Option<Bound>,
    pub block: bool,
}

impl Judged {
    pub(super) fn verdict(&self) -> &'static str {
        verdict(self.block)
    }

    /// Leaves each secret once, told by the rule that says most of it.
    pub(super) fn once(mut self) -> Judged {
        let findings = self.findings.iter().map(|found| &found.finding);
        let told = told_once(findings);
        let mut all: Vec<Option<Found>> = self.findings.into_iter().map(Some).collect();
        let told = told.into_iter().filter_map(|(number, also)| {
            let found = all[number].take()?;
            Some(Found { also, ..found })
        });
        self.findings = told.collect();
        self
    }
}

/// The numbers of the findings that tell of each secret once, and the other rules that found it.
pub(super) fn told_once<'f>(
    findings: impl Iterator<Item = &'f Finding>,
) -> Vec<(usize, Vec<&'static str>)> {
    let seen: Vec<Sighting<'_>> = findings.map(Sighting::from).collect();
    let distinct = scan::distinct(&seen).into_iter();
    let told = distinct.map(|one| {
        let rule = seen[one.told].rule.id;
        let mut also: Vec<&str> = one.also.iter().map(|other| seen[*other].rule.id).collect();
        also.sort_unstable();
        also.dedup();
        also.retain(|other| *other != rule);
        (one.told, also)
    });
    told.collect()
}

pub(super) fn verdict(block: bool) -> &'static str {
    if block { "block" } else { "allow" }
}

/// A finding as JSON.
#[derive(Serialize)]
pub(super) struct AsJson<'f> {
    rule: &'f str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also: Vec<&'static str>,
    class: &'static str,
    severity: &'static str,
    action: &'static str,
    path: &'f str,
    span: [usize; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    disguise: &'static str,
    fingerprint: String,
    remedy: &'f str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mention: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exempt: Option<&'f str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'f str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<&'f str>,
}

impl AsJson<'_> {
    pub(super) fn of<'a>(finding: &'a Finding, also: Vec<&'static str>) -> AsJson<'a> {
        AsJson {
            rule: finding.rule.id,
            also,
            class: finding.rule.class.as_str(),
            severity: finding.rule.severity.as_str(),
            action: finding.action.as_str(),
            path: &finding.path,
            span: [finding.span.start, finding.span.end],
            line: None,
            column: None,
            disguise: finding.disguise,
            fingerprint: format!("{:016x}", finding.fingerprint),
            remedy: finding.rule.remedy,
            mention: finding.mention.then_some(true),
            exempt: finding.exempt.as_deref(),
            summary: None,
            why: None,
            reference: None,
        }
    }
}

impl Found {
    pub(super) fn as_json(&self, explain: bool) -> AsJson<'_> {
        let rule = self.finding.rule;
        AsJson {
            line: Some(self.at.line),
            column: Some(self.at.column),
            summary: explain.then_some(rule.summary),
            why: explain.then(|| self.why()),
            reference: explain.then_some(rule.reference),
            ..AsJson::of(&self.finding, self.also.clone())
        }
    }

    /// `file:line:column: rule severity action`, and the disguise that was undone.
    pub(super) fn line(&self, name: &str, paint: Paint) -> String {
        let Found { finding, at, .. } = self;
        let rule = finding.rule;
        let colour = match rule.severity {
            Severity::Critical | Severity::High => Colour::Red,
            Severity::Medium => Colour::Yellow,
            Severity::Low => Colour::Plain,
        };
        let mut line = format!(
            "{}:{}:{}: {} {} {}",
            visible(name),
            at.line,
            at.column,
            paint.with(Colour::Bold, rule.id),
            paint.with(colour, rule.severity.as_str()),
            finding.action.as_str()
        );
        if !finding.path.is_empty() {
            let _ = write!(line, " at {}", visible(&finding.path));
        }
        if !finding.disguise.is_empty() {
            let _ = write!(line, " ({})", finding.disguise);
        }
        line.push('\n');
        line
    }

    /// What is known about a finding, a fact a line.
    pub(super) fn explanation(&self) -> String {
        let Found { finding, .. } = self;
        let rule = finding.rule;
        let undone = match finding.disguise {
            "" => "nothing had to be undone to see it".to_owned(),
            disguise => format!("{disguise} was undone to see it"),
        };
        let (start, end) = (finding.span.start, finding.span.end);
        let also = match self.also.is_empty() {
            true => String::new(),
            false => format!("found by {} too", self.also.join(", ")),
        };
        let mut text = String::new();
        for (head, what) in [
            ("what", rule.summary),
            ("seen", &undone),
            ("also", &also),
            (
                "where",
                &format!("bytes {start} to {end}, {}", self.direction.as_str()),
            ),
            ("why", &self.why()),
            ("remedy", rule.remedy),
            ("see", rule.reference),
        ] {
            if !what.is_empty() {
                let _ = writeln!(text, "    {head:<7} {}", visible(what));
            }
        }
        text
    }

    /// Why this is done about it, this way.
    fn why(&self) -> String {
        let Found {
            finding, direction, ..
        } = self;
        let (rule, action, way) = (finding.rule, finding.action, direction.as_str());
        let class = rule.class.as_str();
        let default = rule.default_action(*direction);
        if let Some(reason) = &finding.exempt {
            return format!("{}: it is exempt: {reason}", action.as_str());
        }
        let because = if finding.mention {
            "it is quoted in a text about such things, so it is at most warned of".to_owned()
        } else if action != default && action == Action::Warn && class == "url" {
            "a person's own tools may be asked for this, so it is only said".to_owned()
        } else if action != default {
            format!(
                "the configuration says so; by default it is {}",
                default.as_str()
            )
        } else if default < rule.class.default_action(*direction) {
            format!("this rule asks for no more, {way}")
        } else {
            format!("so it is done by default about the class {class}, {way}")
        };
        format!("{}: {because}", action.as_str())
    }
}

/// How a word looks on a terminal.
#[derive(Clone, Copy)]
pub(super) enum Colour {
    Plain,
    Bold,
    Red,
    Yellow,
}

/// Whether there are colours.
#[derive(Clone, Copy)]
pub(super) struct Paint(pub bool);

impl Paint {
    pub(super) fn with(self, colour: Colour, text: &str) -> String {
        let code = match colour {
            Colour::Bold => "1",
            Colour::Red => "31",
            Colour::Yellow => "33",
            Colour::Plain => "",
        };
        match self.0 && !code.is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

/// Standard output, which may be closed by its reader: then nothing more is written, and it is no failure.
pub(super) struct Output {
    to: std::io::BufWriter<std::io::StdoutLock<'static>>,
    closed: bool,
    pub paint: Paint,
}

impl Output {
    pub(super) fn new() -> Output {
        let to = std::io::stdout().lock();
        let paint = Paint(has_colour(&to));
        Output {
            to: std::io::BufWriter::with_capacity(64 << 10, to),
            closed: false,
            paint,
        }
    }

    /// Whether the reader went away.
    pub(super) fn closed(&self) -> bool {
        self.closed
    }

    pub(super) fn text(&mut self, text: &str) -> Result<(), Failure> {
        if self.closed {
            return Ok(());
        }
        let written = self.to.write_all(text.as_bytes());
        self.keep(written)
    }

    /// Writes a line of JSON.
    pub(super) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        if self.closed {
            return Ok(());
        }
        let written = serde_json::to_writer(&mut self.to, value).map_err(std::io::Error::from);
        self.keep(written)?;
        self.text("\n")
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        let flushed = self.to.flush();
        self.keep(flushed)
    }

    fn keep(&mut self, result: std::io::Result<()>) -> Result<(), Failure> {
        match result {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(unwritable_output(&error))
            }
            Err(_) => {
                self.closed = true;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// `1 file`, `2 files`.
pub(super) fn count(number: usize, one: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {one}{s}")
}
