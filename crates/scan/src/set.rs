//! Rules as the engine runs them: one automaton for what opens them, one expression each.
//!
//! An expression is compiled when its rule is first opened, so that a start costs nothing for rules that
//! never are. Each thread searches with memory of its own.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, meta};
use regex_syntax::hir::Hir;
use regex_syntax::hir::literal::Extractor;

use crate::automaton::{Automaton, Ends};
use crate::east;
use crate::factors::{self, Factors, Tracks};
use crate::rule::{Class, Direction, Rule};
use crate::settings::Settings;
use crate::words;

/// Rules compiled together.
pub(crate) struct Set {
    /// Tells the memory of one set from that of another.
    id: u64,
    /// Of the literals that are ASCII, and of the others: most texts need the first one only.
    ascii: Automaton,
    /// Built for the first text that needs it.
    wide: OnceLock<Automaton>,
    literals: [Vec<Literal>; 2],
    pub(crate) matchers: Vec<Matcher>,
    /// The rules that each opener beside literals opens.
    opened: [Vec<u16>; 3],
}

/// What opens a rule beside its literals.
#[derive(Clone, Copy)]
pub(crate) enum Opener {
    Digits,
    Base58,
    Phrase,
}

struct Literal {
    text: Vec<u8>,
    /// The rules that it opens.
    rules: Vec<u16>,
}

/// One rule, compiled when it is first opened.
pub(crate) struct Matcher {
    pub(crate) rule: &'static Rule,
    /// Whether it is looked for at all, by direction.
    looked_for: [bool; 3],
    compiled: OnceLock<Compiled>,
}

pub(crate) struct Compiled {
    /// One expression, or its alternatives, each compiled when it is first needed.
    branches: Vec<Branch>,
    /// What says where each branch is searched; absent where the expression is searched everywhere.
    factors: Option<Factors>,
    /// Whether it matches texts that are ASCII.
    ascii: bool,
    /// Bytes of the longest match.
    length_max: usize,
    /// Whether each match begins with the literal that opens it.
    literal_first: bool,
}

/// One alternative of an expression.
struct Branch {
    hir: Hir,
    /// Whether it reads words, in whatever spelling.
    words: bool,
    regex: OnceLock<meta::Regex>,
}

/// States that an automaton can have: one for each byte of its literals at most.
const STATES_MAX: usize = u16::MAX as usize;
/// Bytes that the compiled form of one expression may take.
const REGEX_BYTES_MAX: usize = 4 << 20;

/// The memory of one rule's branches.
type RuleCaches = Vec<Option<Box<meta::Cache>>>;

thread_local! {
    static CACHES: RefCell<(u64, Vec<RuleCaches>)> =
        const { RefCell::new((0, Vec::new())) };
}

