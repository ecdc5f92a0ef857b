//! Reads the kernel's small text files, with a bound on each.
//!
//! Everything that the watch looks at is a text of a few lines. A reader that trusts their size or their shape would
//! let an odd kernel, or a file that is not what it claims to be, end a run; so each read is bounded, and each value
//! that cannot be read is `None`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The most bytes read of one kernel file. `/proc/stat` of a machine with 1,024 cores has about 200 KB.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// The file's text. Longer files are cut at [`FILE_BYTES_MAX`]; bytes that are not UTF-8 become U+FFFD.
///
/// # Errors
/// Whatever opening or reading says: most often that a process has ended in the meantime.
pub fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::with_capacity(1024);
    File::open(path)?
        .take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The one number that the file holds (`memory.current`, `pids.current`); `None` for `max`, and for anything else.
pub fn number(path: &Path) -> Option<u64> {
    text(path).ok()?.trim().parse().ok()
}

/// The number that follows `key` at the beginning of a line, as in `usage_usec 1234` and `VmRSS:   1768 kB`.
pub fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?;
        let rest = rest.strip_prefix(':').unwrap_or(rest);
        if !rest.starts_with([' ', '\t']) {
            return None;
        }
        rest.split_ascii_whitespace().next()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_whole_word() {
        let text = "VmRSSX: 1 kB\nVmRSS:\t 1768 kB\nusage_usec 42\nuser_usec\nbad x\n";
        assert_eq!(keyed(text, "VmRSS"), Some(1768));
        assert_eq!(keyed(text, "usage_usec"), Some(42));
        assert_eq!(keyed(text, "user_usec"), None);
        assert_eq!(keyed(text, "bad"), None);
        assert_eq!(keyed(text, "none"), None);
        assert_eq!(keyed("", ""), None);
    }

    #[test]
    fn a_file_without_end_is_cut() {
        assert_eq!(
            text(Path::new("/dev/zero")).unwrap().len() as u64,
            FILE_BYTES_MAX
        );
        assert!(text(Path::new("/no/such/file")).is_err());
    }
}
