//! The certificate authority of agents: a root, an intermediate that signs, and the certificates of agents (RFC 5280, and the
//! X.509-SVID document of SPIFFE).
//!
//! Its files are in the state folder, in `ca`: certificates as PEM, and the two private keys sealed with a passphrase, or where a
//! PKCS #11 module has them ([`NewKey`]). The root's key is needed to make an intermediate alone, so it can be kept elsewhere. Each leaf is sent with its intermediate, so that an
//! intermediate can be replaced while leaves of the one before are good. It issues nothing by its own decision, and never
//! makes or sees the private key of an agent.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use base::{Digest, Secret};
use identity::certificate::{CertificateRequest, SpiffeId, certificate_thumbprint};
use identity::public_key::JwsAlgorithm;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    PublicKeyData, RevokedCertParams, SanType, SerialNumber, SignatureAlgorithm, SigningKey,
};

use crate::disk::{Disk, FileDisk};
use crate::pkcs11::{ModuleError, ModulePlace};
use crate::sealed::{SealedKeyError, pem, unpem};
use key::{AuthorityKey, MadeKey};

mod key;

pub use key::NewKey;

/// The folder in the state folder.
pub const CA_FOLDER: &str = "ca";
/// The certificates that a listener has to trust for clients: the roots.
pub const ROOTS_FILE: &str = "roots.pem";
const ROOT: &str = "root.pem";
const ROOT_KEY: &str = "root";
const INTERMEDIATE: &str = "intermediate.pem";
const INTERMEDIATE_KEY: &str = "intermediate";
const TRUST_DOMAIN: &str = "trust_domain";
/// Largest file of it, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 10;
const ROOT_YEARS: u64 = 10;
const INTERMEDIATE_DAYS: u64 = 365;
const DAY_MS: u64 = 86_400_000;
/// How far the clocks of others may be behind, in milliseconds: a certificate is good from before it was made.
const BACKDATED_MS: u64 = 60_000;
/// How long a revocation list is good, in milliseconds.
const LIST_MS: u64 = 7 * DAY_MS;

