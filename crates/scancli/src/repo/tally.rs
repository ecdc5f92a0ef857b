//! What a scan of a folder found: a line for each rule in a file, and a count for each rule in all.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use terminal::{Failure, visible};

use super::super::say::{Found, Judged, Output, count};

/// Places of one rule in one file that a line names.
const PLACES_MAX: usize = 5;

/// How often each rule found something, and in how many files.
#[derive(Default)]
pub(super) struct RuleTally {
    rules: BTreeMap<&'static str, (usize, usize)>,
}

impl RuleTally {
    pub(super) fn add(&mut self, judged: &Judged) {
        for group in groups(&judged.findings) {
            let (findings, files) = self.rules.entry(group[0].finding.rule.id).or_default();
            *findings += group.len();
            *files += 1;
        }
    }

    /// A line for each rule, the one that found most first; nothing where nothing was found.
    pub(super) fn words(&self) -> String {
        let mut rules: Vec<_> = self.rules.iter().collect();
        rules.sort_by_key(|(rule, (findings, _))| (std::cmp::Reverse(*findings), **rule));
        let width = rules.iter().map(|(rule, _)| rule.len()).max().unwrap_or(0);
        let mut words = String::new();
        for (rule, (findings, files)) in rules {
            let files = count(*files, "file");
            let _ = writeln!(words, "  {rule:width$}  {findings} in {files}");
        }
        words
    }
}

/// The findings of a file by rule, in the order of the first of each.
fn groups(findings: &[Found]) -> Vec<Vec<&Found>> {
    let mut groups: Vec<Vec<&Found>> = Vec::new();
    for found in findings {
        let (rule, action) = (found.finding.rule.id, found.finding.action);
        let same = |group: &&mut Vec<&Found>| {
            let first = &group[0].finding;
            first.rule.id == rule && first.action == action
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(found),
            None => groups.push(vec![found]),
        }
    }
    groups
}

/// The places of findings, each once with how often it was found there: one run of a text can hold several secrets.
fn places(group: &[&Found]) -> Vec<((usize, usize), usize)> {
    let mut places: Vec<((usize, usize), usize)> = Vec::new();
    for found in group {
        let at = (found.at.line, found.at.column);
        match places.iter_mut().find(|(place, _)| *place == at) {
            Some((_, times)) => *times += 1,
            None => places.push((at, 1)),
        }
    }
    places
}

/// ` ×3`, or nothing for once.
fn times_of(times: usize) -> String {
    match times {
        1 => String::new(),
        times => format!(" ×{times}"),
    }
}

/// Prints what was found in a file, each rule once with the other places where it found something.
pub(super) fn show(
    output: &mut Output,
    name: &str,
    judged: &Judged,
    explain: bool,
) -> Result<(), Failure> {
    for group in groups(&judged.findings) {
        let mut line = group[0].line(name, output.paint);
        let mut places = places(&group);
        line.truncate(line.trim_end().len());
        let (_, times) = places.remove(0);
        line += &times_of(times);
        let others = places;
        if !others.is_empty() {
            let places = others.iter().take(PLACES_MAX);
            let places: Vec<String> = places
                .map(|((line, column), times)| format!("{line}:{column}{}", times_of(*times)))
                .collect();
            let and = if others.len() > PLACES_MAX {
                ", …"
            } else {
                ""
            };
            let _ = write!(
                line,
                ", and {} more: {}{and}",
                others.len(),
                places.join(", ")
            );
        }
        line.push('\n');
        output.text(&line)?;
        if explain {
            output.text(&group[0].explanation())?;
        }
    }
    if judged.more > 0 {
        let more = count(judged.more, "more finding");
        output.text(&format!("{}: {more}\n", visible(name)))?;
    }
    if let Some(bound) = judged.bound {
        output.text(&format!("{}: not wholly scanned: {bound}\n", visible(name)))?;
    }
    Ok(())
}
