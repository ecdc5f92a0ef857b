//! HTTP/2 (RFC 9113) below the one engine of HTTP/1.1: each of its streams becomes one exchange of [`crate::h1`].
//!
//! Whoever serves a connection serves [`Stream::Translated`](crate::h1::Stream::Translated), and does not see that the bytes
//! came in frames; so one set of rules judges everything (`docs/decisions/0047-http2-as-exchanges.md`). The frames are crate
//! `h2`'s, and held to bounds of `base::limit`. What HTTP/2 can say and HTTP/1.1 must not is refused here, before a byte of it is
//! passed on. There is no CONNECT, no push, no upgrade from HTTP/1.1, and no priority.
//!
//! ```text
//!  client ─► frames: floods ─► h2: frames to streams ─► translate: one head ─► exchange: bodies ─► h1::ServerConnection
//!  server ◄─ h2: streams to frames ◄─ outward: a connection that is shared ◄─ exchange ◄─ h1::ClientConnection
//! ```

mod exchange;
mod frames;
pub mod fuzzing;
mod inward;
mod outward;
mod preface;
mod translate;

pub use inward::each_stream;
pub(crate) use inward::{StreamService, serve};
pub(crate) use outward::{Http2Link, LinkSetting};
pub(crate) use preface::speaks_http2;
