//! `entity_type`: what entities there are, and what their data has to be.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tools::serve::call::Problem;

use super::cursor::QueryMark;
use super::{limit, stamp, writable};
use crate::model::entity::{compile, type_name, wrong};
use crate::model::{
    EntityType, ObjectKind, Project, bounds, cost, evolve, problem, problem_with, shipped,
};
use crate::store::{Page, Tx};

/// Rows that break, of which one answer tells at most so many.
const BREAKS_MAX: usize = 20;
/// Types of one project, at most.
const TYPES_MAX: i64 = 1000;

/// What is done to a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TypeAction {
    Register,
    Get,
    List,
    Evolve,
}

/// Arguments of `entity_type`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TypeCall {
    /// register makes a type; get shows one; list all; evolve gives one a wider schema.
    pub action: TypeAction,
    /// The id or name of the project; the session's where none is named.
    pub project: Option<String>,
    /// The name of the type: letters, digits, _ and - (register, get, evolve).
    pub name: Option<String>,
    /// What it is for (register, evolve).
    pub description: Option<String>,
    /// JSON Schema 2020-12 of its data (register, evolve); $ref stays inside it.
    pub schema: Option<Map<String, Value>>,
    /// Whether no two of its entities have one name (register).
    pub unique_names: Option<bool>,
    /// Whether to say only what would be (evolve).
    pub dry_run: Option<bool>,
    /// The version that is changed (evolve), where that matters.
    pub version: Option<i64>,
    /// Most types of a list, 1 to 100.
    pub limit: Option<u32>,
    /// Where a list goes on.
    pub cursor: Option<String>,
    /// A text of yours: the same call with the same key is done once.
    pub idempotency_key: Option<String>,
}
impl super::Scoped for TypeCall {
    fn project(&self) -> Option<&str> {
        self.project.as_deref()
    }

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn schema(&self) -> Option<&Map<String, Value>> {
        self.schema.as_ref()
    }
}

/// An entity that a schema would not take.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BrokenEntity {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub problem: String,
}

/// The answer of `entity_type`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct TypeAnswer {
    /// The type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity_type: Option<EntityType>,
    /// The types of a list, with those that weir ships.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entity_types: Option<Vec<EntityType>>,
    /// Whether the new schema takes all that the old one took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub additive: Option<bool>,
    /// In what it is narrower.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub narrower: Vec<String>,
    /// Entities that it would not take, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breaks: Vec<BrokenEntity>,
    /// How many entities were looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked: Option<u64>,
    /// Where the list goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Whether the call writes.
pub fn writes(call: &TypeCall) -> bool {
    match call.action {
        TypeAction::Register => true,
        TypeAction::Evolve => call.dry_run != Some(true),
        TypeAction::Get | TypeAction::List => false,
    }
}

/// Answers the call.
pub fn run(tx: &Tx<'_>, project: &Project, call: &TypeCall) -> Result<TypeAnswer, Problem> {
    let name = || {
        call.name
            .as_deref()
            .ok_or_else(|| Problem::argument("`name`: is missing: which type?"))
    };
    match call.action {
        TypeAction::List => list(tx, project, call),
        TypeAction::Get => Ok(TypeAnswer {
            entity_type: Some(find(tx, project, name()?)?),
            ..TypeAnswer::default()
        }),
        TypeAction::Register => register(tx, project, name()?, call),
        TypeAction::Evolve => evolve(tx, project, name()?, call),
    }
}

/// A type by its name: the project's own, or one that weir ships.
pub fn find(tx: &Tx<'_>, project: &Project, name: &str) -> Result<EntityType, Problem> {
    if let Some(id) = tx.id_of_name(Some(&project.stamp.id), ObjectKind::EntityType, None, name)?
        && let Some(found) = tx.find::<EntityType>(&id)?
    {
        return Ok(found);
    }
    let ship = shipped::types(&project.stamp.id);
    let own = ship
        .into_iter()
        .find(|of| of.name.eq_ignore_ascii_case(name));
    if let Some(own) = own {
        return Ok(own);
    }
    let page = Page {
        before: None,
        limit: super::NAMES_MAX,
    };
    let known = tx
        .objects::<EntityType>(&project.stamp.id, None, page)?
        .rows;
    let mut names: Vec<String> = known.into_iter().map(|(_, of)| of.name).collect();
    names.extend(shipped::types("").into_iter().map(|of| of.name));
    Err(problem(
        "not_found",
        format!(
            "`type`: there is no type {name:?}; there are: {}. entity_type register makes one",
            names.join(", ")
        ),
    ))
}

