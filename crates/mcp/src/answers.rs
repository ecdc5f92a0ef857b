//! What comes back for one call: each message of the server read, judged, and passed on or replaced.

use base::record::End;
use base::{CallId, Permit, Refusal, refusal};
use bytes::Bytes;
use gate::{Answer, Ending, Passed};

use crate::envelope::{Id, Message};
use crate::{refuse, tools};

/// What the call asked for, as far as its answer is treated differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    ToolsList,
    Other,
}

/// The answers of one call that passed.
pub(crate) struct Answers {
    passed: Passed,
    asked: Asked,
    /// The request's id as it was written; absent for a stream that answers no request.
    id: Option<String>,
    bytes: u64,
    done: bool,
    refused: Option<(&'static str, String)>,
}

impl Answers {
    pub(crate) fn new(passed: Passed, asked: Asked, id: Option<String>) -> Answers {
        Answers {
            passed,
            asked,
            id,
            bytes: 0,
            done: false,
            refused: None,
        }
    }

    pub(crate) fn passed(&self) -> &Passed {
        &self.passed
    }

    pub(crate) fn call(&self) -> CallId {
        self.passed.call()
    }

    pub(crate) fn is_for_request(&self) -> bool {
        self.id.is_some()
    }

    /// Whether the answer to the request itself has come.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Judges one message. What comes out is a message for the agent in every case: where the message
    /// may not pass and it answered the request, an error in its place; otherwise nothing.
    pub(crate) fn take(&mut self, message: &Bytes) -> Option<Bytes> {
        self.bytes += message.len() as u64;
        match self.judge(message) {
            Ok(message) => Some(message),
            Err(refusal) => {
                self.note(&refusal);
                if self.done {
                    self.error(&refusal)
                } else {
                    None
                }
            }
        }
    }

    fn judge(&mut self, message: &Bytes) -> Result<Bytes, Refusal> {
        let invalid = |why: &str| {
            Refusal::new(
                refusal::ANSWER_INVALID,
                "the server sent what is not an MCP message",
            )
            .with_private(why.to_owned())
        };
        let parsed = Message::parse(message).map_err(|why| {
            // A server that answers garbage is not waited for: this is the answer.
            self.done = true;
            invalid(&format!("{why:?}"))
        })?;
        let mut lists = false;
        if let Message::Response { id, result, .. } = parsed {
            if self.id.as_deref() != Some(id.0) {
                return Err(invalid("an answer to another request"));
            }
            self.done = true;
            lists = self.asked == Asked::ToolsList && result.is_some();
        } else {
            self.passed.more_to_come();
        }
        if lists {
            let text = std::str::from_utf8(message).map_err(|_| invalid("not UTF-8"))?;
            return Ok(
                tools::judge(&mut self.passed, text)?.map_or_else(|| message.clone(), Bytes::from)
            );
        }
        match self.passed.answer(message, "")? {
            Answer::AsItCame => Ok(message.clone()),
            Answer::Redacted(json) => Ok(Bytes::from(json)),
        }
    }

    /// The JSON-RPC error that answers the request with this refusal, if there is a request.
    pub(crate) fn error(&mut self, refusal: &Refusal) -> Option<Bytes> {
        self.note(refusal);
        self.done = true;
        let id = self.id.as_deref().map(Id)?;
        Some(Bytes::from(refuse::error(
            refusal,
            self.passed.call(),
            Some(id),
        )))
    }

    fn note(&mut self, refusal: &Refusal) {
        let why = if refusal.private.is_empty() {
            &refusal.public
        } else {
            &refusal.private
        };
        self.refused.get_or_insert((refusal.code.name, why.clone()));
    }

    /// Records how the call ended. `fallback` is what it is where nothing was refused.
    pub(crate) fn end(self, fallback: End, status: u16) {
        let end = match &self.refused {
            Some((code, _)) if code.starts_with("scan.") => End::Refused,
            Some(_) if fallback == End::Complete => End::Failed,
            _ => fallback,
        };
        let why = self
            .refused
            .as_ref()
            .map(|(code, why)| (*code, why.as_str()));
        self.passed.end(Ending {
            end,
            status,
            bytes: self.bytes,
            calls: None,
            why,
        });
    }
}
