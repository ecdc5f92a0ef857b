//! OpenAPI 3.0 and 3.1: one kind of request for each operation, with example values, or values made of its schema.
//!
//! References are followed within the document only, and a cycle through what is required has no value: it is told by
//! its place.

use serde_json::{Map, Value, json};

use super::{Made, escaped, escaped_json, is_secret, split};
use crate::plan::REQUESTS_MAX;
use crate::scenario;

/// How deep a value that is made may be, references counted.
const DEPTH_MAX: usize = 40;
/// Most members that are made of one schema.
const MEMBERS_MAX: usize = 500;
const METHODS: &[&str] = &["get", "put", "post", "delete", "options", "head", "patch"];

pub(super) fn read(text: &str, url: Option<&str>) -> Result<Made, String> {
    let tree = match serde_json::from_str::<Value>(text) {
        Ok(tree) => tree,
        Err(_) => scenario::tree(text)
            .map_err(|problem| format!("is neither JSON nor YAML: {problem}"))?,
    };
    match tree["openapi"].as_str() {
        Some(version) if version.starts_with("3.") => {}
        Some(version) => return Err(format!("is OpenAPI {version}; 3.0 and 3.1 are read")),
        None => return Err("is no OpenAPI 3 description: it does not say openapi: 3".to_owned()),
    }
    let server = tree["servers"][0]["url"].as_str();
    let base = url
        .or(server)
        .ok_or("names no server: give --url http://127.0.0.1:8080")?;
    let (origin, prefix) = split(base)
        .ok_or_else(|| format!("its server is `{base}`: give --url http://127.0.0.1:8080"))?;
    // With --url the server's own path still goes before each operation's.
    let prefix = match url {
        Some(_) => server
            .and_then(|server| {
                split(server)
                    .map(|(_, path)| path)
                    .or(Some(server.to_owned()))
            })
            .unwrap_or(prefix),
        None => prefix,
    };
    let prefix = prefix.trim_end_matches('/').to_owned();
    let mut made = Made::default();
    let mut requests = Vec::new();
    let paths = tree["paths"].as_object().ok_or("has no paths")?;
    for (path, item) in paths {
        for method in METHODS {
            let Some(operation) = item.get(*method) else {
                continue;
            };
            let place = format!("{} {path}", method.to_ascii_uppercase());
            let one = Operation {
                tree: &tree,
                item,
                operation,
            };
            match one.request(method, path, &prefix, &mut made.secrets) {
                Ok(_) if requests.len() >= REQUESTS_MAX => {
                    made.left_out.push(format!(
                        "{place}: there are more than {REQUESTS_MAX} operations"
                    ));
                }
                Ok(request) => requests.push(request),
                Err(why) => made.left_out.push(format!("{place}: {why}")),
            }
        }
    }
    if !requests.is_empty() {
        made.origins.push((origin, requests));
    } else if let Some(why) = made.left_out.first() {
        return Err(why.clone());
    }
    Ok(made)
}

/// One operation in its document.
struct Operation<'t> {
    tree: &'t Value,
    item: &'t Value,
    operation: &'t Value,
}

