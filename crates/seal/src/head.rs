//! The eight bytes that every message begins with, and the sizes of everything after them.
//!
//! It exists so that no other file counts bytes. It refuses every version, type, suite, flag and T that
//! the message's place does not allow.

use crate::error::Error;
use crate::suite::Suite;

/// Version of the protocol.
pub const VERSION: u8 = 0x01;
/// Bytes of the head.
pub const HEAD_BYTES: usize = 8;
/// Bytes of an init: the first message of a handshake.
pub const INIT_BYTES: usize = 2432;
/// Bytes of a reply: the second and last message of a handshake.
pub const REPLY_BYTES: usize = 2484;
/// Bytes of a ticket.
pub const TICKET_BYTES: usize = 144;
/// Bytes of a request before its first chunk.
pub const REQUEST_BYTES: usize = 200;
/// Bytes of a response before its first chunk.
pub const RESPONSE_BYTES: usize = 32;
/// Bytes before the ciphertext of a chunk.
pub const CHUNK_HEAD_BYTES: usize = 4;
/// Bytes of an authentication tag, in every suite.
pub const TAG_BYTES: usize = 16;
/// Most bytes of plaintext in one chunk.
pub const CHUNK_PLAIN_BYTES_MAX: usize = 65_536;
/// Bytes that each chunk adds to its plaintext.
pub const CHUNK_EXTRA_BYTES: usize = CHUNK_HEAD_BYTES + TAG_BYTES;
/// Bytes at the beginning of the plaintext that name the first attempt, in a request that is a retry.
pub const RETRY_OF_BYTES: usize = 32;

/// Bytes of an X-Wing public key.
pub const PUBLIC_BYTES: usize = 1216;
/// Bytes of an X-Wing ciphertext.
pub(crate) const ENC_BYTES: usize = 1120;

/// Flag of a request: its plaintext begins with the name of the first attempt.
pub(crate) const FLAG_RETRY_OF: u16 = 1;
/// Flag of a response: a weir made it, not the origin.
pub(crate) const FLAG_WEIR_MADE: u16 = 1;

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    Request = 1,
    Response = 2,
    Init = 3,
    Reply = 4,
}

impl Kind {
    fn flags(self) -> u16 {
        match self {
            Kind::Request => FLAG_RETRY_OF,
            Kind::Response => FLAG_WEIR_MADE,
            Kind::Init | Kind::Reply => 0,
        }
    }

    fn ticket_bytes(self) -> u16 {
        match self {
            Kind::Request => TICKET_BYTES as u16,
            _ => 0,
        }
    }
}

/// The eight bytes, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub kind: Kind,
    pub suite: Suite,
    /// The kind's one flag: retry-of in a request, weir-made in a response.
    pub flag: bool,
}

impl Head {
    pub(crate) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let [s0, s1] = self.suite.number().to_be_bytes();
        let flags = if self.flag { self.kind.flags() } else { 0 };
        let [f0, f1] = flags.to_be_bytes();
        let [t0, t1] = self.kind.ticket_bytes().to_be_bytes();
        [VERSION, self.kind as u8, s0, s1, f0, f1, t0, t1]
    }

    /// Reads the head of a message that must be of this kind.
    ///
    /// # Errors
    /// [`Error::Version`] for another version, [`Error::Head`] for another kind, an unknown suite, a flag
    /// that is not named, or a wrong T.
    pub(crate) fn read(bytes: [u8; HEAD_BYTES], kind: Kind) -> Result<Head, Error> {
        let [version, kind_byte, s0, s1, f0, f1, t0, t1] = bytes;
        if version != VERSION {
            return Err(Error::Version);
        }
        let suite = Suite::from_number(u16::from_be_bytes([s0, s1])).ok_or(Error::Head)?;
        let flags = u16::from_be_bytes([f0, f1]);
        let ticket_bytes = u16::from_be_bytes([t0, t1]);
        let as_it_must = kind_byte == kind as u8
            && flags & !kind.flags() == 0
            && ticket_bytes == kind.ticket_bytes();
        if !as_it_must {
            return Err(Error::Head);
        }
        Ok(Head {
            kind,
            suite,
            flag: flags != 0,
        })
    }
}

/// A part of a message as an array. The caller knows the length: it is in this file.
pub(crate) fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let part = bytes[at..].first_chunk();
    *part.expect("the layout says that the message is long enough")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 4] = [Kind::Request, Kind::Response, Kind::Init, Kind::Reply];

    #[test]
    fn of_all_heads_only_those_that_are_written_are_read() {
        let mut good = Vec::new();
        for kind in KINDS {
            for suite in Suite::ALL {
                for flag in [false, true] {
                    let head = Head { kind, suite, flag };
                    let bytes = head.to_bytes();
                    let flag = flag && kind.flags() != 0;
                    assert_eq!(Head::read(bytes, kind), Ok(Head { kind, suite, flag }));
                    good.push((bytes, kind));
                }
            }
        }
        for (bytes, kind) in good.clone() {
            for bit in 0..64 {
                let mut bad = bytes;
                bad[bit / 8] ^= 1 << (bit % 8);
                let read = Head::read(bad, kind);
                assert_eq!(
                    read.is_ok(),
                    good.contains(&(bad, kind)),
                    "{bad:?} {kind:?}"
                );
            }
            for other in KINDS.into_iter().filter(|other| *other != kind) {
                assert_eq!(Head::read(bytes, other), Err(Error::Head));
            }
        }
    }
}
