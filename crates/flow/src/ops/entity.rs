//! `entity_write` and `entity_query`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tools::serve::call::Problem;

use super::cursor::QueryMark;
use super::{
    any_object, bytes, confirmed, fitting, limit, object, same_version, stamp, types, writable,
};
use crate::model::entity::check;
use crate::model::filter::Filter;
use crate::model::{Entity, ObjectKind, Project, bounds, patch, problem};
use crate::store::{Page, Tx};

/// What is done to an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntityAction {
    Create,
    Update,
    Delete,
    Restore,
}

/// Arguments of `entity_write`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EntityCall {
    /// create, update, delete (with confirmed: true) or restore.
    pub action: EntityAction,
    /// The id or name of the project; the session's where none is named.
    pub project: Option<String>,
    /// The id of the entity (update, delete, restore).
    pub id: Option<String>,
    /// The name of its type (create).
    #[serde(rename = "type")]
    pub entity_type: Option<String>,
    /// What it is called (create, update).
    pub name: Option<String>,
    /// Its data (create), or a merge patch for it (update; RFC 7396): null takes a key away.
    pub data: Option<Map<String, Value>>,
    /// Whether `data` replaces all there is (update).
    pub replace: Option<bool>,
    /// Words to find it by, in place of those it has.
    pub tags: Option<Vec<String>>,
    /// The version that is changed, as it was read (update); where that matters for delete.
    pub version: Option<i64>,
    /// Has to be true to delete.
    pub confirmed: Option<bool>,
    /// A text of yours: the same call with the same key is done once.
    pub idempotency_key: Option<String>,
}
super::scoped!(EntityCall, keyed);

/// The answer of `entity_write`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct EntityAnswer {
    /// The entity as it is now.
    pub entity: Entity,
}

/// Writes an entity.
pub fn write(tx: &Tx<'_>, project: &Project, call: &EntityCall) -> Result<EntityAnswer, Problem> {
    writable(project)?;
    if call.action == EntityAction::Create {
        return create(tx, project, call);
    }
    let id = call
        .id
        .as_deref()
        .ok_or_else(|| Problem::argument("`id`: is missing: which entity?"))?;
    let mut entity: Entity = match call.action {
        EntityAction::Restore => any_object(tx, project, "id", id)?,
        _ => object(tx, project, "id", id)?,
    };
    match call.action {
        EntityAction::Delete => {
            if call.version.is_some() {
                same_version(tx, &entity, call.version)?;
            }
            confirmed(call.confirmed == Some(true), "an entity")?;
            entity.stamp.deleted_at = Some(tx.now().to_owned());
        }
        EntityAction::Restore => {
            entity.stamp.deleted_at = None;
            free_name(tx, project, &entity)?;
        }
        _ => {
            same_version(tx, &entity, call.version)?;
            apply(&mut entity, call)?;
            let of = types::find(tx, project, &entity.entity_type)?;
            check(&of, &entity.data)?;
            free_name(tx, project, &entity)?;
        }
    }
    tx.put(&mut entity)?;
    Ok(EntityAnswer { entity })
}

fn create(tx: &Tx<'_>, project: &Project, call: &EntityCall) -> Result<EntityAnswer, Problem> {
    let of = call
        .entity_type
        .as_deref()
        .ok_or_else(|| Problem::argument("`type`: is missing: of which type?"))?;
    let of = types::find(tx, project, of)?;
    let mut entity = Entity {
        stamp: stamp(project),
        entity_type: of.name.clone(),
        ..Entity::default()
    };
    apply(&mut entity, call)?;
    bounds::title("name", &entity.name)?;
    check(&of, &entity.data)?;
    free_name(tx, project, &entity)?;
    tx.put(&mut entity)?;
    Ok(EntityAnswer { entity })
}

fn apply(entity: &mut Entity, call: &EntityCall) -> Result<(), Problem> {
    if let Some(name) = &call.name {
        entity.name = bounds::title("name", name)?;
    }
    if let Some(tags) = &call.tags {
        entity.tags = bounds::words("tags", tags)?;
    }
    if let Some(data) = &call.data {
        bounds::json("data", &Value::Object(data.clone()))?;
        match call.action == EntityAction::Create || call.replace == Some(true) {
            true => entity.data = data.clone(),
            false => patch::merge(&mut entity.data, data),
        }
        bounds::json("data", &Value::Object(entity.data.clone()))?;
    }
    Ok(())
}

