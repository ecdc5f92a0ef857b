//! The event stream of AWS (Amazon Transcribe Developer Guide, "Event stream encoding"; Smithy, `application/vnd.amazon.eventstream`):
//! frames with checksums, in each of which an event of the model's dialect is. They become server-sent events, and nothing else of this
//! gateway sees a frame.
//!
//! It refuses a frame whose lengths or checksums are wrong: behind it nobody knows where the next one begins.
//!
//! Example: a frame with `:event-type: chunk` and the payload `{"bytes": "eyJ0eXBlIjoicGluZyJ9"}` is `event: ping`, `data: {"type":"ping"}`.

use base::{Json, Refusal, refusal};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

/// Two lengths and their checksum; with the checksum of the whole at the end.
const PRELUDE_BYTES: usize = 12;
const AROUND_BYTES: usize = PRELUDE_BYTES + 4;
/// Largest headers of a frame, and how many there may be.
const HEADERS_BYTES_MAX: usize = 128 << 10;
const HEADERS_MAX: usize = 64;
/// Longest name of an event, as Anthropic's dialect has them.
const EVENT_NAME_MAX: usize = 64;

/// Cuts a stream into frames.
pub(crate) struct FrameReader {
    buffer: Vec<u8>,
    /// Bytes of the buffer that were read.
    at: usize,
    frame_bytes_max: usize,
}

impl FrameReader {
    /// A reader of frames whose events have so many bytes at most.
    pub(crate) fn new(event_bytes_max: usize) -> FrameReader {
        // An event stands there in base64, beside as many letters at most that hide how long it is.
        let frame_bytes_max = event_bytes_max
            .saturating_mul(3)
            .saturating_add(HEADERS_BYTES_MAX);
        FrameReader {
            buffer: Vec::new(),
            at: 0,
            frame_bytes_max,
        }
    }

    pub(crate) fn push(&mut self, piece: &[u8]) {
        // What was read goes at once, so that a buffer holds no more than one frame and a piece.
        self.buffer.drain(..std::mem::take(&mut self.at));
        self.buffer.extend_from_slice(piece);
    }

    /// Whether the stream ended within a frame.
    pub(crate) fn is_cut(&self) -> bool {
        self.at < self.buffer.len()
    }

    /// The next event, as a server-sent one; empty for a frame that says nothing a client reads.
    ///
    /// # Errors
    /// `llm.answer_invalid`.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        let rest = &self.buffer[self.at..];
        let Some(prelude) = rest.get(..PRELUDE_BYTES) else {
            return Ok(None);
        };
        if number(&prelude[8..]) != crc32(&prelude[..8]) {
            return Err(invalid("has a checksum that is wrong"));
        }
        let (whole, headers) = (size(prelude), size(&prelude[4..]));
        if whole > self.frame_bytes_max || headers > HEADERS_BYTES_MAX {
            return Err(invalid("is larger than llm.answer_bytes_max allows"));
        }
        if whole < AROUND_BYTES.saturating_add(headers) {
            return Err(invalid("is shorter than its parts"));
        }
        let Some(frame) = rest.get(..whole) else {
            return Ok(None);
        };
        let (said, checksum) = frame.split_at(whole - 4);
        if number(checksum) != crc32(said) {
            return Err(invalid("has a checksum that is wrong"));
        }
        let (headers, payload) = said[PRELUDE_BYTES..].split_at(headers);
        let event = event(&Headers::read(headers)?, payload)?;
        self.at += whole;
        Ok(Some(event))
    }
}

/// What a frame says of itself.
#[derive(Default)]
struct Headers {
    message: Option<String>,
    event: Option<String>,
    exception: Option<String>,
    error_code: Option<String>,
    error_message: Option<String>,
}

impl Headers {
    fn read(mut bytes: &[u8]) -> Result<Headers, Refusal> {
        let mut headers = Headers::default();
        let mut count = 0;
        while !bytes.is_empty() {
            count += 1;
            let one = header(&mut bytes).filter(|_| count <= HEADERS_MAX);
            let (name, value) = one.ok_or_else(|| invalid("has headers that cannot be read"))?;
            let place = match name {
                b":message-type" => &mut headers.message,
                b":event-type" => &mut headers.event,
                b":exception-type" => &mut headers.exception,
                b":error-code" => &mut headers.error_code,
                b":error-message" => &mut headers.error_message,
                _ => continue,
            };
            let text = value.and_then(|value| String::from_utf8(value.to_vec()).ok());
            let text = text.ok_or_else(|| invalid("has a header that is no text"))?;
            if place.replace(text).is_some() {
                return Err(invalid("has a header twice"));
            }
        }
        Ok(headers)
    }
}

