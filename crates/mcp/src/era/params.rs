//! Arguments that a tool's schema has said again by a header field: `x-mcp-header` (MCP 2026-07-28, "Custom Headers from Tool
//! Parameters").
//!
//! Example: under `{"properties":{"region":{"type":"string","x-mcp-header":"Region"}}}` a call with `"region":"eu"` comes with
//! `Mcp-Param-Region: eu`, and one that says anything else there is refused. What goes on is made of the arguments that go on,
//! so that nothing which the scan took out of them leaves by the field.

use std::collections::HashSet;

use base::{JsonKind, JsonValue, Refusal};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::fields::{GivenParam, PARAM, encoded, mismatch};

const ANNOTATION: &str = "x-mcp-header";
/// Keywords of JSON Schema 2020-12 whose value is a schema, a list of schemas, or an object of schemas. An annotation below
/// one of them would hold for some arguments only, so there may be none.
const ONE: &[&str] = &[
    "items",
    "contains",
    "unevaluatedItems",
    "additionalProperties",
    "propertyNames",
    "unevaluatedProperties",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];
const LIST: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems"];
const OBJECT: &[&str] = &[
    "patternProperties",
    "dependentSchemas",
    "$defs",
    "definitions",
];

/// An argument that a field says again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HeaderParam {
    /// The names that lead to it from the arguments.
    path: Vec<String>,
    name: HeaderName,
    is_integer: bool,
}

/// The fields made for one call.
#[derive(Default)]
pub(crate) struct MadeParams {
    pub(crate) fields: HeaderMap,
    /// Every name that the schema declares, whether the call has that argument or not.
    known: Vec<HeaderName>,
}

impl MadeParams {
    pub(crate) fn knows(&self, name: &HeaderName) -> bool {
        self.known.contains(name)
    }
}

/// The annotated arguments of a schema.
///
/// # Errors
/// Why one of the annotations is not as MCP has it; a client then leaves the tool out of its list.
pub(crate) fn of_schema(schema: &Value) -> Result<Vec<HeaderParam>, &'static str> {
    let mut found = Vec::new();
    if !schema.to_string().contains(ANNOTATION) {
        return Ok(found);
    }
    walk(schema, Some(&mut Vec::new()), &mut found)?;
    let mut names = HashSet::new();
    match found.iter().all(|param| names.insert(&param.name)) {
        true => Ok(found),
        false => Err("two arguments have the same field"),
    }
}

/// `path` leads to the schema through `properties` alone; nothing where something else was crossed.
fn walk(
    schema: &Value,
    mut path: Option<&mut Vec<String>>,
    found: &mut Vec<HeaderParam>,
) -> Result<(), &'static str> {
    let Value::Object(members) = schema else {
        return Ok(());
    };
    if let Some(annotation) = members.get(ANNOTATION) {
        let path = path.as_deref().filter(|path| !path.is_empty());
        let path = path.ok_or("an annotation stands where not every call has its argument")?;
        found.push(param(members, annotation, path.clone())?);
    }
    for (key, value) in members {
        match value {
            Value::Object(named) if key == "properties" => {
                for (name, schema) in named {
                    match path.as_deref_mut() {
                        Some(path) => {
                            path.push(name.clone());
                            walk(schema, Some(path), found)?;
                            path.pop();
                        }
                        None => walk(schema, None, found)?,
                    }
                }
            }
            Value::Object(named) if OBJECT.contains(&&**key) => {
                named
                    .values()
                    .try_for_each(|schema| walk(schema, None, found))?;
            }
            Value::Array(list) if LIST.contains(&&**key) => {
                list.iter()
                    .try_for_each(|schema| walk(schema, None, found))?;
            }
            value if ONE.contains(&&**key) => walk(value, None, found)?,
            _ => {}
        }
    }
    Ok(())
}

