//! Files by name, and lines of a file.

use super::scope::{self, Files, Reference, bad, cursor};
use super::search::{path_asked, path_share};
use super::{Inner, Scope, hits, status};
use crate::code::api::{
    Cancel, Error, FileFound, FilesAnswer, FilesAsk, LeftOut, ReadAnswer, ReadAsk, Result,
};
use crate::code::index::{Blob, Depth, Entry};
use crate::code::jobs::is_binary;
use crate::code::place::Place;

/// Most files of one page.
const LIMIT_MAX: usize = 1_000;
/// Files of one page.
const LIMIT: usize = 50;
/// Most lines before and after that can be asked for.
const CONTEXT_MAX: u32 = 200;
/// Tokens of a reading.
const TOKENS: usize = 8_000;
/// Bytes that make a token, about.
const TOKEN_BYTES: usize = 4;

/// Finds files.
///
/// # Errors
///
/// As [`super::Engine::files`].
pub(super) fn run(inner: &Inner, scope: &Scope, ask: &FilesAsk) -> Result<FilesAnswer> {
    let limit = scope::limit(ask.limit, LIMIT, LIMIT_MAX)?;
    let offset = scope::offset(ask.cursor.as_deref())?;
    let files = Files::new(
        ask.directory.as_deref(),
        &ask.languages,
        ask.file_type.as_deref(),
    )?;
    let query = ask.query.trim();
    let is_glob = query.contains(['*', '?', '[', '{']);
    let glob = is_glob.then(|| scope::matcher(query)).transpose()?;
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let asked = path_asked(query);
    let mut found = Vec::new();
    for (tree, view) in scope.views.iter().enumerate() {
        let entries = view.entries.iter().enumerate();
        for (at, entry) in entries.filter(|(_, entry)| files.has(entry)) {
            let share = match &glob {
                Some(glob) => f32::from(u8::from(glob.is_match(&*entry.path))),
                None => share(view.paths().get(at), &asked, &words),
            };
            if share > 0.0 {
                found.push((share, tree, entry));
            }
        }
    }
    found.sort_by(|a, b| {
        let place = |one: &(f32, usize, &std::sync::Arc<Entry>)| {
            (one.1, one.2.path.len(), one.2.path.clone())
        };
        b.0.total_cmp(&a.0)
            .then_with(|| match query.is_empty() || is_glob {
                true => (a.1, &a.2.path).cmp(&(b.1, &b.2.path)),
                false => place(a).cmp(&place(b)),
            })
    });
    let end = offset + limit;
    let page = found.iter().skip(offset).take(limit);
    let mut answer = FilesAnswer {
        files: page
            .map(|(_, tree, entry)| file(scope, *tree, entry))
            .collect(),
        total: found.len() as u64,
        standing: status::standing(scope),
        ..FilesAnswer::default()
    };
    if found.len() > end {
        answer.cursor = Some(cursor(end));
        answer.left_out.push(LeftOut {
            what: "files".to_owned(),
            count: Some((found.len() - end) as u64),
            how: "ask with `cursor` for the next ones, or narrow the question".to_owned(),
        });
    }
    let _ = inner;
    Ok(answer)
}

/// How well a path in lower case fits: as a whole, or by all words.
fn share(path: &str, asked: &str, words: &[String]) -> f32 {
    if words.is_empty() {
        return 1.0;
    }
    let whole = path_share(path, asked);
    if whole > 0.0 || words.len() == 1 {
        return whole;
    }
    if words.iter().all(|word| path.contains(word)) {
        0.3
    } else {
        0.0
    }
}

fn file(scope: &Scope, tree: usize, entry: &Entry) -> FileFound {
    let row = &scope.trees[tree].row;
    FileFound {
        reference: Reference::text(&row.name, &entry.path, &entry.blob.short(), None),
        repository: row.name.clone(),
        path: entry.path.to_string(),
        language: entry.about.language.name().to_owned(),
        size_bytes: entry.stamp.bytes,
        note: note(entry),
    }
}

fn note(entry: &Entry) -> Option<String> {
    use crate::code::parse::Nature;
    let note = match (entry.about.depth, entry.about.nature) {
        (Depth::Pending, _) => "not indexed yet",
        (Depth::Text, _) if entry.stamp.bytes > 0 => {
            "found by name and text only: too large to be cut"
        }
        (Depth::Binary, _) => "found by name only: not text",
        (Depth::Large, _) => "found by name only: too large",
        (Depth::Unreadable, _) => "found by name only: it cannot be read",
        (_, Nature::Generated) => "generated",
        (_, Nature::Minified) => "minified",
        _ => return None,
    };
    Some(note.to_owned())
}

/// What is to be read.
struct Wanted {
    repository: Option<String>,
    path: String,
    blob: Option<String>,
    lines: Option<(u32, u32)>,
}

