//! What clients of each dialect ask: one row for each kind of request.
//!
//! A row says where the request comes in, what policies call it, in which family's form a refusal is said, and how its body
//! is read. Nothing here decides anything.

mod gemini;
mod messages;
mod openai;
mod read;
#[cfg(test)]
mod tests;

use base::{Action, JsonValue};

use crate::actions::{CHAT, EMBED};
use crate::answer::{AnswerSaid, Delta};

pub(crate) use read::AskedModel;

/// Who made a dialect: the form of its errors, and how its keys are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    OpenAi,
    Anthropic,
    Gemini,
}

/// Where a request names its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelPlace {
    /// The member `model` of the body.
    Body,
    /// The path: `/v1beta/models/MODEL:generateContent`.
    Path,
}

/// What a provider bills of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bills {
    Nothing,
    Input,
    All,
}

/// One kind of request.
pub(crate) struct Wire {
    /// In providers' files, records and messages: `chat`.
    pub(crate) name: &'static str,
    pub(crate) family: Family,
    pub(crate) action: &'static Action,
    pub(crate) model: ModelPlace,
    /// Whether a provider bills it, and has an answer of tokens.
    pub(crate) bills: Bills,
    /// Whether it always answers with events, whatever its body says.
    pub(crate) always_streams: bool,
    /// Reads a body into what is asked and its parts by role.
    pub(crate) read: for<'j> fn(JsonValue<'j>, &mut AskedModel<'j>),
    /// Reads a whole answer: what was used, and the calls of tools in it.
    pub(crate) answer: for<'j> fn(JsonValue<'j>, &mut AnswerSaid<'j>),
    /// Reads one event of a stream.
    pub(crate) event: for<'j> fn(JsonValue<'j>, &mut Delta<'j>),
}

impl Wire {
    /// What it is in OpenTelemetry's words.
    pub(crate) fn operation(&self) -> &'static str {
        match self.bills {
            _ if self.name == COMPLETIONS.name => "text_completion",
            _ if self.name == IMAGES.name => "generate_content",
            _ if self.name == MODERATIONS.name => "moderation",
            _ if self.name == RERANK.name => "rerank",
            Bills::All => "chat",
            Bills::Input => "embeddings",
            Bills::Nothing if self.name == STORED_RESPONSE.name => "stored_response",
            Bills::Nothing => "count_tokens",
        }
    }
}

/// OpenAI's chat completions. Source: OpenAI API reference, "Chat".
pub(crate) static CHAT_COMPLETIONS: Wire = Wire {
    read: openai::read_chat,
    answer: openai::chat_answer,
    event: openai::chat_event,
    ..wire("chat", Family::OpenAi)
};

/// OpenAI's responses. Source: OpenAI API reference, "Responses".
pub(crate) static RESPONSES: Wire = Wire {
    read: openai::read_response,
    answer: openai::response_answer,
    event: openai::response_event,
    ..wire("responses", Family::OpenAi)
};

/// Makes a long conversation of responses a short one. Source: OpenAI API reference, "Compact a response".
pub(crate) static COMPACT: Wire = Wire {
    read: openai::read_response,
    answer: openai::response_answer,
    ..wire("compact", Family::OpenAi)
};

/// What is asked of a response that a provider keeps: it says again what was billed before.
pub(crate) static STORED_RESPONSE: Wire = Wire {
    bills: Bills::Nothing,
    answer: openai::response_answer,
    event: openai::response_event,
    ..wire("stored_response", Family::OpenAi)
};

/// OpenAI's completions of a text, which came before chat. Source: OpenAI API reference, "Completions (legacy)".
pub(crate) static COMPLETIONS: Wire = Wire {
    read: openai::read_embeddings,
    answer: openai::chat_answer,
    event: openai::completion_event,
    ..wire("completions", Family::OpenAi)
};

/// Whether a text is harmful, as a model sees it. Source: OpenAI API reference, "Moderations".
pub(crate) static MODERATIONS: Wire = Wire {
    bills: Bills::Nothing,
    read: openai::read_embeddings,
    ..wire("moderations", Family::OpenAi)
};

/// Puts documents in the order in which they answer a query, as Cohere, Jina and vLLM have it.
pub(crate) static RERANK: Wire = Wire {
    action: &EMBED,
    bills: Bills::Input,
    read: openai::read_embeddings,
    answer: openai::chat_answer,
    ..wire("rerank", Family::OpenAi)
};

