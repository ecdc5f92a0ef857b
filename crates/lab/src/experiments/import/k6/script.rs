//! A k6 script as a tree, and what can be known of its values without running it.
//!
//! The tree is tree-sitter's. A value is known when it is written: literals, what is put together of them, names that are given a
//! value once, and `__ENV.NAME` where the import was told it. What differs between iterations (`__ITER`, `Date.now()`) is known as a
//! substitution of the lab. Everything else is computed, which is said with its line.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, Parser, Tree};

pub(super) use super::constant::{Constant, Piece};

/// Largest script that is read, in bytes.
pub(super) const SCRIPT_BYTES_MAX: usize = 1 << 20;
/// How often the parser may ask whether it should stop: it does so every hundred steps or so.
const PARSE_TURNS_MAX: usize = 200_000;
/// Deepest nesting that is followed.
pub(super) const DEPTH_MAX: usize = 64;
/// Most bytes of one value.
const VALUE_BYTES_MAX: usize = 1 << 20;
/// Most values that are worked out for one script: names that stand for names cost nothing else.
const VALUES_MAX: usize = 100_000;

/// A line of the script and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub line: usize,
    pub what: String,
}

impl Wrong {
    pub(super) fn at(node: Node, what: impl Into<String>) -> Wrong {
        Wrong {
            line: line(node),
            what: what.into(),
        }
    }
}

pub(super) fn line(node: Node) -> usize {
    node.start_position().row + 1
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub(super) enum Bound<'t> {
    Code(Node<'t>),
    Value(Constant),
    /// Something that is only known when the script runs.
    Unknown,
}

/// The parsed script.
pub(super) struct Script<'t> {
    text: &'t str,
    pub root: Node<'t>,
    top: BTreeMap<&'t str, Node<'t>>,
    /// By the name that the script uses: the module, and the name in it (`default`, `*`, or its own).
    imports: BTreeMap<&'t str, (&'t str, &'t str)>,
    /// Names that are given a value at another place than where they are declared.
    assigned: BTreeSet<&'t str>,
    env: &'t BTreeMap<String, String>,
    left: std::cell::Cell<usize>,
}

