//! What can go wrong on the sealed hop, and what of it the other side is told.
//!
//! It exists so that a refusal has one exact reason for our operator and one vague word for the wire. It
//! refuses to carry keys, plaintext or anything else that came from a peer.

use std::fmt;

use crate::hint::Hint;

/// Makes the enum of a table, so that a failure's documentation is its message.
macro_rules! errors {
    ($($name:ident = $message:literal,)*) => {
        /// Every failure of the handshake, tickets and messages. The doc comment is the message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Error {
            $(#[doc = $message] $name,)*
        }

        impl Error {
            /// The reason in words, for an operator.
            pub fn message(self) -> &'static str {
                match self {
                    $(Error::$name => $message,)*
                }
            }
        }
    };
}

errors! {
    // The peer's message.
    Length = "the message is shorter or longer than its type demands",
    Version = "the message is of another version of the protocol",
    Head = "the head of the message is not one that its place allows",
    Kid = "no key of ours has this id",
    Mac = "the check code of the handshake is wrong: another key, or another join token",
    Repeated = "this handshake was opened before",
    Open = "the message does not open with these keys",
    Clock = "the handshake's time is more than ten minutes from ours",
    PublicKey = "these bytes are no public key",
    Peer = "no such peer is enrolled",
    Own = "the peer has one of our own keys",
    Field = "a field has a value that it must not have",

    // The ticket of a request.
    TicketKey = "the ticket was sealed with a key that we do not have, or no longer",
    TicketOpen = "the ticket does not open",
    TicketSession = "the ticket belongs to another session, suite or key of ours",
    TicketEarly = "the ticket was issued in the future",
    TicketExpired = "the ticket has expired",
    TicketEnded = "the peer's sessions of that time were ended",
    TicketMode = "the ticket promises another replay mode than this instance keeps",

    // Chunks.
    Chunk = "a chunk is shorter or longer than a chunk may be",
    Cut = "the message ended before its final chunk",
    AfterFinal = "there is more after the final chunk",
    TooLong = "the message has more chunks or bytes than one message may have",
    Failed = "this message failed before",
    Answer = "an answer of the other weir that makes no sense",

    // Ours.
    Budget = "the handshakes of this instance are spent for the moment",
    NoTicketKey = "no ticket key mints at this time",
    Session = "this sender is of another session",
    Spent = "the sender is spent: draw a new one",

    // The configuration.
    PskZeros = "a pre-shared key of zeros",
    Token = "a join token must have 16 to 64 bytes, not all zeros",
    Hex = "these are not the hex digits of such an id",
    Ring = "a ring of ticket keys must have 1 to 8 keys, each with its own id",
    Keys = "one instance must have 1 to 4 keys, each once, and at most two join tokens",
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Error {}

/// A message that the inbound refuses before it could verify it: the other side gets the hint, in
/// plain, and our log gets the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What goes back, unauthenticated.
    pub hint: Hint,
    /// Why, for our own log only.
    pub error: Error,
}

impl Refused {
    pub(crate) fn new(hint: Hint, error: Error) -> Refused {
        Refused { hint, error }
    }

    /// A message whose outer form is wrong.
    pub(crate) fn form(error: Error) -> Refused {
        let hint = match error {
            Error::Version => Hint::Version,
            _ => Hint::Malformed,
        };
        Refused { hint, error }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.hint.name(), self.error)
    }
}

impl std::error::Error for Refused {}
