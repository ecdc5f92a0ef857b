//! A private key that a PKCS #11 module holds (OASIS PKCS #11 3.0): an HSM, a smart card, or SoftHSM. The module signs; the key is made
//! there as not extractable, and never comes here.
//!
//! A module is code of others in this process, and may be slow, hang, or lose its token. So one thread talks to it, a signature waits
//! for a bounded time, and few wait at once. A session that failed is opened again for the next signature, so a token that comes back
//! is used again. A PIN that was refused is not sent twice: tokens lock after some wrong ones.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use base::Secret;
use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::Mechanism;
use cryptoki::object::{Attribute, AttributeType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use cryptoki::types::AuthPin;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// How long a signature is waited for.
const SIGNATURE_WAIT: Duration = Duration::from_secs(5);
/// How many signatures wait for a module at once.
const WAITING_MAX: usize = 64;
/// Bytes of the id by which a key is found.
const ID_BYTES: usize = 16;
/// The object identifier of the curve P-256, in DER (RFC 5480 §2.1.1.1).
const P256: &[u8] = &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
/// Bytes of a point of P-256 that is not compressed (SEC 1 §2.3.3), and of one of its numbers.
const POINT_BYTES: usize = 65;
const NUMBER_BYTES: usize = 32;

/// Why a module did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModuleError {
    /// The module cannot be loaded.
    Load(String),
    /// It has no such token, or more than one.
    Token(String),
    /// It refused the PIN, now or before.
    Pin,
    /// The token does not have the key, or has another.
    Key(&'static str),
    /// The module says no, in its own words.
    Said(String),
    /// It has not answered in time, or too many wait for it.
    Slow,
}

impl fmt::Display for ModuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModuleError::Load(why) => write!(f, "the PKCS #11 module cannot be loaded: {why}"),
            ModuleError::Token(what) => f.write_str(what),
            ModuleError::Pin => {
                f.write_str("the token refused the PIN, which is not sent again until a restart")
            }
            ModuleError::Key(what) => f.write_str(what),
            ModuleError::Said(what) => write!(f, "the PKCS #11 module says: {what}"),
            ModuleError::Slow => write!(
                f,
                "the PKCS #11 module has not answered within {} s",
                SIGNATURE_WAIT.as_secs()
            ),
        }
    }
}

impl std::error::Error for ModuleError {}

impl From<Error> for ModuleError {
    fn from(error: Error) -> ModuleError {
        use RvError::{PinExpired, PinIncorrect, PinInvalid, PinLenRange, PinLocked};
        match error {
            Error::Pkcs11(PinIncorrect | PinLocked | PinExpired | PinInvalid | PinLenRange, _) => {
                ModuleError::Pin
            }
            Error::Pkcs11(said, function) => ModuleError::Said(format!("{said} ({function})")),
            Error::LibraryLoading(why) => ModuleError::Load(why.to_string()),
            other => ModuleError::Said(other.to_string()),
        }
    }
}

/// Where keys are made: the shared object of a module, and the label of one of its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModulePlace {
    pub module: PathBuf,
    pub token: String,
}

/// What is kept here of a key that a module holds. No part of it is secret.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ModuleKeyRecord {
    pub module: PathBuf,
    pub token: String,
    /// What the key is called in the token, for those who look into it.
    pub label: String,
    /// `CKA_ID`, by which it is found, in hex digits.
    pub id: String,
    /// The public key: a point of P-256 that is not compressed, in hex digits.
    pub point: String,
}

impl ModuleKeyRecord {
    /// Where the key is, for another one beside it.
    pub fn place(&self) -> ModulePlace {
        ModulePlace {
            module: self.module.clone(),
            token: self.token.clone(),
        }
    }
}

