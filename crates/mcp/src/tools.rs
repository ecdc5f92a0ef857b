//! `tools/list` on its way back: a tool that the agent may not call is not shown, and what a server says
//! of its tools is scanned, because a model reads it as instruction.

use std::borrow::Cow;

use base::limit::TOOLS_MAX;
use base::{Refusal, refusal};
use gate::{Answer, Passed};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::envelope::Object;

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
}

/// The message with its list judged; nothing where it may pass as it came.
///
/// A tool whose definition the scan refuses, or that is not what was approved, is left out, as one that
/// policy hides is: one bad tool does not take the others away.
pub(crate) fn judge(passed: &mut Passed, message: &str) -> Result<Option<String>, Refusal> {
    let invalid = || {
        Refusal::new(
            refusal::ANSWER_INVALID,
            "the server's tools/list is not one",
        )
    };
    let mut object = Object::read(message).ok_or_else(invalid)?;
    let result = object.get("result").ok_or_else(invalid)?.get().to_owned();
    let mut result = Object::read(&result).ok_or_else(invalid)?;
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
        let named: Named<'_> = serde_json::from_str(tool.get()).map_err(|_| invalid())?;
        if !passed.may_list(&named.name) {
            changed = true;
            continue;
        }
        let root = format!("result.tools[{i}]");
        match passed.definition(&named.name, tool.get().as_bytes(), &root) {
            Ok(Answer::AsItCame) => kept.push(Cow::Borrowed(tool.get())),
            Ok(Answer::Redacted(json)) => {
                changed = true;
                kept.push(Cow::Owned(String::from_utf8(json).map_err(|_| invalid())?));
            }
            Err(_refused) => changed = true,
        }
    }
    if !changed {
        return Ok(None);
    }
    result
        .set("tools", format!("[{}]", kept.join(",")))
        .ok_or_else(invalid)?;
    object.set("result", result.to_json()).ok_or_else(invalid)?;
    Ok(Some(object.to_json()))
}
