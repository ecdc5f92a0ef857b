//! The models that an agent may use, in the form of the dialect that asks: weir answers itself.

use base::record::CallEnd;
use base::{Name, Refusal, Resource, refusal};
use bytes::Bytes;
use gate::{Call, CallEnding, Passed};
use http::header::{CONTENT_TYPE, HeaderValue};
use net::{Body, Response};
use serde_json::{Value, json};

use crate::actions::{CHAT, EMBED, LIST};
use crate::lane::{KnownRequest, LlmLane, Root, Settings};
use crate::refuse;
use crate::wire::Family;

/// Answers `GET /v1/models`, `GET /v1beta/models`, and of one model.
pub(crate) async fn serve(
    lane: &LlmLane,
    root: Root,
    one: Option<&str>,
    known: KnownRequest<'_>,
) -> Response {
    let family = match root {
        Root::V1Beta => Family::Gemini,
        Root::V1 => known.family,
    };
    let resource = Resource::Setting(Name::new("models").expect("models is a name"));
    let call = Call {
        action: &LIST,
        method: LIST.method,
        resource: &resource,
        ..known.call
    };
    let id = call.id;
    let passed = match lane.shared.gate.pass(known.verified, call).await {
        Ok(passed) => passed,
        Err(refusal) => return refuse::respond(family, &refusal, id),
    };
    let names = names(lane.settings(), &passed);
    let answer = match one {
        None => Ok(list(family, &names)),
        Some(one) => match names.iter().find(|name| *name == one) {
            Some(name) => Ok(model(family, name)),
            None => Err(Refusal::new(
                refusal::LLM_MODEL_UNKNOWN,
                format!("no model is named {one:?}"),
            )),
        },
    };
    let (end, status, why) = match &answer {
        Ok(_) => (CallEnd::Complete, 200, None),
        Err(refusal) => (
            CallEnd::Failed,
            refusal.code.status,
            Some((refusal.code.name, "")),
        ),
    };
    passed.end(CallEnding {
        status,
        why,
        ..CallEnding::of(end)
    });
    match answer {
        Ok(answer) => {
            let mut response = Response::new(Body::Full(Bytes::from(answer.to_string())));
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(CONTENT_TYPE, json);
            response
        }
        Err(refusal) => refuse::respond(family, &refusal, id),
    }
}

/// The names that this agent may ask for: routes, and the models that the configuration names.
fn names(settings: &Settings, passed: &Passed) -> Vec<String> {
    let may = |provider: usize, model: &str| {
        let resource = Resource::Model {
            provider: settings.providers[provider].name.clone(),
            model: model.into(),
        };
        passed.may_list(&CHAT, &resource) || passed.may_list(&EMBED, &resource)
    };
    let routes = settings.routes.iter().filter(|route| {
        let mut tries = route.tries.iter();
        tries.any(|of| may(of.provider, &of.model))
    });
    let routes = routes.map(|route| route.name.clone());
    let models = settings
        .providers
        .iter()
        .enumerate()
        .flat_map(|(at, provider)| {
            let models = provider.models.iter().filter(move |model| may(at, model));
            models.map(|model| format!("{}/{model}", provider.name))
        });
    routes.chain(models).collect()
}

fn list(family: Family, names: &[String]) -> Value {
    let models: Vec<Value> = names.iter().map(|name| model(family, name)).collect();
    match family {
        Family::OpenAi => json!({ "object": "list", "data": models }),
        Family::Anthropic => json!({
            "data": models,
            "has_more": false,
            "first_id": names.first(),
            "last_id": names.last(),
        }),
        Family::Gemini => json!({ "models": models }),
    }
}

fn model(family: Family, name: &str) -> Value {
    let owner = name
        .split_once('/')
        .map_or("weir", |(provider, _)| provider);
    match family {
        Family::OpenAi => json!({ "id": name, "object": "model", "created": 0, "owned_by": owner }),
        Family::Anthropic => json!({
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": "1970-01-01T00:00:00Z",
        }),
        Family::Gemini => json!({
            "name": format!("models/{name}"),
            "displayName": name,
            "supportedGenerationMethods": ["generateContent", "streamGenerateContent", "countTokens", "embedContent"],
        }),
    }
}