/// One header: its name, and its value where that is a text.
fn header<'b>(bytes: &mut &'b [u8]) -> Option<(&'b [u8], Option<&'b [u8]>)> {
    let name_len = usize::from(*take(bytes, 1)?.first()?);
    let name = take(bytes, name_len)?;
    let kind = *take(bytes, 1)?.first()?;
    let value_len = match kind {
        // True and false.
        0 | 1 => 0,
        2 => 1,
        3 => 2,
        4 => 4,
        // A long number, and a time.
        5 | 8 => 8,
        // Bytes, and a text.
        6 | 7 => usize::from(u16::from_be_bytes(take(bytes, 2)?.try_into().ok()?)),
        // A UUID.
        9 => 16,
        _ => return None,
    };
    let value = take(bytes, value_len)?;
    Some((name, (kind == 7).then_some(value)))
}

fn take<'b>(bytes: &mut &'b [u8], count: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

/// What a chunk holds; beside it stand letters that hide its length.
#[derive(Deserialize)]
struct Chunk {
    bytes: String,
}

/// The event of a frame.
fn event(headers: &Headers, payload: &[u8]) -> Result<Vec<u8>, Refusal> {
    match (headers.message.as_deref(), headers.event.as_deref()) {
        (Some("event"), Some("chunk")) => {
            let chunk: Result<Chunk, _> = serde_json::from_slice(payload);
            let chunk = chunk.map_err(|_| invalid("is no chunk of an answer"))?;
            let event = STANDARD.decode(chunk.bytes);
            let event = event.map_err(|_| invalid("holds no base64"))?;
            named(event)
        }
        // Clients pass over events that they do not know.
        (Some("event"), Some(_)) => Ok(Vec::new()),
        (Some("exception"), _) => {
            let said: Value = serde_json::from_slice(payload).unwrap_or_default();
            let message = said["message"].as_str().or(said["Message"].as_str());
            let kind = headers.exception.as_deref().unwrap_or_default();
            Ok(failed(kind, message.unwrap_or(kind)))
        }
        (Some("error"), _) => {
            let code = headers.error_code.as_deref().unwrap_or_default();
            let message = headers.error_message.as_deref().unwrap_or(code);
            Ok(failed(code, message))
        }
        _ => Err(invalid("does not say what it is")),
    }
}

