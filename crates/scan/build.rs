//! Writes the rules of our own pattern files as Rust, so that a start reads nothing.
//!
//! It knows the fields of a rule and their defaults, and nothing of what they mean: a word that is no value
//! of its type does not compile. A test holds that what it writes is what the reader of the operator's
//! files reads.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use toml::{Table, Value};

fn main() {
    let variable = |name| PathBuf::from(env::var_os(name).expect("cargo sets it"));
    let folder = variable("CARGO_MANIFEST_DIR").join("patterns");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut rust = "[\n".to_owned();
    for name in read(&folder.join("list.txt")).lines() {
        let file: Table = toml::from_str(&read(&folder.join(name)))
            .unwrap_or_else(|error| panic!("the pattern file {name}: {error}"));
        let Some(Value::Array(rules)) = file.get("rule") else {
            panic!("the pattern file {name} has no rules");
        };
        for value in rules {
            let Value::Table(rule) = value else {
                panic!("the pattern file {name}: a rule is a table");
            };
            rust += &Fields(rule.clone()).rule();
        }
    }
    rust += "]\n";
    let out = variable("OUT_DIR").join("rules.rs");
    fs::write(&out, rust).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The fields of one rule that are not yet written.
struct Fields(Table);

impl Fields {
    /// The rule as an expression of Rust.
    fn rule(mut self) -> String {
        let everywhere = "&Direction::ALL".to_owned();
        let fields = [
            ("id", self.text("id")),
            ("class", self.word("class", "Class")),
            ("severity", self.word("severity", "Severity")),
            ("summary", self.text("summary")),
            ("reference", self.text("reference")),
            ("action", self.word("action", "Action")),
            ("literals", self.texts("literals")),
            ("regex", self.lines("regex")),
            ("remedy", self.text("remedy")),
            ("kind", self.optional("kind", |value| word(value, "Kind"))),
            ("language", self.text("language")),
            (
                "directions",
                self.list("directions", |value| word(value, "Direction"))
                    .unwrap_or(everywhere),
            ),
            ("hits", self.texts("hits")),
            ("misses", self.texts("misses")),
            ("before", self.plain("before", "0")),
            ("pair", self.plain("pair", "false")),
            ("digits", self.plain("digits", "false")),
            ("base58", self.plain("base58", "false")),
            ("phrase", self.plain("phrase", "false")),
            ("block", self.plain("block", "false")),
            ("check", self.check()),
        ];
        let unknown: Vec<_> = self.0.keys().collect();
        assert!(
            unknown.is_empty(),
            "{}: no rule has the fields {unknown:?}",
            fields[0].1
        );
        let mut rust = "Rule {\n".to_owned();
        for (name, value) in fields {
            let _ = writeln!(rust, "    {name}: {value},");
        }
        rust + "},\n"
    }

    fn text(&mut self, name: &str) -> String {
        let value = self.0.remove(name);
        value.map_or("\"\"".to_owned(), |value| text(&value))
    }

    /// A text that may be written on several lines.
    fn lines(&mut self, name: &str) -> String {
        if let Some(Value::String(text)) = self.0.get_mut(name) {
            text.retain(|letter| letter != '\n');
        }
        self.text(name)
    }

    fn texts(&mut self, name: &str) -> String {
        self.list(name, text).unwrap_or("&[]".to_owned())
    }

    fn list(&mut self, name: &str, each: impl Fn(&Value) -> String) -> Option<String> {
        let value = self.0.remove(name)?;
        let Value::Array(values) = value else {
            panic!("{name} takes a list, not {value:?}");
        };
        let values: Vec<String> = values.iter().map(each).collect();
        Some(format!("&[{}]", values.join(", ")))
    }

    fn word(&mut self, name: &str, kind: &str) -> String {
        let value = self.0.remove(name);
        word(
            &value.unwrap_or_else(|| panic!("a rule needs {name}")),
            kind,
        )
    }

    fn optional(&mut self, name: &str, value: impl Fn(&Value) -> String) -> String {
        match self.0.remove(name) {
            Some(given) => format!("Some({})", value(&given)),
            None => "None".to_owned(),
        }
    }

    /// A number or a yes or no.
    fn plain(&mut self, name: &str, default: &str) -> String {
        let value = self.0.remove(name);
        value.map_or(default.to_owned(), |value| plain(&value))
    }

    fn check(&mut self) -> String {
        let test = self.optional("check", |value| word(value, "Test"));
        let entropy = self.optional("entropy", plain);
        format!("Check {{ entropy: {entropy}, test: {test} }}")
    }
}

/// A text as Rust writes it.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => panic!("{other:?} is no text"),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Boolean(answer) => answer.to_string(),
        other => panic!("{other:?} is no number, and no yes or no"),
    }
}

/// The value of a type that a word of the files names: `weak_password` is `Test::WeakPassword`.
fn word(value: &Value, kind: &str) -> String {
    let Value::String(word) = value else {
        panic!("{value:?} is no word");
    };
    let part = |part: &str| part[..1].to_ascii_uppercase() + &part[1..];
    let name: String = word.split('_').map(part).collect();
    format!("{kind}::{name}")
}
