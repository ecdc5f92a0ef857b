//! `tools/list` on its way back: a tool that the agent may not call is not shown, and what a server says
//! of its tools is scanned, because a model reads it as instruction.

use std::borrow::Cow;

use base::limit::TOOLS_MAX;
use base::{Json, Refusal, Resource, refusal};
use bytes::Bytes;
use gate::{Answer, Passed};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::actions::CALL;
use crate::declared::Declared;
use crate::envelope::{Object, names};
use crate::lane::server_of;
use crate::shape;

#[derive(Deserialize)]
struct Definition<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, rename = "inputSchema", default)]
    schema: Option<&'a RawValue>,
}

/// The message with its list judged.
///
/// A tool whose definition the scan refuses, or that is not what was approved, is left out, as one that
/// policy hides is: one bad tool does not take the others away. What stands beside the tools is scanned as
/// any answer is.
pub(crate) fn judge(
    passed: &mut Passed,
    declared: &Declared,
    message: &str,
) -> Result<Bytes, Refusal> {
    let mut object = Object::read(message).ok_or_else(invalid)?;
    let result = object.get("result").ok_or_else(invalid)?.get().to_owned();
    let mut result = Object::read(&result).ok_or_else(invalid)?;
    if result.keys().any(|key| names::misspells(key, names::TOOLS)) {
        return Err(invalid());
    }
    let list = result.get("tools").ok_or_else(invalid)?.get().to_owned();
    let tools: Vec<&RawValue> = serde_json::from_str(&list).map_err(|_| invalid())?;
    if tools.len() > TOOLS_MAX {
        return Err(Refusal::new(
            refusal::ANSWER_TOO_LARGE,
            "the server lists too many tools",
        ));
    }

    let mut changed = false;
    let mut kept: Vec<Cow<'_, str>> = Vec::with_capacity(tools.len());
    for (i, tool) in tools.iter().enumerate() {
        match judge_tool(passed, declared, tool, i)? {
            Some(judged) => {
                changed |= matches!(judged, Cow::Owned(_));
                kept.push(judged);
            }
            None => changed = true,
        }
    }
    result.set("tools", "[]".to_owned()).ok_or_else(invalid)?;
    object.set("result", result.to_json()).ok_or_else(invalid)?;
    let rest = object.to_json();
    let index = Json::read(rest.as_bytes()).map_err(|_| invalid())?;
    match (passed.answer(index.root(), "")?, changed) {
        (Answer::AsItCame, false) => Ok(Bytes::copy_from_slice(message.as_bytes())),
        (Answer::AsItCame, true) => with_tools(&rest, &kept),
        (Answer::Redacted(json), _) if !shape::is_kept(rest.as_bytes(), &json) => {
            let public = "a secret stands where it cannot be taken out of the list";
            Err(Refusal::new(refusal::SECRET, public).of_answer())
        }
        (Answer::Redacted(json), _) => {
            with_tools(std::str::from_utf8(&json).map_err(|_| invalid())?, &kept)
        }
    }
}

/// One definition as it may pass; nothing where it may not.
fn judge_tool<'t>(
    passed: &mut Passed,
    declared: &Declared,
    tool: &'t RawValue,
    at: usize,
) -> Result<Option<Cow<'t, str>>, Refusal> {
    let definition: Definition<'_> = serde_json::from_str(tool.get()).map_err(|_| invalid())?;
    let members = Object::read(tool.get()).ok_or_else(invalid)?;
    if members.keys().any(|key| names::misspells(key, names::TOOL)) || members.folds() {
        // Another reader would see another tool.
        return Ok(None);
    }
    if let Some(schema) = definition.schema {
        declared.see(server_of(passed), &definition.name, schema.get());
    }
    let resource = Resource::tool(server_of(passed).clone(), &definition.name);
    if !passed.may_list(&CALL, &resource) {
        return Ok(None);
    }
    let root = format!("result.tools[{at}]");
    let is_kept = |redacted: &[u8]| shape::is_kept(tool.get().as_bytes(), redacted);
    match passed.definition(&definition.name, tool.get().as_bytes(), &root, is_kept) {
        Ok(Answer::AsItCame) => Ok(Some(Cow::Borrowed(tool.get()))),
        Ok(Answer::Redacted(json)) => {
            let json = String::from_utf8(json).map_err(|_| invalid())?;
            Ok(Some(Cow::Owned(json)))
        }
        Err(_refused) => Ok(None),
    }
}

/// The message with these tools in its empty list.
fn with_tools(rest: &str, tools: &[Cow<'_, str>]) -> Result<Bytes, Refusal> {
    let put = || {
        let mut object = Object::read(rest)?;
        let result = object.get("result")?.get().to_owned();
        let mut result = Object::read(&result)?;
        result.set("tools", format!("[{}]", tools.join(",")))?;
        object.set("result", result.to_json())?;
        Some(Bytes::from(object.to_json()))
    };
    put().ok_or_else(invalid)
}

fn invalid() -> Refusal {
    let public = "the server's tools/list is not one";
    Refusal::new(refusal::ANSWER_INVALID, public)
}