/// Makes a key pair of P-256 in a token: the private key is sensitive, not extractable, and signs.
///
/// # Errors
/// [`ModuleError`], as where the token is not there, the PIN is another, or the module cannot make such keys.
pub fn generate(
    place: &ModulePlace,
    label: &str,
    pin: &Secret,
) -> Result<ModuleKeyRecord, ModuleError> {
    let _calling = CALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let (context, slot) = find_token(place)?;
    let session = context.open_rw_session(slot)?;
    log_in(&session, pin)?;
    let mut id = [0; ID_BYTES];
    aws_lc_rs::rand::fill(&mut id)
        .map_err(|_| ModuleError::Said("the system gives no random bytes".to_owned()))?;
    let named = [
        Attribute::Token(true),
        Attribute::Label(label.as_bytes().to_vec()),
        Attribute::Id(id.to_vec()),
    ];
    let mut public = named.to_vec();
    public.extend([Attribute::EcParams(P256.to_vec()), Attribute::Verify(true)]);
    let mut private = named.to_vec();
    private.extend([
        Attribute::Private(true),
        Attribute::Sensitive(true),
        Attribute::Extractable(false),
        Attribute::Sign(true),
    ]);
    let (public, _) = session.generate_key_pair(&Mechanism::EccKeyPairGen, &public, &private)?;
    let point = session.get_attributes(public, &[AttributeType::EcPoint])?;
    let point = point.iter().find_map(|attribute| match attribute {
        Attribute::EcPoint(point) => bare_point(point),
        _ => None,
    });
    let point = point.ok_or(ModuleError::Key("the module gives no point of P-256"))?;
    Ok(ModuleKeyRecord {
        module: place.module.clone(),
        token: place.token.clone(),
        label: label.to_owned(),
        id: base::hex::encode(&id),
        point: base::hex::encode(point),
    })
}

/// A point as the standard has it, in an octet string of DER, or as some modules give it, without.
fn bare_point(point: &[u8]) -> Option<&[u8]> {
    let inner = point.strip_prefix(&[0x04, 0x41]).unwrap_or(point);
    (inner.len() == POINT_BYTES && inner.first() == Some(&0x04)).then_some(inner)
}

/// A signature that is asked for.
struct Job {
    digest: [u8; 32],
    /// Whoever asked waits no more.
    is_given_up: Arc<AtomicBool>,
    answer: SyncSender<Result<Vec<u8>, ModuleError>>,
}

/// A key that a module holds, and the thread that talks to it. Dropping it ends the thread once the module answers.
pub struct ModuleKey {
    point: Vec<u8>,
    jobs: SyncSender<Job>,
    /// Why the last signature failed, for who cannot be told by a result.
    failed: Mutex<Option<ModuleError>>,
}

impl ModuleKey {
    /// The key of a record. The module is loaded and the session opened when a signature is asked for.
    ///
    /// # Errors
    /// A record that cannot be one, or a thread that cannot be started.
    pub fn new(record: ModuleKeyRecord, pin: Secret) -> Result<ModuleKey, ModuleError> {
        let point = crate::authority::unhex(&record.point);
        let point = point.filter(|point| bare_point(point) == Some(point));
        let point = point.ok_or(ModuleError::Key("the key's point is not one of P-256"))?;
        let id = crate::authority::unhex(&record.id);
        let id = id.ok_or(ModuleError::Key("the key's id is not in hex digits"))?;
        let (jobs, taken) = sync_channel(WAITING_MAX);
        let module = Module {
            place: record.place(),
            id,
            pin,
            opened: None,
            is_pin_refused: false,
        };
        std::thread::Builder::new()
            .name("weir-pkcs11".to_owned())
            .spawn(move || module.serve(&taken))
            .map_err(|error| ModuleError::Said(error.to_string()))?;
        Ok(ModuleKey {
            point,
            jobs,
            failed: Mutex::new(None),
        })
    }

    /// The public key: a point that is not compressed.
    pub fn point(&self) -> &[u8] {
        &self.point
    }

    /// An ECDSA signature over the SHA-256 of a message, in DER (RFC 3279 §2.2.3). It is checked before it is given.
    ///
    /// # Errors
    /// [`ModuleError`].
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, ModuleError> {
        let signed = self.asked(message);
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = signed.as_ref().err().cloned();
        signed
    }

