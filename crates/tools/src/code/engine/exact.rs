//! Exact text and expressions: every line that matches, read from the files themselves.
//!
//! The index says which files can match; files that it does not know yet are read in any case. So the answer is that of
//! `git grep`, also while indexing goes on, and what it shows is what stands in the file at that moment.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tantivy::Term;
use tantivy::query::{BooleanQuery, Occur, Query, TermQuery};
use tantivy::schema::IndexRecordOption;

use super::Scope;
use super::hits::{FileAt, around, cut, unit};
use super::scope::{Files, Reference, kind_name};
use crate::code::api::{Cancel, Detail, Error, Hit, Result};
use crate::code::index::{Blob, Depth, Entry, Fields, View};
use crate::code::jobs::is_binary;
use crate::code::place::Place;
use crate::code::rank::prior::Priors;
use crate::code::trigram::{Formula, Line, Pattern};

/// Lines that are kept; more are only counted.
const LINES_MAX: usize = 5_000;
/// Runs that are asked of the index for one text; a few say as much as all.
const GRAMS_MAX: usize = 16;
/// Files from which on several threads read them.
const THREADS_FILES_MIN: usize = 48;
/// Bytes of a line that is shown.
const LINE_BYTES_MAX: usize = 400;
/// Lines before and after one that is shown in full.
const FULL_LINES: usize = 3;

/// A line that matches.
pub struct Matching {
    /// The tree, and the place of the file in its view.
    pub tree: usize,
    /// The file.
    pub entry: usize,
    /// The line.
    pub line: Line,
    /// What it says, or what stands around it.
    text: String,
    /// The file as it was read.
    blob: Blob,
    first: u32,
}

/// All lines that match, as far as they were kept.
#[derive(Default)]
pub struct Matches {
    /// Lines by worth and path of their file.
    pub lines: Vec<Matching>,
    /// How many there are.
    pub total: u64,
    /// Whether all files were read in time.
    pub complete: bool,
    /// Files that are not what the index says.
    pub changed: Vec<FileAt>,
    /// Files that could match but cannot be read.
    pub unread: u64,
}

/// Finds all lines that match.
///
/// # Errors
///
/// [`Error::Cancelled`] when it was given up by its caller, not by time; [`Error::Store`].
pub fn find(
    scope: &Scope,
    pattern: &Pattern,
    files: &Files,
    detail: Detail,
    cancel: &Cancel,
) -> Result<Matches> {
    let mut candidates = Vec::new();
    for (tree, view) in scope.views.iter().enumerate() {
        let found = candidates_of(view, pattern.formula(), files)?;
        candidates.extend(found.into_iter().map(|entry| (tree, entry)));
    }
    let priors = Priors::of(&[]);
    candidates.sort_by(|a, b| {
        let entry = |at: &(usize, usize)| &scope.views[at.0].entries[at.1];
        let worth = |at: &(usize, usize)| priors.factor(entry(at).marks);
        worth(b).total_cmp(&worth(a)).then_with(|| a.cmp(b))
    });
    let places: Result<Vec<Place>> = scope
        .trees
        .iter()
        .map(|tree| Place::open(&scope.roots, &tree.row.dir))
        .collect();
    let search = Search {
        scope,
        pattern,
        detail,
        cancel,
        places: places?,
        next: AtomicUsize::new(0),
        kept: AtomicUsize::new(0),
        candidates,
        found: Mutex::default(),
    };
    search.run()
}

/// The files that can match, by their places.
fn candidates_of(view: &View, formula: &Formula, files: &Files) -> Result<Vec<usize>> {
    let count = view.entries.len();
    let mut can = vec![*formula == Formula::Any; count];
    if *formula != Formula::Any {
        let query = query(formula, view.fields());
        view.each(&*query, &mut |entry, _, _| can[entry as usize] = true)?;
    }
    let counts = |at: &usize| {
        let entry = &view.entries[*at];
        let readable = match entry.about.depth {
            Depth::Pending | Depth::Unreadable => true,
            Depth::Binary | Depth::Large => false,
            Depth::Meaning | Depth::Text => can[*at] || !view.is_ready(*at),
        };
        readable && files.has(entry)
    };
    Ok((0..count).filter(counts).collect())
}

fn query(formula: &Formula, fields: &Fields) -> Box<dyn Query> {
    let join = |parts: &[Formula], occur: Occur| {
        // All of many runs say hardly more than some, from begin to end.
        let step = match occur {
            Occur::Must => parts.len().div_ceil(GRAMS_MAX).max(1),
            _ => 1,
        };
        let parts = parts.iter().step_by(step);
        let clauses = parts.map(|part| (occur, query(part, fields))).collect();
        Box::new(BooleanQuery::new(clauses)) as Box<dyn Query>
    };
    match formula {
        Formula::Any => Box::new(tantivy::query::AllQuery),
        Formula::Has(gram) => {
            let mut letter = [0; 4];
            let term = Term::from_field_text(fields.grams, gram.letter().encode_utf8(&mut letter));
            Box::new(TermQuery::new(term, IndexRecordOption::Basic))
        }
        Formula::All(parts) => join(parts, Occur::Must),
        Formula::One(parts) => join(parts, Occur::Should),
    }
}

/// One search, shared by its threads.
struct Search<'a> {
    scope: &'a Scope,
    pattern: &'a Pattern,
    detail: Detail,
    cancel: &'a Cancel,
    places: Vec<Place>,
    candidates: Vec<(usize, usize)>,
    next: AtomicUsize,
    kept: AtomicUsize,
    found: Mutex<Vec<(usize, Matches)>>,
}

