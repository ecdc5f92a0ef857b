//! A private key at rest, sealed with a passphrase: PKCS #8 EncryptedPrivateKeyInfo (RFC 5958 §3) by PBES2 (RFC 8018 §6.2) with
//! PBKDF2-HMAC-SHA-256 and AES-256-CBC, as `openssl pkcs8` reads and writes it.
//!
//! It refuses other schemes, too few rounds, and a passphrase that is short.

use std::num::NonZeroU32;

use aws_lc_rs::cipher::{
    AES_256, DecryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey,
    UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::pbkdf2;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// Rounds of PBKDF2, as OWASP asks for HMAC-SHA-256.
const ROUNDS: u32 = 600_000;
/// Most rounds that are done for a file.
const ROUNDS_MAX: u32 = 10_000_000;
/// Fewest characters of a passphrase.
pub const PASSPHRASE_CHARS_MIN: usize = 12;
const SALT_BYTES: usize = 16;
const IV_BYTES: usize = 16;
const LABEL: &str = "ENCRYPTED PRIVATE KEY";
/// Largest sealed key, in bytes.
const SEALED_BYTES_MAX: usize = 16 << 10;

const PBES2: &[u8] = &[0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 13];
const PBKDF2: &[u8] = &[0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 12];
const HMAC_SHA256: &[u8] = &[0x06, 8, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 9];
const AES_256_CBC: &[u8] = &[0x06, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 42];
const NULL: &[u8] = &[0x05, 0];
const SEQUENCE: u8 = 0x30;
const OCTETS: u8 = 0x04;
const INTEGER: u8 = 0x02;

/// Why a key cannot be sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedKeyError {
    ShortPassphrase,
    /// It is no key that is sealed as this module seals.
    Malformed,
    /// The passphrase is another.
    Passphrase,
    NoRandom,
}

impl std::fmt::Display for SealedKeyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SealedKeyError::ShortPassphrase => {
                write!(
                    f,
                    "the passphrase needs {PASSPHRASE_CHARS_MIN} characters or more"
                )
            }
            SealedKeyError::Malformed => {
                f.write_str("it is no key sealed by PBES2 with PBKDF2-HMAC-SHA-256 and AES-256-CBC")
            }
            SealedKeyError::Passphrase => f.write_str("the passphrase is not the key's"),
            SealedKeyError::NoRandom => f.write_str("the system gives no random bytes"),
        }
    }
}

impl std::error::Error for SealedKeyError {}

/// Seals a private key in PKCS #8, and gives PEM.
///
/// # Errors
/// [`SealedKeyError::ShortPassphrase`] and [`SealedKeyError::NoRandom`].
pub fn seal_key(pkcs8: &[u8], passphrase: &str) -> Result<String, SealedKeyError> {
    if passphrase.chars().count() < PASSPHRASE_CHARS_MIN {
        return Err(SealedKeyError::ShortPassphrase);
    }
    let mut random = [0; SALT_BYTES + IV_BYTES];
    aws_lc_rs::rand::fill(&mut random).map_err(|_| SealedKeyError::NoRandom)?;
    let (salt, iv) = random.split_at(SALT_BYTES);
    let key = derive(passphrase, salt, ROUNDS).ok_or(SealedKeyError::NoRandom)?;
    let key = UnboundCipherKey::new(&AES_256, &*key).map_err(|_| SealedKeyError::NoRandom)?;
    let key = PaddedBlockEncryptingKey::cbc_pkcs7(key).map_err(|_| SealedKeyError::NoRandom)?;
    let mut sealed = pkcs8.to_vec();
    let context = aws_lc_rs::cipher::EncryptionContext::Iv128(fixed(iv)?);
    key.less_safe_encrypt(&mut sealed, context)
        .map_err(|_| SealedKeyError::NoRandom)?;
    Ok(pem(LABEL, &encoded(salt, iv, &sealed)))
}