fn wanted(ask: &ReadAsk) -> Result<Wanted> {
    let mut wanted = match (&ask.reference, &ask.path) {
        (Some(reference), None) => {
            let reference = Reference::read(reference)?;
            Wanted {
                repository: Some(reference.repository),
                path: reference.path,
                blob: reference.blob,
                lines: reference.lines,
            }
        }
        (None, Some(path)) => Wanted {
            repository: ask.repository.clone(),
            path: path.trim_start_matches("./").to_owned(),
            blob: None,
            lines: None,
        },
        (Some(_), Some(_)) => return bad("path", "stands beside `ref`; give one of them"),
        (None, None) => {
            return bad(
                "ref",
                "is missing; give the `ref` of a hit, or `repository` and `path`",
            );
        }
    };
    let first = ask
        .start_line
        .or(wanted.lines.map(|lines| lines.0))
        .unwrap_or(1);
    let last = ask
        .end_line
        .or(wanted.lines.map(|lines| lines.1))
        .unwrap_or(u32::MAX);
    if first == 0 || last < first {
        return bad(
            "start_line",
            "lines are counted from 1, and the last is not before the first",
        );
    }
    let context = ask.context.unwrap_or(0);
    if context > CONTEXT_MAX {
        return bad("context", format!("is over {CONTEXT_MAX}"));
    }
    let first = first.saturating_sub(context).max(1);
    wanted.lines = Some((first, last.saturating_add(context)));
    Ok(wanted)
}

/// Reads lines.
///
/// # Errors
///
/// As [`super::Engine::read`].
pub(super) fn read(inner: &Inner, ask: &ReadAsk) -> Result<ReadAnswer> {
    let wanted = wanted(ask)?;
    let tokens = scope::tokens(ask.max_tokens)?.unwrap_or(TOKENS);
    let names: Vec<String> = wanted.repository.iter().cloned().collect();
    let trees = inner.choose(None, &names)?;
    let scope = inner.fresh(&trees, &Cancel::new())?;
    let mut having =
        (0..scope.views.len()).filter(|tree| scope.views[*tree].entry(&wanted.path).is_some());
    let none = || Error::NoFile(format!("there is no file `{}`", wanted.path));
    let tree = having.next().ok_or_else(none)?;
    if having.next().is_some() {
        return bad(
            "repository",
            "is missing: several repositories have this file",
        );
    }
    let entry = scope.views[tree].entry(&wanted.path).ok_or_else(none)?;
    let place = Place::open(&scope.roots, &scope.trees[tree].row.dir)?;
    let bytes = place
        .read(&wanted.path, scope.text_bytes)
        .map_err(|_| none())?
        .0;
    let Some(bytes) = bytes.filter(|bytes| !is_binary(bytes)) else {
        return Err(Error::NoFile(format!(
            "`{}` is not text, or too large",
            wanted.path
        )));
    };
    lines(&scope, tree, entry, &bytes, &wanted, tokens)
}

fn lines(
    scope: &Scope,
    tree: usize,
    entry: &Entry,
    bytes: &[u8],
    wanted: &Wanted,
    tokens: usize,
) -> Result<ReadAnswer> {
    let text = String::from_utf8_lossy(bytes);
    let all: Vec<&str> = text.lines().collect();
    let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
    let (first, last) = wanted.lines.unwrap_or((1, u32::MAX));
    let last = last.min(count);
    if first > count.max(1) {
        return Err(Error::NoFile(format!(
            "`{}` has {count} lines",
            wanted.path
        )));
    }
    let mut room = tokens * TOKEN_BYTES;
    let mut shown = Vec::new();
    for line in all.iter().take(last as usize).skip(first as usize - 1) {
        if line.len() + 1 > room && !shown.is_empty() {
            break;
        }
        shown.push(hits::cut(line, room));
        room = room.saturating_sub(line.len() + 1);
    }
    let end = first + u32::try_from(shown.len()).unwrap_or(0).saturating_sub(1);
    let mut left_out = Vec::new();
    if end < last {
        left_out.push(LeftOut {
            what: "lines".to_owned(),
            count: Some(u64::from(last - end)),
            how: format!(
                "read on with `start_line` {}, or a larger `max_tokens`",
                end + 1
            ),
        });
    }
    let blob = Blob::of(bytes).short();
    let row = &scope.trees[tree].row;
    Ok(ReadAnswer {
        reference: Reference::text(&row.name, &entry.path, &blob, Some((first, end))),
        repository: row.name.clone(),
        path: entry.path.to_string(),
        start_line: first,
        end_line: end,
        lines: count,
        language: entry.about.language.name().to_owned(),
        text: shown.join("\n"),
        changed: wanted.blob.as_ref().is_some_and(|named| *named != blob),
        left_out,
    })
}
