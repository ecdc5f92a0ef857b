//! From the stages of a pipeline to its line, and on to the commands that its commands run.

use super::expand::{NEWLINE, Word};
use super::read::Reader;
use super::unwrap::{Inner, unwrap};
use super::{DEPTH_MAX, Dialect, Line, Shell, evaluate};

/// Commands joined by pipes.
#[derive(Default)]
pub(super) struct Pipeline {
    pub(super) stages: Vec<Stage>,
    pub(super) background: bool,
}

/// One command with its redirections, not yet expanded.
#[derive(Default)]
pub(super) struct Stage {
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<(&'static str, Vec<u8>)>,
    /// What it reads, where the command line says it.
    pub(super) input: Option<Vec<u8>>,
}

impl Stage {
    pub(super) fn redirect(
        &mut self,
        operator: &'static str,
        target: Word,
        reader: &mut Reader<'_>,
    ) {
        let text = target.whole();
        match operator {
            "<<" => self.input = Some(reader.document(&text).to_vec()),
            "<<<" => {
                self.input = Some(text.clone());
                self.redirects.push((operator, text));
            }
            // Another descriptor, or nowhere.
            ">&" | "<" | ">"
                if text
                    .iter()
                    .all(|byte| byte.is_ascii_digit() || *byte == b'-') => {}
            ">" | ">>" | ">&" if text == b"/dev/null" => {}
            ">&" => self.redirects.push((">", text)),
            _ => self.redirects.push((operator, text)),
        }
    }
}

/// One command, expanded.
struct Simple {
    argv: Vec<Vec<u8>>,
    redirects: Vec<(&'static str, Vec<u8>)>,
    input: Option<Vec<u8>>,
}

/// Words of the grammar that may stand before a command.
const KEYWORDS: [&[u8]; 13] = [
    b"if", b"then", b"do", b"else", b"elif", b"while", b"until", b"!", b"{", b"time", b"coproc",
    b"&", b".exe",
];

impl Shell<'_> {
    /// Writes the line of a pipeline and of all that it runs; answers what it writes where that is known.
    pub(super) fn finish(&mut self, pipeline: Pipeline, depth: usize) -> Option<Vec<u8>> {
        let mut stages = Vec::new();
        let (mut disguise, mut masked, mut decoded) = (self.disguise, false, false);
        let mut joined = None;
        for stage in pipeline.stages {
            for (i, word) in stage.words.iter().enumerate() {
                if disguise.is_empty() {
                    disguise = word.disguise;
                }
                masked |= i == 0 && word.masked;
                decoded |= word.decoded;
            }
            let first = stage.words.first().and_then(Word::joined);
            if let Some(simple) = self.expand(stage) {
                joined = joined.or_else(|| first.map(|name| (name, stages.len())));
                stages.push(simple);
            }
        }
        // A lone assignment writes nothing.
        let Some(last) = stages.last() else {
            return Some(Vec::new());
        };
        bomb(last, &stages, pipeline.background).inspect(|line| self.add(line, disguise, masked));
        let before = std::mem::replace(&mut self.disguise, disguise);
        let mut line = Vec::new();
        for (i, simple) in stages.iter().enumerate() {
            if i > 0 {
                line.extend_from_slice(b" | ");
            }
            write(simple, &mut line);
        }
        if pipeline.background {
            line.extend_from_slice(b" &");
        }
        self.add(&line, disguise, masked);
        for simple in &stages {
            self.there(simple, disguise);
        }
        if decoded && let Some(name) = last.argv.first() {
            let line = [name, &b" $(base64\t-d)"[..]].concat();
            self.add(&line, "base64", false);
        }
        if let Some((name, at)) = joined {
            let mut again = vec![name];
            again.extend_from_slice(stages[at].argv.get(2..).unwrap_or_default());
            self.argv(again, disguise);
        }
        let mut piped: Option<Vec<u8>> = None;
        for simple in &mut stages {
            let input = simple.input.take().or(piped);
            if self.disguise.is_empty() {
                self.disguise = evaluate::disguise(&simple.argv);
            }
            piped = self.run(&simple.argv, input.as_deref(), depth);
        }
        self.disguise = before;
        piped
    }

