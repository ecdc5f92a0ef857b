//! Searches that rank: the query, its candidates over all trees, their order, and the hits of one page.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tantivy::Term;
use tantivy::query::FuzzyTermQuery;

use super::fold::{self, Folded};
use super::hits::{Made, Reader, Shown, fit, unit};
use super::scope::{self, Files, Reference};
use super::{Inner, Scope, exact};
use crate::code::api::{
    Answer, Cancel, ChunkKey, Detail, Error, LeftOut, Mode, NearCopies, Result, ScoreParts, Search,
};
use crate::code::index::{Choice, Found, Pool, Scored, View};
use crate::code::parse::Symbol;
use crate::code::parse::words::{Part, Sieve, Words};
use crate::code::rank::order::{Ranked, order, sort};
use crate::code::rank::prior::Priors;
use crate::code::rank::{Class, Plan, near, table};
use crate::code::trigram::Pattern;

/// Most hits of one page.
pub(super) const LIMIT_MAX: usize = 50;
/// Hits of one page.
const LIMIT: usize = 10;
/// Places of paths that are put before what was found by words.
const PATHS_MAX: usize = 30;
/// Words that are looked at for one that is spelt alike.
const ALIKE_MAX: usize = 10_000;
/// Neighbours that vectors are asked for.
const NEIGHBOURS: usize = 100;