/// Refuses a name that another entity has, where the type wants names to be of one.
fn free_name(tx: &Tx<'_>, project: &Project, entity: &Entity) -> Result<(), Problem> {
    if !types::find(tx, project, &entity.entity_type)?.unique_names {
        return Ok(());
    }
    let taken = tx.id_of_name(
        Some(&project.stamp.id),
        ObjectKind::Entity,
        Some(&entity.entity_type),
        &entity.name,
    )?;
    match taken {
        Some(id) if id != entity.stamp.id => Err(problem(
            "exists",
            format!(
                "`name`: there is a {} {:?} already, with id {id}",
                entity.entity_type, entity.name
            ),
        )),
        _ => Ok(()),
    }
}

/// Arguments of `entity_query`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QueryEntities {
    /// The id or name of the project; the session's where none is named.
    pub project: Option<String>,
    /// Only entities of this type.
    #[serde(rename = "type")]
    pub entity_type: Option<String>,
    /// Only the entity of this id.
    pub id: Option<String>,
    /// Only the entity of this name, with `type`.
    pub name: Option<String>,
    /// A test of the data: {"eq": {"a.b": 1}}, in, gt, exists, contains, not, and, or.
    pub filter: Option<Value>,
    /// Only what has all of these tags.
    pub tags: Option<Vec<String>>,
    /// Deleted entities too.
    pub include_deleted: bool,
    /// Most entities, 1 to 100; 20 where none is given.
    pub limit: Option<u32>,
    /// Most tokens of the answer, 200 to 15,000.
    pub max_tokens: Option<u32>,
    /// Where the list goes on.
    pub cursor: Option<String>,
}
super::scoped!(QueryEntities);

/// A list of entities.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct EntitiesAnswer {
    /// The entities, the one that was changed last first.
    pub entities: Vec<Map<String, Value>>,
    /// Where the list goes on; none at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Finds entities.
pub fn query(
    tx: &Tx<'_>,
    project: &Project,
    call: &QueryEntities,
) -> Result<EntitiesAnswer, Problem> {
    let one = one(tx, project, call)?;
    if let Some(one) = one {
        let (entities, _) = fitting(vec![(0, json!(one))], usize::MAX);
        return Ok(EntitiesAnswer {
            entities,
            cursor: None,
        });
    }
    let mark = QueryMark::of("entity_query", &project.stamp.id, call);
    let page = Page {
        before: mark.place(call.cursor.as_deref())?,
        limit: limit(call.limit)?,
    };
    let of = call
        .entity_type
        .as_deref()
        .map(|of| types::find(tx, project, of))
        .transpose()?;
    let filter = call.filter.as_ref().map(Filter::read).transpose()?;
    let tags = call.tags.clone().unwrap_or_default();
    let of = of.as_ref().map(|of| of.name.as_str());
    let found = tx.entities(
        &project.stamp.id,
        of,
        filter.as_ref(),
        &tags,
        call.include_deleted,
        page,
    )?;
    let rows = found
        .rows
        .iter()
        .map(|(place, entity)| (*place, json!(entity)))
        .collect();
    let (entities, cut) = fitting(rows, bytes(call.max_tokens)?);
    Ok(EntitiesAnswer {
        entities,
        cursor: cut.or(found.next).map(|place| mark.cursor(place)),
    })
}

/// The one entity that is asked for, if it is one.
fn one(tx: &Tx<'_>, project: &Project, call: &QueryEntities) -> Result<Option<Entity>, Problem> {
    Ok(match (&call.id, &call.name, &call.entity_type) {
        (Some(id), _, _) => Some(any_object::<Entity>(tx, project, "id", id)?),
        (None, Some(name), Some(of)) => {
            let id = tx.id_of_name(
                Some(&project.stamp.id),
                ObjectKind::Entity,
                Some(&types::find(tx, project, of)?.name),
                name,
            )?;
            let id = id.ok_or_else(|| {
                problem("not_found", format!("`name`: there is no {of} {name:?}"))
            })?;
            Some(object::<Entity>(tx, project, "name", &id)?)
        }
        (None, Some(_), None) => {
            return Err(Problem::argument(
                "`name`: goes with `type`; search finds entities by words",
            ));
        }
        (None, None, _) => None,
    })
}
