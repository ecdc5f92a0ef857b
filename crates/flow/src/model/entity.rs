//! Entities: JSON of a type that a project registered, checked against the type's JSON Schema.

use std::sync::{Arc, Mutex, PoisonError};

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
/// Patterns in one schema: values of `pattern` and names in `patternProperties`.
pub const PATTERNS_MAX: usize = 64;
/// Memory of one compiled pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 128 << 10;
/// Memory of all compiled patterns of one schema, in bytes: they share it evenly.
const PATTERNS_BYTES_MAX: usize = 1 << 20;
/// Compiled schemas that are kept; the one that was used longest ago is forgotten.
const COMPILED_MAX: usize = 16;

/// Schemas as text with what was compiled of them, the one that was used last at the end: a schema is compiled once, and
/// not for each entity that it checks.
static COMPILED: Mutex<Vec<(String, Arc<Validator>)>> = Mutex::new(Vec::new());

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

/// Compiles a schema, or finds it compiled. Fails at what is no schema, at references that leave it, and at patterns that are
/// too many or need too much memory.
pub fn compile(schema: &Map<String, Value>) -> Result<Arc<Validator>, Problem> {
    let value = Value::Object(schema.clone());
    bounds::json("schema", &value)?;
    let text = value.to_string();
    if text.len() > SCHEMA_BYTES_MAX {
        return Err(Problem::argument(format!(
            "`schema`: has {} bytes; at most {SCHEMA_BYTES_MAX} are taken",
            text.len()
        )));
    }
    if let Some(found) = compiled(&text) {
        return Ok(found);
    }
    refuse_outside(&value)?;
    // What has no end at an empty document has none at all.
    cost::check(schema, &Value::Object(Map::new()))?;
    let count = patterns(&value);
    if count > PATTERNS_MAX {
        return Err(Problem::argument(format!(
            "`schema`: has {count} patterns; at most {PATTERNS_MAX} are taken"
        )));
    }
    let each = PATTERN_BYTES_MAX.min(PATTERNS_BYTES_MAX / count.max(1));
    let options = PatternOptions::regex()
        .size_limit(each)
        .dfa_size_limit(each);
    let new = jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(options)
        .should_validate_formats(true)
        .build(&value)
        .map_err(|error| {
            Problem::argument(format!("`schema`: {}", shortened(&error.to_string())))
        })?;
    let new = Arc::new(new);
    keep(text, &new);
    Ok(new)
}

/// What was compiled of a schema before.
fn compiled(text: &str) -> Option<Arc<Validator>> {
    let mut all = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let at = all.iter().position(|(own, _)| own == text)?;
    let found = all.remove(at);
    let validator = Arc::clone(&found.1);
    all.push(found);
    Some(validator)
}

fn keep(text: String, new: &Arc<Validator>) {
    let mut all = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|(own, _)| *own != text);
    if all.len() >= COMPILED_MAX {
        all.remove(0);
    }
    all.push((text, Arc::clone(new)));
}

/// How many patterns a schema has, wherever they stand.
fn patterns(value: &Value) -> usize {
    match value {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| {
                let own = match (key.as_str(), value) {
                    ("pattern", Value::String(_)) => 1,
                    ("patternProperties", Value::Object(parts)) => parts.len(),
                    _ => 0,
                };
                own + patterns(value)
            })
            .sum(),
        Value::Array(values) => values.iter().map(patterns).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
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
    match wrong(compile(&of.schema)?.as_ref(), data) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(schema: Value) -> String {
        compile(schema.as_object().unwrap()).unwrap_err().message
    }

    #[test]
    fn patterns_are_bounded_in_number_and_in_memory() {
        let many = |count: usize, pattern: &str| {
            let names = (0..count).map(|n| (format!("{pattern}{n}"), json!(true)));
            json!({"patternProperties": Map::from_iter(names)})
        };
        assert!(compile(many(64, "^[a-f0-9]{2}").as_object().unwrap()).is_ok());
        assert!(refusal(many(65, "^a")).contains("65 patterns"));
        // Names and values count together, below other keywords too.
        let mut both = many(64, "^a");
        both["properties"] = json!({"x": {"anyOf": [{"pattern": "^b"}]}});
        assert!(refusal(both).contains("65 patterns"));
        // One of these has room alone, and many of them have not.
        let large = "^[a-z]{400}";
        assert!(compile(many(1, large).as_object().unwrap()).is_ok());
        let message = refusal(many(64, large));
        assert!(message.len() < 400, "{message}");
        // A property that is called pattern is none.
        let named = json!({"properties": {"pattern": {"type": "string"}}});
        assert_eq!(patterns(&named), 0);
    }

    #[test]
    fn a_schema_is_compiled_once() {
        let schema = json!({"title": "a_schema_is_compiled_once", "type": "object"});
        let schema = schema.as_object().unwrap();
        let (first, second) = (compile(schema).unwrap(), compile(schema).unwrap());
        assert!(Arc::ptr_eq(&first, &second));
        for n in 0..3 * COMPILED_MAX {
            let other = json!({"title": format!("other {n}")});
            compile(other.as_object().unwrap()).unwrap();
        }
        let kept = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(kept.len() <= COMPILED_MAX);
    }
}