impl Search<'_> {
    fn run(self) -> Result<Matches> {
        let threads = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(4);
        match self.candidates.len() >= THREADS_FILES_MIN {
            false => self.work(),
            true => std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| self.work());
                }
            }),
        }
        let mut found = self
            .found
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        found.sort_by_key(|(at, _)| *at);
        let mut all = Matches {
            complete: self.next.load(Ordering::Relaxed) >= self.candidates.len(),
            ..Matches::default()
        };
        for (_, mut some) in found {
            all.lines.append(&mut some.lines);
            all.changed.append(&mut some.changed);
            all.total += some.total;
            all.unread += some.unread;
        }
        Ok(all)
    }

    fn work(&self) {
        loop {
            // Asked before a file is taken, so that a search that was given up is not taken for complete.
            if self.cancel.is_cancelled() {
                return;
            }
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some((tree, entry)) = self.candidates.get(at).copied() else {
                return;
            };
            let mut found = Matches::default();
            self.file(tree, entry, &mut found);
            if found.total > 0 || found.unread > 0 || !found.changed.is_empty() {
                let mut all = self.found.lock().unwrap_or_else(PoisonError::into_inner);
                all.push((at, found));
            }
        }
    }

    fn file(&self, tree: usize, at: usize, found: &mut Matches) {
        let entry: &Entry = &self.scope.views[tree].entries[at];
        let (bytes, stamp) = match self.places[tree].read(&entry.path, self.scope.text_bytes) {
            Ok((Some(bytes), stamp)) => (bytes, stamp),
            Ok((None, _)) => return,
            Err(error) => {
                if error.kind() == std::io::ErrorKind::NotFound {
                    found.changed.push((tree, entry.path.clone()));
                } else {
                    found.unread += 1;
                }
                return;
            }
        };
        if stamp != entry.stamp && entry.about.depth != Depth::Pending {
            found.changed.push((tree, entry.path.clone()));
        }
        if is_binary(&bytes) {
            return;
        }
        let mut blob = None;
        self.pattern.lines(&bytes, |line| {
            found.total += 1;
            if self.kept.fetch_add(1, Ordering::Relaxed) < LINES_MAX {
                let blob = *blob.get_or_insert_with(|| Blob::of(&bytes));
                let (first, text) = self.text(&bytes, line);
                found.lines.push(Matching {
                    tree,
                    entry: at,
                    line,
                    text,
                    blob,
                    first,
                });
            }
            !self.cancel.is_cancelled()
        });
    }

    /// The line, cut around the match where it is long; in full with the lines around it.
    fn text(&self, bytes: &[u8], line: Line) -> (u32, String) {
        if self.detail == Detail::Full {
            let before = memchr::memrchr_iter(b'\n', &bytes[..line.start]).nth(FULL_LINES);
            let start = before.map_or(0, |before| before + 1);
            let after = memchr::memchr_iter(b'\n', &bytes[line.end..]).nth(FULL_LINES);
            let end = after.map_or(bytes.len(), |after| line.end + after);
            let above = memchr::memchr_iter(b'\n', &bytes[start..line.start]).count();
            let text = String::from_utf8_lossy(&bytes[start..end]);
            let first = line.number - u32::try_from(above).unwrap_or(0);
            return (first, cut(&text, LINE_BYTES_MAX * 8));
        }
        let from = match line.end - line.start > LINE_BYTES_MAX {
            true => line.at.saturating_sub(LINE_BYTES_MAX / 4).max(line.start),
            false => line.start,
        };
        let text = String::from_utf8_lossy(&bytes[from..line.end]);
        (
            line.number,
            cut(text.trim_end_matches('\r'), LINE_BYTES_MAX),
        )
    }
}

/// A line as a hit.
///
/// # Errors
///
/// [`Error::Store`] when the index cannot be read.
pub fn hit(scope: &Scope, matching: &Matching, detail: Detail) -> Result<Hit> {
    let entry = &scope.views[matching.tree].entries[matching.entry];
    let row = &scope.trees[matching.tree].row;
    let (blob, number) = (matching.blob.short(), matching.line.number);
    let mut hit = Hit {
        reference: Reference::text(&row.name, &entry.path, &blob, Some((number, number))),
        repository: row.name.clone(),
        path: entry.path.to_string(),
        start_line: number,
        end_line: number,
        blob,
        language: entry.about.language.name().to_owned(),
        score: 1.0,
        ..Hit::default()
    };
    let known = match matching.blob == entry.blob {
        true => unit(scope, matching.tree, entry)?,
        false => None,
    };
    if let Some(symbol) = known
        .as_ref()
        .and_then(|unit| around(unit, matching.line.at))
    {
        hit.symbol = Some(symbol.qualified(entry.about.language));
        hit.kind = Some(kind_name(symbol.kind));
        if detail != Detail::Paths {
            hit.signature = Some(symbol.signature.to_string()).filter(|text| !text.is_empty());
        }
    }
    if matches!(detail, Detail::Snippets | Detail::Full) {
        hit.text_line = (matching.first != number).then_some(matching.first);
        hit.text = Some(matching.text.clone());
    }
    Ok(hit)
}

/// The error of a search that its caller gave up.
pub fn given_up(cancel: &Cancel) -> Result<()> {
    match cancel.is_cancelled() {
        true => Err(Error::Cancelled),
        false => Ok(()),
    }
}
