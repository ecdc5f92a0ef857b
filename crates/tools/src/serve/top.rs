//! The id of a JSON-RPC request that is too long to be parsed.
//!
//! It looks at the fields at the top of the object only, keeps no more than one short key and value of them, and finds
//! no id rather than a wrong one.

/// Longest id that is answered, in bytes as it is written; and so the longest key or value that is kept.
const ID_BYTES_MAX: usize = 256;

/// What is known of a message of which so much was read.
#[derive(Default)]
pub(super) struct Top {
    depth: usize,
    in_string: bool,
    escaped: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    ids: usize,
    id: Option<String>,
    has_method: bool,
}

impl Top {
    /// The id, as JSON, if the message has exactly one, and a method.
    pub(super) fn id(&self) -> Option<&str> {
        let id = self.id.as_deref();
        id.filter(|_| self.ids == 1 && self.has_method)
    }

    /// Reads on.
    pub(super) fn push(&mut self, piece: &[u8]) {
        for byte in piece {
            self.byte(*byte);
        }
    }

    fn byte(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            self.in_string = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            return;
        }
        match byte {
            b'{' | b'[' => {
                self.keep(byte);
                self.depth += 1;
            }
            b'}' | b']' => {
                self.end_field();
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => self.key = std::mem::take(&mut self.value),
            b',' => self.end_field(),
            byte => {
                self.in_string = byte == b'"';
                self.keep(byte);
            }
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.value.len() <= ID_BYTES_MAX {
            self.value.push(byte);
        }
    }

    fn end_field(&mut self) {
        if self.depth != 1 {
            return;
        }
        let key = std::mem::take(&mut self.key);
        let value = std::mem::take(&mut self.value);
        match key.trim_ascii() {
            b"\"id\"" => {
                self.ids += 1;
                self.id = id(value.trim_ascii());
            }
            b"\"method\"" => self.has_method = true,
            _ => {}
        }
    }
}

/// The text of an id: a JSON string or number, and not too long.
fn id(value: &[u8]) -> Option<String> {
    let value = std::str::from_utf8(value).ok()?;
    let parsed: serde_json::Value = serde_json::from_str(value).ok()?;
    let fits = value.len() <= ID_BYTES_MAX && (parsed.is_string() || parsed.is_number());
    fits.then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<String> {
        let mut whole = Top::default();
        whole.push(text.as_bytes());
        let mut parts = Top::default();
        text.bytes().for_each(|byte| parts.push(&[byte]));
        assert_eq!(whole.id(), parts.id());
        whole.id().map(str::to_owned)
    }

    #[test]
    fn an_id_is_found_or_nothing() {
        for (text, id) in [
            (r#"{"method":"m","params":[1,{}],"id": -7 }"#, "-7"),
            (
                r#"{"id":"a\"b","method":"m","params":{"id":5,"x":"}, \"id\": 6"}}"#,
                r#""a\"b""#,
            ),
            // Broken behind its id, as a line that was cut is.
            (r#"{"id":7,"method":"m","params":{"a":[1,"#, "7"),
        ] {
            assert_eq!(found(text).as_deref(), Some(id), "{text}");
        }
        for none in [
            "",
            "[]",
            r#"[{"id":7,"method":"m"}]"#,
            r#"{"id":7}"#,
            r#"{"id":7,"id":8,"method":"m"}"#,
            r#"{"id":null,"method":"m"}"#,
            r#"{"id":{"id":7},"method":"m"}"#,
            r#"{"id":7 8,"method":"m"}"#,
            r#"{"params":{"id":7},"method":"m"}"#,
            "}}}{\"id\"",
        ] {
            assert_eq!(found(none), None, "{none}");
        }
        let long = format!(r#"{{"id":"{}","method":"m"}}"#, "x".repeat(300));
        assert_eq!(found(&long), None);
    }
}
