//! What simple commands write: `echo`, `printf`, decoders, and the filters that turn text around.
//!
//! Only commands whose output depends on nothing but their words and their input; all others are unknown.

use super::VALUE_BYTES_MAX;

/// What was undone, for a command whose output another one runs.
pub(super) fn disguise(argv: &[Vec<u8>]) -> &'static str {
    match argv.first().map(Vec::as_slice) {
        Some(b"base64" | b"base32" | b"openssl" | b"basenc") => "base64",
        Some(b"xxd" | b"od") => "hex",
        Some(b"rev" | b"tr" | b"sed" | b"tac" | b"cut") => "reordered",
        _ => "",
    }
}

/// Whether a script undoes an encoding.
pub(super) fn decodes(script: &[u8]) -> bool {
    const DECODERS: [&[u8]; 6] = [b"base64", b"base32", b"xxd", b"openssl", b"rev", b"basenc"];
    let has = |name: &&[u8]| memchr::memmem::find(script, name).is_some();
    DECODERS.iter().any(has)
}

/// What a command writes to its standard output; `None` where that is not known.
pub(super) fn output(argv: &[Vec<u8>], input: Option<&[u8]>) -> Option<Vec<u8>> {
    let (name, rest) = argv.split_first()?;
    let words: Vec<&[u8]> = rest.iter().map(Vec::as_slice).collect();
    let has = |flags: &[&[u8]]| words.iter().any(|word| flags.contains(word));
    let text = match name.as_slice() {
        b"echo" => Some(echo(&words)),
        b"printf" => Some(printf(&words)),
        b"cat" | b"tee"
            if words
                .iter()
                .all(|word| word.starts_with(b"-") || name == b"tee") =>
        {
            input.map(<[u8]>::to_vec)
        }
        b"which" | b"type" | b"command" | b"realpath" => words
            .iter()
            .rfind(|word| !word.starts_with(b"-"))
            .map(|word| word.to_vec()),
        b"base64" | b"base32" | b"openssl" | b"basenc"
            if has(&[b"-d", b"-D", b"--decode", b"-di", b"-id", b"-A"]) =>
        {
            decode(name, file_or(input, &words)?)
        }
        b"xxd"
            if words
                .iter()
                .any(|word| word.starts_with(b"-") && word.contains(&b'r')) =>
        {
            unhex(input?)
        }
        b"rev" => input.map(reverse_lines),
        b"tac" => input.map(|input| {
            let mut lines: Vec<&[u8]> = input.trim_ascii_end().split(|b| *b == b'\n').collect();
            lines.reverse();
            lines.join(&b'\n')
        }),
        b"tr" => translate(&words, input?),
        b"sed" => words.last().and_then(|script| substitute(script, input?)),
        b"cut" => cut(&words, input?),
        _ => None,
    };
    text.filter(|text| text.len() <= VALUE_BYTES_MAX)
}

