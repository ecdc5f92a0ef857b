//! What a gateway brings into the store once, and every replica has in its state folder then: the directory, the keys that all
//! have to share, and the authority of agents.
//!
//! Keys are sealed with the passphrase of `store.passphrase` before they leave the machine; the authority's are sealed already, or are in a
//! module. It never makes a key or an authority because the database has none, and never replaces one that is another.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use base::{Digest, Secret};
use postgres::{Fault, Session, SqlValue, Target};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{ReplicaError, schema};
use crate::authority::{AuthorityFiles, CA_FOLDER};
use crate::directory::{DirectoryBook, DirectoryFile};
use crate::disk::{Disk, FileDisk};
use crate::sealed::{SealedKeyError, open_key, seal_key};
use crate::state::State;

/// Files of the state folder that every replica has to have alike; the first three are made where they are not there.
const KEYS: [&str; 4] = [
    "session.key",
    "fingerprint.key",
    "token.key",
    "token-before.key",
];
const MADE: usize = 3;
/// Under which name the sealed keys are kept.
const KEYRING: &str = "keyring";
/// What stands before the files of the authority.
const CA: &str = "ca/";
/// Largest file of the authority, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// Most files of it.
const FILES_MAX: usize = 32;
/// How long an import may take, in milliseconds.
const IMPORT_MS_MAX: u64 = 60_000;

/// Everything that is kept in the store beside the logs: what `weir store export` writes. No key in it is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreExport {
    /// The version of this form.
    pub weir_store: u64,
    pub trust_domain: String,
    pub directory: DirectoryBook,
    /// Sealed keys and the authority's files, by name.
    pub kept: BTreeMap<String, String>,
}

/// What is imported from a state folder.
///
/// # Errors
/// A file that cannot be read, and a passphrase that is too short.
pub fn gather(
    state_dir: &Path,
    trust_domain: &str,
    passphrase: &Secret,
) -> Result<StoreExport, ReplicaError> {
    let unreadable = |what: &str, error: String| {
        ReplicaError::new(format!("{what}: {error}"), "Mend the state folder.")
    };
    let state = State::open(state_dir)
        .map_err(|error| unreadable("the state folder", error.to_string()))?;
    let mut keys = BTreeMap::new();
    for (at, name) in KEYS.into_iter().enumerate() {
        if at < MADE || state_dir.join(name).exists() {
            let key = state
                .key(name)
                .map_err(|error| unreadable(name, error.to_string()))?;
            keys.insert(name.to_owned(), Digest(key).to_string());
        }
    }
    let mut kept = authority(state_dir)?;
    kept.insert(KEYRING.to_owned(), seal(&keys, passphrase)?);
    let directory = DirectoryFile::of_state(state_dir)
        .read()
        .map_err(|error| unreadable("the directory", error.to_string()))?;
    Ok(StoreExport {
        weir_store: 1,
        trust_domain: trust_domain.to_owned(),
        directory,
        kept,
    })
}

/// The authority's files, by the names under which they are kept.
fn authority(state_dir: &Path) -> Result<BTreeMap<String, String>, ReplicaError> {
    let dir = state_dir.join(CA_FOLDER);
    let unreadable = |error: std::io::Error| {
        ReplicaError::new(
            format!("{}: {error}", dir.display()),
            "Mend the state folder.",
        )
    };
    let mut kept = BTreeMap::new();
    let listed = match std::fs::read_dir(&dir) {
        Ok(listed) => listed,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(kept),
        Err(error) => return Err(unreadable(error)),
    };
    for file in listed.take(FILES_MAX) {
        let file = file.map_err(unreadable)?;
        let name = file.file_name().to_string_lossy().into_owned();
        let about = file.metadata().map_err(unreadable)?;
        if !about.is_file() || about.len() > FILE_BYTES_MAX {
            continue;
        }
        let text = std::fs::read_to_string(file.path()).map_err(unreadable)?;
        kept.insert(format!("{CA}{name}"), text);
    }
    Ok(kept)
}

