//! One message of an agent: what is judged of it, and what goes on to the server.
//!
//! The id of a request does not go on: the server sees one of ours, so that its answer cannot be taken for
//! another's, and so that an id carries nothing out. All else goes on as the bytes that came, but for what
//! the scan redacted.

use base::limit::TOOL_NAME_CHARS_MAX;
use base::{Action, ItemKind, JsonKind, JsonValue, Name, Refusal, Resource, ServerItem, refusal};
use bytes::Bytes;
use gate::{Call, ContentPart, PartContent, Passed, Role};
use http::HeaderMap;

use crate::actions::{CALL, PROMPT, READ, USE};
use crate::answers::{Answers, AskedMethod};
use crate::calls::own_id;
use crate::declared::Declared;
use crate::envelope::{Id, Invalid, Message, MessageText, Object, Params, Sender, span, splice};
use crate::era::fields::{self, GivenParam};
use crate::era::{Era, MessageEra, may_ask};
use crate::listing::ListKind;
use crate::methods::{self, Method};
use crate::shape;

/// How often a URI may be percent-encoded over.
const DECODED_MAX: usize = 4;

/// Longest URI of a resource, in bytes.
pub(crate) const URI_BYTES_MAX: usize = 4 << 10;

/// What a message says, as far as it is judged.
pub(crate) struct Incoming<'m> {
    pub(crate) method: &'m str,
    pub(crate) id: Option<Id<'m>>,
    pub(crate) params: Params<'m>,
    known: Method,
    /// What of the message is the agent's to write, and not looked at yet.
    content: Content<'m>,
    /// The same, for the gate.
    part: Option<ContentPart<'m>>,
    /// The same with the fields that go on as they came, where there are any.
    parts: Vec<ContentPart<'m>>,
    /// What the message names of its server.
    item: Option<ServerItem>,
    pub(crate) era: &'m MessageEra,
}

/// The part of a message that is scanned.
#[derive(Clone, Copy)]
enum Content<'m> {
    /// The parameters of a method that is known.
    Params(Option<JsonValue<'m>>),
    /// The whole of a message whose method or id is the agent's own words.
    Whole(JsonValue<'m>),
}

impl<'m> Content<'m> {
    fn part(self) -> Option<ContentPart<'m>> {
        let (json, path) = match self {
            Content::Params(params) => (params?, "params"),
            Content::Whole(message) => (message, ""),
        };
        Some(ContentPart {
            role: Role::Argument,
            path,
            content: PartContent::Json(json),
        })
    }
}

/// A message of an agent that can be read. `folds` is for [`Incoming::read`].
pub(crate) struct Parsed<'m> {
    pub(crate) message: Message<'m>,
    whole: JsonValue<'m>,
    folds: bool,
}

impl<'m> Parsed<'m> {
    /// The whole message.
    pub(crate) fn whole(&self) -> JsonValue<'m> {
        self.whole
    }

    pub(crate) fn params(&self) -> Option<JsonValue<'m>> {
        match &self.message {
            Message::Request { params, .. } | Message::Notification { params, .. } => *params,
            Message::Response { .. } => None,
        }
    }

    /// The token under which a request wants progress, as it was written.
    pub(crate) fn progress(&self) -> Option<&'m str> {
        let token = self.params()?.get("_meta")?.get("progressToken")?;
        (token.kind() != JsonKind::Null).then(|| token.text())
    }
}

/// Reads a message of an agent.
pub(crate) fn parse<'m>(body: &'m MessageText<'m>) -> Result<Parsed<'m>, Refusal> {
    let (message, folds) = body.read_arguments(Sender::Agent).map_err(refusal_of)?;
    let whole = body.whole().map_err(refusal_of)?;
    let is_call = matches!(&message, Message::Request { method, .. } if method == "tools/call");
    match folds && !is_call {
        true => Err(refusal_of(Invalid::Folded)),
        false => Ok(Parsed {
            message,
            whole,
            folds,
        }),
    }
}

