//! The methods of A2A, in both versions: a row each.
//!
//! Sources: A2A 1.0, section 9 "JSON-RPC Protocol Binding"; A2A 0.3.0, section 7 "Protocol RPC Methods".

use base::Action;

use crate::actions::{CANCEL, READ, SEND};

/// A version of the protocol, as it shows in the words of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// 1.0: ProtoJSON.
    One,
    /// 0.3: objects with a `kind`.
    Old,
}

/// What a method asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// Takes a message, and answers with a message or a task.
    Send,
    /// Names one task, and answers with it or with its events.
    Task,
    /// Lists tasks.
    List,
    /// Would have the agent call an address of the client's.
    Push,
    /// Asks for a card that only some may read.
    ExtendedCard,
}

/// One method.
#[derive(Debug)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) version: Version,
    pub(crate) asks: Asks,
    pub(crate) action: &'static Action,
}

const fn row(name: &'static str, version: Version, asks: Asks, action: &'static Action) -> Method {
    Method {
        name,
        version,
        asks,
        action,
    }
}

use Asks::{ExtendedCard, List, Push, Send, Task};
use Version::{Old, One};

/// All that are known.
static METHODS: &[Method] = &[
    row("SendMessage", One, Send, &SEND),
    row("SendStreamingMessage", One, Send, &SEND),
    row("GetTask", One, Task, &READ),
    row("SubscribeToTask", One, Task, &READ),
    row("ListTasks", One, List, &READ),
    row("CancelTask", One, Task, &CANCEL),
    row("CreateTaskPushNotificationConfig", One, Push, &SEND),
    row("GetTaskPushNotificationConfig", One, Push, &READ),
    row("ListTaskPushNotificationConfigs", One, Push, &READ),
    row("DeleteTaskPushNotificationConfig", One, Push, &SEND),
    row("GetExtendedAgentCard", One, ExtendedCard, &READ),
    row("message/send", Old, Send, &SEND),
    row("message/stream", Old, Send, &SEND),
    row("tasks/get", Old, Task, &READ),
    row("tasks/resubscribe", Old, Task, &READ),
    row("tasks/list", Old, List, &READ),
    row("tasks/cancel", Old, Task, &CANCEL),
    row("tasks/pushNotificationConfig/set", Old, Push, &SEND),
    row("tasks/pushNotificationConfig/get", Old, Push, &READ),
    row("tasks/pushNotificationConfig/list", Old, Push, &READ),
    row("tasks/pushNotificationConfig/delete", Old, Push, &SEND),
    row(
        "agent/getAuthenticatedExtendedCard",
        Old,
        ExtendedCard,
        &READ,
    ),
];

/// The method of this name.
pub(crate) fn find(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name)
}
