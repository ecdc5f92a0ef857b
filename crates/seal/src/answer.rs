//! Answers that a weir makes itself, sealed, so that they cannot be confused with the origin's.
//!
//! It exists because an outbound must know whether a call was executed before it sends it again. It
//! refuses codes that it does not know, and bytes that should be zero and are not.

use crate::error::Error;

/// Bytes of a weir-made answer: code u16, zero u16, retry-after u32, server time u64.
pub const ANSWER_BYTES: usize = 16;

/// Why the inbound answers instead of the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Code {
    /// The message's place in its window was taken already: it may have been executed.
    Claimed = 1,
    /// The message's time is out of bounds. The answer's server time says by how much.
    Stale = 2,
    /// The instance is going away.
    Draining = 3,
    /// The instance has no room.
    Overload = 4,
    /// The content is not a request as SHR/1 wants it.
    Malformed = 5,
    /// The gate, or the configuration, says no.
    Refused = 6,
    /// The origin could not be reached; it saw nothing.
    NotReached = 7,
    /// The origin was sent the request and failed.
    Failed = 8,
    /// The request was cut while the origin was getting it.
    Cut = 9,
}

/// Whether the call may have been executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Executed {
    No,
    Maybe,
}

impl Code {
    /// Every code, from 1 on.
    pub const ALL: [Code; 9] = [
        Code::Claimed,
        Code::Stale,
        Code::Draining,
        Code::Overload,
        Code::Malformed,
        Code::Refused,
        Code::NotReached,
        Code::Failed,
        Code::Cut,
    ];

    /// The code of this number.
    pub fn from_number(number: u16) -> Option<Code> {
        let index = usize::from(number).checked_sub(1)?;
        Code::ALL.get(index).copied()
    }

    /// The number on the wire.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// The word for logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Code::Claimed => "claimed",
            Code::Stale => "stale",
            Code::Draining => "draining",
            Code::Overload => "overload",
            Code::Malformed => "malformed",
            Code::Refused => "refused",
            Code::NotReached => "not-reached",
            Code::Failed => "failed",
            Code::Cut => "cut",
        }
    }

    /// Whether the call may have been executed: the table of the specification.
    pub fn executed(self) -> Executed {
        match self {
            Code::Claimed | Code::Failed | Code::Cut => Executed::Maybe,
            _ => Executed::No,
        }
    }

    /// Whether this message, or the first attempt that it names, holds its place in the window now, so
    /// that the very same attempt cannot run any more.
    pub fn claimed(self) -> bool {
        matches!(
            self,
            Code::Claimed | Code::NotReached | Code::Failed | Code::Cut
        )
    }

    /// Whether trying again cannot help.
    pub fn is_final(self) -> bool {
        matches!(self, Code::Malformed | Code::Refused)
    }
}

/// A weir-made answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub code: Code,
    /// How long to wait before another attempt, in milliseconds; 0 if it does not matter.
    pub retry_after_ms: u32,
    /// The inbound's clock when it made the answer, in Unix milliseconds.
    pub server_unix_ms: u64,
}

impl Answer {
    /// The plaintext of the one final chunk.
    pub fn to_bytes(self) -> [u8; ANSWER_BYTES] {
        let mut bytes = [0; ANSWER_BYTES];
        bytes[..2].copy_from_slice(&self.code.number().to_be_bytes());
        bytes[4..8].copy_from_slice(&self.retry_after_ms.to_be_bytes());
        bytes[8..].copy_from_slice(&self.server_unix_ms.to_be_bytes());
        bytes
    }

    /// Reads the plaintext of the one final chunk.
    ///
    /// # Errors
    /// [`Error::Answer`] for another length, an unknown code, or a reserved field that is not zero.
    pub fn from_bytes(bytes: &[u8]) -> Result<Answer, Error> {
        let bytes: &[u8; ANSWER_BYTES] = bytes.try_into().map_err(|_| Error::Answer)?;
        let [c0, c1, 0, 0, r0, r1, r2, r3, time @ ..] = *bytes else {
            return Err(Error::Answer);
        };
        let code = Code::from_number(u16::from_be_bytes([c0, c1])).ok_or(Error::Answer)?;
        Ok(Answer {
            code,
            retry_after_ms: u32::from_be_bytes([r0, r1, r2, r3]),
            server_unix_ms: u64::from_be_bytes(time),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_reads_what_it_writes() {
        for (index, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(code.number()), index + 1);
            let answer = Answer {
                code,
                retry_after_ms: 0xdead_beef,
                server_unix_ms: 1_700_000_001_500,
            };
            assert_eq!(Answer::from_bytes(&answer.to_bytes()), Ok(answer));
        }
    }

    #[test]
    fn nothing_else_is_an_answer() {
        let good = Answer {
            code: Code::Claimed,
            retry_after_ms: 0,
            server_unix_ms: 1,
        }
        .to_bytes();
        assert_eq!(Answer::from_bytes(&good[..15]), Err(Error::Answer));
        assert_eq!(
            Answer::from_bytes(&[&good[..], &[0]].concat()),
            Err(Error::Answer)
        );
        for (at, value) in [(1, 0), (1, 10), (0, 1), (2, 1), (3, 1)] {
            let mut bad = good;
            bad[at] = value;
            assert_eq!(Answer::from_bytes(&bad), Err(Error::Answer), "{at} {value}");
        }
    }

    #[test]
    fn the_table_of_what_was_executed() {
        let maybe: Vec<u16> = Code::ALL
            .into_iter()
            .filter(|code| code.executed() == Executed::Maybe)
            .map(Code::number)
            .collect();
        assert_eq!(maybe, [1, 8, 9]);
        let claimed: Vec<u16> = Code::ALL
            .into_iter()
            .filter(|code| code.claimed())
            .map(Code::number)
            .collect();
        assert_eq!(claimed, [1, 7, 8, 9]);
    }
}
