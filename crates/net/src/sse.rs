//! Server-sent events: read with bounds, written one by one.
//!
//! Source: the HTML standard, section 9.2 "Server-sent events".

use base::limit::ANSWER_BYTES_DEFAULT;

/// Longest `retry` that is read, in digits: some 11 days.
const RETRY_DIGITS_MAX: usize = 9;
/// Longest id and longest name of a type that is read, in bytes.
const WORD_BYTES_MAX: usize = 1024;
/// The type of an event that names none.
const MESSAGE: &str = "message";

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Its type; absent where that is `message`, which it is where none is named.
    pub name: Option<String>,
    pub id: Option<String>,
    /// Absent where the event has no `data` line: it only names an id or a time, and no message.
    pub data: Option<Vec<u8>>,
    /// How long to wait before the stream is opened again, in milliseconds.
    pub retry_ms: Option<u64>,
}

impl Event {
    /// An event that is one message.
    pub fn message(data: &[u8]) -> Event {
        Event {
            data: Some(data.to_vec()),
            ..Event::default()
        }
    }
}

/// An event is larger than the reader's bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Takes a stream in pieces, split anywhere, and gives its events.
pub struct Reader {
    line: Vec<u8>,
    event: Event,
    /// The last piece ended in CR: a LF that follows belongs to it.
    after_cr: bool,
    first: bool,
    bytes_max: usize,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader::new(ANSWER_BYTES_DEFAULT)
    }
}

impl Reader {
    pub fn new(bytes_max: usize) -> Reader {
        Reader {
            line: Vec::new(),
            event: Event::default(),
            after_cr: false,
            first: true,
            bytes_max,
        }
    }

    /// Reads a piece; each event that it completes goes to `each`.
    pub fn push(&mut self, mut piece: &[u8], mut each: impl FnMut(Event)) -> Result<(), TooLarge> {
        while !piece.is_empty() {
            if std::mem::take(&mut self.after_cr) && piece[0] == b'\n' {
                piece = &piece[1..];
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', piece);
            self.line
                .extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
            let data = self.event.data.as_ref().map_or(0, Vec::len);
            if self.line.len() + data > self.bytes_max {
                return Err(TooLarge);
            }
            let Some(end) = end else { return Ok(()) };
            self.after_cr = piece[end] == b'\r';
            piece = &piece[end + 1..];
            if let Some(event) = self.end_line() {
                each(event);
            }
        }
        Ok(())
    }

    fn end_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        let mut text = line.as_slice();
        if std::mem::take(&mut self.first) {
            text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
        }
        if text.is_empty() {
            let event = std::mem::take(&mut self.event);
            return (event != Event::default()).then_some(event);
        }
        let colon = memchr::memchr(b':', text).unwrap_or(text.len());
        let value = text.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &text[..colon] {
            b"data" => match &mut self.event.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.event.data = Some(value.to_vec()),
            },
            b"id" if !value.contains(&0) && value.len() <= WORD_BYTES_MAX => {
                self.event.id = String::from_utf8(value.to_vec()).ok();
            }
            b"event" if value.len() <= WORD_BYTES_MAX => {
                let name = String::from_utf8(value.to_vec()).ok();
                self.event.name = name.filter(|name| !name.is_empty() && name != MESSAGE);
            }
            b"retry" if value.iter().all(u8::is_ascii_digit) && value.len() <= RETRY_DIGITS_MAX => {
                let digits = std::str::from_utf8(value).ok();
                self.event.retry_ms = digits.and_then(|digits| digits.parse().ok());
            }
            // Comments, and what is not known.
            _ => {}
        }
        None
    }
}

/// Writes one event. A line break inside the data begins a new `data` line.
pub fn write(event: &Event) -> Vec<u8> {
    let data = event.data.as_deref();
    let mut out = Vec::with_capacity(data.map_or(0, <[u8]>::len) + 64);
    if let Some(id) = &event.id {
        out.extend_from_slice(b"id: ");
        out.extend_from_slice(id.as_bytes());
        out.push(b'\n');
    }
    if let Some(retry_ms) = event.retry_ms {
        out.extend_from_slice(format!("retry: {retry_ms}\n").as_bytes());
    }
    if let Some(data) = data {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(event.name.as_deref().unwrap_or(MESSAGE).as_bytes());
        out.push(b'\n');
        for line in data.split(|b| *b == b'\n' || *b == b'\r') {
            out.extend_from_slice(b"data: ");
            out.extend_from_slice(line);
            out.push(b'\n');
        }
    }
    out.push(b'\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]], bytes_max: usize) -> Result<Vec<Event>, TooLarge> {
        let mut reader = Reader::new(bytes_max);
        let mut events = Vec::new();
        for piece in pieces {
            reader.push(piece, |event| events.push(event))?;
        }
        Ok(events)
    }

    const STREAM: &[u8] =
        b"\xef\xbb\xbf: hi\r\nid: 7\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\nevent: message\ndata:x\n\nretry: 5\n\ndata: cut";

    #[test]
    fn any_split_gives_the_same_events() {
        let whole = read(&[STREAM], 1000).unwrap();
        let first = Event {
            id: Some("7".into()),
            ..Event::message(b"{\"a\":\n1}")
        };
        let third = Event {
            retry_ms: Some(5),
            ..Event::default()
        };
        assert_eq!(whole, [first, Event::message(b"x"), third]);
        for i in 0..STREAM.len() {
            for j in i..STREAM.len() {
                let pieces = [&STREAM[..i], &STREAM[i..j], &STREAM[j..]];
                assert_eq!(read(&pieces, 1000).unwrap(), whole, "{i} {j}");
            }
        }
    }

    #[test]
    fn an_event_is_bounded_however_it_comes() {
        let long = [b"data: ".as_slice(), &[b'x'; 200]].concat();
        assert_eq!(read(&[&long], 100), Err(TooLarge));
        let many = b"data: 0123456789\n".repeat(20);
        assert_eq!(read(&[&many], 100), Err(TooLarge));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let event = Event {
            id: Some("a".into()),
            retry_ms: Some(500),
            ..Event::message(b"{\"x\":\n\"y\"}")
        };
        let primer = Event {
            id: Some("b".into()),
            ..Event::default()
        };
        let empty = Event::message(b"");
        let named = Event {
            name: Some("content_block_delta".into()),
            ..Event::message(b"{}")
        };
        for event in [event, primer, empty, named] {
            assert_eq!(read(&[&write(&event)], 100).unwrap(), vec![event]);
        }
    }
}
