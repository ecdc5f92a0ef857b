//! The methods of MCP: which are requests, which are notifications, and what policies call them.
//!
//! A method that is none of these is forwarded as it is, because extensions add their own. One that is
//! nearly one of these is refused: a server that reads names generously would take it for the method that
//! it resembles, and the judgement was made for another.
//!
//! Source: the schemas of MCP 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28.

use base::{Action, Refusal, refusal};

use crate::actions::{CALL, LIST, PROMPT, READ, USE};

/// Longest method, in bytes.
const METHOD_BYTES_MAX: usize = 128;

/// Whether a method is asked with an id or told without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MethodKind {
    Request(&'static Action),
    Notification,
}

use MethodKind::{Notification, Request};

/// Every method of MCP.
const METHODS: &[(&str, MethodKind)] = &[
    ("tools/call", Request(&CALL)),
    ("tools/list", Request(&LIST)),
    ("resources/list", Request(&LIST)),
    ("resources/templates/list", Request(&LIST)),
    ("prompts/list", Request(&LIST)),
    ("resources/read", Request(&READ)),
    ("resources/subscribe", Request(&READ)),
    ("resources/unsubscribe", Request(&READ)),
    ("prompts/get", Request(&PROMPT)),
    ("initialize", Request(&USE)),
    ("ping", Request(&USE)),
    ("completion/complete", Request(&USE)),
    ("logging/setLevel", Request(&USE)),
    ("server/discover", Request(&USE)),
    ("subscriptions/listen", Request(&USE)),
    ("tasks/get", Request(&USE)),
    ("tasks/result", Request(&USE)),
    ("tasks/list", Request(&USE)),
    ("tasks/cancel", Request(&USE)),
    ("tasks/update", Request(&USE)),
    ("sampling/createMessage", Request(&USE)),
    ("elicitation/create", Request(&USE)),
    ("roots/list", Request(&USE)),
    ("notifications/initialized", Notification),
    ("notifications/cancelled", Notification),
    ("notifications/progress", Notification),
    ("notifications/message", Notification),
    ("notifications/roots/list_changed", Notification),
    ("notifications/tools/list_changed", Notification),
    ("notifications/resources/list_changed", Notification),
    ("notifications/resources/updated", Notification),
    ("notifications/prompts/list_changed", Notification),
    ("notifications/elicitation/complete", Notification),
    ("notifications/tasks/status", Notification),
    ("notifications/subscriptions/acknowledged", Notification),
];

/// A method that may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Method {
    /// What policies call it.
    pub(crate) action: &'static Action,
    /// It is in the table, so its name holds nothing that an agent wrote.
    pub(crate) is_known: bool,
}

/// Judges the name of a method, asked with an id or told without one.
///
/// # Errors
/// `mcp.message_invalid` where it is nearly a method of MCP, is one that has to be asked and is told (or the
/// reverse), or cannot be a method's name.
pub(crate) fn read(method: &str, has_id: bool) -> Result<Method, Refusal> {
    let invalid = |why: &'static str| Err(Refusal::new(refusal::MESSAGE_INVALID, why));
    if let Some((_, kind)) = METHODS.iter().find(|(name, _)| *name == method) {
        return match (*kind, has_id) {
            (Request(action), true) => Ok(Method {
                action,
                is_known: true,
            }),
            (Notification, false) => Ok(Method {
                action: &USE,
                is_known: true,
            }),
            (Request(_), false) => invalid("this method is a request, and the message has no id"),
            (Notification, true) => invalid("this method is a notification, and has an id"),
        };
    }
    let visible = method.bytes().all(|byte| byte.is_ascii_graphic());
    if method.is_empty() || method.len() > METHOD_BYTES_MAX || !visible {
        return invalid("the method is not a name of 1 to 128 visible ASCII characters");
    }
    let bare = bare(method);
    if METHODS.iter().any(|(name, _)| self::bare(name) == bare) {
        return invalid("the method is nearly one of MCP's, and is none");
    }
    if bare.starts_with("notifications") && has_id {
        return invalid("this method is a notification, and has an id");
    }
    Ok(Method {
        action: &USE,
        is_known: false,
    })
}

/// The letters and digits of a name, in lower case: `Tools/Call`, `tools_call` and `tools//call` are alike.
fn bare(name: &str) -> String {
    let alphanumeric = name.chars().filter(char::is_ascii_alphanumeric);
    alphanumeric.map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_what_the_table_says() {
        let call = read("tools/call", true).unwrap();
        assert_eq!((call.action, call.is_known), (&CALL, true));
        assert!(read("notifications/initialized", false).unwrap().is_known);
        let other = read("com.example/ask", true).unwrap();
        assert_eq!((other.action, other.is_known), (&USE, false));
        assert!(read("com.example/tell", false).is_ok());
        assert!(read("notifications/com.example", false).is_ok());
    }

    #[test]
    fn what_is_nearly_a_method_is_refused() {
        for method in [
            "Tools/Call",
            "tools/call ",
            " tools/call",
            "tools/call\u{200b}",
            "tool\u{17f}/call",
            "tools//call",
            "/tools/call/",
            "tools_call",
            "toolscall",
            "TOOLS/LIST",
            "notifications/Initialized",
            "",
            "a b",
            "ключ",
        ] {
            assert!(read(method, true).is_err(), "{method:?}");
            assert!(read(method, false).is_err(), "{method:?}");
        }
        assert!(read(&"x".repeat(129), true).is_err());
    }

    #[test]
    fn a_request_has_an_id_and_a_notification_has_none() {
        assert!(read("tools/call", false).is_err());
        assert!(read("ping", false).is_err());
        assert!(read("notifications/initialized", true).is_err());
        assert!(read("notifications/com.example", true).is_err());
    }

    #[test]
    fn no_two_methods_are_alike() {
        let mut all: Vec<String> = METHODS.iter().map(|(name, _)| bare(name)).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), METHODS.len());
    }
}
