//! `weir scan --jsonl`: one JSON in, one JSON out, in order, for as long as there are lines.
//!
//! A line that cannot be read is answered as an error and ends nothing. Answers wait for each other only
//! while more lines are ready, so that a program can ask and wait.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

use scan::{Direction, Engine, Sessions, Subject, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use terminal::{Answer, Ended, Failure};

use super::files::Input;
use super::say::{AsJson, Output, count, told_once, verdict};
use super::with::{place, unreadable};

/// Bytes of one line.
const LINE_BYTES_MAX: usize = 16 << 20;
/// Bytes that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// An answer.
#[derive(Serialize)]
struct Judged<'j> {
    id: &'j Value,
    verdict: &'static str,
    findings: Vec<AsJson<'j>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<&'static str>,
}

/// What a line says of the lines before it.
#[derive(Deserialize)]
struct Session {
    session: Option<Value>,
    /// A clock of the asker's own, in milliseconds; by default it is ours.
    at_ms: Option<u64>,
}

/// What is asked, and what came of it so far.
struct Lines {
    engine: Engine,
    sessions: Option<Sessions>,
    began: Instant,
    output: Output,
    bad: usize,
    block: bool,
}

/// Judges the lines of files, one file after the other.
pub(super) fn run(files: &[PathBuf], engine: Engine, session: bool) -> Ended {
    let mut lines = Lines {
        engine,
        sessions: session.then(Sessions::default),
        began: Instant::now(),
        output: Output::new(),
        bad: 0,
        block: false,
    };
    for path in files {
        let input = Input::open(path).map_err(|error| unreadable(path, &error))?;
        lines.all(path, BufReader::with_capacity(PIECE_BYTES, input.from))?;
    }
    lines.output.flush()?;
    if lines.output.closed() {
        return Err(Failure::new(
            "standard output was closed before the last line",
            "",
        ));
    }
    match lines.bad {
        0 if lines.block => Ok(Answer::No),
        0 => Ok(Answer::Yes),
        bad => Err(Failure::new(
            format!("{} could not be read", count(bad, "line")),
            "See the answers with an `error`.",
        )),
    }
}

impl Lines {
    fn all(&mut self, path: &Path, mut from: BufReader<Box<dyn Read>>) -> Result<(), Failure> {
        let mut line = Vec::new();
        for number in 1.. {
            // Nothing is ready: whoever asks may be waiting for us.
            if !from.buffer().contains(&b'\n') {
                self.output.flush()?;
            }
            line.clear();
            let ended = next(&mut from, &mut line).map_err(|error| unreadable(path, &error))?;
            match ended {
                Next::End => break,
                Next::TooLong => {
                    self.wrong(
                        number,
                        Value::Null,
                        &format!("more than {LINE_BYTES_MAX} bytes"),
                    )?;
                }
                Next::Line => match std::str::from_utf8(&line) {
                    Ok(text) if text.trim().is_empty() => {}
                    Ok(text) => self.line(number, text)?,
                    Err(_) => self.wrong(number, Value::Null, "not UTF-8")?,
                },
            }
            if self.output.closed() {
                break;
            }
        }
        Ok(())
    }

    fn line(&mut self, number: usize, text: &str) -> Result<(), Failure> {
        match Subject::read(text) {
            Ok(subject) => {
                let verdict = self.judge(&subject, text);
                self.answer(&subject.id, &verdict)
            }
            Err(error) => {
                let line = serde_json::from_str::<Value>(text).unwrap_or_default();
                let id = line.get("id").cloned().unwrap_or_default();
                self.wrong(number, id, &error)
            }
        }
    }

    fn judge(&self, subject: &Subject, text: &str) -> Verdict {
        let place = place(Direction::Outgoing);
        let Some(sessions) = &self.sessions else {
            return subject.judge(&self.engine, place, None);
        };
        let session = serde_json::from_str::<Session>(text).ok();
        let at_ms = session.as_ref().and_then(|session| session.at_ms);
        let since = || u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let now_ms = at_ms.unwrap_or_else(since);
        match session.and_then(|session| session.session) {
            None => subject.judge(&self.engine, place, None),
            Some(name) => sessions.with(&name.to_string(), now_ms, |session| {
                subject.judge(&self.engine, place, Some((session, now_ms)))
            }),
        }
    }

    fn answer(&mut self, id: &Value, judged: &Verdict) -> Result<(), Failure> {
        self.block |= judged.block;
        let told = told_once(judged.findings.iter()).into_iter();
        self.output.json(&Judged {
            id,
            verdict: verdict(judged.block),
            findings: told
                .map(|(number, also)| AsJson::of(&judged.findings[number], also))
                .collect(),
            bound: judged.bound.map(|bound| bound.0),
        })
    }

    fn wrong(&mut self, number: usize, id: Value, what: &str) -> Result<(), Failure> {
        self.bad += 1;
        let error = format!("line {number}: {what}");
        self.output
            .json(&serde_json::json!({ "id": id, "error": error }))
    }
}

enum Next {
    Line,
    TooLong,
    End,
}

/// Reads a line into `line`. What passes the bound is left out to the end of the line.
fn next(from: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<Next> {
    let mut long = false;
    loop {
        let ready = match from.fill_buf() {
            Ok(ready) => ready,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if ready.is_empty() && line.is_empty() && !long {
            return Ok(Next::End);
        }
        let end = ready.iter().position(|byte| *byte == b'\n');
        let piece = &ready[..end.unwrap_or(ready.len())];
        long |= line.len() + piece.len() > LINE_BYTES_MAX;
        if long {
            line.clear();
        } else {
            line.extend_from_slice(piece);
        }
        let (done, used) = (
            end.is_some() || ready.is_empty(),
            piece.len() + usize::from(end.is_some()),
        );
        from.consume(used);
        if done {
            return Ok(if long { Next::TooLong } else { Next::Line });
        }
    }
}
