//! What a word becomes: quotes, escapes, variables, substitutions, braces and patterns undone.
//!
//! A variable that the command does not set is empty in the name of a command, where it can only be there
//! to hide it, and stays as written elsewhere if it looks like one of the environment.

use super::read::Reader;
use super::{Dialect, Shell, VALUE_BYTES_MAX, VARIABLES_MAX, evaluate};

/// A new field starts here.
const SPLIT: u8 = 0x1e;
/// As [`SPLIT`], made by an `IFS` of the command's own.
const JOINT: u8 = 0x1d;
/// A new line inside a word.
pub(super) const NEWLINE: u8 = 0x1c;
/// Characters that mean something because they were not quoted: `{` `,` `}` `*` `?` `[` `]`.
const ACTIVE: [(u8, u8); 7] = [
    (0x11, b'{'),
    (0x12, b','),
    (0x13, b'}'),
    (0x14, b'*'),
    (0x15, b'?'),
    (0x16, b'['),
    (0x17, b']'),
];
/// Words that one word with braces may become.
const BRACE_WORDS_MAX: usize = 128;
/// Bytes of a pattern that is matched against names.
const PATTERN_BYTES_MAX: usize = 64;

/// What the environment is taken to be, for what rules want to see and disguises are made of.
const ENVIRONMENT: [(&str, &str); 13] = [
    ("IFS", " \t\n"),
    ("HOME", "/home/user"),
    ("PWD", "/home/user"),
    ("OLDPWD", "/home/user"),
    ("PATH", "/usr/bin:/bin"),
    ("SHELL", "/bin/bash"),
    ("BASH", "/bin/bash"),
    ("0", "bash"),
    ("COMSPEC", "cmd.exe"),
    ("SystemRoot", "/Windows"),
    ("USERPROFILE", "/home/user"),
    ("windir", "/Windows"),
    ("env:ComSpec", "cmd.exe"),
];

/// Names that a pattern in place of a command is tried on, the worst first.
const COMMANDS: [&str; 34] = [
    "rm",
    "bash",
    "sh",
    "dash",
    "zsh",
    "curl",
    "wget",
    "nc",
    "ncat",
    "netcat",
    "cat",
    "dd",
    "shred",
    "mkfs",
    "chmod",
    "chown",
    "python3",
    "python",
    "perl",
    "base64",
    "crontab",
    "systemctl",
    "head",
    "tail",
    "less",
    "cp",
    "mv",
    "tee",
    "tac",
    "scp",
    "socat",
    "eval",
    "xxd",
    "find",
];

/// Files that a pattern in place of a path is tried on.
const FILES: [&str; 18] = [
    "/etc/shadow",
    "/etc/passwd",
    "/etc/sudoers",
    "/etc/crontab",
    "/etc/gshadow",
    ".ssh/id_rsa",
    ".ssh/id_ed25519",
    ".ssh/id_ecdsa",
    ".ssh/authorized_keys",
    ".aws/credentials",
    ".netrc",
    ".kube/config",
    ".git-credentials",
    ".docker/config.json",
    ".bashrc",
    ".zshrc",
    ".profile",
    ".env",
];

/// A word of a command before it is split into fields.
#[derive(Default)]
pub(super) struct Word {
    bytes: Vec<u8>,
    /// It stands even if it is empty.
    quoted: bool,
    /// What was undone in it.
    pub(super) disguise: &'static str,
    /// It was written so that it does not look like what it is.
    pub(super) masked: bool,
    /// A part of it was decoded.
    pub(super) decoded: bool,
}

impl Word {
    pub(super) fn literal(text: &[u8]) -> Word {
        let mut word = Word {
            quoted: true,
            ..Word::default()
        };
        for byte in text {
            word.keep(*byte);
        }
        word
    }