/// Parses a text; it is not looked at yet.
pub(super) fn parse(text: &str) -> Result<Tree, Wrong> {
    let fail = |line: usize, what: &str| Wrong {
        line,
        what: what.to_owned(),
    };
    if text.len() > SCRIPT_BYTES_MAX {
        return Err(fail(
            1,
            &format!("the script is larger than {SCRIPT_BYTES_MAX} bytes"),
        ));
    }
    let mut parser = Parser::new();
    let language = tree_sitter_javascript::LANGUAGE.into();
    parser.set_language(&language).map_err(|_| {
        fail(
            1,
            "the grammar of JavaScript cannot be used: a fault of weir lab",
        )
    })?;
    let mut turns = 0;
    let mut progress = |_: &_| {
        turns += 1;
        match turns > PARSE_TURNS_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let mut read = |at: usize, _| text.as_bytes().get(at..).unwrap_or_default();
    let tree = parser
        .parse_with_options(&mut read, None, Some(options))
        .ok_or_else(|| fail(1, "the script takes too long to be read"))?;
    match tree.root_node().has_error() {
        true => Err(Wrong::at(
            first_error(tree.root_node()),
            "this is not JavaScript that can be read",
        )),
        false => Ok(tree),
    }
}

fn first_error(root: Node) -> Node {
    let mut at = root;
    loop {
        if at.is_error() || at.is_missing() {
            return at;
        }
        let next = children(at)
            .into_iter()
            .find(|child| child.has_error() || child.is_missing());
        match next {
            Some(next) => at = next,
            None => return at,
        }
    }
}

/// Every child, in order.
fn children(node: Node<'_>) -> Vec<Node<'_>> {
    node.children(&mut node.walk()).collect()
}

/// The children that are no punctuation and no comment, in order.
pub(super) fn named(node: Node<'_>) -> Vec<Node<'_>> {
    node.named_children(&mut node.walk())
        .filter(|child| child.kind() != "comment")
        .collect()
}

/// Every node below, in order, without recursion.
pub(super) fn below<'t>(node: Node<'t>, mut visit: impl FnMut(Node<'t>)) {
    let mut waiting = vec![node];
    while let Some(node) = waiting.pop() {
        visit(node);
        waiting.extend(named(node).into_iter().rev());
    }
}

/// What is inside of parentheses and behind `await`.
pub(super) fn bare(mut node: Node<'_>) -> Node<'_> {
    while ["parenthesized_expression", "await_expression"].contains(&node.kind()) {
        match named(node).first() {
            Some(inner) => node = *inner,
            None => break,
        }
    }
    node
}

impl<'t> Script<'t> {
    pub(super) fn new(
        text: &'t str,
        tree: &'t Tree,
        env: &'t BTreeMap<String, String>,
    ) -> Script<'t> {
        let mut script = Script {
            text,
            root: tree.root_node(),
            top: BTreeMap::new(),
            imports: BTreeMap::new(),
            assigned: BTreeSet::new(),
            env,
            left: std::cell::Cell::new(VALUES_MAX),
        };
        for statement in named(script.root) {
            script.declare(statement);
        }
        below(script.root, |node| {
            let field = match node.kind() {
                "assignment_expression" | "augmented_assignment_expression" => "left",
                "update_expression" => "argument",
                _ => return,
            };
            if let Some(left) = node
                .child_by_field_name(field)
                .filter(|left| left.kind() == "identifier")
            {
                script.assigned.insert(script.word(left));
            }
        });
        script
    }

    fn declare(&mut self, statement: Node<'t>) {
        match statement.kind() {
            "import_statement" => self.import(statement),
            "export_statement" => {
                if let Some(inner) = statement.child_by_field_name("declaration") {
                    self.declare(inner);
                }
            }
            "function_declaration" => {
                if let Some(name) = statement.child_by_field_name("name") {
                    self.top.insert(self.word(name), statement);
                }
            }
            "lexical_declaration" | "variable_declaration" => {
                for (name, value) in self.declared(statement) {
                    self.top.insert(name, value);
                }
            }
            _ => {}
        }
    }

    /// The plain names that a declaration gives a value, with it.
    pub(super) fn declared(&self, statement: Node<'t>) -> Vec<(&'t str, Node<'t>)> {
        let pair = |declarator: Node<'t>| {
            let name = declarator.child_by_field_name("name")?;
            let value = declarator.child_by_field_name("value")?;
            (name.kind() == "identifier").then(|| (self.word(name), value))
        };
        named(statement).into_iter().filter_map(pair).collect()
    }

    fn import(&mut self, statement: Node<'t>) {
        let Some(source) = statement.child_by_field_name("source") else {
            return;
        };
        let module = self.word(source).trim_matches(['"', '\'']);
        let mut found = Vec::new();
        below(statement, |node| {
            let name = |field: &str| {
                node.child_by_field_name(field)
                    .map(|found| self.word(found))
            };
            match node.kind() {
                "import_clause" => {
                    let default = named(node)
                        .into_iter()
                        .find(|child| child.kind() == "identifier");
                    found.extend(default.map(|name| (self.word(name), "default")));
                }
                "namespace_import" => {
                    found.extend(named(node).first().map(|name| (self.word(*name), "*")))
                }
                "import_specifier" => {
                    if let Some(own) = name("name") {
                        found.push((name("alias").unwrap_or(own), own));
                    }
                }
                _ => {}
            }
        });
        for (here, there) in found {
            self.imports.insert(here, (module, there));
        }
    }

    /// The text of a node.
    pub(super) fn word(&self, node: Node) -> &'t str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    /// The module that a name is imported from, and its name there.
    pub(super) fn imported(&self, name: &str) -> Option<(&'t str, &'t str)> {
        self.imports.get(name).copied()
    }

    pub(super) fn modules(&self) -> impl Iterator<Item = &'t str> {
        self.imports.values().map(|(module, _)| *module)
    }

    pub(super) fn top(&self, name: &str) -> Option<Node<'t>> {
        self.top.get(name).copied()
    }

    pub(super) fn is_assigned(&self, name: &str) -> bool {
        self.assigned.contains(name)
    }

    /// What a module exports under this name: the value of a constant, or a function.
    pub(super) fn exported(&self, wanted: &str) -> Option<Node<'t>> {
        for statement in named(self.root)
            .into_iter()
            .filter(|s| s.kind() == "export_statement")
        {
            let is_default = children(statement)
                .iter()
                .any(|child| child.kind() == "default");
            if is_default && wanted == "default" {
                let value = statement.child_by_field_name("value");
                let found = value.or_else(|| statement.child_by_field_name("declaration"))?;
                return match found.kind() {
                    "identifier" => self.top(self.word(found)),
                    _ => Some(found),
                };
            }
            let Some(inner) = statement
                .child_by_field_name("declaration")
                .filter(|_| !is_default)
            else {
                let clause = named(statement)
                    .into_iter()
                    .find(|child| child.kind() == "export_clause");
                let is_named = |one: &Node<'t>| {
                    let shown = one
                        .child_by_field_name("alias")
                        .or_else(|| one.child_by_field_name("name"));
                    shown.is_some_and(|shown| self.word(shown) == wanted)
                };
                let one = clause.into_iter().flat_map(named).find(is_named);
                match one.and_then(|one| one.child_by_field_name("name")) {
                    Some(name) => return self.top(self.word(name)),
                    None => continue,
                }
            };
            let name = inner
                .child_by_field_name("name")
                .map(|name| self.word(name));
            if inner.kind() == "function_declaration" && name == Some(wanted) {
                return Some(inner);
            }
            if let Some((_, value)) = self
                .declared(inner)
                .into_iter()
                .find(|(name, _)| *name == wanted)
            {
                return Some(value);
            }
        }
        None
    }
}

