//! What one iteration of a k6 script sends, and what it checks.
//!
//! A function is read from top to bottom, with the functions that it calls by name. A request inside of a loop or a condition is
//! refused with its line: how often it is sent is known only when the script runs.

use serde_json::{Map, Value, json};
use tree_sitter::Node;

use super::super::{escaped, is_secret, without_secrets};
use super::load::span;
use super::script::{
    Bound, Constant, DEPTH_MAX, Names, Piece, Script, Wrong, bare, below, encoded, line, members,
    named, resolve, short, value,
};
use crate::plan::REQUESTS_MAX;

/// Modules whose requests the lab cannot send.
const OTHER_PROTOCOLS: &[&str] = &[
    "k6/ws",
    "k6/experimental/websockets",
    "k6/net/grpc",
    "k6/experimental/grpc",
    "k6/browser",
    "k6/experimental/browser",
    "k6/experimental/redis",
];

/// One request of an iteration.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub line: usize,
    pub name: Option<String>,
    pub method: String,
    /// As templates of the lab.
    pub origin: String,
    pub path: String,
    pub headers: Map<String, Value>,
    pub body: Option<String>,
    pub statuses: Vec<u64>,
    pub wanted_headers: Map<String, Value>,
    pub wanted_body: Option<Value>,
    pub timeout_ms: Option<u64>,
}

/// An iteration.
#[derive(Default)]
pub(super) struct Iteration {
    pub sent: Vec<Sent>,
    pub pause_s: f64,
    pub left_out: Vec<String>,
    /// Credentials that were dropped.
    pub secrets: usize,
}

struct Walk<'s, 't> {
    script: &'s Script<'t>,
    names: Names<'t>,
    /// Names of answers, with the request that they answer.
    answers: Vec<(String, usize)>,
    found: Iteration,
    wrong: Vec<Wrong>,
    depth: usize,
    /// What `{{NAME}}` is in a script of postman-to-k6.
    postman: Vec<(String, String)>,
}

/// Reads what the function does that is exported under this name.
pub(super) fn read(script: &Script, exec: &str, at: usize) -> Result<Iteration, Vec<Wrong>> {
    if let Some(module) = script
        .modules()
        .find(|module| OTHER_PROTOCOLS.contains(module))
    {
        let what = format!("{module}: only requests over HTTP are taken over");
        return Err(vec![Wrong { line: 1, what }]);
    }
    let Some(function) = script.exported(exec) else {
        let what = format!("the script exports no function `{}`", short(exec));
        return Err(vec![Wrong { line: at, what }]);
    };
    let mut walk = Walk {
        script,
        names: Names::new(),
        answers: Vec::new(),
        found: Iteration::default(),
        wrong: Vec::new(),
        depth: 0,
        postman: postman(script),
    };
    walk.function(function, &[]);
    match walk.wrong.is_empty() {
        true => Ok(walk.found),
        false => Err(walk.wrong),
    }
}

/// The variables of a collection that postman-to-k6 wrote.
fn postman(script: &Script) -> Vec<(String, String)> {
    let mut found = Vec::new();
    below(script.root, |node| {
        if node.kind() != "pair" {
            return;
        }
        let name = node.child_by_field_name("key").map(|key| script.word(key));
        let groups = ["collection", "environment", "globals"];
        let Some(group) = node
            .child_by_field_name("value")
            .filter(|_| name.is_some_and(|name| groups.contains(&name)))
        else {
            return;
        };
        for (name, code) in members(script, group, &Names::new(), 0).unwrap_or_default() {
            let text = value(script, code, &Names::new(), 0)
                .ok()
                .and_then(|found| found.text());
            found.extend(text.map(|text| (name, text)));
        }
    });
    found
}

/// A call: what is called, by its module and its name there, and with what.
struct Called<'t> {
    module: &'t str,
    name: &'t str,
    arguments: Vec<Node<'t>>,
}

