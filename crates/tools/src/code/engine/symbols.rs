//! Names: where they are defined, where they are used, what a file defines, and pieces that are like one.

use std::collections::HashMap;
use std::sync::Arc;

use tantivy::Term;
use tantivy::query::{Query, TermQuery};
use tantivy::schema::IndexRecordOption;

use super::hits::{Made, Reader, Shown, fit, unit};
use super::scope::{self, Files, Reference, bad};
use super::search::{self, Page, Ranking, views};
use super::{Inner, Scope};
use crate::code::api::{
    Answer, Cancel, Detail, Error, LeftOut, Related, Result, Search, SymbolAsk, SymbolWant,
};
use crate::code::index::{Entry, Pool, Scored, Unit, View, last_part, words_of};
use crate::code::parse::words::Part;
use crate::code::parse::{Symbol, SymbolKind};
use crate::code::rank::order::order;
use crate::code::rank::prior::Priors;
use crate::code::rank::{Class, Plan, table};
use crate::code::trigram::Pattern;

/// Most hits of one page.
const LIMIT_MAX: usize = 200;
/// Hits of one page.
const LIMIT: usize = 20;
/// Files of which definitions are gathered.
const FILES_MAX: usize = 2_000;
/// Words of a piece that its likes are looked for by.
const LIKE_WORDS: usize = 30;

/// Answers a question about a name.
///
/// # Errors
///
/// As [`super::Engine::symbol`].
pub(super) fn run(inner: &Inner, scope: &Scope, ask: &SymbolAsk, cancel: &Cancel) -> Result<Made> {
    let page = Page {
        limit: scope::limit(ask.limit, LIMIT, LIMIT_MAX)?,
        offset: scope::offset(ask.cursor.as_deref())?,
        tokens: scope::tokens(ask.max_tokens)?,
        detail: ask.detail,
    };
    let kind = ask.symbol_kind.as_deref().map(scope::kind).transpose()?;
    if ask.want == SymbolWant::Outline {
        let Some(path) = &ask.path else {
            return bad("path", "is missing; an outline is of one file");
        };
        return outline(scope, path, kind, &page);
    }
    let Some(name) = ask
        .name
        .as_deref()
        .map(str::trim)
        .filter(|name| !name.is_empty())
    else {
        return bad(
            "name",
            "is missing; write the name to look for, or ask for the outline of a `path`",
        );
    };
    if name.len() > 512 {
        return bad("name", "has over 512 bytes, which no name has");
    }
    let mut files = match &ask.path {
        Some(path) => Files::only(path)?,
        None => Files::default(),
    };
    files = files.and_languages(&ask.languages)?;
    match ask.want {
        SymbolWant::Definition | SymbolWant::Outline => {
            definitions(inner, scope, name, kind, &files, &page, cancel)
        }
        SymbolWant::References => references(inner, scope, name, &files, &page, cancel),
    }
}

/// A symbol with its file.
struct Defined {
    tree: usize,
    entry: usize,
    unit: Arc<Unit>,
    symbol: usize,
    fit: f32,
}

impl Defined {
    fn symbol(&self) -> &Symbol {
        &self.unit.parsed.symbols[self.symbol]
    }
}

fn definitions(
    inner: &Inner,
    scope: &Scope,
    name: &str,
    kind: Option<SymbolKind>,
    files: &Files,
    page: &Page,
    cancel: &Cancel,
) -> Result<Made> {
    let mut defined = defined(scope, name, files)?;
    defined.retain(|one| kind.is_none_or(|kind| one.symbol().kind == kind));
    if defined.is_empty() {
        return alike(inner, scope, name, kind, page, cancel);
    }
    defined.sort_by(|a, b| {
        b.fit
            .total_cmp(&a.fit)
            .then((a.tree, a.entry, a.symbol).cmp(&(b.tree, b.entry, b.symbol)))
    });
    answer(scope, "symbol", &defined, page)
}

