//! Which trees a tenant has: one small file, replaced whole.

use std::io::Write;
use std::path::{Path, PathBuf};

use base::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::code::api::{Error, Result};

/// What is kept of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Which it is: of its project and directory.
    pub id: String,
    /// Its project.
    pub project: String,
    /// Its name, unique in its project.
    pub name: String,
    /// Its directory.
    pub dir: PathBuf,
    /// Which index it shares.
    pub family: String,
}

/// The trees of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registry {
    /// The trees, in the order that they came.
    pub trees: Vec<Row>,
}

impl Row {
    /// A row for a directory of a project.
    pub(crate) fn new(project: &str, name: &str, dir: &Path, family: &Path) -> Row {
        use std::os::unix::ffi::OsStrExt;
        Row {
            id: digest(&[project.as_bytes(), dir.as_os_str().as_bytes()]),
            project: project.to_owned(),
            name: name.to_owned(),
            dir: dir.to_owned(),
            family: digest(&[family.as_os_str().as_bytes()]),
        }
    }
}

/// 24 hexadecimal digits that stand for some texts.
pub(crate) fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex::encode(&hash.finalize()[..12])
}

impl Registry {
    /// Reads the file; an absent one has no trees.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] when it cannot be read. It is not made anew: it names what people asked for.
    pub(crate) fn read(path: &Path) -> Result<Registry> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Registry::default());
            }
            Err(error) => return Err(Error::Store(format!("the list of trees: {error}"))),
        };
        serde_json::from_slice(&bytes)
            .map_err(|error| Error::Store(format!("the list of trees: {error}")))
    }

    /// Replaces the file.
    ///
    /// # Errors
    ///
    /// [`Error::Store`].
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let bytes = serde_json::to_vec_pretty(self);
        let bytes = bytes.map_err(|error| Error::Store(error.to_string()))?;
        replace(path, &bytes)
    }
}

/// Replaces a file so that it is the old one or the new one, whatever happens.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |error: std::io::Error| Error::Store(format!("writing: {error}"));
    let beside = path.with_extension("new");
    let mut file = std::fs::File::create(&beside).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.sync_data().map_err(failed)?;
    std::fs::rename(&beside, path).map_err(failed)?;
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::File::open(dir)
        .and_then(|dir| dir.sync_data())
        .map_err(failed)
}