/// Puts it into a store, as the owner of its tables; replaces what was imported before only where `replaces` says so.
///
/// # Errors
/// A store that has something already, or that is of another trust domain; then nothing was changed.
pub fn import(owner: &Target, export: &StoreExport, replaces: bool) -> Result<(), ReplicaError> {
    let failed = |fault: Fault| ReplicaError::of("importing", &fault);
    let session = Session::open_within(owner, IMPORT_MS_MAX).map_err(failed)?;
    match schema::version(&session).map_err(failed)? {
        None => {
            return Err(ReplicaError::new(
                "the database has no tables of weir",
                "Run weir store migrate --owner URL.",
            ));
        }
        Some((version, oldest)) if oldest > schema::SCHEMA_VERSION => {
            return Err(schema::newer(version));
        }
        Some(_) => {}
    }
    let there = super::start::meta(&session, "trust_domain").map_err(failed)?;
    match &there {
        Some(domain) if *domain != export.trust_domain => {
            return Err(ReplicaError::new(
                format!(
                    "the store is of the trust domain {domain:?}, and this is of {:?}",
                    export.trust_domain
                ),
                "Use another database for another trust domain.",
            ));
        }
        Some(_) if !replaces => {
            return Err(ReplicaError::new(
                "the store has agents, keys and an authority already",
                "Start replicas with it. To put these in their place, stop all replicas and add --replace.",
            ));
        }
        _ => {}
    }
    let book = serde_json::to_string(&export.directory);
    let book = book.map_err(|error| ReplicaError::new(error.to_string(), ""))?;
    session.batch("BEGIN").map_err(failed)?;
    let text = |text| SqlValue::Text(Some(text));
    session
        .batch("DELETE FROM weir.kept; DELETE FROM weir.directory")
        .map_err(failed)?;
    for (name, content) in &export.kept {
        session
            .execute(
                "INSERT INTO weir.kept VALUES ($1, $2)",
                &[text(name), text(content)],
            )
            .map_err(failed)?;
    }
    let epoch = SqlValue::Int(Some(super::signed(export.directory.epoch)));
    session
        .execute(
            "INSERT INTO weir.directory (epoch, book) VALUES ($1, $2)",
            &[epoch, text(&book)],
        )
        .map_err(failed)?;
    session
        .execute(
            "INSERT INTO weir.meta VALUES ('trust_domain', $1) ON CONFLICT (name) DO NOTHING",
            &[text(&export.trust_domain)],
        )
        .map_err(failed)?;
    session.batch("COMMIT").map_err(failed)
}

/// All of it, as a store has it now.
///
/// # Errors
/// A store that does not answer, or that has nothing.
pub fn export(target: &Target) -> Result<StoreExport, ReplicaError> {
    let session = super::start::open(target)?;
    let failed = |fault: Fault| ReplicaError::of("exporting", &fault);
    let domain = super::start::meta(&session, "trust_domain").map_err(failed)?;
    let trust_domain = domain.ok_or_else(|| {
        ReplicaError::new(
            "nothing was put into the store yet",
            "Run weir store import --owner URL.",
        )
    })?;
    Ok(StoreExport {
        weir_store: 1,
        trust_domain,
        directory: super::directory::read(&session)?,
        kept: kept(&session)?,
    })
}

fn kept(session: &Session) -> Result<BTreeMap<String, String>, ReplicaError> {
    let rows = session.rows("SELECT name, text FROM weir.kept ORDER BY name", &[]);
    let rows = rows.map_err(|fault| ReplicaError::of("reading what is kept", &fault))?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Puts the keys and the authority of a store into a state folder. Files that are there have to be the same.
pub(super) fn fetch(
    session: &Session,
    passphrase: &Secret,
    state_dir: &Path,
) -> Result<(), ReplicaError> {
    let kept = kept(session)?;
    let sealed = kept.get(KEYRING).map(String::as_str).unwrap_or_default();
    let keys = open(sealed, passphrase)?;
    let failed = |what: &Path, error: &dyn std::fmt::Display| {
        ReplicaError::new(
            format!("{}: {error}", what.display()),
            "Make the state folder writable.",
        )
    };
    for (name, hex) in &keys {
        if !KEYS.contains(&name.as_str()) {
            continue;
        }
        put(state_dir, name, &format!("{hex}\n"))
            .map_err(|error| error.unwrap_or_else(|why| failed(&state_dir.join(name), &why)))?;
    }
    let files: Vec<(&str, &String)> = kept
        .iter()
        .filter_map(|(name, text)| Some((name.strip_prefix(CA)?, text)))
        .collect();
    let has_own = AuthorityFiles::of_state(state_dir).view().is_ok();
    if files.is_empty() {
        return match has_own {
            true => Err(ReplicaError::new(
                "this state folder has an authority of agents, and the store has none",
                "Import it with weir store import, or begin with a state folder that has none.",
            )),
            false => Ok(()),
        };
    }
    let dir = state_dir.join(CA_FOLDER);
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir);
    made.map_err(|error| failed(&dir, &error))?;
    // The root comes last: with it the authority is there.
    let (root, others): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|(name, _)| *name == "root.pem");
    for (name, text) in others.into_iter().chain(root) {
        if name.contains(['/', '\0']) || name.starts_with('.') {
            continue;
        }
        put(&dir, name, text)
            .map_err(|error| error.unwrap_or_else(|why| failed(&dir.join(name), &why)))?;
    }
    Ok(())
}

