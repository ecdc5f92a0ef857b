//! What the schemas of tools say of the names of arguments, as the servers listed them last.
//!
//! A server that reads names without regard to case takes `Path` for its `path`, and of `path` and `Path`
//! the last. So a declared name in another spelling is refused, and so are two names of one object that are
//! equal when their case is folded, unless the schema describes that object and leaves its names free. Example:
//! with `{"properties":{"headers":{"type":"object"}}}` the object `headers` may hold `a` and `A`, and `Headers`
//! is refused. Of a tool that was not listed yet, and in what the schema does not describe, nothing is free.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use base::fold;
use base::limit::{JSON_DEPTH_MAX, SCHEMA_BYTES_MAX, TOOLS_MAX};
use base::{JsonValue, Name, Refusal, refusal};
use serde_json::{Map, Value};

use crate::envelope::names;
use crate::era::MessageEra;
use crate::era::params::{self, HeaderParam, MadeParams};
use crate::withheld::Withheld;

/// The schemas of one server's tools, by the tool's name.
type Tools = HashMap<String, Arc<Schema>>;

/// What servers were seen to list: the schemas of their tools, at most [`TOOLS_MAX`] of a server, and what of it was withheld.
#[derive(Default)]
pub(crate) struct Declared {
    schemas: RwLock<HashMap<Name, Tools>>,
    pub(crate) withheld: Withheld,
}

/// One tool's `inputSchema`.
struct Schema {
    /// The text that it was read from, to see quickly that it is the same.
    text: Box<str>,
    /// Nothing where it is no object, or over [`SCHEMA_BYTES_MAX`].
    root: Option<Value>,
    /// Every name that any part of it declares, and each of them with its case folded.
    names: HashSet<String>,
    folded: HashSet<String>,
    /// The arguments that are said again by a header field. None where one of them is declared as MCP does not have it:
    /// clients then leave the tool out.
    fields: Vec<HeaderParam>,
}

impl Schema {
    fn read(text: &str) -> Schema {
        let root: Option<Value> = serde_json::from_str(text).ok().filter(Value::is_object);
        let mut names = HashSet::new();
        if let Some(root) = &root {
            declared_names(root, &mut names);
        }
        Schema {
            text: text.into(),
            folded: names.iter().map(|name| fold::folded(name)).collect(),
            names,
            fields: root
                .as_ref()
                .and_then(|root| params::of_schema(root).ok())
                .unwrap_or_default(),
            root,
        }
    }
}

/// Collects the names below every `properties` of a schema.
fn declared_names(schema: &Value, names: &mut HashSet<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(properties)) = members.get("properties") {
                names.extend(properties.keys().cloned());
            }
            members
                .values()
                .for_each(|member| declared_names(member, names));
        }
        Value::Array(items) => items.iter().for_each(|item| declared_names(item, names)),
        _ => {}
    }
}

impl Declared {
    /// Takes notice of the `inputSchema` of a tool that a server listed.
    pub(crate) fn see(&self, server: &Name, tool: &str, schema: &str) {
        let text = if schema.len() > SCHEMA_BYTES_MAX {
            ""
        } else {
            schema
        };
        let is_same = |tools: &Tools| tools.get(tool).is_some_and(|known| *known.text == *text);
        let known = self.schemas.read().unwrap_or_else(PoisonError::into_inner);
        if known.get(server).is_some_and(is_same) {
            return;
        }
        drop(known);
        let schema = Arc::new(Schema::read(text));
        let mut known = self.schemas.write().unwrap_or_else(PoisonError::into_inner);
        let tools = known.entry(server.clone()).or_default();
        if tools.len() < TOOLS_MAX || tools.contains_key(tool) {
            tools.insert(tool.to_owned(), schema);
        }
    }

    fn find(&self, server: &Name, tool: &str) -> Option<Arc<Schema>> {
        let known = self.schemas.read().unwrap_or_else(PoisonError::into_inner);
        known.get(server)?.get(tool).cloned()
    }

    /// Judges the names in the arguments of a call. `folds` says that an object among them has two
    /// names that are equal when their case is folded.
    ///
    /// # Errors
    /// `mcp.name_spelling` and `mcp.json_duplicate`.
    pub(crate) fn check(
        &self,
        server: &Name,
        tool: &str,
        arguments: Option<JsonValue<'_>>,
        folds: bool,
    ) -> Result<(), Refusal> {
        let Some(arguments) = arguments else {
            return Ok(());
        };
        let schema = self.find(server, tool);
        let known = schema
            .as_deref()
            .and_then(|schema| Some((schema, schema.root.as_ref()?)));
        match known {
            None if folds => Err(folded()),
            None => Ok(()),
            // Most calls end here: no name is a declared one in another spelling, wherever it stands.
            Some((schema, _)) if !folds && is_spelled(arguments, schema) => Ok(()),
            Some((_, root)) => match serde_json::from_str(arguments.text()) {
                Ok(value) => walk(&value, &[root], root, 0),
                Err(_) => Err(folded()),
            },
        }
    }

