//! Writes the rules of our own pattern files as Rust, so that a start reads nothing.
//!
//! It knows the fields of a rule and their defaults, and nothing of what they mean: a word that is no value
//! of its type does not compile. A test holds that what it writes is what the reader of the operator's
//! files reads.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a build script reads and writes files"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use toml::{Table, Value};

use crate::branch::Taken;

#[path = "src/branch.rs"]
#[allow(dead_code, reason = "the engine needs the rest")]
mod branch;
#[path = "src/common.rs"]
mod common;
#[path = "src/east.rs"]
#[allow(dead_code, reason = "the engine needs the rest")]
mod east;
#[allow(
    unreachable_pub,
    reason = "public in the library, which shares this file"
)]
#[path = "src/packed.rs"]
#[allow(dead_code, reason = "the engine needs the rest")]
mod packed;
#[path = "src/spell.rs"]
#[allow(dead_code, reason = "the engine needs the rest")]
mod spell;
#[path = "src/words.rs"]
#[allow(dead_code, reason = "the engine needs the rest")]
mod words;

fn main() {
    let variable = |name| PathBuf::from(env::var_os(name).expect("cargo sets it"));
    let folder = variable("CARGO_MANIFEST_DIR").join("patterns");
    println!("cargo::rerun-if-changed={}", folder.display());
    for source in ["branch", "common", "east", "packed", "spell", "words"] {
        println!("cargo::rerun-if-changed=src/{source}.rs");
    }
    let mut rust = "[\n".to_owned();
    let mut openers = Openers::default();
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
            let rule = &put_together(rule, file.get("parts"));
            let branches = taken(rule);
            openers.add(rule, &branches);
            rust += &Fields(rule.clone()).rule(&branches);
        }
    }
    rust += "]\n";
    let write = |name, rust: String| {
        let out = variable("OUT_DIR").join(name);
        fs::write(&out, rust).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
    };
    write("rules.rs", rust);
    write("words.rs", openers.rust());
}

/// A rule whose expression calls no parts any more.
fn put_together(rule: &Table, parts: Option<&Value>) -> Table {
    let mut rule = rule.clone();
    if let Some(Value::String(regex)) = rule.get_mut("regex") {
        let part = |name: &str| parts?.get(name)?.as_str();
        *regex = spell::whole(regex, part).unwrap_or_else(|error| panic!("{regex}: {error}"));
    }
    rule
}

/// The branches of a rule against injection.
fn taken(rule: &Table) -> Vec<Taken> {
    let text = |name| rule.get(name).and_then(Value::as_str).unwrap_or_default();
    match text("class") {
        "injection" => branch::branches(text("regex"))
            .unwrap_or_else(|error| panic!("the expression of {}: {error}", text("id"))),
        _ => Vec::new(),
    }
}

/// The words that open rules, and what each of them is to which rule.
#[derive(Default)]
struct Openers {
    rules: u16,
    words: BTreeMap<Vec<u8>, Vec<String>>,
}

impl Openers {
    fn add(&mut self, rule: &Table, branches: &[Taken]) {
        let index = self.rules;
        self.rules += 1;
        let text = |name| rule.get(name).and_then(Value::as_str).unwrap_or_default();
        if !["secret", "personal", "injection"].contains(&text("class")) {
            return;
        }
        let list = rule.get("literals").and_then(Value::as_array);
        let texts = list.into_iter().flatten().filter_map(Value::as_str);
        let literals: Vec<(Vec<u8>, u8)> = texts
            .map(|literal| spell::spelled(literal).to_ascii_lowercase().into_bytes())
            .map(|literal| (literal, 0))
            .collect();
        let mut add = |words: &[(Vec<u8>, u8)], branch: usize, part: &str| {
            for (word, edges) in words {
                let uses = self.words.entry(word.clone()).or_default();
                uses.push(format!(
                    "Use {{ rule: {index}, branch: {branch}, part: Part::{part}, edges: {edges} }}"
                ));
            }
        };
        if branches.is_empty() {
            add(&literals, 0, "Literal");
        }
        for (branch, taken) in branches.iter().enumerate() {
            if taken.first.is_empty() {
                add(&literals, branch, "Literal");
            }
            let only = taken.last.is_empty();
            let last = if taken.middle.is_empty() {
                "Second"
            } else {
                "Third"
            };
            // What a word says as the last one is told before it is seen as one before it.
            add(&taken.last, branch, last);
            add(&taken.middle, branch, "Middle");
            add(&taken.first, branch, if only { "Only" } else { "First" });
        }
    }

    /// The words that are ASCII, and the others.
    fn rust(&self) -> String {
        let list = |ascii: bool| {
            let words = self
                .words
                .iter()
                .filter(|(word, _)| word.is_ascii() == ascii);
            let (mut texts, mut all, mut ends) = (Vec::new(), Vec::new(), Vec::new());
            for (word, uses) in words {
                texts.extend_from_slice(word);
                all.extend_from_slice(uses);
                ends.push((texts.len(), all.len()));
            }
            let (texts, all) = (bytes(&texts), all.join(",\n"));
            format!("Openings {{ texts: {texts}, uses: &[{all}], ends: &{ends:?} }}")
        };
        format!("[{}, {}]\n", list(true), list(false))
    }
}

/// The branch as an expression of Rust.
fn branch(taken: &Taken) -> String {
    let words = |words: &[(Vec<u8>, u8)]| format!("Words::packed({})", bytes(&packed::pack(words)));
    let Taken {
        regex,
        ascii,
        first,
        middle,
        last,
        near,
        before,
        after,
    } = taken;
    let [first, middle, last] = [first, middle, last].map(|step| words(step));
    format!(
        "Branch {{ regex: {regex:?}, ascii: {ascii}, first: {first}, middle: {middle}, \
         last: {last}, near: {near:?}, before: {before}, after: {after} }}"
    )
}

/// Bytes as Rust writes them.
fn bytes(bytes: &[u8]) -> String {
    format!("b\"{}\"", bytes.escape_ascii())
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The fields of one rule that are not yet written.
struct Fields(Table);

impl Fields {
    /// The rule as an expression of Rust.
    fn rule(mut self, branches: &[Taken]) -> String {
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
            ("named", self.plain("named", "false")),
            ("digits", self.plain("digits", "false")),
            ("base58", self.plain("base58", "false")),
            ("phrase", self.plain("phrase", "false")),
            ("block", self.plain("block", "false")),
            ("check", self.check()),
            ("branches", {
                let all: Vec<String> = branches.iter().map(branch).collect();
                format!("&[{}]", all.join(", "))
            }),
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
        let Some(value) = self.0.remove(name) else {
            return "Texts::packed(\"\")".to_owned();
        };
        let Value::Array(values) = value else {
            panic!("{name} takes a list, not {value:?}");
        };
        let one = |value: &Value| match value {
            Value::String(text) if !text.contains('\0') => {
                format!("{}\\u{{0}}", text.escape_default())
            }
            other => panic!("{other:?} is no text without a NUL"),
        };
        let all: String = values.iter().map(one).collect();
        format!("Texts::packed(\"{all}\")")
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
