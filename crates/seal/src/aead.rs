//! The one place where aws-lc seals and opens.
//!
//! It exists so that every (key, nonce) passes one line, where the nonce audit stands. It refuses nothing
//! by itself but what does not verify; that a nonce is fresh is the promise of `sender` and `ticket`.

use aws_lc_rs::aead::{Aad, Algorithm, LessSafeKey, Nonce, UnboundKey};

use crate::error::Error;
use crate::head::TAG_BYTES;

/// A key of one cipher. It is wiped by aws-lc when it is dropped.
pub(crate) struct Key {
    key: LessSafeKey,
    #[cfg(any(test, feature = "audit"))]
    print: [u8; 16],
}

impl Key {
    pub(crate) fn new(cipher: &'static Algorithm, key: &[u8; 32]) -> Key {
        #[cfg(any(test, feature = "audit"))]
        let print = crate::head::part(&crate::schedule::hash(&[b"audit", key]), 0);
        let key = UnboundKey::new(cipher, key).expect("every cipher here has keys of 32 bytes");
        Key {
            key: LessSafeKey::new(key),
            #[cfg(any(test, feature = "audit"))]
            print,
        }
    }

    /// Seals in place and gives the tag. One pass over the text, no allocation.
    pub(crate) fn seal(
        &self,
        nonce: [u8; 12],
        aad: &[u8],
        text: &mut [u8],
    ) -> Result<[u8; TAG_BYTES], Error> {
        #[cfg(any(test, feature = "audit"))]
        crate::audit::record(self.print, nonce);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = self
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(aad), text);
        let tag = sealed.map_err(|_| Error::TooLong)?;
        Ok(*tag
            .as_ref()
            .first_chunk()
            .expect("every cipher here has tags of 16 bytes"))
    }

    /// Opens ciphertext and tag in place and gives the plaintext. What does not verify is left as zeros
    /// or as noise, never as plaintext.
    pub(crate) fn open<'a>(
        &self,
        nonce: [u8; 12],
        aad: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], Error> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key
            .open_in_place(nonce, Aad::from(aad), sealed)
            .map_err(|_| Error::Open)
    }
}
