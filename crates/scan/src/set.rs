//! Rules as the engine runs them: the words that open them, one expression each.
//!
//! An expression is compiled when its rule is first opened, so that a start costs nothing for rules that
//! never are. Each thread searches with memory of its own.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use regex_automata::hybrid::dfa::{self, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::{Anchored, Input, meta};
use regex_syntax::hir::Hir;
use regex_syntax::hir::literal::Extractor;

use crate::branch::{self, Fixed};
use crate::check::base58;
use crate::openers::{Candidate, Opened, Openers};
use crate::patterns;
use crate::rule::{Class, Direction, Openings, Part, Rule};
use crate::settings::Settings;
use crate::shape::{self, Shape, made_of};
use crate::tail::Tail;
use crate::words;

/// Rules compiled together.
pub(crate) struct Set {
    /// Tells the memory of one set from that of another.
    id: u64,
    pub(crate) openers: Openers,
    pub(crate) matchers: Vec<Matcher>,
    /// The matchers that each opener beside words opens.
    opened: [Vec<u16>; 3],
}

/// What opens a rule beside its literals.
#[derive(Clone, Copy)]
pub(crate) enum Opener {
    Digits,
    Base58,
    Phrase,
}

/// One rule, or one branch of a rule, compiled when it is first opened.
pub(crate) struct Matcher {
    pub(crate) rule: &'static Rule,
    pub(crate) branch: Option<&'static Fixed>,
    /// Whether it is looked for at all, by direction.
    pub(crate) looked_for: [bool; 3],
    compiled: OnceLock<Box<Compiled>>,
}

struct Compiled {
    /// Of an expression with many gaps, what says at little cost that there is no match: see [`words::loosen`].
    loose: Option<DFA>,
    /// Built where that says nothing, or there is none.
    exact: OnceLock<Exact>,
    /// Bytes of the longest match.
    length_max: usize,
    /// Whether each match begins with the literal that opens it.
    literal_first: bool,
    /// Whether each match begins where a run of Base58 does.
    is_run: bool,
    shape: Shape,
    /// A mark that is in each match, and in no word that opens it.
    mark: Option<u8>,
}

/// An expression as it is run, and how the end of its matches is read where that is not part of it.
struct Exact {
    regex: meta::Regex,
    tail: Option<Tail>,
}

/// Why an expression builds.
const CHECKED: &str = "each rule was compiled when it was read";
/// Bytes of a class, and of a literal that is repeated, which are told apart at the start of an expression.
const PREFIX_CLASS_MAX: usize = 32;
const PREFIX_BYTES_MAX: usize = 32;
/// An automaton whose memory was full so often, and which then reads fewer bytes for each state that it makes, gives up.
const CACHE_CLEARS_MAX: usize = 3;
const STATE_BYTES_MIN: usize = 10;
/// Bytes that the compiled form of one expression may take.
const REGEX_BYTES_MAX: usize = 4 << 20;

/// What searching with a matcher needs: with its loose expression, and with the exact one.
#[derive(Default)]
struct Caches {
    loose: Option<Box<dfa::Cache>>,
    exact: Option<Box<meta::Cache>>,
}

thread_local! {
    static CACHES: RefCell<(u64, Vec<Caches>)> = const { RefCell::new((0, Vec::new())) };
}

