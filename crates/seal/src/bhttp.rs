//! Binary HTTP (RFC 9292), as the sealed relay speaks it: the plaintext of SHR/1's requests and responses.
//!
//! It exists because a sealed message must survive any cut: a [`Decoder`] reads it as chunks arrive, wherever they
//! end, and an [`Encoder`] writes it straight into the caller's output. Neither allocates for a message once its
//! buffers have grown, and neither copies content on its way in. It refuses everything that two HTTP/1.1 parsers
//! could read in two ways: names in upper case, fields of one connection, a length that lies, an authority that is
//! not Host, content where none may be. It also refuses what RFC 9292 §3.8 allows: a message may not leave out its
//! empty end, so that a cut is never a clean end. It knows nothing of seals, sockets or time.
//!
//! Sources: RFC 9292 (BHTTP), RFC 9000 §16 (integers), RFC 9110 (fields), RFC 9112 §3 (targets), RFC 9113 §8.2 and
//! §8.3 (what a field and a request line may hold), and the section "Binary HTTP" of `docs/relay-protocol.md`.

mod fault;
mod integer;
mod rules;

mod decode;
mod encode;
mod target;

#[cfg(test)]
mod tests;

pub use decode::{Decoder, Event, Fields, Reading};
pub use encode::{Answering, Encoder};
pub use fault::Fault;
pub use target::{Scheme, request_line};

use base::limit;

/// Informational responses that may come before the final one.
pub const INTERIM_MAX: usize = 8;

/// How much one message may hold. Checked before anything is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one head: control data, names and values; and again of the trailers.
    pub head_bytes_max: usize,
    /// Fields of one head, and again of the trailers.
    pub fields_max: usize,
    /// Bytes of content.
    pub content_bytes_max: u64,
}

impl Default for Limits {
    /// What weir holds every HTTP head to, and the longest message that SHR/1 can carry.
    fn default() -> Limits {
        Limits {
            head_bytes_max: limit::HEAD_BYTES_MAX,
            fields_max: limit::HEAD_FIELDS_MAX,
            content_bytes_max: 1 << 38,
        }
    }
}

/// The control data of a request (RFC 9292 §3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLine<'a> {
    /// A token, in its own case; never CONNECT.
    pub method: &'a [u8],
    /// `http` or `https`.
    pub scheme: &'a [u8],
    /// Host and perhaps a port; never empty, and without user information.
    pub authority: &'a [u8],
    /// Begins with `/`, and has the query; `*` only for OPTIONS.
    pub path: &'a [u8],
}

/// How the content of a message that is being written will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// All of it is at hand, with this many bytes: known-length framing (RFC 9292 §3.1).
    Whole(u64),
    /// In pieces, until it ends: indeterminate-length framing (RFC 9292 §3.2).
    Stream,
}
