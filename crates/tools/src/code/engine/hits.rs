//! Hits as they leave: each is checked against the file, and shows no more of it than was asked for.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::Scope;
use super::scope::{Reference, cursor, kind_name};
use crate::code::api::{Answer, Detail, Hit, LeftOut, Result};
use crate::code::index::{Blob, Entry, Unit};
use crate::code::parse::words::{Sieve, Words};
use crate::code::parse::{Bytes, Span, Symbol};
use crate::code::place::{Place, Stamp};

/// Lines of a snippet.
const SNIPPET_LINES: usize = 12;
/// Bytes of one line that is shown.
const LINE_BYTES_MAX: usize = 400;
/// Bytes of one hit that is shown whole.
const FULL_BYTES_MAX: usize = 16 << 10;
/// Bytes that make a token, about.
const TOKEN_BYTES: usize = 4;
/// Tokens of what stands around the texts of a hit.
const HIT_TOKENS: usize = 40;

/// A file: its tree in the scope, and its path.
pub(super) type FileAt = (usize, Box<str>);

/// An answer, and the files that are not what the index says.
pub(super) type Made = (Answer, Vec<FileAt>);

/// Reads the files of one answer, each opened once.
pub(super) struct Reader<'a> {
    scope: &'a Scope,
    places: HashMap<usize, Option<Place>>,
    files: HashMap<FileAt, Option<Kept>>,
    /// Files that are not what the index says.
    pub changed: Vec<FileAt>,
}

/// A file that is what the index says.
#[derive(Clone)]
enum Kept {
    /// Its stamp tells so; it tells so again after each reading.
    Known(Arc<File>, Stamp),
    /// Its digest tells so: the stamp would fit a change as well.
    Whole(Arc<Vec<u8>>),
}

impl Kept {
    /// Opens a file and looks whether it is what the index says.
    fn open(place: &Place, entry: &Entry, most: u64) -> Option<Kept> {
        let (mut file, stamp) = place.file(&entry.path).ok()?;
        if stamp.bytes > most {
            return None;
        }
        // As git does: what has the stamp that it had when it was read is what was read then.
        if stamp == entry.stamp && !entry.racy {
            return Some(Kept::Known(Arc::new(file), stamp));
        }
        let mut bytes = Vec::new();
        file.by_ref().take(most).read_to_end(&mut bytes).ok()?;
        (Blob::of(&bytes) == entry.blob).then(|| Kept::Whole(Arc::new(bytes)))
    }

    /// Some of its bytes; none when it was changed meanwhile.
    fn part(&self, part: Bytes) -> Option<Vec<u8>> {
        match self {
            Kept::Known(file, stamp) => {
                let mut bytes = vec![0; part.len()];
                file.read_exact_at(&mut bytes, u64::from(part.start)).ok()?;
                stamp.is_of(file).then_some(bytes)
            }
            Kept::Whole(bytes) => Some(part.of(bytes).to_vec()),
        }
    }
}

/// What a hit is to show.
pub(super) struct Shown<'a> {
    /// Its tree in the scope.
    pub tree: usize,
    /// Its file.
    pub entry: &'a Entry,
    /// Where it stands.
    pub span: Span,
    /// What is defined there.
    pub symbol: Option<&'a Symbol>,
    /// The names around it, where nothing is defined there.
    pub around: &'a [Box<str>],
    /// How well it fits.
    pub score: f32,
}