/// How a question is answered.
pub(super) enum How {
    /// By lines that match.
    Exact(Pattern, &'static str),
    /// By rank.
    Ranked(Plan, &'static str),
}

/// Reads a question.
///
/// # Errors
///
/// [`Error::Ask`] when it cannot be.
pub(super) fn read(ask: &Search) -> Result<How> {
    let query = scope::query(&ask.query)?;
    let quoted = |mark: char| {
        let inner = query
            .strip_prefix(mark)
            .and_then(|rest| rest.strip_suffix(mark));
        inner.filter(|inner| inner.len() > 1)
    };
    Ok(match ask.mode {
        Mode::Text => How::Exact(
            Pattern::text(ask.query.trim_end_matches('\n'), ask.ignore_case)?,
            "text",
        ),
        Mode::Regex => How::Exact(Pattern::regex(&ask.query, ask.ignore_case)?, "regex"),
        Mode::Symbol => How::Ranked(Plan::as_class(query, Class::Symbol), "symbol"),
        Mode::Semantic => How::Ranked(Plan::as_class(query, Class::Words), "semantic"),
        Mode::Auto => match (quoted('"'), quoted('/')) {
            (Some(text), _) => How::Exact(Pattern::text(text, ask.ignore_case)?, "text"),
            (_, Some(regex)) if !regex.contains('/') => {
                How::Exact(Pattern::regex(regex, ask.ignore_case)?, "regex")
            }
            _ => {
                let plan = Plan::of(query);
                let name = match plan.class {
                    Class::Symbol => "symbol",
                    Class::Path => "path",
                    Class::Words => "words",
                };
                How::Ranked(plan, name)
            }
        },
    })
}

/// Answers a search over the trees of a scope, as [`read`] read it.
///
/// # Errors
///
/// As [`super::Engine::search`].
pub(super) fn run(
    inner: &Inner,
    scope: &Scope,
    ask: &Search,
    how: &How,
    cancel: &Cancel,
) -> Result<Made> {
    let limit = scope::limit(ask.limit, LIMIT, LIMIT_MAX)?;
    let offset = scope::offset(ask.cursor.as_deref())?;
    let tokens = scope::tokens(ask.max_tokens)?;
    let files = Files::of(ask)?;
    match how {
        How::Exact(pattern, understood) => {
            let page = Page {
                offset,
                limit,
                tokens,
                detail: ask.detail,
            };
            lines(inner, scope, pattern, understood, &files, &page, cancel)
        }
        How::Ranked(plan, understood) => {
            let kinds = scope::kinds(ask.symbol_kind.as_deref())?;
            let ranking = Ranking {
                inner,
                scope,
                files: &files,
                kinds,
                cancel,
            };
            let (plan, ranked, left_out) = ranking.rank(plan.clone(), ask, offset + limit)?;
            let page = Page {
                offset,
                limit,
                tokens,
                detail: ask.detail,
            };
            let answer = Answer {
                understood: (*understood).to_owned(),
                total_exact: ranked.len() < table::CANDIDATES,
                left_out,
                ..Answer::default()
            };
            pieces(scope, (&plan, ranked), ask, &page, answer)
        }
    }
}

/// Fills an answer with a page of ranked pieces.
///
/// # Errors
///
/// As [`run`].
fn pieces(
    scope: &Scope,
    (plan, ranked): (&Plan, Vec<Ranked>),
    ask: &Search,
    page: &Page,
    mut answer: Answer,
) -> Result<Made> {
    let folded = Folded::of(&views(scope), ranked);
    let end = page.offset + page.limit;
    let held = folded.held_back(page.offset, end);
    let mut reader = Reader::new(scope);
    let words: Vec<String> = plan.words().iter().map(|word| (*word).to_owned()).collect();
    let shown = folded.ranked.iter().skip(page.offset).take(page.limit);
    for (one, held) in shown.zip(held) {
        let Some(mut hit) = show(scope, &mut reader, plan, one, ask.detail, &words, ask.mode)?
        else {
            continue;
        };
        hit.parts = ask.explain.then(|| one.parts.clone());
        hit.more_in_file = u32::try_from(held).ok().filter(|held| *held > 0);
        hit.copies = near_copies(scope, folded.copies(one))?;
        answer.hits.push(hit);
    }
    answer.total = folded.ranked.len() as u64;
    let next = (folded.ranked.len() > end).then_some(end);
    fit(&mut answer, page.offset, next, page.tokens);
    Ok((answer, reader.changed))
}

/// How many copies a hit has, and where the best of them are.
fn near_copies(scope: &Scope, copies: &[fold::CopyAt]) -> Result<Option<NearCopies>> {
    if copies.is_empty() {
        return Ok(None);
    }
    let mut places = Vec::new();
    for (tree, found) in copies.iter().take(fold::COPIES_SHOWN) {
        let entry = &scope.views[*tree].entries[found.entry as usize];
        let unit = unit(scope, *tree, entry)?;
        let chunk = unit
            .as_ref()
            .and_then(|unit| unit.parsed.chunks.get(found.chunk as usize));
        let lines = chunk.map(|chunk| (chunk.span.first, chunk.span.last));
        let name = &scope.trees[*tree].row.name;
        places.push(Reference::text(
            name,
            &entry.path,
            &entry.blob.short(),
            lines,
        ));
    }
    Ok(Some(NearCopies {
        count: copies.len() as u64,
        places,
    }))
}

/// Which part of an answer is wanted.
pub(super) struct Page {
    pub offset: usize,
    pub limit: usize,
    pub tokens: Option<usize>,
    pub detail: Detail,
}

/// Answers with lines that match.
///
/// # Errors
///
/// As [`run`].
pub(super) fn lines(
    inner: &Inner,
    scope: &Scope,
    pattern: &Pattern,
    understood: &str,
    files: &Files,
    page: &Page,
    cancel: &Cancel,
) -> Result<Made> {
    let time = std::time::Duration::from_millis(inner.settings.limits.search_ms);
    let end = page.offset.saturating_add(page.limit);
    // One more than are shown tells whether the answer goes on.
    let shown = (page.detail, end.saturating_add(1));
    let matches = exact::find(scope, pattern, files, shown, &cancel.within(time))?;
    exact::given_up(cancel)?;
    let mut answer = Answer {
        understood: understood.to_owned(),
        total: matches.total,
        total_exact: matches.complete && matches.unread == 0 && matches.uncounted == 0,
        ..Answer::default()
    };
    for matching in matches.lines.iter().skip(page.offset).take(page.limit) {
        answer.hits.push(exact::hit(scope, matching, page.detail)?);
    }
    if !matches.complete {
        answer.left_out.push(left_out("time", None, "narrow the search by `paths`, `languages` or `directory`, or make the expression say more"));
    }
    if matches.uncounted > 0 {
        answer.left_out.push(left_out(
            "files that can match and were not read, so that `total` is the least there are",
            Some(matches.uncounted),
            "ask with `cursor` for their lines, or narrow the search by `paths`, `languages` or `directory`",
        ));
    }
    if matches.unread > 0 {
        answer.left_out.push(left_out(
            "files that cannot be read",
            Some(matches.unread),
            "let the server's user read them",
        ));
    }
    let next = (matches.lines.len() > end).then_some(end);
    fit(&mut answer, page.offset, next, page.tokens);
    Ok((answer, matches.changed))
}

fn left_out(what: &str, count: Option<u64>, how: &str) -> LeftOut {
    LeftOut {
        what: what.to_owned(),
        count,
        how: how.to_owned(),
    }
}

/// What a ranking needs.
pub(super) struct Ranking<'a> {
    pub inner: &'a Inner,
    pub scope: &'a Scope,
    pub files: &'a Files,
    pub kinds: Option<u64>,
    pub cancel: &'a Cancel,
}

impl Ranking<'_> {
    /// The candidates in order, with the plan as it was carried out.
    fn rank(
        &self,
        mut plan: Plan,
        ask: &Search,
        wanted: usize,
    ) -> Result<(Plan, Vec<Ranked>, Vec<LeftOut>)> {
        let views: Vec<&View> = self.scope.views.iter().map(AsRef::as_ref).collect();
        if plan.class != Class::Path {
            self.respell(&mut plan, &views)?;
        }
        self.prefer(&mut plan, &views);
        let most = table::CANDIDATES.max(wanted + LIMIT_MAX);
        let mut ranked = self.candidates(&plan, &views, most)?;
        exact::given_up(self.cancel)?;
        ranked = order(&plan, &views, ranked)?;
        if plan.class == Class::Path {
            self.paths(&plan, &views, &mut ranked);
        }
        let mut left_out = Vec::new();
        if matches!(ask.mode, Mode::Semantic | Mode::Auto) && plan.class == Class::Words {
            let alone = ask.mode == Mode::Semantic;
            left_out.extend(self.vectors(&plan, &views, &mut ranked, alone)?);
        }
        ranked.truncate(most);
        Ok((plan, ranked, left_out))
    }