/// Names that stand for something at one place of the script.
pub(super) type Names<'t> = Vec<(String, Bound<'t>)>;

/// The name of a key of an object.
fn key<'t>(
    script: &Script<'t>,
    node: Node<'t>,
    names: &Names<'t>,
    depth: usize,
) -> Result<String, Wrong> {
    match node.kind() {
        "property_identifier" | "shorthand_property_identifier" | "number" => {
            Ok(script.word(node).to_owned())
        }
        "computed_property_name" => {
            let inner = named(node).first().copied().unwrap_or(node);
            let name = value(script, inner, names, depth + 1)?;
            name.text()
                .ok_or_else(|| Wrong::at(node, "the key is computed"))
        }
        _ => {
            let name = value(script, node, names, depth + 1)?;
            name.text()
                .ok_or_else(|| Wrong::at(node, "the key is computed"))
        }
    }
}

/// Follows names to what they stand for, as long as that is code.
pub(super) fn resolve<'t>(script: &Script<'t>, node: Node<'t>, names: &Names<'t>) -> Node<'t> {
    let mut at = bare(node);
    for _ in 0..DEPTH_MAX {
        if at.kind() != "identifier" || script.is_assigned(script.word(at)) {
            break;
        }
        let name = script.word(at);
        let next = match names.iter().rev().find(|(known, _)| known == name) {
            Some((_, Bound::Code(code))) => Some(*code),
            Some(_) => None,
            None => script.top(name),
        };
        match next {
            Some(next) if bare(next) != at => at = bare(next),
            _ => break,
        }
    }
    at
}

