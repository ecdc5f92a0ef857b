//! Answers of a service, as they are written on a connection.
//!
//! An answer whose body is at hand is one write with its head. One that streams is written as it comes, in
//! chunks, and whoever feeds it waits while the client does not read.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{DATE, HeaderName};

use super::Response;
use super::body::{Body, BodyPart, StreamBody};
use super::connection::AgentConnection;
use super::places::GuestPart;
use crate::h1::{Error, Framing, OUTPUT_BYTES_MAX};

/// Room that is left in the output for what stands around a chunk.
const CHUNK_FRAME_BYTES: usize = 32;

/// Writes the answer to the request that was read last. An error says that the connection has to end; the client
/// then sees that the answer is not whole.
pub(super) async fn write(
    server: &mut AgentConnection,
    response: Response,
    guest: Option<&GuestPart>,
) -> Result<(), Error> {
    let (head, body) = response.into_parts();
    let status = head.status.as_u16();
    if matches!(body, Body::Taken) {
        base::never!("an answer to a connection that nobody took over");
        return Err(Error::Misuse("the connection was not taken over"));
    }
    let framing = match &body {
        _ if status == 204 => Framing::None,
        Body::Empty | Body::Taken => Framing::None,
        Body::Full(bytes) => Framing::Length(bytes.len() as u64),
        Body::Stream(stream) => stream.length.map_or(Framing::Chunked, Framing::Length),
    };
    let date = server.date();
    server.respond(status, fields(&head.headers, &date), framing)?;
    if server.has_body_to_send() {
        match body {
            Body::Empty | Body::Taken => {}
            Body::Full(bytes) => put(server, &bytes, guest).await?,
            Body::Stream(stream) => feed(server, stream, guest).await?,
        }
    }
    server.end()?;
    flush(server, guest).await?;
    if let Some(guest) = guest {
        guest.is_silent();
    }
    Ok(())
}

/// Writes the edge's own last word on a connection, and closes it so that the client can read it.
pub(super) async fn refuse(mut server: Box<AgentConnection>, response: Response) {
    let (head, body) = response.into_parts();
    let body = match body {
        Body::Full(bytes) => bytes,
        Body::Empty => Bytes::new(),
        Body::Stream(_) | Body::Taken => {
            base::never!("a refusal whose body is not at hand");
            Bytes::new()
        }
    };
    let (status, date) = (head.status.as_u16(), server.date());
    let fields = fields(&head.headers, &date);
    // Whoever broke the connection need not read why.
    let _ = server.refuse(status, fields, &body).await;
}

/// The fields of an answer, with the time of day, which an origin says (RFC 9110 §6.6.1).
fn fields<'f>(
    headers: &'f HeaderMap,
    date: &'f [u8],
) -> impl Iterator<Item = (&'f [u8], &'f [u8])> {
    let own = (!headers.contains_key(DATE)).then_some((DATE_NAME, date));
    let told = headers.iter();
    told.map(|(name, value)| (HeaderName::as_str(name).as_bytes(), value.as_bytes()))
        .chain(own)
}

const DATE_NAME: &[u8] = b"date";

/// Writes bytes of the body into the output, and the output to the client where it is full.
async fn put(
    server: &mut AgentConnection,
    bytes: &[u8],
    guest: Option<&GuestPart>,
) -> Result<(), Error> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let used = server.unflushed() + CHUNK_FRAME_BYTES;
        let room = OUTPUT_BYTES_MAX.saturating_sub(used).min(rest.len());
        let (now, later) = rest.split_at(room);
        server.push(now)?;
        rest = later;
        if !rest.is_empty() {
            flush(server, guest).await?;
        }
    }
    Ok(())
}

/// Writes what a stream brings, to its end.
async fn feed(
    server: &mut AgentConnection,
    mut stream: StreamBody,
    guest: Option<&GuestPart>,
) -> Result<(), Error> {
    loop {
        let part = match stream.now() {
            Some(part) => part,
            None => {
                flush(server, guest).await?;
                next(server, &mut stream).await?
            }
        };
        match part {
            BodyPart::Chunk(chunk) => put(server, &chunk, guest).await?,
            BodyPart::End => return Ok(()),
            BodyPart::Cut => {
                // What the client takes without delay, it gets.
                let once = poll_fn(|context| Poll::Ready(server.poll_flush(context)));
                let _ = once.await;
                return Err(Error::Cut);
            }
        }
    }
}

/// Waits for the next of a stream, as long as the client is there.
async fn next(server: &mut AgentConnection, stream: &mut StreamBody) -> Result<BodyPart, Error> {
    poll_fn(|context| match stream.poll_next(context) {
        Poll::Ready(part) => Poll::Ready(Ok(part)),
        Poll::Pending => server.poll_gone(context).map(|()| Err(Error::Cut)),
    })
    .await
}

/// Writes out what is in the output. A client that does not take it asks nothing meanwhile.
async fn flush(server: &mut AgentConnection, guest: Option<&GuestPart>) -> Result<(), Error> {
    let mut blocked = false;
    let flushed = poll_fn(|context| {
        let flushed = server.poll_flush(context);
        if flushed.is_pending() {
            blocked = true;
            if let Some(guest) = guest {
                guest.is_silent();
            }
        }
        flushed
    })
    .await;
    if let (true, Some(guest)) = (blocked, guest) {
        guest.is_busy();
    }
    flushed
}
