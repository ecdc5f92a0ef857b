//! Entrances for the fuzzer to what nothing outside this crate calls.

use bytes::Bytes;
use http::request;

use super::frames;
use super::translate::TranslatedHead;
use crate::h1::RequestLines;

/// Translates a head to HTTP/1.1: what would be written, or nothing where it is refused.
pub fn translated(head: &request::Parts, has_ended: bool) -> Option<Bytes> {
    let told = TranslatedHead::new(head, has_ended).ok()?;
    let fields = told.fields();
    let lines = RequestLines::new(told.method(), told.target, told.authority, fields).ok()?;
    Some(Bytes::copy_from_slice(lines.bytes()))
}

/// The heads of the frames in these pieces: their lengths and kinds.
pub fn frame_heads(pieces: &[&[u8]]) -> Vec<(u32, u8)> {
    frames::heads(pieces)
}
