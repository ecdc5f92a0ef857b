//! The index of a JSON text against serde_json, which we did not write.

use base::{Json, JsonError, JsonKind, JsonValue};
use serde_json::Value;

/// A JSON text: what is indexed is what serde_json reads.
pub fn json(data: &[u8]) {
    match (Json::read(data), serde_json::from_slice::<Value>(data)) {
        (Ok(json), Ok(value)) => {
            let root = json.root();
            same(root, &value);
            let quoted = |at: usize| root.bytes().get(at) == Some(&b'"');
            assert!(
                root.strings().all(|s| quoted(s.start - 1) && quoted(s.end)),
                "a string is not between quotes"
            );
        }
        // The two have bounds of their own.
        (Err(JsonError::Deep), _) | (Err(JsonError::Syntax), Err(_)) => {}
        (Ok(_), Err(error)) => panic!("the index takes what is not JSON: {error}"),
        (Err(JsonError::Syntax), Ok(_)) => panic!("the index refuses JSON"),
    }
}

fn same(indexed: JsonValue<'_>, value: &Value) {
    match value {
        Value::Null => assert_eq!(indexed.kind(), JsonKind::Null),
        Value::Bool(value) => assert_eq!(indexed.text(), value.to_string()),
        Value::Number(value) => {
            assert_eq!(indexed.kind(), JsonKind::Number);
            let read: serde_json::Number = serde_json::from_str(indexed.text()).expect("a number");
            assert_eq!(read, *value);
        }
        Value::String(text) => assert_eq!(indexed.as_str().as_deref(), Some(&**text)),
        Value::Array(items) => {
            assert_eq!(indexed.items().count(), items.len());
            indexed
                .items()
                .zip(items)
                .for_each(|(one, other)| same(one, other));
        }
        Value::Object(members) => {
            // Of two members with one name serde_json keeps the last.
            for (name, value) in members {
                let last = indexed
                    .members()
                    .filter(|(key, _)| key.name() == **name)
                    .last();
                same(last.expect("a member is not in the index").1, value);
            }
            assert!(
                indexed
                    .members()
                    .all(|(key, _)| members.contains_key(&*key.name()))
            );
        }
    }
}
