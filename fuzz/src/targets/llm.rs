//! The lane of models: bodies, answers and events of the dialects, and what is said on a WebSocket.

/// A body, an answer or an event, of the row that the first byte numbers.
pub fn llm_dialect(data: &[u8]) {
    if let Some((&row, text)) = data.split_first() {
        llm::fuzzing::dialect(row, text);
    }
}

/// A stream of events, in pieces of the size that the first byte says.
pub fn llm_events(data: &[u8]) {
    if let Some((&cut, stream)) = data.split_first() {
        llm::fuzzing::events(cut, stream);
    }
}

/// A stream of AWS's frames; the first byte says the size of the pieces, and in its lowest bit whether checksums are put right.
pub fn llm_frames(data: &[u8]) {
    if let Some((&cut, stream)) = data.split_first() {
        llm::fuzzing::frames(cut >> 1, cut & 1 == 1, stream);
    }
}

/// A message of a client in the first line, and an event of its answer behind it.
pub fn llm_socket(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (message, event) = text.split_once('\n').unwrap_or((&text, ""));
    llm::fuzzing::socket(message, event.as_bytes());
}