fn param(
    schema: &Map<String, Value>,
    annotation: &Value,
    path: Vec<String>,
) -> Result<HeaderParam, &'static str> {
    let kind = schema.get("type").and_then(Value::as_str);
    if !matches!(kind, Some("string" | "integer" | "boolean")) {
        return Err("a field says an argument that is no string, integer or boolean");
    }
    let name = annotation.as_str().filter(|name| !name.is_empty());
    let name = name.ok_or("the name of a field is not a text")?;
    // A field's name is a token (RFC 9110, section 5.6.2), whose case does not count.
    let name = HeaderName::try_from(format!("{PARAM}{name}"));
    Ok(HeaderParam {
        path,
        name: name.map_err(|_| "the name of a field is not a token")?,
        is_integer: kind == Some("integer"),
    })
}

impl HeaderParam {
    /// The argument in a call; nothing where it is absent, or `null`.
    fn argument<'a>(&self, arguments: Option<JsonValue<'a>>) -> Option<JsonValue<'a>> {
        let mut value = arguments?;
        for name in &self.path {
            value = value.get(name)?;
        }
        (value.kind() != JsonKind::Null).then_some(value)
    }

    /// Whether a field says an argument. Whole numbers are compared as such: `42` says `42.0`.
    fn says(&self, given: &str, argument: JsonValue<'_>) -> bool {
        let both = whole(given).zip(whole(argument.text()));
        if let (true, JsonKind::Number, Some((given, argument))) =
            (self.is_integer, argument.kind(), both)
        {
            return given == argument;
        }
        rendered(argument).is_some_and(|text| text == given)
    }
}

/// An argument as the text of a field; nothing for what is none.
fn rendered(argument: JsonValue<'_>) -> Option<String> {
    match argument.kind() {
        JsonKind::String => argument.as_str().map(Into::into),
        JsonKind::Number | JsonKind::Bool => Some(argument.text().to_owned()),
        JsonKind::Null | JsonKind::Array | JsonKind::Object => None,
    }
}

/// A decimal without a fraction but zeros, without these.
fn whole(text: &str) -> Option<&str> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = whole.strip_prefix('-').unwrap_or(whole);
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_whole = is_digits(digits) && is_digits(fraction) && fraction.bytes().all(|b| b == b'0');
    is_whole.then_some(whole)
}

/// Holds the fields of a call against its arguments.
///
/// # Errors
/// `mcp.header_mismatch`.
pub(crate) fn check(
    known: &[HeaderParam],
    given: &[GivenParam],
    arguments: Option<JsonValue<'_>>,
) -> Result<(), Refusal> {
    for param in known {
        let given = given.iter().find(|given| given.name == param.name);
        match (given, param.argument(arguments)) {
            (None, None) => {}
            (None, Some(argument)) if rendered(argument).is_none() => {}
            (None, Some(_)) => return Err(mismatch("an Mcp-Param field is missing")),
            (Some(_), None) => {
                return Err(mismatch(
                    "an Mcp-Param field says an argument that is absent",
                ));
            }
            (Some(given), Some(argument)) if param.says(&given.text, argument) => {}
            (Some(_), Some(_)) => {
                return Err(mismatch("an Mcp-Param field is not what the argument says"));
            }
        }
    }
    Ok(())
}