    /// Expands a stage, and takes its assignments and keywords off.
    fn expand(&mut self, stage: Stage) -> Option<Simple> {
        let mut argv = Vec::new();
        let mut head = true;
        for word in &stage.words {
            match word.assignment().filter(|_| head) {
                Some((name, value)) => self.set(name, value),
                None => {
                    self.fields(word, head, &mut argv);
                    head &= argv.is_empty();
                }
            }
        }
        while argv
            .first()
            .is_some_and(|word| KEYWORDS.contains(&word.as_slice()))
        {
            argv.remove(0);
        }
        if let [first, name, within, values @ ..] = &argv[..]
            && first == b"for"
            && within == b"in"
        {
            let (name, values) = (name.clone(), values.join(&b' '));
            self.assign(&name, &values);
            argv.clear();
        }
        let Some(name) = argv.first_mut() else {
            let redirected = stage
                .redirects
                .iter()
                .any(|(operator, _)| operator.starts_with('>'));
            return redirected.then(|| Simple {
                argv: vec![b":".to_vec()],
                redirects: stage.redirects,
                input: stage.input,
            });
        };
        *name = command_name(name);
        // A name with a blank in it is a name and its first arguments.
        if name.contains(&b'\t') {
            let name = argv.remove(0);
            let parts = name
                .split(|byte| *byte == b'\t')
                .filter(|part| !part.is_empty());
            argv.splice(0..0, parts.map(<[u8]>::to_vec));
            argv.first_mut()
                .into_iter()
                .for_each(|name| *name = command_name(name));
        }
        (!argv.is_empty()).then_some(Simple {
            argv,
            redirects: stage.redirects,
            input: stage.input,
        })
    }

    /// Follows `cd`, and writes the line of a command once more with its paths as they are from there.
    fn there(&mut self, simple: &Simple, disguise: &'static str) {
        let Some((name, rest)) = simple.argv.split_first() else {
            return;
        };
        if matches!(name.as_slice(), b"cd" | b"pushd" | b"chdir") {
            let to = rest.iter().find(|word| !word.starts_with(b"-"));
            let to = to.map_or(&b"~"[..], Vec::as_slice);
            let rooted = to.starts_with(b"/") || to.starts_with(b"~");
            let before = std::mem::take(&mut self.directory);
            self.directory = match rooted || before.is_empty() {
                true => to.to_vec(),
                false => [&before, &b"/"[..], to].concat(),
            };
            tidy(&mut self.directory, 0);
            return;
        }
        if !is_no_workplace(&self.directory) {
            return;
        }
        let (directory, mut moved) = (&self.directory, false);
        let mut place = |word: &Vec<u8>| {
            let name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-*?/@+".contains(byte);
            let relative = !word.starts_with(b"/") && !word.starts_with(b"-");
            match relative && !word.is_empty() && word.iter().all(name) {
                true => {
                    moved = true;
                    let word: &[u8] = if word == b"." { b"" } else { word };
                    let mut path = directory.clone();
                    path.extend_from_slice(if path.ends_with(b"/") { b"" } else { b"/" });
                    path.extend_from_slice(word);
                    path
                }
                false => word.clone(),
            }
        };
        let mut argv = vec![name.clone()];
        argv.extend(rest.iter().map(&mut place));
        let redirects = simple.redirects.iter();
        let redirects = redirects
            .map(|(operator, target)| (*operator, place(target)))
            .collect();
        if moved {
            let (mut line, input) = (Vec::new(), None);
            write(
                &Simple {
                    argv,
                    redirects,
                    input,
                },
                &mut line,
            );
            self.add(&line, disguise, false);
        }
    }

    fn set(&mut self, name: &[u8], value: &[u8]) {
        // What an environment variable is set to is of interest to rules.
        if name.len() >= 3 && name.iter().all(|byte| !byte.is_ascii_lowercase()) {
            let mut line = b"export ".to_vec();
            line.extend_from_slice(name);
            line.push(b'=');
            put(&super::expand::written(value), &mut line);
            self.add(&line, "", false);
        }
        self.assign(name, value);
    }

    /// Looks into a command for the one that it runs.
    fn run(&mut self, argv: &[Vec<u8>], input: Option<&[u8]>, depth: usize) -> Option<Vec<u8>> {
        let output = evaluate::output(argv, input);
        if depth > DEPTH_MAX {
            self.plain.obscured = true;
            return output;
        }
        match unwrap(argv) {
            Inner::None => {}
            Inner::Argv(inner) => {
                self.argv(inner.clone(), self.disguise);
                let mut inner = inner;
                if let Some(name) = inner.first_mut() {
                    *name = command_name(name);
                }
                let deeper = self.run(&inner, input, depth + 1);
                return output.or(deeper);
            }
            Inner::Script(script) => {
                let deeper = self.script(&script, depth + 1);
                return output.or(deeper);
            }
            Inner::Windows(script, name) => {
                let (dialect, disguise) = (self.dialect, self.disguise);
                self.dialect = Dialect::Windows;
                if !name.is_empty() {
                    self.disguise = name;
                }
                self.script(&script, depth + 1);
                (self.dialect, self.disguise) = (dialect, disguise);
            }
            Inner::Scripts(scripts) => {
                for script in scripts {
                    self.script(&script, depth + 1);
                }
            }
            Inner::Input => {
                if let Some(input) = input {
                    self.script(input, depth + 1);
                }
            }
        }
        output
    }