    /// Adds a byte that is part of the word whatever it is.
    fn keep(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\r' => self.bytes.push(b'\t'),
            b'\n' | NEWLINE => self.bytes.push(NEWLINE),
            // Control characters would be read as our own marks.
            0..0x20 => {}
            _ => self.bytes.push(byte),
        }
    }

    /// Adds a byte that no quote protects.
    fn bare(&mut self, byte: u8) {
        match ACTIVE.iter().find(|(_, plain)| *plain == byte) {
            Some((mark, _)) => self.bytes.push(*mark),
            None => self.keep(byte),
        }
    }

    fn ends_in_letter(&self) -> bool {
        self.bytes.last().is_some_and(u8::is_ascii_alphabetic)
    }

    /// The word as one field, with nothing expanded.
    pub(super) fn whole(&self) -> Vec<u8> {
        let plain = self.bytes.iter().map(|byte| match *byte {
            SPLIT | JOINT => b'\t',
            byte => inactive(byte),
        });
        plain.collect()
    }

    /// The name that this word assigns to, and where its value starts.
    pub(super) fn assignment(&self) -> Option<(&[u8], &[u8])> {
        let equals = memchr::memchr(b'=', &self.bytes)?;
        let name = self.bytes[..equals]
            .strip_suffix(b"+")
            .unwrap_or(&self.bytes[..equals]);
        let valid = name.first().is_some_and(|byte| !byte.is_ascii_digit())
            && name
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        valid.then(|| (name, &self.bytes[equals + 1..]))
    }

    /// The word with what an `IFS` parts put together again, where there is any.
    pub(super) fn joined(&self) -> Option<Vec<u8>> {
        self.bytes.contains(&JOINT).then(|| {
            let kept = self
                .bytes
                .iter()
                .filter(|byte| !matches!(**byte, SPLIT | JOINT));
            kept.map(|byte| inactive(*byte)).collect()
        })
    }
}

fn inactive(byte: u8) -> u8 {
    match ACTIVE.iter().find(|(mark, _)| *mark == byte) {
        Some((_, plain)) => *plain,
        None => byte,
    }
}

/// The bytes of a value as a script would write them.
pub(super) fn written(value: &[u8]) -> Vec<u8> {
    let plain = value.iter().map(|byte| match *byte {
        SPLIT | JOINT => b' ',
        byte => inactive(byte),
    });
    plain.collect()
}