/// The members of an object, each with the code of its value; spreads are laid in.
pub(super) fn members<'t>(
    script: &Script<'t>,
    node: Node<'t>,
    names: &Names<'t>,
    depth: usize,
) -> Result<Vec<(String, Node<'t>)>, Wrong> {
    let object = resolve(script, node, names);
    if depth > DEPTH_MAX {
        return Err(Wrong::at(node, "is nested too deeply"));
    }
    if object.kind() != "object" {
        return Err(Wrong::at(
            node,
            "is computed, or no object: write it as { … }",
        ));
    }
    let mut found: Vec<(String, Node<'t>)> = Vec::new();
    let mut put =
        |name: String, value: Node<'t>| match found.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = value,
            None => found.push((name, value)),
        };
    for member in named(object) {
        match member.kind() {
            "pair" => {
                let (Some(name), Some(value)) = (
                    member.child_by_field_name("key"),
                    member.child_by_field_name("value"),
                ) else {
                    continue;
                };
                put(key(script, name, names, depth)?, value);
            }
            "shorthand_property_identifier" => put(script.word(member).to_owned(), member),
            "method_definition" => {
                if let Some(name) = member.child_by_field_name("name") {
                    put(key(script, name, names, depth)?, member);
                }
            }
            "spread_element" => {
                let inner = named(member).first().copied().unwrap_or(member);
                if inner == member {
                    continue;
                }
                for (name, value) in members(script, inner, names, depth + 1)? {
                    put(name, value);
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// The value of an expression.
pub(super) fn value<'t>(
    script: &Script<'t>,
    node: Node<'t>,
    names: &Names<'t>,
    depth: usize,
) -> Result<Constant, Wrong> {
    let left = script.left.get();
    if depth > DEPTH_MAX || left == 0 {
        return Err(Wrong::at(node, "is nested too deeply"));
    }
    script.left.set(left - 1);
    let node = bare(node);
    let found = match node.kind() {
        "string" => Constant::plain(string(script.word(node))),
        "template_string" => template(script, node, names, depth)?,
        "number" => {
            Constant::Number(number(script.word(node)).ok_or_else(|| computed(script, node))?)
        }
        "true" => Constant::Yes(true),
        "false" => Constant::Yes(false),
        "null" | "undefined" => Constant::Null,
        "identifier" | "shorthand_property_identifier" => name(script, node, names, depth)?,
        "array" => {
            let items = named(node).into_iter();
            Constant::List(
                items
                    .map(|item| value(script, item, names, depth + 1))
                    .collect::<Result<_, _>>()?,
            )
        }
        "object" => {
            let pairs = members(script, node, names, depth + 1)?.into_iter();
            let pairs =
                pairs.map(|(name, code)| Ok((name, value(script, code, names, depth + 1)?)));
            Constant::Map(pairs.collect::<Result<_, Wrong>>()?)
        }
        "unary_expression" => unary(script, node, names, depth)?,
        "binary_expression" => binary(script, node, names, depth)?,
        "ternary_expression" => {
            let part = |field: &str| {
                node.child_by_field_name(field)
                    .ok_or_else(|| computed(script, node))
            };
            let holds = value(script, part("condition")?, names, depth + 1)?;
            let field = if holds.is_truthy() {
                "consequence"
            } else {
                "alternative"
            };
            value(script, part(field)?, names, depth + 1)?
        }
        "member_expression" | "subscript_expression" => member(script, node, names, depth)?,
        "call_expression" => call(script, node, names, depth)?,
        _ => return Err(computed(script, node)),
    };
    match found.bytes() > VALUE_BYTES_MAX {
        true => Err(Wrong::at(node, "is too long")),
        false => Ok(found),
    }
}

fn computed(script: &Script, node: Node) -> Wrong {
    Wrong::at(
        node,
        format!(
            "`{}` is computed: write what it is",
            short(script.word(node))
        ),
    )
}

/// The first line of a piece of code, for a sentence.
pub(super) fn short(code: &str) -> String {
    crate::output::units::cut(
        &crate::output::units::plain(code.lines().next().unwrap_or_default()),
        60,
    )
}

fn name<'t>(
    script: &Script<'t>,
    node: Node<'t>,
    names: &Names<'t>,
    depth: usize,
) -> Result<Constant, Wrong> {
    let word = script.word(node);
    match word {
        "__ITER" | "__VU" => return Ok(Constant::Drawn("${seq}".to_owned())),
        "undefined" => return Ok(Constant::Null),
        _ => {}
    }
    if script.is_assigned(word) {
        return Err(Wrong::at(
            node,
            format!("`{word}` is changed while the script runs: write what it is"),
        ));
    }
    match names.iter().rev().find(|(known, _)| known == word) {
        Some((_, Bound::Value(constant))) => Ok(constant.clone()),
        Some((_, Bound::Code(code))) if code.id() != node.id() => {
            value(script, *code, names, depth + 1)
        }
        Some(_) => Err(Wrong::at(
            node,
            format!(
                "`{word}` is known only when the script runs: the lab's requests do not depend on answers"
            ),
        )),
        None => match script.top(word) {
            Some(code) => value(script, code, &Vec::new(), depth + 1),
            None => Err(computed(script, node)),
        },
    }
}

fn template<'t>(
    script: &Script<'t>,
    node: Node<'t>,
    names: &Names<'t>,
    depth: usize,
) -> Result<Constant, Wrong> {
    let mut pieces = Vec::new();
    for part in named(node) {
        match part.kind() {
            "string_fragment" => pieces.push(Piece::Plain(script.word(part).to_owned())),
            "escape_sequence" => pieces.push(Piece::Plain(unescaped(script.word(part)))),
            _ => {
                let inner = named(part).first().copied().unwrap_or(part);
                if inner == part {
                    return Err(computed(script, part));
                }
                let found = value(script, inner, names, depth + 1)?;
                pieces.extend(found.pieces().ok_or_else(|| computed(script, inner))?);
            }
        }
    }
    Ok(Constant::Text(pieces))
}

fn unary<'t>(
    script: &Script<'t>,
    node: Node<'t>,
    names: &Names<'t>,
    depth: usize,
) -> Result<Constant, Wrong> {
    let sign = node
        .child_by_field_name("operator")
        .map(|sign| script.word(sign));
    let inner = node
        .child_by_field_name("argument")
        .ok_or_else(|| computed(script, node))?;
    let inner = value(script, inner, names, depth + 1)?;
    match (sign, inner.number()) {
        (Some("!"), _) => Ok(Constant::Yes(!inner.is_truthy())),
        (Some("-"), Some(number)) => Ok(Constant::Number(-number)),
        (Some("+"), Some(number)) => Ok(Constant::Number(number)),
        _ => Err(computed(script, node)),
    }
}

fn binary<'t>(
    script: &Script<'t>,
    node: Node<'t>,
    names: &Names<'t>,
    depth: usize,
) -> Result<Constant, Wrong> {
    let part = |field: &str| {
        node.child_by_field_name(field)
            .ok_or_else(|| computed(script, node))
    };
    let sign = script.word(part("operator")?);
    let (left, right) = (part("left")?, part("right")?);
    if ["||", "??", "&&"].contains(&sign) {
        let unset = env_name(script, left).filter(|name| !script.env.contains_key(*name));
        let found = match unset {
            Some(_) => Constant::Null,
            None => value(script, left, names, depth + 1)?,
        };
        let takes_left = match sign {
            "||" => found.is_truthy(),
            "??" => found != Constant::Null,
            _ => !found.is_truthy(),
        };
        return match takes_left {
            true => Ok(found),
            false => value(script, right, names, depth + 1),
        };
    }
    let (a, b) = (
        value(script, left, names, depth + 1)?,
        value(script, right, names, depth + 1)?,
    );
    if let (Constant::Number(x), Constant::Number(y)) = (&a, &b) {
        let number = match sign {
            "+" => x + y,
            "-" => x - y,
            "*" => x * y,
            "/" => x / y,
            _ => return Err(computed(script, node)),
        };
        return match number.is_finite() {
            true => Ok(Constant::Number(number)),
            false => Err(computed(script, node)),
        };
    }
    match (sign, a.pieces(), b.pieces()) {
        ("+", Some(mut a), Some(b)) => {
            a.extend(b);
            Ok(Constant::Text(a))
        }
        _ => Err(computed(script, node)),
    }
}

