//! From a tree to a struct by serde, with everything that is wrong instead of the first.
//!
//! Serde stops at what is wrong. That is taken out and the rest is read again, so each field that is left out must
//! have a default or be an `Option`; what a struct cannot be without is told by `schema`.

use base::near;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::Segment;

use crate::PROBLEMS_MAX;
use crate::problem::{Path, Step};

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The key is not known; these are.
    Key(Vec<String>),
    /// A word that is none of these.
    Word { written: String, known: Vec<String> },
    /// Another type was expected.
    Type(String),
    /// A key is missing.
    Missing(String),
    /// In the words of the type that read it.
    Other(String),
}

/// Reads a tree, and tells everything that is wrong with it. There is no value where the whole tree is of the wrong
/// type.
pub fn all<T: DeserializeOwned>(mut tree: Value) -> (Option<T>, Vec<(Path, Wrong)>) {
    let mut problems: Vec<(Path, Wrong)> = Vec::new();
    while problems.len() < PROBLEMS_MAX {
        let error = match serde_path_to_error::deserialize::<_, T>(&tree) {
            Ok(value) => return (Some(value), problems),
            Err(error) => error,
        };
        let path = path_of(error.path());
        // What is wrong because of what was taken out was told with that.
        if !problems.iter().any(|(told, _)| path.covers(told)) {
            let wrong = Wrong::of(&error.into_inner().to_string());
            problems.push((path.clone(), wrong));
        }
        if !forget(&mut tree, &path) {
            break;
        }
    }
    (None, problems)
}

fn path_of(path: &serde_path_to_error::Path) -> Path {
    let steps = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(Step::Index(*index)),
        Segment::Map { key } => Some(Step::Key(key.clone())),
        Segment::Enum { variant } => Some(Step::Key(variant.clone())),
        Segment::Unknown => None,
    });
    Path(steps.collect())
}

/// Takes what is wrong out of the tree, or else what it is in. An element of a list leaves a null, so that those
/// after it keep their places. False where there is nothing to take out.
fn forget(tree: &mut Value, path: &Path) -> bool {
    let mut steps = path.0.as_slice();
    while let Some((last, above)) = steps.split_last() {
        let place = above.iter().try_fold(&mut *tree, |value, step| match step {
            Step::Key(key) => value.get_mut(key),
            Step::Index(index) => value.get_mut(index),
        });
        match (place, last) {
            (Some(Value::Object(map)), Step::Key(key)) if map.contains_key(key) => {
                map.shift_remove(key);
                return true;
            }
            (Some(Value::Array(list)), Step::Index(index))
                if list.get(*index).is_some_and(|value| !value.is_null()) =>
            {
                list[*index] = Value::Null;
                return true;
            }
            _ => steps = above,
        }
    }
    false
}

impl Wrong {
    /// Of serde's words.
    fn of(error: &str) -> Wrong {
        let quoted: Vec<String> = error
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect();
        let known = || quoted.get(1..).unwrap_or_default().to_vec();
        let first = || quoted.first().cloned().unwrap_or_default();
        if error.starts_with("unknown field") {
            return Wrong::Key(known());
        }
        if error.starts_with("unknown variant") {
            let (written, known) = (first(), known());
            return Wrong::Word { written, known };
        }
        if error.starts_with("missing field") {
            return Wrong::Missing(first());
        }
        match error.split_once("expected ") {
            Some((_, expected)) if error.starts_with("invalid ") => {
                Wrong::Type(expected.to_owned())
            }
            _ => Wrong::Other(error.to_owned()),
        }
    }

    /// What is wrong, in a sentence. It does not repeat the value, which may be a secret in the wrong place.
    pub fn message(&self) -> String {
        match self {
            Wrong::Key(_) => "there is no such key".to_owned(),
            Wrong::Word { known, .. } => format!("must be one of {}", known.join(", ")),
            Wrong::Missing(key) => format!("{key} is missing"),
            Wrong::Type(expected) => match expected.as_str() {
                "a map" => "must be a map of keys".to_owned(),
                expected if expected.starts_with("struct ") => "must be a map of keys".to_owned(),
                "a sequence" | "a list" => "must be a list".to_owned(),
                "string or map" | "map with a single key" => {
                    "must be a word, or a map with one key".to_owned()
                }
                expected => format!("has to be: {expected}"),
            },
            Wrong::Other(message) => message.clone(),
        }
    }

    /// What was meant, where that can be guessed; `written` is the last key of the path.
    pub fn help(&self, path: &Path) -> String {
        let last = match path.0.last() {
            Some(Step::Key(key)) => key.as_str(),
            Some(Step::Index(_)) | None => "",
        };
        let meant = |written: &str, known: &[String]| {
            let near = near::meant(written, known.iter().map(String::as_str));
            near.map(|near| format!("Did you mean {near}?"))
        };
        match self {
            Wrong::Key(known) => meant(last, known)
                .unwrap_or_else(|| format!("The keys here are {}.", known.join(", "))),
            Wrong::Word { written, known } => meant(written, known).unwrap_or_default(),
            Wrong::Type(_) | Wrong::Missing(_) | Wrong::Other(_) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Count, List, Named};
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Inner {
        many: Count<1, 9>,
        words: List<Word>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Word {
        One,
        Two,
    }

    #[test]
    fn everything_that_is_wrong_is_told_and_the_rest_is_read() {
        let tree = json!({
            "a": { "many": "10", "word": "x", "words": ["one", "too", "three", "two"] },
            "b": "text",
            "c": { "many": "7", "words": [] },
        });
        let (read, problems) = all::<Named<Inner>>(tree);
        let said: Vec<String> = problems
            .iter()
            .map(|(path, wrong)| format!("{path}: {}|{}", wrong.message(), wrong.help(path)))
            .collect();
        assert_eq!(
            said,
            [
                "a.many: must be a whole number from 1 to 9|",
                "a.word: there is no such key|Did you mean words?",
                "a.words[1]: must be one of one, two|Did you mean two?",
                "a.words[2]: must be one of one, two|",
                "b: must be a map of keys|",
            ]
        );
        let read = read.expect("the rest").0;
        assert_eq!(read.len(), 2);
        let words: Vec<_> = read[0].1.words.iter().collect();
        assert_eq!(words, [(0, &Word::One), (3, &Word::Two)]);
        assert_eq!(read[1].1.many.0, 7);
    }
}
