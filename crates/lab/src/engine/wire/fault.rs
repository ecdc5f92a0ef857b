//! What went wrong with one request, and which class it belongs to.
//!
//! Libraries wrap errors in errors. The innermost that says something is what counts: a reset is a reset whether
//! TLS, HTTP/2 or the body reader saw it.

use std::error::Error;
use std::io;

use crate::tally::Fault;

/// Longest text of a server that is repeated, in characters.
const QUOTED_CHARS_MAX: usize = 200;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bad {
    pub fault: Fault,
    /// One sentence.
    pub what: String,
    /// Where a compared body was wrong first.
    pub spot: Option<Spot>,
}

/// The first wrong byte of a body, with what is around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    pub offset: u64,
    pub expected: Vec<u8>,
    pub received: Vec<u8>,
}

impl Bad {
    pub fn new(fault: Fault, what: impl Into<String>) -> Bad {
        Bad {
            fault,
            what: what.into(),
            spot: None,
        }
    }

    /// Of an error of the connection.
    pub fn of(error: &(dyn Error + 'static)) -> Bad {
        let mut next = Some(error);
        let (mut fault, mut what) = (None, String::new());
        while let Some(error) = next {
            fault = class(error).or(fault);
            what = error.to_string();
            next = match error.downcast_ref::<io::Error>() {
                // The error inside is not the source, it is the error itself.
                Some(outer) => outer.get_ref().map(|inner| inner as &(dyn Error + 'static)),
                None => error.source(),
            };
        }
        Bad::new(fault.unwrap_or(Fault::Protocol), quoted(&what))
    }
}

/// The class of one error of a chain, where it alone tells.
fn class(error: &(dyn Error + 'static)) -> Option<Fault> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return of_io(error);
    }
    if error.downcast_ref::<rustls::Error>().is_some() {
        return Some(Fault::Tls);
    }
    let Some(error) = error.downcast_ref::<hyper::Error>() else {
        return of_frames(&error.to_string());
    };
    if error.is_parse() {
        Some(Fault::Protocol)
    } else if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        Some(Fault::Closed)
    } else {
        None
    }
}

fn of_io(error: &io::Error) -> Option<Fault> {
    use rustix::io::Errno;
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ADDRNOTAVAIL) => return Some(Fault::Ports),
        Some(Errno::MFILE | Errno::NFILE) => return Some(Fault::Descriptors),
        _ => {}
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Some(Fault::Refused),
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionAborted => Some(Fault::Reset),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::NotConnected => Some(Fault::Closed),
        io::ErrorKind::TimedOut => Some(Fault::ConnectTimeout),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Some(Fault::Refused),
        _ => None,
    }
}

/// HTTP/2's own errors can only be told by their words: what the other side sent is a reset, what was found in
/// its frames is a breach of the protocol.
fn of_frames(text: &str) -> Option<Fault> {
    if text.contains("error received") {
        Some(Fault::Reset)
    } else if text.contains("error detected") {
        Some(Fault::Protocol)
    } else {
        None
    }
}

/// A text from outside, fit to be shown: one line, bounded.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut shown: String = text.chars().take(QUOTED_CHARS_MAX).map(plain).collect();
    if text.chars().nth(QUOTED_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{Bad, quoted};
    use crate::tally::Fault;

    #[test]
    fn the_innermost_error_tells() {
        let reset = io::Error::from(io::ErrorKind::ConnectionReset);
        assert_eq!(Bad::of(&reset).fault, Fault::Reset);
        let alert = rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired);
        let wrapped = io::Error::new(io::ErrorKind::InvalidData, alert);
        assert_eq!(Bad::of(&wrapped).fault, Fault::Tls);
        let wrapped = io::Error::other(io::Error::from_raw_os_error(99));
        assert_eq!(Bad::of(&wrapped).fault, Fault::Ports);
    }

    #[test]
    fn what_is_quoted_is_one_short_line() {
        assert_eq!(quoted("a\n\u{1b}b"), "a  b");
        assert_eq!(quoted(&"x".repeat(500)).chars().count(), 201);
    }
}
