//! A call's arguments as policies read them: those that were asked for, with the declared type.
//!
//! It exists so that only what policies read is parsed. It refuses an argument of another type than the
//! declared one: taken as absent, it would slip past every policy that says `context.arguments has …`.

use base::fold::equal_folded;
use base::limit::{ARGUMENT_BYTES_MAX, ARGUMENT_ITEMS_MAX};
use base::refusal::{ARGUMENT_BOUND, ARGUMENT_TYPE, NAME_SPELLING};
use base::{JsonKind, JsonValue, Refusal};
use cedar_policy::RestrictedExpression;

use crate::ArgumentType;

/// One argument, of its declared type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    String(String),
    Long(i64),
    Bool(bool),
    SetOfString(Vec<String>),
    SetOfLong(Vec<i64>),
}

impl Argument {
    /// Reads a value, if it is of this type.
    fn read(kind: ArgumentType, value: JsonValue<'_>) -> Option<Argument> {
        let json = value.text();
        match kind {
            ArgumentType::String => value.as_str().map(|text| Argument::String(text.into())),
            ArgumentType::Long => serde_json::from_str(json).ok().map(Argument::Long),
            ArgumentType::Bool => serde_json::from_str(json).ok().map(Argument::Bool),
            ArgumentType::SetOfString => serde_json::from_str(json).ok().map(Argument::SetOfString),
            ArgumentType::SetOfLong => serde_json::from_str(json).ok().map(Argument::SetOfLong),
        }
    }

    fn items(&self) -> usize {
        match self {
            Argument::SetOfString(items) => items.len(),
            Argument::SetOfLong(items) => items.len(),
            Argument::String(_) | Argument::Long(_) | Argument::Bool(_) => 1,
        }
    }

    /// As Cedar takes it.
    pub(crate) fn cedar(&self) -> RestrictedExpression {
        let text = |text: &String| RestrictedExpression::new_string(text.clone());
        let long = |long: &i64| RestrictedExpression::new_long(*long);
        match self {
            Argument::String(value) => text(value),
            Argument::Long(value) => long(value),
            Argument::Bool(value) => RestrictedExpression::new_bool(*value),
            Argument::SetOfString(items) => RestrictedExpression::new_set(items.iter().map(text)),
            Argument::SetOfLong(items) => RestrictedExpression::new_set(items.iter().map(long)),
        }
    }

    /// As a record keeps it: JSON of one spelling.
    pub(crate) fn json(&self) -> String {
        let json = match self {
            Argument::String(value) => serde_json::to_string(value),
            Argument::Long(value) => serde_json::to_string(value),
            Argument::Bool(value) => serde_json::to_string(value),
            Argument::SetOfString(items) => serde_json::to_string(items),
            Argument::SetOfLong(items) => serde_json::to_string(items),
        };
        json.expect("strings, numbers and arrays of them always serialize")
    }
}

/// Names and declared types of the arguments that a slice reads, sorted by name.
pub(crate) type Wanted = [(String, ArgumentType)];

/// Takes the wanted arguments out of an object, in the order of `wanted`. What was not sent is left out.
///
/// # Errors
/// `mcp.name_spelling` where a declared one is spelled otherwise; `policy.argument_type` where the arguments
/// are no object, one is sent twice, or one is not of its type; `policy.argument_bound` where one is too large to be judged.
pub(crate) fn read(
    wanted: &Wanted,
    arguments: Option<JsonValue<'_>>,
) -> Result<Vec<(String, Argument)>, Refusal> {
    let Some(arguments) = arguments.filter(|_| !wanted.is_empty()) else {
        return Ok(Vec::new());
    };
    let found = find(wanted, arguments)?;
    let mut arguments = Vec::with_capacity(found.len());
    for ((name, kind), value) in wanted.iter().zip(found) {
        let Some(value) = value else { continue };
        if value.span().len() > ARGUMENT_BYTES_MAX {
            return Err(too_large(name, ARGUMENT_BYTES_MAX, "bytes"));
        }
        let Some(argument) = Argument::read(*kind, value) else {
            let public = format!("the argument {name:?} is not {}", kind.json());
            return Err(Refusal::new(ARGUMENT_TYPE, public));
        };
        if argument.items() > ARGUMENT_ITEMS_MAX {
            return Err(too_large(name, ARGUMENT_ITEMS_MAX, "items"));
        }
        arguments.push((name.clone(), argument));
    }
    Ok(arguments)
}

