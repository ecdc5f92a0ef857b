//! Server-sent events as the bytes that came (HTML standard, section 9.2): where one ends, and where its data stands.

use std::ops::Range;

use base::{Refusal, refusal};

/// Cuts a stream into events, each with the blank line behind it.
pub(crate) struct Splitter {
    buffer: Vec<u8>,
    /// Up to here no event ends.
    looked: usize,
    bytes_max: usize,
}

impl Splitter {
    pub(crate) fn new(bytes_max: usize) -> Splitter {
        Splitter {
            buffer: Vec::new(),
            looked: 0,
            bytes_max,
        }
    }

    /// Takes a piece.
    ///
    /// # Errors
    /// `llm.answer_invalid` where an event is larger than it may be.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Result<(), Refusal> {
        // What came before is less than an event, and so is within the bound.
        self.buffer.extend_from_slice(piece);
        match self.buffer.len() > self.bytes_max.saturating_add(piece.len()) {
            false => Ok(()),
            true => {
                let public = "an event of the provider is larger than llm.answer_bytes_max";
                Err(Refusal::new(refusal::LLM_ANSWER_INVALID, public))
            }
        }
    }

    /// The next event that is whole.
    pub(crate) fn next(&mut self) -> Option<Vec<u8>> {
        let from = self.looked.saturating_sub(3);
        let ends = [&b"\n\n"[..], b"\n\r\n", b"\r\r"]
            .into_iter()
            .filter_map(|end| {
                let at = memchr::memmem::find(&self.buffer[from..], end)?;
                Some(from + at + end.len())
            });
        let Some(end) = ends.min() else {
            self.looked = self.buffer.len();
            return None;
        };
        let rest = self.buffer.split_off(end);
        self.looked = 0;
        Some(std::mem::replace(&mut self.buffer, rest))
    }

    /// What came behind the last whole event.
    pub(crate) fn rest(&mut self) -> Option<Vec<u8>> {
        let rest = std::mem::take(&mut self.buffer);
        (!rest.is_empty()).then_some(rest)
    }
}

/// Fields of an event. A line of another is of no event, and a client that reads it all the same reads what nobody judged.
const FIELDS: &[&[u8]] = &[b"data", b"event", b"id", b"retry"];

/// Whether a line is one of an event: a comment, a field that is known, or nothing.
fn is_known(line: &[u8]) -> bool {
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    name.is_empty() || FIELDS.contains(&name)
}

/// An event and where its data stands in it; an empty range where it has none. Data of several lines are put into one: they are
/// JSON, in which a line's end is white space. Lines of unknown fields are left out.
pub(crate) fn data_of(event: Vec<u8>) -> (Vec<u8>, Range<usize>) {
    let mut found: Vec<Range<usize>> = Vec::new();
    let (mut at, mut all_known) = (0, true);
    for line in event.split_inclusive(|byte| *byte == b'\n' || *byte == b'\r') {
        let start = at;
        at += line.len();
        let line = line.trim_ascii_end();
        all_known &= is_known(line);
        if let Some(value) = line.strip_prefix(b"data:") {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            let end = start + line.len();
            found.push(end - value.len()..end);
        }
    }
    match found.as_slice() {
        [] if all_known => (event, 0..0),
        [one] if all_known => {
            let one = one.clone();
            (event, one)
        }
        _ => written_anew(&event, &found),
    }
}

/// The lines of an event that [`data_of`] gave, beside its data: `event: x`, `id: 7`, comments.
pub(crate) fn lines_beside<'e>(
    event: &'e [u8],
    data: &Range<usize>,
) -> impl Iterator<Item = &'e [u8]> + use<'e> {
    let (before, after) = match data.is_empty() {
        true => (event, &event[event.len()..]),
        false => (&event[..data.start], &event[data.end..]),
    };
    let before = before.trim_ascii_end();
    let before = match data.is_empty() {
        true => before,
        false => before.strip_suffix(b"data:").unwrap_or(before),
    };
    let lines = |text: &'e [u8]| text.split(|byte| *byte == b'\n' || *byte == b'\r');
    lines(before)
        .chain(lines(after))
        .filter(|line| !line.trim_ascii().is_empty())
}