impl Shell<'_> {
    /// Reads one word. In a command's name more is undone than elsewhere.
    pub(super) fn word(&mut self, reader: &mut Reader<'_>, head: bool, depth: usize) -> Word {
        let mut word = Word::default();
        let posix = reader.dialect == Dialect::Posix;
        if matches!((reader.peek(0), reader.peek(1)), (b'<' | b'>', b'(')) && posix {
            reader.advance(1);
            let inner = reader.enclosed();
            self.script(inner, depth + 1);
            word.bytes.extend_from_slice(b"<(");
            inner.iter().for_each(|byte| word.keep(*byte));
            word.keep(b')');
        }
        // Whether it has what only a path of Windows has, as far as was looked.
        let (mut drive, mut looked) = (false, 0);
        while !reader.ends_word() {
            match reader.peek(0) {
                b'\\' if posix => {
                    let next = reader.peek(1);
                    let more = word.bytes.get(looked..).unwrap_or_default();
                    drive |= more.iter().any(|byte| matches!(byte, b':' | b'\\'));
                    looked = word.bytes.len();
                    if next.is_ascii_alphabetic() && word.ends_in_letter() && !drive {
                        (word.disguise, word.masked) = ("escape", true);
                    }
                    reader.advance(2);
                    if next != b'\n' && next != 0 {
                        word.keep(next);
                    }
                }
                b'\'' => self.single(reader, &mut word),
                b'"' => self.double(reader, &mut word, head, depth),
                b'$' => self.dollar(reader, &mut word, head, false, depth),
                b'`' if posix => {
                    let inner = reader.backticks();
                    self.substitute(inner, &mut word, head, false, depth);
                }
                b'^' | b'`' if !posix => {
                    if word.ends_in_letter() && reader.peek(1).is_ascii_alphabetic() {
                        (word.disguise, word.masked) = ("escape", true);
                    }
                    reader.advance(1);
                }
                b'%' if !posix => self.percent(reader, &mut word),
                byte => {
                    word.bare(byte);
                    reader.advance(1);
                }
            }
            if word.bytes.len() > VALUE_BYTES_MAX && !self.work(1) {
                break;
            }
        }
        word
    }

    fn single(&mut self, reader: &mut Reader<'_>, word: &mut Word) {
        let inside = word.ends_in_letter();
        let Some(text) = reader.single() else {
            reader.advance(1);
            return;
        };
        word.quoted = true;
        if inside && text.len() < 2 && reader.peek(0).is_ascii_alphabetic() {
            (word.disguise, word.masked) = ("quotes", true);
        }
        let before = word.bytes.len();
        evaluate::escapes(text, false, &mut |byte| word.keep(byte));
        if word.bytes.len() - before < text.len() {
            word.disguise = "escape";
        }
    }

    fn double(&mut self, reader: &mut Reader<'_>, word: &mut Word, head: bool, depth: usize) {
        let inside = word.ends_in_letter();
        let Some(text) = reader.escaped(b'"') else {
            reader.advance(1);
            return;
        };
        word.quoted = true;
        if inside && text.len() < 2 && reader.peek(0).is_ascii_alphabetic() {
            (word.disguise, word.masked) = ("quotes", true);
        }
        let mut inner = Reader::new(text, reader.dialect);
        while !inner.is_done() {
            match (inner.peek(0), inner.peek(1)) {
                (b'\\', b'\n') => inner.advance(2),
                (b'\\', next @ (b'$' | b'`' | b'"' | b'\\')) => {
                    word.keep(next);
                    inner.advance(2);
                }
                (b'\\', _) => {
                    let run = inner.run(|byte| !matches!(byte, b'$' | b'`' | b'"'));
                    evaluate::escapes(run, false, &mut |byte| word.keep(byte));
                }
                (b'$', _) => self.dollar(&mut inner, word, head, true, depth),
                (b'`', _) if inner.dialect == Dialect::Posix => {
                    let text = inner.backticks();
                    self.substitute(text, word, head, true, depth);
                }
                (byte, _) => {
                    word.keep(byte);
                    inner.advance(1);
                }
            }
        }
    }

    /// What follows a dollar sign.
    fn dollar(
        &mut self,
        reader: &mut Reader<'_>,
        word: &mut Word,
        head: bool,
        quoted: bool,
        depth: usize,
    ) {
        reader.advance(1);
        match reader.peek(0) {
            b'\'' if !quoted => {
                if let Some(text) = reader.escaped(b'\'') {
                    word.quoted = true;
                    word.disguise = "escape";
                    word.masked |= memchr::memchr(b'\\', text).is_some();
                    evaluate::escapes(text, true, &mut |byte| word.keep(byte));
                }
            }
            b'"' if !quoted => {}
            b'(' if reader.peek(1) == b'(' => {
                reader.enclosed();
                word.keep(b'0');
            }
            b'(' => {
                let inner = reader.enclosed();
                self.substitute(inner, word, head, quoted, depth);
            }
            b'{' => {
                let inner = reader.enclosed();
                let value = self.parameter(inner);
                self.value(value, inner, word, head, quoted);
            }
            b'@' | b'*' | b'#' | b'!' | b'-' | b'?' | b'1'..=b'9' => {
                reader.advance(1);
                word.quoted |= quoted;
                word.disguise = "variable";
            }
            byte if byte.is_ascii_alphanumeric() || byte == b'_' => {
                let colon = reader.dialect == Dialect::Windows;
                let name = reader.run(|byte| {
                    byte.is_ascii_alphanumeric() || byte == b'_' || (colon && byte == b':')
                });
                let value = self.variable(name);
                self.value(value, name, word, head, quoted);
            }
            _ => word.keep(b'$'),
        }
    }

    /// `%NAME%`, as cmd.exe writes it.
    fn percent(&mut self, reader: &mut Reader<'_>, word: &mut Word) {
        reader.advance(1);
        let name = reader.run(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if reader.peek(0) != b'%' || name.is_empty() {
            word.keep(b'%');
            name.iter().for_each(|byte| word.keep(*byte));
            return;
        }
        reader.advance(1);
        let known = ENVIRONMENT
            .iter()
            .find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(name));
        match (known, self.variable(name)) {
            (_, Some(value)) => value.iter().for_each(|byte| word.keep(*byte)),
            (Some((_, value)), _) => value.bytes().for_each(|byte| word.keep(byte)),
            _ => {
                word.keep(b'%');
                name.iter().for_each(|byte| word.keep(*byte));
                word.keep(b'%');
            }
        }
    }

    fn variable(&self, name: &[u8]) -> Option<Vec<u8>> {
        let set = self.variables.iter().rev().find(|(set, _)| set == name);
        let known = ENVIRONMENT
            .iter()
            .find(|(known, _)| known.as_bytes() == name);
        let value = set.map(|(_, value)| value.clone());
        value.or_else(|| known.map(|(_, value)| value.as_bytes().to_vec()))
    }

    /// Remembers a variable that the command sets.
    pub(super) fn assign(&mut self, name: &[u8], value: &[u8]) {
        if value.len() > VALUE_BYTES_MAX || self.variables.len() == VARIABLES_MAX {
            self.plain.obscured |= value.len() > VALUE_BYTES_MAX;
            self.variables.truncate(VARIABLES_MAX / 2);
            return;
        }
        self.variables.retain(|(set, _)| set != name);
        self.variables.push((name.to_vec(), written(value)));
    }

    /// `${…}`, without its braces.
    fn parameter(&self, inner: &[u8]) -> Option<Vec<u8>> {
        let (indirect, inner) = match inner {
            [b'!', rest @ ..] => (true, rest),
            [b'#', rest @ ..] if !rest.is_empty() => return Some(b"0".to_vec()),
            _ => (false, inner),
        };
        let length = inner
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_')
            .count()
            .max(usize::from(matches!(
                inner.first(),
                Some(b'@' | b'*' | b'?')
            )));
        let (name, operation) = inner.split_at(length);
        let mut value = match name {
            b"@" | b"*" => Some(Vec::new()),
            _ => self.variable(name),
        };
        if indirect {
            value = value.and_then(|name| self.variable(&name));
        }
        operate(value, operation)
    }

    /// Adds a variable's value, or what stands for one that is not known.
    fn value(
        &mut self,
        value: Option<Vec<u8>>,
        name: &[u8],
        word: &mut Word,
        head: bool,
        quoted: bool,
    ) {
        word.quoted |= quoted;
        if head || value.is_some() {
            word.disguise = "variable";
        }
        let Some(value) = value else {
            let environment = |byte: &u8| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_');
            let name = name
                .split(|byte| matches!(byte, b':' | b'-' | b'#' | b'%'))
                .next();
            let name = name.unwrap_or_default();
            if !head && name.len() >= 3 && name.iter().all(environment) {
                word.keep(b'$');
                name.iter().for_each(|byte| word.keep(*byte));
            }
            return;
        };
        if !self.work(value.len()) {
            return;
        }
        let own = self.variables.iter().find(|(name, _)| name == b"IFS");
        let own = own.map(|(_, value)| value.as_slice()).unwrap_or_default();
        for byte in value {
            match byte {
                _ if quoted => word.keep(byte),
                _ if own.contains(&byte) => word.bytes.push(JOINT),
                b' ' | b'\t' | b'\n' => word.bytes.push(SPLIT),
                b'{' | b'}' | b',' => word.keep(byte),
                _ => word.bare(byte),
            }
        }
    }

    /// A command substitution: what it runs is a line of its own, what it writes is part of the word.
    fn substitute(
        &mut self,
        inner: &[u8],
        word: &mut Word,
        head: bool,
        quoted: bool,
        depth: usize,
    ) {
        word.quoted |= quoted;
        let known = self.script(inner, depth + 1);
        match known {
            Some(value) if !value.is_empty() => {
                word.disguise = "substitution";
                word.decoded |= evaluate::decodes(inner);
                for byte in value.trim_ascii_end() {
                    match byte {
                        b' ' | b'\t' | b'\n' if !quoted => word.bytes.push(SPLIT),
                        _ => word.keep(*byte),
                    }
                }
            }
            // What it writes is not known; its own words are the best guess.
            _ if head => {
                word.disguise = "substitution";
                for byte in inner {
                    match byte {
                        b' ' | b'\t' | b'\n' => word.bytes.push(SPLIT),
                        _ => word.keep(*byte),
                    }
                }
            }
            _ => {
                word.bytes.extend_from_slice(b"$(");
                inner.iter().for_each(|byte| word.keep(*byte));
                word.keep(b')');
            }
        }
    }

    /// The fields that a word becomes.
    pub(super) fn fields(&mut self, word: &Word, head: bool, out: &mut Vec<Vec<u8>>) {
        let marked = |byte: &u8| matches!(*byte, 0x11..=0x17 | SPLIT | JOINT);
        if !word.bytes.iter().any(marked) {
            if word.quoted || !word.bytes.is_empty() {
                out.push(word.bytes.clone());
            }
            return;
        }
        let mut words = vec![word.bytes.clone()];
        self.braces(&mut words);
        for word in &words {
            let parts = word.split(|byte| matches!(*byte, SPLIT | JOINT));
            for part in parts.filter(|part| !part.is_empty()) {
                let first = head && out.is_empty();
                out.push(
                    pattern(part, first)
                        .unwrap_or_else(|| part.iter().map(|byte| inactive(*byte)).collect()),
                );
            }
        }
    }

    /// Brace expansion, from the left, until nothing is left to expand.
    fn braces(&mut self, words: &mut Vec<Vec<u8>>) {
        let mut at = 0;
        while at < words.len() {
            let Some((open, commas, close)) = brace(&words[at]) else {
                at += 1;
                continue;
            };
            let word = words.remove(at);
            if words.len() + commas.len() >= BRACE_WORDS_MAX
                || !self.work(word.len() * commas.len())
            {
                self.plain.obscured = true;
                return;
            }
            let mut start = open + 1;
            for (i, end) in commas.into_iter().chain([close]).enumerate() {
                let choice = [&word[..open], &word[start..end], &word[close + 1..]].concat();
                words.insert(at + i, choice);
                start = end + 1;
            }
        }
        words.retain(|word| !word.is_empty());
    }
}

