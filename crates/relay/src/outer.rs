//! What both sides say on the outside of a sealed message: nothing in it is believed.

use std::sync::LazyLock;

use base::limit;
use net::h1::{AnswerLines, Framing};
use seal::bhttp::Limits;

/// Where sealed messages go (RFC 8615).
pub(crate) const PATH: &[u8] = b"/.well-known/shr/1";
/// Where an inbound lists its public keys.
pub(crate) const KEYS_PATH: &[u8] = b"/.well-known/shr/keys";
/// Fields of every outer message: no cache keeps it, and nobody changes it on the way.
pub(crate) const FIELDS: [(&[u8], &[u8]); 2] = [
    (b"content-type", b"application/shr"),
    (b"cache-control", b"no-store, no-transform"),
];
/// The same for an answer that is sent piece by piece: proxies that know the word do not hold it back.
pub(crate) const STREAM_FIELDS: [(&[u8], &[u8]); 3] =
    [FIELDS[0], FIELDS[1], (b"x-accel-buffering", b"no")];
/// The head of every sealed answer that is written at once.
pub(crate) static ANSWER: LazyLock<AnswerLines> =
    LazyLock::new(|| AnswerLines::new(200, FIELDS).expect("these fields can be written"));
/// Longest content that is sealed as one chunk, in bytes. Its head has to fit beside it.
pub(crate) const WHOLE_BYTES_MAX: u64 = 56 << 10;
/// Longest body that an inbound verifies whole before the origin sees a byte of it, in bytes.
pub(crate) const GATHER_BYTES_MAX: u64 = 1 << 20;
/// Most content in one chunk of a stream, in bytes: what a chunk holds, less what frames it.
pub(crate) const PIECE_BYTES_MAX: usize = (64 << 10) - 16;
/// Most bytes of an outer answer that is a hint, or of a list of keys.
pub(crate) const OUTER_BYTES_MAX: usize = 64 << 10;

/// The bounds of Binary HTTP for this content.
pub(crate) fn limits(content_bytes_max: u64) -> Limits {
    Limits {
        head_bytes_max: HEAD_BYTES_MAX,
        fields_max: limit::HEAD_FIELDS_MAX,
        content_bytes_max,
    }
}

/// Longest head of a request or an answer, in bytes. With [`WHOLE_BYTES_MAX`] it may pass one chunk; a message that
/// does is sent as a stream.
pub(crate) const HEAD_BYTES_MAX: usize = limit::HEAD_BYTES_MAX;

/// The length of content that is sealed whole, if it may be.
pub(crate) fn whole(framing: Framing) -> Option<usize> {
    match framing {
        Framing::None => Some(0),
        Framing::Length(bytes) if bytes <= WHOLE_BYTES_MAX => Some(bytes as usize),
        _ => None,
    }
}
