//! What callers can do in this lane, and how policies see it.

use base::{Action, Entity, Lane, Resource, ScanAs};

/// The sealed relay. The scan does not read what passes: it is sealed for the other side.
pub static LANE: Lane = Lane {
    name: "relay",
    is_scanned: false,
    actions: &[&PASS],
    schema: include_str!("relay.cedarschema"),
};

/// Passes an HTTP request: on the outbound side to a peer, on the inbound side to an origin.
pub static PASS: Action = Action {
    lane: &LANE,
    name: "relay:pass",
    method: "passage",
    entity: route,
    has_arguments: false,
    scan_as: ScanAs::Message,
    is_pinned: false,
};

fn route(resource: &Resource) -> Option<Entity<'_>> {
    match resource {
        Resource::Route(name) => Some(Entity::named("Server", name.as_str())),
        _ => None,
    }
}
