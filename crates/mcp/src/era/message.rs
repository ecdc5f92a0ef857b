//! Which era a message is of: what it says of itself, held against the fields that carried it.
//!
//! The order of checks is that of the reference implementation (the Python SDK's `shared/inbound.py`): what `_meta` lacks,
//! what the header says otherwise, a revision that is not known. Example: a `tools/call` whose `_meta` names 2026-07-28, under
//! `MCP-Protocol-Version: 2025-11-25`, is refused by `mcp.header_mismatch`, whichever of the two its server would read.

use base::{JsonKind, JsonValue, Refusal, refusal};
use http::HeaderMap;

use super::fields::{self, GivenParam};
use super::{CapabilitySet, Era, Revision, unknown};
use crate::envelope::Message;

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// What a message says of its revision.
#[derive(Clone, Debug)]
pub(crate) enum MessageEra {
    /// The revision that its header names, if it names one.
    Legacy(Option<&'static Revision>),
    Modern(ModernMessage),
}

/// A message of the era in which each says all of itself.
#[derive(Clone, Debug)]
pub(crate) struct ModernMessage {
    pub(crate) revision: &'static Revision,
    /// What its client is capable of when it is asked.
    pub(crate) can: CapabilitySet,
    /// It asks for messages of the server's log.
    pub(crate) wants_log: bool,
    /// It came over HTTP with an `Mcp-Name` that names what the body names.
    pub(crate) is_named: bool,
    /// Its `Mcp-Param-*` fields; nothing on a transport without fields.
    pub(crate) params: Option<Vec<GivenParam>>,
}

impl MessageEra {
    /// Of a message that weir makes.
    pub(crate) fn modern(revision: &'static Revision) -> MessageEra {
        MessageEra::Modern(ModernMessage {
            revision,
            can: CapabilitySet::default(),
            wants_log: false,
            is_named: true,
            params: None,
        })
    }

    pub(crate) fn era(&self) -> Era {
        match self {
            MessageEra::Legacy(_) => Era::Legacy,
            MessageEra::Modern(_) => Era::Modern,
        }
    }

    /// The revision that it names.
    pub(crate) fn revision(&self) -> Option<&'static Revision> {
        match self {
            MessageEra::Legacy(revision) => *revision,
            MessageEra::Modern(modern) => Some(modern.revision),
        }
    }

    /// The same, of a client that is capable of `can`.
    pub(crate) fn able(mut self, can: CapabilitySet) -> MessageEra {
        if let MessageEra::Modern(modern) = &mut self {
            modern.can = can;
        }
        self
    }

    /// What its client says that it is capable of.
    pub(crate) fn can(&self) -> CapabilitySet {
        match self {
            MessageEra::Legacy(_) => CapabilitySet::default(),
            MessageEra::Modern(modern) => modern.can,
        }
    }

    /// Its `Mcp-Param-*` fields.
    pub(crate) fn params(&self) -> &[GivenParam] {
        self.fields().unwrap_or_default()
    }

    /// The same, and nothing where there cannot be any.
    pub(crate) fn fields(&self) -> Option<&[GivenParam]> {
        match self {
            MessageEra::Legacy(_) => None,
            MessageEra::Modern(modern) => modern.params.as_deref(),
        }
    }

    /// Whether it asks, by itself, for messages of the server's log.
    pub(crate) fn wants_log(&self) -> bool {
        matches!(self, MessageEra::Modern(modern) if modern.wants_log)
    }

    /// Reads a message of a client. `head` is absent on a transport without fields.
    ///
    /// # Errors
    /// `mcp.meta_missing`, `mcp.header_mismatch`, `mcp.revision`, `mcp.method_gone`, and `mcp.message_invalid` for an answer in an
    /// era in which servers ask nothing.
    pub(crate) fn read(
        head: Option<&HeaderMap>,
        message: &Message<'_>,
    ) -> Result<MessageEra, Refusal> {
        let date = head.map(fields::revision).transpose()?.flatten();
        let revision = date.and_then(Revision::of);
        let is_modern = revision.is_some_and(|revision| revision.era == Era::Modern);
        let legacy = || match (date, revision) {
            (Some(date), None) => Err(unknown(date, Era::Legacy)),
            _ => Ok(MessageEra::Legacy(revision)),
        };
        match message {
            Message::Request { method, params, .. } => {
                let meta = params.and_then(|params| params.get("_meta"));
                if !is_modern && !meta.is_some_and(claims) {
                    return legacy();
                }
                let read = modern(head, date, method, *params, meta)?;
                if method == "initialize" {
                    let public = "a client of 2026-07-28 has no session to begin";
                    return Err(Refusal::new(refusal::METHOD_GONE, public));
                }
                Ok(MessageEra::Modern(read))
            }
            // The fields that a notification has to have are not defined; that of the revision brought it here.
            Message::Notification { .. } => match revision.filter(|_| is_modern) {
                Some(revision) => Ok(MessageEra::Modern(ModernMessage {
                    revision,
                    can: CapabilitySet::default(),
                    wants_log: false,
                    is_named: false,
                    params: None,
                })),
                None => legacy(),
            },
            Message::Response { .. } if is_modern => {
                let public = "servers of 2026-07-28 ask nothing, so nothing is answered";
                Err(Refusal::new(refusal::MESSAGE_INVALID, public))
            }
            Message::Response { .. } => legacy(),
        }
    }
}