/// The name of `__ENV.NAME` or `__ENV["NAME"]`.
pub(super) fn env_name<'t>(script: &Script<'t>, node: Node<'t>) -> Option<&'t str> {
    let node = bare(node);
    let object = node.child_by_field_name("object")?;
    if script.word(object) != "__ENV" {
        return None;
    }
    let name = node
        .child_by_field_name("property")
        .or_else(|| node.child_by_field_name("index"))?;
    Some(script.word(name).trim_matches(['"', '\'']))
}

fn member<'t>(
    script: &Script<'t>,
    node: Node<'t>,
    names: &Names<'t>,
    depth: usize,
) -> Result<Constant, Wrong> {
    if let Some(name) = env_name(script, node) {
        let help = format!("__ENV.{name} is not known: add -e {}=…", short(name));
        return script
            .env
            .get(name)
            .map(Constant::plain)
            .ok_or_else(|| Wrong::at(node, help));
    }
    let word = script.word(node);
    if word.ends_with("iterationInTest")
        || word.ends_with("iterationInInstance")
        || word.ends_with("idInTest")
    {
        return Ok(Constant::Drawn("${seq}".to_owned()));
    }
    let object = node
        .child_by_field_name("object")
        .ok_or_else(|| computed(script, node))?;
    let found = value(script, object, names, depth + 1)?;
    let inner = match (
        node.child_by_field_name("property"),
        node.child_by_field_name("index"),
    ) {
        (Some(property), _) => Constant::plain(script.word(property)),
        (_, Some(index)) => value(script, index, names, depth + 1)?,
        _ => return Err(computed(script, node)),
    };
    let one = match (&found, inner.number(), inner.text()) {
        (Constant::List(items), Some(at), _) if at >= 0.0 => items.get(at as usize),
        (Constant::Map(members), _, Some(name)) => members
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value),
        _ => None,
    };
    one.cloned().ok_or_else(|| computed(script, node))
}

