//! What a client is capable of when a server asks it something.

use base::{JsonKind, JsonValue};
use serde_json::{Value, json};

/// The capabilities of a client, as far as a server may ask for them: a number, so that sessions are found by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CapabilitySet(u8);

const ROOTS: u8 = 1;
const SAMPLING: u8 = 2;
const SAMPLING_TOOLS: u8 = 4;
const FORM: u8 = 8;
const URL: u8 = 16;

impl CapabilitySet {
    /// As a client declares them. `elicitation: {}` is that of forms, as it was before there was another.
    pub(crate) fn of(declared: Option<JsonValue<'_>>) -> CapabilitySet {
        let is_there = |value: Option<JsonValue<'_>>| {
            value.is_some_and(|value| value.kind() == JsonKind::Object)
        };
        let member = |name: &str| declared.and_then(|declared| declared.get(name));
        let mut bits = 0;
        if is_there(member("roots")) {
            bits |= ROOTS;
        }
        if let Some(sampling) = member("sampling").filter(|value| is_there(Some(*value))) {
            bits |= SAMPLING;
            if is_there(sampling.get("tools")) {
                bits |= SAMPLING_TOOLS;
            }
        }
        if let Some(elicitation) = member("elicitation").filter(|value| is_there(Some(*value))) {
            let (form, url) = (elicitation.get("form"), elicitation.get("url"));
            if is_there(url) {
                bits |= URL;
            }
            if is_there(form) || url.is_none() {
                bits |= FORM;
            }
        }
        CapabilitySet(bits)
    }

    pub(crate) fn from_bits(bits: u8) -> CapabilitySet {
        CapabilitySet(bits & (ROOTS | SAMPLING | SAMPLING_TOOLS | FORM | URL))
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    /// As a server is told them.
    pub(crate) fn to_json(self) -> Value {
        let mut declared = json!({});
        if self.has(ROOTS) {
            declared["roots"] = json!({});
        }
        if self.has(SAMPLING) {
            declared["sampling"] = match self.has(SAMPLING_TOOLS) {
                true => json!({ "tools": {} }),
                false => json!({}),
            };
        }
        if self.has(FORM) || self.has(URL) {
            let mut elicitation = json!({});
            if self.has(URL) {
                elicitation["url"] = json!({});
                if self.has(FORM) {
                    elicitation["form"] = json!({});
                }
            }
            declared["elicitation"] = elicitation;
        }
        declared
    }

    /// The capability that a question of a server needs and the client has not; nothing where it has it.
    ///
    /// # Errors
    /// The name of what is missing; that of the method where no client can be asked that.
    pub(crate) fn check<'m>(
        self,
        method: &'m str,
        params: Option<JsonValue<'_>>,
    ) -> Result<(), &'m str> {
        let member = |name: &str| params.and_then(|params| params.get(name));
        let mode = member("mode").and_then(JsonValue::as_str);
        let (bit, name) = match method {
            "roots/list" => (ROOTS, "roots"),
            "sampling/createMessage" if member("tools").is_some() => {
                (SAMPLING_TOOLS, "sampling.tools")
            }
            "sampling/createMessage" => (SAMPLING, "sampling"),
            "elicitation/create" if mode.as_deref() == Some("url") => (URL, "elicitation.url"),
            "elicitation/create" => (FORM, "elicitation.form"),
            other => return Err(other),
        };
        match self.has(bit) {
            true => Ok(()),
            false => Err(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use base::Json;

    use super::*;

    #[test]
    fn what_is_declared_is_told() {
        for (declared, told) in [
            ("{}", "{}"),
            (r#"{"roots":{"listChanged":true}}"#, r#"{"roots":{}}"#),
            (r#"{"elicitation":{}}"#, r#"{"elicitation":{}}"#),
            (r#"{"elicitation":{"form":{}}}"#, r#"{"elicitation":{}}"#),
            (
                r#"{"elicitation":{"url":{}}}"#,
                r#"{"elicitation":{"url":{}}}"#,
            ),
            (
                r#"{"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}}}"#,
                r#"{"sampling":{"tools":{}},"elicitation":{"url":{},"form":{}}}"#,
            ),
            (r#"{"roots":true,"sampling":null,"tasks":{}}"#, "{}"),
        ] {
            let json = Json::read(declared.as_bytes()).unwrap();
            let set = CapabilitySet::of(Some(json.root()));
            let wanted: Value = serde_json::from_str(told).unwrap();
            assert_eq!(set.to_json(), wanted, "{declared}");
            assert_eq!(CapabilitySet::from_bits(set.bits()), set);
            let again = wanted.to_string();
            let json = Json::read(again.as_bytes()).unwrap();
            assert_eq!(CapabilitySet::of(Some(json.root())), set, "{declared}");
        }
    }

    #[test]
    fn a_question_needs_its_capability() {
        let check = |declared: &str, method: &str, params: &str| {
            let declared = Json::read(declared.as_bytes()).unwrap();
            let params = Json::read(params.as_bytes()).unwrap();
            let set = CapabilitySet::of(Some(declared.root()));
            set.check(method, Some(params.root()))
                .map_err(str::to_owned)
        };
        let all = r#"{"roots":{},"sampling":{},"elicitation":{}}"#;
        assert_eq!(check(all, "roots/list", "{}"), Ok(()));
        assert_eq!(check(all, "elicitation/create", "{}"), Ok(()));
        for (method, params, missing) in [
            ("elicitation/create", r#"{"mode":"url"}"#, "elicitation.url"),
            (
                "sampling/createMessage",
                r#"{"tools":[]}"#,
                "sampling.tools",
            ),
            ("tasks/list", "{}", "tasks/list"),
        ] {
            assert_eq!(check(all, method, params), Err(missing.to_owned()));
        }
        assert_eq!(
            check("{}", "sampling/createMessage", "{}"),
            Err("sampling".to_owned())
        );
    }
}
