//! Files and secrets that a scenario names, with a bound on each.

use std::io::Read as _;
use std::path::Path;

/// Largest file that is a secret, in bytes.
pub(crate) const SECRET_BYTES_MAX: usize = 64 << 10;
/// Largest file of certificates or keys, in bytes.
pub(crate) const PEM_BYTES_MAX: usize = 4 << 20;

/// A file's bytes.
///
/// # Errors
///
/// Why it cannot be read, with its path, or that it is too large.
pub(crate) fn bytes(path: &Path, bytes_max: usize) -> Result<Vec<u8>, String> {
    let fail = |e: std::io::Error| format!("the file {} cannot be read: {e}", path.display());
    let file = std::fs::File::open(path).map_err(fail)?;
    let mut bytes = Vec::new();
    let limit = bytes_max as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).map_err(fail)?;
    if bytes.len() > bytes_max {
        let path = path.display();
        return Err(format!("the file {path} is larger than {bytes_max} bytes"));
    }
    Ok(bytes)
}

/// A file's text.
///
/// # Errors
///
/// As [`bytes`], or that it is not UTF-8.
pub(crate) fn text(path: &Path, bytes_max: usize) -> Result<String, String> {
    let bytes = bytes(path, bytes_max)?;
    String::from_utf8(bytes).map_err(|_| format!("the file {} is not UTF-8", path.display()))
}
