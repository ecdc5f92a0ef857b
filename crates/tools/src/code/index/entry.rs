//! The files of a tree, as they were last seen.

use serde::{Deserialize, Serialize};

use super::{Blob, UnitId};
use crate::code::parse::{Language, Nature, Note};
use crate::code::place::Stamp;
use crate::code::rank::prior;

/// A file of a tree.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// Its path from the root of the tree.
    pub path: Box<str>,
    /// Tells whether it may have changed.
    pub stamp: Stamp,
    /// Whether the stamp would also fit a change that came right after it was read.
    pub racy: bool,
    /// Its content; of files that were never read, nothing.
    pub blob: Blob,
    /// Its documents.
    pub unit: UnitId,
    /// What it is.
    pub about: About,
    /// What its place says of its worth ([`prior`]).
    pub marks: u32,
}

impl Entry {
    /// A file with a content.
    pub(crate) fn new(path: Box<str>, stamp: Stamp, racy: bool, blob: Blob, about: About) -> Entry {
        let unit = UnitId::of(&path, &blob);
        let mut entry = Entry {
            path,
            stamp,
            racy,
            blob,
            unit,
            about,
            marks: 0,
        };
        entry.marks = prior::marks(&entry);
        entry
    }

    /// A file that was not looked at.
    pub(crate) fn unseen(path: &str, stamp: Stamp) -> Entry {
        let about = About::only(Depth::Pending, Language::detect(path, b""));
        Entry::new(path.into(), stamp, true, Blob::default(), about)
    }

    /// The same file, to be looked at again.
    pub(crate) fn pending(mut self) -> Entry {
        self.about.depth = Depth::Pending;
        self.racy = true;
        self
    }
}

impl About {
    /// Of a file that has no documents.
    pub(crate) fn only(depth: Depth, language: Language) -> About {
        About {
            depth,
            language,
            nature: Nature::Written,
            chunks: 0,
            symbols: 0,
            notes: Vec::new(),
        }
    }
}

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct About {
    /// How it can be found.
    pub depth: Depth,
    /// Its language.
    pub language: Language,
    /// Who wrote it.
    pub nature: Nature,
    /// Its chunks.
    pub chunks: u32,
    /// Its definitions.
    pub symbols: u32,
    /// What could not be done with it.
    pub notes: Vec<Note>,
}

/// How a file can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Depth {
    /// It was not looked at yet.
    Pending,
    /// By everything.
    Meaning,
    /// By name and text: too large to be cut.
    Text,
    /// By name: not text.
    Binary,
    /// By name: too large to be read.
    Large,
    /// By name: it cannot be read.
    Unreadable,
}

impl Depth {
    /// Whether it has documents in the index.
    pub(crate) fn is_indexed(self) -> bool {
        matches!(self, Depth::Meaning | Depth::Text)
    }
}