/// Shows a page of symbols.
fn answer(scope: &Scope, understood: &str, defined: &[Defined], page: &Page) -> Result<Made> {
    let mut answer = Answer {
        understood: understood.to_owned(),
        total: defined.len() as u64,
        total_exact: true,
        ..Answer::default()
    };
    let mut reader = Reader::new(scope);
    for one in defined.iter().skip(page.offset).take(page.limit) {
        let shown = Shown {
            tree: one.tree,
            entry: &scope.views[one.tree].entries[one.entry],
            span: one.symbol().span,
            symbol: Some(one.symbol()),
            around: &[],
            score: one.fit,
        };
        answer.hits.extend(reader.hit(&shown, page.detail, &[]));
    }
    let end = page.offset + page.limit;
    fit(
        &mut answer,
        page.offset,
        (defined.len() > end).then_some(end),
        page.tokens,
    );
    Ok((answer, reader.changed))
}

/// All definitions of a name: exactly so, or but for the case.
fn defined(scope: &Scope, name: &str, files: &Files) -> Result<Vec<Defined>> {
    let parts = crate::code::rank::parts_of_name(name);
    let Some(last) = parts.last() else {
        return Ok(Vec::new());
    };
    let keys = match parts.as_slice() {
        [.., parent, last] => vec![format!("{parent}.{last}")],
        // A constructor is found with the name of its class.
        _ => vec![last.clone(), format!("{last}.{last}")],
    };
    let mut found = Vec::new();
    for (tree, view) in scope.views.iter().enumerate() {
        let mut at = files_with(view, &keys, files)?;
        if at.is_empty() && !keys.contains(last) {
            // The parent may be a module, which is known by its file.
            at = files_with(view, std::slice::from_ref(last), files)?;
        }
        for entry in at.into_iter().take(FILES_MAX) {
            let file = &view.entries[entry];
            let Some(unit) = unit(scope, tree, file)? else {
                continue;
            };
            for (symbol, of) in unit.parsed.symbols.iter().enumerate() {
                if let Some(fit) = fits(&parts, name, of, file) {
                    let unit = Arc::clone(&unit);
                    found.push(Defined {
                        tree,
                        entry,
                        unit,
                        symbol,
                        fit,
                    });
                }
            }
        }
    }
    Ok(found)
}

/// How well a symbol fits a name, if at all.
fn fits(parts: &[String], asked: &str, symbol: &Symbol, file: &Entry) -> Option<f32> {
    let (last, parents) = parts.split_last()?;
    if symbol.name.to_lowercase() != *last {
        return None;
    }
    let mut fit = 1.0;
    if let Some(parent) = parents.last() {
        let of = last_part(&symbol.parent).to_lowercase();
        let by_path = file
            .path
            .to_lowercase()
            .split(['/', '.'])
            .any(|part| part == parent);
        match (of == *parent, by_path) {
            (true, _) => fit += 1.0,
            (false, true) => fit += 0.5,
            (false, false) => return None,
        }
    }
    if asked.ends_with(&*symbol.name) {
        fit += 0.5;
    }
    if matches!(symbol.kind, SymbolKind::Heading | SymbolKind::Key) {
        fit *= 0.3;
    }
    Some(fit * Priors::of(&[]).factor(file.marks))
}

/// The files that define one of some names, by their places.
fn files_with(view: &View, names: &[String], files: &Files) -> Result<Vec<usize>> {
    let mut at = std::collections::BTreeSet::new();
    for name in names {
        let term = Term::from_field_text(view.fields().names, name);
        let query: Box<dyn Query> = Box::new(TermQuery::new(term, IndexRecordOption::Basic));
        view.each(&*query, &mut |entry, _, _| {
            at.insert(entry as usize);
        })?;
    }
    let counts = at.into_iter().filter(|at| files.has(&view.entries[*at]));
    Ok(counts.collect())
}

