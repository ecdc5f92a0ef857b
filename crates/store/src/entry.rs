//! How one entry of the log is written, and where entries and hashes lie.
//!
//! An entry is canonical JSON, `{"prev":"…","record":…,"seq":N}`: `prev` is the leaf hash of the entry
//! before (zeros for the first), `record` the bytes that were given. On disk each entry follows its length
//! as two bytes, big-endian, which is how C2SP `tlog-tiles` writes entry bundles: a segment is 256 bundles.

use std::io::{self, Read};

use base::Digest;
use serde::de::IgnoredAny;

use crate::tree;

/// Most bytes of one entry: its length has to fit in two bytes.
pub(crate) const ENTRY_BYTES_MAX: usize = u16::MAX as usize;
/// Bytes that an entry adds to its record, with the length before it: at most this.
pub(crate) const ENTRY_EXTRA_BYTES: usize =
    2 + START.len() + 64 + MIDDLE.len() + END.len() + 20 + 1;
/// Most bytes of one record.
pub(crate) const RECORD_BYTES_HARD_MAX: usize = ENTRY_BYTES_MAX + 2 - ENTRY_EXTRA_BYTES;
/// Entries of one segment file: 256 bundles of 256.
pub(crate) const SEGMENT_ENTRIES: u64 = 1 << SEGMENT_LEVEL;
/// The height of the subtree over one segment.
pub(crate) const SEGMENT_LEVEL: u32 = 16;
/// Entries of one bundle, and hashes of one tile.
pub(crate) const TILE_WIDTH: u64 = 256;
/// What the first entry has for the one before it.
pub(crate) const NO_ENTRY: Digest = Digest([0; 32]);

const START: &[u8] = b"{\"prev\":\"";
const MIDDLE: &[u8] = b"\",\"record\":";
const END: &[u8] = b",\"seq\":";

/// One entry, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'e> {
    /// The leaf hash of the entry before.
    pub(crate) prev: Digest,
    /// The record's bytes.
    pub(crate) record: &'e [u8],
    /// The entry's index in the log, from 0.
    pub(crate) seq: u64,
}

impl<'e> Entry<'e> {
    /// Takes an entry apart; nothing where these bytes are not one that [`push`] would write.
    pub(crate) fn parse(bytes: &'e [u8]) -> Option<Entry<'e>> {
        let (prev, rest) = bytes.strip_prefix(START)?.split_at_checked(64)?;
        let rest = rest.strip_prefix(MIDDLE)?.strip_suffix(b"}")?;
        let end = rest.windows(END.len()).rposition(|window| window == END)?;
        let digits = std::str::from_utf8(&rest[end + END.len()..]).ok()?;
        let prev = std::str::from_utf8(prev).ok()?;
        let parsed = Entry {
            prev: Digest::from_hex(prev)?,
            record: &rest[..end],
            seq: digits.parse().ok()?,
        };
        // One way to write each value: no upper case, no sign, no leading zero.
        let one_way = parsed.seq.to_string() == digits && parsed.prev.to_string() == prev;
        one_way.then_some(parsed)
    }
}

/// Appends a length and an entry to `buffer`, and returns the entry's leaf hash. The record is at most
/// [`RECORD_BYTES_HARD_MAX`] bytes.
pub(crate) fn push(buffer: &mut Vec<u8>, prev: &Digest, record: &[u8], seq: u64) -> Digest {
    let start = buffer.len();
    buffer.extend_from_slice(&[0, 0]);
    buffer.extend_from_slice(START);
    push_hex(buffer, prev);
    buffer.extend_from_slice(MIDDLE);
    buffer.extend_from_slice(record);
    buffer.extend_from_slice(END);
    push_decimal(buffer, seq);
    buffer.push(b'}');
    let len =
        u16::try_from(buffer.len() - start - 2).expect("a record is at most RECORD_BYTES_HARD_MAX");
    buffer[start..start + 2].copy_from_slice(&len.to_be_bytes());
    tree::leaf_hash(&buffer[start + 2..])
}

fn push_hex(buffer: &mut Vec<u8>, digest: &Digest) {
    for byte in digest.0 {
        buffer.extend_from_slice(&base::hex::pair(byte));
    }
}

fn push_decimal(buffer: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    buffer.extend_from_slice(&digits[at..]);
}

/// What stands next in a stream of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// An entry's bytes are in the buffer.
    Entry,
    /// The stream ended where an entry ends.
    End,
    /// The stream ended inside an entry, whose bytes behind its length are in the buffer; or zeros follow,
    /// which a crash leaves where a file had grown before its bytes arrived. [`end`] tells more.
    Torn,
    /// Zero bytes for an entry, and something after them.
    Empty,
}