impl<'m> Incoming<'m> {
    /// Judges what can be judged without the gate: the method, and the names of a call's arguments.
    pub(crate) fn read(
        parsed: &'m Parsed<'m>,
        era: &'m MessageEra,
        server: &Name,
        declared: &Declared,
    ) -> Result<Incoming<'m>, Refusal> {
        let (method, id, params) = match &parsed.message {
            Message::Request { id, method, params } => (&**method, Some(*id), *params),
            Message::Notification { method, params } => (&**method, None, *params),
            Message::Response { .. } => return Ok(Incoming::response(parsed.whole, era)),
        };
        let mut known = methods::read(method, id.is_some())?;
        let (read, item) = if *known.action == CALL {
            let read = Params::read(params).map_err(refusal_of)?;
            let tool = item(ItemKind::Tool, read.name.as_deref())?;
            declared.check(server, &tool.name, read.arguments, parsed.folds)?;
            declared.check_fields(server, &tool.name, read.arguments, era)?;
            (read, Some(tool))
        } else {
            let item = named(&mut known, method, params, era)?;
            // Other methods may use the same names for something else.
            (Params::read(params).unwrap_or_default(), item)
        };
        let content = match known.is_known {
            true => Content::Params(params),
            false => Content::Whole(parsed.whole),
        };
        let mut said = Incoming {
            method,
            id,
            params: read,
            known,
            content,
            part: content.part(),
            parts: Vec::new(),
            item,
            era,
        };
        if !era.params().is_empty() {
            let fields = era.params().iter().map(GivenParam::part);
            said.parts = said.part.into_iter().chain(fields).collect();
        }
        Ok(said)
    }

    /// The answer to a request of the server.
    fn response(whole: JsonValue<'m>, era: &'m MessageEra) -> Incoming<'m> {
        Incoming {
            method: "response",
            id: None,
            params: Params::default(),
            known: Method {
                action: &USE,
                is_known: false,
            },
            content: Content::Whole(whole),
            part: Content::Whole(whole).part(),
            parts: Vec::new(),
            item: None,
            era,
        }
    }

    /// What the message is asked of: the server, and the item that it names.
    pub(crate) fn resource(&self, server: &Name) -> Resource {
        Resource::Server {
            server: server.clone(),
            item: self.item.clone(),
        }
    }

    /// The call that the message is; `bare` says what is known of it without the message.
    pub(crate) fn call<'c>(
        &'c self,
        bare: Call<'c>,
        resource: &'c Resource,
        body: &Bytes,
    ) -> Call<'c> {
        Call {
            action: self.known.action,
            method: self.method,
            resource,
            content: match self.parts.is_empty() {
                true => self.part.as_slice(),
                false => &self.parts,
            },
            arguments: self.params.arguments,
            bytes: body.len() as u64,
            ..bare
        }
    }

    /// The bytes to send on: those that came, or what the scan redacted in them, with an id of ours.
    /// `cancels` is the id that the server was given for the request that a `notifications/cancelled` is about.
    pub(crate) fn message(
        &self,
        passed: &Passed,
        body: &Bytes,
        cancels: Option<&str>,
    ) -> Result<Bytes, Refusal> {
        let own = self.id.map(|_| own_id(base::Permit::call(passed)));
        let Some(redacted) = passed.redacted(0) else {
            let requested = self.params.request_id.map(JsonValue::text);
            let id = self.id.map(|id| id.0).zip(own.as_deref());
            // One of the two at most: a notification has no id.
            let replaced = id.or(requested.zip(cancels));
            return Ok(match replaced {
                Some((part, with)) => splice(body, span(body, part), with),
                None => body.clone(),
            });
        };
        self.with_redacted(body, redacted, own, cancels)
            .ok_or_else(|| {
                let public =
                    "a secret stands where it cannot be taken out: in a name, a method or an id";
                Refusal::new(refusal::SECRET, public)
            })
    }

    /// The message as the scan redacted it. Nothing where that took away what it is.
    fn with_redacted(
        &self,
        body: &[u8],
        redacted: &[u8],
        own: Option<String>,
        cancels: Option<&str>,
    ) -> Option<Bytes> {
        let judged = match self.content {
            Content::Params(params) => params?.bytes(),
            Content::Whole(message) => message.bytes(),
        };
        if !shape::is_kept(judged, redacted) {
            return None;
        }
        let redacted = std::str::from_utf8(redacted).ok()?;
        let before = std::str::from_utf8(body).ok()?;
        let mut object = Object::read(before)?;
        match self.content {
            Content::Params(_) => object.set("params", redacted.to_owned())?,
            Content::Whole(_) => {
                let after = Object::read(redacted)?;
                for key in ["params", "result", "error"] {
                    if let Some(value) = after.get(key) {
                        object.set(key, value.get().to_owned())?;
                    }
                }
            }
        }
        if let Some(own) = own {
            object.set("id", own)?;
        }
        if let Some(cancels) = cancels {
            let params = object.get("params")?.get().to_owned();
            let mut params = Object::read(&params)?;
            params.set("requestId", cancels.to_owned())?;
            object.set("params", params.to_json())?;
        }
        Some(Bytes::from(object.to_json()))
    }

    /// The fields that a message of the modern era goes on with: made of the body that goes on.
    pub(crate) fn fields(
        &self,
        passed: &Passed,
        server: &Name,
        declared: &Declared,
        message: &Bytes,
    ) -> Result<HeaderMap, Refusal> {
        let mut fields = HeaderMap::new();
        let MessageEra::Modern(modern) = self.era else {
            return Ok(fields);
        };
        if (1..self.parts.len()).any(|part| passed.redacted(part).is_some()) {
            let public = "a secret stands where it cannot be taken out: in a header field";
            return Err(Refusal::new(refusal::SECRET, public));
        }
        let redacted = passed.redacted(0).map(|_| MessageText::of(message));
        let redacted = redacted.as_ref().and_then(|text| text.whole().ok());
        let params = match (redacted, self.content) {
            (Some(message), _) => message.get("params"),
            (None, Content::Params(params)) => params,
            (None, Content::Whole(message)) => message.get("params"),
        };
        fields::put(&mut fields, self.method, params, modern.is_named);
        let arguments = params.and_then(|params| params.get("arguments"));
        let tool = self.item.as_ref();
        let tool = tool.filter(|item| item.kind == ItemKind::Tool);
        let made = tool.map(|tool| declared.fields(server, &tool.name, arguments));
        let made = made.unwrap_or_default();
        let given = self.era.params().iter();
        for given in given.filter(|given| !made.knows(&given.name)) {
            fields.insert(given.name.clone(), fields::encoded(&given.text));
        }
        fields.extend(made.fields);
        Ok(fields)
    }

    /// What judges the answers; `key` seals what a server gives to be sent back.
    pub(crate) fn answers(&self, passed: Passed, key: &[u8; 32]) -> Answers {
        let id = self.id.map(|id| id.0.to_owned());
        let asked = match (self.method, self.era.era()) {
            ("subscriptions/listen", Era::Modern) => AskedMethod::Listen,
            (method, _) => ListKind::of(method).map_or(AskedMethod::Other, AskedMethod::List),
        };
        let answers = Answers::new(passed, asked, id);
        match self.era.era() {
            Era::Legacy => answers,
            Era::Modern => answers.modern(may_ask(self.method), *key, self.era.can()),
        }
    }

    /// The token under which the request wants progress, as it was written.
    pub(crate) fn progress(&self) -> Option<String> {
        self.params.progress.map(|token| token.text().to_owned())
    }

    /// The id of the request that the message cancels, as it was written.
    pub(crate) fn cancels(&self) -> Option<&'m str> {
        let is_cancel = self.method == "notifications/cancelled";
        self.params
            .request_id
            .filter(|_| is_cancel)
            .map(JsonValue::text)
    }
}