/// Images of a text. Source: OpenAI API reference, "Create image".
pub(crate) static IMAGES: Wire = Wire {
    read: openai::read_embeddings,
    answer: openai::image_answer,
    ..wire("images", Family::OpenAi)
};

/// OpenAI's embeddings. Source: OpenAI API reference, "Embeddings".
pub(crate) static EMBEDDINGS: Wire = Wire {
    action: &EMBED,
    bills: Bills::Input,
    read: openai::read_embeddings,
    answer: openai::chat_answer,
    ..wire("embeddings", Family::OpenAi)
};

/// Anthropic's messages. Source: Anthropic API reference, "Messages".
pub(crate) static MESSAGES: Wire = Wire {
    read: messages::read,
    answer: messages::answer,
    event: messages::event,
    ..wire("messages", Family::Anthropic)
};

/// Counts the tokens of a message before it is sent. Source: Anthropic API reference, "Count Message tokens".
pub(crate) static COUNT_TOKENS: Wire = Wire {
    bills: Bills::Nothing,
    read: messages::read,
    ..wire("count_tokens", Family::Anthropic)
};

/// Google's `generateContent`. Source: Gemini API reference, "Generating content".
pub(crate) static GENERATE: Wire = Wire {
    read: gemini::read,
    answer: gemini::answer,
    event: gemini::answer_event,
    model: ModelPlace::Path,
    ..wire("generate", Family::Gemini)
};

/// The same as a stream.
pub(crate) static STREAM_GENERATE: Wire = Wire {
    always_streams: true,
    read: gemini::read,
    answer: gemini::answer,
    event: gemini::answer_event,
    model: ModelPlace::Path,
    ..wire("stream_generate", Family::Gemini)
};

/// Google's `countTokens`.
pub(crate) static GEMINI_COUNT: Wire = Wire {
    bills: Bills::Nothing,
    read: gemini::read,
    model: ModelPlace::Path,
    ..wire("gemini_count", Family::Gemini)
};

/// Google's `embedContent`, and for several texts `batchEmbedContents`.
pub(crate) static GEMINI_EMBED: Wire = Wire {
    action: &EMBED,
    bills: Bills::Input,
    read: gemini::read,
    model: ModelPlace::Path,
    ..wire("gemini_embed", Family::Gemini)
};
pub(crate) static GEMINI_EMBED_BATCH: Wire = Wire {
    action: &EMBED,
    bills: Bills::Input,
    read: gemini::read,
    model: ModelPlace::Path,
    ..wire("gemini_embed_batch", Family::Gemini)
};

/// All rows.
pub(crate) static ALL: &[&Wire] = &[
    &CHAT_COMPLETIONS,
    &RESPONSES,
    &COMPACT,
    &EMBEDDINGS,
    &COMPLETIONS,
    &MODERATIONS,
    &RERANK,
    &IMAGES,
    &MESSAGES,
    &COUNT_TOKENS,
    &GENERATE,
    &STREAM_GENERATE,
    &GEMINI_COUNT,
    &GEMINI_EMBED,
    &GEMINI_EMBED_BATCH,
];

const fn wire(name: &'static str, family: Family) -> Wire {
    Wire {
        name,
        family,
        action: &CHAT,
        model: ModelPlace::Body,
        bills: Bills::All,
        always_streams: false,
        read: |_, _| (),
        answer: |_, _| (),
        event: |_, _| (),
    }
}

/// The row of a path below `/v1`.
pub(crate) fn of_v1(rest: &str) -> Option<&'static Wire> {
    Some(match rest {
        // The second as Cullis has it.
        "chat/completions" | "llm/chat" => &CHAT_COMPLETIONS,
        "completions" => &COMPLETIONS,
        "moderations" => &MODERATIONS,
        "rerank" => &RERANK,
        "images/generations" => &IMAGES,
        "responses" => &RESPONSES,
        "responses/compact" => &COMPACT,
        "embeddings" => &EMBEDDINGS,
        "messages" => &MESSAGES,
        "messages/count_tokens" => &COUNT_TOKENS,
        _ => return None,
    })
}

/// The row of a verb behind `/v1beta/models/MODEL:`.
pub(crate) fn of_verb(verb: &str) -> Option<&'static Wire> {
    Some(match verb {
        "generateContent" => &GENERATE,
        "streamGenerateContent" => &STREAM_GENERATE,
        "countTokens" => &GEMINI_COUNT,
        "embedContent" => &GEMINI_EMBED,
        "batchEmbedContents" => &GEMINI_EMBED_BATCH,
        _ => return None,
    })
}