impl Set {
    /// Errors: there are too many literals.
    pub(crate) fn new(rules: &[&'static Rule], settings: &Settings) -> Result<Set, &'static str> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut literals: [Vec<Literal>; 2] = [Vec::new(), Vec::new()];
        let mut known = std::collections::HashMap::new();
        let mut opened: [Vec<u16>; 3] = Default::default();
        for (index, rule) in (0u16..).zip(rules) {
            // What is off everywhere costs nothing.
            if !Direction::ALL
                .map(|direction| settings.looks_for(rule, direction))
                .contains(&true)
            {
                continue;
            }
            for literal in rule.literals {
                let text = match literal.is_ascii() {
                    true => literal.to_ascii_lowercase().into_bytes(),
                    false => east::simplified(literal).to_ascii_lowercase().into_bytes(),
                };
                let list = &mut literals[usize::from(!text.is_ascii())];
                let at = *known.entry(text.clone()).or_insert_with(|| {
                    list.push(Literal {
                        text,
                        rules: Vec::new(),
                    });
                    list.len() - 1
                });
                list[at].rules.push(index);
            }
            let by = [rule.digits, rule.base58, rule.phrase];
            for (list, _) in opened.iter_mut().zip(by).filter(|(_, by)| *by) {
                list.push(index);
            }
        }
        let mut wide = OnceLock::new();
        let bytes: usize = literals[1].iter().map(|literal| literal.text.len()).sum();
        if bytes >= STATES_MAX {
            // Whether they fit has to be known now.
            wide = OnceLock::from(automaton(&literals[1])?);
        }
        let matchers = rules.iter().map(|rule| Matcher::new(rule, settings));
        Ok(Set {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            ascii: automaton(&literals[0])?,
            wide,
            literals,
            matchers: matchers.collect(),
            opened,
        })
    }

    /// Calls `open` with each rule that a literal opens, and where the literal stands.
    ///
    /// Errors: those of `open`, which ends the search.
    pub(crate) fn candidates<E>(
        &self,
        bytes: &[u8],
        direction: Direction,
        ends: &mut Ends,
        mut open: impl FnMut(u16, usize, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let wide = || {
            let fits = || automaton(&self.literals[1]).expect("each byte can have its state");
            self.wide.get_or_init(fits)
        };
        for (list, wide) in self.literals.iter().zip([None, Some(wide)]) {
            let automaton = match wide {
                Some(_) if bytes.is_ascii() => break,
                Some(wide) => wide(),
                None => &self.ascii,
            };
            automaton.find(bytes, ends);
            for (end, literal) in automaton.each(ends) {
                let literal = &list[usize::from(literal)];
                let start = end - literal.text.len();
                let spelling = words::spelling(&bytes[start..end], &literal.text);
                for index in &literal.rules {
                    let matcher = &self.matchers[usize::from(*index)];
                    let reads = spelling.is_some_and(|plain| plain || matcher.is_words());
                    if reads && matcher.looked_for[direction as usize] {
                        open(*index, start, end)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The rules that this opens in this direction.
    pub(crate) fn opened(
        &self,
        opener: Opener,
        direction: Direction,
    ) -> impl Iterator<Item = u16> + '_ {
        let looked_for =
            move |index: &u16| self.matchers[usize::from(*index)].looked_for[direction as usize];
        self.opened[opener as usize]
            .iter()
            .copied()
            .filter(looked_for)
    }

    /// The first match of one branch of a rule in a part of a text, with its first group where it has one.
    pub(crate) fn find(
        &self,
        (index, branch): (u16, usize),
        bytes: &[u8],
        span: Range<usize>,
        anchored: Anchored,
    ) -> Option<(Range<usize>, Range<usize>)> {
        let regex = self.matchers[usize::from(index)].compiled().branches[branch].regex();
        let input = Input::new(bytes).span(span).anchored(anchored);
        CACHES.with_borrow_mut(|(id, caches)| {
            if *id != self.id {
                (*id, *caches) = (self.id, Vec::new());
            }
            if caches.len() < self.matchers.len() {
                caches.resize_with(self.matchers.len(), Vec::new);
            }
            let caches = &mut caches[usize::from(index)];
            if caches.len() <= branch {
                caches.resize_with(branch + 1, || None);
            }
            let cache = caches[branch].get_or_insert_with(|| Box::new(regex.create_cache()));
            let whole = regex.search_with(cache, &input)?.range();
            if regex.captures_len() == 1 {
                return Some((whole.clone(), whole));
            }
            let mut captures = regex.create_captures();
            let again = Input::new(bytes)
                .span(whole.clone())
                .anchored(Anchored::Yes);
            regex.search_captures_with(cache, &again, &mut captures);
            let group = captures.get_group(1).map(|group| group.range());
            Some((whole.clone(), group.unwrap_or(whole)))
        })
    }
}

fn automaton(list: &[Literal]) -> Result<Automaton, &'static str> {
    let texts: Vec<&[u8]> = list.iter().map(|literal| &literal.text[..]).collect();
    Automaton::new(&texts)
}

impl Matcher {
    fn new(rule: &'static Rule, settings: &Settings) -> Matcher {
        Matcher {
            rule,
            looked_for: Direction::ALL.map(|direction| settings.looks_for(rule, direction)),
            compiled: OnceLock::new(),
        }
    }

    /// Whether it reads words, in whatever spelling.
    fn is_words(&self) -> bool {
        self.rule.class == Class::Injection
    }

    /// Bytes of the longest match.
    pub(crate) fn length_max(&self) -> usize {
        self.compiled().length_max
    }

    /// Whether each match begins with the literal that opens it.
    pub(crate) fn literal_first(&self) -> bool {
        self.rule.before == 0 && self.compiled().literal_first
    }

    /// Puts the parts of a window that have to be searched into `tracks`, each with its branch.
    pub(crate) fn parts(&self, bytes: &[u8], window: Range<usize>, tracks: &mut Tracks) {
        let compiled = self.compiled();
        tracks.parts.clear();
        if !compiled.ascii && bytes[window.clone()].is_ascii() {
            return;
        }
        match &compiled.factors {
            Some(factors) => factors.parts(bytes, window, tracks),
            None => tracks.parts.push((window, 0)),
        }
    }

    fn compiled(&self) -> &Compiled {
        self.compiled
            .get_or_init(|| compile(self.rule).expect("each rule was compiled when it was read"))
    }
}

/// Compiles a rule's expression, and builds all of it, so that it is known to build.
///
/// Errors: it does not parse, has no bound, or is larger than it may be.
pub(crate) fn check(rule: &Rule) -> Result<(), String> {
    let compiled = compile(rule)?;
    let mut all = compiled.branches.iter();
    all.try_for_each(|branch| branch.build().map(drop))
        .map_err(|error| format!("{}: {error}", rule.id))
}

/// Takes a rule's expression apart. Errors: it does not parse, or has no bound.
fn compile(rule: &Rule) -> Result<Compiled, String> {
    let syntax = syntax::Config::new().unicode(false).utf8(false);
    let regex = east::simplified(rule.regex);
    let hir = syntax::parse_with(&regex, &syntax)
        .map_err(|error| format!("the expression of {} does not parse: {error}", rule.id))?;
    let ascii = factors::can_be_ascii(&hir);
    let plain = match rule.class {
        Class::Injection => factors::branches(&hir),
        _ => vec![hir],
    };
    let length: fn(&Hir) -> usize = match rule.class {
        Class::Injection => words::length_max,
        _ => |hir| hir.properties().maximum_len().unwrap_or(usize::MAX),
    };
    let length_max = plain.iter().map(length).max().unwrap_or(0);
    if length_max == usize::MAX {
        return Err(format!("the expression of {} has no bound", rule.id));
    }
    let factors = match rule.class {
        Class::Injection => Some(Factors::new(&plain, length)?),
        _ => None,
    };
    let branch = |hir| Branch {
        hir,
        words: rule.class == Class::Injection,
        regex: OnceLock::new(),
    };
    let branches: Vec<Branch> = plain.into_iter().map(branch).collect();
    let literal_first = match &branches[..] {
        [one] if !one.words => literal_first(rule, &one.hir),
        _ => false,
    };
    Ok(Compiled {
        branches,
        factors,
        ascii,
        length_max,
        literal_first,
    })
}

impl Branch {
    fn regex(&self) -> &meta::Regex {
        let built = || self.build().expect("each rule was built when it was read");
        self.regex.get_or_init(built)
    }

    /// Errors: it is larger than it may be.
    fn build(&self) -> Result<meta::Regex, String> {
        let config = meta::Config::new()
            .utf8_empty(false)
            .nfa_size_limit(Some(REGEX_BYTES_MAX));
        let mut builder = meta::Builder::new();
        let wide = match self.words {
            true => words::widen(&self.hir),
            false => self.hir.clone(),
        };
        let built = builder.configure(config).build_from_hir(&wide);
        built.map_err(|error| format!("the expression does not build: {error}"))
    }
}

/// Whether each match of an expression begins with one of its rule's literals, as far as can be told.
fn literal_first(rule: &Rule, hir: &Hir) -> bool {
    let prefixes = Extractor::new().extract(hir);
    let known = |prefix: &[u8]| {
        let begins = |literal: &&str| {
            let start = prefix.get(..literal.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(literal.as_bytes()))
        };
        rule.literals.iter().any(begins)
    };
    let literals = prefixes.literals();
    literals.is_some_and(|all| !all.is_empty() && all.iter().all(|one| known(one.as_bytes())))
}