/// What a request asks of an item, before its server is known.
pub(crate) struct AskedItem {
    pub(crate) action: &'static Action,
    pub(crate) item: ServerItem,
}

impl AskedItem {
    /// The call of a tool.
    pub(crate) fn tool(name: &str) -> AskedItem {
        let (kind, name) = (ItemKind::Tool, name.into());
        AskedItem {
            action: &CALL,
            item: ServerItem { kind, name },
        }
    }

    /// The reading of a resource, or a subscription to it.
    pub(crate) fn resource(uri: &str) -> AskedItem {
        let (kind, name) = (ItemKind::Resource, uri.into());
        AskedItem {
            action: &READ,
            item: ServerItem { kind, name },
        }
    }

    /// The item that a request names; nothing where its method names none.
    ///
    /// # Errors
    /// `mcp.message_invalid` where it gives no name, or one that is too long.
    pub(crate) fn read(
        method: &str,
        params: Option<JsonValue<'_>>,
        era: &MessageEra,
    ) -> Result<Option<AskedItem>, Refusal> {
        let mut known = methods::read(method, true)?;
        let item = match *known.action == CALL {
            true => {
                let name = params.and_then(|params| params.get("name")?.as_str());
                Some(item(ItemKind::Tool, name.as_deref())?)
            }
            false => named(&mut known, method, params, era)?,
        };
        let action = known.action;
        Ok(item.map(|item| AskedItem { action, item }))
    }
}

