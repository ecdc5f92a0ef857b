//! Files and variables that a configuration names; each file that is looked at is noted.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ::config::Outside;

use super::seen::Seen;

/// Looks up a variable of the environment.
pub(crate) type Environment<'e> = &'e dyn Fn(&str) -> Option<String>;

/// This machine.
pub(super) struct Machine<'m> {
    pub environment: Environment<'m>,
    pub seen: &'m mut Seen,
}

impl Outside for Machine<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name)
    }

    fn text(&mut self, file: &Path, bytes_max: usize) -> Result<String, String> {
        self.seen.note(file);
        read_text(file, bytes_max)
    }

    fn files(
        &mut self,
        folder: &Path,
        extension: &str,
        files_max: usize,
    ) -> Result<Vec<PathBuf>, String> {
        self.seen.note(folder);
        let failed = |error: std::io::Error| format!("cannot be read: {error}");
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            // What starts with a dot is an editor's or a mount's own.
            let name = path.file_name().map(|name| name.as_encoded_bytes());
            let hidden = name.is_some_and(|name| name.starts_with(b"."));
            if hidden || path.extension().is_none_or(|of| of != extension) {
                continue;
            }
            if files.len() == files_max {
                return Err(format!("holds more than {files_max} .{extension} files"));
            }
            files.push(path);
        }
        files.sort();
        Ok(files)
    }

    fn is_folder(&self, folder: &Path) -> bool {
        folder.is_dir()
    }

    fn now_unix_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
    }
}

/// A file's text, if it is small enough and UTF-8. The error names neither the file nor its contents.
pub(crate) fn read_text(path: &Path, bytes_max: usize) -> Result<String, String> {
    use std::io::Read as _;
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    // Opening a pipe would wait for who writes to it, and all else with it.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err("is no file".to_owned());
    }
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    let limit = bytes_max as u64 + 1;
    file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > bytes_max {
        return Err(format!("is larger than {bytes_max} bytes"));
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
}
