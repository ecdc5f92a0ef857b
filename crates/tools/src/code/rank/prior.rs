//! What a file's place says of its worth, unless the question names such files.
//!
//! Tests, generated files and the like are rarely what is looked for. Each row has a factor and the words that switch it
//! off: who asks for "tests of the parser" gets tests.

use crate::code::index::Entry;
use crate::code::parse::Nature;

/// One reason to rank a file lower.
struct Row {
    /// The factor, under one.
    factor: f32,
    /// The same for a question about code.
    about_code: f32,
    /// Words of a question that switch it off.
    asked: &'static [&'static str],
    /// Whether it fits a file: its path in lower case, its name, and what is known of it.
    fits: fn(&str, &str, &Entry) -> bool,
}

/// All reasons, in the order of their bits.
const ROWS: &[Row] = &[
    Row {
        factor: 0.65,
        about_code: 0.65,
        asked: &[
            "test",
            "tests",
            "testing",
            "spec",
            "specs",
            "fixture",
            "fixtures",
            "mock",
            "bench",
            "benchmark",
        ],
        fits: |path, name, _| {
            let stem = name.split('.').next().unwrap_or(name);
            has_dir(
                path,
                &[
                    "test",
                    "tests",
                    "spec",
                    "specs",
                    "__tests__",
                    "testing",
                    "testdata",
                    "fixtures",
                    "benches",
                    "bench",
                ],
            ) || stem.starts_with("test_")
                || stem.ends_with("_test")
                || stem.ends_with("_tests")
                || matches!(stem, "test" | "tests" | "conftest")
                || name.contains(".test.")
                || name.contains(".spec.")
        },
    },
    Row {
        factor: 0.5,
        about_code: 0.5,
        asked: &["vendor", "vendored", "third_party", "bundled"],
        fits: |path, _, _| {
            has_dir(
                path,
                &[
                    "vendor",
                    "vendored",
                    "_vendor",
                    "third_party",
                    "third-party",
                    "node_modules",
                    "extern",
                    "external",
                    "deps",
                ],
            )
        },
    },
    Row {
        factor: 0.5,
        about_code: 0.5,
        asked: &["generated", "lock", "lockfile", "protobuf", "minified"],
        fits: |_, name, entry| {
            matches!(entry.about.nature, Nature::Generated | Nature::Minified)
                || name.contains("_pb2")
                || name.contains(".pb.")
                || name.contains(".min.")
                || name.ends_with(".lock")
        },
    },
    Row {
        factor: 0.75,
        about_code: 0.75,
        asked: &[
            "example", "examples", "demo", "sample", "samples", "tutorial",
        ],
        fits: |path, _, _| {
            has_dir(
                path,
                &[
                    "example",
                    "examples",
                    "demo",
                    "demos",
                    "sample",
                    "samples",
                    "tutorials",
                ],
            )
        },
    },
    Row {
        factor: 0.8,
        about_code: 0.5,
        asked: &[
            "doc",
            "docs",
            "documentation",
            "readme",
            "guide",
            "manual",
            "changelog",
            "history",
            "release",
            "notes",
            "license",
        ],
        fits: |_, name, entry| {
            matches!(
                entry.about.language.name(),
                "markdown" | "text" | "restructuredtext" | "rst"
            ) || name.starts_with("changelog")
        },
    },
    Row {
        factor: 0.85,
        about_code: 0.85,
        asked: &[
            "config",
            "configuration",
            "settings",
            "json",
            "yaml",
            "toml",
            "ini",
            "workflow",
            "ci",
            "schema",
            "manifest",
        ],
        fits: |_, _, entry| {
            matches!(
                entry.about.language.name(),
                "json" | "yaml" | "toml" | "ini" | "xml" | "csv"
            )
        },
    },
    Row {
        factor: 0.75,
        about_code: 0.75,
        asked: &[
            "stub",
            "stubs",
            "declaration",
            "declarations",
            "typing",
            "types",
            "header",
            "pyi",
        ],
        fits: |_, name, _| name.ends_with(".d.ts") || name.ends_with(".pyi"),
    },
    Row {
        factor: 0.85,
        about_code: 0.85,
        asked: &["init", "index", "reexport", "exports", "package"],
        fits: |_, name, _| matches!(name, "__init__.py" | "index.ts" | "index.js" | "index.d.ts"),
    },
    Row {
        factor: 0.8,
        about_code: 0.8,
        asked: &["compat", "legacy", "deprecated", "old", "backport"],
        fits: |path, name, _| {
            has_dir(path, &["compat", "legacy", "deprecated", "backports"])
                || name.starts_with("compat.")
                || name.starts_with("_compat.")
        },
    },
];

fn has_dir(path: &str, names: &[&str]) -> bool {
    let Some((dirs, _)) = path.rsplit_once('/') else {
        return false;
    };
    dirs.split('/').any(|dir| names.contains(&dir))
}

/// The rows that a question leaves on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Priors {
    on: u32,
    code: bool,
}

impl Priors {
    /// All rows but those that a word of the question switches off.
    pub(crate) fn of(words: &[&str]) -> Priors {
        let named = |row: &Row| row.asked.iter().any(|asked| words.contains(asked));
        let on = ROWS.iter().enumerate();
        let on = on.filter(|(_, row)| !named(row));
        Priors {
            on: on.map(|(bit, _)| 1 << bit).sum(),
            code: false,
        }
    }

    /// The same for a question about code: documents rarely answer it.
    pub(crate) fn for_code(self, is_about_code: bool) -> Priors {
        Priors {
            code: is_about_code,
            ..self
        }
    }

    /// The factor of a file of which [`marks`] are known.
    pub(crate) fn factor(self, marks: u32) -> f32 {
        let mut factor = 1.0;
        let mut left = marks & self.on;
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            factor *= match self.code {
                true => ROWS[at].about_code,
                false => ROWS[at].factor,
            };
            left &= left - 1;
        }
        factor
    }
}

/// The rows that fit a file, one bit each.
pub(crate) fn marks(entry: &Entry) -> u32 {
    let path = entry.path.to_ascii_lowercase();
    let name = path.rsplit('/').next().unwrap_or(&path);
    let fitting = ROWS.iter().enumerate();
    let fitting = fitting.filter(|(_, row)| (row.fits)(&path, name, entry));
    fitting.map(|(bit, _)| 1 << bit).sum()
}