    /// Takes a language that the question names as a preference, where it tells some files from others.
    fn prefer(&self, plan: &mut Plan, views: &[&View]) {
        let Some((language, name)) = plan.named_language() else {
            return;
        };
        let entries = || views.iter().flat_map(|view| view.entries.iter());
        let of = entries()
            .filter(|entry| entry.about.language == language)
            .count();
        let share = of as f32 / entries().count().max(1) as f32;
        if of > 0 && share <= table::LANGUAGE_SHARE_MAX {
            plan.prefer(language, &name);
        }
    }

    /// The best pieces by words, over all trees.
    pub(super) fn candidates(
        &self,
        plan: &Plan,
        views: &[&View],
        most: usize,
    ) -> Result<Vec<Ranked>> {
        let pool = Pool {
            views: views.to_vec(),
        };
        let priors = Priors::of(&plan.words()).for_code(plan.is_about_code());
        let mut ranked = Vec::new();
        for (at, view) in views.iter().enumerate() {
            let clauses = plan.clauses(view.fields());
            // Whether a file counts is found out once.
            let all = self.files.is_all();
            let count = if all { 0 } else { view.entries.len() };
            let counts = std::cell::RefCell::new(vec![None; count]);
            let counts = |entry: u32| {
                let has = || self.files.has(&view.entries[entry as usize]);
                all || *counts.borrow_mut()[entry as usize].get_or_insert_with(has)
            };
            let worth = |entry: u32| {
                let language = view.entries[entry as usize].about.language;
                priors.factor(view.marks(entry)) * plan.preference(language)
            };
            let factor = |entry: u32| match counts(entry) {
                true => worth(entry),
                false => 0.0,
            };
            let choice = Choice {
                most,
                kinds: self.kinds,
                factor: &factor,
                most_of: &|marks| priors.factor(marks),
            };
            for found in view.best(&clauses, &pool, &choice)? {
                let prior = worth(found.entry);
                let parts = ScoreParts {
                    words: found.score / prior,
                    prior,
                    ..ScoreParts::default()
                };
                ranked.push(Ranked {
                    view: at,
                    found,
                    score: found.score,
                    parts,
                });
            }
        }
        sort(views, &mut ranked);
        ranked.truncate(most);
        Ok(ranked)
    }

