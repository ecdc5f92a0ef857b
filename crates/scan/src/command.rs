//! Calls of tools that run commands or touch files: is what they are asked to do allowed by any rule?
//!
//! Which arguments are commands, which are paths, and which only talk about either is decided by the names
//! of the tool and of the argument. Text that is clean is looked at once, and nothing is allocated for it.
//! It does not know what a tool really does, and runs nothing.

use std::cell::RefCell;
use std::ops::Range;
use std::slice;

use base::limit::FINDINGS_MAX;

use crate::fold;
use crate::layer::{Layer, Text};
use crate::opening::{Matcher, Opened, Opening};
use crate::rule::{Class, Rule, Severity};
use crate::shell::{self, Dialect, Plain};

mod exempt;
mod native;
mod role;

pub(crate) use native::is_named_after_command;
pub(crate) use role::{LOCAL, Role, Tool, group, words};

/// Matches of a rule in one command that may be exempt: to find each, its expression may read all that follows.
const EXEMPT_MAX: usize = 64;
/// Strings of one call that are judged; the rest of a call with more is refused as obscured.
const ARGUMENTS_MAX: usize = 4096;
/// Bytes of one command.
const COMMAND_BYTES_MAX: usize = 256 << 10;

/// The rules that code finds rather than an expression.
const OBSCURED: &str = "command_obscured";
const DISGUISED: &str = "command_disguised";

/// One string of a call's arguments.
#[derive(Clone, Copy, Debug)]
pub struct Argument<'a> {
    /// Where it stands, such as `command` or `args[2]`.
    pub path: &'a str,
    pub text: &'a str,
}

/// A rule that a call breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    pub rule: &'static str,
    /// Index of the argument.
    pub argument: usize,
    /// Bytes of the argument's text that say it: the whole command, not only the match.
    pub span: Range<usize>,
    /// What was undone to see it; empty where nothing was.
    pub disguise: &'static str,
}

/// All rules about commands. Their expressions are compiled when they are first needed.
pub struct Commands {
    rules: Opening,
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

/// What one call needs, kept for the next one.
#[derive(Default)]
struct Buffers {
    plain: Plain,
    /// Words of a command that comes in several strings.
    joined: Vec<u8>,
    opened: Opened,
}

/// One command, or one path, and the argument that it came in.
struct Subject<'a> {
    text: &'a str,
    role: Role,
    argument: usize,
    /// The span is all of the argument, whatever part of the text a match is in.
    whole: Option<usize>,
}

