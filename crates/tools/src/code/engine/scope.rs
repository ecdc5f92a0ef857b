//! Which trees and which files a question is about, and where its answer goes on.

use globset::{GlobBuilder, GlobMatcher};

use crate::code::api::{Error, Result, Search};
use crate::code::index::{Entry, kind_bit};
use crate::code::parse::{Language, SymbolKind};

/// Globs of one question.
const GLOBS_MAX: usize = 32;
/// Bytes of a question that is not exact text.
const QUERY_BYTES_MAX: usize = 8 << 10;

/// Which files count.
#[derive(Default)]
pub(super) struct Files {
    directory: Option<String>,
    with: Vec<GlobMatcher>,
    without: Vec<GlobMatcher>,
    languages: Vec<Language>,
    file_type: Option<String>,
}

/// Says no with what to write instead.
pub(super) fn bad<T>(field: &'static str, problem: impl Into<String>) -> Result<T> {
    Err(Error::Ask {
        field,
        problem: problem.into(),
    })
}

impl Files {
    /// The files that a search is about.
    ///
    /// # Errors
    ///
    /// [`Error::Ask`] with the field that cannot be as it is.
    pub(super) fn of(ask: &Search) -> Result<Files> {
        let mut files = Files::new(
            ask.directory.as_deref(),
            &ask.languages,
            ask.file_type.as_deref(),
        )?;
        if ask.paths.len() > GLOBS_MAX {
            return bad("paths", format!("has over {GLOBS_MAX} globs"));
        }
        for glob in &ask.paths {
            match glob.strip_prefix('!') {
                Some(glob) => files.without.push(matcher(glob)?),
                None => files.with.push(matcher(glob)?),
            }
        }
        Ok(files)
    }

    /// The files below a directory, in some languages, with an extension.
    ///
    /// # Errors
    ///
    /// As [`Files::of`].
    pub(super) fn new(
        directory: Option<&str>,
        languages: &[String],
        file_type: Option<&str>,
    ) -> Result<Files> {
        let directory = match directory {
            None => None,
            Some("") => return bad("directory", "is empty; leave it out to search everywhere"),
            Some(path) if path.starts_with('/') || path.split('/').any(|part| part == "..") => {
                return bad(
                    "directory",
                    "is a path from the root of the repository, without `..`",
                );
            }
            Some(path) => Some(
                path.trim_start_matches("./")
                    .trim_end_matches('/')
                    .to_owned(),
            ),
        };
        let file_type = match file_type {
            None => None,
            Some(kind) if kind.starts_with('.') => {
                return bad(
                    "file_type",
                    format!("begins with a dot; write `{}`", &kind[1..]),
                );
            }
            Some(kind) if kind.is_empty() || kind.len() > 20 => {
                return bad("file_type", "has 1 to 20 characters, such as `rs`");
            }
            Some(kind) => Some(kind.to_lowercase()),
        };
        let named = |name: &String| {
            let found = Language::named(&name.to_lowercase());
            found.map_or_else(
                || {
                    bad(
                        "languages",
                        format!("there is no language `{name}`; {}", known_languages()),
                    )
                },
                Ok,
            )
        };
        Ok(Files {
            directory: directory.filter(|directory| !directory.is_empty() && directory != "."),
            with: Vec::new(),
            without: Vec::new(),
            languages: languages.iter().map(named).collect::<Result<_>>()?,
            file_type,
        })
    }

    /// The same files, in some languages only.
    ///
    /// # Errors
    ///
    /// As [`Files::of`].
    pub(super) fn and_languages(mut self, languages: &[String]) -> Result<Files> {
        self.languages = Files::new(None, languages, None)?.languages;
        Ok(self)
    }

    /// Only one file.
    ///
    /// # Errors
    ///
    /// As [`Files::of`].
    pub(super) fn only(path: &str) -> Result<Files> {
        let mut files = Files::default();
        files.with.push(matcher(&globset::escape(path))?);
        Ok(files)
    }

    /// Whether all files count.
    pub(super) fn is_all(&self) -> bool {
        let filters = self.directory.is_some() || self.file_type.is_some();
        let globs = self.with.len() + self.without.len();
        !filters && globs + self.languages.len() == 0
    }

