//! A sheet: what an experiment has to say, as titles, words, tables and pictures, in an order, and in no form yet.
//!
//! One sheet becomes a page of HTML, Markdown, text for a terminal, and a CSV file for each table, so that no two forms
//! can say different things. Its texts are cleaned where they are written, never before.

mod html;
mod markdown;
mod text;

use super::plots::Figure;
use super::standing::Grade;

pub use html::page;
pub use markdown::markdown;
pub use text::text;

/// All that an experiment says.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// What kind of experiment it was.
    pub kind: String,
    pub title: String,
    /// One line below the title: when, how long, on what.
    pub below: String,
    pub grade: Grade,
    /// The answer, in a sentence.
    pub answer: String,
    /// What else has to be known before any number is read.
    pub notes: Vec<String>,
    pub parts: Vec<SheetPart>,
}

/// A part under a heading.
#[derive(Clone, Debug)]
pub struct SheetPart {
    /// Its anchor, and the name of its files: a few letters of ASCII and hyphens.
    pub name: &'static str,
    pub title: String,
    pub blocks: Vec<SheetBlock>,
}

/// One thing in a part.
#[derive(Clone, Debug)]
pub enum SheetBlock {
    Words(String),
    Grid(Grid),
    Figure(Figure),
    /// Words to copy, such as a command.
    Code(String),
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// The name of its file: a few letters of ASCII and hyphens.
    pub name: &'static str,
    pub head: Vec<&'static str>,
    /// How many columns, from the first on, are texts.
    pub left: usize,
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    pub fn new<const N: usize>(name: &'static str, left: usize, head: [&'static str; N]) -> Grid {
        Grid {
            name,
            head: head.to_vec(),
            left,
            rows: Vec::new(),
        }
    }

    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    /// Takes out the columns that hold nothing in any row, as where nothing was watched.
    pub fn without_empty_columns(mut self) -> Grid {
        let none = super::words::NONE;
        let is_used = |column: usize| {
            column == 0
                || self
                    .rows
                    .iter()
                    .any(|row| row.get(column).is_some_and(|c| !c.is_empty() && c != none))
        };
        let used: Vec<bool> = (0..self.head.len()).map(is_used).collect();
        let keep = |column: &mut usize| {
            *column += 1;
            used.get(*column - 1).copied().unwrap_or(true)
        };
        self.left = used.iter().take(self.left).filter(|used| **used).count();
        let mut at = 0;
        self.head.retain(|_| keep(&mut at));
        for row in &mut self.rows {
            let mut at = 0;
            row.retain(|_| keep(&mut at));
        }
        self
    }

    /// The table as CSV (RFC 4180).
    pub fn csv(&self) -> String {
        let mut writer = csv::WriterBuilder::new()
            .flexible(true)
            .from_writer(Vec::new());
        let wrote = std::iter::once(
            self.head
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>(),
        )
        .chain(self.rows.iter().cloned())
        .try_for_each(|row| writer.write_record(row.iter().map(|cell| super::words::clean(cell))));
        let bytes = wrote
            .ok()
            .and_then(|()| writer.into_inner().ok())
            .unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Sheet {
    /// Its tables, in order.
    pub fn grids(&self) -> impl Iterator<Item = &Grid> {
        let blocks = self.parts.iter().flat_map(|part| &part.blocks);
        blocks.filter_map(|block| match block {
            SheetBlock::Grid(grid) => Some(grid),
            _ => None,
        })
    }

    /// Its pictures, each with the name of its file without an ending.
    pub fn figures(&self) -> Vec<(String, &Figure)> {
        let mut found = Vec::new();
        for part in &self.parts {
            let mut number = 0;
            for block in &part.blocks {
                if let SheetBlock::Figure(figure) = block
                    && !figure.svg.is_empty()
                {
                    number += 1;
                    found.push((figure_name(part, number), figure));
                }
            }
        }
        found
    }
}

/// The name of the `number`-th picture of a part.
fn figure_name(part: &SheetPart, number: usize) -> String {
    match number {
        1 => part.name.to_owned(),
        _ => format!("{}-{number}", part.name),
    }
}

/// A picture as a file of its own, with the colours of a light page in it.
pub fn standing_alone(svg: &str) -> String {
    let style = super::page::STYLE;
    match svg.find('>') {
        Some(end) => format!(
            "{}\n<style>{}</style>{}",
            &svg[..=end],
            style.replace("]]>", ""),
            &svg[end + 1..]
        ),
        None => svg.to_owned(),
    }
}
