//! What may be asked. Every field but the first has a default, and unknown fields are refused by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a query is understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// By what it looks like: a name, a path, or words; ranked.
    #[default]
    Auto,
    /// An exact substring; every line that has it.
    Text,
    /// A regular expression, matched within lines; every line that matches.
    Regex,
    /// The name of something that is defined, also misspelt or in part.
    Symbol,
    /// By meaning, by vectors where an embedding endpoint is configured; else as `auto`.
    Semantic,
}

/// How much of each hit is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    /// Where it is.
    Paths,
    /// Where it is, and the signature.
    Signatures,
    /// The lines that matter most.
    #[default]
    Snippets,
    /// The whole piece.
    Full,
}

/// Find code by meaning, by name or by text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Search {
    /// What to look for: words ("where are retries bounded"), a name (`Type::method`), a path, exact text or a regex.
    pub query: String,
    /// How the query is understood: auto, text (exact substring), regex, symbol or semantic.
    pub mode: Mode,
    /// For text and regex: whether upper and lower case are the same.
    pub ignore_case: bool,
    /// Only repositories of this project.
    pub project: Option<String>,
    /// Only these repositories, by name; all when empty.
    pub repositories: Vec<String>,
    /// Only files below this directory of a repository.
    pub directory: Option<String>,
    /// Only files whose path matches one of these globs; one that begins with `!` leaves files out.
    pub paths: Vec<String>,
    /// Only files in these languages (rust, python, …).
    pub languages: Vec<String>,
    /// Only files whose name ends so, without the dot (rs, py, …).
    pub file_type: Option<String>,
    /// Only pieces that define something of this kind (function, method, class, struct, …).
    pub symbol_kind: Option<String>,
    /// Most hits, 1 to 50; 10 when not given.
    pub limit: Option<u32>,
    /// Where to go on: the `cursor` of the answer before.
    pub cursor: Option<String>,
    /// How much of each hit to show: paths, signatures, snippets or full.
    pub detail: Detail,
    /// About how many tokens the whole answer may have, 100 or more; what does not fit is left out and counted.
    pub max_tokens: Option<u32>,
    /// Show how the score came about.
    pub explain: bool,
}

/// Find pieces that are like one piece.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Related {
    /// The `ref` of a hit.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Only these repositories, by name; all of the project when empty.
    pub repositories: Vec<String>,
    /// Most hits, 1 to 50; 10 when not given.
    pub limit: Option<u32>,
    /// How much of each hit to show.
    pub detail: Detail,
    /// About how many tokens the whole answer may have.
    pub max_tokens: Option<u32>,
}

/// What is wanted of a symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SymbolWant {
    /// Where it is defined.
    #[default]
    Definition,
    /// Every line that names it as a whole word, definitions apart.
    References,
    /// Everything that a file defines, in order.
    Outline,
}

/// Find where a name is defined or used, or what a file defines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SymbolAsk {
    /// The name: plain (`pass`) or with its parent (`Gate::pass`, `Gate.pass`). Not for an outline.
    pub name: Option<String>,
    /// definition, references or outline.
    pub want: SymbolWant,
    /// The file: for an outline; else only this file is looked at.
    pub path: Option<String>,
    /// Only this kind (function, method, class, …).
    pub symbol_kind: Option<String>,
    /// Only repositories of this project.
    pub project: Option<String>,
    /// Only these repositories, by name; all when empty.
    pub repositories: Vec<String>,
    /// Only files in these languages.
    pub languages: Vec<String>,
    /// Most hits, 1 to 200; 20 when not given.
    pub limit: Option<u32>,
    /// Where to go on: the `cursor` of the answer before.
    pub cursor: Option<String>,
    /// How much of each hit to show.
    pub detail: Detail,
    /// About how many tokens the whole answer may have.
    pub max_tokens: Option<u32>,
}

/// Find files by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FilesAsk {
    /// Part of a path, words of it in any order, or a glob (`**/*.rs`). All files when empty.
    pub query: String,
    /// Only repositories of this project.
    pub project: Option<String>,
    /// Only these repositories, by name; all when empty.
    pub repositories: Vec<String>,
    /// Only files below this directory of a repository.
    pub directory: Option<String>,
    /// Only files in these languages.
    pub languages: Vec<String>,
    /// Only files whose name ends so, without the dot.
    pub file_type: Option<String>,
    /// Most files, 1 to 1,000; 50 when not given.
    pub limit: Option<u32>,
    /// Where to go on: the `cursor` of the answer before.
    pub cursor: Option<String>,
}

/// Read a piece of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReadAsk {
    /// The `ref` of a hit. Or name `repository` and `path`.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// The repository, by name; may be left out when there is one.
    pub repository: Option<String>,
    /// The file, from the root of the repository.
    pub path: Option<String>,
    /// First line, from 1; of the reference when not given.
    pub start_line: Option<u32>,
    /// Last line; of the reference, or as far as the bound allows, when not given.
    pub end_line: Option<u32>,
    /// Lines to add before and after, at most 200.
    pub context: Option<u32>,
    /// About how many tokens the answer may have; 8,000 when not given.
    pub max_tokens: Option<u32>,
}

/// Index a tree, or bring its index up to date. One tree has one job: asking again answers the same job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IndexAsk {
    /// The directory: absolute, or from an allowed root. The first root itself when empty.
    pub path: String,
    /// The project that the repository belongs to; `default` when not given.
    pub project: Option<String>,
    /// What to call the repository; the directory's name when not given.
    pub name: Option<String>,
    /// Parse every file again, as if nothing was known.
    pub force: bool,
    /// Wait so long for the end, in seconds, 0 to 50, and tell the progress meanwhile. 0 when not given.
    pub wait_s: u32,
}

/// Give up a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelAsk {
    /// The job's id, as index_repository or index_status told it.
    pub job: String,
}

/// List what is indexed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListAsk {
    /// Only repositories of this project.
    pub project: Option<String>,
}

/// Ask how far indexing is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StatusAsk {
    /// One job; all when not given.
    pub job: Option<String>,
    /// One repository; all when not given.
    pub repository: Option<String>,
    /// Only repositories of this project.
    pub project: Option<String>,
}

/// Forget a repository: its index is deleted, its files are not touched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Remove {
    /// The repository, by name.
    pub repository: String,
    /// Its project; may be left out when the name is unique.
    pub project: Option<String>,
}
