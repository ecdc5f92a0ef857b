//! Heads that are written many times: checked once, and then copied.
//!
//! Whoever sends every message to one place with the same fields need not have each of its bytes looked at again. It
//! holds what `ClientConnection::request` and `ServerConnection::respond` would write, but for the framing, which
//! differs each time.

use super::body::Framing;
use super::client::{check_authority, check_request};
use super::error::Error;
use super::field::is_token;
use super::server::put_status;
use super::write::{put_field, put_fields};

/// The head of a request: see [`super::ClientConnection::request_as`].
#[derive(Debug)]
pub struct RequestLines {
    pub(super) bytes: Box<[u8]>,
    pub(super) kind: Asks,
}

/// The head of an answer: see [`super::ServerConnection::respond_as`].
#[derive(Debug)]
pub struct AnswerLines {
    pub(super) bytes: Box<[u8]>,
    pub(super) status: u16,
}

/// What of a method matters to framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// HEAD: the answer has no body.
    Head,
    /// The method means a body, so its absence is said (RFC 9110 §8.6).
    WithBody,
    /// Another protocol on this connection; the server may go on with HTTP all the same.
    Upgrade,
    /// CONNECT.
    Tunnel,
    Other,
}

impl Asks {
    pub(super) fn of(method: &[u8]) -> Asks {
        match method {
            b"HEAD" => Asks::Head,
            b"POST" | b"PUT" | b"PATCH" => Asks::WithBody,
            _ => Asks::Other,
        }
    }
}

impl RequestLines {
    /// # Errors
    /// As of [`super::ClientConnection::request`].
    pub fn new<'f>(
        method: &[u8],
        target: &[u8],
        authority: &[u8],
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<RequestLines, Error> {
        let mut bytes = Vec::new();
        put_request(&mut bytes, method, target, authority, fields)?;
        Ok(RequestLines {
            bytes: bytes.into(),
            kind: Asks::of(method),
        })
    }

    /// As it is written, without what frames the message.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl AnswerLines {
    /// # Errors
    /// As of [`super::ServerConnection::respond`].
    pub fn new<'f>(
        status: u16,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<AnswerLines, Error> {
        let mut bytes = Vec::new();
        put_status(&mut bytes, status);
        put_fields(&mut bytes, fields)?;
        Ok(AnswerLines {
            bytes: bytes.into(),
            status,
        })
    }
}

/// Writes a request's line, Host and fields, if all of them can be written.
pub(super) fn put_request<'f>(
    out: &mut Vec<u8>,
    method: &[u8],
    target: &[u8],
    authority: &[u8],
    fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
) -> Result<(), Error> {
    check_request(method, target, authority)?;
    out.reserve(method.len() + target.len() + authority.len() + 32);
    for part in [method, b" ", target, b" HTTP/1.1\r\n"] {
        out.extend_from_slice(part);
    }
    put_field(out, b"host", authority);
    put_fields(out, fields)
}

/// Writes the line and the fields of a CONNECT request, if all of them can be written.
pub(super) fn put_connect<'f>(
    out: &mut Vec<u8>,
    authority: &[u8],
    fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
) -> Result<(), Error> {
    check_authority(authority)?;
    for part in [b"CONNECT ", authority, b" HTTP/1.1\r\n"] {
        out.extend_from_slice(part);
    }
    put_field(out, b"host", authority);
    put_fields(out, fields)
}

/// Writes the fields that ask for another protocol or switch to it (RFC 9110 §7.8).
pub(super) fn put_switch(out: &mut Vec<u8>, protocol: &[u8]) -> Result<(), Error> {
    if !protocol.split(|byte| *byte == b'/').all(is_token) {
        return Err(Error::Misuse("a protocol that cannot be written"));
    }
    put_field(out, b"connection", b"upgrade");
    put_field(out, b"upgrade", protocol);
    Ok(())
}

/// Refuses what no request has.
pub(super) fn check_framing(framing: Framing) -> Result<(), Error> {
    match framing {
        Framing::UntilClose => Err(Error::Misuse("a request cannot end with the connection")),
        _ => Ok(()),
    }
}