    /// Whether a file counts.
    pub(super) fn has(&self, entry: &Entry) -> bool {
        let path = &*entry.path;
        let below = |directory: &String| {
            path.strip_prefix(directory.as_str())
                .is_some_and(|rest| rest.starts_with('/'))
        };
        let of_type = |kind: &String| {
            let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
            name.strip_suffix(kind.as_str())
                .is_some_and(|stem| stem.ends_with('.'))
        };
        self.directory.as_ref().is_none_or(below)
            && (self.languages.is_empty() || self.languages.contains(&entry.about.language))
            && self.file_type.as_ref().is_none_or(of_type)
            && (self.with.is_empty() || self.with.iter().any(|glob| glob.is_match(path)))
            && !self.without.iter().any(|glob| glob.is_match(path))
    }
}

fn known_languages() -> String {
    let names: Vec<&str> = Language::all().map(Language::name).collect();
    format!("there are: {}", names.join(", "))
}

/// A glob over paths; without a slash it is about names.
pub(super) fn matcher(glob: &str) -> Result<GlobMatcher> {
    let whole = match glob.trim_start_matches("./") {
        name if !name.contains('/') => format!("**/{name}"),
        path if path.ends_with('/') => format!("{path}**"),
        path => path.trim_start_matches('/').to_owned(),
    };
    let built = GlobBuilder::new(&whole).literal_separator(true).build();
    match built {
        Ok(glob) => Ok(glob.compile_matcher()),
        Err(error) => bad("paths", format!("`{glob}` is no glob: {error}")),
    }
}

/// The bits of a kind of symbol.
///
/// # Errors
///
/// [`Error::Ask`] with the kinds there are.
pub(super) fn kinds(name: Option<&str>) -> Result<Option<u64>> {
    let Some(name) = name else {
        return Ok(None);
    };
    kind(name).map(|kind| Some(kind_bit(kind)))
}

/// A kind of symbol by its name.
///
/// # Errors
///
/// As [`kinds`].
pub(super) fn kind(name: &str) -> Result<SymbolKind> {
    let value = serde_json::Value::String(name.to_lowercase());
    serde_json::from_value(value).or_else(|error| {
        let error = error.to_string();
        let there = error.split("expected").nth(1).unwrap_or_default().trim();
        bad(
            "symbol_kind",
            format!("there is no kind `{name}`; there is {there}"),
        )
    })
}

/// The word of a kind of symbol.
pub(super) fn kind_name(kind: SymbolKind) -> String {
    let value = serde_json::to_value(kind).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// How many hits are wanted.
///
/// # Errors
///
/// [`Error::Ask`] outside of 1 to `most`.
pub(super) fn limit(asked: Option<u32>, default: usize, most: usize) -> Result<usize> {
    match asked.map(|asked| asked as usize) {
        None => Ok(default),
        Some(limit) if (1..=most).contains(&limit) => Ok(limit),
        Some(limit) => bad("limit", format!("is {limit}; it must be from 1 to {most}")),
    }
}

/// How many tokens an answer may have.
///
/// # Errors
///
/// [`Error::Ask`] under 100.
pub(super) fn tokens(asked: Option<u32>) -> Result<Option<usize>> {
    match asked {
        Some(tokens) if tokens < 100 => bad("max_tokens", "is under 100, which holds no hit"),
        tokens => Ok(tokens.map(|tokens| tokens as usize)),
    }
}

/// Where an answer begins.
///
/// # Errors
///
/// [`Error::Ask`] when it is no cursor of ours.
pub(super) fn offset(cursor: Option<&str>) -> Result<usize> {
    let Some(cursor) = cursor else {
        return Ok(0);
    };
    let number = cursor
        .strip_prefix('o')
        .and_then(|number| number.parse().ok());
    match number {
        Some(number) if number <= 1_000_000 => Ok(number),
        _ => bad(
            "cursor",
            "is not one that an answer gave; leave it out to begin anew",
        ),
    }
}

/// The cursor of a place.
pub(super) fn cursor(offset: usize) -> String {
    format!("o{offset}")
}

/// Checks a question.
///
/// # Errors
///
/// [`Error::Ask`] when it is empty or too long.
pub(super) fn query(query: &str) -> Result<&str> {
    let trimmed = query.trim();
    if trimmed.is_empty() {
        return bad("query", "is empty; write what to look for");
    }
    if trimmed.len() > QUERY_BYTES_MAX {
        return bad(
            "query",
            format!("has over {QUERY_BYTES_MAX} bytes; write a part of it"),
        );
    }
    Ok(trimmed)
}

/// A reference in its parts: `repository:path@blob#Lfirst-Llast`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    /// The repository, by name.
    pub repository: String,
    /// The file.
    pub path: String,
    /// The first digits of its digest.
    pub blob: Option<String>,
    /// First and last line.
    pub lines: Option<(u32, u32)>,
}

