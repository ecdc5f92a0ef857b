//! A message from one era to the other, where a client and a server are not of the same.
//!
//! Requests are restated before they are judged, so that what is judged is what the server gets; answers after they were
//! judged. What an era does not have is left out; what it has to have is put in. Example: the result `{"content":[]}` of a
//! server of 2025-11-25 becomes `{"content":[],"resultType":"complete"}` for a client of 2026-07-28.

use base::refusal::{self, Code};
use base::{Json, JsonValue};
use bytes::Bytes;
use serde_json::{Value, json};

use super::say;
use super::talk::Waits;
use crate::envelope::{Object, splice};
use crate::era::{CapabilitySet, Era, MessageEra, Revision};
use crate::incoming::Parsed;
use crate::listing::ListKind;

const META: &str = "_meta";
/// What each request of the modern era says of itself.
const OWN_META: [&str; 4] = [
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/logLevel",
];
/// Members of results that the legacy era does not have.
const MODERN_RESULT: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];
/// The error of a resource that there is not, in each era.
const LEGACY_NOT_FOUND: i64 = -32002;
const MODERN_NOT_FOUND: i64 = -32602;

/// What is between a client at one URL and the server that answers it.
#[derive(Clone, Debug)]
pub(crate) struct Bridge {
    client: Era,
    server: Era,
    /// The client's token for progress as it was written; the server has ours.
    progress: Option<String>,
    /// The result says how long it may be kept.
    is_cacheable: bool,
    /// The client wants messages of the server's log.
    wants_log: bool,
    /// Whether the server may ask the client something.
    may_ask: bool,
    /// Set while the server waits for its client.
    waits: Waits,
}

impl Bridge {
    pub(crate) fn new(
        method: &str,
        client: Era,
        server: Era,
        progress: Option<&str>,
        wants_log: bool,
    ) -> Bridge {
        Bridge {
            client,
            server,
            progress: progress.map(str::to_owned),
            is_cacheable: method == "resources/read" || ListKind::of(method).is_some(),
            wants_log: wants_log || client == Era::Legacy,
            may_ask: false,
            waits: Waits::default(),
        }
    }

    /// The same, where the server may ask the client something.
    pub(crate) fn asking(mut self) -> Bridge {
        self.may_ask = true;
        self
    }

    /// Set while the server waits for its client.
    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    pub(crate) fn client(&self) -> Era {
        self.client
    }

    /// A message of the server as its client reads it; nothing where it is none of its.
    ///
    /// # Errors
    /// The code of what is said in its place.
    pub(crate) fn across(&self, message: Bytes, own: &str) -> Result<Option<Bytes>, &'static Code> {
        let Ok(json) = Json::read(&message) else {
            return Ok(Some(message));
        };
        let root = json.root();
        if let Some(method) = root.get("method").and_then(JsonValue::as_str) {
            let told = match (&*method, root.get("id")) {
                (_, Some(_)) => self.may_ask.then(|| message.clone()),
                ("notifications/progress", None) => self.progress(&message, root, own),
                ("notifications/message", None) if !self.wants_log => None,
                _ => Some(message.clone()),
            };
            return Ok(told);
        }
        if self.client == self.server {
            return Ok(Some(message));
        }
        let asks = |result: JsonValue<'_>| {
            let kind = result.get("resultType").and_then(JsonValue::as_str);
            kind.as_deref() == Some("input_required")
        };
        match (root.get("result"), root.get("error"), self.client) {
            (Some(result), _, Era::Legacy) if asks(result) && self.may_ask => Ok(Some(message)),
            (Some(result), _, Era::Legacy) if asks(result) => Err(refusal::CAPABILITY_MISSING),
            (Some(_), _, _) => Ok(Some(self.result(&message).unwrap_or(message))),
            (None, Some(error), Era::Modern) => Ok(Some(
                with_code(&message, error, LEGACY_NOT_FOUND, MODERN_NOT_FOUND).unwrap_or(message),
            )),
            _ => Ok(Some(message)),
        }
    }

    /// A message of progress under the client's own token.
    fn progress(&self, message: &Bytes, root: JsonValue<'_>, own: &str) -> Option<Bytes> {
        let token = root.get("params")?.get("progressToken")?;
        let client = self.progress.as_deref()?;
        (token.text() == own).then(|| splice(message, token.span(), client))
    }

    fn result(&self, message: &Bytes) -> Option<Bytes> {
        let mut object = Object::read(std::str::from_utf8(message).ok()?)?;
        let result = object.get("result")?.get().to_owned();
        let mut result = Object::read(&result)?;
        match self.client {
            Era::Legacy => result.remove(&MODERN_RESULT),
            Era::Modern => {
                result.put("resultType", "\"complete\"".to_owned())?;
                if self.is_cacheable {
                    result.put("ttlMs", "0".to_owned())?;
                    result.put("cacheScope", "\"private\"".to_owned())?;
                }
                let meta = result.get(META).map_or("{}", |meta| meta.get()).to_owned();
                let mut meta = Object::read(&meta)?;
                if meta.get(say::SERVER_INFO).is_none() {
                    meta.put(say::SERVER_INFO, say::info().to_string())?;
                }
                result.put(META, meta.to_json())?;
            }
        }
        object.put("result", result.to_json())?;
        Some(Bytes::from(object.to_json()))
    }
}