/// Why the authority cannot be used.
#[derive(Debug)]
pub enum AuthorityError {
    /// There is one already.
    Exists(PathBuf),
    /// There is none.
    Missing(PathBuf),
    Io(PathBuf, io::Error),
    Key(PathBuf, SealedKeyError),
    /// The module that has the key does not sign.
    Module(ModuleError),
    /// A file is not what it has to be.
    Damaged(PathBuf, &'static str),
    /// What was asked for cannot be made.
    Unmakeable(String),
}

impl fmt::Display for AuthorityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuthorityError::Exists(path) => {
                write!(f, "there is an authority in {} already", path.display())
            }
            AuthorityError::Missing(path) => {
                write!(
                    f,
                    "there is no authority in {}; make one with weir ca init",
                    path.display()
                )
            }
            AuthorityError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            AuthorityError::Key(path, error) => write!(f, "{}: {error}", path.display()),
            AuthorityError::Module(error) => error.fmt(f),
            AuthorityError::Damaged(path, what) => write!(f, "{}: {what}", path.display()),
            AuthorityError::Unmakeable(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for AuthorityError {}

fn unmakeable(error: rcgen::Error) -> AuthorityError {
    AuthorityError::Unmakeable(error.to_string())
}

/// A time as `rcgen` asks for it, whose type has no name here.
macro_rules! time_of {
    ($unix_ms:expr) => {
        rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs($unix_ms / 1000)
    };
}

/// The files of an authority.
#[derive(Clone, Debug)]
pub struct AuthorityFiles {
    dir: PathBuf,
}

/// What the files say without a passphrase.
#[derive(Clone, Debug)]
pub struct AuthorityView {
    pub trust_domain: String,
    pub root_pem: String,
    pub intermediate_pem: String,
    /// Whether the root's private key is here, or in a module.
    pub has_root_key: bool,
    /// Where the root's key is, if a module has it, and where the intermediate's.
    pub root_module: Option<ModulePlace>,
    pub intermediate_module: Option<ModulePlace>,
}

/// An authority whose intermediate can sign.
pub struct Authority {
    pub trust_domain: String,
    intermediate_pem: String,
    issuer: Issuer<'static, AuthorityKey>,
}

/// A certificate that was made.
#[derive(Clone, Debug)]
pub struct IssuedCertificate {
    /// The leaf and the intermediate, as PEM.
    pub chain_pem: String,
    /// SHA-256 of the leaf in DER.
    pub digest: Digest,
    pub serial: String,
    pub expires_unix_ms: u64,
}

impl AuthorityFiles {
    /// Those of a state folder.
    pub fn of_state(state: &Path) -> AuthorityFiles {
        AuthorityFiles {
            dir: state.join(CA_FOLDER),
        }
    }

    /// Where the roots are, for listeners to trust.
    pub fn roots_file(&self) -> PathBuf {
        self.dir.join(ROOTS_FILE)
    }

    /// Makes a root and an intermediate.
    ///
    /// # Errors
    /// [`AuthorityError::Exists`], a passphrase that is short, what a module refuses, or a folder that cannot be written.
    pub fn init(
        &self,
        trust_domain: &str,
        root: NewKey<'_>,
        intermediate: NewKey<'_>,
        now_unix_ms: u64,
    ) -> Result<AuthorityView, AuthorityError> {
        if self.dir.join(ROOT).exists() {
            return Err(AuthorityError::Exists(self.dir.clone()));
        }
        let made = crate::state::make_dir(&self.dir);
        made.map_err(|error| AuthorityError::Unmakeable(error.to_string()))?;
        let root_key = AuthorityKey::make(ROOT_KEY, "weir root", root)?;
        let root = root_params(trust_domain, now_unix_ms);
        let certificate = signed(&root_key.key, root.self_signed(&root_key.key))?;
        let root = (&root, &root_key.key);
        let (pem, key) = make_intermediate(trust_domain, root, intermediate, now_unix_ms)?;
        self.write(TRUST_DOMAIN, trust_domain.as_bytes())?;
        root_key.keep(&self.dir)?;
        key.keep(&self.dir)?;
        self.write(INTERMEDIATE, pem.as_bytes())?;
        self.write(ROOTS_FILE, certificate.pem().as_bytes())?;
        // Last: with it the authority is there.
        self.write(ROOT, certificate.pem().as_bytes())?;
        self.view()
    }

    /// Makes another intermediate, by the root's key, which `root_secret` opens. Leaves of the one before are good until they end.
    ///
    /// # Errors
    /// [`AuthorityError`], as where the root's key is kept elsewhere.
    pub fn rotate(
        &self,
        root_secret: &Secret,
        intermediate: NewKey<'_>,
        now_unix_ms: u64,
    ) -> Result<AuthorityView, AuthorityError> {
        let view = self.view()?;
        let key = AuthorityKey::open(&self.dir, ROOT_KEY, root_secret)?;
        let root = root_params(&view.trust_domain, now_unix_ms);
        let root = (&root, &key);
        let (pem, key) = make_intermediate(&view.trust_domain, root, intermediate, now_unix_ms)?;
        key.keep(&self.dir)?;
        self.write(INTERMEDIATE, pem.as_bytes())?;
        self.view()
    }

    /// What can be seen without a passphrase.
    ///
    /// # Errors
    /// [`AuthorityError::Missing`], or a file that cannot be read.
    pub fn view(&self) -> Result<AuthorityView, AuthorityError> {
        if !self.dir.join(ROOT).exists() {
            return Err(AuthorityError::Missing(self.dir.clone()));
        }
        Ok(AuthorityView {
            trust_domain: self.read(TRUST_DOMAIN)?.trim().to_owned(),
            root_pem: self.read(ROOT)?,
            intermediate_pem: self.read(INTERMEDIATE)?,
            has_root_key: key::is_here(&self.dir, ROOT_KEY),
            root_module: self.module_of(ROOT_KEY)?,
            intermediate_module: self.module_of(INTERMEDIATE_KEY)?,
        })
    }

    /// Opens the intermediate's key by its passphrase or PIN. A module is asked when it has to sign, so that a gateway starts while
    /// its HSM is away.
    ///
    /// # Errors
    /// [`AuthorityError`].
    pub fn open(&self, secret: &Secret) -> Result<Authority, AuthorityError> {
        let view = self.view()?;
        let key = AuthorityKey::open(&self.dir, INTERMEDIATE_KEY, secret)?;
        let path = self.dir.join(INTERMEDIATE);
        let der = unpem("CERTIFICATE", &view.intermediate_pem);
        let der = der.ok_or(AuthorityError::Damaged(path.clone(), "is no certificate"))?;
        // The key has to be that of the certificate: its bits stand in it.
        if !der
            .windows(key.der_bytes().len())
            .any(|bytes| bytes == key.der_bytes())
        {
            return Err(AuthorityError::Damaged(
                path,
                "is not that of the intermediate's key",
            ));
        }
        let params = intermediate_params(&view.trust_domain, key.der_bytes(), 0);
        Ok(Authority {
            trust_domain: view.trust_domain,
            intermediate_pem: view.intermediate_pem,
            issuer: Issuer::new(params, key),
        })
    }

    fn module_of(&self, name: &str) -> Result<Option<ModulePlace>, AuthorityError> {
        let record = key::module_record(&self.dir, name)?;
        Ok(record.map(|record| record.place()))
    }

    fn read(&self, file: &str) -> Result<String, AuthorityError> {
        read_file(&self.dir.join(file))
    }

    fn write(&self, file: &str, bytes: &[u8]) -> Result<(), AuthorityError> {
        let written = FileDisk::new(&self.dir).write(file, bytes, false);
        written.map_err(|error| AuthorityError::Io(self.dir.join(file), error))
    }
}

fn read_file(path: &Path) -> Result<String, AuthorityError> {
    use std::io::Read;
    let mut text = String::new();
    crate::plain::open_plain(path)
        .and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text))
        .map_err(|error| AuthorityError::Io(path.to_owned(), error))?;
    Ok(text)
}

