//! Vectors of texts: the same for the same text, of length 1, and without a meaning. Source: OpenAI API reference,
//! "Embeddings"; Gemini API reference, "Embeddings".

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::asked::parsed;

/// The most texts of one request, as OpenAI bounds them.
const TEXTS_MAX: usize = 2_048;
/// The most numbers of one vector.
const DIMENSIONS_MAX: usize = 4_096;
const DIMENSIONS_DEFAULT: usize = 16;

#[derive(Deserialize)]
struct OpenAiRequest {
    model: String,
    input: Value,
    dimensions: Option<usize>,
    encoding_format: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiRequest {
    content: Value,
    #[serde(alias = "output_dimensionality")]
    output_dimensionality: Option<usize>,
}

#[derive(Deserialize)]
struct Batch {
    requests: Vec<GeminiRequest>,
}

/// The answer to `/v1/embeddings`.
pub(super) fn openai(body: &[u8], tokens: u64) -> Result<String, String> {
    let request: OpenAiRequest = parsed(body)?;
    let texts = texts(&request.input)?;
    let size = size(request.dimensions)?;
    let is_base64 = match request.encoding_format.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(_) => return Err("encoding_format: must be float or base64".into()),
    };
    let vectors = texts.iter().map(|text| vector(text, size));
    let data: Vec<Value> = vectors
        .enumerate()
        .map(|(index, vector)| {
            let embedding = match is_base64 {
                true => json!(packed(&vector)),
                false => json!(vector),
            };
            json!({ "object": "embedding", "index": index, "embedding": embedding })
        })
        .collect();
    let usage = json!({ "prompt_tokens": tokens, "total_tokens": tokens });
    let answer = json!({ "object": "list", "data": data, "model": request.model, "usage": usage });
    Ok(answer.to_string())
}

/// The answer to `embedContent`.
pub(super) fn one(body: &[u8]) -> Result<String, String> {
    let embedding = embedded(&parsed(body)?)?;
    Ok(json!({ "embedding": embedding }).to_string())
}

/// The answer to `batchEmbedContents`.
pub(super) fn batch(body: &[u8]) -> Result<String, String> {
    let batch: Batch = parsed(body)?;
    if !(1..=TEXTS_MAX).contains(&batch.requests.len()) {
        return Err(format!("requests: from 1 to {TEXTS_MAX}"));
    }
    let all: Result<Vec<Value>, String> = batch.requests.iter().map(embedded).collect();
    Ok(json!({ "embeddings": all? }).to_string())
}

fn embedded(request: &GeminiRequest) -> Result<Value, String> {
    let parts = request.content["parts"]
        .as_array()
        .ok_or("content: parts are required")?;
    let text: String = parts
        .iter()
        .filter_map(|part| part["text"].as_str())
        .collect();
    let size = size(request.output_dimensionality)?;
    Ok(json!({ "values": vector(&text, size) }))
}

/// Each text of an input: a text, a list of them, a list of tokens or a list of such lists.
fn texts(input: &Value) -> Result<Vec<String>, String> {
    let is_tokens = |value: &Value| {
        value
            .as_array()
            .is_some_and(|all| all.iter().all(Value::is_u64))
    };
    let texts = match input {
        Value::String(text) => vec![text.clone()],
        Value::Array(all) if !all.is_empty() && is_tokens(input) => vec![input.to_string()],
        Value::Array(all) => all
            .iter()
            .map(|one| match one {
                Value::String(text) => Ok(text.clone()),
                tokens if is_tokens(tokens) => Ok(tokens.to_string()),
                _ => Err("input: a text or tokens, or a list of them"),
            })
            .collect::<Result<_, _>>()?,
        _ => return Err("input: a text or tokens, or a list of them".into()),
    };
    match texts.len() {
        1..=TEXTS_MAX => Ok(texts),
        count => Err(format!("input: from 1 to {TEXTS_MAX} texts, not {count}")),
    }
}

fn size(dimensions: Option<usize>) -> Result<usize, String> {
    match dimensions.unwrap_or(DIMENSIONS_DEFAULT) {
        size @ 1..=DIMENSIONS_MAX => Ok(size),
        _ => Err(format!("dimensions: from 1 to {DIMENSIONS_MAX}")),
    }
}

/// The vector of a text.
fn vector(text: &str, size: usize) -> Vec<f32> {
    let digest = Sha256::digest(text.as_bytes());
    let seed = digest
        .iter()
        .take(8)
        .fold(0, |seed, byte| seed << 8 | u64::from(*byte));
    let mut rng = fastrand::Rng::with_seed(seed);
    let drawn: Vec<f32> = (0..size).map(|_| rng.f32() * 2.0 - 1.0).collect();
    let length = drawn
        .iter()
        .map(|x| x * x)
        .sum::<f32>()
        .sqrt()
        .max(f32::MIN_POSITIVE);
    drawn.into_iter().map(|x| x / length).collect()
}

/// The numbers in little-endian order, as OpenAI's clients read them.
fn packed(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_vector_of_length_one() {
        let (one, same, other) = (vector("a", 64), vector("a", 64), vector("b", 64));
        assert_eq!(one, same);
        assert_ne!(one, other);
        let length: f32 = one.iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-4, "{length}");
    }

    #[test]
    fn what_is_no_input_is_refused() {
        let ask = |body: Value| openai(body.to_string().as_bytes(), 1);
        for input in [
            json!("a"),
            json!(["a", "b"]),
            json!([1, 2]),
            json!([[1], [2, 3]]),
        ] {
            assert!(ask(json!({ "model": "m", "input": input })).is_ok());
        }
        for input in [
            json!([]),
            json!({}),
            json!([{}]),
            json!(null),
            json!(["a", 1]),
        ] {
            assert!(ask(json!({ "model": "m", "input": input })).is_err());
        }
        let many = vec!["a"; TEXTS_MAX + 1];
        assert!(ask(json!({ "model": "m", "input": many })).is_err());
        assert!(ask(json!({ "model": "m", "input": "a", "dimensions": 5000 })).is_err());
        assert!(ask(json!({ "model": "m", "input": "a", "encoding_format": "x" })).is_err());
        assert!(one(br#"{"content":{}}"#).is_err() && batch(br#"{"requests":[]}"#).is_err());
    }
}
