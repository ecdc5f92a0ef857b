//! HTTP Archive 1.2 (<http://www.softwareishard.com/blog/har-12-spec/>): what a browser recorded, as kinds of requests. What was
//! asked several times is one kind with that weight.

use serde_json::{Map, Value, json};

use super::{
    BODY_BYTES_MAX, Made, OWN_FIELDS, escaped, holds_secret, is_secret, split, without_secrets,
};
use crate::plan::REQUESTS_MAX;

/// Most entries that are read.
const ENTRIES_MAX: usize = 100_000;
/// Most origins that are taken over.
const ORIGINS_MAX: usize = 16;

pub(super) fn read(text: &str) -> Result<Made, String> {
    let tree: Value = serde_json::from_str(text).map_err(|e| format!("is not JSON: {e}"))?;
    let entries = tree["log"]["entries"]
        .as_array()
        .ok_or("is no HAR: log.entries is missing")?;
    if entries.len() > ENTRIES_MAX {
        return Err(format!(
            "has {} entries; {ENTRIES_MAX} is the most",
            entries.len()
        ));
    }
    let mut made = Made::default();
    for (number, entry) in entries.iter().enumerate() {
        if let Err(why) = add(&mut made, entry) {
            made.left_out.push(format!("entry {}: {why}", number + 1));
        }
    }
    Ok(made)
}

fn add(made: &mut Made, entry: &Value) -> Result<(), String> {
    let request = &entry["request"];
    let url = request["url"].as_str().ok_or("has no URL")?;
    let (origin, path) = split(url).ok_or("is not http:// or https://")?;
    let method = request["method"].as_str().ok_or("has no method")?;
    let (path, mut secrets) = without_secrets(&path);
    let mut kind = Map::from_iter([
        ("path".to_owned(), escaped(&path).into()),
        ("method".to_owned(), method.to_ascii_uppercase().into()),
    ]);
    let headers = headers(request, &mut secrets);
    if !headers.is_empty() {
        kind.insert("headers".to_owned(), headers.into());
    }
    if let Some(body) = body(request, &mut secrets)? {
        kind.insert("body".to_owned(), escaped(&body).into());
    }
    if let Some(status @ 200..400) = entry["response"]["status"].as_u64() {
        kind.insert("expect".to_owned(), json!({ "status": [status] }));
    }
    let requests = match made
        .origins
        .iter_mut()
        .position(|(known, _)| *known == origin)
    {
        Some(at) => &mut made.origins[at].1,
        None if made.origins.len() >= ORIGINS_MAX => {
            return Err(format!("is of more than {ORIGINS_MAX} origins"));
        }
        None => {
            made.origins.push((origin, Vec::new()));
            &mut made.origins.last_mut().ok_or("")?.1
        }
    };
    let is_same = |known: &Value| {
        kind.iter()
            .all(|(name, value)| known.get(name) == Some(value))
            && known
                .as_object()
                .is_some_and(|known| known.len() == kind.len() + 1)
    };
    match requests.iter().position(is_same) {
        Some(at) => {
            let weight = requests[at]["weight"].as_u64().unwrap_or(1) + 1;
            requests[at]["weight"] = weight.into();
        }
        None if requests.len() >= REQUESTS_MAX => {
            return Err(format!("is of more than {REQUESTS_MAX} kinds"));
        }
        None => {
            kind.insert("weight".to_owned(), 1.into());
            requests.push(kind.into());
        }
    }
    made.secrets += secrets;
    Ok(())
}

/// The header fields that are the client's own, without credentials.
fn headers(request: &Value, secrets: &mut usize) -> Map<String, Value> {
    let mut headers = Map::new();
    for field in request["headers"].as_array().into_iter().flatten() {
        let (Some(name), Some(value)) = (field["name"].as_str(), field["value"].as_str()) else {
            continue;
        };
        let name = name.to_ascii_lowercase();
        if !name.starts_with(':') && is_secret(&name) {
            *secrets += 1;
            continue;
        }
        // Of HTTP/2 and of the browser itself.
        let is_own = name.starts_with(':')
            || name.starts_with("sec-")
            || OWN_FIELDS.contains(&name.as_str());
        let is_plain = value.chars().all(|c| c == '\t' || (' '..='~').contains(&c));
        if !is_own && is_plain && http::HeaderName::from_bytes(name.as_bytes()).is_ok() {
            headers.insert(name, escaped(value).into());
        }
    }
    headers
}

/// The body, where it is text. One that holds a credential is left out with its request, since without it nothing is the same.
fn body(request: &Value, secrets: &mut usize) -> Result<Option<String>, String> {
    let post = &request["postData"];
    let Some(text) = post["text"].as_str().filter(|text| !text.is_empty()) else {
        return match post["params"]
            .as_array()
            .is_some_and(|params| !params.is_empty())
        {
            true => Err("has a form without its text".to_owned()),
            false => Ok(None),
        };
    };
    if text.len() > BODY_BYTES_MAX {
        return Err(format!("has a body of over {BODY_BYTES_MAX} bytes"));
    }
    let is_form = post["mimeType"]
        .as_str()
        .is_some_and(|kind| kind.contains("form"));
    let has_secret = match serde_json::from_str::<Value>(text) {
        Ok(json) => holds_secret(&json),
        Err(_) => {
            is_form
                && text
                    .split(['&', '"', ';'])
                    .any(|part| is_secret(part.split('=').next().unwrap_or(part)))
        }
    };
    if has_secret {
        *secrets += 1;
        return Err("has a credential in its body".to_owned());
    }
    Ok(Some(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_recorded_becomes_kinds_without_credentials() {
        let entry = |method: &str, url: &str, body: Value| {
            json!({ "request": { "method": method, "url": url, "postData": body, "headers": [
                { "name": "Cookie", "value": "s=1" }, { "name": "Accept", "value": "text/html" },
                { "name": ":authority", "value": "h" }, { "name": "Host", "value": "h" },
            ] }, "response": { "status": 200 } })
        };
        let post = |text: &str| json!({ "mimeType": "application/json", "text": text });
        let har = json!({ "log": { "entries": [
            entry("GET", "http://h/a?token=1&b=2", Value::Null),
            entry("GET", "http://h/a?token=9&b=2", Value::Null),
            entry("POST", "http://h/x", post("{\"a\": \"${b}\"}")),
            entry("POST", "http://h/login", post("{\"password\": \"x\"}")),
            entry("GET", "data:text/plain,x", Value::Null),
            json!({}),
        ] } });
        let made = read(&har.to_string()).unwrap();
        let [(origin, requests)] = made.origins.as_slice() else {
            panic!("{:?}", made.origins)
        };
        assert_eq!((origin.as_str(), requests.len()), ("http://h", 2));
        assert_eq!(
            requests[0],
            json!({ "path": "/a?b=2", "method": "GET", "headers": { "accept": "text/html" },
            "expect": { "status": [200] }, "weight": 2 })
        );
        assert_eq!(requests[1]["body"], "{\"a\": \"$${b}\"}");
        assert_eq!(made.left_out.len(), 3, "{:?}", made.left_out);
        // Two tokens, three cookies of what was taken over.
        assert_eq!(made.secrets, 5);
        for text in ["", "{}", "[1]", "{\"log\": {\"entries\": 3}}"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