fn with_code(message: &Bytes, error: JsonValue<'_>, from: i64, to: i64) -> Option<Bytes> {
    let code = error.get("code")?;
    (code.text() == from.to_string()).then(|| splice(message, code.span(), &to.to_string()))
}

/// What a request says of a client whose era has not each request say it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ToldClient {
    pub(crate) can: CapabilitySet,
    /// The level of the log that it wants; none where it is empty.
    pub(crate) level: &'static str,
}

impl ToldClient {
    pub(crate) fn of(can: CapabilitySet) -> ToldClient {
        ToldClient { can, level: "" }
    }
}

/// What a request of weir's own says of itself in the modern era.
pub(crate) fn meta(revision: &Revision, told: ToldClient) -> Value {
    let mut meta = json!({
        OWN_META[0]: revision.date,
        OWN_META[1]: told.can.to_json(),
        OWN_META[2]: say::info(),
    });
    if !told.level.is_empty() {
        meta[OWN_META[3]] = told.level.into();
    }
    meta
}

/// A request as it is judged and sent to the server that it is for. Nothing where its params are no object.
pub(crate) fn restate(
    parsed: &Parsed<'_>,
    renamed: Option<(&'static str, String)>,
    bridge: &Bridge,
    to: &MessageEra,
    told: ToldClient,
) -> Option<Bytes> {
    let mut object = Object::read(parsed.whole().text())?;
    let params = object
        .get("params")
        .map_or("{}", |params| params.get())
        .to_owned();
    let mut params = Object::read(&params)?;
    match renamed {
        Some(("ref", name)) => {
            let named = params.get("ref")?.get().to_owned();
            let mut named = Object::read(&named)?;
            named.put("name", Value::from(name).to_string())?;
            params.put("ref", named.to_json())?;
        }
        Some((member, name)) => params.put(member, Value::from(name).to_string())?,
        None => {}
    }
    let meta = params.get(META).map_or("{}", |meta| meta.get()).to_owned();
    let mut meta = Object::read(&meta)?;
    match (bridge.client, to) {
        (Era::Modern, MessageEra::Legacy(_)) => meta.remove(&OWN_META),
        (Era::Legacy, MessageEra::Modern(modern)) => {
            if let Value::Object(own) = self::meta(modern.revision, told) {
                for (key, value) in own {
                    meta.put(&key, value.to_string())?;
                }
            }
        }
        _ => {}
    }
    match meta.is_empty() {
        true => params.remove(&[META]),
        false => params.put(META, meta.to_json())?,
    }
    object.put("params", params.to_json())?;
    Some(Bytes::from(object.to_json()))
}

/// A request that asks for progress, with another token for it.
pub(crate) fn with_token(message: &Bytes, token: &str) -> Bytes {
    let put = || {
        let json = Json::read(message).ok()?;
        let given = json.root().get("params")?.get(META)?.get("progressToken")?;
        Some(splice(message, given.span(), token))
    };
    put().unwrap_or_else(|| message.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn across(bridge: &Bridge, message: &str) -> Result<Option<String>, &'static str> {
        let crossed = bridge.across(Bytes::from(message.to_owned()), "\"w1\"");
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        crossed
            .map(|crossed| crossed.map(text))
            .map_err(|code| code.name)
    }

    #[test]
    fn an_answer_of_the_other_era() {
        let old = Bridge::new("tools/call", Era::Modern, Era::Legacy, None, false);
        let said = across(&old, r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#);
        let said: Value = serde_json::from_str(&said.unwrap().unwrap()).unwrap();
        assert_eq!(said["result"]["resultType"], "complete");
        assert_eq!(said["result"]["_meta"][say::SERVER_INFO]["name"], "weir");
        assert_eq!(said["result"].get("ttlMs"), None);
        let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"x"}}"#;
        let said = across(&old, error).unwrap().unwrap();
        assert_eq!(said, error.replace("-32002", "-32602"));
        let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
        assert_eq!(across(&old, log), Ok(None));

        let new = Bridge::new("resources/read", Era::Legacy, Era::Modern, None, false);
        let whole = r#"{"jsonrpc":"2.0","id":1,"result":{"contents":[],"resultType":"complete","ttlMs":5,"cacheScope":"public"}}"#;
        let bare = r#"{"jsonrpc":"2.0","id":1,"result":{"contents":[]}}"#;
        assert_eq!(across(&new, whole), Ok(Some(bare.to_owned())));
        let asks = r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}"#;
        assert_eq!(across(&new, asks), Err("mcp.capability_missing"));
        assert_eq!(across(&new, log), Ok(Some(log.to_owned())));
    }

    #[test]
    fn progress_has_the_token_of_its_client() {
        let bridge = Bridge::new("tools/call", Era::Legacy, Era::Legacy, Some("7"), false);
        let progress = |token: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
            )
        };
        assert_eq!(
            across(&bridge, &progress("\"w1\"")),
            Ok(Some(progress("7")))
        );
        assert_eq!(across(&bridge, &progress("\"w2\"")), Ok(None));
        let asks = r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#;
        assert_eq!(across(&bridge, asks), Ok(None));
    }
}