fn call<'t>(
    script: &Script<'t>,
    node: Node<'t>,
    names: &Names<'t>,
    depth: usize,
) -> Result<Constant, Wrong> {
    let part = |field: &str| {
        node.child_by_field_name(field)
            .ok_or_else(|| computed(script, node))
    };
    let (callee, arguments) = (part("function")?, part("arguments")?);
    let word = script.word(callee);
    if arguments.kind() == "template_string" {
        // http.url`…`, which only gives the request a name.
        return match word.ends_with(".url") {
            true => template(script, arguments, names, depth + 1),
            false => Err(computed(script, node)),
        };
    }
    let arguments = named(arguments);
    let numbers = || {
        arguments
            .iter()
            .map(|argument| value(script, *argument, names, depth + 1).ok()?.number())
            .collect::<Option<Vec<f64>>>()
    };
    let own = script.imported(word).map_or(word, |(_, name)| name);
    match (own, arguments.as_slice()) {
        ("Date.now", []) => Ok(Constant::Drawn("${now_ms}".to_owned())),
        ("uuidv4" | "crypto.randomUUID", []) => {
            Ok(Constant::Text(vec![Piece::Drawn("${uuid}".to_owned())]))
        }
        ("JSON.stringify", [one]) => {
            let mut pieces = Vec::new();
            value(script, *one, names, depth + 1)?.json(&mut pieces);
            Ok(Constant::Text(pieces))
        }
        ("randomIntBetween", [_, _]) => match numbers().as_deref() {
            Some([low, high]) if *low >= 0.0 && low <= high => Ok(Constant::Drawn(format!(
                "${{rand({},{})}}",
                *low as u64, *high as u64
            ))),
            _ => Err(computed(script, node)),
        },
        ("randomString", [_]) => match numbers().as_deref() {
            Some([count]) if (1.0..=1024.0).contains(count) => {
                Ok(Constant::Text(vec![Piece::Drawn(format!(
                    "${{letters({})}}",
                    *count as u64
                ))]))
            }
            _ => Err(computed(script, node)),
        },
        ("String", [one]) => {
            let pieces = value(script, *one, names, depth + 1)?.pieces();
            pieces
                .map(Constant::Text)
                .ok_or_else(|| computed(script, node))
        }
        ("Number" | "parseInt" | "parseFloat", [one] | [one, _]) => {
            let number = value(script, *one, names, depth + 1)?.number();
            number
                .map(Constant::Number)
                .ok_or_else(|| computed(script, node))
        }
        ("encodeURIComponent", [one]) => {
            let text = value(script, *one, names, depth + 1)?.text();
            text.map(|text| Constant::plain(encoded(&text)))
                .ok_or_else(|| computed(script, node))
        }
        _ => Err(computed(script, node)),
    }
}

