//! Signed notes and checkpoints, as C2SP `signed-note` and `tlog-checkpoint` write them.
//!
//! A checkpoint is what makes a log's past undeniable: its signer cannot later show another. Only Ed25519
//! signatures (type `0x01`) are made and checked; lines of other keys, such as witnesses, are left alone.

use std::fmt;

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base::Digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// The signature type of Ed25519 in a signed note.
const ED25519_TYPE: u8 = 1;
/// What starts a signature line: an em dash and a space.
const SIGNATURE_START: &str = "\u{2014} ";

/// The size and root of a log at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Entries that it covers.
    pub size: u64,
    /// The Merkle root over them.
    pub root: Digest,
}

/// Whether a name can stand in a note: not empty, no white space or control character, no `+`.
pub fn is_key_name(name: &str) -> bool {
    !name.is_empty()
        && !name
            .chars()
            .any(|c| c.is_whitespace() || c.is_control() || c == '+')
}

/// The four bytes that tell signers apart: the start of SHA-256 of name, newline, type and public key.
fn key_id(name: &str, public: &[u8]) -> [u8; 4] {
    let mut sha = Sha256::new();
    sha.update(name.as_bytes());
    sha.update([b'\n', ED25519_TYPE]);
    sha.update(public);
    let hash = sha.finalize();
    [hash[0], hash[1], hash[2], hash[3]]
}

/// The log's signing key. Has no `Debug`: its seed must not be printed.
pub struct Signer {
    name: String,
    pair: Ed25519KeyPair,
    id: [u8; 4],
}

impl Signer {
    /// A fresh seed from the system's random source.
    pub fn fresh_seed() -> [u8; 32] {
        let mut seed = [0; 32];
        SystemRandom::new()
            .fill(&mut seed)
            .expect("the system has a random source");
        seed
    }

    /// The signer of this seed, or nothing if the name cannot stand in a note.
    pub fn new(name: &str, seed: &[u8; 32]) -> Option<Signer> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
        let id = key_id(name, pair.public_key().as_ref());
        is_key_name(name).then(|| Signer {
            name: name.to_owned(),
            pair,
            id,
        })
    }

    /// The verifier key line of `signed-note`: `name+id+base64(type, public key)`.
    pub fn vkey(&self) -> String {
        let mut key = vec![ED25519_TYPE];
        key.extend_from_slice(self.pair.public_key().as_ref());
        let id = u32::from_be_bytes(self.id);
        format!("{}+{id:08x}+{}", self.name, STANDARD.encode(key))
    }

    /// The note with one signature line. The text ends in a newline.
    pub fn sign(&self, text: &str) -> String {
        let mut signature = self.id.to_vec();
        signature.extend_from_slice(self.pair.sign(text.as_bytes()).as_ref());
        format!(
            "{text}\n{SIGNATURE_START}{} {}\n",
            self.name,
            STANDARD.encode(signature)
        )
    }

    /// A signed checkpoint whose origin is the signer's name.
    pub fn checkpoint(&self, checkpoint: &Checkpoint) -> String {
        let root = STANDARD.encode(checkpoint.root.0);
        self.sign(&format!("{}\n{}\n{root}\n", self.name, checkpoint.size))
    }
}

/// A public key that checkpoints are checked with.
#[derive(Clone)]
pub struct Verifier {
    name: String,
    id: [u8; 4],
    public: Vec<u8>,
}

/// Why a note was not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoteError {
    /// The verifier key line is not `name+id+key` of an Ed25519 key.
    Key,
    /// The text is not a signed note with a checkpoint.
    Malformed,
    /// No line is signed by this key.
    Unsigned,
    /// A line names this key and its signature is wrong.
    Signature,
    /// The origin is not the key's name.
    Origin,
}

impl fmt::Display for NoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoteError::Key => "the verifier key is not a name+id+key line of an Ed25519 key",
            NoteError::Malformed => "it is not a signed checkpoint",
            NoteError::Unsigned => "the log's key did not sign it",
            NoteError::Signature => "its signature is wrong",
            NoteError::Origin => "its origin is another log",
        })
    }
}

impl std::error::Error for NoteError {}

impl Verifier {
    /// Reads a verifier key line.
    ///
    /// # Errors
    /// `Key` where the line is malformed, not Ed25519, or its id does not follow from its key.
    pub fn parse(vkey: &str) -> Result<Verifier, NoteError> {
        let mut parts = vkey.trim_end().splitn(3, '+');
        let (Some(name), Some(id), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(NoteError::Key);
        };
        let key = STANDARD.decode(key).map_err(|_| NoteError::Key)?;
        let Some((&ED25519_TYPE, public)) = key.split_first() else {
            return Err(NoteError::Key);
        };
        let expected = key_id(name, public);
        let id_fits = id == format!("{:08x}", u32::from_be_bytes(expected));
        if !is_key_name(name) || public.len() != 32 || !id_fits {
            return Err(NoteError::Key);
        }
        Ok(Verifier {
            name: name.to_owned(),
            id: expected,
            public: public.to_vec(),
        })
    }

