//! Streams between dialects: an event of the provider's becomes pieces, and pieces become events of the client's.
//!
//! It is given whole events that may go on, and keeps no more of them than what the client's dialect has to be told again at the end.

mod read;
mod write;

use serde_json::Value;

use super::Conversion;
use read::PieceReader;
use write::PieceWriter;

/// Converts one stream.
pub(crate) struct StreamConversion {
    reader: PieceReader,
    writer: PieceWriter,
}

impl StreamConversion {
    pub(crate) fn new(conversion: Conversion, model: &str) -> StreamConversion {
        StreamConversion {
            reader: PieceReader::new(conversion.provider),
            writer: PieceWriter::new(conversion.client, model),
        }
    }

    /// Takes events as they may go on, each with its blank line, and adds those of the client to `out`. What is no JSON is not of the
    /// stream's words, such as a comment that keeps it alive, and goes on.
    pub(crate) fn events(&mut self, events: &[u8], out: &mut Vec<u8>) {
        let text = String::from_utf8_lossy(events);
        for event in text
            .replace("\r\n", "\n")
            .split("\n\n")
            .filter(|event| !event.is_empty())
        {
            let data: Vec<&str> = event
                .lines()
                .filter_map(|line| line.strip_prefix("data:"))
                .collect();
            let data = data.join("\n");
            let data = data.trim();
            if data.is_empty() {
                if event.starts_with(':') {
                    out.extend_from_slice(event.as_bytes());
                    out.extend_from_slice(b"\n\n");
                }
                continue;
            }
            match serde_json::from_str::<Value>(data) {
                Ok(event) => {
                    for piece in self.reader.read(&event) {
                        self.writer.write(piece, out);
                    }
                }
                Err(_) if data == "[DONE]" => self.end(out),
                Err(_) => {}
            }
        }
    }

    /// The provider's stream has ended: adds what the client's dialect says then. Does nothing where that was said.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        if let Some(stop) = self.reader.take_stop() {
            self.writer.end(stop, &self.reader.usage(), out);
        }
    }

    /// Whether the provider said how its answer ends: one that did not broke off.
    pub(crate) fn is_ended(&self) -> bool {
        self.writer.is_ended()
    }
}
