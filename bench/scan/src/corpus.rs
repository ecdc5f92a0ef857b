//! Real text to measure on: documents, source and JSON of the crates that cargo has on this machine.
//!
//! Where there are none, a small text of our own stands in, so that the program runs anywhere; the figures
//! are of real text only. Nothing of it is copied into the project.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes that are read of each kind.
const KIND_BYTES: usize = 4 << 20;
/// Bytes of one file that are used, so that no file is most of the corpus.
const FILE_BYTES_MAX: usize = 64 << 10;
/// Files that are looked at.
const FILES_MAX: usize = 40_000;
/// Stands in where cargo has no sources.
const FALLBACK: &str = include_str!("../../../docs/performance.md");

/// Some megabytes of each kind.
pub struct Corpus {
    pub documents: String,
    pub source: String,
    pub json: String,
    /// Whether it is real.
    pub real: bool,
}

impl Corpus {
    pub fn read() -> Corpus {
        let files = files();
        let of = |ends: &[&str]| {
            let mut text = String::new();
            let named = |path: &&PathBuf| {
                let name = path.to_string_lossy();
                ends.iter().any(|end| name.ends_with(end))
            };
            for path in files.iter().filter(named) {
                let Ok(more) = fs::read_to_string(path) else {
                    continue;
                };
                // Plain ASCII: what other scripts cost is measured by itself.
                let more = more.replace(|c: char| !c.is_ascii(), "");
                text.push_str(&more[..more.len().min(FILE_BYTES_MAX)]);
                if text.len() >= KIND_BYTES {
                    break;
                }
            }
            match text.is_empty() {
                true => FALLBACK.replace(|c: char| !c.is_ascii(), "").repeat(200),
                false => text,
            }
        };
        Corpus {
            real: !files.is_empty(),
            documents: of(&["README.md", "CHANGELOG.md", "README", "RELEASES.md"]),
            source: of(&[".rs"]),
            json: of(&[".json"]),
        }
    }

    /// Stretches of `bytes` bytes, each of one kind, the kinds in turn.
    pub fn stretches(&self, bytes: usize, count: usize) -> Vec<String> {
        let kinds = [&self.documents, &self.source, &self.json];
        let stretch = |i: usize| {
            let text = kinds[i % 3];
            let start = (i / 3 * 131_071) % text.len().saturating_sub(bytes).max(1);
            text[start..text.len().min(start + bytes)].to_owned()
        };
        (0..count).map(stretch).collect()
    }

    /// All stretches of `bytes` bytes, each once, the kinds in turn.
    pub fn each_once(&self, bytes: usize) -> Vec<String> {
        let mut kinds = [&self.documents, &self.source, &self.json]
            .map(|text| text.as_bytes().chunks_exact(bytes));
        let mut all = Vec::new();
        while let [Some(one), Some(two), Some(three)] = kinds.each_mut().map(Iterator::next) {
            all.extend([one, two, three].map(|text| String::from_utf8_lossy(text).into_owned()));
        }
        all
    }

    /// A text of all kinds.
    pub fn mixed(&self, bytes: usize) -> String {
        let kinds = [&self.documents, &self.source, &self.json];
        let parts = kinds.map(|text| &text[..text.len().min(bytes / 3)]);
        parts.concat()
    }
}

/// Every file of every crate, in an order that is the same on each run.
fn files() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let Some(home) = home else {
        return Vec::new();
    };
    let mut files = Vec::new();
    walk(&home.join("registry/src"), &mut files);
    // By a hash of the name, so that neighbours are of different crates.
    files.sort_by_cached_key(|path| {
        let name = path.to_string_lossy();
        name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    });
    files
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        if files.len() >= FILES_MAX {
            return;
        }
        match path.is_dir() {
            true => walk(&path, files),
            false => files.push(path),
        }
    }
}
