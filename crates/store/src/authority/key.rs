//! Where a private key of the authority is: in a file that is sealed with a passphrase, or in a PKCS #11 module that signs with it.
//!
//! `root.key` is the sealed key of `root.pem`; `root.pkcs11` says where a module has it. The second wins where both stand, because a
//! key moves into a module and not out of one.

use std::fmt;
use std::io;
use std::path::Path;

use base::Secret;
use rcgen::{KeyPair, PublicKeyData, SignatureAlgorithm, SigningKey};

use super::{AuthorityError, read_file, unmakeable};
use crate::disk::{Disk, FileDisk};
use crate::pkcs11::{ModuleError, ModuleKey, ModuleKeyRecord, ModulePlace, generate};
use crate::sealed::{SealedKeyError, open_key, seal_key};

/// Where a new key is made, and what guards it there.
#[derive(Clone, Copy)]
pub enum NewKey<'k> {
    /// In a file, sealed with this passphrase.
    Sealed { passphrase: &'k Secret },
    /// In a token, which this PIN opens.
    Module {
        place: &'k ModulePlace,
        pin: &'k Secret,
    },
}

/// A private key that signs certificates.
pub(super) enum AuthorityKey {
    File(KeyPair),
    Module(ModuleKey),
}

/// A key that was made and is not kept yet.
pub(super) struct MadeKey {
    pub key: AuthorityKey,
    name: &'static str,
    text: String,
    is_in_module: bool,
}

impl AuthorityKey {
    /// Makes a key called `name`; `label` is what a token calls it.
    ///
    /// # Errors
    /// A short passphrase, or what a module refuses.
    pub(super) fn make(
        name: &'static str,
        label: &str,
        new: NewKey<'_>,
    ) -> Result<MadeKey, AuthorityError> {
        match new {
            NewKey::Sealed { passphrase } => {
                let key = KeyPair::generate().map_err(unmakeable)?;
                let text = seal_key(key.serialized_der(), passphrase.expose());
                let text = text.map_err(|error| AuthorityError::Key(file(name).into(), error))?;
                Ok(MadeKey {
                    key: AuthorityKey::File(key),
                    name,
                    text,
                    is_in_module: false,
                })
            }
            NewKey::Module { place, pin } => {
                let record = generate(place, label, pin).map_err(AuthorityError::Module)?;
                let text = serde_json::to_string_pretty(&record)
                    .map_err(|error| AuthorityError::Unmakeable(error.to_string()))?;
                let key = ModuleKey::new(record, pin.clone()).map_err(AuthorityError::Module)?;
                Ok(MadeKey {
                    key: AuthorityKey::Module(key),
                    name,
                    text: text + "\n",
                    is_in_module: true,
                })
            }
        }
    }

    /// The key called `name`, opened by its passphrase or PIN. A module is not asked yet.
    ///
    /// # Errors
    /// Another passphrase, and a file that is not there or not one of these.
    pub(super) fn open(
        dir: &Path,
        name: &str,
        secret: &Secret,
    ) -> Result<AuthorityKey, AuthorityError> {
        if let Some(record) = module_record(dir, name)? {
            let key = ModuleKey::new(record, secret.clone()).map_err(AuthorityError::Module)?;
            return Ok(AuthorityKey::Module(key));
        }
        let path = dir.join(file(name));
        let key = open_key(&read_file(&path)?, secret.expose())
            .map_err(|error| AuthorityError::Key(path.clone(), error))?;
        let key = KeyPair::try_from(key.as_slice());
        key.map(AuthorityKey::File)
            .map_err(|_| AuthorityError::Key(path, SealedKeyError::Passphrase))
    }

    /// Why the module did not sign, where one did not.
    pub(super) fn failure(&self) -> Option<ModuleError> {
        match self {
            AuthorityKey::File(_) => None,
            AuthorityKey::Module(key) => key.failure(),
        }
    }
}

impl PublicKeyData for AuthorityKey {
    fn der_bytes(&self) -> &[u8] {
        match self {
            AuthorityKey::File(key) => key.der_bytes(),
            AuthorityKey::Module(key) => key.point(),
        }
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_ECDSA_P256_SHA256
    }
}

impl SigningKey for AuthorityKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        match self {
            AuthorityKey::File(key) => key.sign(message),
            AuthorityKey::Module(key) => {
                let signed = key.sign(message);
                signed.map_err(|_| rcgen::Error::RemoteKeyError)
            }
        }
    }
}

impl MadeKey {
    /// Writes it into the authority's folder, in the place of the one before.
    ///
    /// # Errors
    /// What the disk says.
    pub(super) fn keep(&self, dir: &Path) -> Result<(), AuthorityError> {
        let disk = FileDisk::new(dir);
        let (name, other) = match self.is_in_module {
            true => (record_file(self.name), file(self.name)),
            false => (file(self.name), record_file(self.name)),
        };
        let kept = disk
            .write(&name, self.text.as_bytes(), true)
            .and_then(|()| disk.remove(&other));
        kept.map_err(|error| AuthorityError::Io(dir.join(name), error))
    }
}

impl fmt::Debug for MadeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MadeKey({})", self.name)
    }
}

/// Whether the key called `name` can be used from here: its file stands, or a module has it.
pub(super) fn is_here(dir: &Path, name: &str) -> bool {
    dir.join(file(name)).exists() || dir.join(record_file(name)).exists()
}

/// Where a module has the key called `name`, if one does.
///
/// # Errors
/// A file that cannot be read or is not such a record.
pub(super) fn module_record(
    dir: &Path,
    name: &str,
) -> Result<Option<ModuleKeyRecord>, AuthorityError> {
    let path = dir.join(record_file(name));
    match read_file(&path) {
        Ok(text) => match serde_json::from_str(&text) {
            Ok(record) => Ok(Some(record)),
            Err(_) => Err(AuthorityError::Damaged(
                path,
                "does not say where a PKCS #11 module has a key",
            )),
        },
        Err(AuthorityError::Io(_, error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn file(name: &str) -> String {
    format!("{name}.key")
}

fn record_file(name: &str) -> String {
    format!("{name}.pkcs11")
}
