//! Reads Markdown by its headings, as CommonMark has them (0.31.2, sections 4.2 to 4.5).
//!
//! A heading is a symbol, and what stands below it is its scope. What is fenced is code: a `#` there is no heading.

use super::SYMBOLS_MAX;
use super::chunks::Scope;
use super::grammar::Found;
use super::lines::Lines;
use super::types::{Bytes, Symbol, SymbolKind};

/// How deep a line is that is no heading; behind a blank line, in a paragraph, and in a fence.
const TEXT: usize = 7;
const PARAGRAPH: usize = 9;
const FENCE: usize = 12;
/// Bytes of a heading that are kept.
const HEADING_BYTES_MAX: usize = 200;

/// A heading.
struct Heading {
    row: usize,
    level: usize,
    name: String,
    at: Bytes,
}

/// Reads a text.
pub(super) fn find(text: &[u8], lines: &Lines) -> Found {
    let mut found = Found::default();
    let headings = headings(text, lines, &mut found.depths);
    let mut around: Vec<&Heading> = Vec::new();
    for (index, heading) in headings.iter().take(SYMBOLS_MAX).enumerate() {
        around.retain(|outer| outer.level < heading.level);
        let next = headings[index + 1..]
            .iter()
            .find(|next| next.level <= heading.level);
        let bytes = lines.bytes(heading.row, next.map_or(lines.count(), |next| next.row));
        let parent = around
            .iter()
            .map(|outer| outer.name.as_str())
            .collect::<Vec<_>>()
            .join(" › ");
        found.symbols.push(Symbol {
            name: heading.name.as_str().into(),
            kind: SymbolKind::Heading,
            parent: parent.into(),
            span: lines.span(bytes),
            at: heading.at,
            signature: format!("{} {}", "#".repeat(heading.level), heading.name).into(),
            doc: None,
        });
        found.scopes.push(Scope {
            bytes,
            name: heading.name.as_str().into(),
        });
        around.push(heading);
    }
    found
}

/// All headings, and the depth of each line.
fn headings(text: &[u8], lines: &Lines, depths: &mut Vec<usize>) -> Vec<Heading> {
    let mut headings: Vec<Heading> = Vec::new();
    let mut fence: Option<(u8, usize)> = None;
    let mut after_blank = true;
    for row in 0..lines.count() {
        let line = lines.bytes(row, row + 1).of(text);
        let bare = line.trim_ascii();
        let mark = fence_mark(bare);
        let mut depth = if after_blank { TEXT } else { PARAGRAPH };
        match (fence, mark) {
            (Some((sign, length)), Some((with, count))) if with == sign && count >= length => {
                fence = None;
                depth = FENCE;
            }
            (Some(_), _) => depth = FENCE,
            (None, Some(mark)) => fence = Some(mark),
            (None, None) => {
                if let Some(heading) = hashed(row, line, lines.start(row)) {
                    depth = heading.level - 1;
                    headings.push(heading);
                } else if let Some(level) = underline(bare).filter(|_| !after_blank) {
                    under(row, level, text, lines, depths, &mut headings);
                }
            }
        }
        depths.push(depth);
        after_blank = bare.is_empty();
    }
    headings
}

/// Three or more backticks or tildes: the sign and how many.
fn fence_mark(line: &[u8]) -> Option<(u8, usize)> {
    let sign = *line.first().filter(|sign| matches!(sign, b'`' | b'~'))?;
    let count = line.iter().take_while(|b| **b == sign).count();
    (count >= 3).then_some((sign, count))
}

