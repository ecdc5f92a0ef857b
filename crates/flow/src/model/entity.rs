//! Entities: JSON of a type that a project registered, checked against the type's JSON Schema.

use jsonschema::{Draft, PatternOptions, Validator};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tools::serve::call::Problem;

use super::item::texts;
use super::{Columns, Document, ObjectKind, Stamp, bounds, cost, problem};

/// Largest schema, in bytes.
pub const SCHEMA_BYTES_MAX: usize = 64 << 10;
/// Most problems that are told of one document.
const PROBLEMS_MAX: usize = 8;
/// Memory of one compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// A type of entities.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EntityType {
    #[serde(flatten)]
    pub stamp: Stamp,
    /// Its name: letters, digits, `_`, `-`.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What its data has to be: JSON Schema 2020-12.
    pub schema: Map<String, Value>,
    /// Whether no two entities of it have one name, in any case of letters.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unique_names: bool,
}

impl Document for EntityType {
    const KIND: ObjectKind = ObjectKind::EntityType;

    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn stamp_mut(&mut self) -> &mut Stamp {
        &mut self.stamp
    }

    fn columns(&self) -> Columns {
        Columns {
            name: Some(self.name.to_lowercase()),
            ..Columns::default()
        }
    }
}

/// An entity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Entity {
    #[serde(flatten)]
    pub stamp: Stamp,
    /// The name of its type.
    #[serde(rename = "type")]
    pub entity_type: String,
    /// What it is called.
    pub name: String,
    /// What is known of it, as the schema of its type asks.
    pub data: Map<String, Value>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

impl Document for Entity {
    const KIND: ObjectKind = ObjectKind::Entity;

    fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    fn stamp_mut(&mut self) -> &mut Stamp {
        &mut self.stamp
    }

    fn columns(&self) -> Columns {
        let data = Value::Object(self.data.clone());
        let mut body = self.tags.join("\n");
        texts(&data, &mut body);
        Columns {
            type_name: Some(self.entity_type.clone()),
            name: Some(self.name.to_lowercase()),
            text: Some((self.name.clone(), body)),
            edges: self.tags.iter().map(|tag| ("tag", tag.clone())).collect(),
            facts: Some((self.entity_type.clone(), data)),
            ..Columns::default()
        }
    }
}

/// The name of a type.
pub fn type_name(text: &str) -> Result<String, Problem> {
    let fits = (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    match fits {
        true => Ok(text.to_owned()),
        false => Err(Problem::argument(
            "`name`: a type is called by 1 to 64 letters, digits, `_` and `-`",
        )),
    }
}

/// Compiles a schema. Fails at what is no schema, at references that leave it, and at patterns that need too much.
pub fn compile(schema: &Map<String, Value>) -> Result<Validator, Problem> {
    let value = Value::Object(schema.clone());
    bounds::json("schema", &value)?;
    let bytes = value.to_string().len();
    if bytes > SCHEMA_BYTES_MAX {
        return Err(Problem::argument(format!(
            "`schema`: has {bytes} bytes; at most {SCHEMA_BYTES_MAX} are taken"
        )));
    }
    refuse_outside(&value)?;
    // What has no end at an empty document has none at all.
    cost::check(schema, &Value::Object(Map::new()))?;
    let patterns = PatternOptions::regex()
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX);
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(patterns)
        .should_validate_formats(true)
        .build(&value)
        .map_err(|error| Problem::argument(format!("`schema`: {error}")))
}

/// Refuses references to anything but the schema itself: nothing is fetched.
fn refuse_outside(value: &Value) -> Result<(), Problem> {
    match value {
        Value::Object(map) => map.iter().try_for_each(|(key, value)| {
            let refers = matches!(key.as_str(), "$ref" | "$dynamicRef");
            if let (true, Some(to)) = (refers, value.as_str())
                && !to.starts_with('#')
            {
                return Err(Problem::argument(format!(
                    "`schema`: $ref {to:?} leaves the schema; nothing is fetched, so put it under $defs and write #/$defs/…"
                )));
            }
            refuse_outside(value)
        }),
        Value::Array(values) => values.iter().try_for_each(refuse_outside),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// What is wrong with some data, in a few lines; nothing where it is right.
pub fn wrong(validator: &Validator, data: &Map<String, Value>) -> Option<String> {
    let value = Value::Object(data.clone());
    if validator.is_valid(&value) {
        return None;
    }
    let errors = validator.iter_errors(&value).take(PROBLEMS_MAX);
    let lines: Vec<String> = errors
        .map(|error| {
            let at = error.instance_path().to_string();
            let at = if at.is_empty() { "/".to_owned() } else { at };
            format!("{at}: {}", shortened(&error.to_string()))
        })
        .collect();
    Some(lines.join("; "))
}

/// Refuses data that is not as its type asks.
pub fn check(of: &EntityType, data: &Map<String, Value>) -> Result<(), Problem> {
    cost::check(&of.schema, &Value::Object(data.clone()))?;
    match wrong(&compile(&of.schema)?, data) {
        None => Ok(()),
        Some(what) => Err(problem(
            "invalid_data",
            format!(
                "`data`: is not what type {} asks for: {what}; entity_type get shows the schema",
                of.name
            ),
        )),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(300) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
