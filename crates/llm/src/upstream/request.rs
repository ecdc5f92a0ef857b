//! The request as a provider gets it: the bytes that came, but for what the scan redacted, the model's name, and what its kind wants
//! said in another place. It is signed last, since a signature is over the bytes that go out.
//!
//! It judges nothing: what stands here was judged as parts of the client's request.

use std::ops::Range;

use base::{Json, Refusal, refusal};
use bytes::Bytes;
use gate::Passed;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::Value;

use super::{Sending, never};
use crate::login::Credential;
use crate::provider::{KindBody, KindEvents, Provider};
use crate::route::Candidate;
use crate::tags::without_tags;
use crate::wire::STREAM_GENERATE;

/// Fields that go on to providers of every dialect.
const ANY_DIALECTS: &[&str] = &["user-agent", "idempotency-key"];
/// The field in which clients of Anthropic's dialect name what they try out.
const BETAS: &str = "anthropic-beta";
/// Names of a query that go on: of all else nothing is known.
const QUERY: &[(&str, &[&str])] = &[
    ("alt", &["sse", "json"]),
    ("beta", &["true"]),
    ("api-version", &["v1", "preview", "latest"]),
];

/// The request as the provider gets it: the bytes that came, but for what the scan redacted and the model's name.
pub(super) fn request(
    provider: &Provider,
    passed: &Passed,
    sending: &Sending<'_>,
    candidate: &Candidate,
    credential: &Credential<'_>,
) -> Result<http::Request<Bytes>, Refusal> {
    let body = converted(body(passed, sending, candidate)?, sending, candidate)?;
    let path = provider.path(candidate.wire, &candidate.model, sending.is_stream);
    let path =
        path.ok_or_else(|| Refusal::new(refusal::LLM_DIALECT, "the provider has no such path"))?;
    let own = provider.kind.body.get(candidate.wire.name);
    let query = match candidate.conversion {
        // What the query says is said in the body there.
        _ if own.is_some() => None,
        None => query(sending.query),
        // Google streams events where it is asked for them alone.
        Some(_) => (candidate.wire.name == STREAM_GENERATE.name).then(|| "alt=sse".to_owned()),
    };
    let path = match query {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    let mut request = http::Request::post(path);
    let fields = request
        .headers_mut()
        .ok_or_else(|| never("a path that is none"))?;
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let accept = match (sending.is_stream, provider.kind.events) {
        (true, KindEvents::Aws) => "application/vnd.amazon.eventstream",
        (true, KindEvents::Sse) => "text/event-stream, application/json",
        (false, _) => "application/json",
    };
    fields.insert(ACCEPT, HeaderValue::from_static(accept));
    // What is compressed cannot be scanned.
    fields.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    let mut betas = Vec::new();
    for (number, (name, value)) in sending.fields.iter().enumerate() {
        if passed.redacted(sending.spans.len() + number).is_some() {
            let public = "a secret stands where it cannot be taken out: in a header field";
            return Err(Refusal::new(refusal::SECRET, public));
        }
        // Another dialect's provider does not read the fields of this one.
        let is_read = candidate.conversion.is_none() || ANY_DIALECTS.contains(&name.as_str());
        if own.is_some_and(|own| own.betas.is_some()) && name.as_str() == BETAS {
            betas.extend(value.split(',').map(str::trim).filter(|_| is_read));
            continue;
        }
        if let Some(value) = HeaderValue::try_from(value).ok().filter(|_| is_read) {
            fields.append(name.clone(), value);
        }
    }
    if passed
        .redacted(sending.spans.len() + sending.fields.len())
        .is_some()
    {
        let public = "a secret stands where it cannot be taken out: in the model's name";
        return Err(Refusal::new(refusal::SECRET, public));
    }
    for (name, value) in &provider.kind.fields {
        let name: Result<HeaderName, _> = name.parse();
        if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value))
            && !fields.contains_key(&name)
        {
            fields.insert(name, value);
        }
    }
    let body = match own {
        Some(own) => in_own_words(&body, own, &betas)?,
        None => body,
    };
    let mut request = request
        .body(body)
        .map_err(|_| never("a request that is none"))?;
    let put = credential.put(provider, &mut request);
    put.ok_or_else(|| never("a key that is no field's value"))?;
    Ok(request)
}