    /// The key's name, which is the log's origin.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The signed text of a note, once this key's signature was found and fits.
    ///
    /// # Errors
    /// `Malformed`, `Unsigned` or `Signature`.
    pub fn open<'n>(&self, note: &'n str) -> Result<&'n str, NoteError> {
        let split = note.rfind("\n\n").ok_or(NoteError::Malformed)?;
        let (text, lines) = (&note[..=split], &note[split + 2..]);
        let lines = lines.strip_suffix('\n').ok_or(NoteError::Malformed)?;
        for line in lines.split('\n') {
            let line = line
                .strip_prefix(SIGNATURE_START)
                .ok_or(NoteError::Malformed)?;
            let (name, signature) = line.split_once(' ').ok_or(NoteError::Malformed)?;
            let signature = STANDARD
                .decode(signature)
                .map_err(|_| NoteError::Malformed)?;
            let Some((id, signature)) = signature.split_first_chunk::<4>() else {
                return Err(NoteError::Malformed);
            };
            if name != self.name || *id != self.id {
                continue;
            }
            let key = UnparsedPublicKey::new(&ED25519, &self.public);
            return match key.verify(text.as_bytes(), signature) {
                Ok(()) => Ok(text),
                Err(_) => Err(NoteError::Signature),
            };
        }
        Err(NoteError::Unsigned)
    }

    /// The checkpoint in a note that this key signed.
    ///
    /// # Errors
    /// As [`Verifier::open`]; `Origin` where the first line is another log's.
    pub fn checkpoint(&self, note: &str) -> Result<Checkpoint, NoteError> {
        let text = self.open(note)?;
        if text.split('\n').next() != Some(&self.name) {
            return Err(NoteError::Origin);
        }
        read_checkpoint(text).ok_or(NoteError::Malformed)
    }
}

/// The size and root that a checkpoint's text claims. Checks no signature.
pub fn read_checkpoint(text: &str) -> Option<Checkpoint> {
    let mut lines = text.split('\n').skip(1);
    let (size, root) = (lines.next()?, lines.next()?);
    let value: u64 = size.parse().ok()?;
    let root: [u8; 32] = STANDARD.decode(root).ok()?.try_into().ok()?;
    (value.to_string() == size).then_some(Checkpoint {
        size: value,
        root: Digest(root),
    })
}

/// Splits a history of notes, one after another, into single notes. The second value is what stands at
/// the end and is not a whole note: what a crash left of the last one, or damage.
pub fn split_history(history: &str) -> (Vec<&str>, &str) {
    let mut notes = Vec::new();
    let mut start = 0;
    let mut signed = false;
    let mut end = 0;
    for line in history.split_inclusive('\n') {
        let is_signature = line.starts_with(SIGNATURE_START);
        if signed && !is_signature {
            notes.push(&history[start..end]);
            start = end;
        }
        signed = is_signature && line.ends_with('\n');
        end += line.len();
    }
    if signed {
        notes.push(&history[start..end]);
        start = end;
    }
    (notes, &history[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example of Go's golang.org/x/mod/sumdb/note, which signed-note was written from.
    const VKEY: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
    const NOTE: &str = "If you think cryptography is the answer to your problem,\n\
        then you don't know what your problem is.\n\n\u{2014} PeterNeumann \
        x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";

    #[test]
    fn a_note_of_another_implementation_opens() {
        let verifier = Verifier::parse(VKEY).unwrap();
        assert!(verifier.open(NOTE).unwrap().ends_with("your problem is.\n"));
        let forged = NOTE.replace("think", "thank");
        assert_eq!(verifier.open(&forged), Err(NoteError::Signature));
        let unsigned = NOTE.replace(" PeterNeumann ", " Someone ");
        assert_eq!(verifier.open(&unsigned), Err(NoteError::Unsigned));
        for cut in 0..NOTE.len() {
            if let Some(part) = NOTE.get(..cut) {
                assert!(verifier.open(part).is_err(), "{cut}");
            }
        }
    }

    #[test]
    fn a_key_line_that_does_not_fit_is_refused() {
        for bad in [
            "",
            "a+b",
            "a b+c74f20a3+AR",
            &VKEY.replace("c74f", "c74e"),
            &VKEY[..60],
        ] {
            assert!(Verifier::parse(bad).is_err(), "{bad}");
        }
        assert!(Signer::new("with space", &[1; 32]).is_none());
        assert!(Signer::new("with+plus", &[1; 32]).is_none());
    }

    #[test]
    fn a_checkpoint_reads_what_was_signed() {
        let signer = Signer::new("log.example/one", &[7; 32]).unwrap();
        let verifier = Verifier::parse(&signer.vkey()).unwrap();
        let checkpoint = Checkpoint {
            size: 42,
            root: Digest([9; 32]),
        };
        let note = signer.checkpoint(&checkpoint);
        assert_eq!(verifier.checkpoint(&note), Ok(checkpoint));
        assert!(
            verifier
                .checkpoint(&note.replace("\n42\n", "\n43\n"))
                .is_err()
        );
        let other = Signer::new("log.example/two", &[7; 32]).unwrap();
        assert_eq!(
            Verifier::parse(&other.vkey()).unwrap().checkpoint(&note),
            Err(NoteError::Unsigned)
        );
    }

    #[test]
    fn a_history_splits_and_says_what_is_torn() {
        let signer = Signer::new("o", &[7; 32]).unwrap();
        let notes: Vec<String> = (0..3)
            .map(|size| {
                signer.checkpoint(&Checkpoint {
                    size,
                    root: Digest([0; 32]),
                })
            })
            .collect();
        let history = notes.concat();
        assert_eq!(
            split_history(&history),
            (notes.iter().map(String::as_str).collect(), "")
        );
        let (whole, torn) = split_history(&history[..history.len() - 5]);
        assert_eq!(whole.len(), 2);
        assert_eq!(torn, &notes[2][..notes[2].len() - 5]);
        assert_eq!(split_history(""), (vec![], ""));
    }
}