/// Whether `_meta` holds what only a request of the modern era says.
fn claims(meta: JsonValue<'_>) -> bool {
    meta.kind() == JsonKind::Object
        && [META_VERSION, META_CAPABILITIES]
            .iter()
            .any(|key| meta.get(key).is_some())
}

fn modern(
    head: Option<&HeaderMap>,
    date: Option<&str>,
    method: &str,
    params: Option<JsonValue<'_>>,
    meta: Option<JsonValue<'_>>,
) -> Result<ModernMessage, Refusal> {
    let missing = |what: &'static str| Err(Refusal::new(refusal::META_MISSING, what));
    let meta = meta.filter(|meta| meta.kind() == JsonKind::Object);
    let said = meta.and_then(|meta| meta.get(META_VERSION));
    let can = meta.and_then(|meta| meta.get(META_CAPABILITIES));
    let (Some(meta), Some(said), Some(can)) = (meta, said, can) else {
        return missing("params._meta does not say the revision, or what the client is capable of");
    };
    let version = said.as_str();
    let mut is_named = false;
    if let Some(head) = head {
        let version = version.as_deref();
        if date.is_none() || date != version {
            let public = "MCP-Protocol-Version and params._meta name different revisions";
            return Err(Refusal::new(refusal::HEADER_MISMATCH, public));
        }
        fields::check_method(head, method)?;
        is_named = fields::check_name(head, method, params)?;
    }
    let Some(version) = version else {
        return missing("the revision in params._meta is a string");
    };
    if can.kind() != JsonKind::Object {
        return missing("the client's capabilities in params._meta are an object");
    }
    let revision = Revision::of(&version).filter(|revision| revision.era == Era::Modern);
    Ok(ModernMessage {
        revision: revision.ok_or_else(|| unknown(&version, Era::Modern))?,
        can: CapabilitySet::of(Some(can)),
        wants_log: meta.get(META_LOG_LEVEL).is_some(),
        is_named,
        params: head.map(fields::params).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::envelope::{MessageText, Sender};

    const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;

    /// What becomes of a message with these fields: the revision and its era, or the code of the refusal.
    fn read(head: Option<&[(&str, &str)]>, message: &str) -> String {
        let fields = head.map(|head| {
            let mut fields = HeaderMap::new();
            for (name, value) in head {
                let name: HeaderName = name.parse().unwrap();
                fields.append(name, HeaderValue::from_str(value).unwrap());
            }
            fields
        });
        let text = MessageText::of(message.as_bytes());
        let message = text.read(Sender::Agent).unwrap();
        match MessageEra::read(fields.as_ref(), &message) {
            Ok(MessageEra::Legacy(None)) => "legacy".to_owned(),
            Ok(MessageEra::Legacy(Some(revision))) => format!("legacy {}", revision.date),
            Ok(MessageEra::Modern(modern)) => format!("modern {}", modern.revision.date),
            Err(refusal) => refusal.code.name.to_owned(),
        }
    }

    fn request(method: &str, params: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}}}}}"#)
    }

    #[test]
    fn the_ladder() {
        let (version, method, name) = ("mcp-protocol-version", "mcp-method", "mcp-name");
        let (new, old) = ((version, "2026-07-28"), (version, "2025-11-25"));
        let list = (method, "tools/list");
        let whole = format!(r#""_meta":{{{META}}}"#);
        let other = whole.replace("2026-07-28", "v999.0.0");
        let call = format!(r#"{whole},"name":"echo""#);
        let unicode = format!(r#"{whole},"name":"écho""#);
        let read_uri = format!(r#"{whole},"uri":"file:///a""#);
        let no_capabilities = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        let wrong_type = whole.replace("{}", "7");
        let number = whole.replace("\"2026-07-28\"", "20260728");
        type Case<'c> = (&'c [(&'c str, &'c str)], &'c str, &'c str, &'c str);
        let cases: &[Case<'_>] = &[
            (&[], "tools/list", "", "legacy"),
            (
                &[],
                "tools/list",
                r#""_meta":{"progressToken":1}"#,
                "legacy",
            ),
            (&[old], "tools/list", "", "legacy 2025-11-25"),
            (
                &[(version, "2024-11-05")],
                "tools/list",
                "",
                "legacy 2024-11-05",
            ),
            (&[(version, "v999.0.0")], "tools/list", "", "mcp.revision"),
            (&[(version, "")], "tools/list", "", "mcp.revision"),
            (&[old, old], "tools/list", "", "mcp.header_mismatch"),
            (
                &[new, new, list],
                "tools/list",
                &whole,
                "mcp.header_mismatch",
            ),
            (&[new, list], "tools/list", "", "mcp.meta_missing"),
            (
                &[new, list],
                "tools/list",
                r#""_meta":{}"#,
                "mcp.meta_missing",
            ),
            (
                &[new, list],
                "tools/list",
                r#""_meta":7"#,
                "mcp.meta_missing",
            ),
            (
                &[new, list],
                "tools/list",
                no_capabilities,
                "mcp.meta_missing",
            ),
            (&[new, list], "tools/list", &wrong_type, "mcp.meta_missing"),
            (&[new, list], "tools/list", &number, "mcp.header_mismatch"),
            (&[new, list], "tools/list", &whole, "modern 2026-07-28"),
            (&[list], "tools/list", &whole, "mcp.header_mismatch"),
            (&[old, list], "tools/list", &whole, "mcp.header_mismatch"),
            (&[new], "tools/list", &whole, "mcp.header_mismatch"),
            (
                &[new, (method, "Tools/List")],
                "tools/list",
                &whole,
                "mcp.header_mismatch",
            ),
            (
                &[new, list, list],
                "tools/list",
                &whole,
                "mcp.header_mismatch",
            ),
            (
                &[new, (method, "tools/call")],
                "tools/call",
                &call,
                "mcp.header_mismatch",
            ),
            (
                &[new, (method, "tools/call"), (name, "echo")],
                "tools/call",
                &call,
                "modern 2026-07-28",
            ),
            (
                &[new, (method, "tools/call"), (name, "Echo")],
                "tools/call",
                &call,
                "mcp.header_mismatch",
            ),
            (
                &[new, (method, "tools/call"), (name, "echo"), (name, "echo")],
                "tools/call",
                &call,
                "mcp.header_mismatch",
            ),
            (
                &[new, (method, "tools/call"), (name, "=?base64?ZWNobw==?=")],
                "tools/call",
                &call,
                "modern 2026-07-28",
            ),
            (
                &[new, (method, "tools/call"), (name, "=?base64?w6ljaG8=?=")],
                "tools/call",
                &unicode,
                "modern 2026-07-28",
            ),
            (
                &[new, (method, "tools/call"), (name, "=?base64?ZWNobw?=")],
                "tools/call",
                &call,
                "mcp.header_mismatch",
            ),
            (
                &[new, (method, "tools/call"), (name, "=?BASE64?ZWNobw==?=")],
                "tools/call",
                &call,
                "mcp.header_mismatch",
            ),
            (
                &[new, (method, "resources/read"), (name, "file:///a")],
                "resources/read",
                &read_uri,
                "modern 2026-07-28",
            ),
            (
                &[new, (method, "resources/read"), (name, "file:///b")],
                "resources/read",
                &read_uri,
                "mcp.header_mismatch",
            ),
            (
                &[(version, "v999.0.0"), list],
                "tools/list",
                &other,
                "mcp.revision",
            ),
            (&[new, list], "tools/list", &other, "mcp.header_mismatch"),
            (
                &[new, (method, "initialize")],
                "initialize",
                &whole,
                "mcp.method_gone",
            ),
            (
                &[new, (method, "ping")],
                "ping",
                &whole,
                "modern 2026-07-28",
            ),
        ];
        for (head, method, params, wanted) in cases {
            let message = request(method, params);
            assert_eq!(read(Some(head), &message), *wanted, "{head:?} {message}");
        }
        // Without fields the body alone says it.
        assert_eq!(
            read(None, &request("tools/list", &whole)),
            "modern 2026-07-28"
        );
        assert_eq!(read(None, &request("tools/list", &other)), "mcp.revision");
        assert_eq!(
            read(None, &request("tools/list", &number)),
            "mcp.meta_missing"
        );
        assert_eq!(read(None, &request("tools/list", "")), "legacy");
    }

    #[test]
    fn what_is_no_request() {
        let told = r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#;
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        let new: &[_] = &[("mcp-protocol-version", "2026-07-28")];
        assert_eq!(read(Some(new), told), "modern 2026-07-28");
        assert_eq!(read(Some(new), answer), "mcp.message_invalid");
        assert_eq!(read(Some(&[]), told), "legacy");
        assert_eq!(read(Some(&[]), answer), "legacy");
        let unknown: &[_] = &[("mcp-protocol-version", "1999-01-01")];
        assert_eq!(read(Some(unknown), told), "mcp.revision");
    }
}
