//! Where a byte stands in a text: its line and its character, counted from 1, as editors count.

/// The line and the character of an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub line: usize,
    pub column: usize,
}

impl Position {
    pub(super) const START: Position = Position { line: 1, column: 1 };

    /// Where one is after these bytes.
    pub(super) fn after(self, bytes: &[u8]) -> Position {
        let characters = |bytes: &[u8]| bytes.iter().filter(|b| **b & 0xc0 != 0x80).count();
        match bytes.iter().rposition(|byte| *byte == b'\n') {
            None => Position {
                line: self.line,
                column: self.column + characters(bytes),
            },
            Some(last) => Position {
                line: self.line + bytes.iter().filter(|byte| **byte == b'\n').count(),
                column: 1 + characters(&bytes[last + 1..]),
            },
        }
    }
}

/// The end of a text that flows by, and where it begins.
pub(super) struct Trail {
    kept: Vec<u8>,
    /// Of the first byte that is kept.
    offset: usize,
    position: Position,
}

/// What is kept behind a piece: findings begin at most so far back.
const KEPT_BYTES: usize = 64 << 10;

impl Trail {
    pub(super) fn new() -> Trail {
        Trail {
            kept: Vec::new(),
            offset: 0,
            position: Position::START,
        }
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        let over = self.kept.len().saturating_sub(KEPT_BYTES);
        self.position = self.position.after(&self.kept[..over]);
        self.kept.drain(..over);
        self.offset += over;
        self.kept.extend_from_slice(piece);
    }

    /// Where an offset of the text is; of one that is gone, where what is kept begins.
    pub(super) fn at(&self, offset: usize) -> Position {
        let length = offset.saturating_sub(self.offset).min(self.kept.len());
        self.position.after(&self.kept[..length])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_characters_are_counted_from_one() {
        let text = "ab\né!\n";
        let at = |offset: usize| {
            let position = Position::START.after(&text.as_bytes()[..offset]);
            (position.line, position.column)
        };
        assert_eq!(
            [at(0), at(1), at(3), at(5), at(7)],
            [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)]
        );
    }

    #[test]
    fn a_trail_says_the_same_as_the_whole() {
        let text = "wörd and more\n".repeat(20_000);
        let mut trail = Trail::new();
        let mut end = 0;
        for piece in text.as_bytes().chunks(10_001) {
            trail.push(piece);
            end += piece.len();
            let offset = end.saturating_sub(20_000);
            assert_eq!(
                trail.at(offset),
                Position::START.after(&text.as_bytes()[..offset])
            );
        }
    }
}