impl Set {
    /// Our own rules, or none of them, and others.
    ///
    /// Errors: there are too many.
    pub(crate) fn new(
        own: &'static [Rule],
        more: &[&'static Rule],
        settings: &Settings,
    ) -> Result<Set, &'static str> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut opened: [Vec<u16>; 3] = Default::default();
        let (mut matchers, mut first) = (Vec::new(), Vec::new());
        for rule in own.iter().chain(more.iter().copied()) {
            let index = u16::try_from(matchers.len()).map_err(|_| "too many rules")?;
            let in_text = rule.class.reads_text() && (!rule.regex.is_empty() || rule.phrase);
            let by = Direction::ALL.map(|direction| in_text && settings.looks_for(rule, direction));
            first.push(in_text.then_some(index));
            if !in_text {
                continue;
            }
            let openers = [rule.digits, rule.base58, rule.phrase];
            for (list, _) in opened.iter_mut().zip(openers).filter(|(_, by)| *by) {
                list.push(index);
            }
            match rule.branches {
                [] => matchers.push(Matcher::new(rule, None, by)),
                all => matchers.extend(all.iter().map(|one| Matcher::new(rule, Some(one), by))),
            }
        }
        if matchers.len() > usize::from(u16::MAX) {
            return Err("too many rules");
        }
        let words = match own.is_empty() {
            true => [Openings::NONE; 2],
            false => patterns::words(),
        };
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let openers = Openers::new(id, words, more, first)?;
        Ok(Set {
            id,
            openers,
            matchers,
            opened,
        })
    }

    /// Calls `open` with each part of a text in which a rule is to be searched.
    ///
    /// Errors: those of `open`, which ends the search.
    pub(crate) fn candidates<E>(
        &self,
        bytes: &[u8],
        direction: Direction,
        opened: &mut Opened,
        open: impl FnMut(Candidate) -> Result<(), E>,
    ) -> Result<(), E> {
        self.openers
            .each(&self.matchers, (bytes, direction), opened, open)
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

    /// The first match of a matcher in a part of a text, with its first group where it has one.
    pub(crate) fn find(
        &self,
        matcher: u16,
        bytes: &[u8],
        span: Range<usize>,
        anchored: Anchored,
    ) -> Option<(Range<usize>, Range<usize>)> {
        let it = &self.matchers[usize::from(matcher)];
        if let Some(mark) = it.compiled().mark {
            memchr::memchr(mark, &bytes[span.clone()])?;
        }
        // An automaton may leap to the next byte that it waits for, also where that is far behind the part. Whether a word
        // or a text ends there, the next byte says.
        let bytes = &bytes[..bytes.len().min(span.end + 1)];
        let input = Input::new(bytes).span(span).anchored(anchored);
        CACHES.with_borrow_mut(|(id, caches)| {
            if *id != self.id {
                (*id, *caches) = (self.id, Vec::new());
            }
            if caches.len() < self.matchers.len() {
                caches.resize_with(self.matchers.len(), Caches::default);
            }
            let Caches { loose, exact } = &mut caches[usize::from(matcher)];
            if let Some(dfa) = &it.compiled().loose {
                let cache = loose.get_or_insert_with(|| Box::new(dfa.create_cache()));
                // An automaton that cannot say leaves it to the exact one.
                if let Ok(None) = dfa.try_search_fwd(cache, &input.clone().earliest(true)) {
                    return None;
                }
            }
            let Exact { regex, tail } = it.exact();
            let cache = exact.get_or_insert_with(|| Box::new(regex.create_cache()));
            if let Some(tail) = tail {
                let cut = regex.search_with(cache, &input)?.range();
                return Some(tail.read(&bytes[..input.end()], cut));
            }
            // The bounds of the match, and of its first group where it has one.
            let mut slots = [None; 4];
            let asked = 2 * regex.captures_len().min(2);
            regex.search_slots_with(cache, &input, &mut slots[..asked])?;
            let [start, end, group @ ..] = slots.map(|slot| slot.map(NonMaxUsize::get));
            let whole = start?..end?;
            let group = match group {
                [Some(start), Some(end)] => start..end,
                _ => whole.clone(),
            };
            Some((whole, group))
        })
    }
}

impl Matcher {
    fn new(rule: &'static Rule, branch: Option<&'static Fixed>, looked_for: [bool; 3]) -> Matcher {
        Matcher {
            rule,
            branch,
            looked_for,
            compiled: OnceLock::new(),
        }
    }