fn file_or<'t>(input: Option<&'t [u8]>, words: &[&'t [u8]]) -> Option<&'t [u8]> {
    let flag = |word: &&[u8]| word.starts_with(b"-") || [&b"base64"[..], b"enc"].contains(word);
    match words.iter().all(flag) {
        true => input,
        false => None,
    }
}

fn echo(words: &[&[u8]]) -> Vec<u8> {
    let flags = words
        .iter()
        .take_while(|word| matches!(**word, b"-e" | b"-n" | b"-en" | b"-ne" | b"-E"))
        .count();
    let mut out = Vec::new();
    // Blanks inside words are tabs here; the shell's reader splits at either.
    escapes(&words[flags..].join(&b' '), false, &mut |byte| {
        out.push(byte)
    });
    out.push(b'\n');
    out
}

fn printf(words: &[&[u8]]) -> Vec<u8> {
    let words = match words {
        [b"--", rest @ ..] => rest,
        words => words,
    };
    let mut out = Vec::new();
    let Some((format, words)) = words.split_first() else {
        return out;
    };
    let mut next = words.iter();
    let mut at = 0;
    let mut literal = Vec::new();
    // The format is used again for the words that are left.
    while out.len() <= VALUE_BYTES_MAX {
        while at < format.len() {
            if format[at] != b'%' {
                literal.push(format[at]);
                at += 1;
                continue;
            }
            let flags = format[at + 1..]
                .iter()
                .take_while(|b| b"-+ #0123456789.".contains(b));
            at += 1 + flags.count();
            escapes(&std::mem::take(&mut literal), true, &mut |byte| {
                out.push(byte)
            });
            match format.get(at) {
                Some(b'%') => out.push(b'%'),
                Some(b'b') => escapes(next.next().copied().unwrap_or_default(), true, &mut |b| {
                    out.push(b)
                }),
                _ => out.extend_from_slice(next.next().copied().unwrap_or_default()),
            }
            at += 1;
        }
        escapes(&std::mem::take(&mut literal), true, &mut |byte| {
            out.push(byte)
        });
        if next.len() == 0 || next.len() == words.len() {
            break;
        }
        at = 0;
    }
    out
}

/// Undoes backslash escapes. Without `all`, only those that spell a character by its number.
pub(super) fn escapes(text: &[u8], all: bool, put: &mut dyn FnMut(u8)) {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at + 1..];
        if text[at] != b'\\' || rest.is_empty() {
            put(text[at]);
            at += 1;
            continue;
        }
        at += 1;
        let (radix, from, most, least) = match rest[0] {
            b'x' => (16, 1, 2, if all { 1 } else { 2 }),
            b'u' => (16, 1, 4, 4),
            b'U' => (16, 1, 8, 8),
            b'0' => (8, 0, 4, 3),
            b'1'..=b'7' => (8, 0, 3, if all { 1 } else { 3 }),
            _ => (0, 0, 0, 0),
        };
        let digits = rest.get(from..).unwrap_or_default().iter().take(most);
        let digits = digits.map_while(|byte| char::from(*byte).to_digit(radix.max(2)));
        let digits: Vec<u32> = if radix == 0 {
            Vec::new()
        } else {
            digits.collect()
        };
        if radix > 0 && digits.len() >= least {
            let value = digits.iter().fold(0u32, |value, digit| {
                value.wrapping_mul(radix).wrapping_add(*digit)
            });
            at += from + digits.len();
            let bytes = [value as u8];
            let mut buffer = [0; 4];
            let bytes = match rest[0] {
                b'u' | b'U' => {
                    let letter = char::from_u32(value).unwrap_or(' ');
                    letter.encode_utf8(&mut buffer).as_bytes()
                }
                _ => &bytes,
            };
            bytes.iter().for_each(|byte| put(*byte));
            continue;
        }
        match rest[0] {
            b'n' | b't' | b'r' | b'f' | b'v' => put(b' '),
            byte if all => put(byte),
            byte => {
                put(b'\\');
                put(byte);
            }
        }
        at += 1;
    }
}

fn decode(name: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    match name {
        b"base32" => base32(text),
        _ => base64(text),
    }
}

/// Decodes base64; what is no digit of it is passed over.
pub(super) fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let value = |byte: &u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    };
    gather(text.iter().filter_map(value), 6)
}

fn base32(text: &[u8]) -> Option<Vec<u8>> {
    let value = |byte: &u8| match byte.to_ascii_uppercase() {
        byte @ b'A'..=b'Z' => Some(byte - b'A'),
        byte @ b'2'..=b'7' => Some(byte - b'2' + 26),
        _ => None,
    };
    gather(text.iter().filter_map(value), 5)
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text
        .iter()
        .filter_map(|byte| char::from(*byte).to_digit(16));
    gather(digits.map(|digit| digit as u8), 4)
}

