//! The end of a run as text for a person: what it is worth first, what it found second, how to repeat it last.
//!
//! Everything fits 80 columns unless a name or a sentence is longer, and comes from the `Run` alone, so an old
//! `run.json` prints the same.

mod blocks;
mod matrix;

pub use matrix::matrix;

use super::units::{clock, count, number, plain};
use crate::result::{Note, Run, ThresholdResult, Verdict};
use crate::tally::Fault;

/// Most wrong answers that are printed; `run.json` has the others.
pub const NOTES_MAX: usize = 5;
/// Most criteria, warnings and thresholds of each that are printed.
const LINES_MAX: usize = 40;

/// The whole summary, ending in a line feed. `colour` marks the verdicts.
pub fn text(run: &Run, colour: bool) -> String {
    let mut lines = Vec::new();
    verdict(run, colour, &mut lines);
    thresholds(run, colour, &mut lines);
    integrity(run, colour, &mut lines);
    lines.push(String::new());
    blocks::run(run, &mut lines);
    notes(run, &mut lines);
    warnings(run, &mut lines);
    repeat(run, &mut lines);
    lines.join("\n") + "\n"
}

/// How a line under a verdict begins.
fn mark(holds: bool, colour: bool) -> &'static str {
    match (holds, colour) {
        (true, false) => "  ok    ",
        (true, true) => "  \u{1b}[32mok\u{1b}[0m    ",
        (false, false) => "  FAIL  ",
        (false, true) => "  \u{1b}[31mFAIL\u{1b}[0m  ",
    }
}

/// Words that a reader must not miss, or may rest on.
fn shout(text: &str, good: bool, colour: bool) -> String {
    match (colour, good) {
        (false, _) => text.to_owned(),
        (true, true) => format!("\u{1b}[1;32m{text}\u{1b}[0m"),
        (true, false) => format!("\u{1b}[1;31m{text}\u{1b}[0m"),
    }
}

fn verdict(run: &Run, colour: bool, lines: &mut Vec<String>) {
    let validity = &run.validity;
    let name = validity.verdict.as_str();
    let said = match validity.verdict {
        Verdict::Valid => "the numbers below can be used",
        Verdict::GeneratorBound => {
            "the generator was the limit: these are not the target's numbers"
        }
        Verdict::NoisyHost => {
            "the machine was busy with something else: do not quote these numbers"
        }
        Verdict::NotSaturated => "the target was not brought to its limit: this is no capacity",
        Verdict::TooShort => "too little was measured to judge it",
        Verdict::Interrupted => "stopped before its end: what was measured until then",
    };
    let good = validity.verdict == Verdict::Valid;
    let word = shout(&name.to_uppercase(), good, colour);
    lines.push(format!("{word}: {said}."));
    let broken = validity.criteria.iter().filter(|c| !c.holds);
    for criterion in broken.take(LINES_MAX) {
        let evidence = plain(&criterion.evidence);
        lines.push(format!("{}{evidence}", mark(false, colour)));
    }
}

fn thresholds(run: &Run, colour: bool, lines: &mut Vec<String>) {
    if run.thresholds.is_empty() {
        return;
    }
    let breached = run.thresholds.iter().filter(|t| !t.ok).count();
    let word = if breached == 0 {
        shout("THRESHOLDS HOLD", true, colour)
    } else {
        shout("THRESHOLDS BREACHED", false, colour)
    };
    let all = run.thresholds.len();
    let n = if breached == 0 { all } else { breached };
    lines.push(format!("{word}: {n} of {all}."));
    let text = |t: &ThresholdResult| format!("{} {}", plain(&t.metric), plain(&t.expression));
    let shown = run.thresholds.iter().take(LINES_MAX);
    let width = shown.clone().map(|t| text(t).chars().count()).max();
    let width = width.unwrap_or(0).min(60);
    for threshold in shown {
        let found = threshold.found.map_or_else(
            || "found nothing".to_owned(),
            |f| format!("found {}", number(f)),
        );
        let window = match plain(&threshold.window) {
            window if window.is_empty() => String::new(),
            window => format!(" ({window})"),
        };
        let mark = mark(threshold.ok, colour);
        lines.push(format!(
            "{mark}{:<width$}  {found}{window}",
            text(threshold)
        ));
    }
}

