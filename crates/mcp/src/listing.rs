//! Lists of what a server offers, on their way back: what the agent may not use is not shown, and what a server says
//! of its items is scanned, because a model reads it as instruction.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use base::limit::TOOLS_MAX;
use base::{Action, ItemKind, Json, Refusal, Resource, ServerItem, refusal};
use bytes::Bytes;
use gate::{Answer, Passed};
use serde_json::value::RawValue;

use crate::actions::{CALL, PROMPT, READ};
use crate::declared::Declared;
use crate::envelope::{Object, names};
use crate::lane::server_of;
use crate::shape;

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl ListKind {
    pub(crate) const ALL: [ListKind; 4] = [
        ListKind::Tools,
        ListKind::Prompts,
        ListKind::Resources,
        ListKind::Templates,
    ];

    pub(crate) fn of(method: &str) -> Option<ListKind> {
        ListKind::ALL
            .into_iter()
            .find(|kind| kind.method() == method)
    }

    pub(crate) fn method(self) -> &'static str {
        match self {
            ListKind::Tools => "tools/list",
            ListKind::Prompts => "prompts/list",
            ListKind::Resources => "resources/list",
            ListKind::Templates => "resources/templates/list",
        }
    }

    /// The member of the result that holds the items.
    pub(crate) fn member(self) -> &'static str {
        match self {
            ListKind::Tools => "tools",
            ListKind::Prompts => "prompts",
            ListKind::Resources => "resources",
            ListKind::Templates => "resourceTemplates",
        }
    }

    /// The member of an item by which it is asked for.
    pub(crate) fn key(self) -> &'static str {
        match self {
            ListKind::Tools | ListKind::Prompts => "name",
            ListKind::Resources => "uri",
            ListKind::Templates => "uriTemplate",
        }
    }

    /// Whether items of two servers must not have one name.
    pub(crate) fn is_named(self) -> bool {
        matches!(self, ListKind::Tools | ListKind::Prompts)
    }

    /// What uses an item, and what it is to policies and pins.
    pub(crate) fn used_by(self) -> (&'static Action, ItemKind) {
        match self {
            ListKind::Tools => (&CALL, ItemKind::Tool),
            ListKind::Prompts => (&PROMPT, ItemKind::Prompt),
            ListKind::Resources | ListKind::Templates => (&READ, ItemKind::Resource),
        }
    }
}

/// The message with its list judged.
///
/// An item whose definition the scan refuses, or that is not what was approved, is left out, as one that
/// policy hides is: one bad item does not take the others away. What stands beside the items is scanned as
/// any answer is.
pub(crate) fn judge(
    passed: &mut Passed,
    declared: &Declared,
    kind: ListKind,
    message: &str,
) -> Result<Bytes, Refusal> {
    let invalid = || invalid(kind);
    let mut object = Object::read(message).ok_or_else(invalid)?;
    let result = object.get("result").ok_or_else(invalid)?.get().to_owned();
    let mut result = Object::read(&result).ok_or_else(invalid)?;
    let member = kind.member();
    let misspells =
        |key: &str| names::misspells(key, names::LIST) || names::misspells(key, &[member]);
    if result.keys().any(misspells) {
        return Err(invalid());
    }
    let list = result.get(member).ok_or_else(invalid)?.get().to_owned();
    let items: Vec<&RawValue> = serde_json::from_str(&list).map_err(|_| invalid())?;
    if items.len() > TOOLS_MAX {
        return Err(Refusal::new(
            refusal::ANSWER_TOO_LARGE,
            "the server lists too many items at once",
        ));
    }

    let mut changed = false;
    let mut kept: Vec<Cow<'_, str>> = Vec::with_capacity(items.len());
    let twice = listed_twice(kind, &items);
    for (i, item) in items.iter().enumerate() {
        match twice.get(&i) {
            None => {}
            Some(Again::Same) => {
                changed = true;
                continue;
            }
            Some(Again::Differs) => {
                // To the pins it is a change of the first, which waits for a person; nobody is shown it.
                judge_item(passed, declared, kind, (item, i))?;
                tracing::info!(
                    server = %server_of(passed),
                    "the server lists two different items of one name; the first is shown"
                );
                changed = true;
                continue;
            }
        }
        match judge_item(passed, declared, kind, (item, i))? {
            Some(judged) => {
                changed |= matches!(judged, Cow::Owned(_));
                kept.push(judged);
            }
            None => changed = true,
        }
    }
    result.set(member, "[]".to_owned()).ok_or_else(invalid)?;
    object.set("result", result.to_json()).ok_or_else(invalid)?;
    let rest = object.to_json();
    let index = Json::read(rest.as_bytes()).map_err(|_| invalid())?;
    match (passed.answer(index.root(), "")?, changed) {
        (Answer::AsItCame, false) => Ok(Bytes::copy_from_slice(message.as_bytes())),
        (Answer::AsItCame, true) => with_items(kind, &rest, &kept),
        (Answer::Redacted(json), _) if !shape::is_kept(rest.as_bytes(), &json) => {
            let public = "a secret stands where it cannot be taken out of the list";
            Err(Refusal::new(refusal::SECRET, public).of_answer())
        }
        (Answer::Redacted(json), _) => {
            let rest = std::str::from_utf8(&json).map_err(|_| invalid())?;
            with_items(kind, rest, &kept)
        }
    }
}