/// The fields of a call with these arguments.
pub(crate) fn make(known: &[HeaderParam], arguments: Option<JsonValue<'_>>) -> MadeParams {
    let mut made = MadeParams::default();
    for param in known {
        made.known.push(param.name.clone());
        let text = param.argument(arguments).and_then(rendered);
        let value: Option<HeaderValue> = text.map(|text| encoded(&text));
        if let Some(value) = value {
            made.fields.insert(param.name.clone(), value);
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use base::Json;
    use serde_json::json;

    use super::*;

    #[test]
    fn where_an_annotation_may_stand() {
        let region = json!({"type": "string", "x-mcp-header": "Region"});
        let good = json!({"properties": {"region": region, "deep": {"properties": {"n": {
            "type": "integer", "x-mcp-header": "N"}}}}});
        assert_eq!(of_schema(&good).unwrap().len(), 2);
        assert_eq!(
            of_schema(&json!({"properties": {"x": {"type": "string"}}})),
            Ok(vec![])
        );
        for bad in [
            json!({"x-mcp-header": "Root", "type": "string"}),
            json!({"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}),
            json!({"properties": {"a": {"type": ["string"], "x-mcp-header": "A"}}}),
            json!({"properties": {"a": {"x-mcp-header": "A"}}}),
            json!({"properties": {"a": {"type": "string", "x-mcp-header": ""}}}),
            json!({"properties": {"a": {"type": "string", "x-mcp-header": "a b"}}}),
            json!({"properties": {"a": {"type": "string", "x-mcp-header": 7}}}),
            json!({"properties": {"a": region, "b": {"type": "string", "x-mcp-header": "REGION"}}}),
            json!({"properties": {"a": {"items": region}}}),
            json!({"allOf": [{"properties": {"a": region}}]}),
            json!({"$defs": {"a": region}}),
            json!({"if": {"properties": {"a": region}}}),
        ] {
            assert!(of_schema(&bad).is_err(), "{bad}");
        }
        // What only looks like an annotation is data.
        let data = json!({"properties": {"a": {"type": "object", "default": region}}});
        assert_eq!(of_schema(&data), Ok(vec![]));
    }

    #[test]
    fn a_field_says_its_argument_or_is_refused() {
        let schema = json!({"properties": {
            "s": {"type": "string", "x-mcp-header": "S"},
            "i": {"type": "integer", "x-mcp-header": "I"},
            "b": {"type": "boolean", "x-mcp-header": "B"},
        }});
        let known = of_schema(&schema).unwrap();
        let holds = |given: &[(&str, &str)], arguments: &str| {
            let given: Vec<GivenParam> = given
                .iter()
                .map(|(name, text)| GivenParam {
                    name: HeaderName::try_from(format!("Mcp-Param-{name}")).unwrap(),
                    text: (*text).to_owned(),
                })
                .collect();
            let arguments = Json::read(arguments.as_bytes()).unwrap();
            check(&known, &given, Some(arguments.root())).is_ok()
        };
        for (given, arguments, wanted) in [
            (&[][..], "{}", true),
            (&[("s", "a")], r#"{"s":"a"}"#, true),
            (&[("s", "A")], r#"{"s":"a"}"#, false),
            (&[], r#"{"s":"a"}"#, false),
            (&[("s", "")], "{}", false),
            (&[], r#"{"s":null}"#, true),
            (&[("s", "null")], r#"{"s":null}"#, false),
            (&[("i", "42")], r#"{"i":42}"#, true),
            (&[("i", "42.0")], r#"{"i":42}"#, true),
            (&[("i", "42")], r#"{"i":42.0}"#, true),
            (&[("i", "42.5")], r#"{"i":42}"#, false),
            (&[("i", "4.2e1")], r#"{"i":42}"#, false),
            (&[("i", "4.2e1")], r#"{"i":4.2e1}"#, true),
            (&[("b", "true")], r#"{"b":true}"#, true),
            (&[("b", "True")], r#"{"b":true}"#, false),
            (&[("b", "false")], r#"{"b":true}"#, false),
            (&[("s", "{}")], r#"{"s":{}}"#, false),
            (&[("other", "x")], "{}", true),
        ] {
            assert_eq!(holds(given, arguments), wanted, "{given:?} {arguments}");
        }
        let arguments = Json::read(br#"{"s":" a","i":42.0}"#).unwrap();
        let made = make(&known, Some(arguments.root())).fields;
        assert_eq!(made["mcp-param-s"], "=?base64?IGE=?=");
        assert_eq!(made["mcp-param-i"], "42.0");
        assert!(!made.contains_key("mcp-param-b"));
    }
}