    /// Why the last signature failed, if it did.
    pub fn failure(&self) -> Option<ModuleError> {
        let failed = self.failed.lock();
        failed.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn asked(&self, message: &[u8]) -> Result<Vec<u8>, ModuleError> {
        let (answer, answered) = sync_channel(1);
        let is_given_up = Arc::new(AtomicBool::new(false));
        let job = Job {
            digest: Sha256::digest(message).into(),
            is_given_up: Arc::clone(&is_given_up),
            answer,
        };
        self.jobs.try_send(job).map_err(|_| ModuleError::Slow)?;
        let Ok(signature) = answered.recv_timeout(SIGNATURE_WAIT) else {
            is_given_up.store(true, Ordering::Relaxed);
            return Err(ModuleError::Slow);
        };
        let signature = in_der(&signature?).ok_or(ModuleError::Key(
            "the module's signature is not one of P-256",
        ))?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.point)
            .verify(message, &signature)
            .map_err(|_| ModuleError::Key("the key in the token is not the certificate's"))?;
        Ok(signature)
    }
}

/// Held while a module is called. A module is torn down with the process, which must not happen in the middle of a call.
static CALLING: Mutex<()> = Mutex::new(());

/// Lets no module be called any more, once those that are called have answered: for the end of the process. Waits no longer than
/// a module may take for a signature.
pub fn quiesce() {
    let until = std::time::Instant::now() + SIGNATURE_WAIT;
    while std::time::Instant::now() < until {
        if let Ok(held) = CALLING.try_lock() {
            // Until the process is gone.
            std::mem::forget(held);
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The module's side: what the thread keeps.
struct Module {
    place: ModulePlace,
    id: Vec<u8>,
    pin: Secret,
    opened: Option<(Session, ObjectHandle)>,
    is_pin_refused: bool,
}

impl Module {
    fn serve(mut self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            if !job.is_given_up.load(Ordering::Relaxed) {
                let _calling = CALLING.lock().unwrap_or_else(PoisonError::into_inner);
                let signed = self.sign(&job.digest);
                // It has room for one; where nobody waits any more, it is nothing to anyone.
                let _ = job.answer.try_send(signed);
            }
        }
        // The session is closed by a call too.
        let _calling = CALLING.lock().unwrap_or_else(PoisonError::into_inner);
        self.opened = None;
    }

    /// Signs, and where the session is good no more, once more by another.
    fn sign(&mut self, digest: &[u8; 32]) -> Result<Vec<u8>, ModuleError> {
        if let Some((session, key)) = &self.opened {
            if let Ok(signature) = session.sign(&Mechanism::Ecdsa, *key, digest) {
                return Ok(signature);
            }
            self.opened = None;
        }
        let (session, key) = self.open()?;
        let signature = session.sign(&Mechanism::Ecdsa, key, digest)?;
        self.opened = Some((session, key));
        Ok(signature)
    }

    fn open(&mut self) -> Result<(Session, ObjectHandle), ModuleError> {
        if self.is_pin_refused {
            return Err(ModuleError::Pin);
        }
        let (context, slot) = find_token(&self.place)?;
        let session = context.open_ro_session(slot)?;
        if let Err(error) = log_in(&session, &self.pin) {
            self.is_pin_refused = error == ModuleError::Pin;
            return Err(error);
        }
        let sought = [
            Attribute::Class(ObjectClass::PRIVATE_KEY),
            Attribute::Id(self.id.clone()),
        ];
        match session.find_objects(&sought)?.as_slice() {
            [key] => {
                let key = *key;
                Ok((session, key))
            }
            [] => Err(ModuleError::Key("the token does not have the key")),
            _ => Err(ModuleError::Key("the token has several keys with this id")),
        }
    }
}

/// The modules of this process. A module is loaded and initialized once; what it holds belongs to all of the process
/// (PKCS #11 3.0 §5.4), so it is never finalized.
static LOADED: Mutex<Vec<(PathBuf, Pkcs11)>> = Mutex::new(Vec::new());

fn load(place: &ModulePlace) -> Result<Pkcs11, ModuleError> {
    // The loader would look for a bare name in folders of its own.
    if !place.module.is_absolute() {
        return Err(ModuleError::Load("its path is not absolute".to_owned()));
    }
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, context)) = loaded.iter().find(|(path, _)| *path == place.module) {
        return Ok(context.clone());
    }
    let context = Pkcs11::new(&place.module)?;
    match context.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
        Ok(()) | Err(Error::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => {}
        Err(error) => return Err(error.into()),
    }
    loaded.push((place.module.clone(), context.clone()));
    Ok(context)
}

