//! A command line in plain words: what a shell would run, with quotes, variables and codes undone.
//!
//! Rules about commands match on plain lines, so that a disguise needs no rule of its own. It is not a
//! shell: nothing runs, no file and no environment is read, and what only a running shell could know stays
//! as it is written. All work is bounded; a bound that is reached is said, never skipped over.
//! Source: POSIX.1-2024 XCU 2 (Shell Command Language); the Bash manual for what Bash adds.

use std::ops::Range;

mod evaluate;
mod expand;
mod line;
mod read;
mod unwrap;

use expand::Word;
use line::{Pipeline, Stage};
use read::{Reader, Token};

/// Deepest nesting of substitutions, `sh -c` and decoded scripts.
const DEPTH_MAX: usize = 12;
/// Bytes of a command that are read for each of its own, over all nesting and expansion.
const WORK_PER_BYTE_MAX: usize = 16;
/// Bytes that are always read, however short the command.
const WORK_BYTES_MIN: usize = 64 << 10;
/// Bytes of one variable's value.
const VALUE_BYTES_MAX: usize = 4096;
/// Variables remembered in one command.
const VARIABLES_MAX: usize = 64;
/// Lines that are written for one command.
const LINES_MAX: usize = 4096;

/// Whose rules of quoting a command follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// sh, Bash and their kin.
    Posix,
    /// cmd.exe and PowerShell: the caret and the backtick escape, the backslash does not.
    Windows,
}

/// What a command does: one line for each pipeline, also for those that are nested in others.
///
/// Words are parted by one space, stages by ` | `. A blank inside a word is a tab, so that a rule can say
/// where a command starts. The command's own name is in lower case and has no directory.
#[derive(Default)]
pub(crate) struct Plain {
    pub(crate) text: Vec<u8>,
    pub(crate) lines: Vec<Line>,
    /// A bound was reached: there is more than the lines say.
    pub(crate) obscured: bool,
}

/// One line of [`Plain`].
pub(crate) struct Line {
    pub(crate) text: Range<usize>,
    /// The part of the command that it comes from.
    pub(crate) source: Range<usize>,
    /// What was undone to see it.
    pub(crate) disguise: &'static str,
    /// The name of the command itself was written so that it does not look like one.
    pub(crate) masked: bool,
}

impl Plain {
    /// Empties it for the next command. Nothing of the last one stays in memory.
    pub(crate) fn clear(&mut self) {
        self.text.fill(0);
        self.text.clear();
        self.lines.clear();
        self.obscured = false;
    }

    /// The line that holds this place of the text.
    pub(crate) fn line(&self, at: usize) -> Option<&Line> {
        let after = self.lines.partition_point(|line| line.text.start <= at);
        self.lines[..after].last()
    }
}

/// Reads a command and adds its lines to `plain`.
pub(crate) fn plain(text: &[u8], dialect: Dialect, plain: &mut Plain) {
    let mut shell = Shell::new(dialect, text.len(), plain);
    shell.script(text, 0);
}

/// Reads the arguments of a process that no shell has to split.
pub(crate) fn argv(words: &[&[u8]], plain: &mut Plain) {
    let bytes = words.iter().map(|word| word.len()).sum();
    let mut shell = Shell::new(Dialect::Posix, bytes, plain);
    let words = words.iter().map(|word| Word::literal(word)).collect();
    let stage = Stage {
        words,
        ..Stage::default()
    };
    let pipeline = Pipeline {
        stages: vec![stage],
        background: false,
    };
    shell.finish(pipeline, 0);
}

/// Reads a program in a language other than a shell's: its own text, and the commands in its strings.
pub(crate) fn code(text: &[u8], plain: &mut Plain) {
    argv(&[b"python", b"-c", text], plain);
}

/// One reading of one command.
pub(crate) struct Shell<'p> {
    plain: &'p mut Plain,
    dialect: Dialect,
    variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// Where it went, if that is no place to work in.
    directory: Vec<u8>,
    work_left: usize,
    /// What was undone on the way to the script that is being read.
    disguise: &'static str,
}

impl<'p> Shell<'p> {
    fn new(dialect: Dialect, bytes: usize, plain: &'p mut Plain) -> Shell<'p> {
        Shell {
            plain,
            dialect,
            variables: Vec::new(),
            directory: Vec::new(),
            work_left: (bytes * WORK_PER_BYTE_MAX).max(WORK_BYTES_MIN),
            disguise: "",
        }
    }

    /// Whether so many bytes may still be read; says so when not.
    fn work(&mut self, bytes: usize) -> bool {
        match self.work_left.checked_sub(bytes) {
            Some(left) => {
                self.work_left = left;
                true
            }
            None => {
                self.plain.obscured = true;
                false
            }
        }
    }

    /// Reads a script, and answers what it writes where that can be known.
    fn script(&mut self, text: &[u8], depth: usize) -> Option<Vec<u8>> {
        if depth > DEPTH_MAX {
            self.plain.obscured = true;
            return None;
        }
        if !self.work(text.len()) {
            return None;
        }
        let lines;
        let text = match memchr::memchr(expand::NEWLINE, text) {
            Some(_) => {
                lines = evaluate::replace(text, &[expand::NEWLINE], b"\n", true);
                lines.as_slice()
            }
            None => text,
        };
        let mut reader = Reader::new(text, self.dialect);
        let mut output = Some(Vec::new());
        while !reader.is_done() {
            let (first, start) = (self.plain.lines.len(), reader.at());
            let pipeline = self.pipeline(&mut reader, depth);
            let written = self.finish(pipeline, depth);
            output = output.zip(written).map(|(mut all, written)| {
                all.extend_from_slice(&written);
                all
            });
            if depth == 0 {
                let source = start..reader.at();
                for line in &mut self.plain.lines[first..] {
                    line.source = source.clone();
                }
            }
            if self.plain.lines.len() > LINES_MAX {
                self.plain.obscured = true;
                return None;
            }
        }
        output.filter(|output| output.len() <= VALUE_BYTES_MAX)
    }

    /// Reads up to the end of one pipeline.
    fn pipeline(&mut self, reader: &mut Reader<'_>, depth: usize) -> Pipeline {
        let mut pipeline = Pipeline::default();
        let mut stage = Stage::default();
        loop {
            match reader.token() {
                Token::Word => {
                    let head = stage.words.is_empty();
                    let word = self.word(reader, head, depth);
                    stage.words.push(word);
                }
                Token::Redirect(operator) => {
                    reader.blanks();
                    let target = self.word(reader, false, depth);
                    stage.redirect(operator, target, reader);
                }
                Token::Pipe => pipeline.stages.push(std::mem::take(&mut stage)),
                Token::End { background } => {
                    pipeline.stages.push(stage);
                    pipeline.background = background;
                    return pipeline;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
