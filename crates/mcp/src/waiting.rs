//! The requests that one child was given and has not answered, and whose each line of the child is.
//!
//! A call that nobody waits for any more may still be answered: that answer is dropped, once. An answer to
//! anything else means that the child cannot be relied on.

use std::collections::{HashMap, VecDeque};

use base::limit::{GIVEN_UP_MAX, SESSION_CALLS_MAX};
use base::{JsonValue, Refusal, refusal};

use crate::calls::in_use;
use crate::envelope::{Message, MessageText, Params, Sender};
use crate::era;
use crate::stdio::Top;

/// The method by which one side tells the other that a request is not worked on, or not waited for, any more.
pub(crate) const CANCELLED: &str = "notifications/cancelled";

/// Requests under way; `T` is what the way back to the client keeps of each.
pub(crate) struct WaitingCalls<T> {
    /// By the id that the child was given.
    calls: HashMap<String, WaitingCall<T>>,
    /// Calls that began so far.
    began: u64,
    /// Ids of calls that nobody waits for any more, of the last [`GIVEN_UP_MAX`].
    given_up: VecDeque<String>,
}

struct WaitingCall<T> {
    /// The client's id as it was written.
    client: String,
    progress: Option<String>,
    /// Its place among the calls that began.
    place: u64,
    kept: T,
}

/// What a line of a child is, and whose.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChildLine<T> {
    /// It answers this call, which is under way no more.
    Answer(T),
    /// It answers a call that was given up: it is dropped.
    Late,
    Says(Unasked),
}

/// What a child says unasked: a request, where it has an id, or a notification. Ids and tokens are as they were written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Unasked {
    pub(crate) request: Option<String>,
    /// The token of the call whose progress it tells.
    pub(crate) progress: Option<String>,
    /// The request that opened the subscription which it is of, by the id that the child was given.
    pub(crate) subscription: Option<String>,
    /// The request that the child says it works on no more.
    pub(crate) cancels: Option<String>,
    pub(crate) is_log: bool,
}

/// What is no good in a line of a child.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BadLine {
    NotMcp(String),
    /// It answers a request that was not made, or is answered.
    Foreign,
}

impl<T> ChildLine<T> {
    /// Reads a line; `answered` is [`WaitingCalls::answered`], asked of answers alone.
    pub(crate) fn read(
        line: &[u8],
        answered: impl FnOnce(&str) -> Result<ChildLine<T>, BadLine>,
    ) -> Result<ChildLine<T>, BadLine> {
        let text = MessageText::of(line);
        let (request, method, params) = match text.read(Sender::Server) {
            Ok(Message::Response { id: Some(id), .. }) => return answered(id.0),
            Ok(Message::Response { id: None, .. }) => {
                let why = "it says that it could not read a message";
                return Err(BadLine::NotMcp(why.to_owned()));
            }
            Ok(Message::Request { id, params, method }) => (Some(id.0.to_owned()), method, params),
            Ok(Message::Notification { params, method }) => (None, method, params),
            Err(why) => {
                // An answer in a form that is none still ends its call, with an error.
                let heard = Top::of(line).id(false).map(answered);
                let not_mcp = || BadLine::NotMcp(format!("{why:?}"));
                return heard.and_then(Result::ok).ok_or_else(not_mcp);
            }
        };
        let read = Params::read(params).unwrap_or_default();
        let owned = |value: JsonValue<'_>| value.text().to_owned();
        let cancels = read.request_id.filter(|_| method == CANCELLED);
        Ok(ChildLine::Says(Unasked {
            request,
            progress: read.progress_token.map(owned),
            subscription: params.and_then(era::subscription).map(str::to_owned),
            cancels: cancels.map(owned),
            is_log: method == "notifications/message",
        }))
    }
}

impl<T> Default for WaitingCalls<T> {
    fn default() -> WaitingCalls<T> {
        WaitingCalls {
            calls: HashMap::new(),
            began: 0,
            given_up: VecDeque::new(),
        }
    }
}

