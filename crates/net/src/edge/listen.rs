//! Serving agents: what the listeners of one thread have in common, and each of their connections.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use base::Refusal;
use tokio::task::JoinSet;

use super::accept::{AcceptedConnection, ConnectionService, serve_connections};
use super::{
    Drain, EdgeSettings, EdgeShared, Listener, ListenerSettings, Peer, Response, Service,
    connection,
};
use crate::h1::Thread;
use crate::takeover::Tunnel;

/// What the connections of one thread have in common.
pub(super) struct Agents<S> {
    pub(super) service: Rc<S>,
    pub(super) settings: Rc<EdgeSettings>,
    pub(super) shared: Arc<EdgeShared>,
}

/// Accepts agents on each of these listeners and serves them until the drain starts, and then to the end of what is in
/// flight, at most `drain_ms`.
///
/// Fails only if a listener cannot be used at all. Must run inside a `LocalSet`.
pub async fn serve<S: Service>(
    listeners: Vec<(Listener, Rc<ListenerSettings>)>,
    service: Rc<S>,
    settings: Rc<EdgeSettings>,
    shared: Arc<EdgeShared>,
    drain: Drain,
) -> io::Result<()> {
    let bounds = Rc::new(settings.bounds());
    let thread = Thread::new(bounds.tick_ms());
    let agents = Rc::new(Agents {
        service,
        settings,
        shared: Arc::clone(&shared),
    });
    let mut serving = JoinSet::new();
    for listener in listeners {
        let (agents, thread, bounds) = (Rc::clone(&agents), Rc::clone(&thread), Rc::clone(&bounds));
        let (shared, drain) = (Arc::clone(&shared), drain.clone());
        serving.spawn_local(serve_connections(
            listener, agents, thread, bounds, shared, drain,
        ));
    }
    let mut served = Ok(());
    while let Some(one) = serving.join_next().await {
        served = served.and(one.unwrap_or_else(|error| Err(io::Error::other(error))));
    }
    served
}

/// Serves requests that come in a connection that was taken over, to its end or the drain.
pub async fn serve_tunnel<S: Service>(
    tunnel: Tunnel,
    peer: Peer,
    service: Rc<S>,
    settings: Rc<EdgeSettings>,
    shared: Arc<EdgeShared>,
) {
    let (thread, bounds) = tunnel.watched_by();
    let agents = Agents {
        service,
        settings,
        shared,
    };
    let accepted = AcceptedConnection {
        stream: tunnel.into_stream(),
        peer,
        thread,
        bounds,
        guest: None,
        settings: Rc::default(),
    };
    // A tunnel may lead into another: what is inside stands in the heap.
    Box::pin(connection::run(&agents, accepted)).await;
}

impl<S: Service> ConnectionService for Agents<S> {
    async fn connection(&self, accepted: AcceptedConnection) {
        connection::run(self, accepted).await;
    }

    fn refuse(&self, refusal: &Refusal) -> Response {
        self.service.refuse(refusal)
    }

    fn strangers_max(&self) -> Option<usize> {
        Some(self.settings.strangers_max)
    }
}
