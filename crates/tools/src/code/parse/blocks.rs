//! How deep each line of a text stands that no grammar reads: by its indent, and by blank lines.
//!
//! It is the last resort of every other reader, so it takes anything, in time linear in its length.

use super::lines::Lines;

/// Columns of indent that make a step.
const STEP: usize = 2;
/// Columns of a tab.
const TAB: usize = 4;
/// Steps that are told apart.
const STEPS_MAX: usize = 24;

/// The depth of each line: twice its indent, one less behind a blank line, one more where it only closes.
pub(super) fn depths(text: &[u8], lines: &Lines) -> Vec<usize> {
    let mut depths = Vec::with_capacity(lines.count());
    let mut after_blank = true;
    for row in 0..lines.count() {
        let line = lines.bytes(row, row + 1).of(text);
        let rest = line.trim_ascii_start();
        let closes = matches!(rest.first(), Some(b'}' | b')' | b']')) || rest.starts_with(b"end");
        depths.push(indent(line) * 2 + usize::from(!after_blank) + 2 * usize::from(closes));
        after_blank = rest.is_empty();
    }
    depths
}

/// The steps of indent of a line.
pub(super) fn indent(line: &[u8]) -> usize {
    let mut columns = 0;
    for byte in line.iter().take(STEP * STEPS_MAX) {
        match byte {
            b' ' => columns += 1,
            b'\t' => columns += TAB,
            _ => break,
        }
    }
    (columns / STEP).min(STEPS_MAX)
}
