//! `register_entity_type`, `create_entity`, `query_entities`, `update_entity`, `delete_entity`, `update_entity_type_schema`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tools::serve::call::{Problem, schema};
use tools::serve::table::{Effect, Whose};

use super::{any_answer, theirs, translated};
use crate::model::filter::Filter;
use crate::model::{Entity, EntityType, Project};
use crate::ops::Scoped;
use crate::ops::entity::{self, EntityAction, EntityCall};
use crate::ops::types::{self, TypeAction, TypeCall};
use crate::store::{Page, Tx};
use crate::table::{Tool, read, write};

/// Entities that one answer has, at most.
const ENTITIES_MAX: usize = 100;

/// Arguments of `register_entity_type`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RegisterType {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// The name of the type.
    type_name: String,
    /// JSON Schema of its data.
    schema: Map<String, Value>,
    /// What it is for.
    description: Option<String>,
}

/// Arguments of `create_entity`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateEntity {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// The name of its type.
    entity_type: String,
    /// What it is called.
    name: String,
    /// Its data.
    data: Map<String, Value>,
    /// Words to find it by.
    tags: Option<Vec<String>>,
}

/// Arguments of `query_entities`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct QueryEntities {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// The name of the type.
    entity_type: String,
    /// What the data has to contain, as PostgreSQL's @> has it.
    filter: Option<Map<String, Value>>,
    /// Words that all have to be there.
    tags: Option<Vec<String>>,
    /// Deleted ones too.
    include_deleted: Option<bool>,
}

/// Arguments of `update_entity`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateEntity {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// The id of the entity.
    entity_id: String,
    /// A merge patch for its data: what it does not name stays.
    data: Map<String, Value>,
    /// The version that is changed.
    current_version: i64,
}

/// Arguments of `delete_entity`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteEntity {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// The id of the entity.
    entity_id: String,
    /// Has to be true.
    confirmed: Option<bool>,
}

/// Arguments of `update_entity_type_schema`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EvolveType {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// The name of the type.
    type_name: String,
    /// The new schema, which has to take all that the old one took.
    new_schema: Map<String, Value>,
    /// Taken; entities are always looked at.
    #[allow(dead_code, reason = "the peer's clients send it")]
    validate_existing: Option<bool>,
}

theirs!(CreateEntity, QueryEntities, UpdateEntity, DeleteEntity);

impl Scoped for RegisterType {
    fn project(&self) -> Option<&str> {
        self.project_id.as_deref()
    }

    fn schema(&self) -> Option<&Map<String, Value>> {
        Some(&self.schema)
    }
}

impl Scoped for EvolveType {
    fn project(&self) -> Option<&str> {
        self.project_id.as_deref()
    }

    fn schema(&self) -> Option<&Map<String, Value>> {
        Some(&self.new_schema)
    }
}

pub(crate) const REGISTER_TYPE: Tool = Tool {
    name: "register_entity_type",
    title: "Register an entity type (workflow-mcp)",
    doc: "Registers a type of entities by JSON Schema.",
    effect: Effect::Writes,
    whose: Whose::Theirs,
    input: schema::<RegisterType>,
    output: any_answer,
    run: |call, map| translated(write(call, "register_entity_type", map, register)),
};

pub(crate) const CREATE_ENTITY: Tool = Tool {
    name: "create_entity",
    title: "Create an entity (workflow-mcp)",
    doc: "Creates an entity of a registered type.",
    effect: Effect::Writes,
    whose: Whose::Theirs,
    input: schema::<CreateEntity>,
    output: any_answer,
    run: |call, map| translated(write(call, "create_entity", map, create)),
};

pub(crate) const QUERY_ENTITIES: Tool = Tool {
    name: "query_entities",
    title: "Query entities (workflow-mcp)",
    doc: "Finds entities whose data contains the filter and that have all tags.",
    effect: Effect::Reads,
    whose: Whose::Theirs,
    input: schema::<QueryEntities>,
    output: any_answer,
    run: |call, map| translated(read(call, "query_entities", map, query)),
};

pub(crate) const UPDATE_ENTITY: Tool = Tool {
    name: "update_entity",
    title: "Change an entity (workflow-mcp)",
    doc: "Changes an entity's data where its version is still the one that you read.",
    effect: Effect::Overwrites,
    whose: Whose::Theirs,
    input: schema::<UpdateEntity>,
    output: any_answer,
    run: |call, map| translated(write(call, "update_entity", map, update)),
};

pub(crate) const DELETE_ENTITY: Tool = Tool {
    name: "delete_entity",
    title: "Delete an entity (workflow-mcp)",
    doc: "Deletes an entity; entity_write restores it.",
    effect: Effect::Removes,
    whose: Whose::Theirs,
    input: schema::<DeleteEntity>,
    output: any_answer,
    run: |call, map| translated(write(call, "delete_entity", map, delete)),
};

