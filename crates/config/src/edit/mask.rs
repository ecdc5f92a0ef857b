//! A JSON text with its comments blanked, byte for byte, so that every place in the one is the same place in the other.

use super::EditError;

/// Two readings of one text, both of its length.
pub(super) struct Mask {
    /// Comments are spaces, and so are the line breaks within them.
    pub(super) bare: String,
    /// Commas before a closing bracket are spaces too: strict JSON, if the text is JSON at all.
    pub(super) strict: String,
    /// Where the lines of the text begin.
    lines: Vec<usize>,
}

impl Mask {
    pub(super) fn of(text: &str) -> Result<Mask, EditError> {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
        let mut mask = Mask {
            bare: String::new(),
            strict: String::new(),
            lines: lines.collect(),
        };
        let mut bare = text.as_bytes().to_vec();
        let mut at = if text.starts_with('\u{feff}') { 3 } else { 0 };
        bare[..at].fill(b' ');
        while at < bare.len() {
            at = match &bare[at..] {
                [b'"', ..] => string_end(&bare, at),
                [b'/', b'/', ..] => {
                    let length = bare[at..].iter().position(|byte| *byte == b'\n');
                    blank(
                        &mut bare,
                        at,
                        length.map_or(text.len(), |length| at + length),
                    )
                }
                [b'/', b'*', ..] => {
                    let Some(length) = text[at + 2..].find("*/") else {
                        let line = mask.line(at);
                        return Err(EditError::Syntax {
                            line,
                            why: "a comment that does not end".to_owned(),
                        });
                    };
                    blank(&mut bare, at, at + 2 + length + 2)
                }
                _ => at + 1,
            };
        }
        let mut strict = bare.clone();
        blank_trailing_commas(&mut strict);
        let whole = "what is blanked is blanked from its first byte to its last";
        mask.bare = String::from_utf8(bare).expect(whole);
        mask.strict = String::from_utf8(strict).expect(whole);
        Ok(mask)
    }

    /// The comma that is the next thing behind a place, comments aside.
    pub(super) fn comma_behind(&self, place: usize) -> Option<usize> {
        let rest = self.bare[place..].trim_start();
        rest.starts_with(',').then(|| self.bare.len() - rest.len())
    }

    /// Where the line of a place ends, if only spaces and comments are left of it; otherwise the place.
    pub(super) fn blank_end_of_line(&self, place: usize) -> usize {
        let rest = &self.bare[place..];
        let after = rest.trim_start_matches([' ', '\t', '\r']);
        if !after.starts_with('\n') {
            return place;
        }
        let line = &rest[..rest.len() - after.len()];
        place + line.strip_suffix('\r').unwrap_or(line).len()
    }

    /// Where and why a text that is no JSON is none.
    pub(super) fn syntax(&self) -> EditError {
        let error = serde_json::from_str::<serde::de::IgnoredAny>(&self.strict).err();
        let Some(error) = error else {
            return EditError::Syntax {
                line: 1,
                why: "cannot be read".to_owned(),
            };
        };
        // The line is counted without the line breaks that stand in comments, so it is found again by its place.
        let starts = std::iter::once(0).chain(self.bare.match_indices('\n').map(|(at, _)| at + 1));
        let start = starts.take(error.line().max(1)).last().unwrap_or_default();
        let why = error.to_string();
        let why = why.split(" at line ").next().unwrap_or_default().to_owned();
        EditError::Syntax {
            line: self.line(start + error.column().saturating_sub(1)),
            why,
        }
    }

    /// The number of the line that a place is in.
    fn line(&self, place: usize) -> usize {
        self.lines.partition_point(|start| *start <= place).max(1)
    }
}

/// The place behind a string that begins here.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

fn blank(text: &mut [u8], start: usize, end: usize) -> usize {
    text[start..end].fill(b' ');
    end
}

/// Blanks each comma that stands between a value and a closing bracket.
fn blank_trailing_commas(text: &mut [u8]) {
    // The last comma, while nothing but spaces came behind it; only one that has a value before it.
    let (mut comma, mut has_value, mut at) = (None, false, 0);
    while at < text.len() {
        let byte = text[at];
        let next = if byte == b'"' {
            string_end(text, at)
        } else {
            at + 1
        };
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b',' => (comma, has_value) = (has_value.then_some(at), false),
            b'{' | b'[' | b':' => (comma, has_value) = (None, false),
            b'}' | b']' => {
                if let Some(comma) = comma {
                    text[comma] = b' ';
                }
                (comma, has_value) = (None, true);
            }
            _ => (comma, has_value) = (None, true),
        }
        at = next;
    }
}
