//! The paths of a tree in lower case, in one piece: looking for a part of a path is one pass over it.

use std::sync::Arc;

use memchr::memmem;

use super::entry::Entry;

/// The paths of some files.
pub(crate) struct Paths {
    /// One after the other, each with a line break behind it.
    text: String,
    /// Where each begins, and where the last one ends.
    starts: Vec<usize>,
}

impl Paths {
    /// The paths of files.
    pub(crate) fn of(entries: &[Arc<Entry>]) -> Paths {
        let mut text = String::new();
        let mut starts = Vec::with_capacity(entries.len() + 1);
        for entry in entries {
            starts.push(text.len());
            match entry.path.is_ascii() {
                true => {
                    text.push_str(&entry.path);
                    let start = starts[starts.len() - 1];
                    text[start..].make_ascii_lowercase();
                }
                false => text.push_str(&entry.path.to_lowercase()),
            }
            text.push('\n');
        }
        starts.push(text.len());
        Paths { text, starts }
    }

    /// The path of a file, by its place among them.
    pub(crate) fn get(&self, at: usize) -> &str {
        let end = self.starts[at + 1] - 1;
        &self.text[self.starts[at]..end]
    }

    /// The places of the files whose path has a part, which is in lower case.
    pub(crate) fn with(&self, part: &str) -> Vec<usize> {
        let count = self.starts.len() - 1;
        if part.is_empty() || part.contains('\n') {
            return (0..count)
                .filter(|at| self.get(*at).contains(part))
                .collect();
        }
        let found = memmem::find_iter(self.text.as_bytes(), part);
        let mut places: Vec<usize> = found
            .map(|at| self.starts.partition_point(|start| *start <= at) - 1)
            .collect();
        places.dedup();
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::place::Stamp;

    #[test]
    fn a_part_is_found_in_any_case_and_only_within_a_path() {
        let files = ["A/b.rs", "a/Äb.rs", "b.rs", "src/a\nb"];
        let entries = files.map(|path| Arc::new(Entry::unseen(path, Stamp::default())));
        let paths = Paths::of(&entries);
        assert_eq!(paths.with("a/b"), [0]);
        assert_eq!(paths.with("b.rs"), [0, 1, 2]);
        assert_eq!(paths.with("/äb"), [1]);
        assert_eq!(paths.with("rsa"), [0; 0]);
        assert_eq!(paths.with("a\nb"), [3]);
        assert_eq!(paths.with(""), [0, 1, 2, 3]);
        assert_eq!((paths.get(1), paths.get(3)), ("a/äb.rs", "src/a\nb"));
    }
}
