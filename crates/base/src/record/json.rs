//! Writes one JSON object in canonical form (RFC 8785): keys sorted, no white space.
//!
//! Fields may be given in any order. Nested objects are written into the same buffer, and where the fields came in
//! order, which they mostly do, nothing is moved afterwards.

use std::cmp::Ordering;
use std::fmt::Display;
use std::io::Write as _;

/// One object that is being written.
pub(super) struct RecordObject<'b, 'k> {
    out: &'b mut Vec<u8>,
    /// Where the first field begins.
    start: usize,
    /// Each field's key, and where the field begins.
    fields: Vec<(&'k str, usize)>,
}

/// The bytes of an object, as `fill` gives its fields.
pub(super) fn object<'k>(fill: impl FnOnce(&mut RecordObject<'_, 'k>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    RecordObject::write(&mut out, 24, fill);
    out
}

impl<'k> RecordObject<'_, 'k> {
    fn write(out: &mut Vec<u8>, fields: usize, fill: impl FnOnce(&mut RecordObject<'_, 'k>)) {
        out.push(b'{');
        let mut object = RecordObject {
            start: out.len(),
            out,
            fields: Vec::with_capacity(fields),
        };
        fill(&mut object);
        object.close();
    }

    /// Begins a field, whose value has to follow.
    fn key(&mut self, key: &'k str) {
        if !self.fields.is_empty() {
            self.out.push(b',');
        }
        self.fields.push((key, self.out.len()));
        self.string(key);
        self.out.push(b':');
    }

    pub(super) fn text(&mut self, key: &'k str, value: &str) {
        self.key(key);
        self.string(value);
    }

    /// A text where there is one.
    pub(super) fn text_if(&mut self, key: &'k str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }

    /// A value whose text has nothing in it that JSON escapes, such as a digest or an address.
    pub(super) fn plain(&mut self, key: &'k str, value: impl Display) {
        self.key(key);
        write!(self.out, "\"{value}\"").expect("a vector takes all bytes");
    }

    pub(super) fn number(&mut self, key: &'k str, value: u64) {
        self.key(key);
        write!(self.out, "{value}").expect("a vector takes all bytes");
    }

    /// A value that is JSON already.
    pub(super) fn raw(&mut self, key: &'k str, json: &str) {
        self.key(key);
        self.out.extend_from_slice(json.as_bytes());
    }

    /// A list of texts.
    pub(super) fn texts<'t>(&mut self, key: &'k str, values: impl Iterator<Item = &'t str>) {
        self.list(key, values, |json, value| json.string(value));
    }

    /// A list of values as [`RecordObject::plain`] takes them.
    pub(super) fn plains(&mut self, key: &'k str, values: impl Iterator<Item = impl Display>) {
        self.list(key, values, |json, value| {
            write!(json.out, "\"{value}\"").expect("a vector takes all bytes");
        });
    }

    pub(super) fn object<'i>(
        &mut self,
        key: &'k str,
        fill: impl FnOnce(&mut RecordObject<'_, 'i>),
    ) {
        self.key(key);
        RecordObject::write(self.out, 8, fill);
    }

    /// A list of objects.
    pub(super) fn objects<'i, T>(
        &mut self,
        key: &'k str,
        values: impl Iterator<Item = T>,
        fill: impl Fn(&mut RecordObject<'_, 'i>, T),
    ) {
        self.list(key, values, |json, value| {
            RecordObject::write(json.out, 8, |object| fill(object, value));
        });
    }

    fn list<T>(
        &mut self,
        key: &'k str,
        values: impl Iterator<Item = T>,
        each: impl Fn(&mut Self, T),
    ) {
        self.key(key);
        self.out.push(b'[');
        for (i, value) in values.enumerate() {
            if i > 0 {
                self.out.push(b',');
            }
            each(self, value);
        }
        self.out.push(b']');
    }

    fn string(&mut self, value: &str) {
        serde_json::to_writer(&mut *self.out, value).expect("a string always serializes");
    }

    /// Puts the fields in order and ends the object.
    fn close(self) {
        let RecordObject {
            out,
            start,
            mut fields,
        } = self;
        if !fields.is_sorted_by(|a, b| order(a.0, b.0).is_lt()) {
            let written = out.split_off(start);
            let mut ends: Vec<usize> = fields.iter().skip(1).map(|(_, at)| at - 1).collect();
            ends.push(start + written.len());
            let mut spans: Vec<(&str, usize, usize)> = fields
                .drain(..)
                .zip(ends)
                .map(|((key, at), end)| (key, at - start, end - start))
                .collect();
            spans.sort_by(|a, b| order(a.0, b.0));
            for (i, (_, at, end)) in spans.into_iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(&written[at..end]);
            }
        }
        out.push(b'}');
    }
}

/// The order of two keys by their UTF-16 units, which is that of their bytes where one of them is ASCII.
fn order(a: &str, b: &str) -> Ordering {
    match a.is_ascii() || b.is_ascii() {
        true => a.cmp(b),
        false => a.encode_utf16().cmp(b.encode_utf16()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_in_order_whatever_order_they_came_in() {
        let bytes = object(|json| {
            json.number("z", 1);
            json.object("m", |json| {
                json.text("b", "\"");
                json.plain("a", 7);
            });
            json.texts("a", ["x", "y"].into_iter());
            json.raw("b", "[1]");
        });
        let expected = r#"{"a":["x","y"],"b":[1],"m":{"a":"7","b":"\""},"z":1}"#;
        assert_eq!(bytes, expected.as_bytes());
        assert_eq!(object(|_| ()), b"{}");
    }

    #[test]
    fn keys_are_compared_by_their_utf_16_units() {
        // U+10000 is D800 DC00 in UTF-16, which comes before U+FFFF.
        let bytes = object(|json| {
            json.number("\u{ffff}", 1);
            json.number("\u{10000}", 2);
        });
        assert_eq!(bytes, "{\"\u{10000}\":2,\"\u{ffff}\":1}".as_bytes());
    }
}
