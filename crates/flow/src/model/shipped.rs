//! Types of entities that every project has from the start: vendors, and the project's configuration.

use serde_json::{Map, Value, json};

use super::{EntityType, Stamp};

/// The type of vendors.
pub const VENDOR: &str = "vendor";
/// The type of the one entity that is a project's configuration.
pub const CONFIGURATION: &str = "project_configuration";
/// What that entity is called.
pub const CONFIGURATION_NAME: &str = "configuration";

/// The shipped types, as entity types of a project.
pub fn types(project: &str) -> Vec<EntityType> {
    [
        (VENDOR, "Vendors whose files are extracted", vendor()),
        (
            CONFIGURATION,
            "The project's configuration",
            configuration(),
        ),
    ]
    .into_iter()
    .map(|(name, description, schema)| EntityType {
        stamp: Stamp {
            id: format!("shipped:{name}"),
            project: project.to_owned(),
            created_by: "weir".to_owned(),
            updated_by: "weir".to_owned(),
            ..Stamp::default()
        },
        name: name.to_owned(),
        description: description.to_owned(),
        schema,
        unique_names: true,
    })
    .collect()
}

fn vendor() -> Map<String, Value> {
    let count = json!({"type": "integer", "minimum": 0});
    let flag = json!({"type": "boolean"});
    object(json!({
        "type": "object",
        "required": ["status", "extractor_version"],
        "properties": {
            "status": {"enum": ["operational", "broken"]},
            "extractor_version": {"type": "string", "maxLength": 50},
            "format_support": {
                "type": "object",
                "properties": {"excel": flag, "csv": flag, "pdf": flag, "ocr": flag},
            },
            "test_results": {
                "type": "object",
                "properties": {"passing": count, "total": count, "skipped": count},
            },
            "manifest_compliant": {"type": "boolean"},
        },
    }))
}

fn configuration() -> Map<String, Value> {
    object(json!({
        "type": "object",
        "properties": {
            "active_context_type": {"enum": ["feature", "maintenance", "research"]},
            "current_session_id": {"type": ["string", "null"]},
            "git_branch": {"type": ["string", "null"], "maxLength": 100},
            "git_head_commit": {"type": ["string", "null"], "pattern": "^[a-f0-9]{40}$"},
            "default_token_budget": {"type": "integer", "minimum": 1000, "maximum": 1_000_000},
        },
    }))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn shipped_schemas_compile() {
        for of in super::types("p") {
            crate::model::entity::compile(&of.schema).unwrap();
        }
    }
}
