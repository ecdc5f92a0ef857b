//! Whether what a client says first is HTTP/2 (RFC 9113 §3.4), without taking a byte of it.
//!
//! A look is one system call for each connection, and nothing for a request. A connection that says nothing is closed as
//! one of HTTP/1.1 would be.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use rustix::net::{RecvFlags, recv};
use tokio::io::{Interest, ReadBuf};

use crate::h1::{ConnectionSettings, Stream, Thread, Watch};

/// What the preface begins with. `PRI` is a method that no request of HTTP/1.1 has.
const BEGINNING: &[u8] = b"PRI ";
/// How long to wait for more of it where less is here, in milliseconds.
const MORE_MS: u64 = 10;

/// Whether the client speaks HTTP/2; nothing where it says nothing for as long as a head may take. Once the thread drains
/// it is waited for no longer than an idle connection.
pub(crate) async fn speaks_http2(
    stream: &Stream,
    thread: &Rc<Thread>,
    bounds: &Rc<ConnectionSettings>,
) -> Option<bool> {
    if let Some(is_http2) = here(stream) {
        return Some(is_http2);
    }
    let watch = Watch::new(thread, bounds);
    let due = thread.after(bounds.head_ms);
    // What is here already when a drain begins is read in this time.
    let mut drained = None;
    poll_fn(|context| {
        let mut wait_ms = bounds.head_ms;
        match poll_seen(stream, context) {
            Poll::Ready(FirstBytes::Part) => wait_ms = MORE_MS,
            Poll::Ready(seen) => return Poll::Ready(Some(seen == FirstBytes::Http2)),
            Poll::Pending => {}
        }
        if thread.is_draining() {
            let last = *drained.get_or_insert_with(|| thread.after(bounds.drain_idle_ms));
            if thread.has_passed(last) {
                return Poll::Ready(Some(false));
            }
            wait_ms = wait_ms.min(bounds.drain_idle_ms);
        }
        if thread.has_passed(due) {
            return Poll::Ready(None);
        }
        watch.read_within(wait_ms);
        watch.wake_later(context.waker());
        Poll::Pending
    })
    .await
}

/// What was said first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstBytes {
    Http2,
    /// What may become the preface.
    Part,
    /// Anything else, also nothing at all.
    Other,
}

fn seen(bytes: &[u8]) -> FirstBytes {
    match bytes {
        [] => FirstBytes::Other,
        _ if bytes == BEGINNING => FirstBytes::Http2,
        _ if BEGINNING.starts_with(bytes) => FirstBytes::Part,
        _ => FirstBytes::Other,
    }
}

/// The same, where enough is here already.
fn here(stream: &Stream) -> Option<bool> {
    let mut context = Context::from_waker(std::task::Waker::noop());
    match poll_seen(stream, &mut context) {
        Poll::Ready(FirstBytes::Part) | Poll::Pending => None,
        Poll::Ready(seen) => Some(seen == FirstBytes::Http2),
    }
}

fn poll_seen(stream: &Stream, context: &mut Context<'_>) -> Poll<FirstBytes> {
    let mut bytes = [0; BEGINNING.len()];
    let came = match stream {
        Stream::Tcp(stream) => {
            let mut buffer = ReadBuf::new(&mut bytes);
            stream.poll_peek(context, &mut buffer)
        }
        Stream::Unix(stream) => loop {
            match stream.poll_read_ready(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => break Poll::Pending,
            }
            let peek = || {
                let came = recv(stream, &mut bytes[..], RecvFlags::PEEK);
                came.map(|(came, _)| came).map_err(io::Error::from)
            };
            match stream.try_io(Interest::READABLE, peek) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                came => break Poll::Ready(came),
            }
        },
        // These say by other means what they speak.
        _ => return Poll::Ready(FirstBytes::Other),
    };
    came.map(|came| seen(&bytes[..came.unwrap_or(0)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preface_is_known_by_its_method() {
        for (bytes, is) in [
            (&b""[..], FirstBytes::Other),
            (b"P", FirstBytes::Part),
            (b"PRI", FirstBytes::Part),
            (b"PRI ", FirstBytes::Http2),
            (b"PR", FirstBytes::Part),
            (b"PO", FirstBytes::Other),
            (b"POST", FirstBytes::Other),
            (b"GET ", FirstBytes::Other),
            (b"\x16\x03\x01\x02", FirstBytes::Other),
        ] {
            assert_eq!(seen(bytes), is, "{bytes:?}");
        }
    }
}
