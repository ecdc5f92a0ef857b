//! What decoded bytes are: text, text among other bytes, UTF-16, or compressed data (RFC 1950, RFC 1952).

use std::io::Read as _;

use flate2::read::{GzDecoder, ZlibDecoder};

use crate::decode::run;
use crate::report::Bound;

/// Fewest bytes of text among others that are looked at.
const TEXT_BYTES_MIN: usize = 14;

/// Puts the text that is in `bytes` into `out`; nothing where there is none.
///
/// Errors: compressed data that holds more than `inflate_left` bytes, which are taken from it.
pub(crate) fn unpack(
    bytes: &[u8],
    out: &mut Vec<u8>,
    inflate_left: &mut usize,
) -> Result<(), Bound> {
    let mut inflated = Vec::new();
    let bytes = if compressed(bytes) {
        inflate(bytes, &mut inflated, *inflate_left)?;
        *inflate_left -= inflated.len();
        &inflated[..]
    } else {
        bytes
    };
    if let Some(low) = utf16(bytes) {
        out.extend(bytes[low..].iter().step_by(2).filter(|byte| **byte != 0));
    } else if is_text(bytes) {
        out.extend_from_slice(bytes);
    } else {
        let mut at = 0;
        while let Some(stretch) = run(bytes, at, TEXT_BYTES_MIN, printable) {
            at = stretch.end;
            out.extend_from_slice(&bytes[stretch]);
            out.push(b'\n');
        }
    }
    Ok(())
}

/// Whether there is anything that [`unpack`] would find.
pub(crate) fn has_text(bytes: &[u8]) -> bool {
    compressed(bytes)
        || utf16(bytes).is_some()
        || is_text(bytes)
        || run(bytes, 0, TEXT_BYTES_MIN, printable).is_some()
}

/// Whether bytes are text in another form: UTF-16, or compressed.
pub(crate) fn packed(bytes: &[u8]) -> bool {
    compressed(bytes) && !is_text(&bytes[..bytes.len().min(64)]) || utf16(bytes).is_some()
}

fn printable(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~')
}

/// Whether all of it is someone's words rather than noise.
fn is_text(bytes: &[u8]) -> bool {
    let control = |byte: u8| byte < 0x80 && !printable(byte);
    // Noise is told by its first bytes; of text some are looked at in one step.
    let (head, rest) = bytes.split_at(bytes.len().min(TEXT_BYTES_MIN));
    let any = |some: &[u8]| some.iter().fold(false, |any, byte| any | control(*byte));
    bytes.len() >= TEXT_BYTES_MIN / 2
        && !head.iter().any(|byte| control(*byte))
        && !rest.chunks(64).any(any)
        && std::str::from_utf8(bytes).is_ok()
}

/// Which of each two bytes of UTF-16 holds the ASCII.
fn utf16(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..16)?;
    (0..2).find(|low| {
        head.chunks(2)
            .all(|pair| pair[1 - low] == 0 && printable(pair[*low]))
    })
}

fn compressed(bytes: &[u8]) -> bool {
    match bytes {
        [0x1f, 0x8b, 8, ..] => true,
        // A window of at most 32 KiB, and a header that is a multiple of 31.
        [method, flags, _, _, _, _, ..] => {
            *method == 0x78 && (u16::from(*method) * 256 + u16::from(*flags)).is_multiple_of(31)
        }
        _ => false,
    }
}

/// Inflates what can be inflated: data that is cut gives what came before the cut.
fn inflate(bytes: &[u8], out: &mut Vec<u8>, max: usize) -> Result<(), Bound> {
    let limit = max as u64 + 1;
    let result = match bytes[0] {
        0x1f => GzDecoder::new(bytes).take(limit).read_to_end(out),
        _ => ZlibDecoder::new(bytes).take(limit).read_to_end(out),
    };
    // Damaged data ends where the damage is; what came out until then is looked at.
    drop(result);
    if out.len() > max {
        return Err(Bound("compressed data holds more than the scan unpacks"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn unpacked(bytes: &[u8]) -> Result<String, Bound> {
        let mut out = Vec::new();
        unpack(bytes, &mut out, &mut 10_000)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn text_is_found_among_other_bytes() {
        assert_eq!(
            unpacked("grüße an alle".as_bytes()),
            Ok("grüße an alle".into())
        );
        assert_eq!(
            unpacked(b"\x00\xffa sentence of text\x01"),
            Ok("a sentence of text\n".into())
        );
        assert_eq!(unpacked(b"\x00\xff\x00short\x01\x02"), Ok(String::new()));
        let wide: Vec<u8> = "wide text"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(unpacked(&wide), Ok("wide text".into()));
    }

    #[test]
    fn compressed_data_is_unpacked_up_to_its_bound() {
        let squeeze = |text: &[u8]| {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
            gzip.write_all(text).unwrap();
            gzip.finish().unwrap()
        };
        assert_eq!(
            unpacked(&squeeze(b"hello, my world")),
            Ok("hello, my world".into())
        );
        assert!(unpacked(&squeeze(&[b'a'; 20_000])).is_err());
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
        zlib.write_all(b"hello, my world").unwrap();
        assert_eq!(
            unpacked(&zlib.finish().unwrap()),
            Ok("hello, my world".into())
        );
    }
}