    /// Where a match can be that holds this word, and before it one that starts here.
    pub(crate) fn window(&self, part: Part, start: usize, word: &Range<usize>) -> Range<usize> {
        match (self.branch, part) {
            (Some(branch), Part::Only) => {
                word.end.saturating_sub(branch.before)..word.start + branch.after
            }
            (Some(branch), Part::Second | Part::Third) => {
                // Words that go on and on hand the first of all on.
                let near = branch.near[0].saturating_add(branch.near[1]);
                let start = start.max(word.end.saturating_sub(near));
                start.saturating_sub(branch.before)..word.start + branch.after
            }
            _ => self.around(word),
        }
    }

    /// Bytes from the start of one word of a branch to the end of the next one, at most: of a first word and the one
    /// behind it, of a middle one that which is before it.
    pub(crate) fn near(&self, part: Part) -> u16 {
        let link = usize::from(part == Part::Third);
        let near = |branch: &Fixed| branch.near[link].min(usize::from(u16::MAX)) as u16;
        self.branch.map_or(0, near)
    }

    /// Where a match can be that holds this literal.
    fn around(&self, literal: &Range<usize>) -> Range<usize> {
        let length_max = self.compiled().length_max;
        let before = self.branch.map_or(self.rule.before, |branch| branch.before);
        let start = literal.start.saturating_sub(before);
        match before {
            0 => start..literal.start + length_max,
            _ => start..literal.end + length_max,
        }
    }

    /// Whether the bytes from here on are such as a match begins with.
    pub(crate) fn may_begin(&self, bytes: &[u8], start: usize) -> bool {
        self.compiled().shape.fits(bytes, start)
    }

    /// Whether each match begins with the run of Base58 that opens it.
    pub(crate) fn is_run(&self) -> bool {
        self.compiled().is_run
    }

    /// Whether each match that holds this word begins with it.
    pub(crate) fn begins_with(&self, part: Part, word: &Range<usize>) -> bool {
        match (part, self.branch) {
            (Part::Only, Some(branch)) => branch.before == word.len(),
            (Part::Literal, None) => self.rule.before == 0 && self.compiled().literal_first,
            _ => false,
        }
    }

    fn parsed(&self) -> Hir {
        let parsed = match self.branch {
            Some(branch) => branch::parse_written(branch.regex),
            None => branch::parse(self.rule.regex),
        };
        parsed.expect(CHECKED)
    }

    fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| {
            let compiled = compile(self.rule, self.branch, &self.parsed());
            Box::new(compiled.expect(CHECKED))
        })
    }

    fn exact(&self) -> &Exact {
        let built = || Exact::of(self.rule, &self.parsed()).expect(CHECKED);
        self.compiled().exact.get_or_init(built)
    }
}

impl Exact {
    /// Errors: the expression is larger than it may be.
    fn of(rule: &Rule, hir: &Hir) -> Result<Exact, String> {
        let wide = written(rule, hir);
        let (regex, tail) = match Tail::cut(&wide) {
            Some((cut, tail)) => (build(&cut)?, Some(tail)),
            None => (build(&wide)?, None),
        };
        Ok(Exact { regex, tail })
    }
}

/// Compiles a rule's expression, so that it is known to build.
///
/// Errors: it does not parse, has no bound, or is larger than it may be.
pub(crate) fn check(rule: &Rule) -> Result<(), String> {
    let named = |error| format!("the expression of {}: {error}", rule.id);
    let hir = branch::parse(rule.regex).map_err(named)?;
    let compile = |branch: Option<&Fixed>, hir: &Hir| {
        Exact::of(rule, hir)?;
        compile(rule, branch, hir).map(drop)
    };
    if rule.class != Class::Injection {
        return compile(None, &hir).map_err(named);
    }
    branch::branches(rule.regex).map_err(named)?;
    let mut all = rule.branches.iter();
    let parsed = |branch: &Fixed| branch::parse_written(branch.regex);
    all.try_for_each(|branch| compile(Some(branch), &parsed(branch)?))
        .map_err(named)
}

