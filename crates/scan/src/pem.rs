//! Where a PEM block (RFC 7468) ends, and whether it holds a key.

use std::ops::Range;

use crate::layer::Layer;
use crate::placeholder;
use crate::rule::Direction;

/// Bytes after its first line in which a block is looked for; an RSA key of 16,384 bits has 13,000.
const BLOCK_BYTES_MAX: usize = 16 << 10;
/// What begins its last line, and bytes of that line.
const END: &[u8] = b"-----END";
const END_BYTES_MAX: usize = 64;
/// Characters of a key in a row that make a block more than its first line.
const KEY_BYTES_MIN: usize = 16;
/// The same where other marks stand between, as in the strings of source code.
const KEY_LINE_BYTES_MIN: usize = 40;
/// What each key of OpenSSH begins with (`openssh-key-v1`), in base64: the rest of its first line has so many zeros that
/// it looks like none.
const OPENSSH_MAGIC: &[u8] = b"b3BlbnNzaC1rZXktdjE";
/// How far behind the first line those are looked for, in bytes.
const NEAR_BYTES: usize = 160;

/// Where the block of a first line ends: after its last line, or with its last base64.
pub(crate) fn end(layer: &Layer<'_>, first: &Range<usize>) -> usize {
    let end = layer
        .string(first.start)
        .map_or(layer.bytes.len(), |(_, string)| string.end);
    let rest = &layer.bytes[first.end..end.min(first.end + BLOCK_BYTES_MAX)];
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=:,-\\ \t\r\n".contains(byte);
    let body = rest
        .iter()
        .position(|byte| !inside(byte))
        .unwrap_or(rest.len());
    let Some(last) = memchr::memmem::find(&rest[..body], END) else {
        return first.end + body;
    };
    let tail = &rest[last + END.len()..];
    let close = memchr::memmem::find(&tail[..tail.len().min(END_BYTES_MAX)], b"-----");
    let rest = if tail.len() < END_BYTES_MAX {
        tail.len()
    } else {
        0
    };
    first.end + last + END.len() + close.map_or(rest, |close| close + 5)
}

/// Whether the body of a block is that of a key: code and documentation name the first line, with nothing or a few marks
/// behind it. What goes out may be a key whose rest follows, unless it is plain that none does.
pub(crate) fn is_key(bytes: &[u8], body: Range<usize>, direction: Direction) -> bool {
    let near = &bytes[body.start..bytes.len().min(body.start + NEAR_BYTES)];
    let ended = || memchr::memmem::find(near, END).is_some() || is_constant(near);
    has_key(&bytes[body], KEY_BYTES_MIN)
        || has_key(near, KEY_LINE_BYTES_MIN)
        || direction != Direction::Incoming && !ended()
}

/// Whether what follows the first line has a part of a key, in a row of so many characters.
fn has_key(body: &[u8], min: usize) -> bool {
    let word = |word: &[u8]| {
        let told = word.starts_with(OPENSSH_MAGIC) || !placeholder::placeholder(word);
        word.len() >= min && told
    };
    body.split(|byte| !byte.is_ascii_alphanumeric() && !b"+/=".contains(byte))
        .any(word)
}

/// Whether the first line is a constant of code: its string ends with it.
fn is_constant(after: &[u8]) -> bool {
    let after = after.strip_prefix(b"\\n").unwrap_or(after);
    matches!(after.first(), Some(b'"' | b'\'' | b'`'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_ends_with_the_line() {
        assert!(is_constant(b"\";"));
        assert!(is_constant(b"\\n\" + body"));
        assert!(!is_constant(b"\nMIIE"));
        assert!(!is_constant(b"\\nMIIE"));
        assert!(!is_constant(b""));
    }

    #[test]
    fn what_goes_out_may_be_the_first_part_of_a_key() {
        let key = |body: &[u8], direction| is_key(body, 0..body.len(), direction);
        for direction in [Direction::Incoming, Direction::Outgoing] {
            assert!(key(b"\nMIIEowIBAAKCAQEA7\n", direction));
            let first = b"b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW";
            assert!(key(first, direction));
            assert!(!key(&[b'A'; 70], Direction::Incoming));
            assert!(!key(b"\"; and more", direction));
            assert!(!key(b"\n...\n-----END", direction));
        }
        assert!(key(b"\nMIIEow", Direction::Outgoing));
        assert!(!key(b"\nMIIEow", Direction::Incoming));
    }
}