/// `## A heading ##`
fn hashed(row: usize, line: &[u8], start: usize) -> Option<Heading> {
    let indent = line.iter().take_while(|b| **b == b' ').count();
    let level = line[indent..].iter().take_while(|b| **b == b'#').count();
    let rest = &line[indent + level..];
    let is_heading =
        indent < 4 && (1..=6).contains(&level) && matches!(rest.first(), Some(b' ' | b'\t'));
    if !is_heading {
        return None;
    }
    let name = rest.trim_ascii_start();
    let from = start + line.len() - name.len();
    let name = name.trim_ascii_end();
    let bare = name
        .trim_ascii_end()
        .iter()
        .rposition(|b| *b != b'#')
        .map_or(&name[..0], |end| &name[..=end]);
    let name = if bare.last().is_some_and(u8::is_ascii_whitespace) {
        bare.trim_ascii_end()
    } else {
        name
    };
    named(row, level, name, from)
}

fn named(row: usize, level: usize, name: &[u8], from: usize) -> Option<Heading> {
    let at = Bytes::new(from, from + name.len());
    let name = String::from_utf8_lossy(&name[..name.len().min(HEADING_BYTES_MAX)]);
    let name = name
        .trim_matches(|c: char| matches!(c, '*' | '_' | ' '))
        .to_owned();
    (!name.is_empty()).then_some(Heading {
        row,
        level,
        name,
        at,
    })
}

/// `===` or `---` below a heading.
fn underline(line: &[u8]) -> Option<usize> {
    let sign = *line.first()?;
    let level = match sign {
        b'=' => 1,
        b'-' if line.len() > 1 => 2,
        _ => return None,
    };
    line.iter().all(|b| *b == sign).then_some(level)
}

/// Makes the line above an underline a heading, unless it is something else.
fn under(
    row: usize,
    level: usize,
    text: &[u8],
    lines: &Lines,
    depths: &mut [usize],
    headings: &mut Vec<Heading>,
) {
    let above = row - 1;
    let line = lines.bytes(above, row).of(text);
    let name = line.trim_ascii();
    let is_other = matches!(
        name.first(),
        None | Some(b'#' | b'>' | b'|' | b'-' | b'*' | b'+' | b'`' | b'<')
    );
    let is_taken = headings.last().is_some_and(|last| last.row == above);
    let is_front_matter = lines.bytes(0, 1).of(text).trim_ascii() == b"---"
        && above < FRONT_MATTER_ROWS_MAX
        && headings.is_empty()
        && level == 2;
    if is_other || is_taken || is_front_matter {
        return;
    }
    let from = lines.start(above) + line.len() - line.trim_ascii_start().len();
    if let Some(heading) = named(above, level, name, from) {
        depths[above] = level - 1;
        headings.push(heading);
    }
}

/// Rows in which the end of a YAML head is no underline.
const FRONT_MATTER_ROWS_MAX: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str, u32, u32)]) {
        let lines = Lines::of(text.as_bytes());
        let found = find(text.as_bytes(), &lines);
        let shown: Vec<_> = found
            .symbols
            .iter()
            .map(|s| (&*s.name, &*s.parent, s.span.first, s.span.last))
            .collect();
        assert_eq!(shown, expected);
        for symbol in &found.symbols {
            assert!(String::from_utf8_lossy(symbol.at.of(text.as_bytes())).contains(&*symbol.name));
        }
    }

    #[test]
    fn headings_are_scopes() {
        check(
            "# A\ntext\n## B ##\n\n### **C**\n## D\n",
            &[
                ("A", "", 1, 6),
                ("B", "A", 3, 5),
                ("C", "A › B", 5, 5),
                ("D", "A", 6, 6),
            ],
        );
        check(
            "Title\n=====\n\nPart\n---\nx\n",
            &[("Title", "", 1, 6), ("Part", "Title", 4, 6)],
        );
    }

    #[test]
    fn what_only_looks_like_a_heading_is_none() {
        check("```sh\n# no\n```\n#no\n####### no\n", &[]);
        check("---\ntitle: x\n---\n\n# Yes\n", &[("Yes", "", 5, 5)]);
        check("- a\n---\n| a |\n|---|\n\n---\n", &[]);
        check("~~~\n```\n# no\n~~~\n# Yes\n", &[("Yes", "", 5, 5)]);
        check("# \n#\n", &[]);
    }
}
