//! All sockets and child processes of weir: the edge that agents call, the upstreams that weir calls, and
//! the servers that it runs.
//!
//! Transport has no opinions. It moves bytes, holds every wait to a bound, and sends nothing for anyone who
//! does not show a [`base::Permit`]. It reads no JSON and knows no policy. Everything here runs on a tokio
//! current-thread runtime inside a `LocalSet`, one for each core, so that nothing has to be locked.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may fail by panic"))]

pub mod children;
mod dial;
pub mod edge;
mod generation;
pub mod h1;
pub mod http2;
mod intercept;
pub mod mutual;
pub mod origin;
mod own;
mod pool;
mod send;
pub mod sse;
mod takeover;
pub mod tls;
mod ws;

pub use children::{Backoff, ChildIn, ChildOut, LineError, SendLineError};
pub use dial::{Endpoint, EndpointError, Scheme, TargetError, Targets};
pub use edge::{AcceptedConnection, ConnectionService, Listener, ListenerSettings, Peer, Proxies};
pub use edge::{
    Body, BodySender, Drain, EdgeSettings, EdgeShared, Gone, Request, Response, StreamBody,
};
pub use edge::{CallerSaid, ForwardedField, Service, bind, bind_alone, refused, reserve, serve};
pub use edge::{serve_connections, serve_tunnel};
pub use generation::Generations;
pub use http2::each_stream;
pub use intercept::{InterceptAuthority, PeekedHello};
pub use pool::{Lease, Upstreams};
pub use send::{SendError, UpstreamAnswer};
pub use takeover::{Switch, Tunnel, TunnelBounds, TunnelEnd, TunnelStop};
pub use ws::{
    WebSocket, WebSocketAsk, WebSocketBounds, WebSocketEnd, WebSocketMessage, WebSocketOffer,
};
