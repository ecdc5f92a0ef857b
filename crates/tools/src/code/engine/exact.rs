//! Exact text and expressions: every line that matches, read from the files themselves.
//!
//! The index says which files can match; files that it does not know yet are read in any case. So the answer is that of
//! `git grep`, also while indexing goes on, and what it shows is what stands in the file at that moment. Lines that are
//! not shown are counted where few files can have any; else the answer says that its count is the least there are.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Scope;
use super::hits::{FileAt, around, cut, unit};
use super::scope::{Files, Reference, kind_name};
use crate::code::api::{Cancel, Detail, Error, Hit, Result};
use crate::code::index::{Blob, Depth, Entry, View};
use crate::code::jobs::is_binary;
use crate::code::place::Place;
use crate::code::rank::prior::Priors;
use crate::code::trigram::{Formula, Line, Pattern};

/// Lines that are kept; more are only counted.
const LINES_MAX: usize = 5_000;
/// Files of which all are read, also when enough lines were found: their number is exact.
const COUNTED_FILES: usize = 256;
/// Files that are read before it is looked whether that was enough: at first, and then as many as before, up to a bound.
const PART_FILES: usize = 16;
const PART_FILES_MAX: usize = 512;
/// Files that are worth another thread.
const TOGETHER_FILES: usize = 32;
/// Most threads that read files for one search.
const THREADS_MAX: usize = 4;
/// Bytes of a buffer for files that is used again.
const BUFFER_BYTES_MAX: usize = 1 << 20;
/// Bytes of a line that is shown.
const LINE_BYTES_MAX: usize = 400;
/// Lines before and after one that is shown in full.
const FULL_LINES: usize = 3;

/// A line that matches.
pub(super) struct Matching {
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
pub(super) struct Matches {
    /// Lines by worth and path of their file.
    pub lines: Vec<Matching>,
    /// How many there are.
    pub total: u64,
    /// Whether there was time enough.
    pub complete: bool,
    /// Files that can match and were not read, because there are enough lines without them.
    pub uncounted: u64,
    /// Files that are not what the index says.
    pub changed: Vec<FileAt>,
    /// Files that could match but cannot be read.
    pub unread: u64,
}

/// Finds all lines that match: the first `most` of them to be shown, the others counted, unless that takes many files.
///
/// # Errors
///
/// [`Error::Cancelled`] when it was given up by its caller, not by time; [`Error::Store`].
pub(super) fn find(
    scope: &Scope,
    pattern: &Pattern,
    files: &Files,
    (detail, most): (Detail, usize),
    cancel: &Cancel,
) -> Result<Matches> {
    let mut candidates = Vec::new();
    let priors = Priors::of(&[]);
    for (tree, view) in scope.views.iter().enumerate() {
        for entry in candidates_of(view, pattern.formula(), files) {
            let worth = priors.factor(view.marks(u32::try_from(entry).unwrap_or(u32::MAX)));
            candidates.push((worth, tree, entry));
        }
    }
    // They stand in order already, but for their worth.
    candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
    let candidates = candidates.into_iter();
    let candidates = candidates.map(|(_, tree, entry)| (tree, entry)).collect();
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
        candidates,
    };
    Ok(search.run(most.min(LINES_MAX)))
}

/// The files that can match, by their places.
fn candidates_of(view: &View, formula: &Formula, files: &Files) -> Vec<usize> {
    let can_read = |at: &usize| {
        let depth = view.entries[*at].about.depth;
        !matches!(depth, Depth::Binary | Depth::Large)
    };
    let mut found: Vec<usize> = match view.with_runs(formula) {
        None => (0..view.entries.len()).filter(can_read).collect(),
        Some(mut found) => {
            found.extend_from_slice(view.unread());
            found.sort_unstable();
            found.dedup();
            found
        }
    };
    found.retain(|at| files.is_all() || files.has(&view.entries[*at]));
    found
}

/// One search, shared by its threads.
struct Search<'a> {
    scope: &'a Scope,
    pattern: &'a Pattern,
    detail: Detail,
    cancel: &'a Cancel,
    places: Vec<Place>,
    candidates: Vec<(usize, usize)>,
}

/// Candidates that are being read, and what was found in them.
struct Part {
    until: usize,
    next: AtomicUsize,
    /// Lines that may still be shown.
    most: usize,
    found: Mutex<Vec<(usize, Matches)>>,
}

