//! The stateless revision: each request says who asks and in which revision, in its body and in its headers.
//!
//! Source: MCP 2026-07-28, "Streamable HTTP" (headers that mirror the body, statuses of errors) and "Overview"
//! (the fields of a request in `_meta`).

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http::header::HeaderName;
use http::request::Parts;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::message::{Fault, Message};
use super::{Outcome, SERVER, STATELESS, VERSION, tools};
use crate::target::answer::Origin;

const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const HEADER_MISMATCH: i32 = -32020;
const UNSUPPORTED_VERSION: i32 = -32022;
/// For how long lists may be kept, in milliseconds.
const LIST_MS: u32 = 60_000;

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<&'a RawValue>,
}

/// Whether the body says that the message is of a stateless revision.
pub(super) fn is(message: &Message<'_>) -> bool {
    let meta = message
        .params::<Params<'_>>()
        .ok()
        .and_then(|params| params.meta);
    meta.is_some_and(|meta| meta.version.is_some())
}

pub(super) async fn answer(origin: &Origin, head: &Parts, message: &Message<'_>) -> Outcome {
    let Some(method) = message.method.as_deref() else {
        let fault = Fault::invalid("in this revision a client answers nothing");
        return Outcome::Fault(StatusCode::BAD_REQUEST, fault);
    };
    if message.id.is_none() {
        return Outcome::Accepted;
    }
    let result = match checked(head, message, method) {
        Err(fault) => Err(fault),
        Ok(()) => result(origin, message, method).await,
    };
    match result {
        Ok(result) => Outcome::Result(result),
        Err(fault) => {
            let status = match fault.code() {
                -32601 => StatusCode::NOT_FOUND,
                _ => StatusCode::BAD_REQUEST,
            };
            Outcome::Fault(status, fault)
        }
    }
}

/// Whether the body has what it must, and the headers say the same.
fn checked(head: &Parts, message: &Message<'_>, method: &str) -> Result<(), Fault> {
    let params: Params<'_> = message.params()?;
    let Some((version, _)) = params
        .meta
        .and_then(|meta| meta.version.zip(meta.capabilities))
    else {
        let what = "_meta must have io.modelcontextprotocol/protocolVersion and \
                    io.modelcontextprotocol/clientCapabilities";
        return Err(Fault::new(-32602, what));
    };
    same(head, &VERSION, &version)?;
    same(head, &METHOD, method)?;
    if method == "tools/call" {
        let name = params
            .name
            .ok_or_else(|| Fault::new(-32602, "tools/call needs the name of a tool"))?;
        same(head, &NAME, &name)?;
    }
    if version != STATELESS {
        let data = json!({ "supported": [STATELESS], "requested": version });
        let fault = Fault::new(UNSUPPORTED_VERSION, "Unsupported protocol version");
        return Err(fault.with(data));
    }
    Ok(())
}

/// Whether a header is there once and says what the body says.
fn same(head: &Parts, name: &HeaderName, body: &str) -> Result<(), Fault> {
    let mut values = head.headers.get_all(name).iter();
    let found = values.next().and_then(|value| decoded(value.as_bytes()));
    if values.next().is_none() && found.is_some_and(|found| found == body.as_bytes()) {
        return Ok(());
    }
    let what = format!("the header {name} is not once there with what the body says");
    Err(Fault::new(HEADER_MISMATCH, &what))
}

/// The value of a header, which may be written `=?base64?…?=`.
fn decoded(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(inner) = value
        .strip_prefix(b"=?base64?")
        .and_then(|rest| rest.strip_suffix(b"?="))
    else {
        return Some(Cow::Borrowed(value));
    };
    STANDARD.decode(inner).ok().map(Cow::Owned)
}

async fn result(origin: &Origin, message: &Message<'_>, method: &str) -> Result<String, Fault> {
    let cached = format!(r#""resultType":"complete","ttlMs":{LIST_MS},"cacheScope":"public""#);
    let by = format!(r#""_meta":{{"io.modelcontextprotocol/serverInfo":{SERVER}}}"#);
    match method {
        "server/discover" => Ok(format!(
            r#"{{"supportedVersions":["{STATELESS}"],"capabilities":{{"tools":{{}}}},{cached},{by}}}"#
        )),
        "tools/list" => Ok(format!("{{{},{cached},{by}}}", tools::LIST)),
        "tools/call" => {
            let more = format!(r#","resultType":"complete",{by}"#);
            tools::call(origin, message, &more).await
        }
        _ => Err(Fault::new(
            -32601,
            "this target answers server/discover, tools/list and tools/call",
        )),
    }
}
