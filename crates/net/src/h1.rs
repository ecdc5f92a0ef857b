//! HTTP/1.1 of our own, for every connection of the gateway (`docs/decisions/0011-own-http1.md`).
//!
//! This engine reads and writes HTTP/1.1 (RFC 9112) straight from and into buffers that the caller
//! works in: a message is one read and one write, and nothing is allocated for it. It is strict:
//! what two readers could frame in two ways is refused, not repaired. HTTP/2 comes to it as
//! exchanges of HTTP/1.1 ([`crate::http2`]). It has no compression, follows nothing and retries
//! nothing. It switches to no other protocol by itself: a connection is given up to whoever takes it
//! over ([`crate::Tunnel`]). It runs on a current-thread runtime inside a `LocalSet`, as all of this
//! crate does.
//!
//! A server's loop reads from top to bottom:
//!
//! ```no_run
//! # use net::h1::{Error, Framing, ServerConnection, Socket};
//! # async fn serve<S: Socket>(mut server: ServerConnection<S>) -> Result<(), Error> {
//! while server.head().await?.is_some() {
//!     while let Some(piece) = server.piece().await? {
//!         println!("{} bytes", piece.len());
//!     }
//!     server.respond(200, std::iter::empty(), Framing::Length(2))?;
//!     server.body(b"ok").await?;
//!     server.end()?;
//!     server.flush().await?;
//! }
//! # Ok(()) }
//! ```

mod body;
mod buffer;
mod client;
mod connection;
mod error;
mod field;
mod head;
mod prepared;
pub mod probe;
mod server;
mod stream;
mod thread;
mod write;

use base::limit;

pub use body::Framing;
pub(crate) use buffer::Input;
pub use client::{AnswerView, ClientConnection, SendOutcome};
pub use error::{Error, Fault, Wait};
pub use field::{Field, FieldKind, Fields};
pub use head::{Form, Version};
pub use prepared::{AnswerLines, RequestLines};
pub use server::{RequestView, ServerConnection};
pub(crate) use stream::ALPN_HTTP2;
pub use stream::{PeerAddress, Socket, Stream};
pub use thread::Thread;
pub(crate) use thread::Watch;

/// Largest head, in bytes, where the settings do not say otherwise.
pub const HEAD_BYTES_DEFAULT: usize = 64 << 10;
/// Longest request target, in bytes, where the settings do not say otherwise (RFC 9112 §3 asks for
/// 8,000).
pub const TARGET_BYTES_DEFAULT: usize = 16 << 10;
/// Longest method, in bytes.
pub const METHOD_BYTES_MAX: usize = 32;
/// Most fields of a head or of trailers that any setting can allow.
pub const FIELDS_MAX: usize = 128;
/// Largest trailer section, in bytes.
pub const TRAILER_BYTES_MAX: usize = 8 << 10;
/// Longest line before a chunk, in bytes: its size and its extensions.
pub const CHUNK_LINE_BYTES_MAX: usize = 256;
/// Bytes of chunk extensions in one message.
pub const CHUNK_EXTENSION_BYTES_MAX: usize = 16 << 10;
/// Informational answers (1xx) to one request.
pub const INFORMATIONAL_MAX: usize = 8;
/// Names that the Connection fields of one head may list.
pub const CONNECTION_OPTIONS_MAX: usize = 16;
/// Bytes of body that can be had in one piece: `fill(n)` with a larger `n` is a mistake of the
/// caller.
pub const PIECE_BYTES_MAX: usize = 96 << 10;
/// How long a drain leaves idle connections open, in milliseconds, where nothing else is set: several
/// round trips of any network.
pub const DRAIN_IDLE_MS_DEFAULT: u64 = 1_000;
/// Bytes that wait in the output before `body` writes them out.
pub const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// The shortest and the longest tick of a clock, in milliseconds.
const TICK_MS: (u64, u64) = (10, 250);

/// The bounds of a connection, as its server or its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// Largest head, in bytes.
    pub head_bytes_max: usize,
    /// Most fields in a head or in trailers; at most [`FIELDS_MAX`].
    pub fields_max: usize,
    /// Longest request target, in bytes.
    pub target_bytes_max: usize,
    /// From the first byte of a head to its last, and from a new connection to its first byte, in
    /// milliseconds.
    pub head_ms: u64,
    /// How long a connection may be unused between two requests, in milliseconds.
    pub idle_ms: u64,
    /// How long the next bytes of a body may take, in milliseconds.
    pub piece_ms: u64,
    /// How long the other side may take none of what we write, in milliseconds.
    pub write_ms: u64,
    /// How long a client waits for the first byte of an answer, in milliseconds.
    pub answer_ms: u64,
    /// Connections open at once, over all threads that share one `EdgeShared`.
    pub connections_max: usize,
    /// How long a drain waits for what is in flight, in milliseconds.
    pub drain_ms: u64,
    /// How long a drain leaves idle connections open for a request that is on its way already, in
    /// milliseconds; no longer than `drain_ms`.
    pub drain_idle_ms: u64,
    /// Whether clients may speak HTTP/2, too ([`crate::http2`]).
    pub http2: bool,
}

impl ConnectionSettings {
    /// The tick by which the clock of a [`Thread`] meets these bounds, in milliseconds.
    pub fn tick_ms(&self) -> u64 {
        let shortest = self.head_ms.min(self.piece_ms).min(self.write_ms);
        let shortest = shortest.min(self.answer_ms).min(self.idle_ms);
        (shortest / 8).clamp(TICK_MS.0, TICK_MS.1)
    }
}

impl Default for ConnectionSettings {
    fn default() -> ConnectionSettings {
        ConnectionSettings {
            head_bytes_max: HEAD_BYTES_DEFAULT,
            fields_max: limit::HEAD_FIELDS_MAX,
            target_bytes_max: TARGET_BYTES_DEFAULT,
            head_ms: limit::HEAD_MS_DEFAULT,
            idle_ms: limit::IDLE_CLIENT_MS_DEFAULT,
            piece_ms: limit::BODY_MS_DEFAULT,
            write_ms: limit::WRITE_MS_DEFAULT,
            answer_ms: limit::ANSWER_MS_DEFAULT,
            connections_max: limit::CONNECTIONS_DEFAULT,
            drain_ms: limit::DRAIN_MS_DEFAULT,
            drain_idle_ms: DRAIN_IDLE_MS_DEFAULT,
            http2: true,
        }
    }
}
