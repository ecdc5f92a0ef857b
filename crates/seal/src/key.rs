//! Static keys and the names that stand for them: pins, key ids, peer ids.
//!
//! It exists so that a name is made of a key in one place and one cannot be passed for another. Secrets
//! here have no `Debug`, no `Display` and no serialization, and are wiped when they are dropped.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use base::hex;
use hpke::kem::XWing;
use hpke::{Deserializable, Kem, Serializable};
use zeroize::Zeroizing;

use crate::error::Error;
use crate::head::PUBLIC_BYTES;
use crate::schedule::hash;

pub(crate) type PrivateKey = <XWing as Kem>::PrivateKey;
pub(crate) type PublicKey = <XWing as Kem>::PublicKey;

/// A newtype of bytes with a text of hex digits.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $bytes:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub [u8; $bytes]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex::encode(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            /// Reads hex digits of either case.
            fn from_str(text: &str) -> Result<$name, Error> {
                hex::decode(text).map($name).ok_or(Error::Hex)
            }
        }
    };
}

id! {
    /// SHA-256 of an inbound's public key: what an outbound is configured with.
    Pin, 32
}
id! {
    /// The first bytes of a pin: which of its keys an inbound is asked for.
    Kid, 8
}
id! {
    /// SHA-256 of an outbound's public key: who seals.
    PeerId, 32
}
id! {
    /// The id of a session.
    Sid, 16
}
id! {
    /// The id of a sender: one (thread, session) for a while.
    SenderId, 16
}

impl Pin {
    /// The id by which this key is asked for.
    pub fn kid(&self) -> Kid {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        Kid([a, b, c, d, e, f, g, h])
    }
}

/// An X-Wing public key that was checked (draft-connolly-cfrg-xwing-kem §5.4: the ML-KEM part is in
/// range, FIPS 203 §7.2). Cheap to clone.
#[derive(Clone)]
pub struct Public(Arc<Checked>);

struct Checked {
    key: PublicKey,
    bytes: [u8; PUBLIC_BYTES],
    pin: Pin,
    peer_id: PeerId,
}

impl Public {
    /// Checks the bytes of a public key.
    ///
    /// # Errors
    /// [`Error::PublicKey`] for another length, or a coefficient out of range.
    pub fn from_bytes(bytes: &[u8]) -> Result<Public, Error> {
        let key = PublicKey::from_bytes(bytes).map_err(|_| Error::PublicKey)?;
        Ok(Public::new(key))
    }

    fn new(key: PublicKey) -> Public {
        let mut bytes = [0; PUBLIC_BYTES];
        key.write_exact(&mut bytes);
        let pin = Pin(hash(&[b"shr1 in", &bytes]));
        let peer_id = PeerId(hash(&[b"shr1 out", &bytes]));
        Public(Arc::new(Checked {
            key,
            bytes,
            pin,
            peer_id,
        }))
    }

    pub fn bytes(&self) -> &[u8; PUBLIC_BYTES] {
        &self.0.bytes
    }

    /// The key's name as an inbound.
    pub fn pin(&self) -> Pin {
        self.0.pin
    }

    /// The key's short name as an inbound.
    pub fn kid(&self) -> Kid {
        self.0.pin.kid()
    }

    /// The key's name as an outbound.
    pub fn peer_id(&self) -> PeerId {
        self.0.peer_id
    }

    pub(crate) fn key(&self) -> &PublicKey {
        &self.0.key
    }
}

impl PartialEq for Public {
    fn eq(&self, other: &Public) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Public {}

impl fmt::Debug for Public {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Public({})", self.pin())
    }
}

/// A static key pair of ours, made of a seed of 32 random bytes.
pub struct Identity {
    secret: PrivateKey,
    public: Public,
}

impl Identity {
    /// The key pair of this seed. Any 32 bytes are a seed.
    pub fn from_seed(seed: &[u8; 32]) -> Identity {
        let secret = PrivateKey::from_bytes(seed).expect("32 bytes are an X-Wing seed");
        let public = Public::new(XWing::sk_to_pk(&secret));
        Identity { secret, public }
    }

    pub fn public(&self) -> &Public {
        &self.public
    }

    pub(crate) fn secret(&self) -> &PrivateKey {
        &self.secret
    }
}

/// 32 secret bytes that are not told apart by kind yet: a pre-shared key or a ticket key that somebody holds for later.
#[derive(Clone)]
pub struct Key32(Zeroizing<[u8; 32]>);

impl Key32 {
    pub fn new(bytes: [u8; 32]) -> Key32 {
        Key32(Zeroizing::new(bytes))
    }

    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// A pre-shared key of one pair of weirs: 32 random bytes, beside the public keys.
pub struct Psk(Zeroizing<[u8; 32]>);

impl Psk {
    /// # Errors
    /// [`Error::PskZeros`] for zeros, which stand for "none".
    pub fn new(bytes: [u8; 32]) -> Result<Psk, Error> {
        let bytes = Zeroizing::new(bytes);
        if *bytes == [0; 32] {
            return Err(Error::PskZeros);
        }
        Ok(Psk(bytes))
    }

    pub(crate) fn bytes(psk: Option<&Psk>) -> &[u8; 32] {
        psk.map_or(&[0; 32], |psk| &psk.0)
    }
}

/// A secret of a whole fleet without which a handshake is not even decapsulated: at least 128 random bits.
pub struct JoinToken(Zeroizing<Vec<u8>>);

impl JoinToken {
    /// # Errors
    /// [`Error::Token`] for less than 16 or more than 64 bytes, and for zeros, which stand for "none".
    pub fn new(bytes: &[u8]) -> Result<JoinToken, Error> {
        if !(16..=64).contains(&bytes.len()) || bytes.iter().all(|byte| *byte == 0) {
            return Err(Error::Token);
        }
        Ok(JoinToken(Zeroizing::new(bytes.to_vec())))
    }

    pub(crate) fn bytes(token: Option<&JoinToken>) -> &[u8] {
        token.map_or(&[0; 32], |token| &token.0)
    }
}