/// What an item is whose name stands in the list before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Again {
    /// What the first of its name says.
    Same,
    /// Something else: clients would differ about which of the two they read.
    Differs,
}

/// The items whose name a list has before them, by their places.
fn listed_twice(kind: ListKind, items: &[&RawValue]) -> HashMap<usize, Again> {
    let read = |at: usize| serde_json::from_str::<serde_json::Value>(items[at].get()).ok();
    let mut first: HashMap<String, usize> = HashMap::new();
    let mut twice = HashMap::new();
    for (at, item) in items.iter().enumerate() {
        let members = Object::read(item.get());
        let name = members.and_then(|members| {
            let name = members.get(kind.key())?;
            serde_json::from_str::<String>(name.get()).ok()
        });
        // What has no name is refused when it is judged.
        let Some(name) = name else { continue };
        match first.entry(name) {
            Entry::Vacant(place) => drop(place.insert(at)),
            Entry::Occupied(before) => {
                let is_same = read(at).is_some() && read(at) == read(*before.get());
                let again = if is_same { Again::Same } else { Again::Differs };
                twice.insert(at, again);
            }
        }
    }
    twice
}

/// One definition as it may pass; nothing where it may not.
fn judge_item<'t>(
    passed: &mut Passed,
    declared: &Declared,
    kind: ListKind,
    (item, at): (&'t RawValue, usize),
) -> Result<Option<Cow<'t, str>>, Refusal> {
    let invalid = || invalid(kind);
    let text = item.get();
    let members = Object::read(text).ok_or_else(invalid)?;
    let known = match kind {
        ListKind::Tools => names::TOOL,
        ListKind::Prompts => names::PROMPT,
        ListKind::Resources | ListKind::Templates => names::RESOURCE,
    };
    if members.keys().any(|key| names::misspells(key, known)) || members.folds() {
        // Another reader would see another item.
        return Ok(None);
    }
    let name = members.get(kind.key()).ok_or_else(invalid)?;
    let name: String = serde_json::from_str(name.get()).map_err(|_| invalid())?;
    let server = server_of(passed).clone();
    if let Some(schema) = members
        .get("inputSchema")
        .filter(|_| kind == ListKind::Tools)
    {
        declared.see(&server, &name, schema.get());
    }
    let (action, item_kind) = kind.used_by();
    let named = ServerItem {
        kind: item_kind,
        name: name.into(),
    };
    let resource = Resource::Server {
        server: server.clone(),
        item: Some(named.clone()),
    };
    let withheld = || {
        declared.withheld.note(&server, &named);
        Ok(None)
    };
    if !passed.may_list(action, &resource) {
        return withheld();
    }
    let root = format!("result.{}[{at}]", kind.member());
    let is_kept = |redacted: &[u8]| shape::is_kept(text.as_bytes(), redacted);
    match passed.definition(&named, text.as_bytes(), &root, is_kept) {
        Ok(Answer::AsItCame) => Ok(Some(Cow::Borrowed(text))),
        Ok(Answer::Redacted(json)) => {
            let json = String::from_utf8(json).map_err(|_| invalid())?;
            Ok(Some(Cow::Owned(json)))
        }
        Err(_refused) => withheld(),
    }
}

/// The message with these items in its empty list.
fn with_items(kind: ListKind, rest: &str, items: &[Cow<'_, str>]) -> Result<Bytes, Refusal> {
    let put = || {
        let mut object = Object::read(rest)?;
        let result = object.get("result")?.get().to_owned();
        let mut result = Object::read(&result)?;
        result.set(kind.member(), format!("[{}]", items.join(",")))?;
        object.set("result", result.to_json())?;
        Some(Bytes::from(object.to_json()))
    };
    put().ok_or_else(|| invalid(kind))
}

fn invalid(kind: ListKind) -> Refusal {
    let public = format!("the server's {} is not one", kind.method());
    Refusal::new(refusal::ANSWER_INVALID, public)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_listed_twice_is_known() {
        let items = [
            r#"{"name":"a","description":"one"}"#,
            r#"{"name":"b","description":"x"}"#,
            r#"{ "description": "one", "name": "a" }"#,
            r#"{"name":"b","description":"y"}"#,
            r#"{"name":"c"}"#,
        ];
        let items: Vec<&RawValue> = items
            .iter()
            .map(|item| serde_json::from_str(item).unwrap())
            .collect();
        let twice = listed_twice(ListKind::Tools, &items);
        let expected = [(2, Again::Same), (3, Again::Differs)];
        assert_eq!(twice, expected.into_iter().collect());
    }
}