/// The first pair of braces with a comma in it: where it opens, its commas, where it closes.
fn brace(word: &[u8]) -> Option<(usize, Vec<usize>, usize)> {
    let mut opened: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut best: Option<(usize, Vec<usize>, usize)> = None;
    for (at, byte) in word.iter().enumerate() {
        match byte {
            0x11 => opened.push((at, Vec::new())),
            0x12 => {
                if let Some((_, commas)) = opened.last_mut() {
                    commas.push(at);
                }
            }
            0x13 => {
                if let Some((open, commas)) = opened.pop()
                    && !commas.is_empty()
                    && best.as_ref().is_none_or(|(first, ..)| open < *first)
                {
                    best = Some((open, commas, at));
                }
            }
            _ => {}
        }
    }
    best
}

/// What a pattern stands for, if it stands for a command or a file that rules know.
fn pattern(word: &[u8], head: bool) -> Option<Vec<u8>> {
    let active = |byte: &u8| (0x14..=0x17).contains(byte);
    if word.len() > PATTERN_BYTES_MAX || !word.iter().any(active) {
        return None;
    }
    let slash = memchr::memrchr(b'/', word).map_or(0, |slash| slash + 1);
    let name = &word[slash..];
    if !name.iter().any(u8::is_ascii_alphabetic) {
        return None;
    }
    if head {
        let found = COMMANDS
            .iter()
            .find(|command| matches(name, command.as_bytes()));
        return found.map(|command| command.as_bytes().to_vec());
    }
    let homes: [&[u8]; 2] = [b"~/", b"/root/"];
    let tail = homes
        .iter()
        .find_map(|home| word.strip_prefix(*home))
        .unwrap_or_else(|| {
            let inside = word
                .strip_prefix(b"/home/")
                .and_then(|rest| memchr::memchr(b'/', rest).map(|slash| &rest[slash + 1..]));
            inside.unwrap_or(word)
        });
    let found = FILES.iter().find(|file| matches(tail, file.as_bytes()))?;
    Some([&word[..word.len() - tail.len()], found.as_bytes()].concat())
}