/// The body with the members that this kind of provider wants, and without those that it says in the path. The others stay as they
/// were written; what the client says of a member itself goes before what its fields say.
fn in_own_words(body: &[u8], own: &KindBody, betas: &[&str]) -> Result<Bytes, Refusal> {
    let json = Json::read(body).map_err(|_| never("a body that is no JSON"))?;
    let mut whole: Vec<String> = Vec::new();
    for (key, value) in json.root().members() {
        let name = key.name();
        if !own.without.iter().any(|other| *other == name) {
            let name = Value::from(&*name);
            whole.push(format!("{name}:{}", value.text()));
        }
    }
    let has = |name: &str| json.root().get(name).is_some();
    for (name, value) in own.with.iter().filter(|(name, _)| !has(name)) {
        let (name, value) = (Value::from(name.as_str()), Value::from(value.as_str()));
        whole.push(format!("{name}:{value}"));
    }
    if let Some(name) = own.betas.as_deref().filter(|name| !has(name))
        && !betas.is_empty()
    {
        whole.push(format!("{}:{}", Value::from(name), Value::from(betas)));
    }
    Ok(format!("{{{}}}", whole.join(",")).into())
}

/// The body with its parts redacted and its model renamed.
fn body(passed: &Passed, sending: &Sending<'_>, candidate: &Candidate) -> Result<Bytes, Refusal> {
    let mut changes: Vec<(Range<usize>, Vec<u8>)> = Vec::new();
    for (number, span) in sending.spans.iter().enumerate() {
        if let Some(redacted) = passed.redacted(number) {
            changes.push((span.clone(), redacted.to_vec()));
        }
    }
    if let Some(model) = sending.model {
        let name = model.as_str().unwrap_or_default();
        if changes.iter().any(|(span, _)| *span == model.span()) {
            let public = "a secret stands where it cannot be taken out: in the model's name";
            return Err(Refusal::new(refusal::SECRET, public));
        }
        if name != candidate.model {
            let name = serde_json::Value::from(candidate.model.as_str());
            changes.push((model.span(), name.to_string().into_bytes()));
        }
    }
    if let Some(span) = &sending.tags {
        let at = changes.iter().position(|(changed, _)| changed == span);
        let written = at.map(|at| changes.swap_remove(at).1);
        let written = written.as_deref().unwrap_or(&sending.body[span.clone()]);
        let plain = without_tags(written).ok_or_else(|| never("metadata that are none"))?;
        changes.push((span.clone(), plain));
    }
    if changes.is_empty() {
        return Ok(sending.body.clone());
    }
    changes.sort_by_key(|(span, _)| span.start);
    let mut whole = Vec::with_capacity(sending.body.len());
    let mut at = 0;
    for (span, with) in changes {
        whole.extend_from_slice(&sending.body[at..span.start]);
        whole.extend_from_slice(&with);
        at = span.end;
    }
    whole.extend_from_slice(&sending.body[at..]);
    Ok(whole.into())
}

/// The body in the provider's dialect.
///
/// # Errors
/// `llm.unconvertible` where something of it has no counterpart there.
fn converted(body: Bytes, sending: &Sending<'_>, candidate: &Candidate) -> Result<Bytes, Refusal> {
    let Some(conversion) = candidate.conversion else {
        return Ok(body);
    };
    let body = serde_json::from_slice(&body).map_err(|_| never("a body that is no JSON"))?;
    let converted = conversion.request(&body, &candidate.model, sending.is_stream);
    let converted = converted.map_err(|why| why.refusal())?;
    Ok(converted.to_string().into())
}

/// What goes on of a query.
fn query(query: Option<&str>) -> Option<String> {
    let pairs = query?.split('&').filter(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let known = QUERY.iter().find(|(known, _)| *known == name);
        known.is_some_and(|(name, values)| {
            values.contains(&value) || (*name == "api-version" && is_date(value))
        })
    });
    let kept: Vec<&str> = pairs.collect();
    (!kept.is_empty()).then(|| kept.join("&"))
}

/// Whether a version of an API is a date, such as `2024-10-21` or `2025-04-01-preview`.
fn is_date(version: &str) -> bool {
    let date = version.strip_suffix("-preview").unwrap_or(version);
    let has_form = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    date.len() == 10 && date.bytes().enumerate().all(has_form)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::ProviderKind;

    #[test]
    fn a_body_says_what_its_kind_wants_and_keeps_the_rest_as_it_was() {
        let kind = ProviderKind::of("bedrock").unwrap();
        let own = &kind.body["messages"];
        let of = |body: &str, betas: &[&str]| {
            let body = in_own_words(body.as_bytes(), own, betas).unwrap();
            String::from_utf8(body.to_vec()).unwrap()
        };
        assert_eq!(
            of(
                r#"{"model": "m", "n": 1.50e2, "stream" : true, "a\n": [ 1 ]}"#,
                &["x", "y"]
            ),
            r#"{"n":1.50e2,"a\n":[ 1 ],"anthropic_version":"bedrock-2023-05-31","anthropic_beta":["x","y"]}"#
        );
        let own_words = r#"{"anthropic_version":"v","anthropic_beta":[]}"#;
        assert_eq!(of(own_words, &["x"]), own_words);
    }
}
