//! What agents can do in this lane, and how policies see it.

use base::{Action, Entity, Lane, Resource, ScanAs};

/// The Model Context Protocol.
pub static LANE: Lane = Lane {
    name: "mcp",
    is_scanned: true,
    actions: &[&LIST, &CALL, &READ, &PROMPT, &USE],
    schema: include_str!("mcp.cedarschema"),
};

/// Lists what a server offers.
pub static LIST: Action = Action {
    entity: server_or_set,
    ..of_server("mcp:list", "tools/list", ScanAs::Message)
};
/// Calls a tool.
pub static CALL: Action = Action {
    lane: &LANE,
    name: "mcp:call",
    method: "tools/call",
    entity: tool,
    has_arguments: true,
    scan_as: ScanAs::ToolCall,
    is_pinned: true,
};
/// Reads a resource, or subscribes to it.
pub static READ: Action = of_server("mcp:read", "resources/read", ScanAs::ResourceRead);
/// Gets a prompt.
pub static PROMPT: Action = of_server("mcp:prompt", "prompts/get", ScanAs::Message);
/// Everything else of the protocol: `initialize`, `ping`, notifications, the event stream, ending a session, and
/// methods that weir does not know.
pub static USE: Action = Action {
    entity: server_or_set,
    ..of_server("mcp:use", "initialize", ScanAs::Message)
};

const fn of_server(name: &'static str, method: &'static str, scan_as: ScanAs) -> Action {
    Action {
        lane: &LANE,
        name,
        method,
        entity: server,
        has_arguments: false,
        scan_as,
        is_pinned: false,
    }
}

fn server(resource: &Resource) -> Option<Entity<'_>> {
    match resource {
        Resource::Server { server, .. } => Some(Entity::named("Server", server.as_str())),
        _ => None,
    }
}

fn server_or_set(resource: &Resource) -> Option<Entity<'_>> {
    match resource {
        Resource::Toolset(name) => Some(Entity::named("Toolset", name.as_str())),
        _ => server(resource),
    }
}

/// A tool's id is `server/tool`. It has no other way to be named, so a server without a tool is none.
fn tool(resource: &Resource) -> Option<Entity<'_>> {
    let (server, tool) = resource.as_tool()?;
    let server = server.as_str();
    let named = Entity::named("Tool", tool);
    let attributes = [named.attributes, vec![("server", server.into())]].concat();
    Some(Entity {
        id: format!("{server}/{tool}").into(),
        attributes,
        parents: vec![Entity::named("Server", server)],
        ..named
    })
}
