//! A run as Markdown: what a pull request or a page of CI shows. The same numbers as the summary, as tables.

use std::fmt::Write as _;
use std::path::Path;

use super::artefact;
use super::units::{count, duration, number, percent, plain};
use crate::exit::Failure;
use crate::result::{Run, Summary};

/// Writes the file: one section for each run.
///
/// # Errors
///
/// It cannot be written.
pub fn write(cells: &[(String, Run)], path: &Path) -> Result<(), Failure> {
    let text = text(cells);
    artefact::replace(path, text.as_bytes(), |draft| {
        let back = std::fs::read(draft).map_err(|e| Failure::new(e.to_string(), ""))?;
        match back == text.as_bytes() {
            true => Ok(()),
            false => Err(Failure::new("it is not what was written", "")),
        }
    })
}

/// The whole file.
pub fn text(cells: &[(String, Run)]) -> String {
    let mut out = String::new();
    for (label, run) in cells {
        section(label, run, &mut out);
    }
    out
}

fn section(label: &str, run: &Run, out: &mut String) {
    let name = [run.meta.name.as_str(), label]
        .into_iter()
        .filter(|text| !text.is_empty());
    let name = name.collect::<Vec<&str>>().join(": ");
    let _ = writeln!(
        out,
        "## {}\n",
        cell(if name.is_empty() { "load" } else { &name })
    );
    let _ = writeln!(out, "**{}**", run.validity.verdict.as_str());
    for criterion in run
        .validity
        .criteria
        .iter()
        .filter(|criterion| !criterion.holds)
    {
        let _ = writeln!(out, "\n- {}", cell(&criterion.evidence));
    }
    *out += "\n| what | requests | a second | failed | p50 | p95 | p99 | max |\n|---|--:|--:|--:|--:|--:|--:|--:|\n";
    row("all", &run.measured, out);
    for flow in &run.flows {
        if run.flows.len() > 1 {
            row(&flow.name, &flow.measured, out);
        }
        for kind in flow.kinds.iter().filter(|_| flow.kinds.len() > 1) {
            row(&format!("{}: {}", flow.name, kind.name), &kind.summary, out);
        }
    }
    if !run.thresholds.is_empty() {
        *out += "\n| threshold | found | |\n|---|--:|---|\n";
        for threshold in &run.thresholds {
            let found = threshold.found.map_or("nothing".to_owned(), number);
            let verdict = if threshold.ok {
                "holds"
            } else {
                "**breached**"
            };
            let _ = writeln!(
                out,
                "| {} {} | {found} | {verdict} |",
                cell(&threshold.metric),
                cell(&threshold.expression)
            );
        }
    }
    let repeat: Vec<String> = run.meta.command.iter().map(|word| plain(word)).collect();
    if !repeat.is_empty() {
        let _ = writeln!(out, "\nAgain: `{}`", repeat.join(" ").replace('`', "'"));
    }
    out.push('\n');
}

fn row(name: &str, summary: &Summary, out: &mut String) {
    let all = summary.good + summary.failed;
    let failed = match all {
        0 => "-".to_owned(),
        _ => format!(
            "{} ({})",
            count(summary.failed),
            percent(summary.failed as f64 / all as f64)
        ),
    };
    let times = match summary.latency.get("response") {
        Some(found) => [found.p50, found.p95, found.p99, found.max].map(duration),
        None => ["-", "-", "-", "-"].map(str::to_owned),
    };
    let _ = writeln!(
        out,
        "| {} | {} | {} | {failed} | {} |",
        cell(name),
        count(summary.requests),
        number(summary.rate),
        times.join(" | ")
    );
}

/// A text that stays in its cell and begins nothing of Markdown or HTML.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in plain(text).chars() {
        match c {
            '<' => out += "&lt;",
            '&' => out += "&amp;",
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_cell() {
        let mut run = Run::default();
        run.meta.name = "a|b<script>".to_owned();
        let text = text(&[("x=1".to_owned(), run)]);
        assert!(text.starts_with("## a\\|b&lt;script>: x=1\n"), "{text}");
        assert!(
            text.contains("| all | 0 | 0 | - | - | - | - | - |"),
            "{text}"
        );
    }
}