pub(crate) const EVOLVE_TYPE: Tool = Tool {
    name: "update_entity_type_schema",
    title: "Evolve an entity type (workflow-mcp)",
    doc: "Gives a type a schema that takes more than before.",
    effect: Effect::Writes,
    whose: Whose::Theirs,
    input: schema::<EvolveType>,
    output: any_answer,
    run: |call, map| translated(write(call, "update_entity_type_schema", map, evolve)),
};

fn type_row(of: &EntityType) -> Value {
    json!({
        "id": of.stamp.id, "type_name": of.name, "schema": of.schema, "description": of.description,
        "version": of.stamp.version, "created_at": of.stamp.created_at, "updated_at": of.stamp.updated_at,
    })
}

pub(super) fn row(of: &Entity) -> Value {
    json!({
        "id": of.stamp.id, "entity_type": of.entity_type, "name": of.name, "data": of.data, "tags": of.tags,
        "version": of.stamp.version, "created_at": of.stamp.created_at, "updated_at": of.stamp.updated_at,
        "deleted_at": of.stamp.deleted_at, "metadata": {},
    })
}

/// A call of ours that names nothing yet.
pub(super) fn blank(action: EntityAction) -> EntityCall {
    EntityCall {
        action,
        project: None,
        id: None,
        entity_type: None,
        name: None,
        data: None,
        replace: None,
        tags: None,
        version: None,
        confirmed: None,
        idempotency_key: None,
    }
}

fn type_call(
    action: TypeAction,
    name: &str,
    schema: &Map<String, Value>,
    description: Option<String>,
) -> TypeCall {
    TypeCall {
        action,
        project: None,
        name: Some(name.to_owned()),
        description,
        schema: Some(schema.clone()),
        unique_names: None,
        dry_run: None,
        version: None,
        limit: None,
        cursor: None,
        idempotency_key: None,
    }
}

fn register(tx: &Tx<'_>, project: &Project, call: &RegisterType) -> Result<Value, Problem> {
    let call = type_call(
        TypeAction::Register,
        &call.type_name,
        &call.schema,
        call.description.clone(),
    );
    let made = types::run(tx, project, &call)?.entity_type;
    Ok(made.as_ref().map(type_row).unwrap_or_default())
}

fn evolve(tx: &Tx<'_>, project: &Project, call: &EvolveType) -> Result<Value, Problem> {
    let call = type_call(TypeAction::Evolve, &call.type_name, &call.new_schema, None);
    let evolved = types::run(tx, project, &call)?;
    let mut row = evolved
        .entity_type
        .as_ref()
        .map(type_row)
        .unwrap_or_default();
    row["validated_entities"] = json!(evolved.checked);
    Ok(row)
}

fn create(tx: &Tx<'_>, project: &Project, call: &CreateEntity) -> Result<Value, Problem> {
    let made = entity::write(
        tx,
        project,
        &EntityCall {
            entity_type: Some(call.entity_type.clone()),
            name: Some(call.name.clone()),
            data: Some(call.data.clone()),
            tags: call.tags.clone(),
            ..blank(EntityAction::Create)
        },
    )?;
    Ok(row(&made.entity))
}

fn update(tx: &Tx<'_>, project: &Project, call: &UpdateEntity) -> Result<Value, Problem> {
    let changed = entity::write(
        tx,
        project,
        &EntityCall {
            id: Some(call.entity_id.clone()),
            data: Some(call.data.clone()),
            version: Some(call.current_version),
            ..blank(EntityAction::Update)
        },
    )?;
    Ok(row(&changed.entity))
}

fn delete(tx: &Tx<'_>, project: &Project, call: &DeleteEntity) -> Result<Value, Problem> {
    let gone = entity::write(
        tx,
        project,
        &EntityCall {
            id: Some(call.entity_id.clone()),
            confirmed: call.confirmed,
            ..blank(EntityAction::Delete)
        },
    )?;
    Ok(
        json!({ "success": true, "id": gone.entity.stamp.id, "deleted_at": gone.entity.stamp.deleted_at }),
    )
}

fn query(tx: &Tx<'_>, project: &Project, call: &QueryEntities) -> Result<Value, Problem> {
    let of = types::find(tx, project, &call.entity_type)?;
    let filter = call.filter.clone().filter(|filter| !filter.is_empty());
    if let Some(filter) = &filter {
        crate::model::bounds::json("filter", &Value::Object(filter.clone()))?;
    }
    let filter = filter.map(|filter| Filter::Contains(Value::Object(filter)));
    let tags = call.tags.clone().unwrap_or_default();
    let page = Page {
        before: None,
        limit: ENTITIES_MAX,
    };
    let found = tx.entities(
        &project.stamp.id,
        Some(&of.name),
        filter.as_ref(),
        &tags,
        call.include_deleted == Some(true),
        page,
    )?;
    let entities: Vec<Value> = found.rows.iter().map(|(_, entity)| row(entity)).collect();
    Ok(json!({ "count": entities.len(), "entities": entities, "truncated": found.next.is_some() }))
}