impl Operation<'_> {
    fn request(
        &self,
        method: &str,
        path: &str,
        prefix: &str,
        secrets: &mut usize,
    ) -> Result<Value, String> {
        let (mut path, mut query) = (path.to_owned(), Vec::new());
        let mut headers = Map::new();
        for parameter in self.parameters()? {
            let name = parameter["name"].as_str().unwrap_or_default();
            let place = parameter["in"].as_str().unwrap_or_default();
            let is_needed = place == "path" || parameter["required"] == json!(true);
            if !is_needed {
                continue;
            }
            if place != "path" && is_secret(name) {
                *secrets += 1;
                continue;
            }
            let value = plain(&self.example(parameter)?)?;
            match place {
                "path" => path = path.replace(&format!("{{{name}}}"), &percent(&value)),
                "query" => query.push(format!("{}={}", percent(name), percent(&value))),
                "header" if http::HeaderName::from_bytes(name.as_bytes()).is_ok() => {
                    headers.insert(name.to_owned(), escaped(&value).into());
                }
                _ => {}
            }
        }
        if path.contains('{') {
            return Err(format!("a parameter of {path} is not described"));
        }
        if !query.is_empty() {
            path = format!("{path}?{}", query.join("&"));
        }
        let mut request = Map::from_iter([
            (
                "path".to_owned(),
                escaped(&format!("{prefix}{path}")).into(),
            ),
            ("method".to_owned(), method.to_ascii_uppercase().into()),
        ]);
        if !headers.is_empty() {
            request.insert("headers".to_owned(), headers.into());
        }
        if let Some(body) = self.body()? {
            request.insert("body_json".to_owned(), escaped_json(&body));
        }
        let statuses: Vec<u64> = self.statuses();
        if !statuses.is_empty() {
            request.insert("expect".to_owned(), json!({ "status": statuses }));
        }
        Ok(request.into())
    }

    /// Of the operation, and those of its path that it does not replace.
    fn parameters(&self) -> Result<Vec<&Value>, String> {
        let mut found: Vec<&Value> = Vec::new();
        for list in [&self.operation["parameters"], &self.item["parameters"]] {
            for parameter in list.as_array().into_iter().flatten() {
                let parameter = self.resolved(parameter, &mut Vec::new())?;
                let is_known = |known: &&Value| {
                    known["name"] == parameter["name"] && known["in"] == parameter["in"]
                };
                if !found.iter().any(is_known) {
                    found.push(parameter);
                }
            }
        }
        Ok(found)
    }

    /// The body as JSON; an error where one is needed and is not JSON.
    fn body(&self) -> Result<Option<Value>, String> {
        let Some(body) = self.operation.get("requestBody") else {
            return Ok(None);
        };
        let body = self.resolved(body, &mut Vec::new())?;
        let contents = body["content"].as_object();
        let json = contents.and_then(|all| {
            all.iter()
                .find(|(kind, _)| kind.contains("json"))
                .map(|(_, media)| media)
        });
        match json {
            Some(media) => self.example(media).map(Some),
            None if body["required"] == json!(true) => Err("its body is not JSON".to_owned()),
            None => Ok(None),
        }
    }

    fn statuses(&self) -> Vec<u64> {
        let responses = self.operation["responses"]
            .as_object()
            .into_iter()
            .flatten();
        let codes = responses.filter_map(|(code, _)| code.parse().ok());
        codes.filter(|code| (200..400).contains(code)).collect()
    }

    /// The example of a parameter or a media type, or a value of its schema.
    fn example(&self, of: &Value) -> Result<Value, String> {
        if let Some(example) = of.get("example") {
            return Ok(example.clone());
        }
        if let Some(first) = of["examples"]
            .as_object()
            .and_then(|all| all.values().next())
        {
            let first = self.resolved(first, &mut Vec::new())?;
            if let Some(value) = first.get("value") {
                return Ok(value.clone());
            }
        }
        self.value(&of["schema"], &mut Vec::new(), 0)
    }

    /// Follows references; `seen` are those that are being followed.
    fn resolved<'a>(
        &'a self,
        value: &'a Value,
        seen: &mut Vec<String>,
    ) -> Result<&'a Value, String> {
        let mut at = value;
        while let Some(reference) = at.get("$ref").and_then(Value::as_str) {
            if seen.iter().any(|known| known == reference) || seen.len() >= DEPTH_MAX {
                return Err(format!(
                    "{reference} needs itself, so it has no value: give an example in the file"
                ));
            }
            seen.push(reference.to_owned());
            let pointer = reference
                .strip_prefix('#')
                .ok_or_else(|| format!("{reference} is in another document"))?;
            at = self
                .tree
                .pointer(pointer)
                .ok_or_else(|| format!("{reference} is not there"))?;
        }
        Ok(at)
    }

    /// A value that fits a schema, with no more than is required.
    fn value(&self, schema: &Value, seen: &mut Vec<String>, depth: usize) -> Result<Value, String> {
        if depth > DEPTH_MAX {
            return Err("a schema is deeper than is read".to_owned());
        }
        let before = seen.len();
        let schema = self.resolved(schema, seen)?;
        let made = self.of_schema(schema, seen, depth);
        seen.truncate(before);
        made
    }

    fn of_schema(
        &self,
        schema: &Value,
        seen: &mut Vec<String>,
        depth: usize,
    ) -> Result<Value, String> {
        let given = ["example", "default", "const"]
            .iter()
            .find_map(|key| schema.get(*key));
        let listed = ["examples", "enum"]
            .iter()
            .find_map(|key| schema[*key].get(0));
        if let Some(value) = given.or(listed) {
            return Ok(value.clone());
        }
        if let Some(all) = schema["allOf"].as_array() {
            let mut merged = Map::new();
            for part in all.iter().take(MEMBERS_MAX) {
                if let Value::Object(map) = self.value(part, seen, depth + 1)? {
                    merged.extend(map);
                }
            }
            return Ok(merged.into());
        }
        if let Some(first) = ["oneOf", "anyOf"]
            .iter()
            .find_map(|key| schema[*key].get(0))
        {
            return self.value(first, seen, depth + 1);
        }
        let kind = schema["type"]
            .as_str()
            .or_else(|| schema["type"].get(0).and_then(Value::as_str));
        match kind {
            Some("array") => {
                let least = schema["minItems"].as_u64().unwrap_or(0).min(1);
                let items = (0..least).map(|_| self.value(&schema["items"], seen, depth + 1));
                items.collect::<Result<Vec<_>, _>>().map(Value::from)
            }
            Some("integer" | "number") => {
                Ok(schema.get("minimum").cloned().unwrap_or_else(|| json!(1)))
            }
            Some("boolean") => Ok(json!(true)),
            Some("null") => Ok(Value::Null),
            Some("string") => Ok(text_of(schema).into()),
            _ => self.object(schema, seen, depth),
        }
    }

    fn object(
        &self,
        schema: &Value,
        seen: &mut Vec<String>,
        depth: usize,
    ) -> Result<Value, String> {
        let mut map = Map::new();
        for name in schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .take(MEMBERS_MAX)
            .filter_map(Value::as_str)
        {
            let value = self.value(&schema["properties"][name], seen, depth + 1)?;
            map.insert(name.to_owned(), value);
        }
        Ok(map.into())
    }
}

