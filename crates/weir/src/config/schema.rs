//! The JSON Schema (2020-12) of the configuration file, for editors.
//!
//! Made from the table of keys. It helps while writing; what counts is `weir config check`.

use serde_json::{Map, Value, json};

use super::keys::{self, Key, Kind};

/// The schema of the whole file.
pub(crate) fn schema() -> Value {
    let mut root = group("");
    let object = root.as_object_mut().expect("a group is an object");
    object.insert(
        "$schema".into(),
        json!("https://json-schema.org/draft/2020-12/schema"),
    );
    object.insert("title".into(), json!("weir configuration"));
    root
}

fn group(pattern: &str) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, key) in keys::children(pattern) {
        properties.insert(name.to_owned(), described(key));
        if key.default == keys::Unset::Required {
            required.push(name);
        }
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn described(key: &Key) -> Value {
    let mut value = kind(key.kind, key.path);
    let object = value.as_object_mut().expect("each kind is an object");
    object.insert("description".into(), json!(key.doc));
    match key.default {
        keys::Unset::Number(number) => object.insert("default".into(), json!(number)),
        keys::Unset::Text("[]") => object.insert("default".into(), json!([])),
        keys::Unset::Text("false") => object.insert("default".into(), json!(false)),
        keys::Unset::Text(text) => object.insert("default".into(), json!(text)),
        keys::Unset::Required | keys::Unset::Nothing => None,
    };
    value
}

fn kind(kind: Kind, path: &str) -> Value {
    match kind {
        Kind::Group | Kind::Feature => group(path),
        Kind::Names => named(path, "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"),
        Kind::Variables => named(path, "^[A-Za-z_][A-Za-z0-9_]{0,127}$"),
        Kind::Arguments | Kind::Rules => named(path, "^.{1,256}$"),
        Kind::List(of) => json!({ "type": "array", "items": self::kind(*of, path) }),
        Kind::OneOrMore(of) => {
            let one = self::kind(*of, path);
            json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
        }
        Kind::GroupOr(of) => json!({ "anyOf": [self::kind(*of, path), group(path)] }),
        Kind::Count { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        // YAML 1.1 editors read `off` as false, so both are allowed where the word is.
        Kind::Choice(words) if words.contains(&"off") => {
            let words: Vec<Value> = words
                .iter()
                .map(|w| json!(w))
                .chain([json!(false)])
                .collect();
            json!({ "enum": words })
        }
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::Switch => json!({ "type": "boolean" }),
        Kind::Digest => json!({ "type": "string", "pattern": "^sha256:[0-9A-Fa-f]{64}$" }),
        Kind::Time => json!({ "type": "string", "format": "date-time" }),
        Kind::Url => json!({ "type": "string", "pattern": "^https?://" }),
        Kind::LogOrigin => json!({ "type": "string", "pattern": r"^[^\s+]{1,255}$" }),
        Kind::Origin => json!({ "type": "string", "pattern": "^https?://[^/]+$" }),
        Kind::Secret => json!({ "type": "string", "pattern": "^(env|file):." }),
        Kind::File => json!({ "type": "string", "pattern": "^file:." }),
        Kind::EnvValue => json!({ "type": ["string", "number", "boolean"] }),
        Kind::Text
        | Kind::Path
        | Kind::Name
        | Kind::Socket
        | Kind::Listen
        | Kind::RelayKey
        | Kind::Range
        | Kind::Rule
        | Kind::Host => {
            json!({ "type": "string", "minLength": 1 })
        }
    }
}

fn named(path: &str, names: &str) -> Value {
    let below = format!("{path}.*");
    let row = keys::find(&below).expect("a map by name has a row for its values");
    json!({
        "type": "object",
        "propertyNames": { "pattern": names },
        "additionalProperties": described(row),
    })
}