    /// Holds the `Mcp-Param-*` fields of a request against the arguments that its tool declares to be said by them. Fields
    /// that the schema does not know are not judged.
    ///
    /// # Errors
    /// `mcp.header_mismatch`.
    pub(crate) fn check_fields(
        &self,
        server: &Name,
        tool: &str,
        arguments: Option<JsonValue<'_>>,
        era: &MessageEra,
    ) -> Result<(), Refusal> {
        let Some(given) = era.fields() else {
            return Ok(());
        };
        match self.find(server, tool) {
            Some(schema) => params::check(&schema.fields, given, arguments),
            None => Ok(()),
        }
    }

    /// The fields that a call of this tool with these arguments goes on with.
    pub(crate) fn fields(
        &self,
        server: &Name,
        tool: &str,
        arguments: Option<JsonValue<'_>>,
    ) -> MadeParams {
        match self.find(server, tool) {
            Some(schema) => params::make(&schema.fields, arguments),
            None => MadeParams::default(),
        }
    }
}

/// Whether no name in the arguments is one that the schema declares anywhere in another spelling.
fn is_spelled(arguments: JsonValue<'_>, schema: &Schema) -> bool {
    let is_good = |name: &str| {
        let is_folded = name
            .bytes()
            .all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
        let folded = match is_folded {
            true => Cow::Borrowed(name),
            false => Cow::Owned(fold::folded(name)),
        };
        !schema.folded.contains(&*folded) || schema.names.contains(name)
    };
    arguments.names().all(|name| is_good(&name))
}

/// Judges one value by the schemas that may describe it.
fn walk(value: &Value, schemas: &[&Value], root: &Value, depth: usize) -> Result<(), Refusal> {
    match value {
        Value::Object(object) => walk_object(object, schemas, root, depth),
        Value::Array(items) => {
            let below = below(schemas, root, |schema| {
                let listed = schema.get("prefixItems").and_then(Value::as_array);
                let items = listed.into_iter().flatten().chain(schema.get("items"));
                let items: Vec<&Value> = items.collect();
                if items.is_empty() {
                    vec![schema]
                } else {
                    items
                }
            });
            items
                .iter()
                .try_for_each(|item| walk(item, &below, root, depth + 1))
        }
        _ => Ok(()),
    }
}

fn walk_object(
    object: &Map<String, Value>,
    schemas: &[&Value],
    root: &Value,
    depth: usize,
) -> Result<(), Refusal> {
    let declared: Vec<&Map<String, Value>> = below(schemas, root, |schema| {
        schema.get("properties").into_iter().collect()
    })
    .into_iter()
    .filter_map(Value::as_object)
    .collect();
    let names: Vec<&str> = declared
        .iter()
        .flat_map(|names| names.keys())
        .map(String::as_str)
        .collect();
    // Names are free where a schema describes the object and declares none.
    let is_free = depth > 0 && names.is_empty() && !schemas.is_empty() && is_whole(schemas, root);
    if !is_free && has_folds(object, &names) {
        return Err(folded());
    }
    for (name, value) in object {
        if !names.contains(&name.as_str()) && names::misspells(name, &names) {
            let public = "an argument is not spelled as the tool's schema declares it";
            return Err(Refusal::new(refusal::NAME_SPELLING, public));
        }
        let below = below(schemas, root, |schema| {
            let Some(names) = schema.get("properties") else {
                // What a free object holds is free as well, unless the schema says more of it.
                return vec![schema.get("additionalProperties").unwrap_or(schema)];
            };
            let known = names
                .get(name)
                .or_else(|| schema.get("additionalProperties"));
            known.into_iter().collect()
        });
        if depth < JSON_DEPTH_MAX {
            walk(value, &below, root, depth + 1)?;
        }
    }
    Ok(())
}

/// Whether an object has two names that are equal when their case is folded, and not both are declared.
fn has_folds(object: &Map<String, Value>, declared: &[&str]) -> bool {
    let mut seen: HashMap<String, &str> = HashMap::with_capacity(object.len());
    object.keys().any(|name| {
        let before = seen.insert(fold::folded(name), name);
        let is_declared = |name: &str| declared.contains(&name);
        before.is_some_and(|before| !(is_declared(before) && is_declared(name)))
    })
}

/// What `pick` finds in the schemas, and in those that they refer to or are made of.
fn below<'s>(
    schemas: &[&'s Value],
    root: &'s Value,
    pick: impl Fn(&'s Value) -> Vec<&'s Value>,
) -> Vec<&'s Value> {
    let (all, _) = made_of(schemas, root);
    all.into_iter().flat_map(pick).collect()
}

/// Whether all that the schemas refer to is known.
fn is_whole(schemas: &[&Value], root: &Value) -> bool {
    made_of(schemas, root).1
}

