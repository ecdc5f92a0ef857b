//! A terminal in memory: what a person would see, without one.

use std::io;
use std::sync::{Arc, Mutex};

use indicatif::TermLike;

/// Lines of text and a cursor. Colours take no place and are kept in the text.
#[derive(Clone, Debug)]
pub(crate) struct Screen {
    columns: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// A cell is a character with the colours that were set before it.
    lines: Vec<Vec<String>>,
    row: usize,
    column: usize,
}

impl Screen {
    pub(crate) fn new(columns: usize) -> Screen {
        Screen {
            columns,
            state: Arc::default(),
        }
    }

    /// What stands on it, without what is empty at the ends.
    pub(crate) fn text(&self) -> String {
        let state = self.state.lock().unwrap();
        let lines: Vec<String> = state
            .lines
            .iter()
            .map(|line| line.concat().trim_end().to_owned())
            .collect();
        let text = lines.join("\n");
        match text.trim_end() {
            "" => String::new(),
            text => format!("{text}\n"),
        }
    }

    /// Takes what a program wrote to a real terminal.
    pub(crate) fn feed(&self, text: &str) {
        self.state.lock().unwrap().write(text, self.columns);
    }

    fn change(&self, change: impl FnOnce(&mut State)) -> io::Result<()> {
        change(&mut self.state.lock().unwrap());
        Ok(())
    }
}

impl State {
    fn write(&mut self, text: &str, columns: usize) {
        let mut colours = String::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match c {
                '\n' => (self.row, self.column) = (self.row + 1, 0),
                '\r' => self.column = 0,
                '\u{1b}' => {
                    let mut code = String::new();
                    for c in chars.by_ref() {
                        code.push(c);
                        if c.is_ascii_alphabetic() {
                            break;
                        }
                    }
                    if code.ends_with('m') {
                        colours += &format!("\u{1b}{code}");
                    } else {
                        self.steer(&code);
                    }
                }
                c => {
                    // A full line goes on in the next one.
                    if self.column == columns {
                        (self.row, self.column) = (self.row + 1, 0);
                    }
                    self.put(std::mem::take(&mut colours) + &c.to_string());
                }
            }
        }
        let line = self.lines.get_mut(self.row);
        if let Some(last) = line.and_then(|line| line.last_mut()) {
            last.push_str(&colours);
        }
    }

    /// Follows `[nA` and its like. What is not known is a fault of the test.
    fn steer(&mut self, code: &str) {
        let (digits, what) = code[1..].split_at(code.len() - 2);
        let n = digits.parse().unwrap_or(1);
        match what {
            "A" => self.row = self.row.saturating_sub(n),
            "B" => self.row += n,
            "C" => self.column += n,
            "D" => self.column = self.column.saturating_sub(n),
            "K" => self.clear(),
            _ => panic!("a terminal code that is not expected: {code:?}"),
        }
    }

    fn clear(&mut self) {
        if let Some(line) = self.lines.get_mut(self.row) {
            line.clear();
        }
    }

    fn put(&mut self, cell: String) {
        if self.lines.len() <= self.row {
            self.lines.resize(self.row + 1, Vec::new());
        }
        let line = &mut self.lines[self.row];
        if line.len() <= self.column {
            line.resize(self.column + 1, " ".to_owned());
        }
        line[self.column] = cell;
        self.column += 1;
    }
}

impl TermLike for Screen {
    fn width(&self) -> u16 {
        self.columns as u16
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.change(|state| state.row = state.row.saturating_sub(n))
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.change(|state| state.row += n)
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.change(|state| state.column += n)
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.change(|state| state.column = state.column.saturating_sub(n))
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.change(|state| {
            state.write(text, self.columns);
            state.write("\n", self.columns);
        })
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.change(|state| state.write(text, self.columns))
    }

    fn clear_line(&self) -> io::Result<()> {
        self.change(|state| {
            state.column = 0;
            state.clear();
        })
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A text without its colours.
pub(crate) fn without_colours(text: &str) -> String {
    let mut plain = String::new();
    let mut parts = text.split('\u{1b}');
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        plain.push_str(part.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}