/// Compiles the expression of a rule, or of one of its branches.
fn compile(rule: &Rule, branch: Option<&Fixed>, hir: &Hir) -> Result<Compiled, String> {
    let is_words = rule.class == Class::Injection;
    let length_max = match is_words {
        true => words::length_max(hir),
        false => hir.properties().maximum_len().unwrap_or(usize::MAX),
    };
    if length_max == usize::MAX {
        return Err("it has no bound".to_owned());
    }
    let wide = written(rule, hir);
    let shape = Shape::of(&wide);
    let opens = |mark: u8| match branch.filter(|branch| !branch.first.is_empty()) {
        Some(branch) => [branch.first, branch.middle, branch.last]
            .into_iter()
            .any(|mut step| step.any(|(word, _)| word.contains(&mark))),
        None => rule
            .literals
            .iter()
            .any(|literal| literal.as_bytes().contains(&mark)),
    };
    Ok(Compiled {
        mark: shape::needed(&wide, opens),
        loose: match is_words {
            true => Some(build_loose(&words::loosen(&wide))?),
            false => None,
        },
        exact: OnceLock::new(),
        length_max,
        // No word begins inside of a run.
        is_run: rule.base58 && shape.is_bounded() && made_of(&wide, base58::is_digit),
        shape,
        literal_first: !is_words && literal_first(rule, hir),
    })
}

/// An expression in all spellings that its rule finds.
fn written(rule: &Rule, hir: &Hir) -> Hir {
    match rule.class {
        Class::Injection => words::widen(hir),
        _ => hir.clone(),
    }
}

/// Builds an expression. Errors: it is larger than it may be.
fn build(hir: &Hir) -> Result<meta::Regex, String> {
    let config = meta::Config::new()
        .utf8_empty(false)
        // What opens it has been looked for.
        .auto_prefilter(false)
        .nfa_size_limit(Some(REGEX_BYTES_MAX));
    let built = meta::Builder::new().configure(config).build_from_hir(hir);
    built.map_err(|error| format!("it does not build: {error}"))
}

/// Builds what says whether an expression matches at all, and not where: the half of what says both. It ends where it
/// would have to make its states again and again. Errors: it is larger than it may be.
fn build_loose(hir: &Hir) -> Result<DFA, String> {
    let config = thompson::Config::new()
        .utf8(false)
        .which_captures(thompson::WhichCaptures::None)
        .nfa_size_limit(Some(REGEX_BYTES_MAX));
    let nfa = thompson::Compiler::new()
        .configure(config)
        .build_from_hir(hir);
    let config = dfa::Config::new()
        .unicode_word_boundary(true)
        .minimum_cache_clear_count(Some(CACHE_CLEARS_MAX))
        .minimum_bytes_per_state(Some(STATE_BYTES_MIN));
    let built = nfa.map_err(|error| error.to_string()).and_then(|nfa| {
        let built = dfa::Builder::new().configure(config).build_from_nfa(nfa);
        built.map_err(|error| error.to_string())
    });
    built.map_err(|error| format!("it does not build: {error}"))
}

/// Whether each match of an expression begins with one of its rule's literals, as far as can be told.
fn literal_first(rule: &Rule, hir: &Hir) -> bool {
    let mut extractor = Extractor::new();
    extractor
        .limit_class(PREFIX_CLASS_MAX)
        .limit_repeat(PREFIX_BYTES_MAX);
    let prefixes = extractor.extract(hir);
    let known = |prefix: &[u8]| {
        let begins = |literal: &str| {
            let start = prefix.get(..literal.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(literal.as_bytes()))
        };
        rule.literals.iter().any(begins)
    };
    let literals = prefixes.literals();
    literals.is_some_and(|all| !all.is_empty() && all.iter().all(|one| known(one.as_bytes())))
}