/// The schemas, and those that they refer to or are made of; and whether all of these were found.
fn made_of<'s>(schemas: &[&'s Value], root: &'s Value) -> (Vec<&'s Value>, bool) {
    /// Schemas that one place may be described by; a schema that is made of more is not followed further.
    const SCHEMAS_MAX: usize = 64;
    let mut all: Vec<&Value> = schemas.to_vec();
    let (mut at, mut whole) = (0, true);
    while let Some(schema) = all.get(at).copied() {
        at += 1;
        let target = schema.get("$ref").map(|to| {
            let pointer = to.as_str().and_then(|to| to.strip_prefix('#'));
            pointer.and_then(|pointer| root.pointer(pointer))
        });
        whole &= target.is_none_or(|found| found.is_some());
        let parts = ["allOf", "anyOf", "oneOf"]
            .into_iter()
            .filter_map(|key| schema.get(key)?.as_array())
            .flatten();
        let branches = ["if", "then", "else"]
            .into_iter()
            .filter_map(|key| schema.get(key));
        for next in target.flatten().into_iter().chain(parts).chain(branches) {
            let is_new = !all.iter().any(|known| std::ptr::eq(*known, next));
            match is_new {
                true if all.len() < SCHEMAS_MAX => all.push(next),
                true => whole = false,
                false => {}
            }
        }
    }
    (all, whole)
}

fn folded() -> Refusal {
    let public = "an object has two members that are equal when their case is folded";
    Refusal::new(refusal::JSON_DUPLICATE, public)
}

#[cfg(test)]
mod tests {
    use base::Json;

    use super::*;

    const SCHEMA: &str = r##"{
        "type": "object",
        "properties": {
            "path": { "type": "string" },
            "x": { "type": "number" }, "X": { "type": "number" },
            "headers": { "type": "object", "additionalProperties": { "type": "string" } },
            "any": true, "gone": { "$ref": "#/none" },
            "options": { "$ref": "#/$defs/options" },
            "edits": { "type": "array", "items": { "properties": { "oldText": {} } } },
            "either": { "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/options" }] }
        },
        "$defs": { "options": { "properties": { "mode": {}, "more": { "$ref": "#/$defs/options" } } } }
    }"##;

    fn judged(arguments: &str, seen: bool) -> Result<(), &'static str> {
        let declared = Declared::default();
        let server = Name::new("files").unwrap();
        if seen {
            declared.see(&server, "read", SCHEMA);
        }
        let folds = arguments.contains("FOLDS");
        let arguments = Json::read(arguments.as_bytes()).unwrap();
        let judged = declared.check(&server, "read", Some(arguments.root()), folds);
        judged.map_err(|refusal| refusal.code.name)
    }

    #[test]
    fn names_are_as_the_schema_declares_them() {
        for good in [
            r#"{"path":"a","other":1}"#,
            r#"{"x":"FOLDS","X":2}"#,
            r#"{"headers":{"a":"FOLDS","A":"c"}}"#,
            r#"{"options":{"mode":1,"more":{"mode":2}},"edits":[{"oldText":"x"}]}"#,
            r#"{"headers":{"a":{"deep":{"a":"FOLDS","A":"c"}}}}"#,
            r#"{"any":[{"deep":{"a":"FOLDS","A":"c"}}]}"#,
        ] {
            assert_eq!(judged(good, true), Ok(()), "{good}");
        }
        for spelling in [
            r#"{"Path":"a"}"#,
            r#"{"path":"a","edits":[{"OldText":"x"}]}"#,
            r#"{"Headers":{}}"#,
            r#"{"options":{"more":{"Mode":2}}}"#,
            r#"{"either":{"MODE":2}}"#,
        ] {
            assert_eq!(
                judged(spelling, true),
                Err("mcp.name_spelling"),
                "{spelling}"
            );
        }
        for twice in [
            r#"{"other":"FOLDS","Other":2}"#,
            r#"{"options":{"mode":"FOLDS","Mode":2}}"#,
            r#"{"either":{"y":"FOLDS","Y":2}}"#,
            r#"{"unknown":{"y":"FOLDS","Y":2}}"#,
            r#"{"gone":{"y":"FOLDS","Y":2}}"#,
        ] {
            assert_eq!(judged(twice, true), Err("mcp.json_duplicate"), "{twice}");
        }
    }

    #[test]
    fn of_an_unknown_tool_no_object_is_free() {
        assert_eq!(
            judged(r#"{"a":{"b":"FOLDS","B":1}}"#, false),
            Err("mcp.json_duplicate")
        );
        assert_eq!(judged(r#"{"Path":"a"}"#, false), Ok(()));
    }

    #[test]
    fn the_last_schema_counts_and_one_that_refers_to_itself_ends() {
        let declared = Declared::default();
        let server = Name::new("files").unwrap();
        let check = |arguments: &str| {
            let arguments = Json::read(arguments.as_bytes()).unwrap();
            let arguments = Some(arguments.root());
            declared.check(&server, "read", arguments, false).is_ok()
        };
        declared.see(&server, "read", SCHEMA);
        assert!(!check(r#"{"Path":"a"}"#));
        declared.see(&server, "read", r##"{"$ref":"#","allOf":[{"$ref":"#"}]}"##);
        assert!(check(r#"{"Path":{"a":[{}]}}"#));
        declared.see(&server, "read", "[]");
        assert!(check(r#"{"Path":"a"}"#));
    }
}
