//! A sheet as Markdown: tables of GitHub's dialect, pictures as files beside it.

use std::fmt::Write as _;

use super::{Grid, Sheet, SheetBlock, figure_name};
use crate::report::words::clean;

/// The text. Pictures are named as [`Sheet::figures`] names them, with `.svg`.
pub fn markdown(sheet: &Sheet) -> String {
    let mut out = format!(
        "# {}\n\n{}\n\n**{} {}**\n",
        plain(&sheet.title),
        plain(&sheet.below),
        sheet.grade.sign(),
        plain(&sheet.answer)
    );
    for note in &sheet.notes {
        let _ = write!(out, "\n{}\n", plain(note));
    }
    for part in &sheet.parts {
        let _ = write!(out, "\n## {}\n", plain(&part.title));
        let mut number = 0;
        for block in &part.blocks {
            match block {
                SheetBlock::Words(words) => {
                    let _ = write!(out, "\n{}\n", plain(words));
                }
                SheetBlock::Grid(grid) => table(&mut out, grid),
                SheetBlock::Code(code) => fenced(&mut out, code),
                SheetBlock::Figure(figure) if figure.svg.is_empty() => {
                    let _ = write!(out, "\n{}\n", plain(&figure.caption));
                }
                SheetBlock::Figure(figure) => {
                    number += 1;
                    let name = figure_name(part, number);
                    let _ = write!(
                        out,
                        "\n![{}]({name}.svg)\n\n{}\n",
                        plain(&part.title),
                        plain(&figure.caption)
                    );
                }
            }
        }
    }
    out
}

fn table(out: &mut String, grid: &Grid) {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let marks = (0..grid.head.len()).map(|i| if i < grid.left { "---" } else { "--:" });
    out.push('\n');
    out.push_str(&line(grid.head.iter().map(|name| plain(name)).collect()));
    out.push_str(&line(marks.map(str::to_owned).collect()));
    for row in &grid.rows {
        out.push_str(&line(row.iter().map(|cell| plain(cell)).collect()));
    }
}

/// A block whose fence is longer than any in it.
fn fenced(out: &mut String, code: &str) {
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let lines: Vec<String> = code.lines().map(clean).collect();
    let _ = write!(out, "\n{fence}\n{}\n{fence}\n", lines.join("\n"));
}

/// Text of others, so that it is no mark-up.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in clean(text).chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c => out.push(c),
        }
    }
    out
}