/// Bytes from digits of so many bits each.
fn gather(digits: impl Iterator<Item = u8>, bits: u32) -> Option<Vec<u8>> {
    let (mut held, mut have) = (0u32, 0);
    let mut out = Vec::new();
    for digit in digits {
        held = held << bits | u32::from(digit);
        have += bits;
        if have >= 8 {
            have -= 8;
            out.push((held >> have) as u8);
            held &= (1 << have) - 1;
        }
    }
    (!out.is_empty()).then_some(out)
}

fn reverse_lines(text: &[u8]) -> Vec<u8> {
    let lines = text.trim_ascii_end().split(|byte| *byte == b'\n');
    let reversed = lines.map(|line| line.iter().rev().copied().collect::<Vec<u8>>());
    reversed.collect::<Vec<_>>().join(&b'\n')
}

fn translate(words: &[&[u8]], text: &[u8]) -> Option<Vec<u8>> {
    match words {
        [b"-d", out] => {
            let out = ranges(out);
            Some(
                text.iter()
                    .filter(|byte| !out.contains(byte))
                    .copied()
                    .collect(),
            )
        }
        [from, to] => {
            let (from, to) = (ranges(from), ranges(to));
            let last = *to.last()?;
            let change = |byte: &u8| match from.iter().position(|other| other == byte) {
                Some(at) => to.get(at).copied().unwrap_or(last),
                None => *byte,
            };
            Some(text.iter().map(change).collect())
        }
        _ => None,
    }
}

/// The bytes of a set as `tr` writes it.
fn ranges(text: &[u8]) -> Vec<u8> {
    match text {
        b"[:upper:]" => return (b'A'..=b'Z').collect(),
        b"[:lower:]" => return (b'a'..=b'z').collect(),
        _ => {}
    }
    let (mut out, mut at) = (Vec::new(), 0);
    while at < text.len() {
        match text[at..] {
            [from, b'-', to, ..] if from <= to => {
                out.extend(from..=to);
                at += 3;
            }
            _ => {
                out.push(text[at]);
                at += 1;
            }
        }
    }
    out
}

/// `s/this/that/g`, of literal text.
fn substitute(script: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    let (b's', rest) = script.split_first()? else {
        return None;
    };
    let (mark, rest) = rest.split_first()?;
    let parts: Vec<&[u8]> = rest.split(|byte| byte == mark).collect();
    let [find, with, flags] = parts[..] else {
        return None;
    };
    Some(replace(text, find, with, flags.contains(&b'g')))
}

/// A text with one thing in place of another.
pub(super) fn replace(text: &[u8], find: &[u8], with: &[u8], all: bool) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    if !find.is_empty() {
        while let Some(found) = memchr::memmem::find(&text[at..], find) {
            out.extend_from_slice(&text[at..at + found]);
            out.extend_from_slice(with);
            at += found + find.len();
            if !all {
                break;
            }
        }
    }
    out.extend_from_slice(&text[at..]);
    out
}

/// `cut -c from-to`, of each line.
fn cut(words: &[&[u8]], text: &[u8]) -> Option<Vec<u8>> {
    let range = match words {
        [b"-c" | b"-b", range] => *range,
        [range] => range
            .strip_prefix(b"-c")
            .or_else(|| range.strip_prefix(b"-b"))?,
        _ => return None,
    };
    let number = |part: &[u8]| std::str::from_utf8(part).ok()?.parse::<usize>().ok();
    let dash = memchr::memchr(b'-', range);
    let (from, to) = match dash {
        Some(dash) => (
            number(&range[..dash]).unwrap_or(1),
            number(&range[dash + 1..]),
        ),
        None => (number(range)?, number(range)),
    };
    let lines = text.trim_ascii_end().split(|byte| *byte == b'\n');
    let cut = lines.map(|line| {
        let to = to.unwrap_or(line.len()).min(line.len());
        line.get(from.saturating_sub(1)..to).unwrap_or_default()
    });
    Some(cut.collect::<Vec<_>>().join(&b'\n'))
}