impl<T> WaitingCalls<T> {
    /// Whether a request with this id of the client may begin.
    ///
    /// # Errors
    /// `mcp.id_in_use`, `mcp.session_busy`.
    pub(crate) fn has_room(&self, client: &str) -> Result<(), Refusal> {
        if self.calls.values().any(|call| call.client == client) {
            return Err(in_use());
        }
        if self.calls.len() >= SESSION_CALLS_MAX {
            let public = "too many calls are under way";
            return Err(Refusal::new(refusal::SESSION_BUSY, public));
        }
        Ok(())
    }

    /// Begins a call that has room: `own` is the id that the child is given, `client` the one that the client
    /// gave, `progress` the token under which it wants progress.
    pub(crate) fn begin(&mut self, own: &str, client: &str, progress: Option<String>, kept: T) {
        self.began += 1;
        let call = WaitingCall {
            client: client.to_owned(),
            progress,
            place: self.began,
            kept,
        };
        self.calls.insert(own.to_owned(), call);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The id that the child was given for a request of the client that is under way.
    pub(crate) fn under_way(&self, client: &str) -> Option<String> {
        let mut calls = self.calls.iter();
        let (own, _) = calls.find(|(_, call)| call.client == client)?;
        Some(own.clone())
    }

    pub(crate) fn get(&mut self, own: &str) -> Option<&mut T> {
        self.calls.get_mut(own).map(|call| &mut call.kept)
    }

    /// How many of the calls are meant.
    pub(crate) fn count(&self, is: impl Fn(&T) -> bool) -> usize {
        self.calls.values().filter(|call| is(&call.kept)).count()
    }

    /// The client's id of a call.
    pub(crate) fn client(&self, own: &str) -> Option<&str> {
        self.calls.get(own).map(|call| &*call.client)
    }

    /// The oldest call that is meant, by the token under which it wants progress and what is kept of it.
    pub(crate) fn find(&mut self, is: impl Fn(Option<&str>, &T) -> bool) -> Option<&mut T> {
        let calls = self.calls.values_mut();
        let those = calls.filter(|call| is(call.progress.as_deref(), &call.kept));
        those
            .min_by_key(|call| call.place)
            .map(|call| &mut call.kept)
    }

    /// Takes the call that an answer belongs to.
    pub(crate) fn answered(&mut self, own: &str) -> Result<ChildLine<T>, BadLine> {
        if let Some(call) = self.calls.remove(own) {
            return Ok(ChildLine::Answer(call.kept));
        }
        let given_up = self.given_up.iter().position(|id| id == own);
        let late = given_up.and_then(|at| self.given_up.remove(at));
        late.map(|_| ChildLine::Late).ok_or(BadLine::Foreign)
    }

    /// Takes a call that is not waited for any more: its answer is dropped when it comes.
    pub(crate) fn give_up(&mut self, own: &str) -> Option<T> {
        let call = self.calls.remove(own)?;
        if self.given_up.len() >= GIVEN_UP_MAX {
            self.given_up.pop_front();
        }
        self.given_up.push_back(own.to_owned());
        Some(call.kept)
    }

    /// Takes those calls for which there is a reason.
    pub(crate) fn give_up_those<R>(&mut self, why: impl Fn(&T) -> Option<R>) -> Vec<(T, R)> {
        let why = |(own, call): (&String, &WaitingCall<T>)| Some((own.clone(), why(&call.kept)?));
        let those: Vec<_> = self.calls.iter().filter_map(why).collect();
        let taken = those.into_iter();
        let taken = taken.filter_map(|(own, why)| Some((self.give_up(&own)?, why)));
        taken.collect()
    }
}

/// What a call is told whose child is silent.
pub(crate) fn slow() -> Refusal {
    Refusal::new(refusal::SERVER_SLOW, "the server did not answer in time")
}

/// What all calls of a child are told that said a line over the bound: it may have answered any of them.
pub(crate) fn too_large() -> Refusal {
    let public = "the server's answer is too large";
    Refusal::new(refusal::ANSWER_TOO_LARGE, public)
}

/// What a call is told that its client cancelled.
pub(crate) fn cancelled_by_client() -> Refusal {
    Refusal::new(refusal::CANCELLED, "the client cancelled this call")
}

/// What a call is told whose child is gone; `why` is for the record.
pub(crate) fn gone(why: impl Into<String>) -> Refusal {
    Refusal::new(refusal::SERVER_DOWN, "the server stopped").with_private(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_is_dropped_once_and_one_to_nothing_is_told() {
        let mut waiting = WaitingCalls::default();
        waiting.begin("w1", "1", None, ());
        assert_eq!(waiting.under_way("1").as_deref(), Some("w1"));
        assert_eq!(waiting.give_up("w1"), Some(()));
        assert_eq!(waiting.under_way("1"), None);
        assert_eq!(waiting.answered("w1"), Ok(ChildLine::Late));
        assert_eq!(waiting.answered("w1"), Err(BadLine::Foreign));
        assert_eq!(waiting.give_up("w9"), None);
        assert_eq!(waiting.answered("w9"), Err(BadLine::Foreign));
        for i in 0..=GIVEN_UP_MAX {
            waiting.begin(&format!("w{i}"), "1", None, ());
            waiting.give_up(&format!("w{i}"));
        }
        assert_eq!(waiting.answered("w0"), Err(BadLine::Foreign));
        assert_eq!(waiting.answered("w1"), Ok(ChildLine::Late));
    }

    #[test]
    fn an_id_is_used_once_at_a_time_and_calls_are_bounded() {
        let mut waiting = WaitingCalls::default();
        let code = |waiting: &WaitingCalls<usize>, client: &str| {
            waiting.has_room(client).map_err(|no| no.code.name)
        };
        for i in 0..SESSION_CALLS_MAX {
            assert_eq!(code(&waiting, &i.to_string()), Ok(()));
            waiting.begin(&format!("w{i}"), &i.to_string(), None, i);
        }
        assert_eq!(code(&waiting, "0"), Err("mcp.id_in_use"));
        assert_eq!(code(&waiting, "x"), Err("mcp.session_busy"));
        let given_up = waiting.give_up_those(|kept| (*kept == 1).then_some("why"));
        assert_eq!(given_up, [(1, "why")]);
        assert_eq!(code(&waiting, "1"), Ok(()));
    }

    #[test]
    fn a_line_answers_a_call_or_says_something_or_is_bad() {
        let read = |line: &str| {
            let mut waiting = WaitingCalls::default();
            waiting.begin("\"w1\"", "1", None, ());
            ChildLine::read(line.as_bytes(), |own| waiting.answered(own))
        };
        let says = |request: Option<&str>, token: Option<&str>| {
            Ok(ChildLine::Says(Unasked {
                request: request.map(str::to_owned),
                progress: token.map(str::to_owned),
                ..Unasked::default()
            }))
        };
        for answer in ["{}", "{},"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":"w1","result":{answer}}}"#);
            assert_eq!(read(&line), Ok(ChildLine::Answer(())), "{line}");
        }
        let foreign = r#"{"jsonrpc":"2.0","id":"w2","result":{}}"#;
        assert_eq!(read(foreign), Err(BadLine::Foreign));
        let asks = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
        assert_eq!(read(asks), says(Some("7"), None));
        let tells =
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}"#;
        assert_eq!(read(tells), says(None, Some("1")));
        let heard = |line: &str| match read(line) {
            Ok(ChildLine::Says(said)) => said,
            other => panic!("{line}: {other:?}"),
        };
        let of = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"w1"}}}"#;
        assert_eq!(heard(of).subscription.as_deref(), Some("\"w1\""));
        let ends =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w1"}}"#;
        assert_eq!(heard(ends).cancels.as_deref(), Some("\"w1\""));
        let log =
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"requestId":"w1"}}"#;
        assert!(heard(log).is_log && heard(log).cancels.is_none());
        let unread = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#;
        for line in ["hello", unread, r#"{"id":"w2","result":{},}"#] {
            assert!(matches!(read(line), Err(BadLine::NotMcp(_))), "{line}");
        }
    }
}