impl<'a> Reader<'a> {
    /// Reads files of these trees.
    pub(super) fn new(scope: &'a Scope) -> Reader<'a> {
        Reader {
            scope,
            places: HashMap::new(),
            files: HashMap::new(),
            changed: Vec::new(),
        }
    }

    /// Closes the files that it has open.
    pub(super) fn close(&mut self) {
        self.files.clear();
    }

    /// The bytes of a file as the index knows it; none when it is another one now, which is noted.
    pub(super) fn file(&mut self, tree: usize, entry: &Entry) -> Option<Arc<Vec<u8>>> {
        let end = u32::try_from(entry.stamp.bytes).unwrap_or(u32::MAX);
        match self.kept(tree, entry)? {
            Kept::Whole(bytes) => Some(bytes),
            Kept::Known(..) => self
                .part(tree, entry, Bytes { start: 0, end })
                .map(Arc::new),
        }
    }

    /// Some of the bytes of a file, likewise.
    fn part(&mut self, tree: usize, entry: &Entry, part: Bytes) -> Option<Vec<u8>> {
        let bytes = self.kept(tree, entry)?.part(part);
        if bytes.is_none() {
            let key = (tree, entry.path.clone());
            self.files.insert(key.clone(), None);
            self.changed.push(key);
        }
        bytes
    }

    /// A file as the index knows it; none when it is another one now, which is noted.
    fn kept(&mut self, tree: usize, entry: &Entry) -> Option<Kept> {
        let key = (tree, entry.path.clone());
        if let Some(kept) = self.files.get(&key) {
            return kept.clone();
        }
        let of = &self.scope.trees[tree];
        let place = self.places.entry(tree).or_insert_with(|| {
            let place = Place::open(&self.scope.roots, &of.row.dir);
            place.ok()
        });
        let most = self.scope.text_bytes;
        let kept = place
            .as_ref()
            .and_then(|place| Kept::open(place, entry, most));
        if kept.is_none() {
            self.changed.push(key.clone());
        }
        self.files.insert(key, kept.clone());
        kept
    }

    /// A hit, checked against its file; none when that has changed.
    pub(super) fn hit(
        &mut self,
        shown: &Shown<'_>,
        detail: Detail,
        words: &[String],
    ) -> Option<Hit> {
        let bytes = self.part(shown.tree, shown.entry, shown.span.bytes)?;
        let row = &self.scope.trees[shown.tree].row;
        let blob = shown.entry.blob.short();
        let (first, last) = (shown.span.first, shown.span.last);
        let language = shown.entry.about.language;
        let around = shown.around.join(language.joint());
        let mut hit = Hit {
            reference: Reference::text(&row.name, &shown.entry.path, &blob, Some((first, last))),
            repository: row.name.clone(),
            path: shown.entry.path.to_string(),
            start_line: first,
            end_line: last,
            blob,
            language: language.name().to_owned(),
            symbol: match shown.symbol {
                Some(symbol) => Some(symbol.qualified(language)),
                None => Some(around).filter(|around| !around.is_empty()),
            },
            kind: shown.symbol.map(|symbol| kind_name(symbol.kind)),
            score: shown.score,
            ..Hit::default()
        };
        if detail != Detail::Paths {
            let signature = shown.symbol.map(|symbol| symbol.signature.to_string());
            hit.signature = signature.filter(|signature| !signature.is_empty());
        }
        let text = String::from_utf8_lossy(&bytes);
        match detail {
            Detail::Paths | Detail::Signatures => {}
            Detail::Full => hit.text = Some(cut(&text, FULL_BYTES_MAX)),
            Detail::Snippets => {
                let (skipped, snippet) = snippet(&text, words);
                let line = first + u32::try_from(skipped).unwrap_or(0);
                hit.text_line = (skipped > 0).then_some(line);
                hit.text = Some(snippet);
            }
        }
        Some(hit)
    }
}

/// The lines of a text that have most of the words, with how many lines are before them.
pub(super) fn snippet(text: &str, words: &[String]) -> (usize, String) {
    let lines: Vec<&str> = text.lines().collect();
    let window = SNIPPET_LINES.min(lines.len());
    let mut start = 0;
    if lines.len() > window && !words.is_empty() {
        let has = words_by_line(text, lines.len(), words);
        let mut best = 0;
        for at in 0..=lines.len() - window {
            let seen = has[at..at + window]
                .iter()
                .fold(0, |seen, bits| seen | bits);
            // The first line counts a little, because what is defined stands there.
            let score = seen.count_ones() * 4 + has[at].count_ones();
            if score > best {
                (best, start) = (score, at);
            }
        }
    }
    let shown = &lines[start..start + window];
    let shown: Vec<String> = shown.iter().map(|line| cut(line, LINE_BYTES_MAX)).collect();
    (start, shown.join("\n"))
}

/// Which of some words each line of a text has, one bit each.
fn words_by_line(text: &str, lines: usize, wanted: &[String]) -> Vec<u64> {
    let wanted = || wanted.iter().take(64).map(String::as_str);
    let bits: HashMap<&str, u64> = wanted().zip((0..).map(|at| 1 << at)).collect();
    let sieve = Sieve::of(wanted());
    let mut has = vec![0; lines];
    let mut breaks = memchr::memchr_iter(b'\n', text.as_bytes()).peekable();
    let (mut words, mut row) = (Words::of(text), 0);
    while words.advance_among(&sieve) {
        let Some(bit) = bits.get(words.text()) else {
            continue;
        };
        while breaks.next_if(|at| *at < words.start()).is_some() {
            row += 1;
        }
        has[row] |= bit;
    }
    has
}

/// At most so many bytes of a text.
pub(super) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    format!("{}…", &text[..end])
}

