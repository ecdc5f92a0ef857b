//! Entrances for the fuzzer to parsers that nothing outside this crate calls. Each panics where what was read contradicts itself.

use base::Json;

use crate::answer::{AnswerSaid, Delta};
use crate::socket::{CreateMessage, KeptResponse, TurnEvents};
use crate::stream::events::{Splitter, data_of};
use crate::stream::frames::{self, FrameReader};
use crate::wire::{self, AskedModel};

/// Bytes of an event that are read.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// A body, an answer or an event of the row of this number: parts and texts stand in it, and do not overlap, since what is redacted
/// is put in their place; each call of a tool is judged as JSON.
pub fn dialect(row: u8, text: &[u8]) {
    let Ok(json) = Json::read(text) else {
        return;
    };
    let wire = wire::ALL[usize::from(row) % wire::ALL.len()];
    let mut asked = AskedModel::default();
    (wire.read)(json.root(), &mut asked);
    let mut spans = asked.spans();
    spans.sort_by_key(|span| (span.start, span.end));
    let apart = spans.windows(2).all(|two| two[0].end <= two[1].start);
    assert!(apart, "two parts of a body overlap");
    assert!(spans.iter().all(|span| span.end <= text.len()));
    let mut said = AnswerSaid::default();
    (wire.answer)(json.root(), &mut said);
    let mut delta = Delta::default();
    (wire.event)(json.root(), &mut delta);
    for call in said.calls.iter().chain(&delta.whole_calls) {
        assert!(
            Json::read(call.json().as_bytes()).is_ok(),
            "a call is no JSON"
        );
    }
    for (_, value) in &delta.texts {
        assert!(value.as_str().is_some(), "a text that grows is none");
    }
}

/// A stream of events: the same ones, however it is cut, and the data of each in it.
pub fn events(cut: u8, stream: &[u8]) {
    let read = |piece: usize| {
        let (mut splitter, mut events) = (Splitter::new(EVENT_BYTES_MAX), Vec::new());
        for piece in stream.chunks(piece.max(1)) {
            splitter.push(piece).ok()?;
            events.extend(std::iter::from_fn(|| splitter.next()));
        }
        events.extend(splitter.rest());
        Some(events)
    };
    let (whole, pieces) = (read(stream.len()), read(usize::from(cut)));
    let (Some(whole), Some(pieces)) = (whole, pieces) else {
        return;
    };
    assert!(whole == pieces, "the cut changed the events");
    assert!(whole.concat() == stream, "a byte was lost");
    for event in whole {
        let (raw, data) = data_of(event);
        assert!(
            raw.get(data).is_some(),
            "the data stand outside of the event"
        );
    }
}

/// A stream of AWS's frames: the same events, however it is cut, and each of them one server-sent event. `seals` has the checksums
/// written that belong there, since chance finds none.
pub fn frames(cut: u8, seals: bool, stream: &[u8]) {
    let stream = match seals {
        true => frames::sealed(stream),
        false => stream.to_vec(),
    };
    let read = |piece: usize| {
        let (mut reader, mut said) = (FrameReader::new(EVENT_BYTES_MAX), Vec::new());
        for piece in stream.chunks(piece.max(1)) {
            reader.push(piece);
            while let Some(event) = reader.next().ok()? {
                said.push(event);
            }
        }
        Some((said, reader.is_cut()))
    };
    let (whole, pieces) = (read(stream.len()), read(usize::from(cut)));
    assert!(whole == pieces, "the cut changed the frames");
    for event in whole.into_iter().flat_map(|(said, _)| said) {
        let mut splitter = Splitter::new(usize::MAX);
        let is_one = event.is_empty()
            || (splitter.push(&event).is_ok() && splitter.next() == Some(event.clone()));
        assert!(is_one, "a frame is more than one event");
    }
}

/// A message of a client on a WebSocket, and an event for it: what goes on is JSON.
pub fn socket(message: &str, event: &[u8]) {
    if let Ok(message) = CreateMessage::read(message.to_owned()) {
        let kept = KeptResponse {
            id: "r".to_owned(),
            items: "{\"a\":1}".to_owned(),
        };
        for body in [message.body(None), message.body(Some(&kept))] {
            let json = Json::read(&body);
            let json = json.unwrap_or_else(|_| panic!("the body of a message is no JSON"));
            assert!(
                json.root().get("stream_id").is_none(),
                "the envelope goes on"
            );
        }
    }
    let mut events = TurnEvents::new(Some("a\"b"));
    if let Some(message) = events.message(event) {
        assert!(
            Json::read(message.as_bytes()).is_ok(),
            "a message is no JSON"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts with a few bytes changed, always the same ones.
    fn mutated(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
        let text = text.to_vec();
        let mut seed = 7u64;
        let mut next = move |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(seed >> 33).unwrap() % below
        };
        (0..500).map(move |_| {
            let mut text = text.clone();
            for _ in 0..next(4) {
                let at = next(text.len());
                text[at] = b"{}[]\",:\\ntruefalse 019\r\n"[next(24)];
            }
            text
        })
    }

    #[test]
    fn what_is_near_a_dialect_contradicts_nothing() {
        let bodies: &[&str] = &[
            r#"{"model":"m","messages":[{"role":"tool","content":"r"},{"role":"user","content":[{"type":"x","data":"AAAA","mime_type":"m"}]}]}"#,
            r#"{"contents":[{"role":"user","parts":[{"text":"x"},{"functionResponse":{}}]}],"generateContentRequest":{"contents":[]}}"#,
            r#"{"type":"response.output_item.done","output":[{"type":"function_call","name":"f","arguments":"{"}],"item":{"type":"custom_tool_call","name":1}}"#,
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}]}}],"choices":[{"delta":{"content":"x"}}]}"#,
        ];
        for body in bodies {
            for text in mutated(body.as_bytes()) {
                for row in 0..10 {
                    dialect(row, &text);
                }
            }
        }
    }

    #[test]
    fn what_is_near_a_stream_or_a_message_contradicts_nothing() {
        for stream in
            mutated(b": x\n\ndata: {\"a\":1}\r\n\r\nevent: y\ndata: 1\ndata: 2\n\ndata: cut")
        {
            for cut in 1..9 {
                events(cut, &stream);
            }
        }
        let chunk = br#"{"bytes":"eyJ0eXBlIjoicGluZyJ9"}"#;
        let headers = b"\x0b:event-type\x07\x00\x05chunk\x0d:message-type\x07\x00\x05event";
        let lengths = [16 + headers.len() + chunk.len(), headers.len()];
        let mut stream: Vec<u8> = lengths
            .iter()
            .flat_map(|of| (*of as u32).to_be_bytes())
            .collect();
        stream.extend_from_slice(b"0000");
        stream.extend_from_slice(headers);
        stream.extend_from_slice(chunk);
        stream.extend_from_slice(b"0000");
        for stream in mutated(&stream) {
            for cut in 1..9 {
                frames(cut, true, &stream);
                frames(cut, false, &stream);
            }
        }
        let message = r#"{"type":"response.create","input":["a"],"previous_response_id":"r","stream_id":"s"}"#;
        let event = br#"{"type":"response.completed","response":{"id":"r","output":[{"type":"reasoning"},{"a":1}]}}"#;
        for (message, event) in mutated(message.as_bytes()).zip(mutated(event)) {
            socket(&String::from_utf8_lossy(&message), &event);
        }
    }
}