/// Said only when it was broken; a check that was not asked for proves nothing.
fn integrity(run: &Run, colour: bool, lines: &mut Vec<String>) {
    let wrong = run.total.errors.get(Fault::Integrity.as_str()).copied();
    let twice = run.origin.as_ref().map(|origin| origin.duplicates);
    let mut said = Vec::new();
    match wrong {
        None | Some(0) => {}
        Some(1) => said.push("1 answer was not what was sent".to_owned()),
        Some(n) => said.push(format!("{} answers were not what was sent", count(n))),
    }
    match twice {
        None | Some(0) => {}
        Some(1) => said.push("1 request reached the origin more than once".to_owned()),
        Some(n) => {
            let n = count(n);
            said.push(format!("{n} requests reached the origin more than once"));
        }
    }
    if !said.is_empty() {
        let word = shout("INTEGRITY BROKEN", false, colour);
        lines.push(format!("{word}: {}.", said.join("; ")));
    }
}

fn notes(run: &Run, lines: &mut Vec<String>) {
    if run.notes.is_empty() {
        return;
    }
    lines.push(String::new());
    lines.push(" wrong answers".to_owned());
    for note in run.notes.iter().take(NOTES_MAX) {
        note_lines(note, lines);
    }
    if run.notes.len() > NOTES_MAX {
        let more = run.notes.len() - NOTES_MAX;
        lines.push(format!("  and {more} more in run.json"));
    }
}

fn note_lines(note: &Note, lines: &mut Vec<String>) {
    let at = match note.offset {
        Some(offset) => format!(", first wrong byte at {}", count(offset)),
        None => String::new(),
    };
    lines.push(format!(
        "  {} request {} at {}: {}{at}: {}",
        plain(&note.flow),
        note.number,
        clock(note.t_s),
        plain(&note.fault),
        plain(&note.what)
    ));
    let dumps = [
        ("expected", &note.expected_hex),
        ("received", &note.received_hex),
    ];
    for (name, hex) in dumps {
        if let Some(hex) = hex {
            let dump = dump(hex).into_iter().enumerate();
            lines.extend(dump.map(|(row, line)| {
                let name = if row == 0 { name } else { "" };
                format!("    {name:<8}  {line}")
            }));
        }
    }
}

/// Sixteen bytes a line, in hex and as ASCII. Text that is not hex is shown as it is.
fn dump(hex: &str) -> Vec<String> {
    let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| {
        let digit = |d: u8| char::from(d).to_digit(16);
        Some((digit(pair[0])? * 16 + digit(*pair.get(1)?)?) as u8)
    };
    let Some(bytes) = digits.chunks(2).map(byte).collect::<Option<Vec<u8>>>() else {
        return vec![plain(hex)];
    };
    let line = |bytes: &[u8]| {
        let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
        let visible = |b: &u8| match b {
            b' '..=b'~' => char::from(*b),
            _ => '.',
        };
        let text: String = bytes.iter().map(visible).collect();
        format!("{:<47}  {text}", hex.join(" "))
    };
    bytes.chunks(16).map(line).collect()
}

fn warnings(run: &Run, lines: &mut Vec<String>) {
    if !run.warnings.is_empty() {
        lines.push(String::new());
    }
    let shown = run.warnings.iter().take(LINES_MAX);
    lines.extend(shown.map(|warning| format!(" warning: {}", plain(warning))));
}

fn repeat(run: &Run, lines: &mut Vec<String>) {
    let meta = &run.meta;
    lines.push(String::new());
    if !meta.command.is_empty() {
        let words: Vec<String> = meta.command.iter().map(|word| quoted(word)).collect();
        lines.push(format!(" repeat: {}", words.join(" ")));
    }
    let mut parts = vec![format!("seed {}", meta.seed)];
    if let Some(hash) = meta.scenario_sha256.get(..12) {
        parts.push(format!("scenario sha256 {}…", plain(hash)));
    }
    parts.push(format!("weir lab {}", plain(&meta.version)));
    parts.push(plain(&meta.started));
    lines.push(format!(" {}", parts.join(", ")));
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(bare) {
        word.to_owned()
    } else {
        format!("'{}'", plain(word).replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_shows_hex_and_ascii() {
        assert_eq!(
            dump("48656c6c6f00ff"),
            ["48 65 6c 6c 6f 00 ff                             Hello.."]
        );
        assert_eq!(dump(&"41".repeat(17)).len(), 2);
        assert_eq!(dump("4"), ["4"], "half a byte is shown as it is");
        assert_eq!(dump("zz\u{1b}"), ["zz\u{fffd}"]);
        assert!(dump("").is_empty());
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("http://a/b?c"), "'http://a/b?c'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("-c64"), "-c64");
    }
}
