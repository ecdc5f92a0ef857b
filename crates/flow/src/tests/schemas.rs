//! The official test suite of JSON Schema 2020-12, as Debian's package `libtest-json-schema-acceptance-perl` carries it: all that is
//! not optional.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::model::entity::compile;

/// Where the package has it.
const SUITE: &str =
    "/usr/share/perl5/auto/share/dist/Test-JSON-Schema-Acceptance/tests/draft2020-12";
/// Files that ask for something else than types of entities do: `format` is tested here and not only noted, and a schema of
/// another vocabulary is not fetched.
const OTHERWISE: &[&str] = &["format.json", "vocabulary.json"];

#[derive(Deserialize)]
struct Group {
    description: String,
    schema: Value,
    tests: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    description: String,
    data: Value,
    valid: bool,
}

/// What became of the cases.
#[derive(Default)]
struct Tally {
    right: usize,
    wrong: Vec<String>,
    /// Schemas that leave themselves, or have no end, or are no objects: refused, or never asked for.
    outside: usize,
    endless: usize,
    no_object: usize,
    /// Schemas with NUL, which no store can keep.
    nul: usize,
}

impl Tally {
    fn group(&mut self, file: &str, group: &Group) {
        let schema: &Map<String, Value> = match &group.schema {
            Value::Object(schema) => schema,
            _ => {
                self.no_object += 1;
                return;
            }
        };
        let validator = match compile(schema) {
            Ok(validator) => validator,
            Err(problem) if problem.message.contains("leaves the schema") => {
                assert!(group.schema.to_string().contains("ref\":"));
                self.outside += 1;
                return;
            }
            Err(problem) if problem.message.contains("has no end") => {
                self.endless += 1;
                return;
            }
            Err(problem) if problem.message.contains("may not hold NUL") => {
                self.nul += 1;
                return;
            }
            Err(problem) => {
                let what = format!("{file}: {}: {}", group.description, problem.message);
                self.wrong.push(what);
                return;
            }
        };
        for case in &group.tests {
            match validator.is_valid(&case.data) == case.valid {
                true => self.right += 1,
                false => {
                    let what = format!("{file}: {}: {}", group.description, case.description);
                    self.wrong.push(what);
                }
            }
        }
    }
}

#[test]
fn the_official_suite() {
    let folder = Path::new(SUITE);
    assert!(
        folder.is_dir(),
        "{SUITE} is missing: apt-get install libtest-json-schema-acceptance-perl"
    );
    let mut tally = Tally::default();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() || OTHERWISE.contains(&name.as_str()) {
            continue;
        }
        let groups: Vec<Group> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        groups.iter().for_each(|group| tally.group(&name, group));
    }
    assert_eq!(tally.wrong, Vec::<String>::new());
    assert!(tally.right > 900, "{}", tally.right);
    let refused = (tally.outside, tally.endless, tally.no_object, tally.nul);
    assert!(
        tally.nul == 2
            && (1..70).contains(&tally.outside)
            && tally.endless < 5
            && tally.no_object < 5,
        "{refused:?}"
    );
}
