//! What agents can do in this lane, and how policies see it.

use base::{Action, Entity, Lane, Resource, ScanAs};

/// Models of providers, in the dialect that the client speaks.
pub static LANE: Lane = Lane {
    name: "llm",
    is_scanned: true,
    actions: &[&CHAT, &EMBED, &LIST, &CONNECT],
    schema: include_str!("llm.cedarschema"),
};

/// Asks a model to say something, or counts what that would take.
pub static CHAT: Action = of_model("llm:chat", "chat");
/// Has a model turn texts into vectors.
pub static EMBED: Action = of_model("llm:embed", "embeddings");
/// Lists the models that the agent may use. weir answers itself.
pub static LIST: Action = Action {
    entity: |resource| match resource {
        Resource::Setting(name) => Some(Entity::named("Models", name.as_str())),
        _ => None,
    },
    ..of_model("llm:list", "models")
};

/// Opens a WebSocket, on which each message is a call of its own.
pub static CONNECT: Action = Action {
    entity: LIST.entity,
    ..of_model("llm:connect", "websocket")
};

/// Exchanges a service account's statement for a token: the gateway's own call, which no agent can make.
pub(crate) static TOKEN: Action = Action {
    entity: |_| None,
    ..of_model("llm:token", "token")
};

const fn of_model(name: &'static str, method: &'static str) -> Action {
    Action {
        lane: &LANE,
        name,
        method,
        entity: model,
        has_arguments: false,
        scan_as: ScanAs::Message,
        is_pinned: false,
    }
}

/// A model's id is `provider/model`.
fn model(resource: &Resource) -> Option<Entity<'_>> {
    let Resource::Model { provider, model } = resource else {
        return None;
    };
    let provider = provider.as_str();
    Some(Entity {
        kind: "Model",
        id: format!("{provider}/{model}").into(),
        attributes: vec![("name", (**model).into()), ("provider", provider.into())],
        parents: vec![Entity::named("Provider", provider)],
    })
}
