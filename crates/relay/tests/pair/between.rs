//! What stands between the two relays and reads whole messages, as a load balancer does: it may change, keep, repeat,
//! swap and lose them.

#![expect(clippy::disallowed_types, reason = "a test has sockets of its own")]

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::rig::{Line, Message, anywhere};

/// Sends a request on to the inbound and brings its answer.
pub(crate) type Next<'a> = dyn FnMut(&Message) -> io::Result<Message> + 'a;

/// What is done with a request: the answer that the outbound gets, or its connection is cut.
pub(crate) type Handle = dyn Fn(Message, &mut Next<'_>) -> io::Result<Message> + Send + Sync;

pub(crate) struct Between {
    pub address: SocketAddr,
    /// Connections that were accepted so far.
    pub accepted: Arc<AtomicUsize>,
}

impl Between {
    pub(crate) fn new(
        to: SocketAddr,
        handle: impl Fn(Message, &mut Next<'_>) -> io::Result<Message> + Send + Sync + 'static,
    ) -> Between {
        let listener = TcpListener::bind(anywhere()).unwrap();
        let address = listener.local_addr().unwrap();
        let (accepted, handle) = (Arc::new(AtomicUsize::new(0)), Arc::new(handle));
        let counted = Arc::clone(&accepted);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                counted.fetch_add(1, Ordering::SeqCst);
                let handle = Arc::clone(&handle);
                thread::spawn(move || serve(Line::of(stream), to, &*handle));
            }
        });
        Between { address, accepted }
    }
}

fn serve(mut near: Line, to: SocketAddr, handle: &Handle) {
    let mut far = None;
    while let Ok(request) = near.message() {
        let mut next = |request: &Message| {
            let mut line = match far.take() {
                Some(line) => line,
                None => Line::to(to),
            };
            let answer = line.ask(&bytes(request))?;
            far = Some(line).filter(|_| answer.field("connection") != Some("close"));
            Ok(answer)
        };
        match handle(request, &mut next) {
            Ok(answer) if near.send(&bytes(&answer)).is_ok() => {}
            _ => return,
        }
    }
}

/// A message as it goes on: framed by its length, whatever it was framed by.
fn bytes(message: &Message) -> Vec<u8> {
    let mut head = format!("{}\r\n", message.line);
    for (name, value) in &message.fields {
        if !matches!(
            name.to_ascii_lowercase().as_str(),
            "content-length" | "transfer-encoding" | "connection"
        ) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", message.body.len()));
    [head.as_bytes(), &message.body].concat()
}

/// Whether it is a sealed request, and no handshake.
pub(crate) fn is_request(message: &Message) -> bool {
    message.body.get(1) == Some(&1) && message.line.starts_with("POST ")
}

/// Whether it is a handshake.
pub(crate) fn is_init(message: &Message) -> bool {
    message.body.get(1) == Some(&3)
}

/// The chunks of a sealed body behind its first bytes: 200 of a request, 32 of a response.
pub(crate) fn chunks(body: &[u8], before: usize) -> Vec<Vec<u8>> {
    let mut rest = &body[before..];
    let mut chunks = Vec::new();
    while let Some(head) = rest.first_chunk::<4>() {
        let length = (u32::from_be_bytes(*head) & 0x7fff_ffff) as usize + 4;
        let (chunk, after) = rest.split_at(length);
        chunks.push(chunk.to_vec());
        rest = after;
    }
    chunks
}
