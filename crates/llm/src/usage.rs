//! What providers count, in the words of one record.
//!
//! Anthropic counts what came from a cache beside the input; OpenAI and Google count it among it. A record has it apart, so that it
//! is priced once.

use base::record::Usage;
use base::{Json, JsonValue};
use serde_json::Value;

fn count(of: JsonValue<'_>, name: &str) -> Option<u64> {
    of.get(name)?.text().parse().ok()
}

/// OpenAI's chat completions and embeddings.
pub(crate) fn of_openai(usage: JsonValue<'_>) -> Option<Usage> {
    let detail = |of: &str, name: &str| count(usage.get(of)?, name).unwrap_or_default().into();
    let all = count(usage, "prompt_tokens")?;
    let cached: Option<u64> = detail("prompt_tokens_details", "cached_tokens");
    let reasoning: Option<u64> = detail("completion_tokens_details", "reasoning_tokens");
    Some(apart(
        all,
        cached,
        count(usage, "completion_tokens"),
        reasoning,
    ))
}

/// OpenAI's responses.
pub(crate) fn of_responses(usage: JsonValue<'_>) -> Option<Usage> {
    let detail = |of: &str, name: &str| count(usage.get(of)?, name).unwrap_or_default().into();
    let all = count(usage, "input_tokens")?;
    let cached: Option<u64> = detail("input_tokens_details", "cached_tokens");
    let reasoning: Option<u64> = detail("output_tokens_details", "reasoning_tokens");
    Some(apart(all, cached, count(usage, "output_tokens"), reasoning))
}

/// Google's.
pub(crate) fn of_gemini(usage: JsonValue<'_>) -> Option<Usage> {
    let all = count(usage, "promptTokenCount")?;
    let said = count(usage, "candidatesTokenCount").unwrap_or_default();
    let thought = count(usage, "thoughtsTokenCount");
    // Thoughts are counted beside what is said.
    let output = said.saturating_add(thought.unwrap_or_default());
    let cached = count(usage, "cachedContentTokenCount");
    Some(apart(all, cached, Some(output), thought))
}

/// Anthropic's. Of a stream the first event counts the input, and the last all that is known then.
pub(crate) fn of_anthropic(usage: JsonValue<'_>) -> Option<Usage> {
    let count = |name: &str| count(usage, name);
    let output = count("output_tokens")?;
    Some(Usage {
        input: count("input_tokens").unwrap_or_default(),
        cached_read: count("cache_read_input_tokens").unwrap_or_default(),
        cached_write: count("cache_creation_input_tokens").unwrap_or_default(),
        output,
        reasoning: 0,
    })
}

fn apart(all: u64, cached: Option<u64>, output: Option<u64>, reasoning: Option<u64>) -> Usage {
    let cached_read = cached.unwrap_or_default().min(all);
    Usage {
        input: all - cached_read,
        cached_read,
        cached_write: 0,
        output: output.unwrap_or_default(),
        reasoning: reasoning.unwrap_or_default(),
    }
}

/// The larger of two counts in each place: a later event may count a part alone.
pub(crate) fn merge(known: Option<Usage>, more: Option<Usage>) -> Option<Usage> {
    let (Some(known), Some(more)) = (known, more) else {
        return known.or(more);
    };
    Some(Usage {
        input: known.input.max(more.input),
        cached_read: known.cached_read.max(more.cached_read),
        cached_write: known.cached_write.max(more.cached_write),
        output: known.output.max(more.output),
        reasoning: known.reasoning.max(more.reasoning),
    })
}

/// What a value of a conversion counts, by one of these readers; nothing where it counts nothing.
fn counted(usage: &Value, of: fn(JsonValue<'_>) -> Option<Usage>) -> Usage {
    let text = usage.to_string();
    let read = Json::read(text.as_bytes()).ok();
    read.and_then(|json| of(json.root())).unwrap_or_default()
}

/// OpenAI's chat completions, in a value.
pub(crate) fn counted_by_openai(usage: &Value) -> Usage {
    counted(usage, of_openai)
}

/// Anthropic's, in a value.
pub(crate) fn counted_by_anthropic(usage: &Value) -> Usage {
    counted(usage, of_anthropic)
}

/// Google's, in a value.
pub(crate) fn counted_by_gemini(usage: &Value) -> Usage {
    counted(usage, of_gemini)
}
