//! The frames between a pool and its children, all numbers little-endian.
//!
//! A child says [`HELLO`] when it starts. A batch is a `u32` of files and a `u32` of all their bytes, then for each
//! file a `u32` of path bytes, a `u32` of content bytes, the path, the content. The answer to each file is a `u32` of
//! bytes and a [`Parsed`](super::Parsed) in postcard, in order. A child reads a whole batch before it answers, so
//! neither side ever waits for the other to read.

use super::super::{FILE_BYTES_MAX, VERSION};
use super::{BATCH_BYTES_MAX, BATCH_FILES_MAX};

/// What a child begins with: its name and version.
pub fn hello() -> [u8; 8] {
    let [a, b, c, d] = VERSION.to_le_bytes();
    [b'w', b'p', b'r', b's', a, b, c, d]
}

/// Bytes of a path.
const PATH_BYTES_MAX: usize = 4096;
/// Bytes of a batch without its head.
pub const BYTES_MAX: usize =
    BATCH_BYTES_MAX + FILE_BYTES_MAX + BATCH_FILES_MAX * (PATH_BYTES_MAX + 8);

/// How many of `files` make the next batch.
pub fn batch(files: &[(&str, &[u8])]) -> usize {
    let mut bytes = 0;
    let fits = files
        .iter()
        .take(BATCH_FILES_MAX)
        .take_while(|(_, content)| {
            bytes += content.len();
            bytes <= BATCH_BYTES_MAX
        });
    fits.count().max(1)
}

/// Writes a batch. A file that is too large for any parser is sent without its bytes' end: a child only says so.
pub fn write(files: &[(&str, &[u8])], frame: &mut Vec<u8>) {
    frame.clear();
    frame.extend_from_slice(&number(files.len()));
    frame.extend_from_slice(&[0; 4]);
    for (path, content) in files {
        let path = tail(path);
        let content = &content[..content.len().min(FILE_BYTES_MAX + 1)];
        frame.extend_from_slice(&number(path.len()));
        frame.extend_from_slice(&number(content.len()));
        frame.extend_from_slice(path.as_bytes());
        frame.extend_from_slice(content);
    }
    let bytes = number(frame.len() - 8);
    frame[4..8].copy_from_slice(&bytes);
}

/// The end of a long path: only its name matters.
fn tail(path: &str) -> &str {
    let mut from = path.len().saturating_sub(PATH_BYTES_MAX);
    while !path.is_char_boundary(from) {
        from += 1;
    }
    &path[from..]
}

fn number(number: usize) -> [u8; 4] {
    u32::try_from(number)
        .expect("frames are bounded")
        .to_le_bytes()
}

/// Reads the files of a batch; `None` where it is not one.
pub fn read(mut frame: &[u8], count: usize) -> Option<Vec<(&str, &[u8])>> {
    let mut files = Vec::with_capacity(count.min(BATCH_FILES_MAX));
    for _ in 0..count {
        let path = take_number(&mut frame)?;
        let content = take_number(&mut frame)?;
        let path = std::str::from_utf8(frame.split_off(..path)?).ok()?;
        files.push((path, frame.split_off(..content)?));
    }
    frame.is_empty().then_some(files)
}

fn take_number(frame: &mut &[u8]) -> Option<usize> {
    let bytes = frame.split_off(..4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_read_as_it_was_written() {
        let files: [(&str, &[u8]); 3] = [("a.py", b"x = 1"), ("", b""), ("ö/b", &[0, 255])];
        let mut frame = Vec::new();
        write(&files, &mut frame);
        assert_eq!(
            frame.len() - 8,
            u32::from_le_bytes(frame[4..8].try_into().unwrap()) as usize
        );
        assert_eq!(read(&frame[8..], 3).unwrap(), files);
        assert_eq!(read(&frame[8..], 2), None);
        assert_eq!(read(&frame[8..], 4), None);
        for end in 8..frame.len() {
            assert_eq!(read(&frame[8..end], 3), None);
        }
    }

    #[test]
    fn a_batch_is_bounded_but_has_one_file() {
        let large = vec![0; BATCH_BYTES_MAX + 1];
        assert_eq!(batch(&[("a", &large), ("b", b"")]), 1);
        assert_eq!(batch(&[("a", b"x"), ("b", &large)]), 1);
        assert_eq!(batch(&[("a", &b"x"[..]); 100]), BATCH_FILES_MAX);
    }

    #[test]
    fn a_long_path_keeps_its_end() {
        let path = format!("{}/a.py", "ö".repeat(PATH_BYTES_MAX));
        assert!(tail(&path).len() <= PATH_BYTES_MAX && tail(&path).ends_with("ö/a.py"));
    }
}