/// Names that are nearly so.
fn alike(
    inner: &Inner,
    scope: &Scope,
    name: &str,
    kind: Option<SymbolKind>,
    page: &Page,
    cancel: &Cancel,
) -> Result<Made> {
    let ask = Search {
        query: name.to_owned(),
        mode: crate::code::api::Mode::Symbol,
        symbol_kind: kind.map(scope::kind_name),
        limit: Some(u32::try_from(page.limit.min(search::LIMIT_MAX)).unwrap_or(10)),
        cursor: Some(scope::cursor(page.offset)),
        detail: page.detail,
        max_tokens: page.tokens.and_then(|tokens| u32::try_from(tokens).ok()),
        ..Search::default()
    };
    let (mut answer, changed) = search::run(inner, scope, &ask, &search::read(&ask)?, cancel)?;
    answer.hits.retain(|hit| hit.kind.is_some());
    answer.understood = "names that are alike".to_owned();
    answer.left_out.push(LeftOut {
        what: format!("a definition of exactly `{name}`: there is none"),
        count: Some(0),
        how: "take one of these, or search for it as text".to_owned(),
    });
    Ok((answer, changed))
}

fn references(
    inner: &Inner,
    scope: &Scope,
    name: &str,
    files: &Files,
    page: &Page,
    cancel: &Cancel,
) -> Result<Made> {
    let plain = last_part(name.trim_end_matches("()"));
    if plain.is_empty() {
        return bad("name", "has no name in it");
    }
    let pattern = Pattern::word(plain)?;
    let (mut answer, mut changed) = {
        let all = Page {
            offset: 0,
            limit: usize::MAX,
            tokens: None,
            detail: page.detail,
        };
        search::lines(inner, scope, &pattern, "references", files, &all, cancel)?
    };
    let mut defined_at = std::collections::HashSet::new();
    let (mut reader, mut last) = (Reader::new(scope), None);
    for one in defined(scope, plain, files)? {
        let entry = &scope.views[one.tree].entries[one.entry];
        if last.replace((one.tree, one.entry)) != Some((one.tree, one.entry)) {
            reader.close();
        }
        if let Some(bytes) = reader.file(one.tree, entry) {
            let at = one.symbol().at.start as usize;
            let before = memchr::memchr_iter(b'\n', &bytes[..at.min(bytes.len())]).count();
            let line = u32::try_from(before).unwrap_or(0) + 1;
            defined_at.insert((
                scope.trees[one.tree].row.name.clone(),
                entry.path.to_string(),
                line,
            ));
        }
    }
    changed.append(&mut reader.changed);
    let before = answer.hits.len();
    answer.hits.retain(|hit| {
        !defined_at.contains(&(hit.repository.clone(), hit.path.clone(), hit.start_line))
    });
    answer.total = answer
        .total
        .saturating_sub((before - answer.hits.len()) as u64);
    let end = page.offset.saturating_add(page.limit);
    let next = (answer.hits.len() > end).then_some(end);
    answer.hits = answer
        .hits
        .into_iter()
        .skip(page.offset)
        .take(page.limit)
        .collect();
    fit(&mut answer, page.offset, next, page.tokens);
    Ok((answer, changed))
}

fn outline(scope: &Scope, path: &str, kind: Option<SymbolKind>, page: &Page) -> Result<Made> {
    let (path, repository) = match Reference::read(path) {
        Ok(reference) => (reference.path, Some(reference.repository)),
        Err(_) => (path.trim_start_matches("./").to_owned(), None),
    };
    for (tree, view) in scope.views.iter().enumerate() {
        let is_named = |name: &String| *name == scope.trees[tree].row.name;
        if !repository.as_ref().is_none_or(is_named) {
            continue;
        }
        let Some(entry) = view.place(&path) else {
            continue;
        };
        let Some(unit) = unit(scope, tree, &view.entries[entry])? else {
            return Err(Error::NoFile(format!(
                "`{path}` has no outline: it is found by name only"
            )));
        };
        let symbols = unit.parsed.symbols.iter().enumerate();
        let symbols = symbols.filter(|(_, symbol)| kind.is_none_or(|kind| symbol.kind == kind));
        let defined: Vec<Defined> = symbols
            .map(|(symbol, _)| Defined {
                tree,
                entry,
                unit: Arc::clone(&unit),
                symbol,
                fit: 1.0,
            })
            .collect();
        let detail = match page.detail {
            Detail::Snippets => Detail::Signatures,
            other => other,
        };
        return answer(scope, "outline", &defined, &Page { detail, ..*page });
    }
    Err(Error::NoFile(format!("there is no file `{path}`")))
}