impl<'t> Walk<'_, 't> {
    fn say(&mut self, node: Node, what: impl Into<String>) {
        if self.wrong.len() < super::WRONG_MAX {
            self.wrong.push(Wrong::at(node, what));
        }
    }

    fn left_out(&mut self, node: Node, what: &str) {
        self.found
            .left_out
            .push(format!("line {}: {what}", line(node)));
    }

    /// What a call calls: of a module of k6, or of the script itself (no module).
    fn called(&self, node: Node<'t>) -> Option<Called<'t>> {
        if node.kind() != "call_expression" {
            return None;
        }
        let callee = bare(node.child_by_field_name("function")?);
        let arguments = named(node.child_by_field_name("arguments")?);
        let whole = |module, name| {
            Some(Called {
                module,
                name,
                arguments: arguments.clone(),
            })
        };
        match callee.kind() {
            "identifier" => {
                let word = self.script.word(callee);
                let (module, name) = self.script.imported(word).unwrap_or(("", word));
                whole(module, name)
            }
            "member_expression" => {
                let object = bare(callee.child_by_field_name("object")?);
                let name = self.script.word(callee.child_by_field_name("property")?);
                let (module, _) = self.script.imported(self.script.word(object))?;
                whole(module, name)
            }
            "subscript_expression" => {
                let object = callee.child_by_field_name("object")?;
                let index = callee.child_by_field_name("index")?;
                let is_postman =
                    self.script.word(object) == "postman" && self.script.word(index) == "Request";
                is_postman.then_some(())?;
                whole("postman", "Request")
            }
            _ => None,
        }
    }

    fn is_request(&self, called: &Called) -> bool {
        let methods = [
            "get",
            "post",
            "put",
            "patch",
            "del",
            "head",
            "options",
            "request",
            "batch",
            "asyncRequest",
        ];
        (called.module == "k6/http" && methods.contains(&called.name)) || called.module == "postman"
    }

    /// The first request, or sleep, in or below a node, also through functions that it calls.
    fn sends(&self, node: Node<'t>, depth: usize) -> Option<Node<'t>> {
        let (mut first, mut calls) = (None, Vec::new());
        below(node, |node| {
            let Some(called) = self.called(node) else {
                return;
            };
            if self.is_request(&called) || (called.module == "k6" && called.name == "sleep") {
                first = first.or(Some(node));
            } else if called.module.is_empty() {
                calls.push((node, called.name));
            }
        });
        if first.is_some() || depth > 8 {
            return first;
        }
        let inner = |name| self.script.top(name).filter(|code| code.id() != node.id());
        calls
            .into_iter()
            .find(|(_, name)| inner(name).is_some_and(|code| self.sends(code, depth + 1).is_some()))
            .map(|(at, _)| at)
    }

    /// Refuses what is sent below a node.
    fn refuse(&mut self, node: Node<'t>, where_it_is: &str) {
        if let Some(at) = self.sends(node, 0) {
            self.say(at, format!("a request or a sleep {where_it_is}: how often it is sent is known only when the script runs; write it out"));
        }
    }

    /// A function with what it is given.
    fn function(&mut self, function: Node<'t>, given: &[Bound<'t>]) {
        let function = resolve(self.script, function, &self.names);
        if self.depth > DEPTH_MAX / 4 {
            return self.say(function, "functions call each other too deeply");
        }
        let Some(body) = function.child_by_field_name("body") else {
            return self.say(function, "is no function that is written here");
        };
        let parameters = match (
            function.child_by_field_name("parameters"),
            function.child_by_field_name("parameter"),
        ) {
            (Some(list), _) => named(list),
            (None, Some(one)) => vec![one],
            (None, None) => Vec::new(),
        };
        let (names, answers) = (self.names.len(), self.answers.len());
        for (number, parameter) in parameters.iter().enumerate() {
            let bound = given.get(number).cloned().unwrap_or(Bound::Unknown);
            self.names
                .push((self.script.word(*parameter).to_owned(), bound));
        }
        self.depth += 1;
        match body.kind() {
            "statement_block" => self.statement(body),
            _ => {
                self.expression(body);
            }
        }
        self.depth -= 1;
        self.names.truncate(names);
        self.answers.truncate(answers);
    }

    fn statement(&mut self, node: Node<'t>) {
        match node.kind() {
            "statement_block" => named(node)
                .into_iter()
                .for_each(|inner| self.statement(inner)),
            "lexical_declaration" | "variable_declaration" => self.declaration(node),
            "expression_statement" | "return_statement" => {
                for inner in named(node) {
                    self.expression(inner);
                }
            }
            "if_statement" => {
                if let Some(condition) = node.child_by_field_name("condition") {
                    self.expression(condition);
                }
                for field in ["consequence", "alternative"] {
                    if let Some(part) = node.child_by_field_name(field) {
                        self.refuse(part, "inside of a condition");
                    }
                }
            }
            "for_statement" | "for_in_statement" | "while_statement" | "do_statement" => {
                self.refuse(node, "inside of a loop")
            }
            "try_statement" => {
                for part in named(node) {
                    match part.kind() {
                        "statement_block" => self.statement(part),
                        _ => self.refuse(part, "where an error is caught"),
                    }
                }
            }
            "switch_statement" => self.refuse(node, "inside of a condition"),
            "function_declaration" | "empty_statement" => {}
            _ => self.refuse(node, "in a place that is not read"),
        }
    }

    fn declaration(&mut self, node: Node<'t>) {
        for declarator in named(node) {
            let (Some(name), Some(value)) = (
                declarator.child_by_field_name("name"),
                declarator.child_by_field_name("value"),
            ) else {
                continue;
            };
            let word = self.script.word(name).to_owned();
            match self.expression(value) {
                Some(number) => self.answers.push((word, number)),
                None if self.mentions_answer(value) => self.names.push((word, Bound::Unknown)),
                None => self.names.push((word, Bound::Code(value))),
            }
        }
    }

    /// Whether an expression uses an answer.
    fn mentions_answer(&self, node: Node<'t>) -> bool {
        let mut found = false;
        below(node, |node| {
            let is_name = node.kind() == "identifier";
            found |= is_name
                && self
                    .answers
                    .iter()
                    .any(|(name, _)| name == self.script.word(node));
        });
        found
    }

    /// Carries out what an expression sends; the request whose answer it is.
    fn expression(&mut self, node: Node<'t>) -> Option<usize> {
        let node = bare(node);
        if self.depth > DEPTH_MAX {
            self.say(node, "is nested too deeply");
            return None;
        }
        self.depth += 1;
        let found = self.one_expression(node);
        self.depth -= 1;
        found
    }

    fn one_expression(&mut self, node: Node<'t>) -> Option<usize> {
        match node.kind() {
            "identifier" => {
                let word = self.script.word(node);
                self.answers
                    .iter()
                    .rev()
                    .find(|(name, _)| name == word)
                    .map(|(_, number)| *number)
            }
            "assignment_expression" => {
                let found = self.expression(node.child_by_field_name("right")?);
                let left = self
                    .script
                    .word(node.child_by_field_name("left")?)
                    .to_owned();
                if let Some(number) = found {
                    self.answers.push((left, number));
                }
                found
            }
            "call_expression" => self.call(node),
            "arrow_function" | "function_expression" | "function" => {
                self.refuse(node, "inside of a function that something else calls");
                None
            }
            "ternary_expression" => {
                self.expression(node.child_by_field_name("condition")?);
                for field in ["consequence", "alternative"] {
                    self.refuse(node.child_by_field_name(field)?, "inside of a condition");
                }
                None
            }
            "binary_expression" => {
                let sign = self.script.word(node.child_by_field_name("operator")?);
                let right = node.child_by_field_name("right")?;
                self.expression(node.child_by_field_name("left")?);
                match ["&&", "||", "??"].contains(&sign) {
                    true => self.refuse(right, "inside of a condition"),
                    false => {
                        self.expression(right);
                    }
                }
                None
            }
            _ => {
                for inner in named(node) {
                    self.expression(inner);
                }
                None
            }
        }
    }

    fn call(&mut self, node: Node<'t>) -> Option<usize> {
        let Some(called) = self.called(node) else {
            let callee = bare(node.child_by_field_name("function")?);
            // What a request's answer is asked for, and the arguments of calls that the lab does not know.
            if callee.kind() == "member_expression" {
                self.expression(callee.child_by_field_name("object")?);
            }
            for argument in named(node.child_by_field_name("arguments")?) {
                match ["arrow_function", "function_expression", "function"]
                    .contains(&argument.kind())
                {
                    true => self.refuse(
                        argument,
                        "inside of a loop, or of a function that something else calls",
                    ),
                    false => {
                        self.expression(argument);
                    }
                }
            }
            return None;
        };
        let arguments = called.arguments.as_slice();
        match (called.module, called.name) {
            ("k6/http", "batch") => {
                self.batch(node, arguments);
                None
            }
            ("k6/http", _) if self.is_request(&called) => {
                self.request(node, called.name, arguments)
            }
            ("postman", _) => self.postman_request(node, arguments),
            ("k6", "group") => {
                self.function(*arguments.get(1)?, &[]);
                None
            }
            ("k6", "sleep") => {
                self.sleep(node, arguments);
                None
            }
            ("k6", "check") => {
                let answer = self.expression(*arguments.first()?);
                self.check(answer, *arguments.get(1)?);
                answer
            }
            ("", name) => self.own(name, arguments),
            _ => {
                for argument in arguments {
                    self.expression(*argument);
                }
                None
            }
        }
    }

    /// A function of the script itself, read where it is called.
    fn own(&mut self, name: &str, arguments: &[Node<'t>]) -> Option<usize> {
        let code = self
            .script
            .top(name)
            .filter(|code| code.child_by_field_name("body").is_some());
        let sends = code.is_some_and(|code| self.sends(code, 0).is_some());
        if !sends {
            arguments.iter().for_each(|argument| {
                self.expression(*argument);
            });
            return None;
        }
        let given =
            arguments.iter().map(
                |argument| match value(self.script, *argument, &self.names, 0) {
                    Ok(found) => Bound::Value(found),
                    Err(_) => Bound::Unknown,
                },
            );
        let given: Vec<Bound> = given.collect();
        let before = self.found.sent.len();
        self.function(code?, &given);
        (self.found.sent.len() == before + 1).then_some(before)
    }

    fn sleep(&mut self, node: Node<'t>, arguments: &[Node<'t>]) {
        let Some(argument) = arguments.first() else {
            return;
        };
        match value(self.script, *argument, &self.names, 0).map(|found| found.number()) {
            Ok(Some(seconds)) if (0.0..=86_400.0).contains(&seconds) => {
                self.found.pause_s += seconds
            }
            Ok(_) => self.say(node, "sleep is not of a number of seconds"),
            Err(wrong) => self.say(node, format!("sleep: {}", wrong.what)),
        }
    }

    fn known(&mut self, node: Node<'t>) -> Option<Constant> {
        match value(self.script, node, &self.names, 0) {
            Ok(found) => Some(found),
            Err(wrong) => {
                self.wrong.push(wrong);
                None
            }
        }
    }

    fn request(&mut self, node: Node<'t>, name: &str, arguments: &[Node<'t>]) -> Option<usize> {
        let has_body = !["get", "head"].contains(&name);
        let (method, rest) = match name {
            "request" | "asyncRequest" => (
                self.known(*arguments.first()?)?
                    .text()?
                    .to_ascii_uppercase(),
                arguments.get(1..)?,
            ),
            "del" => ("DELETE".to_owned(), arguments),
            other => (other.to_ascii_uppercase(), arguments),
        };
        let (body, params) = match has_body {
            true => (rest.get(1), rest.get(2)),
            false => (None, rest.get(1)),
        };
        self.put(node, method, *rest.first()?, body.copied(), params.copied())
    }

    fn batch(&mut self, node: Node<'t>, arguments: &[Node<'t>]) {
        let Some(list) = arguments
            .first()
            .map(|list| resolve(self.script, *list, &self.names))
        else {
            return;
        };
        let items = match list.kind() {
            "array" => named(list),
            "object" => members(self.script, list, &self.names, 0)
                .unwrap_or_default()
                .into_iter()
                .map(|(_, code)| code)
                .collect(),
            _ => return self.say(node, "the batch is computed: write its requests out"),
        };
        self.left_out(
            node,
            "http.batch sends at once; the lab sends these one after another",
        );
        for item in items {
            let item = resolve(self.script, item, &self.names);
            match item.kind() {
                "array" => {
                    let parts = named(item);
                    let method = parts
                        .first()
                        .and_then(|method| self.known(*method))
                        .and_then(|method| method.text());
                    let (Some(method), Some(url)) = (method, parts.get(1)) else {
                        continue;
                    };
                    self.put(
                        item,
                        method.to_ascii_uppercase(),
                        *url,
                        parts.get(2).copied(),
                        parts.get(3).copied(),
                    );
                }
                "object" => {
                    let all = members(self.script, item, &self.names, 0).unwrap_or_default();
                    let part = |name: &str| {
                        all.iter()
                            .find(|(known, _)| known == name)
                            .map(|(_, code)| *code)
                    };
                    let method = part("method")
                        .and_then(|method| self.known(method))
                        .and_then(|method| method.text());
                    if let Some(url) = part("url") {
                        self.put(
                            item,
                            method.unwrap_or("GET".to_owned()).to_ascii_uppercase(),
                            url,
                            part("body"),
                            part("params"),
                        );
                    }
                }
                _ => {
                    self.put(item, "GET".to_owned(), item, None, None);
                }
            }
        }
    }

    /// `postman[Request]({ name, method, address, data, headers })`, as postman-to-k6 writes it.
    fn postman_request(&mut self, node: Node<'t>, arguments: &[Node<'t>]) -> Option<usize> {
        let all = match members(self.script, *arguments.first()?, &self.names, 0) {
            Ok(all) => all,
            Err(wrong) => {
                self.wrong.push(wrong);
                return None;
            }
        };
        let part = |name: &str| {
            all.iter()
                .find(|(known, _)| known == name)
                .map(|(_, code)| *code)
        };
        if let Some(code) = part("auth") {
            self.found.secrets += 1;
            self.left_out(code, "auth: say it with --bearer or --basic");
        }
        for name in ["pre", "post"] {
            if let Some(code) = part(name) {
                self.left_out(code, "the script of the collection is not run");
            }
        }
        let method = part("method")
            .and_then(|method| self.known(method))
            .and_then(|method| method.text());
        let Some(address) = part("address") else {
            self.say(node, "needs an address");
            return None;
        };
        let number = self.put(
            node,
            method.unwrap_or("GET".to_owned()),
            address,
            part("data"),
            Some(*arguments.first()?),
        )?;
        let name = part("name")
            .and_then(|name| self.known(name))
            .and_then(|name| name.text());
        self.found.sent[number].name = name;
        Some(number)
    }

    /// Adds a request; its number.
    fn put(
        &mut self,
        node: Node<'t>,
        method: String,
        url: Node<'t>,
        body: Option<Node<'t>>,
        params: Option<Node<'t>>,
    ) -> Option<usize> {
        if self.found.sent.len() >= REQUESTS_MAX * 4 {
            self.say(node, "an iteration sends too many requests");
            return None;
        }
        let url = self.known(url)?;
        let pieces = url.pieces()?;
        let (origin, path, secrets) = match self.address(&pieces) {
            Ok(found) => found,
            Err(what) => {
                self.say(node, what);
                return None;
            }
        };
        self.found.secrets += secrets;
        let mut sent = Sent {
            line: line(node),
            name: None,
            method,
            origin,
            path,
            headers: Map::new(),
            body: None,
            statuses: Vec::new(),
            wanted_headers: Map::new(),
            wanted_body: None,
            timeout_ms: None,
        };
        if let Some(params) = params {
            self.params(&mut sent, params);
        }
        if let Some(body) = body {
            self.body(&mut sent, body);
        }
        self.found.sent.push(sent);
        Some(self.found.sent.len() - 1)
    }

    /// Origin and path, as templates, and how many credentials were dropped.
    fn address(&self, pieces: &[Piece]) -> Result<(String, String, usize), String> {
        let text = self.template(pieces);
        let (origin, path) =
            super::super::split(&text).ok_or("the address is not http:// or https://")?;
        if origin.contains("${") {
            return Err("the host differs from request to request".to_owned());
        }
        let (path, secrets) = without_secrets(&path);
        Ok((origin, path, secrets))
    }

    /// Pieces as a template of the lab. `{{NAME}}` of Postman is the collection's variable.
    fn template(&self, pieces: &[Piece]) -> String {
        let (mut out, mut plain) = (String::new(), String::new());
        for piece in pieces {
            match piece {
                // What a text is put together of may be `$` and `{`.
                Piece::Plain(text) => plain.push_str(text),
                Piece::Drawn(name) => {
                    out += &escaped(&self.filled(&plain));
                    plain.clear();
                    out += name;
                }
            }
        }
        out + &escaped(&self.filled(&plain))
    }

    /// A text with the variables of a collection of Postman.
    fn filled(&self, text: &str) -> String {
        let fill = |text: String, (name, value): &(String, String)| {
            text.replace(&format!("{{{{{name}}}}}"), value)
        };
        self.postman.iter().fold(text.to_owned(), fill)
    }

    fn params(&mut self, sent: &mut Sent, node: Node<'t>) {
        let node = resolve(self.script, node, &self.names);
        if ["null", "undefined"].contains(&node.kind()) {
            return;
        }
        let all = match members(self.script, node, &self.names, 0) {
            Ok(all) => all,
            Err(wrong) => return self.wrong.push(wrong),
        };
        for (name, code) in all {
            match name.as_str() {
                "headers" => self.headers(sent, code),
                "tags" => {
                    let tags = members(self.script, code, &self.names, 0).unwrap_or_default();
                    let name = tags.iter().find(|(tag, _)| tag == "name");
                    sent.name = name.and_then(|(_, code)| {
                        value(self.script, *code, &self.names, 0).ok()?.text()
                    });
                }
                "timeout" => {
                    let timeout = self.known(code).as_ref().and_then(span);
                    sent.timeout_ms = timeout.map(|timeout| timeout.as_millis() as u64);
                }
                "cookies" | "jar" | "auth" => {
                    self.found.secrets += 1;
                    self.left_out(code, &format!("{name}: credentials are dropped"));
                }
                _ => {}
            }
        }
    }

    fn headers(&mut self, sent: &mut Sent, node: Node<'t>) {
        let all = match members(self.script, node, &self.names, 0) {
            Ok(all) => all,
            Err(wrong) => return self.wrong.push(wrong),
        };
        for (name, code) in all {
            let lower = name.to_ascii_lowercase();
            if is_secret(&lower) {
                self.found.secrets += 1;
                continue;
            }
            let is_own = super::super::OWN_FIELDS.contains(&lower.as_str());
            if is_own || http::HeaderName::from_bytes(lower.as_bytes()).is_err() {
                continue;
            }
            if let Some(pieces) = self.known(code).and_then(|found| found.pieces()) {
                let text = self.template(&pieces);
                if text.chars().all(|c| c == '\t' || (' '..='~').contains(&c)) {
                    sent.headers.insert(lower, text.into());
                }
            }
        }
    }

    /// A text as it is, an object as a form, as k6 sends it.
    fn body(&mut self, sent: &mut Sent, node: Node<'t>) {
        let Some(found) = self.known(node) else {
            return;
        };
        let pieces = match &found {
            Constant::Null => return,
            Constant::Map(all) => {
                sent.headers
                    .entry("content-type")
                    .or_insert_with(|| "application/x-www-form-urlencoded".into());
                let mut pieces = Vec::new();
                for (number, (name, value)) in all.iter().enumerate() {
                    let comma = if number > 0 { "&" } else { "" };
                    pieces.push(Piece::Plain(format!("{comma}{}=", encoded(name))));
                    pieces.extend(value.pieces().unwrap_or_default().into_iter().map(|piece| {
                        match piece {
                            Piece::Plain(text) => Piece::Plain(encoded(&text)),
                            drawn => drawn,
                        }
                    }));
                }
                pieces
            }
            other => match other.pieces() {
                Some(pieces) => pieces,
                None => return self.say(node, "the body is a list: write JSON.stringify([…])"),
            },
        };
        let has_secret = found.text().is_some_and(|text| {
            serde_json::from_str::<Value>(&text).is_ok_and(|json| super::super::holds_secret(&json))
        }) || matches!(&found, Constant::Map(all) if all.iter().any(|(name, _)| is_secret(name)));
        if has_secret {
            self.found.secrets += 1;
            return self.say(node, "the body holds a credential: take it out, and give it to the server in another way");
        }
        sent.body = Some(self.template(&pieces)).filter(|text| !text.is_empty());
    }

    /// What is checked of an answer, as far as the lab can check it.
    fn check(&mut self, answer: Option<usize>, node: Node<'t>) {
        let all = match members(self.script, node, &self.names, 0) {
            Ok(all) => all,
            Err(wrong) => return self.left_out(node, &format!("the checks: {}", wrong.what)),
        };
        for (name, code) in all {
            let read = answer.and_then(|number| self.one_check(number, code));
            if read.is_none() {
                self.left_out(code, &format!("the check `{}` is not read: the lab expects a status, a field, or a text in the body", short(&name)));
            }
        }
    }

    fn one_check(&mut self, answer: usize, function: Node<'t>) -> Option<()> {
        let function = resolve(self.script, function, &self.names);
        let parameter = match (
            function.child_by_field_name("parameter"),
            function.child_by_field_name("parameters"),
        ) {
            (Some(one), _) => one,
            (None, Some(list)) => *named(list).first()?,
            (None, None) => return None,
        };
        let body = function.child_by_field_name("body")?;
        let body = match body.kind() {
            "statement_block" => match named(body).as_slice() {
                [only] if only.kind() == "return_statement" => *named(*only).first()?,
                _ => return None,
            },
            _ => body,
        };
        let mut wanted = Vec::new();
        self.wanted(bare(body), self.script.word(parameter), &mut wanted, 0)?;
        let sent = self.found.sent.get_mut(answer)?;
        for one in wanted {
            match one {
                Wanted::Status(statuses) => sent.statuses = statuses,
                Wanted::Header(name, text) => {
                    sent.wanted_headers.insert(name, text.into());
                }
                Wanted::Body(body) => sent.wanted_body = Some(body),
            }
        }
        Some(())
    }

    /// Reads a condition on an answer, which has this name.
    fn wanted(
        &self,
        node: Node<'t>,
        name: &str,
        out: &mut Vec<Wanted>,
        depth: usize,
    ) -> Option<()> {
        let known = |node| value(self.script, node, &self.names, 0).ok();
        let part = |field: &str| node.child_by_field_name(field).map(bare);
        let of = |node: Node<'t>| self.script.word(node).strip_prefix(name);
        if depth > 16 {
            return None;
        }
        if node.kind() == "call_expression" {
            let callee = part("function")?;
            let object = bare(callee.child_by_field_name("object")?);
            let argument = *named(part("arguments")?).first()?;
            if self.script.word(callee.child_by_field_name("property")?) != "includes" {
                return None;
            }
            if of(argument) == Some(".status") {
                let Constant::List(all) = known(object)? else {
                    return None;
                };
                out.push(Wanted::Status(
                    all.iter().map(status).collect::<Option<_>>()?,
                ));
                return Some(());
            }
            (of(object) == Some(".body")).then_some(())?;
            out.push(Wanted::Body(
                json!({ "contains": known(argument)?.text().filter(|text| !text.is_empty())? }),
            ));
            return Some(());
        }
        let (left, right) = (part("left")?, part("right")?);
        match self.script.word(part("operator")?) {
            "&&" => {
                self.wanted(left, name, out, depth + 1)?;
                self.wanted(right, name, out, depth + 1)
            }
            "||" => {
                let (mut a, mut b) = (Vec::new(), Vec::new());
                self.wanted(left, name, &mut a, depth + 1)?;
                self.wanted(right, name, &mut b, depth + 1)?;
                match (a.as_slice(), b.as_slice()) {
                    ([Wanted::Status(a)], [Wanted::Status(b)]) => {
                        out.push(Wanted::Status(a.iter().chain(b).copied().collect()));
                        Some(())
                    }
                    _ => None,
                }
            }
            "==" | "===" => {
                out.push(match of(left)? {
                    ".status" => Wanted::Status(vec![status(&known(right)?)?]),
                    ".body" => Wanted::Body(
                        json!({ "exact": known(right)?.text().filter(|text| !text.is_empty())? }),
                    ),
                    _ => {
                        let object = left.child_by_field_name("object")?;
                        (of(object) == Some(".headers")).then_some(())?;
                        let field = left
                            .child_by_field_name("index")
                            .or_else(|| left.child_by_field_name("property"))?;
                        let field = self
                            .script
                            .word(field)
                            .trim_matches(['"', '\''])
                            .to_ascii_lowercase();
                        http::HeaderName::from_bytes(field.as_bytes()).ok()?;
                        Wanted::Header(field, known(right)?.text()?)
                    }
                });
                Some(())
            }
            _ => None,
        }
    }
}

enum Wanted {
    Status(Vec<u64>),
    Header(String, String),
    Body(Value),
}

fn status(constant: &Constant) -> Option<u64> {
    let number = constant.number()?;
    ((200.0..600.0).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}
