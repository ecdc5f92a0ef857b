//! The OpenAPI document of the admin API (OpenAPI 3.1.1), made of the table of actions.

use serde_json::{Map, Value, json};

use super::actions::{ACTIONS, AdminAction, AdminAnswer, Recorded};
use super::shapes;

/// The document.
pub(crate) fn document() -> Value {
    let mut paths = Map::new();
    for action in ACTIONS {
        let path = paths
            .entry(action.path)
            .or_insert_with(|| json!({ "parameters": parameters(action.path) }));
        path[action.method.to_ascii_lowercase()] = operation(action);
    }
    json!({
        "openapi": "3.1.1",
        "info": {
            "title": "weir admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What the operator does while the gateway serves: at the admin listener, a socket in the state folder by default.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "key": [] }, {}],
        "paths": paths,
        "components": {
            "securitySchemes": { "key": {
                "type": "http",
                "scheme": "bearer",
                "description": "The key of admin.key, of one of admin.operators, or the break-glass secret. On the Unix socket the kernel says who asks.",
            } },
            "responses": { "Refused": {
                "description": "It was refused: the code says why, the detail what to do.",
                "content": { "application/problem+json": { "schema": shapes::of::<shapes::ProblemBody>() } },
            } },
        },
    })
}

fn parameters(path: &str) -> Vec<Value> {
    let names = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameter = |name: &str| {
        let (schema, what) = match name {
            "agent" => (
                json!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" }),
                "The agent's name.",
            ),
            _ => (
                json!({ "type": "string", "pattern": "^[0-9a-f]{16}$" }),
                "The credential's id, as the agent shows it.",
            ),
        };
        json!({ "name": name, "in": "path", "required": true, "description": what, "schema": schema })
    };
    names.map(parameter).collect()
}

fn operation(action: &AdminAction) -> Value {
    let (status, answer) = match action.answer {
        AdminAnswer::Json(status, schema) => (
            status,
            json!({ "application/json": { "schema": schema() } }),
        ),
        AdminAnswer::Text(kind) => (200, json!({ kind: { "schema": { "type": "string" } } })),
    };
    let recorded = match action.recorded {
        Recorded::No => "It leaves no record.",
        Recorded::Asked | Recorded::Change => "It leaves a record that names who asked.",
    };
    let mut operation = json!({
        "operationId": action.name,
        "summary": action.does,
        "description": format!("Needs the role {}. {recorded}", action.role),
        "x-weir-role": action.role.as_str(),
        "responses": {
            status.to_string(): { "description": "It is done.", "content": answer },
            "default": { "$ref": "#/components/responses/Refused" },
        },
    });
    if let Some(schema) = action.body {
        operation["requestBody"] = json!({
            "required": true,
            "content": { "application/json": { "schema": schema() } },
        });
    }
    operation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_each_action_once() {
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        let operations = paths.values().flat_map(|path| path.as_object().unwrap());
        let ids = operations.filter_map(|(_, operation)| operation["operationId"].as_str());
        assert_eq!(ids.count(), ACTIONS.len());
        let agent = &paths["/admin/agents/{agent}/credentials/{id}"];
        assert_eq!(agent["parameters"].as_array().unwrap().len(), 2);
        assert_eq!(agent["delete"]["x-weir-role"], "operator");
        let body = &paths["/admin/agents"]["post"]["requestBody"]["content"]["application/json"];
        assert_eq!(body["schema"]["required"], json!(["name"]));
    }
}
