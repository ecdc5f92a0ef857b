//! HPKE with X-Wing (RFC 9180, draft-ietf-hpke-pq): the three encapsulations of a handshake.
//!
//! It exists so that the `hpke` crate is known to one file. It refuses to draw: the randomness of an
//! encapsulation is passed in.

use std::convert::Infallible;

use hpke::aead::{Aead, AeadTag, AesGcm256, ChaCha20Poly1305};
use hpke::inout::InOutBuf;
use hpke::kdf::HkdfSha256;
use hpke::kem::XWing;
use hpke::rand_core::{TryCryptoRng, TryRng};
use hpke::{Deserializable, Kem, OpModeR, OpModeS, Serializable};
use zeroize::Zeroizing;

use crate::error::Error;
use crate::head::{ENC_BYTES, TAG_BYTES};
use crate::key::{PrivateKey, Public};
use crate::suite::Suite;

/// Random bytes of one X-Wing encapsulation: 32 for ML-KEM, 32 for X25519.
pub(crate) const ENCAPSULATION_BYTES: usize = 64;

/// A secret that both sides export.
pub(crate) type Exported = Zeroizing<[u8; 32]>;

/// Encapsulates to a public key, seals `text ‖ room for a tag` if there is one, and exports.
pub(crate) fn encapsulate(
    suite: Suite,
    to: &Public,
    info: &[u8],
    random: &[u8; ENCAPSULATION_BYTES],
    text: Option<&mut [u8]>,
    label: &[u8],
) -> Result<([u8; ENC_BYTES], Exported), Error> {
    match suite {
        Suite::AesGcm | Suite::AesGcmSiv => {
            encapsulate_by::<AesGcm256>(to, info, random, text, label)
        }
        Suite::ChaCha => encapsulate_by::<ChaCha20Poly1305>(to, info, random, text, label),
    }
}

/// Decapsulates with a private key, opens `ciphertext ‖ tag` in place if there is one, and exports.
pub(crate) fn decapsulate(
    suite: Suite,
    with: &PrivateKey,
    enc: &[u8],
    info: &[u8],
    sealed: Option<&mut [u8]>,
    label: &[u8],
) -> Result<Exported, Error> {
    match suite {
        Suite::AesGcm | Suite::AesGcmSiv => {
            decapsulate_by::<AesGcm256>(with, enc, info, sealed, label)
        }
        Suite::ChaCha => decapsulate_by::<ChaCha20Poly1305>(with, enc, info, sealed, label),
    }
}

fn encapsulate_by<A: Aead>(
    to: &Public,
    info: &[u8],
    random: &[u8; ENCAPSULATION_BYTES],
    text: Option<&mut [u8]>,
    label: &[u8],
) -> Result<([u8; ENC_BYTES], Exported), Error> {
    let mut once = Once { left: random };
    let sender = hpke::setup_sender_with_rng::<A, HkdfSha256, XWing>(
        &OpModeS::Base,
        to.key(),
        info,
        &mut once,
    );
    let (enc, mut context) = sender.map_err(|_| Error::PublicKey)?;
    if let Some(text) = text {
        let (text, tag) = text
            .split_last_chunk_mut::<TAG_BYTES>()
            .expect("the text has room for its tag");
        let sealed = context.seal_inout_detached(InOutBuf::from(text), b"");
        sealed.map_err(|_| Error::TooLong)?.write_exact(tag);
    }
    let mut exported = Exported::default();
    context
        .export(label, &mut exported[..])
        .map_err(|_| Error::TooLong)?;
    let mut bytes = [0; ENC_BYTES];
    enc.write_exact(&mut bytes);
    Ok((bytes, exported))
}

fn decapsulate_by<A: Aead>(
    with: &PrivateKey,
    enc: &[u8],
    info: &[u8],
    sealed: Option<&mut [u8]>,
    label: &[u8],
) -> Result<Exported, Error> {
    let enc = <XWing as Kem>::EncappedKey::from_bytes(enc).map_err(|_| Error::Length)?;
    let receiver = hpke::setup_receiver::<A, HkdfSha256, XWing>(&OpModeR::Base, with, &enc, info);
    let mut context = receiver.map_err(|_| Error::Open)?;
    if let Some(sealed) = sealed {
        let (text, tag) = sealed
            .split_last_chunk_mut::<TAG_BYTES>()
            .ok_or(Error::Length)?;
        let tag = AeadTag::<A>::from_bytes(tag).map_err(|_| Error::Length)?;
        let opened = context.open_inout_detached(InOutBuf::from(text), b"", &tag);
        opened.map_err(|_| Error::Open)?;
    }
    let mut exported = Exported::default();
    context
        .export(label, &mut exported[..])
        .map_err(|_| Error::TooLong)?;
    Ok(exported)
}

/// Random bytes that were drawn before, in the shape that `hpke` asks for them. One encapsulation takes
/// exactly all of them; asking for more is a bug, and must not give bytes that anyone can guess.
struct Once<'a> {
    left: &'a [u8],
}

impl TryRng for Once<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, into: &mut [u8]) -> Result<(), Infallible> {
        let (now, left) = self
            .left
            .split_at_checked(into.len())
            .expect("an X-Wing encapsulation takes 64 random bytes");
        into.copy_from_slice(now);
        self.left = left;
        Ok(())
    }
}

impl TryCryptoRng for Once<'_> {}

#[cfg(test)]
mod tests;
