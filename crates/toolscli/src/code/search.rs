//! `weir code search`: find code and show the lines.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use terminal::{visible, visible_lines};
use tools::code::api::{Answer as Found, Hit, Repositories};

use super::index::{Calls, Index, failure};
use crate::{Answer, Ended, Failure, print, remark};

/// Find code by meaning, by name or by text
///
/// A tree that is not indexed yet is indexed first.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir code search where are retries bounded
  weir code search Gate::pass
  weir code search --mode regex 'fn \\w+_at_most' --path 'crates/**/*.rs'
  weir code search --mode text 'TODO(' --limit 50 --json

Exit codes: 0 something was found, 1 nothing was, 2 it could not be searched.")]
pub struct SearchCommand {
    /// What to look for: words, a name, a path, exact text or a regular expression
    #[arg(value_name = "QUERY", required = true)]
    query: Vec<String>,
    /// How it is understood
    #[arg(long, value_enum, value_name = "MODE", default_value = "auto")]
    mode: Mode,
    /// Do not tell upper from lower case (text and regex)
    #[arg(short, long)]
    ignore_case: bool,
    /// Only files whose path matches this glob, or with ! before it those that do not; may be given more than once
    #[arg(short, long = "path", value_name = "GLOB")]
    paths: Vec<String>,
    /// Only files in this language; may be given more than once
    #[arg(short, long = "language", value_name = "LANGUAGE")]
    languages: Vec<String>,
    /// Only what defines something of this kind: function, method, class, struct, …
    #[arg(short, long, value_name = "KIND")]
    kind: Option<String>,
    /// Most places
    #[arg(short = 'n', long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=50))]
    limit: u32,
    /// How much of each place is shown
    #[arg(long, value_enum, value_name = "DETAIL", default_value = "snippets")]
    detail: Detail,
    /// Print the whole answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    index: Index,
}

/// How a query is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    Auto,
    Text,
    Regex,
    Symbol,
    Semantic,
}

/// How much of each place is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Detail {
    Paths,
    Signatures,
    Snippets,
    Full,
}

/// The word of a value, as the tools have it.
fn word<T: ValueEnum>(value: T) -> String {
    let value = value.to_possible_value();
    value
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

impl SearchCommand {
    pub(crate) fn run(self) -> Ended {
        let settings = self.index.settings(false)?;
        let roots = settings.engine.roots.clone();
        let calls = Calls::open(settings)?;
        let known = calls.call("list_repositories", serde_json::Map::new(), |_| {});
        let known: Repositories = read(known.map_err(failure)?.value)?;
        if known.repositories.is_empty() {
            for root in &roots {
                calls.index(root, false)?;
            }
        }
        let arguments = json!({
            "query": self.query.join(" "),
            "mode": word(self.mode),
            "ignore_case": self.ignore_case,
            "paths": self.paths,
            "languages": self.languages,
            "symbol_kind": self.kind,
            "limit": self.limit,
            "detail": word(self.detail),
        });
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let said = calls
            .call("search_code", arguments, |_| {})
            .map_err(failure)?;
        let found: Found = read(said.value.clone())?;
        if self.json {
            print(&format!("{}\n", said.value))?;
        } else {
            print(&shown(&found, known.repositories.len() > 1))?;
            remarks(&found).iter().for_each(|line| remark(line));
        }
        Ok(match found.hits.is_empty() {
            true => Answer::No,
            false => Answer::Yes,
        })
    }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value)
        .map_err(|error| Failure::new(format!("the index's answer: {error}"), ""))
}

fn shown(found: &Found, several: bool) -> String {
    let colour = terminal::has_colour(&std::io::stdout());
    let mut text = String::new();
    for hit in &found.hits {
        text.push_str(&place(hit, several, colour));
    }
    text
}

/// What is said beside the hits, where a program that reads them does not look.
fn remarks(found: &Found) -> Vec<String> {
    let mut lines = Vec::new();
    if found.hits.is_empty() {
        lines.push("nothing found".to_owned());
    }
    for left in &found.left_out {
        let count = left.count.map(|n| format!("{n} ")).unwrap_or_default();
        lines.push(format!("left out: {count}{}", left.what));
    }
    if found.standing.coverage < 1.0 {
        lines.push("indexing goes on: not all files were searched".to_owned());
    }
    lines
}

fn place(hit: &Hit, several: bool, colour: bool) -> String {
    let (path_on, number_on, off) = match colour {
        true => ("\x1b[1;35m", "\x1b[32m", "\x1b[0m"),
        false => ("", "", ""),
    };
    let repository = if several {
        format!("{}/", hit.repository)
    } else {
        String::new()
    };
    let name = hit
        .symbol
        .as_deref()
        .map(|name| format!("  {}", visible(name)));
    let name = name.unwrap_or_default();
    let mut text = format!(
        "{path_on}{repository}{}{off}:{}{name}\n",
        visible(&hit.path),
        hit.start_line
    );
    let lines = hit
        .text
        .as_deref()
        .or(hit.signature.as_deref())
        .unwrap_or_default();
    let first = hit.text_line.unwrap_or(hit.start_line);
    for (i, line) in lines.lines().enumerate() {
        let number = first as usize + i;
        text.push_str(&format!(
            "{number_on}{number:>6}{off}  {}\n",
            visible_lines(line)
        ));
    }
    if let Some(more) = hit.more_in_file {
        text.push_str(&format!("        and {more} more in this file\n"));
    }
    if let Some(copies) = &hit.copies {
        let noun = if copies.count == 1 { "copy" } else { "copies" };
        text.push_str(&format!("        and {} {noun} of it\n", copies.count));
        for place in &copies.places {
            text.push_str(&format!("          {}\n", visible(place)));
        }
    }
    if !lines.is_empty() {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_cannot_paint_the_terminal() {
        let hit = Hit {
            path: "a.rs".into(),
            start_line: 7,
            text: Some("let x = 1;\n\x1b[2J\u{9b}31m\tend\n".into()),
            ..Hit::default()
        };
        let text = place(&hit, false, false);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(!text.contains(['\x1b', '\u{9b}']), "{text}");
        assert!(text.contains("     7  let x = 1;") && text.contains("     8  "));
    }
}