fn find_token(place: &ModulePlace) -> Result<(Pkcs11, Slot), ModuleError> {
    let context = load(place)?;
    let mut found = Vec::new();
    let mut labels = Vec::new();
    for slot in context.get_slots_with_initialized_token()? {
        let info = context.get_token_info(slot)?;
        let label = info.label().trim_end();
        if label == place.token {
            found.push(slot);
        }
        labels.push(label.to_owned());
    }
    let token = &place.token;
    match found.as_slice() {
        [slot] => Ok((context, *slot)),
        [] => Err(ModuleError::Token(format!(
            "the PKCS #11 module has no token {token:?}; it has {labels:?}"
        ))),
        _ => Err(ModuleError::Token(format!(
            "the PKCS #11 module has several tokens {token:?}"
        ))),
    }
}

fn log_in(session: &Session, pin: &Secret) -> Result<(), ModuleError> {
    let pin = AuthPin::from(pin.expose().to_owned());
    match session.login(UserType::User, Some(&pin)) {
        // All sessions of a process are logged in together.
        Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A signature in DER: the module gives its two numbers, each in 32 bytes, one after the other.
fn in_der(signature: &[u8]) -> Option<Vec<u8>> {
    let (r, s) = signature.split_at_checked(NUMBER_BYTES)?;
    let both = [number(r)?, number(s)?].concat();
    Some([&[0x30, u8::try_from(both.len()).ok()?], both.as_slice()].concat())
}

/// One number of 32 bytes as an INTEGER: without zeros before it, but positive.
fn number(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() != NUMBER_BYTES {
        return None;
    }
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let digits = &bytes[zeros..];
    let sign: &[u8] = match digits.first() {
        Some(first) if *first < 0x80 => &[],
        _ => &[0],
    };
    let length = u8::try_from(sign.len() + digits.len()).ok()?;
    Some([&[0x02, length], sign, digits].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_positive_and_as_short_as_they_can_be() {
        let mut signature = [0; 64];
        signature[31] = 0x80;
        signature[63] = 0x7f;
        let der = in_der(&signature);
        assert_eq!(
            der.as_deref(),
            Some(&[0x30, 7, 2, 2, 0, 0x80, 2, 1, 0x7f][..])
        );
        let der = in_der(&[0xff; 64]).unwrap();
        assert_eq!((der.len(), &der[..5]), (72, &[0x30, 70, 2, 33, 0][..]));
        for length in [0, 31, 32, 63, 65, 96] {
            assert_eq!(in_der(&vec![1; length]), None, "{length}");
        }
    }

    #[test]
    fn a_point_is_taken_with_its_octet_string_and_without() {
        let bare = [[4].as_slice(), &[7; 64]].concat();
        let wrapped = [[0x04, 0x41].as_slice(), &bare].concat();
        assert_eq!(bare_point(&bare), Some(&bare[..]));
        assert_eq!(bare_point(&wrapped), Some(&bare[..]));
        assert_eq!(bare_point(&bare[1..]), None);
        assert_eq!(bare_point(&[]), None);
    }

    #[test]
    fn what_is_no_module_is_told() {
        let place = |module: &str| ModulePlace {
            module: module.into(),
            token: "weir".to_owned(),
        };
        let pin = Secret::new("1234".to_owned());
        for module in ["libsofthsm2.so", "/nowhere/module.so", "/etc/hostname"] {
            let made = generate(&place(module), "weir root", &pin);
            assert!(matches!(made, Err(ModuleError::Load(_))), "{module}");
        }
    }
}