/// Opens a sealed private key, and gives it in PKCS #8.
///
/// # Errors
/// [`SealedKeyError::Malformed`] and [`SealedKeyError::Passphrase`].
pub fn open_key(text: &str, passphrase: &str) -> Result<Zeroizing<Vec<u8>>, SealedKeyError> {
    if text.len() > SEALED_BYTES_MAX {
        return Err(SealedKeyError::Malformed);
    }
    let der = unpem(LABEL, text).ok_or(SealedKeyError::Malformed)?;
    let SealedParts {
        salt,
        rounds,
        iv,
        sealed,
    } = decoded(&der).ok_or(SealedKeyError::Malformed)?;
    let key = derive(passphrase, salt, rounds).ok_or(SealedKeyError::Malformed)?;
    let key = UnboundCipherKey::new(&AES_256, &*key).map_err(|_| SealedKeyError::Malformed)?;
    let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).map_err(|_| SealedKeyError::Malformed)?;
    let context = DecryptionContext::Iv128(fixed(iv)?);
    let mut bytes = Zeroizing::new(sealed.to_vec());
    let opened = key.decrypt(&mut bytes, context);
    let opened = opened.map_err(|_| SealedKeyError::Passphrase)?;
    // PBES2 has no check of its own, and the padding lets some other passphrases through: what comes out has to be a key.
    match is_pkcs8(opened) {
        true => Ok(Zeroizing::new(opened.to_vec())),
        false => Err(SealedKeyError::Passphrase),
    }
}

/// Whether this is one PrivateKeyInfo, as far as its frame and its version say (RFC 5958 §2).
fn is_pkcs8(der: &[u8]) -> bool {
    let info = Der(der).only(SEQUENCE);
    let version = info.and_then(|mut info| info.next(INTEGER));
    matches!(version, Some([0 | 1]))
}

fn fixed(iv: &[u8]) -> Result<FixedLength<IV_BYTES>, SealedKeyError> {
    FixedLength::try_from(iv).map_err(|_| SealedKeyError::Malformed)
}

fn derive(passphrase: &str, salt: &[u8], rounds: u32) -> Option<Zeroizing<[u8; 32]>> {
    let mut key = Zeroizing::new([0; 32]);
    let rounds = NonZeroU32::new(rounds)?;
    let by = pbkdf2::PBKDF2_HMAC_SHA256;
    pbkdf2::derive(by, rounds, salt, passphrase.as_bytes(), &mut *key);
    Some(key)
}

/// EncryptedPrivateKeyInfo in DER.
fn encoded(salt: &[u8], iv: &[u8], sealed: &[u8]) -> Vec<u8> {
    let rounds = ROUNDS.to_be_bytes();
    let prf = tlv(SEQUENCE, &[HMAC_SHA256, NULL].concat());
    let kdf = [tlv(OCTETS, salt), tlv(INTEGER, &rounds[1..]), prf].concat();
    let kdf = tlv(SEQUENCE, &[PBKDF2, &tlv(SEQUENCE, &kdf)].concat());
    let cipher = tlv(SEQUENCE, &[AES_256_CBC, &tlv(OCTETS, iv)].concat());
    let scheme = tlv(SEQUENCE, &[kdf, cipher].concat());
    let scheme = tlv(SEQUENCE, &[PBES2, &scheme].concat());
    tlv(SEQUENCE, &[scheme, tlv(OCTETS, sealed)].concat())
}

struct SealedParts<'d> {
    salt: &'d [u8],
    rounds: u32,
    iv: &'d [u8],
    sealed: &'d [u8],
}