/// Whether a name is one that a pattern stands for.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Where to go on when a star was too short.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        let step = match pattern.get(p) {
            Some(0x14) => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some(0x15) if name[n] != b'/' => Some(1),
            Some(0x16) => set(&pattern[p + 1..], name[n]),
            Some(byte) if inactive(*byte) == name[n] => Some(1),
            _ => None,
        };
        match (step, star) {
            (Some(length), _) => (p, n) = (p + length, n + 1),
            (None, Some((at, from))) if name[from] != b'/' => {
                star = Some((at, from + 1));
                (p, n) = (at + 1, from + 1);
            }
            _ => return false,
        }
    }
    pattern[p..].iter().all(|byte| *byte == 0x14)
}

/// Bytes of the set that starts here, bracket and all, if it holds the byte.
fn set(pattern: &[u8], byte: u8) -> Option<usize> {
    let close = memchr::memchr(0x17, pattern)?;
    let (not, inner) = match &pattern[..close] {
        [b'!' | b'^', rest @ ..] => (true, rest),
        inner => (false, inner),
    };
    let mut held = inner.contains(&byte);
    for range in inner.windows(3) {
        held |= range[1] == b'-' && (range[0]..=range[2]).contains(&byte);
    }
    (held != not).then_some(close + 2)
}

