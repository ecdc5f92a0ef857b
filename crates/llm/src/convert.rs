//! From one dialect to another: what a client asks becomes what a provider of another dialect reads, and the answer comes back in the
//! client's words.
//!
//! Both ways go over one form ([`talk::Talk`] and [`talk::Said`]): a dialect is a reader and a writer of it, so that four dialects are
//! eight pieces and not twelve pairs. What has no counterpart is refused by its path and never dropped; what may be left
//! out without changing the answer stands in the tables of [`fields`], with the reason, and the reference page is made of these.
//!
//! It converts what was judged already, and judges nothing: requests after the scan, events once they may go on.

mod chat;
pub(crate) mod fields;
mod gemini;
mod messages;
mod responses;
pub(crate) mod stream;
pub(crate) mod talk;

use base::record::Usage;
use base::{Refusal, refusal};
use serde_json::Value;

use crate::wire::{self, Wire};
use talk::{Said, Talk, TalkBlock};

/// One dialect, as conversions see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Chat,
    Messages,
    Gemini,
    /// OpenAI's responses: of clients alone, since every provider that speaks it speaks chat completions too.
    Responses,
}

/// Why a request cannot be said in another dialect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unconvertible {
    /// Where it stands in the request.
    pub(crate) path: String,
    pub(crate) why: String,
}

impl Unconvertible {
    pub(crate) fn new(path: impl Into<String>, why: impl Into<String>) -> Unconvertible {
        Unconvertible {
            path: path.into(),
            why: why.into(),
        }
    }

    pub(crate) fn refusal(&self) -> Refusal {
        let Unconvertible { path, why } = self;
        Refusal::new(refusal::LLM_UNCONVERTIBLE, format!("{path} {why}"))
    }
}

/// A conversion of one request and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conversion {
    pub(crate) client: Dialect,
    pub(crate) provider: Dialect,
}

/// The dialect of a kind of request that can be said in others.
pub(crate) fn dialect(wire: &Wire) -> Option<Dialect> {
    let is = |other: &Wire| wire.name == other.name;
    Some(match () {
        () if is(&wire::CHAT_COMPLETIONS) => Dialect::Chat,
        () if is(&wire::RESPONSES) => Dialect::Responses,
        () if is(&wire::MESSAGES) => Dialect::Messages,
        () if is(&wire::GENERATE) || is(&wire::STREAM_GENERATE) => Dialect::Gemini,
        () => return None,
    })
}

/// The kind of request that a provider of a dialect is sent.
pub(crate) fn wire_of(dialect: Dialect, is_stream: bool) -> Option<&'static Wire> {
    Some(match dialect {
        Dialect::Chat => &wire::CHAT_COMPLETIONS,
        Dialect::Messages => &wire::MESSAGES,
        Dialect::Gemini if is_stream => &wire::STREAM_GENERATE,
        Dialect::Gemini => &wire::GENERATE,
        Dialect::Responses => return None,
    })
}

impl Conversion {
    /// The request for the provider.
    ///
    /// # Errors
    /// What of it has no counterpart.
    pub(crate) fn request(
        self,
        body: &Value,
        model: &str,
        is_stream: bool,
    ) -> Result<Value, Unconvertible> {
        let mut talk = self.read(body)?;
        talk.is_stream = is_stream;
        self.write(&talk, model)
    }

    /// Tokens that the answer may have, where the provider is told of more than the client asks for; nothing too where the
    /// request cannot be converted.
    pub(crate) fn output_max(self, body: &Value) -> Option<u64> {
        match self.provider {
            Dialect::Messages => self.read(body).ok().map(|talk| messages::output_max(&talk)),
            Dialect::Chat | Dialect::Gemini | Dialect::Responses => None,
        }
    }

    fn read(self, body: &Value) -> Result<Talk, Unconvertible> {
        match self.client {
            Dialect::Chat => chat::read(body),
            Dialect::Messages => messages::read(body),
            Dialect::Gemini => gemini::read(body),
            Dialect::Responses => responses::read(body),
        }
    }

    fn write(self, talk: &Talk, model: &str) -> Result<Value, Unconvertible> {
        match self.provider {
            Dialect::Chat => chat::write(talk, model),
            Dialect::Messages => messages::write(talk, model),
            Dialect::Gemini => gemini::write(talk),
            Dialect::Responses => Err(Unconvertible::new("model", "is of no provider for this")),
        }
    }

    /// The provider's answer, for the client. `model` is the name that the client asked for.
    ///
    /// # Errors
    /// The answer is not of the provider's dialect, or says what the client's has no word for.
    pub(crate) fn answer(self, body: &Value, model: &str) -> Result<Value, Unconvertible> {
        let said = match self.provider {
            Dialect::Chat => chat::read_answer(body)?,
            Dialect::Messages => messages::read_answer(body)?,
            Dialect::Gemini => gemini::read_answer(body)?,
            Dialect::Responses => {
                return Err(Unconvertible::new("model", "is of no provider for this"));
            }
        };
        if said
            .blocks
            .iter()
            .any(|block| matches!(block, TalkBlock::Image(_)))
        {
            let why = "has an image, which no other dialect has a word for";
            return Err(Unconvertible::new("the answer", why));
        }
        Ok(self.said(&said, model))
    }

    fn said(self, said: &Said, model: &str) -> Value {
        match self.client {
            Dialect::Chat => chat::write_answer(said, model),
            Dialect::Messages => messages::write_answer(said, model),
            Dialect::Gemini => gemini::write_answer(said, model),
            Dialect::Responses => responses::write_answer(said, model),
        }
    }
}

/// All tokens of the input, with what was cached.
fn all_input(usage: &Usage) -> u64 {
    usage.total().saturating_sub(usage.output)
}

#[cfg(test)]
mod tests;