/// The prompt or resource that a request names, if its method names one. What completes is judged as the use of what is
/// completed.
fn named(
    known: &mut Method,
    method: &str,
    params: Option<JsonValue<'_>>,
    era: &MessageEra,
) -> Result<Option<ServerItem>, Refusal> {
    let text = |key: &str| params?.get(key)?.as_str();
    if *known.action == PROMPT {
        return item(ItemKind::Prompt, text("name").as_deref()).map(Some);
    }
    let is_gone = era.era() == Era::Modern && method != "resources/read";
    if *known.action == READ && is_gone && text("uri").is_none() {
        // 2026-07-28 has no such method, which is its server's to say.
        known.action = &USE;
        return Ok(None);
    }
    if *known.action == READ {
        return item(ItemKind::Resource, text("uri").as_deref()).map(Some);
    }
    if method != "completion/complete" {
        return Ok(None);
    }
    let member = |key: &str| params?.get("ref")?.get(key)?.as_str();
    let (action, kind, key) = match member("type").as_deref() {
        Some("ref/prompt") => (&PROMPT, ItemKind::Prompt, "name"),
        Some("ref/resource") => (&READ, ItemKind::Resource, "uri"),
        // Its server says what is wrong with it.
        _ => return Ok(None),
    };
    known.action = action;
    item(kind, member(key).as_deref()).map(Some)
}

/// An item by the name that a request gives.
fn item(kind: ItemKind, name: Option<&str>) -> Result<ServerItem, Refusal> {
    let name = name.filter(|name| !name.is_empty());
    let (fits, what) = match kind {
        ItemKind::Tool | ItemKind::Prompt | ItemKind::Card => (
            name.is_some_and(|name| name.chars().count() <= TOOL_NAME_CHARS_MAX),
            "no name is given, or one of more than 256 characters",
        ),
        ItemKind::Resource => (
            name.is_some_and(|uri| uri.len() <= URI_BYTES_MAX),
            "no URI is given, or one of more than 4 KiB",
        ),
    };
    if kind == ItemKind::Resource && name.is_some_and(has_dot_segment) {
        let public = "the URI has a segment that is . or .., which its server may resolve to another place than a policy reads";
        return Err(Refusal::new(refusal::URI_DOTS, public));
    }
    match name.filter(|_| fits) {
        Some(name) => Ok(ServerItem {
            kind,
            name: name.into(),
        }),
        None => {
            let public = format!("of the {} that is asked for {what}", kind.as_str());
            Err(Refusal::new(refusal::MESSAGE_INVALID, public))
        }
    }
}

/// Whether a path has a segment `.` or `..` (RFC 3986 §3.3), as it is written or percent-encoded, also more than once. A policy on the
/// beginning of a URI would let `notes/../private` pass as below `notes`.
fn has_dot_segment(uri: &str) -> bool {
    let mut text = uri.to_ascii_lowercase();
    for _ in 0..DECODED_MAX {
        let is_dots = |part: &str| part == "." || part == "..";
        if text.split(['/', '\\']).any(is_dots) {
            return true;
        }
        let decoded = text
            .replace("%2e", ".")
            .replace("%2f", "/")
            .replace("%5c", "\\")
            .replace("%25", "%");
        if decoded == text {
            return false;
        }
        text = decoded;
    }
    // Encoded more often than anybody does by accident.
    true
}

/// What an agent is told of a text that is no message.
pub(crate) fn refusal_of(invalid: Invalid) -> Refusal {
    let (code, what) = match invalid {
        Invalid::Json => (refusal::JSON_INVALID, "the body is not JSON"),
        Invalid::Duplicate => (refusal::JSON_DUPLICATE, "an object has a key twice"),
        Invalid::Folded => (
            refusal::JSON_DUPLICATE,
            "an object has two members that are equal when their case is folded",
        ),
        Invalid::Spelling => (
            refusal::NAME_SPELLING,
            "a member is not spelled as MCP spells it",
        ),
        Invalid::Deep => (
            refusal::JSON_DEEP,
            "the JSON is too deep, or an object too wide",
        ),
        Invalid::Batch => (refusal::BATCH, "the body is a batch"),
        Invalid::Message(why) => (refusal::MESSAGE_INVALID, why),
    };
    Refusal::new(code, what)
}

#[cfg(test)]
mod tests {
    use super::has_dot_segment;

    #[test]
    fn dot_segments_are_found_in_every_spelling() {
        for uri in [
            "file:///srv/notes/../private",
            "file:///srv/notes/./a",
            "file:///srv/notes/%2e%2e/private",
            "file:///srv/notes/.%2E/private",
            "file:///srv/notes/..%2fprivate",
            "file:///srv/notes/..%5Cprivate",
            "file:///srv/notes\\..\\private",
            "file:///srv/notes/%252e%252e/private",
            "file:///srv/notes/..",
            "..",
            "x:%2525252525252e",
        ] {
            assert!(has_dot_segment(uri), "{uri}");
        }
        for uri in [
            "file:///srv/notes/a..b",
            "file:///srv/notes/...",
            "file:///srv/notes/.hidden",
            "urn:isbn:0.1",
            "http://example.com/a%20b?c=d%2fe",
            "x:100%25",
            "",
        ] {
            assert!(!has_dot_segment(uri), "{uri}");
        }
    }
}
