//! The tokens of a command line: blanks, operators, quotes and brackets that belong together.
//!
//! It only finds where things start and end; what they mean is for the expansion.

use super::Dialect;

/// What comes next.
pub(super) enum Token {
    /// A word starts here.
    Word,
    Pipe,
    /// `;`, `&&`, a new line, or the end of the text.
    End {
        background: bool,
    },
    /// `>`, `>>`, `<`, `<>`, `<<`, `<<<`; its target comes next.
    Redirect(&'static str),
}

/// A place in a script.
pub(super) struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    pub(super) dialect: Dialect,
    /// The body of a here-document: the new line before it, and its end.
    skip: Option<(usize, usize)>,
    /// From here on there is no closing single quote, or double quote, so that none is looked for again.
    open: [bool; 2],
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t [u8], dialect: Dialect) -> Reader<'t> {
        Reader {
            text,
            at: 0,
            dialect,
            skip: None,
            open: [false; 2],
        }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn is_done(&self) -> bool {
        self.at >= self.text.len()
    }

    /// The byte so far ahead; zero behind the end.
    pub(super) fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    pub(super) fn advance(&mut self, bytes: usize) {
        self.at = (self.at + bytes).min(self.text.len());
    }

    fn starts(&self, with: &[u8]) -> bool {
        self.text[self.at..].starts_with(with)
    }

    /// Bytes of the blank that starts here.
    fn blank(&self) -> usize {
        match self.peek(0) {
            b' ' | b'\t' | b'\r' | 0x0b | 0x0c => 1,
            0xc2 if matches!(self.peek(1), 0x85 | 0xa0) => 2,
            0xe2 if self.peek(1) == 0x80 && matches!(self.peek(2), 0xa8 | 0xa9) => 3,
            b'\\' if self.peek(1) == b'\n' && self.dialect == Dialect::Posix => 2,
            _ => 0,
        }
    }

    pub(super) fn blanks(&mut self) {
        while self.blank() > 0 {
            self.advance(self.blank());
        }
    }

    /// Whether a word ends here.
    pub(super) fn ends_word(&self) -> bool {
        match self.peek(0) {
            _ if self.is_done() => true,
            b'\n' | b';' | b'&' | b'|' | b'<' | b'>' => true,
            b'(' | b')' => self.dialect == Dialect::Posix,
            b'\\' => false,
            _ => self.blank() > 0,
        }
    }

    pub(super) fn token(&mut self) -> Token {
        self.blanks();
        let end = |background| Token::End { background };
        if self.is_done() {
            return end(false);
        }
        match (self.peek(0), self.peek(1)) {
            (b'#', _) => {
                let rest = &self.text[self.at..];
                self.advance(memchr::memchr(b'\n', rest).unwrap_or(rest.len()));
                self.token_end()
            }
            (b'\n', _) => self.token_end(),
            (b';', _) => {
                self.advance(1);
                end(false)
            }
            (b'&', b'&') => {
                self.advance(2);
                end(false)
            }
            (b'&', b'>') => {
                self.advance(1);
                self.redirect()
            }
            (b'&', _) => {
                self.advance(1);
                end(true)
            }
            (b'|', b'|') => {
                self.advance(2);
                end(false)
            }
            (b'|', next) => {
                self.advance(1 + usize::from(next == b'&'));
                Token::Pipe
            }
            (b'(' | b')', _) if self.dialect == Dialect::Posix => {
                self.advance(1);
                end(false)
            }
            (b'<' | b'>', b'(') if self.dialect == Dialect::Posix => Token::Word,
            (b'<' | b'>', _) => self.redirect(),
            (b'0'..=b'9', _) => {
                let rest = &self.text[self.at..];
                let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                match rest.get(digits) {
                    Some(b'<' | b'>') if digits < 4 => {
                        self.advance(digits);
                        self.redirect()
                    }
                    _ => Token::Word,
                }
            }
            _ => Token::Word,
        }
    }

    /// A new line ends the pipeline, and jumps over a here-document that was read before.
    fn token_end(&mut self) -> Token {
        match self.skip {
            Some((line, end)) if line == self.at => {
                self.at = end;
                self.skip = None;
            }
            _ => self.advance(1),
        }
        Token::End { background: false }
    }

    fn redirect(&mut self) -> Token {
        const OPERATORS: [(&[u8], &str); 11] = [
            (b"<<<", "<<<"),
            (b"<<-", "<<"),
            (b"<<", "<<"),
            (b"<>", "<>"),
            (b"<&", "<"),
            (b"<", "<"),
            (b">>", ">>"),
            (b">|", ">"),
            (b">&", ">&"),
            (b"&>", ">"),
            (b">", ">"),
        ];
        let found = OPERATORS.iter().find(|(text, _)| self.starts(text));
        let (text, name) = found.expect("a redirection starts with < or >");
        self.advance(text.len());
        Token::Redirect(name)
    }

    /// The body of the here-document with this end, which starts on the next line.
    pub(super) fn document(&mut self, end: &[u8]) -> &'t [u8] {
        let line = memchr::memchr(b'\n', &self.text[self.at..]);
        let Some(line) = line.map(|line| self.at + line) else {
            return b"";
        };
        let start = match self.skip {
            Some((before, end)) if before == line => end,
            _ => line + 1,
        };
        let mut at = start;
        while at < self.text.len() {
            let rest = &self.text[at..];
            let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            if rest[..length].trim_ascii() == end {
                self.skip = Some((line, (at + length + 1).min(self.text.len())));
                return &self.text[start..at];
            }
            at += length + 1;
        }
        self.skip = Some((line, self.text.len()));
        &self.text[start..]
    }

    /// What a single quote here encloses; `None` where it is an apostrophe.
    pub(super) fn single(&mut self) -> Option<&'t [u8]> {
        if self.open[0] {
            return None;
        }
        let rest = &self.text[self.at + 1..];
        let Some(length) = memchr::memchr(b'\'', rest) else {
            self.open[0] = true;
            return None;
        };
        self.advance(length + 2);
        Some(&rest[..length])
    }

    /// What a quote here encloses, in which a backslash escapes; `None` where nothing closes it.
    pub(super) fn escaped(&mut self, quote: u8) -> Option<&'t [u8]> {
        let known = usize::from(quote == b'"');
        if self.open[known] {
            return None;
        }
        let rest = &self.text[self.at + 1..];
        let mut at = 0;
        while at < rest.len() {
            match rest[at] {
                b'\\' => at += 1,
                // A substitution has quotes of its own.
                b'$' if quote == b'"' && rest.get(at + 1) == Some(&b'(') => {
                    at += 1 + closing(&rest[at + 2..], b'(', b')');
                }
                byte if byte == quote => {
                    self.advance(at + 2);
                    return Some(&rest[..at]);
                }
                _ => {}
            }
            at += 1;
        }
        self.open[known] = true;
        None
    }

    /// What the bracket here encloses, to the end of the text where nothing closes it.
    pub(super) fn enclosed(&mut self) -> &'t [u8] {
        let open = self.peek(0);
        let close = if open == b'{' { b'}' } else { b')' };
        self.advance(1);
        let rest = &self.text[self.at..];
        let length = closing(rest, open, close);
        self.advance(length + 1);
        &rest[..length]
    }

    /// What backticks enclose, to the end of the text where nothing closes them.
    pub(super) fn backticks(&mut self) -> &'t [u8] {
        let rest = &self.text[(self.at + 1).min(self.text.len())..];
        let mut length = 0;
        while length < rest.len() && rest[length] != b'`' {
            length += 1 + usize::from(rest[length] == b'\\');
        }
        let length = length.min(rest.len());
        self.advance(length + 2);
        &rest[..length]
    }

    /// The longest run of bytes of a class, from here.
    pub(super) fn run(&mut self, class: impl Fn(u8) -> bool) -> &'t [u8] {
        let rest = &self.text[self.at..];
        let length = rest.iter().take_while(|byte| class(**byte)).count();
        self.advance(length);
        &rest[..length]
    }
}

/// Bytes before the bracket that closes the one before this text.
fn closing(text: &[u8], open: u8, close: u8) -> usize {
    let (mut at, mut depth) = (0, 1);
    while at < text.len() {
        match text[at] {
            b'\\' => at += 1,
            quote @ (b'\'' | b'"') => {
                let rest = &text[at + 1..];
                if let Some(end) = memchr::memchr(quote, rest) {
                    at += end + 1;
                }
            }
            byte if byte == open => depth += 1,
            byte if byte == close => {
                depth -= 1;
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}