/// Finds the wanted members of an object, in the order of `wanted`. A server that reads names without regard to case
/// would take another spelling for the declared name.
fn find<'a>(
    wanted: &Wanted,
    arguments: JsonValue<'a>,
) -> Result<Vec<Option<JsonValue<'a>>>, Refusal> {
    let not_one = || {
        let public = "the arguments are not one JSON object in which each name stands once";
        Refusal::new(ARGUMENT_TYPE, public)
    };
    if arguments.kind() != JsonKind::Object {
        return Err(not_one());
    }
    let mut found = vec![None; wanted.len()];
    for (key, value) in arguments.members() {
        let key = key.name();
        match wanted.iter().position(|(name, _)| *name == key) {
            Some(index) if found[index].is_some() => return Err(not_one()),
            Some(index) => found[index] = Some(value),
            None if wanted.iter().any(|(name, _)| equal_folded(name, &key)) => {
                let public = "an argument is not spelled as the settings declare it";
                return Err(Refusal::new(NAME_SPELLING, public));
            }
            None => {}
        }
    }
    Ok(found)
}

fn too_large(name: &str, most: usize, unit: &str) -> Refusal {
    Refusal::new(
        ARGUMENT_BOUND,
        format!("the argument {name:?} is over {most} {unit}"),
    )
}

#[cfg(test)]
mod tests {
    use base::Json;

    use super::*;

    fn wanted() -> Vec<(String, ArgumentType)> {
        let kinds = [
            ("b", ArgumentType::Bool),
            ("l", ArgumentType::Long),
            ("s", ArgumentType::String),
            ("sl", ArgumentType::SetOfLong),
            ("ss", ArgumentType::SetOfString),
        ];
        kinds
            .into_iter()
            .map(|(name, kind)| (name.to_string(), kind))
            .collect()
    }

    fn of(json: &str) -> Result<Vec<(String, Argument)>, Refusal> {
        let json = Json::read(json.as_bytes()).unwrap();
        read(&wanted(), Some(json.root()))
    }

    fn refused(json: &str) -> &'static str {
        of(json).unwrap_err().code.name
    }

    #[test]
    fn each_type_is_read() {
        let json = r#" { "x": [{}], "b": true, "l": -7, "\u0073": "a\u00e9", "sl": [1, 2, 1],
            "ss": ["q"] } "#;
        let read = of(json).unwrap();
        let texts: Vec<_> = read
            .iter()
            .map(|(name, a)| format!("{name}={}", a.json()))
            .collect();
        assert_eq!(
            texts,
            ["b=true", "l=-7", "s=\"aé\"", "sl=[1,2,1]", "ss=[\"q\"]"]
        );
    }

    #[test]
    fn a_declared_name_in_another_spelling_is_refused() {
        for json in [r#"{"B":true}"#, r#"{"b":true,"B":1}"#, r#"{"\u017f":"x"}"#] {
            assert_eq!(refused(json), "mcp.name_spelling", "{json}");
        }
        assert!(of(r#"{"other":1,"OTHER":2}"#).is_ok());
    }

    #[test]
    fn what_was_not_sent_is_absent() {
        assert_eq!(read(&wanted(), None).unwrap(), []);
        assert_eq!(of("{}").unwrap(), []);
        let json = Json::read(b"7").unwrap();
        assert_eq!(read(&[], Some(json.root())).unwrap(), []);
    }

    #[test]
    fn another_type_is_refused_and_never_absent() {
        for value in ["null", "1", "\"true\"", "[]", "{}"] {
            assert_eq!(
                refused(&format!("{{\"b\":{value}}}")),
                "policy.argument_type",
                "{value}"
            );
        }
        for value in ["null", "1.0", "1e3", "\"1\"", "9223372036854775808", "[1]"] {
            assert_eq!(
                refused(&format!("{{\"l\":{value}}}")),
                "policy.argument_type",
                "{value}"
            );
        }
        for value in ["null", "1", "[\"a\"]", "{\"a\":\"b\"}"] {
            assert_eq!(
                refused(&format!("{{\"s\":{value}}}")),
                "policy.argument_type",
                "{value}"
            );
        }
        for value in ["null", "\"a\"", "[1]", "[null]", "[\"a\",1]", "{}"] {
            assert_eq!(
                refused(&format!("{{\"ss\":{value}}}")),
                "policy.argument_type",
                "{value}"
            );
        }
        assert_eq!(refused("{\"sl\":[1.5]}"), "policy.argument_type");
    }

    #[test]
    fn no_object_or_a_name_twice_is_refused() {
        for json in [
            "null",
            "[]",
            "\"s\"",
            "{\"b\":true,\"b\":true}",
            "{\"b\":true,\"\\u0062\":false}",
        ] {
            assert_eq!(refused(json), "policy.argument_type", "{json}");
        }
    }

    #[test]
    fn what_is_too_large_to_judge_is_refused() {
        let long = format!("{{\"s\":\"{}\"}}", "a".repeat(ARGUMENT_BYTES_MAX));
        assert_eq!(refused(&long), "policy.argument_bound");
        let many = format!("{{\"sl\":[{}1]}}", "1,".repeat(ARGUMENT_ITEMS_MAX));
        assert_eq!(refused(&many), "policy.argument_bound");
    }
}
