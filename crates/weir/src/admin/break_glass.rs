//! The secret for when nothing else opens: made at the first start, shown once, kept as a hash alone.
//!
//! It acts as an admin wherever the admin listener is reached. Whoever lost it takes the file away and starts the gateway again.

use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest;
use base::{Digest, Secret, hex};

/// The file in the state folder: 64 hex digits.
const FILE: &str = "break-glass.sha256";
/// What the secret begins with, so that people and scanners know it.
const PREFIX: &str = "weir_break_glass_";
const FILE_BYTES_MAX: u64 = 4096;

/// The hash of the secret; and the secret itself, where it was made now.
///
/// # Errors
/// The file cannot be read or made, or holds something else. Its text is for the operator.
pub(crate) fn open(state: &Path) -> Result<(Digest, Option<Secret>), String> {
    let path = file(state);
    let failed = |error: io::Error| format!("{}: {error}", path.display());
    match store::open_plain(&path) {
        Ok(file) => {
            let mut text = String::new();
            file.take(FILE_BYTES_MAX)
                .read_to_string(&mut text)
                .map_err(failed)?;
            let digest = Digest::from_hex(text.trim());
            let wrong = || {
                format!(
                    "{} holds no SHA-256 in hex; take it away, and the next start makes another secret",
                    path.display()
                )
            };
            Ok((digest.ok_or_else(wrong)?, None))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut random = [0; 32];
            aws_lc_rs::rand::fill(&mut random)
                .map_err(|_| "the system gives no random bytes".to_owned())?;
            let secret = Secret::new(format!("{PREFIX}{}", hex::encode(&random)));
            let digest = digest_of(secret.expose());
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
                .map_err(failed)?;
            writeln!(file, "{}", hex::encode(&digest.0)).map_err(failed)?;
            file.sync_all().map_err(failed)?;
            Ok((digest, Some(secret)))
        }
        Err(error) => Err(failed(error)),
    }
}

/// Where the hash is kept.
pub(crate) fn file(state: &Path) -> PathBuf {
    state.join(FILE)
}

/// The SHA-256 of what was sent.
pub(crate) fn digest_of(text: &str) -> Digest {
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    let mut bytes = [0; 32];
    bytes.copy_from_slice(hash.as_ref());
    Digest(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_and_kept_as_a_hash() {
        let dir = tempfile::tempdir().unwrap();
        let (digest, made) = open(dir.path()).unwrap();
        let made = made.unwrap();
        assert!(made.expose().starts_with(PREFIX) && made.expose().len() == PREFIX.len() + 64);
        assert_eq!(digest, digest_of(made.expose()));
        let again = open(dir.path()).unwrap();
        assert!(again.0 == digest && again.1.is_none());
        let kept = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert!(!kept.contains(&made.expose()[PREFIX.len()..]));
        std::fs::write(dir.path().join(FILE), "no hash").unwrap();
        assert!(
            open(dir.path())
                .map(drop)
                .unwrap_err()
                .contains("take it away")
        );
    }
}
