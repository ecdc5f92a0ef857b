//! What agents can do with runs, and how policies see it.

use base::{Action, Entity, Lane, Resource, ScanAs};

/// The agent's loop on the server.
pub static LANE: Lane = Lane {
    name: "run",
    is_scanned: true,
    actions: &[&START, &READ, &CANCEL],
    schema: include_str!("run.cedarschema"),
};

/// Starts a run, or says something to one. What the run does then is judged call by call.
pub static START: Action = of_agent("run:start", "start");
/// Reads an own run: its state, its events, its result.
pub static READ: Action = of_agent("run:read", "read");
/// Ends an own run.
pub static CANCEL: Action = of_agent("run:cancel", "cancel");

/// The name that stands for runs which bring their own model, instructions and tools.
pub const OWN: &str = "own";
/// The name that stands for all runs of an agent, where they are listed.
pub const ALL: &str = "all";

const fn of_agent(name: &'static str, method: &'static str) -> Action {
    Action {
        lane: &LANE,
        name,
        method,
        entity,
        has_arguments: false,
        scan_as: ScanAs::Message,
        is_pinned: false,
    }
}

fn entity(resource: &Resource) -> Option<Entity<'_>> {
    match resource {
        Resource::Run(agent) => Some(Entity::named("RunAgent", agent.as_str())),
        _ => None,
    }
}
