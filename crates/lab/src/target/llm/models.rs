//! The lists of models, in each dialect. A name that is not in them is answered too.

use std::rc::Rc;

use http::{Request, Response, StatusCode};
use serde_json::{Value, json};

use super::super::answer::Origin;
use super::super::body::Body;
use super::super::refuse::typed;
use super::VERSION;

/// The model of a target without a script.
const MODEL: &str = "lab-1";
/// The day that all of them were made, 2026-01-01, in seconds since 1970.
const CREATED: u64 = 1_767_225_600;

#[derive(Clone, Copy)]
enum Dialect {
    OpenAi,
    Anthropic,
    Gemini,
}

/// `GET /v1/models`, `/v1beta/models` and each with a name behind it, in the dialect that the path and the client's
/// fields show.
pub(in crate::target) fn models<B>(origin: &Rc<Origin>, request: &Request<B>) -> Response<Body> {
    let path = request.uri().path();
    let dialect = match request.headers().contains_key(VERSION) {
        _ if path.starts_with("/v1beta/") => Dialect::Gemini,
        true => Dialect::Anthropic,
        false => Dialect::OpenAi,
    };
    let named = path.split_once("/models/").map(|(_, name)| name);
    let json = match named {
        Some(name) => one(dialect, name),
        None => list(dialect, &names(origin)),
    };
    typed(StatusCode::OK, "application/json", json.to_string().into())
}

fn names(origin: &Rc<Origin>) -> Vec<&str> {
    let script = origin.settings().llm.script.as_ref();
    let scripted = script.into_iter().flat_map(|script| script.names());
    std::iter::once(MODEL).chain(scripted).collect()
}

fn list(dialect: Dialect, names: &[&str]) -> Value {
    let all: Vec<Value> = names.iter().map(|name| one(dialect, name)).collect();
    match dialect {
        Dialect::OpenAi => json!({ "object": "list", "data": all }),
        Dialect::Anthropic => json!({ "data": all, "has_more": false, "first_id": names.first(),
            "last_id": names.last() }),
        Dialect::Gemini => json!({ "models": all }),
    }
}

fn one(dialect: Dialect, name: &str) -> Value {
    match dialect {
        Dialect::OpenAi => {
            json!({ "id": name, "object": "model", "created": CREATED, "owned_by": "weir-lab" })
        }
        Dialect::Anthropic => json!({ "type": "model", "id": name, "display_name": name,
            "created_at": "2026-01-01T00:00:00Z" }),
        Dialect::Gemini => json!({ "name": format!("models/{name}"), "version": "1",
            "displayName": name, "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536,
            "supportedGenerationMethods": ["generateContent", "countTokens", "embedContent"] }),
    }
}