/// An event with its data in one line, and without the lines that are of none.
fn written_anew(event: &[u8], found: &[Range<usize>]) -> (Vec<u8>, Range<usize>) {
    let mut whole = Vec::with_capacity(event.len());
    for line in event.split(|byte| *byte == b'\n' || *byte == b'\r') {
        if !line.is_empty() && is_known(line) && !line.starts_with(b"data") {
            whole.extend_from_slice(line);
            whole.push(b'\n');
        }
    }
    if found.is_empty() {
        whole.push(b'\n');
        return (whole, 0..0);
    }
    whole.extend_from_slice(b"data: ");
    let start = whole.len();
    for (i, span) in found.iter().enumerate() {
        if i > 0 {
            whole.push(b' ');
        }
        whole.extend_from_slice(&event[span.clone()]);
    }
    let end = whole.len();
    whole.extend_from_slice(b"\n\n");
    (whole, start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_wherever_the_stream_is_cut() {
        let stream = b": ping\n\ndata: {\"a\":1}\r\n\r\nevent: x\ndata:[DONE]\n\ndata: cut";
        let mut all = Vec::new();
        for size in 1..stream.len() {
            let mut splitter = Splitter::new(64);
            let mut events = Vec::new();
            for piece in stream.chunks(size) {
                splitter.push(piece).unwrap();
                while let Some(event) = splitter.next() {
                    events.push(event);
                }
            }
            events.extend(splitter.rest());
            assert_eq!(events.concat(), stream);
            all.push(events);
        }
        assert!(all.iter().all(|events| *events == all[0]) && all[0].len() == 4);
        let datas = all[0].iter().map(|event| {
            let (raw, data) = data_of(event.clone());
            assert_eq!(raw, *event);
            String::from_utf8(raw[data].to_vec()).unwrap()
        });
        let datas: Vec<String> = datas.collect();
        assert_eq!(datas, ["", "{\"a\":1}", "[DONE]", "cut"]);
    }

    #[test]
    fn data_of_several_lines_are_one() {
        let (raw, data) = data_of(b"event: x\ndata: {\"a\":\ndata: 1}\nid: 7\n\n".to_vec());
        assert_eq!(&raw[data], b"{\"a\": 1}");
        assert_eq!(raw, b"event: x\nid: 7\ndata: {\"a\": 1}\n\n");
    }

    #[test]
    fn a_line_that_is_of_no_event_goes_to_nobody() {
        let of = |event: &[u8]| {
            let (raw, data) = data_of(event.to_vec());
            (raw.clone(), raw[data].to_vec())
        };
        let left = |event: &[u8]| String::from_utf8(of(event).0).unwrap();
        // Behind a byte order mark, a space or an unknown name a lenient client would read data.
        assert_eq!(left(b"\xEF\xBB\xBFdata: {\"a\":1}\n\n"), "\n");
        assert_eq!(left(b" data: x\nid: 7\n\n"), "id: 7\n\n");
        assert_eq!(left(b"message: x\r\ndata: 1\r\n\r\n"), "data: 1\n\n");
        assert_eq!(of(b"Data: x\ndata: 1\n\n").1, b"1");
        let plain = b"event: e\nid\n: hello\nretry: 5\ndata: 1\n\n";
        assert_eq!(of(plain).0, plain);
    }

    #[test]
    fn lines_beside_the_data_are_found_wherever_they_stand() {
        let of = |event: &[u8]| -> Vec<String> {
            let (raw, data) = data_of(event.to_vec());
            let lines = lines_beside(&raw, &data);
            lines
                .map(|line| String::from_utf8_lossy(line).into_owned())
                .collect()
        };
        assert_eq!(of(b"data: 1\n\n"), [""; 0]);
        assert_eq!(of(b"event: e\r\ndata: 1\r\n\r\n"), ["event: e"]);
        assert_eq!(of(b"data:1\nid: 7\n: hi\n\n"), ["id: 7", ": hi"]);
        assert_eq!(of(b": hi\nevent: e\n\n"), [": hi", "event: e"]);
        assert_eq!(
            of(b"id: 7\ndata: {\ndata: }\nevent: e\n\n"),
            ["id: 7", "event: e"]
        );
        assert_eq!(of(b"event: e\ndata:\n\n"), ["event: e", "data:"]);
    }

    #[test]
    fn an_event_without_end_is_bounded() {
        let mut splitter = Splitter::new(10);
        splitter.push(b"data: 12345").unwrap();
        assert!(splitter.next().is_none());
        assert!(splitter.push(b"6").is_err());
    }
}