/// A text as it stands in a query.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn number(word: &str) -> Option<f64> {
    let word = word.replace('_', "");
    let hex = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    match hex {
        Some(digits) => u64::from_str_radix(digits, 16)
            .ok()
            .map(|number| number as f64),
        None => word.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

/// A literal without its quotes.
fn string(word: &str) -> String {
    let inner = word
        .get(1..word.len().saturating_sub(1))
        .unwrap_or_default();
    let (mut out, mut rest) = (String::new(), inner);
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let length = escape_length(&rest[at..]);
        out.push_str(&unescaped(&rest[at..at + length]));
        rest = &rest[at + length..];
    }
    out + rest
}

/// The bytes of the escape that a text begins with.
fn escape_length(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    let Some((at, kind)) = chars.next() else {
        return text.len();
    };
    let fixed = |length: usize| match text.get(..length) {
        Some(_) => length,
        None => at + kind.len_utf8(),
    };
    match kind {
        'x' => fixed(4),
        'u' if text[at + 1..].starts_with('{') => text.find('}').map_or(text.len(), |end| end + 1),
        'u' => fixed(6),
        _ => at + kind.len_utf8(),
    }
}

fn unescaped(escape: &str) -> String {
    let code = |digits: &str| {
        u32::from_str_radix(digits, 16)
            .ok()
            .and_then(char::from_u32)
    };
    let Some(kind) = escape.chars().nth(1) else {
        return String::new();
    };
    let one = match kind {
        'n' => Some('\n'),
        't' => Some('\t'),
        'r' => Some('\r'),
        'b' => Some('\u{8}'),
        'f' => Some('\u{c}'),
        'v' => Some('\u{b}'),
        '0' => Some('\0'),
        '\n' | '\r' => return String::new(),
        'x' | 'u' => code(escape[2..].trim_matches(['{', '}'])),
        other => Some(other),
    };
    one.unwrap_or('\u{fffd}').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `x` is in a script, as JSON.
    fn known(text: &str) -> Result<String, String> {
        let env = BTreeMap::from([("HOST".to_owned(), "h".to_owned())]);
        let tree = parse(text).map_err(|wrong| wrong.what)?;
        let script = Script::new(text, &tree, &env);
        let code = script.exported("x").ok_or("no x")?;
        let mut out = Vec::new();
        let found = value(&script, code, &Vec::new(), 0)
            .map_err(|wrong| format!("{}: {}", wrong.line, wrong.what))?;
        found.json(&mut out);
        Ok(out
            .into_iter()
            .map(|(Piece::Plain(text) | Piece::Drawn(text))| text)
            .collect())
    }

    #[test]
    fn what_is_written_is_known() {
        for (code, wanted) in [
            ("export const x = 'a\\n\\u0041\\x42\\'';", r#""a\nAB'""#),
            ("const a = 2; export const x = a * 3 + 1;", "7"),
            (
                "export let x = `u-${__ITER}-${__ENV.HOST}`;",
                r#""u-${seq}-h""#,
            ),
            ("export const x = __ENV.NOT || 'b';", r#""b""#),
            (
                "const o = {a: 1}; export const x = {...o, 'b': [true, null]};",
                r#"{"a":1,"b":[true,null]}"#,
            ),
            ("const o = {a: [5, 6]}; export const x = o.a[1];", "6"),
            (
                "export const x = JSON.stringify({n: __ITER});",
                r#""{\"n\":${seq}}""#,
            ),
        ] {
            assert_eq!(known(code).as_deref(), Ok(wanted), "{code}");
        }
    }

    #[test]
    fn what_is_computed_is_said_by_line() {
        for (code, wanted) in [
            (
                "let a = 1;\na = 2;\nexport const x = a;",
                "3: `a` is changed",
            ),
            (
                "export const x =\n Math.random();",
                "2: `Math.random()` is computed",
            ),
            (
                "export const x = __ENV.NOT;",
                "1: __ENV.NOT is not known: add -e NOT=…",
            ),
            ("export const x = x;", "nested too deeply"),
            ("export const x = {;", "not JavaScript"),
        ] {
            let said = known(code).unwrap_err();
            assert!(said.contains(wanted), "{code}: {said}");
        }
    }
}