/// Answers with pieces that are like one.
///
/// # Errors
///
/// As [`super::Engine::related`].
pub(super) fn related(
    inner: &Inner,
    scope: &Scope,
    from: (usize, &Reference),
    ask: &Related,
    cancel: &Cancel,
) -> Result<Made> {
    let limit = scope::limit(ask.limit, 10, search::LIMIT_MAX)?;
    let tokens = scope::tokens(ask.max_tokens)?;
    let (tree, reference) = from;
    let view = &scope.views[tree];
    let Some(entry) = view.entry(&reference.path) else {
        return Err(Error::NoFile(format!(
            "there is no file `{}`",
            reference.path
        )));
    };
    let mut reader = Reader::new(scope);
    let Some(bytes) = reader.file(tree, entry) else {
        return Ok((Answer::default(), reader.changed));
    };
    let lines = reference.lines.unwrap_or((1, u32::MAX));
    let text = lines_of(&bytes, lines);
    let views = views(scope);
    let plan = like(&text, &views)?;
    let files = Files::default();
    let ranking = Ranking {
        inner,
        scope,
        files: &files,
        kinds: None,
        cancel,
    };
    let ranked = order(
        &plan,
        &views,
        ranking.candidates(&plan, &views, table::CANDIDATES)?,
    )?;
    let mut answer = Answer {
        understood: "like".to_owned(),
        total_exact: false,
        ..Answer::default()
    };
    let words: Vec<String> = plan.wanted.iter().map(|one| one.text.clone()).collect();
    for one in ranked {
        let other = &scope.views[one.view].entries[one.found.entry as usize];
        let Some(unit) = unit(scope, one.view, other)? else {
            continue;
        };
        let Some(chunk) = unit.parsed.chunks.get(one.found.chunk as usize) else {
            continue;
        };
        let is_itself = (one.view, &*other.path) == (tree, &*entry.path)
            && chunk.span.first <= lines.1
            && lines.0 <= chunk.span.last;
        if is_itself {
            continue;
        }
        answer.total += 1;
        if answer.hits.len() < limit {
            let symbol = chunk
                .defines
                .first()
                .and_then(|at| unit.parsed.symbols.get(*at as usize));
            let shown = Shown {
                tree: one.view,
                entry: other,
                span: chunk.span,
                symbol,
                around: &chunk.crumbs,
                score: one.score,
            };
            answer.hits.extend(reader.hit(&shown, ask.detail, &words));
        }
    }
    fit(&mut answer, 0, None, tokens);
    Ok((answer, reader.changed))
}

/// Some lines of a file, from 1.
pub(super) fn lines_of(bytes: &[u8], (first, last): (u32, u32)) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().skip(first.saturating_sub(1) as usize);
    let lines: Vec<&str> = lines
        .take((last - first).saturating_add(1) as usize)
        .collect();
    lines.join("\n")
}

/// The words that tell a piece from others: frequent in it, rare elsewhere.
fn like(text: &str, views: &[&View]) -> Result<Plan> {
    let mut counts: HashMap<String, (f32, usize)> = HashMap::new();
    for (word, place, part) in words_of(text) {
        if part != Part::Stem && word.chars().count() > 2 {
            counts.entry(word).or_insert((0.0, place)).0 += 1.0;
        }
    }
    let pool = Pool {
        views: views.to_vec(),
    };
    let all = views.iter().map(|view| view.chunks()).sum::<u64>().max(1) as f32;
    let mut weighed = Vec::new();
    for (word, (count, place)) in counts {
        let field = match pool.views.first() {
            Some(view) => view.fields().of(Scored::Body),
            None => continue,
        };
        let term = Term::from_field_text(field, &word);
        let mut frequency = 0;
        for view in views {
            frequency += view.count(&term)?;
        }
        if frequency > 0 {
            let rare = (all / frequency as f32).ln().max(0.0);
            weighed.push((count.sqrt() * rare, word, place));
        }
    }
    weighed.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    weighed.truncate(LIKE_WORDS);
    let mut plan = Plan::as_class("", Class::Words);
    let best = weighed
        .first()
        .map_or(1.0, |first| first.0)
        .max(f32::MIN_POSITIVE);
    for (weight, word, place) in weighed {
        plan.want(word, weight / best, place);
    }
    Ok(plan)
}