fn decoded(der: &[u8]) -> Option<SealedParts<'_>> {
    let mut outer = Der(der).only(SEQUENCE)?;
    let mut scheme = Der(outer.next(SEQUENCE)?);
    let sealed = outer.next(OCTETS)?;
    let mut scheme = scheme.after(PBES2)?.only(SEQUENCE)?;
    let mut kdf = Der(scheme.next(SEQUENCE)?);
    let mut cipher = Der(scheme.next(SEQUENCE)?);
    let mut kdf = kdf.after(PBKDF2)?.only(SEQUENCE)?;
    let salt = kdf.next(OCTETS)?;
    let rounds = kdf.next(INTEGER)?;
    let mut prf = Der(kdf.next(SEQUENCE)?);
    prf.after(HMAC_SHA256)?;
    let iv = cipher.after(AES_256_CBC)?.next(OCTETS)?;
    if rounds.len() > 4 || iv.len() != IV_BYTES || !outer.0.is_empty() {
        return None;
    }
    let rounds = rounds
        .iter()
        .fold(0, |all, byte| all << 8 | u32::from(*byte));
    (1_000..=ROUNDS_MAX)
        .contains(&rounds)
        .then_some(SealedParts {
            salt,
            rounds,
            iv,
            sealed,
        })
}

/// DER that is read from its start (X.690 §8.1).
struct Der<'d>(&'d [u8]);

impl<'d> Der<'d> {
    /// The content of the next element, which has this tag.
    fn next(&mut self, tag: u8) -> Option<&'d [u8]> {
        let (found, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            0x81 | 0x82 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first & 3))?;
                let length = digits
                    .iter()
                    .fold(0, |all, byte| all << 8 | usize::from(*byte));
                (length, rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        (*found == tag).then_some(content)
    }

    /// What is inside of the one element that this is.
    fn only(&mut self, tag: u8) -> Option<Der<'d>> {
        let content = self.next(tag)?;
        self.0.is_empty().then_some(Der(content))
    }

    /// What follows these bytes.
    fn after(&mut self, bytes: &[u8]) -> Option<Der<'d>> {
        self.0.strip_prefix(bytes).map(Der)
    }
}

fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let low = u8::try_from(length & 0xff).unwrap_or(0);
    let high = u8::try_from(length >> 8).unwrap_or(u8::MAX);
    let head: &[u8] = match length {
        0..=0x7f => &[tag, low],
        0x80..=0xff => &[tag, 0x81, low],
        _ => &[tag, 0x82, high, low],
    };
    [head, content].concat()
}

/// A text in PEM (RFC 7468).
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, later) = rest.split_at(rest.len().min(64));
        out.push_str(line);
        out.push('\n');
        rest = later;
    }
    out + &format!("-----END {label}-----\n")
}

/// The first text of this label in PEM, decoded.
pub fn unpem(label: &str, text: &str) -> Option<Vec<u8>> {
    let begin = format!("-----BEGIN {label}-----");
    let (_, rest) = text.split_once(&begin)?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let body: String = body.split_ascii_whitespace().collect();
    STANDARD.decode(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_opened_by_its_passphrase_alone() {
        let key = tlv(
            SEQUENCE,
            &[tlv(INTEGER, &[0]), tlv(OCTETS, &[7; 32])].concat(),
        );
        let sealed = seal_key(&key, "correct horse battery").unwrap();
        let opened = open_key(&sealed, "correct horse battery").unwrap();
        assert_eq!(**opened, *key);
        for wrong in ["correct horse batter", "Correct horse battery", ""] {
            let opened = open_key(&sealed, wrong).map(drop);
            assert_eq!(opened, Err(SealedKeyError::Passphrase));
        }
        assert_eq!(
            seal_key(b"x", "short").err(),
            Some(SealedKeyError::ShortPassphrase)
        );
        for bad in [
            "",
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----",
        ] {
            assert_eq!(open_key(bad, "x").err(), Some(SealedKeyError::Malformed));
        }
        let der = unpem(LABEL, &sealed).unwrap();
        for at in 0..der.len() {
            let cut = pem(LABEL, &der[..at]);
            assert_eq!(
                open_key(&cut, "x").err(),
                Some(SealedKeyError::Malformed),
                "{at}"
            );
        }
    }
}