    /// Puts files whose path is asked for before all else.
    fn paths(&self, plan: &Plan, views: &[&View], ranked: &mut Vec<Ranked>) {
        let best = ranked.first().map_or(1.0, |first| first.score);
        let asked = path_asked(&plan.query);
        let mut found = Vec::new();
        for (at, view) in views.iter().enumerate() {
            for place in view.paths().with(&asked) {
                let entry = &view.entries[place];
                let share = path_share(view.paths().get(place), &asked);
                if share > 0.0 && entry.about.chunks > 0 && self.files.has(entry) {
                    found.push((share, at, place));
                }
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        for (share, view, entry) in found.into_iter().take(PATHS_MAX) {
            let entry = u32::try_from(entry).unwrap_or(u32::MAX);
            ranked.retain(|one| (one.view, one.found.entry) != (view, entry));
            let score = best * (1.0 + share);
            ranked.push(Ranked {
                view,
                found: Found {
                    entry,
                    chunk: 0,
                    score,
                    // It was found by its path: it has no document at hand.
                    segment: u32::MAX,
                    doc: 0,
                },
                score,
                parts: ScoreParts {
                    path: share,
                    prior: 1.0,
                    ..ScoreParts::default()
                },
            });
        }
        sort(views, ranked);
    }

    /// Replaces words that no piece has by those that are spelt alike.
    fn respell(&self, plan: &mut Plan, views: &[&View]) -> Result<()> {
        let mut missing: Vec<(String, usize)> = Vec::new();
        let places: BTreeSet<usize> = plan.wanted.iter().map(|one| one.place).collect();
        for place in places {
            let here: Vec<_> = plan
                .wanted
                .iter()
                .filter(|one| one.place == place)
                .collect();
            let mut found = false;
            for one in &here {
                found = found || self.is_there(views, &one.text)?;
            }
            if !found
                && let Some(word) = here
                    .iter()
                    .map(|one| &one.text)
                    .min_by_key(|text| text.len())
                && near::tolerance(word) > 0
            {
                missing.push((word.clone(), place));
            }
        }
        for (word, place) in missing.into_iter().take(4) {
            let alike = match views {
                // With one tree it is found once for each state of it.
                [view] => view.alike(&word, || self.alike(views, &word))?,
                _ => self.alike(views, &word)?,
            };
            if let Some(alike) = alike {
                plan.respelt(&word, &alike, place);
            }
        }
        Ok(())
    }

    /// Whether any piece of these trees has a word.
    fn is_there(&self, views: &[&View], word: &str) -> Result<bool> {
        for view in views {
            for scored in Scored::ALL {
                let term = Term::from_field_text(view.fields().of(scored), word);
                if view.count(&term)? > 0 {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The word of these trees that is nearest to one; of several the most frequent.
    fn alike(&self, views: &[&View], word: &str) -> Result<Option<String>> {
        let fields = [Scored::Symbol, Scored::Body];
        let mut nearest: Option<(usize, Reverse<u64>, String)> = None;
        for (distance, text) in spelt_alike(views, word, fields)? {
            if nearest.as_ref().is_some_and(|nearest| nearest.0 < distance) {
                break;
            }
            let mut count = 0;
            for (view, scored) in views.iter().flat_map(|view| fields.map(|of| (view, of))) {
                count += view.count(&Term::from_field_text(view.fields().of(scored), &text))?;
            }
            let one = (distance, Reverse(count), text);
            if count > 0 && nearest.as_ref().is_none_or(|nearest| one < *nearest) {
                nearest = Some(one);
            }
        }
        Ok(nearest.map(|(_, _, text)| text))
    }

    /// Fuses what vectors find. Without an endpoint, or when it fails, says so where vectors were asked for.
    fn vectors(
        &self,
        plan: &Plan,
        views: &[&View],
        ranked: &mut Vec<Ranked>,
        alone: bool,
    ) -> Result<Option<LeftOut>> {
        let Some(dense) = &self.inner.settings.embed else {
            let how = "ask whoever runs this server to configure an embedding endpoint";
            return Ok(alone.then(|| left_out("vectors: none are configured", None, how)));
        };
        let mut at: HashMap<ChunkKey, (usize, Found)> = HashMap::new();
        for (number, view) in views.iter().enumerate() {
            view.keys(&mut |key, found| {
                let entry = &view.entries[found.entry as usize];
                if self.files.has(entry) {
                    at.entry(key).or_insert((number, found));
                }
            })?;
        }
        let near = dense.nearest(&plan.query, NEIGHBOURS, &|key| at.contains_key(key));
        let near = match near {
            Ok(near) => near,
            Err(error) => {
                let what = format!("vectors: {error}");
                return Ok(Some(left_out(
                    &what,
                    None,
                    "the answer is by words alone; ask again later",
                )));
            }
        };
        let best = ranked.first().map_or(1.0, |first| first.score);
        if alone {
            for one in ranked.iter_mut() {
                one.score *= 0.3;
            }
        }
        for (rank, (key, likeness)) in near.into_iter().enumerate() {
            let Some((view, found)) = at.get(&key) else {
                continue;
            };
            let share = table::VECTORS * table::RECIPROCAL / (table::RECIPROCAL + rank as f32);
            let same = |one: &&mut Ranked| {
                (one.view, one.found.entry, one.found.chunk) == (*view, found.entry, found.chunk)
            };
            match ranked.iter_mut().find(same) {
                Some(one) => {
                    one.score += best * share;
                    one.parts.vectors = likeness;
                }
                None => ranked.push(Ranked {
                    view: *view,
                    found: *found,
                    score: best * share,
                    parts: ScoreParts {
                        vectors: likeness,
                        prior: 1.0,
                        ..ScoreParts::default()
                    },
                }),
            }
        }
        sort(views, ranked);
        Ok(None)
    }
}

/// Words of the indexes that are spelt nearly like one, the nearest first, with how far they are from it.
fn spelt_alike(
    views: &[&View],
    word: &str,
    fields: [Scored; 2],
) -> Result<BTreeSet<(usize, String)>> {
    let most = near::tolerance(word);
    let mut alike = BTreeSet::new();
    for (view, scored) in views.iter().flat_map(|view| fields.map(|of| (view, of))) {
        let field = view.fields().of(scored);
        let term = Term::from_field_text(field, word);
        let fuzzy = FuzzyTermQuery::new(term, u8::try_from(most).unwrap_or(0), true);
        for segment in view.searcher().segment_readers() {
            let inverted = segment.inverted_index(field).map_err(store)?;
            let fuzzy = fuzzy.automaton().map_err(store)?;
            let mut terms = inverted
                .terms()
                .search(fuzzy)
                .into_stream()
                .map_err(store)?;
            while alike.len() < ALIKE_MAX && terms.advance() {
                let text = std::str::from_utf8(terms.key()).unwrap_or_default();
                if let Some(distance) = near::distance(word, text, most) {
                    alike.insert((distance, text.to_owned()));
                }
            }
        }
    }
    Ok(alike)
}

fn store(error: impl std::fmt::Display) -> Error {
    Error::Store(error.to_string())
}

/// A path that is asked for, as paths are compared.
pub(super) fn path_asked(asked: &str) -> String {
    let asked = asked.trim_start_matches("./").trim_start_matches('/');
    asked.to_lowercase()
}

/// How well a path in lower case fits one that is asked for ([`path_asked`]), 0 to 1. Whatever fits has it in it.
pub(super) fn path_share(path: &str, asked: &str) -> f32 {
    let name = path.rsplit('/').next().unwrap_or(path);
    if path == asked {
        1.0
    } else if path
        .strip_suffix(asked)
        .is_some_and(|rest| rest.ends_with('/'))
    {
        0.9
    } else if name.split('.').next() == Some(asked) {
        0.8
    } else if path
        .strip_prefix(asked)
        .is_some_and(|rest| rest.starts_with('/') || asked.ends_with('/'))
    {
        0.6
    } else if path.contains(asked) {
        0.5
    } else {
        0.0
    }
}

/// A candidate as a hit; none when its file has changed.
fn show(
    scope: &Scope,
    reader: &mut Reader<'_>,
    plan: &Plan,
    one: &Ranked,
    detail: Detail,
    words: &[String],
    mode: Mode,
) -> Result<Option<crate::code::api::Hit>> {
    let entry = &scope.views[one.view].entries[one.found.entry as usize];
    let Some(unit) = unit(scope, one.view, entry)? else {
        return Ok(None);
    };
    let parsed = &unit.parsed;
    let Some(chunk) = parsed.chunks.get(one.found.chunk as usize) else {
        return Ok(None);
    };
    let defined: Vec<&Symbol> = chunk
        .defines
        .iter()
        .filter_map(|at| parsed.symbols.get(*at as usize))
        .collect();
    let fitting = best_symbol(plan, &defined);
    let span = match (mode, fitting) {
        (Mode::Symbol, Some(symbol)) => symbol.span,
        _ => chunk.span,
    };
    let shown = Shown {
        tree: one.view,
        entry,
        span,
        symbol: fitting,
        around: &chunk.crumbs,
        score: one.score,
    };
    Ok(reader.hit(&shown, detail, words))
}

/// The symbol that fits the question best: by its name, or else the first.
fn best_symbol<'s>(plan: &Plan, defined: &[&'s Symbol]) -> Option<&'s Symbol> {
    if let [only] = defined {
        return Some(only);
    }
    let sieve = Sieve::of(plan.wanted.iter().map(|one| one.text.as_str()));
    let fit = |symbol: &Symbol| {
        let name = symbol.name.to_lowercase();
        let exact = plan
            .names
            .iter()
            .any(|(wanted, _)| wanted.rsplit('.').next() == Some(&name));
        let (mut words, mut shared) = (Words::of(&symbol.name), 0);
        while words.advance_among(&sieve) {
            let is_asked = plan.wanted.iter().any(|one| one.text == words.text());
            shared += usize::from(is_asked && words.part() != Part::Stem);
        }
        shared + if exact { 100 } else { 0 }
    };
    // Of equal ones the first.
    defined
        .iter()
        .rev()
        .max_by_key(|symbol| fit(symbol))
        .copied()
}

/// The views of a scope, for whoever ranks by itself.
pub(super) fn views(scope: &Scope) -> Vec<&View> {
    scope.views.iter().map(Arc::as_ref).collect()
}
