//! A client of the legacy era, or a run, cancels a request that it made at the URL of many servers.
//!
//! Its call ends at once. A server that has sessions is told by `notifications/cancelled`, with the id that weir gave it for
//! the request; one without hears of it as of any client that is gone.

use base::{CallId, Resource};
use bytes::Bytes;
use gate::Call;

use super::Asking;
use super::route::RestatedWay;
use crate::actions::USE;
use crate::calls::{CallClient, own_id};
use crate::drive::drive;
use crate::era::MessageEra;
use crate::lane::Server;
use crate::upstream::own::{self, OwnWay};

impl Asking<'_> {
    /// Ends the call that the client's request `requested` went on as. `body` is the notification.
    pub(super) async fn cancel_request(&self, requested: &str, body: &Bytes) {
        let session = self.session().ok().flatten().map(|(given, _)| given);
        let calls = &self.lane.shared.calls;
        for server in self.servers() {
            let client = CallClient {
                agent: self.agent(),
                server: &server.name,
                session,
            };
            let Some((call, way)) = calls.way(client, requested) else {
                continue;
            };
            if let Some(way @ (OwnWay::Session(_) | OwnWay::Child(..))) = way {
                self.tell_cancelled(server, call, &way, body).await;
            }
            // Also where the server could not be told.
            calls.cancel(client, requested);
        }
    }

    async fn tell_cancelled(&self, server: &Server, call: CallId, way: &OwnWay, body: &Bytes) {
        let resource = Resource::server(server.name.clone());
        let id = (self.lane.shared.settings.new_id)();
        let told = Call {
            bytes: body.len() as u64,
            run: self.run(),
            ..Call::new(id, self.peer, &USE, &resource, "notifications/cancelled")
        };
        let legacy = self.lane.shared.spoken(&server.name);
        let legacy = legacy.and_then(|spoken| spoken.legacy);
        let restated = RestatedWay::cancelling(MessageEra::Legacy(legacy), own_id(call));
        let (shared, verified) = (&self.lane.shared, self.verified.clone());
        let driven = drive(shared, &restated, server, verified, told, body).await;
        let Ok((Some(outgoing), answers)) = driven.map(|driven| (driven.outgoing, driven.answers))
        else {
            return;
        };
        let session = self.session().ok().flatten().map(|(given, _)| given);
        own::carry(self.lane, server, way, answers, outgoing, session).await;
    }
}
