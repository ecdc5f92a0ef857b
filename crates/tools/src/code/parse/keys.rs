//! Reads configuration by its keys: YAML by indent; TOML, INI and their kin by sections; JSON by its outermost
//! objects.
//!
//! These are no parsers: they find where keys of the outer two levels stand, in files of any state, and leave the
//! rest as text.

use super::SYMBOLS_MAX;
use super::blocks;
use super::chunks::Scope;
use super::grammar::Found;
use super::lines::Lines;
use super::types::{Bytes, Symbol, SymbolKind};

/// Bytes of a key that is kept, and of the line that shows it.
const KEY_BYTES_MAX: usize = 120;
const LINE_BYTES_MAX: usize = 160;

/// A key or section: where it stands and how deep.
struct Key {
    row: usize,
    level: usize,
    at: Bytes,
}

/// Reads a file of lines: `key: value`, `key = value`, `[section]`, `block "label" {`.
pub(super) fn find(text: &[u8], lines: &Lines) -> Found {
    let mut found = Found::default();
    let mut keys = Vec::new();
    let mut in_section = false;
    // Rows of a multi-line string (TOML): its lines are no keys.
    let mut quoted: Option<&[u8]> = None;
    let mut after_blank = true;
    for row in 0..lines.count() {
        let start = lines.start(row);
        let line = lines.bytes(row, row + 1).of(text);
        let bare = line.trim_ascii();
        let indent = blocks::indent(line);
        let is_comment = quoted.is_none() && matches!(bare.first(), Some(b'#' | b';'))
            || bare.starts_with(b"//");
        let mut depth = 2 + indent * 2 + usize::from(!after_blank);
        if is_comment {
            let from = start + line.len() - line.trim_ascii_start().len();
            found.comments.push(Bytes::new(from, from + bare.len()));
        } else if quoted.is_none() {
            if let Some(section) = section(bare) {
                in_section = true;
                depth = 0;
                keys.push(Key {
                    row,
                    level: 0,
                    at: place(text, start, section),
                });
            } else if let Some(key) = key(bare).filter(|_| indent <= 1) {
                let level = usize::from(in_section || indent > 0);
                depth = if level == 0 { 1 } else { depth };
                keys.push(Key {
                    row,
                    level,
                    at: place(text, start, key),
                });
            }
        }
        for sign in [&b"\"\"\""[..], b"'''"] {
            let count = count(bare, sign);
            if count % 2 == 1 && quoted.is_none_or(|open| open == sign) {
                quoted = if quoted.is_some() { None } else { Some(sign) };
            }
        }
        found.depths.push(depth);
        after_blank = bare.is_empty() || is_comment && after_blank;
    }
    keep(&mut found, text, lines, &keys);
    found
}

fn count(line: &[u8], sign: &[u8]) -> usize {
    memchr::memmem::find_iter(line, sign).count()
}

/// Where `part`, a slice of the text's line that begins at `start`, stands.
fn place(text: &[u8], start: usize, part: &[u8]) -> Bytes {
    let line = &text[start..];
    let at = memchr::memmem::find(line, part).unwrap_or(0);
    Bytes::new(start + at, start + at + part.len())
}

/// `[a.b]`, `[[a]]`, and `resource "kind" "name" {`.
fn section(line: &[u8]) -> Option<&[u8]> {
    if let Some(rest) = line.strip_prefix(b"[") {
        let rest = rest.strip_prefix(b"[").unwrap_or(rest);
        let end = memchr::memchr(b']', rest)?;
        let name = rest[..end].trim_ascii();
        let after = rest[end..]
            .iter()
            .skip_while(|b| **b == b']')
            .find(|b| !b.is_ascii_whitespace());
        let is_name =
            !name.is_empty() && !name.contains(&b',') && matches!(after, None | Some(b'#' | b';'));
        return is_name.then_some(name);
    }
    let block = line.strip_suffix(b"{")?.trim_ascii_end();
    let word = block
        .iter()
        .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_')
        .count();
    let labels = block[word..].trim_ascii();
    let is_block =
        word > 0 && (labels.is_empty() || labels.starts_with(b"\"") && labels.ends_with(b"\""));
    is_block.then_some(block)
}

