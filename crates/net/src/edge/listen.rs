//! Serving agents: what the listeners of one thread have in common, and each of their connections.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use base::Refusal;
use tokio::task::JoinSet;

use super::accept::{AcceptedConnection, ConnectionService, serve_connections};
use super::{
    Drain, EdgeSettings, EdgeShared, Listener, ListenerSettings, Response, Service, connection,
};
use crate::h1::Thread;

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
