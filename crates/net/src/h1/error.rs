//! What can go wrong on a connection, by whose fault it is.
//!
//! A [`Fault`] is a message that this engine refuses: each has a name, so that a test can tell one
//! refusal from another, and the status with which a server answers it. None holds bytes of the
//! message.

use std::fmt;
use std::io;

use base::refusal::{self, Code};

/// Makes the table: one line a fault, with its status, the code of its refusal, and its message. An answer is not
/// refused to whoever sent it, so its faults have no code.
macro_rules! faults {
    ($($name:ident $status:literal $($code:ident)? $text:literal;)*) => {
        /// What is wrong with a message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Fault {
            $(#[doc = $text] $name,)*
        }

        impl Fault {
            /// Every fault.
            pub const ALL: &[Fault] = &[$(Fault::$name),*];

            /// The status that a server answers with. A proxy whose origin sent the message answers
            /// 502.
            pub const fn status(self) -> u16 {
                match self { $(Fault::$name => $status,)* }
            }

            /// The code of the refusal, where it is a request's.
            pub const fn code(self) -> Option<&'static Code> {
                match self { $(Fault::$name => [$(Some(refusal::$code),)? None][0],)* }
            }

            /// One sentence for whoever sent the message.
            pub const fn text(self) -> &'static str {
                match self { $(Fault::$name => $text,)* }
            }
        }
    };
}

faults! {
    // Lines.
    BareLf 400 HEAD_INVALID "A line ends in LF without CR.";
    NotHttp 400 HEAD_INVALID "The first line is not one of HTTP/1.1.";
    Version 505 VERSION "The version is neither HTTP/1.1 nor HTTP/1.0.";
    HeadTooLarge 431 HEAD_TOO_LARGE "The head is too large.";
    TooManyFields 431 HEAD_TOO_LARGE "The head has too many fields.";
    FieldName 400 HEAD_INVALID "A field's name is not a token, is followed by a space, or the line is folded.";
    FieldValue 400 HEAD_INVALID "A field's value holds a byte that it must not.";
    // The request line.
    MethodTooLong 501 UNSUPPORTED "The method is too long.";
    TargetTooLong 414 TARGET_TOO_LONG "The request target is too long.";
    Target 400 HEAD_INVALID "The request target is of no form that fits the method.";
    HostMissing 400 HEAD_INVALID "The request has no Host field.";
    HostTwice 400 HEAD_INVALID "The request has more than one Host field.";
    Host 400 HEAD_INVALID "The Host field is not a host and a port.";
    // Framing.
    LengthInvalid 400 HEAD_INVALID "Content-Length is not one decimal number.";
    LengthTwice 400 HEAD_INVALID "There is more than one Content-Length.";
    LengthAndCoding 400 HEAD_INVALID "There are both Content-Length and Transfer-Encoding.";
    CodingTwice 400 HEAD_INVALID "There is more than one Transfer-Encoding.";
    CodingUnknown 501 UNSUPPORTED "The transfer coding is not exactly chunked.";
    CodingOld 400 HEAD_INVALID "There is a Transfer-Encoding in HTTP/1.0.";
    ConnectionOptions 400 HEAD_INVALID "The Connection field lists too many names.";
    Expectation 417 EXPECTATION "The expectation is not 100-continue.";
    // Chunks and trailers.
    ChunkSize 400 BODY_CUT "The size of a chunk is not a hexadecimal number.";
    ChunkTooLarge 413 BODY_TOO_LARGE "The size of a chunk is out of range.";
    ChunkExtension 400 BODY_CUT "A chunk has an extension that is too long or malformed.";
    ChunkEnd 400 BODY_CUT "A chunk is longer or shorter than its size.";
    TrailerTooLarge 431 HEAD_TOO_LARGE "The trailers are too large or too many.";
    TrailerField 400 BODY_CUT "The trailers hold a field that frames or routes a message.";
    // Answers.
    Status 502 "The answer's status is out of range.";
    BodyUnasked 502 "An answer that has no body says that it has one.";
    Switching 502 "The answer switches protocols, which nobody asked for.";
    TooManyInterim 502 "There are too many informational answers.";
}

/// What was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// The rest of a head.
    Head,
    /// The next bytes of a body.
    Piece,
    /// The first byte of an answer.
    Answer,
    /// That the other side takes what we write.
    Write,
}

/// Why a connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The other side sent what this engine refuses.
    Fault(Fault),
    /// The other side took too long.
    Slow(Wait),
    /// The connection ended inside a message.
    Cut,
    /// The socket failed.
    Io(io::ErrorKind),
    /// The caller asked for what the protocol does not allow here; nothing was written.
    Misuse(&'static str),
}

impl Error {
    /// The status that a server can still answer with; nothing where nobody would read it.
    pub fn status(self) -> Option<u16> {
        match self {
            Error::Fault(fault) => Some(fault.status()),
            Error::Slow(Wait::Head | Wait::Piece) => Some(408),
            Error::Slow(_) | Error::Cut | Error::Io(_) => None,
            Error::Misuse(_) => Some(500),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::Fault(fault)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Io(error.kind())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Fault(fault) => f.write_str(fault.text()),
            Error::Slow(Wait::Head) => f.write_str("the head took too long"),
            Error::Slow(Wait::Piece) => f.write_str("the body took too long"),
            Error::Slow(Wait::Answer) => f.write_str("there was no answer in time"),
            Error::Slow(Wait::Write) => f.write_str("the other side takes nothing"),
            Error::Cut => f.write_str("the connection ended inside a message"),
            Error::Io(kind) => write!(f, "the connection failed: {kind}"),
            Error::Misuse(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::Fault;

    #[test]
    fn a_request_is_refused_with_the_status_of_its_code() {
        for fault in Fault::ALL {
            match fault.code() {
                Some(code) => assert_eq!(code.status, fault.status(), "{fault:?}"),
                None => assert_eq!(fault.status(), 502, "{fault:?}"),
            }
        }
    }
}