/// An intermediate that the root signs: its certificate as PEM, and its key.
fn make_intermediate(
    trust_domain: &str,
    (root, root_key): (&CertificateParams, &AuthorityKey),
    new: NewKey<'_>,
    now_unix_ms: u64,
) -> Result<(String, MadeKey), AuthorityError> {
    let made = AuthorityKey::make(INTERMEDIATE_KEY, "weir intermediate", new)?;
    let params = intermediate_params(trust_domain, made.key.der_bytes(), now_unix_ms);
    let root = Issuer::from_params(root, root_key);
    let certificate = signed(root_key, params.signed_by(&made.key, &root))?;
    Ok((certificate.pem(), made))
}

/// What a key signed, or why it did not.
fn signed<T>(key: &AuthorityKey, made: Result<T, rcgen::Error>) -> Result<T, AuthorityError> {
    made.map_err(|error| match (&error, key.failure()) {
        (rcgen::Error::RemoteKeyError, Some(failure)) => AuthorityError::Module(failure),
        _ => unmakeable(error),
    })
}

impl Authority {
    /// Makes a certificate for the key of a request: for one SPIFFE id, to be a client.
    ///
    /// # Errors
    /// [`AuthorityError::Unmakeable`].
    pub fn issue(
        &self,
        request: &CertificateRequest,
        id: &SpiffeId,
        now_unix_ms: u64,
        life_ms: u64,
    ) -> Result<IssuedCertificate, AuthorityError> {
        let serial = random_serial()?;
        let uri = id.to_string().as_str().try_into().map_err(unmakeable)?;
        let mut params = validity(now_unix_ms, life_ms);
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        params.distinguished_name = name(&self.trust_domain, "agent");
        params.subject_alt_names = vec![SanType::URI(uri)];
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let key = RequestedKey {
            bits: &request.public_bits,
            algorithm: rcgen_algorithm(request.key.first_algorithm()),
        };
        let leaf = signed(self.issuer.key(), params.signed_by(&key, &self.issuer))?;
        Ok(IssuedCertificate {
            chain_pem: format!(
                "{}{}",
                pem("CERTIFICATE", leaf.der()),
                self.intermediate_pem
            ),
            digest: certificate_thumbprint(leaf.der()),
            serial: base::hex::encode(&serial),
            // Certificates count whole seconds.
            expires_unix_ms: (now_unix_ms + life_ms) / 1000 * 1000,
        })
    }