/// `key:`, `"key": value`, `key = value`.
fn key(line: &[u8]) -> Option<&[u8]> {
    let end = line.iter().position(|b| matches!(b, b':' | b'='))?;
    let is_key = match line[end] {
        b'=' => true,
        _ => matches!(line.get(end + 1), None | Some(b' ' | b'\t')),
    };
    let name = line[..end].trim_ascii_end();
    let bare = |b: u8| matches!(b, b'"' | b'\'');
    let name = match name {
        [open, inner @ .., close] if bare(*open) && open == close => inner,
        name => name,
    };
    let plain = |b: &u8| {
        b.is_ascii_alphanumeric()
            || matches!(b, b'_' | b'-' | b'.' | b'/' | b'$' | b'@' | b' ')
            || *b >= 0x80
    };
    let is_plain = !name.is_empty()
        && name.len() <= KEY_BYTES_MAX
        && name.iter().all(plain)
        && name[0] != b'-';
    (is_key && is_plain).then_some(name)
}

/// Reads JSON, with comments or without.
pub(super) fn json(text: &[u8], lines: &Lines) -> Found {
    let mut found = Found {
        depths: vec![0; lines.count()],
        ..Found::default()
    };
    let mut keys = Vec::new();
    let mut scan = Json {
        text,
        at: 0,
        stack: Vec::new(),
    };
    let mut row = 0;
    loop {
        let from = scan.at;
        let Some(token) = scan.next() else {
            break;
        };
        let depth =
            scan.stack.len() - usize::from(matches!(token, Token::Open) && !scan.stack.is_empty());
        while row < lines.count() && lines.start(row) <= from.max(scan.token_start(&token)) {
            found.depths[row] = depth * 2;
            row += 1;
        }
        match token {
            Token::Text(at)
                if !at.is_empty()
                    && scan.stack.iter().all(|kind| *kind == b'{')
                    && matches!(depth, 1 | 2)
                    && scan.is_key() =>
            {
                keys.push(Key {
                    row: lines.row(at.start),
                    level: depth - 1,
                    at,
                });
            }
            Token::Comment(at) => found.comments.push(at),
            _ => {}
        }
        if keys.len() >= SYMBOLS_MAX {
            break;
        }
    }
    for depth in found.depths.iter_mut().skip(row) {
        *depth = 2;
    }
    keep(&mut found, text, lines, &keys);
    found
}

struct Json<'a> {
    text: &'a [u8],
    at: usize,
    /// The brackets that are open; bounded by [`JSON_DEPTH_MAX`].
    stack: Vec<u8>,
}

/// Brackets in each other that are told apart.
const JSON_DEPTH_MAX: usize = 64;

enum Token {
    Text(Bytes),
    Comment(Bytes),
    Open,
    Close,
}

impl Json<'_> {
    /// The next token; what is between tokens is skipped.
    fn next(&mut self) -> Option<Token> {
        loop {
            let byte = *self.text.get(self.at)?;
            self.at += 1;
            match byte {
                b'"' => return Some(Token::Text(self.text_end())),
                b'{' | b'[' => {
                    if self.stack.len() < JSON_DEPTH_MAX {
                        self.stack.push(byte);
                    }
                    return Some(Token::Open);
                }
                b'}' | b']' => {
                    self.stack.pop();
                    return Some(Token::Close);
                }
                b'/' if matches!(self.text.get(self.at), Some(b'/' | b'*')) => {
                    return Some(Token::Comment(self.comment()));
                }
                _ => {}
            }
        }
    }

    fn token_start(&self, token: &Token) -> usize {
        match token {
            Token::Text(at) | Token::Comment(at) => at.start as usize,
            Token::Open | Token::Close => self.at - 1,
        }
    }

    /// The inner bytes of the string that has begun.
    fn text_end(&mut self) -> Bytes {
        let start = self.at;
        while let Some(byte) = self.text.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'"' => return Bytes::new(start, self.at - 1),
                b'\n' => return Bytes::new(start, self.at - 1),
                _ => {}
            }
        }
        self.at = self.at.min(self.text.len());
        Bytes::new(start, self.at)
    }

    fn comment(&mut self) -> Bytes {
        let start = self.at - 1;
        let rest = &self.text[self.at..];
        let length = match rest[0] {
            b'/' => memchr::memchr(b'\n', rest).unwrap_or(rest.len()),
            _ => memchr::memmem::find(&rest[1..], b"*/").map_or(rest.len(), |end| end + 3),
        };
        self.at += length;
        Bytes::new(start, self.at)
    }

    /// Whether a colon follows.
    fn is_key(&self) -> bool {
        self.text[self.at.min(self.text.len())..]
            .iter()
            .find(|b| !b.is_ascii_whitespace())
            == Some(&b':')
    }
}