/// Reads the next entry's bytes into `buffer`, whose old content goes.
///
/// # Errors
/// Those of the disk.
pub(crate) fn read_next(reader: &mut dyn Read, buffer: &mut Vec<u8>) -> io::Result<Next> {
    buffer.clear();
    let got = reader.take(2).read_to_end(buffer)?;
    if got < 2 {
        buffer.clear();
        return Ok(if got == 0 { Next::End } else { Next::Torn });
    }
    let len = usize::from(u16::from_be_bytes([buffer[0], buffer[1]]));
    buffer.clear();
    if len == 0 {
        return only_zeros(reader, buffer);
    }
    let got = reader.take(len as u64).read_to_end(buffer)?;
    Ok(if got == len { Next::Entry } else { Next::Torn })
}

fn only_zeros(reader: &mut dyn Read, buffer: &mut Vec<u8>) -> io::Result<Next> {
    loop {
        buffer.clear();
        if reader.take(64 << 10).read_to_end(buffer)? == 0 {
            return Ok(Next::Torn);
        }
        if buffer.iter().any(|byte| *byte != 0) {
            return Ok(Next::Empty);
        }
    }
}

/// What stands behind the last entry, where its length says that more should follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The beginning of the entry that comes next, or zeros: a write that is under way or was cut short.
    Unfinished,
    /// A whole entry behind a length that is not its own.
    Length,
    /// Bytes that no writer of this log left there.
    Junk,
}

/// Tells apart what a crash leaves of the entry `seq` from what it does not. `bytes` follow the length.
pub(crate) fn end(bytes: &[u8], prev: &Digest, seq: u64) -> End {
    if bytes.iter().all(|byte| *byte == 0) {
        return End::Unfinished;
    }
    let mut start = Vec::with_capacity(START.len() + 64 + MIDDLE.len());
    start.extend_from_slice(START);
    push_hex(&mut start, prev);
    start.extend_from_slice(MIDDLE);
    let shared = start.len().min(bytes.len());
    if bytes[..shared] != start[..shared] {
        return End::Junk;
    }
    let mut close = END.to_vec();
    push_decimal(&mut close, seq);
    close.push(b'}');
    let is_whole = |at: usize| {
        let entry = Entry::parse(&bytes[..at + close.len()]);
        entry.is_some_and(|entry| serde_json::from_slice::<IgnoredAny>(entry.record).is_ok())
    };
    let mut closes = bytes.windows(close.len()).enumerate();
    match closes.any(|(at, window)| window == close && is_whole(at)) {
        true => End::Length,
        false => End::Unfinished,
    }
}

/// The file of a segment's entries.
pub(crate) fn segment_name(segment: u64) -> String {
    format!("segment-{segment:06}.log")
}

/// The file of a finished segment's leaf hashes, followed by the root of the subtree over them.
pub(crate) fn leaves_name(segment: u64) -> String {
    format!("segment-{segment:06}.leaves")
}

/// The segments among these files, in order.
pub(crate) fn segments(files: &[(String, u64)]) -> Vec<u64> {
    let number = |(name, _): &(String, u64)| {
        let digits = name.strip_prefix("segment-")?.strip_suffix(".log")?;
        digits
            .parse()
            .ok()
            .filter(|number| segment_name(*number) == *name)
    };
    let mut found: Vec<u64> = files.iter().filter_map(number).collect();
    found.sort_unstable();
    found
}

/// The first file that is named like a part of a segment and is none of these segments, which begin at 0.
pub(crate) fn strange<'f>(files: &'f [(String, u64)], segments: &[u64]) -> Option<&'f str> {
    let known = |name: &str| {
        let rest = name
            .strip_prefix("segment-")
            .and_then(|rest| rest.split_once('.'));
        let number = rest.and_then(|(digits, _)| digits.parse::<u64>().ok());
        number
            .filter(|number| segments.contains(number))
            .is_some_and(|number| {
                // A crash leaves the draft of a file of leaf hashes, which the next start replaces.
                let leaves = leaves_name(number);
                name == segment_name(number) || name == leaves || name == format!("{leaves}.new")
            })
    };
    let mut names = files.iter().map(|(name, _)| name.as_str());
    names.find(|name| name.starts_with("segment-") && !known(name))
}