impl Search<'_> {
    /// Reads the candidates, part by part, so that it is known from which of them on lines are only counted.
    fn run(self, most: usize) -> Matches {
        let count = self.candidates.len();
        let mut all = Matches::default();
        let mut done = 0;
        while done < count && !self.cancel.is_cancelled() {
            let left = most.saturating_sub(all.lines.len());
            if left == 0 && count > COUNTED_FILES {
                all.uncounted = (count - done) as u64;
                break;
            }
            let until = (done + done.clamp(PART_FILES, PART_FILES_MAX)).min(count);
            if !self.part(done..until, left, &mut all) {
                break;
            }
            done = until;
        }
        all.complete = done == count || all.uncounted > 0;
        all.lines.truncate(most);
        all
    }

    /// Reads some of the candidates; answers whether it came to the end of them.
    fn part(&self, part: Range<usize>, most: usize, all: &mut Matches) -> bool {
        let threads = match part.len() <= TOGETHER_FILES {
            true => 1,
            false => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let part = Part {
            until: part.end,
            next: AtomicUsize::new(part.start),
            most,
            found: Mutex::default(),
        };
        match threads.min(THREADS_MAX) {
            1 => self.work(&part),
            threads => std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| self.work(&part));
                }
            }),
        }
        let found = part.found.into_inner();
        let mut found = found.unwrap_or_else(PoisonError::into_inner);
        found.sort_by_key(|(at, _)| *at);
        for (_, mut some) in found {
            all.lines.append(&mut some.lines);
            all.changed.append(&mut some.changed);
            all.total += some.total;
            all.unread += some.unread;
        }
        part.next.into_inner() >= part.until
    }

    fn work(&self, part: &Part) {
        let mut buffer = Vec::new();
        let (mut found, mut shown) = (Vec::new(), 0);
        loop {
            // Asked before a file is taken, so that a search that was given up is not taken for complete.
            if self.cancel.is_cancelled() {
                break;
            }
            let at = part.next.fetch_add(1, Ordering::Relaxed);
            if at >= part.until {
                break;
            }
            let (tree, entry) = self.candidates[at];
            let mut matches = Matches::default();
            // Whatever else is found, these lines stand behind those that this thread has found already.
            self.file(tree, entry, part.most - shown, &mut buffer, &mut matches);
            shown += matches.lines.len();
            if matches.total > 0 || matches.unread > 0 || !matches.changed.is_empty() {
                found.push((at, matches));
            }
            if buffer.capacity() > BUFFER_BYTES_MAX {
                buffer = Vec::new();
            }
        }
        let mut all = part.found.lock().unwrap_or_else(PoisonError::into_inner);
        all.append(&mut found);
    }

    /// Finds the lines of a file: the first `most` to be shown.
    fn file(&self, tree: usize, at: usize, most: usize, bytes: &mut Vec<u8>, found: &mut Matches) {
        let entry: &Entry = &self.scope.views[tree].entries[at];
        let read = self.places[tree].read_into(&entry.path, self.scope.text_bytes, bytes);
        let (file, stamp) = match read {
            Ok((Some(file), stamp)) => (file, stamp),
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
        if is_binary(bytes) {
            return;
        }
        if most == 0 {
            found.total = self.pattern.count(bytes);
            return;
        }
        // As in ranked answers, what has its stamp before and after it was read is what the index says.
        let is_known = entry.about.depth.is_indexed() && stamp == entry.stamp && !entry.racy;
        let blob = || match is_known && stamp.is_of(&file) {
            true => entry.blob,
            false => Blob::of(bytes),
        };
        let mut known = None;
        self.pattern.lines(bytes, |line| {
            found.total += 1;
            if found.lines.len() < most {
                let (first, text) = self.text(bytes, line);
                found.lines.push(Matching {
                    tree,
                    entry: at,
                    line,
                    text,
                    blob: *known.get_or_insert_with(blob),
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
pub(super) fn hit(scope: &Scope, matching: &Matching, detail: Detail) -> Result<Hit> {
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
pub(super) fn given_up(cancel: &Cancel) -> Result<()> {
    match cancel.is_cancelled() {
        true => Err(Error::Cancelled),
        false => Ok(()),
    }
}
