//! What agents can do in this lane, and how policies see it.

use base::{Action, Entity, ItemKind, Lane, Resource, ScanAs};

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
/// Reads a resource, subscribes to it, or completes the variables of a template.
pub static READ: Action = Action {
    entity: resource,
    is_pinned: true,
    ..of_server("mcp:read", "resources/read", ScanAs::ResourceRead)
};
/// Gets a prompt, or completes its arguments.
pub static PROMPT: Action = Action {
    entity: prompt,
    is_pinned: true,
    ..of_server("mcp:prompt", "prompts/get", ScanAs::Message)
};
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
        Resource::Toolset { set, .. } => Some(Entity::named("Toolset", set.as_str())),
        _ => server(resource),
    }
}

fn tool(resource: &Resource) -> Option<Entity<'_>> {
    item(resource, ItemKind::Tool, "Tool")
}

fn prompt(resource: &Resource) -> Option<Entity<'_>> {
    item(resource, ItemKind::Prompt, "Prompt")
}

fn resource(resource: &Resource) -> Option<Entity<'_>> {
    let mut entity = item(resource, ItemKind::Resource, "Resource")?;
    let (_, item) = resource.as_item()?;
    entity.attributes.push(("uri", (*item.name).into()));
    Some(entity)
}

/// An item's id is `server/name`. It has no other way to be named, so a server without an item of this kind is none.
fn item<'a>(resource: &'a Resource, kind: ItemKind, entity: &'static str) -> Option<Entity<'a>> {
    let (server, item) = resource.as_item().filter(|(_, item)| item.kind == kind)?;
    let server = server.as_str();
    Some(Entity {
        kind: entity,
        id: format!("{server}/{}", item.name).into(),
        attributes: vec![("name", (*item.name).into()), ("server", server.into())],
        parents: vec![Entity::named("Server", server)],
    })
}