/// Where `tlog-tiles` puts a tile: `level` is a number or `entries`, `width` below 256 makes it partial.
pub(crate) fn tile_name(level: &str, index: u64, width: u64) -> String {
    let mut path = format!("{:03}", index % 1000);
    let mut rest = index / 1000;
    while rest > 0 {
        path = format!("x{:03}/{path}", rest % 1000);
        rest /= 1000;
    }
    match width {
        TILE_WIDTH => format!("tile/{level}/{path}"),
        _ => format!("tile/{level}/{path}.p/{width}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_canonical_json_and_reads_back() {
        let mut buffer = Vec::new();
        let record = br#"{"x":",\"seq\":9}"}"#;
        let hash = push(&mut buffer, &Digest([0xab; 32]), record, 1_234_567);
        let bytes = &buffer[2..];
        assert_eq!(
            usize::from(u16::from_be_bytes([buffer[0], buffer[1]])),
            bytes.len()
        );
        assert_eq!(hash, tree::leaf_hash(bytes));
        let entry = Entry::parse(bytes).unwrap();
        assert_eq!(
            entry,
            Entry {
                prev: Digest([0xab; 32]),
                record,
                seq: 1_234_567
            }
        );
        let value: serde_json::Value = serde_json::from_slice(bytes).unwrap();
        assert_eq!(serde_json::to_vec(&value).unwrap(), bytes);
    }

    #[test]
    fn what_is_not_an_entry_is_not_read() {
        let mut buffer = Vec::new();
        push(&mut buffer, &Digest([0xab; 32]), b"{}", 10);
        let good = std::str::from_utf8(&buffer[2..]).unwrap();
        assert!(Entry::parse(good.as_bytes()).is_some());
        for (from, to) in [
            ("abab", "ABAB"),
            (":10}", ":010}"),
            (":10}", ":+10}"),
            ("record", "recorD"),
            ("prev", "prew"),
        ] {
            assert_eq!(
                Entry::parse(good.replacen(from, to, 1).as_bytes()),
                None,
                "{from} {to}"
            );
        }
        for cut in 0..good.len() {
            assert_eq!(Entry::parse(&good.as_bytes()[..cut]), None);
        }
    }

    #[test]
    fn an_unfinished_entry_is_told_from_a_changed_length_and_from_junk() {
        let mut buffer = Vec::new();
        push(&mut buffer, &NO_ENTRY, br#"{"x":{"a":1,"seq":7},"y":2}"#, 7);
        let whole = &buffer[2..];
        for cut in 1..whole.len() {
            assert_eq!(end(&whole[..cut], &NO_ENTRY, 7), End::Unfinished, "{cut}");
        }
        assert_eq!(end(&[0; 50], &NO_ENTRY, 7), End::Unfinished);
        assert_eq!(end(whole, &NO_ENTRY, 7), End::Length);
        assert_eq!(end(&[whole, &buffer].concat(), &NO_ENTRY, 7), End::Length);
        assert_eq!(end(whole, &Digest([1; 32]), 7), End::Junk);
        assert_eq!(end(b"junk", &NO_ENTRY, 7), End::Junk);
    }

    #[test]
    fn the_largest_record_fits() {
        let mut buffer = Vec::new();
        let record = vec![b'1'; RECORD_BYTES_HARD_MAX];
        push(&mut buffer, &NO_ENTRY, &record, u64::MAX);
        assert_eq!(buffer.len(), 2 + ENTRY_BYTES_MAX);
    }

    #[test]
    fn tiles_lie_where_the_specification_says() {
        assert_eq!(tile_name("0", 0, 256), "tile/0/000");
        assert_eq!(
            tile_name("entries", 1_234_067, 256),
            "tile/entries/x001/x234/067"
        );
        assert_eq!(tile_name("0", 1067, 17), "tile/0/x001/067.p/17");
        assert_eq!(tile_name("3", 1000, 256), "tile/3/x001/000");
    }
}