/// Makes symbols and scopes of keys.
fn keep(found: &mut Found, text: &[u8], lines: &Lines, keys: &[Key]) {
    let mut section: Option<&Key> = None;
    let name = |key: &Key| String::from_utf8_lossy(key.at.of(text)).into_owned();
    let ends = ends(keys, lines.count());
    for (key, end) in keys.iter().zip(ends).take(SYMBOLS_MAX) {
        section = if key.level == 0 { None } else { section };
        let line = lines.bytes(key.row, key.row + 1).of(text).trim_ascii();
        let line = String::from_utf8_lossy(&line[..line.len().min(LINE_BYTES_MAX)]);
        let bytes = lines.bytes(key.row, end);
        found.symbols.push(Symbol {
            name: name(key).into(),
            kind: SymbolKind::Key,
            parent: section.map(name).unwrap_or_default().into(),
            span: lines.span(bytes),
            at: key.at,
            signature: line.into(),
            doc: None,
        });
        found.scopes.push(Scope {
            bytes,
            name: name(key).into(),
        });
        if key.level == 0 {
            section = Some(key);
        }
    }
}

/// The row behind the last one of each key: that of the next key that is not deeper.
fn ends(keys: &[Key], count: usize) -> Vec<usize> {
    let mut ends = vec![count; keys.len()];
    let (mut any, mut outer) = (count, count);
    for (index, key) in keys.iter().enumerate().rev() {
        ends[index] = if key.level == 0 { outer } else { any }.max(key.row + 1);
        any = key.row;
        if key.level == 0 {
            outer = key.row;
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(found: &Found, expected: &[(&str, &str, u32, u32)]) {
        let shown: Vec<_> = found
            .symbols
            .iter()
            .map(|s| (&*s.name, &*s.parent, s.span.first, s.span.last))
            .collect();
        assert_eq!(shown, expected);
    }

    fn read(text: &str) -> Found {
        find(text.as_bytes(), &Lines::of(text.as_bytes()))
    }

    fn read_json(text: &str) -> Found {
        json(text.as_bytes(), &Lines::of(text.as_bytes()))
    }

    #[test]
    fn yaml_has_keys_of_two_levels() {
        check(
            &read("# c\nservices:\n  web:\n    image: x\n  db: 1\nurl: http://a:1\n- no: 1\n"),
            &[
                ("services", "", 2, 5),
                ("web", "services", 3, 4),
                ("db", "services", 5, 5),
                ("url", "", 6, 7),
            ],
        );
    }

    #[test]
    fn toml_has_sections() {
        check(
            &read(
                "a = 1\n[package]\nname = \"x\"\nd = \"\"\"\nno = 1\n\"\"\"\n[[bin]]\n[dep.x] # y\nv = [\n[1, 2],\n]\n",
            ),
            &[
                ("a", "", 1, 1),
                ("package", "", 2, 6),
                ("name", "package", 3, 3),
                ("d", "package", 4, 6),
                ("bin", "", 7, 7),
                ("dep.x", "", 8, 11),
                ("v", "dep.x", 9, 11),
            ],
        );
    }

    #[test]
    fn terraform_has_blocks() {
        check(
            &read("resource \"aws\" \"a\" {\n  b = 1\n}\n"),
            &[
                ("resource \"aws\" \"a\"", "", 1, 3),
                ("b", "resource \"aws\" \"a\"", 2, 3),
            ],
        );
    }

    #[test]
    fn json_has_the_keys_of_its_outer_objects() {
        check(
            &read_json(
                "{\n  // c\n  \"a\": {\n    \"b\": [{\"no\": 1}],\n    \"c\": \"d\\\"\"\n  },\n  \"e\": \"f\"\n}\n",
            ),
            &[
                ("a", "", 3, 6),
                ("b", "a", 4, 4),
                ("c", "a", 5, 6),
                ("e", "", 7, 8),
            ],
        );
        check(&read_json("[{\"no\": 1}]"), &[]);
        for broken in [
            "{\"a",
            "{\"a\\",
            "}}}]",
            "/",
            "/*",
            "{/",
            "\"",
            "{\"a\":{{{{",
        ] {
            read_json(broken);
        }
    }
}
