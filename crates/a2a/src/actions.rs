//! What agents can do in this lane, and how policies see it.

use base::{Action, Entity, Lane, Resource, ScanAs};

/// Agents of others.
pub static LANE: Lane = Lane {
    name: "a2a",
    is_scanned: true,
    actions: &[&CARD, &SEND, &READ, &CANCEL],
    schema: include_str!("a2a.cedarschema"),
};

/// Reads what an agent says of itself.
pub static CARD: Action = of_agent("a2a:card", "GetAgentCard");
/// Sends a message, which begins a task or goes on with one.
pub static SEND: Action = Action {
    is_pinned: true,
    ..of_agent("a2a:send", "SendMessage")
};
/// Reads a task of its own, or follows it.
pub static READ: Action = of_agent("a2a:read", "GetTask");
/// Ends a task of its own.
pub static CANCEL: Action = of_agent("a2a:cancel", "CancelTask");

const fn of_agent(name: &'static str, method: &'static str) -> Action {
    Action {
        lane: &LANE,
        name,
        method,
        entity: agent,
        has_arguments: false,
        scan_as: ScanAs::Message,
        is_pinned: false,
    }
}

fn agent(resource: &Resource) -> Option<Entity<'_>> {
    match resource {
        Resource::Server { server, .. } => Some(Entity::named("RemoteAgent", server.as_str())),
        _ => None,
    }
}
