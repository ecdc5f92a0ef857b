//! A configuration file exactly as it was written, beside what its keys mean.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::PROBLEMS_MAX;
use crate::problem::{Path, Problem, Step};
use crate::read::{self, Wrong};
use crate::schema::{self, Found};
use crate::yaml::{self, At, Scalars, Spot};

/// A file, with the position and the help of each key.
#[derive(Debug)]
pub struct Document {
    file: String,
    tree: Value,
    spot: Spot,
    schema: Value,
}

impl Document {
    /// Reads a text as a `T`, and tells everything that is wrong with it. What is wrong is left out of the value.
    ///
    /// # Errors
    ///
    /// The text is not YAML; that is the one problem.
    pub fn read<T>(file: &str, text: &str) -> Result<(Document, T, Vec<Problem>), Problem>
    where
        T: DeserializeOwned + JsonSchema,
    {
        let of_file = |at: At, message: String, help: &str| Problem {
            line: at.line,
            column: at.column,
            ..Problem::of_file(file, message, help)
        };
        let parsed = yaml::parse(text, Scalars::Written);
        let (tree, spot) = parsed.map_err(|wrong| of_file(wrong.at, wrong.message, ""))?;
        let mut document = Document {
            file: file.to_owned(),
            tree,
            spot,
            schema: schema::of::<T>(),
        };
        if !document.tree.is_object() {
            let help = "Begin with a line such as listen: 127.0.0.1:8700.";
            let at = document.spot.value(&Path::default());
            let problem = of_file(at, "must be a map of keys".to_owned(), help);
            document.tree = Value::Object(Map::new());
            return Ok((document, of_nothing(), vec![problem]));
        }
        let mut problems = Vec::new();
        let value = document.value(&mut problems);
        problems.sort_by_key(|problem| (problem.line, problem.column));
        problems.truncate(PROBLEMS_MAX);
        Ok((document, value, problems))
    }

    fn value<T: DeserializeOwned>(&self, problems: &mut Vec<Problem>) -> T {
        let mut tree = self.tree.clone();
        let mut say = |path: &Path, found: Found, help: &Path| {
            let (at, message) = match found {
                Found::Name(message) => (self.spot.key(path), message),
                Found::Missing(key) => (self.spot.value(path), format!("{key} is missing")),
                Found::Nothing { is_required } => {
                    let message = match is_required {
                        true => "has no value, and is required; give it one",
                        false => "has no value; leave the key out or give it one",
                    };
                    (self.spot.value(path), message.to_owned())
                }
            };
            let help = schema::help(&self.schema, help);
            problems.push(self.at(at, path, message, help));
        };
        schema::check(&self.schema, &mut tree, &Path::default(), &mut say);
        let (value, wrong) = read::all(tree);
        for (path, wrong) in &wrong {
            let wrong = self.wrong(path, wrong);
            // A key that is missing is seen by the schema and by serde.
            let is_same = |told: &Problem| told.key == wrong.key && told.message == wrong.message;
            if !problems.iter().any(is_same) {
                problems.push(wrong);
            }
        }
        value.unwrap_or_else(of_nothing)
    }

    fn wrong(&self, path: &Path, wrong: &Wrong) -> Problem {
        let help = || schema::help(&self.schema, path);
        let written = self.get(path);
        match wrong {
            Wrong::Key(_) => {
                let at = self.spot.key(path);
                self.at(at, path, wrong.message(), wrong.help(path))
            }
            Wrong::Type(_) => {
                let kind = schema::kind(&self.schema, path).unwrap_or_default();
                let message = match written {
                    Some(Value::String(_)) if kind.starts_with("list of ") => {
                        "must be a list".to_owned()
                    }
                    Some(Value::String(_)) => "must be a map of keys".to_owned(),
                    _ => format!("has to be: {kind}"),
                };
                self.at(self.spot.value(path), path, message, help())
            }
            Wrong::Word { .. } | Wrong::Missing(_) | Wrong::Other(_) => {
                self.at(self.spot.value(path), path, wrong.message(), help())
            }
        }
    }

    fn at(&self, at: At, path: &Path, message: String, help: String) -> Problem {
        Problem {
            file: self.file.clone(),
            line: at.line,
            column: at.column,
            key: path.to_string(),
            message,
            help,
        }
    }

    /// A problem of a key's value, or of the nearest above it that was written; with the key's help.
    pub fn problem(&self, path: &Path, message: impl Into<String>) -> Problem {
        let help = schema::help(&self.schema, path);
        self.at(self.spot.value(path), path, message.into(), help)
    }

    /// The same of the key, where a name is what is wrong.
    pub fn problem_of_name(&self, path: &Path, message: impl Into<String>) -> Problem {
        let at = self.spot.key(path);
        self.at(at, path, message.into(), schema::help(&self.schema, path))
    }

    /// Whether something stands at a path, be it good or not.
    pub fn wrote(&self, path: &Path) -> bool {
        self.get(path).is_some_and(|value| !value.is_null())
    }

    /// The text at a path.
    pub fn text(&self, path: &Path) -> Option<&str> {
        self.get(path).and_then(Value::as_str)
    }

    /// The names below a path, be what they stand for good or not.
    pub fn names(&self, path: &Path) -> impl Iterator<Item = &str> {
        let map = self.get(path).and_then(Value::as_object);
        map.into_iter().flatten().map(|(name, _)| name.as_str())
    }

    fn get(&self, path: &Path) -> Option<&Value> {
        let mut steps = path.0.iter();
        steps.try_fold(&self.tree, |value, step| match step {
            Step::Key(key) => value.get(key),
            Step::Index(index) => value.get(index),
        })
    }

    /// The file, as it was named.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Every key that has a value, as YAML; defaults are marked.
    pub fn show(&self) -> String {
        crate::show::show(&self.schema, &self.tree)
    }
}

/// What holds where nothing is written.
fn of_nothing<T: DeserializeOwned>() -> T {
    let empty = serde_json::from_value(Value::Object(Map::new()));
    empty.expect("a struct of defaults is read from an empty map")
}