/// An operation on a parameter: defaults, parts, what is cut off, what is put in place.
fn operate(value: Option<Vec<u8>>, operation: &[u8]) -> Option<Vec<u8>> {
    let set = value.as_ref().is_some_and(|value| !value.is_empty());
    let plain = |text: &[u8]| {
        let kept = text
            .iter()
            .filter(|byte| !matches!(byte, b'\'' | b'"' | b'\\'));
        kept.copied().collect::<Vec<u8>>()
    };
    match operation {
        [] => value,
        [b':', b'-' | b'=', rest @ ..] | [b'-' | b'=', rest @ ..] => match set {
            true => value,
            false => Some(plain(rest)),
        },
        [b':', b'+', rest @ ..] | [b'+', rest @ ..] => {
            Some(if set { plain(rest) } else { Vec::new() })
        }
        [b':', b'?', ..] | [b'?', ..] => value,
        [b':', rest @ ..] => part(&value?, rest),
        [side @ (b'#' | b'%'), rest @ ..] => {
            let rest = rest.strip_prefix(&[*side]).unwrap_or(rest);
            Some(cut(
                value?,
                rest,
                *side == b'#',
                operation.get(1) == Some(side),
            ))
        }
        [b'/', rest @ ..] => {
            let all = rest.first() == Some(&b'/');
            let rest = if all { &rest[1..] } else { rest };
            let slash = memchr::memchr(b'/', rest).unwrap_or(rest.len());
            let (find, with) = (&rest[..slash], rest.get(slash + 1..).unwrap_or_default());
            Some(evaluate::replace(&value?, find, with, all))
        }
        [b',', ..] => value.map(|value| value.to_ascii_lowercase()),
        [b'^', ..] => value.map(|value| value.to_ascii_uppercase()),
        _ => value,
    }
}

/// `offset:length` of a value.
fn part(value: &[u8], range: &[u8]) -> Option<Vec<u8>> {
    let mut numbers = range.split(|byte| *byte == b':').map(|number| {
        let number = std::str::from_utf8(number).unwrap_or("").trim();
        if number.is_empty() {
            Some(0)
        } else {
            number.parse::<isize>().ok()
        }
    });
    let bytes = isize::try_from(value.len()).ok()?;
    let from = |number: isize| {
        if number < 0 {
            number.saturating_add(bytes)
        } else {
            number
        }
    };
    let start = from(numbers.next()??).clamp(0, bytes);
    let end = match numbers.next() {
        Some(length) => match length? {
            length if length < 0 => from(length),
            length => start.saturating_add(length),
        },
        None => bytes,
    };
    let end = end.clamp(start, bytes);
    Some(value[start.cast_unsigned()..end.cast_unsigned()].to_vec())
}

/// A value without the start or end that a pattern stands for.
fn cut(value: Vec<u8>, pattern: &[u8], start: bool, longest: bool) -> Vec<u8> {
    if value.len() > PATTERN_BYTES_MAX || pattern.len() > PATTERN_BYTES_MAX {
        return value;
    }
    let pattern: Vec<u8> = pattern
        .iter()
        .map(
            |byte| match ACTIVE.iter().find(|(_, plain)| plain == byte) {
                Some((mark, _)) => *mark,
                None => *byte,
            },
        )
        .collect();
    let mut lengths: Vec<usize> = (0..=value.len()).collect();
    if longest {
        lengths.reverse();
    }
    for length in lengths {
        let (piece, rest) = match start {
            true => value.split_at(length),
            false => {
                let (rest, piece) = value.split_at(value.len() - length);
                (piece, rest)
            }
        };
        if matches(&pattern, piece) {
            return rest.to_vec();
        }
    }
    value
}