    /// The list of the certificates that were taken back before their end (RFC 5280 §5), as PEM.
    ///
    /// # Errors
    /// [`AuthorityError::Unmakeable`].
    pub fn revocation_list(
        &self,
        revoked: &[crate::directory::RevokedEntry],
        number: u64,
        now_unix_ms: u64,
    ) -> Result<String, AuthorityError> {
        let listed = revoked.iter().filter_map(|one| {
            let serial = unhex(&one.id)?;
            Some(RevokedCertParams {
                serial_number: SerialNumber::from_slice(&serial),
                revocation_time: time_of!(one.at_unix_ms),
                reason_code: None,
                invalidity_date: None,
            })
        });
        let params = CertificateRevocationListParams {
            this_update: time_of!(now_unix_ms),
            next_update: time_of!(now_unix_ms + LIST_MS),
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: listed.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = signed(self.issuer.key(), params.signed_by(&self.issuer))?;
        list.pem().map_err(unmakeable)
    }

    /// Signs something that is of no use to anyone, to see whether the key can.
    ///
    /// # Errors
    /// [`AuthorityError::Module`].
    pub fn try_key(&self) -> Result<(), AuthorityError> {
        let key = self.issuer.key();
        signed(key, key.sign(b"weir tries its key")).map(drop)
    }

    /// The certificate that signs leaves, as PEM.
    pub fn intermediate_pem(&self) -> &str {
        &self.intermediate_pem
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority({})", self.trust_domain)
    }
}

/// A new P-256 key of an agent, on the agent's own machine: in PKCS #8 as DER and as PEM, and a request for a certificate that it
/// signed, as PEM.
///
/// # Errors
/// [`AuthorityError::Unmakeable`].
pub fn new_agent_key() -> Result<(Vec<u8>, String, String), AuthorityError> {
    let key = KeyPair::generate().map_err(unmakeable)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&key).map_err(unmakeable)?;
    let request = pem("CERTIFICATE REQUEST", request.der());
    Ok((key.serialize_der(), key.serialize_pem(), request))
}

/// The public key of a request, as `rcgen` asks for it.
struct RequestedKey<'r> {
    bits: &'r [u8],
    algorithm: &'static SignatureAlgorithm,
}

impl PublicKeyData for RequestedKey<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.bits
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

fn rcgen_algorithm(algorithm: JwsAlgorithm) -> &'static SignatureAlgorithm {
    match algorithm {
        JwsAlgorithm::Es256 => &rcgen::PKCS_ECDSA_P256_SHA256,
        JwsAlgorithm::Es384 => &rcgen::PKCS_ECDSA_P384_SHA384,
        JwsAlgorithm::EdDsa => &rcgen::PKCS_ED25519,
        JwsAlgorithm::Rs256 | JwsAlgorithm::Ps256 => &rcgen::PKCS_RSA_SHA256,
    }
}

fn root_params(trust_domain: &str, now_unix_ms: u64) -> CertificateParams {
    let mut params = validity(now_unix_ms, ROOT_YEARS * 365 * DAY_MS);
    params.distinguished_name = name(trust_domain, "root");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// Its name has the first digits of its key, so that two intermediates are told apart.
fn intermediate_params(trust_domain: &str, key: &[u8], now_unix_ms: u64) -> CertificateParams {
    let digits = &certificate_thumbprint(key).to_string()[..8];
    let mut params = validity(now_unix_ms, INTERMEDIATE_DAYS * DAY_MS);
    params.distinguished_name = name(trust_domain, &format!("intermediate {digits}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.use_authority_key_identifier_extension = true;
    params
}

fn name(trust_domain: &str, what: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, trust_domain);
    name.push(DnType::CommonName, format!("weir {what}"));
    name
}

fn validity(now_unix_ms: u64, life_ms: u64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.not_before = time_of!(now_unix_ms.saturating_sub(BACKDATED_MS));
    params.not_after = time_of!(now_unix_ms.saturating_add(life_ms));
    params
}

fn random_serial() -> Result<[u8; 16], AuthorityError> {
    let mut serial = [0; 16];
    aws_lc_rs::rand::fill(&mut serial)
        .map_err(|_| AuthorityError::Unmakeable("the system gives no random bytes".to_owned()))?;
    // A positive number that keeps its length (RFC 5280 §4.1.2.2).
    serial[0] = serial[0] & 0x7f | 0x40;
    Ok(serial)
}

pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.is_ascii() && text.len().is_multiple_of(2);
    let bytes = (0..text.len()).step_by(2).filter(|_| digits);
    bytes
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok())
        .collect()
}

#[cfg(test)]
#[path = "authority_tests.rs"]
mod tests;
