//! Files that are opened to be read, and that have to be files: the opening of a pipe would wait for who writes to it, and a
//! device may never end.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Rights of a file for others than its owner.
const OF_OTHERS: u32 = 0o077;

/// Opens a file to read it. What is looked at is what was opened, whatever takes its name meanwhile.
///
/// # Errors
/// It cannot be opened, or is no file.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY).bits();
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(flags.cast_signed())
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "is no file")),
    }
}

/// Says to the operator that others than the owner of a secret's file may read it.
pub(crate) fn tell_loose(path: &Path, file: &File) {
    let mode = file.metadata().map_or(0, |of| of.mode()) & 0o777;
    if mode & OF_OTHERS != 0 {
        tracing::warn!(
            file = %path.display(),
            mode = format!("{mode:o}"),
            "others than its owner may use this secret key: chmod 600"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_are_opened_and_nothing_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            mode,
            0,
        )
        .unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("device")).unwrap();
        assert!(open_plain(&at("file")).is_ok());
        for name in ["pipe", "device", "."] {
            let error = open_plain(&at(name)).map(drop).unwrap_err();
            assert!(error.to_string().contains("no file"), "{name}: {error}");
        }
    }
}