    /// Writes the line of a command that another one runs.
    fn argv(&mut self, mut argv: Vec<Vec<u8>>, disguise: &'static str) {
        if let Some(name) = argv.first_mut() {
            *name = command_name(name);
        }
        let mut line = Vec::new();
        let simple = Simple {
            argv,
            redirects: Vec::new(),
            input: None,
        };
        write(&simple, &mut line);
        self.add(&line, disguise, false);
    }

    fn add(&mut self, line: &[u8], disguise: &'static str, masked: bool) {
        if !self.work(line.len()) {
            return;
        }
        let start = self.plain.text.len();
        self.plain.text.extend_from_slice(line);
        self.plain.text.push(b'\n');
        self.plain.lines.push(Line {
            text: start..self.plain.text.len(),
            source: 0..0,
            disguise,
            masked,
        });
    }
}

/// Whether a directory holds what is the system's or a program's own, rather than work.
fn is_no_workplace(directory: &[u8]) -> bool {
    const SYSTEM: [&[u8]; 4] = [b"/etc", b"/proc", b"/run/secrets", b"/var/run/secrets"];
    let hidden = |part: &[u8]| part.len() > 2 && part.starts_with(b".") && part != b"..";
    matches!(
        directory,
        b"/" | b"~" | b"~/" | b"/root" | b"/home" | b"/home/"
    ) || SYSTEM.iter().any(|system| directory.starts_with(system))
        || ((directory.starts_with(b"/") || directory.starts_with(b"~"))
            && directory.split(|byte| *byte == b'/').any(hidden))
}

/// A pipe from a command into itself, whatever it is called, in one spelling.
fn bomb(last: &Simple, stages: &[Simple], background: bool) -> Option<&'static [u8]> {
    let same = stages.len() > 1 && stages.iter().all(|stage| stage.argv == last.argv);
    let windows = last.argv.first().is_some_and(|name| name == b"%0");
    (same && last.argv.len() == 1 && (background || windows)).then_some(b":|:&")
}

fn write(simple: &Simple, line: &mut Vec<u8>) {
    for (i, word) in simple.argv.iter().enumerate() {
        if i > 0 {
            line.push(b' ');
        }
        put(word, line);
    }
    for (operator, target) in &simple.redirects {
        line.push(b' ');
        line.extend_from_slice(operator.as_bytes());
        line.push(b' ');
        put(target, line);
    }
}

/// Writes a word so that it is one in the line, too.
fn put(word: &[u8], line: &mut Vec<u8>) {
    const OPERATORS: [&[u8]; 7] = [b"|", b">", b">>", b"<", b"<<<", b"<>", b"&"];
    if word.is_empty() {
        line.extend_from_slice(b"''");
    }
    if OPERATORS.contains(&word) {
        line.push(b'\t');
    }
    let start = line.len();
    line.extend(word.iter().map(|byte| match byte {
        b' ' | b'\n' | &NEWLINE => b'\t',
        byte => *byte,
    }));
    tidy(line, start);
}

/// Takes what means nothing out of a path: `//`, `/./`, and `x/../`.
fn tidy(line: &mut Vec<u8>, start: usize) {
    let word = &line[start..];
    let odd = |part: &[u8]| memchr::memmem::find(word, part).is_some();
    if odd(b"://") || !(odd(b"//") || odd(b"/./") || odd(b"/../")) {
        return;
    }
    let word = line.split_off(start);
    let rooted = word.starts_with(b"/");
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in word.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if parts.last().is_some_and(|last| *last != b"..") => {
                parts.pop();
            }
            b".." if rooted => {}
            part => parts.push(part),
        }
    }
    if rooted {
        line.push(b'/');
    }
    line.extend_from_slice(&parts.join(&b'/'));
}

/// The name of a command: without its directory, in lower case.
pub(super) fn command_name(word: &[u8]) -> Vec<u8> {
    let slash = memchr::memrchr2(b'/', b'\\', word).map_or(0, |slash| slash + 1);
    let name = match word.get(slash..) {
        Some(name) if !name.is_empty() => name,
        _ => word,
    };
    let mut name = name.to_ascii_lowercase();
    if let Some(short) = name.strip_suffix(b".exe") {
        name = short.to_vec();
    }
    name
}
