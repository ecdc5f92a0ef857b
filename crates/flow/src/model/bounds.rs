//! How large what is written may be. Each check names the field and says what it may be.

use serde_json::Value;
use tools::serve::call::Problem;

/// Longest title or name, in characters.
pub const TITLE_CHARS_MAX: usize = 200;
/// Longest description, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 20_000;
/// Longest word, such as a branch, a tag or who has an item, in characters.
pub const WORD_CHARS_MAX: usize = 200;
/// Longest list of words or references in one object.
pub const LIST_MAX: usize = 200;
/// Largest JSON of one object, in bytes.
pub const JSON_BYTES_MAX: usize = 256 << 10;
/// Deepest JSON.
pub const JSON_DEPTH_MAX: usize = 32;
/// Most values in one JSON.
pub const JSON_VALUES_MAX: usize = 10_000;
/// Levels of work items: a project item at 1, its parts below.
pub const DEPTH_MAX: i64 = 5;
/// Longest lease, in seconds.
pub const LEASE_S_MAX: u64 = 86_400;
/// Lease where none is asked for, in seconds.
pub const LEASE_S_DEFAULT: u64 = 900;

/// A text that may not be empty.
pub fn title(field: &str, text: &str) -> Result<String, Problem> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Problem::argument(format!("`{field}`: may not be empty")));
    }
    within(field, text, TITLE_CHARS_MAX)
}

/// A text of at most so many characters, without NUL, which not every store can keep.
pub fn within(field: &str, text: &str, most: usize) -> Result<String, Problem> {
    let count = text.chars().count();
    if count > most {
        return Err(Problem::argument(format!(
            "`{field}`: has {count} characters; at most {most} are kept"
        )));
    }
    if text.contains('\0') {
        return Err(Problem::argument(format!("`{field}`: may not hold NUL")));
    }
    Ok(text.to_owned())
}

/// Words, each once, in the order in which they came.
pub fn words(field: &str, list: &[String]) -> Result<Vec<String>, Problem> {
    if list.len() > LIST_MAX {
        return Err(Problem::argument(format!(
            "`{field}`: has {} entries; at most {LIST_MAX} are kept",
            list.len()
        )));
    }
    let mut all: Vec<String> = Vec::new();
    for word in list {
        let word = within(field, word.trim(), WORD_CHARS_MAX)?;
        if word.is_empty() {
            return Err(Problem::argument(format!("`{field}`: an entry is empty")));
        }
        if !all.contains(&word) {
            all.push(word);
        }
    }
    Ok(all)
}

/// A commit: 7 to 64 hex digits, in lower case.
pub fn commit(field: &str, text: &str) -> Result<String, Problem> {
    let text = text.trim().to_ascii_lowercase();
    let hex = text.bytes().all(|b| b.is_ascii_hexdigit());
    if !hex || !(7..=64).contains(&text.len()) {
        return Err(Problem::argument(format!(
            "`{field}`: {text:?} is no commit; give its 40 hex digits"
        )));
    }
    Ok(text)
}

/// A JSON object that is not too large, too deep or too wide.
pub fn object(field: &str, value: &Value) -> Result<Value, Problem> {
    if !value.is_object() {
        return Err(Problem::argument(format!(
            "`{field}`: must be a JSON object"
        )));
    }
    json(field, value)?;
    Ok(value.clone())
}

/// JSON that is not too large, too deep or too wide.
pub fn json(field: &str, value: &Value) -> Result<(), Problem> {
    let mut left = JSON_VALUES_MAX;
    measure(field, value, JSON_DEPTH_MAX, &mut left)?;
    let bytes = value.to_string().len();
    if bytes > JSON_BYTES_MAX {
        return Err(Problem::argument(format!(
            "`{field}`: has {bytes} bytes; at most {JSON_BYTES_MAX} are kept"
        )));
    }
    Ok(())
}

fn measure(field: &str, value: &Value, depth: usize, left: &mut usize) -> Result<(), Problem> {
    if depth == 0 {
        return Err(Problem::argument(format!(
            "`{field}`: is deeper than {JSON_DEPTH_MAX} levels"
        )));
    }
    *left = left.checked_sub(1).ok_or_else(|| {
        Problem::argument(format!("`{field}`: has more than {JSON_VALUES_MAX} values"))
    })?;
    match value {
        Value::String(text) => nul(field, text),
        Value::Array(values) => values
            .iter()
            .try_for_each(|value| measure(field, value, depth - 1, left)),
        Value::Object(map) => map.iter().try_for_each(|(key, value)| {
            nul(field, key)?;
            measure(field, value, depth - 1, left)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn nul(field: &str, text: &str) -> Result<(), Problem> {
    match text.contains('\0') {
        true => Err(Problem::argument(format!("`{field}`: may not hold NUL"))),
        false => Ok(()),
    }
}