/// About how many tokens a hit has.
fn cost(hit: &Hit) -> usize {
    let texts = [&hit.signature, &hit.text, &hit.symbol];
    let texts = texts.into_iter().flatten().map(String::len).sum::<usize>();
    let copies = hit.copies.iter().flat_map(|copies| &copies.places);
    let copies = copies.map(String::len).sum::<usize>();
    HIT_TOKENS + (texts + copies + hit.reference.len() + hit.path.len()) / TOKEN_BYTES
}

/// Keeps the hits that fit, and says what was left out. `next` is where the answer would go on if all fit.
pub(super) fn fit(answer: &mut Answer, offset: usize, next: Option<usize>, tokens: Option<usize>) {
    let mut go_on = next;
    if let Some(tokens) = tokens {
        let mut used = 0;
        let fitting = answer.hits.iter().take_while(|hit| {
            used += cost(hit);
            used <= tokens
        });
        let keep = fitting.count().max(1);
        if keep < answer.hits.len() {
            let over = answer.hits.len() - keep;
            answer.hits.truncate(keep);
            answer.left_out.push(LeftOut {
                what: "hits that do not fit into max_tokens".to_owned(),
                count: Some(over as u64),
                how: "ask with `cursor`, a larger `max_tokens`, or a smaller `detail`".to_owned(),
            });
            go_on = Some(offset + keep);
        }
        if let [hit] = answer.hits.as_mut_slice()
            && cost(hit) > tokens
        {
            let rest = cost(hit) - hit.text.as_ref().map_or(0, String::len) / TOKEN_BYTES;
            let room = tokens.saturating_sub(rest) * TOKEN_BYTES;
            hit.text = hit.text.take().map(|text| cut(&text, room));
        }
    }
    let shown = (offset + answer.hits.len()) as u64;
    if let Some(go_on) = go_on {
        answer.cursor = Some(cursor(go_on));
        if next.is_some() {
            answer.left_out.push(LeftOut {
                what: "hits".to_owned(),
                count: Some(answer.total.saturating_sub(shown)),
                how: "ask with `cursor` for the next ones, or narrow the question by `paths`, `languages` or `directory`".to_owned(),
            });
        }
    }
}

/// The symbol of a file in which a byte stands, the innermost one.
pub(super) fn around(unit: &Unit, at: usize) -> Option<&Symbol> {
    let at = u32::try_from(at).ok()?;
    let holds = |bytes: Bytes| bytes.start <= at && at < bytes.end;
    let symbols = unit.parsed.symbols.iter();
    symbols
        .filter(|symbol| holds(symbol.span.bytes))
        .min_by_key(|symbol| symbol.span.bytes.len())
}

/// What is kept of a file, where it is in the index.
///
/// # Errors
///
/// When the index cannot be read.
pub(super) fn unit(scope: &Scope, tree: usize, entry: &Entry) -> Result<Option<Arc<Unit>>> {
    match entry.about.depth.is_indexed() {
        true => scope.trees[tree].family.unit(entry.unit),
        false => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snippet_shows_the_lines_with_the_words() {
        let text: String = (0..40).map(|i| format!("line {i}\n")).collect();
        let text = text.replace("line 30", "needle here");
        let (skipped, shown) = snippet(&text, &["needle".to_owned()]);
        assert_eq!(shown.lines().count(), SNIPPET_LINES);
        assert!(skipped <= 30 && shown.contains("needle here"));
        assert_eq!(snippet("one\ntwo", &[]), (0, "one\ntwo".to_owned()));
    }

    #[test]
    fn an_answer_keeps_to_its_tokens() {
        let hit = |i: usize| Hit {
            path: format!("{i}.rs"),
            text: Some("x".repeat(400)),
            ..Hit::default()
        };
        let mut answer = Answer {
            hits: (0..10).map(hit).collect(),
            total: 30,
            ..Answer::default()
        };
        fit(&mut answer, 10, Some(20), Some(500));
        assert_eq!(answer.hits.len(), 3);
        assert_eq!(answer.cursor.as_deref(), Some("o13"));
        assert_eq!(answer.left_out[0].count, Some(7));
        let mut answer = Answer {
            hits: vec![hit(0)],
            ..Answer::default()
        };
        fit(&mut answer, 0, None, Some(100));
        assert!(answer.hits[0].text.as_ref().unwrap().len() < 300);
        assert_eq!(cut("aé", 2), "a…");
    }
}