impl Reference {
    /// Reads a reference.
    ///
    /// # Errors
    ///
    /// [`Error::Ask`] when it is none.
    pub(super) fn read(text: &str) -> Result<Reference> {
        let wrong = || {
            bad(
                "ref",
                format!(
                    "`{text}` is no reference; it looks like `repository:path@blob#L10-L20`, as hits have it"
                ),
            )
        };
        let Some((repository, rest)) = text.split_once(':') else {
            return wrong();
        };
        let (rest, lines) = match rest.rsplit_once("#L") {
            None => (rest, None),
            Some((rest, lines)) => {
                let (first, last) = lines.split_once('-').unwrap_or((lines, lines));
                let first: Option<u32> = first.parse().ok();
                let last: Option<u32> = last.trim_start_matches('L').parse().ok();
                match (first, last) {
                    (Some(first), Some(last)) if 1 <= first && first <= last => {
                        (rest, Some((first, last)))
                    }
                    _ => return wrong(),
                }
            }
        };
        let is_blob = |blob: &str| blob.len() == 16 && blob.bytes().all(|b| b.is_ascii_hexdigit());
        let (path, blob) = match rest.rsplit_once('@') {
            Some((path, blob)) if is_blob(blob) => (path, Some(blob.to_owned())),
            _ => (rest, None),
        };
        if repository.is_empty() || path.is_empty() {
            return wrong();
        }
        Ok(Reference {
            repository: repository.to_owned(),
            path: path.to_owned(),
            blob,
            lines,
        })
    }

    /// Writes one.
    pub(super) fn text(
        repository: &str,
        path: &str,
        blob: &str,
        lines: Option<(u32, u32)>,
    ) -> String {
        match lines {
            Some((first, last)) => format!("{repository}:{path}@{blob}#L{first}-L{last}"),
            None => format!("{repository}:{path}@{blob}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_as_they_are_written() {
        let text = Reference::text("weir", "a b/c@d.rs", "0123456789abcdef", Some((3, 9)));
        let read = Reference::read(&text).unwrap();
        assert_eq!((&*read.repository, &*read.path), ("weir", "a b/c@d.rs"));
        assert_eq!(
            (read.blob.as_deref(), read.lines),
            (Some("0123456789abcdef"), Some((3, 9)))
        );
        assert_eq!(Reference::read("weir:a.rs#L7").unwrap().lines, Some((7, 7)));
        assert_eq!(Reference::read("weir:a@b").unwrap().path, "a@b");
        for wrong in ["", "a.rs", ":a", "w:", "w:a#L9-L3", "w:a#L0-L1", "w:a#Lx"] {
            assert!(Reference::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let text = |error: Error| error.to_string();
        assert!(text(kinds(Some("klass")).unwrap_err()).contains("function"));
        assert!(text(limit(Some(51), 10, 50).unwrap_err()).contains("1 to 50"));
        assert!(limit(Some(0), 10, 50).is_err() && limit(None, 10, 50) == Ok(10));
        assert!(offset(Some("7")).is_err() && offset(Some("o7")) == Ok(7));
        let file_type = Files::new(None, &[], Some(".rs"));
        assert!(text(file_type.err().unwrap()).contains("`rs`"));
        assert!(Files::new(Some("../x"), &[], None).is_err());
        let language = Files::new(None, &["elvish".to_owned()], None);
        assert!(text(language.err().unwrap()).contains("rust"));
        assert!(query("  ").is_err());
    }

    #[test]
    fn globs_are_of_names_or_paths() {
        let is = |glob: &str, path: &str| matcher(glob).unwrap().is_match(path);
        assert!(is("*.rs", "a/b/c.rs") && is("a/**/*.rs", "a/b/c.rs") && is("a/", "a/b/c.rs"));
        assert!(!is("a/*.rs", "a/b/c.rs") && !is("*.rs", "c.py"));
        assert!(matcher("[").is_err());
    }
}
