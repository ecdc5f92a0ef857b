//! What a struct says of its keys, by its JSON Schema: the one source of the help in messages, the reference page,
//! what an editor is given, and what `show` fills in.
//!
//! An example is YAML in one line (`#[schemars(example = &"…")]`). `x-kind` is a kind's name where the schema's own words do
//! not say it. A struct that is an `Option` is off where it is not written.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::problem::{Path, Step};
use crate::yaml::{self, Scalars};

/// The schema of a type, without references.
pub fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
    });
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    one_line(&mut schema);
    schema
}

/// Descriptions are wrapped in the source, and are one line everywhere else.
fn one_line(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            }
            map.values_mut().for_each(one_line);
        }
        Value::Array(list) => list.iter_mut().for_each(one_line),
        _ => {}
    }
}

/// A key, for the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Such as `agents.*.key`; `*` is a name that the operator chooses.
    pub path: String,
    /// What it may hold.
    pub kind: String,
    pub required: bool,
    /// As it would be written.
    pub default: Option<String>,
    /// One sentence.
    pub doc: String,
    /// A value, as YAML in one line.
    pub example: String,
}

/// Every key, parents before children, in the order of the structs.
pub fn rows(schema: &Value) -> Vec<Row> {
    let mut rows = Vec::new();
    below(schema, "", &mut rows);
    rows
}

fn below(schema: &Value, path: &str, rows: &mut Vec<Row>) {
    for (name, key) in children(schema) {
        let path = match path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        rows.push(Row {
            kind: describe(key),
            required: is_required(schema, name),
            default: default(key),
            doc: doc(key).to_owned(),
            example: example(key).to_owned(),
            path: path.clone(),
        });
        let of_list = parts(key).find_map(|part| part.get("items"));
        below(of_list.unwrap_or(key), &path, rows);
    }
}

/// The keys right below a schema with their names; `*` is any name.
pub fn children(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let map = parts(schema).find_map(|part| part.get("properties")?.as_object());
    let any = parts(schema).find_map(|part| part.get("additionalProperties"));
    let any = any.filter(|schema| schema.is_object()).map(|of| ("*", of));
    let keys = map.into_iter().flatten();
    keys.map(|(name, key)| (name.as_str(), key)).chain(any)
}

/// The schema itself, or its alternatives.
fn parts(schema: &Value) -> impl Iterator<Item = &Value> {
    let any = schema.get("anyOf").and_then(Value::as_array);
    let inner = any.into_iter().flatten().filter(|part| !is_null(part));
    std::iter::once(schema).chain(inner.flat_map(|part| {
        let any = part.get("anyOf").and_then(Value::as_array);
        std::iter::once(part).chain(any.into_iter().flatten())
    }))
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|name| name == "null")
}

/// Whether what is not written is off, rather than the defaults that are in it.
pub(crate) fn is_optional(schema: &Value) -> bool {
    let any = schema.get("anyOf").and_then(Value::as_array);
    let types = schema.get("type").and_then(Value::as_array);
    any.is_some_and(|any| any.iter().any(is_null))
        || types.is_some_and(|types| types.iter().any(|name| name == "null"))
}

/// What a key may hold, in words.
pub fn describe(schema: &Value) -> String {
    if let Some(kind) = schema.get("x-kind").and_then(Value::as_str) {
        return kind.to_owned();
    }
    if let Some(words) = words(schema) {
        return words.join(" or ");
    }
    if let Some(any) = schema.get("anyOf").and_then(Value::as_array) {
        let kinds = any.iter().filter(|part| !is_null(part)).map(describe);
        return kinds.collect::<Vec<_>>().join(", or ");
    }
    if let Some(items) = schema.get("items") {
        return format!("list of {}", describe(items));
    }
    match (schema.get("minimum"), schema.get("maximum")) {
        (Some(min), Some(max)) => format!("number, {min} to {max}"),
        _ => "map".to_owned(),
    }
}

/// The words that a key is one of.
fn words(schema: &Value) -> Option<Vec<&str>> {
    if let Some(word) = schema.get("const").and_then(Value::as_str) {
        return Some(vec![word]);
    }
    if let Some(all) = schema.get("enum").and_then(Value::as_array) {
        return Some(all.iter().filter_map(Value::as_str).collect());
    }
    let all = schema.get("oneOf").and_then(Value::as_array)?;
    all.iter().map(|one| one.get("const")?.as_str()).collect()
}

