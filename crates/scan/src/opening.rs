//! Which rules a short text opens: those of which a literal is in it.
//!
//! For rules that judge commands and URLs, whose expressions run over the whole of a text that is bounded
//! already. It runs no expression by itself, and compiles each when its rule is first opened.

use std::collections::HashMap;
use std::sync::OnceLock;

use regex_automata::util::syntax;
use regex_automata::{Input, meta};

use crate::literals::{Literals, Places, Whole, Written};
use crate::rule::Rule;

/// Bytes of a program that a compiled rule may take.
const RULE_BYTES_MAX: usize = 1 << 24;

/// Rules, and the literals that open them.
pub(crate) struct Opening {
    literals: Literals,
    /// The rules that each literal opens.
    openers: Vec<Vec<usize>>,
    pub(crate) rules: Vec<Matcher>,
}

/// A rule, compiled when it is first opened.
pub(crate) struct Matcher {
    pub(crate) rule: &'static Rule,
    regex: OnceLock<meta::Regex>,
}

/// What finding literals needs, kept for the next text.
#[derive(Default)]
pub(crate) struct Opened {
    opened: Vec<bool>,
    places: Places,
}

impl Opening {
    pub(crate) fn new(rules: impl Iterator<Item = &'static Rule>) -> Opening {
        let mut literals: Vec<String> = Vec::new();
        let mut known = HashMap::new();
        let mut openers: Vec<Vec<usize>> = Vec::new();
        let mut matchers = Vec::new();
        for (index, rule) in rules.enumerate() {
            for literal in rule.literals {
                let literal = literal.to_ascii_lowercase();
                let at = *known.entry(literal).or_insert_with_key(|literal| {
                    literals.push(literal.clone());
                    openers.push(Vec::new());
                    literals.len() - 1
                });
                openers[at].push(index);
            }
            let regex = OnceLock::new();
            matchers.push(Matcher { rule, regex });
        }
        let texts: Vec<_> = literals
            .iter()
            .map(|one| (one.as_bytes(), Whole::Part, Written::Freely))
            .collect();
        Opening {
            literals: Literals::new(&texts),
            openers,
            rules: matchers,
        }
    }

    /// Whether any literal is in a text.
    pub(crate) fn any(&self, text: &[u8]) -> bool {
        !self.rules.is_empty() && self.literals.hold(text)
    }

    /// The rules that a text opens, in their order.
    pub(crate) fn each<'o>(
        &'o self,
        text: &[u8],
        scratch: &'o mut Opened,
    ) -> impl Iterator<Item = &'o Matcher> {
        let Opened { opened, places } = scratch;
        opened.clear();
        opened.resize(self.rules.len(), false);
        self.literals.find(text, places);
        for (_, literal) in places.each() {
            for index in &self.openers[usize::from(literal)] {
                opened[*index] = true;
            }
        }
        let all = self.rules.iter().zip(opened.iter());
        all.filter(|(_, opened)| **opened).map(|(rule, _)| rule)
    }
}

impl Matcher {
    /// The first match in a text from this place on.
    pub(crate) fn find(&self, text: &[u8], from: usize) -> Option<std::ops::Range<usize>> {
        let regex = self
            .regex
            .get_or_init(|| compile(self.rule).expect("each rule was compiled when it was read"));
        let found = regex.find(Input::new(text).span(from..text.len()))?;
        Some(found.range())
    }
}

/// Compiles a rule, so that it is known to build. Errors: it does not.
pub(crate) fn compile(rule: &Rule) -> Result<meta::Regex, String> {
    meta::Builder::new()
        .configure(
            meta::Config::new()
                .utf8_empty(false)
                // A literal opened the rule: to look for one again saves nothing, and costs more to build.
                .auto_prefilter(false)
                .nfa_size_limit(Some(RULE_BYTES_MAX)),
        )
        .syntax(syntax::Config::new().unicode(false).utf8(false))
        .build(rule.regex)
        .map_err(|error| {
            let why = error.syntax_error().map(ToString::to_string);
            let why = why.unwrap_or_else(|| error.to_string());
            format!("the expression of {} does not build: {why}", rule.id)
        })
}
