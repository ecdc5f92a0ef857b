//! The cipher suites: which algorithms a session uses.
//!
//! It exists so that a suite is a value with everything that depends on it in one file. The outbound's
//! configuration chooses; nothing that comes from the network changes the choice.

use aws_lc_rs::aead;

/// X-Wing (KEM 0x647a) and HKDF-SHA256 with a cipher for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Suite {
    /// AES-256-GCM: for machines with AES instructions.
    AesGcm = 0x0001,
    /// ChaCha20-Poly1305: for machines without.
    ChaCha = 0x0002,
    /// AES-256-GCM-SIV for the reply and for chunks: for fleets that snapshot or clone machines, because
    /// a nonce that is used twice betrays no more than that two messages are equal (RFC 8452).
    AesGcmSiv = 0x0004,
}

impl Suite {
    /// Every suite.
    pub const ALL: [Suite; 3] = [Suite::AesGcm, Suite::ChaCha, Suite::AesGcmSiv];

    /// The suite of this number.
    pub fn from_number(number: u16) -> Option<Suite> {
        Suite::ALL
            .into_iter()
            .find(|suite| suite.number() == number)
    }

    /// The number on the wire.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// The word for configuration and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Suite::AesGcm => "aes-256-gcm",
            Suite::ChaCha => "chacha20-poly1305",
            Suite::AesGcmSiv => "aes-256-gcm-siv",
        }
    }

    /// What seals the reply and chunks.
    pub(crate) fn cipher(self) -> &'static aead::Algorithm {
        match self {
            Suite::AesGcm => &aead::AES_256_GCM,
            Suite::ChaCha => &aead::CHACHA20_POLY1305,
            Suite::AesGcmSiv => &aead::AES_256_GCM_SIV,
        }
    }
}