/// Writes a file that is not there, or looks that it is the same.
fn put(dir: &Path, name: &str, text: &str) -> Result<(), Result<ReplicaError, std::io::Error>> {
    let path = dir.join(name);
    match std::fs::read_to_string(&path) {
        Ok(there) if there.trim_end() == text.trim_end() => Ok(()),
        Ok(_) => Err(Ok(ReplicaError::new(
            format!("{} is another than the store's", path.display()),
            "Begin a replica with a state folder that has no keys, or import this one into a store of its own.",
        ))),
        Err(error) if error.kind() == ErrorKind::NotFound => FileDisk::new(dir)
            .write(name, text.as_bytes(), true)
            .map_err(Err),
        Err(error) => Err(Err(error)),
    }
}

/// The keys as one sealed text, with a hash by which a change of it is seen.
fn seal(keys: &BTreeMap<String, String>, passphrase: &Secret) -> Result<String, ReplicaError> {
    let json =
        serde_json::to_vec(keys).map_err(|error| ReplicaError::new(error.to_string(), ""))?;
    let mut plain = Sha256::digest(&json).to_vec();
    plain.extend_from_slice(&json);
    seal_key(&framed(&plain), passphrase.expose()).map_err(unsealed)
}

fn open(sealed: &str, passphrase: &Secret) -> Result<BTreeMap<String, String>, ReplicaError> {
    let plain = open_key(sealed, passphrase.expose()).map_err(unsealed)?;
    let content = plain.get(FRAME_BYTES..).unwrap_or_default();
    let (hash, json) = content.split_at_checked(32).unwrap_or_default();
    let keys = serde_json::from_slice(json);
    match keys {
        Ok(keys) if Sha256::digest(json)[..] == *hash => Ok(keys),
        _ => Err(ReplicaError::new(
            "the keys in the store were changed",
            "Put a good copy back: weir store import.",
        )),
    }
}

/// Bytes of the frame that sealed keys have, before what is in it.
const FRAME_BYTES: usize = 11;

/// In the frame of a private key (RFC 5958 §2), by which a wrong passphrase is told: a sequence of version 0 and the bytes. They are more
/// than 255, since there are three keys at least.
fn framed(plain: &[u8]) -> Vec<u8> {
    let length = |bytes: usize| u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes();
    let (outer, inner) = (length(plain.len() + 7), length(plain.len()));
    let mut framed = vec![
        0x30, 0x82, outer[0], outer[1], 2, 1, 0, 4, 0x82, inner[0], inner[1],
    ];
    framed.extend_from_slice(plain);
    framed
}

fn unsealed(error: SealedKeyError) -> ReplicaError {
    ReplicaError::new(
        format!("store.passphrase: {error}"),
        "Name the passphrase that the keys were imported with, of 12 characters or more.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sealed_and_another_is_never_replaced() {
        let secret = Secret::new("a long enough passphrase".to_owned());
        let folder = tempfile::tempdir().unwrap();
        let gathered = gather(folder.path(), "example.org", &secret).unwrap();
        let text = serde_json::to_string(&gathered).unwrap();
        let own = std::fs::read_to_string(folder.path().join("token.key")).unwrap();
        assert!(!text.contains(own.trim()));
        let keys = open(&gathered.kept[KEYRING], &secret).unwrap();
        assert_eq!(keys["token.key"], own.trim());
        let wrong = open(
            &gathered.kept[KEYRING],
            &Secret::new("another passphrase".to_owned()),
        );
        assert!(wrong.unwrap_err().what.contains("passphrase"));
        let short = gather(
            folder.path(),
            "example.org",
            &Secret::new("short".to_owned()),
        );
        assert!(short.unwrap_err().what.contains("12 characters"));
        assert!(put(folder.path(), "token.key", &keys["token.key"]).is_ok());
        assert!(put(folder.path(), "token.key", "another").is_err());
    }
}