/// The default of a scalar or a list, as it would be written.
pub(crate) fn default(schema: &Value) -> Option<String> {
    match schema.get("default")? {
        Value::String(text) => Some(text.clone()),
        Value::Array(list) if list.is_empty() => Some("[]".to_owned()),
        value @ (Value::Number(_) | Value::Bool(_)) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn doc(schema: &Value) -> &str {
    let doc = schema.get("description").and_then(Value::as_str);
    doc.unwrap_or_default()
}

fn example(schema: &Value) -> &str {
    let examples = schema.get("examples").and_then(|all| all.get(0));
    examples.and_then(Value::as_str).unwrap_or_default()
}

fn is_required(schema: &Value, key: &str) -> bool {
    let listed = |part: &Value| {
        let all = part.get("required").and_then(Value::as_array)?;
        Some(all.iter().any(|name| name == key))
    };
    parts(schema).find_map(listed).unwrap_or(false)
}

/// The key at a path; of an element, that of its list. With its name, where the operator did not choose it.
fn find<'s>(schema: &'s Value, path: &'s Path) -> Option<(Option<&'s str>, &'s Value)> {
    let (mut here, mut found) = (schema, None);
    for step in &path.0 {
        match step {
            Step::Index(_) => here = parts(here).find_map(|part| part.get("items"))?,
            Step::Key(key) => {
                let mut all = children(here).filter(|(name, _)| name == key || *name == "*");
                let (name, below) = all.next()?;
                let known = (name != "*").then_some(name);
                (here, found) = (below, Some((known, below)));
            }
        }
    }
    found
}

/// What a key is, for the help of a problem.
pub fn help(schema: &Value, path: &Path) -> String {
    let Some((name, key)) = find(schema, path) else {
        return String::new();
    };
    let name = name.map(|name| format!("{name}: ")).unwrap_or_default();
    format!("{} Example: {name}{}", doc(key), example(key))
}

/// What a value at a path may be.
pub(crate) fn kind(schema: &Value, path: &Path) -> Option<String> {
    let (_, key) = find(schema, path)?;
    let of_list = || parts(key).find_map(|part| part.get("items"));
    Some(match path.0.last() {
        Some(Step::Index(_)) => describe(of_list().unwrap_or(key)),
        _ => describe(key),
    })
}

/// What serde does not see: keys without a value, which are taken out, keys that are missing, and names that are none.
/// The message is given the path that it is about and the one whose help mends it.
pub(crate) fn check(
    schema: &Value,
    tree: &mut Value,
    path: &Path,
    say: &mut dyn FnMut(&Path, Found, &Path),
) {
    match tree {
        Value::Object(map) => {
            let keys = children(schema).filter(|(name, _)| is_required(schema, name));
            for (name, _) in keys.filter(|(name, _)| !map.contains_key(*name)) {
                say(path, Found::Missing(name.to_owned()), &path.key(name));
            }
            let kind = parts(schema).find_map(|part| part.get("x-kind")?.as_str());
            for (name, value) in map.iter_mut() {
                let below = path.key(name);
                if let Err(message) = name_fits(kind, name) {
                    say(&below, Found::Name(message), path);
                }
                let mut all = children(schema).filter(|(key, _)| key == name || *key == "*");
                let Some((_, key)) = all.next() else { continue };
                match value.is_null() {
                    true => {
                        let is_required = is_required(schema, name);
                        say(&below, Found::Nothing { is_required }, &below);
                    }
                    false => check(key, value, &below, say),
                }
            }
            map.retain(|_, value| !value.is_null());
        }
        Value::Array(list) => {
            let items = parts(schema).find_map(|part| part.get("items"));
            for (i, value) in list.iter_mut().enumerate() {
                let below = path.index(i);
                match (value.is_null(), items) {
                    (true, _) => {
                        let is_required = false;
                        say(&below, Found::Nothing { is_required }, &below);
                    }
                    (false, Some(items)) => check(items, value, &below, say),
                    (false, None) => {}
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What [`check`] finds.
pub(crate) enum Found {
    Missing(String),
    /// A key without a value.
    Nothing {
        is_required: bool,
    },
    Name(String),
}

fn name_fits(kind: Option<&str>, name: &str) -> Result<(), String> {
    match kind {
        Some("map by name") => crate::kinds::name(name).map(drop),
        Some("map by variable") if !crate::kinds::is_variable(name) => {
            Err("must be a variable's name: letters, digits and _".to_owned())
        }
        Some("map by argument") if !(1..=256).contains(&name.len()) => {
            Err("must be an argument's name of 1 to 256 bytes".to_owned())
        }
        _ => Ok(()),
    }
}

/// The schema as an editor is given it.
pub fn publish(schema: &Value, title: &str) -> Value {
    let mut schema = schema.clone();
    strip(&mut schema);
    plain(&mut schema);
    if let Value::Object(root) = &mut schema {
        root.insert("title".to_owned(), json!(title));
        root.shift_remove("description");
    }
    schema
}

/// Takes out what only this crate reads.
pub fn strip(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.retain(|key, _| !key.starts_with("x-"));
            map.values_mut().for_each(strip);
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        _ => {}
    }
}

/// Without what is only for us: nothing may be null, and examples are values.
fn plain(schema: &mut Value) {
    if let Value::Object(map) = schema {
        map.shift_remove("title");
        if map
            .get("default")
            .is_some_and(|v| v.is_null() || v.is_object())
        {
            map.shift_remove("default");
        }
        if let Some(Value::Array(examples)) = map.get_mut("examples") {
            examples.iter_mut().for_each(value_of);
        }
        without_null(map);
    }
    match schema {
        Value::Object(map) => {
            let shown = map.iter_mut();
            let schemas = shown.filter(|(key, _)| !["examples", "default"].contains(&key.as_str()));
            schemas.for_each(|(_, value)| plain(value));
        }
        Value::Array(list) => list.iter_mut().for_each(plain),
        _ => {}
    }
}

fn without_null(map: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = map.get_mut("type") {
        types.retain(|name| name != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            map.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(words)) = map.get_mut("enum") {
        words.retain(|word| !word.is_null());
        // YAML 1.1 editors read `off` as false, so both are allowed where the word is.
        if words.iter().any(|word| word == "off") {
            words.push(Value::Bool(false));
            map.shift_remove("type");
        }
    }
    if let Some(Value::Array(any)) = map.get_mut("anyOf") {
        any.retain(|part| !is_null(part));
        if any.len() == 1
            && let Some(Value::Object(one)) = any.pop()
        {
            map.shift_remove("anyOf");
            for (key, value) in one {
                map.entry(key).or_insert(value);
            }
            without_null(map);
        }
    }
}

/// An example as a value, where it is one: `…` stands for what is left out.
fn value_of(example: &mut Value) {
    if let Value::String(text) = example
        && let Ok((value, _)) = yaml::parse(&format!("example: {text}"), Scalars::Json)
        && let Some(value) = value.get("example")
    {
        *example = value.clone();
    }
}
