//! A sheet as text for a terminal: the answer first, tables as columns, pictures left out.

use super::{Sheet, SheetBlock};
use crate::output::table::Table;
use crate::report::words::clean;

/// The text.
pub fn text(sheet: &Sheet) -> String {
    let mut out = format!("{} {}\n", sheet.grade.sign(), clean(&sheet.answer));
    for note in &sheet.notes {
        out += &format!("  {}\n", clean(note));
    }
    for part in &sheet.parts {
        let mut body = String::new();
        for block in &part.blocks {
            match block {
                SheetBlock::Words(words) => body += &format!(" {}\n", clean(words)),
                SheetBlock::Grid(grid) => {
                    let head = grid.head.iter().map(|name| (*name).to_owned()).collect();
                    let mut table = Table::of(grid.left, head);
                    for row in &grid.rows {
                        table.row(row.iter().map(|cell| clean(cell)).collect());
                    }
                    body += &(table.lines().join("\n") + "\n");
                }
                SheetBlock::Code(code) => {
                    body += &code
                        .lines()
                        .map(|line| format!("   {}\n", clean(line)))
                        .collect::<String>();
                }
                SheetBlock::Figure(_) => {}
            }
        }
        if !body.is_empty() {
            out += &format!("\n{}\n{body}", clean(&part.title));
        }
    }
    out
}