fn list(tx: &Tx<'_>, project: &Project, call: &TypeCall) -> Result<TypeAnswer, Problem> {
    let mark = QueryMark::of("entity_type", &project.stamp.id, call);
    let page = Page {
        before: mark.place(call.cursor.as_deref())?,
        limit: limit(call.limit)?,
    };
    let is_first = page.before.is_none();
    let found = tx.objects::<EntityType>(&project.stamp.id, None, page)?;
    let mut all: Vec<EntityType> = found.rows.into_iter().map(|(_, of)| of).collect();
    if is_first {
        let own: Vec<String> = all.iter().map(|of| of.name.clone()).collect();
        all.extend(
            shipped::types(&project.stamp.id)
                .into_iter()
                .filter(|of| !own.contains(&of.name)),
        );
    }
    Ok(TypeAnswer {
        entity_types: Some(all),
        cursor: found.next.map(|place| mark.cursor(place)),
        ..TypeAnswer::default()
    })
}

fn register(
    tx: &Tx<'_>,
    project: &Project,
    name: &str,
    call: &TypeCall,
) -> Result<TypeAnswer, Problem> {
    writable(project)?;
    let schema = call
        .schema
        .clone()
        .ok_or_else(|| Problem::argument("`schema`: is missing"))?;
    compile(&schema)?;
    let taken = tx
        .id_of_name(Some(&project.stamp.id), ObjectKind::EntityType, None, name)?
        .is_some()
        || shipped::types("")
            .iter()
            .any(|of| of.name.eq_ignore_ascii_case(name));
    if taken {
        return Err(problem(
            "exists",
            format!("`name`: there is a type {name:?} already; evolve it, or choose another name"),
        ));
    }
    if tx.count(Some(&project.stamp.id), ObjectKind::EntityType)? >= TYPES_MAX {
        return Err(Problem::argument(format!(
            "a project has at most {TYPES_MAX} types"
        )));
    }
    let mut new = EntityType {
        stamp: stamp(project),
        name: type_name(name)?,
        description: bounds::within(
            "description",
            call.description.as_deref().unwrap_or_default(),
            bounds::DESCRIPTION_CHARS_MAX,
        )?,
        schema,
        unique_names: call.unique_names == Some(true),
    };
    tx.put(&mut new)?;
    Ok(TypeAnswer {
        entity_type: Some(new),
        ..TypeAnswer::default()
    })
}

fn evolve(
    tx: &Tx<'_>,
    project: &Project,
    name: &str,
    call: &TypeCall,
) -> Result<TypeAnswer, Problem> {
    let mut of = find(tx, project, name)?;
    if call.version.is_some() {
        super::same_version(tx, &of, call.version)?;
    }
    let schema = call
        .schema
        .clone()
        .ok_or_else(|| Problem::argument("`schema`: is missing"))?;
    let narrower = evolve::narrowing(&of.schema, &schema);
    let (breaks, checked) = broken(tx, &of, project, &schema)?;
    let additive = narrower.is_empty() && breaks.is_empty();
    if call.dry_run != Some(true) {
        writable(project)?;
        if !additive {
            return Err(narrowing(&narrower, &breaks));
        }
        if of.stamp.version == 0 {
            // One that weir ships becomes the project's own.
            of.stamp = stamp(project);
        }
        of.schema = schema;
        if let Some(text) = &call.description {
            of.description = bounds::within("description", text, bounds::DESCRIPTION_CHARS_MAX)?;
        }
        tx.put(&mut of)?;
    }
    Ok(TypeAnswer {
        entity_type: Some(of),
        additive: Some(additive),
        narrower,
        breaks,
        checked: Some(checked),
        ..TypeAnswer::default()
    })
}

/// The entities of a type that a schema would not take, and how many were looked at.
fn broken(
    tx: &Tx<'_>,
    of: &EntityType,
    project: &Project,
    schema: &Map<String, Value>,
) -> Result<(Vec<BrokenEntity>, u64), Problem> {
    let validator = compile(schema)?;
    let (mut breaks, mut checked) = (Vec::new(), 0);
    let mut page = Page::first(500);
    loop {
        let found = tx.entities(&project.stamp.id, Some(&of.name), None, &[], false, page)?;
        for (_, entity) in found.rows {
            checked += 1;
            cost::check(schema, &Value::Object(entity.data.clone()))?;
            let what = wrong(&validator, &entity.data);
            if let Some(what) = what.filter(|_| breaks.len() < BREAKS_MAX) {
                breaks.push(BrokenEntity {
                    id: entity.stamp.id,
                    name: entity.name,
                    problem: what,
                });
            }
        }
        page.before = found.next;
        if page.before.is_none() {
            return Ok((breaks, checked));
        }
    }
}

fn narrowing(narrower: &[String], breaks: &[BrokenEntity]) -> Problem {
    let rows: Vec<String> = breaks
        .iter()
        .map(|row| format!("{:?} ({})", row.name, row.problem))
        .collect();
    let rows = match rows.is_empty() {
        true => "no entity there is would break".to_owned(),
        false => format!("these would break: {}", rows.join("; ")),
    };
    problem_with(
        "narrowing",
        format!(
            "`schema`: may only take more than before: {}; {rows}. Add what is new as optional, or register another type",
            if narrower.is_empty() {
                "its tests are wider, but entities do not fit".to_owned()
            } else {
                narrower.join("; ")
            }
        ),
        json!({ "narrower": narrower, "breaks": breaks }),
    )
}