/// An event with its type as the name, as Anthropic sends it.
fn named(mut event: Vec<u8>) -> Result<Vec<u8>, Refusal> {
    let json = Json::read(&event).map_err(|_| invalid("holds no JSON"))?;
    let kind = json.root().get("type").and_then(|kind| kind.as_str());
    let is_name = |name: &str| {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        !name.is_empty() && name.len() <= EVENT_NAME_MAX && name.bytes().all(is_plain)
    };
    let name = kind
        .filter(|name| is_name(name))
        .map(|name| name.into_owned());
    let name = name.ok_or_else(|| invalid("holds an event without a type"))?;
    // The end of a line is white space in JSON, and would end the event's data.
    for byte in &mut event {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    let mut whole = format!("event: {name}\ndata: ").into_bytes();
    whole.append(&mut event);
    whole.extend_from_slice(b"\n\n");
    Ok(whole)
}

/// A failure in the middle of an answer, in the words of Anthropic's dialect.
fn failed(kind: &str, message: &str) -> Vec<u8> {
    let word = match kind {
        "throttlingException" => "rate_limit_error",
        "serviceUnavailableException" => "overloaded_error",
        "validationException" => "invalid_request_error",
        _ => "api_error",
    };
    let message = Value::from(message);
    let error = format!(r#"{{"type":"error","error":{{"type":"{word}","message":{message}}}}}"#);
    format!("event: error\ndata: {error}\n\n").into_bytes()
}

/// A stream with the checksums that its frames should have, as far as their lengths can be followed.
pub(crate) fn sealed(stream: &[u8]) -> Vec<u8> {
    let (mut whole, mut at) = (stream.to_vec(), 0);
    while let Some(prelude) = whole.get(at..at + 8) {
        let (bytes, sum) = (size(prelude), crc32(prelude).to_be_bytes());
        if bytes < AROUND_BYTES || whole.len() - at < bytes {
            break;
        }
        whole[at + 8..at + PRELUDE_BYTES].copy_from_slice(&sum);
        let end = at + bytes - 4;
        let sum = crc32(&whole[at..end]).to_be_bytes();
        whole[end..end + 4].copy_from_slice(&sum);
        at += bytes;
    }
    whole
}

fn invalid(why: &str) -> Refusal {
    let public = format!("a frame of the provider's stream {why}");
    Refusal::new(refusal::LLM_ANSWER_INVALID, public)
}

/// The number that begins here, in network order.
fn number(bytes: &[u8]) -> u32 {
    let four = bytes.first_chunk::<4>().copied().unwrap_or_default();
    u32::from_be_bytes(four)
}

fn size(bytes: &[u8]) -> usize {
    usize::try_from(number(bytes)).unwrap_or(usize::MAX)
}

/// CRC-32 as zlib has it (ISO 3309), over a table of one byte.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let (mut table, mut i) = ([0; 256], 0);
        while i < 256 {
            let (mut value, mut bit) = (i as u32, 0);
            while bit < 8 {
                value = (value >> 1) ^ (0xEDB8_8320 * (value & 1));
                bit += 1;
            }
            table[i] = value;
            i += 1;
        }
        table
    };
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (sum >> 8) ^ TABLE[((sum ^ u32::from(*byte)) & 255) as usize]
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// A frame with these headers, all of them texts.
    pub(crate) fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
        let mut head = Vec::new();
        for (name, value) in headers {
            head.push(name.len() as u8);
            head.extend_from_slice(name.as_bytes());
            head.push(7);
            head.extend_from_slice(&(value.len() as u16).to_be_bytes());
            head.extend_from_slice(value.as_bytes());
        }
        let whole = AROUND_BYTES + head.len() + payload.len();
        let mut frame = (whole as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(&(head.len() as u32).to_be_bytes());
        frame.extend_from_slice(&crc32(&frame).to_be_bytes());
        frame.extend_from_slice(&head);
        frame.extend_from_slice(payload);
        frame.extend_from_slice(&crc32(&frame).to_be_bytes());
        frame
    }

    fn chunk(event: &str) -> Vec<u8> {
        let payload = json!({ "bytes": STANDARD.encode(event), "p": "abcdef" }).to_string();
        let headers = [
            (":event-type", "chunk"),
            (":content-type", "application/json"),
            (":message-type", "event"),
        ];
        frame(&headers, payload.as_bytes())
    }

    fn read(stream: &[u8], piece: usize) -> Result<(String, bool), Refusal> {
        let (mut reader, mut said) = (FrameReader::new(1 << 16), Vec::new());
        for piece in stream.chunks(piece) {
            reader.push(piece);
            while let Some(event) = reader.next()? {
                said.extend_from_slice(&event);
            }
        }
        Ok((String::from_utf8(said).unwrap(), reader.is_cut()))
    }

    #[test]
    fn a_checksum_is_that_of_zlib() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn events_are_the_same_wherever_the_stream_is_cut() {
        let throttled = frame(
            &[
                (":message-type", "exception"),
                (":exception-type", "throttlingException"),
            ],
            br#"{"message":"Too many"}"#,
        );
        let unknown = frame(
            &[(":message-type", "event"), (":event-type", "other")],
            b"\xff",
        );
        let stream = [chunk("{\"type\":\"ping\",\n\"a\":1}"), unknown, throttled].concat();
        let said = "event: ping\ndata: {\"type\":\"ping\", \"a\":1}\n\nevent: error\ndata: \
                    {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"Too many\"}}\n\n";
        for piece in 1..stream.len() {
            assert_eq!(
                read(&stream, piece).unwrap(),
                (said.to_owned(), false),
                "{piece}"
            );
        }
        assert!(read(&stream[..stream.len() - 1], 7).unwrap().1);
    }

    #[test]
    fn a_frame_that_cannot_be_trusted_ends_the_stream() {
        let good = chunk(r#"{"type":"ping"}"#);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(read(&bad, 5).is_err(), "a bit of byte {at} was turned");
        }
        let event = [(":message-type", "event"), (":event-type", "chunk")];
        let of = |headers: &[(&str, &str)], payload: &str| frame(headers, payload.as_bytes());
        let inner = |text: &str| json!({ "bytes": STANDARD.encode(text) }).to_string();
        for bad in [
            of(&[], r#"{"bytes":""}"#),
            of(&[(":event-type", "chunk")], &inner(r#"{"type":"ping"}"#)),
            of(
                &[event[0], event[0], event[1]],
                &inner(r#"{"type":"ping"}"#),
            ),
            of(&event, "[]"),
            of(&event, r#"{"bytes":"?"}"#),
            of(&event, r#"{"bytes":"e30=","bytes":"e30="}"#),
            of(&event, &inner("no json")),
            of(&event, &inner(r#"{"type":"a\ndata: x"}"#)),
            of(&event, &inner(r#"{"type":7}"#)),
        ] {
            assert!(read(&bad, 9).is_err());
        }
        // Lengths that promise more than may be, or less than there is.
        for (whole, headers) in [
            (u32::MAX, 0),
            (16, 1),
            (15, 0),
            (200_000_000, 8),
            (1 << 20, 1 << 18),
        ] {
            let mut prelude = [u32::to_be_bytes(whole), u32::to_be_bytes(headers)].concat();
            prelude.extend_from_slice(&crc32(&prelude).to_be_bytes());
            assert!(read(&prelude, 12).is_err(), "{whole} {headers}");
        }
    }
}