/// A text of a schema's format.
fn text_of(schema: &Value) -> String {
    match schema["format"].as_str() {
        Some("date") => "2026-01-01".to_owned(),
        Some("date-time") => "2026-01-01T00:00:00Z".to_owned(),
        Some("uuid") => "00000000-0000-4000-8000-000000000000".to_owned(),
        Some("email") => "a@example.com".to_owned(),
        Some("uri" | "url") => "https://example.com/".to_owned(),
        _ => "x".repeat(schema["minLength"].as_u64().unwrap_or(1).clamp(1, 1000) as usize),
    }
}

/// A value as a parameter has it.
fn plain(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
        _ => Err("a parameter is not a plain value".to_owned()),
    }
}

/// RFC 3986, section 2.1: everything but the unreserved.
fn percent(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte))
            }
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(paths: Value, schemas: Value) -> String {
        json!({ "openapi": "3.1.0", "servers": [{ "url": "http://h:1/v1" }], "paths": paths, "components": { "schemas": schemas } })
            .to_string()
    }

    #[test]
    fn operations_become_requests_with_what_is_required() {
        let paths = json!({ "/items/{id}": {
            "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "string", "example": "a b" } }],
            "put": {
                "parameters": [
                    { "name": "q", "in": "query", "required": true, "schema": { "enum": ["x", "y"] } },
                    { "name": "api_key", "in": "query", "required": true, "schema": { "type": "string" } },
                    { "name": "free", "in": "query", "schema": { "type": "string" } },
                ],
                "requestBody": { "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Item" } } } },
                "responses": { "200": {}, "404": {}, "default": {} },
            },
        } });
        let schemas = json!({ "Item": { "type": "object", "required": ["n", "tags", "kind"], "properties": {
            "n": { "type": "integer", "minimum": 3 }, "tags": { "type": "array", "minItems": 2, "items": { "type": "string" } },
            "kind": { "const": "${x}" }, "child": { "$ref": "#/components/schemas/Item" } } } });
        let made = read(&document(paths, schemas), None).unwrap();
        let (origin, requests) = &made.origins[0];
        assert_eq!((origin.as_str(), made.secrets), ("http://h:1", 1));
        assert_eq!(
            requests[0],
            json!({ "path": "/v1/items/a%20b?q=x", "method": "PUT", "expect": { "status": [200] },
            "body_json": { "n": 3, "tags": ["x"], "kind": "$${x}" } })
        );
    }

    #[test]
    fn a_cycle_and_what_is_not_described_are_told_by_their_place() {
        let body = |schema: Value| json!({ "post": { "requestBody": { "content": { "application/json": { "schema": schema } } } } });
        let cycle = json!({ "A": { "type": "object", "required": ["b"], "properties": { "b": { "$ref": "#/components/schemas/B" } } },
            "B": { "allOf": [{ "$ref": "#/components/schemas/A" }] } });
        let paths = json!({ "/a": body(json!({ "$ref": "#/components/schemas/A" })) });
        let why = read(&document(paths, cycle), None).err().unwrap();
        assert!(
            why.starts_with("POST /a: ") && why.contains("needs itself"),
            "{why}"
        );
        let paths = json!({ "/{id}": { "get": {} } });
        assert!(
            read(&document(paths, json!({})), None)
                .err()
                .unwrap()
                .contains("not described")
        );
        let paths = json!({ "/a": body(json!({ "$ref": "other.yaml#/X" })) });
        assert!(
            read(&document(paths, json!({})), None)
                .err()
                .unwrap()
                .contains("another document")
        );
        for text in [
            "",
            "{}",
            "swagger: '2.0'",
            "openapi: 2.0.0",
            "{\"openapi\": \"3.0.0\"}",
        ] {
            assert!(read(text, Some("http://h")).is_err(), "{text}");
        }
    }
}