impl Commands {
    /// Takes the rules of class `command` out of our own rules and of others.
    pub fn new(rules: &'static [Rule], more: &[&'static Rule]) -> Commands {
        let all = rules.iter().chain(more.iter().copied());
        let ours = all.filter(|rule| rule.class == Class::Command && !rule.regex.is_empty());
        Commands {
            rules: Opening::new(ours),
        }
    }

    /// Adds to `sink` each rule that this call breaks, once for each argument.
    ///
    /// `args` are the strings of the call's arguments in their order, array by array.
    pub fn judge(&self, tool: &str, args: &[Argument<'_>], sink: &mut Vec<Hit>) {
        let kind = Tool::of(tool);
        if args.len() > ARGUMENTS_MAX {
            sink.push(Hit {
                rule: OBSCURED,
                argument: 0,
                span: 0..args[0].text.len(),
                disguise: "",
            });
        }
        let args = &args[..args.len().min(ARGUMENTS_MAX)];
        let mut at = 0;
        while at < args.len() {
            let group = role::group(args, at);
            let role = kind.role(args[at].path, args[at].text);
            match role {
                _ if group == 1 => self.one(role, args, at, sink),
                Role::Command | Role::Unknown => {
                    self.argv(tool, kind, args, at..at + group, sink);
                }
                _ => {
                    for argument in at..at + group {
                        let role = kind.role(args[argument].path, args[argument].text);
                        self.one(role, args, argument, sink);
                    }
                }
            }
            at += group;
        }
        self.native(tool, args, sink);
    }

    /// Judges a call as the command that its tool is named after, and its statements of a database.
    fn native(&self, tool: &str, args: &[Argument<'_>], sink: &mut Vec<Hit>) {
        for (argument, Argument { path, text }) in args.iter().enumerate() {
            if native::is_statement(tool, path) {
                let (role, whole) = (Role::Statement, None);
                self.subject(
                    &Subject {
                        text,
                        role,
                        argument,
                        whole,
                    },
                    sink,
                );
            }
        }
        let line = native::line(tool, args);
        if line.is_empty() {
            return;
        }
        let mut plain = Plain::default();
        let words: Vec<&[u8]> = line.iter().map(Vec::as_slice).collect();
        shell::argv(&words, &mut plain);
        let text = args.first().map_or("", |argument| argument.text);
        let subject = Subject {
            text,
            role: Role::Command,
            argument: 0,
            whole: Some(text.len()),
        };
        let mut opened = Opened::default();
        for matcher in self.rules.each(&plain.text, &mut opened) {
            if line_of(matcher, &plain).is_some() {
                self.hit(&subject, matcher.rule.id, 0..text.len(), "", sink);
            }
        }
    }

    /// Judges one string.
    fn one(&self, role: Role, args: &[Argument<'_>], argument: usize, sink: &mut Vec<Hit>) {
        let text = args[argument].text;
        if role == Role::Text {
            return;
        }
        let subject = Subject {
            text,
            role,
            argument,
            whole: None,
        };
        self.subject(&subject, sink);
        let path = matches!(role, Role::Read | Role::Write | Role::Delete);
        if path && role::smuggles(text) {
            self.subject(
                &Subject {
                    role: Role::Command,
                    ..subject
                },
                sink,
            );
        }
        let bare = role == Role::Command && role::is_path(text);
        if bare {
            self.subject(
                &Subject {
                    role: Role::Read,
                    ..subject
                },
                sink,
            );
        }
    }

    /// Judges strings that are the words of one command.
    fn argv(
        &self,
        tool: &str,
        kind: Tool,
        args: &[Argument<'_>],
        group: Range<usize>,
        sink: &mut Vec<Hit>,
    ) {
        let words = &args[group.clone()];
        let first = words[0].text;
        let operator =
            |word: &Argument<'_>| matches!(word.text, ";" | "&&" | "||" | "|" | "&" | ">" | ">>");
        let unsafe_name = first.bytes().any(|byte| !role::CLEAN[usize::from(byte)]);
        // Several commands, each in a string of its own.
        if first.trim().contains(' ') {
            for argument in group {
                let role = kind.role(args[argument].path, args[argument].text);
                self.one(role, args, argument, sink);
            }
            return;
        }
        let role = kind.role(words[0].path, first);
        let before = role::command_before(args, &group).or_else(|| {
            // The tool is the command, and its strings are the command's arguments.
            let named = !matches!(kind, Tool::Shell | Tool::Code) && role::is_known(tool);
            (named && role::is_arguments(words[0].path)).then_some(tool)
        });
        let mut joined = BUFFERS.with_borrow_mut(|buffers| std::mem::take(&mut buffers.joined));
        joined.clear();
        let quote = !unsafe_name && !words.iter().any(operator);
        for (i, word) in before
            .into_iter()
            .chain(words.iter().map(|word| word.text))
            .enumerate()
        {
            if i > 0 {
                joined.push(b' ');
            }
            let plain = !quote || (i == 0 && before.is_some());
            role::push_word(word, plain, &mut joined);
        }
        if let Ok(text) = std::str::from_utf8(&joined) {
            let subject = Subject {
                text,
                role,
                argument: group.start,
                whole: Some(first.len()),
            };
            self.subject(&subject, sink);
        }
        joined.fill(0);
        BUFFERS.with_borrow_mut(|buffers| buffers.joined = joined);
        // Each of them may be a script or a path for itself.
        for (word, argument) in words.iter().zip(group).skip(1) {
            if role::is_path(word.text) {
                let subject = Subject {
                    text: word.text,
                    role: Role::Read,
                    argument,
                    whole: None,
                };
                self.subject(&subject, sink);
            }
        }
    }

    /// Judges one command or path.
    fn subject(&self, subject: &Subject<'_>, sink: &mut Vec<Hit>) {
        let text = subject.text;
        if subject.role == Role::Unknown && !role::looks_like_command(text) {
            return;
        }
        if self.is_clean(text, subject.role) {
            return;
        }
        if text.len() > COMMAND_BYTES_MAX {
            self.hit(subject, OBSCURED, 0..text.len(), "", sink);
            return;
        }
        let mut buffers = BUFFERS.with_borrow_mut(std::mem::take);
        if text.is_ascii() {
            self.read(subject, text.as_bytes(), None, &mut buffers, sink);
        } else {
            self.folded(subject, &mut buffers, sink);
        }
        buffers.plain.clear();
        BUFFERS.with_borrow_mut(|kept| {
            let joined = std::mem::take(&mut kept.joined);
            *kept = buffers;
            kept.joined = joined;
        });
    }

    /// Whether no rule's literal is in a text, and nothing that could hide one.
    fn is_clean(&self, text: &str, role: Role) -> bool {
        // What they are is in no word of theirs.
        if matches!(role, Role::Delete | Role::Statement) {
            return false;
        }
        let bytes = text.as_bytes();
        let class = match role {
            Role::Read | Role::Write => &role::CLEAN_PATH,
            _ => &role::CLEAN,
        };
        bytes.iter().all(|byte| class[usize::from(*byte)])
            && memchr::memmem::find(bytes, b"  ").is_none()
            && !self.rules.any(bytes)
    }

    /// Judges a text with letters that may only look like others.
    fn folded(&self, subject: &Subject<'_>, buffers: &mut Buffers, sink: &mut Vec<Hit>) {
        let bytes = subject.text.as_bytes();
        let whole = 0..bytes.len();
        let layer = Layer::plain(bytes, slice::from_ref(&whole));
        let mut text = Text::take();
        fold::fold(&layer, &mut text);
        self.read(subject, &text.bytes, Some((&text, &layer)), buffers, sink);
        text.give();
        // What is invisible may part words as well as join them.
        if subject.text.chars().any(fold::invisible) {
            let spaced: String = subject
                .text
                .chars()
                .map(|c| if fold::invisible(c) { ' ' } else { c })
                .collect();
            let subject = Subject {
                text: &spaced,
                whole: Some(subject.whole.unwrap_or(bytes.len())),
                ..*subject
            };
            let whole = 0..spaced.len();
            let layer = Layer::plain(spaced.as_bytes(), slice::from_ref(&whole));
            let mut text = Text::take();
            fold::fold(&layer, &mut text);
            self.read(&subject, &text.bytes, Some((&text, &layer)), buffers, sink);
            text.give();
        }
    }

    /// Reads a text into plain lines, in each way that it can be meant, and matches the rules on them.
    fn read(
        &self,
        subject: &Subject<'_>,
        text: &[u8],
        view: Option<(&Text, &Layer<'_>)>,
        buffers: &mut Buffers,
        sink: &mut Vec<Hit>,
    ) {
        buffers.plain.clear();
        match subject.role {
            Role::Read => role::path(b"read_file", text, &mut buffers.plain),
            Role::Write => role::path(b"write_file", text, &mut buffers.plain),
            Role::Delete => role::path(b"delete_file", text, &mut buffers.plain),
            Role::Code => shell::code(text, &mut buffers.plain),
            Role::Statement => {
                shell::argv(&[b"sql", &native::statement(text)], &mut buffers.plain);
            }
            _ => shell::plain(text, Dialect::Posix, &mut buffers.plain),
        }
        self.lines(subject, text, view, buffers, sink);
        let command = matches!(subject.role, Role::Command | Role::Unknown | Role::Script);
        if command && role::may_be_windows(text) {
            buffers.plain.clear();
            shell::plain(text, Dialect::Windows, &mut buffers.plain);
            self.lines(subject, text, view, buffers, sink);
        }
    }

    /// Matches the rules on plain lines.
    fn lines(
        &self,
        subject: &Subject<'_>,
        text: &[u8],
        view: Option<(&Text, &Layer<'_>)>,
        buffers: &mut Buffers,
        sink: &mut Vec<Hit>,
    ) {
        let Buffers { plain, opened, .. } = buffers;
        if subject.role == Role::Unknown && !role::starts_with_known(plain) {
            return;
        }
        let source = |span: &Range<usize>| match view {
            Some((folded, layer)) => Layer::view(folded, "", Some(layer)).source(span),
            None => span.clone(),
        };
        if plain.obscured {
            self.hit(subject, OBSCURED, 0..subject.text.len(), "", sink);
        }
        for matcher in self.rules.each(&plain.text, opened) {
            if subject.role == Role::Script && matcher.rule.severity != Severity::Critical {
                continue;
            }
            if let Some(line) = line_of(matcher, plain) {
                let mut span = source(&line.source);
                span = if span.is_empty() {
                    0..subject.text.len()
                } else {
                    span
                };
                let written = subject
                    .text
                    .as_bytes()
                    .get(span.clone())
                    .unwrap_or_default();
                let disguise = match line.disguise {
                    "" => fold::disguise(written),
                    disguise => disguise,
                };
                self.hit(
                    subject,
                    matcher.rule.id,
                    trimmed(text, span),
                    disguise,
                    sink,
                );
            }
        }
        if matches!(subject.role, Role::Command | Role::Unknown)
            && let Some((line, look)) = masked(subject, plain, &source)
        {
            self.hit(subject, DISGUISED, source(&line.source), look, sink);
        }
    }

    fn hit(
        &self,
        subject: &Subject<'_>,
        rule: &'static str,
        span: Range<usize>,
        disguise: &'static str,
        sink: &mut Vec<Hit>,
    ) {
        let argument = subject.argument;
        // Those of one argument follow each other.
        let mut last = sink.iter().rev().take(FINDINGS_MAX);
        if last.any(|hit| hit.argument == argument && hit.rule == rule) {
            return;
        }
        let span = match subject.whole {
            Some(bytes) => 0..bytes,
            None => span,
        };
        sink.push(Hit {
            rule,
            argument,
            span,
            disguise,
        });
    }
}

/// The line of the first match of a rule that no exemption covers, or of one behind as many as may be exempt.
fn line_of<'p>(matcher: &Matcher, plain: &'p Plain) -> Option<&'p shell::Line> {
    let (mut at, mut left) = (0, EXEMPT_MAX);
    while at < plain.text.len() {
        let found = matcher.find(&plain.text, at)?;
        let line = plain.line(found.start)?;
        let stage = stage(
            &plain.text[line.text.clone()],
            found.start - line.text.start,
        );
        let stage = line.text.start + stage.start..line.text.start + stage.end;
        let text = plain.text[stage.clone()].trim_ascii_end();
        if left == 0 || !exempt::is(matcher.rule.id, text) {
            return Some(line);
        }
        left -= 1;
        // What else it finds in this stage is exempt, too.
        at = stage.end.max(found.start + 1);
    }
    None
}

/// The first command whose name does not look like what it is, and how it is disguised.
fn masked<'p>(
    subject: &Subject<'_>,
    plain: &'p Plain,
    source: &dyn Fn(&Range<usize>) -> Range<usize>,
) -> Option<(&'p shell::Line, &'static str)> {
    plain.lines.iter().find_map(|line| {
        let span = source(&line.source);
        let written = subject.text.as_bytes().get(span).unwrap_or_default();
        let name = role::head(written.trim_ascii());
        let text = &plain.text[line.text.clone()];
        // A name of its own in another script is no disguise; a mixture is.
        let latin = name.iter().any(u8::is_ascii_alphabetic);
        let look = match fold::disguise(name) {
            "confusable" if latin && !role::mixes_scripts(name) => "",
            look => look,
        };
        match look {
            "" if line.masked => Some((line, line.disguise)),
            "" => role::mixes_scripts(text).then_some((line, "confusable")),
            look => Some((line, look)),
        }
    })
}

/// The stage of a line that holds this place; the separator before a stage belongs to it.
fn stage(line: &[u8], at: usize) -> Range<usize> {
    const SEPARATOR: &[u8] = b" | ";
    let before = &line[..line.len().min(at + SEPARATOR.len())];
    let start = memchr::memmem::rfind(before, SEPARATOR).map_or(0, |at| at + SEPARATOR.len());
    let end = memchr::memmem::find(&line[start..], SEPARATOR);
    start..end.map_or(line.len(), |end| start + end)
}

fn trimmed(text: &[u8], span: Range<usize>) -> Range<usize> {
    let Some(part) = text.get(span.clone()) else {
        return span;
    };
    let before = part.len() - part.trim_ascii_start().len();
    match part.trim_ascii().len() {
        0 => span,
        length if text.is_ascii() => span.start + before..span.start + before + length,
        _ => span,
    }
}

#[cfg(test)]
mod tests;
